//! One process per job, which sees to it that nothing of the job outlives it.
//!
//! It leads a session of its own, without a terminal, and adopts every orphan below it, so whatever a command starts
//! can be found and belongs to no other job. It ends when its tree is gone, or at once, with its tree, when the
//! process that wanted the job is gone.
//!
//! ```text
//! run ── exits ──▶ settle ─┐
//!  ├─ deadline, cancelled ─┴▶ TERM ── grace ──▶ KILL ── gone, or bound ──▶ drain ──▶ answer
//!  └─ abandoned ───────────────────────────────▶ KILL
//! ```

use std::collections::BTreeSet;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};

use super::capture::Capture;
use super::tree::{self, Below};
use super::wire::{self, Answer, Ended, Order};
use super::{signals, wait};
use crate::clock::{Deadline, Stopwatch};

/// The argument that makes the program a supervisor.
pub const ARGUMENT: &str = "__supervise";

/// Who is about to end by itself when the command has, such as the last part of a pipeline, may do so.
const SETTLE: Duration = Duration::from_millis(100);
/// A person who cancels waits for it.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// How long the killed may take to disappear. Who hangs in the kernel is left to it.
const KILL: Duration = Duration::from_millis(600);
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);
/// How often to collect orphans while the command runs.
const COLLECT: Duration = Duration::from_secs(1);
/// How long the one who wanted the job may take to read the answer.
const ANSWER: Duration = Duration::from_secs(10);
const BLOCK: usize = 64 * 1024;
/// The most a pipe can still hold when its writers have ended.
const FULL_PIPE: usize = 1024 * 1024;

/// Takes one order from standard input, which is a socket, and answers there. Returns the exit code, which nobody
/// needs.
pub fn serve() -> u8 {
    let Ok(order) = wire::read_order(Control) else {
        return 1;
    };
    // It fails for the leader of a group, which a supervisor never is when a job starts it.
    rustix::process::setsid().ok();
    signals::hear_of_children();
    tree::adopt_orphans();
    let mut capture = Capture::new(order.keep, &order.secrets, Path::new(&order.log));
    let (how, leftover, took) = obey(&order, &mut capture);
    let (captured, logged) = capture.finish();
    let answer = Answer { how, leftover, took, total: captured.total, logged };
    let sent = wire::answer(&answer, &captured)
        .and_then(|bytes| wait::send_all(rustix::stdio::stdin(), &bytes, Deadline::after(ANSWER)));
    u8::from(sent.is_err())
}

fn obey(order: &Order, capture: &mut Capture) -> (Ended, u32, Duration) {
    let watch = Stopwatch::start();
    let deadline = Deadline::after(order.left);
    if deadline.is_over() {
        return (Ended::TimedOut, 0, watch.elapsed());
    }
    if let Err(error) = rustix::process::chdir(&order.cwd) {
        return (Ended::NoDirectory(error.raw_os_error()), 0, watch.elapsed());
    }
    match spawn(order) {
        Ok((command, output)) => Job {
            command,
            end: wait::end_of(command),
            status: None,
            took: None,
            watch,
            output: Some(output),
            block: vec![0; BLOCK],
            asked: Asked::Nothing,
            reached: BTreeSet::new(),
            capture,
        }
        .run(deadline, order.grace),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
            (Ended::NoProgram(number), 0, watch.elapsed())
        }
    }
}

/// The environment is the job's already, so the program is looked up in the job's `PATH`.
#[expect(clippy::disallowed_methods, reason = "this module is the door")]
fn spawn(order: &Order) -> io::Result<(Pid, PipeReader)> {
    let (program, arguments) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (reader, writer) = io::pipe()?;
    ioctl_fionbio(&reader, true)?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .spawn()?;
    Ok((Pid::from_child(&child), reader))
}

/// What the one who wanted the job says meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Cancel,
    /// It is gone.
    Abandon,
}

struct Job<'a> {
    command: Pid,
    /// Readable when the command has ended; until that is known.
    end: Option<OwnedFd>,
    /// Once it is collected.
    status: Option<WaitStatus>,
    took: Option<Duration>,
    watch: Stopwatch,
    /// Until it is closed at the other end.
    output: Option<PipeReader>,
    block: Vec<u8>,
    asked: Asked,
    /// Who got a signal of ours.
    reached: BTreeSet<i32>,
    capture: &'a mut Capture,
}

impl Job<'_> {
    fn run(mut self, deadline: Deadline, grace: Duration) -> (Ended, u32, Duration) {
        let over = self.follow(deadline);
        let grace = match &over {
            Some(Ended::Cancelled) => grace.min(CANCEL_GRACE),
            Some(_) | None => grace,
        };
        if over.is_some() || self.wait_until_gone(SETTLE) == Below::Somebody {
            self.clear(grace);
        }
        self.drain();
        // The command itself had ended by then, so these are others.
        let leftover = if over.is_none() { self.reached.len() } else { 0 };
        let leftover = u32::try_from(leftover).unwrap_or(u32::MAX);
        let how = over.unwrap_or_else(|| ended(self.status));
        let took = self.took.unwrap_or_else(|| self.watch.elapsed());
        (how, leftover, took)
    }

    /// Until the command has ended (`None`) or has to.
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

    /// Asks everybody to end, and then no longer asks.
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
            // Until it is collected, its number, which names the group, cannot become somebody else's. A whole group
            // is killed at one moment, however fast it multiplies.
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

    /// Waits for output, a word or the end of the command, at most `wait`.
    fn turn(&mut self, wait: Duration) {
        let control = (self.asked != Asked::Abandon).then(rustix::stdio::stdin);
        let output = self.output.as_ref().map(AsFd::as_fd);
        let end = self.end.as_ref().map(AsFd::as_fd);
        let [is_output, is_word, _] = wait::readable([output, control, end], wait);
        if is_output {
            self.read();
        }
        if is_word {
            self.asked = match rustix::io::read(rustix::stdio::stdin(), &mut [0_u8]) {
                Ok(0) => Asked::Abandon,
                Ok(_) => Asked::Cancel,
                Err(Errno::INTR | Errno::AGAIN) => self.asked,
                Err(_) => Asked::Abandon,
            };
        }
    }

    /// Takes what is still in the pipe. Nobody is waited for who has it open and is not below us.
    fn drain(&mut self) {
        for _ in 0..=FULL_PIPE / BLOCK {
            if self.read() == 0 {
                return;
            }
        }
    }

    fn read(&mut self) -> usize {
        let Some(output) = &mut self.output else {
            return 0;
        };
        match output.read(&mut self.block) {
            Ok(0) => {
                self.output = None;
                0
            }
            Ok(count) => {
                self.capture.take(self.block.get(..count).unwrap_or_default());
                count
            }
            Err(error) => {
                let passing = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
                if !passing.contains(&error.kind()) {
                    self.output = None;
                }
                0
            }
        }
    }
}

fn ended(status: Option<WaitStatus>) -> Ended {
    let exit = status.and_then(WaitStatus::exit_status).map(Ended::Exited);
    let signal = status.and_then(WaitStatus::terminating_signal).map(Ended::Signalled);
    exit.or(signal).unwrap_or(Ended::Signalled(Signal::KILL.as_raw()))
}

/// Standard input without a buffer: what follows the order must stay there.
struct Control;

impl Read for Control {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
    }
}
