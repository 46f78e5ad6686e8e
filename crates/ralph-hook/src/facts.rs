//! Gathers the facts that a decision about one stop needs: owner, off switches, approval, spending.
//!
//! Evidence about the work itself comes from `sources`.

use crate::cleaning_worker;
use crate::contract::{self, JudgeBudget};
use crate::notify;
use crate::reminder;
use crate::run_retrospective;
use crate::session_note::SessionNote;
use crate::transcript_reader::{TranscriptSnapshot, TranscriptToolUse};
use ralph_core::decide::StopDecision;
use ralph_core::digest64::Digest64;
use ralph_core::event::{HostTrouble, StopEvent};
use ralph_core::facts::{BlockCap, OffReason, PolicyTrust, StopFacts};
use ralph_core::id::{RunId, SessionId};
use ralph_core::reason::ReasonContext;
use ralph_core::record::{
    CostBasis, CostReading, DeliveryId, JournalEntry, ProcessIdentity, RunChange, RunOrigin,
    RunRecord, StopOutcome, StopRecord, TranscriptReading,
};
use ralph_core::redact::Redactor;
use ralph_core::run::{AgentMemory, RunPhase, RunState, Spending};
use ralph_core::status::RunStatus;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::host_env;
use ralph_home::journal::{self, JournalIntegrity};
use ralph_home::store::{self, LoadedRun, StoreError, TransactionStep};
use ralph_home::world::{RunnerFacts, World};
use ralph_home::{goal_file, run_process, session_pointer};
use ralph_lists::list_approval;
use ralph_policy::trust;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};
use ralph_sys::process_identity::{self, Liveness};
use ralph_sys::tail::{self, TailWindow};
use std::ops::ControlFlow;
use std::path::Path;

/// How many consecutive blocks files alone may cause when the host sends no prompt id to tell stops apart.
const MAX_FILE_HOLDS: u32 = 25;

/// The first hold of a session without a run says why it is held.
const SESSION_HOLD_TEXT: &str = "The gates of this project must not get worse in any session (`[session] gates` in \
    `ralph.toml`). If something other than your work broke them, say so and stop again. A person can turn this off for \
    the session with `/ralph:off`";

const MAX_CHECKLIST_ITEMS: usize = 500;
const MAX_CHECKLIST_ITEM_CHARS: usize = 200;

pub fn gather_facts(
    world: &World,
    stop: &StopEvent,
    opened: &LoadedRun,
    snapshot: &TranscriptSnapshot,
) -> StopFacts {
    let now_ms = clock::now_ms();
    let cost = current_cost(&opened.state, snapshot);
    let most_micro_usd = opened.state.limits(&opened.run).max_cost_micro_usd;
    let judges = contract::judge_spending(&world.home, &opened.run, &opened.state);
    let facts = StopFacts {
        off: find_off_switch(world, opened.run.id.as_str()),
        is_owner_gone: run_process::is_owner_gone(
            opened,
            now_ms,
            host_env::host_process(&world.env),
        ),
        delivery: snapshot.delivery,
        arrived_ms: unidentified_arrival(world, snapshot),
        trouble: find_api_error(stop, snapshot),
        trust: gather_trust(world, &opened.run),
        tampering: opened.tampering.clone().or_else(|| find_new_goal_edit(world, opened)),
        spent_micro_usd: judges.added_to(cost.as_ref().and_then(CostReading::spent_micro_usd)),
        cost_basis: cost.as_ref().map_or(CostBasis::Reported, CostReading::basis),
        cost_gap: cost.as_ref().zip(most_micro_usd).and_then(|(cost, most)| cost.limit_gap(most)),
        context_permille: snapshot.observed.as_ref().and_then(TranscriptReading::context_permille),
        declared: opened.state.declared.clone(),
        has_queued_input: snapshot.has_queued_input,
        consecutive_blocks: match snapshot.tools {
            TranscriptToolUse::None => opened.state.in_a_row,
            // Without a transcript the count is unknown, and an unknown count must not end a hold.
            TranscriptToolUse::Used | TranscriptToolUse::Unknown => 0,
        },
        block_cap: host_env::host_block_cap(&world.env, world.host)
            .map_or(BlockCap::DEFAULT, |setting| BlockCap::from_setting(&setting)),
        ..StopFacts::quiet(now_ms)
    };
    match world.driven {
        None if opened.run.origin == RunOrigin::Session => session_facts(world, facts, &opened.run),
        None => facts,
        Some(driven) => driven_facts(facts, &driven, &opened.state, judges),
    }
}

/// An edit of the goal that was not reported yet. It cannot be undone, so it would otherwise be reported at every stop.
fn find_new_goal_edit(world: &World, opened: &LoadedRun) -> Option<String> {
    if opened.state.tampered {
        return None;
    }
    goal_file::find_goal_edit(&world.home, &opened.run)
}

/// A session without a run has no owner that could be gone, and no limits besides its holds.
fn session_facts(world: &World, facts: StopFacts, run: &RunRecord) -> StopFacts {
    let note = run.owner.as_ref().and_then(|session| SessionNote::read(&world.home, session));
    StopFacts {
        is_owner_gone: false,
        prompt_holds: note.map_or(u32::MAX, |note| note.prompt.holds),
        ..facts
    }
}

/// The cost as the journal will have it after this stop.
fn current_cost(state: &RunState, snapshot: &TranscriptSnapshot) -> Option<CostReading> {
    let Some(metered) = &snapshot.cost else { return state.cost.clone() };
    let mut cost = state.cost.clone().unwrap_or_default();
    cost.merge(&metered.reading);
    Some(cost)
}

/// What is left of the run's budget, as the decision about this stop counts it.
pub fn judge_budget(
    world: &World,
    opened: &LoadedRun,
    snapshot: &TranscriptSnapshot,
) -> JudgeBudget {
    let LoadedRun { run, state, .. } = opened;
    let judges = contract::judge_spending(&world.home, run, state);
    let spent = match world.driven {
        None => {
            let cost = current_cost(state, snapshot);
            judges.added_to(cost.as_ref().and_then(CostReading::spent_micro_usd)).unwrap_or(0)
        }
        Some(_) => state.driving.spent().plus(judges).micro_usd,
    };
    let of_run = state.limits(run).max_cost_micro_usd.map(|most| (most, spent));
    let of_day = run.drive.as_ref().and_then(|drive| drive.day_micro_usd);
    let today = world.driven.and_then(|driven| driven.spent_today_micro_usd);
    let budgets = of_run.into_iter().chain(of_day.zip(today));
    let left = |(most, spent): &(u64, u64)| most.saturating_sub(*spent);
    let tightest = budgets.min_by_key(left);
    JudgeBudget {
        left_micro_usd: tightest.as_ref().map(left),
        most_micro_usd: tightest.map(|(most, _)| most),
    }
}

/// A runner meters every session of the run, and knows more from the host's stream than the transcript shows.
fn driven_facts(
    facts: StopFacts,
    driven: &RunnerFacts,
    state: &RunState,
    judges: Spending,
) -> StopFacts {
    let spent = state.driving.spent().plus(judges);
    StopFacts {
        is_owner_gone: false,
        driver: driven.driver,
        block_cap: driven.cap,
        context_permille: driven.context_permille.or(facts.context_permille),
        spent_micro_usd: Some(spent.micro_usd),
        cost_basis: CostBasis::Reported,
        cost_gap: None,
        spent_tokens: Some(spent.tokens),
        spent_today_micro_usd: driven.spent_today_micro_usd,
        ..facts
    }
}

/// Checked at every stop, because a person may revoke an approval during the run.
fn gather_trust(world: &World, run: &RunRecord) -> PolicyTrust {
    match &run.seal {
        Some(seal) if !trust::is_seal_approved(&world.home, seal) => {
            let what = format!("the policy of `{}`", seal.project);
            PolicyTrust::Missing { what, how: "ralph trust".to_string() }
        }
        Some(_) | None => match list_approval::check_approvals(&world.home, run) {
            Ok(()) => PolicyTrust::Approved,
            Err(list_approval::UnapprovedList { what, trust_command: trust }) => {
                PolicyTrust::Missing { what, how: trust }
            }
        },
    }
}

/// Facts for a session that only files of other tools hold.
pub fn gather_facts_without_run(world: &World, session: &SessionId, stop: &StopEvent) -> StopFacts {
    StopFacts {
        off: find_off_switch(world, session.as_str()),
        is_prompt_held_already: is_prompt_held_already(world, session, stop),
        ..StopFacts::quiet(clock::now_ms())
    }
}

/// Whether files already held this prompt. The host's own flag is not enough: a host that never sets it would be held
/// forever.
fn is_prompt_held_already(world: &World, session: &SessionId, stop: &StopEvent) -> bool {
    let path = world.home.held_journal(session);
    let Some(stat) = fs::stat(&path) else { return false };
    let mut blocks = 0;
    let mut same_prompt = false;
    let window = TailWindow { end: stat.len, step: 16 * 1024, most: 256 * 1024 };
    let read = tail::visit_lines_backward(&path, &window, |line| {
        let Ok(JournalEntry { change: RunChange::Decided(last), .. }) =
            serde_json::from_slice(line)
        else {
            return ControlFlow::Break(());
        };
        let StopOutcome::Blocked { .. } = last.outcome else { return ControlFlow::Break(()) };
        blocks += 1;
        same_prompt |= last.delivery.is_some() && last.delivery == prompt_mark(stop);
        if same_prompt { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match read {
        Ok(_) => same_prompt || blocks >= MAX_FILE_HOLDS,
        // Without the count, files could hold the session forever.
        Err(error) => {
            let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_session(session);
            faults::record_fault(&world.home, &fault);
            true
        }
    }
}

/// Identifies the prompt of a stop in the journal of a session that only files hold.
pub fn prompt_mark(stop: &StopEvent) -> Option<DeliveryId> {
    let stop = Digest64::of_parts(&[stop.prompt.as_deref()?.as_bytes()]);
    Some(DeliveryId { stop, length: None })
}

/// The switch that turns ralph off for this run or session, if one is set.
pub fn find_off_switch(world: &World, id: &str) -> Option<OffReason> {
    if fs::exists(&world.home.tombstone(id)) {
        Some(OffReason::Cancelled)
    } else if fs::exists(&world.home.kill_switch()) {
        Some(OffReason::KillSwitch)
    } else {
        None
    }
}

/// An API error at the end of the transcript. The transcript lags, so it counts only if the event has the same text.
fn find_api_error(stop: &StopEvent, snapshot: &TranscriptSnapshot) -> Option<HostTrouble> {
    let last = snapshot.last.as_ref().filter(|last| last.api_error)?;
    let same = stop.last_message.as_deref().is_none_or(|said| Some(said) == last.text.as_deref());
    same.then_some(HostTrouble::Server)
}

/// Allows a stop of a session that does not own the run. A run without any owner is recorded as a fault.
pub fn allow_non_owner(world: &World, opened: &LoadedRun) -> Verdict {
    let LoadedRun { run, state, .. } = opened;
    if state.owner(run).is_none() {
        let what = format!("run {} names no owner, so it holds no session", run.id);
        faults::record_fault(&world.home, &Fault::new(FaultKind::Orphan, &what).with_run(&run.id));
    }
    Verdict::Allow
}

/// Verifies the whole journal. This is slow, so it is done only before a run ends well. Fails if a newer ralph wrote a
/// part of it, because that is not an edit.
pub fn find_journal_edit(world: &World, run: &RunId) -> Result<Option<String>, StoreError> {
    let path = world.home.run(run).journal();
    match journal::check_integrity(&path) {
        Ok(JournalIntegrity::Intact) => Ok(None),
        Ok(JournalIntegrity::Edited) => {
            Ok(Some("`journal.jsonl` was changed in the middle".to_string()))
        }
        Ok(JournalIntegrity::Newer(version)) => Err(StoreError::Newer { path, version }),
        Err(error) => Ok(Some(describe_error(&error))),
    }
}

/// Ends a run as overridden if the host ended a turn that ralph had blocked. Returns whether it did.
pub fn record_override(
    world: &World,
    session: &SessionId,
    run: &RunId,
) -> Result<bool, StoreError> {
    let how = "the host ended the turn although ralph held it, and reported success".to_string();
    let ended = store::transact(&world.transaction(run), |now| match now.state.phase {
        // Without an answer of ours, another tool's hook may have caused the block.
        RunPhase::Active if now.state.answer.is_some() => TransactionStep::Write {
            change: RunChange::Overridden { how: how.clone() },
            durability: Durability::Synced,
            answer: Some((now.run.clone(), now.state.clone())),
        },
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned | RunPhase::Ended(_) => {
            TransactionStep::Leave(None)
        }
    })?;
    if let Some((run, state)) = &ended {
        session_pointer::end_session(world, session, &run.id);
        if !world.env.is_rehearsal() {
            cleaning_worker::clean_after_end(&world.home, &run.id);
            run_retrospective::learn_after_end(&world.home, run, state);
        }
        // The reply to this event cannot ring the bell.
        let _bell = notify::announce_end(world, run, RunStatus::Overridden, &how);
    }
    Ok(ended.is_some())
}

/// Records a failed access to a run as a fault.
pub fn record_run_fault(world: &World, run: &RunId, error: &StoreError) {
    faults::record_fault(
        &world.home,
        &Fault::new(FaultKind::File, &describe_error(error)).with_run(run),
    );
}

/// Text that only the first block of a run includes.
#[derive(Debug, Default)]
pub struct FirstBlockText {
    goal: Option<String>,
    adopted: Option<String>,
}

impl FirstBlockText {
    pub fn for_files(session: &SessionId) -> Self {
        let adopted = format!(
            "Files written by other tools hold this session, once per prompt. \
             A person can release it with `ralph cancel {session}`"
        );
        Self { goal: None, adopted: Some(adopted) }
    }

    pub fn reason_context<'a>(&'a self, redactor: &'a Redactor) -> ReasonContext<'a> {
        let Self { goal, adopted } = self;
        let (goal, adopted) = (goal.as_deref(), adopted.as_deref());
        ReasonContext { redactor, nonce: clock::nonce(), goal, adoption_notice: adopted }
    }
}

/// The goal and the notice of adoption. The goal is repeated after a compaction, because the agent lost it.
pub fn first_block_text(world: &World, opened: &LoadedRun) -> FirstBlockText {
    let LoadedRun { run, state, .. } = opened;
    if state.iteration != run.first_iteration && state.memory == AgentMemory::Whole {
        return FirstBlockText::default();
    }
    let goal = reminder::goal_excerpt(world, run);
    let is_first = state.iteration == run.first_iteration;
    let adopted = (is_first && run.origin == RunOrigin::Adopted).then(|| {
        let directory = run.features.first().map(String::as_str).unwrap_or_default();
        let shown = text::clean_line(
            &abbreviate_home(Path::new(directory), world.env.home().as_deref()),
            300,
        );
        let shown = shown.replace('`', "'");
        format!(
            "ralph now holds this session, and no other, to `{shown}` (run {}). \
             A person can release it with `ralph cancel {}`",
            run.id, run.id
        )
    });
    let adopted = adopted.or_else(|| {
        let is_of_session = is_first && run.origin == RunOrigin::Session;
        is_of_session.then(|| SESSION_HOLD_TEXT.to_string())
    });
    FirstBlockText { goal, adopted }
}

/// The process to record as owner. A second client that opens the same session does not take over the run.
pub fn owner_process(world: &World, state: &RunState) -> Option<ProcessIdentity> {
    let is_other_alive = state
        .process
        .is_some_and(|known| process_identity::check_liveness(&known) == Liveness::Alive);
    if is_other_alive { None } else { host_env::host_process(&world.env) }
}

fn unidentified_arrival(world: &World, snapshot: &TranscriptSnapshot) -> Option<u64> {
    snapshot.delivery.is_none().then_some(world.arrived_ms)
}

/// The journal record of a decision; the caller fills in the fields that only it knows.
pub fn decision_record(
    world: &World,
    decision: StopDecision,
    snapshot: &TranscriptSnapshot,
    redactor: &Redactor,
) -> StopRecord {
    StopRecord {
        mark: decision.mark,
        awaited_tree: decision.awaited_tree,
        arrived_ms: unidentified_arrival(world, snapshot),
        delivery: snapshot
            .delivery
            .map(|delivery| DeliveryId { stop: Digest64(delivery.stop), length: delivery.length }),
        report: decision.report,
        observed: snapshot.observed.clone().map(|observed| bound_checklist(observed, redactor)),
        process: host_env::host_process(&world.env),
        remedy: decision.remedy,
        cost: snapshot.cost.as_ref().map(|cost| cost.reading.clone()),
        ..StopRecord::new(decision.rule, decision.outcome, decision.because)
    }
}

/// Redacts and bounds the checklist before it is stored for the next stop.
fn bound_checklist(mut observed: TranscriptReading, redactor: &Redactor) -> TranscriptReading {
    if let Some(checklist) = &mut observed.checklist {
        checklist.items.truncate(MAX_CHECKLIST_ITEMS);
        for item in &mut checklist.items {
            item.text = text::truncate(&redactor.redact(&item.text), MAX_CHECKLIST_ITEM_CHARS);
        }
    }
    observed
}

/// Abbreviates the home directory as `~`.
fn abbreviate_home(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
