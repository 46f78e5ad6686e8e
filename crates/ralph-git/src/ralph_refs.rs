//! The refs below `refs/ralph/` in a project's repository: which runs they belong to, and how they are deleted.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::checkpoint::STORE_FILE;
use crate::git;
use crate::hardened_git::{GitCommandError, GitOutput, HardenedGit};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use ralph_sys::proc::ProgramLimits;

const PREFIX: &str = "refs/ralph/";
const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024;
const MAX_PATH_BYTES: usize = 64 * 1024;

/// The refs of each run in a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RalphRefs {
    /// By the name of the run; the full name of each ref with its object.
    by_run: BTreeMap<String, Vec<(String, String)>>,
}

impl RalphRefs {
    /// Without a repository there are none.
    pub fn read(project: &Path, deadline: &Deadline) -> Result<Self, GitCommandError> {
        let Some(root) = repository_root(project) else { return Ok(Self::default()) };
        let arguments = ["for-each-ref", "--format=%(refname) %(objectname)", PREFIX];
        let output = run_git(&root, &arguments, None, deadline)?;
        let mut by_run: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some((name, object)) = line.split_once(' ')
                && let Some((run, _)) = name.strip_prefix(PREFIX).and_then(|it| it.split_once('/'))
            {
                by_run.entry(run.to_string()).or_default().push((name.into(), object.into()));
            }
        }
        Ok(Self { by_run })
    }

    /// The runs, and how many refs each has.
    pub fn runs(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_run.iter().map(|(run, refs)| (run.as_str(), refs.len()))
    }

    pub fn count(&self) -> usize {
        self.by_run.values().map(Vec::len).sum()
    }

    /// Deletes the refs of a run, unless they have changed since they were read. Their objects are left to git's garbage
    /// collection.
    pub fn delete(
        &self,
        project: &Path,
        run: &str,
        deadline: &Deadline,
    ) -> Result<usize, GitCommandError> {
        let (Some(root), Some(refs)) = (repository_root(project), self.by_run.get(run)) else {
            return Ok(0);
        };
        let mut input = Vec::new();
        for (name, object) in refs {
            input.extend(format!("delete {name}\0{object}\0").into_bytes());
        }
        let arguments = ["update-ref", "--no-deref", "-z", "--stdin"];
        run_git(&root, &arguments, Some(&input), deadline)?;
        Ok(refs.len())
    }
}

/// The work tree whose repository has the refs that belong to a shadow; `None` if the shadow has them itself, or if the
/// repository is gone.
pub fn recorded_project(shadow: &Path) -> Option<PathBuf> {
    let objects = fs::read_if_exists(&shadow.join(STORE_FILE), MAX_PATH_BYTES).ok()??;
    let objects = Path::new(std::ffi::OsStr::from_bytes(&objects));
    let git_dir = objects.parent().filter(|it| it.file_name() == Some(".git".as_ref()))?;
    git_dir.parent().filter(|root| fs::is_directory(root)).map(Path::to_path_buf)
}

fn repository_root(project: &Path) -> Option<PathBuf> {
    let project = fs::resolve(project)?;
    git::work_tree_root(&project).map(Path::to_path_buf)
}

fn run_git(
    root: &Path,
    arguments: &[&str],
    input: Option<&[u8]>,
    deadline: &Deadline,
) -> Result<GitOutput, GitCommandError> {
    let git = HardenedGit::new(root).confine_to(root).without_replacements().offline();
    let limits = ProgramLimits { deadline: *deadline, max_output_bytes: MAX_OUTPUT_BYTES };
    let what = arguments.first().copied().unwrap_or_default();
    let output = git.run(arguments, input, &limits)?;
    match output {
        GitOutput { truncated: true, .. } => Err(GitCommandError::too_much_output(what)),
        GitOutput { code: 0, .. } => Ok(output),
        GitOutput { code, .. } => Err(GitCommandError::Failed {
            what: what.to_string(),
            why: format!("exited with {code} in `{}`", root.display()),
        }),
    }
}
