//! A file that grows line by line for as long as a program runs.

use super::failpoint::step;
use super::{FileError, open_regular};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Open at its end: whoever else reads the file sees whole lines, for each is written at once.
#[derive(Debug)]
pub struct Lines {
    file: File,
    path: PathBuf,
    line: Vec<u8>,
}

/// What a longer line took is given back, so that one of them does not stay in memory for ever.
const KEPT: usize = 1024 * 1024;

impl Lines {
    /// Made where it is missing, below a directory that is there.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let open = || {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(super::write::PRIVATE);
            step(|| open_regular(&mut options, path))
        };
        let (file, _) = open().map_err(FileError::new("append to", path))?;
        Ok(Self { file, path: path.to_owned(), line: Vec::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `line` has no line feed of its own.
    pub fn add(&mut self, line: &[u8]) -> Result<(), FileError> {
        self.line.clear();
        self.line.extend_from_slice(line);
        self.line.push(b'\n');
        let added = step(|| self.file.write_all(&self.line));
        if self.line.capacity() > KEPT {
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
    fn lines_are_added_to_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        for text in ["one", "two"] {
            let mut lines = Lines::open(&path).unwrap();
            lines.add(text.as_bytes()).unwrap();
            lines.add(b"").unwrap();
        }
        assert_eq!(fs::read(&path, 99).unwrap(), b"one\n\ntwo\n\n");
        assert_eq!(fs::stat(&path).unwrap().mode, 0o600);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(Lines::open(directory.path()).is_err());
        assert!(Lines::open(&directory.path().join("missing/lines")).unwrap_err().is_missing());
    }
}
