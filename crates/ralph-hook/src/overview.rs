//! Read-only views of runs and histories for people. Takes no locks, repairs nothing and writes nothing.

use crate::contract::gate_log::{self, GateActivity};
use crate::contract::{self, BaseChecks};
use crate::control::{self, ControlError, RunOrSession};
use crate::project_scope::ProjectScope;
use crate::session_note::{self, SessionNote};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{JournalEntry, RunChange, StopOutcome};
use ralph_core::run::RunPhase;
use ralph_home::journal::{self, JournalDamage};
use ralph_home::paths::RalphHome;
use ralph_home::run_outline::{self, OutlinedRun};
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_sys::fs::{self, FileError};
use std::cmp::Reverse;
use std::path::Path;

const MAX_SESSION_JOURNAL_BYTES: usize = 16 * 1024 * 1024;

/// A run and its current phase.
#[derive(Debug)]
pub struct RunView {
    pub opened: LoadedRun,
    /// The phase now. A run whose owner died is orphaned even before any stop has recorded that.
    pub phase: RunPhase,
    /// What is known about the checks of its lists before the work.
    pub base_checks: Option<BaseChecks>,
}

impl RunView {
    pub fn new(home: &RalphHome, opened: LoadedRun) -> Self {
        Self {
            phase: control::effective_phase(home, &opened),
            base_checks: contract::read_base_checks(home, &opened.run.id),
            opened,
        }
    }
}

/// A run directory that cannot be read.
#[derive(Debug)]
pub struct UnreadableRun {
    pub run: RunId,
    pub error: StoreError,
}

/// Every run, most recently active first, and those that cannot be read.
pub fn list_run_views(home: &RalphHome) -> Result<(Vec<RunView>, Vec<UnreadableRun>), FileError> {
    Ok(load_run_views(home, store::list_runs(home)?))
}

/// These runs, most recently active first, and those that cannot be read.
pub fn load_run_views(
    home: &RalphHome,
    runs: impl IntoIterator<Item = RunId>,
) -> (Vec<RunView>, Vec<UnreadableRun>) {
    let mut views = Vec::new();
    let mut unreadable = Vec::new();
    for run in runs {
        match store::load_run(home, &run) {
            Ok(opened) => views.push(RunView::new(home, opened)),
            Err(error) => unreadable.push(UnreadableRun { run, error }),
        }
    }
    views.sort_by_key(|view| Reverse(view.opened.state.last_seen_ms));
    (views, unreadable)
}

/// Every run with its outline.
pub fn outline_runs(home: &RalphHome) -> Result<Vec<OutlinedRun>, FileError> {
    Ok(run_outline::read_outlines(home, store::list_runs(home)?))
}

/// The runs that may belong to the project; without one, all of them.
pub fn outlined_in(scope: Option<&ProjectScope>, mut runs: Vec<OutlinedRun>) -> Vec<OutlinedRun> {
    if let Some(scope) = scope {
        runs.retain(scope.outline_filter());
    }
    runs
}

/// The latest run of a project, or of all of them.
pub fn latest_run(
    home: &RalphHome,
    scope: Option<&ProjectScope>,
) -> Result<Option<LoadedRun>, FileError> {
    Ok(load_latest(home, outline_runs(home)?, scope))
}

/// Loads the most recently active of these runs. An outline has the time of the last entry, so of the runs with an
/// outline only the latest ones are loaded.
fn load_latest(
    home: &RalphHome,
    runs: Vec<OutlinedRun>,
    scope: Option<&ProjectScope>,
) -> Option<LoadedRun> {
    let mut runs = outlined_in(scope, runs);
    let seen_ms = |run: &OutlinedRun| run.outline.as_ref().map(|outline| outline.last_seen_ms);
    runs.sort_by_key(|run| Reverse(seen_ms(run)));
    let load = |run: &OutlinedRun| {
        let opened = store::load_run(home, &run.id).ok()?;
        scope.is_none_or(|scope| scope.contains_run(&opened.run)).then_some(opened)
    };
    let (outlined, others): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.outline.is_some());
    let latest = outlined.into_iter().find_map(load);
    let others = others.into_iter().filter_map(load);
    others.chain(latest).max_by_key(|opened| opened.state.last_seen_ms)
}

/// A session that only files of other tools hold, with its last journal entry.
#[derive(Debug)]
pub struct HeldSession {
    pub session: SessionId,
    pub last: JournalEntry,
}

/// Sessions without a run that have a journal, latest first, and the errors of those that cannot be read.
pub fn list_held_sessions(home: &RalphHome) -> (Vec<HeldSession>, Vec<FileError>) {
    const MOST: usize = 10_000;
    let names = match fs::list_if_exists(&home.held_sessions(), MOST) {
        Ok(names) => names,
        Err(error) => return (Vec::new(), vec![error]),
    };
    let mut held = Vec::new();
    let mut unreadable = Vec::new();
    for session in names.iter().filter_map(|name| SessionId::parse(name.to_str()?)) {
        if fs::exists(&home.tombstone(session.as_str())) {
            continue;
        }
        match session_history(home, &session) {
            Ok(mut history) => {
                held.extend(history.entries.pop().map(|last| HeldSession { session, last }));
            }
            Err(error) => unreadable.push(error),
        }
    }
    held.sort_by_key(|view| Reverse(view.last.at_ms));
    (held, unreadable)
}

/// A session without a run whose gates decided about it.
#[derive(Debug)]
pub struct GatedSession {
    pub session: SessionId,
    /// The id of its record, which `ralph why` takes.
    pub record: RunId,
    /// How often it was held.
    pub holds: u32,
    /// The reason of the last decision; empty before the first one.
    pub because: String,
    /// Whether the last decision held it.
    pub is_held: bool,
    /// Whether a person turned the gates off for it.
    pub is_off: bool,
    pub at_ms: u64,
    /// What its gates are doing now.
    pub activity: Option<GateActivity>,
}

/// What the gates of a session without a run are doing now, if one runs.
pub fn session_gate_activity(home: &RalphHome, session: &SessionId) -> Option<GateActivity> {
    let record = session_note::find_record(home, session)?;
    gate_log::read_activity(home, &store::load_run(home, &record).ok()?.run)
}

/// A session whose gates were turned off before they decided anything about it.
#[derive(Debug)]
pub struct UngatedSession {
    pub session: SessionId,
    /// When it was turned off.
    pub at_ms: u64,
}

/// Sessions without a decision of which a person turned the gates off since `since_ms`, latest first.
pub fn list_ungated_sessions(
    home: &RalphHome,
    scope: Option<&ProjectScope>,
    since_ms: u64,
) -> Result<Vec<UngatedSession>, FileError> {
    const MOST: usize = 10_000;
    let names = fs::list_if_exists(&home.session_notes(), MOST)?;
    let sessions = names.iter().filter_map(|name| SessionId::parse(name.to_str()?));
    let mut found: Vec<UngatedSession> = sessions
        .filter_map(|session| {
            let at_ms = fs::stat(&home.tombstone(session.as_str()))?.modified_ns / 1_000_000;
            let note = SessionNote::read(home, &session)?;
            let is_meant =
                scope.is_none_or(|scope| scope.contains_directory(Path::new(&note.project)));
            let is_shown = note.record.is_none() && is_meant && at_ms >= since_ms;
            is_shown.then_some(UngatedSession { session, at_ms })
        })
        .collect();
    found.sort_by_key(|one| Reverse(one.at_ms));
    Ok(found)
}

/// Whether a person turned the gates of a session off.
pub fn is_session_off(home: &RalphHome, session: &SessionId) -> bool {
    fs::exists(&home.tombstone(session.as_str()))
}

/// What the gates of its project decided about a session without a run; `None` if nothing yet, and none runs.
pub fn gated_session(home: &RalphHome, opened: &LoadedRun) -> Option<GatedSession> {
    let activity = gate_log::read_activity(home, &opened.run);
    // A journal that cannot be read says nothing here; `ralph why` reports it.
    let entries =
        run_history(home, &opened.run.id).map(|history| history.entries).unwrap_or_default();
    let mut decisions = entries.iter().filter_map(|entry| {
        if let RunChange::Decided(decided) = &entry.change { Some((entry, decided)) } else { None }
    });
    let is_hold = |decided: &StopOutcome| matches!(decided, StopOutcome::Blocked { .. });
    let holds = decisions.clone().filter(|(_, decided)| is_hold(&decided.outcome)).count();
    let last = decisions.next_back();
    if last.is_none() && activity.is_none() {
        return None;
    }
    let session = opened.state.owner(&opened.run)?;
    Some(GatedSession {
        session: session.clone(),
        record: opened.run.id.clone(),
        holds: u32::try_from(holds).unwrap_or(u32::MAX),
        because: last.map(|(_, last)| last.because.clone()).unwrap_or_default(),
        is_held: last.is_some_and(|(_, last)| is_hold(&last.outcome)),
        is_off: is_session_off(home, session),
        at_ms: last.map_or(opened.state.last_seen_ms, |(entry, _)| entry.at_ms),
        activity,
    })
}

/// Sessions without a run that the gates of the project have decided about since `since_ms`, latest first.
pub fn list_gated_sessions(
    home: &RalphHome,
    scope: Option<&ProjectScope>,
    since_ms: u64,
) -> Result<Vec<GatedSession>, FileError> {
    let mut records = outlined_in(scope, outline_session_records(home)?);
    records.retain(|record| {
        record.outline.as_ref().is_none_or(|outline| outline.last_seen_ms >= since_ms)
    });
    let load = |record: &OutlinedRun| store::load_run(home, &record.id).ok();
    let mut records: Vec<_> = records.iter().filter_map(load).collect();
    records.retain(|opened| {
        let is_meant = scope.is_none_or(|scope| scope.contains_run(&opened.run));
        is_meant && opened.state.last_seen_ms >= since_ms
    });
    records.sort_by_key(|opened| Reverse(opened.state.last_seen_ms));
    Ok(records.iter().filter_map(|opened| gated_session(home, opened)).collect())
}

/// Every record of a session without a run, with its outline.
pub fn outline_session_records(home: &RalphHome) -> Result<Vec<OutlinedRun>, FileError> {
    Ok(run_outline::read_outlines(home, store::list_session_records(home)?))
}

/// The decisions about a run or a session, oldest first.
#[derive(Debug)]
pub struct DecisionHistory {
    pub name: String,
    pub subject: HistorySubject,
    pub entries: Vec<JournalEntry>,
    /// The hash of the last line of a run's journal; empty if there is none.
    pub head: String,
    pub broken: Option<JournalDamage>,
}

/// Whether a history belongs to a run or a session. Sessions held by files of other tools have no iteration counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistorySubject {
    Run,
    Session,
}

/// The history of the named run or session; without a name, of the one decided most recently.
pub fn find_history(
    home: &RalphHome,
    name: Option<&str>,
) -> Result<Option<DecisionHistory>, ControlError> {
    let named = match name {
        Some(name) => control::resolve_name(home, name)?,
        None => match latest_decided(home, None)? {
            Some(named) => named,
            None => return Ok(None),
        },
    };
    named_history(home, named).map(Some)
}

/// The history of the run or session of a project that was decided most recently. The project of a session that only
/// files of other tools hold is not known, so it counts in every project.
pub fn latest_project_history(
    home: &RalphHome,
    scope: &ProjectScope,
) -> Result<Option<DecisionHistory>, ControlError> {
    latest_decided(home, Some(scope))?.map(|named| named_history(home, named)).transpose()
}

fn named_history(home: &RalphHome, named: RunOrSession) -> Result<DecisionHistory, ControlError> {
    Ok(match named {
        RunOrSession::Run(run) => run_history(home, &run)?,
        RunOrSession::Session(session) => session_history(home, &session)?,
    })
}

/// The run or session that was decided about most recently.
fn latest_decided(
    home: &RalphHome,
    scope: Option<&ProjectScope>,
) -> Result<Option<RunOrSession>, ControlError> {
    let run = latest_run(home, scope)?;
    let record = load_latest(home, outline_session_records(home)?, scope);
    let records = run.into_iter().chain(record);
    let records = records.map(|one| (one.state.last_seen_ms, RunOrSession::Run(one.run.id)));
    let held = list_held_sessions(home).0.into_iter();
    let held = held.map(|one| (one.last.at_ms, RunOrSession::Session(one.session)));
    Ok(records.chain(held).max_by_key(|(at_ms, _)| *at_ms).map(|(_, named)| named))
}

/// The history of a run. Without its journal, a run has none; its other files show that there was one.
pub fn run_history(home: &RalphHome, run: &RunId) -> Result<DecisionHistory, ControlError> {
    let paths = home.run(run);
    let read = match journal::read_journal(&paths.journal()) {
        Err(error) if error.is_missing() && fs::stat(&paths.run_record()).is_some() => {
            return Ok(DecisionHistory {
                name: run.to_string(),
                subject: HistorySubject::Run,
                entries: Vec::new(),
                head: String::new(),
                broken: Some(JournalDamage::Missing),
            });
        }
        read => read?,
    };
    Ok(DecisionHistory {
        name: run.to_string(),
        subject: HistorySubject::Run,
        entries: read.entries,
        head: read.head,
        broken: read.damage,
    })
}

fn session_history(home: &RalphHome, session: &SessionId) -> Result<DecisionHistory, FileError> {
    let bytes = fs::read_if_exists(&home.held_journal(session), MAX_SESSION_JOURNAL_BYTES)?
        .unwrap_or_default();
    let entries = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    Ok(DecisionHistory {
        name: session.to_string(),
        subject: HistorySubject::Session,
        entries,
        head: String::new(),
        broken: None,
    })
}
