//! Plans of loom: Markdown with the stages of the work in a block of YAML. Its acceptance criteria are commands.

use super::check_text::{self, CheckText};
use super::data_tree::{self, DataNode, UnreadFields};
use super::{CheckLine, ImportedContent, ImportedFeature};

const MAX_SEARCHED: usize = 200;

/// The stages of a plan; `None` if the text has none.
pub(super) fn import_stages(text: &str) -> Option<Result<ImportedContent, String>> {
    let (before, rest) = text.split_once("```yaml\nloom:")?;
    let (block, after) = rest.split_once("\n```")?;
    let node = match data_tree::parse_yaml_tree(&format!("loom:{block}")) {
        Ok(node) => node,
        Err(why) => return Some(Err(why)),
    };
    let stages = node.get("loom")?.get("stages")?.items();
    let mut understood = ImportedContent::default();
    let title = before.lines().find_map(|line| line.strip_prefix("# "));
    understood.name = title.map(str::to_string);
    for stage in stages {
        import_stage(text, stage, &mut understood);
    }
    understood.keep_text("text", Some(1), before);
    understood.keep_text("text after the stages", None, after);
    Some(Ok(understood))
}

fn import_stage(text: &str, stage: &DataNode, into: &mut ImportedContent) {
    let mut fields = UnreadFields::from_node(stage);
    let name = fields.take_text(&["name"]).unwrap_or_default();
    let description = fields.take_text(&["description"]).unwrap_or_default().trim();
    let mut feature = ImportedFeature {
        id: fields.take_text(&["id"]).unwrap_or_default().to_string(),
        description: if description.is_empty() {
            name.to_string()
        } else {
            format!("{name}: {description}")
        },
        after: fields.take(&["dependencies"]).map(data_tree::text_items).unwrap_or_default(),
        ..ImportedFeature::default()
    };
    let mut checks = Vec::new();
    for criterion in fields.take(&["acceptance"]).map(data_tree::text_items).unwrap_or_default() {
        // Each search reads the text again, so only the first ones are made.
        let is_searched = into.check_lines.len() < MAX_SEARCHED;
        let found = || text.lines().position(|line| line.contains(criterion.as_str()));
        let found = is_searched.then(found).flatten().unwrap_or_default();
        let line = u32::try_from(found.saturating_add(1)).unwrap_or(u32::MAX);
        let why_not = match check_text::parse_check_text(&format!("`{criterion}`")) {
            CheckText::Command(check) => {
                checks.push(check);
                None
            }
            CheckText::NotUnderstood(why) => Some(why),
            CheckText::Block => Some("it names no command"),
        };
        into.check_lines.push(CheckLine { line, text: criterion.clone(), why_not });
        feature.steps.push(criterion);
    }
    feature.verify = check_text::join_any_checks(&checks);
    let notes = fields
        .remaining()
        .map(|(key, node)| format!("{key}: {}", data_tree::render_inline(node)))
        .collect::<Vec<_>>();
    feature.notes = (!notes.is_empty()).then(|| notes.join("\n"));
    into.features.push(feature);
}
