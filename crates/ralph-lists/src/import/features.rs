//! `feature_list.json` and `features.json`: a list, or an object with one.

use super::tree::{self, Fields, Node};
use super::{Understood, work};

pub(super) fn read(text: &str) -> Result<Understood, String> {
    let node = tree::json(text)?;
    let mut understood = Understood::default();
    match &node {
        Node::Text(_) => return Err("it is neither a list nor an object".to_string()),
        Node::List(_) => work::read_all(&node, None, &mut understood),
        Node::Map(_) => {
            let mut fields = Fields::of(&node);
            let title = fields.text(&["project", "name", "title"]);
            understood.name = title.map(str::to_string);
            understood.goal.extend(title.map(str::to_string));
            understood.goal.extend(fields.text(&["description", "goal"]).map(str::to_string));
            while let Some(list) = fields.take(&["features", "featureList", "tests", "items"]) {
                work::read_all(list, None, &mut understood);
            }
            // Redundant counts.
            for key in ["totalFeatures", "total", "completed", "passing", "count"] {
                if let Some((key, count)) = fields.entry(key) {
                    understood.ignore(key, &tree::inline(count), "a count, which is recomputed");
                }
            }
            understood.keep_rest(text, fields);
        }
    }
    Ok(understood)
}
