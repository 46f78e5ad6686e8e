//! System calls of a stop in a session without a run. Each additional call is a cost for every stop of every session.

use crate::sandbox::{SESSION, Sandbox, is_tool_missing, run_command};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

const TRACED: &str = "trace=%file,%process,%network";
const STOP_EVENT_FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/hosts/claude-code/2.1.325/stdin/Stop.first.json"
);

/// R-U1a: a session without a run costs three file lookups, and no child, thread, socket or output.
#[test]
fn a_stop_without_a_run_looks_up_four_files() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    for directory in ["home/.ralph/sessions", "home/.ralph/state", "project"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let calls = match trace_stop(&root) {
        Ok(calls) => calls,
        Err(error) if std::env::var_os("RALPH_REQUIRE_TOOLS").is_none() => {
            println!("skipped: strace does not start: {error}");
            return;
        }
        Err(error) => panic!("strace does not start: {error}"),
    };
    let forbidden =
        ["clone", "clone3", "fork", "vfork", "socket", "socketpair", "connect", "sendto", "bind"];
    for call in &calls {
        assert!(!forbidden.contains(&call.name.as_str()), "{call:?}");
    }
    let (runtime, own): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.is_runtime_call());
    assert!(runtime.len() <= 4, "{runtime:?}");
    let own: Vec<_> = own.iter().map(|call| call.render(&root)).collect();
    insta::assert_snapshot!(own.join("\n"), @r"
    execve ralph = 0
    openat $HOME/.ralph/sessions/5999882c-e786-462c-84d4-07d1c65b5e76 = ENOENT
    access $PROJECT/.claude/data/ralph-loops/current/feature_list.json = ENOENT
    access $HOME/.ralph/state/5999882c-e786-462c-84d4-07d1c65b5e76 = ENOENT
    openat $HOME/.ralph/session-notes/5999882c-e786-462c-84d4-07d1c65b5e76 = ENOENT
    exit_group = ?
    ");
}

/// What a stop that blocks looks up in ralph's home, in order. It asks for the number of processors only to read the work
/// tree.
#[test]
fn a_stop_that_blocks_looks_up_few_files_of_its_run() {
    let sandbox = Sandbox::new();
    let run = sandbox.start_run(["--goal-file", "-"]);
    assert!(sandbox.send_stop(SESSION, "").is_block());
    let log = sandbox.root().join("trace");
    let mut strace = sandbox.tool_command("strace");
    strace.args(["-f", "-qq", "-s", "4096", "-e", TRACED, "-e", "signal=none", "-o"]).arg(&log);
    strace.args([env!("CARGO_BIN_EXE_ralph"), "hook", "claude"]);
    if is_tool_missing("strace") {
        return;
    }
    let more = r#","prompt_id":"p2","last_assistant_message":"again""#;
    let stop = run_command(&mut strace, sandbox.stop_event(SESSION, more).as_bytes());
    assert!(stop.is_block(), "{stop}");
    let log = fs::read_to_string(&log).unwrap();
    let calls = log.lines().filter_map(TracedCall::parse).filter(|call| !call.is_runtime_call());
    let calls: Vec<_> = calls.map(|call| call.render(sandbox.root())).collect();
    let quota =
        calls.iter().filter(|call| call.contains("cpu.cfs_quota_us") || call.contains("cpu.max"));
    assert!(quota.count() <= 1, "{calls:#?}");
    // The work tree is read meanwhile.
    let is_own = |call: &&String| call.contains("$HOME/.ralph/") && !call.contains("/cache/");
    let own: Vec<_> = calls.iter().filter(is_own).cloned().collect();
    let own = own.join("\n").replace(&run, "RUN").replace(SESSION, "SESSION");
    insta::assert_snapshot!(own, @r"
    openat $HOME/.ralph/sessions/SESSION = 3
    openat $HOME/.ralph/heard/RUN = 3
    openat $HOME/.ralph/runs/RUN/run.json = 3
    openat $HOME/.ralph/runs/RUN/state.json = 3
    openat $HOME/.ralph/runs/RUN/count = 3
    openat $HOME/.ralph/runs/RUN/journal.jsonl = 3
    access $HOME/.ralph/cancelled/RUN = ENOENT
    access $HOME/.ralph/off = ENOENT
    openat $HOME/.ralph/runs/RUN/goal.txt = 3
    access $HOME/.ralph/state/SESSION = 0
    openat $HOME/.ralph/state/SESSION/orchestrator.json = ENOENT
    openat $HOME/.ralph/state/SESSION/loop.json = 3
    openat $HOME/.ralph/state/SESSION/quality-gate.json = ENOENT
    access $HOME/.ralph/state/SESSION/tasks = ENOENT
    openat $HOME/.ralph/runs/RUN/lock = 3
    statx $HOME/.ralph/runs/RUN/journal.jsonl = 0
    access $HOME/.ralph/cancelled/RUN = ENOENT
    access $HOME/.ralph/off = ENOENT
    openat $HOME/.ralph/runs/RUN/goal.txt = 4
    openat $HOME/.ralph/runs/RUN/journal.jsonl = 4
    openat $HOME/.ralph/runs/RUN/count = 4
    openat $HOME/.ralph/state/SESSION/loop.json = 3
    mkdir $HOME/.ralph/state/SESSION = EEXIST
    statx $HOME/.ralph/state/SESSION = 0
    openat $HOME/.ralph/state/SESSION/loop.json = 3
    ");
}

fn trace_stop(root: &Path) -> io::Result<Vec<TracedCall>> {
    let log = root.join("trace");
    let home = root.join("home");
    let ran = Command::new("strace")
        .args(["-f", "-qq", "-s", "4096", "-e", TRACED, "-e", "signal=none", "-o"])
        .arg(&log)
        .args([env!("CARGO_BIN_EXE_ralph"), "hook", "claude"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", &home)
        .env("CLAUDE_PROJECT_DIR", root.join("project"))
        .stdin(Stdio::from(File::open(STOP_EVENT_FILE).unwrap()))
        .output()?;
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), &*ran.stdout, &*stderr), (Some(0), &b""[..], ""));
    let log = fs::read_to_string(&log).unwrap();
    Ok(log.lines().filter_map(TracedCall::parse).collect())
}

#[derive(Debug)]
struct TracedCall {
    name: String,
    path: Option<String>,
    result: String,
}

impl TracedCall {
    /// From `1234 openat(AT_FDCWD, "/path", O_RDONLY) = -1 ENOENT (No such file or directory)`.
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim_start_matches(|char: char| char.is_ascii_digit() || char == ' ');
        let (call, result) = line.rsplit_once(" = ")?;
        let (name, arguments) = call.split_once('(')?;
        let mut result = result.split_whitespace();
        let value = result.next()?;
        Some(Self {
            name: name.to_owned(),
            path: arguments.split('"').nth(1).map(str::to_owned),
            result: if value == "-1" { result.next()?.to_owned() } else { value.to_owned() },
        })
    }

    /// Before `main`, the C library and the standard library inspect the process itself, and probe `statx` once without
    /// a path to see whether the kernel supports it. An empty path refers to a file that is already open.
    fn is_runtime_call(&self) -> bool {
        let is_about_itself = self
            .path
            .as_ref()
            .is_some_and(|path| path.is_empty() || path.starts_with("/proc/self/"));
        let is_probe = self.name == "statx" && self.path.is_none() && self.result == "EFAULT";
        is_about_itself || is_probe || self.name == "arch_prctl"
    }

    fn render(&self, root: &Path) -> String {
        let Self { name, path, result } = self;
        let Some(path) = path else {
            return format!("{name} = {result}");
        };
        let root = root.to_string_lossy();
        let path = path.replace(env!("CARGO_BIN_EXE_ralph"), "ralph");
        let path = path.replace(&format!("{root}/home"), "$HOME");
        let path = path.replace(&format!("{root}/project"), "$PROJECT");
        format!("{name} {path} = {result}")
    }
}
