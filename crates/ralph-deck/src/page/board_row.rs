//! One run in a list of runs.

use super::open_question::question_in_phase;
use super::run_activity::{ActiveGateRow, RunActivity};
use super::run_standing::{BoardGroup, RunStanding};
use crate::json_units;
use crate::run_index::IndexedRun;
use crate::{standing_wording, wording};
use ralph_core::approval;
use ralph_core::closed_run::closing_entry;
use ralph_core::facts::DeclaredPause;
use ralph_core::limits::LimitUsage;
use ralph_core::record::{
    CostBasis, JournalEntry, ReportedStatus, RunChange, RunRecord, StopReport, TranscriptReading,
};
use ralph_core::redact::Redactor;
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::run_process;
use ralph_home::store::LoadedRun;
use ralph_hook::contract::gate_log;
use ralph_hook::overview::RunView;
use ralph_hook::project_scope;
use ralph_install::doctor::protection::UnprotectedReason;
use serde::Serialize;
use std::path::Path;
use std::sync::LazyLock;

const LONGEST_TITLE: usize = 300;
const LONGEST_PATH: usize = 1_000;
const LONGEST_NOTE: usize = 600;
const LONGEST_QUESTION: usize = 4_000;
/// How many open requirements are named.
const MAX_OPEN_NAMES: usize = 8;
/// How many stops the trend covers.
const TREND_STOPS: usize = 12;

/// One run in a list of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoardRow {
    pub run: String,
    #[serde(rename = "status")]
    pub standing: RunStanding,
    pub title: String,
    /// The directory of the project; of a run with a work tree of its own, the repository that the tree came from.
    pub project: String,
    pub project_name: String,
    /// The branch of its own work tree.
    pub branch: Option<String>,
    #[serde(rename = "started_at", serialize_with = "json_units::time")]
    pub started_ms: u64,
    /// The time of its last journal line.
    #[serde(rename = "last_seen_at", serialize_with = "json_units::time")]
    pub last_ms: u64,
    pub iteration: u32,
    pub max_iterations: Option<u32>,
    /// Active time, without pauses.
    pub elapsed_ms: u64,
    pub max_duration_ms: Option<u64>,
    /// `None` if it is unknown.
    #[serde(rename = "spent_usd", serialize_with = "json_units::optional_usd")]
    pub spent_micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
    #[serde(rename = "max_cost_usd", serialize_with = "json_units::optional_usd")]
    pub max_micro_usd: Option<u64>,
    /// How many requirements are met, at the last stop that evaluated them.
    #[serde(rename = "met_count")]
    pub met: Option<u32>,
    #[serde(serialize_with = "json_units::zero_if_unknown")]
    pub requirements: Option<u32>,
    /// The first requirements that were not met at that stop. Empty where only the index was read.
    pub open_names: Vec<String>,
    /// How many requirements were not met at the latest stops, oldest first. Empty where only the index was read.
    pub trend: Vec<u32>,
    #[serde(rename = "context_share", serialize_with = "json_units::optional_share")]
    pub context_permille: Option<u16>,
    /// How many sessions have worked on it.
    pub sessions: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<OpenQuestion>,
    /// Why it waits, is parked or ended.
    pub note: Option<String>,
    /// Until when it waits.
    #[serde(rename = "until", serialize_with = "json_units::optional_time")]
    pub until_ms: Option<u64>,
    /// The person who accepted its work without proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_by: Option<String>,
    /// Whether a person closed it after an end that waits for one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Why no hook of its session reaches ralph, although it is active.
    pub unprotected: Option<String>,
    /// What protects it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// What a stop is doing now. `None` between stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<RunActivity>,
    /// The number of its last journal line.
    pub seq: u64,
    /// Whether it continues only if a person starts a runner for it.
    #[serde(skip)]
    pub needs_runner: bool,
}

/// A question that a person has not answered, or an approval that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenQuestion {
    pub text: String,
    #[serde(rename = "asked_at", serialize_with = "json_units::time")]
    pub asked_ms: u64,
    /// The run is parked then; `None` if nothing waits for the answer.
    #[serde(rename = "until", serialize_with = "json_units::optional_time")]
    pub until_ms: Option<u64>,
    /// The chunk or phase that a person has to approve, by the name that `ralph approve` takes; empty if that is not known.
    /// `None` for a question that a message answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
}

impl OpenQuestion {
    /// `The agent asks: which licence?` or `Waits for your approval: design`
    pub fn summary(&self) -> String {
        let waits = || wording::capitalized(standing_wording::AWAITS_APPROVAL);
        match self.approval.as_deref() {
            None => format!("The agent asks: {}", self.text),
            Some("") => waits(),
            Some(name) => format!("{}: {name}", waits()),
        }
    }
}

impl BoardRow {
    /// The row of a run whose state was loaded. What only its journal has is added by [`BoardRow::add_journal`].
    pub fn from_state(run: &RunRecord, state: &RunState, phase: RunPhase, now_ms: u64) -> Self {
        let limits = state.limits(run);
        let usage = LimitUsage::recorded(state, state.effective_now_ms(phase, now_ms));
        let project = text::clean_line(project_scope::run_directory(run), LONGEST_PATH);
        let worktree = run.drive.as_ref().and_then(|drive| drive.worktree.as_ref());
        let parked = state.driving.parked.as_ref().filter(|_| phase != RunPhase::Active);
        let wait = state.driving.wait.as_ref().filter(|_| phase == RunPhase::Active);
        let continues = |why: &str, command: &str| {
            let how = format!("`{command} {}` continues", run.id);
            if why.contains(&how) { why.to_string() } else { format!("{why}; {how}") }
        };
        let (mut note, mut until_ms) = match (parked, wait) {
            (Some(parked), _) => (Some(continues(&parked.why, "ralph run --resume")), None),
            (None, Some(wait)) => (Some(wait.why.clone()), Some(wait.until_ms)),
            (None, None) if phase == RunPhase::Orphaned && run.drive.is_some() => {
                (Some(continues("no runner drives it", "ralph run --resume")), None)
            }
            (None, None) if phase == RunPhase::Orphaned => {
                (Some(continues("its session is not held", "ralph resume")), None)
            }
            (None, None) => (None, None),
        };
        if let Some(DeclaredPause::Waiting { until_ms: until, why }) = &state.declared {
            note = Some(why.clone());
            until_ms = Some(*until);
        }
        Self {
            run: run.id.to_string(),
            standing: RunStanding::from_state(state, phase),
            title: clean_title(&run.title),
            project_name: project_name(&project),
            project,
            branch: worktree.map(|tree| text::clean_line(&tree.branch, LONGEST_TITLE)),
            started_ms: run.started_ms,
            last_ms: state.last_seen_ms,
            iteration: state.iteration,
            max_iterations: limits.max_iterations,
            elapsed_ms: usage.elapsed_ms,
            max_duration_ms: limits.max_duration_ms,
            spent_micro_usd: usage.micro_usd,
            cost_basis: usage.micro_usd.map_or(CostBasis::Unknown, |_| usage.cost_basis),
            max_micro_usd: limits.max_cost_micro_usd,
            met: state.report.as_ref().map(StopReport::met_count),
            requirements: state.report.as_ref().map(|report| report.total),
            open_names: state.report.as_ref().map(open_names).unwrap_or_default(),
            trend: Vec::new(),
            context_permille: state.observed.as_ref().and_then(TranscriptReading::context_permille),
            sessions: state.driving.count.max(1),
            question: declared_question(state, phase),
            note: note.map(|note| text::clean_line(&note, LONGEST_NOTE)),
            until_ms,
            accepted_by: state.accepted.as_ref().map(|it| clean_title(&it.by)),
            closed: false,
            unprotected: None,
            remedy: None,
            activity: None,
            seq: state.seq.saturating_sub(1),
            needs_runner: run.drive.is_some() && (parked.is_some() || phase == RunPhase::Orphaned),
        }
    }

    /// The row of a run in the index; `None` if its status is not one of this version.
    pub fn from_index(run: &IndexedRun) -> Option<Self> {
        let question = run.question.as_ref().map(|question| OpenQuestion {
            text: clean_question(question),
            asked_ms: run.asked_ms.unwrap_or(run.last_ms),
            until_ms: run.question_until_ms,
            approval: run.question_approval.as_ref().map(|name| clean_title(name)),
        });
        let standing = RunStanding::from_names(&run.phase, &run.status)?;
        let is_accepted = standing == RunStanding::Ended(RunStatus::Verified);
        let accepted_by = run.accepted_by.as_ref().filter(|_| is_accepted);
        let standing = if accepted_by.is_some() { RunStanding::Accepted } else { standing };
        let project = text::clean_line(&run.project, LONGEST_PATH);
        let note = text::clean_line(&run.because, LONGEST_NOTE);
        Some(Self {
            run: run.id.to_string(),
            standing,
            title: clean_title(&run.title),
            project_name: project_name(&project),
            project,
            branch: run.branch.as_ref().map(|branch| text::clean_line(branch, LONGEST_TITLE)),
            started_ms: run.started_ms,
            last_ms: run.ended_ms.unwrap_or(run.last_ms),
            iteration: run.iteration,
            max_iterations: run.max_iterations,
            elapsed_ms: run.ran_ms,
            max_duration_ms: run.max_time_ms,
            spent_micro_usd: run.micro_usd,
            cost_basis: run.cost_basis,
            max_micro_usd: run.max_micro_usd,
            met: Some(run.met).filter(|_| run.required > 0),
            requirements: Some(run.required).filter(|required| *required > 0),
            open_names: Vec::new(),
            trend: Vec::new(),
            context_permille: None,
            sessions: run.sessions.max(1),
            question: question.filter(|_| !standing.has_ended()),
            note: (!note.is_empty()).then_some(note),
            until_ms: run.wait_until_ms.filter(|_| standing == RunStanding::Waiting),
            accepted_by: accepted_by.map(|by| clean_title(by)),
            closed: run.closed,
            unprotected: None,
            remedy: None,
            activity: None,
            seq: run.last_seq,
            needs_runner: run.driven
                && matches!(standing, RunStanding::Parked(_) | RunStanding::Orphaned),
        })
    }

    /// The row of a loaded run. `entries` is `None` if its journal was not read; the row then lacks the trend, the times of
    /// a question and the reason for the end.
    pub fn of_view(
        home: &RalphHome,
        view: &RunView,
        entries: Option<&[JournalEntry]>,
        now_ms: u64,
    ) -> Self {
        let LoadedRun { run, state, .. } = &view.opened;
        let mut row = Self::from_state(run, state, view.phase, now_ms);
        if let Some(entries) = entries {
            row.add_journal(entries, view.phase);
        }
        // The runner of a paused run may have died, which no journal line says.
        let has_ended = matches!(view.phase, RunPhase::Ended(_));
        row.needs_runner =
            run.drive.is_some() && !has_ended && !run_process::may_be_driven(home, &run.id);
        if view.phase == RunPhase::Active {
            let activity = gate_log::read_activity(home, run);
            row.activity = activity.map(|activity| RunActivity::from_log(&activity, now_ms));
        }
        row
    }

    /// Adds what only the journal has: the trend, the times of a question, and why the run ended.
    pub fn add_journal(&mut self, entries: &[JournalEntry], phase: RunPhase) {
        let reports = entries.iter().filter_map(|entry| stop_report(&entry.change));
        let mut trend: Vec<_> =
            reports.rev().take(TREND_STOPS).map(StopReport::open_count).collect();
        trend.reverse();
        self.trend = trend;
        self.question = question_in_phase(entries, phase);
        self.standing = self.standing.with_question(self.question.as_ref());
        if self.standing.has_ended() {
            self.closed = closing_entry(entries).is_some();
            let because =
                acceptance_note(entries).or_else(|| crate::view::decisions::ending_reason(entries));
            self.note = because.map(|why| text::clean_line(&why, LONGEST_NOTE));
        }
    }

    /// Marks the run as unprotected, with the cause and the remedy. This replaces any other standing.
    pub fn mark_unprotected(&mut self, why: &UnprotectedReason, now_ms: u64) {
        let cause = text::clean_line(&why.describe(now_ms), LONGEST_NOTE);
        let remedy = text::clean_line(&why.remedy(), LONGEST_NOTE);
        self.standing = RunStanding::Unprotected;
        self.note = Some(format!("{cause}; {remedy}"));
        self.unprotected = Some(cause);
        self.remedy = Some(remedy);
    }

    /// The standing in words: `verified (accepted by kim)`.
    pub fn headline(&self) -> String {
        match &self.accepted_by {
            Some(by) => format!("{} (accepted by {by})", RunStatus::Verified.name()),
            None => self.standing.label(),
        }
    }

    /// What the standing of an accepted run rests on, which no measurement does.
    pub(super) fn acceptance_sentence(&self) -> Option<String> {
        self.accepted_by.as_ref().map(|by| format!("Accepted by {by}, without proof"))
    }

    /// The part of the board that it is listed in.
    pub fn group(&self) -> BoardGroup {
        if self.closed { BoardGroup::Ended } else { self.standing.group() }
    }

    /// The gates that run now.
    pub fn running_gates(&self) -> &[ActiveGateRow] {
        self.activity.as_ref().map_or(&[], |activity| &activity.gates)
    }
}

/// The question that the state of a run has. The journal also has what a runner asks for the client, and since when.
pub(super) fn declared_question(state: &RunState, phase: RunPhase) -> Option<OpenQuestion> {
    let declared = state.declared.as_ref()?;
    // An ended run does not wait for an answer.
    let text = declared.question().filter(|_| !matches!(phase, RunPhase::Ended(_)))?;
    Some(OpenQuestion {
        text: clean_question(text),
        asked_ms: state.last_seen_ms,
        until_ms: None,
        approval: awaited_approval(declared, state.report.as_ref()),
    })
}

/// Who accepted the work of a run and why, and how it had ended; `None` if no person did.
fn acceptance_note(entries: &[JournalEntry]) -> Option<String> {
    let acceptance = entries.iter().rev().find_map(|entry| {
        if let RunChange::Accepted(acceptance) = &entry.change { Some(acceptance) } else { None }
    })?;
    let because = crate::view::decisions::ending_reason(entries);
    let because = because.map(|because| format!(": {because}")).unwrap_or_default();
    Some(format!("{}; it had ended {}{because}", acceptance.describe(), acceptance.was.name()))
}

/// The names of the first open requirements.
fn open_names(report: &StopReport) -> Vec<String> {
    let open = report.lines.iter().filter(|line| line.standing != ReportedStatus::Advisory);
    open.take(MAX_OPEN_NAMES).map(|line| text::clean_line(&line.name, LONGEST_TITLE)).collect()
}

/// The report of a decided stop.
pub(super) fn stop_report(change: &RunChange) -> Option<&StopReport> {
    if let RunChange::Decided(decided) = change { decided.report.as_ref() } else { None }
}

/// The last part of a path.
pub(super) fn project_name(project: &str) -> String {
    let name = Path::new(project).file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| project.to_string())
}

/// What a person has to approve, if the run waits for that.
pub(super) fn awaited_approval(
    declared: &DeclaredPause,
    report: Option<&StopReport>,
) -> Option<String> {
    match declared {
        DeclaredPause::Approval(_) => Some(clean_title(&approval::first_awaited_name(report))),
        DeclaredPause::NeedsHuman(_) | DeclaredPause::Waiting { .. } => None,
    }
}

/// The text of a question, without control characters and bounded.
pub(super) fn clean_question(foreign: &str) -> String {
    clean_paragraph(foreign, LONGEST_QUESTION)
}

/// Removes what looks like a token. A screen has no list of the secrets in the environment of a run.
static TOKENS: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// Foreign text of several lines without control characters and tokens, bounded.
pub(super) fn clean_paragraph(foreign: &str, most: usize) -> String {
    text::truncate(TOKENS.redact(&text::clean(foreign)).trim(), most)
}

/// The title of a run, which is the beginning of its goal.
pub(super) fn clean_title(title: &str) -> String {
    text::clean_line(&TOKENS.redact(title), LONGEST_TITLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A goal may contain a token, and every screen shows titles.
    #[test]
    fn tokens_are_removed_from_titles_and_paragraphs() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let goal = format!("Use {token}\nto push.");
        assert_eq!(clean_title(&goal), "Use [redacted] to push.");
        assert_eq!(clean_paragraph(&goal, 100), "Use [redacted]\nto push.");
    }
}
