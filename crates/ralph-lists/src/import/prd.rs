//! `prd.json`: the user stories of several tools. Some use a plain list.

use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, work_item};

const STORIES_KEYS: &[&str] =
    &["userStories", "stories", "features", "tasks", "items", "requirements"];
const COMMANDS_KEYS: &[&str] = &["verificationCommands", "qualityGates", "testCommand", "commands"];

pub(super) fn import_prd(text: &str) -> Result<ImportedContent, String> {
    let node = data_tree::parse_json_tree(text)?;
    let mut understood = ImportedContent::default();
    if let DataNode::Text(_) = node {
        return Err("it is neither a list nor an object".to_string());
    }
    if let DataNode::List(_) = node {
        work_item::import_items(&node, None, &mut understood);
        return Ok(understood);
    }
    let mut fields = UnreadFields::from_node(&node);
    let branch = fields.take_text(&["branchName", "branch"]);
    let title = fields.take_text(&["project", "name", "title", "feature"]);
    understood.name = branch.or(title).map(str::to_string);
    if let Some(branch) = branch {
        understood.keep_text("branchName", data_tree::line_of_key(text, "branchName"), branch);
    }
    let about = fields.take_text(&["description", "overview", "goal", "objective", "summary"]);
    understood.goal.extend(title.map(str::to_string));
    understood.goal.extend(about.map(str::to_string));
    while let Some(commands) = fields.take(COMMANDS_KEYS) {
        understood.add_commands(commands);
    }
    while let Some(stories) = fields.take(STORIES_KEYS) {
        work_item::import_items(stories, None, &mut understood);
    }
    understood.limits.iterations = fields.take_number(&["maxIterations"]);
    understood.keep_rest(text, fields);
    Ok(understood)
}
