//! Reads output that tools print for people: known test runners first, then compilers, linters and stack traces in
//! general.

use super::failure_block::{FailureBlock, LineMatch, LocationPreference};
use super::javascript::JavascriptReader;
use super::libtest::LibtestReader;
use super::open_diagnostic::OpenDiagnostic;
use super::pytest::PytestReader;
use super::source_location::{self, LocationMatch, RawLocation};
use super::tap::TapReader;
use super::test_counter::TestCounter;
use super::test_names::{NameCollector, TextNames};
use super::tsc::TscReader;
use super::unittest::UnittestReader;
use super::{FindingCollector, FindingDraft, ReportContext, clean_lines};
use ralph_core::gate::ParsedReport;
use ralph_core::requirement::FindingSeverity;

/// Errors without a location are reported only if there is nothing better, and only a few of them.
const MAX_UNLOCATED: usize = 5;

pub(super) fn read_plain_text(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let mut found = FindingCollector::new(context);
    let mut tally = TestCounter::default();
    let mut runners = KnownRunners::default();
    let mut general = GeneralReader::default();
    let mut names = NameCollector::new(context);
    let mut named_tests = TextNames::default();
    let mut tap = TapReader::default();
    for line in clean_lines(text) {
        named_tests.read_line(&line, &mut names);
        if tap.read_line(&line, &mut found) == LineMatch::Recognised {
            general.close_open_items(&mut found);
            continue;
        }
        tally.read_line(&line);
        if runners.read_line(&line, &mut found) == LineMatch::Unrecognised {
            general.read_line(&line, &mut found);
        } else {
            general.close_open_items(&mut found);
        }
    }
    runners.finish(&mut found);
    if let Some(tests) = tap.finish(&mut found) {
        tally.add_counts(tests);
    }
    general.finish(&mut found);
    let counted = tally.counts().filter(|_| !named_tests.counts_assertions());
    named_tests.finish(&mut names);
    let doubt = tally.doubt(context.extent);
    let cases = names.into_cases(counted, doubt);
    ParsedReport { cases, ..found.into_report(tally.counts(), doubt) }
}

/// Readers for known runners. The first one that recognises a line consumes it.
#[derive(Debug, Default)]
struct KnownRunners {
    libtest: LibtestReader,
    pytest: PytestReader,
    unittest: UnittestReader,
    javascript: JavascriptReader,
    tsc: TscReader,
}

impl KnownRunners {
    fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        let heard = self.libtest.read_line(line, found) == LineMatch::Recognised
            || self.pytest.read_line(line, found) == LineMatch::Recognised
            || self.unittest.read_line(line, found) == LineMatch::Recognised
            || self.javascript.read_line(line, found) == LineMatch::Recognised
            || self.tsc.read_line(line, found) == LineMatch::Recognised;
        if heard { LineMatch::Recognised } else { LineMatch::Unrecognised }
    }

    fn finish(self, found: &mut FindingCollector<'_>) {
        self.libtest.finish(found);
        self.pytest.finish(found);
        self.unittest.finish(found);
        self.javascript.finish(found);
        self.tsc.finish(found);
    }
}

/// Reads the output of compilers and linters, and stack traces of any kind.
#[derive(Debug, Default)]
pub(super) struct GeneralReader {
    /// The last line that is not empty: the headline of a `-->` or of a trace.
    headline: String,
    /// eslint prints the file name once, then the file's problems.
    file: String,
    trace: Option<FailureBlock>,
    /// go: the test whose log lines follow.
    go_test: String,
    /// The last diagnostic, whose message may continue on the next lines.
    open_diagnostic: Option<OpenDiagnostic>,
    unlocated_errors: Vec<String>,
}

impl GeneralReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) {
        let trimmed = line.trim();
        if let Some(diagnostic) = &mut self.open_diagnostic {
            if diagnostic.take_line(line) {
                return;
            }
            self.close_diagnostic(found);
        }
        if self.continue_trace(line, trimmed, found) {
            return;
        }
        if trimmed.is_empty() {
            self.file.clear();
            return;
        }
        if let Some(place) = trimmed.strip_prefix("--> ") {
            self.read_arrow(place, found);
            return;
        }
        if self.read_stylish_problem(trimmed, found) {
            return;
        }
        if let Some(rest) = trimmed.strip_prefix("--- FAIL: ") {
            rest.split(' ').next().unwrap_or_default().clone_into(&mut self.go_test);
            return;
        }
        if let Some(located) = source_location::first_location(line) {
            self.read_diagnostic(line, &located, found);
        } else {
            self.read_unlocated(line, trimmed);
        }
        trimmed.clone_into(&mut self.headline);
    }

    /// Closes the open trace, because another reader recognised the line.
    pub(super) fn close_open_items(&mut self, found: &mut FindingCollector<'_>) {
        self.close_diagnostic(found);
        if let Some(trace) = self.trace.take() {
            trace.emit(found);
        }
        self.headline.clear();
        self.file.clear();
    }

    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) {
        self.close_open_items(found);
        if found.is_empty() {
            for line in &self.unlocated_errors {
                let (severity, rule, message) = split_message(line);
                found.add(&FindingDraft {
                    location: None,
                    rule,
                    message,
                    severity: severity.unwrap_or_default(),
                });
            }
        }
    }

    fn close_diagnostic(&mut self, found: &mut FindingCollector<'_>) {
        if let Some(diagnostic) = self.open_diagnostic.take() {
            diagnostic.emit(found);
        }
    }

    /// node: `TypeError: …`, then frames; go: `panic: …`, then frames.
    fn continue_trace(
        &mut self,
        line: &str,
        trimmed: &str,
        found: &mut FindingCollector<'_>,
    ) -> bool {
        let is_frame = line.starts_with([' ', '\t']) && trimmed.starts_with("at ");
        if is_frame && self.trace.is_none() && is_exception(&self.headline) {
            let mut trace = FailureBlock::new("");
            trace.add_message(&self.headline);
            self.trace = Some(trace);
        }
        if trimmed.starts_with("panic: ") && !line.starts_with("    ") {
            self.close_open_items(found);
            let mut trace = FailureBlock::new(&std::mem::take(&mut self.go_test));
            trace.add_message(trimmed);
            self.trace = Some(trace);
            return true;
        }
        let Some(trace) = &mut self.trace else {
            return false;
        };
        let is_go = trace.message.starts_with("panic: ");
        let is_over = trace.is_too_long()
            || if is_go {
                trimmed.starts_with("exit status ") || line.starts_with("FAIL")
            } else {
                !is_frame
            };
        if is_over {
            self.close_open_items(found);
            return false;
        }
        if is_frame || is_go && line.starts_with('\t') || is_go && line.starts_with("    ") {
            trace.find_location(line, LocationPreference::First, found.context);
        }
        true
    }

    /// rustc, ruff and others: the headline, then `--> path:line:col`.
    fn read_arrow(&mut self, place: &str, found: &mut FindingCollector<'_>) {
        let Some(located) =
            source_location::first_location(place).filter(|located| located.before.is_empty())
        else {
            return;
        };
        // A note has an arrow too, but no headline, because the headline was taken by the error.
        let headline = std::mem::take(&mut self.headline);
        let (severity, rule, message) = split_message(&headline);
        if message.is_empty() || severity == Some(FindingSeverity::Note) {
            return;
        }
        let severity = severity.unwrap_or_default();
        found.add(&FindingDraft { location: Some(located.location), rule, message, severity });
    }

    /// eslint's `stylish`: `  2:7   error   message   rule` under the name of the file.
    fn read_stylish_problem(&mut self, trimmed: &str, found: &mut FindingCollector<'_>) -> bool {
        if !trimmed.contains(' ')
            && trimmed.contains('/')
            && source_location::is_source_file(trimmed)
        {
            trimmed.clone_into(&mut self.file);
            return false;
        }
        if self.file.is_empty() {
            return false;
        }
        let Some((spot, severity, rest)) = parse_stylish(trimmed) else {
            return false;
        };
        let (message, rule) = match rest.rsplit_once("  ") {
            Some((message, rule)) if !rule.contains(' ') => (message, rule),
            Some(_) | None => (rest, ""),
        };
        let spot = RawLocation { file: &self.file, ..spot };
        found.add(&FindingDraft { location: Some(spot), rule, message, severity });
        true
    }

    fn read_diagnostic(
        &mut self,
        line: &str,
        located: &LocationMatch<'_>,
        found: &mut FindingCollector<'_>,
    ) {
        const LABELS: [&str; 12] = [
            "", "error:", "Error:", "ERROR:", "warning:", "Warning:", "ERROR in", "[ERROR]",
            "[error]", "e:", "w:", "vet:",
        ];
        let label = located.before.trim();
        // rustfmt prints the location, then the change it would make.
        if label == "Diff in" && located.after == ":" {
            let (rule, message) = ("rustfmt", "is not formatted");
            found.add(&FindingDraft {
                location: Some(located.location),
                rule,
                message,
                ..FindingDraft::default()
            });
        }
        if !LABELS.contains(&label) {
            return;
        }
        let is_indented = located.before.starts_with([' ', '\t']);
        let rule_of_go = if is_indented { self.go_test.as_str() } else { "" };
        // Indented locations are context of something else, except below go's `--- FAIL`.
        if is_indented && label.is_empty() && rule_of_go.is_empty() {
            return;
        }
        let Some(rest) = message_after_location(located.after) else {
            return;
        };
        let (severity, rule, message) = split_message(rest);
        let severity = severity.unwrap_or_else(|| match label.to_ascii_lowercase().as_str() {
            "warning:" | "w:" => FindingSeverity::Warning,
            _ => FindingSeverity::Error,
        });
        // A note explains the previous line.
        if severity != FindingSeverity::Note && !message.is_empty() {
            let rule = if rule_of_go.is_empty() { rule } else { rule_of_go };
            let draft = FindingDraft { location: Some(located.location), rule, message, severity };
            match OpenDiagnostic::new(line, rest, &draft) {
                Some(open) => self.open_diagnostic = Some(open),
                None => found.add(&draft),
            }
        }
    }

    fn read_unlocated(&mut self, line: &str, trimmed: &str) {
        if !line.starts_with([' ', '\t']) {
            self.go_test.clear();
        }
        let is_loose = leading_severity(trimmed)
            .is_some_and(|(severity, _)| severity == FindingSeverity::Error)
            || is_exception(trimmed);
        if is_loose && self.unlocated_errors.len() < MAX_UNLOCATED {
            self.unlocated_errors.push(trimmed.to_owned());
        }
    }
}

/// The text after a location if it is a message about it, and not the next word of a sentence.
fn message_after_location(after: &str) -> Option<&str> {
    let rest = after.strip_prefix(':').or_else(|| after.strip_prefix(" - ")).or_else(|| {
        let rest = after.strip_prefix(' ')?;
        leading_severity(rest).is_some().then_some(rest)
    })?;
    Some(rest.trim_start())
}

fn parse_stylish(trimmed: &str) -> Option<(RawLocation<'_>, FindingSeverity, &str)> {
    let (place, rest) = trimmed.split_once(' ')?;
    let (line, column) = place.split_once(':')?;
    let (severity, rest) = rest.trim_start().split_once(' ')?;
    let severity = match severity {
        "error" => FindingSeverity::Error,
        "warning" => FindingSeverity::Warning,
        _ => return None,
    };
    let spot = RawLocation {
        file: "",
        line: Some(line.parse().ok()?),
        column: Some(column.parse().ok()?),
    };
    Some((spot, severity, rest.trim_start()))
}

/// `TypeError: …`, `java.lang.IllegalStateException: …`
fn is_exception(line: &str) -> bool {
    let name = line.split([':', ' ']).next().unwrap_or_default();
    (name.ends_with("Error") || name.ends_with("Exception"))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._$".contains(&byte))
}

/// Splits a message into severity, rule and text.
fn split_message(text: &str) -> (Option<FindingSeverity>, &str, &str) {
    let (severity, rest) = match leading_severity(text) {
        Some((severity, rest)) => (Some(severity), rest),
        None => (None, text),
    };
    let (rule, message) = leading_rule(rest).unwrap_or(("", rest));
    let message = message.trim_start_matches([':', ' ']);
    let message = message.strip_prefix("[*] ").unwrap_or(message);
    if rule.is_empty()
        && let Some((message, rule)) = trailing_rule(message)
    {
        return (severity, rule, message);
    }
    (severity, rule, message)
}

fn leading_severity(text: &str) -> Option<(FindingSeverity, &str)> {
    const WORDS: [(&str, FindingSeverity); 12] = [
        ("fatal error", FindingSeverity::Error),
        ("error", FindingSeverity::Error),
        ("fatal", FindingSeverity::Error),
        ("warning", FindingSeverity::Warning),
        ("warn", FindingSeverity::Warning),
        ("style", FindingSeverity::Warning),
        ("refactor", FindingSeverity::Warning),
        ("convention", FindingSeverity::Warning),
        ("note", FindingSeverity::Note),
        ("info", FindingSeverity::Note),
        ("help", FindingSeverity::Note),
        ("hint", FindingSeverity::Note),
    ];
    let text = text.strip_prefix('[').unwrap_or(text);
    WORDS.iter().find_map(|(word, severity)| {
        let head = text.get(..word.len())?;
        let rest = text.get(word.len()..)?;
        let is_whole = head.eq_ignore_ascii_case(word) && rest.starts_with([':', '[', ']']);
        // `error TS2322: …` has its code before the colon.
        let is_coded = head == *word
            && rest
                .strip_prefix(' ')
                .is_some_and(|rest| rest.split_once(':').is_some_and(|(code, _)| is_code(code)));
        (is_whole || is_coded).then(|| (*severity, rest.trim_start_matches([']', ' '])))
    })
}

/// `[E0308]: …`, `TS2322: …`, `F401 …`
fn leading_rule(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (rule, rest) = rest.split_once(']')?;
        return is_rule(rule).then_some((rule, rest));
    }
    let text = text.trim_start_matches([':', ' ']);
    let (code, rest) = text.split_once([' ', ':'])?;
    is_code(code).then_some((code, rest))
}

/// `F401`, `TS2322`, `SC2086`: some capitals, some digits.
fn is_code(word: &str) -> bool {
    let capitals = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = word.bytes().skip(capitals).take_while(u8::is_ascii_digit).count();
    (1..=5).contains(&capitals) && (2..=6).contains(&digits) && capitals + digits == word.len()
}

/// `… [-Wformat=]`, `… [return-value]`, `… (unused-import)`
fn trailing_rule(message: &str) -> Option<(&str, &str)> {
    let (open, close) = if message.ends_with(']') { (" [", ']') } else { (" (", ')') };
    let (head, rule) = message.strip_suffix(close)?.rsplit_once(open)?;
    (is_rule(rule) && rule.len() > 2).then_some((head.trim_end(), rule))
}

fn is_rule(word: &str) -> bool {
    (1..=60).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_/@.:+=".contains(&byte))
}
