//! Cleaning of ralph's home and of what ralph leaves beside it: checkouts, work trees, refs in repositories.
//!
//! [`inventory`] lists what there is, `ralph_core::retention` decides, [`removal`] removes. Cleaning happens when a
//! person runs `ralph clean`, and in the [worker](crate::cleaning_worker).

pub mod inventory;
mod linked_directories;
pub mod removal;

use std::path::PathBuf;
use std::time::Duration;

use crate::cleaning_worker;
use inventory::{CleanScope, InventoryDetail};
use ralph_core::retention::{self, RetentionRules};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_policy::config;
use ralph_proof::list_recorded_directories;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, FileLock, LockError};

pub use inventory::{CleanTarget, StoredEntry};
pub use removal::{RemovalFailure, RemovalProgress, RemovalSummary};

/// How long the worker may take. The next one continues.
const WORKER_TIMEOUT: Duration = Duration::from_mins(10);

/// Everything that was found, with a verdict for each.
#[derive(Debug)]
pub struct CleanPlan {
    pub rules: RetentionRules,
    pub entries: Vec<PlannedEntry>,
    /// Directories of ralph's home that are links, and therefore are left alone.
    pub linked: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct PlannedEntry {
    pub stored: StoredEntry,
    pub verdict: retention::RetentionVerdict,
}

impl CleanPlan {
    pub fn make(
        home: &RalphHome,
        scope: &CleanScope,
        rules: RetentionRules,
        detail: InventoryDetail,
        deadline: &Deadline,
    ) -> Result<Self, FileError> {
        let found = inventory::take_inventory(home, scope, detail, deadline)?;
        let items: Vec<_> = found.iter().map(|entry| entry.item.clone()).collect();
        let verdicts = retention::decide(&items, &rules);
        let entries = found.into_iter().zip(verdicts);
        let entries = entries.map(|(stored, verdict)| PlannedEntry { stored, verdict }).collect();
        Ok(Self { rules, entries, linked: linked_directories::linked_directories(home) })
    }

    pub fn removals(&self) -> impl Iterator<Item = &StoredEntry> {
        self.entries.iter().filter(|one| one.verdict.is_removal()).map(|one| &one.stored)
    }
}

/// Only one process cleans at a time.
pub fn lock_cleaning(home: &RalphHome, deadline: &Deadline) -> Result<FileLock, LockError> {
    fs::create_private_dir(home.root())?;
    fs::acquire_lock(&home.cleaning_lock(), deadline)
}

/// Runs in the worker: removes what is left behind and, once a day, what the person's settings no longer keep. Does
/// nothing if another process is cleaning.
pub fn clean_in_background(home: &RalphHome) {
    let deadline = &Deadline::after(WORKER_TIMEOUT);
    let Ok(_lock) = lock_cleaning(home, &Deadline::after(Duration::ZERO)) else { return };
    removal::empty_trash(home);
    for directory in list_recorded_directories(home).iter().filter(|one| one.is_abandoned) {
        drop(directory.remove());
    }
    if !cleaning_worker::is_due(home) {
        return;
    }
    // First, so that a home that cannot be cleaned is not tried again and again.
    cleaning_worker::write_stamp(home);
    // Every command that reads the file reports mistakes in it.
    let Ok(rules) = config::load_keep(home) else { return };
    let scope = CleanScope::EveryProject;
    let plan = CleanPlan::make(home, &scope, rules, InventoryDetail::Quick, deadline);
    let failed = match plan {
        Ok(plan) => {
            let removals: Vec<_> = plan.removals().collect();
            removal::remove_entries(home, &removals, deadline, &mut |_| {}).failed
        }
        Err(error) => {
            cleaning_worker::record_fault(home, &describe_error(&error));
            return;
        }
    };
    if let Some(first) = failed.first() {
        cleaning_worker::record_fault(
            home,
            &format!("cannot clean up: {}: {}", first.name, first.why),
        );
    }
}
