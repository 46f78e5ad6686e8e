//! Reads which lines tests run, in the formats of lcov, Cobertura, LLVM and Go.
//!
//! A reader collects lines under the names that the report has. Those names are foreign: absolute, relative to other
//! directories, from a container, or names of Go modules. [`match_project_files`] finds out which files of the project
//! they are, and the rest is counted as unmatched.

mod cobertura;
mod go_cover;
mod lcov;
mod llvm_cov;
mod project_match;

use project_match::match_project_files;

use super::ReportContext;
use ralph_core::coverage::MeasuredCoverage;
use ralph_core::gate::{ParsedReport, ReportFormat};
use ralph_core::line_set::{LineRange, LineSet};
use ralph_core::text;
use std::collections::BTreeMap;

/// More files than any project has.
const MAX_FILES: usize = 200_000;
/// Ranges of lines that are read. A report of 64 MiB has fewer.
const MAX_RANGES: usize = 8_000_000;
const MAX_NAME_CHARS: usize = 1_000;

const NO_LINES: &str = "the report has no lines that could be covered";

/// The lines of a report, under the names that it has.
#[derive(Debug, Default)]
struct CoverageDraft {
    files: BTreeMap<DraftName, DraftLines>,
    ranges: usize,
    /// Set if there was more than is read.
    is_cut: bool,
}

/// A file's name, and the directories that it may be relative to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DraftName {
    name: String,
    /// The `<source>` directories of a Cobertura document; without any, the gate's own directory.
    sources: Vec<String>,
}

#[derive(Debug, Default)]
struct DraftLines {
    covered: Vec<LineRange>,
    missed: Vec<LineRange>,
}

impl CoverageDraft {
    /// Adds executable lines of a file. A line that is covered once is covered, whatever else the report says about it.
    fn add(&mut self, name: &DraftName, range: Option<LineRange>, is_covered: bool) {
        let Some(range) = range else { return };
        if self.ranges >= MAX_RANGES {
            self.is_cut = true;
            return;
        }
        if !self.files.contains_key(name) {
            if self.files.len() >= MAX_FILES {
                self.is_cut = true;
                return;
            }
            self.files.insert(name.clone(), DraftLines::default());
        }
        let Some(lines) = self.files.get_mut(name) else { return };
        let ranges = if is_covered { &mut lines.covered } else { &mut lines.missed };
        // Reports go through a file line by line.
        match ranges.last_mut() {
            Some(last) if last.last.checked_add(1) == Some(range.first) => last.last = range.last,
            Some(_) | None => {
                ranges.push(range);
                self.ranges += 1;
            }
        }
    }
}

impl DraftName {
    /// `None` if the name is empty, or is not one that a file can have.
    fn new(name: &str) -> Option<Self> {
        let name = name.trim();
        let is_plain = !name.is_empty()
            && name.chars().count() <= MAX_NAME_CHARS
            && text::clean_line(name, MAX_NAME_CHARS) == name;
        is_plain.then(|| Self { name: name.to_string(), sources: Vec::new() })
    }
}

impl DraftLines {
    fn into_sets(self) -> (LineSet, LineSet) {
        let covered = LineSet::from_ranges(self.covered);
        let missed = LineSet::from_ranges(self.missed).difference(&covered);
        (covered, missed)
    }
}

/// Parses a report, or several that are one together.
pub(super) fn read_coverage(
    format: ReportFormat,
    documents: &[&str],
    context: &ReportContext<'_>,
) -> ParsedReport {
    let mut draft = CoverageDraft::default();
    let mut doubt = None;
    for document in documents {
        let read = match format {
            ReportFormat::Lcov => lcov::read_lcov(document, &mut draft),
            ReportFormat::Cobertura => cobertura::read_cobertura(document, &mut draft),
            ReportFormat::LlvmCov => llvm_cov::read_llvm_cov(document, &mut draft),
            ReportFormat::GoCover => go_cover::read_go_cover(document, &mut draft),
            ReportFormat::Text
            | ReportFormat::Junit
            | ReportFormat::Sarif
            | ReportFormat::CargoJson
            | ReportFormat::EslintJson
            | ReportFormat::GoTestJson
            | ReportFormat::Tap
            | ReportFormat::Pytest
            | ReportFormat::Tsc
            | ReportFormat::None => Err("it is not a coverage report"),
        };
        doubt = doubt.or(read.err());
    }
    if draft.is_cut {
        doubt = doubt.or(Some("the report is too large"));
    }
    let count = draft.files.len();
    let first = draft.files.keys().next().map(|one| text::clean_line(&one.name, 60));
    let measured = match_project_files(draft, context);
    let doubt = match (doubt, first) {
        (Some(doubt), _) => Some(doubt.to_string()),
        (None, None) => Some(NO_LINES.to_string()),
        (None, Some(_)) if measured.lines == 0 && (measured.unmatched as usize) < count => {
            Some("`coverage_exclude` leaves no lines of the report".to_string())
        }
        (None, Some(first)) if measured.lines == 0 => {
            Some(format!("the report names no file of the project; its first file is `{first}`"))
        }
        (None, Some(_)) => None,
    };
    ParsedReport { coverage: Some(Box::new(measured)), doubt, ..ParsedReport::default() }
}

/// How much of the report is kept for a comparison with changed lines. With it, a report fits into the cache of results.
const MAX_KEPT_RANGES: usize = 400_000;

/// Drops the lines of the last files if there are too many to keep. The numbers stay those of all files.
fn drop_excess_lines(measured: &mut MeasuredCoverage) {
    let mut left = MAX_KEPT_RANGES;
    let files = std::mem::take(&mut measured.files);
    for (path, file) in files {
        let size = file.covered.ranges().len() + file.missed.ranges().len() + 1;
        match left.checked_sub(size) {
            Some(rest) => {
                left = rest;
                measured.files.insert(path, file);
            }
            None => measured.is_truncated = true,
        }
    }
}

#[cfg(test)]
mod tests;
