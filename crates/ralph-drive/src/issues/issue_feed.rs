//! Issues that a command of the person prints, or that a file contains.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::text;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::proc::program_search;
use ralph_sys::proc::{self, ProgramEnd, ProgramLimits, ProgramSpec};
use serde::Deserialize;
use serde_json::Value;

use super::{IssueError, TrackerIssue};

/// The output of a command, and the length of a file.
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;
const CALL_TIMEOUT: Duration = Duration::from_mins(2);
const MAX_WHY_CHARS: usize = 300;

/// An issue as a program prints it.
#[derive(Deserialize)]
struct FeedIssue {
    id: Value,
    title: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    state: Option<String>,
}

impl FeedIssue {
    fn into_issue(self) -> Result<TrackerIssue, IssueError> {
        let id = match &self.id {
            Value::String(id) => id.clone(),
            Value::Number(number) => number.to_string(),
            other @ (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(IssueError::InvalidId(text::clean_line(&other.to_string(), 80)));
            }
        };
        let issue = TrackerIssue {
            id,
            title: self.title,
            body: self.body.unwrap_or_default(),
            labels: self.labels,
            url: self.url,
            is_closed: self.state.as_deref() == Some("closed"),
            tracker: None,
        };
        issue.checked()
    }
}

/// Runs the person's own command, in the project and with their own variables, and reads what it prints.
pub(super) fn issues_of_command(
    words: &[String],
    project: &Path,
    env: &Env,
    deadline: &Deadline,
) -> Result<Vec<TrackerIssue>, IssueError> {
    let name = words.first().cloned().unwrap_or_default();
    let program = find_program(&name, project, env).ok_or_else(|| IssueError::Program {
        program: text::clean_line(&name, 200),
        what: "be started",
        why: "it was not found".to_owned(),
    })?;
    let arguments: Vec<OsString> = words.iter().skip(1).map(OsString::from).collect();
    let variables = env.variables();
    let call = TrackerCall { program: &program, arguments: &arguments, project, env: &variables };
    let printed = call.run("list issues", deadline)?;
    let unexpected = |error: serde_json::Error| unexpected_output(&name, &error);
    let issues: Vec<FeedIssue> = serde_json::from_slice(&printed).map_err(unexpected)?;
    issues.into_iter().map(FeedIssue::into_issue).collect()
}

pub(super) fn issue_of_file(path: &Path) -> Result<TrackerIssue, IssueError> {
    let bytes = fs::read(path, MAX_OUTPUT_BYTES)?;
    let shown = path.to_string_lossy();
    let issue: FeedIssue = serde_json::from_slice(&bytes).map_err(|error| {
        IssueError::NotAnIssueFile(
            text::clean_line(&shown, 200),
            text::clean_line(&error.to_string(), MAX_WHY_CHARS),
        )
    })?;
    issue.into_issue()
}

pub(super) fn unexpected_output(program: &str, error: &serde_json::Error) -> IssueError {
    IssueError::Unexpected(
        text::clean_line(program, 200),
        text::clean_line(&error.to_string(), MAX_WHY_CHARS),
    )
}

/// A program with an absolute path. Relative entries of `PATH` are not searched, because the repository could put a
/// program there.
pub(super) fn find_program(name: &str, project: &Path, env: &Env) -> Option<PathBuf> {
    let is_path = Path::new(name).components().count() > 1;
    let base = if is_path { project } else { Path::new("/") };
    let search = env.search_path().unwrap_or_default();
    program_search::find_program(OsStr::new(name), base, &search)
}

/// One call of a program that knows issues. Its arguments are passed as they are, without a shell.
pub(super) struct TrackerCall<'a> {
    pub program: &'a Path,
    pub arguments: &'a [OsString],
    pub project: &'a Path,
    /// Variables besides those that every process gets.
    pub env: &'a [(OsString, OsString)],
}

impl TrackerCall<'_> {
    /// What it prints. `what` completes "could not …".
    pub(super) fn run(
        &self,
        what: &'static str,
        deadline: &Deadline,
    ) -> Result<Vec<u8>, IssueError> {
        let argv: Vec<&OsStr> = std::iter::once(self.program.as_os_str())
            .chain(self.arguments.iter().map(OsString::as_os_str))
            .collect();
        let env: Vec<_> = self.env.iter().map(|(name, value)| (&**name, &**value)).collect();
        let spec = ProgramSpec { argv: &argv, cwd: Some(self.project), env: &env };
        let limits = ProgramLimits {
            deadline: Deadline::after(CALL_TIMEOUT).min(*deadline),
            max_output_bytes: MAX_OUTPUT_BYTES,
        };
        let why = match proc::run_program(&spec, &limits) {
            ProgramEnd::Exited { code: 0, stdout, truncated: false } => return Ok(stdout),
            ProgramEnd::Exited { code: 0, .. } => "its output is too long".to_owned(),
            ProgramEnd::Exited { code, .. } => format!("it exited with {code}"),
            ProgramEnd::Signalled => "it was killed".to_owned(),
            ProgramEnd::TimedOut => "it took too long".to_owned(),
            ProgramEnd::CouldNotStart(error) => error.to_string(),
        };
        let program = self.program.file_name().unwrap_or_default().to_string_lossy();
        Err(IssueError::Program { program: text::clean_line(&program, 200), what, why })
    }
}
