//! Beads: `bd`, or the file that it exports, `.beads/issues.jsonl`.
//!
//! The file has one issue per line. `bd` is preferred, because its database may be newer than the file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_core::text;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, FileKind};
use serde::Deserialize;
use serde_json::Value;

use super::issue_feed::{TrackerCall, find_program, unexpected_output};
use super::{IssueError, IssueTracker, TrackerIssue};

const PROGRAM: &str = "bd";
pub(super) const DIRECTORY: &str = ".beads";
const ISSUES_FILE: &str = ".beads/issues.jsonl";
/// As much as `ralph import` reads of a file. Parsed issues take many times the memory.
const MAX_FILE_BYTES: usize = 8 * 1024 * 1024;
const HOOKS_DIRECTORY: &str = "hooks";
/// Names another directory that `bd` uses instead.
const REDIRECT_FILE: &str = "redirect";
const MAX_HOOKS: usize = 1_000;
/// `bd` installs these into its directory for git. It runs none of them itself.
const GIT_HOOKS: [&str; 5] =
    ["post-checkout", "post-merge", "pre-commit", "pre-push", "prepare-commit-msg"];
/// What `bd` counts as a reason to wait for another issue.
const BLOCKING: &str = "blocks";

/// An issue as `bd --json` prints it and as the file contains it.
#[derive(Clone, Debug, Deserialize)]
struct BeadsIssue {
    id: String,
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    design: String,
    #[serde(default)]
    acceptance_criteria: String,
    #[serde(default)]
    notes: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    priority: i64,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    labels: Vec<String>,
    /// `bd show` prints the other issues here, the file the links to them.
    #[serde(default)]
    dependencies: Vec<BeadsDependency>,
    /// Not an item of work.
    #[serde(default)]
    ephemeral: bool,
    #[serde(default)]
    pinned: bool,
    #[serde(default)]
    is_template: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct BeadsDependency {
    depends_on_id: String,
    #[serde(rename = "type")]
    kind: String,
}

impl BeadsIssue {
    fn into_issue(self, project: &Path) -> Result<TrackerIssue, IssueError> {
        let mut body = self.description;
        for (title, section) in [
            ("Design", self.design),
            ("Acceptance criteria", self.acceptance_criteria),
            ("Notes", self.notes),
        ] {
            if !section.trim().is_empty() {
                body.push_str(&format!("\n\n## {title}\n\n{section}"));
            }
        }
        let issue = TrackerIssue {
            id: self.id,
            title: self.title,
            body,
            labels: self.labels,
            url: None,
            is_closed: self.status == "closed",
            tracker: Some(IssueTracker::Beads { project: project.to_owned() }),
        };
        issue.checked()
    }
}

pub(super) fn read_issue(
    id: &str,
    project: &Path,
    env: &Env,
    deadline: &Deadline,
) -> Result<TrackerIssue, IssueError> {
    let found = match find_program(PROGRAM, project, env) {
        Some(program) => ask_bd(&program, &["show", id, "--json"], project, deadline)?,
        None => read_file(project)?,
    };
    let found = found.into_iter().find(|issue| issue.id == id);
    let missing = || IssueError::Missing(text::clean_line(id, 80), "Beads".to_owned());
    found.ok_or_else(missing)?.into_issue(project)
}

/// The issues that can be worked on now.
pub(super) fn ready_issues(
    project: &Path,
    env: &Env,
    deadline: &Deadline,
) -> Result<Vec<TrackerIssue>, IssueError> {
    let ready = match find_program(PROGRAM, project, env) {
        Some(program) => ask_bd(&program, &["ready", "--json"], project, deadline)?,
        None => ready_of_file(read_file(project)?),
    };
    ready.into_iter().map(|issue| issue.into_issue(project)).collect()
}

pub(super) fn add_comment(
    id: &str,
    comment: &Path,
    project: &Path,
    env: &Env,
    deadline: &Deadline,
) -> Result<(), IssueError> {
    let program = find_program(PROGRAM, project, env).ok_or(IssueError::NoBeadsProgram)?;
    refuse_hooks(project)?;
    let mut arguments = ["comments", "add", id, "--file"].map(OsString::from).to_vec();
    arguments.push(comment.as_os_str().to_owned());
    let call = TrackerCall { program: &program, arguments: &arguments, project, env: &[] };
    call.run("add the comment", deadline).map(drop)
}

/// `bd` runs the executable files of its hooks directory when an issue changes. The repository or the agent may have
/// written them, and no person approved them.
fn refuse_hooks(project: &Path) -> Result<(), IssueError> {
    // `bd` searches the directories above for its own.
    for directory in project.ancestors().map(|above| above.join(DIRECTORY)) {
        let redirect = directory.join(REDIRECT_FILE);
        if fs::stat_no_follow(&redirect).is_some() {
            return Err(IssueError::BeadsHooks(redirect));
        }
        let hooks = directory.join(HOOKS_DIRECTORY);
        for name in fs::list_if_exists(&hooks, MAX_HOOKS)? {
            let hook = hooks.join(&name);
            let is_executable = fs::stat(&hook)
                .is_some_and(|stat| stat.kind != FileKind::Directory && stat.mode & 0o111 != 0);
            if is_executable && !GIT_HOOKS.iter().any(|known| name == *known) {
                return Err(IssueError::BeadsHooks(hook));
            }
        }
    }
    Ok(())
}

fn ask_bd(
    program: &Path,
    words: &[&str],
    project: &Path,
    deadline: &Deadline,
) -> Result<Vec<BeadsIssue>, IssueError> {
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let call = TrackerCall { program, arguments: &arguments, project, env: &[] };
    let printed = call.run("read issues", deadline)?;
    let unexpected = |error| unexpected_output(PROGRAM, &error);
    // One issue is an array too, but was an object in early versions.
    let printed: Value = serde_json::from_slice(&printed).map_err(unexpected)?;
    let printed = if printed.is_object() { Value::Array(vec![printed]) } else { printed };
    serde_json::from_value(printed).map_err(unexpected)
}

fn read_file(project: &Path) -> Result<Vec<BeadsIssue>, IssueError> {
    let path = project.join(ISSUES_FILE);
    let missing = || IssueError::NoBeads(PathBuf::from(ISSUES_FILE));
    // A repository must not turn other files of the person into issues by a link.
    let real = fs::resolve(&path).ok_or_else(missing)?;
    if !fs::resolve(project).is_some_and(|project| real.starts_with(project)) {
        return Err(IssueError::OutsideProject(ISSUES_FILE));
    }
    let bytes = fs::read(&real, MAX_FILE_BYTES)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let parsed = lines.map(|line| {
        serde_json::from_slice(line).map_err(|error| unexpected_output(ISSUES_FILE, &error))
    });
    parsed.collect()
}

/// Open issues that wait for no other open issue, most urgent first, as `bd ready` lists them.
fn ready_of_file(issues: Vec<BeadsIssue>) -> Vec<BeadsIssue> {
    let status: BTreeMap<String, String> =
        issues.iter().map(|issue| (issue.id.clone(), issue.status.clone())).collect();
    // An issue that is not in the file was deleted.
    let is_open = |id: &String| status.get(id).is_some_and(|status| status != "closed");
    let mut ready: Vec<BeadsIssue> = issues
        .into_iter()
        .filter(|issue| {
            let mut blocking = issue.dependencies.iter().filter(|one| one.kind == BLOCKING);
            issue.status == "open"
                && !(issue.ephemeral || issue.pinned || issue.is_template)
                && !blocking.any(|one| is_open(&one.depends_on_id))
        })
        .collect();
    ready.sort_by(|one, other| {
        (one.priority, &one.created_at).cmp(&(other.priority, &other.created_at))
    });
    ready
}
