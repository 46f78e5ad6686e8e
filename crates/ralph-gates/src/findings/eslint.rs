//! Reads the output of `eslint --format json`.

use super::source_location::RawLocation;
use super::{FindingCollector, FindingDraft, ReportContext, doubtful_report, json_document};
use ralph_core::gate::ParsedReport;
use ralph_core::requirement::FindingSeverity;
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
struct EslintFileWire<'a> {
    #[serde(borrow, rename = "filePath")]
    path: Cow<'a, str>,
    #[serde(borrow, rename = "messages")]
    problems: Vec<EslintProblemWire<'a>>,
}

#[derive(Deserialize)]
struct EslintProblemWire<'a> {
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

pub(super) fn read_eslint(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let files: Vec<EslintFileWire<'_>> = match json_document::parse_document(text, '[') {
        Ok(files) => files,
        Err(unread) => return doubtful_report(unread.doubt()),
    };
    let mut found = FindingCollector::new(context);
    for file in &files {
        for problem in &file.problems {
            found.add(&FindingDraft {
                location: Some(RawLocation {
                    file: &file.path,
                    line: problem.line.filter(|line| *line > 0),
                    column: problem.column.filter(|column| *column > 0),
                }),
                rule: problem.rule.as_deref().unwrap_or_default(),
                message: &problem.message,
                severity: if problem.severity >= 2 {
                    FindingSeverity::Error
                } else {
                    FindingSeverity::Warning
                },
            });
        }
    }
    found.into_report(None, files.is_empty().then_some("no files were checked"))
}
