//! What a run spent on each day.

use ralph_sys::clock;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A run is bounded in time. Further days are not counted.
const MAX_DAYS: usize = 1000;
/// Every time zone differs from UTC by a multiple of this, so that a local day begins at such a boundary.
const DAY_STEP_MS: u64 = 15 * 60 * 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayTally {
    /// `2026-11-15`, in the time zone of the user.
    pub day: String,
    pub micro_usd: u64,
    pub tokens: u64,
    pub stops: u32,
    pub held: u32,
}

/// What one entry adds to its day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DayAddition {
    pub micro_usd: u64,
    pub tokens: u64,
    pub stops: u32,
    pub held: u32,
}

/// The local date of a time. Looking a date up in the zone database is slow, so the last one is remembered.
#[derive(Debug, Default)]
pub struct DayCache {
    step: Option<u64>,
    day: Arc<str>,
}

impl DayCache {
    fn day(&mut self, at_ms: u64) -> &str {
        let step = at_ms / DAY_STEP_MS;
        if self.step != Some(step) {
            self.day = clock::local_date(at_ms).into();
            self.step = Some(step);
        }
        &self.day
    }
}

pub(crate) fn add_to_day(
    days: &mut Vec<DayTally>,
    cache: &mut DayCache,
    at_ms: u64,
    add: DayAddition,
) {
    if add == DayAddition::default() {
        return;
    }
    let day = cache.day(at_ms);
    // Entries are nearly always in order of time.
    let at = days.iter().rposition(|known| known.day == day);
    if at.is_none() {
        if days.len() >= MAX_DAYS {
            return;
        }
        days.push(DayTally { day: day.to_string(), ..DayTally::default() });
    }
    let at = at.unwrap_or(days.len() - 1);
    if let Some(tally) = days.get_mut(at) {
        tally.micro_usd = tally.micro_usd.saturating_add(add.micro_usd);
        tally.tokens = tally.tokens.saturating_add(add.tokens);
        tally.stops = tally.stops.saturating_add(add.stops);
        tally.held = tally.held.saturating_add(add.held);
    }
}
