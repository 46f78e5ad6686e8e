//! The only access to clocks, sleeping and randomness.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The longest wait a deadline can have. Keeps the arithmetic from overflowing.
const MAX_WAIT: Duration = Duration::from_hours(365 * 24);

/// Unix time in milliseconds, for display and for records; measure waits with a [`Deadline`]. Returns 0 if the
/// machine's clock is set before 1970.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, whole_ms)
}

/// Unix time in nanoseconds, for ordering observations of several processes.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// An unpredictable number. Each `RandomState` has random keys from the system, so this needs no dependency.
pub fn nonce() -> u64 {
    RandomState::new().hash_one(0)
}

/// 32 unpredictable bytes; `None` if the system's random number generator fails.
pub fn random_key() -> Option<[u8; 32]> {
    let mut key = [0; 32];
    crate::os::fill_random(&mut key).ok()?;
    Some(key)
}

/// The time by which a wait must end. It is monotonic, so changing the wall clock neither shortens nor extends it.
///
/// Deadlines are ordered: `a.min(b)` is the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    pub fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait.min(MAX_WAIT))
    }

    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub fn has_passed(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// Measures elapsed time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "only this module may call it")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Sleeps. Callers that sleep repeatedly bound the total with a [`Deadline`].
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
pub fn sleep(wait: Duration) {
    std::thread::sleep(wait);
}

/// Formats a time as `2026-11-15T13:38:02.123Z`. Times beyond the calendar's range become its last time.
pub fn format_rfc3339(ms: u64) -> String {
    format!("{:.3}", timestamp_from_ms(ms))
}

/// Parses an RFC 3339 timestamp; `None` for anything else and for times before 1970.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

/// Formats a time as `14:02:11` in the user's time zone. Reads the zone database, which is too slow for hooks.
pub fn local_time(ms: u64) -> String {
    let local = timestamp_from_ms(ms).to_zoned(TimeZone::system());
    format!("{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second())
}

/// Seconds since midnight in the user's time zone.
pub fn local_second_of_day(ms: u64) -> u32 {
    let local = timestamp_from_ms(ms).to_zoned(TimeZone::system());
    let part = |part: i8| u32::try_from(part).unwrap_or(0);
    part(local.hour()) * 3600 + part(local.minute()) * 60 + part(local.second())
}

/// Formats the date as `2026-11-15` in the user's time zone.
pub fn local_date(ms: u64) -> String {
    timestamp_from_ms(ms).to_zoned(TimeZone::system()).date().to_string()
}

/// The user's time zone at a time, as `UTC`, `UTC+1` or `UTC-4:30`.
pub fn local_zone(ms: u64) -> String {
    zone_text(timestamp_from_ms(ms).to_zoned(TimeZone::system()).offset().seconds())
}

fn zone_text(offset_seconds: i32) -> String {
    let sign = if offset_seconds < 0 { '-' } else { '+' };
    let minutes = offset_seconds.unsigned_abs() / 60;
    match (minutes / 60, minutes % 60) {
        (0, 0) => "UTC".to_string(),
        (hours, 0) => format!("UTC{sign}{hours}"),
        (hours, minutes) => format!("UTC{sign}{hours}:{minutes:02}"),
    }
}

/// Parses a time as people write it: `2026-11-20T18:00:00Z`, or `2026-11-20` for the end of that day in the user's
/// time zone.
pub fn parse_timestamp_or_date(text: &str) -> Option<u64> {
    let moment = text.parse::<Timestamp>().ok().or_else(|| end_of_day(text))?;
    u64::try_from(moment.as_millisecond()).ok()
}

fn end_of_day(date: &str) -> Option<Timestamp> {
    // The date parser would silently ignore a time that follows the date.
    let date = Some(date).filter(|date| !date.contains(['T', 't', ' ']))?;
    let next = date.parse::<jiff::civil::Date>().ok()?.tomorrow().ok()?;
    Some(next.to_zoned(TimeZone::system()).ok()?.timestamp())
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn timestamp_from_ms(ms: u64) -> Timestamp {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_and_dates_are_parsed() {
        for (text, expected) in [
            ("2023-11-14T22:13:20.123Z", Some(1_700_000_000_123)),
            ("2023-11-14T23:13:20.123+01:00", Some(1_700_000_000_123)),
            ("1969-12-31T00:00:00Z", None),
            ("2023-11-14T22:13", None),
            ("2023-02-30", None),
            ("tomorrow", None),
            ("", None),
            ("9999-12-31", None),
        ] {
            assert_eq!(parse_timestamp_or_date(text), expected, "{text}");
        }
        // The end of that day, in the local time zone.
        let end = parse_timestamp_or_date("2023-11-14").unwrap();
        assert_eq!(local_date(end - 1), "2023-11-14");
        assert_eq!(local_date(end), "2023-11-15");
    }

    #[test]
    fn a_time_zone_is_named_by_its_offset() {
        for (seconds, expected) in [
            (0, "UTC"),
            (3_600, "UTC+1"),
            (-16_200, "UTC-4:30"),
            (20_700, "UTC+5:45"),
            (-1_800, "UTC-0:30"),
        ] {
            assert_eq!(zone_text(seconds), expected);
        }
    }

    #[test]
    fn any_time_is_formatted_in_utc_without_panicking() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (253_402_300_799_999, "9999-12-30T22:00:00.999Z"),
            (u64::MAX, "9999-12-30T22:00:00.999Z"),
        ] {
            assert_eq!(format_rfc3339(ms), expected, "{ms}");
        }
    }

    #[test]
    fn local_time_is_a_valid_time_of_day_for_any_timestamp() {
        for ms in [0, 1_700_000_000_123, u64::MAX] {
            let text = local_time(ms);
            let parts: Vec<u8> = text.split(':').map(|part| part.parse().unwrap()).collect();
            assert!(matches!(parts[..], [0..24, 0..60, 0..60]) && text.len() == 8, "{text}");
            let seconds = parts.iter().fold(0, |sum, part| sum * 60 + u32::from(*part));
            assert_eq!(local_second_of_day(ms), seconds);
        }
    }

    #[test]
    fn deadlines_pass_and_the_earlier_one_is_the_minimum() {
        let over = Deadline::after(Duration::ZERO);
        let later = Deadline::after(Duration::MAX);
        assert!(over.has_passed());
        assert_eq!(over.remaining(), Duration::ZERO);
        assert!(!later.has_passed());
        assert!(later.remaining() > Duration::from_hours(1));
        assert_eq!(later.min(over), over);
    }

    #[test]
    fn the_clock_does_not_go_backwards() {
        let first = now_ms();
        assert!(first > 1_700_000_000_000);
        assert!(now_ms() >= first);
    }

    #[test]
    fn two_nonces_differ() {
        assert_ne!(nonce(), nonce());
    }
}
