//! Frames of one run: its stops.

use super::frames::{board, opened_run, press, show, show_with};
use crate::glyphs::GlyphSet;
use crate::key_event::{PersonInput, WatchKey};
use crate::sample_pages::sample_run;
use crate::watch_effect::{LoadedPage, WatchEvent};
use crate::watch_state::WatchState;
use ralph_core::status::RunStatus;
use ralph_deck::page::{BoardRow, RunStanding, TimelineRow};

#[test]
fn run_at_80_by_24() {
    insta::assert_snapshot!(show(&opened_run(80, 24)), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    | context ████████████░░░░░░░░ 63 %           spend ███████████░░░░░░░░░ 58 %
    |
    |▌? The agent asks: clippy rejects the deprecated /v1 handlers, and the policy
    |▌  forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?
    |▌  press a to answer; parked at 08:01, in 19 min
    |
    | look first: an old test was changed: one expectation differs: 308…  and 1 more
    |
    | stop              6  7  8  9 10 11 12 13 14 15 16 17  now
    | build             ✓  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met
    | tests            12  ✗  9  ✗  7  6  4  2  ✓  ✓  ✓  ✓  met
    | feature 2         ✗  ✗  ✗  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met
    | test integrity    ✓  ✓  ✓  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met
    | clippy            ·  ·  ·  ·  ·  ·  ·  · 11  3  2  2  2 findings
    | fmt               ·  ·  ·  ·  ·  ·  ·  ·  ✗  ✓  ✓  ✓  met
    | added lines       ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  2  ✓  met
    | 5 others, met at every stop shown
    |
    |▌07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    |    8 more below
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

#[test]
fn run_at_160_by_50() {
    insta::assert_snapshot!(show(&opened_run(160, 50)), @"
    | k7f2 asks  Upgrade to axum 0.8                                                                                            shop-api  claude 1b810b37  session 3
    | 11 of 12 met · 17 of 25 iterations · 7 h 38 min of 10 h · $11.62 of $20
    | context █████████████████░░░░░░░░░░░ 63 %, hands over at 80 %                            spend ████████████████░░░░░░░░░░░░ 58 %
    |
    |▌? The agent asks: clippy rejects the deprecated /v1 handlers, and the policy forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?
    |▌  press a to answer; parked at 08:01, in 19 min
    |
    | LOOK FIRST  1  an old test was changed: one expectation differs: 308 instead of 301                                                                    stop 14
    |             2  made and undone: added lines: not met at stop 16, repaired by stop 17                                                                   stop 16
    |
    | stop                                1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17  now
    | build                               ✗  ✗  ✓  ✓  ✓  ✓  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met since stop 8
    | tests                               ✗  ✗ 31 24 18 12  ✗  9  ✗  7  6  4  2  ✓  ✓  ✓  ✓  met since stop 14
    | feature 1 Handlers use the new e…   ✗  ✗  ✗  ✗  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met since stop 6
    | feature 2                           ✗  ✗  ✗  ✗  ✗  ✗  ✗  ✗  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met since stop 10
    | test integrity                      ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met since stop 10
    | clippy                              ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  · 11  3  2  2  2 findings
    | fmt                                 ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ✗  ✓  ✓  ✓  met since stop 15
    | added lines                         ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  2  ✓  met since stop 17
    | 4 others, met at every stop
    |                                     session 1    │ session 2    │ session 3
    |
    | STOPS                                                                                                                                           gates     cost
    |▌ 07:31  asks         clippy rejects the deprecated /v1 handlers, and the policy forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?
    |  07:22  held 17      clippy: 2 findings, as before                                                                                         1 min 43 s    $0.64
    |  06:49  held 16      clippy: 2 findings, added lines: 2 findings                                                                           1 min 41 s    $0.88
    |  06:12  held 15      clippy 11 → 3, fmt done                                                                                                     48 s    $0.66
    |  05:48  held 14      clippy: 11 findings, fmt, tests done                                                                                  1 min 47 s    $1.09
    |  05:10  held 13      tests 4 → 2                                                                                                           1 min 16 s    $1.01
    |  04:38  hand-over    to session 3, context 83 % full
    |  04:37  held 12      tests 6 → 4                                                                                                           1 min 12 s    $0.87
    |  00:04  started      Upgrade to axum 0.8
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
    |
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   a answer  t tell  p pause  w waive  x cancel  esc back
    ");
}

#[test]
fn run_without_utf8() {
    insta::assert_snapshot!(show_with(&opened_run(80, 24), GlyphSet::Ascii), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met, 17 of 25, 7 h 38 min of 10 h, $11.62 of $20
    | context ############-------- 63 %           spend ###########--------- 58 %
    |
    |>? The agent asks: clippy rejects the deprecated /v1 handlers, and the policy
    |>  forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?
    |>  press a to answer; parked at 08:01, in 19 min
    |
    | look first: an old test was changed: one expectation differs: 3...  and 1 more
    |
    | stop              6  7  8  9 10 11 12 13 14 15 16 17  now
    | build             V  X  V  V  V  V  V  V  V  V  V  V  met
    | tests            12  X  9  X  7  6  4  2  V  V  V  V  met
    | feature 2         X  X  X  X  V  V  V  V  V  V  V  V  met
    | test integrity    V  V  V  X  V  V  V  V  V  V  V  V  met
    | clippy            .  .  .  .  .  .  .  . 11  3  2  2  2 findings
    | fmt               .  .  .  .  .  .  .  .  X  V  V  V  met
    | added lines       V  V  V  V  V  V  V  V  V  V  2  V  met
    | 5 others, met at every stop shown
    |
    |>07:31 asks         clippy rejects the deprecated /v1 handlers, and the poli...
    |    8 more below
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

#[test]
fn run_at_48_columns() {
    insta::assert_snapshot!(show(&opened_run(48, 20)), @r"
    | k7f2 asks  Upgrade to axum 0.8
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h ·…
    |▌? The agent asks: clippy rejects the
    |▌  deprecated /v1 handlers, and the policy…
    |▌  press a to answer; parked at 08:01, in 19 min
    |
    | look first: an old test was chang…  and 1 more
    | stop      14 15 16 17  now
    | clippy    11  3  2  2  2 findings
    | fmt        ✗  ✓  ✓  ✓  met
    | added l…   ✓  ✓  2  ✓  met
    | 9 others, met at every stop shown
    |▌07:31 asks         clippy rejects the depreca…
    | 07:22 held 17      clippy: 2 findings, as bef…
    | 06:49 held 16      clippy: 2 findings, added…
    | 06:12 held 15      clippy 11 → 3, fmt done
    | 05:48 held 14      clippy: 11 findings, fmt,…
    | 05:10 held 13      tests 4 → 2
    |    3 more below
    | 1 2 3 4 5 6  esc back  ? help
    ");
}

/// What waits for an approval is no question: `a` approves it, and a message does not.
#[test]
fn run_that_waits_for_an_approval() {
    let mut state = opened_run(80, 24);
    let approve = |row: &mut BoardRow| {
        if let Some(question) = &mut row.question {
            question.text = "a person has to approve design: `ralph approve k7f2 design`".into();
            question.approval = Some("design".to_string());
        }
    };
    state.run.iter_mut().for_each(|screen| approve(&mut screen.page.row));
    state.board.waiting.iter_mut().for_each(approve);
    let lines = |state: &WatchState, range: std::ops::Range<usize>| {
        let shown = show(state);
        let lines: Vec<_> = shown.lines().skip(range.start).take(range.len()).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(lines(&state, 4..7), @r"
    |▌? Waits for your approval: design
    |▌  press a to approve; parked at 08:01, in 19 min
    |
    ");
    let key = |state: &mut WatchState, key| {
        state.update(WatchEvent::Input(PersonInput::Key(WatchKey::Char(key))))
    };
    insta::assert_snapshot!(format!("{:?}", key(&mut state.clone(), 'a')), @r#"[Act { run: RunId("k7f2"), action: Approve { name: "design" }, asks_at_terminal: true }]"#);
    let mut shown = state.clone();
    press(&mut shown, "ya");
    insta::assert_snapshot!(lines(&shown, 23..24), @"| ralph approve k7f2 design");
    press(&mut state, "t");
    insta::assert_snapshot!(lines(&state, 0..4), @r"
    | k7f2 asks  Upgrade to axum 0.8
    |
    | A message for the agent                                              0 of 2000
    |┌──────────────────────────────────────────────────────────────────────────────┐
    ");
}

#[test]
fn older_stops_of_a_run() {
    let mut state = opened_run(80, 24);
    press(&mut state, "←←←←←←←←↑↑↑↑↑↑↑↑↑↑↑↑");
    insta::assert_snapshot!(show(&state), @r"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    | context ████████████░░░░░░░░ 63 %           spend ███████████░░░░░░░░░ 58 %
    |
    |▌? The agent asks: clippy rejects the deprecated /v1 handlers, and the policy
    |▌  forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?
    |▌  press a to answer; parked at 08:01, in 19 min
    |
    | look first: an old test was changed: one expectation differs: 308…  and 1 more
    |
    | stop              1  2  3  4  5  6  7  8  9 10 11 12  now, → newer stops
    |▌build             ✗  ✗  ✓  ✓  ✓  ✓  ✗  ✓  ✓  ✓  ✓  ✓  met
    | tests             ✗  ✗ 31 24 18 12  ✗  9  ✗  7  6  4  met
    | feature 1 Hand…   ✗  ✗  ✗  ✗  ✗  ✓  ✓  ✓  ✓  ✓  ✓  ✓  met
    | feature 2         ✗  ✗  ✗  ✗  ✗  ✗  ✗  ✗  ✗  ✓  ✓  ✓  met
    | test integrity    ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✓  ✗  ✓  ✓  ✓  met
    | clippy            ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  2 findings
    | fmt               ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  ·  met
    | 5 others, met at every stop shown
    |
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    |    8 more below
    |
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}

/// Nothing can be told to an ended run, and nothing of it can be waived or paused.
#[test]
fn an_ended_run_offers_no_action() {
    let mut state = board(160, 24);
    let mut page = sample_run();
    page.row.standing = RunStanding::Ended(RunStatus::Stuck);
    page.row.question = None;
    state.update(WatchEvent::Loaded(LoadedPage::Run(Box::new(page))));
    let shown = show(&state);
    insta::assert_snapshot!(shown.lines().last().unwrap_or_default(), @r"
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   / search  esc back  ? help
    ");
}

/// Frames stay quick after thousands of stops: the oldest lines are counted, below the stops and above the log.
#[test]
fn a_long_run_lists_its_newest_lines() {
    let mut page = sample_run();
    let last = page.timeline.last().unwrap().clone();
    let row = |seq| TimelineRow { seq, stop: None, ..last.clone() };
    page.timeline = (0..2_500).map(row).collect();
    let mut state = board(80, 12);
    state.update(WatchEvent::Loaded(LoadedPage::Run(Box::new(page))));
    press(&mut state, "G");
    let stops = show(&state);
    press(&mut state, "6g");
    insta::assert_snapshot!(format!("{stops}\n\n{}", show(&state)), @"
    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    | context ████████████░░░░░░░░ 63 %           spend ███████████░░░░░░░░░ 58 %
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    | 07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    |▌07:31 asks         clippy rejects the deprecated /v1 handlers, and the policy…
    | 1500 older lines; `ralph log k7f2` shows them
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help

    | k7f2 asks  Upgrade to axum 0.8                                        shop-api
    | 11 of 12 met · 17 of 25 · 7 h 38 min of 10 h · $11.62 of $20
    | 1500 older lines; `ralph log k7f2` shows them
    |  1500  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |  1501  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |  1502  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |  1503  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |  1504  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |  1505  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |  1506  07:31  asks      clippy rejects the deprecated /v1 handlers, and the po…
    |    993 more lines below
    | 1 stops  2 reason  3 gates  4 diff  5 checkpoints  6 log   esc back  ? help
    ");
}
