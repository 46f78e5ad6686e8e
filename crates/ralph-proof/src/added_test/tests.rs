//! What a test file shows, by the reports without and with it.

use super::*;
use ralph_core::gate::GateInvocation;
use ralph_gates::gates::testing::sample_report;

const TEST: AddedTest<'_> = AddedTest {
    path: "tests/test_negative.py",
    content: "def test_negative(): …",
    about: "cart.py",
};
const OLD: &str = "tests.test_cart.Case.test_adds";
const NEW: &str = "tests.test_negative.Case.test_negative";

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn report(passed: &[&str], failed: &[&str], messages: &[&str]) -> GateReport {
    let outcome = if failed.is_empty() { GateOutcome::Passed } else { GateOutcome::Failed };
    let (passed, failed) = (names(passed), names(failed));
    let finding = |message: &&str| Finding {
        rule: Some("test".to_string()),
        ..Finding::new((*message).to_string())
    };
    GateReport {
        cases: Some(TestCases { passed, failed, is_complete: true, ..TestCases::default() }),
        findings: messages.iter().map(finding).collect(),
        finding_count: u32::try_from(messages.len()).unwrap(),
        ..sample_report("tests", outcome)
    }
}

fn with_cases(report: GateReport, change: impl FnOnce(&mut TestCases)) -> GateReport {
    let mut report = report;
    change(report.cases.as_mut().unwrap());
    report
}

fn shown(now: &GateReport, with_test: &GateReport) -> String {
    match compare_reports(now, with_test, &TEST) {
        AddedTestEffect::NotCollected => "not collected".to_string(),
        AddedTestEffect::Rejected(why) => format!("rejected: {why}"),
        AddedTestEffect::Passes => "passes".to_string(),
        AddedTestEffect::Fails(failure) => format!("fails: {}", failure.describe()),
    }
}

#[test]
fn a_test_shows_something_only_if_it_alone_fails() {
    let now = report(&[OLD], &[], &[]);
    let failed = || report(&[OLD], &[NEW], &["AssertionError: 1 != -1"]);
    let unknown = |reason| sample_report("tests", GateOutcome::Unknown(reason));
    for (with_test, expected) in [
        (failed(), format!("fails: {NEW}: AssertionError: 1 != -1")),
        (report(&[OLD, NEW], &[], &[]), "passes".to_string()),
        (report(&[OLD], &[], &[]), "not collected".to_string()),
        (
            with_cases(failed(), |cases| cases.failed_groups = names(&[NEW])),
            "rejected: it does not load".to_string(),
        ),
        (
            report(&[], &[OLD, NEW], &["AssertionError"]),
            "rejected: other tests end differently with it".to_string(),
        ),
        (
            report(&[], &[NEW], &["AssertionError"]),
            "rejected: other tests end differently with it".to_string(),
        ),
        (
            report(&[OLD], &["tests.test_other.Case.test_old"], &["AssertionError"]),
            "rejected: it makes tests of other files run".to_string(),
        ),
        (
            report(&[OLD], &[NEW], &["AttributeError: 'Cart' object has no attribute 'rebate'"]),
            "rejected: it uses something that does not exist".to_string(),
        ),
        (
            report(&[OLD], &[NEW], &["TypeError: cart.rebate is not a function"]),
            "rejected: it uses something that does not exist".to_string(),
        ),
        (
            GateReport { steadiness: ResultStability::Flaky, ..failed() },
            "rejected: it fails and then passes on the same files".to_string(),
        ),
        (
            with_cases(failed(), |cases| cases.is_complete = false),
            "rejected: tests does not name all of its tests with it".to_string(),
        ),
        (
            unknown(UnknownReason::Timeout { after_ms: 2_000, pending: String::new() }),
            "rejected: tests gives no result with it: timed out after 2 s".to_string(),
        ),
        (
            sample_report("tests", GateOutcome::Failed),
            "rejected: tests does not name all of its tests with it".to_string(),
        ),
    ] {
        assert_eq!(shown(&now, &with_test), expected);
    }
    let nameless = sample_report("tests", GateOutcome::Passed);
    assert_eq!(shown(&nameless, &failed()), "rejected: tests does not name all of its tests");
    // Failures that a ratchet accepts stay, and are not those of the added test.
    let old = report(&[], &[OLD], &["AttributeError: old"]);
    let both = report(&[], &[OLD, NEW], &["AttributeError: old", "AssertionError: x"]);
    assert_eq!(shown(&old, &both), format!("fails: {NEW}: AssertionError: x"));
}

#[test]
fn a_failure_that_needs_no_code_shows_nothing() {
    let now = report(&[OLD], &[], &[]);
    let with_test = report(&[OLD], &[NEW], &["AssertionError: 0x7f01 != -1"]);
    let AddedTestEffect::Fails(failure) = compare_reports(&now, &with_test, &TEST) else {
        panic!("it fails")
    };
    let same = Some("it fails in the same way without the code of cart.py".to_string());
    let unknown = |reason| sample_report("tests", GateOutcome::Unknown(reason));
    for (without_code, expected) in [
        (report(&[OLD], &[NEW], &["AssertionError: 0x7f99 != -1"]), same.clone()),
        (report(&[], &[OLD, NEW], &["other", "AssertionError: 0x7f99 != -1"]), same.clone()),
        // The message that would differ may be among those that were not kept.
        (
            GateReport { has_gaps: true, ..report(&[], &[NEW], &["ImportError: total"]) },
            same.clone(),
        ),
        (report(&[], &[NEW], &["ImportError: total"]), None),
        (report(&[], &["tests.test_negative"], &["ImportError: total"]), None),
        (report(&[NEW], &[OLD], &["ImportError: total"]), None),
        (unknown(UnknownReason::Error("exit 101: cannot compile".to_string())), None),
        (
            unknown(UnknownReason::Inconclusive("files changed".to_string())),
            Some("without the code there is no result: files changed".to_string()),
        ),
    ] {
        assert_eq!(failure.doubt(&without_code, TEST.about), expected, "{without_code:?}");
    }
    let silent = AddedFailure { signatures: BTreeSet::new(), ..failure };
    assert_eq!(silent.doubt(&report(&[], &[NEW], &["x"]), TEST.about), same);
}

#[test]
fn a_file_is_tried_with_the_runners_of_its_language() {
    for (line, cwd, path, expected) in [
        ("python3 -m unittest -v", "", "tests/test_a.py", true),
        ("python3 -m unittest -v", "", "tests/a.test.js", false),
        ("cargo test", "", "tests/a.rs", true),
        ("go test ./...", "", "a_test.go", true),
        ("go test ./...", "", "a.go", false),
        ("bats tests", "", "tests/a.bats", true),
        ("npx jest", "web", "web/a.test.ts", true),
        ("npx jest", "web", "api/a.test.ts", false),
        ("./check", "", "qa/a.sh", true),
    ] {
        let words = line.split(' ').map(ToString::to_string).collect();
        let mut gate = Gate::new("tests", GateInvocation::Argv(words));
        gate.cwd = cwd.to_string();
        assert_eq!(may_collect(&gate, path), expected, "{line} {path}");
    }
}

#[test]
fn a_file_above_or_below_another_is_in_the_way() {
    for (known, added, expected) in [
        ("tests/test_a.py", "tests/test_a.py", true),
        ("tests/Test_A.py", "tests/test_a.py", true),
        ("tests", "tests/test_a.py", true),
        ("tests/test_a.py/x", "tests/test_a.py", true),
        ("tests/test_b.py", "tests/test_a.py", false),
        ("test", "tests/test_a.py", false),
    ] {
        assert_eq!(is_in_the_way(Path::new(known), Path::new(added)), expected, "{known}");
    }
}
