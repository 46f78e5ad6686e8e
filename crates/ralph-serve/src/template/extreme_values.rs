//! Pages with the least and the greatest numbers that a journal can hold.

use super::{board, curves, facts, gates, sessions, stops};
use ralph_core::id::RunId;
use ralph_core::record::{CostBasis, MeasuredSite, RunRecord};
use ralph_core::run::{RunPhase, RunState};
use ralph_deck::page::{
    ActiveGateRow, BoardPage, BoardQueue, BoardRow, CurvePoint, GateHistoryRow, GateMeasurement,
    OpenQuestion, RequirementMatrix, RunActivity, RunPage, RunStanding,
};

fn board_row(value: u64, trend: Vec<u32>) -> BoardRow {
    let run = RunRecord::new(RunId::parse("k7f2").unwrap(), String::new(), value);
    let state = RunState::new(&run);
    let small = u32::try_from(value).unwrap_or(u32::MAX);
    BoardRow {
        standing: RunStanding::Asks,
        started_ms: value,
        last_ms: value,
        iteration: small,
        max_iterations: Some(small),
        elapsed_ms: value,
        max_duration_ms: Some(value),
        spent_micro_usd: Some(value),
        cost_basis: CostBasis::Estimated,
        max_micro_usd: Some(value),
        met: Some(small),
        requirements: Some(small),
        trend,
        question: Some(OpenQuestion {
            text: String::new(),
            asked_ms: value,
            until_ms: Some(value),
            approval: None,
        }),
        note: Some(String::new()),
        until_ms: Some(value),
        activity: Some(RunActivity {
            gates: vec![ActiveGateRow {
                name: String::new(),
                since_ms: Some(value),
                elapsed_ms: Some(value),
                usual_ms: Some(value),
                step: Some(String::new()),
            }],
            proof: Vec::new(),
        }),
        ..BoardRow::from_state(&run, &state, RunPhase::Active, value)
    }
}

fn gate(value: u64, measurements: Vec<GateMeasurement>) -> GateHistoryRow {
    GateHistoryRow {
        name: String::new(),
        site: MeasuredSite::Tree,
        outcome: String::new(),
        tests: None,
        findings: u32::MAX,
        executed: u32::MAX,
        cached: u32::MAX,
        failed: u32::MAX,
        took_ms: value,
        saved_ms: value,
        longest_ms: value,
        flaky: u32::MAX,
        log: None,
        measurements,
    }
}

pub(super) fn run_page(value: u64, now_ms: u64, numbers: &[u64]) -> RunPage {
    let measured = |took_ms: &u64| GateMeasurement {
        seq: value,
        at_ms: *took_ms,
        outcome: String::new(),
        took_ms: *took_ms,
        cached: false,
    };
    let measurements: Vec<_> = numbers.iter().map(measured).collect();
    let points: Vec<_> =
        numbers.iter().map(|number| CurvePoint { at_ms: *number, value: *number }).collect();
    RunPage {
        claimed: u32::MAX,
        judged: u32::MAX,
        judges: Vec::new(),
        journal_edit: None,
        v: 1,
        now_ms,
        row: board_row(value, Vec::new()),
        goal: String::new(),
        host: String::new(),
        owner: None,
        rests_on: Vec::new(),
        next: None,
        look_first: Vec::new(),
        outside_goal: Vec::new(),
        are_changes_known: true,
        matrix: RequirementMatrix::default(),
        timeline: Vec::new(),
        gates: vec![gate(value, measurements.clone()), gate(value, measurements)],
        proof: None,
        context: points.clone(),
        handover_at_permille: u16::MAX,
        spend: points,
        sessions: Vec::new(),
        costs: Vec::new(),
        handovers: Vec::new(),
        questions: Vec::new(),
        last_reason: None,
        judged_commit: None,
        judged_tree: None,
        checkpoint: None,
        damage: None,
    }
}

#[test]
fn pages_are_made_of_any_numbers() {
    let series: [&[u64]; 6] = [
        &[],
        &[0, 0],
        &[u64::MAX, u64::MAX],
        &[0, u64::MAX],
        &[u64::MAX, 0],
        &[1, u64::MAX, 0, u64::MAX / 2],
    ];
    for value in [0, 1, u64::MAX / 2, u64::MAX] {
        for now_ms in [0, u64::MAX] {
            for numbers in series {
                let trend = numbers.iter().map(|one| u32::try_from(*one).unwrap_or(u32::MAX));
                let count = usize::try_from(value).unwrap_or(usize::MAX);
                let queue = BoardQueue {
                    id: String::new(),
                    name: String::new(),
                    project_name: String::new(),
                    landed: count,
                    tasks: count,
                    running: count,
                    parked: count,
                    spent_micro_usd: value,
                    has_ended: false,
                };
                let page = BoardPage {
                    now_ms,
                    seen_ms: value,
                    spent_today_micro_usd: value,
                    max_day_micro_usd: Some(value),
                    waiting: vec![board_row(value, trend.collect())],
                    waiting_left_out: count,
                    working_left_out: count,
                    queues: vec![queue],
                    earlier: value,
                    ..BoardPage::default()
                };
                let regions = board::board_regions(&page);
                assert_eq!(regions.len(), 3);
                board::board_title(&page);
                let page = run_page(value, now_ms, numbers);
                for section in [
                    gates::gates_section(&page),
                    curves::curves_section(&page),
                    sessions::sessions_section(&page),
                    stops::stops_section(&page),
                ] {
                    // Lengths stay within their pictures, whatever the numbers are.
                    let html = section.into_string();
                    for length in html.split(" height=\"").skip(1) {
                        let length = length.split('"').next().unwrap();
                        assert!(length.parse::<u64>().unwrap() <= 150, "{html}");
                    }
                }
            }
        }
    }
    let rows = [
        (0, 0, 24, 0),
        (u64::MAX, 0, 24, 0),
        (u64::MAX, 1, 24, 24),
        (u64::MAX, u64::MAX, 24, 24),
        (u64::MAX / 2, u64::MAX, 24, 11),
        (1, u64::MAX, 24, 0),
        (3, 4, 100, 75),
    ];
    for (value, most, size, expected) in rows {
        assert_eq!(facts::scaled(value, most, size), expected, "{value} of {most}");
    }
}

/// The step of a judge is foreign text beside its time.
#[test]
fn a_running_judge_has_its_step_on_the_board_and_on_its_page() {
    let mut page = run_page(0, 41_000, &[]);
    page.row.activity.as_mut().unwrap().gates[0].name = "review".to_string();
    page.row.activity.as_mut().unwrap().gates[0].step =
        Some("trying again in 30 s: <b>HTTP 429</b>".to_string());
    for shown in [board::run_row(&page.row, page.now_ms), gates::gates_section(&page)] {
        let shown = shown.into_string();
        let (_, shown) = shown.split_once("<div class=\"pace\">").unwrap();
        let (_, shown) = shown.split_once("<code>").unwrap();
        let (shown, _) = shown.split_once("</div>").unwrap();
        assert_eq!(
            shown,
            "review</code> running for 41 s: trying again in 30 s: &lt;b&gt;HTTP 429&lt;/b&gt;</span>"
        );
    }
}
