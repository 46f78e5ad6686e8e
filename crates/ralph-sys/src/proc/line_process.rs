//! Runs a program that exchanges lines with us over its standard input and output, and kills it with everything it
//! started when we are done with it.
//!
//! Agents start their tools in separate sessions, and some tools start daemons, so process groups and sessions do not
//! identify them. Instead the program gets an environment variable with a random value, the mark. Every process that
//! has the mark in its environment belongs to the program and is killed with it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::busy_program::start_child;
use super::wait;
use crate::clock::{self, Deadline};
use crate::{fs, os};

const MARK_VARIABLE: &str = "RALPH_TALK";
/// Longer lines are truncated.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// How long to wait for killed processes to exit.
const REAP_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub struct LineProcessSpec<'a> {
    /// The program and its arguments.
    pub argv: &'a [&'a OsStr],
    pub cwd: &'a Path,
    /// Its complete environment, except for the mark.
    pub env: &'a [(&'a OsStr, &'a OsStr)],
    /// The file that receives its standard error.
    pub stderr_path: &'a Path,
    /// The mark, if the caller must know it beforehand; otherwise one is generated.
    pub mark: Option<&'a str>,
    pub on_parent_death: OnParentDeath<'a>,
}

/// What happens to the program when our process dies.
#[derive(Clone, Copy, Debug)]
pub enum OnParentDeath<'a> {
    /// It keeps running.
    KeepRunning,
    /// It is killed too. The path is the ralph executable, which starts it: see
    /// [`env::own_executable`](crate::env::own_executable).
    Kill(&'a Path),
}

/// The argument that makes ralph tie itself to its parent and then execute another program.
pub const TIED_ARGUMENT: &str = "__tied";

/// Executes a program that is killed when its parent exits. The arguments are the parent's pid, the program and its
/// arguments. Returns an exit code only on failure.
pub fn exec_tied_to_parent(arguments: &[OsString]) -> u8 {
    const CANNOT: u8 = 127;
    let Some((parent, argv)) = arguments.split_first() else { return CANNOT };
    let Some((program, arguments)) = argv.split_first() else { return CANNOT };
    let parent = parent.to_str().and_then(|pid| pid.parse::<u32>().ok());
    // The parent may have exited before we were tied to it.
    if os::die_with_parent().is_err() || parent != Some(std::os::unix::process::parent_id()) {
        return CANNOT;
    }
    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    let _why = Command::new(program).args(arguments).exec();
    CANNOT
}

/// An unpredictable mark; `None` without a source of randomness.
pub fn new_process_mark() -> Option<String> {
    clock::random_key().map(|key| to_hex(&key))
}

/// Kills all processes that have this mark in their environment.
pub fn kill_marked_processes(mark: &str) {
    let mark = format!("{MARK_VARIABLE}={mark}");
    let bound = Deadline::after(REAP_TIMEOUT);
    while kill_marked_once(mark.as_bytes()) > 0 && !bound.has_passed() {
        clock::sleep(POLL_INTERVAL);
    }
}

/// Kills the process with this pid if its environment contains `variable`, as `NAME=value`.
pub fn kill_process_with_variable(pid: u32, variable: &OsStr) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_if_marked(pid, variable.as_encoded_bytes());
    }
}

/// The pids of all processes whose environment contains `variable`, as `NAME=value`; `None` where the system does not
/// list processes.
pub fn pids_with_variable(variable: &OsStr) -> Option<Vec<u32>> {
    let marked = marked_pids(variable.as_encoded_bytes())?;
    Some(marked.map(|pid| pid.as_raw_nonzero().get().cast_unsigned()).collect())
}

/// Output of the program.
#[derive(Debug)]
pub enum LineProcessOutput {
    /// A line, without its line feed.
    Line(Vec<u8>),
    /// The end of the output.
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum LineProcessError {
    #[error(transparent)]
    File(#[from] fs::FileError),
    #[error("cannot start `{}`", name.display())]
    Start { name: OsString, source: io::Error },
}

/// The running program. When dropped, it kills the program and everything the program started.
#[derive(Debug)]
pub struct LineProcess {
    child: Child,
    input: UnixStream,
    /// The value of the mark; `None` without a source of randomness.
    mark: Option<String>,
    is_reaped: bool,
}

/// Starts the program. A separate thread calls `on_output` for every line and at the end of the output.
pub fn start_line_process(
    spec: &LineProcessSpec<'_>,
    on_output: impl FnMut(LineProcessOutput) + Send + 'static,
) -> Result<LineProcess, LineProcessError> {
    let errors = fs::create_output_file(spec.stderr_path)?;
    let name = spec.argv.first().copied().unwrap_or_default().to_owned();
    let failed = |source| LineProcessError::Start { name: name.clone(), source };
    let (input, theirs) = UnixStream::pair().map_err(failed)?;
    let value = spec.mark.map(str::to_owned).or_else(new_process_mark);
    let mut child = spawn_line_process(spec, value.as_deref(), theirs, errors).map_err(failed)?;
    let Some(output) = child.stdout.take() else {
        return Err(failed(io::ErrorKind::BrokenPipe.into()));
    };
    let talk = LineProcess { child, input, mark: value, is_reaped: false };
    std::thread::Builder::new()
        .name("listener".to_string())
        .spawn(move || read_output_lines(output, on_output))
        .map_err(failed)?;
    Ok(talk)
}

#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
fn spawn_line_process(
    spec: &LineProcessSpec<'_>,
    mark: Option<&str>,
    input: UnixStream,
    errors: std::fs::File,
) -> io::Result<Child> {
    let Some((program, arguments)) = spec.argv.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut command = match spec.on_parent_death {
        OnParentDeath::KeepRunning => Command::new(program),
        OnParentDeath::Kill(this) => {
            let mut command = Command::new(this);
            command.arg(TIED_ARGUMENT).arg(std::process::id().to_string()).arg(program);
            command
        }
    };
    command
        .args(arguments)
        .current_dir(spec.cwd)
        .env_clear()
        .envs(spec.env.iter().copied())
        // Last, so that no variable of the caller overrides it.
        .envs(mark.map(|value| (MARK_VARIABLE, value)))
        .stdin(OwnedFd::from(input))
        .stdout(std::process::Stdio::piped())
        .stderr(errors)
        .process_group(0);
    start_child(&mut command)
}

fn to_hex(key: &[u8]) -> String {
    let mut hex = String::with_capacity(key.len() * 2);
    for byte in key {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex
}

fn read_output_lines(mut output: ChildStdout, mut on_output: impl FnMut(LineProcessOutput)) {
    let mut line = Vec::new();
    let mut block = vec![0; wait::READ_BUFFER_BYTES];
    loop {
        let count = match output.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let mut rest = block.get(..count).unwrap_or_default();
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (piece, after) = rest.split_at(end);
            append_capped(&mut line, piece);
            on_output(LineProcessOutput::Line(std::mem::take(&mut line)));
            rest = after.get(1..).unwrap_or_default();
        }
        append_capped(&mut line, rest);
    }
    if !line.is_empty() {
        on_output(LineProcessOutput::Line(line));
    }
    on_output(LineProcessOutput::End);
}

fn append_capped(line: &mut Vec<u8>, piece: &[u8]) {
    let room = MAX_LINE_BYTES.saturating_sub(line.len());
    line.extend_from_slice(piece.get(..room).unwrap_or(piece));
}

impl LineProcess {
    /// Sends these bytes. Fails if the program has exited or does not read them before the deadline.
    pub fn send(&mut self, bytes: &[u8], deadline: Deadline) -> io::Result<()> {
        wait::send_all(self.input.as_fd(), bytes, deadline)
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        // Fails if the other end is already closed.
        self.input.shutdown(Shutdown::Write).ok();
    }

    /// Its exit code, or `None` if it is still running at the deadline. A death by signal is 128 plus the signal
    /// number, as in a shell.
    pub fn wait(&mut self, deadline: Deadline) -> io::Result<Option<i32>> {
        let status = wait::wait_for_child(&mut self.child, deadline)?;
        self.is_reaped |= status.is_some();
        Ok(status.map(|status| {
            status.code().unwrap_or_else(|| 128_i32.saturating_add(status.signal().unwrap_or(0)))
        }))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to the program alone, not to the processes it started.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends SIGINT, as Ctrl-C in its terminal would.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Does nothing once the program is reaped, because its pid may then be reused.
    fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            // Fails if it has exited.
            rustix::process::kill_process(Pid::from_child(&self.child), signal).ok();
        }
    }

    fn kill_everything(&mut self) {
        let bound = Deadline::after(REAP_TIMEOUT);
        if !self.is_reaped {
            // Fails if no process is left in the group, which is fine.
            kill_process_group(Pid::from_child(&self.child), Signal::KILL).ok();
            wait::wait_for_child(&mut self.child, bound).ok();
        }
        if let Some(mark) = &self.mark {
            kill_marked_processes(mark);
        }
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        self.kill_everything();
    }
}

fn marked_pids(mark: &[u8]) -> Option<impl Iterator<Item = Pid>> {
    Some(os::all_pids()?.into_iter().filter(|pid| has_variable(*pid, mark)))
}

/// Kills all processes that have the mark and returns how many there were.
fn kill_marked_once(mark: &[u8]) -> usize {
    marked_pids(mark).into_iter().flatten().filter(|pid| kill_if_marked(*pid, mark)).count()
}

/// Kills the process if it has the mark. That is checked once its descriptor is open, because the pid may have been
/// reused before.
fn kill_if_marked(pid: Pid, mark: &[u8]) -> bool {
    os::exit_descriptor(pid).is_some_and(|process| {
        has_variable(pid, mark) && os::signal_process(&process, Signal::KILL).is_ok()
    })
}

/// False if the environment cannot be read, because the process has exited or belongs to another user.
fn has_variable(pid: Pid, mark: &[u8]) -> bool {
    os::read_environment(pid.as_raw_nonzero().get().cast_unsigned())
        .is_some_and(|environment| environment.split(|byte| *byte == 0).any(|it| it == mark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::mpsc;

    fn soon() -> Deadline {
        Deadline::after(Duration::from_mins(1))
    }

    fn talk(
        directory: &Path,
        script: &str,
    ) -> (LineProcess, mpsc::Receiver<LineProcessOutput>, PathBuf) {
        let errors = directory.join("errors");
        let argv = ["/bin/sh", "-c", script].map(OsStr::new);
        let env = [
            (OsStr::new("PATH"), OsStr::new("/usr/local/bin:/usr/bin:/bin")),
            (OsStr::new("HOME"), directory.as_os_str()),
            (OsStr::new(MARK_VARIABLE), OsStr::new("theirs")),
        ];
        let spec = LineProcessSpec {
            argv: &argv,
            cwd: directory,
            env: &env,
            stderr_path: &errors,
            mark: None,
            on_parent_death: OnParentDeath::KeepRunning,
        };
        let (sender, received) = mpsc::channel();
        let talk = start_line_process(&spec, move |what| drop(sender.send(what))).unwrap();
        (talk, received, errors)
    }

    fn lines(received: &mpsc::Receiver<LineProcessOutput>) -> Vec<String> {
        let lines = received.iter().map_while(|received| match received {
            LineProcessOutput::Line(line) => Some(String::from_utf8(line).unwrap()),
            LineProcessOutput::End => None,
        });
        lines.collect()
    }

    #[test]
    fn lines_are_exchanged_and_the_exit_code_is_returned() {
        let directory = tempfile::tempdir().unwrap();
        let script =
            "while read word; do echo \"<$word>\"; done; printf last; echo oops >&2; exit 3";
        let (mut talk, received, errors) = talk(directory.path(), script);
        talk.send(b"one\ntwo\n", soon()).unwrap();
        talk.close_input();
        assert_eq!(lines(&received), ["<one>", "<two>", "last"]);
        assert_eq!(talk.wait(soon()).unwrap(), Some(3));
        assert_eq!(fs::read(&errors, 100).unwrap(), b"oops\n");
        assert!(talk.send(b"more\n", soon()).is_err());
    }

    #[test]
    fn sending_to_a_program_that_does_not_read_times_out() {
        let directory = tempfile::tempdir().unwrap();
        let (mut talk, _heard, _) = talk(directory.path(), "exec sleep 600");
        let much = vec![b'x'; 8 * 1024 * 1024];
        let error = talk.send(&much, Deadline::after(Duration::from_millis(50))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(talk.wait(Deadline::after(Duration::ZERO)).unwrap(), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn dropping_it_kills_processes_that_left_its_group_and_lost_their_parents() {
        let directory = tempfile::tempdir().unwrap();
        let script = "setsid sh -c 'setsid sleep 600 & echo $!; exec sleep 600' & echo $!; wait";
        let (talk, received, _) = talk(directory.path(), script);
        let mut pids = Vec::new();
        while pids.len() < 2 {
            let LineProcessOutput::Line(line) = received.recv().unwrap() else {
                panic!("it ended")
            };
            pids.push(String::from_utf8(line).unwrap());
        }
        drop(talk);
        for pid in pids {
            let status =
                fs::read(Path::new(&format!("/proc/{pid}/status")), 4096).unwrap_or_default();
            let status = String::from_utf8_lossy(&status).into_owned();
            let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or("gone");
            assert!(state == "gone" || state.contains('Z'), "{pid}: {state}");
        }
    }

    /// Only the random value of the mark identifies a program's processes, not the rest of their environment.
    #[test]
    fn unrelated_processes_with_the_same_environment_are_not_killed() {
        let directory = tempfile::tempdir().unwrap();
        let (mut stranger, received, _) =
            talk(directory.path(), "echo here; read word; echo $word");
        assert!(matches!(received.recv().unwrap(), LineProcessOutput::Line(_)));
        let (talk, others, _) = talk(directory.path(), "echo here; exec sleep 600");
        assert!(matches!(others.recv().unwrap(), LineProcessOutput::Line(_)));
        drop(talk);
        stranger.send(b"alive\n", soon()).unwrap();
        assert_eq!(lines(&received), ["alive"]);
    }

    #[test]
    fn a_start_error_names_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let errors = directory.path().join("errors");
        let argv = [OsStr::new("/no/such/program")];
        let spec = LineProcessSpec {
            argv: &argv,
            cwd: directory.path(),
            env: &[],
            stderr_path: &errors,
            mark: None,
            on_parent_death: OnParentDeath::KeepRunning,
        };
        let error = start_line_process(&spec, |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "cannot start `/no/such/program`");
    }
}
