//! The only place that starts processes.
//!
//! - [`run_program`]: a trusted program, such as git.
//! - [`job`]: a command of the user, which may do anything.
//! - [`worker`]: a part of ralph that continues in the background after its parent has answered.
//! - [`line_process`]: a program that exchanges lines with us.
//! - [`foreground`]: a program of the person, such as their editor.
//! - [`curl_call`]: the command line of a request, for [`job`].
//! - [`decoy`]: a process that exists to be killed.
//!
//! [`run_program`] needs no threads and has one deadline. A child gets its own process group, and the group is killed
//! when the child exits, so a grandchild that keeps the pipe open causes no wait. Only a process that leaves the group
//! (`setsid`) outlives the child, and ralph does not wait for it.

mod busy_program;
pub mod cancel;
mod capture;
mod command_input;
pub mod curl_call;
pub mod decoy;
mod descendants;
pub mod foreground;
pub mod job;
mod job_protocol;
pub mod line_process;
pub mod private_mounts;
pub mod program_search;
pub mod signals;
mod stream_redactor;
pub mod supervisor;
pub(crate) mod wait;
pub mod worker;

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use self::busy_program::start_child;
use crate::clock::{self, Deadline};
use crate::env::Env;
use crate::os;

/// Polling intervals for a child that writes nothing and closes nothing.
const MIN_POLL_INTERVAL: Duration = Duration::from_micros(200);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(20);
const STACK_BUFFER_BYTES: usize = 16 * 1024;

/// A trusted program to run.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec<'a> {
    /// The program, looked up in `PATH`, and its arguments.
    pub argv: &'a [&'a OsStr],
    /// The working directory; `None` for ours. Setting one costs a fork in a static binary, which cannot make
    /// `posix_spawn` change directory.
    pub cwd: Option<&'a Path>,
    /// Variables to add. The child inherits everything but `GIT_*`, `RALPH_*` and secrets.
    pub env: &'a [(&'a OsStr, &'a OsStr)],
}

#[derive(Clone, Copy, Debug)]
pub struct ProgramLimits {
    pub deadline: Deadline,
    /// Bytes of output to keep. The rest is read and dropped, so that the child can finish.
    pub max_output_bytes: usize,
}

#[derive(Debug)]
pub enum ProgramEnd {
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
pub fn run_program(spec: &ProgramSpec<'_>, limits: &ProgramLimits) -> ProgramEnd {
    start_program(spec, limits).map_or_else(|ended| ended, RunningProgram::wait)
}

/// Like [`run_program`], with `input` as standard input. It is a file without a name rather than a pipe because a file
/// needs no writer, and a child that stops reading does no harm.
pub fn run_program_with_input(
    spec: &ProgramSpec<'_>,
    input: &[u8],
    limits: &ProgramLimits,
) -> ProgramEnd {
    match os::write_to_unnamed_file(input) {
        Ok(file) => start_with_stdin(spec, file.into(), limits)
            .map_or_else(|ended| ended, RunningProgram::wait),
        Err(error) => ProgramEnd::CouldNotStart(error),
    }
}

/// A program that runs concurrently. It is killed if this is dropped before it exits.
#[derive(Debug)]
pub struct RunningProgram {
    child: Option<Child>,
    limits: ProgramLimits,
}

/// Like [`run_program`], without waiting for the exit. Fails if the deadline has already passed.
pub fn start_program(
    spec: &ProgramSpec<'_>,
    limits: &ProgramLimits,
) -> Result<RunningProgram, ProgramEnd> {
    start_with_stdin(spec, Stdio::null(), limits)
}

fn start_with_stdin(
    spec: &ProgramSpec<'_>,
    stdin: Stdio,
    limits: &ProgramLimits,
) -> Result<RunningProgram, ProgramEnd> {
    if limits.deadline.has_passed() {
        return Err(ProgramEnd::TimedOut);
    }
    let child = spawn_program(spec, stdin).map_err(ProgramEnd::CouldNotStart)?;
    Ok(RunningProgram { child: Some(child), limits: *limits })
}

impl RunningProgram {
    pub fn wait(mut self) -> ProgramEnd {
        let Some(mut child) = self.child.take() else { return ProgramEnd::Signalled };
        wait_for_exit(&mut child, &self.limits).unwrap_or_else(|error| {
            kill_and_reap(&mut child);
            ProgramEnd::CouldNotStart(error)
        })
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            kill_and_reap(child);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn_program(spec: &ProgramSpec<'_>, stdin: Stdio) -> io::Result<Child> {
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = Command::new(program);
    // Removing names, rather than passing a whole environment, lets the standard library use `posix_spawn`.
    for name in Env::from_process().withheld_names() {
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
        .process_group(0);
    start_child(&mut command)
}

fn wait_for_exit(child: &mut Child, limits: &ProgramLimits) -> io::Result<ProgramEnd> {
    let pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    ioctl_fionbio(&pipe, true)?;
    let mut output = CappedOutput {
        pipe: Some(pipe),
        bytes: Vec::new(),
        truncated: false,
        keep: limits.max_output_bytes,
    };
    let end = os::exit_descriptor(Pid::from_child(child));
    let mut look = MIN_POLL_INTERVAL;
    while !has_exited(child)? {
        let left = limits.deadline.remaining();
        if left.is_zero() {
            kill_and_reap(child);
            return Ok(ProgramEnd::TimedOut);
        }
        let wait = if end.is_some() { left } else { look.min(left) };
        look = match output.poll(wait, end.as_ref()) {
            OutputPoll::Activity => MIN_POLL_INTERVAL,
            OutputPoll::Idle => (look * 2).min(MAX_POLL_INTERVAL),
        };
    }
    // Before the child is reaped: until then its pid, which identifies the group, cannot be reused.
    kill_child_group(child);
    output.drain();
    let Some(status) = child.try_wait()? else {
        return Err(io::ErrorKind::WouldBlock.into());
    };
    Ok(match status.code() {
        Some(code) => {
            ProgramEnd::Exited { code, stdout: output.bytes, truncated: output.truncated }
        }
        None => ProgramEnd::Signalled,
    })
}

/// Whether the child has exited. Does not reap it.
fn has_exited(child: &Child) -> io::Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(Pid::from_child(child)), options) {
        Ok(status) => Ok(status.is_some()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn kill_child_group(child: &Child) {
    // Fails if no process is left in the group, which is fine.
    kill_process_group(Pid::from_child(child), Signal::KILL).ok();
}

fn kill_and_reap(child: &mut Child) {
    kill_child_group(child);
    // Fails if it was reaped before.
    wait::wait_for_child(child, Deadline::after(wait::REAP_TIMEOUT)).ok();
}

enum OutputPoll {
    Activity,
    Idle,
}

/// The output of a child, up to a limit.
struct CappedOutput {
    /// `None` once the other end is closed.
    pipe: Option<ChildStdout>,
    bytes: Vec<u8>,
    truncated: bool,
    keep: usize,
}

impl CappedOutput {
    /// Waits at most `wait` for output, the end of the output or the exit of the child.
    fn poll(&mut self, wait: Duration, end: Option<&OwnedFd>) -> OutputPoll {
        let awaited =
            || self.pipe.as_ref().map(AsFd::as_fd).into_iter().chain(end.map(AsFd::as_fd));
        let mut polled: Vec<_> =
            awaited().map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN)).collect();
        if polled.is_empty() {
            clock::sleep(wait);
            return OutputPoll::Idle;
        }
        match poll(&mut polled, Some(&wait::timespec(wait))) {
            Ok(0) | Err(Errno::INTR) => OutputPoll::Idle,
            Ok(_) => {
                self.read();
                OutputPoll::Activity
            }
            Err(_) => {
                self.stop_reading();
                OutputPoll::Idle
            }
        }
    }

    /// Reads the bytes that are in the pipe, without waiting for more.
    fn drain(&mut self) {
        for _ in 0..wait::MAX_PIPE_BYTES / STACK_BUFFER_BYTES {
            if self.read() == 0 {
                return;
            }
        }
    }

    fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else {
            return 0;
        };
        let mut block = [0; STACK_BUFFER_BYTES];
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
                    self.stop_reading();
                }
                0
            }
        }
    }

    /// Stops reading after an error, and marks the output as incomplete.
    fn stop_reading(&mut self) {
        self.pipe = None;
        self.truncated = true;
    }
}

/// For the tests of this crate and of its dependents. Not behind a feature, because tests and program would then need
/// separate builds of every dependent crate.
#[doc(hidden)]
#[expect(clippy::panic, reason = "only tests call this")]
pub mod testing {
    use super::{
        Deadline, Duration, OsStr, Path, ProgramEnd, ProgramLimits, ProgramSpec, run_program,
    };
    use crate::env;

    pub fn generous_limits() -> ProgramLimits {
        ProgramLimits {
            deadline: Deadline::after(Duration::from_mins(1)),
            max_output_bytes: 1024 * 1024,
        }
    }

    /// The output of a program that has to succeed.
    pub fn run_successfully<S: AsRef<OsStr>>(cwd: &Path, argv: &[S]) -> Vec<u8> {
        let argv: Vec<&OsStr> = argv.iter().map(AsRef::as_ref).collect();
        let spec = ProgramSpec { argv: &argv, cwd: Some(cwd), env: &[] };
        let ended = run_program(&spec, &generous_limits());
        let ProgramEnd::Exited { code: 0, stdout, .. } = ended else {
            panic!("{argv:?}: {ended:?}")
        };
        stdout
    }

    /// Runs one ignored test of the calling crate in a separate process.
    pub fn rerun_test(test: &str, env: &[(&OsStr, &OsStr)]) -> ProgramEnd {
        let program = env::testing::program();
        let arguments = ["--exact", test, "--ignored", "--quiet"].map(OsStr::new);
        let mut argv = vec![program.as_os_str()];
        argv.extend(arguments);
        let spec = ProgramSpec { argv: &argv, cwd: Some(Path::new("/")), env };
        run_program(&spec, &generous_limits())
    }

    pub fn exit_code(ended: &ProgramEnd) -> i32 {
        match ended {
            ProgramEnd::Exited { code, .. } => *code,
            ProgramEnd::Signalled | ProgramEnd::TimedOut | ProgramEnd::CouldNotStart(_) => {
                panic!("{ended:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};

    fn shell(script: &str, limits: &ProgramLimits) -> ProgramEnd {
        let argv = ["sh", "-c", script].map(OsStr::new);
        let spec = ProgramSpec { argv: &argv, cwd: Some(Path::new("/")), env: &[] };
        run_program(&spec, limits)
    }

    #[test]
    fn output_that_cannot_be_read_to_its_end_counts_as_truncated() {
        // Reading a directory fails.
        let pipe = rustix::fs::open("/", OFlags::RDONLY, Mode::empty()).unwrap().into();
        let mut output =
            CappedOutput { pipe: Some(pipe), bytes: Vec::new(), truncated: false, keep: 9 };
        output.drain();
        assert!(output.truncated && output.pipe.is_none());
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
            let ended = match shell(script, &testing::generous_limits()) {
                ProgramEnd::Exited { code, stdout, truncated: false } => {
                    format!("exit {code}: {}", String::from_utf8(stdout).unwrap())
                }
                ProgramEnd::Signalled => "signalled".to_owned(),
                ended @ (ProgramEnd::Exited { .. }
                | ProgramEnd::TimedOut
                | ProgramEnd::CouldNotStart(_)) => {
                    format!("{ended:?}")
                }
            };
            assert_eq!(ended, expected, "{script}");
        }
    }

    #[test]
    fn a_missing_program_or_directory_is_a_start_failure() {
        for (program, cwd) in [("ralph-no-such-program", "/"), ("true", "/no/such/place")] {
            let spec = ProgramSpec { argv: &[program.as_ref()], cwd: Some(cwd.as_ref()), env: &[] };
            let ended = run_program(&spec, &testing::generous_limits());
            assert!(
                matches!(&ended, ProgramEnd::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound),
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
            let limits = ProgramLimits {
                deadline: Deadline::after(Duration::from_millis(100)),
                max_output_bytes: 1024,
            };
            let ended = shell(script, &limits);
            assert!(matches!(ended, ProgramEnd::TimedOut), "{script}: {ended:?}");
        }
        assert!(!bound.has_passed());
    }

    #[test]
    fn a_grandchild_neither_delays_the_result_nor_outlives_it() {
        let bound = Deadline::after(Duration::from_secs(20));
        let ended = shell("sleep 60 & echo $!", &testing::generous_limits());
        let ProgramEnd::Exited { code: 0, stdout, .. } = ended else { panic!("{ended:?}") };
        let grandchild: i32 = String::from_utf8(stdout).unwrap().trim().parse().unwrap();
        let grandchild = Pid::from_raw(grandchild).unwrap();
        while is_running(grandchild) {
            assert!(!bound.has_passed());
        }
    }

    fn is_running(pid: Pid) -> bool {
        crate::process_identity::identify_process(pid.as_raw_nonzero().get().cast_unsigned())
            .is_some()
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_and_reported_as_truncated() {
        let script = "head -c 300000 /dev/zero; exit 5";
        for (keep, kept, cut) in [(0, 0, true), (299_999, 299_999, true), (300_000, 300_000, false)]
        {
            let limits = ProgramLimits { max_output_bytes: keep, ..testing::generous_limits() };
            let ended = shell(script, &limits);
            let ProgramEnd::Exited { code: 5, stdout, truncated } = ended else {
                panic!("{ended:?}")
            };
            assert_eq!((stdout.len(), truncated), (kept, cut), "{keep}");
        }
    }

    #[test]
    fn input_may_be_read_completely_partly_or_not_at_all() {
        let input = vec![b'x'; 300_000];
        for (script, expected) in [("cat", 300_000), ("head -c 2; exec 0<&-", 2), ("true", 0)] {
            let argv = ["sh", "-c", script].map(OsStr::new);
            let spec = ProgramSpec { argv: &argv, cwd: None, env: &[] };
            let ended = run_program_with_input(&spec, &input, &testing::generous_limits());
            let ProgramEnd::Exited { code: 0, stdout, .. } = ended else { panic!("{ended:?}") };
            assert_eq!(stdout.len(), expected, "{script}");
        }
    }

    #[test]
    fn no_process_is_started_after_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("made");
        let spec = ProgramSpec {
            argv: &["touch".as_ref(), made.as_os_str()],
            cwd: Some(Path::new("/")),
            env: &[],
        };
        let limits =
            ProgramLimits { deadline: Deadline::after(Duration::ZERO), max_output_bytes: 0 };
        assert!(matches!(run_program(&spec, &limits), ProgramEnd::TimedOut));
        assert!(!made.exists());
    }
}
