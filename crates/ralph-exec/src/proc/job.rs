//! A command of the user's, run to its end under supervision.
//!
//! Whatever it does, all of it is over by the deadline, the grace and a second more: nothing is left behind and
//! nothing is waited for. Each job has a [`supervisor`] process, so several can run at once from
//! several threads.

use std::ffi::OsString;
use std::io;
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
use super::wire::{self, Answer, Ended, Order};
use super::{supervisor, tree, wait};
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
    /// Gets all of its output, up to a bound. Made anew, for this user only.
    pub log: &'a Path,
    pub keep: Keep,
    /// Values that appear neither in the log nor in what is kept.
    pub secrets: &'a [String],
    pub deadline: Deadline,
    /// Between asking its processes to end and ending them.
    pub grace: Duration,
    pub cancel: &'a Cancel,
}

#[derive(Debug)]
pub struct Finished {
    pub how: How,
    pub output: Captured,
    pub logged: Logged,
    /// How many processes the command left behind when it ended of its own accord, and that had to be ended.
    pub leftover: u32,
    /// From the start of the command to its end, or to the end of its processes if that had to be brought about.
    pub took: Duration,
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
}

/// Runs a command until all of it is over.
pub fn supervise(job: &Job<'_>) -> Finished {
    let (mut child, socket) = match spawn(job) {
        Ok(started) => started,
        Err(source) => {
            let path = job.program.to_owned();
            return nothing(How::CouldNotStart(CannotStart::Supervisor { path, source }));
        }
    };
    let answer = converse(job, &socket);
    // What is still there when the other end is closed is killed without grace.
    drop(socket);
    let answer = answer.and_then(|bytes| wire::read_answer(&bytes, job.keep));
    if answer.is_err() {
        end_lost(&child);
    }
    // A status that cannot be collected was collected by somebody else.
    wait::for_child(&mut child, Deadline::after(REAP)).ok();
    match answer {
        Ok((answer, output)) => finished(job, &answer, output),
        Err(_) if job.cancel.is_wished() => nothing(How::Cancelled),
        Err(_) if job.deadline.is_over() => nothing(How::TimedOut),
        Err(_) => nothing(How::Lost),
    }
}

/// It stays in our group until it makes a session of its own, and starts nothing before.
#[expect(clippy::disallowed_methods, reason = "this module is part of the door")]
fn spawn(job: &Job<'_>) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(job.program)
        .arg0("ralph")
        .arg(supervisor::ARGUMENT)
        .env_clear()
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((child, ours))
}

/// The order, a cancel if there is one, and the bytes of the answer.
fn converse(job: &Job<'_>, socket: &UnixStream) -> io::Result<Vec<u8>> {
    let order = Order {
        argv: job.argv.to_vec(),
        cwd: job.cwd.into(),
        log: job.log.into(),
        keep: job.keep,
        left: job.deadline.remaining(),
        grace: job.grace,
        secrets: job.secrets.to_vec(),
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
            Ok((_, count)) => answer.extend_from_slice(block.get(..count).unwrap_or_default()),
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
        tree::kill_session(pid);
    }
}

fn finished(job: &Job<'_>, answer: &Answer, output: Captured) -> Finished {
    let how = match answer.how {
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
    };
    let Answer { leftover, took, logged, .. } = *answer;
    Finished { how, output, logged, leftover, took }
}

fn nothing(how: How) -> Finished {
    Finished {
        how,
        output: Captured::default(),
        logged: Logged::Failed,
        leftover: 0,
        took: Duration::ZERO,
    }
}
