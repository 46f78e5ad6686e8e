//! Rows `verified` to `block`, for a session that a run owns.

use super::{
    StopCase, StopDecision, allow, block, current_usage, driven_rows, end, judge_rows, proof_rows,
};
use crate::approval;
use crate::digest64::Digest64;
use crate::ending::NO_RESULT_TWICE;
use crate::facts::{BlockCap, StopDriver, StopEvidence, TreeIdentity};
use crate::limits::RunLimits;
use crate::policy::OnTampering;
use crate::reason::{self, HeldStop, ReasonContext, ReasonSize};
use crate::record::{
    DecisionRule, ReportLine, ReportedStatus, RunOrigin, RunRecord, StopOutcome, StopReport, Waiver,
};
use crate::requirement::{
    EvidenceKind, OLD_FAILURES_REQUIREMENT, PASSING_CHECKS_REQUIREMENT, PendingKind, PendingReason,
    RUNNER_DETECTION_REQUIREMENT, Requirement, RequirementStatus, TEST_CHANGES_REQUIREMENT,
};
use crate::requirement_tally::RequirementTally;
use crate::run::RunState;
use crate::status::RunStatus;
use crate::text;
use crate::units;
use crate::verdict::Verdict;
use crate::waiver;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Recorded for a wait with a tree that cannot be identified, so that the next wait with such a tree is charged. No tree
/// has this digest, except by chance.
const UNKNOWN_TREE: Digest64 = Digest64(u64::MAX);

/// What the runner waits for before it evaluates everything again.
const AGENT_EXIT: &str = "the end of the agent's process";

/// How many unmet requirements the reason of a stuck run names.
const MAX_NAMED_UNMET: usize = 3;

/// One stop of a run, with everything known about it.
#[derive(Clone, Copy)]
pub(super) struct RunStop<'a> {
    pub case: &'a StopCase<'a>,
    pub run: &'a RunRecord,
    pub state: &'a RunState,
    pub evidence: &'a StopEvidence,
    pub report: &'a StopReport,
    pub context: &'a ReasonContext<'a>,
}

pub(super) fn conclude(stop: &RunStop<'_>) -> StopDecision {
    all_met(stop)
        .map(|met| driven_rows::final_look(stop, met))
        .or_else(|| judge_rows::proof_first(stop))
        .or_else(|| tampered(stop))
        .or_else(|| judge_rows::impossible_goal(stop))
        .or_else(|| disputed(stop))
        .or_else(|| gate_broken(stop))
        .or_else(|| limit(stop))
        .or_else(|| awaits_approval(stop))
        .or_else(|| stalled(stop))
        .or_else(|| driven_rows::hand_over(stop))
        .unwrap_or_else(|| hold_agent(stop))
}

impl<'a> RunStop<'a> {
    pub(super) fn end(
        &self,
        rule: DecisionRule,
        status: RunStatus,
        because: String,
    ) -> StopDecision {
        end(rule, status, self.run, self.limits(), because)
    }

    pub(super) fn limits(&self) -> &'a RunLimits {
        self.state.limits(self.run)
    }

    pub(super) fn required(&self) -> impl Iterator<Item = &'a Requirement> {
        self.evidence.requirements.iter().filter(|one| one.is_required())
    }

    pub(super) fn open_count(&self) -> usize {
        self.required().filter(|one| one.is_open()).count()
    }

    /// `2 not met, 1 without a result, 1 pending`
    pub(super) fn describe_open(&self) -> String {
        let tally = RequirementTally::count(&self.evidence.requirements);
        let counts = [
            (tally.unmet, "not met"),
            (tally.unknown, "without a result"),
            (tally.pending, "pending"),
        ];
        let parts = counts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        let open = if parts.is_empty() { "0 not met".to_string() } else { parts.join(", ") };
        format!("{open}{}", self.waived_suffix())
    }

    /// `` on lint, tests and 2 more``; empty if nothing is known to be unmet.
    fn named_unmet(&self) -> String {
        let redactor = self.context.redactor;
        let unmet = self.required().filter(|one| one.is_unmet());
        let mut names: Vec<_> = unmet.map(|one| reason::safe_name(one, redactor)).collect();
        let more = names.len().saturating_sub(MAX_NAMED_UNMET);
        names.truncate(MAX_NAMED_UNMET);
        match (names.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!(" on {}", names.join(", ")),
            (false, more) => format!(" on {} and {more} more", names.join(", ")),
        }
    }

    fn waived_suffix(&self) -> String {
        match self.waived_count() {
            0 => String::new(),
            waived => format!(", {waived} waived by a person"),
        }
    }

    fn waived_count(&self) -> usize {
        self.waived().count()
    }

    fn waived(&self) -> impl Iterator<Item = (&'a Requirement, &'a Waiver)> {
        let (waivers, now_ms) = (&self.state.waivers, self.case.facts.now_ms);
        let all = self.evidence.requirements.iter();
        all.filter_map(move |one| Some((one, waiver::weakening_waiver(one, waivers, now_ms)?)))
    }

    /// ``, but lint is waived by kim for another 2 h: the service is down (and 1 more)``; empty without a waiver.
    fn named_waivers(&self, conjunction: &str) -> String {
        let redactor = self.context.redactor;
        let mut all = self.waived().map(|(one, waiver)| {
            let how = waiver::describe_waiver(waiver, self.case.facts.now_ms);
            format!("{} is {}", reason::safe_name(one, redactor), redactor.redact(&how))
        });
        match (all.next(), all.count()) {
            (None, _) => String::new(),
            (Some(first), 0) => format!("{conjunction}{first}"),
            (Some(first), more) => format!("{conjunction}{first} (and {more} more)"),
        }
    }

    /// `; 2 changes to tests that a person may want to review (test_cart.py:3, test_cart.py:9)`,
    /// `; 1 old failure remains: test_round`
    fn notes_suffix(&self) -> String {
        const SHOWN: usize = 3;
        let all = self.evidence.requirements.iter();
        let is_note = |one: &&Requirement| {
            let notes = [
                TEST_CHANGES_REQUIREMENT,
                RUNNER_DETECTION_REQUIREMENT,
                OLD_FAILURES_REQUIREMENT,
                PASSING_CHECKS_REQUIREMENT,
            ];
            notes.contains(&one.name.as_str())
        };
        let changes = all.filter(is_note);
        let summaries = changes.filter_map(|one| match &one.status {
            RequirementStatus::Unmet(failure) => {
                let places = failure.findings.iter().filter_map(|finding| finding.place.as_ref());
                let mut places: Vec<String> = places
                    .map(|place| reason::describe_place(place, self.context.redactor))
                    .collect();
                places.dedup();
                let has_more = places.len() > SHOWN;
                places.truncate(SHOWN);
                places.extend(has_more.then(|| "…".to_string()));
                let where_they_are = match places.as_slice() {
                    [] => String::new(),
                    places => format!(" ({})", places.join(", ")),
                };
                let summary = reason::safe_line(&failure.summary, 300, self.context.redactor);
                Some(format!("; {summary}{where_they_are}"))
            }
            RequirementStatus::Met(_)
            | RequirementStatus::Unknown(_)
            | RequirementStatus::Pending(_) => None,
        });
        summaries.collect()
    }

    /// ``; test-removed: test_old is waived by kim for another 2 h: asked for``
    fn waived_findings_suffix(&self) -> String {
        let (redactor, now_ms) = (self.context.redactor, self.case.facts.now_ms);
        let waivers = waiver::finding_waivers(&self.state.waivers, now_ms);
        let lines = waivers.map(|one| {
            let line = format!("{} is {}", one.requirement, waiver::describe_waiver(one, now_ms));
            format!("; {}", reason::safe_line(&line, 300, redactor))
        });
        lines.collect()
    }

    pub(super) fn tampering(&self) -> Option<&'a str> {
        self.case.facts.tampering.as_deref().or(self.evidence.tampering.as_deref())
    }

    pub(super) fn is_context_nearly_full(&self) -> bool {
        let permille = self.case.facts.context_permille.unwrap_or(0);
        permille >= self.limits().handover_at_permille
    }

    /// The host's cap, if it is reached: the host would override another block and report the turn as a success.
    pub(super) fn reached_block_cap(&self) -> Option<u32> {
        match self.case.facts.block_cap {
            BlockCap::At(most) => (self.case.facts.consecutive_blocks >= most).then_some(most),
            BlockCap::None => None,
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.state.elapsed_ms(self.case.facts.now_ms)
    }

    /// Whether the stop was under way when the last one was answered: the agent could not have tried anything since.
    fn was_under_way(&self) -> bool {
        let facts = self.case.facts;
        let is_earlier =
            facts.arrived_ms.zip(self.state.answered_ms).is_some_and(|(it, answer)| it <= answer);
        // A runner delivers each stop once, from one process.
        is_earlier && facts.driver == StopDriver::Person
    }

    /// Digest of the tree and the failures. `None` while a gate is running, because its result will change it, and for a
    /// stop before which the agent cannot have tried anything new.
    pub(super) fn state_digest(&self) -> Option<Digest64> {
        match self.evidence.tree {
            _ if self.was_under_way() => None,
            TreeIdentity::Known(_) if self.required().any(Requirement::is_running) => None,
            TreeIdentity::Known(tree) => Some(self.report.failures.combine(tree)),
            TreeIdentity::Unknown => None,
        }
    }
}

fn all_met(stop: &RunStop<'_>) -> Option<StopDecision> {
    let count = stop.required().count();
    let is_bare = count == 0 && stop.waived_count() == 0;
    if stop.open_count() > 0 || is_bare || stop.tampering().is_some() {
        return None;
    }
    let claimed =
        stop.required().filter(|one| one.status == RequirementStatus::Met(EvidenceKind::Claimed));
    let claimed = claimed.count();
    let noun =
        if count == 1 { "1 requirement is" } else { &format!("all {count} requirements are") };
    let iterations = text::count_noun(stop.state.iteration, "iteration");
    let how = format!("after {iterations} and {}", units::format_duration(stop.elapsed_ms()));
    let backed = stop
        .required()
        .filter(|one| one.status == RequirementStatus::Met(EvidenceKind::Backed))
        .count();
    let backed = match backed {
        0 => String::new(),
        backed => format!(", {backed} of them by claims backed by passing gates"),
    };
    let judged = judge_rows::judged_suffix(stop);
    let how = format!("{how}{judged}");
    let advice = judge_rows::advice_suffix(stop);
    let notes = format!("{}{}{advice}", stop.waived_findings_suffix(), stop.notes_suffix());
    Some(match (stop.state.tampered, claimed) {
        (true, _) => {
            let because = format!(
                "{noun} met {how}{}, but ralph's own files were changed meanwhile{advice}",
                stop.waived_suffix()
            );
            stop.end(DecisionRule::Tampered, RunStatus::NeedsReview, because)
        }
        // With every requirement waived, nothing was measured.
        (false, 0) if count == 0 => {
            let because =
                format!("no requirement is left {how}{}{advice}", stop.named_waivers("; "));
            stop.end(DecisionRule::Claimed, RunStatus::Claimed, because)
        }
        (false, 0) if stop.waived_count() > 0 => {
            let because =
                format!("{noun} met {how}{backed}{}{advice}", stop.named_waivers(", but "));
            stop.end(DecisionRule::Claimed, RunStatus::Claimed, because)
        }
        (false, 0) => proof_rows::conclude_proof(stop, format!("{noun} met {how}{backed}{notes}")),
        (false, claimed) => {
            let waived = stop.named_waivers(", and ");
            let because = if claimed == count {
                format!("{noun} claimed to be met {how}; nothing measured it{waived}{advice}")
            } else {
                let claims = if claimed == 1 { "a claim" } else { "claims" };
                format!("{noun} met {how}, {claimed} of them only by {claims}{waived}{advice}")
            };
            stop.end(DecisionRule::Claimed, RunStatus::Claimed, because)
        }
    })
}

fn tampered(stop: &RunStop<'_>) -> Option<StopDecision> {
    match (stop.tampering()?, stop.run.on_tampering) {
        (what, OnTampering::EndInReview) => {
            let what = reason::safe_line(what, 300, stop.context.redactor);
            Some(stop.end(DecisionRule::Tampered, RunStatus::NeedsReview, what))
        }
        (_, OnTampering::Block) => None,
    }
}

/// The agent disputes every open requirement, except those that wait for a disputed one. Only a person can decide.
fn disputed(stop: &RunStop<'_>) -> Option<StopDecision> {
    if stop.open_count() == 0 || stop.tampering().is_some() {
        return None;
    }
    let redactor = stop.context.redactor;
    let standing = judge_rows::standing_disputes(stop.state, &stop.evidence.judging.records);
    let dispute = |one: &Requirement| {
        let name = reason::safe_name(one, redactor);
        standing.iter().find(|dispute| dispute.requirement == name).copied()
    };
    let open = stop.required().filter(|one| one.is_open() && !one.comes_later());
    let disputes: Option<Vec<_>> = open.map(dispute).collect();
    let disputes = disputes?;
    let first = disputes.first()?;
    let why = reason::safe_line(&first.why, 200, redactor);
    let more = match disputes.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let because = format!("the agent disputes {}: {why}{more}", first.requirement);
    Some(stop.end(DecisionRule::NeedsHuman, RunStatus::NeedsHuman, because))
}

fn gate_broken(stop: &RunStop<'_>) -> Option<StopDecision> {
    let redactor = stop.context.redactor;
    stop.required().find_map(|one| match &one.status {
        RequirementStatus::Unknown(why)
            if was_unknown(stop.state, &reason::safe_name(one, redactor)) =>
        {
            let (name, why) =
                (reason::safe_name(one, redactor), reason::safe_line(why, 160, redactor));
            let because = format!("{name}{NO_RESULT_TWICE}{why}");
            Some(stop.end(DecisionRule::GateBroken, RunStatus::GateBroken, because))
        }
        RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_)
        | RequirementStatus::Met(_)
        | RequirementStatus::Unmet(_) => None,
    })
}

pub(super) fn limit(stop: &RunStop<'_>) -> Option<StopDecision> {
    let usage = current_usage(stop.case.facts, stop.run, stop.state);
    let own = stop.limits().reached(&usage).map(|used_up| used_up.to_string());
    let own = own.or_else(|| {
        driven_rows::daily_limit_reached(stop.run, stop.case.facts, usage.next_micro_usd)
    });
    let adopted =
        stop.evidence.adopted_limit.as_ref().filter(|_| stop.run.origin == RunOrigin::Adopted);
    let what = match (adopted, own, stop.reached_block_cap()) {
        (Some(limit), ..) => reason::safe_line(limit, 120, stop.context.redactor),
        (None, Some(used_up), _) => used_up,
        (None, None, Some(cap)) => {
            format!("held {cap} times in a row without a tool call, the most the host allows")
        }
        (None, None, None) => return None,
    };
    let because = format!("{what}, {}", stop.describe_open());
    Some(stop.end(DecisionRule::Limit, RunStatus::Exhausted, because))
}

/// Everything that is open waits for a person's approval. The run stays open: holding the agent would only cost turns.
fn awaits_approval(stop: &RunStop<'_>) -> Option<StopDecision> {
    if stop.tampering().is_some() {
        return None;
    }
    let because = approval::describe_wait(stop.run.id.as_str(), &stop.evidence.requirements)?;
    let because = reason::safe_line(&because, 300, stop.context.redactor);
    let notice = format!("ralph: {because} (run {})", stop.run.id);
    Some(StopDecision {
        verdict: Verdict::AllowWithNotice(notice),
        ..allow(DecisionRule::NeedsHuman, because)
    })
}

fn stalled(stop: &RunStop<'_>) -> Option<StopDecision> {
    let stuck = stuck(stop).or_else(|| driven_rows::plateau(stop))?;
    Some(driven_rows::try_remedy(stop, stuck))
}

fn stuck(stop: &RunStop<'_>) -> Option<StopDecision> {
    let mark = stop.state_digest()?;
    let times = stop.state.staleness(Some(mark)).saturating_add(1);
    if times < stop.limits().stuck_after {
        return None;
    }
    let stops = match times {
        1 => "stop".to_string(),
        count => format!("{count} stops"),
    };
    let because = format!(
        "the last {stops} made no progress{}, {}",
        stop.named_unmet(),
        stop.describe_open()
    );
    Some(StopDecision {
        mark: Some(mark),
        ..stop.end(DecisionRule::Stuck, RunStatus::Stuck, because)
    })
}

pub(super) fn hold_agent(stop: &RunStop<'_>) -> StopDecision {
    let mark = stop.state_digest();
    let restarted_wait = stop.restarted_wait();
    let (rule, because) = if let Some(what) = stop.tampering() {
        let what = reason::safe_line(what, 200, stop.context.redactor);
        (DecisionRule::Tampered, format!("{what}; {}", stop.describe_open()))
    } else {
        let why = restarted_wait.map(|why| format!("; {}", why.because()));
        let open = stop.describe_open();
        (DecisionRule::Block, format!("{open}{}", why.unwrap_or_default()))
    };
    let held = HeldStop {
        hold: stop.case.hold,
        requirements: &stop.evidence.requirements,
        failures_digest: stop.report.failures,
        state_digest: mark,
        tampering: stop.tampering(),
        last_message: stop.case.stop.last_message.as_deref(),
        cost_gap: stop.case.facts.cost_gap.as_deref(),
        prompt_holds: stop.case.facts.prompt_holds,
        restarted_wait,
        has_proof_that_holds: proof_rows::has_proof_that_holds(stop),
        size: if stop.is_context_nearly_full() { ReasonSize::Short } else { ReasonSize::Full },
    };
    let reason = reason::render_reason(&held, stop.context);
    let decision = StopDecision { mark, ..block(rule, because, reason.clone()) };
    if !stop.awaits_results_only() {
        return decision;
    }
    let awaited_tree =
        stop.digest_without_gate_writes().or(stop.state.awaited_tree).unwrap_or(UNKNOWN_TREE);
    let decision = StopDecision { awaited_tree: Some(awaited_tree), ..decision };
    // Otherwise an agent that changes a file or kills the worker before each stop would wait for ever.
    if restarted_wait.is_some() {
        decision
    } else {
        StopDecision { outcome: StopOutcome::Awaited { reason }, ..decision }
    }
}

/// Whether the requirement had no result at the last stop that reported one.
fn is_unknown(line: &ReportLine) -> bool {
    line.standing == ReportedStatus::Unknown || line.was == Some(ReportedStatus::Unknown)
}

fn was_unknown(state: &RunState, name: &str) -> bool {
    let lines = state.report.as_ref().map_or(&[][..], |report| &report.lines);
    lines.iter().any(|line| line.name == name && is_unknown(line))
}

/// A gate that runs again keeps its `unknown` result until it has a new one.
pub(super) fn remember_unknown(report: &mut StopReport, state: &RunState) {
    for line in report.lines.iter_mut().filter(|line| line.standing == ReportedStatus::Pending) {
        if was_unknown(state, &line.name) {
            line.was = Some(ReportedStatus::Unknown);
        }
    }
}

/// The runner evaluates some requirements, such as those of judges, only after the agent's process has exited. They keep
/// their `unknown` result during the stop that comes before.
pub(super) fn keep_unknown_for_runner(report: &mut StopReport, state: &RunState) {
    let lines = state.report.as_ref().map_or(&[][..], |report| &report.lines);
    let is_new = |line: &&ReportLine| {
        report.lines.iter().all(|other| other.name != line.name) && !report.met.contains(&line.name)
    };
    let kept: Vec<_> = lines
        .iter()
        .filter(|line| is_unknown(line))
        .filter(is_new)
        .map(|line| ReportLine {
            standing: ReportedStatus::Pending,
            was: Some(ReportedStatus::Unknown),
            pending: Some(PendingKind::NotReached),
            note: PendingReason::comes_after(AGENT_EXIT).why().to_string(),
            first: None,
            listed: Vec::new(),
            findings: 0,
            ..line.clone()
        })
        .collect();
    report.lines.extend(kept);
}
