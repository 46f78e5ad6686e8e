//! The rows of the decision table: each can fire, takes precedence over the rows below it, and has the expected effect.

use crate::scenario::{
    TestRun, TestStop, check, driven_run, files_only, gated_session, requirement, run, sealed_run,
    stop_at, test_run,
};
use ralph_core::drive::DriveSettings;
use ralph_core::event::{HostTrouble, PendingWorkKind};
use ralph_core::facts::{
    BlockCap, DeclaredPause, OffReason, PolicyTrust, StopDriver, TreeIdentity,
};
use ralph_core::limits::RunLimits;
use ralph_core::policy::OnTampering;
use ralph_core::proof::ProofVerdict;
use ralph_core::record::{DecisionRule, RunChange, RunOrigin, RunRecord};
use ralph_core::requirement::{Finding, RequirementFailure, RequirementStatus};
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::verdict::Verdict;
use std::fmt::Write;

const NO_LIMIT: RunLimits = RunLimits { max_iterations: None, ..RunLimits::DEFAULT };
const TWENTY_DOLLARS: u64 = 20_000_000;

struct TableRow {
    without: &'static str,
    scenario: TestRun,
}

/// A stop at which every row of a run's table matches, then the same stop without the cause of the first row, then also
/// without that of the second, and so on.
fn rows_of_a_run() -> Vec<TableRow> {
    let limits = RunLimits { stuck_after: 2, ..RunLimits::DEFAULT };
    let drive = Some(Box::new(DriveSettings::DEFAULT));
    let before =
        TestRun::of(RunRecord { limits, on_tampering: OnTampering::EndInReview, drive, ..run() })
            .stop(stop_at(1).unmet("tests"))
            .stop(stop_at(1).unmet("tests").unknown("lint").delivery(7));
    let odd = || HostTrouble::Unknown("solar_flare".into());
    let all = stop_at(1)
        .unmet("tests")
        .unknown("lint")
        .off(OffReason::Environment)
        .delivery(7)
        .trouble(HostTrouble::RateLimit)
        .pending(PendingWorkKind::Background, "shell \"build\"")
        .declared(DeclaredPause::NeedsHuman("which licence?".into()))
        .trust(PolicyTrust::Missing { what: "`ralph.toml`".into(), how: "ralph trust".into() })
        .tampering("`run.json` was changed after the start")
        .spent(TWENTY_DOLLARS)
        .context(900, StopDriver::Person);
    let peels: [(&'static str, &dyn Fn(TestStop) -> TestStop); 14] = [
        ("", &|at| at),
        ("the switch", &|at| at.off(None)),
        // A runner gets each stop only once.
        ("the same delivery", &|at| at.delivery(8).driver(StopDriver::Runner)),
        ("a known reason", &|at| at.trouble(odd())),
        ("trouble", &|at| at.trouble(None)),
        ("pending work", &|at| at.nothing_pending()),
        ("a question", &|at| at.declared(None)),
        ("mistrust", &|at| at.trust(PolicyTrust::Approved)),
        ("tampering", &|at| at.tampering(None)),
        ("the unknown", &|at| at.nothing_required().unmet("tests")),
        ("the spending", &|at| at.spent(None)),
        ("a runner", &|at| at.driver(StopDriver::Person)),
        ("the known tree", &|at| at.tree(TreeIdentity::Known(2)).driver(StopDriver::Runner)),
        ("the full context", &|at| at.context(100, StopDriver::Runner)),
    ];
    let mut stop = all;
    let mut rows = Vec::new();
    for (without, peel) in peels {
        stop = peel(stop);
        rows.push(TableRow { without, scenario: before.clone().stop(stop.clone()) });
    }
    rows
}

/// The same for a session without a run.
fn rows_of_files() -> Vec<TableRow> {
    let all = stop_at(1)
        .unmet("tasks")
        .off(OffReason::KillSwitch)
        .trouble(HostTrouble::Overloaded)
        .pending(PendingWorkKind::WakeUp, "*/5 * * * *")
        .trust(PolicyTrust::Missing { what: "`ralph.toml`".into(), how: "ralph trust".into() })
        .continuing(true);
    let peels: [(&'static str, &dyn Fn(TestStop) -> TestStop); 7] = [
        ("", &|at| at),
        ("the switch", &|at| at.off(None)),
        ("trouble", &|at| at.trouble(None)),
        ("pending work", &|at| at.nothing_pending()),
        ("mistrust", &|at| at.trust(PolicyTrust::Approved)),
        ("an earlier block", &|at| at.continuing(false)),
        ("anything open", &|at| at.nothing_required().claimed("tasks")),
    ];
    let mut stop = all;
    let mut rows = Vec::new();
    for (without, peel) in peels {
        stop = peel(stop);
        rows.push(TableRow { without, scenario: files_only().stop(stop.clone()) });
    }
    rows
}

/// The same for a session without a run that the gates of the project hold.
fn rows_of_gated_session() -> Vec<TableRow> {
    let all = stop_at(1)
        .unmet("tests")
        .running("e2e")
        .unknown("lint")
        .old_failures("types")
        .prompt_holds(3)
        .off(OffReason::KillSwitch)
        .pending(PendingWorkKind::Background, "shell \"build\"")
        .trust(PolicyTrust::Missing { what: "`ralph.toml`".into(), how: "ralph trust".into() });
    let peels: [(&'static str, &dyn Fn(TestStop) -> TestStop); 9] = [
        ("", &|at| at),
        ("the switch", &|at| at.off(None)),
        ("pending work", &|at| at.nothing_pending()),
        ("mistrust", &|at| at.trust(PolicyTrust::Approved)),
        ("three holds", &|at| at.prompt_holds(2)),
        ("the failure", &|at| {
            at.nothing_required().running("e2e").unknown("lint").old_failures("types")
        }),
        ("the running gate", &|at| at.nothing_required().unknown("lint").old_failures("types")),
        ("the unknown", &|at| at.nothing_required().met("lint").old_failures("types")),
        ("old failures", &|at| at.nothing_required().met("lint").met("types")),
    ];
    let mut stop = all;
    let mut rows = Vec::new();
    for (without, peel) in peels {
        stop = peel(stop);
        rows.push(TableRow { without, scenario: gated_session().stop(stop.clone()) });
    }
    rows
}

/// Met requirements end the run even if rows below match too, and nothing follows an end.
fn rows_of_ends() -> Vec<TableRow> {
    let limits = RunLimits { max_iterations: Some(1), stuck_after: 2, ..RunLimits::DEFAULT };
    let used_up = test_run().limits(limits).stop(stop_at(1).unmet("tests"));
    let last = |stop: TestStop| stop.spent(TWENTY_DOLLARS).context(900, StopDriver::RunnerAlone);
    let tampered = test_run().stop(stop_at(1).unmet("tests").tampering("`run.json` was changed"));
    vec![
        TableRow { without: "", scenario: used_up.clone().stop(last(stop_at(1).met("tests"))) },
        TableRow {
            without: "measuring",
            scenario: used_up.clone().stop(last(stop_at(1).claimed("tests"))),
        },
        TableRow {
            without: "measuring all",
            scenario: used_up.clone().stop(last(
                stop_at(1).met("tests").met("lint").claimed("promise").claimed("tasks"),
            )),
        },
        TableRow {
            without: "measuring one",
            scenario: used_up.clone().stop(last(stop_at(1).met("tests").claimed("promise"))),
        },
        TableRow {
            without: "a test of the work",
            scenario: TestRun::of(sealed_run())
                .stop(last(stop_at(1).met("tests")).proof(ProofVerdict::Green, &[])),
        },
        TableRow {
            without: "sealed checks",
            scenario: TestRun::of(sealed_run()).stop(
                last(stop_at(1).met("tests"))
                    .proof(ProofVerdict::Verified, &[])
                    .unsealed("tests runs `sh $x`"),
            ),
        },
        TableRow {
            without: "a process gone",
            scenario: used_up
                .clone()
                .stop(last(stop_at(1).met("tests")).driver(StopDriver::Runner)),
        },
        TableRow { without: "honesty", scenario: tampered.stop(last(stop_at(1).met("tests"))) },
        TableRow {
            without: "an open run",
            scenario: used_up.stop(last(stop_at(1).met("tests"))).stop(stop_at(1).unmet("tests")),
        },
    ]
}

fn shown(rows: &[TableRow]) -> String {
    rows.iter().fold(String::new(), |mut out, row| {
        writeln!(out, "without {:<18} {}", row.without, row.scenario.last()).unwrap();
        out
    })
}

#[test]
fn the_first_matching_row_wins() {
    check!(shown(&rows_of_a_run()), @r#"
    without                    allow            rule off          2 charged  `RALPH_OFF` is set
    without the switch         block            rule repeat       2 charged  the same stop was delivered again
    without the same delivery  allow            rule host-trouble 2 charged  the turn ended with rate_limit
    without a known reason     allow            rule odd-stop     2 charged  the turn ended with "solar_flare", which this version does not know
    without trouble            allow            rule needs-human  2 charged  which licence?
    without pending work       allow            rule needs-human  2 charged  which licence?
    without a question         allow, noting    rule untrusted    2 charged  `ralph.toml`
    without mistrust           end needs_review rule tampered     2 charged  `run.json` was changed after the start
    without tampering          end gate_broken  rule gate-broken  2 charged  lint gave no result twice in a row: timed out after 5 min
    without the unknown        end exhausted    rule limit        2 charged  its budget of $20 is spent, 1 not met
    without the spending       block            rule remedy       3 charged  the last 2 stops made no progress on tests, 1 not met; trying another approach
    without a runner           end stuck        rule stuck        2 charged  the last 2 stops made no progress on tests, 1 not met
    without the known tree     allow            rule hand-over    3 charged  the context is 90 % full, 1 not met
    without the full context   block            rule block        3 charged  1 not met
    "#);
}

#[test]
fn the_first_matching_row_wins_for_files_too() {
    check!(shown(&rows_of_files()), @"
    without                    allow            rule off          0 charged  the kill switch file exists
    without the switch         allow            rule host-trouble 0 charged  the turn ended with overloaded
    without trouble            allow            rule waiting      0 charged  1 wake-up pending: */5 * * * *
    without pending work       allow, noting    rule untrusted    0 charged  `ralph.toml`
    without mistrust           allow            rule hold-once    0 charged  1 not met, and the files already held this prompt once
    without an earlier block   block            rule block        0 charged  1 not met
    without anything open      allow            rule claimed      0 charged  nothing is open in the files about this session
    ");
}

#[test]
fn the_first_matching_row_wins_for_gated_sessions_too() {
    check!(shown(&rows_of_gated_session()), @r#"
    without                    allow            rule off          0 charged  the kill switch file exists
    without the switch         allow            rule waiting      0 charged  1 background task pending: shell "build"
    without pending work       allow, noting    rule untrusted    0 charged  `ralph.toml`
    without mistrust           allow, noting    rule limit        0 charged  held 3 times, still failing: tests (it fails)
    without three holds        block            rule block        1 charged  1 not met, 1 without a result, 1 pending
    without the failure        allow, noting    rule waiting      0 charged  e2e is still running
    without the running gate   allow, noting    rule gate-broken  0 charged  lint gave no result: timed out after 5 min
    without the unknown        allow, noting    rule passed       0 charged  nothing got worse; 1 old failure remains: types
    without old failures       allow, noting    rule passed       0 charged  2 gates passed
    "#);
}

/// The holds of a prompt are bounded by the host's limit too, and the same report is shown once.
#[test]
fn a_gated_session_is_let_go_in_time() {
    let capped = stop_at(1).unmet("tests").in_a_row(8, BlockCap::At(8));
    let old = || stop_at(1).old_failures("tests");
    check!(shown(&[
        TableRow { without: "room below the cap", scenario: gated_session().stop(capped) },
        TableRow { without: "news", scenario: gated_session().stop(old()).stop(old()) },
    ]), @"
    without room below the cap allow, noting    rule limit        0 charged  still failing: tests (it fails)
    without news               allow            rule passed       0 charged  nothing got worse; 1 old failure remains: tests
    ");
}

/// R-L2e, R-L8c: a limit forbids the next iteration and never fails the one that just ended.
#[test]
fn met_requirements_end_the_run_before_any_limit() {
    check!(shown(&rows_of_ends()), @r"
    without                    end verified     rule verified     1 charged  1 requirement is met after 1 iteration and 2 min
    without measuring          end claimed      rule claimed      1 charged  1 requirement is claimed to be met after 1 iteration and 2 min; nothing measured it
    without measuring all      end claimed      rule claimed      1 charged  all 4 requirements are met after 1 iteration and 2 min, 2 of them only by claims
    without measuring one      end claimed      rule claimed      1 charged  all 2 requirements are met after 1 iteration and 2 min, 1 of them only by a claim
    without a test of the work end green        rule proof        0 charged  no test fails without the change; 148 old tests pass on the new code; 1 requirement is met after 0 iterations and 1 min
    without sealed checks      end green        rule proof        0 charged  tests runs `sh $x`; 1 requirement is met after 0 iterations and 1 min; 148 old tests pass on the new code; 1 test fails without the change
    without a process gone     allow            rule final-look   1 charged  1 requirement is met after 1 iteration and 2 min
    without honesty            end needs_review rule tampered     1 charged  1 requirement is met after 1 iteration and 2 min, but ralph's own files were changed meanwhile
    without an open run        allow            rule not-mine     1 charged  the run has ended: verified
    ");
}

#[test]
fn every_rule_can_fire() {
    let fired: Vec<DecisionRule> =
        [rows_of_a_run(), rows_of_files(), rows_of_gated_session(), rows_of_ends()]
            .iter()
            .flatten()
            .map(|row| row.scenario.last().decision.rule)
            .collect();
    let never: Vec<DecisionRule> =
        DecisionRule::ALL.into_iter().filter(|rule| !fired.contains(rule)).collect();
    assert_eq!(never, []);
    let names: Vec<&str> = DecisionRule::ALL.iter().map(|rule| rule.name()).collect();
    let written: Vec<String> =
        DecisionRule::ALL.iter().map(|rule| serde_json::to_string(rule).unwrap()).collect();
    assert_eq!(written, names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>());
}

/// R-L9c: every status has its own name and exit code, and the state records the status that was decided.
#[test]
fn statuses_are_a_closed_set() {
    let listed = RunStatus::ALL.iter().fold(String::new(), |mut out, status| {
        writeln!(out, "{} {}", status.name(), status.exit_code()).unwrap();
        out
    });
    check!(listed, @"
    verified 0
    green 11
    claimed 3
    exhausted 2
    stuck 4
    needs_human 5
    needs_review 6
    gate_broken 7
    rate_limited 8
    cancelled 130
    overridden 9
    crashed 10
    ");
    for row in [rows_of_a_run(), rows_of_ends()].iter().flatten() {
        let TestRun { state, .. } = &row.scenario;
        if let Verdict::EndRun { status, .. } = row.scenario.last().decision.verdict {
            assert_eq!(state.phase, RunPhase::Ended(status), "{}", row.scenario);
        }
    }
}

/// R-L2b: ralph counts blocks itself, whatever the host's flag about earlier blocks is.
#[test]
fn the_hosts_flag_never_changes_the_count() {
    for pattern in 0..32u32 {
        let held = test_run().max_iterations(4).stops(5, |turn| {
            stop_at(u64::from(turn)).unmet("tests").continuing(pattern >> turn & 1 == 1)
        });
        insta::allow_duplicates! {
            check!(held, @"
            1  block            rule block        1 charged  1 not met
            2  block            rule block        2 charged  1 not met
            3  block            rule block        3 charged  1 not met
            4  block            rule block        4 charged  1 not met
            5  end exhausted    rule limit        4 charged  all 4 iterations are used up, 1 not met
            ");
        }
    }
}

/// R-L2d, R-L10d: the same failures on the same tree three times are no progress, and the end names the state.
#[test]
fn the_same_failures_on_the_same_tree_end_the_run() {
    check!(test_run().stops(3, |_| stop_at(1).unmet("tests")), @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  end stuck        rule stuck        2 charged  the last 3 stops made no progress on tests, 1 not met
    ");
}

#[test]
fn fewer_failures_or_another_tree_are_progress() {
    check!(
        test_run()
            .stop(stop_at(1).unmet("tests").unmet("lint"))
            .stop(stop_at(1).unmet("tests").unmet("lint"))
            .stop(stop_at(1).unmet("tests"))
            .stop(stop_at(1).unmet("tests"))
            .stop(stop_at(2).unmet("tests"))
            .stop(stop_at(2).unmet("tests"))
            .stop(stop_at(2).unmet("tests")),
        @r"
    1  block            rule block        1 charged  2 not met
    2  block            rule block        2 charged  2 not met
    3  block            rule block        3 charged  1 not met
    4  block            rule block        4 charged  1 not met
    5  block            rule block        5 charged  1 not met
    6  block            rule block        6 charged  1 not met
    7  end stuck        rule stuck        6 charged  the last 3 stops made no progress on tests, 1 not met
    "
    );
}

#[test]
fn unknown_trees_are_never_equal() {
    check!(test_run().max_iterations(4).stops(5, |_| stop_at(1).tree(TreeIdentity::Unknown).unmet("tests")), @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 not met
    4  block            rule block        4 charged  1 not met
    5  end exhausted    rule limit        4 charged  all 4 iterations are used up, 1 not met
    ");
}

/// R-L10b, R-L10d: a tree that alternates between two states makes no progress either.
#[test]
fn a_tree_that_alternates_ends_the_run() {
    check!(test_run().stops(4, |turn| stop_at(u64::from(turn % 2)).unmet("tests")), @r"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 not met
    4  end stuck        rule stuck        3 charged  the last 3 stops made no progress on tests, 1 not met
    ");
}

/// Hooks that were under way when a stop was answered are charged, but they are no new tries. A runner's stops are.
#[test]
fn a_stop_that_was_under_way_is_no_new_try() {
    let at_once = |_| stop_at(1).unmet("tests").arrived(0);
    check!(test_run().stops(4, at_once).stop(stop_at(1).unmet("tests").arrived(u64::MAX)), @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 not met
    4  block            rule block        4 charged  1 not met
    5  block            rule block        5 charged  1 not met
    ");
    check!(test_run().stops(3, |turn| at_once(turn).arrived(u64::MAX)), @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  end stuck        rule stuck        2 charged  the last 3 stops made no progress on tests, 1 not met
    ");
    check!(driven_run(DriveSettings::DEFAULT).stops(3, |turn| at_once(turn).driver(StopDriver::RunnerAlone)), @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule remedy       3 charged  the last 3 stops made no progress on tests, 1 not met; trying another approach
    ");
}

/// The first wait is free, and so is every further one with the same files. Other files start the wait anew, which is
/// charged, until a result has come.
#[test]
fn a_wait_that_starts_anew_is_charged() {
    let waits = |tree| stop_at(tree).met("lint").running("tests");
    check!(
        test_run()
            .max_iterations(3)
            .stop(waits(1))
            .stop(waits(1))
            .stop(waits(2))
            .stop(waits(2))
            .stop(waits(1))
            .stop(waits(1).tree(TreeIdentity::Unknown))
            .stop(waits(3)),
        @"
        1  block            rule block        0 charged  1 pending
        2  block            rule block        0 charged  1 pending
        3  block            rule block        1 charged  1 pending; the files changed during the wait
        4  block            rule block        1 charged  1 pending
        5  block            rule block        2 charged  1 pending; the files changed during the wait
        6  block            rule block        3 charged  1 pending; the files changed during the wait
        7  end exhausted    rule limit        3 charged  all 3 iterations are used up, 1 pending
        "
    );
    check!(
        test_run()
            .stop(waits(1))
            .stop(stop_at(1).met("lint").unmet("tests"))
            .stop(waits(2))
            .stop(waits(3).trouble(HostTrouble::RateLimit))
            .stop(waits(3)),
        @"
        1  block            rule block        0 charged  1 pending
        2  block            rule block        1 charged  1 not met
        3  block            rule block        1 charged  1 pending
        4  allow            rule host-trouble 1 charged  the turn ended with rate_limit
        5  block            rule block        2 charged  1 pending; the files changed during the wait
        "
    );
    let unknown = || waits(1).tree(TreeIdentity::Unknown);
    check!(test_run().stop(unknown()).stop(unknown()).stop(waits(2)).stop(waits(2)), @"
    1  block            rule block        0 charged  1 pending
    2  block            rule block        1 charged  1 pending; the files changed during the wait
    3  block            rule block        2 charged  1 pending; the files changed during the wait
    4  block            rule block        2 charged  1 pending
    ");
    // Files that gates write are not a change of the agent.
    check!(
        test_run()
            .stop(waits(1))
            .stop(waits(2).tree_without_gate_writes(1))
            .stop(waits(3).tree_without_gate_writes(4)),
        @"
        1  block            rule block        0 charged  1 pending
        2  block            rule block        0 charged  1 pending
        3  block            rule block        1 charged  1 pending; the files changed during the wait
        "
    );
    let reason = test_run().stop(waits(1)).stop(waits(2)).last().decision.verdict.clone();
    let Verdict::Block { reason } = reason else { panic!("{reason:?}") };
    insta::assert_snapshot!(reason, @"
    ralph: waiting for tests; nothing else is open (run k7f2)

    The files changed, so the wait started over, and this stop counts as an iteration. Do not edit files until the result is available.

    Next: Make tests pass. Then stop again
    ");
}

/// Nor does an agent wait for free if the process that has to bring the result is killed each time.
#[test]
fn a_wait_whose_process_was_killed_is_charged() {
    let waits = |tree| stop_at(tree).met("lint").running("tests");
    let lost = || waits(1).lost_worker();
    check!(
        test_run()
            .stop(lost())
            .stop(waits(1))
            .stop(lost())
            .stop(lost())
            .stop(waits(1))
            .stop(waits(2).lost_worker())
            .stop(stop_at(2).met("lint").unmet("tests").lost_worker())
            .stop(waits(2).lost_worker()),
        @"
        1  block            rule block        0 charged  1 pending
        2  block            rule block        0 charged  1 pending
        3  block            rule block        1 charged  1 pending; the background process ended without a result
        4  block            rule block        2 charged  1 pending; the background process ended without a result
        5  block            rule block        2 charged  1 pending
        6  block            rule block        3 charged  1 pending; the files changed during the wait
        7  block            rule block        4 charged  1 not met
        8  block            rule block        4 charged  1 pending
        "
    );
    let reason = test_run().stop(waits(1)).stop(lost()).last().decision.verdict.clone();
    let Verdict::Block { reason } = reason else { panic!("{reason:?}") };
    insta::assert_snapshot!(reason, @"
    ralph: waiting for tests; nothing else is open (run k7f2)

    ralph's background process ended before it had a result, so the wait started over, and this stop counts as an iteration. Leave that process alone.

    Next: Make tests pass. Then stop again
    ");
}

/// R-L10c: finishing one piece after the other is progress.
#[test]
fn different_pieces_of_work_in_a_row_are_progress() {
    check!(
        test_run().stops(8, |turn| {
            let done = (0..turn).fold(stop_at(u64::from(turn)), |at, one| at.met(&format!("part {one}")));
            (turn..8).fold(done, |at, one| at.unmet(&format!("part {one}")))
        }),
        @"
    1  block            rule block        1 charged  8 not met
    2  block            rule block        2 charged  7 not met
    3  block            rule block        3 charged  6 not met
    4  block            rule block        4 charged  5 not met
    5  block            rule block        5 charged  4 not met
    6  block            rule block        6 charged  3 not met
    7  block            rule block        7 charged  2 not met
    8  block            rule block        8 charged  1 not met
    "
    );
}

/// R-L2e, R-L8c: the last stop ends `exhausted` if a requirement is unmet, `verified` if all are met, and `claimed` if
/// they are only claimed.
#[test]
fn the_last_iteration_counts() {
    let used_up = test_run().max_iterations(1).stop(stop_at(1).unmet("tests"));
    check!(used_up.clone().stop(stop_at(2).unmet("tests")), @"
    1  block            rule block        1 charged  1 not met
    2  end exhausted    rule limit        1 charged  its 1 iteration is used up, 1 not met
    ");
    check!(used_up.clone().stop(stop_at(2).met("tests")), @"
    1  block            rule block        1 charged  1 not met
    2  end verified     rule verified     1 charged  1 requirement is met after 1 iteration and 2 min
    ");
    check!(used_up.clone().stop(stop_at(2).claimed("tests")), @"
    1  block            rule block        1 charged  1 not met
    2  end claimed      rule claimed      1 charged  1 requirement is claimed to be met after 1 iteration and 2 min; nothing measured it
    ");
    check!(used_up.stop(stop_at(2).met("tests").unknown("lint")), @"
    1  block            rule block        1 charged  1 not met
    2  end exhausted    rule limit        1 charged  its 1 iteration is used up, 1 without a result
    ");
}

/// R-L2f: a hook that is registered twice delivers each stop twice; both get the same answer, charged once.
#[test]
fn one_stop_delivered_twice_is_charged_once() {
    let held = test_run()
        .stop(stop_at(1).unmet("tests").delivery(7))
        .stop(stop_at(1).met("tests").delivery(7))
        .stop(stop_at(1).unmet("tests").delivery(7))
        .stop(stop_at(2).unmet("tests").delivery(8));
    check!(held, @"
    1  block            rule block        1 charged  1 not met
    2  block            rule repeat       1 charged  the same stop was delivered again
    3  block            rule block        2 charged  1 not met
    4  block            rule block        3 charged  1 not met
    ");
    let reasons: Vec<_> = held.taken[..2].iter().map(|taken| &taken.decision.verdict).collect();
    assert_eq!(reasons, [reasons[0]; 2]);

    let at_once = test_run()
        .stop(stop_at(1).unmet("tests").delivery(7))
        .stop(stop_at(1).unmet("tests").on_its_way(7))
        .stop(stop_at(1).unmet("tests").on_its_way(7))
        .stop(stop_at(2).unmet("tests").on_its_way(8));
    check!(at_once, @"
    1  block            rule block        1 charged  1 not met
    2  block            rule repeat       1 charged  the same stop was delivered again
    3  block            rule repeat       1 charged  the same stop was delivered again
    4  block            rule block        2 charged  1 not met
    ");

    let allowed = test_run()
        .stop(stop_at(1).unmet("tests").delivery(7).pending(PendingWorkKind::Background, "shell"))
        .stop(stop_at(1).unmet("tests").delivery(7));
    check!(allowed, @"
    1  allow            rule waiting      0 charged  1 background task pending: shell
    2  allow            rule repeat       0 charged  the same stop was delivered again
    ");
}

/// R-L2f: allowing a stop because the owner is gone is an answer too, so an earlier block is not repeated.
#[test]
fn a_stop_without_an_owner_is_not_answered_with_an_older_block() {
    check!(
        test_run()
            .stop(stop_at(1).unmet("tests").delivery(7))
            .stop(stop_at(1).unmet("tests").delivery(8).owner_gone())
            .change(RunChange::Resumed)
            .stop(stop_at(1).unmet("tests").delivery(8)),
        @"
    1  block            rule block        1 charged  1 not met
    2  allow, noting    rule off          1 charged  the process that owned the run is gone
    3  allow            rule repeat       1 charged  the same stop was delivered again
    "
    );
}

/// R-L5a: pending work will wake the agent, so the stop is allowed and not charged.
#[test]
fn a_stop_with_pending_work_is_allowed() {
    let until = |until_ms| DeclaredPause::Waiting { until_ms, why: "the nightly build".into() };
    check!(
        test_run()
            .stop(stop_at(1).unmet("tests").pending(PendingWorkKind::Background, "shell \"build\""))
            .stop(stop_at(1).unmet("tests").pending(PendingWorkKind::WakeUp, "*/5 * * * *"))
            .stop(
                stop_at(1)
                    .unmet("tests")
                    .pending(PendingWorkKind::Background, "subagent \"review\"")
                    .pending(PendingWorkKind::WakeUp, "*/5 * * * *")
            )
            .stop(stop_at(1).unmet("tests").declared(until(10_000_000)))
            .stop(stop_at(1).unmet("tests").declared(until(1)))
            .stop(stop_at(1).unmet("tests")),
        @r#"
    1  allow            rule waiting      0 charged  1 background task pending: shell "build"
    2  allow            rule waiting      0 charged  1 wake-up pending: */5 * * * *
    3  allow            rule waiting      0 charged  2 tasks or wake-ups pending: subagent "review"
    4  allow            rule waiting      0 charged  the agent waits: the nightly build
    5  block            rule block        1 charged  1 not met
    6  block            rule block        2 charged  1 not met
    "#
    );
}

/// R-L6a: a stop that the host or its API caused is allowed and not charged, whether the event or the transcript shows it.
#[test]
fn a_stop_caused_by_the_host_is_allowed() {
    let classes = [
        HostTrouble::RateLimit,
        HostTrouble::Overloaded,
        HostTrouble::Authentication,
        HostTrouble::Billing,
        HostTrouble::ContextFull,
        HostTrouble::OutputLimit,
        HostTrouble::InvalidRequest,
        HostTrouble::Server,
        HostTrouble::Interrupted,
    ];
    let by_event = classes.iter().fold(test_run().max_iterations(1), |scenario, class| {
        scenario.stop(stop_at(1).unmet("tests").trouble(class.clone()))
    });
    check!(by_event, @"
    1  allow            rule host-trouble 0 charged  the turn ended with rate_limit
    2  allow            rule host-trouble 0 charged  the turn ended with overloaded
    3  allow            rule host-trouble 0 charged  the turn ended with authentication
    4  allow            rule host-trouble 0 charged  the turn ended with billing
    5  allow            rule host-trouble 0 charged  the turn ended with context_full
    6  allow            rule host-trouble 0 charged  the turn ended with output_limit
    7  allow            rule host-trouble 0 charged  the turn ended with invalid_request
    8  allow            rule host-trouble 0 charged  the turn ended with server
    9  allow            rule host-trouble 0 charged  the turn ended with interrupted
    ");
    let by_transcript = classes.iter().fold(test_run().max_iterations(1), |scenario, class| {
        let mut stop = stop_at(1).unmet("tests");
        stop.facts.trouble = Some(class.clone());
        scenario.stop(stop)
    });
    assert_eq!(by_transcript.to_string(), by_event.to_string());
    let recorded: Vec<_> = classes
        .iter()
        .map(|class| {
            let class = class.name().to_owned();
            test_run().change(RunChange::Trouble { class }).state.trouble.unwrap()
        })
        .collect();
    check!(recorded.join(" "), @"rate_limit overloaded authentication billing context_full output_limit invalid_request server interrupted");
}

/// R-L6d: an unknown stop reason is allowed once; from then on the requirements decide.
#[test]
fn an_unknown_stop_reason_is_allowed_once() {
    let odd = || HostTrouble::Unknown("solar_flare".into());
    check!(test_run().stops(4, |turn| stop_at(u64::from(turn)).unmet("tests").trouble(odd())), @r#"
    1  allow            rule odd-stop     0 charged  the turn ended with "solar_flare", which this version does not know
    2  block            rule block        1 charged  1 not met
    3  block            rule block        2 charged  1 not met
    4  block            rule block        3 charged  1 not met
    "#);
    check!(test_run().stops(2, |_| stop_at(1).met("tests").trouble(odd())), @r#"
    1  allow            rule odd-stop     0 charged  the turn ended with "solar_flare", which this version does not know
    2  end verified     rule verified     0 charged  1 requirement is met after 0 iterations and 2 min
    "#);
}

/// R-L10d: every circuit breaker can fire, and each explains why.
#[test]
fn every_circuit_breaker_ends_the_run() {
    let adopted = RunRecord { origin: RunOrigin::Adopted, first_iteration: 9, ..run() };
    let ends = vec![
        test_run().max_iterations(1).stops(2, |turn| stop_at(u64::from(turn)).unmet("tests")),
        test_run().limits(NO_LIMIT).later(8 * 60 * 60 * 1000).stop(stop_at(1).unmet("tests")),
        test_run().stop(stop_at(1).unmet("tests").spent(TWENTY_DOLLARS)),
        TestRun::of(adopted)
            .stop(stop_at(1).unmet("tests").own_limit("`progress.txt` is at 9 of 9")),
        test_run().stops(3, |_| stop_at(1).unmet("tests")),
        test_run().stops(4, |turn| stop_at(u64::from(turn % 2)).unmet("tests")),
        test_run().stops(2, |turn| stop_at(u64::from(turn)).unknown("lint")),
        test_run()
            .stop(stop_at(1).unmet("tests").declared(DeclaredPause::NeedsHuman("which?".into()))),
        TestRun::of(RunRecord { on_tampering: OnTampering::EndInReview, ..run() })
            .stop(stop_at(1).unmet("tests").tampering("`run.json` was changed")),
    ];
    let notices = ends.iter().fold(String::new(), |mut out, end| {
        let Verdict::EndRun { notice, .. } = &end.last().decision.verdict else {
            panic!("no end: {end}")
        };
        writeln!(out, "{notice}").unwrap();
        out
    });
    check!(notices, @r"
    ralph: exhausted: nested quotes — its 1 iteration is used up, 1 not met (run k7f2); `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    ralph: exhausted: nested quotes — its time limit of 8 h is reached, 1 not met (run k7f2); `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-duration` or `--max-cost-usd`
    ralph: exhausted: nested quotes — its budget of $20 is spent, 1 not met (run k7f2); `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    ralph: exhausted: nested quotes — `progress.txt` is at 9 of 9, 1 not met (run k7f2); `ralph why k7f2` shows what is open; to continue, run `/ralph:goal` in the session with a higher `--max-iterations`, `--max-duration` or `--max-cost-usd`
    ralph: stuck: nested quotes — the last 3 stops made no progress on tests, 1 not met (run k7f2); `ralph why k7f2` shows what it is stuck on; help with that, then run `/ralph:goal` again
    ralph: stuck: nested quotes — the last 3 stops made no progress on tests, 1 not met (run k7f2); `ralph why k7f2` shows what it is stuck on; help with that, then run `/ralph:goal` again
    ralph: gate_broken: nested quotes — lint gave no result twice in a row: timed out after 5 min (run k7f2); `ralph why k7f2` shows what broke; fix it, then run `/ralph:goal` again
    ralph: needs_human: nested quotes — which? (run k7f2); answer in the session with `/ralph:goal` and what to do next, or close the run with `ralph cancel k7f2`
    ralph: needs_review: nested quotes — `run.json` was changed (run k7f2); review the change before you keep it; `ralph why k7f2` shows what was detected, `ralph accept k7f2` accepts it
    ");
}

/// A file's own limit applies only to the run that was adopted from the file.
#[test]
fn the_limit_of_a_file_does_not_end_a_run_that_a_person_started() {
    let adopted = "`progress.txt` is at 9 of 9";
    check!(
        test_run().stop(stop_at(1).unmet("tests").own_limit(adopted)),
        @"1  block            rule block        1 charged  1 not met"
    );
}

#[test]
fn a_result_in_between_resets_the_unknown_count() {
    check!(
        test_run()
            .stop(stop_at(1).unknown("lint"))
            .stop(stop_at(2).unmet("lint"))
            .stop(stop_at(3).unknown("lint"))
            .stop(stop_at(4).unknown("lint").pending(PendingWorkKind::Background, "shell"))
            .stop(stop_at(5).unknown("lint")),
        @"
    1  block            rule block        1 charged  1 without a result
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 without a result
    4  allow            rule waiting      3 charged  1 background task pending: shell
    5  end gate_broken  rule gate-broken  3 charged  lint gave no result twice in a row: timed out after 5 min
    "
    );
}

#[test]
fn a_run_with_a_person_is_not_handed_over() {
    check!(
        driven_run(DriveSettings::DEFAULT)
            .stop(stop_at(1).unmet("tests").context(800, StopDriver::Person))
            .stop(stop_at(2).unmet("tests").context(799, StopDriver::Runner))
            .stop(stop_at(3).unmet("tests").context(800, StopDriver::Runner)),
        @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  allow            rule hand-over    3 charged  the context is 80 % full, 1 not met
    "
    );
}

/// R-L4a, R-L11a: pauses do not count as time, a paused or orphaned run allows stops, and an end is final.
#[test]
fn an_inactive_run_allows_stops() {
    let hour = 60 * 60 * 1000;
    check!(
        test_run()
            .change(RunChange::Paused)
            .stop(stop_at(1).unmet("tests"))
            .later(20 * hour)
            .change(RunChange::Resumed)
            .stop(stop_at(1).unmet("tests"))
            .stop(stop_at(2).unmet("tests").owner_gone())
            .stop(stop_at(2).unmet("tests"))
            .change(RunChange::Resumed)
            .stop(stop_at(3).unmet("tests"))
            .stop(stop_at(4).unmet("tests").off(OffReason::Cancelled))
            .change(RunChange::Cancelled)
            .stop(stop_at(5).unmet("tests")),
        @"
    1  allow            rule off          0 charged  paused
    2  block            rule block        1 charged  1 not met
    3  allow, noting    rule off          1 charged  the process that owned the run is gone
    4  allow            rule off          1 charged  orphaned
    5  block            rule block        2 charged  1 not met
    6  allow            rule off          2 charged  cancelled
    7  allow            rule not-mine     2 charged  the run has ended: cancelled
    "
    );
}

#[test]
fn a_tampered_run_is_never_verified() {
    check!(
        test_run()
            .stop(stop_at(1).unmet("tests").tampering("`run.json` was changed after the start"))
            .stop(stop_at(2).met("tests").tampering("`state.json` does not agree with the journal"))
            .stop(stop_at(2).met("tests")),
        @"
    1  block            rule tampered     1 charged  `run.json` was changed after the start; 1 not met
    2  block            rule tampered     2 charged  `state.json` does not agree with the journal; 0 not met
    3  end needs_review rule tampered     2 charged  1 requirement is met after 2 iterations and 3 min, but ralph's own files were changed meanwhile
    "
    );
}

/// Tampering counts even if it is detected at a repeated delivery.
#[test]
fn tampering_is_remembered_whichever_rule_fires() {
    check!(
        test_run()
            .stop(stop_at(1).unmet("tests").delivery(7))
            .stop(stop_at(1).unmet("tests").delivery(7).tampering("`run.json` was changed"))
            .stop(stop_at(2).met("tests").delivery(8)),
        @"
    1  block            rule block        1 charged  1 not met
    2  block            rule repeat       1 charged  the same stop was delivered again
    3  end needs_review rule tampered     1 charged  1 requirement is met after 1 iteration and 3 min, but ralph's own files were changed meanwhile
    "
    );
}

/// A clock that is set back before a pause and corrected after it does not reduce the run's time.
#[test]
fn a_clock_set_back_around_a_pause_does_not_reduce_the_time() {
    let hour = 60 * 60 * 1000;
    let mut scenario =
        test_run().later(9 * hour).change(RunChange::Trouble { class: "server".into() });
    scenario.now_ms -= 8 * hour;
    check!(
        scenario
            .change(RunChange::Paused)
            .later(8 * hour)
            .change(RunChange::Resumed)
            .stop(stop_at(1).unmet("tests")),
        @"1  end exhausted    rule limit        0 charged  its time limit of 8 h is reached, 1 not met"
    );
}

#[test]
fn advisory_requirements_neither_hold_nor_count() {
    let advised = |stop: TestStop| {
        let mut stop = stop.unmet("style").unknown("spelling");
        for one in stop.evidence.requirements.iter_mut().filter(|one| one.name.starts_with('s')) {
            *one = crate::scenario::advisory(one.clone());
        }
        stop
    };
    check!(
        test_run().stop(advised(stop_at(1).met("build"))),
        @"1  end verified     rule verified     0 charged  1 requirement is met after 0 iterations and 1 min"
    );
}

/// R-L5a, R-L4a, R-L11b: a stop with queued input, or during a declared wait, is allowed and not charged.
#[test]
fn waits_are_allowed_until_they_end() {
    let waits = |until_ms| DeclaredPause::Waiting { until_ms, why: "the deployment".into() };
    let scenario = test_run()
        .stop(stop_at(1).unmet("tests").queued())
        .stop(stop_at(1).unmet("tests").declared(waits(u64::MAX)))
        .stop(stop_at(1).unmet("tests").declared(waits(0)))
        .stop(stop_at(2).unmet("tests").declared(waits(u64::MAX)).spent(TWENTY_DOLLARS));
    check!(scenario, @"
    1  allow            rule waiting      0 charged  a message is queued until the turn ends
    2  allow            rule waiting      0 charged  the agent waits: the deployment
    3  block            rule block        1 charged  1 not met
    4  end exhausted    rule limit        1 charged  its budget of $20 is spent, 1 not met
    ");
}

/// R-L9b: the host ends a turn that was held too often without a tool call and reports a success. The run ends before
/// that, and not as a success.
#[test]
fn a_run_ends_before_the_host_overrides_it() {
    let held = |times, cap| stop_at(u64::from(times) + 1).unmet("tests").in_a_row(times, cap);
    let scenario = test_run()
        .stop(held(7, BlockCap::DEFAULT))
        .stop(held(8, BlockCap::At(31)))
        .stop(held(8, BlockCap::None))
        .stop(held(8, BlockCap::DEFAULT));
    check!(scenario, @"
    1  block            rule block        1 charged  1 not met
    2  block            rule block        2 charged  1 not met
    3  block            rule block        3 charged  1 not met
    4  end exhausted    rule limit        3 charged  held 8 times in a row without a tool call, the most the host allows, 1 not met
    ");
}

#[test]
fn the_hosts_setting_is_parsed_as_the_host_does() {
    let settings = ["8", " 31 ", "2.9", "0", "-1", "", "many", "9 lives", "99999999999"];
    let read = settings.iter().fold(String::new(), |mut out, setting| {
        writeln!(out, "{setting:?} {:?}", BlockCap::from_setting(setting)).unwrap();
        out
    });
    check!(read, @r#"
    "8" At(8)
    " 31 " At(31)
    "2.9" At(2)
    "0" None
    "-1" None
    "" At(8)
    "many" At(8)
    "9 lives" At(9)
    "99999999999" At(8)
    "#);
}

/// R-L6b: if the context is nearly full, the reason is short, and a runner starts a fresh session.
#[test]
fn a_nearly_full_context_gets_a_short_reason() {
    let mut many = stop_at(1);
    for gate in 0..20 {
        let mut failure = RequirementFailure::new(format!("gate {gate} fails"));
        failure.findings = vec![Finding::new("a finding that takes some room ".repeat(8)); 5];
        many =
            many.require(requirement(&format!("gate {gate}"), RequirementStatus::Unmet(failure)));
    }
    let length = |permille| {
        let held = test_run().stop(many.clone().context(permille, StopDriver::Person));
        held.reason().chars().count()
    };
    let (roomy, full) = (length(790), length(800));
    assert!((3_000..=8_000).contains(&roomy), "{roomy}");
    assert!((100..=1_500).contains(&full), "{full}");
    let over = driven_run(DriveSettings::DEFAULT).stop(many.context(800, StopDriver::Runner));
    check!(over, @"1  allow            rule hand-over    1 charged  the context is 80 % full, 20 not met");
}

/// R-L5a: a stop is allowed while background work changes. Work that is unchanged since the last stop, such as a server,
/// does not count. Limits end a waiting run too.
#[test]
fn changing_background_work_allows_a_stop() {
    let stop = |tree, names: &[&str]| {
        let start = stop_at(tree).unmet("tests");
        names.iter().fold(start, |at, name| at.pending(PendingWorkKind::Background, name))
    };
    let scenario = test_run()
        .stop(stop(1, &["subagent a", "subagent b"]))
        .stop(stop(1, &["subagent b"]))
        .stop(stop(1, &["shell \"npm run dev\""]))
        .stop(stop(1, &["shell \"npm run dev\""]))
        .stop(stop(2, &["shell \"npm run dev\""]))
        .stop(stop(3, &[]))
        .stop(stop(3, &["shell \"npm run dev\""]))
        .stop(stop(4, &["subagent c"]).spent(TWENTY_DOLLARS));
    check!(scenario, @r#"
    1  allow            rule waiting      0 charged  2 tasks or wake-ups pending: subagent a
    2  allow            rule waiting      0 charged  1 background task pending: subagent b
    3  allow            rule waiting      0 charged  1 background task pending: shell "npm run dev"
    4  block            rule block        1 charged  1 not met
    5  block            rule block        2 charged  1 not met
    6  block            rule block        3 charged  1 not met
    7  allow            rule waiting      3 charged  1 background task pending: shell "npm run dev"
    8  end exhausted    rule limit        3 charged  its budget of $20 is spent, 1 not met
    "#);
}
