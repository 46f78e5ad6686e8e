//! Parses the client's command line. Unknown flags are ignored.

use crate::transcript::BYPASS_MODE;
use std::ffi::OsString;
use std::str::FromStr;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeClientFlags {
    pub session: RequestedSession,
    pub model: Option<String>,
    pub max_turns: Option<u32>,
    pub max_budget_usd: Option<f64>,
    /// Inline JSON, or the path of a JSON file.
    pub settings: Option<String>,
    /// The permission mode.
    pub permission_mode: Option<String>,
    /// Tools that need no permission, from `--allowedTools`.
    pub allowed_tools: Vec<String>,
    /// Whether permission prompts go to the driver (`--permission-prompt-tool stdio`); otherwise there are none.
    pub asks_driver: bool,
    /// Whether configured hooks are ignored (`--bare`).
    pub is_bare: bool,
}

/// The session that the process opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedSession {
    /// A new session, with the given or a generated id.
    New(Option<String>),
    Resumed(String),
    Forked {
        from: String,
        to: Option<String>,
    },
}

impl Default for RequestedSession {
    fn default() -> Self {
        Self::New(None)
    }
}

/// A flag that takes a number got something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{flag}` takes a number, not `{value}`")]
pub struct FakeClientFlagsError {
    flag: String,
    value: String,
}

impl FakeClientFlags {
    pub fn parse(args: &[OsString]) -> Result<Self, FakeClientFlagsError> {
        let mut flags = Self::default();
        let (mut id, mut resumed, mut is_fork) = (None, None, false);
        let mut words = args.iter().map(|word| word.to_string_lossy().into_owned()).peekable();
        while let Some(word) = words.next() {
            let (name, mut value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    (name.to_owned(), Some(value.to_owned()))
                }
                Some(_) | None => (word, None),
            };
            let mut value = || value.take().or_else(|| words.next());
            match name.as_str() {
                "--session-id" => id = value(),
                "--resume" | "-r" => resumed = value(),
                "--bare" => flags.is_bare = true,
                "--fork-session" => is_fork = true,
                "--model" => flags.model = value(),
                "--max-turns" => {
                    flags.max_turns = value().map(|text| number(&name, text)).transpose()?;
                }
                "--max-budget-usd" => {
                    flags.max_budget_usd = value().map(|text| number(&name, text)).transpose()?;
                }
                "--settings" => flags.settings = value(),
                "--permission-mode" => flags.permission_mode = value(),
                "--dangerously-skip-permissions" => {
                    flags.permission_mode = Some(BYPASS_MODE.to_owned());
                }
                "--allowedTools" | "--allowed-tools" => {
                    let list = value().unwrap_or_default();
                    flags.allowed_tools.extend(list.split(',').map(|name| name.trim().to_owned()));
                }
                "--permission-prompt-tool" if value().as_deref() == Some("stdio") => {
                    flags.asks_driver = true;
                }
                _ => {}
            }
        }
        flags.session = match (resumed, is_fork) {
            (Some(from), true) => RequestedSession::Forked { from, to: id },
            (Some(session), false) => RequestedSession::Resumed(session),
            (None, _) => RequestedSession::New(id),
        };
        Ok(flags)
    }
}

fn number<T: FromStr>(flag: &str, value: String) -> Result<T, FakeClientFlagsError> {
    value.parse().map_err(|_| FakeClientFlagsError { flag: flag.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> FakeClientFlags {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        FakeClientFlags::parse(&words).unwrap()
    }

    #[test]
    fn parses_known_flags_and_ignores_unknown_ones() {
        let line = "-p --input-format stream-json --output-format=stream-json --verbose --session-id A --model=m \
            --max-turns 3 --max-budget-usd 0.5 --settings {} --permission-mode acceptEdits --allowedTools Bash,Read \
            --permission-prompt-tool stdio --append-system-prompt x --unheard-of --bare";
        assert_eq!(
            read(line),
            FakeClientFlags {
                session: RequestedSession::New(Some("A".to_owned())),
                model: Some("m".to_owned()),
                max_turns: Some(3),
                max_budget_usd: Some(0.5),
                settings: Some("{}".to_owned()),
                permission_mode: Some("acceptEdits".to_owned()),
                allowed_tools: vec!["Bash".to_owned(), "Read".to_owned()],
                asks_driver: true,
                is_bare: true,
            }
        );
        assert_eq!(read("-p"), FakeClientFlags::default());
        assert_eq!(read("--resume A").session, RequestedSession::Resumed("A".to_owned()));
        let fork = |to: Option<&str>| RequestedSession::Forked {
            from: "A".to_owned(),
            to: to.map(str::to_owned),
        };
        assert_eq!(read("--fork-session --resume A").session, fork(None));
        assert_eq!(read("--resume=A --fork-session --session-id B").session, fork(Some("B")));
        assert!(!read("--permission-prompt-tool mcp__x").asks_driver);
    }

    #[test]
    fn rejects_a_limit_that_is_not_a_number() {
        for line in ["--max-turns many", "--max-budget-usd=$3"] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            assert!(FakeClientFlags::parse(&words).is_err(), "{line}");
        }
    }
}
