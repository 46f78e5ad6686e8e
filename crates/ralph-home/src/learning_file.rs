//! Reads learnings: notes that people and agents save for later sessions, each a small Markdown file.

use ralph_core::id::RunId;
use ralph_core::redact::Redactor;
use ralph_core::text;
use ralph_sys::clock;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

/// The largest text of a learning.
pub const MAX_LEARNING_BYTES: usize = 16 * 1024;
/// Includes the front matter.
const MAX_FILE_BYTES: usize = 4 * MAX_LEARNING_BYTES;
const MAX_FILES: usize = 100_000;
const MAX_TITLE_CHARS: usize = 200;

/// A saved learning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learning {
    /// The file name without its extension.
    pub id: String,
    pub path: PathBuf,
    pub project: String,
    pub run: Option<RunId>,
    pub title: String,
    pub at_ms: u64,
    pub text: String,
}

/// The learnings in a directory.
pub fn learning_files(directory: &Path) -> Vec<PathBuf> {
    let names = fs::list(directory, MAX_FILES).unwrap_or_default();
    let paths = names.into_iter().map(|name| directory.join(name));
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// Reads a learning leniently, because people may write the files by hand.
pub fn read_learning(path: &Path, redactor: &Redactor) -> Option<Learning> {
    let id = path.file_stem()?.to_str()?.to_string();
    let bytes = fs::read(path, MAX_FILE_BYTES).ok()?;
    let text = clean_and_redact(&bytes, redactor);
    let (front, body) = front_matter(&text);
    let value = |key: &str| front.iter().find(|(found, _)| *found == key).map(|(_, value)| *value);
    let body = body.trim();
    let title = value("title").map(unquoted).unwrap_or_default();
    let title = [title.as_str(), body].map(|text| title_line(text, redactor));
    let modified_ms = || fs::stat(path).map_or(0, |stat| stat.modified_ns / 1_000_000);
    Some(Learning {
        project: value("project").map(unquoted).unwrap_or_default(),
        run: value("run").and_then(RunId::parse),
        title: title.into_iter().find(|title| !title.is_empty())?,
        at_ms: value("at").and_then(clock::parse_rfc3339).unwrap_or_else(modified_ms),
        text: body.to_string(),
        path: path.to_path_buf(),
        id,
    })
}

/// Splits a text into the `key: value` lines of its front matter and the body.
fn front_matter(text: &str) -> (Vec<(&str, &str)>, &str) {
    let Some((front, body)) =
        text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"))
    else {
        return (Vec::new(), text);
    };
    let pairs = front.lines().filter_map(|line| line.split_once(':'));
    (pairs.map(|(key, value)| (key.trim(), value.trim())).collect(), body)
}

fn unquoted(value: &str) -> String {
    serde_json::from_str(value).unwrap_or_else(|_| value.to_string())
}

/// The first non-empty line, without heading marks.
pub fn title_line(text: &str, redactor: &Redactor) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches('#').trim_start());
    let first = lines.into_iter().find(|line| !line.is_empty()).unwrap_or_default();
    text::clean_line(&clean_and_redact(first.as_bytes(), redactor), MAX_TITLE_CHARS)
}

/// Foreign text without hidden characters, control sequences and secrets.
pub fn clean_and_redact(foreign: &[u8], redactor: &Redactor) -> String {
    redactor.redact(&text::clean(&String::from_utf8_lossy(foreign)))
}
