//! Properties that hold for the test names in any report.

use super::super::tests::{complete_context, read_recorded_report};
use super::super::{OutputExtent, ReportContext, read_report};
use proptest::prelude::*;
use ralph_core::gate::{ParsedReport, ReportFormat};
use ralph_core::test_cases::TestCases;
use std::path::{Path, PathBuf};

/// Each recorded report, with the format of its directory.
fn recorded_reports() -> Vec<(ReportFormat, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports");
    let mut reports = Vec::new();
    for &format in ReportFormat::ALL {
        let directory = root.join(format.name());
        for name in ralph_sys::fs::list(&directory, 1_000).unwrap_or_default() {
            reports.push((format, directory.join(name)));
        }
    }
    reports
}

fn read_bytes(path: &Path) -> Vec<u8> {
    ralph_sys::fs::read(path, 1 << 20).unwrap()
}

fn check_names(report: &ParsedReport) {
    let Some(cases) = &report.cases else { return };
    let lists = [&cases.passed, &cases.failed, &cases.skipped];
    for names in lists {
        assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
    }
    let mut all: Vec<_> = lists.into_iter().flatten().collect();
    for name in &all {
        assert!(!name.is_empty() && name.chars().count() <= super::MAX_NAME_CHARS, "{name:?}");
        assert!(!name.chars().any(char::is_control), "{name:?}");
    }
    let number = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), number);
    let json = serde_json::to_string(cases).unwrap();
    assert_eq!(&serde_json::from_str::<TestCases>(&json).unwrap(), cases);
}

#[test]
fn names_are_the_same_in_every_checkout() {
    let elsewhere = Path::new("/tmp/checkouts/7f3a");
    let context = ReportContext {
        root: elsewhere,
        cwd: elsewhere,
        extent: OutputExtent::Complete,
        is_file: crate::findings::FileProbe::default(),
        is_excluded: None,
    };
    let mut report_count = 0;
    for (format, path) in recorded_reports() {
        let bytes = read_bytes(&path);
        let moved = String::from_utf8_lossy(&bytes).replace("/project", "/tmp/checkouts/7f3a");
        let here = read_report(format, &bytes, &complete_context()).cases;
        assert_eq!(read_report(format, moved.as_bytes(), &context).cases, here, "{path:?}");
        let names = here.iter().flat_map(|cases| [&cases.passed, &cases.failed, &cases.skipped]);
        assert!(!names.flatten().any(|name| name.contains("/project")), "{path:?}");
        report_count += usize::from(here.is_some());
    }
    assert!(report_count > 40, "{report_count}");
}

/// A gate without a report format gets the same names. It may doubt them, because AVA counts differently in TAP.
#[test]
fn text_has_the_same_names_as_its_own_format() {
    for format in [ReportFormat::Pytest, ReportFormat::Tap] {
        for (_, path) in recorded_reports().into_iter().filter(|(own, _)| *own == format) {
            let own = read_report(format, &read_bytes(&path), &complete_context()).cases;
            let text = read_report(ReportFormat::Text, &read_bytes(&path), &complete_context());
            let is_complete = text.cases.as_ref().is_some_and(|cases| cases.is_complete);
            let own =
                own.map(|own| TestCases { is_complete: own.is_complete && is_complete, ..own });
            assert_eq!(text.cases, own, "{path:?}");
        }
    }
}

#[test]
fn output_of_other_tools_names_no_tests() {
    for (format, path) in recorded_reports() {
        let name = path.file_name().unwrap().to_string_lossy();
        let is_other = ["eslint", "ruff", "mypy", "clippy", "gcc", "tsc", "rustfmt", "flake8"]
            .iter()
            .any(|tool| name.starts_with(tool));
        if is_other && format != ReportFormat::Junit {
            let report = read_report(ReportFormat::Text, &read_bytes(&path), &complete_context());
            assert_eq!(report.cases, None, "{path:?}");
        }
    }
}

#[test]
fn names_from_a_part_of_the_output_are_incomplete() {
    let cut = ReportContext { extent: OutputExtent::Truncated { end: "" }, ..complete_context() };
    for file in ["text/names-cargo-test.txt", "text/names-jest-verbose.txt"] {
        let whole = read_recorded_report(ReportFormat::Text, file).cases.unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports").join(file);
        let part = read_report(ReportFormat::Text, &read_bytes(&path), &cut).cases.unwrap();
        assert!(whole.is_complete);
        assert_eq!(part, TestCases { is_complete: false, ..whole });
    }
}

#[test]
fn long_names_and_deep_groups_stay_bounded() {
    let long = "x".repeat(3_000);
    let mut tap = String::from("1..1\n");
    for depth in (0..32).rev() {
        tap.push_str(&format!("{}ok 1 - {long}{depth}\n", "    ".repeat(depth)));
    }
    let suites = format!("<testsuite name=\"{long}\">").repeat(90);
    let cases = "<testcase name=\"a\"/>".repeat(2_000);
    let junit = format!("{suites}{cases}{}", "</testsuite>".repeat(90));
    let python = format!(
        "=== test session starts ===\na.py::t[{long}] PASSED\na.py::t[{long}y] PASSED\n=== 2 passed in 1s ===\n"
    );
    for (format, text, number) in [
        (ReportFormat::Tap, tap, 1),
        (ReportFormat::Junit, junit, 1),
        (ReportFormat::Pytest, python, 2),
    ] {
        let report = read_report(format, text.as_bytes(), &complete_context());
        check_names(&report);
        assert_eq!(report.cases.unwrap().passed.len(), number, "{format:?}");
    }
}

#[test]
fn addresses_and_control_characters_are_removed() {
    let junit = "<testsuite name=\"s\"><testcase name=\"t[&lt;Cart at 0x7f3a5c1d2e80&gt;] at 0xff\u{202e}&#27;[31m&#10;x\" file=\"file:///project/a.py\"/></testsuite>";
    let report = read_report(ReportFormat::Junit, junit.as_bytes(), &complete_context());
    check_names(&report);
    assert_eq!(report.cases.unwrap().passed, ["a.py > s > t[<Cart at 0x…>] at 0xff x"]);
}

/// Lines of every runner, to be combined at random.
const FRAGMENTS: [&str; 40] = [
    "running 2 tests",
    "test a::b ... ok",
    "test a ... FAILED",
    "test a ... noise",
    "failures:",
    "test result: ok. 2 passed; 0 failed; 0 ignored",
    "     Running unittests src/lib.rs (target/debug/deps/shop-507999230d6984fa)",
    "   Doc-tests shop",
    "    Starting 2 tests across 1 binary",
    "        PASS [   0.010s] (1/5) shop tests::adds",
    "     Summary [   0.875s] 2 tests run: 2 passed, 0 skipped",
    "=== test session starts ===",
    "a.py::t PASSED [ 10%]",
    "a.py::t[ä ] SKIPPED (x) [ 10%]",
    "PASSED",
    "=== short test summary info ===",
    "FAILED a.py::t[ - ] - x",
    "SUBFAILED(i=1) a.py::t - x",
    "=== 1 passed in 0.1s ===",
    "test_a (m.C.test_a) ... ok",
    "  test_a (m.C.test_a) (i=1) ... FAIL",
    "======================================================================",
    "Ran 1 test in 0.1s",
    "=== RUN   TestA",
    "    --- PASS: TestA (0.00s)",
    "ok      a/b    0.01s",
    "PASS a.test.js",
    "  ✓ a › b (1 ms)",
    "  group",
    "  ● a › b",
    "Test Suites: 1 passed, 1 total",
    "Tests:       1 passed, 1 total",
    " RUN  v4.1.0 /project",
    " ✓ a.test.js > a 1ms",
    "      Tests  1 passed (1)",
    "  1 passing (1ms)",
    "▶ a",
    "✔ a (1ms) # TODO",
    "ℹ tests 1",
    "not ok 1 - a # time=1ms {",
];

proptest! {
    #[test]
    fn any_bytes_give_sound_names(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for &format in ReportFormat::ALL {
            check_names(&read_report(format, &bytes, &complete_context()));
        }
    }

    #[test]
    fn any_mixture_of_runners_gives_sound_names(
        lines in proptest::collection::vec((0..FRAGMENTS.len(), 0..3_usize, "\\PC{0,3}"), 0..40),
    ) {
        let mut text = String::new();
        for (fragment, indent, end) in lines {
            text.push_str(&"    ".repeat(indent));
            text.push_str(FRAGMENTS[fragment]);
            text.push_str(&end);
            text.push('\n');
        }
        for &format in ReportFormat::ALL {
            check_names(&read_report(format, text.as_bytes(), &complete_context()));
        }
    }
}
