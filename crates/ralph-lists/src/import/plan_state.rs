//! `plan-state.json`, a plan with steps and phases, and `.ralph-state.json`, the progress of a task list.

use super::tree::{self, Fields, Node};
use super::{Understood, work};

/// Keys that describe a run of the other tool.
const AT_WORK: [&str; 22] = [
    "activeAgent",
    "awaitingApproval",
    "completedAt",
    "createdAt",
    "currentPhase",
    "currentStep",
    "globalIteration",
    "iteration",
    "lastUpdated",
    "nativeSyncEnabled",
    "phase",
    "planId",
    "projectHash",
    "recoveryMode",
    "schema",
    "sessionId",
    "startedAt",
    "taskIndex",
    "taskIteration",
    "totalTasks",
    "updatedAt",
    "version",
];

pub(super) fn read(text: &str) -> Result<Understood, String> {
    let node = tree::json(text)?;
    if node.entries().is_empty() {
        return Err("it is not an object".to_string());
    }
    let mut understood = Understood::default();
    let mut fields = Fields::of(&node);
    let title = fields.text(&["planName", "task", "title", "name"]);
    understood.name = fields.text(&["specName"]).or(title).map(str::to_string);
    understood.goal.extend(title.map(str::to_string));
    understood.goal.extend(fields.text(&["description", "goal"]).map(str::to_string));
    if let Some(steps) = fields.take(&["steps", "tasks"]) {
        work::read_all(steps, None, &mut understood);
    }
    if let Some(phases) = fields.take(&["phases"]) {
        name_phases(phases, &mut understood);
        understood.keep("phases", tree::line_of(text, "phases"), &tree::shown(phases));
    }
    let keys = ["maxGlobalIterations", "maxIterations"];
    understood.limits.iterations = fields.number(&keys);
    if let Some(state) = fields.take(&["loopState"]) {
        let mut inner = Fields::of(state);
        let limit = inner.number(&keys);
        understood.limits.iterations = understood.limits.iterations.or(limit);
        understood.keep("loop_state", tree::line_of(text, "loop_state"), &tree::shown(state));
    }
    understood.ignore_state(&mut fields, &AT_WORK);
    understood.keep_rest(text, fields);
    Ok(understood)
}

/// Replaces the phase ids of steps with the names of the phases.
fn name_phases(phases: &Node, understood: &mut Understood) {
    for phase in phases.items() {
        let mut fields = Fields::of(phase);
        let id = fields.text(&["phaseId", "id"]);
        let name = fields.text(&["phaseName", "name", "title"]);
        let (Some(id), Some(name)) = (id, name) else { continue };
        for feature in &mut understood.features {
            if feature.category.as_deref() == Some(id) {
                feature.category = Some(name.to_string());
            }
        }
    }
}

impl Understood {
    pub(super) fn ignore(&mut self, key: &str, text: &str, why: &'static str) {
        self.ignored.push(super::Ignored { key: key.to_string(), text: text.to_string(), why });
    }

    /// Ignores entries that are only useful to a run in progress.
    pub(super) fn ignore_state(&mut self, fields: &mut Fields<'_>, keys: &[&str]) {
        for key in keys {
            while let Some((key, node)) = fields.entry(key) {
                self.ignore(key, &tree::inline(node), "run state of the other tool");
            }
        }
    }
}
