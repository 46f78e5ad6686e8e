//! Frames of the board.

use super::frames::{board, press, show, show_with, unread_board};
use crate::glyphs::GlyphSet;
use crate::sample_pages::{NOW_MS, sample_board};
use crate::watch_effect::{LoadedPage, WatchEvent};
use crate::watch_state::WatchState;
use ralph_core::record::CostBasis;
use ralph_deck::page::BoardPage;

#[test]
fn board_at_80_by_24() {
    insta::assert_snapshot!(show(&board(80, 24)), @r"
    | ralph  3 wait for you · 3 working · 5 ended                $58.55 of $80 today
    |
    | WAITING FOR YOU                                                iter.      cost
    |▌? k7f2  asks         Upgrade to axum 0.8          shop-api     17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new
    |    allow. Drop the /v1 routes with this upgrade, or keep them?  19 min left
    | # e1vd  gate broken  Let guests check out withou… storefront    6/25     $2.95
    | ! m3qz  needs review Round invoice totals the sa… billing       9/25     $5.08
    |
    | WORKING
    | • 2ubr  working      People can take their data…  accounts      6/25     $3.82
    |    9 of 14 met ██▇▆▆▅▃   tests 41 s of about 55 s   context 41 %
    | … p0w8  waiting      Remove the legacy queue wor… shop-api      3/25     $2.10
    |    rate limit, continues at 08:40, in 58 min
    | ≡ queue goals        4 of 7 landed, 1 parked      csv                    $9.40
    |
    | ENDED SINCE 23:10 YESTERDAY
    | = t4hb  stuck        Make the import resumable    ledger       12/25     $7.77
    | ~ w6jc  claimed      Write a migration guide for… docs-site     2/25     $0.84
    | ✓ 9qd1  verified     Stream the CSV export inste… ledger       41/60    $14.36
    | ✓ b2ls  verified     Quote fields that hold comm… csv           2/10     $0.61
    |    1 more below
    |
    | ↑↓ move  enter open  a answer  t tell  p pause  / filter  ? help  q quit  live
    ");
}

#[test]
fn board_at_160_by_50() {
    insta::assert_snapshot!(show(&board(160, 50)), @r"
    | ralph   3 wait for you · 3 working · 5 ended since 23:10 yesterday                                                                         $58.55 of $80 today
    |
    | WAITING FOR YOU                                                                                                                                iter.      cost
    |▌? k7f2  asks         Upgrade to axum 0.8                                                                                          shop-api     17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?
    |    parked at 08:01 without an answer, in 19 min
    |
    | # e1vd  gate broken  Let guests check out without an account                                                                      storefront    6/25     $2.95
    |    e2e gave no result twice in a row: cannot start playwright, no such file
    |
    | ! m3qz  needs review Round invoice totals the same way everywhere                                                                 billing       9/25     $5.08
    |    all 11 requirements are met; 3 expectations in existing tests were changed
    |
    |
    |
    | WORKING
    | • 2ubr  working      People can take their data with them                                                                         accounts      6/25     $3.82
    |    9 of 14 met ██▇▆▆▅▃   tests 41 s of about 55 s   context 41 %   1 h 12 min of 8 h
    |
    | … p0w8  waiting      Remove the legacy queue worker                                                                               shop-api      3/25     $2.10
    |    rate limit, continues at 08:40, in 58 min
    |
    | ≡ queue goals        4 of 7 landed, 1 parked                                                                                      csv                    $9.40
    |
    |
    | ENDED SINCE 23:10 YESTERDAY
    | = t4hb  stuck        Make the import resumable                                                                                    ledger       12/25     $7.77
    |    the last 3 stops brought nothing new
    | ~ w6jc  claimed      Write a migration guide for 2.0                                                                              docs-site     2/25     $0.84
    | ✓ 9qd1  verified     Stream the CSV export instead of building it in memory                                                       ledger       41/60    $14.36
    | ✓ b2ls  verified     Quote fields that hold commas                                                                                csv           2/10     $0.61
    | ✓ x9nn  verified     Escape <img src=x onerror=alert(1)> in comment previews                                                      comments      5/25     $1.73
    |
    |    earlier: 4,982 runs, press e
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
    | ↑↓ move  enter open  a answer  t tell  p pause  w waive  x cancel  / filter  e earlier  ? help  q quit                                                    live
    ");
}

#[test]
fn board_without_utf8() {
    insta::assert_snapshot!(show_with(&board(80, 24), GlyphSet::Ascii), @r"
    | ralph  3 wait for you, 3 working, 5 ended                  $58.55 of $80 today
    |
    | WAITING FOR YOU                                                iter.      cost
    |>? k7f2  asks         Upgrade to axum 0.8          shop-api     17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new
    |    allow. Drop the /v1 routes with this upgrade, or keep them?  19 min left
    | # e1vd  gate broken  Let guests check out with... storefront    6/25     $2.95
    | ! m3qz  needs review Round invoice totals the...  billing       9/25     $5.08
    |
    | WORKING
    | * 2ubr  working      People can take their dat... accounts      6/25     $3.82
    |    9 of 14 met, was 0   tests 41 s of about 55 s   context 41 %
    | . p0w8  waiting      Remove the legacy queue w... shop-api      3/25     $2.10
    |    rate limit, continues at 08:40, in 58 min
    | Q queue goals        4 of 7 landed, 1 parked      csv                    $9.40
    |
    | ENDED SINCE 23:10 YESTERDAY
    | = t4hb  stuck        Make the import resumable    ledger       12/25     $7.77
    | ~ w6jc  claimed      Write a migration guide f... docs-site     2/25     $0.84
    | V 9qd1  verified     Stream the CSV export ins... ledger       41/60    $14.36
    | V b2ls  verified     Quote fields that hold co... csv           2/10     $0.61
    |    1 more below
    |
    | up/down move  enter open  a answer  / filter  ? help  q quit              live
    ");
}

#[test]
fn board_at_48_columns() {
    insta::assert_snapshot!(show(&board(48, 18)), @r"
    | ralph  3 wait · 3 working · 5 ended     $58.55
    | WAITING FOR YOU
    |▌? k7f2 asks                        17/25 $11.62
    |    Upgrade to axum 0.8
    |    clippy rejects the deprecated /v1…
    | # e1vd gate broken                  6/25  $2.95
    |    Let guests check out without an account
    | ! m3qz needs review                 9/25  $5.08
    |    Round invoice totals the same way everywhere
    | WORKING
    | • 2ubr working                      6/25  $3.82
    |    People can take their data with them
    | … p0w8 waiting                      3/25  $2.10
    |    Remove the legacy queue worker
    | ≡ queue goals  4 of 7 landed, 1 parked   $9.40
    | ENDED SINCE 23:10 YESTERDAY
    |    5 more below
    | enter open  a answer  ? help  q quit
    ");
}

#[test]
fn board_at_80_by_16_after_moving_down() {
    let mut state = board(80, 16);
    press(&mut state, "↓↓↓");
    insta::assert_snapshot!(show(&state), @"
    | ralph  3 wait for you · 3 working · 5 ended                $58.55 of $80 today
    |
    | WAITING FOR YOU                                                iter.      cost
    | ? k7f2  asks         Upgrade to axum 0.8          shop-api     17/25    $11.62
    | # e1vd  gate broken  Let guests check out withou… storefront    6/25     $2.95
    | ! m3qz  needs review Round invoice totals the sa… billing       9/25     $5.08
    | WORKING
    |▌• 2ubr  working      People can take their data…  accounts      6/25     $3.82
    |    9 of 14 met ██▇▆▆▅▃   tests 41 s of about 55 s   context 41 %
    | … p0w8  waiting      Remove the legacy queue wor… shop-api      3/25     $2.10
    | ≡ queue goals        4 of 7 landed, 1 parked      csv                    $9.40
    | ENDED SINCE 23:10 YESTERDAY
    | = t4hb  stuck        Make the import resumable    ledger       12/25     $7.77
    | ~ w6jc  claimed      Write a migration guide for… docs-site     2/25     $0.84
    |    3 more below
    | ↑↓ move  enter open  t tell  p pause  w waive  / filter  ? help  q quit   live
    ");
}

#[test]
fn board_in_a_tiny_terminal() {
    insta::assert_snapshot!(show(&board(60, 5)), @r"
    |k7f2 asks: 3 wait · 3 working · 5 ended
    |
    |
    |
    |
    ");
}

#[test]
fn filtered_board() {
    let mut state = board(80, 24);
    press(&mut state, "/shop is:waiting is:asks");
    insta::assert_snapshot!(show(&state), @r"
    | ralph  2 of 4,992 runs                                     $58.55 of $80 today
    |
    | / shop is:waiting is:asks█
    |
    | ? k7f2  asks         Upgrade to axum 0.8          shop-api     17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new
    |    allow. Drop the /v1 routes with this upgrade, or keep them?  19 min left
    |▌… p0w8  waiting      Remove the legacy queue wor… shop-api      3/25     $2.10
    |    rate limit, continues at 08:40, in 58 min
    |
    |  words match goal, project, run id and branch
    |  is:working is:waiting is:parked is:ended is:verified …   gate:clippy   >5usd
    |  since:7d   project:billing   and  -word  leaves out
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
    | enter keep the filter   esc clear it   ↑↓ move
    ");
}

#[test]
fn board_by_cost() {
    let mut state = board(80, 24);
    press(&mut state, "ss↓");
    insta::assert_snapshot!(show(&state), @r"
    | ralph  3 wait for you · 3 working · 5 ended                $58.55 of $80 today
    |
    | RUNS BY COST                                                   iter.      cost
    | ✓ 9qd1  verified     Stream the CSV export inste… ledger       41/60    $14.36
    | ? k7f2  asks         Upgrade to axum 0.8          shop-api     17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new
    |    allow. Drop the /v1 routes with this upgrade, or keep them?  19 min left
    |▌= t4hb  stuck        Make the import resumable    ledger       12/25     $7.77
    |    the last 3 stops brought nothing new
    | ! m3qz  needs review Round invoice totals the sa… billing       9/25     $5.08
    | • 2ubr  working      People can take their data…  accounts      6/25     $3.82
    |    9 of 14 met ██▇▆▆▅▃   tests 41 s of about 55 s   context 41 %
    | # e1vd  gate broken  Let guests check out withou… storefront    6/25     $2.95
    | … p0w8  waiting      Remove the legacy queue wor… shop-api      3/25     $2.10
    |    rate limit, continues at 08:40, in 58 min
    | ✓ x9nn  verified     Escape <img src=x onerror=a… comments      5/25     $1.73
    | ~ w6jc  claimed      Write a migration guide for… docs-site     2/25     $0.84
    | ✓ b2ls  verified     Quote fields that hold comm… csv           2/10     $0.61
    |
    |
    |
    |
    |
    | ↑↓ move  enter open  / filter  ? help  q quit                             live
    ");
}

#[test]
fn empty_board_with_problems() {
    let mut state = board(80, 24);
    let page = BoardPage {
        v: 1,
        off: Some("the kill switch is set".to_string()),
        unreadable: vec!["zz99: the journal is not readable".to_string()],
        now_ms: state.now_ms,
        ..BoardPage::default()
    };
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    insta::assert_snapshot!(show(&state), @r#"
    | ralph  is switched off: the kill switch is set                     $0.00 today
    |
    | no runs yet; `ralph run "goal"` starts one
    |
    | UNREADABLE RUNS AND FAULTS
    |    zz99: the journal is not readable
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
    | ↑↓ move  enter open  / filter  ? help  q quit                             live
    "#);
}

/// R-S6c: what an agent or a tool wrote is shown as text, in as many columns as it has.
#[test]
#[expect(clippy::unicode_not_nfc, reason = "combining marks are a part of the test")]
fn hostile_text_is_visible_and_keeps_its_place() {
    let mut page = sample_board();
    let titles = [
        "\u{1b}[2J\u{1b}]0;owned\u{7}gone",
        "\u{202e}drawkcab \u{200b}zero\u{2066}width",
        "日本語のタイトルはとても長いので切られます",
        "a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301} marks",
        "👨‍👩‍👧‍👦 family 🏳️‍🌈 flag\r\nsecond line",
    ];
    let rows = page.waiting.iter_mut().chain(&mut page.working);
    for (row, title) in rows.zip(titles) {
        row.title = title.to_string();
        row.project_name = title.to_string();
        row.note = Some(title.to_string());
    }
    let mut state = board(80, 24);
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    insta::assert_snapshot!(show(&state), @r"
    | ralph  3 wait for you · 3 working · 5 ended                $58.55 of $80 today
    |
    | WAITING FOR YOU                                                iter.      cost
    |▌? k7f2  asks         ␛[2J␛]0;owned␇gone           ␛[2J␛]0;own… 17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new
    |    allow. Drop the /v1 routes with this upgrade, or keep them?  19 min left
    | # e1vd  gate broken  ⟨U+202E⟩drawkcab ⟨U+200B⟩ze… ⟨U+202E⟩dra…  6/25     $2.95
    | ! m3qz  needs review 日本語のタイトルはとても長…  日本語のタ…   9/25     $5.08
    |
    | WORKING
    | • 2ubr  working      á́́́́́́ marks                      á́́́́́́ marks       6/25     $3.82
    |    9 of 14 met ██▇▆▆▅▃   tests 41 s of about 55 s   context 41 %
    |    á́́́́́́ marks
    | … p0w8  waiting      👨⟨U+200D⟩👩⟨U+200D⟩👧⟨U+20… 👨⟨U+200D⟩…   3/25     $2.10
    |    👨⟨U+200D⟩👩⟨U+200D⟩👧⟨U+200D⟩👦 family 🏳⟨U+FE0F⟩⟨U+200D⟩🌈 flag␍␊second li…
    | ≡ queue goals        4 of 7 landed, 1 parked      csv                    $9.40
    |
    | ENDED SINCE 23:10 YESTERDAY
    | = t4hb  stuck        Make the import resumable    ledger       12/25     $7.77
    | ~ w6jc  claimed      Write a migration guide for… docs-site     2/25     $0.84
    | ✓ 9qd1  verified     Stream the CSV export inste… ledger       41/60    $14.36
    |    2 more below
    |
    | ↑↓ move  enter open  a answer  t tell  p pause  / filter  ? help  q quit  live
    ");
}

#[test]
fn a_board_that_is_not_loaded_or_has_more_runs_than_are_listed() {
    let mut state = board(80, 50);
    let lines = |state: &WatchState| -> String {
        let shown = show(state);
        let lines = shown.lines().filter(|line| line.contains("more;") || line.contains("reading"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let page = BoardPage { waiting_left_out: 7, working_left_out: 1_200, ..sample_board() };
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    assert!(show(&state).contains("10 wait for you · 1203 working"), "{}", show(&state));
    insta::assert_snapshot!(lines(&state), @r"
    |    and 7 more; `ralph status --all` lists them
    |    and 1200 more; `ralph status --all` lists them
    ");
    insta::assert_snapshot!(lines(&unread_board(80, 50)), @"| reading the runs");
}

/// The problem of a filter is shown whole, whatever is selected, and only while it is that of the filter.
#[test]
fn refused_filter() {
    let mut state = board(60, 24);
    press(&mut state, "G/is:odd");
    let why = "`is:odd` is not a filter; there are `is:active`, `is:paused`, `is:parked`, `is:orphaned`, `is:ended` and `is:working`";
    state.update(WatchEvent::Loaded(LoadedPage::FilterRefused {
        filter: "is:odd".to_string(),
        why: why.to_string(),
    }));
    let shown = |state: &WatchState| {
        let lines: Vec<_> = show(state).lines().take(8).map(str::to_string).collect();
        lines.join("\n")
    };
    insta::assert_snapshot!(shown(&state), @r"
    | ralph  3 wait · 3 working · 5 ended                 $58.55
    |
    | / is:odd█
    |
    | `is:odd` is not a filter; there are `is:active`,
    | `is:paused`, `is:parked`, `is:orphaned`, `is:ended` and
    | `is:working`
    |
    ");
    // The answer about a filter that was changed since says nothing about this one.
    let mut other = board(60, 24);
    press(&mut other, "/is:ended");
    let before = shown(&other);
    let refused = LoadedPage::FilterRefused { filter: "is:end".to_string(), why: why.to_string() };
    other.update(WatchEvent::Loaded(refused));
    assert_eq!(shown(&other), before);
    // Kept and then left, the board is as it was.
    press(&mut state, "⏎⎋");
    assert_eq!(show(&state), show(&board(60, 24)));
}

/// All ended runs are counted, a small cost keeps its distance, and a quiet run has the time of its last event.
#[test]
fn counts_costs_and_quiet_runs() {
    let mut state = board(60, 24);
    let mut page = sample_board();
    page.ended_total = 1_204;
    page.waiting.truncate(1);
    page.working.truncate(1);
    page.working[0].spent_micro_usd = Some(1_600);
    page.working[0].activity = None;
    page.working[0].last_ms = NOW_MS - 9 * 60_000;
    page.ended.clear();
    page.queues.clear();
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    let shown: Vec<_> = show(&state).lines().take(14).map(str::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    | ralph  1 waits · 1 working · 1,204 ended            $58.55
    |
    | WAITING FOR YOU
    |▌? k7f2 asks                                    17/25 $11.62
    |    Upgrade to axum 0.8
    |    clippy rejects the deprecated /v1 handlers, and the
    |    policy forbids a new allow. Drop the /v1 routes with
    |    this upgrade, or keep them?
    |
    | WORKING
    | • 2ubr working                                 6/25 $0.0016
    |    People can take their data with them
    |    9 of 14 met   last event 9 min ago
    |
    ");
}

/// An estimate of a small amount is the longest usual cost.
#[test]
fn columns_have_a_gap_whatever_a_run_costs() {
    let mut shown = Vec::new();
    for columns in [80, 120] {
        let mut state = board(columns, 24);
        let mut page = sample_board();
        page.waiting.truncate(2);
        page.working.clear();
        page.ended.clear();
        page.queues.clear();
        page.waiting[0].spent_micro_usd = Some(900);
        page.waiting[1].spent_micro_usd = Some(1_234_560_000);
        for row in &mut page.waiting {
            row.question = None;
            (row.iteration, row.max_iterations) = (10, Some(250));
            row.cost_basis = CostBasis::Incomplete;
        }
        state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
        shown.extend(show(&state).lines().skip(2).take(5).map(str::to_string));
    }
    insta::assert_snapshot!(shown.join("\n"), @r"
    | WAITING FOR YOU                                                iter.      cost
    |▌? k7f2  asks         Upgrade to axum 0.8          shop-api    10/250  ≈$0.0009
    |    11 of 12 met   context 63 %
    | # e1vd  gate broken  Let guests check out withou… storefront  10/250 ≈$1234.56
    |
    | WAITING FOR YOU                                                                                        iter.      cost
    |▌? k7f2  asks         Upgrade to axum 0.8                                                  shop-api    10/250  ≈$0.0009
    |    11 of 12 met   context 63 %   7 h 38 min of 10 h
    | # e1vd  gate broken  Let guests check out without an account                              storefront  10/250 ≈$1234.56
    |
    ");
}

#[test]
fn a_running_judge_shows_its_step() {
    let mut state = board(100, 24);
    let mut page = sample_board();
    page.working.truncate(1);
    page.working[0].activity.as_mut().unwrap().gates[0].name = "review".to_string();
    page.working[0].activity.as_mut().unwrap().gates[0].step =
        Some("asking reviewer 2 of 3".to_string());
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    let shown = show(&state);
    let line = shown.lines().find(|line| line.contains("reviewer")).unwrap_or_default();
    insta::assert_snapshot!(line, @"|    9 of 14 met ██▇▆▆▅▃   review 41 s of about 55 s (asking reviewer 2 of 3)   context 41 %");
}

/// A long question leaves room for the time that is left, and an ended run is offered no message.
#[test]
fn long_question_and_an_ended_run_at_80_by_24() {
    let mut state = board(80, 24);
    let mut page = sample_board();
    let question = page.waiting[0].question.as_mut().unwrap();
    question.text = "Drop the /v1 routes with this upgrade, or keep them? ".repeat(4);
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    let lines = |state: &WatchState| {
        let shown = show(state);
        let lines: Vec<_> = shown.lines().collect();
        [&lines[3..6], &lines[lines.len() - 1..]].concat().join("\n")
    };
    insta::assert_snapshot!(lines(&state), @r"
    |▌? k7f2  asks         Upgrade to axum 0.8          shop-api     17/25    $11.62
    |    Drop the /v1 routes with this upgrade, or keep them? Drop
    |    the /v1 routes with this upgrade, or keep them? Drop the…    19 min left
    | ↑↓ move  enter open  a answer  t tell  p pause  / filter  ? help  q quit  live
    ");
    press(&mut state, "G");
    insta::assert_snapshot!(lines(&state), @r"
    |    Drop the /v1 routes with this upgrade, or keep them? Drop
    |    the /v1 routes with this upgrade, or keep them? Drop the…    19 min left
    | # e1vd  gate broken  Let guests check out withou… storefront    6/25     $2.95
    | ↑↓ move  enter open  / filter  ? help  q quit                             live
    ");
}
