//! Compares listings with git's own output, in repositories made for each test.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use ralph_sys::env;
use ralph_sys::proc::testing;

const HOUR_NS: i64 = 3_600_000_000_000;

struct ListingScratch {
    dir: tempfile::TempDir,
    root: PathBuf,
}

impl ListingScratch {
    fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::resolve(dir.path()).unwrap().join("work");
        fs::create_private_dir(&root).unwrap();
        Self { dir, root }
    }

    fn empty() -> Self {
        let scratch = Self::bare();
        scratch.git(&["init", "--quiet"]);
        scratch
    }

    /// Has one commit, with three files, a tracked file that is ignored, and ignore rules.
    fn committed() -> Self {
        let scratch = Self::empty();
        scratch.write("a", "one\n");
        scratch.write("dir/b", "two\n");
        scratch.write("dir/deep/c", "three\n");
        scratch.write("kept.log", "tracked\n");
        scratch.write(".gitignore", "*.log\n/build/\n");
        scratch.git(&["add", "--all", "--force"]);
        scratch.commit();
        scratch
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    fn git(&self, arguments: &[&str]) -> Vec<u8> {
        self.git_in(&self.root, arguments)
    }

    fn git_in(&self, directory: &Path, arguments: &[&str]) -> Vec<u8> {
        assert!(directory.starts_with(fs::resolve(self.dir.path()).unwrap()));
        let mut argv = vec!["git"];
        for setting in
            ["user.name=t", "user.email=t@t", "commit.gpgsign=false", "protocol.file.allow=always"]
        {
            argv.extend(["-c", setting]);
        }
        argv.extend(arguments);
        testing::run_successfully(directory, &argv)
    }

    fn commit(&self) {
        self.git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
    }

    fn write(&self, name: impl AsRef<Path>, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::overwrite(&path, text.as_bytes()).unwrap();
    }

    fn remove(&self, name: &str) {
        testing::run_successfully(&self.root, &["sh", "-c", "rm -rf -- \"$0\" || :", name]);
    }

    fn run(&self, argv: &[&str]) {
        testing::run_successfully(&self.root, argv);
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    fn list(&self) -> WorkTreeListing {
        list_at_time(&self.root, None, ListingTime::Now)
    }

    /// Lists with a cache that keeps everything, as if no file had changed for an hour.
    fn list_cached(&self) -> WorkTreeListing {
        list_at_time(&self.root, Some(&self.cache()), ListingTime::InAnHour)
    }

    fn fingerprint(&self) -> [u8; 32] {
        self.list_cached().fingerprint()
    }

    /// Waits until the clock of the file system has advanced, so that later changes have a later time.
    fn tick(&self) {
        let probe = self.dir.path().join("probe");
        let changed = || {
            fs::overwrite(&probe, b"x").unwrap();
            fs::stat(&probe).unwrap().modified_ns
        };
        let first = changed();
        while changed() == first {}
    }
}

type ScratchEdit = fn(&ListingScratch);
type ScratchEditWithin = fn(&ListingScratch, &Path);

#[derive(Clone, Copy)]
enum ListingTime {
    Now,
    InAnHour,
}

fn list_at_time(project: &Path, cache: Option<&Path>, moment: ListingTime) -> WorkTreeListing {
    let deadline = Deadline::after(Duration::from_mins(1));
    let survey = ListingRequest { project, exclude: &[], cache, deadline: &deadline };
    match moment {
        ListingTime::Now => list_work_tree(&survey),
        ListingTime::InAnHour => {
            let now = i64::try_from(clock::now_ms()).unwrap() * 1_000_000;
            list_work_tree_at(&survey, now + HOUR_NS)
        }
    }
    .unwrap()
}

fn listing_lines(listing: &WorkTreeListing) -> Vec<String> {
    let line = |entry: &TreeEntry| {
        let path = entry.path.as_bytes().escape_ascii();
        format!("{:?} {} {path}", entry.mode, entry.id.hex())
    };
    listing.with_absent().entries.iter().map(line).collect()
}

/// The mode and id of a file that the index leaves out of the work tree.
type SparseEntry = Option<(String, String)>;

/// The files that git lists and their ids from `git hash-object`, without submodules.
fn git_lines(scratch: &ListingScratch, root: &Path) -> Vec<String> {
    let mut paths: Vec<(Vec<u8>, SparseEntry)> = Vec::new();
    let staged = scratch.git_in(root, &["ls-files", "-t", "--stage", "-z"]);
    for record in staged.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        let tab = record.iter().position(|byte| *byte == b'\t').unwrap();
        let fields = String::from_utf8(record[..tab].to_vec()).unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        let sparse = (fields[0] == "S").then(|| (fields[1].to_owned(), fields[2].to_owned()));
        if fields[1] != "160000" {
            paths.push((record[tab + 1..].to_vec(), sparse));
        }
    }
    let others = scratch.git_in(root, &["ls-files", "--others", "--exclude-standard", "-z"]);
    let others = others.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    paths.extend(others.filter(|name| !name.ends_with(b"/")).map(|name| (name.to_vec(), None)));
    paths.sort();
    paths.dedup_by(|one, other| one.0 == other.0);
    paths.iter().filter_map(|(path, sparse)| git_line(root, path, sparse.as_ref())).collect()
}

fn git_line(root: &Path, path: &[u8], sparse: Option<&(String, String)>) -> Option<String> {
    let shown = path.escape_ascii();
    let full = root.join(OsStr::from_bytes(path));
    let mut above = full.ancestors().skip(1).take_while(|above| above.starts_with(root));
    if above.any(Path::is_symlink) {
        return None;
    }
    let hash = |argv: &[&OsStr]| {
        String::from_utf8(testing::run_successfully(root, argv)).unwrap().trim().to_owned()
    };
    let Ok(metadata) = std::fs::symlink_metadata(&full) else {
        let (mode, id) = sparse?;
        let mode = if mode == "100755" { TreeEntryMode::Executable } else { TreeEntryMode::File };
        return Some(format!("{mode:?} {id} {shown}"));
    };
    if metadata.is_symlink() {
        let target = std::fs::read_link(&full).unwrap();
        let script = OsStr::new("printf %s \"$1\" | git hash-object --stdin");
        let argv =
            [OsStr::new("sh"), OsStr::new("-c"), script, OsStr::new("sh"), target.as_os_str()];
        return Some(format!("Symlink {} {shown}", hash(&argv)));
    }
    if !metadata.is_file() {
        return None;
    }
    let argv = ["git", "hash-object", "--no-filters", "--"].map(OsStr::new);
    let id = hash(&[&argv[..], &[OsStr::from_bytes(path)]].concat());
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    let mode = if is_executable { TreeEntryMode::Executable } else { TreeEntryMode::File };
    Some(format!("{mode:?} {id} {shown}"))
}

/// Every file below `.git`, with its size and times. The shared part of a split index is left out, because git touches
/// it whenever it reads it.
fn git_directory_state(scratch: &ListingScratch) -> String {
    let find = "find .git -type f ! -name 'sharedindex.*' -printf '%p %s %T@ %C@\\n'";
    let find = ["sh", "-c", find];
    let mut files = String::from_utf8(testing::run_successfully(&scratch.root, &find)).unwrap();
    files.push_str(&String::from_utf8_lossy(&scratch.git(&["stash", "list"])));
    files
}

#[track_caller]
fn assert_agrees_with_git(scratch: &ListingScratch, situation: &str) {
    let before = git_directory_state(scratch);
    let plain = scratch.list();
    assert_eq!(git_directory_state(scratch), before, "{situation}: something was written");
    assert_eq!(listing_lines(&plain), git_lines(scratch, &scratch.root), "{situation}");
    for _ in 0..2 {
        assert_eq!(scratch.list_cached(), plain, "{situation}, remembering");
    }
}

/// R-L10a: tracked, staged, unstaged and untracked files count as they are on disk, ignored ones do not.
#[test]
fn a_listing_agrees_with_git() {
    let changes: [(&str, ScratchEdit); 24] = [
        ("clean", |_| ()),
        ("unstaged", |s| s.write("a", "changed\n")),
        ("staged", |s| {
            s.write("a", "changed\n");
            s.git(&["add", "a"]);
        }),
        ("staged and undone", |s| {
            s.write("a", "changed\n");
            s.git(&["add", "a"]);
            s.write("a", "one\n");
        }),
        ("untracked", |s| s.write("new/deep/file", "x")),
        ("intent to add", |s| {
            s.write("new", "x");
            s.git(&["add", "--intent-to-add", "new"]);
        }),
        ("tracked and ignored", |s| s.write("kept.log", "changed\n")),
        ("untracked and ignored", |s| s.write("other.log", "x")),
        ("deleted", |s| s.remove("dir/b")),
        ("removed from the index only", |s| drop(s.git(&["rm", "--cached", "--quiet", "a"]))),
        ("renamed", |s| drop(s.git(&["mv", "a", "z"]))),
        ("executable", |s| s.run(&["chmod", "+x", "a"])),
        ("links", |s| {
            symlink("a", s.path("link")).unwrap();
            symlink("nowhere\n/at all", s.path("dangling")).unwrap();
            symlink("dir", s.path("to-directory")).unwrap();
        }),
        ("a file became a directory", |s| {
            s.remove("a");
            s.write("a/inner", "x");
            s.write("a.b", "between");
        }),
        ("a directory became a file", |s| {
            s.remove("dir");
            s.write("dir", "x");
            s.write("dir.x", "between");
        }),
        ("a directory became a link", |s| {
            s.run(&["mv", "dir", "elsewhere"]);
            symlink("elsewhere", s.path("dir")).unwrap();
        }),
        ("an ignored directory with something tracked", |s| {
            s.write("build/made", "x");
            s.git(&["add", "--force", "build/made"]);
            s.write("build/rest", "x");
            s.write("build/deep/rest", "x");
            s.write("build/.gitignore", "!*\n");
        }),
        ("rules in several places", |s| {
            s.write("dir/.gitignore", "!keep.log\n/b2\ndeep/*\n!deep/yes\n");
            for name in ["keep.log", "x.log", "b2", "deep/b2", "deep/yes", "deep/no"] {
                s.write(Path::new("dir").join(name), "x");
            }
            s.write(".git/info/exclude", "from-exclude\n");
            s.write("from-exclude", "x");
        }),
        ("strange names", |s| {
            for name in ["with space", "with\nline", "\"quoted\"", "-rf", "ünï", "*", "[a]", "\\"]
            {
                s.write(name, "x");
            }
            s.write(OsStr::from_bytes(b"\xff\xfe"), "x");
        }),
        ("version 4 of the index", |s| {
            s.write("dir/b2", "x");
            s.git(&["add", "--all"]);
            s.git(&["update-index", "--index-version=4"]);
            s.write("a", "changed\n");
        }),
        ("a split index", |s| {
            s.git(&["update-index", "--split-index"]);
            s.write("new.log", "x");
            s.git(&["add", "--force", "new.log"]);
        }),
        ("marked as unchanged", |s| {
            s.git(&["update-index", "--assume-unchanged", "a"]);
            s.git(&["update-index", "--skip-worktree", "dir/b"]);
            s.write("a", "changed\n");
            s.write("dir/b", "changed\n");
        }),
        ("a conflict", |s| {
            s.git(&["checkout", "--quiet", "-b", "other"]);
            s.write("a", "theirs\n");
            s.git(&["commit", "--quiet", "--all", "--message=theirs"]);
            s.git(&["checkout", "--quiet", "-"]);
            s.write("a", "ours\n");
            s.git(&["commit", "--quiet", "--all", "--message=ours"]);
            s.run(&["sh", "-c", "! git -c user.name=t -c user.email=t@t merge other"]);
        }),
        ("pipes and sockets", |s| {
            s.run(&["mkfifo", "pipe", "dir/tracked-pipe"]);
            drop(UnixListener::bind(s.path("socket")).unwrap());
            s.remove("a");
            s.run(&["mkfifo", "a"]);
        }),
    ];
    for (situation, change) in changes {
        let scratch = ListingScratch::committed();
        let clean = scratch.fingerprint();
        change(&scratch);
        if situation == "pipes and sockets" {
            // `git ls-files --others` lists sockets and pipes, which have no content.
            assert_eq!(scratch.list().entries.len(), 4);
            continue;
        }
        assert_agrees_with_git(&scratch, situation);
        let harmless =
            ["clean", "staged and undone", "untracked and ignored", "removed from the index only"];
        assert_eq!(scratch.fingerprint() == clean, harmless.contains(&situation), "{situation}");
    }
}

#[test]
fn a_repository_without_a_commit_has_files_and_no_head() {
    let scratch = ListingScratch::empty();
    assert_agrees_with_git(&scratch, "empty");
    scratch.write("staged", "x");
    scratch.git(&["add", "staged"]);
    scratch.write("untracked", "y");
    assert_agrees_with_git(&scratch, "not committed");
    assert_eq!(scratch.list().head, None);
    scratch.commit();
    let head = String::from_utf8(scratch.git(&["rev-parse", "HEAD"])).unwrap();
    assert_eq!(scratch.list().head.as_deref(), Some(head.trim()));
    scratch.git(&["pack-refs", "--all"]);
    assert_eq!(scratch.list().head.as_deref(), Some(head.trim()));
    scratch.git(&["checkout", "--quiet", "--detach"]);
    assert_eq!(scratch.list().head.as_deref(), Some(head.trim()));
}

#[test]
fn a_sha256_repository_has_sha256_ids() {
    let scratch = ListingScratch::bare();
    scratch.git(&["init", "--quiet", "--object-format=sha256"]);
    scratch.write("a", "x");
    scratch.git(&["add", "a"]);
    scratch.write("b", "y");
    scratch.commit();
    assert_agrees_with_git(&scratch, "sha256");
    let head = String::from_utf8(scratch.git(&["rev-parse", "HEAD"])).unwrap();
    assert_eq!(scratch.list().head.as_deref(), Some(head.trim()));
}

#[test]
fn reftable_references_are_read_by_git() {
    let scratch = ListingScratch::bare();
    scratch.git(&["init", "--quiet", "--ref-format=reftable"]);
    assert_eq!(scratch.list().head, None);
    scratch.commit();
    let head = String::from_utf8(scratch.git(&["rev-parse", "HEAD"])).unwrap();
    assert_eq!(scratch.list().head.as_deref(), Some(head.trim()));
}

/// R-L10a: a file that a sparse checkout leaves out counts by its id in the index until it is on disk, and differently
/// from the same file on disk.
#[test]
fn files_outside_a_sparse_checkout_count_by_the_index() {
    for kind in ["--no-sparse-index", "--sparse-index"] {
        let scratch = ListingScratch::committed();
        scratch.write("other/d/e", "x");
        scratch.write("other/f", "y");
        scratch.git(&["add", "--all"]);
        scratch.commit();
        let whole = scratch.fingerprint();
        scratch.git(&["sparse-checkout", "set", "--cone", kind, "dir"]);
        assert!(!fs::exists(&scratch.path("other")));
        assert_agrees_with_git(&scratch, kind);
        let sparse = scratch.fingerprint();
        assert_ne!(sparse, whole, "{kind}");
        assert_eq!(scratch.list().absent.len(), 2, "{kind}");
        scratch.write("other/f", "changed");
        assert_agrees_with_git(&scratch, kind);
        assert_ne!(scratch.fingerprint(), whole, "{kind}");
        assert_ne!(scratch.fingerprint(), sparse, "{kind}");
    }
}

#[test]
fn a_linked_work_tree_is_a_work_tree() {
    let scratch = ListingScratch::committed();
    let identity = scratch.fingerprint();
    scratch.git(&["worktree", "add", "--quiet", "../linked"]);
    let linked = scratch.root.parent().unwrap().join("linked");
    scratch.write(".git/info/exclude", "excluded\n");
    fs::overwrite(&linked.join("excluded"), b"x").unwrap();
    let listing = list_at_time(&linked, None, ListingTime::Now);
    assert_eq!(listing.fingerprint(), identity);
    assert_eq!(listing.root, linked);
    assert_eq!(listing.head, scratch.list().head);
    fs::overwrite(&linked.join("new"), b"x").unwrap();
    let listing = list_at_time(&linked, None, ListingTime::Now);
    assert_eq!(listing_lines(&listing), git_lines(&scratch, &linked));
    assert_ne!(listing.fingerprint(), identity);
}

#[test]
fn any_directory_in_the_tree_lists_all_of_it() {
    let scratch = ListingScratch::committed();
    let whole = scratch.list();
    assert_eq!(list_at_time(&scratch.path("dir/deep"), None, ListingTime::Now), whole);
    let link = scratch.dir.path().join("link");
    symlink(scratch.path("dir"), &link).unwrap();
    assert_eq!(list_at_time(&link, None, ListingTime::Now), whole);
    assert_eq!(whole.root, scratch.root);
}

/// R-L10a: changes to git's own records do not change the fingerprint; every change of a file does.
#[test]
fn only_content_changes_the_fingerprint() {
    let scratch = ListingScratch::committed();
    scratch.write("dir/b", "changed\n");
    scratch.write("new", "new\n");
    let identity = scratch.fingerprint();
    for command in [
        &["add", "--all"][..],
        &["reset", "--quiet"],
        &["add", "--all"],
        &["commit", "--quiet", "--message=all"],
        &["status"],
        &["stash", "list"],
        &["branch", "other"],
        &["tag", "some"],
        &["gc", "--quiet"],
        &["update-index", "--assume-unchanged", "a"],
        &["update-index", "--index-version=4"],
        &["commit", "--quiet", "--amend", "--message=again"],
        &["reset", "--quiet", "--soft", "HEAD^"],
    ] {
        scratch.git(command);
        assert_eq!(scratch.fingerprint(), identity, "git {command:?}");
    }
    scratch.run(&["touch", "a", "dir", "dir/b"]);
    assert_eq!(scratch.fingerprint(), identity, "touch");
    let changes: [(&str, ScratchEdit, ScratchEdit); 5] = [
        ("one byte", |s| s.write("dir/deep/c", "threE\n"), |s| s.write("dir/deep/c", "three\n")),
        ("mode", |s| s.run(&["chmod", "+x", "new"]), |s| s.run(&["chmod", "-x", "new"])),
        ("name", |s| s.run(&["mv", "a", "A"]), |s| s.run(&["mv", "A", "a"])),
        ("gone", |s| s.remove("kept.log"), |s| s.write("kept.log", "tracked\n")),
        ("more", |s| s.write("dir/more", ""), |s| s.remove("dir/more")),
    ];
    for (what, change, undo) in changes {
        scratch.tick();
        change(&scratch);
        assert_ne!(scratch.fingerprint(), identity, "{what}");
        scratch.tick();
        undo(&scratch);
        assert_eq!(scratch.fingerprint(), identity, "{what}, undone");
    }
}

/// A filter makes git report a changed file as unchanged.
#[test]
fn a_clean_filter_hides_nothing() {
    let scratch = ListingScratch::committed();
    let identity = scratch.fingerprint();
    scratch.tick();
    scratch.git(&["config", "filter.liar.clean", "echo one"]);
    scratch.write(".git/info/attributes", "a filter=liar\n");
    scratch.write("a", "two\n");
    scratch.git(&["add", "--all"]);
    assert_eq!(scratch.git(&["status", "--porcelain"]), b"");
    assert_ne!(scratch.fingerprint(), identity);
    assert_agrees_with_git(&scratch, "filtered");
}

#[test]
fn an_edit_that_restores_size_and_time_is_detected() {
    let scratch = ListingScratch::committed();
    let identity = scratch.fingerprint();
    scratch.tick();
    let file = scratch.path("dir/b");
    let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
    scratch.write("dir/b", "TWO\n");
    let opened = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened.set_modified(modified).unwrap();
    assert_ne!(scratch.fingerprint(), identity);
    assert_agrees_with_git(&scratch, "time restored");
}

/// A file written during a listing could change again within the same clock tick, so it is read again.
#[test]
fn files_just_written_are_not_cached() {
    let scratch = ListingScratch::committed();
    for text in ["one\n", "two\n", "six\n", "ten\n"] {
        scratch.write("a", text);
        let listing = list_at_time(&scratch.root, Some(&scratch.cache()), ListingTime::Now);
        assert_eq!(listing_lines(&listing), git_lines(&scratch, &scratch.root));
    }
    assert!(!fs::exists(&scratch.cache()));
}

#[test]
fn cached_files_are_not_read_again() {
    let scratch = ListingScratch::bare();
    for number in 0..30 {
        scratch.write(format!("{number:02}"), "x");
    }
    let listing = scratch.list_cached();
    let mut bytes = fs::read(&scratch.cache(), 1 << 20).unwrap();
    // The cache ends in the id of the last file. With a matching checksum, the changed id is accepted.
    *bytes.last_mut().unwrap() ^= 1;
    let checksum = *blake3::hash(&bytes[40..]).as_bytes();
    bytes[8..40].copy_from_slice(&checksum);
    fs::overwrite(&scratch.cache(), &bytes).unwrap();
    let mut expected = listing.clone();
    expected.entries.last_mut().unwrap().id.0[31] ^= 1;
    assert_eq!(scratch.list_cached(), expected);
    scratch.run(&["touch", "29"]);
    assert_eq!(scratch.list_cached(), listing);
}

#[test]
fn a_damaged_cache_is_ignored() {
    let scratch = ListingScratch::committed();
    for number in 0..30 {
        scratch.write(format!("new/{number:02}"), "x");
    }
    let listing = scratch.list_cached();
    let bytes = fs::read(&scratch.cache(), 1 << 20).unwrap();
    for at in (0..bytes.len()).step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        fs::overwrite(&scratch.cache(), &damaged).unwrap();
        assert_eq!(scratch.list_cached(), listing, "{at} changed");
        fs::overwrite(&scratch.cache(), &bytes[..at]).unwrap();
        assert_eq!(scratch.list_cached(), listing, "{at} bytes");
    }
}

#[test]
fn a_submodule_counts_by_its_commit_and_its_files() {
    let other = ListingScratch::committed();
    let scratch = ListingScratch::committed();
    scratch.write("sub.x", "between");
    let url = other.root.to_str().unwrap();
    scratch.git(&["submodule", "--quiet", "add", url, "sub"]);
    scratch.git(&["add", "--all"]);
    scratch.commit();
    let sub = scratch.path("sub");
    let clean = scratch.fingerprint();
    let of_sub = |listing: &WorkTreeListing| {
        let entries =
            listing.entries.iter().filter(|entry| entry.mode == TreeEntryMode::Repository);
        entries.map(|entry| (entry.path.clone(), entry.id)).collect::<Vec<_>>()
    };
    let listing = scratch.list();
    assert_eq!(of_sub(&listing).len(), 1);
    assert_eq!(of_sub(&listing)[0].0, "sub");
    let others = listing_lines(&listing).into_iter().filter(|line| !line.starts_with("Repository"));
    assert_eq!(others.collect::<Vec<_>>(), git_lines(&scratch, &scratch.root));
    assert!(listing.entries.is_sorted_by(|one, other| one.path < other.path));

    let changes: [(&str, ScratchEditWithin); 4] = [
        ("edited", |s, _| s.write("sub/a", "changed\n")),
        ("staged", |s, sub| drop(s.git_in(sub, &["add", "--all"]))),
        ("committed", |s, sub| drop(s.git_in(sub, &["commit", "--quiet", "--message=x"]))),
        ("untracked", |s, _| s.write("sub/new", "x")),
    ];
    let mut last = clean;
    for (what, change) in changes {
        scratch.tick();
        change(&scratch, &sub);
        let next = scratch.fingerprint();
        assert_eq!(next == last, what == "staged", "{what}");
        assert_eq!(scratch.list().fingerprint(), next, "{what}, read again");
        last = next;
    }
    scratch.git(&["add", "sub"]);
    scratch.commit();
    assert_eq!(scratch.fingerprint(), last, "the outer commit");

    scratch.git(&["submodule", "--quiet", "deinit", "--force", "sub"]);
    let staged = String::from_utf8(scratch.git(&["rev-parse", ":sub"])).unwrap();
    assert_eq!(of_sub(&scratch.list())[0].1.hex(), staged.trim());
    scratch.write("sub/smuggled", "x");
    assert_ne!(of_sub(&scratch.list())[0].1.hex(), staged.trim());
}

#[test]
fn a_nested_repository_hides_nothing() {
    let scratch = ListingScratch::committed();
    scratch.write("nested/file", "x");
    scratch.write("nested-too", "x");
    scratch.git_in(&scratch.path("nested"), &["init", "--quiet"]);
    let first = scratch.fingerprint();
    scratch.tick();
    scratch.write("nested/file", "y");
    let second = scratch.fingerprint();
    assert_ne!(first, second);
    let modes: Vec<TreeEntryMode> = scratch.list().entries.iter().map(|entry| entry.mode).collect();
    assert_eq!(modes.iter().filter(|mode| **mode == TreeEntryMode::Repository).count(), 1);

    scratch.tick();
    scratch.git_in(&scratch.path("dir"), &["init", "--quiet"]);
    assert_eq!(scratch.fingerprint(), second, "tracked files stay where they are");
    scratch.write("dir/new", "x");
    assert_ne!(scratch.fingerprint(), second);
}

#[test]
fn without_git_the_ignore_files_apply() {
    let scratch = ListingScratch::bare();
    scratch.write(".gitignore", "*.log\n");
    scratch.write("x.log", "x");
    scratch.write("dir/.gitignore", "/made\n");
    scratch.write("dir/made/file", "x");
    scratch.write("dir/file", "hello\n");
    let listing = scratch.list_cached();
    assert_eq!(listing.head, None);
    assert_eq!(listing.root, scratch.root);
    let hello = "File ce013625030ba8dba906f756967f9e9ca394464a dir/file";
    let names: Vec<_> = listing.entries.iter().map(|entry| &*entry.path).collect();
    assert_eq!(names, [".gitignore", "dir/.gitignore", "dir/file"]);
    assert_eq!(listing_lines(&listing)[2], hello);
    let identity = listing.fingerprint();
    scratch.git(&["init", "--quiet"]);
    scratch.git(&["add", "--all"]);
    assert_eq!(scratch.fingerprint(), identity);
}

/// R-L10a: what tools leave behind counts if the project re-includes it, or the directory that it is in.
#[test]
fn re_included_tool_output_counts() {
    let left_behind = [
        "deep/__pycache__/a.pyc",
        "deep/__pycache__/b/c.pyc",
        "deep/__pycache__/d.py",
        "deep/e.pyc",
    ];
    let other = ["__pycache__/f.pyc", ".venv/node_modules/g.js", "node_modules/h.js"];
    let in_cache = &left_behind[..3];
    for (file, rules, expected) in [
        (".gitignore", "# none\n", &[][..]),
        (".gitignore", "!deep/__pycache__\n", in_cache),
        (".gitignore", "__pycache__/\n!deep/__pycache__/\n", in_cache),
        ("deep/.gitignore", "!__pycache__\n", in_cache),
        (".gitignore", "!deep/__pycache__\n*.pyc\n", &left_behind[2..3]),
        (
            ".gitignore",
            "!deep/__pycache__\ndeep/__pycache__/b/\n",
            &["deep/__pycache__/a.pyc", "deep/__pycache__/d.py"],
        ),
        (".gitignore", "!deep/*.pyc\n", &left_behind[3..]),
        (".gitignore", "!deep/\n", &[]),
        (".gitignore", "!.venv/\n", &[".venv/node_modules/g.js"]),
    ] {
        let scratch = ListingScratch::empty();
        for name in left_behind.iter().chain(&other) {
            scratch.write(name, "x");
        }
        scratch.write(file, rules);
        let names: Vec<_> = scratch.list().entries.into_iter().map(|entry| entry.path).collect();
        let found: Vec<_> = names.iter().filter(|name| *name != file).collect();
        assert_eq!(found, expected, "{file}: {rules}");
        assert_eq!(scratch.list_cached(), scratch.list(), "{file}: {rules}");
    }
}

#[test]
fn an_unreadable_index_leaves_the_untracked_files() {
    let scratch = ListingScratch::committed();
    let whole = scratch.list();
    scratch.write(".git/index", "garbage");
    let without: Vec<_> =
        whole.entries.iter().filter(|entry| entry.path != "kept.log").cloned().collect();
    assert_eq!(scratch.list().entries, without);
}

#[test]
fn excluded_directories_do_not_count() {
    let scratch = ListingScratch::committed();
    let whole = scratch.list();
    scratch.write(".ralph/state", "x");
    scratch.write(".ralphs", "y");
    let deadline = Deadline::after(Duration::from_mins(1));
    let exclude = [scratch.path(".ralph"), scratch.path(".ralphs"), PathBuf::from("/elsewhere")];
    let survey = ListingRequest {
        project: &scratch.root,
        exclude: &exclude,
        cache: None,
        deadline: &deadline,
    };
    assert_eq!(list_work_tree(&survey).unwrap(), whole);
}

/// R-L3d: the host's own settings file is not part of the work, whether git tracks it or not.
#[test]
fn the_hosts_settings_file_does_not_count() {
    let scratch = ListingScratch::committed();
    let whole = scratch.list();
    scratch.write(".claude/settings.local.json", "{}");
    assert_eq!(scratch.list(), whole);
    scratch.write(".claude/settings.json", "{}");
    assert_ne!(scratch.list(), whole);
}

#[test]
fn a_timeout_and_a_missing_project_are_errors() {
    let scratch = ListingScratch::committed();
    let survey = |project, deadline| {
        list_work_tree(&ListingRequest { project, exclude: &[], cache: None, deadline })
            .map_err(|e| e.to_string())
    };
    let over = Deadline::after(Duration::ZERO);
    let root = scratch.root.display();
    let expected = format!("timed out listing the files in `{root}`");
    assert_eq!(survey(&scratch.root, &over), Err(expected));
    let missing = scratch.path("missing");
    let expected = format!("cannot find `{}`", missing.display());
    assert_eq!(survey(&missing, &over), Err(expected));
}

#[test]
#[ignore = "`the_users_own_ignore_file_counts` runs it in a separate process"]
fn victim_lists() {
    let Some(project) = env::testing::variable("TEST_PROJECT") else { return };
    let listing = list_at_time(Path::new(&project), None, ListingTime::Now);
    let names: Vec<_> = listing.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect();
    assert_eq!(names.join(" "), env::testing::variable("TEST_EXPECTED").unwrap().to_str().unwrap());
}

#[test]
fn the_users_own_ignore_file_counts() {
    let scratch = ListingScratch::empty();
    for name in ["by-default", "by-name", "kept"] {
        scratch.write(name, "x");
    }
    let home = scratch.dir.path().join("home");
    fs::create_private_dir(&home.join(".config/git")).unwrap();
    fs::overwrite(&home.join(".config/git/ignore"), b"by-default\n").unwrap();
    fs::overwrite(&home.join("named"), b"by-name\n").unwrap();
    for (config, expected) in [
        ("", "by-name kept"),
        ("[core]\n\texcludesFile = ~/named\n", "by-default kept"),
        ("[include]\n\tpath = none\n", "by-name kept"),
    ] {
        fs::overwrite(&home.join(".gitconfig"), config.as_bytes()).unwrap();
        let ended = testing::rerun_test(
            "tree::tests::victim_lists",
            &[
                ("HOME".as_ref(), home.as_os_str()),
                ("XDG_CONFIG_HOME".as_ref(), "".as_ref()),
                ("TEST_PROJECT".as_ref(), scratch.root.as_os_str()),
                ("TEST_EXPECTED".as_ref(), expected.as_ref()),
            ],
        );
        assert_eq!(testing::exit_code(&ended), 0, "{config}");
    }
}

/// Patterns from few letters, so that they often match.
fn pattern() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[ab]{1,2}",
        2 => Just("*".to_owned()),
        2 => Just("**".to_owned()),
        1 => "[ab]?[*?][ab]?",
        1 => Just("[!a]".to_owned()),
        1 => Just("[a-b]*".to_owned()),
        1 => Just("\\a".to_owned()),
        1 => Just("a**".to_owned()),
        1 => Just("[[:alpha:]]".to_owned()),
        1 => Just("[b".to_owned()),
    ];
    let parts = prop::collection::vec(part, 1..4);
    (prop::bool::weighted(0.3), any::<bool>(), parts, prop_oneof![Just(""), Just("/"), Just(" ")])
        .prop_map(|(is_kept, is_anchored, parts, end)| {
            let start = if is_kept { "!" } else { "" };
            let anchor = if is_anchored { "/" } else { "" };
            format!("{start}{anchor}{}{end}", parts.join("/"))
        })
}

fn file_path() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab]{1,2}", 1..5).prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_files_are_ignored_as_by_git(
        files in prop::collection::vec(file_path(), 1..12),
        rules in prop::collection::vec((file_path(), prop::collection::vec(pattern(), 1..4)), 1..4),
        tracked in 0..3usize,
    ) {
        let scratch = ListingScratch::empty();
        let put = |name: &str, text: &str| {
            let path = scratch.path(name);
            if std::fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.is_dir() {
                drop(fs::overwrite(&path, text.as_bytes()));
            }
        };
        for file in &files {
            put(file, "");
        }
        scratch.git(&["add", "--all"]);
        let drop_all = ["rm", "--cached", "--quiet", "-r", "--force", "."];
        scratch.git(&drop_all);
        for file in files.iter().take(tracked).filter(|file| scratch.path(file).is_file()) {
            scratch.git(&["add", "--force", file]);
        }
        for (at, (directory, patterns)) in rules.iter().enumerate() {
            let directory = if at == 0 { "." } else { directory };
            put(&format!("{directory}/.gitignore"), &patterns.join("\n"));
        }
        let listed = scratch.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]);
        let mut expected: Vec<_> =
            listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect();
        expected.sort();
        let found: Vec<_> =
            scratch.list().entries.iter().map(|entry| entry.path.as_bytes().to_vec()).collect();
        let shown = |names: &[Vec<u8>]| names.iter().map(|n| n.escape_ascii().to_string()).collect::<Vec<_>>();
        prop_assert_eq!(shown(&found), shown(&expected), "{:?}", rules);
    }
}

#[derive(Clone, Debug)]
enum ScratchAction {
    Write(String, u8),
    Remove(String),
    Rename(String, String),
    Link(String),
    Mode(String),
    Ignore(String),
    Add,
    Commit,
    Forget(String),
}

fn scratch_action() -> impl Strategy<Value = ScratchAction> {
    prop_oneof![
        5 => (file_path(), 0..4u8).prop_map(|(path, text)| ScratchAction::Write(path, text)),
        2 => file_path().prop_map(ScratchAction::Remove),
        1 => (file_path(), file_path()).prop_map(|(from, to)| ScratchAction::Rename(from, to)),
        1 => file_path().prop_map(ScratchAction::Link),
        1 => file_path().prop_map(ScratchAction::Mode),
        1 => pattern().prop_map(ScratchAction::Ignore),
        2 => Just(ScratchAction::Add),
        1 => Just(ScratchAction::Commit),
        1 => file_path().prop_map(ScratchAction::Forget),
    ]
}

impl ScratchAction {
    /// Actions that are not possible are skipped.
    fn perform(&self, scratch: &ListingScratch) {
        let parent =
            |path: &str| std::fs::create_dir_all(scratch.path(path).parent().unwrap()).is_ok();
        match self {
            Self::Write(path, text) if parent(path) => {
                drop(fs::overwrite(&scratch.path(path), &[*text]));
            }
            Self::Remove(path) => scratch.remove(path),
            Self::Rename(from, to) if parent(to) => {
                scratch.run(&["sh", "-c", "mv -T -- \"$0\" \"$1\" || :", from, to]);
            }
            Self::Link(path) if parent(path) => drop(symlink("a", scratch.path(path))),
            Self::Mode(path) if scratch.path(path).is_file() => scratch.run(&["chmod", "+x", path]),
            Self::Ignore(pattern) => scratch.write(".gitignore", pattern),
            Self::Add => drop(scratch.git(&["add", "--all"])),
            Self::Commit => scratch.commit(),
            Self::Forget(path) => {
                let remove = ["rm", "--cached", "-r", "--quiet", "--ignore-unmatch", "--", path];
                drop(scratch.git(&remove));
            }
            Self::Write(..) | Self::Rename(..) | Self::Link(_) | Self::Mode(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// R-L10a: a listing with the cache equals one without it, after any sequence of changes.
    #[test]
    fn the_cache_changes_no_listing(acts in prop::collection::vec(scratch_action(), 1..25)) {
        let scratch = ListingScratch::empty();
        for act in acts {
            scratch.tick();
            act.perform(&scratch);
            prop_assert_eq!(listing_lines(&scratch.list_cached()), listing_lines(&scratch.list()), "{:?}", act);
        }
        prop_assert_eq!(listing_lines(&scratch.list()), git_lines(&scratch, &scratch.root));
    }
}

#[test]
fn ids_are_parsed_as_formatted() {
    for format in [ObjectFormat::Sha1, ObjectFormat::Sha256] {
        let hex = "0123456789abcdef".repeat(4)[..2 * format.id_len()].to_owned();
        assert_eq!(format.hex(&format.parse(hex.as_bytes()).unwrap()), hex);
        assert_eq!(ObjectFormat::from_name(format.name().as_bytes()), Some(format));
        for wrong in ["", "0", &hex[1..], &hex.replace('a', "g"), &hex.replace('a', "+")] {
            assert_eq!(format.parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
