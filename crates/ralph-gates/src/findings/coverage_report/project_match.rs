//! Finds the files of the project that a coverage report names.

use super::{CoverageDraft, DraftLines, DraftName, drop_excess_lines};
use crate::findings::ReportContext;
use crate::findings::project_file::{is_dependency_directory, resolve_dots};
use ralph_core::coverage::{FileCoverage, MeasuredCoverage};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// How many directories at the start of a foreign name are left out at most.
const MAX_FOREIGN_DEPTH: usize = 16;

/// How certain it is which file a name stands for.
enum FileMatch {
    /// The name leads to the file.
    Exact(String),
    /// Only the end of the name does: the report was made elsewhere, or names a Go module.
    Ending(String),
}

/// Adds up the lines of project files, without excluded ones. Two names that only end alike stand for neither file.
pub(super) fn match_project_files(
    draft: CoverageDraft,
    context: &ReportContext<'_>,
) -> MeasuredCoverage {
    let mut exact: BTreeMap<String, DraftLines> = BTreeMap::new();
    let mut endings: BTreeMap<String, Vec<DraftLines>> = BTreeMap::new();
    let mut unmatched = 0_usize;
    for (name, lines) in draft.files {
        match find_file(&name, context) {
            Some(FileMatch::Exact(path)) => {
                let known = exact.entry(path).or_default();
                known.covered.extend(lines.covered);
                known.missed.extend(lines.missed);
            }
            Some(FileMatch::Ending(path)) => endings.entry(path).or_default().push(lines),
            None => unmatched += 1,
        }
    }
    for (path, mut same) in endings {
        match (same.pop(), same.is_empty()) {
            (Some(lines), true) if !exact.contains_key(&path) => {
                exact.insert(path, lines);
            }
            _ => unmatched += same.len() + 1,
        }
    }
    let mut measured = MeasuredCoverage {
        unmatched: u32::try_from(unmatched).unwrap_or(u32::MAX),
        ..MeasuredCoverage::default()
    };
    let is_excluded =
        |path: &str| context.is_excluded.is_some_and(|excluded| excluded.is_match(path));
    for (path, lines) in exact {
        if is_excluded(&path) {
            continue;
        }
        let (covered, missed) = lines.into_sets();
        measured.covered = measured.covered.saturating_add(covered.count());
        let executable = covered.count().saturating_add(missed.count());
        measured.lines = measured.lines.saturating_add(executable);
        measured.files.insert(path, FileCoverage { covered, missed });
    }
    drop_excess_lines(&mut measured);
    measured
}

fn find_file(name: &DraftName, context: &ReportContext<'_>) -> Option<FileMatch> {
    let bare = name.name.strip_prefix("file://").unwrap_or(&name.name);
    let sources = name.sources.iter().map(|source| context.cwd.join(source).join(bare));
    let direct = sources.chain([context.cwd.join(bare)]);
    let mut inside = direct.filter_map(|path| project_path(&path, context));
    if let Some(path) = inside.find(|path| context.is_file.is_match(path)) {
        return Some(FileMatch::Exact(path));
    }
    find_by_ending(Path::new(bare), context).map(FileMatch::Ending)
}

/// The file that the longest possible end of a foreign name leads to.
fn find_by_ending(name: &Path, context: &ReportContext<'_>) -> Option<String> {
    let mut parts = Vec::new();
    for component in name.components() {
        match component {
            Component::Normal(part) if is_dependency_directory(part) => return None,
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => return None,
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    // One file name alone is too little to recognise a file of another machine by.
    let least = if name.is_absolute() { 2 } else { 1 };
    let roots = BTreeSet::from([context.cwd, context.root]);
    let longest = parts.len().saturating_sub(1).min(MAX_FOREIGN_DEPTH);
    (1..=longest).filter(|left_out| parts.len() - left_out >= least).find_map(|left_out| {
        let end: PathBuf = parts.get(left_out..)?.iter().collect();
        let paths = roots.iter().rev().filter_map(|root| project_path(&root.join(&end), context));
        paths.into_iter().find(|path| context.is_file.is_match(path))
    })
}

/// The path relative to the project; `None` outside of it.
fn project_path(path: &Path, context: &ReportContext<'_>) -> Option<String> {
    let path = resolve_dots(path)?;
    let inside = path.strip_prefix(context.root).ok()?.to_str()?;
    (!inside.is_empty()).then(|| inside.to_string())
}
