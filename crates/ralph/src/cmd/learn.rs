//! `ralph learn`: saves, lists and deletes learnings, which later sessions find with `ralph recall`.

use super::home;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::record::Change;
use ralph_deck::Ground;
use ralph_deck::learning::{self, Draft, LearnError, Learning, Novelty};
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_hook::control::{self, Caller, Named};
use ralph_sys::env::Env;
use ralph_sys::{clock, owner, stdin};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::PathBuf;

/// The limit on stdin. It is far above the limit on a learning, so that a text that is slightly too long gets the
/// proper error.
const LARGEST_INPUT: usize = 1024 * 1024;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph learn \"the integration tests need a running redis; start it with `make redis`\"
  ralph learn - --title \"How releases are cut\" < notes.md
  ralph learn --list
  ralph learn --forget 20261115-133802-how-releases-are-cut

A learning is a Markdown file in `~/.ralph/learnings` of at most 16 KiB,
with secrets redacted. `ralph recall` finds it. In an agent's shell it
is also recorded for the run that holds the agent. Only a person can
delete one.")]
pub(crate) struct Learn {
    /// Save this text; `-` reads it from stdin
    #[arg(value_name = "TEXT", required_unless_present_any = ["list", "forget"])]
    pub text: Vec<String>,
    /// Set the title [default: the first line]
    #[arg(long, value_name = "TITLE")]
    pub title: Option<String>,
    /// Name its run or session [default in an agent's shell: its own]
    #[arg(long, value_name = "RUN|SESSION")]
    pub run: Option<String>,
    /// List the learnings of this project, newest first
    #[arg(long, conflicts_with_all = ["text", "title", "run", "forget"])]
    pub list: bool,
    /// Delete the learning with this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["text", "title", "run"])]
    pub forget: Option<String>,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &Learn) -> Result<(), Failure> {
    let project = super::config::project(env, args.project.as_deref())?;
    let ground = Ground::new(env, home(env)?, &project);
    if args.list {
        return list(&ground, args);
    }
    match &args.forget {
        Some(id) => forget(env, &ground, args, id),
        None => save(env, &ground, args),
    }
}

fn save(env: &Env, ground: &Ground, args: &Learn) -> Result<(), Failure> {
    let run = run_of(env, &ground.home, args.run.as_deref())?;
    let text = text(args)?;
    let draft = Draft { text: &text, title: args.title.as_deref(), run: run.as_ref() };
    let (learning, novelty) = learning::save(ground, &draft)?;
    if let Some(run) = &run {
        let (id, title) = (learning.id.clone(), learning.title.clone());
        super::declare::on_record(&ground.home, run, Change::Learned { id, title })?;
    }
    if args.json {
        super::print_json(&Saved {
            v: 1,
            new: novelty == Novelty::New,
            learning: json(&learning),
        })?;
        return Ok(());
    }
    let what = match novelty {
        Novelty::New => "saved",
        Novelty::Known => "saved already",
    };
    term::out(&format!(
        "{}  {what}: {}\n  `{}`\n",
        paint(term::BOLD, &learning.id),
        safe(&learning.title),
        learning.path.display()
    ))?;
    Ok(())
}

fn text(args: &Learn) -> Result<String, Failure> {
    if args.text != ["-"] {
        return Ok(args.text.join(" "));
    }
    if std::io::stdin().is_terminal() {
        term::err("write the learning, then press Ctrl-D on an empty line\n");
    }
    let bytes = stdin::read_all(std::io::stdin(), LARGEST_INPUT)
        .map_err(|error| Failure::because("cannot read the learning from stdin", &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The named run, or the run of the session of this shell, if there is one.
pub(super) fn run_of(env: &Env, home: &Home, name: Option<&str>) -> Result<Option<RunId>, Failure> {
    if name.is_some() {
        return super::declare::run_of(env, home, name).map(Some);
    }
    let own = env.claude_session();
    Ok(match own.and_then(|session| control::named(home, &session).ok()) {
        Some(Named::Run(run)) => Some(run),
        Some(Named::Session(_)) | None => None,
    })
}

fn list(ground: &Ground, args: &Learn) -> Result<(), Failure> {
    let learnings = learning::list(ground);
    if args.json {
        let learnings = learnings.iter().map(json).collect();
        super::print_json(&Listed { v: 1, project: ground.project_name(), learnings })?;
        return Ok(());
    }
    let mut out = String::new();
    let now_ms = clock::now_ms();
    for learning in &learnings {
        let run = learning.run.as_ref().map_or(String::new(), |run| format!(" · run {run}"));
        let when = wording::ago(now_ms, learning.at_ms);
        let note = paint(term::DIM, &format!("{when}{run}"));
        let id = paint(term::BOLD, &safe(&learning.id));
        out.push_str(&format!("{id}  {}   {note}\n", safe(&learning.title)));
    }
    if learnings.is_empty() {
        let project = safe(&ground.project_name());
        out.push_str(&format!("no learnings in `{project}` yet; `ralph learn \"…\"` saves one\n"));
    }
    term::out(&out)?;
    Ok(())
}

fn forget(env: &Env, ground: &Ground, args: &Learn, id: &str) -> Result<(), Failure> {
    if is_agent(env, &ground.home) {
        let hint = "ask a person to do this in their own terminal";
        return Err(Failure::new("an agent may not delete learnings", hint));
    }
    let learning = learning::forget(ground, id)?;
    if args.json {
        super::print_json(&Forgotten { v: 1, forgotten: &learning.id })?;
    } else {
        let id = paint(term::BOLD, &learning.id);
        term::out(&format!("{id}  forgotten: {}\n", safe(&learning.title)))?;
    }
    Ok(())
}

/// Whether an agent calls: by the variables of its shell, or because the host of a run is one of our ancestors.
fn is_agent(env: &Env, home: &Home) -> bool {
    let runs = store::list(home).unwrap_or_default();
    let mut hosts = runs.iter().filter_map(|run| store::load(home, run).ok()?.state.process);
    super::caller(env) == Caller::Agent || hosts.any(|process| owner::is_ancestor(process.pid))
}

#[derive(Serialize)]
struct LearningJson<'a> {
    id: &'a str,
    title: &'a str,
    run: Option<&'a str>,
    project: &'a str,
    at: String,
    path: String,
    text: &'a str,
}

#[derive(Serialize)]
struct Saved<'a> {
    v: u8,
    new: bool,
    #[serde(flatten)]
    learning: LearningJson<'a>,
}

#[derive(Serialize)]
struct Listed<'a> {
    v: u8,
    project: String,
    learnings: Vec<LearningJson<'a>>,
}

#[derive(Serialize)]
struct Forgotten<'a> {
    v: u8,
    forgotten: &'a str,
}

fn json(learning: &Learning) -> LearningJson<'_> {
    LearningJson {
        id: &learning.id,
        title: &learning.title,
        run: learning.run.as_ref().map(RunId::as_str),
        project: &learning.project,
        at: clock::rfc3339(learning.at_ms),
        path: learning.path.display().to_string(),
        text: &learning.text,
    }
}

impl From<LearnError> for Failure {
    fn from(error: LearnError) -> Self {
        let hint = match error {
            LearnError::File(error) => return error.into(),
            LearnError::Empty => "give the text: `ralph learn \"…\"`",
            LearnError::TooLong(_) => "shorten it to a few sentences",
            LearnError::Unknown(_) => "`ralph learn --list` shows the ids",
        };
        Self::new(&error.to_string(), hint)
    }
}
