//! Projects in which the examples of the documentation run, and a terminal to type them in.

use crate::sandbox::{SESSION, Sandbox, write_file, write_program};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The state of the project in which an example makes sense.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProjectState {
    /// A project with tests and without a policy.
    Fresh,
    /// An approved policy and lists, and no run.
    Ready,
    /// The same, with a run that is held.
    Held,
    /// A run that ended `needs_review`.
    Review,
    /// A run with phases.
    Phases,
    /// A run that `ralph run` parked.
    Parked,
    /// The scenarios and recordings of this repository.
    Checkout,
    /// Nothing but a home directory.
    Empty,
}

/// A home and a project that can be reset to their first state.
pub struct ExampleProject {
    sandbox: Sandbox,
    directory: PathBuf,
    last_code: i32,
    /// Ids of the runs in the order of their start, as the page shows them.
    shown_runs: Vec<String>,
    real_runs: Vec<String>,
    saved_runs: usize,
}

pub struct TypedLine {
    pub code: i32,
    pub output: Vec<String>,
}

/// A session without a run.
const OTHER_SESSION: &str = "0b53ac6e-53a9-4d0e-9c5d-6f1a2c9be1aa";

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const POLICY: &str = r#"[[gate]]
name = "tests"
stage = "correctness"
run = ["sh", "test.sh"]
report = "tap"

[[gate]]
name = "types"
stage = "quality"
run = ["sh", "types.sh"]

[[gate]]
name = "secrets"
stage = "security"
run = ["sh", "types.sh"]

[[pipeline.chunk]]
name = "parser"
gates = ["types"]
"#;

/// Runs every script in `tests` as a test with a name, so that a change can be proved.
const TEST: &str = r#"echo "1..$(ls tests/*.sh | wc -l)"
for test in tests/*.sh; do
  sh "$test" && echo "ok - $test" || { echo "not ok - $test"; failed=1; }
done
exit ${failed:-0}
"#;

const FEATURES: &str = r#"[
  {"id": 1, "description": "Read a file", "steps": ["Open it"], "passes": false},
  {"id": 2, "description": "Write a file", "steps": [], "passes": false, "verify": ["sh", "types.sh"]},
  {"id": 3, "description": "Quote fields", "steps": [], "passes": false},
  {"id": 4, "description": "Export as CSV", "steps": [], "passes": false, "verify": ["sh", "export.sh"]},
  {"id": 5, "description": "Sort by a column", "steps": [], "passes": false, "verify": ["sh", "types.sh"]}
]
"#;

const QUEUE: &str = r#"[[task]]
name = "parser"
goal = "Make the parser handle nested quotes."
"#;

/// The agent's work in every driven run: a line, and a test that fails without it.
const AGENT: &str = r#"name = "an agent that does the work"
only = "pretend"

[[step]]
agent = "I do it."
tools = [
  { write = "main.sh", text = "echo hello\\necho world\\necho bye\\n" },
  { write = "tests/bye.sh", text = "sh main.sh | grep -q bye\\n" },
]

[[step]]
agent = "It is done."
"#;

/// An agent whose provider refuses the first request.
const LIMITED_AGENT: &str = r#"name = "an agent at its rate limit"
only = "pretend"

[[step]]
rate_limit = { status = "rejected", type = "five_hour", resets_in_ms = 60000 }
"#;

const SCENARIO: &str = r#"name = "The agent stops twice."

[files]
".claude/settings.json" = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'

[[step]]
person = "Do it."

[[step]]
agent = "Done."
"#;

/// The hash of a policy and the id of a learning in the help texts.
const SHOWN_HASH: &str = "3f9a1c07d2e4";
const SHOWN_LEARNING: &str = "20261115-133802-how-releases-are-cut";

const STOP_SETTINGS: &[u8] = br#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "sh tests.sh >&2 || { echo '{}'; exit 2; }"}]}]}}"#;

const STOP_HOOK: &str =
    "#!/bin/sh\nsh tests.sh > log 2>&1 && exit 0\ncat log >&2\necho '{}'\nexit 2\n";

impl ExampleProject {
    pub fn new(state: ProjectState, shown_runs: &[&str]) -> Self {
        let sandbox = Sandbox::without_git("home/csv");
        let directory = sandbox.project().to_path_buf();
        let shown_runs = shown_runs.iter().map(ToString::to_string).collect();
        let bin = sandbox.root().join("bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ralph"), bin.join("ralph")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let home = std::env::var("HOME").unwrap_or_default();
        let variable = |name: &str, default: &str| {
            std::env::var(name).unwrap_or_else(|_| format!("{home}/{default}"))
        };
        let sandbox = sandbox
            .env("PATH", &path)
            .env("CARGO_HOME", &variable("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", &variable("RUSTUP_HOME", ".rustup"))
            .env("LC_ALL", "C.UTF-8")
            .env("USER", "user")
            .env("TERM", "dumb")
            .env("NO_COLOR", "1");
        let mut project = Self {
            sandbox,
            directory,
            last_code: 0,
            shown_runs,
            real_runs: Vec::new(),
            saved_runs: 0,
        };
        project.write_state(state);
        project.last_code = 0;
        project.saved_runs = project.real_runs.len();
        project.copy("home", "saved");
        project
    }

    fn write_state(&mut self, state: ProjectState) {
        let sandbox = &self.sandbox;
        write_file(
            &sandbox.home().join(".gitconfig"),
            "[user]\nname = user\nemail = user@example.com\n[init]\ndefaultBranch = main\n",
        );
        self.write_agent();
        match state {
            ProjectState::Empty => return,
            ProjectState::Checkout => {
                for name in ["scenarios", "fixtures"] {
                    let from = PathBuf::from(REPOSITORY).join(name);
                    let copied = Command::new("cp")
                        .arg("-a")
                        .arg(from)
                        .arg(sandbox.project())
                        .status()
                        .unwrap();
                    assert!(copied.success());
                }
                self.write_inputs();
                return;
            }
            ProjectState::Fresh
            | ProjectState::Ready
            | ProjectState::Held
            | ProjectState::Review
            | ProjectState::Phases
            | ProjectState::Parked => {}
        }
        sandbox.git(&["init", "--quiet", "--initial-branch=main"]);
        sandbox.write("Makefile", "test:\n\tsh test.sh\n");
        sandbox.write("test.sh", TEST);
        sandbox.write("types.sh", "exit 0\n");
        sandbox.write("export.sh", "echo nothing was exported\nexit 1\n");
        sandbox.write("main.sh", "echo hello\n");
        sandbox.write("tests/hello.sh", "sh main.sh | grep -q hello\n");
        for path in ["src/lib.rs", "src/parser.rs", "tests/it.rs"] {
            sandbox.write(path, "\n");
        }
        if state != ProjectState::Fresh {
            sandbox.write("ralph.toml", POLICY);
            sandbox.write(".claude/data/ralph-loops/csv/feature_list.json", FEATURES);
        }
        self.write_inputs();
        sandbox.commit();
        if state == ProjectState::Fresh {
            return;
        }
        sandbox.git(&["switch", "--quiet", "--create", "work"]);
        sandbox.write("main.sh", "echo hello\necho world\n");
        sandbox.write("tests/world.sh", "sh main.sh | grep -q world\n");
        sandbox.commit();
        self.type_setup("ralph init --yes --no-gates");
        self.type_setup("ralph trust");
        self.type_setup("ralph trust --features .claude/data/ralph-loops/csv");
        match state {
            ProjectState::Held => {
                self.type_setup(&format!(
                    "ralph start 'make the parser handle nested quotes' --session {SESSION} --features .claude/data/ralph-loops/csv"
                ));
                for text in ["echo hi", "echo hello", "echo world", "echo bye"] {
                    self.sandbox.write("main.sh", format!("{text}\n"));
                    assert!(self.sandbox.send_stop(SESSION, "").is_block());
                }
            }
            ProjectState::Review => {
                self.type_setup(&format!("ralph start 'say less' --session {SESSION}"));
                self.sandbox.write("main.sh", "echo hello\n");
                self.sandbox.write("tests/world.sh", "sh main.sh | grep -qv world\n");
                for _ in 0..2 {
                    self.sandbox.send_stop(SESSION, "");
                }
            }
            ProjectState::Phases => {
                self.type_setup(&format!(
                    "ralph orchestrator start 'implement auth' --session {SESSION}"
                ));
            }
            ProjectState::Parked => {
                let agent = self.sandbox.root().join("agent.toml");
                write_file(&agent, LIMITED_AGENT);
                let typed =
                    self.type_line("ralph run 'make the parser handle nested quotes' --yes", &[]);
                assert_eq!(typed.code, 8, "{}", typed.output.join("\n"));
                write_file(&agent, AGENT);
            }
            ProjectState::Ready => {
                let project = self.sandbox.project().to_str().unwrap();
                let name = project.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
                let path = format!(".claude/projects/{name}/{OTHER_SESSION}.jsonl");
                write_file(
                    &self.sandbox.home().join(path),
                    format!("{{\"cwd\":\"{project}\",\"sessionId\":\"{OTHER_SESSION}\"}}\n"),
                );
            }
            ProjectState::Fresh | ProjectState::Checkout | ProjectState::Empty => {}
        }
    }

    fn write_agent(&self) {
        let (root, ralph) = (self.sandbox.root().display(), env!("CARGO_BIN_EXE_ralph"));
        write_file(&self.sandbox.root().join("agent.toml"), AGENT);
        write_program(
            &self.sandbox.root().join("bin/claude"),
            &format!(
                "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo '2.1.325 (Claude Code)'; exit 0; }}\nexec '{ralph}' lab pretend --scenario '{root}/agent.toml' -- \"$@\"\n"
            ),
        );
    }

    /// The files that examples name.
    fn write_inputs(&self) {
        let recordings = PathBuf::from(REPOSITORY).join("fixtures/hosts/claude-code/2.1.325");
        let stop = fs::read(recordings.join("stdin/Stop.first.json")).unwrap();
        let transcript = fs::read(recordings.join("transcripts/tool-and-stop.jsonl")).unwrap();
        let home = self.sandbox.home();
        let project = self.sandbox.project();
        let files: [(PathBuf, &[u8]); 19] = [
            (project.join("goal.md"), b"Make the parser handle nested quotes.\n\n- [ ] it parses\n"),
            (project.join("features.md"), b"- [ ] Read a file\n- [ ] Export as CSV\n"),
            (project.join("feature_list.json"), FEATURES.as_bytes()),
            (project.join("prd.json"), br#"{"project": "checkout", "userStories": [{"id": "US-1", "title": "Pay", "acceptanceCriteria": ["It pays"], "priority": 1, "passes": false}]}"#),
            (project.join("queue.toml"), QUEUE.as_bytes()),
            (project.join("notes.md"), b"Tag, then push.\n"),
            (project.join("query.sql"), b"SELECT id, status FROM run\n"),
            (project.join("event.json"), &stop),
            (project.join("stop.json"), &stop),
            (project.join("scenario.toml"), SCENARIO.as_bytes()),
            (project.join("a.toml"), AGENT.as_bytes()),
            (project.join("package.json"), br#"{"name": "csv", "scripts": {"lint": "true"}}"#),
            (project.join("services/api/package.json"), br#"{"name": "api", "scripts": {"test": "true"}}"#),
            (project.join(".claude/settings.json"), b"{}\n"),
            (home.join("my-app/app.py"), b"broken\n"),
            (home.join("my-app/.claude/settings.json"), STOP_SETTINGS),
            (home.join("site/index.html"), b"\n"),
            (home.join(".claude/projects/-home-you-app/5999882c.jsonl"), &transcript),
            // The session that examples hold.
            (home.join(format!(".claude/projects/-home-you-app/{SESSION}.jsonl")), b"{}\n"),
        ];
        for (path, text) in files {
            write_file(&path, text);
        }
        for name in ["check-verbose.sh", "e2e.sh", "my-guard.sh"] {
            write_program(&project.join(name), "#!/bin/sh\nexit 0\n");
        }
        write_program(&project.join("my-stop-hook.sh"), STOP_HOOK);
        for name in [".local/share/bash-completion/completions", ".zfunc"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
    }

    fn type_setup(&mut self, line: &str) {
        let typed = self.type_line(line, &[]);
        assert_eq!(typed.code, 0, "{line}\n{}", typed.output.join("\n"));
    }

    fn copy(&self, from: &str, to: &str) {
        let root = self.sandbox.root();
        let copy = root.join("copy");
        // Files of a background process may disappear while they are copied.
        crate::sandbox::eventually(|| {
            let _removed = fs::remove_dir_all(&copy);
            let mut command = Command::new("cp");
            let copied = command.arg("-a").arg(root.join(from)).arg(&copy).output().unwrap();
            copied.status.success().then_some(())
        });
        // A background process may still be writing to the directory.
        crate::sandbox::eventually(|| {
            let _removed = fs::remove_dir_all(root.join(to));
            fs::rename(&copy, root.join(to)).ok()
        });
    }

    pub fn reset(&mut self) {
        self.copy("saved", "home");
        self.directory = self.sandbox.project().to_path_buf();
        self.last_code = 0;
        self.real_runs.truncate(self.saved_runs);
    }

    /// Types a line at a terminal and answers every question with yes, or with Enter if the shown output ends with the
    /// question. A shown `^C` is Ctrl-C, pressed when the line before it appears.
    pub fn type_line(&mut self, line: &str, shown: &[String]) -> TypedLine {
        let (directory, code) = (self.sandbox.root().join("directory"), self.last_code);
        let mut line = self.replace_shown(line);
        // In a pipe there is no progress that only a terminal shows.
        let asks = shown.iter().any(|line| line.contains("[y/N]") || line.contains("[N]"));
        if !shown.is_empty()
            && !asks
            && line.starts_with("ralph ")
            && shown.last().is_some_and(|last| last != "^C")
        {
            line = format!("{{ {line}\n}} < /dev/null 2>&1 | cat");
        }
        let script = format!(
            "cd '{}'; (exit {code}); {line}\ncode=$?; pwd > '{}'; exit $code",
            self.directory.display(),
            directory.display()
        );
        let file = write_file(&self.sandbox.root().join("line.sh"), script);
        let mut command = self.sandbox.tool_command("/usr/bin/script");
        command.args(["--quiet", "--return", "--echo", "never", "--command"]);
        command
            .arg(format!("timeout --foreground 120 bash -o pipefail '{}'", file.display()))
            .arg("/dev/null");
        command.current_dir(self.sandbox.root());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut keyboard = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let interrupted = shown.iter().position(|line| line == "^C");
        let interrupt_after = interrupted.map(|index| mask_line(&shown[index.saturating_sub(1)]));
        let declined = shown.last().is_some_and(|line| is_question(&format!("{line} ")));
        let (mut seen, mut block, mut pressed) = (String::new(), [0; 4096], false);
        loop {
            let count = screen.read(&mut block).unwrap_or(0);
            if count == 0 {
                break;
            }
            seen.push_str(&String::from_utf8_lossy(&block[..count]));
            let last = seen.lines().next_back().unwrap_or_default().to_string();
            if is_question(&last) && !seen.ends_with('\n') {
                let typed =
                    last.rsplit_once("; type ").and_then(|(_, rest)| rest.split(' ').next());
                let answer = typed.unwrap_or(if declined { "" } else { "y" });
                seen.push_str(&format!("{answer}\n"));
                keyboard.write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
            if let Some(before) = &interrupt_after
                && !pressed
                && seen.lines().any(|line| mask_line(&self.replace_real(line)).contains(before))
            {
                keyboard.write_all(b"\x03").unwrap();
                pressed = true;
            }
        }
        self.last_code = child.wait().unwrap().code().unwrap_or(-1);
        let directory = fs::read_to_string(directory).unwrap_or_default();
        self.directory = PathBuf::from(directory.trim());
        self.note_runs();
        let seen = self.replace_real(&seen.replace("\r\n", "\n"));
        let mut output: Vec<_> = without_notes_and_progress(&seen);
        if declined {
            let question = output.iter().position(|line| is_question(&format!("{line} ")));
            output.truncate(question.map_or(output.len(), |index| index.saturating_add(1)));
        }
        TypedLine { code: self.last_code, output }
    }

    fn note_runs(&mut self) {
        let mut started = BTreeMap::new();
        for entry in fs::read_dir(self.sandbox.ralph_home("runs")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let time = entry.metadata().and_then(|data| data.created()).ok();
            if !self.real_runs.contains(&name) {
                started.insert((time, name.clone()), name);
            }
        }
        self.real_runs.extend(started.into_values());
    }

    /// A command line of a page with the real ids and paths.
    fn replace_shown(&self, text: &str) -> String {
        let mut text = text.replace("/home/user", &self.sandbox.home().display().to_string());
        for (shown, real) in self.shown_runs.iter().zip(&self.real_runs) {
            text = text.replace(shown.as_str(), real);
        }
        if text.contains(SHOWN_HASH) {
            let trust = self.sandbox.ralph(["trust", "--json"]);
            let trust: serde_json::Value = serde_json::from_str(&trust.stdout).unwrap();
            text = text.replace(SHOWN_HASH, trust["hash"].as_str().unwrap());
        }
        if text.contains(SHOWN_LEARNING) {
            let files = crate::sandbox::read_files(&self.sandbox.ralph_home("learnings"));
            let learning = files.first().unwrap().0.file_stem().unwrap().to_string_lossy();
            text = text.replace(SHOWN_LEARNING, &learning);
        }
        text
    }

    /// Real output with the ids and paths of the page.
    fn replace_real(&self, text: &str) -> String {
        let mut text = text.replace(&self.sandbox.home().display().to_string(), "/home/user");
        let bin = self.sandbox.root().join("bin").display().to_string();
        text = text.replace(&bin, "/home/user/.cargo/bin");
        text = text.replace(env!("CARGO_BIN_EXE_ralph"), "/home/user/.cargo/bin/ralph");
        let cargo = std::env::var("CARGO_HOME")
            .unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
        text = text.replace(&cargo, "/home/user/.cargo");
        for (shown, real) in self.shown_runs.iter().zip(&self.real_runs) {
            let word = regex::Regex::new(&format!(r"\b{real}\b")).unwrap();
            text = word.replace_all(&text, shown.as_str()).into_owned();
        }
        text
    }
}

fn mask_line(line: &str) -> String {
    crate::example_text::mask_varying(line)
}

/// Leaves out the notes about a program in a build or temporary directory, where only tests have it, and the progress of gates, which
/// a terminal overwrites.
fn without_notes_and_progress(text: &str) -> Vec<String> {
    const LEFT_OUT: [&str; 2] = [
        r"(?m)^(note: |· path +).*it is in a (build|temporary) directory.*\n( +→ install ralph, then `ralph init`\n|\n)?",
        r"(?m)^[✓✗?·] .*  (\d+(\.\d+)? (s|min)|not run)\n",
    ];
    let mut text = text.to_string();
    for pattern in LEFT_OUT {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, "").into_owned();
    }
    text.lines().map(|line| line.trim_end().to_string()).collect()
}

fn is_question(line: &str) -> bool {
    line.ends_with("[y/N] ")
        || line.ends_with(": ") && (line.contains("[N]") || line.contains("; type "))
}
