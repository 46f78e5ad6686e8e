//! One event told to its hooks: all at once, each under a supervisor of its own, answers in order of completion.

use super::host::Host;
use super::input::Input;
use super::told::{Answered, Told};
use crate::answer::{self, Exit, Failure, Fault, Output, Verdict};
use crate::settings::{Hook, Kind, Loaded, Mode, Source};
use crate::timeline::{Handled, Lane};
use ralph_exec::clock::Deadline;
use ralph_exec::proc::cancel::Cancel;
use ralph_exec::proc::job::{self, Errors, Finished, How, Job, Keep, Leftovers, Remains};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Of each output; a reason has no limit, so this is far above any that is meant.
const KEEP: Keep = Keep { head: 4 * 1024 * 1024, tail: 0 };
/// Between asking a hook that is out of time to end and ending it.
const GRACE: Duration = Duration::from_millis(500);

/// Of a timeout that makes no sense.
const LONGEST: Duration = Duration::from_mins(10);

/// What is told.
pub(super) struct Telling {
    pub(super) event: &'static str,
    /// What matchers are held against.
    pub(super) subject: Option<String>,
    pub(super) agent: Lane,
    pub(super) input: Input,
}

/// A hook that nobody waits for.
#[derive(Debug)]
pub(super) struct Asynchronous {
    cancel: Arc<Cancel>,
    thread: thread::JoinHandle<()>,
}

impl Asynchronous {
    /// The client's process ends, and with it whatever it started.
    pub(super) fn end(self) {
        self.cancel.wish();
        // It has nothing to say.
        drop(self.thread.join());
    }
}

pub(super) fn tell(host: &mut Host<'_>, telling: Telling) -> Told {
    let settings = host.settings();
    let event = telling.event;
    let bytes = telling.input.bytes();
    let mut orders = Vec::new();
    for handler in settings.handlers(event, telling.subject.as_deref()) {
        match order(host, &settings, handler) {
            Some(order) if handler.mode == Mode::Async => start(host, order, bytes.clone()),
            Some(order) => orders.push(order),
            None => host.complain(format!(
                "a hook of {event} in {} settings is of a kind that is not simulated, so it does not run",
                handler.source
            )),
        }
    }
    let mut answers = Vec::new();
    for (order, finished) in run_all(host, orders, &bytes) {
        let (mut answered, remains) = understand(event, order, finished);
        host.keep(remains);
        answered.added = answered.context().map(|text| host.deliver(event, text));
        answers.push(answered);
    }
    Told::new(telling, answers)
}

/// One process to start.
struct Order {
    shown: String,
    source: String,
    plugin: Option<String>,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    timeout: Duration,
}

fn order(host: &Host<'_>, settings: &Loaded, handler: &Hook) -> Option<Order> {
    let Kind::Command { command, args } = &handler.kind else { return None };
    let mut env = host.environment(settings);
    let mut command = command.clone();
    let mut plugin = None;
    if let Source::Plugin { name, marketplace, root } = &handler.source {
        command = command.replace("${CLAUDE_PLUGIN_ROOT}", root);
        env.push(("CLAUDE_PLUGIN_ROOT".into(), root.into()));
        let data = host.stage.home.join(".claude/plugins/data").join(name);
        env.push(("CLAUDE_PLUGIN_DATA".into(), data.into()));
        plugin = Some(format!("{name}@{marketplace}"));
    }
    let (argv, shown) = match args {
        None => (shell(&command), command),
        Some(args) => {
            let words = std::iter::once(&command).chain(args).map(OsString::from).collect();
            (words, [std::slice::from_ref(&command), args].concat().join(" "))
        }
    };
    Some(Order {
        shown,
        source: handler.source.to_string(),
        plugin,
        argv,
        env,
        cwd: host.cwd.clone(),
        timeout: Duration::try_from_secs_f64(settings.limit(handler)).unwrap_or(LONGEST),
    })
}

fn shell(command: &str) -> Vec<OsString> {
    vec!["/bin/sh".into(), "-c".into(), command.into()]
}

fn run_all(host: &Host<'_>, orders: Vec<Order>, input: &[u8]) -> Vec<(Order, Finished)> {
    let (program, cancel) = (host.program, &*host.cancel);
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
                // The other end waits for everybody.
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

fn start(host: &mut Host<'_>, order: Order, input: Vec<u8>) {
    let Ok(cancel) = Cancel::new().map(Arc::new) else { return };
    let program = host.program.to_owned();
    let theirs = Arc::clone(&cancel);
    let thread = thread::spawn(move || drop(run(&program, &order, &input, &theirs)));
    host.asynchronous.push(Asynchronous { cancel, thread });
}

fn understand(event: &str, order: Order, finished: Finished) -> (Answered, Option<Remains>) {
    let exit = match finished.how {
        How::Exited(code) => Exit::Code(code),
        How::Signalled(signal) => Exit::Signal(signal),
        How::TimedOut | How::Cancelled => Exit::TimedOut,
        How::CouldNotStart(error) => Exit::NotStarted(error.to_string()),
        How::Lost => Exit::Lost,
    };
    let stdout = String::from_utf8_lossy(&finished.output.head).into_owned();
    let stderr = String::from_utf8_lossy(&finished.errors.head).into_owned();
    let answer = answer::read(&Output { event, exit: &exit, stdout: &stdout, stderr: &stderr });
    let handled = Handled {
        command: order.shown.clone(),
        source: order.source,
        ended: ended(&exit),
        stdout,
        stderr,
        outcome: answer.label.name().to_owned(),
        remark: remark(&answer.verdict),
        ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
    };
    let answered =
        Answered { command: order.shown, plugin: order.plugin, answer, added: None, handled };
    (answered, finished.remains)
}

fn ended(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::TimedOut => "timeout".to_owned(),
        Exit::NotStarted(why) => format!("not started: {why}"),
        Exit::Lost => "killed its parent".to_owned(),
    }
}

/// Why an answer does not do what it may have been meant to.
fn remark(verdict: &Verdict) -> Option<String> {
    let text = match verdict {
        Verdict::Allow | Verdict::Block { .. } => return None,
        Verdict::TimedOut => "out of time: the client lets go without a word".to_owned(),
        Verdict::Detached => "it asked not to be waited for: nothing it says counts".to_owned(),
        Verdict::Failed(failure) => match failure {
            Failure::Status { .. } => "neither exit 0 nor exit 2: an error, and the client lets go".to_owned(),
            Failure::ScriptMissing { .. } => {
                "exit 2, but the client takes it for a missing script, because stderr speaks of one and stdout is blank"
                    .to_owned()
            }
            Failure::Powerless { .. } => "nothing can be blocked at this event".to_owned(),
            Failure::NotStarted { why } => format!("it could not be started: {why}"),
            Failure::Lost => "it killed its parent, which would have been the client".to_owned(),
        },
        Verdict::Void(fault) => match fault {
            Fault::NotJson => "the answer is no JSON, so it is no decision".to_owned(),
            Fault::Schema { why } => format!("one wrong field voids the whole answer: {why}"),
            Fault::Foreign { expected, found } => {
                format!("the answer is for `{found}`, not for `{expected}`: it is void")
            }
        },
    };
    Some(text)
}
