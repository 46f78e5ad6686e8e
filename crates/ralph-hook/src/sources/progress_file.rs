//! Writes the progress of a run to `progress.txt` in its loop directories.

use ralph_core::input_bounds::MAX_LIST_BYTES;
use ralph_core::record::{RunRecord, StopReport};
use ralph_core::source::progress_file::{self, ProgressEntry, ProgressEntryKind};
use ralph_lists::loop_directory;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use std::path::Path;

/// One decision, as `progress.txt` reports it.
#[derive(Clone, Copy, Debug)]
pub struct ProgressUpdate<'a> {
    pub iteration: u32,
    pub report: Option<&'a StopReport>,
    /// The reason of the decision, as in `ralph why`.
    pub because: &'a str,
}

/// Records a block: the new iteration and the open requirements.
pub fn write_iteration(run: &RunRecord, update: &ProgressUpdate<'_>) -> Result<(), FileError> {
    let entry =
        progress_entry(run, ProgressEntryKind::Iteration(update.iteration), update_lines(update));
    rewrite_progress(run, &entry, |bytes| progress_file::with_iteration(bytes, update.iteration))
}

/// Records the end of a run, with the status word of the file format if it has one.
pub fn write_end(
    run: &RunRecord,
    (ended, word): (&str, Option<&str>),
    update: &ProgressUpdate<'_>,
) -> Result<(), FileError> {
    let entry =
        progress_entry(run, ProgressEntryKind::End, vec![format!("{ended}: {}", update.because)]);
    rewrite_progress(run, &entry, |bytes| progress_file::with_status(bytes, word?))
}

fn update_lines(update: &ProgressUpdate<'_>) -> Vec<String> {
    let Some(report) = update.report else { return vec![update.because.to_string()] };
    let open = report.unmet.saturating_add(report.unknown).saturating_add(report.pending);
    let met = report.total.saturating_sub(open);
    let is_or_are = if met == 1 { "is" } else { "are" };
    let mut lines = vec![format!("{met} of {} requirements {is_or_are} met", report.total)];
    lines.extend(report.lines.first().map(|line| format!("next: {}: {}", line.name, line.note)));
    lines
}

fn progress_entry(run: &RunRecord, about: ProgressEntryKind, lines: Vec<String>) -> ProgressEntry {
    let now = clock::format_rfc3339(clock::now_ms());
    let minute = now.get(..16).unwrap_or(&now).replace('T', " ");
    ProgressEntry { kind: about, at: format!("{minute} UTC"), run: run.id.to_string(), lines }
}

fn rewrite_progress(
    run: &RunRecord,
    entry: &ProgressEntry,
    edit: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), FileError> {
    for directory in &run.features {
        let path = Path::new(directory).join(loop_directory::PROGRESS_FILE);
        // Never writes through a symlink to a file outside the loop directory.
        if fs::resolve(&path).is_some_and(|resolved| !resolved.starts_with(directory)) {
            return Err(FileError::refused(
                &path,
                "it is a link to a path outside the loop directory",
            ));
        }
        if let Some(bytes) = fs::read_if_exists(&path, MAX_LIST_BYTES)? {
            let edited = edit(&bytes).unwrap_or_else(|| bytes.clone());
            let added = progress_file::render_addition(&edited, entry);
            write_difference(&path, &bytes, &edited, &added)?;
        }
    }
    Ok(())
}

/// Overwrites only the bytes that differ and appends new text, if the length allows it. That keeps the same inode and
/// is cheaper than replacing the file.
fn write_difference(
    path: &Path,
    before: &[u8],
    after: &[u8],
    added: &[u8],
) -> Result<(), FileError> {
    if before.len() != after.len() {
        return fs::replace_user_file(path, &[after, added].concat());
    }
    let differs = |(old, new): (&u8, &u8)| old != new;
    if let Some(from) = before.iter().zip(after).position(differs) {
        let last = before.iter().zip(after).rposition(differs).unwrap_or(from);
        fs::patch(path, from as u64, &after[from..=last])?;
    }
    if !added.is_empty() {
        fs::append(path, added, Durability::Cached)?;
    }
    Ok(())
}
