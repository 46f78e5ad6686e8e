use super::*;
use insta::assert_snapshot;
use proptest::prelude::*;
use ralph_core::drive::{DriveSettings, RunnerEvent};

const NOON: u64 = 12 * HOUR;

/// Local midnight is at the epoch.
fn local(ms: u64) -> u32 {
    u32::try_from(ms / SECOND % 86_400).unwrap()
}

fn waits() -> WaitLimits {
    WaitLimits { limit_ms: 10 * HOUR, ..DriveSettings::DEFAULT.waits }
}

fn run() -> RunId {
    RunId::parse("k7f2").unwrap()
}

fn trigger(cause: WaitCause, resets_at_ms: Option<u64>) -> RetryTrigger {
    RetryTrigger { cause, resets_at_ms, in_a_row: 0 }
}

fn plan(trigger: RetryTrigger, waits: &WaitLimits, driving: &DriveState) -> RetryPlan {
    plan_retry(
        trigger,
        &RetryContext { run: &run(), waits, driving, now_ms: NOON, local_second_of_day: local },
    )
}

fn describe(plan: &RetryPlan) -> String {
    match plan {
        RetryPlan::Wait(wait) => {
            format!(
                "wait {} ms (attempt {}): {}",
                wait.until_ms - wait.since_ms,
                wait.attempt,
                wait.why
            )
        }
        RetryPlan::Park { status, why } => format!("park {}: {why}", status.name()),
    }
}

/// R-K2b, R-K2c: if a person enabled it, the runner waits for a limit until its reset plus jitter, within the allowed
/// time, number and hours.
#[test]
fn waits_for_limits_stay_within_the_settings() {
    let later = NOON + 2 * HOUR;
    let after =
        |resumes, waited_limit_ms| DriveState { resumes, waited_limit_ms, ..DriveState::default() };
    let quiet = |from: u16, to: u16| WaitLimits { quiet: Some((from * 60, to * 60)), ..waits() };
    let none = WaitLimits { limit_ms: 0, ..waits() };
    let exact = WaitLimits { limit_ms: 2 * HOUR + MINUTE, jitter_ms: HOUR, ..waits() };
    let cases = [
        ("a reset in two hours", Some(later), waits(), after(0, 0)),
        ("no known reset", None, waits(), after(0, 0)),
        ("no known reset, little time left", None, waits(), after(1, 10 * HOUR - MINUTE)),
        ("a reset in the past", Some(NOON - HOUR), waits(), after(0, 0)),
        ("jitter stays within the budget", Some(later), exact, after(0, 0)),
        ("waiting is off", Some(later), none.clone(), after(0, 0)),
        ("waiting is off, no known reset", None, none, after(0, 0)),
        ("later than allowed", Some(NOON + 11 * HOUR), waits(), after(0, 0)),
        ("later than the time left", Some(later), waits(), after(1, 9 * HOUR)),
        ("all resumes used", Some(later), waits(), after(3, 3 * HOUR)),
        ("reset in some days", Some(NOON + 75 * HOUR), waits(), after(0, 0)),
        ("years ahead", Some(u64::MAX), waits(), after(0, 0)),
        ("reset in quiet hours", Some(later), quiet(13, 18), after(0, 0)),
        ("reset in a quiet night", Some(later), quiet(14, 6), after(0, 0)),
        ("reset as quiet hours end", Some(later), quiet(9, 14), after(0, 0)),
        ("no quiet hours", Some(later), quiet(9, 9), after(0, 0)),
    ];
    let lines: Vec<_> = cases
        .iter()
        .map(|(name, resets, waits, driving)| {
            format!(
                "{name}\n  {}",
                describe(&plan(trigger(WaitCause::RateLimit, *resets), waits, driving))
            )
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    a reset in two hours
      wait 7255977 ms (attempt 1): the provider's limit resets at 14:00
    no known reset
      wait 3655977 ms (attempt 1): the provider does not report when its limit resets
    no known reset, little time left
      wait 60000 ms (attempt 1): the provider does not report when its limit resets
    a reset in the past
      wait 55977 ms (attempt 1): the provider's limit should have been reset already
    jitter stays within the budget
      wait 7260000 ms (attempt 1): the provider's limit resets at 14:00
    waiting is off
      park rate_limited: the provider's limit resets at 14:00; `wait_for_limits` is off: `ralph run --resume k7f2` continues
    waiting is off, no known reset
      park rate_limited: the provider does not report when its limit resets; `wait_for_limits` is off: `ralph run --resume k7f2` continues
    later than allowed
      park rate_limited: the provider's limit resets at 23:00; `wait_for_limits` allows 10 h: `ralph run --resume k7f2` continues
    later than the time left
      park rate_limited: the provider's limit resets at 14:00; `wait_for_limits` allows 10 h, 9 h already used: `ralph run --resume k7f2` continues
    all resumes used
      park rate_limited: the provider's limit resets at 14:00; already waited for 3 of 3 limits: `ralph run --resume k7f2` continues
    reset in some days
      park rate_limited: the provider's limit resets at 15:00, in 3 d 3 h; `wait_for_limits` allows 10 h: `ralph run --resume k7f2` continues
    years ahead
      park rate_limited: the provider reports an implausible reset time for its limit; that is too far away to wait for: `ralph run --resume k7f2` continues
    reset in quiet hours
      wait 21655977 ms (attempt 1): the provider's limit resets at 14:00, and quiet hours last until 18:00
    reset in a quiet night
      park rate_limited: the provider's limit resets at 14:00; `wait_for_limits` allows 10 h, and quiet hours last until 06:00: `ralph run --resume k7f2` continues
    reset as quiet hours end
      wait 7255977 ms (attempt 1): the provider's limit resets at 14:00
    no quiet hours
      wait 7255977 ms (attempt 1): the provider's limit resets at 14:00
    ");
}

/// R-L6c: waits after consecutive errors grow exponentially, with jitter, and in total stay within the allowed time.
#[test]
fn errors_back_off() {
    let mut lines = Vec::new();
    for (cause, in_a_row, waited_errors_ms) in [
        (WaitCause::Overload, 0, 0),
        (WaitCause::Overload, 1, 3 * SECOND),
        (WaitCause::Server, 2, 9 * SECOND),
        (WaitCause::Network, 9, 20 * MINUTE),
        (WaitCause::Network, u32::MAX, 20 * MINUTE),
        (WaitCause::Network, 3, 60 * MINUTE - 7),
        (WaitCause::Network, 3, 60 * MINUTE),
        (WaitCause::Server, 3, u64::MAX),
        (WaitCause::Overload, 3, 60 * MINUTE),
    ] {
        let driving = DriveState { waited_errors_ms, ..DriveState::default() };
        let trigger = RetryTrigger { cause, resets_at_ms: None, in_a_row };
        lines.push(describe(&plan(trigger, &waits(), &driving)));
    }
    let never = WaitLimits { errors_ms: 0, ..waits() };
    lines.push(describe(&plan(trigger(WaitCause::Server, None), &never, &DriveState::default())));
    assert_snapshot!(lines.join("\n"), @"
    wait 2398 ms (attempt 1): the provider is overloaded; retrying (attempt 1)
    wait 1427 ms (attempt 2): the provider is overloaded; retrying (attempt 2)
    wait 1333 ms (attempt 3): the provider returns errors; retrying (attempt 3)
    wait 546381 ms (attempt 10): the provider cannot be reached; retrying (attempt 10)
    wait 262395 ms (attempt 4294967295): the provider cannot be reached; retrying (attempt 4294967295)
    wait 7 ms (attempt 4): the provider cannot be reached; retrying (attempt 4)
    park crashed: the provider cannot be reached; waited 1 h, as long as `wait_for_errors` allows: `ralph run --resume k7f2` continues
    park crashed: the provider returns errors; waited 213503982334 d 14 h, as long as `wait_for_errors` allows: `ralph run --resume k7f2` continues
    park rate_limited: the provider is overloaded; waited 1 h, as long as `wait_for_errors` allows: `ralph run --resume k7f2` continues
    park crashed: the provider returns errors; `wait_for_errors` is off: `ralph run --resume k7f2` continues
    ");
}

#[test]
fn declared_waits_are_capped_at_one_day() {
    let lines: Vec<_> = [None, Some(0), Some(NOON + 90 * SECOND), Some(u64::MAX)]
        .map(|until| {
            describe(&plan(trigger(WaitCause::Declared, until), &waits(), &DriveState::default()))
        })
        .into();
    assert_snapshot!(lines.join("\n"), @"
    wait 3600000 ms (attempt 1): the agent waits until 13:00
    wait 0 ms (attempt 1): the agent waits until 12:00
    wait 90000 ms (attempt 1): the agent waits until 12:01
    wait 86400000 ms (attempt 1): the agent waits until 12:00, in 1 d
    ");
}

/// R-K2b: a wait survives a reboot.
#[test]
fn a_recorded_wait_is_resumed() {
    let wait = PlannedWait {
        cause: WaitCause::RateLimit,
        since_ms: 1000,
        until_ms: 5000,
        attempt: 1,
        why: String::new(),
        window: None,
    };
    for (now, expected) in [
        (1000, RemainingWait::Ms(4000)),
        (4999, RemainingWait::Ms(1)),
        (5000, RemainingWait::DueNow),
        (u64::MAX, RemainingWait::DueNow),
        // The clock was set back.
        (0, RemainingWait::Ms(4000)),
    ] {
        assert_eq!(remaining_wait(&wait, now), expected, "{now}");
    }
    let backwards = PlannedWait { since_ms: 9, until_ms: 1, ..wait };
    assert_eq!(remaining_wait(&backwards, 0), RemainingWait::DueNow);
}

/// R-K2c: after waiting for a window, the run uses no more of it than a person allows.
#[test]
fn the_window_share_is_respected() {
    let of = |share_permille, resumes, (window, used): (&str, u16)| {
        let waits = WaitLimits { share_permille, ..waits() };
        let waited_for = Some("five_hour".to_string());
        let driving = DriveState { resumes, window: waited_for, ..DriveState::default() };
        let ctx = RetryContext {
            run: &run(),
            waits: &waits,
            driving: &driving,
            now_ms: NOON,
            local_second_of_day: local,
        };
        window_exhausted(&BTreeMap::from([(window.to_string(), used)]), &ctx)
    };
    assert_eq!(of(Some(500), 0, ("five_hour", 900)), None);
    assert_eq!(of(Some(500), 1, ("five_hour", 499)), None);
    assert_eq!(of(Some(500), 1, ("seven_day", 900)), None);
    assert_eq!(of(None, 1, ("five_hour", 1000)), None);
    assert_snapshot!(of(Some(500), 1, ("five_hour", 503)).unwrap(), @"50 % of the rate-limit window is used, and `max_window_share` allows 50 %: `ralph run --resume k7f2` continues");
}

fn any_waits() -> impl Strategy<Value = WaitLimits> {
    let limits = (0..200 * HOUR, 0..20_u32, 0..2 * HOUR, 0..5 * HOUR);
    let quiet = proptest::option::of((0..1440_u16, 0..1440_u16));
    (limits, quiet).prop_map(|((limit_ms, resumes, jitter_ms, errors_ms), quiet)| WaitLimits {
        limit_ms,
        resumes,
        jitter_ms,
        errors_ms,
        quiet,
        share_permille: None,
    })
}

fn any_cause() -> impl Strategy<Value = WaitCause> {
    prop_oneof![
        Just(WaitCause::RateLimit),
        Just(WaitCause::Overload),
        Just(WaitCause::Network),
        Just(WaitCause::Server)
    ]
}

/// A reset relative to now, or anything at all.
fn any_reset() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(prop_oneof![-100_000..40_000_000_i64, any::<i64>()])
}

/// Updates the counters as the journal does.
fn woke(driving: &mut DriveState, wait: &PlannedWait) {
    let took = wait.until_ms - wait.since_ms;
    match wait.cause {
        WaitCause::RateLimit => {
            driving.resumes += 1;
            driving.waited_limit_ms += took;
        }
        WaitCause::Overload | WaitCause::Network | WaitCause::Server => {
            driving.waited_errors_ms += took;
        }
        WaitCause::Declared => {}
    }
}

proptest! {
    /// R-L6c, R-K2c: for any sequence of failures the total waiting time stays within the allowed time, and waiting
    /// ends.
    #[test]
    fn waits_are_bounded(
        waits in any_waits(),
        troubles in proptest::collection::vec((any_cause(), any_reset(), 0..100_u32), 1..200),
    ) {
        let mut driving = DriveState::default();
        let mut now_ms = NOON;
        let run = run();
        for (cause, reset, in_a_row) in troubles {
            let resets_at_ms = reset.map(|reset| now_ms.saturating_add_signed(reset));
            let trigger = RetryTrigger { cause, resets_at_ms, in_a_row };
            let ctx = RetryContext { run: &run, waits: &waits, driving: &driving, now_ms, local_second_of_day: local };
            let forecast = plan_retry(trigger, &ctx);
            prop_assert_eq!(&forecast, &plan_retry(trigger, &ctx));
            let RetryPlan::Wait(wait) = forecast else { continue };
            prop_assert!(wait.since_ms == now_ms && wait.until_ms >= now_ms);
            if cause == WaitCause::RateLimit {
                let start = ctx.after_quiet_hours(resets_at_ms.unwrap_or(now_ms).max(now_ms));
                prop_assert!(wait.until_ms >= start);
                prop_assert_eq!(ctx.after_quiet_hours(wait.until_ms), wait.until_ms);
                if resets_at_ms.is_some() && waits.quiet.is_none() {
                    prop_assert!(wait.until_ms - start <= waits.jitter_ms);
                }
            } else {
                // Every wait uses up some of the allowed time, so there is a last one.
                prop_assert!(wait.until_ms > now_ms);
                prop_assert!(wait.until_ms - now_ms <= LONGEST_BACKOFF);
            }
            now_ms = wait.until_ms;
            woke(&mut driving, &wait);
            prop_assert!(driving.resumes <= waits.resumes);
            prop_assert!(driving.waited_limit_ms <= waits.limit_ms);
            prop_assert!(driving.waited_errors_ms <= waits.errors_ms);
        }
    }

    /// For any numbers nothing overflows or panics, and no wait ends before it begins.
    #[test]
    fn extreme_numbers_are_handled(
        numbers in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()),
        quiet in proptest::option::of((any::<u16>(), any::<u16>())),
        (cause, resets_at_ms, in_a_row) in (any_cause(), any::<Option<u64>>(), any::<u32>()),
    ) {
        let (limit_ms, jitter_ms, errors_ms, now_ms) = numbers;
        let waits = WaitLimits { limit_ms, resumes: 1, jitter_ms, errors_ms, quiet, share_permille: None };
        let driving = DriveState::default();
        let ctx = RetryContext { run: &run(), waits: &waits, driving: &driving, now_ms, local_second_of_day: local };
        if let RetryPlan::Wait(wait) = plan_retry(RetryTrigger { cause, resets_at_ms, in_a_row }, &ctx) {
            prop_assert!(wait.until_ms >= wait.since_ms);
            // It survives a round trip through the journal.
            let line = serde_json::to_string(&RunnerEvent::Waits(wait.clone())).unwrap();
            prop_assert_eq!(serde_json::from_str::<RunnerEvent>(&line).unwrap(), RunnerEvent::Waits(wait));
        }
    }
}

/// Runs that failed at the same time do not retry at the same time.
#[test]
fn jitter_differs_between_runs() {
    let waits = waits();
    let driving = DriveState::default();
    let mut seen: Vec<_> = (0..100)
        .map(|number| {
            let run = RunId::parse(&format!("r{number}")).unwrap();
            let ctx = RetryContext {
                run: &run,
                waits: &waits,
                driving: &driving,
                now_ms: NOON,
                local_second_of_day: local,
            };
            match plan_retry(trigger(WaitCause::RateLimit, Some(NOON)), &ctx) {
                RetryPlan::Wait(wait) => (wait.until_ms - NOON) / (waits.jitter_ms / 10),
                RetryPlan::Park { why, .. } => panic!("{why}"),
            }
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 10, "every tenth of the jitter range occurs");
}
