//! `plan-state.json`, a plan with steps and phases, and `.ralph-state.json`, the progress of a task list.

use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, work_item};

/// Keys that describe a run of the other tool.
const RUN_STATE_KEYS: [&str; 22] = [
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

pub(super) fn import_plan_state(text: &str) -> Result<ImportedContent, String> {
    let node = data_tree::parse_json_tree(text)?;
    if node.entries().is_empty() {
        return Err("it is not an object".to_string());
    }
    let mut understood = ImportedContent::default();
    let mut fields = UnreadFields::from_node(&node);
    let title = fields.take_text(&["planName", "task", "title", "name"]);
    understood.name = fields.take_text(&["specName"]).or(title).map(str::to_string);
    understood.goal.extend(title.map(str::to_string));
    understood.goal.extend(fields.take_text(&["description", "goal"]).map(str::to_string));
    if let Some(steps) = fields.take(&["steps", "tasks"]) {
        work_item::import_items(steps, None, &mut understood);
    }
    if let Some(phases) = fields.take(&["phases"]) {
        name_phases(phases, &mut understood);
        understood.keep_text(
            "phases",
            data_tree::line_of_key(text, "phases"),
            &data_tree::render_node(phases),
        );
    }
    let keys = ["maxGlobalIterations", "maxIterations"];
    understood.limits.iterations = fields.take_number(&keys);
    if let Some(state) = fields.take(&["loopState"]) {
        let mut inner = UnreadFields::from_node(state);
        let limit = inner.take_number(&keys);
        understood.limits.iterations = understood.limits.iterations.or(limit);
        understood.keep_text(
            "loop_state",
            data_tree::line_of_key(text, "loop_state"),
            &data_tree::render_node(state),
        );
    }
    understood.ignore_state(&mut fields, &RUN_STATE_KEYS);
    understood.keep_rest(text, fields);
    Ok(understood)
}

/// Replaces the phase ids of steps with the names of the phases.
fn name_phases(phases: &DataNode, understood: &mut ImportedContent) {
    for phase in phases.items() {
        let mut fields = UnreadFields::from_node(phase);
        let id = fields.take_text(&["phaseId", "id"]);
        let name = fields.take_text(&["phaseName", "name", "title"]);
        let (Some(id), Some(name)) = (id, name) else { continue };
        for feature in &mut understood.features {
            if feature.category.as_deref() == Some(id) {
                feature.category = Some(name.to_string());
            }
        }
    }
}

impl ImportedContent {
    pub(super) fn ignore_entry(&mut self, key: &str, text: &str, why: &'static str) {
        self.ignored.push(super::IgnoredEntry {
            key: key.to_string(),
            text: text.to_string(),
            why,
        });
    }

    /// Ignores entries that are only useful to a run in progress.
    pub(super) fn ignore_state(&mut self, fields: &mut UnreadFields<'_>, keys: &[&str]) {
        for key in keys {
            while let Some((key, node)) = fields.take_entry(key) {
                self.ignore_entry(
                    key,
                    &data_tree::render_inline(node),
                    "run state of the other tool",
                );
            }
        }
    }
}
