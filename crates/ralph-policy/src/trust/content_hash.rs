//! Hashes of files that decide the results of gates.

use super::references::MAX_RECIPE_BYTES;
use super::{TrustError, runner_files};
use ralph_sys::fs::{self, RegularFile};
use std::path::Path;

/// Large enough for an executable in the repository; a larger file is data.
const MAX_HASHED_BYTES: u64 = 256 * 1024 * 1024;
const READ_BYTES: usize = 1024 * 1024;

/// The hash of the part of a file that can change what a gate runs; `None` if there is none.
pub(super) fn hash_deciding_content(path: &Path) -> Result<Option<String>, TrustError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !runner_files::has_other_lines(name) {
        return hash_file(path).map(Some);
    }
    Ok(hash_deciding_lines(&fs::read(path, MAX_RECIPE_BYTES)?))
}

/// As [`hash_deciding_content`], for the bytes of a file called `name`.
pub(super) fn hash_deciding_bytes(name: &str, bytes: &[u8]) -> Option<String> {
    if runner_files::has_other_lines(name) {
        hash_deciding_lines(bytes)
    } else {
        Some(blake3::hash(bytes).to_hex().to_string())
    }
}

fn hash_deciding_lines(bytes: &[u8]) -> Option<String> {
    let kept = runner_files::deciding_lines(&String::from_utf8_lossy(bytes));
    (!kept.is_empty()).then(|| blake3::hash(kept.as_bytes()).to_hex().to_string())
}

pub(super) fn hash_file(path: &Path) -> Result<String, TrustError> {
    let file = RegularFile::open(path)?;
    if file.opened_len() > MAX_HASHED_BYTES {
        return Err(TrustError::TooManyReferences("one of the files is larger than 256 MiB"));
    }
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    // A file that keeps growing while it is read must not block forever.
    while at <= MAX_HASHED_BYTES {
        let bytes = file.read_at(at, READ_BYTES)?;
        if bytes.is_empty() {
            break;
        }
        at += bytes.len() as u64;
        hasher.update(&bytes);
    }
    Ok(hasher.finalize().to_hex().to_string())
}
