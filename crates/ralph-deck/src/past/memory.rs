//! Memory files: those that agents and people keep in a project, and those that the client keeps about it.

use super::sections::{self, Section};
use crate::ground::Ground;
use crate::record::{Kind, Record};
use ralph_core::text;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// The memory files of a project, as text for people.
pub const READ: &str = "`MEMORY.md`, `CLAUDE.md`, `AGENTS.md`, `docs/plans/*/MEMORY.md`, `.claude/memory/*.md` and progress files";

const LARGEST: usize = 4 * 1024 * 1024;
const LONGEST_NAME: usize = 200;
const MOST_FILES: usize = 2_000;
/// Per directory; a directory with more entries is not memory.
const MOST_NAMES: usize = 100_000;

const FILES: [&str; 7] = [
    "MEMORY.md",
    "CLAUDE.md",
    "AGENTS.md",
    "claude-progress.txt",
    ".ralph/memory.md",
    ".ralph/progress.md",
    ".ralph/guardrails.md",
];
/// Parent directory and file name: the file is searched for in every subdirectory of the parent.
const BELOW: [(&str, &str); 2] =
    [("docs/plans", "MEMORY.md"), (".claude/data/ralph-loops", "progress.txt")];
const NOTES: &str = ".claude/memory";

/// A memory file of a project, or one of the client's about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The directory that must contain it.
    root: PathBuf,
    pub path: PathBuf,
    pub stat: fs::Stat,
}

pub(crate) fn notes(context: &Ground, project: &Path) -> Vec<Note> {
    let mut found: Vec<Note> =
        FILES.iter().filter_map(|name| note(project, name.as_ref())).collect();
    for (directory, name) in BELOW {
        let below = names(&project.join(directory));
        let paths = below.map(|below| Path::new(directory).join(below).join(name));
        found.extend(paths.filter_map(|path| note(project, &path)));
    }
    found.extend(markdown(project, Path::new(NOTES)));
    if let Some(memory) = context.client_memory(project) {
        found.extend(markdown(&memory, Path::new("")));
    }
    found.truncate(MOST_FILES);
    found
}

fn markdown(root: &Path, below: &Path) -> Vec<Note> {
    let names = names(&root.join(below)).map(|name| below.join(name));
    let markdown = names.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    markdown.filter_map(|path| note(root, &path)).take(MOST_FILES).collect()
}

fn names(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let names = fs::list(directory, MOST_NAMES).unwrap_or_default();
    names.into_iter().take(MOST_FILES).map(PathBuf::from)
}

fn note(root: &Path, path: &Path) -> Option<Note> {
    let path = root.join(path);
    let stat = fs::stat(&path).filter(|stat| stat.kind == fs::Kind::File)?;
    Some(Note { root: root.to_path_buf(), path, stat })
}

/// Whether the file really is inside its root: a link out of the project could expose any file.
fn is_inside(note: &Note) -> bool {
    let (path, root) = (fs::resolve(&note.path), fs::resolve(&note.root));
    path.zip(root).is_some_and(|(path, root)| path.starts_with(root))
}

pub(crate) fn records(context: &Ground, project: &Path, note: &Note) -> Vec<Record> {
    if !is_inside(note) {
        return Vec::new();
    }
    let Ok(bytes) = fs::read_range(&note.path, 0, LARGEST) else { return Vec::new() };
    let name = note.path.strip_prefix(&note.root).unwrap_or(&note.path).display().to_string();
    let record = |Section { title, line, body }: Section| Record {
        kind: Kind::Memory,
        run: None,
        project: project.display().to_string(),
        at_ms: note.stat.modified_ns / 1_000_000,
        title: if title.is_empty() { text::line(&name, LONGEST_NAME) } else { title },
        body,
        path: note.path.display().to_string(),
        line: Some(line),
    };
    sections::split(&context.safe(&bytes)).into_iter().map(record).collect()
}
