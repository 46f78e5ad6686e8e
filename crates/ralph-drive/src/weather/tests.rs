use super::*;
use insta::assert_snapshot;
use proptest::prelude::*;
use ralph_core::drive::{Drove, Settings};

const NOON: u64 = 12 * HOUR;

/// Where the person is, the day begins with the epoch.
fn local(ms: u64) -> u32 {
    u32::try_from(ms / SECOND % 86_400).unwrap()
}

fn waits() -> Waits {
    Waits { limit_ms: 10 * HOUR, ..Settings::DEFAULT.waits }
}

fn run() -> RunId {
    RunId::parse("k7f2").unwrap()
}

fn happened(cause: Cause, resets_at_ms: Option<u64>) -> Happened {
    Happened { cause, resets_at_ms, in_a_row: 0 }
}

fn forecast(happened: Happened, waits: &Waits, driving: &Driving) -> Forecast {
    next(happened, &Sky { run: &run(), waits, driving, now_ms: NOON, local })
}

fn told(forecast: &Forecast) -> String {
    match forecast {
        Forecast::Wait(wait) => {
            format!(
                "wait {} ms (attempt {}): {}",
                wait.until_ms - wait.since_ms,
                wait.attempt,
                wait.why
            )
        }
        Forecast::Park { status, why } => format!("park {}: {why}", status.name()),
    }
}

/// R-K2b, R-K2c: a limit is waited for until its reset and a little longer, if a person wants that, within the time,
/// the number and the hours that they gave.
#[test]
fn a_limit_is_waited_for_as_a_person_allowed() {
    let later = NOON + 2 * HOUR;
    let after =
        |resumes, waited_limit_ms| Driving { resumes, waited_limit_ms, ..Driving::default() };
    let quiet = |from: u16, to: u16| Waits { quiet: Some((from * 60, to * 60)), ..waits() };
    let none = Waits { limit_ms: 0, ..waits() };
    let exact = Waits { limit_ms: 2 * HOUR + MINUTE, jitter_ms: HOUR, ..waits() };
    let cases = [
        ("a reset in two hours", Some(later), waits(), after(0, 0)),
        ("no reset told", None, waits(), after(0, 0)),
        ("no reset told, little time left", None, waits(), after(1, 10 * HOUR - MINUTE)),
        ("a reset that is over", Some(NOON - HOUR), waits(), after(0, 0)),
        ("chance goes no further than the budget", Some(later), exact, after(0, 0)),
        ("nobody waits", Some(later), none.clone(), after(0, 0)),
        ("nobody waits, no reset told", None, none, after(0, 0)),
        ("later than may be waited", Some(NOON + 11 * HOUR), waits(), after(0, 0)),
        ("later than is left", Some(later), waits(), after(1, 9 * HOUR)),
        ("all resumes used", Some(later), waits(), after(3, 3 * HOUR)),
        ("lifted in some days", Some(NOON + 75 * HOUR), waits(), after(0, 0)),
        ("years ahead", Some(u64::MAX), waits(), after(0, 0)),
        ("lifted in quiet hours", Some(later), quiet(13, 18), after(0, 0)),
        ("lifted in a quiet night", Some(later), quiet(14, 6), after(0, 0)),
        ("lifted as they end", Some(later), quiet(9, 14), after(0, 0)),
        ("no quiet hours", Some(later), quiet(9, 9), after(0, 0)),
    ];
    let lines: Vec<_> = cases
        .iter()
        .map(|(name, resets, waits, driving)| {
            format!(
                "{name}\n  {}",
                told(&forecast(happened(Cause::RateLimit, *resets), waits, driving))
            )
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    a reset in two hours
      wait 7255977 ms (attempt 1): the provider lifts its limit at 14:00
    no reset told
      wait 3655977 ms (attempt 1): the provider does not tell when it lifts its limit
    no reset told, little time left
      wait 60000 ms (attempt 1): the provider does not tell when it lifts its limit
    a reset that is over
      wait 55977 ms (attempt 1): the provider's limit should be lifted already
    chance goes no further than the budget
      wait 7260000 ms (attempt 1): the provider lifts its limit at 14:00
    nobody waits
      park rate_limited: the provider lifts its limit at 14:00; `wait_for_limits` is off: `ralph run --resume k7f2` goes on
    nobody waits, no reset told
      park rate_limited: the provider does not tell when it lifts its limit; `wait_for_limits` is off: `ralph run --resume k7f2` goes on
    later than may be waited
      park rate_limited: the provider lifts its limit at 23:00; `wait_for_limits` allows 10 h: `ralph run --resume k7f2` goes on
    later than is left
      park rate_limited: the provider lifts its limit at 14:00; `wait_for_limits` allows 10 h, 9 h of them used: `ralph run --resume k7f2` goes on
    all resumes used
      park rate_limited: the provider lifts its limit at 14:00; 3 of 3 limits were waited for: `ralph run --resume k7f2` goes on
    lifted in some days
      park rate_limited: the provider lifts its limit at 15:00, in 3 d 3 h; `wait_for_limits` allows 10 h: `ralph run --resume k7f2` goes on
    years ahead
      park rate_limited: the provider tells no sensible time at which it lifts its limit; nobody waits for that: `ralph run --resume k7f2` goes on
    lifted in quiet hours
      wait 21655977 ms (attempt 1): the provider lifts its limit at 14:00, and the quiet hours last until 18:00
    lifted in a quiet night
      park rate_limited: the provider lifts its limit at 14:00; `wait_for_limits` allows 10 h, and the quiet hours last until 06:00: `ralph run --resume k7f2` goes on
    lifted as they end
      wait 7255977 ms (attempt 1): the provider lifts its limit at 14:00
    no quiet hours
      wait 7255977 ms (attempt 1): the provider lifts its limit at 14:00
    ");
}

/// R-L6c: errors in a row are waited for longer and longer, with chance, and in all no longer than allowed.
#[test]
fn errors_back_off() {
    let mut lines = Vec::new();
    for (cause, in_a_row, waited_errors_ms) in [
        (Cause::Overload, 0, 0),
        (Cause::Overload, 1, 3 * SECOND),
        (Cause::Server, 2, 9 * SECOND),
        (Cause::Network, 9, 20 * MINUTE),
        (Cause::Network, u32::MAX, 20 * MINUTE),
        (Cause::Network, 3, 60 * MINUTE - 7),
        (Cause::Network, 3, 60 * MINUTE),
        (Cause::Server, 3, u64::MAX),
        (Cause::Overload, 3, 60 * MINUTE),
    ] {
        let driving = Driving { waited_errors_ms, ..Driving::default() };
        let happened = Happened { cause, resets_at_ms: None, in_a_row };
        lines.push(told(&forecast(happened, &waits(), &driving)));
    }
    let never = Waits { errors_ms: 0, ..waits() };
    lines.push(told(&forecast(happened(Cause::Server, None), &never, &Driving::default())));
    assert_snapshot!(lines.join("\n"), @"
    wait 2398 ms (attempt 1): the provider is overloaded; trying again (1 in a row)
    wait 1427 ms (attempt 2): the provider is overloaded; trying again (2 in a row)
    wait 1333 ms (attempt 3): the provider fails; trying again (3 in a row)
    wait 546381 ms (attempt 10): the provider cannot be reached; trying again (10 in a row)
    wait 262395 ms (attempt 4294967295): the provider cannot be reached; trying again (4294967295 in a row)
    wait 7 ms (attempt 4): the provider cannot be reached; trying again (4 in a row)
    park crashed: the provider cannot be reached; 1 h were waited, as long as `wait_for_errors` allows: `ralph run --resume k7f2` goes on
    park crashed: the provider fails; 213503982334 d 14 h were waited, as long as `wait_for_errors` allows: `ralph run --resume k7f2` goes on
    park rate_limited: the provider is overloaded; 1 h were waited, as long as `wait_for_errors` allows: `ralph run --resume k7f2` goes on
    park crashed: the provider fails; `wait_for_errors` is off: `ralph run --resume k7f2` goes on
    ");
}

#[test]
fn what_an_agent_declares_is_waited_for_a_day_at_most() {
    let lines: Vec<_> = [None, Some(0), Some(NOON + 90 * SECOND), Some(u64::MAX)]
        .map(|until| {
            told(&forecast(happened(Cause::Declared, until), &waits(), &Driving::default()))
        })
        .into();
    assert_snapshot!(lines.join("\n"), @"
    wait 3600000 ms (attempt 1): the agent waits until 13:00
    wait 0 ms (attempt 1): the agent waits until 12:00
    wait 90000 ms (attempt 1): the agent waits until 12:01
    wait 86400000 ms (attempt 1): the agent waits until 12:00, in 1 d
    ");
}

/// R-K2b: a reboot keeps the plan.
#[test]
fn a_wait_on_record_goes_on() {
    let wait = Wait {
        cause: Cause::RateLimit,
        since_ms: 1000,
        until_ms: 5000,
        attempt: 1,
        why: String::new(),
        window: None,
    };
    for (now, expected) in [
        (1000, Left::Ms(4000)),
        (4999, Left::Ms(1)),
        (5000, Left::DueNow),
        (u64::MAX, Left::DueNow),
        // The clock was set back.
        (0, Left::Ms(4000)),
    ] {
        assert_eq!(resume(&wait, now), expected, "{now}");
    }
    let backwards = Wait { since_ms: 9, until_ms: 1, ..wait };
    assert_eq!(resume(&backwards, 0), Left::DueNow);
}

/// R-K2c: of a window that was waited for, no more is used than a person allows.
#[test]
fn a_window_that_was_waited_for_is_shared() {
    let of = |share_permille, resumes, (window, used): (&str, u16)| {
        let waits = Waits { share_permille, ..waits() };
        let waited_for = Some("five_hour".to_string());
        let driving = Driving { resumes, window: waited_for, ..Driving::default() };
        let sky = Sky { run: &run(), waits: &waits, driving: &driving, now_ms: NOON, local };
        used_up(&BTreeMap::from([(window.to_string(), used)]), &sky)
    };
    assert_eq!(of(Some(500), 0, ("five_hour", 900)), None);
    assert_eq!(of(Some(500), 1, ("five_hour", 499)), None);
    assert_eq!(of(Some(500), 1, ("seven_day", 900)), None);
    assert_eq!(of(None, 1, ("five_hour", 1000)), None);
    assert_snapshot!(of(Some(500), 1, ("five_hour", 503)).unwrap(), @"50 % of the window that was waited for are used, and `max_window_share` allows 50 %: `ralph run --resume k7f2` goes on");
}

fn any_waits() -> impl Strategy<Value = Waits> {
    let limits = (0..200 * HOUR, 0..20_u32, 0..2 * HOUR, 0..5 * HOUR);
    let quiet = proptest::option::of((0..1440_u16, 0..1440_u16));
    (limits, quiet).prop_map(|((limit_ms, resumes, jitter_ms, errors_ms), quiet)| Waits {
        limit_ms,
        resumes,
        jitter_ms,
        errors_ms,
        quiet,
        share_permille: None,
    })
}

fn any_cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::RateLimit),
        Just(Cause::Overload),
        Just(Cause::Network),
        Just(Cause::Server)
    ]
}

/// A reset relative to now, or anything at all.
fn any_reset() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(prop_oneof![-100_000..40_000_000_i64, any::<i64>()])
}

/// As the record keeps it.
fn woke(driving: &mut Driving, wait: &Wait) {
    let took = wait.until_ms - wait.since_ms;
    match wait.cause {
        Cause::RateLimit => {
            driving.resumes += 1;
            driving.waited_limit_ms += took;
        }
        Cause::Overload | Cause::Network | Cause::Server => driving.waited_errors_ms += took,
        Cause::Declared => {}
    }
}

proptest! {
    /// R-L6c, R-K2c: whatever happens in whatever order, what is waited stays within what a person allowed, and
    /// waiting comes to an end.
    #[test]
    fn waits_are_bounded(
        waits in any_waits(),
        troubles in proptest::collection::vec((any_cause(), any_reset(), 0..100_u32), 1..200),
    ) {
        let mut driving = Driving::default();
        let mut now_ms = NOON;
        let run = run();
        for (cause, reset, in_a_row) in troubles {
            let resets_at_ms = reset.map(|reset| now_ms.saturating_add_signed(reset));
            let happened = Happened { cause, resets_at_ms, in_a_row };
            let sky = Sky { run: &run, waits: &waits, driving: &driving, now_ms, local };
            let forecast = next(happened, &sky);
            prop_assert_eq!(&forecast, &next(happened, &sky));
            let Forecast::Wait(wait) = forecast else { continue };
            prop_assert!(wait.since_ms == now_ms && wait.until_ms >= now_ms);
            if cause == Cause::RateLimit {
                let start = sky.after_quiet(resets_at_ms.unwrap_or(now_ms).max(now_ms));
                prop_assert!(wait.until_ms >= start);
                prop_assert_eq!(sky.after_quiet(wait.until_ms), wait.until_ms);
                if resets_at_ms.is_some() && waits.quiet.is_none() {
                    prop_assert!(wait.until_ms - start <= waits.jitter_ms);
                }
            } else {
                // Each of them uses something up, so there is a last one.
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

    /// Any numbers at all: nothing overflows, nothing panics, and no two moments are out of order.
    #[test]
    fn no_number_is_too_odd(
        numbers in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()),
        quiet in proptest::option::of((any::<u16>(), any::<u16>())),
        (cause, resets_at_ms, in_a_row) in (any_cause(), any::<Option<u64>>(), any::<u32>()),
    ) {
        let (limit_ms, jitter_ms, errors_ms, now_ms) = numbers;
        let waits = Waits { limit_ms, resumes: 1, jitter_ms, errors_ms, quiet, share_permille: None };
        let driving = Driving::default();
        let sky = Sky { run: &run(), waits: &waits, driving: &driving, now_ms, local };
        if let Forecast::Wait(wait) = next(Happened { cause, resets_at_ms, in_a_row }, &sky) {
            prop_assert!(wait.until_ms >= wait.since_ms);
            // On record and back it is the same.
            let line = serde_json::to_string(&Drove::Waits(wait.clone())).unwrap();
            prop_assert_eq!(serde_json::from_str::<Drove>(&line).unwrap(), Drove::Waits(wait));
        }
    }
}

/// Runs that were cut off together do not come back together.
#[test]
fn chance_differs_between_runs() {
    let waits = waits();
    let driving = Driving::default();
    let mut seen: Vec<_> = (0..100)
        .map(|number| {
            let run = RunId::parse(&format!("r{number}")).unwrap();
            let sky = Sky { run: &run, waits: &waits, driving: &driving, now_ms: NOON, local };
            match next(happened(Cause::RateLimit, Some(NOON)), &sky) {
                Forecast::Wait(wait) => (wait.until_ms - NOON) / (waits.jitter_ms / 10),
                Forecast::Park { why, .. } => panic!("{why}"),
            }
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 10, "every tenth of the span is used");
}
