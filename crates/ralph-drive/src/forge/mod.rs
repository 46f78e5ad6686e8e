//! Pull requests through `gh` or `glab`: pushes a branch, opens a request and reads its checks.
//!
//! Both tools are used only for raw calls of the forge's API, with argument lists and JSON. Their own commands depend on
//! the repository's configuration, which the agent can edit, and that must not decide where a request goes.

mod body;
mod checks;
mod remote;
mod request;
mod tool;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::Deserialize;

use ralph_git::git;
use ralph_git::worktree::GitError;
use ralph_git::worktree::door::{At, Call};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;

pub use body::{Body, Line, MOST_CHARACTERS, Mark, body};
pub use checks::{Checks, Failed, checks};
pub use remote::{Pushed, push};
pub use request::{Opened, Request, open};
pub use tool::Tool;

use remote::Remote;
use tool::{Method, api};

/// The project that pull requests are opened on. Contains no secrets.
#[derive(Clone, Debug)]
pub struct Forge {
    pub tool: Tool,
    pub host: String,
    /// `owner/name`, or longer on GitLab.
    pub project: String,
    pub remote: String,
    /// The default target of a request.
    pub default_branch: Option<String>,
    addresses: remote::Addresses,
    env: Env,
}

#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    #[error("`{}` is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("the repository has no remote to push to")]
    NoRemote,
    #[error("the repository has several remotes, none is `origin`, and the branch has no upstream")]
    WhichRemote,
    #[error("remote `{0}` is not on a forge that supports pull requests")]
    NoForge(String),
    #[error("neither `gh` nor `glab` is logged in to `{0}`")]
    UnknownHost(String),
    #[error("`{}` is not installed; it is needed to open requests on `{host}`", tool.program())]
    NoTool { tool: Tool, host: String },
    #[error("`{}` is not logged in to `{host}`", tool.program())]
    NotLoggedIn { tool: Tool, host: String },
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
    Refused { tool: Tool, what: &'static str, status: Option<u16>, why: String },
    #[error("`{}` did not {what} in time", tool.program())]
    OutOfTime { tool: Tool, what: &'static str },
    #[error("`{}` gave an unexpected answer when asked to {what}", tool.program())]
    Odd { tool: Tool, what: &'static str },
    #[error(transparent)]
    Git(#[from] GitError),
}

impl ForgeError {
    /// A hint for the person, if there is one.
    pub fn hint(&self) -> Option<String> {
        const WITHOUT: &str = "or run without `--pr`";
        Some(match self {
            Self::NotARepository(_) => format!("run it in a git repository, {WITHOUT}"),
            Self::NoRemote => format!("add one: `git remote add origin URL`, {WITHOUT}"),
            Self::WhichRemote => {
                format!("choose one: `git branch --set-upstream-to=REMOTE/BRANCH`, {WITHOUT}")
            }
            Self::NoForge(_) => format!("push it to GitHub or GitLab, {WITHOUT}"),
            Self::UnknownHost(host) => format!(
                "`gh auth login --hostname {host}` or `glab auth login --hostname {host}`, {WITHOUT}"
            ),
            Self::NoTool { tool, .. } => format!("install it from {}, {WITHOUT}", tool.home()),
            Self::NotLoggedIn { tool, host } => {
                format!("`{} auth login --hostname {host}`, {WITHOUT}", tool.program())
            }
            Self::NoAccess { .. } | Self::ReadOnly { .. } => {
                format!("log in with an account that may push there, {WITHOUT}")
            }
            Self::RemoteChanged(remote) => {
                format!(
                    "check `git remote get-url --push {remote}`, and push manually if it is right"
                )
            }
            Self::PushRefused { remote, branch, .. } => {
                format!("run `git push {remote} {branch}` for details")
            }
            Self::Git(GitError::Missing) => "install git".to_owned(),
            Self::NotPushable { .. }
            | Self::Refused { .. }
            | Self::OutOfTime { .. }
            | Self::Odd { .. }
            | Self::Git(_) => return None,
        })
    }
}

/// Finds the forge and checks everything that a pull request needs, before any work is done. `tool` overrides the
/// detection.
pub fn check(
    project: &Path,
    env: &Env,
    tool: Option<Tool>,
    deadline: &Deadline,
) -> Result<Forge, ForgeError> {
    let nowhere = || ForgeError::NotARepository(project.to_owned());
    let project = fs::resolve(project).ok_or_else(nowhere)?;
    let root = git::root(&project).ok_or_else(nowhere)?;
    let at = At::Theirs(root.to_owned());
    let Remote { name, address, addresses } = remote::find(&Call::new(&at, deadline))?;
    let named = tool.or_else(|| Tool::of(&address.host));
    let tool = match named {
        Some(tool) => tool,
        None => logged_in(&address.host, env, deadline)?,
    };
    let host = address.host;
    if !tool::is_there(tool, env, deadline)? {
        return Err(ForgeError::NoTool { tool, host });
    }
    if !tool.takes(&address.path) {
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
    look_up(&mut forge, deadline)?;
    Ok(forge)
}

fn logged_in(host: &str, env: &Env, deadline: &Deadline) -> Result<Tool, ForgeError> {
    for tool in [Tool::GitHub, Tool::GitLab] {
        if tool::is_there(tool, env, deadline)? && tool::knows(tool, env, host, deadline)? {
            return Ok(tool);
        }
    }
    Err(ForgeError::UnknownHost(host.to_owned()))
}

#[derive(Deserialize)]
struct Found {
    #[serde(alias = "path_with_namespace")]
    full_name: Option<String>,
    default_branch: Option<String>,
    #[serde(default)]
    archived: bool,
    /// Used for GitHub only: GitLab's value leaves out indirect group memberships.
    permissions: Option<Permissions>,
}

#[derive(Deserialize)]
struct Permissions {
    push: Option<bool>,
}

/// Completes the project from the forge's answer. Its name may have changed if the project was moved.
fn look_up(forge: &mut Forge, deadline: &Deadline) -> Result<(), ForgeError> {
    const WHAT: &str = "find the project";
    let call = Method::Get.call(forge.tool.project(&forge.project), WHAT);
    let found: Found = match api(forge, &call, deadline) {
        Ok(found) => found,
        Err(ForgeError::Refused { why, .. }) => {
            let (tool, host) = (forge.tool, forge.host.clone());
            return Err(if tool::knows(tool, &forge.env, &host, deadline)? {
                ForgeError::NoAccess { project: forge.project.clone(), host, why }
            } else {
                ForgeError::NotLoggedIn { tool, host }
            });
        }
        Err(error) => return Err(error),
    };
    if let Some(name) = found.full_name.filter(|name| forge.tool.takes(name)) {
        forge.project = name;
    }
    forge.default_branch = found.default_branch.filter(|name| remote::is_branch(name));
    if found.archived || found.permissions.and_then(|can| can.push) == Some(false) {
        let (project, host) = (forge.project.clone(), forge.host.clone());
        return Err(ForgeError::ReadOnly { project, host });
    }
    Ok(())
}
