//! Reads the board.

use crate::server_state::ServerState;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_deck::page::{BoardPage, BoardRow};
use ralph_home::{journal, ledger};
use ralph_hook::contract::gate_log;
use ralph_hook::{control, overview};
use ralph_sys::clock;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The newest ended runs that the board lists; the history has the others.
const MAX_ENDED: usize = 50;

/// The board, and the directories that it depends on.
pub(crate) fn load_board(state: &ServerState) -> Option<(BoardPage, BTreeSet<PathBuf>)> {
    let (home, now_ms) = (&state.home, clock::now_ms());
    let (views, unreadable) = overview::list_run_views(home).ok()?;
    let mut page = BoardPage {
        v: 1,
        now_ms,
        off: control::off_reason(&state.env, home).map(ToString::to_string),
        spent_today_micro_usd: ledger::spent_today(home, now_ms).unwrap_or(0),
        unreadable: unreadable
            .iter()
            .map(|one| format!("{}: {}", one.run, text::clean_line(&one.error.to_string(), 300)))
            .collect(),
        ..BoardPage::default()
    };
    let mut directories = BTreeSet::new();
    let mut rows = Vec::new();
    for view in &views {
        let run = &view.opened.run;
        if run.id.is_of_session() {
            continue;
        }
        let mut row = BoardRow::from_state(run, &view.opened.state, view.phase, now_ms);
        if !matches!(view.phase, RunPhase::Ended(_)) {
            let paths = home.run(&run.id);
            directories.insert(paths.directory().to_path_buf());
            if let Ok(read) = journal::read_journal(&paths.journal()) {
                row.add_journal(&read.entries);
            }
            if let Some(activity) = gate_log::read_activity(home, run) {
                row.add_activity(&activity);
            }
        }
        rows.push(row);
    }
    page.add_rows(rows, MAX_ENDED);
    for row in page.ended.iter_mut().chain(&mut page.waiting) {
        let Some(run) = RunId::parse(&row.run).filter(|_| row.standing.has_ended()) else {
            continue;
        };
        if let Ok(read) = journal::read_journal(&home.run(&run).journal()) {
            row.add_journal(&read.entries);
        }
    }
    Some((page, directories))
}
