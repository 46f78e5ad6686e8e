//! Reads a journal, or what was appended to it, into a tally.

use crate::day_tally::DayCache;
use crate::run_tally::RunTally;
use ralph_home::journal::{self, MAX_JOURNAL_BYTES};
use ralph_sys::fs::{FileError, FileStat, RegularFile};
use std::path::Path;

/// How much is read at once.
const READ_BYTES: usize = 1024 * 1024;
/// A longer line is counted as damaged.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
/// How many bytes before the position are compared, to recognise a journal that was replaced in place.
const TAIL_BYTES: u64 = 256;

/// Metadata of a journal, and how far it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCursor {
    pub inode: u64,
    pub length: u64,
    pub modified_ns: u64,
    pub read_to: u64,
    /// Hash of the bytes before `read_to`.
    pub tail: String,
}

/// What a thread keeps from one journal to the next.
#[derive(Debug, Default)]
pub struct ReaderBuffers {
    bytes: Vec<u8>,
    days: DayCache,
}

impl JournalCursor {
    /// Whether nothing was written since it was read.
    pub fn is_current(&self, stat: &FileStat) -> bool {
        (self.inode, self.length, self.modified_ns) == (stat.inode, stat.len, stat.modified_ns)
    }

    /// Whether the journal can only have grown.
    fn is_continued_by(&self, stat: &FileStat, file: &RegularFile<'_>) -> bool {
        self.inode == stat.inode
            && self.read_to <= stat.len
            && hash_tail(file, self.read_to).is_ok_and(|tail| tail == self.tail)
    }
}

/// Reads on from `known` if the journal was only appended to, and everything otherwise.
pub fn read_journal(
    path: &Path,
    known: Option<(JournalCursor, RunTally)>,
    buffers: &mut ReaderBuffers,
) -> Result<(JournalCursor, RunTally), FileError> {
    let file = RegularFile::open(path)?;
    let stat = file.stat()?;
    let known = known.filter(|(position, _)| position.is_continued_by(&stat, &file));
    let (mut at, mut tally) =
        known.map_or((0, RunTally::default()), |(position, tally)| (position.read_to, tally));
    let bytes = &mut buffers.bytes;
    bytes.clear();
    let mut read_to = at;
    let mut is_too_long = false;
    while at < MAX_JOURNAL_BYTES as u64 {
        let read = file.append_range(at, READ_BYTES, bytes)?;
        if read == 0 {
            break;
        }
        at += read as u64;
        let mut rest = &bytes[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if is_too_long {
                tally.add_long_line();
                is_too_long = false;
            } else {
                tally.add_line(&rest[..end], &mut buffers.days);
            }
            rest = &rest[end + 1..];
        }
        let left = rest.len();
        read_to = at - left as u64;
        bytes.drain(..bytes.len() - left);
        if bytes.len() > MAX_LINE_BYTES {
            bytes.clear();
            is_too_long = true;
        }
        // Fewer bytes than asked for are the end of the file.
        if read < READ_BYTES {
            break;
        }
    }
    let tail = hash_tail(&file, read_to)?;
    let FileStat { inode, len: length, modified_ns, .. } = stat;
    Ok((JournalCursor { inode, length, modified_ns, read_to, tail }, tally))
}

fn hash_tail(file: &RegularFile<'_>, end: u64) -> Result<String, FileError> {
    let from = end.saturating_sub(TAIL_BYTES);
    let most = usize::try_from(end - from).unwrap_or(0);
    Ok(journal::hash_bytes(&file.read_at(from, most)?))
}
