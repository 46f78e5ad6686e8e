//! Creates a loop directory with its list, progress file and instructions.

use super::{FeatureDraft, FeatureError, FeatureLoop, feature_draft};
use crate::loop_directory::{self, LOOPS_DIR, PROMPT_FILE};
use ralph_core::input_bounds::MAX_LIST_BYTES;
use ralph_core::run_terms;
use ralph_core::text;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// Where the initial list comes from.
#[derive(Clone, Debug)]
pub enum InitialList {
    /// One feature that explains how to write others.
    Example,
    /// A file: a feature list, which is copied, or a text with items.
    File(PathBuf),
    /// The same, read from stdin.
    Text(Vec<u8>),
    /// Features that are known already.
    Drafts(Vec<FeatureDraft>),
}

/// The parameters of a new loop.
#[derive(Clone, Debug)]
pub struct NewLoop<'a> {
    pub name: &'a str,
    pub source: &'a InitialList,
    pub goal: Option<&'a str>,
    pub max_iterations: u32,
}

/// Creates the directory and its three files. Existing files are never changed.
pub fn create_loop(project: &Path, new: &NewLoop<'_>) -> Result<FeatureLoop, FeatureError> {
    if !super::is_loop_name(new.name) {
        return Err(FeatureError::InvalidLoopName(text::clean_line(new.name, 80)));
    }
    let list = initial_list_bytes(new.source)?;
    let prompt = prompt_text(new);
    // It becomes the goal of a run.
    run_terms::check_goal_length(prompt.as_bytes())?;
    let directory = project.join(LOOPS_DIR).join(new.name);
    if fs::stat_no_follow(&directory).is_some() {
        return Err(FeatureError::AlreadyExists(directory));
    }
    let is_inside = |path: &Path| fs::resolve(path).is_none_or(|path| path.starts_with(project));
    // A symbolic link in the path would create the files somewhere else.
    let above: Vec<_> = Path::new(LOOPS_DIR).ancestors().map(|part| project.join(part)).collect();
    let dangling = |path: &&PathBuf| fs::stat_no_follow(path).is_some() && !fs::exists(path);
    if let Some(out) = above.iter().rev().find(|path| !is_inside(path) || dangling(path)) {
        return Err(FeatureError::OutsideProject(out.clone()));
    }
    fs::create_user_dir(&directory)?;
    let progress = progress_text(new);
    let files = [
        (loop_directory::FEATURES_FILE, list.as_slice()),
        (loop_directory::PROGRESS_FILE, progress.as_bytes()),
        (PROMPT_FILE, prompt.as_bytes()),
    ]
    .map(|(name, bytes)| (directory.join(name), bytes.to_vec()));
    for (path, bytes) in files {
        if !fs::create_new_user_file(&path, &bytes)? {
            return Err(FeatureError::AlreadyExists(path));
        }
    }
    let directory = fs::resolve(&directory).unwrap_or(directory);
    Ok(FeatureLoop { name: new.name.to_string(), directory })
}

fn initial_list_bytes(source: &InitialList) -> Result<Vec<u8>, FeatureError> {
    let (path, bytes) = match source {
        InitialList::Example => return Ok(feature_draft::serialize_list(&[example_feature()])?),
        InitialList::Drafts(drafts) => return Ok(feature_draft::serialize_list(drafts)?),
        InitialList::File(path) => (path.as_path(), fs::read(path, MAX_LIST_BYTES)?),
        InitialList::Text(bytes) => (Path::new("-"), bytes.clone()),
    };
    let empty = || FeatureError::EmptyList(path.to_path_buf());
    if is_json(path, &bytes) {
        let has_some = !super::parse_feature_list(path, &bytes)?.features.is_empty();
        return has_some.then_some(bytes).ok_or_else(empty);
    }
    let drafts = feature_draft::parse_features(&bytes);
    if drafts.is_empty() {
        return Err(empty());
    }
    let list = feature_draft::serialize_list(&drafts)?;
    // The generated list must be readable again.
    super::parse_feature_list(path, &list)?;
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

fn example_feature() -> FeatureDraft {
    FeatureDraft {
        description: "Replace this with what a user can do once it is done, in one sentence"
            .to_string(),
        steps: vec![
            "Describe how to see that it works: what to open, what to type, what to expect".to_string(),
            "Add `\"verify\": [\"cargo\", \"test\", \"csv_export\"]` if a command can check it; then only its result counts"
                .to_string(),
        ],
        ..FeatureDraft::default()
    }
}

fn progress_text(new: &NewLoop<'_>) -> String {
    format!(
        "# Progress of {}\n\n- Iteration: 0\n- Max Iterations: {}\n- Status: RUNNING\n",
        new.name, new.max_iterations
    )
}

fn prompt_text(new: &NewLoop<'_>) -> String {
    let goal = new.goal.map(|goal| text::clean(goal).trim().to_string());
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
