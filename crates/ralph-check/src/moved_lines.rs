//! Lines that a change only moves or indents. They are not new, in whichever file they were.

use super::FileChange;
use super::word_search::FnvHash;
use alloc::collections::BTreeMap;
use core::cell::OnceCell;

/// How often each line occurs before and after a change. Counted only when a line is asked for.
#[derive(Debug, Default)]
pub struct MovedLines<'a> {
    changes: &'a [FileChange<'a>],
    counts: OnceCell<BTreeMap<u64, LineCount>>,
}

#[derive(Debug, Default)]
struct LineCount {
    before: usize,
    after: usize,
}

impl<'a> MovedLines<'a> {
    pub fn new(changes: &'a [FileChange<'a>]) -> Self {
        Self { changes, counts: OnceCell::new() }
    }

    /// Whether the line occurs no more often than before, in all changed files together.
    pub(crate) fn contains(&self, line: &str) -> bool {
        let counts = self.counts.get_or_init(|| count_lines(self.changes));
        counts.get(&line_hash(line)).is_some_and(|count| count.after <= count.before)
    }
}

fn count_lines(changes: &[FileChange<'_>]) -> BTreeMap<u64, LineCount> {
    let mut counts: BTreeMap<u64, LineCount> = BTreeMap::new();
    for change in changes {
        for line in change.before.unwrap_or_default().lines() {
            counts.entry(line_hash(line)).or_default().before += 1;
        }
        for line in change.after.unwrap_or_default().lines() {
            counts.entry(line_hash(line)).or_default().after += 1;
        }
    }
    counts
}

fn line_hash(line: &str) -> u64 {
    let mut hash = FnvHash::EMPTY;
    hash.add(line.trim().as_bytes());
    hash.value()
}
