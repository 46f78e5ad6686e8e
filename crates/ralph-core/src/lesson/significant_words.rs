//! The words of a text that say what it is about.

use alloc::string::String;
use alloc::vec::Vec;

const MAX_TEXT_CHARS: usize = 4_000;
const MAX_WORD_CHARS: usize = 40;
const MIN_WORD_CHARS: usize = 3;

/// Frequent words that say nothing about the subject of a goal or a finding.
const STOP_WORDS: &str = " about add after all also and any are because been before but can could did does doesn done \
     each fix fixes fixed for from get had has have how into its make makes must need needs new not now off one only \
     our out should that the their them then there these they this those use used uses using want was were what when \
     where which while who why will with would you your ";

/// At most `most` distinct words in lower case, in the order of the text. Words in `camelCase` and `snake_case` are
/// split, and a plural counts as its singular.
pub fn significant_words(text: &str, most: usize) -> Vec<String> {
    let end = text.char_indices().nth(MAX_TEXT_CHARS).map_or(text.len(), |(at, _)| at);
    let mut words: Vec<String> = Vec::new();
    for run in text[..end].split(|char: char| !char.is_alphanumeric()) {
        for part in split_camel_case(run) {
            let word = stem(&part.to_lowercase());
            let length = word.chars().count();
            let is_significant = (MIN_WORD_CHARS..=MAX_WORD_CHARS).contains(&length)
                && !word.chars().all(|char| char.is_ascii_digit())
                && !is_stop_word(&word);
            if is_significant && !words.contains(&word) {
                words.push(word);
            }
            if words.len() >= most {
                return words;
            }
        }
    }
    words
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split_whitespace().any(|stop| stop == word)
}

/// `readConfig` has two parts; `HTTP` and `parser` have one.
fn split_camel_case(run: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut was_lower = false;
    for (at, char) in run.char_indices() {
        if char.is_uppercase() && was_lower {
            parts.extend(run.get(start..at));
            start = at;
        }
        was_lower = char.is_lowercase();
    }
    parts.extend(run.get(start..));
    parts
}

/// Removes the endings of plurals and verbs from longer English words. Words that are compared lose the same endings,
/// so a wrong stem does no harm.
fn stem(word: &str) -> String {
    const MIN_STEM: usize = 4;
    for ending in ["ing", "es", "ed", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.len() >= MIN_STEM
            && word.is_ascii()
            && !(ending == "s" && stem.ends_with('s'))
        {
            return stem.into();
        }
    }
    word.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_shortened_and_counted_once() {
        for (text, words) in [
            ("make the parser handle nested quotes", "parser handle nest quot"),
            ("Fix src/readConfig.rs: read_config fails", "src read config fail"),
            ("parsing parsed parses", "pars"),
            ("HTTP HTTPServer 123 ab", "http httpserver"),
            ("class classes", "class"),
            ("", ""),
        ] {
            assert_eq!(significant_words(text, 24).join(" "), words, "{text}");
        }
        assert_eq!(significant_words("alpha beta gamma", 2), ["alpha", "beta"]);
        let long = "x".repeat(10_000);
        assert_eq!(significant_words(&long, 5), [""; 0]);
    }
}
