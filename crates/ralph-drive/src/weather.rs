//! What to do about bad weather: a limit of the provider, a server that is overloaded, a network that is gone.
//!
//! Pure: the same happening under the same sky has the same forecast, chance included. Whoever drives puts a wait on
//! record before it begins and [`Drove::Woke`](ralph_core::drive::Drove::Woke) when it is over, since what was waited
//! before is counted from the record.

use ralph_core::drive::{Cause, Wait, Waits};
use ralph_core::id::RunId;
use ralph_core::limits::duration;
use ralph_core::run::Driving;
use ralph_core::status::Status;
use std::collections::BTreeMap;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The first wait for a server is at most this long, and each in a row at most twice as long as the one before.
const FIRST_BACKOFF: u64 = 5 * SECOND;
const LONGEST_BACKOFF: u64 = 10 * MINUTE;
/// Chance may make a wait short, but never so short that the waits have no end.
const SHORTEST_BACKOFF: u64 = SECOND;
/// For a limit that nobody told the end of.
const UNTOLD: u64 = HOUR;
/// No window is this long: a reset beyond it is a mistake and no plan.
const FARTHEST_RESET: u64 = 32 * DAY;
/// What an agent may declare to wait for at a time.
const LONGEST_DECLARED: u64 = DAY;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happened {
    pub cause: Cause,
    /// When it is over, if anybody told.
    pub resets_at_ms: Option<u64>,
    /// Waits since a turn last ended as it should.
    pub in_a_row: u32,
}

/// What a forecast is made from.
#[derive(Clone, Copy, Debug)]
pub struct Sky<'a> {
    /// Whose wait it is; also what its chance is drawn from.
    pub run: &'a RunId,
    pub waits: &'a Waits,
    pub driving: &'a Driving,
    pub now_ms: u64,
    /// Seconds since midnight on the person's clock at a moment, as
    /// [`ralph_exec::clock::local_second_of_day`] tells them.
    pub local: fn(u64) -> u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forecast {
    Wait(Wait),
    /// Nobody goes on until a person does.
    Park {
        status: Status,
        why: String,
    },
}

/// What is left of a wait that is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    DueNow,
    Ms(u64),
}

pub fn next(happened: Happened, sky: &Sky<'_>) -> Forecast {
    match happened.cause {
        Cause::RateLimit => limit(happened, sky),
        Cause::Overload | Cause::Network | Cause::Server => error(happened, sky),
        Cause::Declared => declared(happened, sky),
    }
}

/// A wait outlives whoever waits: after a reboot what is left of it is waited for, and a clock that was set back does
/// not make it longer than it was.
pub fn resume(wait: &Wait, now_ms: u64) -> Left {
    let planned = wait.until_ms.saturating_sub(wait.since_ms);
    match wait.until_ms.saturating_sub(now_ms).min(planned) {
        0 => Left::DueNow,
        left => Left::Ms(left),
    }
}

/// Why nobody goes on, once the window that was waited for is used as far as the person allowed. `windows` are the
/// thousandths that the provider told of each.
pub fn used_up(windows: &BTreeMap<String, u16>, sky: &Sky<'_>) -> Option<String> {
    let share = sky.waits.share_permille.filter(|_| sky.driving.resumes > 0)?;
    let used = match &sky.driving.window {
        Some(waited_for) => windows.get(waited_for),
        None => windows.values().max(),
    };
    let (used, allowed) = (used.filter(|used| **used >= share)? / 10, share / 10);
    Some(format!(
        "{used} % of the window that was waited for are used, and `max_window_share` allows {allowed} %: {}",
        sky.going_on()
    ))
}

/// Only if a person wants it, within the time and the number that they gave, and not in quiet hours.
fn limit(happened: Happened, sky: &Sky<'_>) -> Forecast {
    let Sky { waits, driving, now_ms, .. } = *sky;
    let park = |why: &str| {
        let lifted = sky.lifted(happened.resets_at_ms);
        let why = format!("{lifted}; {why}: {}", sky.going_on());
        Forecast::Park { status: Status::RateLimited, why }
    };
    if waits.limit_ms == 0 {
        return park("`wait_for_limits` is off");
    }
    if driving.resumes >= waits.resumes {
        return park(&format!("{} of {} limits were waited for", driving.resumes, waits.resumes));
    }
    let left = waits.limit_ms.saturating_sub(driving.waited_limit_ms);
    let reset = match happened.resets_at_ms {
        Some(reset) if sky.is_absurd(reset) => return park("nobody waits for that"),
        Some(reset) => reset.max(now_ms),
        None => now_ms.saturating_add(UNTOLD.min(left)),
    };
    let start = sky.after_quiet(reset);
    let quiet = if start > reset {
        format!(", and the quiet hours last until {}", sky.time(start))
    } else {
        String::new()
    };
    let latest = now_ms.saturating_add(left);
    let jittered = sky.after_quiet(start.saturating_add(sky.chance(happened, waits.jitter_ms)));
    // What chance adds is no reason to give up.
    let is_cut = jittered > latest && sky.after_quiet(latest) == latest;
    let until_ms = if is_cut { latest } else { jittered };
    if left == 0 || start > latest || until_ms > latest {
        let all = duration(waits.limit_ms);
        let used = duration(driving.waited_limit_ms);
        let used =
            if left < waits.limit_ms { format!(", {used} of them used") } else { String::new() };
        return park(&format!("`wait_for_limits` allows {all}{used}{quiet}"));
    }
    Forecast::Wait(Wait {
        cause: happened.cause,
        since_ms: now_ms,
        until_ms,
        attempt: sky.attempt(happened),
        why: format!("{}{quiet}", sky.lifted(happened.resets_at_ms)),
        window: None,
    })
}

/// Exponential, with chance over the whole of it: who was cut off together does not come back together.
fn error(happened: Happened, sky: &Sky<'_>) -> Forecast {
    let Sky { waits, driving, now_ms, .. } = *sky;
    let (status, says) = match happened.cause {
        Cause::Overload => (Status::RateLimited, "the provider is overloaded"),
        Cause::Network => (Status::Crashed, "the provider cannot be reached"),
        Cause::Server | Cause::RateLimit | Cause::Declared => {
            (Status::Crashed, "the provider fails")
        }
    };
    let left = waits.errors_ms.saturating_sub(driving.waited_errors_ms);
    let attempt = sky.attempt(happened);
    if left == 0 {
        let waited = match driving.waited_errors_ms {
            0 => "`wait_for_errors` is off".to_string(),
            ms => format!("{} were waited, as long as `wait_for_errors` allows", duration(ms)),
        };
        let why = format!("{says}; {waited}: {}", sky.going_on());
        return Forecast::Park { status, why };
    }
    let most = FIRST_BACKOFF
        .saturating_mul(1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX))
        .min(LONGEST_BACKOFF);
    let wait = SHORTEST_BACKOFF + sky.chance(happened, most - SHORTEST_BACKOFF);
    Forecast::Wait(Wait {
        cause: happened.cause,
        since_ms: now_ms,
        until_ms: now_ms.saturating_add(wait.min(left)),
        attempt,
        why: format!("{says}; trying again ({attempt} in a row)"),
        window: None,
    })
}

/// What the agent waits for is bounded by the time that the run has; a day at a time keeps one mistake small.
fn declared(happened: Happened, sky: &Sky<'_>) -> Forecast {
    let now_ms = sky.now_ms;
    let until = happened.resets_at_ms.unwrap_or_else(|| now_ms.saturating_add(UNTOLD));
    let until = until.clamp(now_ms, now_ms.saturating_add(LONGEST_DECLARED));
    Forecast::Wait(Wait {
        cause: Cause::Declared,
        since_ms: now_ms,
        until_ms: until,
        attempt: sky.attempt(happened),
        why: format!("the agent waits until {}", sky.time(until)),
        window: None,
    })
}

impl Sky<'_> {
    /// From 1. A wait that is still on record counts, whatever was forgotten since.
    fn attempt(&self, happened: Happened) -> u32 {
        let on_record = self.driving.wait.as_ref().filter(|wait| wait.cause == happened.cause);
        let before = on_record.map_or(0, |wait| wait.attempt).max(happened.in_a_row);
        before.saturating_add(1)
    }

    /// Uniform from 0 to `most`.
    fn chance(&self, happened: Happened, most: u64) -> u64 {
        // FNV-1a over what tells this wait from the others, and one round of splitmix64 to spread it.
        let Driving { resumes, waited_limit_ms, waited_errors_ms, .. } = self.driving;
        let numbers = [
            u64::from(self.attempt(happened)),
            u64::from(*resumes),
            *waited_limit_ms,
            *waited_errors_ms,
        ];
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        let bytes = self.run.as_str().bytes().chain(happened.cause.name().bytes()).chain(bytes);
        let mut mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        most.checked_add(1).map_or(mixed, |range| mixed % range)
    }

    /// The moment itself, or the end of the quiet hours that it is in.
    fn after_quiet(&self, ms: u64) -> u64 {
        let Some((from, to)) = self.waits.quiet.filter(|(from, to)| from != to) else { return ms };
        let (from, to) = (u32::from(from % 1440) * 60, u32::from(to % 1440) * 60);
        let mut at = ms;
        // Twice, because a clock may be put back meanwhile.
        for _ in 0..2 {
            let second = (self.local)(at) % 86_400;
            let is_quiet = if from < to {
                (from..to).contains(&second)
            } else {
                second >= from || second < to
            };
            if !is_quiet {
                break;
            }
            let wait = (to + 86_400 - second) % 86_400;
            at = at.saturating_add(u64::from(wait) * SECOND);
        }
        at
    }

    fn lifted(&self, resets_at_ms: Option<u64>) -> String {
        match resets_at_ms {
            Some(reset) if self.is_absurd(reset) => {
                "the provider tells no sensible time at which it lifts its limit".to_string()
            }
            Some(reset) if reset > self.now_ms => {
                format!("the provider lifts its limit at {}", self.time(reset))
            }
            Some(_) => "the provider's limit should be lifted already".to_string(),
            None => "the provider does not tell when it lifts its limit".to_string(),
        }
    }

    fn is_absurd(&self, reset: u64) -> bool {
        reset > self.now_ms.saturating_add(FARTHEST_RESET)
    }

    /// `06:05`, or `06:05, in 2 d 4 h`
    fn time(&self, ms: u64) -> String {
        let second = (self.local)(ms) % 86_400;
        let time = format!("{:02}:{:02}", second / 3600, second / 60 % 60);
        match ms.saturating_sub(self.now_ms) {
            left if left >= DAY => format!("{time}, in {}", duration(left)),
            _ => time,
        }
    }

    fn going_on(&self) -> String {
        format!("`ralph run --resume {}` goes on", self.run.as_str())
    }
}

#[cfg(test)]
mod tests;
