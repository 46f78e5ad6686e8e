//! Suggests the known word closest to a misspelt one.

/// Longer words are cut: no known word is this long, and the comparison takes time proportional to both lengths.
const MAX_WORD_LENGTH: usize = 40;

/// The closest of `words`, if it is at most two edits away.
pub(super) fn closest_word<'a>(
    written: &str,
    words: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let written: Vec<char> = written.to_lowercase().chars().take(MAX_WORD_LENGTH).collect();
    let far = |word: &str| edit_distance(&written, &word.to_lowercase());
    let near = words.map(|word| (far(word), word)).min()?;
    let is_near = near.0 <= 2 && near.0 < written.len().min(near.1.chars().count());
    is_near.then_some(near.1)
}

/// The Levenshtein distance.
fn edit_distance(from: &[char], to: &str) -> usize {
    let mut row: Vec<usize> = (0..=from.len()).collect();
    for (at, wanted) in to.chars().enumerate() {
        let mut next = vec![at + 1];
        for ((letter, above), pair) in from.iter().zip(row.iter().skip(1)).zip(row.iter()) {
            let left = next.last().copied().unwrap_or_default();
            let changed = pair + usize::from(*letter != wanted);
            next.push(changed.min(left + 1).min(above + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_closest_word() {
        for (written, expected) in [
            ("timout", Some("timeout")),
            ("Timeout", Some("timeout")),
            ("evnt", Some("event")),
            ("comand", Some("command")),
            ("x", None),
            ("", None),
            ("in_seconds", None),
        ] {
            let words = ["event", "timeout", "command", "in"];
            assert_eq!(closest_word(written, words.into_iter()), expected, "{written}");
        }
    }
}
