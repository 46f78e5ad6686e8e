//! `[lines]`: content that added lines must not contain. Lines that the change did not add are never reported.

use super::FileChange;
use super::allow_marker::{self, AllowMarker};
use super::change_finding::new_finding;
use super::constant_condition::constant_truth;
use super::forbidden_constructs::{self, CONSTRUCTS, ConstructCondition, ForbiddenConstruct};
use super::language::{self, Language};
use super::moved_lines::MovedLines;
use super::placeholder;
use super::source_text::SourceText;
use super::word_search;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::policy::{LineCheck, LinePolicy};
use ralph_core::requirement::Finding;
use ralph_core::text;

/// The most findings to report for one file.
const MAX_FINDINGS: usize = 100;
/// Longer lines are generated and skipped.
const MAX_LINE_BYTES: usize = 20_000;
const MAX_QUOTED_CHARS: usize = 60;

/// The compiled `[[lines.patterns]]` of a policy. A trait, so that this crate needs no regular expressions.
pub trait UserPatterns {
    /// The patterns that match a line of a file: their indices in the policy and the byte offsets of the matches.
    fn matches(&self, line: &str, path: &str) -> Vec<(usize, usize)>;
}

/// For a policy without patterns.
#[derive(Clone, Copy, Debug)]
pub struct NoUserPatterns;

impl UserPatterns for NoUserPatterns {
    fn matches(&self, _: &str, _: &str) -> Vec<(usize, usize)> {
        Vec::new()
    }
}

/// The result of checking the added lines of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedLinesReport {
    pub findings: Vec<Finding>,
    /// Findings that a comment in the code allows. They do not block a stop, but are shown, because the agent may have
    /// written the comment.
    pub allowed: Vec<AllowedFinding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedFinding {
    pub finding: Finding,
    pub reason: String,
}

/// A match, before allow markers are considered.
pub(super) struct LineHit {
    pub(super) at: usize,
    pub(super) check: LineCheck,
    pub(super) message: String,
}

/// Checks the added lines of one file. The caller skips files that the policy excludes.
pub fn check_added_lines(
    policy: &LinePolicy,
    change: &FileChange<'_>,
    moved: &MovedLines<'_>,
    patterns: &dyn UserPatterns,
) -> AddedLinesReport {
    let Some(after) = change.after else {
        return AddedLinesReport::default();
    };
    if change.added.is_empty() {
        return AddedLinesReport::default();
    }
    let source = SourceText::new(change.path, after);
    let looked = LineChecker { policy, source: &source, added: change.added };
    let built_in = without_known_hits(policy, change, &source, looked.find_built_in());
    let mut hits: Vec<(usize, String, String)> = built_in
        .into_iter()
        .map(|hit| (hit.at, hit.check.name().to_owned(), hit.message))
        .collect();
    hits.extend(looked.find_patterns(patterns));
    hits.retain(|(at, ..)| {
        let line = source.text.get(source.line(source.line_of(*at)));
        !moved.contains(line.unwrap_or_default())
    });
    report_hits(&source, hits)
}

/// Leaves out hits that the file had before as often as now, on lines that were edited otherwise.
fn without_known_hits(
    policy: &LinePolicy,
    change: &FileChange<'_>,
    after: &SourceText<'_>,
    mut hits: Vec<LineHit>,
) -> Vec<LineHit> {
    let Some(before) = change.before.filter(|_| !hits.is_empty()) else {
        return hits;
    };
    let count = |source: &SourceText<'_>| {
        let lines = u32::try_from(source.line_count()).unwrap_or(u32::MAX);
        let added: Vec<u32> = (1..=lines).collect();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for hit in (LineChecker { policy, source, added: &added }).find_built_in() {
            *counts.entry(hit_key(&hit.message)).or_default() += 1;
        }
        counts
    };
    let (was, is) = (count(&SourceText::new(change.path, before)), count(after));
    hits.retain(|hit| {
        let key = hit_key(&hit.message);
        is.get(&key) > was.get(&key)
    });
    hits
}

/// The beginning of a message: the rest of a comment may continue on another line than before.
fn hit_key(message: &str) -> String {
    const WORDS: usize = 10;
    let words: Vec<&str> = message.split_whitespace().take(WORDS).collect();
    words.join(" ").trim_end_matches('…').to_owned()
}

fn report_hits(
    source: &SourceText<'_>,
    mut hits: Vec<(usize, String, String)>,
) -> AddedLinesReport {
    hits.sort();
    // Reports each rule once per line.
    let mut seen: Vec<(usize, String)> = Vec::new();
    let mut checked = AddedLinesReport::default();
    for (at, rule, message) in hits {
        let line = source.line_of(at);
        seen.retain(|(earlier, _)| *earlier == line);
        if seen.iter().any(|(_, earlier)| *earlier == rule) {
            continue;
        }
        seen.push((line, rule.clone()));
        let mut finding = new_finding(source.place(at), &rule, message);
        match allow_marker::find_allow_marker(source, line, &rule) {
            AllowMarker::Absent => checked.findings.push(finding),
            AllowMarker::WithoutReason => {
                finding.message.push_str(
                    "; the allow marker needs `because` and a reason of at least 10 characters",
                );
                checked.findings.push(finding);
            }
            AllowMarker::Reason(reason) => {
                let reason = text::clean_line(reason, 200);
                checked.allowed.push(AllowedFinding { finding, reason });
            }
        }
    }
    checked.findings.truncate(MAX_FINDINGS);
    checked.allowed.truncate(MAX_FINDINGS);
    checked
}

struct LineChecker<'a, 'b> {
    policy: &'a LinePolicy,
    source: &'a SourceText<'b>,
    added: &'a [u32],
}

impl LineChecker<'_, '_> {
    fn find_built_in(&self) -> Vec<LineHit> {
        let mut hits = Vec::new();
        if self.source.language == Language::Prose || self.policy.forbid.is_empty() {
            return hits;
        }
        if self.forbids(LineCheck::Todo) {
            self.find_todos(&mut hits);
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
                ConstructCondition::InTests | ConstructCondition::Unconditional => is_test,
                ConstructCondition::NotInScripts => !is_script,
                ConstructCondition::OutsideTests => {
                    !language::contains_only_tests(self.source.path)
                }
                ConstructCondition::Always
                | ConstructCondition::Statement
                | ConstructCondition::Alone
                | ConstructCondition::DebugText
                | ConstructCondition::UnusedModule
                | ConstructCondition::ConstantCondition => true,
            };
            if in_place && construct.languages.contains(&self.source.language) {
                self.find_construct(construct, check, &mut hits);
            }
        }
        if self.forbids(LineCheck::Placeholder) {
            let added = |at| self.is_added(at);
            hits.extend(placeholder::find_placeholders(self.source, &added).take(MAX_FINDINGS * 2));
        }
        hits
    }

    fn forbids(&self, check: LineCheck) -> bool {
        self.policy.forbid.contains(&check)
    }

    fn is_added(&self, at: usize) -> bool {
        let number = self.source.line_of(at);
        u32::try_from(number).is_ok_and(|line| self.added.binary_search(&line).is_ok())
            && self.source.line(number).len() <= MAX_LINE_BYTES
    }

    fn find_todos(&self, hits: &mut Vec<LineHit>) {
        let comments = &self.source.comments;
        for (word, is_sure) in [
            ("TODO", false),
            ("FIXME", true),
            ("XXX", true),
            ("todo:", true),
            ("Todo:", true),
            ("fixme:", true),
        ] {
            let found = word_search::find_word(comments, word)
                .filter(|at| self.is_added(*at) && is_work_marker(comments, *at, word, is_sure))
                .take(MAX_FINDINGS);
            hits.extend(found.map(|at| {
                let rest = comments.get(at + word.len()..).and_then(|rest| rest.lines().next());
                let rest = rest.unwrap_or_default().trim_start_matches([':', ' ', '-']);
                let rest = text::clean_line(strip_comment_end(rest), MAX_QUOTED_CHARS);
                let word = word.trim_end_matches(':').to_ascii_uppercase();
                let message = if rest.is_empty() {
                    format!("`{word}` is left in a comment")
                } else {
                    format!("`{word}` is left in a comment: {rest}")
                };
                LineHit { at, check: LineCheck::Todo, message }
            }));
        }
    }

    fn find_construct(
        &self,
        construct: &ForbiddenConstruct,
        check: LineCheck,
        hits: &mut Vec<LineHit>,
    ) {
        let code = &self.source.code;
        let found = word_search::find_word(code, construct.needle)
            .filter(|at| self.is_added(*at) && is_forbidden_use(self.source, construct, *at))
            .take(MAX_FINDINGS);
        hits.extend(found.map(|at| LineHit {
            at,
            check,
            message: construct_message(construct, check),
        }));
    }

    fn find_patterns<'s>(
        &'s self,
        patterns: &'s dyn UserPatterns,
    ) -> impl Iterator<Item = (usize, String, String)> + 's {
        let lines = self.added.iter().filter(|_| !self.policy.patterns.is_empty());
        let hits = lines.flat_map(move |number| {
            let range = self.source.line(usize::try_from(*number).unwrap_or(usize::MAX));
            let line = self.source.text.get(range.clone()).unwrap_or_default();
            let matches = if line.len() <= MAX_LINE_BYTES {
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
        hits.take(MAX_FINDINGS * 2)
    }
}

/// Strips the end of a block comment.
pub(super) fn strip_comment_end(comment: &str) -> &str {
    let comment = comment.trim_end();
    comment.trim_end_matches("*/").trim_end_matches("-->").trim_end()
}

/// Whether the word marks unfinished work: not to-do lists, quoted words or `XXX-XXX`.
fn is_work_marker(comments: &str, at: usize, word: &str, is_sure: bool) -> bool {
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
    let next = word_search::word_at(rest, word_search::skip_space(rest, 0));
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

fn is_forbidden_use(source: &SourceText<'_>, construct: &ForbiddenConstruct, at: usize) -> bool {
    let line = source.line(source.line_of(at));
    let before = source.code.get(line.start..at).unwrap_or_default();
    let after = source.code.get(at + construct.needle.len()..line.end).unwrap_or_default();
    let is_member = construct.needle != "printStackTrace()" && before.ends_with('.');
    let defines =
        matches!(word_search::last_word(before), "def" | "fn" | "func" | "fun" | "function");
    if is_member || defines {
        return false;
    }
    let end = at + construct.needle.len();
    match construct.when {
        ConstructCondition::Always
        | ConstructCondition::InTests
        | ConstructCondition::OutsideTests
        | ConstructCondition::NotInScripts => true,
        ConstructCondition::Statement => before.trim().is_empty(),
        ConstructCondition::Alone => {
            let begins = before.trim_end().chars().next_back();
            let ends = after.trim_start().chars().next();
            matches!(begins, None | Some('{' | '}' | ';' | ')'))
                && matches!(ends, None | Some(';' | '}'))
        }
        ConstructCondition::Unconditional => !is_conditional(source, at),
        ConstructCondition::UnusedModule => {
            let module = word_search::last_word(construct.needle);
            let mut uses = word_search::find_word(&source.code, module).filter_map(|at| {
                let rest = source.code.get(at + module.len()..)?.strip_prefix('.')?;
                Some(word_search::word_at(rest, 0))
            });
            uses.all(|name| name == "set_trace")
        }
        ConstructCondition::DebugText => {
            source.string_at(end).is_some_and(forbidden_constructs::looks_like_debugging)
        }
        ConstructCondition::ConstantCondition => {
            let condition = word_search::text_from(&source.code, end, 200);
            let condition = condition.split([',', ')', '\n']).find(|it| !it.trim().is_empty());
            constant_truth(condition.unwrap_or_default()) == Some(true)
        }
    }
}

/// Whether a condition on the same line, or on the nearest line of code above, decides if this code runs.
pub(super) fn is_conditional(source: &SourceText<'_>, at: usize) -> bool {
    const DECIDERS: [&str; 8] =
        ["if", "elif", "else", "except", "catch", "case", "unless", "switch"];
    // Longer than any line written by hand.
    const FARTHEST: usize = 500;
    let number = source.line_of(at);
    let start = source.line(number).start;
    let here = word_search::text_before(&source.code, at, FARTHEST.min(at.saturating_sub(start)));
    let decides = |code: &str| {
        let condition =
            code.split_once("if ").map(|(_, rest)| rest.trim_end_matches(['{', ':', ' ']));
        let is_constant =
            condition.is_some_and(|condition| constant_truth(condition.trim_end()) == Some(true));
        !is_constant && word_search::split_words(code).any(|(_, word)| DECIDERS.contains(&word))
    };
    if decides(here) {
        return true;
    }
    let above = (1..number).rev().take(20).map(|line| source.code_of_line(line));
    above
        .map(|code| word_search::text_from(code, 0, FARTHEST).trim())
        .find(|code| !code.is_empty())
        .is_some_and(decides)
}

fn construct_message(construct: &ForbiddenConstruct, check: LineCheck) -> String {
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
