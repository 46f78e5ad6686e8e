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
use ralph_sys::proc::{self, ProgramEnd, ProgramLimits, ProgramSpec};

/// Enough for a page of a hundred check runs with all their fields.
const OUTPUT_CAP: usize = 16 * 1024 * 1024;
/// Timeout of a single API call.
const CALL_TIMEOUT: Duration = Duration::from_mins(2);
const MAX_WHY_CHARS: usize = 300;
const DETAILS: usize = 3;
/// The exit code of `gh` without a login.
const LOGGED_OUT_EXIT_CODE: i32 = 4;

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
/// Disables prompts, colours, pagers, update checks and telemetry.
const QUIET_ENVIRONMENT: [(&str, &str); 10] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_NO_EXTENSION_UPDATE_NOTIFIER", "1"),
    ("GH_PAGER", "cat"),
    ("GH_TELEMETRY", "false"),
    ("GLAB_CHECK_UPDATE", "false"),
    ("GLAB_NO_PROMPT", "true"),
    ("NO_PROMPT", "true"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
];

/// The kind of forge, and with it the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgeTool {
    GitHub,
    GitLab,
}

impl ForgeTool {
    /// Guesses the forge from the host name.
    pub(super) fn for_host(host: &str) -> Option<Self> {
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

    pub(crate) fn home_page(self) -> &'static str {
        match self {
            Self::GitHub => "https://cli.github.com",
            Self::GitLab => "https://gitlab.com/gitlab-org/cli",
        }
    }

    /// Whether this can be the path of a project. Such a path needs no escaping in an address except for its slashes.
    pub(crate) fn accepts_path(self, path: &str) -> bool {
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
    pub(super) fn project_endpoint(self, path: &str) -> String {
        match self {
            Self::GitHub => format!("repos/{path}"),
            Self::GitLab => format!("projects/{}", path.replace('/', "%2F")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForgeMethod {
    Get,
    Post,
    Patch,
    Put,
}

/// One call of a forge's API.
pub(super) struct ForgeCall<'a> {
    method: ForgeMethod,
    endpoint: String,
    fields: Vec<OsString>,
    /// Completes "could not …".
    purpose: &'a str,
}

impl ForgeMethod {
    pub(super) fn call(self, endpoint: String, what: &'static str) -> ForgeCall<'static> {
        ForgeCall { method: self, endpoint, fields: Vec::new(), purpose: what }
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

impl ForgeCall<'_> {
    /// Adds a field with a literal string.
    pub(super) fn with_field(mut self, name: &str, value: &str) -> Self {
        self.fields.extend([OsString::from("--raw-field"), format!("{name}={value}").into()]);
        self
    }

    /// Adds a field with the value `true`.
    pub(super) fn with_flag(mut self, name: &str) -> Self {
        self.fields.extend([OsString::from("--field"), format!("{name}=true").into()]);
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
pub(super) fn call_api<T: DeserializeOwned>(
    forge: &Forge,
    question: &ForgeCall<'static>,
    deadline: &Deadline,
) -> Result<T, ForgeError> {
    let (tool, what) = (forge.tool, question.purpose);
    let mut arguments: Vec<OsString> =
        ["api", "--hostname", &forge.host, "--method", question.method.name(), &question.endpoint]
            .map(OsString::from)
            .to_vec();
    arguments.extend(question.fields.iter().cloned());
    match run_tool(tool, &forge.env, &arguments, deadline) {
        ProgramEnd::Exited { code: 0, stdout, truncated: false } => {
            serde_json::from_slice(&stdout).map_err(|_| ForgeError::UnexpectedAnswer { tool, what })
        }
        ProgramEnd::Exited { code: LOGGED_OUT_EXIT_CODE, .. } if tool == ForgeTool::GitHub => {
            Err(ForgeError::NotLoggedIn { tool, host: forge.host.clone() })
        }
        ProgramEnd::Exited { code, stdout, .. } => Err(refusal(tool, what, code, &stdout)),
        ProgramEnd::TimedOut => Err(ForgeError::OutOfTime { tool, what }),
        ProgramEnd::Signalled => Err(ForgeError::UnexpectedAnswer { tool, what }),
        ProgramEnd::CouldNotStart(_) => Err(ForgeError::NoTool { tool, host: forge.host.clone() }),
    }
}

/// The error for a failed call, with the forge's own message if there is one: the tools print its answer.
fn refusal(tool: ForgeTool, what: &'static str, code: i32, stdout: &[u8]) -> ForgeError {
    let answer: Option<Value> = serde_json::from_slice(stdout).ok();
    let said = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let field = |name: &str| answer.as_ref()?.get(name).map(said).filter(|text| !text.is_empty());
    let message = field("message").or_else(|| field("error"));
    let status = field("status").and_then(|status| status.parse().ok());
    let status = status.or_else(|| status_in_message(message.as_deref()?));
    let details = answer.as_ref().and_then(|answer| answer.get("errors")?.as_array());
    let details = details.into_iter().flatten().take(DETAILS);
    let details = details.map(|one| said(one.get("message").unwrap_or(one)));
    let message = message.unwrap_or_else(|| format!("it exited with {code}"));
    let why: Vec<String> = std::iter::once(message).chain(details).collect();
    ForgeError::Refused {
        tool,
        what,
        status,
        why: text::clean_line(&why.join(": "), MAX_WHY_CHARS),
    }
}

/// The HTTP status in a message such as GitLab's `404 Project Not Found`. Older versions of GitHub give no number.
fn status_in_message(message: &str) -> Option<u16> {
    if message == "Not Found" {
        return Some(404);
    }
    message.split(' ').next()?.parse().ok()
}

/// Whether the tool can be started and prints its version.
pub(super) fn is_installed(
    tool: ForgeTool,
    env: &Env,
    deadline: &Deadline,
) -> Result<bool, ForgeError> {
    exits_successfully(tool, env, &["--version"], deadline)
}

/// Whether the tool is logged in to the host.
pub(super) fn is_logged_in(
    tool: ForgeTool,
    env: &Env,
    host: &str,
    deadline: &Deadline,
) -> Result<bool, ForgeError> {
    exits_successfully(tool, env, &["auth", "status", "--hostname", host], deadline)
}

fn exits_successfully(
    tool: ForgeTool,
    env: &Env,
    arguments: &[&str],
    deadline: &Deadline,
) -> Result<bool, ForgeError> {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    match run_tool(tool, env, &arguments, deadline) {
        ProgramEnd::Exited { code, .. } => Ok(code == 0),
        ProgramEnd::Signalled => Ok(false),
        ProgramEnd::TimedOut => Err(ForgeError::OutOfTime { tool, what: "answer" }),
        ProgramEnd::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        ProgramEnd::CouldNotStart(_) => Err(ForgeError::UnexpectedAnswer { tool, what: "start" }),
    }
}

fn run_tool(tool: ForgeTool, env: &Env, arguments: &[OsString], deadline: &Deadline) -> ProgramEnd {
    let given = login_environment(env);
    let mut argv = vec![OsStr::new(tool.program())];
    argv.extend(arguments.iter().map(OsString::as_os_str));
    let quiet =
        QUIET_ENVIRONMENT.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
    let given = given.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let env: Vec<_> = quiet.chain(given).collect();
    // A directory outside of any repository, so that no repository's configuration applies.
    let spec = ProgramSpec { argv: &argv, cwd: Some(Path::new("/")), env: &env };
    let limits = ProgramLimits {
        deadline: Deadline::after(CALL_TIMEOUT).min(*deadline),
        max_output_bytes: OUTPUT_CAP,
    };
    proc::run_program(&spec, &limits)
}

/// The variables that a program with a login needs in addition to those that every child process gets.
pub(super) fn login_environment(env: &Env) -> Vec<(OsString, OsString)> {
    let mut given = Vec::new();
    env.for_each_variable(|name, value| {
        if name == "PATH" || CREDENTIALS.iter().any(|credential| name == *credential) {
            given.push((name.to_owned(), value.to_owned()));
        }
    });
    given
}
