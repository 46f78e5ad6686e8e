//! Reads the output of Rust's test runner, and panics of any Rust program.

use super::failure_block::{FailureBlock, LineMatch, LocationPreference};
use super::{FindingCollector, FindingDraft};

const MAX_NAMES: usize = 300;

#[derive(Debug, Default)]
pub(super) struct LibtestReader {
    block: Option<FailureBlock>,
    state: LibtestState,
    /// Failed tests that have no finding yet.
    failed: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum LibtestState {
    #[default]
    Outside,
    /// Between `---- name stdout ----` and the next such line.
    Output,
    Message,
    Backtrace,
}

impl LibtestReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        if let Some(name) = failed_test_name(line) {
            if self.failed.len() < MAX_NAMES {
                self.failed.push(name.to_owned());
            }
            return LineMatch::Recognised;
        }
        if let Some(name) = output_header(line) {
            self.close_block(found);
            self.block = Some(FailureBlock::new(name));
            self.state = LibtestState::Output;
            return LineMatch::Recognised;
        }
        if line.contains("panicked at ") {
            return self.read_panic(line, found);
        }
        if let Some(name) = overflowed_thread(line) {
            self.close_block(found);
            let message = "has overflowed its stack";
            found.add(&FindingDraft { rule: name, message, ..FindingDraft::default() });
            return LineMatch::Recognised;
        }
        if line == "failures:" || line.starts_with("test result: ") {
            self.close_block(found);
            if line.starts_with("test result: ") {
                self.report_remaining(found);
            }
            return LineMatch::Recognised;
        }
        self.continue_block(line, found)
    }

    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) {
        self.close_block(found);
        self.report_remaining(found);
    }

    fn continue_block(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        let Some(block) = &mut self.block else {
            return LineMatch::Unrecognised;
        };
        let trimmed = line.trim();
        if block.is_too_long() {
            self.close_block(found);
            return LineMatch::Unrecognised;
        }
        match self.state {
            LibtestState::Outside => return LineMatch::Unrecognised,
            LibtestState::Output => {
                if let Some(rest) = trimmed.strip_prefix("note: test did not panic") {
                    block.add_message("test did not panic");
                    block.find_location(rest, LocationPreference::First, found.context);
                    if let Some((words, _)) = rest.split_once(" at ") {
                        block.add_message(words);
                    }
                } else if trimmed.starts_with("Error: ") {
                    block.add_message(trimmed);
                }
            }
            LibtestState::Message => {
                let is_over = trimmed.is_empty()
                    || trimmed == "stack backtrace:"
                    || trimmed.starts_with("note: run with `RUST_BACKTRACE");
                if is_over {
                    self.state = LibtestState::Backtrace;
                } else {
                    block.add_message(trimmed);
                }
            }
            LibtestState::Backtrace => {
                let is_frame = line.starts_with(' ')
                    || trimmed.is_empty()
                    || trimmed == "stack backtrace:"
                    || trimmed.starts_with("note: ");
                if !is_frame {
                    // A panic outside of a test's captured output ends with its backtrace.
                    if !block.rule.is_empty() && self.failed.contains(&block.rule) {
                        return LineMatch::Recognised;
                    }
                    self.close_block(found);
                    return LineMatch::Unrecognised;
                }
            }
        }
        LineMatch::Recognised
    }

    fn read_panic(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        let Some((thread, rest)) = line.split_once("panicked at ") else {
            return LineMatch::Unrecognised;
        };
        let Some(thread) = thread.trim().strip_prefix("thread '") else {
            return LineMatch::Unrecognised;
        };
        let thread = thread.rsplit_once('\'').map_or("", |(name, _)| name);
        // The first panic of a test is the reason for its failure. Later ones are mostly consequences, such as poisoned
        // locks.
        let is_follow_up = self.state == LibtestState::Backtrace
            && self.block.as_ref().is_some_and(|b| b.rule == thread);
        if is_follow_up {
            return LineMatch::Recognised;
        }
        if self.state != LibtestState::Output {
            self.close_block(found);
        }
        let block = self.block.get_or_insert_with(|| {
            FailureBlock::new(if thread == "main" || thread == "<unnamed>" { "" } else { thread })
        });
        // Before Rust 1.73: `panicked at 'message', src/lib.rs:1:2`.
        if let Some((message, place)) = rest.strip_prefix('\'').and_then(|r| r.rsplit_once("', ")) {
            block.add_message(message);
            block.find_location(place, LocationPreference::First, found.context);
            self.state = LibtestState::Backtrace;
        } else {
            block.find_location(rest, LocationPreference::First, found.context);
            self.state = LibtestState::Message;
        }
        LineMatch::Recognised
    }

    fn close_block(&mut self, found: &mut FindingCollector<'_>) {
        self.state = LibtestState::Outside;
        if let Some(mut block) = self.block.take() {
            self.failed.retain(|name| *name != block.rule);
            if block.message.is_empty() {
                block.add_message("the test failed");
            }
            block.emit(found);
        }
    }

    fn report_remaining(&mut self, found: &mut FindingCollector<'_>) {
        for name in self.failed.drain(..) {
            found.add(&FindingDraft {
                rule: &name,
                message: "the test failed",
                ..FindingDraft::default()
            });
        }
    }
}

/// `thread 'name' (123) has overflowed its stack`. The process ends without the result of any test. Lines of other
/// tests may come between the first two words.
fn overflowed_thread(line: &str) -> Option<&str> {
    let (name, _) = line.strip_suffix(" has overflowed its stack")?.rsplit_once('\'')?;
    Some(name.strip_prefix("thread '").unwrap_or(name))
}

/// `test a::b ... FAILED`
fn failed_test_name(line: &str) -> Option<&str> {
    let (name, state) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    (state == "FAILED").then(|| name.strip_suffix(" - should panic").unwrap_or(name))
}

/// `---- a::b stdout ----`
fn output_header(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}
