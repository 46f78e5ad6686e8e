//! Checks that the text a finding quotes is in the file it names.

use crate::diff_sections::{new_side, old_side, split_diff};
use ralph_core::judge::{DropReason, DroppedFinding, JudgeCase, JudgeFinding, ReviewTest};
use ralph_core::redact::Redactor;
use ralph_core::text::{self, collapse_whitespace};
use ralph_sys::fs::{self, FileError};
use std::path::{Component, Path};

const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Shorter quotes are in any file.
const MIN_QUOTE_CHARS: usize = 3;
const EXCERPT_LINES: usize = 30;

/// Words of a claim about a file that is not there.
const MISSING_WORDS: &[&str] =
    &["missing", "not exist", "no such", "absent", "not created", "not added", "never added"];

/// The files that findings are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotedFiles<'a> {
    pub(crate) root: &'a Path,
    pub(crate) case: &'a JudgeCase,
    pub(crate) redactor: &'a Redactor,
}

/// Findings whose quotes are in the files, and others, all of them cleaned and redacted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckedFindings {
    pub(crate) kept: Vec<JudgeFinding>,
    pub(crate) dropped: Vec<DroppedFinding>,
}

impl QuotedFiles<'_> {
    pub(crate) fn check_findings(&self, findings: Vec<JudgeFinding>) -> CheckedFindings {
        let mut checked = CheckedFindings::default();
        for finding in findings {
            match self.find_place(&finding) {
                Ok(place) => checked.kept.push(self.kept_finding(finding, &place)),
                Err(why) => checked.dropped.push(self.dropped_finding(&finding, why)),
            }
        }
        checked
    }

    pub(crate) fn dropped_finding(
        &self,
        finding: &JudgeFinding,
        why: DropReason,
    ) -> DroppedFinding {
        DroppedFinding::new(finding, why, |foreign| self.safe_text(foreign))
    }

    fn find_place(&self, finding: &JudgeFinding) -> Result<QuotePlace, DropReason> {
        if !is_plain_path(&finding.file) {
            return Err(DropReason::BadPath);
        }
        let content = self.read_file(&finding.file);
        let quote = collapse_whitespace(&self.safe_text(&finding.quote));
        if !quote.is_empty() {
            return self.find_quote(finding, &content).ok_or(DropReason::Misquoted);
        }
        let is_missing = matches!(content, FileText::Missing) && names_missing_file(&finding.claim);
        if is_missing { Ok(QuotePlace::Diff) } else { Err(DropReason::NoQuote) }
    }

    fn kept_finding(&self, finding: JudgeFinding, place: &QuotePlace) -> JudgeFinding {
        let found_at = match place {
            QuotePlace::Line(line) => Some(*line),
            QuotePlace::Diff => None,
        };
        JudgeFinding {
            // The place of the quote is known; the model's count of lines often is not.
            line: found_at.or(finding.line),
            claim: self.redactor.redact(&finding.claim),
            quote: self.safe_text(&finding.quote),
            test: finding
                .test
                .map(|test| ReviewTest { content: self.redactor.redact(&test.content), ..test }),
            ..finding
        }
    }

    /// Where the quote is: in the file, or in the diff that the judge was shown.
    fn find_quote(&self, finding: &JudgeFinding, content: &FileText) -> Option<QuotePlace> {
        // Models copy the marks of a diff although they are asked not to.
        let bare: Vec<_> = finding.quote.lines().map(bare_line).collect();
        let bare = bare.join("\n");
        let quotes = [
            collapse_whitespace(&self.safe_text(&finding.quote)),
            collapse_whitespace(&self.safe_text(&bare)),
        ];
        let quotes = quotes.iter().filter(|quote| is_long_enough(quote));
        if let FileText::Text(content) = content {
            for quote in quotes.clone() {
                if let Some(line) = find_line(content, quote, finding.line) {
                    return Some(QuotePlace::Line(line));
                }
            }
        }
        // Hidden characters are escapes in the diff, so an exact copy of a line may not be in the file.
        let sides =
            [self.diff_side(&finding.file, old_side), self.diff_side(&finding.file, new_side)];
        let is_shown =
            |quote: &String| sides.iter().any(|side| find_line(side, quote, None).is_some());
        quotes.into_iter().any(is_shown).then_some(QuotePlace::Diff)
    }

    /// The lines around a finding, with their numbers.
    pub(crate) fn excerpt(&self, finding: &JudgeFinding) -> String {
        let FileText::Text(content) = self.read_file(&finding.file) else { return String::new() };
        let middle = finding.line.map_or(1, |line| usize::try_from(line).unwrap_or(1));
        let first = middle.saturating_sub(EXCERPT_LINES).max(1);
        let lines = content.lines().enumerate().skip(first - 1).take(2 * EXCERPT_LINES);
        let mut out = String::new();
        for (at, line) in lines {
            out.push_str(&format!("{:>5} {line}\n", at + 1));
        }
        out
    }

    fn diff_side(&self, path: &str, side: fn(&str) -> String) -> String {
        let diffs = [&self.case.test_diff, &self.case.diff];
        let sections = diffs.into_iter().flat_map(|diff| split_diff(diff));
        let text: String =
            sections.filter(|one| one.path == path).map(|one| side(one.text)).collect();
        self.safe_text(&text)
    }

    /// As a judge saw it: cleaned and redacted.
    fn safe_text(&self, foreign: &str) -> String {
        self.redactor.redact(&text::clean(foreign))
    }

    /// Follows no symbolic link, so that no finding names a file outside of the root.
    fn read_file(&self, path: &str) -> FileText {
        let mut below = self.root.to_path_buf();
        for part in path.split('/') {
            below.push(part);
            match fs::stat_no_follow(&below) {
                None => return FileText::Missing,
                Some(stat) if stat.kind == fs::FileKind::Symlink => return FileText::Unreadable,
                Some(_) => {}
            }
        }
        match fs::read(&below, MAX_FILE_BYTES) {
            Ok(bytes) => FileText::Text(self.safe_text(&String::from_utf8_lossy(&bytes))),
            Err(error) if FileError::is_missing(&error) => FileText::Missing,
            Err(_) => FileText::Unreadable,
        }
    }
}

/// Where a quote was found.
enum QuotePlace {
    Line(u32),
    /// It is not in the file, but in the diff, or the file is missing.
    Diff,
}

enum FileText {
    Text(String),
    Missing,
    /// A directory, a link, too large, or not ours to read.
    Unreadable,
}

/// A relative path without `.` and `..`, outside of `.git`.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            false
        }
    };
    !path.is_empty()
        && !path.chars().any(text::is_hidden)
        && !path.split('/').any(str::is_empty)
        && Path::new(path).components().all(is_plain)
}

fn names_missing_file(claim: &str) -> bool {
    let claim = claim.to_lowercase();
    MISSING_WORDS.iter().any(|word| claim.contains(word))
}

fn is_long_enough(quote: &str) -> bool {
    quote.chars().filter(|char| !char.is_whitespace()).count() >= MIN_QUOTE_CHARS
        && quote.chars().any(char::is_alphanumeric)
}

fn bare_line(line: &str) -> &str {
    line.strip_prefix(['+', '-', ' ']).unwrap_or(line)
}

/// The line on which a normalised quote begins: of several, the one nearest to `near`.
fn find_line(content: &str, quote: &str, near: Option<u32>) -> Option<u32> {
    // The normalised text with the line of each of its words.
    let mut flat = String::new();
    let mut starts: Vec<(usize, u32)> = Vec::new();
    for (line, number) in content.lines().zip(1_u32..) {
        for word in line.split_whitespace() {
            if !flat.is_empty() {
                flat.push(' ');
            }
            starts.push((flat.len(), number));
            flat.push_str(word);
        }
    }
    let line_at = |at: usize| {
        let after = starts.partition_point(|(start, _)| *start <= at);
        after.checked_sub(1).and_then(|word| starts.get(word)).map_or(1, |(_, line)| *line)
    };
    let lines = flat.match_indices(quote).map(|(at, _)| line_at(at));
    lines.min_by_key(|line| near.map_or(*line, |near| line.abs_diff(near)))
}
