//! Reads the output of pytest, with any `--tb` style.

use super::blocks::{Block, Heard, Prefer};
use super::locate::{self, Spot};
use super::tally::Tally;
use super::{Context, Draft, Found, lines};
use ralph_core::gate::Reading;
use ralph_core::requirement::Severity;

/// How many failures are matched with their lines in the summary.
const MOST_BLOCKS: usize = 300;

#[derive(Debug, Default)]
pub(super) struct Pytest {
    section: Section,
    block: Option<Block>,
    closed: Vec<Block>,
    /// Node ids and messages from the short summary.
    summary: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    /// Before or after pytest's output.
    #[default]
    Outside,
    /// The header and the progress.
    Session,
    Failures,
    Summary,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    let mut pytest = Pytest::default();
    let mut tally = Tally::default();
    let mut found = Found::new(context);
    let mut was_seen = false;
    for line in lines(text) {
        tally.line(&line);
        was_seen |= pytest.line(&line, &mut found) == Heard::Mine;
    }
    was_seen |= tally.tests().is_some();
    pytest.end(&mut found);
    let doubt = tally.doubt(context.extent).or((!was_seen).then_some("the output is not pytest's"));
    found.into_reading(tally.tests(), doubt)
}

impl Pytest {
    pub(super) fn line(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        if let Some(title) = framed(line, '=') {
            self.close();
            self.section = match title {
                "FAILURES" | "ERRORS" => Section::Failures,
                "short test summary info" => Section::Summary,
                _ if title == "test session starts" || self.section != Section::Outside => {
                    Section::Session
                }
                _ => Section::Outside,
            };
            return match self.section {
                Section::Outside => Heard::Other,
                Section::Session | Section::Failures | Section::Summary => Heard::Mine,
            };
        }
        if line.starts_with("ImportError while loading conftest '") {
            self.close();
            self.section = Section::Failures;
            self.block = Some(Block::open("conftest"));
            return Heard::Mine;
        }
        match self.section {
            Section::Outside | Section::Session => Heard::Other,
            Section::Failures => {
                self.failure(line, found);
                Heard::Mine
            }
            Section::Summary => self.summarised(line),
        }
    }

    fn failure(&mut self, line: &str, found: &mut Found<'_>) {
        if let Some(title) = framed(line, '_').filter(|title| *title != "_") {
            self.close();
            self.block = Some(Block::open(title));
            return;
        }
        let Some(block) = &mut self.block else {
            // `--tb=line` prints only locations.
            if let Some(located) = locate::first(line).filter(|located| located.before.is_empty()) {
                found.add(&Draft {
                    spot: Some(located.spot),
                    message: located.after.trim_start_matches([':', ' ']),
                    ..Draft::default()
                });
            }
            return;
        };
        if is_place(line) {
            block.look(line, Prefer::Last, found.context);
        } else if let Some(message) = line.strip_prefix("E  ") {
            block.say(message);
        }
    }

    fn summarised(&mut self, line: &str) -> Heard {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        let Some(rest) = rest else {
            return Heard::Other;
        };
        let (id, message) = rest.split_once(" - ").unwrap_or((rest, ""));
        if self.summary.len() < MOST_BLOCKS {
            self.summary.push((id.to_owned(), message.to_owned()));
        }
        Heard::Mine
    }

    fn close(&mut self) {
        if let Some(block) = self.block.take()
            && self.closed.len() < MOST_BLOCKS
        {
            self.closed.push(block);
        }
    }

    pub(super) fn end(mut self, found: &mut Found<'_>) {
        self.close();
        let mut matched = Vec::new();
        for mut block in self.closed {
            let named = self
                .summary
                .iter()
                .enumerate()
                .find(|(at, (id, _))| !matched.contains(at) && is_of(&block.rule, id));
            if let Some((at, (id, message))) = named {
                matched.push(at);
                block.rule.clone_from(id);
                if block.message.is_empty() {
                    block.say(message);
                }
                if !block.has_place() {
                    block.see(file_of(id), Prefer::First, found.context);
                }
            }
            block.close(found);
        }
        let rest = self.summary.iter().enumerate().filter(|(at, _)| !matched.contains(at));
        for (_, (id, message)) in rest {
            found.add(&Draft {
                spot: Some(file_of(id)).filter(|spot| locate::is_file(spot.file)),
                rule: id,
                message,
                severity: Severity::Error,
            });
        }
    }
}

/// Whether a line of a failure is a stack frame, or names the file of a syntax error, which has no frame.
pub(super) fn is_place(line: &str) -> bool {
    locate::first(line).is_some_and(|located| match located.before.strip_prefix("E  ") {
        Some(before) => before.trim_start().is_empty() && line.contains("File \""),
        None => located.before.is_empty() || located.before == "  ",
    })
}

/// `==== title ====`
fn framed(line: &str, frame: char) -> Option<&str> {
    let title = line.trim_matches(frame);
    let title = title.strip_prefix(' ')?.strip_suffix(' ')?;
    (line.starts_with(frame) && line.ends_with(frame) && !title.is_empty()).then_some(title)
}

/// Whether the title of a failure, `TestFirst.test_empty` or `ERROR at setup of test_stores`, belongs to a node id.
fn is_of(title: &str, id: &str) -> bool {
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

fn file_of(id: &str) -> Spot<'_> {
    let file = id.split_once("::").map_or(id, |(file, _)| file);
    Spot { file, line: None, column: None }
}
