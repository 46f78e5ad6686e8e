//! Reads the output of JavaScript test runners for people: jest, vitest, mocha, uvu, and node's own.

use super::FindingCollector;
use super::failure_block::{FailureBlock, LineMatch, LocationPreference};
use super::source_location::{self, RawLocation};

const MAX_TITLE_BYTES: usize = 400;

#[derive(Debug, Default)]
pub(super) struct JavascriptReader {
    block: Option<FailureBlock>,
    part: FailurePart,
    body: FailureBody,
    /// jest prints the file name once, then the file's tests.
    file: String,
    mocha_phase: MochaPhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FailurePart {
    /// mocha: the title continues over several lines and ends with a colon.
    Title,
    #[default]
    Message,
    /// From here on, only locations are read.
    Trace,
}

/// How the description of a failure is delimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FailureBody {
    #[default]
    Indented,
    /// vitest prints a ruler after it instead.
    Delimited,
}

/// mocha describes the failures at the end. Before that, it prints only names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MochaPhase {
    #[default]
    Running,
    MochaFailures,
}

impl JavascriptReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        let trimmed = line.trim();
        if self.open_block(line, trimmed, found) {
            return LineMatch::Recognised;
        }
        let Some(block) = &mut self.block else {
            return LineMatch::Unrecognised;
        };
        let is_outside = self.body == FailureBody::Indented
            && !trimmed.is_empty()
            && !line.starts_with([' ', '\t']);
        if is_outside || ends_block(line, trimmed) || block.is_too_long() {
            self.close_block(found);
            return LineMatch::Unrecognised;
        }
        match self.part {
            FailurePart::Title => {
                let (title, is_last) = match trimmed.strip_suffix(':') {
                    Some(title) => (title, true),
                    None => (trimmed, false),
                };
                if !title.is_empty() && block.rule.len() < MAX_TITLE_BYTES {
                    block.rule.push_str(" > ");
                    block.rule.push_str(title);
                }
                if is_last {
                    self.part = FailurePart::Message;
                }
            }
            FailurePart::Message if trimmed.is_empty() && block.message.is_empty() => {}
            FailurePart::Message if is_frame(trimmed) || is_excerpt(trimmed) => {
                self.part = FailurePart::Trace;
                if is_frame(trimmed) {
                    block.find_location(line, LocationPreference::First, found.context);
                }
            }
            FailurePart::Message if trimmed == "+ expected - actual" || trimmed == "- Expected" => {
                self.part = FailurePart::Trace;
            }
            FailurePart::Message => block.add_message(trimmed),
            FailurePart::Trace => {
                if is_frame(trimmed) {
                    block.find_location(line, LocationPreference::First, found.context);
                }
            }
        }
        LineMatch::Recognised
    }

    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) {
        self.close_block(found);
    }

    fn open_block(&mut self, line: &str, trimmed: &str, found: &mut FindingCollector<'_>) -> bool {
        if let Some(rest) = trimmed.strip_prefix("FAIL ") {
            let rest = rest.trim();
            return self.open_file(rest, found) || self.open_uvu_failure(line, rest, found);
        }
        if let Some(title) = trimmed.strip_prefix("✖ ") {
            return self.open_node_failure(title, found);
        }
        if trimmed.ends_with(" failing") && trimmed.split(' ').count() == 2 {
            self.close_block(found);
            self.mocha_phase = MochaPhase::MochaFailures;
            return true;
        }
        if let Some(title) = line.strip_prefix("  ● ")
            && !self.file.is_empty()
        {
            self.close_block(found);
            let mut block = FailureBlock::new(title);
            block.offer_location(
                file_location(&self.file),
                LocationPreference::First,
                found.context,
            );
            self.block = Some(block);
            self.part = FailurePart::Message;
            self.body = FailureBody::Indented;
            return true;
        }
        match self.mocha_phase {
            MochaPhase::Running => false,
            MochaPhase::MochaFailures => {
                let title = trimmed.split_once(") ").filter(|(number, _)| {
                    number.parse::<u32>().is_ok()
                        && line.starts_with("  ")
                        && !line.starts_with("     ")
                });
                let Some((_, title)) = title else {
                    return false;
                };
                self.close_block(found);
                self.part =
                    if title.ends_with(':') { FailurePart::Message } else { FailurePart::Title };
                self.block = Some(FailureBlock::new(title.trim_end_matches(':')));
                self.body = FailureBody::Indented;
                true
            }
        }
    }

    /// jest: `FAIL test/cart.test.js`; vitest: ` FAIL  test/cart.test.js > cart > adds`.
    fn open_file(&mut self, rest: &str, found: &mut FindingCollector<'_>) -> bool {
        // In a workspace, vitest prints `|name|` before the file.
        let rest = rest
            .strip_prefix('|')
            .and_then(|rest| rest.split_once('|'))
            .map_or(rest, |(_, rest)| rest.trim());
        let (name, title) = rest.split_once(' ').unwrap_or((rest, ""));
        if !source_location::is_source_file(name) {
            return false;
        }
        self.close_block(found);
        name.clone_into(&mut self.file);
        let title = title.trim();
        let title = title.strip_prefix("> ").or(title.starts_with('[').then_some(name));
        if let Some(title) = title {
            let mut block = FailureBlock::new(title);
            block.offer_location(file_location(name), LocationPreference::First, found.context);
            self.block = Some(block);
            self.part = FailurePart::Message;
            self.body = FailureBody::Delimited;
        }
        true
    }

    /// uvu: `   FAIL  "adds more"`, `   FAIL  cart  "adds more"`.
    fn open_uvu_failure(
        &mut self,
        line: &str,
        rest: &str,
        found: &mut FindingCollector<'_>,
    ) -> bool {
        let quoted = rest.strip_suffix('"').and_then(|rest| rest.split_once('"'));
        let Some((suite, name)) = quoted.filter(|_| line.starts_with("  ")) else {
            return false;
        };
        self.close_block(found);
        let separator = if suite.is_empty() { "" } else { " > " };
        self.block = Some(FailureBlock::new(&format!("{}{separator}{name}", suite.trim())));
        self.part = FailurePart::Message;
        self.body = FailureBody::Indented;
        true
    }

    /// node: `✖ adds more (1.03ms)`. With a remark after it, the failure is expected.
    fn open_node_failure(&mut self, title: &str, found: &mut FindingCollector<'_>) -> bool {
        let Some((title, rest)) = title.rsplit_once(" (") else {
            self.close_block(found);
            return false;
        };
        let Some((_, remark)) = rest.split_once("ms)") else {
            return false;
        };
        self.close_block(found);
        self.block = Some(FailureBlock::new(if remark.is_empty() { title } else { "" }));
        self.part = FailurePart::Message;
        self.body = FailureBody::Indented;
        true
    }

    fn close_block(&mut self, found: &mut FindingCollector<'_>) {
        // A block without a title is an expected failure; one without a message only summarises others.
        if let Some(block) = self.block.take()
            && !block.rule.is_empty()
            && !block.message.is_empty()
        {
            block.emit(found);
        }
    }
}

fn file_location(name: &str) -> RawLocation<'_> {
    RawLocation { file: name, line: None, column: None }
}

fn ends_block(line: &str, trimmed: &str) -> bool {
    const MARKS: [&str; 6] = ["⎯⎯", "✔ ", "﹣ ", "▶ ", "ℹ ", "test at "];
    MARKS.iter().any(|mark| trimmed.starts_with(mark))
        || line.starts_with("PASS ")
        || line.starts_with("Test Suites:")
        || line.starts_with(" Test Files ")
        || line.starts_with("npm ")
        || line.starts_with("  Total: ")
}

fn is_frame(trimmed: &str) -> bool {
    trimmed.starts_with("at ") || trimmed.starts_with("❯ ")
}

/// `> 5 |     expect(…)`, `  9|     expect(…)`
fn is_excerpt(trimmed: &str) -> bool {
    trimmed.split_once('|').is_some_and(|(number, _)| {
        let number = number.trim_start_matches("> ").trim();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}
