//! What the walk does with single files: ids of submodules and unreadable files, ignore files, and errors.

use super::ObjectId;
use super::git_index::TrackedEntry;
use super::walk::WalkFailure;
use ralph_sys::fs::dir_handle::{DirHandle, FileStamp};
use std::io::{self, Read};
const MAX_IGNORE_FILE_BYTES: u64 = 4 * 1024 * 1024;

pub(super) fn submodule_id(tracked: &TrackedEntry) -> Option<ObjectId> {
    match tracked {
        TrackedEntry::File => None,
        TrackedEntry::Sparse(entry) => Some(entry.1),
        TrackedEntry::Submodule(id) => Some(**id),
    }
}

/// An id for a file that cannot be read. It changes when the file's metadata changes.
pub(super) fn unreadable_file_id(stamp: &FileStamp) -> ObjectId {
    let mut hasher = blake3::Hasher::new_derive_key("ralph tree unreadable");
    let FileStamp { kind, mode, device, inode, len, modified_ns, changed_ns } = *stamp;
    let kind = kind as u32;
    let fields = format!("{kind} {mode} {device} {inode} {len} {modified_ns} {changed_ns}");
    hasher.update(fields.as_bytes());
    ObjectId(hasher.finalize().into())
}

pub(super) fn read_ignore_file(directory: &DirHandle) -> Vec<u8> {
    let mut text = Vec::new();
    let read = directory
        .open_file(c".gitignore")
        .and_then(|(file, _)| file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut text));
    if read.is_ok() { text } else { Vec::new() }
}

/// Whether the file was deleted meanwhile or may not be accessed. A gate, which runs as the same user, cannot access it
/// either.
pub(super) fn is_inaccessible(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

pub(super) fn walk_failure(path: &[u8], error: &io::Error) -> WalkFailure {
    WalkFailure::Other(format!("`{}`: {error}", String::from_utf8_lossy(path)))
}
