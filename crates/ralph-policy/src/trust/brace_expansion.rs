//! Expands the braces of a word as a shell does: `chk/{a,b}.sh`, `chk/{1..3}.sh`.

/// Longer words are not expanded.
const MAX_WORD_BYTES: usize = 1024;

/// The words that a word with braces stands for, at most `most`; `None` if there are more, or the braces are not
/// understood.
pub(super) fn expand_braces(word: &str, most: usize) -> Option<Vec<String>> {
    let mut expanded = Vec::new();
    // Words, and from where on they are not yet searched.
    let mut waiting = vec![(word.to_string(), 0)];
    while let Some((word, from)) = waiting.pop() {
        let Some(open) = word[from..].find('{').map(|at| from + at) else {
            expanded.push(word);
            continue;
        };
        if word.len() > MAX_WORD_BYTES {
            return None;
        }
        let (before, rest) = (&word[..open], &word[open + 1..]);
        let alternatives = match split_alternatives(rest) {
            None => Vec::new(),
            Some((list, after)) if list.len() > 1 => {
                list.iter().map(|one| format!("{one}{after}")).collect()
            }
            Some((list, after)) => {
                let range = list.first().filter(|one| !one.contains('{'));
                let range = range.and_then(|one| one.split_once(".."));
                let values = range.map(|(first, rest)| range_values(first, rest, most));
                let values = values.map_or(Some(Vec::new()), |values| values)?;
                values.iter().map(|one| format!("{one}{after}")).collect()
            }
        };
        if alternatives.is_empty() {
            // The brace means itself.
            waiting.push((word, open + 1));
        } else {
            waiting.extend(alternatives.iter().rev().map(|one| (format!("{before}{one}"), open)));
        }
        if expanded.len() + waiting.len() > most {
            return None;
        }
    }
    Some(expanded)
}

/// The alternatives up to the brace that closes, and the text after it.
fn split_alternatives(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
                if char == '}' {
                    return Some((found, &text[start..]));
                }
            }
            _ => {}
        }
    }
    None
}

/// The values of `first..last` or `first..last..step`.
fn range_values(first: &str, rest: &str, most: usize) -> Option<Vec<String>> {
    let (last, step) = rest.split_once("..").unwrap_or((rest, "1"));
    let step = usize::try_from(step.parse::<i64>().ok()?.unsigned_abs()).ok()?.max(1);
    let one_letter = |text: &str| {
        let mut chars = text.chars();
        chars.next().filter(|char| char.is_ascii_alphabetic() && chars.next().is_none())
    };
    if let (Some(first), Some(last)) = (one_letter(first), one_letter(last)) {
        let letters = |from: char, to: char| (from..=to).map(String::from).collect::<Vec<_>>();
        let mut values = letters(first.min(last), first.max(last));
        if first > last {
            values.reverse();
        }
        return Some(values.into_iter().step_by(step).collect());
    }
    let (from, to) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
    if from.abs_diff(to) / step as u64 >= most as u64 {
        return None;
    }
    let is_padded = |text: &str| text.trim_start_matches('-').starts_with('0') && text.len() > 1;
    let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
    let shown = |value: i64| format!("{value:0width$}");
    let numbers: Box<dyn Iterator<Item = i64>> =
        if from <= to { Box::new(from..=to) } else { Box::new((to..=from).rev()) };
    Some(numbers.step_by(step).map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_mean_what_they_mean_to_a_shell() {
        for (word, expected) in [
            ("a", "a"),
            ("{a,b}", "a b"),
            ("x{a,b}{1,2}", "xa1 xa2 xb1 xb2"),
            ("{a,b{1,2}}c", "ac b1c b2c"),
            ("{,x}y", "y xy"),
            ("{1..3}.sh", "1.sh 2.sh 3.sh"),
            ("{08..10}", "08 09 10"),
            ("{3..1}", "3 2 1"),
            ("{1..9..4}", "1 5 9"),
            ("{-1..1}", "-1 0 1"),
            ("{c..a}", "c b a"),
            ("{x}{1..2}", "{x}1 {x}2"),
            ("{{1..2}}", "{1} {2}"),
            ("{a,b", "{a,b"),
            ("a}{b,c}", "a}b a}c"),
            ("{a..}", "?"),
            ("{1..3%02d}", "?"),
            ("{1..100}", "?"),
            ("{-9223372036854775808..9223372036854775807}", "?"),
            ("{a,b}{a,b}{a,b}{a,b}{a,b}", "?"),
        ] {
            let shown = expand_braces(word, 20).map_or("?".to_string(), |words| words.join(" "));
            assert_eq!(shown, expected, "{word}");
        }
        assert_eq!(expand_braces(&"{".repeat(1025), 20), None);
        assert_eq!(expand_braces(&"{".repeat(1024), 20).map(|words| words.len()), Some(1));
    }
}
