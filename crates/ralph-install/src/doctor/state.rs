//! Whether ralph's own directory can be used, and what is in it that a person should know of.

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
/// A lock is held for milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
const OTHERS: u32 = 0o077;
/// More than any file that a stop writes.
const PROBE: usize = 64 * 1024;

pub(super) fn home(scene: &Scene<'_>) -> Vec<Check> {
    const NAME: &str = "home";
    let root = scene.home.root();
    let shown = root.display();
    let Some(link) = fs::stat_link(root) else {
        return vec![Check::note(
            NAME,
            format!("`{shown}` is not there yet; the first run makes it"),
        )];
    };
    let mut checks = Vec::new();
    if link.kind == Kind::Symlink {
        let Some(place) = fs::resolve(root) else {
            let what = format!("`{shown}` is a link that leads nowhere: no run can be kept");
            return vec![Check::bad(NAME, what).fix(format!("`rm {shown}`"))];
        };
        checks.push(Check::note(NAME, format!("`{shown}` leads to `{}`", place.display())));
    }
    let Some(stat) = fs::stat(root).filter(|stat| stat.kind == Kind::Directory) else {
        let what = format!("`{shown}` is not a directory: no run can be kept");
        return vec![Check::bad(NAME, what).fix("move it away, or set `RALPH_HOME`")];
    };
    if fs::is_ours(root) == Some(false) {
        let what = format!("`{shown}` belongs to somebody else");
        return vec![Check::bad(NAME, what).fix(format!("`sudo chown -R $USER {shown}`"))];
    }
    if stat.mode & OTHERS != 0 {
        let what = format!("others may look into `{shown}` (mode {:o})", stat.mode);
        let check = Check::bad(NAME, what).fix(format!("`chmod 700 {shown}`"));
        checks.push(check.repair(Some(Repair::PrivateHome)));
    }
    match probe(root) {
        Ok(()) if checks.iter().all(|check| check.standing != Standing::Bad) => {
            checks.push(Check::good(NAME, format!("`{shown}` can be written, by you alone")));
        }
        Ok(()) => {}
        Err(error) => {
            let full = if error.is_full() { "make room on the disk" } else { "" };
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

/// Asking for permissions says nothing about a full disk.
fn probe(root: &Path) -> Result<(), fs::FileError> {
    let path = root.join(format!("doctor-{:016x}", clock::nonce()));
    fs::create_new(&path, &vec![0; PROBE])?;
    fs::remove_file(&path)
}

/// What was left in it.
pub(super) fn inside(scene: &Scene<'_>) -> Vec<Check> {
    let home = scene.home;
    let mut checks = Vec::new();
    if fs::exists(&home.kill_switch()) {
        let path = home.kill_switch();
        let what = format!("`{}` is there: nobody is held", path.display());
        checks.push(Check::bad("switch", what).fix(format!("`rm {}`", path.display())));
    }
    let faults = faults::all(home);
    if let Some(newest) = faults.first() {
        let what = match faults.len() {
            1 => format!("ralph had trouble: {}", text::line(&newest.what, 200)),
            count => {
                format!("ralph had trouble {count} times, last: {}", text::line(&newest.what, 200))
            }
        };
        let fix = "`ralph status` shows it, `ralph status --clear-trouble` forgets it";
        checks.push(Check::unclear("trouble", what).fix(fix));
    }
    checks.extend(quarantined(scene));
    checks.extend(locks(scene));
    let stale = stale(scene).len();
    if stale > 0 {
        let noun = if stale == 1 { "directory" } else { "directories" };
        let what = format!("{stale} {noun} of gates that were killed");
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
        1 => format!("a file could not be read and was kept as `{}`", first.display()),
        count => {
            format!("{count} files could not be read and were kept, one as `{}`", first.display())
        }
    };
    Some(
        Check::unclear("quarantine", what)
            .fix(format!("look at it, then `rm {}`", first.display())),
    )
}

/// A lock ends with its holder; one that is held for long has a holder that hangs.
fn locks(scene: &Scene<'_>) -> Vec<Check> {
    let deadline = Deadline::after(PATIENCE);
    let runs = store::list(scene.home).unwrap_or_default();
    let paths = runs.iter().map(|run| scene.home.run(run).lock());
    let held = paths
        .filter(|path| fs::exists(path))
        .filter(|path| matches!(fs::lock(path, &deadline), Err(LockError::Busy { .. })));
    let told = held.map(|path| {
        let shown = path.display();
        Check::unclear("lock", format!("`{shown}` is held by a process that does not let go"))
            .fix(format!("`fuser {shown}` names it"))
    });
    told.collect()
}

/// Directories that no gate can still be using.
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
