//! How git is called where something is written: in a work tree of our own, or to move a branch that a person named.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::clock::Deadline;
use crate::proc::{self, Ended, Limits, Spec};

const OUTPUT_CAP: usize = 32 * 1024 * 1024;

/// Nothing that a configuration names is run but filters and merge drivers, without which files would not be what
/// the person's own git makes of them. Nothing asks, nothing signs, nothing tidies up on the side, and nothing is
/// remembered in the repository that the command was not for.
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
/// What a person pushes over. `ext::`, which runs a command, is not among it. Whoever would ask at a terminal or in a
/// window is answered by `false`.
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
    #[error("`git {what}` did not finish in time")]
    OutOfTime { what: String },
}

/// Where git works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A repository of the person's, found from exactly this directory.
    Theirs(PathBuf),
    /// A work tree of ours, by its administrative directory: what its own `.git` file says is not asked.
    Ours { git_dir: PathBuf, root: PathBuf },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) at: &'a At,
    pub(crate) deadline: &'a Deadline,
    /// Variables for a git that reaches other machines; `None` keeps it here.
    pub(crate) abroad: Option<&'a [(OsString, OsString)]>,
}

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(at: &'a At, deadline: &'a Deadline) -> Self {
        Self { at, deadline, abroad: None }
    }

    /// The output of a git that succeeded.
    pub(crate) fn git<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Vec<u8>, GitError> {
        let said = self.ask(arguments)?;
        if said.code == 0 {
            return Ok(said.stdout);
        }
        Err(GitError::Failed {
            what: name(arguments),
            why: format!("exited with {} in `{}`", said.code, self.at.root().display()),
        })
    }

    /// One line of a git that exits with 1 when there is no such thing.
    pub(crate) fn line_opt<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
    ) -> Result<Option<String>, GitError> {
        let said = self.ask(arguments)?;
        match said.code {
            0 => {
                let line = String::from_utf8(said.stdout).map_err(|_| odd(&name(arguments)))?;
                Ok(Some(line.trim_end_matches('\n').to_owned()).filter(|line| !line.is_empty()))
            }
            1 => Ok(None),
            code => Err(GitError::Failed {
                what: name(arguments),
                why: format!("exited with {code} in `{}`", self.at.root().display()),
            }),
        }
    }

    /// Yes is exit code 0 and no is 1.
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

    /// Whatever it says, and how it exits.
    pub(crate) fn ask<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Said, GitError> {
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
            // What an agent had put in the place of an object is in no other clone.
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
        Ended::Exited { .. } => GitError::Failed { what, why: "says more than is read".to_owned() },
        Ended::TimedOut => GitError::OutOfTime { what },
        Ended::Signalled => GitError::Failed { what, why: "was killed".to_owned() },
        Ended::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => GitError::Missing,
        Ended::CouldNotStart(error) => {
            GitError::Failed { what, why: format!("does not start: {error}") }
        }
    })
}

/// Git answered, and not as it is known to.
pub(crate) fn odd(what: &str) -> GitError {
    GitError::Failed { what: what.to_owned(), why: "says something odd".to_owned() }
}

/// The command without its arguments, which may be long or somebody's.
fn name<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let mut words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    let first = words.next().unwrap_or_default().into_owned();
    match words.next() {
        Some(second) if first == "worktree" => format!("{first} {second}"),
        Some(_) | None => first,
    }
}
