//! The `matcher` of a hook in the settings, interpreted as the client does.
//!
//! A matcher that contains only letters, digits, `_`, `-`, spaces, `,` and `|` is a list of names, compared as a whole
//! and case-sensitively. Anything else is a regular expression that may match anywhere in the subject.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// Size limit of a compiled matcher, in bytes. Matchers come from a repository and are not trusted.
const COMPILED_SIZE_LIMIT: usize = 1 << 20;

#[derive(Clone, Debug)]
pub enum HookMatcher {
    All,
    Names(Vec<String>),
    Pattern(Regex),
    /// An invalid or unsupported regular expression, with the reason. It matches nothing.
    Unsupported(String),
}

/// `Regex` does not implement `PartialEq`; two regular expressions are equal if their source text is.
impl PartialEq for HookMatcher {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, Self::All) => true,
            (Self::Names(a), Self::Names(b)) => a == b,
            (Self::Pattern(a), Self::Pattern(b)) => a.as_str() == b.as_str(),
            (Self::Unsupported(a), Self::Unsupported(b)) => a == b,
            (Self::All | Self::Names(_) | Self::Pattern(_) | Self::Unsupported(_), _) => false,
        }
    }
}

impl HookMatcher {
    pub fn parse(text: &str) -> Self {
        if text.is_empty() || text == "*" {
            return Self::All;
        }
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_- ,|".contains(c);
        if text.chars().all(is_of_name) {
            return Self::Names(
                text.split(['|', ',']).map(|name| name.trim().to_owned()).collect(),
            );
        }
        if let Some(foreign) = unsupported_syntax(text) {
            return Self::Unsupported(foreign.to_owned());
        }
        match RegexBuilder::new(text).size_limit(COMPILED_SIZE_LIMIT).build() {
            Ok(pattern) => Self::Pattern(pattern),
            Err(_) if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| text.contains(look)) => {
                Self::Unsupported("look-around is not simulated".to_owned())
            }
            Err(_) => Self::Unsupported("not a regular expression".to_owned()),
        }
    }

    pub fn matches(&self, subject: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| name == subject),
            Self::Pattern(pattern) => pattern.is_match(subject),
            Self::Unsupported(_) => false,
        }
    }
}

/// Names syntax that the `regex` crate accepts and the client (JavaScript) does not.
fn unsupported_syntax(text: &str) -> Option<&'static str> {
    let mut rest = text;
    while let Some((_, flags)) = rest.split_once("(?") {
        let letters = flags.chars().take_while(char::is_ascii_alphabetic).count();
        if letters > 0 && flags.chars().nth(letters) == Some(')') {
            return Some("not a regular expression: the client does not support inline flags");
        }
        rest = flags;
    }
    if text.contains("(?P") {
        return Some("not a regular expression: the client does not support `(?P`");
    }
    if [r"\A", r"\z", r"\Z"].iter().any(|anchor| text.contains(anchor)) {
        return Some("the client does not support this anchor");
    }
    text.contains("[[:").then_some("the client does not support named character classes")
}

/// Whether a rule such as `Bash(git *)` matches a call. Only the pattern is tested, against the command or file path of
/// the call; `*` stands for any text.
pub fn rule_matches(rule: &str, input: &Value) -> bool {
    let Some((tool, pattern)) = rule.split_once('(') else { return true };
    let pattern = pattern.strip_suffix(')').unwrap_or(pattern);
    let field = if tool == "Bash" { "command" } else { "file_path" };
    let subject = input.get(field).and_then(Value::as_str).unwrap_or_default();
    match pattern.strip_suffix(":*") {
        Some(beginning) => subject.starts_with(beginning),
        None => wildcard_matches(pattern, subject),
    }
}

fn wildcard_matches(pattern: &str, subject: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = subject.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    true
}

/// The field of an event's input that a matcher is compared with, or `None` if the client ignores matchers there.
pub fn subject_field(event: &str) -> Option<&'static str> {
    Some(match event {
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "PermissionRequest"
        | "PermissionDenied" => "tool_name",
        "SessionStart" | "ConfigChange" => "source",
        "SessionEnd" => "reason",
        "Setup" | "PreCompact" | "PostCompact" => "trigger",
        "SubagentStart" | "SubagentStop" => "agent_type",
        "Notification" => "notification_type",
        "StopFailure" => "error",
        "UserPromptExpansion" => "command_name",
        "InstructionsLoaded" => "load_reason",
        "FileChanged" => "file_path",
        "Elicitation" | "ElicitationResult" => "mcp_server_name",
        _ => return None,
    })
}

/// The names that a matcher may use for a subject. The `Agent` tool also matches under its old name, `Task`.
pub fn subject_names<'a>(event: &str, subject: &'a str) -> impl Iterator<Item = &'a str> {
    let old = (subject_field(event) == Some("tool_name") && subject == "Agent").then_some("Task");
    // Files are matched by their base name.
    let subject = if event == "FileChanged" {
        subject.rsplit('/').next().unwrap_or(subject)
    } else {
        subject
    };
    [Some(subject), old].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASH: &[&str] = &[
        "",
        "*",
        "Bash",
        "Ba.*",
        "^Bash$",
        "Bash|Edit",
        "Edit|Bash",
        " Bash ",
        "Bash | Edit",
        "Edit | Bash",
        "Bash,Edit",
        "Edit, Bash",
        "Edit,Bash",
        ".*",
        "B.sh",
        "^B",
        "h$",
        "Bash|",
        "Ba.|X",
        "Ba*",
        "\\w+",
        "Bash()",
        "B[a]sh|Edit",
        "Edit|B.sh",
        "Edit|.as",
        "Bash||Edit",
        "(?<x>B)",
        "Ba\\x73h",
        "\\bBash\\b",
        "Bash$|^Edit",
    ];

    const NOT_BASH: &[&str] = &[
        " ",
        "bash",
        "Bas",
        "ash",
        "Edit|Write",
        "[",
        "(Bash",
        "Bash(echo*)",
        "|",
        "!Bash",
        "*Bash",
        "(?i)bash",
        "Ba-",
        "Bash-",
        "-",
        "Bash 1",
        "Bas h",
        "Bash_",
        ",",
        "Bash;Edit",
        "**",
        "Bash/",
        "[[:alpha:]]+",
        "Bash\n",
        "Edit Bash",
    ];

    const AGENT: &[&str] = &[
        "",
        "*",
        "general-purpose",
        "general-.*",
        "general-purpose|x",
        "x|general-purpose",
        "^general",
        "general-purpose,Explore",
        "Explore, general-purpose",
    ];

    const NOT_AGENT: &[&str] = &[
        "eneral-purpos",
        "general",
        "eneral-purpose|x",
        "Stop",
        "General-Purpose",
        "general purpose",
    ];

    /// Every row was verified against the client, 2.1.325.
    #[test]
    fn matches_what_the_client_matches() {
        let wrong: Vec<_> = [
            ("Bash", BASH, true),
            ("Bash", NOT_BASH, false),
            ("general-purpose", AGENT, true),
            ("general-purpose", NOT_AGENT, false),
        ]
        .into_iter()
        .flat_map(|(subject, matchers, wanted)| {
            matchers.iter().map(move |matcher| (subject, *matcher, wanted))
        })
        .filter(|(subject, matcher, wanted)| {
            HookMatcher::parse(matcher).matches(subject) != *wanted
        })
        .collect();
        assert_eq!(wrong, []);
    }

    #[test]
    fn an_unsupported_matcher_carries_its_reason() {
        for (matcher, why) in [
            ("^(?!Edit)", "look-around is not simulated"),
            ("(?=Bash)", "look-around is not simulated"),
            ("[", "not a regular expression"),
            ("(?i)bash", "not a regular expression: the client does not support inline flags"),
            ("[[:alpha:]]+", "the client does not support named character classes"),
            ("(a{1000}){1000}.", "not a regular expression"),
        ] {
            assert_eq!(
                HookMatcher::parse(matcher),
                HookMatcher::Unsupported(why.to_owned()),
                "{matcher}"
            );
        }
    }

    #[test]
    fn a_rule_matches_the_command_or_the_file_path() {
        let command = |text: &str| serde_json::json!({"command": text});
        let rows = [
            ("Bash", "echo a", true),
            ("Bash(git *)", "git status", true),
            ("Bash(git *)", "echo git x", false),
            ("Bash(git:*)", "git", true),
            ("Bash(git push)", "git push", true),
            ("Bash(git push)", "git push --force", false),
            ("Bash(*--force*)", "git push --force", true),
            ("Bash(npm * test)", "npm run test", true),
            ("Bash(npm * test)", "npm run tests", false),
        ];
        for (rule, text, expected) in rows {
            assert_eq!(rule_matches(rule, &command(text)), expected, "{rule}: {text}");
        }
        let file = serde_json::json!({"file_path": "/project/src/main.rs"});
        assert!(rule_matches("Edit(*.rs)", &file));
        assert!(!rule_matches("Edit(*.py)", &file));
    }
}
