//! Parses the output and reports of tools into findings (location, rule, message, severity), and writes findings in
//! formats that other tools read.
//!
//! All input is untrusted. A reader never fails and never panics: input that it cannot parse results in a doubt, and a
//! doubt is never a pass. Findings are bounded in number and length, and contain no terminal control sequences.

mod begun;
mod blocks;
mod cargo_json;
mod eslint;
mod go_test;
mod javascript;
mod json;
mod judge;
mod junit;
mod libtest;
mod locate;
mod place;
mod pytest;
mod sarif;
mod signature;
mod tally;
mod tap;
mod text;
mod tsc;
mod unittest;
pub mod write;

pub use judge::{How, Judged, judge};
pub use signature::signature;

use locate::Spot;
use ralph_core::gate::{Format, MOST_FINDINGS, Reading, Tests};
use ralph_core::requirement::{Finding, Severity};
use ralph_core::text as words;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

const LONGEST_MESSAGE: usize = 1_000;
const LONGEST_RULE: usize = 200;
const LONGEST_DOUBT: usize = 160;
/// Not a reason for doubt if the exit code already indicates a failure.
const BROKEN_OFF: &str = "tests started, but no result was reported";
/// Number of findings that are checked for duplicates. Beyond it, the same finding may be counted twice.
const MOST_SEEN: usize = 50_000;
/// Longer lines are data; the rest of them is ignored.
const LONGEST_LINE: usize = 4_096;

/// Where the tool ran, and whether its output is complete.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The project. Files inside it are named relative to it.
    pub root: &'a Path,
    /// Where the tool ran. Relative file names in its output are relative to it.
    pub cwd: &'a Path,
    pub extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// The output was longer than the caller keeps.
    CutOff,
}

/// The report file of a gate.
#[derive(Clone, Copy, Debug)]
pub enum ReportFile<'a> {
    /// The command has no report file: its output is the report.
    NotAsked,
    Missing,
    There(&'a [u8]),
}

/// Parses a report or an output in the given format. Other text may surround it.
pub fn read(format: Format, input: &[u8], context: &Context<'_>) -> Reading {
    let text = String::from_utf8_lossy(input);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match format {
        Format::Text => text::read(text, context),
        Format::Junit => junit::read(text, context),
        Format::Sarif => sarif::read(text, context),
        Format::CargoJson => cargo_json::read(text, context),
        Format::EslintJson => eslint::read(text, context),
        Format::GoTestJson => go_test::read(text, context),
        Format::Tap => tap::read(text, context),
        Format::Pytest => pytest::read(text, context),
        Format::Tsc => tsc::read(text, context),
        Format::None => Reading::default(),
    }
}

/// Parses the report and the output of one execution of a gate. If the report has no findings and is doubtful, the
/// output is used too: a runner that cannot load its tests often writes an empty report, and the reason to its
/// output.
pub fn read_run(
    format: Format,
    report: ReportFile<'_>,
    output: &[u8],
    context: &Context<'_>,
) -> Reading {
    let reading = match report {
        ReportFile::NotAsked => read(format, output, context),
        ReportFile::Missing => doubtful("the report was not written"),
        ReportFile::There(bytes) => read(format, bytes, context),
    };
    let says_nothing = reading.doubt.is_some() && reading.findings.is_empty();
    if !says_nothing || matches!(format, Format::Text | Format::None) {
        return reading;
    }
    let output = read(Format::Text, output, context);
    Reading {
        findings: output.findings,
        finding_count: output.finding_count,
        tests: reading.tests.or(output.tests),
        doubt: reading.doubt,
    }
}

fn doubtful(why: &str) -> Reading {
    Reading { doubt: Some(words::line(why, LONGEST_DOUBT)), ..Reading::default() }
}

/// The lines of an output, without terminal control sequences and cut at [`MAX_LINE_CHARS`].
fn lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split('\n').map(|line| {
        // A progress bar overwrites itself; only the text after the last carriage return stays visible.
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = line.rsplit_once('\r').map_or(line, |(_, visible)| visible);
        let line = match line.char_indices().nth(LONGEST_LINE) {
            Some((at, _)) => line.get(..at).unwrap_or_default(),
            None => line,
        };
        if line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            Cow::Borrowed(line)
        } else {
            Cow::Owned(words::clean(line))
        }
    })
}

/// A finding whose texts have not been cleaned yet.
#[derive(Clone, Copy, Debug, Default)]
struct Draft<'a> {
    spot: Option<Spot<'a>>,
    rule: &'a str,
    message: &'a str,
    severity: Severity,
}

/// Collects findings: keeps the first ones of each severity and counts all. Errors come before warnings, because a
/// failing build has often printed a hundred warnings first.
struct Found<'a> {
    context: &'a Context<'a>,
    errors: Vec<Finding>,
    others: Vec<Finding>,
    count: u32,
    seen: HashSet<u64>,
    hasher: RandomState,
}

impl<'a> Found<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            errors: Vec::new(),
            others: Vec::new(),
            count: 0,
            seen: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    fn add(&mut self, draft: &Draft<'_>) {
        let place = draft.spot.as_ref().and_then(|spot| place::of(spot, self.context));
        let rule = words::line(draft.rule, LONGEST_RULE);
        let mut message = words::line(draft.message, LONGEST_MESSAGE);
        if message.is_empty() {
            message = if rule.is_empty() { "no message".into() } else { rule.clone() };
        }
        let rule = (!rule.is_empty() && rule != message).then_some(rule);
        let mut finding = Finding::new(message);
        finding.place = place;
        finding.rule = rule;
        finding.severity = draft.severity;
        let key = self.hasher.hash_one((
            finding.place.as_ref().map(|place| (&place.file, place.line, place.column)),
            &finding.rule,
            &finding.message,
        ));
        if self.seen.len() < MOST_SEEN && !self.seen.insert(key) {
            return;
        }
        self.count = self.count.saturating_add(1);
        let kept = match finding.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning | Severity::Note => &mut self.others,
        };
        if kept.len() < MOST_FINDINGS {
            kept.push(finding);
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn into_reading(self, tests: Option<Tests>, doubt: Option<&str>) -> Reading {
        let mut findings = self.errors;
        findings.extend(self.others);
        findings.truncate(MOST_FINDINGS);
        Reading {
            findings,
            finding_count: self.count,
            tests,
            doubt: doubt.map(|why| words::line(why, LONGEST_DOUBT)),
        }
    }
}

/// The reason why the counted tests prove nothing, if there is one.
fn doubt_about(tests: Tests) -> Option<&'static str> {
    match tests {
        Tests { run: 0, failed: 0, skipped: 0 } => Some("no tests ran"),
        Tests { run: 0, failed: 0, .. } => Some("every test was skipped"),
        Tests { .. } => None,
    }
}

#[cfg(test)]
mod tests;
