//! What the judges of a run have cost. A worker adds to the meter when a verdict is in, and every stop records it, so that
//! a verdict that no stop ever read is paid for as well.

use ralph_core::drive::CostSource;
use ralph_core::id::RunId;
use ralph_core::judge::JudgeUsage;
use ralph_core::record::RunRecord;
use ralph_core::run::{RunState, Spending};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::ledger::{self, LEDGER_VERSION, LedgerEntry};
use ralph_home::paths::RalphHome;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability, FileError};
use serde::{Deserialize, Serialize};

const METER_VERSION: u8 = 1;
const MAX_METER_BYTES: usize = 4096;

/// Content of `judge-meter.json`: the total so far.
#[derive(Debug, Serialize, Deserialize)]
struct JudgeMeter {
    v: u8,
    #[serde(flatten)]
    spent: Spending,
}

/// The total so far: that of the meter or of the journal, whichever is higher. An edit of the meter never lowers it.
pub fn judge_spending(home: &RalphHome, run: &RunRecord, state: &RunState) -> Spending {
    let has_judges = run.seal.as_ref().is_some_and(|seal| !seal.policy.judges.is_empty());
    let metered = has_judges.then(|| read_meter(home, &run.id)).flatten();
    state.judges.spent.highest(metered.unwrap_or_default())
}

fn read_meter(home: &RalphHome, run: &RunId) -> Option<Spending> {
    let bytes = fs::read_if_exists(&home.run(run).judge_meter(), MAX_METER_BYTES).ok()??;
    let meter: JudgeMeter = serde_json::from_slice(&bytes).ok()?;
    (meter.v == METER_VERSION).then_some(meter.spent)
}

/// Adds the cost of one verdict, to the run and to the ledger of the day. Called by the one worker of the run.
pub(super) fn charge_verdict(
    home: &RalphHome,
    run: &RunRecord,
    state: &RunState,
    usage: &JudgeUsage,
) {
    if let Err(error) = try_charge(home, run, state, usage) {
        // A limit would not count a lost cost, so it is a fault.
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(&run.id);
        faults::record_fault(home, &fault);
    }
}

fn try_charge(
    home: &RalphHome,
    run: &RunRecord,
    state: &RunState,
    usage: &JudgeUsage,
) -> Result<(), FileError> {
    let added = Spending {
        micro_usd: usage.micro_usd.unwrap_or(0),
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
    };
    if added == Spending::default() {
        return Ok(());
    }
    let spent = judge_spending(home, run, state).plus(added);
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
        };
        ledger::append_spending(home, clock::now_ms(), &entry)?;
    }
    let path = home.run(&run.id).judge_meter();
    let bytes = fs::encode_json(&path, &JudgeMeter { v: METER_VERSION, spent })?;
    fs::replace(&path, &bytes, Durability::Cached)
}
