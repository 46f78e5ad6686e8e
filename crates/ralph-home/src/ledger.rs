//! The spending of all runs, by day, so that a daily budget holds across runs, restarts and crashes.
//!
//! There is one file per day, with one line for each increase of a session's meter. Many runners append concurrently
//! without a lock: each line is a single write and starts with a line feed, so that a partial line left by a crash does
//! not corrupt the next one.

use crate::paths::Home;
use ralph_core::drive::{Metered, Source};
use ralph_core::id::{RunId, SessionId};
use ralph_core::run::Spent;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::tail;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const VERSION: u8 = 1;
/// Bytes read at once. A line is a few hundred bytes; one longer than this is skipped.
const STEP: usize = 1024 * 1024;
/// Reads per call. The rest of a larger file is read by the next call.
const MOST_STEPS: usize = 256;
/// Meters per day that are tracked separately.
const MOST_METERS: usize = 100_000;
/// A line with more than a billion dollars was not written by ralph.
const MOST_MICRO_USD: u64 = 1_000_000_000_000_000;

/// An increase of one session's meter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub v: u8,
    pub at_ms: u64,
    pub run: RunId,
    pub session: SessionId,
    pub source: Source,
    /// The increase since the session's previous line.
    pub micro_usd: u64,
    /// The session's total so far. After a crash between this line and the run's record, the line is written again;
    /// the total makes the duplicate count once.
    pub reached_micro_usd: u64,
    pub tokens: u64,
}

impl Entry {
    /// `before` is the run's recorded spending for that session and source. Returns `None` if nothing was added.
    pub fn new(run: &RunId, before: Spent, metered: &Metered) -> Option<Self> {
        let micro_usd = metered.micro_usd.saturating_sub(before.micro_usd);
        let tokens = metered.tokens.saturating_sub(before.tokens);
        (micro_usd > 0 || tokens > 0).then(|| Self {
            v: VERSION,
            at_ms: 0,
            run: run.clone(),
            session: metered.session.clone(),
            source: metered.source,
            micro_usd,
            reached_micro_usd: metered.micro_usd,
            tokens,
        })
    }
}

/// Appends to the file of the day that contains `now_ms`.
///
/// Call this before recording the spending in the run: a crash in between then counts nothing twice, while the other
/// order would lose it.
pub fn add(home: &Home, now_ms: u64, entry: &Entry) -> Result<(), FileError> {
    let path = home.spend(now_ms);
    let entry = Entry { at_ms: now_ms, ..entry.clone() };
    let Ok(line) = serde_json::to_string(&entry) else {
        return Err(FileError::refused(&path, "it cannot be serialised as JSON"));
    };
    if let Some(directory) = path.parent() {
        fs::create_dir(directory)?;
    }
    fs::append(&path, format!("\n{line}\n").as_bytes(), Durability::Synced).map(drop)
}

/// Spending on the day of `now_ms`, in millionths of a dollar.
pub fn today(home: &Home, now_ms: u64) -> Result<u64, FileError> {
    Day::default().spent(home, now_ms)
}

/// Running total of one day's spending. Repeated queries read only what was appended since.
#[derive(Clone, Debug, Default)]
pub struct Day {
    date: String,
    read: u64,
    micro_usd: u64,
    /// Last total of each meter. A session has one for the agent and one for gates (`true`).
    meters: BTreeMap<(RunId, SessionId, bool), u64>,
}

impl Day {
    /// Reads new lines and returns the day's total. It never decreases within a day.
    pub fn spent(&mut self, home: &Home, now_ms: u64) -> Result<u64, FileError> {
        let date = clock::local_date(now_ms);
        if self.date != date {
            *self = Self { date, ..Self::default() };
        }
        let path = home.spend(now_ms);
        let at_least = self.micro_usd;
        for _ in 0..MOST_STEPS {
            let chunk = match tail::forward(&path, self.read, STEP) {
                Ok(chunk) => chunk,
                Err(error) if error.is_missing() => break,
                Err(error) => return Err(error),
            };
            if chunk.len < self.read {
                // The file was truncated. Read it again, but do not fall below the known total.
                *self = Self { date: std::mem::take(&mut self.date), ..Self::default() };
                continue;
            }
            chunk.lines().for_each(|line| self.line(line));
            if chunk.end == self.read {
                break;
            }
            self.read = chunk.end;
        }
        self.micro_usd = self.micro_usd.max(at_least);
        Ok(self.micro_usd)
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(entry) = serde_json::from_slice::<Entry>(line) else { return };
        if entry.v != VERSION || entry.micro_usd > MOST_MICRO_USD {
            return;
        }
        let Entry { run, session, source, micro_usd, reached_micro_usd: reached, .. } = entry;
        let meter = (run, session, source == Source::Gate);
        let before = self.meters.get(&meter).copied();
        let new = before.map_or(micro_usd, |before| micro_usd.min(reached.saturating_sub(before)));
        self.micro_usd = self.micro_usd.saturating_add(new);
        if before.is_some() || self.meters.len() < MOST_METERS {
            self.meters.insert(meter, reached.max(before.unwrap_or(0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::drive::Meter;
    use std::path::Path;
    use tempfile::TempDir;

    const NOW: u64 = 1_700_000_000_000;
    const DAY: u64 = 24 * 60 * 60 * 1000;

    fn home() -> (TempDir, Home) {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().to_path_buf());
        (directory, home)
    }

    fn entry(session: &str, before: u64, after: u64) -> Entry {
        let run = RunId::parse("k7f2").unwrap();
        let metered = Metered {
            session: SessionId::parse(session).unwrap(),
            source: Source::Agent,
            micro_usd: after,
            tokens: after * 2,
            turns: 1,
            meter: Meter::Told,
        };
        Entry::new(&run, Spent { micro_usd: before, tokens: before * 2 }, &metered).unwrap()
    }

    fn append(path: &Path, bytes: &[u8]) {
        fs::append(path, bytes, Durability::Cached).unwrap();
    }

    /// R-K1a: a day's spending is summed over runs and survives the processes that spent it.
    #[test]
    fn a_day_is_summed_over_runs_and_processes() {
        let (_directory, home) = home();
        assert_eq!(today(&home, NOW).unwrap(), 0);
        add(&home, NOW, &entry("a", 0, 100)).unwrap();
        add(&home, NOW, &entry("b", 0, 30)).unwrap();
        let mut day = Day::default();
        assert_eq!(day.spent(&home, NOW).unwrap(), 130);
        add(&home, NOW, &entry("a", 100, 150)).unwrap();
        assert_eq!((day.spent(&home, NOW).unwrap(), today(&home, NOW).unwrap()), (180, 180));
        let bytes = fs::read(&home.spend(NOW), 10_000).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(
            text.lines().nth(1),
            Some(
                r#"{"v":1,"at_ms":1700000000000,"run":"k7f2","session":"a","source":"agent","micro_usd":100,"reached_micro_usd":100,"tokens":200}"#
            )
        );
        let run = RunId::parse("k7f2").unwrap();
        let same = Metered {
            session: SessionId::parse("a").unwrap(),
            source: Source::Gate,
            micro_usd: 5,
            tokens: 7,
            turns: 0,
            meter: Meter::Told,
        };
        assert_eq!(Entry::new(&run, Spent { micro_usd: 5, tokens: 7 }, &same), None);
        assert_eq!(Entry::new(&run, Spent { micro_usd: 9, tokens: 9 }, &same), None);
    }

    #[test]
    fn a_new_day_starts_at_zero() {
        let (_directory, home) = home();
        let mut day = Day::default();
        let midnight = clock::parse_moment(&clock::local_date(NOW)).unwrap();
        add(&home, midnight - 1, &entry("a", 0, 100)).unwrap();
        add(&home, midnight, &entry("a", 100, 107)).unwrap();
        assert_eq!(day.spent(&home, midnight - 1).unwrap(), 100);
        assert_eq!(day.spent(&home, midnight).unwrap(), 7);
        assert_eq!(day.spent(&home, midnight + 2 * DAY).unwrap(), 0);
    }

    /// After a crash between the ledger's line and the run's record, the same line is written again, then later ones.
    #[test]
    fn nothing_is_counted_twice_after_a_crash() {
        let (_directory, home) = home();
        for (before, after, expected) in
            [(100, 110, 10), (100, 110, 10), (100, 118, 18), (118, 120, 20), (125, 126, 21)]
        {
            add(&home, NOW, &entry("a", before, after)).unwrap();
            assert_eq!(today(&home, NOW).unwrap(), expected, "{before} to {after}");
        }
    }

    #[test]
    fn partial_lines_and_garbage_are_skipped() {
        let (_directory, home) = home();
        let path = home.spend(NOW);
        add(&home, NOW, &entry("a", 0, 100)).unwrap();
        append(&path, br#"{"v":1,"at_ms":17000000"#);
        let mut day = Day::default();
        assert_eq!(day.spent(&home, NOW).unwrap(), 100);
        add(&home, NOW, &entry("b", 0, 1)).unwrap();
        assert_eq!(day.spent(&home, NOW).unwrap(), 101);
        let line = serde_json::to_string(&entry("c", 0, 5)).unwrap();
        for hostile in [
            "\u{0}\u{0}\n".to_string(),
            "null\n[]\n{}\n".to_string(),
            line.replace("\"v\":1", "\"v\":2"),
            line.replace("\"micro_usd\":5", "\"micro_usd\":-5"),
            line.replace("\"micro_usd\":5", &format!("\"micro_usd\":{}", u64::MAX)),
            line.replace("k7f2", "../k7f2"),
            "x".repeat(2 * STEP + 17),
        ] {
            append(&path, format!("{hostile}\n").as_bytes());
        }
        append(&path, b"\xff\xfe\n");
        add(&home, NOW, &entry("d", 0, 2)).unwrap();
        assert_eq!((day.spent(&home, NOW).unwrap(), today(&home, NOW).unwrap()), (103, 103));
        // Truncating the file does not lower the total of a reader that has already seen more.
        fs::truncate(&path, 0).unwrap();
        assert_eq!((day.spent(&home, NOW).unwrap(), today(&home, NOW).unwrap()), (103, 0));
        add(&home, NOW, &entry("e", 0, 1000)).unwrap();
        assert_eq!(day.spent(&home, NOW).unwrap(), 1103);
    }

    #[test]
    fn a_directory_in_place_of_the_file_is_an_error() {
        let (_directory, home) = home();
        fs::create_dir(&home.spend(NOW)).unwrap();
        assert!(today(&home, NOW).is_err());
        assert!(add(&home, NOW, &entry("a", 0, 1)).is_err());
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
                        add(home, NOW, &entry(&session, number * 3, number * 3 + 3)).unwrap();
                    }
                });
            }
        });
        assert_eq!(today(&home, NOW).unwrap(), 8 * 50 * 3);
    }

    /// A day of a hundred thousand turns is read in steps.
    #[test]
    fn a_large_file_is_read_in_steps() {
        let (_directory, home) = home();
        let path = home.spend(NOW);
        add(&home, NOW, &entry("a", 0, 1)).unwrap();
        let line = |number| serde_json::to_string(&entry("a", number, number + 1)).unwrap();
        let lines = (1..30_000).map(line).collect::<Vec<_>>().join("\n") + "\n";
        assert!(lines.len() > 3 * STEP);
        append(&path, lines.as_bytes());
        assert_eq!(today(&home, NOW).unwrap(), 30_000);
    }
}
