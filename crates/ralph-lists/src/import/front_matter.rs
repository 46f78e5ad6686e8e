//! Markdown with front matter: `.claude/ralph-loop.local.md` and `RALPH_TASK.md`.

use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, ProjectCommand, markdown, work_item, yaml_files};

/// Splits a text into the front matter, the body, and the number of lines before the body.
pub(super) fn split_front_matter(text: &str) -> Option<(&str, &str, u32)> {
    let rest = text.strip_prefix("---\n")?;
    let mut at = 0_usize;
    for (number, line) in (2..).zip(rest.split_inclusive('\n')) {
        if line.trim_end() == "---" {
            let body = rest.get(at.saturating_add(line.len())..)?;
            return Some((rest.get(..at)?, body, number));
        }
        at = at.saturating_add(line.len());
    }
    None
}

/// Parses YAML, or lines that only resemble it: some hooks write `iteration:5`.
pub(super) fn parse_settings(front: &str) -> DataNode {
    if let Ok(node @ DataNode::Map(_)) = data_tree::parse_yaml_tree(front) {
        return node;
    }
    let entries = front.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let value = value.trim().trim_matches(['"', '\'']);
        Some((key.trim().to_string(), DataNode::Text(value.to_string())))
    });
    DataNode::Map(entries.collect())
}

const LOOP_STATE_KEYS: [&str; 10] = [
    "active",
    "iteration",
    "sessionId",
    "startedAt",
    "timestamp",
    "updatedAt",
    "pid",
    "reviewCount",
    "pendingFeedback",
    "debug",
];

/// The state file of a loop that runs within one session; its body is the prompt.
pub(super) fn import_loop_file(text: &str) -> Result<ImportedContent, String> {
    let (front, body, _) =
        split_front_matter(text).ok_or("it does not start with settings between `---`")?;
    let node = parse_settings(front);
    let mut understood = ImportedContent::default();
    let mut fields = UnreadFields::from_node(&node);
    understood.limits.take_from(&mut fields);
    understood.goal.extend(fields.take_text(&["originalPrompt", "prompt"]).map(str::to_string));
    understood.ignore_state(&mut fields, &LOOP_STATE_KEYS);
    understood.keep_rest(text, fields);
    yaml_files::keep_dropped_text(front, &mut understood);
    if !body.trim().is_empty() {
        understood.goal.push(body.trim().to_string());
    }
    Ok(understood)
}

/// A task with criteria to tick; its whole text is the prompt.
pub(super) fn import_task(text: &str) -> Result<ImportedContent, String> {
    let mut understood = ImportedContent::default();
    let (front, body, before) = split_front_matter(text).unwrap_or(("", text, 0));
    let node = parse_settings(front);
    let mut fields = UnreadFields::from_node(&node);
    let title = fields.take_text(&["task", "title", "name"]);
    understood.goal.extend(title.map(str::to_string));
    if let Some(command) = fields.take_text(&["testCommand"]) {
        let command = ProjectCommand { label: "tests".to_string(), text: command.to_string() };
        understood.commands.push(command);
    }
    understood.limits.take_from(&mut fields);
    markdown::take_items(body, before, &mut understood);
    if understood.features.is_empty()
        && let Some(criteria) = fields.take(&["completionCriteria", "successCriteria"])
    {
        work_item::import_items(criteria, None, &mut understood);
    }
    understood.keep_rest(text, fields);
    yaml_files::keep_dropped_text(front, &mut understood);
    if !body.trim().is_empty() {
        understood.goal.push(body.trim().to_string());
    }
    if understood == ImportedContent::default() {
        return Err("it is empty".to_string());
    }
    Ok(understood)
}
