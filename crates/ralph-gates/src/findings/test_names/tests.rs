use super::super::read_report;
use super::super::tests::{complete_context, read_recorded_report};
use super::{NameCollector, OutputExtent, ReportContext};
use ralph_core::gate::{ParsedReport, ReportFormat};
use std::fmt::Write as _;
use std::path::Path;

/// The names in a recorded report, with a mark for their outcome: `!` for a failure that stands for tests.
fn read_names(format: ReportFormat, file: &str) -> String {
    format_names(&read_recorded_report(format, file))
}

fn format_names(report: &ParsedReport) -> String {
    let Some(cases) = &report.cases else { return "no names".into() };
    let mut out = String::new();
    for (mark, names) in [("+", &cases.passed), ("x", &cases.failed), ("-", &cases.skipped)] {
        for name in names {
            let mark = if mark == "x" && cases.failed_groups.contains(name) { "!" } else { mark };
            writeln!(out, "{mark} {name}").unwrap();
        }
    }
    out.push_str(if cases.is_complete { "complete" } else { "incomplete" });
    out
}

#[test]
fn cargo_names_tests_by_binary() {
    insta::assert_snapshot!(read_names(ReportFormat::CargoJson, "cargo-json/names-test.txt"), @"
    + cart (tests/cart.rs) > adds
    + shop (doc-tests) > src/lib.rs - add - compile
    + shop (src/lib.rs) > tests::adds
    + shop (src/lib.rs) > tests::panics
    + shop (src/main.rs) > tests::adds
    x shop (doc-tests) > src/lib.rs - add
    x shop (src/lib.rs) > tests::adds_more
    - shop (src/lib.rs) > tests::ignored
    - shop (src/lib.rs) > tests::ignored_plainly
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-cargo-test-nocapture.txt"), @"no names");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-cargo-test-quiet.txt"), @"
    x src/lib.rs - add
    x tests::adds_more
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-cargo-test.txt"), @"
    + cart (tests/cart.rs) > adds
    + shop (doc-tests) > src/lib.rs - add - compile
    + shop (src/lib.rs) > tests::adds
    + shop (src/lib.rs) > tests::panics
    + shop (src/main.rs) > tests::adds
    x shop (doc-tests) > src/lib.rs - add
    x shop (src/lib.rs) > tests::adds_more
    - shop (src/lib.rs) > tests::ignored
    - shop (src/lib.rs) > tests::ignored_plainly
    complete
    ");
}

#[test]
fn go_names_tests_by_package() {
    insta::assert_snapshot!(read_names(ReportFormat::GoTestJson, "go-test-json/names.jsonl"), @"
    + example.com/acme/shop/cart > ExampleAdd
    + example.com/acme/shop/cart > TestAdd/small_ones
    + example.com/acme/shop/cart > TestNoNewline
    + example.com/acme/shop/cart > TestParallel
    + example.com/acme/shop/cart > TestParallel/same
    + example.com/acme/shop/cart > TestParallel/same#01
    + example.com/acme/shop/store > TestAdd
    ! example.com/acme/shop/broken
    x example.com/acme/shop/cart > TestAdd
    x example.com/acme/shop/cart > TestAdd/big_ones
    - example.com/acme/shop/cart > TestSkipped
    complete
    ");
    // A pattern is no package.
    insta::assert_snapshot!(read_names(ReportFormat::GoTestJson, "go-test-json/no-module.jsonl"), @"no names");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-go-default.txt"), @"
    + example.com/acme/shop/store
    ! example.com/acme/shop/broken
    x example.com/acme/shop/cart
    x example.com/acme/shop/cart > TestAdd
    x example.com/acme/shop/cart > TestAdd/big_ones
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-go-noisy.txt"), @"
    + example.com/acme/shop/cart > ExampleAdd
    + example.com/acme/shop/cart > TestAdd/small_ones
    + example.com/acme/shop/cart > TestNoNewline
    + example.com/acme/shop/cart > TestParallel
    + example.com/acme/shop/cart > TestParallel/same
    + example.com/acme/shop/cart > TestParallel/same#01
    + example.com/acme/shop/store > TestAdd
    ! example.com/acme/shop/broken
    x example.com/acme/shop/cart > TestAdd
    x example.com/acme/shop/cart > TestAdd/big_ones
    - example.com/acme/shop/cart > TestSkipped
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-go-verbose.txt"), @"
    + example.com/acme/shop/cart > ExampleAdd
    + example.com/acme/shop/cart > TestAdd/small_ones
    + example.com/acme/shop/cart > TestNoNewline
    + example.com/acme/shop/cart > TestParallel
    + example.com/acme/shop/cart > TestParallel/same
    + example.com/acme/shop/cart > TestParallel/same#01
    + example.com/acme/shop/store > TestAdd
    ! example.com/acme/shop/broken
    x example.com/acme/shop/cart > TestAdd
    x example.com/acme/shop/cart > TestAdd/big_ones
    - example.com/acme/shop/cart > TestSkipped
    complete
    ");
}

#[test]
fn documented_dialects_of_junit_name_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/documented-dotnet.xml"), @"
    + Acme.Shop.Tests.dll > Acme.Shop.Tests.CartTests > Adds
    + Acme.Shop.Tests.dll > Acme.Shop.Tests.CartTests > Multiplies(quantity: 2, total: 4)
    x Acme.Shop.Tests.dll > Acme.Shop.Tests.CartTests > Multiplies(quantity: 3, total: 7)
    - Acme.Shop.Tests.dll > Acme.Shop.Tests.CartTests > Later
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/documented-gradle.xml"), @"
    + com.acme.shop.CartTest > [1] 3, 6
    + com.acme.shop.CartTest > adds()
    x com.acme.shop.CartTest > addsMore()
    - com.acme.shop.CartTest > later()
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/documented-phpunit.xml"), @r#"
    + tests/CartTest.php > phpunit.xml > unit > Acme\Shop\CartTest > Acme.Shop.CartTest > testAdds
    + tests/CartTest.php > phpunit.xml > unit > Acme\Shop\CartTest > Acme.Shop.CartTest > testLast
    + tests/CartTest.php > phpunit.xml > unit > Acme\Shop\CartTest > Acme\Shop\CartTest::testMultiplies > Acme.Shop.CartTest > testMultiplies with data set #0
    x tests/CartTest.php > phpunit.xml > unit > Acme\Shop\CartTest > Acme\Shop\CartTest::testMultiplies > Acme.Shop.CartTest > testMultiplies with data set "too many"
    - tests/CartTest.php > phpunit.xml > unit > Acme\Shop\CartTest > Acme.Shop.CartTest > testLater
    complete
    "#);
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/documented-rspec.xml"), @"
    + spec/cart_spec.rb > rspec > spec.cart_spec > Cart adds
    x spec/cart_spec.rb > rspec > spec.cart_spec > Cart when full refuses more
    - spec/cart_spec.rb > rspec > spec.cart_spec > Cart ships later
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/documented-surefire.xml"), @"
    + com.acme.shop.CartTest > adds
    + com.acme.shop.CartTest > flaky
    + com.acme.shop.CartTest > multiplies(int, int)[1]
    x com.acme.shop.CartTest > addsMore
    x com.acme.shop.CartTest > multiplies(int, int)[2]
    - com.acme.shop.CartTest > com.acme.shop.CartTest$Nested > later
    complete
    ");
}

#[test]
fn other_runners_in_junit_name_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-bats.xml"), @"
    + cart.bats > adds
    + cart.bats > prints ok
    + other.bats > adds
    x cart.bats > adds more
    - cart.bats > later
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-ctest.xml"), @"
    + (empty) > cart.adds
    x (empty) > cart.adds_more
    - (empty) > cart.later
    - (empty) > missing
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-jest-junit.xml"), @"
    + cart > cart adds
    + cart > cart nested (deep) adds one to 1
    + cart > cart nested (deep) adds one to 2
    + cart > cart nested (deep) same
    + cart > cart same
    + cart > cart someday
    + cart > top level › odd
    + undefined > same
    x cart > cart adds more
    - cart > cart later
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-mocha-xunit.xml"), @r#"
    + mochat/cart.spec.cjs > Mocha Tests > cart > adds
    + mochat/cart.spec.cjs > Mocha Tests > cart > same
    + mochat/cart.spec.cjs > Mocha Tests > cart nested > same
    + mochat/cart.spec.cjs > Mocha Tests > cart nested > slow
    + mochat/cart.spec.cjs > Mocha Tests > top level
    + mochat/other.spec.cjs > Mocha Tests > cart > adds
    + mochat/other.spec.cjs > Mocha Tests > dup > twice
    x mochat/cart.spec.cjs > Mocha Tests > cart > adds more
    ! mochat/cart.spec.cjs > Mocha Tests > hooks > "before all" hook for "never runs"
    - mochat/cart.spec.cjs > Mocha Tests > cart > later
    - mochat/cart.spec.cjs > Mocha Tests > cart > someday
    complete
    "#);
}

#[test]
fn vitest_and_node_in_junit_name_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-node.xml"), @r"
    + adds
    + parent > child
    + parent > child # odd \ one
    + suite > deep > same
    + suite > inner
    + suite > same
    x adds more
    ! nodet/broken.test.mjs
    x suite > inner fails
    - later
    - someday
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-vitest.xml"), @"
    + vt/cart.test.mjs > cart > adds
    + vt/cart.test.mjs > cart > nested > deep > adds one to 1
    + vt/cart.test.mjs > cart > nested > deep > adds one to 2
    + vt/cart.test.mjs > cart > nested > deep > same
    + vt/cart.test.mjs > cart > same
    + vt/cart.test.mjs > cart > slow
    + vt/cart.test.mjs > top level 3ms
    + vt/other.test.mjs > same
    ! vt/broken.test.mjs
    x vt/cart.test.mjs > cart > adds more
    - vt/cart.test.mjs > cart > later
    - vt/cart.test.mjs > cart > someday
    complete
    ");
}

#[test]
fn pytest_in_junit_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-pytest-xunit1.xml"), @"
    + tests/test_other.py > pytest > tests.test_other > test_same
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Junit, "junit/names-pytest.xml"), @r"
    + pytest > tests.test_cart > test_adds[1-2]
    + pytest > tests.test_cart > test_texts[/etc/passwd]
    + pytest > tests.test_cart > test_texts[a - b]
    + pytest > tests.test_cart > test_texts[a[0]]
    + pytest > tests.test_cart > test_texts[p\xe4\xdf]
    + pytest > tests.test_cart > test_texts[tests/x.py::y PASSED]
    + pytest > tests.test_cart > test_texts[two words]
    + pytest > tests.test_cart > test_texts[x::y]
    + pytest > tests.test_cart.OldCase > test_same
    + pytest > tests.test_cart.TestFirst > test_prints
    + pytest > tests.test_cart.TestFirst > test_same
    + pytest > tests.test_cart.TestFirst > test_xpassed
    + pytest > tests.test_cart.TestFirst.TestInner > test_same
    + pytest > tests.test_other > test_same
    ! pytest > tests.test_broken
    x pytest > tests.test_cart > test_adds[2-5]
    x pytest > tests.test_cart > test_setup_error
    x pytest > tests.test_cart > test_teardown_error
    x pytest > tests.test_cart.OldCase > test_sub
    - pytest > tests.test_cart.TestFirst > test_skipped
    - pytest > tests.test_cart.TestFirst > test_xfailed
    complete
    ");
}

#[test]
fn pytest_names_failures_and_its_summary_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Pytest, "pytest/names-default.txt"), @"
    x tests/test_cart.py::OldCase::test_sub
    x tests/test_cart.py::test_adds[2-5]
    x tests/test_cart.py::test_setup_error
    x tests/test_cart.py::test_teardown_error
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Pytest, "pytest/names-noisy.txt"), @r"
    + tests/test_cart.py::TestFirst::TestInner::test_same
    + tests/test_cart.py::TestFirst::test_same
    + tests/test_cart.py::test_adds[1-2]
    + tests/test_cart.py::test_texts[/etc/passwd]
    + tests/test_cart.py::test_texts[a - b]
    + tests/test_cart.py::test_texts[a[0]]
    + tests/test_cart.py::test_texts[p\xe4\xdf]
    + tests/test_cart.py::test_texts[tests/x.py::y PASSED]
    + tests/test_cart.py::test_texts[two words]
    + tests/test_cart.py::test_texts[x::y]
    x tests/test_cart.py::OldCase::test_sub
    x tests/test_cart.py::test_adds[2-5]
    x tests/test_cart.py::test_setup_error
    x tests/test_cart.py::test_teardown_error
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Pytest, "pytest/names-summary.txt"), @r"
    + tests/test_cart.py::OldCase::test_same
    + tests/test_cart.py::TestFirst::TestInner::test_same
    + tests/test_cart.py::TestFirst::test_prints
    + tests/test_cart.py::TestFirst::test_same
    + tests/test_cart.py::TestFirst::test_xpassed
    + tests/test_cart.py::test_adds[1-2]
    + tests/test_cart.py::test_texts[/etc/passwd]
    + tests/test_cart.py::test_texts[a - b]
    + tests/test_cart.py::test_texts[a[0]]
    + tests/test_cart.py::test_texts[p\xe4\xdf]
    + tests/test_cart.py::test_texts[tests/x.py::y PASSED]
    + tests/test_cart.py::test_texts[two words]
    + tests/test_cart.py::test_texts[x::y]
    + tests/test_other.py::test_same
    x tests/test_cart.py::OldCase::test_sub
    x tests/test_cart.py::test_adds[2-5]
    x tests/test_cart.py::test_setup_error
    x tests/test_cart.py::test_teardown_error
    - tests/test_cart.py::TestFirst::test_xfailed
    complete
    ");
}

#[test]
fn verbose_pytest_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Pytest, "pytest/names-verbose.txt"), @r"
    + tests/test_cart.py::OldCase::test_same
    + tests/test_cart.py::TestFirst::TestInner::test_same
    + tests/test_cart.py::TestFirst::test_prints
    + tests/test_cart.py::TestFirst::test_same
    + tests/test_cart.py::TestFirst::test_xpassed
    + tests/test_cart.py::test_adds[1-2]
    + tests/test_cart.py::test_texts[/etc/passwd]
    + tests/test_cart.py::test_texts[a - b]
    + tests/test_cart.py::test_texts[a[0]]
    + tests/test_cart.py::test_texts[p\xe4\xdf]
    + tests/test_cart.py::test_texts[tests/x.py::y PASSED]
    + tests/test_cart.py::test_texts[two words]
    + tests/test_cart.py::test_texts[x::y]
    + tests/test_other.py::test_same
    ! tests/test_broken.py
    x tests/test_cart.py::OldCase::test_sub
    x tests/test_cart.py::test_adds[2-5]
    x tests/test_cart.py::test_setup_error
    x tests/test_cart.py::test_teardown_error
    - tests/test_cart.py::TestFirst::test_skipped
    - tests/test_cart.py::TestFirst::test_xfailed
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Pytest, "pytest/names-workers.txt"), @r"
    + tests/test_cart.py::OldCase::test_same
    + tests/test_cart.py::TestFirst::TestInner::test_same
    + tests/test_cart.py::TestFirst::test_prints
    + tests/test_cart.py::TestFirst::test_same
    + tests/test_cart.py::TestFirst::test_xpassed
    + tests/test_cart.py::test_adds[1-2]
    + tests/test_cart.py::test_texts[/etc/passwd]
    + tests/test_cart.py::test_texts[a - b]
    + tests/test_cart.py::test_texts[a[0]]
    + tests/test_cart.py::test_texts[p\xe4\xdf]
    + tests/test_cart.py::test_texts[tests/x.py::y PASSED]
    + tests/test_cart.py::test_texts[two words]
    + tests/test_cart.py::test_texts[x::y]
    + tests/test_other.py::test_same
    x tests/test_cart.py::OldCase::test_sub
    x tests/test_cart.py::test_adds[2-5]
    x tests/test_cart.py::test_setup_error
    x tests/test_cart.py::test_teardown_error
    - tests/test_cart.py::TestFirst::test_skipped
    - tests/test_cart.py::TestFirst::test_xfailed
    complete
    ");
}

#[test]
fn mocha_and_ava_in_tap_name_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-ava.tap"), @"
    + cart › adds
    + cart › known bug
    + cart › slow
    + cart › with › sign
    + other › adds
    x cart › adds more
    - cart › later
    - cart › someday
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-mocha.tap"), @r#"
    + cart adds
    + cart nested same
    + cart nested slow
    + cart same
    + dup twice
    + top level
    x cart adds more
    x hooks "before all" hook for "never runs"
    - cart later
    - cart someday
    complete
    "#);
}

#[test]
fn bats_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-bats-noisy.tap"), @"
    + adds
    + prints ok
    x adds more
    - later
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-bats-timing.tap"), @"
    + adds
    + prints ok
    x adds more
    - later
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-bats.tap"), @"
    + adds
    + prints ok
    x adds more
    - later
    complete
    ");
}

/// An exception takes the place of the assertion's name, so only the comment names the same test in every run.
#[test]
fn the_comments_of_tape_name_tests() {
    let names = "
    + arguments class
    + booleans and arrays
    + buffers
    + dates
    + equal
    + nested nulls
    + non-objects
    + not equal
    + strict equal
    + test the arguments shim
    + test the keys shim
    x null == undefined
    complete";
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    for format in [ReportFormat::Text, ReportFormat::Tap] {
        assert_eq!(lines(&read_names(format, "text/tape.txt")), lines(names.trim()));
    }
    let twice = "TAP version 13\n# a\nok 1 x\n\n1..1\n# tests 1\n# pass  1\n\nTAP version 13\n# b\nok 1 x\n# c\nok 2 x\nnot ok 3 Error: y\n# d\n# e\nok 4 z # SKIP\n\n1..4\n# tests 4\n# fail  1\n";
    let report = read_report(ReportFormat::Text, twice.as_bytes(), &complete_context());
    insta::assert_snapshot!(format_names(&report), @"
    + a
    + b
    x c
    - e
    complete
    ");
}

#[test]
fn node_and_vitest_in_tap_name_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-node.tap"), @r"
    + adds
    + parent > child
    + parent > child # odd \ one
    + suite > deep > same
    + suite > inner
    + suite > same
    x adds more
    ! nodet/broken.test.mjs
    x suite > inner fails
    - later
    - someday
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-vitest-flat.tap"), @"
    + vt/cart.test.mjs > cart > adds
    + vt/cart.test.mjs > cart > nested > deep > adds one to 1
    + vt/cart.test.mjs > cart > nested > deep > adds one to 2
    + vt/cart.test.mjs > cart > nested > deep > same
    + vt/cart.test.mjs > cart > same
    + vt/cart.test.mjs > cart > slow
    + vt/cart.test.mjs > top level 3ms
    + vt/other.test.mjs > same
    ! vt/broken.test.mjs
    x vt/cart.test.mjs > cart > adds more
    - vt/cart.test.mjs > cart > later
    - vt/cart.test.mjs > cart > someday
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Tap, "tap/names-vitest.tap"), @"
    + vt/cart.test.mjs > cart > adds
    + vt/cart.test.mjs > cart > nested > deep > adds one to 1
    + vt/cart.test.mjs > cart > nested > deep > adds one to 2
    + vt/cart.test.mjs > cart > nested > deep > same
    + vt/cart.test.mjs > cart > same
    + vt/cart.test.mjs > cart > slow
    + vt/cart.test.mjs > top level 3ms
    + vt/other.test.mjs > same
    ! vt/broken.test.mjs
    x vt/cart.test.mjs > cart > adds more
    - vt/cart.test.mjs > cart > later
    - vt/cart.test.mjs > cart > someday
    complete
    ");
}

#[test]
fn ava_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-ava-passed.txt"), @"
    + adds
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-ava.txt"), @"
    + cart > adds
    + cart > slow
    + cart > with > sign
    + other > adds
    x cart > adds more
    - cart > known bug
    - cart > later
    - cart > someday
    complete
    ");
}

#[test]
fn jest_names_tests_or_files() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-jest-default.txt"), @"
    + jestt/other.test.js
    ! jestt/broken.test.js
    x jestt/cart.test.js
    x jestt/cart.test.js > cart > adds more
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-jest-verbose.txt"), @"
    + jestt/cart.test.js > cart > adds
    + jestt/cart.test.js > cart > nested (deep) > adds one to 1
    + jestt/cart.test.js > cart > nested (deep) > adds one to 2
    + jestt/cart.test.js > cart > nested (deep) > same
    + jestt/cart.test.js > cart > same
    + jestt/cart.test.js > top level > odd
    + jestt/other.test.js > same
    ! jestt/broken.test.js
    x jestt/cart.test.js > cart > adds more
    - jestt/cart.test.js > cart > later
    - jestt/cart.test.js > cart > someday
    complete
    ");
}

#[test]
fn mocha_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-mocha-noisy.txt"), @r#"
    x cart > adds more
    ! hooks > "before all" hook for "never runs"
    - cart > later
    - cart > someday
    incomplete
    "#);
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-mocha.txt"), @r#"
    + cart > adds
    + cart > nested > same
    + cart > nested > slow
    + cart > same
    + dup > twice
    + top level
    x cart > adds more
    ! hooks > "before all" hook for "never runs"
    - cart > later
    - cart > someday
    complete
    "#);
}

#[test]
fn node_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-node-noisy.txt"), @"
    x adds more
    ! nodet/broken.test.mjs
    x suite > inner fails
    - later
    - someday
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-node.txt"), @r"
    + adds
    + parent > child
    + parent > child # odd \ one
    + suite > deep > same
    + suite > inner
    + suite > same
    x adds more
    ! nodet/broken.test.mjs
    x suite > inner fails
    - later
    - someday
    complete
    ");
}

#[test]
fn vitest_names_tests_or_files() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-vitest-default.txt"), @"
    + vt/other.test.mjs
    x vt/broken.test.mjs
    x vt/cart.test.mjs
    x vt/cart.test.mjs > cart > adds more
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-vitest-verbose.txt"), @"
    + vt/cart.test.mjs > cart > adds
    + vt/cart.test.mjs > cart > nested > deep > adds one to 1
    + vt/cart.test.mjs > cart > nested > deep > adds one to 2
    + vt/cart.test.mjs > cart > nested > deep > same
    + vt/cart.test.mjs > cart > same
    + vt/cart.test.mjs > cart > slow
    + vt/cart.test.mjs > top level 3ms
    + vt/other.test.mjs > same
    ! vt/broken.test.mjs
    x vt/cart.test.mjs > cart > adds more
    - vt/cart.test.mjs > cart > later
    - vt/cart.test.mjs > cart > someday
    complete
    ");
}

#[test]
fn nextest_names_tests_by_binary() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-nextest-all.txt"), @"
    + shop > tests::adds
    + shop > tests::panics
    + shop::bin/shop > tests::adds
    + shop::cart > adds
    x shop > tests::adds_more
    - shop > tests::ignored
    - shop > tests::ignored_plainly
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-nextest.txt"), @"
    + shop > tests::adds
    + shop > tests::panics
    + shop::bin/shop > tests::adds
    + shop::cart > adds
    x shop > tests::adds_more
    complete
    ");
}

#[test]
fn unittest_names_tests() {
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-unittest-default.txt"), @"
    ! unit.test_import
    ! unit.test_unit.Broken.setUpClass
    x unit.test_unit.CartCase.test_fails
    x unit.test_unit.CartCase.test_raises
    x unit.test_unit.CartCase.test_sub
    x unit.test_unit.CartCase.test_unexpected
    incomplete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-unittest-noisy.txt"), @"
    + unit.test_other.CartCase.test_plain
    + unit.test_unit.CartCase.test_adds
    + unit.test_unit.CartCase.test_plain
    + unit.test_unit.CartCase.test_prints
    + unit.test_unit.CartCase.test_prints_out
    ! unit.test_import
    ! unit.test_unit.Broken.setUpClass
    x unit.test_unit.CartCase.test_fails
    x unit.test_unit.CartCase.test_raises
    x unit.test_unit.CartCase.test_sub
    x unit.test_unit.CartCase.test_unexpected
    - unit.test_unit.CartCase.test_expected
    - unit.test_unit.CartCase.test_skipped
    complete
    ");
    insta::assert_snapshot!(read_names(ReportFormat::Text, "text/names-unittest-verbose.txt"), @"
    + unit.test_other.CartCase.test_plain
    + unit.test_unit.CartCase.test_adds
    + unit.test_unit.CartCase.test_plain
    + unit.test_unit.CartCase.test_prints
    + unit.test_unit.CartCase.test_prints_out
    ! unit.test_import
    ! unit.test_unit.Broken.setUpClass
    x unit.test_unit.CartCase.test_fails
    x unit.test_unit.CartCase.test_raises
    x unit.test_unit.CartCase.test_sub
    x unit.test_unit.CartCase.test_unexpected
    - unit.test_unit.CartCase.test_expected
    - unit.test_unit.CartCase.test_skipped
    complete
    ");
}

/// R-V1b: the tests of two checkouts have the same names, however the path of a checkout was written.
#[test]
fn names_do_not_contain_the_path_of_the_project() {
    for root in ["/tmp/now/project", "/tmp/now/project/"] {
        let root = Path::new(root);
        let context = ReportContext {
            root,
            cwd: root,
            extent: OutputExtent::Complete,
            is_file: crate::findings::FileProbe::default(),
            is_excluded: None,
        };
        let names = NameCollector::new(&context);
        for (part, expected) in [
            ("/tmp/now/project/test/cart.js", "test/cart.js"),
            ("file:///tmp/now/project/test/cart.js", "test/cart.js"),
            ("/tmp/now/projects/a.js", "/tmp/now/projects/a.js"),
        ] {
            assert_eq!(names.stable_name(&[part]), expected, "{root:?}");
        }
    }
}
