//! A private directory for the files of one operation.

use std::ffi::CStr;
use std::fs::DirBuilder;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::dir_handle::DirHandle;
use super::failpoint::failpoint_step;
use super::{FileError, create_private_dir, is_missing, remove_own_dir_tree};

/// A directory that did not exist before, accessible only to this user; removed on drop.
///
/// It stays open, so reading never follows a link that another process puts in its place or into it.
#[derive(Debug)]
pub struct FreshDir {
    path: PathBuf,
    handle: DirHandle,
}

impl FreshDir {
    /// Creates the directory, and its parents if they are missing. An existing one is an error.
    pub fn create(path: PathBuf) -> Result<Self, FileError> {
        if let Some(parent) = path.parent() {
            create_private_dir(parent)?;
        }
        let create = || {
            failpoint_step(|| DirBuilder::new().mode(0o700).create(&path))?;
            DirHandle::open(&path)
        };
        match create() {
            Ok(handle) => Ok(Self { path, handle }),
            Err(error) => Err(FileError::new("create the directory", &path)(error)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a regular file of at most `cap` bytes; `None` if it is missing. A symbolic link is an error.
    pub fn read_if_exists(&self, name: &CStr, cap: usize) -> Result<Option<Vec<u8>>, FileError> {
        let read = || -> io::Result<Vec<u8>> {
            let (file, _) = self.handle.open_file(name)?;
            let mut bytes = Vec::new();
            let most = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(1);
            file.take(most).read_to_end(&mut bytes)?;
            if bytes.len() > cap {
                let why = format!("it is larger than {cap} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => {
                let path = self.path.join(name.to_string_lossy().as_ref());
                Err(FileError::new("read", &path)(error))
            }
        }
    }
}

impl Drop for FreshDir {
    fn drop(&mut self) {
        remove_own_dir_tree(&self.path).ok();
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "plays another process")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_fresh_directory_is_new_and_private_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("scratch/one");
        let fresh = FreshDir::create(path.clone()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let again = FreshDir::create(path.clone()).unwrap_err();
        assert_eq!(again.to_string(), format!("cannot create the directory `{}`", path.display()));
        assert!(path.exists());
        drop(fresh);
        assert!(!path.exists());
    }

    #[test]
    fn no_link_is_followed() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = parent.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("report"), "forged").unwrap();
        let path = parent.path().join("one");
        let fresh = FreshDir::create(path.clone()).unwrap();
        let read = |cap| fresh.read_if_exists(c"report", cap);
        assert_eq!(read(9).unwrap(), None);
        symlink(elsewhere.join("report"), path.join("report")).unwrap();
        assert!(read(9).is_err());
        std::fs::remove_file(path.join("report")).unwrap();
        std::fs::write(path.join("report"), "real").unwrap();
        assert_eq!(read(4).unwrap().as_deref(), Some(&b"real"[..]));
        assert!(read(3).unwrap_err().is_too_large());

        std::fs::rename(&path, parent.path().join("moved")).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert_eq!(read(9).unwrap().as_deref(), Some(&b"real"[..]));
    }
}
