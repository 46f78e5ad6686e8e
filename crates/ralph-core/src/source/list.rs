//! Lists of work that somebody else keeps, features and plans, in one shape. What they said when a run began is sealed:
//! in an agent's hands only `done` may change.

use crate::requirement::Weight;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Unique in its list, and the same wherever in the file it stands: `feature 4`, `Parser: nested quotes`
    pub name: String,
    /// What is to be done: one cleaned line.
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Somebody's word, never evidence.
    #[serde(default)]
    pub done: bool,
    /// A program and its arguments whose result alone counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Vec<String>>,
    pub weight: Weight,
    /// Where it stands, counted from 1. Not part of what is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Paths that its text names, as written. Not part of what is sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}
