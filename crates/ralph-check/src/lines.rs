//! `[lines]`: content that added lines must not contain. Lines that the change did not add are never reported.

use super::FileChange;
use super::allow::{self, Marker};
use super::constructs::{self, CONSTRUCTS, Construct, When};
use super::language::{self, Language};
use super::placeholder;
use super::source::Source;
use super::words;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::policy::{LineCheck, Lines};
use ralph_core::requirement::{Finding, Severity, Since};
use ralph_core::text;

/// The most findings to report for one file.
const MOST_FINDINGS: usize = 100;
/// Longer lines are generated and skipped.
const LONGEST_LINE: usize = 20_000;
const LONGEST_QUOTE: usize = 60;

/// The compiled `[[lines.patterns]]` of a policy. A trait, so that this crate needs no regular expressions.
pub trait UserPatterns {
    /// The patterns that match a line of a file: their indices in the policy and the byte offsets of the matches.
    fn matches(&self, line: &str, path: &str) -> Vec<(usize, usize)>;
}

/// For a policy without patterns.
#[derive(Clone, Copy, Debug)]
pub struct NoPatterns;

impl UserPatterns for NoPatterns {
    fn matches(&self, _: &str, _: &str) -> Vec<(usize, usize)> {
        Vec::new()
    }
}

/// The result of checking the added lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub findings: Vec<Finding>,
    /// Findings that a comment in the code allows. They do not block a stop, but are shown, because the agent may have
    /// written the comment.
    pub allowed: Vec<Allowed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub finding: Finding,
    pub reason: String,
}

/// A match, before allow markers are considered.
pub(super) struct Hit {
    pub(super) at: usize,
    pub(super) check: LineCheck,
    pub(super) message: String,
}

/// Checks the added lines of one file. The caller skips files that the policy excludes.
pub fn check(policy: &Lines, change: &FileChange<'_>, patterns: &dyn UserPatterns) -> Checked {
    let Some(after) = change.after else {
        return Checked::default();
    };
    if change.added.is_empty() {
        return Checked::default();
    }
    let source = Source::new(change.path, after);
    let looked = Looked { policy, source: &source, added: change.added };
    let mut hits: Vec<(usize, String, String)> = looked
        .built_in()
        .into_iter()
        .map(|hit| (hit.at, hit.check.name().to_owned(), hit.message))
        .collect();
    hits.extend(looked.patterns(patterns));
    sorted(&source, hits)
}

fn sorted(source: &Source<'_>, mut hits: Vec<(usize, String, String)>) -> Checked {
    hits.sort();
    // Reports each rule once per line.
    let mut seen: Vec<(usize, String)> = Vec::new();
    let mut checked = Checked::default();
    for (at, rule, message) in hits {
        let line = source.line_of(at);
        seen.retain(|(earlier, _)| *earlier == line);
        if seen.iter().any(|(_, earlier)| *earlier == rule) {
            continue;
        }
        seen.push((line, rule.clone()));
        let mut finding = Finding {
            place: Some(source.place(at)),
            rule: Some(rule.clone()),
            message,
            severity: Severity::Error,
            since: Since::New,
        };
        match allow::marker(source, line, &rule) {
            Marker::Absent => checked.findings.push(finding),
            Marker::WithoutReason => {
                finding.message.push_str(
                    "; the allow marker needs `because` and a reason of at least 10 characters",
                );
                checked.findings.push(finding);
            }
            Marker::Reason(reason) => {
                let reason = text::line(reason, 200);
                checked.allowed.push(Allowed { finding, reason });
            }
        }
    }
    checked.findings.truncate(MOST_FINDINGS);
    checked.allowed.truncate(MOST_FINDINGS);
    checked
}

struct Looked<'a, 'b> {
    policy: &'a Lines,
    source: &'a Source<'b>,
    added: &'a [u32],
}

impl Looked<'_, '_> {
    fn built_in(&self) -> Vec<Hit> {
        let mut hits = Vec::new();
        if self.source.language == Language::Prose || self.policy.forbid.is_empty() {
            return hits;
        }
        if self.forbids(LineCheck::Todo) {
            self.todo(&mut hits);
        }
        if self.source.language == Language::Unknown {
            return hits;
        }
        let is_script = language::is_script(self.source.path, self.source.text);
        let is_test = self.source.is_test;
        for construct in CONSTRUCTS {
            let Some(check) = construct.checks.iter().copied().find(|check| self.forbids(*check))
            else {
                continue;
            };
            let in_place = match construct.when {
                When::InTests | When::Unconditional => is_test,
                When::NotInScripts => !is_script,
                When::Always
                | When::Statement
                | When::Alone
                | When::DebugText
                | When::ConstantCondition => true,
            };
            if in_place && construct.languages.contains(&self.source.language) {
                self.construct(construct, check, &mut hits);
            }
        }
        if self.forbids(LineCheck::Placeholder) {
            let added = |at| self.is_added(at);
            hits.extend(placeholder::holes(self.source, &added).take(MOST_FINDINGS * 2));
        }
        hits
    }

    fn forbids(&self, check: LineCheck) -> bool {
        self.policy.forbid.contains(&check)
    }

    fn is_added(&self, at: usize) -> bool {
        let number = self.source.line_of(at);
        u32::try_from(number).is_ok_and(|line| self.added.binary_search(&line).is_ok())
            && self.source.line(number).len() <= LONGEST_LINE
    }

    fn todo(&self, hits: &mut Vec<Hit>) {
        let comments = &self.source.comments;
        for (word, is_sure) in [
            ("TODO", false),
            ("FIXME", true),
            ("XXX", true),
            ("todo:", true),
            ("Todo:", true),
            ("fixme:", true),
        ] {
            let found = words::find_all(comments, word)
                .filter(|at| self.is_added(*at) && is_marker(comments, *at, word, is_sure))
                .take(MOST_FINDINGS);
            hits.extend(found.map(|at| {
                let rest = comments.get(at + word.len()..).and_then(|rest| rest.lines().next());
                let rest = rest.unwrap_or_default().trim_start_matches([':', ' ', '-']);
                let rest = text::line(comment_end(rest), LONGEST_QUOTE);
                let word = word.trim_end_matches(':').to_ascii_uppercase();
                let message = if rest.is_empty() {
                    format!("`{word}` is left in a comment")
                } else {
                    format!("`{word}` is left in a comment: {rest}")
                };
                Hit { at, check: LineCheck::Todo, message }
            }));
        }
    }

    fn construct(&self, construct: &Construct, check: LineCheck, hits: &mut Vec<Hit>) {
        let code = &self.source.code;
        let found = words::find_all(code, construct.needle)
            .filter(|at| self.is_added(*at) && is_meant(self.source, construct, *at))
            .take(MOST_FINDINGS);
        hits.extend(found.map(|at| Hit { at, check, message: message(construct, check) }));
    }

    fn patterns<'s>(
        &'s self,
        patterns: &'s dyn UserPatterns,
    ) -> impl Iterator<Item = (usize, String, String)> + 's {
        let lines = self.added.iter().filter(|_| !self.policy.patterns.is_empty());
        let hits = lines.flat_map(move |number| {
            let range = self.source.line(usize::try_from(*number).unwrap_or(usize::MAX));
            let line = self.source.text.get(range.clone()).unwrap_or_default();
            let matches = if line.len() <= LONGEST_LINE {
                patterns.matches(line.trim_end_matches('\r'), self.source.path)
            } else {
                Vec::new()
            };
            matches.into_iter().filter_map(move |(index, column)| {
                let pattern = self.policy.patterns.get(index)?;
                let at = range.start + column.min(range.len());
                Some((at, pattern.name.clone(), pattern.message.clone()))
            })
        });
        hits.take(MOST_FINDINGS * 2)
    }
}

/// Strips the end of a block comment.
pub(super) fn comment_end(comment: &str) -> &str {
    let comment = comment.trim_end();
    comment.trim_end_matches("*/").trim_end_matches("-->").trim_end()
}

/// Whether the word marks unfinished work: not to-do lists, quoted words or `XXX-XXX`.
fn is_marker(comments: &str, at: usize, word: &str, is_sure: bool) -> bool {
    let before = comments.get(..at).and_then(|before| before.chars().next_back());
    let rest = comments.get(at + word.len()..).unwrap_or_default();
    let after = rest.chars().next();
    let quotes = |char: Option<char>| matches!(char, Some('"' | '\'' | '`' | '“'));
    let joined = |char: Option<char>| matches!(char, Some('-' | '/'));
    if quotes(before) || (word == "XXX" && (joined(after) || before == Some('-'))) {
        return false;
    }
    if is_sure {
        return true;
    }
    let next = words::word_at(rest, words::skip_space(rest, 0));
    let follows_directly = rest.starts_with(' ');
    !(follows_directly
        && matches!(
            next,
            "list"
                | "lists"
                | "item"
                | "items"
                | "app"
                | "apps"
                | "comment"
                | "comments"
                | "marker"
                | "markers"
                | "entry"
                | "entries"
                | "file"
                | "tool"
                | "application"
                | "model"
                | "words"
                | "word"
        ))
}

fn is_meant(source: &Source<'_>, construct: &Construct, at: usize) -> bool {
    let line = source.line(source.line_of(at));
    let before = source.code.get(line.start..at).unwrap_or_default();
    let after = source.code.get(at + construct.needle.len()..line.end).unwrap_or_default();
    let is_member = construct.needle != "printStackTrace()" && before.ends_with('.');
    let defines = matches!(words::last_word(before), "def" | "fn" | "func" | "fun" | "function");
    if is_member || defines {
        return false;
    }
    let end = at + construct.needle.len();
    match construct.when {
        When::Always | When::InTests | When::NotInScripts => true,
        When::Statement => before.trim().is_empty(),
        When::Alone => {
            let begins = before.trim_end().chars().next_back();
            let ends = after.trim_start().chars().next();
            matches!(begins, None | Some('{' | '}' | ';' | ')'))
                && matches!(ends, None | Some(';' | '}'))
        }
        When::Unconditional => !is_conditional(source, at),
        When::DebugText => source.string_at(end).is_some_and(constructs::looks_like_debugging),
        When::ConstantCondition => {
            let condition = words::word_at(&source.code, words::skip_space(&source.code, end));
            matches!(condition, "True" | "1" | "not")
        }
    }
}

/// Whether a condition on the same line, or on the nearest line of code above, decides if this code runs.
pub(super) fn is_conditional(source: &Source<'_>, at: usize) -> bool {
    const DECIDERS: [&str; 8] =
        ["if", "elif", "else", "except", "catch", "case", "unless", "switch"];
    // Longer than any line written by hand.
    const FARTHEST: usize = 500;
    let number = source.line_of(at);
    let start = source.line(number).start.max(at.saturating_sub(FARTHEST));
    let here = source.code.get(start..at).unwrap_or_default();
    let decides = |code: &str| {
        let constant =
            code.contains("if true") || code.contains("if True") || code.contains("if (true)");
        !constant && words::words(code).any(|(_, word)| DECIDERS.contains(&word))
    };
    if decides(here) {
        return true;
    }
    let above = (1..number).rev().take(20).map(|line| source.code_of_line(line));
    above
        .map(|code| code.get(..FARTHEST).unwrap_or(code).trim())
        .find(|code| !code.is_empty())
        .is_some_and(decides)
}

fn message(construct: &Construct, check: LineCheck) -> String {
    let named = construct.needle.trim_end_matches(['(', ' ', '=', '<']).trim_start_matches('(');
    let named = if named == "#[ignore" { "#[ignore]" } else { named };
    match check {
        LineCheck::Todo | LineCheck::Placeholder => {
            format!("`{named}` is a placeholder for missing code")
        }
        LineCheck::DebugPrint => format!("`{named}` is a debug print"),
        LineCheck::Debugger => format!("`{named}` is left over from debugging"),
        LineCheck::SkippedTest if named.contains("only") || named.starts_with('f') => {
            format!("`{named}` excludes every other test")
        }
        LineCheck::SkippedTest => format!("`{named}` keeps a test from running or from counting"),
    }
}
