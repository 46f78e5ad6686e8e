//! The board: the runs that wait for a person, those that are working, and those that ended.

use super::board_row::BoardRow;
use super::run_standing::BoardGroup;
use crate::json_units;
use ralph_core::record::CostBasis;
use ralph_core::text;
use serde::Serialize;

/// Runs in progress that are read and listed, in each group. The others are counted.
pub(super) const MAX_OPEN_RUNS: usize = 200;

/// The runs that wait for a person, are working or ended, each group in the order of the screen.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BoardPage {
    pub v: u8,
    #[serde(rename = "now", serialize_with = "json_units::time")]
    pub now_ms: u64,
    /// The answer a person came for: `3 runs are waiting for you`.
    pub sentence: String,
    /// Why ralph is switched off, if it is.
    pub off: Option<String>,
    #[serde(rename = "spent_today_usd", serialize_with = "json_units::usd")]
    pub spent_today_micro_usd: u64,
    /// How the cost of today's runs on this page is known.
    pub spent_today_basis: CostBasis,
    #[serde(rename = "max_day_usd", serialize_with = "json_units::optional_usd")]
    pub max_day_micro_usd: Option<u64>,
    pub waiting: Vec<BoardRow>,
    pub working: Vec<BoardRow>,
    /// How many more runs wait for a person, or work, than are listed.
    pub waiting_left_out: usize,
    pub working_left_out: usize,
    pub queues: Vec<BoardQueue>,
    /// Ended since `seen_ms`, worst first; the newest 50 in total.
    pub ended: Vec<BoardRow>,
    /// How many runs ended since `seen_ms`, with those that are not listed.
    pub ended_total: u64,
    /// When the person last looked; 0 if never.
    #[serde(rename = "seen_at", serialize_with = "json_units::time_unless_zero")]
    pub seen_ms: u64,
    /// How many ended runs are older.
    pub earlier: u64,
    /// Runs that cannot be read, with the reason.
    pub unreadable: Vec<String>,
    /// Faults of ralph itself.
    pub faults: Vec<String>,
}

/// A queue on the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BoardQueue {
    pub id: String,
    /// The name of its file or directory.
    pub name: String,
    pub project_name: String,
    pub landed: usize,
    pub tasks: usize,
    pub running: usize,
    /// Not landed, for any reason; the work is kept.
    pub parked: usize,
    #[serde(rename = "spent_usd", serialize_with = "json_units::usd")]
    pub spent_micro_usd: u64,
    /// Whether everything has landed.
    pub has_ended: bool,
}

impl BoardPage {
    /// Sorts the rows into their groups. `ended` keeps the newest `most`; the others are counted as earlier.
    pub fn add_rows(&mut self, rows: Vec<BoardRow>, most: usize) {
        for row in rows {
            match row.group() {
                BoardGroup::WaitingForYou => self.waiting.push(row),
                BoardGroup::Working => self.working.push(row),
                BoardGroup::Ended => self.ended.push(row),
            }
        }
        self.ended.sort_by_key(|row| std::cmp::Reverse(row.last_ms));
        let left_out = self.ended.len().saturating_sub(most);
        self.ended.truncate(most);
        self.earlier += u64::try_from(left_out).unwrap_or(u64::MAX);
        let newest = |row: &BoardRow| std::cmp::Reverse(row.last_ms);
        self.waiting.sort_by_key(|row| {
            let until_ms = row.question.as_ref().and_then(|question| question.until_ms);
            (row.standing.urgency(), until_ms.unwrap_or(u64::MAX), newest(row))
        });
        self.working.sort_by_key(|row| (row.standing.urgency(), newest(row)));
        self.ended.sort_by_key(|row| (row.standing.urgency(), newest(row)));
        self.waiting_left_out += shorten(&mut self.waiting);
        self.working_left_out += shorten(&mut self.working);
        let listed = u64::try_from(self.ended.len() + left_out).unwrap_or(u64::MAX);
        self.ended_total = self.ended_total.max(listed);
        let ended = usize::try_from(self.ended_total).unwrap_or(usize::MAX);
        self.sentence = board_sentence(self.waiting_count(), self.working_count(), ended);
    }

    /// The runs that wait for a person, listed or not.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len().saturating_add(self.waiting_left_out)
    }

    /// The runs that work, listed or not.
    pub fn working_count(&self) -> usize {
        self.working.len().saturating_add(self.working_left_out)
    }
}

/// Keeps the first rows. Returns how many others there were.
fn shorten(rows: &mut Vec<BoardRow>) -> usize {
    let left_out = rows.len().saturating_sub(MAX_OPEN_RUNS);
    rows.truncate(MAX_OPEN_RUNS);
    left_out
}

/// `3 runs are waiting for you`
pub fn board_sentence(waiting: usize, working: usize, ended: usize) -> String {
    let count = |count: usize| text::count_noun(u64::try_from(count).unwrap_or(u64::MAX), "run");
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    match (waiting, working, ended) {
        (0, 0, 0) => "No runs yet".to_string(),
        (0, 0, ended) => {
            format!("Nothing is running; {} ended", count(ended))
        }
        (0, working, _) => {
            format!("{} {} working; nothing waits for you", count(working), is(working))
        }
        (waiting, _, _) => format!("{} {} waiting for you", count(waiting), is(waiting)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::RunStanding;
    use ralph_core::id::RunId;
    use ralph_core::record::RunRecord;
    use ralph_core::run::{RunPhase, RunState};

    #[test]
    fn more_runs_in_progress_than_fit_are_counted() {
        let row = |number: usize| {
            let id = RunId::parse(&format!("run{number}")).unwrap();
            let run = RunRecord::new(id, "/srv/shop".into(), 1);
            let row = BoardRow::from_state(&run, &RunState::new(&run), RunPhase::Active, 1);
            let standing = if number < 250 { RunStanding::Asks } else { RunStanding::Working };
            BoardRow { standing, ..row }
        };
        let mut page = BoardPage { working_left_out: 7, ..BoardPage::default() };
        page.add_rows((0..500).map(row).collect(), 50);
        assert_eq!((page.waiting.len(), page.waiting_left_out), (MAX_OPEN_RUNS, 50));
        assert_eq!((page.working.len(), page.working_left_out), (MAX_OPEN_RUNS, 57));
        assert_eq!((page.waiting_count(), page.working_count()), (250, 257));
        assert_eq!(page.sentence, "250 runs are waiting for you");
    }
}
