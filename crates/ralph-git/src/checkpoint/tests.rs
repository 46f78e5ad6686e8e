//! Tests checkpoints in real repositories. The listings are made here, independently of [`crate::tree`].
#![expect(clippy::disallowed_methods, reason = "tests do what users and agents do to a project")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ralph_core::id::RunId;

use super::*;
use crate::tree::{FingerprintMemo, TreeEntry, TreeEntryMode, WorkTreeListing};
use ralph_sys::fs::FileKind;
use ralph_sys::proc::testing::run_successfully;

struct CheckpointScene {
    dir: tempfile::TempDir,
    project: PathBuf,
    excluded: Vec<PathBuf>,
}

/// Every file and link below a directory, with mode and content.
type FileContents = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn test_deadline() -> Deadline {
    Deadline::after(Duration::from_mins(2))
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::remove_file(path).ok();
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes.as_ref()).unwrap();
}

fn files_except(directory: &Path, skip: &dyn Fn(&Path) -> bool) -> FileContents {
    let mut found = FileContents::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_path_buf();
            if skip(&name) {
                continue;
            }
            let stat = fs::stat_no_follow(&path).unwrap();
            match stat.kind {
                FileKind::Directory => waiting.push(path),
                FileKind::Symlink => {
                    let target = fs::read_link(&path).unwrap().into_os_string().into_vec();
                    found.insert(name, (0o120_000, target));
                }
                FileKind::File | FileKind::Other => {
                    found.insert(name, (stat.mode, fs::read(&path, 1 << 30).unwrap()));
                }
            }
        }
    }
    found
}

/// Whether checkpoints write this path in the repository.
fn is_checkpoint_data(path: &Path) -> bool {
    path.starts_with(".git/objects") || path.starts_with(".git/refs/ralph")
}

impl CheckpointScene {
    fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::resolve(dir.path()).unwrap();
        let project = root.join("project");
        std::fs::create_dir(&project).unwrap();
        Self { dir, project, excluded: Vec::new() }
    }

    fn new() -> Self {
        let scene = Self::bare();
        scene.git(&["init", "--quiet", "--initial-branch=main"]);
        scene.write("kept", "kept\n");
        scene.write("edited", "first\n");
        scene.commit();
        scene
    }

    fn root(&self) -> PathBuf {
        fs::resolve(self.dir.path()).unwrap()
    }

    fn git(&self, arguments: &[&str]) -> Vec<u8> {
        git_in(&self.project, arguments)
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
    }

    fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        write(&self.project.join(name), bytes);
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.project.join(name)).unwrap();
    }

    fn chmod(&self, name: &str, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.project.join(name), mode).unwrap();
    }

    /// The files of the work tree, without `.git`.
    fn files(&self) -> FileContents {
        files_except(&self.project, &|path| path.ends_with(".git"))
    }

    fn open(&self) -> CheckpointRepository {
        let home = RalphHome::new(self.root().join("home"));
        let run = RunId::parse("r1").unwrap();
        CheckpointRepository::open(&home, &run, &self.project, &test_deadline()).unwrap()
    }

    fn listing(&self) -> WorkTreeListing {
        list_with_git(self.open().root())
    }

    fn create_with_reason(&self, why: CheckpointReason) -> CreatedCheckpoint {
        let listing = self.listing();
        let snapshot =
            CheckpointSnapshot { listing: &listing, excluded: &self.excluded, reason: why };
        self.open().create(&snapshot, &test_deadline()).unwrap()
    }

    fn create(&self) -> Checkpoint {
        self.create_with_reason(CheckpointReason::Requested).checkpoint
    }

    fn try_restore(
        &self,
        number: u32,
        listing: &WorkTreeListing,
    ) -> Result<RestoreResult, CheckpointError> {
        let why = CheckpointReason::Restore(number);
        let snapshot = CheckpointSnapshot { listing, excluded: &self.excluded, reason: why };
        self.open().restore(number, &snapshot, &test_deadline())
    }

    /// Restores a checkpoint and expects no failures.
    fn restore(&self, number: u32) -> RestoreResult {
        let restored = self.try_restore(number, &self.listing()).unwrap();
        assert_eq!(restored.failed, []);
        restored
    }

    fn checkout(&self, what: &CheckoutRequest<'_>) -> VerificationCheckout {
        self.open().checkout(what, &test_deadline()).unwrap()
    }
}

fn git_in(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let mut argv = vec!["git"];
    for setting in [
        "user.name=t",
        "user.email=t@t",
        "commit.gpgsign=false",
        "protocol.file.allow=always",
        "core.safecrlf=false",
    ] {
        argv.extend(["-c", setting]);
    }
    argv.extend(arguments);
    run_successfully(directory, &argv)
}

fn hash_with_git(directory: &Path, path: &Path) -> Vec<u8> {
    let argv: Vec<&OsStr> = ["git", "hash-object", "--no-filters", "--"]
        .map(OsStr::new)
        .into_iter()
        .chain([path.as_os_str()])
        .collect();
    run_successfully(directory, &argv).trim_ascii_end().to_vec()
}

/// Lists a work tree: ids of the bytes on disk, and index ids for files that are not there.
fn list_with_git(root: &Path) -> WorkTreeListing {
    let is_repository = root.join(".git").exists();
    let (mut indexed, mut names) = (BTreeMap::new(), Vec::new());
    let mut format = ObjectFormat::Sha1;
    if is_repository {
        let output = git_in(root, &["rev-parse", "--show-object-format"]);
        format = ObjectFormat::from_name(output.trim_ascii_end()).unwrap();
        let dirty = git_in(root, &["diff-files", "--name-only", "-z"]);
        let dirty: Vec<&[u8]> = dirty.split(|byte| *byte == 0).collect();
        for record in git_in(root, &["ls-files", "-s", "-z"]).split(|byte| *byte == 0) {
            if let Some(tab) = record.iter().position(|byte| *byte == b'\t') {
                let path = &record[tab + 1..];
                let fields: Vec<_> = record[..tab].split(|byte| *byte == b' ').collect();
                if !dirty.contains(&path) && fields[2] == b"0" {
                    let id = format.parse(fields[1]).unwrap();
                    indexed.insert(
                        path.to_vec(),
                        (plumbing::mode_from_digits(fields[0]).unwrap(), id),
                    );
                }
            }
        }
        let listed =
            git_in(root, &["ls-files", "-z", "-c", "-o", "--exclude-standard", "--deduplicate"]);
        names.extend(listed.split(|byte| *byte == 0).map(<[u8]>::to_vec));
    } else {
        let files = files_except(root, &|_| false);
        names.extend(files.into_keys().map(|path| path.into_os_string().into_vec()));
    }
    let scratch = tempfile::tempdir().unwrap();
    let entries = names.into_iter().filter(|name| !name.is_empty()).filter_map(|name| {
        let path = OsString::from_vec(name.clone());
        let full = root.join(&path);
        let stat = fs::stat_no_follow(&full).filter(|stat| stat.kind != FileKind::Directory);
        let Some(stat) = stat else {
            let (mode, id) = *indexed.get(&name)?;
            return Some(TreeEntry { path, mode, id });
        };
        let (mode, hex) = match stat.kind {
            FileKind::File if stat.mode & 0o100 != 0 => {
                (TreeEntryMode::Executable, hash_with_git(root, &full))
            }
            FileKind::File => (TreeEntryMode::File, hash_with_git(root, &full)),
            FileKind::Symlink => {
                let target = fs::read_link(&full).unwrap();
                write(&scratch.path().join("link"), target.as_os_str().as_bytes());
                (TreeEntryMode::Symlink, hash_with_git(root, &scratch.path().join("link")))
            }
            FileKind::Directory | FileKind::Other => return None,
        };
        Some(TreeEntry { path, mode, id: format.parse(&hex).unwrap() })
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let (root, absent, memo) = (root.to_path_buf(), Vec::new(), FingerprintMemo::default());
    WorkTreeListing { root, head: None, entries, absent, memo }
}

/// R-D1a: all tracked and untracked files are restored byte for byte, and so is the state before a restore.
#[test]
fn a_restore_restores_every_byte() {
    let scene = CheckpointScene::new();
    scene.write(".gitignore", "ignored\n/cache/\n");
    scene.write("ignored", "mine");
    scene.write("empty", "");
    scene.write("binary", (0..=255).cycle().take(70_000).collect::<Vec<u8>>());
    scene.write("deep/er/and/deeper", "x");
    for name in
        [&b"new\nline"[..], b"\"quoted\"", b"back\\slash", b"tab\t", b"\xff\xfe", b"-rf", b"end\r"]
    {
        scene.write(OsStr::from_bytes(name), name);
    }
    scene.write("päth/ünïcode ☃", "snow");
    scene.write("script", "#!/bin/sh\n");
    scene.chmod("script", 0o755);
    scene.write("private", "p");
    scene.chmod("private", 0o600);
    symlink("deep/er", scene.project.join("link")).unwrap();
    symlink("/nowhere", scene.project.join("dangling")).unwrap();
    scene.write("swap", "a file");
    scene.write("pawn/inside", "in a directory");
    scene.git(&["add", "script"]);
    scene.write("edited", "second, unstaged\n");
    let first = scene.files();
    assert_eq!(scene.create().number, 0);

    scene.write("ignored", "still mine");
    scene.write("cache/x", "a cache");
    scene.write("empty", "no more");
    scene.remove("binary");
    std::fs::remove_dir_all(scene.project.join("deep")).unwrap();
    scene.write("deep", "now a file");
    for name in ["link", "swap", "kept"] {
        scene.remove(name);
    }
    scene.write("swap/now/a/directory", "x");
    scene.write("link", "now a file");
    std::fs::remove_dir_all(scene.project.join("pawn")).unwrap();
    symlink("swap", scene.project.join("pawn")).unwrap();
    scene.chmod("script", 0o644);
    scene.chmod("private", 0o700);
    scene.write(OsStr::from_bytes(b"new\nline"), "other");
    scene.write("brand/new", "x");
    scene.write("edited", "third");
    let second = scene.files();

    let restored = scene.restore(0);
    assert_eq!(
        (restored.before.checkpoint.number, restored.before.novelty),
        (1, CheckpointNovelty::New)
    );
    let mut expected = first.clone();
    expected.insert("ignored".into(), second[Path::new("ignored")].clone());
    expected.insert("cache/x".into(), second[Path::new("cache/x")].clone());
    assert_eq!(scene.files(), expected);
    assert!(!scene.project.join("brand").exists(), "an emptied directory goes");

    scene.restore(1);
    assert_eq!(scene.files(), second);
    let why: Vec<_> =
        scene.open().list(&test_deadline()).unwrap().into_iter().map(|one| one.reason).collect();
    assert_eq!(
        why,
        [CheckpointReason::Requested, CheckpointReason::Restore(0), CheckpointReason::Restore(1)]
    );
}

/// R-D1b: with uncommitted changes at the start, no byte changes in the user's tree or in git.
#[test]
fn nothing_of_the_users_is_touched() {
    let scene = CheckpointScene::new();
    scene.git(&["branch", "other"]);
    scene.write("edited", "stashed\n");
    scene.git(&["stash", "--quiet"]);
    scene.write("edited", "staged\n");
    scene.git(&["add", "edited"]);
    scene.write("edited", "unstaged\n");
    scene.write("untracked", "x");
    scene.remove("kept");
    let before = files_except(&scene.project, &is_checkpoint_data);
    let base = scene.create();
    scene.write("untracked", "y");
    let candidate = scene.create();
    scene.open().diff(&base, &candidate, &test_deadline()).unwrap();
    drop(scene.checkout(&CheckoutRequest {
        candidate: &candidate,
        base: &base,
        is_protected: &|_| true,
        overlay: &[],
    }));
    scene.restore(0);
    assert_eq!(files_except(&scene.project, &is_checkpoint_data), before);
    assert_eq!(scene.open().prune(&test_deadline()).unwrap(), 2);
    assert_eq!(files_except(&scene.project, &is_checkpoint_data), before);
    assert_eq!(scene.open().list(&test_deadline()).unwrap(), []);
}

/// R-D1a: files that git converts are stored as on disk, and restored so even if the attributes have changed.
#[test]
fn conversions_do_not_change_a_byte() {
    let cases: [(&str, &[&str], &str, &[u8]); 6] = [
        ("autocrlf", &["config", "core.autocrlf", "true"], "", b"one\r\ntwo\r\n"),
        ("text", &["config", "core.eol", "lf"], "* text\n", b"one\r\ntwo\r\n"),
        ("eol", &["config", "x.y", "z"], "file eol=crlf\n", b"one\r\ntwo\r\n"),
        ("ident", &["config", "x.y", "z"], "file ident\n", b"$Id: something $\n"),
        (
            "encoding",
            &["config", "x.y", "z"],
            "file working-tree-encoding=UTF-16LE\n",
            b"o\0n\0e\0\n\0",
        ),
        ("rot", &["config", "filter.rot.clean", "tr a-y b-z"], "file filter=rot\n", b"abc\n"),
    ];
    for (name, config, attributes, bytes) in cases {
        let scene = CheckpointScene::new();
        scene.git(config);
        scene.git(&["config", "filter.rot.smudge", "tr b-z a-y"]);
        scene.write(".gitattributes", attributes);
        scene.write("file", bytes);
        scene.commit();
        let first = scene.files();
        assert_eq!(
            scene.create_with_reason(CheckpointReason::Start).changed_meanwhile,
            [""; 0],
            "{name}"
        );
        assert_eq!(
            scene.create_with_reason(CheckpointReason::Requested).novelty,
            CheckpointNovelty::Unchanged,
            "{name}"
        );
        scene.write("file", "changed\n");
        scene.write(".gitattributes", "* -text\n");
        scene.restore(0);
        assert_eq!(scene.files(), first, "{name}");
    }
}

/// Git reports no change if only line endings differ, but the bytes have changed.
#[test]
fn other_line_endings_are_another_checkpoint() {
    let scene = CheckpointScene::new();
    scene.git(&["config", "core.autocrlf", "true"]);
    scene.write("file", "one\r\n");
    scene.commit();
    scene.create();
    scene.write("file", "one\n");
    let changed = scene.files();
    assert_eq!(scene.create().number, 1);
    scene.restore(0);
    scene.restore(1);
    assert_eq!(scene.files(), changed);
}

/// Files of a filter such as LFS are stored, checked out and restored as on disk, and the filter is not run.
#[test]
fn files_of_a_filter_are_stored_as_on_disk() {
    let scene = CheckpointScene::new();
    scene.git(&["config", "filter.big.clean", "echo pointer"]);
    scene.git(&["config", "filter.big.smudge", "echo smudged"]);
    scene.write("media/.gitattributes", "*.bin filter=big\n");
    scene.write("media/a.bin", "large content\n".repeat(1000));
    scene.commit();
    let first = scene.files();
    let base = scene.create();
    scene.remove("media/a.bin");
    scene.write("media/b.bin", "not added yet");
    let candidate = scene.create();
    let checkout = scene.checkout(&CheckoutRequest {
        candidate: &candidate,
        base: &base,
        is_protected: &|path| path == "media/a.bin",
        overlay: &[],
    });
    let content = fs::read(&checkout.dir.join("media/a.bin"), 1 << 20).unwrap();
    assert_eq!(content, first[Path::new("media/a.bin")].1);
    drop(checkout);
    scene.restore(0);
    assert_eq!(scene.files(), first);
}

/// Checkpoints can be created and restored in all kinds of repositories, and without one.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn checkpoints_work_in_every_kind_of_repository() {
    type SceneSetup = fn(&mut CheckpointScene);
    let places: [(&str, SceneSetup); 9] = [
        ("a repository", |scene| {
            scene.git(&["init", "--quiet"]);
            scene.write("a", "x");
            scene.commit();
        }),
        ("no commit", |scene| {
            scene.git(&["init", "--quiet"]);
        }),
        ("no repository", |_| ()),
        ("sha256", |scene| {
            scene.git(&["init", "--quiet", "--object-format=sha256"]);
            scene.write("a", "x");
            scene.commit();
        }),
        ("linked work tree", |scene| {
            scene.git(&["init", "--quiet"]);
            scene.commit();
            scene.git(&["worktree", "add", "--quiet", "../linked"]);
            scene.project = scene.root().join("linked");
        }),
        ("subdirectory", |scene| {
            scene.git(&["init", "--quiet"]);
            scene.write("sub/a", "x");
            scene.commit();
            scene.project = scene.project.join("sub");
        }),
        ("locked index", |scene| {
            scene.git(&["init", "--quiet"]);
            scene.write("a", "x");
            scene.commit();
            scene.write(".git/index.lock", "");
        }),
        ("strange path", |scene| {
            let strange = scene.root().join("str\"ange\n:päth");
            std::fs::rename(&scene.project, &strange).unwrap();
            scene.project = strange;
            scene.git(&["init", "--quiet"]);
            scene.write("a", "x");
            scene.commit();
        }),
        ("ref format", |scene| {
            scene.git(&["init", "--quiet", "--ref-format=reftable"]);
            scene.write("a", "x");
            scene.commit();
        }),
    ];
    for (name, setup) in places {
        let mut scene = CheckpointScene::bare();
        setup(&mut scene);
        scene.write("file", "first");
        symlink("file", scene.project.join("link")).unwrap();
        let first = scene.files();
        let base = scene.create();
        scene.write("file", "second");
        scene.remove("link");
        scene.write("new", "x");
        let candidate = scene.create();
        let restored = scene.restore(0);
        assert_eq!(restored.before.novelty, CheckpointNovelty::Unchanged, "{name}");
        assert_eq!(scene.files(), first, "{name}");
        let checkout = scene.checkout(&CheckoutRequest {
            candidate: &candidate,
            base: &base,
            is_protected: &|path| Path::new(path).ends_with("file"),
            overlay: &[],
        });
        let mut found = files_except(&checkout.dir, &|path| path.starts_with(".git"));
        found.retain(|path, _| !path.ends_with("a"));
        let found: Vec<_> = found.into_iter().map(|(path, (_, bytes))| (path, bytes)).collect();
        let at = |path: &str| {
            let below = scene.project.strip_prefix(scene.open().root()).unwrap().to_path_buf();
            below.join(path)
        };
        let expected = [(at("file"), b"first".to_vec()), (at("new"), b"x".to_vec())];
        assert_eq!(found, expected, "{name}");
        assert_eq!(git_in(&checkout.dir, &["status", "--porcelain"]), b"", "{name}");
    }
}

#[test]
fn a_conflict_is_checkpointed_as_it_is_on_disk() {
    let scene = CheckpointScene::new();
    scene.git(&["checkout", "--quiet", "-b", "other"]);
    scene.write("edited", "theirs\n");
    scene.commit();
    scene.git(&["checkout", "--quiet", "main"]);
    scene.write("edited", "ours\n");
    scene.commit();
    let merge = "git -c user.name=t -c user.email=t@t merge --quiet other > /dev/null; true";
    run_successfully(&scene.project, &["sh", "-c", merge]);
    let first = scene.files();
    let index = fs::read(&scene.project.join(".git/index"), 1 << 20).unwrap();
    scene.create();
    scene.write("edited", "resolved\n");
    scene.restore(0);
    assert_eq!(scene.files(), first);
    assert_eq!(fs::read(&scene.project.join(".git/index"), 1 << 20).unwrap(), index);
}

#[test]
fn files_outside_a_sparse_checkout_stay_outside() {
    let scene = CheckpointScene::new();
    scene.write("far/away", "x");
    scene.commit();
    scene.git(&["sparse-checkout", "set", "--no-cone", "/kept", "/edited"]);
    assert!(!scene.project.join("far").exists());
    scene.create();
    scene.write("edited", "2");
    scene.restore(0);
    assert!(!scene.project.join("far").exists());
    let listed = scene.git(&["ls-tree", "-r", "--name-only", "refs/ralph/r1/1"]);
    assert_eq!(listed, b"edited\nfar/away\nkept\n");
}

#[test]
fn a_nested_repository_is_reported_and_left_alone() {
    let scene = CheckpointScene::new();
    let other = scene.root().join("other");
    std::fs::create_dir(&other).unwrap();
    git_in(&other, &["init", "--quiet"]);
    write(&other.join("x"), "1");
    git_in(&other, &["add", "x"]);
    git_in(&other, &["commit", "--quiet", "--message=x"]);
    scene.git(&["submodule", "--quiet", "add", "../other", "module"]);
    scene.commit();
    scene.create();
    scene.git(&["rm", "--quiet", "--cached", "module"]);
    scene.write("edited", "2");
    let restored = scene.restore(0);
    let uncovered: Vec<_> = restored.plan.uncovered.iter().map(|one| &one.path).collect();
    assert_eq!(uncovered, ["module"]);
    assert_eq!(fs::read(&scene.project.join("module/x"), 9).unwrap(), b"1");
    assert_eq!(fs::read(&scene.project.join("edited"), 9).unwrap(), b"first\n");
}

/// No program that the repository's configuration names is run.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn a_hostile_configuration_runs_nothing() {
    let scene = CheckpointScene::new();
    let pwned = scene.root().join("pwned");
    let run = format!("touch {}; false", pwned.display());
    for hook in ["reference-transaction", "post-index-change", "post-checkout", "pre-auto-gc"] {
        let path = format!(".git/hooks/{hook}");
        scene.write(&path, format!("#!/bin/sh\n{run}\n"));
        scene.chmod(&path, 0o755);
    }
    for name in [
        "core.fsmonitor",
        "core.pager",
        "pager.diff-tree",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.alternateRefsCommand",
        "core.sshCommand",
        "core.editor",
        "gpg.program",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "filter.evil.required",
        "alias.diff-tree",
    ] {
        scene.git(&["config", "--file=.git/config", name, &run]);
    }
    for (name, value) in
        [("core.worktree", "/"), ("commit.gpgsign", "true"), ("core.logAllRefUpdates", "always")]
    {
        scene.git(&["config", "--file=.git/config", name, value]);
    }
    scene.write(".gitattributes", "* filter=evil diff=evil\n");
    let ids: BTreeMap<_, _> =
        [(".gitattributes", "* filter=evil diff=evil\n"), ("edited", "first\n")]
            .into_iter()
            .collect();
    let listed = |contents: &BTreeMap<&str, &str>| {
        let scratch = tempfile::tempdir().unwrap();
        let entries = contents.iter().map(|(path, text)| {
            write(&scratch.path().join("x"), text);
            let id = hash_with_git(scratch.path(), &scratch.path().join("x"));
            let id = ObjectFormat::Sha1.parse(&id).unwrap();
            TreeEntry { path: path.into(), mode: TreeEntryMode::File, id }
        });
        WorkTreeListing {
            root: scene.project.clone(),
            head: None,
            entries: entries.collect(),
            absent: Vec::new(),
            memo: FingerprintMemo::default(),
        }
    };
    std::fs::remove_file(&pwned).ok();
    let first = listed(&ids);
    let snapshot =
        CheckpointSnapshot { listing: &first, excluded: &[], reason: CheckpointReason::Start };
    let base = scene.open().create(&snapshot, &test_deadline()).unwrap().checkpoint;
    scene.write("edited", "2");
    let second = listed(&ids.into_iter().chain([("edited", "2")]).collect());
    let restored = scene.try_restore(0, &second).unwrap();
    assert_eq!(restored.failed, []);
    let now = restored.before.checkpoint;
    let open = scene.open();
    open.patch(&base, &now, 1 << 20, &test_deadline()).unwrap();
    let checkout = scene.checkout(&CheckoutRequest {
        candidate: &now,
        base: &base,
        is_protected: &|_| true,
        overlay: &[],
    });
    git_in(&checkout.dir, &["status"]);
    drop(checkout);
    open.prune(&test_deadline()).unwrap();
    assert!(!pwned.exists());
    assert_eq!(fs::read(&scene.project.join("edited"), 9).unwrap(), b"first\n");
}

#[test]
fn a_directory_that_became_a_link_is_not_followed() {
    let scene = CheckpointScene::new();
    scene.write("dir/file", "first");
    scene.create();
    scene.write("dir/file", "second");
    scene.write("dir/new", "x");
    let listing = scene.listing();
    let outside = scene.root().join("outside");
    std::fs::rename(scene.project.join("dir"), &outside).unwrap();
    symlink(&outside, scene.project.join("dir")).unwrap();
    let before = files_except(&outside, &|_| false);
    let restored = scene.try_restore(0, &listing).unwrap();
    assert_eq!(restored.failed.len(), 1, "{:?}", restored.failed);
    assert_eq!(files_except(&outside, &|_| false), before);
}

/// A restore does not overwrite content that is not in a checkpoint.
#[test]
fn a_restore_refuses_what_changed_since_the_listing() {
    let scene = CheckpointScene::new();
    scene.create();
    scene.write("edited", "second\n");
    scene.write("new", "x");
    let listing = scene.listing();
    scene.create();
    for name in ["edited", "new"] {
        let bytes = fs::read(&scene.project.join(name), 99).unwrap();
        scene.write(name, "in between");
        let before = scene.files();
        let error = scene.try_restore(0, &listing).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`{}` has changed since it was checkpointed",
                scene.project.join(name).display()
            )
        );
        assert_eq!(scene.files(), before);
        scene.write(name, bytes);
    }
    // An ignored file at a path of the checkpoint is not in any checkpoint either.
    scene.restore(0);
    scene.remove("kept");
    scene.write(".gitignore", "kept\n");
    scene.git(&["rm", "--quiet", "--cached", "kept"]);
    scene.write("kept", "ignored now");
    let restored = scene.try_restore(0, &scene.listing()).unwrap();
    let why = "a file that is not in any checkpoint is in its place".to_owned();
    assert_eq!(restored.failed, [RestoreFailure { path: "kept".into(), why }]);
    assert_eq!(fs::read(&scene.project.join("kept"), 99).unwrap(), b"ignored now");
}

#[test]
fn files_that_change_while_they_are_stored_are_reported() {
    let scene = CheckpointScene::new();
    for name in ["stays", "changes", "goes"] {
        scene.write(name, name);
    }
    let listing = scene.listing();
    scene.write("changes", "other");
    scene.remove("goes");
    let snapshot =
        CheckpointSnapshot { listing: &listing, excluded: &[], reason: CheckpointReason::Start };
    let made = scene.open().create(&snapshot, &test_deadline()).unwrap();
    assert_eq!(made.changed_meanwhile, ["changes", "goes"]);
    assert_eq!(scene.git(&["show", "refs/ralph/r1/0:changes"]), b"other");
}

#[test]
fn numbers_go_up_only_when_something_changed() {
    let scene = CheckpointScene::new();
    let mut seen = Vec::new();
    for text in ["a", "a", "b", "a"] {
        scene.write("edited", text);
        let made = scene
            .create_with_reason(CheckpointReason::Iteration(u32::try_from(seen.len()).unwrap()));
        seen.push((made.checkpoint.number, made.novelty, made.checkpoint.reason));
    }
    assert_eq!(
        seen,
        [
            (0, CheckpointNovelty::New, CheckpointReason::Iteration(0)),
            (0, CheckpointNovelty::Unchanged, CheckpointReason::Iteration(0)),
            (1, CheckpointNovelty::New, CheckpointReason::Iteration(2)),
            (2, CheckpointNovelty::New, CheckpointReason::Iteration(3)),
        ]
    );
    let listed = scene.open().list(&test_deadline()).unwrap();
    assert_eq!(listed[2].tree, listed[0].tree);
    assert_eq!(scene.git(&["rev-list", "--count", "refs/ralph/r1/2"]), b"3\n");
    let author = scene.git(&["log", "-1", "--format=%an <%ae> %s", "refs/ralph/r1/2"]);
    assert_eq!(author, b"ralph <ralph@localhost> iteration 3\n");

    // Deleted refs and collected objects are not relied on.
    scene.open().prune(&test_deadline()).unwrap();
    scene.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(scene.create().number, 0);
    scene.git(&["fsck", "--strict"]);
}

/// The trees are those that git itself makes of the files, whatever order their names have, and a change stores nothing
/// but what it changes. A record of the stored trees that is damaged, or that belongs to another checkpoint, only costs
/// time.
#[test]
fn a_small_change_stores_only_its_own_directories() {
    let scene = CheckpointScene::new();
    for name in ["a.", "a.b", "a-b/c", "a.b2/x", "a/b", "a0/b", "b.", "b/c", "deep/er/est/file"] {
        scene.write(name, name);
    }
    let tree_of_git = || {
        scene.git(&["add", "--all"]);
        let tree = scene.git(&["write-tree"]);
        String::from_utf8(tree).unwrap().trim().to_owned()
    };
    let count_objects = || {
        let objects = scene.git(&["count-objects"]);
        let objects = String::from_utf8(objects).unwrap();
        objects.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let create = || {
        let (before, checkpoint) = (count_objects(), scene.create());
        let written = count_objects() - before;
        assert_eq!(checkpoint.tree.hex(), tree_of_git());
        written
    };
    create();
    let known = scene.open().shadow.join("ralph-trees");
    let older = fs::read(&known, 1 << 20).unwrap();
    scene.write("deep/er/est/file", "changed");
    // A file, its three directories, the root and the commit.
    assert_eq!(create(), 6);
    for (content, record) in [("older", older), ("damaged", b"x\0y".to_vec()), ("none", Vec::new())]
    {
        std::fs::write(&known, record).unwrap();
        scene.write("deep/er/est/file", content);
        assert_eq!(create(), 6, "{content}");
    }
    scene.remove("deep/er/est/file");
    assert_eq!(create(), 2, "the root and the commit");
}

#[test]
fn foreign_refs_are_not_checkpoints() {
    let scene = CheckpointScene::new();
    scene.create();
    for name in ["refs/ralph/r1/+1", "refs/ralph/r1/01", "refs/ralph/r1/x", "refs/ralph/r2/7"] {
        scene.git(&["update-ref", name, "HEAD"]);
    }
    scene.git(&["update-ref", "refs/ralph/r1/3", "HEAD:kept"]);
    let numbers: Vec<_> =
        scene.open().list(&test_deadline()).unwrap().iter().map(|one| one.number).collect();
    assert_eq!(numbers, [0]);
    let missing = scene.open().find(3, &test_deadline()).unwrap_err();
    assert_eq!(missing.to_string(), "run `r1` has no checkpoint 3");
}

/// A hand-made tree does not make a restore write outside the work tree.
#[test]
fn a_forged_tree_is_refused() {
    for name in ["..", ".git"] {
        let scene = CheckpointScene::new();
        scene.create();
        let forge = format!(
            "blob=$(echo evil | git hash-object -w --stdin); \
             tree=$(printf '100644 blob %s\\thooks\\n' $blob | git mktree); \
             tree=$(printf '040000 tree %s\\t{name}\\n' $tree | git mktree); \
             commit=$(echo x | git -c user.name=t -c user.email=t@t commit-tree $tree); \
             git update-ref refs/ralph/r1/7 $commit"
        );
        run_successfully(&scene.project, &["sh", "-c", &forge]);
        let before = files_except(&scene.project, &is_checkpoint_data);
        let error = scene.try_restore(7, &scene.listing()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "checkpoint 7 contains `{name}/hooks`, which is not a valid path in a work tree"
            )
        );
        assert_eq!(files_except(&scene.project, &is_checkpoint_data), before);
    }
}

/// Puts the file of one object in the place of another, which git does not notice when it reads it.
fn forge_object(scene: &CheckpointScene, name: &str, content: &str) {
    let forge = format!(
        "id=$(git rev-parse {name}); other=$({content}); \
         file() {{ echo .git/objects/$(echo $1 | cut -c 1-2)/$(echo $1 | cut -c 3-); }}; \
         chmod u+w $(file $id) && cp $(file $other) $(file $id)"
    );
    run_successfully(&scene.project, &["sh", "-ec", &forge]);
}

/// R-S5c: content that an agent writes under the id of an object is neither compared nor checked out nor restored.
#[test]
fn forged_objects_are_refused() {
    const COMMIT: &str = "git -c user.name=t -c user.email=t@t commit-tree -m x";
    let blob = "echo forged | git hash-object -w --stdin".to_owned();
    let tree = "git mktree < /dev/null".to_owned();
    let commit = format!("{COMMIT} refs/ralph/r1/1^{{tree}}");
    let mut table = String::new();
    for (name, content) in [
        ("refs/ralph/r1/0:kept", &blob),
        ("refs/ralph/r1/0:edited", &blob),
        ("refs/ralph/r1/1:edited", &blob),
        ("refs/ralph/r1/0:tests", &tree),
        ("refs/ralph/r1/0^{tree}", &tree),
        ("refs/ralph/r1/1^{tree}", &tree),
        ("refs/ralph/r1/0", &commit),
    ] {
        let scene = CheckpointScene::new();
        scene.write("tests/old", "assert");
        scene.write("src/main", "1");
        let base = scene.create();
        scene.write("edited", "second\n");
        let candidate = scene.create();
        let id = String::from_utf8(scene.git(&["rev-parse", name])).unwrap();
        forge_object(&scene, name, content);
        let (open, deadline) = (scene.open(), test_deadline());
        let whole = CheckoutRequest::whole;
        let mixed = CheckoutRequest {
            candidate: &candidate,
            base: &base,
            is_protected: &|path| path == "edited",
            overlay: &[OverlayFile { path: "tests/new".into(), content: b"x".to_vec() }],
        };
        let edited = [&base, &candidate].map(|of| {
            let files = open.checkpoint_files(of, &deadline).ok()?;
            files.into_iter().find(|file| file.path == "edited").map(|file| file.version.id)
        });
        let edited: Vec<_> = edited.into_iter().flatten().collect();
        let listing = list_with_git(&scene.project);
        let refused = [
            ("find", open.find(0, &deadline).err()),
            ("files", open.checkpoint_files(&base, &deadline).err()),
            ("difference", open.diff(&base, &candidate, &deadline).err()),
            ("content", open.read_blobs(&edited, 99, 999, &deadline).err()),
            ("lines", open.line_counts(&base, &candidate, &deadline).err()),
            ("patch", open.text_patch(&base, &candidate, 999, &deadline).err()),
            ("base", open.checkout(&whole(&base), &deadline).err()),
            ("candidate", open.checkout(&whole(&candidate), &deadline).err()),
            ("both", open.checkout(&mixed, &deadline).err()),
            ("both as an id", open.checkout_tree(&mixed, &deadline).err()),
            ("restore", scene.try_restore(0, &listing).err()),
        ];
        let mut names = Vec::new();
        for (operation, error) in refused {
            let Some(error) = error else { continue };
            let wrong =
                format!("the content of git object `{}` does not match its id", id.trim_end());
            // Git compares some objects itself.
            let why = error.to_string();
            let is_named = why == wrong;
            names.push(if is_named { operation.into() } else { format!("{operation} ({why})") });
        }
        table.push_str(&format!("{name}: {}\n", names.join(", ")));
    }
    insta::assert_snapshot!(table, @r"
    refs/ralph/r1/0:kept: base, candidate, both
    refs/ralph/r1/0:edited: content, lines, patch, base, both, restore
    refs/ralph/r1/1:edited: content, lines, patch, candidate
    refs/ralph/r1/0:tests: files, base, candidate, both, both as an id
    refs/ralph/r1/0^{tree}: files (`git ls-tree` exited with 128), difference, lines, patch, base (`git ls-tree` exited with 128), both, both as an id, restore
    refs/ralph/r1/1^{tree}: difference, lines, patch, candidate (`git ls-tree` exited with 128), both, both as an id, restore
    refs/ralph/r1/0: find, restore
    ");
}

#[test]
fn excluded_directories_are_left_alone() {
    let mut scene = CheckpointScene::new();
    scene.create();
    scene.write("apart/x", "x");
    scene.excluded = vec![scene.project.join("apart")];
    scene.restore(0);
    assert!(scene.project.join("apart/x").exists());
}

#[test]
fn a_difference_is_reported_by_path_by_line_and_by_byte() {
    let scene = CheckpointScene::new();
    scene.write("gone", "1\n2\n");
    scene.write("typed", "x");
    let base = scene.create();
    scene.remove("gone");
    scene.remove("typed");
    symlink("kept", scene.project.join("typed")).unwrap();
    scene.write("edited", "first\nmore\n");
    scene.write("new\n☃", [0, 1, 2]);
    let now = scene.create();
    let open = scene.open();
    let changes = open.diff(&base, &now, &test_deadline()).unwrap();
    let statuses: Vec<_> =
        changes.iter().map(|one| (one.path.to_str().unwrap(), one.status)).collect();
    assert_eq!(
        statuses,
        [
            ("edited", ChangeStatus::Modified),
            ("gone", ChangeStatus::Deleted),
            ("new\n☃", ChangeStatus::Added),
            ("typed", ChangeStatus::TypeChanged),
        ]
    );
    let lines = open.line_counts(&base, &now, &test_deadline()).unwrap();
    let counts: Vec<_> = lines.iter().map(|one| (one.added, one.removed)).collect();
    assert_eq!(counts, [(Some(1), Some(0)), (Some(0), Some(2)), (None, None), (Some(1), Some(1))]);

    let ids: Vec<_> = changes.iter().filter_map(|one| Some(one.after?.id)).collect();
    let missing = crate::tree::ObjectId([1; 32]);
    let wanted = [ids[0], ids[1], missing, ids[2], ids[0]];
    let blobs = open.read_blobs(&wanted, 10, 100, &test_deadline()).unwrap();
    assert_eq!(blobs[&ids[0]], BlobContent::TooLarge(11));
    assert_eq!(blobs[&ids[1]], BlobContent::Content(vec![0, 1, 2]));
    assert_eq!(blobs[&ids[2]], BlobContent::Content(b"kept".to_vec()));
    assert_eq!(blobs[&crate::tree::ObjectId([1; 32])], BlobContent::Missing);
    let blobs = open.read_blobs(&ids, 100, 14, &test_deadline()).unwrap();
    assert_eq!(blobs[&ids[2]], BlobContent::TooLarge(4), "all together are bounded too");

    scene.write("large", vec![b'x'; 2 << 20]);
    let changes = open.diff(&now, &scene.create(), &test_deadline()).unwrap();
    let large = changes[0].after.unwrap().id;
    for (largest, expected) in [
        (4 << 20, BlobContent::Content(vec![b'x'; 2 << 20])),
        (1 << 20, BlobContent::TooLarge(2 << 20)),
    ] {
        let blobs = open.read_blobs(&[ids[1], large], largest, 8 << 20, &test_deadline()).unwrap();
        assert_eq!(blobs[&ids[1]], BlobContent::Content(vec![0, 1, 2]));
        assert!(blobs[&large] == expected, "blobs of at most {largest} bytes");
    }
    let trees = open.read_blobs(&[now.tree], 1 << 20, 1 << 20, &test_deadline()).unwrap();
    assert_eq!(trees[&now.tree], BlobContent::Missing, "a tree is not a file");

    let patch = open.patch(&base, &now, 1 << 20, &test_deadline()).unwrap();
    assert!(!patch.truncated);
    let short = open.patch(&base, &now, 20, &test_deadline()).unwrap();
    assert_eq!((short.bytes.as_slice(), short.truncated), (&patch.bytes[..20], true));
}

/// R-S5c: the candidate in a clean directory, with the protected files of the base.
#[test]
fn a_checkout_is_the_candidate_with_protected_files_of_the_base() {
    let scene = CheckpointScene::new();
    scene.write(".gitignore", "node_modules/\ntarget/\n");
    scene.write("tests/old", "assert");
    scene.write("tests/deleted", "assert too");
    scene.write("src/main", "1");
    scene.commit();
    let base = scene.create();
    scene.write("tests/old", "pass");
    scene.remove("tests/deleted");
    scene.write("tests/added", "weaker");
    scene.write("src/main", "2");
    scene.write("node_modules/x", "dependency");
    let candidate = scene.create();
    let what = CheckoutRequest {
        candidate: &candidate,
        base: &base,
        is_protected: &|path| path.as_bytes().starts_with(b"tests/"),
        overlay: &[],
    };
    let checkout = scene.checkout(&what);
    let dir = checkout.dir.clone();
    let shown = |files: FileContents| -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        files.into_iter().map(|(p, (_, bytes))| (p.display().to_string(), text(bytes))).collect()
    };
    let in_git = |path: &Path| path.starts_with(".git");
    let expected: Vec<(String, String)> = [
        (".gitignore", "node_modules/\ntarget/\n"),
        ("edited", "first\n"),
        ("kept", "kept\n"),
        ("src/main", "2"),
        ("tests/deleted", "assert too"),
        ("tests/old", "assert"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    assert_eq!(shown(files_except(&dir, &in_git)), expected);
    let restored: Vec<_> = checkout.restored.iter().map(|one| one.path.clone()).collect();
    assert_eq!(restored, ["tests/added", "tests/deleted", "tests/old"]);
    assert_eq!(git_in(&dir, &["status", "--porcelain"]), b"");
    assert_eq!(git_in(&dir, &["for-each-ref", "--format=%(refname)"]), b"refs/heads/main\n");
    assert!(
        matches!(
            scene.open().checkout(&what, &Deadline::after(Duration::from_millis(50))),
            Err(CheckpointError::Lock(_))
        ),
        "the checkout is locked"
    );
    drop(checkout);

    // Commands may have left any files there.
    write(&dir.join("target/cache"), "built");
    write(&dir.join("stray/file"), "x");
    git_in(&dir, &["init", "--quiet", "nested"]);
    write(&dir.join("src/main"), "3");
    write(&dir.join(".git/config"), "[core]\n\tfsmonitor = touch pwned\n");
    write(&dir.join(".git/hooks/post-checkout"), "evil");
    std::fs::remove_dir_all(dir.join("tests")).unwrap();
    symlink(&scene.project, dir.join("tests")).unwrap();
    let before = scene.files();
    drop(scene.checkout(&what));
    assert_eq!(shown(files_except(&dir, &in_git)), expected);
    assert!(!dir.join(".git/hooks").exists());
    assert_eq!(git_in(&dir, &["status", "--porcelain"]), b"");
    assert_eq!(scene.files(), before);
}

#[test]
fn a_project_that_moves_to_another_repository_is_reported() {
    let scene = CheckpointScene::bare();
    scene.write("a", "1");
    scene.create();
    // The project becomes a repository, but the run's checkpoints stay in the shadow.
    scene.git(&["init", "--quiet"]);
    scene.write("a", "2");
    assert_eq!(scene.create().number, 1);
    scene.restore(0);
    assert_eq!(fs::read(&scene.project.join("a"), 9).unwrap(), b"1");
    assert_eq!(scene.git(&["for-each-ref"]), b"");

    let scene = CheckpointScene::new();
    scene.create();
    std::fs::rename(scene.project.join(".git"), scene.root().join("gone")).unwrap();
    let home = RalphHome::new(scene.root().join("home"));
    let run = RunId::parse("r1").unwrap();
    let open = || CheckpointRepository::open(&home, &run, &scene.project, &test_deadline());
    let error = open().unwrap_err();
    assert!(matches!(error, CheckpointError::ObjectsMoved(_)), "{error}");
    scene.write(".git", "gitdir: ../gone\n");
    let error = open().unwrap_err();
    assert!(matches!(error, CheckpointError::ObjectsMoved(_)), "{error}");
    std::fs::remove_file(scene.project.join(".git")).unwrap();
    symlink("../gone", scene.project.join(".git")).unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, CheckpointError::ObjectsMoved(_)), "{error}");
    std::fs::remove_file(scene.project.join(".git")).unwrap();
    std::fs::rename(scene.root().join("gone"), scene.project.join(".git")).unwrap();
    assert_eq!(open().unwrap().list(&test_deadline()).unwrap().len(), 1);
}

#[test]
fn a_timeout_changes_nothing() {
    let scene = CheckpointScene::new();
    scene.create();
    scene.write("edited", "2");
    let listing = scene.listing();
    let (open, over) = (scene.open(), Deadline::after(Duration::ZERO));
    let snapshot = CheckpointSnapshot {
        listing: &listing,
        excluded: &[],
        reason: CheckpointReason::Requested,
    };
    assert!(open.create(&snapshot, &over).is_err());
    assert!(open.restore(0, &snapshot, &over).is_err());
    assert_eq!(fs::read(&scene.project.join("edited"), 9).unwrap(), b"2");
    assert_eq!(open.list(&test_deadline()).unwrap().len(), 1);
}
