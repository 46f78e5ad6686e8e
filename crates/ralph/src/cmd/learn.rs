//! `ralph learn`: saves, lists and deletes learnings, which later sessions find with `ralph recall`.

use super::list_commands::ListLearningsArgs;
use super::open_home;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use clap::Args;
use ralph_core::id::RunId;
use ralph_core::record::RunChange;
use ralph_deck::RecallContext;
use ralph_deck::learning::{self, LearnError, LearningDraft, LearningNovelty};
use ralph_deck::view::learning_list::{
    LearningForgottenView, LearningListView, LearningSavedView, learning_view,
};
use ralph_deck::wording::{self, safe_line};
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, StoreError};
use ralph_hook::control::{self, CommandCaller, ControlError, RunOrSession};
use ralph_sys::env::Env;
use ralph_sys::{clock, stdin};
use std::io::IsTerminal;
use std::path::PathBuf;

/// The limit on stdin. It is far above the limit on a learning, so that a text that is slightly too long gets the
/// proper error.
const MAX_INPUT_BYTES: usize = 1024 * 1024;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph learn 'the integration tests need redis; start it with `make redis`'
  ralph learn - --title \"How releases are cut\" < notes.md
  ralph list learnings
  ralph learn --forget 20261115-133802-how-releases-are-cut

A learning is a Markdown file in `~/.ralph/learnings` of at most 16 KiB,
with secrets redacted. `ralph recall` finds it. In an agent's shell it
is also recorded for the run that holds the agent. Only a person can
delete one.")]
pub(crate) struct LearnArgs {
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

pub(crate) fn run(env: &Env, args: &LearnArgs) -> Result<(), CommandFailure> {
    let project = super::config::project_dir(env, args.project.as_deref())?;
    let context = RecallContext::new(env, open_home(env)?, &project);
    if args.list {
        return list(&context, args.json);
    }
    match &args.forget {
        Some(id) => forget(env, &context, args, id),
        None => save(env, &context, args),
    }
}

fn save(env: &Env, context: &RecallContext, args: &LearnArgs) -> Result<(), CommandFailure> {
    let run = named_or_own_run(env, &context.home, args.run.as_deref())?;
    let text = learning_text(args)?;
    let draft = LearningDraft { text: &text, title: args.title.as_deref(), run: run.as_ref() };
    let (learning, novelty) = learning::save(context, &draft)?;
    if let Some(run) = &run {
        let (id, title) = (learning.id.clone(), learning.title.clone());
        super::declare::record_action(&context.home, run, RunChange::Learned { id, title })?;
    }
    if args.json {
        super::print_json(&LearningSavedView {
            v: 1,
            new: novelty == LearningNovelty::New,
            learning: learning_view(&learning),
        })?;
        return Ok(());
    }
    let what = match novelty {
        LearningNovelty::New => "saved",
        LearningNovelty::Known => "saved already",
    };
    term::out(&format!(
        "{}  {what}: {}\n  `{}`\n",
        paint(term::BOLD, &learning.id),
        safe_line(&learning.title),
        learning.path.display()
    ))?;
    Ok(())
}

fn learning_text(args: &LearnArgs) -> Result<String, CommandFailure> {
    if args.text != ["-"] {
        return Ok(args.text.join(" "));
    }
    if std::io::stdin().is_terminal() {
        term::err("write the learning, then press Ctrl-D on an empty line\n");
    }
    let bytes = stdin::read_all(std::io::stdin(), MAX_INPUT_BYTES).map_err(|error| {
        CommandFailure::caused_by("cannot read the learning from stdin", &error)
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The named run, or the run of the session of this shell, if there is one.
pub(super) fn named_or_own_run(
    env: &Env,
    home: &RalphHome,
    name: Option<&str>,
) -> Result<Option<RunId>, CommandFailure> {
    if name.is_some() {
        return super::declare::named_or_own_run(env, home, name).map(Some);
    }
    let Some(own) = host_env::host_session(env) else { return Ok(None) };
    match control::resolve_name(home, &own) {
        Ok(RunOrSession::Run(run)) => Ok(Some(run)),
        Ok(RunOrSession::Session(_)) | Err(ControlError::UnknownName(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The learnings of a project, newest first.
pub(super) fn list_project_learnings(
    env: &Env,
    args: &ListLearningsArgs,
) -> Result<(), CommandFailure> {
    let project = super::config::project_dir(env, args.project.as_deref())?;
    list(&RecallContext::new(env, open_home(env)?, &project), args.json)
}

fn list(context: &RecallContext, json: bool) -> Result<(), CommandFailure> {
    let learnings = learning::list(context);
    if json {
        let learnings = learnings.iter().map(learning_view).collect();
        super::print_json(&LearningListView { v: 1, project: context.project_name(), learnings })?;
        return Ok(());
    }
    let mut out = String::new();
    let now_ms = clock::now_ms();
    for learning in &learnings {
        let run = learning.run.as_ref().map_or(String::new(), |run| format!(" · run {run}"));
        let when = wording::ago(now_ms, learning.at_ms);
        let note = paint(term::DIM, &format!("{when}{run}"));
        let id = paint(term::BOLD, &safe_line(&learning.id));
        out.push_str(&format!("{id}  {}   {note}\n", safe_line(&learning.title)));
    }
    if learnings.is_empty() {
        let project = safe_line(&context.project_name());
        out.push_str(&format!("no learnings in `{project}` yet; `ralph learn \"…\"` saves one\n"));
    }
    term::out(&out)?;
    Ok(())
}

fn forget(
    env: &Env,
    context: &RecallContext,
    args: &LearnArgs,
    id: &str,
) -> Result<(), CommandFailure> {
    if is_agent(env, &context.home)? {
        let hint = "ask a person to do this in their own terminal";
        return Err(CommandFailure::new("an agent may not delete learnings", hint));
    }
    let learning = learning::forget(context, id)?;
    if args.json {
        super::print_json(&LearningForgottenView { v: 1, forgotten: &learning.id })?;
    } else {
        let id = paint(term::BOLD, &learning.id);
        term::out(&format!("{id}  forgotten: {}\n", safe_line(&learning.title)))?;
    }
    Ok(())
}

/// Whether an agent runs this command: the variables of its shell are set, or the host process of a run is one of our
/// ancestors. Fails if a run cannot be read, because its host process is unknown.
pub(super) fn is_agent(env: &Env, home: &RalphHome) -> Result<bool, CommandFailure> {
    if super::identify_caller(env) != CommandCaller::Person {
        return Ok(true);
    }
    for run in store::list_runs(home)? {
        match store::load_run(home, &run) {
            Ok(opened) if control::is_below_client(&opened) != Some(false) => return Ok(true),
            // Pruned in the meantime, or not above us.
            Ok(_) | Err(StoreError::NoSuchRun(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

impl From<LearnError> for CommandFailure {
    fn from(error: LearnError) -> Self {
        let hint = match error {
            LearnError::File(error) => return error.into(),
            LearnError::Empty => "give the text: `ralph learn \"…\"`",
            LearnError::TooLong(_) => "shorten it to a few sentences",
            LearnError::Unknown(_) => "`ralph list learnings` shows the ids",
        };
        Self::new(&error.to_string(), hint)
    }
}
