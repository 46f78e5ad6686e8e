//! What is shown and attested of a run that judges decided.

use crate::judges::{JudgedProject, LONGER_SUM, REVIEW, met};
use crate::sandbox::{SESSION, Sandbox};
use insta::assert_snapshot;

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
