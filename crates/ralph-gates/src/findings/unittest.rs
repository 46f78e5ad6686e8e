//! Reads the output of Python's unittest, and tracebacks of any Python program.

use super::FindingCollector;
use super::failure_block::{FailureBlock, LineMatch, LocationPreference};

#[derive(Debug, Default)]
pub(super) struct UnittestReader {
    /// Whether the previous line was a ruler of `=`.
    was_ruled: bool,
    block: Option<FailureBlock>,
    state: UnittestState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum UnittestState {
    #[default]
    Outside,
    /// After `FAIL: …` and before the traceback.
    Head,
    Traceback,
    /// After the line with the exception. More of its message may follow.
    Raised,
}

impl UnittestReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        let was_ruled = self.was_ruled;
        self.was_ruled = is_ruler(line, '=');
        if self.was_ruled {
            self.close_block(found);
            return LineMatch::Unrecognised;
        }
        let title = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "));
        if let Some(title) = title.filter(|_| was_ruled) {
            self.close_block(found);
            self.block = Some(FailureBlock::new(full_test_name(title)));
            self.state = UnittestState::Head;
            return LineMatch::Recognised;
        }
        if line == "Traceback (most recent call last):" {
            if self.state != UnittestState::Head {
                self.close_block(found);
            }
            let block = self.block.get_or_insert_default();
            // An exception raised while handling another one is printed last, and replaces it.
            block.message.clear();
            self.state = UnittestState::Traceback;
            return LineMatch::Recognised;
        }
        self.continue_block(line, found)
    }

    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) {
        self.close_block(found);
    }

    fn continue_block(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        let Some(block) = &mut self.block else {
            return LineMatch::Unrecognised;
        };
        if block.is_too_long() {
            self.close_block(found);
            return LineMatch::Unrecognised;
        }
        match self.state {
            UnittestState::Outside => return LineMatch::Unrecognised,
            UnittestState::Head => {}
            UnittestState::Traceback if line.starts_with(' ') => {
                block.find_location(line, LocationPreference::Last, found.context);
            }
            UnittestState::Traceback => {
                block.add_message(line);
                self.state = UnittestState::Raised;
            }
            UnittestState::Raised => {
                if line.trim().is_empty() || is_ruler(line, '-') {
                    self.close_block(found);
                    return LineMatch::Recognised;
                }
                block.add_message(line);
            }
        }
        LineMatch::Recognised
    }

    fn close_block(&mut self, found: &mut FindingCollector<'_>) {
        self.state = UnittestState::Outside;
        if let Some(block) = self.block.take() {
            block.emit(found);
        }
    }
}

fn is_ruler(line: &str, char: char) -> bool {
    line.len() >= 20 && line.trim_end().chars().all(|each| each == char)
}

/// The full name in parentheses of `test_first (tests.test_unit.CartCase.test_first)`.
fn full_test_name(title: &str) -> &str {
    match title.split_once(" (") {
        Some((test, rest)) => match rest.split_once(')') {
            Some((full, "")) if full.contains(test) => full,
            Some(_) | None => title,
        },
        None => title,
    }
}
