//! Driven runs: the final look, hand-overs to fresh sessions, remedies for missing progress, and cost limits.

use crate::scenario::{
    TestRun, TestStop, check, driven_run, requirement, run, session, stop_at, test_run,
};
use proptest::collection::vec;
use proptest::prelude::*;
use ralph_core::drive::{
    CostSource, DriveSettings, MeterBasis, MeterReading, PlannedWait, Remedy, RunnerEvent,
    SessionPolicy, WaitCause,
};
use ralph_core::facts::StopDriver;
use ralph_core::limits::RunLimits;
use ralph_core::record::{DecisionRule, RunChange, RunRecord, StopOutcome};
use ralph_core::requirement::{Finding, PendingReason, RequirementFailure, RequirementStatus};
use ralph_core::run::{FailureScore, Plateau, RunPhase, Spending};
use ralph_core::status::RunStatus;
use ralph_core::verdict::Verdict;
use std::fmt::Write;

const MINUTE_MS: u64 = 60_000;
const DOLLAR: u64 = 1_000_000;

fn with(sessions: SessionPolicy) -> TestRun {
    driven_run(DriveSettings { sessions, ..DriveSettings::DEFAULT })
}

fn with_stronger_model() -> TestRun {
    let stronger_model = Some("opus".into());
    driven_run(DriveSettings { stronger_model, ..DriveSettings::DEFAULT })
}

/// A stop of an agent that a runner started and whose process is still alive.
fn by_runner(tree: u64) -> TestStop {
    stop_at(tree).driver(StopDriver::Runner)
}

/// An unmet requirement with this many findings.
fn failing(at: TestStop, name: &str, findings: usize) -> TestStop {
    let mut failure = RequirementFailure::new(format!("{findings} failed"));
    failure.findings =
        (0..findings).map(|finding| Finding::new(format!("test {finding}"))).collect();
    at.require(requirement(name, RequirementStatus::Unmet(failure)))
}

fn not_reached(at: TestStop, name: &str) -> TestStop {
    let why = PendingReason::NotReached("comes after the build".into());
    at.require(requirement(name, RequirementStatus::Pending(why)))
}

fn metered(number: u32, source: CostSource, micro_usd: u64, tokens: u64) -> RunnerEvent {
    let (session, meter) = (session(number), MeterBasis::Told);
    RunnerEvent::Metered(MeterReading { session, source, micro_usd, tokens, turns: 1, meter })
}

/// The notice of the end, for the person.
fn notice(scenario: &TestRun) -> &str {
    let Verdict::EndRun { notice, .. } = &scenario.last().decision.verdict else {
        panic!("no end: {scenario}")
    };
    notice
}

/// R-L9d: while the agent's process is alive, it can still change the work. The runner therefore evaluates the
/// requirements again after it has exited, even though that stop was already answered.
#[test]
fn success_is_confirmed_by_a_final_look() {
    let met = || stop_at(1).met("tests").delivery(7);
    let looked = driven_run(DriveSettings::DEFAULT).stop(met().driver(StopDriver::Runner));
    assert_eq!(looked.state.phase, RunPhase::Active);
    check!(looked.clone().stop(met().driver(StopDriver::RunnerAlone)), @"
    1  allow            rule final-look   0 charged  1 requirement is met after 0 iterations and 1 min
    2  end verified     rule verified     0 charged  1 requirement is met after 0 iterations and 2 min
    ");
    check!(looked.stop(stop_at(1).unmet("tests").delivery(7).driver(StopDriver::RunnerAlone)), @"
    1  allow            rule final-look   0 charged  1 requirement is met after 0 iterations and 1 min
    2  block            rule block        1 charged  1 not met
    ");
    check!(driven_run(DriveSettings::DEFAULT).stop(by_runner(1).claimed("tests")), @"1  allow            rule final-look   0 charged  1 requirement is claimed to be met after 0 iterations and 1 min; nothing measured it");
    check!(driven_run(DriveSettings::DEFAULT).stop(stop_at(1).met("tests")), @"1  end verified     rule verified     0 charged  1 requirement is met after 0 iterations and 1 min");
}

/// Work in the run's own work tree is verified after it has landed. Claimed work is not landed.
#[test]
fn a_run_does_not_end_before_its_work_has_landed() {
    let closing = |stop: TestStop| {
        driven_run(DriveSettings::DEFAULT).stop(stop.delivery(7).driver(StopDriver::RunnerLanding))
    };
    let back = closing(stop_at(1).met("tests"));
    assert_eq!(back.state.phase, RunPhase::Active);
    check!(back.stop(stop_at(1).met("tests").delivery(7).driver(StopDriver::RunnerAlone)), @"
    1  allow            rule final-look   0 charged  1 requirement is met after 0 iterations and 1 min
    2  end verified     rule verified     0 charged  1 requirement is met after 0 iterations and 2 min
    ");
    check!(closing(stop_at(1).claimed("tests")), @"1  end claimed      rule claimed      0 charged  1 requirement is claimed to be met after 0 iterations and 1 min; nothing measured it");
    check!(closing(stop_at(1).unmet("tests")), @"1  block            rule block        1 charged  1 not met");
}

/// A successful stop that the clean checkout does not confirm is neither progress nor charged.
#[test]
fn a_final_look_does_not_count() {
    let looked = |scenario: TestRun, turn: u64| {
        scenario.stop(by_runner(turn).met("tests")).stop(failing(
            stop_at(turn).driver(StopDriver::RunnerAlone),
            "tests",
            3,
        ))
    };
    let held = (1..=3).fold(driven_run(DriveSettings::DEFAULT), looked);
    check!(held, @"
    1  allow            rule final-look   0 charged  1 requirement is met after 0 iterations and 1 min
    2  block            rule block        1 charged  1 not met
    3  allow            rule final-look   1 charged  1 requirement is met after 1 iteration and 3 min
    4  block            rule block        2 charged  1 not met
    5  allow            rule final-look   2 charged  1 requirement is met after 2 iterations and 5 min
    6  block            rule block        3 charged  1 not met
    ");
    let best = FailureScore { pending: 0, weight: 4 };
    assert_eq!(held.state.driving.flat, Some(Plateau { best, stops: 2, known: 0 }));
}

/// R-L7b: a judge is only asked after the agent's process has exited. The stops before that do not make it forget that it
/// gave no verdict.
#[test]
fn a_judge_without_a_verdict_breaks_a_driven_run() {
    let looked = |scenario: TestRun, turn: u64| {
        let alone = stop_at(turn).delivery(7).driver(StopDriver::RunnerAlone);
        scenario.stop(by_runner(turn).met("tests")).stop(alone.met("tests").unknown("review"))
    };
    let broken = (1..=2).fold(driven_run(DriveSettings::DEFAULT), looked);
    check!(broken, @"
    1  allow            rule final-look   0 charged  1 requirement is met after 0 iterations and 1 min
    2  block            rule block        1 charged  1 without a result
    3  allow            rule final-look   1 charged  1 requirement is met after 1 iteration and 3 min
    4  end gate_broken  rule gate-broken  1 charged  review gave no result twice in a row: timed out after 5 min
    ");
    let repaired = looked(driven_run(DriveSettings::DEFAULT), 1)
        .stop(by_runner(2).met("tests"))
        .stop(stop_at(2).delivery(7).driver(StopDriver::RunnerAlone).met("tests").unmet("review"));
    let lines = looked(repaired, 3);
    check!(lines, @"
    1  allow            rule final-look   0 charged  1 requirement is met after 0 iterations and 1 min
    2  block            rule block        1 charged  1 without a result
    3  allow            rule final-look   1 charged  1 requirement is met after 1 iteration and 3 min
    4  block            rule block        2 charged  1 not met
    5  allow            rule final-look   2 charged  1 requirement is met after 2 iterations and 5 min
    6  block            rule block        3 charged  1 without a result
    ");
}

/// R-L6b, R-D4c: when a fresh session takes over, for each session policy. It is charged like a block, with the same
/// gates.
#[test]
fn a_fresh_session_takes_over() {
    let run_with = |sessions| {
        with(sessions)
            .stop(failing(by_runner(1), "a", 2).unmet("b").unmet("c"))
            .stop(failing(by_runner(2), "a", 1).unmet("b").unmet("c"))
            .stop(by_runner(3).met("a").unmet("b").unmet("c"))
            .begin_session(2)
            .stop(by_runner(4).met("a").unmet("b").unmet("c").context(799, StopDriver::Runner))
            .stop(by_runner(5).met("a").unmet("b").unmet("c").context(800, StopDriver::Runner))
            .begin_session(3)
            .stop(by_runner(6).met("a").met("b").unmet("c").context(950, StopDriver::RunnerAlone))
    };
    check!(run_with(SessionPolicy::Hybrid), @"
    1  block            rule block        1 charged  3 not met
    2  block            rule block        2 charged  3 not met
    3  block            rule block        3 charged  2 not met
    4  block            rule block        4 charged  2 not met
    5  allow            rule hand-over    5 charged  the context is 80 % full, 2 not met
    6  allow            rule hand-over    6 charged  the context is 95 % full, 1 not met
    ");
    check!(run_with(SessionPolicy::FreshPerFeature), @"
    1  block            rule block        1 charged  3 not met
    2  block            rule block        2 charged  3 not met
    3  allow            rule hand-over    3 charged  another requirement is met, and the next one gets a fresh session, 2 not met
    4  block            rule block        4 charged  2 not met
    5  allow            rule hand-over    5 charged  the context is 80 % full, 2 not met
    6  allow            rule hand-over    6 charged  the context is 95 % full, 1 not met
    ");
    check!(run_with(SessionPolicy::SameSession), @"
    1  block            rule block        1 charged  3 not met
    2  block            rule block        2 charged  3 not met
    3  block            rule block        3 charged  2 not met
    4  block            rule block        4 charged  2 not met
    5  block            rule block        5 charged  2 not met
    6  block            rule block        6 charged  1 not met
    ");
}

/// While only gates are running there is nothing to hand over: they may all pass.
#[test]
fn no_hand_over_while_only_gates_are_running() {
    let running = RequirementStatus::Pending(PendingReason::Running("still running".into()));
    let waits = by_runner(2).require(requirement("tests", running));
    let waited = with(SessionPolicy::FreshPerFeature)
        .stop(by_runner(1).unmet("tests").unmet("lint"))
        .stop(waits.clone().context(900, StopDriver::Runner))
        .stop(waits);
    check!(waited, @"
    1  block            rule block        1 charged  2 not met
    2  block            rule block        1 charged  1 pending
    3  block            rule block        1 charged  1 pending
    ");
}

/// Messages from a person are delivered once: the session that takes over reads them first.
#[test]
fn messages_are_handed_over_with_the_work() {
    let over = driven_run(DriveSettings::DEFAULT)
        .stop(by_runner(1).unmet("tests"))
        .change(RunChange::HintGiven { text: "use the old format".into(), by: None, answers: None })
        .stop(by_runner(2).unmet("tests").context(900, StopDriver::Runner));
    assert_eq!(over.last().decision.outcome, StopOutcome::HandedOver);
    assert_eq!(over.state.hints, Vec::<String>::new());
    assert_eq!(
        over.state.driving.handing_over.as_deref(),
        Some("the context is 90 % full, 2 not met")
    );
    let taken = over.begin_session(2);
    assert_eq!(taken.state.driving.handing_over, None);
    assert_eq!(taken.state.driving.open_at_start, Some(2));
}

/// R-L10a, R-L10d: first the lack of progress is reported, then another approach, a fresh session and a stronger model
/// are tried, and then the run ends with a list of what was tried.
#[test]
fn remedies_are_tried_in_order() {
    let tried = with_stronger_model().stops(9, |_| by_runner(1).unmet("tests"));
    check!(tried, @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule remedy       3 charged  the last 3 stops made no progress on tests, 1 not met; trying another approach
    4  block            rule block        4 charged  1 not met
    5  allow            rule remedy       5 charged  the last 3 stops made no progress on tests, 1 not met; trying a fresh session
    6  block            rule block        6 charged  1 not met
    7  allow            rule remedy       7 charged  the last 3 stops made no progress on tests, 1 not met; trying a stronger model
    8  block            rule block        8 charged  1 not met
    9  end stuck        rule stuck        8 charged  the last 3 stops made no progress on tests, 1 not met; tried another approach, then a fresh session, then a stronger model
    ");
    check!(notice(&tried), @"ralph: stuck: nested quotes — the last 3 stops made no progress on tests, 1 not met; tried another approach, then a fresh session, then a stronger model (run k7f2); `ralph why k7f2` shows what it is stuck on; help with that, then run `ralph run --fork k7f2`");
}

#[test]
fn unavailable_remedies_are_skipped() {
    let stuck = |scenario: TestRun| scenario.stops(9, |_| by_runner(1).unmet("tests")).to_string();
    check!(stuck(driven_run(DriveSettings::DEFAULT)), @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule remedy       3 charged  the last 3 stops made no progress on tests, 1 not met; trying another approach
    4  block            rule block        4 charged  1 not met
    5  allow            rule remedy       5 charged  the last 3 stops made no progress on tests, 1 not met; trying a fresh session
    6  block            rule block        6 charged  1 not met
    7  end stuck        rule stuck        6 charged  the last 3 stops made no progress on tests, 1 not met; tried another approach, then a fresh session
    8  allow            rule not-mine     6 charged  the run has ended: stuck
    9  allow            rule not-mine     6 charged  the run has ended: stuck
    ");
    check!(stuck(with(SessionPolicy::SameSession)), @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule remedy       3 charged  the last 3 stops made no progress on tests, 1 not met; trying another approach
    4  block            rule block        4 charged  1 not met
    5  end stuck        rule stuck        4 charged  the last 3 stops made no progress on tests, 1 not met; tried another approach
    6  allow            rule not-mine     4 charged  the run has ended: stuck
    7  allow            rule not-mine     4 charged  the run has ended: stuck
    8  allow            rule not-mine     4 charged  the run has ended: stuck
    9  allow            rule not-mine     4 charged  the run has ended: stuck
    ");
    let same = Some(String::from("opus"));
    let already =
        DriveSettings { model: same.clone(), stronger_model: same, ..DriveSettings::DEFAULT };
    assert_eq!(stuck(driven_run(already)), stuck(driven_run(DriveSettings::DEFAULT)));
    // A run without drive settings.
    check!(test_run().stops(3, |_| by_runner(1).unmet("tests")), @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  end stuck        rule stuck        2 charged  the last 3 stops made no progress on tests, 1 not met
    ");
}

/// R-L10b: a tree that alternates between two states gets the same remedies as one that does not change.
#[test]
fn an_alternating_tree_gets_remedies() {
    let tried = driven_run(DriveSettings::DEFAULT)
        .stops(12, |turn| by_runner(u64::from(turn % 2)).unmet("tests"));
    check!(tried, @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 not met
    4  block            rule remedy       4 charged  the last 3 stops made no progress on tests, 1 not met; trying another approach
    5  block            rule block        5 charged  1 not met
    6  allow            rule remedy       6 charged  the last 3 stops made no progress on tests, 1 not met; trying a fresh session
    7  block            rule block        7 charged  1 not met
    8  end stuck        rule stuck        7 charged  the last 3 stops made no progress on tests, 1 not met; tried another approach, then a fresh session
    9  allow            rule not-mine     7 charged  the run has ended: stuck
    10 allow            rule not-mine     7 charged  the run has ended: stuck
    11 allow            rule not-mine     7 charged  the run has ended: stuck
    12 allow            rule not-mine     7 charged  the run has ended: stuck
    ");
}

/// The remedies can be tried again after progress, and after input from a person.
#[test]
fn progress_resets_the_remedies() {
    let once = driven_run(DriveSettings::DEFAULT).stops(3, |_| failing(by_runner(1), "tests", 4));
    assert_eq!(once.state.driving.tried, [Remedy::Approach]);
    let changed = once.clone().stop(failing(by_runner(2), "tests", 4));
    assert_eq!(changed.state.driving.tried, [Remedy::Approach]);
    let better = changed.clone().stop(failing(by_runner(3), "tests", 3));
    assert_eq!(better.state.driving.tried, []);
    for change in [
        RunChange::HintGiven { text: "leave the parser".into(), by: None, answers: None },
        RunChange::Resumed,
    ] {
        assert_eq!(changed.clone().change(change).state.driving.tried, []);
    }
    let recorded_twice =
        once.drove(RunnerEvent::Tried { remedy: Remedy::Approach, why: "no".into() });
    assert_eq!(recorded_twice.state.driving.tried, [Remedy::Approach]);
}

/// The text that asks the agent for another approach.
#[test]
fn another_approach_is_requested() {
    let asked = driven_run(DriveSettings::DEFAULT).stops(3, |_| failing(by_runner(1), "tests", 1));
    check!(asked.reason(), @r#"
    ralph: iteration 3 of 25 — still 1 of 1 not met, no progress (tests; state 70c7985; run k7f2)

    The approach so far does not work, and repeating it will not help. Write one sentence on why it failed, choose a different approach, say which one, and only then continue. If only a person can decide, run `ralph ask "…"`
    "#);
    let mut many = by_runner(1);
    for gate in 0..20 {
        many = failing(many, &format!("gate {gate} {}", "of many words ".repeat(8)), 5);
    }
    let full = with(SessionPolicy::SameSession)
        .stop(by_runner(1).unmet("tests"))
        .stops(2, |_| by_runner(1).unmet("tests"))
        .change(RunChange::Compacted);
    let full = full.stops(3, |_| many.clone().context(900, StopDriver::Runner));
    assert!(full.reason().chars().count() <= 1_500, "{}", full.reason());
}

/// A constant number of failures on ever new trees is a plateau. It takes longer to be detected than a repeated state.
#[test]
fn failures_that_do_not_decrease_are_a_plateau() {
    let limits = RunLimits { max_iterations: None, ..RunLimits::DEFAULT };
    let run = RunRecord { limits, drive: Some(Box::new(DriveSettings::DEFAULT)), ..run() };
    let flat = TestRun::of(run)
        .begin_session(1)
        .stops(25, |turn| failing(by_runner(turn.into()), "tests", if turn == 0 { 2 } else { 3 }));
    let news: Vec<_> = flat
        .to_string()
        .lines()
        .map(str::to_owned)
        .filter(|line| !line.contains("rule block "))
        .collect();
    check!(news.join("\n"), @"
    13 block            rule remedy       13 charged  the failures did not decrease in 12 stops (3 at best, 4 now), 1 not met; trying another approach
    19 allow            rule remedy       19 charged  the failures did not decrease in 12 stops (3 at best, 4 now), 1 not met; trying a fresh session
    25 end stuck        rule stuck        24 charged  the failures did not decrease in 12 stops (3 at best, 4 now), 1 not met; tried another approach, then a fresh session
    ");
    check!(notice(&flat), @"ralph: stuck: nested quotes — the failures did not decrease in 12 stops (3 at best, 4 now), 1 not met; tried another approach, then a fresh session (run k7f2); `ralph why k7f2` shows what it is stuck on; help with that, then run `ralph run --fork k7f2`");
    // Half of the stops are at trees that were seen before.
    let slow = driven_run(DriveSettings::DEFAULT)
        .stops(9, |turn| failing(by_runner(u64::from(turn) / 2), "tests", 2));
    check!(slow, @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 not met
    4  block            rule block        4 charged  1 not met
    5  block            rule block        5 charged  1 not met
    6  block            rule block        6 charged  1 not met
    7  block            rule block        7 charged  1 not met
    8  block            rule block        8 charged  1 not met
    9  block            rule remedy       9 charged  the failures did not decrease in 8 stops (3 at best, 3 now), 1 not met; trying another approach
    ");
    // With a person present, there is no plateau detection.
    let watched = driven_run(DriveSettings::DEFAULT)
        .stops(25, |turn| failing(stop_at(turn.into()), "tests", 2));
    assert_eq!(watched.last().decision.rule, DecisionRule::Block);
}

/// R-L10c: finishing one piece after the other is progress, even if the number of open requirements stays the same.
#[test]
fn finishing_different_pieces_is_not_a_plateau() {
    let pieces = driven_run(DriveSettings::DEFAULT)
        .stops(24, |turn| by_runner(turn.into()).met("build").unmet(&format!("piece {turn}")));
    assert!(
        pieces.taken.iter().all(|taken| taken.decision.rule == DecisionRule::Block),
        "{pieces}"
    );
    // Two requirements that alternate are not progress.
    let turns = driven_run(DriveSettings::DEFAULT).stops(25, |turn| {
        let (met, unmet) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
        by_runner(turn.into()).met(met).unmet(unmet)
    });
    assert_eq!(turns.state.driving.tried, [Remedy::Approach, Remedy::FreshSession]);
}

/// A failing build hides test failures, so more failures after it passes are not a step back.
#[test]
fn pending_requirements_weigh_more_than_findings() {
    let broken = |turn| not_reached(failing(by_runner(turn), "build", 1), "tests");
    let built = |turn, findings| failing(by_runner(turn).met("build"), "tests", findings);
    let story =
        driven_run(DriveSettings::DEFAULT).stop(broken(1)).stop(built(2, 90)).stop(broken(3));
    let story = (4..16).fold(story, |story, turn| {
        story.stop(built(turn, 100 - usize::try_from(turn).unwrap() * 4))
    });
    assert!(story.taken.iter().all(|taken| taken.decision.rule == DecisionRule::Block), "{story}");
    let best = FailureScore { pending: 0, weight: 41 };
    assert_eq!(story.state.driving.flat, Some(Plateau { best, stops: 0, known: 0 }));
}

/// R-K1a, R-K1d: a turn that would exceed the remaining budget is refused before it begins, and the end names the limit.
/// The cost is estimated only for a runner, which can refuse a turn.
#[test]
fn cost_limits_end_a_run() {
    let limits = RunLimits { max_tokens: Some(900_000), ..RunLimits::DEFAULT };
    let settings = DriveSettings { day_micro_usd: Some(50 * DOLLAR), ..DriveSettings::DEFAULT };
    let run = RunRecord { limits, drive: Some(Box::new(settings)), ..run() };
    let start = TestRun::of(run).begin_session(1);
    let dear = start.clone().drove(metered(1, CostSource::Agent, 3 * DOLLAR, 10)).drove(metered(
        1,
        CostSource::Agent,
        4 * DOLLAR,
        20,
    ));
    let spent = |micro_usd, driver| by_runner(1).unmet("tests").spent(micro_usd).driver(driver);
    let tokens = |tokens| {
        let mut stop = spent(0, StopDriver::Runner);
        stop.facts.spent_tokens = Some(tokens);
        stop
    };
    let today = |micro_usd| {
        let mut stop = spent(0, StopDriver::RunnerAlone);
        stop.facts.spent_today_micro_usd = Some(micro_usd);
        stop
    };
    let ends = vec![
        start.clone().stop(spent(19 * DOLLAR, StopDriver::Runner)),
        start.clone().stop(spent(19 * DOLLAR + 1, StopDriver::Runner)),
        dear.clone().stop(spent(17 * DOLLAR, StopDriver::RunnerAlone)),
        dear.clone().stop(spent(17 * DOLLAR + 1, StopDriver::RunnerAlone)),
        dear.clone().stop(spent(17 * DOLLAR + 1, StopDriver::Person)),
        dear.clone().stop(spent(20 * DOLLAR, StopDriver::Runner)),
        dear.clone().stop(tokens(899_999)),
        dear.clone().stop(tokens(900_000)),
        dear.clone().stop(today(47 * DOLLAR)),
        dear.clone().stop(today(47 * DOLLAR + 1)),
        dear.stop(today(50 * DOLLAR)),
    ];
    let lines = ends.iter().fold(String::new(), |mut out, end| {
        writeln!(out, "{}", end.last()).unwrap();
        out
    });
    check!(lines, @"
    block            rule block        1 charged  1 not met
    end exhausted    rule limit        0 charged  another turn, which may cost $1, would exceed its budget of $20, 1 not met
    block            rule block        1 charged  1 not met
    end exhausted    rule limit        0 charged  another turn, which may cost $3, would exceed its budget of $20, 1 not met
    block            rule block        1 charged  1 not met
    end exhausted    rule limit        0 charged  its budget of $20 is spent, 1 not met
    block            rule block        1 charged  1 not met
    end exhausted    rule limit        0 charged  its limit of 900 k tokens is reached, 1 not met
    block            rule block        1 charged  1 not met
    end exhausted    rule limit        0 charged  another turn, which may cost $3, would exceed today's budget of $50, 1 not met
    end exhausted    rule limit        0 charged  today's budget of $50 is spent, 1 not met
    ");
}

/// Before any turn was metered the worst case is assumed, but never so much that the first turn would be refused.
#[test]
fn a_small_budget_allows_a_first_turn() {
    let limits = RunLimits { max_cost_micro_usd: Some(DOLLAR / 2), ..RunLimits::DEFAULT };
    let small = driven_run(DriveSettings::DEFAULT).limits(limits).begin_session(1);
    let spent = |micro_usd| by_runner(1).unmet("tests").spent(micro_usd);
    check!(small.clone().stop(spent(0)), @"1  block            rule block        1 charged  1 not met");
    check!(small.stop(spent(400_000)), @"1  end exhausted    rule limit        0 charged  another turn, which may cost $0.13, would exceed its budget of $0.50, 1 not met");
}

/// R-L8c: the last allowed iteration counts, whichever session it is in.
#[test]
fn the_last_session_may_finish() {
    let last = driven_run(DriveSettings::DEFAULT)
        .max_iterations(1)
        .begin_session(1)
        .stop(by_runner(1).unmet("tests").context(900, StopDriver::Runner))
        .begin_session(2);
    check!(last.clone().stop(by_runner(2).met("tests")).stop(stop_at(2).met("tests").driver(StopDriver::RunnerAlone)), @"
    1  allow            rule hand-over    1 charged  the context is 90 % full, 1 not met
    2  allow            rule final-look   1 charged  1 requirement is met after 1 iteration and 2 min
    3  end verified     rule verified     1 charged  1 requirement is met after 1 iteration and 3 min
    ");
    check!(last.stop(by_runner(2).unmet("tests")), @"
    1  allow            rule hand-over    1 charged  the context is 90 % full, 1 not met
    2  end exhausted    rule limit        1 charged  its 1 iteration is used up, 1 not met
    ");
}

/// R-K1b, R-K1c: every session counts, agents and gates separately, each with the highest value its meter showed.
#[test]
fn spending_is_summed_over_sessions() {
    let spent = driven_run(DriveSettings::DEFAULT)
        .drove(metered(1, CostSource::Agent, 2 * DOLLAR, 100))
        .drove(metered(1, CostSource::Gate, DOLLAR, 10))
        .drove(metered(1, CostSource::Agent, DOLLAR, 50))
        .begin_session(2)
        .drove(metered(2, CostSource::Agent, 5 * DOLLAR, 500))
        .begin_session(1)
        .drove(metered(1, CostSource::Agent, 3 * DOLLAR, 150))
        .drove(metered(9, CostSource::Agent, 90 * DOLLAR, 9));
    let driving = &spent.state.driving;
    assert_eq!(driving.spent(), Spending { micro_usd: 9 * DOLLAR, tokens: 660 });
    assert_eq!((driving.count, driving.worst_turn_micro_usd), (2, 5 * DOLLAR));
    assert_eq!(spent.state.driven_session(), Some(&session(1)));
    let many = (3..=100).fold(spent, |many, number| {
        many.begin_session(number).drove(metered(number, CostSource::Agent, DOLLAR, 1))
    });
    let driving = &many.state.driving;
    assert_eq!(driving.spent(), Spending { micro_usd: 107 * DOLLAR, tokens: 758 });
    assert_eq!((driving.count, driving.sessions.len()), (100, 64));
}

/// R-L6c: a wait counts only up to its planned end, because a machine that was off did not wait. A wait that is recorded
/// again after a restart counts once.
#[test]
fn waits_are_counted() {
    let waits = |cause, since: u64, until: u64| {
        let (since_ms, until_ms) = (since * MINUTE_MS, until * MINUTE_MS);
        RunnerEvent::Waits(PlannedWait {
            cause,
            since_ms,
            until_ms,
            attempt: 1,
            why: "429".into(),
            window: None,
        })
    };
    let mut scenario = driven_run(DriveSettings::DEFAULT);
    let mut at = |minute: u64, drove: RunnerEvent| {
        scenario.now_ms = minute * MINUTE_MS;
        scenario.write(RunChange::Drove(Box::new(drove)));
    };
    at(100, waits(WaitCause::RateLimit, 100, 160));
    at(130, waits(WaitCause::RateLimit, 100, 160));
    at(900, RunnerEvent::Woke);
    at(901, RunnerEvent::Woke);
    at(902, waits(WaitCause::Network, 902, 910));
    at(905, waits(WaitCause::Server, 905, 915));
    at(910, RunnerEvent::Woke);
    let driving = &scenario.state.driving;
    let minutes = [driving.waited_limit_ms, driving.waited_errors_ms].map(|ms| ms / MINUTE_MS);
    assert_eq!((minutes, driving.resumes, &driving.wait), ([60, 8], 1, &None));
}

/// A parked run holds no session until it is resumed.
#[test]
fn a_parked_run_allows_stops() {
    let parked = RunnerEvent::Parked {
        status: RunStatus::RateLimited,
        why: "the limit is lifted at 6".into(),
    };
    let parked = driven_run(DriveSettings::DEFAULT).drove(parked).stop(by_runner(1).unmet("tests"));
    assert_eq!(
        parked.state.driving.parked.as_ref().map(|parked| parked.status),
        Some(RunStatus::RateLimited)
    );
    let resumed = parked.change(RunChange::Resumed);
    assert_eq!(resumed.state.driving.parked, None);
    check!(resumed.stop(by_runner(1).unmet("tests")), @"
    1  allow            rule off          0 charged  paused
    2  block            rule block        1 charged  1 not met
    ");
}

/// Crashes are counted until the agent reaches a stop again. A meter reading does not reset the counter: an agent that
/// always crashes at once costs something every time.
#[test]
fn crashes_in_a_row_are_counted() {
    let broke = || RunnerEvent::Broke { how: "killed".into() };
    let broken = driven_run(DriveSettings::DEFAULT).drove(broke()).drove(broke());
    assert_eq!(broken.state.driving.broken, 2);
    let gate = broken.drove(metered(1, CostSource::Gate, 1, 1));
    let agent = gate.drove(metered(1, CostSource::Agent, 1, 1));
    assert_eq!(agent.state.driving.broken, 2);
    assert_eq!(agent.stop(by_runner(1).unmet("tests")).state.driving.broken, 0);
}

#[derive(Clone, Copy, Debug)]
struct DrivenTurn {
    tree: u64,
    findings: usize,
    permille: u16,
    is_alone: bool,
}

fn turns() -> impl Strategy<Value = Vec<DrivenTurn>> {
    let turn = (0..40_u64, 0..4_usize, 700..1000_u16, any::<bool>());
    let turn = turn.prop_map(|(tree, findings, permille, is_alone)| DrivenTurn {
        tree,
        findings,
        permille,
        is_alone,
    });
    vec(turn, 30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A run that never succeeds ends at its last iteration or earlier, even if every stop is a hand-over. Each remedy is
    /// tried at most once since the last progress, and the run never ends as a success.
    #[test]
    fn a_driven_run_ends(turns in turns(), most in 1..=25_u32, policy in 0..3_usize) {
        let sessions = [SessionPolicy::Hybrid, SessionPolicy::SameSession, SessionPolicy::FreshPerFeature][policy];
        let settings = DriveSettings { sessions, stronger_model: Some("opus".into()), ..DriveSettings::DEFAULT };
        let mut scenario = driven_run(settings).max_iterations(most).begin_session(1);
        let mut number = 1;
        for turn in turns {
            let driver = if turn.is_alone { StopDriver::RunnerAlone } else { StopDriver::Runner };
            let stop = failing(stop_at(turn.tree), "tests", turn.findings).context(turn.permille, driver);
            scenario = scenario.stop(stop);
            if scenario.last().decision.outcome == StopOutcome::HandedOver {
                prop_assert!(scenario.state.driving.handing_over.is_some());
                number += 1;
                scenario = scenario.begin_session(number);
            }
            let tried = &scenario.state.driving.tried;
            prop_assert!(tried.is_sorted_by(|a, b| a < b), "{:?}", tried);
        }
        let charged = scenario.taken.iter().filter(|taken| {
            matches!(taken.decision.outcome, StopOutcome::Blocked { .. } | StopOutcome::HandedOver)
        });
        prop_assert_eq!(u32::try_from(charged.count()).unwrap(), scenario.state.iteration);
        prop_assert!(scenario.state.iteration <= most);
        prop_assert!(matches!(scenario.state.phase, RunPhase::Ended(RunStatus::Exhausted | RunStatus::Stuck)));
    }
}

/// The time between the death of a runner and the resumption of its run does not count.
#[test]
fn time_without_a_runner_does_not_count() {
    let mut scenario = driven_run(DriveSettings::DEFAULT);
    let start_ms = scenario.now_ms;
    let mut at = |minute: u64, change: RunChange| {
        scenario.now_ms = start_ms + minute * MINUTE_MS;
        scenario.write(change);
        scenario.state.elapsed_ms(scenario.now_ms) / MINUTE_MS
    };
    let broke = || RunChange::Drove(Box::new(RunnerEvent::Broke { how: "killed".into() }));
    let took = [at(10, broke()), at(500, RunChange::Resumed), at(505, broke())];
    assert_eq!(took, [10, 10, 15]);
}
