//! Loops of other tools, read once and made into one of ours.
//!
//! Each family of files has a reader of its own: text to [`Understood`], and nothing that a file says is lost. What has
//! a place gets there; the rest is kept as notes. The files themselves are only read.

mod features;
mod find;
mod front_matter;
mod limits;
mod markdown;
mod merge;
mod plan_state;
mod prd;
mod shell_rc;
mod tree;
mod work;
pub mod write;
mod yaml;

#[cfg(test)]
mod tests;

use serde::{Serialize, Serializer};

pub use find::{Family, Source, gather};
pub use limits::Limits;
pub use merge::{Merged, merge, slug};

/// What one file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Understood {
    /// What the work is called, as its author writes it.
    pub name: Option<String>,
    /// What the agent is told, in paragraphs.
    pub goal: Vec<String>,
    pub features: Vec<Feature>,
    /// Commands that judge the whole.
    pub commands: Vec<Command>,
    pub limits: Limits,
    /// Globs of what an agent should not change.
    pub protect: Vec<String>,
    /// How it went so far.
    pub progress: Option<String>,
    /// Files that it names and that belong to it, relative to the project.
    pub reads: Vec<String>,
    /// What has no other place.
    pub kept: Vec<Kept>,
    pub ignored: Vec<Ignored>,
}

/// A feature as `feature_list.json` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Feature {
    pub id: String,
    pub description: String,
    pub steps: Vec<String>,
    /// Somebody's word.
    pub passes: bool,
    /// A program and its arguments whose result alone counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number_or_text")]
    pub priority: Option<String>,
    /// Ids of what has to be done before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

#[expect(clippy::ref_option, reason = "serde hands it over like this")]
fn number_or_text<S: Serializer>(said: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let said = said.as_deref().unwrap_or_default();
    match said.parse::<i64>() {
        Ok(number) => serializer.serialize_i64(number),
        Err(_) => serializer.serialize_str(said),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What its author calls it; may be empty.
    pub label: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where in its file: a key, or a word for what it is.
    pub key: String,
    /// Counted from 1.
    pub line: Option<u32>,
    /// As it was written.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub key: String,
    pub text: String,
    pub why: &'static str,
}
