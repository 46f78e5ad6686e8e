//! What differs from an earlier approval.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A difference from an earlier approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalDifference {
    pub item: String,
    pub kind: DifferenceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    Added,
    Changed,
    Removed,
}

impl DifferenceKind {
    /// What happened to a file, as part of a sentence.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Added => "is new",
            Self::Changed => "changed",
            Self::Removed => "is gone",
        }
    }
}

/// Compares what is approved now with what was, both by name.
pub(super) fn find_differences(
    now: &[(String, &str)],
    then: &[(String, &str)],
) -> Vec<ApprovalDifference> {
    let before: BTreeMap<&str, &str> =
        then.iter().map(|(what, content)| (what.as_str(), *content)).collect();
    let after: BTreeSet<&str> = now.iter().map(|(what, _)| what.as_str()).collect();
    let mut differences = Vec::new();
    for (what, content) in now {
        let how = match before.get(what.as_str()) {
            None => DifferenceKind::Added,
            Some(other) if other != content => DifferenceKind::Changed,
            Some(_) => continue,
        };
        differences.push(ApprovalDifference { item: what.clone(), kind: how });
    }
    let gone = then.iter().filter(|(what, _)| !after.contains(what.as_str()));
    differences.extend(
        gone.map(|(what, _)| ApprovalDifference {
            item: what.clone(),
            kind: DifferenceKind::Removed,
        }),
    );
    differences
}
