//! Calls the program of a CI provider: `gh`, `glab`, `curl` or the person's own command.
//!
//! `gh` and `glab` run with an empty configuration directory and the token alone. Their own configuration can name another
//! server, a socket or a plain connection, and the agent can edit it: with it, the agent could answer in the provider's
//! place.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use ralph_core::ci_query::{COMMIT_PLACEHOLDER, CiProvider, CiQuery};
use ralph_core::gate::{Gate, GateInvocation};
use ralph_core::redact::Redactor;
use ralph_core::request_address::RequestAddress;
use ralph_core::text;
use ralph_home::faults::describe_error;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env;
use ralph_sys::fs::FreshDir;
use ralph_sys::proc::curl_call::{CurlOutput, CurlRequest, CurlResponse, CurlSchemes};
use ralph_sys::proc::job::{self, CaptureLimits, CommandInput, JobEnd, JobSpec, StderrCapture};
use ralph_sys::proc::private_mounts::PrivateMounts;
use ralph_sys::proc::program_search;
use ralph_sys::proc::{self, ProgramEnd, ProgramLimits, ProgramSpec};
use serde::de::DeserializeOwned;

use crate::command_place::CommandPlace;
use crate::environment::{create_curl_home, measuring_environment};
use crate::gates::GateRunRequest;

/// The longest that one call may take.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Less than [`CALL_TIMEOUT`], so that `curl` itself reports what timed out.
const CURL_TIMEOUT_SECONDS: u64 = 55;
const CALL_GRACE: Duration = Duration::from_secs(1);
/// A page of a hundred check runs has less.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
const MAX_WHY_CHARS: usize = 200;
const MAX_TOKEN_BYTES: usize = 4096;
/// The exit code of `gh` without a login.
const LOGGED_OUT_EXIT_CODE: i32 = 4;

/// What the programs need of the environment of a gate, to reach a server through the proxies of the machine.
const NETWORK_VARIABLES: &[&str] = &[
    "ALL_PROXY",
    "CURL_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "NO_PROXY",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// What `gh auth token` and `glab config get` need in addition to the environment of a gate, to find the login.
const LOGIN_VARIABLES: &[&str] = &["DBUS_SESSION_BUS_ADDRESS", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR"];
/// Disables prompts, colours, pagers, update checks and telemetry.
const QUIET_VARIABLES: &[(&str, &str)] = &[
    ("GH_NO_EXTENSION_UPDATE_NOTIFIER", "1"),
    ("GH_NO_UPDATE_NOTIFIER", "1"),
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_TELEMETRY", "false"),
    ("GLAB_CHECK_UPDATE", "false"),
    ("GLAB_NO_PROMPT", "true"),
    ("NO_COLOR", "1"),
    ("NO_PROMPT", "true"),
];

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueryError {
    /// The provider asks for fewer queries.
    RateLimited(String),
    /// It may work the next time: no connection, an error of the server.
    Transient(String),
    /// To ask again is useless: no program, no login, no access, another answer than expected.
    Permanent(String),
    /// The provider has no such object.
    NotFound(String),
    Cancelled,
}

impl QueryError {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::RateLimited(why)
            | Self::Transient(why)
            | Self::Permanent(why)
            | Self::NotFound(why) => why.clone(),
            Self::Cancelled => "cancelled".to_string(),
        }
    }
}

/// The provider of one gate, with everything that its calls need.
pub(super) struct ProviderSession<'a> {
    course: &'a GateRunRequest<'a>,
    pub(super) gate: &'a Gate,
    pub(super) query: &'a CiQuery,
    pub(super) redactor: Redactor,
    environment: Vec<(OsString, OsString)>,
    secrets: Vec<String>,
    token: Option<String>,
    /// Without any settings: the home and the configuration of `gh` and `glab`, and that of `curl` for a command.
    directory: FreshDir,
    deadline: Deadline,
}

/// A program to run.
struct ProviderProgram<'a> {
    argv: Vec<OsString>,
    cwd: &'a Path,
    mounts: Option<&'a PrivateMounts>,
    environment: &'a [(OsString, OsString)],
    input: &'a str,
}

/// What a program printed, and its exit code; `None` if a signal ended it.
struct FinishedProgram {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl<'a> ProviderSession<'a> {
    /// Prepares the calls, and finds the token.
    pub(super) fn open(
        course: &'a GateRunRequest<'a>,
        gate: &'a Gate,
        query: &'a CiQuery,
        deadline: Deadline,
    ) -> Result<Self, QueryError> {
        let place = &course.context;
        let directory = create_curl_home(place.home.scratch(clock::nonce()))
            .map_err(|error| QueryError::Permanent(describe_error(&error)))?;
        let mut session = Self {
            course,
            gate,
            query,
            redactor: Redactor::default(),
            environment: Vec::new(),
            secrets: place.env.secrets(),
            token: None,
            directory,
            deadline,
        };
        session.token = session.find_token()?;
        session.secrets.extend(session.token.clone());
        session.redactor = Redactor::new(session.secrets.clone());
        session.environment = session.provider_environment();
        Ok(session)
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Foreign text on one line, without secrets and controls.
    pub(super) fn safe_line(&self, foreign: &str, most: usize) -> String {
        text::clean_line(&self.redactor.redact(foreign), most)
    }

    fn find_token(&self) -> Result<Option<String>, QueryError> {
        let name = self.query.token.as_str();
        if !name.is_empty() {
            let value = self.course.context.env.get(name);
            let value = value.and_then(|value| value.into_string().ok()).filter(|it| is_token(it));
            return value.map(Some).ok_or_else(|| {
                QueryError::Permanent(format!("the variable `{name}` has no usable token"))
            });
        }
        let (words, program, host): (&[&str], _, _) = match &self.query.provider {
            CiProvider::Github { host, .. } => {
                (&["gh", "auth", "token", "--hostname", host], "gh", host)
            }
            CiProvider::Gitlab { host, .. } => {
                (&["glab", "config", "get", "token", "--host", host], "glab", host)
            }
            CiProvider::Command | CiProvider::Http { .. } => return Ok(None),
        };
        let mut variables = self.course.context.gate_environment(self.gate);
        for name in LOGIN_VARIABLES {
            if let Some(value) = self.course.context.env.get(name) {
                variables.push((name.into(), value));
            }
        }
        variables.extend(QUIET_VARIABLES.iter().map(|(name, value)| (name.into(), value.into())));
        // Not as a job: what a job prints is redacted.
        let path = variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value);
        let path = path.cloned().unwrap_or_default();
        let found = program_search::find_program(OsStr::new(program), Path::new("/"), &path)
            .ok_or_else(|| QueryError::Permanent(format!("`{program}` is not installed")))?;
        let rest = words.iter().skip(1).map(OsStr::new);
        let argv: Vec<&OsStr> = std::iter::once(found.as_os_str()).chain(rest).collect();
        let borrowed: Vec<_> =
            variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
        let spec = ProgramSpec { argv: &argv, cwd: Some(Path::new("/")), env: &borrowed };
        let deadline = Deadline::after(CALL_TIMEOUT).min(self.deadline);
        let limits = ProgramLimits { deadline, max_output_bytes: MAX_TOKEN_BYTES };
        let printed = match proc::run_program(&spec, &limits) {
            ProgramEnd::Exited { code: 0, stdout, .. } => stdout,
            ProgramEnd::CouldNotStart(error) => {
                return Err(QueryError::Permanent(format!("cannot start `{program}`: {error}")));
            }
            ProgramEnd::Exited { .. } | ProgramEnd::Signalled | ProgramEnd::TimedOut => Vec::new(),
        };
        let token = String::from_utf8_lossy(&printed).trim().to_owned();
        if is_token(&token) {
            return Ok(Some(token));
        }
        Err(QueryError::Permanent(format!(
            "`{program}` is not logged in to `{host}`: run `{program} auth login --hostname {host}`, or name the variable with a token: `token = \"…\"`"
        )))
    }

    fn provider_environment(&self) -> Vec<(OsString, OsString)> {
        let all = self.course.context.gate_environment(self.gate);
        let is_needed = |name: &OsStr| NETWORK_VARIABLES.iter().any(|needed| name == *needed);
        let mut variables: Vec<_> = all.into_iter().filter(|(name, _)| is_needed(name)).collect();
        variables.extend(QUIET_VARIABLES.iter().map(|(name, value)| (name.into(), value.into())));
        let directory = self.directory.path().as_os_str();
        for name in ["GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "HOME", "XDG_CONFIG_HOME"] {
            variables.push((name.into(), directory.into()));
        }
        let names: &[&str] = match self.query.provider {
            CiProvider::Github { .. } => &["GH_ENTERPRISE_TOKEN", "GH_TOKEN"],
            CiProvider::Gitlab { .. } => &["GITLAB_TOKEN"],
            CiProvider::Command | CiProvider::Http { .. } => &[],
        };
        if let Some(token) = &self.token {
            variables.extend(names.iter().map(|name| (name.into(), token.into())));
        }
        variables
    }

    /// Reads an object of the provider's API.
    pub(super) fn read_api<T: DeserializeOwned>(&self, endpoint: &str) -> Result<T, QueryError> {
        let bytes = self.read_api_text(endpoint)?;
        self.parse_answer(&bytes)
    }

    /// Reads a text of the provider's API, such as a log. Of a long one, the end.
    pub(super) fn read_api_text(&self, endpoint: &str) -> Result<Vec<u8>, QueryError> {
        let (program, host) = match &self.query.provider {
            CiProvider::Github { host, .. } => ("gh", host),
            CiProvider::Gitlab { host, .. } => ("glab", host),
            CiProvider::Command | CiProvider::Http { .. } => {
                return Err(QueryError::Permanent("the provider has no API".to_string()));
            }
        };
        let words = ["api", "--hostname", host, "--method", "GET", endpoint];
        let finished = self.run_program(&ProviderProgram {
            argv: std::iter::once(program).chain(words).map(OsString::from).collect(),
            // Outside of any repository, so that no repository's configuration applies.
            cwd: Path::new("/"),
            mounts: None,
            environment: &self.environment,
            input: "",
        })?;
        match finished.code {
            Some(0) => Ok(finished.stdout),
            Some(LOGGED_OUT_EXIT_CODE) if program == "gh" => {
                Err(QueryError::Permanent(format!("`gh` has no login for `{host}`")))
            }
            Some(_) | None => Err(self.describe_refusal(program, &finished)),
        }
    }

    /// Why a call of `gh` or `glab` failed. Both print the answer of the server, and its status to standard error.
    fn describe_refusal(&self, program: &str, finished: &FinishedProgram) -> QueryError {
        let stderr = String::from_utf8_lossy(&finished.stderr);
        let answer: Option<serde_json::Value> = serde_json::from_slice(&finished.stdout).ok();
        let field = |name: &str| Some(answer.as_ref()?.get(name)?.as_str()?.to_owned());
        let message = field("message").or_else(|| field("error"));
        let message = message.unwrap_or_else(|| stderr.lines().next().unwrap_or_default().into());
        let message = self.safe_line(&message, MAX_WHY_CHARS);
        let status = find_http_status(&stderr);
        let why = match (status, message.is_empty(), finished.code) {
            (Some(status), true, _) => format!("`{program}` got HTTP {status}"),
            (Some(status), false, _) => format!("`{program}` got HTTP {status}: {message}"),
            (None, true, Some(code)) => format!("`{program}` exited with {code}"),
            (None, true, None) => format!("`{program}` was killed"),
            (None, false, _) => format!("`{program}`: {message}"),
        };
        let is_limited = message.to_ascii_lowercase().contains("rate limit");
        classify_status(status, is_limited, why)
    }

    /// Where the person's own command runs: for a run in a checkout of its base, because the agent can write to the work
    /// tree whatever the command loads.
    fn command_place(&self, words: &[String]) -> Result<CommandPlace<'a>, QueryError> {
        let context = &self.course.context;
        let place = match (context.ci_base, self.course.ci_checkout) {
            (None, _) => {
                let directory = context.project.join(&self.gate.cwd);
                CommandPlace::in_directory(directory, context.environment)
            }
            (Some(_), Some(checkout)) => checkout.place_command(words, &self.gate.cwd),
            (Some(_), None) => {
                let why = "there is no checkout of the base to run the command in";
                return Err(QueryError::Permanent(why.to_string()));
            }
        };
        match &place.refusal {
            Some(why) => Err(QueryError::Permanent(why.clone())),
            None => Ok(place),
        }
    }

    /// Runs the person's own command.
    pub(super) fn read_command<T: DeserializeOwned>(&self, commit: &str) -> Result<T, QueryError> {
        let GateInvocation::Argv(words) = &self.gate.command else {
            return Err(QueryError::Permanent("it has no command".to_string()));
        };
        let program = words.first().map(String::as_str).unwrap_or_default();
        let place = self.command_place(words)?;
        let context = &self.course.context;
        let finished = self.run_program(&ProviderProgram {
            argv: words
                .iter()
                .map(|word| word.replace(COMMIT_PLACEHOLDER, commit).into())
                .collect(),
            cwd: &place.directory,
            mounts: place.mounts,
            environment: &measuring_environment(
                context.env,
                place.environment,
                &self.gate.env,
                context.path,
                self.directory.path(),
            ),
            input: "",
        })?;
        if let Some(why) = place.describe_package_change() {
            return Err(QueryError::Permanent(why));
        }
        let quoted = self.safe_line(program, MAX_WHY_CHARS);
        match finished.code {
            Some(0) => self.parse_answer(&finished.stdout),
            Some(code @ (126 | 127)) => {
                let why = format!("`{quoted}` could not be run (exit code {code})");
                Err(QueryError::Permanent(why))
            }
            Some(code) => {
                let last = String::from_utf8_lossy(&finished.stderr).into_owned();
                let last = last.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                let last = self.safe_line(last, MAX_WHY_CHARS);
                let last = if last.is_empty() { last } else { format!(": {last}") };
                Err(QueryError::Transient(format!("`{quoted}` exited with {code}{last}")))
            }
            None => Err(QueryError::Transient(format!("`{quoted}` was killed"))),
        }
    }

    /// Reads a JSON document with `curl`.
    pub(super) fn read_url<T: DeserializeOwned>(
        &self,
        url: &str,
        commit: &str,
    ) -> Result<T, QueryError> {
        let url = url.replace(COMMIT_PLACEHOLDER, commit);
        let address = RequestAddress::parse(&url)
            .map_err(|why| QueryError::Permanent(format!("the address {why}")))?;
        let mut headers = vec![("Accept", "application/json")];
        let authorization = self.token.as_ref().map(|token| format!("Bearer {token}"));
        headers.extend(authorization.iter().map(|value| ("Authorization", value.as_str())));
        let request = CurlRequest {
            address: &url,
            schemes: if address.is_encrypted() {
                CurlSchemes::HttpsOnly
            } else {
                CurlSchemes::HttpOrHttps
            },
            headers: &headers,
            body: None,
            output: CurlOutput::Response,
            max_seconds: CURL_TIMEOUT_SECONDS,
            is_local: address.is_loopback,
        };
        let finished = self.run_program(&ProviderProgram {
            argv: request.argv().into_iter().map(OsString::from).collect(),
            cwd: Path::new("/"),
            mounts: None,
            environment: &self.environment,
            input: &request.config(),
        })?;
        let printed = String::from_utf8_lossy(&finished.stdout);
        let response = CurlResponse::parse(&printed).filter(|_| finished.code == Some(0));
        let Some(response) = response else {
            let why = self.safe_line(&String::from_utf8_lossy(&finished.stderr), MAX_WHY_CHARS);
            return Err(QueryError::Transient(format!("`curl` failed: {why}")));
        };
        let why = format!("the address answered HTTP {}", response.status);
        match response.status {
            200..=299 => self.parse_answer(response.body.as_bytes()),
            // An address that does not exist looks like a commit that was not pushed.
            404 | 422 => Err(QueryError::Permanent(why)),
            status => Err(classify_status(Some(status), false, why)),
        }
    }

    fn parse_answer<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, QueryError> {
        serde_json::from_slice(bytes).map_err(|error| {
            let why = self.safe_line(&error.to_string(), MAX_WHY_CHARS);
            QueryError::Permanent(format!("the provider gave an unexpected answer: {why}"))
        })
    }

    fn run_program(&self, program: &ProviderProgram<'_>) -> Result<FinishedProgram, QueryError> {
        let finished = job::run_job(&JobSpec {
            program: &env::own_executable(),
            argv: &program.argv,
            cwd: program.cwd,
            env: program.environment,
            input: CommandInput::Bytes(program.input.as_bytes()),
            stderr: StderrCapture::Separate,
            capture_limits: CaptureLimits { head: 0, tail: MAX_ANSWER_BYTES },
            deadline: Deadline::after(CALL_TIMEOUT).min(self.deadline),
            grace: CALL_GRACE,
            mounts: program.mounts,
            ..JobSpec::with_defaults(self.course.cancel)
        });
        let code = if let JobEnd::Exited(code) = finished.end { Some(code) } else { None };
        let name = program.argv.first().map(|word| word.to_string_lossy().into_owned());
        let name = self.safe_line(&name.unwrap_or_default(), MAX_WHY_CHARS);
        match finished.end {
            JobEnd::Cancelled => Err(QueryError::Cancelled),
            JobEnd::CouldNotStart(error) => Err(QueryError::Permanent(describe_error(&error))),
            JobEnd::TimedOut => {
                Err(QueryError::Transient(format!("`{name}` did not answer in time")))
            }
            JobEnd::Lost => {
                Err(QueryError::Transient(format!("the supervisor of `{name}` was killed")))
            }
            // The end of a long answer could be a valid one.
            JobEnd::Exited(_) | JobEnd::Signalled(_)
                if finished.output.total > finished.output.tail.len() as u64 =>
            {
                Err(QueryError::Permanent(format!(
                    "`{name}` answered with more than {MAX_ANSWER_BYTES} bytes"
                )))
            }
            JobEnd::Exited(_) | JobEnd::Signalled(_) => Ok(FinishedProgram {
                code,
                stdout: finished.output.tail,
                stderr: finished.stderr.tail,
            }),
        }
    }
}

fn classify_status(status: Option<u16>, is_limited: bool, why: String) -> QueryError {
    match status {
        Some(429) => QueryError::RateLimited(why),
        Some(403) if is_limited => QueryError::RateLimited(why),
        // GitHub answers 422 for an id that is no commit.
        Some(404 | 422) => QueryError::NotFound(why),
        Some(408 | 500..=599) | None => QueryError::Transient(why),
        Some(_) => QueryError::Permanent(why),
    }
}

/// The status in `gh: Bad credentials (HTTP 401)` and `glab: 404 Not Found (HTTP 404)`.
fn find_http_status(stderr: &str) -> Option<u16> {
    let (_, rest) = stderr.rsplit_once("HTTP ")?;
    rest.get(..3)?.parse().ok()
}

/// A value that can be a header and a variable.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_TOKEN_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_decides_whether_to_ask_again() {
        let kind = |status, is_limited| match classify_status(status, is_limited, String::new()) {
            QueryError::RateLimited(_) => "limited",
            QueryError::Transient(_) => "again",
            QueryError::Permanent(_) => "never",
            QueryError::NotFound(_) => "not found",
            QueryError::Cancelled => "cancelled",
        };
        for (stderr, is_limited, expected) in [
            ("gh: HTTP 429", false, "limited"),
            ("gh: API rate limit exceeded (HTTP 403)", true, "limited"),
            ("gh: Resource not accessible (HTTP 403)", false, "never"),
            ("gh: Bad credentials (HTTP 401)", false, "never"),
            ("gh: No commit found for SHA: 12 (HTTP 422)", false, "not found"),
            ("glab: 404 Project Not Found (HTTP 404)", false, "not found"),
            ("gh: HTTP 502", false, "again"),
            ("error connecting to api.github.com", false, "again"),
            ("gh: HTTP abc", false, "again"),
            ("HTTP ✗", false, "again"),
        ] {
            assert_eq!(kind(find_http_status(stderr), is_limited), expected, "{stderr}");
        }
    }

    #[test]
    fn a_token_is_one_word() {
        for (text, expected) in
            [("ghp_x", true), ("", false), ("a b", false), ("a\nb", false), ("✗", false)]
        {
            assert_eq!(is_token(text), expected, "{text:?}");
        }
    }
}
