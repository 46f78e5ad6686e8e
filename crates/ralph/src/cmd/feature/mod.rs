//! `ralph feature …`: shows and edits the feature list of a loop.

pub(crate) mod feature_args;
mod feature_verify;

use super::open_home;
use crate::SUCCESS;
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use feature_args::{FeatureAddArgs, FeatureClaimArgs, FeatureListArgs, LoopArgs};
use ralph_core::gate::shell_quote;
use ralph_core::id::{RunId, SessionId};
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use ralph_deck::view::feature_list::{
    FeatureChangedView, check_text, count_text, duplicate_notes, feature_id, feature_list_view,
    feature_next_view, is_run_of_loop,
};
use ralph_deck::wording::safe_line;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer;
use ralph_home::store::{self, LoadedRun, StoreError};
use ralph_hook::control::ControlError;
use ralph_hook::overview;
use ralph_lists::list_approval;
use ralph_lists::loop_directory;
use ralph_lists::loops::{self, ClaimAction, ClaimResult, FeatureDraft, FeatureError, FeatureLoop};
use ralph_lists::run_lists;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

const LONGEST_TEXT: usize = 100;

/// The chosen loop, and the run that works on it.
pub(crate) struct ChosenLoop {
    pub home: RalphHome,
    pub project: PathBuf,
    pub selected: FeatureLoop,
    pub run: Option<overview::RunView>,
}

pub(crate) fn run(env: &Env, feature: &feature_args::FeatureCommand) -> Result<u8, CommandFailure> {
    match feature {
        feature_args::FeatureCommand::List(args) => list(env, args).map(|()| SUCCESS),
        feature_args::FeatureCommand::Add(args) => add(env, args).map(|()| SUCCESS),
        feature_args::FeatureCommand::Next(args) => next(env, args).map(|()| SUCCESS),
        feature_args::FeatureCommand::Verify(args) => feature_verify::run(env, args),
        feature_args::FeatureCommand::Claim(args) => claim(env, args).map(|()| SUCCESS),
    }
}

/// Chooses a loop: the named one, that of the session's run, the only one, or `current`.
pub(crate) fn choose_loop(env: &Env, which: &LoopArgs) -> Result<ChosenLoop, CommandFailure> {
    let home = open_home(env)?;
    let project = super::config::project_dir(env, None)?;
    let project = fs::resolve(&project).unwrap_or(project);
    let of = match &which.loop_name {
        Some(name) => loop_by_name(env, &project, name)?,
        None => default_loop(env, &home, &project)?,
    };
    let run = run_of_loop(&home, &of)?;
    Ok(ChosenLoop { home, project, selected: of, run })
}

/// The loops of the project and of the current directory, which win over loops of the same name.
pub(crate) fn find_loops(env: &Env, project: &Path) -> Result<Vec<FeatureLoop>, CommandFailure> {
    let mut loops = loops::find_loops(project)?;
    if let Some(here) = env.current_dir().and_then(|here| fs::resolve(&here))
        && here != *project
    {
        let near = loops::find_loops(&here)?;
        loops.retain(|one| !near.iter().any(|near| near.name == one.name));
        loops.extend(near);
        loops.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(loops)
}

pub(crate) fn loop_by_name(
    env: &Env,
    project: &Path,
    name: &str,
) -> Result<FeatureLoop, CommandFailure> {
    let loops = find_loops(env, project)?;
    if let Some(found) = loops.iter().find(|known| known.name == name) {
        return Ok(found.clone());
    }
    let here = env.current_dir().unwrap_or_default();
    let directory = ralph_hook::control::list_directory(Path::new(name), &here).ok();
    let has_list =
        |path: &PathBuf| fs::stat_no_follow(&path.join(loop_directory::FEATURES_FILE)).is_some();
    directory.filter(has_list).map(|path| FeatureLoop::from_directory(&path)).ok_or_else(|| {
        let what = format!("there is no loop `{}`", safe_line(name));
        let names = loops.iter().map(|one| one.name.as_str());
        let hint = match text::nearest(name, names) {
            Some(near) => format!("did you mean `{}`?", safe_line(near)),
            None if loops.is_empty() => "`ralph loop new NAME` creates one".to_string(),
            None => format!("the loops are {}", names_of(&loops)),
        };
        CommandFailure::new(&what, &hint)
    })
}

fn default_loop(
    env: &Env,
    home: &RalphHome,
    project: &Path,
) -> Result<FeatureLoop, CommandFailure> {
    if let Some(of) = session_loop(env, home)? {
        return Ok(of);
    }
    if let Some(directory) = env.loop_dir().and_then(|path| fs::resolve(&path)) {
        return Ok(FeatureLoop::from_directory(&directory));
    }
    let loops = find_loops(env, project)?;
    let usual = || {
        loops
            .iter()
            .find(|one| project.join(loop_directory::DEFAULT_DIRECTORY).ends_with(&one.name))
    };
    match loops.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            let what = format!("there is no loop in `{}`", safe_line(&project.to_string_lossy()));
            Err(CommandFailure::new(&what, "`ralph loop new NAME` creates one"))
        }
        [_, ..] => usual().cloned().ok_or_else(|| {
            let hint = format!("give `--loop` one of {}", names_of(&loops));
            CommandFailure::new("no loop given", &hint)
        }),
    }
}

fn names_of(loops: &[FeatureLoop]) -> String {
    loops.iter().map(|one| safe_line(&one.name)).collect::<Vec<_>>().join(", ")
}

/// The loop of the run that holds the session of this shell.
fn session_loop(env: &Env, home: &RalphHome) -> Result<Option<FeatureLoop>, CommandFailure> {
    let session = host_env::host_session(env).and_then(|session| SessionId::parse(&session));
    let Some(session) = session else { return Ok(None) };
    let pointer = session_pointer::read_pointer(home, &session).map_err(ControlError::from)?;
    let Some(pointer) = pointer.filter(|pointer| !pointer.ended) else { return Ok(None) };
    match store::load_run(home, &pointer.run) {
        Ok(LoadedRun { run, .. }) => {
            let directory = run.features.first().map(Path::new);
            Ok(directory.map(FeatureLoop::from_directory))
        }
        // It was pruned.
        Err(StoreError::NoSuchRun(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The run that works on the loop, if there is one.
fn run_of_loop(
    home: &RalphHome,
    of: &FeatureLoop,
) -> Result<Option<overview::RunView>, CommandFailure> {
    let (runs, _) = overview::list_run_views(home)?;
    Ok(runs.into_iter().find(|view| is_run_of_loop(view, of)))
}

impl ChosenLoop {
    pub(crate) fn run_id(&self) -> Option<&RunId> {
        self.run.as_ref().map(|view| &view.opened.run.id)
    }

    fn items(&self) -> Result<Vec<ListItem>, CommandFailure> {
        run_lists::read_list(&self.selected.list())
            .map_err(|error| FeatureError::from(error).into())
    }
}

pub(crate) fn list(env: &Env, args: &FeatureListArgs) -> Result<(), CommandFailure> {
    let chosen = choose_loop(env, &args.which)?;
    let items = chosen.items()?;
    if args.which.json {
        super::print_json(&feature_list_view(&chosen.selected, chosen.run_id(), &items))?;
        return Ok(());
    }
    let mut out = format!(
        "{}  {}\n",
        paint(term::BOLD, &safe_line(&chosen.selected.name)),
        count_text(&items)
    );
    let width = items.iter().map(|item| feature_id(item).chars().count()).max().unwrap_or(0);
    for item in &items {
        let word = if item.done { "claimed" } else { "open   " };
        let text = text::clean_line(&item.text, LONGEST_TEXT);
        let check = check_text(item).map(|check| format!("  check {check}")).unwrap_or_default();
        let line =
            format!("  {:<width$}  {word}  {text}{}", feature_id(item), paint(term::DIM, &check));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for note in duplicate_notes(&items) {
        out.push_str(&format!("{}: {note}\n", paint(term::DIM, "note")));
    }
    if let Some(run) = chosen.run_id() {
        out.push_str(&format!("run {run} works on it; `ralph status {run}` shows what counts\n"));
    }
    term::out(&out)?;
    Ok(())
}

fn next(env: &Env, args: &FeatureListArgs) -> Result<(), CommandFailure> {
    let chosen = choose_loop(env, &args.which)?;
    let items = chosen.items()?;
    let open = items.iter().filter(|item| !item.done).count();
    let first = items.iter().find(|item| !item.done);
    if args.which.json {
        super::print_json(&feature_next_view(&chosen.selected, &items))?;
        return Ok(());
    }
    let Some(item) = first else {
        let checked = items.iter().filter(|item| item.check.is_some()).count();
        let then = match checked {
            0 => "what counts is that every required gate passes".to_string(),
            _ => format!("`ralph feature verify` runs the checks that count ({checked})"),
        };
        term::out(&format!("nothing is open: {}; {then}\n", count_text(&items)))?;
        return Ok(());
    };
    let head =
        format!("{}  {}", paint(term::BOLD, &item.name), text::clean_line(&item.text, 2_000));
    let mut out = format!("{}\n", head.trim_end());
    for (at, step) in item.steps.iter().enumerate() {
        out.push_str(&format!("  {}. {}\n", at + 1, text::clean_line(step, 4_000)));
    }
    let name = shell_quote(&feature_id(item));
    match check_text(item) {
        Some(check) => out.push_str(&format!(
            "check {check}; only its result counts: `ralph feature verify {name}`\n"
        )),
        None => out.push_str("no check; a claim counts while every required gate passes\n"),
    }
    out.push_str(&format!(
        "{open} of {} open; when it is done, `ralph feature claim {name}`\n",
        items.len()
    ));
    term::out(&out)?;
    Ok(())
}

fn add(env: &Env, args: &FeatureAddArgs) -> Result<(), CommandFailure> {
    let chosen = choose_loop(env, &args.which)?;
    let description = args.description.trim().to_string();
    if description.is_empty() {
        let hint =
            "describe what a user can do once it is done: `ralph feature add \"Export as CSV\"`";
        return Err(CommandFailure::new("the description is empty", hint));
    }
    if args.verify_shell.as_ref().is_some_and(|line| line.trim().is_empty()) {
        let hint = "give `--verify-shell` the line that `/bin/sh -c` should run";
        return Err(CommandFailure::new("the line of the check is empty", hint));
    }
    let draft = FeatureDraft {
        id: args.id.clone(),
        description,
        steps: args.steps.clone(),
        passes: false,
        verify: args.check(),
    };
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let id = loops::add_feature(&chosen.home, &chosen.selected, &draft, &deadline)?;
    if args.which.json {
        let name = &chosen.selected.name;
        let changed = FeatureChangedView { v: 1, name, id: &id, claimed: false, changed: true };
        super::print_json(&changed)?;
        return Ok(());
    }
    let mut out = format!("feature {id} was added to `{}`\n", safe_line(&chosen.selected.name));
    if draft.verify.is_some() {
        out.push_str(&format!(
            "next: `{}` shows its check and asks for approval\n",
            trust_command(env, &chosen.selected)
        ));
    }
    if let Some(run) = chosen.run_id() {
        out.push_str(&format!(
            "run {run} counts it too, as a claim: its policy was sealed before\n"
        ));
    }
    term::out(&out)?;
    Ok(())
}

/// The command that approves the checks of a loop.
pub(crate) fn trust_command(env: &Env, of: &FeatureLoop) -> String {
    let list = of.list();
    let here = env.current_dir().and_then(|here| fs::resolve(&here)).unwrap_or_default();
    list_approval::trust_command(list.kind, list.path.strip_prefix(&here).unwrap_or(&list.path))
}

fn claim(env: &Env, args: &FeatureClaimArgs) -> Result<(), CommandFailure> {
    let chosen = choose_loop(env, &args.which)?;
    let wanted = if args.undo { ClaimAction::Withdrawn } else { ClaimAction::Made };
    let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
    let changed = loops::set_claim(&chosen.home, &chosen.selected, &args.id, wanted, &deadline)?;
    let list = chosen.items()?;
    let name = args.id.trim_start_matches("feature ");
    if args.which.json {
        let (claimed, changed) = (wanted == ClaimAction::Made, changed == ClaimResult::Changed);
        let json =
            FeatureChangedView { v: 1, name: &chosen.selected.name, id: name, claimed, changed };
        super::print_json(&json)?;
        return Ok(());
    }
    let item = list.iter().find(|item| feature_id(item) == name);
    let how = match (wanted, changed) {
        (ClaimAction::Made, ClaimResult::Changed) => "is claimed",
        (ClaimAction::Made, ClaimResult::Unchanged) => "was claimed already",
        (ClaimAction::Withdrawn, ClaimResult::Changed) => "is open again",
        (ClaimAction::Withdrawn, ClaimResult::Unchanged) => "was open already",
    };
    let mut out = format!("feature {} {how}", safe_line(name));
    if wanted == ClaimAction::Made {
        out.push_str(&match item.and_then(check_text) {
            Some(check) => format!("; this is only a claim: what counts is that {check} passes"),
            None => "; this is only a claim: every required gate has to pass too".to_string(),
        });
    }
    out.push('\n');
    term::out(&out)?;
    Ok(())
}
