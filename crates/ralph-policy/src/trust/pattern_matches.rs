//! Expands a pattern of a shell (`chk/*.sh`) to the files that match it.

use super::TrustError;
use globset::{GlobBuilder, GlobMatcher};
use ralph_sys::fs::{self, FileKind};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: usize = 32;
const ANY_DEPTH: &str = "**";

/// The files and directories that match, sorted, and how many names were compared.
#[derive(Debug, Default)]
pub(super) struct PatternMatches {
    pub(super) paths: Vec<PathBuf>,
    pub(super) lookups: usize,
}

/// Finds what matches a pattern below `base`, as a shell does it: `*` matches neither `/` nor a dot at the beginning.
/// `None` if the pattern is not understood.
pub(super) fn find_matches(
    base: &Path,
    pattern: &str,
    budget: usize,
) -> Result<Option<PatternMatches>, TrustError> {
    let mut found = PatternMatches { paths: vec![base.to_path_buf()], lookups: 0 };
    for component in Path::new(pattern).components() {
        let Component::Normal(name) = component else {
            found.paths.iter_mut().for_each(|path| path.push(component));
            continue;
        };
        let Some(name) = name.to_str() else { return Ok(None) };
        if name == ANY_DEPTH {
            found.add_directories_below(budget)?;
        } else if super::executed_scripts::is_pattern(name) {
            let Some(matcher) = compile_pattern(name) else { return Ok(None) };
            found.replace_by_matches(name, &matcher, budget)?;
        } else {
            found.paths.iter_mut().for_each(|path| path.push(name));
            found.paths.retain(|path| fs::exists(path));
        }
    }
    found.paths.sort();
    found.paths.dedup();
    Ok(Some(found))
}

/// Those of `paths` that match a pattern, in the order of `find_matches`. `None` if the pattern is not understood.
pub fn matching_paths<'a>(pattern: &str, paths: &[&'a str]) -> Option<Vec<&'a str>> {
    let components: Option<Vec<_>> = pattern.split('/').map(PatternComponent::parse).collect();
    let components = components?;
    let is_match = |path: &&&str| match_components(&components, path);
    let mut found: Vec<&str> = paths.iter().filter(is_match).copied().collect();
    found.sort_by_key(|path| Path::new(*path));
    Some(found)
}

/// One name in a pattern.
enum PatternComponent<'a> {
    AnyDepth,
    Matcher { name: &'a str, matcher: GlobMatcher },
    Literal(&'a str),
}

impl<'a> PatternComponent<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        if name == ANY_DEPTH {
            Some(Self::AnyDepth)
        } else if super::executed_scripts::is_pattern(name) {
            Some(Self::Matcher { name, matcher: compile_pattern(name)? })
        } else {
            Some(Self::Literal(name))
        }
    }
}

fn match_components(components: &[PatternComponent<'_>], path: &str) -> bool {
    let Some((component, others)) = components.split_first() else { return false };
    let (name, below) = match path.split_once('/') {
        Some((name, below)) => (name, Some(below)),
        None => (path, None),
    };
    let is_match = match component {
        PatternComponent::AnyDepth => {
            let is_deeper = || {
                let below = below.filter(|_| !is_hidden(OsStr::new(name)));
                below.is_some_and(|below| match_components(components, below))
            };
            return match_components(others, path) || is_deeper();
        }
        PatternComponent::Matcher { name: pattern, matcher } => {
            matcher.is_match(name) && (pattern.starts_with('.') || !is_hidden(OsStr::new(name)))
        }
        PatternComponent::Literal(literal) => *literal == name,
    };
    let is_last = others.is_empty();
    is_match && below.map_or(is_last, |below| match_components(others, below))
}

fn compile_pattern(name: &str) -> Option<GlobMatcher> {
    // Classes such as `[[:alpha:]]` mean something else here.
    if ["[:", "[.", "[="].iter().any(|class| name.contains(class)) {
        return None;
    }
    GlobBuilder::new(name).literal_separator(true).build().ok().map(|glob| glob.compile_matcher())
}

impl PatternMatches {
    fn list(&mut self, directory: &Path, budget: usize) -> Result<Vec<PathBuf>, TrustError> {
        if !fs::is_directory(directory) {
            return Ok(Vec::new());
        }
        let names = fs::list_if_exists(directory, MAX_ENTRIES)?;
        self.lookups += names.len();
        if self.lookups > budget {
            return Err(TrustError::TooManyReferences("a pattern matches in too many directories"));
        }
        Ok(names.into_iter().map(|name| directory.join(name)).collect())
    }

    fn replace_by_matches(
        &mut self,
        name: &str,
        matcher: &GlobMatcher,
        budget: usize,
    ) -> Result<(), TrustError> {
        let matches_hidden = name.starts_with('.');
        for directory in std::mem::take(&mut self.paths) {
            let entries = self.list(&directory, budget)?.into_iter();
            self.paths.extend(entries.filter(|path| {
                let name = path.file_name().unwrap_or_default();
                matcher.is_match(name) && (matches_hidden || !is_hidden(name))
            }));
        }
        Ok(())
    }

    fn add_directories_below(&mut self, budget: usize) -> Result<(), TrustError> {
        let mut waiting: Vec<(PathBuf, usize)> =
            self.paths.iter().map(|path| (path.clone(), 0)).collect();
        while let Some((directory, depth)) = waiting.pop() {
            if depth >= MAX_DEPTH {
                continue;
            }
            for path in self.list(&directory, budget)? {
                if is_hidden(path.file_name().unwrap_or_default()) || !fs::is_directory(&path) {
                    continue;
                }
                // A link matches, but is not followed: it could lead back to a directory above.
                let stat = fs::stat_no_follow(&path);
                if stat.is_some_and(|stat| stat.kind == FileKind::Directory) {
                    waiting.push((path.clone(), depth + 1));
                }
                self.paths.push(path);
            }
        }
        Ok(())
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_what_a_shell_matches() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["e.sh", "chk/deep/d.sh", "chk/b.txt", "chk/b.sh", "chk/a.sh", "chk/.c.sh"];
        for name in names {
            let path = directory.path().join(name);
            fs::create_user_dir(path.parent().unwrap()).unwrap();
            fs::replace_user_file(&path, b"").unwrap();
        }
        let shown = |pattern: &str| {
            let found = find_matches(directory.path(), pattern, 1000).unwrap();
            found.map_or("?".to_string(), |found| {
                let relative = found.paths.iter().map(|path| {
                    path.strip_prefix(directory.path()).unwrap().to_string_lossy().into_owned()
                });
                relative.collect::<Vec<_>>().join(" ")
            })
        };
        for (pattern, expected) in [
            ("chk/*.sh", "chk/a.sh chk/b.sh"),
            ("./chk/[!a].sh", "chk/b.sh"),
            ("chk/.*.sh", "chk/.c.sh"),
            ("*/b.sh", "chk/b.sh"),
            ("chk/{a,b}.*", "chk/a.sh chk/b.sh chk/b.txt"),
            ("**/?.sh", "chk/a.sh chk/b.sh chk/deep/d.sh e.sh"),
            ("none/*.sh", ""),
            ("chk/*[.sh", "?"),
            ("chk/[[:alpha:]].sh", "?"),
        ] {
            assert_eq!(shown(pattern), expected, "{pattern}");
            // The names alone, as those of a commit, match the same.
            let pattern = pattern.trim_start_matches("./");
            let found = matching_paths(pattern, &names);
            assert_eq!(
                found.map_or("?".to_string(), |found| found.join(" ")),
                expected,
                "{pattern}"
            );
        }
        assert!(find_matches(directory.path(), "chk/*.sh", 2).is_err());
    }
}
