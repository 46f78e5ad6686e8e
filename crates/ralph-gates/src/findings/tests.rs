use super::*;
use std::fmt::Write as _;

/// Reads a recorded report and formats the findings as lines: `location | rule | severity | message`.
fn read_recorded(format: ReportFormat, file: &str) -> String {
    format_report(&read_recorded_report(format, file))
}

pub(super) fn read_recorded_report(format: ReportFormat, file: &str) -> ParsedReport {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports").join(file);
    let bytes = ralph_sys::fs::read(&path, 1 << 20).unwrap();
    read_report(format, &bytes, &complete_context())
}

pub(super) fn complete_context() -> ReportContext<'static> {
    let project = Path::new("/project");
    ReportContext {
        root: project,
        cwd: project,
        extent: OutputExtent::Complete,
        is_file: FileProbe::default(),
        is_excluded: None,
    }
}

fn format_report(reading: &ParsedReport) -> String {
    let mut out = String::new();
    for finding in &reading.findings {
        let place = finding.place.as_ref().map_or("-".into(), |place| {
            let number = |number: Option<u32>| number.map(|n| format!(":{n}")).unwrap_or_default();
            format!("{}{}{}", place.file, number(place.line), number(place.column))
        });
        let rule = finding.rule.as_deref().unwrap_or("-");
        let severity = format!("{:?}", finding.severity).to_lowercase();
        writeln!(out, "{place} | {rule} | {severity} | {}", finding.message).unwrap();
    }
    let tests =
        reading.tests.map_or("not counted".into(), |TestCounts { run, failed, skipped }| {
            format!("{run} run, {failed} failed, {skipped} skipped")
        });
    let doubt = reading.doubt.as_deref().unwrap_or("none");
    write!(out, "{} findings; tests: {tests}; doubt: {doubt}", reading.finding_count).unwrap();
    out
}

#[test]
fn recorded_junit_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/mocha-xunit.xml"), @"
    mochat/cart.spec.cjs:5:12 | cart::adds more | error | 2 == 3
    1 findings; tests: 2 run, 1 failed, 1 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/node.xml"), @"
    nodet/cart.test.mjs:5:11 | adds more | error | Expected values to be strictly equal:2 !== 3
    1 findings; tests: 2 run, 1 failed, 2 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/pytest-collection.xml"), @"
    broken/test_import.py:1 | broken.test_import | error | ImportError: cannot import name 'missing' from 'shop.cart' (/project/shop/cart.py)
    1 findings; tests: 1 run, 1 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/pytest-none.xml"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/pytest-syntax.xml"), @"
    tally/__init__.py:10 | tests.test_tally | error | SyntaxError: '(' was never closed
    1 findings; tests: 1 run, 1 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/pytest.xml"), @r#"
    tests/test_cart.py:12 | tests.test_cart::test_multiplies[3-7] | error | AssertionError: 3 of them assert 6 == 7
    shop/cart.py:11 | tests.test_cart.TestFirst::test_empty | error | IndexError: list index out of range
    tests/test_cart.py:22 | tests.test_cart::test_stores | error | failed on setup with "RuntimeError: no database: <down> & out"
    3 findings; tests: 5 run, 3 failed, 2 skipped; doubt: none
    "#);
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/ruff.xml"), @"
    shop/cart.py:1:1 | org.ruff.I001 | error | Import block is un-sorted or un-formatted
    shop/cart.py:1:8 | org.ruff.F401 | error | `os` imported but unused
    shop/cart.py:2:8 | org.ruff.F401 | error | `json` imported but unused
    shop/cart.py:6:5 | org.ruff.F841 | error | Local variable `unused` is assigned to but never used
    4 findings; tests: 4 run, 4 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Junit, "junit/vitest.xml"), @r#"
    test/cart.test.js:9:48 | cart > multiplies <quantities> & "quotes" | error | expected 6 to be 7 // Object.is equality
    src/cart.js:10:46 | cart > finds the first | error | Cannot read properties of undefined (reading 'price')
    test/other.test.js:2:1 | test/other.test.js | error | Cannot find module '../src/missing.js' imported from /project/test/other.test.js
    3 findings; tests: 4 run, 3 failed, 2 skipped; doubt: none
    "#);
}

#[test]
fn recorded_sarif_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Sarif, "sarif/eslint.sarif"), @"
    src/cart.js:2:7 | no-unused-vars | error | 'unused' is assigned a value but never used.
    src/cart.js:5:11 | eqeqeq | error | Expected '===' and instead saw '=='.
    src/cart.js:5:25 | no-debugger | error | Unexpected 'debugger' statement.
    src/broken.js:2:3 | - | error | Parsing error: Unexpected keyword 'return'
    src/cart.js:2:7 | prefer-const | warning | 'unused' is never reassigned. Use 'const' instead.
    src/cart.js:3:3 | no-var | warning | Unexpected var, use let or const instead.
    6 findings; tests: not counted; doubt: the report marks the tool's run as failed
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Sarif, "sarif/ruff-clean.sarif"), @"0 findings; tests: not counted; doubt: none");
    insta::assert_snapshot!(read_recorded(ReportFormat::Sarif, "sarif/ruff.sarif"), @"
    shop/cart.py:1:1 | I001 | error | Import block is un-sorted or un-formatted
    shop/cart.py:1:8 | F401 | error | `os` imported but unused
    shop/cart.py:2:8 | F401 | error | `json` imported but unused
    shop/cart.py:6:5 | F841 | error | Local variable `unused` is assigned to but never used
    4 findings; tests: not counted; doubt: none
    ");
}

#[test]
fn recorded_cargo_json_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::CargoJson, "cargo-json/build-broken.jsonl"), @"
    broken/src/lib.rs:2:22 | E0308 | error | mismatched types: expected `&str`, found `u32`
    broken/src/lib.rs:3:5 | E0425 | error | cannot find function `undefined_function` in this scope: not found in this scope
    broken/src/lib.rs:4:5 | E0308 | error | mismatched types: expected `String`, found `u32`
    3 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::CargoJson, "cargo-json/clippy.jsonl"), @"
    src/lib.rs:9:9 | unused_variables | warning | unused variable: `unused`
    src/lib.rs:8:8 | clippy::must_use_candidate | warning | this function could have a `#[must_use]` attribute
    src/lib.rs:10:23 | clippy::redundant_closure_for_method_calls | warning | redundant closure
    src/lib.rs:10:5 | clippy::map_clone | warning | you are using an explicit closure for copying elements
    src/lib.rs:10:31 | clippy::clone_on_copy | warning | using `clone` on type `u32` which implements the `Copy` trait
    5 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::CargoJson, "cargo-json/test.txt"), @r#"
    src/lib.rs:32:23 | tests::indexes | error | index out of bounds: the len is 0 but the index is 3
    src/lib.rs:24:9 | tests::adds_more | error | assertion `left == right` failed: prices are wrong left: 3 right: 4
    src/lib.rs:41:8 | tests::panics | error | test did not panic as expected
    - | tests::returns | error | Error: "it \"went\" wrong"
    src/lib.rs:9:9 | unused_variables | warning | unused variable: `unused`
    5 findings; tests: 7 run, 4 failed, 1 skipped; doubt: none
    "#);
}

#[test]
fn recorded_eslint_json_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::EslintJson, "eslint-json/eslint.json"), @"
    src/broken.js:2:3 | - | error | Parsing error: Unexpected keyword 'return'
    src/cart.js:2:7 | no-unused-vars | error | 'unused' is assigned a value but never used.
    src/cart.js:5:11 | eqeqeq | error | Expected '===' and instead saw '=='.
    src/cart.js:5:25 | no-debugger | error | Unexpected 'debugger' statement.
    src/cart.js:2:7 | prefer-const | warning | 'unused' is never reassigned. Use 'const' instead.
    src/cart.js:3:3 | no-var | warning | Unexpected var, use let or const instead.
    6 findings; tests: not counted; doubt: none
    ");
}

#[test]
fn recorded_go_test_json_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::GoTestJson, "go-test-json/fail.jsonl"), @"
    cart/cart_test.go:19 | TestTotal/two_items | error | Total() = 5, want 6
    cart/cart.go:14 | TestFirst | error | panic: runtime error: index out of range [0] with length 0 [recovered]
    store/store.go:7:9 | - | error | undefined: missing
    3 findings; tests: 3 run, 2 failed, 1 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::GoTestJson, "go-test-json/none.jsonl"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
}

/// A message keeps the lines that say what was expected, a test with subtests counts once, and a timeout names the test.
#[test]
fn messages_keep_their_continuation_lines() {
    let text = |file: &str| read_recorded(ReportFormat::Text, file);
    insta::assert_snapshot!(text("text/go-continued.txt"), @"
    shop_test.go:10 | TestSum | error | sum is wrong Got: 2 Wanted: 3
    shop_test.go:21 | TestTable/two | error | Got 2 Wanted 3
    shop_test.go:21 | TestTable/three | error | Got 2 Wanted 4
    shop_test.go:28 | TestFatal | error | a line before
    shop_test.go:29 | TestFatal | error | cannot open: first cause second cause
    5 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(text("text/go-build-broken.txt"), @"
    shop.go:21:20 | - | error | cannot use Memory{} (value of struct type Memory) as Store value in variable declaration: Memory does not implement Store (missing method Get) have get(string) string want Get(string) string
    shop.go:22:21 | - | error | cannot use Disk{} (value of struct type Disk) as Store value in variable declaration: Disk does not implement Store (wrong type for method Get) have Get(int) string want Get(string) string
    shop.go:23:32 | - | error | cannot use count (variable of type int) as Store value in array or slice literal: int does not implement Store (missing method Get)
    shop.go:29:9 | - | error | too many return values have (int, string) want (int)
    shop.go:32:25 | - | error | too many arguments in call to Open have (string, number) want (int)
    5 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(text("text/mypy-pretty.txt"), @r#"
    shop.py:16 | arg-type | error | Argument 1 to "use" has incompatible type "Memory"; expected "Store"
    shop.py:16 | arg-type | error | Argument 2 to "use" has incompatible type "Literal['slow']"; expected "Literal["it's", 'fast']"
    shop.py:17 | assignment | error | Incompatible types in assignment (expression has type "str", variable has type "int")
    a'b.py:1 | assignment | error | Incompatible types in assignment (expression has type "str", variable has type "int")
    4 findings; tests: not counted; doubt: none
    "#);
    let go = |file: &str| read_recorded(ReportFormat::GoTestJson, file);
    insta::assert_snapshot!(go("go-test-json/subtests.jsonl"), @"
    example.com/shop/shop_test.go:10 | TestSum | error | sum is wrong Got: 2 Wanted: 3
    example.com/shop/shop_test.go:21 | TestTable/two | error | Got 2 Wanted 3
    example.com/shop/shop_test.go:21 | TestTable/three | error | Got 2 Wanted 4
    example.com/shop/shop_test.go:28 | TestFatal | error | a line before; cannot open: first cause second cause
    4 findings; tests: 6 run, 4 failed, 1 skipped; doubt: none
    ");
    insta::assert_snapshot!(go("go-test-json/build-broken.jsonl"), @"
    shop.go:21:20 | - | error | cannot use Memory{} (value of struct type Memory) as Store value in variable declaration: Memory does not implement Store (missing method Get) have get(string) string want Get(string) string
    shop.go:22:21 | - | error | cannot use Disk{} (value of struct type Disk) as Store value in variable declaration: Disk does not implement Store (wrong type for method Get) have Get(int) string want Get(string) string
    shop.go:23:32 | - | error | cannot use count (variable of type int) as Store value in array or slice literal: int does not implement Store (missing method Get)
    shop.go:29:9 | - | error | too many return values have (int, string) want (int)
    shop.go:32:25 | - | error | too many arguments in call to Open have (string, number) want (int)
    5 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran
    ");
}

#[test]
fn subtests_are_not_counted_twice() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/subtests.txt"), @"
    test_sub.py:6 | T.test_many (n=2) | error | AssertionError: 2 not less than 2
    test_sub.py:6 | T.test_many (n=3) | error | AssertionError: 3 not less than 2
    test_sub.py:7 | test_sub.py::T::test_one | error | AssertionError: 1 != 2
    test_fix.py:4 | test_fixture [number] (n=1) | error | assert 1 < 1
    test_fix.py:4 | test_fixture [number] (n=2) | error | assert 2 < 1
    5 findings; tests: 5 run, 3 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/unittest-subtests.txt"), @"
    test_sub.py:6 | test_many (test_sub.T.test_many) (n=2) | error | AssertionError: 2 not less than 2
    test_sub.py:6 | test_many (test_sub.T.test_many) (n=3) | error | AssertionError: 3 not less than 2
    test_sub.py:7 | test_sub.T.test_one | error | AssertionError: 1 != 2
    3 findings; tests: 3 run, 2 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Tap, "tap/tap-timeout.tap"), @"
    a.test.cjs:3:3 | hangs > timeout! | error | timed out: hangs
    a.test.cjs:5:26 | one is two | error | --- expected +++ actual @@ -1,1 +1,1 @@ -2 +1
    2 findings; tests: 4 run, 2 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Tap, "tap/node-timeout.tap"), @"
    n.test.mjs:4:1 | hangs | error | test timed out after 200ms
    n.test.mjs:5:106 | child bad | error | 1 == 2
    n.test.mjs:6:80 | inner bad | error | bad thing
    3 findings; tests: 6 run, 3 failed, 0 skipped; doubt: none
    ");
    for (format, file) in [
        (ReportFormat::Pytest, "pytest/subtests.txt"),
        (ReportFormat::Text, "text/unittest-subtests.txt"),
        (ReportFormat::GoTestJson, "go-test-json/subtests.jsonl"),
        (ReportFormat::Tap, "tap/tap-timeout.tap"),
        (ReportFormat::Tap, "tap/node-timeout.tap"),
    ] {
        let cases = read_recorded_report(format, file).cases;
        assert!(cases.is_some_and(|cases| cases.is_complete), "{file}");
    }
}

/// Runners print TAP if nothing else is asked for, so it is read without `report = "tap"` too.
#[test]
fn tap_is_recognised_in_plain_text() {
    for file in ["tap/tap-timeout.tap", "tap/node-timeout.tap", "tap/node.tap"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports").join(file);
        let tap = String::from_utf8(ralph_sys::fs::read(&path, 1 << 20).unwrap()).unwrap();
        let around = format!("\n> shop@1.0.0 test\n> node --test\n\n{tap}npm error code 1\n");
        let plain = read_report(ReportFormat::Text, around.as_bytes(), &complete_context());
        assert_eq!(format_report(&plain), read_recorded(ReportFormat::Tap, file), "{file}");
    }
}

#[test]
fn recorded_uvu_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/uvu.txt"), @r#"
    test/cart.mjs:4:34 | adds more | error | sum is wrong (is) ++3 (Expected) --2 (Actual)
    test/cart.mjs:6:47 | throws | error | Cannot read properties of undefined (reading 'price')
    test/cart.mjs:9:42 | cart > compares objects | error | Expected values to be deeply equal: (equal) ··{ ····"a":·1, ····"b":·[ Actual: --····1 Expected: ++····2 ····] ··}
    3 findings; tests: 6 run, 3 failed, 1 skipped; doubt: none
    "#);
}

/// Nothing keeps tools from printing colours, so the findings must not depend on them.
#[test]
fn colours_change_no_finding() {
    for (format, coloured, plain) in [
        (ReportFormat::Text, "text/uvu-colour.txt", "text/uvu.txt"),
        (ReportFormat::Text, "text/mypy-colour.txt", "text/mypy-pretty.txt"),
        (ReportFormat::Text, "pytest/colour.txt", "pytest/colour.txt"),
    ] {
        let report = read_recorded(format, coloured);
        assert_eq!(report, read_recorded(format, plain), "{coloured}");
        assert!(!report.contains('\u{1b}') && !report.starts_with("0 findings"), "{report}");
    }
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/colour.txt"), @"
    test_sub.py:6 | T.test_many (n=2) | error | AssertionError: 2 not less than 2
    test_sub.py:6 | T.test_many (n=3) | error | AssertionError: 3 not less than 2
    test_sub.py:7 | test_sub.py::T::test_one | error | AssertionError: 1 != 2
    3 findings; tests: 3 run, 2 failed, 0 skipped; doubt: none
    ");
}

#[test]
fn recorded_tap_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Tap, "tap/mocha.tap"), @"
    mochat/cart.spec.cjs:5:12 | cart adds more | error | 2 == 3
    1 findings; tests: 2 run, 1 failed, 1 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Tap, "tap/node-none.tap"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
    insta::assert_snapshot!(read_recorded(ReportFormat::Tap, "tap/node-tap.tap"), @"
    tapt/cart.test.mjs:3:28 | adds more | error | --- expected +++ actual @@ -1,1 +1,1 @@ -3 +2
    1 findings; tests: 2 run, 1 failed, 2 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Tap, "tap/node.tap"), @"
    nodet/cart.test.mjs:6:12 | adds more | error | Expected values to be strictly equal: 2 !== 3
    1 findings; tests: 2 run, 1 failed, 2 skipped; doubt: none
    ");
}

/// The runner aborts, so that no test has a result; only this line names the one that did it.
#[test]
fn a_test_that_overflows_its_stack_is_named() {
    let warning = "warning: unused\n --> src/lib.rs:1:4\n\nrunning 2 tests\n";
    let abort = "fatal runtime error: stack overflow, aborting\nerror: test failed, to rerun pass `--lib`\n";
    for line in
        ["thread 'deep' (12) has overflowed its stack", "deep' (12) has overflowed its stack"]
    {
        let text = format!("{warning}{line}\n{abort}");
        let report = read_report(ReportFormat::Text, text.as_bytes(), &complete_context());
        insta::allow_duplicates! {
            insta::assert_snapshot!(format_report(&report), @"
            - | deep | error | has overflowed its stack
            src/lib.rs:1:4 | - | warning | unused
            2 findings; tests: not counted; doubt: tests started, but no result was reported
            ");
        }
    }
}

/// The comments of tape name its tests, and its points are assertions without a name of their own.
#[test]
fn recorded_tape_is_read_in_the_output_of_npm() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/tape.txt"), @"
    test/cmp.js:92:7 | null == undefined > (unnamed assert) | error | expected true, actual false
    1 findings; tests: 21 run, 1 failed, 0 skipped; doubt: none
    ");
}

#[test]
fn recorded_pytest_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/collection.txt"), @"
    broken/test_import.py:1 | broken/test_import.py | error | ImportError: cannot import name 'missing' from 'shop.cart' (/project/shop/cart.py)
    1 findings; tests: 1 run, 1 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/failures.txt"), @"
    tests/test_cart.py:22 | tests/test_cart.py::test_stores | error | RuntimeError: no database: <down> & out
    tests/test_cart.py:12 | tests/test_cart.py::test_multiplies[3-7] | error | AssertionError: 3 of them assert 6 == 7
    shop/cart.py:11 | tests/test_cart.py::TestFirst::test_empty | error | IndexError: list index out of range
    3 findings; tests: 5 run, 3 failed, 2 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/none.txt"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/passed.txt"), @"0 findings; tests: 1 run, 0 failed, 0 skipped; doubt: none");
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/quiet-colour.txt"), @"
    tests/test_cart.py:22 | tests/test_cart.py::test_stores | error | RuntimeError: no database: <down> & out
    tests/test_cart.py:12 | tests/test_cart.py::test_multiplies[3-7] | error | AssertionError: 3 of them assert 6 == 7
    shop/cart.py:11 | tests/test_cart.py::TestFirst::test_empty | error | IndexError: list index out of range
    3 findings; tests: 5 run, 3 failed, 2 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/syntax.txt"), @"
    tally/__init__.py:10 | tests/test_tally.py | error | def winner(votes: ^ SyntaxError: '(' was never closed
    1 findings; tests: 1 run, 1 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Pytest, "pytest/usage.txt"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
}

#[test]
fn recorded_tsc_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Tsc, "tsc/plain.txt"), @"
    src/cart.ts:4:7 | TS2322 | error | Type 'number' is not assignable to type 'string'.
    src/cart.ts:5:54 | TS2551 | error | Property 'quantiy' does not exist on type 'Item'. Did you mean 'quantity'?
    src/cart.ts:6:3 | TS2322 | error | Type 'string' is not assignable to type 'number'.
    src/cart.ts:10:3 | TS2322 | error | Type 'Item | undefined' is not assignable to type 'Item'. Type 'undefined' is not assignable to type 'Item'.
    4 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Tsc, "tsc/pretty.txt"), @"
    src/cart.ts:4:7 | TS2322 | error | Type 'number' is not assignable to type 'string'.
    src/cart.ts:5:54 | TS2551 | error | Property 'quantiy' does not exist on type 'Item'. Did you mean 'quantity'?
    src/cart.ts:6:3 | TS2322 | error | Type 'string' is not assignable to type 'number'.
    src/cart.ts:10:3 | TS2322 | error | Type 'Item | undefined' is not assignable to type 'Item'. Type 'undefined' is not assignable to type 'Item'.
    4 findings; tests: not counted; doubt: none
    ");
}

#[test]
fn recorded_text_of_rust_and_c_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/rustfmt.txt"), @"
    src/lib.rs:11 | rustfmt | error | is not formatted
    src/lib.rs:18 | rustfmt | error | is not formatted
    2 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/cargo-build-broken.txt"), @"
    src/lib.rs:2:22 | E0308 | error | mismatched types
    src/lib.rs:3:5 | E0425 | error | cannot find function `undefined_function` in this scope
    src/lib.rs:4:5 | E0308 | error | mismatched types
    3 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/cargo-no-such-command.txt"), @"
    - | - | error | no such command: `nosuchcommand`
    1 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/cargo-test-none.txt"), @"
    src/lib.rs:9:9 | - | warning | unused variable: `unused`
    1 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/cargo-test.txt"), @r#"
    src/lib.rs:24:9 | tests::adds_more | error | assertion `left == right` failed: prices are wrong left: 3 right: 4
    src/lib.rs:41:8 | tests::panics | error | test did not panic as expected
    src/lib.rs:32:23 | tests::indexes | error | index out of bounds: the len is 0 but the index is 3
    - | tests::returns | error | Error: "it \"went\" wrong"
    src/lib.rs:9:9 | - | warning | unused variable: `unused`
    5 findings; tests: 7 run, 4 failed, 1 skipped; doubt: none
    "#);
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/clippy.txt"), @"
    src/lib.rs:9:9 | - | error | unused variable: `unused`
    src/lib.rs:10:5 | - | error | you are using an explicit closure for copying elements
    src/lib.rs:10:31 | - | error | using `clone` on type `u32` which implements the `Copy` trait
    3 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/gcc.txt"), @"
    x.c:5:10 | - | error | ‘undefined’ undeclared (first use in this function)
    x.c:4:12 | -Wformat= | warning | format ‘%s’ expects argument of type ‘char *’, but argument 2 has type ‘int’
    x.c:3:7 | -Wunused-variable | warning | unused variable ‘unused’
    3 findings; tests: not counted; doubt: none
    ");
}

#[test]
fn recorded_text_of_python_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/flake8.txt"), @"
    shop/cart.py:1:1 | F401 | error | 'os' imported but unused
    shop/cart.py:2:1 | F401 | error | 'json' imported but unused
    shop/cart.py:6:5 | F841 | error | local variable 'unused' is assigned to but never used
    3 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/mypy.txt"), @r#"
    shop/cart.py:15 | return-value | error | Incompatible return value type (got "float", expected "str")
    1 findings; tests: not counted; doubt: none
    "#);
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/no-module.txt"), @"0 findings; tests: not counted; doubt: none");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/ruff-concise.txt"), @"
    shop/cart.py:1:1 | I001 | error | Import block is un-sorted or un-formatted
    shop/cart.py:1:8 | F401 | error | `os` imported but unused
    shop/cart.py:2:8 | F401 | error | `json` imported but unused
    shop/cart.py:6:5 | F841 | error | Local variable `unused` is assigned to but never used
    4 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/ruff-full.txt"), @"
    shop/cart.py:1:1 | I001 | error | Import block is un-sorted or un-formatted
    shop/cart.py:1:8 | F401 | error | `os` imported but unused
    shop/cart.py:2:8 | F401 | error | `json` imported but unused
    shop/cart.py:6:5 | F841 | error | Local variable `unused` is assigned to but never used
    4 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/unittest-none.txt"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/unittest.txt"), @"
    shop/cart.py:11 | tests.test_unit.CartCase.test_first | error | IndexError: list index out of range
    tests/test_unit.py:7 | tests.test_unit.CartCase.test_adds | error | AssertionError: 6 != 7
    2 findings; tests: 2 run, 2 failed, 1 skipped; doubt: none
    ");
}

#[test]
fn recorded_text_of_javascript_is_read() {
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/eslint-stylish.txt"), @"
    src/broken.js:2:3 | - | error | Parsing error: Unexpected keyword 'return'
    src/cart.js:2:7 | no-unused-vars | error | 'unused' is assigned a value but never used
    src/cart.js:5:11 | eqeqeq | error | Expected '===' and instead saw '=='
    src/cart.js:5:25 | no-debugger | error | Unexpected 'debugger' statement
    src/cart.js:2:7 | prefer-const | warning | 'unused' is never reassigned. Use 'const' instead
    src/cart.js:3:3 | no-var | warning | Unexpected var, use let or const instead
    6 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/jest-none-pass.txt"), @"0 findings; tests: not counted; doubt: no tests were found");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/jest-none.txt"), @"0 findings; tests: not counted; doubt: no tests were found");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/jest.txt"), @"
    jestt/cart.test.cjs:5:49 | cart › adds more | error | expect(received).toBe(expected) // Object.is equality Expected: 6 Received: 5
    jestt/cart.test.cjs:1:32 | cart › throws | error | TypeError: Cannot read properties of undefined (reading 'reduce')
    2 findings; tests: 3 run, 2 failed, 1 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/mocha-none.txt"), @"0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/mocha.txt"), @"
    mochat/cart.spec.cjs:5:12 | cart > adds more | error | AssertionError [ERR_ASSERTION]: 2 == 3
    1 findings; tests: 2 run, 1 failed, 1 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/node-crash.txt"), @"
    crash.cjs:2:9 | - | error | TypeError: boom: it broke
    1 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/node-spec.txt"), @"
    nodet/cart.test.mjs:6:12 | adds more | error | AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: 2 !== 3
    1 findings; tests: 3 run, 2 failed, 2 skipped; doubt: none
    ");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/npm-missing-script.txt"), @"0 findings; tests: not counted; doubt: none");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/npx-missing.txt"), @"0 findings; tests: not counted; doubt: none");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/vitest-colour.txt"), @r#"
    test/other.test.js:2:1 | test/other.test.js | error | Error: Cannot find module '../src/missing.js' imported from /project/test/other.test.js
    test/cart.test.js:9:48 | cart > multiplies <quantities> & "quotes" | error | AssertionError: expected 6 to be 7 // Object.is equality
    src/cart.js:10:46 | cart > finds the first | error | TypeError: Cannot read properties of undefined (reading 'price')
    3 findings; tests: 3 run, 2 failed, 2 skipped; doubt: none
    "#);
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/vitest-none-pass.txt"), @"0 findings; tests: not counted; doubt: no tests were found");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/vitest-none.txt"), @"0 findings; tests: not counted; doubt: no tests were found");
    insta::assert_snapshot!(read_recorded(ReportFormat::Text, "text/vitest.txt"), @r#"
    test/other.test.js:2:1 | test/other.test.js | error | Error: Cannot find module '../src/missing.js' imported from /project/test/other.test.js
    test/cart.test.js:9:48 | cart > multiplies <quantities> & "quotes" | error | AssertionError: expected 6 to be 7 // Object.is equality
    src/cart.js:10:46 | cart > finds the first | error | TypeError: Cannot read properties of undefined (reading 'price')
    3 findings; tests: 3 run, 2 failed, 2 skipped; doubt: none
    "#);
}

/// R-L3f: a report without information is doubted, in every report format.
#[test]
fn an_empty_truncated_or_unrelated_report_is_doubted() {
    let inputs = [
        "",
        "everything is fine\n",
        "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>",
        "{\"a\": 1}\n",
        "[{\"filePath\": \"a.js\", \"mess",
    ];
    let mut doubts = String::new();
    // Coverage reports have a table of their own.
    let formats = ReportFormat::ALL.iter().copied();
    for format in formats.filter(|format| !format.measures_coverage()) {
        writeln!(doubts, "{}", format.name()).unwrap();
        for input in inputs {
            let reading = read_report(format, input.as_bytes(), &complete_context());
            assert_eq!(reading.finding_count, 0, "{format:?} {input}");
            if let Some(doubt) = reading.doubt {
                writeln!(doubts, "  {input:?}: {doubt}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(doubts, @r#"
    text
    junit
      "": the report is empty
      "everything is fine\n": the report is not JUnit
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the report is truncated
      "{\"a\": 1}\n": the report is not JUnit
      "[{\"filePath\": \"a.js\", \"mess": the report is not JUnit
    sarif
      "": the report is empty
      "everything is fine\n": the report cannot be parsed
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the report cannot be parsed
      "{\"a\": 1}\n": the report cannot be parsed
      "[{\"filePath\": \"a.js\", \"mess": the report cannot be parsed
    cargo-json
      "": the output contains no cargo message
      "everything is fine\n": the output contains no cargo message
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the output contains no cargo message
      "{\"a\": 1}\n": the output contains no cargo message
      "[{\"filePath\": \"a.js\", \"mess": the output contains no cargo message
    eslint-json
      "": the report is empty
      "everything is fine\n": the report cannot be parsed
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the report cannot be parsed
      "{\"a\": 1}\n": the report cannot be parsed
      "[{\"filePath\": \"a.js\", \"mess": the report is truncated
    go-test-json
      "": the output contains no `go test` event
      "everything is fine\n": the output contains no `go test` event
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the output contains no `go test` event
      "{\"a\": 1}\n": the output contains no `go test` event
      "[{\"filePath\": \"a.js\", \"mess": the output contains no `go test` event
    tap
      "": the report is empty
      "everything is fine\n": the output is not TAP
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the output is not TAP
      "{\"a\": 1}\n": the output is not TAP
      "[{\"filePath\": \"a.js\", \"mess": the output is not TAP
    pytest
      "": the output is not pytest's
      "everything is fine\n": the output is not pytest's
      "<testsuites><testsuite name=\"a\"><testcase name=\"b\"/>": the output is not pytest's
      "{\"a\": 1}\n": the output is not pytest's
      "[{\"filePath\": \"a.js\", \"mess": the output is not pytest's
    tsc
    none
    "#);
}

#[test]
fn tap_that_does_not_match_its_plan_is_doubted() {
    for (input, expected) in [
        (
            "1..2\nok 1\n",
            "0 findings; tests: 1 run, 0 failed, 0 skipped; doubt: 1 of 2 planned tests ran",
        ),
        ("ok 1\n", "0 findings; tests: 1 run, 0 failed, 0 skipped; doubt: the report has no plan"),
        (
            "1..0 # SKIP no database\n",
            "0 findings; tests: 0 run, 0 failed, 0 skipped; doubt: no tests ran",
        ),
        (
            "1..1\nok 1 # skip later\n",
            "0 findings; tests: 0 run, 0 failed, 1 skipped; doubt: every test was skipped",
        ),
        ("1..1\nok 1\n", "0 findings; tests: 1 run, 0 failed, 0 skipped; doubt: none"),
        (
            "1..2\nok 1\nBail out! no disk\n",
            "- | - | error | bailed out: no disk\n1 findings; tests: 1 run, 0 failed, 0 skipped; doubt: 1 of 2 planned tests ran",
        ),
    ] {
        assert_eq!(
            format_report(&read_report(ReportFormat::Tap, input.as_bytes(), &complete_context())),
            expected,
            "{input}"
        );
    }
    let cut = ReportContext { extent: OutputExtent::Truncated { end: "" }, ..complete_context() };
    assert_eq!(
        read_report(ReportFormat::Tap, b"1..1\nok 1\n", &cut).doubt.unwrap(),
        "the report is truncated"
    );
}

/// node expects tests marked `todo` to fail. No other mark excuses a failure.
#[test]
fn a_failure_in_junit_counts_although_the_test_is_marked_as_skipped() {
    for (case, expected) in [
        (r#"<testcase status="notrun"/>"#, "1 run, 0 failed, 1 skipped"),
        (
            r#"<testcase status="notrun"><failure message="x"/></testcase>"#,
            "2 run, 1 failed, 0 skipped",
        ),
        (r#"<testcase status="disabled"><error/></testcase>"#, "2 run, 1 failed, 0 skipped"),
        ("<testcase><skipped/><failure/></testcase>", "2 run, 1 failed, 0 skipped"),
        ("<testcase><error/><skipped/></testcase>", "2 run, 1 failed, 0 skipped"),
        (r#"<testcase><skipped type="todo"/><failure/></testcase>"#, "1 run, 0 failed, 1 skipped"),
    ] {
        let report = format!(r#"<testsuite name="s"><testcase name="a"/>{case}</testsuite>"#);
        let reading = read_report(ReportFormat::Junit, report.as_bytes(), &complete_context());
        let TestCounts { run, failed, skipped } = reading.tests.unwrap();
        assert_eq!(format!("{run} run, {failed} failed, {skipped} skipped"), expected, "{case}");
        assert_eq!(reading.finding_count, failed, "{case}");
    }
}

#[test]
fn repeated_findings_are_counted_once_and_others_all() {
    let context = complete_context();
    let mut found = FindingCollector::new(&context);
    let add = |found: &mut FindingCollector<'_>, message: &str| {
        found.add(&FindingDraft { message, ..FindingDraft::default() });
    };
    for _ in 0..3 {
        add(&mut found, "same");
        add(&mut found, " same\t");
    }
    assert_eq!(found.count, 1);
    for number in 0..MAX_DEDUPLICATED + 10 {
        add(&mut found, &number.to_string());
    }
    assert_eq!(found.count as usize, MAX_DEDUPLICATED + 11);
    let report = found.into_report(None, None);
    assert_eq!(report.findings.len(), MAX_FINDINGS);
    assert_eq!(report.more_findings.len(), MAX_DEDUPLICATED - MAX_FINDINGS);
}

#[test]
fn an_empty_report_does_not_hide_findings_in_the_output() {
    let output = b"src/a.ts:3:5: error: it is wrong\n";
    for (report, expected) in [
        (ReportFile::Missing, "the report was not written"),
        (ReportFile::Written(b""), "the report is empty"),
    ] {
        let reading = read_execution(ReportFormat::Junit, report, output, &complete_context());
        assert_eq!(
            format_report(&reading),
            format!(
                "src/a.ts:3:5 | - | error | it is wrong\n1 findings; tests: not counted; doubt: {expected}"
            )
        );
    }
    let report = b"<testsuite><testcase name=\"a\"/></testsuite>";
    let reading = read_execution(
        ReportFormat::Junit,
        ReportFile::Written(report),
        output,
        &complete_context(),
    );
    assert_eq!(
        format_report(&reading),
        "0 findings; tests: 1 run, 0 failed, 0 skipped; doubt: none"
    );
}

#[test]
fn a_report_is_found_among_other_text() {
    insta::assert_snapshot!(format_report(&read_report(
        ReportFormat::EslintJson,
        b"\n> shop@1.0.0 lint\n> eslint . -f json\n\n[{\"filePath\":\"/project/a.js\",\"messages\":[{\"ruleId\":\"r\",\"severity\":2,\"message\":\"m\",\"line\":1,\"column\":2}]}]\nnpm notice new version\n",
        &complete_context(),
    )), @"
    a.js:1:2 | r | error | m
    1 findings; tests: not counted; doubt: none
    ");
    insta::assert_snapshot!(format_report(&read_report(
        ReportFormat::Junit,
        b"starting\n<testsuite name=\"s\"><testcase name=\"a\"><failure message=\"m\"/></testcase></testsuite>\ndone <3\n",
        &complete_context(),
    )), @"
    - | a | error | m
    1 findings; tests: 1 run, 1 failed, 0 skipped; doubt: none
    ");
    insta::assert_snapshot!(format_report(&read_report(
        ReportFormat::Sarif,
        b"scanning {2 files}\n{\"runs\":[{\"results\":[{\"message\":{\"text\":\"m\"},\"suppressions\":[{}]},{\"level\":\"none\",\"message\":{\"text\":\"n\"}},{\"message\":{\"text\":\"o\"},\"ruleIndex\":0,\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"index\":0}}}]}],\"tool\":{\"driver\":{\"rules\":[{\"id\":\"r\",\"defaultConfiguration\":{\"level\":\"error\"}}]}},\"artifacts\":[{\"location\":{\"uri\":\"src/my%20file.js\"}}]}]}\n",
        &complete_context(),
    )), @"
    src/my file.js | r | error | o
    1 findings; tests: not counted; doubt: none
    ");
}

/// R-S6a: findings contain no control or invisible characters, and a document's entities are not expanded.
#[test]
fn foreign_text_is_cleaned_and_bounded() {
    let bomb = b"<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><testsuite name=\"s\"><testcase name=\"t\x1b[31m\xe2\x80\xae\"><failure message=\"&b;&#27;[2Jx\">&b; &lt;&#x202e;</failure></testcase></testsuite>";
    let reading = read_report(ReportFormat::Junit, bomb, &complete_context());
    insta::assert_snapshot!(format_report(&reading), @"
    - | t | error | &b;&#27;[2Jx
    1 findings; tests: 1 run, 1 failed, 0 skipped; doubt: none
    ");
    let long = format!("src/a.rs:1:1: error: {}\n", "x".repeat(100_000));
    let reading = read_report(ReportFormat::Text, long.as_bytes(), &complete_context());
    assert_eq!(reading.findings[0].message.chars().count(), 1_000);
    let deep = "<testsuite>".repeat(100_000);
    assert_eq!(
        read_report(ReportFormat::Junit, deep.as_bytes(), &complete_context()).doubt.unwrap(),
        "the report is nested too deeply"
    );
    let invalid = read_report(
        ReportFormat::Text,
        b"\xff\xfe\nsrc/\xff.rs:1: error: \xff\n",
        &complete_context(),
    );
    assert_eq!(
        format_report(&invalid),
        "src/\u{fffd}.rs:1 | - | error | \u{fffd}\n1 findings; tests: not counted; doubt: none"
    );
}

/// R-H1c: megabytes of input give a bounded number of findings, and all are counted.
#[test]
fn twenty_megabytes_are_counted_and_not_kept() {
    const CASES: u32 = 60_000;
    let mut junit = String::from("<testsuites><testsuite name=\"big\">");
    let mut cargo = String::new();
    let padding = "x".repeat(200);
    for number in 1..=CASES {
        write!(junit, "<testcase classname=\"c\" name=\"t{number}\"><failure message=\"m{number}\">{padding} at src/a.rs:{number}:1</failure></testcase>").unwrap();
        writeln!(cargo, "{{\"reason\":\"compiler-message\",\"message\":{{\"rendered\":\"{padding}\",\"message\":\"m{number}\",\"level\":\"warning\",\"code\":null,\"spans\":[{{\"file_name\":\"src/a.rs\",\"line_start\":{number},\"column_start\":1,\"is_primary\":true,\"label\":null}}]}}}}").unwrap();
    }
    junit.push_str("</testsuite></testsuites>");
    assert!(junit.len() + cargo.len() > 40_000_000);
    let reading = read_report(ReportFormat::Junit, junit.as_bytes(), &complete_context());
    assert_eq!((reading.finding_count, reading.findings.len()), (CASES, MAX_FINDINGS));
    assert_eq!(reading.tests, Some(TestCounts { run: CASES, failed: CASES, skipped: 0 }));
    let reading = read_report(ReportFormat::CargoJson, cargo.as_bytes(), &complete_context());
    assert_eq!((reading.finding_count, reading.findings.len()), (CASES, MAX_FINDINGS));
}

#[test]
fn errors_come_before_earlier_warnings() {
    let mut output = String::new();
    for number in 1..=500 {
        writeln!(output, "a.c:{number}:1: warning: old").unwrap();
    }
    output.push_str("a.c:7:1: error: new\n");
    let reading = read_report(ReportFormat::Text, output.as_bytes(), &complete_context());
    assert_eq!((reading.finding_count, reading.findings.len()), (501, MAX_FINDINGS));
    assert_eq!(reading.findings[0].message, "new");
}

/// R-S6a: what a SARIF report says in words that the format does not have, or twice, never counts in favour of the change.
#[test]
fn each_sarif_result_counts_as_its_worst() {
    let at = r#""locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.js"},"region":{"startLine":1}}}]"#;
    let one = |more: &str| format!(r#"{{"message":{{"text":"m"}},{more}}}"#);
    let placed = |more: &str| one(&format!("{more},{at}"));
    let (error, note) = (placed(r#""level":"error""#), placed(r#""level":"note""#));
    let score = |score: &str| {
        placed(&format!(r#""level":"note","properties":{{"security-severity":{score}}}"#))
    };
    let suppressed = |all: &str| placed(&format!(r#""level":"error","suppressions":{all}"#));
    for (results, expected) in [
        // Errors, warnings and notes that count, the number of findings, and the severity of the first.
        (vec![note.clone(), error.clone()], "1 0 0 of 1, Error"),
        (vec![error.clone(), note.clone()], "1 0 0 of 1, Error"),
        (vec![note.clone(), note.clone()], "0 0 1 of 1, Note"),
        (vec![note.clone(), placed(r#""level":"warning""#)], "0 1 0 of 1, Warning"),
        (vec![note.clone(), error.clone(), note.clone(), error.clone()], "1 0 0 of 1, Error"),
        // The message shows the score, so these are two.
        (vec![note.clone(), score("8")], "1 0 1 of 2, Note"),
        (vec![one(r#""level":"warning""#); 50], "0 50 0 of 1, Warning"),
        (vec![one(r#""level":"warning""#), one(r#""level":"error""#)], "1 1 0 of 1, Error"),
        (vec![placed(r#""level":"error","kind":"Fail""#)], "1 0 0 of 1, Error"),
        (vec![placed(r#""level":"error","kind":"pass""#)], "0 0 0 of 0, -"),
        (vec![placed(r#""level":"error","kind":"notApplicable""#)], "0 0 0 of 0, -"),
        (vec![placed(r#""level":"error","kind":"informational""#)], "0 0 0 of 0, -"),
        (vec![score("\"98\"")], "1 0 0 of 1, Note"),
        (vec![score("{\"score\":1}")], "1 0 0 of 1, Note"),
        (vec![score("-1")], "1 0 0 of 1, Note"),
        (vec![score("\"NaN\"")], "1 0 0 of 1, Note"),
        (vec![score("\"2.0\"")], "0 0 1 of 1, Note"),
        (vec![score("null")], "0 0 1 of 1, Note"),
        (vec![suppressed("[]")], "1 0 0 of 1, Error"),
        (vec![suppressed("[{}]")], "0 0 0 of 0, -"),
        (vec![suppressed(r#"[{"status":"accepted"}]"#)], "0 0 0 of 0, -"),
        (vec![suppressed(r#"[{"status":"Rejected"}]"#)], "1 0 0 of 1, Error"),
        (vec![suppressed(r#"[{"status":"underReview"}]"#)], "1 0 0 of 1, Error"),
        (vec![suppressed(r#"[{"status":"accepted"},{"status":"rejected"}]"#)], "1 0 0 of 1, Error"),
    ] {
        let text = format!(r#"{{"runs":[{{"results":[{}]}}]}}"#, results.join(","));
        let read = read_report(ReportFormat::Sarif, text.as_bytes(), &complete_context());
        let counts = read.severities;
        let first =
            read.findings.first().map_or("-".to_string(), |one| format!("{:?}", one.severity));
        let shown = format!(
            "{} {} {} of {}, {first}",
            counts.errors, counts.warnings, counts.notes, read.finding_count
        );
        assert_eq!((shown.as_str(), read.doubt), (expected, None), "{text}");
    }
}
