//! Finds the tracker of an issue and calls it.

use std::path::Path;

use ralph_core::text;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;

use super::issue_reference::issue_number;
use super::{
    IssueError, IssueQueue, IssueReference, IssueTracker, MAX_ISSUES, TrackerIssue, beads,
    issue_feed,
};
use crate::forge::{self, Forge, ForgeError, ForgeIssue, ForgeTool};

/// Where issues are looked for.
#[derive(Clone, Copy, Debug)]
pub struct IssueAccess<'a> {
    /// The project, with symbolic links resolved.
    pub project: &'a Path,
    /// The directory that relative paths of a person are relative to.
    pub here: &'a Path,
    pub env: &'a Env,
    pub deadline: &'a Deadline,
}

/// Reads the issue that a person names.
pub fn read_issue(
    access: &IssueAccess<'_>,
    reference: &IssueReference,
) -> Result<TrackerIssue, IssueError> {
    let IssueAccess { project, here, env, deadline } = *access;
    match reference {
        IssueReference::File(path) => issue_feed::issue_of_file(&here.join(path)),
        IssueReference::Beads(id) => beads::read_issue(id, project, env, deadline),
        IssueReference::Forge { project: named, tool, number } => {
            let forge = match named {
                Some(name) => Forge::named(*tool, &name.host, &name.path, env, deadline)?,
                None => Forge::for_issues(project, env, Some(*tool), deadline)?,
            };
            forge_issue(&forge, *number, deadline)
        }
        IssueReference::Bare(id) => match issue_number(id) {
            Some(number) => match Forge::for_issues(project, env, None, deadline) {
                Ok(forge) => forge_issue(&forge, number, deadline),
                Err(
                    ForgeError::NotARepository(_) | ForgeError::NoRemote | ForgeError::NoForge(_),
                ) => Err(IssueError::NoTracker(id.clone())),
                Err(error) => Err(error.into()),
            },
            None if fs::is_directory(&project.join(beads::DIRECTORY)) => {
                beads::read_issue(id, project, env, deadline)
            }
            None => Err(IssueError::NoTracker(id.clone())),
        },
    }
}

/// Lists the open issues of a queue, in the order of the tracker.
pub fn list_issues(
    access: &IssueAccess<'_>,
    queue: &IssueQueue,
) -> Result<Vec<TrackerIssue>, IssueError> {
    let IssueAccess { project, env, deadline, .. } = *access;
    let (name, issues) = match queue {
        IssueQueue::Label { tool, label } => {
            let forge = Forge::for_issues(project, env, Some(*tool), deadline)?;
            let found = forge.list_issues(label, MAX_ISSUES + 1, deadline)?;
            let issues: Result<Vec<_>, _> =
                found.into_iter().map(|issue| checked_issue(&forge, issue)).collect();
            (label.clone(), issues?)
        }
        IssueQueue::BeadsReady => {
            ("bd ready".to_owned(), beads::ready_issues(project, env, deadline)?)
        }
        IssueQueue::Command(words) => (
            text::clean_line(&words.join(" "), 200),
            issue_feed::issues_of_command(words, project, env, deadline)?,
        ),
    };
    let issues: Vec<_> = issues.into_iter().filter(|issue| !issue.is_closed).collect();
    if issues.is_empty() {
        return Err(match queue {
            IssueQueue::Label { .. } => IssueError::NoIssues(name),
            IssueQueue::BeadsReady | IssueQueue::Command(_) => IssueError::NothingListed(name),
        });
    }
    if issues.len() > MAX_ISSUES {
        return Err(IssueError::TooManyIssues(name));
    }
    let mut names: Vec<_> = issues.iter().map(TrackerIssue::task_name).collect();
    names.sort();
    if let Some([twice, _]) = names.array_windows().find(|[one, other]| one == other) {
        return Err(IssueError::Duplicate(twice.clone()));
    }
    Ok(issues)
}

/// Adds a comment with the content of a file.
pub fn add_comment(
    issue: &TrackerIssue,
    comment: &Path,
    env: &Env,
    deadline: &Deadline,
) -> Result<(), IssueError> {
    let (tool, host, project) = match &issue.tracker {
        None => return Err(IssueError::NoComments),
        Some(IssueTracker::Beads { project }) => {
            return beads::add_comment(&issue.id, comment, project, env, deadline);
        }
        Some(IssueTracker::Github { host, project }) => (ForgeTool::GitHub, host, project),
        Some(IssueTracker::Gitlab { host, project }) => (ForgeTool::GitLab, host, project),
    };
    let number = issue_number(&issue.id).ok_or_else(|| IssueError::InvalidId(issue.id.clone()))?;
    let forge = Forge::named(tool, host, project, env, deadline)?;
    Ok(forge.comment_on_issue(number, comment, deadline)?)
}

fn forge_issue(
    forge: &Forge,
    number: u64,
    deadline: &Deadline,
) -> Result<TrackerIssue, IssueError> {
    match forge.read_issue(number, deadline) {
        Ok(issue) => checked_issue(forge, issue),
        Err(forge::ForgeError::Refused { status: Some(404 | 410), .. }) => {
            Err(IssueError::Missing(format!("{}#{number}", forge.project), forge.host.clone()))
        }
        Err(error) => Err(error.into()),
    }
}

fn checked_issue(forge: &Forge, issue: ForgeIssue) -> Result<TrackerIssue, IssueError> {
    let id = issue.number.to_string();
    if issue.is_request {
        return Err(IssueError::IsRequest(format!("{}#{id}", forge.project)));
    }
    let (host, project) = (forge.host.clone(), forge.project.clone());
    let tracker = match forge.tool {
        ForgeTool::GitHub => IssueTracker::Github { host, project },
        ForgeTool::GitLab => IssueTracker::Gitlab { host, project },
    };
    let issue = TrackerIssue {
        id,
        title: issue.title,
        body: issue.body,
        labels: issue.labels,
        url: issue.url,
        is_closed: issue.is_closed,
        tracker: Some(tracker),
    };
    issue.checked()
}
