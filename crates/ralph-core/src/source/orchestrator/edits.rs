//! Finds what an agent edited in the view of its run. An edit of one of its own conditions is a claim; other edits are
//! ignored.

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
    /// Keys that were set although they are not the agent's.
    pub ignored: Vec<&'static str>,
}

/// What changed in the file since ralph wrote it. `last` is that version, or `None` if it is not known. Then only `true`
/// counts as an edit, because a `false` may be as old as the file.
pub fn edits(
    now: &Orchestrator,
    last: Option<&Orchestrator>,
    (progress, approver): (&Way, Approver),
) -> Edits {
    let mut edits = Edits::default();
    let phase = now.phase.as_deref().map(|phase| text::line(phase, LONGEST_PHASE));
    let before = last.and_then(|last| last.phase.as_deref());
    let before = before.map(|phase| text::line(phase, LONGEST_PHASE));
    if let Some(phase) = phase.filter(|phase| !phase.is_empty() && before.as_ref() != Some(phase))
        && progress.phase.as_ref() != Some(&phase)
    {
        edits.steps.push(Step::Phase(phase));
    }
    classified(&mut edits, now, last, progress);
    for condition in Condition::ALL {
        let (then, says) = (last.map(|last| last.says(condition)), now.says(condition));
        let is_edited = match (then, says) {
            (_, Tri::Unknown) | (None, Tri::No) => false,
            (then, says) => then != Some(says),
        };
        if !is_edited {
            continue;
        }
        let claims = progress.claims.contains(&condition);
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

/// The agent may raise the complexity but not lower it, because a low complexity disables the adversarial gates.
fn classified(edits: &mut Edits, now: &Orchestrator, last: Option<&Orchestrator>, progress: &Way) {
    let Some(complexity) = now.complexity else { return };
    if last.and_then(|last| last.complexity) == Some(complexity) {
        return;
    }
    match progress.complexity {
        Some(known) if complexity < known => edits.ignored.push("complexity"),
        Some(known) if complexity == known => {}
        Some(_) | None => edits.steps.push(Step::Classified(complexity)),
    }
}

/// Reports ignored edits, so that the agent does not wait for them to take effect.
pub fn ignored(keys: &[&'static str]) -> Option<Requirement> {
    if keys.is_empty() {
        return None;
    }
    let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    let summary = format!(
        "edits of {} were ignored: a person approves the plan, and ralph measures the rest itself",
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
