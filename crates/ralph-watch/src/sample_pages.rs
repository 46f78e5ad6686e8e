//! Pages for tests: a board of every kind of run, and one long run.

use ralph_core::record::CostBasis;
use ralph_core::status::RunStatus;
use ralph_deck::page::{
    ActiveGateRow, BoardPage, BoardQueue, BoardRow, CellState, CurvePoint, GateHistoryRow,
    GateMeasurement, LookFirst, LookFirstKind, MatrixCell, MatrixRow, OpenQuestion,
    RequirementMatrix, RunActivity, RunPage, RunStanding, SessionRow, StopColumn, TimelineKind,
    TimelineRow,
};

/// 07:42 on a day that begins at 0 in these tests.
pub(crate) const NOW_MS: u64 = DAY_MS + at(7, 42);
const DAY_MS: u64 = 20_000 * 24 * 60 * 60 * 1000;

const fn at(hour: u64, minute: u64) -> u64 {
    (hour * 60 + minute) * 60 * 1000
}

fn today(hour: u64, minute: u64) -> u64 {
    DAY_MS + at(hour, minute)
}

/// Times of day that do not depend on the time zone of the machine.
pub(crate) fn utc_minute(ms: u64) -> String {
    let minutes = ms / 60_000 % (24 * 60);
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

struct SampleRun {
    run: &'static str,
    standing: RunStanding,
    title: &'static str,
    project: &'static str,
    iterations: (u32, u32),
    cents: u64,
}

fn row(sample: &SampleRun) -> BoardRow {
    BoardRow {
        run: sample.run.to_string(),
        standing: sample.standing,
        title: sample.title.to_string(),
        project: format!("/srv/{}", sample.project),
        project_name: sample.project.to_string(),
        branch: None,
        started_ms: today(0, 4),
        last_ms: today(7, 31),
        iteration: sample.iterations.0,
        max_iterations: Some(sample.iterations.1),
        elapsed_ms: at(1, 12),
        max_duration_ms: Some(at(8, 0)),
        spent_micro_usd: Some(sample.cents * 10_000),
        cost_basis: CostBasis::Reported,
        max_micro_usd: Some(20_000_000),
        met: None,
        requirements: None,
        open_names: Vec::new(),
        trend: Vec::new(),
        context_permille: None,
        sessions: 1,
        question: None,
        note: None,
        until_ms: None,
        accepted_by: None,
        closed: false,
        unprotected: None,
        remedy: None,
        activity: None,
        seq: 40,
        needs_runner: false,
    }
}

const QUESTION: &str = "clippy rejects the deprecated /v1 handlers, and the policy forbids a new \
allow. Drop the /v1 routes with this upgrade, or keep them?";

pub(crate) fn asking_row() -> BoardRow {
    let mut asks = row(&SampleRun {
        run: "k7f2",
        standing: RunStanding::Asks,
        title: "Upgrade to axum 0.8",
        project: "shop-api",
        iterations: (17, 25),
        cents: 1162,
    });
    asks.elapsed_ms = at(7, 38);
    asks.max_duration_ms = Some(at(10, 0));
    asks.met = Some(11);
    asks.requirements = Some(12);
    asks.context_permille = Some(630);
    asks.sessions = 3;
    asks.question = Some(OpenQuestion {
        text: QUESTION.to_string(),
        asked_ms: today(7, 31),
        until_ms: Some(today(8, 1)),
        approval: None,
    });
    asks
}

#[expect(clippy::too_many_lines, reason = "one row after another")]
pub(crate) fn sample_board() -> BoardPage {
    use RunStanding::{Ended, Waiting, Working};
    let sample = |run, standing, title, project, iterations, cents| {
        row(&SampleRun { run, standing, title, project, iterations, cents })
    };
    let broken = Ended(RunStatus::GateBroken);
    let mut gate_broken = sample(
        "e1vd",
        broken,
        "Let guests check out without an account",
        "storefront",
        (6, 25),
        295,
    );
    gate_broken.note = Some(
        "e2e gave no result twice in a row: cannot start playwright, no such file".to_string(),
    );
    let review = Ended(RunStatus::NeedsReview);
    let title = "Round invoice totals the same way everywhere";
    let mut reviewed = sample("m3qz", review, title, "billing", (9, 25), 508);
    reviewed.note = Some(
        "all 11 requirements are met; 3 expectations in existing tests were changed".to_string(),
    );
    let mut working =
        sample("2ubr", Working, "People can take their data with them", "accounts", (6, 25), 382);
    working.met = Some(9);
    working.requirements = Some(14);
    working.trend = vec![14, 14, 12, 10, 10, 8, 5];
    working.context_permille = Some(410);
    working.activity = Some(running_tests());
    let mut waits =
        sample("p0w8", Waiting, "Remove the legacy queue worker", "shop-api", (3, 25), 210);
    waits.note = Some("rate limit".to_string());
    waits.until_ms = Some(today(8, 40));
    let mut stuck = sample(
        "t4hb",
        Ended(RunStatus::Stuck),
        "Make the import resumable",
        "ledger",
        (12, 25),
        777,
    );
    stuck.note = Some("the last 3 stops brought nothing new".to_string());
    let verified = Ended(RunStatus::Verified);
    let claimed = Ended(RunStatus::Claimed);
    let mut ended = vec![
        stuck,
        sample("w6jc", claimed, "Write a migration guide for 2.0", "docs-site", (2, 25), 84),
        sample(
            "9qd1",
            verified,
            "Stream the CSV export instead of building it in memory",
            "ledger",
            (41, 60),
            1436,
        ),
        sample("b2ls", verified, "Quote fields that hold commas", "csv", (2, 10), 61),
        sample(
            "x9nn",
            verified,
            "Escape <img src=x onerror=alert(1)> in comment previews",
            "comments",
            (5, 25),
            173,
        ),
    ];
    for row in ended.iter_mut().skip(1) {
        row.last_ms = today(3, 0);
    }
    let ended_total = ended.len() as u64;
    BoardPage {
        waiting_left_out: 0,
        working_left_out: 0,
        v: 1,
        now_ms: NOW_MS,
        sentence: String::new(),
        off: None,
        spent_today_micro_usd: 58_550_000,
        spent_today_basis: CostBasis::Reported,
        max_day_micro_usd: Some(80_000_000),
        waiting: vec![asking_row(), gate_broken, reviewed],
        working: vec![working, waits],
        queues: vec![BoardQueue {
            id: "q1".to_string(),
            name: "goals".to_string(),
            project_name: "csv".to_string(),
            landed: 4,
            tasks: 7,
            running: 1,
            parked: 1,
            spent_micro_usd: 9_400_000,
            has_ended: false,
        }],
        ended,
        ended_total,
        seen_ms: DAY_MS - at(0, 50),
        earlier: 4_982,
        unreadable: Vec::new(),
        faults: Vec::new(),
    }
}

fn cells(text: &str) -> Vec<MatrixCell> {
    let cell = |word: &str| {
        let (state, findings) = match word {
            "v" => (CellState::Met, 0),
            "x" => (CellState::Unmet, 0),
            "." => (CellState::NotReached, 0),
            "?" => (CellState::Unknown, 0),
            "w" => (CellState::Advisory, 0),
            count => (CellState::Unmet, count.parse().unwrap()),
        };
        MatrixCell { state, findings }
    };
    text.split(' ').map(cell).collect()
}

fn requirement(name: &str, met_since: Option<u32>, text: &str) -> MatrixRow {
    let cells = cells(text);
    let open_stops = cells.iter().filter(|cell| cell.state > CellState::Met).count();
    let open_stops = u32::try_from(open_stops).unwrap();
    MatrixRow { name: name.to_string(), stage: String::new(), cells, met_since, open_stops }
}

fn matrix() -> RequirementMatrix {
    let column = |stop: u32| StopColumn {
        first: stop,
        last: stop,
        seq: u64::from(stop) * 2,
        at_ms: today(0, 10) + u64::from(stop) * 25 * 60_000,
    };
    RequirementMatrix {
        columns: (1..=17).map(column).collect(),
        rows: vec![
            requirement("build", Some(8), "x x v v v v x v v v v v v v v v v"),
            requirement("tests", Some(14), "x x 31 24 18 12 x 9 x 7 6 4 2 v v v v"),
            requirement(
                "feature 1 Handlers use the new extractors",
                Some(6),
                "x x x x x v v v v v v v v v v v v",
            ),
            requirement("feature 2", Some(10), "x x x x x x x x x v v v v v v v v"),
            requirement("test integrity", Some(10), "v v v v v v v v x v v v v v v v v"),
            requirement("clippy", None, ". . . . . . . . . . . . . 11 3 2 2"),
            requirement("fmt", Some(15), ". . . . . . . . . . . . . x v v v"),
            requirement("added lines", Some(17), "v v v v v v v v v v v v v v v 2 v"),
        ],
        always_met: ["docs", "policy", "protected files", "nothing hidden"]
            .map(str::to_string)
            .to_vec(),
        left_out: 0,
    }
}

fn event(
    seq: u64,
    time: (u64, u64),
    kind: TimelineKind,
    stop: Option<u32>,
    text: &str,
) -> TimelineRow {
    TimelineRow {
        seq,
        at_ms: today(time.0, time.1),
        kind,
        stop,
        iteration: 0,
        text: text.to_string(),
        rule: None,
        reason: None,
        gates_ms: None,
        cost_micro_usd: None,
        checkpoint: stop,
        met: None,
        requirements: None,
    }
}

fn held(stop: u32, time: (u64, u64), text: &str, gates_s: u64, cents: u64) -> TimelineRow {
    let mut row = event(u64::from(stop) * 2, time, TimelineKind::Held, Some(stop), text);
    row.rule = Some("block");
    row.gates_ms = Some(gates_s * 1000);
    row.cost_micro_usd = Some(cents * 10_000);
    row.reason = Some(format!(
        "1 of 12 requirements is not met.\n\nclippy: 2 findings\n  src/routes/v1.rs:41:5: use of \
deprecated function list_orders\n  src/routes/v1.rs:58:5: use of deprecated function show_order\n\n\
This was stop {stop} of 25."
    ));
    row
}

fn gate(name: &str, outcome: &str, findings: u32, took_s: u64) -> GateHistoryRow {
    GateHistoryRow {
        name: name.to_string(),
        site: ralph_core::record::MeasuredSite::Tree,
        outcome: outcome.to_string(),
        tests: None,
        findings,
        executed: 17,
        cached: if name == "fmt" { 3 } else { 0 },
        failed: 2,
        took_ms: took_s * 17_000,
        saved_ms: 0,
        longest_ms: took_s * 1000,
        flaky: 0,
        log: None,
        measurements: vec![GateMeasurement {
            seq: 34,
            at_ms: today(7, 22),
            outcome: outcome.to_string(),
            took_ms: took_s * 1000,
            cached: false,
        }],
    }
}

fn running_tests() -> RunActivity {
    let tests = ActiveGateRow {
        name: "tests".to_string(),
        since_ms: Some(NOW_MS - 41_000),
        elapsed_ms: Some(41_000),
        usual_ms: Some(55_000),
        step: None,
    };
    RunActivity { gates: vec![tests], proof: Vec::new() }
}

pub(crate) fn sample_run() -> RunPage {
    let session = |number: u32, started_ms| SessionRow {
        number,
        session: "1b810b37-0000".to_string(),
        model: None,
        started_ms,
        turns: 40,
        tokens: 90_000,
        micro_usd: 4_000_000,
        gates_micro_usd: 0,
        is_assumed: false,
        handed_over: None,
        context_permille: None,
    };
    let look =
        |kind, stop, text: &str| LookFirst { kind, text: text.to_string(), stop: Some(stop) };
    RunPage {
        v: 1,
        now_ms: NOW_MS,
        row: BoardRow { activity: Some(running_tests()), ..asking_row() },
        goal: "Upgrade to axum 0.8".to_string(),
        host: "claude".to_string(),
        owner: Some("1b810b37-0000-4000-8000-000000000000".to_string()),
        rests_on: Vec::new(),
        next: None,
        look_first: vec![
            look(LookFirstKind::AmendedTest, 14, "one expectation differs: 308 instead of 301"),
            look(LookFirstKind::Undone, 16, "added lines: not met at stop 16, repaired by stop 17"),
        ],
        outside_goal: Vec::new(),
        are_changes_known: true,
        matrix: matrix(),
        timeline: vec![
            event(0, (0, 4), TimelineKind::Started, None, "Upgrade to axum 0.8"),
            held(12, (4, 37), "tests 6 → 4", 72, 87),
            event(25, (4, 38), TimelineKind::HandedOver, None, "to session 3, context 83 % full"),
            held(13, (5, 10), "tests 4 → 2", 76, 101),
            held(14, (5, 48), "clippy: 11 findings, fmt, tests done", 107, 109),
            held(15, (6, 12), "clippy 11 → 3, fmt done", 48, 66),
            held(16, (6, 49), "clippy: 2 findings, added lines: 2 findings", 101, 88),
            held(17, (7, 22), "clippy: 2 findings, as before", 103, 64),
            event(35, (7, 31), TimelineKind::Asked, None, QUESTION),
        ],
        gates: vec![
            gate("build", "passed", 0, 21),
            gate("tests", "passed", 0, 55),
            gate("clippy", "failed", 2, 26),
            gate("fmt", "passed", 0, 1),
        ],
        proof: None,
        context: vec![CurvePoint { at_ms: today(7, 22), value: 630 }],
        handover_at_permille: 800,
        spend: Vec::new(),
        sessions: vec![session(1, today(0, 4)), session(2, today(2, 35)), session(3, today(4, 38))],
        costs: Vec::new(),
        handovers: Vec::new(),
        questions: Vec::new(),
        last_reason: None,
        judged_commit: None,
        judged_tree: None,
        checkpoint: Some(17),
        damage: None,
        journal_edit: None,
        claimed: 0,
        judges: Vec::new(),
        judged: 0,
    }
}
