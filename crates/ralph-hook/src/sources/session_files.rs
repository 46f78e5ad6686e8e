//! Requirements from the files in `state/<session>`, which any tool may write.

use super::required_correctness;
use ralph_core::id::SessionId;
use ralph_core::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStage, RequirementStatus,
    RequirementWeight,
};
use ralph_core::source::{SourceError, loop_file, orchestrator, quality_gate, state_tasks};
use ralph_git::git::GitState;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::world::World;
use ralph_sys::fs;
use std::ffi::OsString;
use std::path::Path;

const MAX_STATE_FILE_BYTES: usize = 4 * 1024 * 1024;
const MAX_TASK_FILES: usize = 5_000;
const MAX_TASK_BYTES: u64 = 16 * 1024 * 1024;

/// The requirements found, and which files contributed.
#[derive(Debug, Default)]
pub(super) struct SessionFiles {
    pub requirements: Vec<Requirement>,
    pub orchestrator: FilePresence,
    pub r#loop: FilePresence,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum FilePresence {
    Yes,
    #[default]
    No,
}

impl SessionFiles {
    /// Whether uncommitted changes matter.
    pub(super) fn needs_git_status(&self) -> bool {
        self.orchestrator == FilePresence::Yes || self.r#loop == FilePresence::Yes
    }
}

/// Reads the files. `orchestrator.json` is skipped for a run that works in phases, because there it is ralph's own
/// view.
pub(super) fn read_session_files(
    world: &World,
    session: &SessionId,
    in_phases: bool,
) -> SessionFiles {
    let directory = world.home.session_state(session);
    let mut files = SessionFiles::default();
    if in_phases {
        files.orchestrator = FilePresence::Yes;
    }
    if !fs::exists(&directory) {
        return files;
    }
    let tell = |what: &str| {
        faults::record_fault(&world.home, &Fault::new(FaultKind::File, what).with_session(session));
    };
    if !in_phases
        && let Some(it) = read_or_report(
            &directory.join("orchestrator.json"),
            orchestrator::read_orchestrator,
            &tell,
        )
        && let Some(requirement) = it.requirement()
    {
        files.orchestrator = FilePresence::Yes;
        files.requirements.push(requirement);
    }
    if let Some(it) = read_or_report(&directory.join("loop.json"), loop_file::read_loop_file, &tell)
    {
        let requirement = it.requirement();
        files.r#loop = if requirement.is_some() { FilePresence::Yes } else { FilePresence::No };
        files.requirements.extend(requirement);
    }
    if let Some(it) =
        read_or_report(&directory.join("quality-gate.json"), quality_gate::read_quality_gate, &tell)
    {
        files.requirements.extend(it.requirement());
    }
    files.requirements.extend(task_requirement(world, &directory.join("tasks"), &tell));
    files
}

/// Reads one file. An unreadable file is recorded as a fault and never holds the agent.
fn read_or_report<T>(
    path: &Path,
    read: fn(&[u8]) -> Result<T, SourceError>,
    tell: &dyn Fn(&str),
) -> Option<T> {
    match fs::read_if_exists(path, MAX_STATE_FILE_BYTES) {
        Ok(bytes) => match read(&bytes?) {
            Ok(value) => Some(value),
            Err(garbled) => {
                tell(&format!("cannot read `{}`: {}", path.display(), garbled.why));
                None
            }
        },
        Err(error) => {
            tell(&ralph_home::faults::describe_error(&error));
            None
        }
    }
}

fn task_requirement(world: &World, directory: &Path, tell: &dyn Fn(&str)) -> Option<Requirement> {
    if !fs::exists(directory) {
        return None;
    }
    let names = match fs::list(directory, MAX_TASK_FILES) {
        Ok(names) => names,
        Err(error) => {
            tell(&ralph_home::faults::describe_error(&error));
            return None;
        }
    };
    let is_json = |name: &&OsString| Path::new(name).extension().is_some_and(|it| it == "json");
    let mut tasks = Vec::new();
    let mut room = MAX_TASK_BYTES;
    for path in names.iter().filter(is_json).map(|name| directory.join(name)) {
        let length = fs::stat(&path).map_or(0, |stat| stat.len);
        if length > room || world.answer_deadline.has_passed() {
            tell(&format!("`{}` is too large to read in time", directory.display()));
            break;
        }
        room -= length;
        tasks.extend(read_or_report(&path, state_tasks::read_task, tell));
    }
    state_tasks::tasks_requirement(&tasks)
}

pub(super) fn uncommitted_requirement(
    files: &SessionFiles,
    work: &GitState,
) -> Option<Requirement> {
    let weight = match (&files.orchestrator, &files.r#loop) {
        (FilePresence::Yes, _) => RequirementWeight::Required,
        (FilePresence::No, FilePresence::Yes) => RequirementWeight::Advisory,
        (FilePresence::No, FilePresence::No) => return None,
    };
    let standing = match work {
        GitState::NotARepository => return None,
        GitState::Unavailable(why) => RequirementStatus::Unknown(why.clone()),
        GitState::Known(work) if work.changed_count == 0 => {
            RequirementStatus::Met(EvidenceKind::Measured)
        }
        GitState::Known(work) => {
            let noun = if work.changed_count == 1 {
                "1 path is".to_string()
            } else {
                format!("{} paths are", work.changed_count)
            };
            let findings = work.changed.iter().map(|path| Finding::new(path.clone())).collect();
            RequirementStatus::Unmet(RequirementFailure {
                findings,
                ..RequirementFailure::new(format!("{noun} not committed"))
            })
        }
    };
    let next = "Commit the changes that belong to the work".to_string();
    Some(Requirement {
        weight,
        stage: RequirementStage::Quality,
        ..required_correctness("uncommitted changes".to_string(), standing, next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_that_git_cannot_read_is_not_clean() {
        let files = SessionFiles { orchestrator: FilePresence::Yes, ..SessionFiles::default() };
        let unavailable = GitState::Unavailable("`git status` timed out".to_string());
        let requirement = uncommitted_requirement(&files, &unavailable).unwrap();
        assert_eq!(
            requirement.status,
            RequirementStatus::Unknown("`git status` timed out".to_string())
        );
        assert_eq!(uncommitted_requirement(&files, &GitState::NotARepository), None);
    }
}
