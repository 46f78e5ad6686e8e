//! Checks that run scripts by a pattern or a variable: what they match is sealed, or the run is not `verified`.

use crate::sandbox::{SESSION, Sandbox};
use insta::assert_snapshot;
use std::fs;

const LOOP_DIR: &str = ".claude/data/ralph-loops/sum";
const LIST_FILE: &str = ".claude/data/ralph-loops/sum/feature_list.json";
const CHECK_SCRIPT: &str = "test -e result\n";

struct UnnamedScript {
    command: &'static str,
    /// What the agent does instead of the work, or beside it.
    act: fn(&Sandbox),
}

const fn case(command: &'static str, act: fn(&Sandbox)) -> UnnamedScript {
    UnnamedScript { command, act }
}

fn do_the_work(sandbox: &Sandbox) {
    sandbox.write("result", "");
}

fn empty_the_check(sandbox: &Sandbox) {
    sandbox.write("chk/sum.sh", "true\n");
    sandbox.write("other", "");
}

/// The last command of a loop decides.
fn add_a_later_check(sandbox: &Sandbox) {
    sandbox.write("chk/z.sh", "true\n");
    sandbox.write("other", "");
}

fn remove_the_check(sandbox: &Sandbox) {
    fs::remove_file(sandbox.project().join("chk/sum.sh")).unwrap();
    sandbox.write("other", "");
}

const LOOP: &str = "for t in chk/*.sh; do sh \"$t\"; done";
const CASES: &[UnnamedScript] = &[
    case(LOOP, do_the_work),
    case(LOOP, empty_the_check),
    case(LOOP, add_a_later_check),
    case(LOOP, remove_the_check),
    case("sh chk/*.sh", empty_the_check),
    case("x=chk/sum; sh \"$x.sh\"", do_the_work),
    case("x=chk/sum; sh \"$x.sh\"", empty_the_check),
    case("for t in $(ls chk); do sh \"chk/$t\"; done", do_the_work),
    case("for t in $(ls chk); do sh \"chk/$t\"; done", empty_the_check),
    case("find chk -name '*.sh' | xargs sh", empty_the_check),
];

fn list_sandbox(command: &str, policy: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let list = serde_json::json!([{"id": 1, "description": "Sum", "verify": {"shell": command}}]);
    sandbox.write(LIST_FILE, list.to_string());
    let progress = "- Iteration: 0\n- Max Iterations: 15\n- Status: RUNNING\n";
    sandbox.write(&format!("{LOOP_DIR}/progress.txt"), progress);
    sandbox.write("chk/sum.sh", CHECK_SCRIPT);
    if !policy.is_empty() {
        sandbox.write("ralph.toml", policy);
    }
    sandbox.commit();
    let shown = sandbox.ralph(["trust", "--json", "--features", LOOP_DIR]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let hash = shown["lists"][0]["hash"].as_str().unwrap();
    let ended = sandbox.ralph_at_terminal(["trust", "--hash", hash]);
    assert_eq!(ended.code, Some(0), "{ended}");
    if !policy.is_empty() {
        sandbox.approve_policy();
    }
    sandbox
}

fn case_outcome(case: &UnnamedScript, policy: &str) -> String {
    let sandbox = list_sandbox(case.command, policy);
    let run = sandbox.start_run(["--features", LOOP_DIR]);
    assert!(sandbox.send_stop(SESSION, "").is_block(), "{}", case.command);
    (case.act)(&sandbox);
    sandbox.send_stop(SESSION, "");
    let decision = sandbox.ralph(["why", &run, "--json", "--last", "1"]);
    let decision: serde_json::Value =
        serde_json::from_str(&decision.stdout).unwrap_or_else(|_| panic!("{decision}"));
    let open = decision["open"].as_array().unwrap().iter();
    let open: Vec<_> = open.map(|line| line["name"].as_str().unwrap().to_string()).collect();
    let (status, _) = sandbox.run_status(&run);
    format!("{:<50} {status:<9} {}", case.command, open.join(", ")).trim_end().to_string()
}

/// R-S4b, R-V1h: a check that runs scripts by a pattern or a variable cannot be weakened unnoticed, with or without a
/// proof.
#[test]
fn scripts_of_a_check_that_are_not_named_are_sealed_or_end_green() {
    let rows = |policy: &str| {
        let rows: Vec<String> = CASES.iter().map(|case| case_outcome(case, policy)).collect();
        rows.join("\n")
    };
    assert_snapshot!(rows(""), @r#"
    for t in chk/*.sh; do sh "$t"; done                verified
    for t in chk/*.sh; do sh "$t"; done                held      checks of feature list, feature 1
    for t in chk/*.sh; do sh "$t"; done                held      checks of feature list, feature 1
    for t in chk/*.sh; do sh "$t"; done                held      checks of feature list, feature 1
    sh chk/*.sh                                        held      checks of feature list, feature 1
    x=chk/sum; sh "$x.sh"                              verified
    x=chk/sum; sh "$x.sh"                              held      checks of feature list, feature 1
    for t in $(ls chk); do sh "chk/$t"; done           green
    for t in $(ls chk); do sh "chk/$t"; done           green
    find chk -name '*.sh' | xargs sh                   green
    "#);
    assert_snapshot!(rows("[verify]\nproof = \"off\"\n"), @r#"
    for t in chk/*.sh; do sh "$t"; done                verified
    for t in chk/*.sh; do sh "$t"; done                held      checks of feature list, feature 1
    for t in chk/*.sh; do sh "$t"; done                held      checks of feature list, feature 1
    for t in chk/*.sh; do sh "$t"; done                held      checks of feature list, feature 1
    sh chk/*.sh                                        held      checks of feature list, feature 1
    x=chk/sum; sh "$x.sh"                              verified
    x=chk/sum; sh "$x.sh"                              held      checks of feature list, feature 1
    for t in $(ls chk); do sh "chk/$t"; done           green
    for t in $(ls chk); do sh "chk/$t"; done           green
    find chk -name '*.sh' | xargs sh                   green
    "#);
}

/// The end says which command, why, and what to do; so does the start.
#[test]
fn a_check_that_cannot_be_sealed_is_explained() {
    let sandbox = list_sandbox("for t in $(ls chk); do sh \"chk/$t\"; done", "");
    let started = sandbox.ralph(["start", "--session", SESSION, "--features", LOOP_DIR]);
    let note = started.stdout.lines().find(|line| line.contains("sealed")).unwrap_or_default();
    do_the_work(&sandbox);
    let ended = sandbox.send_stop(SESSION, "").notice();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"( and) \d+ (ms|s|min)\b", "$1 [took]");
    settings.bind(|| {
        assert_snapshot!(sandbox.normalize(&format!("{note}\n{ended}")), @r"
              note    feature 1 runs a script that cannot be sealed, because only the shell knows which (`sh chk/$t`): write the file names into its command; until then the run ends at most `green`
        ralph: green: the features of sum — feature 1 runs a script that cannot be sealed, because only the shell knows which (`sh chk/$t`): write the file names into its command; all 6 requirements are met after 0 iterations and [took]; 1 check passes on the new code; 1 check fails without the change (run [run]); review the change (`ralph checkpoint diff [run]`) and run `ralph accept [run]`, or start a new run that adds a test
        ");
    });
}

/// An agent may add tests to a gate of the policy that runs them by a pattern, and the proof shows whether the old ones
/// still pass. Their content is sealed.
#[test]
fn tests_may_be_added_to_a_gate_that_runs_a_pattern() {
    let policy =
        "[[gate]]\nname = \"suite\"\nshell = 'for t in chk/*.sh; do sh \"$t\" || exit 1; done'\n";
    let outcome = |act: fn(&Sandbox)| {
        let sandbox = Sandbox::new();
        sandbox.write("ralph.toml", policy);
        sandbox.write("chk/sum.sh", "grep -q sum code\n");
        sandbox.write("code", "sum\n");
        sandbox.commit();
        sandbox.approve_policy();
        let run = sandbox.start_run(["--goal-file", "-"]);
        act(&sandbox);
        sandbox.send_stop(SESSION, "");
        sandbox.run_status(&run).0
    };
    let with_test = outcome(|sandbox| {
        sandbox.write("code", "sum\nproduct\n");
        sandbox.write("chk/product.sh", "grep -q product code\n");
    });
    let with_edit = outcome(|sandbox| {
        sandbox.write("code", "product\n");
        sandbox.write("chk/sum.sh", "grep -q product code\n");
    });
    assert_eq!((with_test.as_str(), with_edit.as_str()), ("verified", "held"));
}
