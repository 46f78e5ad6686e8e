//! Reads the output of Rust's test runner, and panics of any Rust program.

use super::blocks::{Block, Heard, Prefer};
use super::{Draft, Found};

const MOST_NAMES: usize = 300;

#[derive(Debug, Default)]
pub(super) struct Libtest {
    block: Option<Block>,
    within: Within,
    /// Failed tests that have no finding yet.
    failed: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// Between `---- name stdout ----` and the next such line.
    Output,
    Message,
    Backtrace,
}

impl Libtest {
    pub(super) fn line(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        if let Some(name) = failed_test(line) {
            if self.failed.len() < MOST_NAMES {
                self.failed.push(name.to_owned());
            }
            return Heard::Mine;
        }
        if let Some(name) = header(line) {
            self.close(found);
            self.block = Some(Block::open(name));
            self.within = Within::Output;
            return Heard::Mine;
        }
        if line.contains("panicked at ") {
            return self.panic(line, found);
        }
        if line == "failures:" || line.starts_with("test result: ") {
            self.close(found);
            if line.starts_with("test result: ") {
                self.tell_the_rest(found);
            }
            return Heard::Mine;
        }
        self.inside(line, found)
    }

    pub(super) fn end(mut self, found: &mut Found<'_>) {
        self.close(found);
        self.tell_the_rest(found);
    }

    fn inside(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        let Some(block) = &mut self.block else {
            return Heard::Other;
        };
        let trimmed = line.trim();
        if block.is_endless() {
            self.close(found);
            return Heard::Other;
        }
        match self.within {
            Within::Nothing => return Heard::Other,
            Within::Output => {
                if let Some(rest) = trimmed.strip_prefix("note: test did not panic") {
                    block.say("test did not panic");
                    block.look(rest, Prefer::First, found.context);
                    if let Some((words, _)) = rest.split_once(" at ") {
                        block.say(words);
                    }
                } else if trimmed.starts_with("Error: ") {
                    block.say(trimmed);
                }
            }
            Within::Message => {
                let is_over = trimmed.is_empty()
                    || trimmed == "stack backtrace:"
                    || trimmed.starts_with("note: run with `RUST_BACKTRACE");
                if is_over {
                    self.within = Within::Backtrace;
                } else {
                    block.say(trimmed);
                }
            }
            Within::Backtrace => {
                let is_frame = line.starts_with(' ')
                    || trimmed.is_empty()
                    || trimmed == "stack backtrace:"
                    || trimmed.starts_with("note: ");
                if !is_frame {
                    // A panic outside of a test's captured output ends with its backtrace.
                    if !block.rule.is_empty() && self.failed.contains(&block.rule) {
                        return Heard::Mine;
                    }
                    self.close(found);
                    return Heard::Other;
                }
            }
        }
        Heard::Mine
    }

    fn panic(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        let Some((thread, rest)) = line.split_once("panicked at ") else {
            return Heard::Other;
        };
        let Some(thread) = thread.trim().strip_prefix("thread '") else {
            return Heard::Other;
        };
        let thread = thread.rsplit_once('\'').map_or("", |(name, _)| name);
        // The first panic of a test is the reason for its failure. Later ones are mostly consequences, such as poisoned
        // locks.
        let is_follow_up = self.within == Within::Backtrace
            && self.block.as_ref().is_some_and(|b| b.rule == thread);
        if is_follow_up {
            return Heard::Mine;
        }
        if self.within != Within::Output {
            self.close(found);
        }
        let block = self.block.get_or_insert_with(|| {
            Block::open(if thread == "main" || thread == "<unnamed>" { "" } else { thread })
        });
        // Before Rust 1.73: `panicked at 'message', src/lib.rs:1:2`.
        if let Some((message, place)) = rest.strip_prefix('\'').and_then(|r| r.rsplit_once("', ")) {
            block.say(message);
            block.look(place, Prefer::First, found.context);
            self.within = Within::Backtrace;
        } else {
            block.look(rest, Prefer::First, found.context);
            self.within = Within::Message;
        }
        Heard::Mine
    }

    fn close(&mut self, found: &mut Found<'_>) {
        self.within = Within::Nothing;
        if let Some(mut block) = self.block.take() {
            self.failed.retain(|name| *name != block.rule);
            if block.message.is_empty() {
                block.say("the test failed");
            }
            block.close(found);
        }
    }

    fn tell_the_rest(&mut self, found: &mut Found<'_>) {
        for name in self.failed.drain(..) {
            found.add(&Draft { rule: &name, message: "the test failed", ..Draft::default() });
        }
    }
}

/// `test a::b ... FAILED`
fn failed_test(line: &str) -> Option<&str> {
    let (name, state) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    (state == "FAILED").then(|| name.strip_suffix(" - should panic").unwrap_or(name))
}

/// `---- a::b stdout ----`
fn header(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}
