//! The checks of a commit at GitHub, through `gh api`.

use serde::Deserialize;

use super::check_state::{CiCheckState, workflow_adds_to_jobs};
use super::check_verdict::{CheckLog, CiCheck, CiCheckKind};
use super::provider_call::{ProviderSession, QueryError};
use super::{CheckPage, MAX_PAGES, PER_PAGE, read_pages};

const ACTIONS_APP: &str = "github-actions";

#[derive(Deserialize)]
struct CheckRunPage {
    check_runs: Vec<GithubCheck>,
}

#[derive(Deserialize)]
struct WorkflowRunPage {
    workflow_runs: Vec<GithubCheck>,
}

/// The fields of a check run and of a workflow run.
#[derive(Deserialize)]
struct GithubCheck {
    id: Option<u64>,
    name: Option<String>,
    head_sha: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    app: Option<GithubApp>,
}

#[derive(Deserialize)]
struct GithubApp {
    slug: Option<String>,
}

#[derive(Deserialize)]
struct StatusPage {
    statuses: Vec<GithubCommitStatus>,
}

#[derive(Deserialize)]
struct GithubCommitStatus {
    context: Option<String>,
    state: Option<String>,
}

/// Check runs and commit statuses, and the workflow runs that are not represented by them.
pub(super) fn read_github_checks(
    session: &ProviderSession<'_>,
    repo: &str,
    commit: &str,
) -> Result<Vec<CiCheck>, QueryError> {
    let mut all = read_pages(|page| {
        let endpoint =
            format!("repos/{repo}/commits/{commit}/check-runs?per_page={PER_PAGE}&page={page}");
        let answer: CheckRunPage = session.read_api(&endpoint)?;
        let count = answer.check_runs.len();
        let checks = answer.check_runs.into_iter().filter(|run| run.is_of(commit));
        Ok(CheckPage { count, checks: checks.map(GithubCheck::into_job).collect() })
    })?;
    all.extend(read_pages(|page| {
        let endpoint =
            format!("repos/{repo}/commits/{commit}/status?per_page={PER_PAGE}&page={page}");
        let answer: StatusPage = session.read_api(&endpoint)?;
        let count = answer.statuses.len();
        let checks = answer.statuses.into_iter().map(GithubCommitStatus::into_check);
        Ok(CheckPage { count, checks: checks.collect() })
    })?);
    let endpoint = format!("repos/{repo}/actions/runs?head_sha={commit}&per_page={PER_PAGE}");
    match session.read_api::<WorkflowRunPage>(&endpoint) {
        Ok(answer) => {
            let runs = answer.workflow_runs.into_iter().filter(|run| run.is_of(commit));
            all.extend(runs.filter(GithubCheck::adds_to_its_jobs).map(GithubCheck::into_workflow));
        }
        // The server does not support Actions.
        Err(QueryError::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(all)
}

impl GithubCheck {
    fn is_of(&self, commit: &str) -> bool {
        self.head_sha.as_deref().is_some_and(|head| head.eq_ignore_ascii_case(commit))
    }

    fn state(&self) -> CiCheckState {
        CiCheckState::of_github_run(self.status.as_deref(), self.conclusion.as_deref())
    }

    fn adds_to_its_jobs(&self) -> bool {
        workflow_adds_to_jobs(self.status.as_deref(), self.conclusion.as_deref())
    }

    fn into_job(self) -> CiCheck {
        let slug = self.app.as_ref().and_then(|app| app.slug.as_deref());
        let log = match (self.id, slug) {
            (Some(id), Some(ACTIONS_APP)) => CheckLog::Job(id),
            (Some(id), _) => CheckLog::CheckRun(id),
            (None, _) => CheckLog::None,
        };
        let name = self.name.as_deref().unwrap_or_default();
        CiCheck { log, ..CiCheck::new(name, self.state(), CiCheckKind::Job) }
    }

    fn into_workflow(self) -> CiCheck {
        let name = self.name.as_deref().unwrap_or_default();
        CiCheck::new(name, self.state(), CiCheckKind::Workflow)
    }
}

impl GithubCommitStatus {
    fn into_check(self) -> CiCheck {
        let state = CiCheckState::of_github_status(self.state.as_deref());
        CiCheck::new(self.context.as_deref().unwrap_or_default(), state, CiCheckKind::Status)
    }
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
