//! What stays after `ralph uninstall`: runs, refs, the policy and caches, with the command that removes each; and
//! `ralph uninstall --all`, which removes them.

use super::{clean, identify_caller};
use crate::failure::CommandFailure;
use ralph_core::gate::shell_quote;
use ralph_core::retention::{KeepReason, StoredState};
use ralph_core::retention::{RetentionRules, RetentionVerdict, StoredKind, UnsettledRuns};
use ralph_core::text::count_noun;
use ralph_core::units;
use ralph_deck::wording::safe_line;
use ralph_git::ralph_refs::RalphRefs;
use ralph_home::paths::RalphHome;
use ralph_hook::adjustments::person_name;
use ralph_hook::clean::inventory::{CleanScope, InventoryDetail};
use ralph_hook::clean::{
    CleanPlan, CleanTarget, PlannedEntry, RemovalFailure, RemovalSummary, StoredEntry,
};
use ralph_hook::control::{self, RunOrSession};
use ralph_install::install::install_plan::ProposedPolicy;
use ralph_policy::{config, detect, trust};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const INVENTORY_TIMEOUT: Duration = Duration::from_mins(10);
const MAX_POLICY_BYTES: usize = ralph_core::input_bounds::MAX_POLICY_BYTES;

const UNINSTALL_ALL: &str = "ralph uninstall --all";
const CLEAN_RUNS: &str = "ralph clean --older-than 0s --unsettled";
const CLEAN_CACHE: &str = "ralph clean --older-than 0s";

/// Nothing is kept for its age or number.
const KEEP_NOTHING: RetentionRules = RetentionRules {
    max_age_ms: 0,
    max_runs: 0,
    max_cache_bytes: 0,
    unsettled: UnsettledRuns::LikeOthers,
};

/// One kind of thing that stays.
#[derive(Debug, Serialize)]
pub(super) struct StayingItems {
    what: &'static str,
    count: usize,
    bytes: u64,
    /// The command that removes them.
    command: String,
    #[serde(skip)]
    goes_with_all: bool,
}

/// Everything of a project that `ralph uninstall` leaves.
pub(super) struct ProjectLeftovers<'a> {
    env: &'a Env,
    home: &'a RalphHome,
    project: &'a Path,
    /// The project as the person named it, for the commands that are shown.
    named: Option<&'a Path>,
    plan: CleanPlan,
    refs: RalphRefs,
    policy: Option<StayingPolicy>,
}

struct StayingPolicy {
    path: PathBuf,
    /// Whether it is exactly what `ralph run --yes` writes.
    is_ours: bool,
}

impl<'a> ProjectLeftovers<'a> {
    /// `keeps_policy`: whether a policy file is there after the uninstallation.
    pub(super) fn find(
        env: &'a Env,
        home: &'a RalphHome,
        project: &'a Path,
        named: Option<&'a Path>,
        keeps_policy: bool,
    ) -> Result<Self, CommandFailure> {
        let deadline = Deadline::after(INVENTORY_TIMEOUT);
        let scope = CleanScope::Project(project.to_path_buf());
        let plan = CleanPlan::make(home, &scope, KEEP_NOTHING, InventoryDetail::Full, &deadline)?;
        // Without git there are no refs.
        let refs = RalphRefs::read(project, &deadline).unwrap_or_default();
        let policy = keeps_policy.then(|| staying_policy(env, project)).flatten();
        Ok(Self { env, home, project, named, plan, refs, policy })
    }

    pub(super) fn items(&self) -> Vec<StayingItems> {
        let (records, trees) =
            ("records of sessions without a run", "cached results of all projects");
        let caches = [StoredKind::GateResult, StoredKind::GateLog, StoredKind::TreeCache];
        let sessions = [StoredKind::SessionRecord, StoredKind::SessionNote];
        let mut items = Vec::new();
        items.extend(self.staying_runs());
        items.extend(self.staying(records, &sessions, UNINSTALL_ALL));
        items.extend(self.plan.entries.iter().filter_map(|one| self.staying_worktree(one)));
        if self.refs.count() > 0 {
            items.push(StayingItems {
                what: "refs below refs/ralph/",
                count: self.refs.count(),
                bytes: 0,
                command: self.command(UNINSTALL_ALL),
                goes_with_all: true,
            });
        }
        items.extend(self.policy.as_ref().map(|policy| StayingItems {
            what: "policy",
            count: 1,
            bytes: fs::measure_tree(&policy.path),
            command: if policy.is_ours {
                self.command(UNINSTALL_ALL)
            } else {
                format!("rm {}", shell_quote(&safe_line(&policy.path.to_string_lossy())))
            },
            goes_with_all: policy.is_ours,
        }));
        items.extend(self.staying(trees, &caches, CLEAN_CACHE));
        items
    }

    fn staying(
        &self,
        what: &'static str,
        kinds: &[StoredKind],
        command: &str,
    ) -> Option<StayingItems> {
        let is_wanted = |one: &&PlannedEntry| kinds.contains(&one.stored.item.kind);
        let found = self.plan.entries.iter().filter(is_wanted);
        let (count, bytes) = totals(found);
        let command = self.command(command);
        (count > 0).then_some(StayingItems { what, count, bytes, command, goes_with_all: true })
    }

    /// Runs by the command that removes them: `ralph clean` leaves those that are at work, and both commands leave a run
    /// whose work tree is still there.
    fn staying_runs(&self) -> Vec<StayingItems> {
        let rows = StayingRuns::ALL.into_iter().map(|group| {
            let is_of_group = |one: &&PlannedEntry| StayingRuns::of_entry(one) == Some(group);
            let (count, bytes) = totals(self.plan.entries.iter().filter(is_of_group));
            let (what, command, goes_with_all) = match group {
                StayingRuns::Removable => ("runs", CLEAN_RUNS, true),
                StayingRuns::Active => ("active runs", UNINSTALL_ALL, true),
                StayingRuns::Unmerged => ("runs whose work tree is here", CLEAN_RUNS, false),
                StayingRuns::Unreadable => ("unreadable runs", "ralph doctor", false),
            };
            StayingItems { what, count, bytes, command: self.command(command), goes_with_all }
        });
        rows.filter(|row| row.count > 0).collect()
    }

    /// The command that removes everything that can go.
    pub(super) fn all_command(&self) -> String {
        self.command(UNINSTALL_ALL)
    }

    /// The command for this project, wherever it is pasted.
    fn command(&self, command: &str) -> String {
        if self.named.is_none() {
            return command.to_string();
        }
        let project = shell_quote(&safe_line(&self.project.to_string_lossy()));
        format!("{command} --project {project}")
    }

    /// Each has its own command, because only a person can tell whether its work is still wanted.
    fn staying_worktree(&self, entry: &PlannedEntry) -> Option<StayingItems> {
        let CleanTarget::Worktree(run) = &entry.stored.target else { return None };
        let places = [self.home.worktree(run), self.home.hidden_worktree(run)];
        let path = places.into_iter().find(|path| fs::exists(path))?;
        Some(StayingItems {
            what: "work tree",
            count: 1,
            bytes: entry.stored.item.bytes,
            command: format!(
                "git -C {} worktree remove {}",
                shell_quote(&safe_line(&self.project.to_string_lossy())),
                shell_quote(&safe_line(&path.to_string_lossy()))
            ),
            goes_with_all: entry.verdict.is_removal(),
        })
    }

    /// Ends the runs that have not ended, and removes everything but work that is not merged. The caller has asked.
    pub(super) fn remove(self) -> Result<RemovalSummary, CommandFailure> {
        let Self { env, home, project, plan, refs, policy, .. } = self;
        let _lock = clean::lock(home)?;
        for entry in &plan.entries {
            if let CleanTarget::Run { id, .. } = &entry.stored.target
                && entry.stored.item.kind == StoredKind::Run
                && entry.stored.item.state == StoredState::InUse
            {
                let deadline = Deadline::after(super::control::LOCK_TIMEOUT);
                let name = RunOrSession::Run(id.clone());
                // A run that has just ended by itself needs no cancellation; one that goes on is reported below.
                let (caller, by) = (identify_caller(env), person_name(env));
                drop(control::cancel_run_or_session(home, &name, caller, &by, &deadline));
            }
        }
        // A run that was cancelled may have a work tree, which only an ended run shows as unmerged.
        let deadline = Deadline::after(INVENTORY_TIMEOUT);
        let scope = CleanScope::Project(project.to_path_buf());
        let plan = CleanPlan::make(home, &scope, KEEP_NOTHING, InventoryDetail::Full, &deadline)?;
        let mut removals: Vec<&StoredEntry> =
            plan.entries.iter().filter(|one| goes_with_ralph(one)).map(|one| &one.stored).collect();
        let mut seen = BTreeSet::new();
        removals.retain(|entry| {
            // One entry for each ref, but all refs of a run go at once.
            if let CleanTarget::Refs { run, .. } = &entry.target {
                seen.insert(run.clone())
            } else {
                true
            }
        });
        let mut summary = clean::remove_entries(env, home, &removals);
        let busy = plan.entries.iter().filter(|one| {
            let item = &one.stored.item;
            item.kind == StoredKind::Run && item.state == StoredState::InUse
        });
        summary.failed.extend(busy.map(|one| RemovalFailure {
            name: one.stored.target.name(),
            why: "it is still at work".to_string(),
        }));
        for (run, _) in refs.runs() {
            let is_kept = plan.entries.iter().any(|one| is_kept_run(home, one, run));
            if !is_kept && let Ok(now) = RalphRefs::read(project, &deadline) {
                let deleted = now.delete(project, run, &deadline);
                summary.failed.extend(deleted.err().map(|error| RemovalFailure {
                    name: format!("refs/ralph/{run}/"),
                    why: ralph_home::faults::describe_error(&error),
                }));
            }
        }
        if let Some(policy) = policy.filter(|policy| policy.is_ours) {
            fs::remove_file(&policy.path)?;
            trust::revoke_approvals(home, project)?;
            summary.removed += 1;
        }
        Ok(summary)
    }
}

/// The number of entries and their size. The old checkout of a run is part of it.
fn totals<'a>(entries: impl Iterator<Item = &'a PlannedEntry>) -> (usize, u64) {
    entries.fold((0, 0), |(count, bytes), one| {
        let item = &one.stored.item;
        let is_counted = item.kind != StoredKind::Checkout;
        (count + usize::from(is_counted), bytes.saturating_add(item.bytes))
    })
}

/// Runs that stay, by what removes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StayingRuns {
    Removable,
    Active,
    /// Their work trees are still there.
    Unmerged,
    Unreadable,
}

impl StayingRuns {
    const ALL: [Self; 4] = [Self::Removable, Self::Active, Self::Unmerged, Self::Unreadable];

    /// The group of a run, or of the checkout of one.
    fn of_entry(entry: &PlannedEntry) -> Option<Self> {
        let is_of_run = entry.stored.item.kind == StoredKind::Run
            || matches!(entry.stored.target, CleanTarget::OldCheckout(_));
        is_of_run.then_some(match entry.stored.item.state {
            StoredState::InUse => Self::Active,
            StoredState::Unmerged => Self::Unmerged,
            StoredState::Unreadable => Self::Unreadable,
            StoredState::Ended
            | StoredState::AwaitsPerson
            | StoredState::Acceptable
            | StoredState::Leftover
            | StoredState::Rebuildable
            | StoredState::Unowned
            | StoredState::Permanent => Self::Removable,
        })
    }
}

/// A run whose work tree is still there needs its base.
fn is_kept_run(home: &RalphHome, entry: &PlannedEntry, run: &str) -> bool {
    matches!(&entry.stored.target, CleanTarget::Run { id, .. }
        if id.as_str() == run && fs::exists(home.run(id).directory()))
}

fn goes_with_ralph(entry: &PlannedEntry) -> bool {
    match (entry.stored.item.kind, entry.verdict) {
        (_, RetentionVerdict::Remove(_))
        | (
            StoredKind::SessionRecord | StoredKind::SessionNote,
            RetentionVerdict::Keep(KeepReason::InUse | KeepReason::Recent),
        )
        | (
            StoredKind::Run | StoredKind::GateResult | StoredKind::GateLog | StoredKind::TreeCache,
            RetentionVerdict::Keep(KeepReason::Recent),
        )
        | (StoredKind::CheckpointRefs, RetentionVerdict::Keep(_)) => true,
        (_, RetentionVerdict::Keep(_)) => false,
    }
}

fn staying_policy(env: &Env, project: &Path) -> Option<StayingPolicy> {
    let paths = config::POLICY_FILE_NAMES.map(|name| project.join(name));
    let path = paths.into_iter().find(|path| fs::exists(path))?;
    let text = fs::read(&path, MAX_POLICY_BYTES).ok()?;
    let proposed = ProposedPolicy::from_detected(project, env, &detect::detect_gates(project, env));
    Some(StayingPolicy { is_ours: proposed.text.as_bytes() == text, path })
}

/// `all_command` is the command that removes everything that can go.
pub(super) fn render_staying(items: &[StayingItems], all_command: &str, home: &str) -> String {
    let home = safe_line(home);
    if items.is_empty() {
        return format!(
            "no run of this project is left; your settings and approvals stay in `{home}`\n"
        );
    }
    let mut out = staying_rows(items);
    let going = items.iter().filter(|item| item.goes_with_all).count();
    if going > 0 && going < items.len() {
        out.push_str(&format!(
            "`{all_command}` removes these, except a policy that you wrote and unmerged work\n"
        ));
    } else if going > 0 {
        out.push_str(&format!("`{all_command}` removes these\n"));
    }
    out.push_str(&format!("your settings and approvals stay in `{home}`\n"));
    out
}

fn staying_rows(items: &[StayingItems]) -> String {
    let rows = items.iter().map(|item| format!("{}  `{}`\n", table_row(item), item.command));
    format!("these stay:\n{}", rows.collect::<String>())
}

fn table_row(item: &StayingItems) -> String {
    let StayingItems { what, count, bytes, .. } = item;
    let size = if *bytes == 0 { String::new() } else { units::format_bytes(*bytes) };
    format!("  {what:<34} {count:>6} {size:>9}")
}

/// What `--all` is going to remove; empty if there is nothing.
pub(super) fn render_removals(items: &[StayingItems]) -> String {
    let rows = items.iter().filter(|item| item.goes_with_all);
    let rows: Vec<_> = rows.map(|item| table_row(item).trim_end().to_string()).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!("with `--all` these go too:\n{}\n", rows.join("\n"))
}

pub(super) fn render_removed(
    summary: &RemovalSummary,
    staying: &[StayingItems],
    home: &str,
) -> String {
    let staying = if staying.is_empty() { String::new() } else { staying_rows(staying) };
    format!(
        "removed {}, {}\n{staying}your settings and approvals stay in `{}`\n",
        count_noun(summary.removed, "item"),
        units::format_bytes(summary.bytes),
        safe_line(home)
    )
}
