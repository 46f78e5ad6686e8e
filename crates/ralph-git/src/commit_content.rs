//! Reads commits of a repository: their trees, their files, and the notes on them. No program that the repository's
//! configuration names is run. The only command that writes adds a note, for a person who asked for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ralph_sys::clock::Deadline;
use ralph_sys::proc::ProgramLimits;

use crate::commit_comparison::{CommittedEntry, parse_tree_record};
use crate::git::{read_only_git, work_tree_root};
use crate::hardened_git::{GitCommandError, GitOutput, HardenedGit, MAX_OUTPUT_BYTES};
use crate::object_batch::{
    BATCH_COMMAND, MAX_COMMIT_BYTES, MAX_OBJECT_HEADER_BYTES, check_trees, directory_id,
    parse_batch, tree_of_commit,
};
use crate::tree::ObjectFormat;

/// The ref of ralph's notes, as `git notes --ref` takes it: `refs/notes/ralph`.
const NOTES_REF: &str = "--ref=ralph";
/// How many commits of a history are compared with a tree.
const MAX_SEARCHED_COMMITS: &str = "--max-count=1000";
/// How many commits of a history are compared with a tree apart from the host's local settings.
const MAX_PRUNED_COMMITS: usize = 100;
/// Enough for a million paths.
const MAX_LISTING_BYTES: usize = 256 * 1024 * 1024;
/// The committer of notes, which no person has to have configured.
const NOTE_AUTHOR: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "ralph"),
    ("GIT_AUTHOR_EMAIL", "ralph@localhost"),
    ("GIT_COMMITTER_NAME", "ralph"),
    ("GIT_COMMITTER_EMAIL", "ralph@localhost"),
];

/// A repository whose commits are read.
#[derive(Clone, Debug)]
pub struct CommitReader {
    root: PathBuf,
    deadline: Deadline,
}

/// A file in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommittedFile {
    Content(Vec<u8>),
    /// A link, a submodule, or more bytes than are read.
    Unreadable,
    Missing,
}

impl CommitReader {
    /// The repository that contains `directory`, which has no symbolic links. `None` if there is none.
    pub fn open(directory: &Path, deadline: Deadline) -> Option<Self> {
        Some(Self { root: work_tree_root(directory)?.to_owned(), deadline })
    }

    /// The root of the work tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The id of the commit that a name refers to, such as `HEAD` or a full id. `None` if there is none.
    pub fn find_commit(&self, name: &str) -> Result<Option<String>, GitCommandError> {
        self.resolve(&format!("{name}^{{commit}}"))
    }

    /// The id of the tree of a commit.
    pub fn tree_of(&self, commit: &str) -> Result<Option<String>, GitCommandError> {
        let Some(commit) = self.find_commit(commit)? else { return Ok(None) };
        let output = self.read_objects([&*commit], MAX_COMMIT_BYTES)?;
        let format = id_format(&commit);
        let objects = parse_batch(format, &output.stdout)?;
        let content = objects.first().filter(|object| object.kind == "commit");
        let tree = content.and_then(|object| tree_of_commit(format, object.content));
        Ok(tree.map(|tree| format.hex(&tree)))
    }

    /// The id of a tree, if the repository has it. Its content is compared with the id when its files are read.
    pub fn find_tree(&self, tree: &str) -> Result<Option<String>, GitCommandError> {
        Ok(self.resolve(&format!("{tree}^{{tree}}"))?.filter(|found| found == tree))
    }

    fn resolve(&self, name: &str) -> Result<Option<String>, GitCommandError> {
        let output =
            self.query(&["rev-parse", "--verify", "--quiet", "--end-of-options", name], 1024)?;
        Ok(Some(first_line(&output)).filter(|id| output.code == 0 && is_full_id(id)))
    }

    /// The newest commit in the history of `from` with this tree, apart from the host's local settings: a listing of the
    /// work tree leaves them out. `directory` is the project, relative to the root.
    pub fn find_commit_with_tree(
        &self,
        from: &str,
        tree: &str,
        directory: &str,
    ) -> Result<Option<String>, GitCommandError> {
        let Some(from) = self.find_commit(from)? else { return Ok(None) };
        let log = ["log", "--no-show-signature", "--no-color", "--format=%H %T"];
        let log = [&log[..], &[MAX_SEARCHED_COMMITS, &from, "--"]].concat();
        let output = self.query(&log, MAX_OUTPUT_BYTES)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let pairs: Vec<_> = pairs.filter(|(id, of)| is_full_id(id) && is_full_id(of)).collect();
        let mut found = pairs.iter().find(|(_, of)| *of == tree);
        if found.is_none() {
            let recent = pairs.get(..MAX_PRUNED_COMMITS).unwrap_or(&pairs);
            let trees: Vec<_> = recent.iter().map(|(_, of)| *of).collect();
            let pruned = self.without_local_settings(&trees, directory)?;
            found = recent.iter().zip(&pruned).find(|(_, of)| *of == tree).map(|(pair, _)| pair);
        }
        let Some((id, of)) = found else { return Ok(None) };
        Ok((self.tree_of(id)?.as_deref() == Some(*of)).then(|| (*id).to_owned()))
    }

    /// The paths of the files in a tree.
    pub fn file_paths(&self, tree: &str) -> Result<Vec<String>, GitCommandError> {
        let (listing, format) = (self.list_tree(tree)?, id_format(tree));
        let records = listing.split(|byte| *byte == 0);
        let files = records.filter(|record| directory_id(format, record).is_none());
        let path = |record| Some(String::from_utf8_lossy(record).split_once('\t')?.1.to_owned());
        Ok(files.filter_map(path).collect())
    }

    /// The files of a tree at these paths, each of at most `largest` bytes.
    pub fn read_files(
        &self,
        tree: &str,
        paths: &[&str],
        largest: usize,
    ) -> Result<BTreeMap<String, CommittedFile>, GitCommandError> {
        let mut files: BTreeMap<String, CommittedFile> =
            paths.iter().map(|path| ((*path).to_owned(), CommittedFile::Missing)).collect();
        for record in self.list_tree(tree)?.split(|byte| *byte == 0) {
            let record = String::from_utf8_lossy(record);
            let Some((entry, path)) = record.split_once('\t') else { continue };
            let Some(file) = files.get_mut(path) else { continue };
            let mut fields = entry.split(' ');
            *file = match (fields.next(), fields.next(), fields.next()) {
                (Some("100644" | "100755"), Some("blob"), Some(id)) => {
                    self.read_blob(id, largest)?
                }
                _ => CommittedFile::Unreadable,
            };
        }
        Ok(files)
    }

    /// Every entry in the tree of a commit, by path.
    pub(crate) fn list_entries(
        &self,
        commit: &str,
    ) -> Result<BTreeMap<OsString, CommittedEntry>, GitCommandError> {
        let missing = || GitCommandError::failed("rev-parse", "found no such commit");
        let listing = self.list_tree(&self.tree_of(commit)?.ok_or_else(missing)?)?;
        let format = id_format(commit);
        let records = listing
            .split(|byte| *byte == 0)
            .filter(|record| !record.is_empty() && directory_id(format, record).is_none());
        let parse = |record| {
            parse_tree_record(record).ok_or_else(|| GitCommandError::unexpected_output("ls-tree"))
        };
        records.map(parse).collect()
    }

    /// The records of a tree, with those of its directories, whose content has their ids.
    fn list_tree(&self, tree: &str) -> Result<Vec<u8>, GitCommandError> {
        let listing =
            self.query(&["ls-tree", "-r", "-t", "-z", "--full-tree", tree], MAX_LISTING_BYTES)?;
        if listing.code != 0 || listing.truncated {
            return Err(GitCommandError::unexpected_output("ls-tree"));
        }
        let format = id_format(tree);
        let records = listing.stdout.split(|byte| *byte == 0);
        let mut trees: BTreeSet<String> =
            records.filter_map(|record| Some(format.hex(&directory_id(format, record)?))).collect();
        trees.insert(tree.to_owned());
        let output = self.read_objects(trees.iter().map(String::as_str), MAX_LISTING_BYTES)?;
        check_trees(format, &output.stdout, trees.len())?;
        Ok(listing.stdout)
    }

    pub(crate) fn read_blob(
        &self,
        id: &str,
        largest: usize,
    ) -> Result<CommittedFile, GitCommandError> {
        let limits = self.limits(largest.saturating_add(MAX_OBJECT_HEADER_BYTES));
        let input = format!("{id}\n");
        let git = read_only_git(&self.root);
        let output = git.run(&BATCH_COMMAND, Some(input.as_bytes()), &limits)?;
        if output.code != 0 || output.truncated {
            return Ok(CommittedFile::Unreadable);
        }
        let objects = parse_batch(id_format(id), &output.stdout)?;
        let blob = objects.first().filter(|object| object.kind == "blob");
        Ok(match blob.map(|object| object.content) {
            Some(content) if content.len() <= largest => CommittedFile::Content(content.to_vec()),
            Some(_) | None => CommittedFile::Unreadable,
        })
    }

    /// Ralph's note on a commit.
    pub fn read_note(
        &self,
        commit: &str,
        largest: usize,
    ) -> Result<Option<CommittedFile>, GitCommandError> {
        let output = self.query(&["notes", NOTES_REF, "list", commit], 1024)?;
        let id = first_line(&output);
        if output.code != 0 || !is_full_id(&id) {
            return Ok(None);
        }
        self.read_blob(&id, largest).map(Some)
    }

    /// Sets ralph's note on a commit to the bytes of a file, in place of an earlier one.
    pub fn write_note(&self, commit: &str, content: &Path) -> Result<(), GitCommandError> {
        let limits = self.limits(1024);
        let git = HardenedGit::new(&self.root)
            .settings(&["gc.auto=0", "maintenance.auto=false", "commit.gpgSign=false"])
            .confine_to(&self.root)
            .without_replacements()
            .offline();
        let git = NOTE_AUTHOR.iter().fold(git, |git, (name, value)| git.env(*name, *value));
        // `-C` copies the bytes as they are, whereas `-F` would remove white space.
        let stored = git.run(
            &["hash-object".as_ref(), "-w".as_ref(), "--no-filters".as_ref(), content.as_os_str()],
            None,
            &limits,
        )?;
        let blob = first_line(&stored);
        if stored.code != 0 || !is_full_id(&blob) {
            return Err(GitCommandError::unexpected_output("hash-object"));
        }
        let added =
            git.run(&["notes", NOTES_REF, "add", "-f", "-C", &blob, commit], None, &limits)?;
        if added.code != 0 {
            return Err(GitCommandError::failed("notes", "could not add the note"));
        }
        Ok(())
    }

    fn query(&self, arguments: &[&str], most: usize) -> Result<GitOutput, GitCommandError> {
        read_only_git(&self.root).run(arguments, None, &self.limits(most))
    }

    pub(crate) fn read_objects<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a str>,
        most: usize,
    ) -> Result<GitOutput, GitCommandError> {
        let mut input = Vec::new();
        for id in ids {
            input.extend(id.bytes().chain(*b"\n"));
        }
        let output =
            read_only_git(&self.root).run(&BATCH_COMMAND, Some(&input), &self.limits(most))?;
        if output.code != 0 || output.truncated {
            return Err(GitCommandError::unexpected_output("cat-file"));
        }
        Ok(output)
    }

    fn limits(&self, most: usize) -> ProgramLimits {
        ProgramLimits { deadline: self.deadline, max_output_bytes: most }
    }
}

fn first_line(output: &GitOutput) -> String {
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}

/// The format of a full id.
pub(crate) fn id_format(id: &str) -> ObjectFormat {
    if id.len() == 2 * ObjectFormat::Sha1.id_len() {
        ObjectFormat::Sha1
    } else {
        ObjectFormat::Sha256
    }
}

/// Whether `text` is the full id of an object, in either of git's formats.
pub fn is_full_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64)
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
