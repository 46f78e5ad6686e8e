//! Tests in real repositories, each with a user's work tree and ralph's home in a temporary directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use ralph_core::drive::RunWorktree;
use ralph_core::id::RunId;

use super::*;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileKind};
use ralph_sys::proc::testing::run_successfully;

struct WorktreeScene {
    dir: tempfile::TempDir,
    home: RalphHome,
}

impl WorktreeScene {
    fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = RalphHome::new(dir.path().join("home"));
        let scene = Self { dir, home };
        fs::create_private_dir(&scene.project()).unwrap();
        scene.git(&["init", "--quiet", "--initial-branch=main"]);
        for (name, value) in [("user.name", "t"), ("user.email", "t@t"), ("gc.auto", "0")] {
            scene.git(&["config", name, value]);
        }
        scene
    }

    fn with_commit() -> Self {
        let scene = Self::empty();
        scene.write(".gitignore", "*.log\ntarget/\n");
        scene.write("a", "one\n");
        scene.write("sub/b", "two\n");
        scene.commit("first");
        scene
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.project(), arguments)
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.project().join(name), text);
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn create(&self, run: &str) -> RunWorktree {
        self.try_create(run).unwrap().worktree
    }

    fn try_create(&self, run: &str) -> Result<CreatedWorktree, WorktreeError> {
        create_worktree(&self.home, &self.project(), &RunId::parse(run).unwrap(), &test_deadline())
    }

    fn agent_writes(&self, worktree: &RunWorktree, name: &str, text: &str) -> String {
        write(&Path::new(&worktree.path).join(name), text);
        self.commit_all(worktree)
    }

    fn commit_all(&self, worktree: &RunWorktree) -> String {
        commit_work(&self.home, worktree, "work", &test_deadline()).unwrap().commit().to_owned()
    }

    fn merge(&self, worktree: &RunWorktree) -> MergeResult {
        merge_target(&self.home, worktree, &test_deadline()).unwrap()
    }

    fn land(&self, worktree: &RunWorktree, commit: &str) -> LandingResult {
        land_commit(&self.home, worktree, commit, &test_deadline()).unwrap()
    }

    fn remove(&self, worktree: &RunWorktree) -> RemovalResult {
        remove_worktree(&self.home, worktree, &test_deadline()).unwrap()
    }

    /// Replaces the temporary directory, which differs each time.
    fn without_paths(&self, text: &str) -> String {
        let directory = fs::resolve(self.dir.path()).unwrap();
        text.replace(directory.to_str().unwrap(), "/dir")
            .replace(self.dir.path().to_str().unwrap(), "/dir")
    }

    fn message(&self, error: &WorktreeError) -> String {
        let hint = error.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
        self.without_paths(&format!("{error}{hint}"))
    }
}

fn git(at: &Path, arguments: &[&str]) -> String {
    let output = run_successfully(at, &[&["git"], arguments].concat());
    String::from_utf8(output).unwrap().trim_end().to_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_private_dir(path.parent().unwrap()).unwrap();
    fs::replace(path, text.as_bytes(), Durability::Cached).unwrap();
}

fn read(path: &Path) -> String {
    String::from_utf8(fs::read(path, 1024 * 1024).unwrap()).unwrap()
}

fn test_deadline() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

/// All of the user's files with modes, times and bytes, and git's files for them, except objects, which are only ever
/// added, and files named after a run.
fn users_files(project: &Path) -> BTreeMap<PathBuf, String> {
    const OTHERS: [&str; 4] =
        [".git/objects", ".git/worktrees", ".git/refs/heads/ralph", ".git/logs/refs/heads/ralph"];
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        for name in fs::list(&project.join(&below), 10_000).unwrap() {
            let name = below.join(name);
            if OTHERS.iter().any(|other| name == Path::new(other)) {
                continue;
            }
            let path = project.join(&name);
            let stat = fs::stat_no_follow(&path).unwrap();
            let content = match stat.kind {
                FileKind::Directory => {
                    waiting.push(name.clone());
                    String::new()
                }
                FileKind::Symlink => fs::read_link(&path).unwrap().display().to_string(),
                FileKind::File => fs::read(&path, 1 << 20).unwrap().escape_ascii().to_string(),
                FileKind::Other => "special".to_owned(),
            };
            let is_timed = stat.kind != FileKind::Directory && !name.starts_with(".git");
            let time = if is_timed { stat.modified_ns } else { 0 };
            found.insert(name, format!("{:?} {:o} {time} {content}", stat.kind, stat.mode));
        }
    }
    found
}

#[test]
fn work_on_a_separate_branch_lands_in_the_users_branch() {
    let scene = WorktreeScene::with_commit();
    let created = scene.try_create("k7f2").unwrap();
    assert_eq!(created.notes, Vec::<String>::new());
    let worktree = created.worktree;
    insta::assert_snapshot!(
        scene.without_paths(&format!("{} {} {} {:?}", worktree.path, worktree.branch, worktree.from, worktree.into)),
        @r#"/dir/home-worktrees/k7f2/project ralph/k7f2 /dir/project Some("main")"#
    );
    assert_eq!(worktree.base, scene.git(&["rev-parse", "main"]));
    write(&Path::new(&worktree.path).join("noise.log"), "ignored");
    let commit = scene.agent_writes(&worktree, "new/file", "made\n");
    assert_eq!(branch_tip(&scene.home, &worktree, &test_deadline()).unwrap(), commit);
    assert_eq!(
        scene.git(&["show", "--format=%an %ae %s", "--name-status", &commit]),
        "t t@t work\n\nA\tnew/file"
    );
    assert_eq!(scene.commit_all(&worktree), commit);
    assert_eq!(scene.merge(&worktree), MergeResult::FastForward { commit: commit.clone() });
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit: commit.clone() });
    assert_eq!(read(&scene.project().join("new/file")), "made\n");
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
    // Again, as after a crash half way.
    assert_eq!(scene.merge(&worktree), MergeResult::UpToDate { commit: commit.clone() });
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit });
    assert_eq!(scene.remove(&worktree), RemovalResult::Removed);
    assert_eq!(scene.git(&["branch", "--format=%(refname)"]), "refs/heads/main");
    assert!(!fs::exists(&scene.dir.path().join("home-worktrees/k7f2")));
}

#[test]
fn a_project_below_the_root_is_the_same_directory_in_the_work_tree() {
    let scene = WorktreeScene::with_commit();
    let run = RunId::parse("r").unwrap();
    scene.write("sub/c", "mine");
    let created =
        create_worktree(&scene.home, &scene.project().join("sub"), &run, &test_deadline()).unwrap();
    assert_eq!(created.notes, ["1 uncommitted file is not in the work tree"]);
    assert_eq!(scene.without_paths(&created.worktree.path), "/dir/home-worktrees/r/project/sub");
    let commit = scene.agent_writes(&created.worktree, "../top", "x");
    assert_eq!(scene.git(&["show", "--format=", "--name-only", &commit]), "top");
}

#[test]
fn work_trees_are_not_hidden_and_hidden_ones_of_earlier_versions_open() {
    let mut scene = WorktreeScene::with_commit();
    scene.home = RalphHome::new(fs::resolve(scene.dir.path()).unwrap().join(".ralph"));
    let mut worktree = scene.try_create("r").unwrap().worktree;
    assert_eq!(scene.without_paths(&worktree.path), "/dir/ralph-worktrees/r/project");
    let hidden = scene.home.hidden_worktree(&RunId::parse("r").unwrap());
    std::fs::create_dir_all(&hidden).unwrap();
    let hidden = hidden.join("project").to_str().unwrap().to_owned();
    assert_eq!(scene.without_paths(&hidden), "/dir/.ralph-worktrees/r/project");
    scene.git(&["worktree", "move", &worktree.path, &hidden]);
    worktree.path = hidden;
    let commit = scene.agent_writes(&worktree, "file", "made\n");
    assert_eq!(branch_tip(&scene.home, &worktree, &test_deadline()).unwrap(), commit);
    worktree.path = scene.project().to_str().unwrap().to_owned();
    assert!(branch_tip(&scene.home, &worktree, &test_deadline()).is_err());
}

#[test]
fn errors_in_creating_a_work_tree_have_hints() {
    let none = tempfile::tempdir().unwrap();
    let bare = tempfile::tempdir().unwrap();
    git(bare.path(), &["init", "--quiet", "--bare"]);
    let fresh = WorktreeScene::empty();
    let taken = WorktreeScene::with_commit();
    taken.git(&["branch", "ralph/r"]);
    let blocked = WorktreeScene::with_commit();
    blocked.git(&["branch", "ralph"]);
    let there = WorktreeScene::with_commit();
    write(&there.dir.path().join("home-worktrees/r/project/x"), "");
    let run = RunId::parse("r").unwrap();
    let mut messages = String::new();
    for (scene, project) in [
        (&fresh, none.path().to_owned()),
        (&fresh, bare.path().to_owned()),
        (&fresh, fresh.project()),
        (&taken, taken.project()),
        (&blocked, blocked.project()),
        (&there, there.project()),
    ] {
        let error = create_worktree(&scene.home, &project, &run, &test_deadline()).unwrap_err();
        let line = scene.message(&error);
        messages.push_str(&line.replace(project.to_str().unwrap(), "/elsewhere"));
        messages.push('\n');
    }
    insta::assert_snapshot!(messages, @"
    `/elsewhere` is not in a git repository
      hint: run it in a git repository, or without `--worktree`
    `/elsewhere` is a bare repository, which has no files to work on
      hint: run it in a work tree: `git worktree add ../work`
    the repository of `/dir/project` has no commit yet
      hint: create a first commit: `git commit --allow-empty --message start`
    branch `ralph/r` already exists
      hint: `git log ralph/r` shows its commits, `git branch -d ralph/r` deletes it if it is merged
    cannot create branch `ralph/r` because there is a branch `ralph`
      hint: rename it: `git branch -m ralph another-name`
    work tree `/dir/home-worktrees/r/project` already exists
      hint: `git worktree remove /dir/home-worktrees/r/project` removes it
    ");
    assert_eq!(taken.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

/// A failed checkout leaves neither a branch nor a work tree.
#[test]
fn a_failed_creation_leaves_nothing_behind() {
    let scene = WorktreeScene::with_commit();
    scene.write(".gitattributes", "a filter=broken\n");
    scene.commit("attributes");
    scene.git(&["config", "filter.broken.smudge", "false"]);
    scene.git(&["config", "filter.broken.required", "true"]);
    let before = users_files(&scene.project());
    let error = scene.try_create("r").unwrap_err();
    assert_eq!(scene.message(&error), "`git worktree add` exited with 128 in `/dir/project`");
    assert_eq!(users_files(&scene.project()), before);
    assert_eq!(scene.git(&["branch", "--format=%(refname)"]), "refs/heads/main");
    assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 1);
    assert!(!fs::exists(&scene.dir.path().join("home-worktrees/r")));
}

#[test]
fn differences_from_the_users_work_tree_are_noted() {
    let scene = WorktreeScene::with_commit();
    scene.write(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ../x\n");
    scene.commit("more");
    scene.write("a", "changed");
    scene.write("new", "new");
    scene.git(&["checkout", "--quiet", "--detach"]);
    let created = scene.try_create("r").unwrap();
    insta::assert_snapshot!(created.notes.join("\n"), @"
    2 uncommitted files are not in the work tree
    submodules are empty in the work tree; run `git submodule update --init --recursive` there
    `HEAD` is detached; the work stays on `ralph/r`
    ");
    let error = merge_target(&scene.home, &created.worktree, &test_deadline()).unwrap_err();
    insta::assert_snapshot!(scene.message(&error), @"
    `HEAD` was detached when the run started, so there is no branch to merge into
      hint: merge the run's branch manually
    ");
}

/// R-D1c: changes on both sides are merged in the run's work tree, and verified there before they land.
#[test]
fn a_target_that_moved_is_merged_into_the_work_tree_first() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let work = scene.agent_writes(&worktree, "new", "made\n");
    scene.write("a", "theirs\n");
    let theirs = scene.commit("theirs");
    assert_eq!(scene.land(&worktree, &work), LandingResult::TargetMoved { target: theirs.clone() });
    let MergeResult::Clean { commit } = scene.merge(&worktree) else { panic!() };
    assert_eq!(read(&Path::new(&worktree.path).join("a")), "theirs\n");
    assert_eq!(scene.git(&["rev-parse", "main"]), theirs);
    assert_eq!(
        scene.git(&["show", "--no-patch", "--format=%s %P", &commit]),
        format!("Merge branch 'main' into ralph/r {work} {theirs}")
    );
    // The target moves again between verification and landing.
    scene.write("a", "again\n");
    let again = scene.commit("again");
    assert_eq!(scene.land(&worktree, &commit), LandingResult::TargetMoved { target: again });
    let MergeResult::Clean { commit } = scene.merge(&worktree) else { panic!() };
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit });
    assert_eq!(read(&scene.project().join("new")), "made\n");
    assert_eq!(scene.remove(&worktree), RemovalResult::Removed);
}

/// R-D1c: a conflict keeps the branch and the work tree, and both are reported.
#[test]
fn a_conflict_keeps_everything_and_names_commands_to_inspect_it() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let work = scene.agent_writes(&worktree, "a", "made\n");
    scene.write("a", "theirs\n");
    scene.commit("theirs");
    scene.write("sub/b", "not committed");
    let (before, ours) = (users_files(&scene.project()), users_files(Path::new(&worktree.path)));
    assert_eq!(scene.merge(&worktree), MergeResult::Conflict { files: vec!["a".to_owned()] });
    assert_eq!(users_files(&scene.project()), before);
    let after = users_files(Path::new(&worktree.path));
    assert_eq!(after.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
    assert_eq!(read(&Path::new(&worktree.path).join("a")), "made\n");
    assert_eq!(branch_tip(&scene.home, &worktree, &test_deadline()).unwrap(), work);
    assert_eq!(
        git(Path::new(&worktree.path), &["status", "--porcelain", "--branch"]),
        "## ralph/r"
    );
    let refused =
        RemovalResult::Kept { why: "its branch has commits that have not landed".to_owned() };
    assert_eq!(scene.remove(&worktree), refused);
    let kept = describe_kept(&worktree);
    let text = format!("{}\n{}\n{}", kept.path, kept.branch, kept.commands.join("\n"));
    insta::assert_snapshot!(scene.without_paths(&text).replace(&worktree.base, "BASE"), @"
    /dir/home-worktrees/r/project
    ralph/r
    git -C /dir/project log --oneline BASE..ralph/r
    git -C /dir/project diff BASE...ralph/r
    git -C /dir/home-worktrees/r/project status
    git -C /dir/project merge ralph/r
    ");
    for command in &kept.commands[..3] {
        run_successfully(scene.dir.path(), &shlex::split(command).unwrap());
    }
}

/// R-D1b: git refuses to overwrite uncommitted and ignored files, and everything is kept.
#[test]
fn uncommitted_changes_to_the_same_files_prevent_landing() {
    type WorktreeSceneEdit = fn(&WorktreeScene);
    let changes: [(&str, WorktreeSceneEdit, &str); 5] = [
        (
            "unstaged",
            |s| s.write("a", "mine"),
            "your uncommitted changes would be overwritten: `a`",
        ),
        (
            "staged",
            |s| {
                s.write("a", "mine");
                s.git(&["add", "a"]);
            },
            "your uncommitted changes would be overwritten: `a`",
        ),
        (
            "untracked",
            |s| s.write("new", "mine"),
            "your uncommitted changes would be overwritten: `new`",
        ),
        (
            "ignored",
            |s| s.write("x.log", "mine"),
            "your uncommitted changes would be overwritten: `x.log`",
        ),
        (
            "in the middle of a merge",
            |s| {
                s.git(&["checkout", "--quiet", "-b", "other"]);
                s.write("other", "x");
                s.commit("other");
                s.git(&["checkout", "--quiet", "main"]);
                s.git(&["merge", "--quiet", "--no-ff", "--no-commit", "other"]);
            },
            "git refused to update your work tree",
        ),
    ];
    for (name, change, expected) in changes {
        let scene = WorktreeScene::with_commit();
        let worktree = scene.create("r");
        for (file, text) in [("a", "made"), ("new", "made")] {
            write(&Path::new(&worktree.path).join(file), text);
        }
        write(&Path::new(&worktree.path).join("x.log"), "made");
        git(Path::new(&worktree.path), &["add", "--force", "x.log"]);
        let commit = scene.commit_all(&worktree);
        change(&scene);
        let before = users_files(&scene.project());
        let refused = LandingResult::Refused { why: expected.to_owned() };
        assert_eq!(scene.land(&worktree, &commit), refused, "{name}");
        assert_eq!(users_files(&scene.project()), before, "{name}");
        assert_eq!(branch_tip(&scene.home, &worktree, &test_deadline()).unwrap(), commit, "{name}");
    }
}

#[test]
fn uncommitted_changes_to_other_files_survive_a_landing() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let commit = scene.agent_writes(&worktree, "new", "made");
    scene.write("a", "mine");
    scene.git(&["add", "a"]);
    scene.write("a", "mine, later");
    scene.write("sub/b", "mine");
    scene.write("free", "mine");
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit });
    insta::assert_snapshot!(scene.git(&["status", "--porcelain"]), @"
    MM a
     M sub/b
    ?? free
    ");
    assert_eq!(read(&scene.project().join("a")), "mine, later");
}

#[test]
fn a_branch_that_is_not_checked_out_is_moved_if_it_has_not_changed() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let commit = scene.agent_writes(&worktree, "a", "made");
    scene.git(&["checkout", "--quiet", "-b", "elsewhere"]);
    scene.write("a", "mine");
    let index = || fs::read(&scene.project().join(".git/index"), 1 << 20).unwrap();
    let before = index();
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit: commit.clone() });
    assert_eq!(scene.git(&["rev-parse", "main"]), commit);
    assert_eq!(scene.git(&["status", "--porcelain", "--branch"]), "## elsewhere\n M a");
    assert_eq!(index(), before);
    // `git branch -d` compares with the branch that is checked out, which does not have the commit.
    assert_eq!(scene.remove(&worktree), RemovalResult::BranchKept);
}

#[test]
fn a_branch_that_is_being_rebased_is_left_alone() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let commit = scene.agent_writes(&worktree, "new", "made");
    let tip = scene.git(&["rev-parse", "main"]);
    scene.git(&["checkout", "--quiet", "--detach"]);
    write(&scene.project().join(".git/rebase-merge/head-name"), "refs/heads/main\n");
    let refused = scene.land(&worktree, &commit);
    let LandingResult::Refused { why } = refused else { panic!("{refused:?}") };
    assert_eq!(scene.without_paths(&why), "it is being rebased or bisected in `/dir/project/.git`");
    assert_eq!(scene.git(&["rev-parse", "main"]), tip);
}

#[test]
fn commits_that_the_user_removed_do_not_come_back() {
    let scene = WorktreeScene::with_commit();
    scene.write("a", "regretted");
    scene.commit("regretted");
    let worktree = scene.create("r");
    let commit = scene.agent_writes(&worktree, "new", "made");
    scene.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let error = merge_target(&scene.home, &worktree, &test_deadline()).unwrap_err();
    insta::assert_snapshot!(scene.message(&error), @"
    branch `main` no longer contains the commit that the run started from
      hint: rebase the run's branch onto `main` manually
    ");
    let why = "branch `main` no longer contains the commit that the run started from".to_owned();
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Refused { why });
    scene.git(&["checkout", "--quiet", "--detach"]);
    scene.git(&["branch", "-D", "main"]);
    let error = land_commit(&scene.home, &worktree, &commit, &test_deadline()).unwrap_err();
    assert_eq!(error.to_string(), "branch `main` no longer exists");
}

#[test]
fn only_verified_commits_land() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let verified = scene.agent_writes(&worktree, "new", "made");
    scene.agent_writes(&worktree, "later", "made");
    for (commit, why) in [
        (verified.as_str(), "`ralph/r` has commits that were not verified"),
        ("main", "`main` is not on `ralph/r`"),
        ("--help", "`--help` is not on `ralph/r`"),
    ] {
        assert_eq!(scene.land(&worktree, commit), LandingResult::Refused { why: why.to_owned() });
    }
}

#[test]
fn an_agent_on_another_branch_moves_the_runs_branch_or_is_reported() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let at = Path::new(&worktree.path);
    scene.agent_writes(&worktree, "one", "1");
    git(at, &["checkout", "--quiet", "-b", "feature"]);
    write(&at.join("two"), "2");
    git(at, &["add", "two"]);
    git(at, &["commit", "--quiet", "-m", "on my own branch"]);
    let commit = scene.agent_writes(&worktree, "three", "3");
    assert_eq!(git(at, &["symbolic-ref", "HEAD"]), "refs/heads/ralph/r");
    assert_eq!(
        scene.git(&["log", "--format=%s", &format!("main..{commit}")]),
        "work\non my own branch\nwork"
    );
    git(at, &["checkout", "--quiet", "--detach", &worktree.base]);
    let error = commit_error(&scene, &worktree);
    insta::assert_snapshot!(error, @"
    the work tree is on a detached `HEAD`, which does not contain the commits of `ralph/r`
      hint: compare the two, then move `ralph/r` to the commit with the work
    ");
}

fn commit_error(scene: &WorktreeScene, worktree: &RunWorktree) -> String {
    scene.message(&commit_work(&scene.home, worktree, "work", &test_deadline()).unwrap_err())
}

#[test]
fn conflicts_and_nested_repositories_are_not_committed() {
    let scene = WorktreeScene::with_commit();
    scene.git(&["checkout", "--quiet", "-b", "other"]);
    scene.write("a", "other");
    scene.commit("other");
    scene.git(&["checkout", "--quiet", "main"]);
    let worktree = scene.create("r");
    let at = Path::new(&worktree.path);
    scene.agent_writes(&worktree, "a", "made");
    let merge = ["git", "merge", "other"].map(OsStr::new);
    let spec = ralph_sys::proc::ProgramSpec { argv: &merge, cwd: Some(at), env: &[] };
    ralph_sys::proc::run_program(&spec, &ralph_sys::proc::testing::generous_limits());
    let unmerged = commit_error(&scene, &worktree);
    git(at, &["merge", "--abort"]);
    fs::create_private_dir(&at.join("inner")).unwrap();
    git(&at.join("inner"), &["init", "--quiet"]);
    git(
        &at.join("inner"),
        &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--allow-empty", "-qmx"],
    );
    write(&at.join("beside"), "x");
    let nested = commit_error(&scene, &worktree);
    insta::assert_snapshot!(format!("{unmerged}\n{nested}"), @"
    the work tree has unresolved conflicts: `a`
      hint: resolve them in the work tree, or run `git merge --abort` there
    the work tree contains repositories, whose files would not be committed: `inner`
      hint: remove their `.git`, or add them with `git submodule add`
    ");
}

/// A `.git` file that points elsewhere does not make ralph commit to, remove or merge another repository.
#[test]
fn the_git_file_in_the_work_tree_is_not_followed() {
    let scene = WorktreeScene::with_commit();
    let other = WorktreeScene::with_commit();
    other.write("mine", "x");
    let worktree = scene.create("r");
    let at = Path::new(&worktree.path);
    let elsewhere = other.project().join(".git");
    write(&at.join(".git"), &format!("gitdir: {}\n", elsewhere.display()));
    let before = users_files(&other.project());
    let commit = scene.agent_writes(&worktree, "new", "made");
    assert_eq!(scene.git(&["log", "-1", "--format=%s", &commit]), "work");
    assert_eq!(users_files(&other.project()), before);
    let forged = [
        RunWorktree { path: other.project().display().to_string(), ..worktree.clone() },
        RunWorktree { branch: "main".to_owned(), ..worktree.clone() },
        RunWorktree { branch: "ralph/../x".to_owned(), ..worktree.clone() },
        RunWorktree { from: other.project().display().to_string(), ..worktree.clone() },
    ];
    for forged in forged {
        let error = remove_worktree(&scene.home, &forged, &test_deadline()).unwrap_err();
        assert!(matches!(error, WorktreeError::NotRunWorktree(_)), "{error}");
    }
}

#[test]
fn no_hook_monitor_or_signature_of_the_repository_runs() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("r");
    let mark = scene.dir.path().join("pwned");
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    let hooks = scene.project().join("hooks");
    for name in [
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-merge",
        "post-checkout",
        "reference-transaction",
        "monitor",
    ] {
        write(&hooks.join(name), &script);
        std::fs::set_permissions(hooks.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let monitor = hooks.join("monitor");
    for (name, value) in [
        ("core.hooksPath", hooks.to_str().unwrap()),
        ("core.fsmonitor", monitor.to_str().unwrap()),
        ("gpg.program", monitor.to_str().unwrap()),
        ("core.editor", monitor.to_str().unwrap()),
        ("commit.gpgSign", "true"),
    ] {
        scene.git(&["config", name, value]);
    }
    let commit = scene.agent_writes(&worktree, "new", "made");
    let second = scene.create("second");
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit });
    scene.agent_writes(&second, "other", "made");
    let MergeResult::Clean { commit } = scene.merge(&second) else { panic!() };
    assert_eq!(scene.land(&second, &commit), LandingResult::Landed { commit });
    assert_eq!(scene.remove(&worktree), RemovalResult::Removed);
    assert!(!fs::exists(&mark));
}

#[test]
fn without_a_configured_identity_ralph_commits() {
    let scene = WorktreeScene::with_commit();
    scene.git(&["config", "user.email", ""]);
    scene.git(&["config", "user.name", "t"]);
    let worktree = scene.create("r");
    let commit = scene.agent_writes(&worktree, "new", "made");
    assert_eq!(
        scene.git(&["show", "--no-patch", "--format=%an %ae", &commit]),
        "t ralph@localhost"
    );
}

/// Two runs in one repository: the second merges the work that the first landed.
#[test]
fn two_runs_in_one_repository_are_independent_until_they_land() {
    let scene = WorktreeScene::with_commit();
    let (first, second) = std::thread::scope(|threads| {
        let first = threads.spawn(|| scene.create("one"));
        let second = threads.spawn(|| scene.create("two"));
        (first.join().unwrap(), second.join().unwrap())
    });
    let one = scene.agent_writes(&first, "one", "1");
    let two = scene.agent_writes(&second, "two", "2");
    assert_eq!(scene.land(&first, &one), LandingResult::Landed { commit: one.clone() });
    assert_eq!(scene.land(&second, &two), LandingResult::TargetMoved { target: one });
    let MergeResult::Clean { commit } = scene.merge(&second) else { panic!() };
    assert_eq!(scene.land(&second, &commit), LandingResult::Landed { commit });
    assert_eq!(scene.remove(&first), RemovalResult::Removed);
    assert_eq!(scene.remove(&second), RemovalResult::Removed);
    assert_eq!(scene.git(&["ls-files"]), ".gitignore\na\none\nsub/b\ntwo");
}

#[derive(Clone, Debug)]
enum UserChange {
    Edit(&'static str, u8),
    Stage,
    StageThenEdit(u8),
    Untracked(u8),
    Ignored(u8),
    Mode,
    Link(u8),
    Delete,
    Stash(u8),
    EmptyDirectory,
}

fn user_change() -> impl Strategy<Value = UserChange> {
    prop_oneof![
        (prop_oneof![Just("a"), Just("sub/b")], any::<u8>())
            .prop_map(|(name, n)| UserChange::Edit(name, n)),
        Just(UserChange::Stage),
        any::<u8>().prop_map(UserChange::StageThenEdit),
        any::<u8>().prop_map(UserChange::Untracked),
        any::<u8>().prop_map(UserChange::Ignored),
        Just(UserChange::Mode),
        any::<u8>().prop_map(UserChange::Link),
        Just(UserChange::Delete),
        any::<u8>().prop_map(UserChange::Stash),
        Just(UserChange::EmptyDirectory),
    ]
}

impl UserChange {
    fn apply(&self, scene: &WorktreeScene) {
        let project = scene.project();
        match self {
            Self::Edit(name, n) => scene.write(name, &format!("edit {n}\n")),
            Self::Stage => drop(scene.git(&["add", "--all"])),
            Self::StageThenEdit(n) => {
                scene.write("a", &format!("staged {n}"));
                scene.git(&["add", "a"]);
                scene.write("a", &format!("edited {n}"));
            }
            Self::Untracked(n) => scene.write(&format!("new {n}/\u{e9}\nx"), "new"),
            Self::Ignored(n) => scene.write(&format!("target/{n}.log"), "ignored"),
            Self::Mode => {
                let mode = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(project.join(".gitignore"), mode).unwrap();
            }
            Self::Link(n) => symlink("/nowhere", project.join(format!("link{n}"))).unwrap_or(()),
            Self::Delete => fs::remove_file(&project.join("sub/b")).unwrap(),
            Self::Stash(n) => {
                scene.write("a", &format!("stashed {n}"));
                scene.git(&["stash", "push", "--quiet"]);
            }
            Self::EmptyDirectory => fs::create_private_dir(&project.join("empty")).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// R-D1b: for any initial state of the user's work tree, no byte of it, of the index, `HEAD`, the stash or the
    /// user's branches changes while the run works, has a merge conflict and is refused.
    #[test]
    fn nothing_of_the_users_changes(dirt in prop::collection::vec(user_change(), 1..6)) {
        let scene = WorktreeScene::with_commit();
        scene.git(&["branch", "other"]);
        for one in &dirt {
            one.apply(&scene);
        }
        let before = users_files(&scene.project());
        let worktree = scene.create("r");
        prop_assert_eq!(&users_files(&scene.project()), &before);
        let work = scene.agent_writes(&worktree, "a", "made\n");
        scene.merge(&worktree);
        prop_assert_eq!(&users_files(&scene.project()), &before);
        let why = "its branch has commits that have not landed".to_owned();
        prop_assert_eq!(scene.remove(&worktree), RemovalResult::Kept { why });
        prop_assert_eq!(&users_files(&scene.project()), &before);
        // The user's branch moves without the files, as after a push from elsewhere.
        let tree = scene.git(&["rev-parse", "main^{tree}"]);
        let moved = scene.git(&["commit-tree", &tree, "-p", "main", "-m", "moved"]);
        let blob = scene.dir.path().join("theirs");
        write(&blob, "theirs\n");
        let blob = scene.git(&["hash-object", "-w", blob.to_str().unwrap()]);
        let index = scene.dir.path().join("index");
        let run = |arguments: &[&str]| {
            let variable = format!("GIT_INDEX_FILE={}", index.display());
            let argv = [&["env", &variable, "git"], arguments].concat();
            String::from_utf8(run_successfully(&scene.project(), &argv)).unwrap().trim().to_owned()
        };
        run(&["read-tree", &moved]);
        run(&["update-index", "--cacheinfo", &format!("100644,{blob},a")]);
        let tree = run(&["write-tree"]);
        let theirs = scene.git(&["commit-tree", &tree, "-p", &moved, "-m", "theirs"]);
        scene.git(&["update-ref", "refs/heads/main", &theirs]);
        let before = users_files(&scene.project());
        prop_assert_eq!(scene.land(&worktree, &work), LandingResult::TargetMoved { target: theirs });
        prop_assert_eq!(scene.merge(&worktree), MergeResult::Conflict { files: vec!["a".to_owned()] });
        prop_assert_eq!(&users_files(&scene.project()), &before);
    }
}

/// R-D1c: committed work has not landed yet.
#[test]
fn git_determines_whether_work_has_landed() {
    let scene = WorktreeScene::with_commit();
    let worktree = scene.create("k7f2");
    let landed = || has_landed(&scene.home, &worktree, &test_deadline()).unwrap();
    assert!(!has_landed_commits(&scene.home, &worktree, &test_deadline()).unwrap(), "no commits");
    let commit = scene.agent_writes(&worktree, "new", "x\n");
    let mut results = vec![landed()];
    assert_eq!(scene.land(&worktree, &commit), LandingResult::Landed { commit });
    write(&Path::new(&worktree.path).join("report.xml"), "x\n");
    results.push(landed());
    fs::remove_file(&Path::new(&worktree.path).join("report.xml")).unwrap();
    assert_eq!(scene.remove(&worktree), RemovalResult::Removed);
    results.push(landed());
    assert_eq!(results, [false, true, true]);
    let other = scene.create("9qd1");
    let commit = scene.agent_writes(&other, "other", "x\n");
    scene.git(&["worktree", "remove", "--force", &other.path]);
    assert!(!has_landed(&scene.home, &other, &test_deadline()).unwrap());
    scene.git(&["merge", "--quiet", &commit]);
    assert!(has_landed(&scene.home, &other, &test_deadline()).unwrap());
    assert!(has_landed_commits(&scene.home, &other, &test_deadline()).unwrap());
}

/// R-D1c: the judged files are the ones that land. Changes that git was configured to ignore are undone, as in a clone.
#[test]
fn changes_that_git_ignores_are_not_judged() {
    let scene = WorktreeScene::with_commit();
    scene.git(&["config", "core.fileMode", "false"]);
    scene.git(&["config", "core.autocrlf", "input"]);
    let worktree = scene.create("k7f2");
    let tree = Path::new(&worktree.path);
    write(&tree.join("run.sh"), "echo\n");
    std::fs::set_permissions(tree.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    write(&tree.join("crlf"), "a\r\nb\r\n");
    git(tree, &["update-index", "--assume-unchanged", "a"]);
    git(tree, &["update-index", "--skip-worktree", "sub/b"]);
    write(&tree.join("a"), "hidden\n");
    write(&tree.join("sub/b"), "hidden\n");
    let commit = scene.commit_all(&worktree);
    rewrite_files(&scene.home, &worktree, &commit, &test_deadline()).unwrap();
    let read = |name: &str| String::from_utf8(fs::read(&tree.join(name), 1000).unwrap()).unwrap();
    let mode = std::fs::metadata(tree.join("run.sh")).unwrap().permissions().mode() & 0o111;
    assert_eq!((read("a").as_str(), read("sub/b").as_str()), ("one\n", "two\n"));
    assert_eq!((read("crlf").as_str(), mode), ("a\nb\n", 0));
    assert_eq!(git(tree, &["status", "--porcelain"]), "");
    assert_eq!(scene.merge(&worktree), MergeResult::FastForward { commit });
}
