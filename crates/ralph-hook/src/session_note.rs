//! The note about a session without a run: what the tree was when it began, and at its last prompt.

use ralph_core::id::{RunId, SessionId};
use ralph_core::record::RunBase;
use ralph_home::paths::RalphHome;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};

const NOTE_VERSION: u8 = 1;
/// Paths that a sparse checkout leaves out are part of it.
const MAX_NOTE_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionNote {
    pub(crate) v: u8,
    /// The directory of the policy.
    pub(crate) project: String,
    /// The tree at the first prompt; `None` without git.
    pub(crate) base: Option<RunBase>,
    pub(crate) prompt: NotedPrompt,
    /// The last judged stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) judged: Option<JudgedStop>,
    /// Fingerprint of the tree for which the person has seen that a gate is still running.
    #[serde(default, rename = "awaited", skip_serializing_if = "Option::is_none")]
    pub(crate) reported_tree: Option<String>,
    /// The record of its decisions, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) record: Option<RunId>,
    /// The hash of the policy that the person was told to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unapproved: Option<String>,
}

/// The last prompt of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotedPrompt {
    /// Fingerprint of the tree when it was sent.
    pub(crate) identity: String,
    pub(crate) transcript_length: u64,
    /// How often the gates have held it.
    pub(crate) holds: u32,
    /// Whether a gate was still running when its last stop was allowed.
    pub(crate) is_waiting: bool,
}

/// The project after a judged stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JudgedStop {
    /// Fingerprint of the tree.
    pub(crate) identity: String,
    pub(crate) transcript_length: u64,
}

impl SessionNote {
    pub(crate) fn new(project: String, base: Option<RunBase>, prompt: NotedPrompt) -> Self {
        Self {
            v: NOTE_VERSION,
            project,
            base,
            prompt,
            judged: None,
            reported_tree: None,
            record: None,
            unapproved: None,
        }
    }

    /// Whether the tree is the one of the last prompt or judged stop.
    pub(crate) fn is_tree_known(&self, identity: &str) -> bool {
        let judged = self.judged.as_ref().map(|judged| judged.identity.as_str());
        self.prompt.identity == identity || judged == Some(identity)
    }

    /// The length of the transcript at the last prompt or judged stop.
    pub(crate) fn transcript_length(&self) -> u64 {
        let judged = self.judged.as_ref().map_or(0, |judged| judged.transcript_length);
        judged.max(self.prompt.transcript_length)
    }

    /// `None` if there is none, or if this version cannot read it: then the next prompt begins a new one.
    pub(crate) fn read(home: &RalphHome, session: &SessionId) -> Option<Self> {
        let bytes = fs::read_if_exists(&home.session_note(session), MAX_NOTE_BYTES).ok()??;
        serde_json::from_slice::<Self>(&bytes).ok().filter(|note| note.v == NOTE_VERSION)
    }

    pub(crate) fn write(&self, home: &RalphHome, session: &SessionId) -> Result<(), FileError> {
        let path = home.session_note(session);
        if let Some(parent) = path.parent() {
            fs::create_private_dir(parent)?;
        }
        let bytes = fs::encode_json(&path, self)?;
        fs::replace(&path, &bytes, Durability::Cached)
    }

    pub(crate) fn remove(home: &RalphHome, session: &SessionId) -> Result<(), FileError> {
        let path = home.session_note(session);
        if fs::exists(&path) { fs::remove_file(&path).map(drop) } else { Ok(()) }
    }
}

/// The record of the decisions about a session without a run.
pub(crate) fn find_record(home: &RalphHome, session: &SessionId) -> Option<RunId> {
    SessionNote::read(home, session)?.record
}
