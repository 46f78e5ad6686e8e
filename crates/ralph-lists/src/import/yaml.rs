//! Settings and tasks in YAML: `tasks.yaml`, `ralph.yml`, `.ralphy/config.yaml`.

use super::tree::{self, Fields, Node};
use super::{Command, Understood, work};

/// `tasks.yaml`, and `.ralph/tasks.yml`, whose tasks have subtasks.
pub(super) fn tasks(text: &str) -> Result<Understood, String> {
    let node = tree::yaml(text)?;
    let mut understood = Understood::default();
    match &node {
        Node::Text(_) => return Err("it is neither a list nor a map".to_string()),
        Node::List(_) => work::read_all(&node, None, &mut understood),
        Node::Map(_) => {
            let mut fields = Fields::of(&node);
            let title = fields.text(&["project", "name", "title"]);
            understood.name = title.map(str::to_string);
            understood.goal.extend(title.map(str::to_string));
            understood.goal.extend(fields.text(&["description", "goal"]).map(str::to_string));
            while let Some(tasks) = fields.take(&["tasks", "userStories", "features", "items"]) {
                work::read_all(tasks, None, &mut understood);
            }
            understood.limits.take(&mut fields);
            understood.keep_rest(text, fields);
        }
    }
    keep_beside(text, &mut understood);
    Ok(understood)
}

/// `ralph.yml`: the limits of the loop, its prompt, and gates that its tool never ran.
pub(super) fn orchestrator(text: &str) -> Result<Understood, String> {
    let node = map(text)?;
    let mut understood = Understood::default();
    let mut fields = Fields::of(&node);
    // An older format has these keys at the top level.
    let mut top = prompt(&mut fields, &mut understood);
    if let Some(event_loop) = fields.take(&["eventLoop"]) {
        let mut inner = Fields::of(event_loop);
        top = prompt(&mut inner, &mut understood).or(top);
        keep_within(text, "event_loop", inner, &mut understood);
    }
    understood.reads.extend(top.map(str::to_string));
    if let Some(backpressure) = fields.take(&["backpressure"]) {
        let mut inner = Fields::of(backpressure);
        if let Some(gates) = inner.take(&["gates"]) {
            understood.declare(gates);
        }
        keep_within(text, "backpressure", inner, &mut understood);
    }
    if let Some(hooks) = fields.take(&["hooks"]) {
        hooks_that_block(hooks, &mut understood);
        understood.keep("hooks", tree::line_of(text, "hooks"), &tree::shown(hooks));
    }
    understood.keep_rest(text, fields);
    keep_beside(text, &mut understood);
    Ok(understood)
}

/// Takes the limits and the prompt, and returns the name of the prompt file.
fn prompt<'n>(fields: &mut Fields<'n>, understood: &mut Understood) -> Option<&'n str> {
    understood.limits.take(fields);
    understood.goal.extend(fields.text(&["prompt"]).map(str::to_string));
    fields.text(&["promptFile"])
}

/// Adds the commands of hooks that block the end of the loop.
fn hooks_that_block(hooks: &Node, understood: &mut Understood) {
    let events = hooks.get("events").unwrap_or(hooks).entries();
    for (event, handlers) in events.iter().filter(|(event, _)| event == "pre.loop.complete") {
        for handler in handlers.items() {
            let blocks = handler.get("on_error").and_then(Node::text) == Some("block");
            let Some(command) = handler.get("command").filter(|_| blocks) else { continue };
            let label = handler.get("name").and_then(Node::text).unwrap_or(event).to_string();
            let text = tree::lines(command).join(" ");
            understood.commands.push(Command { label, text });
        }
    }
}

/// `.ralphy/config.yaml`: commands, rules for the agent, and files that it must not touch.
pub(super) fn ralphy(text: &str) -> Result<Understood, String> {
    let node = map(text)?;
    let mut understood = Understood::default();
    let mut fields = Fields::of(&node);
    if let Some(project) = fields.take(&["project"]) {
        let mut inner = Fields::of(project);
        understood.name = inner.text(&["name"]).map(str::to_string);
        keep_within(text, "project", inner, &mut understood);
    }
    if let Some(commands) = fields.take(&["commands"]) {
        understood.declare(commands);
    }
    if let Some(boundaries) = fields.take(&["boundaries"]) {
        let mut inner = Fields::of(boundaries);
        understood.protect = inner.take(&["neverTouch"]).map(tree::lines).unwrap_or_default();
        keep_within(text, "boundaries", inner, &mut understood);
    }
    understood.limits.take(&mut fields);
    understood.keep_rest(text, fields);
    keep_beside(text, &mut understood);
    Ok(understood)
}

fn map(text: &str) -> Result<Node, String> {
    let node = tree::yaml(text)?;
    if matches!(node, Node::Map(_)) { Ok(node) } else { Err("it is not a map".to_string()) }
}

fn keep_within(text: &str, name: &str, fields: Fields<'_>, understood: &mut Understood) {
    for (key, node) in fields.rest() {
        let line = tree::line_of(text, key);
        understood.keep(&format!("{name}.{key}"), line, &tree::shown(node));
    }
}

/// Keeps what the YAML parser drops: comments, and all documents after the first.
pub(super) fn keep_beside(text: &str, understood: &mut Understood) {
    let mut comments = Vec::new();
    let mut first = None;
    let mut has_begun = false;
    for (number, line) in (1..).zip(text.lines()) {
        if has_begun && line.trim_end() == "---" {
            let rest: Vec<&str> = text.lines().skip(number as usize).collect();
            understood.keep("further documents", Some(number), &rest.join("\n"));
            break;
        }
        has_begun |= !line.trim().is_empty() && line.trim_end() != "---";
        if let Some(comment) = comment(line) {
            first = first.or(Some(number));
            comments.push(comment);
        }
    }
    understood.keep("comments", first, &comments.join("\n"));
}

/// The comment of a line: a `#` outside quotes and the text after it.
fn comment(line: &str) -> Option<&str> {
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
