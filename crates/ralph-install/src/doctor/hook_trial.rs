//! Runs a registered command as the client would, with a temporary home, so that no real run is counted or held.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::DoctorContext;
use super::loaded_hooks::{HookSource, RegisteredHook};
use ralph_core::id::SessionId;
use ralph_core::run_terms::RunTerms;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::world::World;
use ralph_hook::control::{self, GateSelection, RunRequest};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::{self, Env};
use ralph_sys::fs::{self, Durability};
use ralph_sys::proc::job::{
    self, CaptureLimits, CapturedOutput, CommandInput, JobEnd, JobResult, JobSpec, StderrCapture,
};
use serde_json::Value;

/// An idle hook answers in milliseconds.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
const TRIAL_GRACE: Duration = Duration::from_millis(200);
const KEPT_OUTPUT: CaptureLimits = CaptureLimits { head: 64 * 1024, tail: 1024 };
/// The `PATH` of a client that was started without the person's shell profile.
const DEFAULT_SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How a hook answered an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TrialAnswer {
    Fired,
    NotFired(String),
    /// It timed out.
    Late,
    WrongShape(String),
}

/// A temporary home with one run, and two sessions to stop in it.
pub(super) struct HookTrial<'a> {
    context: &'a DoctorContext<'a>,
    home: RalphHome,
    /// No run holds this session.
    idle_session: SessionId,
    /// A run holds this session; `None` if the run could not be started.
    held_session: Option<SessionId>,
    /// The variables that settings give to hooks.
    variables: Vec<(OsString, OsString)>,
}

impl<'a> HookTrial<'a> {
    /// Creates the home; `None` if that fails.
    pub(super) fn prepare(
        context: &'a DoctorContext<'a>,
        settings: &[(String, String, PathBuf)],
    ) -> Option<Self> {
        let nonce = clock::nonce();
        let home = RalphHome::new(context.scratch.join(format!("{nonce:016x}")));
        let named = |what: &str| SessionId::parse(&format!("doctor-{what}-{nonce:016x}"));
        let idle = named("idle")?;
        // The tombstone keeps this session from adopting a loop directory of the project.
        let tombstone = home.tombstone(idle.as_str());
        fs::create_private_dir(tombstone.parent()?).ok()?;
        fs::replace(&tombstone, b"", Durability::Cached).ok()?;
        let armed = named("armed").filter(|session| start_trial_run(context, &home, session));
        // Another check reports whether the settings turn ralph off.
        let variables = settings
            .iter()
            .filter(|(name, ..)| !name.starts_with("RALPH_"))
            .map(|(name, value, _)| (name.into(), value.into()))
            .collect();
        Some(Self { context, home, idle_session: idle, held_session: armed, variables })
    }

    /// Sends an event of the session that no run holds.
    pub(super) fn try_idle(&self, hook: &RegisteredHook) -> TrialAnswer {
        let finished = self.run_hook(hook, &self.idle_session);
        match finished_exit_code(&finished) {
            Err(answer) => answer,
            Ok(0) if finished.output.total == 0 => TrialAnswer::Fired,
            Ok(0) if !self.is_stop_hook(hook) && is_json_object(&finished.output) => {
                TrialAnswer::Fired
            }
            Ok(0) => TrialAnswer::WrongShape(format!(
                "it prints `{}`, but should print nothing",
                output_excerpt(&finished.output)
            )),
            Ok(2) => TrialAnswer::WrongShape(format!(
                "exit code 2, which blocks, in a session that no run holds: `{}`",
                output_excerpt(&finished.stderr)
            )),
            Ok(code) => TrialAnswer::WrongShape(format!(
                "exit code {code}, which the client treats as an error: `{}`",
                output_excerpt(&finished.stderr)
            )),
        }
    }

    /// Sends a stop of the session that a run holds; `None` if there is no such run.
    pub(super) fn try_held(&self, hook: &RegisteredHook) -> Option<TrialAnswer> {
        let finished = self.run_hook(hook, self.held_session.as_ref()?);
        let code = match finished_exit_code(&finished) {
            Err(answer) => return Some(answer),
            Ok(code) => code,
        };
        let (stdout, stderr) = (&finished.output.head, &finished.stderr.head);
        let held = (self.context.host.hooks.holds_session)(code, stdout, stderr);
        Some(if held {
            TrialAnswer::Fired
        } else {
            TrialAnswer::WrongShape(format!(
                "it did not hold an unfinished run: exit code {code}, `{}`",
                output_excerpt(&finished.output)
            ))
        })
    }

    fn run_hook(&self, hook: &RegisteredHook, session: &SessionId) -> JobResult {
        let (context, host) = (self.context, self.context.host);
        let project = context.project.to_string_lossy();
        let payload = (host.hooks.sample_event)(&hook.hook.event, session.as_str(), &project);
        let timeout = hook.hook.timeout.map(Duration::try_from_secs_f64);
        let timeout = timeout.and_then(Result::ok).unwrap_or(TRIAL_TIMEOUT).min(TRIAL_TIMEOUT);
        let secrets = self.secrets();
        job::run_job(&JobSpec {
            program: context.program,
            argv: &hook_argv(context, hook),
            cwd: context.project,
            env: &self.environment(hook, session),
            input: CommandInput::Bytes(&payload),
            stderr: StderrCapture::Separate,
            capture_limits: KEPT_OUTPUT,
            secrets: &secrets,
            deadline: Deadline::after(timeout),
            grace: TRIAL_GRACE,
            ..JobSpec::with_defaults(context.cancel)
        })
    }

    fn is_stop_hook(&self, hook: &RegisteredHook) -> bool {
        self.context.host.hooks.stop_events.contains(&hook.hook.event.as_str())
    }

    /// The event that holds a session.
    pub(super) fn session_stop(&self) -> &'static str {
        self.context.host.hooks.session_stop()
    }

    fn secrets(&self) -> Vec<String> {
        let secret = self.variables.iter().filter(|(name, _)| env::is_secret_name(name));
        secret.filter_map(|(_, value)| value.clone().into_string().ok()).collect()
    }

    fn environment(&self, hook: &RegisteredHook, session: &SessionId) -> Vec<(OsString, OsString)> {
        let (context, host) = (self.context, self.context.host);
        let names = &host.variables;
        let home = context.env.home().unwrap_or_default();
        let mut all: Vec<(OsString, OsString)> =
            vec![("HOME".into(), home.into()), ("PATH".into(), DEFAULT_SEARCH_PATH.into())];
        all.extend(self.variables.iter().cloned());
        all.extend([
            (names.agent_shell.into(), "1".into()),
            (names.project_dir.into(), context.project.into()),
            (names.session.into(), session.as_str().into()),
            (ralph_sys::env::REHEARSAL_VARIABLE.into(), self.home.root().into()),
        ]);
        let more = host.hooks.interactive_variables.iter();
        all.extend(more.map(|(name, value)| ((*name).into(), (*value).into())));
        if let HookSource::Plugin { root, .. } = &hook.from {
            all.push((names.plugin_root.into(), root.into()));
        }
        // The last value of a variable wins.
        let mut names: Vec<OsString> = Vec::new();
        all.reverse();
        all.retain(|(name, _)| {
            let is_new = !names.contains(name);
            names.push(name.clone());
            is_new
        });
        all
    }
}

/// Starts a run with only a goal, which never counts as done.
fn start_trial_run(context: &DoctorContext<'_>, home: &RalphHome, session: &SessionId) -> bool {
    // A fresh environment, so that the run belongs to the trial and not to an agent that may have called `doctor`.
    let variables = [("RALPH_HOME", home.root())];
    let env = Env::from_pairs(variables, None, Vec::new());
    let terms =
        RunTerms { goal: b"see whether the hook holds an agent\n".to_vec(), ..RunTerms::default() };
    let request = RunRequest {
        gates: GateSelection::Skipped,
        ..RunRequest::new(session.clone(), context.scratch.to_path_buf(), terms)
    };
    World::new(env, Deadline::after(TRIAL_TIMEOUT))
        .map(|world| World { host: context.host, ..world })
        .is_some_and(|world| control::start_run(&world, request).is_ok())
}

fn hook_argv(context: &DoctorContext<'_>, hook: &RegisteredHook) -> Vec<OsString> {
    let root = match &hook.from {
        HookSource::Plugin { root, .. } => root.to_string_lossy().into_owned(),
        HookSource::Layer { .. } => String::new(),
    };
    let project = context.project.to_string_lossy();
    let names = &context.host.variables;
    let in_plugin = |word: &str| word.replace(&format!("${{{}}}", names.plugin_root), &root);
    let filled = |word: &str| {
        in_plugin(word).replace(&format!("${{{}}}", names.project_dir), &project).into()
    };
    let Some(args) = &hook.hook.args else {
        let line = in_plugin(&hook.hook.command);
        return vec!["/bin/sh".into(), "-c".into(), line.into()];
    };
    let args = args.iter().map(|word| filled(word));
    std::iter::once(filled(&hook.hook.command)).chain(args).collect()
}

/// The exit code of the command; an error if it did not run to its end.
fn finished_exit_code(finished: &JobResult) -> Result<i32, TrialAnswer> {
    match &finished.end {
        JobEnd::Exited(127) => Err(TrialAnswer::NotFired(format!(
            "exit code 127, not found: `{}`",
            output_excerpt(&finished.stderr)
        ))),
        JobEnd::Exited(126) => Err(TrialAnswer::NotFired(format!(
            "exit code 126, not executable: `{}`",
            output_excerpt(&finished.stderr)
        ))),
        // A shell exits with 128 plus the signal that killed its child.
        JobEnd::Exited(code @ 129..=159) => {
            Err(TrialAnswer::NotFired(format!("killed by signal {}", code - 128)))
        }
        JobEnd::Exited(code) => Ok(*code),
        JobEnd::Signalled(signal) => {
            Err(TrialAnswer::NotFired(format!("killed by signal {signal}")))
        }
        JobEnd::TimedOut => Err(TrialAnswer::Late),
        JobEnd::Cancelled => Err(TrialAnswer::NotFired("it was interrupted".to_string())),
        JobEnd::CouldNotStart(error) => {
            Err(TrialAnswer::NotFired(ralph_home::faults::describe_error(error)))
        }
        JobEnd::Lost => Err(TrialAnswer::NotFired("its exit code is unknown".to_string())),
    }
}

fn is_json_object(output: &CapturedOutput) -> bool {
    matches!(serde_json::from_slice(output.head.trim_ascii()), Ok(Value::Object(_)))
}

fn output_excerpt(output: &CapturedOutput) -> String {
    text::clean_line(&String::from_utf8_lossy(&output.head), 120)
}

/// The first line that `--version` prints; `None` if the program fails.
pub(super) fn program_version(context: &DoctorContext<'_>, program: &Path) -> Option<String> {
    let home = context.env.home().unwrap_or_default();
    let path = context.env.search_path().unwrap_or_else(|| DEFAULT_SEARCH_PATH.into());
    let finished = job::run_job(&JobSpec {
        program: context.program,
        argv: &[program.into(), "--version".into()],
        cwd: context.scratch,
        env: &[("HOME".into(), home.into()), ("PATH".into(), path)],
        stderr: StderrCapture::Separate,
        capture_limits: KEPT_OUTPUT,
        deadline: Deadline::after(TRIAL_TIMEOUT),
        grace: TRIAL_GRACE,
        ..JobSpec::with_defaults(context.cancel)
    });
    match finished.end {
        JobEnd::Exited(0) => {
            let output = String::from_utf8_lossy(&finished.output.head);
            Some(text::clean_line(output.trim_start().lines().next().unwrap_or_default(), 120))
        }
        JobEnd::Exited(_)
        | JobEnd::Signalled(_)
        | JobEnd::TimedOut
        | JobEnd::Cancelled
        | JobEnd::CouldNotStart(_)
        | JobEnd::Lost => None,
    }
}
