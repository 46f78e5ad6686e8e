//! `ralph feature …`: shows and edits the feature list of a loop.

pub(crate) mod args;
mod verify;

use super::home;
use crate::SUCCESS;
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::safe;
use args::{FeatureAdd, FeatureClaim, FeatureList, Which};
use ralph_core::gate::quoted;
use ralph_core::id::{RunId, SessionId};
use ralph_core::run::Phase;
use ralph_core::source::list::Item;
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_home::session_pointer::{self, Ended};
use ralph_home::store;
use ralph_hook::overview;
use ralph_lists::features::{self, Changed, Claim, Draft, FeatureError, Loop};
use ralph_lists::lists;
use ralph_lists::loop_directory;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::path::{Path, PathBuf};

const LONGEST_TEXT: usize = 100;

/// The chosen loop, and the run that works on it.
pub(crate) struct Chosen {
    pub home: Home,
    pub project: PathBuf,
    pub of: Loop,
    pub run: Option<overview::RunView>,
}

#[derive(Serialize)]
struct ListJson<'a> {
    v: u8,
    #[serde(rename = "loop")]
    name: &'a str,
    directory: String,
    run: Option<&'a str>,
    total: usize,
    claimed: usize,
    open: usize,
    checked: usize,
    features: Vec<FeatureJson<'a>>,
}

#[derive(Serialize)]
struct NextJson<'a> {
    v: u8,
    #[serde(rename = "loop")]
    name: &'a str,
    open: usize,
    feature: Option<FeatureJson<'a>>,
}

#[derive(Serialize)]
struct FeatureJson<'a> {
    id: &'a str,
    description: &'a str,
    steps: &'a [String],
    claimed: bool,
    check: Option<&'a [String]>,
}

#[derive(Serialize)]
struct ChangedJson<'a> {
    v: u8,
    #[serde(rename = "loop")]
    name: &'a str,
    id: &'a str,
    claimed: bool,
    changed: bool,
}

pub(crate) fn run(env: &Env, feature: &args::Feature) -> Result<u8, Failure> {
    match feature {
        args::Feature::List(args) => list(env, args).map(|()| SUCCESS),
        args::Feature::Add(args) => add(env, args).map(|()| SUCCESS),
        args::Feature::Next(args) => next(env, args).map(|()| SUCCESS),
        args::Feature::Verify(args) => verify::run(env, args),
        args::Feature::Claim(args) => claim(env, args).map(|()| SUCCESS),
    }
}

/// Chooses a loop: the named one, that of the session's run, the only one, or `current`.
pub(crate) fn chosen(env: &Env, which: &Which) -> Result<Chosen, Failure> {
    let home = home(env)?;
    let project = super::config::project(env, None)?;
    let project = fs::resolve(&project).unwrap_or(project);
    let of = match &which.of {
        Some(name) => named(env, &project, name)?,
        None => meant(env, &home, &project)?,
    };
    let run = holding(&home, &of);
    Ok(Chosen { home, project, of, run })
}

/// The loops of the project and of the current directory, which win over loops of the same name.
pub(crate) fn loops(env: &Env, project: &Path) -> Result<Vec<Loop>, Failure> {
    let mut loops = features::loops(project)?;
    if let Some(here) = env.current_dir().and_then(|here| fs::resolve(&here))
        && here != *project
    {
        let near = features::loops(&here)?;
        loops.retain(|one| !near.iter().any(|near| near.name == one.name));
        loops.extend(near);
        loops.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(loops)
}

pub(crate) fn named(env: &Env, project: &Path, name: &str) -> Result<Loop, Failure> {
    let loops = loops(env, project)?;
    if let Some(found) = loops.iter().find(|known| known.name == name) {
        return Ok(found.clone());
    }
    let here = env.current_dir().unwrap_or_default();
    let directory = super::start::list_directory(Path::new(name), &here).ok();
    let has_list = |path: &PathBuf| fs::stat_link(&path.join(loop_directory::FEATURES)).is_some();
    directory.filter(has_list).map(|path| Loop::at(&path)).ok_or_else(|| {
        let what = format!("there is no loop `{}`", safe(name));
        let names = loops.iter().map(|one| one.name.as_str());
        let hint = match text::nearest(name, names) {
            Some(near) => format!("did you mean `{}`?", safe(near)),
            None if loops.is_empty() => "`ralph loop new NAME` creates one".to_string(),
            None => format!("the loops are {}", names_of(&loops)),
        };
        Failure::new(&what, &hint)
    })
}

fn meant(env: &Env, home: &Home, project: &Path) -> Result<Loop, Failure> {
    if let Some(of) = of_session(env, home) {
        return Ok(of);
    }
    if let Some(directory) = env.loop_dir().and_then(|path| fs::resolve(&path)) {
        return Ok(Loop::at(&directory));
    }
    let loops = loops(env, project)?;
    let usual = || {
        loops
            .iter()
            .find(|one| project.join(loop_directory::DEFAULT_DIRECTORY).ends_with(&one.name))
    };
    match loops.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            let what = format!("there is no loop in `{}`", safe(&project.to_string_lossy()));
            Err(Failure::new(&what, "`ralph loop new NAME` creates one"))
        }
        [_, ..] => usual().cloned().ok_or_else(|| {
            let hint = format!("give `--loop` one of {}", names_of(&loops));
            Failure::new("no loop given", &hint)
        }),
    }
}

fn names_of(loops: &[Loop]) -> String {
    loops.iter().map(|one| safe(&one.name)).collect::<Vec<_>>().join(", ")
}

/// The loop of the run that holds the session of this shell.
fn of_session(env: &Env, home: &Home) -> Option<Loop> {
    let session = SessionId::parse(&env.claude_session()?)?;
    let pointer = session_pointer::pointer(home, &session).ok()??;
    if pointer.ended != Ended::No {
        return None;
    }
    let run = store::load(home, &pointer.run).ok()?.run;
    run.features.first().map(|directory| Loop::at(Path::new(directory)))
}

/// The run that works on the loop, if there is one.
fn holding(home: &Home, of: &Loop) -> Option<overview::RunView> {
    let (runs, _) = overview::runs(home).ok()?;
    runs.into_iter().find(|view| holds(view, of))
}

pub(crate) fn holds(view: &overview::RunView, of: &Loop) -> bool {
    !matches!(view.phase, Phase::Ended(_))
        && view.opened.run.features.iter().any(|directory| *of.directory == **directory)
}

impl Chosen {
    pub(crate) fn run_id(&self) -> Option<&RunId> {
        self.run.as_ref().map(|view| &view.opened.run.id)
    }

    fn items(&self) -> Result<Vec<Item>, Failure> {
        lists::read(&self.of.list()).map_err(|error| FeatureError::from(error).into())
    }
}

fn list(env: &Env, args: &FeatureList) -> Result<(), Failure> {
    let chosen = chosen(env, &args.which)?;
    let items = chosen.items()?;
    let claimed = items.iter().filter(|item| item.done).count();
    let checked = items.iter().filter(|item| item.check.is_some()).count();
    if args.which.json {
        super::print_json(&ListJson {
            v: 1,
            name: &chosen.of.name,
            directory: chosen.of.directory.display().to_string(),
            run: chosen.run_id().map(RunId::as_str),
            total: items.len(),
            claimed,
            open: items.len() - claimed,
            checked,
            features: items.iter().map(json).collect(),
        })?;
        return Ok(());
    }
    let mut out = format!("{}  {}\n", paint(term::BOLD, &safe(&chosen.of.name)), counts(&items));
    let width = items.iter().map(|item| id(item).chars().count()).max().unwrap_or(0);
    for item in &items {
        let word = if item.done { "claimed" } else { "open   " };
        let text = text::line(&item.text, LONGEST_TEXT);
        let check = check(item).map(|check| format!("  check {check}")).unwrap_or_default();
        let line = format!("  {:<width$}  {word}  {text}{}", id(item), paint(term::DIM, &check));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for note in notes(&items) {
        out.push_str(&format!("{}: {note}\n", paint(term::DIM, "note")));
    }
    if let Some(run) = chosen.run_id() {
        out.push_str(&format!("run {run} works on it; `ralph status {run}` shows what counts\n"));
    }
    term::out(&out)?;
    Ok(())
}

/// `5 features: 2 claimed, 3 open, 1 with a check`
pub(crate) fn counts(items: &[Item]) -> String {
    let claimed = items.iter().filter(|item| item.done).count();
    let checked = items.iter().filter(|item| item.check.is_some()).count();
    let ending = if items.len() == 1 { "" } else { "s" };
    let mut out = format!("{} feature{ending}", items.len());
    let parts = [(claimed, "claimed"), (items.len() - claimed, "open"), (checked, "with a check")];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !parts.is_empty() {
        out.push_str(&format!(": {}", parts.join(", ")));
    }
    out
}

/// Warnings about the list.
fn notes(items: &[Item]) -> Vec<String> {
    let again = items.iter().filter(|item| id(item).contains(' ')).count();
    let mut notes = Vec::new();
    if again > 0 {
        let what = match again {
            1 => "1 id repeats".to_string(),
            _ => format!("{again} ids repeat"),
        };
        notes.push(format!("{what} an earlier one and got a number appended"));
    }
    notes
}

fn next(env: &Env, args: &FeatureList) -> Result<(), Failure> {
    let chosen = chosen(env, &args.which)?;
    let items = chosen.items()?;
    let open = items.iter().filter(|item| !item.done).count();
    let first = items.iter().find(|item| !item.done);
    if args.which.json {
        let name = &chosen.of.name;
        super::print_json(&NextJson { v: 1, name, open, feature: first.map(json) })?;
        return Ok(());
    }
    let Some(item) = first else {
        let checked = items.iter().filter(|item| item.check.is_some()).count();
        let then = match checked {
            0 => "what counts is that every required gate passes".to_string(),
            _ => format!("`ralph feature verify` runs the checks that count ({checked})"),
        };
        term::out(&format!("nothing is open: {}; {then}\n", counts(&items)))?;
        return Ok(());
    };
    let head = format!("{}  {}", paint(term::BOLD, &item.name), text::line(&item.text, 2_000));
    let mut out = format!("{}\n", head.trim_end());
    for (at, step) in item.steps.iter().enumerate() {
        out.push_str(&format!("  {}. {}\n", at + 1, text::line(step, 4_000)));
    }
    let name = quoted(&id(item));
    match check(item) {
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

fn add(env: &Env, args: &FeatureAdd) -> Result<(), Failure> {
    let chosen = chosen(env, &args.which)?;
    let description = args.description.trim().to_string();
    if description.is_empty() {
        let hint =
            "describe what a user can do once it is done: `ralph feature add \"Export as CSV\"`";
        return Err(Failure::new("the description is empty", hint));
    }
    let draft = Draft {
        id: args.id.clone(),
        description,
        steps: args.steps.clone(),
        passes: false,
        verify: args.verify.then(|| args.command.clone()),
    };
    let deadline = Deadline::after(super::control::PATIENCE);
    let id = features::add(&chosen.home, &chosen.of, &draft, &deadline)?;
    if args.which.json {
        let name = &chosen.of.name;
        let changed = ChangedJson { v: 1, name, id: &id, claimed: false, changed: true };
        super::print_json(&changed)?;
        return Ok(());
    }
    let mut out = format!("feature {id} was added to `{}`\n", safe(&chosen.of.name));
    if draft.verify.is_some() {
        out.push_str(&format!(
            "next: `{}` shows its check and asks for approval\n",
            trust(env, &chosen.of)
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
pub(crate) fn trust(env: &Env, of: &Loop) -> String {
    let list = of.list();
    let here = env.current_dir().and_then(|here| fs::resolve(&here)).unwrap_or_default();
    lists::trust_command(list.kind, list.path.strip_prefix(&here).unwrap_or(&list.path))
}

fn claim(env: &Env, args: &FeatureClaim) -> Result<(), Failure> {
    let chosen = chosen(env, &args.which)?;
    let wanted = if args.undo { Claim::Undone } else { Claim::Made };
    let deadline = Deadline::after(super::control::PATIENCE);
    let changed = features::claim(&chosen.home, &chosen.of, (&args.id, wanted), &deadline)?;
    let list = chosen.items()?;
    let name = args.id.trim_start_matches("feature ");
    if args.which.json {
        let (claimed, changed) = (wanted == Claim::Made, changed == Changed::Yes);
        let json = ChangedJson { v: 1, name: &chosen.of.name, id: name, claimed, changed };
        super::print_json(&json)?;
        return Ok(());
    }
    let item = list.iter().find(|item| id(item) == name);
    let how = match (wanted, changed) {
        (Claim::Made, Changed::Yes) => "is claimed",
        (Claim::Made, Changed::No) => "was claimed already",
        (Claim::Undone, Changed::Yes) => "is open again",
        (Claim::Undone, Changed::No) => "was open already",
    };
    let mut out = format!("feature {} {how}", safe(name));
    if wanted == Claim::Made {
        out.push_str(&match item.and_then(check) {
            Some(check) => format!("; this is only a claim: what counts is that {check} passes"),
            None => "; this is only a claim: every required gate has to pass too".to_string(),
        });
    }
    out.push('\n');
    term::out(&out)?;
    Ok(())
}

/// The id of a feature, as on the command line.
fn id(item: &Item) -> String {
    item.name.strip_prefix("feature ").unwrap_or(&item.name).to_string()
}

fn check(item: &Item) -> Option<String> {
    let words = item.check.as_ref()?;
    let shown = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    Some(format!("`{}`", text::line(&shown, 200).replace('`', "'")))
}

fn json(item: &Item) -> FeatureJson<'_> {
    FeatureJson {
        id: item.name.strip_prefix("feature ").unwrap_or(&item.name),
        description: &item.text,
        steps: &item.steps,
        claimed: item.done,
        check: item.check.as_deref(),
    }
}
