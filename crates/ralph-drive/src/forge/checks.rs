//! The results of the forge's checks (CI) for one commit.

use std::collections::BTreeSet;

use ralph_core::text;
use ralph_gates::ci::check_state::{CiCheckState, workflow_adds_to_jobs};
use serde::Deserialize;

use super::forge_tool::{ForgeMethod, ForgeTool, call_api};
use super::pull_request::safe_link;
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
pub enum ForgeChecks {
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
        failed: Vec<FailedCheck>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCheck {
    pub name: String,
    pub url: Option<String>,
}

struct ForgeCheck {
    name: String,
    url: Option<String>,
    state: CiCheckState,
}

/// Reads the checks of a commit. The caller polls while they are pending or absent.
pub fn read_checks(
    forge: &Forge,
    commit: &str,
    deadline: &Deadline,
) -> Result<ForgeChecks, ForgeError> {
    let is_commit =
        matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_commit {
        return Err(ForgeError::UnexpectedAnswer { tool: forge.tool, what: WHAT });
    }
    let all = match forge.tool {
        ForgeTool::GitHub => github_checks(forge, commit, deadline)?,
        ForgeTool::GitLab => gitlab_checks(forge, commit, deadline)?,
    };
    Ok(combine_checks(&all))
}

fn combine_checks(all: &[ForgeCheck]) -> ForgeChecks {
    let of = |state: CiCheckState| all.iter().filter(move |check| check.state == state);
    if of(CiCheckState::Failed).next().is_some() {
        let failed = of(CiCheckState::Failed).take(NAMED);
        let failed =
            failed.map(|check| FailedCheck { name: check.name.clone(), url: check.url.clone() });
        return ForgeChecks::Failed { failed: failed.collect() };
    }
    let pending: BTreeSet<&str> =
        of(CiCheckState::Pending).map(|check| check.name.as_str()).collect();
    if !pending.is_empty() {
        let names = pending.into_iter().take(NAMED).map(str::to_owned).collect();
        return ForgeChecks::Pending { names };
    }
    match of(CiCheckState::Passed).count() {
        0 => ForgeChecks::None,
        count => ForgeChecks::Passed { count },
    }
}

#[derive(Deserialize)]
struct GithubCheckRuns {
    check_runs: Vec<GithubRun>,
}

#[derive(Deserialize)]
struct GithubWorkflowRuns {
    workflow_runs: Vec<GithubRun>,
}

/// The fields that a check run and a workflow run have in common.
#[derive(Deserialize)]
struct GithubRun {
    name: Option<String>,
    head_sha: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
}

#[derive(Deserialize)]
struct GithubCombinedStatus {
    statuses: Vec<GithubStatus>,
}

#[derive(Deserialize)]
struct GithubStatus {
    context: Option<String>,
    state: Option<String>,
    target_url: Option<String>,
}

/// Check runs, and statuses set by other services. A job that waits for another one has no check run until that one has
/// ended, so workflow runs are read as well.
fn github_checks(
    forge: &Forge,
    commit: &str,
    deadline: &Deadline,
) -> Result<Vec<ForgeCheck>, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    let mut all = Vec::new();
    each_page(PAGES, |page| {
        let endpoint =
            format!("{project}/commits/{commit}/check-runs?per_page={PER_PAGE}&page={page}");
        let answer: GithubCheckRuns =
            call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
        let count = answer.check_runs.len();
        all.extend(
            answer
                .check_runs
                .into_iter()
                .filter(|run| run.is_of(commit))
                .map(GithubRun::into_check),
        );
        Ok(count)
    })
    .map_err(|error| error.unwrap_or(too_many_checks(forge)))?;
    each_page(PAGES, |page| {
        let endpoint = format!("{project}/commits/{commit}/status?per_page={PER_PAGE}&page={page}");
        let answer: GithubCombinedStatus =
            call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
        let count = answer.statuses.len();
        all.extend(answer.statuses.into_iter().map(GithubStatus::into_check));
        Ok(count)
    })
    .map_err(|error| error.unwrap_or(too_many_checks(forge)))?;
    let endpoint = format!("{project}/actions/runs?head_sha={commit}&per_page={PER_PAGE}");
    let runs = match call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline) {
        Ok(GithubWorkflowRuns { workflow_runs }) => workflow_runs,
        // The server does not support Actions.
        Err(ForgeError::Refused { status: Some(404), .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let runs = runs.into_iter().filter(|run| run.is_of(commit));
    all.extend(runs.filter(GithubRun::adds_to_its_jobs).map(GithubRun::into_check));
    Ok(all)
}

/// Requests pages until one is not full. The error is `None` if there are too many.
fn each_page(
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

fn too_many_checks(forge: &Forge) -> ForgeError {
    let why = format!("there are more than {}", PAGES * PER_PAGE);
    ForgeError::Refused { tool: forge.tool, what: WHAT, status: None, why }
}

impl GithubRun {
    fn is_of(&self, commit: &str) -> bool {
        self.head_sha.as_deref().is_none_or(|head| head.eq_ignore_ascii_case(commit))
    }

    fn state(&self) -> CiCheckState {
        CiCheckState::of_github_run(self.status.as_deref(), self.conclusion.as_deref())
    }

    fn adds_to_its_jobs(&self) -> bool {
        workflow_adds_to_jobs(self.status.as_deref(), self.conclusion.as_deref())
    }

    fn into_check(self) -> ForgeCheck {
        let state = self.state();
        ForgeCheck {
            name: check_name(self.name.as_deref()),
            url: self.html_url.as_deref().and_then(safe_link),
            state,
        }
    }
}

impl GithubStatus {
    fn into_check(self) -> ForgeCheck {
        let state = CiCheckState::of_github_status(self.state.as_deref());
        ForgeCheck {
            name: check_name(self.context.as_deref()),
            url: self.target_url.as_deref().and_then(safe_link),
            state,
        }
    }
}

fn check_name(name: Option<&str>) -> String {
    text::clean_line(name.unwrap_or("unnamed check"), LONGEST_NAME)
}

#[derive(Deserialize)]
struct GitlabPipeline {
    id: Option<u64>,
    sha: Option<String>,
    r#ref: Option<String>,
    source: Option<String>,
    status: Option<String>,
    web_url: Option<String>,
}

#[derive(Deserialize)]
struct GitlabJob {
    name: Option<String>,
    #[serde(default)]
    allow_failure: bool,
    web_url: Option<String>,
}

/// The newest pipeline of each kind counts, because older ones were superseded. Results of other services are part of
/// the pipelines.
fn gitlab_checks(
    forge: &Forge,
    commit: &str,
    deadline: &Deadline,
) -> Result<Vec<ForgeCheck>, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    let endpoint =
        format!("{project}/pipelines?sha={commit}&order_by=id&sort=desc&per_page={PER_PAGE}");
    let pipelines: Vec<GitlabPipeline> =
        call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for pipeline in pipelines {
        let sha = pipeline.sha.as_deref();
        let is_other = sha.is_some_and(|sha| !sha.eq_ignore_ascii_case(commit));
        if is_other || !seen.insert((pipeline.r#ref.clone(), pipeline.source.clone())) {
            continue;
        }
        let check = pipeline.to_check();
        let failed = match (check.state, pipeline.id) {
            (CiCheckState::Failed, Some(id)) => {
                let scope = "scope%5B%5D=failed";
                let endpoint = format!("{project}/pipelines/{id}/jobs?{scope}&per_page={PER_PAGE}");
                call_api::<Vec<GitlabJob>>(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?
            }
            _ => Vec::new(),
        };
        let before = all.len();
        all.extend(failed.into_iter().filter(|job| !job.allow_failure).map(GitlabJob::into_check));
        if all.len() == before {
            all.push(check);
        }
    }
    Ok(all)
}

impl GitlabPipeline {
    fn to_check(&self) -> ForgeCheck {
        let number = self.id.map(|id| format!("pipeline {id}"));
        let state = CiCheckState::of_gitlab(self.status.as_deref());
        ForgeCheck {
            name: check_name(number.as_deref()),
            url: self.web_url.as_deref().and_then(safe_link),
            state,
        }
    }
}

impl GitlabJob {
    fn into_check(self) -> ForgeCheck {
        let url = self.web_url.as_deref().and_then(safe_link);
        ForgeCheck { name: check_name(self.name.as_deref()), url, state: CiCheckState::Failed }
    }
}
