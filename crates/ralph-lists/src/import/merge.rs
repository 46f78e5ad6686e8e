//! Merges the content of many files into one loop.

use std::collections::{BTreeMap, BTreeSet};

use ralph_core::input_bounds::MAX_LIST_ITEMS;
use ralph_core::source::feature_list::{MAX_CHECK_WORDS, MAX_SHELL_BYTES, MAX_WORD_BYTES};
use ralph_core::source::item_check::ItemCheck;
use ralph_core::text;

use super::{
    ImportSource, ImportedContent, ImportedFeature, ImportedLimits, LineRule, ProjectCommand,
    promise,
};

const MAX_CONFLICTS: usize = 20;
const MAX_ID_BYTES: usize = 40;
const MAX_LOOP_NAME_BYTES: usize = 48;
/// A loop of this name would be adopted by the first session that stops, so an import never uses it.
const ADOPTED_LOOP_NAME: &str = "current";

/// The merged content of all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergedImport {
    /// Letters, digits and `-`.
    pub name: Option<String>,
    pub goal: Vec<String>,
    pub features: Vec<ImportedFeature>,
    /// Each with the file that declares it.
    pub commands: Vec<(String, ProjectCommand)>,
    pub limits: ImportedLimits,
    pub protect: Vec<String>,
    pub line_rules: Vec<LineRule>,
    /// Paths of documents that the agent should read.
    pub references: Vec<String>,
    /// Each with the file that contains it.
    pub progress: Vec<(String, String)>,
    /// Conflicts between or within the files, as text.
    pub conflicts: Vec<String>,
}

pub fn merge_sources(sources: &[ImportSource]) -> MergedImport {
    let mut merged = MergedImport::default();
    for source in sources {
        if let Ok(content) = &source.content {
            add_source(&mut merged, &source.path, content);
        }
    }
    let promise = || merged.goal.iter().find_map(|text| promise::find_promise(text));
    merged.limits.promise = merged.limits.promise.take().or_else(promise);
    if merged.features.len() > MAX_LIST_ITEMS {
        let more = merged.features.len().saturating_sub(MAX_LIST_ITEMS);
        merged.features.truncate(MAX_LIST_ITEMS);
        merged.conflicts.push(format!(
            "a list can have {MAX_LIST_ITEMS} features; {more} more were not imported"
        ));
    }
    if merged.conflicts.len() > MAX_CONFLICTS {
        let more = merged.conflicts.len().saturating_sub(MAX_CONFLICTS);
        merged.conflicts.truncate(MAX_CONFLICTS);
        merged.conflicts.push(format!("and {more} more"));
    }
    merged
}

fn add_source(merged: &mut MergedImport, path: &str, content: &ImportedContent) {
    let name = content.name.as_deref().and_then(loop_slug);
    merged.name = merged.name.take().or(name);
    for paragraph in &content.goal {
        if !merged.goal.contains(paragraph) {
            merged.goal.push(paragraph.clone());
        }
    }
    let mut features = content.features.clone();
    let dropped = drop_unusable_checks(&mut features);
    merged.conflicts.extend(dropped.into_iter().map(|what| format!("`{path}`: {what}")));
    sort_by_priority(&mut features);
    let same = drop_duplicates(&mut features, merged);
    if !same.is_empty() {
        let items = match same.len() {
            1 => "1 of its items is".to_string(),
            count => format!("{count} of its items are"),
        };
        merged.conflicts.push(format!("`{path}`: {items} also in an earlier file"));
    }
    assign_unique_ids(&mut features, merged, path, same);
    let known = merged.features.iter().map(|feature| feature.id.clone()).collect();
    let troubles = sort_by_dependencies(&mut features, &known);
    merged.conflicts.extend(troubles.into_iter().map(|what| format!("`{path}`: {what}")));
    merged.features.extend(features);
    let commands = content.commands.iter().map(|command| (path.to_string(), command.clone()));
    merged.commands.extend(commands);
    merged.limits = std::mem::take(&mut merged.limits).or(&content.limits);
    for glob in &content.protect {
        if !merged.protect.contains(glob) {
            merged.protect.push(glob.clone());
        }
    }
    merged.line_rules.extend(content.line_rules.clone());
    merged.references.extend(content.is_reference.then(|| path.to_string()));
    merged.progress.extend(content.progress.clone().map(|text| (path.to_string(), text)));
}

/// Derives a loop name of letters, digits and `-` from the name of the work; of a branch only the last part is used.
pub fn loop_slug(name: &str) -> Option<String> {
    let name = name.trim().rsplit('/').next().unwrap_or(name);
    let mut out = String::new();
    for char in name.chars() {
        if char.is_ascii_alphanumeric() {
            out.push(char.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(MAX_LOOP_NAME_BYTES);
    let out = out.trim_matches('-');
    (!out.is_empty() && out != ADOPTED_LOOP_NAME).then(|| out.to_string())
}

/// Drops checks that a feature list cannot have, and returns a message for each.
fn drop_unusable_checks(features: &mut [ImportedFeature]) -> Vec<String> {
    let mut dropped = Vec::new();
    for feature in features {
        let is_usable = feature.verify.as_ref().is_none_or(|check| match check {
            ItemCheck::Argv(words) => {
                let is_word = |word: &String| {
                    word.len() <= MAX_WORD_BYTES && !word.chars().any(text::is_hidden)
                };
                words.len() <= MAX_CHECK_WORDS && words.iter().all(is_word)
            }
            ItemCheck::Shell { shell } => shell.len() <= MAX_SHELL_BYTES,
        });
        if !is_usable {
            let name = if feature.id.is_empty() { &feature.description } else { &feature.id };
            let name = text::clean_line(name, 80);
            dropped.push(format!("the check of `{name}` is too long or not printable"));
            feature.verify = None;
        }
    }
    dropped
}

/// Sorts by priority, 1 first. If any feature has none, the author's order is kept.
fn sort_by_priority(features: &mut [ImportedFeature]) {
    let rank = |feature: &ImportedFeature| feature.priority.as_ref()?.trim().parse::<i64>().ok();
    if features.iter().all(|feature| rank(feature).is_some()) {
        features.sort_by_key(rank);
    }
}

fn is_plain_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(plain)
}

/// Removes features that another file has with the same text, and returns the map from their ids to the known ids. Such
/// a feature is done only if both files say so.
fn drop_duplicates(
    features: &mut Vec<ImportedFeature>,
    merged: &mut MergedImport,
) -> BTreeMap<String, String> {
    let words = |feature: &ImportedFeature| (feature.description.clone(), feature.steps.clone());
    let places = merged.features.iter().enumerate();
    let known: BTreeMap<_, usize> = places.map(|(place, it)| (words(it), place)).collect();
    let mut same = BTreeMap::new();
    features.retain(|feature| {
        let place = known.get(&words(feature));
        let Some(known) = place.and_then(|place| merged.features.get_mut(*place)) else {
            return true;
        };
        let is_same = known.verify == feature.verify && known.notes == feature.notes;
        if is_same {
            known.passes &= feature.passes;
            let id = if feature.id.is_empty() { &feature.description } else { &feature.id };
            same.insert(id.clone(), known.id.clone());
        }
        !is_same
    });
    same
}

/// Gives every feature a unique id, and updates the dependencies on it.
fn assign_unique_ids(
    features: &mut [ImportedFeature],
    merged: &mut MergedImport,
    path: &str,
    mut new_names: BTreeMap<String, String>,
) {
    let known = merged.features.len();
    let mut taken =
        UsedIds(merged.features.iter().map(|feature| (feature.id.clone(), 0)).collect());
    for (number, feature) in (1..).zip(features.iter_mut()) {
        let position = known.saturating_add(number);
        let wanted = match feature.id.trim() {
            id if is_plain_id(id) => id.to_string(),
            id => {
                loop_slug(id).filter(|id| is_plain_id(id)).unwrap_or_else(|| position.to_string())
            }
        };
        let id = take_free_id(&wanted, &mut taken);
        if id != wanted && !feature.id.trim().is_empty() {
            merged.conflicts.push(format!(
                "`{path}`: the id `{wanted}` is used twice; one was renamed to `{id}`"
            ));
        }
        if !feature.id.trim().is_empty() {
            new_names.entry(feature.id.clone()).or_insert_with(|| id.clone());
        }
        feature.id = id;
    }
    for after in features.iter_mut().flat_map(|feature| &mut feature.after) {
        if let Some(name) = new_names.get(after.as_str()) {
            after.clone_from(name);
        }
    }
}

/// The names in use, with how often each was requested.
#[derive(Default)]
struct UsedIds(BTreeMap<String, u32>);

fn take_free_id(wanted: &str, taken: &mut UsedIds) -> String {
    let mut name = wanted.to_string();
    while taken.0.contains_key(&name) {
        let count = taken.0.entry(wanted.to_string()).or_default();
        *count = count.saturating_add(1);
        name = format!("{wanted}-{}", count.saturating_add(1));
    }
    taken.0.insert(name.clone(), 0);
    name
}

/// Sorts features after their dependencies, and drops impossible dependencies. Returns a message for each of those.
fn sort_by_dependencies(
    features: &mut Vec<ImportedFeature>,
    known: &BTreeSet<String>,
) -> Vec<String> {
    let mut troubles = Vec::new();
    let ids: BTreeSet<String> = features.iter().map(|feature| feature.id.clone()).collect();
    for feature in features.iter_mut() {
        let ImportedFeature { id, after, .. } = feature;
        after.retain(|other| {
            let is_there = (ids.contains(other) || known.contains(other)) && other != id;
            if !is_there {
                let what = if other == id { "itself" } else { "a missing feature" };
                troubles.push(format!(
                    "`{id}` depends on {what} (`{other}`); the dependency was dropped"
                ));
            }
            is_there
        });
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); features.len()];
    let here =
        |feature: &ImportedFeature| feature.after.iter().filter(|id| ids.contains(*id)).count();
    let mut missing: Vec<usize> = features.iter().map(here).collect();
    for (place, feature) in features.iter().enumerate() {
        places.insert(feature.id.clone(), place);
    }
    for (place, feature) in features.iter().enumerate() {
        for before in feature.after.iter().filter_map(|id| places.get(id)) {
            followers.get_mut(*before).into_iter().for_each(|list| list.push(place));
        }
    }
    let mut waiting: BTreeSet<usize> = (0..features.len()).collect();
    let is_free = |place: &usize, missing: &[usize]| missing.get(*place) == Some(&0);
    let mut ready: BTreeSet<usize> =
        waiting.iter().copied().filter(|place| is_free(place, &missing)).collect();
    let mut sorted = Vec::with_capacity(features.len());
    while let Some(place) = ready.pop_first().or_else(|| waiting.first().copied()) {
        waiting.remove(&place);
        if !is_free(&place, &missing)
            && let Some(feature) = features.get_mut(place)
        {
            let is_later = |id: &String| places.get(id).is_some_and(|it| waiting.contains(it));
            troubles.push(break_cycle(feature, is_later));
        }
        sorted.push(place);
        for follower in followers.get(place).into_iter().flatten() {
            if let Some(count) = missing.get_mut(*follower) {
                *count = count.saturating_sub(1);
                if *count == 0 && waiting.contains(follower) {
                    ready.insert(*follower);
                }
            }
        }
    }
    let mut taken: Vec<Option<ImportedFeature>> =
        std::mem::take(features).into_iter().map(Some).collect();
    features.extend(sorted.into_iter().filter_map(|place| taken.get_mut(place)?.take()));
    troubles
}

/// Drops the dependencies of a feature that are part of a cycle, so that it can come first.
fn break_cycle(feature: &mut ImportedFeature, is_later: impl Fn(&String) -> bool) -> String {
    let (dropped, kept): (Vec<_>, Vec<_>) =
        std::mem::take(&mut feature.after).into_iter().partition(is_later);
    feature.after = kept;
    let dropped: Vec<_> = dropped.iter().map(|other| format!("`{other}`")).collect();
    format!("`{}` depends on {} in a cycle; the cycle was broken", feature.id, dropped.join(", "))
}
