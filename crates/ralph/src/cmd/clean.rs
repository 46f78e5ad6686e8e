//! `ralph clean`: shows what ralph keeps and why, and removes what is no longer needed.

use super::init::{self, ConfirmationOptions};
use super::{open_home, print_json, refuse_agent};
use crate::failure::CommandFailure;
use crate::term::{self, paint};
use crate::value_parsers::{parse_count, parse_duration};
use clap::Args;
use ralph_core::retention::{RetentionRules, RetentionVerdict, StoredKind, UnsettledRuns};
use ralph_core::text::count_noun;
use ralph_core::units;
use ralph_deck::wording::safe_line;
use ralph_home::paths::RalphHome;
use ralph_hook::clean::inventory::{CleanScope, InventoryDetail};
use ralph_hook::clean::removal;
use ralph_hook::clean::{self, CleanPlan, PlannedEntry, RemovalProgress, RemovalSummary};
use ralph_policy::config;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs::LockError;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::worker::ParentLink;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// For the whole command; a person can interrupt it.
const CLEAN_TIMEOUT: Duration = Duration::from_hours(2);
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The parent sends one byte right after the start.
const DETACH_TIMEOUT: Duration = Duration::from_secs(2);
const DETACH_POLL: Duration = Duration::from_millis(5);
const MAX_NAMED: usize = 1000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph clean
  ralph clean --dry-run --all
  ralph clean --older-than 14d --yes
  ralph clean --keep 10 --json --yes

Runs that are active, paused or orphaned stay, and so do work that is not
merged and, without `--unsettled`, runs that need a person. What is kept
by default is set in your own `~/.ralph/config.toml`:

  [keep]
  runs = 100
  age = \"30d\"
  cache_mib = 2048

ralph cleans by these rules once a day without being asked. Checkouts of
a run go when it ends.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate command-line flag")]
pub(crate) struct CleanArgs {
    /// Clean the runs of every project
    #[arg(long, conflicts_with = "project")]
    pub all: bool,
    /// Remove what was not used for this long [default: `[keep] age`]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub older_than: Option<u64>,
    /// Keep this many ended runs of a project [default: `[keep] runs`]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub keep: Option<u32>,
    /// Treat ended runs that wait for a person like other ended runs
    #[arg(long)]
    pub unsettled: bool,
    /// Don't ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Clean this project [default: nearest parent with a policy, or the repo]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object, and don't ask
    #[arg(long)]
    pub json: bool,
    /// Remove leftovers, and clean if the last time is a day ago
    #[arg(long, hide = true)]
    pub in_background: bool,
}

/// Items of one kind with the same verdict.
#[derive(Serialize)]
pub(super) struct CleanGroup {
    kind: &'static str,
    /// The name of the verdict's reason.
    reason: &'static str,
    pub(super) count: usize,
    pub(super) bytes: u64,
    /// At most 1000.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<String>,
}

#[derive(Serialize)]
struct CleanJson {
    v: u8,
    project: Option<String>,
    status: &'static str,
    kept: Vec<CleanGroup>,
    /// What goes, or went.
    remove: Vec<CleanGroup>,
    removed: usize,
    removed_bytes: u64,
    failed: Vec<CleanFailureJson>,
    /// Directories of ralph's home that are links, in which nothing is removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    linked: Vec<String>,
}

#[derive(Serialize)]
struct CleanFailureJson {
    item: String,
    why: String,
}

pub(crate) fn run(env: &Env, args: &CleanArgs) -> Result<(), CommandFailure> {
    let home = open_home(env)?;
    if args.in_background {
        // Its parent may be killed with its whole process group, which it leaves.
        let failed = |error| CommandFailure::caused_by("cannot watch the parent process", &error);
        let cancel = Arc::new(CancelToken::new().map_err(failed)?);
        let link = ParentLink::attach(&cancel).map_err(failed)?;
        if !is_detached_by_ralph(&link) {
            return Err(CommandFailure::new(
                "only ralph itself starts a cleaning in the background; nothing was removed",
                "use `ralph clean`",
            ));
        }
        clean::clean_in_background(&home);
        return Ok(());
    }
    if !args.dry_run {
        let hint = "ask a person to run it in their own terminal; `--dry-run` shows what would go";
        refuse_agent(env, "an agent may not remove ralph's records", hint)?;
    }
    let rules = chosen_rules(&home, args)?;
    let scope = if args.all {
        CleanScope::EveryProject
    } else {
        CleanScope::Project(init::resolved_project(env, args.project.as_deref())?)
    };
    let deadline = Deadline::after(CLEAN_TIMEOUT);
    let _lock = if args.dry_run { None } else { Some(lock(&home)?) };
    let plan = CleanPlan::make(&home, &scope, rules, InventoryDetail::Full, &deadline)?;
    let is_empty = plan.removals().next().is_none();
    if !args.json {
        term::out(&render_plan(&plan, &scope, &home))?;
    }
    let status = match (is_empty, args.dry_run) {
        (true, _) => "unchanged",
        (false, true) => "planned",
        (false, false) => "removed",
    };
    let summary = if status == "removed" {
        let refusal = "nothing was removed";
        let asking =
            ConfirmationOptions { yes: args.yes, json: args.json, command: "clean", refusal };
        init::confirm(&asking, &question(&plan))?;
        remove_with_progress(env, &home, &plan)
    } else {
        RemovalSummary::default()
    };
    if args.json {
        print_json(&clean_json(&plan, &scope, status, &summary))?;
    } else {
        term::out(&render_summary(status, &summary))?;
    }
    report_failures(&summary, args.json)
}

/// Whether the process on the other side of the link detached this one, as [`cleaning_worker`] does at once. A caller in
/// a shell does not, so that an agent cannot use the option to pass the checks of the caller.
///
/// [`cleaning_worker`]: ralph_hook::cleaning_worker
fn is_detached_by_ralph(link: &ParentLink) -> bool {
    let deadline = Deadline::after(DETACH_TIMEOUT);
    while !link.is_detached() && !deadline.has_passed() {
        clock::sleep(DETACH_POLL);
    }
    link.is_detached()
}

fn chosen_rules(home: &RalphHome, args: &CleanArgs) -> Result<RetentionRules, CommandFailure> {
    let kept = config::load_keep(home)?;
    Ok(RetentionRules {
        max_age_ms: args.older_than.unwrap_or(kept.max_age_ms),
        max_runs: args.keep.unwrap_or(kept.max_runs),
        unsettled: if args.unsettled { UnsettledRuns::LikeOthers } else { kept.unsettled },
        ..kept
    })
}

pub(super) fn lock(home: &RalphHome) -> Result<ralph_sys::fs::FileLock, CommandFailure> {
    clean::lock_cleaning(home, &Deadline::after(LOCK_TIMEOUT)).map_err(|error| match error {
        LockError::Busy { .. } => CommandFailure::new(
            "ralph is already cleaning in another process; nothing was removed",
            "run it again when that one is done",
        ),
        LockError::File(error) => error.into(),
    })
}

/// Groups entries by verdict and kind: first what is kept.
fn grouped<'a>(
    entries: impl Iterator<Item = &'a PlannedEntry>,
) -> BTreeMap<(RetentionVerdict, StoredKind), Vec<&'a PlannedEntry>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in entries {
        groups.entry((entry.verdict, entry.stored.item.kind)).or_default().push(entry);
    }
    groups
}

fn total_bytes(entries: &[&PlannedEntry]) -> u64 {
    entries.iter().map(|one| one.stored.item.bytes).fold(0, u64::saturating_add)
}

fn render_plan(plan: &CleanPlan, scope: &CleanScope, home: &RalphHome) -> String {
    let title = match scope {
        CleanScope::Project(project) => project.as_path(),
        CleanScope::EveryProject => home.root(),
    };
    let mut out = format!("{}\n", paint(term::BOLD, &safe_line(&title.to_string_lossy())));
    let mut is_removal = None;
    for ((verdict, kind), entries) in grouped(plan.entries.iter()) {
        if is_removal != Some(verdict.is_removal()) {
            is_removal = Some(verdict.is_removal());
            out.push_str(if verdict.is_removal() { "can go\n" } else { "kept\n" });
        }
        let size = match total_bytes(&entries) {
            0 => String::new(),
            bytes => units::format_bytes(bytes),
        };
        let (name, count) = (kind.plural(), entries.len());
        let why = verdict.describe(kind, &plan.rules);
        let line = format!("  {name:<20} {count:>6} {size:>9}  {why}");
        out.push_str(&format!("{line}\n"));
    }
    for directory in &plan.linked {
        let note = paint(term::WARN, "note");
        let directory = safe_line(&directory.to_string_lossy());
        out.push_str(&format!("{note}: `{directory}` is a link; nothing behind it is removed\n"));
    }
    out
}

fn question(plan: &CleanPlan) -> String {
    let removals: Vec<_> = plan.removals().collect();
    let bytes = removals.iter().map(|one| one.item.bytes).fold(0, u64::saturating_add);
    let count = count_noun(removals.len(), "item");
    format!("remove {count}, {}? [y/N] ", units::format_bytes(bytes))
}

fn remove_with_progress(env: &Env, home: &RalphHome, plan: &CleanPlan) -> RemovalSummary {
    let entries: Vec<_> = plan.removals().collect();
    remove_entries(env, home, &entries)
}

pub(super) fn remove_entries(
    env: &Env,
    home: &RalphHome,
    entries: &[&clean::StoredEntry],
) -> RemovalSummary {
    let is_watched = term::is_watched(env);
    let mut lines = 0;
    let mut watch = |at: RemovalProgress| {
        if is_watched {
            let removed = units::format_bytes(at.bytes);
            let text = format!("removing {} of {}, {removed} so far\n", at.done + 1, at.total);
            term::redraw(lines, &text);
            lines = 1;
        }
    };
    let deadline = Deadline::after(CLEAN_TIMEOUT);
    let summary = removal::remove_entries(home, entries, &deadline, &mut watch);
    term::redraw(lines, "");
    summary
}

fn render_summary(status: &str, summary: &RemovalSummary) -> String {
    match status {
        "unchanged" => "nothing to remove\n".to_string(),
        "planned" => "nothing was removed\n".to_string(),
        _ => {
            let count = count_noun(summary.removed, "item");
            let mut out = format!("removed {count}, {}\n", units::format_bytes(summary.bytes));
            if summary.postponed > 0 {
                let rest = count_noun(summary.postponed, "item");
                out.push_str(&format!("{rest} left; `ralph clean` continues\n"));
            }
            out
        }
    }
}

pub(super) fn report_failures(
    summary: &RemovalSummary,
    is_json: bool,
) -> Result<(), CommandFailure> {
    if summary.failed.is_empty() {
        return Ok(());
    }
    if !is_json {
        for one in &summary.failed {
            term::err(&format!("{}: {}\n", safe_line(&one.name), safe_line(&one.why)));
        }
    }
    let what = format!("{} could not be removed", count_noun(summary.failed.len(), "item"));
    Err(CommandFailure::new(&what, "run the command again; it continues where it stopped"))
}

fn clean_json(
    plan: &CleanPlan,
    scope: &CleanScope,
    status: &'static str,
    summary: &RemovalSummary,
) -> CleanJson {
    let project = match scope {
        CleanScope::Project(project) => Some(project.display().to_string()),
        CleanScope::EveryProject => None,
    };
    let failed = summary.failed.iter();
    CleanJson {
        v: 1,
        project,
        status,
        kept: groups_json(plan, false),
        remove: groups_json(plan, true),
        removed: summary.removed,
        removed_bytes: summary.bytes,
        failed: failed
            .map(|one| CleanFailureJson { item: one.name.clone(), why: one.why.clone() })
            .collect(),
        linked: plan.linked.iter().map(|path| path.display().to_string()).collect(),
    }
}

fn groups_json(plan: &CleanPlan, removals: bool) -> Vec<CleanGroup> {
    let wanted = plan.entries.iter().filter(|one| one.verdict.is_removal() == removals);
    let group =
        |((verdict, kind), entries): ((RetentionVerdict, StoredKind), Vec<&PlannedEntry>)| {
            let named = entries.iter().take(MAX_NAMED).map(|one| one.stored.target.name());
            CleanGroup {
                kind: kind.name(),
                reason: verdict.name(),
                count: entries.len(),
                bytes: total_bytes(&entries),
                items: named.collect(),
            }
        };
    grouped(wanted).into_iter().map(group).collect()
}
