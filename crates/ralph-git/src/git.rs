//! Read-only queries to git about a project. No program that the repository's configuration names is run. Commands that
//! write are in `worktree` and `checkpoint`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind};
use ralph_sys::proc::ProgramLimits;

use crate::hardened_git::{GitCommandError, GitOutput, HardenedGit};
use crate::hardened_git::{MAX_OUTPUT_BYTES, QUIET_OPTIONS};
use crate::repository_filters::{LIST_FILTERS_ARGS, NO_MATCH_EXIT_CODE, disabling_settings};
use crate::tree;

const MAX_NAMED_CHANGES: usize = 20;
const MAX_COMMITS: usize = 200;
const MAX_SUBJECT_CHARS: usize = 160;
/// The arguments of `git status`. A repository's configuration must not make ralph run a program; `git status` could
/// run one in these ways:
///
/// - `core.fsmonitor` and hooks are switched off for every command.
/// - Fetching missing objects of a partial clone is forbidden in [`run_query`].
/// - Git starts another git in each submodule, which would follow the submodule's configuration:
///   `--ignore-submodules=dirty` compares the submodule's commit only.
/// - Pagers, external diffs, text conversions, signature programs and aliases are not used by `git status`.
///
/// - Git runs `filter.<name>.clean` and `filter.<name>.process` on files whose attributes name them if size and time do
///   not show whether the file changed. Those of the repository's own configuration are switched off one by one, so a
///   file that only they would convert may look changed.
const STATUS_ARGUMENTS: [&str; 8] = [
    "status",
    "--porcelain=v2",
    "--branch",
    "-z",
    "--untracked-files=all",
    "--ignore-submodules=dirty",
    "--no-renames",
    "--no-ahead-behind",
];
const STATUS_SETTINGS: [&str; 2] = ["status.relativePaths=false", "status.showStash=false"];

/// Everything after `git` in the command that [`repository_status`] runs, but for the directories.
pub fn status_arguments() -> impl Iterator<Item = &'static str> {
    let settings = STATUS_SETTINGS.into_iter().flat_map(|setting| ["-c", setting]);
    QUIET_OPTIONS.into_iter().chain(["--no-optional-locks"]).chain(settings).chain(STATUS_ARGUMENTS)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitState {
    Known(RepositoryStatus),
    NotARepository,
    /// Why git could not report the state.
    Unavailable(String),
}

/// The state of a whole repository. Submodules and nested repositories count by their commit or their presence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryStatus {
    /// The commit that is checked out; `None` before the first commit.
    pub head: Option<String>,
    /// The first paths that differ from the commit, relative to the repository.
    pub changed: Vec<String>,
    pub changed_count: usize,
}

/// Reports the state of the repository that contains `project`, without the files below the absolute directories in
/// `exclude`.
pub fn repository_status(project: &Path, exclude: &[PathBuf], deadline: &Deadline) -> GitState {
    let Some(project) = fs::resolve(project) else {
        return GitState::Unavailable(format!("cannot find `{}`", project.display()));
    };
    let Some(root) = work_tree_root(&project) else { return GitState::NotARepository };
    match run_status(root, deadline)
        .and_then(|output| parse_status(root, &output, &resolve_excluded(exclude)))
    {
        Ok(work) => GitState::Known(work),
        Err(why) => GitState::Unavailable(why),
    }
}

/// The root of the work tree that contains `directory`.
pub fn work_tree_root(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|ancestor| is_repository(ancestor))
}

/// The path of a directory in its work tree: empty at the root, and outside of one.
pub fn path_in_work_tree(directory: &Path) -> &Path {
    let root = work_tree_root(directory);
    root.and_then(|root| directory.strip_prefix(root).ok()).unwrap_or(Path::new(""))
}

/// Every path that differs from the commit, relative to the repository.
pub fn changed_paths(project: &Path, deadline: &Deadline) -> Result<Vec<String>, String> {
    let project =
        fs::resolve(project).ok_or_else(|| format!("cannot find `{}`", project.display()))?;
    let root = work_tree_root(&project).ok_or("not a git repository")?;
    let output = run_status(root, deadline)?;
    split_records(&output)
        .filter(|record| !record.starts_with(b"#"))
        .map(|record| {
            record_path(record).map(to_lossy_string).ok_or_else(|| unexpected_record(record))
        })
        .collect()
}

/// Whether git ignores a path, which is relative to the repository; `None` if git cannot say. A tracked file is not
/// ignored.
pub fn is_ignored(
    root: &Path,
    path: &str,
    deadline: &Deadline,
) -> Result<Option<bool>, GitCommandError> {
    let question = ["check-ignore", "--quiet", "--", path];
    Ok(match run_query(root, &[], &question, deadline)?.code {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    })
}

/// Where [`commits_since`] starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitsSince<'a> {
    /// Commits that are not reachable from this one.
    Commit(&'a str),
    /// Commits made after this time, if the commit is not known. The whole second is left out: a commit made within it
    /// may be older.
    Ms(u64),
}

/// Commits on the current branch since then, oldest first, as `id subject`. A merge counts as one commit. Empty without
/// a repository, and if git does not know the commits.
pub fn commits_since(
    project: &Path,
    since: CommitsSince<'_>,
    deadline: &Deadline,
) -> Result<Vec<String>, GitCommandError> {
    let lines = read_log(project, since, "%h %s", deadline)?;
    let lines = lines.iter().map(|line| ralph_core::text::clean_line(line, MAX_SUBJECT_CHARS));
    Ok(lines.collect())
}

/// The whole messages of the commits that are not reachable from this one, oldest first. Foreign text.
pub fn commit_messages_since(
    project: &Path,
    commit: &str,
    deadline: &Deadline,
) -> Result<Vec<String>, GitCommandError> {
    let messages = read_log(project, CommitsSince::Commit(commit), "%B", deadline)?;
    let messages = messages.iter().map(|message| message.trim().to_owned());
    Ok(messages.filter(|message| !message.is_empty()).collect())
}

/// One text for each commit since then, oldest first.
fn read_log(
    project: &Path,
    since: CommitsSince<'_>,
    format: &str,
    deadline: &Deadline,
) -> Result<Vec<String>, GitCommandError> {
    let Some(project) = fs::resolve(project) else { return Ok(Vec::new()) };
    let Some(root) = work_tree_root(&project) else { return Ok(Vec::new()) };
    let (bound, range) = match since {
        CommitsSince::Commit(commit) if is_object_id(commit) => (None, format!("{commit}..HEAD")),
        CommitsSince::Commit(_) => return Ok(Vec::new()),
        CommitsSince::Ms(ms) => (Some(format!("--since=@{}", ms / 1000 + 1)), "HEAD".to_owned()),
    };
    let most = format!("--max-count={MAX_COMMITS}");
    let format = format!("--format={format}");
    let mut log = vec!["log", "-z", "--first-parent", "--no-show-signature", "--no-color"];
    log.extend([format.as_str(), &most]);
    log.extend(bound.as_deref());
    log.extend([range.as_str(), "--"]);
    let output = run_query(root, &[], &log, deadline)?;
    let text = if output.code == 0 { String::from_utf8_lossy(&output.stdout) } else { "".into() };
    let texts = text.split('\0').filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(texts.rev().collect())
}

/// The commit that is checked out. `None` before the first commit, or if git cannot answer.
pub fn head_commit(project: &Path, deadline: &Deadline) -> Option<String> {
    rev_parse(project, "HEAD^{commit}", deadline)
}

fn rev_parse(project: &Path, name: &str, deadline: &Deadline) -> Option<String> {
    let project = fs::resolve(project)?;
    let question = ["rev-parse", "--verify", "--quiet", name];
    let output = run_query(work_tree_root(&project)?, &[], &question, deadline).ok()?;
    let id = to_lossy_string(&output.stdout).trim().to_owned();
    is_object_id(&id).then_some(id)
}

/// The tree of the commit that is checked out.
pub fn head_tree(project: &Path, deadline: &Deadline) -> Option<String> {
    rev_parse(project, "HEAD^{tree}", deadline)
}

/// Whether `text` can only be an object id, and not an option or another name to git.
fn is_object_id(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `HEAD` is on a branch; `false` without a repository.
pub fn is_on_branch(project: &Path, deadline: &Deadline) -> Result<bool, GitCommandError> {
    let Some(project) = fs::resolve(project) else { return Ok(false) };
    let Some(root) = work_tree_root(&project) else { return Ok(false) };
    Ok(run_query(root, &[], &["symbolic-ref", "--quiet", "HEAD"], deadline)?.code == 0)
}

/// Whether the directory has a `.git` directory or, as linked work trees and submodules do, a `.git` file.
fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    match fs::stat(&git).map(|stat| stat.kind) {
        Some(FileKind::File) => true,
        Some(FileKind::Directory) => fs::stat_no_follow(&git.join("HEAD")).is_some(),
        Some(FileKind::Symlink | FileKind::Other) | None => false,
    }
}

fn resolve_excluded(exclude: &[PathBuf]) -> Vec<PathBuf> {
    let canonical = exclude.iter().filter_map(|path| fs::resolve(path));
    exclude.iter().cloned().chain(canonical).collect()
}

/// The settings that keep git from running filters of the repository.
fn filter_settings(root: &Path, deadline: &Deadline) -> Result<Vec<String>, String> {
    if !tree::may_configure_filters(root) {
        return Ok(Vec::new());
    }
    let output =
        run_query(root, &[], &LIST_FILTERS_ARGS, deadline).map_err(|error| error.to_string())?;
    let disabled = match output {
        GitOutput { code: 0, stdout, truncated: false } => disabling_settings(&stdout),
        GitOutput { code: NO_MATCH_EXIT_CODE, .. } => Some(Vec::new()),
        GitOutput { .. } => None,
    };
    disabled.ok_or_else(|| "the repository's filters cannot be switched off".to_owned())
}

fn run_status(root: &Path, deadline: &Deadline) -> Result<Vec<u8>, String> {
    let filters = filter_settings(root, deadline)?;
    let settings: Vec<&str> =
        STATUS_SETTINGS.into_iter().chain(filters.iter().map(String::as_str)).collect();
    match run_query(root, &settings, &STATUS_ARGUMENTS, deadline) {
        Ok(GitOutput { code: 0, truncated: true, .. }) => {
            Err("too many changes to list".to_owned())
        }
        Ok(GitOutput { code: 0, stdout, .. }) => Ok(stdout),
        Ok(GitOutput { code, .. }) => Err(format!("`git status` exited with {code}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs a command that only reads.
fn run_query(
    root: &Path,
    settings: &[&str],
    arguments: &[&str],
    deadline: &Deadline,
) -> Result<GitOutput, GitCommandError> {
    let limits = ProgramLimits { deadline: *deadline, max_output_bytes: MAX_OUTPUT_BYTES };
    read_only_git(root).settings(settings).run(arguments, None, &limits)
}

/// A command that only reads the repository at `root`.
pub(crate) fn read_only_git(root: &Path) -> HardenedGit<'_> {
    // The configuration may name another work tree.
    HardenedGit::new(root)
        .path_option("--work-tree=", root)
        .confine_to(root)
        .offline()
        .without_replacements()
}

fn parse_status(
    root: &Path,
    output: &[u8],
    excluded: &[PathBuf],
) -> Result<RepositoryStatus, String> {
    let mut work = RepositoryStatus { head: None, changed: Vec::new(), changed_count: 0 };
    for record in split_records(output) {
        if let Some(head) = record.strip_prefix(b"# branch.oid ") {
            work.head = (head != b"(initial)").then(|| to_lossy_string(head));
        } else if !record.starts_with(b"#") {
            let path = record_path(record).ok_or_else(|| unexpected_record(record))?;
            let absolute = root.join(OsStr::from_bytes(path));
            if excluded.iter().any(|directory| absolute.starts_with(directory)) {
                continue;
            }
            if work.changed.len() < MAX_NAMED_CHANGES {
                work.changed.push(to_lossy_string(path));
            }
            work.changed_count += 1;
        }
    }
    Ok(work)
}

fn split_records(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|&byte| byte == 0).filter(|record| !record.is_empty())
}

fn unexpected_record(record: &[u8]) -> String {
    format!("unexpected output of `git status`: `{}`", record.escape_ascii())
}

/// The path is the last field, and the only one that can contain spaces. The first byte determines how many fields
/// precede it.
fn record_path(record: &[u8]) -> Option<&[u8]> {
    let fields = match record.first()? {
        b'?' => 2,
        b'1' => 9,
        b'u' => 11,
        _ => return None,
    };
    record.splitn(fields, |&byte| byte == b' ').nth(fields - 1).filter(|path| !path.is_empty())
}

fn to_lossy_string(bytes: &[u8]) -> String {
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

    struct StatusRepository {
        dir: tempfile::TempDir,
    }

    impl StatusRepository {
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
            testing::run_successfully(self.path(), &argv);
        }

        fn commit(&self) {
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message=x"]);
        }

        fn write(&self, name: impl AsRef<Path>, text: &str) {
            let path = self.path().join(name);
            fs::create_private_dir(path.parent().unwrap()).unwrap();
            fs::replace(&path, text.as_bytes(), Durability::Cached).unwrap();
        }

        fn status(&self) -> RepositoryStatus {
            expect_known(repository_status(self.path(), &[], &test_deadline()))
        }
    }

    fn test_deadline() -> Deadline {
        Deadline::after(Duration::from_mins(1))
    }

    fn expect_known(state: GitState) -> RepositoryStatus {
        match state {
            GitState::Known(work) => work,
            GitState::NotARepository | GitState::Unavailable(_) => panic!("{state:?}"),
        }
    }

    #[test]
    fn each_kind_of_change_is_named() {
        type StatusRepositoryEdit = fn(&StatusRepository);
        let changes: [(&str, StatusRepositoryEdit, &[&str]); 8] = [
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
        let repository = StatusRepository::with_commit();
        for (name, change, changed) in changes {
            repository.git(&["reset", "--quiet", "--hard"]);
            repository.git(&["clean", "--quiet", "-d", "--force"]);
            change(&repository);
            let work = repository.status();
            assert_eq!(work.changed, changed, "{name}");
            assert_eq!(work.changed_count, changed.len(), "{name}");
            assert_eq!(work, repository.status(), "{name}");
            let every = changed_paths(repository.path(), &test_deadline()).unwrap();
            assert_eq!(every, changed, "{name}");
        }
    }

    /// A file that only a filter of the repository would convert looks changed, but the filter does not run.
    #[test]
    fn filters_of_the_repository_do_not_run() {
        let repository = StatusRepository::with_commit();
        let trace = repository.path().join(".git/was-run");
        let filter = format!("echo x >> {}; cat", trace.display());
        repository.git(&["config", "filter.foreign.clean", &filter]);
        repository.git(&["config", "filter.foreign.required", "true"]);
        repository.git(&["config", "filter.other.process", &filter]);
        repository.write(".gitattributes", "edited filter=foreign\nkept filter=other\n");
        // Of the same size, so that git has to read them.
        repository.write("edited", "other\n");
        repository.write("kept", "gone\n");
        assert_eq!(repository.status().changed, ["edited", "kept", ".gitattributes"]);
        assert!(!trace.exists());
        repository.git(&["config", "filter.a=b.clean", &filter]);
        let state = repository_status(repository.path(), &[], &test_deadline());
        let why = "the repository's filters cannot be switched off".to_owned();
        assert_eq!(state, GitState::Unavailable(why));
    }

    #[test]
    fn an_excluded_directory_does_not_count() {
        let repository = StatusRepository::with_commit();
        let clean = repository.status();
        repository.write(".ralph/state", "x");
        repository.write(".ralphs", "y");
        let link = tempfile::tempdir().unwrap();
        let linked = link.path().join("project");
        symlink(repository.path(), &linked).unwrap();
        for project in [repository.path(), &linked] {
            let work = expect_known(repository_status(
                project,
                &[project.join(".ralph")],
                &test_deadline(),
            ));
            assert_eq!(work.changed, [".ralphs"]);
            let both = [project.join(".ralph"), project.join(".ralphs")];
            assert_eq!(expect_known(repository_status(project, &both, &test_deadline())), clean);
        }
    }

    /// Commits that existed before are not counted, even if they were made in the same second.
    #[test]
    fn commits_are_counted_from_the_given_one() {
        let repository = StatusRepository::with_commit();
        let at = head_commit(repository.path(), &test_deadline()).unwrap();
        let since =
            |since| commits_since(repository.path(), since, &test_deadline()).unwrap().len();
        assert_eq!(since(CommitsSince::Commit(&at)), 0);
        repository.write("edited", "second\n");
        repository.commit();
        assert_eq!(since(CommitsSince::Commit(&at)), 1);
        let messages =
            |base: &str| commit_messages_since(repository.path(), base, &test_deadline()).unwrap();
        repository.git(&["commit", "--amend", "-qm", "subject\n\nbody, line 1\nline 2"]);
        repository.write("edited", "third\n");
        repository.commit();
        assert_eq!(messages(&at)[0], "subject\n\nbody, line 1\nline 2");
        assert_eq!(messages(&at).len(), 2);
        repository.git(&["reset", "-q", "--hard", "HEAD^"]);
        assert_eq!(messages("--output=stolen"), Vec::<String>::new());
        assert_eq!(since(CommitsSince::Commit("--output=stolen")), 0);
        assert_eq!(since(CommitsSince::Ms(0)), 2);
        assert_eq!(since(CommitsSince::Ms(ralph_sys::clock::now_ms() + 1000)), 0);
        assert!(!fs::exists(&repository.path().join("stolen")));
    }

    #[test]
    fn a_repository_without_a_commit_has_no_head() {
        let repository = StatusRepository::empty();
        assert_eq!(repository.status().head, None);
        repository.write("file", "x");
        assert_eq!(repository.status().changed, ["file"]);
        repository.git(&["add", "file"]);
        assert_eq!(repository.status().changed, ["file"]);
    }

    #[test]
    fn a_subdirectory_reports_the_whole_repository() {
        let repository = StatusRepository::with_commit();
        repository.write("deep/down/file", "x");
        let below = repository.path().join("deep/down");
        let work = expect_known(repository_status(&below, &[], &test_deadline()));
        assert_eq!(work.changed, ["deep/down/file"]);
        assert_eq!(work, repository.status());
    }

    #[test]
    fn all_changes_are_counted_and_the_first_are_named() {
        let repository = StatusRepository::empty();
        for number in 0..30 {
            repository.write(format!("{number:02}"), "x");
        }
        let work = repository.status();
        assert_eq!((work.changed.len(), work.changed_count), (20, 30));
    }

    #[test]
    fn unusual_names_are_parsed_completely() {
        let repository = StatusRepository::with_commit();
        for (bytes, shown) in [
            (&b"with space"[..], "with space"),
            (b"with\nline", "with\nline"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            (b"\"quoted\"", "\"quoted\""),
            (b"-rf", "-rf"),
        ] {
            let name = Path::new(OsStr::from_bytes(bytes));
            repository.write(name, "one");
            assert_eq!(repository.status().changed, [shown]);
            fs::remove_file(&repository.path().join(name)).unwrap();
        }
    }

    #[test]
    fn a_broken_repository_differs_from_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(repository_status(dir.path(), &[], &test_deadline()), GitState::NotARepository);
        fs::create_private_dir(&dir.path().join(".git")).unwrap();
        assert_eq!(repository_status(dir.path(), &[], &test_deadline()), GitState::NotARepository);
        fs::append(&dir.path().join(".git/HEAD"), b"nonsense", Durability::Cached).unwrap();
        assert_eq!(
            repository_status(dir.path(), &[], &test_deadline()),
            GitState::Unavailable("`git status` exited with 128".to_owned())
        );
        let missing = dir.path().join("missing");
        assert_eq!(
            repository_status(&missing, &[], &test_deadline()),
            GitState::Unavailable(format!("cannot find `{}`", missing.display()))
        );
    }

    #[test]
    fn a_timeout_is_unavailable_and_not_clean() {
        let repository = StatusRepository::with_commit();
        let over = Deadline::after(Duration::ZERO);
        assert_eq!(
            repository_status(repository.path(), &[], &over),
            GitState::Unavailable("`git status` timed out".to_owned())
        );
    }

    #[test]
    fn a_hostile_configuration_runs_nothing() {
        let repository = StatusRepository::with_commit();
        repository.write("hooks/post-index-change", "#!/bin/sh\ntouch pwned\n");
        repository.git(&["add", "--all"]);
        repository.git(&["update-index", "--chmod=+x", "hooks/post-index-change"]);
        testing::run_successfully(repository.path(), &["chmod", "+x", "hooks/post-index-change"]);
        for (name, value) in [
            ("core.fsmonitor", "touch pwned; false"),
            ("core.hooksPath", "hooks"),
            ("core.pager", "touch pwned"),
            ("pager.status", "touch pwned"),
            ("diff.external", "touch pwned"),
            ("core.worktree", "/"),
        ] {
            testing::run_successfully(
                repository.path(),
                &["git", "config", "--file=.git/config", name, value],
            );
        }
        repository.write("edited", "2\n");
        let work = repository.status();
        assert_eq!(work.changed, ["edited", "hooks/post-index-change"]);
        assert!(!repository.path().join("pwned").exists());
    }

    #[test]
    #[ignore = "`git_variables_in_the_environment_are_ignored` runs it in a separate process"]
    fn victim_queries_status() {
        let Some(project) = env::testing::variable("TEST_PROJECT") else {
            return;
        };
        let work = expect_known(repository_status(Path::new(&project), &[], &test_deadline()));
        assert_eq!(work.changed, ["mine"]);
    }

    #[test]
    fn git_variables_in_the_environment_are_ignored() {
        let mine = StatusRepository::with_commit();
        mine.write("mine", "x");
        let other = StatusRepository::with_commit();
        let other_git = other.path().join(".git");
        let ended = testing::rerun_test(
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
            assert_eq!(record_path(record), expected, "{}", record.escape_ascii());
        }
    }
}
