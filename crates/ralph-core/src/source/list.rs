//! Lists of work that somebody else keeps, features and plans, in one shape. What they said when a run began is sealed:
//! in an agent's hands only `done` may change.

mod demands;

use crate::requirement::{Failure, Requirement, Stage, Standing, Weight};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

pub use demands::{Demands, Gates, check_name, checks, due, position, requirements};

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Unique in its list, and the same wherever in the file it stands: `feature 4`, `Parser: nested quotes`
    pub name: String,
    /// What is to be done: one cleaned line.
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Somebody's word, never evidence.
    #[serde(default)]
    pub done: bool,
    /// A program and its arguments whose result alone counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Vec<String>>,
    pub weight: Weight,
    /// Where it stands, counted from 1. Not part of what is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Paths that its text names, as written. Not part of what is sealed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// What became of a list since it was sealed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Names of items that are gone.
    pub removed: Vec<String>,
    /// Items that say something else now, and what of them.
    pub edited: Vec<(String, Part)>,
    /// How many were added.
    pub added: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Text,
    Steps,
    Check,
    Weight,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Steps => "steps",
            Self::Check => "check",
            Self::Weight => "weight",
        }
    }
}

impl Item {
    /// The part that an agent may not change, and did.
    fn edited(&self, now: &Self) -> Option<Part> {
        if self.text != now.text {
            Some(Part::Text)
        } else if self.steps != now.steps {
            Some(Part::Steps)
        } else if self.check != now.check {
            Some(Part::Check)
        } else if self.weight != now.weight {
            Some(Part::Weight)
        } else {
            None
        }
    }
}

/// All that may not change, as bytes: the same for the same list, wherever its items stand and whatever is ticked.
pub fn sealed_bytes(items: &[Item]) -> Vec<u8> {
    let bare: Vec<Bare<'_>> = items.iter().map(Bare::of).collect();
    serde_json::to_vec(&bare).unwrap_or_default()
}

/// An item as it is sealed: written as [`Item`] is, without what may change.
#[derive(Serialize)]
struct Bare<'a> {
    name: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    steps: &'a [String],
    done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'a [String]>,
    weight: Weight,
}

impl<'a> Bare<'a> {
    fn of(item: &'a Item) -> Self {
        let Item { name, text, steps, check, weight, .. } = item;
        Self { name, text, steps, done: false, check: check.as_deref(), weight: *weight }
    }
}

fn is_empty(steps: &&[String]) -> bool {
    steps.is_empty()
}

/// The list that counts: what was sealed, ticked as it is now, and after that what was added. An added item has no say
/// about how it is judged: nobody approved its check.
pub fn merged(sealed: &[Item], now: &[Item]) -> (Vec<Item>, Difference) {
    let known: BTreeMap<&str, &Item> = now.iter().map(|item| (item.name.as_str(), item)).collect();
    let then: BTreeSet<&str> = sealed.iter().map(|item| item.name.as_str()).collect();
    let mut difference = Difference::default();
    let mut merged = Vec::with_capacity(now.len().max(sealed.len()));
    for item in sealed {
        let current = known.get(item.name.as_str());
        match current {
            None => difference.removed.push(item.name.clone()),
            Some(now) => {
                difference.edited.extend(item.edited(now).map(|part| (item.name.clone(), part)));
            }
        }
        merged.push(Item {
            done: current.is_some_and(|now| now.done),
            line: current.and_then(|now| now.line),
            names: current.map(|now| now.names.clone()).unwrap_or_default(),
            ..item.clone()
        });
    }
    for item in now.iter().filter(|item| !then.contains(item.name.as_str())) {
        difference.added += 1;
        merged.push(Item { check: None, ..item.clone() });
    }
    (merged, difference)
}

impl Difference {
    /// Whether something was taken away or put otherwise.
    pub fn is_tampering(&self) -> bool {
        !self.removed.is_empty() || !self.edited.is_empty()
    }

    /// What holds until the list is as it was.
    pub fn requirement(&self, file: &str, label: &str) -> Option<Requirement> {
        if !self.is_tampering() {
            return None;
        }
        let removed = self.removed.iter().map(|name| format!("{name} was removed"));
        let edited = self
            .edited
            .iter()
            .map(|(name, part)| format!("the {} of {name} was edited", part.name()));
        let count = self.removed.len() + self.edited.len();
        let noun = if count == 1 { "1 item is" } else { &format!("{count} items are") };
        let failure = Failure {
            summary: format!("{noun} not as at the start; what was sealed then still counts"),
            findings: super::findings(removed.chain(edited)),
            unlisted: count.saturating_sub(super::MOST_FINDINGS),
            ..Failure::default()
        };
        Some(Requirement {
            name: format!("{label} as agreed"),
            stage: Stage::Planning,
            standing: Standing::Unmet(failure),
            weight: Weight::Required,
            next: format!("Put `{file}` back as it was; only what is done may be changed in it"),
        })
    }
}
