//! The cost of a session, metered from the client's own figures and never from a model's text.
//!
//! A result line bills everything since the previous one, including subagents and compactions. The client's total
//! cannot be compared across processes: a resumed session continues it, a session that was killed starts again at zero.
//! So a [`CostTally`] adds up differences, on top of the cost that the run's journal already has.

use crate::wire::{Assistant, ModelUsage, Outcome};
use ralph_core::drive::{Meter, Metered, Settings, Source};
use ralph_core::id::SessionId;
use ralph_core::limits::Limits;
use ralph_core::run::{Driving, Spent};
use std::collections::BTreeMap;

/// Maximum number of calls that are counted individually in one turn; the rest is included in the turn's bill.
const MOST_CALLS: usize = 10_000;
const LONGEST_ID: usize = 200;
/// Upper bound for the tokens of one call, whatever the client reports.
const MOST_TOKENS: u64 = 1 << 40;

/// The initial values of a tally.
#[derive(Clone, Debug)]
pub struct Opening {
    pub session: SessionId,
    pub source: Source,
    /// The cost of this session on record; zero for a fresh one.
    pub known: Spent,
    pub turns: u32,
    /// The assumed start of the client's own totals, until [`set_carried`](CostTally::set_carried) replaces it.
    pub carried: Spent,
    /// See [`worst_turn_cost`].
    pub worst_turn_micro_usd: u64,
}

/// The cost figures of a result line.
struct Bill {
    /// The client's total so far.
    total_micro_usd: Option<u64>,
    total_tokens: Option<u64>,
    /// Cost since the previous result line.
    since: Option<Spent>,
    since_tokens: Option<u64>,
}

/// Adds up the cost of one process of the agent.
#[derive(Clone, Debug)]
pub struct Tally {
    opening: Opening,
    spent: Spent,
    turns: u32,
    meter: Meter,
    /// The client's own totals at the last result.
    last: Option<Spent>,
    dearest: Option<Price>,
    in_flight: Turn,
}

/// The turn in progress, which is not billed yet.
#[derive(Clone, Debug, Default)]
struct Turn {
    is_asked: bool,
    calls: BTreeMap<String, u64>,
    /// Its cost so far, if the client reported a total in the middle of it.
    told: Option<u64>,
}

/// A price as a fraction: cost per tokens.
#[derive(Clone, Copy, Debug)]
struct Price(Spent);

/// Limits that the client enforces itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeCaps {
    /// For `--max-budget-usd`, which applies to this process alone and ignores earlier costs of the session.
    pub max_budget_usd: Option<String>,
}

/// The assumed worst cost of a turn: that of the most expensive turn so far, or the configured value before the first.
pub fn worst_turn(driving: &Driving, settings: &Settings) -> u64 {
    match driving.worst_turn_micro_usd {
        0 => settings.worst_turn_micro_usd,
        seen => seen,
    }
}

/// The remaining budget of the run or of the day, whichever is less. A spent budget becomes the smallest possible
/// amount, so that it can never be read as "no limit".
pub fn native_caps(limits: &Limits, spent: Spent, left_today: Option<u64>) -> NativeCaps {
    let left = limits.max_cost_micro_usd.map(|most| most.saturating_sub(spent.micro_usd));
    let least = left.into_iter().chain(left_today).min();
    let text = least.map(|micro| micro.max(1)).map(|micro| {
        let (whole, rest) = (micro / 1_000_000, micro % 1_000_000);
        format!("{whole}.{rest:06}")
    });
    NativeCaps { max_budget_usd: text }
}

impl Tally {
    pub fn open(opening: Opening) -> Self {
        let Opening { known, turns, .. } = opening;
        Self {
            opening,
            spent: known,
            turns,
            meter: Meter::Told,
            last: None,
            // Not derived from the recorded cost: that may be an assumption.
            dearest: None,
            in_flight: Turn::default(),
        }
    }

    /// Sets the value that the client's own totals start from.
    pub fn carries(&mut self, micro_usd: u64) {
        self.opening.carried.micro_usd = micro_usd;
    }

    /// A turn has begun that may cost something.
    pub fn asked(&mut self) {
        self.in_flight.is_asked = true;
    }

    /// Counts the input tokens of a message of the agent or a subagent, once per message. Output tokens are known only
    /// when the turn is billed.
    pub fn called(&mut self, line: &Assistant) {
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
    pub fn told(&mut self, total_micro_usd: u64) {
        let reached = self.last.map_or(self.opening.carried.micro_usd, |last| last.micro_usd);
        self.in_flight.told = Some(grown(reached, total_micro_usd));
    }

    /// Bills a turn from its result.
    pub fn billed(&mut self, outcome: &Outcome) -> Metered {
        let bill = Bill::of(outcome);
        let counted = self.in_flight.tokens();
        self.in_flight = Turn::default();
        let nothing = (outcome.num_turns == Some(0)).then_some(0);
        let cost = self.micro_usd(&bill).or(nothing);
        let micro_usd = cost.unwrap_or(self.opening.worst_turn_micro_usd);
        let reported = self.tokens(&bill).or(outcome.usage.map(|usage| usage.total()));
        let turn =
            Spent { micro_usd, tokens: reported.map_or(counted, |tokens| tokens.max(counted)) };
        let reached = plus(self.reached(), turn);
        self.last = Some(Spent {
            micro_usd: bill.total_micro_usd.unwrap_or(reached.micro_usd),
            tokens: bill.total_tokens.unwrap_or(reached.tokens),
        });
        if cost.is_some() {
            self.dearest = dearer(self.dearest, Price::of(turn));
        }
        if nothing.is_none() {
            self.turns = self.turns.saturating_add(1);
        }
        self.charge(turn, if cost.is_some() { Meter::Told } else { Meter::Assumed })
    }

    /// Charges a turn that ends without a result because its process exited or is about to be killed. `None` if no turn
    /// was in progress.
    pub fn broken_off(&mut self) -> Option<Metered> {
        let turn = std::mem::take(&mut self.in_flight);
        let tokens = turn.tokens();
        if !turn.is_asked && tokens == 0 {
            return None;
        }
        let micro_usd = self.estimate(&turn);
        Some(self.charge(Spent { micro_usd, tokens }, Meter::Assumed))
    }

    /// The cost including an estimate of the turn in progress, for a decision that cannot wait for the result. The turn
    /// is billed later and may turn out cheaper.
    pub fn so_far(&self) -> Metered {
        let tokens = self.in_flight.tokens();
        let micro_usd = if tokens > 0 { self.estimate(&self.in_flight) } else { 0 };
        let meter = match self.in_flight.told {
            Some(_) => Meter::Told,
            None if tokens > 0 => Meter::Assumed,
            None => self.meter,
        };
        self.metered(plus(self.spent, Spent { micro_usd, tokens }), meter)
    }

    /// The client's figure, else the tokens at the highest price so far, else the worst case.
    fn estimate(&self, turn: &Turn) -> u64 {
        let tokens = turn.tokens();
        let by_price = self.dearest.filter(|_| tokens > 0).map(|price| price.times(tokens));
        turn.told.or(by_price).unwrap_or(self.opening.worst_turn_micro_usd)
    }

    pub fn session(&self) -> &SessionId {
        &self.opening.session
    }

    /// The cost of the session up to the last charge.
    pub fn spent(&self) -> Spent {
        self.spent
    }

    fn charge(&mut self, turn: Spent, meter: Meter) -> Metered {
        self.spent = plus(self.spent, turn);
        self.meter = meter;
        self.metered(self.spent, meter)
    }

    fn metered(&self, spent: Spent, meter: Meter) -> Metered {
        Metered {
            session: self.opening.session.clone(),
            source: self.opening.source,
            micro_usd: spent.micro_usd,
            tokens: spent.tokens,
            turns: self.turns,
            meter,
        }
    }

    /// The client's totals before this result.
    fn reached(&self) -> Spent {
        self.last.unwrap_or(self.opening.carried)
    }

    fn micro_usd(&self, bill: &Bill) -> Option<u64> {
        let by_total = bill.total_micro_usd.map(|total| grown(self.reached().micro_usd, total));
        match bill.since {
            // The client's first total may include the cost of another session, or start at zero.
            Some(since) if self.last.is_none() => Some(since.micro_usd),
            Some(since) => Some(since.micro_usd.max(by_total.unwrap_or(0))),
            None => by_total,
        }
    }

    fn tokens(&self, bill: &Bill) -> Option<u64> {
        let by_total = || bill.total_tokens.map(|total| grown(self.reached().tokens, total));
        bill.since_tokens.or_else(by_total)
    }
}

fn plus(one: Spent, other: Spent) -> Spent {
    Spent {
        micro_usd: one.micro_usd.saturating_add(other.micro_usd),
        tokens: one.tokens.saturating_add(other.tokens),
    }
}

/// The growth of a total. A total that went down was reset to zero in between.
fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

impl Turn {
    fn tokens(&self) -> u64 {
        self.calls.values().fold(0, |sum, tokens| sum.saturating_add(*tokens))
    }
}

impl Price {
    fn of(spent: Spent) -> Option<Self> {
        (spent.tokens > 0 && spent.micro_usd > 0).then_some(Self(spent))
    }

    /// Rounded up.
    fn times(self, tokens: u64) -> u64 {
        let Spent { micro_usd, tokens: per } = self.0;
        let product = u128::from(micro_usd) * u128::from(tokens);
        u64::try_from(product.div_ceil(u128::from(per.max(1)))).unwrap_or(u64::MAX)
    }
}

fn dearer(one: Option<Price>, other: Option<Price>) -> Option<Price> {
    let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
    let left = u128::from(a.0.micro_usd) * u128::from(b.0.tokens);
    let right = u128::from(b.0.micro_usd) * u128::from(a.0.tokens);
    Some(if left >= right { a } else { b })
}

impl Bill {
    fn of(outcome: &Outcome) -> Self {
        let since = sum(&outcome.since);
        Self {
            total_micro_usd: outcome.micro_usd,
            total_tokens: sum(&outcome.models).map(|models| models.tokens),
            // Tokens without a price are no bill: then the growth of the total is used.
            since: since.filter(|since| since.micro_usd > 0 || since.tokens == 0),
            since_tokens: since.map(|since| since.tokens),
        }
    }
}

/// The sum over all models, cached tokens included. `None` without any model.
fn sum(models: &[ModelUsage]) -> Option<Spent> {
    let add = |sum, model: &ModelUsage| {
        plus(sum, Spent { micro_usd: model.micro_usd, tokens: model.usage.total() })
    };
    (!models.is_empty()).then(|| models.iter().fold(Spent::default(), add))
}

#[cfg(test)]
mod tests;
