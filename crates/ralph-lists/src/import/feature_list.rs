//! `feature_list.json` and `features.json`: a list, or an object with one.

use super::data_tree::{self, DataNode, UnreadFields};
use super::{ImportedContent, work_item};

pub(super) fn import_feature_list(text: &str) -> Result<ImportedContent, String> {
    let node = data_tree::parse_json_tree(text)?;
    let mut understood = ImportedContent::default();
    match &node {
        DataNode::Text(_) => return Err("it is neither a list nor an object".to_string()),
        DataNode::List(_) => work_item::import_items(&node, None, &mut understood),
        DataNode::Map(_) => {
            let mut fields = UnreadFields::from_node(&node);
            let title = fields.take_text(&["project", "name", "title"]);
            understood.name = title.map(str::to_string);
            understood.goal.extend(title.map(str::to_string));
            understood.goal.extend(fields.take_text(&["description", "goal"]).map(str::to_string));
            while let Some(list) = fields.take(&["features", "featureList", "tests", "items"]) {
                work_item::import_items(list, None, &mut understood);
            }
            // Redundant counts.
            for key in ["totalFeatures", "total", "completed", "passing", "count"] {
                if let Some((key, count)) = fields.take_entry(key) {
                    understood.ignore_entry(
                        key,
                        &data_tree::render_inline(count),
                        "a count, which is recomputed",
                    );
                }
            }
            understood.keep_rest(text, fields);
        }
    }
    Ok(understood)
}
