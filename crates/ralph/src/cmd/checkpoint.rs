//! `ralph checkpoint`: lists, compares, restores, creates and deletes the checkpoints of a run.

use super::checkpoint_args::{
    CheckpointCommand as Asked, CheckpointDiffArgs, CheckpointListArgs, CheckpointRestoreArgs,
    CheckpointRunArgs,
};
use super::{identify_caller, open_home, print_json, run_choice};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::value_parsers::parse_count;
use ralph_core::gate::shell_quote;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_deck::view::checkpoint_list::{
    CheckpointDiffView, CheckpointFileView, CheckpointMadeView, PruneView, checkpoint_list_view,
    file_views, restore_view,
};
use ralph_deck::wording::{self, safe_line};
use ralph_git::checkpoint::{
    ChangeStatus, Checkpoint, CheckpointNovelty, CheckpointReason, CheckpointRepository,
    CheckpointSnapshot, RestoreFailure, RestorePlan,
};
use ralph_git::tree::{self, ListingRequest, WorkTreeListing};
use ralph_git::worktree::{self, RunRepository};
use ralph_home::paths::RalphHome;
use ralph_home::store;
use ralph_hook::control::{self};
use ralph_hook::project_runs::RunPurpose;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// Long enough for a large tree on a slow disk; a person can interrupt it.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_mins(10);
const MAX_PATCH_BYTES: usize = 4 * 1024 * 1024;
const MAX_NAMED_PATHS: usize = 20;

/// A run with the repository of its checkpoints.
struct RunCheckpoints {
    home: RalphHome,
    run: RunId,
    repository: CheckpointRepository,
    /// Without it, checkpoints can be read and deleted, but neither created nor restored.
    has_work_tree: bool,
    deadline: Deadline,
}

pub(crate) fn run(env: &Env, asked: &Asked) -> Result<(), CommandFailure> {
    match asked {
        Asked::List(args) => list(env, args),
        Asked::Diff(args) => diff(env, args),
        Asked::Restore(args) => restore(env, args),
        Asked::Make(args) => make(env, args),
        Asked::Prune(args) => prune(env, args),
    }
}

impl RunCheckpoints {
    fn open(env: &Env, name: Option<&str>) -> Result<Self, CommandFailure> {
        let home = open_home(env)?;
        let run = match name {
            Some(name) => run_choice::find_run(&home, name, |session| {
                let what = format!("no run owns session `{session}`, so it has no checkpoints");
                CommandFailure::new(&what, "`ralph status --all` lists all runs")
            })?,
            None => run_choice::project_run(env, &home, RunPurpose::Steer)?,
        };
        let place = RunRepository::of_project(&store::load_run(&home, &run)?.run);
        let deadline = Deadline::after(CHECKPOINT_TIMEOUT);
        let repository = CheckpointRepository::open(&home, &run, &place.directory, &deadline)?;
        let has_work_tree = !place.is_work_tree_removed();
        Ok(Self { home, run, repository, has_work_tree, deadline })
    }

    /// The repository that a removed work tree came from has the checkpoints, but its files are not those of the run.
    fn require_work_tree(&self, what: &str, hint: &str) -> Result<(), CommandFailure> {
        if self.has_work_tree {
            return Ok(());
        }
        let run = &self.run;
        Err(CommandFailure::new(&format!("the work tree of run `{run}` was removed, {what}"), hint))
    }

    fn require_current_files(&self) -> Result<(), CommandFailure> {
        let hint = format!("`ralph checkpoint diff {}` compares its checkpoints", self.run);
        self.require_work_tree("so it has no current files", &hint)
    }

    /// The hint leaves it to the person where the files go: the repository may have other changes.
    fn require_restorable(&self, target: &Checkpoint) -> Result<(), CommandFailure> {
        let (run, number) = (&self.run, target.number);
        let root = self.repository.root();
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        let copy = format!("../{name}-{run}-{number}");
        let git = worktree::git_command_in(&root.to_string_lossy());
        let hint = format!(
            "`{git} worktree add --detach {} refs/ralph/{run}/{number}` writes the files of the checkpoint to a directory of their own",
            shell_quote(&copy)
        );
        self.require_work_tree("so nothing can be restored in it", &hint)
    }

    /// ralph's home is never part of the project, even if it lies inside it.
    fn excluded(&self) -> Vec<PathBuf> {
        vec![self.home.root().to_path_buf()]
    }

    fn listing(&self, deadline: &Deadline) -> Result<WorkTreeListing, CommandFailure> {
        let survey = ListingRequest {
            project: self.repository.root(),
            exclude: &self.excluded(),
            cache: Some(&self.home.stat_cache(self.repository.root())),
            deadline,
        };
        tree::list_work_tree(&survey)
            .map_err(|error| CommandFailure::caused_by("cannot list the current files", &error))
    }

    /// The last state of a run that has ended, if it is after `from`. Files may have changed since.
    fn final_checkpoint(&self, from: u32) -> Result<Option<Checkpoint>, CommandFailure> {
        let loaded = store::load_run(&self.home, &self.run)?;
        if !matches!(control::effective_phase(&self.home, &loaded), RunPhase::Ended(_)) {
            return Ok(None);
        }
        let of_run = |one: &Checkpoint| match one.reason {
            CheckpointReason::Start
            | CheckpointReason::Iteration(_)
            | CheckpointReason::Other(_) => one.number > from,
            CheckpointReason::Requested | CheckpointReason::Restore(_) => false,
        };
        Ok(self.repository.list(&self.deadline)?.into_iter().rfind(of_run))
    }

    fn current_state(&self) -> Result<Checkpoint, CommandFailure> {
        self.require_current_files()?;
        let (listing, excluded) = (self.listing(&self.deadline)?, self.excluded());
        let snapshot = CheckpointSnapshot {
            listing: &listing,
            excluded: &excluded,
            reason: CheckpointReason::Requested,
        };
        Ok(self.repository.capture_present(&snapshot, &self.deadline)?)
    }
}

pub(super) fn list(env: &Env, args: &CheckpointListArgs) -> Result<(), CommandFailure> {
    let scene = RunCheckpoints::open(env, args.name.as_deref())?;
    let found = scene.repository.list(&scene.deadline)?;
    let (run, repository) = (scene.run.as_str(), &scene.repository);
    if args.json {
        print_json(&checkpoint_list_view(&scene.run, repository, &found))?;
        return Ok(());
    }
    let mut out = format!("{}  ", paint(term::BOLD, run));
    out.push_str(&match found.len() {
        0 if !scene.has_work_tree => "no checkpoints\n".to_string(),
        0 => format!("no checkpoint yet; `ralph checkpoint make {run}` creates one\n"),
        count => {
            let root = safe_line(&repository.root().to_string_lossy());
            format!("{} of `{root}`\n", text::count_noun(count, "checkpoint"))
        }
    });
    for one in &found {
        let why = safe_line(&one.reason.to_string());
        out.push_str(&format!("{:>9}  {}  {why}\n", one.number, wording::local_time(one.at_ms)));
    }
    term::out(&out)?;
    Ok(())
}

fn diff(env: &Env, args: &CheckpointDiffArgs) -> Result<(), CommandFailure> {
    let DiffOperands { name, from, to } = diff_operands(env, args)?;
    let scene = RunCheckpoints::open(env, name)?;
    let (repository, deadline) = (&scene.repository, &scene.deadline);
    let from = match from {
        Some(number) => repository.find(number, deadline)?,
        None => repository.list(deadline)?.into_iter().next().ok_or_else(|| {
            let what = format!("run `{}` has no checkpoint to compare with", scene.run);
            let hint = if scene.has_work_tree {
                format!("`ralph checkpoint make {}` creates one", scene.run)
            } else {
                format!("`ralph why {}` shows its decisions", scene.run)
            };
            CommandFailure::new(&what, &hint)
        })?,
    };
    let last = if to.is_none() { scene.final_checkpoint(from.number)? } else { None };
    if let Some(last) = &last
        && !args.json
    {
        term::err(&format!(
            "run `{}` has ended: comparing its checkpoints {} and {}\n",
            scene.run, from.number, last.number
        ));
    }
    let to_number = to.or_else(|| last.as_ref().map(|last| last.number));
    let newest = match (to, last) {
        (Some(number), _) => repository.find(number, deadline)?,
        (None, Some(last)) => last,
        (None, None) => scene.current_state()?,
    };
    if args.json {
        let changes = repository.diff(&from, &newest, deadline)?;
        let lines = repository.line_counts(&from, &newest, deadline)?;
        let (run, files) = (scene.run.as_str(), file_views(repository, &changes, &lines));
        print_json(&CheckpointDiffView { v: 1, run, from: from.number, to: to_number, files })?;
    } else if args.stat {
        let changes = repository.diff(&from, &newest, deadline)?;
        let lines = repository.line_counts(&from, &newest, deadline)?;
        term::out(&stat_lines(&file_views(repository, &changes, &lines)))?;
    } else {
        let patch = repository.patch(&from, &newest, MAX_PATCH_BYTES, deadline)?;
        term::out(&color_patch(&text::reveal_source(&String::from_utf8_lossy(&patch.bytes))))?;
        if patch.truncated {
            term::err("the diff is cut off here; `--stat` lists every file\n");
        }
    }
    Ok(())
}

/// The operands of a diff.
struct DiffOperands<'a> {
    name: Option<&'a str>,
    from: Option<u32>,
    to: Option<u32>,
}

/// A first operand that is a number, and not a name, is the first checkpoint.
fn diff_operands<'a>(
    env: &Env,
    args: &'a CheckpointDiffArgs,
) -> Result<DiffOperands<'a>, CommandFailure> {
    let name = args.name.as_deref();
    Ok(match (as_number(env, name)?, args.to) {
        (Some(number), None) => DiffOperands { name: None, from: Some(number), to: args.from },
        (Some(_), Some(_)) | (None, _) => DiffOperands { name, from: args.from, to: args.to },
    })
}

fn restore_operands<'a>(
    env: &Env,
    args: &'a CheckpointRestoreArgs,
) -> Result<(Option<&'a str>, u32), CommandFailure> {
    let name = args.name.as_deref();
    if let Some(number) = args.number {
        return Ok((name, number));
    }
    let missing =
        || CommandFailure::new("no checkpoint given", "`ralph list checkpoints` lists them");
    Ok((None, as_number(env, name)?.ok_or_else(missing)?))
}

/// The number of a checkpoint in the place of a name, unless a run or session has that name.
fn as_number(env: &Env, name: Option<&str>) -> Result<Option<u32>, CommandFailure> {
    let Some((name, number)) = name.and_then(|name| Some((name, parse_count(name).ok()?))) else {
        return Ok(None);
    };
    let is_name = control::resolve_name(&open_home(env)?, name).is_ok();
    Ok((!is_name).then_some(number))
}

fn stat_lines(files: &[CheckpointFileView]) -> String {
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
        out.push_str(&format!(
            "{:<12} {lines}  {}\n",
            file.status,
            text::reveal_name(file.path.as_bytes())
        ));
    }
    out
}

fn color_patch(patch: &str) -> String {
    let mut out = String::with_capacity(patch.len());
    for line in patch.split_terminator('\n') {
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

fn restore(env: &Env, args: &CheckpointRestoreArgs) -> Result<(), CommandFailure> {
    let (name, number) = restore_operands(env, args)?;
    let scene = RunCheckpoints::open(env, name)?;
    let (repository, deadline) = (&scene.repository, &scene.deadline);
    let target = repository.find(number, deadline)?;
    scene.require_restorable(&target)?;
    if !args.dry_run {
        control::require_person_caller(&scene.home, &scene.run, identify_caller(env), "rewind")?;
        if !args.yes && (args.json || !std::io::stdin().is_terminal()) {
            let what = "not a terminal, so I can't ask whether to restore";
            let hint = "`--dry-run` shows what would change, `--yes` skips the question";
            return Err(CommandFailure::new(what, hint));
        }
    }
    if args.dry_run || !args.yes {
        let plan = repository.plan_restore(&scene.current_state()?, &target, deadline)?;
        if args.dry_run && args.json {
            return print_json(&restore_view(&scene.run, number, repository, None, &plan, &[]))
                .map(drop);
        }
        term::out(&plan_lines(&plan, if args.dry_run { usize::MAX } else { MAX_NAMED_PATHS }))?;
        if args.dry_run || plan.changes.is_empty() || !is_confirmed(number)? {
            return Ok(());
        }
    }
    // A new deadline, because the person may have taken a while to answer.
    let deadline = Deadline::after(CHECKPOINT_TIMEOUT);
    let (listing, excluded) = (scene.listing(&deadline)?, scene.excluded());
    let why = CheckpointReason::Restore(number);
    let snapshot = CheckpointSnapshot { listing: &listing, excluded: &excluded, reason: why };
    let restored = repository.restore(number, &snapshot, &deadline)?;
    let (plan, before) = (&restored.plan, restored.before.checkpoint.number);
    if args.json {
        print_json(&restore_view(
            &scene.run,
            number,
            repository,
            Some(before),
            plan,
            &restored.failed,
        ))?;
    } else {
        term::out(&restored_text(&scene.run, number, before, plan))?;
    }
    report_failures(&scene.run, before, &restored.failed)
}

fn plan_lines(plan: &RestorePlan, most: usize) -> String {
    let mut out = String::new();
    for one in plan.changes.iter().take(most) {
        // The changes lead from now back to the checkpoint: a file that was added since is deleted.
        let what = match one.status {
            ChangeStatus::Added => paint(term::GOOD, "create    "),
            ChangeStatus::Deleted => paint(term::BAD, "remove    "),
            ChangeStatus::Modified | ChangeStatus::TypeChanged => paint(term::WARN, "rewrite   "),
        };
        out.push_str(&format!("{what}  {}\n", safe_line(&one.path.to_string_lossy())));
    }
    if plan.changes.len() > most {
        out.push_str(&format!("and {} more\n", plan.changes.len() - most));
    }
    for one in &plan.uncovered {
        let path = safe_line(&one.path.to_string_lossy());
        out.push_str(&format!("leave       {path} (a separate repository)\n"));
    }
    if plan.changes.is_empty() {
        out.push_str("every file is already as in the checkpoint\n");
    }
    out
}

fn is_confirmed(number: u32) -> Result<bool, CommandFailure> {
    term::err(&format!("restore the files to checkpoint {number}? [y/N] "));
    term::is_confirmed()
        .map_err(|error| CommandFailure::caused_by("cannot read the answer", &error))
}

fn restored_text(run: &RunId, number: u32, before: u32, plan: &RestorePlan) -> String {
    if plan.changes.is_empty() {
        return format!(
            "{}  every file is already as in the checkpoint\n",
            paint(term::BOLD, run.as_str())
        );
    }
    let gone = plan.changes.iter().filter(|one| one.status == ChangeStatus::Deleted).count();
    let written = plan.changes.len() - gone;
    let mut out = format!(
        "{}  checkpoint {number} restored: {} written, {gone} removed\n",
        paint(term::BOLD, run.as_str()),
        text::count_noun(written, "file")
    );
    out.push_str(&format!("      `ralph checkpoint restore {run} {before}` undoes it\n"));
    for one in &plan.uncovered {
        let path = safe_line(&one.path.to_string_lossy());
        out.push_str(&format!("      `{path}` is a separate repository and was left alone\n"));
    }
    out
}

fn report_failures(
    run: &RunId,
    before: u32,
    failed: &[RestoreFailure],
) -> Result<(), CommandFailure> {
    if failed.is_empty() {
        return Ok(());
    }
    for one in failed {
        let path = safe_line(&one.path.to_string_lossy());
        term::err(&format!("`{path}`: {}\n", safe_line(&one.why)));
    }
    let what = format!("{} could not be restored", text::count_noun(failed.len(), "file"));
    let hint =
        format!("nothing is lost; `ralph checkpoint restore {run} {before}` undoes the rest");
    Err(CommandFailure::new(&what, &hint))
}

fn make(env: &Env, args: &CheckpointRunArgs) -> Result<(), CommandFailure> {
    let scene = RunCheckpoints::open(env, args.name.as_deref())?;
    scene.require_current_files()?;
    let (listing, excluded) = (scene.listing(&scene.deadline)?, scene.excluded());
    let snapshot = CheckpointSnapshot {
        listing: &listing,
        excluded: &excluded,
        reason: CheckpointReason::Requested,
    };
    let made = scene.repository.create(&snapshot, &scene.deadline)?;
    let (run, number) = (scene.run.as_str(), made.checkpoint.number);
    let unsettled: Vec<_> =
        made.changed_meanwhile.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    if args.json {
        let new = made.novelty == CheckpointNovelty::New;
        print_json(&CheckpointMadeView { v: 1, run, number, new, unsettled })?;
        return Ok(());
    }
    let what = match made.novelty {
        CheckpointNovelty::New => format!("checkpoint {number}"),
        CheckpointNovelty::Unchanged => format!("nothing has changed since checkpoint {number}"),
    };
    let mut out = format!("{}  {what}\n", paint(term::BOLD, run));
    for path in unsettled {
        out.push_str(&format!("      `{}` changed while it was stored\n", safe_line(&path)));
    }
    term::out(&out)?;
    Ok(())
}

fn prune(env: &Env, args: &CheckpointRunArgs) -> Result<(), CommandFailure> {
    let scene = RunCheckpoints::open(env, args.name.as_deref())?;
    let run = scene.run.as_str();
    control::require_person_caller(
        &scene.home,
        &scene.run,
        identify_caller(env),
        "delete the checkpoints of",
    )?;
    let phase = control::effective_phase(&scene.home, &store::load_run(&scene.home, &scene.run)?);
    if !matches!(phase, RunPhase::Ended(_)) {
        let what = format!("run `{run}` has not ended, and may still need its checkpoints");
        return Err(CommandFailure::new(&what, &format!("`ralph cancel {run}` ends it")));
    }
    let pruned = scene.repository.prune(&scene.deadline)?;
    if args.json {
        print_json(&PruneView { v: 1, run, pruned })?;
        return Ok(());
    }
    let out = format!(
        "{}  {} deleted; `git gc` frees the space later\n",
        paint(term::BOLD, run),
        text::count_noun(pruned, "checkpoint")
    );
    term::out(&out)?;
    Ok(())
}
