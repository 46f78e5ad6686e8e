//! Names the tests of AVA: `cart > adds`. Names count only if the line that ends the list follows.

use super::{NameCollector, PART_SEPARATOR, PendingCases, without_duration};
use ralph_core::test_cases::TestOutcome;

#[derive(Debug, Default)]
pub(super) struct AvaNames {
    pending: PendingCases,
    failed: u32,
}

impl AvaNames {
    pub(super) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if line == "  ─" {
            self.pending.commit(names);
        } else if let Some((outcome, name)) = line.strip_prefix("  ").and_then(parse_test) {
            self.failed += u32::from(outcome == TestOutcome::Failed);
            self.pending.push(outcome, name.replace(" › ", PART_SEPARATOR));
        } else if let Some(number) = line
            .strip_suffix(" failed")
            .and_then(|head| {
                head.trim().strip_suffix(" test").or(head.trim().strip_suffix(" tests"))
            })
            .filter(|_| line.starts_with("  "))
            && self.failed > 0
        {
            if number.parse() != Ok(self.failed) {
                names.mark_incomplete();
            }
            self.failed = 0;
        } else if ["PASS ", "FAIL ", "  RUN "].iter().any(|mark| line.starts_with(mark)) {
            self.pending.clear();
        }
    }
}

/// `✔ cart › adds (305ms)`, `✘ [fail]: cart › adds more`, `- [skip] cart › later`
fn parse_test(line: &str) -> Option<(TestOutcome, &str)> {
    let (mark, name) = line.split_once(' ')?;
    let (outcome, name) = match mark {
        "✔" => match name.strip_prefix("[expected fail] ") {
            Some(name) => (TestOutcome::Skipped, name),
            None => (TestOutcome::Passed, name),
        },
        "✘" | "✖" => (TestOutcome::Failed, name.strip_prefix("[fail]: ")?),
        "-" => (
            TestOutcome::Skipped,
            name.strip_prefix("[skip] ").or_else(|| name.strip_prefix("[todo] "))?,
        ),
        _ => return None,
    };
    Some((outcome, without_duration(name)))
}
