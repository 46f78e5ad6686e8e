use super::*;
use insta::assert_snapshot;
use ralph_core::cost_reading::CostBasis;
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::lesson::Lesson;
use ralph_core::limits::RunLimits;
use ralph_core::policy::LineCheck;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const SHOP: &str = "/home/you/shop";

/// A run that ended on a day of November 2026; two weeks, so that they can be compared.
fn ended_run(id: usize, status: &str, micro_usd: u64) -> StatsRun {
    let day = 20 - u64::try_from(id).unwrap();
    let end_ms = day * DAY_MS;
    StatsRun {
        id: format!("r{id:03}"),
        project: SHOP.to_string(),
        title: format!("task {id}"),
        last_ms: end_ms,
        ended_ms: Some(end_ms),
        week: if id < 7 { "2026-W47" } else { "2026-W46" }.to_string(),
        status: status.to_string(),
        iteration: 3,
        max_iterations: Some(25),
        micro_usd: Some(micro_usd),
        cost_basis: CostBasis::Reported,
        max_micro_usd: Some(20_000_000),
        stops: 4,
        held: 3,
        ..StatsRun::default()
    }
}

fn requirement(run: usize, name: &str, held_stops: u32) -> StatsRequirement {
    StatsRequirement {
        run: format!("r{run:03}"),
        name: name.to_string(),
        stage: "correctness".to_string(),
        held_stops,
        stops_until_met: Some(held_stops),
        ..StatsRequirement::default()
    }
}

fn gate(run: usize, name: &str, executed: u32, mean_ms: u64) -> StatsGate {
    StatsGate {
        run: format!("r{run:03}"),
        name: name.to_string(),
        site: "tree".to_string(),
        executed,
        passed: executed,
        took_ms: u64::from(executed) * mean_ms,
        longest_ms: mean_ms * 2,
        ..StatsGate::default()
    }
}

fn settings(gates: &[&str]) -> ProjectSettings {
    let argv = || GateInvocation::Argv(vec!["true".to_string()]);
    ProjectSettings {
        project: SHOP.to_string(),
        file: format!("{SHOP}/ralph.toml"),
        user_file: "/home/you/.ralph/config.toml".to_string(),
        gates: gates.iter().map(|name| Gate::new(*name, argv())).collect(),
        limits: RunLimits::DEFAULT,
        wait_for_limits_ms: 0,
        forbidden: Vec::new(),
        lessons: Vec::new(),
    }
}

/// A finding that held one stop in each of these runs.
fn lesson(requirement: &str, finding: &str, runs: u32) -> Lesson {
    let run = |number: u32| serde_json::json!({"run": format!("r{number:03}"), "at_ms": 1, "holds": 1, "result": "fixed"});
    serde_json::from_value(serde_json::json!({
        "id": "3f2a91c0", "requirement": requirement, "stage": "correctness", "finding": finding,
        "signature": "3f2a91c0deadbeef", "first_ms": 1, "last_ms": 1,
        "runs": (0..runs).map(run).collect::<Vec<_>>(),
    }))
    .unwrap()
}

/// A finding that held four runs becomes a proposal; one that a setting covers already does not.
#[test]
fn repeated_findings_become_proposals() {
    let proposed = |change: &dyn Fn(&mut ProjectSettings)| {
        let mut known = settings(&["unit", "lint"]);
        known.lessons = vec![
            lesson("unit", "csv has no header", 4),
            lesson("lint", "a.ts:3: no-console: unexpected console statement", 6),
            lesson("lint", "unused import", 3),
        ];
        change(&mut known);
        let mut rows = sample_rows();
        rows.gates.clear();
        rows.runs.iter_mut().for_each(|run| run.status = "verified".to_string());
        let proposals = page_of(rows, &[known]).proposals;
        let shown = proposals
            .iter()
            .map(|one| format!("{}: {}\n{}\n", one.title, one.reason, one.edit.toml));
        shown.collect::<Vec<_>>().concat()
    };
    assert_snapshot!(proposed(&|_| {}), @r#"
    Run `unit` when a task is completed: `unit` held 4 stops in 4 runs with the same finding: csv has no header. `ralph memory show 3f2a91c0` has the runs; `ralph memory add` saves a note for agents instead.
    [[gate]]
    name = "unit"
    on = ["stop", "task"]

    Check added lines for `debug-print`: `lint` held 6 stops in 6 runs with the same finding: a.ts:3: no-console: unexpected console statement. `ralph memory show 3f2a91c0` has the runs; `ralph memory add` saves a note for agents instead.
    [lines]
    forbid = ["debug-print"]
    "#);
    assert_eq!(
        proposed(&|known| {
            known.forbidden.push(LineCheck::DebugPrint);
            for gate in &mut known.gates {
                gate.on.push(ralph_core::gate::GateTrigger::Task);
            }
        }),
        ""
    );
}

/// Fourteen runs in two weeks: `tsc` holds, `e2e` is slow and flaky, `unit` always passes, three end at a limit.
fn sample_rows() -> StatsRows {
    let mut rows = StatsRows::default();
    for id in 0..14 {
        let status = if id % 5 == 4 { "exhausted" } else { "verified" };
        let mut run = ended_run(id, status, 4_000_000 + 300_000 * u64::try_from(id).unwrap());
        if status == "exhausted" {
            run.iteration = 25;
        }
        rows.runs.push(run);
        rows.requirements.push(requirement(id, "tsc", 1));
        rows.gates.push(gate(id, "tsc", 4, 3_000));
        rows.gates.push(StatsGate { cached: 1, saved_ms: 50_000, ..gate(id, "e2e", 3, 50_000) });
        rows.gates.push(gate(id, "unit", 4, 2_000));
        if id % 4 == 0 {
            let waived = id == 8;
            rows.requirements.push(StatsRequirement { waived, ..requirement(id, "e2e", 2) });
            if let Some(gate) = rows.gates.iter_mut().rfind(|gate| gate.name == "e2e") {
                gate.flaky = 1;
            }
        }
    }
    let session = StatsRun { is_session: true, status: "held".to_string(), ..ended_run(14, "", 0) };
    rows.runs.push(StatsRun { ended_ms: None, ..session });
    rows.requirements.push(requirement(14, "lint", 2));
    rows
}

fn page_of(rows: StatsRows, projects: &[ProjectSettings]) -> StatsPage {
    stats_page(rows, StatsScope::default(), projects, &[], 20 * DAY_MS)
}

fn short_holds(table: &HoldTable) -> String {
    let line = |row: &HoldRow| {
        format!(
            "{} {} {} until met {:?}, false {}\n",
            row.requirement,
            row.held_stops,
            percent(row.held_permille),
            row.stops_until_met,
            row.false_holds
        )
    };
    table.rows.iter().map(line).collect()
}

#[test]
fn the_page_of_many_runs_compares_them() {
    let page = page_of(sample_rows(), &[]);
    assert_snapshot!(format!("{}\n{}", page.sentence, page.detail), @r"
    A verified run costs $6.94, counting all runs
    Median of 2026-W47: $4.75, down from $7.15. 14 runs ended and cost $83.30; 12 were verified, at a median of $5.95. `tsc` holds agents most; `e2e` is flaky.
    ");
    assert_snapshot!(short_holds(&page.holds), @r"
    tsc 14 33 % until met Some(1), false 0
    e2e 8 19 % until met Some(2), false 1
    ");
    assert_snapshot!(short_holds(&page.session_holds), @"lint 2 67 % until met Some(2), false 0");
    let weeks: Vec<_> = page.weeks.iter().map(|week| format!("{week:?}")).collect();
    assert_snapshot!(weeks.join("\n"), @r#"
    WeekRow { week: "2026-W47", ended: 7, verified: 6, cost: Some(CostRange { median: 4750000, lower: Some(4450000), upper: Some(5200000), runs: 6 }), stops: 28, held: 21, micro_usd: 34300000, limits_hit: 1 }
    WeekRow { week: "2026-W46", ended: 7, verified: 6, cost: Some(CostRange { median: 7150000, lower: Some(6700000), upper: Some(7450000), runs: 6 }), stops: 28, held: 21, micro_usd: 49000000, limits_hit: 1 }
    "#);
    let gates = page.flaky.rows.iter().chain(&page.slow.rows);
    let gates: Vec<_> = gates.map(|gate| format!("{gate:?}")).collect();
    assert_snapshot!(gates.join("\n"), @r#"
    GateStatistics { gate: "e2e", project: StatsProject { name: "shop", path: "/home/you/shop" }, runs: 14, executed: 42, cached: 14, cached_permille: 250, passed: 42, failed: 0, no_result: 0, flaky: 4, flaky_permille: 95, took_ms: 2100000, saved_ms: 700000, mean_ms: 50000, longest_ms: 100000 }
    GateStatistics { gate: "e2e", project: StatsProject { name: "shop", path: "/home/you/shop" }, runs: 14, executed: 42, cached: 14, cached_permille: 250, passed: 42, failed: 0, no_result: 0, flaky: 4, flaky_permille: 95, took_ms: 2100000, saved_ms: 700000, mean_ms: 50000, longest_ms: 100000 }
    GateStatistics { gate: "tsc", project: StatsProject { name: "shop", path: "/home/you/shop" }, runs: 14, executed: 56, cached: 0, cached_permille: 0, passed: 56, failed: 0, no_result: 0, flaky: 0, flaky_permille: 0, took_ms: 168000, saved_ms: 0, mean_ms: 3000, longest_ms: 6000 }
    GateStatistics { gate: "unit", project: StatsProject { name: "shop", path: "/home/you/shop" }, runs: 14, executed: 56, cached: 0, cached_permille: 0, passed: 56, failed: 0, no_result: 0, flaky: 0, flaky_permille: 0, took_ms: 112000, saved_ms: 0, mean_ms: 2000, longest_ms: 4000 }
    "#);
    assert_snapshot!(format!("{:?}", page.limits), @r#"[LimitHitRow { limit: Iterations, runs: 2, last_run: "r004" }]"#);
    assert!(page.runs.is_empty());
}

#[test]
fn few_runs_are_listed() {
    let mut rows = sample_rows();
    rows.runs.truncate(3);
    let page = page_of(rows, &[settings(&["tsc"])]);
    assert_snapshot!(format!("{}\n{}", page.sentence, page.detail), @r"
    3 runs ended, 3 verified
    With fewer than 10 ended runs, they are listed instead of compared. Together they cost $12.90. `tsc` holds agents most; `e2e` is flaky.
    ");
    assert_eq!((page.runs.len(), page.proposals.len()), (3, 0));
    assert_eq!(page_of(StatsRows::default(), &[]).sentence, "No runs yet");
}

#[test]
fn proposals_rest_on_figures() {
    let page = page_of(sample_rows(), &[settings(&["tsc", "e2e", "unit"])]);
    let proposal = |one: &PolicyProposal| {
        format!(
            "{}. {}\n{}\nsaves {}; costs {}\n{}",
            one.number, one.title, one.reason, one.gain, one.price, one.edit.toml
        )
    };
    let proposals: Vec<_> = page.proposals.iter().map(proposal).collect();
    assert_snapshot!(proposals.join("\n"), @r#"
    1. Run `tsc` when a task is completed
    It held 14 of 42 held stops (33 %) in 14 runs, and was met at the very next stop 14 of 14 times.
    saves up to 14 held stops; costs 3 s after each task
    [[gate]]
    name = "tsc"
    on = ["stop", "task"]

    2. Repeat every failure of `e2e`
    4 of 42 results (9.5 %) differed from another one on the same content, and it caused 1 false hold. A failure would have to occur twice to count.
    saves holds for failures that do not repeat; costs 50 s per failure
    [[gate]]
    name = "e2e"
    rerun = "always"

    3. Don't run `e2e` again for documentation
    It ran 42 times and took 50 s each, 35 min in total; 25 % of its results came from the cache. Without `paths`, every change runs it again.
    saves 50 s per change of documentation; costs it does not see those files; list what it reads, if you know it
    [[gate]]
    name = "e2e"
    paths = ["**", "!**/*.md", "!docs/**"]

    4. Run `unit` after the other gates
    It passed all 56 times. A gate of a later stage runs once the stage before has passed.
    saves 2 s at stops that another gate holds; costs a failure is seen one stage later
    [[gate]]
    name = "unit"
    stage = "quality"
    "#);
}

/// A gate that was never met at the next stop would hold the agent as often after each task.
#[test]
fn an_edit_that_saves_nothing_is_not_proposed() {
    let mut rows = sample_rows();
    for hold in &mut rows.requirements {
        if hold.stops_until_met == Some(1) {
            hold.stops_until_met = Some(2);
        }
    }
    let page = page_of(rows, &[settings(&["tsc"])]);
    assert_eq!(page.proposals, []);
}

#[test]
fn settings_that_are_there_are_not_proposed() {
    let mut known = settings(&["tsc", "e2e", "unit"]);
    for gate in &mut known.gates {
        gate.on.push(ralph_core::gate::GateTrigger::Task);
        gate.rerun = ralph_core::gate::RerunPolicy::Always;
        gate.paths.push("**".to_string());
        gate.stage = ralph_core::requirement::RequirementStage::Quality;
    }
    known.limits.max_iterations = None;
    assert_eq!(page_of(sample_rows(), &[known]).proposals, []);
}

/// Only runs with the limit of the policy that met something on their way speak for a higher one.
#[test]
fn a_limit_is_raised_for_runs_that_it_stopped() {
    let raised = |change: fn(&mut StatsRows)| {
        let mut rows = sample_rows();
        for run in rows.runs.iter_mut().filter(|run| !run.is_session) {
            run.status = "exhausted".to_string();
            run.iteration = 25;
        }
        change(&mut rows);
        let proposals = page_of(rows, &[settings(&[])]).proposals;
        proposals
            .into_iter()
            .map(|one| format!("{}. {}", one.title, one.reason))
            .collect::<Vec<_>>()
    };
    let progress = "Raise the limit of iterations to 37. 14 of 14 runs (100 %) with this limit made progress and ended at it; it is 25 now. Smaller goals would help as well.";
    assert_eq!(raised(|_| {}), [progress]);
    let small = |rows: &mut StatsRows| {
        for run in &mut rows.runs {
            (run.iteration, run.max_iterations) = (2, Some(2));
        }
    };
    assert_eq!(raised(small), [""; 0]);
    assert_eq!(raised(|rows| rows.requirements.clear()), [""; 0]);
}

/// A sum over runs whose cost is unknown is too low, and says so.
#[test]
fn an_unknown_cost_is_no_cost_of_zero() {
    let mut rows = sample_rows();
    for run in rows.runs.iter_mut().filter(|run| !run.is_session).skip(1) {
        (run.micro_usd, run.cost_basis) = (None, CostBasis::Unknown);
    }
    rows.runs[0].micro_usd = Some(11_160);
    (rows.runs[1].micro_usd, rows.runs[1].cost_basis) = (Some(4_200), CostBasis::Incomplete);
    let page = page_of(rows, &[]);
    assert_snapshot!(format!("{}\n{}", page.sentence, page.detail), @r"
    The one verified run whose cost is known cost $0.01
    14 runs ended and cost more than $0.02 (the cost of 1 is known); 12 verified. `tsc` holds agents most; `e2e` is flaky.
    ");
}

/// A cost that the client did not report is no fact, and the page says how many there are.
#[test]
fn estimated_costs_are_counted() {
    let mut rows = sample_rows();
    rows.runs[0].cost_basis = CostBasis::Estimated;
    rows.runs[1].cost_basis = CostBasis::PartlyAssumed;
    let page = page_of(rows.clone(), &[]);
    assert_snapshot!(page.detail, @"Median of 2026-W47: $4.75, down from $7.15. 14 runs ended and cost $83.30; 12 were verified, at a median of $5.95. 2 of the 14 known costs are estimated or assumed. `tsc` holds agents most; `e2e` is flaky.");
    rows.runs.truncate(3);
    let costs: Vec<_> = page_of(rows, &[])
        .runs
        .iter()
        .map(|run| run.cost_basis.column_text(run.micro_usd))
        .collect();
    assert_snapshot!(costs.join("; "), @"≈ $4; ~$4.30; $4.60");
}

/// One verified run of many is no price of a verified run, and has no quarters.
#[test]
fn what_failed_is_part_of_the_price() {
    let mut rows = sample_rows();
    for run in rows.runs.iter_mut().filter(|run| !run.is_session && run.id != "r000") {
        run.status = "stuck".to_string();
    }
    let page = page_of(rows, &[]);
    assert_snapshot!(page.sentence, @"A verified run costs $83.30, counting all runs");
    assert_snapshot!(page.detail, @"14 runs ended and cost $83.30; the verified one cost $4. `tsc` holds agents most; `e2e` is flaky.");
    assert_eq!(page.cost.and_then(CostRange::middle_half), None);
}

/// What a run costs that has not ended is no part of the price of those that have.
#[test]
fn an_open_run_is_no_part_of_the_price() {
    let mut rows = sample_rows();
    let before = page_of(rows.clone(), &[]);
    let open = StatsRun {
        id: "open".to_string(),
        phase: "active".to_string(),
        status: "working".to_string(),
        ended_ms: None,
        micro_usd: Some(3_000_000),
        ..rows.runs[0].clone()
    };
    rows.runs.push(open);
    let page = page_of(rows, &[]);
    let price = |page: &StatsPage| (page.sentence.clone(), page.detail.clone());
    assert_eq!(price(&page), price(&before));
    assert_eq!(
        (page.spent_micro_usd, page.ended_micro_usd),
        (before.spent_micro_usd + 3_000_000, before.ended_micro_usd)
    );
}

type ChangeRun = fn(&mut StatsRun);

#[test]
fn the_limit_that_was_hit_is_derived_from_the_figures() {
    let run = |change: fn(&mut StatsRun)| {
        let mut run = ended_run(0, "exhausted", 1_000_000);
        change(&mut run);
        run.limit_hit()
    };
    let cases: [(ChangeRun, Option<LimitHit>); 6] = [
        (|run| run.iteration = 25, Some(LimitHit::Iterations)),
        (|run| (run.ran_ms, run.max_time_ms) = (9, Some(9)), Some(LimitHit::Time)),
        (|run| run.micro_usd = Some(19_500_000), Some(LimitHit::Cost)),
        (|_| {}, Some(LimitHit::Other)),
        (|run| run.status = "rate_limited".to_string(), Some(LimitHit::RateLimit)),
        (|run| run.status = "verified".to_string(), None),
    ];
    for (change, expected) in cases {
        assert_eq!(run(change), expected);
    }
}

#[test]
fn a_dispute_is_a_false_hold_only_if_a_person_agreed() {
    let cases = [
        (2, true, false, false, 1),
        (2, false, true, true, 1),
        (2, false, true, false, 0),
        (0, true, true, true, 0),
    ];
    for (held_stops, waived, disputed, is_dispute_upheld, expected) in cases {
        let rows = StatsRows {
            runs: vec![ended_run(0, "verified", 1)],
            requirements: vec![StatsRequirement {
                waived,
                disputed,
                is_dispute_upheld,
                ..requirement(0, "tests", held_stops)
            }],
            ..StatsRows::default()
        };
        let holds = page_of(rows, &[]).holds;
        assert_eq!(holds.rows.iter().map(|row| row.false_holds).sum::<u64>(), expected);
    }
}

#[test]
fn an_applied_proposal_is_measured_before_and_after() {
    let proposals = page_of(sample_rows(), &[settings(&["tsc", "e2e"])]).proposals;
    let compared = |at_ms: u64| {
        let applied: Vec<_> =
            proposals.iter().map(|one| AppliedProposal::new(one, at_ms)).collect();
        let page = stats_page(sample_rows(), StatsScope::default(), &[], &applied, 20 * DAY_MS);
        let line = |one: &AppliedComparison| {
            let figures = one.figures.iter();
            let figures: Vec<_> = figures
                .map(|one| format!("{}: {} → {}", one.name, one.before, one.after))
                .collect();
            format!(
                "{} ({}, {}) {}\n",
                one.title,
                one.runs_before,
                one.runs_after,
                figures.join("; ")
            )
        };
        page.applied.iter().map(line).collect::<String>()
    };
    assert_snapshot!(compared(13 * DAY_MS), @r"
    Run `tsc` when a task is completed (6, 8) Share of held stops: 33 % → 33 %; Held stops per run: 3.0 → 3.0; Cost of a verified run: $7.30 → $4.90
    Repeat every failure of `e2e` (6, 8) Different results: 11 % → 8.3 %; Held stops per run: 3.0 → 3.0; Cost of a verified run: $7.30 → $4.90
    Don't run `e2e` again for documentation (6, 8) Time of the gate per run: 2 min → 2 min; Held stops per run: 3.0 → 3.0; Cost of a verified run: $7.30 → $4.90
    ");
    assert_snapshot!(compared(18 * DAY_MS), @r"
    Run `tsc` when a task is completed (11, 3) 
    Repeat every failure of `e2e` (11, 3) 
    Don't run `e2e` again for documentation (11, 3)
    ");
}

#[test]
fn a_scope_leaves_out_other_runs() {
    let scopes = [
        (StatsScope { since_ms: Some(18 * DAY_MS), ..StatsScope::default() }, 3),
        (StatsScope { week: Some("2026-W46".to_string()), ..StatsScope::default() }, 7),
    ];
    for (scope, expected) in scopes {
        let page = stats_page(sample_rows(), scope.clone(), &[], &[], 0);
        assert_eq!(page.ended, expected, "{scope:?}");
    }
}

#[test]
fn hostile_texts_are_cleaned_and_bounded() {
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}evil\n".repeat(1000);
    let mut rows = sample_rows();
    for run in &mut rows.runs {
        (run.title, run.project) = (hostile.clone(), format!("/{hostile}"));
    }
    rows.requirements.iter_mut().for_each(|one| one.name.clone_from(&hostile));
    rows.gates.iter_mut().for_each(|one| one.name.clone_from(&hostile));
    let json = serde_json::to_string(&page_of(rows, &[])).unwrap();
    assert!(!json.contains("\\u001b") && !json.contains('\u{202e}'), "{json}");
    assert!(json.len() < 20_000, "{}", json.len());
}

#[test]
fn shares_are_rounded() {
    let cases =
        [(0, "0 %"), (4, "0.4 %"), (25, "2.5 %"), (99, "9.9 %"), (405, "41 %"), (1000, "100 %")];
    for (permille, expected) in cases {
        assert_eq!(percent(permille), expected);
    }
}
