//! Reads `JUnit` XML, in the dialects of the runners that write it. The document is streamed, so that memory stays
//! bounded, and custom entities are never expanded.

use super::blocks::{Block, Prefer};
use super::locate::{self, Spot};
use super::{Context, Draft, Found, doubt_about, doubtful, pytest};
use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use ralph_core::gate::{Reading, Tests};
use ralph_core::requirement::Severity;

const DEEPEST: usize = 100;
/// Limit for the text of one failure.
const LONGEST_TEXT: usize = 16 * 1024;
const LONGEST_ATTRIBUTE: usize = 4 * 1024;
const MOST_FAILURES_PER_CASE: usize = 10;

#[derive(Default)]
struct Course {
    depth: usize,
    suite: String,
    case: Option<Case>,
    /// The open `<failure>` or `<error>`.
    failure: Option<Failure>,
    tests: Tests,
    /// The number of failures in the suites' attributes, for writers that leave out the cases.
    claimed_failures: u32,
    was_suite: bool,
    is_over: bool,
}

#[derive(Default)]
struct Case {
    class: String,
    name: String,
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    is_skipped: bool,
    failures: Vec<Failure>,
}

#[derive(Default)]
struct Failure {
    message: String,
    text: String,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    if text.trim().is_empty() {
        return doubtful("the report is empty");
    }
    // A banner may precede the document.
    let Some(start) =
        ["<?xml", "<testsuites", "<testsuite"].iter().filter_map(|open| text.find(open)).min()
    else {
        return doubtful("the report is not JUnit");
    };
    let mut reader = Reader::from_str(text.get(start..).unwrap_or_default());
    reader.config_mut().allow_dangling_amp = true;
    let mut found = Found::new(context);
    let mut course = Course::default();
    let error = loop {
        match reader.read_event() {
            Ok(Event::Start(element)) => {
                course.depth += 1;
                if course.depth > DEEPEST {
                    break Some("the report is nested too deeply");
                }
                course.open(&element);
            }
            Ok(Event::Empty(element)) => {
                course.open(&element);
                course.close(element.local_name().as_ref(), &mut found);
            }
            Ok(Event::End(element)) => {
                course.close(element.local_name().as_ref(), &mut found);
                course.depth = course.depth.saturating_sub(1);
                course.is_over |= course.depth == 0;
            }
            Ok(Event::Text(text)) => course.say(&text.xml10_content()),
            Ok(Event::CData(text)) => course.say(&text.xml10_content()),
            Ok(Event::GeneralRef(reference)) => match reference.resolve_char_ref() {
                Ok(Some(char)) => course.say(char.encode_utf8(&mut [0; 4])),
                Ok(None) | Err(_) => {
                    course.say(resolve_predefined_entity(&reference).unwrap_or_default());
                }
            },
            Ok(Event::Eof) => break None,
            Ok(Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_)) => {}
            Err(_) => break Some("the report cannot be parsed to its end"),
        }
        if course.is_over {
            break None;
        }
    };
    course.into_reading(found, error)
}

impl Course {
    fn open(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "testsuites" => self.was_suite = true,
            "testsuite" => {
                self.was_suite = true;
                self.suite = attribute(element, "name").unwrap_or_default();
                let claims = ["failures", "errors"].map(|name| number(element, name).unwrap_or(0));
                self.claimed_failures =
                    claims.iter().fold(self.claimed_failures, |sum, one| sum.saturating_add(*one));
            }
            "testcase" => {
                self.case = Some(Case {
                    class: attribute(element, "classname").unwrap_or_default(),
                    name: attribute(element, "name").unwrap_or_default(),
                    file: attribute(element, "file").unwrap_or_default(),
                    line: number(element, "line"),
                    column: number(element, "column"),
                    is_skipped: false,
                    failures: Vec::new(),
                });
            }
            "failure" | "error" => {
                let message = attribute(element, "message").unwrap_or_default();
                self.failure = Some(Failure { message, text: String::new() });
            }
            "skipped" => {
                if let Some(case) = &mut self.case {
                    case.is_skipped = true;
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &str, found: &mut Found<'_>) {
        match name {
            "failure" | "error" => {
                let Some(failure) = self.failure.take() else {
                    return;
                };
                match &mut self.case {
                    Some(case) if case.failures.len() < MOST_FAILURES_PER_CASE => {
                        case.failures.push(failure);
                    }
                    Some(_) => {}
                    // The suite itself failed: its set-up, or its file could not be loaded.
                    None => {
                        let case = Case { name: self.suite.clone(), ..Case::default() };
                        self.tests.failed = self.tests.failed.saturating_add(1);
                        self.tests.run = self.tests.run.saturating_add(1);
                        tell(&case, &failure, &self.suite, found);
                    }
                }
            }
            "testcase" => {
                let Some(case) = self.case.take() else {
                    return;
                };
                // node marks an expected failure as both skipped and failed.
                if case.is_skipped {
                    self.tests.skipped = self.tests.skipped.saturating_add(1);
                    return;
                }
                self.tests.run = self.tests.run.saturating_add(1);
                if !case.failures.is_empty() {
                    self.tests.failed = self.tests.failed.saturating_add(1);
                }
                for failure in &case.failures {
                    tell(&case, failure, &self.suite, found);
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        if let Some(failure) = &mut self.failure {
            let room = LONGEST_TEXT.saturating_sub(failure.text.len());
            failure.text.extend(text.chars().take(room));
        }
    }

    fn into_reading(mut self, found: Found<'_>, error: Option<&str>) -> Reading {
        let is_complete = self.is_over || !self.was_suite;
        let cases = self.tests.run.saturating_add(self.tests.skipped);
        if cases == 0 && self.claimed_failures > 0 {
            self.tests.run = self.claimed_failures;
            self.tests.failed = self.claimed_failures;
        }
        let doubt = if let Some(error) = error {
            Some(error)
        } else if !self.was_suite {
            Some("the report is not JUnit")
        } else if !is_complete {
            Some("the report is truncated")
        } else {
            doubt_about(self.tests)
        };
        found.into_reading(self.was_suite.then_some(self.tests), doubt)
    }
}

fn tell(case: &Case, failure: &Failure, suite: &str, found: &mut Found<'_>) {
    let file = [case.file.as_str(), suite, case.class.as_str()]
        .into_iter()
        .find(|file| !file.is_empty() && locate::is_file(file));
    let innermost = innermost(&failure.text, found.context);
    let traced = || innermost.spot().or_else(|| locate::best_in(&failure.text, found.context));
    let spot = match (file, case.line) {
        (Some(file), Some(line)) => Some(Spot { file, line: Some(line), column: case.column }),
        (file, None) => {
            traced().or_else(|| file.map(|file| Spot { file, line: None, column: None }))
        }
        (None, Some(_)) => traced(),
    };
    let first_line = failure.text.lines().map(str::trim).find(|line| !line.is_empty());
    let message = if is_telling(&failure.message) {
        failure.message.as_str()
    } else {
        raised(&failure.text).or(first_line).unwrap_or(&failure.message)
    };
    // A class that only repeats the file is left out.
    let is_file = locate::is_file(&case.class)
        || suite.strip_prefix(&case.class).is_some_and(|end| end.starts_with('.'));
    let rule = if case.class.is_empty() || is_file || case.class == "test" {
        case.name.clone()
    } else {
        format!("{}::{}", case.class, case.name)
    };
    found.add(&Draft { spot, rule: &rule, message, severity: Severity::Error });
}

/// Whether the message is useful. For `collection failure`, pytest puts the reason into the text.
fn is_telling(message: &str) -> bool {
    !message.trim().is_empty() && message != "collection failure"
}

/// pytest: the first line that starts with `E`. For a syntax error, source lines are indented below it.
fn raised(text: &str) -> Option<&str> {
    let mut raised = text.lines().filter_map(|line| line.strip_prefix("E   "));
    raised.clone().find(|line| !line.starts_with(' ')).or_else(|| raised.next()).map(str::trim)
}

/// pytest prints the innermost call last.
fn innermost(text: &str, context: &Context<'_>) -> Block {
    let mut block = Block::open("");
    if raised(text).is_some() {
        for line in text.lines().filter(|line| pytest::is_place(line)) {
            block.look(line, Prefer::Last, context);
        }
    }
    block
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element
        .attributes()
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name)?;
    let raw = &attribute.value;
    let value = match attribute.normalized_value(XmlVersion::Implicit1_0) {
        Ok(value) => value,
        Err(_) => raw.clone(),
    };
    Some(value.chars().take(LONGEST_ATTRIBUTE).collect())
}

fn number(element: &BytesStart<'_>, name: &str) -> Option<u32> {
    attribute(element, name)?.trim().parse().ok().filter(|number| *number > 0)
}
