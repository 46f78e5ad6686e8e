//! Reads the output of the TypeScript compiler: `a.ts(3,5): error TS2322: …`, or `a.ts:3:5 - error TS2322: …` with
//! `--pretty`.

use super::failure_block::LineMatch;
use super::source_location::{self, RawLocation};
use super::{FindingCollector, FindingDraft, ReportContext, clean_lines};
use ralph_core::gate::ParsedReport;
use ralph_core::requirement::FindingSeverity;

#[derive(Debug, Default)]
pub(super) struct TscReader {
    /// The last diagnostic. Indented lines that belong to it may follow.
    pending: Option<TscDiagnostic>,
}

#[derive(Debug)]
struct TscDiagnostic {
    place: Option<(String, Option<u32>, Option<u32>)>,
    code: String,
    message: String,
    severity: FindingSeverity,
}

pub(super) fn read_tsc(text: &str, context: &ReportContext<'_>) -> ParsedReport {
    let mut tsc = TscReader::default();
    let mut found = FindingCollector::new(context);
    for line in clean_lines(text) {
        tsc.read_line(&line, &mut found);
    }
    tsc.finish(&mut found);
    found.into_report(None, None)
}

impl TscReader {
    pub(super) fn read_line(&mut self, line: &str, found: &mut FindingCollector<'_>) -> LineMatch {
        if let Some(pending) = parse_diagnostic(line) {
            self.report_pending(found);
            self.pending = Some(pending);
            return LineMatch::Recognised;
        }
        if let Some(pending) = &mut self.pending {
            if line.starts_with("  ") && !line.trim().is_empty() && pending.message.len() < 1_200 {
                pending.message.push(' ');
                pending.message.push_str(line.trim());
                return LineMatch::Recognised;
            }
            self.report_pending(found);
        }
        LineMatch::Unrecognised
    }

    pub(super) fn finish(mut self, found: &mut FindingCollector<'_>) {
        self.report_pending(found);
    }

    fn report_pending(&mut self, found: &mut FindingCollector<'_>) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        found.add(&FindingDraft {
            location: pending.place.as_ref().map(|(file, line, column)| RawLocation {
                file,
                line: *line,
                column: *column,
            }),
            rule: &pending.code,
            message: &pending.message,
            severity: pending.severity,
        });
    }
}

fn parse_diagnostic(line: &str) -> Option<TscDiagnostic> {
    let located = source_location::first_location(line).filter(|located| located.before.is_empty());
    let (place, rest) = match located {
        Some(located) => {
            let rest =
                located.after.strip_prefix(": ").or_else(|| located.after.strip_prefix(" - "))?;
            let spot = located.location;
            (Some((spot.file.to_owned(), spot.line, spot.column)), rest)
        }
        None => (None, line),
    };
    let (severity, rest) = match rest.split_once(' ')? {
        ("error", rest) => (FindingSeverity::Error, rest),
        ("warning", rest) => (FindingSeverity::Warning, rest),
        _ => return None,
    };
    let (code, message) = rest.split_once(": ")?;
    let is_code = code
        .strip_prefix("TS")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    is_code.then(|| TscDiagnostic {
        place,
        code: code.to_owned(),
        message: message.to_owned(),
        severity,
    })
}
