//! Runs git commands that write: in a run's work tree, or to move a branch that the user named. Read-only queries are
//! in `crate::git`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ralph_sys::clock::Deadline;
use ralph_sys::proc::ProgramLimits;

pub use crate::hardened_git::{GitCommandError, GitOutput};
use crate::hardened_git::{HardenedGit, MAX_OUTPUT_BYTES, subcommand};

/// Of the programs that the configuration names, only filters and merge drivers run, because without them files would
/// differ from those that the user's own git writes. Git does not prompt, sign, collect garbage or record anything in
/// the repository beyond the command's purpose.
const SETTINGS: [&str; 10] = [
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "rerere.enabled=false",
    "worktree.useRelativePaths=false",
    "submodule.recurse=false",
    "push.recurseSubmodules=no",
    "push.followTags=false",
    "advice.addEmbeddedRepo=false",
];

/// Allows the usual protocols, but not `ext::`, which runs a command. A program that would ask for a password, on a
/// terminal or in a window, gets `false` instead.
const NETWORK_ENV: [(&str, &str); 3] = [
    ("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
];

/// The repository that git runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitLocation {
    /// The user's repository at exactly this directory.
    UserRepository(PathBuf),
    /// A run's work tree, by its administrative directory. Its `.git` file is not read, because the agent can change
    /// it.
    RunWorktree { git_dir: PathBuf, root: PathBuf },
}

#[derive(Clone, Copy, Debug)]
pub struct GitCommand<'a> {
    pub location: &'a GitLocation,
    pub deadline: &'a Deadline,
    /// Environment variables for a command that uses the network. `None` forbids the network.
    pub network_env: Option<&'a [(OsString, OsString)]>,
}

impl<'a> GitCommand<'a> {
    pub fn new(at: &'a GitLocation, deadline: &'a Deadline) -> Self {
        Self { location: at, deadline, network_env: None }
    }

    /// Runs git and returns its output. Any exit code but 0 is an error.
    pub fn run_checked<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<Vec<u8>, GitCommandError> {
        match self.run(arguments)? {
            GitOutput { code: 0, stdout, .. } => Ok(stdout),
            GitOutput { code, .. } => Err(self.unexpected_exit(arguments, code)),
        }
    }

    fn unexpected_exit<S: AsRef<OsStr>>(&self, arguments: &[S], code: i32) -> GitCommandError {
        let why = format!("exited with {code} in `{}`", self.location.root().display());
        GitCommandError::Failed { what: subcommand(arguments), why }
    }

    /// Runs a command that prints one line, or exits with 1 if there is nothing to print.
    pub fn run_line<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<Option<String>, GitCommandError> {
        let output = self.run(arguments)?;
        match output.code {
            0 => {
                let line = String::from_utf8(output.stdout)
                    .map_err(|_| GitCommandError::unexpected_output(&subcommand(arguments)))?;
                Ok(Some(line.trim_end_matches('\n').to_owned()).filter(|line| !line.is_empty()))
            }
            1 => Ok(None),
            code => Err(self.unexpected_exit(arguments, code)),
        }
    }

    /// Runs a command that exits with 0 for yes and 1 for no.
    pub(crate) fn run_yes_no<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<bool, GitCommandError> {
        match self.run(arguments)?.code {
            0 => Ok(true),
            1 => Ok(false),
            code => Err(self.unexpected_exit(arguments, code)),
        }
    }

    /// Runs git and returns its output and exit code.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<GitOutput, GitCommandError> {
        let root = self.location.root();
        let mut git = HardenedGit::new(root)
            .option("--literal-pathspecs")
            .settings(&SETTINGS)
            .confine_to(root)
            .without_replacements()
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "false");
        if let GitLocation::RunWorktree { git_dir, root } = self.location {
            git = git.path_option("--git-dir=", git_dir).path_option("--work-tree=", root);
        }
        git = match self.network_env {
            None => git.offline(),
            Some(given) => {
                git = NETWORK_ENV.iter().fold(git, |git, (name, value)| git.env(*name, *value));
                given.iter().fold(git, |git, (name, value)| git.env(name, value))
            }
        };
        let limits = ProgramLimits { deadline: *self.deadline, max_output_bytes: MAX_OUTPUT_BYTES };
        let output = git.run(arguments, None, &limits)?;
        if output.truncated {
            return Err(GitCommandError::too_much_output(&subcommand(arguments)));
        }
        Ok(output)
    }
}

impl GitLocation {
    pub(crate) fn root(&self) -> &Path {
        match self {
            Self::UserRepository(root) | Self::RunWorktree { root, .. } => root,
        }
    }
}
