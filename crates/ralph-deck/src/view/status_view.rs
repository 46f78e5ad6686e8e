//! The overview of all runs: queues, sessions held by files of other tools, and faults too.

use super::acceptance::AcceptanceView;
use crate::page::{BoardRow, LONGEST_REVIEW_MS};
use crate::standing_wording;
use crate::view::base_checks::{BaseChecksView, base_checks_view};
use crate::view::driven_run::{DrivenRunView, driven_run_view};
use crate::view::fault_list::{FaultView, fault_view};
use crate::view::gated_sessions::{
    GatedSessionView, HeldSessionView, UngatedSessionView, UnreadableRunView, gated_session_view,
    held_session_view, select_gated_sessions, ungated_session_view, unreadable_run_view,
};
use crate::view::phase_progress::{PhaseProgressView, phase_progress_view};
use crate::view::queue_status::{self, QueueStatus, QueueStatusView};
use crate::view::spending_sources::{SpendingBySourceView, spending_by_source};
use crate::view::status_run::{ElsewhereRun, StatusRun};
use crate::view::waiver_list::WaiverView;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::LimitUsage;
use ralph_core::part_stop;
use ralph_core::record::{Dispute, ReportLine};
use ralph_core::run::RunPhase;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::paths::RalphHome;
use ralph_home::run_outline::{OutlinedRun, RunOutline};
use ralph_home::store;
use ralph_hook::control::off_reason;
use ralph_hook::overview::{
    self, GatedSession, HeldSession, RunView, UngatedSession, UnreadableRun,
};
use ralph_hook::project_scope::ProjectScope;
use ralph_install::doctor::protection;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::fs::FileError;
use ralph_sys::parallel;
use serde::Serialize;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const MAX_RECENT_RUNS: usize = 50;

/// Which runs `ralph status` shows.
#[derive(Debug)]
pub enum StatusSelection {
    /// Of all runs, those in progress, and those that ended within a day; at most fifty.
    Recent(Vec<OutlinedRun>),
    All(Vec<OutlinedRun>),
    Run(RunId),
    /// The runs of a queue.
    Queue(Box<QueueStatus>),
}

/// What `ralph status` shows.
#[derive(Debug)]
pub struct StatusOverview {
    /// Why ralph is switched off, if it is.
    pub off: Option<&'static str>,
    pub runs: Vec<StatusRun>,
    /// How many older runs the selection leaves out.
    pub left_out: usize,
    /// The runs of other projects that are in progress, or ended and wait for a person.
    pub elsewhere: Vec<ElsewhereRun>,
    pub queues: Vec<QueueStatus>,
    pub held: Vec<HeldSession>,
    /// Sessions without a run that gates decided about within a day.
    pub gated: Vec<GatedSession>,
    /// Sessions without a decision whose gates were turned off within a day.
    pub gates_off: Vec<UngatedSession>,
    pub unreadable: Vec<UnreadableRun>,
    pub faults: Vec<Fault>,
}

impl StatusOverview {
    /// Reads the selected runs, queues and sessions, and all faults. `scope` limits the selection to a project.
    pub fn load(
        env: &Env,
        home: &RalphHome,
        mut selection: StatusSelection,
        scope: Option<&ProjectScope>,
    ) -> Result<Self, FileError> {
        let LoadedRuns { mut runs, unreadable, mut left_out } =
            LoadedRuns::select(home, &mut selection, scope)?;
        let mut elsewhere = Vec::new();
        if let Some(scope) = scope {
            let (here, others): (Vec<_>, Vec<_>) =
                runs.into_iter().partition(|view| scope.contains_run(&view.opened.run));
            runs = here;
            elsewhere = others.iter().filter_map(|view| ElsewhereRun::load(home, view)).collect();
        }
        if let StatusSelection::Recent(_) = &selection {
            let (all, now_ms) = (runs.len(), clock::now_ms());
            runs.retain(|view| !is_old(view, now_ms));
            runs.truncate(MAX_RECENT_RUNS);
            left_out += all - runs.len();
        }
        let unprotected = protection::find_unprotected(env, home, &runs);
        let runs = parallel::map_in_parallel(
            runs.into_iter().zip(unprotected).collect(),
            |(view, unprotected)| StatusRun::load(home, view, unprotected.as_ref()),
        );
        let is_overview = matches!(selection, StatusSelection::Recent(_) | StatusSelection::All(_));
        let since_ms = if is_overview { clock::now_ms().saturating_sub(DAY_MS) } else { u64::MAX };
        let gated = select_gated_sessions(home, &selection, scope, since_ms)?;
        let gates_off = overview::list_ungated_sessions(home, scope, since_ms)?;
        let ((mut queues, queue_errors), (held, session_errors)) = match selection {
            StatusSelection::Recent(_) => {
                (queue_status::unfinished_queues(home), overview::list_held_sessions(home))
            }
            StatusSelection::All(_) => {
                (queue_status::all_queues(home), overview::list_held_sessions(home))
            }
            StatusSelection::Run(_) => Default::default(),
            StatusSelection::Queue(queue) => ((vec![*queue], Vec::new()), (Vec::new(), Vec::new())),
        };
        if let Some(scope) = scope {
            queues.retain(|queue| scope.contains_directory(&queue.project));
        }
        let (off, mut faults) = (off_reason(env, home), faults::list_faults(home));
        let queue_errors = queue_errors.iter().map(|error| describe_error(error));
        for what in queue_errors.chain(session_errors.iter().map(|error| describe_error(error))) {
            let fault = Fault::new(FaultKind::File, &what);
            if !faults.iter().any(|known| known.what == fault.what) {
                faults.push(fault);
            }
        }
        Ok(Self {
            off,
            runs,
            left_out,
            elsewhere,
            queues,
            held,
            gated,
            gates_off,
            unreadable,
            faults,
        })
    }

    pub fn is_empty(&self) -> bool {
        let has_runs = !self.runs.is_empty() || !self.unreadable.is_empty();
        let has_sessions =
            !self.held.is_empty() || !self.gated.is_empty() || !self.gates_off.is_empty();
        !has_runs && !has_sessions && self.queues.is_empty()
    }

    /// The faults that belong to none of the runs.
    pub fn unattached_faults(&self) -> Vec<&Fault> {
        let is_shown = |id: &str| self.runs.iter().any(|one| one.row.run == id);
        let is_general = |fault: &&Fault| !fault.run.as_deref().is_some_and(is_shown);
        self.faults.iter().filter(is_general).collect()
    }

    pub fn view(&self, now_ms: u64) -> StatusView<'_> {
        StatusView {
            v: 1,
            off: self.off,
            runs: self.runs.iter().map(|one| run_status_view(one, now_ms)).collect(),
            queues: self.queues.iter().map(QueueStatus::view).collect(),
            held: self.held.iter().map(held_session_view).collect(),
            gated: self.gated.iter().map(|one| gated_session_view(one, now_ms)).collect(),
            gates_off: self.gates_off.iter().map(ungated_session_view).collect(),
            unreadable: self.unreadable.iter().map(unreadable_run_view).collect(),
            faults: self.faults.iter().map(fault_view).collect(),
        }
    }
}

/// The runs that a selection may show.
struct LoadedRuns {
    runs: Vec<RunView>,
    unreadable: Vec<UnreadableRun>,
    /// How many runs of the project were not loaded, because they ended long ago.
    left_out: usize,
}

impl LoadedRuns {
    fn select(
        home: &RalphHome,
        selection: &mut StatusSelection,
        scope: Option<&ProjectScope>,
    ) -> Result<Self, FileError> {
        let (wanted, left_out) = match selection {
            StatusSelection::Recent(runs) => {
                let now_ms = clock::now_ms();
                let is_recent = |run: &OutlinedRun| {
                    let outline = run.outline.as_ref();
                    outline.is_none_or(|outline| !is_old_outline(outline, now_ms))
                };
                let (here, elsewhere) = split_by_scope(std::mem::take(runs), scope);
                let (recent, old): (Vec<_>, Vec<_>) = here.into_iter().partition(is_recent);
                (recent.into_iter().chain(elsewhere).map(|run| run.id).collect(), old.len())
            }
            StatusSelection::All(runs) => {
                let (here, elsewhere) = split_by_scope(std::mem::take(runs), scope);
                (here.into_iter().chain(elsewhere).map(|run| run.id).collect(), 0)
            }
            StatusSelection::Run(run) if run.is_of_session() => (Vec::new(), 0),
            StatusSelection::Run(run) => (vec![run.clone()], 0),
            StatusSelection::Queue(queue) => {
                let mut runs = store::list_runs(home)?;
                runs.retain(|run| queue.has_run(run));
                (runs, 0)
            }
        };
        let (runs, unreadable) = overview::load_run_views(home, wanted);
        Ok(Self { runs, unreadable, left_out })
    }
}

/// Whether a run is in progress, or its end may wait for a person.
fn may_need_a_look(outline: &RunOutline, now_ms: u64) -> bool {
    match outline.phase {
        RunPhase::Ended(status) => {
            status.waits_for_person()
                && now_ms.saturating_sub(outline.last_seen_ms) <= LONGEST_REVIEW_MS
        }
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => true,
    }
}

/// The runs of the project, and those of other projects that may need a look.
fn split_by_scope(
    runs: Vec<OutlinedRun>,
    scope: Option<&ProjectScope>,
) -> (Vec<OutlinedRun>, Vec<OutlinedRun>) {
    let Some(scope) = scope else { return (runs, Vec::new()) };
    let (here, mut elsewhere): (Vec<_>, Vec<_>) =
        runs.into_iter().partition(scope.outline_filter());
    let now_ms = clock::now_ms();
    elsewhere
        .retain(|run| run.outline.as_ref().is_none_or(|outline| may_need_a_look(outline, now_ms)));
    (here, elsewhere)
}

pub(super) fn is_old(view: &RunView, now_ms: u64) -> bool {
    has_ended_long_ago(view.phase, view.opened.state.last_seen_ms, now_ms)
}

fn is_old_outline(outline: &RunOutline, now_ms: u64) -> bool {
    has_ended_long_ago(outline.phase, outline.last_seen_ms, now_ms)
}

fn has_ended_long_ago(phase: RunPhase, last_seen_ms: u64, now_ms: u64) -> bool {
    matches!(phase, RunPhase::Ended(_)) && now_ms.saturating_sub(last_seen_ms) > DAY_MS
}

#[derive(Debug, Serialize)]
pub struct StatusView<'a> {
    pub v: u8,
    /// Why ralph is switched off, if it is.
    pub off: Option<&'static str>,
    pub runs: Vec<RunStatusView<'a>>,
    /// Absent while there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueStatusView<'a>>,
    /// Sessions that are held only by files of other tools.
    pub held: Vec<HeldSessionView<'a>>,
    /// Sessions without a run that gates decided about within a day. Absent while there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gated: Vec<GatedSessionView<'a>>,
    /// Sessions without a decision of which a person turned the gates off within a day. Absent while there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates_off: Vec<UngatedSessionView<'a>>,
    pub unreadable: Vec<UnreadableRunView<'a>>,
    pub faults: Vec<FaultView<'a>>,
}

/// The row of a run, and what only `ralph status` shows of it.
#[derive(Debug, Serialize)]
pub struct RunStatusView<'a> {
    #[serde(flatten)]
    pub row: &'a BoardRow,
    /// What the last stop led to: `held`, `let go`, or `null` before the first one.
    pub last_stop: Option<&'static str>,
    pub session: Option<&'a str>,
    pub context_tokens: Option<u64>,
    /// Absent while no agent works on a chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<ChunkCountView>,
    /// Absent for a run without phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestrator: Option<PhaseProgressView<'a>>,
    pub trouble: Option<&'a str>,
    pub tampering: Option<&'a str>,
    /// The checks of lists before the work; `null` until they are known.
    pub checks_at_base: Option<BaseChecksView<'a>>,
    pub unmet: u32,
    pub unknown: u32,
    pub pending: u32,
    pub open: &'a [ReportLine],
    /// Absent while there is none, as are disputes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waivers: Vec<WaiverView>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub disputes: &'a [Dispute],
    /// Absent unless a person accepted the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptanceView<'a>>,
    /// Messages that the agent has not received yet.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub told: &'a [String],
    /// The spending of the run by what caused it. Absent until a judge was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spending: Option<SpendingBySourceView>,
    /// Absent for a run that ralph does not drive itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driven: Option<DrivenRunView<'a>>,
}

/// How many agents work on a chunk, and how many of them were verified at their last check.
#[derive(Debug, Serialize)]
pub struct ChunkCountView {
    pub verified: usize,
    pub total: usize,
}

fn run_status_view(one: &StatusRun, now_ms: u64) -> RunStatusView<'_> {
    let view = &one.view;
    let (run, state) = (&view.opened.run, &view.opened.state);
    let report = state.report.as_ref();
    let tally = part_stop::tally_agents(&state.parts, None);
    let usage = LimitUsage::recorded(state, state.effective_now_ms(view.phase, now_ms));
    RunStatusView {
        row: &one.row,
        last_stop: standing_wording::last_stop(state),
        session: state.owner(run).map(SessionId::as_str),
        context_tokens: state.observed.as_ref().and_then(|observed| observed.context_tokens),
        chunks: (tally.all > 0)
            .then_some(ChunkCountView { verified: tally.verified, total: tally.all }),
        orchestrator: one.phases.as_ref().map(phase_progress_view),
        trouble: state.trouble.as_deref(),
        tampering: view.opened.tampering.as_deref(),
        checks_at_base: view.base_checks.as_ref().map(base_checks_view),
        unmet: report.map_or(0, |report| report.unmet),
        unknown: report.map_or(0, |report| report.unknown),
        pending: report.map_or(0, |report| report.pending),
        open: report.map_or(&[], |report| &report.lines),
        waivers: state.waivers.iter().map(WaiverView::from_waiver).collect(),
        disputes: &state.disputes,
        accepted: state.accepted.as_ref().map(AcceptanceView::from_acceptance),
        told: &state.hints,
        spending: spending_by_source(state, &usage),
        driven: driven_run_view(view),
    }
}
