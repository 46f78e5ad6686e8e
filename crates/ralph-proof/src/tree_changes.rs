//! The files that differ between two trees of a project, with their texts.

use std::collections::BTreeSet;
use std::path::Path;

use imara_diff::{Algorithm, Diff, InternedInput};
use ralph_check::FileChange;

use ralph_git::checkpoint::{
    BlobContent, ChangeStatus, ChangedPath, Checkpoint, CheckpointError, CheckpointRepository,
    PathVersion,
};
use ralph_git::tree::{self, TreeEntryMode};
use ralph_sys::clock::Deadline;

/// A larger file is data rather than text that a person wrote.
const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;
/// Limit for all texts of one change together. More than any deliberate change.
const MAX_TOTAL_TEXT_BYTES: usize = 64 * 1024 * 1024;
/// Limits for files that did not change. A project with more tests rarely has copies of them.
const MAX_UNCHANGED_FILES: usize = 5_000;
const MAX_UNCHANGED_BYTES: usize = 16 * 1024 * 1024;
const MAX_PATCH_CHARS: usize = 4_000;

#[derive(Debug, Default)]
pub struct TreeChanges {
    pub all: Vec<ChangedFile>,
    /// The number of files left out because the change is too large.
    pub left_out: usize,
    /// The number of file contents that are missing because the checkpoints are damaged.
    pub missing: usize,
    /// Path and text of test files that did not change, if they were read.
    pub unchanged: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct ChangedFile {
    /// Relative to the project.
    pub path: String,
    pub kind: FileChangeKind,
    /// Deleted from the tree, or a symlink: the file at this path, if any, is not covered by the tree's fingerprint.
    pub is_unfingerprinted: bool,
    text: Option<ChangedText>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChangeKind {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug)]
struct ChangedText {
    before: Option<String>,
    after: Option<String>,
    added: Vec<u32>,
}

impl ChangedFile {
    pub fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// Whether it was modified and is not readable as text.
    pub fn is_unreadable(&self) -> bool {
        self.text.is_none() && self.kind == FileChangeKind::Modified
    }

    pub(crate) fn as_text(&self) -> Option<FileChange<'_>> {
        let ChangedText { before, after, added } = self.text.as_ref()?;
        let (before, after) = (before.as_deref(), after.as_deref());
        Some(FileChange { path: &self.path, before, after, added })
    }
}

/// Two checkpoints, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub struct ComparedCheckpoints<'a> {
    pub base: &'a Checkpoint,
    pub now: &'a Checkpoint,
}

impl TreeChanges {
    /// The differences between two checkpoints, limited to the project.
    pub fn between(
        repository: &CheckpointRepository,
        compared: ComparedCheckpoints<'_>,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let below = project.strip_prefix(repository.root()).unwrap_or(Path::new(""));
        let mut changed = repository.diff(compared.base, compared.now, deadline)?;
        changed.retain(|one| Path::new(&one.path).starts_with(below));
        // A commit may contain them, and the work tree as it is listed never does.
        changed.retain(|one| !tree::is_local_settings(Path::new(&one.path), below));
        Self::read(repository, changed, below, deadline)
    }

    /// The other differences between two checkpoints, with paths relative to the work tree.
    pub(crate) fn outside(
        repository: &CheckpointRepository,
        compared: ComparedCheckpoints<'_>,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let below = project.strip_prefix(repository.root()).unwrap_or(Path::new(""));
        let mut changed = repository.diff(compared.base, compared.now, deadline)?;
        changed.retain(|one| !Path::new(&one.path).starts_with(below));
        changed.retain(|one| !tree::is_local_settings(Path::new(&one.path), below));
        Self::read(repository, changed, Path::new(""), deadline)
    }

    /// Reads the texts of changed files. Their paths become relative to `below`.
    fn read(
        repository: &CheckpointRepository,
        changed: Vec<ChangedPath>,
        below: &Path,
        deadline: &Deadline,
    ) -> Result<Self, CheckpointError> {
        let is_text = |side: &&PathVersion| {
            matches!(side.mode, TreeEntryMode::File | TreeEntryMode::Executable)
        };
        let sides = changed.iter().flat_map(|one| [one.before, one.after]).flatten();
        let ids: Vec<_> = sides.filter(|side| is_text(&side)).map(|side| side.id).collect();
        let blobs = repository.read_blobs(&ids, MAX_TEXT_BYTES, MAX_TOTAL_TEXT_BYTES, deadline)?;
        let text = |side: Option<PathVersion>| {
            let side = side.as_ref().filter(is_text)?;
            let BlobContent::Content(bytes) = blobs.get(&side.id)? else { return None };
            // Other encodings are text too. The checks look only at ASCII, so a lossy conversion is enough.
            (!bytes.contains(&0)).then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        let all =
            changed.into_iter().map(|one| {
                let path = Path::new(&one.path).strip_prefix(below).unwrap_or(Path::new(&one.path));
                let (before, after) = (text(one.before), text(one.after));
                // If one side exists but is not text, the whole change is not text.
                let readable = one.before.is_some() == before.is_some()
                    && one.after.is_some() == after.is_some();
                ChangedFile {
                    path: path.to_string_lossy().into_owned(),
                    is_unfingerprinted: match one.after {
                        None | Some(PathVersion { mode: TreeEntryMode::Symlink, .. }) => true,
                        Some(PathVersion {
                            mode:
                                TreeEntryMode::File
                                | TreeEntryMode::Executable
                                | TreeEntryMode::Repository,
                            ..
                        }) => false,
                    },
                    kind: match one.status {
                        ChangeStatus::Added => FileChangeKind::Added,
                        ChangeStatus::Deleted => FileChangeKind::Deleted,
                        ChangeStatus::Modified | ChangeStatus::TypeChanged => {
                            FileChangeKind::Modified
                        }
                    },
                    text: readable.then(|| ChangedText {
                        added: added_lines(before.as_deref(), after.as_deref()),
                        before,
                        after,
                    }),
                }
            });
        let all = all.collect();
        let left_out = blobs.values().filter(|blob| is_left_out(blob)).count();
        let missing = blobs.values().filter(|blob| **blob == BlobContent::Missing).count();
        Ok(Self { all, left_out, missing, unchanged: Vec::new() })
    }

    /// Reads test files that did not change, in the languages of those that did: a test that is gone may have a copy
    /// there.
    pub fn read_unchanged_tests(
        &mut self,
        repository: &CheckpointRepository,
        now: &Checkpoint,
        project: &Path,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let below = project.strip_prefix(repository.root()).unwrap_or(Path::new(""));
        let extension = |path: &str| path.rsplit_once('.').map(|(_, end)| end.to_string());
        let extensions: BTreeSet<_> =
            self.all.iter().filter_map(|one| extension(&one.path)).collect();
        let changed: BTreeSet<&str> = self.all.iter().map(|one| one.path.as_str()).collect();
        let files = repository.checkpoint_files(now, deadline)?;
        let wanted = files.iter().filter_map(|file| {
            let path = Path::new(&file.path).strip_prefix(below).ok()?.to_str()?;
            let is_wanted = ralph_check::is_test_file(path)
                && extension(path).is_some_and(|end| extensions.contains(&end))
                && !changed.contains(path);
            is_wanted.then(|| (path.to_string(), file.version.id))
        });
        let wanted: Vec<_> = wanted.take(MAX_UNCHANGED_FILES).collect();
        let ids: Vec<_> = wanted.iter().map(|(_, id)| *id).collect();
        let blobs = repository.read_blobs(&ids, MAX_TEXT_BYTES, MAX_UNCHANGED_BYTES, deadline)?;
        let read = wanted.into_iter().filter_map(|(path, id)| match blobs.get(&id)? {
            BlobContent::Content(bytes) => {
                Some((path, String::from_utf8_lossy(bytes).into_owned()))
            }
            BlobContent::TooLarge(_) | BlobContent::Missing => None,
        });
        self.unchanged = read.collect();
        Ok(())
    }

    /// The changed files, and the test files beside them that were read.
    pub fn texts_with_unchanged(&self) -> Vec<FileChange<'_>> {
        let unchanged = self.unchanged.iter().map(|(path, text)| FileChange {
            path,
            before: Some(text),
            after: Some(text),
            added: &[],
        });
        self.texts().into_iter().chain(unchanged).collect()
    }

    /// Modified files: path, text before and text now.
    #[cfg(test)]
    pub(crate) fn sample(files: &[(&str, &str, &str)]) -> Self {
        let file = |(path, before, after): &(&str, &str, &str)| ChangedFile {
            path: path.to_string(),
            kind: FileChangeKind::Modified,
            is_unfingerprinted: false,
            text: Some(ChangedText {
                before: Some(before.to_string()),
                after: Some(after.to_string()),
                added: Vec::new(),
            }),
        };
        Self { all: files.iter().map(file).collect(), ..Self::default() }
    }

    pub fn texts(&self) -> Vec<FileChange<'_>> {
        self.all.iter().filter_map(ChangedFile::as_text).collect()
    }

    /// A unified diff of one file, for display.
    pub fn patch(&self, path: &str) -> Option<String> {
        let text = self.all.iter().find(|change| change.path == path)?.text.as_ref()?;
        let (before, after) =
            (text.before.as_deref().unwrap_or(""), text.after.as_deref().unwrap_or(""));
        let input = InternedInput::new(before, after);
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let printed = diff
            .unified_diff(
                &imara_diff::BasicLineDiffPrinter(&input.interner),
                imara_diff::UnifiedDiffConfig::default(),
                &input,
            )
            .to_string();
        Some(ralph_core::text::truncate(&format!("--- {path}\n{printed}"), MAX_PATCH_CHARS))
    }
}

/// Whether a text was left out only because all texts together are too large.
fn is_left_out(blob: &BlobContent) -> bool {
    match blob {
        BlobContent::TooLarge(size) => {
            usize::try_from(*size).is_ok_and(|size| size <= MAX_TEXT_BYTES)
        }
        BlobContent::Content(_) | BlobContent::Missing => false,
    }
}

/// The line numbers, from 1, of lines added in `after`.
fn added_lines(before: Option<&str>, after: Option<&str>) -> Vec<u32> {
    let input = InternedInput::new(before.unwrap_or(""), after.unwrap_or(""));
    let diff = Diff::compute(Algorithm::Histogram, &input);
    diff.hunks().flat_map(|hunk| hunk.after).map(|line| line.saturating_add(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_added_lines_are_reported() {
        let lines: [(Option<&str>, Option<&str>, &[u32]); 6] = [
            (None, Some("a\nb\n"), &[1, 2]),
            (Some("a\nb\n"), None, &[]),
            (Some("a\nc\n"), Some("a\nb\nc\n"), &[2]),
            (Some("a\nb\nc\n"), Some("a\nc\n"), &[]),
            (Some("a\nb\n"), Some("a\nB\n"), &[2]),
            (Some("a\nb"), Some("a\nb\n"), &[2]),
        ];
        for (before, after, expected) in lines {
            assert_eq!(added_lines(before, after), expected, "{before:?} → {after:?}");
        }
    }
}
