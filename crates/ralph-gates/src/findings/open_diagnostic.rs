//! A diagnostic whose message continues below its first line: go's compiler (`have …`, `want …`), the log of a go test
//! (`Got …`, `Wanted …`), and mypy with `--pretty`, which wraps long messages.

use super::source_location::RawLocation;
use super::{FindingCollector, FindingDraft};
use ralph_core::requirement::FindingSeverity;

/// Enough for the message of a finding, which is cut later.
const MAX_MESSAGE_BYTES: usize = 1_200;
/// mypy wraps at 80 columns or more, so a longer message is something else.
const MAX_WRAPPED_LINES: u32 = 6;

#[derive(Debug)]
pub(super) struct OpenDiagnostic {
    file: String,
    line: Option<u32>,
    column: Option<u32>,
    rule: String,
    message: String,
    severity: FindingSeverity,
    continues: MessageContinuation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageContinuation {
    /// On lines that are indented more than the first.
    Indented {
        width: usize,
    },
    /// On lines without indentation, up to the one that ends with the error code.
    Wrapped {
        lines: u32,
    },
    Ended,
}

impl OpenDiagnostic {
    /// `None` if the tool prints its messages on one line. `text` is the message with severity and rule.
    pub(super) fn new(first: &str, text: &str, draft: &FindingDraft<'_>) -> Option<Self> {
        let spot = draft.location?;
        let ending = spot.file.rsplit_once('.').map(|(_, ending)| ending);
        let continues = match ending {
            Some("go") => MessageContinuation::Indented { width: indentation(first) },
            Some("py" | "pyi") if text.starts_with("error: ") && draft.rule.is_empty() => {
                MessageContinuation::Wrapped { lines: 0 }
            }
            _ => return None,
        };
        Some(Self {
            file: spot.file.to_owned(),
            line: spot.line,
            column: spot.column,
            rule: draft.rule.to_owned(),
            message: draft.message.to_owned(),
            severity: draft.severity,
            continues,
        })
    }

    /// Takes a line that belongs to the message.
    pub(super) fn take_line(&mut self, line: &str) -> bool {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return false;
        }
        match self.continues {
            MessageContinuation::Indented { width } => {
                if indentation(line) <= width || trimmed.starts_with("--- ") {
                    return false;
                }
                self.add_message(trimmed);
            }
            MessageContinuation::Wrapped { lines } => {
                if indentation(line) > 0 || lines == MAX_WRAPPED_LINES || is_diagnostic(line) {
                    self.continues = MessageContinuation::Ended;
                    return false;
                }
                match trimmed.strip_suffix(']').and_then(|head| head.rsplit_once("  [")) {
                    Some((head, rule)) if !rule.contains(' ') => {
                        self.add_message(head.trim());
                        rule.clone_into(&mut self.rule);
                        self.continues = MessageContinuation::Ended;
                    }
                    Some(_) | None => {
                        self.add_message(trimmed);
                        self.continues = MessageContinuation::Wrapped { lines: lines + 1 };
                    }
                }
            }
            MessageContinuation::Ended => return false,
        }
        true
    }

    fn add_message(&mut self, text: &str) {
        if self.message.len() < MAX_MESSAGE_BYTES && !text.is_empty() {
            self.message.push(' ');
            self.message.push_str(text);
        }
    }

    pub(super) fn emit(&self, found: &mut FindingCollector<'_>) {
        let file = self.file.as_str();
        found.add(&FindingDraft {
            location: Some(RawLocation { file, line: self.line, column: self.column }),
            rule: &self.rule,
            message: &self.message,
            severity: self.severity,
        });
    }
}

/// The width of the white space at the start of a line, where a tab is as wide as what go prints for it.
fn indentation(line: &str) -> usize {
    let start = line.len() - line.trim_start().len();
    line.bytes().take(start).map(|byte| if byte == b'\t' { 4 } else { 1 }).sum()
}

/// Whether a line is not the rest of a wrapped message.
fn is_diagnostic(line: &str) -> bool {
    super::source_location::first_location(line).is_some()
        || line.starts_with("Found ")
        || line.starts_with("Success: ")
}
