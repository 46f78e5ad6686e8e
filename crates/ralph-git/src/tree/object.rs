//! Computes git's object ids of file contents.

use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::Digest;

use super::{Format, ObjectId};
use ralph_sys::clock::Deadline;

/// Files up to this size are read at once, larger ones in chunks of it.
const PIECE: usize = 256 * 1024;
/// How often a file that shrinks while it is read is started again.
const ATTEMPTS: usize = 3;

enum Hasher {
    Sha1(Box<sha1_checked::Sha1>),
    Sha256(Box<sha2::Sha256>),
}

impl Hasher {
    fn blob(format: Format, len: u64) -> Self {
        let mut hasher = match format {
            Format::Sha1 => Self::Sha1(Box::default()),
            Format::Sha256 => Self::Sha256(Box::default()),
        };
        hasher.update(format!("blob {len}\0").as_bytes());
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

pub(super) fn of_bytes(format: Format, bytes: &[u8]) -> ObjectId {
    let mut hasher = Hasher::blob(format, bytes.len() as u64);
    hasher.update(bytes);
    hasher.finish()
}

/// Hashes files one after the other, reusing one buffer.
pub(super) struct Reader {
    piece: Vec<u8>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { piece: vec![0; PIECE] }
    }

    /// Computes the id of a file whose metadata reports `len` bytes.
    pub(super) fn id(
        &mut self,
        file: &mut File,
        (format, len): (Format, u64),
        deadline: &Deadline,
    ) -> io::Result<ObjectId> {
        let read = fill(file, &mut self.piece, len)?;
        if read < PIECE {
            let bytes = self.piece.get(..read).unwrap_or_default();
            return Ok(of_bytes(format, bytes));
        }
        for _ in 0..ATTEMPTS {
            let len = file.metadata()?.len();
            file.rewind()?;
            if let Some(id) = self.large(file, Hasher::blob(format, len), (len, deadline))? {
                return Ok(id);
            }
        }
        Err(io::Error::other("the file keeps changing while it is read"))
    }

    /// Returns `None` if the file has fewer than `len` bytes. Bytes appended meanwhile are left to the next listing.
    fn large(
        &mut self,
        file: &mut File,
        mut hasher: Hasher,
        (len, deadline): (u64, &Deadline),
    ) -> io::Result<Option<ObjectId>> {
        let mut left = len;
        while left > 0 {
            if deadline.is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let most = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            let room = self.piece.get_mut(..most).unwrap_or_default();
            if fill(file, room, left)? < most {
                return Ok(None);
            }
            hasher.update(room);
            left -= most as u64;
        }
        Ok(Some(hasher.finish()))
    }
}

/// Reads until the buffer is full, the file ends, or `len` bytes have been read.
fn fill(file: &mut File, room: &mut [u8], len: u64) -> io::Result<usize> {
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
            (Format::Sha1, &b""[..], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
            (Format::Sha1, b"hello\n", "ce013625030ba8dba906f756967f9e9ca394464a"),
            (
                Format::Sha256,
                b"",
                "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
            ),
        ] {
            assert_eq!(of_bytes(format, bytes).hex(), expected);
        }
    }

    #[test]
    fn a_file_read_in_chunks_has_the_id_of_its_bytes() {
        let deadline = Deadline::after(Duration::from_mins(1));
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            file.rewind().unwrap();
            let found = Reader::new().id(&mut file, (Format::Sha1, len as u64), &deadline).unwrap();
            assert_eq!(found, of_bytes(Format::Sha1, &bytes), "{len}");
        }
    }
}
