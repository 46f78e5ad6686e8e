//! Sends one message by one channel: bell, desktop, command or webhook. Programs receive it as arguments, variables or
//! stdin; it never becomes part of a command line that a shell interprets.

use super::{Message, Way};
use ralph_core::text;
use ralph_gates::gates::tools;
use ralph_home::faults;
use ralph_sys::clock::Deadline;
use ralph_sys::env::{self, Env};
use ralph_sys::fs::bell;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::job::{self, CannotStart, Input, Job, Keep};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_millis(500);
/// Less than [`NOTIFIER_TIMEOUT`], so that `curl` itself reports what timed out.
const CURL_SECONDS: &str = "8";
/// How much output of a failed program is kept.
const KEPT: usize = 4096;
const SAID: usize = 160;

/// The result of sending one message by one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    pub way: String,
    #[serde(flatten)]
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum How {
    Sent,
    /// The channel does not exist on this machine, which is not an error.
    Skipped {
        why: String,
    },
    Failed {
        why: String,
    },
}

pub(super) fn send(env: &Env, way: &Way, message: &Message, cancel: &Cancel) -> Told {
    let how = match way {
        Way::Bell => match bell::ring_bell() {
            Ok(()) => How::Sent,
            Err(silent) => How::Skipped { why: silent.why().to_string() },
        },
        Way::Desktop => desktop(env, message, cancel),
        Way::Command(argv) => run(&command(env, argv, message), cancel),
        Way::Webhook(address) => run(&webhook(env, address, message), cancel),
    };
    Told { way: way.name().to_string(), how }
}

/// A program to run, with everything it receives.
struct Call {
    argv: Vec<OsString>,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
    input: String,
    secrets: Vec<String>,
}

impl Call {
    fn of(env: &Env, argv: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
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
fn command(env: &Env, argv: &[String], message: &Message) -> Call {
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
    Call { env: variables, input, ..Call::of(env, argv) }
}

/// The address and the message go through stdin, because other users can read the arguments of a process.
fn webhook(env: &Env, address: &str, message: &Message) -> Call {
    let argv = [
        "curl",
        "--silent",
        "--show-error",
        "--fail",
        "--output",
        "/dev/null",
        "--proto",
        "=https",
        "--max-time",
        CURL_SECONDS,
        "--config",
        "-",
    ];
    let input = format!(
        "url = {}\nheader = \"Content-Type: application/json\"\ndata-raw = {}\n",
        quoted(address),
        quoted(&body(message))
    );
    let mut call = Call { env: without_secrets(env), input, ..Call::of(env, argv) };
    call.secrets.push(address.to_string());
    call
}

/// The message as JSON, with its one-line form repeated as `text`, the key that chat servers expect.
fn body(message: &Message) -> String {
    #[derive(Serialize)]
    struct Body<'a> {
        text: &'a str,
        #[serde(flatten)]
        message: &'a Message,
    }
    let body = Body { text: &message.message, message };
    serde_json::to_string(&body).unwrap_or_default()
}

/// Quotes a value for a `curl` configuration file. The text contains no line breaks.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn desktop(env: &Env, message: &Message, cancel: &Cancel) -> How {
    let title = format!("ralph: {}", message.status);
    let argv: Vec<String> = if cfg!(target_os = "macos") {
        let script = ["on run argv", SHOW, "end run"];
        let lines = script.iter().flat_map(|line| ["-e", line]);
        ["osascript"].into_iter().chain(lines).map(str::to_string).collect()
    } else {
        ["notify-send", "--app-name=ralph", "--"].map(str::to_string).into()
    };
    let mut call = Call { env: without_secrets(env), ..Call::of(env, argv) };
    call.argv.push(title.into());
    call.argv.push(if cfg!(target_os = "macos") {
        message.message.clone().into()
    } else {
        without_markup(&message.message).into()
    });
    let Some(program) = call.argv.first() else { return How::Sent };
    let path = env.search_path().unwrap_or_default();
    if tools::find(program, &call.cwd, &path).is_none() {
        return How::Skipped { why: format!("`{}` was not found", program.display()) };
    }
    run(&call, cancel)
}

const SHOW: &str = "display notification (item 2 of argv) with title (item 1 of argv)";

/// Desktops interpret tags and entities in the text as HTML.
fn without_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn without_secrets(env: &Env) -> Vec<(OsString, OsString)> {
    let withheld = env.withheld();
    let mut variables = env.variables();
    variables.retain(|(name, _)| !withheld.contains(name));
    variables
}

fn run(call: &Call, cancel: &Cancel) -> How {
    let program = call.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let finished = job::supervise(&Job {
        program: &env::this_program(),
        argv: &call.argv,
        cwd: &call.cwd,
        env: &call.env,
        input: Input::Bytes(call.input.as_bytes()),
        keep: Keep { head: 0, tail: KEPT },
        secrets: &call.secrets,
        deadline: Deadline::after(LONGEST),
        grace: GRACE,
        ..Job::blank(cancel)
    });
    let why = match finished.how {
        job::How::Exited(0) => return How::Sent,
        job::How::Exited(code) => {
            let output = text::line(&String::from_utf8_lossy(&finished.output.tail), SAID);
            let output = if output.is_empty() { output } else { format!(": {output}") };
            format!("exited with code {code}{output}")
        }
        job::How::Signalled(signal) => format!("was killed by signal {signal}"),
        job::How::TimedOut => format!("took longer than {} s", LONGEST.as_secs()),
        job::How::Cancelled => "was cancelled".to_string(),
        job::How::Lost => "ended, and its exit code is unknown".to_string(),
        job::How::CouldNotStart(error) => cannot_start(&error),
    };
    How::Failed { why: format!("{} {why}", named(program)) }
}

fn named(program: &OsStr) -> String {
    format!("`{}`", text::line(&program.to_string_lossy(), 200))
}

fn cannot_start(error: &CannotStart) -> String {
    if let CannotStart::Program { source, .. } = error
        && source.kind() == io::ErrorKind::NotFound
    {
        return "was not found".to_string();
    }
    format!("could not be started: {}", faults::describe(error))
}
