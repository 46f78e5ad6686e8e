//! Faults: ralph's own errors, each recorded once and shown by `ralph status`. A hook never blocks the agent because of
//! one.

use crate::paths::RalphHome;
use ralph_core::id::{RunId, SessionId};
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, FileError};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;

/// Faults that are kept. The oldest is removed to make room for the newest.
const MAX_FAULTS: usize = 200;
const MAX_LISTED: usize = 1_000_000;
const MAX_FAULT_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub v: u8,
    pub at_ms: u64,
    pub kind: FaultKind,
    /// One line: what went wrong, and with which file or run.
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Standard input did not hold a hook event.
    Input,
    /// A file of ralph or of another tool could not be read or written.
    File,
    /// A run has no owner, so it holds no session.
    Orphan,
    /// The notification about the end of a run failed.
    Notification,
    /// A bug in ralph.
    Controller,
}

impl FaultKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::File => "file",
            Self::Orphan => "orphan",
            Self::Notification => "notification",
            Self::Controller => "controller",
        }
    }
}

impl Fault {
    pub fn new(kind: FaultKind, what: &str) -> Self {
        let at_ms = ralph_sys::clock::now_ms();
        Self { v: 1, at_ms, kind, what: text::clean_line(what, 400), run: None, session: None }
    }

    pub fn with_run(self, run: &RunId) -> Self {
        Self { run: Some(run.to_string()), ..self }
    }

    pub fn with_session(self, session: &SessionId) -> Self {
        Self { session: Some(session.to_string()), ..self }
    }
}

/// Best effort: a full disk must not cause further errors. A fault that is already recorded is not recorded again.
pub fn record_fault(home: &RalphHome, fault: &Fault) {
    let what = Redactor::new(Env::from_process().secrets()).redact(&fault.what);
    let fault = Fault { what, ..fault.clone() };
    // Numbers (line numbers, pids, times) differ between occurrences of the same fault.
    let key: String = fault.what.chars().filter(|char| !char.is_ascii_digit()).collect();
    let key = blake3::hash(format!("{:?}\0{key}\0{:?}", fault.kind, fault.run).as_bytes());
    let directory = home.faults();
    let path = directory.join(format!("{}.json", &key.to_hex()[..16]));
    if fs::exists(&path) {
        return;
    }
    make_room(&directory);
    if let Ok(bytes) = serde_json::to_vec(&fault)
        && fs::create_private_dir(&directory).is_ok()
    {
        drop(fs::create_new(&path, &bytes));
    }
}

fn make_room(directory: &Path) {
    // A directory that cannot be listed has no room to make; writing to it reports the error.
    let Ok(names) = fs::list(directory, MAX_LISTED) else { return };
    if names.len() < MAX_FAULTS {
        return;
    }
    let mut paths: Vec<_> = names.iter().map(|name| directory.join(name)).collect();
    paths.sort_by_key(|path| fs::stat(path).map_or(0, |stat| stat.modified_ns));
    for path in &paths[..=paths.len() - MAX_FAULTS] {
        drop(fs::remove_file(path));
    }
}

/// Newest first. Faults that cannot be read are a fault too.
pub fn list_faults(home: &RalphHome) -> Vec<Fault> {
    let directory = home.faults();
    let unreadable = |error: FileError| Fault::new(FaultKind::File, &describe_error(&error));
    let read = |name: &OsString| fs::read_json(&directory.join(name), MAX_FAULT_BYTES).transpose();
    let mut faults: Vec<Fault> = match fs::list_if_exists(&directory, MAX_LISTED) {
        Ok(names) => {
            names.iter().filter_map(read).map(|it| it.unwrap_or_else(unreadable)).collect()
        }
        Err(error) => vec![unreadable(error)],
    };
    faults.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then_with(|| a.what.cmp(&b.what)));
    faults
}

/// Removes all faults once the user has read them. Returns how many there were.
pub fn clear_faults(home: &RalphHome) -> Result<usize, FileError> {
    let directory = home.faults();
    let names = fs::list_if_exists(&directory, MAX_LISTED)?;
    for name in &names {
        fs::remove_file(&directory.join(name))?;
    }
    Ok(names.len())
}

/// Formats an error and its causes on one line.
pub fn describe_error(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        out.push_str(": ");
        out.push_str(&cause.to_string());
        source = cause.source();
    }
    out
}
