//! Reads the output of JavaScript test runners for people: jest, vitest, mocha, and node's own.

use super::Found;
use super::blocks::{Block, Heard, Prefer};
use super::locate::{self, Spot};

const LONGEST_TITLE: usize = 400;

#[derive(Debug, Default)]
pub(super) struct JavaScript {
    block: Option<Block>,
    part: Part,
    body: Body,
    /// jest prints the file name once, then the file's tests.
    file: String,
    chapter: Chapter,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// mocha: the title continues over several lines and ends with a colon.
    Title,
    #[default]
    Message,
    /// From here on, only locations are read.
    Trace,
}

/// How the description of a failure is delimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Body {
    #[default]
    Indented,
    /// vitest prints a ruler after it instead.
    Free,
}

/// mocha describes the failures at the end. Before that, it prints only names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chapter {
    #[default]
    Running,
    MochaFailures,
}

impl JavaScript {
    pub(super) fn line(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        let trimmed = line.trim();
        if self.opens(line, trimmed, found) {
            return Heard::Mine;
        }
        let Some(block) = &mut self.block else {
            return Heard::Other;
        };
        let is_outside =
            self.body == Body::Indented && !trimmed.is_empty() && !line.starts_with([' ', '\t']);
        if is_outside || is_end(line, trimmed) || block.is_endless() {
            self.close(found);
            return Heard::Other;
        }
        match self.part {
            Part::Title => {
                let (title, is_last) = match trimmed.strip_suffix(':') {
                    Some(title) => (title, true),
                    None => (trimmed, false),
                };
                if !title.is_empty() && block.rule.len() < LONGEST_TITLE {
                    block.rule.push_str(" > ");
                    block.rule.push_str(title);
                }
                if is_last {
                    self.part = Part::Message;
                }
            }
            Part::Message if trimmed.is_empty() && block.message.is_empty() => {}
            Part::Message if is_frame(trimmed) || is_excerpt(trimmed) => {
                self.part = Part::Trace;
                if is_frame(trimmed) {
                    block.look(line, Prefer::First, found.context);
                }
            }
            Part::Message if trimmed == "+ expected - actual" || trimmed == "- Expected" => {
                self.part = Part::Trace;
            }
            Part::Message => block.say(trimmed),
            Part::Trace => {
                if is_frame(trimmed) {
                    block.look(line, Prefer::First, found.context);
                }
            }
        }
        Heard::Mine
    }

    pub(super) fn end(mut self, found: &mut Found<'_>) {
        self.close(found);
    }

    fn opens(&mut self, line: &str, trimmed: &str, found: &mut Found<'_>) -> bool {
        if let Some(rest) = trimmed.strip_prefix("FAIL ") {
            return self.opens_file(rest.trim(), found);
        }
        if let Some(title) = trimmed.strip_prefix("✖ ") {
            return self.opens_node(title, found);
        }
        if trimmed.ends_with(" failing") && trimmed.split(' ').count() == 2 {
            self.close(found);
            self.chapter = Chapter::MochaFailures;
            return true;
        }
        if let Some(title) = line.strip_prefix("  ● ")
            && !self.file.is_empty()
        {
            self.close(found);
            let mut block = Block::open(title);
            block.see(file(&self.file), Prefer::First, found.context);
            self.block = Some(block);
            self.part = Part::Message;
            self.body = Body::Indented;
            return true;
        }
        match self.chapter {
            Chapter::Running => false,
            Chapter::MochaFailures => {
                let title = trimmed.split_once(") ").filter(|(number, _)| {
                    number.parse::<u32>().is_ok()
                        && line.starts_with("  ")
                        && !line.starts_with("     ")
                });
                let Some((_, title)) = title else {
                    return false;
                };
                self.close(found);
                self.part = if title.ends_with(':') { Part::Message } else { Part::Title };
                self.block = Some(Block::open(title.trim_end_matches(':')));
                self.body = Body::Indented;
                true
            }
        }
    }

    /// jest: `FAIL test/cart.test.js`; vitest: ` FAIL  test/cart.test.js > cart > adds`.
    fn opens_file(&mut self, rest: &str, found: &mut Found<'_>) -> bool {
        // In a workspace, vitest prints `|name|` before the file.
        let rest = rest
            .strip_prefix('|')
            .and_then(|rest| rest.split_once('|'))
            .map_or(rest, |(_, rest)| rest.trim());
        let (name, title) = rest.split_once(' ').unwrap_or((rest, ""));
        if !locate::is_file(name) {
            return false;
        }
        self.close(found);
        name.clone_into(&mut self.file);
        let title = title.trim();
        let title = title.strip_prefix("> ").or(title.starts_with('[').then_some(name));
        if let Some(title) = title {
            let mut block = Block::open(title);
            block.see(file(name), Prefer::First, found.context);
            self.block = Some(block);
            self.part = Part::Message;
            self.body = Body::Free;
        }
        true
    }

    /// node: `✖ adds more (1.03ms)`. With a remark after it, the failure is expected.
    fn opens_node(&mut self, title: &str, found: &mut Found<'_>) -> bool {
        let Some((title, rest)) = title.rsplit_once(" (") else {
            self.close(found);
            return false;
        };
        let Some((_, remark)) = rest.split_once("ms)") else {
            return false;
        };
        self.close(found);
        self.block = Some(Block::open(if remark.is_empty() { title } else { "" }));
        self.part = Part::Message;
        self.body = Body::Indented;
        true
    }

    fn close(&mut self, found: &mut Found<'_>) {
        // A block without a title is an expected failure; one without a message only summarises others.
        if let Some(block) = self.block.take()
            && !block.rule.is_empty()
            && !block.message.is_empty()
        {
            block.close(found);
        }
    }
}

fn file(name: &str) -> Spot<'_> {
    Spot { file: name, line: None, column: None }
}

fn is_end(line: &str, trimmed: &str) -> bool {
    const MARKS: [&str; 6] = ["⎯⎯", "✔ ", "﹣ ", "▶ ", "ℹ ", "test at "];
    MARKS.iter().any(|mark| trimmed.starts_with(mark))
        || line.starts_with("PASS ")
        || line.starts_with("Test Suites:")
        || line.starts_with(" Test Files ")
        || line.starts_with("npm ")
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
