//! Reads the output of Python's unittest, and tracebacks of any Python program.

use super::Found;
use super::blocks::{Block, Heard, Prefer};

#[derive(Debug, Default)]
pub(super) struct Unittest {
    /// Whether the previous line was a ruler of `=`.
    was_ruled: bool,
    block: Option<Block>,
    within: Within,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// After `FAIL: …` and before the traceback.
    Head,
    Traceback,
    /// After the line with the exception. More of its message may follow.
    Raised,
}

impl Unittest {
    pub(super) fn line(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        let was_ruled = self.was_ruled;
        self.was_ruled = is_ruler(line, '=');
        if self.was_ruled {
            self.close(found);
            return Heard::Other;
        }
        let title = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "));
        if let Some(title) = title.filter(|_| was_ruled) {
            self.close(found);
            self.block = Some(Block::open(name(title)));
            self.within = Within::Head;
            return Heard::Mine;
        }
        if line == "Traceback (most recent call last):" {
            if self.within != Within::Head {
                self.close(found);
            }
            let block = self.block.get_or_insert_default();
            // An exception raised while handling another one is printed last, and replaces it.
            block.message.clear();
            self.within = Within::Traceback;
            return Heard::Mine;
        }
        self.inside(line, found)
    }

    pub(super) fn end(mut self, found: &mut Found<'_>) {
        self.close(found);
    }

    fn inside(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        let Some(block) = &mut self.block else {
            return Heard::Other;
        };
        if block.is_endless() {
            self.close(found);
            return Heard::Other;
        }
        match self.within {
            Within::Nothing => return Heard::Other,
            Within::Head => {}
            Within::Traceback if line.starts_with(' ') => {
                block.look(line, Prefer::Last, found.context);
            }
            Within::Traceback => {
                block.say(line);
                self.within = Within::Raised;
            }
            Within::Raised => {
                if line.trim().is_empty() || is_ruler(line, '-') {
                    self.close(found);
                    return Heard::Mine;
                }
                block.say(line);
            }
        }
        Heard::Mine
    }

    fn close(&mut self, found: &mut Found<'_>) {
        self.within = Within::Nothing;
        if let Some(block) = self.block.take() {
            block.close(found);
        }
    }
}

fn is_ruler(line: &str, char: char) -> bool {
    line.len() >= 20 && line.trim_end().chars().all(|each| each == char)
}

/// The full name in parentheses of `test_first (tests.test_unit.CartCase.test_first)`.
fn name(title: &str) -> &str {
    match title.split_once(" (") {
        Some((test, rest)) => match rest.split_once(')') {
            Some((full, "")) if full.contains(test) => full,
            Some(_) | None => title,
        },
        None => title,
    }
}
