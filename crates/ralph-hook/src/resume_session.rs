//! Resumes a run in another session, and records declarations that an agent makes before it stops.

use crate::adjustments::person_name;
use crate::control::{ControlError, change_phase, change_phase_by, effective_phase};
use crate::prompts::{self, CommandRequest};
use ralph_core::id::RunId;
use ralph_core::record::{Dispute, MoveReason, RunChange};
use ralph_core::run::RunPhase;
use ralph_home::host_env;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, StoreError};
use ralph_home::world::World;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use std::path::Path;

/// The only run of the project that is paused or orphaned. Fails if there is more than one, or none. If there is none
/// but a run cannot be read, returns that run's error, because it may be the one to resume.
pub fn find_resumable_run(home: &RalphHome, project: &Path) -> Result<RunId, ControlError> {
    let mut found = Vec::new();
    let mut unreadable = None;
    for run in store::list_runs(home)? {
        let opened = match store::load_run(home, &run) {
            Ok(opened) => opened,
            Err(error) => {
                unreadable.get_or_insert(error);
                continue;
            }
        };
        let waits =
            matches!(effective_phase(home, &opened), RunPhase::Paused { .. } | RunPhase::Orphaned);
        if waits && Path::new(&opened.run.project) == project {
            found.push(run);
        }
    }
    match found.as_slice() {
        [] => Err(unreadable.map_or(ControlError::NoResumableRun, ControlError::Store)),
        [one] => Ok(one.clone()),
        [_, _, ..] => {
            let names = found.iter().map(|run| format!("`{run}`")).collect();
            Err(ControlError::SeveralResumableRuns { names })
        }
    }
}

/// Resumes a run in the session where the person typed the command, and moves it there if another session owned it.
pub fn resume_in_session(
    world: &World,
    run: &RunId,
    spoken: &CommandRequest<'_>,
) -> Result<(), ControlError> {
    let (session, seen) = (spoken.session, prompts::transcript_length(spoken.prompt));
    let (home, deadline) = (&world.home, &world.step_deadline());
    let opened = store::load_run(home, run)?;
    let owner = opened.state.owner(&opened.run).cloned();
    let process = host_env::host_process(&world.env);
    let by = person_name(&world.env);
    if owner.as_ref() == Some(session) {
        return change_phase_by(home, run, Some(&by), deadline, |phase| match phase {
            RunPhase::Paused { .. } | RunPhase::Orphaned => Ok(RunChange::Moved {
                to: session.clone(),
                how: MoveReason::Resumed,
                process,
                seen,
            }),
            RunPhase::Active => {
                let (run, action) = (run.clone(), "resume");
                Err(ControlError::NothingToDo { run, phase: "active", action })
            }
            RunPhase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        });
    }
    let _lock = session_pointer::lock_session(home, session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = session_pointer::read_pointer(home, session)?
        && !pointer.ended
        && pointer.run != *run
    {
        return Err(ControlError::AlreadyHeld { session: session.clone(), run: pointer.run });
    }
    change_phase_by(home, run, Some(&by), deadline, |phase| match phase {
        RunPhase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        // The other session's client is still open.
        RunPhase::Active => Err(ControlError::OwnedElsewhere {
            run: run.clone(),
            session: owner.clone().unwrap_or_else(|| session.clone()),
        }),
        RunPhase::Paused { .. } | RunPhase::Orphaned => {
            Ok(RunChange::Moved { to: session.clone(), how: MoveReason::TakenUp, process, seen })
        }
    })?;
    fs::remove_file(&home.tombstone(session.as_str()))?;
    let pointer = SessionPointer::to_run(run);
    session_pointer::write_pointer(home, session, &pointer)?;
    if let Some(before) = owner {
        session_pointer::mark_run_ended(home, &before, run, deadline)?;
    }
    Ok(())
}

/// A statement of the agent about its own state, made before it stops.
#[derive(Clone, Debug)]
pub enum AgentDeclaration {
    Asks {
        question: String,
    },
    Waits {
        until_ms: u64,
        why: String,
    },
    /// The agent considers a requirement wrong.
    Disputes(Dispute),
}

pub fn record_declaration(
    home: &RalphHome,
    run: &RunId,
    declaration: AgentDeclaration,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    change_phase(home, run, deadline, |phase| match phase {
        RunPhase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => Ok(match declaration {
            AgentDeclaration::Asks { question } => RunChange::Asked { question },
            AgentDeclaration::Waits { until_ms, why } => RunChange::Waits { until_ms, why },
            AgentDeclaration::Disputes(dispute) => RunChange::Disputed(dispute),
        }),
    })
}
