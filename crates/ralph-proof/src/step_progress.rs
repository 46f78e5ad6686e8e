//! How many tests of a step have ended, counted in the logs of its gates while they run. It is for display only.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ralph_sys::fs;

const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// What is read of a log at a time.
const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// Calls `report` with the number of ended tests whenever it has grown, until `run` returns.
pub(crate) fn watch_logs<T>(
    logs: Vec<PathBuf>,
    report: &(dyn Fn(usize) + Sync),
    run: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        // The thread ends at once when the sender is dropped.
        let (_running, stopped) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut counters: Vec<LogCounter> = logs.into_iter().map(LogCounter::new).collect();
            let mut last = 0;
            while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let count = counters.iter_mut().map(LogCounter::update).sum();
                if count > last {
                    last = count;
                    report(count);
                }
            }
        });
        run()
    })
}

/// Counts the ended tests of a growing log.
struct LogCounter {
    log: PathBuf,
    /// Everything before this is counted.
    from: u64,
    count: usize,
}

impl LogCounter {
    fn new(log: PathBuf) -> Self {
        Self { log, from: 0, count: 0 }
    }

    fn update(&mut self) -> usize {
        // A log that is not there yet has no tests.
        let bytes = fs::read_range(&self.log, self.from, MAX_CHUNK_BYTES).unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        // A line that fills the whole chunk is not about a test.
        let read = if whole == 0 && bytes.len() == MAX_CHUNK_BYTES { bytes.len() } else { whole };
        let lines = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
        self.count = self.count.saturating_add(lines.lines().map(count_ended_tests).sum());
        self.from = self.from.saturating_add(u64::try_from(read).unwrap_or(0));
        self.count
    }
}

/// How many tests ended according to one line of output.
fn count_ended_tests(line: &str) -> usize {
    let line = line.trim();
    let starts = ["ok ", "not ok ", "--- PASS", "--- FAIL", "--- SKIP", "✔ ", "✖ ", "✓ ", "✕ "];
    let is_cargo = || {
        line.starts_with("test ")
            && [" ... ok", " ... FAILED", " ... ignored"].iter().any(|end| line.ends_with(end))
    };
    let is_go = || {
        let ends = ["\"Action\":\"pass\"", "\"Action\":\"fail\"", "\"Action\":\"skip\""];
        line.contains("\"Test\":") && ends.iter().any(|end| line.contains(end))
    };
    let is_verbose_pytest = || {
        let ends = [" PASSED", " FAILED", " SKIPPED", " ERROR", " XFAIL", " XPASS"];
        line.contains("::") && ends.iter().any(|end| line.contains(end))
    };
    let is_one = starts.iter().any(|start| line.starts_with(start))
        || is_cargo()
        || is_go()
        || is_verbose_pytest();
    if is_one { 1 } else { count_dots(line) }
}

/// `tests/test_a.py ..F.s   [ 31%]`, as pytest prints it.
fn count_dots(line: &str) -> usize {
    let Some((tests, percent)) = line.rsplit_once('[') else { return 0 };
    let is_percent = percent.trim().strip_suffix("%]").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let marks = tests.split_whitespace().last().unwrap_or_default();
    let is_marks = marks.bytes().all(|byte| b".FEsxX".contains(&byte));
    if is_percent && is_marks { marks.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runner_shows_which_tests_have_ended() {
        for (line, expected) in [
            ("ok 1 - tests/adds.sh", 1),
            ("    not ok 2 - b # SKIP", 1),
            ("ok", 0),
            ("1..3", 0),
            ("test proof::tests::a ... ok", 1),
            ("test result: ok. 2 passed; 0 failed", 0),
            ("    --- PASS: TestA/b (0.00s)", 1),
            ("{\"Action\":\"pass\",\"Package\":\"a\",\"Test\":\"TestA\"}", 1),
            ("{\"Action\":\"run\",\"Package\":\"a\",\"Test\":\"TestA\"}", 0),
            ("{\"Action\":\"pass\",\"Package\":\"a\"}", 0),
            ("tests/test_a.py::test_b PASSED    [ 50%]", 1),
            ("tests/test_a.py ..F.s             [ 31%]", 5),
            ("..........  [100%]", 10),
            ("building [ 31%]", 0),
            ("✔ adds (0.4ms)", 1),
        ] {
            assert_eq!(count_ended_tests(line), expected, "{line}");
        }
    }

    /// A line that is not complete yet is counted once, when it is.
    #[test]
    fn a_growing_log_is_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut counter = LogCounter::new(log.clone());
        assert_eq!(counter.update(), 0);
        for (text, expected) in [("ok 1\n", 1), ("ok 1\nok 2", 1), ("ok 1\nok 2 - b\nok 3\n", 3)] {
            fs::replace(&log, text.as_bytes(), fs::Durability::Cached).unwrap();
            assert_eq!(counter.update(), expected, "{text}");
        }
    }
}
