//! Finds where the calls of a run begin in a transcript that is older than the run.
//!
//! The run may not know how long the transcript was when it began: `ralph start` names a session, not its file. Reading
//! everything would make the first stop slower the longer the session is, so the start is found by bisection.

use ralph_host::HostProfile;
use ralph_host::transcript_usage::{CallLine, TranscriptUsage};
use ralph_sys::{clock, tail};
use std::path::Path;

/// Calls that run in parallel are written when they end, so lines may be out of order by this much.
const DISORDER_MS: u64 = 10 * 60 * 1000;
/// A smaller part is read rather than searched.
const SMALLEST_PART: u64 = 256 * 1024;
/// How much is read in search of the next call; the larger amount only if there are none in the smaller one.
const PROBE_BYTES: [usize; 2] = [64 * 1024, 8 * 1024 * 1024];

/// An offset before which no call was made at or after `since_ms`. It may be in the middle of a line, of an older call.
pub(crate) fn find_run_start(host: &HostProfile, path: &Path, length: u64, since_ms: u64) -> u64 {
    let since_ms = since_ms.saturating_sub(DISORDER_MS);
    let (mut start, mut end) = (0, length);
    while end - start > SMALLEST_PART {
        let middle = start.midpoint(end);
        // Where no time is found, the search continues before it: reading too much is only slow.
        match next_call_ms(host, path, middle) {
            Some(call_ms) if call_ms < since_ms => start = middle,
            Some(_) | None => end = middle,
        }
    }
    start
}

/// The time of the first call after `offset`.
fn next_call_ms(host: &HostProfile, path: &Path, offset: u64) -> Option<u64> {
    PROBE_BYTES.iter().find_map(|bytes| {
        let chunk = tail::read_lines_from(path, offset, *bytes).ok()?;
        let mut times = chunk.lines().filter_map(|line| {
            let (TranscriptUsage::Call(CallLine { timestamp, .. })
            | TranscriptUsage::Compaction { timestamp, .. }) = (host.parse_usage_line)(line)?;
            clock::parse_rfc3339(&timestamp?)
        });
        times.next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_host::claude;
    use std::fmt::Write as _;

    const STARTED: &str = "2026-03-01T12:00:00Z";

    fn call(time: &str) -> String {
        format!(
            r#"{{"type":"assistant","timestamp":"{time}","message":{{"id":"m","model":"claude-opus-5-5","usage":{{"output_tokens":1}}}}}}"#
        )
    }

    /// Finds the start in a file of these lines, each repeated; returns the share of the file that is skipped in percent,
    /// and whether a call of the run is lost.
    fn search(parts: &[(&str, usize)]) -> (u64, bool) {
        let (directory, mut text, mut first) = (tempfile::tempdir().unwrap(), String::new(), None);
        let since_ms = clock::parse_rfc3339(STARTED).unwrap();
        for (line, count) in parts {
            let is_later = line.contains("T12:0") || line.contains("T13");
            first = first.or(is_later.then_some(text.len()));
            for _ in 0..*count {
                writeln!(text, "{line}").unwrap();
            }
        }
        let (path, length) = (directory.path().join("t.jsonl"), text.len() as u64);
        ralph_sys::fs::append(&path, text.as_bytes(), ralph_sys::fs::Durability::Cached).unwrap();
        let start = find_run_start(&claude::PROFILE, &path, length, since_ms);
        (start * 100 / length.max(1), first.is_some_and(|first| start > first as u64))
    }

    /// Whatever the transcript holds, no call of the run is skipped; what is skipped is only a question of speed.
    #[test]
    fn older_calls_are_skipped_and_no_call_of_the_run_is() {
        let (old, close) = (call("2026-03-01T09:00:00Z"), call("2026-03-01T11:55:00Z"));
        let (new, late) = (call("2026-03-01T12:05:00Z"), call("2026-03-01T13:00:00Z"));
        let long = format!(r#"{{"type":"user","content":"{}"}}"#, "x".repeat(500_000));
        let shown = [
            ("empty", search(&[])),
            ("short", search(&[(&old, 1000), (&new, 2)])),
            ("all before the run", search(&[(&old, 40_000)])),
            ("all of the run", search(&[(&new, 40_000)])),
            ("half of each", search(&[(&old, 20_000), (&new, 10_000), (&late, 10_000)])),
            ("out of order", search(&[(&old, 20_000), (&new, 10), (&close, 20_000)])),
            ("long lines", search(&[(&old, 9000), (&long, 9), (&new, 9), (&long, 9)])),
            ("no calls", search(&[("{}", 200_000)])),
        ]
        .map(|(name, (skipped, lost))| format!("{name}: {skipped} % skipped, lost: {lost}"));
        insta::assert_snapshot!(shown.join("\n"), @"
        empty: 0 % skipped, lost: false
        short: 0 % skipped, lost: false
        all before the run: 96 % skipped, lost: false
        all of the run: 0 % skipped, lost: false
        half of each: 46 % skipped, lost: false
        out of order: 46 % skipped, lost: false
        long lines: 10 % skipped, lost: false
        no calls: 0 % skipped, lost: false
        ");
    }
}
