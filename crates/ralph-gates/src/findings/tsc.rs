//! Reads the output of the TypeScript compiler: `a.ts(3,5): error TS2322: …`, or `a.ts:3:5 - error TS2322: …` with
//! `--pretty`.

use super::blocks::Heard;
use super::locate::{self, Spot};
use super::{Context, Draft, Found, lines};
use ralph_core::gate::Reading;
use ralph_core::requirement::Severity;

#[derive(Debug, Default)]
pub(super) struct Tsc {
    /// The last diagnostic. Indented lines that belong to it may follow.
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    place: Option<(String, Option<u32>, Option<u32>)>,
    code: String,
    message: String,
    severity: Severity,
}

pub(super) fn read(text: &str, context: &Context<'_>) -> Reading {
    let mut tsc = Tsc::default();
    let mut found = Found::new(context);
    for line in lines(text) {
        tsc.line(&line, &mut found);
    }
    tsc.end(&mut found);
    found.into_reading(None, None)
}

impl Tsc {
    pub(super) fn line(&mut self, line: &str, found: &mut Found<'_>) -> Heard {
        if let Some(pending) = diagnostic(line) {
            self.close(found);
            self.pending = Some(pending);
            return Heard::Mine;
        }
        if let Some(pending) = &mut self.pending {
            if line.starts_with("  ") && !line.trim().is_empty() && pending.message.len() < 1_200 {
                pending.message.push(' ');
                pending.message.push_str(line.trim());
                return Heard::Mine;
            }
            self.close(found);
        }
        Heard::Other
    }

    pub(super) fn end(mut self, found: &mut Found<'_>) {
        self.close(found);
    }

    fn close(&mut self, found: &mut Found<'_>) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        found.add(&Draft {
            spot: pending.place.as_ref().map(|(file, line, column)| Spot {
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

fn diagnostic(line: &str) -> Option<Pending> {
    let located = locate::first(line).filter(|located| located.before.is_empty());
    let (place, rest) = match located {
        Some(located) => {
            let rest =
                located.after.strip_prefix(": ").or_else(|| located.after.strip_prefix(" - "))?;
            let spot = located.spot;
            (Some((spot.file.to_owned(), spot.line, spot.column)), rest)
        }
        None => (None, line),
    };
    let (severity, rest) = match rest.split_once(' ')? {
        ("error", rest) => (Severity::Error, rest),
        ("warning", rest) => (Severity::Warning, rest),
        _ => return None,
    };
    let (code, message) = rest.split_once(": ")?;
    let is_code = code
        .strip_prefix("TS")
        .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    is_code.then(|| Pending { place, code: code.to_owned(), message: message.to_owned(), severity })
}
