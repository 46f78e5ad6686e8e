//! The jobs of a commit at GitLab, through `glab api`.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::check_state::CiCheckState;
use super::check_verdict::{CheckLog, CiCheck, CiCheckKind};
use super::provider_call::{ProviderSession, QueryError};
use super::{CheckPage, PER_PAGE, read_pages};

#[derive(Deserialize)]
struct GitlabPipelineView {
    id: Option<u64>,
    sha: Option<String>,
    r#ref: Option<String>,
    source: Option<String>,
    status: Option<String>,
}

/// The fields of a job and of a commit status.
#[derive(Deserialize)]
struct GitlabJobView {
    id: Option<u64>,
    name: Option<String>,
    status: Option<String>,
    #[serde(default)]
    allow_failure: bool,
}

#[derive(Deserialize)]
struct GitlabCommit {
    id: Option<String>,
}

/// The jobs of the newest pipeline of each kind, because older ones were superseded. A status that another service set
/// counts only if the policy accepts statuses.
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
    let pipelines: Vec<GitlabPipelineView> = session.read_api(&endpoint)?;
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for pipeline in pipelines {
        let is_of_commit =
            pipeline.sha.as_deref().is_some_and(|sha| sha.eq_ignore_ascii_case(commit));
        if !is_of_commit || !seen.insert((pipeline.r#ref.clone(), pipeline.source.clone())) {
            continue;
        }
        let Some(id) = pipeline.id else { continue };
        all.extend(read_pages(|page| {
            let endpoint = format!("{project}/pipelines/{id}/jobs?per_page={PER_PAGE}&page={page}");
            let jobs: Vec<GitlabJobView> = session.read_api(&endpoint)?;
            let count = jobs.len();
            Ok(CheckPage { count, checks: jobs.into_iter().map(GitlabJobView::into_job).collect() })
        })?);
        // Jobs of later stages and of child pipelines are not in the list yet.
        let state = CiCheckState::of_gitlab(pipeline.status.as_deref());
        if state == CiCheckState::Pending {
            let name = format!("pipeline {id}");
            all.push(CiCheck::new(&name, state, CiCheckKind::Workflow));
        }
    }
    if session.query.statuses {
        let endpoint =
            format!("{project}/repository/commits/{commit}/statuses?per_page={PER_PAGE}");
        let statuses: Vec<GitlabJobView> = session.read_api(&endpoint)?;
        let is_job = |status: &GitlabJobView| {
            all.iter().any(|check| Some(&check.log) == status.id.map(CheckLog::Job).as_ref())
        };
        let others: Vec<_> = statuses.into_iter().filter(|status| !is_job(status)).collect();
        all.extend(others.into_iter().map(GitlabJobView::into_status));
    }
    Ok(all)
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

impl GitlabJobView {
    fn into_job(self) -> CiCheck {
        let log = self.id.map_or(CheckLog::None, CheckLog::Job);
        CiCheck { log, ..self.into_check(CiCheckKind::Job) }
    }

    fn into_status(self) -> CiCheck {
        self.into_check(CiCheckKind::Status)
    }

    fn into_check(self, kind: CiCheckKind) -> CiCheck {
        let state = CiCheckState::of_gitlab(self.status.as_deref());
        let name = self.name.as_deref().unwrap_or_default();
        CiCheck { is_optional: self.allow_failure, ..CiCheck::new(name, state, kind) }
    }
}
