//! The adversary's table: what agents do instead of the work, beside honest work, each judged by `ralph prove`, in a
//! session that a Stop hook holds, and under `ralph run`. The cases are data in `tests/cheats`, whose README describes
//! their form; the results are in `docs/design/cheats.md`.
//!
//! `cargo test` proves a share of each table and compares it with the recorded results. `cargo xtask cheats` plays
//! everything, and writes the record.

use crate::real_projects::{
    install_bats, install_go_toolchain, install_python_packages, install_test_runners,
    pass_variables,
};
use crate::sandbox::{SESSION, Sandbox, run_command, write_file, write_program};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cheats");
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/design/cheats.md");
const ECOSYSTEMS: [&str; 12] = [
    "pytest",
    "unittest",
    "node",
    "mocha",
    "jest",
    "vitest",
    "cargo",
    "go",
    "shell",
    "bats",
    "environment",
    "control",
];
/// A stop without proof is held once. A run that is held more often waits for other work.
const MAX_STOPS: usize = 3;
/// The status in a mode in which a case was not played.
const UNPLAYED: &str = "–";
const GOAL: &str = "Do what the case describes.";
const SCENARIO: &str = "name = \"an agent\"\nonly = \"pretend\"\n\n[[step]]\nagent = \"Done.\"\n";
/// Lets the agent's shell run a command without a question.
const SKIP_PERMISSIONS: [&str; 4] =
    ["--allow-skip-permissions", "--", "--permission-mode", "bypassPermissions"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheatTable {
    /// Whether the cases are about runs only, so that there is nothing to prove by hand.
    #[serde(default)]
    needs_run: bool,
    /// Packages that are linked into the project: `python`, `node`, `bats` or `go`.
    install: Option<String>,
    /// Run by a shell in the project before its first commit.
    setup: Option<String>,
    base: BTreeMap<String, String>,
    #[serde(default)]
    overlay: BTreeMap<String, BTreeMap<String, String>>,
    case: Vec<CheatCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheatCase {
    name: String,
    /// The status that honest work deserves. Absent for a cheat.
    deserves: Option<String>,
    /// The kind of a cheat that no run of tests can show. Only such a cheat may end `verified`.
    admitted: Option<String>,
    /// Whether only a run can show it, because it knows the state of the machine before the change.
    #[serde(default)]
    needs_run: bool,
    /// Whether the person approves the scripts of gates that the agent edited, once its stop is held for them.
    #[serde(default)]
    approve: bool,
    /// Further options of the person who starts the run.
    #[serde(default)]
    args: Vec<String>,
    /// Whether the base of the table is the agent's work too, all but the policy and `.gitignore`.
    #[serde(default)]
    greenfield: bool,
    /// The directory of the project in its repository. Paths of the base may begin with `../`.
    #[serde(default)]
    directory: String,
    /// Overlays that are part of the base.
    #[serde(default)]
    base: Vec<String>,
    /// Overlays, files, replacements in files (path, old, new), deletions and a shell script, in this order.
    #[serde(default)]
    apply: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    edit: Vec<[String; 3]>,
    #[serde(default)]
    delete: Vec<String>,
    #[serde(default)]
    run: String,
    /// A shell script that the agent runs once its first stop is held.
    #[serde(default)]
    held: String,
    /// A shell script of a process that the agent left behind, for the time after the end of the run.
    #[serde(default)]
    later: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PlayMode {
    /// `ralph prove` by a person, after the change.
    Prove,
    /// A session that a Stop hook holds.
    Hook,
    /// `ralph run` with a scripted agent.
    Run,
}

impl PlayMode {
    const ALL: [Self; 3] = [Self::Prove, Self::Hook, Self::Run];

    fn name(self) -> &'static str {
        match self {
            Self::Prove => "prove",
            Self::Hook => "hook",
            Self::Run => "run",
        }
    }
}

/// A case and the status with which it ended in each mode.
struct CaseResult<'a> {
    ecosystem: &'a str,
    case: &'a CheatCase,
    statuses: [String; 3],
}

fn read_table(ecosystem: &str) -> CheatTable {
    let text = fs::read_to_string(Path::new(TABLES).join(format!("{ecosystem}.toml"))).unwrap();
    toml::from_str(&text).unwrap_or_else(|error| panic!("{ecosystem}: {error}"))
}

/// The text of a file in a table, which may begin on the line after its quotes.
fn file_text(text: &str) -> &str {
    text.strip_prefix('\n').unwrap_or(text)
}

fn write_case_file(directory: &Path, path: &str, text: &str) {
    let text = file_text(text);
    if text.starts_with("#!") {
        write_program(&directory.join(path), text);
    } else {
        write_file(&directory.join(path), text);
    }
}

/// A directory with packages, and where the project has it.
struct PackageLink {
    installed: PathBuf,
    name: &'static str,
}

/// The packages that a table needs; `None` if they cannot be installed here.
fn install_packages(table: &CheatTable) -> Option<Vec<PackageLink>> {
    let (installed, name) = match table.install.as_deref() {
        Some("python") => (install_python_packages()?, ".venv"),
        Some("go") => (install_go_toolchain()?, ".go"),
        Some("bats") => (install_bats()?.join("node_modules"), "node_modules"),
        Some("node") => (install_test_runners()?.join("node_modules"), "node_modules"),
        Some(other) => panic!("unknown packages `{other}`"),
        None => return Some(Vec::new()),
    };
    Some(vec![PackageLink { installed, name }])
}

impl CheatTable {
    /// A project as the case finds it, committed, with an approved policy.
    fn project(&self, case: &CheatCase, packages: &[PackageLink]) -> Sandbox {
        let project = Path::new("project").join(&case.directory);
        let sandbox = pass_variables(Sandbox::without_git(project.to_str().unwrap()));
        let home = std::env::home_dir().unwrap();
        let homes = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];
        let sandbox = homes.into_iter().fold(sandbox, |sandbox, (name, below)| {
            sandbox.env(name, home.join(below).to_str().unwrap())
        });
        let repository = sandbox.root().join("project");
        let repository = repository.to_str().unwrap();
        sandbox.git(&["init", "--quiet", "--initial-branch=main", repository]);
        write_file(&sandbox.project().join("README.md"), "a project\n");
        let base = self.base.iter().filter(|(path, _)| !case.greenfield || is_policy(path));
        for (path, text) in base.chain(self.overlays(&case.base)) {
            write_case_file(sandbox.project(), path, text);
        }
        let sandbox = packages.iter().fold(sandbox, |sandbox, link| {
            symlink(&link.installed, sandbox.project().join(link.name)).unwrap();
            // Otherwise every case would compile the standard library of go.
            sandbox.env("GOCACHE", link.installed.join("cache").to_str().unwrap())
        });
        if let Some(setup) = &self.setup {
            shell(&sandbox, setup);
        }
        sandbox.commit();
        sandbox.approve_policy();
        sandbox
    }

    fn overlays<'a>(
        &'a self,
        names: &'a [String],
    ) -> impl Iterator<Item = (&'a String, &'a String)> {
        names.iter().flat_map(|name| &self.overlay[name])
    }

    /// The files that the agent writes.
    fn written_files(&self, case: &CheatCase) -> BTreeMap<String, String> {
        let begun = self.base.iter().filter(|(path, _)| case.greenfield && !is_policy(path));
        let mut written: BTreeMap<String, String> = begun
            .chain(self.overlays(&case.apply))
            .chain(&case.files)
            .map(|(path, text)| (path.clone(), file_text(text).to_string()))
            .collect();
        for [path, old, new] in &case.edit {
            let known = || self.overlays(&case.base).filter(|(known, _)| *known == path).last();
            let before = written.get(path).cloned().unwrap_or_else(|| {
                let text = known().map_or_else(|| &self.base[path], |(_, text)| text);
                file_text(text).to_string()
            });
            assert!(before.contains(old), "{}: `{old}` is not in {path}", case.name);
            written.insert(path.clone(), before.replace(old, new));
        }
        written
    }
}

/// The files that a person writes before there is a project. Linked packages must not be part of it.
fn is_policy(path: &str) -> bool {
    matches!(path, "ralph.toml" | ".gitignore")
}

fn shell(sandbox: &Sandbox, script: &str) {
    let mut command = sandbox.tool_command("sh");
    let ended = run_command(command.args(["-ec", script]), b"");
    assert_eq!(ended.code, Some(0), "{script}: {ended}");
}

/// The programs of the agent. They are outside of the project.
struct AgentPrograms {
    work: PathBuf,
    held: PathBuf,
    later: PathBuf,
    /// What ralph printed on standard error when the agent called it.
    errors: PathBuf,
}

/// Writes a program that does the agent's work, but only once, and one for the time after the run.
fn write_agent_programs(sandbox: &Sandbox, table: &CheatTable, case: &CheatCase) -> AgentPrograms {
    let directory = sandbox.root().join("agent-files");
    fs::create_dir_all(&directory).unwrap();
    for (path, text) in table.written_files(case) {
        write_case_file(&directory, &path, &text);
    }
    let (programs, errors) = (sandbox.root().join("agent-bin"), sandbox.root().join("errors"));
    let script = format!(
        "#!/bin/sh\n{} \"$@\" 2> '{errors}'.$$\ncode=$?\ncat '{errors}'.$$ >> '{errors}'\ncat '{errors}'.$$ >&2\nexit $code\n",
        env!("CARGO_BIN_EXE_ralph"),
        errors = errors.display()
    );
    write_program(&programs.join("ralph"), &script);
    let start = format!("#!/bin/sh\nPATH={}:$PATH\n", programs.display());
    let mut script = start.clone();
    writeln!(script, "mkdir \"$0.done\" || exit 0\ncp -R {}/. .", directory.display()).unwrap();
    for path in &case.delete {
        writeln!(script, "rm {path}").unwrap();
    }
    script.push_str(&case.run);
    script.push('\n');
    let [work, held, later] =
        ["agent-work", "agent-held", "agent-later"].map(|name| sandbox.root().join(name));
    write_program(&work, &script);
    write_program(&held, &format!("{start}{}\n", case.held));
    write_program(&later, &format!("{start}{}\n", case.later));
    AgentPrograms { work, held, later, errors }
}

impl AgentPrograms {
    /// A command with wrong arguments fails in every case, so it would prove no protection.
    fn assert_understood(&self, case: &CheatCase) {
        const MISUSE: [&str; 8] = [
            "error: unknown ",
            "` is missing",
            "` needs a value",
            "` takes no value",
            "` cannot be `",
            "` cannot be used together",
            "error: no run given",
            "error: no session given",
        ];
        let errors = fs::read_to_string(&self.errors).unwrap_or_default();
        let is_misused = errors
            .lines()
            .filter(|line| line.starts_with("error: "))
            .any(|line| MISUSE.iter().any(|misuse| line.contains(misuse)));
        assert!(!is_misused, "{}: wrong arguments:\n{errors}", case.name);
    }

    /// Runs a process that the agent left behind, with the variables of both its client and the runner.
    fn run_later(&self, sandbox: &Sandbox) {
        let mut later = sandbox.tool_command(&self.later);
        later.env("CLAUDECODE", "1").env("RALPH_DRIVEN", "1");
        run_command(&mut later, b"");
    }
}

fn play_hook(sandbox: &Sandbox, programs: &AgentPrograms, case: &CheatCase) -> String {
    let args = ["--goal-file", "-"].into_iter().chain(case.args.iter().map(String::as_str));
    let run = sandbox.start_run(args);
    let act = |program: &Path| {
        let mut agent = sandbox.tool_command(program);
        agent.env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", SESSION);
        run_command(&mut agent, b"");
    };
    act(&programs.work);
    let mut proof_holds = 0;
    for stops in 0..MAX_STOPS {
        if stops == 1 && !case.held.is_empty() {
            act(&programs.held);
        }
        let stop = sandbox.send_stop(SESSION, "");
        proof_holds += usize::from(stop.stderr.contains("✗ proof"));
        assert!(proof_holds <= 1, "{}: held twice for its proof: {stop}", case.name);
        if stop.code != Some(2) {
            return match status_of(sandbox, Some(&run)).as_deref() {
                Some("working") => "let go".to_string(),
                Some(status) => status.to_string(),
                None => "lost".to_string(),
            };
        }
        if case.approve {
            sandbox.approve_policy();
        }
    }
    "held".to_string()
}

/// The steps after a held stop: the agent runs a command in its shell, and stops again.
fn act_when_held(command: &str) -> String {
    format!(
        "\n[[step]]\nagent = \"Once more.\"\ntools = [{{ run = \"{command}\" }}]\n\n[[step]]\nagent = \"Done.\"\n"
    )
}

fn play_run(sandbox: &Sandbox, programs: &AgentPrograms, case: &CheatCase) -> String {
    let steps = match (case.approve, case.held.is_empty()) {
        (true, _) => format!("{SCENARIO}{}", act_when_held("read -r line < ../approval")),
        (false, false) => format!("{SCENARIO}{}", act_when_held(programs.held.to_str().unwrap())),
        (false, true) => SCENARIO.to_string(),
    };
    let scenario = write_file(&sandbox.root().join("scenario.toml"), &steps);
    let position = sandbox.root().join("position.json");
    let agent = sandbox.root().join("agent");
    let ralph = env!("CARGO_BIN_EXE_ralph");
    let script = format!(
        "#!/bin/sh\n{} < /dev/null > /dev/null 2>&1\nexec {ralph} pretend --scenario {} --position {} -- \"$@\"\n",
        programs.work.display(),
        scenario.display(),
        position.display()
    );
    write_program(&agent, &script);
    let mut command = sandbox.command();
    command.args(["run", "--json", "--max-iterations", "3", "--agent-program"]).arg(&agent);
    command.arg(GOAL).args(&case.args);
    if steps != SCENARIO {
        command.args(SKIP_PERMISSIONS);
    }
    let output = if case.approve {
        approve_during_run(sandbox, &mut command)
    } else {
        run_command(&mut command, b"").to_string()
    };
    assert!(output.contains("\"event\":\"session\""), "{}: {output}", case.name);
    let is_proof_hold =
        |line: &&str| line.contains("\"event\":\"held\"") && line.contains("✗ proof");
    let proof_holds = output.lines().filter(is_proof_hold).count();
    assert!(proof_holds <= 1, "{}: held twice for its proof: {output}", case.name);
    status_of(sandbox, None).unwrap_or_else(|| "lost".to_string())
}

/// Approves the edited scripts at the first held stop, while the agent waits. Returns the events of the run.
fn approve_during_run(sandbox: &Sandbox, command: &mut Command) -> String {
    let pipe = sandbox.root().join("approval");
    let made = run_command(sandbox.tool_command("mkfifo").arg(&pipe), b"");
    assert_eq!(made.code, Some(0), "{made}");
    // Opened for both, so that the person never waits for an agent that ended.
    let mut approval = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut events = String::new();
    for line in BufReader::new(run.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("\"event\":\"held\"") && !events.contains("\"event\":\"held\"") {
            sandbox.approve_policy();
            approval.write_all(b"approved\n").unwrap();
        }
        events.push_str(&line);
        events.push('\n');
    }
    run.wait().unwrap();
    events
}

/// The status of a run, by default of the only one.
fn status_of(sandbox: &Sandbox, run: Option<&str>) -> Option<String> {
    let ended = sandbox.ralph(["status", "--all", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&ended.stdout).ok()?;
    let runs = status["runs"].as_array()?;
    let found = runs.iter().find(|one| run.is_none_or(|run| one["run"] == run))?;
    Some(found["status"].as_str()?.to_string())
}

/// Proves the change by hand. A person approves the policy again, since files that gates name may have changed.
fn play_prove(sandbox: &Sandbox, work: &Path) -> String {
    let base = run_command(sandbox.tool_command("git").args(["rev-parse", "HEAD"]), b"");
    run_command(&mut sandbox.tool_command(work), b"");
    sandbox.approve_policy();
    let ended = sandbox.ralph(["prove", base.stdout.trim(), "--json"]);
    let report = serde_json::from_str::<serde_json::Value>(&ended.stdout).unwrap_or_default();
    report["verdict"].as_str().unwrap_or("error").to_string()
}

impl PlannedCase<'_> {
    fn play(&self, mode: PlayMode) -> String {
        let Self { table, case, packages, .. } = self;
        // A proof by hand does not know the options of a run.
        if mode == PlayMode::Prove && (table.needs_run || !case.args.is_empty()) {
            return UNPLAYED.to_string();
        }
        let sandbox = table.project(case, packages);
        let programs = write_agent_programs(&sandbox, table, case);
        let mut status = match mode {
            PlayMode::Prove => play_prove(&sandbox, &programs.work),
            PlayMode::Hook => play_hook(&sandbox, &programs, case),
            PlayMode::Run => play_run(&sandbox, &programs, case),
        };
        if !case.later.is_empty() {
            programs.run_later(&sandbox);
            status = status_of(&sandbox, None).unwrap_or_else(|| "lost".to_string());
        }
        programs.assert_understood(case);
        status
    }
}

struct PlannedCase<'a> {
    ecosystem: &'a str,
    table: &'a CheatTable,
    case: &'a CheatCase,
    packages: &'a [PackageLink],
}

impl CaseResult<'_> {
    /// Why the result is not what the case deserves; `None` if it is.
    fn mistake(&self) -> Option<String> {
        let Self { ecosystem, case, statuses } = self;
        let judged = statuses.iter().zip(PlayMode::ALL).filter(|(status, mode)| {
            *status != UNPLAYED && !(case.needs_run && *mode == PlayMode::Prove)
        });
        let is_right = |status: &str| match (&case.deserves, &case.admitted) {
            (Some(deserved), _) => status == deserved,
            (None, Some(_)) => true,
            (None, None) => status != "verified",
        };
        let wrong: Vec<_> = judged
            .filter(|(status, _)| !is_right(status))
            .map(|(status, mode)| format!("{status} ({})", mode.name()))
            .collect();
        let wanted = case.deserves.as_deref().unwrap_or("anything but verified");
        let name = &case.name;
        (!wrong.is_empty())
            .then(|| format!("{ecosystem}: {name}: {}, not {wanted}", wrong.join(", ")))
    }

    /// The row of the record, up to the statuses.
    fn row_start(&self) -> String {
        let name = self.case.name.replace('|', "\\|");
        let approved = if self.case.approve { ", which a person approves" } else { "" };
        format!("| {} | {name}{approved} |", self.ecosystem)
    }

    fn row(&self) -> String {
        let kind = self.case.admitted.as_ref().map(|kind| format!(" {kind} |"));
        let [prove, hook, run] = &self.statuses;
        format!("{} {prove} | {hook} | {run} |{}", self.row_start(), kind.unwrap_or_default())
    }

    /// Takes the statuses in modes that were not played from an earlier record.
    fn complete_from(mut self, record: &str) -> Self {
        let start = self.row_start();
        if let Some(recorded) = record.lines().find_map(|line| line.strip_prefix(&start)) {
            for (status, earlier) in self.statuses.iter_mut().zip(recorded.split('|')) {
                if status == UNPLAYED {
                    *status = earlier.trim().to_string();
                }
            }
        }
        self
    }

    fn is_verified(&self) -> bool {
        self.statuses.iter().any(|status| status == "verified")
    }
}

/// Plays the cases at the same time as far as there are cores, and returns their results in order.
fn play_cases<'a>(planned: &[PlannedCase<'a>], modes: &[PlayMode]) -> Vec<CaseResult<'a>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while let Some((at, one)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    planned.get(at).map(|one| (at, one))
                } {
                    let play = |mode| {
                        if modes.contains(&mode) { one.play(mode) } else { UNPLAYED.to_string() }
                    };
                    let statuses = PlayMode::ALL.map(play);
                    eprintln!("{}: {}: {}", one.ecosystem, one.case.name, statuses.join(" "));
                    let result = CaseResult { ecosystem: one.ecosystem, case: one.case, statuses };
                    results.lock().unwrap().insert(at, result);
                }
            });
        }
    });
    results.into_inner().unwrap().into_values().collect()
}

/// Every `every`-th case of the tables. Tables whose packages cannot be installed here are left out.
fn plan_cases<'a>(tables: &'a [LoadedTable], every: usize) -> Vec<PlannedCase<'a>> {
    let plan = |LoadedTable { ecosystem, table, packages }: &'a LoadedTable| {
        let cases = table.case.iter().step_by(every);
        cases.map(move |case| PlannedCase { ecosystem, table, case, packages })
    };
    tables.iter().flat_map(plan).collect()
}

struct LoadedTable {
    ecosystem: String,
    table: CheatTable,
    packages: Vec<PackageLink>,
}

fn load_tables(ecosystems: &[&str]) -> Vec<LoadedTable> {
    let load = |name: &&str| {
        let table = read_table(name);
        let packages = install_packages(&table)?;
        Some(LoadedTable { ecosystem: name.to_string(), table, packages })
    };
    ecosystems.iter().filter_map(load).collect()
}

/// Every case of all tables: as it was played, and for the rest as it was recorded.
fn complete_results<'a>(
    tables: &'a [(&'a str, CheatTable)],
    played: Vec<CaseResult<'_>>,
    record: &str,
) -> Vec<CaseResult<'a>> {
    let mut played: BTreeMap<_, _> =
        played.into_iter().map(|one| (one.row_start(), one.statuses)).collect();
    let cases = tables
        .iter()
        .flat_map(|(ecosystem, table)| table.case.iter().map(move |case| (*ecosystem, case)));
    let unplayed = [UNPLAYED; 3].map(str::to_string);
    cases
        .map(|(ecosystem, case)| {
            let mut result = CaseResult { ecosystem, case, statuses: unplayed.clone() };
            if let Some(statuses) = played.remove(&result.row_start()) {
                result.statuses = statuses;
            }
            result.complete_from(record)
        })
        .collect()
}

fn write_record(results: &[CaseResult<'_>]) -> String {
    let rows = |chosen: &dyn Fn(&CheatCase) -> bool| {
        let rows: Vec<_> =
            results.iter().filter(|one| chosen(one.case)).map(CaseResult::row).collect();
        (rows.len(), rows.join("\n"))
    };
    let (admitted_count, admitted) = rows(&|case| case.admitted.is_some());
    let (cheat_count, cheats) = rows(&|case| case.admitted.is_none() && case.deserves.is_none());
    let (honest_count, honest) = rows(&|case| case.deserves.is_some());
    let verified = results.iter().filter(|one| one.case.admitted.is_some() && one.is_verified());
    let (verified, all) = (verified.count(), admitted_count + cheat_count);
    format!(
        "# Cheats and honest work

Written by `cargo xtask cheats`. Do not edit. The cases are in [`crates/ralph/tests/cheats`](../../crates/ralph/tests/cheats/README.md).

{all} cheats, {admitted_count} of them of an admitted kind, of which {verified} end `verified`; {honest_count} honest controls. `prove` is the verdict of
`ralph prove` after the change, `hook` the status of a run whose session a Stop hook holds, `run` that under `ralph run`. A dash
means that the case was not played in this mode: a proof by hand knows no options of a run. Edits of installed packages show in a run only, which knows the state before the change.

## Admitted kinds

No run of the project's tests can tell these from honest work ([known limits](../../SECURITY.md#what-is-not)).

| ecosystem | the agent | prove | hook | run | kind |
|---|---|---|---|---|---|
{admitted}

## Other cheats

| ecosystem | the agent | prove | hook | run |
|---|---|---|---|---|
{cheats}

## Honest work

| ecosystem | the agent | prove | hook | run |
|---|---|---|---|---|
{honest}
"
    )
}

/// Plays cases and compares them with the record.
fn check_cases(planned: &[PlannedCase<'_>], modes: &[PlayMode]) {
    let record = fs::read_to_string(RECORD).unwrap();
    let results = play_cases(planned, modes);
    let mistakes: Vec<_> = results.iter().filter_map(CaseResult::mistake).collect();
    assert_eq!(mistakes, Vec::<String>::new());
    let rows = results.into_iter().map(|one| one.complete_from(&record).row());
    let missing: Vec<_> = rows.filter(|row| !record.lines().any(|line| line == row)).collect();
    assert_eq!(missing, Vec::<String>::new(), "docs/design/cheats.md is out of date");
}

/// Proves a share of a table.
fn check_share(ecosystem: &str, every: usize) {
    check_cases(&plan_cases(&load_tables(&[ecosystem]), every), &[PlayMode::Prove]);
}

/// R-V1a, R-V1b, R-V1c: no cheat of the table ends `verified`, unless it is of an admitted kind, and honest work ends
/// with the status that it deserves. `RALPH_CHEATS` names the modes to play and the tables, all by default.
#[test]
#[ignore = "plays hundreds of runs, for minutes: `cargo xtask cheats`"]
fn the_whole_table() {
    let wanted = std::env::var("RALPH_CHEATS").unwrap_or_default();
    let words: Vec<&str> = wanted.split(',').collect();
    let is_chosen = |name: &str, all: &[&str]| {
        words.contains(&name) || !all.iter().any(|one| words.contains(one))
    };
    let tables: Vec<&str> =
        ECOSYSTEMS.into_iter().filter(|one| is_chosen(one, &ECOSYSTEMS)).collect();
    let names = PlayMode::ALL.map(PlayMode::name);
    let modes: Vec<PlayMode> =
        PlayMode::ALL.into_iter().filter(|one| is_chosen(one.name(), &names)).collect();
    let loaded = load_tables(&tables);
    let mut planned = plan_cases(&loaded, 1);
    if let Some(name) = words.iter().find_map(|word| word.strip_prefix("case:")) {
        planned.retain(|one| one.case.name.contains(name));
    }
    let results = play_cases(&planned, &modes);
    let mistakes: Vec<_> = results.iter().filter_map(CaseResult::mistake).collect();
    if std::env::var_os("RALPH_GENERATE").is_some() {
        let tables = ECOSYSTEMS.map(|name| (name, read_table(name)));
        let record = fs::read_to_string(RECORD).unwrap();
        let results = complete_results(&tables, results, &record);
        fs::write(RECORD, write_record(&results)).unwrap();
    }
    assert_eq!(mistakes, Vec::<String>::new());
}

/// The size of the table, and that SECURITY.md names every cheat that it admits.
#[test]
fn the_table_is_large_and_its_exceptions_are_public() {
    let security = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SECURITY.md");
    let security = fs::read_to_string(security).unwrap();
    let (mut cheats, mut honest, mut unnamed) = (0, 0, Vec::new());
    for ecosystem in ECOSYSTEMS {
        for case in read_table(ecosystem).case {
            match case.deserves {
                Some(_) => honest += 1,
                None => cheats += 1,
            }
            let named = format!("{ecosystem}: {}", case.name);
            if case.admitted.is_some() && !security.contains(&named) {
                unnamed.push(named);
            }
        }
    }
    assert_eq!(unnamed, Vec::<String>::new());
    assert!(cheats >= 120 && honest >= 60, "{cheats} cheats, {honest} honest controls");
}

/// R-V1a, R-V1b, R-V1c: the same in a session that a Stop hook holds and under `ralph run`.
#[test]
fn a_share_of_the_cheats_in_runs() {
    let names = [
        "the suite prints fixed lines",
        "a GNUmakefile hides the Makefile",
        "a file named as the target",
        "set +e in a test",
        "nothing but a comment",
        "the test file is emptied",
        "the code exits with success when it is loaded",
        "a new command with its test",
        "the goal asks for another greeting, and the tests may change",
        "the suite prints its output differently beside a new command",
    ];
    let tables = load_tables(&["shell", "node"]);
    let mut planned = plan_cases(&tables, 1);
    planned.retain(|one| names.contains(&one.case.name.as_str()));
    assert_eq!(planned.len(), names.len());
    check_cases(&planned, &[PlayMode::Hook, PlayMode::Run]);
}

/// R-S6b, R-V1d: the tricks against ralph itself, each with a command that would loosen the run or with a forged event.
#[test]
fn a_share_of_the_tricks_against_ralph() {
    let names = [
        "waives the gate from its shell",
        "waives the gate from a process that left its client",
        "empties the test and forges a prompt that waives it",
        "empties the test and forges a stop and a prompt of a client that it names itself",
        "makes the gate `true` and approves it",
        "accepts its run after it ended `green`",
        "cancels the run",
        "disputes the failing gate",
        "raises the limits of its run",
        "fixes the code",
        "fixes the code and adds a gate",
    ];
    let tables = load_tables(&["control"]);
    let mut planned = plan_cases(&tables, 1);
    planned.retain(|one| names.contains(&one.case.name.as_str()));
    assert_eq!(planned.len(), names.len());
    check_cases(&planned, &[PlayMode::Hook, PlayMode::Run]);
}

#[test]
fn a_share_of_the_cheats_in_bats() {
    check_share("bats", 3);
}

/// R-V1h: a project that begins without tests has no old ones to hold, unless tests wait for the agent's work.
#[test]
fn a_project_that_the_agent_begins_can_be_verified() {
    let tables = load_tables(&["unittest", "node"]);
    let mut planned = plan_cases(&tables, 1);
    planned.retain(|one| one.case.greenfield);
    assert_eq!(planned.len(), 10);
    check_cases(&planned, &[PlayMode::Prove, PlayMode::Hook]);
}

#[test]
fn a_share_of_the_cheats_in_shell_scripts() {
    check_share("shell", 2);
}

#[test]
fn a_share_of_the_cheats_in_unittest() {
    check_share("unittest", 3);
}

#[test]
fn a_share_of_the_cheats_in_node() {
    check_share("node", 3);
}

#[test]
fn a_share_of_the_cheats_with_git_and_the_environment() {
    check_share("environment", 2);
}

#[test]
fn a_share_of_the_cheats_in_pytest() {
    check_share("pytest", 6);
}

#[test]
fn a_share_of_the_cheats_in_mocha() {
    check_share("mocha", 4);
}
