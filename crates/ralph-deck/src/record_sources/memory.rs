//! Memory files: those that agents and people keep in a project, and those that the client keeps about it.

use super::sections::{self, MemorySection};
use crate::recall_context::RecallContext;
use crate::recall_record::{RecallKind, RecallRecord};
use ralph_core::text;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// The memory files of a project, as text for people.
pub const MEMORY_FILE_NAMES: &str = "`MEMORY.md`, `CLAUDE.md`, `AGENTS.md`, `docs/plans/*/MEMORY.md`, `.claude/memory/*.md` and progress files";

const LARGEST: usize = 4 * 1024 * 1024;
const LONGEST_NAME: usize = 200;
const MOST_FILES: usize = 2_000;
/// Per directory; a directory with more entries is not memory.
const MOST_NAMES: usize = 100_000;

const PROJECT_FILES: [&str; 7] = [
    "MEMORY.md",
    "CLAUDE.md",
    "AGENTS.md",
    "claude-progress.txt",
    ".ralph/memory.md",
    ".ralph/progress.md",
    ".ralph/guardrails.md",
];
/// Parent directory and file name: the file is searched for in every subdirectory of the parent.
const NESTED_FILES: [(&str, &str); 2] =
    [("docs/plans", "MEMORY.md"), (".claude/data/ralph-loops", "progress.txt")];
const NOTES_DIRECTORY: &str = ".claude/memory";

/// A memory file of a project, or one of the client's about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectMemoryFile {
    /// The directory that must contain it.
    root: PathBuf,
    pub path: PathBuf,
    pub stat: fs::FileStat,
}

pub(crate) fn memory_files(context: &RecallContext, project: &Path) -> Vec<ProjectMemoryFile> {
    let mut found: Vec<ProjectMemoryFile> =
        PROJECT_FILES.iter().filter_map(|name| memory_file(project, name.as_ref())).collect();
    for (directory, name) in NESTED_FILES {
        let below = directory_names(&project.join(directory));
        let paths = below.map(|below| Path::new(directory).join(below).join(name));
        found.extend(paths.filter_map(|path| memory_file(project, &path)));
    }
    found.extend(markdown_files(project, Path::new(NOTES_DIRECTORY)));
    if let Some(memory) = context.client_memory(project) {
        found.extend(markdown_files(&memory, Path::new("")));
    }
    found.truncate(MOST_FILES);
    found
}

fn markdown_files(root: &Path, below: &Path) -> Vec<ProjectMemoryFile> {
    let names = directory_names(&root.join(below)).map(|name| below.join(name));
    let markdown = names.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    markdown.filter_map(|path| memory_file(root, &path)).take(MOST_FILES).collect()
}

fn directory_names(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let names = fs::list(directory, MOST_NAMES).unwrap_or_default();
    names.into_iter().take(MOST_FILES).map(PathBuf::from)
}

fn memory_file(root: &Path, path: &Path) -> Option<ProjectMemoryFile> {
    let path = root.join(path);
    let stat = fs::stat(&path).filter(|stat| stat.kind == fs::FileKind::File)?;
    Some(ProjectMemoryFile { root: root.to_path_buf(), path, stat })
}

/// Whether the file really is inside its root: a link out of the project could expose any file.
fn is_inside(note: &ProjectMemoryFile) -> bool {
    let (path, root) = (fs::resolve(&note.path), fs::resolve(&note.root));
    path.zip(root).is_some_and(|(path, root)| path.starts_with(root))
}

pub(crate) fn memory_records(
    context: &RecallContext,
    project: &Path,
    note: &ProjectMemoryFile,
) -> Vec<RecallRecord> {
    if !is_inside(note) {
        return Vec::new();
    }
    let Ok(bytes) = fs::read_range(&note.path, 0, LARGEST) else { return Vec::new() };
    let name = note.path.strip_prefix(&note.root).unwrap_or(&note.path).display().to_string();
    let record = |MemorySection { title, line, body }: MemorySection| RecallRecord {
        kind: RecallKind::Memory,
        run: None,
        project: project.display().to_string(),
        at_ms: note.stat.modified_ns / 1_000_000,
        title: if title.is_empty() { text::clean_line(&name, LONGEST_NAME) } else { title },
        body,
        path: note.path.display().to_string(),
        line: Some(line),
    };
    sections::split_sections(&context.clean_and_redact(&bytes)).into_iter().map(record).collect()
}
