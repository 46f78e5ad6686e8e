//! Resolves paths without a file system: where a spelling leads from a directory, and whether that is guarded.

use super::word_expansion::{WordSpelling, unescape_wildcards};
use super::{GuardContext, GuardScope, GuardTarget};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// An absolute path, one pattern per component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPattern {
    components: Vec<String>,
    /// Stands for an unknown path below it.
    is_open: bool,
}

/// How a command uses a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathUse {
    Write,
    /// Removes or moves it with everything below.
    Remove,
    Read,
}

/// Where a path is relative to a guarded one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathRelation {
    Apart,
    Above,
    At,
    Below,
}

impl PathPattern {
    pub(super) fn new(path: &str) -> Self {
        let mut place = Self { components: Vec::new(), is_open: false };
        place.push(&WordSpelling::literal(path).text);
        place
    }

    /// Where a spelling leads from `directory`; `None` if that is unknown.
    pub(super) fn resolve(spelling: &WordSpelling, directory: Option<&Self>) -> Option<Self> {
        let mut text = spelling.text.as_str();
        if spelling.is_open {
            // `~/.ralph$x` may be a sibling of `~/.ralph`: only complete components are known.
            text = text.get(..text.rfind('/')?.max(1))?;
        }
        if text.is_empty() {
            return None;
        }
        let mut place = if text.starts_with('/') {
            Self { components: Vec::new(), is_open: false }
        } else {
            directory?.clone()
        };
        place.push(text);
        place.is_open |= spelling.is_open;
        Some(place)
    }

    pub(super) fn push(&mut self, text: &str) {
        for component in text.split('/') {
            match component {
                "" | "." => {}
                ".." => drop(self.components.pop()),
                _ => self.components.push(component.to_owned()),
            }
        }
    }

    pub(super) fn spelling(&self) -> WordSpelling {
        let text = alloc::format!("/{}", self.components.join("/"));
        WordSpelling { text, is_open: self.is_open }
    }

    pub(super) fn parent(mut self) -> Self {
        self.components.pop();
        self
    }

    fn relation(&self, guarded: &str) -> PathRelation {
        let mut mine = self.components.iter().peekable();
        let mut theirs = guarded.split('/').filter(|name| !name.is_empty()).peekable();
        loop {
            match (mine.next(), theirs.next()) {
                // In `**/cache` the stars match directories only, not a guarded file.
                (Some(pattern), Some(_))
                    if is_star(pattern) && mine.peek().is_some() && theirs.peek().is_none() =>
                {
                    return PathRelation::Apart;
                }
                (Some(pattern), Some(name)) if matches_pattern(pattern, name) => {}
                (Some(_), Some(_)) => return PathRelation::Apart,
                (Some(_), None) => return PathRelation::Below,
                (None, Some(_)) => return PathRelation::Above,
                (None, None) if self.is_open => return PathRelation::Below,
                (None, None) => return PathRelation::At,
            }
        }
    }

    /// The path below `directory`, with its wildcards.
    fn relative_to(&self, directory: &str) -> Option<String> {
        let names: Vec<&str> = directory.split('/').filter(|name| !name.is_empty()).collect();
        let (above, below) = self.components.split_at_checked(names.len())?;
        let is_inside =
            above.iter().zip(&names).all(|(pattern, name)| matches_pattern(pattern, name));
        (is_inside && !below.is_empty()).then(|| unescape_wildcards(&below.join("/")))
    }
}

/// Whether it is a file in a directory for claims, spelled without wildcards, which could match other files too.
fn is_claim(place: &PathPattern, ground: &GuardContext<'_>) -> bool {
    let is_plain = |name: &String| !name.contains(['*', '?', '[', '{']);
    !place.is_open
        && place.components.iter().all(is_plain)
        && ground.claims.iter().any(|claims| place.relation(claims) == PathRelation::Below)
}

/// What is guarded at this path against this kind of use.
pub(super) fn guarded_target(
    place: &PathPattern,
    touch: PathUse,
    ground: &GuardContext<'_>,
) -> Option<GuardTarget> {
    for home in ground.ralph_homes {
        let relation = place.relation(home);
        if relation == PathRelation::Below && is_key(place, home, touch) {
            return Some(GuardTarget::Key);
        }
        if is_affected(relation, place, touch) && !is_claim(place, ground) {
            return Some(GuardTarget::Home);
        }
    }
    if touch == PathUse::Read {
        return None;
    }
    let is_among =
        |files: &[&str]| files.iter().any(|file| is_affected(place.relation(file), place, touch));
    if is_among(ground.settings) {
        return Some(GuardTarget::Settings);
    }
    if ground.scope == GuardScope::HomeOnly {
        return None;
    }
    if is_among(ground.policy_files) {
        return Some(GuardTarget::Policy);
    }
    let path = place.relative_to(ground.project)?;
    if path == ".git/refs/ralph" || path.starts_with(".git/refs/ralph/") {
        return Some(GuardTarget::CheckpointRefs);
    }
    if touch == PathUse::Remove && (path == ".git/hooks" || path.starts_with(".git/hooks/")) {
        return Some(GuardTarget::GitHooks);
    }
    let is_protected = !place.is_open && (ground.is_protected)(&path)
        // `tests/**` matches files in the directory, not the directory itself.
        || (place.is_open || touch == PathUse::Remove) && (ground.is_protected)(&alloc::format!("{path}/_"));
    is_protected.then_some(GuardTarget::Protected)
}

fn is_affected(relation: PathRelation, place: &PathPattern, touch: PathUse) -> bool {
    match (relation, touch) {
        (PathRelation::At | PathRelation::Below, PathUse::Write | PathUse::Remove) => true,
        (PathRelation::Above, PathUse::Remove) => !place.is_open,
        (PathRelation::Above, PathUse::Write) | (_, PathUse::Read) | (PathRelation::Apart, _) => {
            false
        }
    }
}

fn is_star(pattern: &str) -> bool {
    matches!(pattern, "*" | "**")
}

/// The files with ralph's keys, in its home.
pub(super) const KEY_FILES: [&str; 2] = ["key", "signing-key"];

/// For writes, a wildcard does not count: it means more files than the key.
fn is_key(place: &PathPattern, home: &str, touch: PathUse) -> bool {
    let depth = home.split('/').filter(|name| !name.is_empty()).count();
    match place.components.get(depth..) {
        Some([name]) if !place.is_open => {
            let is_key = |key| name == key || touch == PathUse::Read && matches_pattern(name, key);
            KEY_FILES.iter().any(|key| is_key(*key))
        }
        _ => false,
    }
}

/// Matches a name against a pattern as the shell does: a leading dot must be matched explicitly.
pub(super) fn matches_pattern(pattern: &str, name: &str) -> bool {
    if pattern == name {
        return true;
    }
    if name.starts_with('.') && !pattern.starts_with('.') && !pattern.starts_with("\\.") {
        return false;
    }
    // Longer names do not exist, and matching takes time proportional to the product of both lengths.
    if pattern.len() > 512 || name.len() > 512 {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(at), name.get(seen)) {
            (None, None) => return true,
            (Some('*'), _) => {
                retry = Some((at + 1, seen));
                at += 1;
                continue;
            }
            (Some(_), Some(char)) => match_one(&pattern, at, *char),
            (None, Some(_)) | (Some(_), None) => None,
        };
        match (step, retry) {
            (Some(next), _) => {
                at = next;
                seen += 1;
            }
            (None, Some((after_star, from))) if from < name.len() => {
                retry = Some((after_star, from + 1));
                at = after_star;
                seen = from + 1;
            }
            (None, _) => return false,
        }
    }
}

/// The next position in the pattern, if the element at `at` matches this character.
fn match_one(pattern: &[char], at: usize, char: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '\\' => (pattern.get(at + 1) == Some(&char)).then_some(at + 2),
        '[' => match_class(pattern, at, char).or_else(|| (char == '[').then_some(at + 1)),
        plain => (*plain == char).then_some(at + 1),
    }
}

fn match_class(pattern: &[char], at: usize, char: char) -> Option<usize> {
    let mut from = at + 1;
    let is_negated = matches!(pattern.get(from), Some('!' | '^'));
    from += usize::from(is_negated);
    let close = pattern.iter().skip(from + 1).position(|char| *char == ']')? + from + 1;
    let mut is_in = false;
    let mut next = from;
    while next < close {
        let low = *pattern.get(next)?;
        match (pattern.get(next + 1), pattern.get(next + 2)) {
            (Some('-'), Some(high)) if next + 2 < close => {
                is_in |= (low..=*high).contains(&char);
                next += 3;
            }
            _ => {
                is_in |= low == char;
                next += 1;
            }
        }
    }
    (is_in != is_negated).then_some(close + 1)
}

/// All guarded paths at or below this one whose names match one of `names`; all of them if `names` is empty.
pub(super) fn guarded_paths_below(
    place: &PathPattern,
    names: &[WordSpelling],
    ground: &GuardContext<'_>,
) -> Vec<WordSpelling> {
    let policies = if ground.scope == GuardScope::Run { ground.policy_files } else { &[] };
    let all = ground.ralph_homes.iter().chain(ground.settings).chain(policies);
    let like = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        // Unlike the shell, `find -name` lets `*` match a leading dot.
        let is_like = |pattern: &WordSpelling| {
            matches_pattern(&alloc::format!("_{}", pattern.text), &alloc::format!("_{name}"))
        };
        names.is_empty() || names.iter().any(is_like)
    };
    all.filter(|path| {
        matches!(place.relation(path), PathRelation::Above | PathRelation::At) && like(path)
    })
    .map(|path| WordSpelling::literal(path))
    .collect()
}
