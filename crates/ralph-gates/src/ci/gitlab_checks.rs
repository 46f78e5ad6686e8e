//! The jobs of a commit at GitLab, through `glab api`.

use serde::Deserialize;

use super::check_answers::{GitlabJob, GitlabPipeline, newest_pipelines};
use super::check_state::CiCheckState;
use super::check_verdict::{CheckLog, CiCheck, CiCheckKind};
use super::provider_call::{ProviderSession, QueryError};
use super::{PER_PAGE, read_pages};

#[derive(Deserialize)]
struct GitlabCommit {
    id: Option<String>,
}

/// The jobs of the newest pipelines, and the pipelines that are not represented by them. A status that another service
/// set counts only if the policy accepts statuses.
pub(super) fn read_gitlab_checks(
    session: &ProviderSession<'_>,
    repo: &str,
    commit: &str,
) -> Result<Vec<CiCheck>, QueryError> {
    let project = project_endpoint(repo);
    let found: GitlabCommit =
        session.read_api(&format!("{project}/repository/commits/{commit}"))?;
    if !found.id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(commit)) {
        let why = "the provider answered about another commit".to_string();
        return Err(QueryError::Permanent(why));
    }
    let endpoint =
        format!("{project}/pipelines?sha={commit}&order_by=id&sort=desc&per_page={PER_PAGE}");
    let pipelines: Vec<GitlabPipeline> = session.read_api(&endpoint)?;
    let mut all = Vec::new();
    for pipeline in newest_pipelines(pipelines, commit) {
        let id = pipeline.id;
        let jobs = read_pages(|page| {
            let endpoint = format!("{project}/pipelines/{id}/jobs?per_page={PER_PAGE}&page={page}");
            session.read_api::<Vec<GitlabJob>>(&endpoint)
        })?;
        let is_failed = |job: &GitlabJob| !job.allow_failure && job.state() == CiCheckState::Failed;
        let is_check = match pipeline.state() {
            // Jobs of later stages and of child pipelines are not in the list yet.
            CiCheckState::Pending => true,
            // Triggers of other pipelines are never in the list.
            CiCheckState::Failed => !jobs.iter().any(is_failed),
            CiCheckState::Passed | CiCheckState::Skipped => false,
        };
        all.extend(jobs.iter().map(|job| {
            let log = job.id.map_or(CheckLog::None, CheckLog::Job);
            CiCheck { log, ..new_check(job, CiCheckKind::Job) }
        }));
        if is_check {
            let name = format!("pipeline {id}");
            all.push(CiCheck::new(&name, pipeline.state(), CiCheckKind::Workflow));
        }
    }
    if session.query.statuses {
        let endpoint =
            format!("{project}/repository/commits/{commit}/statuses?per_page={PER_PAGE}");
        let statuses: Vec<GitlabJob> = session.read_api(&endpoint)?;
        let is_job = |status: &&GitlabJob| {
            all.iter().any(|check| Some(&check.log) == status.id.map(CheckLog::Job).as_ref())
        };
        let others: Vec<_> = statuses
            .iter()
            .filter(|status| !is_job(status))
            .map(|status| new_check(status, CiCheckKind::Status))
            .collect();
        all.extend(others);
    }
    Ok(all)
}

fn new_check(job: &GitlabJob, kind: CiCheckKind) -> CiCheck {
    let name = job.name.as_deref().unwrap_or_default();
    CiCheck { is_optional: job.allow_failure, ..CiCheck::new(name, job.state(), kind) }
}

/// The log of a job.
pub(super) fn read_job_trace(
    session: &ProviderSession<'_>,
    repo: &str,
    job: u64,
) -> Result<Vec<u8>, QueryError> {
    session.read_api_text(&format!("{}/jobs/{job}/trace", project_endpoint(repo)))
}

/// Whether the login can read the project at all.
pub(super) fn can_read_project(
    session: &ProviderSession<'_>,
    repo: &str,
) -> Result<(), QueryError> {
    match session.read_api::<serde_json::Value>(&project_endpoint(repo)) {
        Ok(_) => Ok(()),
        Err(QueryError::NotFound(_)) => Err(QueryError::Permanent(format!(
            "`glab` cannot read `{repo}`: no such project, or no access"
        ))),
        Err(error) => Err(error),
    }
}

fn project_endpoint(repo: &str) -> String {
    format!("projects/{}", repo.replace('/', "%2F"))
}
