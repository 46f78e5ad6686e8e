//! In which session a run goes on, and what its agent says about itself before it stops.

use crate::clock::Deadline;
use crate::control::{ControlError, change, phase};
use crate::fs;
use crate::holder::{self, Ended, Pointer};
use crate::owner;
use crate::paths::Home;
use crate::prompts::{self, Spoken};
use crate::store::{self, StoreError};
use crate::world::World;
use ralph_core::id::RunId;
use ralph_core::record::{Change, Dispute, Move, VERSION};
use ralph_core::run::Phase;
use std::path::Path;

/// The one run of a project that nobody is held by and that has not ended.
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

/// A person goes on with a run in this session, wherever it was before.
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
    let _lock = holder::lock(home, session, deadline).map_err(StoreError::from)?;
    if let Some(pointer) = holder::pointer(home, session)?
        && pointer.ended == Ended::No
        && pointer.run != *run
    {
        return Err(ControlError::AlreadyHeld { session: session.clone(), run: pointer.run });
    }
    change(home, run, deadline, |phase| match phase {
        Phase::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        // Held there, by a client that is still open.
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
    holder::point(home, session, &pointer)?;
    if let Some(before) = owner {
        holder::end(home, &before, run, deadline)?;
    }
    Ok(())
}

/// What an agent says about itself before it stops.
#[derive(Clone, Debug)]
pub enum Declaration {
    Asks {
        question: String,
    },
    Waits {
        until_ms: u64,
        why: String,
    },
    /// A requirement is wrong.
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
