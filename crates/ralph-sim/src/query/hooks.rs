//! Runs the hooks of one event: all at once, each under its own supervisor, with answers in order of completion.

use super::host::Host;
use super::input::Input;
use super::remark::remark;
use super::told::{Answered, Told};
use crate::answer::{self, Exit, Output};
use crate::matcher;
use crate::settings::{Hook, Kind, Loaded, Mode, Source};
use crate::timeline::{Handled, Lane};
use ralph_sys::clock::Deadline;
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::job::{self, Errors, Finished, How, Job, Keep, Leftovers, Remains};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Kept bytes of each output. The client has no limit for a reason, so this is far above any real one.
const KEEP: Keep = Keep { head: 4 * 1024 * 1024, tail: 0 };
/// Time between SIGTERM and SIGKILL after a timeout.
const GRACE: Duration = Duration::from_millis(500);

/// Replaces a timeout that is not a valid duration.
const LONGEST: Duration = Duration::from_mins(10);

/// An event to run hooks for.
pub(crate) struct Telling {
    pub(crate) event: &'static str,
    /// Matchers are compared with this.
    pub(crate) subject: Option<String>,
    pub(crate) agent: Lane,
    pub(crate) input: Input,
}

/// What every hook of an event is launched with.
pub(crate) struct Ground<'a> {
    /// The `ralph` binary, which supervises the hooks.
    pub(crate) program: &'a Path,
    pub(crate) cancel: &'a Cancel,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    /// Parent of the plugins' data directories.
    pub(crate) plugin_data: PathBuf,
}

/// The variables that the client sets for every process it starts.
pub(crate) fn variables(project: &Path, session: &str, pid: u32) -> [(OsString, OsString); 6] {
    [
        ("CLAUDE_PROJECT_DIR", project.into()),
        ("CLAUDECODE", "1".into()),
        ("CLAUDE_CODE_SESSION_ID", session.into()),
        ("CLAUDE_PID", pid.to_string().into()),
        ("CLAUDE_CODE_ENTRYPOINT", "sdk-cli".into()),
        ("CLAUDE_CODE_CHILD_SESSION", "1".into()),
    ]
    .map(|(name, value)| (name.into(), value))
}

/// A running hook that the client does not wait for.
#[derive(Debug)]
pub(crate) struct Asynchronous {
    cancel: Arc<Cancel>,
    thread: thread::JoinHandle<()>,
}

impl Asynchronous {
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Kills the hook and waits for its thread.
    pub(crate) fn end(self) {
        self.cancel.wish();
        // The thread returns nothing.
        drop(self.thread.join());
    }
}

pub(super) fn tell(host: &mut Host<'_>, telling: Telling) -> Told {
    let settings = host.settings();
    let event = telling.event;
    let bytes = telling.input.bytes();
    let cancel = Arc::clone(&host.cancel);
    let ground = Ground {
        program: host.program,
        cancel: &cancel,
        env: host.hook_environment(&settings, event),
        cwd: host.cwd.clone(),
        plugin_data: host.stage.home.join(".claude/plugins/data"),
    };
    let orders = orders(&settings, &telling, &ground);
    for order in orders.detached {
        host.asynchronous.extend(start(&ground, order, bytes.clone()));
    }
    for complaint in orders.complaints {
        host.complain(complaint);
    }
    let mut answers = Vec::new();
    for (mut answered, remains) in ask(&ground, event, orders.awaited, &bytes) {
        host.keep(remains);
        host.was_killed |= answered.has_killed();
        answered.added =
            answered.answer.context.as_ref().map(|context| host.deliver(event, context));
        answers.push(answered);
    }
    let mut told = Told::new(telling, answers);
    told.is_heard = !settings.disabled;
    told
}

/// Identifies a hook.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The command, as the client shows it.
    pub(crate) command: String,
    pub(crate) source: String,
    pub(crate) plugin: Option<String>,
}

/// A hook process to start.
pub(crate) struct Order {
    asked: Asked,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    timeout: Duration,
}

/// The hook processes of an event.
pub(crate) struct Orders {
    pub(crate) awaited: Vec<Order>,
    pub(crate) detached: Vec<Order>,
    /// Hooks that are skipped, with the reason.
    pub(crate) complaints: Vec<String>,
}

pub(crate) fn orders(settings: &Loaded, telling: &Telling, ground: &Ground<'_>) -> Orders {
    let event = telling.event;
    let mut all = Orders { awaited: Vec::new(), detached: Vec::new(), complaints: Vec::new() };
    let input = telling.input.value();
    let call = input.get("tool_input").cloned().unwrap_or_default();
    for handler in settings.handlers(event, telling.subject.as_deref()) {
        if handler.condition.as_ref().is_some_and(|rule| !matcher::is_meant(rule, &call)) {
            continue;
        }
        match order(settings, handler, ground) {
            Some(order) if handler.mode == Mode::Async => all.detached.push(order),
            Some(order) => all.awaited.push(order),
            None => all.complaints.push(format!(
                "skipped a {event} hook from {} settings: its type is not simulated",
                handler.source
            )),
        }
    }
    all
}

fn order(settings: &Loaded, handler: &Hook, ground: &Ground<'_>) -> Option<Order> {
    let Kind::Command { command, args } = &handler.kind else { return None };
    let mut env = ground.env.clone();
    let mut command = command.clone();
    let mut plugin = None;
    if let Source::Plugin { name, marketplace, root } = &handler.source {
        command = with_root(&command, root);
        env.push(("CLAUDE_PLUGIN_ROOT".into(), root.into()));
        env.push(("CLAUDE_PLUGIN_DATA".into(), ground.plugin_data.join(name).into()));
        plugin = Some(format!("{name}@{marketplace}"));
    }
    let (argv, command) = match args {
        None => (shell(&command), command),
        Some(rest) => {
            // Without a shell, the client expands these variables itself.
            let words = std::iter::once(&command).chain(rest);
            let shown = words.clone().map(String::as_str).collect::<Vec<_>>().join(" ");
            (words.map(|word| fill(word, &env).into()).collect(), shown)
        }
    };
    Some(Order {
        asked: Asked { command, source: handler.source.to_string(), plugin },
        argv,
        env,
        cwd: ground.cwd.clone(),
        timeout: Duration::try_from_secs_f64(settings.limit(handler)).unwrap_or(LONGEST),
    })
}

/// Expands `CLAUDE_PLUGIN_ROOT` as the client does before it shows and runs a command.
pub(crate) fn with_root(command: &str, root: &str) -> String {
    command.replace("${CLAUDE_PLUGIN_ROOT}", root).replace("$CLAUDE_PLUGIN_ROOT", root)
}

fn fill(word: &str, env: &[(OsString, OsString)]) -> String {
    let mut word = word.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT"] {
        let value = env.iter().rev().find(|(known, _)| known == name);
        if let Some((_, value)) = value {
            word = word.replace(&format!("${{{name}}}"), &value.to_string_lossy());
        }
    }
    word
}

fn shell(command: &str) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command.into()]
}

/// Runs hooks and waits for all of them. Returns answers in order of completion, each with the processes that the hook
/// left running.
pub(crate) fn ask(
    ground: &Ground<'_>,
    event: &str,
    orders: Vec<Order>,
    input: &[u8],
) -> Vec<(Answered, Option<Remains>)> {
    let ran = run_all(ground, orders, input);
    ran.into_iter().map(|(order, finished)| understand(event, order, finished)).collect()
}

fn run_all(ground: &Ground<'_>, orders: Vec<Order>, input: &[u8]) -> Vec<(Order, Finished)> {
    let (program, cancel) = (ground.program, ground.cancel);
    if orders.len() < 2 {
        let ran = orders.into_iter().map(|order| {
            let finished = run(program, &order, input, cancel);
            (order, finished)
        });
        return ran.collect();
    }
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for order in orders {
            let sender = sender.clone();
            scope.spawn(move || {
                let finished = run(program, &order, input, cancel);
                // The receiver outlives all senders.
                sender.send((order, finished)).ok();
            });
        }
        drop(sender);
        receiver.iter().collect()
    })
}

fn run(program: &Path, order: &Order, input: &[u8], cancel: &Cancel) -> Finished {
    job::supervise(&Job {
        program,
        argv: &order.argv,
        cwd: &order.cwd,
        env: &order.env,
        input: job::Input::Bytes(input),
        errors: Errors::Apart,
        keep: KEEP,
        deadline: Deadline::after(order.timeout),
        grace: GRACE,
        leftovers: Leftovers::Spare,
        ..Job::blank(cancel)
    })
}

/// Starts a hook without waiting for it.
pub(crate) fn start(ground: &Ground<'_>, order: Order, input: Vec<u8>) -> Option<Asynchronous> {
    let cancel = Cancel::new().map(Arc::new).ok()?;
    let program = ground.program.to_owned();
    let theirs = Arc::clone(&cancel);
    let thread = thread::spawn(move || drop(run(&program, &order, &input, &theirs)));
    Some(Asynchronous { cancel, thread })
}

fn understand(event: &str, order: Order, finished: Finished) -> (Answered, Option<Remains>) {
    let exit = match finished.how {
        How::Exited(code) => Exit::Code(code),
        How::Signalled(signal) => Exit::Signal(signal),
        How::TimedOut | How::Cancelled => Exit::TimedOut,
        How::CouldNotStart(error) => Exit::NotStarted(error.to_string()),
        How::Lost => Exit::Lost,
    };
    let ended = Ended {
        exit,
        stdout: String::from_utf8_lossy(&finished.output.head).into_owned(),
        stderr: String::from_utf8_lossy(&finished.errors.head).into_owned(),
        ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
    };
    (answered(event, order.asked, ended), finished.remains)
}

/// Exit status and output of a finished hook process.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ms: u64,
}

pub(crate) fn answered(event: &str, asked: Asked, ended: Ended) -> Answered {
    let Ended { exit, stdout, stderr, ms } = ended;
    let answer = answer::read(&Output { event, exit: &exit, stdout: &stdout, stderr: &stderr });
    let remark = remark(event, &answer, &stdout);
    let handled = Handled {
        command: asked.command.clone(),
        source: asked.source,
        ended: ending(&exit),
        stdout,
        stderr,
        outcome: answer.label.name().to_owned(),
        remark,
        ms,
    };
    Answered { command: asked.command, plugin: asked.plugin, answer, added: None, handled }
}

fn ending(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::TimedOut => "timeout".to_owned(),
        Exit::NotStarted(why) => format!("not started: {why}"),
        Exit::Lost => "killed its parent".to_owned(),
    }
}
