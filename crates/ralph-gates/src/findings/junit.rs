//! Reads `JUnit` XML, in the dialects of the runners that write it. The document is streamed, so that memory stays
//! bounded, and custom entities are never expanded.

use super::failure_block::{FailureBlock, LocationPreference};
use super::source_location::{self, RawLocation};
use super::test_names::{GroupPath, NameCollector};
use super::{FindingCollector, FindingDraft, ReportContext, doubt_about_tests, pytest};
use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use ralph_core::gate::{ParsedReport, TestCounts};
use ralph_core::requirement::FindingSeverity;
use ralph_core::test_cases::TestOutcome;

const MAX_DEPTH: usize = 100;
/// Limit for the text of one failure.
const MAX_TEXT_BYTES: usize = 16 * 1024;
const MAX_ATTRIBUTE_CHARS: usize = 4 * 1024;
const MAX_FAILURES_PER_CASE: usize = 10;
/// The message of pytest for a module that could not be loaded.
const COLLECTION_FAILURE: &str = "collection failure";

struct JunitParser<'a> {
    names: NameCollector<'a>,
    depth: usize,
    suite: String,
    /// The suites around the current case.
    suites: GroupPath,
    suite_depth: usize,
    /// The number of cases according to the outermost suites.
    stated_cases: Option<u32>,
    case: Option<JunitCase>,
    /// The open `<failure>` or `<error>`.
    failure: Option<JunitFailure>,
    tests: TestCounts,
    /// The number of failures in the suites' attributes, for writers that leave out the cases.
    claimed_failures: u32,
    /// Whether the current document has a suite.
    has_suite: bool,
    has_any_suite: bool,
    is_complete: bool,
}

#[derive(Default)]
struct JunitCase {
    class: String,
    name: String,
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    is_skipped: bool,
    /// node marks a test that is expected to fail as both skipped and failed.
    is_todo: bool,
    failures: Vec<JunitFailure>,
}

impl JunitCase {
    fn outcome(&self) -> TestOutcome {
        if !self.failures.is_empty() && !self.is_todo {
            TestOutcome::Failed
        } else if self.is_skipped {
            TestOutcome::Skipped
        } else {
            TestOutcome::Passed
        }
    }
}

impl JunitCase {
    /// Whether it is no test: a module that pytest could not collect, or a class of Java whose set-up failed.
    fn stands_for_tests(&self) -> bool {
        let is_collection = |one: &JunitFailure| one.message == COLLECTION_FAILURE;
        self.class.is_empty() && self.failures.iter().any(is_collection)
            || self.name.is_empty()
            || matches!(self.name.as_str(), "initializationError" | "classMethod")
    }
}

#[derive(Default)]
struct JunitFailure {
    message: String,
    text: String,
}

pub(super) fn read_junit(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let mut found = FindingCollector::new(context);
    let mut course = JunitParser::new(context);
    let doubt = course.read_document(text, &mut found);
    course.into_report(found, doubt)
}

/// Reads documents that together are one report. A doubt about one of them is a doubt about the whole.
pub(super) fn read_junit_files(files: &[Vec<u8>], context: &ReportContext<'_>) -> ParsedReport {
    let mut found = FindingCollector::new(context);
    let mut course = JunitParser::new(context);
    let mut doubt = None;
    for file in files {
        let text = String::from_utf8_lossy(file);
        doubt = doubt.or(course.read_document(&text, &mut found));
    }
    course.into_report(found, doubt)
}

impl<'a> JunitParser<'a> {
    fn new(context: &'a ReportContext<'a>) -> Self {
        Self {
            names: NameCollector::new(context),
            depth: 0,
            suite: String::new(),
            suites: GroupPath::default(),
            suite_depth: 0,
            stated_cases: None,
            case: None,
            failure: None,
            tests: TestCounts::default(),
            claimed_failures: 0,
            has_suite: false,
            has_any_suite: false,
            is_complete: false,
        }
    }

    /// Reads one document to its end. Returns a reason for doubt, if there is one.
    fn read_document(
        &mut self,
        text: &str,
        found: &mut FindingCollector<'_>,
    ) -> Option<&'static str> {
        if text.trim().is_empty() {
            return Some("the report is empty");
        }
        // A banner may precede the document.
        let Some(start) =
            ["<?xml", "<testsuites", "<testsuite"].iter().filter_map(|open| text.find(open)).min()
        else {
            return Some("the report is not JUnit");
        };
        (self.depth, self.suite_depth) = (0, 0);
        (self.case, self.failure) = (None, None);
        (self.is_complete, self.has_suite) = (false, false);
        let mut reader = Reader::from_str(text.get(start..).unwrap_or_default());
        reader.config_mut().allow_dangling_amp = true;
        while !self.is_complete {
            match reader.read_event() {
                Ok(Event::Start(element)) => {
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Some("the report is nested too deeply");
                    }
                    self.open_element(&element);
                }
                Ok(Event::Empty(element)) => {
                    self.open_element(&element);
                    self.close_element(element.local_name().as_ref(), found);
                }
                Ok(Event::End(element)) => {
                    self.close_element(element.local_name().as_ref(), found);
                    self.depth = self.depth.saturating_sub(1);
                    self.is_complete |= self.depth == 0;
                }
                Ok(Event::Text(text)) => self.add_text(&text.xml10_content()),
                Ok(Event::CData(text)) => self.add_text(&text.xml10_content()),
                Ok(Event::GeneralRef(reference)) => match reference.resolve_char_ref() {
                    Ok(Some(char)) => self.add_text(char.encode_utf8(&mut [0; 4])),
                    Ok(None) | Err(_) => {
                        self.add_text(resolve_predefined_entity(&reference).unwrap_or_default());
                    }
                },
                Ok(Event::Eof) => break,
                Ok(Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_)) => {}
                Err(_) => return Some("the report cannot be parsed to its end"),
            }
        }
        if !self.has_suite {
            Some("the report is not JUnit")
        } else if !self.is_complete {
            Some("the report is truncated")
        } else {
            None
        }
    }

    fn open_element(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "testsuites" => {
                (self.has_suite, self.has_any_suite) = (true, true);
                let stated = number_attribute(element, "tests").filter(|_| self.depth <= 1);
                self.stated_cases = match (self.stated_cases, stated) {
                    (Some(one), Some(other)) => Some(one.saturating_add(other)),
                    (one, other) => one.or(other),
                };
            }
            "testsuite" => {
                (self.has_suite, self.has_any_suite) = (true, true);
                self.suite = attribute(element, "name").unwrap_or_default();
                self.suites.enter(self.suite_depth, &self.suite);
                self.suite_depth += 1;
                let claims =
                    ["failures", "errors"].map(|name| number_attribute(element, name).unwrap_or(0));
                self.claimed_failures =
                    claims.iter().fold(self.claimed_failures, |sum, one| sum.saturating_add(*one));
            }
            "testcase" => {
                self.case = Some(JunitCase {
                    class: attribute(element, "classname").unwrap_or_default(),
                    name: attribute(element, "name").unwrap_or_default(),
                    file: attribute(element, "file").unwrap_or_default(),
                    line: number_attribute(element, "line"),
                    column: number_attribute(element, "column"),
                    // ctest has no element for a test that it did not run.
                    is_skipped: matches!(
                        attribute(element, "status").as_deref(),
                        Some("disabled" | "notrun")
                    ),
                    is_todo: false,
                    failures: Vec::new(),
                });
            }
            "failure" | "error" => {
                let message = attribute(element, "message").unwrap_or_default();
                self.failure = Some(JunitFailure { message, text: String::new() });
            }
            "skipped" => {
                if let Some(case) = &mut self.case {
                    case.is_skipped = true;
                    case.is_todo |= attribute(element, "type").as_deref() == Some("todo");
                }
            }
            _ => {}
        }
    }

    fn close_element(&mut self, name: &str, found: &mut FindingCollector<'_>) {
        match name {
            "failure" | "error" => {
                let Some(failure) = self.failure.take() else {
                    return;
                };
                match &mut self.case {
                    Some(case) if case.failures.len() < MAX_FAILURES_PER_CASE => {
                        case.failures.push(failure);
                    }
                    Some(_) => {}
                    // The suite itself failed: its set-up, or its file could not be loaded.
                    None => {
                        let case = JunitCase { name: self.suite.clone(), ..JunitCase::default() };
                        self.tests.failed = self.tests.failed.saturating_add(1);
                        self.tests.run = self.tests.run.saturating_add(1);
                        let suites = self.suites.around(self.suite_depth);
                        self.names.add_failed_group(&[suites.trim_end_matches([' ', '>'])]);
                        self.names.count_outcome(TestOutcome::Failed);
                        add_failure(&case, &failure, &self.suite, found);
                    }
                }
            }
            "testcase" => {
                let Some(case) = self.case.take() else {
                    return;
                };
                self.name_case(&case);
                match case.outcome() {
                    TestOutcome::Skipped => {
                        self.tests.skipped = self.tests.skipped.saturating_add(1);
                        return;
                    }
                    TestOutcome::Passed => {}
                    TestOutcome::Failed => {
                        self.tests.failed = self.tests.failed.saturating_add(1);
                    }
                }
                self.tests.run = self.tests.run.saturating_add(1);
                for failure in &case.failures {
                    add_failure(&case, failure, &self.suite, found);
                }
            }
            "testsuite" => self.suite_depth = self.suite_depth.saturating_sub(1),
            _ => {}
        }
    }

    /// The full name of a case consists of its file, the suites around it, its class and its own name, as far as the
    /// runner writes them. A part that repeats the previous one is left out.
    fn name_case(&mut self, case: &JunitCase) {
        // node writes this class for every test.
        let class = if case.class == "test" { "" } else { &case.class };
        let suites = self.suites.around(self.suite_depth).trim_end_matches([' ', '>']);
        let file = case.file.strip_prefix("./").unwrap_or(&case.file);
        let (outcome, parts) = (case.outcome(), [file, suites, class, &case.name]);
        if outcome == TestOutcome::Failed && case.stands_for_tests() {
            self.names.add_failed_group(&parts);
        } else {
            self.names.add_file_or_test(outcome, &parts);
        }
        self.names.count_outcome(outcome);
    }

    fn add_text(&mut self, text: &str) {
        if let Some(failure) = &mut self.failure {
            let room = MAX_TEXT_BYTES.saturating_sub(failure.text.len());
            failure.text.extend(text.chars().take(room));
        }
    }

    fn into_report(mut self, found: FindingCollector<'_>, doubt: Option<&str>) -> ParsedReport {
        let cases = self.tests.run.saturating_add(self.tests.skipped);
        if cases == 0 && self.claimed_failures > 0 {
            self.tests.run = self.claimed_failures;
            self.tests.failed = self.claimed_failures;
        }
        let doubt = doubt.or_else(|| doubt_about_tests(self.tests));
        // Some writers state fewer cases than they list, which hides no test.
        if self.stated_cases.is_some_and(|stated| cases < stated) {
            self.names.mark_incomplete();
        }
        let tests = self.has_any_suite.then_some(self.tests);
        let cases = self.names.into_cases(tests, doubt);
        ParsedReport { cases, ..found.into_report(tests, doubt) }
    }
}

fn add_failure(
    case: &JunitCase,
    failure: &JunitFailure,
    suite: &str,
    found: &mut FindingCollector<'_>,
) {
    let failure = JunitFailure {
        message: without_colours(&failure.message),
        text: without_colours(&failure.text),
    };
    let file = [case.file.as_str(), suite, case.class.as_str()]
        .into_iter()
        .find(|file| !file.is_empty() && source_location::is_source_file(file));
    let innermost = innermost_frame(&failure.text, found.context);
    let traced = || {
        innermost
            .location()
            .or_else(|| source_location::best_location(&failure.text, found.context))
    };
    let spot = match (file, case.line) {
        (Some(file), Some(line)) => {
            Some(RawLocation { file, line: Some(line), column: case.column })
        }
        (file, None) => {
            traced().or_else(|| file.map(|file| RawLocation { file, line: None, column: None }))
        }
        (None, Some(_)) => traced(),
    };
    let first_line = failure.text.lines().map(str::trim).find(|line| !line.is_empty());
    let message = if is_informative(&failure.message) {
        failure.message.as_str()
    } else {
        raised_line(&failure.text).or(first_line).unwrap_or(&failure.message)
    };
    // A class that only repeats the file is left out.
    let is_file = source_location::is_source_file(&case.class)
        || suite.strip_prefix(&case.class).is_some_and(|end| end.starts_with('.'));
    let rule = if case.class.is_empty() || is_file || case.class == "test" {
        case.name.clone()
    } else {
        format!("{}::{}", case.class, case.name)
    };
    found.add(&FindingDraft {
        location: spot,
        rule: &rule,
        message,
        severity: FindingSeverity::Error,
    });
}

/// XML forbids the escape characters of colours, so pytest writes them as `#x1B`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("#x1B[");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |mut shown, part| {
        let sequence = part.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';');
        let end = sequence.count();
        match part.get(end..).and_then(|rest| rest.strip_prefix('m')) {
            Some(rest) => shown.push_str(rest),
            None => shown.extend(["#x1B[", part]),
        }
        shown
    })
}

/// Whether the message is useful. For `collection failure`, pytest puts the reason into the text.
fn is_informative(message: &str) -> bool {
    !message.trim().is_empty() && message != COLLECTION_FAILURE
}

/// pytest: the first line that starts with `E`. For a syntax error, source lines are indented below it.
fn raised_line(text: &str) -> Option<&str> {
    let mut raised = text.lines().filter_map(|line| line.strip_prefix("E   "));
    raised.clone().find(|line| !line.starts_with(' ')).or_else(|| raised.next()).map(str::trim)
}

/// pytest prints the innermost call last.
fn innermost_frame(text: &str, context: &ReportContext<'_>) -> FailureBlock {
    let mut block = FailureBlock::new("");
    if raised_line(text).is_some() {
        for line in text.lines().filter(|line| pytest::is_location_line(line)) {
            block.find_location(line, LocationPreference::Last, context);
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
    Some(value.chars().take(MAX_ATTRIBUTE_CHARS).collect())
}

fn number_attribute(element: &BytesStart<'_>, name: &str) -> Option<u32> {
    attribute(element, name)?.trim().parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_pytest_are_left_out() {
        for (text, expected) in [
            ("assert '1.0' == '1' #x1B[0m#x1B[91m- 1#x1B[39;49;00m", "assert '1.0' == '1' - 1"),
            ("about #x1B[ and #x1B[2", "about #x1B[ and #x1B[2"),
            ("plain", "plain"),
        ] {
            assert_eq!(without_colours(text), expected);
        }
    }
}
