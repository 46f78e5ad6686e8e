//! A command of the user's, run to its end under supervision.
//!
//! Whatever it does, all of it is over by the deadline, the grace and a second more: nothing is left behind and
//! nothing is waited for. Who shall be spared lives until its [`Remains`] are dropped. Each job has a [`supervisor`]
//! process, so several can run at once from several threads.

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

/// How often to ask whether a cancel was left somewhere.
const LOOK: Duration = Duration::from_millis(200);
/// How much later than it has to a supervisor may answer before it is taken for lost.
const SLACK: Duration = Duration::from_secs(2);
const REAP: Duration = Duration::from_millis(500);
const BLOCK: usize = 64 * 1024;

#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// This program, which is started once more as the supervisor: see [`env::this_program`](crate::env::this_program).
    pub program: &'a Path,
    /// A program, looked up in the `PATH` of `env`, and its arguments. Never a shell, unless it names one.
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// All of its environment.
    pub env: &'a [(OsString, OsString)],
    pub input: Input<'a>,
    pub errors: Errors,
    /// Gets all of its output, up to a bound. Made anew, for this user only.
    pub log: Option<&'a Path>,
    /// Of each output.
    pub keep: Keep,
    /// Values that appear neither in the log nor in what is kept.
    pub secrets: &'a [String],
    pub deadline: Deadline,
    /// Between asking its processes to end and ending them.
    pub grace: Duration,
    pub leftovers: Leftovers,
    pub cancel: &'a Cancel,
}

impl<'a> Job<'a> {
    /// A form to fill in: no program, no time for it, and nothing out of the ordinary.
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

#[derive(Debug)]
pub struct Finished {
    pub how: How,
    pub output: Captured,
    /// Empty unless they were to be [`Errors::Apart`].
    pub errors: Captured,
    pub logged: Logged,
    /// How many processes the command left behind when it ended of its own accord, and that had to be ended.
    pub leftover: u32,
    /// From the start of the command to its end, or to the end of its processes if that had to be brought about.
    pub took: Duration,
    /// Whom it left behind and who was to be spared.
    pub remains: Option<Remains>,
}

/// Processes that a command left behind. Dropped, it ends them.
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
    /// Its supervisor ended without a word: killed, or out of memory. How the command ended is not known.
    Lost,
}

#[derive(Debug, thiserror::Error)]
pub enum CannotStart {
    #[error("cannot enter `{}`", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot start `{}`", name.display())]
    Program { name: OsString, source: io::Error },
    #[error("cannot start ralph once more, as `{}`", path.display())]
    Supervisor { path: PathBuf, source: io::Error },
    #[error("cannot hand over its input of {size} bytes")]
    Input { size: usize, source: io::Error },
}

/// Runs a command until all of it is over, but for whom it leaves behind and spares.
pub fn supervise(job: &Job<'_>) -> Finished {
    let (mut child, socket) = match spawn(job) {
        Ok(started) => started,
        Err(error) => return nothing(job, How::CouldNotStart(error)),
    };
    let answer = converse(job, &socket).and_then(|answer| wire::read_answer(&answer, job.keep));
    let Ok((answer, captured)) = answer else {
        // What is still there when the other end is closed is killed without grace.
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

/// It stays in our group until it makes a session of its own, and starts nothing before.
#[expect(clippy::disallowed_methods, reason = "this module is part of the door")]
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

/// The order, a cancel if there is one, and the bytes of the answer.
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
    let mut is_told = false;
    loop {
        if !is_told && job.cancel.is_wished() {
            is_told = true;
            bound = bound.min(Deadline::after(supervisor::CANCEL_GRACE + SLACK));
            wait::send_all(socket, &[wire::CANCEL], bound)?;
        }
        let left = bound.remaining();
        if left.is_zero() || answer.len() > longest {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bell = (!is_told).then(|| job.cancel.bell());
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

/// Ends a supervisor that did not answer, and whoever it left behind.
fn end_lost(child: &Child) {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // As long as its end was not collected, the number is its own.
    if waitid(WaitId::Pid(pid), options).is_ok() {
        kill_process(pid, Signal::KILL).ok();
        tree::kill_session(pid, Deadline::after(supervisor::KILL));
    }
}

/// A status that cannot be collected was collected by somebody else.
fn collect(supervisor: &mut Child) {
    wait::for_child(supervisor, Deadline::after(REAP)).ok();
}

impl Remains {
    /// Whether nobody is left, or nobody is left to answer for them. Then it can be dropped in no time.
    pub fn is_over(&self) -> bool {
        wait::readable([Some(self.socket.as_fd())], Duration::ZERO) == [true]
    }

    /// Waits for the supervisor's last word, which it owes us once we say nothing more.
    fn is_over_soon(&self) -> bool {
        let bound = Deadline::after(supervisor::KILL + REAP);
        let mut word = [0];
        loop {
            wait::readable([Some(self.socket.as_fd())], bound.remaining());
            match recv(&self.socket, &mut word[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) => return count > 0 && word == [wire::OVER],
                Err(Errno::INTR | Errno::AGAIN) if !bound.is_over() => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        // It fails when the supervisor is gone.
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
