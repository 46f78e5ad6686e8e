//! How the disputes of a run ended. The journal has no line for it: it follows from what a person and the stops did
//! afterwards.

use crate::run_tally::bounded;
use ralph_core::record::{JournalEntry, RunChange, StopOutcome};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::status::RunStatus;
use serde::{Deserialize, Serialize};

/// A run has few disputes. Further ones are only counted.
const MAX_DISPUTES: usize = 400;

/// How a dispute ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeEnd {
    /// A person waived the requirement, or accepted the work without it.
    Upheld,
    /// The requirement was met later.
    Met,
    /// The run ended while the requirement was disputed.
    Open,
}

impl DisputeEnd {
    pub fn name(self) -> &'static str {
        match self {
            Self::Upheld => "upheld",
            Self::Met => "met",
            Self::Open => "open",
        }
    }
}

/// A requirement that the agent disputed, and how that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeOutcome {
    pub requirement: String,
    /// The number of the journal line with the dispute; `None` if that line was lost.
    pub seq: Option<u64>,
    /// `None` while it is undecided.
    pub end: Option<DisputeEnd>,
    pub ended_ms: Option<u64>,
    /// The person who upheld it.
    pub by: Option<String>,
}

impl DisputeOutcome {
    /// `upheld by ada`, `met later` or `open at the end`; `None` while it is undecided.
    pub fn describe(&self) -> Option<String> {
        Some(match (self.end?, &self.by) {
            (DisputeEnd::Upheld, Some(by)) => format!("upheld by {by}"),
            (DisputeEnd::Upheld, None) => "upheld".to_string(),
            (DisputeEnd::Met, _) => "met later".to_string(),
            (DisputeEnd::Open, _) => "open at the end".to_string(),
        })
    }

    fn finish(&mut self, end: DisputeEnd, at_ms: u64, by: Option<&str>) {
        self.end = Some(end);
        self.ended_ms = Some(at_ms);
        self.by = by.map(bounded);
    }
}

/// The disputes of a run, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisputeOutcomes(pub Vec<DisputeOutcome>);

impl DisputeOutcomes {
    /// The disputes of a journal.
    pub fn from_journal(entries: &[JournalEntry]) -> Self {
        let mut disputes = Self::default();
        let mut ended = None;
        for entry in entries {
            match ended {
                None => ended = disputes.apply(entry),
                Some(status) => disputes.apply_late(status, entry),
            }
        }
        disputes
    }

    /// The latest dispute about a requirement.
    pub fn latest(&self, requirement: &str) -> Option<&DisputeOutcome> {
        self.0.iter().rev().find(|dispute| dispute.requirement == requirement)
    }

    /// The dispute of a journal line.
    pub fn of_line(&self, seq: u64) -> Option<&DisputeOutcome> {
        self.0.iter().find(|dispute| dispute.seq == Some(seq))
    }

    /// Applies an entry, and returns the status that the run ends with.
    fn apply(&mut self, entry: &JournalEntry) -> Option<RunStatus> {
        let at_ms = entry.at_ms;
        let mut ended = None;
        if let RunChange::Restored(restored) = &entry.change {
            self.restore(&restored.state, at_ms);
            if let RunPhase::Ended(status) = restored.state.phase {
                ended = Some(status);
            }
        } else if let RunChange::Disputed(dispute) = &entry.change {
            self.raise(&dispute.requirement, Some(entry.seq));
        } else if let RunChange::Waived(waiver) = &entry.change {
            self.waive(&waiver.requirement, &waiver.by, at_ms);
        } else if let RunChange::WaiverRevoked { requirement } = &entry.change {
            self.revoke_waiver(requirement);
        } else if let RunChange::Decided(decided) = &entry.change
            && decided.outcome != StopOutcome::Repeated
        {
            let report = decided.report.as_ref();
            let is_met =
                |name: &str| report.is_some_and(|report| report.met.iter().any(|met| met == name));
            self.mark_met(is_met, at_ms);
            if let StopOutcome::Ended(status) = decided.outcome {
                ended = Some(status);
            }
        } else if entry.change == RunChange::Cancelled {
            ended = Some(RunStatus::Cancelled);
        } else if let RunChange::Overridden { .. } = &entry.change {
            ended = Some(RunStatus::Overridden);
        }
        if ended.is_some() {
            self.end_run(at_ms);
        }
        ended
    }

    fn apply_late(&mut self, status: RunStatus, entry: &JournalEntry) {
        if let RunChange::Accepted(acceptance) = &entry.change
            && status.is_acceptable()
        {
            self.accept(&acceptance.by, entry.at_ms);
        }
    }

    pub(crate) fn raise(&mut self, requirement: &str, seq: Option<u64>) {
        if self.0.len() < MAX_DISPUTES {
            self.0.push(DisputeOutcome {
                requirement: bounded(requirement),
                seq,
                end: None,
                ended_ms: None,
                by: None,
            });
        }
    }

    pub(crate) fn restore(&mut self, state: &RunState, at_ms: u64) {
        for dispute in &state.disputes {
            self.raise(&dispute.requirement, None);
        }
        for waiver in &state.waivers {
            self.waive(&waiver.requirement, &waiver.by, at_ms);
        }
    }

    pub(crate) fn waive(&mut self, requirement: &str, by: &str, at_ms: u64) {
        for dispute in self.undecided().filter(|dispute| dispute.requirement == requirement) {
            dispute.finish(DisputeEnd::Upheld, at_ms, Some(by));
        }
    }

    /// The person insists on the requirement after all.
    pub(crate) fn revoke_waiver(&mut self, requirement: &str) {
        let is_upheld = |dispute: &&mut DisputeOutcome| {
            dispute.requirement == requirement && dispute.end == Some(DisputeEnd::Upheld)
        };
        for dispute in self.0.iter_mut().filter(is_upheld) {
            (dispute.end, dispute.ended_ms, dispute.by) = (None, None, None);
        }
    }

    pub(crate) fn mark_met(&mut self, is_met: impl Fn(&str) -> bool, at_ms: u64) {
        for dispute in self.undecided() {
            if is_met(&dispute.requirement) {
                dispute.finish(DisputeEnd::Met, at_ms, None);
            }
        }
    }

    pub(crate) fn end_run(&mut self, at_ms: u64) {
        for dispute in self.undecided() {
            dispute.finish(DisputeEnd::Open, at_ms, None);
        }
    }

    /// A person accepted the work of a run that had ended.
    pub(crate) fn accept(&mut self, by: &str, at_ms: u64) {
        let is_open = |dispute: &&mut DisputeOutcome| dispute.end == Some(DisputeEnd::Open);
        for dispute in self.0.iter_mut().filter(is_open) {
            dispute.finish(DisputeEnd::Upheld, at_ms, Some(by));
        }
    }

    fn undecided(&mut self) -> impl Iterator<Item = &mut DisputeOutcome> {
        self.0.iter_mut().filter(|dispute| dispute.end.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DayCache, RunTally};
    use ralph_core::id::RunId;
    use ralph_core::record::{Acceptance, Dispute, RunRecord, StopRecord, StopReport, Waiver};

    fn stop(met: &[&str], ended: Option<&str>) -> RunChange {
        let outcome = match ended {
            Some(status) => serde_json::json!({ "ended": status }),
            None => serde_json::json!({"blocked": {"reason": "not yet"}}),
        };
        let stop = serde_json::json!({
            "rule": "block", "outcome": outcome, "because": "", "took_ms": 1,
        });
        let mut record: StopRecord = serde_json::from_value(stop).unwrap();
        let met = met.iter().map(ToString::to_string).collect();
        record.report = Some(StopReport { met, ..StopReport::default() });
        RunChange::Decided(Box::new(record))
    }

    fn change(word: &str) -> RunChange {
        let (verb, requirement) = word.split_once(' ').unwrap_or((word, ""));
        let requirement = requirement.to_string();
        let by = "ada".to_string();
        match verb {
            "dispute" => RunChange::Disputed(Dispute { requirement, why: String::new() }),
            "waive" => {
                RunChange::Waived(Waiver { requirement, why: String::new(), by, until_ms: 9 })
            }
            "insist" => RunChange::WaiverRevoked { requirement },
            "met" => stop(&[&requirement], None),
            "end" => stop(&[], Some(&requirement)),
            "cancel" => RunChange::Cancelled,
            "accept" => RunChange::Accepted(Acceptance {
                by,
                why: String::new(),
                at_ms: 0,
                was: RunStatus::Green,
            }),
            other => panic!("{other}"),
        }
    }

    fn entry(seq: u64, change: RunChange) -> JournalEntry {
        let (prev, after) = (String::new(), String::new());
        JournalEntry { v: 2, seq, at_ms: 100 + seq, prev, iteration: 0, after, change, by: None }
    }

    /// How the disputes of a run ended, by its journal and by the tally of its lines, which must agree.
    fn outcomes(story: &str) -> String {
        let record = RunRecord::new(RunId::parse("k7f2").unwrap(), "/home/kim/shop".into(), 100);
        let first = RunChange::Started(Box::new(record));
        let changes = std::iter::once(first).chain(story.split(", ").map(change));
        let entries: Vec<_> = (0..).zip(changes).map(|(seq, change)| entry(seq, change)).collect();
        let disputes = DisputeOutcomes::from_journal(&entries);
        let mut tally = RunTally::default();
        let mut days = DayCache::default();
        for entry in &entries {
            tally.add_line(&serde_json::to_vec(entry).unwrap(), &mut days);
        }
        assert_eq!(tally.disputed, disputes, "{story}");
        let show = |dispute: &DisputeOutcome| {
            let at = dispute.ended_ms.map(|at_ms| format!(" @{}", at_ms - 100));
            let what = dispute.describe().unwrap_or_else(|| "undecided".to_string());
            format!("{}: {what}{}", dispute.requirement, at.unwrap_or_default())
        };
        disputes.0.iter().map(show).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_dispute_ends_by_a_person_by_a_stop_or_with_the_run() {
        let cases = [
            ("dispute a", "a: undecided"),
            ("dispute a, waive a", "a: upheld by ada @2"),
            ("dispute a, waive a, met a, end verified", "a: upheld by ada @2"),
            ("dispute a, waive b, end needs_human", "a: open at the end @3"),
            ("dispute a, waive a, insist a", "a: undecided"),
            ("dispute a, waive a, insist a, met a", "a: met later @4"),
            ("dispute a, met b, met a, waive a", "a: met later @3"),
            ("dispute a, dispute b, met b, cancel", "a: open at the end @4; b: met later @3"),
            ("dispute a, met a, dispute a, waive a", "a: met later @2; a: upheld by ada @4"),
            ("dispute a, end green, accept", "a: upheld by ada @3"),
            // Only work that was measured can be accepted.
            ("dispute a, end needs_human, accept", "a: open at the end @2"),
            ("dispute a, met a, end green, accept", "a: met later @2"),
            // An end is final.
            ("dispute a, end exhausted, waive a, met a", "a: open at the end @2"),
        ];
        for (story, expected) in cases {
            assert_eq!(outcomes(story), expected, "{story}");
        }
    }
}
