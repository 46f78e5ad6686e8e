//! File access. The only module that reads and writes files.
#![expect(
    clippy::disallowed_methods,
    reason = "a developer tool, used only on files that it created or that git tracks"
)]

use anyhow::{Context, Result, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::SystemTime;

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

pub(crate) fn read_text(path: &Path) -> Result<String> {
    Ok(String::from_utf8_lossy(&read(path)?).into_owned())
}

/// Writes a file and creates its parent directories.
pub(crate) fn write_with_parents(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    write_file(path, bytes)
}

/// Writes a file into an existing directory.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

pub(crate) fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    let opened = OpenOptions::new().append(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(bytes));
    written.with_context(|| format!("cannot append to `{}`", path.display()))
}

/// The length in bytes; 0 if the file does not exist.
pub(crate) fn file_length(path: &Path) -> Result<u64> {
    match fs::metadata(path) {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => {
            Err(error).with_context(|| format!("cannot read the metadata of `{}`", path.display()))
        }
    }
}

pub(crate) fn create_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot create `{}`", path.display()))
}

/// Moves a directory into place. If the target already exists, the target is kept and `from` is removed.
pub(crate) fn move_into_place(from: &Path, to: &Path) -> Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    ensure!(to.is_dir(), "cannot move `{}` to `{}`", from.display(), to.display());
    fs::remove_dir_all(from).with_context(|| format!("cannot remove `{}`", from.display()))
}

pub(crate) fn remove_file(path: &Path) -> Result<()> {
    fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))
}

/// Copies a file and creates its parent directories. The permissions are copied too.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        create_directory(parent)?;
    }
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))
}

pub(crate) fn link_file(to: &Path, at: &Path) -> Result<()> {
    if let Some(parent) = at.parent() {
        create_directory(parent)?;
    }
    std::os::unix::fs::symlink(to, at)
        .with_context(|| format!("cannot link `{}` to `{}`", at.display(), to.display()))
}

/// Copies a directory of files and directories. Symbolic links stay links.
pub(crate) fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    create_directory(to)?;
    for entry in list(from)? {
        let target = to.join(entry.file_name().unwrap_or_default());
        if entry.is_symlink() {
            let linked = fs::read_link(&entry);
            linked
                .and_then(|linked| std::os::unix::fs::symlink(linked, &target))
                .with_context(|| format!("cannot copy `{}`", entry.display()))?;
        } else if entry.is_dir() {
            copy_directory(&entry, &target)?;
        } else {
            copy_file(&entry, &target)?;
        }
    }
    Ok(())
}

pub(crate) fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open `{}`", path.display()))
}

pub(crate) fn create(path: &Path) -> Result<BufWriter<File>> {
    if let Some(parent) = path.parent() {
        create_directory(parent)?;
    }
    let file = File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
    Ok(BufWriter::with_capacity(4 * 1024 * 1024, file))
}

pub(crate) fn set_modified(path: &Path, time: SystemTime) -> Result<()> {
    let opened = OpenOptions::new().write(true).open(path);
    opened
        .and_then(|file| file.set_modified(time))
        .with_context(|| format!("cannot set the time of `{}`", path.display()))
}

/// The entries of a directory, sorted by name.
pub(crate) fn list(path: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries =
        fs::read_dir(path).with_context(|| format!("cannot list `{}`", path.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

pub(crate) fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions)
        .with_context(|| format!("cannot make `{}` executable", path.display()))
}
