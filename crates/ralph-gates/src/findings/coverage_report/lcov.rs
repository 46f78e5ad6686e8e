//! Reads lcov's tracefiles: `geninfo(1)`, as coverage.py, c8, node, grcov and LLVM write them too.

use super::{CoverageDraft, DraftName};
use ralph_core::line_set::LineRange;

pub(super) fn read_lcov(text: &str, draft: &mut CoverageDraft) -> Result<(), &'static str> {
    let mut file: Option<DraftName> = None;
    let mut is_open = false;
    let mut has_record = false;
    for line in text.lines() {
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix("SF:") {
            file = DraftName::new(name);
            is_open = true;
            has_record = true;
        } else if line == "end_of_record" {
            (file, is_open) = (None, false);
        } else if let Some(data) = line.strip_prefix("DA:")
            && is_open
        {
            let (range, is_covered) =
                parse_line_data(data).ok_or("a line of the report cannot be parsed")?;
            if let Some(file) = &file {
                draft.add(file, range, is_covered);
            }
        }
    }
    match (has_record, is_open) {
        (false, _) if text.trim().is_empty() => Err("the report is empty"),
        (false, _) => Err("the report cannot be parsed"),
        (true, true) => Err("the report is truncated"),
        (true, false) => Ok(()),
    }
}

/// `LINE,COUNT` and perhaps a checksum. Some tools write counts as floating-point numbers, and older ones negative ones.
fn parse_line_data(data: &str) -> Option<(Option<LineRange>, bool)> {
    let mut parts = data.split(',');
    let line: u32 = parts.next()?.trim().parse().ok()?;
    let count = parts.next()?.trim();
    let is_covered = match count.parse::<i64>() {
        Ok(count) => count > 0,
        Err(_) => count.parse::<f64>().ok().filter(|count| count.is_finite())? > 0.0,
    };
    Some((LineRange::new(line, line), is_covered))
}
