//! Reads what stats are computed from: the runs of the index, the settings of projects, and applied proposals.

use crate::IndexCoverage;
use crate::page::RunStanding;
use crate::page::stats::{AppliedProposal, ProjectSettings, StatsRows, StatsRun};
use crate::run_index::{RunIndex, RunIndexError};
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_home::lesson_store;
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control;
use ralph_hook::project_scope::ProjectScope;
use ralph_policy::config;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Projects whose policy is read for proposals, the ones with the latest runs.
const MAX_PROJECTS: usize = 50;
const MAX_APPLIED_BYTES: usize = 4 * 1024 * 1024;

/// What stats are computed from.
#[derive(Clone, Debug, Default)]
pub struct StatsData {
    pub rows: StatsRows,
    pub settings: Vec<ProjectSettings>,
    pub applied: Vec<AppliedProposal>,
}

/// The rows of all runs on this machine, and whether every journal was read until the deadline.
pub fn load_rows(
    home: &RalphHome,
    deadline: &Deadline,
) -> Result<(StatsRows, IndexCoverage), RunIndexError> {
    let (index, coverage) = RunIndex::open_refreshed(home, deadline)?;
    let mut rows = index.stats_rows()?;
    check_liveness(home, &mut rows);
    Ok((rows, coverage))
}

/// Corrects the status of runs whose runner or session died. No journal line says so, and the index has only those.
pub fn check_liveness(home: &RalphHome, rows: &mut StatsRows) {
    let is_active = |run: &&mut StatsRun| {
        !run.is_session && ["working", "waiting", "asks"].contains(&run.status.as_str())
    };
    for run in rows.runs.iter_mut().filter(is_active) {
        let opened = RunId::parse(&run.id).and_then(|id| store::load_run(home, &id).ok());
        let Some(opened) = opened else { continue };
        let phase = control::effective_phase(home, &opened);
        if phase != RunPhase::Active {
            run.status = RunStanding::from_state(&opened.state, phase).name().to_string();
        }
    }
}

/// The projects of the scope that have runs.
pub fn projects_with_runs(rows: &StatsRows, scope: Option<&ProjectScope>) -> BTreeSet<String> {
    let projects: BTreeSet<_> = rows.runs.iter().map(|run| run.project.clone()).collect();
    let is_wanted =
        |project: &String| scope.is_none_or(|scope| scope.contains_directory(Path::new(project)));
    projects.into_iter().filter(is_wanted).collect()
}

impl StatsData {
    /// Limits the rows to the projects of the scope, and adds their settings and applied proposals.
    pub fn load(
        home: &RalphHome,
        rows: &StatsRows,
        scope: Option<&ProjectScope>,
    ) -> Result<Self, FileError> {
        let wanted = projects_with_runs(rows, scope);
        let rows = rows.filtered(|run| wanted.contains(&run.project));
        let mut applied = read_applied(home)?;
        applied.retain(|one| scope.is_none() || wanted.contains(&one.project));
        let settings = load_settings(home, &rows);
        Ok(Self { rows, settings, applied })
    }
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
    let root = config::find_project(directory);
    let loaded = config::load(&root, home).ok()?;
    // Without lessons, proposals rest on the figures alone.
    let lessons = lesson_store::load_lessons(home, &root).unwrap_or_default();
    let file = loaded.file?;
    Some(ProjectSettings {
        project: project.to_string(),
        file: file.path.display().to_string(),
        user_file: home.user_config().display().to_string(),
        gates: loaded.policy.gates,
        limits: loaded.policy.limits,
        wait_for_limits_ms: loaded.runner.waits.limit_ms,
        forbidden: loaded.policy.lines.forbid,
        lessons,
    })
}

/// Lines that cannot be read are left out: a newer version may have written them.
fn read_applied(home: &RalphHome) -> Result<Vec<AppliedProposal>, FileError> {
    let bytes = fs::read_if_exists(&home.applied_proposals(), MAX_APPLIED_BYTES)?;
    let bytes = bytes.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}
