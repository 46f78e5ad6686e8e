//! Coverage of lines by tests: what a gate measured, and the conditions that a policy sets on it.
//!
//! Only lines count, because every format reports them. Shares are compared as exact fractions: 79.996 % is not 80 %.

use crate::line_set::{LineRange, LineSet};
use crate::requirement::{Finding, FindingLocation};
use crate::serde_skip::{is_false, is_zero};
use crate::text;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::cmp::Reverse;
use serde::{Deserialize, Serialize};

/// The rule of findings about lines that no test runs.
pub const NOT_COVERED_RULE: &str = "not-covered";
/// The rule of a finding about a share that is too small.
pub const LOW_COVERAGE_RULE: &str = "low-coverage";

/// The rule of a finding about coverage that fell below that of the base.
pub const COVERAGE_FELL_RULE: &str = "coverage-fell";

/// How many files are named whose lines no test runs.
const MAX_LISTED_FILES: usize = 5;
const MAX_LISTED_RANGES: usize = 5;

/// Hundredths of a percent, from 0 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CoverageShare(pub u16);

/// What a gate's policy requires of its coverage. Left out of a gate without any, so that older seals keep their hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoverageConditions {
    /// The least share of all lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<CoverageShare>,
    /// The least share of the lines that the run added or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_changed: Option<CoverageShare>,
    /// Whether the share of all lines must not be smaller than at the base of the run.
    #[serde(skip_serializing_if = "is_false")]
    pub ratchet: bool,
    /// Globs of files that do not count, neither among all lines nor among changed ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// What one execution of a gate measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredCoverage {
    pub covered: u32,
    /// The lines that can be executed.
    pub lines: u32,
    /// By path, relative to the project.
    pub files: BTreeMap<String, FileCoverage>,
    /// Number of files in the report that are not in the project.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unmatched: u32,
    /// There was more than is kept: files are missing in `files`, and only the numbers are complete.
    #[serde(default, skip_serializing_if = "is_false", alias = "is_abridged")]
    pub is_truncated: bool,
}

/// The executable lines of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCoverage {
    #[serde(default, skip_serializing_if = "LineSet::is_empty")]
    pub covered: LineSet,
    #[serde(default, skip_serializing_if = "LineSet::is_empty")]
    pub missed: LineSet,
}

/// A number of lines and how many of them tests run, for records and views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageCount {
    pub covered: u32,
    pub lines: u32,
}

/// The lines of one file that a run added or changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedLines {
    /// Relative to the project.
    pub path: String,
    pub lines: LineSet,
    /// The lines that could run, as far as the text shows. A report that does not name the file did not measure them.
    #[serde(default, skip_serializing_if = "LineSet::is_empty")]
    pub code: LineSet,
    /// The usual ending of its language, if it is a script whose name has none: `py`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_ending: Option<String>,
    /// Lines that keep the tool from measuring others, with the mark: `pragma: no cover`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclusions: Vec<(u32, String)>,
    /// All changed lines with code, if there is such a mark. Those that the report does not mention count as missed.
    #[serde(default, skip_serializing_if = "LineSet::is_empty")]
    pub excluded_code: LineSet,
    /// How many lines the file has now; 0 if that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub line_count: u32,
    /// Why the changed lines are not known: the file cannot be compared as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// How much of a change tests run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeCoverage {
    pub count: CoverageCount,
    /// Runs of changed lines that no test executes, and files that the report does not name.
    pub findings: Vec<Finding>,
}

impl CoverageShare {
    pub const MAX: u16 = 10_000;

    /// `80 %`, `79.5 %`
    pub fn describe(self) -> String {
        let (whole, hundredths) = (self.0 / 100, self.0 % 100);
        match (hundredths, hundredths % 10) {
            (0, _) => format!("{whole} %"),
            (_, 0) => format!("{whole}.{} %", hundredths / 10),
            (_, _) => format!("{whole}.{hundredths:02} %"),
        }
    }
}

impl CoverageConditions {
    pub fn is_empty(&self) -> bool {
        let Self { min, min_changed, ratchet, exclude: _ } = self;
        min.is_none() && min_changed.is_none() && !ratchet
    }

    /// Whether the field is left out on disk. Globs alone are kept, as they were written.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl CoverageCount {
    /// Whether at least this share is covered. A change without executable lines has nothing to cover.
    pub fn reaches(self, share: CoverageShare) -> bool {
        u64::from(self.covered) * u64::from(CoverageShare::MAX)
            >= u64::from(self.lines) * u64::from(share.0)
    }

    /// Whether its share is smaller than the other one.
    pub fn is_below(self, other: Self) -> bool {
        u64::from(self.covered) * u64::from(other.lines)
            < u64::from(other.covered) * u64::from(self.lines)
    }

    /// `71.43 % (15 of 21 lines)`. Rounded down, so that a share that falls short never looks as if it did not.
    pub fn describe(self) -> String {
        let lines = text::count_noun(self.lines, "line");
        format!("{} ({} of {lines})", self.share().describe(), self.covered)
    }

    pub fn share(self) -> CoverageShare {
        let covered = u64::from(self.covered.min(self.lines)) * u64::from(CoverageShare::MAX);
        let share = covered.checked_div(u64::from(self.lines));
        CoverageShare(
            share.and_then(|share| u16::try_from(share).ok()).unwrap_or(CoverageShare::MAX),
        )
    }
}

impl MeasuredCoverage {
    pub fn count(&self) -> CoverageCount {
        CoverageCount { covered: self.covered, lines: self.lines }
    }

    /// Findings about the files with the most lines that no test runs, for a share that is too small.
    pub fn least_covered(&self) -> Vec<Finding> {
        let mut files: Vec<_> =
            self.files.iter().filter(|(_, file)| !file.missed.is_empty()).collect();
        files.sort_by_key(|(_, file)| Reverse(file.missed.count()));
        files.truncate(MAX_LISTED_FILES);
        files.iter().map(|(path, file)| file.missed_finding(path)).collect()
    }

    /// The share of a change that tests run. `is_excluded` names files that need no coverage, `is_measured` says whether the
    /// tool measures the language of a changed file. `Err` if the report does not say.
    pub fn of_change(
        &self,
        changes: &[ChangedLines],
        is_excluded: &dyn Fn(&str) -> bool,
        is_measured: &dyn Fn(&ChangedLines) -> bool,
    ) -> Result<ChangeCoverage, String> {
        let mut coverage = ChangeCoverage::default();
        for change in changes.iter().filter(|change| !is_excluded(&change.path)) {
            let file = self.files.get(&change.path);
            if let Some(why) = &change.unreadable {
                if file.is_some() || is_measured(change) {
                    let name = text::clean_line(&change.path, 80);
                    return Err(format!("the changed lines of `{name}` are not known: {why}"));
                }
                continue;
            }
            match file {
                Some(file) if file.has_lines_behind(change.line_count) => {
                    let name = text::clean_line(&change.path, 80);
                    let count = text::count_noun(change.line_count, "line");
                    return Err(format!(
                        "the report is about another `{name}`: this one has {count}"
                    ));
                }
                Some(file) => coverage.add_file(change, file),
                None if change.code.is_empty() && change.excluded_code.is_empty() => {}
                None if !is_measured(change) => {}
                None if self.is_truncated => {
                    let name = text::clean_line(&change.path, 80);
                    return Err(format!(
                        "the report is too large, and the lines of `{name}` were left out"
                    ));
                }
                None => coverage.add_unmeasured(change),
            }
        }
        Ok(coverage)
    }
}

impl FileCoverage {
    /// Whether it has lines that a file of this length does not have. Some tools count an empty line behind the last one.
    fn has_lines_behind(&self, line_count: u32) -> bool {
        let last = |lines: &LineSet| lines.ranges().last().map_or(0, |range| range.last);
        line_count > 0 && last(&self.covered).max(last(&self.missed)) > line_count.saturating_add(1)
    }

    /// `3 of 6 lines are not covered: 6 to 8`
    fn missed_finding(&self, path: &str) -> Finding {
        let missed = self.missed.count();
        let all = text::count_noun(missed.saturating_add(self.covered.count()), "line");
        let ranges = self.missed.ranges();
        let mut shown: Vec<String> =
            ranges.iter().copied().take(MAX_LISTED_RANGES).map(describe_range).collect();
        if ranges.len() > MAX_LISTED_RANGES {
            shown.push("…".to_owned());
        }
        let verb = if missed == 1 { "is" } else { "are" };
        let message = format!("{missed} of {all} {verb} not covered: {}", shown.join(", "));
        finding(path, ranges.first().map(|range| range.first), message)
    }
}

fn describe_range(range: LineRange) -> String {
    match range {
        LineRange { first, last } if first == last => first.to_string(),
        LineRange { first, last } => format!("{first} to {last}"),
    }
}

impl ChangeCoverage {
    fn add_file(&mut self, change: &ChangedLines, file: &FileCoverage) {
        let missed = change.lines.intersection(&file.missed);
        let covered = change.lines.intersection(&file.covered).count();
        self.add(covered, covered.saturating_add(missed.count()));
        self.findings.extend(missed.ranges().iter().map(|range| {
            let message = match range {
                LineRange { first, last } if first == last => "not covered".to_owned(),
                LineRange { first, last } => format!("lines {first} to {last} are not covered"),
            };
            finding(&change.path, Some(range.first), message)
        }));
        let excluded = change.excluded_code.difference(&file.covered).difference(&file.missed);
        self.add(0, excluded.count());
        self.findings.extend(change.exclusions.iter().map(|(line, mark)| {
            let message = format!("`{mark}` keeps changed lines from being measured");
            finding(&change.path, Some(*line), message)
        }));
    }

    fn add_unmeasured(&mut self, change: &ChangedLines) {
        let code = if change.code.is_empty() { &change.excluded_code } else { &change.code };
        self.add(0, code.count());
        let first = code.ranges().first().map(|range| range.first);
        let message = "not covered: the coverage report does not name this file";
        self.findings.push(finding(&change.path, first, message.to_owned()));
    }

    fn add(&mut self, covered: u32, lines: u32) {
        self.count.covered = self.count.covered.saturating_add(covered);
        self.count.lines = self.count.lines.saturating_add(lines);
    }
}

fn finding(path: &str, line: Option<u32>, message: String) -> Finding {
    Finding {
        place: Some(FindingLocation { file: path.to_owned(), line, column: None }),
        rule: Some(NOT_COVERED_RULE.to_owned()),
        ..Finding::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn lines(range: core::ops::RangeInclusive<u32>) -> LineSet {
        LineSet::from_lines(range)
    }

    #[test]
    fn a_share_is_compared_exactly_and_shown_rounded_down() {
        for (covered, all, share, reaches, shown) in [
            (4, 5, 8_000, true, "80 % (4 of 5 lines)"),
            (79_999, 100_000, 8_000, false, "79.99 % (79999 of 100000 lines)"),
            (2, 3, 6_667, false, "66.66 % (2 of 3 lines)"),
            (1, 1, 10_000, true, "100 % (1 of 1 line)"),
            (0, 0, 10_000, true, "100 % (0 of 0 lines)"),
            (0, 9, 0, true, "0 % (0 of 9 lines)"),
            (199, 200, 9_950, true, "99.5 % (199 of 200 lines)"),
        ] {
            let count = CoverageCount { covered, lines: all };
            assert_eq!(count.reaches(CoverageShare(share)), reaches, "{shown}");
            assert_eq!(count.describe(), shown);
        }
        let count = |covered, lines| CoverageCount { covered, lines };
        assert!(count(1, 3).is_below(count(34, 100)));
        assert!(!count(1, 3).is_below(count(33, 100)));
        assert!(!count(5, 5).is_below(count(9, 9)));
    }

    #[test]
    fn a_change_is_measured_by_its_own_lines() {
        let files = BTreeMap::from([
            ("src/a.py".to_owned(), FileCoverage { covered: lines(1..=8), missed: lines(9..=12) }),
            (
                "src/b.py".to_owned(),
                FileCoverage { covered: LineSet::default(), missed: lines(1..=9) },
            ),
        ]);
        let measured =
            MeasuredCoverage { covered: 8, lines: 21, files, ..MeasuredCoverage::default() };
        let change = |path: &str, lines: LineSet, code: LineSet| ChangedLines {
            path: path.to_owned(),
            lines,
            code,
            script_ending: None,
            exclusions: Vec::new(),
            excluded_code: LineSet::default(),
            line_count: 0,
            unreadable: None,
        };
        let is_measured = |change: &ChangedLines| {
            change.path.rsplit_once('.').is_some_and(|(_, ending)| ending == "py")
        };
        let changes = vec![
            change("src/a.py", lines(7..=10), lines(7..=10)),
            change("src/b.py", lines(3..=3), LineSet::default()),
            change("src/new.py", lines(1..=5), lines(2..=4)),
            change("src/types.py", lines(1..=5), LineSet::default()),
            change("gen/a.py", lines(1..=5), lines(1..=5)),
            change("tools/a.rb", lines(1..=5), lines(1..=5)),
        ];
        let is_excluded = |path: &str| path.starts_with("gen/");
        let coverage = measured.of_change(&changes, &is_excluded, &is_measured).unwrap();
        assert_eq!(coverage.count, CoverageCount { covered: 2, lines: 8 });
        let shown: Vec<_> = coverage
            .findings
            .iter()
            .map(|finding| {
                let place = finding.place.clone().unwrap();
                format!("{}:{}: {}", place.file, place.line.unwrap(), finding.message)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "src/a.py:9: lines 9 to 10 are not covered",
                "src/b.py:3: not covered",
                "src/new.py:2: not covered: the coverage report does not name this file",
            ]
        );
        let truncated = MeasuredCoverage { is_truncated: true, ..measured };
        assert_eq!(
            truncated.of_change(&changes, &is_excluded, &is_measured).unwrap_err(),
            "the report is too large, and the lines of `src/new.py` were left out"
        );
    }

    #[test]
    fn files_with_the_most_missed_lines_are_named_first() {
        let file = |covered, missed: &[core::ops::RangeInclusive<u32>]| FileCoverage {
            covered,
            missed: LineSet::from_lines(missed.iter().cloned().flatten()),
        };
        let scattered = [1..=1, 3..=3, 5..=5, 7..=7, 9..=9, 11..=11];
        let files = BTreeMap::from([
            ("a.py".to_owned(), file(lines(1..=1), &[2..=2])),
            ("b.py".to_owned(), file(lines(1..=5), &[6..=8, 10..=10])),
            ("c.py".to_owned(), file(lines(1..=9), &[])),
            ("d.py".to_owned(), file(LineSet::default(), &scattered)),
            ("e.py".to_owned(), file(LineSet::default(), &[1..=2])),
            ("f.py".to_owned(), file(LineSet::default(), &[1..=3])),
            ("g.py".to_owned(), file(LineSet::default(), &[4..=4])),
        ]);
        let measured = MeasuredCoverage { files, ..MeasuredCoverage::default() };
        let shown: Vec<_> = measured
            .least_covered()
            .iter()
            .map(|one| {
                let place = one.place.clone().unwrap();
                format!("{}:{}: {}", place.file, place.line.unwrap(), one.message)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "d.py:1: 6 of 6 lines are not covered: 1, 3, 5, 7, 9, …",
                "b.py:6: 4 of 9 lines are not covered: 6 to 8, 10",
                "f.py:1: 3 of 3 lines are not covered: 1 to 3",
                "e.py:1: 2 of 2 lines are not covered: 1 to 2",
                "a.py:2: 1 of 2 lines is not covered: 2",
            ]
        );
    }

    /// Lines that a mark of the change keeps from being measured are not covered, and a file that cannot be compared is
    /// not skipped.
    #[test]
    fn a_change_cannot_exempt_itself() {
        let file = FileCoverage { covered: lines(1..=4), missed: LineSet::default() };
        let measured = MeasuredCoverage {
            covered: 4,
            lines: 4,
            files: BTreeMap::from([("a.py".to_owned(), file)]),
            ..MeasuredCoverage::default()
        };
        let change = |path: &str| ChangedLines {
            path: path.to_owned(),
            lines: lines(3..=8),
            code: LineSet::default(),
            script_ending: None,
            exclusions: vec![(5, "pragma: no cover".to_owned())],
            excluded_code: lines(3..=8),
            line_count: 8,
            unreadable: None,
        };
        let of = |change: ChangedLines| {
            let shown = |coverage: ChangeCoverage| {
                let messages: Vec<_> =
                    coverage.findings.into_iter().map(|finding| finding.message).collect();
                format!("{}: {}", coverage.count.describe(), messages.join("; "))
            };
            let is_measured = |change: &ChangedLines| {
                change.path.rsplit_once('.').is_some_and(|(_, ending)| ending == "py")
            };
            measured.of_change(&[change], &|_| false, &is_measured).map(shown)
        };
        assert_eq!(
            of(change("a.py")).unwrap(),
            "33.33 % (2 of 6 lines): `pragma: no cover` keeps changed lines from being measured"
        );
        assert_eq!(
            of(change("new.py")).unwrap(),
            "0 % (0 of 6 lines): not covered: the coverage report does not name this file"
        );
        // `#line 900` and the like: what the report lists is not in the file.
        let shorter = ChangedLines { line_count: 2, ..change("a.py") };
        assert_eq!(
            of(shorter).unwrap_err(),
            "the report is about another `a.py`: this one has 2 lines"
        );
        assert!(of(ChangedLines { line_count: 3, ..change("a.py") }).is_ok());
        let data =
            |path: &str| ChangedLines { unreadable: Some("no text".to_owned()), ..change(path) };
        assert_eq!(
            of(data("a.py")).unwrap_err(),
            "the changed lines of `a.py` are not known: no text"
        );
        assert_eq!(of(data("a.bin")).unwrap(), "100 % (0 of 0 lines): ");
    }
}
