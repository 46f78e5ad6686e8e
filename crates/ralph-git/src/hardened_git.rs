//! The one place that composes git's command lines.
//!
//! No command runs a pager, a hook or a file system monitor, whatever the repository's configuration names. Commands
//! that need more protection, or less, add it themselves and say why.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use crate::git_program;
use ralph_sys::proc::{self, ProgramEnd, ProgramLimits, ProgramSpec};

/// Enough for some hundred thousand changed paths.
pub(crate) const MAX_OUTPUT_BYTES: usize = 32 * 1024 * 1024;

/// An empty value, unlike `false`, also disables the monitor in git before 2.36. Names with accents are not quoted, because
/// judges name files as the diff does.
pub(crate) const QUIET_OPTIONS: [&str; 7] = [
    "--no-pager",
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
];

#[derive(Debug, thiserror::Error)]
pub enum GitCommandError {
    #[error("git is not installed")]
    Missing,
    #[error("`git {what}` {why}")]
    Failed { what: String, why: String },
    #[error("`git {what}` timed out")]
    TimedOut { what: String },
    #[error("the content of git object `{id}` does not match its id")]
    WrongContent { id: String },
}

impl GitCommandError {
    pub(crate) fn failed(what: &str, why: &str) -> Self {
        Self::Failed { what: what.to_owned(), why: why.to_owned() }
    }

    pub(crate) fn unexpected_output(what: &str) -> Self {
        Self::failed(what, "printed unexpected output")
    }

    pub(crate) fn too_much_output(what: &str) -> Self {
        Self::failed(what, "printed more output than ralph reads")
    }
}

/// Output of a git command that ran to its end.
#[derive(Debug)]
pub struct GitOutput {
    pub code: i32,
    pub stdout: Vec<u8>,
    /// Git printed more than was kept.
    pub truncated: bool,
}

/// A git command, without its subcommand.
#[derive(Debug)]
pub(crate) struct HardenedGit<'a> {
    directory: &'a Path,
    options: Vec<Cow<'a, OsStr>>,
    env: Vec<(&'a OsStr, Cow<'a, OsStr>)>,
}

impl<'a> HardenedGit<'a> {
    pub(crate) fn new(directory: &'a Path) -> Self {
        let options = ["-C".as_ref(), directory.as_os_str()];
        let options = options.into_iter().chain(QUIET_OPTIONS.iter().map(OsStr::new));
        Self { directory, options: options.map(Cow::Borrowed).collect(), env: Vec::new() }
    }

    pub(crate) fn option(mut self, option: &'a str) -> Self {
        self.options.push(OsStr::new(option).into());
        self
    }

    /// An option such as `--git-dir=` with its path.
    pub(crate) fn path_option(mut self, name: &str, path: &Path) -> Self {
        let mut option = OsString::from(name);
        option.push(path);
        self.options.push(option.into());
        self
    }

    /// Settings that override the repository's configuration.
    pub(crate) fn settings(mut self, settings: &'a [&'a str]) -> Self {
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        self.options.extend(settings.map(|word| Cow::Borrowed(OsStr::new(word))));
        self
    }

    pub(crate) fn env<N, V>(mut self, name: &'a N, value: &'a V) -> Self
    where
        N: AsRef<OsStr> + ?Sized,
        V: AsRef<OsStr> + ?Sized,
    {
        self.env.push((name.as_ref(), value.as_ref().into()));
        self
    }

    pub(crate) fn owned_env(mut self, name: &'a str, value: OsString) -> Self {
        self.env.push((OsStr::new(name), value.into()));
        self
    }

    /// Git would search the parent directories of a broken `.git`.
    pub(crate) fn confine_to(self, root: &'a Path) -> Self {
        self.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root))
    }

    /// Fetching missing objects of a partial clone would run transports, `core.sshCommand` and credential helpers.
    pub(crate) fn offline(self) -> Self {
        self.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none")
    }

    /// Replacement objects and grafts, which an agent could create, exist in this clone only.
    pub(crate) fn without_replacements(self) -> Self {
        self.env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_GRAFT_FILE", "/dev/null")
    }

    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        input: Option<&[u8]>,
        limits: &ProgramLimits,
    ) -> Result<GitOutput, GitCommandError> {
        let Some(program) = git_program::git_program(self.directory) else {
            return Err(GitCommandError::Missing);
        };
        let mut argv = vec![program.as_os_str()];
        argv.extend(self.options.iter().map(|option| &**option));
        argv.extend(arguments.iter().map(AsRef::as_ref));
        let env: Vec<_> = self.env.iter().map(|(name, value)| (*name, &**value)).collect();
        let spec = ProgramSpec { argv: &argv, cwd: None, env: &env };
        let ended = match input {
            Some(input) => proc::run_program_with_input(&spec, input, limits),
            None => proc::run_program(&spec, limits),
        };
        let what = subcommand(arguments);
        Err(match ended {
            ProgramEnd::Exited { code, stdout, truncated } => {
                return Ok(GitOutput { code, stdout, truncated });
            }
            ProgramEnd::TimedOut => GitCommandError::TimedOut { what },
            ProgramEnd::Signalled => GitCommandError::failed(&what, "was killed"),
            ProgramEnd::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => {
                GitCommandError::Missing
            }
            ProgramEnd::CouldNotStart(error) => {
                GitCommandError::failed(&what, &format!("could not be started: {error}"))
            }
        })
    }
}

/// The subcommand without its arguments, which may be long or private.
pub(crate) fn subcommand<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    let mut words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    let first = words.next().unwrap_or_default().into_owned();
    match words.next() {
        Some(second) if first == "worktree" => format!("{first} {second}"),
        Some(_) | None => first,
    }
}
