//! Turns the files of a listing into git's tree objects without an index, which git would read and write as a whole for
//! every checkpoint. The ids of all directories are computed here, and git stores only those that the last checkpoint
//! lacks, so a small change costs little in a large work tree.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::plumbing::{
    PlumbingCommand, PlumbingContext, mode_digits, mode_from_digits, quote_path,
    unexpected_git_output,
};
use super::{Checkpoint, CheckpointError, CheckpointRepository};
use crate::tree::{ObjectFormat, ObjectId, TreeEntry, TreeEntryMode, hash_object};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, Durability, FileError};

const MAX_KNOWN_BYTES: usize = 256 * 1024 * 1024;
const DIRECTORY_MODE: &[u8] = b"40000";
/// So many are written without asking whether they exist.
const FEW_DIRECTORIES: usize = 16;

/// The directories of a work tree as git's tree objects.
pub(super) struct DirectoryTrees {
    pub root: ObjectId,
    /// Subdirectories come before their parents.
    directories: Vec<(Vec<u8>, ObjectId)>,
    /// The content of the directories that are not known to be stored, in the same order.
    unstored: Vec<UnstoredDirectory>,
}

struct UnstoredDirectory {
    path: Vec<u8>,
    id: ObjectId,
    content: Vec<u8>,
    /// The positions of its own files in the listing.
    files: Vec<usize>,
}

/// A directory whose last entry has not been reached.
#[derive(Default)]
struct UnfinishedTree {
    path: Vec<u8>,
    content: Vec<u8>,
    files: Vec<usize>,
}

impl DirectoryTrees {
    /// `entries` are sorted by path, which is also git's order in every directory. An entry without an id is left out.
    pub(super) fn build(
        format: ObjectFormat,
        entries: &[TreeEntry],
        ids: &[Option<ObjectId>],
        known: &KnownTrees,
    ) -> Self {
        let root = ObjectId([0; 32]);
        let mut trees = Self { root, directories: Vec::new(), unstored: Vec::new() };
        let mut open = vec![UnfinishedTree::default()];
        for (at, (entry, id)) in entries.iter().zip(ids).enumerate() {
            let Some(id) = id else { continue };
            let path = entry.path.as_bytes();
            while open.last().is_some_and(|directory| !directory.contains(path)) {
                trees.close_last(format, &mut open, known);
            }
            let mut start = open.last().map_or(0, UnfinishedTree::name_start);
            while let Some(length) = memchr::memchr(b'/', &path[start..]) {
                let path = path[..start + length].to_vec();
                open.push(UnfinishedTree { path, ..UnfinishedTree::default() });
                start += length + 1;
            }
            if let Some(directory) = open.last_mut() {
                let mode = mode_digits(entry.mode).as_bytes();
                append_line(&mut directory.content, mode, &path[start..], id, format);
                directory.files.push(at);
            }
        }
        while !open.is_empty() {
            trees.close_last(format, &mut open, known);
        }
        trees
    }

    fn close_last(
        &mut self,
        format: ObjectFormat,
        open: &mut Vec<UnfinishedTree>,
        known: &KnownTrees,
    ) {
        let Some(UnfinishedTree { path, content, files }) = open.pop() else { return };
        let id = hash_object(format, "tree", &content);
        match open.last_mut() {
            Some(parent) => {
                let name = &path[parent.name_start()..];
                append_line(&mut parent.content, DIRECTORY_MODE, name, &id, format);
            }
            None => self.root = id,
        }
        if known.ids.get(&path) != Some(&id) {
            self.unstored.push(UnstoredDirectory { path: path.clone(), id, content, files });
        }
        self.directories.push((path, id));
    }
}

impl UnfinishedTree {
    fn contains(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(&*self.path);
        rest.is_some_and(|rest| self.path.is_empty() || rest.first() == Some(&b'/'))
    }

    /// Where the names of its entries begin in their paths.
    fn name_start(&self) -> usize {
        if self.path.is_empty() { 0 } else { self.path.len() + 1 }
    }
}

fn append_line(
    content: &mut Vec<u8>,
    mode: &[u8],
    name: &[u8],
    id: &ObjectId,
    format: ObjectFormat,
) {
    content.extend_from_slice(mode);
    content.push(b' ');
    content.extend_from_slice(name);
    content.push(0);
    content.extend_from_slice(&id.0[..format.id_len()]);
}

/// The directories of the last checkpoint, which are in the store because a ref leads to them.
#[derive(Default)]
pub(super) struct KnownTrees {
    ids: HashMap<Vec<u8>, ObjectId>,
}

impl CheckpointRepository {
    /// Nothing is known if the file is missing, or belongs to another checkpoint than the last one.
    pub(super) fn load_known_trees(&self, last: Option<&Checkpoint>) -> KnownTrees {
        let read = |last: &Checkpoint| {
            let bytes = fs::read(&self.known_trees_file(), MAX_KNOWN_BYTES).ok()?;
            let records = bytes.split(|byte| *byte == 0).filter(|record| !record.is_empty());
            let ids: HashMap<_, _> = records
                .map(|record| {
                    let (id, path) = record.split_at_checked(2 * self.format.id_len())?;
                    Some((path.to_vec(), self.format.parse(id)?))
                })
                .collect::<Option<_>>()?;
            (ids.get(&b""[..]) == Some(&last.tree)).then_some(KnownTrees { ids })
        };
        last.and_then(read).unwrap_or_default()
    }

    pub(super) fn save_known_trees(&self, trees: &DirectoryTrees) -> Result<(), FileError> {
        let mut bytes = Vec::new();
        for (path, id) in &trees.directories {
            bytes.extend(self.hex(id).bytes());
            bytes.extend(path);
            bytes.push(0);
        }
        fs::replace(&self.known_trees_file(), &bytes, Durability::Cached)
    }

    fn known_trees_file(&self) -> PathBuf {
        self.shadow.join("ralph-trees")
    }

    /// The positions of files in directories that are not stored, without those that the last checkpoint has too.
    pub(super) fn find_new_files(
        &self,
        trees: &DirectoryTrees,
        entries: &[TreeEntry],
        known: &KnownTrees,
        deadline: &Deadline,
    ) -> Result<Vec<usize>, CheckpointError> {
        let previous = |directory: &UnstoredDirectory| known.ids.get(&directory.path).copied();
        let stored: Vec<_> = trees.unstored.iter().filter_map(previous).collect();
        let contents = self.read_trees(&stored, deadline)?;
        let mut found = Vec::new();
        for directory in &trees.unstored {
            let content = previous(directory).and_then(|id| contents.get(&id));
            let lines = content.and_then(|content| parse_tree(content, self.format));
            let lines = lines.unwrap_or_default();
            found.extend(directory.files.iter().copied().filter(|at| {
                entries.get(*at).is_some_and(|entry| {
                    let line = lines.get(file_name(&entry.path));
                    line != Some(&(entry.mode, entry.id))
                })
            }));
        }
        Ok(found)
    }

    /// Stores the directories that are not known to be stored. Git is given their content in files, because its command
    /// for trees looks up every file in them.
    pub(super) fn write_trees(
        &self,
        trees: &DirectoryTrees,
        deadline: &Deadline,
    ) -> Result<(), CheckpointError> {
        let mut missing: Vec<&UnstoredDirectory> = trees.unstored.iter().collect();
        if missing.len() > FEW_DIRECTORIES {
            // Most directories of a first checkpoint are in the commit that is checked out.
            let ids: Vec<_> = missing.iter().map(|directory| directory.id).collect();
            let existing = self.existing_trees(&ids, deadline)?;
            missing.retain(|directory| !existing.contains(&directory.id));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let files = self.shadow.join("trees");
        fs::remove_own_dir_tree(&files)?;
        fs::create_private_dir(&files)?;
        let mut input = Vec::new();
        for (number, directory) in missing.iter().enumerate() {
            let file = files.join(number.to_string());
            fs::replace(&file, &directory.content, Durability::Cached)?;
            input.extend(quote_path(file.as_os_str().as_bytes()));
            input.push(b'\n');
        }
        // Names that are invalid on other systems only are allowed.
        let arguments =
            ["hash-object", "-w", "-t", "tree", "--literally", "--no-filters", "--stdin-paths"];
        let call = PlumbingCommand::new(PlumbingContext::Shadow, arguments).with_input(&input);
        let output = self.run_git(&call, deadline)?;
        fs::remove_own_dir_tree(&files)?;
        let written = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let written: Option<Vec<_>> = written.map(|line| self.format.parse(line)).collect();
        let is_expected =
            written.is_some_and(|ids| ids.iter().eq(missing.iter().map(|directory| &directory.id)));
        if is_expected { Ok(()) } else { Err(unexpected_git_output("hash-object")) }
    }

    /// Those of the trees that are in the store.
    fn existing_trees(
        &self,
        ids: &[ObjectId],
        deadline: &Deadline,
    ) -> Result<BTreeSet<ObjectId>, CheckpointError> {
        let input: Vec<u8> =
            ids.iter().flat_map(|id| self.hex(id).into_bytes().into_iter().chain(*b"\n")).collect();
        let format = "--batch-check=%(objecttype) %(objectname)";
        let call = PlumbingCommand::new(PlumbingContext::Shadow, ["cat-file", "--buffer", format]);
        let output = self.run_git(&call.with_input(&input), deadline)?;
        let lines = output.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(|line| self.format.parse(line.strip_prefix(b"tree ")?)).collect())
    }
}

/// One line of a tree object.
pub(crate) struct TreeLine<'a> {
    pub(crate) mode: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) id: ObjectId,
}

/// The lines of a tree object. `None` if it is none.
pub(crate) fn split_tree(mut content: &[u8], format: ObjectFormat) -> Option<Vec<TreeLine<'_>>> {
    let mut lines = Vec::new();
    while !content.is_empty() {
        let (mode, rest) = content.split_at_checked(memchr::memchr(b' ', content)?)?;
        let (name, rest) = rest.get(1..)?.split_at_checked(memchr::memchr(0, rest)? - 1)?;
        let (id, rest) = rest.get(1..)?.split_at_checked(format.id_len())?;
        lines.push(TreeLine { mode, name, id: ObjectId::from_prefix(id) });
        content = rest;
    }
    Some(lines)
}

/// The files of a tree object, by name.
fn parse_tree(
    content: &[u8],
    format: ObjectFormat,
) -> Option<HashMap<&[u8], (TreeEntryMode, ObjectId)>> {
    let lines = split_tree(content, format)?.into_iter();
    Some(
        lines
            .filter_map(|line| Some((line.name, (mode_from_digits(line.mode)?, line.id))))
            .collect(),
    )
}

fn file_name(path: &OsStr) -> &[u8] {
    let path = path.as_bytes();
    memchr::memrchr(b'/', path).map_or(path, |at| &path[at + 1..])
}
