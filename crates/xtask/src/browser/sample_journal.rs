//! Journals whose entries have times of their own, so that the pages of a sample show hours of work.

use crate::disk;
use anyhow::Result;
use ralph_core::record::{FORMAT_VERSION, JournalEntry, RunChange, RunRecord};
use ralph_core::run::RunState;
use ralph_home::journal;
use ralph_home::paths::{RalphHome, RunPaths};

const MINUTE_MS: u64 = 60_000;

/// A run that is written at once, with the times that its entries are given.
pub(super) struct SampleJournal {
    paths: RunPaths,
    state: RunState,
    bytes: Vec<u8>,
    /// The hash of the last line.
    head: String,
    seq: u64,
    at_ms: u64,
}

impl SampleJournal {
    pub(super) fn begin(home: &RalphHome, record: &RunRecord) -> Result<Self> {
        let paths = home.run(&record.id);
        let mut run = serde_json::to_vec_pretty(record)?;
        run.push(b'\n');
        disk::write_with_parents(&paths.run_record(), &run)?;
        let mut begun = Self {
            paths,
            state: RunState::new(record),
            bytes: Vec::new(),
            head: String::new(),
            seq: 0,
            at_ms: record.started_ms,
        };
        begun.after(0, RunChange::Started(Box::new(record.clone())))?;
        Ok(begun)
    }

    /// Adds an entry some minutes after the one before it.
    pub(super) fn after(&mut self, minutes: u64, change: RunChange) -> Result<()> {
        self.at_ms += minutes * MINUTE_MS;
        let mut entry = JournalEntry {
            by: None,
            v: FORMAT_VERSION,
            seq: self.seq,
            at_ms: self.at_ms,
            prev: self.head.clone(),
            iteration: 0,
            after: String::new(),
            change,
        };
        self.state.apply(&entry);
        entry.iteration = self.state.iteration;
        entry.after = journal::hash_bytes(&serde_json::to_vec(&self.state)?);
        let line = journal::encode_entry(&self.paths.journal(), &entry)?;
        self.head = journal::hash_bytes(&line);
        self.seq += 1;
        self.bytes.extend(line);
        Ok(())
    }

    pub(super) fn save(self, goal: &str) -> Result<()> {
        disk::write_file(&self.paths.goal(), goal.as_bytes())?;
        disk::write_file(&self.paths.journal(), &self.bytes)?;
        disk::write_file(&self.paths.count(), format!("{:010}\n", self.state.iteration).as_bytes())
    }

    /// Saves the run with an entry that something other than ralph changed.
    pub(super) fn save_edited(mut self, goal: &str) -> Result<()> {
        const ITERATION: &[u8] = b"\"iteration\":1,";
        let found = self.bytes.windows(ITERATION.len()).position(|part| part == ITERATION);
        if let Some(digit) = found.and_then(|at| self.bytes.get_mut(at + ITERATION.len() - 2)) {
            *digit = b'0';
        }
        self.save(goal)
    }
}
