//! Names the tests of TAP by the subtests that they are in: `suite > inner`. The point of a subtest comes after those
//! inside it. Streams of tape have no subtests, and are named by their comments.

use super::super::source_location;
use super::tape_names::TapeNames;
use super::{MAX_PENDING_BYTES, NameCollector, PART_SEPARATOR, PendingCase};
use ralph_core::test_cases::{MAX_CASES, TestOutcome};

const MAX_DEPTH: usize = 32;

#[derive(Debug, Default)]
pub(in crate::findings) struct TapNames {
    /// The named points so far, each with its depth.
    points: Vec<TapCase>,
    outer_points: u32,
    plan: Option<u32>,
    /// Subtests whose point came first and ended with `{`.
    open: Vec<OpenSubtest>,
    last_number: u32,
    is_yaml: bool,
    tape: TapeNames,
    bytes: usize,
    has_dropped: bool,
}

#[derive(Debug)]
struct OpenSubtest {
    depth: usize,
    case: PendingCase,
}

#[derive(Debug)]
struct TapCase {
    depth: usize,
    case: PendingCase,
}

impl TapNames {
    pub(in crate::findings) fn read_line(&mut self, line: &str) {
        let trimmed = line.trim_start_matches(' ');
        match trimmed.trim_end() {
            "---" if !self.points.is_empty() => self.is_yaml = true,
            "..." => self.is_yaml = false,
            _ => {}
        }
        let spaces = line.len() - trimmed.len();
        if self.is_yaml || !spaces.is_multiple_of(4) || spaces / 4 >= MAX_DEPTH {
            return;
        }
        let depth = spaces / 4;
        if spaces == 0 {
            self.tape.read_line(trimmed);
        }
        if let Some(point) = parse_point(trimmed) {
            // A line of a test's output may look like a point, but has another number.
            let is_next = point.number.is_none_or(|number| {
                number <= 1 || number == self.last_number || number == self.last_number + 1
            });
            if depth == 0 && !is_next {
                self.has_dropped = true;
                return;
            }
            if depth == 0 {
                self.last_number = point.number.unwrap_or(self.last_number);
            }
            if depth == 0 {
                self.tape.add_assertion(point.outcome);
            } else {
                self.tape.mark_subtests();
            }
            self.close_subtests(depth);
            let name = point.name.replace("\\#", "#").replace("\\\\", "\\");
            if point.is_open {
                let case = PendingCase::new(point.outcome, name);
                self.open.push(OpenSubtest { depth, case });
            } else {
                self.add_point(point.outcome, &name, depth);
            }
        } else if trimmed.trim_end() == "}" {
            self.close_subtests(depth);
        } else if let Some(plan) = trimmed.strip_prefix("1..").filter(|_| spaces == 0)
            && let Ok(plan) = plan.split([' ', '#']).next().unwrap_or_default().parse::<u32>()
        {
            self.plan = Some(self.plan.unwrap_or(0).saturating_add(plan));
        }
    }

    /// Whether points are assertions, so that there are fewer tests than points.
    pub(in crate::findings) fn has_headings(&self) -> bool {
        self.tape.has_headings()
    }

    /// Without a plan the lines were not TAP.
    pub(in crate::findings) fn finish(mut self, names: &mut NameCollector<'_>) {
        let Some(plan) = self.plan else { return };
        self.close_subtests(0);
        if self.has_dropped || plan != self.outer_points {
            names.mark_incomplete();
        }
        let points = self.points.into_iter().map(|point| point.case);
        for case in self.tape.into_cases().unwrap_or_else(|| points.collect()) {
            case.add_name(names);
            names.count_outcome(case.outcome);
        }
    }

    /// Ends the open subtests that are as deep or deeper.
    fn close_subtests(&mut self, depth: usize) {
        while let Some(opened) = self.open.pop_if(|opened| opened.depth >= depth) {
            self.add_point(opened.case.outcome, &opened.case.name, opened.depth);
        }
    }

    fn add_point(&mut self, outcome: TestOutcome, name: &str, depth: usize) {
        if depth == 0 {
            self.outer_points = self.outer_points.saturating_add(1);
        }
        let inner =
            self.points.iter().rposition(|point| point.depth <= depth).map_or(0, |at| at + 1);
        let mut has_failure = false;
        let has_subtests = inner < self.points.len();
        self.bytes += (self.points.len() - inner + 1) * (name.len() + PART_SEPARATOR.len());
        if self.bytes > MAX_PENDING_BYTES {
            self.points.truncate(inner);
            self.has_dropped = true;
            return;
        }
        for point in self.points.iter_mut().skip(inner) {
            point.case.name = format!("{name}{PART_SEPARATOR}{}", point.case.name);
            point.depth = depth;
            has_failure |= point.case.outcome == TestOutcome::Failed;
        }
        // The point of a test with subtests only summarises them, unless it fails by itself.
        if has_subtests && (outcome != TestOutcome::Failed || has_failure) {
            return;
        }
        if self.points.len() < MAX_CASES {
            let is_file = depth == 0 && source_location::is_source_file(name);
            let is_failed_group = outcome == TestOutcome::Failed && (has_subtests || is_file);
            let case = PendingCase { outcome, name: name.to_owned(), is_failed_group };
            self.points.push(TapCase { depth, case });
        } else {
            self.has_dropped = true;
        }
    }
}

struct NamedPoint<'a> {
    outcome: TestOutcome,
    name: &'a str,
    number: Option<u32>,
    /// Its subtests follow.
    is_open: bool,
}

/// `ok 1 - name # SKIP why`, with the duration that node, tap, vitest and bats add.
fn parse_point(line: &str) -> Option<NamedPoint<'_>> {
    let (is_ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let numbered = rest.trim_start_matches(|char: char| char.is_ascii_digit());
    let number = rest.get(..rest.len() - numbered.len()).unwrap_or_default();
    let numbered = numbered.trim_end();
    let is_open = numbered.ends_with(" {");
    let rest = numbered.trim_end_matches('{').trim();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = rest
        .rsplit_once(" # ")
        .or_else(|| Some(("", rest.strip_prefix("# ")?)))
        .unwrap_or((rest, ""));
    let is = |word: &str| {
        directive.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    let outcome = match is_ok {
        _ if is("skip") || is("todo") => TestOutcome::Skipped,
        true => TestOutcome::Passed,
        false => TestOutcome::Failed,
    };
    // The text after `#` is part of the name, unless it is a directive or a duration.
    let is_remark = directive.is_empty()
        || is("skip")
        || is("todo")
        || is("time=")
        || is("in ") && directive.ends_with("ms");
    let name = without_bats_duration(if is_remark { name } else { rest });
    let name = if name.is_empty() { number } else { name };
    Some(NamedPoint { outcome, name, number: number.parse().ok(), is_open })
}

/// Removes the duration that bats adds: `adds in 23ms`.
fn without_bats_duration(name: &str) -> &str {
    match name.rsplit_once(" in ") {
        Some((head, took)) if super::is_duration(took) => head,
        Some(_) | None => name,
    }
}
