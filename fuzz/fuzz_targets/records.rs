//! Journals: entries survive a round trip, a truncated journal keeps its complete lines, and replay is a fold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ralph_core::record::{JournalEntry, RunChange, RunRecord};
use ralph_core::run::RunState;
use ralph_home::journal::{self, JournalDamage};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    as_found(data);
    let mut entries = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        if let Ok(run) = serde_json::from_slice::<RunRecord>(line) {
            survives(&run);
            survives(&RunState::new(&run));
        }
        if let Ok(state) = serde_json::from_slice::<RunState>(line) {
            survives(&state);
            assert!(state.elapsed_ms(u64::MAX) >= state.elapsed_ms(0));
        }
        if let Ok(entry) = serde_json::from_slice::<JournalEntry>(line) {
            entries.push(entry);
        } else if let Ok(change) = serde_json::from_slice::<RunChange>(line) {
            let prev = String::new();
            entries.push(JournalEntry {
                v: 1,
                seq: 0,
                at_ms: 0,
                prev,
                iteration: 0,
                after: String::new(),
                by: None,
                change,
            });
        }
    }
    let (bytes, ends) = chain(&mut entries);
    cut_off(&bytes, &ends, data.len());
    replayed(&entries);
});

fn as_found(data: &[u8]) {
    let read = journal::parse_journal(data, 0, "");
    let end = usize::try_from(read.end).unwrap();
    let again = journal::parse_journal(&data[..end], 0, "");
    assert_eq!((again.entries, again.end, again.head), (read.entries, read.end, read.head));
    assert_eq!(again.damage, None);
    assert_eq!(read.damage.is_none(), end == data.len());
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let bytes = serde_json::to_vec(value).unwrap();
    assert_eq!(&serde_json::from_slice::<T>(&bytes).unwrap(), value);
}

/// The entries as a journal, and the end offset of each line.
fn chain(entries: &mut [JournalEntry]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends, mut head) = (Vec::new(), Vec::new(), String::new());
    for (seq, entry) in (0..).zip(entries) {
        entry.v = 1;
        entry.seq = seq;
        entry.prev = head;
        let line = journal::encode_entry(Path::new("journal.jsonl"), entry).unwrap();
        head = journal::hash_bytes(&line);
        bytes.extend(line);
        ends.push(bytes.len());
    }
    let read = journal::parse_journal(&bytes, 0, "");
    assert_eq!((read.damage, read.head), (None, head));
    (bytes, ends)
}

fn cut_off(bytes: &[u8], ends: &[usize], anywhere: usize) {
    let kept = anywhere % (bytes.len() + 1);
    let read = journal::parse_journal(&bytes[..kept], 0, "");
    let whole = ends.iter().filter(|end| **end <= kept).count();
    assert_eq!(read.entries.len(), whole);
    let is_torn = whole.checked_sub(1).map_or(0, |last| ends[last]) < kept;
    assert_eq!(read.damage, is_torn.then_some(JournalDamage::TornLine));
}

fn replayed(entries: &[JournalEntry]) {
    let Some((run, whole)) = RunState::replay(entries) else {
        return;
    };
    survives(&run);
    survives(&whole);
    let (_, mut state) = RunState::replay(&entries[..1]).unwrap();
    for entry in &entries[1..] {
        let before = state.iteration;
        state.apply(entry);
        assert!(state.iteration >= before && state.iteration - before <= 1);
        assert_eq!(state.seq, entry.seq + 1);
        assert!(state.last_seen_ms >= entry.at_ms);
    }
    assert_eq!(state, whole);
}
