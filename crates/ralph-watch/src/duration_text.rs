//! Times and amounts in the words of the screens.

use ralph_core::record::CostBasis;
use ralph_core::units::{format_duration, format_usd};
use ralph_deck::page::BoardRow;

/// How a time of day is written: `07:31`. A parameter, because tests must not depend on the time zone.
pub type TimeText = fn(u64) -> String;

/// `07:31` in the user's time zone.
pub fn local_minute(ms: u64) -> String {
    let time = ralph_sys::clock::local_time(ms);
    time.get(..5).unwrap_or_default().to_string()
}

/// `16:28`, `16:28 yesterday`, `16:28, 3 days ago`: a time of day alone would be today's.
pub(crate) fn since_time(time_text: TimeText, then_ms: u64, now_ms: u64) -> String {
    const DAY_MINUTES: u64 = 24 * 60;
    let minute_of_day = |ms: u64| {
        let text = time_text(ms);
        let (hour, minute) = text.split_once(':')?;
        Some(hour.parse::<u64>().ok()? * 60 + minute.parse::<u64>().ok()?)
    };
    let then = time_text(then_ms);
    let minutes = now_ms.saturating_sub(then_ms) / 60_000;
    let (Some(from), Some(to)) = (minute_of_day(then_ms), minute_of_day(now_ms)) else {
        return then;
    };
    // The hour that a clock is put forward or back by is less than half a day.
    match (minutes + from + DAY_MINUTES / 2).saturating_sub(to) / DAY_MINUTES {
        0 => then,
        1 => format!("{then} yesterday"),
        days => format!("{then}, {days} days ago"),
    }
}

/// `<1 s`, `41 s`, `1 min 43 s`, `1 h 12 min`
pub(crate) fn exact_duration(ms: u64) -> String {
    match ms / 1000 {
        0 => "<1 s".to_string(),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3600 if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format_duration(ms),
    }
}

/// `in 19 min`; `now` if the time has come.
pub(crate) fn in_time(until_ms: u64, now_ms: u64) -> String {
    match until_ms.saturating_sub(now_ms) {
        0 => "now".to_string(),
        left => format!("in {}", format_duration(left)),
    }
}

/// `17/25`, or `17` without a limit.
pub(crate) fn iterations(row: &BoardRow) -> String {
    match row.max_iterations {
        Some(most) => format!("{}/{most}", row.iteration),
        None => row.iteration.to_string(),
    }
}

/// `$11.62`, `≈$11.62` for an estimate, or `~$11.62` where it is assumed; empty if it is unknown.
pub(crate) fn run_cost(row: &BoardRow) -> String {
    let sign = cost_sign(row.cost_basis);
    row.spent_micro_usd.map(|spent| format!("{sign}{}", cents(spent))).unwrap_or_default()
}

/// The sign before an amount that the client did not report.
pub(crate) fn cost_sign(basis: CostBasis) -> &'static str {
    match basis {
        CostBasis::Reported | CostBasis::Unknown => "",
        CostBasis::Estimated | CostBasis::Incomplete => "≈",
        CostBasis::Assumed | CostBasis::PartlyAssumed => "~",
    }
}

/// The word after an amount that is assumed.
pub(crate) fn cost_note(basis: CostBasis) -> &'static str {
    match basis {
        CostBasis::Assumed => " assumed",
        CostBasis::PartlyAssumed => " partly assumed",
        CostBasis::Reported | CostBasis::Estimated | CostBasis::Incomplete | CostBasis::Unknown => {
            ""
        }
    }
}

/// `$11.62`, `$0.40`: with cents, so that amounts line up. Small amounts keep their digits.
pub(crate) fn cents(micro_usd: u64) -> String {
    if micro_usd > 0 && micro_usd < 10_000 {
        return format_usd(micro_usd);
    }
    let cents = (micro_usd + 5_000) / 10_000;
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// How much of a limit is used, in thousandths.
pub(crate) fn permille(used: u64, most: u64) -> u64 {
    used.saturating_mul(1000).checked_div(most).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_another_day_says_so() {
        let utc: TimeText = |ms| format!("{:02}:{:02}", ms / 3_600_000 % 24, ms / 60_000 % 60);
        let at = |day: u64, hour: u64, minute: u64| ((day * 24 + hour) * 60 + minute) * 60_000;
        let now = at(20, 4, 28);
        let shown = [at(20, 4, 28), at(20, 0, 0), at(19, 23, 59), at(19, 4, 0), at(18, 16, 28)]
            .map(|then| since_time(utc, then, now));
        assert_eq!(
            shown,
            ["04:28", "00:00", "23:59 yesterday", "04:00 yesterday", "16:28, 2 days ago"]
        );
    }

    #[test]
    fn amounts_are_short() {
        for (ms, text) in [
            (900, "<1 s"),
            (41_000, "41 s"),
            (60_000, "1 min"),
            (103_000, "1 min 43 s"),
            (4_320_000, "1 h 12 min"),
        ] {
            assert_eq!(exact_duration(ms), text);
        }
        for (micro, text) in
            [(0, "$0.00"), (400_000, "$0.40"), (11_620_000, "$11.62"), (1_234, "$0.0012")]
        {
            assert_eq!(cents(micro), text);
        }
        assert_eq!(in_time(1_140_000, 0), "in 19 min");
        assert_eq!(in_time(5, 9), "now");
        assert_eq!(permille(58, 100), 580);
        assert_eq!(permille(58, 0), 1000);
    }
}
