//! Removes secrets from text before it reaches an agent, the journal or a screen.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

pub const REDACTED: &str = "[redacted]";

/// How a token is recognised: a fixed prefix followed by at least `min_len` token characters.
struct TokenShape {
    prefix: &'static str,
    min_len: usize,
}

const TOKEN_SHAPES: &[TokenShape] = &[
    TokenShape { prefix: "sk-ant-", min_len: 16 },
    TokenShape { prefix: "sk-proj-", min_len: 16 },
    TokenShape { prefix: "sk-", min_len: 20 },
    TokenShape { prefix: "sk_live_", min_len: 16 },
    TokenShape { prefix: "rk_live_", min_len: 16 },
    TokenShape { prefix: "sk_test_", min_len: 16 },
    TokenShape { prefix: "rk_test_", min_len: 16 },
    TokenShape { prefix: "whsec_", min_len: 16 },
    TokenShape { prefix: "ghp_", min_len: 20 },
    TokenShape { prefix: "gho_", min_len: 20 },
    TokenShape { prefix: "ghu_", min_len: 20 },
    TokenShape { prefix: "ghs_", min_len: 20 },
    TokenShape { prefix: "ghr_", min_len: 20 },
    TokenShape { prefix: "github_pat_", min_len: 20 },
    TokenShape { prefix: "glpat-", min_len: 16 },
    TokenShape { prefix: "glrt-", min_len: 16 },
    TokenShape { prefix: "xoxb-", min_len: 10 },
    TokenShape { prefix: "xoxp-", min_len: 10 },
    TokenShape { prefix: "xoxa-", min_len: 10 },
    TokenShape { prefix: "xoxs-", min_len: 10 },
    TokenShape { prefix: "xapp-", min_len: 10 },
    TokenShape { prefix: "AKIA", min_len: 16 },
    TokenShape { prefix: "ASIA", min_len: 16 },
    TokenShape { prefix: "AIza", min_len: 30 },
    TokenShape { prefix: "ya29.", min_len: 20 },
    TokenShape { prefix: "npm_", min_len: 30 },
    TokenShape { prefix: "pypi-", min_len: 30 },
    TokenShape { prefix: "hf_", min_len: 20 },
    TokenShape { prefix: "dop_v1_", min_len: 30 },
    TokenShape { prefix: "SG.", min_len: 30 },
    TokenShape { prefix: "eyJ", min_len: 40 },
];

const PRIVATE_KEY_BEGIN: &str = "-----BEGIN ";
/// The last words of the first line of a key, also of PGP.
pub const PRIVATE_KEY_MARKS: [&str; 2] = ["PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"];
pub const PRIVATE_KEY_END: &str = "-----END ";
const URL_AUTHORITY: &str = "://";
/// A password in an address is not longer. The search for its end must not take quadratic time.
const MAX_URL_PASSWORD: usize = 256;

/// Addresses whose path is the secret.
const WEBHOOK_ADDRESSES: &[&str] = &[
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    // Below a host of the customer's.
    "webhook.office.com/webhookb2/",
];
/// A path behind a webhook's address that is too short to be a secret occurs in documentation.
const MIN_WEBHOOK_PATH: usize = 24;

/// Prefixes of tokens that are long and unlike any word, so that they are found inside of a word too.
const UNMISTAKABLE_PREFIXES: &[&str] = &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"];
/// So many characters follow them at least.
const UNMISTAKABLE_LEN: usize = 36;

/// Prefixes after which any token is a secret.
const SECRET_PREFIXES: &[&str] = &[
    "Bearer ",
    "bearer ",
    "Authorization: Basic ",
    "authorization: Basic ",
    // As CI services write it into the configuration of git.
    "AUTHORIZATION: basic ",
    "Authorization: basic ",
    "authorization: basic ",
];

/// The names of a setting whose value is a secret of this many characters.
const SECRET_SETTINGS: &[&str] = &[
    "aws_secret_access_key",
    "AWS_SECRET_ACCESS_KEY",
    "aws_secret_key",
    "AWS_SECRET_KEY",
    "SecretAccessKey",
];
const AWS_SECRET_LEN: usize = 40;

#[derive(Clone, Debug)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another is removed whole.
    known_secrets: Vec<String>,
    /// A bit set of the first two bytes of every secret. It is tested at every position of every text, and rules out
    /// nearly all of them.
    first_pairs: Vec<u64>,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Redactor {
    /// `known` are values that must not appear, such as the values of environment variables whose names suggest a
    /// secret. Values shorter than 8 bytes are ignored.
    pub fn new(mut known: Vec<String>) -> Self {
        known.retain(|secret| secret.len() >= 8);
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        let shapes = TOKEN_SHAPES.iter().map(|shape| shape.prefix);
        let all = shapes.chain(known.iter().map(String::as_str));
        let mut beginnings = alloc::vec![0; (1 << 16) / 64];
        for text in all
            .chain(SECRET_PREFIXES.iter().copied())
            .chain(SECRET_SETTINGS.iter().copied())
            .chain(WEBHOOK_ADDRESSES.iter().copied())
            .chain([PRIVATE_KEY_BEGIN, URL_AUTHORITY])
        {
            if let [first, second, ..] = text.as_bytes() {
                let (word, bit) = pair_bit(*first, *second);
                if let Some(word) = beginnings.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        Self { known_secrets: known, first_pairs: beginnings }
    }

    pub fn redact(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for secret in self.secret_ranges(text) {
            out.push_str(&text[shown..secret.start]);
            out.push_str(REDACTED);
            shown = secret.end;
        }
        out.push_str(&text[shown..]);
        out
    }

    /// As [`Self::redact`], with as many lines as the text has.
    pub fn redact_lines(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut shown = 0;
        for secret in self.secret_ranges(text) {
            out.push_str(&text[shown..secret.start]);
            shown = secret.end;
            out.push_str(REDACTED);
            for _ in text[secret].matches('\n') {
                out.push('\n');
                out.push_str(REDACTED);
            }
        }
        out.push_str(&text[shown..]);
        out
    }

    /// The parts of a text that [`Self::redact`] removes, in order.
    pub fn secret_ranges(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = self.next_candidate(text.as_bytes(), from) {
            let hidden = self.secret_len_at(&text[at..], WordPosition::after(&text[..at]));
            if hidden > 0 {
                found.push(at..at + hidden);
            }
            from = at + hidden.max(1);
        }
        found
    }

    /// The next position where a secret may begin. No secret begins inside a character, so it is a character boundary.
    fn next_candidate(&self, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let found = rest.windows(2).position(|pair| match pair {
            [first, second] => {
                let (word, bit) = pair_bit(*first, *second);
                self.first_pairs.get(word).is_some_and(|word| word & bit != 0)
            }
            _ => false,
        });
        found.map(|at| from + at)
    }

    /// The length of the secret at the start of `rest`; 0 if there is none.
    fn secret_len_at(&self, rest: &str, position: WordPosition) -> usize {
        if let Some(secret) =
            self.known_secrets.iter().find(|secret| rest.starts_with(secret.as_str()))
        {
            return secret.len();
        }
        if let Some(password) = url_credentials_len(rest) {
            return password;
        }
        // A token starts at the start of a word: `task-12` does not contain `sk-12`.
        if position == WordPosition::Inside {
            return unmistakable_token_len(rest).unwrap_or(0);
        }
        let shaped = TOKEN_SHAPES.iter().find_map(|shape| {
            let token = token_len(rest.strip_prefix(shape.prefix)?);
            (token >= shape.min_len).then_some(shape.prefix.len() + token)
        });
        let others = [announced_secret_len, private_key_len, webhook_len, secret_setting_len];
        shaped.or_else(|| others.iter().find_map(|secret_len| secret_len(rest))).unwrap_or(0)
    }
}

/// Whether a word can begin behind a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WordPosition {
    Start,
    Inside,
}

impl WordPosition {
    fn after(text: &str) -> Self {
        let bytes = text.as_bytes();
        let is_inside = bytes.last().is_some_and(u8::is_ascii_alphanumeric);
        if is_inside && !ends_with_color(bytes) && !ends_with_escaped_char(bytes) {
            Self::Inside
        } else {
            Self::Start
        }
    }
}

/// Whether the last letter ends a control sequence of a terminal: `ESC [ 31 m`.
fn ends_with_color(bytes: &[u8]) -> bool {
    const LONGEST_PARAMETERS: usize = 32;
    let parameters = bytes.get(..bytes.len().saturating_sub(1)).unwrap_or_default();
    let is_parameter = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b';' | b':' | b'?');
    let length = parameters.iter().rev().take(LONGEST_PARAMETERS).take_while(is_parameter).count();
    parameters.get(..parameters.len() - length).is_some_and(|rest| rest.ends_with(b"\x1b["))
}

/// Whether the last letter or number belongs to an escaped character of JSON or source code: `\n`, `\u000a`, `\x1b`.
fn ends_with_escaped_char(bytes: &[u8]) -> bool {
    let escape = |length: usize, letters: &[u8]| match bytes.len().checked_sub(length + 2) {
        Some(at) => match bytes.get(at..) {
            Some([b'\\', letter, digits @ ..]) => {
                letters.contains(letter) && digits.iter().all(u8::is_ascii_hexdigit)
            }
            _ => false,
        },
        None => false,
    };
    escape(0, b"abefnrtv0") || escape(4, b"u") || escape(2, b"x")
}

fn pair_bit(first: u8, second: u8) -> (usize, u64) {
    let number = usize::from(first) << 8 | usize::from(second);
    (number / 64, 1 << (number % 64))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=')
}

fn token_len(text: &str) -> usize {
    text.bytes().take_while(|byte| is_token_byte(*byte)).count()
}

fn announced_secret_len(rest: &str) -> Option<usize> {
    SECRET_PREFIXES.iter().find_map(|word| {
        let token = token_len(rest.strip_prefix(word)?);
        (token >= 16).then_some(word.len() + token)
    })
}

fn private_key_len(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix(PRIVATE_KEY_BEGIN)?;
    // The key type in between is short. Searching further would take quadratic time on a text of repeated prefixes.
    let mut near = body.len().min(64);
    while !body.is_char_boundary(near) {
        near -= 1;
    }
    let find = |mark: &str| body[..near].find(mark).map(|at| at + mark.len());
    let head = PRIVATE_KEY_MARKS.into_iter().find_map(find)?;
    let from = PRIVATE_KEY_BEGIN.len() + head;
    // A truncated key is still a secret.
    let end = rest[from..].find(PRIVATE_KEY_END).map_or(rest.len(), |at| {
        let line = &rest[from + at..];
        from + at + line.find('\n').unwrap_or(line.len())
    });
    Some(end)
}

fn unmistakable_token_len(rest: &str) -> Option<usize> {
    UNMISTAKABLE_PREFIXES.iter().find_map(|prefix| {
        let body = rest.strip_prefix(prefix)?;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let len = body.bytes().take_while(is_word).count();
        (len >= UNMISTAKABLE_LEN).then_some(prefix.len() + len)
    })
}

/// `hooks.slack.com/services/T…/B…/…`
fn webhook_len(rest: &str) -> Option<usize> {
    WEBHOOK_ADDRESSES.iter().find_map(|address| {
        let path = rest.strip_prefix(address)?;
        let is_path = |byte: &u8| is_token_byte(*byte) || *byte == b'@';
        let path = path.bytes().take_while(is_path).count();
        (path >= MIN_WEBHOOK_PATH).then_some(address.len() + path)
    })
}

/// `aws_secret_access_key = …` and its value: exactly as long as such a secret is, in quotes or without.
fn secret_setting_len(rest: &str) -> Option<usize> {
    SECRET_SETTINGS.iter().find_map(|name| {
        let after = rest.strip_prefix(name)?.trim_start_matches(['"', '\'', ' ', '\t']);
        let value = after.strip_prefix([':', '='])?.trim_start_matches(['"', '\'', ' ', '\t']);
        let is_secret = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let len = value.bytes().take_while(is_secret).count();
        (len == AWS_SECRET_LEN).then_some(rest.len() - value.len() + len)
    })
}

/// `://user:password@` and `://token@`: everything up to the at sign is hidden.
fn url_credentials_len(rest: &str) -> Option<usize> {
    let user = rest.strip_prefix(URL_AUTHORITY)?;
    let is_end = |char: char| char.is_whitespace() || matches!(char, '"' | '\'' | '<' | '>');
    let end = user.find(|char: char| is_end(char) || char == '/');
    let authority = &user[..end.unwrap_or(user.len())];
    if let Some(at) = authority.rfind('@') {
        let credentials = &authority[..at];
        let is_secret = credentials.contains(':') || is_token(credentials);
        return is_secret.then_some(URL_AUTHORITY.len() + at + 1);
    }
    // A slash in a password belongs into `%2F`, but clients accept it. A host with a port looks the same at first
    // (`http://host:80/@scope`), and so does code that puts an address together (`://{host}:{port}/a@b`).
    let (name, first) = authority.split_once(':')?;
    let is_password = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~!%^&*+=".contains(&byte);
    let password = &user[name.len() + 1..];
    let len = password.bytes().take(MAX_URL_PASSWORD).take_while(|byte| is_password(*byte)).count();
    let is_port = first.bytes().all(|byte| byte.is_ascii_digit());
    let host = password[len..].strip_prefix('@')?;
    let is_secret = !is_port
        && name.bytes().all(is_password)
        && host.starts_with(|char: char| char.is_ascii_alphanumeric());
    is_secret.then_some(URL_AUTHORITY.len() + name.len() + 1 + len + 1)
}

/// Whether a whole text is a known kind of token.
fn is_token(text: &str) -> bool {
    TOKEN_SHAPES.iter().any(|shape| {
        let body = text.strip_prefix(shape.prefix).unwrap_or_default();
        body.len() >= shape.min_len && token_len(body) == body.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::{format, vec};

    /// R-S7a: known token formats and the values of secret variables are removed, ordinary text is not.
    #[test]
    fn secrets_are_removed_and_text_is_kept() {
        let redactor = Redactor::new(vec![
            "hunter2hunter2".to_string(),
            "hunter2hunter2-long".to_string(),
            "short".to_string(),
        ]);
        let long = "A".repeat(40);
        for (text, shown) in [
            (format!("key sk-ant-api03-{long} end"), "key [redacted] end".to_string()),
            (format!("ghp_{long}"), "[redacted]".to_string()),
            (format!("token=github_pat_{long}."), "token=[redacted]".to_string()),
            ("AKIAIOSFODNN7EXAMPLE".to_string(), "[redacted]".to_string()),
            (format!("Authorization: Bearer {long}"), "Authorization: [redacted]".to_string()),
            (format!("eyJ{long}.{long}.x"), "[redacted]".to_string()),
            ("postgres://me:pw@host/db".to_string(), "postgres[redacted]host/db".to_string()),
            (format!("sk_test_{long} glrt-{long}"), "[redacted] [redacted]".to_string()),
            (format!("TOKENghp_{long}"), "TOKEN[redacted]".to_string()),
            ("Authorization: Basic dXNlcjpwYXNzd29yZA==".to_string(), "[redacted]".to_string()),
            (
                "extraheader = AUTHORIZATION: basic dXNlcjpwYXNzd29yZA==".to_string(),
                "extraheader = [redacted]".to_string(),
            ),
            (
                format!("https://hooks.slack.com/services/T000/B000/{long}"),
                "https://[redacted]".to_string(),
            ),
            (format!("https://ghp_{long}@github.com/x"), "https[redacted]github.com/x".to_string()),
            ("postgres://me:pa/ss@host/db".to_string(), "postgres[redacted]host/db".to_string()),
            (format!("aws_secret_access_key = {long}"), "[redacted]".to_string()),
            (format!("\"SecretAccessKey\": \"{long}\","), "\"[redacted]\",".to_string()),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nb"
                    .to_string(),
                "a [redacted]\nb".to_string(),
            ),
            ("-----BEGIN PRIVATE KEY-----\ncut off".to_string(), "[redacted]".to_string()),
            (
                "x hunter2hunter2-long y hunter2hunter2z".to_string(),
                "x [redacted] y [redacted]z".to_string(),
            ),
            ("a short word".to_string(), "a short word".to_string()),
            (
                "https://host:8080/@scope/package git://host/a@v1".to_string(),
                "https://host:8080/@scope/package git://host/a@v1".to_string(),
            ),
            (
                "https://me@host http://[::1]/a@b ://{host}:{port}/a@b".to_string(),
                "https://me@host http://[::1]/a@b ://{host}:{port}/a@b".to_string(),
            ),
            (
                format!("aws_secret_access_key = read_secret() // {long}"),
                format!("aws_secret_access_key = read_secret() // {long}"),
            ),
            (
                "Basic authentication, https://hooks.slack.com/services/T/B/x".to_string(),
                "Basic authentication, https://hooks.slack.com/services/T/B/x".to_string(),
            ),
            ("let my_ghp_prefix = 1;".to_string(), "let my_ghp_prefix = 1;".to_string()),
            (
                "task-sk-12 is at https://host/path:8080@x".to_string(),
                "task-sk-12 is at https://host/path:8080@x".to_string(),
            ),
            (
                "disk-based-indexing-of-everything".to_string(),
                "disk-based-indexing-of-everything".to_string(),
            ),
            ("-----BEGIN CERTIFICATE-----".to_string(), "-----BEGIN CERTIFICATE-----".to_string()),
            ("äöü €".to_string(), "äöü €".to_string()),
        ] {
            assert_eq!(redactor.redact(&text), shown, "{text}");
        }
    }

    /// A token begins behind the end of a colour or of an escaped character, too; keys and webhooks are of several kinds.
    #[test]
    fn secrets_behind_escapes_and_of_other_kinds_are_removed() {
        let redactor = Redactor::default();
        let long = "A".repeat(40);
        for (text, shown) in [
            (
                "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----\nb"
                    .to_string(),
                "[redacted]\nb".to_string(),
            ),
            (
                "\u{1b}[1;33mAKIAIOSFODNN7EXAMPLE\u{1b}[0m".to_string(),
                "\u{1b}[1;33m[redacted]\u{1b}[0m".to_string(),
            ),
            (
                r#"{"msg":"boom\nAKIAIOSFODNN7EXAMPLE\u000aAKIAIOSFODNN7EXAMPLE"}"#.to_string(),
                r#"{"msg":"boom\n[redacted]\u000a[redacted]"}"#.to_string(),
            ),
            ("nAKIAIOSFODNN7EXAMPLE".to_string(), "nAKIAIOSFODNN7EXAMPLE".to_string()),
            (
                format!("https://discord.com/api/webhooks/123456789/{long} x"),
                "https://[redacted] x".to_string(),
            ),
            (
                format!("https://a.webhook.office.com/webhookb2/{long}@{long}"),
                "https://a.[redacted]".to_string(),
            ),
        ] {
            assert_eq!(redactor.redact(&text), shown, "{text}");
        }
    }
}
