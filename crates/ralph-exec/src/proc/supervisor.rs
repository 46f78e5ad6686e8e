//! One process per job, which sees to it that nothing of the job outlives it.
//!
//! It leads a session of its own, without a terminal, and adopts every orphan below it, so whatever a command starts
//! can be found and belongs to no other job. It ends when its tree is gone, or at once, with its tree, when the
//! process that wanted the job is gone.
//!
//! ```text
//! run ── exits ──▶ settle ─┐
//!  │        └─ to be spared ─────▶ drain ──▶ answer ──▶ guard ── gone, or abandoned and killed ──▶ over
//!  ├─ deadline, cancelled ─┴▶ TERM ── grace ──▶ KILL ── gone, or bound ──▶ drain ──▶ answer
//!  └─ abandoned ───────────────────────────────▶ KILL
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

/// Who is about to end by itself when the command has, such as the last part of a pipeline, may do so.
const SETTLE: Duration = Duration::from_millis(100);
/// A person who cancels waits for it.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// How long the killed may take to disappear. Who hangs in the kernel is left to it.
pub(super) const KILL: Duration = Duration::from_millis(600);
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);
/// How often to collect orphans who went unheard.
const COLLECT: Duration = Duration::from_secs(1);
/// How long the one who wanted the job may take to read the answer.
const ANSWER: Duration = Duration::from_secs(10);
const BLOCK: usize = 64 * 1024;
/// The most a pipe can still hold when its writers have ended.
const FULL_PIPE: usize = 1024 * 1024;

/// Takes one order from standard input, which is a socket, and answers there. What the command is to read is our standard
/// output. Returns the exit code, which nobody needs.
pub fn serve() -> u8 {
    let Ok(order) = wire::read_order(Control) else {
        return 1;
    };
    // It fails for the leader of a group, which a supervisor never is when a job starts it.
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
#[expect(clippy::disallowed_methods, reason = "this module is the door")]
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

/// Something that the command writes to.
#[derive(Default)]
struct Output {
    /// Until it is closed at the other end.
    pipe: Option<PipeReader>,
    /// Until it is told. What comes later is for nobody.
    capture: Option<Capture>,
}

impl Output {
    fn open(order: &Order) -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        ioctl_fionbio(&reader, true)?;
        let capture = Capture::new(order.keep, &order.secrets);
        Ok((Self { pipe: Some(reader), capture: Some(capture) }, writer))
    }

    /// Takes what is there, at most a block, and says how much it was.
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

/// What the one who wanted the job says meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    Cancel,
    /// It is gone.
    Abandon,
}

struct Job {
    command: Pid,
    /// Readable when the command has ended; until that is known.
    end: Option<OwnedFd>,
    /// Once it is collected.
    status: Option<WaitStatus>,
    took: Option<Duration>,
    watch: Stopwatch,
    /// Standard output, and standard error if that is apart.
    outputs: [Output; 2],
    log: Log,
    block: Vec<u8>,
    asked: Asked,
    /// Who got a signal of ours.
    reached: BTreeSet<i32>,
}

impl Job {
    fn serve(mut self, order: &Order, deadline: Deadline) -> io::Result<()> {
        let over = self.follow(deadline);
        let spared = self.settle(order, over.as_ref());
        self.drain();
        // The command itself had ended by then, so these are others.
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
        let said = say(&answer, &captured);
        match spared {
            Spared::Nobody => said,
            Spared::Somebody => {
                if said.is_err() {
                    self.asked = Asked::Abandon;
                }
                self.guard();
                wait::send_all(rustix::stdio::stdin(), &[wire::OVER], Deadline::after(ANSWER))
            }
        }
    }

    /// Ends whoever has to.
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

    /// Until the spared have ended, or nobody wants them any more.
    fn guard(&mut self) {
        while self.reap() == Below::Somebody {
            if self.asked != Asked::Nothing {
                self.clear(Duration::ZERO);
                return;
            }
            // The end of one wakes us.
            self.turn(COLLECT);
        }
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
        let [output, errors] =
            self.outputs.each_ref().map(|output| output.pipe.as_ref().map(AsFd::as_fd));
        let end = self.end.as_ref().map(AsFd::as_fd);
        let [is_output, is_error, is_word, _] =
            wait::readable([output, errors, control, end], wait);
        for (output, is_there) in self.outputs.iter_mut().zip([is_output, is_error]) {
            if is_there {
                output.read(&mut self.block, &mut self.log);
            }
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

    /// Takes what is still in the pipes. Nobody is waited for who has one open.
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

/// Standard input without a buffer: what follows the order must stay there.
struct Control;

impl Read for Control {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
    }
}
