//! Markdown with front matter: `.claude/ralph-loop.local.md` and `RALPH_TASK.md`.

use super::tree::{self, Fields, Node};
use super::{Command, Understood, markdown, work, yaml};

/// Splits a text into the front matter, the body, and the number of lines before the body.
pub(super) fn split(text: &str) -> Option<(&str, &str, u32)> {
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
pub(super) fn settings(front: &str) -> Node {
    if let Ok(node @ Node::Map(_)) = tree::yaml(front) {
        return node;
    }
    let entries = front.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let value = value.trim().trim_matches(['"', '\'']);
        Some((key.trim().to_string(), Node::Text(value.to_string())))
    });
    Node::Map(entries.collect())
}

const AT_WORK: [&str; 10] = [
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
pub(super) fn loop_file(text: &str) -> Result<Understood, String> {
    let (front, body, _) = split(text).ok_or("it does not start with settings between `---`")?;
    let node = settings(front);
    let mut understood = Understood::default();
    let mut fields = Fields::of(&node);
    understood.limits.take(&mut fields);
    understood.goal.extend(fields.text(&["originalPrompt", "prompt"]).map(str::to_string));
    understood.ignore_state(&mut fields, &AT_WORK);
    understood.keep_rest(text, fields);
    yaml::keep_beside(front, &mut understood);
    if !body.trim().is_empty() {
        understood.goal.push(body.trim().to_string());
    }
    Ok(understood)
}

/// A task with criteria to tick; its whole text is the prompt.
pub(super) fn task(text: &str) -> Result<Understood, String> {
    let mut understood = Understood::default();
    let (front, body, _) = split(text).unwrap_or(("", text, 0));
    let node = settings(front);
    let mut fields = Fields::of(&node);
    let title = fields.text(&["task", "title", "name"]);
    understood.goal.extend(title.map(str::to_string));
    if let Some(command) = fields.text(&["testCommand"]) {
        let command = Command { label: "tests".to_string(), text: command.to_string() };
        understood.commands.push(command);
    }
    understood.limits.take(&mut fields);
    markdown::take_items(body, &mut understood);
    if understood.features.is_empty()
        && let Some(criteria) = fields.take(&["completionCriteria", "successCriteria"])
    {
        work::read_all(criteria, None, &mut understood);
    }
    understood.keep_rest(text, fields);
    yaml::keep_beside(front, &mut understood);
    if !body.trim().is_empty() {
        understood.goal.push(body.trim().to_string());
    }
    if understood == Understood::default() {
        return Err("it is empty".to_string());
    }
    Ok(understood)
}
