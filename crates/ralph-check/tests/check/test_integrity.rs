//! Changes that weaken tests, and similar changes that do not.

use ralph_check::{FileChange, test_integrity, tool_settings};
use ralph_core::requirement::{Finding, FindingSeverity};
use std::fmt::Write;

pub(super) type TestChange = (&'static str, Option<&'static str>, Option<&'static str>);

pub(super) fn edited(path: &'static str, before: &'static str, after: &'static str) -> TestChange {
    (path, Some(before), Some(after))
}

fn deleted(path: &'static str, before: &'static str) -> TestChange {
    (path, Some(before), None)
}

pub(super) fn added(path: &'static str, after: &'static str) -> TestChange {
    (path, None, Some(after))
}

fn show_findings(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let place = finding.place.as_ref().unwrap();
        let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
        let severity = match finding.severity {
            FindingSeverity::Error => "",
            FindingSeverity::Warning => "warning: ",
            FindingSeverity::Note => "note: ",
        };
        let rule = finding.rule.as_deref().unwrap();
        writeln!(out, "    {}{line} {rule}: {severity}{}", place.file, finding.message).unwrap();
    }
    if findings.is_empty() {
        out.push_str("    fine\n");
    }
    out
}

fn check_rows(
    rows: &[(&str, &[TestChange])],
    check: &dyn Fn(&[FileChange<'_>]) -> Vec<Finding>,
) -> String {
    let mut out = String::new();
    for (what, changes) in rows {
        let changes: Vec<_> = changes
            .iter()
            .map(|(path, before, after)| FileChange {
                path,
                before: *before,
                after: *after,
                added: &[],
            })
            .collect();
        writeln!(out, "{what}").unwrap();
        out.push_str(&show_findings(&check(&changes)));
    }
    out
}

pub(super) fn check_all_tests(rows: &[(&str, &[TestChange])]) -> String {
    check_rows(rows, &|changes| {
        test_integrity::check_tests(changes, &|path| path.starts_with("checks/"))
    })
}

pub(super) fn check_all_settings(rows: &[(&str, &[TestChange])]) -> String {
    check_rows(rows, &tool_settings::check_settings)
}

const RUST: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        let sum = add(1, 2);\n        assert_eq!(sum, 3);\n        assert!(sum > 0);\n    }\n\n    #[tokio::test]\n    async fn fetches() {\n        let page = fetch().await;\n        assert_eq!(page.len(), 7);\n    }\n}\n";

/// R-S5a: removed, skipped and weakened tests are detected in Rust.
#[test]
fn weakened_rust_tests_are_detected() {
    insta::assert_snapshot!(check_all_tests(&[
        ("nothing", &[edited("src/a.rs", RUST, RUST)]),
        ("a test is deleted", &[edited("src/a.rs", RUST, "#[cfg(test)]\nmod tests {\n    #[tokio::test]\n    async fn fetches() {\n        let page = fetch().await;\n        assert_eq!(page.len(), 7);\n    }\n}\n")]),
        ("a test is ignored", &[edited("src/a.rs", "#[test]\nfn adds() { assert!(add()); }", "#[test]\n#[ignore = \"flaky\"]\nfn adds() { assert!(add()); }")]),
        ("a test is ignored on one system", &[edited("src/a.rs", "#[test]\nfn adds() { assert!(add()); }", "#[test]\n#[cfg_attr(windows, ignore)]\nfn adds() { assert!(add()); }")]),
        ("the attribute is removed", &[edited("src/a.rs", "#[test]\nfn adds() { assert!(add()); }", "fn adds() { assert!(add()); }")]),
        ("the module is compiled out", &[edited("src/a.rs", "#[cfg(test)]\nmod tests { #[test]\nfn adds() { assert!(add()); } }", "#[cfg(any())]\nmod tests { #[test]\nfn adds() { assert!(add()); } }")]),
        ("the module needs a feature that does not exist", &[edited("src/a.rs", "#[cfg(test)]\nmod tests { #[test]\nfn adds() { assert!(add()); } }", "#[cfg(all(test, feature = \"never\"))]\nmod tests { #[test]\nfn adds() { assert!(add()); } }")]),
        ("an assertion is deleted", &[edited("src/a.rs", "#[test]\nfn adds() { let s = add();\nassert_eq!(s, 3);\nassert!(s > 0); }", "#[test]\nfn adds() { let s = add();\nassert!(s > 0); }")]),
        ("an assertion becomes trivial", &[edited("src/a.rs", "#[test]\nfn adds() { assert_eq!(add(), 3); }", "#[test]\nfn adds() { add(); assert!(true); }")]),
        ("a panic is no longer expected", &[edited("src/a.rs", "#[test]\n#[should_panic]\nfn adds() { add(); }", "#[test]\nfn adds() { let _ = add(); }")]),
        ("a case is dropped", &[edited("src/a.rs", "#[rstest]\n#[case(1)]\n#[case(2)]\nfn adds(#[case] n: u8) { assert!(add(n)); }", "#[rstest]\n#[case(1)]\nfn adds(#[case] n: u8) { assert!(add(n)); }")]),
        ("it returns at once", &[edited("src/a.rs", "#[test]\nfn adds() { assert!(add()); }", "#[test]\nfn adds() {\n    return;\n    assert!(add());\n}")]),
        ("it is commented out", &[edited("src/a.rs", "#[test]\nfn adds() { assert!(add()); }", "// #[test]\n// fn adds() { assert!(add()); }")]),
        ("a panic is caught", &[edited("src/a.rs", "#[test]\nfn adds() { assert!(add()); }", "#[test]\nfn adds() { let _ = std::panic::catch_unwind(|| { assert!(add()); }); }")]),
        ("a file is deleted", &[deleted("tests/a.rs", RUST)]),
        ("a file is put away", &[deleted("tests/a.rs", RUST), added("tests/a.rs.disabled", RUST)]),
        ("a module is no longer declared", &[edited("tests/it/main.rs", "mod a;\nmod b;\n", "mod a;\n// mod b;\n")]),
    ]), @r#"
    nothing
        fine
    a test is deleted
        src/a.rs test-removed: `tests::adds` was removed: no test in the change has its name or body
    a test is ignored
        src/a.rs:3 test-skipped: `adds` no longer runs or counts: `#[ignore]`
    a test is ignored on one system
        src/a.rs:3 test-conditional: warning: `adds` no longer always runs: `#[cfg_attr(windows, ignore)]`
    the attribute is removed
        src/a.rs test-removed: `adds` was removed: no test in the change has its name or body
    the module is compiled out
        src/a.rs:3 test-skipped: `tests::adds` no longer runs or counts: `#[cfg(any())]`
    the module needs a feature that does not exist
        src/a.rs:3 test-skipped: `tests::adds` no longer runs or counts: `#[cfg(all(test, feature = "never"))]`
    an assertion is deleted
        src/a.rs:2 assertions-removed: `adds` makes 1 assertion, down from 2
    an assertion becomes trivial
        src/a.rs:2 test-emptied: `adds` makes no assertions, down from 1
    a panic is no longer expected
        src/a.rs:2 expectation-changed: warning: `adds` no longer expects a panic
    a case is dropped
        src/a.rs:3 cases-dropped: warning: `adds` has 2 cases, down from 3
    it returns at once
        src/a.rs:2 test-emptied: `adds` returns before it tests anything
    it is commented out
        src/a.rs:2 test-commented-out: `adds` is commented out
    a panic is caught
        src/a.rs:2 failure-swallowed: `adds` catches its own failures and ignores them
    a file is deleted
        tests/a.rs test-file-removed: was deleted with 2 tests: `tests::adds`, `tests::fetches`
    a file is put away
        tests/a.rs test-file-renamed: was renamed to `tests/a.rs.disabled`, where no test runner looks for its 2 tests: `tests::adds`, `tests::fetches`
    a module is no longer declared
        tests/it/main.rs collection-narrowed: `mod b;` was removed: its tests are no longer compiled
    "#);
}

#[test]
fn harmless_rust_changes_are_accepted() {
    insta::assert_snapshot!(check_all_tests(&[
        ("a file is moved", &[deleted("tests/a.rs", RUST), added("tests/it/a.rs", RUST)]),
        ("a test is moved to another file", &[edited("src/a.rs", RUST, "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        let sum = add(1, 2);\n        assert_eq!(sum, 3);\n        assert!(sum > 0);\n    }\n}\n"), added("src/b.rs", "#[tokio::test]\nasync fn fetches() {\n    let page = fetch().await;\n    assert_eq!(page.len(), 7);\n}\n")]),
        ("a test is renamed", &[edited("src/a.rs", "#[test]\nfn adds() { let sum = add(1, 2); assert_eq!(sum, 3); }", "#[test]\nfn adds_two_numbers() {\n    let sum = add(1, 2);\n    assert_eq!(sum, 3);\n}")]),
        ("a test is renamed and changed", &[edited("src/a.rs", "#[test]\nfn adds() {\n    let a = make(1);\n    let b = make(2);\n    let sum = add(a, b);\n    assert_eq!(sum, 3);\n}", "#[test]\nfn sums() {\n    let a = make(1);\n    let b = make(2);\n    let sum = sum_of(a, b);\n    assert_eq!(sum, 3);\n}")]),
        ("a test is split", &[edited("src/a.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1), 3);\n    assert_eq!(add(2), 4);\n}", "#[test]\nfn adds() {\n    assert_eq!(add(1), 3);\n}\n#[test]\nfn adds_two() {\n    assert_eq!(add(2), 4);\n}")]),
        ("assertions go into a helper", &[edited("src/a.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1), 3);\n}\n#[test]\nfn takes() {\n    assert_eq!(take(1), 3);\n}", "fn gives(a: u8, b: u8) {\n    assert_eq!(a, b);\n}\n#[test]\nfn adds() {\n    gives(add(1), 3);\n}\n#[test]\nfn takes() {\n    gives(take(1), 3);\n}")]),
        ("a test was ignored already", &[edited("src/a.rs", "#[test]\n#[ignore]\nfn adds() { assert!(add()); }", "#[test]\n#[ignore = \"needs a network\"]\nfn adds() { assert!(add()); }")]),
        ("an ignored test comes back", &[edited("src/a.rs", "#[test]\n#[ignore]\nfn adds() { assert!(add()); }", "#[test]\nfn adds() { assert!(add()); }")]),
        ("a module and its file are deleted together", &[edited("tests/it/main.rs", "mod a;\nmod b;\n", "mod a;\n"), deleted("tests/it/b.rs", "fn no_tests_in_it() {}\n")]),
        ("words in strings", &[edited("src/a.rs", "const A: &str = \"#[test] fn adds() {}\";", "const A: &str = \"\";")]),
    ]), @"
    a file is moved
        fine
    a test is moved to another file
        fine
    a test is renamed
        fine
    a test is renamed and changed
        fine
    a test is split
        fine
    assertions go into a helper
        fine
    a test was ignored already
        fine
    an ignored test comes back
        fine
    a module and its file are deleted together
        fine
    words in strings
        fine
    ");
}

/// R-S5a: the same in JavaScript and TypeScript.
#[test]
fn weakened_javascript_tests_are_detected() {
    insta::assert_snapshot!(check_all_tests(&[
        ("a test is deleted", &[edited("a.test.ts", "describe('sum', () => { it('adds', () => { expect(add(1, 2)).toBe(3) })\n it('takes', () => { expect(take(1)).toBe(3) }) })", "describe('sum', () => { it('takes', () => { expect(take(1)).toBe(3) }) })")]),
        ("a test is skipped", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it.skip('adds', () => { expect(a).toBe(3) })")]),
        ("a suite is skipped", &[edited("a.test.ts", "describe('sum', () => { it('adds', () => { expect(a).toBe(3) }) })", "xdescribe('sum', () => { it('adds', () => { expect(a).toBe(3) }) })")]),
        ("it becomes a todo", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it.todo('adds')")]),
        ("it may fail", &[edited("a.test.ts", "test('adds', () => { expect(a).toBe(3) })", "test.failing('adds', () => { expect(a).toBe(3) })")]),
        ("one is focused", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it.only('adds', () => { expect(a).toBe(3) })")]),
        ("a suite is focused", &[edited("a.test.ts", "describe('sum', () => { it('adds', () => { expect(a).toBe(3) }) })", "describe.only('sum', () => { it('adds', () => { expect(a).toBe(3) }) })")]),
        ("an expectation is deleted", &[edited("a.test.ts", "it('adds', () => {\n expect(a).toBe(3)\n expect(b).toBe(4)\n})", "it('adds', () => {\n expect(a).toBe(3)\n})")]),
        ("an expectation becomes trivial", &[edited("a.test.ts", "it('adds', async () => { expect(await add()).toBe(3) })", "it('adds', async () => { await add(); expect(true).toBe(true) })")]),
        ("it is emptied", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it('adds', () => {})")]),
        ("it returns at once", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it('adds', () => {\n  return\n  expect(a).toBe(3) })")]),
        ("failures are swallowed", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it('adds', () => { try { expect(a).toBe(3) } catch (e) { /* flaky */ } })")]),
        ("it is commented out", &[edited("a.test.ts", "it('adds numbers', () => { expect(a).toBe(3) })\nit('b', f)", "// it('adds numbers', () => { expect(a).toBe(3) })\nit('b', f)")]),
        ("a file is deleted", &[deleted("src/a.test.ts", "it('adds', () => { expect(a).toBe(3) })\nit('takes', () => { expect(b).toBe(3) })")]),
        ("a file is put away", &[deleted("src/a.test.ts", "it('adds', () => {\n expect(a).toBe(3)\n})"), added("src/a.test.ts.bak", "it('adds', () => {\n expect(a).toBe(3)\n})")]),
        ("a table of cases is skipped", &[edited("a.test.ts", "it.each([[1, 2]])('adds %d', (a) => { expect(a).toBe(3) })", "it.skip.each([[1, 2]])('adds %d', (a) => { expect(a).toBe(3) })")]),
        ("snapshots go", &[edited("__snapshots__/a.snap", "exports[`a 1`] = `x`;\nexports[`b 1`] = `y`;\n", "exports[`a 1`] = `x`;\n"), deleted("b.snap", "exports[`a 1`] = `x`;")]),
    ]), @"
    a test is deleted
        a.test.ts test-removed: `sum > adds` was removed: no test in the change has its name or body
    a test is skipped
        a.test.ts:1 test-skipped: `adds` no longer runs or counts: `it.skip`
    a suite is skipped
        a.test.ts:1 test-skipped: `sum > adds` no longer runs or counts: `xdescribe`
    it becomes a todo
        a.test.ts:1 test-emptied: `adds` makes no assertions, down from 1
        a.test.ts:1 test-skipped: `adds` no longer runs or counts: `it.todo`
    it may fail
        a.test.ts:1 test-skipped: `adds` no longer runs or counts: `test.failing`
    one is focused
        a.test.ts:1 test-focused: `.only` on `adds` excludes every other test
    a suite is focused
        a.test.ts:1 test-focused: `.only` on `sum` excludes every other test
    an expectation is deleted
        a.test.ts:1 assertions-removed: `adds` makes 1 assertion, down from 2
    an expectation becomes trivial
        a.test.ts:1 test-emptied: `adds` makes no assertions, down from 1
    it is emptied
        a.test.ts:1 test-emptied: `adds` makes no assertions, down from 1
    it returns at once
        a.test.ts:1 test-emptied: `adds` returns before it tests anything
    failures are swallowed
        a.test.ts:1 failure-swallowed: `adds` catches its own failures and ignores them
    it is commented out
        a.test.ts:1 test-commented-out: `adds numbers` is commented out
    a file is deleted
        src/a.test.ts test-file-removed: was deleted with 2 tests: `adds`, `takes`
    a file is put away
        src/a.test.ts test-file-renamed: was renamed to `src/a.test.ts.bak`, where no test runner looks for its 1 test: `adds`
    a table of cases is skipped
        a.test.ts:1 test-skipped: `adds %d` no longer runs or counts: `it.skip`
    snapshots go
        __snapshots__/a.snap snapshot-changed: warning: recorded expectations fell from 2 to 1
        b.snap snapshot-changed: warning: the recorded expectations were deleted
    ");
}

#[test]
fn harmless_javascript_changes_are_accepted() {
    insta::assert_snapshot!(check_all_tests(&[
        ("a suite is renamed", &[edited("a.test.ts", "describe('sum', () => { it('adds', () => { expect(add(1, 2)).toBe(3) }) })", "describe('Sum', () => { it('adds', () => { expect(add(1, 2)).toBe(3) }) })")]),
        ("a file is moved", &[deleted("a.test.ts", "it('adds', () => { expect(a).toBe(3) })"), added("src/a.spec.ts", "it('adds', () => { expect(a).toBe(3) })")]),
        ("a test is formatted", &[edited("a.test.ts", "it('adds', () => { expect(a).toBe(3) })", "it(\"adds\", () => {\n  // three\n  expect(a).toBe(3);\n});\n")]),
        ("a regular expression is tried", &[edited("src/a.ts", "if (/a/.test(b)) { it(c) }", "")]),
        ("no test file", &[edited("src/a.ts", "test('adds', f)", "")]),
        ("a template names a test", &[edited("a.test.ts", "it(`adds ${n}`, () => { expect(a).toBe(3) })", "it(`adds ${n}`, () => { expect(a).toBe(3); expect(b).toBe(4) })")]),
        ("a focus was there", &[edited("a.test.ts", "it.only('adds', () => { expect(a).toBe(3) })", "it.only('adds', () => { expect(a).toBe(3); expect(b).toBe(3) })")]),
    ]), @"
    a suite is renamed
        fine
    a file is moved
        fine
    a test is formatted
        fine
    a regular expression is tried
        fine
    no test file
        fine
    a template names a test
        fine
    a focus was there
        fine
    ");
}

/// R-S5a: the same in Python.
#[test]
fn weakened_python_tests_are_detected() {
    insta::assert_snapshot!(check_all_tests(&[
        ("a test is deleted", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n\ndef test_takes():\n    assert take(1) == 0\n", "def test_takes():\n    assert take(1) == 0\n")]),
        ("a test is no longer one", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def check_adds():\n    assert add(1) == 2\n")]),
        ("a test is skipped", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "@pytest.mark.skip(reason=\"flaky\")\ndef test_adds():\n    assert add(1) == 2\n")]),
        ("a test may fail", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "@pytest.mark.xfail\ndef test_adds():\n    assert add(1) == 2\n")]),
        ("a test skips itself", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    pytest.skip('later')\n    assert add(1) == 2\n")]),
        ("a test skips itself sometimes", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    if not docker():\n        pytest.skip('no docker')\n    assert add(1) == 2\n")]),
        ("all of a file is skipped", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "pytestmark = pytest.mark.skip\ndef test_adds():\n    assert add(1) == 2\n")]),
        ("a class is no longer collected", &[edited("test_a.py", "class TestSum:\n    def test_adds(self):\n        assert add(1) == 2\n", "class Sum:\n    def test_adds(self):\n        assert add(1) == 2\n")]),
        ("a class opts out", &[edited("test_a.py", "class TestSum:\n    def test_adds(self):\n        assert add(1) == 2\n", "class TestSum:\n    __test__ = False\n    def test_adds(self):\n        assert add(1) == 2\n")]),
        ("assertions are deleted", &[edited("test_a.py", "class A(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n        with self.assertRaises(E):\n            add(None)\n", "class A(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n")]),
        ("an assertion becomes trivial", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    add(1)\n    assert True  # for the linter\n")]),
        ("an assertion always holds", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    assert add(1) == 2 or True\n")]),
        ("failures are swallowed", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    try:\n        assert add(1) == 2\n    except AssertionError:\n        pass\n")]),
        ("it returns at once", &[edited("test_a.py", "def test_adds():\n    \"\"\"Adds.\"\"\"\n    assert add(1) == 2\n", "def test_adds():\n    \"\"\"Adds.\"\"\"\n    return\n    assert add(1) == 2\n")]),
        ("it is commented out", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "# def test_adds():\n#     assert add(1) == 2\n")]),
        ("a file is put away", &[deleted("test_x.py", "def test_adds():\n    assert add(1) == 2\n"), added("x_old.py", "def test_adds():\n    assert add(1) == 2\n")]),
        ("collection is narrowed", &[edited("conftest.py", "import os\n", "import os\ncollect_ignore = [\"test_a.py\"]\ndef pytest_collection_modifyitems(items):\n    items.clear()\n")]),
        ("a test file by policy", &[edited("checks/a.py", "def test_adds():\n    assert add(1) == 2\n", "")]),
    ]), @"
    a test is deleted
        test_a.py test-removed: `test_adds` was removed: no test in the change has its name or body
    a test is no longer one
        test_a.py test-removed: `test_adds` was removed: no test in the change has its name or body
    a test is skipped
        test_a.py:2 test-skipped: `test_adds` no longer runs or counts: `@pytest.mark.skip`
    a test may fail
        test_a.py:2 test-skipped: `test_adds` no longer runs or counts: `@pytest.mark.xfail`
    a test skips itself
        test_a.py:1 test-skipped: `test_adds` no longer runs or counts: `pytest.skip`
    a test skips itself sometimes
        test_a.py:1 test-conditional: warning: `test_adds` no longer always runs: `pytest.skip`
    all of a file is skipped
        test_a.py:2 test-skipped: `test_adds` no longer runs or counts: `pytestmark = pytest.mark.skip`
    a class is no longer collected
        test_a.py:2 test-skipped: `Sum.test_adds` no longer runs or counts: `class Sum`
    a class opts out
        test_a.py:3 test-skipped: `TestSum.test_adds` no longer runs or counts: `__test__ = False`
    assertions are deleted
        test_a.py:2 assertions-removed: `A.test_adds` makes 1 assertion, down from 2
    an assertion becomes trivial
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    an assertion always holds
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    failures are swallowed
        test_a.py:1 failure-swallowed: `test_adds` catches its own failures and ignores them
    it returns at once
        test_a.py:1 test-emptied: `test_adds` returns before it tests anything
    it is commented out
        test_a.py:1 test-commented-out: `test_adds` is commented out
    a file is put away
        test_x.py test-file-renamed: was renamed to `x_old.py`, where no test runner looks for its 1 test: `test_adds`
    collection is narrowed
        conftest.py:2 collection-narrowed: `collect_ignore` is new: it can keep tests from being collected
        conftest.py:3 collection-narrowed: `pytest_collection_modifyitems` is new: it can keep tests from being collected
    a test file by policy
        checks/a.py test-removed: `test_adds` was removed: no test in the change has its name or body
    ");
}

#[test]
fn harmless_python_changes_are_accepted() {
    insta::assert_snapshot!(check_all_tests(&[
        ("a test moves into a class", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "class TestSum:\n    def test_adds(self):\n        assert add(1) == 2\n")]),
        ("a file is moved", &[deleted("test_a.py", "def test_adds():\n    assert add(1) == 2\n"), added("tests/test_b.py", "def test_adds():\n    assert add(1) == 2\n")]),
        ("parameters over lines", &[edited("test_a.py", "def test_adds(\n    a,\n    b,\n):\n    assert add(a) == b\n    assert b\n", "def test_adds(a, b):\n    assert add(a) == b\n    assert b\n")]),
        ("text at the margin", &[edited("test_a.py", "def test_adds():\n    a = \"\"\"\nx\n\"\"\"\n    assert a\n", "def test_adds():\n    a = \"\"\"\ny\n\"\"\"\n    assert a\n    assert a[0]\n")]),
        ("a helper with a like name", &[edited("util.py", "def test_adds():\n    assert 1\n", "")]),
        ("a condition was there", &[edited("test_a.py", "@pytest.mark.skipif(WIN, reason='x')\ndef test_adds():\n    assert add(1)\n", "@pytest.mark.skipif(WINDOWS, reason='x')\ndef test_adds():\n    assert add(1)\n")]),
    ]), @"
    a test moves into a class
        fine
    a file is moved
        fine
    parameters over lines
        fine
    text at the margin
        fine
    a helper with a like name
        fine
    a condition was there
        fine
    ");
}

/// R-S5a: the same in Go and Java.
#[test]
fn weakened_go_and_java_tests_are_detected() {
    insta::assert_snapshot!(check_all_tests(&[
        ("go: a test is deleted", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\tif add(1) != 2 {\n\t\tt.Fatal(\"no\")\n\t}\n}\n", "package a\n")]),
        ("go: a test is skipped", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\trequire.Equal(t, add(1), 2)\n}\n", "func TestAdd(t *testing.T) {\n\tt.Skip(\"flaky\")\n\trequire.Equal(t, add(1), 2)\n}\n")]),
        ("go: a test is sometimes skipped", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\trequire.Equal(t, add(1), 2)\n}\n", "func TestAdd(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip(\"slow\")\n\t}\n\trequire.Equal(t, add(1), 2)\n}\n")]),
        ("go: a file is left out", &[edited("a_test.go", "package a\nfunc TestAdd(t *testing.T) {\n\trequire.Equal(t, add(1), 2)\n}\n", "//go:build ignore\n\npackage a\nfunc TestAdd(t *testing.T) {\n\trequire.Equal(t, add(1), 2)\n}\n")]),
        ("go: a check is deleted", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\tassert.Equal(t, add(1), 2)\n\tassert.NoError(t, err)\n}\n", "func TestAdd(t *testing.T) {\n\tassert.NoError(t, err)\n}\n")]),
        ("go: a check becomes trivial", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\tassert.Equal(t, add(1), 2)\n}\n", "func TestAdd(t *testing.T) {\n\tassert.True(t, true)\n}\n")]),
        ("go: a name that is not collected", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\tt.Error(add(1))\n}\n", "func testAdd(t *testing.T) {\n\tt.Error(add(1))\n}\n")]),
        ("go: renamed is fine", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\trequire.Equal(t, add(1), 2)\n}\n", "func TestAddition(t *testing.T) {\n\trequire.Equal(t, add(1), 2)\n}\n")]),
        ("java: a test is deleted", &[edited("src/test/java/ATest.java", "class ATest {\n @Test void adds() { assertEquals(3, add(1)); }\n @Test void takes() { assertEquals(3, take(1)); }\n}", "class ATest {\n @Test void takes() { assertEquals(3, take(1)); }\n}")]),
        ("java: a test is disabled", &[edited("src/test/java/ATest.java", "class ATest {\n @Test void adds() { assertEquals(3, add(1)); }\n}", "class ATest {\n @Disabled(\"flaky\") @Test void adds() { assertEquals(3, add(1)); }\n}")]),
        ("java: a class is disabled", &[edited("src/test/java/ATest.java", "class ATest {\n @Test void adds() { assertEquals(3, add(1)); }\n}", "@Disabled\nclass ATest {\n @Test void adds() { assertEquals(3, add(1)); }\n}")]),
        ("java: the annotation is removed", &[edited("src/test/java/ATest.java", "class ATest {\n @Test public void adds() { assertEquals(3, add(1)); }\n}", "class ATest {\n public void adds() { assertEquals(3, add(1)); }\n}")]),
        ("java: an assertion is deleted", &[edited("src/test/java/ATest.java", "class ATest {\n @ParameterizedTest @ValueSource(ints = {1}) void adds(int a) {\n assertThat(a).isEqualTo(3);\n verify(mock).call();\n } }", "class ATest {\n @ParameterizedTest @ValueSource(ints = {1}) void adds(int a) {\n verify(mock).call();\n } }")]),
        ("java: failures are swallowed", &[edited("src/test/java/ATest.java", "class ATest {\n @Test void adds() { assertEquals(3, add(1)); }\n}", "class ATest {\n @Test void adds() { try { assertEquals(3, add(1)); } catch (Throwable t) { } }\n}")]),
        ("java: a field's annotation is its own", &[edited("src/test/java/ATest.java", "class ATest {\n @Ignore String a;\n @Test void adds() { assertEquals(3, add(1)); }\n}", "class ATest {\n @Ignore String a;\n @Test void adds() { assertEquals(3, add(1)); assertTrue(b); }\n}")]),
        ("kotlin: a test is ignored", &[edited("src/test/kotlin/ATest.kt", "class ATest {\n @Test fun adds() = runTest { assertEquals(3, add(1)) }\n}", "class ATest {\n @Ignore @Test fun adds() = runTest { assertEquals(3, add(1)) }\n}")]),
    ]), @"
    go: a test is deleted
        a_test.go test-removed: `TestAdd` was removed: no test in the change has its name or body
    go: a test is skipped
        a_test.go:1 test-skipped: `TestAdd` no longer runs or counts: `t.Skip`
    go: a test is sometimes skipped
        a_test.go:1 test-conditional: warning: `TestAdd` no longer always runs: `t.Skip`
    go: a file is left out
        a_test.go:4 test-skipped: `TestAdd` no longer runs or counts: `//go:build ignore`
    go: a check is deleted
        a_test.go:1 assertions-removed: `TestAdd` makes 1 assertion, down from 2
    go: a check becomes trivial
        a_test.go:1 test-emptied: `TestAdd` makes no assertions, down from 1
    go: a name that is not collected
        a_test.go test-removed: `TestAdd` was removed: no test in the change has its name or body
    go: renamed is fine
        fine
    java: a test is deleted
        src/test/java/ATest.java test-removed: `ATest.adds` was removed: no test in the change has its name or body
    java: a test is disabled
        src/test/java/ATest.java:2 test-skipped: `ATest.adds` no longer runs or counts: `@Disabled`
    java: a class is disabled
        src/test/java/ATest.java:3 test-skipped: `ATest.adds` no longer runs or counts: `@Disabled`
    java: the annotation is removed
        src/test/java/ATest.java test-removed: `ATest.adds` was removed: no test in the change has its name or body
    java: an assertion is deleted
        src/test/java/ATest.java:2 assertions-removed: `ATest.adds` makes 1 assertion, down from 2
    java: failures are swallowed
        src/test/java/ATest.java:2 failure-swallowed: `ATest.adds` catches its own failures and ignores them
    java: a field's annotation is its own
        fine
    kotlin: a test is ignored
        src/test/kotlin/ATest.kt:2 test-skipped: `ATest.adds` no longer runs or counts: `@Ignore`
    ");
}

/// R-S5a: commands that can no longer fail or that select fewer tests are detected.
#[test]
fn weakened_commands_are_detected() {
    insta::assert_snapshot!(check_all_settings(&[
        ("a script forgives", &[edited("package.json", "{\"scripts\": {\n  \"test\": \"jest\"\n}}", "{\"scripts\": {\n  \"test\": \"jest || true\"\n}}")]),
        ("no tests are fine", &[edited("package.json", "{\"scripts\": {\n  \"test\": \"jest\"\n}}", "{\"scripts\": {\n  \"test\": \"jest --passWithNoTests\"\n}}")]),
        ("a script does nothing", &[edited("package.json", "{\"scripts\": {\n  \"test\": \"jest\"\n}}", "{\"scripts\": {\n  \"test\": \"echo ok\"\n}}")]),
        ("a script is gone", &[edited("package.json", "{\"scripts\": {\n  \"lint\": \"eslint .\"\n}}", "{\"scripts\": {}}")]),
        ("all scripts are gone", &[edited("package.json", "{\"scripts\": {\n  \"lint\": \"eslint .\"\n}}", "{}")]),
        ("make forgives", &[edited("Makefile", "test:\n\tpytest\n", "test:\n\tpytest || :\n")]),
        ("make forgives at the end", &[edited("Makefile", "test:\n\tcargo test\n", "test:\n\tcargo test; true\n")]),
        ("a step may fail", &[edited(".github/workflows/ci.yml", "- run: npm test\n", "- run: npm test\n  continue-on-error: true\n")]),
        ("a job ends well", &[edited(".github/workflows/ci.yml", "run: |\n  npm test\n", "run: |\n  set +e\n  npm test\n  exit 0\n")]),
        ("tests are deselected", &[edited("tox.ini", "[testenv]\ncommands = pytest tests\n", "[testenv]\ncommands = pytest tests --deselect tests/test_a.py::test_b\n")]),
        ("tests are picked", &[edited("justfile", "test:\n  cargo test --workspace\n", "test:\n  cargo test --workspace -- --skip slow\n")]),
        ("go tests are picked", &[edited("Makefile", "test:\n\tgo test ./...\n", "test:\n\tgo test ./... -run TestFast\n")]),
        ("one file is left", &[edited("ralph.toml", "run = [\"pytest\", \"-q\"]\n", "run = [\"pytest\", \"-q\", \"tests/test_a.py\"]\n")]),
        ("lint forgives", &[edited(".gitlab-ci.yml", "script:\n  - ruff check .\n", "script:\n  - ruff check . --exit-zero\n")]),
    ]), @r#"
    a script forgives
        package.json:2 check-ignored: `|| true` hides failures: was `"test": "jest"`, now `"test": "jest || true"`
    no tests are fine
        package.json:2 check-ignored: `--passWithNoTests` hides failures: was `"test": "jest"`, now `"test": "jest --passWithNoTests"`
    a script does nothing
        package.json:2 check-ignored: script `test` checks nothing: was `jest`, now `echo ok`
    a script is gone
        package.json:1 check-ignored: script `lint` was removed: it was `eslint .`
    all scripts are gone
        package.json:1 check-ignored: script `lint` was removed: it was `eslint .`
    make forgives
        Makefile:2 check-ignored: `|| :` hides failures: was `pytest`, now `pytest || :`
    make forgives at the end
        Makefile:2 check-ignored: `; true` hides failures: was `cargo test`, now `cargo test; true`
    a step may fail
        .github/workflows/ci.yml:2 check-ignored: `continue-on-error: true` is new and hides failures
    a job ends well
        .github/workflows/ci.yml:2 check-ignored: `set +e` is new and hides failures
        .github/workflows/ci.yml:4 check-ignored: `exit 0` is new and hides failures
    tests are deselected
        tox.ini:2 selection-narrowed: `--deselect` runs fewer tests: was `commands = pytest tests`, now `commands = pytest tests --deselect tests/test_a.py::test_b`
    tests are picked
        justfile:2 selection-narrowed: `--skip` runs fewer tests: was `cargo test --workspace`, now `cargo test --workspace -- --skip slow`
    go tests are picked
        Makefile:2 selection-narrowed: `-run` runs fewer tests: was `go test ./...`, now `go test ./... -run TestFast`
    one file is left
        ralph.toml:1 selection-narrowed: `tests/test_a.py` runs fewer tests: was `run = ["pytest", "-q"]`, now `run = ["pytest", "-q", "tests/test_a.py"]`
    lint forgives
        .gitlab-ci.yml:2 check-ignored: `--exit-zero` hides failures: was `- ruff check .`, now `- ruff check . --exit-zero`
    "#);
}

/// R-S5a: weakened thresholds, timeouts, lints and lists are detected.
#[test]
fn weakened_values_are_detected() {
    insta::assert_snapshot!(check_all_settings(&[
        ("jest's threshold falls", &[edited("jest.config.js", "module.exports = { coverageThreshold: { global: { lines: 90, branches: 80 } } }", "module.exports = { coverageThreshold: { global: { lines: 70, branches: 80 } } }")]),
        ("python's threshold falls", &[edited("pyproject.toml", "[tool.coverage.report]\nfail_under = 90\n", "[tool.coverage.report]\nfail_under = 80.5\n")]),
        ("a threshold is gone", &[edited(".coveragerc", "[report]\nfail_under = 90\n", "[report]\n")]),
        ("a flag falls", &[edited("Makefile", "test:\n\tpytest --cov-fail-under=90\n", "test:\n\tpytest --cov-fail-under=10\n")]),
        ("codecov's target falls", &[edited("codecov.yml", "target: 90%\n", "target: 50%\n")]),
        ("a timeout rises", &[edited("vitest.config.ts", "test: { testTimeout: 5_000 }", "test: { testTimeout: 60_000 }")]),
        ("a timeout rises in a test", &[edited("a.test.ts", "jest.setTimeout(5000)", "jest.setTimeout(90000)")]),
        ("warnings are let through", &[edited("package.json", "{\"scripts\": {\n  \"lint\": \"eslint --max-warnings 0 .\"\n}}", "{\"scripts\": {\n  \"lint\": \"eslint --max-warnings 50 .\"\n}}")]),
        ("types are loose", &[edited("tsconfig.json", "{\"compilerOptions\": {\"strict\": true, \"noImplicitAny\": true}}", "{\"compilerOptions\": {\"strict\": false}}")]),
        ("a build ignores errors", &[edited("next.config.js", "module.exports = {}", "module.exports = { typescript: { ignoreBuildErrors: true } }")]),
        ("cargo leaves tests out", &[edited("Cargo.toml", "[lib]\nname = \"a\"\n", "[lib]\nname = \"a\"\ntest = false\n")]),
        ("a rule is turned off", &[edited(".eslintrc.json", "{\"rules\": {\"no-unused-vars\": \"error\", \"eqeqeq\": 2}}", "{\"rules\": {\"no-unused-vars\": \"off\", \"eqeqeq\": [1, \"smart\"], \"no-undef\": 0}}")]),
        ("a clippy lint is allowed", &[edited("Cargo.toml", "[lints.clippy]\nunwrap_used = \"deny\"\n", "[lints.clippy]\nunwrap_used = \"allow\"\n")]),
        ("ruff ignores more", &[edited("ruff.toml", "ignore = [\"E501\"]\n", "ignore = [\n  \"E501\",\n  \"F401\",\n]\n")]),
        ("flake8 ignores more", &[edited(".flake8", "[flake8]\nignore = E501\n", "[flake8]\nignore = E501, F401\n")]),
        ("jest ignores tests", &[edited("jest.config.js", "testPathIgnorePatterns: ['/node_modules/']", "testPathIgnorePatterns: ['/node_modules/', 'a.test.ts']")]),
        ("a file is silenced", &[edited("src/a.ts", "export const a = 1\n", "// @ts-nocheck\n/* eslint-disable no-undef */\nexport const a = 1\n")]),
        ("a new file is silenced", &[added("src/a.ts", "/* eslint-disable */\nexport const a = 1\n")]),
        ("a crate is silenced", &[edited("src/lib.rs", "fn a() {}\n", "#![allow(dead_code, unused)]\nfn a() {}\n")]),
        ("a module is silenced", &[edited("a.py", "a = 1\n", "# type: ignore\n# ruff: noqa\na = 1\n")]),
    ]), @"
    jest's threshold falls
        jest.config.js:1 threshold-lowered: `lines` was 90, now 70
    python's threshold falls
        pyproject.toml:2 threshold-lowered: `fail_under` was 90, now 80.5
    a threshold is gone
        .coveragerc:1 threshold-lowered: `fail_under` was removed (was 90)
    a flag falls
        Makefile:2 threshold-lowered: `--cov-fail-under` was 90, now 10
    codecov's target falls
        codecov.yml:1 threshold-lowered: `target` was 90, now 50
    a timeout rises
        vitest.config.ts:1 timeout-raised: `testTimeout` was 5000, now 60000
    a timeout rises in a test
        a.test.ts:1 timeout-raised: `jest.setTimeout` was 5000, now 90000
    warnings are let through
        package.json:2 lint-relaxed: `--max-warnings` was 0, now 50
    types are loose
        tsconfig.json:1 lint-relaxed: `strict` was true, now false
        tsconfig.json:1 lint-relaxed: `noImplicitAny` was removed (was true)
    a build ignores errors
        next.config.js:1 check-ignored: `ignoreBuildErrors` is now true (was not set)
    cargo leaves tests out
        Cargo.toml:3 selection-narrowed: `test` is now false (was not set)
    a rule is turned off
        .eslintrc.json:1 lint-relaxed: `eqeqeq` was an error, now a warning
        .eslintrc.json:1 lint-relaxed: `no-undef` is turned off
        .eslintrc.json:1 lint-relaxed: `no-unused-vars` was an error, now off
    a clippy lint is allowed
        Cargo.toml:2 lint-relaxed: `unwrap_used` was an error, now off
    ruff ignores more
        ruff.toml:3 lint-relaxed: `ignore` grew from 1 to 2 entries: `F401`
    flake8 ignores more
        .flake8:2 lint-relaxed: `ignore` grew from 1 to 2 entries: `F401`
    jest ignores tests
        jest.config.js:1 selection-narrowed: `testPathIgnorePatterns` grew from 1 to 2 entries: `a.test.ts`
    a file is silenced
        src/a.ts:1 lint-relaxed: `@ts-nocheck` is new: it silences the whole file
        src/a.ts:2 lint-relaxed: `eslint-disable no-undef` is new: it silences the whole file
    a new file is silenced
        src/a.ts:1 lint-relaxed: warning: `eslint-disable` is new: it silences the whole file
    a crate is silenced
        src/lib.rs:1 lint-relaxed: `#![allow(dead_code, unused)]` is new: it silences the whole file
    a module is silenced
        a.py:1 lint-relaxed: `type: ignore` is new: it silences the whole file
        a.py:2 lint-relaxed: `ruff: noqa` is new: it silences the whole file
    ");
}

#[test]
fn harmless_settings_changes_are_accepted() {
    insta::assert_snapshot!(check_all_settings(&[
        ("a threshold rises", &[edited("pyproject.toml", "fail_under = 80\n", "fail_under = 90\n")]),
        ("a threshold moves", &[edited(".coveragerc", "[report]\nfail_under = 90\n", "[report]\n"), edited("pyproject.toml", "", "[tool.coverage.report]\nfail_under = 90\n")]),
        ("a script is added", &[edited("package.json", "{\"scripts\": {\n  \"test\": \"jest\"\n}}", "{\"scripts\": {\n  \"test\": \"jest\",\n  \"test:unit\": \"jest -t unit\"\n}}")]),
        ("a command gets a reporter", &[edited("package.json", "{\"scripts\": {\n  \"test\": \"jest\"\n}}", "{\"scripts\": {\n  \"test\": \"jest --reporters=junit\"\n}}")]),
        ("forgiving where nothing is checked", &[edited("Makefile", "clean:\n\trm a\n", "clean:\n\trm a || true\n")]),
        ("forgiving in a comment", &[edited("Makefile", "test:\n\tpytest\n", "test:\n\tpytest # never || true\n")]),
        ("it forgave before", &[edited("Makefile", "lint:\n\teslint . || true\n", "lint:\n\teslint src || true\n")]),
        ("output is excluded", &[edited("tsconfig.json", "{\"exclude\": [\"node_modules\"]}", "{\"exclude\": [\"node_modules\", \"dist\"]}")]),
        ("a rule gets louder", &[edited(".eslintrc.json", "{\"rules\": {\"no-unused-vars\": \"warn\"}}", "{\"rules\": {\"no-unused-vars\": \"error\", \"no-undef\": \"error\"}}")]),
        ("one line is silenced", &[edited("src/a.ts", "a()\n", "// eslint-disable-next-line no-undef\na()\n")]),
        ("a region is silenced", &[edited("src/a.ts", "a()\n", "/* eslint-disable no-undef */\na()\n/* eslint-enable no-undef */\n")]),
        ("a line of python", &[edited("a.py", "a = 1\n", "a = 1  # type: ignore\nb = \"# ruff: noqa\"\n")]),
        ("a new crate", &[added("src/lib.rs", "#![allow(dead_code)]\n")]),
        ("lines of another kind", &[edited("package.json", "{\"lines\": 10}", "{\"lines\": 5}")]),
        ("a dependency is added", &[edited("Cargo.toml", "[dependencies]\n", "[dependencies]\na-b = \"0.12\"\nc = { version = \"1\" }\n")]),
        ("a new package without tests", &[added("fuzz/Cargo.toml", "[[bin]]\ntest = false\n")]),
        ("a dependency is bumped", &[edited("package.json", "{\"devDependencies\": {\"jest\": \"29.0.0\"}}", "{\"devDependencies\": {\"jest\": \"28.0.0\"}}")]),
        ("skipLibCheck", &[edited("tsconfig.json", "{}", "{\"compilerOptions\": {\"skipLibCheck\": true}}")]),
    ]), @"
    a threshold rises
        fine
    a threshold moves
        fine
    a script is added
        fine
    a command gets a reporter
        fine
    forgiving where nothing is checked
        fine
    forgiving in a comment
        fine
    it forgave before
        fine
    output is excluded
        fine
    a rule gets louder
        fine
    one line is silenced
        fine
    a region is silenced
        fine
    a line of python
        fine
    a new crate
        fine
    lines of another kind
        fine
    a dependency is added
        fine
    a new package without tests
        fine
    a dependency is bumped
        fine
    skipLibCheck
        fine
    ");
}

#[test]
fn hostile_changes_take_linear_time() {
    let pieces = [
        "it('a', () => { expect(1",
        "describe('a', () => {",
        "#[test] fn a() {",
        "def test_a():\n assert a\n",
        "func TestA() {",
        "@Test void a() {",
        "mod a {",
        "catch {",
        "#[",
        "ignore = [\"a\", ",
        "|| true test\n",
        "lines: 9 coverageThreshold ",
        "fn a() { assert!(",
        "\"a\": \"error\", ",
        "class Test:\n def test_a(self):\n",
        "if False:\n ",
        "if (false) {",
        "def test_a():\n def a():\n  a()\n a()\n",
        " def a():\n  a()\n",
        " a = lambda: assert_a()\n",
        "x.test_a = sys.exit(0)\n",
    ];
    for path in [
        "a.test.ts",
        "a.rs",
        "test_a.py",
        "a_test.go",
        "ATest.java",
        "Makefile",
        "jest.config.js",
        ".eslintrc.json",
        "a.snap",
    ] {
        for piece in pieces {
            let before = piece.repeat(30_000 / piece.len());
            let after = piece.repeat(29_000 / piece.len());
            let change =
                FileChange { path, before: Some(&before), after: Some(&after), added: &[1] };
            assert!(
                test_integrity::check_tests(&[change], &|_| true).len() <= 200,
                "{path} {piece}"
            );
            assert!(tool_settings::check_settings(&[change]).len() <= 200, "{path} {piece}");
        }
    }
}

/// R-S5a: tests that still exist and run but can no longer fail.
#[test]
fn disarmed_python_tests_are_detected() {
    const PY: &str = "def test_adds():\n    assert add(1) == 2\n";
    const CASE: &str = "class A(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n";
    insta::assert_snapshot!(check_all_tests(&[
        ("python: under if False", &[edited("test_a.py", PY, "def test_adds():\n    if False:\n        assert add(1) == 2\n")]),
        ("python: under if 0, on one line", &[edited("test_a.py", PY, "def test_adds():\n    if 0: assert add(1) == 2\n")]),
        ("python: under while False", &[edited("test_a.py", PY, "def test_adds():\n    while (False):\n\n        assert add(1) == 2\n    print()\n")]),
        ("python: over nothing", &[edited("test_a.py", PY, "def test_adds():\n    for _ in []:\n        assert add(1) == 2\n")]),
        ("python: in a function that is never called", &[edited("test_a.py", PY, "def test_adds():\n    def check():\n        assert add(1) == 2\n")]),
        ("python: in a lambda that is never called", &[edited("test_a.py", CASE, "class A(unittest.TestCase):\n    def test_adds(self):\n        f = lambda: self.assertEqual(add(1), 2)\n")]),
        ("python: in an unused lambda", &[edited("test_a.py", CASE, "class A(unittest.TestCase):\n    def test_adds(self):\n        lambda: self.assertEqual(add(1), 2)\n")]),
        ("python: an assertion is replaced in setUp", &[edited("test_a.py", CASE, "class A(unittest.TestCase):\n    def setUp(self):\n        self.assertEqual = lambda *a: None\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n")]),
        ("python: an assertion is replaced for all", &[added("conftest.py", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\nsetattr(unittest.TestCase, 'assertTrue', print)\n")]),
        ("python: a test is replaced", &[edited("test_a.py", CASE, "class A(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\nA.test_adds = lambda self: None\nsetattr(A, \"test_adds\", print)\n")]),
        ("python: a function is replaced", &[edited("test_a.py", PY, "def test_adds():\n    assert add(1) == 2\ntest_adds = lambda: None\n")]),
        ("python: load_tests", &[edited("test_a.py", CASE, "class A(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\ndef load_tests(loader, tests, pattern):\n    return unittest.TestSuite()\n")]),
        ("python: a file opts out", &[edited("test_a.py", PY, "__test__ = False\ndef test_adds():\n    assert add(1) == 2\n")]),
        ("python: a test opts out", &[edited("test_a.py", PY, "def test_adds():\n    assert add(1) == 2\ntest_adds.__test__ = False\n")]),
        ("python: another base", &[edited("test_a.py", CASE, "class A(object):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n")]),
        ("python: the process ends", &[edited("test_a.py", PY, "import os\ndef test_adds():\n    os._exit(0)\n    assert add(1) == 2\n"), added("tests/conftest.py", "import sys\ndef pytest_sessionfinish():\n    sys.exit( 0 )\n")]),
    ]), @r#"
    python: under if False
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    python: under if 0, on one line
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    python: under while False
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    python: over nothing
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    python: in a function that is never called
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    python: in a lambda that is never called
        test_a.py:2 test-emptied: `A.test_adds` makes no assertions, down from 1
    python: in an unused lambda
        test_a.py:2 test-emptied: `A.test_adds` makes no assertions, down from 1
    python: an assertion is replaced in setUp
        test_a.py:3 test-disarmed: `self.assertEqual = lambda *a: None` is new: tests can no longer fail, or their failures are not reported
    python: an assertion is replaced for all
        conftest.py:2 test-disarmed: `unittest.TestCase.assertEqual = lambda *a: None` is new: tests can no longer fail, or their failures are not reported
        conftest.py:3 test-disarmed: `setattr(unittest.TestCase, 'assertTrue', print)` is new: tests can no longer fail, or their failures are not reported
    python: a test is replaced
        test_a.py:4 test-disarmed: `A.test_adds = lambda self: None` is new: tests can no longer fail, or their failures are not reported
        test_a.py:5 test-disarmed: `setattr(A, "test_adds", print)` is new: tests can no longer fail, or their failures are not reported
    python: a function is replaced
        test_a.py:3 test-disarmed: `test_adds = lambda: None` is new: tests can no longer fail, or their failures are not reported
    python: load_tests
        test_a.py:4 collection-narrowed: `load_tests` is new: it can keep tests from being collected
    python: a file opts out
        test_a.py:1 test-disarmed: `__test__ = False` is new: tests can no longer fail, or their failures are not reported
    python: a test opts out
        test_a.py:3 test-disarmed: `test_adds.__test__ = False` is new: tests can no longer fail, or their failures are not reported
    python: another base
        test_a.py:1 test-disarmed: `A` is no longer a `TestCase`: its tests are not collected
    python: the process ends
        test_a.py:3 test-disarmed: `os._exit(0)` is new: tests can no longer fail, or their failures are not reported
        tests/conftest.py:3 test-disarmed: `sys.exit( 0 )` is new: tests can no longer fail, or their failures are not reported
    "#);
}

#[test]
fn disarmed_javascript_and_rust_tests_are_detected() {
    const JS: &str = "it('adds', () => { expect(add(1)).toBe(2) })\n";
    const RS: &str = "#[test]\nfn adds() { assert_eq!(add(1), 2); }\n";
    insta::assert_snapshot!(check_all_tests(&[
        ("javascript: under if (false)", &[edited("a.test.ts", JS, "it('adds', () => { if (false) { expect(add(1)).toBe(2) } })\n")]),
        ("javascript: in a function that is never called", &[edited("a.test.ts", JS, "it('adds', () => {\n  const check = () => {\n    expect(add(1)).toBe(2)\n  }\n})\n")]),
        ("javascript: expect is replaced", &[edited("a.test.ts", JS, "const expect = () => ({ toBe() {} })\nit('adds', () => { expect(add(1)).toBe(2) })\n"), added("vitest.setup.ts", "globalThis.expect = new Proxy({}, {})\nglobal.it = () => {}\n")]),
        ("javascript: the process ends", &[edited("a.test.ts", JS, "it('adds', () => {\n  process.exit(0)\n  expect(add(1)).toBe(2) })\n")]),
        ("rust: under if false", &[edited("src/a.rs", RS, "#[test]\nfn adds() { if false { assert_eq!(add(1), 2); } }\n")]),
        ("rust: in a function that is never called", &[edited("src/a.rs", RS, "#[test]\nfn adds() { fn check() { assert_eq!(add(1), 2); } }\n")]),
        ("rust: the process ends", &[edited("src/a.rs", RS, "#[test]\nfn adds() {\n    std::process::exit(0);\n    assert_eq!(add(1), 2);\n}\n")]),
    ]), @"
    javascript: under if (false)
        a.test.ts:1 test-emptied: `adds` makes no assertions, down from 1
    javascript: in a function that is never called
        a.test.ts:1 test-emptied: `adds` makes no assertions, down from 1
    javascript: expect is replaced
        a.test.ts:1 test-disarmed: `const expect = () => ({ toBe() {} })` is new: tests can no longer fail, or their failures are not reported
        vitest.setup.ts:1 test-disarmed: `globalThis.expect = new Proxy({}, {})` is new: tests can no longer fail, or their failures are not reported
        vitest.setup.ts:2 test-disarmed: `global.it = () => {}` is new: tests can no longer fail, or their failures are not reported
    javascript: the process ends
        a.test.ts:2 test-disarmed: `process.exit(0)` is new: tests can no longer fail, or their failures are not reported
    rust: under if false
        src/a.rs:2 test-emptied: `adds` makes no assertions, down from 1
    rust: in a function that is never called
        src/a.rs:2 test-emptied: `adds` makes no assertions, down from 1
    rust: the process ends
        src/a.rs:3 test-disarmed: `std::process::exit(0);` is new: tests can no longer fail, or their failures are not reported
    ");
}

#[test]
fn changes_that_disarm_no_test_are_accepted() {
    const PY: &str = "def test_adds():\n    assert add(1) == 2\n";
    const JS: &str = "it('adds', () => { expect(add(1)).toBe(2) })\n";
    insta::assert_snapshot!(check_all_tests(&[
        ("python: a function that is called", &[edited("test_a.py", PY, "def test_adds():\n    def check(n):\n        assert add(n) == 2\n    check(1)\n")]),
        ("python: a function that is passed on, registered or returned", &[edited("test_a.py", PY, "def test_adds():\n    @app.route('/')\n    def page():\n        assert add(1) == 2\n    def other():\n        assert add(1) == 2\n    run(other)\n")]),
        ("python: a lambda as an argument", &[edited("test_a.py", PY, "def test_adds():\n    eventually(\n        lambda: check_sum(add(1), 2),\n    )\n")]),
        ("python: a condition", &[edited("test_a.py", PY, "def test_adds():\n    if WINDOWS:\n        assert add(1) == 2\n    for n in [1]:\n        assert add(n)\n")]),
        ("python: attributes", &[edited("test_a.py", PY, "def test_adds(self):\n    self.assertions = []\n    self.client.assertion = 3\n    x = assertEqual == 3\n    assert add(1) == 2\n")]),
        ("python: a suite that is run by hand", &[edited("test_a.py", PY, "def test_adds():\n    assert add(1) == 2\nif __name__ == '__main__':\n    sys.exit(pytest.main())\n")]),
        ("python: a program exits", &[edited("shop/cli.py", "", "import sys\nsys.exit(0)\n")]),
        ("python: tests made by a loop", &[added("test_b.py", "class TestB:\n    pass\nfor n in range(3):\n    setattr(TestB, f'test_{n}', make(n))\n")]),
        ("python: a class without TestCase", &[edited("test_a.py", "class TestA(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n", "class TestA:\n    def test_adds(self):\n        assert add(1) == 2\n")]),
        ("python: another TestCase", &[edited("test_a.py", "class A(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n", "class A(IsolatedAsyncioTestCase):\n    def test_adds(self):\n        self.assertEqual(add(1), 2)\n")]),
        ("javascript: extended by a library", &[edited("a.test.ts", JS, "const test = base.extend({ page })\nconst expect = chai.expect\nconst assert = require('assert')\nglobalThis.expect = expect\nit('adds', () => { expect(add(1)).toBe(2) })\n")]),
        ("javascript: a function that is called", &[edited("a.test.ts", JS, "it('adds', () => {\n  const check = (n) => {\n    expect(add(n)).toBe(2)\n  }\n  check(1)\n})\n")]),
        ("javascript: a named callback", &[edited("a.test.ts", JS, "it('adds', function adds() {\n  expect(add(1)).toBe(2)\n})\n")]),
        ("javascript: a program in a fixture exits", &[added("test/fixtures/cli.js", "process.exit(0)\n")]),
        ("rust: a program exits", &[edited("src/main.rs", "fn main() {}\n", "fn main() { std::process::exit(0); }\n")]),
        ("rust: a function that is called", &[edited("src/a.rs", "#[test]\nfn adds() { assert_eq!(add(1), 2); }\n", "#[test]\nfn adds() { fn gives(n: u8) { assert_eq!(add(n), 2); } gives(1); }\n")]),
    ]), @"
    python: a function that is called
        test_a.py:3 expectation-changed: warning: `test_adds` is different: was `assert add(1) == 2`, now `assert add(n) == 2`
    python: a function that is passed on, registered or returned
        fine
    python: a lambda as an argument
        test_a.py:3 expectation-changed: warning: `test_adds` is different: was `assert add(1) == 2`, now `check_sum(add(1), 2),`
    python: a condition
        fine
    python: attributes
        fine
    python: a suite that is run by hand
        fine
    python: a program exits
        fine
    python: tests made by a loop
        fine
    python: a class without TestCase
        test_a.py:3 expectation-changed: warning: `TestA.test_adds` is different: was `assertEqual(add(1), 2)`, now `assert add(1) == 2`
    python: another TestCase
        fine
    javascript: extended by a library
        fine
    javascript: a function that is called
        a.test.ts:3 expectation-changed: warning: `adds` is different: was `expect(add(1)).toBe(2)`, now `expect(add(n)).toBe(2)`
    javascript: a named callback
        fine
    javascript: a program in a fixture exits
        fine
    rust: a program exits
        fine
    rust: a function that is called
        src/a.rs:2 expectation-changed: warning: `adds` is different: was `assert_eq!(add(1), 2)`, now `assert_eq!(add(n), 2)`
    ");
}
