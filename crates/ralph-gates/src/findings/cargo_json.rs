//! Reads `cargo --message-format=json`, rustc's own JSON messages, and the test runner's output between them.

use super::libtest::LibtestReader;
use super::source_location::{self, RawLocation};
use super::test_counter::TestCounter;
use super::test_names::NameCollector;
use super::test_names::libtest_names::LibtestNames;
use super::{FindingCollector, FindingDraft, ReportContext, clean_lines};
use ralph_core::gate::{ParsedReport, TestCounts};
use ralph_core::requirement::FindingSeverity;
use serde::Deserialize;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A line of cargo (`reason`), of rustc (`$message_type`) or of the test runner (`type`).
#[derive(Deserialize)]
struct CargoLineWire<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "$message_type")]
    message_type: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    stdout: Option<Cow<'a, str>>,
    #[serde(default)]
    passed: u32,
    #[serde(default)]
    failed: u32,
    #[serde(default)]
    ignored: u32,
    #[serde(borrow, default)]
    manifest_path: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct CompilerMessageWire<'a> {
    #[serde(borrow)]
    message: RustcDiagnosticWire<'a>,
}

#[derive(Deserialize)]
struct RustcDiagnosticWire<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    level: Cow<'a, str>,
    #[serde(borrow, default)]
    code: Option<RustcCodeWire<'a>>,
    #[serde(borrow, default)]
    spans: Vec<RustcSpanWire<'a>>,
}

#[derive(Deserialize)]
struct RustcCodeWire<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
}

#[derive(Deserialize)]
struct RustcSpanWire<'a> {
    #[serde(borrow)]
    file_name: Cow<'a, str>,
    line_start: u32,
    column_start: u32,
    is_primary: bool,
    #[serde(borrow, default)]
    label: Option<Cow<'a, str>>,
}

pub(super) fn read_cargo_json(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let mut found = FindingCollector::new(context);
    let mut tally = TestCounter::default();
    let mut libtest = LibtestReader::default();
    let mut names = NameCollector::new(context);
    let mut named_tests = LibtestNames::default();
    let mut messages = 0_u64;
    let mut plain = String::new();
    for line in text.split('\n') {
        if line.starts_with('{')
            && let Ok(known) = serde_json::from_str::<CargoLineWire<'_>>(line)
        {
            let is_known =
                [&known.reason, &known.message_type, &known.kind].iter().any(|key| key.is_some());
            messages += u64::from(is_known);
            read_message(line, &known, &mut found, &mut tally);
            if let (Some("test"), Some(event)) = (known.kind.as_deref(), known.event.as_deref()) {
                let name = known.name.as_deref().unwrap_or_default();
                named_tests.read_event(event, name, &mut names);
            }
            continue;
        }
        // Cleaned like all other output, but one line at a time, to need no copy of the whole output.
        for line in clean_lines(line) {
            tally.read_line(&line);
            libtest.read_line(&line, &mut found);
            named_tests.read_line(&line, &mut names);
            if line.starts_with("error: ") && plain.is_empty() && !is_summary_message(&line) {
                plain = line.into_owned();
            }
        }
    }
    libtest.finish(&mut found);
    if found.is_empty() && !plain.is_empty() {
        found.add(&FindingDraft {
            message: plain.trim_start_matches("error: "),
            ..FindingDraft::default()
        });
    }
    let is_silent = messages == 0 && tally.counts().is_none();
    let doubt =
        tally.doubt(context.extent).or(is_silent.then_some("the output contains no cargo message"));
    named_tests.finish(&mut names);
    let cases = names.into_cases(tally.counts(), doubt);
    ParsedReport { cases, ..found.into_report(tally.counts(), doubt) }
}

fn read_message(
    line: &str,
    known: &CargoLineWire<'_>,
    found: &mut FindingCollector<'_>,
    tally: &mut TestCounter,
) {
    match (known.reason.as_deref(), known.message_type.as_deref(), known.kind.as_deref()) {
        (Some("compiler-message"), ..) => {
            if let Ok(wrapped) = serde_json::from_str::<CompilerMessageWire<'_>>(line) {
                add_diagnostic(&wrapped.message, known.manifest_path.as_deref(), found);
            }
        }
        (None, Some("diagnostic"), _) => {
            if let Ok(bare) = serde_json::from_str::<RustcDiagnosticWire<'_>>(line) {
                add_diagnostic(&bare, None, found);
            }
        }
        (None, None, Some("test")) if known.event.as_deref() == Some("failed") => {
            add_failed_test(known, found);
        }
        (None, None, Some("suite")) if matches!(known.event.as_deref(), Some("ok" | "failed")) => {
            tally.add_counts(TestCounts {
                run: known.passed.saturating_add(known.failed),
                failed: known.failed,
                skipped: known.ignored,
            });
        }
        _ => {}
    }
}

fn add_failed_test(known: &CargoLineWire<'_>, found: &mut FindingCollector<'_>) {
    let name = known.name.as_deref().unwrap_or_default();
    let stdout = known.stdout.as_deref().unwrap_or_default();
    let mut panics = LibtestReader::default();
    let header = format!("---- {name} stdout ----");
    panics.read_line(&header, found);
    for line in clean_lines(stdout) {
        panics.read_line(&line, found);
    }
    panics.finish(found);
}

fn add_diagnostic(
    diagnostic: &RustcDiagnosticWire<'_>,
    manifest: Option<&str>,
    found: &mut FindingCollector<'_>,
) {
    let severity = match &*diagnostic.level {
        "error" | "error: internal compiler error" => FindingSeverity::Error,
        "warning" => FindingSeverity::Warning,
        _ => return,
    };
    if diagnostic.spans.is_empty() && is_summary_message(&diagnostic.message) {
        return;
    }
    let span = diagnostic.spans.iter().find(|span| span.is_primary);
    let file = span.map(|span| absolute_path(&span.file_name, manifest));
    let label = span.and_then(|span| span.label.as_deref()).unwrap_or_default();
    let message = if label.is_empty() || diagnostic.message.contains(label) {
        diagnostic.message.clone()
    } else {
        Cow::Owned(format!("{}: {label}", diagnostic.message))
    };
    found.add(&FindingDraft {
        location: file.as_deref().zip(span).map(|(file, span)| RawLocation {
            file,
            line: Some(span.line_start),
            column: Some(span.column_start),
        }),
        rule: diagnostic.code.as_ref().map(|code| &*code.code).unwrap_or_default(),
        message: &message,
        severity,
    });
}

/// Whether the message only sums up earlier ones.
fn is_summary_message(message: &str) -> bool {
    let message = message.trim_start_matches("error: ");
    message.starts_with("aborting due to ")
        || message.starts_with("could not compile ")
        || message.starts_with("test failed, to rerun ")
        || message.starts_with("doctest failed, to rerun ")
        || message.ends_with(" target failed:")
        || message.ends_with(" targets failed:")
        || message.ends_with(" warning emitted")
        || message.ends_with(" warnings emitted")
}

/// Makes a file name absolute. Cargo names files relative to the workspace root, which is not in its messages. It
/// follows from the package's directory: if that ends with the first components of the file name, the workspace is
/// above them.
fn absolute_path(file: &str, manifest: Option<&str>) -> String {
    let Some(package) = manifest.map(Path::new).and_then(Path::parent) else {
        return file.to_owned();
    };
    if Path::new(file).is_absolute() || !source_location::is_source_file(file) {
        return file.to_owned();
    }
    let shared = Path::new(file)
        .ancestors()
        .skip(1)
        .find(|head| !head.as_os_str().is_empty() && package.ends_with(head))
        .map_or(0, |head| head.components().count());
    let workspace: PathBuf = package.ancestors().nth(shared).unwrap_or(package).to_owned();
    workspace.join(file).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_derived_from_the_package() {
        for (file, manifest, expected) in [
            ("src/lib.rs", "/project/Cargo.toml", "/project/src/lib.rs"),
            ("crates/a/src/lib.rs", "/project/crates/a/Cargo.toml", "/project/crates/a/src/lib.rs"),
            ("a/src/x/y.rs", "/project/rust/a/Cargo.toml", "/project/rust/a/src/x/y.rs"),
            ("/rustc/5/core.rs", "/project/Cargo.toml", "/rustc/5/core.rs"),
        ] {
            assert_eq!(absolute_path(file, Some(manifest)), expected, "{file} of {manifest}");
        }
        assert_eq!(absolute_path("src/lib.rs", None), "src/lib.rs");
    }
}
