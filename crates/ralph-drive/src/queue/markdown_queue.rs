//! Parses a queue directory: one Markdown file per task, sorted by name.
//!
//! ```text
//! ---                       or only        after: parser
//! after: parser, lexer
//! max_cost_usd: 5                          Export what was parsed as CSV.
//! ---
//! Export what was parsed as CSV.
//! ```

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

use ralph_core::text;
use ralph_sys::fs;

use super::QueueTask;
use super::queue_file::{
    MOST_TASKS, QueueError, QueueReader, QueueTaskDraft, QueueValue, is_task_name, term_keys,
};

const MOST_FILES: usize = 10_000;
const FENCE: &str = "---";

pub(super) fn read_directory(
    reading: &mut QueueReader,
    directory: &Path,
) -> Result<(), QueueError> {
    let names = fs::list(directory, MOST_FILES)?;
    let is_task = |name: &&std::ffi::OsString| {
        let name = Path::new(name);
        let is_hidden = name.as_os_str().as_encoded_bytes().starts_with(b".");
        name.extension() == Some(OsStr::new("md")) && !is_hidden
    };
    let files: Vec<_> = names.iter().filter(is_task).collect();
    if files.len() > MOST_TASKS {
        return Err(QueueError::TooMany(directory.to_owned()));
    }
    for name in files {
        // No links to files elsewhere: the text is sent to a model.
        let path = directory.join(name);
        if fs::resolve(&path).is_none_or(|found| !found.starts_with(directory)) {
            return Err(QueueError::LeadsOut(path));
        }
        read_task(reading, &path)?;
    }
    Ok(())
}

fn read_task(reading: &mut QueueReader, path: &Path) -> Result<(), QueueError> {
    let text = reading.open_file(path)?;
    let text = &*text;
    let mut task = QueueTask::default();
    let mut after = Vec::new();
    let start = text.strip_prefix('\u{feff}').map_or(0, |_| '\u{feff}'.len_utf8());
    let mut rest = start;
    let mut lines = line_ranges(text, start);
    match lines.next() {
        Some(first) if line_text(text, &first) == FENCE => {
            let mut is_closed = false;
            for line in lines {
                rest = next_line_offset(text, &line);
                if line_text(text, &line) == FENCE {
                    is_closed = true;
                    break;
                }
                read_term(reading, (&mut task, &mut after), (text, line));
            }
            if !is_closed {
                let hint = "close it with `---`";
                reading.add_problem(first, "the front matter has no end".to_owned(), hint);
            }
        }
        Some(first) if line_text(text, &first).starts_with("after:") => {
            rest = next_line_offset(text, &first);
            read_term(reading, (&mut task, &mut after), (text, first));
        }
        Some(_) | None => {}
    }
    let goal = text.get(rest..).unwrap_or_default();
    task.terms.goal = reading.check_goal(goal, rest.min(text.len())..text.len());
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if !is_task_name(&stem) {
        let message = format!("`{}.md` is not a valid task name", text::clean_line(&stem, 80));
        let hint = "use 1 to 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit";
        reading.add_problem(0..0, message, hint);
        return Ok(());
    }
    let page = reading.files.len().saturating_sub(1);
    let name = QueueValue { value: stem, span: 0..0 };
    reading.drafts.push(QueueTaskDraft { file: page, name, after, task });
    Ok(())
}

/// `key: value, value`
fn read_term(
    reading: &mut QueueReader,
    (task, after): (&mut QueueTask, &mut Vec<QueueValue<String>>),
    (text, line): (&str, Range<usize>),
) {
    let content = text.get(line.clone()).unwrap_or_default();
    if content.trim().is_empty() || content.trim_start().starts_with('#') {
        return;
    }
    let Some((key, value)) = content.split_once(':') else {
        let message = format!("`{}` is not `key: value`", text::clean_line(content, 60));
        return reading.add_problem(line, message, "text belongs below the front matter");
    };
    let from = line.start + key.len() + 1;
    let key = key.trim();
    if !term_keys().any(|known| known == key) {
        let near = text::nearest(key, term_keys());
        let known = || {
            let keys: Vec<_> = term_keys().map(|key| format!("`{key}`")).collect();
            format!("known keys are {}", keys.join(", "))
        };
        let hint = near.map_or_else(known, |near| format!("did you mean `{near}`?"));
        return reading.add_problem(
            line,
            format!("unknown key `{}`", text::clean_line(key, 60)),
            hint,
        );
    }
    let values = comma_values(value, from);
    if values.is_empty() {
        return reading.add_problem(
            line,
            format!("`{key}` has no value"),
            "add one, or remove the key",
        );
    }
    if key == "after" { *after = values } else { reading.set_term(task, key, &values) }
}

/// Comma-separated values, optionally in `[a, b]` or in quotes.
fn comma_values(value: &str, from: usize) -> Vec<QueueValue<String>> {
    let mut words = Vec::new();
    let list = value.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']'));
    let mut at = from + if list.is_some() { value.find('[').map_or(0, |at| at + 1) } else { 0 };
    for piece in list.unwrap_or(value).split(',') {
        let is_edge = |char: char| char.is_whitespace() || "\"'".contains(char);
        let begun = piece.trim_start_matches(is_edge);
        let start = at + (piece.len() - begun.len());
        let word = begun.trim_end_matches(is_edge);
        if !word.is_empty() {
            words.push(QueueValue { value: word.to_owned(), span: start..start + word.len() });
        }
        at += piece.len() + 1;
    }
    words
}

fn line_text<'a>(text: &'a str, line: &Range<usize>) -> &'a str {
    text.get(line.clone()).unwrap_or_default().trim_end()
}

/// The offset of the next line.
fn next_line_offset(text: &str, line: &Range<usize>) -> usize {
    (line.end + 1).min(text.len())
}

/// The ranges of all lines from an offset on, without line ends.
fn line_ranges(text: &str, from: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = from;
    let rest = text.get(from..).unwrap_or_default();
    rest.split('\n').map(move |line| {
        let span = at..at + line.len();
        at += line.len() + 1;
        span
    })
}
