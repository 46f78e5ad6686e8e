//! Which run of a project a command without a name means.

use crate::overview::{self, RunView};
use crate::project_scope::ProjectScope;
use ralph_core::id::RunId;
use ralph_core::run::RunPhase;
use ralph_home::paths::RalphHome;
use ralph_sys::fs::FileError;

/// What a command wants to do with the run of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPurpose {
    /// Anything that is best done to a run in progress.
    Steer,
    Resume,
    Accept,
    /// Whatever happened last.
    Read,
}

/// The run of a project that a command without a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectRun {
    One(RunId),
    /// More than one could be meant.
    Several(Vec<RunId>),
    NoneHere,
}

/// The only run that suits the purpose, or else the latest run of the project.
pub fn choose_run(
    home: &RalphHome,
    scope: &ProjectScope,
    purpose: RunPurpose,
) -> Result<ProjectRun, FileError> {
    if purpose == RunPurpose::Read {
        let latest = overview::latest_run(home, Some(scope))?;
        return Ok(latest.map_or(ProjectRun::NoneHere, |opened| ProjectRun::One(opened.run.id)));
    }
    let (mut views, _) = overview::list_run_views(home)?;
    views.retain(|view| scope.contains_run(&view.opened.run));
    let suitable = |rank: u8| {
        let suits = |view: &&RunView| purpose_rank(purpose, view.phase) == rank;
        views.iter().filter(suits).map(|view| view.opened.run.id.clone()).collect::<Vec<_>>()
    };
    for found in [suitable(0), suitable(1)] {
        match found.as_slice() {
            [] => {}
            // Only the last of several ended runs is worth a decision.
            [one] => return Ok(ProjectRun::One(one.clone())),
            [latest, ..] if purpose == RunPurpose::Accept => {
                return Ok(ProjectRun::One(latest.clone()));
            }
            [_, _, ..] => return Ok(ProjectRun::Several(found)),
        }
    }
    let latest = views.into_iter().next();
    Ok(latest.map_or(ProjectRun::NoneHere, |view| ProjectRun::One(view.opened.run.id)))
}

/// How well a phase suits: 0 best, 1 if there is nothing better, 2 not at all.
fn purpose_rank(purpose: RunPurpose, phase: RunPhase) -> u8 {
    match (purpose, phase) {
        (RunPurpose::Steer, RunPhase::Active | RunPhase::Paused { .. })
        | (RunPurpose::Resume, RunPhase::Paused { .. } | RunPhase::Orphaned) => 0,
        (RunPurpose::Accept, RunPhase::Ended(status)) if status.is_acceptable() => 0,
        (RunPurpose::Steer, RunPhase::Orphaned) | (RunPurpose::Resume, RunPhase::Active) => 1,
        (RunPurpose::Accept | RunPurpose::Read, _)
        | (RunPurpose::Steer | RunPurpose::Resume, RunPhase::Ended(_)) => 2,
    }
}
