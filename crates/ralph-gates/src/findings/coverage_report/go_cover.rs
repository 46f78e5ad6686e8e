//! Reads the profiles of `go test -coverprofile`: a mode, then one block of statements per line.

use super::{CoverageDraft, DraftName};
use ralph_core::line_set::LineRange;

pub(super) fn read_go_cover(text: &str, draft: &mut CoverageDraft) -> Result<(), &'static str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match lines.next() {
        None => return Err("the report is empty"),
        Some(first) if !first.starts_with("mode: ") => return Err("the report cannot be parsed"),
        Some(_) => {}
    }
    // Profiles of several packages are often joined, each with its mode.
    for line in lines.filter(|line| !line.starts_with("mode: ")) {
        let block = parse_block(line).ok_or("a line of the report cannot be parsed")?;
        // A block without statements has nothing to run.
        if block.statements > 0
            && let Some(file) = DraftName::new(block.file)
        {
            draft.add(&file, LineRange::new(block.first, block.last), block.count > 0);
        }
    }
    Ok(())
}

struct StatementBlock<'a> {
    file: &'a str,
    first: u32,
    last: u32,
    statements: u32,
    count: u64,
}

/// `example.com/shop/cart/cart.go:8.31,10.3 1 2`: from line and column to line and column, statements, executions.
fn parse_block(line: &str) -> Option<StatementBlock<'_>> {
    let (file, rest) = line.rsplit_once(':')?;
    let mut words = rest.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once(',')?;
    let line_of = |point: &str| point.split_once('.')?.0.parse().ok();
    let block = StatementBlock {
        file,
        first: line_of(from)?,
        last: line_of(to)?,
        statements: words.next()?.parse().ok()?,
        count: words.next()?.parse().ok()?,
    };
    words.next().is_none().then_some(block)
}
