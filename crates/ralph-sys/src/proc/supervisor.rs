//! The supervisor: one process per job, which ensures that no process of the job outlives it.
//!
//! It leads its own session, without a terminal, and adopts every orphan among its descendants. So every process that
//! the command starts can be found, and belongs to no other job. The supervisor exits when its descendants are gone. If
//! the requester (the process that started the job) exits first, the supervisor kills them at once.
//!
//! ```text
//! run ── exits ──▶ wait briefly ─┐
//!  │        └─ spare leftovers ──▶ drain ──▶ answer ──▶ guard ── all exited, or requester gone and killed ──▶ over
//!  ├─ deadline, cancelled ───────┴▶ TERM ── grace ──▶ KILL ── all exited, or timeout ──▶ drain ──▶ answer
//!  └─ requester gone ────────────────────────────────▶ KILL
//! ```

use std::collections::BTreeSet;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};

use super::capture::{Capture, Captured, Log};
use super::tree::{self, Below};
use super::wire::{self, Answer, Ended, Errors, Leftovers, Order, Spared};
use super::{signals, wait};
use crate::clock::{Deadline, Stopwatch};

/// The argument that makes the program a supervisor.
pub const ARGUMENT: &str = "__supervise";

/// How long leftover processes, such as the last command of a shell pipeline, may take to exit by themselves.
const SETTLE: Duration = Duration::from_millis(100);
/// The longest grace period after a cancellation, because a person waits for it.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// How long to wait for killed processes to exit. Those that hang in the kernel are abandoned.
pub(super) const KILL: Duration = Duration::from_millis(600);
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);
/// How often to reap children anyway, in case a SIGCHLD arrived between reaping and polling.
const COLLECT: Duration = Duration::from_secs(1);
/// How long the requester may take to read the answer.
const ANSWER: Duration = Duration::from_secs(10);
const BLOCK: usize = 64 * 1024;
/// The most bytes a pipe can still hold when its writers have exited.
const FULL_PIPE: usize = 1024 * 1024;

/// Reads one order from standard input, which is a socket, and answers on it. Our standard output is the command's
/// standard input. Returns the exit code, which is informational only.
pub fn serve() -> u8 {
    let Ok(order) = wire::read_order(Control) else {
        return 1;
    };
    // Fails for a process group leader, which a supervisor started by a job never is.
    rustix::process::setsid().ok();
    signals::hear_of_children();
    tree::adopt_orphans();
    let watch = Stopwatch::start();
    let deadline = Deadline::after(order.left);
    let mut log = Log::new(order.log.as_deref().map(Path::new));
    let served = match start(&order, deadline) {
        Ok((command, outputs)) => Job {
            command,
            end: wait::end_of(command),
            status: None,
            took: None,
            watch,
            outputs,
            log,
            block: vec![0; BLOCK],
            asked: Asked::Nothing,
            reached: BTreeSet::new(),
        }
        .serve(&order, deadline),
        Err(how) => {
            let answer = Answer {
                how,
                leftover: 0,
                took: watch.elapsed(),
                totals: [0; 2],
                logged: log.finish(),
                spared: Spared::Nobody,
            };
            say(&answer, &Default::default())
        }
    };
    u8::from(served.is_err())
}

fn say(answer: &Answer, captured: &[Captured; 2]) -> io::Result<()> {
    let bytes = wire::answer(answer, captured)?;
    wait::send_all(rustix::stdio::stdin(), &bytes, Deadline::after(ANSWER))
}

fn start(order: &Order, deadline: Deadline) -> Result<(Pid, [Output; 2]), Ended> {
    if deadline.is_over() {
        return Err(Ended::TimedOut);
    }
    rustix::process::chdir(&order.cwd).map_err(|error| Ended::NoDirectory(error.raw_os_error()))?;
    spawn(order).map_err(|error| {
        Ended::NoProgram(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
    })
}

/// The environment is the job's already, so the program is looked up in the job's `PATH`.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn(order: &Order) -> io::Result<(Pid, [Output; 2])> {
    let (program, arguments) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (output, stdout) = Output::open(order)?;
    let (errors, stderr) = match order.errors {
        Errors::WithOutput => (Output::default(), stdout.try_clone()?),
        Errors::Apart => Output::open(order)?,
    };
    let child = Command::new(program)
        .args(arguments)
        .stdin(rustix::stdio::stdout().try_clone_to_owned()?)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    Ok((Pid::from_child(&child), [output, errors]))
}

/// A pipe that the command writes to.
#[derive(Default)]
struct Output {
    /// `None` once the other end is closed.
    pipe: Option<PipeReader>,
    /// `None` once the answer is sent. Later output is discarded.
    capture: Option<Capture>,
}

impl Output {
    fn open(order: &Order) -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        ioctl_fionbio(&reader, true)?;
        let capture = Capture::new(order.keep, &order.secrets);
        Ok((Self { pipe: Some(reader), capture: Some(capture) }, writer))
    }

    /// Reads available output, at most one block, and returns its length.
    fn read(&mut self, block: &mut [u8], log: &mut Log) -> usize {
        let Some(pipe) = &mut self.pipe else {
            return 0;
        };
        match pipe.read(block) {
            Ok(0) => {
                self.pipe = None;
                0
            }
            Ok(count) => {
                if let Some(capture) = &mut self.capture {
                    capture.take(block.get(..count).unwrap_or_default(), log);
                }
                count
            }
            Err(error) => {
                let passing = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
                if !passing.contains(&error.kind()) {
                    self.pipe = None;
                }
                0
            }
        }
    }

    fn tell(&mut self, log: &mut Log) -> Captured {
        self.capture.take().map(|capture| capture.finish(log)).unwrap_or_default()
    }
}

/// What the requester has asked for since the order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Cancel,
    /// The requester has exited.
    Abandon,
}

/// The command under supervision, with its descendants.
struct Job {
    command: Pid,
    /// Becomes readable when the command exits; `None` once the command is reaped.
    end: Option<OwnedFd>,
    /// `Some` once the command is reaped.
    status: Option<WaitStatus>,
    took: Option<Duration>,
    watch: Stopwatch,
    /// Standard output, and standard error if it is captured separately.
    outputs: [Output; 2],
    log: Log,
    block: Vec<u8>,
    asked: Asked,
    /// Pids of the processes that we have signalled.
    reached: BTreeSet<i32>,
}

impl Job {
    fn serve(mut self, order: &Order, deadline: Deadline) -> io::Result<()> {
        let over = self.follow(deadline);
        let spared = self.settle(order, over.as_ref());
        self.drain();
        // The command itself had exited before any signal, so these are leftovers.
        let leftover = if over.is_none() { self.reached.len() } else { 0 };
        let captured = self.outputs.each_mut().map(|output| output.tell(&mut self.log));
        let answer = Answer {
            how: over.unwrap_or_else(|| ended(self.status)),
            leftover: u32::try_from(leftover).unwrap_or(u32::MAX),
            took: self.took.unwrap_or_else(|| self.watch.elapsed()),
            totals: captured.each_ref().map(|captured| captured.total),
            logged: self.log.finish(),
            spared,
        };
        let sent = say(&answer, &captured);
        match spared {
            Spared::Nobody => sent,
            Spared::Somebody => {
                if sent.is_err() {
                    self.asked = Asked::Abandon;
                }
                self.guard();
                wait::send_all(rustix::stdio::stdin(), &[wire::OVER], Deadline::after(ANSWER))
            }
        }
    }

    /// Terminates leftover processes, unless they are spared.
    fn settle(&mut self, order: &Order, over: Option<&Ended>) -> Spared {
        let grace = match over {
            Some(Ended::Cancelled) => order.grace.min(CANCEL_GRACE),
            Some(_) | None => order.grace,
        };
        match order.leftovers {
            Leftovers::Spare if over.is_none() => match self.reap() {
                Below::Nobody => Spared::Nobody,
                Below::Somebody => Spared::Somebody,
            },
            Leftovers::Spare | Leftovers::End => {
                if over.is_some() || self.wait_until_gone(SETTLE) == Below::Somebody {
                    self.clear(grace);
                }
                Spared::Nobody
            }
        }
    }

    /// Waits until the spared processes have exited, or kills them when the requester no longer wants them.
    fn guard(&mut self) {
        while self.reap() == Below::Somebody {
            if self.asked != Asked::Nothing {
                self.clear(Duration::ZERO);
                return;
            }
            // SIGCHLD interrupts the wait.
            self.turn(COLLECT);
        }
    }

    /// Waits until the command exits (`None`) or must be terminated.
    fn follow(&mut self, deadline: Deadline) -> Option<Ended> {
        loop {
            self.reap();
            if self.status.is_some() {
                return None;
            }
            if self.asked != Asked::Nothing {
                return Some(Ended::Cancelled);
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return Some(Ended::TimedOut);
            }
            let longest = if self.end.is_some() { COLLECT } else { LONGEST_LOOK };
            self.turn(left.min(longest));
        }
    }

    /// Sends SIGTERM to all descendants and, after the grace period, SIGKILL.
    fn clear(&mut self, grace: Duration) {
        let bound = Deadline::after(grace);
        let mut look = FIRST_LOOK;
        while !bound.is_over() && self.asked != Asked::Abandon {
            tree::ask_to_end(&mut self.reached);
            if self.wait_until_gone(look.min(bound.remaining())) == Below::Nobody {
                return;
            }
            look = (look * 2).min(LONGEST_LOOK);
        }
        let bound = Deadline::after(KILL);
        let mut look = Duration::ZERO;
        while !bound.is_over() {
            // Until the command is reaped, its pid, which identifies the group, cannot be reused. Killing the group
            // is atomic, however fast its processes fork.
            if self.status.is_none() {
                kill_process_group(self.command, Signal::KILL).ok();
            }
            tree::kill(&mut self.reached);
            if self.reap() == Below::Nobody {
                return;
            }
            self.turn(look);
            look = (look * 2).clamp(FIRST_LOOK, LONGEST_LOOK);
        }
    }

    fn wait_until_gone(&mut self, wait: Duration) -> Below {
        let bound = Deadline::after(wait);
        let mut look = FIRST_LOOK;
        loop {
            if self.reap() == Below::Nobody {
                return Below::Nobody;
            }
            let left = bound.remaining();
            if left.is_zero() || self.asked == Asked::Abandon {
                return Below::Somebody;
            }
            self.turn(look.min(left));
            look = (look * 2).min(LONGEST_LOOK);
        }
    }

    fn reap(&mut self) -> Below {
        let command = self.command;
        let status = &mut self.status;
        let below = tree::reap(|pid, ended| {
            if pid == command {
                *status = Some(ended);
            }
        });
        if self.status.is_some() && self.took.is_none() {
            self.took = Some(self.watch.elapsed());
            self.end = None;
        }
        below
    }

    /// Waits at most `wait` for output, a message from the requester or the exit of the command.
    fn turn(&mut self, wait: Duration) {
        let control = (self.asked != Asked::Abandon).then(rustix::stdio::stdin);
        let [output, errors] =
            self.outputs.each_ref().map(|output| output.pipe.as_ref().map(AsFd::as_fd));
        let end = self.end.as_ref().map(AsFd::as_fd);
        let [is_output, is_error, is_message, _] =
            wait::readable([output, errors, control, end], wait);
        for (output, is_there) in self.outputs.iter_mut().zip([is_output, is_error]) {
            if is_there {
                output.read(&mut self.block, &mut self.log);
            }
        }
        if is_message {
            self.asked = match rustix::io::read(rustix::stdio::stdin(), &mut [0_u8]) {
                Ok(0) => Asked::Abandon,
                Ok(_) => Asked::Cancel,
                Err(Errno::INTR | Errno::AGAIN) => self.asked,
                Err(_) => Asked::Abandon,
            };
        }
    }

    /// Reads what is left in the pipes. Does not wait for processes that still hold a pipe.
    fn drain(&mut self) {
        for output in &mut self.outputs {
            for _ in 0..=FULL_PIPE / BLOCK {
                if output.read(&mut self.block, &mut self.log) == 0 {
                    break;
                }
            }
        }
    }
}

fn ended(status: Option<WaitStatus>) -> Ended {
    let exit = status.and_then(WaitStatus::exit_status).map(Ended::Exited);
    let signal = status.and_then(WaitStatus::terminating_signal).map(Ended::Signalled);
    exit.or(signal).unwrap_or(Ended::Signalled(Signal::KILL.as_raw()))
}

/// Standard input without a buffer: bytes after the order must stay in the socket.
struct Control;

impl Read for Control {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
    }
}
