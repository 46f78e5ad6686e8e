//! Parses the output and reports of tools into findings (location, rule, message, severity), and writes findings in
//! formats that other tools read.
//!
//! All input is untrusted. A reader never fails and never panics: input that it cannot parse results in a doubt, and a
//! doubt is never a pass. Findings are bounded in number and length, and contain no terminal control sequences.

mod cargo_json;
mod coverage_report;
mod eslint;
mod failed_subtests;
mod failure_block;
mod finding_age;
mod go_test;
mod javascript;
mod json_document;
mod judge;
mod junit;
mod libtest;
mod open_diagnostic;
mod plain_text;
mod project_file;
mod pytest;
mod sarif;
mod signature;
mod source_location;
mod tap;
mod test_counter;
mod test_names;
mod tsc;
mod unfinished_tests;
mod unittest;
pub mod write;

pub use finding_age::{confirm_base, label_findings};
pub use judge::{GateJudgement, GateProcessEnd, judge_gate};
pub use signature::finding_signature;

use ralph_core::gate::{MAX_FINDINGS, ParsedReport, ReportFormat, SeverityCounts, TestCounts};
use ralph_core::requirement::{Finding, FindingSeverity};
use ralph_core::text;
use source_location::RawLocation;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

const MAX_MESSAGE_CHARS: usize = 1_000;
const MAX_RULE_CHARS: usize = 200;
const MAX_DOUBT_CHARS: usize = 160;
const NO_TESTS_RAN: &str = "no tests ran";
const NO_TESTS_FOUND: &str = "no tests were found";
/// Not a reason for doubt if the exit code already indicates a failure.
const UNFINISHED_TESTS: &str = "tests started, but no result was reported";
/// The runner's summary is missing at the end of a truncated output. As [`UNFINISHED_TESTS`], it matters only for a gate
/// that exits with 0.
const NO_SUMMARY_AT_END: &str = "the output is truncated, and its end has no test summary";
/// How much text of findings beyond [`MAX_FINDINGS`] is kept. With it, a report fits into the cache of results.
const MAX_FINDING_BYTES: usize = 4 * 1024 * 1024;
/// Number of findings that are checked for duplicates. Beyond it, the same finding may be counted twice.
const MAX_DEDUPLICATED: usize = 50_000;
/// Longer lines are data; the rest of them is ignored.
const MAX_LINE_CHARS: usize = 4_096;

/// Where the tool ran, and whether its output is complete.
#[derive(Clone, Copy, Debug)]
pub struct ReportContext<'a> {
    /// The project. Files inside it are named relative to it.
    pub root: &'a Path,
    /// Where the tool ran. Relative file names in its output are relative to it.
    pub cwd: &'a Path,
    pub extent: OutputExtent<'a>,
    /// Tells which files the project has. Coverage reports name files by paths of other directories.
    pub is_file: FileProbe<'a>,
    /// Tells which files of the project a coverage report is read without.
    pub is_excluded: Option<FileProbe<'a>>,
}

/// Answers a question about a file of the project, by its path relative to the project.
#[derive(Clone, Copy)]
pub struct FileProbe<'a>(pub &'a dyn Fn(&str) -> bool);

impl FileProbe<'_> {
    fn is_match(&self, path: &str) -> bool {
        (self.0)(path)
    }
}

impl Default for FileProbe<'_> {
    /// Every file exists.
    fn default() -> Self {
        Self(&|_| true)
    }
}

impl std::fmt::Debug for FileProbe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileProbe")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputExtent<'a> {
    Complete,
    /// The output was longer than the caller keeps: only its start and its end are left.
    Truncated {
        /// The last lines, which the input contains too. Test runners print their summaries there.
        end: &'a str,
    },
}

/// The report file of a gate.
#[derive(Clone, Copy, Debug)]
pub enum ReportFile<'a> {
    /// The command has no report file: its output is the report.
    NoReportFile,
    Missing,
    Written(&'a [u8]),
    /// Several files, of which each is a document of its own. Only `JUnit` and coverage reports have them.
    Several(&'a [Vec<u8>]),
    /// There are report files that could not be read, and why.
    Unreadable(&'a str),
}

/// Parses a report or an output in the given format. Other text may surround it.
pub fn read_report(
    format: ReportFormat,
    input: &[u8],
    context: &ReportContext<'_>,
) -> ParsedReport {
    let text = String::from_utf8_lossy(input);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    match format {
        ReportFormat::Text => plain_text::read_plain_text(text, context),
        ReportFormat::Junit => junit::read_junit(text, context),
        ReportFormat::Sarif => sarif::read_sarif(text, context),
        ReportFormat::CargoJson => cargo_json::read_cargo_json(text, context),
        ReportFormat::EslintJson => eslint::read_eslint(text, context),
        ReportFormat::GoTestJson => go_test::read_go_test(text, context),
        ReportFormat::Tap => tap::read_tap(text, context),
        ReportFormat::Pytest => pytest::read_pytest(text, context),
        ReportFormat::Tsc => tsc::read_tsc(text, context),
        ReportFormat::Lcov
        | ReportFormat::Cobertura
        | ReportFormat::LlvmCov
        | ReportFormat::GoCover => coverage_report::read_coverage(format, &[text], context),
        ReportFormat::None => ParsedReport::default(),
    }
}

/// Parses the report and the output of one execution of a gate. If the report has no findings and is doubtful, the
/// output is used too: a runner that cannot load its tests often writes an empty report, and the reason to its
/// output.
pub fn read_execution(
    format: ReportFormat,
    report: ReportFile<'_>,
    output: &[u8],
    context: &ReportContext<'_>,
) -> ParsedReport {
    let reading = match report {
        ReportFile::NoReportFile => read_report(format, output, context),
        ReportFile::Missing => doubtful_report("the report was not written"),
        ReportFile::Unreadable(why) => doubtful_report(why),
        ReportFile::Several(files) => {
            let context = ReportContext { extent: OutputExtent::Complete, ..*context };
            read_files(format, files, &context)
        }
        // It is whole, even if the output is not.
        ReportFile::Written(bytes) => {
            let context = ReportContext { extent: OutputExtent::Complete, ..*context };
            read_report(format, bytes, &context)
        }
    };
    if format.measures_coverage() && !matches!(report, ReportFile::NoReportFile) {
        return with_output(reading, output, context);
    }
    let says_nothing = reading.doubt.is_some() && reading.findings.is_empty();
    if !says_nothing || matches!(format, ReportFormat::Text | ReportFormat::None) {
        return reading;
    }
    let output = read_report(ReportFormat::Text, output, context);
    ParsedReport {
        findings: output.findings,
        more_findings: output.more_findings,
        finding_count: output.finding_count,
        has_gaps: output.has_gaps,
        tests: reading.tests.or(output.tests),
        cases: reading.cases.or(output.cases),
        coverage: reading.coverage,
        severities: output.severities,
        doubt: reading.doubt,
    }
}

fn read_files(
    format: ReportFormat,
    files: &[Vec<u8>],
    context: &ReportContext<'_>,
) -> ParsedReport {
    if !format.measures_coverage() {
        return junit::read_junit_files(files, context);
    }
    let texts: Vec<_> = files.iter().map(|file| String::from_utf8_lossy(file)).collect();
    let documents: Vec<&str> =
        texts.iter().map(|text| text.strip_prefix('\u{feff}').unwrap_or(text)).collect();
    coverage_report::read_coverage(format, &documents, context)
}

/// A coverage report says nothing about the tests that were run to get it. Their runner does, in the output.
fn with_output(coverage: ParsedReport, output: &[u8], context: &ReportContext<'_>) -> ParsedReport {
    let output = read_report(ReportFormat::Text, output, context);
    ParsedReport { coverage: coverage.coverage, doubt: coverage.doubt.or(output.doubt), ..output }
}

fn doubtful_report(why: &str) -> ParsedReport {
    ParsedReport { doubt: Some(text::clean_line(why, MAX_DOUBT_CHARS)), ..ParsedReport::default() }
}

/// The lines of an output, without terminal control sequences and cut at [`MAX_LINE_CHARS`].
fn clean_lines(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.split('\n').map(|line| {
        // A progress bar overwrites itself; only the text after the last carriage return stays visible.
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = line.rsplit_once('\r').map_or(line, |(_, visible)| visible);
        let line = match line.char_indices().nth(MAX_LINE_CHARS) {
            Some((at, _)) => line.get(..at).unwrap_or_default(),
            None => line,
        };
        if line.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            Cow::Borrowed(line)
        } else {
            Cow::Owned(text::clean(line))
        }
    })
}

/// A finding whose texts have not been cleaned yet.
#[derive(Clone, Copy, Debug, Default)]
struct FindingDraft<'a> {
    location: Option<RawLocation<'a>>,
    rule: &'a str,
    message: &'a str,
    severity: FindingSeverity,
}

/// How often a finding without a location counts for the limits of a gate, if it is reported again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepeatRule {
    Once,
    /// Nothing tells whether it is the same one.
    EachTime,
}

/// A finding that occurred before.
struct SeenFinding {
    counted: FindingSeverity,
    kept: KeptPlace,
}

#[derive(Clone, Copy)]
enum KeptPlace {
    Errors,
    /// The position among the warnings and notes.
    Others(usize),
    /// There was no room.
    Nowhere,
}

/// Collects findings: keeps them as far as they fit, and at least the first ones of each severity, and counts all. Errors come before warnings, because a
/// failing build has often printed a hundred warnings first.
struct FindingCollector<'a> {
    context: &'a ReportContext<'a>,
    errors: Vec<Finding>,
    others: Vec<Finding>,
    count: u32,
    severities: SeverityCounts,
    kept_bytes: usize,
    /// A finding that is reported again has the highest of its severities.
    seen: HashMap<u64, SeenFinding>,
    /// Drafts as printed: a line that a tool repeats a million times is cleaned once.
    seen_drafts: HashSet<u64>,
    hasher: RandomState,
}

impl<'a> FindingCollector<'a> {
    fn new(context: &'a ReportContext<'a>) -> Self {
        Self {
            context,
            errors: Vec::new(),
            others: Vec::new(),
            count: 0,
            severities: SeverityCounts::default(),
            kept_bytes: 0,
            seen: HashMap::new(),
            seen_drafts: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    fn add(&mut self, draft: &FindingDraft<'_>) {
        self.insert(draft, draft.severity, RepeatRule::Once);
    }

    /// Adds a finding that counts as more severe than it is shown, for the limits of a gate, and each time if it has no
    /// location.
    fn add_counted(&mut self, draft: &FindingDraft<'_>, counted: FindingSeverity) {
        self.insert(draft, counted, RepeatRule::EachTime);
    }

    fn insert(&mut self, draft: &FindingDraft<'_>, counted: FindingSeverity, repeats: RepeatRule) {
        if self.seen.len() < MAX_DEDUPLICATED {
            let grades = (draft.severity as u8, counted as u8);
            let key = self.hasher.hash_one((draft.location, draft.rule, draft.message, grades));
            if !self.seen_drafts.insert(key) {
                if repeats == RepeatRule::EachTime && draft.location.is_none() {
                    self.severities.add(counted);
                }
                return;
            }
        } else if self.kept(draft.severity).len() >= MAX_FINDINGS {
            self.count = self.count.saturating_add(1);
            self.severities.add(counted);
            return;
        }
        let place = draft
            .location
            .as_ref()
            .and_then(|spot| project_file::finding_location(spot, self.context));
        let rule = text::clean_line(draft.rule, MAX_RULE_CHARS);
        let mut message = text::clean_line(draft.message, MAX_MESSAGE_CHARS);
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
        if self.seen.contains_key(&key) {
            self.repeat(key, finding, counted, repeats);
            return;
        }
        self.count = self.count.saturating_add(1);
        self.severities.add(counted);
        let kept = self.keep(finding);
        if self.seen.len() < MAX_DEDUPLICATED {
            self.seen.insert(key, SeenFinding { counted, kept });
        }
    }

    /// Takes a finding that was reported before: the highest of its severities counts and is shown.
    fn repeat(
        &mut self,
        key: u64,
        finding: Finding,
        counted: FindingSeverity,
        repeats: RepeatRule,
    ) {
        let Some(seen) = self.seen.get_mut(&key) else { return };
        if repeats == RepeatRule::EachTime && finding.place.is_none() {
            self.severities.add(counted);
        } else if is_worse(counted, seen.counted) {
            let before = match seen.counted {
                FindingSeverity::Error => &mut self.severities.errors,
                FindingSeverity::Warning => &mut self.severities.warnings,
                FindingSeverity::Note => &mut self.severities.notes,
            };
            *before = before.saturating_sub(1);
            self.severities.add(counted);
            seen.counted = counted;
        }
        match seen.kept {
            KeptPlace::Others(at) => {
                let other = self.others.get_mut(at);
                if let Some(other) = other.filter(|one| is_worse(finding.severity, one.severity)) {
                    other.severity = finding.severity;
                }
            }
            KeptPlace::Nowhere if finding.severity == FindingSeverity::Error => {
                let kept = self.keep(finding);
                self.seen.insert(key, SeenFinding { counted, kept });
            }
            KeptPlace::Errors | KeptPlace::Nowhere => {}
        }
    }

    fn keep(&mut self, finding: Finding) -> KeptPlace {
        let has_room = self.kept_bytes < MAX_FINDING_BYTES;
        let place = match finding.severity {
            FindingSeverity::Error => KeptPlace::Errors,
            FindingSeverity::Warning | FindingSeverity::Note => {
                KeptPlace::Others(self.others.len())
            }
        };
        let kept = self.kept(finding.severity);
        if !has_room && kept.len() >= MAX_FINDINGS {
            return KeptPlace::Nowhere;
        }
        let texts = [finding.place.as_ref().map(|place| &place.file), finding.rule.as_ref()];
        let bytes = texts.into_iter().flatten().map(String::len).sum::<usize>();
        let bytes = bytes + finding.message.len();
        kept.push(finding);
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        place
    }

    fn kept(&mut self, severity: FindingSeverity) -> &mut Vec<Finding> {
        match severity {
            FindingSeverity::Error => &mut self.errors,
            FindingSeverity::Warning | FindingSeverity::Note => &mut self.others,
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn into_report(self, tests: Option<TestCounts>, doubt: Option<&str>) -> ParsedReport {
        let mut findings = self.errors;
        let is_error = |finding: &Finding| finding.severity == FindingSeverity::Error;
        let (errors, others): (Vec<_>, Vec<_>) = self.others.into_iter().partition(is_error);
        findings.extend(errors);
        findings.extend(others);
        let more_findings = findings.split_off(findings.len().min(MAX_FINDINGS));
        ParsedReport {
            findings,
            more_findings,
            finding_count: self.count,
            has_gaps: self.context.extent != OutputExtent::Complete,
            tests,
            cases: None,
            coverage: None,
            severities: self.severities,
            doubt: doubt.map(|why| text::clean_line(why, MAX_DOUBT_CHARS)),
        }
    }
}

/// Whether a severity is higher than another one. The highest comes first.
fn is_worse(severity: FindingSeverity, other: FindingSeverity) -> bool {
    (severity as u8) < other as u8
}

/// The reason why the counted tests prove nothing, if there is one.
fn doubt_about_tests(tests: TestCounts) -> Option<&'static str> {
    match tests {
        TestCounts { run: 0, failed: 0, skipped: 0 } => Some(NO_TESTS_RAN),
        TestCounts { run: 0, failed: 0, .. } => Some("every test was skipped"),
        TestCounts { .. } => None,
    }
}

#[cfg(test)]
mod tests;
