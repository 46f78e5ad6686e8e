//! Summaries of past runs: goal, end and obstacles, read incrementally from their journals.

use crate::recall_context::RecallContext;
use crate::recall_record::{RecallKind, RecallRecord};
use ralph_core::drive;
use ralph_core::id::RunId;
use ralph_core::record::{
    JournalEntry, ReportedStatus, RunChange, RunRecord, StopOutcome, StopRecord, StopReport,
};
use ralph_core::text;
use ralph_home::journal::{self, JournalDamage};
use ralph_sys::{fs, tail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Bytes of a journal that are read at once; also the maximum length of a line.
const STEP: usize = 4 * 1024 * 1024;
/// The rest of a longer journal is ignored.
const LARGEST_JOURNAL: u64 = 256 * 1024 * 1024;
const LARGEST_GOAL: usize = 32 * 1024;
const LARGEST_HANDOVER: usize = 64 * 1024;
const MOST_REMARKS: usize = 300;
const LONGEST_REMARK: usize = 500;

/// The summary of a run's journal up to `read_to`. Stored in the index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunSummary {
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

impl RunSummary {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Reads on from the last position. Secrets are redacted.
    pub(crate) fn read_on(self, context: &RecallContext, path: &Path) -> Self {
        let mut past = if self.head.is_some() { self } else { Self::empty() };
        let from = past.read_to;
        while past.read_to < LARGEST_JOURNAL {
            let Ok(chunk) = tail::read_lines_from(path, past.read_to, STEP) else { break };
            if chunk.len < past.read_to {
                return Self::empty().read_on(context, path);
            }
            if chunk.end == past.read_to {
                break;
            }
            let head = past.head.clone().unwrap_or_default();
            let read = journal::parse_journal(&chunk.bytes, past.read_to, &head);
            let is_broken = !matches!(read.damage, None | Some(JournalDamage::TornLine));
            if is_broken && from > 0 && past.read_to == from && read.entries.is_empty() {
                return Self::empty().read_on(context, path);
            }
            read.entries
                .iter()
                .chain(&read.untrusted)
                .for_each(|entry| past.add_entry(context, entry));
            past.head = if is_broken { None } else { past.head.map(|_| read.head) };
            past.read_to = chunk.end;
        }
        past
    }

    fn empty() -> Self {
        Self { head: Some(String::new()), ..Self::default() }
    }

    fn add_entry(&mut self, context: &RecallContext, entry: &JournalEntry) {
        self.last_ms = self.last_ms.max(entry.at_ms);
        for remark in self.entry_remarks(context, &entry.change) {
            let remark = safe_line(context, &remark);
            if self.remarks.len() < MOST_REMARKS && !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
    }

    /// The remarks that a journal entry adds.
    fn entry_remarks(&mut self, context: &RecallContext, change: &RunChange) -> Vec<String> {
        match change {
            RunChange::Started(run) => self.set_run(context, run),
            RunChange::Restored(restored) => self.set_run(context, &restored.run),
            RunChange::Cancelled => self.ended = Some("cancelled".to_string()),
            RunChange::Decided(decided) => return self.add_decision(context, decided),
            RunChange::Part(part) => return open_requirements(part.report.as_ref()).collect(),
            RunChange::Asked { question } => return vec![format!("asked a person: {question}")],
            RunChange::Waits { why, .. } => return vec![format!("waited: {why}")],
            RunChange::Denied { tool, what, call } => {
                return vec![format!("denied {tool}, {what}: {call}")];
            }
            RunChange::HintGiven { text, .. } => return vec![format!("a person said: {text}")],
            RunChange::Waived(waiver) => {
                let (what, by, why) = (&waiver.requirement, &waiver.by, &waiver.why);
                return vec![format!("{what} was waived by {by}: {why}")];
            }
            RunChange::Approved(one) => {
                return vec![format!("{} was approved by {}", one.requirement, one.by)];
            }
            RunChange::Disputed(dispute) => {
                return vec![format!("disputed {}: {}", dispute.requirement, dispute.why)];
            }
            RunChange::Accepted(acceptance) => {
                let ended = acceptance.describe_status();
                self.ended = Some(safe_line(context, &ended));
            }
            RunChange::Overridden { how } => return vec![format!("overridden: {how}")],
            RunChange::Drove(drove) => return drive::describe_event(drove).into_iter().collect(),
            RunChange::Trouble { .. }
            | RunChange::Paused
            | RunChange::Interrupted { .. }
            | RunChange::Resumed
            | RunChange::Moved { .. }
            | RunChange::Compacted
            | RunChange::Anchored
            | RunChange::WaiverRevoked { .. }
            | RunChange::Limited(_)
            | RunChange::Stepped(_)
            | RunChange::Recalled { .. }
            | RunChange::Learned { .. } => {}
        }
        Vec::new()
    }

    fn set_run(&mut self, context: &RecallContext, run: &RunRecord) {
        self.project.clone_from(&run.project);
        self.title = safe_line(context, &run.title);
    }

    fn add_decision(&mut self, context: &RecallContext, decided: &StopRecord) -> Vec<String> {
        match decided.outcome {
            StopOutcome::Ended(status) => {
                let ended = format!("{}: {}", status.name(), decided.because);
                self.ended = Some(safe_line(context, &ended));
            }
            StopOutcome::Allowed
            | StopOutcome::Blocked { .. }
            | StopOutcome::Awaited { .. }
            | StopOutcome::HandedOver
            | StopOutcome::Repeated
            | StopOutcome::Orphaned => {}
        }
        let tampering = decided.tampering.iter().map(|what| format!("tampering: {what}"));
        open_requirements(decided.report.as_ref()).chain(tampering).collect()
    }

    /// The records of the run and of its hand-over, if there is one.
    pub(crate) fn records(&self, context: &RecallContext, run: &RunId) -> Vec<RecallRecord> {
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
        let record = |kind, body: &[u8], path: &Path| RecallRecord {
            kind,
            run: Some(run.to_string()),
            project: self.project.clone(),
            at_ms: self.last_ms,
            title: title.clone(),
            body: context.clean_and_redact(body),
            path: path.display().to_string(),
            line: None,
        };
        let mut records = vec![record(RecallKind::Run, body.as_bytes(), &paths.journal())];
        if let Ok(handover) = fs::read_range(&paths.handover(), 0, LARGEST_HANDOVER) {
            records.push(record(RecallKind::Handover, &handover, &paths.handover()));
        }
        records
    }
}

/// The unmet and unknown requirements of a report.
fn open_requirements(report: Option<&StopReport>) -> impl Iterator<Item = String> {
    let lines = report.into_iter().flat_map(|report| &report.lines);
    lines.filter_map(|line| match line.standing {
        ReportedStatus::Unmet | ReportedStatus::Unknown => {
            let first = line.first.as_deref().unwrap_or_default();
            Some(format!("not met: {}: {} {first}", line.name, line.note))
        }
        ReportedStatus::Pending | ReportedStatus::Advisory => None,
    })
}

fn safe_line(context: &RecallContext, text: &str) -> String {
    text::clean_line(&context.clean_and_redact(text.as_bytes()), LONGEST_REMARK)
}
