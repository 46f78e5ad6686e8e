//! Summaries of past runs: goal, end and obstacles, read incrementally from their journals.

use crate::ground::Ground;
use crate::record::{Kind, Record};
use ralph_core::drive;
use ralph_core::id::RunId;
use ralph_core::record::{Change, Decided, Entry, Known, Outcome, Report, Run};
use ralph_core::text;
use ralph_home::journal::{self, Break};
use ralph_sys::{fs, tail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Bytes of a journal that are read at once; also the maximum length of a line.
const STEP: usize = 4 * 1024 * 1024;
/// The rest of a longer journal is ignored.
const LARGEST_JOURNAL: u64 = 256 * 1024 * 1024;
const LARGEST_GOAL: usize = 32 * 1024;
const LARGEST_HANDOFF: usize = 64 * 1024;
const MOST_REMARKS: usize = 300;
const LONGEST_REMARK: usize = 500;

/// The summary of a run's journal up to `read_to`. Stored in the index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Past {
    project: String,
    title: String,
    last_ms: u64,
    ended: Option<String>,
    /// Obstacles, without duplicates.
    remarks: Vec<String>,
    /// The offset of the next line.
    read_to: u64,
    /// The hash of the last line read; `None` if the chain is broken, in which case the journal is read from the start
    /// each time.
    head: Option<String>,
}

impl Past {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Reads on from the last position. Secrets are redacted.
    pub(crate) fn follow(self, context: &Ground, path: &Path) -> Self {
        let mut past = if self.head.is_some() { self } else { Self::anew() };
        let from = past.read_to;
        while past.read_to < LARGEST_JOURNAL {
            let Ok(chunk) = tail::forward(path, past.read_to, STEP) else { break };
            if chunk.len < past.read_to {
                return Self::anew().follow(context, path);
            }
            if chunk.end == past.read_to {
                break;
            }
            let head = past.head.clone().unwrap_or_default();
            let read = journal::parse(&chunk.bytes, past.read_to, &head);
            let is_broken = matches!(read.broken, Some(Break::Chain { .. }));
            if is_broken && from > 0 && past.read_to == from && read.entries.is_empty() {
                return Self::anew().follow(context, path);
            }
            read.entries.iter().chain(&read.beyond).for_each(|entry| past.learn(context, entry));
            past.head = if is_broken { None } else { past.head.map(|_| read.head) };
            past.read_to = chunk.end;
        }
        past
    }

    fn anew() -> Self {
        Self { head: Some(String::new()), ..Self::default() }
    }

    fn learn(&mut self, context: &Ground, entry: &Entry) {
        self.last_ms = self.last_ms.max(entry.at_ms);
        for remark in self.told(context, &entry.change) {
            let remark = safe_line(context, &remark);
            if self.remarks.len() < MOST_REMARKS && !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
    }

    /// The remarks that a journal entry adds.
    fn told(&mut self, context: &Ground, change: &Change) -> Vec<String> {
        match change {
            Change::Started(run) => self.begin(context, run),
            Change::Restored(restored) => self.begin(context, &restored.run),
            Change::Cancelled => self.ended = Some("cancelled".to_string()),
            Change::Decided(decided) => return self.decided(context, decided),
            Change::Part(part) => return open(part.report.as_ref()).collect(),
            Change::Asked { question } => return vec![format!("asked a person: {question}")],
            Change::Waits { why, .. } => return vec![format!("waited: {why}")],
            Change::Denied { tool, what, call } => {
                return vec![format!("denied {tool}, {what}: {call}")];
            }
            Change::Told { text } => return vec![format!("a person said: {text}")],
            Change::Waived(waiver) => {
                let (what, by, why) = (&waiver.requirement, &waiver.by, &waiver.why);
                return vec![format!("{what} was waived by {by}: {why}")];
            }
            Change::Disputed(dispute) => {
                return vec![format!("disputed {}: {}", dispute.requirement, dispute.why)];
            }
            Change::Overridden { how } => return vec![format!("overridden: {how}")],
            Change::Drove(drove) => return drive::remark(drove).into_iter().collect(),
            Change::Trouble { .. }
            | Change::Paused
            | Change::Interrupted { .. }
            | Change::Resumed
            | Change::Moved { .. }
            | Change::Compacted
            | Change::Anchored
            | Change::Insisted { .. }
            | Change::Limited(_)
            | Change::Stepped(_)
            | Change::Recalled { .. }
            | Change::Learned { .. } => {}
        }
        Vec::new()
    }

    fn begin(&mut self, context: &Ground, run: &Run) {
        self.project.clone_from(&run.project);
        self.title = safe_line(context, &run.title);
    }

    fn decided(&mut self, context: &Ground, decided: &Decided) -> Vec<String> {
        match decided.outcome {
            Outcome::Ended(status) => {
                let ended = format!("{}: {}", status.name(), decided.because);
                self.ended = Some(safe_line(context, &ended));
            }
            Outcome::Allowed
            | Outcome::Blocked { .. }
            | Outcome::Awaited { .. }
            | Outcome::HandedOver
            | Outcome::Repeated
            | Outcome::Orphaned => {}
        }
        let tampering = decided.tampering.iter().map(|what| format!("tampering: {what}"));
        open(decided.report.as_ref()).chain(tampering).collect()
    }

    /// The records of the run and of its handoff, if there is one.
    pub(crate) fn records(&self, context: &Ground, run: &RunId) -> Vec<Record> {
        let paths = context.home.run(run);
        let goal = fs::read_range(&paths.goal(), 0, LARGEST_GOAL).unwrap_or_default();
        let mut body = format!("{}\n", String::from_utf8_lossy(&goal).trim_end());
        if let Some(ended) = &self.ended {
            body.push_str(&format!("{ended}\n"));
        }
        for remark in &self.remarks {
            body.push_str(&format!("{remark}\n"));
        }
        let title = if self.title.is_empty() { format!("run {run}") } else { self.title.clone() };
        let record = |kind, body: &[u8], path: &Path| Record {
            kind,
            run: Some(run.to_string()),
            project: self.project.clone(),
            at_ms: self.last_ms,
            title: title.clone(),
            body: context.safe(body),
            path: path.display().to_string(),
            line: None,
        };
        let mut records = vec![record(Kind::Run, body.as_bytes(), &paths.journal())];
        if let Ok(handoff) = fs::read_range(&paths.handoff(), 0, LARGEST_HANDOFF) {
            records.push(record(Kind::Handoff, &handoff, &paths.handoff()));
        }
        records
    }
}

/// The unmet and unknown requirements of a report.
fn open(report: Option<&Report>) -> impl Iterator<Item = String> {
    let lines = report.into_iter().flat_map(|report| &report.lines);
    lines.filter_map(|line| match line.standing {
        Known::Unmet | Known::Unknown => {
            let first = line.first.as_deref().unwrap_or_default();
            Some(format!("not met: {}: {} {first}", line.name, line.note))
        }
        Known::Pending | Known::Advisory => None,
    })
}

fn safe_line(context: &Ground, text: &str) -> String {
    text::line(&context.safe(text.as_bytes()), LONGEST_REMARK)
}
