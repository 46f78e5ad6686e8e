//! Command line, environment and start of one process of the agent's client.

use ralph_core::drive::DriveSettings;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_host::agent_launch::AgentLaunch;
use ralph_sys::clock;
use ralph_sys::env::{self, Env};
use ralph_sys::proc::line_process::{
    self, LineProcess, LineProcessError, LineProcessOutput, OnParentDeath,
};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Ralph's own variables that concern the runner and not the agent.
const REMOVED_VARIABLES: [&str; 2] = ["RALPH_LOOP_DIR", "RALPH_OFF"];
/// Ralph's own variables are recorded with their values.
const RECORDED_PREFIX: &str = "RALPH_";

const LONGEST_ARGUMENT: usize = 2_000;
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

/// The client's cap on consecutive blocks. R-L9b: higher than the run's own limit, so that ralph's limit applies first.
pub fn block_cap(limits: &RunLimits) -> u32 {
    limits.max_iterations.unwrap_or(1_000_000).saturating_add(CAP_MARGIN)
}

/// The whole command line.
pub fn agent_argv(
    program: &Path,
    settings: &DriveSettings,
    launch: &AgentLaunch<'_>,
) -> Vec<OsString> {
    let host = ralph_host::recorded_host(&settings.agent);
    let arguments = (host.launch.arguments)(settings, launch).into_iter().map(OsString::from);
    std::iter::once(program.into()).chain(arguments).collect()
}

/// The command line, redacted so that it can be recorded and shown.
pub fn redacted_argv(argv: &[OsString], redactor: &Redactor) -> Vec<String> {
    let shown = |word: &OsString| {
        text::clean_line(&redactor.redact(&word.to_string_lossy()), LONGEST_ARGUMENT)
    };
    argv.iter().map(shown).collect()
}

fn agent_environment(
    host: &HostProfile,
    client: &AgentClient,
    run: &RunId,
    block_cap: u32,
) -> Vec<(OsString, OsString)> {
    let HostProfile { launch, variables: names, .. } = host;
    let added = launch.added_variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
    let own = [(env::RUNNER_VARIABLE, run.to_string()), (names.block_cap, block_cap.to_string())];
    client_environment(host, client, own.into_iter().chain(added).collect())
}

/// The person's environment for a process of the client: without the variables that concern only ralph or an outer
/// session, and with the added ones.
pub(crate) fn client_environment(
    host: &HostProfile,
    client: &AgentClient,
    added: Vec<(&str, String)>,
) -> Vec<(OsString, OsString)> {
    let removed = host.launch.removed_variables.iter().chain(&REMOVED_VARIABLES);
    let is_removed = |name: &OsStr| removed.clone().any(|other| name == *other);
    let is_added = |name: &OsStr| added.iter().any(|(other, _)| name == *other);
    let mut variables = client.env.variables();
    variables.retain(|(name, _)| !is_removed(name) && !is_added(name));
    variables.extend(added.into_iter().map(|(name, value)| (name.into(), value.into())));
    variables
}

/// The environment, redacted for the record. Values are kept only for the client's and ralph's own variables, because
/// they explain how the client behaved.
pub(crate) fn recorded_environment(
    host: &HostProfile,
    client: &AgentClient,
    (run, block_cap): (&RunId, u32),
    redactor: &Redactor,
) -> Vec<String> {
    let shown = |(name, value): (OsString, OsString)| {
        let named = name.to_string_lossy();
        let prefixes = host.launch.recorded_prefixes.iter().chain([&RECORDED_PREFIX]);
        let has_value = prefixes.into_iter().any(|start| named.starts_with(start));
        if has_value && env::is_secret_name(&name) {
            return format!("{named}=[redacted]");
        }
        if has_value { format!("{named}={}", value.to_string_lossy()) } else { named.into_owned() }
    };
    let variables = agent_environment(host, client, run, block_cap).into_iter().map(shown);
    let mut kept: Vec<_> = variables
        .map(|one| text::clean_line(&redactor.redact(&one), LONGEST_VARIABLE))
        .take(MOST_VARIABLES)
        .collect();
    kept.sort();
    kept
}

/// Starts the client. It is killed when this process dies, and processes it leaves behind are found by `mark`.
pub(crate) fn start_agent(
    host: &HostProfile,
    client: &AgentClient,
    (home, run): (&RalphHome, &RunId),
    (argv, block_cap, mark): (&[OsString], u32, Option<&str>),
    hear: impl FnMut(LineProcessOutput) + Send + 'static,
) -> Result<LineProcess, LineProcessError> {
    let argv: Vec<&OsStr> = argv.iter().map(OsString::as_os_str).collect();
    let variables = agent_environment(host, client, run, block_cap);
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
