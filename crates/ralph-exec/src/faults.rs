//! Ralph's own trouble, told once. A hook never punishes the agent for it; the person finds it in `ralph status`.

use crate::env::Env;
use crate::fs;
use crate::paths::Home;
use ralph_core::id::{RunId, SessionId};
use ralph_core::redact::Redactor;
use ralph_core::text;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Past this many different faults, one more tells nobody anything.
const MOST: usize = 200;
const FAR_TOO_MANY: usize = 1_000_000;
const LARGEST: usize = 16 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub v: u8,
    pub at_ms: u64,
    pub kind: Kind,
    /// What is wrong, on what, in one line.
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The event on stdin was not one.
    Input,
    /// A file of ours or of another tool could not be read or written.
    File,
    /// A run that names no owner holds nobody.
    Orphan,
    /// A person could not be told of the end of a run.
    Notification,
    /// Our own bug.
    Controller,
}

impl Kind {
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
    pub fn new(kind: Kind, what: &str) -> Self {
        let at_ms = crate::clock::now_ms();
        Self { v: 1, at_ms, kind, what: text::line(what, 400), run: None, session: None }
    }

    pub fn of_run(self, run: &RunId) -> Self {
        Self { run: Some(run.to_string()), ..self }
    }

    pub fn of_session(self, session: &SessionId) -> Self {
        Self { session: Some(session.to_string()), ..self }
    }
}

/// Best effort: a disk that is full must not turn trouble into more trouble. The same fault is kept once, and the
/// oldest makes room for the newest.
pub fn record(home: &Home, fault: &Fault) {
    let what = Redactor::new(Env::from_process().secrets()).redact(&fault.what);
    let fault = Fault { what, ..fault.clone() };
    // Numbers differ from one time to the next; what is wrong does not.
    let key: String = fault.what.chars().filter(|char| !char.is_ascii_digit()).collect();
    let key = blake3::hash(format!("{:?}\0{key}\0{:?}", fault.kind, fault.run).as_bytes());
    let directory = home.faults();
    let path = directory.join(format!("{}.json", &key.to_hex()[..16]));
    if fs::exists(&path) {
        return;
    }
    make_room(&directory);
    if let Ok(bytes) = serde_json::to_vec(&fault)
        && fs::create_dir(&directory).is_ok()
    {
        drop(fs::create_new(&path, &bytes));
    }
}

fn make_room(directory: &Path) {
    let names = fs::list(directory, FAR_TOO_MANY).unwrap_or_default();
    if names.len() < MOST {
        return;
    }
    let mut paths: Vec<_> = names.iter().map(|name| directory.join(name)).collect();
    paths.sort_by_key(|path| fs::stat(path).map_or(0, |stat| stat.modified_ns));
    for path in &paths[..=paths.len() - MOST] {
        drop(fs::remove_file(path));
    }
}

/// Newest first.
pub fn all(home: &Home) -> Vec<Fault> {
    let directory = home.faults();
    let names = fs::list(&directory, FAR_TOO_MANY).unwrap_or_default();
    let mut faults: Vec<Fault> = names
        .iter()
        .filter_map(|name| {
            serde_json::from_slice(&fs::read(&directory.join(name), LARGEST).ok()?).ok()
        })
        .collect();
    faults.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then_with(|| a.what.cmp(&b.what)));
    faults
}

/// What a person has read need not be told again. How many there were.
pub fn clear(home: &Home) -> Result<usize, fs::FileError> {
    let directory = home.faults();
    let names = fs::list(&directory, FAR_TOO_MANY).unwrap_or_default();
    for name in &names {
        fs::remove_file(&directory.join(name))?;
    }
    Ok(names.len())
}

/// An error and its causes on one line.
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        out.push_str(": ");
        out.push_str(&cause.to_string());
        source = cause.source();
    }
    out
}
