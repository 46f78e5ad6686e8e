//! Copies ralph's home for one session. Decisions made in the copy are the real ones, but change nothing in the
//! original.

use std::path::{Path, PathBuf};

use ralph_core::id::{RunId, SessionId};

use crate::overview::{self, DecisionHistory};
use ralph_git::checkpoint::{self, STORE_FILE};
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer;
use ralph_sys::fs::{self, Durability, FileError, FileKind};

/// Limit for one file; the journal is the largest.
const MAX_COPIED_FILE_BYTES: usize = 256 * 1024 * 1024;
/// Limit for all files together.
const MAX_COPIED_BYTES: usize = 512 * 1024 * 1024;
const MAX_COPIED_FILES: usize = 20_000;
const MAX_DEPTH: usize = 8;
/// Limit for gate results. Gates without a copied result run again.
const MAX_CACHE_BYTES: usize = 64 * 1024 * 1024;
const MAX_CACHED_RESULTS: usize = 4_096;

/// Files to copy from the directory of a run. The rest are locks, logs and files that can be recreated.
const RUN_FILES: [&str; 5] = ["run.json", "journal.jsonl", "state.json", "count", "goal.txt"];
/// Entries to copy from a shadow repository that stores the checkpoints itself. Its objects are read in place.
const SHADOW_ENTRIES: [&str; 5] = ["HEAD", "config", "info", "packed-refs", "refs"];

#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is too large or too deep to copy", .0.display())]
    TooMuch(PathBuf),
}

/// Copies everything that decisions about a session read. `root` must not exist yet; the caller removes it.
pub fn copy_home(
    from: &RalphHome,
    session: &SessionId,
    root: &Path,
) -> Result<RalphHome, RehearsalError> {
    let to = RalphHome::new(root.to_owned());
    fs::create_private_dir(root)?;
    let mut copying = CopyBudget { files: MAX_COPIED_FILES, bytes: MAX_COPIED_BYTES };
    let places = [
        (from.session_pointer(session), to.session_pointer(session)),
        (from.session_state(session), to.session_state(session)),
        (from.held_journal(session), to.held_journal(session)),
        (from.tombstone(session.as_str()), to.tombstone(session.as_str())),
        (from.root().join("adopted"), root.join("adopted")),
        (from.trust(), to.trust()),
        (from.seal_key(), to.seal_key()),
        (from.user_config(), to.user_config()),
        (from.kill_switch(), to.kill_switch()),
    ];
    for (original, place) in places {
        copying.copy_any(&original, &place, MAX_DEPTH)?;
    }
    // Reads the copy, not the original: reading a garbled pointer quarantines it.
    if let Ok(Some(pointer)) = session_pointer::read_pointer(&to, session) {
        copy_run(from, &to, &pointer.run, &mut copying)?;
    }
    let mut results = CopyBudget { files: MAX_CACHED_RESULTS, bytes: MAX_CACHE_BYTES };
    for part in ["gates", "history", "stat"] {
        // Results that do not fit are computed again.
        drop(results.copy_any(&from.cache().join(part), &to.cache().join(part), MAX_DEPTH));
    }
    Ok(to)
}

fn copy_run(
    from: &RalphHome,
    to: &RalphHome,
    run: &RunId,
    copying: &mut CopyBudget,
) -> Result<(), RehearsalError> {
    let (original, place) = (from.run(run), to.run(run));
    for name in RUN_FILES {
        let (original, place) = (original.directory().join(name), place.directory().join(name));
        copying.copy_any(&original, &place, 0)?;
    }
    copying.copy_any(&original.lists(), &place.lists(), 1)?;
    copying.copy_any(&from.tombstone(run.as_str()), &to.tombstone(run.as_str()), 0)?;
    let (original, place) = (original.shadow_repository(), place.shadow_repository());
    // If the project's repository stores the checkpoints, the shadow is created again.
    let keeper = fs::read_if_exists(&original.join(STORE_FILE), MAX_COPIED_FILE_BYTES)?;
    if keeper.is_some_and(|keeper| keeper.is_empty()) {
        for name in SHADOW_ENTRIES {
            copying.copy_any(&original.join(name), &place.join(name), MAX_DEPTH)?;
        }
        checkpoint::borrow_objects(&place, &original.join("objects"))?;
        copying.copy_any(&original.join(STORE_FILE), &place.join(STORE_FILE), 0)?;
    }
    Ok(())
}

/// The remaining budget of a copy.
struct CopyBudget {
    files: usize,
    bytes: usize,
}

impl CopyBudget {
    /// Copies a file, or a directory recursively. Missing and special files are skipped.
    fn copy_any(&mut self, from: &Path, to: &Path, deep: usize) -> Result<(), RehearsalError> {
        match fs::stat_no_follow(from).map(|stat| stat.kind) {
            Some(FileKind::File) => self.copy_file(from, to),
            Some(FileKind::Directory) => self.copy_directory(from, to, deep),
            // The target is copied, not the link: a write through the link would change the original.
            Some(FileKind::Symlink)
                if fs::stat(from).is_some_and(|stat| stat.kind == FileKind::File) =>
            {
                self.copy_file(from, to)
            }
            Some(FileKind::Symlink | FileKind::Other) | None => Ok(()),
        }
    }

    fn copy_directory(
        &mut self,
        from: &Path,
        to: &Path,
        deep: usize,
    ) -> Result<(), RehearsalError> {
        let deeper = deep.checked_sub(1).ok_or_else(|| RehearsalError::TooMuch(from.to_owned()))?;
        fs::create_private_dir(to)?;
        for name in fs::list(from, MAX_COPIED_FILES)? {
            self.copy_any(&from.join(&name), &to.join(&name), deeper)?;
        }
        Ok(())
    }

    fn copy_file(&mut self, from: &Path, to: &Path) -> Result<(), RehearsalError> {
        let too_much = || RehearsalError::TooMuch(from.to_owned());
        let Some(bytes) = fs::read_if_exists(from, MAX_COPIED_FILE_BYTES.min(self.bytes))? else {
            return Ok(());
        };
        self.files = self.files.checked_sub(1).ok_or_else(too_much)?;
        self.bytes = self.bytes.checked_sub(bytes.len()).ok_or_else(too_much)?;
        if let Some(parent) = to.parent() {
            fs::create_private_dir(parent)?;
        }
        Ok(fs::replace(to, &bytes, Durability::Cached)?)
    }
}

/// Whether a session is held, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RehearsalHold {
    ByRun,
    ByFiles,
    /// A run held it, but has ended.
    NoLonger,
    No,
}

pub fn session_hold(home: &RalphHome, session: &SessionId) -> RehearsalHold {
    match session_pointer::read_pointer(home, session) {
        Ok(Some(pointer)) if !pointer.ended => RehearsalHold::ByRun,
        Ok(_) if fs::exists(&home.session_state(session)) => RehearsalHold::ByFiles,
        Ok(Some(_)) => RehearsalHold::NoLonger,
        Ok(None) | Err(_) => RehearsalHold::No,
    }
}

/// The decisions about the session; `None` if it is unknown.
pub fn session_decisions(home: &RalphHome, session: &SessionId) -> Option<DecisionHistory> {
    overview::find_history(home, Some(session.as_str())).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names = Vec::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(directory) = waiting.pop() {
            for name in fs::list(&directory, 100).unwrap() {
                let path = directory.join(name);
                let kind = fs::stat_no_follow(&path).unwrap().kind;
                if kind == FileKind::Directory {
                    waiting.push(path);
                } else {
                    let name = path.strip_prefix(root).unwrap().display();
                    names.push(format!("{name} {kind:?}"));
                }
            }
        }
        names.sort();
        names
    }

    #[test]
    fn only_files_of_the_session_are_copied() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().join("home"));
        let session = SessionId::parse("s1").unwrap();
        for path in [
            "sessions/s2",
            "state/s1/tasks/1.json",
            "state/s2/loop.json",
            "runs/ab12/journal.jsonl",
            "runs/ab12/count",
            "runs/ab12/lists/1.json",
            "runs/ab12/lock",
            "runs/ab12/worker.log",
            "runs/ab12/checkout/a",
            "runs/cd34/journal.jsonl",
            "cancelled/ab12",
            "cancelled/cd34",
            "trust/1",
            "key",
            "cache/gates/00/1",
            "cache/logs/1.log",
            "faults/1.json",
            "runs/ab12/shadow.git/refs/ralph/ab12/0",
            "runs/ab12/shadow.git/objects/00/11",
        ] {
            put(&home.root().join(path), path);
        }
        put(&home.session_pointer(&session), r#"{"v":1,"run":"ab12","ended":"no"}"#);
        put(&home.root().join("runs/ab12/shadow.git/ralph-keeper"), "");
        symlink("/dev/zero", home.root().join("state/s1/endless")).unwrap();
        let copied = copy_home(&home, &session, &dir.path().join("copy")).unwrap();
        assert_eq!(
            names(copied.root()),
            [
                "cache/gates/00/1 File",
                "cancelled/ab12 File",
                "key File",
                "runs/ab12/count File",
                "runs/ab12/journal.jsonl File",
                "runs/ab12/lists/1.json File",
                "runs/ab12/shadow.git/objects/info/alternates File",
                "runs/ab12/shadow.git/ralph-keeper File",
                "runs/ab12/shadow.git/refs/ralph/ab12/0 File",
                "sessions/s1 File",
                "state/s1/tasks/1.json File",
                "trust/1 File",
            ]
        );
    }

    #[test]
    fn a_garbled_pointer_stays_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().join("home"));
        let session = SessionId::parse("s1").unwrap();
        put(&home.session_pointer(&session), "{");
        let copied = copy_home(&home, &session, &dir.path().join("copy")).unwrap();
        assert_eq!(names(home.root()), ["sessions/s1 File"]);
        assert_eq!(session_hold(&copied, &session), RehearsalHold::No);
    }

    #[test]
    fn too_deep_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().join("home"));
        let session = SessionId::parse("s1").unwrap();
        put(&home.session_state(&session).join("1/2/3/4/5/6/7/8/9/file"), "");
        let error = copy_home(&home, &session, &dir.path().join("copy")).unwrap_err();
        let deep = home.session_state(&session).join("1/2/3/4/5/6/7/8");
        assert_eq!(
            error.to_string(),
            format!("`{}` is too large or too deep to copy", deep.display())
        );
    }
}
