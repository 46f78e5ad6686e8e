//! The spending of all runs, by day, so that a daily budget holds across runs, restarts and crashes.
//!
//! There is one file per day, with one line for each increase of a session's meter. Many runners append concurrently
//! without a lock: each line is a single write and starts with a line feed, so that a partial line left by a crash does
//! not corrupt the next one.

use crate::paths::RalphHome;
use ralph_core::drive::{CostSource, MeterReading};
use ralph_core::id::{RunId, SessionId};
use ralph_core::run::Spending;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::tail;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const LEDGER_VERSION: u8 = 1;
/// Bytes read at once. A line is a few hundred bytes; one longer than this is skipped.
const READ_BYTES: usize = 1024 * 1024;
/// Reads per call. The rest of a larger file is read by the next call.
const MAX_READS: usize = 256;
/// Meters per day that are tracked separately.
const MAX_METERS: usize = 100_000;
/// A line with more than a billion dollars was not written by ralph.
const MAX_LINE_MICRO_USD: u64 = 1_000_000_000_000_000;

/// An increase of one session's meter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub v: u8,
    pub at_ms: u64,
    pub run: RunId,
    pub session: SessionId,
    pub source: CostSource,
    /// The increase since the session's previous line.
    pub micro_usd: u64,
    /// The session's total so far. After a crash between this line and the run's record, the line is written again;
    /// the total makes the duplicate count once.
    pub reached_micro_usd: u64,
    pub tokens: u64,
    /// The estimated cost of a call in progress. It counts until the run's next line of this source, which has the real cost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimated_micro_usd: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl LedgerEntry {
    /// `before` is the run's recorded spending for that session and source. Returns `None` if nothing was added.
    pub fn new(run: &RunId, before: Spending, metered: &MeterReading) -> Option<Self> {
        let micro_usd = metered.micro_usd.saturating_sub(before.micro_usd);
        let tokens = metered.tokens.saturating_sub(before.tokens);
        (micro_usd > 0 || tokens > 0).then(|| Self {
            v: LEDGER_VERSION,
            at_ms: 0,
            run: run.clone(),
            session: metered.session.clone(),
            source: metered.source,
            micro_usd,
            reached_micro_usd: metered.micro_usd,
            tokens,
            estimated_micro_usd: 0,
        })
    }
}

/// Appends to the file of the day that contains `now_ms`.
///
/// Call this before recording the spending in the run: a crash in between then counts nothing twice, while the other
/// order would lose it.
pub fn append_spending(
    home: &RalphHome,
    now_ms: u64,
    entry: &LedgerEntry,
) -> Result<(), FileError> {
    let path = home.spending_ledger(now_ms);
    let entry = LedgerEntry { at_ms: now_ms, ..entry.clone() };
    let Ok(line) = serde_json::to_string(&entry) else {
        return Err(FileError::refused(&path, "it cannot be serialised as JSON"));
    };
    if let Some(directory) = path.parent() {
        fs::create_private_dir(directory)?;
    }
    fs::append(&path, format!("\n{line}\n").as_bytes(), Durability::Synced).map(drop)
}

/// Spending on the day of `now_ms`, in millionths of a dollar.
pub fn spent_today(home: &RalphHome, now_ms: u64) -> Result<u64, FileError> {
    DaySpending::default().update_total(home, now_ms)
}

/// Running total of one day's spending. Repeated queries read only what was appended since.
#[derive(Clone, Debug, Default)]
pub struct DaySpending {
    date: String,
    read_bytes: u64,
    micro_usd: u64,
    /// Last total of each meter.
    meters: BTreeMap<SpendingMeter, u64>,
    /// Estimates of calls whose cost is not known. A run makes one at a time, even if its session changes.
    open: BTreeMap<(RunId, CostSource), u64>,
}

/// A session has one meter for the agent, one for gates and one for judges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SpendingMeter {
    run: RunId,
    session: SessionId,
    source: CostSource,
}

impl DaySpending {
    /// Reads new lines and returns the day's total. It never decreases within a day, except by an estimate that its real
    /// cost replaces.
    pub fn update_total(&mut self, home: &RalphHome, now_ms: u64) -> Result<u64, FileError> {
        let date = clock::local_date(now_ms);
        if self.date != date {
            *self = Self { date, ..Self::default() };
        }
        let path = home.spending_ledger(now_ms);
        let at_least = self.micro_usd;
        for _ in 0..MAX_READS {
            let chunk = match tail::read_lines_from(&path, self.read_bytes, READ_BYTES) {
                Ok(chunk) => chunk,
                Err(error) if error.is_missing() => break,
                Err(error) => return Err(error),
            };
            if chunk.len < self.read_bytes {
                // The file was truncated. Read it again, but do not fall below the known total.
                *self = Self { date: std::mem::take(&mut self.date), ..Self::default() };
                continue;
            }
            chunk.lines().for_each(|line| self.apply_line(line));
            if chunk.end == self.read_bytes {
                break;
            }
            self.read_bytes = chunk.end;
        }
        self.micro_usd = self.micro_usd.max(at_least);
        Ok(self.open.values().fold(self.micro_usd, |sum, open| sum.saturating_add(*open)))
    }

    fn apply_line(&mut self, line: &[u8]) {
        let Ok(entry) = serde_json::from_slice::<LedgerEntry>(line) else { return };
        let most = entry.micro_usd.max(entry.estimated_micro_usd);
        if entry.v != LEDGER_VERSION || most > MAX_LINE_MICRO_USD {
            return;
        }
        let LedgerEntry { run, session, source, micro_usd, reached_micro_usd: reached, .. } = entry;
        if entry.estimated_micro_usd == 0 {
            self.open.remove(&(run.clone(), source));
        } else if self.open.len() < MAX_METERS {
            self.open.insert((run.clone(), source), entry.estimated_micro_usd);
        }
        let meter = SpendingMeter { run, session, source };
        let before = self.meters.get(&meter).copied();
        let new = before.map_or(micro_usd, |before| micro_usd.min(reached.saturating_sub(before)));
        self.micro_usd = self.micro_usd.saturating_add(new);
        if before.is_some() || self.meters.len() < MAX_METERS {
            self.meters.insert(meter, reached.max(before.unwrap_or(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::drive::MeterBasis;
    use std::path::Path;
    use tempfile::TempDir;

    const NOW: u64 = 1_700_000_000_000;
    const DAY: u64 = 24 * 60 * 60 * 1000;

    fn home() -> (TempDir, RalphHome) {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().to_path_buf());
        (directory, home)
    }

    fn entry(session: &str, before: u64, after: u64) -> LedgerEntry {
        let run = RunId::parse("k7f2").unwrap();
        let metered = MeterReading {
            session: SessionId::parse(session).unwrap(),
            source: CostSource::Agent,
            micro_usd: after,
            tokens: after * 2,
            turns: 1,
            meter: MeterBasis::Told,
        };
        LedgerEntry::new(&run, Spending { micro_usd: before, tokens: before * 2 }, &metered)
            .unwrap()
    }

    fn append(path: &Path, bytes: &[u8]) {
        fs::append(path, bytes, Durability::Cached).unwrap();
    }

    /// R-K1a: a day's spending is summed over runs and survives the processes that spent it.
    #[test]
    fn a_day_is_summed_over_runs_and_processes() {
        let (_directory, home) = home();
        assert_eq!(spent_today(&home, NOW).unwrap(), 0);
        append_spending(&home, NOW, &entry("a", 0, 100)).unwrap();
        append_spending(&home, NOW, &entry("b", 0, 30)).unwrap();
        let mut day = DaySpending::default();
        assert_eq!(day.update_total(&home, NOW).unwrap(), 130);
        append_spending(&home, NOW, &entry("a", 100, 150)).unwrap();
        assert_eq!(
            (day.update_total(&home, NOW).unwrap(), spent_today(&home, NOW).unwrap()),
            (180, 180)
        );
        let bytes = fs::read(&home.spending_ledger(NOW), 10_000).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text.lines().nth(1),
            Some(
                r#"{"v":1,"at_ms":1700000000000,"run":"k7f2","session":"a","source":"agent","micro_usd":100,"reached_micro_usd":100,"tokens":200}"#
            )
        );
        let run = RunId::parse("k7f2").unwrap();
        let same = MeterReading {
            session: SessionId::parse("a").unwrap(),
            source: CostSource::Gate,
            micro_usd: 5,
            tokens: 7,
            turns: 0,
            meter: MeterBasis::Told,
        };
        assert_eq!(LedgerEntry::new(&run, Spending { micro_usd: 5, tokens: 7 }, &same), None);
        assert_eq!(LedgerEntry::new(&run, Spending { micro_usd: 9, tokens: 9 }, &same), None);
    }

    #[test]
    fn a_new_day_starts_at_zero() {
        let (_directory, home) = home();
        let mut day = DaySpending::default();
        let midnight = clock::parse_timestamp_or_date(&clock::local_date(NOW)).unwrap();
        append_spending(&home, midnight - 1, &entry("a", 0, 100)).unwrap();
        append_spending(&home, midnight, &entry("a", 100, 107)).unwrap();
        assert_eq!(day.update_total(&home, midnight - 1).unwrap(), 100);
        assert_eq!(day.update_total(&home, midnight).unwrap(), 7);
        assert_eq!(day.update_total(&home, midnight + 2 * DAY).unwrap(), 0);
    }

    /// After a crash between the ledger's line and the run's record, the same line is written again, then later ones.
    #[test]
    fn nothing_is_counted_twice_after_a_crash() {
        let (_directory, home) = home();
        for (before, after, expected) in
            [(100, 110, 10), (100, 110, 10), (100, 118, 18), (118, 120, 20), (125, 126, 21)]
        {
            append_spending(&home, NOW, &entry("a", before, after)).unwrap();
            assert_eq!(spent_today(&home, NOW).unwrap(), expected, "{before} to {after}");
        }
    }

    /// R-K1c: an estimate counts until the run's next line of the same source, also if its session was reopened.
    #[test]
    fn an_estimate_counts_until_its_cost_is_known() {
        let (_directory, home) = home();
        let judge = |session, before, after, estimated_micro_usd| LedgerEntry {
            source: CostSource::Judge,
            micro_usd: after - before,
            estimated_micro_usd,
            ..entry(session, before, after + 1)
        };
        let mut day = DaySpending::default();
        for (line, expected) in [
            (entry("a", 0, 100), 100),
            (judge("a", 0, 0, 30), 130),
            (entry("a", 100, 101), 131),
            (judge("a", 0, 20, 0), 121),
            (judge("a", 20, 20, 40), 161),
            (judge("b", 20, 60, 0), 161),
            (judge("b", 60, 60, u64::MAX), 161),
        ] {
            append_spending(&home, NOW, &line).unwrap();
            assert_eq!(
                (day.update_total(&home, NOW).unwrap(), spent_today(&home, NOW).unwrap()),
                (expected, expected),
                "{line:?}"
            );
        }
    }

    #[test]
    fn partial_lines_and_garbage_are_skipped() {
        let (_directory, home) = home();
        let path = home.spending_ledger(NOW);
        append_spending(&home, NOW, &entry("a", 0, 100)).unwrap();
        append(&path, br#"{"v":1,"at_ms":17000000"#);
        let mut day = DaySpending::default();
        assert_eq!(day.update_total(&home, NOW).unwrap(), 100);
        append_spending(&home, NOW, &entry("b", 0, 1)).unwrap();
        assert_eq!(day.update_total(&home, NOW).unwrap(), 101);
        let line = serde_json::to_string(&entry("c", 0, 5)).unwrap();
        for hostile in [
            "\u{0}\u{0}\n".to_string(),
            "null\n[]\n{}\n".to_string(),
            line.replace("\"v\":1", "\"v\":2"),
            line.replace("\"micro_usd\":5", "\"micro_usd\":-5"),
            line.replace("\"micro_usd\":5", &format!("\"micro_usd\":{}", u64::MAX)),
            line.replace("k7f2", "../k7f2"),
            "x".repeat(2 * READ_BYTES + 17),
        ] {
            append(&path, format!("{hostile}\n").as_bytes());
        }
        append(&path, b"\xff\xfe\n");
        append_spending(&home, NOW, &entry("d", 0, 2)).unwrap();
        assert_eq!(
            (day.update_total(&home, NOW).unwrap(), spent_today(&home, NOW).unwrap()),
            (103, 103)
        );
        // Truncating the file does not lower the total of a reader that has already seen more.
        fs::truncate(&path, 0).unwrap();
        assert_eq!(
            (day.update_total(&home, NOW).unwrap(), spent_today(&home, NOW).unwrap()),
            (103, 0)
        );
        append_spending(&home, NOW, &entry("e", 0, 1000)).unwrap();
        assert_eq!(day.update_total(&home, NOW).unwrap(), 1103);
    }

    #[test]
    fn a_directory_in_place_of_the_file_is_an_error() {
        let (_directory, home) = home();
        fs::create_private_dir(&home.spending_ledger(NOW)).unwrap();
        assert!(spent_today(&home, NOW).is_err());
        assert!(append_spending(&home, NOW, &entry("a", 0, 1)).is_err());
    }

    /// R-K1a: concurrent writers lose none of each other's lines.
    #[test]
    fn concurrent_writers_lose_nothing() {
        let (_directory, home) = home();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let home = &home;
                scope.spawn(move || {
                    for number in 0..50 {
                        let session = format!("s{writer}");
                        append_spending(home, NOW, &entry(&session, number * 3, number * 3 + 3))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(spent_today(&home, NOW).unwrap(), 8 * 50 * 3);
    }

    /// A day of a hundred thousand turns is read in steps.
    #[test]
    fn a_large_file_is_read_in_steps() {
        let (_directory, home) = home();
        let path = home.spending_ledger(NOW);
        append_spending(&home, NOW, &entry("a", 0, 1)).unwrap();
        let line = |number| serde_json::to_string(&entry("a", number, number + 1)).unwrap();
        let lines = (1..30_000).map(line).collect::<Vec<_>>().join("\n") + "\n";
        assert!(lines.len() > 3 * READ_BYTES);
        append(&path, lines.as_bytes());
        assert_eq!(spent_today(&home, NOW).unwrap(), 30_000);
    }
}
