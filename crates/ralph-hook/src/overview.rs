//! Read-only views of runs and histories for people. Takes no locks, repairs nothing and writes nothing.

use crate::control::{self, ControlError, Named};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Entry;
use ralph_core::run::Phase;
use ralph_home::journal::{self, Break};
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened, StoreError};
use ralph_sys::fs::{self, FileError};

const LARGEST_HELD: usize = 16 * 1024 * 1024;

/// A run and its current phase.
#[derive(Debug)]
pub struct RunView {
    pub opened: Opened,
    /// The phase now. A run whose owner died is orphaned even before any stop has recorded that.
    pub phase: Phase,
}

/// A run directory that cannot be read.
#[derive(Debug)]
pub struct Unreadable {
    pub run: RunId,
    pub error: StoreError,
}

/// Every run, most recently active first, and those that cannot be read.
pub fn runs(home: &Home) -> Result<(Vec<RunView>, Vec<Unreadable>), FileError> {
    let mut runs = Vec::new();
    let mut unreadable = Vec::new();
    for run in store::list(home)? {
        match store::load(home, &run) {
            Ok(opened) => runs.push(RunView { phase: control::phase(home, &opened), opened }),
            Err(error) => unreadable.push(Unreadable { run, error }),
        }
    }
    runs.sort_by_key(|view| std::cmp::Reverse(view.opened.state.last_seen_ms));
    Ok((runs, unreadable))
}

/// A session that only files of other tools hold, with its last journal entry.
#[derive(Debug)]
pub struct HeldView {
    pub session: SessionId,
    pub last: Entry,
}

/// Sessions without a run that have a journal, latest first.
pub fn held(home: &Home) -> Vec<HeldView> {
    const MOST: usize = 10_000;
    let names = fs::list(&home.held(), MOST).unwrap_or_default();
    let mut held: Vec<_> = names
        .iter()
        .filter_map(|name| SessionId::parse(name.to_str()?))
        .filter(|session| !fs::exists(&home.tombstone(session.as_str())))
        .filter_map(|session| {
            let last = of_session(home, &session).ok()?.entries.pop()?;
            Some(HeldView { session, last })
        })
        .collect();
    held.sort_by_key(|view| std::cmp::Reverse(view.last.at_ms));
    held
}

/// The decisions about a run or a session, oldest first.
#[derive(Debug)]
pub struct History {
    pub name: String,
    pub of: Of,
    pub entries: Vec<Entry>,
    pub broken: Option<Break>,
}

/// Whether a history belongs to a run or a session. Sessions held by files of other tools have no iteration counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Run,
    Session,
}

/// The history of the named run or session; without a name, of the one decided most recently.
pub fn history(home: &Home, name: Option<&str>) -> Result<Option<History>, ControlError> {
    let named = match name {
        Some(name) => control::named(home, name)?,
        None => match (runs(home)?.0.into_iter().next(), held(home).into_iter().next()) {
            (Some(run), Some(held)) if held.last.at_ms > run.opened.state.last_seen_ms => {
                Named::Session(held.session)
            }
            (Some(run), _) => Named::Run(run.opened.run.id),
            (None, Some(held)) => Named::Session(held.session),
            (None, None) => return Ok(None),
        },
    };
    Ok(Some(match named {
        Named::Run(run) => of_run(home, &run)?,
        Named::Session(session) => of_session(home, &session)?,
    }))
}

pub fn of_run(home: &Home, run: &RunId) -> Result<History, ControlError> {
    let read = journal::read(&home.run(run).journal())?;
    Ok(History { name: run.to_string(), of: Of::Run, entries: read.entries, broken: read.broken })
}

fn of_session(home: &Home, session: &SessionId) -> Result<History, ControlError> {
    let bytes = fs::read_opt(&home.held_journal(session), LARGEST_HELD)?.unwrap_or_default();
    let entries = bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    Ok(History { name: session.to_string(), of: Of::Session, entries, broken: None })
}
