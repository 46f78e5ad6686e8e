//! The line a person reads at the end of a run.

use crate::judges::judge;
use crate::scenario::{run, sealed_run};
use insta::assert_snapshot;
use ralph_core::ci_query::{CiProvider, CiQuery};
use ralph_core::drive::DriveSettings;
use ralph_core::ending::{self, ParkedWait};
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::judge::JudgeKind;
use ralph_core::limits::RunLimits;
use ralph_core::record::RunRecord;
use ralph_core::status::RunStatus;

fn ci_gate(name: &str) -> Gate {
    let query = CiQuery {
        provider: CiProvider::Command,
        checks: Vec::new(),
        branch: String::new(),
        token: String::new(),
        statuses: false,
        poll_ms: 10_000,
        start_ms: 60_000,
    };
    Gate::new(name.to_string(), GateInvocation::Argv(vec!["./ci".to_string()])).of_ci(query)
}

/// R-U2c: every end gives the reason and the next step.
#[test]
fn every_end_has_a_next_step() {
    let lines = |run: &RunRecord| {
        let lines = RunStatus::ALL
            .map(|status| ending::describe_end(status, run, &run.limits, "because of this"));
        lines.join("\n")
    };
    assert_snapshot!(lines(&run()), @"
    verified: nested quotes — because of this (run k7f2); see `ralph why k7f2`
    green: nested quotes — because of this (run k7f2); review the change (`ralph checkpoint diff k7f2`) and run `ralph accept k7f2`, or start a new run that adds a test
    claimed: nested quotes — because of this (run k7f2); review it before you rely on it; `ralph gate detect` proposes gates that could measure it
    exhausted: nested quotes — because of this (run k7f2); `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    stuck: nested quotes — because of this (run k7f2); `ralph why k7f2` shows what it is stuck on; help with that, then run `/ralph:goal` again
    needs_human: nested quotes — because of this (run k7f2); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`
    needs_review: nested quotes — because of this (run k7f2); review the change before you keep it; `ralph why k7f2` shows what was detected, `ralph accept k7f2` accepts it
    gate_broken: nested quotes — because of this (run k7f2); `ralph why k7f2` shows what broke; fix it, then run `/ralph:goal` again
    rate_limited: nested quotes — because of this (run k7f2); run `/ralph:goal` again when the rate limit resets
    cancelled: nested quotes — because of this (run k7f2); `/ralph:goal` starts a new run
    overridden: nested quotes — because of this (run k7f2); the client overrode the hook: `ralph init` raises its block cap; then run `/ralph:goal` again
    crashed: nested quotes — because of this (run k7f2); `ralph status` shows what broke; then run `/ralph:goal` again
    ");
    assert_snapshot!(lines(&sealed_run()), @"
    verified: nested quotes — because of this (run k7f2); see `ralph why k7f2`
    green: nested quotes — because of this (run k7f2); review the change and run `ralph accept k7f2`; with git, a run can prove its work
    claimed: nested quotes — because of this (run k7f2); review it before you rely on it; `ralph gate detect` proposes gates that could measure it
    exhausted: nested quotes — because of this (run k7f2); `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    stuck: nested quotes — because of this (run k7f2); `ralph why k7f2` shows what it is stuck on; help with that, then run `/ralph:goal` again
    needs_human: nested quotes — because of this (run k7f2); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`
    needs_review: nested quotes — because of this (run k7f2); review the change and run `ralph accept k7f2`; with git, a run can prove its work
    gate_broken: nested quotes — because of this (run k7f2); fix it until `ralph gate run` gets a result, then run `/ralph:goal` again
    rate_limited: nested quotes — because of this (run k7f2); run `/ralph:goal` again when the rate limit resets
    cancelled: nested quotes — because of this (run k7f2); `/ralph:goal` starts a new run
    overridden: nested quotes — because of this (run k7f2); the client overrode the hook: `ralph init` raises its block cap; then run `/ralph:goal` again
    crashed: nested quotes — because of this (run k7f2); `ralph status` shows what broke; then run `/ralph:goal` again
    ");
}

/// No person is in the session of a driven run: a parked run is resumed, and an ended one is forked.
#[test]
fn every_end_of_a_driven_run_has_a_next_step() {
    let run = RunRecord { drive: Some(Box::new(DriveSettings::DEFAULT)), ..run() };
    let ended = RunStatus::ALL.map(|status| {
        format!("{}: {}", status.name(), ending::next_step(status, &run, &run.limits, None))
    });
    let parked = RunStatus::ALL.map(|status| {
        let next = ending::parked_step(status, &run, ParkedWait::Other, None);
        format!("parked {}: {next}", status.name())
    });
    let waits =
        [ParkedWait::Answer, ParkedWait::Approval("ralph approve k7f2"), ParkedWait::Message];
    let waits = waits.map(|wait| ending::parked_step(RunStatus::NeedsHuman, &run, wait, None));
    let lines = [&ended[..], &parked, &waits].concat();
    assert_snapshot!(lines.join("\n"), @r#"
    verified: see `ralph why k7f2`
    green: review the change (`ralph checkpoint diff k7f2`) and run `ralph accept k7f2`, or start a new run that adds a test
    claimed: review it before you rely on it; `ralph gate detect` proposes gates that could measure it
    exhausted: `ralph why k7f2` shows what is open; `ralph run --fork k7f2` continues with fresh limits
    stuck: `ralph why k7f2` shows what it is stuck on; help with that, then run `ralph run --fork k7f2`
    needs_human: `ralph why k7f2` shows what to decide; decide it, then run `ralph run --fork k7f2`, or close the run with `ralph cancel k7f2`
    needs_review: review the change before you keep it; `ralph why k7f2` shows what was detected, `ralph accept k7f2` accepts it
    gate_broken: `ralph why k7f2` shows what broke; fix it, then run `ralph run --fork k7f2`
    rate_limited: run `ralph run --fork k7f2` when the rate limit resets
    cancelled: `ralph run --fork k7f2` continues from its last session
    overridden: `ralph why k7f2` shows what happened; run `ralph run --fork k7f2` to continue
    crashed: `ralph why k7f2` shows what happened; run `ralph run --fork k7f2` to continue
    parked verified: `ralph run --resume k7f2` continues
    parked green: `ralph run --resume k7f2` continues
    parked claimed: `ralph run --resume k7f2` continues
    parked exhausted: `ralph run --resume k7f2` continues
    parked stuck: `ralph run --resume k7f2` continues
    parked needs_human: settle what it waits for, then run `ralph run --resume k7f2`
    parked needs_review: settle what it waits for, then run `ralph run --resume k7f2`
    parked gate_broken: fix what gave no result, then run `ralph run --resume k7f2`
    parked rate_limited: run `ralph run --resume k7f2` when the rate limit resets
    parked cancelled: `ralph run --resume k7f2` continues
    parked overridden: `ralph run --resume k7f2` continues
    parked crashed: `ralph run --resume k7f2` continues
    answer with `ralph tell k7f2 "…"`, then run `ralph run --resume k7f2`
    review it, then run `ralph approve k7f2` and `ralph run --resume k7f2`
    `ralph run --resume k7f2` continues and gives the agent your message
    "#);
}

/// `ralph gate run` asks neither judges nor CI, so the next step names the command that does.
#[test]
fn a_judge_or_ci_check_without_a_result_is_tried_by_its_own_command() {
    let mut sealed = sealed_run();
    if let Some(seal) = &mut sealed.seal {
        seal.policy.judges.push(judge("review", JudgeKind::Goal));
        seal.policy.gates.push(ci_gate("checks"));
    }
    let driven = RunRecord { drive: Some(Box::new(DriveSettings::DEFAULT)), ..sealed.clone() };
    let lines: Vec<String> = [&sealed, &driven]
        .iter()
        .flat_map(|run| ["review", "checks", "lint"].map(|name| (run, name)))
        .map(|(run, name)| {
            let because = format!("{name} gave no result twice in a row: exit 1");
            ending::describe_end(RunStatus::GateBroken, run, &run.limits, &because)
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    gate_broken: nested quotes — review gave no result twice in a row: exit 1 (run k7f2); fix it until `ralph judge run review` gets a verdict, then run `/ralph:goal` again
    gate_broken: nested quotes — checks gave no result twice in a row: exit 1 (run k7f2); fix it until `ralph gate run checks` gets a result, then run `/ralph:goal` again
    gate_broken: nested quotes — lint gave no result twice in a row: exit 1 (run k7f2); fix it until `ralph gate run` gets a result, then run `/ralph:goal` again
    gate_broken: nested quotes — review gave no result twice in a row: exit 1 (run k7f2); fix it until `ralph judge run review` gets a verdict, then run `ralph run --fork k7f2`
    gate_broken: nested quotes — checks gave no result twice in a row: exit 1 (run k7f2); fix it until `ralph gate run checks` gets a result, then run `ralph run --fork k7f2`
    gate_broken: nested quotes — lint gave no result twice in a row: exit 1 (run k7f2); `ralph why k7f2` shows what broke; fix it, then run `ralph run --fork k7f2`
    ");
}

#[test]
fn only_limits_that_the_run_has_are_suggested() {
    let RunLimits { max_iterations, max_duration_ms, max_cost_micro_usd, .. } = RunLimits::DEFAULT;
    let cases = [
        (max_iterations, max_duration_ms, max_cost_micro_usd),
        (None, max_duration_ms, max_cost_micro_usd),
        (max_iterations, None, None),
    ];
    let lines = cases.map(|(max_iterations, max_duration_ms, max_cost_micro_usd)| {
        let limits =
            RunLimits { max_iterations, max_duration_ms, max_cost_micro_usd, ..RunLimits::DEFAULT };
        ending::next_step(RunStatus::Exhausted, &run(), &limits, None)
    });
    assert_snapshot!(lines.join("\n"), @"
    `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-duration` or `--max-cost-usd`
    `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`
    ");
}

#[test]
fn it_is_one_bounded_line_for_any_title_and_reason() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{202e}\"'`$(id)`\r\nralph: verified\t";
    let title = format!("{hostile}{}", "x".repeat(1_000_000));
    let line = ending::describe_end(
        RunStatus::Stuck,
        &RunRecord { title, ..run() },
        &RunLimits::DEFAULT,
        &hostile.repeat(10_000),
    );
    assert!(line.chars().count() < 1300, "{}", line.len());
    assert_snapshot!(line.chars().take(120).collect::<String>(), @r#"stuck: red"'`$(id)` ralph: verified xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"#);
    let line = ending::describe_end(
        RunStatus::Verified,
        &RunRecord { title: String::new(), ..run() },
        &RunLimits::DEFAULT,
        "why",
    );
    assert_snapshot!(line, @"verified — why (run k7f2); see `ralph why k7f2`");
}
