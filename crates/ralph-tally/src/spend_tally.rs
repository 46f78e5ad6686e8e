//! What a run has cost: by the meter of a runner, or by the readings at its stops.

use crate::journal_line::MeterLine;
use ralph_core::record::{CostBasis, CostReading};
use ralph_core::run::{AssumedSpending, RunState, Spending};
use serde::{Deserialize, Serialize};

/// How many of the latest sessions can still report their cost.
const MAX_SESSIONS: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpendTally {
    /// How many sessions a runner has started.
    pub sessions: u32,
    latest: Vec<SessionSpend>,
    /// The cost of the sessions before `latest`.
    before: Spending,
    /// The assumed part of `before`.
    before_assumed: u64,
    sum: Spending,
    estimated_micro_usd: Option<u64>,
    reported_micro_usd: Option<u64>,
    is_priced: bool,
    /// Whether any stop had a reading of the cost.
    has_reading: bool,
    /// The cost of judges.
    #[serde(default)]
    judges: Spending,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct SessionSpend {
    id: String,
    agent: Spending,
    gates: Spending,
    assumed: AssumedSpending,
}

impl SpendTally {
    pub(crate) fn from_state(state: &RunState) -> Self {
        let driving = &state.driving;
        let latest = driving.sessions.iter().map(|driven| SessionSpend {
            id: driven.session.id.to_string(),
            agent: driven.spent,
            gates: driven.gates,
            assumed: driven.assumed,
        });
        let cost = state.cost.as_ref();
        let mut spend = Self {
            sessions: driving.count,
            latest: latest.collect(),
            before: driving.before,
            before_assumed: driving.before_assumed_micro_usd,
            sum: Spending::default(),
            estimated_micro_usd: cost.and_then(|cost| cost.estimated_micro_usd),
            reported_micro_usd: cost.and_then(|cost| cost.reported_micro_usd),
            is_priced: cost.is_none_or(|cost| cost.unpriced.is_empty()),
            has_reading: cost.is_some(),
            judges: state.judges.spent,
        };
        spend.add_up();
        spend
    }

    /// The total, or what is known of it.
    pub(crate) fn total(&self) -> Spending {
        let (micro_usd, tokens) = (self.micro_usd().unwrap_or(0), self.sum.tokens);
        Spending { micro_usd, tokens }
    }

    /// `None` if no cost is known.
    pub fn micro_usd(&self) -> Option<u64> {
        if self.sessions > 0 {
            return Some(self.sum.micro_usd);
        }
        let priced = self.estimated_micro_usd.filter(|estimate| *estimate > 0 || self.is_priced);
        self.judges.added_to(self.reported_micro_usd.max(priced))
    }

    /// The total of all judges so far.
    pub(crate) fn set_judges(&mut self, spent: Spending) {
        self.judges = self.judges.highest(spent);
        self.add_up();
    }

    /// How the cost is known, as [`LimitUsage::recorded`](ralph_core::limits::LimitUsage::recorded) has it.
    pub fn cost_basis(&self) -> CostBasis {
        if self.sessions > 0 {
            let assumed = self.latest.iter().map(|session| session.assumed.micro_usd);
            let assumed = assumed.fold(self.before_assumed, u64::saturating_add);
            return CostBasis::of_metered(self.sum.micro_usd, assumed);
        }
        if !self.has_reading {
            return CostBasis::Reported.with_judges(None, self.judges.micro_usd);
        }
        let reading = CostReading {
            estimated_micro_usd: self.estimated_micro_usd,
            reported_micro_usd: self.reported_micro_usd,
            unpriced: if self.is_priced { Vec::new() } else { vec![String::new()] },
            ..CostReading::default()
        };
        reading.basis().with_judges(reading.spent_micro_usd(), self.judges.micro_usd)
    }

    /// `None` if no runner meters the tokens.
    pub fn tokens(&self) -> Option<u64> {
        (self.sessions > 0).then_some(self.sum.tokens)
    }

    pub(crate) fn merge_cost(
        &mut self,
        estimated_micro_usd: Option<u64>,
        reported_micro_usd: Option<u64>,
        is_priced: bool,
    ) {
        self.estimated_micro_usd = self.estimated_micro_usd.max(estimated_micro_usd);
        self.reported_micro_usd = self.reported_micro_usd.max(reported_micro_usd);
        self.is_priced = is_priced;
        self.has_reading = true;
    }

    pub(crate) fn begin_session(&mut self, id: &str) {
        let known = self.latest.iter().position(|session| session.id == id);
        let session = if let Some(at) = known {
            let mut session = self.latest.remove(at);
            session.assumed.begin_process();
            session
        } else {
            self.sessions = self.sessions.saturating_add(1);
            SessionSpend { id: id.to_string(), ..SessionSpend::default() }
        };
        self.latest.push(session);
        if self.latest.len() > MAX_SESSIONS {
            let old = self.latest.remove(0);
            self.before = plus(plus(self.before, old.agent), old.gates);
            self.before_assumed = self.before_assumed.saturating_add(old.assumed.micro_usd);
        }
    }

    /// A meter that goes backwards was reset. Recorded spending never decreases.
    pub(crate) fn add_reading(&mut self, meter: &MeterLine<'_>) {
        let is_it = |session: &&mut SessionSpend| session.id == meter.session.as_str();
        let Some(session) = self.latest.iter_mut().rev().find(is_it) else { return };
        let is_gate = meter.source.as_str() == "gate";
        if !is_gate {
            session.assumed.add_reading(session.agent.micro_usd, meter.micro_usd, meter.meter);
        }
        let known = if is_gate { &mut session.gates } else { &mut session.agent };
        known.micro_usd = known.micro_usd.max(meter.micro_usd);
        known.tokens = known.tokens.max(meter.tokens);
        self.add_up();
    }

    fn add_up(&mut self) {
        let add = |sum, session: &SessionSpend| plus(plus(sum, session.agent), session.gates);
        self.sum = self.latest.iter().fold(plus(self.before, self.judges), add);
    }
}

fn plus(left: Spending, right: Spending) -> Spending {
    Spending {
        micro_usd: left.micro_usd.saturating_add(right.micro_usd),
        tokens: left.tokens.saturating_add(right.tokens),
    }
}
