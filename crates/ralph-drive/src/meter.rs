//! The cost of a session, metered from the client's own figures and never from a model's text.
//!
//! A result line bills everything since the previous one, including subagents and compactions. The client's total
//! cannot be compared across processes: a resumed session continues it, a session that was killed starts again at zero.
//! So a [`CostTally`] adds up differences, on top of the cost that the run's journal already has.

use ralph_core::drive::{CostSource, DriveSettings, MeterBasis, MeterReading};
use ralph_core::id::SessionId;
use ralph_core::limits::RunLimits;
use ralph_core::run::{DriveState, Spending};
use ralph_host::stream::{StreamAssistant, StreamModelUsage, TurnResult};
use std::collections::BTreeMap;

/// Maximum number of calls that are counted individually in one turn; the rest is included in the turn's bill.
const MOST_CALLS: usize = 10_000;
const LONGEST_ID: usize = 200;
/// Upper bound for the tokens of one call, whatever the client reports.
const MOST_TOKENS: u64 = 1 << 40;

/// The initial values of a tally.
#[derive(Clone, Debug)]
pub struct TallyStart {
    pub session: SessionId,
    pub source: CostSource,
    /// The cost of this session on record; zero for a fresh one.
    pub known: Spending,
    pub turns: u32,
    /// The assumed start of the client's own totals, until [`set_carried`](CostTally::set_carried) replaces it.
    pub carried: Spending,
    /// See [`worst_turn_cost`].
    pub worst_turn_micro_usd: u64,
}

/// The cost figures of a result line.
struct ResultBill {
    /// The client's total so far.
    total_micro_usd: Option<u64>,
    total_tokens: Option<u64>,
    /// Cost since the previous result line.
    since: Option<Spending>,
    since_tokens: Option<u64>,
}

/// Adds up the cost of one process of the agent.
#[derive(Clone, Debug)]
pub struct CostTally {
    start: TallyStart,
    spent: Spending,
    turns: u32,
    meter: MeterBasis,
    /// The client's own totals at the last result.
    last: Option<Spending>,
    highest_price: Option<TokenPrice>,
    in_flight: UnbilledTurn,
}

/// The turn in progress, which is not billed yet.
#[derive(Clone, Debug, Default)]
struct UnbilledTurn {
    has_started: bool,
    calls: BTreeMap<String, u64>,
    /// Its cost so far, if the client reported a total in the middle of it.
    reported_micro_usd: Option<u64>,
}

/// A price as a fraction: cost per tokens.
#[derive(Clone, Copy, Debug)]
struct TokenPrice(Spending);

/// Limits that the client enforces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeCaps {
    /// For `--max-budget-usd`, which applies to this process alone and ignores earlier costs of the session.
    pub max_budget_usd: Option<String>,
}

/// The assumed worst cost of a turn: that of the most expensive turn so far, or the configured value before the first.
pub fn worst_turn_cost(driving: &DriveState, settings: &DriveSettings) -> u64 {
    match driving.worst_turn_micro_usd {
        0 => settings.worst_turn_micro_usd,
        seen => seen,
    }
}

/// The remaining budget of the run or of the day, whichever is less. A spent budget becomes the smallest possible
/// amount, so that it can never be read as "no limit".
pub fn native_caps(limits: &RunLimits, spent: Spending, left_today: Option<u64>) -> NativeCaps {
    let left = limits.max_cost_micro_usd.map(|most| most.saturating_sub(spent.micro_usd));
    let least = left.into_iter().chain(left_today).min();
    let text = least.map(|micro| micro.max(1)).map(|micro| {
        let (whole, rest) = (micro / 1_000_000, micro % 1_000_000);
        format!("{whole}.{rest:06}")
    });
    NativeCaps { max_budget_usd: text }
}

impl CostTally {
    pub fn new(opening: TallyStart) -> Self {
        let TallyStart { known, turns, .. } = opening;
        Self {
            start: opening,
            spent: known,
            turns,
            meter: MeterBasis::Told,
            last: None,
            // Not derived from the recorded cost: that may be an assumption.
            highest_price: None,
            in_flight: UnbilledTurn::default(),
        }
    }

    /// Sets the value that the client's own totals start from.
    pub fn set_carried(&mut self, micro_usd: u64) {
        self.start.carried.micro_usd = micro_usd;
    }

    /// A turn has begun that may cost something.
    pub fn turn_started(&mut self) {
        self.in_flight.has_started = true;
    }

    /// Counts the input tokens of a message of the agent or a subagent, once per message. Output tokens are known only
    /// when the turn is billed.
    pub fn count_call(&mut self, line: &StreamAssistant) {
        let (Some(id), Some(usage)) = (&line.message, &line.usage) else { return };
        let calls = &mut self.in_flight.calls;
        let is_known = calls.contains_key(id);
        if id.len() > LONGEST_ID || (calls.len() >= MOST_CALLS && !is_known) {
            return;
        }
        let known = calls.entry(id.clone()).or_default();
        *known = usage.total().min(MOST_TOKENS).max(*known);
    }

    /// Takes the client's own total in the middle of a turn. With stops held in-band, hours may pass before a turn is
    /// billed.
    pub fn set_turn_total(&mut self, total_micro_usd: u64) {
        let reached = self.last.map_or(self.start.carried.micro_usd, |last| last.micro_usd);
        self.in_flight.reported_micro_usd = Some(total_growth(reached, total_micro_usd));
    }

    /// Bills a turn from its result.
    pub fn bill_turn(&mut self, outcome: &TurnResult) -> MeterReading {
        let bill = ResultBill::from_result(outcome);
        let counted = self.in_flight.tokens();
        self.in_flight = UnbilledTurn::default();
        let nothing = (outcome.num_turns == Some(0)).then_some(0);
        let cost = self.micro_usd(&bill).or(nothing);
        let micro_usd = cost.unwrap_or(self.start.worst_turn_micro_usd);
        let reported = self.tokens(&bill).or(outcome.usage.map(|usage| usage.total()));
        let turn =
            Spending { micro_usd, tokens: reported.map_or(counted, |tokens| tokens.max(counted)) };
        let reached = add_spent(self.last_totals(), turn);
        self.last = Some(Spending {
            micro_usd: bill.total_micro_usd.unwrap_or(reached.micro_usd),
            tokens: bill.total_tokens.unwrap_or(reached.tokens),
        });
        if cost.is_some() {
            self.highest_price = higher_price(self.highest_price, TokenPrice::from_spent(turn));
        }
        if nothing.is_none() {
            self.turns = self.turns.saturating_add(1);
        }
        self.charge(turn, if cost.is_some() { MeterBasis::Told } else { MeterBasis::Assumed })
    }

    /// Charges a turn that ends without a result because its process exited or is about to be killed. `None` if no turn
    /// was in progress.
    pub fn charge_unfinished_turn(&mut self) -> Option<MeterReading> {
        let turn = std::mem::take(&mut self.in_flight);
        let tokens = turn.tokens();
        if !turn.has_started && tokens == 0 {
            return None;
        }
        let micro_usd = self.estimate(&turn);
        Some(self.charge(Spending { micro_usd, tokens }, MeterBasis::Assumed))
    }

    /// The cost including an estimate of the turn in progress, for a decision that cannot wait for the result. The turn
    /// is billed later and may turn out cheaper.
    pub fn estimate_so_far(&self) -> MeterReading {
        let tokens = self.in_flight.tokens();
        let micro_usd = if tokens > 0 { self.estimate(&self.in_flight) } else { 0 };
        let meter = match self.in_flight.reported_micro_usd {
            Some(_) => MeterBasis::Told,
            None if tokens > 0 => MeterBasis::Assumed,
            None => self.meter,
        };
        self.metered(add_spent(self.spent, Spending { micro_usd, tokens }), meter)
    }

    /// The client's figure, else the tokens at the highest price so far, else the worst case.
    fn estimate(&self, turn: &UnbilledTurn) -> u64 {
        let tokens = turn.tokens();
        let by_price = self.highest_price.filter(|_| tokens > 0).map(|price| price.cost_of(tokens));
        turn.reported_micro_usd.or(by_price).unwrap_or(self.start.worst_turn_micro_usd)
    }

    pub fn session(&self) -> &SessionId {
        &self.start.session
    }

    /// The cost of the session up to the last charge.
    pub fn spent(&self) -> Spending {
        self.spent
    }

    fn charge(&mut self, turn: Spending, meter: MeterBasis) -> MeterReading {
        self.spent = add_spent(self.spent, turn);
        self.meter = meter;
        self.metered(self.spent, meter)
    }

    fn metered(&self, spent: Spending, meter: MeterBasis) -> MeterReading {
        MeterReading {
            session: self.start.session.clone(),
            source: self.start.source,
            micro_usd: spent.micro_usd,
            tokens: spent.tokens,
            turns: self.turns,
            meter,
        }
    }

    /// The client's totals before this result.
    fn last_totals(&self) -> Spending {
        self.last.unwrap_or(self.start.carried)
    }

    fn micro_usd(&self, bill: &ResultBill) -> Option<u64> {
        let by_total =
            bill.total_micro_usd.map(|total| total_growth(self.last_totals().micro_usd, total));
        match bill.since {
            // The client's first total may include the cost of another session, or start at zero.
            Some(since) if self.last.is_none() => Some(since.micro_usd),
            Some(since) => Some(since.micro_usd.max(by_total.unwrap_or(0))),
            None => by_total,
        }
    }

    fn tokens(&self, bill: &ResultBill) -> Option<u64> {
        let by_total =
            || bill.total_tokens.map(|total| total_growth(self.last_totals().tokens, total));
        bill.since_tokens.or_else(by_total)
    }
}

fn add_spent(one: Spending, other: Spending) -> Spending {
    Spending {
        micro_usd: one.micro_usd.saturating_add(other.micro_usd),
        tokens: one.tokens.saturating_add(other.tokens),
    }
}

/// The growth of a total. A total that went down was reset to zero in between.
fn total_growth(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

impl UnbilledTurn {
    fn tokens(&self) -> u64 {
        self.calls.values().fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }
}

impl TokenPrice {
    fn from_spent(spent: Spending) -> Option<Self> {
        (spent.tokens > 0 && spent.micro_usd > 0).then_some(Self(spent))
    }

    /// Rounded up.
    fn cost_of(self, tokens: u64) -> u64 {
        let Spending { micro_usd, tokens: per } = self.0;
        let product = u128::from(micro_usd) * u128::from(tokens);
        u64::try_from(product.div_ceil(u128::from(per.max(1)))).unwrap_or(u64::MAX)
    }
}

fn higher_price(one: Option<TokenPrice>, other: Option<TokenPrice>) -> Option<TokenPrice> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    let left = u128::from(a.0.micro_usd) * u128::from(b.0.tokens);
    let right = u128::from(b.0.micro_usd) * u128::from(a.0.tokens);
    Some(if left >= right { a } else { b })
}

impl ResultBill {
    fn from_result(outcome: &TurnResult) -> Self {
        let since = sum_usage(&outcome.since);
        Self {
            total_micro_usd: outcome.micro_usd,
            total_tokens: sum_usage(&outcome.models).map(|models| models.tokens),
            // Tokens without a price are no bill: then the growth of the total is used.
            since: since.filter(|since| since.micro_usd > 0 || since.tokens == 0),
            since_tokens: since.map(|since| since.tokens),
        }
    }
}

/// The sum over all models, cached tokens included. `None` without any model.
fn sum_usage(models: &[StreamModelUsage]) -> Option<Spending> {
    let add = |sum, model: &StreamModelUsage| {
        add_spent(sum, Spending { micro_usd: model.micro_usd, tokens: model.usage.total() })
    };
    (!models.is_empty()).then(|| models.iter().fold(Spending::default(), add))
}

#[cfg(test)]
mod tests;
