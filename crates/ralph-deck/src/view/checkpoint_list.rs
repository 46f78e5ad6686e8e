//! The checkpoints of a run, the files that differ between two of them, and the result of restoring one.

use ralph_core::id::RunId;
use ralph_git::checkpoint::{
    ChangeStatus, ChangedPath, Checkpoint, CheckpointRepository, LineCounts, PathVersion,
    RestoreFailure, RestorePlan,
};
use ralph_git::tree::TreeEntryMode;
use ralph_sys::clock;
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsStr;

#[derive(Debug, Serialize)]
pub struct CheckpointListView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub root: String,
    pub checkpoints: Vec<CheckpointView>,
}

#[derive(Debug, Serialize)]
pub struct CheckpointView {
    pub number: u32,
    pub at: String,
    pub why: String,
    pub commit: String,
    pub tree: String,
}

#[derive(Debug, Serialize)]
pub struct CheckpointDiffView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub from: u32,
    pub to: Option<u32>,
    pub files: Vec<CheckpointFileView>,
}

#[derive(Debug, Serialize)]
pub struct CheckpointFileView {
    pub path: String,
    pub status: &'static str,
    pub added: Option<u64>,
    pub removed: Option<u64>,
    pub before: Option<FileSideView>,
    pub after: Option<FileSideView>,
}

#[derive(Debug, Serialize)]
pub struct FileSideView {
    pub mode: &'static str,
    pub id: String,
}

#[derive(Debug, Serialize)]
pub struct RestoreView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub number: u32,
    pub dry_run: bool,
    /// The checkpoint of the state before the restore; a dry run makes none.
    pub before: Option<u32>,
    pub files: Vec<CheckpointFileView>,
    pub uncovered: Vec<String>,
    pub failed: Vec<RestoreFailureView>,
}

#[derive(Debug, Serialize)]
pub struct RestoreFailureView {
    pub path: String,
    pub why: String,
}

#[derive(Debug, Serialize)]
pub struct CheckpointMadeView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub number: u32,
    pub new: bool,
    pub unsettled: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct PruneView<'a> {
    pub v: u8,
    pub run: &'a str,
    pub pruned: usize,
}

pub fn checkpoint_list_view<'a>(
    run: &'a RunId,
    repository: &CheckpointRepository,
    found: &[Checkpoint],
) -> CheckpointListView<'a> {
    let checkpoints = found.iter().map(|one| CheckpointView {
        number: one.number,
        at: clock::format_rfc3339(one.at_ms),
        why: one.reason.to_string(),
        commit: repository.hex(&one.commit),
        tree: repository.hex(&one.tree),
    });
    CheckpointListView {
        v: 1,
        run: run.as_str(),
        root: repository.root().to_string_lossy().into_owned(),
        checkpoints: checkpoints.collect(),
    }
}

/// The changed files, with the counts of added and removed lines where they are known.
pub fn file_views(
    repository: &CheckpointRepository,
    changes: &[ChangedPath],
    lines: &[LineCounts],
) -> Vec<CheckpointFileView> {
    let side = |side: Option<PathVersion>| {
        let PathVersion { mode, id } = side?;
        Some(FileSideView { mode: mode_name(mode), id: repository.hex(&id) })
    };
    let counted: HashMap<_, _> = lines.iter().map(|one| (&one.path, one)).collect();
    let files = changes.iter().map(|one| {
        let lines = counted.get(&one.path);
        CheckpointFileView {
            path: one.path.to_string_lossy().into_owned(),
            status: status_name(one.status),
            added: lines.and_then(|lines| lines.added),
            removed: lines.and_then(|lines| lines.removed),
            before: side(one.before),
            after: side(one.after),
        }
    });
    files.collect()
}

/// The view of a restore. `before` is the checkpoint of the state before it, which a dry run does not make.
pub fn restore_view<'a>(
    run: &'a RunId,
    number: u32,
    repository: &CheckpointRepository,
    before: Option<u32>,
    plan: &RestorePlan,
    failed: &[RestoreFailure],
) -> RestoreView<'a> {
    let lossy = |path: &OsStr| path.to_string_lossy().into_owned();
    let failed = failed
        .iter()
        .map(|one| RestoreFailureView { path: lossy(&one.path), why: one.why.clone() });
    RestoreView {
        v: 1,
        run: run.as_str(),
        number,
        dry_run: before.is_none(),
        before,
        files: file_views(repository, &plan.changes, &[]),
        uncovered: plan.uncovered.iter().map(|one| lossy(&one.path)).collect(),
        failed: failed.collect(),
    }
}

fn status_name(status: ChangeStatus) -> &'static str {
    match status {
        ChangeStatus::Added => "added",
        ChangeStatus::Deleted => "deleted",
        ChangeStatus::Modified => "modified",
        ChangeStatus::TypeChanged => "type_changed",
    }
}

fn mode_name(mode: TreeEntryMode) -> &'static str {
    match mode {
        TreeEntryMode::File => "file",
        TreeEntryMode::Executable => "executable",
        TreeEntryMode::Symlink => "symlink",
        TreeEntryMode::Repository => "repository",
    }
}
