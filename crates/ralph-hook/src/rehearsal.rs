//! Copies ralph's home for one session. Decisions made in the copy are the real ones, but change nothing in the
//! original.

use std::path::{Path, PathBuf};

use ralph_core::id::{RunId, SessionId};

use crate::overview::{self, History};
use ralph_git::checkpoint::{self, KEEPER};
use ralph_home::paths::Home;
use ralph_home::session_pointer::{self, Ended};
use ralph_sys::fs::{self, Durability, FileError, Kind};

/// Limit for one file; the journal is the largest.
const LARGEST_FILE: usize = 256 * 1024 * 1024;
/// Limit for all files together.
const LARGEST: usize = 512 * 1024 * 1024;
const MOST_FILES: usize = 20_000;
const DEEPEST: usize = 8;
/// Limit for gate results. Gates without a copied result run again.
const LARGEST_CACHE: usize = 64 * 1024 * 1024;
const MOST_RESULTS: usize = 4_096;

/// Files to copy from the directory of a run. The rest are locks, logs and files that can be recreated.
const OF_A_RUN: [&str; 5] = ["run.json", "journal.jsonl", "state.json", "count", "goal.txt"];
/// Entries to copy from a shadow repository that stores the checkpoints itself. Its objects are read in place.
const OF_A_SHADOW: [&str; 5] = ["HEAD", "config", "info", "packed-refs", "refs"];

#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("`{}` is too large or too deep to copy", .0.display())]
    TooMuch(PathBuf),
}

/// Copies everything that decisions about a session read. `root` must not exist yet; the caller removes it.
pub fn copy(from: &Home, session: &SessionId, root: &Path) -> Result<Home, RehearsalError> {
    let to = Home::new(root.to_owned());
    fs::create_dir(root)?;
    let mut copying = Copying { files: MOST_FILES, bytes: LARGEST };
    let places = [
        (from.session(session), to.session(session)),
        (from.state(session), to.state(session)),
        (from.held_journal(session), to.held_journal(session)),
        (from.tombstone(session.as_str()), to.tombstone(session.as_str())),
        (from.root().join("adopted"), root.join("adopted")),
        (from.trust(), to.trust()),
        (from.key(), to.key()),
        (from.user_config(), to.user_config()),
        (from.kill_switch(), to.kill_switch()),
    ];
    for (original, place) in places {
        copying.any(&original, &place, DEEPEST)?;
    }
    // Reads the copy, not the original: reading a garbled pointer quarantines it.
    if let Ok(Some(pointer)) = session_pointer::pointer(&to, session) {
        of_run(from, &to, &pointer.run, &mut copying)?;
    }
    let mut results = Copying { files: MOST_RESULTS, bytes: LARGEST_CACHE };
    for part in ["gates", "history", "stat"] {
        // Results that do not fit are computed again.
        drop(results.any(&from.cache().join(part), &to.cache().join(part), DEEPEST));
    }
    Ok(to)
}

fn of_run(
    from: &Home,
    to: &Home,
    run: &RunId,
    copying: &mut Copying,
) -> Result<(), RehearsalError> {
    let (original, place) = (from.run(run), to.run(run));
    for name in OF_A_RUN {
        let (original, place) = (original.directory().join(name), place.directory().join(name));
        copying.any(&original, &place, 0)?;
    }
    copying.any(&from.tombstone(run.as_str()), &to.tombstone(run.as_str()), 0)?;
    let (original, place) = (original.shadow(), place.shadow());
    // If the project's repository stores the checkpoints, the shadow is created again.
    let keeper = fs::read_opt(&original.join(KEEPER), LARGEST_FILE)?;
    if keeper.is_some_and(|keeper| keeper.is_empty()) {
        for name in OF_A_SHADOW {
            copying.any(&original.join(name), &place.join(name), DEEPEST)?;
        }
        checkpoint::borrow_objects(&place, &original.join("objects"))?;
        copying.any(&original.join(KEEPER), &place.join(KEEPER), 0)?;
    }
    Ok(())
}

/// The remaining budget of a copy.
struct Copying {
    files: usize,
    bytes: usize,
}

impl Copying {
    /// Copies a file, or a directory recursively. Missing and special files are skipped.
    fn any(&mut self, from: &Path, to: &Path, deep: usize) -> Result<(), RehearsalError> {
        match fs::stat_link(from).map(|stat| stat.kind) {
            Some(Kind::File) => self.file(from, to),
            Some(Kind::Directory) => self.directory(from, to, deep),
            // The target is copied, not the link: a write through the link would change the original.
            Some(Kind::Symlink) if fs::stat(from).is_some_and(|stat| stat.kind == Kind::File) => {
                self.file(from, to)
            }
            Some(Kind::Symlink | Kind::Other) | None => Ok(()),
        }
    }

    fn directory(&mut self, from: &Path, to: &Path, deep: usize) -> Result<(), RehearsalError> {
        let deeper = deep.checked_sub(1).ok_or_else(|| RehearsalError::TooMuch(from.to_owned()))?;
        fs::create_dir(to)?;
        for name in fs::list(from, MOST_FILES)? {
            self.any(&from.join(&name), &to.join(&name), deeper)?;
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), RehearsalError> {
        let too_much = || RehearsalError::TooMuch(from.to_owned());
        let Some(bytes) = fs::read_opt(from, LARGEST_FILE.min(self.bytes))? else { return Ok(()) };
        self.files = self.files.checked_sub(1).ok_or_else(too_much)?;
        self.bytes = self.bytes.checked_sub(bytes.len()).ok_or_else(too_much)?;
        if let Some(parent) = to.parent() {
            fs::create_dir(parent)?;
        }
        Ok(fs::replace(to, &bytes, Durability::Cached)?)
    }
}

/// Whether a session is held, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    ByRun,
    ByFiles,
    /// A run held it, but has ended.
    NoLonger,
    No,
}

pub fn held(home: &Home, session: &SessionId) -> Held {
    match session_pointer::pointer(home, session) {
        Ok(Some(pointer)) if pointer.ended == Ended::No => Held::ByRun,
        Ok(_) if fs::exists(&home.state(session)) => Held::ByFiles,
        Ok(Some(_)) => Held::NoLonger,
        Ok(None) | Err(_) => Held::No,
    }
}

/// The decisions about the session; `None` if it is unknown.
pub fn history(home: &Home, session: &SessionId) -> Option<History> {
    overview::history(home, Some(session.as_str())).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names = Vec::new();
        let mut waiting = vec![root.to_owned()];
        while let Some(directory) = waiting.pop() {
            for name in fs::list(&directory, 100).unwrap() {
                let path = directory.join(name);
                let kind = fs::stat_link(&path).unwrap().kind;
                if kind == Kind::Directory {
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
        let home = Home::new(dir.path().join("home"));
        let session = SessionId::parse("s1").unwrap();
        for path in [
            "sessions/s2",
            "state/s1/tasks/1.json",
            "state/s2/loop.json",
            "runs/ab12/journal.jsonl",
            "runs/ab12/count",
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
        put(&home.session(&session), r#"{"v":1,"run":"ab12","ended":"no"}"#);
        put(&home.root().join("runs/ab12/shadow.git/ralph-keeper"), "");
        symlink("/dev/zero", home.root().join("state/s1/endless")).unwrap();
        let copied = copy(&home, &session, &dir.path().join("copy")).unwrap();
        assert_eq!(
            names(copied.root()),
            [
                "cache/gates/00/1 File",
                "cancelled/ab12 File",
                "key File",
                "runs/ab12/count File",
                "runs/ab12/journal.jsonl File",
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
        let home = Home::new(dir.path().join("home"));
        let session = SessionId::parse("s1").unwrap();
        put(&home.session(&session), "{");
        let copied = copy(&home, &session, &dir.path().join("copy")).unwrap();
        assert_eq!(names(home.root()), ["sessions/s1 File"]);
        assert_eq!(held(&copied, &session), Held::No);
    }

    #[test]
    fn too_deep_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        let session = SessionId::parse("s1").unwrap();
        put(&home.state(&session).join("1/2/3/4/5/6/7/8/9/file"), "");
        let error = copy(&home, &session, &dir.path().join("copy")).unwrap_err();
        let deep = home.state(&session).join("1/2/3/4/5/6/7/8");
        assert_eq!(
            error.to_string(),
            format!("`{}` is too large or too deep to copy", deep.display())
        );
    }
}
