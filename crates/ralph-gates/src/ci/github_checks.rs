//! The checks of a commit at GitHub, through `gh api`.

use serde::Deserialize;

use super::check_answers::{GithubRun, GithubStatus, select_workflow_runs};
use super::check_verdict::{CheckLog, CiCheck, CiCheckKind};
use super::provider_call::{ProviderSession, QueryError};
use super::{MAX_PAGES, PER_PAGE, read_pages};

const ACTIONS_APP: &str = "github-actions";

#[derive(Deserialize)]
struct CheckRunPage {
    check_runs: Vec<GithubRun>,
}

#[derive(Deserialize)]
struct WorkflowRunPage {
    workflow_runs: Vec<GithubRun>,
}

#[derive(Deserialize)]
struct StatusPage {
    statuses: Vec<GithubStatus>,
}

/// Check runs and commit statuses, and the workflow runs that are not represented by them.
pub(super) fn read_github_checks(
    session: &ProviderSession<'_>,
    repo: &str,
    commit: &str,
) -> Result<Vec<CiCheck>, QueryError> {
    // Before the jobs: a workflow that has ended then has all of its jobs in their list.
    let workflows = read_pages(|page| {
        let endpoint =
            format!("repos/{repo}/actions/runs?head_sha={commit}&per_page={PER_PAGE}&page={page}");
        Ok(session.read_api::<WorkflowRunPage>(&endpoint)?.workflow_runs)
    });
    let mut workflows = match workflows {
        // The server does not support Actions.
        Err(QueryError::NotFound(_)) => Vec::new(),
        answer => answer?,
    };
    workflows.retain(|run| run.is_for_commit(commit));
    let mut jobs = read_pages(|page| {
        let endpoint =
            format!("repos/{repo}/commits/{commit}/check-runs?per_page={PER_PAGE}&page={page}");
        Ok(session.read_api::<CheckRunPage>(&endpoint)?.check_runs)
    })?;
    jobs.retain(|run| run.is_for_commit(commit));
    let statuses = read_pages(|page| {
        let endpoint =
            format!("repos/{repo}/commits/{commit}/status?per_page={PER_PAGE}&page={page}");
        Ok(session.read_api::<StatusPage>(&endpoint)?.statuses)
    })?;
    let workflows = select_workflow_runs(workflows, &jobs);
    let jobs = jobs.iter().map(job_check);
    let statuses = statuses.iter().map(|status| {
        let name = status.context.as_deref().unwrap_or_default();
        CiCheck::new(name, status.state(), CiCheckKind::Status)
    });
    Ok(jobs.chain(statuses).chain(workflows.iter().map(workflow_check)).collect())
}

fn job_check(run: &GithubRun) -> CiCheck {
    let slug = run.app.as_ref().and_then(|app| app.slug.as_deref());
    let log = match (run.id, slug) {
        (Some(id), Some(ACTIONS_APP)) => CheckLog::Job(id),
        (Some(id), _) => CheckLog::CheckRun(id),
        (None, _) => CheckLog::None,
    };
    let name = run.name.as_deref().unwrap_or_default();
    CiCheck { log, ..CiCheck::new(name, run.state(), CiCheckKind::Job) }
}

fn workflow_check(run: &GithubRun) -> CiCheck {
    CiCheck::new(run.name.as_deref().unwrap_or_default(), run.state(), CiCheckKind::Workflow)
}

#[derive(Deserialize)]
struct GithubRepository {
    default_branch: Option<String>,
}

#[derive(Deserialize)]
struct GithubBranch {
    protection: Option<BranchProtection>,
}

#[derive(Deserialize)]
struct BranchProtection {
    required_status_checks: Option<RequiredContexts>,
}

#[derive(Deserialize)]
struct RequiredContexts {
    #[serde(default)]
    contexts: Vec<String>,
}

#[derive(Deserialize)]
struct BranchRule {
    #[serde(rename = "type")]
    kind: Option<String>,
    parameters: Option<RuleParameters>,
}

#[derive(Deserialize)]
struct RuleParameters {
    #[serde(default)]
    required_status_checks: Vec<RequiredContext>,
}

#[derive(Deserialize)]
struct RequiredContext {
    context: Option<String>,
}

/// The names of the checks that the rules of a branch require: of its protection, and of the rule sets. Both can be read
/// without administrative rights.
pub(super) fn read_required_checks(
    session: &ProviderSession<'_>,
    repo: &str,
    branch: &str,
) -> Result<Vec<String>, QueryError> {
    let default;
    let branch = if branch.is_empty() {
        let found: GithubRepository = session.read_api(&format!("repos/{repo}"))?;
        default = found.default_branch.unwrap_or_default();
        default.as_str()
    } else {
        branch
    };
    let Some(branch) = encode_branch(branch) else {
        let why = "the name of the branch has unusual characters; name the `checks` that must pass";
        return Err(QueryError::Permanent(why.to_string()));
    };
    let mut names = Vec::new();
    match session.read_api::<GithubBranch>(&format!("repos/{repo}/branches/{branch}")) {
        Ok(found) => {
            let required = found.protection.and_then(|rules| rules.required_status_checks);
            names.extend(required.into_iter().flat_map(|required| required.contexts));
        }
        Err(QueryError::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    match session.read_api::<Vec<BranchRule>>(&format!("repos/{repo}/rules/branches/{branch}")) {
        Ok(rules) => {
            let is_about_checks =
                |rule: &BranchRule| rule.kind.as_deref() == Some("required_status_checks");
            let rules = rules.into_iter().filter(is_about_checks);
            let checks = rules.filter_map(|rule| rule.parameters);
            let checks = checks.flat_map(|parameters| parameters.required_status_checks);
            names.extend(checks.filter_map(|check| check.context));
        }
        // Older servers have no rule sets.
        Err(QueryError::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    names.sort();
    names.dedup();
    names.truncate(MAX_PAGES * PER_PAGE);
    Ok(names)
}

/// The name of a branch as part of an address; `None` for one that would need more than that.
fn encode_branch(name: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then(|| name.replace('/', "%2F"))
}

/// One annotation of a check run.
#[derive(Debug, Deserialize)]
pub(super) struct CheckAnnotation {
    pub(super) path: Option<String>,
    pub(super) start_line: Option<u32>,
    pub(super) annotation_level: Option<String>,
    pub(super) message: Option<String>,
}

/// The annotations of a check run, which other services have instead of a log.
pub(super) fn read_annotations(
    session: &ProviderSession<'_>,
    repo: &str,
    run: u64,
) -> Result<Vec<CheckAnnotation>, QueryError> {
    session.read_api(&format!("repos/{repo}/check-runs/{run}/annotations?per_page=50"))
}

/// The log of a job of Actions.
pub(super) fn read_job_log(
    session: &ProviderSession<'_>,
    repo: &str,
    job: u64,
) -> Result<Vec<u8>, QueryError> {
    session.read_api_text(&format!("repos/{repo}/actions/jobs/{job}/logs"))
}

/// Whether the login can read the repository at all. Otherwise a commit that is not found says nothing.
pub(super) fn can_read_repository(
    session: &ProviderSession<'_>,
    repo: &str,
) -> Result<(), QueryError> {
    match session.read_api::<GithubRepository>(&format!("repos/{repo}")) {
        Ok(_) => Ok(()),
        Err(QueryError::NotFound(_)) => Err(QueryError::Permanent(format!(
            "`gh` cannot read `{repo}`: no such repository, or no access"
        ))),
        Err(error) => Err(error),
    }
}
