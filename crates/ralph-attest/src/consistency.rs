//! Whether the results in a statement can have led to its status. A genuine statement never contradicts itself: ralph
//! decides by the same results that it attests.

use crate::run_statement::{AttestedGate, AttestedJudge, AttestedStatus, RunPredicate};
use ralph_core::judge::JudgeKind;
use ralph_core::proof::ProofVerdict;
use ralph_core::status::RunStatus;
use ralph_core::text;

const MAX_NAME_CHARS: usize = 80;
const PASSED: &str = "passed";
const MET: &str = "met";
/// Gates that ran on the base measure the tests, not the work.
const BASE_SITE: &str = "base";

impl RunPredicate {
    /// The first contradiction between the status and the results.
    pub fn find_contradiction(&self) -> Option<String> {
        let status = self.status;
        let is_measured = match self.accepted {
            Some(_) => self.policy.is_some() || !self.gates.is_empty(),
            None => match status {
                AttestedStatus::Claimed => true,
                AttestedStatus::Green => {
                    self.has_required_gate() || self.goal_judges().next().is_some()
                }
                AttestedStatus::Verified => {
                    self.has_required_gate() || self.counting_judges().next().is_some()
                }
            },
        };
        if !is_measured {
            return Some("no required gate has a result".to_string());
        }
        if let Some(accepted) = &self.accepted {
            let was = RunStatus::parse(&accepted.was);
            let is_possible = status == AttestedStatus::Verified
                && matches!(was, Some(RunStatus::Green | RunStatus::NeedsReview));
            return (!is_possible).then(|| "its acceptance does not fit its status".to_string());
        }
        if self.requirements.open > 0 {
            let open = text::count_noun(self.requirements.open, "open requirement");
            return Some(format!("it has {open}"));
        }
        let weakened = |gate: &AttestedGate| {
            status == AttestedStatus::Claimed
                && self.waivers.iter().any(|waiver| waiver.requirement == gate.name)
        };
        let failed = self.required_gates().find(|gate| gate.outcome != PASSED && !weakened(gate));
        if let Some(gate) = failed {
            return Some(format!("gate `{}` did not pass", clean_name(&gate.name)));
        }
        let open_judge = self.judges.iter().find(|judge| {
            let is_waived = self.waivers.iter().any(|waiver| waiver.requirement == judge.name);
            judge.required
                && judge.outcome != MET
                && !(status == AttestedStatus::Claimed && is_waived)
        });
        if let Some(judge) = open_judge {
            return Some(format!("judge `{}` did not say met", clean_name(&judge.name)));
        }
        if status == AttestedStatus::Claimed {
            return None;
        }
        if self.tampered {
            return Some("files of ralph were edited during the run".to_string());
        }
        let is_required = |name: &str| self.required_gates().any(|gate| gate.name == name);
        if let Some(waiver) = self.waivers.iter().find(|waiver| is_required(&waiver.requirement)) {
            return Some(format!("gate `{}` was waived", clean_name(&waiver.requirement)));
        }
        let proved = self.proof.as_ref().map(|proof| proof.verdict);
        let fits = match status {
            AttestedStatus::Verified => match proved {
                None | Some(ProofVerdict::Verified) => true,
                Some(ProofVerdict::Green) => self.counting_judges().next().is_some(),
                Some(ProofVerdict::NeedsReview | ProofVerdict::Failed) => false,
            },
            // A goal that only a judge confirms ends like this, whatever the tests show.
            AttestedStatus::Green => match proved {
                Some(ProofVerdict::Green) => true,
                None | Some(ProofVerdict::Verified) => self.goal_judges().next().is_some(),
                Some(ProofVerdict::NeedsReview | ProofVerdict::Failed) => false,
            },
            AttestedStatus::Claimed => true,
        };
        (!fits).then(|| "the proof has another verdict".to_string())
    }

    fn has_required_gate(&self) -> bool {
        self.required_gates().next().is_some()
    }

    /// The judges that the goal rests on: required ones of kind `goal` that said `met`.
    fn goal_judges(&self) -> impl Iterator<Item = &AttestedJudge> {
        let is_met = |judge: &&AttestedJudge| {
            judge.required && judge.kind == JudgeKind::Goal && judge.outcome == MET
        };
        self.judges.iter().filter(is_met)
    }

    /// The judges without which the run would not be `verified`.
    pub(crate) fn decisive_judges(&self) -> impl Iterator<Item = &AttestedJudge> {
        let is_proved_green =
            self.proof.as_ref().is_some_and(|proof| proof.verdict == ProofVerdict::Green);
        let is_decisive = is_proved_green || !self.has_required_gate();
        self.counting_judges().filter(move |_| is_decisive)
    }

    /// Those of them that may make a run `verified`.
    fn counting_judges(&self) -> impl Iterator<Item = &AttestedJudge> {
        self.goal_judges().filter(|judge| judge.counts)
    }

    fn required_gates(&self) -> impl Iterator<Item = &AttestedGate> {
        self.gates.iter().filter(|gate| gate.required && gate.site != BASE_SITE)
    }
}

fn clean_name(name: &str) -> String {
    text::clean_line(name, MAX_NAME_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_statement::{AttestedAcceptance, AttestedWaiver};
    use serde_json::json;

    fn predicate(status: &str, verdict: &str) -> RunPredicate {
        let gate = |name: &str, site: &str, required: bool, outcome: &str| json!({"name": name, "site": site, "required": required, "outcome": outcome, "findings": 0, "key": "k"});
        let gates = [
            gate("tests", "clean", true, "passed"),
            gate("tests", "base", true, "failed"),
            gate("style", "tree", false, "failed"),
        ];
        let limits = json!({"max_iterations": 25, "max_duration_ms": null, "max_cost_micro_usd": null, "stuck_after": 3, "handover_at_permille": 800});
        let proof = json!({"verdict": verdict, "oldTestsHeld": 1, "testsFailingWithoutChange": 1, "oldTestsBroken": 0, "broken": [], "doubts": [], "removed": [], "allowedToChange": []});
        let predicate = json!({
            "run": "k7f2", "status": status, "startedAt": "", "endedAt": "", "ralphVersion": "",
            "goal": {"title": "", "bytes": 0},
            "requirements": {"rule": "verified", "total": 3, "open": 0, "met": []},
            "gates": gates, "proof": proof, "waivers": [], "disputes": [], "tampered": false,
            "limits": limits, "iterations": 1, "journal": {"entries": 1, "head": ""},
        });
        serde_json::from_value(predicate).unwrap()
    }

    fn waiver(requirement: &str) -> AttestedWaiver {
        let text = String::new;
        AttestedWaiver { requirement: requirement.into(), why: text(), by: text(), until: text() }
    }

    fn acceptance(was: &str) -> AttestedAcceptance {
        let text = String::new;
        AttestedAcceptance { by: text(), why: text(), at: text(), was: was.into() }
    }

    fn judge(kind: JudgeKind, counts: bool, outcome: &str) -> AttestedJudge {
        AttestedJudge {
            name: "review".into(),
            kind,
            required: true,
            counts,
            outcome: outcome.into(),
            model: None,
            prompt_hash: String::new(),
        }
    }

    /// Every way in which results can contradict a status, and none that an honest run has.
    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn a_status_needs_results_that_lead_to_it() {
        type Change = fn(&mut RunPredicate);
        let cases: [(&str, &str, &str, Change); 27] = [
            ("as it is", "verified", "verified", |_| {}),
            ("without proof", "verified", "verified", |one| one.proof = None),
            ("green", "green", "green", |_| {}),
            ("claimed", "claimed", "failed", |_| {}),
            ("gate failed", "verified", "verified", |one| one.gates[0].outcome = "failed".into()),
            ("no result", "green", "green", |one| one.gates[0].outcome = "timeout".into()),
            ("no gates", "verified", "verified", |one| one.gates.clear()),
            ("none required", "green", "green", |one| drop(one.gates.remove(0))),
            ("accepted, no gates", "verified", "needs_review", |one| {
                one.accepted = Some(acceptance("needs_review"));
                one.gates.clear();
            }),
            ("open", "verified", "verified", |one| one.requirements.open = 2),
            ("edited", "verified", "verified", |one| one.tampered = true),
            ("gate waived", "verified", "verified", |one| one.waivers = vec![waiver("tests")]),
            ("other waived", "verified", "verified", |one| one.waivers = vec![waiver("style")]),
            ("waived, claimed", "claimed", "failed", |one| {
                one.gates[0].outcome = "failed".into();
                one.waivers = vec![waiver("tests")];
            }),
            ("proof green", "verified", "green", |_| {}),
            ("accepted", "verified", "needs_review", |one| {
                one.accepted = Some(acceptance("needs_review"));
                one.requirements.open = 1;
            }),
            ("accepted, green", "green", "green", |one| one.accepted = Some(acceptance("green"))),
            ("accepted, stuck", "verified", "failed", |one| {
                one.accepted = Some(acceptance("stuck"));
            }),
            ("counted judge", "verified", "green", |one| {
                one.judges = vec![judge(JudgeKind::Goal, true, "met")];
            }),
            ("counted judge, no gates, no proof", "verified", "green", |one| {
                one.judges = vec![judge(JudgeKind::Goal, true, "met")];
                (one.proof, one.gates) = (None, Vec::new());
            }),
            ("counted judge, old tests fail", "verified", "needs_review", |one| {
                one.judges = vec![judge(JudgeKind::Goal, true, "met")];
            }),
            ("judge that does not count", "verified", "green", |one| {
                one.judges = vec![judge(JudgeKind::Goal, false, "met")];
            }),
            ("judge of another kind", "verified", "green", |one| {
                one.judges = vec![judge(JudgeKind::Prompt, true, "met")];
            }),
            ("advisory judge", "verified", "green", |one| {
                let required = false;
                one.judges =
                    vec![AttestedJudge { required, ..judge(JudgeKind::Goal, true, "met") }];
            }),
            ("judge says unmet", "verified", "verified", |one| {
                one.judges = vec![judge(JudgeKind::Prompt, false, "unmet")];
            }),
            ("judged only", "green", "verified", |one| {
                one.judges = vec![judge(JudgeKind::Goal, false, "met")];
                one.gates.clear();
            }),
            ("green, proved", "green", "verified", |_| {}),
        ];
        let mut found = String::new();
        for (name, status, verdict, change) in cases {
            let mut predicate = predicate(status, verdict);
            change(&mut predicate);
            let contradiction = predicate.find_contradiction();
            found.push_str(&format!("{name}: {}\n", contradiction.as_deref().unwrap_or("-")));
        }
        insta::assert_snapshot!(found, @r"
        as it is: -
        without proof: -
        green: -
        claimed: -
        gate failed: gate `tests` did not pass
        no result: gate `tests` did not pass
        no gates: no required gate has a result
        none required: no required gate has a result
        accepted, no gates: no required gate has a result
        open: it has 2 open requirements
        edited: files of ralph were edited during the run
        gate waived: gate `tests` was waived
        other waived: -
        waived, claimed: -
        proof green: the proof has another verdict
        accepted: -
        accepted, green: its acceptance does not fit its status
        accepted, stuck: its acceptance does not fit its status
        counted judge: -
        counted judge, no gates, no proof: -
        counted judge, old tests fail: the proof has another verdict
        judge that does not count: the proof has another verdict
        judge of another kind: the proof has another verdict
        advisory judge: the proof has another verdict
        judge says unmet: judge `review` did not say met
        judged only: -
        green, proved: the proof has another verdict
        ");
    }
}
