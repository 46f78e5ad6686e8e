//! The completion marker that imported instructions agree on. It is kept as the loop's promise: a claim, never a proof.

use std::collections::BTreeSet;

use ralph_core::claim::{CompletionMarker, PLAIN_MARKERS};

use super::limits;

/// The one promise that a text asks for: in `<promise>…</promise>`, otherwise as a bare word.
pub(super) fn find_promise(text: &str) -> Option<String> {
    let tagged: BTreeSet<&str> = text
        .split("<promise>")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("</promise>")?.0.trim()))
        .filter(|promise| limits::parse_promise(promise).is_some())
        .collect();
    let done: Vec<&&str> =
        tagged.iter().filter(|word| CompletionMarker::Promise(word).means_done()).collect();
    let only = match (tagged.len(), done.as_slice()) {
        (1, _) => tagged.first().copied(),
        (_, [only]) => Some(**only),
        _ => None,
    };
    // A marker in angle brackets is never one word: it is too unlike a promise to be agreed on as one.
    let is_word = |word: &&str| {
        let part = |char: char| !char.is_ascii_alphanumeric() && char != '_';
        text.split(part).any(|found| found == *word)
    };
    only.or_else(|| PLAIN_MARKERS.into_iter().find(is_word)).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agreed_promise_is_found() {
        for (text, expected) in [
            ("Reply <promise>COMPLETE</promise> when done.", Some("COMPLETE")),
            ("<promise>MIGRATED</promise>", Some("MIGRATED")),
            ("`<promise>BLOCKED</promise>` or `<promise>DONE</promise>`", Some("DONE")),
            ("<promise>ONE</promise> <promise>TWO</promise>", None),
            ("When everything is done, output LOOP_COMPLETE.", Some("LOOP_COMPLETE")),
            ("`LOOP_COMPLETE`", Some("LOOP_COMPLETE")),
            ("MY_LOOP_COMPLETE", None),
            ("<promise>$(rm -rf /)</promise>", None),
            ("", None),
        ] {
            assert_eq!(find_promise(text).as_deref(), expected, "{text}");
        }
    }
}
