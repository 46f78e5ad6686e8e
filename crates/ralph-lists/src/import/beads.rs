//! Beads: `.beads/issues.jsonl`, one issue per line. Closed issues are history, not work.

use std::collections::BTreeMap;

use ralph_core::text;

use super::check_text;
use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, ImportedFeature};

const MAX_SHOWN_CHARS: usize = 200;
const BOOKKEEPING_KEYS: [&str; 18] = [
    "createdAt",
    "createdBy",
    "updatedAt",
    "startedAt",
    "closedAt",
    "closeReason",
    "owner",
    "assignee",
    "compactionLevel",
    "contentHash",
    "sourceRepo",
    "dependencyCount",
    "dependentCount",
    "commentCount",
    "originalSize",
    "ephemeral",
    "parent",
    "_type",
];

pub(super) fn import_issues(text: &str) -> Result<ImportedContent, String> {
    let mut understood = ImportedContent::default();
    let mut closed = 0_usize;
    let mut parents: Vec<(String, String)> = Vec::new();
    for (number, line) in (1_u32..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let node = match data_tree::parse_json_tree(line) {
            Ok(node) if node.get("id").is_some() => node,
            Ok(_) | Err(_) => {
                let line = text::clean_line(line, MAX_SHOWN_CHARS);
                understood.ignore_entry(&format!("line {number}"), &line, "it is not an issue");
                continue;
            }
        };
        match node.get("status").and_then(DataNode::text) {
            Some("closed" | "tombstone") => closed = closed.saturating_add(1),
            _ => import_issue(&node, &mut parents, &mut understood),
        }
    }
    if closed > 0 {
        understood.ignore_entry("issues", &format!("{closed} issues"), "they are closed");
    }
    if understood == ImportedContent::default() {
        return Err("it has no issues".to_string());
    }
    add_parents(&parents, &mut understood.features);
    Ok(understood)
}

fn import_issue(node: &DataNode, parents: &mut Vec<(String, String)>, into: &mut ImportedContent) {
    let mut fields = UnreadFields::from_node(node);
    let id = fields.take_text(&["id"]).unwrap_or_default().to_string();
    let title = fields.take_text(&["title"]).unwrap_or_default().trim();
    let description = fields.take_text(&["description"]).unwrap_or_default().trim();
    let status = fields.take_text(&["status"]).unwrap_or("open");
    let criteria = fields.take_text(&["acceptanceCriteria"]).unwrap_or_default();
    let mut feature = ImportedFeature {
        description: title.to_string(),
        priority: fields.take_text(&["priority"]).map(str::to_string),
        category: fields.take_text(&["issueType"]).map(str::to_string),
        ..ImportedFeature::default()
    };
    let lines = criteria.lines().map(|line| line.trim().trim_start_matches("- "));
    feature.steps.extend(lines.filter(|line| !line.is_empty()).map(str::to_string));
    let checks: Vec<_> =
        feature.steps.iter().filter_map(|step| check_text::parse_criterion(step)).collect();
    feature.verify = check_text::join_any_checks(&checks);
    let mut notes = vec![description.to_string()];
    if status != "open" {
        notes.push(format!("status: {status}"));
    }
    for dependency in fields.take(&["dependencies"]).map(DataNode::items).unwrap_or_default() {
        let named = |key: &str| dependency.get(key).and_then(DataNode::text);
        let (other, kind) = (named("depends_on_id"), named("type").unwrap_or("blocks"));
        match (other, kind) {
            (Some(other), "blocks") => feature.after.push(other.to_string()),
            (Some(other), "parent-child") => parents.push((other.to_string(), id.clone())),
            _ => notes.push(format!("{kind}: {}", data_tree::render_inline(dependency))),
        }
    }
    for key in BOOKKEEPING_KEYS {
        fields.take_entry(key);
    }
    for (key, node) in fields.remaining() {
        notes.push(format!("{key}: {}", data_tree::render_node(node)));
    }
    notes.retain(|note| !note.is_empty());
    feature.notes = (!notes.is_empty()).then(|| notes.join("\n"));
    feature.id = id;
    into.features.push(feature);
}

/// An issue with parts is done after them. A closed issue is not in the list, so nothing depends on it any more.
fn add_parents(parents: &[(String, String)], features: &mut [ImportedFeature]) {
    let places: BTreeMap<String, usize> =
        features.iter().enumerate().map(|(at, feature)| (feature.id.clone(), at)).collect();
    for (parent, child) in parents {
        if let Some(feature) = places.get(parent).and_then(|at| features.get_mut(*at)) {
            feature.after.push(child.clone());
        }
    }
    for feature in features {
        feature.after.retain(|other| places.contains_key(other));
    }
}
