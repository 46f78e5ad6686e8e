//! The only clock, and the only chance.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Deadlines further away than this are not deadlines; the bound also keeps the arithmetic from overflowing.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// Unix milliseconds, for what people read and what is written down; waits are measured with a [`Deadline`]. A
/// machine whose clock stands before 1970 reads as 0.
#[expect(clippy::disallowed_methods, reason = "this module is the door")]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, whole_ms)
}

/// Unix nanoseconds, to put in order what several processes saw.
#[expect(clippy::disallowed_methods, reason = "this module is the door")]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A number nobody can guess. Each `RandomState` has secret keys from the system: randomness without a dependency.
pub fn nonce() -> u64 {
    RandomState::new().hash_one(0)
}

/// Thirty-two bytes nobody can guess; `None` when the system has none to give.
pub fn random_key() -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let filled = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty()).ok()?;
    (filled == key.len()).then_some(key)
}

/// The moment a wait has to be over. Monotonic, so that a changed wall clock neither shortens nor extends it.
///
/// Deadlines are ordered: `a.min(b)` is the sooner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "this module is the door")]
    pub fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait.min(LONGEST))
    }

    #[expect(clippy::disallowed_methods, reason = "this module is the door")]
    pub fn remaining(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }
}

/// How long something takes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this module is the door")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Waits. The caller bounds the sum of its pauses with a [`Deadline`].
#[expect(clippy::disallowed_methods, reason = "this module is the door")]
pub fn pause(wait: Duration) {
    std::thread::sleep(wait);
}

/// `2026-11-15T13:38:02.123Z`. A moment no calendar reaches becomes the last one it does.
pub fn rfc3339(ms: u64) -> String {
    format!("{:.3}", timestamp(ms))
}

/// What [`rfc3339`] wrote, or another program did; `None` for anything else, and for times before 1970.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

/// `14:02:11` where the user is. Reads the zone database, so it is for commands that people run.
pub fn local_time(ms: u64) -> String {
    let local = timestamp(ms).to_zoned(TimeZone::system());
    format!("{:02}:{:02}:{:02}", local.hour(), local.minute(), local.second())
}

/// Seconds since midnight where the user is.
pub fn local_second_of_day(ms: u64) -> u32 {
    let local = timestamp(ms).to_zoned(TimeZone::system());
    let part = |part: i8| u32::try_from(part).unwrap_or(0);
    part(local.hour()) * 3600 + part(local.minute()) * 60 + part(local.second())
}

/// `2026-11-15` where the user is.
pub fn local_date(ms: u64) -> String {
    timestamp(ms).to_zoned(TimeZone::system()).date().to_string()
}

/// A moment as people write it down: `2026-11-20T18:00:00Z`, or `2026-11-20` for the end of that day where the user is.
pub fn parse_moment(text: &str) -> Option<u64> {
    let moment = text.parse::<Timestamp>().ok().or_else(|| end_of_day(text))?;
    u64::try_from(moment.as_millisecond()).ok()
}

fn end_of_day(date: &str) -> Option<Timestamp> {
    // A time that is written with it would be passed over.
    let date = Some(date).filter(|date| !date.contains(['T', 't', ' ']))?;
    let next = date.parse::<jiff::civil::Date>().ok()?.tomorrow().ok()?;
    Some(next.to_zoned(TimeZone::system()).ok()?.timestamp())
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn timestamp(ms: u64) -> Timestamp {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_moments() {
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
            assert_eq!(parse_moment(text), expected, "{text}");
        }
        // The end of that day, in whichever zone this is.
        let end = parse_moment("2023-11-14").unwrap();
        assert_eq!(local_date(end - 1), "2023-11-14");
        assert_eq!(local_date(end), "2023-11-15");
    }

    #[test]
    fn moments_are_written_in_utc_and_never_panic() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (253_402_300_799_999, "9999-12-30T22:00:00.999Z"),
            (u64::MAX, "9999-12-30T22:00:00.999Z"),
        ] {
            assert_eq!(rfc3339(ms), expected, "{ms}");
        }
    }

    #[test]
    fn local_time_is_a_time_of_day_for_any_moment() {
        for ms in [0, 1_700_000_000_123, u64::MAX] {
            let text = local_time(ms);
            let parts: Vec<u8> = text.split(':').map(|part| part.parse().unwrap()).collect();
            assert!(matches!(parts[..], [0..24, 0..60, 0..60]) && text.len() == 8, "{text}");
            let seconds = parts.iter().fold(0, |sum, part| sum * 60 + u32::from(*part));
            assert_eq!(local_second_of_day(ms), seconds);
        }
    }

    #[test]
    fn deadlines_end_and_the_sooner_one_wins() {
        let over = Deadline::after(Duration::ZERO);
        let later = Deadline::after(Duration::MAX);
        assert!(over.is_over());
        assert_eq!(over.remaining(), Duration::ZERO);
        assert!(!later.is_over());
        assert!(later.remaining() > Duration::from_hours(1));
        assert_eq!(later.min(over), over);
    }

    #[test]
    fn the_clock_runs() {
        let first = now_ms();
        assert!(first > 1_700_000_000_000);
        assert!(now_ms() >= first);
    }

    #[test]
    fn no_two_nonces_are_alike() {
        assert_ne!(nonce(), nonce());
    }
}
