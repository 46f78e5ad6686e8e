//! Rejects names that do not describe what a thing does.

use super::{TidyException, TidyFile};

const EMPTY_WORDS: [&str; 4] = ["Manager", "Helper", "Handler", "Utils"];
const EXCEPTIONS: &[TidyException] = &[
    TidyException {
        path: "crates/ralph-sim/",
        what: "Handler",
        reason: "the client calls the commands that its settings register handlers",
    },
    TidyException {
        path: "crates/ralph-policy/src/detect/",
        what: "Manager",
        reason: "npm and its peers are package managers",
    },
];
const EMPTY_FILES: [&str; 4] = ["utils.rs", "util.rs", "helpers.rs", "helper.rs"];

pub(crate) fn check_names(source: &TidyFile) -> Vec<String> {
    let mut complaints = Vec::new();
    let file = source.path.rsplit('/').next().unwrap_or_default();
    if EMPTY_FILES.contains(&file) || source.path.contains("/utils/") {
        complaints.push(format!("{}: name it after what it does", source.path));
    }
    for (number, line) in source.split().0.lines().enumerate() {
        if let Some(name) = defined_type(line)
            && EMPTY_WORDS.iter().any(|word| {
                name.contains(word) && !EXCEPTIONS.iter().any(|except| except.covers(source, word))
            })
        {
            complaints.push(format!(
                "{}:{}: `{name}` does not say what it does",
                source.path,
                number + 1
            ));
        }
    }
    complaints
}

pub(super) fn defined_type(line: &str) -> Option<&str> {
    let mut words = line
        .split(|char: char| !char.is_alphanumeric() && char != '_')
        .filter(|word| !word.is_empty());
    words.find(|word| matches!(*word, "struct" | "enum" | "trait" | "type"))?;
    words.next().filter(|name| name.starts_with(char::is_uppercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definitions_are_checked() {
        for (line, expected) in [
            ("pub(crate) struct LoopManager<'a> {", Some("LoopManager")),
            ("enum Verdict {", Some("Verdict")),
            ("let manager = Manager::new();", None),
            ("/// The type of it.", None),
        ] {
            assert_eq!(defined_type(line), expected, "{line}");
        }
    }
}
