//! Recognises a question to the person at the end of a message. An agent that only asks in prose is held, and the person
//! never sees the question; the reason then names `ralph ask`.

use crate::claim::plain_prose::PlainProse;
use alloc::vec::Vec;

/// The agent asks for leave to go on, or for more work: being held answers that.
const OFFERS: [&str; 14] = [
    "continue",
    "proceed",
    "go on",
    "go ahead",
    "keep going",
    "carry on",
    "move on",
    "anything else",
    "something else",
    "what next",
    "what's next",
    "do next",
    "look at next",
    "work on next",
];
/// A longer question is about something, even if it also offers to continue.
const MAX_OFFER_WORDS: usize = 12;
/// A last sentence like "Let me know which one." continues the question before it.
const REQUESTS: [&str; 8] = [
    "let me know",
    "please confirm",
    "please choose",
    "please decide",
    "please tell me",
    "please advise",
    "waiting for your",
    "your call",
];

/// Whether the message ends by asking the person something.
pub fn asks_person(message: &str) -> bool {
    let text = PlainProse::new(message);
    let mut lines: Vec<&str> = text.prose.lines().filter(|line| !line.trim().is_empty()).collect();
    // The question comes before the choices.
    while lines.len() > 1 && lines.last().is_some_and(|line| is_choice(line)) {
        lines.pop();
    }
    let Some(last) = lines.last() else { return false };
    let line = last.trim().trim_end_matches(['*', '_', ')']);
    let mut sentences = split_sentences(line);
    let last = sentences.pop().unwrap_or_default();
    if last.ends_with('?') {
        return !is_offer(last);
    }
    let is_request = contains_one(last, &REQUESTS);
    let asked = sentences.last().copied().or_else(|| lines.iter().rev().nth(1).copied());
    is_request && asked.is_some_and(|asked| asked.trim().ends_with('?') && !is_offer(asked))
}

fn is_choice(line: &str) -> bool {
    let line = line.trim_start();
    let bullet = ["- ", "* ", "+ "].iter().any(|mark| line.starts_with(mark));
    let rest = line.trim_start_matches(|it: char| it.is_ascii_alphanumeric());
    let number = line.len() - rest.len();
    let is_numbered = (1..=2).contains(&number) && rest.starts_with([')', '.']);
    (bullet || is_numbered) && !line.trim_end().ends_with('?')
}

fn split_sentences(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, char) in line.char_indices() {
        let end = at + char.len_utf8();
        let is_end = matches!(char, '.' | '!' | '?')
            && line[end..].chars().next().is_none_or(char::is_whitespace);
        if is_end {
            sentences.push(line[from..end].trim());
            from = end;
        }
    }
    if !line[from..].trim().is_empty() {
        sentences.push(line[from..].trim());
    }
    sentences
}

fn is_offer(question: &str) -> bool {
    question.split_whitespace().count() <= MAX_OFFER_WORDS && contains_one(question, &OFFERS)
}

fn contains_one(text: &str, known: &[&str]) -> bool {
    let text = text.to_ascii_lowercase().replace('’', "'");
    known.iter().any(|known| text.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_to_the_person_are_recognised() {
        for message in [
            "PostgreSQL or SQLite?",
            "The goal does not say where to store them. **PostgreSQL or SQLite?**",
            "Which database should I use?\n\n1. PostgreSQL\n2. SQLite",
            "Which database should I use?\n\n- PostgreSQL: more work\n- SQLite",
            "Which database should I use?\n\na) PostgreSQL\nb) SQLite",
            "Should the old format still be read? Let me know.",
            "Should the old format still be read?\n\nPlease confirm before I delete it.",
            "Should I proceed with the migration, which drops the table `users` and cannot be undone, or keep it?",
            "I need the staging password. Can you provide it?",
            "Soll ich PostgreSQL oder SQLite nehmen?",
        ] {
            assert!(asks_person(message), "{message:?}");
        }
        for message in [
            "",
            "Done.",
            "What was wrong? The parser dropped the last token.",
            "Why did it fail?\n\nThe index was off by one. It is fixed now.",
            "Should I continue?",
            "Would you like me to continue with the remaining tests?",
            "Shall I proceed?",
            "Is there anything else I can help with?",
            "What would you like me to do next?",
            "> PostgreSQL or SQLite?",
            "The prompt is now `Delete everything?`",
            "```\nContinue? [y/n]\nreally?\n```",
            "The regular expression is `a?`",
            "Let me know if you need more.",
            "- PostgreSQL\n- SQLite",
        ] {
            assert!(!asks_person(message), "{message:?}");
        }
    }

    #[test]
    fn any_message_is_parsed() {
        for message in ["?", "é?", "*", "1.", "a)\n?", "\n\n", "`?", "…?"] {
            let _ = asks_person(message);
        }
    }
}
