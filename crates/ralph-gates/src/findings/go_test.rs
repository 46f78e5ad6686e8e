//! Reads `go test -json`: one event per line, and the compiler's messages between them.

use super::plain_text::GeneralReader;
use super::source_location::{self, RawLocation};
use super::test_names::NameCollector;
use super::{
    FindingCollector, FindingDraft, OutputExtent, ReportContext, clean_lines, doubt_about_tests,
    project_file,
};
use ralph_core::gate::{ParsedReport, TestCounts};
use ralph_core::test_cases::TestOutcome;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

const MAX_TESTS: usize = 20_000;
/// Lines that are kept of one test's output.
const MAX_TEST_LINES: usize = 60;
/// Enough for the message of a finding, which is cut later.
const MAX_MESSAGE_BYTES: usize = 1_200;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GoTestEventWire<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    package: Cow<'a, str>,
    #[serde(borrow, default)]
    test: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    output: Cow<'a, str>,
}

struct GoTestParser<'a> {
    names: NameCollector<'a>,
    /// Tests that started and have no result yet.
    running: u64,
    /// Packages with a failed test.
    failed_packages: HashSet<String>,
    outputs: HashMap<(String, String), Vec<String>>,
    /// Number of findings reported for each package.
    reported: HashMap<String, u32>,
    /// Tests that have subtests, and whether one of these failed.
    parents: HashMap<(String, String), bool>,
    tests: TestCounts,
    events: u64,
}

pub(super) fn read_go_test(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let mut found = FindingCollector::new(context);
    let mut course = GoTestParser {
        names: NameCollector::new(context),
        running: 0,
        failed_packages: HashSet::new(),
        outputs: HashMap::new(),
        reported: HashMap::new(),
        parents: HashMap::new(),
        tests: TestCounts::default(),
        events: 0,
    };
    let mut compiler = GeneralReader::default();
    for line in text.split('\n') {
        if line.starts_with('{')
            && let Ok(event) = serde_json::from_str::<GoTestEventWire<'_>>(line)
        {
            course.events += 1;
            if event.action == "build-output" {
                clean_lines(event.output.trim_end())
                    .for_each(|line| compiler.read_line(&line, &mut found));
            } else {
                course.read_event(&event, &mut found);
            }
            continue;
        }
        clean_lines(line).for_each(|line| compiler.read_line(&line, &mut found));
    }
    compiler.finish(&mut found);
    let tests = (course.events > 0).then_some(course.tests);
    let doubt = match tests {
        None => Some("the output contains no `go test` event"),
        Some(_) if context.extent != OutputExtent::Complete => Some("the report is truncated"),
        Some(tests) => doubt_about_tests(tests),
    };
    if course.running > 0 {
        course.names.mark_incomplete();
    }
    let cases = course.names.into_cases(tests, doubt);
    ParsedReport { cases, ..found.into_report(tests, doubt) }
}

impl GoTestParser<'_> {
    fn read_event(&mut self, event: &GoTestEventWire<'_>, found: &mut FindingCollector<'_>) {
        let test = event.test.as_deref().unwrap_or_default();
        let is_sum = self.is_sum_of_subtests(event, test);
        self.name_test(event, test, is_sum);
        if is_sum && matches!(&*event.action, "pass" | "skip") {
            self.outputs.remove(&test_key(event, test));
            return;
        }
        match (&*event.action, test.is_empty()) {
            ("output", _) => self.keep_output(event, test),
            ("pass", false) => {
                self.tests.run = self.tests.run.saturating_add(1);
                self.outputs.remove(&test_key(event, test));
            }
            ("skip", false) => {
                self.tests.skipped = self.tests.skipped.saturating_add(1);
                self.outputs.remove(&test_key(event, test));
            }
            ("fail", false) => {
                let count = u32::from(!is_sum);
                self.tests.run = self.tests.run.saturating_add(count);
                self.tests.failed = self.tests.failed.saturating_add(count);
                self.add_failure(event, test, found);
            }
            // A package fails because of its tests. It is reported itself only if no test failed.
            ("fail", true) if found.is_empty() && !self.reported.contains_key(&*event.package) => {
                self.add_failure(event, test, found);
            }
            _ => {}
        }
    }

    /// Whether the result of a test only sums up those of its subtests, which end before it. Notes the test above.
    fn is_sum_of_subtests(&mut self, event: &GoTestEventWire<'_>, test: &str) -> bool {
        let has_failed = event.action == "fail";
        if !matches!(&*event.action, "pass" | "fail" | "skip") {
            return false;
        }
        if let Some((parent, _)) = test.rsplit_once('/')
            && self.parents.len() < MAX_TESTS
        {
            *self.parents.entry(test_key(event, parent)).or_default() |= has_failed;
        }
        let subtest_failed = self.parents.get(&test_key(event, test));
        subtest_failed.is_some_and(|subtest_failed| *subtest_failed || !has_failed)
    }

    fn name_test(&mut self, event: &GoTestEventWire<'_>, test: &str, is_sum: bool) {
        let outcome = match &*event.action {
            "run" => {
                self.running += 1;
                return;
            }
            "pass" => TestOutcome::Passed,
            "fail" => TestOutcome::Failed,
            "skip" => TestOutcome::Skipped,
            _ => return,
        };
        if !test.is_empty() {
            self.running = self.running.saturating_sub(1);
            self.names.add_name(outcome, &[&event.package, test]);
            if !is_sum {
                self.names.count_outcome(outcome);
            }
            if outcome == TestOutcome::Failed && self.failed_packages.len() < MAX_TESTS {
                self.failed_packages.insert(event.package.to_string());
            }
        } else if outcome == TestOutcome::Failed
            && !self.failed_packages.contains(&*event.package)
            // A pattern that matches no package, for example without a `go.mod`.
            && !event.package.ends_with("...")
        {
            // The package failed without a failed test: it does not compile, or exited early.
            self.names.add_failed_group(&[&event.package]);
        }
    }

    fn keep_output(&mut self, event: &GoTestEventWire<'_>, test: &str) {
        let line = event.output.trim_end();
        let is_noise = line.starts_with("=== ") || line.trim_start().starts_with("--- ");
        if line.is_empty() || is_noise {
            return;
        }
        if self.outputs.len() >= MAX_TESTS && !self.outputs.contains_key(&test_key(event, test)) {
            return;
        }
        let kept = self.outputs.entry(test_key(event, test)).or_default();
        if kept.len() < MAX_TEST_LINES {
            kept.extend(clean_lines(line).map(Cow::into_owned));
        }
    }

    fn add_failure(
        &mut self,
        event: &GoTestEventWire<'_>,
        test: &str,
        found: &mut FindingCollector<'_>,
    ) {
        let output = self.outputs.remove(&test_key(event, test)).unwrap_or_default();
        let reported = self.reported.entry(event.package.to_string()).or_default();
        // A test fails together with its subtests, usually without output of its own.
        if output.is_empty() && *reported > 0 {
            return;
        }
        *reported = reported.saturating_add(1);
        let located = output.iter().find_map(|line| {
            source_location::first_location(line).filter(|located| located.before.trim().is_empty())
        });
        let own = output.iter().find_map(|line| {
            let located = source_location::first_location(line)?;
            (located.location.file.contains('/')
                && project_file::is_project_file(located.location.file, found.context))
            .then_some(located.location)
        });
        let panic = output.iter().find(|line| line.starts_with("panic: "));
        let message = match (panic, located) {
            (Some(panic), _) => panic.clone(),
            (None, Some(_)) => logged_message(&output),
            (None, None) => output.last().cloned().unwrap_or_default(),
        };
        let spot = if panic.is_some() { own } else { located.map(|located| located.location) };
        let file = spot.map(|spot| package_file(spot.file, &event.package));
        let rule = if test.is_empty() { &*event.package } else { test };
        found.add(&FindingDraft {
            location: file.as_deref().zip(spot).map(|(file, spot)| RawLocation { file, ..spot }),
            rule,
            message: if message.is_empty() { "the test failed" } else { &message },
            ..FindingDraft::default()
        });
    }
}

/// Everything that a test logged: an assertion may print several lines, and a fatal one comes last.
fn logged_message(output: &[String]) -> String {
    let mut message = String::new();
    for line in output {
        let located = source_location::first_location(line)
            .filter(|located| located.before.trim().is_empty());
        let (separator, text) = match located {
            Some(located) => ("; ", located.after.trim_start_matches([':', ' '])),
            None if message.is_empty() => continue,
            None => (" ", line.trim()),
        };
        if message.len() < MAX_MESSAGE_BYTES && !text.is_empty() {
            message.push_str(if message.is_empty() { "" } else { separator });
            message.push_str(text);
        }
    }
    message
}

fn test_key(event: &GoTestEventWire<'_>, test: &str) -> (String, String) {
    (event.package.to_string(), test.to_owned())
}

/// Adds the package's directory to a file name, because go names a test's file without it. The root of the module is
/// known only for hosts with a fixed path layout; for others, the whole import path is kept.
fn package_file(name: &str, package: &str) -> String {
    if name.contains('/') {
        return name.to_owned();
    }
    let mut parts = package.split('/');
    let host = parts.clone().next().unwrap_or_default();
    if matches!(host, "github.com" | "gitlab.com" | "bitbucket.org" | "codeberg.org") {
        let rest: Vec<_> = parts.by_ref().skip(3).filter(|part| !is_major_version(part)).collect();
        return rest.into_iter().chain([name]).collect::<Vec<_>>().join("/");
    }
    format!("{package}/{name}")
}

/// `v2`
fn is_major_version(part: &str) -> bool {
    part.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok())
}
