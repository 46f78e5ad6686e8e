//! Work lists: feature lists and plans in one common form. A list is sealed when a run begins; afterwards an agent may
//! change only whether its items are done.

mod item_requirements;

use super::item_check::ItemCheck;
use crate::requirement::{
    Requirement, RequirementFailure, RequirementStage, RequirementStatus, RequirementWeight,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub use item_requirements::{
    ListContext, RequiredGates, check_gates, check_name, due_check_gates, item_requirements,
    parse_check_name,
};

/// One item of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListItem {
    /// Unique in its list and independent of its position in the file: `feature 4`, `Parser: nested quotes`
    pub name: String,
    /// What to do, as one cleaned line.
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// A claim, never evidence.
    #[serde(default)]
    pub done: bool,
    /// If present, only its result counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<ItemCheck>,
    pub weight: RequirementWeight,
    /// Its line number, counted from 1. Not sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Paths that its text mentions, as written. Not sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// How a list differs from its sealed version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListDifference {
    /// Names of removed items.
    pub removed: Vec<String>,
    /// Names of edited items, each with the first sealed field that differs.
    pub edited: Vec<(String, ItemField)>,
    /// The number of added items.
    pub added: usize,
}

/// A sealed field of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemField {
    Text,
    Steps,
    Check,
    Weight,
}

impl ItemField {
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Steps => "steps",
            Self::Check => "check",
            Self::Weight => "weight",
        }
    }
}

impl ListItem {
    /// The first sealed field that differs from the current item.
    fn edited_field(&self, now: &Self) -> Option<ItemField> {
        if self.text != now.text {
            Some(ItemField::Text)
        } else if self.steps != now.steps {
            Some(ItemField::Steps)
        } else if self.check != now.check {
            Some(ItemField::Check)
        } else if self.weight != now.weight {
            Some(ItemField::Weight)
        } else {
            None
        }
    }
}

/// The sealed fields of all items as bytes. They do not depend on line numbers or on which items are done.
pub fn sealed_bytes(items: &[ListItem]) -> Result<Vec<u8>, serde_json::Error> {
    let bare: Vec<SealedItem<'_>> = items.iter().map(SealedItem::of).collect();
    serde_json::to_vec(&bare)
}

/// The sealed fields of a [`ListItem`], serialised in the same form.
#[derive(Serialize)]
struct SealedItem<'a> {
    name: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    steps: &'a [String],
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'a ItemCheck>,
    weight: RequirementWeight,
}

impl<'a> SealedItem<'a> {
    fn of(item: &'a ListItem) -> Self {
        let ListItem { name, text, steps, check, weight, .. } = item;
        Self { name, text, steps, done: false, check: check.as_ref(), weight: *weight }
    }
}

fn is_empty(steps: &&[String]) -> bool {
    steps.is_empty()
}

/// The list to evaluate: the sealed items with the current `done` flags, followed by the items that were added. The
/// check of an added item is dropped, because no person approved it.
pub fn merge_with_sealed(sealed: &[ListItem], now: &[ListItem]) -> (Vec<ListItem>, ListDifference) {
    let known: BTreeMap<&str, &ListItem> =
        now.iter().map(|item| (item.name.as_str(), item)).collect();
    let then: BTreeSet<&str> = sealed.iter().map(|item| item.name.as_str()).collect();
    let mut difference = ListDifference::default();
    let mut merged = Vec::with_capacity(now.len().max(sealed.len()));
    for item in sealed {
        let current = known.get(item.name.as_str());
        match current {
            None => difference.removed.push(item.name.clone()),
            Some(now) => {
                difference
                    .edited
                    .extend(item.edited_field(now).map(|part| (item.name.clone(), part)));
            }
        }
        merged.push(ListItem {
            done: current.is_some_and(|now| now.done),
            line: current.and_then(|now| now.line),
            names: current.map(|now| now.names.clone()).unwrap_or_default(),
            ..item.clone()
        });
    }
    for item in now.iter().filter(|item| !then.contains(item.name.as_str())) {
        difference.added += 1;
        merged.push(ListItem { check: None, ..item.clone() });
    }
    (merged, difference)
}

impl ListDifference {
    /// Whether items were removed or edited.
    pub fn is_tampering(&self) -> bool {
        !self.removed.is_empty() || !self.edited.is_empty()
    }

    /// The requirement that holds until removed and edited items are restored.
    pub fn requirement(&self, file: &str, label: &str) -> Option<Requirement> {
        if !self.is_tampering() {
            return None;
        }
        let removed = self.removed.iter().map(|name| format!("{name} was removed"));
        let edited =
            self.edited.iter().map(|(name, part)| format!("{name} was edited ({})", part.name()));
        let count = self.removed.len() + self.edited.len();
        let differ = if count == 1 { "1 item differs" } else { &format!("{count} items differ") };
        let failure = RequirementFailure {
            summary: format!("{differ} from the sealed list, which still counts"),
            findings: super::to_findings(removed.chain(edited)),
            unlisted: count.saturating_sub(super::MAX_FINDINGS),
            ..RequirementFailure::default()
        };
        Some(Requirement {
            name: format!("{label} as agreed"),
            stage: RequirementStage::Planning,
            status: RequirementStatus::Unmet(failure),
            weight: RequirementWeight::Required,
            next: format!("Restore `{file}`; you may only mark its items as done"),
        })
    }
}
