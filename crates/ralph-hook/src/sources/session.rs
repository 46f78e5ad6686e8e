//! Requirements from the files in `state/<session>`, which any tool may write.

use super::requirement;
use ralph_core::id::SessionId;
use ralph_core::record::Asked;
use ralph_core::requirement::{
    Evidence as Proof, Failure, Finding, Requirement, Stage, Standing, Weight,
};
use ralph_core::source::{Garbled, loop_file, orchestrator, quality_gate, tasks};
use ralph_git::git::GitState;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::world::World;
use ralph_sys::fs;
use std::ffi::OsString;
use std::path::Path;

const LARGEST_FILE: usize = 4 * 1024 * 1024;
const MOST_TASKS: usize = 5_000;
const MOST_TASK_BYTES: u64 = 16 * 1024 * 1024;

/// The requirements found, and which files contributed.
#[derive(Debug, Default)]
pub(super) struct SessionFiles {
    pub requirements: Vec<Requirement>,
    pub orchestrator: Present,
    pub r#loop: Present,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Present {
    Yes,
    #[default]
    No,
}

impl SessionFiles {
    /// Whether uncommitted changes matter.
    pub(super) fn asks_git(&self) -> bool {
        self.orchestrator == Present::Yes || self.r#loop == Present::Yes
    }
}

/// Reads the files. `orchestrator.json` is skipped for a run that works in phases, because there it is ralph's own
/// view.
pub(super) fn session_files(world: &World, session: &SessionId, phases: Asked) -> SessionFiles {
    let directory = world.home.state(session);
    let mut files = SessionFiles::default();
    if phases == Asked::Yes {
        files.orchestrator = Present::Yes;
    }
    if !fs::exists(&directory) {
        return files;
    }
    let tell = |what: &str| {
        faults::record(&world.home, &Fault::new(Kind::File, what).of_session(session));
    };
    if phases == Asked::No
        && let Some(it) = adopted(&directory.join("orchestrator.json"), orchestrator::read, &tell)
        && let Some(requirement) = it.requirement()
    {
        files.orchestrator = Present::Yes;
        files.requirements.push(requirement);
    }
    if let Some(it) = adopted(&directory.join("loop.json"), loop_file::read, &tell) {
        let requirement = it.requirement();
        files.r#loop = if requirement.is_some() { Present::Yes } else { Present::No };
        files.requirements.extend(requirement);
    }
    if let Some(it) = adopted(&directory.join("quality-gate.json"), quality_gate::read, &tell) {
        files.requirements.extend(it.requirement());
    }
    files.requirements.extend(task_files(world, &directory.join("tasks"), &tell));
    files
}

/// Reads one file. An unreadable file is recorded as a fault and never holds the agent.
fn adopted<T>(
    path: &Path,
    read: fn(&[u8]) -> Result<T, Garbled>,
    tell: &dyn Fn(&str),
) -> Option<T> {
    match fs::read_opt(path, LARGEST_FILE) {
        Ok(bytes) => match read(&bytes?) {
            Ok(value) => Some(value),
            Err(garbled) => {
                tell(&format!("cannot read `{}`: {}", path.display(), garbled.why));
                None
            }
        },
        Err(error) => {
            tell(&ralph_home::faults::describe(&error));
            None
        }
    }
}

fn task_files(world: &World, directory: &Path, tell: &dyn Fn(&str)) -> Option<Requirement> {
    if !fs::exists(directory) {
        return None;
    }
    let names = match fs::list(directory, MOST_TASKS) {
        Ok(names) => names,
        Err(error) => {
            tell(&ralph_home::faults::describe(&error));
            return None;
        }
    };
    let is_json = |name: &&OsString| Path::new(name).extension().is_some_and(|it| it == "json");
    let mut tasks = Vec::new();
    let mut room = MOST_TASK_BYTES;
    for path in names.iter().filter(is_json).map(|name| directory.join(name)) {
        let length = fs::stat(&path).map_or(0, |stat| stat.len);
        if length > room || world.end.is_over() {
            tell(&format!("`{}` is too large to read in time", directory.display()));
            break;
        }
        room -= length;
        tasks.extend(adopted(&path, tasks::read, tell));
    }
    tasks::requirement(&tasks)
}

pub(super) fn uncommitted(files: &SessionFiles, work: &GitState) -> Option<Requirement> {
    let weight = match (&files.orchestrator, &files.r#loop) {
        (Present::Yes, _) => Weight::Required,
        (Present::No, Present::Yes) => Weight::Advisory,
        (Present::No, Present::No) => return None,
    };
    let standing = match work {
        GitState::NotARepository | GitState::Unavailable(_) => return None,
        GitState::Known(work) if work.changed_count == 0 => Standing::Met(Proof::Measured),
        GitState::Known(work) => {
            let noun = if work.changed_count == 1 {
                "1 path is".to_string()
            } else {
                format!("{} paths are", work.changed_count)
            };
            let findings = work.changed.iter().map(|path| Finding::new(path.clone())).collect();
            Standing::Unmet(Failure { findings, ..Failure::new(format!("{noun} not committed")) })
        }
    };
    let next = "Commit the changes that belong to the work".to_string();
    Some(Requirement {
        weight,
        stage: Stage::Quality,
        ..requirement("uncommitted changes".to_string(), standing, next)
    })
}
