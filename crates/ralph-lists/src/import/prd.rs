//! `prd.json`: the user stories of several tools. Some use a plain list.

use super::tree::{self, Fields, Node};
use super::{Understood, work};

const STORIES: &[&str] = &["userStories", "stories", "features", "tasks", "items", "requirements"];
const COMMANDS: &[&str] = &["verificationCommands", "qualityGates", "testCommand", "commands"];

pub(super) fn read(text: &str) -> Result<Understood, String> {
    let node = tree::json(text)?;
    let mut understood = Understood::default();
    if let Node::Text(_) = node {
        return Err("it is neither a list nor an object".to_string());
    }
    if let Node::List(_) = node {
        work::read_all(&node, None, &mut understood);
        return Ok(understood);
    }
    let mut fields = Fields::of(&node);
    let branch = fields.text(&["branchName", "branch"]);
    let title = fields.text(&["project", "name", "title", "feature"]);
    understood.name = branch.or(title).map(str::to_string);
    if let Some(branch) = branch {
        understood.keep("branchName", tree::line_of(text, "branchName"), branch);
    }
    let about = fields.text(&["description", "overview", "goal", "objective", "summary"]);
    understood.goal.extend(title.map(str::to_string));
    understood.goal.extend(about.map(str::to_string));
    while let Some(commands) = fields.take(COMMANDS) {
        understood.declare(commands);
    }
    while let Some(stories) = fields.take(STORIES) {
        work::read_all(stories, None, &mut understood);
    }
    understood.limits.iterations = fields.number(&["maxIterations"]);
    understood.keep_rest(text, fields);
    Ok(understood)
}
