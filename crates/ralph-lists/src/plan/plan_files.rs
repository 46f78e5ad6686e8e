//! Finds plans in their conventional locations.

use ralph_sys::fs::{self, FileKind};
use std::path::{Path, PathBuf};

const PLAN_FILES: [&str; 6] = [
    "PLAN.md",
    "IMPLEMENTATION_PLAN.md",
    "fix_plan.md",
    "@fix_plan.md",
    ".ralph/fix_plan.md",
    "tasks.md",
];
const MAX_ENTRIES: usize = 2_000;
const MAX_PLANS: usize = 200;

/// The plans of a project as relative paths, most likely ones first. Only regular files, without duplicates, and
/// nothing that a symbolic link brings in from outside the project.
pub fn find_plans(project: &Path) -> Vec<PathBuf> {
    let Some(root) = fs::resolve(project) else { return Vec::new() };
    let mut candidates: Vec<PathBuf> = PLAN_FILES.iter().map(PathBuf::from).collect();
    candidates.extend(visible_entries(project, "specs").map(|entry| entry.join("tasks.md")));
    candidates.extend(visible_entries(project, "docs/plans").map(|entry| entry.join("PLAN.md")));
    candidates.extend(visible_entries(project, "docs/plans").filter(|entry| is_plan_file(entry)));
    let mut known = Vec::new();
    let mut plans = Vec::new();
    for candidate in candidates {
        let path = project.join(&candidate);
        if fs::stat(&path).is_none_or(|stat| stat.kind != FileKind::File) {
            continue;
        }
        let Some(resolved) = fs::resolve(&path) else { continue };
        if resolved.starts_with(&root) && !known.contains(&resolved) {
            known.push(resolved);
            plans.push(candidate);
        }
        if plans.len() == MAX_PLANS {
            break;
        }
    }
    plans
}

/// Whether symbolic links lead from the project to a path outside it.
pub(super) fn leads_outside(project: &Path, path: &Path) -> bool {
    match (fs::resolve(project), fs::resolve(path)) {
        (Some(root), Some(resolved)) => !resolved.starts_with(root),
        // A missing file is reported when it is read.
        (_, None) => false,
        (None, Some(_)) => true,
    }
}

/// The sorted entries of a directory without hidden ones; none if there are too many.
fn visible_entries(project: &Path, directory: &'static str) -> impl Iterator<Item = PathBuf> {
    let names = fs::list(&project.join(directory), MAX_ENTRIES).unwrap_or_default();
    let is_shown = |name: &std::ffi::OsString| !name.as_encoded_bytes().starts_with(b".");
    names.into_iter().filter(is_shown).map(move |name| Path::new(directory).join(name))
}

fn is_plan_file(path: &Path) -> bool {
    let is_readme = path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"));
    path.extension().is_some_and(|extension| extension == "md") && !is_readme
}
