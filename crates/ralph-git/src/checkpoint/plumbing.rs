//! Runs git's plumbing commands for checkpoints, and parses object ids, modes and quoted paths.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{CheckpointError, CheckpointRepository, CheckpointStore, RepositoryPurpose};
use crate::hardened_git::{GitCommandError, GitOutput, HardenedGit, subcommand};
use crate::object_batch::{BATCH_COMMAND, MAX_OBJECT_HEADER_BYTES, batch_input, parse_batch};
use crate::tree::{ObjectId, TreeEntryMode};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use ralph_sys::proc::ProgramLimits;

/// Enough for a million paths.
const MAX_OUTPUT_BYTES: usize = 256 * 1024 * 1024;
/// So many blobs are read at once, without asking for their sizes first, if they are small.
const FEW_BLOBS: usize = 16;
const FEW_BLOBS_BYTES: usize = 1024 * 1024;

/// The repository whose configuration, attributes and refs a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlumbingContext {
    /// The shadow; objects are read from and written to the checkpoints' store.
    Shadow,
    /// The shadow; objects are written to the shadow, and the project's objects are only read.
    ShadowOnly,
    /// None: the command creates the shadow.
    NoRepository,
    /// The repository that stores the refs.
    Refs,
    Project,
}

pub(super) struct PlumbingCommand<'a> {
    pub at: PlumbingContext,
    pub arguments: Vec<Cow<'a, OsStr>>,
    pub env: Vec<(&'static str, Cow<'a, OsStr>)>,
    pub work_tree: Option<&'a Path>,
    pub input: Option<&'a [u8]>,
    pub max_output: usize,
}

impl<'a> PlumbingCommand<'a> {
    pub(super) fn new<S: AsRef<OsStr> + ?Sized + 'a>(
        at: PlumbingContext,
        arguments: impl IntoIterator<Item = &'a S>,
    ) -> Self {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().into()).collect();
        Self {
            at,
            arguments,
            env: Vec::new(),
            work_tree: None,
            input: None,
            max_output: MAX_OUTPUT_BYTES,
        }
    }

    pub(super) fn with_input(mut self, input: &'a [u8]) -> Self {
        self.input = Some(input);
        self
    }

    pub(super) fn with_index(mut self, index: &'a Path) -> Self {
        self.env.push(("GIT_INDEX_FILE", index.as_os_str().into()));
        self
    }

    pub(super) fn with_work_tree(mut self, work_tree: &'a Path) -> Self {
        self.work_tree = Some(work_tree);
        self
    }
}

/// File names that are invalid on other systems only are allowed, and files are written in parallel. An agent can write
/// what the commit graph says of the trees and parents of commits.
const SETTINGS: [&str; 6] = [
    "core.commitGraph=false",
    "core.logAllRefUpdates=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "gc.auto=0",
    "checkout.workers=0",
];

impl CheckpointRepository {
    /// Runs git and returns its complete output. Any exit code but 0 is an error.
    pub(super) fn run_git(
        &self,
        call: &PlumbingCommand<'_>,
        deadline: &Deadline,
    ) -> Result<Vec<u8>, CheckpointError> {
        let output = self.run_git_truncated(call, deadline)?;
        if output.truncated {
            return Err(GitCommandError::too_much_output(&subcommand(&call.arguments)).into());
        }
        Ok(output.stdout)
    }

    /// Runs git and returns its output up to the command's limit. Any exit code but 0 is an error.
    pub(super) fn run_git_truncated(
        &self,
        call: &PlumbingCommand<'_>,
        deadline: &Deadline,
    ) -> Result<GitOutput, CheckpointError> {
        let at = match (call.at, &self.store) {
            (PlumbingContext::Refs, CheckpointStore::Project { .. }) => PlumbingContext::Project,
            (PlumbingContext::Refs, CheckpointStore::Shadow) => PlumbingContext::Shadow,
            (PlumbingContext::Shadow, CheckpointStore::Project { .. })
                if self.purpose == RepositoryPurpose::Comparison =>
            {
                PlumbingContext::ShadowOnly
            }
            (at, _) => at,
        };
        if matches!(at, PlumbingContext::Shadow | PlumbingContext::ShadowOnly) && !self.has_shadow()
        {
            drop(self.lock_shadow(deadline)?);
        }
        let mut git = HardenedGit::new(&self.root).settings(&SETTINGS).offline();
        git = git.env("GIT_LITERAL_PATHSPECS", "1");
        git = call.env.iter().fold(git, |git, (name, value)| git.env(*name, &**value));
        if at == PlumbingContext::Project || call.work_tree.is_some() {
            git = git.path_option("--work-tree=", call.work_tree.unwrap_or(&self.root));
        }
        git = match at {
            PlumbingContext::Project => self.in_project(git),
            PlumbingContext::NoRepository => isolate(git),
            PlumbingContext::Shadow | PlumbingContext::ShadowOnly | PlumbingContext::Refs => {
                isolate(git).path_option("--git-dir=", &self.shadow)
            }
        };
        if let (PlumbingContext::Shadow, CheckpointStore::Project { objects }) = (at, &self.store) {
            git = git.env("GIT_OBJECT_DIRECTORY", objects);
        }
        let limits = ProgramLimits { deadline: *deadline, max_output_bytes: call.max_output };
        let output = git.run(&call.arguments, call.input, &limits)?;
        if output.code != 0 {
            let why = format!("exited with {}", output.code);
            return Err(CheckpointError::Git { what: subcommand(&call.arguments), why });
        }
        Ok(output)
    }

    fn in_project<'a>(&'a self, git: HardenedGit<'a>) -> HardenedGit<'a> {
        let git = git.confine_to(&self.root).without_replacements();
        if self.purpose == RepositoryPurpose::Comparison && self.has_shadow() {
            let ours = quote_path(self.shadow.join("objects").as_os_str().as_bytes());
            git.owned_env("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsString::from_vec(ours))
        } else {
            git
        }
    }

    /// The size of each blob that exists.
    pub(super) fn blob_sizes(
        &self,
        ids: &[ObjectId],
        deadline: &Deadline,
    ) -> Result<BTreeMap<ObjectId, u64>, CheckpointError> {
        let mut input = Vec::new();
        for id in ids.iter().collect::<BTreeSet<_>>() {
            input.extend(self.hex(id).bytes().chain(*b"\n"));
        }
        if input.is_empty() {
            return Ok(BTreeMap::new());
        }
        let format = "--batch-check=%(objectname) %(objecttype) %(objectsize)";
        let call = PlumbingCommand::new(PlumbingContext::Shadow, ["cat-file", "--buffer", format])
            .with_input(&input);
        let output = self.run_git(&call, deadline)?;
        let mut sizes = BTreeMap::new();
        for line in output.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b' ');
            if let (Some(id), Some(b"blob"), Some(size)) =
                (fields.next(), fields.next(), fields.next())
                && let Some(id) = self.format.parse(id)
                && let Some(size) = parse_number(size)
            {
                sizes.insert(id, size);
            }
        }
        Ok(sizes)
    }

    /// Reads blobs of at most `largest` bytes each and at most `all` bytes together, in the given order.
    pub fn read_blobs(
        &self,
        ids: &[ObjectId],
        largest: usize,
        all: usize,
        deadline: &Deadline,
    ) -> Result<BTreeMap<ObjectId, BlobContent>, CheckpointError> {
        if ids.len() <= FEW_BLOBS
            && let Some(blobs) = self.read_few_blobs(ids, largest, all, deadline)?
        {
            return Ok(blobs);
        }
        let sizes = self.blob_sizes(ids, deadline)?;
        let (mut blobs, mut input, mut taken, mut count) = (BTreeMap::new(), Vec::new(), 0, 0);
        for id in ids {
            if blobs.contains_key(id) {
                continue;
            }
            let blob = match sizes.get(id) {
                None => BlobContent::Missing,
                Some(&size) => match usize::try_from(size) {
                    Ok(len) if len <= largest && len <= all - taken => {
                        input.extend(self.hex(id).bytes().chain(*b"\n"));
                        taken += len;
                        count += 1;
                        BlobContent::Missing
                    }
                    Ok(_) | Err(_) => BlobContent::TooLarge(size),
                },
            };
            blobs.insert(*id, blob);
        }
        if count > 0 {
            let mut call =
                PlumbingCommand::new(PlumbingContext::Shadow, BATCH_COMMAND).with_input(&input);
            call.max_output = taken + count * MAX_OBJECT_HEADER_BYTES;
            let output = self.run_git(&call, deadline)?;
            let objects = self.parse_objects(&output, "blob")?;
            blobs.extend(objects.into_iter().map(|(id, bytes)| (id, BlobContent::Content(bytes))));
        }
        Ok(blobs)
    }

    /// `None` if they are too large to be read at once.
    fn read_few_blobs(
        &self,
        ids: &[ObjectId],
        largest: usize,
        all: usize,
        deadline: &Deadline,
    ) -> Result<Option<BTreeMap<ObjectId, BlobContent>>, CheckpointError> {
        let unique: BTreeSet<&ObjectId> = ids.iter().collect();
        let input = batch_input(self.format, unique);
        if input.is_empty() {
            return Ok(Some(BTreeMap::new()));
        }
        let mut call =
            PlumbingCommand::new(PlumbingContext::Shadow, BATCH_COMMAND).with_input(&input);
        call.max_output = FEW_BLOBS_BYTES;
        let output = self.run_git_truncated(&call, deadline)?;
        if output.truncated {
            return Ok(None);
        }
        let mut objects = self.parse_objects(&output.stdout, "blob")?;
        let (mut blobs, mut taken) = (BTreeMap::new(), 0);
        for id in ids {
            if blobs.contains_key(id) {
                continue;
            }
            let blob = match objects.remove(id) {
                None => BlobContent::Missing,
                Some(bytes) if bytes.len() <= largest && bytes.len() <= all - taken => {
                    taken += bytes.len();
                    BlobContent::Content(bytes)
                }
                Some(bytes) => BlobContent::TooLarge(bytes.len() as u64),
            };
            blobs.insert(*id, blob);
        }
        Ok(Some(blobs))
    }

    /// The content of the trees that exist.
    pub(super) fn read_trees(
        &self,
        ids: &[ObjectId],
        deadline: &Deadline,
    ) -> Result<BTreeMap<ObjectId, Vec<u8>>, CheckpointError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let input = batch_input(self.format, ids);
        let call = PlumbingCommand::new(PlumbingContext::Shadow, BATCH_COMMAND).with_input(&input);
        let output = self.run_git(&call, deadline)?;
        self.parse_objects(&output, "tree")
    }

    /// The objects of one kind. Others are left out.
    fn parse_objects(
        &self,
        output: &[u8],
        wanted: &str,
    ) -> Result<BTreeMap<ObjectId, Vec<u8>>, CheckpointError> {
        let objects = parse_batch(self.format, output)?.into_iter();
        let objects = objects.filter(|object| object.kind == wanted);
        Ok(objects.map(|object| (object.id, object.content.to_vec())).collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlobContent {
    Content(Vec<u8>),
    /// With its size.
    TooLarge(u64),
    Missing,
}

/// Leaves out all configuration but that of the shadow. The user's attributes have a default path, which does not depend
/// on the configuration.
fn isolate(git: HardenedGit<'_>) -> HardenedGit<'_> {
    git.settings(&["core.attributesFile=/dev/null"])
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .without_replacements()
}

/// The error for output that does not have the documented form.
pub(super) fn unexpected_git_output(what: &str) -> CheckpointError {
    GitCommandError::unexpected_output(what).into()
}

impl From<GitCommandError> for CheckpointError {
    fn from(error: GitCommandError) -> Self {
        match error {
            GitCommandError::Missing => Self::GitMissing,
            GitCommandError::Failed { what, why } => Self::Git { what, why },
            GitCommandError::TimedOut { what } => Self::TimedOut { what },
            GitCommandError::WrongContent { id } => Self::WrongContent { id },
        }
    }
}

fn parse_number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(super) fn mode_digits(mode: TreeEntryMode) -> &'static str {
    match mode {
        TreeEntryMode::File => "100644",
        TreeEntryMode::Executable => "100755",
        TreeEntryMode::Symlink => "120000",
        TreeEntryMode::Repository => "160000",
    }
}

/// Returns `None` for `000000`, the missing side of an added or deleted path, and for unknown modes.
pub(super) fn mode_from_digits(digits: &[u8]) -> Option<TreeEntryMode> {
    match digits {
        // Old trees have group-writable files.
        b"100644" | b"100664" => Some(TreeEntryMode::File),
        b"100755" => Some(TreeEntryMode::Executable),
        b"120000" => Some(TreeEntryMode::Symlink),
        b"160000" => Some(TreeEntryMode::Repository),
        _ => None,
    }
}

/// Quotes a path as git does: bytes that are not printable ASCII become octal escapes.
pub(super) fn quote_path(path: &[u8]) -> Vec<u8> {
    let mut line = vec![b'"'];
    for byte in path {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            b' '..=b'~' => line.push(*byte),
            _ => line.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    line.push(b'"');
    line
}

pub(super) fn unquote_path(line: &[u8]) -> Option<Vec<u8>> {
    let mut rest = line.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut path = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            path.push(*first);
            continue;
        }
        let (escaped, after) = rest.split_first()?;
        if matches!(escaped, b'"' | b'\\') {
            path.push(*escaped);
            rest = after;
        } else {
            let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
            path.push(u8::from_str_radix(digits, 8).ok()?);
            rest = rest.get(3..)?;
        }
    }
    Some(path)
}

/// Formats a line of `objects/info/alternates`.
pub(super) fn alternates_line(objects: &Path) -> Vec<u8> {
    let mut line = quote_path(objects.as_os_str().as_bytes());
    line.push(b'\n');
    line
}

/// Formats one record of input for `update-index -z --index-info`.
pub(super) fn index_info_record(mode: &str, id: &str, path: &OsStr) -> Vec<u8> {
    let mut line = format!("{mode} {id}\t").into_bytes();
    line.extend(path.as_bytes());
    line.push(0);
    line
}

/// Removes the lock file that a killed git left on an index. The caller must hold the shadow's lock, so no other git is
/// using the index.
pub(super) fn remove_index_lock(index: &Path) -> Result<(), fs::FileError> {
    let mut lock = index.as_os_str().to_owned();
    lock.push(".lock");
    fs::remove_file(&PathBuf::from(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_survives_quoting_and_bad_quotes_are_refused() {
        let every: Vec<u8> = (0..=255).collect();
        for path in [&b""[..], b"a b", b"\"", b"\\n", b"\n\r\t", &every] {
            assert_eq!(unquote_path(&quote_path(path)).as_deref(), Some(path));
        }
        for wrong in [&b""[..], b"a", b"\"", b"\"\\\"", b"\"\\9\"", b"\"\\999\"", b"\"\\77\""] {
            assert_eq!(unquote_path(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
