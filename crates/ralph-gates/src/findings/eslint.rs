//! Reads the output of `eslint --format json`.

use super::locate::Spot;
use super::{Context, Draft, Found, doubtful, json};
use ralph_core::gate::Reading;
use ralph_core::requirement::Severity;
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, rename = "filePath")]
    path: Cow<'a, str>,
    #[serde(borrow, rename = "messages")]
    problems: Vec<Problem<'a>>,
}

#[derive(Deserialize)]
struct Problem<'a> {
    #[serde(borrow, default, rename = "ruleId")]
    rule: Option<Cow<'a, str>>,
    severity: u8,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    column: Option<u32>,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    let files: Vec<File<'_>> = match json::document(text, '[') {
        Ok(files) => files,
        Err(unread) => return doubtful(unread.why()),
    };
    let mut found = Found::new(context);
    for file in &files {
        for problem in &file.problems {
            found.add(&Draft {
                spot: Some(Spot {
                    file: &file.path,
                    line: problem.line.filter(|line| *line > 0),
                    column: problem.column.filter(|column| *column > 0),
                }),
                rule: problem.rule.as_deref().unwrap_or_default(),
                message: &problem.message,
                severity: if problem.severity >= 2 { Severity::Error } else { Severity::Warning },
            });
        }
    }
    found.into_reading(None, files.is_empty().then_some("no files were checked"))
}
