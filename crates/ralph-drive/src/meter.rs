//! What a session costs, from the host's own records and never from what a model says.
//!
//! A result line bills what was spent since the one before it, subagents and summaries included. The client's own
//! total is no measure across processes: a resumed session goes on with it, a killed one starts from nothing. So a
//! [`Tally`] adds up differences, on top of what the run's record already has.

use crate::wire::{Assistant, ModelUsage, Outcome};
use ralph_core::drive::{Meter, Metered, Settings, Source};
use ralph_core::id::SessionId;
use ralph_core::limits::Limits;
use ralph_core::run::{Driving, Spent};
use std::collections::BTreeMap;

/// Calls of one turn that are told apart; what is beyond them is known when the turn is billed.
const MOST_CALLS: usize = 10_000;
const LONGEST_ID: usize = 200;
/// One call never took more, whatever a line says.
const MOST_TOKENS: u64 = 1 << 40;

/// Where a tally starts.
#[derive(Clone, Debug)]
pub struct Opening {
    pub session: SessionId,
    pub source: Source,
    /// What the record has of this session; nothing for a fresh one.
    pub known: Spent,
    pub turns: u32,
    /// What the client's own totals are taken to begin with until it says what it [`carries`](Tally::carries).
    pub carried: Spent,
    /// See [`worst_turn`].
    pub worst_turn_micro_usd: u64,
}

/// What a result line says about money.
struct Bill {
    /// Of the client up to now.
    total_micro_usd: Option<u64>,
    total_tokens: Option<u64>,
    /// Since the line before.
    since: Option<Spent>,
    since_tokens: Option<u64>,
}

/// The meter of one process.
#[derive(Clone, Debug)]
pub struct Tally {
    opening: Opening,
    spent: Spent,
    turns: u32,
    meter: Meter,
    /// The client's own totals when it last told them.
    last: Option<Spent>,
    dearest: Option<Price>,
    in_flight: Turn,
}

/// The turn that is not billed yet.
#[derive(Clone, Debug, Default)]
struct Turn {
    is_asked: bool,
    calls: BTreeMap<String, u64>,
    /// What the client said in the middle of it that it has cost.
    told: Option<u64>,
}

/// Money for tokens, as a fraction.
#[derive(Clone, Copy, Debug)]
struct Price(Spent);

/// What the client is told to stop at by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeCaps {
    /// For `--max-budget-usd`, which counts this process alone, whatever the session cost before.
    pub max_budget_usd: Option<String>,
}

/// What a turn may cost: the dearest so far, and what the settings say before there was one.
pub fn worst_turn(driving: &Driving, settings: &Settings) -> u64 {
    match driving.worst_turn_micro_usd {
        0 => settings.worst_turn_micro_usd,
        seen => seen,
    }
}

/// What is left of the run's budget and of the day's, whichever is less. It never reads as no limit: a budget that
/// is spent leaves the smallest amount there is.
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
            // What is on record may be assumed, and a dollar for a hundred tokens is no price.
            dearest: None,
            in_flight: Turn::default(),
        }
    }

    /// What the client's own totals begin with.
    pub fn carries(&mut self, micro_usd: u64) {
        self.opening.carried.micro_usd = micro_usd;
    }

    /// The agent was given something to do.
    pub fn asked(&mut self) {
        self.in_flight.is_asked = true;
    }

    /// A line of the agent's or of a subagent's. What the model took in is counted once per message; what it put out
    /// is known when the turn is billed.
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

    /// The client's own total, in the middle of a turn: held in-band, a turn may last for hours before it is billed.
    pub fn told(&mut self, total_micro_usd: u64) {
        let reached = self.last.map_or(self.opening.carried.micro_usd, |last| last.micro_usd);
        self.in_flight.told = Some(grown(reached, total_micro_usd));
    }

    /// A turn came to its result.
    pub fn billed(&mut self, outcome: &Outcome) -> Metered {
        let bill = Bill::of(outcome);
        let heard = self.in_flight.tokens();
        self.in_flight = Turn::default();
        let nothing = (outcome.num_turns == Some(0)).then_some(0);
        let cost = self.micro_usd(&bill).or(nothing);
        let micro_usd = cost.unwrap_or(self.opening.worst_turn_micro_usd);
        let told = self.tokens(&bill).or(outcome.usage.map(|usage| usage.total()));
        let turn = Spent { micro_usd, tokens: told.map_or(heard, |told| told.max(heard)) };
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

    /// The process ended, or is about to be ended, before the turn came to its result. `None` where there was none.
    pub fn broken_off(&mut self) -> Option<Metered> {
        let turn = std::mem::take(&mut self.in_flight);
        let tokens = turn.tokens();
        if !turn.is_asked && tokens == 0 {
            return None;
        }
        let micro_usd = self.estimate(&turn);
        Some(self.charge(Spent { micro_usd, tokens }, Meter::Assumed))
    }

    /// The same in the middle of a turn, for a decision that cannot wait for its result. The turn is still to be
    /// billed, and may turn out cheaper.
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

    /// What the client told, else tokens at the dearest price there was, else the worst.
    fn estimate(&self, turn: &Turn) -> u64 {
        let tokens = turn.tokens();
        let by_price = self.dearest.filter(|_| tokens > 0).map(|price| price.times(tokens));
        turn.told.or(by_price).unwrap_or(self.opening.worst_turn_micro_usd)
    }

    pub fn session(&self) -> &SessionId {
        &self.opening.session
    }

    /// The session up to the last result.
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

    /// What the client's totals were before this result.
    fn reached(&self) -> Spent {
        self.last.unwrap_or(self.opening.carried)
    }

    fn micro_usd(&self, bill: &Bill) -> Option<u64> {
        let by_total = bill.total_micro_usd.map(|total| grown(self.reached().micro_usd, total));
        match bill.since {
            // The client's first total may begin with what somebody else spent, or with nothing.
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

/// A total that went down started again from nothing.
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
            // Tokens without a price: the total has to tell.
            since: since.filter(|since| since.micro_usd > 0 || since.tokens == 0),
            since_tokens: since.map(|since| since.tokens),
        }
    }
}

/// All that went in and out, from the cache or not. `None` where no model is named.
fn sum(models: &[ModelUsage]) -> Option<Spent> {
    let add = |sum, model: &ModelUsage| {
        plus(sum, Spent { micro_usd: model.micro_usd, tokens: model.usage.total() })
    };
    (!models.is_empty()).then(|| models.iter().fold(Spent::default(), add))
}

#[cfg(test)]
mod tests;
