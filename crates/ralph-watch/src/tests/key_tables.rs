//! What keys do, as tables.

use super::frames::{board, opened_run, press, show};
use crate::key_event::{PersonInput, WatchKey};
use crate::sample_pages::{asking_row, sample_board, sample_run};
use crate::watch_effect::{LoadedPage, WatchEffect, WatchEvent};
use crate::watch_state::WatchState;
use ralph_core::status::RunStatus;
use ralph_deck::page::RunStanding;

fn send(state: &mut WatchState, input: PersonInput) -> Vec<WatchEffect> {
    state.update(WatchEvent::Input(input))
}

/// The effects of the last key, after some others.
fn effects(state: &mut WatchState, before: &str, key: WatchKey) -> String {
    press(state, before);
    let effects = send(state, PersonInput::Key(key));
    effects.iter().map(|effect| format!("{effect:?}")).collect::<Vec<_>>().join("; ")
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table and its results")]
fn keys_on_the_board_have_these_effects() {
    use WatchKey::{Char, Ctrl, End, Enter, Home};
    let mut out = String::new();
    for (before, key) in [
        ("", Enter),
        ("↓", Enter),
        ("↓↓↓↓↓", Enter),
        ("↓↓", Home),
        ("", End),
        ("/shop⏎", Char('n')),
        ("/shop⏎", Char('N')),
        ("/shop⏎", Char('h')),
        ("s", Char('h')),
        ("", Char('q')),
        ("", Ctrl('c')),
        ("", Ctrl('z')),
        ("", Ctrl('l')),
        ("", Char('p')),
        ("↓", Char('p')),
        ("↓↓↓", Char('p')),
        ("", Char('e')),
        ("/shop", Char('x')),
        ("/q", Enter),
        ("a", Ctrl('s')),
        ("akeep them", Ctrl('s')),
        ("akeep them", Ctrl('e')),
        ("akeep them", Char('q')),
        ("xk7f", Enter),
        ("xk7f2", Enter),
        ("wtests⏎2h⏎the service is down", Enter),
        ("wtests⏎2h", Enter),
        ("l40", Ctrl('s')),
        ("l", Ctrl('s')),
        ("?", Char('q')),
        ("yx", Char('j')),
        ("↓y", Char('p')),
    ] {
        let mut state = board(80, 24);
        let effects = effects(&mut state, before, key);
        let selected = state.board_position.selected.clone().unwrap_or_default();
        let message = state.message.map(|message| message.text).unwrap_or_default();
        let line = format!("{before} {key:?}: {effects} [{selected}] {message}");
        out.push_str(&format!("{}\n", line.trim_end()));
    }
    insta::assert_snapshot!(out, @r#"
     Enter: Load(Run(RunId("k7f2"))) [k7f2]
    ↓ Enter: Load(Run(RunId("e1vd"))) [e1vd]
    ↓↓↓↓↓ Enter:  [queue q1] `ralph status q1` lists the tasks of this queue
    ↓↓ Home:  [k7f2]
     End:  [x9nn]
    /shop⏎ Char('n'):  [p0w8]
    /shop⏎ Char('N'):  [p0w8]
    /shop⏎ Char('h'):  [k7f2]
    s Char('h'):  [k7f2]
     Char('q'): Quit [k7f2]
     Ctrl('c'): Quit [k7f2]
     Ctrl('z'): Suspend [k7f2]
     Ctrl('l'): ClearScreen [k7f2]
     Char('p'): Act { run: RunId("k7f2"), action: Pause, asks_at_terminal: false } [k7f2]
    ↓ Char('p'):  [e1vd] e1vd has ended; `ralph why e1vd` shows what to do next
    ↓↓↓ Char('p'): Act { run: RunId("2ubr"), action: Pause, asks_at_terminal: false } [2ubr]
     Char('e'): Load(Earlier { filter: "", before: None }) [k7f2]
    /shop Char('x'): Load(Earlier { filter: "shopx", before: None }) []
    /q Enter:  [m3qz]
    a Ctrl('s'):  [k7f2] there is nothing to send
    akeep them Ctrl('s'): Act { run: RunId("k7f2"), action: Tell { text: "keep them" }, asks_at_terminal: false } [k7f2]
    akeep them Ctrl('e'): OpenEditor { text: "keep them" } [k7f2]
    akeep them Char('q'):  [k7f2]
    xk7f Enter:  [k7f2] that is not k7f2; nothing was cancelled
    xk7f2 Enter: Act { run: RunId("k7f2"), action: Cancel, asks_at_terminal: false } [k7f2]
    wtests⏎2h⏎the service is down Enter: Act { run: RunId("k7f2"), action: Waive { requirement: "tests", until: "2h", why: "the service is down" }, asks_at_terminal: true } [k7f2]
    wtests⏎2h Enter:  [k7f2]
    l40 Ctrl('s'): Act { run: RunId("k7f2"), action: SetLimits { iterations: "40", duration: "", cost: "" }, asks_at_terminal: true } [k7f2]
    l Ctrl('s'):  [k7f2] no limit was entered; esc goes back
    ? Char('q'):  [k7f2]
    yx Char('j'):  [e1vd]
    ↓y Char('p'):  [e1vd] e1vd has ended; `ralph why e1vd` shows what to do next
    "#);
}

#[test]
fn keys_on_a_run_have_these_effects() {
    use WatchKey::{BackTab, Char, Ctrl, End, Enter, Home, Tab};
    let mut out = String::new();
    for (before, key) in [
        ("", Char('4')),
        ("", Char('5')),
        ("", Char('6')),
        ("", Tab),
        ("3", Tab),
        ("6", Tab),
        ("", BackTab),
        ("", Char('h')),
        ("2", Char('h')),
        ("", Home),
        ("", End),
        ("", Enter),
        ("↓", Enter),
        ("y", Char('a')),
        ("y", Char('w')),
        ("y", Char('p')),
        ("w2h⏎the lint is wrong", Enter),
        ("tlook at v1", Ctrl('s')),
        ("/clippy⏎", Char('n')),
        ("/clippy⏎n", Char('N')),
        ("/nowhere", Enter),
        ("", Char('n')),
    ] {
        let mut state = opened_run(80, 24);
        let effects = effects(&mut state, before, key);
        let place = state.run.as_ref().map_or("board", |screen| screen.tab.name());
        let selected = state.position().selected.clone().unwrap_or_default();
        let message = state.message.map(|message| message.text).unwrap_or_default();
        let line = format!("{before} {key:?}: {effects} [{place}, {selected}] {message}");
        out.push_str(&format!("{}\n", line.trim_end()));
    }
    insta::assert_snapshot!(out, @r#"
     Char('4'): Load(Files(RunId("k7f2"))) [diff, ]
     Char('5'): Load(Checkpoints(RunId("k7f2"))) [checkpoints, ]
     Char('6'):  [log, ]
     Tab:  [reason, ]
    3 Tab: Load(Files(RunId("k7f2"))) [diff, ]
    6 Tab:  [stops, stop 35]
     BackTab:  [log, ]
     Char('h'):  [board, k7f2]
    2 Char('h'):  [board, k7f2]
     Home:  [stops, requirement build]
     End:  [stops, stop 0]
     Enter:  [stops, stop 35] the agent read nothing here
    ↓ Enter:  [reason, ]
    y Char('a'):  [stops, stop 35] ralph tell k7f2 "…"
    y Char('w'):  [stops, stop 35] ralph waive clippy --until "…" --why "…" --run k7f2
    y Char('p'):  [stops, stop 35] ralph pause k7f2
    w2h⏎the lint is wrong Enter: Act { run: RunId("k7f2"), action: Waive { requirement: "clippy", until: "2h", why: "the lint is wrong" }, asks_at_terminal: true } [stops, stop 35]
    tlook at v1 Ctrl('s'): Act { run: RunId("k7f2"), action: Tell { text: "look at v1" }, asks_at_terminal: false } [stops, stop 35]
    /clippy⏎ Char('n'):  [stops, stop 32]
    /clippy⏎n Char('N'):  [stops, stop 34]
    /nowhere Enter:  [stops, stop 35] no line has "nowhere"
     Char('n'):  [stops, stop 35] press / to search
    "#);
}

/// Keys act on the run that was open, also if it was opened by its name and not from the board.
#[test]
fn a_closed_run_is_selected_on_the_board() {
    let mut state = board(80, 24);
    let mut page = sample_run();
    page.row.run = "2ubr".to_string();
    state.update(WatchEvent::Loaded(LoadedPage::Run(Box::new(page))));
    let effects = effects(&mut state, "⎋", WatchKey::Char('p'));
    insta::assert_snapshot!(effects, @r#"Act { run: RunId("2ubr"), action: Pause, asks_at_terminal: false }"#);
}

#[test]
fn an_answer_is_kept_as_a_draft() {
    let mut state = board(80, 24);
    press(&mut state, "akeep them⎋");
    assert!(state.dialog.is_none());
    press(&mut state, "a");
    let sent = send(&mut state, PersonInput::Key(WatchKey::Ctrl('s')));
    assert!(format!("{sent:?}").contains("keep them"), "{sent:?}");
    press(&mut state, "a");
    assert!(send(&mut state, PersonInput::Key(WatchKey::Ctrl('s'))).is_empty());
}

/// Pasted text is never a key: a line of a log must not cancel a run.
#[test]
fn pasted_text_is_typed_or_ignored() {
    let mut state = board(80, 24);
    assert!(send(&mut state, PersonInput::Paste("pxq".to_string())).is_empty());
    assert!(state.dialog.is_none());
    press(&mut state, "a");
    send(&mut state, PersonInput::Paste("two\nlines\u{1b}[31m".to_string()));
    let sent = send(&mut state, PersonInput::Key(WatchKey::Ctrl('s')));
    assert!(format!("{sent:?}").contains("two\\nlines[31m"), "{sent:?}");
}

#[test]
fn the_selection_stays_with_its_run() {
    let mut state = board(80, 24);
    press(&mut state, "↓↓");
    assert_eq!(state.board_position.selected.as_deref(), Some("m3qz"));
    let mut page = sample_board();
    let mut other = asking_row();
    other.run = "aaaa".to_string();
    page.waiting.insert(0, other);
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page.clone()))));
    assert_eq!(state.board_position.selected.as_deref(), Some("m3qz"));
    page.waiting.retain(|row| row.run != "m3qz");
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    assert_eq!(state.board_position.selected.as_deref(), Some("2ubr"));
}

#[test]
fn the_bell_rings_once_for_each_question_and_end_until_a_key_is_pressed() {
    let mut state = board(80, 24);
    let mut page = sample_board();
    let load = |state: &mut WatchState, page: &ralph_deck::page::BoardPage| {
        state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page.clone()))))
    };
    assert_eq!(load(&mut state, &page), []);
    page.working[0].standing = RunStanding::Ended(RunStatus::Verified);
    assert_eq!(load(&mut state, &page), [WatchEffect::Bell]);
    assert_eq!(load(&mut state, &page), []);
    page.working[1].standing = RunStanding::Ended(RunStatus::Stuck);
    assert_eq!(load(&mut state, &page), []);
    press(&mut state, "j");
    assert_eq!(load(&mut state, &page), []);
    page.waiting[0].question.as_mut().unwrap().asked_ms += 1;
    assert_eq!(load(&mut state, &page), [WatchEffect::Bell]);
}

#[test]
fn time_passes_only_while_something_shows_it() {
    let mut state = board(80, 24);
    assert_eq!(state.next_tick_ms(), Some(1000));
    let mut page = sample_board();
    page.working.remove(0);
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page.clone()))));
    assert_eq!(state.next_tick_ms(), Some(60_000));
    page.waiting.remove(0);
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page.clone()))));
    assert_eq!(state.next_tick_ms(), Some(60_000));
    page.working.clear();
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    assert_eq!(state.next_tick_ms(), None);
}

#[test]
fn a_click_selects_and_opens() {
    let mut state = board(80, 24);
    let click = PersonInput::Click { column: 4, row: 6 };
    assert_eq!(send(&mut state, click.clone()), []);
    assert_eq!(state.board_position.selected.as_deref(), Some("e1vd"));
    assert_eq!(format!("{:?}", send(&mut state, click)), "[Load(Run(RunId(\"e1vd\")))]");
}

/// A run without a runner gets only keys that do something, and an ended one that waits for a person can be closed.
#[test]
fn keys_of_runs_that_no_runner_drives() {
    let mut state = board(80, 24);
    let mut page = sample_board();
    page.waiting.truncate(2);
    page.working.clear();
    page.ended.clear();
    page.queues.clear();
    page.waiting[0].standing = RunStanding::Parked(RunStatus::Cancelled);
    page.waiting[0].needs_runner = true;
    page.waiting[0].question.as_mut().unwrap().until_ms = None;
    state.update(WatchEvent::Loaded(LoadedPage::Board(Box::new(page))));
    let mut out = show(&state);
    let last_lines = |state: &WatchState| {
        let lines: Vec<_> = show(state).lines().map(str::to_string).collect();
        lines.iter().filter(|line| line.len() > 3).rev().take(2).cloned().collect::<Vec<_>>()
    };
    for keys in ["p", "t", "⎋↓", "x", "⎋t"] {
        press(&mut state, keys);
        out.push_str(&format!("\n{keys}:\n{}", last_lines(&state).join("\n")));
    }
    insta::assert_snapshot!(out, @"
    | ralph  2 wait for you · 0 working · 5 ended                $58.55 of $80 today
    |
    | WAITING FOR YOU                                                iter.      cost
    |▌p k7f2  parked       Upgrade to axum 0.8          shop-api     17/25    $11.62
    |    clippy rejects the deprecated /v1 handlers, and the policy forbids a new
    |    allow. Drop the /v1 routes with this upgrade, or keep them?
    | # e1vd  gate broken  Let guests check out withou… storefront    6/25     $2.95
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
    | ↑↓ move  enter open  a answer  t tell  w waive  / filter  ? help  q quit  live
    p:
    | no runner drives k7f2; `ralph run --resume k7f2` in a terminal continues it
    |    earlier: 4,982 runs, press e
    t:
    | ctrl-s send   ctrl-e open $EDITOR   esc keep as draft
    | The agent gets it when the run is resumed: `ralph run --resume k7f2`
    ⎋↓:
    | ↑↓ move  enter open  x close  / filter  ? help  q quit                    live
    |    earlier: 4,982 runs, press e
    x:
    | enter next or confirm   tab next field   esc back
    |  It keeps its status and no longer waits for you. Nothing is deleted.
    ⎋t:
    | e1vd has ended; `ralph why e1vd` shows what to do next
    |    earlier: 4,982 runs, press e
    ");
}
