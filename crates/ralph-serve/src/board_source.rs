//! Reads the board.

use crate::history_source::open_index;
use crate::server_state::ServerState;
use ralph_core::id::RunId;
use ralph_deck::page::{BoardClock, BoardPage};
use ralph_sys::clock;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The board with the runs that ended since `seen_ms`, and the directories that it depends on.
pub(crate) fn load_board(
    state: &ServerState,
    seen_ms: u64,
) -> Option<(BoardPage, BTreeSet<PathBuf>)> {
    let index = open_index(state)?;
    let clock = BoardClock { seen_ms, now_ms: clock::now_ms() };
    let page = BoardPage::load(&state.env, &state.home, &index, None, &clock).ok()?;
    let open = page.waiting.iter().chain(&page.working).filter(|row| !row.standing.has_ended());
    let runs = open.filter_map(|row| RunId::parse(&row.run));
    let mut directories: BTreeSet<_> =
        runs.map(|run| state.home.run(&run).directory().to_path_buf()).collect();
    let queues = state.home.queues();
    directories.extend(page.queues.iter().map(|queue| queues.join(&queue.id)));
    directories.insert(queues);
    Some((page, directories))
}
