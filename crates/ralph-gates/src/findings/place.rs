//! Names of files, as a project's own.

use super::locate::Spot;
use super::{Context, words};
use ralph_core::requirement::Place;
use std::path::{Component, Path, PathBuf};

const LONGEST_FILE: usize = 400;

/// Directories of code that nobody here wrote.
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

/// `None` when the name is nothing once cleaned.
pub(super) fn of(spot: &Spot<'_>, context: &Context<'_>) -> Option<Place> {
    let file = relative(spot.file, context);
    (!file.is_empty()).then_some(Place { file, line: spot.line, column: spot.column })
}

/// A stack trace has many places; the one worth showing is in the project.
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
        // Outside of the project there is nothing better than the tool's own words.
        Some(_) | None => bare.to_owned(),
    }
}

/// `None` where `..` leads beyond the root.
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
        for (told, expected) in [
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
            assert_eq!(relative(told, &context), expected, "{told}");
        }
        assert!(is_own("src/a.ts", &context));
        assert!(!is_own("node_modules/x/a.js", &context));
        assert!(!is_own("/rustc/5980/library/core/src/panicking.rs", &context));
        assert!(!is_own("../../a.js", &context));
    }
}
