//! What an agent wrote into the view of its run. Of its own conditions that is a claim, of all others it is nothing.

use super::{Condition, Orchestrator, Owner, Tri};
use crate::policy::Approver;
use crate::record::Step;
use crate::requirement::{Failure, Requirement, Stage, Standing, Weight};
use crate::run::Way;
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LONGEST_PHASE: usize = 60;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    pub steps: Vec<Step>,
    /// What was set that is not the agent's to set, by key.
    pub ignored: Vec<&'static str>,
}

/// What changed in the file since ralph wrote it. `last` is `None` when that is not known: then only a yes is an edit,
/// because a no may be as old as the file.
pub fn edits(
    now: &Orchestrator,
    last: Option<&Orchestrator>,
    (way, approver): (&Way, Approver),
) -> Edits {
    let mut edits = Edits::default();
    let phase = now.phase.as_deref().map(|phase| text::line(phase, LONGEST_PHASE));
    let before = last.and_then(|last| last.phase.as_deref());
    let before = before.map(|phase| text::line(phase, LONGEST_PHASE));
    if let Some(phase) = phase.filter(|phase| !phase.is_empty() && before.as_ref() != Some(phase))
        && way.phase.as_ref() != Some(&phase)
    {
        edits.steps.push(Step::Phase(phase));
    }
    classified(&mut edits, now, last, way);
    for condition in Condition::ALL {
        let (then, says) = (last.map(|last| last.says(condition)), now.says(condition));
        let is_edited = match (then, says) {
            (_, Tri::Unknown) | (None, Tri::No) => false,
            (then, says) => then != Some(says),
        };
        if !is_edited {
            continue;
        }
        let claims = way.claims.contains(&condition);
        match (condition.owner(approver), says) {
            (Owner::Agent, Tri::Yes) if !claims => edits.steps.push(Step::Claims(condition)),
            (Owner::Agent, Tri::No) if claims => edits.steps.push(Step::Withdraws(condition)),
            (Owner::Agent, _) => {}
            (Owner::Person | Owner::Ralph, _) => edits.ignored.push(condition.key()),
        }
    }
    if now.verified_done && !last.is_some_and(|last| last.verified_done) {
        edits.ignored.push("verified_done");
    }
    edits
}

/// An agent that finds the work easier than it said could leave out what would try to break it.
fn classified(edits: &mut Edits, now: &Orchestrator, last: Option<&Orchestrator>, way: &Way) {
    let Some(complexity) = now.complexity else { return };
    if last.and_then(|last| last.complexity) == Some(complexity) {
        return;
    }
    match way.complexity {
        Some(known) if complexity < known => edits.ignored.push("complexity"),
        Some(known) if complexity == known => {}
        Some(_) | None => edits.steps.push(Step::Classified(complexity)),
    }
}

/// Told, so that nobody waits for it to count.
pub fn ignored(keys: &[&'static str]) -> Option<Requirement> {
    if keys.is_empty() {
        return None;
    }
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    let summary = format!(
        "what was written to {} changed nothing: a person approves the plan, and ralph measures the rest itself",
        keys.join(", ")
    );
    Some(Requirement {
        name: "`orchestrator.json`".into(),
        stage: Stage::Planning,
        standing: Standing::Unmet(Failure::new(summary)),
        weight: Weight::Advisory,
        next: String::new(),
    })
}
