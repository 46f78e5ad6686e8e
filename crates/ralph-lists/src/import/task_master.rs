//! Task Master: `.taskmaster/tasks/tasks.json`, with tags, subtasks, test strategies and dependencies.

use super::check_text;
use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, ImportedFeature};

/// The tag whose tasks keep their ids.
const MAIN_TAG: &str = "master";
/// Entries that repeat others.
const REDUNDANT_KEYS: [&str; 4] = ["parentTaskId", "parentId", "updatedAt", "previousStatus"];

pub(super) fn import_task_master(text: &str) -> Result<ImportedContent, String> {
    let node = data_tree::parse_json_tree(text)?;
    let mut understood = ImportedContent::default();
    if node.get("tasks").is_some() {
        import_tag(MAIN_TAG, &node, &mut understood);
        return Ok(understood);
    }
    let tags = node.entries().iter().filter(|(_, tag)| tag.get("tasks").is_some());
    for (name, tag) in tags {
        import_tag(name, tag, &mut understood);
    }
    for (key, other) in node.entries().iter().filter(|(_, tag)| tag.get("tasks").is_none()) {
        understood.keep_text(key, None, &data_tree::render_node(other));
    }
    if understood == ImportedContent::default() {
        return Err("it has no tasks".to_string());
    }
    Ok(understood)
}

fn import_tag(name: &str, tag: &DataNode, into: &mut ImportedContent) {
    let mut fields = UnreadFields::from_node(tag);
    let tasks = fields.take(&["tasks"]).map(DataNode::items).unwrap_or_default();
    let open = tasks.iter().filter(|task| !is_done(task)).count();
    if open == 0 && name != MAIN_TAG {
        let titles: Vec<_> = tasks.iter().filter_map(|task| task.get("title")?.text()).collect();
        let why = "all of its tasks are done";
        into.ignore_entry(&format!("tag {name}"), &titles.join("; "), why);
        return;
    }
    let group = TaskGroup {
        prefix: if name == MAIN_TAG { String::new() } else { format!("{name}.") },
        category: (name != MAIN_TAG).then(|| name.to_string()),
    };
    for task in tasks {
        import_task(task, &group, into);
    }
    for (key, node) in fields.remaining() {
        into.keep_text(&format!("{name}: {key}"), None, &data_tree::render_node(node));
    }
}

/// The tag of tasks, or the parent of subtasks.
struct TaskGroup {
    prefix: String,
    category: Option<String>,
}

/// Imports a task after its subtasks, and returns its id.
fn import_task(task: &DataNode, group: &TaskGroup, into: &mut ImportedContent) -> Option<String> {
    let mut fields = UnreadFields::from_node(task);
    let id = format!("{}{}", group.prefix, fields.take_text(&["id"])?);
    let title = fields.take_text(&["title", "name"]).unwrap_or_default().trim();
    let description = fields.take_text(&["description"]).unwrap_or_default().trim();
    let status = fields.take_text(&["status"]).unwrap_or("pending");
    if matches!(status, "cancelled" | "deferred") {
        let why = if status == "deferred" { "it is deferred" } else { "it is cancelled" };
        into.ignore_entry(&format!("task {id}"), title, why);
        into.keep_text(&format!("task {id}"), None, &data_tree::render_node(task));
        return None;
    }
    let mut feature = ImportedFeature {
        description: match (title, description) {
            (title, "") => title.to_string(),
            ("", description) => description.to_string(),
            (title, description) => format!("{title}: {description}"),
        },
        passes: is_done(task),
        priority: fields.take_text(&["priority"]).map(str::to_string),
        category: group.category.clone(),
        ..ImportedFeature::default()
    };
    let dependencies = fields.take(&["dependencies"]).map(data_tree::text_items);
    // A subtask names its siblings by their own number, any other task by the whole one.
    let full = |other: String| {
        if other.contains('.') { other } else { format!("{}{other}", group.prefix) }
    };
    feature.after = dependencies.unwrap_or_default().into_iter().map(full).collect();
    while let Some(criteria) = fields.take(&["acceptanceCriteria"]) {
        feature.steps.extend(data_tree::text_items(criteria));
    }
    let checks = feature.steps.iter().filter_map(|step| check_text::parse_criterion(step));
    let checks: Vec<_> = checks.collect();
    feature.verify = check_text::join_any_checks(&checks);
    let strategy = fields.take_text(&["testStrategy"]);
    feature.steps.extend(strategy.map(|text| format!("Test strategy: {}", text.trim())));
    let details = fields.take_text(&["details"]).map(|text| text.trim().to_string());
    if let Some(subtasks) = fields.take(&["subtasks"]) {
        let inner = TaskGroup { prefix: format!("{id}."), category: Some(title.to_string()) };
        let ids: Vec<_> =
            subtasks.items().iter().filter_map(|task| import_task(task, &inner, into)).collect();
        feature.after.extend(ids);
    }
    for key in REDUNDANT_KEYS {
        fields.take_entry(key);
    }
    let others = fields.remaining();
    let others = others.map(|(key, node)| format!("{key}: {}", data_tree::render_inline(node)));
    let other_status =
        Some(status).filter(|status| !matches!(*status, "pending" | "done" | "completed"));
    let status = other_status.map(|status| format!("status: {status}"));
    let notes: Vec<String> = details.into_iter().chain(status).chain(others).collect();
    feature.notes = (!notes.is_empty()).then(|| notes.join("\n"));
    feature.id.clone_from(&id);
    into.features.push(feature);
    Some(id)
}

fn is_done(task: &DataNode) -> bool {
    matches!(task.get("status").and_then(DataNode::text), Some("done" | "completed"))
}
