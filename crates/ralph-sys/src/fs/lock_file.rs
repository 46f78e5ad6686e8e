//! Lock files: mutual exclusion across processes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{FileError, failpoint::failpoint_step, open_regular};
use crate::clock::{self, Deadline, Stopwatch};

pub(super) const MIN_RETRY_INTERVAL: Duration = Duration::from_micros(200);
pub(super) const MAX_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A lock that is held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("`{}` is still locked by another process after {} ms", path.display(), waited.as_millis())]
    Busy { path: PathBuf, waited: Duration },
    #[error(transparent)]
    File(#[from] FileError),
}

/// Locks the file at `path`, which is used for nothing else. It is created if missing and never renamed or removed:
/// two processes that lock different files under the same name would not exclude each other.
pub fn acquire_lock(path: &Path, deadline: &Deadline) -> Result<FileLock, LockError> {
    let file = open_lock_file(path).map_err(FileError::new("open the lock file", path))?;
    let mut pause = MIN_RETRY_INTERVAL;
    let watch = Stopwatch::start();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(FileLock { _file: file }),
            Err(TryLockError::Error(source)) => {
                return Err(FileError::new("lock", path)(source).into());
            }
            Err(TryLockError::WouldBlock) => {}
        }
        let left = deadline.remaining();
        if left.is_zero() {
            return Err(LockError::Busy { path: path.to_owned(), waited: watch.elapsed() });
        }
        clock::sleep(pause.min(left));
        pause = (pause * 2).min(MAX_RETRY_INTERVAL);
    }
}

/// Opens or creates a file without changing its content.
pub(super) fn open_lock_file(path: &Path) -> io::Result<File> {
    failpoint_step(|| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(open_regular(options.mode(0o600), path)?.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs;

    #[test]
    fn a_held_lock_is_busy_until_the_deadline_and_a_dropped_one_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = acquire_lock(&path, &Deadline::after(Duration::ZERO)).unwrap();
        let bound = Deadline::after(Duration::from_mins(1));

        let busy = acquire_lock(&path, &Deadline::after(Duration::from_millis(30))).unwrap_err();
        let LockError::Busy { path: named, waited } = busy else { panic!("{busy}") };
        assert_eq!(named, path);
        assert!(waited >= Duration::from_millis(20), "{waited:?}");
        assert!(!bound.has_passed());

        drop(held);
        // Another test may just be starting a process, which has a copy of the lock until it runs its program.
        drop(acquire_lock(&path, &Deadline::after(Duration::from_mins(1))).unwrap());
        assert_eq!(fs::stat(&path).unwrap().mode, 0o600);
    }

    #[test]
    fn a_lock_file_that_cannot_be_created_is_an_error_and_not_busy() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path(), &dir.path().join("none/lock")] {
            let error = acquire_lock(path, &Deadline::after(Duration::from_mins(1))).unwrap_err();
            assert!(matches!(error, LockError::File(_)), "{error}");
        }
    }
}
