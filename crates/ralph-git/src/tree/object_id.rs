//! Computes git's object ids of file contents.

use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::Digest;

use super::{ObjectFormat, ObjectId};
use ralph_sys::clock::Deadline;

/// Files up to this size are read at once, larger ones in chunks of it.
const CHUNK_BYTES: usize = 256 * 1024;
/// How often a file that shrinks while it is read is started again.
const MAX_ATTEMPTS: usize = 3;

enum ObjectHasher {
    Sha1(Box<sha1_checked::Sha1>),
    Sha256(Box<sha2::Sha256>),
}

impl ObjectHasher {
    fn new(format: ObjectFormat, kind: &str, len: u64) -> Self {
        let mut hasher = match format {
            ObjectFormat::Sha1 => Self::Sha1(Box::default()),
            ObjectFormat::Sha256 => Self::Sha256(Box::default()),
        };
        hasher.update(format!("{kind} {len}\0").as_bytes());
        hasher
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// Contents crafted to collide in SHA-1 get distinct ids; git refuses to hash them at all.
    fn finish(self) -> ObjectId {
        match self {
            Self::Sha1(hasher) => ObjectId::from_prefix(&hasher.finalize()),
            Self::Sha256(hasher) => ObjectId::from_prefix(&hasher.finalize()),
        }
    }
}

pub(super) fn hash_blob(format: ObjectFormat, bytes: &[u8]) -> ObjectId {
    hash_object(format, "blob", bytes)
}

pub(crate) fn hash_object(format: ObjectFormat, kind: &str, bytes: &[u8]) -> ObjectId {
    let mut hasher = ObjectHasher::new(format, kind, bytes.len() as u64);
    hasher.update(bytes);
    hasher.finish()
}

/// Hashes files one after the other, reusing one buffer.
pub(super) struct BlobReader {
    buffer: Vec<u8>,
}

impl BlobReader {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; CHUNK_BYTES] }
    }

    /// Computes the id of a file whose metadata reports `len` bytes.
    pub(super) fn hash_file(
        &mut self,
        file: &mut File,
        format: ObjectFormat,
        len: u64,
        deadline: &Deadline,
    ) -> io::Result<ObjectId> {
        let read = read_up_to(file, &mut self.buffer, len)?;
        if read < CHUNK_BYTES {
            let bytes = self.buffer.get(..read).unwrap_or_default();
            return Ok(hash_blob(format, bytes));
        }
        for _ in 0..MAX_ATTEMPTS {
            let len = file.metadata()?.len();
            file.rewind()?;
            let hasher = ObjectHasher::new(format, "blob", len);
            if let Some(id) = self.hash_in_chunks(file, hasher, len, deadline)? {
                return Ok(id);
            }
        }
        Err(io::Error::other("the file keeps changing while it is read"))
    }

    /// Returns `None` if the file has fewer than `len` bytes. Bytes appended meanwhile are left to the next listing.
    fn hash_in_chunks(
        &mut self,
        file: &mut File,
        mut hasher: ObjectHasher,
        len: u64,
        deadline: &Deadline,
    ) -> io::Result<Option<ObjectId>> {
        let mut left = len;
        while left > 0 {
            if deadline.has_passed() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let most = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let room = self.buffer.get_mut(..most).unwrap_or_default();
            if read_up_to(file, room, left)? < most {
                return Ok(None);
            }
            hasher.update(room);
            left -= most as u64;
        }
        Ok(Some(hasher.finish()))
    }
}

/// Reads until the buffer is full, the file ends, or `len` bytes have been read.
fn read_up_to(file: &mut File, room: &mut [u8], len: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = room.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                if filled as u64 >= len {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    #[test]
    fn ids_match_those_of_git() {
        for (format, bytes, expected) in [
            (ObjectFormat::Sha1, &b""[..], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (ObjectFormat::Sha1, b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
            (
                ObjectFormat::Sha256,
                b"",
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ] {
            assert_eq!(hash_blob(format, bytes).hex(), expected);
        }
    }

    #[test]
    fn a_file_read_in_chunks_has_the_id_of_its_bytes() {
        let deadline = Deadline::after(Duration::from_mins(1));
        for len in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 7] {
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            file.rewind().unwrap();
            let found = BlobReader::new()
                .hash_file(&mut file, ObjectFormat::Sha1, len as u64, &deadline)
                .unwrap();
            assert_eq!(found, hash_blob(ObjectFormat::Sha1, &bytes), "{len}");
        }
    }
}
