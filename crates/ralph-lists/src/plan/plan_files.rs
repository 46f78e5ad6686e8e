//! Finds plans in their conventional locations.

use ralph_sys::fs::{self, FileError, FileKind};
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
pub fn find_plans(project: &Path) -> Result<Vec<PathBuf>, FileError> {
    let Some(root) = fs::resolve(project) else { return Ok(Vec::new()) };
    let mut candidates: Vec<PathBuf> = PLAN_FILES.iter().map(PathBuf::from).collect();
    let specs = visible_entries(project, "specs")?;
    candidates.extend(specs.iter().map(|entry| entry.join("tasks.md")));
    let plans = visible_entries(project, "docs/plans")?;
    candidates.extend(plans.iter().map(|entry| entry.join("PLAN.md")));
    candidates.extend(plans.into_iter().filter(|entry| is_plan_file(entry)));
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
    Ok(plans)
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

/// The sorted entries of a directory without hidden ones; none if it does not exist.
fn visible_entries(project: &Path, directory: &str) -> Result<Vec<PathBuf>, FileError> {
    let names = match fs::list(&project.join(directory), MAX_ENTRIES) {
        Err(error) if error.is_missing() => Vec::new(),
        names => names?,
    };
    let shown = names.into_iter().filter(|name| !name.as_encoded_bytes().starts_with(b"."));
    Ok(shown.map(|name| Path::new(directory).join(name)).collect())
}

fn is_plan_file(path: &Path) -> bool {
    let is_readme = path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"));
    path.extension().is_some_and(|extension| extension == "md") && !is_readme
}
