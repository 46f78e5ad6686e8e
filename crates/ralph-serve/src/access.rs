//! Secrets: the token in the printed link, that of the metrics, the sessions of browsers, and the tokens of forms.
//!
//! All of them are random, live in memory only and end with the server. They are compared as keyed hashes, whose comparison
//! takes the same time wherever they differ.

use blake3::Hash;
use ralph_sys::clock::{self, Deadline};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More browsers than a person uses. The oldest session ends when there is one more.
const MAX_SESSIONS: usize = 16;
/// Messages of actions that a session can still show.
const MAX_NOTICES: usize = 16;
/// How long a link for one use is valid: as long as a browser needs to start.
const SINGLE_USE_TIMEOUT: Duration = Duration::from_mins(2);
/// Longer tokens are wrong without a comparison.
const MAX_TOKEN_CHARS: usize = 128;

/// The field of every form that has its token.
pub(crate) const TOKEN_FIELD: &str = "token";

/// 256 random bits as text for links, cookies and forms.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(String);

impl SecretText {
    fn new() -> Option<Self> {
        Some(Self(blake3::Hash::from_bytes(clock::random_key()?).to_hex().to_string()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// One browser.
struct BrowserSession {
    secret: Hash,
    notices: VecDeque<(u64, ActionNotice)>,
}

/// What an action of the page led to, shown on the page that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActionNotice {
    pub(crate) text: String,
    pub(crate) is_failure: bool,
}

/// A session whose cookie was valid. Forms of its pages are bound to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionMark(Hash);

pub(crate) struct AccessKeys {
    /// Makes hashes of secrets unpredictable for clients.
    key: [u8; 32],
    link: Hash,
    /// Opens the metrics, if a person asked for it.
    metrics: Option<Hash>,
    single_use: Mutex<Option<(Hash, Deadline)>>,
    sessions: Mutex<VecDeque<BrowserSession>>,
    next_notice: Mutex<u64>,
}

impl fmt::Debug for AccessKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessKeys")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No update under these locks can be left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AccessKeys {
    /// New keys, with the token for the printed link. `None` if the system has no random numbers.
    pub(crate) fn generate() -> Option<(Self, SecretText)> {
        let key = clock::random_key()?;
        let token = SecretText::new()?;
        let link = blake3::keyed_hash(&key, token.as_str().as_bytes());
        let keys = Self {
            key,
            link,
            metrics: None,
            single_use: Mutex::default(),
            sessions: Mutex::default(),
            next_notice: Mutex::new(1),
        };
        Some((keys, token))
    }

    /// A token that is valid once and for a short time, for a link that other processes can see.
    pub(crate) fn add_single_use_token(&self) -> Option<SecretText> {
        let token = SecretText::new()?;
        let hash = self.hash(token.as_str());
        *lock(&self.single_use) = Some((hash, Deadline::after(SINGLE_USE_TIMEOUT)));
        Some(token)
    }

    /// A token for the metrics, which opens nothing else.
    pub(crate) fn add_metrics_token(&mut self) -> Option<SecretText> {
        let token = SecretText::new()?;
        self.metrics = Some(self.hash(token.as_str()));
        Some(token)
    }

    pub(crate) fn is_metrics_token(&self, token: &str) -> bool {
        let is_short = token.len() <= MAX_TOKEN_CHARS;
        is_short && self.metrics.is_some_and(|known| known == self.hash(token))
    }

    fn hash(&self, text: &str) -> Hash {
        blake3::keyed_hash(&self.key, text.as_bytes())
    }

    /// Begins a session for the token of a link. Returns the secret for the cookie.
    pub(crate) fn begin_session(&self, token: &str) -> Option<SecretText> {
        if !self.is_link_token(token) {
            return None;
        }
        let secret = SecretText::new()?;
        let mut sessions = lock(&self.sessions);
        if sessions.len() >= MAX_SESSIONS {
            sessions.pop_front();
        }
        let session =
            BrowserSession { secret: self.hash(secret.as_str()), notices: VecDeque::new() };
        sessions.push_back(session);
        Some(secret)
    }

    fn is_link_token(&self, token: &str) -> bool {
        if token.len() > MAX_TOKEN_CHARS {
            return false;
        }
        let hash = self.hash(token);
        if hash == self.link {
            return true;
        }
        let mut single_use = lock(&self.single_use);
        let is_valid = single_use
            .as_ref()
            .is_some_and(|(known, deadline)| hash == *known && !deadline.has_passed());
        if is_valid {
            *single_use = None;
        }
        is_valid
    }

    /// The session of a cookie.
    pub(crate) fn find_session(&self, secret: &str) -> Option<SessionMark> {
        if secret.len() > MAX_TOKEN_CHARS {
            return None;
        }
        let hash = self.hash(secret);
        let sessions = lock(&self.sessions);
        // Every session is compared, so that the time does not depend on which one matches.
        let found = sessions.iter().filter(|session| session.secret == hash).count();
        (found > 0).then_some(SessionMark(hash))
    }

    /// The token of the forms on pages of this session that post to `path`.
    pub(crate) fn form_token(&self, session: SessionMark, path: &str) -> String {
        self.form_hash(session, path).to_hex().to_string()
    }

    pub(crate) fn is_form_token(&self, session: SessionMark, path: &str, token: &str) -> bool {
        Hash::from_hex(token).is_ok_and(|hash| hash == self.form_hash(session, path))
    }

    fn form_hash(&self, session: SessionMark, path: &str) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"form").update(session.0.as_bytes()).update(path.as_bytes());
        hasher.finalize()
    }

    /// Keeps the result of an action for the page after it. Returns its number.
    pub(crate) fn add_notice(&self, session: SessionMark, notice: ActionNotice) -> u64 {
        let number = {
            let mut next = lock(&self.next_notice);
            *next += 1;
            *next - 1
        };
        let mut sessions = lock(&self.sessions);
        if let Some(known) = sessions.iter_mut().find(|known| known.secret == session.0) {
            if known.notices.len() >= MAX_NOTICES {
                known.notices.pop_front();
            }
            known.notices.push_back((number, notice));
        }
        number
    }

    /// The result of an earlier action of this session. Showing it does not remove it, because a GET changes nothing.
    pub(crate) fn notice(&self, session: SessionMark, number: u64) -> Option<ActionNotice> {
        let sessions = lock(&self.sessions);
        let known = sessions.iter().find(|known| known.secret == session.0)?;
        known.notices.iter().find(|(known, _)| *known == number).map(|(_, text)| text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tokens_of_links_begin_sessions_and_a_token_for_one_use_works_once() {
        let (keys, link) = AccessKeys::generate().unwrap();
        let once = keys.add_single_use_token().unwrap();
        assert_eq!(link.as_str().len(), 64);
        let first = keys.begin_session(link.as_str()).unwrap();
        let second = keys.begin_session(link.as_str()).unwrap();
        assert_ne!(first, second);
        assert!(keys.begin_session(once.as_str()).is_some());
        assert!(keys.begin_session(once.as_str()).is_none());
        for wrong in ["", "0", first.as_str(), &link.as_str()[1..], &"0".repeat(4_000)] {
            assert!(keys.begin_session(wrong).is_none(), "{wrong}");
        }
        assert!(keys.find_session(first.as_str()).is_some());
        assert!(keys.find_session(link.as_str()).is_none());
    }

    #[test]
    fn the_token_of_the_metrics_opens_nothing_else_and_nothing_else_opens_them() {
        let (mut keys, link) = AccessKeys::generate().unwrap();
        assert!(!keys.is_metrics_token("") && !keys.is_metrics_token(link.as_str()));
        let token = keys.add_metrics_token().unwrap();
        let session = keys.begin_session(link.as_str()).unwrap();
        assert!(keys.is_metrics_token(token.as_str()));
        assert!(keys.begin_session(token.as_str()).is_none());
        assert!(keys.find_session(token.as_str()).is_none());
        for wrong in ["", link.as_str(), session.as_str(), &token.as_str()[1..]] {
            assert!(!keys.is_metrics_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_form_token_is_bound_to_its_session_and_path() {
        let (keys, link) = AccessKeys::generate().unwrap();
        let session = |keys: &AccessKeys| {
            let secret = keys.begin_session(link.as_str()).unwrap();
            keys.find_session(secret.as_str()).unwrap()
        };
        let (one, other) = (session(&keys), session(&keys));
        let token = keys.form_token(one, "/run/k7f2/pause");
        assert!(keys.is_form_token(one, "/run/k7f2/pause", &token));
        assert!(!keys.is_form_token(one, "/run/k7f2/cancel", &token));
        assert!(!keys.is_form_token(other, "/run/k7f2/pause", &token));
        assert!(!keys.is_form_token(one, "/run/k7f2/pause", ""));
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let (keys, link) = AccessKeys::generate().unwrap();
        let secrets: Vec<_> =
            (0..=MAX_SESSIONS).map(|_| keys.begin_session(link.as_str()).unwrap()).collect();
        assert!(keys.find_session(secrets[0].as_str()).is_none());
        assert!(keys.find_session(secrets[1].as_str()).is_some());
    }
}
