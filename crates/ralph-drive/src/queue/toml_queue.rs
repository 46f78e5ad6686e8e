//! Parses a queue file: TOML with one `[[task]]` table per task.

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

use ralph_core::input_bounds::MAX_GOAL_BYTES;
use ralph_core::limits::{LimitDefinition, LimitUnit};
use ralph_core::run_terms::GoalTooLong;
use ralph_core::text;
use ralph_sys::fs;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::QueueTask;
use super::queue_file::{
    MOST_TASKS, QueueError, QueueReader, QueueTaskDraft, QueueValue, term_keys,
};

const TEXT_TYPE: &str = "must be a string";
const INTEGER_TYPE: &str = "must be an integer";
const TASKS_HINT: &str = "write one `[[task]]` per task";

pub(super) fn read_file(reading: &mut QueueReader, path: &Path) -> Result<(), QueueError> {
    let text = reading.open_file(path)?;
    let (document, errors) = DeTable::parse_recoverable(&text);
    // A Markdown list would give an error per line.
    if !errors.is_empty() && path.extension() == Some(OsStr::new("md")) {
        return Err(QueueError::Markdown(path.to_owned()));
    }
    for error in &errors {
        reading.add_problem(
            error.span().unwrap_or(0..0),
            text::clean_line(error.message(), 200),
            "a queue file is TOML with one `[[task]]` per task",
        );
    }
    // After a syntax error the recovered document may lead to misleading problems.
    if !errors.is_empty() {
        return Ok(());
    }
    for (name, found) in fields_in_order(document.get_ref()) {
        if name.get_ref() != "task" {
            let known = std::iter::once("task");
            report_unknown_key(reading, name, known, "only `[[task]]` is allowed");
            continue;
        }
        let DeValue::Array(items) = found.get_ref() else {
            reading.add_problem(
                found.span(),
                "`task` must be an array of tables".to_owned(),
                TASKS_HINT,
            );
            continue;
        };
        if items.len() > MOST_TASKS {
            return Err(QueueError::TooMany(path.to_owned()));
        }
        for item in items {
            match item.get_ref() {
                DeValue::Table(fields) => read_task(reading, fields, item.span(), path),
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => reading.add_problem(
                    item.span(),
                    "`task` must be an array of tables".to_owned(),
                    TASKS_HINT,
                ),
            }
        }
    }
    Ok(())
}

fn read_task(reading: &mut QueueReader, fields: &DeTable, span: Range<usize>, path: &Path) {
    let mut task = QueueTask::default();
    let (mut name, mut goal, mut goal_file) = (None, None, None);
    let mut after = Vec::new();
    for (key, found) in fields_in_order(fields) {
        let word: &str = key.get_ref();
        if !["name", "goal", "goal_file"].contains(&word) && !term_keys().any(|key| key == word) {
            let known = || ["name", "goal", "goal_file"].into_iter().chain(term_keys());
            let all: Vec<_> = known().collect();
            let hint = format!("the keys of a task are {}", all.join(", "));
            report_unknown_key(reading, key, known(), &hint);
            continue;
        }
        let is_list = matches!(word, "after" | "features" | "plan");
        let is_number = expected_type(word) != TEXT_TYPE;
        let is_text = matches!(found.get_ref(), DeValue::String(_));
        // A quoted number is a string, and is rejected rather than guessed at.
        let Some(mut values) =
            value_strings(found, is_list).filter(|_| is_text != is_number || is_list)
        else {
            let expected = expected_type(word);
            reading.add_problem(found.span(), format!("`{word}` {expected}"), "");
            continue;
        };
        match word {
            "name" => name = values.pop(),
            "goal" => goal = values.pop(),
            "goal_file" => goal_file = values.pop(),
            "after" => after = values,
            term => reading.set_term(&mut task, term, &values),
        }
    }
    task.terms.goal = match (goal, goal_file) {
        (Some(goal), None) => reading.check_goal(&goal.value, goal.span),
        (None, Some(file)) => goal_from_file(reading, &file, path),
        (Some(_), Some(file)) => {
            let message = "`[[task]]` has both `goal` and `goal_file`".to_owned();
            reading.add_problem(file.span, message, "keep one");
            Vec::new()
        }
        (None, None) => {
            let hint = "add `goal = \"…\"` or `goal_file = \"goal.md\"`";
            reading.add_problem(span.clone(), "`[[task]]` has no `goal`".to_owned(), hint);
            Vec::new()
        }
    };
    let Some(name) = name else {
        let hint = "add a short name, such as `name = \"parser\"`";
        return reading.add_problem(span, "`[[task]]` has no `name`".to_owned(), hint);
    };
    let page = reading.files.len().saturating_sub(1);
    reading.drafts.push(QueueTaskDraft { file: page, name, after, task });
}

/// Reads the goal from a file. It must be in the queue's directory or below, because its text is sent to a model.
fn goal_from_file(reading: &mut QueueReader, file: &QueueValue<String>, queue: &Path) -> Vec<u8> {
    let directory = queue.parent().unwrap_or(Path::new("/"));
    let found = fs::resolve(&directory.join(&file.value));
    let shown = text::clean_line(&file.value, 200);
    let Some(found) = found else {
        reading.add_problem(file.span.clone(), format!("cannot find `{shown}`"), "check the path");
        return Vec::new();
    };
    if !found.starts_with(directory) {
        let message = format!("`{shown}` is outside the queue's directory");
        reading.add_problem(file.span.clone(), message, "put the file next to the queue");
        return Vec::new();
    }
    match fs::read(&found, MAX_GOAL_BYTES).map(String::from_utf8) {
        Ok(Ok(goal)) => reading.check_goal(&goal, file.span.clone()),
        Ok(Err(_)) => {
            reading.add_problem(file.span.clone(), format!("`{shown}` is not valid UTF-8"), "");
            Vec::new()
        }
        Err(error) if error.is_too_large() => {
            let message = format!("`{shown}`: {GoalTooLong}");
            reading.add_problem(file.span.clone(), message, GoalTooLong::HINT);
            Vec::new()
        }
        Err(error) => {
            let message = text::clean_line(&error.to_string(), 200);
            reading.add_problem(file.span.clone(), message, "check the path");
            Vec::new()
        }
    }
}

fn report_unknown_key<'a>(
    reading: &mut QueueReader,
    key: &Spanned<DeString<'_>>,
    known: impl Iterator<Item = &'a str>,
    otherwise: &str,
) {
    let word: &str = key.get_ref();
    let near = text::nearest(word, known);
    let hint = near.map_or_else(|| otherwise.to_owned(), |near| format!("did you mean `{near}`?"));
    reading.add_problem(key.span(), format!("unknown key `{}`", text::clean_line(word, 60)), hint);
}

fn expected_type(key: &str) -> &'static str {
    match key {
        "after" | "features" | "plan" => "must be a string or a list of strings",
        "complexity" => INTEGER_TYPE,
        key => match LimitDefinition::by_key(key).map(|limit| limit.unit) {
            Some(LimitUnit::Count(_) | LimitUnit::Tokens) => INTEGER_TYPE,
            Some(LimitUnit::MicroUsd | LimitUnit::Permille) => "must be a number",
            Some(LimitUnit::Milliseconds) | None => TEXT_TYPE,
        },
    }
}

/// A value as a list of strings; `None` if its type does not fit the key.
fn value_strings(found: &Spanned<DeValue<'_>>, is_list: bool) -> Option<Vec<QueueValue<String>>> {
    if let (DeValue::Array(items), true) = (found.get_ref(), is_list) {
        return items.iter().map(value_string).collect();
    }
    value_string(found).map(|word| vec![word])
}

fn value_string(found: &Spanned<DeValue<'_>>) -> Option<QueueValue<String>> {
    let value = match found.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', ""),
        DeValue::Float(number) => number.as_str().replace('_', ""),
        DeValue::Integer(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => return None,
    };
    Some(QueueValue { value, span: found.span() })
}

type QueueTomlField<'a, 'i> = (&'a Spanned<DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// The fields in file order, so that problems are reported from top to bottom.
fn fields_in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<QueueTomlField<'a, 'i>> {
    let mut fields: Vec<_> = table.iter().collect();
    fields.sort_by_key(|(key, _)| key.span().start);
    fields
}
