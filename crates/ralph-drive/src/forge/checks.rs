//! The results of the forge's checks (CI) for one commit.

use std::collections::BTreeSet;

use ralph_core::text;
use ralph_gates::ci::check_answers::{
    GithubRun, GithubStatus, GitlabJob, GitlabPipeline, newest_pipelines, select_workflow_runs,
};
use ralph_gates::ci::check_state::CiCheckState;
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

#[derive(Deserialize)]
struct GithubCombinedStatus {
    statuses: Vec<GithubStatus>,
}

/// Check runs, statuses set by other services, and the workflow runs that are not represented by them.
fn github_checks(
    forge: &Forge,
    commit: &str,
    deadline: &Deadline,
) -> Result<Vec<ForgeCheck>, ForgeError> {
    let project = forge.tool.project_endpoint(&forge.project);
    // Before the jobs: a workflow that has ended then has all of its jobs in their list.
    let workflows = read_pages(forge, |page| {
        let endpoint =
            format!("{project}/actions/runs?head_sha={commit}&per_page={PER_PAGE}&page={page}");
        let answer: GithubWorkflowRuns =
            call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
        Ok(answer.workflow_runs)
    });
    let mut workflows = match workflows {
        // The server does not support Actions.
        Err(ForgeError::Refused { status: Some(404), .. }) => Vec::new(),
        answer => answer?,
    };
    workflows.retain(|run| run.is_for_commit(commit));
    let mut jobs = read_pages(forge, |page| {
        let endpoint =
            format!("{project}/commits/{commit}/check-runs?per_page={PER_PAGE}&page={page}");
        let answer: GithubCheckRuns =
            call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
        Ok(answer.check_runs)
    })?;
    jobs.retain(|run| run.is_for_commit(commit));
    let statuses = read_pages(forge, |page| {
        let endpoint = format!("{project}/commits/{commit}/status?per_page={PER_PAGE}&page={page}");
        let answer: GithubCombinedStatus =
            call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
        Ok(answer.statuses)
    })?;
    let workflows = select_workflow_runs(workflows, &jobs);
    let run_check = |run: &GithubRun| {
        ForgeCheck::new(run.name.as_deref(), run.html_url.as_deref(), run.state())
    };
    let statuses = statuses.iter().map(|status| {
        let (name, url) = (status.context.as_deref(), status.target_url.as_deref());
        ForgeCheck::new(name, url, status.state())
    });
    Ok(jobs.iter().map(run_check).chain(statuses).chain(workflows.iter().map(run_check)).collect())
}

/// Reads pages of a list until one is not full.
fn read_pages<T>(
    forge: &Forge,
    mut read: impl FnMut(usize) -> Result<Vec<T>, ForgeError>,
) -> Result<Vec<T>, ForgeError> {
    let mut all = Vec::new();
    for page in 1..=PAGES {
        let found = read(page)?;
        let is_last = found.len() < PER_PAGE;
        all.extend(found);
        if is_last {
            return Ok(all);
        }
    }
    let why = format!("there are more than {}", PAGES * PER_PAGE);
    Err(ForgeError::Refused { tool: forge.tool, what: WHAT, status: None, why })
}

impl ForgeCheck {
    fn new(name: Option<&str>, url: Option<&str>, state: CiCheckState) -> Self {
        let name = text::clean_line(name.unwrap_or("unnamed check"), LONGEST_NAME);
        Self { name, url: url.and_then(safe_link), state }
    }
}

/// Of the newest pipelines, the jobs that failed, or else the pipeline. Results of other services are part of the
/// pipelines.
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
    let mut all = Vec::new();
    for pipeline in newest_pipelines(pipelines, commit) {
        let (id, state) = (pipeline.id, pipeline.state());
        let mut failed: Vec<GitlabJob> = Vec::new();
        if state == CiCheckState::Failed {
            let scope = "scope%5B%5D=failed";
            let endpoint = format!("{project}/pipelines/{id}/jobs?{scope}&per_page={PER_PAGE}");
            failed = call_api(forge, &ForgeMethod::Get.call(endpoint, WHAT), deadline)?;
            failed.retain(|job| !job.allow_failure);
        }
        if failed.is_empty() {
            let name = format!("pipeline {id}");
            all.push(ForgeCheck::new(Some(&name), pipeline.web_url.as_deref(), state));
        }
        all.extend(failed.iter().map(|job| {
            ForgeCheck::new(job.name.as_deref(), job.web_url.as_deref(), CiCheckState::Failed)
        }));
    }
    Ok(all)
}
