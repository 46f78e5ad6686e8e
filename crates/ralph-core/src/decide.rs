//! The decision about a stop: an ordered table of rules. The first matching row wins, and `ralph why` prints its name.
//!
//! [`plan`] decides from the cheap facts. Only if they do not settle the stop is the evidence gathered and [`conclude`]
//! called. Each row is a function that returns `None` if it does not match.

mod driven_rows;
mod judge_rows;
mod proof_rows;
mod run_rows;
mod session_rows;
mod wait_rows;

use crate::digest64::Digest64;
use crate::dispute;
use crate::drive::Remedy;
use crate::ending;
use crate::event::{HostTrouble, PendingWork, PendingWorkKind, StopEvent};
use crate::facts::{DeclaredPause, OffReason, PolicyTrust, StopDriver, StopEvidence, StopFacts};
use crate::hint;
use crate::hold::StopHold;
use crate::limits::{LimitUsage, RunLimits};
use crate::reason::{self, HeldStop, ReasonContext, ReasonSize};
use crate::record::{DecisionRule, JudgeRecord, RunOrigin, RunRecord, StopOutcome, StopReport};
use crate::redact::Redactor;
use crate::requirement::Requirement;
use crate::run::{RunPhase, RunState};
use crate::status::RunStatus;
use crate::text;
use crate::verdict::Verdict;
use crate::waiver;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use run_rows::{RunStop, keep_unknown_for_runner, remember_unknown};

pub use proof_rows::holds_for_proof;

/// One stop and what is known about it before any evidence is gathered.
#[derive(Clone, Copy, Debug)]
pub struct StopCase<'a> {
    pub stop: &'a StopEvent,
    pub hold: StopHold<'a>,
    pub facts: &'a StopFacts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopPlan {
    Answer(Box<StopDecision>),
    Verify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopDecision {
    pub rule: DecisionRule,
    pub verdict: Verdict,
    pub outcome: StopOutcome,
    /// Why the rule fired, in one line.
    pub because: String,
    /// Digest of the tree and the failures; `None` if the stop must not count as a state seen.
    pub mark: Option<Digest64>,
    /// The tree, if the stop is held only because results are pending.
    pub awaited_tree: Option<Digest64>,
    pub report: Option<StopReport>,
    /// The remedy that is tried because the run makes no progress.
    pub remedy: Option<Remedy>,
}

impl StopDecision {
    /// Whether the run ends with everything met.
    pub fn is_success(&self) -> bool {
        matches!(
            self.outcome,
            StopOutcome::Ended(RunStatus::Verified | RunStatus::Green | RunStatus::Claimed)
        )
    }

    /// Removes secrets from what the person sees and the journal stores. The reason of a block is already redacted
    /// when it is rendered.
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        self.because = redactor.redact(&self.because);
        match &mut self.verdict {
            Verdict::AllowWithNotice(notice) | Verdict::EndRun { notice, .. } => {
                *notice = redactor.redact(notice);
            }
            Verdict::Allow
            | Verdict::Block { .. }
            | Verdict::AnswerPrompt { .. }
            | Verdict::AddContext { .. }
            | Verdict::DenyTool { .. }
            | Verdict::AskPerson { .. } => {}
        }
        self
    }
}

/// Rows `off` to `untrusted`.
pub fn plan(case: &StopCase<'_>) -> StopPlan {
    let answer = switched_off(case)
        .or_else(|| repeated(case))
        .or_else(|| host_trouble(case))
        .or_else(|| waiting(case))
        .or_else(|| needs_human(case))
        .or_else(|| untrusted(case));
    answer.map_or(StopPlan::Verify, |decision| StopPlan::Answer(Box::new(decision)))
}

/// Rows `verified` to `block`.
pub fn conclude(
    case: &StopCase<'_>,
    evidence: &StopEvidence,
    context: &ReasonContext<'_>,
) -> StopDecision {
    match case.hold {
        StopHold::Files => {
            let report = reason::build_stop_report(&evidence.requirements, context.redactor);
            StopDecision { report: Some(report), ..conclude_files(case, evidence, context) }
        }
        StopHold::Run { run, state } => {
            // Copied only if needed: there may be ten thousand requirements.
            let adjusted;
            let evidence = if has_adjustments(state) {
                let judges = &evidence.judging.records;
                let requirements =
                    apply_adjustments(&evidence.requirements, state, judges, case.facts.now_ms);
                adjusted = StopEvidence { requirements, ..evidence.clone() };
                &adjusted
            } else {
                evidence
            };
            let mut report = reason::build_stop_report(&evidence.requirements, context.redactor);
            remember_unknown(&mut report, state);
            let stop = RunStop { case, run, state, evidence, report: &report, context };
            let decision = match run.origin {
                RunOrigin::Started | RunOrigin::Adopted => run_rows::conclude(&stop),
                RunOrigin::Session => session_rows::conclude(&stop),
            };
            if decision.rule == DecisionRule::FinalLook {
                keep_unknown_for_runner(&mut report, state);
            }
            StopDecision { report: decision.report.or(Some(report)), ..decision }
        }
    }
}

fn has_adjustments(state: &RunState) -> bool {
    !state.waivers.is_empty() || !state.disputes.is_empty() || !state.hints.is_empty()
}

/// Applies waivers, disputes and hints to the requirements. Uses the current state, because these may have been
/// recorded while the requirements were being evaluated. `judges` are the verdicts of this stop.
pub fn apply_adjustments(
    requirements: &[Requirement],
    state: &RunState,
    judges: &[JudgeRecord],
    now_ms: u64,
) -> Vec<Requirement> {
    let waived = waiver::apply_waivers(requirements, &state.waivers, now_ms);
    let disputed = dispute::apply_disputes(waived, &judge_rows::standing_disputes(state, judges));
    hint::hint_requirement(&state.hints).into_iter().chain(disputed).collect()
}

fn switched_off(case: &StopCase<'_>) -> Option<StopDecision> {
    if let StopHold::Run { state, .. } = case.hold
        && let RunPhase::Ended(status) = state.phase
    {
        return Some(allow(DecisionRule::NotMine, format!("the run has ended: {}", status.name())));
    }
    if let Some(off) = case.facts.off {
        return Some(allow(DecisionRule::Off, OffReason::why(off).to_string()));
    }
    let StopHold::Run { run, state } = case.hold else {
        return None;
    };
    match (state.phase, case.facts.is_owner_gone) {
        (RunPhase::Active, false) | (RunPhase::Ended(_), _) => None,
        (RunPhase::Active, true) => Some(StopDecision {
            outcome: StopOutcome::Orphaned,
            verdict: Verdict::AllowWithNotice(format!(
                "ralph: run {} is orphaned: the process that owned it is gone; `ralph resume {}` takes it over",
                run.id, run.id
            )),
            ..allow(DecisionRule::Off, "the process that owned the run is gone".to_string())
        }),
        (RunPhase::Paused { .. }, _) => Some(allow(DecisionRule::Off, "paused".to_string())),
        (RunPhase::Orphaned, _) => Some(allow(DecisionRule::Off, "orphaned".to_string())),
    }
}

/// A hook that is registered twice delivers each stop twice. Both deliveries get the same answer, charged once.
fn repeated(case: &StopCase<'_>) -> Option<StopDecision> {
    let StopHold::Run { state, .. } = case.hold else {
        return None;
    };
    // A runner delivers each stop once, so the same message again is a new stop.
    if case.facts.driver != StopDriver::Person {
        return None;
    }
    if !state.is_repeat(case.facts.delivery.as_ref()?) {
        return None;
    }
    let verdict = match &state.answer {
        Some(reason) => Verdict::Block { reason: reason.clone() },
        None => Verdict::Allow,
    };
    let because = "the same stop was delivered again".to_string();
    Some(StopDecision {
        verdict,
        outcome: StopOutcome::Repeated,
        ..allow(DecisionRule::Repeat, because)
    })
}

fn host_trouble(case: &StopCase<'_>) -> Option<StopDecision> {
    let trouble = case.stop.trouble.as_ref().or(case.facts.trouble.as_ref())?;
    let HostTrouble::Unknown(word) = trouble else {
        return Some(allow(
            DecisionRule::HostTrouble,
            format!("the turn ended with {}", trouble.name()),
        ));
    };
    let already = matches!(case.hold, StopHold::Run { state, .. } if state.odd_stops > 0);
    (!already).then(|| {
        allow(
            DecisionRule::OddStop,
            format!(
                "the turn ended with \"{}\", which this version does not know",
                text::clean_line(word, 60)
            ),
        )
    })
}

fn waiting(case: &StopCase<'_>) -> Option<StopDecision> {
    // Waiting never extends a limit.
    if is_limit_reached(case) {
        return None;
    }
    if let Some(DeclaredPause::Waiting { until_ms, why }) = &case.facts.declared
        && case.facts.now_ms < *until_ms
    {
        return Some(allow(
            DecisionRule::Waiting,
            format!("the agent waits: {}", text::clean_line(why, 120)),
        ));
    }
    if case.facts.has_queued_input {
        return Some(allow(
            DecisionRule::Waiting,
            "a message is queued until the turn ends".to_string(),
        ));
    }
    // Background work that is unchanged since the last stop, such as a server, will not wake the agent.
    let background = case.stop.background_digest();
    let is_idle =
        matches!(case.hold, StopHold::Run { state, .. } if state.background == background);
    let excuses = |pending: &&PendingWork| pending.kind == PendingWorkKind::WakeUp || !is_idle;
    let pending: Vec<_> = case.stop.pending.iter().filter(excuses).collect();
    let first = pending.first()?;
    let noun = match (first.kind, pending.len()) {
        (PendingWorkKind::Background, 1) => "1 background task".to_string(),
        (PendingWorkKind::WakeUp, 1) => "1 wake-up".to_string(),
        (PendingWorkKind::Background | PendingWorkKind::WakeUp, count) => {
            format!("{count} tasks or wake-ups")
        }
    };
    Some(allow(DecisionRule::Waiting, format!("{noun} pending: {}", first.what)))
}

fn is_limit_reached(case: &StopCase<'_>) -> bool {
    let StopHold::Run { run, state } = case.hold else { return false };
    let usage = current_usage(case.facts, run, state);
    let is_day_over =
        driven_rows::daily_limit_reached(run, case.facts, usage.next_micro_usd).is_some();
    is_day_over || state.limits(run).reached(&usage).is_some()
}

/// The cost of the next turn counts only for a runner, which can refuse to start it.
fn current_usage(facts: &StopFacts, run: &RunRecord, state: &RunState) -> LimitUsage {
    LimitUsage {
        micro_usd: facts.spent_micro_usd,
        cost_basis: facts.cost_basis,
        tokens: facts.spent_tokens,
        next_micro_usd: match facts.driver {
            StopDriver::Person => 0,
            StopDriver::Runner | StopDriver::RunnerAlone | StopDriver::RunnerLanding => {
                driven_rows::next_turn_cost(run, state)
            }
        },
        ..LimitUsage::recorded(state, facts.now_ms)
    }
}

fn needs_human(case: &StopCase<'_>) -> Option<StopDecision> {
    let StopHold::Run { run, state } = case.hold else {
        return None;
    };
    // A missing approval is evaluated again: it may have been given, and other work may have come up.
    let Some(DeclaredPause::NeedsHuman(why)) = &case.facts.declared else {
        return None;
    };
    // The agent has not seen the person's latest message, which may be the answer. The block that delivers it withdraws
    // the question.
    if !state.hints.is_empty() {
        return None;
    }
    // A runner waits for the person's answer, and parks the run if none comes.
    if case.facts.driver != StopDriver::Person {
        return Some(allow(DecisionRule::NeedsHuman, text::clean_line(why, 300)));
    }
    Some(end(
        DecisionRule::NeedsHuman,
        RunStatus::NeedsHuman,
        run,
        state.limits(run),
        text::clean_line(why, 300),
    ))
}

fn untrusted(case: &StopCase<'_>) -> Option<StopDecision> {
    let PolicyTrust::Missing { what, how } = &case.facts.trust else {
        return None;
    };
    let notice = format!(
        "ralph: {} is not approved, so nothing was run; review it, then run `{}`",
        text::clean_line(what, 200),
        text::clean_line(how, 300)
    );
    Some(StopDecision {
        verdict: Verdict::AllowWithNotice(notice),
        ..allow(DecisionRule::Untrusted, text::clean_line(what, 200))
    })
}

fn conclude_files(
    case: &StopCase<'_>,
    evidence: &StopEvidence,
    context: &ReasonContext<'_>,
) -> StopDecision {
    let unmet =
        evidence.requirements.iter().filter(|one| one.is_required() && one.is_unmet()).count();
    if unmet == 0 {
        return allow(
            DecisionRule::Claimed,
            "nothing is open in the files about this session".to_string(),
        );
    }
    if case.stop.continuing || case.facts.is_prompt_held_already {
        return allow(
            DecisionRule::HoldOnce,
            format!("{unmet} not met, and the files already held this prompt once"),
        );
    }
    let held = HeldStop {
        hold: case.hold,
        requirements: &evidence.requirements,
        failures_digest: Digest64::default(),
        state_digest: None,
        tampering: None,
        last_message: None,
        cost_gap: None,
        prompt_holds: 0,
        restarted_wait: None,
        has_proof_that_holds: false,
        size: ReasonSize::Full,
    };
    block(DecisionRule::Block, format!("{unmet} not met"), reason::render_reason(&held, context))
}

fn allow(rule: DecisionRule, because: String) -> StopDecision {
    StopDecision {
        rule,
        verdict: Verdict::Allow,
        outcome: StopOutcome::Allowed,
        because,
        mark: None,
        awaited_tree: None,
        report: None,
        remedy: None,
    }
}

fn block(rule: DecisionRule, because: String, reason: String) -> StopDecision {
    let verdict = Verdict::Block { reason: reason.clone() };
    StopDecision { verdict, outcome: StopOutcome::Blocked { reason }, ..allow(rule, because) }
}

fn end(
    rule: DecisionRule,
    status: RunStatus,
    run: &RunRecord,
    limits: &RunLimits,
    because: String,
) -> StopDecision {
    let notice = format!("ralph: {}", ending::describe_end(status, run, limits, &because));
    StopDecision {
        verdict: Verdict::EndRun { status, notice, ring_bell: false },
        outcome: StopOutcome::Ended(status),
        ..allow(rule, because)
    }
}
