//! Creates a loop directory with its list, progress file and instructions.

use super::{Draft, FeatureError, Loop, PLACE, PROMPT, draft};
use crate::lists::ListError;
use crate::loop_directory;
use ralph_core::source::features;
use ralph_core::text;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

const LONGEST_GOAL: usize = 16 * 1024;

/// Where the initial list comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// One feature that explains how to write others.
    Example,
    /// A file: a feature list, which is copied, or a text with items.
    File(PathBuf),
}

/// The parameters of a new loop.
#[derive(Clone, Debug)]
pub struct New<'a> {
    pub name: &'a str,
    pub source: &'a Source,
    pub goal: Option<&'a str>,
    pub max_iterations: u32,
}

/// Creates the directory and its three files. Existing files are never changed.
pub fn create(project: &Path, new: &New<'_>) -> Result<Loop, FeatureError> {
    if !super::is_name(new.name) {
        return Err(FeatureError::NoName(text::line(new.name, 80)));
    }
    let list = list(new.source)?;
    let directory = project.join(PLACE).join(new.name);
    if fs::stat_link(&directory).is_some() {
        return Err(FeatureError::IsThere(directory));
    }
    let is_inside = |path: &Path| fs::resolve(path).is_none_or(|path| path.starts_with(project));
    // A symbolic link in the path would create the files somewhere else.
    let above = [".claude", ".claude/data", PLACE].map(|part| project.join(part));
    let dangling = |path: &&PathBuf| fs::stat_link(path).is_some() && !fs::exists(path);
    if let Some(out) = above.iter().find(|path| !is_inside(path) || dangling(path)) {
        return Err(FeatureError::LeadsOut(out.clone()));
    }
    fs::create_dir_ordinary(&directory)?;
    let progress = progress(new);
    let files = [
        (loop_directory::FEATURES, list.as_slice()),
        (loop_directory::PROGRESS, progress.as_bytes()),
        (PROMPT, prompt(new).as_bytes()),
    ]
    .map(|(name, bytes)| (directory.join(name), bytes.to_vec()));
    for (path, bytes) in files {
        if !fs::create_new_ordinary(&path, &bytes)? {
            return Err(FeatureError::IsThere(path));
        }
    }
    let directory = fs::resolve(&directory).unwrap_or(directory);
    Ok(Loop { name: new.name.to_string(), directory })
}

fn list(source: &Source) -> Result<Vec<u8>, FeatureError> {
    let path = match source {
        Source::Example => return Ok(draft::file(&[example()])),
        Source::File(path) => path,
    };
    let bytes = fs::read(path, loop_directory::LARGEST_LIST)?;
    if is_json(path, &bytes) {
        let list = features::read(&bytes)
            .map_err(|garbled| ListError::Garbled { path: path.clone(), why: garbled.why })?;
        let has_some = !list.features.is_empty();
        return has_some.then_some(bytes).ok_or_else(|| FeatureError::ListsNothing(path.clone()));
    }
    let drafts = draft::list_of(&bytes);
    if drafts.is_empty() {
        return Err(FeatureError::ListsNothing(path.clone()));
    }
    let list = draft::file(&drafts);
    // The generated list must be readable again.
    features::read(&list)
        .map_err(|garbled| ListError::Garbled { path: path.clone(), why: garbled.why })?;
    Ok(list)
}

fn is_json(path: &Path, bytes: &[u8]) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match ending.as_deref() {
        Some("json") => true,
        Some("md" | "markdown" | "txt") => false,
        Some(_) | None => matches!(bytes.trim_ascii_start(), [b'{' | b'[', ..]),
    }
}

fn example() -> Draft {
    Draft {
        description: "Replace this with what a user can do once it is done, in one sentence"
            .to_string(),
        steps: vec![
            "Describe how to see that it works: what to open, what to type, what to expect".to_string(),
            "Add `\"verify\": [\"cargo\", \"test\", \"csv_export\"]` if a command can check it; then only its result counts"
                .to_string(),
        ],
        ..Draft::default()
    }
}

fn progress(new: &New<'_>) -> String {
    format!(
        "# Progress of {}\n\n- Iteration: 0\n- Max Iterations: {}\n- Status: RUNNING\n",
        new.name, new.max_iterations
    )
}

fn prompt(new: &New<'_>) -> String {
    let goal = new.goal.map(|goal| text::cut(text::clean(goal).trim(), LONGEST_GOAL));
    let goal = goal.filter(|goal| !goal.is_empty());
    let goal = goal.map(|goal| format!("{goal}\n\n")).unwrap_or_default();
    let name = new.name;
    format!(
        "# {name}

{goal}Work through the features in `feature_list.json`, next to this file, one at a time.

1. `ralph feature next --loop {name}` shows the next one: its description, its steps, and its check if it has one.
2. Implement it. Do nothing else until it works.
3. `ralph feature verify --loop {name} ID` runs its check. Without a check, follow its steps yourself.
4. `ralph feature claim --loop {name} ID` marks it as done. That is a claim: its check decides, or, if it has
   none, whether every gate passes.
5. Add notes for the next session at the end of `progress.txt`, commit, and continue with 1.

Only `passes` may change in the list. Descriptions, steps and checks were agreed on at the start; a feature
that is edited or removed holds the run. To add a missing feature: `ralph feature add --loop {name} \"…\"`

When nothing is left, stop. If only a person can decide something, run `ralph ask \"…\"` and stop.
"
    )
}
