//! Reads TAP 13 and 14, with subtests and the YAML block that follows a failure.

use super::locate::{self, Spot};
use super::{Context, Draft, Extent, Found, doubt_about, doubtful, lines};
use ralph_core::gate::{Reading, Tests};

const LONGEST_DETAIL: usize = 8 * 1024;
const DEEPEST: usize = 32;

#[derive(Default)]
struct Course {
    /// For each depth, the test points since the last point above it, and how many of them failed.
    levels: [Level; DEEPEST],
    pending: Option<Failure>,
    tests: Tests,
    plan: Option<u32>,
    was_seen: bool,
    /// Between `---` and `...`.
    is_yaml: bool,
}

#[derive(Clone, Copy, Default)]
struct Level {
    points: u32,
    failed: u32,
}

struct Failure {
    name: String,
    /// The lines up to the next test point.
    detail: String,
}

enum Point<'a> {
    Passed,
    Failed(&'a str),
    /// Skipped, or expected to fail (`TODO`).
    Beside,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    if text.trim().is_empty() {
        return doubtful("the report is empty");
    }
    let mut found = Found::new(context);
    let mut course = Course::default();
    for line in lines(text) {
        let trimmed = line.trim_start();
        match trimmed.trim_end() {
            "---" if course.was_seen => course.is_yaml = true,
            "..." => course.is_yaml = false,
            _ => {}
        }
        let depth = (line.len() - trimmed.len()) / 4;
        let is_aligned = (line.len() - trimmed.len()).is_multiple_of(4) && depth < DEEPEST;
        match point(trimmed).filter(|_| is_aligned && !course.is_yaml) {
            Some(point) => course.point(&point, depth, &mut found),
            None => course.other(&line, depth, &mut found),
        }
    }
    course.tell(&mut found);
    let doubt = course.doubt(context);
    found.into_reading(course.was_seen.then_some(course.tests), doubt.as_deref())
}

impl Course {
    fn point(&mut self, point: &Point<'_>, depth: usize, found: &mut Found<'_>) {
        self.tell(found);
        self.was_seen = true;
        let below = self.levels.iter_mut().skip(depth + 1).fold(Level::default(), |sum, level| {
            let level = std::mem::take(level);
            Level {
                points: sum.points.saturating_add(level.points),
                failed: sum.failed.saturating_add(level.failed),
            }
        });
        let failed = u32::from(matches!(point, Point::Failed(_)));
        if let Some(level) = self.levels.get_mut(depth) {
            level.points = level.points.saturating_add(1);
            level.failed = level.failed.saturating_add(failed);
        }
        // The point of a test with subtests only summarises them.
        let is_sum = below.points > 0;
        match point {
            Point::Beside if !is_sum => self.tests.skipped = self.tests.skipped.saturating_add(1),
            Point::Passed if !is_sum => self.tests.run = self.tests.run.saturating_add(1),
            Point::Failed(name) if !is_sum || below.failed == 0 => {
                self.tests.run = self.tests.run.saturating_add(1);
                self.tests.failed = self.tests.failed.saturating_add(1);
                self.pending = Some(Failure { name: (*name).to_owned(), detail: String::new() });
            }
            Point::Beside | Point::Passed | Point::Failed(_) => {}
        }
    }

    fn other(&mut self, line: &str, depth: usize, found: &mut Found<'_>) {
        let trimmed = line.trim();
        if !self.is_yaml {
            if let Some(reason) = trimmed.strip_prefix("Bail out!") {
                self.tell(found);
                self.was_seen = true;
                let message = format!("bailed out: {}", reason.trim());
                found.add(&Draft { message: &message, ..Draft::default() });
                return;
            }
            if let Some(plan) = plan(trimmed).filter(|_| depth == 0 && !line.starts_with(' ')) {
                self.was_seen = true;
                self.plan = Some(self.plan.unwrap_or(0).saturating_add(plan));
                return;
            }
            if trimmed.starts_with("# ") {
                return;
            }
        }
        if let Some(failure) = &mut self.pending
            && failure.detail.len() < LONGEST_DETAIL
        {
            failure.detail.push_str(line);
            failure.detail.push('\n');
        }
    }

    fn tell(&mut self, found: &mut Found<'_>) {
        let Some(Failure { name, detail }) = self.pending.take() else {
            return;
        };
        let file = field(&detail, "fileName").or_else(|| field(&detail, "file"));
        let line = field(&detail, "lineNumber").or_else(|| field(&detail, "line"));
        let column = field(&detail, "columnNumber").or_else(|| field(&detail, "column"));
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let named =
            file.as_deref().map(|file| Spot { file, line: number(line), column: number(column) });
        // The detail starts with the location of the test; the location of the failure is in the stack.
        let stack = detail.split_once("stack:").map(|(_, stack)| stack);
        let traced = stack.and_then(|stack| locate::best_in(stack, found.context));
        let spot = named.or(traced).or_else(|| locate::best_in(&detail, found.context));
        let message = ["message", "error", "diff", "found"]
            .iter()
            .find_map(|key| field(&detail, key))
            .or_else(|| plain(&detail));
        found.add(&Draft {
            spot,
            rule: &name,
            message: message.as_deref().unwrap_or("not ok"),
            ..Draft::default()
        });
    }

    fn doubt(&self, context: &Context<'_>) -> Option<String> {
        let points = self.levels.first().map_or(0, |level| level.points);
        if !self.was_seen {
            Some("the output is not TAP".into())
        } else if context.extent == Extent::CutOff {
            Some("the report is truncated".into())
        } else if let Some(doubt) = doubt_about(self.tests) {
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
fn point(line: &str) -> Option<Point<'_>> {
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
        Point::Beside
    } else if is_ok {
        Point::Passed
    } else {
        Point::Failed(name.trim_end_matches('{').trim())
    })
}

/// Parses `1..4`.
fn plan(line: &str) -> Option<u32> {
    line.strip_prefix("1..")?.split(' ').next()?.parse().ok()
}

/// A value of the YAML block. The lines of a multi-line value are joined.
fn field(detail: &str, key: &str) -> Option<String> {
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
fn plain(detail: &str) -> Option<String> {
    let line = detail.lines().map(str::trim).find(|line| !line.is_empty())?;
    (line != "---").then(|| line.to_owned())
}
