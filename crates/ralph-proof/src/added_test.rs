//! Tries a test file that a reviewer wrote: it is added to a checkout of the candidate, and a gate that runs tests says
//! what becomes of it.
//!
//! The file is foreign, and a failure proves nothing by itself: a broken test fails too. So it counts only if the runner
//! names tests of the file, one of them fails by itself, every other result stays the same, and the failure changes when
//! the code is gone that the test is said to be about.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_core::digest64::Digest64;
use ralph_core::gate::{
    Gate, GateOutcome, GateReport, RerunPolicy, ResultStability, UnknownReason,
};
use ralph_core::requirement::Finding;
use ralph_core::test_cases::{TestCases, name_parts};
use ralph_core::text;
use ralph_gates::findings::finding_signature;
use ralph_gates::test_runner::{TestRunner, find_runner};
use ralph_git::tree::TreeEntryMode;
use ralph_sys::clock::Deadline;

use crate::file_class::{FileClass, classify_file};
use crate::outside_changes::path_in_work_tree;
use crate::proof_plan::StepTree;
use crate::proof_step::{CHECKOUT_TIMEOUT, StepGate, run_step};
use crate::prove::{ProofError, ProofRequest, may_run_tests};
use crate::reported_paths::is_named_after;
use crate::test_selection::is_plain_path;
use crate::tree_composition::{RewrittenFile, TreeComposition};

const MAX_CONTENT_BYTES: usize = 64 * 1024;
const MAX_PATH_BYTES: usize = 300;
const MAX_NAME_CHARS: usize = 120;
const MAX_MESSAGE_CHARS: usize = 200;

/// Words of a failure that shows only that the test uses something that does not exist, or that it cannot be read.
const BROKEN_TEST_WORDS: [&str; 22] = [
    "AttributeError",
    "ImportError",
    "IndentationError",
    "ModuleNotFoundError",
    "NameError",
    "ReferenceError",
    "SyntaxError",
    "TabError",
    "UnboundLocalError",
    "Cannot find module",
    "No such file or directory",
    "command not found",
    "has no attribute",
    "is not a constructor",
    "is not a function",
    "is not defined",
    "missing 1 required positional argument",
    "no such file",
    "not found in module",
    "positional arguments but",
    "required positional arguments",
    "unexpected keyword argument",
];

/// A test file that the candidate does not have. All paths are relative to the project, and foreign.
#[derive(Clone, Copy, Debug)]
pub struct AddedTest<'a> {
    pub path: &'a str,
    pub content: &'a str,
    /// The file with the code that the test is said to be about.
    pub about: &'a str,
}

/// What became of an added test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedTestResult {
    /// It fails because of the code that it is about. The text names the test and says how it fails; it is foreign.
    Fails(String),
    Passes,
    /// It shows nothing, and why.
    Rejected(String),
}

/// Tries the test with those gates of the request that may collect it, until the deadline. The first gate that runs it
/// decides.
pub fn try_added_test(
    request: &ProofRequest<'_>,
    test: &AddedTest<'_>,
    deadline: Deadline,
) -> Result<AddedTestResult, ProofError> {
    if let Some(why) = refuse_file(request, test)? {
        return Ok(AddedTestResult::Rejected(why));
    }
    for gate in request.gates.iter().filter(|gate| may_collect(gate, test.path)) {
        if deadline.has_passed() || request.cancel.is_cancelled() {
            return Ok(AddedTestResult::Rejected("there was no time to run it".to_string()));
        }
        let trial = AddedTestTrial { request, gate, test, deadline };
        if let Some(result) = trial.run()? {
            return Ok(result);
        }
    }
    Ok(AddedTestResult::Rejected("no gate runs tests in such a file".to_string()))
}

/// Why the file may not be added. Only a new file with tests may: another one could change what is tested.
fn refuse_file(
    request: &ProofRequest<'_>,
    test: &AddedTest<'_>,
) -> Result<Option<String>, ProofError> {
    let refused = |why: &str| Ok(Some(why.to_string()));
    if test.content.trim().is_empty() || test.content.len() > MAX_CONTENT_BYTES {
        return refused("the file is empty or too large");
    }
    if test.path.len() > MAX_PATH_BYTES || !is_plain_path(test.path) {
        return refused("its path is not a plain path inside the project");
    }
    if classify_file(test.path, request.rules).class != FileClass::Tests {
        return refused("its path is not that of a test file");
    }
    if classify_file(test.about, request.rules).class != FileClass::Code {
        return refused("the finding is not about code");
    }
    let reading = Deadline::after(CHECKOUT_TIMEOUT);
    let files = request.repository.checkpoint_files(request.candidate, &reading)?;
    let below = request.project_below();
    let (added, about) =
        (path_in_work_tree(&below, test.path), path_in_work_tree(&below, test.about));
    if files.iter().any(|file| is_in_the_way(Path::new(&file.path), Path::new(&added))) {
        return refused("the change has a file at its path");
    }
    let is_plain_file = |mode| matches!(mode, TreeEntryMode::File | TreeEntryMode::Executable);
    if !files.iter().any(|file| file.path == about && is_plain_file(file.version.mode)) {
        return refused("the finding is not about a file of the change");
    }
    Ok(None)
}

/// Whether a known path is the added one, above or below it. Some file systems ignore case.
fn is_in_the_way(known: &Path, added: &Path) -> bool {
    let mut parts = known.components().zip(added.components());
    parts.all(|(one, other)| one.as_os_str().eq_ignore_ascii_case(other.as_os_str()))
}

/// Whether the gate may run tests in a file with this path. Not every runner is known.
fn may_collect(gate: &Gate, path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_collected = match find_runner(gate, &|_| None) {
        Some(TestRunner::Pytest | TestRunner::Unittest) => extension == "py",
        Some(TestRunner::Cargo | TestRunner::Nextest) => extension == "rs",
        Some(TestRunner::Go) => path.ends_with("_test.go"),
        Some(TestRunner::Bats) => extension == "bats",
        Some(
            TestRunner::Jest
            | TestRunner::Vitest
            | TestRunner::Mocha
            | TestRunner::Ava
            | TestRunner::NodeTest,
        ) => matches!(extension, "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts"),
        None => true,
    };
    is_collected && !gate.is_ci() && may_run_tests(gate) && Path::new(path).starts_with(&gate.cwd)
}

struct AddedTestTrial<'a> {
    request: &'a ProofRequest<'a>,
    gate: &'a Gate,
    test: &'a AddedTest<'a>,
    deadline: Deadline,
}

impl AddedTestTrial<'_> {
    /// `None` if the gate does not run the test.
    fn run(&self) -> Result<Option<AddedTestResult>, ProofError> {
        let rejected = |why: String| Ok(Some(AddedTestResult::Rejected(why)));
        let added =
            RewrittenFile { path: self.test.path.to_string(), text: self.test.content.to_string() };
        let emptied = RewrittenFile { path: self.test.about.to_string(), text: String::new() };
        let now = self.report(Vec::new(), None)?;
        let with_test = self.report(vec![added.clone()], None)?;
        let failure = match compare_reports(&now, &with_test, self.test) {
            AddedTestEffect::NotCollected => return Ok(None),
            AddedTestEffect::Rejected(why) => return rejected(why),
            AddedTestEffect::Passes => return Ok(Some(AddedTestResult::Passes)),
            AddedTestEffect::Fails(failure) => failure,
        };
        let files = [self.test.path.to_string()];
        let without_code = self.report(vec![added, emptied], Some(&files))?;
        if let Some(why) = failure.doubt(&without_code, self.test.about) {
            return rejected(why);
        }
        Ok(Some(AddedTestResult::Fails(failure.describe())))
    }

    /// The result of the gate on the candidate with these files. It runs only the tests in `files`, if it can.
    fn report(
        &self,
        rewritten: Vec<RewrittenFile>,
        files: Option<&[String]>,
    ) -> Result<GateReport, ProofError> {
        let reading = Deadline::after(CHECKOUT_TIMEOUT);
        let changes = TreeComposition { rewritten, ..TreeComposition::default() };
        let tree = StepTree::of_candidate(self.request, &changes, &reading)?;
        let left_ms = u64::try_from(self.deadline.remaining().as_millis()).unwrap_or(u64::MAX);
        // Only the failure with the code has to be confirmed.
        let rerun = if files.is_some() { RerunPolicy::Never } else { self.gate.rerun };
        let gate = Gate { rerun, ..self.gate.clone() };
        let step = StepGate {
            gate: &gate,
            wants_canary: false,
            limit_ms: Some(left_ms.max(1)),
            files,
            expected_tests: None,
        };
        let result = run_step(self.request, &tree, &[step])?;
        let missing = || {
            let why = UnknownReason::Skipped("it did not run".to_string());
            GateReport::unknown(self.gate, why, 0)
        };
        Ok(result.reports.into_iter().next().unwrap_or_else(missing))
    }
}

/// What a test file changed about the result of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AddedTestEffect {
    /// The gate names no other tests than without the file.
    NotCollected,
    Rejected(String),
    Passes,
    Fails(AddedFailure),
}

/// How tests of an added file fail.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AddedFailure {
    tests: Vec<String>,
    /// Signatures of the findings that only the added file brings.
    signatures: BTreeSet<Digest64>,
    message: String,
}

/// Compares the results without and with the added file, which is the only difference between the two trees.
fn compare_reports(
    now: &GateReport,
    with_test: &GateReport,
    test: &AddedTest<'_>,
) -> AddedTestEffect {
    let gate = &now.name;
    let rejected = |why: String| AddedTestEffect::Rejected(why);
    let Some(known) = named_cases(now) else {
        return rejected(format!("{gate} does not name all of its tests"));
    };
    if let GateOutcome::Unknown(reason) = &with_test.outcome {
        return rejected(format!("{gate} gives no result with it: {}", reason.describe()));
    }
    let Some(cases) = named_cases(with_test) else {
        return rejected(format!("{gate} does not name all of its tests with it"));
    };
    if with_test.steadiness == ResultStability::Flaky {
        return rejected("it fails and then passes on the same files".to_string());
    }
    let is_new = |name: &&String| known.outcome(name).is_none();
    if cases.failed_groups.iter().any(|name| is_new(&name)) {
        return rejected("it does not load".to_string());
    }
    let names = known.passed.iter().chain(&known.failed).chain(&known.skipped);
    if names.into_iter().any(|name| known.outcome(name) != cases.outcome(name)) {
        return rejected("other tests end differently with it".to_string());
    }
    let failed: Vec<String> = cases.failed.iter().filter(is_new).cloned().collect();
    let passed: Vec<&String> = cases.passed.iter().filter(is_new).collect();
    let mut ended = failed.iter().chain(passed.iter().copied());
    if !ended.all(|name| is_of_file(name, test)) {
        return rejected("it makes tests of other files run".to_string());
    }
    if failed.is_empty() {
        return if passed.is_empty() {
            AddedTestEffect::NotCollected
        } else {
            AddedTestEffect::Passes
        };
    }
    let old: BTreeSet<Digest64> = now.all_findings().map(finding_signature).collect();
    let is_fresh = |finding: &&Finding| !old.contains(&finding_signature(finding));
    let fresh: Vec<&Finding> = with_test.all_findings().filter(is_fresh).collect();
    let is_broken =
        |finding: &&Finding| BROKEN_TEST_WORDS.iter().any(|word| finding.message.contains(word));
    if fresh.iter().any(is_broken) {
        return rejected("it uses something that does not exist".to_string());
    }
    AddedTestEffect::Fails(AddedFailure {
        tests: failed,
        signatures: fresh.iter().map(|finding| finding_signature(finding)).collect(),
        message: fresh.first().map(|finding| finding.message.clone()).unwrap_or_default(),
    })
}

/// The tests of a report that has a result and names every one of them.
fn named_cases(report: &GateReport) -> Option<&TestCases> {
    let has_result = !matches!(report.outcome, GateOutcome::Unknown(_));
    report.cases.as_ref().filter(|cases| has_result && cases.is_complete)
}

/// Whether the name of a test shows its file, or ends with a name that is in the file.
fn is_of_file(name: &str, test: &AddedTest<'_>) -> bool {
    let last = name_parts(name).last().unwrap_or(name);
    // A subtest of Go is named after its test.
    let function = last.split('/').next().unwrap_or(last);
    is_named_after(name, test.path) || !function.is_empty() && test.content.contains(function)
}

impl AddedFailure {
    /// Why the failure may have nothing to do with the code, given the result without that code.
    fn doubt(&self, without_code: &GateReport, about: &str) -> Option<String> {
        match &without_code.outcome {
            GateOutcome::Passed | GateOutcome::Failed => {}
            // What needs the code cannot be built or loaded without it.
            GateOutcome::Unknown(UnknownReason::Error(_) | UnknownReason::NoTests(_)) => {
                return None;
            }
            GateOutcome::Unknown(reason) => {
                let why = reason.describe();
                return Some(format!("without the code there is no result: {why}"));
            }
        }
        let is_whole = !without_code.has_gaps
            && usize::try_from(without_code.finding_count)
                == Ok(without_code.all_findings().count());
        let signatures: BTreeSet<Digest64> =
            without_code.all_findings().map(finding_signature).collect();
        let failed = without_code.cases.as_ref().map_or(&[][..], |cases| &cases.failed);
        let is_same = self.tests.iter().all(|test| failed.contains(test))
            && (!is_whole || self.signatures.is_subset(&signatures));
        is_same.then(|| {
            let about = text::clean_line(about, MAX_NAME_CHARS);
            format!("it fails in the same way without the code of {about}")
        })
    }

    /// `tests.test_cart.Case.test_negative: AssertionError: 1 != -1`
    fn describe(&self) -> String {
        let name = self.tests.first().map(String::as_str).unwrap_or_default();
        let name = text::clean_line(name, MAX_NAME_CHARS);
        let message = text::clean_line(&self.message, MAX_MESSAGE_CHARS);
        if message.is_empty() { name } else { format!("{name}: {message}") }
    }
}

#[cfg(test)]
mod tests;
