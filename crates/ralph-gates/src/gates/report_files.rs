//! Reads the reports of runners that write one file per test class, at places that the command does not choose.
//!
//! A file counts only if it was written while the gate ran: files are noted before, and those that are the same
//! afterwards are left out. No link is followed.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ralph_sys::fs;
use ralph_sys::fs::FileKind;
use ralph_sys::fs::dir_handle::{DirHandle, FileStamp};
use ralph_sys::proc::private_mounts::PrivateMounts;

const MAX_FILES: usize = 10_000;
const MAX_ENTRIES: usize = 500_000;
const MAX_DEPTH: usize = 32;
/// Large, and never the place of reports.
const SKIPPED_DIRECTORY: &str = "node_modules";

/// The places of the reports, and the files that were there before the gate ran.
pub(super) struct ReportFiles {
    directory: PathBuf,
    globs: Vec<Vec<GlobPart>>,
    before: HashSet<FileIdentity>,
}

/// The content of a file: a program that writes to it changes the time.
type FileIdentity = (u64, u64, i64);

fn file_identity(stamp: &FileStamp) -> FileIdentity {
    (stamp.device, stamp.inode, stamp.modified_ns)
}

enum GlobPart {
    AnyDirectories,
    Name(GlobMatcher),
}

impl ReportFiles {
    /// Notes the files that match now. `directory` is that of the gate.
    pub(super) fn note_present(directory: &Path, globs: &[String]) -> io::Result<Self> {
        let directory = fs::resolve(directory).unwrap_or_else(|| directory.to_owned());
        let globs = globs.iter().map(|glob| parse_glob(glob)).collect::<io::Result<_>>()?;
        let mut files = Self { directory, globs, before: HashSet::new() };
        let mut before = HashSet::new();
        files.visit(&mut |directory, name, _| {
            before.insert(file_identity(&directory.stat(name)?));
            Ok(())
        })?;
        files.before = before;
        Ok(files)
    }

    /// The contents of the files that were written since, in the order of their paths.
    pub(super) fn read_written(&self, most_bytes: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut written = BTreeMap::new();
        let mut room = most_bytes;
        self.visit(&mut |directory, name, path| {
            if written.contains_key(path) {
                return Ok(());
            }
            let (file, stamp) = directory.open_file(name)?;
            if self.before.contains(&file_identity(&stamp)) {
                return Ok(());
            }
            let mut bytes = Vec::new();
            let limit = u64::try_from(room).unwrap_or(u64::MAX).saturating_add(1);
            file.take(limit).read_to_end(&mut bytes)?;
            room = room
                .checked_sub(bytes.len())
                .ok_or_else(|| io::Error::other("the report files are too large"))?;
            written.insert(path.to_owned(), bytes);
            if written.len() > MAX_FILES {
                return Err(io::Error::other("there are too many report files"));
            }
            Ok(())
        })?;
        Ok(written.into_values().collect())
    }

    fn visit(&self, each: &mut VisitFile<'_>) -> io::Result<()> {
        let root = match DirHandle::open(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let mut walk = ReportWalk { each, entries: 0 };
        self.globs.iter().try_for_each(|parts| walk.visit(&root, Path::new(""), parts))
    }
}

type VisitFile<'a> = dyn FnMut(&DirHandle, &CStr, &Path) -> io::Result<()> + 'a;

struct ReportWalk<'a, 'b> {
    each: &'a mut VisitFile<'b>,
    entries: usize,
}

impl ReportWalk<'_, '_> {
    fn visit(&mut self, directory: &DirHandle, path: &Path, parts: &[GlobPart]) -> io::Result<()> {
        let Some((first, rest)) = parts.split_first() else { return Ok(()) };
        if path.components().count() > MAX_DEPTH {
            return Ok(());
        }
        let mut names = Vec::new();
        // An open directory can be read once, and several globs may lead here.
        let listed = directory.open_directory(c".")?;
        listed.for_each_name(|name, kind| names.push((name.to_owned(), kind)))?;
        self.entries = self.entries.saturating_add(names.len());
        if self.entries > MAX_ENTRIES {
            return Err(io::Error::other("there are too many files to search for reports"));
        }
        if matches!(first, GlobPart::AnyDirectories) {
            self.visit(directory, path, rest)?;
        }
        for (name, kind) in names {
            let Ok(text) = name.to_str() else { continue };
            let (goes_on, is_file) = match first {
                GlobPart::AnyDirectories => {
                    (!text.starts_with('.') && text != SKIPPED_DIRECTORY, false)
                }
                GlobPart::Name(matcher) => {
                    let is_match = matcher.is_match(text);
                    (is_match && !rest.is_empty(), is_match && rest.is_empty())
                }
            };
            if !goes_on && !is_file {
                continue;
            }
            let kind = match kind {
                Some(kind) => kind,
                None => directory.stat(&name)?.kind,
            };
            let below = path.join(text);
            if is_file && kind == FileKind::File {
                (self.each)(directory, &name, &below)?;
            } else if goes_on && kind == FileKind::Directory {
                let left = if matches!(first, GlobPart::AnyDirectories) { parts } else { rest };
                self.visit(&directory.open_directory(&name)?, &below, left)?;
            }
        }
        Ok(())
    }
}

fn parse_glob(glob: &str) -> io::Result<Vec<GlobPart>> {
    let part = |text: &str| match text {
        "**" => Ok(GlobPart::AnyDirectories),
        name => {
            let glob = GlobBuilder::new(name).literal_separator(true).build();
            glob.map(|glob| GlobPart::Name(glob.compile_matcher())).map_err(io::Error::other)
        }
    };
    glob.split('/').map(part).collect()
}

/// Where ralph finds a directory that a gate sees at `path`.
pub(super) fn behind_mounts(path: PathBuf, mounts: Option<&PrivateMounts>) -> PathBuf {
    let binds = mounts.iter().flat_map(|mounts| &mounts.binds);
    let mut found =
        binds.filter_map(|bind| Some(bind.source.join(path.strip_prefix(&bind.at).ok()?)));
    found.next().unwrap_or(path)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "plays the runner")]
mod tests {
    use super::*;
    use ralph_sys::proc::private_mounts::BindMount;
    use std::os::unix::fs::symlink;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn texts(files: &ReportFiles) -> String {
        let written = files.read_written(100).unwrap();
        let texts = written.into_iter().map(|bytes| String::from_utf8(bytes).unwrap());
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_files_that_were_written_since_count() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let globs = ["target/*/TEST-*.xml", "**/target/reports/TEST-*.xml"].map(str::to_string);
        write(root, "target/reports/TEST-stale.xml", "stale");
        write(root, "target/reports/TEST-again.xml", "before");
        write(root, "outside.xml", "outside");
        // A new file can have the inode of a removed one, but not its time as well.
        for name in ["stale", "again"] {
            let path = root.join(format!("target/reports/TEST-{name}.xml"));
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        let files = ReportFiles::note_present(root, &globs).unwrap();
        assert_eq!(texts(&files), "");
        // A renamed file keeps its inode and its time, so it does not count as written.
        std::fs::rename(
            root.join("target/reports/TEST-stale.xml"),
            root.join("target/reports/TEST-moved.xml"),
        )
        .unwrap();
        std::fs::remove_file(root.join("target/reports/TEST-again.xml")).unwrap();
        write(root, "target/reports/TEST-again.xml", "after");
        write(root, "target/reports/other.xml", "other");
        write(root, "module/target/reports/TEST-new.xml", "module");
        write(root, "node_modules/a/target/reports/TEST-new.xml", "package");
        write(root, ".git/target/reports/TEST-new.xml", "hidden");
        symlink(root.join("outside.xml"), root.join("target/reports/TEST-link.xml")).unwrap();
        symlink(root.join("module"), root.join("linked")).unwrap();
        assert_eq!(texts(&files), "module after");
        assert_eq!(
            files.read_written(10).unwrap_err().to_string(),
            "the report files are too large"
        );
        let files = ReportFiles::note_present(&root.join("none"), &globs).unwrap();
        assert_eq!(texts(&files), "");
    }

    #[test]
    fn a_checkout_is_read_where_it_is_mounted_from() {
        let bind = BindMount { source: "/scratch/tree".into(), at: "/home/shop".into() };
        let mounts = PrivateMounts { overlays: Vec::new(), binds: vec![bind] };
        for (path, mounts, expected) in [
            ("/home/shop/web", Some(&mounts), "/scratch/tree/web"),
            ("/home/shop", Some(&mounts), "/scratch/tree/"),
            ("/home/shopping", Some(&mounts), "/home/shopping"),
            ("/home/shop/web", None, "/home/shop/web"),
        ] {
            assert_eq!(behind_mounts(path.into(), mounts), Path::new(expected), "{path}");
        }
    }
}
