//! Evaluates conditions that consist of constants: `1 == 2`, `not True`, `ready and False`.

/// Longer conditions are not constant.
const MAX_CONDITION_BYTES: usize = 200;
const MAX_DEPTH: usize = 12;

const OR: [&str; 2] = ["or", "||"];
const AND: [&str; 2] = ["and", "&&"];
/// Longer operators first.
const COMPARISONS: [&str; 8] = ["===", "!==", "==", "!=", "<=", ">=", "<", ">"];

/// The value of a condition that is the same in every run; `None` if it depends on anything.
pub(crate) fn constant_truth(condition: &str) -> Option<bool> {
    if condition.len() > MAX_CONDITION_BYTES { None } else { evaluate(condition, 0) }
}

fn evaluate(text: &str, depth: usize) -> Option<bool> {
    if depth > MAX_DEPTH {
        return None;
    }
    let text = strip_parentheses(text.trim());
    let deeper = |part: &str| evaluate(part, depth + 1);
    if let Some((one, other)) = split_at_operator(text, &OR) {
        return match (deeper(one), deeper(other)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
    }
    if let Some((one, other)) = split_at_operator(text, &AND) {
        return match (deeper(one), deeper(other)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }
    let negated = text.strip_prefix("not ").or_else(|| text.strip_prefix("not("));
    let negated = negated.map(|_| text.trim_start_matches("not"));
    if let Some(rest) = negated.or_else(|| text.strip_prefix('!').filter(|it| !it.starts_with('=')))
    {
        return deeper(rest).map(|value| !value);
    }
    match COMPARISONS.iter().find_map(|it| Some((it, split_at_operator(text, &[*it])?))) {
        Some((operator, (one, other))) => compare(operator, one, other),
        None => literal_truth(text),
    }
}

fn compare(operator: &str, one: &str, other: &str) -> Option<bool> {
    let (one, other) = (number(one)?, number(other)?);
    Some(match operator {
        "==" | "===" => one.total_cmp(&other).is_eq(),
        "!=" | "!==" => one.total_cmp(&other).is_ne(),
        "<" => one < other,
        ">" => one > other,
        "<=" => one <= other,
        _ => one >= other,
    })
}

fn number(text: &str) -> Option<f64> {
    match strip_parentheses(text.trim()) {
        "true" | "True" => Some(1.0),
        "false" | "False" => Some(0.0),
        text if text.starts_with(|it: char| it.is_ascii_digit() || it == '-') => text.parse().ok(),
        _ => None,
    }
}

fn literal_truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" => Some(true),
        "false" | "False" | "None" | "null" | "nil" | "undefined" => Some(false),
        _ => number(text).map(|value| value != 0.0),
    }
}

fn strip_parentheses(mut text: &str) -> &str {
    while let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        let is_closed_early = nesting(inner).any(|(_, depth)| depth < 0);
        if is_closed_early {
            return text;
        }
        text = inner.trim();
    }
    text
}

/// Each byte's position with the depth of brackets after it.
fn nesting(text: &str) -> impl Iterator<Item = (usize, i32)> {
    text.bytes().enumerate().scan(0, |depth, (at, byte)| {
        *depth += match byte {
            b'(' | b'[' | b'{' => 1,
            b')' | b']' | b'}' => -1,
            _ => 0,
        };
        Some((at, *depth))
    })
}

/// The texts before and after the first such operator outside of brackets.
fn split_at_operator<'a>(text: &'a str, operators: &[&str]) -> Option<(&'a str, &'a str)> {
    let bytes = text.as_bytes();
    let is_word =
        |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    nesting(text).filter(|(_, depth)| *depth == 0).find_map(|(at, _)| {
        let operator = operators.iter().find(|it| {
            let ends = at + it.len();
            let stands_alone = !it.starts_with(|first: char| first.is_ascii_alphabetic())
                || !is_word(at.checked_sub(1)) && !is_word(Some(ends));
            stands_alone && text.get(at..ends) == Some(**it)
        })?;
        Some((text.get(..at)?, text.get(at + operator.len()..)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_conditions_are_evaluated() {
        let rows = [
            ("1 == 2", Some(false)),
            ("(1 > 2)", Some(false)),
            ("not True", Some(false)),
            ("!(1)", Some(false)),
            ("not(0)", Some(true)),
            ("x and False", Some(false)),
            ("x or 1 === 1", Some(true)),
            ("x || y", None),
            ("not x", None),
            ("order == 1", None),
            ("(1) == (2)", Some(false)),
            ("None", Some(false)),
            ("a[1 == 1]", None),
            ("a != b", None),
            ("f(True)", None),
            ("", None),
        ];
        for (condition, expected) in rows {
            assert_eq!(constant_truth(condition), expected, "{condition}");
        }
        assert_eq!(constant_truth(&"(".repeat(200)), None);
    }
}
