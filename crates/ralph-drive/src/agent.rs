//! Command line, environment and start of one process of the agent's client.

use crate::meter::NativeCaps;
use ralph_core::drive::{DriveSettings, SessionOrigin};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_install::install::registration::BLOCK_CAP_VARIABLE;
use ralph_sys::clock;
use ralph_sys::env::{self, Env};
use ralph_sys::proc::line_process::{
    self, LineProcess, LineProcessError, LineProcessOutput, OnParentDeath,
};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variables that would change how the client behaves or make it believe that it runs inside another session.
const REMOVED_VARIABLES: [&str; 8] = [
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SIMPLE",
    "RALPH_LOOP_DIR",
    "RALPH_OFF",
];

const LONGEST_ARGUMENT: usize = 2_000;
/// Prefixes of variables whose values are recorded. Of all others only the name is.
const RECORDED_PREFIXES: [&str; 3] = ["ANTHROPIC_", "CLAUDE_", "RALPH_"];
const LONGEST_VARIABLE: usize = 200;
const MOST_VARIABLES: usize = 500;
/// Added to the client's cap for stops that are held without being counted.
const CAP_MARGIN: u32 = 1_000;

/// The part of an agent's command line and environment that is the same for every process of a run.
#[derive(Clone, Debug)]
pub struct AgentClient {
    pub program: PathBuf,
    /// The agent's working directory.
    pub project: PathBuf,
    pub env: Env,
}

/// The part that differs from one process of a run to the next.
#[derive(Clone, Debug)]
pub struct AgentLaunch<'a> {
    pub session: &'a SessionId,
    pub how: SessionOrigin,
    pub model: Option<&'a str>,
    pub caps: &'a NativeCaps,
    pub block_cap: u32,
}

/// The client's cap on consecutive blocks. R-L9b: higher than the run's own limit, so that ralph's limit applies first.
pub fn block_cap(limits: &RunLimits) -> u32 {
    limits.max_iterations.unwrap_or(1_000_000).saturating_add(CAP_MARGIN)
}

/// The command line. R-H4e: either `--session-id` or `--resume` is given; a fork has both, with different ids.
pub fn agent_argv(
    program: &Path,
    settings: &DriveSettings,
    call: &AgentLaunch<'_>,
) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![program.into()];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(OsString::from));
    add(&["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    match (call.how, &settings.from) {
        (SessionOrigin::Forked, Some(from)) => add(&[
            "--resume",
            from.as_str(),
            "--fork-session",
            "--session-id",
            call.session.as_str(),
        ]),
        (SessionOrigin::Fresh | SessionOrigin::Forked, _) => {
            add(&["--session-id", call.session.as_str()])
        }
        (SessionOrigin::Resumed, _) => add(&["--resume", call.session.as_str()]),
    }
    if let Some(model) = call.model {
        add(&["--model", model]);
    }
    if let Some(most) = &call.caps.max_budget_usd {
        add(&["--max-budget-usd", most]);
    }
    let is_settings = |word: &String| word == "--settings" || word.starts_with("--settings=");
    if !settings.arguments.iter().any(is_settings) {
        // The project's settings override the environment, and `--settings` overrides those.
        let cap = format!("{{\"env\":{{\"{BLOCK_CAP_VARIABLE}\":\"{}\"}}}}", call.block_cap);
        add(&["--settings", &cap]);
    }
    argv.extend(settings.arguments.iter().map(OsString::from));
    argv
}

/// The command line, redacted so that it can be recorded and shown.
pub fn redacted_argv(argv: &[OsString], redactor: &Redactor) -> Vec<String> {
    let shown = |word: &OsString| {
        text::clean_line(&redactor.redact(&word.to_string_lossy()), LONGEST_ARGUMENT)
    };
    argv.iter().map(shown).collect()
}

fn agent_environment(
    client: &AgentClient,
    run: &RunId,
    block_cap: u32,
) -> Vec<(OsString, OsString)> {
    let mut variables = client.env.variables();
    let ours = [
        ralph_sys::env::RUNNER_VARIABLE,
        BLOCK_CAP_VARIABLE,
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS",
    ];
    let is_kept = |name: &OsStr| !REMOVED_VARIABLES.iter().chain(&ours).any(|other| name == *other);
    variables.retain(|(name, _)| is_kept(name));
    let values = [run.to_string(), block_cap.to_string(), "1".to_string()];
    variables.extend(ours.into_iter().map(OsString::from).zip(values.map(OsString::from)));
    variables
}

/// The environment, redacted for the record. Values are kept only for the client's and ralph's own variables, because
/// they explain how the client behaved.
pub(crate) fn recorded_environment(
    client: &AgentClient,
    (run, block_cap): (&RunId, u32),
    redactor: &Redactor,
) -> Vec<String> {
    let shown = |(name, value): (OsString, OsString)| {
        let named = name.to_string_lossy();
        let has_value = RECORDED_PREFIXES.iter().any(|start| named.starts_with(start));
        if has_value && env::is_secret_name(&name) {
            return format!("{named}=[redacted]");
        }
        if has_value { format!("{named}={}", value.to_string_lossy()) } else { named.into_owned() }
    };
    let variables = agent_environment(client, run, block_cap).into_iter().map(shown);
    let mut kept: Vec<_> = variables
        .map(|one| text::clean_line(&redactor.redact(&one), LONGEST_VARIABLE))
        .take(MOST_VARIABLES)
        .collect();
    kept.sort();
    kept
}

/// Starts the client. It is killed when this process dies, and processes it leaves behind are found by `mark`.
pub(crate) fn start_agent(
    client: &AgentClient,
    (home, run): (&RalphHome, &RunId),
    (argv, block_cap, mark): (&[OsString], u32, Option<&str>),
    hear: impl FnMut(LineProcessOutput) + Send + 'static,
) -> Result<LineProcess, LineProcessError> {
    let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
    let variables = agent_environment(client, run, block_cap);
    let variables: Vec<_> =
        variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect();
    let errors = home.run(run).agent_errors();
    let this = env::own_executable();
    let spec = line_process::LineProcessSpec {
        argv: &argv,
        cwd: &client.project,
        env: &variables,
        stderr_path: &errors,
        mark,
        on_parent_death: OnParentDeath::Kill(&this),
    };
    line_process::start_line_process(&spec, hear)
}

/// A new session id: a random UUID, like those that the client generates.
pub fn new_session_id() -> Option<SessionId> {
    let key = clock::random_key()?;
    let mut id = String::with_capacity(36);
    for (at, byte) in key.into_iter().take(16).enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        // Version 4, variant 1.
        let byte = match at {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => byte,
        };
        id.push_str(&format!("{byte:02x}"));
    }
    SessionId::parse(&id)
}
