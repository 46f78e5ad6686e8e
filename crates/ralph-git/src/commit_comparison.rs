//! Compares the bytes on disk with the commit that is checked out.
//!
//! `git status` answers the same question, but trusts the index and the configuration, and an agent can write both: marks
//! such as `assume-unchanged`, `core.checkStat`, a `clean` filter. Here ralph hashes every file itself and compares the ids
//! with those in the tree of the commit. Only two conversions are undone, because each can be checked: line ends, and
//! pointers of Git LFS, which contain the hash of the content.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ralph_core::text;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use sha2::{Digest, Sha256};

use crate::commit_content::{CommitReader, CommittedFile};
use crate::git;
use crate::tree::{
    self, ListingRequest, ObjectFormat, ObjectId, TreeEntry, TreeEntryMode, WorkTreeListing,
};

/// So many files are read again to undo a conversion. More are reported as different.
const MAX_CONVERTED: usize = 2_000;
const MAX_CONVERTED_BYTES: usize = 64 * 1024 * 1024;
/// A pointer of Git LFS is far smaller.
const MAX_POINTER_BYTES: usize = 1024;
const MAX_DEPTH: usize = 8;
const MAX_PATH_CHARS: usize = 200;

/// What the work tree has to do with its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitComparison {
    /// The commit that is checked out; `None` before the first commit.
    pub head: Option<String>,
    /// Paths whose content differs, relative to the repository, sorted.
    pub changed: Vec<String>,
}

/// An entry in the tree of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedEntry {
    pub(crate) mode: TreeEntryMode,
    pub(crate) id: ObjectId,
}

/// Compares the work tree that contains `project` with its commit, without the files below `exclude`. Submodules are
/// compared with the commit that the outer one records.
pub fn compare_with_commit(
    project: &Path,
    exclude: &[PathBuf],
    deadline: &Deadline,
) -> Result<CommitComparison, String> {
    compare_repository(project, exclude, deadline, MAX_DEPTH)
}

fn compare_repository(
    project: &Path,
    exclude: &[PathBuf],
    deadline: &Deadline,
    depth: usize,
) -> Result<CommitComparison, String> {
    // Without the cache: every byte is read.
    let request = ListingRequest { project, exclude, cache: None, deadline };
    let listing = tree::list_work_tree(&request).map_err(|error| error.to_string())?;
    let Some(head) = listing.head.clone() else {
        return Ok(CommitComparison { head: None, changed: Vec::new() });
    };
    let reader = CommitReader::open(&listing.root, *deadline).ok_or("not a git repository")?;
    let committed = reader.list_entries(&head).map_err(|error| error.to_string())?;
    let mut comparison =
        TreeComparison { reader: &reader, listing: &listing, deadline, depth, converted: 0 };
    let is_excluded = excluded_paths(&listing.root, exclude, project);
    let changed = comparison.changed_paths(committed, &is_excluded)?;
    Ok(CommitComparison { head: Some(head), changed })
}

/// Whether a listing leaves a path out.
fn excluded_paths(root: &Path, exclude: &[PathBuf], project: &Path) -> impl Fn(&OsStr) -> bool {
    let resolved = exclude.iter().filter_map(|path| fs::resolve(path));
    let all: Vec<PathBuf> = exclude.iter().cloned().chain(resolved).collect();
    let inside = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
    let inside = inside.strip_prefix(root).unwrap_or(Path::new("")).to_path_buf();
    let root = root.to_path_buf();
    move |path| {
        let absolute = root.join(path);
        all.iter().any(|one| absolute.starts_with(one))
            || tree::is_local_settings(Path::new(path), &inside)
    }
}

struct TreeComparison<'a> {
    reader: &'a CommitReader,
    listing: &'a WorkTreeListing,
    deadline: &'a Deadline,
    depth: usize,
    /// How many files were read to undo a conversion.
    converted: usize,
}

impl TreeComparison<'_> {
    fn changed_paths(
        &mut self,
        mut committed: BTreeMap<OsString, CommittedEntry>,
        is_excluded: &dyn Fn(&OsStr) -> bool,
    ) -> Result<Vec<String>, String> {
        let mut changed = Vec::new();
        let listing = self.listing;
        // A sparse checkout leaves files out. Git must still have the content of the commit for them.
        for entry in listing.entries.iter().chain(&listing.absent) {
            let is_same = match committed.remove(&entry.path) {
                Some(then) => self.is_same(entry, &then)?,
                None => false,
            };
            if !is_same {
                changed.push(entry.path.clone());
            }
        }
        // Files of the commit that are not on disk. A submodule that was never fetched is an empty directory.
        let is_missing = |path: &OsStr, entry: &CommittedEntry| match entry.mode {
            TreeEntryMode::Repository => !is_empty_directory(&listing.root.join(path)),
            TreeEntryMode::File | TreeEntryMode::Executable | TreeEntryMode::Symlink => true,
        };
        let left = committed.into_iter().filter(|(path, _)| !is_excluded(path));
        changed.extend(left.filter(|(path, one)| is_missing(path, one)).map(|(path, _)| path));
        changed.sort();
        let name = |path: OsString| text::clean_line(&path.to_string_lossy(), MAX_PATH_CHARS);
        Ok(changed.into_iter().map(name).collect())
    }

    fn is_same(&mut self, now: &TreeEntry, then: &CommittedEntry) -> Result<bool, String> {
        use TreeEntryMode::{Executable, File, Repository, Symlink};
        match (now.mode, then.mode) {
            (Repository, Repository) => self.is_same_repository(now, &then.id),
            (Symlink, Symlink) => Ok(now.id == then.id),
            // Some file systems have no executable bit.
            (File | Executable, File | Executable) => {
                Ok(now.id == then.id || self.is_converted(&now.path, &then.id)?)
            }
            (File | Executable | Symlink | Repository, _) => Ok(false),
        }
    }

    /// A submodule is its commit, and its files are those of the commit.
    fn is_same_repository(&self, now: &TreeEntry, commit: &ObjectId) -> Result<bool, String> {
        let directory = self.listing.root.join(&now.path);
        if git::work_tree_root(&directory) != Some(directory.as_path()) {
            // A submodule that was never fetched.
            return Ok(is_empty_directory(&directory));
        }
        let Some(depth) = self.depth.checked_sub(1) else {
            return Err("submodules are nested too deeply".to_owned());
        };
        let inner = compare_repository(&directory, &[], self.deadline, depth)?;
        Ok(inner.head == Some(commit.hex()) && inner.changed.is_empty())
    }

    /// Whether the file on disk is the committed one after a conversion that can be checked.
    fn is_converted(&mut self, path: &OsStr, blob: &ObjectId) -> Result<bool, String> {
        self.converted += 1;
        if self.converted > MAX_CONVERTED {
            return Ok(false);
        }
        let committed = self.reader.read_blob(&blob.hex(), MAX_CONVERTED_BYTES);
        let committed = match committed.map_err(|error| error.to_string())? {
            CommittedFile::Content(committed) => committed,
            CommittedFile::Unreadable | CommittedFile::Missing => return Ok(false),
        };
        let Ok(now) = fs::read(&self.listing.root.join(path), MAX_CONVERTED_BYTES) else {
            return Ok(false);
        };
        Ok(is_pointer_to(&committed, &now) || has_same_lines(&committed, &now))
    }
}

fn is_empty_directory(path: &Path) -> bool {
    fs::list(path, 1).is_ok_and(|names| names.is_empty())
}

/// Whether two texts differ in their line ends only.
fn has_same_lines(one: &[u8], other: &[u8]) -> bool {
    let lines = |bytes: &[u8]| -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            if *byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
                out.push(*byte);
            }
        }
        out
    };
    lines(one) == lines(other)
}

/// Whether a pointer of Git LFS stands for this content.
fn is_pointer_to(pointer: &[u8], content: &[u8]) -> bool {
    if pointer.len() > MAX_POINTER_BYTES {
        return false;
    }
    let text = String::from_utf8_lossy(pointer);
    let mut lines = text.lines();
    let hash = ObjectFormat::Sha256.hex(&ObjectId::from_prefix(&Sha256::digest(content)));
    lines.next() == Some("version https://git-lfs.github.com/spec/v1")
        && lines.any(|line| line.strip_prefix("oid sha256:") == Some(hash.as_str()))
}

/// Parses a record of `git ls-tree -z`: `100644 blob <id>`, a tab and the path.
pub(crate) fn parse_tree_record(record: &[u8]) -> Option<(OsString, CommittedEntry)> {
    let tab = memchr::memchr(b'\t', record)?;
    let (head, path) = (record.get(..tab)?, record.get(tab + 1..)?);
    let mut fields = head.split(|byte| *byte == b' ');
    let mode = match fields.next()? {
        b"100644" | b"100664" => TreeEntryMode::File,
        b"100755" => TreeEntryMode::Executable,
        b"120000" => TreeEntryMode::Symlink,
        b"160000" => TreeEntryMode::Repository,
        _ => return None,
    };
    let id = ObjectId::from_hex(std::str::from_utf8(fields.nth(1)?).ok()?)?;
    Some((OsStr::from_bytes(path).to_owned(), CommittedEntry { mode, id }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_sys::fs::Durability;
    use ralph_sys::proc::testing;
    use std::time::Duration;

    fn run_git(directory: &Path, arguments: &[&str]) {
        let mut argv = vec!["git"];
        for setting in ["user.name=t", "user.email=t@t", "commit.gpgsign=false"] {
            argv.extend(["-c", setting]);
        }
        argv.extend(["-c", "protocol.file.allow=always"]);
        argv.extend(arguments);
        testing::run_successfully(directory, &argv);
    }

    fn write(path: &Path, text: &str) {
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
    }

    fn commit(directory: &Path) {
        run_git(directory, &["add", "--all"]);
        run_git(directory, &["commit", "--quiet", "--message=x"]);
    }

    fn changed(directory: &Path, exclude: &[PathBuf]) -> Vec<String> {
        let deadline = Deadline::after(Duration::from_mins(1));
        compare_with_commit(directory, exclude, &deadline).unwrap().changed
    }

    /// R-S5a: marks in the index hide nothing, and files that are gone, new or of another kind are changes.
    #[test]
    fn the_bytes_on_disk_are_compared() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        run_git(root, &["init", "--quiet"]);
        let deadline = Deadline::after(Duration::from_mins(1));
        let before = compare_with_commit(root, &[], &deadline).unwrap();
        assert_eq!(before, CommitComparison { head: None, changed: Vec::new() });
        for name in ["assumed", "gone", "kept", "kind", "left/out", "skipped", "with\nline"] {
            write(&root.join(name), "x\n");
        }
        commit(root);
        assert_eq!(changed(root, &[]), Vec::<String>::new());
        run_git(root, &["update-index", "--assume-unchanged", "assumed"]);
        run_git(root, &["update-index", "--skip-worktree", "skipped"]);
        for name in ["assumed", "left/out", "new", "skipped", "with\nline"] {
            write(&root.join(name), "y\n");
        }
        fs::remove_file(&root.join("gone")).unwrap();
        fs::replace_link(&root.join("kind"), Path::new("kept")).unwrap();
        let exclude = [root.join("left")];
        assert_eq!(
            changed(root, &exclude),
            ["assumed", "gone", "kind", "new", "skipped", "with line"]
        );
    }

    /// R-S5a: an agent can write what git reads as the commit.
    #[test]
    fn a_commit_whose_objects_were_changed_is_not_compared() {
        for name in ["HEAD", "HEAD^{tree}", "HEAD:left"] {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path();
            run_git(root, &["init", "--quiet"]);
            write(&root.join("left/file"), "x\n");
            commit(root);
            write(&root.join("left/file"), "y\n");
            run_git(root, &["add", "--all"]);
            let forge = format!(
                "new=$(git write-tree); case {name} in \
                 HEAD) other=$(echo x | git commit-tree $new);; \
                 *tree*) other=$new;; \
                 *) other=$(git rev-parse $new:left);; esac; \
                 file() {{ echo .git/objects/$(echo $1 | cut -c 1-2)/$(echo $1 | cut -c 3-); }}; \
                 id=$(file $(git rev-parse {name})); chmod u+w $id; cp $(file $other) $id"
            );
            let names = ["GIT_AUTHOR_NAME=t", "GIT_COMMITTER_NAME=t", "EMAIL=t@t"];
            let argv = [&["env"][..], &names, &["sh", "-ec", &forge]].concat();
            testing::run_successfully(root, &argv);
            let deadline = Deadline::after(Duration::from_mins(1));
            let error = compare_with_commit(root, &[], &deadline).unwrap_err();
            // Git compares commits and the root itself.
            let found = "`git rev-parse` found no such commit";
            let listed = "`git ls-tree` printed unexpected output";
            let compared = error.ends_with("` does not match its id");
            assert!(compared || error == found || error == listed, "{name}: {error}");
            assert_eq!(compared, name == "HEAD:left", "{error}");
        }
    }

    #[test]
    fn a_submodule_is_compared_with_its_commit() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, outer) = (directory.path().join("inner"), directory.path().join("outer"));
        for root in [&inner, &outer] {
            write(&root.join("file"), "x\n");
            run_git(root, &["init", "--quiet"]);
            commit(root);
        }
        run_git(&outer, &["submodule", "--quiet", "add", inner.to_str().unwrap(), "sub"]);
        commit(&outer);
        assert_eq!(changed(&outer, &[]), Vec::<String>::new());
        write(&outer.join("sub/file"), "y\n");
        assert_eq!(changed(&outer, &[]), ["sub"]);
        commit(&outer.join("sub"));
        assert_eq!(changed(&outer, &[]), ["sub"]);
        run_git(&outer, &["submodule", "--quiet", "update", "--force"]);
        assert_eq!(changed(&outer, &[]), Vec::<String>::new());
        run_git(&outer, &["submodule", "--quiet", "deinit", "--all", "--force"]);
        assert_eq!(changed(&outer, &[]), Vec::<String>::new());
    }

    #[test]
    fn only_conversions_that_can_be_checked_are_undone() {
        assert!(has_same_lines(b"a\nb\n", b"a\r\nb\r\n"));
        assert!(!has_same_lines(b"a\nb\n", b"a\rb\n"));
        assert!(!has_same_lines(b"a\n", b"a"));
        let oid = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        let pointer =
            format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 1\n");
        assert!(is_pointer_to(pointer.as_bytes(), b"x"));
        assert!(!is_pointer_to(pointer.as_bytes(), b"y"));
        assert!(!is_pointer_to(format!("oid sha256:{oid}\n").as_bytes(), b"x"));
    }
}
