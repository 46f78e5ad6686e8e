//! Appends lines to a file that stays open while a program runs.

use super::failpoint::failpoint_step;
use super::{FileError, open_regular};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file open for appending. Each line is one write, so other readers see only complete lines.
#[derive(Debug)]
pub struct LineAppender {
    file: File,
    path: PathBuf,
    line: Vec<u8>,
}

/// A buffer that grew larger than this is freed, so that one long line does not occupy memory forever.
const MAX_RETAINED_BUFFER_BYTES: usize = 1024 * 1024;

impl LineAppender {
    /// Opens the file, or creates it in an existing directory.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let open = || {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(super::write::PRIVATE_FILE_MODE);
            failpoint_step(|| open_regular(&mut options, path))
        };
        let (file, _) = open().map_err(FileError::new("append to", path))?;
        Ok(Self { file, path: path.to_owned(), line: Vec::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `line`, which does not contain a line feed, and a line feed.
    pub fn append_line(&mut self, line: &[u8]) -> Result<(), FileError> {
        self.line.clear();
        self.line.extend_from_slice(line);
        self.line.push(b'\n');
        let added = failpoint_step(|| self.file.write_all(&self.line));
        if self.line.capacity() > MAX_RETAINED_BUFFER_BYTES {
            self.line = Vec::new();
        }
        added.map_err(FileError::new("append to", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs;

    #[test]
    fn lines_are_appended_to_an_existing_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        for text in ["one", "two"] {
            let mut lines = LineAppender::open(&path).unwrap();
            lines.append_line(text.as_bytes()).unwrap();
            lines.append_line(b"").unwrap();
        }
        assert_eq!(fs::read(&path, 99).unwrap(), b"one\n\ntwo\n\n");
        assert_eq!(fs::stat(&path).unwrap().mode, 0o600);
    }

    #[test]
    fn anything_but_a_regular_file_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        assert!(LineAppender::open(directory.path()).is_err());
        assert!(
            LineAppender::open(&directory.path().join("missing/lines")).unwrap_err().is_missing()
        );
    }
}
