//! Decides which of the files that ralph keeps may be removed, for `ralph clean` and the automatic cleaning.
//! `ralph uninstall --all` removes more: whatever is kept only because it is recent.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::cmp::Reverse;

use crate::text::count_noun;
use crate::units;

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The kind of something that ralph keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredKind {
    Run,
    SessionRecord,
    SessionNote,
    Worktree,
    Checkout,
    /// Refs of a run that is not in ralph's home.
    CheckpointRefs,
    GateResult,
    GateLog,
    TreeCache,
    Scratch,
    Trash,
    Quarantined,
    RecallIndex,
    InstallRecord,
    /// Approvals, learnings, spending and other small files that belong to the person.
    PersonalFile,
}

impl StoredKind {
    /// The name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::SessionRecord => "session_record",
            Self::SessionNote => "session_note",
            Self::Worktree => "worktree",
            Self::Checkout => "checkout",
            Self::CheckpointRefs => "checkpoint_refs",
            Self::GateResult => "gate_result",
            Self::GateLog => "gate_log",
            Self::TreeCache => "tree_cache",
            Self::Scratch => "scratch",
            Self::Trash => "trash",
            Self::Quarantined => "quarantined",
            Self::RecallIndex => "recall_index",
            Self::InstallRecord => "install_record",
            Self::PersonalFile => "personal_file",
        }
    }

    /// The plural for people.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Run => "runs",
            Self::SessionRecord => "records of sessions",
            Self::SessionNote => "notes of sessions",
            Self::Worktree => "work trees",
            Self::Checkout => "checkouts",
            Self::CheckpointRefs => "refs of other runs",
            Self::GateResult => "gate results",
            Self::GateLog => "gate logs",
            Self::TreeCache => "tree caches",
            Self::Scratch => "scratch directories",
            Self::Trash => "removed directories",
            Self::Quarantined => "unreadable files",
            Self::RecallIndex => "search index",
            Self::InstallRecord => "install records",
            Self::PersonalFile => "your own files",
        }
    }

    /// Whether it counts towards the limit of the cache.
    fn is_cache(self) -> bool {
        matches!(self, Self::GateResult | Self::GateLog | Self::TreeCache)
    }
}

/// Why something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredState {
    /// A process or a session needs it, or a run that has not ended.
    InUse,
    /// Ended as `needs_human` or `needs_review`.
    AwaitsPerson,
    /// Ended as `green`, so that a person may still accept it.
    Acceptable,
    Ended,
    /// Holds work that is not in the target branch.
    Unmerged,
    /// Belongs to no run of this home, and maybe to one of another.
    Unowned,
    /// Damaged, or written by a newer ralph.
    Unreadable,
    /// Left by a process that is gone, or by a run that has ended.
    Leftover,
    /// Can be computed again.
    Rebuildable,
    /// Needed for as long as ralph is used.
    Permanent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    pub kind: StoredKind,
    pub state: StoredState,
    /// The time since it was last used or changed.
    pub age_ms: u64,
    pub bytes: u64,
    /// Ended runs are counted per project.
    pub project: Option<String>,
}

/// `[keep]`, with the changes of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionRules {
    pub max_age_ms: u64,
    /// Ended runs of a project.
    pub max_runs: u32,
    pub max_cache_bytes: u64,
    pub unsettled: UnsettledRuns,
}

/// What happens to ended runs that wait for a person's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsettledRuns {
    Keep,
    /// As other ended runs.
    LikeOthers,
}

impl RetentionRules {
    pub const DEFAULT: Self = Self {
        max_age_ms: 30 * DAY_MS,
        max_runs: 100,
        max_cache_bytes: 2 * 1024 * 1024 * 1024,
        unsettled: UnsettledRuns::Keep,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RetentionVerdict {
    Keep(KeepReason),
    Remove(RemovalReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepReason {
    InUse,
    AwaitsPerson,
    Acceptable,
    Recent,
    Unmerged,
    Unowned,
    Unreadable,
    Permanent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalReason {
    Leftover,
    TooOld,
    TooManyRuns,
    CacheTooLarge,
}

impl RetentionVerdict {
    pub fn is_removal(self) -> bool {
        matches!(self, Self::Remove(_))
    }

    /// The name in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep(KeepReason::InUse) => "in_use",
            Self::Keep(KeepReason::AwaitsPerson) => "awaits_person",
            Self::Keep(KeepReason::Acceptable) => "acceptable",
            Self::Keep(KeepReason::Recent) => "recent",
            Self::Keep(KeepReason::Unmerged) => "unmerged",
            Self::Keep(KeepReason::Unowned) => "unowned",
            Self::Keep(KeepReason::Unreadable) => "unreadable",
            Self::Keep(KeepReason::Permanent) => "permanent",
            Self::Remove(RemovalReason::Leftover) => "leftover",
            Self::Remove(RemovalReason::TooOld) => "too_old",
            Self::Remove(RemovalReason::TooManyRuns) => "too_many_runs",
            Self::Remove(RemovalReason::CacheTooLarge) => "cache_too_large",
        }
    }

    /// For people, for items of one kind.
    pub fn describe(self, kind: StoredKind, rules: &RetentionRules) -> String {
        let age = || units::format_duration(rules.max_age_ms);
        match (self, kind) {
            (Self::Keep(KeepReason::InUse), StoredKind::Run) => {
                "active, paused, orphaned, or still at work".to_string()
            }
            (Self::Keep(KeepReason::InUse), _) => "in use".to_string(),
            (Self::Keep(KeepReason::AwaitsPerson), _) => {
                "need a person: `ralph why RUN`, `ralph accept RUN`; `--unsettled` treats them like other ended runs".to_string()
            }
            (Self::Keep(KeepReason::Acceptable), _) => {
                format!("`ralph accept` takes them until they are {} old", age())
            }
            (Self::Keep(KeepReason::Recent), _) => format!("used in the last {}", age()),
            (Self::Keep(KeepReason::Unmerged), StoredKind::Run) => {
                "their work tree is still there".to_string()
            }
            (Self::Keep(KeepReason::Unmerged), _) => {
                "hold work that is not merged; `ralph status RUN` shows the branch".to_string()
            }
            (Self::Keep(KeepReason::Unowned), _) => {
                "belong to no run of this home; `ralph uninstall --all` deletes refs".to_string()
            }
            (Self::Keep(KeepReason::Unreadable), StoredKind::Quarantined) => {
                "kept for inspection; `ralph doctor` names them".to_string()
            }
            (Self::Keep(KeepReason::Unreadable), _) => {
                "damaged, or written by a newer ralph; `ralph doctor` names them".to_string()
            }
            (Self::Keep(KeepReason::Permanent), StoredKind::RecallIndex) => {
                "for `ralph recall`; rebuilt if you remove it".to_string()
            }
            (Self::Keep(KeepReason::Permanent), StoredKind::InstallRecord) => {
                "`ralph uninstall` needs them".to_string()
            }
            (Self::Keep(KeepReason::Permanent), _) => {
                "settings, approvals, memory, spending, queues".to_string()
            }
            (Self::Remove(RemovalReason::Leftover), StoredKind::Checkout) => {
                "their run or process has ended".to_string()
            }
            (Self::Remove(RemovalReason::Leftover), StoredKind::Worktree) => {
                "their work is merged".to_string()
            }
            (Self::Remove(RemovalReason::Leftover), _) => "left behind".to_string(),
            (Self::Remove(RemovalReason::TooOld), _) if rules.max_age_ms == 0 => {
                "of any age".to_string()
            }
            (Self::Remove(RemovalReason::TooOld), _) => format!("not used for {}", age()),
            (Self::Remove(RemovalReason::TooManyRuns), _) => format!(
                "beyond the last {} of their project",
                count_noun(rules.max_runs, "ended run")
            ),
            (Self::Remove(RemovalReason::CacheTooLarge), _) => {
                format!("the cache is larger than {}", units::format_bytes(rules.max_cache_bytes))
            }
        }
    }
}

/// One verdict for each item, in the same order.
pub fn decide(items: &[StoredItem], rules: &RetentionRules) -> Vec<RetentionVerdict> {
    let mut verdicts: Vec<_> = items.iter().map(|item| decide_alone(item, rules)).collect();
    remove_surplus_runs(items, rules, &mut verdicts);
    remove_surplus_cache(items, rules, &mut verdicts);
    verdicts
}

fn decide_alone(item: &StoredItem, rules: &RetentionRules) -> RetentionVerdict {
    let by_age = |reason| {
        if item.age_ms > rules.max_age_ms {
            RetentionVerdict::Remove(RemovalReason::TooOld)
        } else {
            RetentionVerdict::Keep(reason)
        }
    };
    match (item.state, rules.unsettled) {
        (StoredState::InUse, _) => RetentionVerdict::Keep(KeepReason::InUse),
        (StoredState::AwaitsPerson, UnsettledRuns::Keep) => {
            RetentionVerdict::Keep(KeepReason::AwaitsPerson)
        }
        (StoredState::Acceptable, UnsettledRuns::Keep) => by_age(KeepReason::Acceptable),
        (StoredState::AwaitsPerson | StoredState::Acceptable, UnsettledRuns::LikeOthers)
        | (StoredState::Ended | StoredState::Rebuildable, _) => by_age(KeepReason::Recent),
        (StoredState::Unmerged, _) => RetentionVerdict::Keep(KeepReason::Unmerged),
        (StoredState::Unowned, _) => RetentionVerdict::Keep(KeepReason::Unowned),
        (StoredState::Unreadable, _) => RetentionVerdict::Keep(KeepReason::Unreadable),
        (StoredState::Leftover, _) => RetentionVerdict::Remove(RemovalReason::Leftover),
        (StoredState::Permanent, _) => RetentionVerdict::Keep(KeepReason::Permanent),
    }
}

/// Of each project, the newest ended runs stay. Runs that stay for another reason do not count.
fn remove_surplus_runs(
    items: &[StoredItem],
    rules: &RetentionRules,
    verdicts: &mut [RetentionVerdict],
) {
    let mut by_project: BTreeMap<Option<&str>, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, (item, verdict)) in items.iter().zip(&*verdicts).enumerate() {
        if item.kind == StoredKind::Run && *verdict == RetentionVerdict::Keep(KeepReason::Recent) {
            by_project.entry(item.project.as_deref()).or_default().push((item.age_ms, at));
        }
    }
    let most = usize::try_from(rules.max_runs).unwrap_or(usize::MAX);
    for mut runs in by_project.into_values() {
        runs.sort_unstable();
        for (_, at) in runs.into_iter().skip(most) {
            set(verdicts, at, RemovalReason::TooManyRuns);
        }
    }
}

/// The cache entries that were not used for the longest time go first.
fn remove_surplus_cache(
    items: &[StoredItem],
    rules: &RetentionRules,
    verdicts: &mut [RetentionVerdict],
) {
    let is_kept_cache = |at: usize, item: &StoredItem| {
        item.kind.is_cache()
            && verdicts.get(at) == Some(&RetentionVerdict::Keep(KeepReason::Recent))
    };
    let mut entries = vec![];
    let mut total: u64 = 0;
    for (at, item) in items.iter().enumerate().filter(|(at, item)| is_kept_cache(*at, item)) {
        total = total.saturating_add(item.bytes);
        entries.push((Reverse(item.age_ms), at, item.bytes));
    }
    entries.sort_unstable();
    for (_, at, bytes) in entries {
        if total <= rules.max_cache_bytes {
            return;
        }
        total = total.saturating_sub(bytes);
        set(verdicts, at, RemovalReason::CacheTooLarge);
    }
}

fn set(verdicts: &mut [RetentionVerdict], at: usize, reason: RemovalReason) {
    if let Some(verdict) = verdicts.get_mut(at) {
        *verdict = RetentionVerdict::Remove(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RetentionRules = RetentionRules {
        max_age_ms: 30 * DAY_MS,
        max_runs: 2,
        max_cache_bytes: 100,
        unsettled: UnsettledRuns::Keep,
    };
    const ALL: RetentionRules = RetentionRules { unsettled: UnsettledRuns::LikeOthers, ..RULES };

    fn item(kind: StoredKind, state: StoredState, days: u64) -> StoredItem {
        StoredItem { kind, state, age_ms: days * DAY_MS, bytes: 0, project: None }
    }

    fn names(items: &[StoredItem], rules: &RetentionRules) -> Vec<&'static str> {
        decide(items, rules).into_iter().map(RetentionVerdict::name).collect()
    }

    #[test]
    fn each_state_has_its_rule() {
        use StoredKind::{Checkout, GateResult, Run, SessionRecord, Worktree};
        use StoredState::{
            Acceptable, AwaitsPerson, Ended, InUse, Leftover, Permanent, Rebuildable, Unmerged,
            Unowned, Unreadable,
        };
        for (kind, state, days, expected, with_unsettled) in [
            (Run, InUse, 900, "in_use", "in_use"),
            (Run, AwaitsPerson, 900, "awaits_person", "too_old"),
            (Run, AwaitsPerson, 1, "awaits_person", "recent"),
            (Run, Acceptable, 30, "acceptable", "recent"),
            (Run, Acceptable, 31, "too_old", "too_old"),
            (Run, Ended, 30, "recent", "recent"),
            (Run, Ended, 31, "too_old", "too_old"),
            (Run, Unmerged, 900, "unmerged", "unmerged"),
            (Run, Unreadable, 900, "unreadable", "unreadable"),
            (Run, Leftover, 0, "leftover", "leftover"),
            (SessionRecord, Ended, 31, "too_old", "too_old"),
            (Worktree, Unmerged, 900, "unmerged", "unmerged"),
            (Worktree, Leftover, 0, "leftover", "leftover"),
            (Checkout, InUse, 900, "in_use", "in_use"),
            (Checkout, Leftover, 0, "leftover", "leftover"),
            (StoredKind::CheckpointRefs, Unowned, 900, "unowned", "unowned"),
            (GateResult, Rebuildable, 30, "recent", "recent"),
            (GateResult, Rebuildable, 31, "too_old", "too_old"),
            (StoredKind::PersonalFile, Permanent, 900, "permanent", "permanent"),
        ] {
            let items = [item(kind, state, days)];
            let found = [names(&items, &RULES), names(&items, &ALL)].concat();
            assert_eq!(found, [expected, with_unsettled], "{kind:?} {state:?} {days}");
        }
    }

    #[test]
    fn only_the_newest_ended_runs_of_each_project_stay() {
        let run = |state, days, project: &str| StoredItem {
            project: Some(project.to_string()),
            ..item(StoredKind::Run, state, days)
        };
        let items = [
            run(StoredState::Ended, 4, "a"),
            run(StoredState::Ended, 2, "a"),
            run(StoredState::Ended, 3, "a"),
            run(StoredState::InUse, 9, "a"),
            run(StoredState::AwaitsPerson, 9, "a"),
            run(StoredState::Acceptable, 9, "a"),
            run(StoredState::Ended, 9, "b"),
            StoredItem { kind: StoredKind::SessionRecord, ..run(StoredState::Ended, 9, "a") },
        ];
        assert_eq!(
            names(&items, &RULES),
            [
                "too_many_runs",
                "recent",
                "recent",
                "in_use",
                "awaits_person",
                "acceptable",
                "recent",
                "recent"
            ]
        );
        assert_eq!(
            names(&items, &RetentionRules { max_runs: 0, ..RULES })[..3],
            ["too_many_runs"; 3]
        );
    }

    #[test]
    fn the_oldest_cache_entries_go_until_the_rest_fits() {
        let entry =
            |kind, days, bytes| StoredItem { bytes, ..item(kind, StoredState::Rebuildable, days) };
        let items = [
            entry(StoredKind::GateResult, 1, 60),
            entry(StoredKind::GateLog, 3, 30),
            entry(StoredKind::GateResult, 2, 30),
            entry(StoredKind::TreeCache, 40, 900),
            StoredItem { bytes: 900, ..item(StoredKind::Run, StoredState::Ended, 1) },
        ];
        let expected = ["recent", "cache_too_large", "recent", "too_old", "recent"];
        assert_eq!(names(&items, &RULES), expected);
        let roomy = RetentionRules { max_cache_bytes: 120, ..RULES };
        assert_eq!(names(&items, &roomy), ["recent", "recent", "recent", "too_old", "recent"]);
    }
}
