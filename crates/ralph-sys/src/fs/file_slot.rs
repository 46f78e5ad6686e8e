//! Files that serve as their own lock. The process that holds the lock may write the file; an empty file has no content
//! yet.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lock_file::{MAX_RETRY_INTERVAL, MIN_RETRY_INTERVAL, open_lock_file};
use super::{FileError, failpoint::failpoint_step, open_regular};
use crate::clock;

/// A locked file. The lock is held until this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct FileSlot {
    file: File,
    path: PathBuf,
}

/// The state of a slot as seen without locking it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotContent {
    /// A process holds the lock.
    Held,
    /// The content of an unlocked slot, which may be empty.
    Free(Vec<u8>),
}

/// Reads a slot if no process holds it. A missing file counts as an empty slot.
pub fn peek(path: &Path, cap: usize) -> Result<SlotContent, FileError> {
    let seen = || -> io::Result<SlotContent> {
        let file = match open_regular(OpenOptions::new().read(true), path) {
            Ok((file, _)) => file,
            Err(error) if super::is_missing(&error) => return Ok(SlotContent::Free(Vec::new())),
            Err(error) => return Err(error),
        };
        match file.try_lock_shared() {
            Ok(()) => read_whole(&file, cap).map(SlotContent::Free),
            Err(TryLockError::WouldBlock) => Ok(SlotContent::Held),
            Err(TryLockError::Error(error)) => Err(error),
        }
    };
    seen().map_err(FileError::new("read", path))
}

/// Locks the slot, creating the file if it is missing. Waits while `keep_waiting` returns true; `None` once it returns
/// false.
pub fn acquire(
    path: &Path,
    keep_waiting: &dyn Fn() -> bool,
) -> Result<Option<FileSlot>, FileError> {
    let mut pause = MIN_RETRY_INTERVAL;
    loop {
        match try_acquire(path).map_err(FileError::new("lock", path))? {
            Some(slot) => return Ok(Some(slot)),
            None if !keep_waiting() => return Ok(None),
            None => {
                clock::sleep(pause);
                pause = (pause * 2).min(MAX_RETRY_INTERVAL);
            }
        }
    }
}

fn try_acquire(path: &Path) -> io::Result<Option<FileSlot>> {
    let file = open_lock_file(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Another process may have removed the file between open and lock. A lock on a removed file excludes no process.
    let there = std::fs::symlink_metadata(path).is_ok_and(|now| {
        file.metadata().is_ok_and(|mine| mine.ino() == now.ino() && mine.dev() == now.dev())
    });
    Ok(there.then(|| FileSlot { file, path: path.to_owned() }))
}

impl FileSlot {
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self, cap: usize) -> Result<Vec<u8>, FileError> {
        read_whole(&self.file, cap).map_err(FileError::new("read", &self.path))
    }

    /// Replaces the content. A crash in the middle leaves partial content, which readers must detect.
    pub fn fill(&self, bytes: &[u8]) -> Result<(), FileError> {
        let put = || {
            failpoint_step(|| self.file.set_len(0))?;
            let mut file = &self.file;
            failpoint_step(|| file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(bytes)))
        };
        put().map_err(FileError::new("write", &self.path))
    }

    pub fn clear(&self) -> Result<(), FileError> {
        failpoint_step(|| self.file.set_len(0)).map_err(FileError::new("write", &self.path))
    }

    pub fn remove(self) -> Result<(), FileError> {
        super::remove_file(&self.path)
    }
}

fn read_whole(file: &File, cap: usize) -> io::Result<Vec<u8>> {
    let mut file = file;
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(cap as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > cap {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: usize = 100;

    #[test]
    fn a_slot_has_one_holder_and_any_number_of_readers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slot");
        assert_eq!(peek(&path, CAP).unwrap(), SlotContent::Free(Vec::new()));
        let slot = acquire(&path, &|| false).unwrap().unwrap();
        assert!(acquire(&path, &|| false).unwrap().is_none());
        assert_eq!(peek(&path, CAP).unwrap(), SlotContent::Held);
        slot.fill(b"a long first result").unwrap();
        slot.fill(b"result").unwrap();
        assert_eq!(slot.read(CAP).unwrap(), b"result");
        drop(slot);
        assert_eq!(peek(&path, CAP).unwrap(), SlotContent::Free(b"result".to_vec()));
        let slot = acquire(&path, &|| false).unwrap().unwrap();
        slot.clear().unwrap();
        drop(slot);
        assert_eq!(peek(&path, CAP).unwrap(), SlotContent::Free(Vec::new()));
    }

    #[test]
    fn a_slot_removed_while_another_thread_waits_is_created_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("slot");
        let first = acquire(&path, &|| false).unwrap().unwrap();
        let waiting = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| acquire(&path, &|| true).unwrap().unwrap());
            first.remove().unwrap();
            waiter.join().unwrap()
        });
        assert_eq!(peek(&path, CAP).unwrap(), SlotContent::Held);
        waiting.fill(b"x").unwrap();
        drop(waiting);
        assert_eq!(peek(&path, CAP).unwrap(), SlotContent::Free(b"x".to_vec()));
        assert!(peek(&path, 0).is_err());
    }
}
