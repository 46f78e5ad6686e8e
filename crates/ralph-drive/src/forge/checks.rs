//! The results of the forge's checks (CI) for one commit.

use std::collections::BTreeSet;

use ralph_core::text;
use serde::Deserialize;

use super::request::link;
use super::tool::{Method, Tool, api};
use super::{Forge, ForgeError};
use ralph_sys::clock::Deadline;

const WHAT: &str = "read the checks";
const PER_PAGE: usize = 100;
/// Up to a thousand checks are read; more are an error.
const PAGES: usize = 10;
const NAMED: usize = 50;
const LONGEST_NAME: usize = 120;

/// The combined result for exactly one commit, whatever was pushed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checks {
    /// There are no checks, none have started yet, or all were skipped.
    None,
    Pending {
        names: Vec<String>,
    },
    Passed {
        count: usize,
    },
    /// Other checks may still be running.
    Failed {
        failed: Vec<Failed>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub name: String,
    pub url: Option<String>,
}

struct Check {
    name: String,
    url: Option<String>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Passed,
    Failed,
    Skipped,
}

/// Reads the checks of a commit. The caller polls while they are pending or absent.
pub fn checks(forge: &Forge, commit: &str, deadline: &Deadline) -> Result<Checks, ForgeError> {
    let is_commit =
        matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit {
        return Err(ForgeError::Odd { tool: forge.tool, what: WHAT });
    }
    let all = match forge.tool {
        Tool::GitHub => on_github(forge, commit, deadline)?,
        Tool::GitLab => on_gitlab(forge, commit, deadline)?,
    };
    Ok(together(&all))
}

fn together(all: &[Check]) -> Checks {
    let of = |state: State| all.iter().filter(move |check| check.state == state);
    if of(State::Failed).next().is_some() {
        let failed = of(State::Failed).take(NAMED);
        let failed =
            failed.map(|check| Failed { name: check.name.clone(), url: check.url.clone() });
        return Checks::Failed { failed: failed.collect() };
    }
    let pending: BTreeSet<&str> = of(State::Pending).map(|check| check.name.as_str()).collect();
    if !pending.is_empty() {
        let names = pending.into_iter().take(NAMED).map(str::to_owned).collect();
        return Checks::Pending { names };
    }
    match of(State::Passed).count() {
        0 => Checks::None,
        count => Checks::Passed { count },
    }
}

#[derive(Deserialize)]
struct CheckRuns {
    check_runs: Vec<Run>,
}

#[derive(Deserialize)]
struct WorkflowRuns {
    workflow_runs: Vec<Run>,
}

/// The fields that a check run and a workflow run have in common.
#[derive(Deserialize)]
struct Run {
    name: Option<String>,
    head_sha: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
}

#[derive(Deserialize)]
struct CombinedStatus {
    statuses: Vec<Status>,
}

#[derive(Deserialize)]
struct Status {
    context: Option<String>,
    state: Option<String>,
    target_url: Option<String>,
}

/// Check runs, and statuses set by other services. A job that waits for another one has no check run until that one has
/// ended, so workflow runs are read as well.
fn on_github(forge: &Forge, commit: &str, deadline: &Deadline) -> Result<Vec<Check>, ForgeError> {
    let project = forge.tool.project(&forge.project);
    let mut all = Vec::new();
    pages(PAGES, |page| {
        let endpoint =
            format!("{project}/commits/{commit}/check-runs?per_page={PER_PAGE}&page={page}");
        let answer: CheckRuns = api(forge, &Method::Get.call(endpoint, WHAT), deadline)?;
        let count = answer.check_runs.len();
        all.extend(answer.check_runs.into_iter().filter(|run| run.is_of(commit)).map(Run::check));
        Ok(count)
    })
    .map_err(|error| error.unwrap_or(too_many(forge)))?;
    pages(PAGES, |page| {
        let endpoint = format!("{project}/commits/{commit}/status?per_page={PER_PAGE}&page={page}");
        let answer: CombinedStatus = api(forge, &Method::Get.call(endpoint, WHAT), deadline)?;
        let count = answer.statuses.len();
        all.extend(answer.statuses.into_iter().map(Status::check));
        Ok(count)
    })
    .map_err(|error| error.unwrap_or(too_many(forge)))?;
    let endpoint = format!("{project}/actions/runs?head_sha={commit}&per_page={PER_PAGE}");
    let runs = match api(forge, &Method::Get.call(endpoint, WHAT), deadline) {
        Ok(WorkflowRuns { workflow_runs }) => workflow_runs,
        // The server does not support Actions.
        Err(ForgeError::Refused { status: Some(404), .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let runs = runs.into_iter().filter(|run| run.is_of(commit));
    all.extend(runs.filter(Run::tells_more_than_its_jobs).map(Run::check));
    Ok(all)
}

/// Requests pages until one is not full. The error is `None` if there are too many.
fn pages(
    most: usize,
    mut ask: impl FnMut(usize) -> Result<usize, ForgeError>,
) -> Result<(), Option<ForgeError>> {
    for page in 1..=most {
        if ask(page).map_err(Some)? < PER_PAGE {
            return Ok(());
        }
    }
    Err(None)
}

fn too_many(forge: &Forge) -> ForgeError {
    let why = format!("there are more than {}", PAGES * PER_PAGE);
    ForgeError::Refused { tool: forge.tool, what: WHAT, status: None, why }
}

impl Run {
    fn is_of(&self, commit: &str) -> bool {
        self.head_sha.as_deref().is_none_or(|head| head.eq_ignore_ascii_case(commit))
    }

    fn state(&self) -> State {
        if self.status.as_deref() != Some("completed") {
            return State::Pending;
        }
        match self.conclusion.as_deref() {
            Some("success") => State::Passed,
            Some("neutral" | "skipped") => State::Skipped,
            Some(_) | None => State::Failed,
        }
    }

    /// Whether the run adds information to its jobs: it is still running, or it ended before any job started.
    fn tells_more_than_its_jobs(&self) -> bool {
        self.state() == State::Pending
            || matches!(self.conclusion.as_deref(), Some("startup_failure" | "action_required"))
    }

    fn check(self) -> Check {
        let state = self.state();
        Check {
            name: name(self.name.as_deref()),
            url: self.html_url.as_deref().and_then(link),
            state,
        }
    }
}

impl Status {
    fn check(self) -> Check {
        let state = match self.state.as_deref() {
            Some("success") => State::Passed,
            Some("pending") => State::Pending,
            Some(_) | None => State::Failed,
        };
        Check {
            name: name(self.context.as_deref()),
            url: self.target_url.as_deref().and_then(link),
            state,
        }
    }
}

fn name(name: Option<&str>) -> String {
    text::line(name.unwrap_or("unnamed check"), LONGEST_NAME)
}

#[derive(Deserialize)]
struct Pipeline {
    id: Option<u64>,
    sha: Option<String>,
    r#ref: Option<String>,
    source: Option<String>,
    status: Option<String>,
    web_url: Option<String>,
}

#[derive(Deserialize)]
struct Job {
    name: Option<String>,
    #[serde(default)]
    allow_failure: bool,
    web_url: Option<String>,
}

/// The newest pipeline of each kind counts, because older ones were superseded. Results of other services are part of
/// the pipelines.
fn on_gitlab(forge: &Forge, commit: &str, deadline: &Deadline) -> Result<Vec<Check>, ForgeError> {
    let project = forge.tool.project(&forge.project);
    let endpoint =
        format!("{project}/pipelines?sha={commit}&order_by=id&sort=desc&per_page={PER_PAGE}");
    let pipelines: Vec<Pipeline> = api(forge, &Method::Get.call(endpoint, WHAT), deadline)?;
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for pipeline in pipelines {
        let sha = pipeline.sha.as_deref();
        let is_other = sha.is_some_and(|sha| !sha.eq_ignore_ascii_case(commit));
        if is_other || !seen.insert((pipeline.r#ref.clone(), pipeline.source.clone())) {
            continue;
        }
        let check = pipeline.check();
        let failed = match (check.state, pipeline.id) {
            (State::Failed, Some(id)) => {
                let scope = "scope%5B%5D=failed";
                let endpoint = format!("{project}/pipelines/{id}/jobs?{scope}&per_page={PER_PAGE}");
                api::<Vec<Job>>(forge, &Method::Get.call(endpoint, WHAT), deadline)?
            }
            _ => Vec::new(),
        };
        let before = all.len();
        all.extend(failed.into_iter().filter(|job| !job.allow_failure).map(Job::check));
        if all.len() == before {
            all.push(check);
        }
    }
    Ok(all)
}

fn gitlab_state(status: Option<&str>) -> State {
    match status {
        Some("success") => State::Passed,
        Some("skipped") => State::Skipped,
        Some(
            "created"
            | "waiting_for_resource"
            | "preparing"
            | "pending"
            | "running"
            | "scheduled"
            | "manual"
            | "canceling"
            | "waiting_for_callback",
        ) => State::Pending,
        Some(_) | None => State::Failed,
    }
}

impl Pipeline {
    fn check(&self) -> Check {
        let number = self.id.map(|id| format!("pipeline {id}"));
        let state = gitlab_state(self.status.as_deref());
        Check { name: name(number.as_deref()), url: self.web_url.as_deref().and_then(link), state }
    }
}

impl Job {
    fn check(self) -> Check {
        let url = self.web_url.as_deref().and_then(link);
        Check { name: name(self.name.as_deref()), url, state: State::Failed }
    }
}
