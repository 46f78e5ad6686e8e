//! The filter, applied to the rows of the board.

use crate::sample_pages::{NOW_MS, sample_board};
use ralph_deck::run_index::RunFilter;

#[test]
fn a_filter_selects_loaded_rows() {
    const ALL: &str = "k7f2 e1vd m3qz 2ubr p0w8 t4hb w6jc 9qd1 b2ls x9nn";
    let board = sample_board();
    let rows: Vec<_> = board.waiting.iter().chain(&board.working).chain(&board.ended).collect();
    for (filter, expected) in [
        ("", ALL),
        ("shop-api", "k7f2 p0w8"),
        ("SHOP -queue", "k7f2"),
        ("is:verified", "9qd1 b2ls x9nn"),
        ("is:needs-review", "m3qz"),
        ("is:ended >7usd", "t4hb 9qd1"),
        ("<1usd", "w6jc b2ls"),
        ("is:verified is:claimed -csv", "w6jc x9nn"),
        ("is:active", "k7f2 2ubr p0w8"),
        ("project:ledger", "t4hb 9qd1"),
        ("since:1h is:ended", "e1vd m3qz t4hb"),
        // Terms that are not finished.
        ("is: since:x >y is:veri", ALL),
        // Only the index has the gates of the past.
        ("gate:tests", ""),
        ("nothing-like-it", ""),
    ] {
        let parsed = RunFilter::parse_typed(filter, NOW_MS);
        let found = rows.iter().filter(|row| parsed.matches(row)).map(|row| row.run.as_str());
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{filter}");
    }
}
