//! Sends one message by one channel: bell, desktop, command or webhook. Programs receive it as arguments, variables or
//! stdin; it never becomes part of a command line that a shell interprets.

use super::{NotificationMessage, NotifyChannel};
use ralph_core::text;
use ralph_home::faults;
use ralph_sys::clock::Deadline;
use ralph_sys::env::{self, Env};
use ralph_sys::fs::terminal_bell;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::curl_call::{CurlBody, CurlOutput, CurlRequest, CurlSchemes};
use ralph_sys::proc::job::{self, CaptureLimits, CommandInput, JobSpec, JobStartError};
use ralph_sys::proc::program_search;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

const NOTIFIER_TIMEOUT: Duration = Duration::from_secs(10);
const NOTIFIER_GRACE: Duration = Duration::from_millis(500);
/// Less than [`NOTIFIER_TIMEOUT`], so that `curl` itself reports what timed out.
const CURL_TIMEOUT_SECONDS: u64 = 8;
/// How much output of a failed program is kept.
const KEPT_OUTPUT_BYTES: usize = 4096;
const SHOWN_OUTPUT_CHARS: usize = 160;

/// The result of sending one message by one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationResult {
    pub way: String,
    #[serde(flatten)]
    pub how: NotificationStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum NotificationStatus {
    Sent,
    /// The channel does not exist on this machine, which is not an error.
    Skipped {
        why: String,
    },
    Failed {
        why: String,
    },
}

pub(super) fn send_by_channel(
    env: &Env,
    way: &NotifyChannel,
    message: &NotificationMessage,
    cancel: &CancelToken,
) -> NotificationResult {
    let how = match way {
        NotifyChannel::Bell => match terminal_bell::ring_bell() {
            Ok(()) => NotificationStatus::Sent,
            Err(silent) => NotificationStatus::Skipped { why: silent.reason().to_string() },
        },
        NotifyChannel::Desktop => notify_desktop(env, message, cancel),
        NotifyChannel::Command(argv) => run_notifier(&user_command(env, argv, message), cancel),
        NotifyChannel::Webhook(address) => {
            post_json(env, address, CurlSchemes::HttpsOnly, &webhook_body(message), cancel)
        }
    };
    NotificationResult { way: way.name().to_string(), how }
}

/// A program to run, with everything it receives.
struct NotifierCommand {
    argv: Vec<OsString>,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
    input: String,
    secrets: Vec<String>,
}

impl NotifierCommand {
    fn new(env: &Env, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            // Not the agent's directory: a relative name must not start or read a file of the project.
            cwd: env.home().unwrap_or_else(|| PathBuf::from("/")),
            env: Vec::new(),
            input: String::new(),
            secrets: env.secrets(),
        }
    }
}

/// The person's own program gets their whole environment, because it may need a token that is withheld elsewhere.
fn user_command(env: &Env, argv: &[String], message: &NotificationMessage) -> NotifierCommand {
    let mut variables = env.variables();
    for (name, value) in [
        ("RALPH_RUN", &message.run),
        ("RALPH_STATUS", &message.status),
        ("RALPH_TITLE", &message.title),
        ("RALPH_MESSAGE", &message.message),
    ] {
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value.into()));
    }
    let input = format!("{}\n", message.to_json());
    NotifierCommand { env: variables, input, ..NotifierCommand::new(env, argv) }
}

/// Posts a JSON text of one line with `curl`, so that this program needs no TLS library.
pub fn post_json(
    env: &Env,
    address: &str,
    schemes: CurlSchemes,
    body: &str,
    cancel: &CancelToken,
) -> NotificationStatus {
    run_notifier(&post_command(env, address, schemes, body), cancel)
}

/// The address and the body go through stdin, because other users can read the arguments of a process.
fn post_command(env: &Env, address: &str, schemes: CurlSchemes, body: &str) -> NotifierCommand {
    let post = CurlRequest {
        address,
        schemes,
        headers: &[],
        body: Some(CurlBody::Inline(body)),
        output: CurlOutput::Nothing,
        max_seconds: CURL_TIMEOUT_SECONDS,
        is_local: false,
    };
    let mut call = NotifierCommand {
        env: env.variables_without_secrets(),
        input: post.config(),
        ..NotifierCommand::new(env, post.argv())
    };
    call.secrets.push(address.to_string());
    call
}

/// The message as JSON, with its one-line form repeated as `text`, the key that chat servers expect.
pub(super) fn webhook_body(message: &NotificationMessage) -> String {
    #[derive(Serialize)]
    struct WebhookBody<'a> {
        text: String,
        #[serde(flatten)]
        message: &'a NotificationMessage,
    }
    let body = WebhookBody { text: escape_chat_text(&message.message), message };
    serde_json::to_string(&body).unwrap_or_default()
}

/// Replaces the three characters that Slack's markup reserves. Otherwise a goal or a question could mention a whole
/// channel (`<!channel>`) or hide an address behind a word (`<https://…|word>`).
fn escape_chat_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn notify_desktop(
    env: &Env,
    message: &NotificationMessage,
    cancel: &CancelToken,
) -> NotificationStatus {
    let title = format!("ralph: {}", message.status);
    let argv = ralph_sys::desktop_notifier(&title, &message.message);
    let call =
        NotifierCommand { env: env.variables_without_secrets(), ..NotifierCommand::new(env, argv) };
    let Some(program) = call.argv.first() else { return NotificationStatus::Sent };
    let path = env.search_path().unwrap_or_default();
    if program_search::find_program(program, &call.cwd, &path).is_none() {
        return NotificationStatus::Skipped {
            why: format!("`{}` was not found", program.display()),
        };
    }
    run_notifier(&call, cancel)
}

fn run_notifier(call: &NotifierCommand, cancel: &CancelToken) -> NotificationStatus {
    let program = call.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let finished = job::run_job(&JobSpec {
        program: &env::own_executable(),
        argv: &call.argv,
        cwd: &call.cwd,
        env: &call.env,
        input: CommandInput::Bytes(call.input.as_bytes()),
        capture_limits: CaptureLimits { head: 0, tail: KEPT_OUTPUT_BYTES },
        secrets: &call.secrets,
        deadline: Deadline::after(NOTIFIER_TIMEOUT),
        grace: NOTIFIER_GRACE,
        ..JobSpec::with_defaults(cancel)
    });
    let why = match finished.end {
        job::JobEnd::Exited(0) => return NotificationStatus::Sent,
        job::JobEnd::Exited(code) => {
            let output = text::clean_line(
                &String::from_utf8_lossy(&finished.output.tail),
                SHOWN_OUTPUT_CHARS,
            );
            let output = if output.is_empty() { output } else { format!(": {output}") };
            format!("exited with code {code}{output}")
        }
        job::JobEnd::Signalled(signal) => format!("was killed by signal {signal}"),
        job::JobEnd::TimedOut => format!("took longer than {} s", NOTIFIER_TIMEOUT.as_secs()),
        job::JobEnd::Cancelled => "was cancelled".to_string(),
        job::JobEnd::Lost => "ended, and its exit code is unknown".to_string(),
        job::JobEnd::CouldNotStart(error) => start_error(&error),
    };
    NotificationStatus::Failed { why: format!("{} {why}", quoted_program(program)) }
}

fn quoted_program(program: &OsStr) -> String {
    format!("`{}`", text::clean_line(&program.to_string_lossy(), 200))
}

fn start_error(error: &JobStartError) -> String {
    if let JobStartError::Program { source, .. } = error
        && source.kind() == io::ErrorKind::NotFound
    {
        return "was not found".to_string();
    }
    format!("could not be started: {}", faults::describe_error(error))
}
