//! What the judges of a run have cost. A worker books the estimate of a call before it is made, and the cost when the call
//! has ended. Every stop records the total, so that a call is paid for even if no stop reads its verdict, or if its worker
//! was killed.

use super::gate_worker;
use ralph_core::drive::CostSource;
use ralph_core::id::RunId;
use ralph_core::judge::JudgeUsage;
use ralph_core::record::RunRecord;
use ralph_core::run::{RunState, Spending};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::ledger::{self, LEDGER_VERSION, LedgerEntry};
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::file_slot::SlotContent;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};

const METER_VERSION: u8 = 1;
const MAX_METER_BYTES: usize = 4096;

/// Content of `judge-meter.json`: the total so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JudgeMeter {
    v: u8,
    #[serde(flatten)]
    spent: Spending,
    /// The estimate of the call in progress. If the worker is killed before it books the cost, this is the cost.
    #[serde(default, skip_serializing_if = "Spending::is_zero")]
    estimate: Spending,
}

/// The total so far: that of the meter or of the journal, whichever is higher. An edit of the meter never lowers it.
pub fn judge_spending(home: &RalphHome, run: &RunRecord, state: &RunState) -> Spending {
    let has_judges = run.seal.as_ref().is_some_and(|seal| !seal.policy.judges.is_empty());
    let metered = has_judges.then(|| read_total(home, &run.id)).flatten();
    state.judges.spent.highest(metered.unwrap_or_default())
}

/// A call of a worker that is gone is part of the total.
fn read_total(home: &RalphHome, run: &RunId) -> Option<Spending> {
    let meter = read_meter(home, run)?;
    if meter.estimate.is_zero() {
        return Some(meter.spent);
    }
    let worker = gate_worker::read_worker_slot(home, run);
    // A worker books the cost before it releases its lock, so the second reading sees a call that ended meanwhile.
    let again = read_meter(home, run)?;
    let is_lost = matches!(worker, Ok(SlotContent::Free(_))) && again == meter;
    Some(if is_lost { meter.spent.plus(meter.estimate) } else { again.spent })
}

fn read_meter(home: &RalphHome, run: &RunId) -> Option<JudgeMeter> {
    let bytes = fs::read_if_exists(&home.run(run).judge_meter(), MAX_METER_BYTES).ok()??;
    let meter: JudgeMeter = serde_json::from_slice(&bytes).ok()?;
    (meter.v == METER_VERSION).then_some(meter)
}

/// Books a call that is about to be made. Only the worker of the run calls this and the functions below.
pub(super) fn book_estimate(
    home: &RalphHome,
    run: &RunRecord,
    state: &RunState,
    estimate: &JudgeUsage,
) {
    book_call(
        home,
        run,
        state,
        MeterChange { added: Spending::default(), estimate: cost_of(estimate) },
    );
}

/// Replaces the estimate of a call by its cost.
pub(super) fn book_cost(home: &RalphHome, run: &RunRecord, state: &RunState, used: &JudgeUsage) {
    book_call(
        home,
        run,
        state,
        MeterChange { added: cost_of(used), estimate: Spending::default() },
    );
}

/// Turns the estimate of a call into its cost if the worker that made the call was killed. The caller holds the lock of
/// the worker, so no other one can be making it.
pub(super) fn settle_lost_call(home: &RalphHome, run: &RunRecord, state: &RunState) {
    if let Some(meter) = read_meter(home, &run.id).filter(|meter| !meter.estimate.is_zero()) {
        book_call(
            home,
            run,
            state,
            MeterChange { added: meter.estimate, estimate: Spending::default() },
        );
    }
}

fn cost_of(usage: &JudgeUsage) -> Spending {
    Spending {
        micro_usd: usage.micro_usd.unwrap_or(0),
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
    }
}

/// A step of the meter: what is spent in addition, and the estimate from now on.
#[derive(Clone, Copy, Debug)]
struct MeterChange {
    added: Spending,
    estimate: Spending,
}

fn book_call(home: &RalphHome, run: &RunRecord, state: &RunState, change: MeterChange) {
    if let Err(error) = try_book(home, run, state, change) {
        // A limit would not count a lost cost, so it is a fault.
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run.id);
        faults::record_fault(home, &fault);
    }
}

fn try_book(
    home: &RalphHome,
    run: &RunRecord,
    state: &RunState,
    MeterChange { added, estimate }: MeterChange,
) -> Result<(), FileError> {
    let before = read_meter(home, &run.id);
    let was_estimated = before.is_some_and(|meter| !meter.estimate.is_zero());
    if added.is_zero() && estimate.is_zero() && !was_estimated {
        return Ok(());
    }
    let metered = before.map_or_else(Spending::default, |meter| meter.spent);
    let spent = state.judges.spent.highest(metered).plus(added);
    // First the ledger: a crash in between then counts nothing twice.
    if let Some(session) = state.owner(run) {
        let entry = LedgerEntry {
            v: LEDGER_VERSION,
            at_ms: 0,
            run: run.id.clone(),
            session: session.clone(),
            source: CostSource::Judge,
            micro_usd: added.micro_usd,
            reached_micro_usd: spent.micro_usd,
            tokens: added.tokens,
            estimated_micro_usd: estimate.micro_usd,
        };
        ledger::append_spending(home, clock::now_ms(), &entry)?;
    }
    let path = home.run(&run.id).judge_meter();
    let bytes = fs::encode_json(&path, &JudgeMeter { v: METER_VERSION, spent, estimate })?;
    fs::replace(&path, &bytes, Durability::Synced)
}
