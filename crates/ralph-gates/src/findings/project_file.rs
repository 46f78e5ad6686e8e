//! Makes file names in tools' output relative to the project, and recognises files of dependencies.

use super::ReportContext;
use super::source_location::RawLocation;
use ralph_core::requirement::FindingLocation;
use ralph_core::text;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

const MAX_FILE_CHARS: usize = 400;

/// Directories with code of dependencies.
const DEPENDENCY_DIRECTORIES: [&str; 8] = [
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
pub(super) fn finding_location(
    spot: &RawLocation<'_>,
    context: &ReportContext<'_>,
) -> Option<FindingLocation> {
    let file = project_relative(spot.file, context);
    (!file.is_empty()).then_some(FindingLocation { file, line: spot.line, column: spot.column })
}

/// Whether the file is in the project and not in a dependency. Of the many locations in a stack trace, such a file is
/// the one to show.
pub(super) fn is_project_file(file: &str, context: &ReportContext<'_>) -> bool {
    let file = project_relative(file, context);
    let path = Path::new(&file);
    path.is_relative()
        && !path.components().any(|component| match component {
            Component::ParentDir => true,
            Component::Normal(name) => is_dependency_directory(name),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => false,
        })
}

/// Whether a directory of this name has code of dependencies.
pub(super) fn is_dependency_directory(name: &OsStr) -> bool {
    DEPENDENCY_DIRECTORIES.iter().any(|foreign| name == *foreign)
}

fn project_relative(file: &str, context: &ReportContext<'_>) -> String {
    let file = text::clean_line(file, MAX_FILE_CHARS);
    let bare = file.strip_prefix("file://").unwrap_or(&file);
    let absolute = context.cwd.join(bare);
    let inside = resolve_dots(&absolute)
        .and_then(|path| path.strip_prefix(context.root).ok().map(Path::to_path_buf));
    match inside {
        Some(path) if !path.as_os_str().is_empty() => path.to_string_lossy().into_owned(),
        // Outside of the project, the name stays as the tool printed it.
        Some(_) | None => bare.to_owned(),
    }
}

/// Resolves `.` and `..`. Returns `None` if `..` leads beyond the root.
pub(super) fn resolve_dots(path: &Path) -> Option<PathBuf> {
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
    use super::super::{FileProbe, OutputExtent};
    use super::*;

    #[test]
    fn files_are_named_from_the_project() {
        let context = ReportContext {
            root: Path::new("/project"),
            cwd: Path::new("/project/web"),
            extent: OutputExtent::Complete,
            is_file: FileProbe::default(),
            is_excluded: None,
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
            assert_eq!(project_relative(name, &context), expected, "{name}");
        }
        assert!(is_project_file("src/a.ts", &context));
        assert!(!is_project_file("node_modules/x/a.js", &context));
        assert!(!is_project_file("/rustc/5980/library/core/src/panicking.rs", &context));
        assert!(!is_project_file("../../a.js", &context));
    }
}
