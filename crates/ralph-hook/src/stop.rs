//! Decides a stop that a run or adopted files may hold.
//!
//! Facts are gathered first, without the lock. If they do not settle the stop, the slow evidence follows. The decision
//! itself is made and recorded under the run's lock.

use crate::contract::JudgeMode;
use crate::cost_meter;
use crate::facts::{self, FirstBlockText};
use crate::session_owner;
use crate::transcript_reader::{self, TranscriptSnapshot};
use crate::{follow_up, sources};
use ralph_core::decide::{self, StopCase, StopDecision, StopPlan};
use ralph_core::event::StopEvent;
use ralph_core::facts::{StopEvidence, StopFacts};
use ralph_core::hold::StopHold;
use ralph_core::id::{RunId, SessionId};
use ralph_core::proof::Proof;
use ralph_core::record::{DecisionRule, RunChange, RunOrigin, StopOutcome, StopRecord};
use ralph_core::redact::Redactor;
use ralph_core::verdict::Verdict;
use ralph_git::tree::WorkTreeListing;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::store::{self, LoadedRun, RunTransaction, StoreError, TransactionStep};
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};

/// One stop of a session that a run owns.
#[derive(Debug)]
pub struct StopContext<'a> {
    pub world: &'a World,
    pub stop: &'a StopEvent,
    pub session: &'a SessionId,
    pub run: &'a RunId,
    /// The tree, if the caller has just listed it for a session without a run.
    pub listing: Option<&'a WorkTreeListing>,
}

/// The verdict for a stop of a session that a run holds.
pub fn run_verdict(context: &StopContext<'_>) -> Result<Verdict, StoreError> {
    Ok(match decide_stop(context)? {
        Ok(decision) => decision.verdict,
        Err(not_the_owner) => not_the_owner,
    })
}

/// Decides a stop and records the decision. The inner `Err` is the verdict for a session that does not own the run.
pub fn decide_stop(context: &StopContext<'_>) -> Result<Result<StopDecision, Verdict>, StoreError> {
    let StopContext { world, stop, session, run, listing } = context;
    if stop.pending.iter().any(|pending| pending.impersonates_person) {
        // From now on a command typed in this session may come from the agent, so it no longer counts as a person's.
        let mark = world.home.run(run).impersonation_mark();
        if let Err(error) = fs::create_new(&mark, b"") {
            facts::record_run_fault(world, run, &error.into());
        }
    }
    while !world.answer_deadline.has_passed() {
        let seen = store::load_run(&world.home, context.run)?;
        if seen.state.owner(&seen.run) != Some(session) {
            return Ok(Err(facts::allow_non_owner(world, &seen)));
        }
        let before = seen.state.observed.as_ref();
        let mut snapshot =
            transcript_reader::read_transcript(world, stop, before, seen.run.checklist);
        snapshot.cost = cost_meter::meter_cost(world, stop, &seen);
        let facts = facts::gather_facts(world, stop, &seen, &snapshot);
        let evidence = match decide::plan(&stop_case(stop, &seen, &facts)) {
            StopPlan::Answer(_) => None,
            StopPlan::Verify if seen.run.origin == RunOrigin::Session => {
                Some(sources::evidence_for_session(world, &seen, *listing))
            }
            StopPlan::Verify => {
                let mode = JudgeMode::Ask;
                Some(sources::evidence_for_run(world, &seen, stop, &snapshot, mode))
            }
        };
        if let Some((decision, before)) =
            decide_under_lock(context, &seen, &snapshot, evidence.as_ref())?
        {
            save_meter(world, &before, &snapshot, &decision);
            let bell = follow_up::follow_up_decision(world, session, &before, &decision);
            let verdict = decision.verdict.clone().with_bell(bell);
            return Ok(Ok(StopDecision { verdict, ..decision }));
        }
    }
    Err(StoreError::TimedOut)
}

/// Saves the meter that the journal now refers to.
fn save_meter(
    world: &World,
    before: &LoadedRun,
    snapshot: &TranscriptSnapshot,
    decision: &StopDecision,
) {
    let is_recorded =
        decision.outcome != StopOutcome::Repeated && decision.rule != DecisionRule::NotMine;
    if let Some(cost) = snapshot.cost.as_ref().filter(|_| is_recorded) {
        cost.save(&world.home, before);
    }
}

/// Decides again under the lock and records the result.
///
/// Other processes may have changed the run while the evidence was gathered, so only the state under the lock counts.
/// Nothing slow happens here. Returns `None` if evidence turns out to be needed that was not gathered.
fn decide_under_lock(
    context: &StopContext<'_>,
    seen: &LoadedRun,
    snapshot: &TranscriptSnapshot,
    evidence: Option<&StopEvidence>,
) -> Result<Option<(StopDecision, LoadedRun)>, StoreError> {
    let StopContext { world, stop, run, .. } = context;
    let redactor = Redactor::new(world.env.secrets());
    let transaction = RunTransaction { loaded: Some(seen), ..world.transaction(run) };
    store::transact(&transaction, |now| {
        let mut facts = facts::gather_facts(world, stop, now, snapshot);
        let words = facts::first_block_text(world, now);
        let decide =
            |facts: &StopFacts| match (decide::plan(&stop_case(stop, now, facts)), evidence) {
                (StopPlan::Answer(decision), _) => Some(*decision),
                (StopPlan::Verify, None) => None,
                (StopPlan::Verify, Some(evidence)) => {
                    let reason_context = words.reason_context(&redactor);
                    Some(decide::conclude(&stop_case(stop, now, facts), evidence, &reason_context))
                }
            };
        let Some(mut decision) = decide(&facts) else { return TransactionStep::Leave(Ok(None)) };
        if decision.is_success() && facts.tampering.is_none() {
            facts.tampering = match facts::find_journal_edit(world, run) {
                Ok(found) => found,
                Err(newer) => return TransactionStep::Leave(Err(newer)),
            };
            if facts.tampering.is_some() {
                let Some(again) = decide(&facts) else { return TransactionStep::Leave(Ok(None)) };
                decision = again;
            }
        }
        let decision = decision.redacted(&redactor);
        let answer = Ok(Some((decision.clone(), now.clone())));
        let durability = match decision.outcome {
            _ if decision.rule == DecisionRule::NotMine => return TransactionStep::Leave(answer),
            StopOutcome::Ended(_) => Durability::Synced,
            StopOutcome::Allowed
            | StopOutcome::Blocked { .. }
            | StopOutcome::Awaited { .. }
            | StopOutcome::HandedOver
            | StopOutcome::Repeated
            | StopOutcome::Orphaned => Durability::Cached,
        };
        let in_a_row = match decision.outcome {
            StopOutcome::Blocked { .. } | StopOutcome::Awaited { .. } => {
                facts.consecutive_blocks.saturating_add(1)
            }
            StopOutcome::Repeated => now.state.in_a_row,
            StopOutcome::Allowed
            | StopOutcome::HandedOver
            | StopOutcome::Orphaned
            | StopOutcome::Ended(_) => 0,
        };
        let is_held = matches!(decision.outcome, StopOutcome::Blocked { .. });
        let prompt_hold = if is_held && now.run.origin == RunOrigin::Session {
            facts.prompt_holds.saturating_add(1)
        } else {
            0
        };
        let took_ms = clock::now_ms().saturating_sub(world.arrived_ms);
        let tampering = facts.tampering;
        let decided = StopRecord {
            took_ms,
            tampering,
            in_a_row,
            prompt_hold,
            background: stop.background_digest(),
            process: facts::owner_process(world, &now.state),
            ..facts::decision_record(world, decision, snapshot, &redactor)
        };
        let decided = with_evidence(decided, evidence);
        TransactionStep::Write { change: RunChange::Decided(Box::new(decided)), durability, answer }
    })?
}

/// Adds what the decision rests on.
fn with_evidence(decided: StopRecord, evidence: Option<&StopEvidence>) -> StopRecord {
    let Some(evidence) = evidence else { return decided };
    StopRecord {
        proof: evidence.proof.as_ref().map(Proof::record),
        gates: evidence.gates.clone(),
        judged: evidence.judged.clone(),
        judges: evidence.judging.records.clone(),
        judge_spending: evidence.judging.spent,
        garbled: evidence.unparsable_lists.clone(),
        ..decided
    }
}

fn stop_case<'a>(stop: &'a StopEvent, opened: &'a LoadedRun, facts: &'a StopFacts) -> StopCase<'a> {
    StopCase { stop, hold: StopHold::Run { run: &opened.run, state: &opened.state }, facts }
}

/// Decides a stop of a session that no run owns, from files that other tools wrote about it.
pub fn files_verdict(world: &World, stop: &StopEvent, session: &SessionId) -> Verdict {
    let facts = facts::gather_facts_without_run(world, session, stop);
    let case = StopCase { stop, hold: StopHold::Files, facts: &facts };
    let decision = match decide::plan(&case) {
        StopPlan::Answer(decision) => *decision,
        StopPlan::Verify => {
            let evidence = sources::evidence_for_files(
                world,
                session,
                session_owner::project_directory(world, stop.cwd.as_deref()).as_deref(),
            );
            if evidence.requirements.is_empty() {
                return Verdict::Allow;
            }
            let redactor = Redactor::new(world.env.secrets());
            decide::conclude(
                &case,
                &evidence,
                &FirstBlockText::for_files(session).reason_context(&redactor),
            )
            .redacted(&redactor)
        }
    };
    match follow_up::record_files_decision(world, session, stop, &decision) {
        Ok(()) => decision.verdict,
        Err(error) => {
            let why = describe_error(&error);
            let fault = Fault::new(FaultKind::File, &why).with_session(session);
            faults::record_fault(&world.home, &fault);
            match decision.outcome {
                StopOutcome::Blocked { .. } => Verdict::AllowWithNotice(format!(
                    "ralph: let the agent stop, because the decision to hold it cannot be recorded: {why}"
                )),
                StopOutcome::Allowed
                | StopOutcome::Awaited { .. }
                | StopOutcome::HandedOver
                | StopOutcome::Repeated
                | StopOutcome::Orphaned
                | StopOutcome::Ended(_) => decision.verdict,
            }
        }
    }
}
