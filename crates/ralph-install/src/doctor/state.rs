//! Checks ralph's home directory: access, the kill switch, faults, quarantined files, locks, leftovers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Check, Repair, Scene, Standing};
use ralph_core::text;
use ralph_home::faults::{self, describe};
use ralph_home::store;
use ralph_policy::config::LONGEST_GATE_MS;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Kind, LockError};

const MOST: usize = 100_000;
/// A lock is normally held only for milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
const OTHERS: u32 = 0o077;
/// Larger than any file that a stop writes.
const PROBE: usize = 64 * 1024;

pub(super) fn home(scene: &Scene<'_>) -> Vec<Check> {
    const NAME: &str = "home";
    let root = scene.home.root();
    let shown = root.display();
    let Some(link) = fs::stat_link(root) else {
        return vec![Check::note(
            NAME,
            format!("`{shown}` does not exist yet; the first run creates it"),
        )];
    };
    let mut checks = Vec::new();
    if link.kind == Kind::Symlink {
        let Some(place) = fs::resolve(root) else {
            let what = format!("`{shown}` is a broken symlink, so no run can be stored");
            return vec![Check::bad(NAME, what).fix(format!("`rm {shown}`"))];
        };
        checks.push(Check::note(NAME, format!("`{shown}` is a symlink to `{}`", place.display())));
    }
    let Some(stat) = fs::stat(root).filter(|stat| stat.kind == Kind::Directory) else {
        let what = format!("`{shown}` is not a directory, so no run can be stored");
        return vec![Check::bad(NAME, what).fix("move it away, or set `RALPH_HOME`")];
    };
    if fs::is_ours(root) == Some(false) {
        let what = format!("`{shown}` belongs to another user");
        return vec![Check::bad(NAME, what).fix(format!("`sudo chown -R $USER {shown}`"))];
    }
    if stat.mode & OTHERS != 0 {
        let what = format!("`{shown}` is accessible to other users (mode {:o})", stat.mode);
        let check = Check::bad(NAME, what).fix(format!("`chmod 700 {shown}`"));
        checks.push(check.repair(Some(Repair::PrivateHome)));
    }
    match probe(root) {
        Ok(()) if checks.iter().all(|check| check.standing != Standing::Bad) => {
            checks.push(Check::good(NAME, format!("`{shown}` is writable, by you only")));
        }
        Ok(()) => {}
        Err(error) => {
            let full = if error.is_full() { "free up disk space" } else { "" };
            let fix = match full {
                "" => format!("`chmod 700 {shown}`"),
                full => full.to_string(),
            };
            let repair = error.is_denied().then_some(Repair::PrivateHome);
            checks.push(Check::bad(NAME, describe(&error)).fix(fix).repair(repair));
        }
    }
    checks
}

/// Writes a test file, because permissions do not reveal a full disk.
fn probe(root: &Path) -> Result<(), fs::FileError> {
    let path = root.join(format!("doctor-{:016x}", clock::nonce()));
    fs::create_new(&path, &vec![0; PROBE])?;
    fs::remove_file(&path)
}

/// Checks the content of the home.
pub(super) fn inside(scene: &Scene<'_>) -> Vec<Check> {
    let home = scene.home;
    let mut checks = Vec::new();
    if fs::exists(&home.kill_switch()) {
        let path = home.kill_switch();
        let what = format!("`{}` exists, so no session is held", path.display());
        checks.push(Check::bad("switch", what).fix(format!("`rm {}`", path.display())));
    }
    let faults = faults::all(home);
    if let Some(newest) = faults.first() {
        let what = match faults.len() {
            1 => format!("ralph recorded a fault: {}", text::line(&newest.what, 200)),
            count => {
                format!(
                    "ralph recorded {count} faults, the last: {}",
                    text::line(&newest.what, 200)
                )
            }
        };
        let fix = "`ralph status` shows it, `ralph status --clear-trouble` clears it";
        checks.push(Check::unclear("trouble", what).fix(fix));
    }
    checks.extend(quarantined(scene));
    checks.extend(locks(scene));
    let stale = stale(scene).len();
    if stale > 0 {
        let noun = if stale == 1 { "directory" } else { "directories" };
        let what = format!("{stale} {noun} left by killed gates");
        let check = Check::note("scratch", what).fix("`ralph doctor --fix` removes them");
        checks.push(check.repair(Some(Repair::Scratch)));
    }
    checks
}

fn quarantined(scene: &Scene<'_>) -> Option<Check> {
    let home = scene.home;
    let mut directories = vec![home.root().to_path_buf(), home.sessions(), home.trust()];
    let runs = store::list(home).unwrap_or_default();
    directories.extend(runs.iter().map(|run| home.run(run).directory().to_path_buf()));
    let mut found = Vec::new();
    for directory in directories {
        let names = fs::list(&directory, MOST).unwrap_or_default();
        let names = names.iter().filter(|name| name.to_string_lossy().contains(".quarantined-"));
        found.extend(names.map(|name| directory.join(name)));
    }
    let first = found.first()?;
    let what = match found.len() {
        1 => format!("an unreadable file was kept as `{}`", first.display()),
        count => {
            format!("{count} unreadable files were kept, one as `{}`", first.display())
        }
    };
    Some(
        Check::unclear("quarantine", what)
            .fix(format!("inspect it, then `rm {}`", first.display())),
    )
}

/// A lock is released when its process exits, so a lock held for long belongs to a process that hangs.
fn locks(scene: &Scene<'_>) -> Vec<Check> {
    let deadline = Deadline::after(PATIENCE);
    let runs = store::list(scene.home).unwrap_or_default();
    let paths = runs.iter().map(|run| scene.home.run(run).lock());
    let held = paths
        .filter(|path| fs::exists(path))
        .filter(|path| matches!(fs::lock(path, &deadline), Err(LockError::Busy { .. })));
    let checks = held.map(|path| {
        let shown = path.display();
        Check::unclear("lock", format!("`{shown}` is held by a process that does not release it"))
            .fix(format!("`fuser {shown}` names it"))
    });
    checks.collect()
}

/// Temporary directories that no running gate can still use.
pub(super) fn stale(scene: &Scene<'_>) -> Vec<PathBuf> {
    const AN_HOUR_MS: u64 = 60 * 60 * 1000;
    let directory = scene.home.root().join("scratch");
    let names = fs::list(&directory, MOST).unwrap_or_default();
    let oldest = clock::now_ms().saturating_sub(LONGEST_GATE_MS + AN_HOUR_MS);
    let is_stale = |path: &PathBuf| {
        fs::stat_link(path).is_some_and(|stat| stat.modified_ns / 1_000_000 < oldest)
    };
    names.into_iter().map(|name| directory.join(name)).filter(is_stale).collect()
}
