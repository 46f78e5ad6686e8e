//! Decides from headings and markers which parts of a plan are optional.
//!
//! It errs on the strict side: `Optional arguments` is ordinary work. A heading counts as optional only if one of its
//! parts, as separated by brackets and colons, consists of nothing but the words below.

use ralph_core::requirement::Weight;

const WORDS: [&str; 6] = ["optional", "optionals", "future", "later", "backlog", "deferred"];
const PHRASES: [(&str, &str); 4] = [
    ("nice to have", "optional"),
    ("nice to haves", "optional"),
    ("out of scope", "optional"),
    ("not in scope", "optional"),
];
/// Words that do not describe work.
const FILLERS: [&str; 35] = [
    "a",
    "additions",
    "and",
    "enhancements",
    "extensions",
    "extras",
    "features",
    "follow",
    "for",
    "goals",
    "ideas",
    "improvements",
    "items",
    "mvp",
    "only",
    "or",
    "phase",
    "phases",
    "polish",
    "possible",
    "post",
    "release",
    "releases",
    "scope",
    "section",
    "step",
    "steps",
    "stretch",
    "task",
    "tasks",
    "the",
    "ups",
    "version",
    "versions",
    "work",
];
const SEPARATORS: [char; 14] =
    [':', '(', ')', '[', ']', '–', '—', ',', ';', '|', '/', '.', '!', '\u{b7}'];

/// The heading above an item.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) level: u8,
    pub(super) title: String,
    pub(super) weight: Weight,
}

/// Whether a heading marks its section as optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    /// It contains the word `optional`, but along with others.
    Perhaps,
    Optional,
}

/// Judges whether a heading marks its section as optional.
pub(super) fn says(heading: &str) -> Says {
    let heading = heading.to_lowercase().replace(" - ", ":");
    if heading.split(SEPARATORS).any(is_optional) {
        return Says::Optional;
    }
    let mut words = heading.split(|char: char| !char.is_alphanumeric());
    if words.any(|word| word == "optional") { Says::Perhaps } else { Says::Nothing }
}

fn is_optional(part: &str) -> bool {
    let words: Vec<&str> =
        part.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut part = words.join(" ");
    for (phrase, word) in PHRASES {
        if part.contains(phrase) {
            part = part.replace(phrase, word);
        }
    }
    let mut is_said = false;
    for word in part.split(' ') {
        let is_word = WORDS.contains(&word);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        if !is_word && !is_number && !FILLERS.contains(&word) {
            return false;
        }
        is_said |= is_word;
    }
    is_said
}

/// Whether an item is marked as optional at its beginning or end.
pub(super) fn is_marked(text: &str) -> bool {
    let text = text.trim().trim_end_matches('.').to_lowercase();
    let is_tag = |word: &str| {
        word.starts_with('[')
            || word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            || word.strip_prefix('t').is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    let first = text.split_whitespace().find(|word| *word == "[optional]" || !is_tag(word));
    let is_first = first.is_some_and(|word| {
        matches!(word, "(optional)" | "(optional):" | "[optional]" | "optional:")
    });
    is_first || text.ends_with("(optional)") || text.ends_with("[optional]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_headings_make_a_section_optional() {
        for (heading, expected) in [
            ("Optional", Says::Optional),
            ("OPTIONAL", Says::Optional),
            ("Optional Tasks", Says::Optional),
            ("Phase 4 (Optional)", Says::Optional),
            ("Phase 4: Polish — optional", Says::Optional),
            ("Phase 4 - Optional", Says::Optional),
            ("[OPTIONAL] Dark mode", Says::Optional),
            ("Tests for User Story 1 (OPTIONAL - only if tests requested) ⚠️", Says::Optional),
            ("Nice-to-have", Says::Optional),
            ("Nice to haves", Says::Optional),
            ("Future work", Says::Optional),
            ("Future Enhancements (Post-MVP)", Says::Optional),
            ("Out of Scope", Says::Optional),
            ("Low priority / later", Says::Optional),
            ("5. Backlog", Says::Optional),
            ("Optional arguments", Says::Perhaps),
            ("Make the e-mail optional", Says::Perhaps),
            ("Not optional", Says::Perhaps),
            ("Non-optional", Says::Perhaps),
            ("Implement Future for Job", Says::Nothing),
            ("Backlog page", Says::Nothing),
            ("No later than May", Says::Nothing),
            ("Optionality", Says::Nothing),
            ("Low Priority", Says::Nothing),
            ("", Says::Nothing),
            ("4", Says::Nothing),
        ] {
            assert_eq!(says(heading), expected, "{heading}");
        }
    }

    #[test]
    fn an_item_is_marked_at_its_beginning_or_end() {
        for (text, expected) in [
            ("Dark mode (optional)", true),
            ("Dark mode (Optional).", true),
            ("(optional) Dark mode", true),
            ("Optional: dark mode", true),
            ("[optional] dark mode", true),
            ("T012 [P] [US1] (optional) Dark mode", true),
            ("2.1 [OPTIONAL] Dark mode", true),
            ("Parse the name (optional) field", false),
            ("Optional fields", false),
            ("T012 Dark mode", false),
            ("", false),
        ] {
            assert_eq!(is_marked(text), expected, "{text}");
        }
    }
}
