//! Compares plans with the work: finds items that were ticked although nothing that they name changed.

use ralph_core::requirement::{
    Finding, FindingLocation, FindingSeverity, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use std::collections::HashMap;

const MAX_FINDINGS: usize = 50;
const MAX_SHOWN_NAMES: usize = 4;

/// One plan, at the start of the run and now.
#[derive(Clone, Copy, Debug)]
pub struct PlanComparison<'a> {
    /// Relative to the project, for display.
    pub file: &'a str,
    pub sealed_items: &'a [ListItem],
    pub current_items: &'a [ListItem],
}

/// Reports newly ticked items none of whose names match a changed path. The requirement is advisory, because paths in
/// prose are a guess. `touched` are the paths that changed since the run began, relative to the project. A name matches a
/// path that equals it, ends with it, or lies below it.
pub fn plan_discrepancies(lists: &[PlanComparison<'_>], touched: &[String]) -> Option<Requirement> {
    let ticked: Vec<(&str, &ListItem)> = lists.iter().flat_map(newly_ticked).collect();
    if ticked.is_empty() {
        return None;
    }
    let ends = PathSuffixes::from_paths(touched);
    let mut untouched =
        ticked.into_iter().filter(|(_, item)| !item.names.iter().any(|name| ends.contain(name)));
    let findings: Vec<Finding> = untouched
        .by_ref()
        .take(MAX_FINDINGS)
        .map(|(file, item)| untouched_finding(file, item))
        .collect();
    let unlisted = untouched.count();
    let summary = match findings.len() + unlisted {
        0 => return None,
        1 => "1 item is ticked, but nothing that it names changed".to_string(),
        count => format!("{count} items are ticked, but nothing that they name changed"),
    };
    Some(Requirement {
        name: "plan and work".to_string(),
        stage: RequirementStage::Planning,
        status: RequirementStatus::Unmet(RequirementFailure {
            findings,
            unlisted,
            ..RequirementFailure::new(summary)
        }),
        weight: RequirementWeight::Advisory,
        next: "Do the work of these items, or untick them".to_string(),
    })
}

fn newly_ticked<'a>(list: &PlanComparison<'a>) -> impl Iterator<Item = (&'a str, &'a ListItem)> {
    let then: HashMap<&str, bool> =
        list.sealed_items.iter().map(|item| (item.name.as_str(), item.done)).collect();
    let file = list.file;
    // An item that is new in the list counts as newly ticked, too.
    let is_new = move |item: &ListItem| !then.get(item.name.as_str()).copied().unwrap_or(false);
    list.current_items
        .iter()
        .filter(move |item| item.done && !item.names.is_empty() && is_new(item))
        .map(move |item| (file, item))
}

fn untouched_finding(file: &str, item: &ListItem) -> Finding {
    let mut names: Vec<String> =
        item.names.iter().take(MAX_SHOWN_NAMES).map(|name| quote_name(name)).collect();
    if item.names.len() > MAX_SHOWN_NAMES {
        names.push(format!("{} more", item.names.len() - MAX_SHOWN_NAMES));
    }
    let message = format!(
        "{}: ticked, but nothing it names changed: {}",
        text::clean_line(&item.name, 120),
        names.join(", ")
    );
    let place =
        FindingLocation { file: text::clean_line(file, 200), line: item.line, column: None };
    Finding { place: Some(place), severity: FindingSeverity::Warning, ..Finding::new(message) }
}

fn quote_name(name: &str) -> String {
    format!("`{}`", text::clean_line(name, 80).replace('`', "'"))
}

/// The suffixes of paths at component boundaries, sorted: `src/a.rs` and `a.rs`.
struct PathSuffixes<'a>(Vec<&'a str>);

impl<'a> PathSuffixes<'a> {
    fn from_paths(paths: &'a [String]) -> Self {
        let mut ends: Vec<&str> = Vec::new();
        for path in paths {
            ends.push(path);
            ends.extend(path.match_indices('/').map(|(at, _)| &path[at + 1..]));
        }
        ends.sort_unstable();
        Self(ends)
    }

    fn contain(&self, name: &str) -> bool {
        let name = name.strip_prefix("./").unwrap_or(name).trim_end_matches('/');
        let below = format!("{name}/");
        self.first_from(name) == Some(name)
            || self.first_from(&below).is_some_and(|end| end.starts_with(&below))
    }

    fn first_from(&self, name: &str) -> Option<&'a str> {
        self.0.get(self.0.partition_point(|end| *end < name)).copied()
    }
}
