//! Runs git commands that write: in a run's work tree, or to move a branch that the user named. Read-only queries are
//! in `crate::git`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use ralph_sys::clock::Deadline;
use ralph_sys::proc::{self, Ended, Limits, Spec};

const OUTPUT_CAP: usize = 32 * 1024 * 1024;

/// Of the programs that the configuration names, only filters and merge drivers run, because without them files would
/// differ from those that the user's own git writes. Git does not prompt, sign, collect garbage or record anything in
/// the repository beyond the command's purpose.
const HARDENED: [&str; 24] = [
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

const ALONE: [(&str, &str); 2] = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "none")];
/// Allows the usual protocols, but not `ext::`, which runs a command. A program that would ask for a password, on a
/// terminal or in a window, gets `false` instead.
const ABROAD: [(&str, &str); 3] = [
    ("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
    ("SSH_ASKPASS", "false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
];

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed")]
    Missing,
    #[error("`git {what}` {why}")]
    Failed { what: String, why: String },
    #[error("`git {what}` timed out")]
    OutOfTime { what: String },
}

/// The repository that git runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// The user's repository at exactly this directory.
    Theirs(PathBuf),
    /// A run's work tree, by its administrative directory. Its `.git` file is not read, because the agent can change
    /// it.
    Ours { git_dir: PathBuf, root: PathBuf },
}

#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub at: &'a At,
    pub deadline: &'a Deadline,
    /// Environment variables for a command that uses the network. `None` forbids the network.
    pub abroad: Option<&'a [(OsString, OsString)]>,
}

/// Output of a git command that ran to its end.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: Vec<u8>,
}

impl<'a> Call<'a> {
    pub fn new(at: &'a At, deadline: &'a Deadline) -> Self {
        Self { at, deadline, abroad: None }
    }

    /// Runs git and returns its output. Any exit code but 0 is an error.
    pub fn git<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Vec<u8>, GitError> {
        let output = self.ask(arguments)?;
        if output.code == 0 {
            return Ok(output.stdout);
        }
        Err(GitError::Failed {
            what: name(arguments),
            why: format!("exited with {} in `{}`", output.code, self.at.root().display()),
        })
    }

    /// Runs a command that prints one line, or exits with 1 if there is nothing to print.
    pub fn line_opt<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Option<String>, GitError> {
        let output = self.ask(arguments)?;
        match output.code {
            0 => {
                let line = String::from_utf8(output.stdout).map_err(|_| odd(&name(arguments)))?;
                Ok(Some(line.trim_end_matches('\n').to_owned()).filter(|line| !line.is_empty()))
            }
            1 => Ok(None),
            code => Err(GitError::Failed {
                what: name(arguments),
                why: format!("exited with {code} in `{}`", self.at.root().display()),
            }),
        }
    }

    /// Runs a command that exits with 0 for yes and 1 for no.
    pub(crate) fn is<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<bool, GitError> {
        match self.ask(arguments)?.code {
            0 => Ok(true),
            1 => Ok(false),
            code => Err(GitError::Failed {
                what: name(arguments),
                why: format!("exited with {code} in `{}`", self.at.root().display()),
            }),
        }
    }

    /// Runs git and returns its output and exit code.
    pub fn ask<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Said, GitError> {
        let place = self.at.options();
        let mut argv = ["git", "--no-pager", "--literal-pathspecs"].map(OsStr::new).to_vec();
        argv.extend(place.iter().map(OsString::as_os_str));
        argv.extend(HARDENED.map(OsStr::new));
        argv.extend(arguments.iter().map(AsRef::as_ref));
        let ceiling = self.at.root().parent().unwrap_or(Path::new("/"));
        let mut env = vec![
            (OsStr::new("GIT_CEILING_DIRECTORIES"), ceiling.as_os_str()),
            (OsStr::new("GIT_TERMINAL_PROMPT"), OsStr::new("0")),
            (OsStr::new("GIT_EDITOR"), OsStr::new("false")),
            // Replacement objects, which an agent could create, exist in this clone only.
            (OsStr::new("GIT_NO_REPLACE_OBJECTS"), OsStr::new("1")),
        ];
        let words: &[(&str, &str)] = if self.abroad.is_some() { &ABROAD } else { &ALONE };
        env.extend(words.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        let given = self.abroad.unwrap_or_default();
        env.extend(given.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())));
        let spec = Spec { argv: &argv, cwd: None, env: &env };
        let limits = Limits { deadline: *self.deadline, keep: OUTPUT_CAP };
        said(proc::run(&spec, &limits), &name(arguments))
    }
}

impl At {
    pub(crate) fn root(&self) -> &Path {
        match self {
            Self::Theirs(root) | Self::Ours { root, .. } => root,
        }
    }

    fn options(&self) -> Vec<OsString> {
        let option = |name: &str, value: &Path| {
            let mut option = OsString::from(name);
            option.push(value);
            option
        };
        let mut options = vec![OsString::from("-C"), self.root().as_os_str().to_owned()];
        if let Self::Ours { git_dir, root } = self {
            options.extend([option("--git-dir=", git_dir), option("--work-tree=", root)]);
        }
        options
    }
}

fn said(ended: Ended, what: &str) -> Result<Said, GitError> {
    let what = what.to_owned();
    Err(match ended {
        Ended::Exited { code, stdout, truncated: false } => return Ok(Said { code, stdout }),
        Ended::Exited { .. } => {
            GitError::Failed { what, why: "printed more output than ralph reads".to_owned() }
        }
        Ended::TimedOut => GitError::OutOfTime { what },
        Ended::Signalled => GitError::Failed { what, why: "was killed".to_owned() },
        Ended::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => GitError::Missing,
        Ended::CouldNotStart(error) => {
            GitError::Failed { what, why: format!("could not be started: {error}") }
        }
    })
}

/// The error for output that does not have the documented form.
pub(crate) fn odd(what: &str) -> GitError {
    GitError::Failed { what: what.to_owned(), why: "printed unexpected output".to_owned() }
}

/// The subcommand without its arguments, which may be long or private.
fn name<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let mut words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    let first = words.next().unwrap_or_default().into_owned();
    match words.next() {
        Some(second) if first == "worktree" => format!("{first} {second}"),
        Some(_) | None => first,
    }
}
