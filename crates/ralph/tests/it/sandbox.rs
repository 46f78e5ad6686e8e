//! A temporary home and project for running the binary, isolated from the real environment.

use regex::Regex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};
use signal_hook::flag;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub struct Sandbox {
    root: tempfile::TempDir,
    project: PathBuf,
    env: Vec<(String, String)>,
}

/// Exit code and output of a finished command.
pub struct CommandOutcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

pub const SESSION: &str = "5999882c-e786-462c-84d4-07d1c65b5e76";

impl Sandbox {
    /// The project is a clean git repository with one commit.
    pub fn new() -> Self {
        let sandbox = Self::without_git("project");
        sandbox.git(&["init", "--quiet", "--initial-branch=main"]);
        sandbox.write("README.md", "a project\n");
        sandbox.commit();
        sandbox
    }

    /// Without a git repository. `project` is the project's path below the sandbox root.
    pub fn without_git(project: &str) -> Self {
        restore_default_signals();
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join(project);
        fs::create_dir_all(&project).unwrap();
        fs::create_dir_all(root.path().join("home/.claude/projects")).unwrap();
        Self { root, project, env: Vec::new() }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// A path below ralph's own directory.
    pub fn ralph_home(&self, path: &str) -> PathBuf {
        self.home().join(".ralph").join(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        write_file(&self.project.join(path), text)
    }

    pub fn write_state(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        write_file(&self.ralph_home("state").join(path), text)
    }

    pub fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "c"]);
    }

    pub fn git(&self, args: &[&str]) {
        let ended = self.isolate(Command::new("git")).args(args).output().unwrap();
        assert!(ended.status.success(), "git {args:?}: {ended:?}");
    }

    pub fn command(&self) -> Command {
        let mut command = self.isolate(Command::new(env!("CARGO_BIN_EXE_ralph")));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn has_variable(&self, name: &str) -> bool {
        self.env.iter().any(|(known, _)| known == name)
    }

    /// Another program in the project, with the sandbox's environment.
    pub fn tool_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.isolate(Command::new(program));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    fn isolate(&self, mut command: Command) -> Command {
        command.env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.home())
            .env("TZ", "UTC");
        command.current_dir(&self.project);
        command
    }

    pub fn ralph<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> CommandOutcome {
        run_command(self.command().args(args), b"")
    }

    pub fn ralph_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        stdin: &[u8],
    ) -> CommandOutcome {
        run_command(self.command().args(args), stdin)
    }

    /// Runs the command without a controlling terminal, wherever the tests themselves run.
    pub fn ralph_without_terminal(&self, args: &[&str]) -> CommandOutcome {
        let mut command = self.isolate(Command::new("setsid"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.args(["--wait", env!("CARGO_BIN_EXE_ralph")]).args(args);
        run_command(&mut command, b"yes\n")
    }

    /// Runs the command at a terminal, as a person does, and types the word that it asks for. Standard output and error
    /// are files, so only the question is on the terminal.
    pub fn ralph_at_terminal<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> CommandOutcome {
        self.ralph_typing(args, str::to_string).0
    }

    /// As [`Self::ralph_at_terminal`], with another answer. Also returns the terminal's text.
    pub fn ralph_typing<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        answer: impl Fn(&str) -> String,
    ) -> (CommandOutcome, String) {
        let quote = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"));
        let outputs = ["stdout", "stderr"].map(|name| self.root().join(name));
        let mut line = format!("exec {}", quote(env!("CARGO_BIN_EXE_ralph").as_ref()));
        for arg in args {
            line.push_str(&format!(" {}", quote(arg.as_ref())));
        }
        let [out, err] = outputs.each_ref().map(|path| quote(path.as_os_str()));
        line.push_str(&format!(" >{out} 2>{err}"));
        // By its path: some tests search for programs in an empty directory.
        let mut command = self.isolate(Command::new("/usr/bin/script"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Stays open until the end: an end of input would reach the program as Ctrl-D.
        let mut keyboard = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let (mut seen, mut block) = (String::new(), [0; 4096]);
        loop {
            let count = std::io::Read::read(&mut screen, &mut block).unwrap_or(0);
            if count == 0 {
                break;
            }
            seen.push_str(&String::from_utf8_lossy(&block[..count]));
            let asked = seen.split_once("; type ").filter(|(_, asked)| asked.ends_with(": "));
            if let Some((word, _)) = asked.and_then(|(_, asked)| asked.split_once(' ')) {
                keyboard.write_all(format!("{}\n", answer(word)).as_bytes()).unwrap();
            }
        }
        let code = child.wait().unwrap().code();
        let [stdout, stderr] = outputs.map(|path| fs::read_to_string(path).unwrap());
        (CommandOutcome { code, stdout, stderr }, seen)
    }

    /// Runs the command with everything at a terminal, and types each answer when its question appears. Returns the
    /// exit code and the text of the terminal.
    pub fn ralph_answering<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        answers: &[(&str, &str)],
    ) -> (Option<i32>, String) {
        let quote = |word: &OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\\''"));
        let mut line = format!("exec {}", quote(env!("CARGO_BIN_EXE_ralph").as_ref()));
        for arg in args {
            line.push_str(&format!(" {}", quote(arg.as_ref())));
        }
        let mut command = self.isolate(Command::new("/usr/bin/script"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        // Without a cursor that can be moved there is no line that is redrawn.
        command.env("TERM", "dumb").env("NO_COLOR", "1");
        command.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut keyboard = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let (mut seen, mut block, mut left) = (Vec::new(), [0; 4096], answers.iter().peekable());
        loop {
            let count = std::io::Read::read(&mut screen, &mut block).unwrap_or(0);
            if count == 0 {
                break;
            }
            seen.extend_from_slice(&block[..count]);
            let text = String::from_utf8_lossy(&seen);
            if let Some((_, answer)) = left.next_if(|(question, _)| text.ends_with(question)) {
                std::io::Write::write_all(&mut keyboard, format!("{answer}\n").as_bytes()).unwrap();
            }
        }
        let code = child.wait().unwrap().code();
        (code, String::from_utf8_lossy(&seen).replace("\r\n", "\n"))
    }

    pub fn run_hook(&self, stdin: impl AsRef<[u8]>) -> CommandOutcome {
        self.ralph_with_input(["hook", "claude"], stdin.as_ref())
    }

    /// Sends a Stop event of the session in the project, with `more` fields (`,"a":1`).
    pub fn send_stop(&self, session: &str, more: &str) -> CommandOutcome {
        self.run_hook(self.stop_event(session, more))
    }

    pub fn stop_event(&self, session: &str, more: &str) -> String {
        let cwd = json_string(&self.project.display().to_string());
        format!(
            r#"{{"session_id":{},"hook_event_name":"Stop","cwd":{cwd}{more}}}"#,
            json_string(session)
        )
    }

    /// Starts a run for `SESSION` and returns its id.
    pub fn start_run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        self.start_run_for(SESSION, args)
    }

    pub fn start_run_for<S: AsRef<OsStr>>(
        &self,
        session: &str,
        args: impl IntoIterator<Item = S>,
    ) -> String {
        let mut command = self.command();
        command.args(["start", "--json", "--yes", "--session", session]).args(args);
        let ended = run_command(&mut command, b"make it work\n");
        assert_eq!(ended.code, Some(0), "{ended}");
        let started: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        started["run"].as_str().unwrap().to_string()
    }

    /// Approves the current policy, as a person would.
    pub fn approve_policy(&self) {
        let shown = self.ralph(["trust", "--json"]);
        let shown: serde_json::Value =
            serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown}"));
        let ended = self.ralph_at_terminal(["trust", "--hash", shown["hash"].as_str().unwrap()]);
        assert_eq!(ended.code, Some(0), "{ended}");
    }

    /// Approves the loop `current` of the project, as a person would, so that it may hold a session.
    pub fn approve_loop(&self) {
        let shown = self.ralph(["trust", "--json"]);
        let shown: serde_json::Value =
            serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown}"));
        let of_loop = |one: &&serde_json::Value| {
            one["called"][0]["name"].as_str().is_some_and(|name| name.starts_with("loop "))
        };
        let question = shown["lists"].as_array().unwrap().iter().find(of_loop).unwrap();
        let ended = self.ralph_at_terminal(["trust", "--hash", question["hash"].as_str().unwrap()]);
        assert_eq!(ended.code, Some(0), "{ended}");
    }

    pub fn status(&self) -> serde_json::Value {
        let ended = self.ralph(["status", "--all", "--json"]);
        assert_eq!(ended.code, Some(0), "{ended}");
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// Status and iteration of the run with this id.
    pub fn run_status(&self, run: &str) -> (String, u64) {
        let status = self.status();
        let runs = status["runs"].as_array().unwrap();
        let run = runs.iter().find(|one| one["run"] == run).expect("the run is listed");
        let status = match run["status"].as_str().unwrap() {
            "working" => run["last_stop"].as_str().unwrap_or("armed"),
            status => status,
        };
        (status.to_string(), run["iteration"].as_u64().unwrap())
    }

    /// The rules that fired, oldest first.
    pub fn fired_rules(&self, name: &str) -> Vec<String> {
        let ended = self.ralph(["why", name, "--json", "--last", "1000000"]);
        assert_eq!(ended.code, Some(0), "{ended}");
        let mut rules: Vec<_> = ended
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .map(|decision| decision["rule"].as_str().unwrap().to_string())
            .collect();
        rules.reverse();
        rules
    }

    /// The files in ralph's home without those that the measurement of a base writes in the background.
    pub fn read_state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        const VOLATILE: [&str; 9] = [
            "base-checks.json",
            "cache",
            "gates.log",
            "key",
            "measuring",
            "proofs",
            "scratch",
            "shadow.git",
            "worker.log",
        ];
        let is_volatile = |path: &Path| {
            VOLATILE.iter().any(|name| path.components().any(|part| part.as_os_str() == *name))
        };
        self.read_home().into_iter().filter(|(path, _)| !is_volatile(path)).collect()
    }

    /// Paths and contents of all files below ralph's home.
    pub fn read_home(&self) -> Vec<(PathBuf, Vec<u8>)> {
        read_files(&self.ralph_home(""))
    }

    /// Replaces everything in `text` that differs from one test run to the next.
    pub fn normalize(&self, text: &str) -> String {
        let mut text = text.replace(&self.root().display().to_string(), "$ROOT");
        let mut runs: Vec<_> = fs::read_dir(self.ralph_home("runs"))
            .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
            .unwrap_or_default();
        runs.sort();
        for run in runs {
            // Whole words only, also after a colour: a random id can be part of a word, as `dget` is of `budget`.
            let id = regex::escape(&run.to_string_lossy());
            let word = Regex::new(&format!(r"(\x1b\[[0-9;]*m|\b){id}\b")).unwrap();
            text = word.replace_all(&text, "$1[run]").into_owned();
        }
        let text = mask_hex(&mask_hex(&mask_hex(&text, "┌ ", 8), "└ ", 8), "state ", 7);
        text.lines().map(mask_log_key).collect::<Vec<_>>().join("\n")
    }
}

/// Masks the part of a gate's log name that comes from the result key.
fn mask_log_key(line: &str) -> String {
    match (line.split_once(".ralph/cache/logs/"), line.strip_suffix(".log`")) {
        (Some((before, _)), Some(whole)) => {
            let name = whole.rsplit('/').next().unwrap_or_default();
            let name = name.get(..name.len().saturating_sub(12)).unwrap_or_default();
            format!("{before}.ralph/cache/logs/{name}[key].log`")
        }
        _ => line.to_string(),
    }
}

/// Masks hexadecimal digits right after `before`.
fn mask_hex(text: &str, before: &str, digits: usize) -> String {
    let mut parts = text.split(before);
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        out.push_str(before);
        match part.get(..digits) {
            Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                out.push_str(&"0".repeat(digits));
                out.push_str(&part[digits..]);
            }
            _ => out.push_str(part),
        }
    }
    out
}

/// Polls `look` until it returns a value. Panics after 30 seconds.
pub fn eventually<T>(look: impl Fn() -> Option<T>) -> T {
    let bound = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(std::time::Instant::now() < bound, "no result within 30 seconds");
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
}

/// Whether a test has to be skipped, because the machine lacks a tool that is not required.
pub fn is_tool_missing(tool: &str) -> bool {
    let is_found = ["/usr/bin", "/bin", "/usr/local/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(tool).exists());
    let is_required = std::env::var_os("RALPH_REQUIRE_TOOLS").is_some();
    assert!(is_found || !is_required, "{tool} is not installed");
    !is_found
}

/// A shell that starts `cargo test &` makes all its processes ignore the signals that tests send. A child of a process
/// with a handler starts with the default action instead.
fn restore_default_signals() {
    static RESTORED: std::sync::Once = std::sync::Once::new();
    RESTORED.call_once(|| {
        for signal in [SIGHUP, SIGINT, SIGQUIT] {
            let always = Arc::new(AtomicBool::new(true));
            flag::register_conditional_default(signal, always).unwrap();
        }
    });
}

pub fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

pub fn read_files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => waiting.push(entry.path()),
                kind if kind.is_file() => {
                    found.push((entry.path(), fs::read(entry.path()).unwrap()));
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

pub fn write_file(path: &Path, text: impl AsRef<[u8]>) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    path.to_path_buf()
}

/// Creates a file that can be executed immediately. A child process writes it: if this process had it open for writing,
/// a child started by another test could inherit the descriptor, and executing the file would fail with `ETXTBSY`.
pub fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "rm -f \"$0\" && cat > \"$0\" && chmod 755 \"$0\""]).arg(path);
    let ended = run_command(&mut command, text.as_bytes());
    assert_eq!(ended.code, Some(0), "{ended}");
}

pub fn spawn_with_input(command: &mut Command, stdin: &[u8]) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A child may answer and exit before it has read all of its input, so a broken pipe is not an error.
    child.stdin.take().unwrap().write_all(stdin).ok();
    child
}

pub fn run_command(command: &mut Command, stdin: &[u8]) -> CommandOutcome {
    spawn_with_input(command, stdin).wait_with_output().unwrap().into()
}

impl From<std::process::Output> for CommandOutcome {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl CommandOutcome {
    pub fn is_allow(&self) -> bool {
        (self.code, &*self.stdout, &*self.stderr) == (Some(0), "", "")
    }

    pub fn is_block(&self) -> bool {
        (self.code, &*self.stdout) == (Some(2), "{}") && !self.stderr.is_empty()
    }

    /// The message that the client shows to the person when a run ends.
    pub fn notice(&self) -> String {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""), "{self}");
        let answer: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        answer["systemMessage"].as_str().unwrap().to_string()
    }
}

impl fmt::Display for CommandOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map_or("killed".to_string(), |code| code.to_string());
        writeln!(f, "exit {code}")?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{text}")?;
            }
        }
        Ok(())
    }
}

/// The policy without a proof, for tests about something else that count how often gates run or have a gate that always
/// passes.
pub fn without_proof(policy: &str) -> String {
    if policy.contains("[verify]\n") {
        policy.replace("[verify]\n", "[verify]\nproof = \"off\"\n")
    } else {
        format!("{policy}\n[verify]\nproof = \"off\"\n")
    }
}
