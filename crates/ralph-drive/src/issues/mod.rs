//! Issues of a tracker as goals: reads them, and comments on them when a run has ended.
//!
//! ```text
//! issue_reference ─▶ forge (gh, glab) · beads (bd, its file) · issue_feed (a command, a file) ─▶ TrackerIssue
//!                                                                                                │
//!                                               issue_goal: goal · items · commands to approve ◀─┘
//! ```
//!
//! An issue is hostile data: anyone may have written it. It is read once, bounded, and kept as it was read; whatever
//! becomes of the issue later does not count. Nothing of it runs here, and nothing here reads a token.

mod beads;
mod issue_comment;
mod issue_feed;
mod issue_goal;
mod issue_reference;
mod issue_tracker;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use ralph_core::text;
use ralph_sys::fs::FileError;
use serde::{Deserialize, Serialize};

use crate::forge::{ForgeError, ForgeTool};

pub use issue_comment::{IssueComment, render_comment};
pub use issue_goal::IssueGoal;
pub use issue_reference::{IssueQueue, IssueReference};
pub use issue_tracker::{IssueAccess, add_comment, list_issues, read_issue};

/// The longest text of an issue that is accepted. GitHub allows 65,536 characters.
pub const MAX_BODY_BYTES: usize = 256 * 1024;
/// The most issues of a queue.
pub const MAX_ISSUES: usize = 200;
const MAX_TITLE_CHARS: usize = 300;
const MAX_ID_BYTES: usize = 56;
const MAX_LABELS: usize = 50;
const MAX_LABEL_CHARS: usize = 100;
const MAX_URL_CHARS: usize = 500;

/// An issue as it was read. This text is what a run is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackerIssue {
    /// `123`, or `bd-a1b2`.
    pub id: String,
    pub title: String,
    #[serde(default)]
    pub body: String,
    #[serde(default)]
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default)]
    pub is_closed: bool,
    /// Where a comment goes. Only ralph sets it: a file or a command must not choose where a login is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracker: Option<IssueTracker>,
}

/// Where an issue comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum IssueTracker {
    Github { host: String, project: String },
    Gitlab { host: String, project: String },
    Beads { project: PathBuf },
}

impl TrackerIssue {
    /// Bounds and cleans what a tracker returned. The body stays as it is, apart from its line ends.
    fn checked(self) -> Result<Self, IssueError> {
        let shown = text::clean_line(&self.id, 80);
        if !is_issue_id(&self.id) {
            return Err(IssueError::InvalidId(shown));
        }
        if self.body.len() > MAX_BODY_BYTES {
            return Err(IssueError::TooLong(shown));
        }
        let title = text::clean_line(&self.title, MAX_TITLE_CHARS);
        if title.is_empty() {
            return Err(IssueError::NoTitle(shown));
        }
        let labels = self.labels.iter().take(MAX_LABELS);
        Ok(Self {
            title,
            body: self.body.replace("\r\n", "\n"),
            labels: labels.map(|label| text::clean_line(label, MAX_LABEL_CHARS)).collect(),
            url: self.url.filter(|url| is_web_address(url)),
            ..self
        })
    }

    /// The name of its task in a queue, and of its loop.
    pub fn task_name(&self) -> String {
        let is_number = self.id.bytes().all(|byte| byte.is_ascii_digit());
        // ralph adopts a loop with this name into a session, which an issue must not cause.
        let is_adopted = self.id.eq_ignore_ascii_case("current");
        if is_number || is_adopted { format!("issue-{}", self.id) } else { self.id.clone() }
    }

    /// The issue in the notation of `--issue`.
    pub fn reference(&self) -> String {
        match &self.tracker {
            Some(IssueTracker::Github { project, .. }) => format!("gh:{project}#{}", self.id),
            Some(IssueTracker::Gitlab { project, .. }) => format!("gl:{project}#{}", self.id),
            Some(IssueTracker::Beads { .. }) => format!("bd:{}", self.id),
            None => self.id.clone(),
        }
    }
}

/// An id that is a valid name of a file and of a task.
fn is_issue_id(id: &str) -> bool {
    id.starts_with(|char: char| char.is_ascii_alphanumeric())
        && id.len() <= MAX_ID_BYTES
        && id.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
}

fn is_web_address(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://"))
        && url.len() <= MAX_URL_CHARS
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("`{0}` does not name an issue")]
    NotAReference(String),
    #[error("`{0}` does not name a queue of issues")]
    NotAQueue(String),
    #[error(
        "cannot tell which tracker has issue `{0}`: a number needs a remote on GitHub or GitLab, any other id a `.beads` directory"
    )]
    NoTracker(String),
    #[error("the repository has no remote on GitHub or GitLab")]
    NoRemoteProject,
    #[error("issue `{0}` does not exist on {1}")]
    Missing(String, String),
    #[error("`{0}` is a pull request, not an issue")]
    IsRequest(String),
    #[error("`{0}` is not a valid id of an issue")]
    InvalidId(String),
    #[error("the text of issue `{0}` is longer than {kib} KiB", kib = MAX_BODY_BYTES / 1024)]
    TooLong(String),
    #[error("issue `{0}` has no title")]
    NoTitle(String),
    #[error("issue `{id}` has more than {most} {what}")]
    TooMany { id: String, what: &'static str, most: usize },
    #[error("no open issue in `{0}`")]
    NoIssues(String),
    #[error("`{0}` lists no open issue")]
    NothingListed(String),
    #[error("more than {MAX_ISSUES} open issues in `{0}`")]
    TooManyIssues(String),
    #[error("`{0}` is in the queue twice")]
    Duplicate(String),
    #[error("`{}` is not installed; issues on `{host}` are read with it", tool.program())]
    NoForgeTool { tool: ForgeTool, host: String },
    #[error("`bd` is not installed, and there is no `{}`", .0.display())]
    NoBeads(PathBuf),
    #[error("`bd` is not installed; comments are written with it")]
    NoBeadsProgram,
    #[error(
        "`bd` runs programs of the project when it adds a comment, and no person approved `{}`",
        text::clean_line(&.0.to_string_lossy(), 400)
    )]
    BeadsHooks(PathBuf),
    #[error("`{0}` resolves to a path outside the project")]
    OutsideProject(&'static str),
    #[error("`{program}` could not {what}: {why}")]
    Program { program: String, what: &'static str, why: String },
    #[error("`{0}` printed something other than issues as JSON: {1}")]
    Unexpected(String, String),
    #[error("`{0}` does not contain an issue as JSON: {1}")]
    NotAnIssueFile(String, String),
    #[error("the issue has no tracker that ralph knows, so it cannot get a comment")]
    NoComments,
    #[error(transparent)]
    Forge(ForgeError),
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<ForgeError> for IssueError {
    fn from(error: ForgeError) -> Self {
        match error {
            ForgeError::NoTool { tool, host } => Self::NoForgeTool { tool, host },
            // Their texts are about pushing.
            ForgeError::NotARepository(_) | ForgeError::NoRemote | ForgeError::NoForge(_) => {
                Self::NoRemoteProject
            }
            error @ (ForgeError::AmbiguousRemote
            | ForgeError::OtherForge { .. }
            | ForgeError::UnknownHost(_)
            | ForgeError::NotLoggedIn { .. }
            | ForgeError::NoAccess { .. }
            | ForgeError::ReadOnly { .. }
            | ForgeError::RemoteChanged(_)
            | ForgeError::PushRefused { .. }
            | ForgeError::NotPushable { .. }
            | ForgeError::Refused { .. }
            | ForgeError::OutOfTime { .. }
            | ForgeError::UnexpectedAnswer { .. }
            | ForgeError::NoRequest { .. }
            | ForgeError::Git(_)) => Self::Forge(error),
        }
    }
}

impl IssueError {
    /// What the person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotAReference(_) => {
                "use `123`, `gh:owner/name#123`, `gl:group/name#45`, `bd:ID`, `file:FILE` or an address".to_owned()
            }
            Self::NotAQueue(_) => {
                "use `gh:label:NAME`, `gl:label:NAME`, `bd:ready` or `cmd:PROGRAM ARG…`".to_owned()
            }
            Self::NoTracker(_) => {
                "name it: `gh:owner/name#123`, `gl:group/name#45`, `bd:ID`, or its address".to_owned()
            }
            Self::NoRemoteProject => {
                "name the project: `gh:owner/name#123` or `gl:group/name#45`".to_owned()
            }
            Self::NoForgeTool { tool, host } => format!(
                "install it from {}, then `{} auth login --hostname {host}`",
                tool.home_page(),
                tool.program()
            ),
            Self::NoBeads(_) | Self::NoBeadsProgram => {
                "install it from https://github.com/steveyegge/beads".to_owned()
            }
            Self::BeadsHooks(_) => {
                "read what it runs, then add the comment yourself with `bd comments add`".to_owned()
            }
            Self::OutsideProject(_) => "replace the link by a file, or install `bd`".to_owned(),
            Self::TooLong(_) => {
                "put long material into files of the project and name them in the issue".to_owned()
            }
            Self::TooMany { .. } => "split the issue".to_owned(),
            Self::TooManyIssues(_) => format!("list at most {MAX_ISSUES}, such as by a narrower label"),
            Self::NoIssues(_) => "label an open issue first, or check the name".to_owned(),
            Self::NothingListed(command) => {
                format!("run `{command}` in the project to see what it prints; closed issues do not count")
            }
            Self::NotAnIssueFile(..) => {
                "it must contain {\"id\", \"title\", \"body\", \"labels\", \"url\"}".to_owned()
            }
            Self::Program { .. } => "run it in the project by hand to see its own errors".to_owned(),
            Self::Duplicate(_) => "each issue needs an id of its own".to_owned(),
            Self::Unexpected(..) => {
                "it must print a JSON array of {\"id\", \"title\", \"body\", \"labels\", \"url\"}".to_owned()
            }
            Self::NoComments => "run it without `--comment`".to_owned(),
            Self::Missing(..) => "check the number, and that your login may read the project".to_owned(),
            Self::IsRequest(_) => "name an issue".to_owned(),
            Self::Forge(error) => return error.remedy(),
            Self::InvalidId(_) => format!("an id has at most {MAX_ID_BYTES} letters, digits, `.`, `_` and `-`"),
            Self::NoTitle(_) => "give it a title: it is the first line of the goal".to_owned(),
            Self::File(_) => return None,
        })
    }
}
