//! `progress.txt` of a loop directory: a run tells there how far it is.

use crate::adopt;
use crate::fs;
use ralph_core::record::Run;
use std::path::Path;

/// Writes the loop directory's own view of a run that was just decided.
pub fn advance(run: &Run, iteration: u32) -> Result<(), fs::FileError> {
    rewrite(run, |bytes| ralph_core::source::progress::with_iteration(bytes, iteration))
}

pub fn finish(run: &Run, status: &str) -> Result<(), fs::FileError> {
    rewrite(run, |bytes| ralph_core::source::progress::with_status(bytes, status))
}

fn rewrite(run: &Run, edit: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Result<(), fs::FileError> {
    for directory in &run.features {
        let path = Path::new(directory).join(adopt::PROGRESS);
        // A link that leads out of the loop's directory leads to a file that is none of ours.
        if fs::resolve(&path).is_some_and(|resolved| !resolved.starts_with(directory)) {
            return Err(fs::FileError::refused(&path, "it leads out of the loop's directory"));
        }
        if let Some(bytes) = fs::read_opt(&path, adopt::LARGEST_LIST)?
            && let Some(edited) = edit(&bytes)
        {
            put(&path, &bytes, &edited)?;
        }
    }
    Ok(())
}

/// A number of as many digits is put over the old one: the file stays the same file, and that is cheaper too.
fn put(path: &Path, before: &[u8], after: &[u8]) -> Result<(), fs::FileError> {
    let differs = |(old, new): (&u8, &u8)| old != new;
    let Some(from) = before.iter().zip(after).position(differs) else { return Ok(()) };
    if before.len() != after.len() {
        return fs::replace_keeping_mode(path, after);
    }
    let last = before.iter().zip(after).rposition(differs).unwrap_or(from);
    fs::patch(path, from as u64, &after[from..=last])
}
