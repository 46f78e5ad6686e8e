//! A run in `ralph status`: its row on the board, and what only this command reads.

use crate::gate_wording;
use crate::page::{BoardGroup, BoardRow, RunStanding, view_question};
use crate::standing_wording;
use crate::view::base_checks::base_checks_line;
use crate::view::driven_run::UnmergedDetail;
use crate::view::fault_list::fault_line;
use crate::view::next_step::next_step;
use crate::view::{driven_run, journal_check, pipeline_chunks};
use crate::wording::{self, FactMark, MarkedText, safe_line};
use ralph_core::closed_run::closing_entry;
use ralph_core::facts::DeclaredPause;
use ralph_core::id::RunId;
use ralph_core::record::StopReport;
use ralph_core::requirement::OLD_FAILURES_REQUIREMENT;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::faults::Fault;
use ralph_home::paths::RalphHome;
use ralph_hook::overview::{self, RunView};
use ralph_hook::phases::{self, PhaseProgress};
use ralph_install::doctor::protection::UnprotectedReason;
use ralph_sys::clock;

const MAX_REASON_CHARS: usize = 200;

/// A run, with what its row does not have.
#[derive(Debug)]
pub struct StatusRun {
    pub row: BoardRow,
    pub view: RunView,
    /// Only for an orchestrated run.
    pub phases: Option<PhaseProgress>,
    /// The progress of the run's pipeline, if it has one.
    pub pipeline: Option<String>,
    /// What happened to the work tree of a driven run: see [`driven_run::worktree_outcome`].
    pub worktree_outcome: Option<String>,
    /// What a person can do next; `None` where the journal was not read.
    pub next: Option<String>,
}

impl StatusRun {
    pub fn load(
        home: &RalphHome,
        mut view: RunView,
        unprotected: Option<&UnprotectedReason>,
    ) -> Self {
        let drive = view.opened.run.drive.as_ref();
        let has_worktree = drive.is_some_and(|drive| drive.worktree.is_some());
        let has_ended = matches!(view.phase, RunPhase::Ended(_));
        let needs_check = journal_check::needs_journal_check(&view);
        // Reading the journal of every run that ended would make a long list slow.
        let needs_history = !has_ended || needs_check || has_worktree || is_for_person(&view);
        let read = |run: &RunId| overview::run_history(home, run).ok();
        let history = needs_history.then(|| read(&view.opened.run.id)).flatten();
        if needs_check
            && let Some(edit) = history.as_ref().and_then(journal_check::describe_journal_edit)
        {
            view.opened.tampering = Some(edit);
        }
        let run = &view.opened.run;
        let entries = history.as_ref().map(|history| history.entries.as_slice());
        let now_ms = clock::now_ms();
        let mut row = BoardRow::of_view(home, &view, entries, now_ms);
        if let Some(why) = unprotected {
            row.mark_unprotected(why, now_ms);
        }
        Self {
            row,
            phases: (run.phases).then(|| phases::phase_progress(home, &view.opened)),
            pipeline: pipeline_chunks::pipeline_summary(home, &view.opened),
            worktree_outcome: entries.and_then(driven_run::worktree_outcome),
            next: entries
                .and_then(|entries| next_step(run, &view.opened.state, view.phase, entries)),
            view,
        }
    }

    /// Why it ended, or what the agent asked, and the next step, if a person has to do something about it.
    pub(super) fn review_lines(&self) -> Vec<String> {
        if !is_for_person(&self.view) {
            return Vec::new();
        }
        let why = match &self.view.opened.state.declared {
            Some(DeclaredPause::NeedsHuman(question)) => {
                Some(format!("asks: {}", safe_line(question)))
            }
            Some(DeclaredPause::Approval(_) | DeclaredPause::Waiting { .. }) | None => {
                self.row.note.as_ref().map(|why| text::clean_line(why, MAX_REASON_CHARS))
            }
        };
        let next = self.next.as_ref().map(|next| format!("next: {next}"));
        why.into_iter().chain(next).collect()
    }
}

/// Whether a person has to do something about the end of a run.
fn is_for_person(view: &RunView) -> bool {
    view.opened.state.accepted.is_none()
        && matches!(view.phase, RunPhase::Ended(status) if is_unfinished(status))
}

/// A run of another project that is in progress, or that ended and waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElsewhereRun {
    pub standing: RunStanding,
    pub is_asking: bool,
}

impl ElsewhereRun {
    /// `None` if no person has to look at it. Its journal is read only if it can change that.
    pub(super) fn load(home: &RalphHome, view: &RunView) -> Option<Self> {
        let standing = RunStanding::from_state(&view.opened.state, view.phase);
        if !standing.has_ended() {
            let question = view_question(home, view);
            return Some(Self {
                standing: standing.with_question(question.as_ref()),
                is_asking: question.is_some(),
            });
        }
        if standing.group() != BoardGroup::WaitingForYou {
            return None;
        }
        let history = overview::run_history(home, &view.opened.run.id).ok();
        let is_closed = history.is_some_and(|history| closing_entry(&history.entries).is_some());
        (!is_closed).then_some(Self { standing, is_asking: false })
    }
}

/// Ends after which a person has to do something.
fn is_unfinished(status: RunStatus) -> bool {
    match status {
        RunStatus::Green
        | RunStatus::NeedsHuman
        | RunStatus::NeedsReview
        | RunStatus::Stuck
        | RunStatus::Exhausted
        | RunStatus::GateBroken
        | RunStatus::Crashed
        | RunStatus::Overridden => true,
        RunStatus::Verified
        | RunStatus::Claimed
        | RunStatus::RateLimited
        | RunStatus::Cancelled => false,
    }
}

impl StatusRun {
    /// The title of the run and, once it has ended, what it took.
    pub fn headline(&self, now_ms: u64) -> String {
        let row = &self.row;
        let title = safe_line(&row.title);
        if !row.standing.has_ended() {
            return title;
        }
        let ago = wording::ago(now_ms, row.last_ms);
        let iterations = text::count_noun(u64::from(row.iteration), "iteration");
        let sessions = match row.sessions {
            0 | 1 => String::new(),
            count => format!(" over {count} sessions"),
        };
        let spent = wording::spent(&self.view.opened.state).map(|spent| format!(", {spent}"));
        format!("{title}  ({ago}, {iterations}{sessions}{})", spent.unwrap_or_default())
    }

    /// The lines below the headline, each a list of facts. `faults` may contain those of other runs.
    pub fn detail_lines(
        &self,
        faults: &[Fault],
        now_ms: u64,
        unmerged: UnmergedDetail,
    ) -> Vec<Vec<MarkedText>> {
        let (run, state) = (&self.view.opened.run, &self.view.opened.state);
        let outcome = self.worktree_outcome.as_deref();
        let driven = driven_run::status_lines(run, state, self.view.phase, outcome, unmerged);
        let remarks = wording::cost_gap(run, state).into_iter();
        let checks = gate_wording::check_texts(run).into_iter().map(plain);
        let remarks = remarks.chain(wording::remark_lines(state, now_ms)).chain(checks);
        let mut lines = Vec::new();
        lines.extend(self.view.base_checks.as_ref().and_then(base_checks_line));
        if let RunPhase::Ended(_) = self.view.phase {
            lines.extend(journal_check::tampering_line(&self.view.opened));
            if let Some(note) = state.report.as_ref().and_then(old_failures) {
                lines.push(vec![MarkedText::new(FactMark::Unclear, note)]);
            }
            lines.extend(self.review_lines().into_iter().map(|line| vec![plain(line)]));
            lines.extend(driven.into_iter().chain(remarks).map(|line| vec![line]));
            return lines;
        }
        let question = self.row.question.iter();
        let line = |one| standing_wording::question_line(run, one, self.row.needs_runner);
        lines.extend(question.map(|one| vec![line(one)]));
        lines.extend(self.progress_lines(now_ms));
        lines.extend(driven.into_iter().chain(remarks).map(|line| vec![line]));
        if self.view.phase == RunPhase::Orphaned && run.drive.is_none() {
            let id = &run.id;
            let text = format!("its session is not held; `ralph resume {id}` resumes it");
            lines.push(vec![plain(text)]);
        }
        lines.extend(journal_check::tampering_line(&self.view.opened));
        let own = faults.iter().filter(|fault| fault.run.as_deref() == Some(run.id.as_str()));
        lines.extend(own.map(|fault| vec![fault_line(fault)]));
        lines
    }

    /// How far a run in progress is, and what it waits for.
    fn progress_lines(&self, now_ms: u64) -> Vec<Vec<MarkedText>> {
        let Self { row, view, pipeline, .. } = self;
        let (run, state) = (&view.opened.run, &view.opened.state);
        let activity = &row.activity;
        let then_ms = state.effective_now_ms(view.phase, now_ms);
        let mut lines = vec![vec![plain(wording::progress(run, state, then_ms))]];
        if row.standing == RunStanding::Working && activity.is_none() {
            lines.extend(
                standing_wording::last_event(now_ms, row.last_ms).map(|text| vec![plain(text)]),
            );
        }
        if let Some(cause) = &row.unprotected {
            let text = format!("unprotected: {}", safe_line(cause));
            lines.push(vec![MarkedText::new(FactMark::Bad, text)]);
            lines.extend(row.remedy.iter().map(|how| vec![plain(format!("  {}", safe_line(how)))]));
        }
        let has_no_news =
            state.delivery.is_none() && state.declared.is_none() && state.trouble.is_none();
        let gates = activity.as_ref().map(|activity| activity.describe(now_ms));
        lines.extend(gates.map(|gates| vec![plain(gates)]));
        if let Some(report) = &state.report {
            lines.push(wording::report(report));
        } else if view.phase == RunPhase::Active
            && has_no_news
            && activity.is_none()
            && row.unprotected.is_none()
            && run.drive.is_none()
        {
            let text = "no stop seen yet; if none follows, run `ralph doctor`";
            lines.push(vec![plain(text.to_string())]);
        }
        lines.extend(pipeline.as_ref().map(|pipeline| vec![plain(safe_line(pipeline))]));
        if let Some(DeclaredPause::Waiting { until_ms, why }) = &state.declared
            && *until_ms > now_ms
        {
            let until = wording::local_time(*until_ms);
            lines.push(vec![plain(format!("waits until {until}: {}", safe_line(why)))]);
        }
        lines
    }
}

/// The failures of the base that the report of a run names: `1 old failure remains: test_round`.
fn old_failures(report: &StopReport) -> Option<String> {
    let line = report.lines.iter().find(|line| line.name == OLD_FAILURES_REQUIREMENT)?;
    Some(safe_line(&line.note))
}

fn plain(text: String) -> MarkedText {
    MarkedText::unmarked(text)
}
