//! Learnings: notes that people and agents save for later sessions. Each is a small Markdown file.

use crate::recall_context::RecallContext;
use ralph_core::id::RunId;
use ralph_core::text;
use ralph_home::learning_file::{self, MAX_LEARNING_BYTES};
use ralph_sys::clock;
use ralph_sys::fs::{self, FileError};
use std::path::{Path, PathBuf};

pub use ralph_home::learning_file::Learning;
pub(crate) use ralph_home::learning_file::learning_files;

const LONGEST_SLUG: usize = 40;
const LONGEST_ID: usize = 128;
const MOST_PROJECTS: usize = 10_000;
/// For learnings that are saved in the same second with the same title.
const NAME_ATTEMPTS: usize = 100;
const VERSION: &str = "1";

/// A learning to save.
#[derive(Clone, Copy, Debug)]
pub struct LearningDraft<'a> {
    pub text: &'a str,
    /// Defaults to the first line of the text.
    pub title: Option<&'a str>,
    /// The run that it comes from.
    pub run: Option<&'a RunId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearningNovelty {
    New,
    /// The same text was saved before; nothing was written.
    Known,
}

#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    #[error("the learning is empty")]
    Empty,
    #[error("a learning has at most {MAX_LEARNING_BYTES} bytes, and this one has {0}")]
    TooLong(usize),
    #[error("no learning has the id `{0}`")]
    Unknown(String),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Saves a learning for the project.
pub fn save(
    context: &RecallContext,
    draft: &LearningDraft<'_>,
) -> Result<(Learning, LearningNovelty), LearnError> {
    if draft.text.len() > MAX_LEARNING_BYTES {
        return Err(LearnError::TooLong(draft.text.len()));
    }
    let body = context.clean_and_redact(draft.text.as_bytes()).trim().to_string();
    let named = draft.title.unwrap_or_default();
    let title = [named, body.as_str()]
        .into_iter()
        .map(|text| learning_file::title_line(text, context.redactor()));
    let Some(title) = title.into_iter().find(|title| !title.is_empty()) else {
        return Err(LearnError::Empty);
    };
    if body.is_empty() {
        return Err(LearnError::Empty);
    }
    let directory = context.home.project_learnings(&context.project);
    let known =
        learning_files(&directory).into_iter().filter_map(|path| read_learning(context, &path));
    if let Some(known) = known.into_iter().find(|one| one.text == body && one.title == title) {
        return Ok((known, LearningNovelty::Known));
    }
    let mut learning = Learning {
        id: String::new(),
        path: PathBuf::new(),
        project: context.project_name(),
        run: draft.run.cloned(),
        title,
        at_ms: clock::now_ms(),
        text: body,
    };
    fs::create_private_dir(&directory)?;
    let bytes = render_learning(&learning);
    let stem = format!("{}-{}", file_timestamp(learning.at_ms), slug(&learning.title));
    for attempt in 1..=NAME_ATTEMPTS {
        let id = if attempt == 1 { stem.clone() } else { format!("{stem}-{attempt}") };
        let path = directory.join(format!("{id}.md"));
        if fs::create_new(&path, bytes.as_bytes())? {
            (learning.id, learning.path) = (id, path);
            return Ok((learning, LearningNovelty::New));
        }
    }
    let path = directory.join(format!("{stem}.md"));
    Err(FileError::refused(&path, "too many learnings have this name").into())
}

/// The learnings of the project, newest first.
pub fn list(context: &RecallContext) -> Vec<Learning> {
    let files = learning_files(&context.home.project_learnings(&context.project));
    let mut found: Vec<_> = files.iter().filter_map(|path| read_learning(context, path)).collect();
    found.sort_by(|a, b| b.at_ms.cmp(&a.at_ms).then_with(|| a.id.cmp(&b.id)));
    found
}

/// Deletes a learning of the project.
pub fn forget(context: &RecallContext, id: &str) -> Result<Learning, LearnError> {
    let unknown = || LearnError::Unknown(text::clean_line(id, LONGEST_ID));
    let path = learning_path(context, id).ok_or_else(unknown)?;
    let learning = read_learning(context, &path).ok_or_else(unknown)?;
    fs::remove_file(&path)?;
    Ok(learning)
}

/// The path of a learning of the project; `None` if `id` cannot be an id.
pub(crate) fn learning_path(context: &RecallContext, id: &str) -> Option<PathBuf> {
    let is_id = !id.is_empty()
        && id.len() <= LONGEST_ID
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_id.then(|| context.home.project_learnings(&context.project).join(format!("{id}.md")))
}

/// The learning directories of all projects.
pub(crate) fn learning_directories(context: &RecallContext) -> Vec<PathBuf> {
    let root = context.home.learnings();
    let names = fs::list(&root, MOST_PROJECTS).unwrap_or_default();
    names.into_iter().map(|name| root.join(name)).collect()
}

/// Reads a learning leniently, because people may write the files by hand.
pub(crate) fn read_learning(context: &RecallContext, path: &Path) -> Option<Learning> {
    learning_file::read_learning(path, context.redactor())
}

fn render_learning(learning: &Learning) -> String {
    let mut out = format!("---\nv: {VERSION}\nproject: {}\n", quoted(&learning.project));
    if let Some(run) = &learning.run {
        out.push_str(&format!("run: {run}\n"));
    }
    out.push_str(&format!("title: {}\n", quoted(&learning.title)));
    out.push_str(&format!(
        "at: {}\n---\n\n{}\n",
        clock::format_rfc3339(learning.at_ms),
        learning.text
    ));
    out
}

fn quoted(text: &str) -> String {
    // Serialising a string cannot fail.
    serde_json::to_string(text).unwrap_or_default()
}

/// `20261115-133802`
fn file_timestamp(at_ms: u64) -> String {
    let digits = clock::format_rfc3339(at_ms);
    let digits = digits.chars().filter(char::is_ascii_digit).take(14).enumerate();
    digits.fold(String::new(), |mut out, (at, digit)| {
        if at == 8 {
            out.push('-');
        }
        out.push(digit);
        out
    })
}

fn slug(title: &str) -> String {
    let mut out = String::new();
    for word in title.to_lowercase().split(|char: char| !char.is_ascii_alphanumeric()) {
        if out.len() + word.len() > LONGEST_SLUG {
            break;
        }
        if !word.is_empty() && !out.is_empty() {
            out.push('-');
        }
        out.push_str(word);
    }
    if out.is_empty() { "learning".to_string() } else { out }
}
