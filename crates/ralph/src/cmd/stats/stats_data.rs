//! Reads what statistics are computed from: the index of runs, the settings of projects, and applied proposals.

use crate::cmd::run_choice;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use ralph_deck::IndexCoverage;
use ralph_deck::page::insights::{AppliedProposal, ProjectSettings, StatsRows};
use ralph_deck::run_index::{RunIndex, RunIndexError};
use ralph_home::paths::RalphHome;
use ralph_hook::project_scope::ProjectScope;
use ralph_policy::config;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The next call continues where this one ended.
const REFRESH_TIMEOUT: Duration = Duration::from_mins(1);
/// Projects whose policy is read for proposals, the ones with the latest runs.
const MAX_PROJECTS: usize = 50;
const MAX_APPLIED_BYTES: usize = 4 * 1024 * 1024;

/// Whose runs are wanted.
pub(crate) enum ProjectChoice {
    /// The project of the current directory, or all if it has no runs.
    Current,
    Named(PathBuf),
    All,
}

/// What statistics are computed from.
pub(crate) struct StatsData {
    pub rows: StatsRows,
    /// The project that the rows are limited to.
    pub project: Option<PathBuf>,
    pub settings: Vec<ProjectSettings>,
    pub applied: Vec<AppliedProposal>,
}

impl StatsData {
    pub(crate) fn load(
        env: &Env,
        home: &RalphHome,
        choice: &ProjectChoice,
    ) -> Result<Self, CommandFailure> {
        let rows = load_rows(home)?;
        let scope = match choice {
            ProjectChoice::All => None,
            ProjectChoice::Named(directory) => Some(ProjectScope::of_directory(directory)),
            ProjectChoice::Current => Some(run_choice::current_scope(env)?),
        };
        let wanted = wanted_projects(&rows, scope.as_ref());
        // A directory without runs has nothing to show.
        let is_elsewhere = matches!(choice, ProjectChoice::Current) && wanted.is_empty();
        let (scope, wanted) =
            if is_elsewhere { (None, wanted_projects(&rows, None)) } else { (scope, wanted) };
        let rows = rows.filtered(|run| wanted.contains(&run.project));
        let mut applied = read_applied(home)?;
        applied.retain(|one| scope.is_none() || wanted.contains(&one.project));
        let settings = load_settings(home, &rows);
        let project = scope.map(|scope| scope.root().to_path_buf());
        Ok(Self { rows, project, settings, applied })
    }
}

/// The rows of all runs on this machine.
pub(crate) fn load_rows(home: &RalphHome) -> Result<StatsRows, CommandFailure> {
    let mut index = RunIndex::open(home).map_err(|error| index_failure(&error))?;
    let coverage = index.refresh(&Deadline::after(REFRESH_TIMEOUT));
    if coverage.map_err(|error| index_failure(&error))? == IndexCoverage::Partial {
        let mark = paint(term::WARN, "?");
        term::err(&format!("{mark} the index is incomplete; the next call continues it\n"));
    }
    index.stats_rows().map_err(|error| index_failure(&error))
}

fn index_failure(error: &RunIndexError) -> CommandFailure {
    CommandFailure::caused_by("cannot read the runs", error)
        .with_hint("delete `index` in ralph's home; it is rebuilt")
}

fn wanted_projects(rows: &StatsRows, scope: Option<&ProjectScope>) -> BTreeSet<String> {
    let projects: BTreeSet<_> = rows.runs.iter().map(|run| run.project.clone()).collect();
    let is_wanted =
        |project: &String| scope.is_none_or(|scope| scope.contains_directory(Path::new(project)));
    projects.into_iter().filter(is_wanted).collect()
}

/// The policies of the projects with runs. One that cannot be read gets no proposals.
fn load_settings(home: &RalphHome, rows: &StatsRows) -> Vec<ProjectSettings> {
    let mut latest: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &rows.runs {
        let last = latest.entry(&run.project).or_default();
        *last = (*last).max(run.last_ms);
    }
    let mut projects: Vec<_> = latest.into_iter().collect();
    projects.sort_by_key(|(_, last_ms)| std::cmp::Reverse(*last_ms));
    let settings = projects.into_iter().take(MAX_PROJECTS);
    settings.filter_map(|(project, _)| project_settings(home, project)).collect()
}

fn project_settings(home: &RalphHome, project: &str) -> Option<ProjectSettings> {
    let directory = Path::new(project);
    if !directory.is_absolute() || !fs::is_directory(directory) {
        return None;
    }
    let loaded = config::load(&config::find_project(directory), home).ok()?;
    let file = loaded.file?;
    Some(ProjectSettings {
        project: project.to_string(),
        file: file.path.display().to_string(),
        user_file: home.user_config().display().to_string(),
        gates: loaded.policy.gates,
        limits: loaded.policy.limits,
        wait_for_limits_ms: loaded.runner.waits.limit_ms,
    })
}

/// Lines that cannot be read are left out: a newer version may have written them.
fn read_applied(home: &RalphHome) -> Result<Vec<AppliedProposal>, CommandFailure> {
    let bytes = fs::read_if_exists(&home.applied_proposals(), MAX_APPLIED_BYTES)?;
    let bytes = bytes.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}
