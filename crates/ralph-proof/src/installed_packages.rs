//! Installed dependencies in a checkout: links to those of the project, except for packages that are part of the project
//! itself, which are those of the checkout.

use std::path::{Path, PathBuf};

use ralph_sys::fs::{self, ConfinedDir, FileError, FileKind};

/// Directories with installed dependencies. Gates need them, but they are not part of the work.
pub const DEPENDENCY_DIRECTORIES: [&str; 3] = ["node_modules", ".venv", "venv"];
const MAX_PACKAGES: usize = 100_000;

/// Links these directories of `project` into `checkout`, unless it has them.
pub(crate) fn link_packages(
    project: &Path,
    checkout: &Path,
    directories: &[&str],
) -> Result<(), FileError> {
    let inside = ConfinedDir::open(checkout)?;
    for name in directories {
        let (name, original) = (Path::new(name), project.join(name));
        if !fs::exists(&original) || inside.stat(name)?.is_some() {
            continue;
        }
        let parts = match Path::file_name(name) {
            Some(last) if last == "node_modules" => workspace_links(project, &original)?,
            _ => Vec::new(),
        };
        if parts.is_empty() {
            inside.put_link(name, &original)?;
        } else {
            link_each(&inside, name, &original, &parts, checkout)?;
        }
    }
    Ok(())
}

/// A package of `node_modules` that is a link into the project: its name, and where it leads, relative to the project.
struct WorkspaceLink {
    name: PathBuf,
    target: PathBuf,
}

/// Package managers link the packages of a workspace into its `node_modules`.
fn workspace_links(project: &Path, modules: &Path) -> Result<Vec<WorkspaceLink>, FileError> {
    let Some(root) = fs::resolve(project) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for name in package_names(modules)? {
        let path = modules.join(&name);
        let is_link = fs::stat_no_follow(&path).is_some_and(|stat| stat.kind == FileKind::Symlink);
        let target = fs::resolve(&path).filter(|_| is_link);
        let inside =
            target.and_then(|target| target.strip_prefix(&root).map(Path::to_path_buf).ok());
        found.extend(
            inside
                .filter(|target| {
                    !target.components().any(|part| part.as_os_str() == "node_modules")
                })
                .map(|target| WorkspaceLink { name, target }),
        );
    }
    Ok(found)
}

/// The packages of a `node_modules` directory, those in scopes as `@scope/name`.
fn package_names(modules: &Path) -> Result<Vec<PathBuf>, FileError> {
    let mut names = Vec::new();
    for name in fs::list_if_exists(modules, MAX_PACKAGES)? {
        if name.as_encoded_bytes().starts_with(b"@") {
            let scoped = fs::list_if_exists(&modules.join(&name), MAX_PACKAGES)?;
            names.extend(scoped.into_iter().map(|inner| Path::new(&name).join(inner)));
        } else {
            names.push(name.into());
        }
    }
    Ok(names)
}

fn link_each(
    inside: &ConfinedDir,
    directory: &Path,
    original: &Path,
    parts: &[WorkspaceLink],
    checkout: &Path,
) -> Result<(), FileError> {
    for name in package_names(original)? {
        let own = parts.iter().find(|part| part.name == name);
        let target = own.map_or_else(|| original.join(&name), |part| checkout.join(&part.target));
        inside.put_link(&directory.join(&name), &target)?;
    }
    Ok(())
}
