//! Reads TAP 13 and 14, with subtests and the YAML block that follows a failure.

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
    /// Subtests whose point came first and ended with `{`.
    open: Vec<OpenTapPoint>,
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
        let trimmed = line.trim_start();
        match trimmed.trim_end() {
            "---" if course.is_tap => course.is_yaml = true,
            "..." => course.is_yaml = false,
            _ => {}
        }
        let depth = (line.len() - trimmed.len()) / 4;
        let is_aligned = (line.len() - trimmed.len()).is_multiple_of(4) && depth < MAX_DEPTH;
        let point = parse_point(trimmed).filter(|_| is_aligned && !course.is_yaml);
        if point.is_some() || is_aligned && trimmed.trim_end() == "}" {
            course.close_points(depth, &mut found);
        }
        match point {
            Some(point) if trimmed.trim_end().ends_with(" {") => course.open_point(&point, depth),
            Some(point) => course.read_point(&point, depth, &mut found),
            None => course.read_other(&line, depth, &mut found),
        }
    }
    course.close_points(0, &mut found);
    course.report_pending(&mut found);
    let doubt = course.doubt(context);
    let tests = course.is_tap.then_some(course.tests);
    named_tests.finish(&mut names);
    let cases = names.into_cases(tests, doubt.as_deref());
    ParsedReport { cases, ..found.into_report(tests, doubt.as_deref()) }
}

impl TapParser {
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
                self.pending = Some(TapFailure { name: (*name).to_owned(), detail: String::new() });
            }
            TapPoint::Skipped | TapPoint::Passed | TapPoint::Failed(_) => {}
        }
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
            if trimmed.starts_with("# ") {
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
        let Some(TapFailure { name, detail }) = self.pending.take() else {
            return;
        };
        let file = yaml_field(&detail, "fileName").or_else(|| yaml_field(&detail, "file"));
        let line = yaml_field(&detail, "lineNumber").or_else(|| yaml_field(&detail, "line"));
        let column = yaml_field(&detail, "columnNumber").or_else(|| yaml_field(&detail, "column"));
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let named = file.as_deref().map(|file| RawLocation {
            file,
            line: number(line),
            column: number(column),
        });
        // The detail starts with the location of the test; the location of the failure is in the stack.
        let stack = detail.split_once("stack:").map(|(_, stack)| stack);
        let traced = stack.and_then(|stack| source_location::best_location(stack, found.context));
        let spot =
            named.or(traced).or_else(|| source_location::best_location(&detail, found.context));
        let message = ["message", "error", "diff", "found"]
            .iter()
            .find_map(|key| yaml_field(&detail, key))
            .or_else(|| plain_message(&detail));
        found.add(&FindingDraft {
            location: spot,
            rule: &name,
            message: message.as_deref().unwrap_or("not ok"),
            ..FindingDraft::default()
        });
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

/// The first line below a test point that is not YAML, as mocha writes it.
fn plain_message(detail: &str) -> Option<String> {
    let line = detail.lines().map(str::trim).find(|line| !line.is_empty())?;
    (line != "---").then(|| line.to_owned())
}
