//! Reads the board: every run in progress, the latest ended ones, queues, spending and faults.

use super::board_page::{BoardPage, BoardQueue, MAX_OPEN_RUNS};
use super::board_row::{BoardRow, project_name};
use super::run_standing::BoardGroup;
use crate::run_index::{IndexedRun, RunFilter, RunIndex, RunIndexError};
use crate::view::queue_status::{self, QueueStatus};
use ralph_core::id::RunId;
use ralph_core::record::CostBasis;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::faults;
use ralph_home::ledger;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, StoreError};
use ralph_hook::control::off_reason;
use ralph_hook::overview::{self, RunView};
use ralph_hook::project_scope::ProjectScope;
use ralph_install::doctor::protection::{UnprotectedReason, find_unprotected};
use ralph_policy::config;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::parallel;
use std::path::Path;

const MAX_ENDED_RUNS: usize = 50;
const MAX_REVIEW_RUNS: usize = 1_000;
const LONGEST_LINE: usize = 400;
const LONGEST_NAME: usize = 200;
/// A run that ended and waits for a person is listed as waiting for this long. Later it is one of the earlier runs.
pub const LONGEST_REVIEW_MS: u64 = 30 * 24 * 60 * 60 * 1000;

impl BoardPage {
    /// Reads the board of one project, or of all. Runs that have ended come from the index as it is; the others are read
    /// from their own files. `seen_ms` is when the person last looked; 0 if never.
    pub fn load(
        env: &Env,
        home: &RalphHome,
        index: &RunIndex,
        scope: Option<&ProjectScope>,
        clock: &BoardClock,
    ) -> Result<Self, RunIndexError> {
        let BoardClock { seen_ms, now_ms } = *clock;
        let mut page = Self {
            v: 1,
            now_ms,
            seen_ms,
            off: off_reason(env, home).map(str::to_string),
            // A ledger that cannot be read is a fault of its own, which the next spending reports.
            spent_today_micro_usd: ledger::spent_today(home, now_ms).unwrap_or_default(),
            max_day_micro_usd: config::load_runner(home)
                .ok()
                .and_then(|runner| runner.day_micro_usd),
            faults: fault_lines(home),
            ..Self::default()
        };
        let open = page.read_open_runs(home, index, scope)?;
        let unprotected = find_unprotected(env, home, &open);
        let mut rows =
            parallel::map_in_parallel(open.iter().zip(&unprotected).collect(), |(view, why)| {
                open_row(home, view, why.as_ref(), now_ms)
            });
        let projects = scope.map(|scope| projects_in(index, scope)).transpose()?;
        let projects = projects.as_deref();
        if let Some(projects) = projects {
            // The limit of a day is about all projects.
            page.max_day_micro_usd = None;
            page.spent_today_micro_usd =
                index.spent_on_day(&clock::local_date(now_ms), projects)?;
        }
        let ended = RunFilter::default().within(projects);
        let for_review: Vec<_> =
            RunStatus::ALL.into_iter().filter(|status| status.waits_for_person()).collect();
        let for_review = RunFilter::with_statuses(&for_review).within(projects);
        let latest = index.ended_page(&ended, None, MAX_ENDED_RUNS)?.runs;
        let review = index.ended_page(&for_review, None, MAX_REVIEW_RUNS)?.runs;
        page.earlier = index.count(&ended)?;
        let since = index.count(&RunFilter::ended_since(seen_ms).within(projects))?;
        let is_since = |run: &&IndexedRun| run.ended_ms.unwrap_or(run.last_ms) >= seen_ms;
        let review_since = review.iter().filter(is_since).filter(|run| !run.closed).count();
        page.ended_total = since.saturating_sub(u64::try_from(review_since).unwrap_or(u64::MAX));
        let is_for_review = |row: &BoardRow| row.group() == BoardGroup::WaitingForYou;
        let latest = latest.iter().filter_map(BoardRow::from_index);
        let latest = latest.filter(|row| !is_for_review(row));
        let review = review.iter().filter_map(BoardRow::from_index);
        let review = review.filter(is_for_review);
        let shown: Vec<_> =
            latest.chain(review).filter(|row| !is_earlier(row, seen_ms, now_ms)).collect();
        page.earlier = page.earlier.saturating_sub(u64::try_from(shown.len()).unwrap_or(0));
        rows.extend(shown);
        page.spent_today_basis = today_basis(&rows, now_ms);
        page.add_rows(rows, MAX_ENDED_RUNS);
        let (queues, _) = queue_status::unfinished_queues(home);
        let in_scope = |queue: &&QueueStatus| {
            scope.is_none_or(|scope| scope.contains_directory(&queue.project))
        };
        page.queues = queues.iter().filter(in_scope).map(board_queue).collect();
        Ok(page)
    }

    /// Reads the runs in progress, at most [`MAX_OPEN_RUNS`]. Counts the others, and adds those that cannot be read to
    /// `unreadable`.
    fn read_open_runs(
        &mut self,
        home: &RalphHome,
        index: &RunIndex,
        scope: Option<&ProjectScope>,
    ) -> Result<Vec<RunView>, RunIndexError> {
        let in_scope = |run: &IndexedRun| {
            scope.is_none_or(|scope| scope.contains_directory(Path::new(&run.project)))
        };
        let mut open = index.waiting_and_working()?;
        // The record of a run, not the index, decides on its scope. That is affordable for a few runs only.
        if open.len() > MAX_OPEN_RUNS {
            open.retain(in_scope);
        }
        let (read, counted) = open.split_at(open.len().min(MAX_OPEN_RUNS));
        for run in counted {
            match BoardRow::from_index(run).map(|row| row.group()) {
                Some(BoardGroup::WaitingForYou) => self.waiting_left_out += 1,
                Some(BoardGroup::Working | BoardGroup::Ended) | None => self.working_left_out += 1,
            }
        }
        let mut views = Vec::new();
        for run in read {
            match store::load_run(home, &run.id) {
                Ok(opened) if scope.is_none_or(|scope| scope.contains_run(&opened.run)) => {
                    views.push(RunView::new(home, opened));
                }
                Ok(_) => {}
                Err(error) => self.unreadable.push(describe_unreadable(&run.id, &error)),
            }
        }
        Ok(views)
    }
}

fn open_row(
    home: &RalphHome,
    view: &RunView,
    unprotected: Option<&UnprotectedReason>,
    now_ms: u64,
) -> BoardRow {
    // An unreadable journal adds nothing to the row; the page of the run reports it.
    let history = overview::run_history(home, &view.opened.run.id).ok();
    let entries = history.as_ref().map(|history| history.entries.as_slice());
    let mut row = BoardRow::of_view(home, view, entries, now_ms);
    if let Some(why) = unprotected {
        row.mark_unprotected(why, now_ms);
    }
    row
}

/// The directories of the scope that have runs.
pub fn projects_in(index: &RunIndex, scope: &ProjectScope) -> Result<Vec<String>, RunIndexError> {
    let mut projects = index.projects()?;
    projects.retain(|project| scope.contains_directory(Path::new(project)));
    Ok(projects)
}

/// When the board is drawn, and when the person last looked; 0 if never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardClock {
    pub seen_ms: u64,
    pub now_ms: u64,
}

/// How the cost of the runs that were at work today is known.
fn today_basis(rows: &[BoardRow], now_ms: u64) -> CostBasis {
    let today = clock::local_date(now_ms);
    let spent = |row: &&BoardRow| {
        row.spent_micro_usd.is_some_and(|spent| spent > 0)
            && clock::local_date(row.last_ms) == today
    };
    let is_assumed = |row: &BoardRow| row.cost_basis == CostBasis::Assumed;
    let is_partly = |row: &BoardRow| row.cost_basis == CostBasis::PartlyAssumed;
    let of_today: Vec<_> = rows.iter().filter(spent).collect();
    if !of_today.is_empty() && of_today.iter().all(|row| is_assumed(row)) {
        CostBasis::Assumed
    } else if of_today.iter().any(|row| is_assumed(row) || is_partly(row)) {
        CostBasis::PartlyAssumed
    } else {
        CostBasis::Reported
    }
}

/// Whether an ended run is counted only.
fn is_earlier(row: &BoardRow, seen_ms: u64, now_ms: u64) -> bool {
    let shown_since_ms = match row.group() {
        BoardGroup::WaitingForYou => now_ms.saturating_sub(LONGEST_REVIEW_MS),
        BoardGroup::Working | BoardGroup::Ended => seen_ms,
    };
    row.standing.has_ended() && row.last_ms < shown_since_ms
}

fn describe_unreadable(run: &RunId, error: &StoreError) -> String {
    let why = faults::describe_error(error);
    text::clean_line(&format!("{run}: {why}"), LONGEST_LINE)
}

fn fault_lines(home: &RalphHome) -> Vec<String> {
    let faults = faults::list_faults(home);
    faults.iter().map(|fault| text::clean_line(&fault.what, LONGEST_LINE)).collect()
}

fn board_queue(queue: &QueueStatus) -> BoardQueue {
    let count = queue.count();
    let source = queue.queue.source.to_string_lossy();
    let project = text::clean_line(&queue.project.to_string_lossy(), LONGEST_LINE);
    BoardQueue {
        id: queue.id.as_str().to_string(),
        name: text::clean_line(&project_name(&source), LONGEST_NAME),
        project_name: project_name(&project),
        landed: count.done,
        tasks: queue.tasks.tasks.len(),
        running: count.at_work,
        parked: count.parked,
        spent_micro_usd: queue.tasks.spent_micro_usd,
        has_ended: count.done == queue.tasks.tasks.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::RunStanding;
    use ralph_core::run::RunPhase;
    use ralph_core::status::RunStatus;

    const NOW_MS: u64 = 1_794_000_000_000;
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;

    fn ended(standing: RunStanding, last_ms: u64) -> BoardRow {
        let id = ralph_core::id::RunId::parse("k7f2").unwrap();
        let run = ralph_core::record::RunRecord::new(id, "/srv/shop".into(), last_ms);
        let state = ralph_core::run::RunState::new(&run);
        let row = BoardRow::from_state(&run, &state, RunPhase::Active, NOW_MS);
        BoardRow { standing, last_ms, ..row }
    }

    #[test]
    fn runs_that_ended_before_the_last_look_are_counted_unless_they_wait_for_a_person() {
        let seen_ms = NOW_MS - DAY_MS;
        for (standing, days, expected) in [
            (RunStanding::Ended(RunStatus::Verified), 0, false),
            (RunStanding::Ended(RunStatus::Verified), 2, true),
            (RunStanding::Ended(RunStatus::NeedsReview), 2, false),
            (RunStanding::Ended(RunStatus::NeedsReview), 40, true),
            (RunStanding::Asks, 40, false),
            (RunStanding::Working, 40, false),
        ] {
            let row = ended(standing, NOW_MS - days * DAY_MS);
            assert_eq!(is_earlier(&row, seen_ms, NOW_MS), expected, "{standing:?} after {days}");
        }
    }
}
