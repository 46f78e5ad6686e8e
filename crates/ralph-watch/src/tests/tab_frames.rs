//! Frames of the tabs of a run.

use super::frames::{SIZES, opened_run, press, show, show_all};
use crate::sample_pages::sample_run;
use crate::watch_effect::{LoadedPage, WatchEvent};
use crate::watch_state::WatchState;
use ralph_core::id::RunId;
use ralph_core::judge::JudgeKind;
use ralph_deck::page::{
    ChangedFileRow, CheckpointDiff, CheckpointRow, FileComparison, JudgeHistoryRow, ProofTable,
    ProofTableRow, SideBySideLine,
};

fn run_id() -> RunId {
    RunId::parse("k7f2").unwrap()
}

fn changed_files() -> CheckpointDiff {
    let file = |path: &str, status, added, removed| ChangedFileRow {
        path: path.to_string(),
        status,
        added: Some(added),
        removed: Some(removed),
    };
    let mut files = vec![
        file("Cargo.toml", "modified", 3, 2),
        file("src/routes/v1.rs", "modified", 120, 88),
        file("src/routes/v2.rs", "added", 210, 0),
        file("tests/old.rs", "deleted", 0, 40),
    ];
    files.push(ChangedFileRow {
        path: "assets/logo.png".to_string(),
        status: "modified",
        added: None,
        removed: None,
    });
    CheckpointDiff { from: 0, to: 17, files, left_out: 0, added: 333, removed: 130 }
}

fn compared_file() -> FileComparison {
    let line = |before: Option<(u32, &str)>, after: Option<(u32, &str)>, changed| SideBySideLine {
        before: before.map(|(number, text)| (number, text.to_string())),
        after: after.map(|(number, text)| (number, text.to_string())),
        changed,
    };
    FileComparison {
        path: "src/routes/v1.rs".to_string(),
        lines: vec![
            line(Some((39, "#[deprecated]")), Some((39, "#[deprecated]")), false),
            line(
                Some((40, "pub async fn list() {")),
                Some((40, "pub async fn list_orders() {")),
                true,
            ),
            line(None, Some((41, "    let all = orders.load().await;")), true),
            line(Some((41, "}")), Some((42, "}")), false),
            line(None, None, false),
            line(Some((80, "// the end")), None, true),
        ],
        note: None,
        left_out: 0,
    }
}

fn checkpoints() -> Vec<CheckpointRow> {
    let row = |number: u32, why: &str| CheckpointRow {
        number,
        at_ms: u64::from(number) * 25 * 60_000,
        why: why.to_string(),
    };
    vec![row(0, "start"), row(16, "iteration 16"), row(17, "iteration 17")]
}

fn load(state: &mut WatchState, page: LoadedPage) {
    state.update(WatchEvent::Loaded(page));
}

#[test]
fn reason_of_the_last_stop() {
    let mut state = opened_run(80, 24);
    press(&mut state, "2");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |
    | What the agent read at stop 17, 07:22, rule block
    |
    |   1 of 12 requirements is not met.
    |
    |   clippy: 2 findings
    |     src/routes/v1.rs:41:5: use of deprecated function list_orders
    |     src/routes/v1.rs:58:5: use of deprecated function show_order
    |
    |   This was stop 17 of 25.
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

/// The step of a running judge has a line of its own, because the column of the bar is narrow.
#[test]
fn the_step_of_a_judge_is_below_its_time() {
    let mut state = opened_run(80, 24);
    let mut page = sample_run();
    page.row.activity.as_mut().unwrap().gates[0].name = "review".to_string();
    page.row.activity.as_mut().unwrap().gates[0].step =
        Some("trying again in 30 s: HTTP 429".to_string());
    state.update(WatchEvent::Loaded(LoadedPage::Run(Box::new(page))));
    press(&mut state, "3");
    let shown: Vec<_> = show(&state).lines().skip(3).take(3).map(str::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    | • review 41 s of about 55 s                     ██████████████░░░░░░
    |     trying again in 30 s: HTTP 429
    |
    ");
}

#[test]
fn gates_with_elapsed_time() {
    let mut state = opened_run(80, 24);
    press(&mut state, "3");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |
    | • tests 41 s of about 55 s                      ██████████████░░░░░░
    |
    | GATE                   last                took        runs  cached  flaky
    |▌build                  passed              21 s        17
    | tests                  passed              55 s        17
    | clippy                 failed, 2 findings  26 s        17
    | fmt                    passed              1 s         17    3
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

/// The newest results of a run that a proof and judges looked at.
fn judged_run() -> WatchState {
    let row = |name, code, tests, result: &str, passed| ProofTableRow {
        name,
        code,
        tests,
        result: result.to_string(),
        passed,
    };
    let judge = |name: &str, outcome: &str, why: Option<&str>, calls| JudgeHistoryRow {
        name: name.to_string(),
        kind: JudgeKind::Adversarial,
        outcome: outcome.to_string(),
        why: why.map(str::to_string),
        model: Some("opus".to_string()),
        findings: u32::from(outcome == "unmet"),
        asked: 2,
        cached: 1,
        calls,
        tokens: u64::from(calls) * 6_200,
        micro_usd: (calls > 0).then_some(190_000),
        is_cost_estimated: false,
        took_ms: 41_000,
    };
    let mut state = opened_run(80, 30);
    if let Some(screen) = &mut state.run {
        screen.page.proof = Some(ProofTable {
            verdict: "needs_review".to_string(),
            rows: vec![
                row("T0", "old", "old", "148 tests, 2 failed", None),
                row("T1", "new", "new", "all gates passed", Some(true)),
                row("T2", "new", "old", "1 old test fails", Some(false)),
                row("T3", "old", "new", "3 tests fail without the change", Some(true)),
            ],
            doubts: vec!["`fmt` names no tests".to_string()],
        });
        screen.page.judges = vec![
            judge("review", "unmet", None, 3),
            judge("plan", "met", None, 1),
            judge("goal", "unknown", Some("it is unsure"), 0),
        ];
    }
    press(&mut state, "3");
    state
}

#[test]
fn gates_judges_and_proof() {
    insta::assert_snapshot!(show(&judged_run()), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |
    | • tests 41 s of about 55 s                      ██████████████░░░░░░
    |
    | GATE                   last                took        runs  cached  flaky
    |▌build                  passed              21 s        17
    | tests                  passed              55 s        17
    | clippy                 failed, 2 findings  26 s        17
    | fmt                    passed              1 s         17    3
    |
    | JUDGE                  last                            asked, usage
    | review                 unmet, 1 finding                2: 3 calls, 18.6 k toke…
    | plan                   met                             2: 1 call, 6.2 k tokens…
    | goal                   no verdict: it is unsure        2
    |
    | PROOF: needs review
    |   T0 old code, old tests  148 tests, 2 failed
    | ✓ T1 new code, new tests  all gates passed
    | ✗ T2 new code, old tests  1 old test fails
    | ✓ T3 old code, new tests  3 tests fail without the change
    |   `fmt` names no tests
    |
    |
    |
    |
    |
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

/// The proof is below the gates and judges, so it is the first without room.
#[test]
fn proof_without_room_is_reached_by_moving() {
    let mut state = judged_run();
    state.update(WatchEvent::Resized { columns: 80, rows: 16 });
    press(&mut state, "↓↓↓↓↓↓↓↓↓↓↓↓");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    | fmt                    passed              1 s         17    3
    |
    | JUDGE                  last                            asked, usage
    | review                 unmet, 1 finding                2: 3 calls, 18.6 k toke…
    | plan                   met                             2: 1 call, 6.2 k tokens…
    | goal                   no verdict: it is unsure        2
    |
    | PROOF: needs review
    |   T0 old code, old tests  148 tests, 2 failed
    | ✓ T1 new code, new tests  all gates passed
    | ✗ T2 new code, old tests  1 old test fails
    | ✓ T3 old code, new tests  3 tests fail without the change
    |▌  `fmt` names no tests
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "three frames")]
fn diff_by_file_and_a_file() {
    let mut state = opened_run(80, 24);
    press(&mut state, "4");
    load(&mut state, LoadedPage::Files { run: run_id(), files: Ok(changed_files()) });
    press(&mut state, "↓");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |
    | 5 files changed from checkpoint 0 to 17: +333 -130
    |
    | M Cargo.toml                                                         +3     -2
    |▌M src/routes/v1.rs                                                 +120    -88
    | A src/routes/v2.rs                                                 +210     -0
    | D tests/old.rs                                                       +0    -40
    | M assets/logo.png                                                     not text
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
    let comparison = compared_file();
    load(&mut state, LoadedPage::Comparison { run: run_id(), from: 0, to: 17, comparison });
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |
    | src/routes/v1.rs, checkpoint 0 to 17
    |
    |    39   #[deprecated]
    |    40 - pub async fn list() {
    |    40 + pub async fn list_orders() {
    |    41 +     let all = orders.load().await;
    |    42   }
    | …
    |    80 - // the end
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
    state.update(WatchEvent::Resized { columns: 120, rows: 14 });
    insta::assert_snapshot!(show(&state), @"
    | k7f2 asks  Upgrade to axum 0.8                                                    shop-api  claude 1b810b37  session 3
    | 11 of 12 met · 17 of 25 iterations · 7 h 38 min of 10 h · $11.62 of $20
    | src/routes/v1.rs, checkpoint 0 to 17
    |
    |    39   #[deprecated]                                          39   #[deprecated]
    |    40 - pub async fn list() {                                  40 + pub async fn list_orders() {
    |                                                                41 +     let all = orders.load().await;
    |    41   }                                                      42   }
    | …
    |    80 - // the end
    |
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   a answer  t tell  p pause  w waive  x cancel  esc back
    ");
}

#[test]
fn checkpoints_with_the_restore_command() {
    let mut state = opened_run(80, 24);
    press(&mut state, "5");
    load(&mut state, LoadedPage::Checkpoints { run: run_id(), checkpoints: Ok(checkpoints()) });
    press(&mut state, "↓r");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |
    | enter compares with the one before, r shows how to restore
    |
    |    17  07:05  iteration 17                                         judged last
    |▌   16  06:40  iteration 16
    |     0  00:00  start
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    |
    | ralph checkpoint restore k7f2 16
    ");
}

#[test]
fn log_follows_its_end() {
    let mut state = opened_run(80, 12);
    press(&mut state, "6");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    |     0  00:04  started   Upgrade to axum 0.8
    |    24  04:37  held      tests 6 → 4
    |    25  04:38  hand-over to session 3, context 83 % full
    |    26  05:10  held      tests 4 → 2
    |    28  05:48  held      clippy: 11 findings, fmt, tests done
    |    30  06:12  held      clippy 11 → 3, fmt done
    |    32  06:49  held      clippy: 2 findings, added lines: 2 findings
    |    34  07:22  held      clippy: 2 findings, as before
    |    35  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

#[test]
fn every_tab_at_each_size() {
    for (columns, rows) in SIZES {
        let tab = |key: &str| {
            let mut state = opened_run(columns, rows);
            press(&mut state, key);
            load(&mut state, LoadedPage::Files { run: run_id(), files: Ok(changed_files()) });
            let checkpoints = Ok(checkpoints());
            load(&mut state, LoadedPage::Checkpoints { run: run_id(), checkpoints });
            state
        };
        let mut compared = tab("4");
        let comparison = compared_file();
        load(&mut compared, LoadedPage::Comparison { run: run_id(), from: 0, to: 17, comparison });
        let frames = vec![
            ("stops", tab("1")),
            ("reason", tab("2")),
            ("gates", tab("3")),
            ("diff", tab("4")),
            ("a file of the diff", compared),
            ("checkpoints", tab("5r")),
            ("log", tab("6")),
            ("search", tab("6/held")),
        ];
        insta::assert_snapshot!(format!("tabs_at_{columns}_by_{rows}"), show_all(frames));
    }
}
