//! Reads the output of pytest, with any `--tb` style.

use super::failure_block::{FailureBlock, LineMatch, LocationPreference};
use super::source_location::{self, RawLocation};
use super::test_counter::TestCounter;
use super::test_names::NameCollector;
use super::test_names::pytest_names::PytestNames;
use super::{FindingCollector, FindingDraft, ReportContext, clean_lines};
use ralph_core::gate::ParsedReport;
use ralph_core::requirement::FindingSeverity;

/// How many failures are matched with their lines in the summary.
const MAX_BLOCKS: usize = 300;

#[derive(Debug, Default)]
pub(super) struct PytestReader {
    section: PytestSection,
    block: Option<FailureBlock>,
    closed: Vec<FailureBlock>,
    /// Node ids and messages from the short summary.
    summary: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PytestSection {
    /// Before or after pytest's output.
    #[default]
    Outside,
    /// The header and the progress.
    Session,
    Failures,
    Summary,
}

pub(super) fn read_pytest(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let mut pytest = PytestReader::default();
    let mut tally = TestCounter::default();
    let mut found = FindingCollector::new(context);
    let mut names = NameCollector::new(context);
    let mut named_tests = PytestNames::default();
    let mut was_seen = false;
    for line in clean_lines(text) {
        tally.read_line(&line);
        named_tests.read_line(&line, &mut names);
        was_seen |= pytest.read_line(&line, &mut found) == LineMatch::Recognised;
    }
    was_seen |= tally.counts().is_some();
    pytest.finish(&mut found);
    let doubt = tally.doubt(context.extent).or((!was_seen).then_some("the output is not pytest's"));
    named_tests.finish(&mut names);
    let cases = names.into_cases(tally.counts(), doubt);
    ParsedReport { cases, ..found.into_report(tally.counts(), doubt) }
}

impl PytestReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        if let Some(title) = frame_title(line, '=') {
            self.close_block();
            self.section = match title {
                "FAILURES" | "ERRORS" => PytestSection::Failures,
                "short test summary info" => PytestSection::Summary,
                _ if title == "test session starts" || self.section != PytestSection::Outside => {
                    PytestSection::Session
                }
                _ => PytestSection::Outside,
            };
            return match self.section {
                PytestSection::Outside => LineMatch::Unrecognised,
                PytestSection::Session | PytestSection::Failures | PytestSection::Summary => {
                    LineMatch::Recognised
                }
            };
        }
        if line.starts_with("ImportError while loading conftest '") {
            self.close_block();
            self.section = PytestSection::Failures;
            self.block = Some(FailureBlock::new("conftest"));
            return LineMatch::Recognised;
        }
        match self.section {
            PytestSection::Outside | PytestSection::Session => LineMatch::Unrecognised,
            PytestSection::Failures => {
                self.read_failure(line, found);
                LineMatch::Recognised
            }
            PytestSection::Summary => self.read_summary(line),
        }
    }

    fn read_failure(&mut self, line: &str, found: &mut FindingCollector<'_>) {
        if let Some(title) = frame_title(line, '_').filter(|title| *title != "_") {
            self.close_block();
            self.block = Some(FailureBlock::new(title));
            return;
        }
        let Some(block) = &mut self.block else {
            // `--tb=line` prints only locations.
            if let Some(located) =
                source_location::first_location(line).filter(|located| located.before.is_empty())
            {
                found.add(&FindingDraft {
                    location: Some(located.location),
                    message: located.after.trim_start_matches([':', ' ']),
                    ..FindingDraft::default()
                });
            }
            return;
        };
        if is_location_line(line) {
            block.find_location(line, LocationPreference::Last, found.context);
        } else if let Some(message) = line.strip_prefix("E  ") {
            block.add_message(message);
        }
    }

    fn read_summary(&mut self, line: &str) -> LineMatch {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        let Some(rest) = rest else {
            return LineMatch::Unrecognised;
        };
        let (id, message) = rest.split_once(" - ").unwrap_or((rest, ""));
        if self.summary.len() < MAX_BLOCKS {
            self.summary.push((id.to_owned(), message.to_owned()));
        }
        LineMatch::Recognised
    }

    fn close_block(&mut self) {
        if let Some(block) = self.block.take()
            && self.closed.len() < MAX_BLOCKS
        {
            self.closed.push(block);
        }
    }

    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) {
        self.close_block();
        let mut matched = Vec::new();
        for mut block in self.closed {
            let named = self
                .summary
                .iter()
                .enumerate()
                .find(|(at, (id, _))| !matched.contains(at) && title_matches(&block.rule, id));
            if let Some((at, (id, message))) = named {
                matched.push(at);
                if is_sum_of_subtests(message) {
                    continue;
                }
                block.rule.clone_from(id);
                if block.message.is_empty() {
                    block.add_message(message);
                }
                if !block.has_location() {
                    block.offer_location(
                        file_of_node(id),
                        LocationPreference::First,
                        found.context,
                    );
                }
            }
            block.emit(found);
        }
        let rest = self
            .summary
            .iter()
            .enumerate()
            .filter(|(at, (_, message))| !matched.contains(at) && !is_sum_of_subtests(message));
        for (_, (id, message)) in rest {
            found.add(&FindingDraft {
                location: Some(file_of_node(id))
                    .filter(|spot| source_location::is_source_file(spot.file)),
                rule: id,
                message,
                severity: FindingSeverity::Error,
            });
        }
    }
}

/// Whether a line of a failure is a stack frame, or names the file of a syntax error, which has no frame.
pub(super) fn is_location_line(line: &str) -> bool {
    source_location::first_location(line).is_some_and(|located| {
        match located.before.strip_prefix("E  ") {
            Some(before) => before.trim_start().is_empty() && line.contains("File \""),
            None => located.before.is_empty() || located.before == "  ",
        }
    })
}

/// `contains 2 failed subtests`, which are reported themselves.
fn is_sum_of_subtests(message: &str) -> bool {
    let sum = message.strip_prefix("contains ");
    sum.is_some_and(|sum| sum.ends_with(" failed subtest") || sum.ends_with(" failed subtests"))
}

/// `==== title ====`
fn frame_title(line: &str, frame: char) -> Option<&str> {
    let title = line.trim_matches(frame);
    let title = title.strip_prefix(' ')?.strip_suffix(' ')?;
    (line.starts_with(frame) && line.ends_with(frame) && !title.is_empty()).then_some(title)
}

/// Whether the title of a failure, `TestFirst.test_empty` or `ERROR at setup of test_stores`, belongs to a node id.
fn title_matches(title: &str, id: &str) -> bool {
    if let Some(file) = title.strip_prefix("ERROR collecting ") {
        return id == file;
    }
    let test = title
        .strip_prefix("ERROR at ")
        .map_or(title, |rest| rest.split_once(" of ").map_or(rest, |(_, test)| test));
    id.split_once("::").is_some_and(|(_, name)| {
        name == test
            || name.len() == test.len() + name.matches("::").count()
                && name.replace("::", ".") == test
    })
}

fn file_of_node(id: &str) -> RawLocation<'_> {
    let file = id.split_once("::").map_or(id, |(file, _)| file);
    RawLocation { file, line: None, column: None }
}
