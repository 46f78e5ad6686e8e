//! Loop directories: listing and creating them, and changing their feature lists on behalf of people and agents.

mod create;
mod feature_draft;
mod list_edit;

use crate::loop_directory::{self, LOOPS_DIR};
use crate::run_lists::{ListError, ListFile};
use ralph_core::input_bounds::MAX_LIST_BYTES;
use ralph_core::record::ListKind;
use ralph_core::run_terms::GoalTooLong;
use ralph_core::source::feature_list::{self, FeatureList};
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError, LockError};
use std::path::{Path, PathBuf};

pub use create::{InitialList, NewLoop, create_loop};
pub use feature_draft::{FeatureDraft, parse_features};

const MAX_LOOPS: usize = 1000;
const MAX_LOOP_NAME_BYTES: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    #[error(transparent)]
    List(#[from] ListError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot serialize the features")]
    Serialize(#[from] serde_json::Error),
    #[error(transparent)]
    Goal(#[from] GoalTooLong),
    #[error("`{0}` is not a valid loop name")]
    InvalidLoopName(String),
    #[error("`{}` already exists and was not changed", .0.display())]
    AlreadyExists(PathBuf),
    #[error("`{}` leads outside the project", .0.display())]
    OutsideProject(PathBuf),
    #[error("`{}` contains no items", .0.display())]
    EmptyList(PathBuf),
    #[error("there is no feature `{id}` in `{}`", path.display())]
    NoSuchFeature { path: PathBuf, id: String, near: Option<String> },
    #[error("feature `{0}` already exists")]
    IdIsTaken(String),
    #[error("`{0}` is not a valid feature id")]
    InvalidId(String),
    #[error("cannot change `{}`: {why}", path.display())]
    CannotChange { path: PathBuf, why: String },
}

/// A directory with a feature list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureLoop {
    pub name: String,
    /// Absolute, without symbolic links.
    pub directory: PathBuf,
}

/// Whether a claim is made or withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimAction {
    Made,
    Withdrawn,
}

/// Whether a claim changed the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimResult {
    Changed,
    /// The feature already had this value, so nothing was written.
    Unchanged,
}

impl FeatureLoop {
    pub fn from_directory(directory: &Path) -> Self {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, directory: directory.to_path_buf() }
    }

    pub fn list(&self) -> ListFile {
        ListFile {
            path: self.directory.join(loop_directory::FEATURES_FILE),
            kind: ListKind::Features,
        }
    }
}

/// The loops of a project, sorted by name.
pub fn find_loops(project: &Path) -> Result<Vec<FeatureLoop>, FileError> {
    let place = project.join(LOOPS_DIR);
    let names = match fs::list(&place, MAX_LOOPS) {
        Ok(names) => names,
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut loops: Vec<FeatureLoop> = names
        .into_iter()
        .filter_map(|name| {
            let name = name.into_string().ok()?;
            let directory = fs::resolve(&place.join(&name))?;
            let has_list =
                fs::stat_no_follow(&directory.join(loop_directory::FEATURES_FILE)).is_some();
            (directory.to_str().is_some() && has_list).then_some(FeatureLoop { name, directory })
        })
        .collect();
    loops.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(loops)
}

/// Whether a word is a valid loop name. It becomes part of a path.
pub fn is_loop_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_LOOP_NAME_BYTES).contains(&name.len())
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// Whether the project has no loop of this name.
pub fn is_free_loop_name(project: &Path, name: &str) -> bool {
    fs::stat_no_follow(&project.join(LOOPS_DIR).join(name)).is_none()
}

/// A name that no loop of the project has: the wanted one, or that with a number.
pub fn free_loop_name(project: &Path, wanted: &str) -> Option<String> {
    let numbered = (2..=MAX_LOOPS).map(|number| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.to_string()).chain(numbered);
    names.find(|name| is_free_loop_name(project, name))
}

/// Sets `passes` of a feature and changes nothing else.
pub fn set_claim(
    home: &RalphHome,
    of: &FeatureLoop,
    name: &str,
    claim: ClaimAction,
    deadline: &Deadline,
) -> Result<ClaimResult, FeatureError> {
    let path = of.list().path;
    edit_list(home, of, deadline, |bytes, list| {
        let position = feature_position(&path, list, name)?;
        let wanted = claim == ClaimAction::Made;
        let Some(feature) = list.features.get(position).filter(|known| known.passes != wanted)
        else {
            return Ok((None, ClaimResult::Unchanged));
        };
        let after = list_edit::with_passes(bytes, position, wanted);
        let mut expected = list.clone();
        expected.features[position] = feature_list::Feature { passes: wanted, ..feature.clone() };
        let after = check_edit(&path, after, &expected)?;
        Ok((Some(after), ClaimResult::Changed))
    })
}

/// Appends a feature to a list and returns its id.
pub fn add_feature(
    home: &RalphHome,
    of: &FeatureLoop,
    draft: &FeatureDraft,
    deadline: &Deadline,
) -> Result<String, FeatureError> {
    let path = of.list().path;
    edit_list(home, of, deadline, |bytes, list| {
        let id = match &draft.id {
            Some(id) if !feature_list::is_plain_id(id) => {
                return Err(FeatureError::InvalidId(id.clone()));
            }
            Some(id) if list.features.iter().any(|feature| feature.id == *id) => {
                return Err(FeatureError::IdIsTaken(id.clone()));
            }
            Some(id) => id.clone(),
            None => next_free_id(list),
        };
        let draft = FeatureDraft { id: Some(id.clone()), ..draft.clone() };
        let mut expected = list.clone();
        expected.features.push(draft.to_feature(&id));
        let after = check_edit(&path, list_edit::with_feature(bytes, list, &draft), &expected)?;
        Ok((Some(after), id))
    })
}

/// One more than the highest number, so that a new feature does not reuse the id of a removed one.
fn next_free_id(list: &FeatureList) -> String {
    let numbers = list.features.iter().filter_map(|feature| feature.id.parse::<u64>().ok());
    let highest = numbers.max().unwrap_or(0).max(list.features.len() as u64);
    let mut next = highest.saturating_add(1);
    while list.features.iter().any(|feature| feature.id == next.to_string()) {
        next = next.wrapping_add(1);
    }
    next.to_string()
}

/// The index of the named feature: `4`, or `4 (2)` for the second one with that id, optionally prefixed with `feature`.
pub fn feature_position(
    path: &Path,
    list: &FeatureList,
    name: &str,
) -> Result<usize, FeatureError> {
    let wanted = if name.starts_with("feature ") { name } else { &format!("feature {name}") };
    let items = list.items();
    items.iter().position(|item| item.name == wanted).ok_or_else(|| {
        let bare = |name: &'_ str| name.trim_start_matches("feature ").to_string();
        let names: Vec<String> = items.iter().map(|item| bare(&item.name)).collect();
        let near = text::nearest(&bare(name), names.iter().map(String::as_str));
        let near = near.map(str::to_string);
        FeatureError::NoSuchFeature {
            path: path.to_path_buf(),
            id: text::clean_line(name, 80),
            near,
        }
    })
}

pub fn read_feature_list(path: &Path) -> Result<FeatureList, ListError> {
    parse_feature_list(path, &fs::read(path, MAX_LIST_BYTES)?)
}

fn parse_feature_list(path: &Path, bytes: &[u8]) -> Result<FeatureList, ListError> {
    feature_list::read_features(bytes)
        .map_err(|garbled| ListError::Invalid { path: path.to_path_buf(), why: garbled.why })
}

/// Checks that the edited bytes parse to exactly the intended list, so that nothing else can be written.
fn check_edit(
    path: &Path,
    after: Result<Vec<u8>, String>,
    expected: &FeatureList,
) -> Result<Vec<u8>, FeatureError> {
    let cannot = |why: String| FeatureError::CannotChange { path: path.to_path_buf(), why };
    let after = after.map_err(cannot)?;
    match feature_list::read_features(&after) {
        Ok(list) if list == *expected => Ok(after),
        Ok(_) | Err(_) => Err(cannot("it does not have the format of a feature list".to_string())),
    }
}

/// Changes a list under a lock, which serializes concurrent changes.
fn edit_list<T>(
    home: &RalphHome,
    of: &FeatureLoop,
    deadline: &Deadline,
    edit: impl FnOnce(&[u8], &FeatureList) -> Result<(Option<Vec<u8>>, T), FeatureError>,
) -> Result<T, FeatureError> {
    let path = of.list().path;
    let lock = home.adoption(&of.directory).with_extension("lock");
    if let Some(parent) = lock.parent() {
        fs::create_private_dir(parent)?;
    }
    let _lock = fs::acquire_lock(&lock, deadline)?;
    if fs::resolve(&path).is_some_and(|resolved| !resolved.starts_with(&of.directory)) {
        return Err(FileError::refused(
            &path,
            "it resolves to a path outside the loop's directory",
        )
        .into());
    }
    let bytes = fs::read(&path, MAX_LIST_BYTES).map_err(ListError::from)?;
    let list = parse_feature_list(&path, &bytes)?;
    let (after, answer) = edit(&bytes, &list)?;
    if let Some(after) = after {
        fs::replace_user_file(&path, &after)?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests;
