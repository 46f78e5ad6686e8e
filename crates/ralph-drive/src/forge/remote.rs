//! Selects the remote, parses its address and pushes the branch.

use ralph_core::drive::RunWorktree;
use ralph_core::id::RunId;
use ralph_core::text;

use super::{Forge, ForgeError, forge_tool};
use ralph_git::git;
use ralph_git::worktree::git_command::{GitCommand, GitLocation};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use std::path::Path;

const MAX_WHY_CHARS: usize = 300;
/// Alternative host names of forges.
const ALIASES: [(&str, &str); 3] = [
    ("ssh.github.com", "github.com"),
    ("www.github.com", "github.com"),
    ("altssh.gitlab.com", "gitlab.com"),
];

pub(super) struct ForgeRemote {
    pub(super) name: String,
    pub(super) address: RemoteAddress,
    pub(super) addresses: PushAddresses,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct RemoteAddress {
    pub(super) host: String,
    pub(super) path: String,
}

/// A hash of the push addresses, to detect changes. The addresses themselves may contain a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PushAddresses(blake3::Hash);

impl PushAddresses {
    /// For a project that nothing is pushed to.
    pub(super) fn none() -> Self {
        Self(blake3::hash(b""))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    Pushed,
    /// The remote already had the commit.
    UpToDate,
}

/// The remote of the repository that a project is in.
pub(super) fn find_project_remote(
    project: &Path,
    deadline: &Deadline,
) -> Result<ForgeRemote, ForgeError> {
    let nowhere = || ForgeError::NotARepository(project.to_owned());
    let project = fs::resolve(project).ok_or_else(nowhere)?;
    let root = git::work_tree_root(&project).ok_or_else(nowhere)?;
    let at = GitLocation::UserRepository(root.to_owned());
    find_remote(&GitCommand::new(&at, deadline))
}

/// The upstream remote of the current branch, else `origin`, else the only remote.
fn find_remote(call: &GitCommand<'_>) -> Result<ForgeRemote, ForgeError> {
    let listed = String::from_utf8_lossy(&call.run_checked(&["remote"])?).into_owned();
    let names: Vec<&str> = listed.lines().filter(|name| is_plain_name(name)).collect();
    let on = call.run_line(&["symbolic-ref", "--quiet", "--short", "HEAD"])?;
    let upstream = match on {
        Some(branch) => call.run_line(&["config", "--get", &format!("branch.{branch}.remote")])?,
        None => None,
    };
    let known = |name: &str| names.iter().find(|known| **known == name).copied();
    let only = || if let [only] = names.as_slice() { Some(*only) } else { None };
    let name = upstream.as_deref().and_then(known).or_else(|| known("origin")).or_else(only);
    let Some(name) = name else {
        return Err(if names.is_empty() {
            ForgeError::NoRemote
        } else {
            ForgeError::AmbiguousRemote
        });
    };
    let url = call.run_line(&["remote", "get-url", name])?.unwrap_or_default();
    let address = RemoteAddress::parse(&url).ok_or_else(|| ForgeError::NoForge(name.to_owned()))?;
    Ok(ForgeRemote { name: name.to_owned(), address, addresses: push_addresses(call, name)? })
}

fn push_addresses(call: &GitCommand<'_>, name: &str) -> Result<PushAddresses, ForgeError> {
    let urls = call.run_checked(&["remote", "get-url", "--push", "--all", name])?;
    Ok(PushAddresses(blake3::hash(&urls)))
}

impl RemoteAddress {
    /// `None` for a directory and for anything that is not an address.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let (authority, path, keeps_port) = if let Some((scheme, rest)) = url.split_once("://") {
            let keeps_port = match scheme {
                "http" | "https" => true,
                "ssh" | "git" | "git+ssh" | "ssh+git" => false,
                _ => return None,
            };
            let (authority, path) = rest.split_once('/')?;
            (authority, path, keeps_port)
        } else {
            // The `scp` form: with a slash before the colon it is a directory, with a second colon a remote helper.
            let (authority, path) = url.split_once(':')?;
            let is_address = !authority.contains('/') && !path.starts_with(':');
            is_address.then_some((authority, path, false))?
        };
        let host = authority.rsplit('@').next()?;
        let host = match host.split_once(':') {
            Some((name, _)) if !keeps_port => name,
            Some((name, "443" | "80")) => name,
            Some(_) | None => host,
        };
        let host = host.to_ascii_lowercase();
        let is_host =
            host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
        (is_host && !host.is_empty() && !host.starts_with('-')).then_some(())?;
        let alias = ALIASES.iter().find(|(alias, _)| *alias == host);
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path).to_owned();
        Some(Self { host: alias.map_or(host, |(_, name)| (*name).to_owned()), path })
    }
}

/// A name that cannot be taken for an option and needs no escaping in an address.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 400
        && !name.starts_with('-')
        && !name.contains("..")
        && !name.chars().any(|char| {
            char.is_control() || char.is_whitespace() || "~^:?*[\\&#%+\"'`".contains(char)
        })
}

/// Pushes exactly this commit to the run's branch on the remote, never with force.
pub fn push_branch(
    forge: &Forge,
    worktree: &RunWorktree,
    commit: &str,
    deadline: &Deadline,
) -> Result<PushOutcome, ForgeError> {
    let branch = worktree.branch.as_str();
    let run = branch.strip_prefix("ralph/").and_then(RunId::parse);
    let is_commit =
        matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if run.is_none() || !is_commit {
        let (branch, commit) = (text::clean_line(branch, 100), text::clean_line(commit, 100));
        return Err(ForgeError::NotPushable { branch, commit });
    }
    let at = GitLocation::UserRepository(worktree.from.clone().into());
    let given = forge_tool::login_environment(&forge.env);
    let call = GitCommand { network_env: Some(&given), ..GitCommand::new(&at, deadline) };
    // The agent can edit the repository's configuration and must not choose where the person's credentials go.
    if push_addresses(&call, &forge.remote)? != forge.addresses {
        return Err(ForgeError::RemoteChanged(forge.remote.clone()));
    }
    let refspec = format!("{commit}:refs/heads/{branch}");
    let options = ["push", "--porcelain", "--no-verify", "--no-signed", "--no-force-with-lease"];
    let said =
        call.run(&[&options[..], &["--no-follow-tags", "--", &forge.remote, &refspec]].concat())?;
    let output = String::from_utf8_lossy(&said.stdout);
    let line = output.lines().find_map(|line| parse_push_line(line, branch));
    match (said.code, line) {
        (0, Some(('=', _))) => Ok(PushOutcome::UpToDate),
        (0, _) => Ok(PushOutcome::Pushed),
        (_, Some((_, why))) => Err(push_refused(forge, branch, &why)),
        (code, None) => Err(push_refused(forge, branch, &format!("git exited with {code}"))),
    }
}

fn push_refused(forge: &Forge, branch: &str, why: &str) -> ForgeError {
    let why = text::clean_line(why, MAX_WHY_CHARS);
    ForgeError::PushRefused { remote: forge.remote.clone(), branch: branch.to_owned(), why }
}

/// Parses a line such as `!\t<from>:<to>\t[rejected] (non-fast-forward)` into its flag and summary.
fn parse_push_line(line: &str, branch: &str) -> Option<(char, String)> {
    let mut fields = line.splitn(3, '\t');
    let flag = fields.next()?.chars().next()?;
    let (_, to) = fields.next()?.split_once(':')?;
    (to == format!("refs/heads/{branch}"))
        .then(|| (flag, fields.next().unwrap_or_default().to_owned()))
}
