use super::super::{
    FileProbe, OutputExtent, ReportContext, ReportFile, read_execution, read_report,
};
use ralph_core::gate::{ParsedReport, ReportFormat};
use ralph_core::line_set::LineSet;
use std::fmt::Write as _;
use std::path::Path;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/reports");

#[expect(clippy::disallowed_methods, reason = "reads a fixture")]
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{FIXTURES}/{name}")).unwrap()
}

fn read(format: ReportFormat, input: &[u8], files: &[&str]) -> ParsedReport {
    read_without(format, input, files, &[])
}

fn read_without(
    format: ReportFormat,
    input: &[u8],
    files: &[&str],
    excluded: &[&str],
) -> ParsedReport {
    let is_excluded = |path: &str| excluded.contains(&path);
    let is_excluded = Some(FileProbe(&is_excluded));
    let is_file = |path: &str| files.contains(&path);
    let root = Path::new("/project");
    let is_file = FileProbe(&is_file);
    read_report(
        format,
        input,
        &ReportContext { root, cwd: root, extent: OutputExtent::Complete, is_file, is_excluded },
    )
}

fn lines(set: &LineSet) -> String {
    serde_json::to_string(set).unwrap().trim_matches('"').to_string()
}

/// `6/9; a.py +1-3,5 -4; 1 unmatched`
fn shown(report: &ParsedReport) -> String {
    let coverage = report.coverage.as_deref().cloned().unwrap_or_default();
    let mut out = format!("{}/{}", coverage.covered, coverage.lines);
    for (path, file) in &coverage.files {
        write!(out, "; {path} +{} -{}", lines(&file.covered), lines(&file.missed)).unwrap();
    }
    if coverage.unmatched > 0 {
        write!(out, "; {} unmatched", coverage.unmatched).unwrap();
    }
    if let Some(doubt) = &report.doubt {
        write!(out, "; {doubt}").unwrap();
    }
    out
}

/// `coverage_exclude` applies to every condition, so excluded files are not even counted.
#[test]
fn excluded_files_do_not_count() {
    let input = fixture("lcov/coverage-py.lcov");
    let files = ["shop/__init__.py", "shop/cart.py", "shop/unused.py"];
    let read =
        |excluded: &[&str]| shown(&read_without(ReportFormat::Lcov, &input, &files, excluded));
    assert_eq!(read(&["shop/unused.py"]), "6/7; shop/cart.py +4-5,8-9,11-12 -10");
    assert_eq!(read(&["gen/a.py"]), "6/9; shop/cart.py +4-5,8-9,11-12 -10; shop/unused.py + -1-2");
    assert_eq!(read(&files), "0/0; `coverage_exclude` leaves no lines of the report");
}

/// The reports of real tools. The totals are those that the tools print themselves.
#[test]
fn reports_of_real_tools() {
    let python = ["shop/__init__.py", "shop/cart.py", "shop/unused.py"];
    let c = "15/21; cart.c +3-9,11-12,15-16 -13-14,18-21; test.c +3-6 -";
    let rows = [
        (
            ReportFormat::Lcov,
            "lcov/coverage-py.lcov",
            &python[..],
            "6/9; shop/cart.py +4-5,8-9,11-12 -10; shop/unused.py + -1-2",
        ),
        (
            ReportFormat::Cobertura,
            "cobertura/coverage-py.xml",
            &python,
            "6/9; shop/cart.py +4-5,8-9,11-12 -10; shop/unused.py + -1-2",
        ),
        (
            ReportFormat::Lcov,
            "lcov/node.lcov",
            &["cart.mjs", "cart.test.mjs"],
            "14/16; cart.mjs +1-6,9-10 -7-8; cart.test.mjs +1-6 -",
        ),
        (ReportFormat::Lcov, "lcov/c8.lcov", &["cart.mjs"], "8/10; cart.mjs +1-6,9-10 -7-8"),
        (
            ReportFormat::Cobertura,
            "cobertura/c8.xml",
            &["cart.mjs"],
            "8/10; cart.mjs +1-6,9-10 -7-8",
        ),
        // LLVM's own lines and those that follow from its segments.
        (ReportFormat::Lcov, "lcov/llvm-cov.lcov", &["cart.c", "test.c"], c),
        (ReportFormat::LlvmCov, "llvm-cov/clang.json", &["cart.c", "test.c"], c),
        (
            ReportFormat::GoCover,
            "go-cover/go.out",
            &["cart/cart.go"],
            "6/11; cart/cart.go +6-11 -15-19",
        ),
    ];
    for (format, name, files, expected) in rows {
        assert_eq!(shown(&read(format, &fixture(name), files)), expected, "{name}");
    }
}

/// A report of one format is never one of another, and half a report is not a report.
#[test]
fn a_report_that_is_not_one_is_doubtful() {
    let python = ["shop/cart.py"];
    let formats =
        [ReportFormat::Lcov, ReportFormat::Cobertura, ReportFormat::LlvmCov, ReportFormat::GoCover];
    let names =
        ["lcov/c8.lcov", "cobertura/coverage-py.xml", "llvm-cov/clang.json", "go-cover/go.out"];
    for (at, format) in formats.into_iter().enumerate() {
        for (other, name) in names.iter().enumerate().filter(|(other, _)| *other != at) {
            let report = read(format, &fixture(name), &["cart.mjs", "cart.c"]);
            assert!(report.doubt.is_some(), "{format:?} {other}");
        }
    }
    for (format, input, expected) in [
        (ReportFormat::Lcov, "", "0/0; the report is empty"),
        (ReportFormat::Lcov, "no such command\n", "0/0; the report cannot be parsed"),
        (
            ReportFormat::Lcov,
            "SF:shop/cart.py\nDA:1,1\n",
            "1/1; shop/cart.py +1 -; the report is truncated",
        ),
        (
            ReportFormat::Lcov,
            "SF:shop/cart.py\nDA:x,1\nend_of_record\n",
            "0/0; a line of the report cannot be parsed",
        ),
        (
            ReportFormat::Lcov,
            "TN:\nSF:shop/cart.py\nLF:0\nLH:0\nend_of_record\n",
            "0/0; the report has no lines that could be covered",
        ),
        (
            ReportFormat::Lcov,
            "SF:/usr/lib/python3/site-packages/shop/cart.py\nDA:1,1\nend_of_record\n",
            "0/0; 1 unmatched; the report names no file of the project; its first file is `/usr/lib/python3/site-packages/shop/cart.py`",
        ),
        (ReportFormat::Cobertura, "<coverage><packages/>", "0/0; the report is truncated"),
        (ReportFormat::Cobertura, "<testsuites/>", "0/0; the report cannot be parsed"),
        (
            ReportFormat::Cobertura,
            "<coverage/>",
            "0/0; the report has no lines that could be covered",
        ),
        (
            ReportFormat::LlvmCov,
            r#"{"data":[{"files":[{"filename":"/project/shop/cart.py","summary":{}}]}]}"#,
            "0/0; the report has only a summary; export it without `--summary-only`",
        ),
        (
            ReportFormat::LlvmCov,
            r#"{"data":[{"files":[{"filename":"/project/shop/cart.py","segments":[[9,1,1,true,true,false],[2,1,0,false,false,false]]}]}]}"#,
            "0/0; the report cannot be parsed",
        ),
        (
            ReportFormat::GoCover,
            "mode: set\n",
            "0/0; the report has no lines that could be covered",
        ),
        (ReportFormat::GoCover, "ok  \texample.com/shop\n", "0/0; the report cannot be parsed"),
        (
            ReportFormat::GoCover,
            "mode: set\nshop/cart.py:1.1,2.2 1\n",
            "0/0; a line of the report cannot be parsed",
        ),
    ] {
        assert_eq!(shown(&read(format, input.as_bytes(), &python)), expected, "{input}");
    }
}

/// The names in a report are hostile, and often those of another directory or machine.
#[test]
fn files_are_those_of_the_project() {
    let files = ["src/a.py", "lib/a.py", "main.go", "cart/cart.go", "setup.py"];
    for (name, expected) in [
        ("src/a.py", "src/a.py"),
        ("./src/../src/a.py", "src/a.py"),
        ("/project/src/a.py", "src/a.py"),
        ("file:///project/src/a.py", "src/a.py"),
        // A container, and a module of Go.
        ("/app/src/a.py", "src/a.py"),
        ("example.com/shop/cart/cart.go", "cart/cart.go"),
        ("example.com/shop/main.go", "main.go"),
        ("../src/a.py", "unmatched"),
        ("/project/../etc/passwd", "unmatched"),
        ("/etc/setup.py", "unmatched"),
        ("/usr/lib/site-packages/src/a.py", "unmatched"),
        ("node_modules/src/a.py", "unmatched"),
        ("src/missing.py", "unmatched"),
        ("src/\u{1b}[31ma.py", "unnamed"),
        ("", "unnamed"),
    ] {
        let input = format!("SF:{name}\nDA:3,1\nend_of_record\n");
        let report = read(ReportFormat::Lcov, input.as_bytes(), &files);
        let coverage = report.coverage.unwrap();
        let found = coverage.files.keys().next().cloned();
        let none = if coverage.unmatched == 1 { "unmatched" } else { "unnamed" };
        assert_eq!(found.as_deref().unwrap_or(none), expected, "{name}");
        assert_eq!(report.doubt.is_some(), found.is_none(), "{name}");
    }
    // Two that end alike are neither, and a file that is named exactly is not replaced by one of them.
    let input = "SF:/a/src/a.py\nDA:1,1\nend_of_record\nSF:/b/src/a.py\nDA:2,1\nend_of_record\nSF:lib/a.py\nDA:1,0\nend_of_record\nSF:/c/lib/a.py\nDA:1,1\nend_of_record\n";
    let report = read(ReportFormat::Lcov, input.as_bytes(), &files);
    assert_eq!(shown(&report), "0/1; lib/a.py + -1; 3 unmatched");
}

/// Tests of several suites cover a file together, and a line that is run once is covered.
#[test]
fn records_of_one_file_add_up() {
    let input = "SF:src/a.py\nDA:1,0\nDA:2,0\nend_of_record\nSF:/project/src/a.py\nDA:2,3\nDA:4,1e3\nDA:5,-1\nend_of_record\n";
    let report = read(ReportFormat::Lcov, input.as_bytes(), &["src/a.py"]);
    assert_eq!(shown(&report), "2/4; src/a.py +2,4 -1,5");
    let files = [
        fixture("go-cover/go.out"),
        b"mode: set\nexample.com/shop/cart/cart.go:15.2,17.3 1 1\n".to_vec(),
    ];
    let is_file = |path: &str| path == "cart/cart.go";
    let root = Path::new("/project");
    let context = ReportContext {
        root,
        cwd: root,
        extent: OutputExtent::Complete,
        is_file: FileProbe(&is_file),
        is_excluded: None,
    };
    let report =
        read_execution(ReportFormat::GoCover, ReportFile::Several(&files), b"ok\n", &context);
    assert_eq!(shown(&report), "9/11; cart/cart.go +6-11,15-17 -18-19");
}

/// A number that no file reaches does not become a list of as many lines.
#[test]
fn lines_beyond_any_file_cost_nothing() {
    let segments = r#"{"data":[{"files":[{"filename":"a.c","segments":[[1,1,5,true,true,false],[9999999,1,0,false,false,false]]}]}]}"#;
    let report = read(ReportFormat::LlvmCov, segments.as_bytes(), &["a.c"]);
    assert_eq!(shown(&report), "9999999/9999999; a.c +1-9999999 -");
    let input = "SF:a.c\nDA:1,1\nDA:4294967295,1\nend_of_record\n";
    assert_eq!(shown(&read(ReportFormat::Lcov, input.as_bytes(), &["a.c"])), "1/1; a.c +1 -");
}

/// The runner's output says which tests failed; the report cannot.
#[test]
fn the_output_of_the_tests_is_read_too() {
    let root = Path::new("/project");
    let context = ReportContext {
        root,
        cwd: root,
        extent: OutputExtent::Complete,
        is_file: FileProbe::default(),
        is_excluded: None,
    };
    let output =
        b"FAILED tests/test_cart.py::test_total - assert 1 == 2\n1 failed, 1 passed in 0.02s\n";
    let bytes = fixture("lcov/coverage-py.lcov");
    let report = read_execution(ReportFormat::Lcov, ReportFile::Written(&bytes), output, &context);
    assert_eq!(report.tests.map(|tests| (tests.run, tests.failed)), Some((2, 1)));
    assert_eq!(report.coverage.map(|coverage| coverage.lines), Some(9));
}
