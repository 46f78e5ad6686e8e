//! Writes annotations for GitHub Actions.

use super::{ReportedGate, clean_line, result_summary, severity_name, unknown_reason};
use ralph_core::gate::{GateOutcome, UnknownReason};
use ralph_core::requirement::{Finding, FindingSeverity, RequirementWeight};
use std::path::{Component, Path, PathBuf};

/// Writes workflow commands of GitHub Actions: one annotation for each finding, and one for each gate without findings.
/// `below` is the path of the project in its repository, because GitHub knows files by their path there.
pub fn write_github(gates: &[ReportedGate<'_>], below: &Path) -> String {
    let mut out = String::new();
    for ran in gates {
        let is_bad = ran.report.outcome != GateOutcome::Passed;
        for finding in &ran.report.findings {
            out.push_str(&finding_annotation(ran, finding, below));
        }
        if is_bad
            && (ran.report.findings.is_empty() || unknown_reason(&ran.report.outcome).is_some())
        {
            let kind = match (&ran.report.outcome, ran.gate.weight) {
                (GateOutcome::Unknown(UnknownReason::Skipped(_)), _) => "notice",
                (_, RequirementWeight::Required) => "error",
                (_, RequirementWeight::Advisory) => "warning",
            };
            let title =
                escape_property(&format!("{} ({})", ran.gate.name, ran.report.outcome.name()));
            let what =
                unknown_reason(&ran.report.outcome).unwrap_or_else(|| result_summary(ran.report));
            out.push_str(&format!("::{kind} title={title}::{}\n", escape_data(&what)));
        }
    }
    out
}

/// An error about a whole file, or about none.
pub fn write_github_error(file: Option<&str>, title: &str, message: &str) -> String {
    let (title, message) = (clean_line(title), clean_line(message));
    let file = file.map(|file| format!("file={},", escape_property(file))).unwrap_or_default();
    format!("::error {file}title={}::{}\n", escape_property(&title), escape_data(&message))
}

/// A warning about lines of a file, or about the whole file.
pub fn write_github_warning(
    file: &str,
    lines: Option<(u32, u32)>,
    title: &str,
    message: &str,
) -> String {
    let (file, title) = (escape_property(file), escape_property(title));
    let lines =
        lines.map_or_else(String::new, |(first, last)| format!(",line={first},endLine={last}"));
    format!("::warning file={file}{lines},title={title}::{}\n", escape_data(message))
}

fn finding_annotation(ran: &ReportedGate<'_>, finding: &Finding, below: &Path) -> String {
    let kind = match (finding.severity, ran.gate.weight) {
        (FindingSeverity::Error, RequirementWeight::Required) => {
            severity_name(FindingSeverity::Error)
        }
        (FindingSeverity::Error, RequirementWeight::Advisory) | (FindingSeverity::Warning, _) => {
            severity_name(FindingSeverity::Warning)
        }
        (FindingSeverity::Note, _) => "notice",
    };
    let mut properties = Vec::new();
    if let Some(place) = &finding.place {
        let file = path_in_repository(below, &place.file);
        properties.push(format!("file={}", escape_property(&file)));
        if let Some(number) = place.line {
            properties.push(format!("line={number}"));
            if let Some(number) = place.column {
                properties.push(format!("col={number}"));
            }
        }
    }
    let title = match &finding.rule {
        Some(rule) => format!("{}: {rule}", ran.gate.name),
        None => ran.gate.name.clone(),
    };
    properties.push(format!("title={}", escape_property(&title)));
    format!("::{kind} {}::{}\n", properties.join(","), escape_data(&finding.message))
}

/// Text for people, without lines that GitHub Actions would take for its commands: those that begin with `::`, whatever
/// blanks precede it, and those with the older `##[` anywhere.
pub fn without_github_commands(text: &str) -> String {
    let plain = |line: &str| match line.trim_start().strip_prefix("::") {
        Some(rest) => format!("{}: :{rest}", &line[..line.len() - line.trim_start().len()]),
        None => line.to_owned(),
    };
    text.replace("##[", "## [").split_inclusive('\n').map(plain).collect()
}

/// `../shared/a.rs` of a project in `web` is `shared/a.rs`.
fn path_in_repository(below: &Path, file: &str) -> String {
    let mut path = PathBuf::new();
    for part in below.join(file).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if path.file_name().is_some() => {
                path.pop();
            }
            Component::ParentDir
            | Component::Normal(_)
            | Component::RootDir
            | Component::Prefix(_) => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

fn escape_data(text: &str) -> String {
    clean_line(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}
