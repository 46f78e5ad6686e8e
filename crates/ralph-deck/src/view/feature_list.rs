//! The loops of a project, and the features of one.

use crate::wording::count_noun;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::source::item_check::ItemCheck;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use ralph_hook::overview::RunView;
use ralph_lists::loops::FeatureLoop;
use ralph_lists::run_lists;
use serde::Serialize;
use std::path::Path;

/// As long as a check may be, so that no part of a command is hidden.
const MAX_CHECK_CHARS: usize = 8_000;

#[derive(Debug, Serialize)]
pub struct FeatureListView<'a> {
    pub v: u8,
    #[serde(rename = "loop")]
    pub name: &'a str,
    pub directory: String,
    pub run: Option<&'a str>,
    pub total: usize,
    pub claimed: usize,
    pub open: usize,
    pub checked: usize,
    pub features: Vec<FeatureView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct FeatureNextView<'a> {
    pub v: u8,
    #[serde(rename = "loop")]
    pub name: &'a str,
    pub open: usize,
    pub feature: Option<FeatureView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct FeatureView<'a> {
    pub id: &'a str,
    pub description: &'a str,
    pub steps: &'a [String],
    pub claimed: bool,
    pub check: Option<&'a ItemCheck>,
}

#[derive(Debug, Serialize)]
pub struct FeatureChangedView<'a> {
    pub v: u8,
    #[serde(rename = "loop")]
    pub name: &'a str,
    pub id: &'a str,
    pub claimed: bool,
    pub changed: bool,
}

#[derive(Debug, Serialize)]
pub struct LoopListView {
    pub v: u8,
    pub project: String,
    pub loops: Vec<LoopView>,
}

#[derive(Debug, Serialize)]
pub struct LoopView {
    pub name: String,
    pub directory: String,
    pub total: usize,
    pub claimed: usize,
    pub open: usize,
    pub checked: usize,
    pub run: Option<String>,
    pub problem: Option<String>,
}

pub fn loop_list_view(project: &Path, loops: &[FeatureLoop], runs: &[RunView]) -> LoopListView {
    let loops = loops.iter().map(|one| loop_view(one, runs)).collect();
    LoopListView { v: 1, project: project.display().to_string(), loops }
}

fn loop_view(one: &FeatureLoop, runs: &[RunView]) -> LoopView {
    let (items, problem) = match run_lists::read_list(&one.list()) {
        Ok(items) => (items, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let claimed = items.iter().filter(|item| item.done).count();
    LoopView {
        name: one.name.clone(),
        directory: one.directory.display().to_string(),
        total: items.len(),
        claimed,
        open: items.len() - claimed,
        checked: items.iter().filter(|item| item.check.is_some()).count(),
        run: runs
            .iter()
            .find(|view| is_run_of_loop(view, one))
            .map(|view| view.opened.run.id.to_string()),
        problem,
    }
}

/// Whether the run is in progress and works on the loop.
pub fn is_run_of_loop(view: &RunView, of: &FeatureLoop) -> bool {
    !matches!(view.phase, RunPhase::Ended(_))
        && view.opened.run.features.iter().any(|directory| *of.directory == **directory)
}

pub fn feature_list_view<'a>(
    of: &'a FeatureLoop,
    run: Option<&'a RunId>,
    items: &'a [ListItem],
) -> FeatureListView<'a> {
    let claimed = items.iter().filter(|item| item.done).count();
    FeatureListView {
        v: 1,
        name: &of.name,
        directory: of.directory.display().to_string(),
        run: run.map(RunId::as_str),
        total: items.len(),
        claimed,
        open: items.len() - claimed,
        checked: items.iter().filter(|item| item.check.is_some()).count(),
        features: items.iter().map(feature_view).collect(),
    }
}

/// The first open feature.
pub fn feature_next_view<'a>(of: &'a FeatureLoop, items: &'a [ListItem]) -> FeatureNextView<'a> {
    let mut open = items.iter().filter(|item| !item.done);
    FeatureNextView {
        v: 1,
        name: &of.name,
        open: open.clone().count(),
        feature: open.next().map(feature_view),
    }
}

/// `5 features: 2 claimed, 3 open, 1 with a check`
pub fn count_text(items: &[ListItem]) -> String {
    let claimed = items.iter().filter(|item| item.done).count();
    let checked = items.iter().filter(|item| item.check.is_some()).count();
    let mut out = count_noun(items.len(), "feature");
    let parts = [(claimed, "claimed"), (items.len() - claimed, "open"), (checked, "with a check")];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !parts.is_empty() {
        out.push_str(&format!(": {}", parts.join(", ")));
    }
    out
}

/// Warnings about the list.
pub fn duplicate_notes(items: &[ListItem]) -> Vec<String> {
    let again = items.iter().filter(|item| feature_id(item).contains(' ')).count();
    let mut notes = Vec::new();
    if again > 0 {
        let what = match again {
            1 => "1 id repeats".to_string(),
            _ => format!("{again} ids repeat"),
        };
        notes.push(format!("{what} an earlier one and got a number appended"));
    }
    notes
}

/// The id of a feature, as on the command line.
pub fn feature_id(item: &ListItem) -> String {
    item.name.strip_prefix("feature ").unwrap_or(&item.name).to_string()
}

/// The check of a feature as a command in backticks, if it has one.
pub fn check_text(item: &ListItem) -> Option<String> {
    let shown = item.check.as_ref()?.command_line();
    Some(format!("`{}`", text::clean_line(&shown, MAX_CHECK_CHARS).replace('`', "'")))
}

fn feature_view(item: &ListItem) -> FeatureView<'_> {
    FeatureView {
        id: item.name.strip_prefix("feature ").unwrap_or(&item.name),
        description: &item.text,
        steps: &item.steps,
        claimed: item.done,
        check: item.check.as_ref(),
    }
}
