//! Tracked links that lead out of the work tree. A checkpoint and a fingerprint cover the link, but not the files behind it,
//! which gates and judges read. So a run seals their targets, and ends `green` at best if one changes.
//!
//! A link that the agent adds or changes holds it instead (`nothing hidden`).

use std::path::{Path, PathBuf};

use ralph_core::sealed_file::OutsideLink;
use ralph_core::text;
use ralph_git::git;
use ralph_git::tree::{TreeEntryMode, WorkTreeListing};
use ralph_proof::environment_record::changed_since;
use ralph_proof::environment_roots::EnvironmentRoot;
use ralph_sys::fs::{self, FileKind, FileStat};

use super::ContractContext;

/// Further links are not sealed.
const MAX_LINKS: usize = 1_000;
const MAX_NAMED: usize = 3;
const MAX_PATH_CHARS: usize = 120;

/// The links of a new run, in the order of their paths.
pub(super) fn seal_outside_links(listing: &WorkTreeListing) -> Vec<OutsideLink> {
    let root = fs::resolve(&listing.root).unwrap_or_else(|| listing.root.clone());
    let links = listing.entries.iter().filter(|entry| entry.mode == TreeEntryMode::Symlink);
    let names = links.filter_map(|entry| entry.path.to_str());
    let outside = names.filter_map(|name| {
        let link = root.join(name);
        let is_outside = !find_target(&link)?.starts_with(&root);
        is_outside.then(|| OutsideLink { path: name.to_string(), mark: target_mark(&link) })
    });
    outside.take(MAX_LINKS).collect()
}

/// Where a link leads, also if nothing is there yet.
fn find_target(link: &Path) -> Option<PathBuf> {
    let written = || Some(fs::normalize_lexically(&link.parent()?.join(fs::read_link(link).ok()?)));
    fs::resolve(link).or_else(written)
}

/// Identifies the file or directory behind a link; empty if there is none. Files below a directory are compared by the
/// time of their last change.
fn target_mark(link: &Path) -> String {
    let (Some(target), Some(stat)) = (fs::resolve(link), fs::stat(link)) else {
        return String::new();
    };
    let FileStat { kind, len, device, inode, modified_ns, changed_ns, mode } = stat;
    let content = match kind {
        FileKind::Directory => String::new(),
        FileKind::File | FileKind::Symlink | FileKind::Other => {
            format!("{len} {modified_ns} {changed_ns} {mode}")
        }
    };
    let mut hasher = blake3::Hasher::new();
    hasher.update(format!("{device} {inode} {content}\0").as_bytes());
    hasher.update(target.as_os_str().as_encoded_bytes());
    hasher.finalize().to_hex()[..32].to_string()
}

/// The links whose targets are not as they were when the run began, or cannot be compared.
pub(super) fn changed_links<'a>(contract: &ContractContext<'a>) -> Vec<&'a str> {
    let links = contract.seal.base.iter().flat_map(|base| &base.outside_links);
    let Some(root) = work_tree(contract.project()) else {
        return links.map(|link| link.path.as_str()).collect();
    };
    let since_ms = contract.run.started_ms;
    let is_changed = |link: &&OutsideLink| {
        let path = root.join(&link.path);
        target_mark(&path) != link.mark || has_late_files(&path, &root, since_ms)
    };
    links.filter(is_changed).map(|link| link.path.as_str()).collect()
}

fn work_tree(project: &Path) -> Option<PathBuf> {
    let project = fs::resolve(project)?;
    Some(git::work_tree_root(&project).unwrap_or(&project).to_owned())
}

/// Whether the link leads to a directory in which something changed since then, or that has too many files to look.
fn has_late_files(link: &Path, root: &Path, since_ms: u64) -> bool {
    let directory = fs::stat(link).filter(|stat| stat.kind == FileKind::Directory);
    directory.is_some_and(|stat| {
        let roots = [EnvironmentRoot { name: String::new(), path: link.to_owned() }];
        let is_quiet = |late: Vec<String>| late.is_empty();
        stat.changed_ns / 1_000_000 >= since_ms
            || !changed_since(&roots, root, since_ms, 1).is_ok_and(is_quiet)
    })
}

/// Why a run with these changed links is not verified.
pub(super) fn describe_links(changed: &[String]) -> String {
    let names = changed.iter().take(MAX_NAMED);
    let names: Vec<String> =
        names.map(|name| format!("`{}`", text::clean_line(name, MAX_PATH_CHARS))).collect();
    let others = if changed.len() > MAX_NAMED { " and others" } else { "" };
    format!("targets of tracked links changed outside of the project: {}{others}", names.join(", "))
}
