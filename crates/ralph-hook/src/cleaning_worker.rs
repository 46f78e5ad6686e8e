//! Starts the process that cleans in the background: once a day, and for the checkouts of a run when it ends. A hook's
//! answer never waits for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::id::RunId;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::paths::RalphHome;
use ralph_proof::list_recorded_directories;
use ralph_sys::clock;
use ralph_sys::env;
use ralph_sys::fs::{self, Durability, FileError, FileKind};
use ralph_sys::proc::worker::{self, WorkerSpec};

/// The subcommand and option of the worker.
const WORKER_ARGUMENTS: [&str; 2] = ["clean", "--in-background"];
/// How often ralph cleans without being asked.
const CLEANING_INTERVAL: Duration = Duration::from_hours(24);

/// Moves the checkout of an ended run away, and starts the worker if anything is to be removed. Takes the time of a few
/// calls of the system. Failures become faults.
pub fn clean_after_end(home: &RalphHome, run: &RunId) {
    match discard_directory(home, &home.run(run).old_checkout()) {
        Ok(is_moved) => {
            let is_abandoned = || list_recorded_directories(home).iter().any(|it| it.is_abandoned);
            if is_moved || is_abandoned() {
                start_worker(home);
            }
        }
        Err(error) => record_fault(home, &describe_error(&error)),
    }
    clean_if_due(home);
}

/// Starts the worker if the last cleaning is a day ago. A home without a stamp is new, or of an earlier version: it gets
/// one, and its first cleaning can wait for a day.
pub fn clean_if_due(home: &RalphHome) {
    if fs::stat_no_follow(&home.cleaning_stamp()).is_none() {
        write_stamp(home);
    } else if is_due(home) {
        start_worker(home);
    }
}

/// Whether the last cleaning is a day ago. Without a stamp it is not known, and cleaning is not due.
pub(crate) fn is_due(home: &RalphHome) -> bool {
    fs::stat_no_follow(&home.cleaning_stamp()).is_some_and(|stat| {
        let age = clock::now_ms().saturating_sub(stat.modified_ns / 1_000_000);
        u128::from(age) > CLEANING_INTERVAL.as_millis()
    })
}

/// A failure is ignored: the next process writes the stamp.
pub(crate) fn write_stamp(home: &RalphHome) {
    let written = fs::create_private_dir(&home.cache());
    drop(written.and_then(|()| fs::replace(&home.cleaning_stamp(), b"", Durability::Cached)));
}

fn start_worker(home: &RalphHome) {
    let program = env::own_executable();
    let arguments = WORKER_ARGUMENTS.map(OsStr::new);
    let spec = WorkerSpec { program: &program, arguments: &arguments, env: &[], log: None };
    let started = worker::spawn_worker(&spec).map_err(|error| describe_error(&error));
    if let Err(why) = started.and_then(|it| it.detach().map_err(|error| error.to_string())) {
        record_fault(home, &format!("cannot start the cleaning: {why}"));
    }
}

/// Moves a directory into the trash, and leaves it there. Returns whether there was one.
fn discard_directory(home: &RalphHome, directory: &Path) -> Result<bool, FileError> {
    if fs::stat_no_follow(directory).is_none() {
        return Ok(false);
    }
    Ok(discard(home, directory)?.is_some())
}

/// Where the directory is now; `None` if there is none.
pub(crate) fn discard(home: &RalphHome, directory: &Path) -> Result<Option<PathBuf>, FileError> {
    fs::create_private_dir(&home.trash())?;
    if fs::stat_no_follow(&home.trash()).is_some_and(|stat| stat.kind == FileKind::Symlink) {
        // What is moved there is removed, wherever the link leads.
        return Err(FileError::refused(&home.trash(), "it is a link"));
    }
    let trash = home.trash_name();
    Ok(fs::move_own_dir(directory, &trash)?.then_some(trash))
}

pub(crate) fn record_fault(home: &RalphHome, what: &str) {
    faults::record_fault(home, &Fault::new(FaultKind::File, what));
}
