//! Features that are not in a list yet, given on the command line or read from the items of a text.

use crate::list_marker::list_item_text;
use crate::plan;
use ralph_core::source::feature_list::Feature;
use ralph_core::source::item_check::ItemCheck;
use ralph_core::text;
use serde::Serialize;

const MAX_DESCRIPTION_CHARS: usize = 2_000;
const MAX_STEP_CHARS: usize = 4_000;
const MAX_STEPS: usize = 64;

/// A feature to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureDraft {
    pub id: Option<String>,
    pub description: String,
    pub steps: Vec<String>,
    pub passes: bool,
    pub verify: Option<ItemCheck>,
}

/// A feature as it is serialized in a list.
#[derive(Serialize)]
pub(super) struct FeatureDraftWire<'a> {
    pub id: serde_json::Value,
    pub description: &'a str,
    pub steps: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<&'a ItemCheck>,
    pub passes: bool,
}

#[derive(Serialize)]
struct FeatureListWire<'a> {
    total_features: usize,
    features: Vec<FeatureDraftWire<'a>>,
}

impl FeatureDraft {
    /// The feature that a parser reads from the serialized form.
    pub(super) fn to_feature(&self, id: &str) -> Feature {
        Feature {
            id: id.to_string(),
            description: self.description.clone(),
            steps: self.steps.clone(),
            passes: self.passes,
            verify: self.verify.clone(),
        }
    }

    pub(super) fn to_wire(&self, id: serde_json::Value) -> FeatureDraftWire<'_> {
        FeatureDraftWire {
            id,
            description: &self.description,
            steps: &self.steps,
            verify: self.verify.as_ref(),
            passes: self.passes,
        }
    }
}

/// Serializes a whole list.
pub(super) fn serialize_list(drafts: &[FeatureDraft]) -> serde_json::Result<Vec<u8>> {
    let features = drafts.iter().enumerate().map(|(at, draft)| {
        let id = draft.id.clone().map_or_else(|| (at + 1).into(), serde_json::Value::from);
        draft.to_wire(id)
    });
    let list = FeatureListWire { total_features: drafts.len(), features: features.collect() };
    let mut bytes = serde_json::to_vec_pretty(&list)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Parses the features that a text lists, with the checks that they name.
pub fn parse_features(bytes: &[u8]) -> Vec<FeatureDraft> {
    let mut drafts = parse_bullets(bytes);
    for draft in &mut drafts {
        let named = plan::split_trailing_check(&draft.description);
        if let Some((text, check)) = named.map(|(text, check)| (text.to_string(), check)) {
            draft.description = text;
            draft.verify = Some(check);
        }
    }
    drafts
}

/// Each top-level item is a feature, and the items nested in it are its steps.
fn parse_bullets(bytes: &[u8]) -> Vec<FeatureDraft> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut drafts: Vec<FeatureDraft> = Vec::new();
    // The indentation of the current top-level item.
    let mut first: Option<usize> = None;
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        if fence.is_some() || mark.is_some() {
            fence = if fence.is_none() { mark } else { fence.filter(|open| mark != Some(*open)) };
            continue;
        }
        let indent = line.len() - bare.len();
        match (parse_bullet(bare), first) {
            (Some(item), Some(outer)) if indent > outer + 1 => {
                if let Some(last) = drafts.last_mut().filter(|last| last.steps.len() < MAX_STEPS) {
                    last.steps.push(text::clean_line(item.text, MAX_STEP_CHARS));
                }
            }
            (Some(item), _) => {
                first = Some(indent);
                let description = text::clean_line(item.text, MAX_DESCRIPTION_CHARS);
                drafts.push(FeatureDraft {
                    description,
                    passes: item.ticked,
                    ..FeatureDraft::default()
                });
            }
            (None, Some(outer)) if indent > outer && !bare.is_empty() => {
                if let Some(last) = drafts.last_mut() {
                    let text = last.steps.last_mut().unwrap_or(&mut last.description);
                    *text = text::clean_line(&format!("{text} {bare}"), MAX_STEP_CHARS);
                }
            }
            (None, _) if bare.is_empty() => {}
            (None, _) => first = None,
        }
    }
    drafts.retain(|draft| !draft.description.is_empty());
    drafts
}

struct BulletItem<'a> {
    text: &'a str,
    ticked: bool,
}

/// Parses `- text`, `* text` or `1. text`, with or without a box to tick.
fn parse_bullet(line: &str) -> Option<BulletItem<'_>> {
    let text = list_item_text(line)?.trim();
    for (mark, ticked) in [("[ ]", false), ("[x]", true), ("[X]", true)] {
        if let Some(text) = text.strip_prefix(mark).filter(|text| text.starts_with(' ')) {
            return Some(BulletItem { text: text.trim(), ticked });
        }
    }
    Some(BulletItem { text, ticked: false })
}
