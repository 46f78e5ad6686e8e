//! `ralph loop …`: creates and lists loop directories.

use super::feature::{find_loops, trust_command};
use super::open_home;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::value_parsers::parse_positive_count;
use clap::{Args, Subcommand};
use ralph_core::gate::shell_quote;
use ralph_core::input_bounds::MAX_LIST_BYTES;
use ralph_deck::view::feature_list::{count_text, is_run_of_loop, loop_list_view};
use ralph_deck::wording::safe_line;
use ralph_hook::overview;
use ralph_lists::loop_directory;
use ralph_lists::loops::{self, FeatureError, InitialList, NewLoop};
use ralph_lists::run_lists;
use ralph_sys::env::Env;
use ralph_sys::{fs, stdin};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum LoopCommand {
    /// Create a loop directory: feature list, prompt and `progress.txt`
    New(LoopNewArgs),
    /// List the loops of the project and the runs that work on them
    #[command(hide = true)]
    List(LoopListArgs),
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
pub(crate) struct LoopNewArgs {
    /// Name the loop, in letters, digits, `.`, `_` and `-`
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Read the features from a feature list, or from a list in a text; `-` is
    /// stdin
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Describe the overall goal for the agent; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    pub goal: Option<String>,
    /// Limit the holds when a session takes over the loop by itself
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse_positive_count)]
    pub max_iterations: u32,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  ralph list loops\n  ralph list loops --json | jq '.loops[].name'"
)]
pub(crate) struct LoopListArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct LoopNewJson<'a> {
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

pub(crate) fn run(env: &Env, asked: &LoopCommand) -> Result<(), CommandFailure> {
    match asked {
        LoopCommand::New(args) => create_loop(env, args),
        LoopCommand::List(args) => list_loops(env, args),
    }
}

fn create_loop(env: &Env, args: &LoopNewArgs) -> Result<(), CommandFailure> {
    let project = super::config::project_dir(env, None)?;
    let project = fs::resolve(&project).unwrap_or(project);
    let here = env.current_dir().unwrap_or_default();
    let source = initial_list(args, &here)?;
    let goal = read_loop_goal(args.goal.as_deref())?;
    let made = loops::create_loop(
        &project,
        &NewLoop {
            name: &args.name,
            source: &source,
            goal: goal.as_deref(),
            max_iterations: args.max_iterations,
        },
    )?;
    let items = run_lists::read_list(&made.list()).map_err(FeatureError::from)?;
    let checked = items.iter().filter(|item| item.check.is_some()).count();
    let trust = (checked > 0).then(|| trust_command(env, &made));
    let directory = relative_path(env, &made.directory);
    let goal = format!(
        "/ralph:goal --features {} Follow the instructions in its {}",
        shell_quote(&directory),
        loop_directory::PROMPT_FILE
    );
    if args.json {
        super::print_json(&LoopNewJson {
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
    let mut out = format!("created `{}` with {}\n", safe_line(&directory), count_text(&items));
    for (name, what) in [
        (loop_directory::FEATURES_FILE, "the features"),
        (loop_directory::PROMPT_FILE, "the instructions for the agent"),
        (loop_directory::PROGRESS_FILE, "the progress"),
    ] {
        out.push_str(&format!("  {name:<18} {}\n", paint(term::DIM, what)));
    }
    if matches!(source, InitialList::Example) {
        out.push_str(&format!(
            "next: write the features into `{directory}/{}`\n",
            loop_directory::FEATURES_FILE
        ));
    }
    if let Some(trust) = trust {
        out.push_str(&format!("next: `{trust}` shows what the checks run and asks for approval\n"));
    }
    out.push_str(&format!("next: in the session, `{goal}`\n"));
    out.push_str(&format!(
        "next: or without one, `ralph run --loop {}`\n",
        shell_quote(&made.name)
    ));
    if made.directory == project.join(loop_directory::DEFAULT_DIRECTORY) {
        out.push_str(
            "note: the first session that stops in this project takes over this loop by itself\n",
        );
    }
    term::out(&out)?;
    Ok(())
}

/// Where the first features come from.
fn initial_list(args: &LoopNewArgs, here: &Path) -> Result<InitialList, CommandFailure> {
    let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
    if args.goal.as_deref() == Some("-") && args.from.as_ref().is_some_and(is_stdin) {
        let what = "`--from -` and `--goal -` both read stdin";
        return Err(CommandFailure::new(what, "give one of them as a file or as text"));
    }
    Ok(match &args.from {
        None => InitialList::Example,
        Some(path) if is_stdin(path) => InitialList::Text(read_list_from_stdin()?),
        Some(path) => InitialList::File(here.join(path)),
    })
}

fn read_list_from_stdin() -> Result<Vec<u8>, CommandFailure> {
    if std::io::stdin().is_terminal() {
        term::err("write the list, then press Ctrl-D on an empty line\n");
    }
    stdin::read_all(std::io::stdin(), MAX_LIST_BYTES)
        .map_err(|error| CommandFailure::caused_by("cannot read the list from stdin", &error))
}

fn read_loop_goal(given: Option<&str>) -> Result<Option<String>, CommandFailure> {
    match given {
        Some("-") => {
            let goal = super::start::read_goal_from_stdin()?;
            Ok(Some(String::from_utf8_lossy(&goal).into_owned()))
        }
        given => Ok(given.map(str::to_string)),
    }
}

fn relative_path(env: &Env, directory: &Path) -> String {
    let here = env.current_dir().and_then(|here| fs::resolve(&here)).unwrap_or_default();
    directory.strip_prefix(&here).unwrap_or(directory).to_string_lossy().into_owned()
}

pub(super) fn list_loops(env: &Env, args: &LoopListArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    let project = super::config::project_dir(env, None)?;
    let project = fs::resolve(&project).unwrap_or(project);
    let loops = find_loops(env, &project)?;
    let (runs, _) = overview::list_run_views(&home)?;
    if args.json {
        super::print_json(&loop_list_view(&project, &loops, &runs))?;
        return Ok(());
    }
    if loops.is_empty() {
        let place = safe_line(&project.to_string_lossy());
        term::out(&format!("no loops in `{place}`; `ralph loop new NAME` creates one\n"))?;
        return Ok(());
    }
    let width = loops.iter().map(|one| safe_line(&one.name).chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for one in &loops {
        let how = match run_lists::read_list(&one.list()) {
            Ok(items) => count_text(&items),
            Err(error) => paint(term::BAD, &safe_line(&error.to_string())),
        };
        let run = runs.iter().find(|view| is_run_of_loop(view, one));
        let run = run.map(|view| format!("  run {} works on it", view.opened.run.id));
        let name = safe_line(&one.name);
        let pad = " ".repeat(width.saturating_sub(name.chars().count()));
        let name = paint(term::BOLD, &name);
        out.push_str(&format!("{name}{pad}  {how}{}\n", run.unwrap_or_default()));
    }
    term::out(&out)?;
    Ok(())
}
