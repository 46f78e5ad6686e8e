//! Checks ralph's home directory: access, the kill switch, faults, quarantined files, locks, leftovers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CheckStatus, DoctorCheck, DoctorContext, SafeRepair};
use ralph_core::text;
use ralph_home::faults::{self, describe_error};
use ralph_home::store;
use ralph_policy::config::MAX_GATE_TIMEOUT_MS;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, FileError, FileKind, LockError};

const MAX_ENTRIES: usize = 100_000;
/// A lock is normally held only for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const OTHER_USERS_MODE: u32 = 0o077;
/// Larger than any file that a stop writes.
const PROBE_BYTES: usize = 64 * 1024;

pub(super) fn check_home(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    const NAME: &str = "home";
    let root = context.home.root();
    let shown = root.display();
    let Some(link) = fs::stat_no_follow(root) else {
        return vec![DoctorCheck::note(
            NAME,
            format!("`{shown}` does not exist yet; the first run creates it"),
        )];
    };
    let mut checks = Vec::new();
    if link.kind == FileKind::Symlink {
        let Some(place) = fs::resolve(root) else {
            let what = format!("`{shown}` is a broken symlink, so no run can be stored");
            return vec![DoctorCheck::bad(NAME, what).fix(format!("`rm {shown}`"))];
        };
        checks.push(DoctorCheck::note(
            NAME,
            format!("`{shown}` is a symlink to `{}`", place.display()),
        ));
    }
    let Some(stat) = fs::stat(root).filter(|stat| stat.kind == FileKind::Directory) else {
        let what = format!("`{shown}` is not a directory, so no run can be stored");
        return vec![DoctorCheck::bad(NAME, what).fix("move it away, or set `RALPH_HOME`")];
    };
    if fs::is_owned_by_us(root) == Some(false) {
        let what = format!("`{shown}` belongs to another user");
        return vec![DoctorCheck::bad(NAME, what).fix(format!("`sudo chown -R $USER {shown}`"))];
    }
    if stat.mode & OTHER_USERS_MODE != 0 {
        let what = format!("`{shown}` is accessible to other users (mode {:o})", stat.mode);
        let check = DoctorCheck::bad(NAME, what).fix(format!("`chmod 700 {shown}`"));
        checks.push(check.repair(Some(SafeRepair::PrivateHome)));
    }
    match probe_home(root) {
        Ok(()) if checks.iter().all(|check| check.standing != CheckStatus::Bad) => {
            checks.push(DoctorCheck::good(NAME, format!("`{shown}` is writable, by you only")));
        }
        Ok(()) => {}
        Err(error) => {
            let full = if error.is_disk_full() { "free up disk space" } else { "" };
            let fix = match full {
                "" => format!("`chmod 700 {shown}`"),
                full => full.to_string(),
            };
            let repair = error.is_denied().then_some(SafeRepair::PrivateHome);
            checks.push(DoctorCheck::bad(NAME, describe_error(&error)).fix(fix).repair(repair));
        }
    }
    checks
}

/// Writes a test file, because permissions do not reveal a full disk.
fn probe_home(root: &Path) -> Result<(), FileError> {
    let path = root.join(format!("doctor-{:016x}", clock::nonce()));
    fs::create_new(&path, &vec![0; PROBE_BYTES])?;
    fs::remove_file(&path)
}

/// Checks the content of the home.
pub(super) fn check_home_content(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    let home = context.home;
    let mut checks = Vec::new();
    if fs::exists(&home.kill_switch()) {
        let path = home.kill_switch();
        let what = format!("`{}` exists, so no session is held", path.display());
        checks.push(DoctorCheck::bad("switch", what).fix(format!("`rm {}`", path.display())));
    }
    let faults = faults::list_faults(home);
    if let Some(newest) = faults.first() {
        let what = match faults.len() {
            1 => format!("ralph recorded a fault: {}", text::clean_line(&newest.what, 200)),
            count => {
                format!(
                    "ralph recorded {count} faults, the last: {}",
                    text::clean_line(&newest.what, 200)
                )
            }
        };
        let fix = "`ralph status` shows it, `ralph status --clear-trouble` clears it";
        checks.push(DoctorCheck::unclear("trouble", what).fix(fix));
    }
    match quarantined_files(context) {
        Ok(found) => checks.extend(check_quarantine(&found)),
        Err(error) => checks.push(DoctorCheck::unclear("quarantine", describe_error(&error))),
    }
    checks.extend(check_locks(context));
    match stale_scratch(context).map(|stale| stale.len()) {
        Ok(0) => {}
        Ok(stale) => {
            let noun = if stale == 1 { "directory" } else { "directories" };
            let what = format!("{stale} {noun} left by killed gates");
            let check = DoctorCheck::note("scratch", what).fix("`ralph doctor --fix` removes them");
            checks.push(check.repair(Some(SafeRepair::Scratch)));
        }
        Err(error) => checks.push(DoctorCheck::unclear("scratch", describe_error(&error))),
    }
    checks
}

fn quarantined_files(context: &DoctorContext<'_>) -> Result<Vec<PathBuf>, FileError> {
    let home = context.home;
    let mut directories = vec![home.root().to_path_buf(), home.sessions(), home.trust()];
    let runs = store::list_runs(home)?;
    directories.extend(runs.iter().map(|run| home.run(run).directory().to_path_buf()));
    let mut found = Vec::new();
    for directory in directories {
        let names = fs::list_if_exists(&directory, MAX_ENTRIES)?;
        let names = names.iter().filter(|name| name.to_string_lossy().contains(".quarantined-"));
        found.extend(names.map(|name| directory.join(name)));
    }
    Ok(found)
}

fn check_quarantine(found: &[PathBuf]) -> Option<DoctorCheck> {
    let first = found.first()?;
    let what = match found.len() {
        1 => format!("an unreadable file was kept as `{}`", first.display()),
        count => {
            format!("{count} unreadable files were kept, one as `{}`", first.display())
        }
    };
    Some(
        DoctorCheck::unclear("quarantine", what)
            .fix(format!("inspect it, then `rm {}`", first.display())),
    )
}

/// A lock is released when its process exits, so a lock held for long belongs to a process that hangs.
fn check_locks(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    let deadline = Deadline::after(LOCK_TIMEOUT);
    // Another check reports that the runs cannot be listed.
    let runs = store::list_runs(context.home).unwrap_or_default();
    let paths = runs.iter().map(|run| context.home.run(run).lock());
    let held = paths
        .filter(|path| fs::exists(path))
        .filter(|path| matches!(fs::acquire_lock(path, &deadline), Err(LockError::Busy { .. })));
    let checks = held.map(|path| {
        let shown = path.display();
        DoctorCheck::unclear(
            "lock",
            format!("`{shown}` is held by a process that does not release it"),
        )
        .fix(format!("`fuser {shown}` names it"))
    });
    checks.collect()
}

/// Temporary directories that no running gate can still use.
pub(super) fn stale_scratch(context: &DoctorContext<'_>) -> Result<Vec<PathBuf>, FileError> {
    const AN_HOUR_MS: u64 = 60 * 60 * 1000;
    let directory = context.home.root().join("scratch");
    let names = fs::list_if_exists(&directory, MAX_ENTRIES)?;
    let oldest = clock::now_ms().saturating_sub(MAX_GATE_TIMEOUT_MS + AN_HOUR_MS);
    let is_stale = |path: &PathBuf| {
        fs::stat_no_follow(path).is_some_and(|stat| stat.modified_ns / 1_000_000 < oldest)
    };
    Ok(names.into_iter().map(|name| directory.join(name)).filter(is_stale).collect())
}
