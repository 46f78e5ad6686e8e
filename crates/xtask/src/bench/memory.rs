//! Measures whether lessons of earlier runs reach the run that needs them.
//!
//! The agent is scripted: it does the work, follows the first two hints of its context that name a fix, and otherwise
//! tries one file after the other. So this measures which lessons are delivered and how they are ranked. It does not
//! measure whether a model would follow them.
//!
//! Every task has a trap: a gate fails until one more file is changed, and its finding does not name that file. Each trap
//! occurs twice, with differently worded goals; the lesson of the first run is the hint for the second. In first runs the
//! agent ignores its hints, because a lucky one would leave nothing to learn. The lessons of the other tasks of the
//! project, and those of a second project with the same findings and other fixes, are distractors.

use super::budget::BudgetResult;
use crate::disk;
use crate::shell::{self, CommandEnd};
use anyhow::{Context, Result, bail, ensure};
use ralph_sys::parallel::map_with_workers;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const HOOK_TIMEOUT: Duration = Duration::from_mins(1);
/// Hints that the agent follows, the first ones of its context.
const FOLLOWED_HINTS: usize = 2;
const MAX_STOPS: usize = 12;
/// Blocks with memory, as a share of those without it.
const MOST_SHARE: f64 = 0.25;
/// Tasks whose fix is not among the hints that the agent follows.
const MOST_MISSED: f64 = 2.0;

/// The files that the agent tries, one per stop.
const CANDIDATES: [&str; 6] = [
    "config/registry.toml",
    "config/limits.toml",
    "schema/tables.sql",
    "src/errors.list",
    "docs/reference.md",
    "tests/golden.txt",
];

/// What a task asks for, and the trap in it.
struct TrapTask {
    gate: &'static str,
    /// What the gate reports.
    finding: &'static str,
    /// The goal of the run that meets the trap first.
    first_goal: &'static str,
    /// The goal of the later run.
    later_goal: &'static str,
}

const fn task(
    gate: &'static str,
    finding: &'static str,
    first_goal: &'static str,
    later_goal: &'static str,
) -> TrapTask {
    TrapTask { gate, finding, first_goal, later_goal }
}

const TASKS: [TrapTask; 20] = [
    task(
        "tests",
        "parser: nested quotes are dropped",
        "make the parser handle nested quotes",
        "quotes within quotes break the parser",
    ),
    task(
        "tests",
        "csv: header is missing",
        "export the orders as csv",
        "add a column to the csv export",
    ),
    task(
        "tests",
        "login: session expires at once",
        "remember the login for a week",
        "log users out after a month of idle sessions",
    ),
    task(
        "tests",
        "invoice: rounding differs by one cent",
        "round invoices to cents",
        "invoices in yen need no cents",
    ),
    task(
        "tests",
        "search: umlauts are not found",
        "search without accents",
        "the search should ignore umlauts in names",
    ),
    task(
        "tests",
        "queue: job runs twice",
        "retry failed jobs of the queue",
        "let the queue skip jobs that are too old",
    ),
    task(
        "tests",
        "cache: stale entry is served",
        "cache the product pages",
        "clear the cache when a product changes",
    ),
    task(
        "tests",
        "upload: large file times out",
        "allow uploads of one gigabyte",
        "show the progress of an upload",
    ),
    task(
        "tests",
        "mail: subject is not encoded",
        "send a welcome mail",
        "mail a receipt after payment",
    ),
    task(
        "tests",
        "dates: leap day is skipped",
        "compute due dates",
        "due dates must not fall on holidays",
    ),
    task(
        "lint",
        "complexity of `route` is 23",
        "add a route for reports",
        "split the route of the dashboard",
    ),
    task(
        "lint",
        "unused translation key",
        "translate the checkout",
        "the checkout needs a french translation",
    ),
    task(
        "lint",
        "import cycle between billing and users",
        "bill teams instead of users",
        "move billing addresses to teams",
    ),
    task(
        "lint",
        "public function without documentation",
        "publish the client library",
        "the library needs a paging client",
    ),
    task(
        "lint",
        "sql string is built by hand",
        "filter the audit log",
        "sort the audit log by actor",
    ),
    task(
        "docs",
        "option `--dry-run` is not described",
        "add a dry run to the importer",
        "the importer should limit its rate",
    ),
    task(
        "docs",
        "example does not run",
        "show a quick start for webhooks",
        "webhooks can be signed now",
    ),
    task("docs", "changelog has no entry", "support postgres 17", "drop support for postgres 12"),
    task(
        "docs",
        "link to the status page is dead",
        "link the status page in the footer",
        "a footer with the imprint",
    ),
    task(
        "docs",
        "table of error codes is incomplete",
        "return an error code for quotas",
        "new error codes for plan limits",
    ),
];

/// The result of one task.
struct TaskResult {
    blocks: usize,
    /// Whether the fix was among the hints that the agent followed.
    is_hinted: bool,
}

/// What the agent does with the hints of its context.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HintUse {
    Followed,
    Ignored,
}

pub(crate) struct MemoryStage {
    directory: TempDir,
    ralph: PathBuf,
}

/// One project with all traps.
struct TrapProject<'a> {
    stage: &'a MemoryStage,
    path: PathBuf,
    /// By how many places the fixes are rotated, so that another project has other fixes.
    rotation: usize,
}

impl MemoryStage {
    pub(crate) fn new(ralph: PathBuf) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("ralph-bench-").tempdir()?;
        disk::create_directory(&directory.path().join("home"))?;
        Ok(Self { directory, ralph })
    }

    /// Plays the later runs with and without the lessons of the first ones.
    pub(crate) fn measure(&self) -> Result<Vec<BudgetResult>> {
        let with = TrapProject::create(self, "with", "", 0)?;
        let other = TrapProject::create(self, "other", "", 2)?;
        let without = TrapProject::create(self, "without", "\n[memory]\nmax_chars = 0\n", 0)?;
        // The projects share nothing but the home. Without memory, first runs change nothing.
        let learning = [&with, &other];
        map_with_workers(learning.iter().collect(), learning.len(), |project| project.learn_all())
            .into_iter()
            .collect::<Result<()>>()?;
        let playing = [&without, &with];
        let played = map_with_workers(playing.iter().collect(), playing.len(), |project| {
            project.play_later_runs()
        });
        let played = played.into_iter().collect::<Result<Vec<_>>>()?;
        let [plain, taught] = played.as_slice() else { bail!("a project was not played") };
        let mut out = String::from("task  gate   blocks without  with  hinted  goal\n");
        let (mut before, mut after, mut missed) = (0, 0, 0);
        for (number, ((task, plain), taught)) in TASKS.iter().zip(plain).zip(taught).enumerate() {
            (before, after) = (before + plain.blocks, after + taught.blocks);
            missed += usize::from(!taught.is_hinted);
            let hinted = if taught.is_hinted { "yes" } else { "no" };
            writeln!(
                out,
                "{:>4}  {:<5}  {:>14}  {:>4}  {hinted:<6}  {}",
                number + 1,
                task.gate,
                plain.blocks,
                taught.blocks,
                task.later_goal
            )?;
        }
        writeln!(out, " all         {before:>16}  {after:>4}")?;
        crate::print::print_line(out.trim_end());
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let [before, after, missed] = [before, after, missed].map(|count| count as f64);
        Ok(vec![
            BudgetResult::new("blocks with memory ÷ without", after / before, MOST_SHARE),
            BudgetResult::new("tasks of 20 without their hint", missed, MOST_MISSED),
        ])
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let home = self.directory.path().join("home");
        vec![
            ("HOME".into(), home.clone().into()),
            ("RALPH_HOME".into(), home.join(".ralph").into()),
            ("PATH".into(), shell::path_variable()),
        ]
    }
}

impl<'a> TrapProject<'a> {
    fn create(stage: &'a MemoryStage, name: &str, policy: &str, rotation: usize) -> Result<Self> {
        let path = stage.directory.path().join(name);
        let project = Self { stage, path, rotation };
        let mut rules = String::new();
        // Every trap occurs twice; the second time it wants another entry in the same file.
        for number in 0..TASKS.len() * 2 {
            let at = number % TASKS.len();
            let (task, fix) = (TASKS.get(at).context("no such task")?, project.fix(at));
            writeln!(rules, "{number}\t{}\t{fix}\t{}", task.gate, task.finding)?;
        }
        let gates = ["tests", "lint", "docs"].map(|gate| {
            format!("[[gate]]\nname = \"{gate}\"\nrun = [\"./check.sh\", \"{gate}\"]\n")
        });
        let policy = format!("{}{policy}\n[verify]\nproof = \"off\"\n", gates.concat());
        let check = "#!/bin/sh\nfailed=0\nwhile IFS='\t' read -r number gate fix finding; do\n\
            [ \"$gate\" = \"$1\" ] && [ -e \"work/$number\" ] || continue\n\
            grep -q \"^task $number$\" \"$fix\" || { echo \"work/$number:1:1: error: $finding\"; failed=1; }\n\
            done < rules\nexit $failed\n";
        for (name, text) in
            [("rules", rules.as_str()), ("ralph.toml", &policy), ("check.sh", check)]
        {
            disk::write_with_parents(&project.path.join(name), text.as_bytes())?;
        }
        for name in CANDIDATES {
            disk::write_with_parents(&project.path.join(name), b"")?;
        }
        disk::make_executable(&project.path.join("check.sh"))?;
        shell::commit_all(&stage.env(), &project.path)?;
        super::approve_policy(&stage.ralph, &stage.env(), &project.path)?;
        Ok(project)
    }

    /// The file that a trap wants.
    fn fix(&self, task: usize) -> &'static str {
        CANDIDATES[(task * 5 + task / 6 + self.rotation) % CANDIDATES.len()]
    }

    /// The first run of each trap, and its retrospective.
    fn learn_all(&self) -> Result<()> {
        for (number, task) in TASKS.iter().enumerate() {
            self.play(number, task.first_goal, 0, HintUse::Ignored)?;
            let mut learn = shell::command(&self.stage.ralph);
            learn.env_clear().envs(self.stage.env()).current_dir(&self.path);
            shell::command_output(learn.args(["memory", "learn"]))?;
        }
        Ok(())
    }

    fn play_later_runs(&self) -> Result<Vec<TaskResult>> {
        let tasks = TASKS.iter().enumerate();
        tasks
            .map(|(number, task)| {
                self.play(number, task.later_goal, TASKS.len(), HintUse::Followed)
            })
            .collect()
    }

    /// One run, from its goal to `verified`. `offset` is added to the number of the task.
    fn play(
        &self,
        number: usize,
        goal: &str,
        offset: usize,
        hint_use: HintUse,
    ) -> Result<TaskResult> {
        let session =
            format!("{}-{}", self.path.file_name().unwrap_or_default().display(), number + offset);
        let work = number + offset;
        let started = self.send(&session, "UserPromptSubmit", &format!("/ralph:goal {goal}"))?;
        let answer: Value = serde_json::from_str(&started.stdout)
            .with_context(|| format!("no run was started: {}", started.stdout))?;
        let context = answer["hookSpecificOutput"]["additionalContext"].as_str();
        let mut hints = hinted_files(context.context("the agent got no context")?);
        if hint_use == HintUse::Ignored {
            hints.clear();
        }
        disk::write_with_parents(&self.path.join(format!("work/{work}")), b"done\n")?;
        for file in &hints {
            self.change(file, work)?;
        }
        let mut untried = CANDIDATES.iter().filter(|file| !hints.iter().any(|hint| hint == *file));
        for blocks in 0..MAX_STOPS {
            let stop = self.send(&session, "Stop", "")?;
            match stop.code {
                Some(0) => {
                    ensure_verified(&stop.stdout)
                        .with_context(|| format!("task {number} of `{session}`"))?;
                    let is_hinted = hints.iter().any(|hint| hint == self.fix(number));
                    return Ok(TaskResult { blocks, is_hinted });
                }
                Some(2) => {
                    let file = untried.next().with_context(|| {
                        format!(
                            "task {number} is held although every file was tried: {}",
                            stop.stderr
                        )
                    })?;
                    self.change(file, work)?;
                }
                code => bail!("the hook exited with {code:?}: {}", stop.stderr),
            }
        }
        bail!("task {number} was held {MAX_STOPS} times")
    }

    fn change(&self, file: &str, work: usize) -> Result<()> {
        let is_known = CANDIDATES.contains(&file);
        ensure!(is_known, "a hint names `{file}`, which is no file of the project");
        disk::append(&self.path.join(file), format!("task {work}\n").as_bytes())
    }

    fn send(&self, session: &str, event: &str, prompt: &str) -> Result<CommandEnd> {
        let mut event = json!({"session_id": session, "hook_event_name": event,
            "cwd": self.path.display().to_string()});
        if !prompt.is_empty() {
            event["prompt"] = prompt.into();
            event["prompt_id"] = session.into();
        }
        let mut hook = shell::command(&self.stage.ralph);
        hook.env_clear().envs(self.stage.env()).current_dir(&self.path).args(["hook", "claude"]);
        shell::run_within(&mut hook, event.to_string().as_bytes(), HOOK_TIMEOUT)
    }
}

/// Fails unless the answer to a stop announces that the run ended `verified`. An agent that is let go for another reason
/// exits with 0, too.
fn ensure_verified(answer: &str) -> Result<()> {
    let message = serde_json::from_str::<Value>(answer)
        .ok()
        .and_then(|answer| answer["systemMessage"].as_str().map(str::to_owned));
    let is_verified = message.is_some_and(|text| text.starts_with("ralph: verified"));
    ensure!(is_verified, "the run did not end `verified`: {answer}");
    Ok(())
}

/// The files that the first hints name.
fn hinted_files(context: &str) -> Vec<String> {
    let hints = context.lines().filter_map(|line| {
        line.trim_start_matches('│').trim().strip_prefix("fixed by changes to ")
    });
    let mut files: Vec<String> = Vec::new();
    for file in hints.take(FOLLOWED_HINTS).flat_map(|hint| hint.split(", ")) {
        if !files.iter().any(|known| known == file) {
            files.push(file.to_string());
        }
    }
    files
}

/// The program and where to find it.
pub(crate) fn stage_program(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(program) => Ok(program.canonicalize()?),
        None => shell::build_program("release", "ralph"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_verified_end_counts() {
        let answer = |text: &str| format!("{{\"systemMessage\":\"{text}\"}}");
        assert!(ensure_verified(&answer("ralph: verified: port it — all 3 are met")).is_ok());
        for other in [answer("ralph: green: port it"), answer("ralph: exhausted"), String::new()] {
            assert!(ensure_verified(&other).is_err(), "{other}");
        }
    }
}
