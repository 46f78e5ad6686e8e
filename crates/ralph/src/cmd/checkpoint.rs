//! `ralph checkpoint`: lists, compares, restores, creates and deletes the checkpoints of a run.

use super::{caller, home, print_json};
use crate::cli::{
    Checkpoint as Asked, CheckpointDiff, CheckpointList, CheckpointOf, CheckpointRestore,
};
use crate::report::Failure;
use crate::term::{self, paint};
use crate::wording::{self, safe};
use ralph_core::id::RunId;
use ralph_core::run::Phase;
use ralph_core::text;
use ralph_git::checkpoint::{
    Changed, Checkpoint, Cut, Failed, Fresh, Lines, Plan, Repository, Side, Snapshot, Status, Why,
};
use ralph_git::tree::{self, Listing, Mode, Survey};
use ralph_home::paths::Home;
use ralph_home::store;
use ralph_hook::control::{self, Named};
use ralph_hook::overview;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

/// Long enough for a large tree on a slow disk; a person can interrupt it.
const PATIENCE: Duration = Duration::from_mins(10);
const LARGEST_PATCH: usize = 4 * 1024 * 1024;
const NAMED: usize = 20;
const LONGEST_ANSWER: u64 = 64;

/// A run with the repository of its checkpoints.
struct Scene {
    home: Home,
    run: RunId,
    repository: Repository,
    deadline: Deadline,
}

pub(crate) fn run(env: &Env, asked: &Asked) -> Result<(), Failure> {
    match asked {
        Asked::List(args) => list(env, args),
        Asked::Diff(args) => diff(env, args),
        Asked::Restore(args) => restore(env, args),
        Asked::Make(args) => make(env, args),
        Asked::Prune(args) => prune(env, args),
    }
}

impl Scene {
    fn of(env: &Env, name: Option<&str>) -> Result<Self, Failure> {
        let home = home(env)?;
        let named = match name {
            Some(name) => Some(super::named(&home, name)?),
            None => overview::runs(&home)?
                .0
                .into_iter()
                .next()
                .map(|last| Named::Run(last.opened.run.id)),
        };
        let run = match named {
            Some(Named::Run(run)) => run,
            Some(Named::Session(session)) => {
                let what = format!("no run owns session `{session}`, so it has no checkpoints");
                return Err(Failure::new(&what, "`ralph status --all` lists all runs"));
            }
            None => {
                let hint = "`ralph start --help` shows how to start one";
                return Err(Failure::new("there is no run yet", hint));
            }
        };
        let project = PathBuf::from(store::load(&home, &run)?.run.project);
        let deadline = Deadline::after(PATIENCE);
        let repository = Repository::open(&home, &run, &project, &deadline)?;
        Ok(Self { home, run, repository, deadline })
    }

    /// ralph's home is never part of the project, even if it lies inside it.
    fn excluded(&self) -> Vec<PathBuf> {
        vec![self.home.root().to_path_buf()]
    }

    fn listing(&self, deadline: &Deadline) -> Result<Listing, Failure> {
        let survey = Survey {
            project: self.repository.root(),
            exclude: &self.excluded(),
            cache: Some(&self.home.stat_cache(self.repository.root())),
            deadline,
        };
        tree::list(&survey)
            .map_err(|error| Failure::because("cannot list the current files", &error))
    }

    fn present(&self) -> Result<Checkpoint, Failure> {
        let (listing, excluded) = (self.listing(&self.deadline)?, self.excluded());
        let snapshot = Snapshot { listing: &listing, excluded: &excluded, why: Why::Asked };
        Ok(self.repository.present(&snapshot, &self.deadline)?)
    }

    fn side(&self, side: Option<Side>) -> Option<SideJson> {
        let Side { mode, id } = side?;
        Some(SideJson { mode: mode_name(mode), id: self.repository.hex(&id) })
    }

    fn files(&self, changes: &[Changed], lines: &[Lines]) -> Vec<FileJson> {
        let counted: HashMap<_, _> = lines.iter().map(|one| (&one.path, one)).collect();
        changes
            .iter()
            .map(|one| {
                let lines = counted.get(&one.path);
                FileJson {
                    path: one.path.to_string_lossy().into_owned(),
                    status: status_name(one.status),
                    added: lines.and_then(|lines| lines.added),
                    removed: lines.and_then(|lines| lines.removed),
                    before: self.side(one.before),
                    after: self.side(one.after),
                }
            })
            .collect()
    }
}

#[derive(Serialize)]
struct ListJson<'a> {
    v: u8,
    run: &'a str,
    root: String,
    checkpoints: Vec<CheckpointJson>,
}

#[derive(Serialize)]
struct CheckpointJson {
    number: u32,
    at: String,
    why: String,
    commit: String,
    tree: String,
}

#[derive(Serialize)]
struct DiffJson<'a> {
    v: u8,
    run: &'a str,
    from: u32,
    to: Option<u32>,
    files: Vec<FileJson>,
}

#[derive(Serialize)]
struct FileJson {
    path: String,
    status: &'static str,
    added: Option<u64>,
    removed: Option<u64>,
    before: Option<SideJson>,
    after: Option<SideJson>,
}

#[derive(Serialize)]
struct SideJson {
    mode: &'static str,
    id: String,
}

#[derive(Serialize)]
struct RestoreJson<'a> {
    v: u8,
    run: &'a str,
    number: u32,
    dry_run: bool,
    /// The checkpoint of the state before the restore; a dry run makes none.
    before: Option<u32>,
    files: Vec<FileJson>,
    uncovered: Vec<String>,
    failed: Vec<FailedJson>,
}

#[derive(Serialize)]
struct FailedJson {
    path: String,
    why: String,
}

#[derive(Serialize)]
struct MadeJson<'a> {
    v: u8,
    run: &'a str,
    number: u32,
    new: bool,
    unsettled: Vec<String>,
}

#[derive(Serialize)]
struct PruneJson<'a> {
    v: u8,
    run: &'a str,
    pruned: usize,
}

fn list(env: &Env, args: &CheckpointList) -> Result<(), Failure> {
    let scene = Scene::of(env, args.name.as_deref())?;
    let found = scene.repository.list(&scene.deadline)?;
    let (run, repository) = (scene.run.as_str(), &scene.repository);
    if args.json {
        let checkpoints = found.iter().map(|one| CheckpointJson {
            number: one.number,
            at: clock::rfc3339(one.at_ms),
            why: one.why.to_string(),
            commit: repository.hex(&one.commit),
            tree: repository.hex(&one.tree),
        });
        let (root, checkpoints) =
            (repository.root().to_string_lossy().into_owned(), checkpoints.collect());
        print_json(&ListJson { v: 1, run, root, checkpoints })?;
        return Ok(());
    }
    let mut out = format!("{}  ", paint(term::BOLD, run));
    out.push_str(&match found.len() {
        0 => format!("no checkpoint yet; `ralph checkpoint make {run}` creates one\n"),
        count => {
            let root = safe(&repository.root().to_string_lossy());
            format!("{} of `{root}`\n", counted(count, "checkpoint"))
        }
    });
    for one in &found {
        let why = safe(&one.why.to_string());
        out.push_str(&format!("{:>9}  {}  {why}\n", one.number, wording::when(one.at_ms)));
    }
    term::out(&out)?;
    Ok(())
}

fn diff(env: &Env, args: &CheckpointDiff) -> Result<(), Failure> {
    let scene = Scene::of(env, Some(&args.name))?;
    let (repository, deadline) = (&scene.repository, &scene.deadline);
    let from = match args.from {
        Some(number) => repository.find(number, deadline)?,
        None => repository.list(deadline)?.into_iter().next().ok_or_else(|| {
            let what = format!("run `{}` has no checkpoint to compare with", scene.run);
            Failure::new(&what, &format!("`ralph checkpoint make {}` creates one", scene.run))
        })?,
    };
    let to = match args.to {
        Some(number) => repository.find(number, deadline)?,
        None => scene.present()?,
    };
    if args.json {
        let changes = repository.diff(&from, &to, deadline)?;
        let lines = repository.lines(&from, &to, deadline)?;
        let (run, files) = (scene.run.as_str(), scene.files(&changes, &lines));
        print_json(&DiffJson { v: 1, run, from: from.number, to: args.to, files })?;
    } else if args.stat {
        let changes = repository.diff(&from, &to, deadline)?;
        let lines = repository.lines(&from, &to, deadline)?;
        term::out(&stat(&scene.files(&changes, &lines)))?;
    } else {
        let patch = repository.patch((&from, &to), LARGEST_PATCH, deadline)?;
        term::out(&painted(&text::clean(&String::from_utf8_lossy(&patch.bytes))))?;
        if patch.cut == Cut::Yes {
            term::err("the diff is cut off here; `--stat` lists every file\n");
        }
    }
    Ok(())
}

fn stat(files: &[FileJson]) -> String {
    let mut out = String::new();
    for file in files {
        let lines = match (file.added, file.removed) {
            (Some(added), Some(removed)) => format!(
                "{} {}",
                paint(term::GOOD, &format!("{:>7}", format!("+{added}"))),
                paint(term::BAD, &format!("{:>7}", format!("-{removed}")))
            ),
            (_, None) | (None, _) => format!("{:>15}", "not text"),
        };
        out.push_str(&format!("{:<12} {lines}  {}\n", file.status, safe(&file.path)));
    }
    out
}

fn painted(patch: &str) -> String {
    let mut out = String::with_capacity(patch.len());
    for line in patch.lines() {
        match line.as_bytes().first() {
            Some(b'+') => out.push_str(&paint(term::GOOD, line)),
            Some(b'-') => out.push_str(&paint(term::BAD, line)),
            Some(b'@') => out.push_str(&paint(term::DIM, line)),
            Some(b'd') => out.push_str(&paint(term::BOLD, line)),
            Some(_) | None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn restore(env: &Env, args: &CheckpointRestore) -> Result<(), Failure> {
    let scene = Scene::of(env, Some(&args.name))?;
    let (repository, deadline) = (&scene.repository, &scene.deadline);
    let target = repository.find(args.number, deadline)?;
    if !args.dry_run {
        control::by_person(&scene.home, &scene.run, caller(env), "rewind")?;
        if !args.yes && (args.json || !std::io::stdin().is_terminal()) {
            let what = "not a terminal, so I can't ask whether to restore";
            let hint = "`--dry-run` shows what would change, `--yes` skips the question";
            return Err(Failure::new(what, hint));
        }
    }
    if args.dry_run || !args.yes {
        let plan = repository.plan(&scene.present()?, &target, deadline)?;
        if args.dry_run && args.json {
            return print_json(&restore_json(&scene, args, (None, &plan), &[])).map(drop);
        }
        term::out(&planned(&plan, if args.dry_run { usize::MAX } else { NAMED }))?;
        if args.dry_run || plan.changes.is_empty() || !is_confirmed(args.number)? {
            return Ok(());
        }
    }
    // A new deadline, because the person may have taken a while to answer.
    let deadline = Deadline::after(PATIENCE);
    let (listing, excluded) = (scene.listing(&deadline)?, scene.excluded());
    let why = Why::Restore(args.number);
    let snapshot = Snapshot { listing: &listing, excluded: &excluded, why };
    let restored = repository.restore(args.number, &snapshot, &deadline)?;
    let (plan, before) = (&restored.plan, restored.before.checkpoint.number);
    if args.json {
        print_json(&restore_json(&scene, args, (Some(before), plan), &restored.failed))?;
    } else {
        term::out(&done(&scene.run, args.number, before, plan))?;
    }
    refused(&scene.run, before, &restored.failed)
}

fn restore_json<'a>(
    scene: &'a Scene,
    args: &CheckpointRestore,
    (before, plan): (Option<u32>, &Plan),
    failed: &[Failed],
) -> RestoreJson<'a> {
    let lossy = |path: &OsStr| path.to_string_lossy().into_owned();
    RestoreJson {
        v: 1,
        run: scene.run.as_str(),
        number: args.number,
        dry_run: args.dry_run,
        before,
        files: scene.files(&plan.changes, &[]),
        uncovered: plan.uncovered.iter().map(|one| lossy(&one.path)).collect(),
        failed: failed
            .iter()
            .map(|one| FailedJson { path: lossy(&one.path), why: one.why.clone() })
            .collect(),
    }
}

fn planned(plan: &Plan, most: usize) -> String {
    let mut out = String::new();
    for one in plan.changes.iter().take(most) {
        // The changes lead from now back to the checkpoint: a file that was added since is deleted.
        let what = match one.status {
            Status::Added => paint(term::GOOD, "create    "),
            Status::Deleted => paint(term::BAD, "remove    "),
            Status::Modified | Status::TypeChanged => paint(term::ODD, "rewrite   "),
        };
        out.push_str(&format!("{what}  {}\n", safe(&one.path.to_string_lossy())));
    }
    if plan.changes.len() > most {
        out.push_str(&format!("and {} more\n", plan.changes.len() - most));
    }
    for one in &plan.uncovered {
        let path = safe(&one.path.to_string_lossy());
        out.push_str(&format!("leave       {path} (a separate repository)\n"));
    }
    if plan.changes.is_empty() {
        out.push_str("every file is already as in the checkpoint\n");
    }
    out
}

fn is_confirmed(number: u32) -> Result<bool, Failure> {
    term::err(&format!("restore the files to checkpoint {number}? [y/N] "));
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .take(LONGEST_ANSWER)
        .read_line(&mut answer)
        .map_err(|error| Failure::because("cannot read the answer", &error))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn done(run: &RunId, number: u32, before: u32, plan: &Plan) -> String {
    if plan.changes.is_empty() {
        return format!(
            "{}  every file is already as in the checkpoint\n",
            paint(term::BOLD, run.as_str())
        );
    }
    let gone = plan.changes.iter().filter(|one| one.status == Status::Deleted).count();
    let written = plan.changes.len() - gone;
    let mut out = format!(
        "{}  checkpoint {number} restored: {} written, {gone} removed\n",
        paint(term::BOLD, run.as_str()),
        counted(written, "file")
    );
    out.push_str(&format!("      `ralph checkpoint restore {run} {before}` undoes it\n"));
    for one in &plan.uncovered {
        let path = safe(&one.path.to_string_lossy());
        out.push_str(&format!("      `{path}` is a separate repository and was left alone\n"));
    }
    out
}

fn refused(run: &RunId, before: u32, failed: &[Failed]) -> Result<(), Failure> {
    if failed.is_empty() {
        return Ok(());
    }
    for one in failed {
        let path = safe(&one.path.to_string_lossy());
        term::err(&format!("`{path}`: {}\n", safe(&one.why)));
    }
    let what = format!("{} could not be restored", counted(failed.len(), "file"));
    let hint =
        format!("nothing is lost; `ralph checkpoint restore {run} {before}` undoes the rest");
    Err(Failure::new(&what, &hint))
}

fn make(env: &Env, args: &CheckpointOf) -> Result<(), Failure> {
    let scene = Scene::of(env, Some(&args.name))?;
    let (listing, excluded) = (scene.listing(&scene.deadline)?, scene.excluded());
    let snapshot = Snapshot { listing: &listing, excluded: &excluded, why: Why::Asked };
    let made = scene.repository.make(&snapshot, &scene.deadline)?;
    let (run, number) = (scene.run.as_str(), made.checkpoint.number);
    let unsettled: Vec<_> =
        made.unsettled.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    if args.json {
        let new = made.fresh == Fresh::New;
        print_json(&MadeJson { v: 1, run, number, new, unsettled })?;
        return Ok(());
    }
    let what = match made.fresh {
        Fresh::New => format!("checkpoint {number}"),
        Fresh::Same => format!("nothing has changed since checkpoint {number}"),
    };
    let mut out = format!("{}  {what}\n", paint(term::BOLD, run));
    for path in unsettled {
        out.push_str(&format!("      `{}` changed while it was stored\n", safe(&path)));
    }
    term::out(&out)?;
    Ok(())
}

fn prune(env: &Env, args: &CheckpointOf) -> Result<(), Failure> {
    let scene = Scene::of(env, Some(&args.name))?;
    let run = scene.run.as_str();
    control::by_person(&scene.home, &scene.run, caller(env), "delete the checkpoints of")?;
    let phase = control::phase(&scene.home, &store::load(&scene.home, &scene.run)?);
    if !matches!(phase, Phase::Ended(_)) {
        let what = format!("run `{run}` has not ended, and may still need its checkpoints");
        return Err(Failure::new(&what, &format!("`ralph cancel {run}` ends it")));
    }
    let pruned = scene.repository.prune(&scene.deadline)?;
    if args.json {
        print_json(&PruneJson { v: 1, run, pruned })?;
        return Ok(());
    }
    let out = format!(
        "{}  {} deleted; `git gc` frees the space later\n",
        paint(term::BOLD, run),
        counted(pruned, "checkpoint")
    );
    term::out(&out)?;
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Added => "added",
        Status::Deleted => "deleted",
        Status::Modified => "modified",
        Status::TypeChanged => "type_changed",
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "file",
        Mode::Executable => "executable",
        Mode::Symlink => "symlink",
        Mode::Repository => "repository",
    }
}
