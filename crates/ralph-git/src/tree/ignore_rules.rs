//! Git's ignore rules: `.gitignore` in every directory, the repository's `info/exclude` and the user's own file.

use std::sync::Arc;

use super::glob::GitGlob;

/// Characters that start the non-literal part of a pattern.
const WILDCARDS: &[u8] = b"*?[\\";

/// The patterns of one file. They take precedence over those of `outer`.
#[derive(Debug)]
pub(super) struct IgnoreRules {
    patterns: Vec<IgnorePattern>,
    /// Length of the path of the directory that the patterns apply to.
    base: usize,
    outer: Option<Arc<IgnoreRules>>,
}

#[derive(Debug)]
struct IgnorePattern {
    verdict: IgnoreVerdict,
    only_directories: bool,
    scope: PatternScope,
    /// The literal prefix; `glob` matches what follows it.
    literal: Vec<u8>,
    glob: Option<GitGlob>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreVerdict {
    Ignored,
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternScope {
    /// Matches the last component of a path, at any depth.
    Name,
    /// Matches the path relative to the directory of the file.
    Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreSubject {
    File,
    Directory,
}

impl IgnoreRules {
    /// Parses the file content `text`. Returns `outer` if it has no patterns.
    pub(super) fn new(text: &[u8], base: usize, outer: Option<Arc<Self>>) -> Option<Arc<Self>> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = text.split(|byte| *byte == b'\n');
        let patterns: Vec<IgnorePattern> = lines.filter_map(IgnorePattern::new).collect();
        if patterns.is_empty() {
            return outer;
        }
        Some(Arc::new(Self { patterns, base, outer }))
    }

    /// The last matching pattern of the nearest file decides.
    pub(super) fn verdict(&self, path: &[u8], subject: IgnoreSubject) -> IgnoreVerdict {
        let mut rules = Some(self);
        while let Some(current) = rules {
            let inside = path.get(current.base..).unwrap_or_default();
            let found = current.patterns.iter().rev().find(|one| one.matches(inside, subject));
            if let Some(pattern) = found {
                return pattern.verdict;
            }
            rules = current.outer.as_deref();
        }
        IgnoreVerdict::Kept
    }
}

impl IgnorePattern {
    fn new(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        if line.starts_with(b"#") {
            return None;
        }
        let text = without_trailing_spaces(line);
        let (verdict, text) = match text.strip_prefix(b"!") {
            Some(text) => (IgnoreVerdict::Kept, text),
            None => (IgnoreVerdict::Ignored, text),
        };
        let (only_directories, text) = match text.strip_suffix(b"/") {
            Some(text) => (true, text),
            None => (false, text),
        };
        if text.is_empty() {
            return None;
        }
        let scope = if text.contains(&b'/') { PatternScope::Path } else { PatternScope::Name };
        let text = text.strip_prefix(b"/").unwrap_or(text);
        let wild = text.iter().position(|byte| WILDCARDS.contains(byte)).unwrap_or(text.len());
        let (literal, rest) = match scope {
            PatternScope::Path => text.split_at(wild),
            PatternScope::Name if wild == text.len() => (text, &b""[..]),
            PatternScope::Name => (&b""[..], text),
        };
        let glob = (!rest.is_empty()).then(|| GitGlob::new(rest));
        Some(Self { verdict, only_directories, scope, literal: literal.to_vec(), glob })
    }

    fn matches(&self, path: &[u8], subject: IgnoreSubject) -> bool {
        if self.only_directories && subject == IgnoreSubject::File {
            return false;
        }
        let text = match self.scope {
            PatternScope::Path => path,
            PatternScope::Name => path.rsplit(|byte| *byte == b'/').next().unwrap_or_default(),
        };
        let Some(rest) = text.strip_prefix(&*self.literal) else { return false };
        self.glob.as_ref().map_or(rest.is_empty(), |glob| glob.matches(rest))
    }
}

/// Trailing spaces are ignored unless a backslash precedes them.
fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = 0;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            end = at;
        }
    }
    line.get(..end).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pattern_and_the_nearest_file_decide() {
        use IgnoreSubject::{Directory, File};
        use IgnoreVerdict::{Ignored, Kept};
        let user = IgnoreRules::new(b"*.log\n*.tmp\n", 0, None);
        let root = IgnoreRules::new(b"# comment\n\n/build/\n!kept.log\nname \nspace\\ \n", 0, user);
        let below = IgnoreRules::new(b"\xef\xbb\xbf!*.tmp\r\na/b\n/only\n", 4, root).unwrap();
        for (path, subject, expected) in [
            ("sub/x.log", File, Ignored),
            ("sub/kept.log", File, Kept),
            ("sub/x.tmp", File, Kept),
            ("sub/a/b", File, Ignored),
            ("sub/c/a/b", File, Kept),
            ("sub/only", File, Ignored),
            ("sub/d/only", File, Kept),
            ("sub/build", Directory, Kept),
            ("build", Directory, Ignored),
            ("build", File, Kept),
            ("sub/name", File, Ignored),
            ("sub/space ", File, Ignored),
            ("sub/space", File, Kept),
            ("sub/# comment", File, Kept),
        ] {
            assert_eq!(below.verdict(path.as_bytes(), subject), expected, "{path}");
        }
        assert!(IgnoreRules::new(b"\n# nothing\n/\n", 0, None).is_none());
    }
}
