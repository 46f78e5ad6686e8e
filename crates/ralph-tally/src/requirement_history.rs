//! How often each requirement of a run was open, and when it was met.

use crate::journal_line::{OutcomeLine, ReportSummary};
use ralph_core::proof_summary::PROOF_REQUIREMENT;
use ralph_core::record::ReportedStatus;
use serde::{Deserialize, Serialize};

/// A run has tens of requirements. Further ones are not counted.
const MAX_REQUIREMENTS: usize = 400;
const MAX_NAME_BYTES: usize = 300;

/// One requirement that was open at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequirementHistory {
    pub name: String,
    pub stage: String,
    /// How many stops were held while it was open.
    pub held_stops: u32,
    /// At how many stops it was open.
    pub open_stops: u32,
    pub first_open_ms: u64,
    /// When it was met last; `None` while it is open.
    pub met_ms: Option<u64>,
    pub waived: bool,
    pub disputed: bool,
    pub findings_max: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequirementHistories(pub Vec<RequirementHistory>);

impl RequirementHistories {
    pub(crate) fn add_report(
        &mut self,
        report: &ReportSummary<'_>,
        outcome: &OutcomeLine,
        at_ms: u64,
    ) {
        let is_held = matches!(outcome, OutcomeLine::Blocked(_) | OutcomeLine::HandedOver);
        for line in &report.lines {
            let is_open = match line.standing {
                ReportedStatus::Unmet | ReportedStatus::Unknown => true,
                // A gate that still runs holds nothing, and an advisory requirement never does.
                ReportedStatus::Pending | ReportedStatus::Advisory => false,
            };
            if is_open && let Some(known) = self.open(line.name.as_str(), at_ms, is_held) {
                if known.stage.is_empty() {
                    line.stage.as_str().clone_into(&mut known.stage);
                }
                known.findings_max = known.findings_max.max(line.findings);
            }
        }
        for name in &report.also_open {
            self.open(name.as_str(), at_ms, is_held);
        }
        let is_met = |name: &str| report.met.iter().any(|met| met.as_str() == name);
        for known in self.0.iter_mut().filter(|known| known.met_ms.is_none()) {
            if is_met(&known.name) {
                known.met_ms = Some(at_ms);
            }
        }
    }

    /// A proof is a requirement in the report of a stop only where it is open.
    pub(crate) fn mark_proved(&mut self, report: &ReportSummary<'_>, at_ms: u64) {
        let is_open = report.lines.iter().any(|line| line.name.as_str() == PROOF_REQUIREMENT);
        let known = self.0.iter_mut().find(|known| known.name == PROOF_REQUIREMENT);
        if let Some(known) = known.filter(|known| known.met_ms.is_none() && !is_open) {
            known.met_ms = Some(at_ms);
        }
    }

    fn open(&mut self, name: &str, at_ms: u64, is_held: bool) -> Option<&mut RequirementHistory> {
        let known = self.find_or_add(name, at_ms)?;
        known.met_ms = None;
        known.open_stops = known.open_stops.saturating_add(1);
        known.held_stops = known.held_stops.saturating_add(u32::from(is_held));
        Some(known)
    }

    pub(crate) fn mark_waived(&mut self, name: &str, at_ms: u64) {
        if let Some(known) = self.find_or_add(name, at_ms) {
            known.waived = true;
        }
    }

    pub(crate) fn mark_disputed(&mut self, name: &str, at_ms: u64) {
        if let Some(known) = self.find_or_add(name, at_ms) {
            known.disputed = true;
        }
    }

    fn find_or_add(&mut self, name: &str, at_ms: u64) -> Option<&mut RequirementHistory> {
        let at = self.0.iter().position(|known| known.name == name);
        if at.is_none() && (self.0.len() >= MAX_REQUIREMENTS || name.len() > MAX_NAME_BYTES) {
            return None;
        }
        let at = at.unwrap_or_else(|| {
            let name = name.to_string();
            let first = RequirementHistory { name, first_open_ms: at_ms, ..Default::default() };
            self.0.push(first);
            self.0.len() - 1
        });
        self.0.get_mut(at)
    }
}

#[cfg(test)]
mod tests {
    use crate::day_tally::DayCache;
    use crate::run_tally::RunTally;

    /// The report of a stop lists a proof only where it is open.
    #[test]
    fn a_proof_that_holds_is_met() {
        let mut tally = RunTally::default();
        let mut days = DayCache::default();
        let mut met = Vec::new();
        for (seq, name, verdict) in [(1, "proof", "green"), (2, "review", "verified")] {
            let line = format!(
                r#"{{"v":2,"seq":{seq},"at_ms":{seq}000,"prev":"","iteration":{seq},"change":{{"decided":{{"rule":"block","outcome":{{"blocked":{{"reason":""}}}},"because":"","took_ms":1,"proof":{{"verdict":"{verdict}"}},"report":{{"total":2,"unmet":1,"unknown":0,"failures":"0","lines":[{{"name":"{name}","stage":"correctness","standing":"unmet","note":""}}],"met":["tests"]}}}}}}}}"#
            );
            tally.add_line(line.as_bytes(), &mut days);
            let proof = tally.requirements.0.iter().find(|known| known.name == "proof").unwrap();
            met.push((proof.met_ms, proof.open_stops));
        }
        assert_eq!(met, [(None, 1), (Some(2000), 1)]);
    }
}
