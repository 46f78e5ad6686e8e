//! `ralph loop …`: creates and lists loop directories.

use super::feature::{counts, holds, loops, trust};
use super::home;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::values::at_least_one;
use crate::wording::safe;
use clap::{Args, Subcommand};
use ralph_core::gate::quoted;
use ralph_hook::overview::{self, RunView};
use ralph_lists::features::{self, FeatureError, Loop, New, Source};
use ralph_lists::lists;
use ralph_lists::loop_directory;
use ralph_sys::env::Env;
use ralph_sys::{fs, stdin};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

const LARGEST_GOAL: usize = 64 * 1024;

#[derive(Subcommand)]
pub(crate) enum LoopCommand {
    /// Create a loop directory: feature list, prompt and `progress.txt`
    New(LoopNew),
    /// List the loops of the project and the runs that work on them
    List(LoopList),
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph loop new csv --from features.md
  ralph loop new csv --from feature_list.json --max-iterations 30
  ralph loop new csv --goal \"A command line tool that reads and writes CSV\"

A list in JSON is copied unchanged. In a text, each `- ` or `- [ ]` item
is a feature, and the items below it are its steps. Existing files are
never overwritten.")]
pub(crate) struct LoopNew {
    /// Name the loop, in letters, digits, `.`, `_` and `-`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Read the features from a feature list, or from a list in a text
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Describe the overall goal for the agent; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    pub goal: Option<String>,
    /// Limit the holds when a session takes over the loop by itself
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = at_least_one)]
    pub max_iterations: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph loop list\n  ralph loop list --json | jq '.loops[].name'"
)]
pub(crate) struct LoopList {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct NewJson<'a> {
    v: u8,
    #[serde(rename = "loop")]
    name: &'a str,
    directory: String,
    features: usize,
    claimed: usize,
    checked: usize,
    trust: Option<String>,
    goal: String,
}

#[derive(Serialize)]
struct LoopsJson {
    v: u8,
    project: String,
    loops: Vec<LoopJson>,
}

#[derive(Serialize)]
struct LoopJson {
    name: String,
    directory: String,
    total: usize,
    claimed: usize,
    open: usize,
    checked: usize,
    run: Option<String>,
    problem: Option<String>,
}

pub(crate) fn run(env: &Env, asked: &LoopCommand) -> Result<(), Failure> {
    match asked {
        LoopCommand::New(args) => new(env, args),
        LoopCommand::List(args) => list(env, args),
    }
}

fn new(env: &Env, args: &LoopNew) -> Result<(), Failure> {
    let project = super::config::project(env, None)?;
    let project = fs::resolve(&project).unwrap_or(project);
    let here = env.current_dir().unwrap_or_default();
    let source = args.from.as_ref().map_or(Source::Example, |path| Source::File(here.join(path)));
    let goal = goal(args.goal.as_deref())?;
    let made = features::create(
        &project,
        &New {
            name: &args.name,
            source: &source,
            goal: goal.as_deref(),
            max_iterations: args.max_iterations,
        },
    )?;
    let items = lists::read(&made.list()).map_err(FeatureError::from)?;
    let checked = items.iter().filter(|item| item.check.is_some()).count();
    let trust = (checked > 0).then(|| trust(env, &made));
    let directory = from_here(env, &made.directory);
    let goal = format!(
        "/ralph:goal --features {} Follow the instructions in its {}",
        quoted(&directory),
        features::PROMPT
    );
    if args.json {
        super::print_json(&NewJson {
            v: 1,
            name: &made.name,
            directory: made.directory.display().to_string(),
            features: items.len(),
            claimed: items.iter().filter(|item| item.done).count(),
            checked,
            trust,
            goal,
        })?;
        return Ok(());
    }
    let mut out = format!("created `{}` with {}\n", safe(&directory), counts(&items));
    for (name, what) in [
        (loop_directory::FEATURES, "the features"),
        (features::PROMPT, "the instructions for the agent"),
        (loop_directory::PROGRESS, "the progress"),
    ] {
        out.push_str(&format!("  {name:<18} {}\n", paint(term::DIM, what)));
    }
    if matches!(source, Source::Example) {
        out.push_str(&format!(
            "next: write the features into `{directory}/{}`\n",
            loop_directory::FEATURES
        ));
    }
    if let Some(trust) = trust {
        out.push_str(&format!("next: `{trust}` shows what the checks run and asks for approval\n"));
    }
    out.push_str(&format!("next: in the session, `{goal}`\n"));
    out.push_str(&format!("next: or without one, `ralph run --loop {}`\n", quoted(&made.name)));
    if made.directory == project.join(loop_directory::DEFAULT_DIRECTORY) {
        out.push_str(
            "note: the first session that stops in this project takes over this loop by itself\n",
        );
    }
    term::out(&out)?;
    Ok(())
}

fn goal(given: Option<&str>) -> Result<Option<String>, Failure> {
    match given {
        Some("-") => {
            if std::io::stdin().is_terminal() {
                term::err("write the goal, then press Ctrl-D on an empty line\n");
            }
            let bytes = stdin::read_all(std::io::stdin(), LARGEST_GOAL)
                .map_err(|error| Failure::because("cannot read the goal from stdin", &error))?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
        given => Ok(given.map(str::to_string)),
    }
}

fn from_here(env: &Env, directory: &Path) -> String {
    let here = env.current_dir().and_then(|here| fs::resolve(&here)).unwrap_or_default();
    directory.strip_prefix(&here).unwrap_or(directory).to_string_lossy().into_owned()
}

fn list(env: &Env, args: &LoopList) -> Result<(), Failure> {
    let home = home(env)?;
    let project = super::config::project(env, None)?;
    let project = fs::resolve(&project).unwrap_or(project);
    let loops = loops(env, &project)?;
    let (runs, _) = overview::runs(&home)?;
    if args.json {
        let loops = loops.iter().map(|one| json(one, &runs)).collect();
        super::print_json(&LoopsJson { v: 1, project: project.display().to_string(), loops })?;
        return Ok(());
    }
    if loops.is_empty() {
        let place = safe(&project.to_string_lossy());
        term::out(&format!("no loops in `{place}`; `ralph loop new NAME` creates one\n"))?;
        return Ok(());
    }
    let width = loops.iter().map(|one| safe(&one.name).chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for one in &loops {
        let how = match lists::read(&one.list()) {
            Ok(items) => counts(&items),
            Err(error) => paint(term::BAD, &safe(&error.to_string())),
        };
        let run = runs.iter().find(|view| holds(view, one));
        let run = run.map(|view| format!("  run {} works on it", view.opened.run.id));
        let name = safe(&one.name);
        let pad = " ".repeat(width.saturating_sub(name.chars().count()));
        let name = paint(term::BOLD, &name);
        out.push_str(&format!("{name}{pad}  {how}{}\n", run.unwrap_or_default()));
    }
    term::out(&out)?;
    Ok(())
}

fn json(one: &Loop, runs: &[RunView]) -> LoopJson {
    let (items, problem) = match lists::read(&one.list()) {
        Ok(items) => (items, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let claimed = items.iter().filter(|item| item.done).count();
    LoopJson {
        name: one.name.clone(),
        directory: one.directory.display().to_string(),
        total: items.len(),
        claimed,
        open: items.len() - claimed,
        checked: items.iter().filter(|item| item.check.is_some()).count(),
        run: runs.iter().find(|view| holds(view, one)).map(|view| view.opened.run.id.to_string()),
        problem,
    }
}
