//! Many files, one loop.

use std::collections::{BTreeMap, BTreeSet};

use super::{Command, Feature, Limits, Source, Understood};

/// What the reader of a feature list takes.
const MOST_FEATURES: usize = 20_000;
const MOST_TROUBLES: usize = 20;
const LONGEST_ID: usize = 40;
const LONGEST_NAME: usize = 48;
/// The directory that the first session to stop takes over: nobody asked for that.
const TAKEN_OVER: &str = "current";

/// All that was said, in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Letters, digits and `-`.
    pub name: Option<String>,
    pub goal: Vec<String>,
    pub features: Vec<Feature>,
    /// With the files that name them.
    pub commands: Vec<(String, Command)>,
    pub limits: Limits,
    pub protect: Vec<String>,
    /// With the files that they stand in.
    pub progress: Vec<(String, String)>,
    /// What did not fit together, in words.
    pub troubles: Vec<String>,
}

pub fn merge(sources: &[Source]) -> Merged {
    let mut merged = Merged::default();
    for source in sources {
        if let Ok(said) = &source.said {
            add(&mut merged, &source.path, said);
        }
    }
    if merged.features.len() > MOST_FEATURES {
        let more = merged.features.len().saturating_sub(MOST_FEATURES);
        merged.features.truncate(MOST_FEATURES);
        merged.troubles.push(format!(
            "a list holds {MOST_FEATURES} features; {more} more stay where they are"
        ));
    }
    if merged.troubles.len() > MOST_TROUBLES {
        let more = merged.troubles.len().saturating_sub(MOST_TROUBLES);
        merged.troubles.truncate(MOST_TROUBLES);
        merged.troubles.push(format!("and {more} more like these"));
    }
    merged
}

fn add(merged: &mut Merged, path: &str, said: &Understood) {
    let name = said.name.as_deref().and_then(slug);
    merged.name = merged.name.take().or(name);
    for paragraph in &said.goal {
        if !merged.goal.contains(paragraph) {
            merged.goal.push(paragraph.clone());
        }
    }
    let mut features = said.features.clone();
    by_priority(&mut features);
    let same = drop_known(&mut features, merged);
    if !same.is_empty() {
        let count = same.len();
        merged.troubles.push(format!("`{path}`: {count} of its items are in the files before it"));
    }
    name_apart(&mut features, (merged, path), same);
    let known = merged.features.iter().map(|feature| feature.id.clone()).collect();
    let troubles = order(&mut features, &known);
    merged.troubles.extend(troubles.into_iter().map(|what| format!("`{path}`: {what}")));
    merged.features.extend(features);
    let commands = said.commands.iter().map(|command| (path.to_string(), command.clone()));
    merged.commands.extend(commands);
    merged.limits = std::mem::take(&mut merged.limits).or(&said.limits);
    for glob in &said.protect {
        if !merged.protect.contains(glob) {
            merged.protect.push(glob.clone());
        }
    }
    merged.progress.extend(said.progress.clone().map(|text| (path.to_string(), text)));
}

/// Letters, digits and `-`, from what somebody calls the work; a branch goes by its last part.
pub fn slug(name: &str) -> Option<String> {
    let name = name.trim().rsplit('/').next().unwrap_or(name);
    let mut out = String::new();
    for char in name.chars() {
        if char.is_ascii_alphanumeric() {
            out.push(char.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(LONGEST_NAME);
    let out = out.trim_matches('-');
    (!out.is_empty() && out != TAKEN_OVER).then(|| out.to_string())
}

/// Tools work by priority, and 1 is the first. Where not every feature has one, the order is the author's.
fn by_priority(features: &mut [Feature]) {
    let rank = |feature: &Feature| feature.priority.as_ref()?.trim().parse::<i64>().ok();
    if features.iter().all(|feature| rank(feature).is_some()) {
        features.sort_by_key(rank);
    }
}

fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
}

/// Takes out what another file says in the same words, and returns what it is called here and there. It is done where
/// both say so.
fn drop_known(features: &mut Vec<Feature>, merged: &mut Merged) -> BTreeMap<String, String> {
    let words = |feature: &Feature| (feature.description.clone(), feature.steps.clone());
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

/// Gives every feature an id of its own, and what waits for it the same one.
fn name_apart(
    features: &mut [Feature],
    (merged, path): (&mut Merged, &str),
    mut new_names: BTreeMap<String, String>,
) {
    let known = merged.features.len();
    let mut taken = Taken(merged.features.iter().map(|feature| (feature.id.clone(), 0)).collect());
    for (number, feature) in (1..).zip(features.iter_mut()) {
        let position = known.saturating_add(number);
        let wanted = match feature.id.trim() {
            id if is_plain(id) => id.to_string(),
            id => slug(id).filter(|id| is_plain(id)).unwrap_or_else(|| position.to_string()),
        };
        let id = free(&wanted, &mut taken);
        if id != wanted && !feature.id.trim().is_empty() {
            merged
                .troubles
                .push(format!("`{path}`: the id `{wanted}` is used twice; one is `{id}` now"));
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

/// Names that are used, with how often each was wanted.
#[derive(Default)]
struct Taken(BTreeMap<String, u32>);

fn free(wanted: &str, taken: &mut Taken) -> String {
    let mut name = wanted.to_string();
    while taken.0.contains_key(&name) {
        let count = taken.0.entry(wanted.to_string()).or_default();
        *count = count.saturating_add(1);
        name = format!("{wanted}-{}", count.saturating_add(1));
    }
    taken.0.insert(name.clone(), 0);
    name
}

/// Puts what is waited for first, and drops what cannot be waited for; says what that was.
fn order(features: &mut Vec<Feature>, known: &BTreeSet<String>) -> Vec<String> {
    let mut troubles = Vec::new();
    let ids: BTreeSet<String> = features.iter().map(|feature| feature.id.clone()).collect();
    for feature in features.iter_mut() {
        let Feature { id, after, .. } = feature;
        after.retain(|other| {
            let is_there = (ids.contains(other) || known.contains(other)) && other != id;
            if !is_there {
                let why = if other == id { "itself" } else { "what is not there" };
                troubles.push(format!("`{id}` waits for {why} (`{other}`); that was dropped"));
            }
            is_there
        });
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); features.len()];
    let here = |feature: &Feature| feature.after.iter().filter(|id| ids.contains(*id)).count();
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
            troubles.push(break_open(feature, is_later));
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
    let mut taken: Vec<Option<Feature>> = std::mem::take(features).into_iter().map(Some).collect();
    features.extend(sorted.into_iter().filter_map(|place| taken.get_mut(place)?.take()));
    troubles
}

/// Nothing else can come first, so this one does.
fn break_open(feature: &mut Feature, is_later: impl Fn(&String) -> bool) -> String {
    let (dropped, kept): (Vec<_>, Vec<_>) =
        std::mem::take(&mut feature.after).into_iter().partition(is_later);
    feature.after = kept;
    let dropped: Vec<_> = dropped.iter().map(|other| format!("`{other}`")).collect();
    format!("`{}` waits for {} in a circle; that was dropped", feature.id, dropped.join(", "))
}
