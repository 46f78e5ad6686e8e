//! The only place that starts processes.
//!
//! - [`run_program`]: a trusted program, such as git.
//! - [`job`]: a command of the user, which may do anything.
//! - [`worker`]: a part of ralph that continues in the background after its parent has answered.
//! - [`line_process`]: a program that exchanges lines with us.
//! - [`decoy`]: a process that exists to be killed.
//!
//! [`run_program`] needs no threads and has one deadline. A child gets its own process group, and the group is killed
//! when the child exits, so a grandchild that keeps the pipe open causes no wait. Only a process that leaves the group
//! (`setsid`) outlives the child, and ralph does not wait for it.

pub mod cancel;
mod capture;
mod input;
pub mod job;
mod sieve;
pub mod signals;
pub mod stand_in;
pub mod supervisor;
pub mod talk;
mod tree;
mod wait;
mod wire;
pub mod worker;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::clock::{self, Deadline};
use crate::env::Env;

/// How long to wait for a killed child to exit. One that hangs in the kernel is abandoned.
const REAP: Duration = Duration::from_millis(500);
/// Polling intervals for a child that writes nothing and closes nothing.
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(20);
const BLOCK: usize = 16 * 1024;
/// The most bytes a pipe can still hold when its writers have exited.
const FULL_PIPE: usize = 1024 * 1024;

/// A trusted program to run.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The program, looked up in `PATH`, and its arguments.
    pub argv: &'a [&'a OsStr],
    /// The working directory; `None` for ours. Setting one costs a fork in a static binary, which cannot make
    /// `posix_spawn` change directory.
    pub cwd: Option<&'a Path>,
    /// Variables to add. The child inherits everything but `GIT_*`, `RALPH_*` and secrets.
    pub env: &'a [(&'a OsStr, &'a OsStr)],
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub deadline: Deadline,
    /// Bytes of output to keep. The rest is read and dropped, so that the child can finish.
    pub keep: usize,
}

#[derive(Debug)]
pub enum Ended {
    Exited {
        code: i32,
        stdout: Vec<u8>,
        truncated: bool,
    },
    Signalled,
    TimedOut,
    /// It could not be started, or waiting for it failed.
    CouldNotStart(io::Error),
}

/// Runs a program until it exits or the deadline passes. Its standard input is empty, and its standard error is
/// discarded.
pub fn run(spec: &Spec<'_>, limits: &Limits) -> Ended {
    start(spec, limits).map_or_else(|ended| ended, Running::end)
}

/// Like [`run_program`], with `input`, from its current position, as standard input. It is a file rather than a pipe
/// because a file needs no writer, and a child that stops reading does no harm.
pub fn run_reading(spec: &Spec<'_>, input: File, limits: &Limits) -> Ended {
    begin(spec, input.into(), limits).map_or_else(|ended| ended, Running::end)
}

/// A program that runs concurrently. It is killed if this is dropped before it exits.
#[derive(Debug)]
pub struct Running {
    child: Option<Child>,
    limits: Limits,
}

/// Like [`run_program`], without waiting for the exit. Fails if the deadline has already passed.
pub fn start(spec: &Spec<'_>, limits: &Limits) -> Result<Running, Ended> {
    begin(spec, Stdio::null(), limits)
}

fn begin(spec: &Spec<'_>, stdin: Stdio, limits: &Limits) -> Result<Running, Ended> {
    if limits.deadline.is_over() {
        return Err(Ended::TimedOut);
    }
    let child = spawn(spec, stdin).map_err(Ended::CouldNotStart)?;
    Ok(Running { child: Some(child), limits: *limits })
}

impl Running {
    pub fn end(mut self) -> Ended {
        let Some(mut child) = self.child.take() else { return Ended::Signalled };
        follow(&mut child, &self.limits).unwrap_or_else(|error| {
            kill(&mut child);
            Ended::CouldNotStart(error)
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            kill(child);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn(spec: &Spec<'_>, stdin: Stdio) -> io::Result<Child> {
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    // Removing names, rather than passing a whole environment, lets the standard library use `posix_spawn`.
    for name in Env::from_process().withheld() {
        command.env_remove(name);
    }
    if let Some(cwd) = spec.cwd {
        command.current_dir(cwd);
    }
    command
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C")
        .envs(spec.env.iter().copied())
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

fn follow(child: &mut Child, limits: &Limits) -> io::Result<Ended> {
    let pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    ioctl_fionbio(&pipe, true)?;
    let mut output =
        Output { pipe: Some(pipe), bytes: Vec::new(), truncated: false, keep: limits.keep };
    let end = end_of(child);
    let mut look = FIRST_LOOK;
    while !has_ended(child)? {
        let left = limits.deadline.remaining();
        if left.is_zero() {
            kill(child);
            return Ok(Ended::TimedOut);
        }
        let wait = if end.is_some() { left } else { look.min(left) };
        look = match output.collect(wait, end.as_ref()) {
            Collected::Something => FIRST_LOOK,
            Collected::Nothing => (look * 2).min(LONGEST_LOOK),
        };
    }
    // Before the child is reaped: until then its pid, which identifies the group, cannot be reused.
    kill_group(child);
    output.collect_rest();
    let Some(status) = child.try_wait()? else {
        return Err(io::ErrorKind::WouldBlock.into());
    };
    Ok(match status.code() {
        Some(code) => Ended::Exited { code, stdout: output.bytes, truncated: output.truncated },
        None => Ended::Signalled,
    })
}

/// A descriptor that becomes readable when the child exits. Without one we have to poll the child's status.
#[cfg(target_os = "linux")]
fn end_of(child: &Child) -> Option<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn end_of(_: &Child) -> Option<OwnedFd> {
    None
}

/// Whether the child has exited. Does not reap it.
fn has_ended(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn kill_group(child: &Child) {
    // Fails if no process is left in the group, which is fine.
    kill_process_group(Pid::from_child(child), Signal::KILL).ok();
}

fn kill(child: &mut Child) {
    kill_group(child);
    let bound = Deadline::after(REAP);
    let mut look = FIRST_LOOK;
    while matches!(child.try_wait(), Ok(None)) && !bound.is_over() {
        clock::pause(look);
        look = (look * 2).min(LONGEST_LOOK);
    }
}

enum Collected {
    Something,
    Nothing,
}

/// The output of a child, up to a limit.
struct Output {
    /// `None` once the other end is closed.
    pipe: Option<ChildStdout>,
    bytes: Vec<u8>,
    truncated: bool,
    keep: usize,
}

impl Output {
    /// Waits at most `wait` for output, the end of the output or the exit of the child.
    fn collect(&mut self, wait: Duration, end: Option<&OwnedFd>) -> Collected {
        let awaited =
            || self.pipe.as_ref().map(AsFd::as_fd).into_iter().chain(end.map(AsFd::as_fd));
        let mut polled: Vec<_> =
            awaited().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        if polled.is_empty() {
            clock::pause(wait);
            return Collected::Nothing;
        }
        let timeout = Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => Collected::Nothing,
            Ok(_) => {
                self.read();
                Collected::Something
            }
            Err(_) => {
                self.pipe = None;
                Collected::Nothing
            }
        }
    }

    /// Reads the bytes that are in the pipe, without waiting for more.
    fn collect_rest(&mut self) {
        for _ in 0..FULL_PIPE / BLOCK {
            if self.read() == 0 {
                return;
            }
        }
    }

    fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else {
            return 0;
        };
        let mut block = [0; BLOCK];
        match pipe.read(&mut block) {
            Ok(0) => {
                self.pipe = None;
                0
            }
            Ok(count) => {
                let room = self.keep - self.bytes.len();
                self.bytes.extend_from_slice(&block[..count.min(room)]);
                self.truncated |= count > room;
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
}

#[cfg(any(test, feature = "testing"))]
#[expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "only tests call this"
)]
pub mod testing {
    use super::{Deadline, Duration, Ended, Limits, OsStr, Path, Spec, run};
    use crate::env;

    pub fn generous() -> Limits {
        Limits { deadline: Deadline::after(Duration::from_mins(1)), keep: 1024 * 1024 }
    }

    /// The output of a program that has to succeed.
    pub fn succeed<S: AsRef<OsStr>>(cwd: &Path, argv: &[S]) -> Vec<u8> {
        let argv: Vec<&OsStr> = argv.iter().map(AsRef::as_ref).collect();
        let spec = Spec { argv: &argv, cwd: Some(cwd), env: &[] };
        let ended = run(&spec, &generous());
        let Ended::Exited { code: 0, stdout, .. } = ended else { panic!("{argv:?}: {ended:?}") };
        stdout
    }

    /// Runs one ignored test of the calling crate in a separate process.
    pub fn rerun(test: &str, env: &[(&OsStr, &OsStr)]) -> Ended {
        let program = env::testing::program();
        let arguments = ["--exact", test, "--ignored", "--quiet"].map(OsStr::new);
        let mut argv = vec![program.as_os_str()];
        argv.extend(arguments);
        let spec = Spec { argv: &argv, cwd: Some(Path::new("/")), env };
        run(&spec, &generous())
    }

    pub fn exit_code(ended: &Ended) -> i32 {
        match ended {
            Ended::Exited { code, .. } => *code,
            Ended::Signalled | Ended::TimedOut | Ended::CouldNotStart(_) => panic!("{ended:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limits: &Limits) -> Ended {
        let argv = ["sh", "-c", script].map(OsStr::new);
        let spec = Spec { argv: &argv, cwd: Some(Path::new("/")), env: &[] };
        run(&spec, limits)
    }

    #[test]
    fn exit_codes_signals_and_output_are_reported() {
        for (script, expected) in [
            ("echo out; echo err >&2", "exit 0: out\n"),
            ("printf half; exit 3", "exit 3: half"),
            ("cat", "exit 0: "),
            ("pwd", "exit 0: /\n"),
            ("exec 1>&-; exit 4", "exit 4: "),
            ("kill -9 $$", "signalled"),
            ("echo $LC_ALL $GIT_OPTIONAL_LOCKS", "exit 0: C 0\n"),
        ] {
            let ended = match shell(script, &testing::generous()) {
                Ended::Exited { code, stdout, truncated: false } => {
                    format!("exit {code}: {}", String::from_utf8(stdout).unwrap())
                }
                Ended::Signalled => "signalled".to_owned(),
                ended @ (Ended::Exited { .. } | Ended::TimedOut | Ended::CouldNotStart(_)) => {
                    format!("{ended:?}")
                }
            };
            assert_eq!(ended, expected, "{script}");
        }
    }

    #[test]
    fn a_missing_program_or_directory_is_a_start_failure() {
        for (program, cwd) in [("ralph-no-such-program", "/"), ("true", "/no/such/place")] {
            let spec = Spec { argv: &[program.as_ref()], cwd: Some(cwd.as_ref()), env: &[] };
            let ended = run(&spec, &testing::generous());
            assert!(
                matches!(&ended, Ended::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound),
                "{ended:?}"
            );
        }
    }

    #[test]
    fn the_deadline_kills_a_child_and_a_grandchild_that_holds_its_output() {
        let bound = Deadline::after(Duration::from_secs(20));
        for script in [
            "sleep 60 & wait",
            "exec sleep 60",
            "trap '' TERM; sleep 60; sleep 60",
            "exec 1>&-; sleep 60",
            "yes",
        ] {
            let limits =
                Limits { deadline: Deadline::after(Duration::from_millis(100)), keep: 1024 };
            let ended = shell(script, &limits);
            assert!(matches!(ended, Ended::TimedOut), "{script}: {ended:?}");
        }
        assert!(!bound.is_over());
    }

    #[test]
    fn a_grandchild_neither_delays_the_result_nor_outlives_it() {
        let bound = Deadline::after(Duration::from_secs(20));
        let ended = shell("sleep 60 & echo $!", &testing::generous());
        let Ended::Exited { code: 0, stdout, .. } = ended else { panic!("{ended:?}") };
        let grandchild: i32 = String::from_utf8(stdout).unwrap().trim().parse().unwrap();
        let grandchild = Pid::from_raw(grandchild).unwrap();
        while is_running(grandchild) {
            assert!(!bound.is_over());
        }
    }

    fn is_running(pid: Pid) -> bool {
        crate::owner::mark(pid.as_raw_nonzero().get().cast_unsigned()).is_some()
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_and_reported_as_truncated() {
        let script = "head -c 300000 /dev/zero; exit 5";
        for (keep, kept, cut) in [(0, 0, true), (299_999, 299_999, true), (300_000, 300_000, false)]
        {
            let limits = Limits { keep, ..testing::generous() };
            let ended = shell(script, &limits);
            let Ended::Exited { code: 5, stdout, truncated } = ended else { panic!("{ended:?}") };
            assert_eq!((stdout.len(), truncated), (kept, cut), "{keep}");
        }
    }

    #[test]
    fn input_may_be_read_completely_partly_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let input = vec![b'x'; 300_000];
        for (script, expected) in [("cat", 300_000), ("head -c 2; exec 0<&-", 2), ("true", 0)] {
            let file = crate::fs::scratch(dir.path(), &input).unwrap();
            let argv = ["sh", "-c", script].map(OsStr::new);
            let spec = Spec { argv: &argv, cwd: None, env: &[] };
            let ended = run_reading(&spec, file, &testing::generous());
            let Ended::Exited { code: 0, stdout, .. } = ended else { panic!("{ended:?}") };
            assert_eq!(stdout.len(), expected, "{script}");
        }
        assert_eq!(crate::fs::list(dir.path(), 9).unwrap(), [""; 0]);
    }

    #[test]
    fn no_process_is_started_after_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("made");
        let spec = Spec {
            argv: &["touch".as_ref(), made.as_os_str()],
            cwd: Some(Path::new("/")),
            env: &[],
        };
        let limits = Limits { deadline: Deadline::after(Duration::ZERO), keep: 0 };
        assert!(matches!(run(&spec, &limits), Ended::TimedOut));
        assert!(!made.exists());
    }
}
