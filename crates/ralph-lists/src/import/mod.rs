//! Imports loops of other tools: reads their files once and creates one of ralph's loops from them.
//!
//! Each family of files has its own parser from text to [`ImportedContent`]. No content is lost: what has no counterpart
//! in ralph is kept as notes. The imported files are never changed.

mod beads;
mod check_text;
mod data_tree;
mod expected_output;
mod feature_list;
mod file_families;
mod front_matter;
mod hookify;
mod import_sources;
mod item_checks;
mod limits;
mod loom_plan;
pub mod loop_files;
mod markdown;
mod merge;
mod plan_state;
mod prd;
mod promise;
mod shell_rc;
mod task_master;
mod validator;
mod work_item;
mod yaml_files;

#[cfg(test)]
mod tests;

use ralph_core::source::item_check::ItemCheck;
use serde::{Serialize, Serializer};

pub use file_families::{FileFamily, known_family};
pub use import_sources::{ImportSource, find_sources};
pub use limits::ImportedLimits;
pub use merge::{MergedImport, loop_slug, merge_sources};

/// The content of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedContent {
    /// The author's name for the work.
    pub name: Option<String>,
    /// Instructions for the agent, in paragraphs.
    pub goal: Vec<String>,
    pub features: Vec<ImportedFeature>,
    /// Commands that check the whole project.
    pub commands: Vec<ProjectCommand>,
    pub limits: ImportedLimits,
    /// Globs of files that an agent should not change.
    pub protect: Vec<String>,
    /// Rules about added lines.
    pub line_rules: Vec<LineRule>,
    /// Whether the file itself is to be read by the agent: a specification, or instructions for every agent.
    pub is_reference: bool,
    /// The progress so far.
    pub progress: Option<String>,
    /// Files that belong to it, by their paths relative to the project.
    pub referenced_files: Vec<String>,
    /// Texts that have no counterpart in ralph.
    pub kept: Vec<KeptText>,
    /// Lines with a check, and whether it was understood.
    pub check_lines: Vec<CheckLine>,
    /// Entries that are deliberately not imported.
    pub ignored: Vec<IgnoredEntry>,
}

/// A feature as it is written to `feature_list.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportedFeature {
    pub id: String,
    pub description: String,
    pub steps: Vec<String>,
    /// A claim, not evidence.
    pub passes: bool,
    /// If present, only its result counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<ItemCheck>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number_or_text")]
    pub priority: Option<String>,
    /// Ids of features that have to be done first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

#[expect(clippy::ref_option, reason = "the signature that serde requires")]
fn number_or_text<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = text.as_deref().unwrap_or_default();
    match text.parse::<i64>() {
        Ok(number) => serializer.serialize_i64(number),
        Err(_) => serializer.serialize_str(text),
    }
}

/// A command that checks the whole project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectCommand {
    /// The author's name for it; may be empty.
    pub label: String,
    pub text: String,
}

/// A regular expression that no added line may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRule {
    pub name: String,
    pub pattern: String,
    pub message: String,
}

/// A text that is kept as a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptText {
    /// Its key in the file, or a description of it.
    pub key: String,
    /// Counted from 1.
    pub line: Option<u32>,
    /// Verbatim.
    pub text: String,
}

/// A line that names a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckLine {
    /// Counted from 1.
    pub line: u32,
    pub text: String,
    /// Why it did not become a check; `None` if it did.
    pub why_not: Option<&'static str>,
}

impl ImportedContent {
    /// The lines whose check was not understood.
    pub fn not_understood(&self) -> impl Iterator<Item = (&CheckLine, &'static str)> {
        self.check_lines.iter().filter_map(|line| Some((line, line.why_not?)))
    }
}

/// An entry that is not imported, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredEntry {
    pub key: String,
    pub text: String,
    pub why: &'static str,
}
