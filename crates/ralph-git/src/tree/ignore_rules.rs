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
    /// Whether they are ralph's own, about what tools leave behind.
    is_built_in: bool,
    outer: Option<Arc<IgnoreRules>>,
}

/// Whether the built-in patterns apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolOutput {
    Ignored,
    /// In a directory that a pattern of the project re-includes.
    Listed,
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

impl ToolOutput {
    /// The same for a subdirectory, whose path ends with a slash.
    pub(super) fn below(self, path: &[u8], rules: Option<&IgnoreRules>) -> Self {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let is_re_included = rules.is_some_and(|rules| rules.re_includes(path));
        if is_re_included { Self::Listed } else { self }
    }
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
        Some(Arc::new(Self { patterns, base, is_built_in: false, outer }))
    }

    /// The patterns that ralph adds to those of every repository.
    pub(super) fn built_in(text: &[u8], base: usize) -> Self {
        let patterns = text.split(|byte| *byte == b'\n').filter_map(IgnorePattern::new).collect();
        Self { patterns, base, is_built_in: true, outer: None }
    }

    /// The last matching pattern of the nearest file decides.
    pub(super) fn verdict(
        &self,
        path: &[u8],
        subject: IgnoreSubject,
        tool_output: ToolOutput,
    ) -> IgnoreVerdict {
        let applies = |rules: &&Self| !rules.is_built_in || tool_output == ToolOutput::Ignored;
        let mut all = self.with_outer().filter(applies);
        let found = all.find_map(|rules| rules.own_verdict(path, subject));
        found.unwrap_or(IgnoreVerdict::Kept)
    }

    /// Whether a pattern of the project keeps a directory that the built-in ones ignore.
    fn re_includes(&self, path: &[u8]) -> bool {
        let subject = IgnoreSubject::Directory;
        let mut built_in = self.with_outer().filter(|rules| rules.is_built_in);
        built_in.any(|rules| rules.own_verdict(path, subject) == Some(IgnoreVerdict::Ignored))
            && self.verdict(path, subject, ToolOutput::Ignored) == IgnoreVerdict::Kept
    }

    fn with_outer(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rules| rules.outer.as_deref())
    }

    fn own_verdict(&self, path: &[u8], subject: IgnoreSubject) -> Option<IgnoreVerdict> {
        let inside = path.get(self.base..).unwrap_or_default();
        let found = self.patterns.iter().rev().find(|one| one.matches(inside, subject));
        found.map(|pattern| pattern.verdict)
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
            let verdict = below.verdict(path.as_bytes(), subject, ToolOutput::Ignored);
            assert_eq!(verdict, expected, "{path}");
        }
        assert!(IgnoreRules::new(b"\n# nothing\n/\n", 0, None).is_none());
    }
}
