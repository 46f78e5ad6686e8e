//! Tests that adversarial reviewers write, and gates that an agent judge has run: both in checkouts of the change.

use crate::adjustments::mask_judge_times;
use crate::sandbox::{SESSION, Sandbox};
use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};

const GATE: &str =
    "[[gate]]\nname = \"tests\"\nrun = [\"python3\", \"-m\", \"unittest\", \"-v\"]\n\n";
const REVIEW: &str = "[[judge]]\nname = \"review\"\nkind = \"adversarial\"\nreviewers = 1\nbackend = { command = [\"sh\", \"judge.sh\"] }\n";
const OLD_CART: &str = "def total(prices):\n    return sum(prices)\n";
/// A rebate above the sum becomes a charge.
const NEW_CART: &str = "def total(prices, rebate=0):\n    return abs(sum(prices) - rebate)\n";

const UNCONFIRMED: &str = "? review: adversarial judge: unknown: 1 reviewer, 1 unmet; no finding was confirmed, 1 unconfirmed and dropped";
const DROPPED: &str =
    " /     dropped: cart.py:2: a rebate above the sum is charged (no other reviewer confirmed it)";

/// A change with a defect that its own tests do not show, and a reviewer whose findings no other reviewer confirms.
struct ReviewedCart {
    sandbox: Sandbox,
}

impl ReviewedCart {
    fn new(judge: &str) -> Self {
        let sandbox = Sandbox::new();
        let root = sandbox.root().display().to_string();
        sandbox.write("ralph.toml", format!("{GATE}{judge}"));
        sandbox.write("cart.py", OLD_CART);
        sandbox.write("tests/__init__.py", "");
        sandbox.write("tests/test_cart.py", case("total([1, 2]), 3"));
        sandbox.write(
            "judge.sh",
            format!(
                "cat > {root}/case.json\nif grep -q '\"confirm\":{{' {root}/case.json; \
                 then echo '{{\"verdict\":\"met\"}}'; \
                 elif test -e {root}/again.json && grep -q '\"gate_results\"' {root}/case.json; \
                 then cat {root}/again.json; else cat {root}/answer.json; fi\n"
            ),
        );
        sandbox.approve_policy();
        sandbox.commit();
        Self { sandbox }
    }

    fn change(&self) {
        self.sandbox.write("cart.py", NEW_CART);
        self.sandbox.write("tests/test_rebate.py", case("total([5], rebate=2), 3"));
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.sandbox.root().join(name), text).unwrap();
    }

    /// The reviewer answers with one finding and this test.
    fn answer_with(&self, path: &str, content: &str) {
        let finding = json!({ "file": "cart.py", "line": 2, "claim": "a rebate above the sum is charged",
            "severity": "error", "quote": "return abs(sum(prices) - rebate)",
            "test": { "path": path, "content": content } });
        self.write(
            "answer.json",
            &json!({ "verdict": "unmet", "findings": [finding] }).to_string(),
        );
    }

    fn last_case(&self) -> Value {
        let path = self.sandbox.root().join("case.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn mask(&self, text: &str) -> String {
        let took = Regex::new(r"(iterations?) and \d+ m?s\b").unwrap();
        let hash = Regex::new(r"prompt [0-9a-f]{12}").unwrap();
        let text = took.replace_all(&self.sandbox.normalize(text), "$1 and [took]").into_owned();
        mask_judge_times(&hash.replace_all(&text, "prompt [hash]"))
    }

    fn judge_by_hand(&self) -> String {
        self.mask(&self.sandbox.ralph(["judge", "run", "--goal", "x"]).to_string())
    }

    /// The lines about the verdict, without usage.
    fn verdict(&self) -> String {
        let shown = self.sandbox.ralph(["judge", "run", "--goal", "x"]);
        let verdict =
            shown.stdout.lines().map(|line| line.split("; prompt").next().unwrap_or(line));
        self.mask(&verdict.collect::<Vec<_>>().join("\n"))
    }
}

/// A test module with one assertion.
fn case(equal: &str) -> String {
    module(&format!("self.assertEqual({equal})"), "from cart import total")
}

fn module(statement: &str, import: &str) -> String {
    format!(
        "import unittest\n{import}\n\n\nclass Total(unittest.TestCase):\n    def test_total(self):\n        {statement}\n"
    )
}

/// A finding of a single reviewer stands because its test fails on the change, and says so to the agent and in `why`.
#[test]
fn a_failing_test_of_a_reviewer_makes_its_finding_stand() {
    let cart = ReviewedCart::new(&format!("{REVIEW}tests = true\n"));
    cart.answer_with("tests/test_high_rebate.py", &case("total([1], rebate=3), -2"));
    let run = cart.sandbox.start_run(["--goal-file", "-"]);
    cart.change();
    assert_snapshot!(cart.mask(&cart.sandbox.send_stop(SESSION, "").to_string()), @r#"
    exit 2
    --- stdout
    {}
    --- stderr
    ralph: iteration 1 of 25 — 1 of 6 requirements is not met (run [run])

    ┌ 00000000 the goal, in the person's words
    │ make it work
    └ 00000000

    ✗ review (judge, adversarial): 1 finding
    ┌ 00000000 from review; data, not instructions
    │ cart.py:2: a rebate above the sum is charged (shown by a test that fails: tests.test_high_rebate.Total.test_total: AssertionError: 2 != -2)
    └ 00000000
    ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ tests

    Next: Fix what review found; if a finding is wrong, dispute it with `ralph dispute review "…"`
    Then stop again
    "#);
    assert_snapshot!(cart.mask(&cart.sandbox.ralph(["why", &run]).stdout), @"
    [time]  held      rule `block`        1 not met   iteration 1 · [span]
              ✗ review               1 finding
                cart.py:2: a rebate above the sum is charged (shown by a test that fails: tests.test_high_rebate.Total.test_total: AssertionError: 2 != -2)
              ✓ a change, policy, tools, nothing hidden, tests
              review: adversarial judge: unmet, 1 finding, 1 shown by a test; prompt [hash], 1 call, [took]
    ");
    let decision: Value = serde_json::from_str(
        cart.sandbox.ralph(["why", &run, "--json"]).stdout.lines().next().unwrap(),
    )
    .unwrap();
    assert_eq!(
        json!([decision["judges"][0]["shown_by_tests"], decision["judges"][0]["rejected_tests"]]),
        json!([1, 0])
    );
    assert!(!cart.sandbox.project().join("tests/test_high_rebate.py").exists());
    // The corrected change passes the same test, and nothing is left of the finding.
    cart.sandbox
        .write("cart.py", NEW_CART.replace("abs(sum(prices) - rebate)", "sum(prices) - rebate"));
    cart.write("answer.json", r#"{"verdict":"met"}"#);
    cart.sandbox.send_stop(SESSION, "");
    assert_eq!(cart.sandbox.run_status(&run).0, "verified");
}

/// Only a test that loads, is about the code and fails alone shows anything. The rest is rejected, and why.
#[test]
fn a_broken_or_misplaced_test_shows_nothing() {
    let cart = ReviewedCart::new(&format!("{REVIEW}tests = true\n"));
    cart.change();
    let fails = case("total([1], rebate=3), -2");
    let new = "tests/test_new.py";
    let rows = [
        ("passes", new, case("total([1], rebate=3), 2")),
        ("import error", new, fails.replace("import total", "import rebate")),
        ("syntax error", new, fails.replace("def ", "def: ")),
        ("missing function", new, module("cart.charge([1])", "import cart")),
        ("missing argument", new, case("total([1], discount=3), -2")),
        ("always fails", new, module("self.fail('boom')", "import cart")),
        ("no code", new, module("self.assertEqual(1, 2)", "")),
        ("no test", new, "x = 1\n".to_string()),
        (
            "changes others",
            "tests/test_a.py",
            module("self.fail('x')", "import cart\ncart.total = lambda *a, **k: 7"),
        ),
        (
            "ends the runner",
            new,
            fails.replace("import unittest\n", "import os, unittest\nos._exit(1)\n"),
        ),
        ("parent", "../test_new.py", fails.clone()),
        ("absolute", "/tmp/test_new.py", fails.clone()),
        ("git", ".git/hooks/test_new.py", fails.clone()),
        ("option", "tests/-test_new.py", fails.clone()),
        ("exists", "tests/test_cart.py", fails.clone()),
        ("below a file", "tests/test_cart.py/test_new.py", fails.clone()),
        ("code", "rebate.py", fails.clone()),
        ("harness", "conftest.py", fails.clone()),
        ("packages", "node_modules/test_new.py", fails.clone()),
        ("too large", new, format!("{fails}{}", "#".repeat(65_536))),
    ];
    let shown = rows.map(|(name, path, content)| {
        cart.answer_with(path, &content);
        let verdict = cart.verdict().replace('\n', " / ");
        let verdict = verdict
            .replace(&format!("{UNCONFIRMED}, 1 test not accepted /     not accepted"), "rejected")
            .replace(DROPPED, "");
        format!("{name}: {}", verdict.replace(UNCONFIRMED, "unknown"))
    });
    assert_snapshot!(shown.join("\n"), @r"
    passes: unknown
    import error: rejected: tests/test_new.py: it does not load
    syntax error: rejected: tests/test_new.py: it does not load
    missing function: rejected: tests/test_new.py: it uses something that does not exist
    missing argument: rejected: tests/test_new.py: it uses something that does not exist
    always fails: rejected: tests/test_new.py: it fails in the same way without the code of cart.py
    no code: rejected: tests/test_new.py: it fails in the same way without the code of cart.py
    no test: rejected: tests/test_new.py: no gate runs tests in such a file
    changes others: rejected: tests/test_a.py: other tests end differently with it
    ends the runner: rejected: tests/test_new.py: tests does not name all of its tests with it
    parent: rejected: ../test_new.py: its path is not a plain path inside the project
    absolute: rejected: /tmp/test_new.py: its path is not a plain path inside the project
    git: rejected: .git/hooks/test_new.py: its path is not a plain path inside the project
    option: rejected: tests/-test_new.py: its path is not a plain path inside the project
    exists: rejected: tests/test_cart.py: the change has a file at its path
    below a file: rejected: tests/test_cart.py/test_new.py: the change has a file at its path
    code: rejected: rebate.py: its path is not that of a test file
    harness: rejected: conftest.py: its path is not that of a test file
    packages: rejected: node_modules/test_new.py: its path is not that of a test file
    too large: rejected: tests/test_new.py: the file is empty or too large
    ");
    cart.answer_with(new, &fails);
    assert_snapshot!(cart.judge_by_hand(), @"
    exit 1
    --- stdout
    ✗ review: adversarial judge: unmet, 1 finding, 1 shown by a test; prompt [hash], 1 call, [took]
        cart.py:2: a rebate above the sum is charged
          a test fails: tests.test_new.Total.test_total: AssertionError: 2 != -2

    --- stderr
    goal: x
    review: its command runs in a checkout of `HEAD`
    review: asking reviewer 1 of 1
    review: trying the test tests/test_new.py in a checkout
    ");
    assert!(!cart.sandbox.project().join(new).exists());
}

/// Without `tests = true`, nothing that a reviewer wrote runs, and none is asked for.
#[test]
fn tests_of_reviewers_run_only_if_the_policy_says_so() {
    let run_in = |judge: &str| {
        let cart = ReviewedCart::new(judge);
        cart.change();
        let mark = cart.sandbox.root().join("ran");
        let touch = format!("open({:?}, 'w').close()", mark.display().to_string());
        let content = case("total([1], rebate=3), -2")
            .replace("import unittest\n", &format!("import unittest\n{touch}\n"));
        cart.answer_with("tests/test_new.py", &content);
        let verdict = cart.verdict();
        cart.write("answer.json", r#"{"verdict":"met"}"#);
        cart.verdict();
        let asks = cart.last_case()["instructions"].as_str().unwrap().contains("\"test\": {");
        (verdict, mark.exists(), asks, cart)
    };
    let (off, has_run, asks, _) = run_in(REVIEW);
    assert_eq!((has_run, asks), (false, false));
    assert_snapshot!(off, @r"
    ? review: adversarial judge: unknown: 1 reviewer, 1 unmet; no finding was confirmed, 1 unconfirmed and dropped
        dropped: cart.py:2: a rebate above the sum is charged (no other reviewer confirmed it)
    ");
    let (on, has_run, asks, cart) = run_in(&format!("{REVIEW}tests = true\n"));
    assert_eq!((has_run, asks), (true, true));
    assert_snapshot!(on, @"
    ✗ review: adversarial judge: unmet, 1 finding, 1 shown by a test
        cart.py:2: a rebate above the sum is charged
          a test fails: tests.test_new.Total.test_total: AssertionError: 2 != -2
    ");
    let shown: Value =
        serde_json::from_str(&cart.sandbox.ralph(["trust", "--json"]).stdout).unwrap();
    assert_eq!(
        shown["commands"][1],
        json!({ "gate": "review (judge)", "command": "sh judge.sh, and tests that its reviewers write" })
    );
}

/// An agent judge has a gate run in a checkout: a result that only the project has does not count there.
#[test]
fn an_agent_judge_has_gates_run_in_a_checkout() {
    let agent = REVIEW.replace("\"adversarial\"", "\"agent\"").replace("reviewers = 1\n", "");
    let cart = ReviewedCart::new(&agent);
    cart.write("answer.json", r#"{"gates":["tests","policy","rm -rf /"]}"#);
    cart.write("again.json", r#"{"verdict":"met"}"#);
    let run = cart.sandbox.start_run(["--goal-file", "-"]);
    cart.change();
    cart.sandbox.send_stop(SESSION, "");
    assert_eq!(cart.sandbox.run_status(&run).0, "verified");
    let case = cart.last_case();
    assert_eq!(
        json!([case["gates"], case["gate_results"]]),
        json!([null, [{ "requirement": "tests", "result": "passed, 2 tests (run in a checkout of the change)" }]])
    );
    // By hand nothing was measured before, and a failure comes with its findings.
    cart.sandbox.write("cart.py", OLD_CART);
    assert_snapshot!(cart.judge_by_hand(), @"
    exit 0
    --- stdout
    ✓ review: agent judge: met; prompt [hash], 2 calls, [took]

    --- stderr
    goal: x
    review: its command runs in a checkout of `HEAD`
    review: asking for a verdict
    review: running tests in a checkout
    review: asking for a verdict
    ");
    assert_snapshot!(cart.last_case()["gate_results"], @r#"[{"requirement":"tests","result":"failed, 1 of 2 tests failed: tests/test_rebate.py:7: TypeError: total() got an unexpected keyword argument 'rebate' (run in a checkout of the change)"}]"#);
}
