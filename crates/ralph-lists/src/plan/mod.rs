//! Plans: Markdown files with boxes to tick, as people and other tools write them.
//!
//! [`parse_plan`] turns bytes into items and runs nothing. A tick is a claim, never evidence; the command that an item
//! names as its check is only parsed. Content below an item that has no box of its own may change freely: the
//! item's check and paths are taken from it, but it is not part of the item's text.

mod document;
mod item_check;
mod paths;
mod plan_compare;
mod plan_files;
mod plan_parser;
mod section;
#[cfg(test)]
mod tests;

pub use item_check::{
    NOT_A_COMMAND, parse_marked_command, parse_plain_command, split_trailing_check,
    unusable_trailing_check,
};
pub use plan_compare::{PlanComparison, plan_discrepancies};
pub use plan_files::find_plans;

use ralph_core::source::SourceError;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

const MAX_PLAN_MIB: usize = 4;
pub const MAX_PLAN_BYTES: usize = MAX_PLAN_MIB * 1024 * 1024;
const MAX_REASON_CHARS: usize = 160;

/// A parsed plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkdownPlan {
    /// The first heading, if it is of level 1.
    pub title: Option<String>,
    pub headings: Vec<PlanHeading>,
    pub items: Vec<ListItem>,
    /// Places where the author may have meant something else.
    pub notes: Vec<PlanNote>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanHeading {
    /// 1 to 6.
    pub level: u8,
    /// A single sanitized line.
    pub text: String,
    pub line: u32,
}

/// A remark about a part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNote {
    /// `None` if it is about the whole file.
    pub line: Option<u32>,
    pub message: &'static str,
}

impl PlanNote {
    /// Formats the note for people: `PLAN.md:12` in backticks, then the message.
    pub fn format_for(&self, file: &str) -> String {
        let file = text::clean_line(file, 200).replace('`', "'");
        match self.line {
            Some(line) => format!("`{file}:{line}`: {}", self.message),
            None => format!("`{file}`: {}", self.message),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    File(#[from] fs::FileError),
    #[error("cannot read plan `{}`: it resolves to a path outside the project", path.display())]
    Outside { path: PathBuf },
    #[error("cannot read plan `{}`: {why}", path.display())]
    Invalid { path: PathBuf, why: String },
}

/// Parses a plan, in time linear in its length.
pub fn parse_plan(bytes: &[u8]) -> Result<MarkdownPlan, SourceError> {
    plan_parser::parse_document(document::prepare_document(bytes)?)
}

/// Reads a plan; `file` is relative to the project. A symbolic link out of the project is not followed.
pub fn load_plan(project: &Path, file: &Path) -> Result<MarkdownPlan, PlanError> {
    let path = project.join(file);
    if plan_files::leads_outside(project, &path) {
        return Err(PlanError::Outside { path });
    }
    let bytes = fs::read(&path, MAX_PLAN_BYTES)?;
    parse_plan(&bytes).map_err(|garbled| PlanError::Invalid { path, why: garbled.why })
}

fn invalid_plan(why: &str) -> SourceError {
    SourceError { why: text::clean_line(why, MAX_REASON_CHARS) }
}
