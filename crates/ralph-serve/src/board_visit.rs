//! When a person looked at the board, as a cookie of their browser has it. It is no secret: a change of it only moves ended
//! runs between the board and the history.

/// Requests that follow each other more quickly are one visit.
const VISIT_GAP_MS: u64 = 10 * 60 * 1000;
const MAX_AGE_SECONDS: u64 = 365 * 24 * 60 * 60;
const MAX_COOKIE_CHARS: usize = 41;

/// A visit of the board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BoardVisit {
    /// When the visit before this one ended; 0 if there was none. Runs that ended since then are shown.
    pub(crate) seen_ms: u64,
    last_ms: u64,
}

impl BoardVisit {
    /// The visit that a request belongs to. A cookie that makes no sense counts as none.
    pub(crate) fn of_request(cookie: Option<&str>, now_ms: u64) -> Self {
        let known = cookie
            .and_then(Self::parse)
            .filter(|known| known.seen_ms <= known.last_ms && known.last_ms <= now_ms);
        let seen_ms = match known {
            Some(known) if now_ms - known.last_ms >= VISIT_GAP_MS => known.last_ms,
            Some(known) => known.seen_ms,
            None => 0,
        };
        Self { seen_ms, last_ms: now_ms }
    }

    fn parse(cookie: &str) -> Option<Self> {
        let (seen, last) = cookie.split_once('.').filter(|_| cookie.len() <= MAX_COOKIE_CHARS)?;
        Some(Self { seen_ms: seen.parse().ok()?, last_ms: last.parse().ok()? })
    }

    /// The value of `Set-Cookie`.
    pub(crate) fn set_cookie(self, name: &str) -> String {
        let Self { seen_ms, last_ms } = self;
        format!(
            "{name}={seen_ms}.{last_ms}; Max-Age={MAX_AGE_SECONDS}; HttpOnly; SameSite=Strict; Path=/"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_ends_with_a_pause_and_a_wrong_cookie_is_none() {
        let now_ms = 1_794_000_000_000;
        let minutes = |count: u64| count * 60 * 1000;
        let cookie = |seen: u64, last: u64| format!("{seen}.{last}");
        for (cookie, seen_ms) in [
            (String::new(), 0),
            (cookie(5, now_ms - minutes(9)), 5),
            (cookie(5, now_ms - minutes(10)), now_ms - minutes(10)),
            (cookie(5, now_ms), 5),
            (cookie(5, now_ms + 1), 0),
            (cookie(now_ms, now_ms - 1), 0),
            ("5".to_string(), 0),
            ("5.".to_string(), 0),
            ("-5.7".to_string(), 0),
            (format!("5.{now_ms}.1"), 0),
            (format!("{}5.6", "0".repeat(1_000)), 0),
        ] {
            let expected = BoardVisit { seen_ms, last_ms: now_ms };
            assert_eq!(BoardVisit::of_request(Some(&cookie), now_ms), expected, "{cookie}");
        }
        assert_eq!(BoardVisit::of_request(None, now_ms).seen_ms, 0);
    }
}
