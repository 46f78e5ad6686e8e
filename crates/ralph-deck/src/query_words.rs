//! Converts a query into an FTS5 expression. Only its letters and digits get into the expression, and only inside
//! quotes.

/// A query is a few words; longer input was pasted and is cut.
const LONGEST_QUERY: usize = 4 * 1024;
const MOST_WORDS: usize = 24;
const LONGEST_WORD: usize = 64;
/// A shorter prefix would match too many words.
const SHORTEST_PREFIX: usize = 3;

/// Stop words.
const STOP_WORDS: [&str; 66] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "before", "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has",
    "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on",
    "or", "our", "should", "so", "that", "the", "their", "then", "there", "they", "this", "to",
    "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would",
    "you", "your",
];

/// The significant words of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryWords(Vec<String>);

impl QueryWords {
    pub(crate) fn from_query(query: &str) -> Self {
        let end = query.char_indices().nth(LONGEST_QUERY).map_or(query.len(), |(at, _)| at);
        let query = query.get(..end).unwrap_or_default();
        let mut words: Vec<String> = Vec::new();
        for word in query.split(|char: char| !char.is_alphanumeric()) {
            let word: String = word.to_lowercase().chars().take(LONGEST_WORD).collect();
            if !word.is_empty() && !words.contains(&word) {
                words.push(word);
            }
        }
        let significant: Vec<_> =
            words.iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).cloned().collect();
        let mut words = if significant.is_empty() { words } else { significant };
        words.truncate(MOST_WORDS);
        Self(words)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Matches records with all words.
    pub(crate) fn all_expression(&self) -> String {
        self.joined(" AND ")
    }

    /// Matches records with at least one word.
    pub(crate) fn any_expression(&self) -> String {
        self.joined(" OR ")
    }

    /// The last word also matches as a prefix.
    fn joined(&self, with: &str) -> String {
        let last = self.0.len().saturating_sub(1);
        let quoted = self.0.iter().enumerate().map(|(at, word)| {
            let is_beginning = at == last && word.chars().count() >= SHORTEST_PREFIX;
            if is_beginning { format!("\"{word}\"*") } else { format!("\"{word}\"") }
        });
        quoted.collect::<Vec<_>>().join(with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_becomes_quoted_words() {
        for (query, all) in [
            ("nested quotes", "\"nested\" AND \"quotes\"*"),
            ("why does the parser fail?", "\"parser\" AND \"fail\"*"),
            ("what is it", "\"what\" AND \"is\" AND \"it\""),
            ("Flaky flaky FLAKY", "\"flaky\"*"),
            (
                "a\"b OR c* NEAR(d e, 2) NOT -f",
                "\"b\" AND \"c\" AND \"near\" AND \"d\" AND \"e\" AND \"2\" AND \"f\"",
            ),
            ("title:x {body title}: y ^z", "\"title\" AND \"x\" AND \"body\" AND \"y\" AND \"z\""),
            ("'; DROP TABLE record; --", "\"drop\" AND \"table\" AND \"record\"*"),
            ("nul\0byte", "\"nul\" AND \"byte\"*"),
            ("src/parser.rs:88", "\"src\" AND \"parser\" AND \"rs\" AND \"88\""),
            ("Überlänge 漢字列 naïve", "\"überlänge\" AND \"漢字列\" AND \"naïve\"*"),
            ("?!… \"\" ** () \u{202e}", ""),
            ("", ""),
        ] {
            assert_eq!(QueryWords::from_query(query).all_expression(), all, "{query:?}");
        }
    }

    #[test]
    fn long_queries_are_cut() {
        let many = (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        assert_eq!(QueryWords::from_query(&many).len(), MOST_WORDS);
        let long = "x".repeat(100_000);
        assert_eq!(
            QueryWords::from_query(&long).all_expression(),
            format!("\"{}\"*", "x".repeat(LONGEST_WORD))
        );
    }
}
