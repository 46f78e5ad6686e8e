//! Makes file names in tools' output relative to the project, and recognises files of dependencies.

use super::locate::Spot;
use super::{Context, words};
use ralph_core::requirement::Place;
use std::path::{Component, Path, PathBuf};

const LONGEST_FILE: usize = 400;

/// Directories with code of dependencies.
const FOREIGN: [&str; 8] = [
    "node_modules",
    "site-packages",
    "dist-packages",
    ".cargo",
    ".rustup",
    "vendor",
    "rustc",
    "importlib",
];

/// Returns `None` if nothing is left of the name after cleaning.
pub(super) fn of(spot: &Spot<'_>, context: &Context<'_>) -> Option<Place> {
    let file = relative(spot.file, context);
    (!file.is_empty()).then_some(Place { file, line: spot.line, column: spot.column })
}

/// Whether the file is in the project and not in a dependency. Of the many locations in a stack trace, such a file is
/// the one to show.
pub(super) fn is_own(file: &str, context: &Context<'_>) -> bool {
    let file = relative(file, context);
    let path = Path::new(&file);
    path.is_relative()
        && !path.components().any(|component| match component {
            Component::ParentDir => true,
            Component::Normal(name) => FOREIGN.iter().any(|foreign| name == *foreign),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => false,
        })
}

fn relative(file: &str, context: &Context<'_>) -> String {
    let file = words::line(file, LONGEST_FILE);
    let bare = file.strip_prefix("file://").unwrap_or(&file);
    let absolute = context.cwd.join(bare);
    let inside = without_dots(&absolute)
        .and_then(|path| path.strip_prefix(context.root).ok().map(Path::to_path_buf));
    match inside {
        Some(path) if !path.as_os_str().is_empty() => path.to_string_lossy().into_owned(),
        // Outside of the project, the name stays as the tool printed it.
        Some(_) | None => bare.to_owned(),
    }
}

/// Resolves `.` and `..`. Returns `None` if `..` leads beyond the root.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => out.push(component),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::Extent;
    use super::*;

    #[test]
    fn files_are_named_from_the_project() {
        let context = Context {
            root: Path::new("/project"),
            cwd: Path::new("/project/web"),
            extent: Extent::Whole,
        };
        for (name, expected) in [
            ("src/a.ts", "web/src/a.ts"),
            ("./src/a.ts", "web/src/a.ts"),
            ("../lib/a.ts", "lib/a.ts"),
            ("/project/src/a.rs", "src/a.rs"),
            ("file:///project/src/a.mjs", "src/a.mjs"),
            ("/project/web/../../etc/passwd", "/project/web/../../etc/passwd"),
            ("../../etc/passwd", "../../etc/passwd"),
            ("/usr/lib/x.py", "/usr/lib/x.py"),
            ("/project", "/project"),
            ("a\u{1b}[31m\u{202e}.rs\n", "web/a.rs"),
            ("", "web"),
        ] {
            assert_eq!(relative(name, &context), expected, "{name}");
        }
        assert!(is_own("src/a.ts", &context));
        assert!(!is_own("node_modules/x/a.js", &context));
        assert!(!is_own("/rustc/5980/library/core/src/panicking.rs", &context));
        assert!(!is_own("../../a.js", &context));
    }
}
