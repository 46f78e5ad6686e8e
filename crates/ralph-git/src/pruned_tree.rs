//! Trees of commits as a listing would have them. A host's local settings can be committed, but are in no listing and so
//! in no checkpoint.

use std::collections::{BTreeMap, BTreeSet};

use ralph_host::HOSTS;

use crate::checkpoint::split_tree;
use crate::commit_content::{CommitReader, id_format};
use crate::hardened_git::GitCommandError;
use crate::object_batch::parse_batch;
use crate::tree::{ObjectFormat, ObjectId, hash_object};

const DIRECTORY_MODE: &[u8] = b"40000";
/// Enough for the directories at the root of many commits.
const MAX_TREES_BYTES: usize = 256 * 1024 * 1024;

impl CommitReader {
    /// The ids that these trees would have without the host's local settings, in the same order. `directory` is the
    /// project, relative to the root.
    pub fn without_local_settings(
        &self,
        trees: &[&str],
        directory: &str,
    ) -> Result<Vec<String>, GitCommandError> {
        let Some(format) = trees.first().map(|tree| id_format(tree)) else { return Ok(Vec::new()) };
        let paths = local_settings_paths(directory);
        let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
        let parse = |tree: &&str| format.parse(tree.as_bytes());
        let ids: Option<Vec<_>> = trees.iter().map(parse).collect();
        let ids = ids.ok_or_else(|| GitCommandError::unexpected_output("cat-file"))?;
        let mut pruning = TreePruning { format, stored: BTreeMap::new(), missing: BTreeSet::new() };
        loop {
            let pruned: Vec<_> = ids.iter().map(|id| pruning.prune(*id, &paths)).collect();
            let missing = std::mem::take(&mut pruning.missing);
            if missing.is_empty() {
                let empty = hash_object(format, "tree", b"");
                return Ok(pruned.iter().map(|id| format.hex(&id.unwrap_or(empty))).collect());
            }
            let names: Vec<_> = missing.iter().map(|id| format.hex(id)).collect();
            let output = self.read_objects(names.iter().map(String::as_str), MAX_TREES_BYTES)?;
            let objects = parse_batch(format, &output.stdout)?.into_iter();
            let read =
                objects.filter(|object| object.kind == "tree" && missing.contains(&object.id));
            let read: BTreeMap<_, _> = read.map(|one| (one.id, one.content.to_vec())).collect();
            if read.len() != missing.len() {
                return Err(GitCommandError::unexpected_output("cat-file"));
            }
            pruning.stored.extend(read);
        }
    }
}

/// The paths of all hosts, as names of directories and of a file.
fn local_settings_paths(directory: &str) -> Vec<Vec<String>> {
    let split = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let mut paths = Vec::new();
    for host in HOSTS {
        let file = split(host.files.local_settings);
        if !directory.is_empty() {
            paths.push([split(directory), file.clone()].concat());
        }
        paths.push(file);
    }
    paths
}

/// Computes the ids of trees without some paths, from the trees that were read so far.
struct TreePruning {
    format: ObjectFormat,
    stored: BTreeMap<ObjectId, Vec<u8>>,
    /// Trees that are needed and were not read yet.
    missing: BTreeSet<ObjectId>,
}

impl TreePruning {
    /// `None` if nothing is left of the tree. Git stores no empty directories.
    fn prune(&mut self, tree: ObjectId, paths: &[&[String]]) -> Option<ObjectId> {
        let Some(content) = self.stored.get(&tree).cloned() else {
            self.missing.insert(tree);
            return Some(tree);
        };
        // The content has the id, so that git cannot have another tree for it.
        let Some(lines) = split_tree(&content, self.format) else { return Some(tree) };
        let mut kept = Vec::with_capacity(content.len());
        for line in lines {
            let below = paths.iter().filter_map(|path| path.split_first());
            let below = below.filter(|(first, _)| first.as_bytes() == line.name);
            let below: Vec<&[String]> = below.map(|(_, rest)| rest).collect();
            if below.iter().any(|rest| rest.is_empty()) {
                continue;
            }
            let id = if below.is_empty() || line.mode != DIRECTORY_MODE {
                Some(line.id)
            } else {
                self.prune(line.id, &below)
            };
            let Some(id) = id else { continue };
            let id = id.0.into_iter().take(self.format.id_len());
            kept.extend(
                line.mode.iter().chain(b" ").chain(line.name).chain(b"\0").copied().chain(id),
            );
        }
        if kept == content {
            return Some(tree);
        }
        (!kept.is_empty()).then(|| hash_object(self.format, "tree", &kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree_content(lines: &[(&str, &str, ObjectId)]) -> Vec<u8> {
        let mut content = Vec::new();
        for (mode, name, id) in lines {
            content.extend(format!("{mode} {name}\0").bytes().chain(id.0.into_iter().take(20)));
        }
        content
    }

    /// Only the local settings are left out, at the root and in the project, with the directories that they empty.
    #[test]
    fn a_tree_is_pruned_of_local_settings_only() {
        let format = ObjectFormat::Sha1;
        let blob = hash_object(format, "blob", b"x");
        let mut stored = BTreeMap::new();
        let mut store = |lines: &[(&str, &str, ObjectId)]| {
            let content = tree_content(lines);
            let id = hash_object(format, "tree", &content);
            stored.insert(id, content);
            id
        };
        let local = ("100644", "settings.local.json", blob);
        let shared = ("100644", "settings.json", blob);
        let (only_local, only_shared) = (store(&[local]), store(&[shared]));
        let both = store(&[shared, local]);
        let main = ("100644", "main.sh", blob);
        let plain = store(&[main]);
        let named_otherwise = store(&[local, main]);
        let with_local = store(&[("40000", ".claude", only_local), main]);
        let nested = store(&[main, ("40000", "web", with_local)]);
        let rows = [
            ("nothing to leave out", plain, "", plain),
            ("an emptied directory", with_local, "", plain),
            (
                "nothing else",
                store(&[("40000", ".claude", only_local)]),
                "",
                hash_object(format, "tree", b""),
            ),
            (
                "shared settings stay",
                store(&[("40000", ".claude", both), main]),
                "",
                store(&[("40000", ".claude", only_shared), main]),
            ),
            ("the same name elsewhere", named_otherwise, "", named_otherwise),
            ("of another directory", nested, "", nested),
            ("of the project", nested, "web", store(&[main, ("40000", "web", plain)])),
        ];
        for (name, tree, directory, expected) in rows {
            let paths = local_settings_paths(directory);
            let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
            let mut pruning =
                TreePruning { format, stored: stored.clone(), missing: BTreeSet::new() };
            let pruned = pruning.prune(tree, &paths);
            let pruned = pruned.unwrap_or_else(|| hash_object(format, "tree", b""));
            assert_eq!(
                (format.hex(&pruned), pruning.missing.len()),
                (format.hex(&expected), 0),
                "{name}"
            );
        }
    }
}
