//! Whether a person approved the checks of a run's lists, and the scripts that they call.

use crate::run_lists::{SealedList, display_path, sealed_items};
use ralph_core::gate::shell_quote;
use ralph_core::record::{ListKind, RunRecord};
use ralph_core::source::work_list;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_policy::trust::{self, ApprovalSubject};
use ralph_sys::fs;
use std::path::Path;

/// The first script that checks of a run call and that no person approved in its current form.
pub fn first_unapproved_script(home: &RalphHome, run: &RunRecord) -> Option<String> {
    let paths = home.run(&run.id);
    let project = run.seal.as_ref().map_or(&run.project, |seal| &seal.project);
    run.lists.iter().enumerate().filter(|(_, seal)| !seal.approval.is_empty()).find_map(
        |(number, seal)| {
            let items = sealed_items(&paths, number, seal)?;
            let checks = work_list::check_gates(number, &items);
            let now = trust::checks_subject(Path::new(project), Path::new(&seal.path), &checks);
            // They could be hashed when they were approved, so they are different now.
            let Ok(now) = now else { return Some("the files that the checks call".to_string()) };
            if now.hash == seal.approval || trust::is_approved(home, &now) {
                return None;
            }
            match trust::hash_approval(home, project, &seal.approval) {
                Some(then) => now.changed_files(&then).into_iter().next(),
                None => Some("a file that a check calls".to_string()),
            }
        },
    )
}

/// Fails with the first list whose checks no person approved.
pub fn check_approvals(home: &RalphHome, run: &RunRecord) -> Result<(), UnapprovedList> {
    let project = run.seal.as_ref().map_or(&run.project, |seal| &seal.project);
    let missing = run.lists.iter().find(|list| {
        !list.approval.is_empty() && !trust::is_hash_approved(home, project, &list.approval)
    });
    match missing {
        None => Ok(()),
        Some(list) => {
            let path = Path::new(&list.path);
            let from_project = path.strip_prefix(&run.project).unwrap_or(path);
            Err(UnapprovedList {
                what: format!("running the checks of `{}`", display_path(run, path)),
                trust_command: trust_command(list.kind, from_project),
            })
        }
    }
}

/// What a person approves before a found loop holds a session. It covers the items without their ticks, which the agent
/// may set before its first stop.
pub fn adoption_subject(project: &Path, list: &SealedList) -> ApprovalSubject {
    let project = fs::resolve(project).unwrap_or_else(|| project.to_path_buf());
    trust::loop_subject(&project, Path::new(&list.seal.path), &list.seal.digest)
}

/// A list whose checks are not approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnapprovedList {
    /// The subject of a sentence such as "… is not approved".
    pub what: String,
    /// The command that shows and approves the checks.
    pub trust_command: String,
}

/// The command that shows and approves the checks of a list. `path` is relative to the directory where it is typed.
pub fn trust_command(kind: ListKind, path: &Path) -> String {
    let (option, path) = match kind {
        ListKind::Features => ("--features", path.parent().unwrap_or(path)),
        ListKind::Plan => ("--plan", path),
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let path = text::clean_line(&path.to_string_lossy(), 200).replace('`', "'");
    format!("ralph trust {option} {}", shell_quote(&path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_lists::{ListFile, seal_list};
    use ralph_core::limits::RunLimits;
    use ralph_sys::fs::Durability;
    use serde_json::json;
    use std::path::PathBuf;

    /// A project and a run with one approved check, `sh check.sh`.
    struct CheckedRun {
        directory: tempfile::TempDir,
        home: RalphHome,
        run: RunRecord,
    }

    impl CheckedRun {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let project = fs::resolve(directory.path()).unwrap().join("project");
            let home = RalphHome::new(directory.path().join("home"));
            fs::create_user_dir(&project).unwrap();
            let named = ListFile { path: project.join("list.json"), kind: ListKind::Features };
            fs::replace_user_file(&project.join("check.sh"), b"true\n").unwrap();
            let list =
                br#"[{"id": 1, "description": "a", "steps": [], "verify": ["sh", "check.sh"]}]"#;
            fs::replace_user_file(&named.path, list).unwrap();
            let sealed = seal_list(&project, &named).unwrap();
            let run = json!({
                "v": 1, "id": "k7f2", "started_ms": 0, "project": project, "origin": "started",
                "first_iteration": 0, "limits": RunLimits::DEFAULT, "features": [], "promise": null,
                "checklist": "no", "goal_bytes": 0, "title": "", "on_tampering": "block",
                "lists": [sealed.seal],
            });
            let run: RunRecord = serde_json::from_value(run).unwrap();
            let copy = home.run(&run.id).list(0);
            fs::create_private_dir(copy.parent().unwrap()).unwrap();
            fs::replace(&copy, &sealed.copy, Durability::Cached).unwrap();
            Self { directory, home, run }
        }

        fn script(&self) -> PathBuf {
            self.directory.path().join("project/check.sh")
        }

        fn unapproved(&self) -> Option<String> {
            first_unapproved_script(&self.home, &self.run)
        }
    }

    #[test]
    fn a_check_whose_files_cannot_be_hashed_is_not_approved() {
        let place = CheckedRun::new();
        assert_eq!(place.unapproved(), None);
        fs::replace_user_file(&place.script(), b"false\n").unwrap();
        assert_eq!(place.unapproved().as_deref(), Some("a file that a check calls"));
        // Larger than what is hashed; the file is sparse.
        let script = std::fs::OpenOptions::new().write(true).open(place.script()).unwrap();
        script.set_len(300 * 1024 * 1024).unwrap();
        assert_eq!(place.unapproved().as_deref(), Some("the files that the checks call"));
    }
}
