//! Runs the hooks of one event: all at once, each under its own supervisor, with answers in order of completion.

use super::client_process::SimulatedClient;
use super::evaluator_hooks::{self, EvaluatorLaunch};
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome, HandlerAnswer};
use crate::client_rules::handler_answer::{FinishedHookProcess, HookIdentity, handler_answer};
use crate::hook_answer::HookExit;
use crate::hook_settings::{
    EvaluatorHandler, HandlerKind, HandlerMode, HookSettingsSource, LoadedHookSettings,
    RegisteredHandler,
};
use crate::matcher;
use ralph_sys::clock::Deadline;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::job::{
    self, CaptureLimits, JobEnd, JobResult, JobSpec, LeftoverPolicy, SparedProcesses, StderrCapture,
};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Kept bytes of each output. The client has no limit for a reason, so this is far above any real one.
const KEPT_OUTPUT: CaptureLimits = CaptureLimits { head: 4 * 1024 * 1024, tail: 0 };
/// Time between SIGTERM and SIGKILL after a timeout.
const KILL_GRACE: Duration = Duration::from_millis(500);

/// Replaces a timeout that is not a valid duration.
const FALLBACK_TIMEOUT: Duration = Duration::from_mins(10);

/// The program, environment and directories for all hooks of an event.
pub(crate) struct HookLaunchContext<'a> {
    /// The `ralph` binary, which supervises the hooks.
    pub(crate) program: &'a Path,
    pub(crate) cancel: &'a CancelToken,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// Parent of the plugins' data directories.
    pub(crate) plugin_data: PathBuf,
}

/// A running hook that the client does not wait for.
#[derive(Debug)]
pub(crate) struct AsyncHook {
    cancel: Arc<CancelToken>,
    thread: thread::JoinHandle<()>,
}

impl AsyncHook {
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Kills the hook and waits for its thread.
    pub(crate) fn kill(self) {
        self.cancel.cancel();
        // The thread returns nothing.
        drop(self.thread.join());
    }
}

pub(super) fn fire_event(host: &mut SimulatedClient<'_>, telling: DispatchedEvent) -> EventOutcome {
    let settings = host.load_settings();
    let event = telling.event;
    let bytes = telling.input.to_line();
    let cancel = Arc::clone(&host.cancel);
    let ground = HookLaunchContext {
        program: host.program,
        cancel: &cancel,
        env: host.hook_environment(&settings, event),
        cwd: host.cwd.clone(),
        plugin_data: host.stage.home.join(".claude/plugins/data"),
    };
    let orders = plan_launches(&settings, &telling, &ground);
    for order in orders.detached {
        match start_async(&ground, order, bytes.clone()) {
            Ok(hook) => host.async_hooks.push(hook),
            Err(error) => host.notice_once(async_hook_failure(&error)),
        }
    }
    for complaint in orders.skipped {
        host.notice_once(complaint);
    }
    let asked = orders.asked;
    let mut answers = Vec::new();
    for (mut answered, remains) in run_and_wait(&ground, event, orders.awaited, &bytes) {
        host.keep_leftovers(remains);
        host.was_killed |= answered.killed_client();
        answered.delivered_context =
            answered.answer.context.as_ref().map(|context| host.deliver_context(event, context));
        answers.push(answered);
    }
    answers.extend(evaluator_hooks::run_evaluators(host, &telling, asked));
    let mut outcome = EventOutcome::new(telling, answers);
    outcome.hooks_enabled = !settings.disabled;
    outcome
}

/// A hook process to start.
pub(crate) struct HookLaunch {
    identity: HookIdentity,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    timeout: Duration,
}

/// The hook processes of an event.
pub(crate) struct HookLaunches {
    pub(crate) awaited: Vec<HookLaunch>,
    pub(crate) detached: Vec<HookLaunch>,
    /// Questions to a model.
    pub(crate) asked: Vec<EvaluatorLaunch>,
    /// Hooks that are skipped, with the reason.
    pub(crate) skipped: Vec<String>,
}

pub(crate) fn plan_launches(
    settings: &LoadedHookSettings,
    telling: &DispatchedEvent,
    ground: &HookLaunchContext<'_>,
) -> HookLaunches {
    let event = telling.event;
    let mut all = HookLaunches {
        awaited: Vec::new(),
        detached: Vec::new(),
        asked: Vec::new(),
        skipped: Vec::new(),
    };
    let input = telling.input.to_value();
    let call = input.get("tool_input").cloned().unwrap_or_default();
    for handler in settings.handlers(event, telling.subject.as_deref()) {
        if handler.condition.as_ref().is_some_and(|rule| !matcher::rule_matches(rule, &call)) {
            continue;
        }
        match plan_launch(settings, handler, ground) {
            PlannedHook::Process(order) if handler.mode == HandlerMode::Async => {
                all.detached.push(order);
            }
            PlannedHook::Process(order) => all.awaited.push(order),
            PlannedHook::Question(question) => all.asked.push(question),
            PlannedHook::Skipped(why) => all
                .skipped
                .push(format!("skipped a {event} hook from {} settings: {why}", handler.source)),
        }
    }
    all
}

enum PlannedHook {
    Process(HookLaunch),
    Question(EvaluatorLaunch),
    /// With the reason.
    Skipped(&'static str),
}

/// The events at which the client was observed to ask a model.
const EVALUATED_EVENTS: [&str; 5] =
    ["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop"];

fn plan_question(
    settings: &LoadedHookSettings,
    handler: &RegisteredHandler,
    evaluator: &EvaluatorHandler,
) -> PlannedHook {
    let event = handler.event.as_str();
    if matches!(event, "SessionStart" | "SessionEnd") {
        return PlannedHook::Skipped("the client asks no model at this event");
    }
    if !EVALUATED_EVENTS.contains(&event) {
        return PlannedHook::Skipped("its type is not simulated at this event");
    }
    PlannedHook::Question(EvaluatorLaunch {
        identity: HookIdentity {
            command: evaluator.prompt.clone(),
            source: handler.source.to_string(),
            plugin: plugin_label(&handler.source),
        },
        handler: evaluator.clone(),
        timeout: handler_timeout(settings, handler),
    })
}

fn plugin_label(source: &HookSettingsSource) -> Option<String> {
    match source {
        HookSettingsSource::Plugin { name, marketplace, .. } => {
            Some(format!("{name}@{marketplace}"))
        }
        HookSettingsSource::User
        | HookSettingsSource::Project
        | HookSettingsSource::Local
        | HookSettingsSource::Flag => None,
    }
}

fn handler_timeout(settings: &LoadedHookSettings, handler: &RegisteredHandler) -> Duration {
    Duration::try_from_secs_f64(settings.timeout(handler)).unwrap_or(FALLBACK_TIMEOUT)
}

fn plan_launch(
    settings: &LoadedHookSettings,
    handler: &RegisteredHandler,
    ground: &HookLaunchContext<'_>,
) -> PlannedHook {
    let (command, given) = match &handler.kind {
        HandlerKind::Command { command, args } => (command, args),
        HandlerKind::Evaluator(evaluator) => return plan_question(settings, handler, evaluator),
        HandlerKind::Unsupported(_) => return PlannedHook::Skipped("its type is not simulated"),
    };
    let mut env = ground.env.clone();
    let mut command = command.clone();
    if let HookSettingsSource::Plugin { name, root, .. } = &handler.source {
        command = expand_plugin_root(&command, root);
        env.push(("CLAUDE_PLUGIN_ROOT".into(), root.into()));
        env.push(("CLAUDE_PLUGIN_DATA".into(), ground.plugin_data.join(name).into()));
    }
    let (argv, command) = match given {
        None => (shell_argv(&command), command),
        Some(rest) => {
            // Without a shell, the client expands these variables itself.
            let words = std::iter::once(&command).chain(rest);
            let shown = words.clone().map(String::as_str).collect::<Vec<_>>().join(" ");
            (words.map(|word| expand_variables(word, &env).into()).collect(), shown)
        }
    };
    PlannedHook::Process(HookLaunch {
        identity: HookIdentity {
            command,
            source: handler.source.to_string(),
            plugin: plugin_label(&handler.source),
        },
        argv,
        env,
        cwd: ground.cwd.clone(),
        timeout: handler_timeout(settings, handler),
    })
}

/// Expands `CLAUDE_PLUGIN_ROOT` as the client does before it shows and runs a command.
pub(crate) fn expand_plugin_root(command: &str, root: &str) -> String {
    command.replace("${CLAUDE_PLUGIN_ROOT}", root).replace("$CLAUDE_PLUGIN_ROOT", root)
}

fn expand_variables(word: &str, env: &[(OsString, OsString)]) -> String {
    let mut word = word.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"] {
        let value = env.iter().rev().find(|(known, _)| known == name);
        if let Some((_, value)) = value {
            word = word.replace(&format!("${{{name}}}"), &value.to_string_lossy());
        }
    }
    word
}

fn shell_argv(command: &str) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command.into()]
}

/// Runs hooks and waits for all of them. Returns answers in order of completion, each with the processes that the hook
/// left running.
pub(crate) fn run_and_wait(
    ground: &HookLaunchContext<'_>,
    event: &str,
    orders: Vec<HookLaunch>,
    input: &[u8],
) -> Vec<(HandlerAnswer, Option<SparedProcesses>)> {
    let ran = run_concurrently(ground, orders, input);
    ran.into_iter().map(|(order, finished)| interpret_finished(event, order, finished)).collect()
}

fn run_concurrently(
    ground: &HookLaunchContext<'_>,
    orders: Vec<HookLaunch>,
    input: &[u8],
) -> Vec<(HookLaunch, JobResult)> {
    let (program, cancel) = (ground.program, ground.cancel);
    if orders.len() < 2 {
        let ran = orders.into_iter().map(|order| {
            let finished = run_hook(program, &order, input, cancel);
            (order, finished)
        });
        return ran.collect();
    }
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for order in orders {
            let sender = sender.clone();
            scope.spawn(move || {
                let finished = run_hook(program, &order, input, cancel);
                // The receiver outlives all senders.
                sender.send((order, finished)).ok();
            });
        }
        drop(sender);
        receiver.iter().collect()
    })
}

fn run_hook(program: &Path, order: &HookLaunch, input: &[u8], cancel: &CancelToken) -> JobResult {
    job::run_job(&JobSpec {
        program,
        argv: &order.argv,
        cwd: &order.cwd,
        env: &order.env,
        input: job::CommandInput::Bytes(input),
        stderr: StderrCapture::Separate,
        capture_limits: KEPT_OUTPUT,
        deadline: Deadline::after(order.timeout),
        grace: KILL_GRACE,
        leftovers: LeftoverPolicy::Spare,
        ..JobSpec::with_defaults(cancel)
    })
}

/// Starts a hook without waiting for it.
pub(crate) fn start_async(
    ground: &HookLaunchContext<'_>,
    order: HookLaunch,
    input: Vec<u8>,
) -> io::Result<AsyncHook> {
    let cancel = CancelToken::new().map(Arc::new)?;
    let program = ground.program.to_owned();
    let theirs = Arc::clone(&cancel);
    let thread = thread::spawn(move || drop(run_hook(&program, &order, &input, &theirs)));
    Ok(AsyncHook { cancel, thread })
}

pub(crate) fn async_hook_failure(error: &io::Error) -> String {
    format!("an asynchronous hook could not be started: {error}")
}

fn interpret_finished(
    event: &str,
    order: HookLaunch,
    finished: JobResult,
) -> (HandlerAnswer, Option<SparedProcesses>) {
    let exit = match finished.end {
        JobEnd::Exited(code) => HookExit::Code(code),
        JobEnd::Signalled(signal) => HookExit::Signal(signal),
        JobEnd::TimedOut | JobEnd::Cancelled => HookExit::TimedOut,
        JobEnd::CouldNotStart(error) => HookExit::NotStarted(error.to_string()),
        JobEnd::Lost => HookExit::Lost,
    };
    let ended = FinishedHookProcess {
        exit,
        stdout: String::from_utf8_lossy(&finished.output.head).into_owned(),
        stderr: String::from_utf8_lossy(&finished.stderr.head).into_owned(),
        ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
    };
    (handler_answer(event, order.identity, ended), finished.spared)
}
