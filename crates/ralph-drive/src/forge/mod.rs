//! Pull requests and issues through `gh` or `glab`: pushes a branch, opens a request and reads its checks; reads issues and
//! comments on them.
//!
//! Both tools are used only for raw calls of the forge's API, with argument lists and JSON. Their own commands depend on
//! the repository's configuration, which the agent can edit, and that must not decide where a request goes.

mod checks;
mod forge_issues;
mod forge_tool;
mod pull_request;
mod remote;
mod request_body;
mod review_comments;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use ralph_git::worktree::GitCommandError;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

pub use checks::{FailedCheck, ForgeChecks, read_checks};
pub use forge_issues::ForgeIssue;
pub use forge_tool::ForgeTool;
pub use pull_request::{OpenedRequest, PullRequest, open_request};
pub use remote::{PushOutcome, push_branch};
pub use request_body::{
    MOST_CHARACTERS, RequestBody, RequirementLine, RequirementMark, code_fence, code_span,
    render_body,
};

pub use review_comments::{ReviewComment, read_review_comments};

use forge_tool::{ForgeMethod, call_api};
use remote::ForgeRemote;

/// The project that pull requests are opened on. Contains no secrets.
#[derive(Clone, Debug)]
pub struct Forge {
    pub tool: ForgeTool,
    pub host: String,
    /// `owner/name`, or longer on GitLab.
    pub project: String,
    pub remote: String,
    /// The default target of a request.
    pub default_branch: Option<String>,
    addresses: remote::PushAddresses,
    env: Env,
}

#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    #[error("`{}` is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("the repository has no remote to push to")]
    NoRemote,
    #[error("the repository has several remotes, none is `origin`, and the branch has no upstream")]
    AmbiguousRemote,
    #[error("remote `{0}` is not on a forge that supports pull requests")]
    NoForge(String),
    #[error("remote `{remote}` is on `{host}`, which `{}` does not know", tool.program())]
    OtherForge { remote: String, host: String, tool: ForgeTool },
    #[error("neither `gh` nor `glab` is logged in to `{0}`")]
    UnknownHost(String),
    #[error("`{}` is not installed; it is needed to open requests on `{host}`", tool.program())]
    NoTool { tool: ForgeTool, host: String },
    #[error("`{}` is not logged in to `{host}`", tool.program())]
    NotLoggedIn { tool: ForgeTool, host: String },
    #[error("cannot access `{project}` on `{host}`: {why}")]
    NoAccess { project: String, host: String, why: String },
    #[error("`{project}` on `{host}` is read-only for this login")]
    ReadOnly { project: String, host: String },
    #[error("the push address of remote `{0}` changed since the run began")]
    RemoteChanged(String),
    #[error("remote `{remote}` rejected `{branch}`: {why}")]
    PushRefused { remote: String, branch: String, why: String },
    #[error("a run may not push `{commit}` to `{branch}`")]
    NotPushable { branch: String, commit: String },
    #[error("`{}` could not {what}: {why}", tool.program())]
    Refused { tool: ForgeTool, what: &'static str, status: Option<u16>, why: String },
    #[error("`{}` did not {what} in time", tool.program())]
    OutOfTime { tool: ForgeTool, what: &'static str },
    #[error("`{}` gave an unexpected answer when asked to {what}", tool.program())]
    UnexpectedAnswer { tool: ForgeTool, what: &'static str },
    #[error("branch `{branch}` has no pull request")]
    NoRequest { branch: String },
    #[error(transparent)]
    Git(#[from] GitCommandError),
}

impl ForgeError {
    /// What a person who wants a pull request can do, if anything.
    pub fn hint(&self) -> Option<String> {
        let remedy = self.remedy()?;
        let is_about_set_up = match self {
            Self::NotARepository(_)
            | Self::NoRemote
            | Self::AmbiguousRemote
            | Self::NoForge(_)
            | Self::OtherForge { .. }
            | Self::UnknownHost(_)
            | Self::NoTool { .. }
            | Self::NotLoggedIn { .. }
            | Self::NoAccess { .. }
            | Self::ReadOnly { .. } => true,
            Self::RemoteChanged(_)
            | Self::PushRefused { .. }
            | Self::NotPushable { .. }
            | Self::Refused { .. }
            | Self::OutOfTime { .. }
            | Self::UnexpectedAnswer { .. }
            | Self::NoRequest { .. }
            | Self::Git(_) => false,
        };
        Some(if is_about_set_up { format!("{remedy}, or run without `--pr`") } else { remedy })
    }

    /// What removes the cause, if that is known.
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::NotARepository(_) => "run it in a git repository".to_owned(),
            Self::NoRemote => "add one: `git remote add origin URL`".to_owned(),
            Self::AmbiguousRemote => {
                "choose one: `git branch --set-upstream-to=REMOTE/BRANCH`".to_owned()
            }
            Self::NoForge(_) => "push it to GitHub or GitLab".to_owned(),
            Self::OtherForge { tool: ForgeTool::GitHub, .. } => {
                "name the project: `gh:owner/name#123`".to_owned()
            }
            Self::OtherForge { tool: ForgeTool::GitLab, .. } => {
                "name the project: `gl:group/name#45`".to_owned()
            }
            Self::UnknownHost(host) => {
                format!("`gh auth login --hostname {host}` or `glab auth login --hostname {host}`")
            }
            Self::NoTool { tool, .. } => format!("install it from {}", tool.home_page()),
            Self::NotLoggedIn { tool, host } => {
                format!("`{} auth login --hostname {host}`", tool.program())
            }
            Self::NoAccess { .. } | Self::ReadOnly { .. } => {
                "log in with an account that may push there".to_owned()
            }
            Self::RemoteChanged(remote) => {
                format!(
                    "check `git remote get-url --push {remote}`, and push manually if it is right"
                )
            }
            Self::PushRefused { remote, branch, .. } => {
                format!("run `git push {remote} {branch}` for details")
            }
            Self::Git(GitCommandError::Missing) => "install git".to_owned(),
            Self::NotPushable { .. }
            | Self::Refused { .. }
            | Self::OutOfTime { .. }
            | Self::UnexpectedAnswer { .. }
            | Self::NoRequest { .. }
            | Self::Git(_) => return None,
        })
    }
}

/// Finds the forge and checks everything that a pull request needs, before any work is done. `tool` overrides the
/// detection.
pub fn find_request_forge(
    project: &Path,
    env: &Env,
    tool: Option<ForgeTool>,
    deadline: &Deadline,
) -> Result<Forge, ForgeError> {
    let ForgeRemote { name, address, addresses } = remote::find_project_remote(project, deadline)?;
    let named = tool.or_else(|| ForgeTool::for_host(&address.host));
    let tool = match named {
        Some(tool) => tool,
        None => logged_in_tool(&address.host, env, deadline)?,
    };
    let host = address.host;
    if !forge_tool::is_installed(tool, env, deadline)? {
        return Err(ForgeError::NoTool { tool, host });
    }
    if !tool.accepts_path(&address.path) {
        return Err(ForgeError::NoForge(name));
    }
    let mut forge = Forge {
        tool,
        host,
        project: address.path,
        remote: name,
        default_branch: None,
        addresses,
        env: env.clone(),
    };
    look_up_project(&mut forge, deadline)?;
    Ok(forge)
}

fn logged_in_tool(host: &str, env: &Env, deadline: &Deadline) -> Result<ForgeTool, ForgeError> {
    for tool in [ForgeTool::GitHub, ForgeTool::GitLab] {
        if forge_tool::is_installed(tool, env, deadline)?
            && forge_tool::is_logged_in(tool, env, host, deadline)?
        {
            return Ok(tool);
        }
    }
    Err(ForgeError::UnknownHost(host.to_owned()))
}

#[derive(Deserialize)]
struct ForgeProject {
    #[serde(alias = "path_with_namespace")]
    full_name: Option<String>,
    default_branch: Option<String>,
    #[serde(default)]
    archived: bool,
    /// Used for GitHub only: GitLab's value leaves out indirect group memberships.
    permissions: Option<ForgePermissions>,
}

#[derive(Deserialize)]
struct ForgePermissions {
    push: Option<bool>,
}

/// Completes the project from the forge's answer. Its name may have changed if the project was moved.
fn look_up_project(forge: &mut Forge, deadline: &Deadline) -> Result<(), ForgeError> {
    const WHAT: &str = "find the project";
    let call = ForgeMethod::Get.call(forge.tool.project_endpoint(&forge.project), WHAT);
    let found: ForgeProject = match call_api(forge, &call, deadline) {
        Ok(found) => found,
        Err(ForgeError::Refused { why, .. }) => {
            let (tool, host) = (forge.tool, forge.host.clone());
            return Err(if forge_tool::is_logged_in(tool, &forge.env, &host, deadline)? {
                ForgeError::NoAccess { project: forge.project.clone(), host, why }
            } else {
                ForgeError::NotLoggedIn { tool, host }
            });
        }
        Err(error) => return Err(error),
    };
    if let Some(name) = found.full_name.filter(|name| forge.tool.accepts_path(name)) {
        forge.project = name;
    }
    forge.default_branch = found.default_branch.filter(|name| remote::is_plain_name(name));
    if found.archived || found.permissions.and_then(|can| can.push) == Some(false) {
        let (project, host) = (forge.project.clone(), forge.host.clone());
        return Err(ForgeError::ReadOnly { project, host });
    }
    Ok(())
}
