//! Backoff policy: whether and how long to wait after a rate limit, an overload, a network failure or a server error.
//!
//! Pure: the same input gives the same plan, jitter included. The run loop records a wait before it begins and again
//! when it is over, because the time already waited is computed from the journal.

use ralph_core::drive::{PlannedWait, WaitCause, WaitLimits};
use ralph_core::id::RunId;
use ralph_core::run::DriveState;
use ralph_core::status::RunStatus;
use ralph_core::units::format_duration;
use std::collections::BTreeMap;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Upper bound of the first wait after an error. The bound doubles with every consecutive error.
const FIRST_BACKOFF: u64 = 5 * SECOND;
const LONGEST_BACKOFF: u64 = 10 * MINUTE;
/// Jitter never makes a wait shorter than this: every wait must use up some of the time that is allowed.
const SHORTEST_BACKOFF: u64 = SECOND;
/// The wait for a limit without a known reset time.
const UNKNOWN_RESET: u64 = HOUR;
/// No rate-limit window is this long: a reset time further away is an error and is not waited for.
const FARTHEST_RESET: u64 = 32 * DAY;
/// The longest wait that an agent may declare at a time.
const LONGEST_DECLARED: u64 = DAY;

/// The event that requires a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryTrigger {
    pub cause: WaitCause,
    /// When it is over, if known.
    pub resets_at_ms: Option<u64>,
    /// Number of waits since the last turn that ended normally.
    pub in_a_row: u32,
}

/// The state and settings that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct RetryContext<'a> {
    /// The run that waits; its id also seeds the jitter.
    pub run: &'a RunId,
    pub waits: &'a WaitLimits,
    pub driving: &'a DriveState,
    pub now_ms: u64,
    /// Seconds since local midnight at a given time in milliseconds.
    pub local_second_of_day: fn(u64) -> u32,
}

/// The decision of the backoff policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryPlan {
    Wait(PlannedWait),
    /// Stop driving until a person resumes the run.
    Park {
        status: RunStatus,
        why: String,
    },
}

/// The remainder of a recorded wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemainingWait {
    DueNow,
    Ms(u64),
}

/// Decides whether to wait, and how long, or to park the run.
pub fn plan_retry(trigger: RetryTrigger, ctx: &RetryContext<'_>) -> RetryPlan {
    match trigger.cause {
        WaitCause::RateLimit => plan_for_limit(trigger, ctx),
        WaitCause::Overload | WaitCause::Network | WaitCause::Server => {
            plan_for_error(trigger, ctx)
        }
        WaitCause::Declared => plan_for_declared_wait(trigger, ctx),
    }
}

/// The remainder of a wait that a previous runner may have begun. A clock that was set back does not make it longer
/// than planned.
pub fn remaining_wait(wait: &PlannedWait, now_ms: u64) -> RemainingWait {
    let planned = wait.until_ms.saturating_sub(wait.since_ms);
    match wait.until_ms.saturating_sub(now_ms).min(planned) {
        0 => RemainingWait::DueNow,
        left => RemainingWait::Ms(left),
    }
}

/// The reason to park if the rate-limit window that was waited for is used up to the share that the person allowed.
/// `windows` maps each window to its use in thousandths, as reported by the provider.
pub fn window_exhausted(windows: &BTreeMap<String, u16>, ctx: &RetryContext<'_>) -> Option<String> {
    let share = ctx.waits.share_permille.filter(|_| ctx.driving.resumes > 0)?;
    let used = match &ctx.driving.window {
        Some(waited_for) => windows.get(waited_for),
        None => windows.values().max(),
    };
    let (used, allowed) = (used.filter(|used| **used >= share)? / 10, share / 10);
    Some(format!(
        "{used} % of the rate-limit window is used, and `max_window_share` allows {allowed} %: {}",
        ctx.resume_hint()
    ))
}

/// Waits for a rate limit only if a person enabled it, within the allowed time and number, and not in quiet hours.
fn plan_for_limit(trigger: RetryTrigger, ctx: &RetryContext<'_>) -> RetryPlan {
    let RetryContext { waits, driving, now_ms, .. } = *ctx;
    let park = |why: &str| {
        let lifted = ctx.describe_reset(trigger.resets_at_ms);
        let why = format!("{lifted}; {why}: {}", ctx.resume_hint());
        RetryPlan::Park { status: RunStatus::RateLimited, why }
    };
    if waits.limit_ms == 0 {
        return park("`wait_for_limits` is off");
    }
    if driving.resumes >= waits.resumes {
        return park(&format!(
            "already waited for {} of {} limits",
            driving.resumes, waits.resumes
        ));
    }
    let left = waits.limit_ms.saturating_sub(driving.waited_limit_ms);
    let reset = match trigger.resets_at_ms {
        Some(reset) if ctx.is_implausible(reset) => {
            return park("that is too far away to wait for");
        }
        Some(reset) => reset.max(now_ms),
        None => now_ms.saturating_add(UNKNOWN_RESET.min(left)),
    };
    let start = ctx.after_quiet_hours(reset);
    let quiet = if start > reset {
        format!(", and quiet hours last until {}", ctx.clock_time(start))
    } else {
        String::new()
    };
    let latest = now_ms.saturating_add(left);
    let jittered =
        ctx.after_quiet_hours(start.saturating_add(ctx.jitter(trigger, waits.jitter_ms)));
    // Jitter alone is no reason to give up.
    let is_cut = jittered > latest && ctx.after_quiet_hours(latest) == latest;
    let until_ms = if is_cut { latest } else { jittered };
    if left == 0 || start > latest || until_ms > latest {
        let all = format_duration(waits.limit_ms);
        let used = format_duration(driving.waited_limit_ms);
        let used =
            if left < waits.limit_ms { format!(", {used} already used") } else { String::new() };
        return park(&format!("`wait_for_limits` allows {all}{used}{quiet}"));
    }
    RetryPlan::Wait(PlannedWait {
        cause: trigger.cause,
        since_ms: now_ms,
        until_ms,
        attempt: ctx.attempt(trigger),
        why: format!("{}{quiet}", ctx.describe_reset(trigger.resets_at_ms)),
        window: None,
    })
}

/// Exponential backoff with full jitter, so that runs that failed at the same time do not retry at the same time.
fn plan_for_error(trigger: RetryTrigger, ctx: &RetryContext<'_>) -> RetryPlan {
    let RetryContext { waits, driving, now_ms, .. } = *ctx;
    let (status, what) = match trigger.cause {
        WaitCause::Overload => (RunStatus::RateLimited, "the provider is overloaded"),
        WaitCause::Network => (RunStatus::Crashed, "the provider cannot be reached"),
        WaitCause::Server | WaitCause::RateLimit | WaitCause::Declared => {
            (RunStatus::Crashed, "the provider returns errors")
        }
    };
    let left = waits.errors_ms.saturating_sub(driving.waited_errors_ms);
    let attempt = ctx.attempt(trigger);
    if left == 0 {
        let waited = match driving.waited_errors_ms {
            0 => "`wait_for_errors` is off".to_string(),
            ms => format!("waited {}, as long as `wait_for_errors` allows", format_duration(ms)),
        };
        let why = format!("{what}; {waited}: {}", ctx.resume_hint());
        return RetryPlan::Park { status, why };
    }
    let most = FIRST_BACKOFF
        .saturating_mul(1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX))
        .min(LONGEST_BACKOFF);
    let wait = SHORTEST_BACKOFF + ctx.jitter(trigger, most - SHORTEST_BACKOFF);
    RetryPlan::Wait(PlannedWait {
        cause: trigger.cause,
        since_ms: now_ms,
        until_ms: now_ms.saturating_add(wait.min(left)),
        attempt,
        why: format!("{what}; retrying (attempt {attempt})"),
        window: None,
    })
}

/// A declared wait is bounded by the run's time limit; the cap of one day limits the damage of a mistake.
fn plan_for_declared_wait(trigger: RetryTrigger, ctx: &RetryContext<'_>) -> RetryPlan {
    let now_ms = ctx.now_ms;
    let until = trigger.resets_at_ms.unwrap_or_else(|| now_ms.saturating_add(UNKNOWN_RESET));
    let until = until.clamp(now_ms, now_ms.saturating_add(LONGEST_DECLARED));
    RetryPlan::Wait(PlannedWait {
        cause: WaitCause::Declared,
        since_ms: now_ms,
        until_ms: until,
        attempt: ctx.attempt(trigger),
        why: format!("the agent waits until {}", ctx.clock_time(until)),
        window: None,
    })
}

impl RetryContext<'_> {
    /// Counted from 1. Includes a wait that is still on record, even if this process does not remember it.
    fn attempt(&self, trigger: RetryTrigger) -> u32 {
        let on_record = self.driving.wait.as_ref().filter(|wait| wait.cause == trigger.cause);
        let before = on_record.map_or(0, |wait| wait.attempt).max(trigger.in_a_row);
        before.saturating_add(1)
    }

    /// Uniform from 0 to `most`.
    fn jitter(&self, trigger: RetryTrigger, most: u64) -> u64 {
        // FNV-1a over everything that distinguishes this wait, then one round of splitmix64 to spread the bits.
        let DriveState { resumes, waited_limit_ms, waited_errors_ms, .. } = self.driving;
        let numbers = [
            u64::from(self.attempt(trigger)),
            u64::from(*resumes),
            *waited_limit_ms,
            *waited_errors_ms,
        ];
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        let bytes = self.run.as_str().bytes().chain(trigger.cause.name().bytes()).chain(bytes);
        let mut mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        most.checked_add(1).map_or(mixed, |range| mixed % range)
    }

    /// The given time, or the end of the quiet hours that it falls into.
    fn after_quiet_hours(&self, ms: u64) -> u64 {
        let Some((from, to)) = self.waits.quiet.filter(|(from, to)| from != to) else { return ms };
        let (from, to) = (u32::from(from % 1440) * 60, u32::from(to % 1440) * 60);
        let mut at = ms;
        // Twice, because the local clock may be set back in between (daylight saving time).
        for _ in 0..2 {
            let second = (self.local_second_of_day)(at) % 86_400;
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

    fn describe_reset(&self, resets_at_ms: Option<u64>) -> String {
        match resets_at_ms {
            Some(reset) if self.is_implausible(reset) => {
                "the provider reports an implausible reset time for its limit".to_string()
            }
            Some(reset) if reset > self.now_ms => {
                format!("the provider's limit resets at {}", self.clock_time(reset))
            }
            Some(_) => "the provider's limit should have been reset already".to_string(),
            None => "the provider does not report when its limit resets".to_string(),
        }
    }

    fn is_implausible(&self, reset: u64) -> bool {
        reset > self.now_ms.saturating_add(FARTHEST_RESET)
    }

    /// `06:05`, or `06:05, in 2 d 4 h`
    fn clock_time(&self, ms: u64) -> String {
        let second = (self.local_second_of_day)(ms) % 86_400;
        let time = format!("{:02}:{:02}", second / 3600, second / 60 % 60);
        match ms.saturating_sub(self.now_ms) {
            left if left >= DAY => format!("{time}, in {}", format_duration(left)),
            _ => time,
        }
    }

    fn resume_hint(&self) -> String {
        format!("`ralph run --resume {}` continues", self.run.as_str())
    }
}

#[cfg(test)]
mod tests;
