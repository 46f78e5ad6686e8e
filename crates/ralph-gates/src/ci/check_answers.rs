//! What GitHub and GitLab answer about the checks of a commit, and which workflow runs and pipelines are checks of their
//! own, because their jobs do not show everything.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::Deserialize;

use super::check_state::CiCheckState;

/// A check run or a workflow run at GitHub.
#[derive(Debug, Deserialize)]
pub struct GithubRun {
    pub id: Option<u64>,
    pub name: Option<String>,
    pub html_url: Option<String>,
    head_sha: Option<String>,
    status: Option<String>,
    conclusion: Option<String>,
    /// Only check runs have it.
    pub app: Option<GithubApp>,
    /// Only check runs have it.
    check_suite: Option<CheckSuite>,
    // Only workflow runs have the rest.
    check_suite_id: Option<u64>,
    workflow_id: Option<u64>,
    event: Option<String>,
    head_branch: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct GithubApp {
    pub slug: Option<String>,
}

/// The check runs of one workflow run.
#[derive(Debug, Deserialize)]
struct CheckSuite {
    id: Option<u64>,
}

/// A status that anyone with write access can set.
#[derive(Debug, Deserialize)]
pub struct GithubStatus {
    pub context: Option<String>,
    pub target_url: Option<String>,
    state: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct GitlabPipeline {
    pub id: u64,
    pub web_url: Option<String>,
    sha: Option<String>,
    r#ref: Option<String>,
    source: Option<String>,
    status: Option<String>,
}

/// A job or a commit status at GitLab.
#[derive(Debug, Deserialize)]
pub struct GitlabJob {
    pub id: Option<u64>,
    pub name: Option<String>,
    pub web_url: Option<String>,
    #[serde(default)]
    pub allow_failure: bool,
    status: Option<String>,
}

impl GithubRun {
    pub fn is_for_commit(&self, commit: &str) -> bool {
        self.head_sha.as_deref().is_some_and(|head| head.eq_ignore_ascii_case(commit))
    }

    pub fn state(&self) -> CiCheckState {
        CiCheckState::of_github_run(self.status.as_deref(), self.conclusion.as_deref())
    }
}

impl GithubStatus {
    pub fn state(&self) -> CiCheckState {
        CiCheckState::of_github_status(self.state.as_deref())
    }
}

impl GitlabPipeline {
    pub fn state(&self) -> CiCheckState {
        CiCheckState::of_gitlab(self.status.as_deref())
    }
}

impl GitlabJob {
    pub fn state(&self) -> CiCheckState {
        CiCheckState::of_gitlab(self.status.as_deref())
    }
}

/// The workflow runs that are checks of their own: those that have not ended, because a job that waits for another one has
/// no check run yet, and the newest of each workflow if it failed and none of its jobs did. Such a workflow was cancelled, or
/// ended before a job started.
pub fn select_workflow_runs(mut runs: Vec<GithubRun>, jobs: &[GithubRun]) -> Vec<GithubRun> {
    let failed_jobs = jobs.iter().filter(|job| job.state() == CiCheckState::Failed);
    let failed_suites: BTreeSet<u64> =
        failed_jobs.filter_map(|job| job.check_suite.as_ref()?.id).collect();
    // A person who repeats a workflow gets the same run or a newer one, which has a greater id.
    runs.sort_by_key(|run| Reverse(run.id));
    let mut seen = BTreeSet::new();
    runs.retain(|run| {
        // Other branches and events are other runs: with a new branch, an agent could otherwise replace a failed one.
        let is_newest = run.workflow_id.is_none_or(|workflow| {
            seen.insert((workflow, run.event.clone(), run.head_branch.clone()))
        });
        let has_failed_job = run.check_suite_id.is_some_and(|suite| failed_suites.contains(&suite));
        match run.state() {
            CiCheckState::Pending => true,
            CiCheckState::Failed => is_newest && !has_failed_job,
            CiCheckState::Passed | CiCheckState::Skipped => false,
        }
    });
    runs
}

/// The newest pipeline of each branch and source, because older ones were superseded. The list begins with the newest.
pub fn newest_pipelines(mut pipelines: Vec<GitlabPipeline>, commit: &str) -> Vec<GitlabPipeline> {
    let mut seen = BTreeSet::new();
    pipelines.retain(|pipeline| {
        let is_of_commit =
            pipeline.sha.as_deref().is_some_and(|sha| sha.eq_ignore_ascii_case(commit));
        is_of_commit && seen.insert((pipeline.r#ref.clone(), pipeline.source.clone()))
    });
    pipelines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A run per word, such as `7:1:failure`: its id, its workflow and its conclusion; `in_progress` has none.
    fn selected(runs: &str, jobs: &str) -> String {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let run = |word: String| -> GithubRun {
            let [id, workflow, conclusion] = *word.split(':').collect::<Vec<_>>() else { panic!() };
            let (workflow, branch) = workflow.split_once('@').unwrap_or((workflow, "main"));
            let id: u64 = id.parse().unwrap();
            let status = if conclusion == "in_progress" { conclusion } else { "completed" };
            serde_json::from_value(json!({
                "id": id, "check_suite_id": id * 10, "workflow_id": workflow.parse::<u64>().unwrap(),
                "event": "push", "head_branch": branch, "status": status, "conclusion": conclusion,
            }))
            .unwrap()
        };
        let job = |word: String| -> GithubRun {
            let (suite, conclusion) = word.split_once(':').unwrap();
            let suite: u64 = suite.parse().unwrap();
            serde_json::from_value(json!({
                "check_suite": { "id": suite }, "status": "completed", "conclusion": conclusion,
            }))
            .unwrap()
        };
        let jobs: Vec<_> = words(jobs).into_iter().map(job).collect();
        let found = select_workflow_runs(words(runs).into_iter().map(run).collect(), &jobs);
        found.iter().map(|run| run.id.unwrap().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// R-L7a: no failure of a workflow is lost because it has no job that failed.
    #[test]
    fn a_failed_workflow_without_a_failed_job_is_a_check() {
        for (runs, jobs, expected) in [
            ("7:1:success 8:2:skipped 9:3:neutral", "70:success", ""),
            ("7:1:cancelled", "70:success", "7"),
            ("7:1:failure", "70:success", "7"),
            ("7:1:failure", "70:failure", ""),
            ("7:1:failure", "80:failure", "7"),
            ("7:1:timed_out 8:2:stale 9:3:startup_failure", "70:success", "9 8 7"),
            ("7:1:action_required 8:2:in_progress", "70:success", "8 7"),
            // Only the newest run of a workflow.
            ("8:1:success 7:1:cancelled", "70:success", ""),
            ("7:1:success 8:1:cancelled", "70:success", "8"),
            ("8:1:success 7:1:in_progress", "70:success", "7"),
            ("8:1@other:success 7:1:cancelled", "70:success", "7"),
        ] {
            assert_eq!(selected(runs, jobs), expected, "{runs} | {jobs}");
        }
    }
}
