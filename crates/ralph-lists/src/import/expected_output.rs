//! The output that a check should have: which commands print a number, and what is said about it.

/// Whether the command prints one number.
pub(super) fn prints_count(code: &str) -> bool {
    let last = last_of_pipeline(code).trim();
    let last = last.strip_prefix("head -1").map_or(last, |_| {
        let before = code.trim_end().strip_suffix(last).unwrap_or_default();
        last_of_pipeline(before.trim_end().trim_end_matches('|')).trim()
    });
    let is_count = |word: &str| {
        word.starts_with('-') && !word.starts_with("--") && word.contains('c') || word == "--count"
    };
    last.starts_with("wc -l")
        || last.starts_with("grep ") && last.split_whitespace().any(is_count)
        || last.starts_with("jq ") && last.contains("length")
}

/// The command after the last `|` outside quotes.
fn last_of_pipeline(code: &str) -> &str {
    let mut quote = None;
    let mut last = 0;
    for (at, char) in code.char_indices() {
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (None, '|') => last = at.saturating_add(1),
            (Some(_) | None, _) => {}
        }
    }
    code.get(last..).unwrap_or_default()
}

/// `>= 3`, `at least 3`, `3`, `3 files`
pub(super) fn parse_comparison(phrase: &str) -> Option<(&'static str, u32)> {
    let forms = [
        (">=", "-ge"),
        ("<=", "-le"),
        ("at least ", "-ge"),
        ("at most ", "-le"),
        ("exactly ", "-eq"),
        ("==", "-eq"),
        (">", "-gt"),
        ("<", "-lt"),
        ("=", "-eq"),
        ("", "-eq"),
    ];
    let (rest, operator) =
        forms.iter().find_map(|(word, operator)| Some((phrase.strip_prefix(word)?, *operator)))?;
    let mut words = rest.split_whitespace();
    let first = words.next()?;
    let (first, operator) = match first.strip_suffix('+') {
        Some(first) => (first, "-ge"),
        None => (first, operator),
    };
    let number = first.parse().ok()?;
    let is_noun = |word: &str| {
        matches!(
            word,
            "match" | "matches" | "file" | "files" | "line" | "lines" | "result" | "results"
        )
    };
    words.all(is_noun).then_some((operator, number))
}
