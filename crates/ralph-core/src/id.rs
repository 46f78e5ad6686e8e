//! Identifiers that become part of a path. A value of these types cannot escape its directory.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

const MAX_ID_LEN: usize = 128;

fn is_valid_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_ID_LEN
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// One conversation, with the host's own id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(String);

/// One piece of work that ralph holds an agent to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(String);

impl SessionId {
    /// `None` for anything but 1 to 128 ASCII letters, digits, `_` and `-`. Ralph ignores such sessions.
    pub fn parse(text: &str) -> Option<Self> {
        is_valid_id(text).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first eight characters: the first group of a UUID.
    pub fn short(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }
}

/// The ids of records of sessions without a run begin with this, and no others.
const SESSION_RECORD_PREFIX: &str = "session-";

impl RunId {
    pub fn parse(text: &str) -> Option<Self> {
        is_valid_id(text).then(|| Self(text.to_owned()))
    }

    /// The id of the record of a session without a run; `digest` identifies the session and its policy.
    pub fn of_session(digest: u64) -> Self {
        Self(format!("{SESSION_RECORD_PREFIX}{digest:016x}"))
    }

    /// The id of something that is kept like a run for a while, such as the checkpoints of a proof; no run has it.
    pub fn temporary(nonce: u64) -> Self {
        Self(format!("p{nonce:016x}"))
    }

    /// Whether it names the record of a session without a run.
    pub fn is_of_session(&self) -> bool {
        self.0.starts_with(SESSION_RECORD_PREFIX)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S2a: no id can escape the state directory.
    #[test]
    fn hostile_ids_are_rejected() {
        let long = "a".repeat(129);
        for hostile in [
            "",
            ".",
            "..",
            "../../x",
            "/etc/passwd",
            "C:\\x",
            "a/b",
            "a\\b",
            "a\0b",
            "ａ",
            "а",
            "a b",
            "a.b",
            "-\n",
            &long,
        ] {
            assert_eq!(SessionId::parse(hostile), None, "{hostile:?}");
            assert_eq!(RunId::parse(hostile), None, "{hostile:?}");
        }
        let longest = "a".repeat(128);
        for plain in ["a", "5999882c-e786-462c-84d4-07d1c65b5e76", "test_456", &longest] {
            assert_eq!(SessionId::parse(plain).unwrap().as_str(), plain);
        }
    }
}
