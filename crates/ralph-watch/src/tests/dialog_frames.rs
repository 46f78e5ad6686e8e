//! Frames of the dialogs.

use super::frames::{SIZES, board, opened_run, press, show, show_all, show_with};
use crate::glyphs::GlyphSet;

#[test]
fn question_with_a_half_typed_answer() {
    let mut state = opened_run(80, 24);
    press(&mut state, "akeep the routes⏎for one more release");
    insta::assert_snapshot!(show(&state), @r#"
    | k7f2 asks  Upgrade to axum 0.8
    |
    | The agent asks, 07:31
    |┌──────────────────────────────────────────────────────────────────────────────┐
    |│ clippy rejects the deprecated /v1 handlers, and the policy forbids a new     │
    |│ allow. Drop the /v1 routes with this upgrade, or keep them?                  │
    |└──────────────────────────────────────────────────────────────────────────────┘
    | Not met at the last stop
    |  ✗ clippy: 2 findings
    |
    | Your answer                                                         36 of 2000
    |┌──────────────────────────────────────────────────────────────────────────────┐
    |│ keep the routes                                                              │
    |│ for one more release█                                                        │
    |│                                                                              │
    |│                                                                              │
    |│                                                                              │
    |│                                                                              │
    |│                                                                              │
    |└──────────────────────────────────────────────────────────────────────────────┘
    | The agent reads it at once. Not answered by 08:01 (in 19 min), the run is
    | parked and waits for `ralph tell k7f2 "…"` and `ralph run --resume k7f2`
    |
    | ctrl-s send   ctrl-e open $EDITOR   esc keep as draft
    "#);
}

#[test]
fn question_at_160_by_50() {
    let mut state = opened_run(160, 50);
    press(&mut state, "a");
    insta::assert_snapshot!(show(&state), @r#"
    | k7f2 asks  Upgrade to axum 0.8
    |
    | The agent asks, 07:31
    |┌──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┐
    |│ clippy rejects the deprecated /v1 handlers, and the policy forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?                         │
    |└──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
    | Not met at the last stop
    |  ✗ clippy: 2 findings
    |
    | Your answer                                                                                                                                          0 of 2000
    |┌──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┐
    |│ █                                                                                                                                                            │
    |│                                                                                                                                                              │
    |│                                                                                                                                                              │
    |│                                                                                                                                                              │
    |│                                                                                                                                                              │
    |│                                                                                                                                                              │
    |│                                                                                                                                                              │
    |└──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
    | The agent reads it at once. Not answered by 08:01 (in 19 min), the run is parked and waits for `ralph tell k7f2 "…"` and `ralph run --resume k7f2`
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
    | ctrl-s send   ctrl-e open $EDITOR   esc keep as draft
    "#);
}

#[test]
fn waiver_with_missing_fields() {
    let mut state = opened_run(80, 24);
    press(&mut state, "w2h⏎⏎");
    insta::assert_snapshot!(show(&state), @"
    | Waive a requirement of k7f2  Upgrade to axum 0.8
    |
    |  requirement  clippy
    |               the name as the matrix shows it
    |
    |  until        2h
    |               2h, a date, or 2026-11-20T18:00:00Z
    |
    |▌ reason       █
    |               every report shows it, with your user name if it is known
    |
    |  It is still measured, but blocks no stop until then, at most 30 days.
    |  A run that ends during a waiver ends as claimed.
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
    | the reason is missing
    ");
}

#[test]
fn limits_with_the_old_ones() {
    let mut state = board(80, 24);
    press(&mut state, "l40");
    insta::assert_snapshot!(show(&state), @"
    | Change the limits of k7f2  Upgrade to axum 0.8
    |
    |▌ iterations   40█
    |               now 25
    |
    |  time
    |               now 10 h
    |
    |  cost in USD
    |               now $20
    |
    |  An empty field keeps the limit. Changes count from the next stop on.
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
    | enter next or confirm   tab next field   esc back
    ");
}

#[test]
fn cancel_with_another_id() {
    let mut state = board(80, 24);
    press(&mut state, "xk7f3⏎");
    insta::assert_snapshot!(show(&state), @"
    | Cancel k7f2  Upgrade to axum 0.8
    |
    |▌ run          k7f3█
    |               type k7f2 to cancel this run
    |
    |  The session can stop freely afterwards; nothing is deleted.
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
    | that is not k7f2; nothing was cancelled
    ");
}

#[test]
fn help_at_80_by_24() {
    let mut state = board(80, 24);
    press(&mut state, "?");
    insta::assert_snapshot!(show(&state), @"
    | ralph  keys                                                     any key closes
    |Everywhere                             On a run
    |  ↑ ↓  k j     move                      1 to 6  stops, reason, gates, diff,
    |  enter        open                              checkpoints, log
    |  esc  h       back                      ← →     older, newer stops
    |  g  G         top, bottom               a       answer, or approve
    |  /            filter; on a run: search  t       tell the agent something
    |  n  N         next, previous match      w       waive the selected row
    |  s            sort: needs you, newest,  p       pause, resume
    |               cost                      x       cancel; asks for the run id
    |  e            earlier runs              l       change limits
    |  ctrl-l       draw again                r       how to restore a checkpoint
    |  q  ctrl-c    quit; runs go on          y       show the command of the next
    |                                                 action, instead of doing it
    |  Marks
    |  ✓ verified      ~ claimed       ? asks              ! needs review
    |  + green         ¿ needs human   # gate broken       % rate limited
    |  ▁ exhausted     = stuck         ✗ crashed           → overridden
    |  - cancelled     • working       … waiting           ‖ paused
    |  o orphaned      u unprotected   p parked            a accepted  ≡ queue
    |  In the matrix: ✓ met   ✗ or a number: not met, findings   · not reached
    |                 ? no result   w waived or advisory   • still running
    |                 a waits for approval
    |  Quitting never stops a run.
    ");
    insta::assert_snapshot!(show_with(&state, GlyphSet::Ascii), @r#"
    | ralph  keys                                                     any key closes
    |Everywhere                             On a run
    |  up down k j  move                      1 to 6  stops, reason, gates, diff,
    |  enter        open                              checkpoints, log
    |  esc  h       back                      arrows  older, newer stops
    |  g  G         top, bottom               a       answer, or approve
    |  /            filter; on a run: search  t       tell the agent something
    |  n  N         next, previous match      w       waive the selected row
    |  s            sort: needs you, newest,  p       pause, resume
    |               cost                      x       cancel; asks for the run id
    |  e            earlier runs              l       change limits
    |  ctrl-l       draw again                r       how to restore a checkpoint
    |  q  ctrl-c    quit; runs go on          y       show the command of the next
    |                                                 action, instead of doing it
    |  Marks
    |  V verified      ~ claimed       ? asks              ! needs review
    |  + green         h needs human   # gate broken       % rate limited
    |  _ exhausted     = stuck         X crashed           > overridden
    |  - cancelled     * working       . waiting           " paused
    |  o orphaned      u unprotected   p parked            a accepted  Q queue
    |  In the matrix: V met   X or a number: not met, findings   . not reached
    |                 ? no result   w waived or advisory   * still running
    |                 a waits for approval
    |  Quitting never stops a run.
    "#);
}

#[test]
fn every_dialog_at_each_size() {
    for (columns, rows) in SIZES {
        let on_board = |keys: &str| {
            let mut state = board(columns, rows);
            press(&mut state, keys);
            state
        };
        let mut waiver = opened_run(columns, rows);
        press(&mut waiver, "w");
        let frames = vec![
            ("help", on_board("?")),
            ("answer", on_board("akeep them")),
            ("message", on_board("↓↓↓tlook at v1")),
            ("waiver", waiver),
            ("limits", on_board("l⇥2h")),
            ("cancel", on_board("xk7")),
            ("filter", on_board("/shop-api")),
        ];
        insta::assert_snapshot!(format!("dialogs_at_{columns}_by_{rows}"), show_all(frames));
    }
}
