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

use super::cancel::CancelToken;
pub use super::capture::{CaptureLimits, CapturedOutput, LogOutcome};
pub use super::command_input::{CommandInput, MAX_INPUT_BYTES};
use super::job_protocol::{self, JobAnswerWire, JobEndWire, JobOrderWire};
pub use super::job_protocol::{LeftoverPolicy, StderrCapture};
use super::private_mounts::PrivateMounts;
use super::{command_input, descendants, supervisor, wait};
use crate::clock::Deadline;

/// How often to check for external cancellation.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How late a supervisor may answer before it is considered lost.
const ANSWER_SLACK: Duration = Duration::from_secs(2);

/// A command to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct JobSpec<'a> {
    /// The ralph executable, which is also the supervisor: see [`env::own_executable`](crate::env::own_executable).
    pub program: &'a Path,
    /// A program, looked up in the `PATH` of `env`, and its arguments. No shell is involved unless it names one.
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// Its complete environment.
    pub env: &'a [(OsString, OsString)],
    pub input: CommandInput<'a>,
    pub stderr: StderrCapture,
    /// A file for its output, up to a limit. It is emptied first and readable only by this user.
    pub log: Option<&'a Path>,
    /// Limits for each of standard output and standard error.
    pub capture_limits: CaptureLimits,
    /// Values to redact in the log and in the captured output.
    pub secrets: &'a [String],
    pub deadline: Deadline,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    pub leftovers: LeftoverPolicy,
    /// Mounted before the command enters `cwd`. If that fails, the command does not start.
    pub mounts: Option<&'a PrivateMounts>,
    pub cancel: &'a CancelToken,
}

impl<'a> JobSpec<'a> {
    /// Defaults for struct update syntax: no program, no time, and no options.
    pub fn with_defaults(cancel: &'a CancelToken) -> Self {
        Self {
            program: Path::new(""),
            argv: &[],
            cwd: Path::new("/"),
            env: &[],
            input: CommandInput::default(),
            stderr: StderrCapture::default(),
            log: None,
            capture_limits: CaptureLimits { head: 0, tail: 0 },
            secrets: &[],
            deadline: Deadline::after(Duration::ZERO),
            grace: Duration::ZERO,
            leftovers: LeftoverPolicy::default(),
            mounts: None,
            cancel,
        }
    }
}

/// The result of a job.
#[derive(Debug)]
pub struct JobResult {
    pub end: JobEnd,
    pub output: CapturedOutput,
    /// Standard error; empty unless it was captured separately.
    pub stderr: CapturedOutput,
    pub log_outcome: LogOutcome,
    /// How many processes were still running after the command exited and had to be signalled.
    pub leftover_count: u32,
    /// From the start of the command to its exit, or until all its processes were gone if it was terminated.
    pub took: Duration,
    /// Processes left running on purpose.
    pub spared: Option<SparedProcesses>,
}

/// Processes that a command left behind. They are killed when this is dropped.
#[derive(Debug)]
pub struct SparedProcesses {
    supervisor: Child,
    socket: UnixStream,
}

#[derive(Debug)]
pub enum JobEnd {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    Cancelled,
    CouldNotStart(JobStartError),
    /// The supervisor exited without an answer, because it was killed or ran out of memory. How the command ended is
    /// unknown.
    Lost,
}

#[derive(Debug, thiserror::Error)]
pub enum JobStartError {
    #[error("cannot enter `{}`", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot mount directories for the command")]
    Mounts { source: io::Error },
    #[error("cannot start `{}`", name.display())]
    Program { name: OsString, source: io::Error },
    #[error("cannot start ralph's helper process `{}`", path.display())]
    Supervisor { path: PathBuf, source: io::Error },
    #[error("cannot pass the command {size} bytes of input")]
    Input { size: usize, source: io::Error },
}

/// Runs a command until it and all its processes have ended, except for spared ones.
pub fn run_job(job: &JobSpec<'_>) -> JobResult {
    let (mut child, socket) = match spawn_supervisor(job) {
        Ok(started) => started,
        Err(error) => return result_without_output(job, JobEnd::CouldNotStart(error)),
    };
    let answer = exchange_with_supervisor(job, &socket)
        .and_then(|answer| job_protocol::decode_answer(&answer, job.capture_limits));
    let Ok((answer, captured)) = answer else {
        // Closing the socket makes the supervisor, if it still runs, kill the command without a grace period.
        drop(socket);
        kill_lost_supervisor(&child);
        reap_supervisor(&mut child);
        return result_without_output(job, end_without_answer(job));
    };
    let remains = if answer.spared {
        Some(SparedProcesses { supervisor: child, socket })
    } else {
        drop(socket);
        reap_supervisor(&mut child);
        None
    };
    let [output, errors] = captured;
    let JobAnswerWire { leftover, took, logged, .. } = answer;
    JobResult {
        end: job_end(job, &answer.how),
        output,
        stderr: errors,
        log_outcome: logged,
        leftover_count: leftover,
        took,
        spared: remains,
    }
}

/// The supervisor stays in our process group until it creates its own session, and starts nothing before that.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn_supervisor(job: &JobSpec<'_>) -> Result<(Child, UnixStream), JobStartError> {
    let input = command_input::prepare_input(job.input)
        .map_err(|source| JobStartError::Input { size: job.input.size(), source })?;
    let start = || -> io::Result<(Child, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(job.program)
            .arg0("ralph")
            .arg(supervisor::SUPERVISOR_ARGUMENT)
            .env_clear()
            .envs(job.env.iter().map(|(name, value)| (name, value)))
            .stdin(OwnedFd::from(theirs))
            .stdout(input)
            .stderr(Stdio::null())
            .spawn()?;
        Ok((child, ours))
    };
    start().map_err(|source| JobStartError::Supervisor { path: job.program.to_owned(), source })
}

/// Sends the order, then a cancellation if there is one, and returns the bytes of the answer.
fn exchange_with_supervisor(job: &JobSpec<'_>, socket: &UnixStream) -> io::Result<Vec<u8>> {
    let order = JobOrderWire {
        argv: job.argv.to_vec(),
        cwd: job.cwd.into(),
        log: job.log.map(OsString::from),
        keep: job.capture_limits,
        left: job.deadline.remaining(),
        grace: job.grace,
        secrets: job.secrets.to_vec(),
        errors: job.stderr,
        leftovers: job.leftovers,
        mounts: job.mounts.cloned(),
    };
    let mut bound = Deadline::after(job.deadline.remaining() + job.grace + ANSWER_SLACK);
    wait::send_all(socket, &job_protocol::encode_order(&order)?, bound)?;
    let longest = job_protocol::max_answer_bytes(job.capture_limits);
    let mut answer = Vec::new();
    let mut block = vec![0; wait::READ_BUFFER_BYTES];
    let mut sent_cancel = false;
    loop {
        if !sent_cancel && job.cancel.is_cancelled() {
            sent_cancel = true;
            bound = bound.min(Deadline::after(supervisor::CANCEL_GRACE + ANSWER_SLACK));
            wait::send_all(socket, &[job_protocol::CANCEL], bound)?;
        }
        let left = bound.remaining();
        if left.is_zero() || answer.len() > longest {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let bell = (!sent_cancel).then(|| job.cancel.wake_descriptor());
        let [is_answer, _] =
            wait::wait_readable([Some(socket.as_fd()), bell], left.min(CANCEL_CHECK_INTERVAL));
        if !is_answer {
            continue;
        }
        match recv(socket, &mut block[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Ok(answer),
            Ok((_, count)) => {
                answer.extend_from_slice(block.get(..count).unwrap_or_default());
                if job_protocol::is_complete_answer(&answer) {
                    return Ok(answer);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills a supervisor that did not answer, and the processes in its session.
fn kill_lost_supervisor(child: &Child) {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // Until the supervisor is reaped, its pid cannot be reused.
    if waitid(WaitId::Pid(pid), options).is_ok() {
        kill_process(pid, Signal::KILL).ok();
        descendants::kill_session(pid, Deadline::after(supervisor::KILL_TIMEOUT));
    }
}

/// Errors are ignored: a supervisor that cannot be reaped has already been reaped elsewhere.
fn reap_supervisor(supervisor: &mut Child) {
    wait::wait_for_child(supervisor, Deadline::after(wait::REAP_TIMEOUT)).ok();
}

impl SparedProcesses {
    /// Whether all of them, or their supervisor, have exited. Dropping this then takes no time.
    pub fn have_exited(&self) -> bool {
        wait::wait_readable([Some(self.socket.as_fd())], Duration::ZERO) == [true]
    }

    /// Waits for the supervisor's final message, which follows once we close our side of the socket.
    fn end_in_time(&self) -> bool {
        let bound = Deadline::after(supervisor::KILL_TIMEOUT + wait::REAP_TIMEOUT);
        let mut message = [0];
        loop {
            wait::wait_readable([Some(self.socket.as_fd())], bound.remaining());
            match recv(&self.socket, &mut message[..], RecvFlags::DONTWAIT) {
                Ok((_, count)) => return count > 0 && message == [job_protocol::OVER],
                Err(Errno::INTR | Errno::AGAIN) if !bound.has_passed() => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for SparedProcesses {
    fn drop(&mut self) {
        // Fails if the supervisor has exited.
        self.socket.shutdown(Shutdown::Write).ok();
        if !self.end_in_time() {
            kill_lost_supervisor(&self.supervisor);
        }
        reap_supervisor(&mut self.supervisor);
    }
}

fn job_end(job: &JobSpec<'_>, ended: &JobEndWire) -> JobEnd {
    match *ended {
        JobEndWire::Exited(code) => JobEnd::Exited(code),
        JobEndWire::Signalled(signal) => JobEnd::Signalled(signal),
        JobEndWire::TimedOut => JobEnd::TimedOut,
        JobEndWire::Cancelled => JobEnd::Cancelled,
        JobEndWire::NoDirectory(number) => JobEnd::CouldNotStart(JobStartError::Directory {
            path: job.cwd.to_owned(),
            source: io::Error::from_raw_os_error(number),
        }),
        JobEndWire::NoMounts(number) => JobEnd::CouldNotStart(JobStartError::Mounts {
            source: io::Error::from_raw_os_error(number),
        }),
        JobEndWire::NoProgram(number) => JobEnd::CouldNotStart(JobStartError::Program {
            name: job.argv.first().cloned().unwrap_or_default(),
            source: io::Error::from_raw_os_error(number),
        }),
    }
}

fn end_without_answer(job: &JobSpec<'_>) -> JobEnd {
    if job.cancel.is_cancelled() {
        JobEnd::Cancelled
    } else if job.deadline.has_passed() {
        JobEnd::TimedOut
    } else {
        JobEnd::Lost
    }
}

fn result_without_output(job: &JobSpec<'_>, how: JobEnd) -> JobResult {
    JobResult {
        end: how,
        output: CapturedOutput::default(),
        stderr: CapturedOutput::default(),
        log_outcome: job.log.map_or(LogOutcome::NotRequested, |_| LogOutcome::Failed),
        leftover_count: 0,
        took: Duration::ZERO,
        spared: None,
    }
}
