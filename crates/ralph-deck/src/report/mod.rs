//! The report of a run, for a reader who was not there: what was asked, how it ended and what that rests on, what to
//! look at first, the evidence, what happened, what it cost and what changed.
//!
//! Markdown, HTML and JSON show the same [`RunReport`]. Its texts are cleaned, but remain foreign: each format escapes
//! them, so that they stay text.

mod html;
mod markdown;
mod redacted_json;
mod report_lines;
mod requirement_strip;

pub use html::{content_policy, render_html};
pub use markdown::render_markdown;

use crate::page::{CheckpointDiff, CheckpointReader, RunPage};
use ralph_core::id::RunId;
use ralph_core::record::{RunRecord, Waiver};
use ralph_core::redact::Redactor;
use ralph_core::run::RunState;
use ralph_core::text;
use ralph_git::commit_content::CommitReader;
use ralph_git::worktree::{RunRepository, find_landed_commit};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::ControlError;
use ralph_hook::overview::{self, RunView};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;

const LONGEST_LINE: usize = 300;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    pub v: u8,
    pub page: RunPage,
    /// The result in one line that can be forwarded.
    pub sentence: String,
    /// The hash of the approved policy; empty if nothing of it comes from the repository, `None` without a policy.
    pub policy_hash: Option<String>,
    /// Waivers that had not expired at the end.
    pub not_covered: Vec<String>,
    pub journal_lines: u64,
    /// The hash of the last line.
    pub journal_head: String,
    /// The commit of the checkpoint that the run started from.
    pub base_commit: Option<String>,
    /// A commit of the project that has the judged tree; `None` while the work is not committed.
    pub landed_commit: Option<String>,
    /// What a person can do next: a command or a sentence.
    pub next: String,
    /// `None` without git, or if the checkpoints are gone.
    pub changes: Option<CheckpointDiff>,
    /// As on the page.
    pub outside_goal: Vec<String>,
}

impl RunReport {
    pub fn load(
        env: &Env,
        home: &RalphHome,
        run: &RunId,
        now_ms: u64,
        deadline: &Deadline,
    ) -> Result<Self, ControlError> {
        let view = RunView::new(home, store::load_run(home, run)?);
        let history = overview::run_history(home, run)?;
        let page = RunPage::of_history(env, home, &view, &history, now_ms, deadline);
        let opened = view.opened;
        let journal = JournalEnd { lines: history.entries.len() as u64, head: history.head };
        let changes = load_changes(home, &opened.run, page.checkpoint, deadline);
        let landed = page
            .judged_tree
            .as_deref()
            .and_then(|tree| load_landed_commit(&opened.run, tree, deadline));
        let report = Self::new(page, &opened.run, &opened.state, journal, changes);
        Ok(Self { landed_commit: landed, ..report })
    }

    fn new(
        page: RunPage,
        run: &RunRecord,
        state: &RunState,
        journal: JournalEnd,
        changes: Option<CheckpointDiff>,
    ) -> Self {
        let in_force = state.waivers.iter().filter(|waiver| page.row.last_ms < waiver.until_ms);
        let seal = run.seal.as_deref();
        Self {
            v: 1,
            sentence: report_lines::summary(&page),
            next: report_lines::next_step(&page),
            landed_commit: None,
            policy_hash: seal.map(|seal| text::clean_line(&seal.hash, LONGEST_LINE)),
            not_covered: in_force.map(describe_waiver).collect(),
            journal_lines: journal.lines,
            journal_head: journal.head,
            base_commit: seal
                .and_then(|seal| seal.base.as_ref())
                .map(|base| text::clean_line(&base.commit, LONGEST_LINE)),
            changes,
            outside_goal: page.outside_goal.clone(),
            page,
        }
    }
}

/// The report as one line of JSON.
pub fn render_json(report: &RunReport, redactor: &Redactor) -> String {
    redacted_json::redacted_line(report, redactor)
}

/// How long the journal is, and the hash of its last line.
struct JournalEnd {
    lines: u64,
    head: String,
}

/// The newest commit of the project with the judged tree.
fn load_landed_commit(run: &RunRecord, tree: &str, deadline: &Deadline) -> Option<String> {
    let place = RunRepository::of_project(run);
    let reader = CommitReader::open(&fs::resolve(&place.directory)?, *deadline)?;
    let project = place.path_below(reader.root());
    let found = find_landed_commit(&reader, run, tree, project.to_str()?).ok()??;
    Some(text::clean_line(&found, LONGEST_LINE))
}

fn describe_waiver(waiver: &Waiver) -> String {
    let Waiver { requirement, why, by, until_ms } = waiver;
    let until =
        format!("{} {}", clock::local_date(*until_ms), crate::wording::local_time(*until_ms));
    text::clean_line(&format!("{requirement}, waived by {by} until {until}: {why}"), LONGEST_LINE)
}

/// A report without its changes is better than none, so that errors of git leave them out.
fn load_changes(
    home: &RalphHome,
    run: &RunRecord,
    last: Option<u32>,
    deadline: &Deadline,
) -> Option<CheckpointDiff> {
    // A stop that asks a person is checkpointed, but not judged.
    let reader = CheckpointReader::open(home, &run.id, *deadline).ok()?;
    match last {
        Some(number) => reader.changed_between(Some(0), Some(number)).ok(),
        None => reader.changed_since_start().ok(),
    }
}

#[cfg(test)]
mod tests;
