//! How much runs have changed since their start. Counting lines takes git a while, and an open page is made often, so the
//! latest totals are kept.

use ralph_core::id::RunId;
use ralph_deck::page::{CheckpointDiff, CheckpointRow};
use std::sync::{Mutex, PoisonError};

const MAX_KNOWN: usize = 32;

/// What changed from the first checkpoint of a run to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeTotals {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) files: usize,
    pub(crate) added: u64,
    pub(crate) removed: u64,
}

impl From<&CheckpointDiff> for ChangeTotals {
    fn from(changed: &CheckpointDiff) -> Self {
        let CheckpointDiff { from, to, ref files, left_out, added, removed } = *changed;
        Self { from, to, files: files.len().saturating_add(left_out), added, removed }
    }
}

/// The totals of the runs that were looked at last.
#[derive(Debug, Default)]
pub(crate) struct KnownChanges(Mutex<Vec<KnownChange>>);

#[derive(Debug)]
struct KnownChange {
    run: RunId,
    first: CheckpointRow,
    last: CheckpointRow,
    /// `None` if git gave no answer: it is not asked again before the next checkpoint.
    totals: Option<ChangeTotals>,
}

impl KnownChanges {
    /// The totals for these checkpoints of a run, which `count` finds if it is not known.
    pub(crate) fn totals(
        &self,
        run: &RunId,
        checkpoints: &[CheckpointRow],
        count: impl FnOnce() -> Option<ChangeTotals>,
    ) -> Option<ChangeTotals> {
        let [first, .., last] = checkpoints else { return None };
        let is_same =
            |known: &KnownChange| known.run == *run && known.first == *first && known.last == *last;
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().iter().find(|known| is_same(known)) {
            return known.totals;
        }
        let totals = count();
        let (run, first, last) = (run.clone(), first.clone(), last.clone());
        let mut known = lock();
        known.retain(|known| known.run != run);
        if known.len() >= MAX_KNOWN {
            known.remove(0);
        }
        known.push(KnownChange { run, first, last, totals });
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_once_for_the_same_checkpoints() {
        let known = KnownChanges::default();
        let checkpoints = |count: u32| -> Vec<_> {
            let row = |number| CheckpointRow { number, at_ms: 1, why: String::new() };
            (0..count).map(row).collect()
        };
        let run = |number: usize| RunId::parse(&format!("r{number:03}")).unwrap();
        let mut counted = 0;
        let mut ask = |run: &RunId, count: u32| {
            known.totals(run, &checkpoints(count), || {
                counted += 1;
                (count < 5).then_some(ChangeTotals {
                    from: 0,
                    to: count - 1,
                    files: 1,
                    added: 2,
                    removed: 3,
                })
            });
            counted
        };
        for (count, expected) in [(0, 0), (1, 0), (2, 1), (2, 1), (3, 2), (5, 3), (5, 3), (2, 4)] {
            assert_eq!(ask(&run(0), count), expected, "{count} checkpoints");
        }
        // The oldest of many is forgotten.
        for number in 1..=MAX_KNOWN {
            ask(&run(number), 2);
        }
        let before = ask(&run(1), 2);
        assert_eq!(ask(&run(0), 2), before + 1);
    }
}
