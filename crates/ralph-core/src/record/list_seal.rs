//! The lists of a run as they were when it began.

use alloc::string::String;
use serde::{Deserialize, Serialize};

/// A list as sealed when the run began. A copy of its items is stored with the run; the digest verifies that copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSeal {
    pub path: String,
    pub kind: ListKind,
    /// Digest of everything that must not change.
    pub digest: String,
    pub count: u32,
    /// Hash of the check commands that a person approved; empty if there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approval: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    Features,
    Plan,
}
