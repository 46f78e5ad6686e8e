//! Reads output that tools print for people: known test runners first, then compilers, linters and stack traces in
//! general.

use super::blocks::{Block, Heard, Prefer};
use super::javascript::JavaScript;
use super::libtest::Libtest;
use super::locate::{self, Located, Spot};
use super::pytest::Pytest;
use super::tally::Tally;
use super::tsc::Tsc;
use super::unittest::Unittest;
use super::{Context, Draft, Found, lines};
use ralph_core::gate::Reading;
use ralph_core::requirement::Severity;

/// Errors without a location are reported only if there is nothing better, and only a few of them.
const MOST_LOOSE: usize = 5;

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    let mut found = Found::new(context);
    let mut tally = Tally::default();
    let mut runners = Runners::default();
    let mut general = General::default();
    for line in lines(text) {
        tally.line(&line);
        if runners.line(&line, &mut found) == Heard::Other {
            general.line(&line, &mut found);
        } else {
            general.interrupted(&mut found);
        }
    }
    runners.end(&mut found);
    general.end(&mut found);
    found.into_reading(tally.tests(), tally.doubt(context.extent))
}

/// Readers for known runners. The first one that recognises a line consumes it.
#[derive(Debug, Default)]
struct Runners {
    libtest: Libtest,
    pytest: Pytest,
    unittest: Unittest,
    javascript: JavaScript,
    tsc: Tsc,
}

impl Runners {
    fn line(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        let heard = self.libtest.line(line, found) == Heard::Mine
            || self.pytest.line(line, found) == Heard::Mine
            || self.unittest.line(line, found) == Heard::Mine
            || self.javascript.line(line, found) == Heard::Mine
            || self.tsc.line(line, found) == Heard::Mine;
        if heard { Heard::Mine } else { Heard::Other }
    }

    fn end(self, found: &mut Found<'_>) {
        self.libtest.end(found);
        self.pytest.end(found);
        self.unittest.end(found);
        self.javascript.end(found);
        self.tsc.end(found);
    }
}

/// Reads the output of compilers and linters, and stack traces of any kind.
#[derive(Debug, Default)]
pub(super) struct General {
    /// The last line that is not empty: the headline of a `-->` or of a trace.
    headline: String,
    /// eslint prints the file name once, then the file's problems.
    file: String,
    trace: Option<Block>,
    /// go: the test whose log lines follow.
    go_test: String,
    loose: Vec<String>,
}

impl General {
    pub(super) fn line(&mut self, line: &str, found: &mut Found<'_>) {
        let trimmed = line.trim();
        if self.goes_on(line, trimmed, found) {
            return;
        }
        if trimmed.is_empty() {
            self.file.clear();
            return;
        }
        if let Some(place) = trimmed.strip_prefix("--> ") {
            self.arrow(place, found);
            return;
        }
        if self.problem(trimmed, found) {
            return;
        }
        if let Some(rest) = trimmed.strip_prefix("--- FAIL: ") {
            rest.split(' ').next().unwrap_or_default().clone_into(&mut self.go_test);
            return;
        }
        if let Some(located) = locate::first(line) {
            self.diagnostic(&located, found);
        } else {
            self.no_place(line, trimmed);
        }
        trimmed.clone_into(&mut self.headline);
    }

    /// Closes the open trace, because another reader recognised the line.
    pub(super) fn interrupted(&mut self, found: &mut Found<'_>) {
        if let Some(trace) = self.trace.take() {
            trace.close(found);
        }
        self.headline.clear();
        self.file.clear();
    }

    pub(super) fn end(mut self, found: &mut Found<'_>) {
        self.interrupted(found);
        if found.is_empty() {
            for line in &self.loose {
                let (severity, rule, message) = parts(line);
                found.add(&Draft {
                    spot: None,
                    rule,
                    message,
                    severity: severity.unwrap_or_default(),
                });
            }
        }
    }

    /// node: `TypeError: …`, then frames; go: `panic: …`, then frames.
    fn goes_on(&mut self, line: &str, trimmed: &str, found: &mut Found<'_>) -> bool {
        let is_frame = line.starts_with([' ', '\t']) && trimmed.starts_with("at ");
        if is_frame && self.trace.is_none() && is_exception(&self.headline) {
            let mut trace = Block::open("");
            trace.say(&self.headline);
            self.trace = Some(trace);
        }
        if trimmed.starts_with("panic: ") && !line.starts_with("    ") {
            self.interrupted(found);
            let mut trace = Block::open(&std::mem::take(&mut self.go_test));
            trace.say(trimmed);
            self.trace = Some(trace);
            return true;
        }
        let Some(trace) = &mut self.trace else {
            return false;
        };
        let is_go = trace.message.starts_with("panic: ");
        let is_over = trace.is_endless()
            || if is_go {
                trimmed.starts_with("exit status ") || line.starts_with("FAIL")
            } else {
                !is_frame
            };
        if is_over {
            self.interrupted(found);
            return false;
        }
        if is_frame || is_go && line.starts_with('\t') || is_go && line.starts_with("    ") {
            trace.look(line, Prefer::First, found.context);
        }
        true
    }

    /// rustc, ruff and others: the headline, then `--> path:line:col`.
    fn arrow(&mut self, place: &str, found: &mut Found<'_>) {
        let Some(located) = locate::first(place).filter(|located| located.before.is_empty()) else {
            return;
        };
        // A note has an arrow too, but no headline, because the headline was taken by the error.
        let headline = std::mem::take(&mut self.headline);
        let (severity, rule, message) = parts(&headline);
        if message.is_empty() || severity == Some(Severity::Note) {
            return;
        }
        let severity = severity.unwrap_or_default();
        found.add(&Draft { spot: Some(located.spot), rule, message, severity });
    }

    /// eslint's `stylish`: `  2:7   error   message   rule` under the name of the file.
    fn problem(&mut self, trimmed: &str, found: &mut Found<'_>) -> bool {
        if !trimmed.contains(' ') && trimmed.contains('/') && locate::is_file(trimmed) {
            trimmed.clone_into(&mut self.file);
            return false;
        }
        if self.file.is_empty() {
            return false;
        }
        let Some((spot, severity, rest)) = stylish(trimmed) else {
            return false;
        };
        let (message, rule) = match rest.rsplit_once("  ") {
            Some((message, rule)) if !rule.contains(' ') => (message, rule),
            Some(_) | None => (rest, ""),
        };
        let spot = Spot { file: &self.file, ..spot };
        found.add(&Draft { spot: Some(spot), rule, message, severity });
        true
    }

    fn diagnostic(&mut self, located: &Located<'_>, found: &mut Found<'_>) {
        const LABELS: [&str; 11] = [
            "", "error:", "Error:", "ERROR:", "warning:", "Warning:", "ERROR in", "[ERROR]",
            "[error]", "e:", "w:",
        ];
        let label = located.before.trim();
        // rustfmt prints the location, then the change it would make.
        if label == "Diff in" && located.after == ":" {
            let (rule, message) = ("rustfmt", "is not formatted");
            found.add(&Draft { spot: Some(located.spot), rule, message, ..Draft::default() });
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
        let Some(rest) = told(located.after) else {
            return;
        };
        let (severity, rule, message) = parts(rest);
        let severity = severity.unwrap_or_else(|| match label.to_ascii_lowercase().as_str() {
            "warning:" | "w:" => Severity::Warning,
            _ => Severity::Error,
        });
        // A note explains the previous line.
        if severity != Severity::Note && !message.is_empty() {
            let rule = if rule_of_go.is_empty() { rule } else { rule_of_go };
            found.add(&Draft { spot: Some(located.spot), rule, message, severity });
        }
    }

    fn no_place(&mut self, line: &str, trimmed: &str) {
        if !line.starts_with([' ', '\t']) {
            self.go_test.clear();
        }
        let is_loose = severity(trimmed).is_some_and(|(severity, _)| severity == Severity::Error)
            || is_exception(trimmed);
        if is_loose && self.loose.len() < MOST_LOOSE {
            self.loose.push(trimmed.to_owned());
        }
    }
}

/// The text after a location if it is a message about it, and not the next word of a sentence.
fn told(after: &str) -> Option<&str> {
    let rest = after.strip_prefix(':').or_else(|| after.strip_prefix(" - ")).or_else(|| {
        let rest = after.strip_prefix(' ')?;
        severity(rest).is_some().then_some(rest)
    })?;
    Some(rest.trim_start())
}

fn stylish(trimmed: &str) -> Option<(Spot<'_>, Severity, &str)> {
    let (place, rest) = trimmed.split_once(' ')?;
    let (line, column) = place.split_once(':')?;
    let (severity, rest) = rest.trim_start().split_once(' ')?;
    let severity = match severity {
        "error" => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let spot =
        Spot { file: "", line: Some(line.parse().ok()?), column: Some(column.parse().ok()?) };
    Some((spot, severity, rest.trim_start()))
}

/// `TypeError: …`, `java.lang.IllegalStateException: …`
fn is_exception(line: &str) -> bool {
    let name = line.split([':', ' ']).next().unwrap_or_default();
    (name.ends_with("Error") || name.ends_with("Exception"))
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._$".contains(&byte))
}

/// Splits a message into severity, rule and text.
fn parts(text: &str) -> (Option<Severity>, &str, &str) {
    let (severity, rest) = match severity(text) {
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

fn severity(text: &str) -> Option<(Severity, &str)> {
    const WORDS: [(&str, Severity); 12] = [
        ("fatal error", Severity::Error),
        ("error", Severity::Error),
        ("fatal", Severity::Error),
        ("warning", Severity::Warning),
        ("warn", Severity::Warning),
        ("style", Severity::Warning),
        ("refactor", Severity::Warning),
        ("convention", Severity::Warning),
        ("note", Severity::Note),
        ("info", Severity::Note),
        ("help", Severity::Note),
        ("hint", Severity::Note),
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
