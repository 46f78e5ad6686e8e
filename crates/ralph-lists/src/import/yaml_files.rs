//! Settings and tasks in YAML: `tasks.yaml`, `ralph.yml`, `.ralphy/config.yaml`.

use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, ProjectCommand, work_item};

/// `tasks.yaml`, and `.ralph/tasks.yml`, whose tasks have subtasks.
pub(super) fn import_tasks(text: &str) -> Result<ImportedContent, String> {
    let node = data_tree::parse_yaml_tree(text)?;
    let mut understood = ImportedContent::default();
    match &node {
        DataNode::Text(_) => return Err("it is neither a list nor a map".to_string()),
        DataNode::List(_) => work_item::import_items(&node, None, &mut understood),
        DataNode::Map(_) => {
            let mut fields = UnreadFields::from_node(&node);
            let title = fields.take_text(&["project", "name", "title"]);
            understood.name = title.map(str::to_string);
            understood.goal.extend(title.map(str::to_string));
            understood.goal.extend(fields.take_text(&["description", "goal"]).map(str::to_string));
            while let Some(tasks) = fields.take(&["tasks", "userStories", "features", "items"]) {
                work_item::import_items(tasks, None, &mut understood);
            }
            understood.limits.take_from(&mut fields);
            understood.keep_rest(text, fields);
        }
    }
    keep_dropped_text(text, &mut understood);
    Ok(understood)
}

/// `ralph.yml`: the limits of the loop, its prompt, and gates that its tool never ran.
pub(super) fn import_orchestrator(text: &str) -> Result<ImportedContent, String> {
    let node = parse_map(text)?;
    let mut understood = ImportedContent::default();
    let mut fields = UnreadFields::from_node(&node);
    // An older format has these keys at the top level.
    let mut top = take_prompt(&mut fields, &mut understood);
    if let Some(event_loop) = fields.take(&["eventLoop"]) {
        let mut inner = UnreadFields::from_node(event_loop);
        top = take_prompt(&mut inner, &mut understood).or(top);
        keep_section(text, "event_loop", inner, &mut understood);
    }
    understood.referenced_files.extend(top.map(str::to_string));
    if let Some(backpressure) = fields.take(&["backpressure"]) {
        let mut inner = UnreadFields::from_node(backpressure);
        if let Some(gates) = inner.take(&["gates"]) {
            understood.add_commands(gates);
        }
        keep_section(text, "backpressure", inner, &mut understood);
    }
    if let Some(hooks) = fields.take(&["hooks"]) {
        add_blocking_hooks(hooks, &mut understood);
        understood.keep_text(
            "hooks",
            data_tree::line_of_key(text, "hooks"),
            &data_tree::render_node(hooks),
        );
    }
    understood.keep_rest(text, fields);
    keep_dropped_text(text, &mut understood);
    Ok(understood)
}

/// Takes the limits and the prompt, and returns the name of the prompt file.
fn take_prompt<'n>(
    fields: &mut UnreadFields<'n>,
    understood: &mut ImportedContent,
) -> Option<&'n str> {
    understood.limits.take_from(fields);
    understood.goal.extend(fields.take_text(&["prompt"]).map(str::to_string));
    fields.take_text(&["promptFile"])
}

/// Adds the commands of hooks that block the end of the loop.
fn add_blocking_hooks(hooks: &DataNode, understood: &mut ImportedContent) {
    let events = hooks.get("events").unwrap_or(hooks).entries();
    for (event, handlers) in events.iter().filter(|(event, _)| event == "pre.loop.complete") {
        for handler in handlers.items() {
            let blocks = handler.get("on_error").and_then(DataNode::text) == Some("block");
            let Some(command) = handler.get("command").filter(|_| blocks) else { continue };
            let label = handler.get("name").and_then(DataNode::text).unwrap_or(event).to_string();
            let text = data_tree::text_items(command).join(" ");
            understood.commands.push(ProjectCommand { label, text });
        }
    }
}

/// `.ralphy/config.yaml`: commands, rules for the agent, and files that it must not touch.
pub(super) fn import_ralphy(text: &str) -> Result<ImportedContent, String> {
    let node = parse_map(text)?;
    let mut understood = ImportedContent::default();
    let mut fields = UnreadFields::from_node(&node);
    if let Some(project) = fields.take(&["project"]) {
        let mut inner = UnreadFields::from_node(project);
        understood.name = inner.take_text(&["name"]).map(str::to_string);
        keep_section(text, "project", inner, &mut understood);
    }
    if let Some(commands) = fields.take(&["commands"]) {
        understood.add_commands(commands);
    }
    if let Some(boundaries) = fields.take(&["boundaries"]) {
        let mut inner = UnreadFields::from_node(boundaries);
        understood.protect =
            inner.take(&["neverTouch"]).map(data_tree::text_items).unwrap_or_default();
        keep_section(text, "boundaries", inner, &mut understood);
    }
    understood.limits.take_from(&mut fields);
    understood.keep_rest(text, fields);
    keep_dropped_text(text, &mut understood);
    Ok(understood)
}

pub(super) fn parse_map(text: &str) -> Result<DataNode, String> {
    let node = data_tree::parse_yaml_tree(text)?;
    if matches!(node, DataNode::Map(_)) { Ok(node) } else { Err("it is not a map".to_string()) }
}

fn keep_section(
    text: &str,
    name: &str,
    fields: UnreadFields<'_>,
    understood: &mut ImportedContent,
) {
    for (key, node) in fields.remaining() {
        let line = data_tree::line_of_key(text, key);
        understood.keep_text(&format!("{name}.{key}"), line, &data_tree::render_node(node));
    }
}

/// Keeps what the YAML parser drops: comments, and all documents after the first.
pub(super) fn keep_dropped_text(text: &str, understood: &mut ImportedContent) {
    let mut comments = Vec::new();
    let mut first = None;
    let mut has_begun = false;
    for (number, line) in (1..).zip(text.lines()) {
        if has_begun && line.trim_end() == "---" {
            let rest: Vec<&str> = text.lines().skip(number as usize).collect();
            understood.keep_text("further documents", Some(number), &rest.join("\n"));
            break;
        }
        has_begun |= !line.trim().is_empty() && line.trim_end() != "---";
        if let Some(comment) = comment_of_line(line) {
            first = first.or(Some(number));
            comments.push(comment);
        }
    }
    understood.keep_text("comments", first, &comments.join("\n"));
}

/// The comment of a line: a `#` outside quotes and the text after it.
fn comment_of_line(line: &str) -> Option<&str> {
    let mut quote = None;
    let mut before = ' ';
    for (at, char) in line.char_indices() {
        match (quote, char) {
            (None, '#') if before.is_whitespace() => return line.get(at..),
            (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            _ => {}
        }
        before = char;
    }
    None
}
