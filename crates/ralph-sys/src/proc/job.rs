//! Runs a command of the user under a [`supervisor`] process.
//!
//! Whatever the command does, it and every process it started end within the deadline, the grace period and one more
//! second. The exception is [`LeftoverPolicy::Spare`]: then processes that the command leaves behind live until their
//! [`SparedProcesses`] are dropped. Each job has its own supervisor, so several can run at once from several threads.

use std::ffi::OsString;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::cancel::Cancel;
pub use super::capture::{Captured, Keep, Logged};
pub use super::input::{Input, LARGEST as LARGEST_INPUT};
use super::wire::{self, Answer, Ended, Order, Spared};
pub use super::wire::{Errors, Leftovers};
use super::{input, supervisor, tree, wait};
use crate::clock::Deadline;

/// How often to check for external cancellation.
const LOOK: Duration = Duration::from_millis(200);
/// How late a supervisor may answer before it is considered lost.
const SLACK: Duration = Duration::from_secs(2);
const REAP: Duration = Duration::from_millis(500);
const BLOCK: usize = 64 * 1024;

/// A command to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The ralph executable, which is also the supervisor: see [`env::own_executable`](crate::env::own_executable).
    pub program: &'a Path,
    /// A program, looked up in the `PATH` of `env`, and its arguments. No shell is involved unless it names one.
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// Its complete environment.
    pub env: &'a [(OsString, OsString)],
    pub input: Input<'a>,
    pub errors: Errors,
    /// A file for its output, up to a limit. It is emptied first and readable only by this user.
    pub log: Option<&'a Path>,
    /// Limits for each of standard output and standard error.
    pub keep: Keep,
    /// Values to redact in the log and in the captured output.
    pub secrets: &'a [String],
    pub deadline: Deadline,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    pub leftovers: Leftovers,
    pub cancel: &'a Cancel,
}

impl<'a> Job<'a> {
    /// Defaults for struct update syntax: no program, no time, and no options.
    pub fn blank(cancel: &'a Cancel) -> Self {
        Self {
            program: Path::new(""),
            argv: &[],
            cwd: Path::new("/"),
            env: &[],
            input: Input::default(),
            errors: Errors::default(),
            log: None,
            keep: Keep { head: 0, tail: 0 },
            secrets: &[],
            deadline: Deadline::after(Duration::ZERO),
            grace: Duration::ZERO,
            leftovers: Leftovers::default(),
            cancel,
        }
    }
}

/// The result of a job.
#[derive(Debug)]
pub struct Finished {
    pub how: How,
    pub output: Captured,
    /// Standard error; empty unless it was captured separately.
    pub errors: Captured,
    pub logged: Logged,
    /// How many processes were still running after the command exited and had to be signalled.
    pub leftover: u32,
    /// From the start of the command to its exit, or until all its processes were gone if it was terminated.
    pub took: Duration,
    /// Processes left running on purpose.
    pub remains: Option<Remains>,
}

/// Processes that a command left behind. They are killed when this is dropped.
#[derive(Debug)]
pub struct Remains {
    supervisor: Child,
    socket: UnixStream,
}

#[derive(Debug)]
pub enum How {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    Cancelled,
    CouldNotStart(CannotStart),
    /// The supervisor exited without an answer, because it was killed or ran out of memory. How the command ended is
    /// unknown.
    Lost,
}

#[derive(Debug, thiserror::Error)]
pub enum CannotStart {
    #[error("cannot enter `{}`", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot start `{}`", name.display())]
    Program { name: OsString, source: io::Error },
    #[error("cannot start ralph's helper process `{}`", path.display())]
    Supervisor { path: PathBuf, source: io::Error },
    #[error("cannot pass the command {size} bytes of input")]
    Input { size: usize, source: io::Error },
}

/// Runs a command until it and all its processes have ended, except for spared ones.
pub fn supervise(job: &Job<'_>) -> Finished {
    let (mut child, socket) = match spawn(job) {
        Ok(started) => started,
        Err(error) => return nothing(job, How::CouldNotStart(error)),
    };
    let answer = converse(job, &socket).and_then(|answer| wire::read_answer(&answer, job.keep));
    let Ok((answer, captured)) = answer else {
        // Closing the socket makes the supervisor, if it still runs, kill the command without a grace period.
        drop(socket);
        end_lost(&child);
        collect(&mut child);
        return nothing(job, how_lost(job));
    };
    let remains = match answer.spared {
        Spared::Nobody => {
            drop(socket);
            collect(&mut child);
            None
        }
        Spared::Somebody => Some(Remains { supervisor: child, socket }),
    };
    let [output, errors] = captured;
    let Answer { leftover, took, logged, .. } = answer;
    Finished { how: how(job, &answer.how), output, errors, logged, leftover, took, remains }
}

/// The supervisor stays in our process group until it creates its own session, and starts nothing before that.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn(job: &Job<'_>) -> Result<(Child, UnixStream), CannotStart> {
    let input = input::prepare(job.input)
        .map_err(|source| CannotStart::Input { size: job.input.size(), source })?;
    let start = || -> io::Result<(Child, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(job.program)
            .arg0("ralph")
            .arg(supervisor::ARGUMENT)
            .env_clear()
            .envs(job.env.iter().map(|(name, value)| (name, value)))
            .stdin(OwnedFd::from(theirs))
            .stdout(input)
            .stderr(Stdio::null())
            .spawn()?;
        Ok((child, ours))
    };
    start().map_err(|source| CannotStart::Supervisor { path: job.program.to_owned(), source })
}

/// Sends the order, then a cancellation if there is one, and returns the bytes of the answer.
fn converse(job: &Job<'_>, socket: &UnixStream) -> io::Result<Vec<u8>> {
    let order = Order {
        argv: job.argv.to_vec(),
        cwd: job.cwd.into(),
        log: job.log.map(OsString::from),
        keep: job.keep,
        left: job.deadline.remaining(),
        grace: job.grace,
        secrets: job.secrets.to_vec(),
        errors: job.errors,
        leftovers: job.leftovers,
    };
    let mut bound = Deadline::after(job.deadline.remaining() + job.grace + SLACK);
    wait::send_all(socket, &wire::order(&order)?, bound)?;
    let longest = wire::longest_answer(job.keep);
    let mut answer = Vec::new();
    let mut block = vec![0; BLOCK];
    let mut sent_cancel = false;
    loop {
        if !sent_cancel && job.cancel.is_wished() {
            sent_cancel = true;
            bound = bound.min(Deadline::after(supervisor::CANCEL_GRACE + SLACK));
            wait::send_all(socket, &[wire::CANCEL], bound)?;
        }
        let left = bound.remaining();
        if left.is_zero() || answer.len() > longest {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bell = (!sent_cancel).then(|| job.cancel.bell());
        let [is_answer, _] = wait::readable([Some(socket.as_fd()), bell], left.min(LOOK));
        if !is_answer {
            continue;
        }
        match recv(socket, &mut block[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Ok(answer),
            Ok((_, count)) => {
                answer.extend_from_slice(block.get(..count).unwrap_or_default());
                if wire::is_whole(&answer) {
                    return Ok(answer);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills a supervisor that did not answer, and the processes in its session.
fn end_lost(child: &Child) {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // Until the supervisor is reaped, its pid cannot be reused.
    if waitid(WaitId::Pid(pid), options).is_ok() {
        kill_process(pid, Signal::KILL).ok();
        tree::kill_session(pid, Deadline::after(supervisor::KILL));
    }
}

/// Errors are ignored: a supervisor that cannot be reaped has already been reaped elsewhere.
fn collect(supervisor: &mut Child) {
    wait::for_child(supervisor, Deadline::after(REAP)).ok();
}

impl Remains {
    /// Whether all of them, or their supervisor, have exited. Dropping this then takes no time.
    pub fn is_over(&self) -> bool {
        wait::readable([Some(self.socket.as_fd())], Duration::ZERO) == [true]
    }

    /// Waits for the supervisor's final message, which follows once we close our side of the socket.
    fn is_over_soon(&self) -> bool {
        let bound = Deadline::after(supervisor::KILL + REAP);
        let mut message = [0];
        loop {
            wait::readable([Some(self.socket.as_fd())], bound.remaining());
            match recv(&self.socket, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) => return count > 0 && message == [wire::OVER],
                Err(Errno::INTR | Errno::AGAIN) if !bound.is_over() => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        // Fails if the supervisor has exited.
        self.socket.shutdown(Shutdown::Write).ok();
        if !self.is_over_soon() {
            end_lost(&self.supervisor);
        }
        collect(&mut self.supervisor);
    }
}

fn how(job: &Job<'_>, ended: &Ended) -> How {
    match *ended {
        Ended::Exited(code) => How::Exited(code),
        Ended::Signalled(signal) => How::Signalled(signal),
        Ended::TimedOut => How::TimedOut,
        Ended::Cancelled => How::Cancelled,
        Ended::NoDirectory(number) => How::CouldNotStart(CannotStart::Directory {
            path: job.cwd.to_owned(),
            source: io::Error::from_raw_os_error(number),
        }),
        Ended::NoProgram(number) => How::CouldNotStart(CannotStart::Program {
            name: job.argv.first().cloned().unwrap_or_default(),
            source: io::Error::from_raw_os_error(number),
        }),
    }
}

fn how_lost(job: &Job<'_>) -> How {
    if job.cancel.is_wished() {
        How::Cancelled
    } else if job.deadline.is_over() {
        How::TimedOut
    } else {
        How::Lost
    }
}

fn nothing(job: &Job<'_>, how: How) -> Finished {
    Finished {
        how,
        output: Captured::default(),
        errors: Captured::default(),
        logged: job.log.map_or(Logged::NotKept, |_| Logged::Failed),
        leftover: 0,
        took: Duration::ZERO,
        remains: None,
    }
}
