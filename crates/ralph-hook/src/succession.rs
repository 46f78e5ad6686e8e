//! Resumes a run in another session, and records declarations that an agent makes before it stops.

use crate::control::{ControlError, change, phase};
use crate::prompts::{self, Spoken};
use ralph_core::id::RunId;
use ralph_core::record::{Change, Dispute, Move, VERSION};
use ralph_core::run::Phase;
use ralph_home::paths::Home;
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::store::{self, StoreError};
use ralph_home::world::World;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use ralph_sys::owner;
use std::path::Path;

/// The only run of the project that is paused or orphaned. An error if there is none, or more than one.
pub fn waiting(home: &Home, project: &Path) -> Result<RunId, ControlError> {
    let mut found = Vec::new();
    for run in store::list(home)? {
        let Ok(opened) = store::load(home, &run) else { continue };
        let waits = matches!(phase(home, &opened), Phase::Paused { .. } | Phase::Orphaned);
        if waits && Path::new(&opened.run.project) == project {
            found.push(run);
        }
    }
    match found.as_slice() {
        [] => Err(ControlError::NoneWaits),
        [one] => Ok(one.clone()),
        [_, _, ..] => {
            let names = found.iter().map(|run| format!("`{run}`")).collect();
            Err(ControlError::ManyWait { names })
        }
    }
}

/// Resumes a run in the session where the person typed the command, and moves it there if another session owned it.
pub fn take_up(world: &World, run: &RunId, spoken: &Spoken<'_>) -> Result<(), ControlError> {
    let (session, seen) = (spoken.session, prompts::transcript_length(spoken.prompt));
    let (home, deadline) = (&world.home, &world.deadline());
    let opened = store::load(home, run)?;
    let owner = opened.state.owner(&opened.run).cloned();
    let process = world.env.claude_pid().and_then(owner::mark);
    if owner.as_ref() == Some(session) {
        return change(home, run, deadline, |phase| match phase {
            Phase::Paused { .. } | Phase::Orphaned => {
                Ok(Change::Moved { to: session.clone(), how: Move::Resumed, process, seen })
            }
            Phase::Active => {
                let (run, action) = (run.clone(), "resume");
                Err(ControlError::NothingToDo { run, phase: "active", action })
            }
            Phase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        });
    }
    let _lock = session_pointer::lock(home, session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = session_pointer::pointer(home, session)?
        && pointer.ended == Ended::No
        && pointer.run != *run
    {
        return Err(ControlError::AlreadyHeld { session: session.clone(), run: pointer.run });
    }
    change(home, run, deadline, |phase| match phase {
        Phase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        // The other session's client is still open.
        Phase::Active => Err(ControlError::Elsewhere {
            run: run.clone(),
            session: owner.clone().unwrap_or_else(|| session.clone()),
        }),
        Phase::Paused { .. } | Phase::Orphaned => {
            Ok(Change::Moved { to: session.clone(), how: Move::TakenUp, process, seen })
        }
    })?;
    fs::remove_file(&home.tombstone(session.as_str()))?;
    let pointer = Pointer { v: VERSION, run: run.clone(), ended: Ended::No };
    session_pointer::point(home, session, &pointer)?;
    if let Some(before) = owner {
        session_pointer::end(home, &before, run, deadline)?;
    }
    Ok(())
}

/// A statement of the agent about its own state, made before it stops.
#[derive(Clone, Debug)]
pub enum Declaration {
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

pub fn declare(
    home: &Home,
    run: &RunId,
    declaration: Declaration,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    change(home, run, deadline, |phase| match phase {
        Phase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned => Ok(match declaration {
            Declaration::Asks { question } => Change::Asked { question },
            Declaration::Waits { until_ms, why } => Change::Waits { until_ms, why },
            Declaration::Disputes(dispute) => Change::Disputed(dispute),
        }),
    })
}
