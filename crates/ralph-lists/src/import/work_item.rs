//! Imports one work item, whichever names its fields have, and the commands that check the whole project.

use super::check_text::{self, CheckText};
use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, ImportedFeature, KeptText, ProjectCommand};
use ralph_core::source::item_check::ItemCheck;

const ID_KEYS: &[&str] = &["id", "storyId", "taskId", "stepId", "key", "number"];
const TITLE_KEYS: &[&str] = &["title", "name", "summary", "feature"];
const DESCRIPTION_KEYS: &[&str] = &["description", "story", "content", "task", "prompt", "details"];
const STEPS_KEYS: &[&str] = &[
    "steps",
    "acceptanceCriteria",
    "acceptance",
    "criteria",
    "implementationSteps",
    "testSteps",
    "expected",
];
const DONE_KEYS: &[&str] = &["passes", "passed", "completed", "complete", "done", "finished"];
const AFTER_KEYS: &[&str] = &["dependsOn", "deps", "dependencies", "blockedBy", "after"];
const CATEGORY_KEYS: &[&str] = &["category", "phase", "epic", "component", "area", "group"];
const CHECK_KEYS: &[&str] =
    &["verify", "verifyCommand", "testCommand", "check", "completionCriteria"];
const MAX_SEARCHED: usize = 200;
const SUBTASK_KEYS: &[&str] = &["subtasks", "tasks", "children"];

/// Whether a status means done or not done; `None` if it means something else.
fn parse_status(status: &str) -> Option<bool> {
    let status = status.trim().to_ascii_lowercase().replace(['-', '_'], " ");
    match status.as_str() {
        "true" | "yes" | "done" | "complete" | "completed" | "verified" | "passed" | "passing"
        | "pass" | "closed" | "finished" => Some(true),
        "false" | "no" | "todo" | "to do" | "pending" | "open" | "new" | "failing" | "failed"
        | "fail" | "not started" | "planned" => Some(false),
        _ => None,
    }
}

/// Imports every work item of a list, or of a map from ids to items.
pub(super) fn import_items(list: &DataNode, category: Option<&str>, into: &mut ImportedContent) {
    match list {
        DataNode::List(items) => {
            for item in items.iter().filter(|item| !data_tree::is_empty_node(item)) {
                import_item(item, None, category, into);
            }
        }
        DataNode::Map(entries) => {
            for (id, item) in entries {
                import_item(item, Some(id), category, into);
            }
        }
        DataNode::Text(text) => into.keep_text("list", None, text),
    }
}

fn import_item(
    item: &DataNode,
    key: Option<&str>,
    category: Option<&str>,
    into: &mut ImportedContent,
) {
    if item.entries().is_empty() {
        into.features.push(ImportedFeature {
            id: key.unwrap_or_default().to_string(),
            description: data_tree::render_inline(item),
            category: category.map(str::to_string),
            ..ImportedFeature::default()
        });
        return;
    }
    let mut fields = UnreadFields::from_node(item);
    let mut feature = ImportedFeature {
        id: fields.take_text(ID_KEYS).or(key).unwrap_or_default().to_string(),
        description: take_description(&mut fields),
        ..ImportedFeature::default()
    };
    let parts = fields
        .take(SUBTASK_KEYS)
        .filter(|parts| parts.items().iter().any(|it| it.text().is_none()));
    if let Some(parts) = parts {
        let group = if feature.description.is_empty() { &feature.id } else { &feature.description };
        import_items(parts, Some(group), into);
        for (key, node) in fields.remaining() {
            into.keep_text(&format!("{group}: {key}"), None, &data_tree::render_node(node));
        }
        return;
    }
    while let Some(steps) = fields.take(STEPS_KEYS) {
        feature.steps.extend(data_tree::text_items(steps));
    }
    let mut notes = Vec::new();
    feature.passes = take_passes(&mut fields, &mut notes);
    feature.priority = fields.take_text(&["priority"]).map(str::to_string);
    feature.after = fields.take(AFTER_KEYS).map(data_tree::text_items).unwrap_or_default();
    feature.category = fields.take_text(CATEGORY_KEYS).or(category).map(str::to_string);
    let mut checks = Vec::new();
    while let Some(check) = fields.take(CHECK_KEYS) {
        let (commands, prose) = split_check(check);
        feature.steps.extend(prose);
        checks.extend(commands);
    }
    checks.extend(feature.steps.iter().filter_map(|step| criterion_check(step)));
    feature.verify = check_text::join_any_checks(&checks);
    for (key, node) in fields.remaining() {
        let is_short = match node {
            DataNode::Text(text) => !text.contains('\n'),
            DataNode::List(items) => {
                items.len() == 1 && items.iter().all(|item| item.text().is_some())
            }
            DataNode::Map(_) => false,
        };
        notes.push(match (matches!(key, "notes" | "note"), is_short) {
            (true, _) => data_tree::render_node(node),
            (false, true) => format!("{key}: {}", data_tree::render_inline(node)),
            (false, false) => format!("{key}:\n{}", data_tree::render_node(node)),
        });
    }
    feature.notes = (!notes.is_empty()).then(|| notes.join("\n"));
    into.features.push(feature);
}

fn take_description(fields: &mut UnreadFields<'_>) -> String {
    let title = fields.take_text(TITLE_KEYS).unwrap_or_default().trim();
    let description = fields.take_text(DESCRIPTION_KEYS).unwrap_or_default().trim();
    match (title, description) {
        (title, "") => title.to_string(),
        ("", description) => description.to_string(),
        (title, description) if description.starts_with(title) => description.to_string(),
        (title, description) => format!("{}: {description}", title.trim_end_matches([':', '.'])),
    }
}

fn take_passes(fields: &mut UnreadFields<'_>, notes: &mut Vec<String>) -> bool {
    let flag = fields.take_text(DONE_KEYS);
    let status = fields.take_text(&["status", "state"]);
    for value in [flag, status].into_iter().flatten() {
        if parse_status(value).is_none() {
            notes.push(format!("status: {}", value.trim()));
        }
    }
    flag.or(status).and_then(parse_status).unwrap_or(false)
}

/// Splits a check into commands and prose criteria. A list of single words that starts with a program is one command.
fn split_check(node: &DataNode) -> (Vec<ItemCheck>, Vec<String>) {
    let texts = data_tree::text_items(node);
    let is_argv = matches!(node, DataNode::List(_))
        && texts.len() > 1
        && texts.first().is_some_and(|first| is_command(first))
        && texts.get(1..).unwrap_or_default().iter().all(|word| !is_command(word));
    if is_argv && texts.iter().all(|word| !word.contains(' ')) {
        return (vec![ItemCheck::Argv(texts)], Vec::new());
    }
    let mut commands = Vec::new();
    let mut prose = Vec::new();
    for text in texts {
        match Some(&text).filter(|text| is_command(text)).and_then(|text| command_check(text)) {
            Some(check) => commands.push(check),
            None => prose.push(text),
        }
    }
    (commands, prose)
}

fn command_check(text: &str) -> Option<ItemCheck> {
    match check_text::parse_check_text(&format!("`{text}`")) {
        CheckText::Command(check) => Some(check),
        CheckText::Block | CheckText::NotUnderstood(_) => None,
    }
}

/// The check that a criterion names: after a label such as `Verify:`, or as a command with its result.
fn criterion_check(step: &str) -> Option<ItemCheck> {
    let Some(text) = check_text::strip_label(step) else {
        return check_text::parse_criterion(step);
    };
    match check_text::parse_check_text(text) {
        CheckText::Command(check) => Some(check),
        CheckText::Block | CheckText::NotUnderstood(_) => None,
    }
}

/// Programs that checks of other tools start with.
const CHECK_PROGRAMS: [&str; 48] = [
    "bash",
    "biome",
    "bun",
    "bunx",
    "bundle",
    "cargo",
    "cat",
    "cmake",
    "composer",
    "ctest",
    "deno",
    "diff",
    "dotnet",
    "eslint",
    "go",
    "gradle",
    "grep",
    "jest",
    "just",
    "ls",
    "make",
    "mix",
    "mvn",
    "mypy",
    "node",
    "npm",
    "npx",
    "php",
    "phpunit",
    "playwright",
    "pnpm",
    "poetry",
    "prettier",
    "pytest",
    "python",
    "python3",
    "rake",
    "rspec",
    "ruff",
    "sh",
    "swift",
    "task",
    "test",
    "tsc",
    "uv",
    "vitest",
    "yarn",
    "zig",
];

/// Whether a text is a command rather than a sentence.
pub(super) fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_sentence = matches!(first, "test" | "make" | "go" | "task" | "just" | "diff")
        && words.next().is_none_or(|second| {
            matches!(second, "the" | "a" | "an" | "that" | "if" | "sure" | "to" | "is")
        });
    first.starts_with("./") || (CHECK_PROGRAMS.contains(&first) && !is_sentence)
}

impl ImportedContent {
    pub(super) fn keep_text(&mut self, key: &str, line: Option<u32>, text: &str) {
        if !text.trim().is_empty() {
            self.kept.push(KeptText {
                key: key.to_string(),
                line,
                text: text.trim_end().to_string(),
            });
        }
    }

    /// Keeps the remaining entries of a file, with their lines.
    pub(super) fn keep_rest(&mut self, text: &str, fields: UnreadFields<'_>) {
        for (at, (key, node)) in fields.remaining().enumerate() {
            // Each search reads the text again, so only the first ones are made.
            let line = (at < MAX_SEARCHED).then(|| data_tree::line_of_key(text, key)).flatten();
            self.keep_text(key, line, &data_tree::render_node(node));
        }
    }

    /// Adds commands that check the whole project: by name, in objects, or as a list. Other entries of an object are kept.
    pub(super) fn add_commands(&mut self, node: &DataNode) {
        match node {
            DataNode::Map(entries) => {
                for (label, node) in entries {
                    self.add_command(label, node);
                }
            }
            DataNode::List(items) => {
                for item in items {
                    self.add_command("", item);
                }
            }
            DataNode::Text(_) => self.add_command("", node),
        }
    }

    fn add_command(&mut self, label: &str, node: &DataNode) {
        let mut fields = UnreadFields::from_node(node);
        let label = fields.take_text(&["name"]).unwrap_or(label).to_string();
        let command = match node {
            DataNode::Map(_) => fields.take(&["command", "run", "cmd"]),
            DataNode::List(_) | DataNode::Text(_) => Some(node),
        };
        let text = match command {
            Some(DataNode::List(words)) => {
                words.iter().map(data_tree::render_inline).collect::<Vec<_>>().join(" ")
            }
            Some(other) => data_tree::render_inline(other),
            None => String::new(),
        };
        for (key, node) in fields.remaining() {
            self.keep_text(
                format!("{label}: {key}").trim_start_matches(": "),
                None,
                &data_tree::render_node(node),
            );
        }
        if !text.trim().is_empty() && text != "null" {
            self.commands.push(ProjectCommand { label, text });
        }
    }
}
