//! The notations of `--issue` and `--queue` for issues.

use ralph_core::text;

use super::{IssueError, is_issue_id};
use crate::forge::ForgeTool;

const MAX_LABEL_CHARS: usize = 100;
const GITHUB_HOST: &str = "github.com";
const GITLAB_HOST: &str = "gitlab.com";

/// The issue that a person names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueReference {
    /// An id alone. The project decides which tracker has it.
    Bare(String),
    Forge {
        /// `None`: the remote of the project.
        project: Option<ForgeProjectName>,
        tool: ForgeTool,
        number: u64,
    },
    Beads(String),
    /// A JSON file with one issue.
    File(String),
}

/// A project on a forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeProjectName {
    pub host: String,
    pub path: String,
}

/// Many issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IssueQueue {
    Label {
        tool: ForgeTool,
        label: String,
    },
    BeadsReady,
    /// A program of the person and its arguments. It prints the issues as JSON.
    Command(Vec<String>),
}

impl IssueReference {
    pub fn parse(given: &str) -> Result<Self, IssueError> {
        Self::find(given.trim())
            .ok_or_else(|| IssueError::NotAReference(text::clean_line(given, 200)))
    }

    fn find(given: &str) -> Option<Self> {
        if let Some(file) = given.strip_prefix("file:") {
            return (!file.is_empty()).then(|| Self::File(file.to_owned()));
        }
        if let Some(id) = given.strip_prefix("bd:") {
            return is_issue_id(id).then(|| Self::Beads(id.to_owned()));
        }
        for (prefix, tool) in [("gh:", ForgeTool::GitHub), ("gl:", ForgeTool::GitLab)] {
            if let Some(rest) = given.strip_prefix(prefix) {
                return forge_reference(tool, rest);
            }
        }
        if let Some(rest) = given.strip_prefix("https://").or_else(|| given.strip_prefix("http://"))
        {
            return address_reference(rest);
        }
        let id = given.strip_prefix('#').unwrap_or(given);
        is_issue_id(id).then(|| Self::Bare(id.to_owned()))
    }
}

/// `123`, `#123` or `owner/name#123`.
fn forge_reference(tool: ForgeTool, rest: &str) -> Option<IssueReference> {
    let (path, number) = rest.rsplit_once('#').unwrap_or(("", rest));
    let host = match tool {
        ForgeTool::GitHub => GITHUB_HOST,
        ForgeTool::GitLab => GITLAB_HOST,
    };
    let project = match path {
        "" => None,
        path if tool.accepts_path(path) => {
            Some(ForgeProjectName { host: host.to_owned(), path: path.to_owned() })
        }
        _ => return None,
    };
    Some(IssueReference::Forge { project, tool, number: issue_number(number)? })
}

/// `github.com/owner/name/issues/123` or `gitlab.com/group/name/-/issues/45`.
fn address_reference(rest: &str) -> Option<IssueReference> {
    let rest = rest.split(['?', '#']).next()?.trim_end_matches('/');
    let (host, path) = rest.split_once('/')?;
    let is_host = !host.is_empty()
        && !host.starts_with('-')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
    let (path, number) = path.rsplit_once('/')?;
    let (tool, path) = match path.strip_suffix("/-/issues") {
        Some(path) => (ForgeTool::GitLab, path),
        None => (ForgeTool::GitHub, path.strip_suffix("/issues")?),
    };
    (is_host && tool.accepts_path(path)).then_some(())?;
    let project = ForgeProjectName { host: host.to_ascii_lowercase(), path: path.to_owned() };
    Some(IssueReference::Forge { project: Some(project), tool, number: issue_number(number)? })
}

pub(super) fn issue_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten().filter(|number| *number > 0)
}

impl IssueQueue {
    /// `None` for the path of a queue file.
    pub fn parse(given: &str) -> Option<Result<Self, IssueError>> {
        let found = if let Some(rest) = given.strip_prefix("gh:") {
            label_queue(ForgeTool::GitHub, rest)
        } else if let Some(rest) = given.strip_prefix("gl:") {
            label_queue(ForgeTool::GitLab, rest)
        } else if let Some(rest) = given.strip_prefix("bd:") {
            (rest == "ready").then_some(Self::BeadsReady)
        } else if let Some(rest) = given.strip_prefix("cmd:") {
            let words: Vec<_> = rest.split_whitespace().map(str::to_owned).collect();
            (!words.is_empty()).then_some(Self::Command(words))
        } else {
            return None;
        };
        Some(found.ok_or_else(|| IssueError::NotAQueue(text::clean_line(given, 200))))
    }
}

/// A comma would ask the forge for issues with several labels.
fn label_queue(tool: ForgeTool, rest: &str) -> Option<IssueQueue> {
    let label = rest.strip_prefix("label:")?.trim();
    let is_label = !label.is_empty()
        && label.chars().count() <= MAX_LABEL_CHARS
        && !label.chars().any(|char| text::is_hidden(char) || char == ',');
    is_label.then(|| IssueQueue::Label { tool, label: label.to_owned() })
}
