//! A repository on disk, read directly where that is simple and by running git where it is not. Nothing is written.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::ObjectFormat;
use super::git_index::GitIndex;
use crate::git;
use crate::hardened_git::GitOutput;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::fs::{self, FileError, FileKind};
use ralph_sys::proc::ProgramLimits;

const MAX_SMALL_FILE_BYTES: usize = 4 * 1024 * 1024;
const MAX_INDEX_BYTES: usize = 1 << 30;
const MAX_PACKED_REFS_BYTES: usize = 256 * 1024 * 1024;
/// How many symbolic references are followed.
const MAX_SYMBOLIC_HOPS: usize = 5;
const SYSTEM_CONFIGS: [&str; 3] =
    ["/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig"];
#[derive(Debug)]
pub(super) struct GitRepository {
    work_tree: PathBuf,
    git_dir: PathBuf,
    /// The directory that linked work trees share; otherwise the same as `git_dir`.
    common_dir: PathBuf,
    pub(super) format: ObjectFormat,
}

/// The root of the work tree that contains `project`: the nearest directory with a `.git`, or the project itself.
pub(super) fn nearest_work_tree(project: &Path) -> &Path {
    git::work_tree_root(project).unwrap_or(project)
}

impl GitRepository {
    /// Opens the repository whose work tree is at `work_tree`, if there is one.
    pub(super) fn open(work_tree: &Path) -> Result<Option<Self>, FileError> {
        let read = |path: &Path| fs::read_if_exists(path, MAX_SMALL_FILE_BYTES);
        let git = work_tree.join(".git");
        let git_dir = match fs::stat(&git).map(|stat| stat.kind) {
            Some(FileKind::Directory) => git,
            Some(FileKind::File) => {
                let text = read(&git)?.unwrap_or_default();
                let Some(named) = text.strip_prefix(b"gitdir:") else { return Ok(None) };
                work_tree.join(OsStr::from_bytes(named.trim_ascii()))
            }
            Some(FileKind::Symlink | FileKind::Other) | None => return Ok(None),
        };
        if fs::stat_no_follow(&git_dir.join("HEAD")).is_none() {
            return Ok(None);
        }
        let common_dir = match read(&git_dir.join("commondir"))? {
            Some(text) => git_dir.join(OsStr::from_bytes(text.trim_ascii())),
            None => git_dir.clone(),
        };
        let config = read(&common_dir.join("config"))?.unwrap_or_default();
        let format = parse_object_format(&config);
        Ok(Some(Self { work_tree: work_tree.to_path_buf(), git_dir, common_dir, format }))
    }

    /// The commit that is checked out; `None` before the first commit.
    pub(super) fn read_head(&self, deadline: &Deadline) -> Option<String> {
        let mut name = b"HEAD".to_vec();
        for _ in 0..MAX_SYMBOLIC_HOPS {
            let text = self.read_reference(&name)?;
            let Some(next) = text.strip_prefix(b"ref:") else {
                let id = std::str::from_utf8(&text).ok()?;
                let is_id = id.len() == 2 * self.format.id_len()
                    && id.bytes().all(|byte| byte.is_ascii_hexdigit());
                return is_id.then(|| id.to_owned());
            };
            let next = next.trim_ascii();
            // A repository that uses reftable has this placeholder instead of a file.
            if next == b"refs/heads/.invalid" {
                let id = self.run_git(&["rev-parse", "--verify", "--quiet", "HEAD"], deadline)?;
                return Some(std::str::from_utf8(id.trim_ascii()).ok()?.to_owned());
            }
            if !next.starts_with(b"refs/") || next.split(|byte| *byte == b'/').any(|p| p == b"..") {
                return None;
            }
            name = next.to_vec();
        }
        None
    }

    fn read_reference(&self, name: &[u8]) -> Option<Vec<u8>> {
        let name_path = OsStr::from_bytes(name);
        for directory in [&self.git_dir, &self.common_dir] {
            if let Ok(text) = fs::read(&directory.join(name_path), MAX_SMALL_FILE_BYTES) {
                return Some(text.trim_ascii().to_vec());
            }
        }
        let packed = fs::read(&self.common_dir.join("packed-refs"), MAX_PACKED_REFS_BYTES).ok()?;
        let mut lines = packed.split(|byte| *byte == b'\n');
        lines.find_map(|line| line.strip_suffix(name)?.strip_suffix(b" ")).map(<[u8]>::to_vec)
    }

    /// The tracked paths; `None` if neither ralph nor git can read the index.
    pub(super) fn read_index(&self, deadline: &Deadline) -> Option<GitIndex> {
        let expand =
            |tree: &str| self.run_git(&["ls-tree", "-r", "-z", "--full-tree", tree], deadline);
        match fs::read_if_exists(&self.git_dir.join("index"), MAX_INDEX_BYTES) {
            Ok(None) => return Some(GitIndex::default()),
            Ok(Some(bytes)) => {
                if let Some(index) = GitIndex::parse(&bytes, self.format, &expand) {
                    return Some(index);
                }
            }
            Err(_) => {}
        }
        let listing = self.run_git(&["ls-files", "-t", "--stage", "-z"], deadline)?;
        GitIndex::from_listing(&listing, &expand)
    }

    /// Ignore patterns for the whole work tree, lowest precedence first: the user's, then the repository's. As in git,
    /// a file that cannot be read has none.
    pub(super) fn exclude_patterns(&self, deadline: &Deadline) -> [Vec<u8>; 2] {
        let own = self.common_dir.join("info/exclude");
        let user = self.user_excludes_file(deadline);
        [user, Some(own)].map(|path| {
            path.and_then(|path| fs::read(&path, MAX_SMALL_FILE_BYTES).ok()).unwrap_or_default()
        })
    }

    /// Git is asked only if some configuration file mentions the setting or includes another file.
    fn user_excludes_file(&self, deadline: &Deadline) -> Option<PathBuf> {
        let env = Env::from_process();
        let config_home = env.config_home();
        let mut configs: Vec<PathBuf> = SYSTEM_CONFIGS.iter().map(PathBuf::from).collect();
        configs.extend(env.home().map(|home| home.join(".gitconfig")));
        configs.extend(config_home.iter().map(|config| config.join("git/config")));
        configs.push(self.common_dir.join("config"));
        configs.push(self.git_dir.join("config.worktree"));
        if configs.iter().any(|config| mentions_excludes_file(config)) {
            let question = ["config", "--type=path", "--null", "--get", "core.excludesFile"];
            if let Some(answer) = self.run_git(&question, deadline) {
                let path = answer.split(|byte| *byte == 0).next()?;
                return Some(self.work_tree.join(OsStr::from_bytes(path)));
            }
        }
        Some(config_home?.join("git/ignore"))
    }

    fn run_git(&self, question: &[&str], deadline: &Deadline) -> Option<Vec<u8>> {
        let limits = ProgramLimits { deadline: *deadline, max_output_bytes: MAX_INDEX_BYTES };
        match git::read_only_git(&self.work_tree).run(question, None, &limits) {
            Ok(GitOutput { code: 0, stdout, truncated: false }) => Some(stdout),
            Ok(_) | Err(_) => None,
        }
    }
}

/// The object directory and object format of the repository at `work_tree`, read without running git.
pub(crate) fn find_object_store(work_tree: &Path) -> Option<(PathBuf, ObjectFormat)> {
    let repository = GitRepository::open(work_tree).ok()??;
    let common_dir = fs::resolve(&repository.common_dir)?;
    Some((common_dir.join("objects"), repository.format))
}

/// Whether the repository's own configuration could set a filter, directly or by another file that it includes.
pub(crate) fn may_configure_filters(work_tree: &Path) -> bool {
    let Ok(Some(repository)) = GitRepository::open(work_tree) else { return true };
    let configs =
        [repository.common_dir.join("config"), repository.git_dir.join("config.worktree")];
    configs.iter().any(|config| mentions(config, &[b"filter", b"include"]))
}

fn mentions_excludes_file(config: &Path) -> bool {
    mentions(config, &[b"excludesfile", b"include"])
}

fn mentions(config: &Path, words: &[&[u8]]) -> bool {
    // A file that cannot be read may say anything.
    let Ok(text) = fs::read_if_exists(config, MAX_SMALL_FILE_BYTES) else { return true };
    let text = text.unwrap_or_default().to_ascii_lowercase();
    words.iter().any(|word| memchr::memmem::find(&text, word).is_some())
}

/// The value of `extensions.objectFormat`. Git reads it from this file only, without includes.
fn parse_object_format(config: &[u8]) -> ObjectFormat {
    let mut is_inside = false;
    for line in config.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii().to_ascii_lowercase();
        if line.starts_with(b"[") {
            is_inside = line.starts_with(b"[extensions]");
        }
        let line = line.strip_prefix(b"[extensions]").unwrap_or(&line).trim_ascii();
        if is_inside
            && let Some(value) = line.strip_prefix(b"objectformat")
            && memchr::memmem::find(value, b"sha256").is_some()
        {
            return ObjectFormat::Sha256;
        }
    }
    ObjectFormat::Sha1
}
