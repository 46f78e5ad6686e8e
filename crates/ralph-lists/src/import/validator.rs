//! agent-validator: `.validator/config.yml` and `.validator/checks/*.yml`, in older projects below `.gauntlet/`.

use ralph_core::gate::shell_quote;

use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, ProjectCommand, yaml_files};

/// The settings of a project, with the checks of each of its directories.
pub(super) fn import_config(text: &str) -> Result<ImportedContent, String> {
    let node = yaml_files::parse_map(text)?;
    let mut understood = ImportedContent::default();
    let mut fields = UnreadFields::from_node(&node);
    understood.name = fields.take_text(&["name"]).map(str::to_string);
    for entry in fields.take(&["entryPoints"]).map(DataNode::items).unwrap_or_default() {
        let mut inner = UnreadFields::from_node(entry);
        let path = inner.take_text(&["path"]).unwrap_or(".");
        for check in inner.take(&["checks"]).map(DataNode::items).unwrap_or_default() {
            for (name, settings) in check.entries() {
                add_check(name, path, settings, &mut understood);
            }
            // The name of a check that is defined elsewhere.
            let name = check.text().unwrap_or_default();
            understood.keep_text(&format!("{path}: check"), None, name);
        }
        for (key, node) in inner.remaining() {
            understood.keep_text(&format!("{path}: {key}"), None, &data_tree::render_node(node));
        }
    }
    understood.keep_rest(text, fields);
    yaml_files::keep_dropped_text(text, &mut understood);
    Ok(understood)
}

/// One check in a file of its own, which is named after the file.
pub(super) fn import_check(name: &str, text: &str) -> Result<ImportedContent, String> {
    let node = yaml_files::parse_map(text)?;
    let mut understood = ImportedContent::default();
    add_check(name, ".", &node, &mut understood);
    yaml_files::keep_dropped_text(text, &mut understood);
    if understood.commands.is_empty() && understood.kept.is_empty() {
        return Err("it has no command".to_string());
    }
    Ok(understood)
}

fn add_check(name: &str, path: &str, settings: &DataNode, into: &mut ImportedContent) {
    let mut fields = UnreadFields::from_node(settings);
    let name = fields.take_text(&["name"]).unwrap_or(name).to_string();
    let command = fields.take_text(&["command", "run"]).unwrap_or_default().trim();
    let directory = fields.take_text(&["workingDirectory"]).unwrap_or(path).trim_end_matches('/');
    let is_here = matches!(directory, "" | ".");
    // A directory with a wildcard stands for several, and a variable for a value that only its tool knows.
    if directory.contains('*') || command.contains("${") {
        into.keep_text(&format!("{name}: command in {directory}"), None, command);
    } else if !command.is_empty() {
        let text = if is_here {
            command.to_string()
        } else {
            format!("cd {} && {command}", shell_quote(directory))
        };
        into.commands.push(ProjectCommand { label: name.clone(), text });
    }
    for (key, node) in fields.remaining() {
        into.keep_text(&format!("{name}: {key}"), None, &data_tree::render_node(node));
    }
}
