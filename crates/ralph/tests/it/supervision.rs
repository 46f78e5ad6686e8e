//! Supervision of commands that resist being ended. Scripts record the pids of their processes, and tests check that
//! none of them survives.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ralph_core::gate::{self, Gate, ReportFormat, RerunPolicy};
use ralph_core::policy::GateEnvironment;
use ralph_gates::environment;
use ralph_sys::clock::{Deadline, Stopwatch};
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::job::{
    self, CaptureLimits, CommandInput, JobEnd, JobResult, JobSpec, LeftoverPolicy, LogOutcome,
    MAX_INPUT_BYTES, StderrCapture,
};
use ralph_sys::proc::signals;
use ralph_sys::proc::worker::{self, ParentLink};
use ralph_sys::process_identity;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::sandbox::{Sandbox, read_files};

const DEADLINE: Duration = Duration::from_millis(1500);
/// For commands that end on their own, even on a slow machine.
const LONG_DEADLINE: Duration = Duration::from_mins(1);
const GRACE: Duration = Duration::from_millis(300);
const SLACK: Duration = Duration::from_secs(1);
const KEPT_OUTPUT: CaptureLimits = CaptureLimits { head: 64 * 1024, tail: 64 * 1024 };

/// A directory for scripts, which have a command `note` on their `PATH` that records the pid of its caller.
struct SupervisionDir {
    root: PathBuf,
    deadline: Duration,
    _temp_dir: Option<tempfile::TempDir>,
}

impl SupervisionDir {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let place = Self { root, deadline: DEADLINE, _temp_dir: Some(directory) };
        place.write_tool("note", r#"echo $PPID >> "$NOTES""#);
        place
    }

    fn with_long_deadline() -> Self {
        Self { deadline: LONG_DEADLINE, ..Self::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn write_tool(&self, name: &str, script: &str) {
        crate::sandbox::write_program(&self.path(name), &format!("#!/bin/sh\n{script}\n"));
    }

    fn script_env(&self) -> Vec<(OsString, OsString)> {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.root.display());
        vec![
            ("NOTES".into(), self.path("notes").into()),
            ("PATH".into(), path.into()),
            ("PLACE".into(), (&self.root).into()),
        ]
    }

    fn recorded_pids(&self) -> Vec<u32> {
        let notes = fs::read_to_string(self.path("notes")).unwrap_or_default();
        notes.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn live_pids(&self) -> Vec<u32> {
        self.recorded_pids()
            .into_iter()
            .filter(|pid| process_identity::identify_process(*pid).is_some())
            .collect()
    }

    fn run_script(&self, script: &str, cancel: &CancelToken) -> JobResult {
        let argv: Vec<OsString> = ["sh", "-c", script].map(Into::into).into();
        self.run_argv(&argv, cancel)
    }

    fn run_argv(&self, argv: &[OsString], cancel: &CancelToken) -> JobResult {
        job::run_job(&JobSpec {
            program: Path::new(env!("CARGO_BIN_EXE_ralph")),
            argv,
            cwd: &self.root,
            env: &self.script_env(),
            log: Some(&self.path("log")),
            capture_limits: KEPT_OUTPUT,
            secrets: &["hunter2hunter2".to_string()],
            deadline: Deadline::after(self.deadline),
            grace: GRACE,
            ..JobSpec::with_defaults(cancel)
        })
    }

    /// Runs a script as a host runs a hook.
    fn run_hook(&self, script: &str, input: &[u8]) -> JobResult {
        self.run_hook_until(script, input, &CancelToken::new().unwrap())
    }

    fn run_hook_until(&self, script: &str, input: &[u8], cancel: &CancelToken) -> JobResult {
        job::run_job(&JobSpec {
            program: Path::new(env!("CARGO_BIN_EXE_ralph")),
            argv: &["sh", "-c", script].map(OsString::from),
            cwd: &self.root,
            env: &self.script_env(),
            input: CommandInput::Bytes(input),
            stderr: StderrCapture::Separate,
            capture_limits: KEPT_OUTPUT,
            deadline: Deadline::after(self.deadline),
            grace: GRACE,
            leftovers: LeftoverPolicy::Spare,
            ..JobSpec::with_defaults(cancel)
        })
    }

    /// Runs a script. Asserts that it ended in time, recorded at least `processes` pids, and left no process behind.
    fn run_and_check(&self, script: &str, processes: usize) -> JobResult {
        let watch = Stopwatch::start();
        let finished = self.run_script(script, &CancelToken::new().unwrap());
        let took = watch.elapsed();
        assert_eq!(self.live_pids(), [0_u32; 0], "{script}: {finished:?}");
        assert!(took < self.deadline + GRACE + SLACK, "{script}: {took:?}");
        assert!(
            self.recorded_pids().len() >= processes,
            "{script}: {:?} {finished:?}",
            self.recorded_pids()
        );
        finished
    }
}

/// Polls a condition. Panics after 20 seconds.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let bound = Deadline::after(Duration::from_secs(20));
    while !is_so() {
        assert!(!bound.has_passed(), "{what}");
        std::thread::yield_now();
    }
}

fn describe_end(how: &JobEnd) -> String {
    match how {
        JobEnd::Exited(code) => format!("exit {code}"),
        JobEnd::Signalled(signal) => format!("signal {signal}"),
        JobEnd::TimedOut => "timed out".to_string(),
        JobEnd::Cancelled => "cancelled".to_string(),
        JobEnd::CouldNotStart(error) => {
            let cause = std::error::Error::source(error).unwrap();
            format!("{error}: {cause}")
        }
        JobEnd::Lost => "lost".to_string(),
    }
}

/// R-D3b: every process that a command started is gone in time, however the command ended.
#[test]
fn no_process_of_a_command_survives_it() {
    let cases: &[(&str, usize, &str, u32)] = &[
        // A grandchild keeps the output open.
        ("(note; exec sleep 60) & wait", 1, "timed out", 0),
        // Waits for input.
        ("note; cat; read line; exit 7", 1, "exit 7", 0),
        ("trap '' TERM; note; while :; do sleep 60; done", 1, "timed out", 0),
        // A daemon keeps the pipe open.
        ("(note; exec sleep 60) & until [ -s notes ]; do :; done; exit 3", 1, "exit 3", 1),
        // Escapes into its own session.
        ("setsid sh -c 'note; exec sleep 60' & until [ -s notes ]; do :; done", 1, "exit 0", 1),
        (
            "nohup setsid sh -c 'note; exec sleep 60' >/dev/null 2>&1 & until [ -s notes ]; do :; done; exit 1",
            1,
            "exit 1",
            1,
        ),
        // A reparented daemon that closed its descriptors and ignores signals.
        (
            "((trap '' TERM HUP; exec <&- >&- 2>&-; cd /; note; exec sleep 60) &) & until [ -s notes ]; do :; done",
            1,
            "exit 0",
            1,
        ),
        // Reacts to SIGTERM by starting a process that ignores it.
        (
            r#"trap '(trap "" TERM; note; exec sleep 60) &' TERM; note; while :; do sleep 0.05; done"#,
            2,
            "timed out",
            0,
        ),
        ("note; kill -STOP $$", 1, "timed out", 0),
        (
            "(note; exec sleep 60) & until [ -s notes ]; do :; done; kill -STOP $!; exit 4",
            1,
            "exit 4",
            1,
        ),
        // Parents that do not reap their children.
        ("(note & exec sleep 60) & (note & exec sleep 60) & wait", 2, "timed out", 0),
        // Keeps writing while it is killed.
        ("trap '' TERM; note; exec yes", 1, "timed out", 0),
        (
            "for i in 1 2 3 4 5 6 7 8; do (note; sleep 60 & sleep 60 & wait) & done; wait",
            8,
            "timed out",
            0,
        ),
        ("note; kill -9 $$", 1, "signal 9", 0),
        // A background process may finish shortly after the command.
        ("(note; echo late) & until [ -s notes ]; do :; done; exit 5", 1, "exit 5", 0),
    ];
    std::thread::scope(|scope| {
        for (script, processes, how, leftover) in cases {
            scope.spawn(move || {
                let finished = SupervisionDir::new().run_and_check(script, *processes);
                let seen = (describe_end(&finished.end), finished.leftover_count);
                assert_eq!(seen, (how.to_string(), *leftover), "{script}");
            });
        }
    });
}

/// After SIGTERM processes get the grace period, whether the command itself has ended or not.
#[test]
fn processes_may_clean_up_after_sigterm() {
    let tidy = r#"(trap "echo tidy; exit" TERM; note; while :; do sleep 0.01; done) 2>/dev/null &"#;
    for (then, how) in
        [("until [ -s notes ]; do :; done", "exit 0"), ("trap : TERM; wait; wait", "timed out")]
    {
        let finished = SupervisionDir::new().run_and_check(&format!("{tidy} {then}"), 1);
        let seen = (describe_end(&finished.end), finished.output.head);
        assert_eq!(seen, (how.to_string(), b"tidy\n".to_vec()), "{then}");
    }
}

/// R-D3b: even if processes are started faster than they can be listed.
#[test]
fn a_chain_of_short_lived_processes_is_ended() {
    for next in ["note; $0 &", "note; setsid $0 &", "trap '' TERM; note; (setsid $0 &)"] {
        let place = SupervisionDir::with_long_deadline();
        place.write_tool("chain", next);
        let finished = place.run_and_check("exec chain", 3);
        assert_eq!(describe_end(&finished.end), "exit 0", "{next}");
    }
}

/// R-D3d: output is bounded in memory and complete in the log, without secrets.
#[test]
fn output_is_kept_at_both_ends_and_logged_without_secrets() {
    let place = SupervisionDir::with_long_deadline();
    let script = "echo first hunter2hunter2; echo second >&2; head -c 10000000 /dev/zero | tr '\\0' '\\n'; \
        printf 'last hunter2hunter2'";
    let finished = place.run_and_check(script, 0);
    assert_eq!(describe_end(&finished.end), "exit 0");
    assert_eq!(finished.log_outcome, LogOutcome::Complete);
    let output = finished.output;
    assert!(output.head.starts_with(b"first [redacted]\nsecond\n\n"));
    assert!(output.tail.ends_with(b"\n\nlast [redacted]"));
    assert_eq!((output.head.len(), output.tail.len()), (KEPT_OUTPUT.head, KEPT_OUTPUT.tail));
    let log = fs::metadata(place.path("log")).unwrap();
    assert_eq!((output.total, log.len()), (10_000_039, 10_000_039));
    assert_eq!(log.permissions().mode() & 0o777, 0o600);
}

/// R-D3d: a gate has no controlling terminal and is not a session leader.
#[test]
fn a_command_has_no_terminal() {
    let place = SupervisionDir::with_long_deadline();
    let script = "cat /proc/$$/stat; echo $PPID; if (: < /dev/tty) 2>/dev/null; then echo tty; fi; ls -l /proc/$$/fd/0";
    let output = String::from_utf8(place.run_and_check(script, 0).output.head).unwrap();
    let lines: Vec<_> = output.lines().collect();
    let [stat, parent, stdin] = lines[..] else { panic!("{output}") };
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let pid = stat.split_once(' ').unwrap().0;
    assert_eq!(fields[1..5], [parent, pid, parent, "0"], "parent, group, session, terminal");
    assert!(stdin.ends_with("/dev/null"), "{stdin}");
}

/// R-D3a: a gate that creates a repository does so in its own directory, whatever the hook's `GIT_*` variables are.
#[test]
fn a_gate_that_uses_git_does_not_change_the_hooks_repository() {
    let sandbox = Sandbox::new();
    let repository = sandbox.project().join(".git");
    let before = read_files(&repository);
    let hook = Env::from_pairs(
        [
            ("PATH", OsString::from("/usr/local/bin:/usr/bin:/bin")),
            ("HOME", sandbox.home().into()),
            ("GIT_DIR", repository.clone().into()),
            ("GIT_INDEX_FILE", repository.join("index").into()),
            ("GIT_WORK_TREE", sandbox.project().into()),
        ],
        None,
        Vec::new(),
    );
    let policy =
        GateEnvironment { pass: vec!["GIT_DIR".to_string()], ..GateEnvironment::default() };
    let script = "git init -q && git config user.name gate && echo a > a && git add a";
    let gate = shell_gate(script);
    let place = SupervisionDir::with_long_deadline();
    let finished = job::run_job(&JobSpec {
        program: Path::new(env!("CARGO_BIN_EXE_ralph")),
        argv: &["sh", "-c", script].map(OsString::from),
        cwd: &place.root,
        env: &environment::gate_environment(&hook, &policy, &gate, None),
        log: Some(&place.path("log")),
        capture_limits: KEPT_OUTPUT,
        deadline: Deadline::after(LONG_DEADLINE),
        grace: GRACE,
        ..JobSpec::with_defaults(&CancelToken::new().unwrap())
    });
    assert_eq!(describe_end(&finished.end), "exit 0", "{}", finished.output.head.escape_ascii());
    assert!(place.path(".git/index").exists());
    assert_eq!(read_files(&repository), before);
}

fn shell_gate(script: &str) -> Gate {
    Gate {
        report: ReportFormat::None,
        rerun: RerunPolicy::Never,
        ..Gate::new("git", gate::GateInvocation::Shell(script.to_string()))
    }
}

/// R-S1b: arguments are passed literally, and the program is looked up on the job's `PATH`.
#[test]
fn programs_are_found_on_the_jobs_path_and_arguments_are_literal() {
    let place = SupervisionDir::with_long_deadline();
    place.write_tool("only-here", r#"printf '%s|' "$@""#);
    for (argv, how, output) in [
        (&["only-here", "$HOME `id`", "*", ""][..], "exit 0", "$HOME `id`|*||"),
        (&["./only-here", "a"], "exit 0", "a|"),
        (&["/bin/echo", "-n", "b"], "exit 0", "b"),
        (
            &["ralph-no-such-program"],
            "cannot start `ralph-no-such-program`: No such file or directory (os error 2)",
            "",
        ),
        (&["./log"], "cannot start `./log`: Permission denied (os error 13)", ""),
        (&[], "cannot start ``: Invalid argument (os error 22)", ""),
    ] {
        let argv: Vec<OsString> = argv.iter().map(Into::into).collect();
        let finished = place.run_argv(&argv, &CancelToken::new().unwrap());
        let seen = (describe_end(&finished.end), String::from_utf8(finished.output.head).unwrap());
        assert_eq!(seen, (how.to_string(), output.to_string()), "{argv:?}");
    }
}

#[test]
fn failures_to_run_a_job_are_reported() {
    let place = SupervisionDir::new();
    let argv = [OsString::from("echo"), OsString::from("out")];
    let (env, log) = (place.script_env(), place.path("log"));
    let cancel = CancelToken::new().unwrap();
    let good = JobSpec {
        program: Path::new(env!("CARGO_BIN_EXE_ralph")),
        argv: &argv,
        cwd: &place.root,
        env: &env,
        log: Some(&log),
        capture_limits: KEPT_OUTPUT,
        deadline: Deadline::after(DEADLINE),
        grace: GRACE,
        ..JobSpec::with_defaults(&cancel)
    };
    for (job, how, logged) in [
        (good, "exit 0", LogOutcome::Complete),
        (
            JobSpec { cwd: Path::new("/no/such"), ..good },
            "cannot enter `/no/such`: No such file or directory (os error 2)",
            LogOutcome::Complete,
        ),
        (JobSpec { log: None, ..good }, "exit 0", LogOutcome::NotRequested),
        (JobSpec { log: Some(Path::new("/no/such/log")), ..good }, "exit 0", LogOutcome::Failed),
        (
            JobSpec { deadline: Deadline::after(Duration::ZERO), ..good },
            "timed out",
            LogOutcome::Complete,
        ),
        (
            JobSpec { program: Path::new("/no/ralph"), ..good },
            "cannot start ralph's helper process `/no/ralph`: No such file or directory (os error 2)",
            LogOutcome::Failed,
        ),
        // A program that does not speak the supervisor protocol.
        (JobSpec { program: Path::new("/bin/true"), ..good }, "lost", LogOutcome::Failed),
    ] {
        let finished = job::run_job(&job);
        assert_eq!((&*describe_end(&finished.end), finished.log_outcome), (how, logged), "{job:?}");
    }
}

/// R-D3b: only processes of the job itself are signalled, even while another job runs.
#[test]
fn concurrent_jobs_end_only_their_own_processes() {
    let (left, right) =
        (SupervisionDir::with_long_deadline(), SupervisionDir::with_long_deadline());
    let daemon = "setsid sh -c 'note; exec sleep 60' & until [ -s notes ]; do :; done";
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            left.run_and_check(
                &format!("{daemon}; until [ -e go ]; do sleep 0.01; done; exit 6"),
                1,
            )
        });
        wait_until("the left daemon runs", || !left.live_pids().is_empty());
        let finished = right.run_and_check(daemon, 1);
        assert_eq!(
            (describe_end(&finished.end), finished.leftover_count),
            ("exit 0".to_string(), 1)
        );
        assert_eq!(left.live_pids().len(), 1);
        fs::write(left.path("go"), "").unwrap();
        let finished = waiting.join().unwrap();
        assert_eq!(
            (describe_end(&finished.end), finished.leftover_count),
            ("exit 6".to_string(), 1)
        );
    });
}

/// R-L4b: a cancel ends the command and all of its processes, whether requested in the process or by a file.
#[test]
fn a_cancel_ends_a_job() {
    let deaf = "trap '' TERM; (note; exec sleep 60) & (setsid sh -c 'note; sleep 60') & wait; wait";
    let tombstone = SupervisionDir::with_long_deadline();
    let path = tombstone.path("tombstone");
    let watching = CancelToken::with_external_check(move || path.exists()).unwrap();
    let requested = CancelToken::new().unwrap();
    for (cancel, by_file) in [(&requested, false), (&watching, true)] {
        let place = SupervisionDir::with_long_deadline();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| place.run_script(deaf, cancel));
            wait_until("the processes run", || place.recorded_pids().len() == 2);
            let watch = Stopwatch::start();
            if by_file {
                fs::write(tombstone.path("tombstone"), "").unwrap();
            } else {
                cancel.cancel();
            }
            assert_eq!(describe_end(&running.join().unwrap().end), "cancelled");
            assert!(watch.elapsed() < GRACE + SLACK);
            assert_eq!(place.live_pids(), [0_u32; 0]);
        });
    }
    let place = SupervisionDir::with_long_deadline();
    let finished = place.run_script("note; sleep 60", &requested);
    assert_eq!((&*describe_end(&finished.end), place.live_pids().len()), ("cancelled", 0));
}

/// If a command kills its supervisor, its result is unknown, and the command is killed too.
#[test]
fn a_killed_supervisor_takes_its_session_with_it() {
    let place = SupervisionDir::with_long_deadline();
    let script = "(note; exec sleep 60) & note; until [ $(wc -l < notes) = 2 ]; do :; done; kill -9 $PPID; exec sleep 60";
    let finished = place.run_script(script, &CancelToken::new().unwrap());
    assert_eq!(describe_end(&finished.end), "lost");
    wait_until("they are gone", || place.live_pids().is_empty());
}

/// Input of any allowed size is delivered completely, whether or not the hook reads it.
#[test]
fn a_hook_gets_all_of_its_input() {
    let cases: &[(&str, usize, &str)] = &[
        ("cat", 0, ""),
        ("cat; exec cat", 5, "xxxxx"),
        ("cat /dev/stdin; cat /dev/stdin", 5, "xxxxx"),
        ("head -c 3", 5, "xxx"),
        ("wc -c", 65_537, "65537\n"),
        ("wc -c", MAX_INPUT_BYTES, "16777216\n"),
        ("echo unread", 65_537, "unread\n"),
        ("echo unread", MAX_INPUT_BYTES, "unread\n"),
        ("exec <&-; echo closed", MAX_INPUT_BYTES, "closed\n"),
    ];
    let input = vec![b'x'; MAX_INPUT_BYTES + 1];
    let place = SupervisionDir::with_long_deadline();
    for (script, length, output) in cases {
        let finished = place.run_hook(script, &input[..*length]);
        let seen = (describe_end(&finished.end), String::from_utf8(finished.output.head).unwrap());
        assert_eq!(seen, ("exit 0".to_string(), output.to_string()), "{script} {length}");
    }
    let finished = place.run_hook("echo unread", &input);
    assert_eq!(
        describe_end(&finished.end),
        "cannot pass the command 16777217 bytes of input: file too large"
    );
}

/// Both streams are bounded, and a flood on one does not block the other.
#[test]
fn stdout_and_stderr_of_a_hook_are_separate() {
    let flood = "head -c 10000000 /dev/zero | tr '\\0' x";
    let most = [KEPT_OUTPUT.head, KEPT_OUTPUT.tail];
    for (script, output, errors) in [
        ("echo out; echo err >&2; printf more", ([8, 0], 8), ([4, 0], 4)),
        ("", ([0, 0], 0), ([0, 0], 0)),
        (&format!("{flood}; echo err >&2"), (most, 10_000_000), ([4, 0], 4)),
        (&format!("{flood} >&2; echo out"), ([4, 0], 4), (most, 10_000_000)),
        (&format!("{flood} >&2 & {flood}; wait"), (most, 10_000_000), (most, 10_000_000)),
        ("exec >&-; echo err >&2", ([0, 0], 0), ([4, 0], 4)),
    ] {
        let finished = SupervisionDir::with_long_deadline().run_hook(script, b"");
        let seen = [finished.output, finished.stderr]
            .map(|kept| ([kept.head.len(), kept.tail.len()], kept.total));
        assert_eq!(seen, [output, errors], "{script}");
        assert_eq!(
            (&*describe_end(&finished.end), finished.log_outcome),
            ("exit 0", LogOutcome::NotRequested)
        );
    }
    let JobResult { output, stderr: errors, .. } =
        SupervisionDir::with_long_deadline().run_hook("echo out; echo err >&2", b"");
    assert_eq!((&*output.head, &*errors.head), (&b"out\n"[..], &b"err\n"[..]));
}

#[test]
fn leftover_processes_of_a_hook_run_until_dropped() {
    let scripts = [
        // Keeps the pipes, or the input, open.
        "(note; exec sleep 60) & until [ -s notes ]; do :; done; exit 3",
        "(note; exec sleep 60) <&0 & until [ -s notes ]; do :; done; kill -STOP $!; exit 3",
        "setsid sh -c 'note; exec sleep 60' & until [ -s notes ]; do :; done; exit 3",
        "((trap '' TERM HUP; exec <&- >&- 2>&-; note; exec sleep 60) &) & until [ -s notes ]; do :; done; exit 3",
        // Keeps writing.
        "(note; exec yes) & until [ -s notes ]; do :; done; exit 3",
        "(note; exec yes >&2) & until [ -s notes ]; do :; done; exit 3",
    ];
    std::thread::scope(|scope| {
        for script in scripts {
            scope.spawn(move || {
                let place = SupervisionDir::with_long_deadline();
                let finished = place.run_hook(script, b"input");
                let seen =
                    (describe_end(&finished.end), finished.leftover_count, place.live_pids().len());
                assert_eq!(seen, ("exit 3".to_string(), 0, 1), "{script}");
                let remains = finished.spared.unwrap();
                assert!(!remains.have_exited(), "{script}");
                drop(remains);
                assert_eq!(place.live_pids(), [0_u32; 0], "{script}");
            });
        }
    });
}

#[test]
fn leftover_processes_can_write_and_exit() {
    let place = SupervisionDir::with_long_deadline();
    let script = "(note; until [ -e go ]; do sleep 0.01; done; head -c 1000000 /dev/zero; : > written) & \
        echo out; until [ -s notes ]; do :; done";
    let finished = place.run_hook(script, b"");
    let remains = finished.spared.unwrap();
    assert_eq!((&*finished.output.head, remains.have_exited()), (&b"out\n"[..], false));
    fs::write(place.path("go"), "").unwrap();
    wait_until("it is over", || remains.have_exited());
    assert_eq!((place.path("written").exists(), place.live_pids().len()), (true, 0));
}

/// Processes are left running only if the hook ended normally: not after a timeout, a cancel or a killed supervisor.
#[test]
fn no_leftovers_after_a_hook_that_did_not_end_normally() {
    let daemon = "(note; exec sleep 60) & until [ -s notes ]; do :; done";
    let requested = CancelToken::new().unwrap();
    requested.cancel();
    let idle = CancelToken::new().unwrap();
    for (script, cancel, deadline, how) in [
        ("note", &idle, LONG_DEADLINE, "exit 0"),
        ("note & wait; exit 4", &idle, LONG_DEADLINE, "exit 4"),
        ("note; kill -9 $$", &idle, LONG_DEADLINE, "signal 9"),
        (&format!("{daemon}; sleep 60"), &idle, DEADLINE, "timed out"),
        (&format!("{daemon}; sleep 60"), &requested, LONG_DEADLINE, "cancelled"),
        (&format!("{daemon}; kill -9 $PPID; sleep 60"), &idle, LONG_DEADLINE, "lost"),
    ] {
        let place = SupervisionDir { deadline, ..SupervisionDir::new() };
        let watch = Stopwatch::start();
        let finished = place.run_hook_until(script, b"", cancel);
        assert_eq!(describe_end(&finished.end), how, "{script}");
        assert!(finished.spared.is_none(), "{script}");
        assert!(watch.elapsed() < DEADLINE + GRACE + SLACK, "{script}");
        wait_until("they are gone", || place.live_pids().is_empty());
    }
}

/// Processes that outlive their supervisor are still found and killed when they are no longer needed.
#[test]
fn a_leftover_that_kills_its_supervisor_is_still_killed() {
    let place = SupervisionDir::with_long_deadline();
    let script = "(note; until [ -e go ]; do :; done; kill -9 $(cat supervisor); exec sleep 60) & \
        echo $PPID > supervisor; until [ -s notes ]; do :; done";
    let remains = place.run_hook(script, b"").spared.unwrap();
    fs::write(place.path("go"), "").unwrap();
    wait_until("it is over", || remains.have_exited());
    assert_eq!(place.live_pids().len(), 1);
    drop(remains);
    wait_until("it is gone", || place.live_pids().is_empty());
}

#[test]
fn leftover_processes_die_with_ralph() {
    let place = SupervisionDir::new();
    let script = "echo $PPID >> notes; (note; exec sleep 60) & setsid sh -c 'note; sleep 60' & \
        until [ $(wc -l < notes) = 3 ]; do :; done";
    let mut keeper = rerun_as("keeper", &place, script);
    wait_until("it has answered", || place.path("ended").exists());
    assert_eq!(fs::read_to_string(place.path("ended")).unwrap(), "exit 0");
    assert_eq!(place.live_pids().len(), 3);
    signal_group(&keeper, Signal::KILL);
    keeper.wait().unwrap();
    assert_gone(&place);
}

/// A gate that records three pids, one of them its supervisor's. Two processes ignore SIGTERM, and one is in its own
/// session.
const DEAF_SCRIPT: &str = "trap '' TERM; echo $PPID >> notes; (note; exec sleep 60) & setsid sh -c 'note; sleep 60' & wait; wait";

/// R-D3b: when the host kills ralph's process group with SIGKILL, no process of a gate survives.
#[test]
fn jobs_die_with_ralph() {
    let place = SupervisionDir::new();
    let mut runner = rerun_as("runner", &place, DEAF_SCRIPT);
    wait_until("the processes run", || place.recorded_pids().len() == 3);
    signal_group(&runner, Signal::KILL);
    assert_eq!(runner.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    assert_gone(&place);
    assert!(!place.path("ended").exists());
}

#[test]
fn an_inherited_sigchld_disposition_does_not_hide_exits() {
    let place = SupervisionDir::new();
    let program = std::env::current_exe().unwrap();
    let mut deaf = Command::new("python3");
    let script = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); \
        os.execv(sys.argv[1], sys.argv[1:])";
    deaf.args(["-c", script]).arg(program);
    let watch = Stopwatch::start();
    spawn_role(deaf, "runner", &place, "note; cat /proc/$$/status > status; exit 9")
        .wait()
        .unwrap();
    assert_eq!(fs::read_to_string(place.path("ended")).unwrap(), "exit 9");
    assert!(watch.elapsed() < LONG_DEADLINE);
    let status = fs::read_to_string(place.path("status")).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    assert_eq!(ignored & (1 << (Signal::CHILD.as_raw() - 1)), 0);
}

/// R-L11c: after Ctrl-C the gate is gone within two seconds. A second Ctrl-C does not wait for that.
#[test]
fn ctrl_c_cancels_and_a_second_one_exits_at_once() {
    let place = SupervisionDir::new();
    let mut runner = rerun_as("runner", &place, DEAF_SCRIPT);
    wait_until("the processes run", || place.recorded_pids().len() == 3);
    let watch = Stopwatch::start();
    signal_group(&runner, Signal::INT);
    assert!(runner.wait().unwrap().success());
    assert!(watch.elapsed() < Duration::from_secs(2));
    assert_eq!(place.live_pids(), [0_u32; 0]);
    assert_eq!(fs::read_to_string(place.path("ended")).unwrap(), "cancelled");

    let place = SupervisionDir::new();
    let mut runner = rerun_as("runner", &place, DEAF_SCRIPT);
    wait_until("the processes run", || place.recorded_pids().len() == 3);
    let mut status = None;
    wait_until("it ends", || {
        signal_group(&runner, Signal::INT);
        status = runner.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().signal(), Some(Signal::INT.as_raw()));
    assert_gone(&place);
}

/// R-L11c: ESC kills the hook and its group; its worker and the gate are gone within two seconds.
#[test]
fn a_worker_and_its_gate_die_with_the_hook() {
    let place = SupervisionDir::new();
    let mut hook = rerun_as("hook", &place, DEAF_SCRIPT);
    wait_until("the processes run", || place.recorded_pids().len() == 4);
    signal_group(&hook, Signal::KILL);
    hook.wait().unwrap();
    assert_gone(&place);
    assert_eq!(fs::read_to_string(place.path("ended")).unwrap(), "cancelled");
}

#[test]
fn a_released_worker_outlives_its_hook() {
    let place = SupervisionDir::new();
    fs::write(place.path("let-go"), "").unwrap();
    let mut hook = rerun_as("hook", &place, "note; until [ -e go ]; do sleep 0.01; done; exit 8");
    assert!(hook.wait().unwrap().success());
    wait_until("the processes run", || place.recorded_pids().len() == 2);
    signal_group(&hook, Signal::KILL);
    fs::write(place.path("go"), "").unwrap();
    wait_until("it ends", || place.path("ended").exists());
    assert_eq!(fs::read_to_string(place.path("ended")).unwrap(), "exit 8");
    assert_gone(&place);
}

fn assert_gone(place: &SupervisionDir) {
    let bound = Deadline::after(Duration::from_secs(2));
    while !place.live_pids().is_empty() {
        assert!(!bound.has_passed(), "{:?} of {:?}", place.live_pids(), place.recorded_pids());
        std::thread::yield_now();
    }
}

/// Signals the child's process group, if it still exists.
fn signal_group(child: &Child, signal: Signal) {
    kill_process_group(Pid::from_child(child), signal).ok();
}

/// Starts this test binary again in its own process group, as one of the ignored tests below.
fn rerun_as(role: &str, place: &SupervisionDir, script: &str) -> Child {
    spawn_role(Command::new(std::env::current_exe().unwrap()), role, place, script)
}

fn spawn_role(mut command: Command, role: &str, place: &SupervisionDir, script: &str) -> Child {
    command
        .args(role_arguments(role))
        .env("SUPERVISION_PLACE", &place.root)
        .env("SUPERVISION_SCRIPT", script)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

fn role_arguments(role: &str) -> [String; 4] {
    ["--exact", &format!("supervision::as_{role}"), "--ignored", "--quiet"].map(String::from)
}

/// Directory and script for a process started by `rerun_as`. `None` if a person runs all ignored tests.
fn assigned_role() -> Option<(SupervisionDir, String)> {
    let root = PathBuf::from(std::env::var_os("SUPERVISION_PLACE")?);
    let script = std::env::var("SUPERVISION_SCRIPT").unwrap();
    Some((SupervisionDir { root, deadline: LONG_DEADLINE, _temp_dir: None }, script))
}

fn run_and_record(place: &SupervisionDir, script: &str, cancel: &CancelToken) {
    record_end(place, &place.run_script(script, cancel));
}

fn record_end(place: &SupervisionDir, finished: &JobResult) {
    let how = describe_end(&finished.end);
    fs::write(place.path("ended.new"), how).unwrap();
    fs::rename(place.path("ended.new"), place.path("ended")).unwrap();
}

/// A short task can be done before its worker is detached.
#[test]
fn a_worker_that_has_ended_can_be_detached() {
    let program = std::path::Path::new("/bin/true");
    let spec = worker::WorkerSpec { program, arguments: &[], env: &[], log: None };
    let mut worker = worker::spawn_worker(&spec).unwrap();
    assert!(worker.wait(Deadline::after(Duration::from_mins(1))).unwrap().is_some());
    worker.detach().unwrap();
}

#[test]
#[ignore = "a helper process for other tests"]
fn as_runner() {
    let Some((place, script)) = assigned_role() else { return };
    let cancel = Arc::new(CancelToken::new().unwrap());
    signals::cancel_on_stop_signals(&cancel).unwrap();
    run_and_record(&place, &script, &cancel);
}

#[test]
#[ignore = "a helper process for other tests"]
fn as_keeper() {
    let Some((place, script)) = assigned_role() else { return };
    let finished = place.run_hook(&script, b"");
    record_end(&place, &finished);
    std::thread::park_timeout(LONG_DEADLINE);
}

#[test]
#[ignore = "a helper process for other tests"]
fn as_hook() {
    let Some((place, _)) = assigned_role() else { return };
    let program = std::env::current_exe().unwrap();
    let arguments = role_arguments("worker");
    let spec = worker::WorkerSpec {
        program: &program,
        arguments: &arguments.each_ref().map(OsStr::new),
        env: &[],
        log: Some(&place.path("worker.log")),
    };
    let mut worker = worker::spawn_worker(&spec).unwrap();
    if place.path("let-go").exists() {
        assert!(worker.wait(Deadline::after(Duration::ZERO)).unwrap().is_none());
        worker.detach().unwrap();
    } else {
        worker.wait(Deadline::after(Duration::from_mins(1))).unwrap();
    }
}

#[test]
#[ignore = "a helper process for other tests"]
fn as_worker() {
    let Some((place, script)) = assigned_role() else { return };
    let cancel = Arc::new(CancelToken::new().unwrap());
    let _leash = ParentLink::attach(&cancel).unwrap();
    fs::write(place.path("notes"), format!("{}\n", std::process::id())).unwrap();
    run_and_record(&place, &script, &cancel);
}
