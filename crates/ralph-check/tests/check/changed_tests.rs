//! Changes to tests that may be right: they are listed for a person and hold nothing.

use super::test_integrity::{added, check_all_settings, check_all_tests, edited};

/// R-S5a: changed expectations of existing tests are listed with file and line.
#[test]
fn changed_expectations_are_listed() {
    insta::assert_snapshot!(check_all_tests(&[
        ("another literal", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    assert add(1) == 3\n")]),
        ("another string", &[edited("a.test.ts", "it('adds', () => {\n  expect(name('a')).toBe('x')\n})", "it('adds', () => {\n  expect(name('a')).toBe('y z')\n})")]),
        ("a looser matcher", &[edited("a.test.ts", "it('adds', () => {\n  expect(add(1)).toEqual([1])\n})", "it('adds', () => {\n  expect(add(1)).toBeDefined()\n})")]),
        ("a looser comparison", &[edited("src/a.rs", "#[test]\nfn adds() {\n    assert_eq!(add(1), 2);\n}", "#[test]\nfn adds() {\n    assert!(add(1) > 0);\n}")]),
        ("a wider error", &[edited("test_a.py", "def test_adds():\n    with pytest.raises(ValueError):\n        add(None)\n", "def test_adds():\n    with pytest.raises(Exception):\n        add(None)\n")]),
        ("a case is dropped", &[edited("test_a.py", "@pytest.mark.parametrize('n', [1, 2, (3, 4)])\ndef test_adds(n):\n    assert add(n)\n", "@pytest.mark.parametrize('n', [1, 2])\ndef test_adds(n):\n    assert add(n)\n")]),
        ("a row is dropped", &[edited("a_test.go", "func TestAdd(t *testing.T) {\n\trows := []row{\n\t\t{1, 2},\n\t\t{2, 3},\n\t}\n\tcheckRows(t, rows)\n}\n", "func TestAdd(t *testing.T) {\n\trows := []row{\n\t\t{1, 2},\n\t}\n\tcheckRows(t, rows)\n}\n")]),
        ("a table of jest is shorter", &[edited("a.test.ts", "it.each([[1, 2], [2, 3]])('adds %d', (a) => { expect(add(a)).toBe(3) })", "it.each([[1, 2]])('adds %d', (a) => { expect(add(a)).toBe(3) })")]),
        ("one assertion becomes a tautology", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n    assert add(2) == 3\n", "def test_adds():\n    assert add(1) == 2\n    assert 1 == 1\n")]),
        ("a shared helper asserts less", &[edited("tests/helpers.py", "def check_cart(cart):\n    assert cart.total == 3\n    assert cart.items\n", "def check_cart(cart):\n    assert cart.items\n")]),
        ("a test is rewritten under another name", &[edited("test_a.py", "def test_adds():\n    cart = Cart(discount=2)\n    assert cart.total() == 3\n", "def test_discount_is_subtracted():\n    cart = Cart(discount=2, tax=1)\n    cart.add('x')\n    total = cart.total()\n    assert total == 4\n")]),
        ("formatting", &[edited("a.test.ts", "it('adds', () => {\n  expect(add(1)).toEqual([1])\n})", "it('adds', () => {\n  expect(\n    add(1)).toEqual([1]);\n})")]),
    ]), @"
    another literal
        test_a.py:2 expectation-changed: warning: `test_adds` expects another value: was `assert add(1) == 2`, now `assert add(1) == 3`
    another string
        a.test.ts:2 expectation-changed: warning: `adds` expects another value: was `expect(name('a')).toBe('x')`, now `expect(name('a')).toBe('y z')`
    a looser matcher
        a.test.ts:2 expectation-changed: warning: `adds` is looser: was `expect(add(1)).toEqual([1])`, now `expect(add(1)).toBeDefined()`
    a looser comparison
        src/a.rs:3 expectation-changed: warning: `adds` is looser: was `assert_eq!(add(1), 2)`, now `assert!(add(1) > 0)`
    a wider error
        test_a.py:2 expectation-changed: warning: `test_adds` accepts more errors: was `raises(ValueError):`, now `raises(Exception):`
    a case is dropped
        test_a.py:2 cases-dropped: warning: `test_adds` has 2 cases, down from 3
    a row is dropped
        a_test.go:1 cases-dropped: warning: `TestAdd` has 1 case, down from 2
    a table of jest is shorter
        a.test.ts:1 cases-dropped: warning: `adds %d` has 1 case, down from 2
    one assertion becomes a tautology
        test_a.py:1 assertions-removed: `test_adds` makes 1 assertion, down from 2
    a shared helper asserts less
        tests/helpers.py:1 helper-weakened: warning: `check_cart` makes 1 assertion, down from 2, on behalf of the tests that call it
    a test is rewritten under another name
        test_a.py:1 test-replaced: warning: `test_adds` was rewritten as `test_discount_is_subtracted` or merged into it
    formatting
        fine
    ");
}

/// R-S5a: settings of runners that leave tests out.
#[test]
fn narrowed_settings_of_runners_are_detected() {
    insta::assert_snapshot!(check_all_settings(&[
        ("addopts -k", &[edited("setup.cfg", "[tool:pytest]\naddopts = -ra\n", "[tool:pytest]\naddopts = -ra\n    -k \"not slow\"\n")]),
        ("addopts -m", &[edited("tox.ini", "[pytest]\naddopts = -ra\n", "[pytest]\naddopts = -ra -m fast\n")]),
        ("addopts --ignore", &[edited("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-ra\"\n", "[tool.pytest.ini_options]\naddopts = \"-ra --ignore=tests/test_a.py\"\n")]),
        ("addopts in a list", &[edited("pyproject.toml", "[tool.pytest.ini_options]\naddopts = [\n  \"-ra\",\n]\nminversion = \"7\"\n", "[tool.pytest.ini_options]\naddopts = [\n  \"-ra\",\n  \"--deselect=tests/test_a.py::test_b\",\n]\nminversion = \"7\"\n")]),
        ("a new pytest.ini", &[added("pytest.ini", "[pytest]\naddopts = -k fast\n")]),
        ("a new pytest.ini without options", &[added("pytest.ini", "[pytest]\n")]),
        ("python_files", &[edited("pyproject.toml", "[tool.pytest.ini_options]\n", "[tool.pytest.ini_options]\npython_files = \"check_*.py\"\n")]),
        ("python_files that also match more", &[edited("pyproject.toml", "[tool.pytest.ini_options]\n", "[tool.pytest.ini_options]\npython_files = [\"test_*.py\", \"check_*.py\"]\n")]),
        ("an option that selects nothing", &[edited("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-ra\"\n", "[tool.pytest.ini_options]\naddopts = \"-ra --strict-markers\"\n")]),
        ("the same option as before", &[edited("setup.cfg", "[tool:pytest]\naddopts = -m fast\n", "[tool:pytest]\naddopts = -ra -m fast\n")]),
        ("another section", &[edited("tox.ini", "[testenv]\ncommands = pytest\n", "[testenv]\ncommands = pytest\n[other]\naddopts = -k x\n")]),
        ("vitest exclude", &[edited("vitest.config.ts", "export default {\n  test: {\n    exclude: ['a'],\n  },\n}", "export default {\n  test: {\n    exclude: ['a', 'src/b.test.ts'],\n  },\n}")]),
        ("vite exclude of another kind", &[edited("vite.config.ts", "export default {\n  optimizeDeps: {\n    exclude: ['a'],\n  },\n}", "export default {\n  optimizeDeps: {\n    exclude: ['a', 'b'],\n  },\n}")]),
        ("vitest projects", &[edited("vitest.config.ts", "export default {\n  test: {\n    projects: ['packages/a', 'packages/b'],\n  },\n}", "export default {\n  test: {\n    projects: ['packages/a'],\n  },\n}")]),
        ("jest roots", &[edited("jest.config.js", "module.exports = {\n  roots: ['<rootDir>/src', '<rootDir>/test'],\n}", "module.exports = {\n  roots: ['<rootDir>/src'],\n}")]),
        ("tap timeout", &[edited(".taprc", "timeout: 30\n", "timeout: 600\n"), edited("package.json", "{\"tap\": {\"timeout\": 30}}", "{\"tap\": {\"timeout\": 300}}")]),
        ("maven ignores failures", &[edited("pom.xml", "<properties></properties>", "<properties><maven.test.failure.ignore>true</maven.test.failure.ignore></properties>"), edited("Makefile", "test:\n\tmvn verify\n", "test:\n\tmvn verify -Dmaven.test.failure.ignore=true\n")]),
    ]), @"
    addopts -k
        setup.cfg:2 selection-narrowed: `addopts` has `-k` now, which leaves tests out
    addopts -m
        tox.ini:2 selection-narrowed: `addopts` has `-m` now, which leaves tests out
    addopts --ignore
        pyproject.toml:2 selection-narrowed: `addopts` has `--ignore=tests/test_a.py` now, which leaves tests out
    addopts in a list
        pyproject.toml:2 selection-narrowed: `addopts` has `--deselect=tests/test_a.py::test_b` now, which leaves tests out
    a new pytest.ini
        pytest.ini:1 selection-narrowed: warning: is new: pytest no longer reads its settings from pyproject.toml, tox.ini or setup.cfg
        pytest.ini:2 selection-narrowed: `addopts` has `-k` now, which leaves tests out
    a new pytest.ini without options
        pytest.ini:1 selection-narrowed: warning: is new: pytest no longer reads its settings from pyproject.toml, tox.ini or setup.cfg
    python_files
        pyproject.toml:2 selection-narrowed: `python_files` is `check_*.py` now, without `test_*.py *_test.py`
    python_files that also match more
        fine
    an option that selects nothing
        fine
    the same option as before
        fine
    another section
        fine
    vitest exclude
        vitest.config.ts:3 selection-narrowed: `exclude` grew from 1 to 2 entries: `src/b.test.ts`
    vite exclude of another kind
        vite.config.ts:3 lint-relaxed: `exclude` grew from 1 to 2 entries: `b`
    vitest projects
        vitest.config.ts:3 selection-narrowed: `projects` selects 1 entry instead of 2: `packages/b` is gone
    jest roots
        jest.config.js:2 selection-narrowed: `roots` selects 1 entry instead of 2: `<rootDir>/test` is gone
    tap timeout
        .taprc:1 timeout-raised: `timeout` was 30, now 600
        package.json:1 timeout-raised: `timeout` was 30, now 300
    maven ignores failures
        Makefile:2 check-ignored: `-Dmaven.test.failure.ignore` hides failures: was `mvn verify`, now `mvn verify -Dmaven.test.failure.ignore=true`
        pom.xml:1 check-ignored: `maven.test.failure.ignore` is now true (was not set)
    ");
}

#[test]
fn harmless_settings_of_runners_are_accepted() {
    insta::assert_snapshot!(check_all_settings(&[
        ("a matrix of a workflow", &[edited(".github/workflows/a.yml", "matrix:\n  node: [1]\n", "matrix:\n  node: [1]\n  exclude:\n    - node: 1\n")]),
        ("a key below the list", &[edited(".pre-commit-config.yaml", "- id: a\n- id: b\n", "- id: a\n  exclude: docs\n- id: b\n")]),
        ("a negated pattern", &[edited("jest.config.js", "module.exports = {\n  testPathIgnorePatterns: ['a'],\n}", "module.exports = {\n  testPathIgnorePatterns: ['a', '!a/b'],\n}")]),
        ("another runner", &[edited("package.json", "{\"scripts\": {\n\"test\": \"ava\"\n}}", "{\"scripts\": {\n\"test\": \"node --test test/a.js\"\n}}")]),
        ("a file for the runner", &[edited("package.json", "{\"scripts\": {\n\"test\": \"mocha\"\n}}", "{\"scripts\": {\n\"test\": \"mocha --require test/env.js\"\n}}")]),
    ]), @"
    a matrix of a workflow
        fine
    a key below the list
        .pre-commit-config.yaml:2 lint-relaxed: `exclude` grew from 0 to 1 entries: `docs`
    a negated pattern
        fine
    another runner
        fine
    a file for the runner
        fine
    ");
}

/// R-S5a: tests in C and for shells.
#[test]
fn weakened_c_and_bats_tests_are_detected() {
    const UNITY: &str = "static void adds(void) { TEST_ASSERT_EQUAL(2, add(1)); }\nstatic void takes(void) { TEST_ASSERT_EQUAL(0, take(1)); }\nint main(void) {\n    RUN_TEST(adds);\n    RUN_TEST(takes);\n}\n";
    const GTEST: &str = "TEST(Sum, Adds) {\n  EXPECT_EQ(add(1), 2);\n}\n";
    const BATS: &str = "@test \"adds\" {\n  run add 1\n  [ \"$output\" = 2 ]\n}\n";
    insta::assert_snapshot!(check_all_tests(&[
        ("c: nothing", &[edited("tests/sum_tests.c", UNITY, UNITY)]),
        ("c: a test is no longer run", &[edited("tests/sum_tests.c", UNITY, "static void adds(void) { TEST_ASSERT_EQUAL(2, add(1)); }\nstatic void takes(void) { TEST_ASSERT_EQUAL(0, take(1)); }\nint main(void) {\n    RUN_TEST(takes);\n}\n")]),
        ("c: a test is emptied", &[edited("tests/sum_tests.c", UNITY, "static void adds(void) { add(1); }\nstatic void takes(void) { TEST_ASSERT_EQUAL(0, take(1)); }\nint main(void) {\n    RUN_TEST(adds);\n    RUN_TEST(takes);\n}\n")]),
        ("c: a test is ignored", &[edited("tests/sum_tests.c", UNITY, "static void adds(void) { TEST_IGNORE(); TEST_ASSERT_EQUAL(2, add(1)); }\nstatic void takes(void) { TEST_ASSERT_EQUAL(0, take(1)); }\nint main(void) {\n    RUN_TEST(adds);\n    RUN_TEST(takes);\n}\n")]),
        ("c++: a test is disabled", &[edited("sum_test.cc", GTEST, "TEST(Sum, DISABLED_Adds) {\n  EXPECT_EQ(add(1), 2);\n}\n")]),
        ("c++: a test is compiled out", &[edited("sum_test.cc", GTEST, "#if 0\nTEST(Sum, Adds) {\n  EXPECT_EQ(add(1), 2);\n}\n#endif\n")]),
        ("c++: a test is deleted", &[edited("sum_test.cc", GTEST, "// nothing\n")]),
        ("c: no test file", &[edited("src/sum.c", UNITY, "")]),
        ("bats: nothing", &[edited("test/a.bats", BATS, BATS)]),
        ("bats: a test is deleted", &[edited("test/a.bats", BATS, "# nothing\n")]),
        ("bats: a test is skipped", &[edited("test/a.bats", BATS, "@test \"adds\" {\n  skip \"flaky\"\n  run add 1\n  [ \"$output\" = 2 ]\n}\n")]),
        ("bats: a test is emptied", &[edited("test/a.bats", BATS, "@test \"adds\" {\n  true\n}\n")]),
        ("bats: an assertion is deleted", &[edited("test/a.bats", BATS, "@test \"adds\" {\n  run add 1\n}\n")]),
        ("bats: one test is focused", &[edited("test/a.bats", BATS, "# bats test_tags=bats:focus\n@test \"adds\" {\n  run add 1\n  [ \"$output\" = 2 ]\n}\n")]),
        ("bats: a fixture", &[edited("test/fixtures/a.bats", BATS, "# nothing\n")]),
    ]), @"
    c: nothing
        fine
    c: a test is no longer run
        tests/sum_tests.c test-removed: `adds` was removed: no test in the change has its name or body
    c: a test is emptied
        tests/sum_tests.c:1 test-emptied: `adds` makes no assertions, down from 1
    c: a test is ignored
        tests/sum_tests.c:1 test-skipped: `adds` no longer runs or counts: `TEST_IGNORE`
    c++: a test is disabled
        sum_test.cc:1 test-skipped: `Sum.DISABLED_Adds` no longer runs or counts: `DISABLED_`
    c++: a test is compiled out
        sum_test.cc:2 test-skipped: `Sum.Adds` no longer runs or counts: `#if 0`
    c++: a test is deleted
        sum_test.cc test-removed: `Sum.Adds` was removed: no test in the change has its name or body
    c: no test file
        fine
    bats: nothing
        fine
    bats: a test is deleted
        test/a.bats test-removed: `adds` was removed: no test in the change has its name or body
    bats: a test is skipped
        test/a.bats:1 test-skipped: `adds` no longer runs or counts: `skip`
    bats: a test is emptied
        test/a.bats:1 test-emptied: `adds` makes no assertions, down from 2
    bats: an assertion is deleted
        test/a.bats:1 assertions-removed: `adds` makes 1 assertion, down from 2
    bats: one test is focused
        test/a.bats:2 test-focused: `# bats test_tags=bats:focus` on `adds` excludes every other test
    bats: a fixture
        fine
    ");
}

/// R-S5a: qualified names, constant conditions, titles in variables and hooks are read as what they do.
#[test]
fn unusual_spellings_are_understood() {
    insta::assert_snapshot!(check_all_tests(&[
        ("java: a qualified annotation", &[edited("ATest.java", "class ATest {\n @Test void adds() { assertEquals(3, add(1)); }\n}", "class ATest {\n @org.junit.jupiter.api.Disabled(\"x\") @Test void adds() { assertEquals(3, add(1)); }\n}")]),
        ("python: a constant condition", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "@pytest.mark.skipif(not False, reason='x')\ndef test_adds():\n    assert add(1) == 2\n")]),
        ("python: an assertion is under a constant condition", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "def test_adds():\n    if 1 == 2 and ready:\n        assert add(1) == 2\n")]),
        ("python: a condition that is not constant", &[edited("test_a.py", "def test_adds():\n    assert add(1) == 2\n", "@pytest.mark.skipif(not WIN, reason='x')\ndef test_adds():\n    assert add(1) == 2\n")]),
        ("go: an example that is not run", &[edited("a_test.go", "package a\nfunc Example() {\n\tadd(1)\n}\n", "package a\n")]),
        ("go: an example with its output", &[edited("a_test.go", "package a\nfunc Example() {\n\tfmt.Println(add(1))\n\t// Output: 2\n}\n", "package a\n")]),
        ("javascript: a title in a variable", &[edited("a.test.ts", "it('adds', () => { expect(add(1)).toBe(2) })", "for (const title of titles) {\n  it(title, () => { expect(add(1)).toBe(2) })\n}")]),
        ("python: a hook sorts", &[edited("conftest.py", "import os\n", "def pytest_collection_modifyitems(items):\n    items.sort()\n")]),
    ]), @"
    java: a qualified annotation
        ATest.java:2 test-skipped: `ATest.adds` no longer runs or counts: `@Disabled`
    python: a constant condition
        test_a.py:2 test-skipped: `test_adds` no longer runs or counts: `@pytest.mark.skipif`
    python: an assertion is under a constant condition
        test_a.py:1 test-emptied: `test_adds` makes no assertions, down from 1
    python: a condition that is not constant
        test_a.py:2 test-conditional: warning: `test_adds` no longer always runs: `@pytest.mark.skipif`
    go: an example that is not run
        fine
    go: an example with its output
        a_test.go test-removed: `Example` was removed: no test in the change has its name or body
    javascript: a title in a variable
        fine
    python: a hook sorts
        conftest.py:1 collection-narrowed: warning: `pytest_collection_modifyitems` is new: it can keep tests from being collected
    ");
}
