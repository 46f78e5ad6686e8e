//! What is shown and attested of a run that judges decided.

use crate::judges::{JudgedProject, LONGER_SUM, OTHER_SUM, REVIEW, met, unmet};
use crate::sandbox::{SESSION, Sandbox};
use insta::assert_snapshot;
use regex::Regex;
use serde_json::json;

fn counting_judge() -> String {
    let goal = REVIEW.replace("\"review\"", "\"goal-review\"").replace("\"prompt\"", "\"goal\"");
    format!("{goal}counts = true\n")
}

/// Commits the work of a run that has ended, attests the run and checks the statement.
fn attest_and_verify(project: &JudgedProject) -> String {
    let sandbox = &project.sandbox;
    sandbox.commit();
    let attested = sandbox.ralph(["report", "--attest", "--out", "statement.json"]);
    assert_eq!(attested.code, Some(0), "{attested}");
    let checked = sandbox.ralph(["verify-report", "statement.json"]).to_string();
    sandbox.normalize(&checked)
}

/// A run that ended `verified` because of a judge has a valid statement, which says that it rests on the judge.
#[test]
fn a_statement_names_the_judge_that_it_rests_on() {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[0-9a-f]{10,16}\b", "[id]");
    let _masked = settings.bind_to_scope();

    let project = JudgedProject::new(&counting_judge());
    project.answer(&met());
    project.sandbox.start_run(["--goal-file", "-"]);
    project.sandbox.write("add.sh", LONGER_SUM);
    assert!(project.sandbox.send_stop(SESSION, "").is_block());
    project.sandbox.send_stop(SESSION, "");
    assert_snapshot!(attest_and_verify(&project), @"
    exit 0
    --- stdout
    valid: run [run], verified, make it work
    ✓ signature by key [id]
    ✓ status    verified, as 1 gate result says; judge goal-review counts as the measure of the goal
    ✓ commit    HEAD has the judged tree [id]
    ✓ policy    [id], 3 files as judged
    ");

    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "");
    sandbox.write("page.txt", "old\n");
    let project = JudgedProject::of(sandbox, &counting_judge());
    project.answer(&met());
    project.sandbox.start_run(["--goal-file", "-"]);
    project.sandbox.write("page.txt", "new\n");
    project.sandbox.send_stop(SESSION, "");
    assert_snapshot!(attest_and_verify(&project), @"
    exit 0
    --- stdout
    valid: run [run], verified, make it work
    ✓ signature by key [id]
    ✓ status    verified, without a gate result; judge goal-review counts as the measure of the goal
    ✓ commit    HEAD has the judged tree [id]
    ✓ policy    [id], 2 files as judged
    ");
}

/// The sections of the report of a run, without its times and hashes.
fn report_sections(project: &JudgedProject, run: &str, wanted: &[&str]) -> String {
    let report = project.sandbox.ralph(["report", run]).stdout;
    let sections = report.split("\n## ");
    let wanted = sections.filter(|one| wanted.iter().any(|name| one.starts_with(name)));
    let times = Regex::new(r"\d+(\.\d)? m?s\b|\b\d\d:\d\d(:\d\d)?\b").unwrap();
    let ids = Regex::new(r"\b[0-9a-f]{10,12}\b").unwrap();
    let shown = times.replace_all(&wanted.collect::<Vec<_>>().join("\n## "), "[time]").into_owned();
    project.mask(&ids.replace_all(&shown, "[id]"))
}

/// A report tells opinions from measurements, and a judge that is not asked yet is not running. Every verdict is in the
/// index, with its cost.
#[test]
fn a_report_keeps_opinions_apart() {
    let project = JudgedProject::new(REVIEW);
    let run = project.start();
    project.sandbox.write("add.sh", "false\n");
    project.stop();
    project.sandbox.write("add.sh", LONGER_SUM);
    project.answer(&unmet("sum=0; for one; do"));
    project.stop();
    project.sandbox.write("add.sh", OTHER_SUM);
    project.answer(&met());
    project.stop();
    assert_eq!((project.status(&run), project.calls()), ("verified".to_string(), 2));
    let sections = ["What that rests on", "Evidence", "Requirements", "What happened"];
    assert_snapshot!(report_sections(&project, &run, &sections), @r"
    What that rests on

    - **Measured** 6 of 6 requirements met: 5 measured, 1 judged, at stop 3 ([time]) on checkpoint 3
    - 1 of 1 gate result passed; measured in the work tree
    - all 6 requirements are met after 2 iterations and [time], 1 of them by the judge review; 2 old tests pass on the new code; 1 test fails without the change
    - **On** the work tree, not committed (checkpoint 3, `[id]`, tree `[id]`)
    - **Policy** `[id]`, approved before the start
    - **Journal** 4 lines, unbroken, last hash `[id]`
    - **Next** review the change: `ralph checkpoint diff [run]`

    ## Evidence

    | Gate | Result | Tests | Where | Checkpoint | Took |
    |---|---|---|---|---|--:|
    | suite | ✓ passed | 3 of 3 | work tree | 3 ([id]) | [time] |

    Opinions, not measurements:

    | Judge | Kind | Verdict | Model | Asked | Usage |
    |---|---|---|---|--:|---|
    | review | prompt | ✓ met | `model-1` | 2 | 2 calls, 2.4 k tokens, $0.0084 |

    | Run | Code | Tests | Result |
    |---|---|---|---|
    | T0 | old | old | 1 of 1 gate passed, 2 tests |
    | T1 | new | new | 1 of 1 gate passed, 3 tests |
    | T2 | new | old | 2 of 2 old tests pass |
    | T3 | old | new | 1 test fails without the change |

    ## Requirements, stop by stop

    - `suite`: not met at stop 1; met at stops 2 to 3
    - `review`: not reached at stop 1; not met at stop 2; met at stop 3
    - met at every stop: a change, policy, tools, nothing hidden

    ## What happened

    - [time] started: make it work
    - [time] stop 1, held: suite: 3 findings, review: not reached
    - [time] stop 2, held: review: 1 finding, suite done
    - [time] stop 3, ended: verified: all 6 requirements are met after 2 iterations and [time], 1 of them by the judge review; 2 old tests pass on the new code; 1 test fails without the change
    ");
    let query = "SELECT name, kind, verdicts, cached, met, unmet, impossible, no_verdict, calls, tokens, micro_usd FROM run_judge";
    assert_snapshot!(project.sandbox.ralph(["sql", query]).stdout, @"
    name    kind    verdicts  cached  met  unmet  impossible  no_verdict  calls  tokens  micro_usd
    review  prompt         2       0    1      1           0           0      2    2468       8400
    ");
    let refused = project.sandbox.ralph(["report", &run, "--out", "report.pdf"]);
    assert_snapshot!(refused, @"
    exit 1
    --- stderr
    error: no format of a report has the ending `.pdf`
      hint: use `.md`, `.html` or `.json`, or choose the format: `--format md`
    ");
    assert!(!project.sandbox.project().join("report.pdf").exists());
}

/// A judge that gave no verdict is asked again, and its second answer costs again.
#[test]
fn a_judge_that_is_asked_again_is_not_cached() {
    let project = JudgedProject::new(REVIEW);
    project.answer(&json!({ "verdict": "unsure", "findings": [],
        "usage": { "input_tokens": 1000, "output_tokens": 0, "micro_usd": 500_000 } }));
    let run = project.start();
    project.stop();
    project.stop();
    assert_eq!(project.calls(), 2);
    assert_snapshot!(project.why(&run), @"
    [time]  gate_broken rule `gate-broken`  review gave no result twice in a row: it is unsure   not charged · [span]
              ? review               it is unsure
              ✓ a change, policy, tools, nothing hidden, suite
              review: prompt judge: unknown: it is unsure; prompt [hash], 1 call, 1 k tokens, $0.50, [took]
    [time]  held      rule `block`        1 without a result   iteration 1 · [span]
              ? review               it is unsure
              ✓ a change, policy, tools, nothing hidden, suite
              review: prompt judge: unknown: it is unsure; prompt [hash], 1 call, 1 k tokens, $0.50, [took]
    next: fix it until `ralph judge run review` gets a verdict, then run `/ralph:goal` again
    ");
}

/// A proof holds once. That a judge is asked next does not make it done, and `ralph verify` shows what the next stop would.
#[test]
fn a_proof_that_held_once_is_not_done() {
    let project = JudgedProject::new(REVIEW);
    project.answer(&json!({ "verdict": "unsure", "findings": [] }));
    let run = project.sandbox.start_run(["--goal-file", "-"]);
    project.sandbox.write("add.sh", LONGER_SUM);
    assert_snapshot!(project.mask(&project.sandbox.ralph(["verify", &run]).stdout), @"
    run [run]: 1 of 7 requirements is not met
      · review (judge, prompt): comes after everything else is met
      ✗ proof (correctness): no test fails without the change; 2 old tests pass on the new code
      ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ suite
    ");
    project.stop();
    let held = project.stop();
    let (_, held) = held.split_once("? review").unwrap();
    assert_snapshot!(held, @"
     (judge, prompt): no result: it is unsure
    ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ suite

    Next: Leave the work as it is; review is asked once more. Then stop again
    ");
    let timeline = report_sections(&project, &run, &["What happened"]);
    assert_snapshot!(timeline, @"
    What happened

    - [time] started: make it work
    - [time] stop 1, held: review: not reached, proof
    - [time] stop 2, held: review: no result
    ");
}

/// A run that a judge ended says why, and what to do.
#[test]
fn an_impossible_goal_is_explained_by_status() {
    let project = JudgedProject::new(REVIEW);
    project.answer(&json!({ "verdict": "impossible", "findings": [
        { "file": "add.sh", "claim": "a shell has no fractions", "quote": "sum=0; for one; do" } ] }));
    let run = project.start();
    project.stop();
    assert_snapshot!(project.mask(&project.sandbox.ralph(["status", &run]).stdout), @"
    [run]  needs_human   make it work  (just now, 0 iterations)
          the judge review says that the goal cannot be met as stated: a shell has no fractions
          next: answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel [run]`
    ");
}
