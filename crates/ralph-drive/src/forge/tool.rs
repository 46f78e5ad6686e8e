//! Calls `gh` and `glab` with argument lists and parses their JSON output.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Duration;

use ralph_core::text;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Forge, ForgeError};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::{self, Ended, Limits, Spec};

/// Enough for a page of a hundred check runs with all their fields.
const OUTPUT_CAP: usize = 16 * 1024 * 1024;
/// Timeout of a single API call.
const STEP: Duration = Duration::from_mins(2);
const LONGEST_WHY: usize = 300;
const DETAILS: usize = 3;
/// The exit code of `gh` without a login.
const LOGGED_OUT: i32 = 4;

/// Variables with the tools' credentials. No other process gets them.
const CREDENTIALS: [&str; 8] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GITLAB_TOKEN",
    "GITLAB_ACCESS_TOKEN",
    "OAUTH_TOKEN",
    "CI_JOB_TOKEN",
];
/// Disables prompts, colours, pagers and update checks.
const TOLD: [(&str, &str); 9] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_NO_EXTENSION_UPDATE_NOTIFIER", "1"),
    ("GH_PAGER", "cat"),
    ("GLAB_CHECK_UPDATE", "false"),
    ("GLAB_NO_PROMPT", "true"),
    ("NO_PROMPT", "true"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
];

/// The kind of forge, and with it the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    GitHub,
    GitLab,
}

impl Tool {
    /// Guesses the forge from the host name.
    pub(super) fn of(host: &str) -> Option<Self> {
        if host == "github.com" || host.ends_with(".ghe.com") || host.contains("github") {
            Some(Self::GitHub)
        } else if host.contains("gitlab") {
            Some(Self::GitLab)
        } else {
            None
        }
    }

    pub fn program(self) -> &'static str {
        match self {
            Self::GitHub => "gh",
            Self::GitLab => "glab",
        }
    }

    pub(super) fn home(self) -> &'static str {
        match self {
            Self::GitHub => "https://cli.github.com",
            Self::GitLab => "https://gitlab.com/gitlab-org/cli",
        }
    }

    /// Whether this can be the path of a project. Such a path needs no escaping in an address except for its slashes.
    pub(super) fn takes(self, path: &str) -> bool {
        let is_part = |part: &str| {
            !part.is_empty()
                && !matches!(part, "." | "..")
                && !part.starts_with('-')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        let parts = path.split('/').count();
        let is_deep_enough = match self {
            Self::GitHub => parts == 2,
            Self::GitLab => (2..=20).contains(&parts),
        };
        is_deep_enough && path.len() <= 400 && path.split('/').all(is_part)
    }

    /// The API endpoint of a project.
    pub(super) fn project(self, path: &str) -> String {
        match self {
            Self::GitHub => format!("repos/{path}"),
            Self::GitLab => format!("projects/{}", path.replace('/', "%2F")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Patch,
    Put,
}

/// One call of a forge's API.
pub(super) struct Question<'a> {
    method: Method,
    endpoint: String,
    fields: Vec<OsString>,
    /// Completes "could not …".
    what: &'a str,
}

impl Method {
    pub(super) fn call(self, endpoint: String, what: &'static str) -> Question<'static> {
        Question { method: self, endpoint, fields: Vec::new(), what }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Put => "PUT",
        }
    }
}

impl Question<'_> {
    /// Adds a field with a literal string.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.extend([OsString::from("--raw-field"), format!("{name}={value}").into()]);
        self
    }

    /// Adds a field with the content of a file, because a body may be too long for an argument.
    pub(super) fn with_file(mut self, name: &str, file: &Path) -> Self {
        let mut field = OsString::from(format!("{name}=@"));
        field.push(file);
        self.fields.extend([OsString::from("--field"), field]);
        self
    }
}

/// Calls the API and parses the answer.
pub(super) fn api<T: DeserializeOwned>(
    forge: &Forge,
    question: &Question<'static>,
    deadline: &Deadline,
) -> Result<T, ForgeError> {
    let (tool, what) = (forge.tool, question.what);
    let mut arguments: Vec<OsString> =
        ["api", "--hostname", &forge.host, "--method", question.method.name(), &question.endpoint]
            .map(OsString::from)
            .to_vec();
    arguments.extend(question.fields.iter().cloned());
    match run(tool, &forge.env, &arguments, deadline) {
        Ended::Exited { code: 0, stdout, truncated: false } => {
            serde_json::from_slice(&stdout).map_err(|_| ForgeError::Odd { tool, what })
        }
        Ended::Exited { code: LOGGED_OUT, .. } if tool == Tool::GitHub => {
            Err(ForgeError::NotLoggedIn { tool, host: forge.host.clone() })
        }
        Ended::Exited { code, stdout, .. } => Err(refused(tool, what, (code, &stdout))),
        Ended::TimedOut => Err(ForgeError::OutOfTime { tool, what }),
        Ended::Signalled => Err(ForgeError::Odd { tool, what }),
        Ended::CouldNotStart(_) => Err(ForgeError::NoTool { tool, host: forge.host.clone() }),
    }
}

/// The error for a failed call, with the forge's own message if there is one: the tools print its answer.
fn refused(tool: Tool, what: &'static str, (code, stdout): (i32, &[u8])) -> ForgeError {
    let answer: Option<Value> = serde_json::from_slice(stdout).ok();
    let said = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let field = |name: &str| answer.as_ref()?.get(name).map(said).filter(|text| !text.is_empty());
    let message = field("message").or_else(|| field("error"));
    let status = field("status").and_then(|status| status.parse().ok());
    let status = status.or_else(|| number_in(message.as_deref()?));
    let details = answer.as_ref().and_then(|answer| answer.get("errors")?.as_array());
    let details = details.into_iter().flatten().take(DETAILS);
    let details = details.map(|one| said(one.get("message").unwrap_or(one)));
    let message = message.unwrap_or_else(|| format!("it exited with {code}"));
    let why: Vec<String> = std::iter::once(message).chain(details).collect();
    ForgeError::Refused { tool, what, status, why: text::line(&why.join(": "), LONGEST_WHY) }
}

/// The HTTP status in a message such as GitLab's `404 Project Not Found`. Older versions of GitHub give no number.
fn number_in(message: &str) -> Option<u16> {
    if message == "Not Found" {
        return Some(404);
    }
    message.split(' ').next()?.parse().ok()
}

/// Whether the tool can be started and prints its version.
pub(super) fn is_there(tool: Tool, env: &Env, deadline: &Deadline) -> Result<bool, ForgeError> {
    answers(tool, env, &["--version"], deadline)
}

/// Whether the tool is logged in to the host.
pub(super) fn knows(
    tool: Tool,
    env: &Env,
    host: &str,
    deadline: &Deadline,
) -> Result<bool, ForgeError> {
    answers(tool, env, &["auth", "status", "--hostname", host], deadline)
}

fn answers(
    tool: Tool,
    env: &Env,
    arguments: &[&str],
    deadline: &Deadline,
) -> Result<bool, ForgeError> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    match run(tool, env, &arguments, deadline) {
        Ended::Exited { code, .. } => Ok(code == 0),
        Ended::Signalled => Ok(false),
        Ended::TimedOut => Err(ForgeError::OutOfTime { tool, what: "answer" }),
        Ended::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Ended::CouldNotStart(_) => Err(ForgeError::Odd { tool, what: "start" }),
    }
}

fn run(tool: Tool, env: &Env, arguments: &[OsString], deadline: &Deadline) -> Ended {
    let given = given(env);
    let mut argv = vec![OsStr::new(tool.program())];
    argv.extend(arguments.iter().map(OsString::as_os_str));
    let quiet = TOLD.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
    let given = given.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let env: Vec<_> = quiet.chain(given).collect();
    // A directory outside of any repository, so that no repository's configuration applies.
    let spec = Spec { argv: &argv, cwd: Some(Path::new("/")), env: &env };
    let limits = Limits { deadline: Deadline::after(STEP).min(*deadline), keep: OUTPUT_CAP };
    proc::run(&spec, &limits)
}

/// The variables that a program with a login needs in addition to those that every child process gets.
pub(super) fn given(env: &Env) -> Vec<(OsString, OsString)> {
    let mut given = Vec::new();
    env.each(|name, value| {
        if name == "PATH" || CREDENTIALS.iter().any(|credential| name == *credential) {
            given.push((name.to_owned(), value.to_owned()));
        }
    });
    given
}
