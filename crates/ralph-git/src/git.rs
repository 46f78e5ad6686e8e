//! Read-only queries to git about a project. As far as git allows it, no program that the repository's configuration
//! names is run. Commands that write are in `worktree` and `checkpoint`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Kind};
use ralph_sys::proc::{self, Ended, Limits, Spec};

/// Enough for some hundred thousand changed paths.
const OUTPUT_CAP: usize = 32 * 1024 * 1024;
const CHANGED_NAMED: usize = 20;
const MOST_COMMITS: usize = 200;
const LONGEST_SUBJECT: usize = 160;
/// Options for every query: no file system monitor and no hooks.
const BEFORE: [&str; 6] =
    ["git", "--no-pager", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"];
/// The command line of `git status`. A repository's configuration must not make ralph run a program; `git status` could
/// run one in these ways:
///
/// - `core.fsmonitor` and hooks are switched off here. An empty value, unlike `false`, also disables it in git before
///   2.36.
/// - Fetching missing objects of a partial clone would run transports, `core.sshCommand` and credential helpers:
///   the environment in `run_query` forbids both the fetch and every protocol.
/// - Git starts another git in each submodule, which would follow the submodule's configuration:
///   `--ignore-submodules=dirty` compares the submodule's commit only.
/// - Pagers, external diffs, text conversions, signature programs and aliases are not used by `git status`.
///
/// This leaves `filter.<name>.clean` and `filter.<name>.process`: git runs them on files whose attributes name them if
/// size and time do not show whether the file changed. Git has no option to disable all filters, and without
/// legitimate ones (LFS) unchanged files would look changed. They run in the child's process group, under its
/// deadline, without secrets.
pub const STATUS: [&str; 19] = [
    "git",
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "status.relativePaths=false",
    "-c",
    "status.showStash=false",
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
    "--untracked-files=all",
    "--ignore-submodules=dirty",
    "--no-renames",
    "--no-ahead-behind",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitState {
    Known(Work),
    NotARepository,
    /// Why git could not report the state.
    Unavailable(String),
}

/// The state of a whole repository. Submodules and nested repositories count by their commit or their presence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The commit that is checked out; `None` before the first commit.
    pub head: Option<String>,
    /// The first paths that differ from the commit, relative to the repository.
    pub changed: Vec<String>,
    pub changed_count: usize,
}

/// Reports the state of the repository that contains `project`, without the files below the absolute directories in
/// `exclude`.
pub fn status(project: &Path, exclude: &[PathBuf], deadline: &Deadline) -> GitState {
    let Some(project) = fs::resolve(project) else {
        return GitState::Unavailable(format!("cannot find `{}`", project.display()));
    };
    let Some(root) = root(&project) else { return GitState::NotARepository };
    match ask(root, deadline).and_then(|output| work(root, &output, &excluded(exclude))) {
        Ok(work) => GitState::Known(work),
        Err(why) => GitState::Unavailable(why),
    }
}

/// The root of the work tree that contains `directory`.
pub fn root(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|ancestor| is_repository(ancestor))
}

/// Every path that differs from the commit, relative to the repository.
pub fn changed_paths(project: &Path, deadline: &Deadline) -> Result<Vec<String>, String> {
    let project =
        fs::resolve(project).ok_or_else(|| format!("cannot find `{}`", project.display()))?;
    let root = root(&project).ok_or("not a git repository")?;
    let output = ask(root, deadline)?;
    records(&output)
        .filter(|record| !record.starts_with(b"#"))
        .map(|record| path_of(record).map(lossy).ok_or_else(|| odd(record)))
        .collect()
}

/// Where [`commits_since`] starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since<'a> {
    /// Commits that are not reachable from this one.
    Commit(&'a str),
    /// Commits made after this time, if the commit is not known. The whole second is left out: a commit made within it
    /// may be older.
    Ms(u64),
}

/// Commits on the current branch since then, oldest first, as `id subject`. A merge counts as one commit. Empty if git
/// cannot answer.
pub fn commits_since(project: &Path, since: Since<'_>, deadline: &Deadline) -> Vec<String> {
    let Some(project) = fs::resolve(project) else { return Vec::new() };
    let Some(root) = root(&project) else { return Vec::new() };
    let (bound, range) = match since {
        Since::Commit(commit) if is_id(commit) => (None, format!("{commit}..HEAD")),
        Since::Commit(_) => return Vec::new(),
        Since::Ms(ms) => (Some(format!("--since=@{}", ms / 1000 + 1)), "HEAD".to_owned()),
    };
    let most = format!("--max-count={MOST_COMMITS}");
    let mut log = vec!["log", "--first-parent", "--no-show-signature", "--no-color"];
    log.extend(["--format=%h %s", &most]);
    log.extend(bound.as_deref());
    log.extend([range.as_str(), "--"]);
    let Ok(output) = told(root, &[&BEFORE[..], &log].concat(), deadline) else { return Vec::new() };
    let text = String::from_utf8_lossy(&output);
    let lines = text.lines().map(|line| ralph_core::text::line(line, LONGEST_SUBJECT));
    lines.rev().collect()
}

/// The commit that is checked out. `None` before the first commit, or if git cannot answer.
pub fn head(project: &Path, deadline: &Deadline) -> Option<String> {
    rev_parse(project, "HEAD^{commit}", deadline)
}

fn rev_parse(project: &Path, name: &str, deadline: &Deadline) -> Option<String> {
    let project = fs::resolve(project)?;
    let question = ["rev-parse", "--verify", "--quiet", name];
    let output = told(root(&project)?, &[&BEFORE[..], &question].concat(), deadline).ok()?;
    let id = lossy(&output).trim().to_owned();
    is_id(&id).then_some(id)
}

/// The tree of the commit that is checked out.
pub fn head_tree(project: &Path, deadline: &Deadline) -> Option<String> {
    rev_parse(project, "HEAD^{tree}", deadline)
}

/// Whether `text` can only be an object id, and not an option or another name to git.
fn is_id(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `HEAD` is on a branch. `false` if git cannot answer.
pub fn is_on_branch(project: &Path, deadline: &Deadline) -> bool {
    let Some(project) = fs::resolve(project) else { return false };
    let Some(root) = root(&project) else { return false };
    told(root, &[&BEFORE[..], &["symbolic-ref", "--quiet", "HEAD"]].concat(), deadline).is_ok()
}

/// Whether the directory has a `.git` directory or, as linked work trees and submodules do, a `.git` file.
pub(crate) fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    match fs::stat(&git).map(|stat| stat.kind) {
        Some(Kind::File) => true,
        Some(Kind::Directory) => fs::stat_link(&git.join("HEAD")).is_some(),
        Some(Kind::Symlink | Kind::Other) | None => false,
    }
}

fn excluded(exclude: &[PathBuf]) -> Vec<PathBuf> {
    let canonical = exclude.iter().filter_map(|path| fs::resolve(path));
    exclude.iter().cloned().chain(canonical).collect()
}

fn ask(root: &Path, deadline: &Deadline) -> Result<Vec<u8>, String> {
    told(root, &STATUS, deadline)
}

fn told(root: &Path, question: &[&str], deadline: &Deadline) -> Result<Vec<u8>, String> {
    // The configuration may name another work tree, and git would search the parent directories of a broken `.git`.
    let mut work_tree = OsStr::new("--work-tree=").to_owned();
    work_tree.push(root);
    let mut argv: Vec<&OsStr> = question.iter().map(OsStr::new).collect();
    argv.splice(1..1, [OsStr::new("-C"), root.as_os_str(), &work_tree]);
    let ceiling = root.parent().unwrap_or(root);
    let env = [
        ("GIT_CEILING_DIRECTORIES", ceiling.as_os_str()),
        ("GIT_NO_LAZY_FETCH", OsStr::new("1")),
        ("GIT_ALLOW_PROTOCOL", OsStr::new("none")),
        ("GIT_NO_REPLACE_OBJECTS", OsStr::new("1")),
    ]
    .map(|(name, value)| (OsStr::new(name), value));
    let spec = Spec { argv: &argv, cwd: None, env: &env };
    match proc::run(&spec, &Limits { deadline: *deadline, keep: OUTPUT_CAP }) {
        Ended::Exited { code: 0, stdout, truncated: false } => Ok(stdout),
        ended @ (Ended::Exited { .. }
        | Ended::Signalled
        | Ended::TimedOut
        | Ended::CouldNotStart(_)) => Err(why_not(&ended)),
    }
}

fn why_not(ended: &Ended) -> String {
    match ended {
        Ended::Exited { code: 0, .. } => "too many changes to list".to_owned(),
        Ended::Exited { code, .. } => format!("`git status` exited with {code}"),
        Ended::Signalled => "`git status` was killed".to_owned(),
        Ended::TimedOut => out_of_time(),
        Ended::CouldNotStart(error) if error.kind() == io::ErrorKind::NotFound => {
            "git is not installed".to_owned()
        }
        Ended::CouldNotStart(error) => format!("cannot start git: {error}"),
    }
}

fn out_of_time() -> String {
    "`git status` timed out".to_owned()
}

fn work(root: &Path, output: &[u8], excluded: &[PathBuf]) -> Result<Work, String> {
    let mut work = Work { head: None, changed: Vec::new(), changed_count: 0 };
    for record in records(output) {
        if let Some(head) = record.strip_prefix(b"# branch.oid ") {
            work.head = (head != b"(initial)").then(|| lossy(head));
        } else if !record.starts_with(b"#") {
            let path = path_of(record).ok_or_else(|| odd(record))?;
            let absolute = root.join(OsStr::from_bytes(path));
            if excluded.iter().any(|directory| absolute.starts_with(directory)) {
                continue;
            }
            if work.changed.len() < CHANGED_NAMED {
                work.changed.push(lossy(path));
            }
            work.changed_count += 1;
        }
    }
    Ok(work)
}

fn records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|&byte| byte == 0).filter(|record| !record.is_empty())
}

fn odd(record: &[u8]) -> String {
    format!("unexpected output of `git status`: `{}`", record.escape_ascii())
}

/// The path is the last field, and the only one that can contain spaces. The first byte determines how many fields
/// precede it.
fn path_of(record: &[u8]) -> Option<&[u8]> {
    let fields = match record.first()? {
        b'?' => 2,
        b'1' => 9,
        b'u' => 11,
        _ => return None,
    };
    record.splitn(fields, |&byte| byte == b' ').nth(fields - 1).filter(|path| !path.is_empty())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;
    use ralph_sys::env;
    use ralph_sys::fs::Durability;
    use ralph_sys::proc::testing;

    struct Repository {
        dir: tempfile::TempDir,
    }

    impl Repository {
        fn empty() -> Self {
            let repository = Self { dir: tempfile::tempdir().unwrap() };
            repository.git(&["init", "--quiet"]);
            repository
        }

        /// Has one commit with the files `kept` and `edited`.
        fn with_commit() -> Self {
            let repository = Self::empty();
            repository.write("kept", "kept\n");
            repository.write("edited", "first\n");
            repository.commit();
            repository
        }

        fn path(&self) -> &Path {
            self.dir.path()
        }

        fn git(&self, arguments: &[&str]) {
            let mut argv = vec!["git"];
            for setting in ["user.name=t", "user.email=t@t", "commit.gpgsign=false"] {
                argv.extend(["-c", setting]);
            }
            argv.extend(arguments);
            testing::succeed(self.path(), &argv);
        }

        fn commit(&self) {
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message=x"]);
        }

        fn write(&self, name: impl AsRef<Path>, text: &str) {
            let path = self.path().join(name);
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::replace(&path, text.as_bytes(), Durability::Cached).unwrap();
        }

        fn work(&self) -> Work {
            known(status(self.path(), &[], &generous()))
        }
    }

    fn generous() -> Deadline {
        Deadline::after(Duration::from_mins(1))
    }

    fn known(state: GitState) -> Work {
        match state {
            GitState::Known(work) => work,
            GitState::NotARepository | GitState::Unavailable(_) => panic!("{state:?}"),
        }
    }

    #[test]
    fn each_kind_of_change_is_named() {
        type Change = fn(&Repository);
        let changes: [(&str, Change, &[&str]); 8] = [
            ("clean", |_| (), &[]),
            ("unstaged", |r| r.write("edited", "2\n"), &["edited"]),
            (
                "staged",
                |r| {
                    r.write("edited", "2\n");
                    r.git(&["add", "edited"]);
                },
                &["edited"],
            ),
            (
                "staged and undone",
                |r| {
                    r.write("edited", "2\n");
                    r.git(&["add", "edited"]);
                    r.write("edited", "first\n");
                },
                &["edited"],
            ),
            ("untracked", |r| r.write("new/a", "a"), &["new/a"]),
            ("other untracked", |r| r.write("new/a", "b"), &["new/a"]),
            ("renamed", |r| r.git(&["mv", "kept", "moved"]), &["kept", "moved"]),
            ("untracked link", |r| symlink("kept", r.path().join("link")).unwrap(), &["link"]),
        ];
        let repository = Repository::with_commit();
        for (name, change, changed) in changes {
            repository.git(&["reset", "--quiet", "--hard"]);
            repository.git(&["clean", "--quiet", "-d", "--force"]);
            change(&repository);
            let work = repository.work();
            assert_eq!(work.changed, changed, "{name}");
            assert_eq!(work.changed_count, changed.len(), "{name}");
            assert_eq!(work, repository.work(), "{name}");
            let every = changed_paths(repository.path(), &generous()).unwrap();
            assert_eq!(every, changed, "{name}");
        }
    }

    #[test]
    fn an_excluded_directory_does_not_count() {
        let repository = Repository::with_commit();
        let clean = repository.work();
        repository.write(".ralph/state", "x");
        repository.write(".ralphs", "y");
        let link = tempfile::tempdir().unwrap();
        let linked = link.path().join("project");
        symlink(repository.path(), &linked).unwrap();
        for project in [repository.path(), &linked] {
            let work = known(status(project, &[project.join(".ralph")], &generous()));
            assert_eq!(work.changed, [".ralphs"]);
            let both = [project.join(".ralph"), project.join(".ralphs")];
            assert_eq!(known(status(project, &both, &generous())), clean);
        }
    }

    /// Commits that existed before are not counted, even if they were made in the same second.
    #[test]
    fn commits_are_counted_from_the_given_one() {
        let repository = Repository::with_commit();
        let at = head(repository.path(), &generous()).unwrap();
        let since = |since| commits_since(repository.path(), since, &generous()).len();
        assert_eq!(since(Since::Commit(&at)), 0);
        repository.write("edited", "second\n");
        repository.commit();
        assert_eq!(since(Since::Commit(&at)), 1);
        assert_eq!(since(Since::Commit("--output=stolen")), 0);
        assert_eq!(since(Since::Ms(0)), 2);
        assert_eq!(since(Since::Ms(ralph_sys::clock::now_ms() + 1000)), 0);
        assert!(!fs::exists(&repository.path().join("stolen")));
    }

    #[test]
    fn a_repository_without_a_commit_has_no_head() {
        let repository = Repository::empty();
        assert_eq!(repository.work().head, None);
        repository.write("file", "x");
        assert_eq!(repository.work().changed, ["file"]);
        repository.git(&["add", "file"]);
        assert_eq!(repository.work().changed, ["file"]);
    }

    #[test]
    fn a_subdirectory_reports_the_whole_repository() {
        let repository = Repository::with_commit();
        repository.write("deep/down/file", "x");
        let below = repository.path().join("deep/down");
        let work = known(status(&below, &[], &generous()));
        assert_eq!(work.changed, ["deep/down/file"]);
        assert_eq!(work, repository.work());
    }

    #[test]
    fn all_changes_are_counted_and_the_first_are_named() {
        let repository = Repository::empty();
        for number in 0..30 {
            repository.write(format!("{number:02}"), "x");
        }
        let work = repository.work();
        assert_eq!((work.changed.len(), work.changed_count), (20, 30));
    }

    #[test]
    fn unusual_names_are_parsed_completely() {
        let repository = Repository::with_commit();
        for (bytes, shown) in [
            (&b"with space"[..], "with space"),
            (b"with\nline", "with\nline"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            (b"\"quoted\"", "\"quoted\""),
            (b"-rf", "-rf"),
        ] {
            let name = Path::new(OsStr::from_bytes(bytes));
            repository.write(name, "one");
            assert_eq!(repository.work().changed, [shown]);
            fs::remove_file(&repository.path().join(name)).unwrap();
        }
    }

    #[test]
    fn a_broken_repository_differs_from_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(status(dir.path(), &[], &generous()), GitState::NotARepository);
        fs::create_dir(&dir.path().join(".git")).unwrap();
        assert_eq!(status(dir.path(), &[], &generous()), GitState::NotARepository);
        fs::append(&dir.path().join(".git/HEAD"), b"nonsense", Durability::Cached).unwrap();
        assert_eq!(
            status(dir.path(), &[], &generous()),
            GitState::Unavailable("`git status` exited with 128".to_owned())
        );
        let missing = dir.path().join("missing");
        assert_eq!(
            status(&missing, &[], &generous()),
            GitState::Unavailable(format!("cannot find `{}`", missing.display()))
        );
    }

    #[test]
    fn a_timeout_is_unavailable_and_not_clean() {
        let repository = Repository::with_commit();
        let over = Deadline::after(Duration::ZERO);
        assert_eq!(status(repository.path(), &[], &over), GitState::Unavailable(out_of_time()));
    }

    #[test]
    fn a_hostile_configuration_runs_nothing() {
        let repository = Repository::with_commit();
        repository.write("hooks/post-index-change", "#!/bin/sh\ntouch pwned\n");
        repository.git(&["add", "--all"]);
        repository.git(&["update-index", "--chmod=+x", "hooks/post-index-change"]);
        testing::succeed(repository.path(), &["chmod", "+x", "hooks/post-index-change"]);
        for (name, value) in [
            ("core.fsmonitor", "touch pwned; false"),
            ("core.hooksPath", "hooks"),
            ("core.pager", "touch pwned"),
            ("pager.status", "touch pwned"),
            ("diff.external", "touch pwned"),
            ("core.worktree", "/"),
        ] {
            testing::succeed(
                repository.path(),
                &["git", "config", "--file=.git/config", name, value],
            );
        }
        repository.write("edited", "2\n");
        let work = repository.work();
        assert_eq!(work.changed, ["edited", "hooks/post-index-change"]);
        assert!(!repository.path().join("pwned").exists());
    }

    #[test]
    #[ignore = "`git_variables_in_the_environment_are_ignored` runs it in a separate process"]
    fn victim_queries_status() {
        let Some(project) = env::testing::variable("TEST_PROJECT") else {
            return;
        };
        let work = known(status(Path::new(&project), &[], &generous()));
        assert_eq!(work.changed, ["mine"]);
    }

    #[test]
    fn git_variables_in_the_environment_are_ignored() {
        let mine = Repository::with_commit();
        mine.write("mine", "x");
        let other = Repository::with_commit();
        let other_git = other.path().join(".git");
        let ended = testing::rerun(
            "git::tests::victim_queries_status",
            &[
                ("TEST_PROJECT".as_ref(), mine.path().as_os_str()),
                ("GIT_DIR".as_ref(), other_git.as_os_str()),
                ("GIT_WORK_TREE".as_ref(), other.path().as_os_str()),
                ("GIT_INDEX_FILE".as_ref(), "/nowhere".as_ref()),
                ("GIT_CONFIG_COUNT".as_ref(), "broken".as_ref()),
            ],
        );
        assert_eq!(testing::exit_code(&ended), 0);
    }

    #[test]
    fn records_end_in_their_path() {
        for (record, expected) in [
            (&b"? a b"[..], Some(&b"a b"[..])),
            (b"1 .M N... 100644 100644 100644 aaaa bbbb a b", Some(b"a b")),
            (b"u UU N... 1 2 3 4 a b c d e", Some(b"d e")),
            (b"1 .M N... 100644", None),
            (b"? ", None),
            (b"x", None),
        ] {
            assert_eq!(path_of(record), expected, "{}", record.escape_ascii());
        }
    }
}
