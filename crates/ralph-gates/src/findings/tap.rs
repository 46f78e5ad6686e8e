//! Reads TAP 13 and 14, with subtests and the YAML block that follows a failure.

use super::failure_block::LineMatch;
use super::source_location::{self, RawLocation};
use super::test_names::NameCollector;
use super::test_names::tap_names::TapNames;
use super::{
    FindingCollector, FindingDraft, OutputExtent, ReportContext, clean_lines, doubt_about_tests,
    doubtful_report,
};
use ralph_core::gate::{ParsedReport, TestCounts};

const MAX_DETAIL_BYTES: usize = 8 * 1024;
const MAX_DEPTH: usize = 32;

#[derive(Default)]
struct TapParser {
    /// For each depth, the test points since the last point above it, and how many of them failed.
    levels: [TapLevel; MAX_DEPTH],
    pending: Option<TapFailure>,
    tests: TestCounts,
    plan: Option<u32>,
    is_tap: bool,
    /// Between `---` and `...`.
    is_yaml: bool,
    /// The last comment of the outermost level. tape names its tests so, and its points are assertions.
    heading: String,
    /// Comments are what tests print, or the names of subtests.
    has_subtests: bool,
    /// Subtests whose point came first and ended with `{`.
    open: Vec<OpenTapPoint>,
    /// The last failure if it names no location. The point of the test above it does.
    unlocated: Option<TapFailure>,
}

/// Reads TAP inside other output, from the line with its version on.
#[derive(Default)]
pub(super) struct TapReader {
    parser: Option<TapParser>,
    tests: Option<TestCounts>,
}

impl TapReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        if line.starts_with("TAP version 1") {
            self.close(found);
            self.parser = Some(TapParser::default());
            return LineMatch::Recognised;
        }
        // Scripts that package managers run print their own lines after it.
        if line.starts_with("npm ") || line.starts_with("> ") || line.starts_with("ELIFECYCLE") {
            self.close(found);
        }
        let Some(parser) = &mut self.parser else {
            return LineMatch::Unrecognised;
        };
        parser.read_line(line, found);
        LineMatch::Recognised
    }

    /// The tests of all TAP in the output, if there was any.
    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) -> Option<TestCounts> {
        self.close(found);
        self.tests
    }

    fn close(&mut self, found: &mut FindingCollector<'_>) {
        let Some(mut parser) = self.parser.take() else { return };
        parser.finish(found);
        if parser.is_tap {
            let sum = self.tests.get_or_insert_default();
            sum.run = sum.run.saturating_add(parser.tests.run);
            sum.failed = sum.failed.saturating_add(parser.tests.failed);
            sum.skipped = sum.skipped.saturating_add(parser.tests.skipped);
        }
    }
}

struct OpenTapPoint {
    depth: usize,
    is_skipped: bool,
    /// The name, if it failed.
    failed: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct TapLevel {
    points: u32,
    failed: u32,
}

struct TapFailure {
    name: String,
    heading: String,
    /// The lines up to the next test point.
    detail: String,
}

enum TapPoint<'a> {
    Passed,
    Failed(&'a str),
    /// Skipped, or expected to fail (`TODO`).
    Skipped,
}

pub(super) fn read_tap(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    if text.trim().is_empty() {
        return doubtful_report("the report is empty");
    }
    let mut found = FindingCollector::new(context);
    let mut course = TapParser::default();
    let mut names = NameCollector::new(context);
    let mut named_tests = TapNames::default();
    for line in clean_lines(text) {
        named_tests.read_line(&line);
        course.read_line(&line, &mut found);
    }
    course.finish(&mut found);
    let doubt = course.doubt(context);
    let tests = course.is_tap.then_some(course.tests);
    let counted = tests.filter(|_| !named_tests.has_headings());
    named_tests.finish(&mut names);
    let cases = names.into_cases(counted, doubt.as_deref());
    ParsedReport { cases, ..found.into_report(tests, doubt.as_deref()) }
}

impl TapParser {
    fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) {
        let trimmed = line.trim_start();
        match trimmed.trim_end() {
            "---" if self.is_tap => self.is_yaml = true,
            "..." => self.is_yaml = false,
            _ => {}
        }
        let depth = (line.len() - trimmed.len()) / 4;
        let is_aligned = (line.len() - trimmed.len()).is_multiple_of(4) && depth < MAX_DEPTH;
        let point = parse_point(trimmed).filter(|_| is_aligned && !self.is_yaml);
        if point.is_some() || is_aligned && trimmed.trim_end() == "}" {
            self.close_points(depth, found);
        }
        match point {
            Some(point) if trimmed.trim_end().ends_with(" {") => self.open_point(&point, depth),
            Some(point) => self.read_point(&point, depth, found),
            None => self.read_other(line, depth, found),
        }
    }

    fn finish(&mut self, found: &mut FindingCollector<'_>) {
        self.close_points(0, found);
        self.report_pending(found);
        self.report_unlocated(found);
    }

    fn open_point(&mut self, point: &TapPoint<'_>, depth: usize) {
        let failed = match point {
            TapPoint::Failed(name) => Some((*name).to_owned()),
            TapPoint::Passed | TapPoint::Skipped => None,
        };
        self.is_tap = true;
        let is_skipped = matches!(point, TapPoint::Skipped);
        self.open.push(OpenTapPoint { depth, is_skipped, failed });
    }

    /// Ends the open subtests that are as deep or deeper.
    fn close_points(&mut self, depth: usize, found: &mut FindingCollector<'_>) {
        while let Some(opened) = self.open.pop_if(|opened| opened.depth >= depth) {
            let point = match &opened.failed {
                Some(name) => TapPoint::Failed(name),
                None if opened.is_skipped => TapPoint::Skipped,
                None => TapPoint::Passed,
            };
            self.read_point(&point, opened.depth, found);
        }
    }

    fn read_point(&mut self, point: &TapPoint<'_>, depth: usize, found: &mut FindingCollector<'_>) {
        self.report_pending(found);
        self.is_tap = true;
        let below =
            self.levels.iter_mut().skip(depth + 1).fold(TapLevel::default(), |sum, level| {
                let level = std::mem::take(level);
                TapLevel {
                    points: sum.points.saturating_add(level.points),
                    failed: sum.failed.saturating_add(level.failed),
                }
            });
        let failed = u32::from(matches!(point, TapPoint::Failed(_)));
        if let Some(level) = self.levels.get_mut(depth) {
            level.points = level.points.saturating_add(1);
            level.failed = level.failed.saturating_add(failed);
        }
        // The point of a test with subtests only summarises them.
        let is_sum = below.points > 0;
        match point {
            TapPoint::Skipped if !is_sum => {
                self.tests.skipped = self.tests.skipped.saturating_add(1);
            }
            TapPoint::Passed if !is_sum => self.tests.run = self.tests.run.saturating_add(1),
            TapPoint::Failed(name) if !is_sum || below.failed == 0 => {
                self.tests.run = self.tests.run.saturating_add(1);
                self.tests.failed = self.tests.failed.saturating_add(1);
                let heading = Some(self.heading.clone()).filter(|_| !self.has_subtests);
                let heading = heading.unwrap_or_default();
                let name = (*name).to_owned();
                self.pending = Some(TapFailure { name, heading, detail: String::new() });
            }
            TapPoint::Failed(name) => {
                if let Some(failure) = self.unlocated.take() {
                    let name = format!("{name} > {}", failure.name);
                    self.pending = Some(TapFailure { name, ..failure });
                }
            }
            TapPoint::Skipped | TapPoint::Passed => {}
        }
        self.report_unlocated(found);
    }

    fn read_other(&mut self, line: &str, depth: usize, found: &mut FindingCollector<'_>) {
        let trimmed = line.trim();
        if !self.is_yaml {
            if let Some(reason) = trimmed.strip_prefix("Bail out!") {
                self.report_pending(found);
                self.is_tap = true;
                let message = format!("bailed out: {}", reason.trim());
                found.add(&FindingDraft { message: &message, ..FindingDraft::default() });
                return;
            }
            if let Some(plan) = parse_plan(trimmed).filter(|_| depth == 0 && !line.starts_with(' '))
            {
                self.is_tap = true;
                self.plan = Some(self.plan.unwrap_or(0).saturating_add(plan));
                return;
            }
            if let Some(comment) = trimmed.strip_prefix("# ") {
                self.has_subtests |= comment.starts_with("Subtest: ");
                if depth == 0 {
                    comment.trim().clone_into(&mut self.heading);
                }
                return;
            }
        }
        if let Some(failure) = &mut self.pending
            && failure.detail.len() < MAX_DETAIL_BYTES
        {
            failure.detail.push_str(line);
            failure.detail.push('\n');
        }
    }

    fn report_pending(&mut self, found: &mut FindingCollector<'_>) {
        let Some(failure) = self.pending.take() else {
            return;
        };
        self.report_unlocated(found);
        let has_location = source_location::best_location(&failure.detail, found.context).is_some()
            || yaml_field(&failure.detail, "fileName").is_some();
        if has_location {
            report_failure(&failure, found);
        } else {
            self.unlocated = Some(failure);
        }
    }

    fn report_unlocated(&mut self, found: &mut FindingCollector<'_>) {
        if let Some(failure) = self.unlocated.take() {
            report_failure(&failure, found);
        }
    }

    fn doubt(&self, context: &ReportContext<'_>) -> Option<String> {
        let points = self.levels.first().map_or(0, |level| level.points);
        if !self.is_tap {
            Some("the output is not TAP".into())
        } else if context.extent != OutputExtent::Complete {
            Some("the report is truncated".into())
        } else if let Some(doubt) = doubt_about_tests(self.tests) {
            Some(doubt.into())
        } else {
            match self.plan {
                None => Some("the report has no plan".into()),
                Some(plan) if plan != points => {
                    Some(format!("{points} of {plan} planned tests ran"))
                }
                Some(_) => None,
            }
        }
    }
}

fn report_failure(failure: &TapFailure, found: &mut FindingCollector<'_>) {
    let TapFailure { name, heading, detail } = failure;
    let is_assertion = yaml_field(detail, "operator").is_some() && !heading.is_empty();
    let rule = if is_assertion { format!("{heading} > {name}") } else { name.clone() };
    let file = yaml_field(detail, "fileName").or_else(|| yaml_field(detail, "file"));
    let line = yaml_field(detail, "lineNumber").or_else(|| yaml_field(detail, "line"));
    let column = yaml_field(detail, "columnNumber").or_else(|| yaml_field(detail, "column"));
    let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
    let named = file.as_deref().map(|file| RawLocation {
        file,
        line: number(line),
        column: number(column),
    });
    // The detail starts with the location of the test; the location of the failure is in the stack.
    let stack = detail.split_once("stack:").map(|(_, stack)| stack);
    let traced = stack.and_then(|stack| source_location::best_location(stack, found.context));
    let spot = named.or(traced).or_else(|| source_location::best_location(detail, found.context));
    let message = ["message", "error", "diff", "found"]
        .iter()
        .find_map(|key| yaml_field(detail, key))
        .or_else(|| Some(format!("timed out: {}", yaml_field(detail, "expired")?)))
        .or_else(|| expectation(detail))
        .or_else(|| plain_message(detail));
    found.add(&FindingDraft {
        location: spot,
        rule: &rule,
        message: message.as_deref().unwrap_or("not ok"),
        ..FindingDraft::default()
    });
}

/// Parses `ok 1 - name # SKIP why`.
fn parse_point(line: &str) -> Option<TapPoint<'_>> {
    let (is_ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let rest = rest.trim_start_matches(|char: char| char.is_ascii_digit()).trim();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = rest
        .rsplit_once(" # ")
        .or_else(|| Some(("", rest.strip_prefix("# ")?)))
        .unwrap_or((rest, ""));
    let is = |word: &str| {
        directive.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    Some(if is("skip") || is("todo") {
        TapPoint::Skipped
    } else if is_ok {
        TapPoint::Passed
    } else {
        TapPoint::Failed(name.trim_end_matches('{').trim())
    })
}

/// Parses `1..4`.
fn parse_plan(line: &str) -> Option<u32> {
    line.strip_prefix("1..")?.split(' ').next()?.parse().ok()
}

/// A value of the YAML block. The lines of a multi-line value are joined.
fn yaml_field(detail: &str, key: &str) -> Option<String> {
    let mut rest = detail.lines();
    let (indent, value) = rest.by_ref().find_map(|line| {
        let trimmed = line.trim_start();
        let value = trimmed.strip_prefix(key)?.strip_prefix(':')?;
        Some((line.len() - trimmed.len(), value.trim()))
    })?;
    if !matches!(value, "|" | "|-" | ">" | ">-" | "") {
        let bare = value.trim_matches(['\'', '"']);
        return (!bare.is_empty() && bare != "null").then(|| bare.to_owned());
    }
    let block: Vec<_> = rest
        .take_while(|line| line.trim().is_empty() || line.len() - line.trim_start().len() > indent)
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    (!block.is_empty() && !value.is_empty()).then(|| block.join(" "))
}

/// What an assertion of tape compared.
fn expectation(detail: &str) -> Option<String> {
    let (expected, actual) = (yaml_field(detail, "expected")?, yaml_field(detail, "actual")?);
    Some(format!("expected {expected}, actual {actual}"))
}

/// The first line below a test point that is not YAML, as mocha writes it.
fn plain_message(detail: &str) -> Option<String> {
    let line = detail.lines().map(str::trim).find(|line| !line.is_empty())?;
    (line != "---").then(|| line.to_owned())
}
