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

use super::busy_program::start_child;
use super::capture::{CapturedOutput, OutputCapture, OutputLog};
use super::descendants::{self, DescendantsLeft};
use super::job_protocol::{
    self, JobAnswerWire, JobEndWire, JobOrderWire, LeftoverPolicy, StderrCapture,
};
use super::{signals, wait};
use crate::clock::{Deadline, Stopwatch};
use crate::os;

/// The argument that makes the program a supervisor.
pub const SUPERVISOR_ARGUMENT: &str = "__supervise";

/// How long leftover processes, such as the last command of a shell pipeline, may take to exit by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_millis(100);
/// The longest grace period after a cancellation, because a person waits for it.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(1);
/// How long to wait for killed processes to exit. Those that hang in the kernel are abandoned.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_millis(600);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often to reap children anyway, in case a SIGCHLD arrived between reaping and polling.
const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// How long the requester may take to read the answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads one order from standard input, which is a socket, and answers on it. Our standard output is the command's
/// standard input. Returns the exit code, which is informational only.
pub fn run_supervisor() -> u8 {
    let Ok(order) = job_protocol::read_order(UnbufferedStdin) else {
        return 1;
    };
    // Fails for a process group leader, which a supervisor started by a job never is.
    rustix::process::setsid().ok();
    signals::keep_child_statuses();
    let watch = Stopwatch::start();
    let deadline = Deadline::after(order.left);
    let mut log = OutputLog::new(order.log.as_deref().map(Path::new));
    let served = match start_command(&order, deadline) {
        Ok((command, outputs)) => SupervisedCommand {
            command,
            exit_descriptor: os::exit_descriptor(command),
            status: None,
            took: None,
            watch,
            outputs,
            log,
            block: vec![0; wait::READ_BUFFER_BYTES],
            requester: RequesterState::Waiting,
            signalled: BTreeSet::new(),
        }
        .supervise(&order, deadline),
        Err(how) => {
            let answer = JobAnswerWire {
                how,
                leftover: 0,
                took: watch.elapsed(),
                totals: [0; 2],
                logged: log.finish(),
                spared: false,
            };
            send_answer(&answer, &Default::default())
        }
    };
    u8::from(served.is_err())
}

fn send_answer(answer: &JobAnswerWire, captured: &[CapturedOutput; 2]) -> io::Result<()> {
    let bytes = job_protocol::encode_answer(answer, captured)?;
    wait::send_all(rustix::stdio::stdin(), &bytes, Deadline::after(ANSWER_TIMEOUT))
}

fn start_command(
    order: &JobOrderWire,
    deadline: Deadline,
) -> Result<(Pid, [CommandOutput; 2]), JobEndWire> {
    if deadline.has_passed() {
        return Err(JobEndWire::TimedOut);
    }
    if let Some(mounts) = &order.mounts {
        os::enter_private_mounts(mounts).map_err(|error| {
            JobEndWire::NoMounts(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
        })?;
    }
    rustix::process::chdir(&order.cwd)
        .map_err(|error| JobEndWire::NoDirectory(error.raw_os_error()))?;
    // A command whose processes could escape is not started.
    os::adopt_orphans().and_then(|()| spawn_command(order)).map_err(|error| {
        JobEndWire::NoProgram(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()))
    })
}

/// The environment is the job's already, so the program is looked up in the job's `PATH`.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn_command(order: &JobOrderWire) -> io::Result<(Pid, [CommandOutput; 2])> {
    let (program, arguments) = order.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (output, stdout) = CommandOutput::open(order)?;
    let (errors, stderr) = match order.errors {
        StderrCapture::Merged => (CommandOutput::default(), stdout.try_clone()?),
        StderrCapture::Separate => CommandOutput::open(order)?,
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(rustix::stdio::stdout().try_clone_to_owned()?)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    let child = start_child(&mut command)?;
    Ok((Pid::from_child(&child), [output, errors]))
}

/// A pipe that the command writes to.
#[derive(Default)]
struct CommandOutput {
    /// `None` once the other end is closed.
    pipe: Option<PipeReader>,
    /// `None` once the answer is sent. Later output is discarded.
    capture: Option<OutputCapture>,
}

impl CommandOutput {
    fn open(order: &JobOrderWire) -> io::Result<(Self, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        ioctl_fionbio(&reader, true)?;
        let capture = OutputCapture::new(order.keep, &order.secrets);
        Ok((Self { pipe: Some(reader), capture: Some(capture) }, writer))
    }

    /// Reads available output, at most one block, and returns its length.
    fn read(&mut self, block: &mut [u8], log: &mut OutputLog) -> usize {
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
                    capture.push(block.get(..count).unwrap_or_default(), log);
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

    fn finish_capture(&mut self, log: &mut OutputLog) -> CapturedOutput {
        self.capture.take().map(|capture| capture.finish(log)).unwrap_or_default()
    }
}

/// What the requester has asked for since the order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequesterState {
    Waiting,
    Cancelled,
    /// The requester has exited.
    Gone,
}

/// The command under supervision, with its descendants.
struct SupervisedCommand {
    command: Pid,
    /// Becomes readable when the command exits; `None` once the command is reaped.
    exit_descriptor: Option<OwnedFd>,
    /// `Some` once the command is reaped.
    status: Option<WaitStatus>,
    took: Option<Duration>,
    watch: Stopwatch,
    /// Standard output, and standard error if it is captured separately.
    outputs: [CommandOutput; 2],
    log: OutputLog,
    block: Vec<u8>,
    requester: RequesterState,
    /// Pids of the processes that we have signalled.
    signalled: BTreeSet<i32>,
}

impl SupervisedCommand {
    fn supervise(mut self, order: &JobOrderWire, deadline: Deadline) -> io::Result<()> {
        let over = self.wait_for_command(deadline);
        let spared = self.handle_leftovers(order, over.as_ref());
        self.drain();
        // The command itself had exited before any signal, so these are leftovers.
        let leftover = if over.is_none() { self.signalled.len() } else { 0 };
        let captured = self.outputs.each_mut().map(|output| output.finish_capture(&mut self.log));
        let answer = JobAnswerWire {
            how: over.unwrap_or_else(|| end_from_status(self.status)),
            leftover: u32::try_from(leftover).unwrap_or(u32::MAX),
            took: self.took.unwrap_or_else(|| self.watch.elapsed()),
            totals: captured.each_ref().map(|captured| captured.total),
            logged: self.log.finish(),
            spared,
        };
        let sent = send_answer(&answer, &captured);
        if !spared {
            return sent;
        }
        if sent.is_err() {
            self.requester = RequesterState::Gone;
        }
        self.guard_spared();
        let bound = Deadline::after(ANSWER_TIMEOUT);
        wait::send_all(rustix::stdio::stdin(), &[job_protocol::OVER], bound)
    }

    /// Terminates leftover processes, unless they are spared. Returns whether any is.
    fn handle_leftovers(&mut self, order: &JobOrderWire, over: Option<&JobEndWire>) -> bool {
        let grace = match over {
            Some(JobEndWire::Cancelled) => order.grace.min(CANCEL_GRACE),
            Some(_) | None => order.grace,
        };
        match order.leftovers {
            LeftoverPolicy::Spare if over.is_none() => self.reap() == DescendantsLeft::SomeLeft,
            LeftoverPolicy::Spare | LeftoverPolicy::Kill => {
                if over.is_some()
                    || self.wait_for_descendants(LEFTOVER_GRACE) == DescendantsLeft::SomeLeft
                {
                    self.end_descendants(grace);
                }
                false
            }
        }
    }

    /// Waits until the spared processes have exited, or kills them when the requester no longer wants them.
    fn guard_spared(&mut self) {
        while self.reap() == DescendantsLeft::SomeLeft {
            if self.requester != RequesterState::Waiting {
                self.end_descendants(Duration::ZERO);
                return;
            }
            // SIGCHLD interrupts the wait.
            self.poll_once(REAP_INTERVAL);
        }
    }

    /// Waits until the command exits (`None`) or must be terminated.
    fn wait_for_command(&mut self, deadline: Deadline) -> Option<JobEndWire> {
        loop {
            self.reap();
            if self.status.is_some() {
                return None;
            }
            if self.requester != RequesterState::Waiting {
                return Some(JobEndWire::Cancelled);
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return Some(JobEndWire::TimedOut);
            }
            let longest =
                if self.exit_descriptor.is_some() { REAP_INTERVAL } else { MAX_POLL_INTERVAL };
            self.poll_once(left.min(longest));
        }
    }

    /// Sends SIGTERM to all descendants and, after the grace period, SIGKILL.
    fn end_descendants(&mut self, grace: Duration) {
        let bound = Deadline::after(grace);
        let mut look = MIN_POLL_INTERVAL;
        while !bound.has_passed() && self.requester != RequesterState::Gone {
            descendants::terminate_descendants(&mut self.signalled);
            if self.wait_for_descendants(look.min(bound.remaining())) == DescendantsLeft::NoneLeft {
                return;
            }
            look = (look * 2).min(MAX_POLL_INTERVAL);
        }
        let bound = Deadline::after(KILL_TIMEOUT);
        let mut look = Duration::ZERO;
        while !bound.has_passed() {
            // Until the command is reaped, its pid, which identifies the group, cannot be reused. Killing the group
            // is atomic, however fast its processes fork.
            if self.status.is_none() {
                kill_process_group(self.command, Signal::KILL).ok();
            }
            descendants::kill_descendants(&mut self.signalled);
            if self.reap() == DescendantsLeft::NoneLeft {
                return;
            }
            self.poll_once(look);
            look = (look * 2).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL);
        }
    }

    fn wait_for_descendants(&mut self, wait: Duration) -> DescendantsLeft {
        let bound = Deadline::after(wait);
        let mut look = MIN_POLL_INTERVAL;
        loop {
            if self.reap() == DescendantsLeft::NoneLeft {
                return DescendantsLeft::NoneLeft;
            }
            let left = bound.remaining();
            if left.is_zero() || self.requester == RequesterState::Gone {
                return DescendantsLeft::SomeLeft;
            }
            self.poll_once(look.min(left));
            look = (look * 2).min(MAX_POLL_INTERVAL);
        }
    }

    fn reap(&mut self) -> DescendantsLeft {
        let command = self.command;
        let status = &mut self.status;
        let below = descendants::reap_children(|pid, ended| {
            if pid == command {
                *status = Some(ended);
            }
        });
        if self.status.is_some() && self.took.is_none() {
            self.took = Some(self.watch.elapsed());
            self.exit_descriptor = None;
        }
        below
    }

    /// Waits at most `wait` for output, a message from the requester or the exit of the command.
    fn poll_once(&mut self, wait: Duration) {
        let control = (self.requester != RequesterState::Gone).then(rustix::stdio::stdin);
        let [output, errors] =
            self.outputs.each_ref().map(|output| output.pipe.as_ref().map(AsFd::as_fd));
        let end = self.exit_descriptor.as_ref().map(AsFd::as_fd);
        let [is_output, is_error, is_message, _] =
            wait::wait_readable([output, errors, control, end], wait);
        for (output, is_there) in self.outputs.iter_mut().zip([is_output, is_error]) {
            if is_there {
                output.read(&mut self.block, &mut self.log);
            }
        }
        if is_message {
            self.requester = match rustix::io::read(rustix::stdio::stdin(), &mut [0_u8]) {
                Ok(0) => RequesterState::Gone,
                Ok(_) => RequesterState::Cancelled,
                Err(Errno::INTR | Errno::AGAIN) => self.requester,
                Err(_) => RequesterState::Gone,
            };
        }
    }

    /// Reads what is left in the pipes. Does not wait for processes that still hold a pipe.
    fn drain(&mut self) {
        for output in &mut self.outputs {
            for _ in 0..=wait::MAX_PIPE_BYTES / wait::READ_BUFFER_BYTES {
                if output.read(&mut self.block, &mut self.log) == 0 {
                    break;
                }
            }
        }
    }
}

fn end_from_status(status: Option<WaitStatus>) -> JobEndWire {
    let exit = status.and_then(WaitStatus::exit_status).map(JobEndWire::Exited);
    let signal = status.and_then(WaitStatus::terminating_signal).map(JobEndWire::Signalled);
    exit.or(signal).unwrap_or(JobEndWire::Signalled(Signal::KILL.as_raw()))
}

/// Standard input without a buffer: bytes after the order must stay in the socket.
struct UnbufferedStdin;

impl Read for UnbufferedStdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
    }
}
