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
/// How many used links are remembered, so that a second use is detected.
const MAX_USED_LINKS: usize = 64;
/// How long a link is valid that other processes can see: as long as a browser needs to start.
const SHORT_LINK_TIMEOUT: Duration = Duration::from_mins(2);
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

/// Links and the sessions that they opened.
#[derive(Default)]
struct SessionTable {
    /// The token of the printed link that no browser has used yet.
    printed_link: Option<Hash>,
    /// The token of the link that ralph gave to a browser by itself.
    short_link: Option<(Hash, Deadline)>,
    used_links: VecDeque<UsedLink>,
    sessions: VecDeque<BrowserSession>,
    last_notice: u64,
}

/// The token of a link, and the session of the browser that used it.
struct UsedLink {
    token: Hash,
    session: Hash,
}

/// What a link led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkEntry {
    /// A session began. `next_token` is the token of the next printed link, if this one was the printed one.
    Begun {
        cookie: SecretText,
        next_token: Option<SecretText>,
    },
    /// The browser has a session already.
    Known {
        next_token: Option<SecretText>,
    },
    /// A second browser used the link, so the session that the first one opened has ended.
    Reused,
    Wrong,
}

pub(crate) struct AccessKeys {
    /// Makes hashes of secrets unpredictable for clients.
    key: [u8; 32],
    /// Opens the metrics, if a person asked for it.
    metrics: Option<Hash>,
    table: Mutex<SessionTable>,
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

impl SessionTable {
    fn is_short_link(&self, token: Hash) -> bool {
        let known = self.short_link.as_ref();
        known.is_some_and(|(known, deadline)| *known == token && !deadline.has_passed())
    }

    fn session_of_used_link(&self, token: Hash) -> Option<Hash> {
        self.used_links.iter().find(|used| used.token == token).map(|used| used.session)
    }

    fn add_used_link(&mut self, used: UsedLink) {
        if self.used_links.len() >= MAX_USED_LINKS {
            self.used_links.pop_front();
        }
        self.used_links.push_back(used);
    }

    fn add_session(&mut self, secret: Hash) {
        if self.sessions.len() >= MAX_SESSIONS {
            self.sessions.pop_front();
        }
        self.sessions.push_back(BrowserSession { secret, notices: VecDeque::new() });
    }

    fn has_session(&self, secret: Hash) -> bool {
        // Every session is compared, so that the time does not depend on which one matches.
        self.sessions.iter().filter(|session| session.secret == secret).count() > 0
    }

    /// Returns whether there was one.
    fn end_session(&mut self, secret: Hash) -> bool {
        let count = self.sessions.len();
        self.sessions.retain(|session| session.secret != secret);
        self.sessions.len() < count
    }
}

impl AccessKeys {
    /// New keys, with the token for the printed link. `None` if the system has no random numbers.
    pub(crate) fn generate() -> Option<(Self, SecretText)> {
        let key = clock::random_key()?;
        let token = SecretText::new()?;
        let link = blake3::keyed_hash(&key, token.as_str().as_bytes());
        let table = SessionTable { printed_link: Some(link), ..SessionTable::default() };
        Some((Self { key, metrics: None, table: Mutex::new(table) }, token))
    }

    /// A token that is valid for a short time, for a link that other processes can see.
    pub(crate) fn add_short_link(&self) -> Option<SecretText> {
        let token = SecretText::new()?;
        let hash = self.hash(token.as_str());
        lock(&self.table).short_link = Some((hash, Deadline::after(SHORT_LINK_TIMEOUT)));
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

    /// Exchanges the token of a link for a session. A token works for one browser: it stays in the history of that browser, and the
    /// arguments of a program show it. If a second browser presents it, nothing tells which of the two is the person's, so
    /// neither keeps a session.
    pub(crate) fn use_link(&self, token: &str, browser: Option<SessionMark>) -> LinkEntry {
        if token.len() > MAX_TOKEN_CHARS {
            return LinkEntry::Wrong;
        }
        let token = self.hash(token);
        let mut table = lock(&self.table);
        if let Some(session) = table.session_of_used_link(token) {
            if browser.is_some_and(|browser| browser.0 == session) {
                return LinkEntry::Known { next_token: None };
            }
            return if table.end_session(session) { LinkEntry::Reused } else { LinkEntry::Wrong };
        }
        let is_printed = table.printed_link == Some(token);
        if !is_printed && !table.is_short_link(token) {
            return LinkEntry::Wrong;
        }
        let browser = browser.filter(|browser| table.has_session(browser.0));
        let cookie = match browser {
            Some(_) => None,
            None => match SecretText::new() {
                Some(secret) => Some(secret),
                None => return LinkEntry::Wrong,
            },
        };
        let mut next_token = None;
        if is_printed {
            next_token = SecretText::new();
            table.printed_link = next_token.as_ref().map(|next| self.hash(next.as_str()));
        } else {
            table.short_link = None;
        }
        let known = browser.map(|browser| browser.0);
        let session = cookie.as_ref().map(|secret| self.hash(secret.as_str())).or(known);
        let Some(session) = session else { return LinkEntry::Wrong };
        table.add_used_link(UsedLink { token, session });
        match cookie {
            None => LinkEntry::Known { next_token },
            Some(cookie) => {
                table.add_session(session);
                LinkEntry::Begun { cookie, next_token }
            }
        }
    }

    /// Whether the session has not ended since its cookie was checked.
    pub(crate) fn is_open(&self, session: SessionMark) -> bool {
        lock(&self.table).has_session(session.0)
    }

    /// The session of a cookie.
    pub(crate) fn find_session(&self, secret: &str) -> Option<SessionMark> {
        if secret.len() > MAX_TOKEN_CHARS {
            return None;
        }
        let hash = self.hash(secret);
        lock(&self.table).has_session(hash).then_some(SessionMark(hash))
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
        let mut table = lock(&self.table);
        table.last_notice += 1;
        let number = table.last_notice;
        if let Some(known) = table.sessions.iter_mut().find(|known| known.secret == session.0) {
            if known.notices.len() >= MAX_NOTICES {
                known.notices.pop_front();
            }
            known.notices.push_back((number, notice));
        }
        number
    }

    /// The result of an earlier action of this session. Showing it does not remove it, because a GET changes nothing.
    pub(crate) fn notice(&self, session: SessionMark, number: u64) -> Option<ActionNotice> {
        let table = lock(&self.table);
        let known = table.sessions.iter().find(|known| known.secret == session.0)?;
        known.notices.iter().find(|(known, _)| *known == number).map(|(_, text)| text.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The links of a person, one after the other.
    struct LinkChain {
        keys: AccessKeys,
        link: SecretText,
    }

    impl LinkChain {
        fn new() -> Self {
            let (keys, link) = AccessKeys::generate().unwrap();
            Self { keys, link }
        }

        /// Enters with the printed link, and takes the next one.
        fn enter(&mut self) -> SecretText {
            let LinkEntry::Begun { cookie, next_token: Some(next) } =
                self.keys.use_link(self.link.as_str(), None)
            else {
                panic!("the printed link begins no session")
            };
            self.link = next;
            cookie
        }
    }

    #[test]
    fn a_link_opens_one_session_and_its_second_use_ends_it() {
        let mut chain = LinkChain::new();
        let short = chain.keys.add_short_link().unwrap();
        assert_eq!(chain.link.as_str().len(), 64);
        let used = chain.link.clone();
        let (first, second) = (chain.enter(), chain.enter());
        assert_ne!(first, second);
        let keys = &chain.keys;
        let session = |secret: &SecretText| keys.find_session(secret.as_str());
        for wrong in ["", "0", first.as_str(), &chain.link.as_str()[1..], &"0".repeat(4_000)] {
            assert_eq!(keys.use_link(wrong, None), LinkEntry::Wrong, "{wrong}");
        }
        assert!(session(&used).is_none());
        // A reload in the same browser.
        let known = LinkEntry::Known { next_token: None };
        assert_eq!(keys.use_link(used.as_str(), session(&first)), known);
        // Another browser, with a session or without one.
        assert_eq!(keys.use_link(used.as_str(), session(&second)), LinkEntry::Reused);
        assert!(session(&first).is_none() && session(&second).is_some());
        assert_eq!(keys.use_link(used.as_str(), None), LinkEntry::Wrong);
        // A browser with a session keeps it, and uses the link up.
        assert_eq!(keys.use_link(short.as_str(), session(&second)), known);
        assert_eq!(keys.use_link(short.as_str(), None), LinkEntry::Reused);
        assert!(session(&second).is_none());
        assert!(matches!(
            keys.use_link(chain.link.as_str(), None),
            LinkEntry::Begun { next_token: Some(_), .. }
        ));
    }

    #[test]
    fn the_token_of_the_metrics_opens_nothing_else_and_nothing_else_opens_them() {
        let mut chain = LinkChain::new();
        let link = chain.link.clone();
        assert!(!chain.keys.is_metrics_token("") && !chain.keys.is_metrics_token(link.as_str()));
        let token = chain.keys.add_metrics_token().unwrap();
        let session = chain.enter();
        let keys = chain.keys;
        assert!(keys.is_metrics_token(token.as_str()));
        assert_eq!(keys.use_link(token.as_str(), None), LinkEntry::Wrong);
        assert!(keys.find_session(token.as_str()).is_none());
        for wrong in ["", link.as_str(), session.as_str(), &token.as_str()[1..]] {
            assert!(!keys.is_metrics_token(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_form_token_is_bound_to_its_session_and_path() {
        let mut chain = LinkChain::new();
        let (one, other) = (chain.enter(), chain.enter());
        let keys = chain.keys;
        let session = |secret: &SecretText| keys.find_session(secret.as_str()).unwrap();
        let (one, other) = (session(&one), session(&other));
        let token = keys.form_token(one, "/run/k7f2/pause");
        assert!(keys.is_form_token(one, "/run/k7f2/pause", &token));
        assert!(!keys.is_form_token(one, "/run/k7f2/cancel", &token));
        assert!(!keys.is_form_token(other, "/run/k7f2/pause", &token));
        assert!(!keys.is_form_token(one, "/run/k7f2/pause", ""));
    }

    #[test]
    fn the_oldest_of_too_many_sessions_ends() {
        let mut chain = LinkChain::new();
        let secrets: Vec<_> = (0..=MAX_SESSIONS).map(|_| chain.enter()).collect();
        assert!(chain.keys.find_session(secrets[0].as_str()).is_none());
        assert!(chain.keys.find_session(secrets[1].as_str()).is_some());
    }
}
