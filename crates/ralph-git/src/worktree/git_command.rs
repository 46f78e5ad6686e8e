//! Runs git commands that write: in a run's work tree, or to move a branch that the user named. Read-only queries are
//! in `crate::git`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use ralph_sys::clock::Deadline;
use ralph_sys::proc::{self, ProgramEnd, ProgramLimits, ProgramSpec};

const MAX_OUTPUT_BYTES: usize = 32 * 1024 * 1024;

/// Of the programs that the configuration names, only filters and merge drivers run, because without them files would
/// differ from those that the user's own git writes. Git does not prompt, sign, collect garbage or record anything in
/// the repository beyond the command's purpose.
const HARDENED_OPTIONS: [&str; 24] = [
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.safecrlf=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "rerere.enabled=false",
    "-c",
    "worktree.useRelativePaths=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "push.recurseSubmodules=no",
    "-c",
    "push.followTags=false",
    "-c",
    "advice.addEmbeddedRepo=false",
];

const OFFLINE_ENV: [(&str, &str); 2] = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "none")];
/// Allows the usual protocols, but not `ext::`, which runs a command. A program that would ask for a password, on a
/// terminal or in a window, gets `false` instead.
const NETWORK_ENV: [(&str, &str); 3] = [
    ("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
];

#[derive(Debug, thiserror::Error)]
pub enum GitCommandError {
    #[error("git is not installed")]
    Missing,
    #[error("`git {what}` {why}")]
    Failed { what: String, why: String },
    #[error("`git {what}` timed out")]
    TimedOut { what: String },
}

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

/// Output of a git command that ran to its end.
#[derive(Debug)]
pub struct GitOutput {
    pub code: i32,
    pub stdout: Vec<u8>,
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
        let output = self.run(arguments)?;
        if output.code == 0 {
            return Ok(output.stdout);
        }
        Err(GitCommandError::Failed {
            what: subcommand(arguments),
            why: format!("exited with {} in `{}`", output.code, self.location.root().display()),
        })
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
                    .map_err(|_| unexpected_output(&subcommand(arguments)))?;
                Ok(Some(line.trim_end_matches('\n').to_owned()).filter(|line| !line.is_empty()))
            }
            1 => Ok(None),
            code => Err(GitCommandError::Failed {
                what: subcommand(arguments),
                why: format!("exited with {code} in `{}`", self.location.root().display()),
            }),
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
            code => Err(GitCommandError::Failed {
                what: subcommand(arguments),
                why: format!("exited with {code} in `{}`", self.location.root().display()),
            }),
        }
    }

    /// Runs git and returns its output and exit code.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<GitOutput, GitCommandError> {
        let place = self.location.options();
        let mut argv = ["git", "--no-pager", "--literal-pathspecs"].map(OsStr::new).to_vec();
        argv.extend(place.iter().map(OsString::as_os_str));
        argv.extend(HARDENED_OPTIONS.map(OsStr::new));
        argv.extend(arguments.iter().map(AsRef::as_ref));
        let ceiling = self.location.root().parent().unwrap_or(Path::new("/"));
        let mut env = vec![
            (OsStr::new("GIT_CEILING_DIRECTORIES"), ceiling.as_os_str()),
            (OsStr::new("GIT_TERMINAL_PROMPT"), OsStr::new("0")),
            (OsStr::new("GIT_EDITOR"), OsStr::new("false")),
            // Replacement objects, which an agent could create, exist in this clone only.
            (OsStr::new("GIT_NO_REPLACE_OBJECTS"), OsStr::new("1")),
        ];
        let words: &[(&str, &str)] =
            if self.network_env.is_some() { &NETWORK_ENV } else { &OFFLINE_ENV };
        env.extend(words.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        let given = self.network_env.unwrap_or_default();
        env.extend(given.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())));
        let spec = ProgramSpec { argv: &argv, cwd: None, env: &env };
        let limits = ProgramLimits { deadline: *self.deadline, max_output_bytes: MAX_OUTPUT_BYTES };
        output_of(proc::run_program(&spec, &limits), &subcommand(arguments))
    }
}

impl GitLocation {
    pub(crate) fn root(&self) -> &Path {
        match self {
            Self::UserRepository(root) | Self::RunWorktree { root, .. } => root,
        }
    }

    fn options(&self) -> Vec<OsString> {
        let option = |name: &str, value: &Path| {
            let mut option = OsString::from(name);
            option.push(value);
            option
        };
        let mut options = vec![OsString::from("-C"), self.root().as_os_str().to_owned()];
        if let Self::RunWorktree { git_dir, root } = self {
            options.extend([option("--git-dir=", git_dir), option("--work-tree=", root)]);
        }
        options
    }
}

fn output_of(ended: ProgramEnd, what: &str) -> Result<GitOutput, GitCommandError> {
    let what = what.to_owned();
    Err(match ended {
        ProgramEnd::Exited { code, stdout, truncated: false } => {
            return Ok(GitOutput { code, stdout });
        }
        ProgramEnd::Exited { .. } => {
            GitCommandError::Failed { what, why: "printed more output than ralph reads".to_owned() }
        }
        ProgramEnd::TimedOut => GitCommandError::TimedOut { what },
        ProgramEnd::Signalled => GitCommandError::Failed { what, why: "was killed".to_owned() },
        ProgramEnd::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => {
            GitCommandError::Missing
        }
        ProgramEnd::CouldNotStart(error) => {
            GitCommandError::Failed { what, why: format!("could not be started: {error}") }
        }
    })
}

/// The error for output that does not have the documented form.
pub(crate) fn unexpected_output(what: &str) -> GitCommandError {
    GitCommandError::Failed { what: what.to_owned(), why: "printed unexpected output".to_owned() }
}

/// The subcommand without its arguments, which may be long or private.
fn subcommand<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let mut words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    let first = words.next().unwrap_or_default().into_owned();
    match words.next() {
        Some(second) if first == "worktree" => format!("{first} {second}"),
        Some(_) | None => first,
    }
}
