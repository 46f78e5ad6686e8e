//! Runs as a person looks at them: read without locks, nothing is repaired and nothing is written.

use crate::control::{self, ControlError, Named};
use crate::fs::{self, FileError};
use crate::journal::{self, Break};
use crate::paths::Home;
use crate::store::{self, Opened, StoreError};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::Entry;
use ralph_core::run::Phase;

const LARGEST_HELD: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub struct RunView {
    pub opened: Opened,
    /// As it is now: a run whose owner died is orphaned before anything has noticed.
    pub phase: Phase,
}

/// A run's directory that holds nothing readable.
#[derive(Debug)]
pub struct Unreadable {
    pub run: RunId,
    pub error: StoreError,
}

/// Every run, the one active last first, and those that cannot be read.
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

/// What was decided about a run or a session, oldest first.
#[derive(Debug)]
pub struct History {
    pub name: String,
    pub of: Of,
    pub entries: Vec<Entry>,
    pub broken: Option<Break>,
}

/// What is counted depends on whose history it is: files of other tools have no counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Run,
    Session,
}

/// The run or session of that name; without a name, the run that was active last.
pub fn history(home: &Home, name: Option<&str>) -> Result<Option<History>, ControlError> {
    let named = match name {
        Some(name) => control::named(home, name)?,
        None => match runs(home)?.0.into_iter().next() {
            Some(view) => Named::Run(view.opened.run.id),
            None => return Ok(None),
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
