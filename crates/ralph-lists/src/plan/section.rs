//! Decides from headings and markers which parts of a plan are optional.
//!
//! It errs on the strict side: `Optional arguments` is ordinary work. A heading counts as optional only if one of its
//! parts, as separated by brackets and colons, consists of nothing but the words below.

use ralph_core::requirement::RequirementWeight;

const OPTIONAL_WORDS: [&str; 6] =
    ["optional", "optionals", "future", "later", "backlog", "deferred"];
const OPTIONAL_PHRASES: [(&str, &str); 4] = [
    ("nice to have", "optional"),
    ("nice to haves", "optional"),
    ("out of scope", "optional"),
    ("not in scope", "optional"),
];
/// Words that do not describe work.
const FILLER_WORDS: [&str; 35] = [
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
const PART_SEPARATORS: [char; 14] =
    [':', '(', ')', '[', ']', '–', '—', ',', ';', '|', '/', '.', '!', '\u{b7}'];

/// The heading above an item.
#[derive(Debug)]
pub(super) struct PlanSection {
    pub(super) level: u8,
    pub(super) title: String,
    pub(super) weight: RequirementWeight,
}

/// Whether a heading marks its section as optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionalHint {
    Nothing,
    /// It contains the word `optional`, but along with others.
    Perhaps,
    Optional,
}

/// Judges whether a heading marks its section as optional.
pub(super) fn optional_hint(heading: &str) -> OptionalHint {
    let heading = heading.to_lowercase().replace(" - ", ":");
    if heading.split(PART_SEPARATORS).any(is_optional_part) {
        return OptionalHint::Optional;
    }
    let mut words = heading.split(|char: char| !char.is_alphanumeric());
    if words.any(|word| word == "optional") { OptionalHint::Perhaps } else { OptionalHint::Nothing }
}

fn is_optional_part(part: &str) -> bool {
    let words: Vec<&str> =
        part.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut part = words.join(" ");
    for (phrase, word) in OPTIONAL_PHRASES {
        if part.contains(phrase) {
            part = part.replace(phrase, word);
        }
    }
    let mut is_said = false;
    for word in part.split(' ') {
        let is_word = OPTIONAL_WORDS.contains(&word);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        if !is_word && !is_number && !FILLER_WORDS.contains(&word) {
            return false;
        }
        is_said |= is_word;
    }
    is_said
}

/// Whether an item is marked as optional at its beginning or end.
pub(super) fn is_marked_optional(text: &str) -> bool {
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
            ("Optional", OptionalHint::Optional),
            ("OPTIONAL", OptionalHint::Optional),
            ("Optional Tasks", OptionalHint::Optional),
            ("Phase 4 (Optional)", OptionalHint::Optional),
            ("Phase 4: Polish — optional", OptionalHint::Optional),
            ("Phase 4 - Optional", OptionalHint::Optional),
            ("[OPTIONAL] Dark mode", OptionalHint::Optional),
            (
                "Tests for User Story 1 (OPTIONAL - only if tests requested) ⚠️",
                OptionalHint::Optional,
            ),
            ("Nice-to-have", OptionalHint::Optional),
            ("Nice to haves", OptionalHint::Optional),
            ("Future work", OptionalHint::Optional),
            ("Future Enhancements (Post-MVP)", OptionalHint::Optional),
            ("Out of Scope", OptionalHint::Optional),
            ("Low priority / later", OptionalHint::Optional),
            ("5. Backlog", OptionalHint::Optional),
            ("Optional arguments", OptionalHint::Perhaps),
            ("Make the e-mail optional", OptionalHint::Perhaps),
            ("Not optional", OptionalHint::Perhaps),
            ("Non-optional", OptionalHint::Perhaps),
            ("Implement Future for Job", OptionalHint::Nothing),
            ("Backlog page", OptionalHint::Nothing),
            ("No later than May", OptionalHint::Nothing),
            ("Optionality", OptionalHint::Nothing),
            ("Low Priority", OptionalHint::Nothing),
            ("", OptionalHint::Nothing),
            ("4", OptionalHint::Nothing),
        ] {
            assert_eq!(optional_hint(heading), expected, "{heading}");
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
            assert_eq!(is_marked_optional(text), expected, "{text}");
        }
    }
}
