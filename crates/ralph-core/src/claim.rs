//! Completion markers: what agents print when they believe that the work is done. A marker proves nothing; it is a
//! claim that still has to be verified. It counts only as the last line of the last message, alone on its line, and
//! not if it is quoted, in a code block, or negated.

use crate::source::code_fence::CodeFence;
use alloc::vec::Vec;

/// Markers of other tools that stand on a line of their own.
const PLAIN_MARKERS: [&str; 6] = [
    "LOOP_COMPLETE",
    "VERIFIED_DONE",
    "ALL_TASKS_COMPLETE",
    "TASK_COMPLETE",
    "<<<RALPHEX:ALL_TASKS_DONE>>>",
    "CONTINUOUS_CLAUDE_PROJECT_COMPLETE",
];

/// Promises that mean the whole work is done. Other promises mean that one task is done, or that the agent is blocked.
const DONE_PROMISES: [&str; 9] = [
    "DONE",
    "ALL DONE",
    "COMPLETE",
    "VERIFIED",
    "VERIFIED_DONE",
    "LOOP_COMPLETE",
    "TASK_COMPLETE",
    "ALL_TASKS_COMPLETE",
    "ALL_TASKS_DONE",
];

const EXIT_SIGNAL: &str = "EXIT_SIGNAL";
const STATUS_BEGIN: &str = "---RALPH_STATUS---";
const STATUS_END: &str = "---END_RALPH_STATUS---";
/// A status block usually has a dozen lines.
const MAX_STATUS_LINES: usize = 64;

/// Words that negate a sentence.
const NEGATIONS: [&str; 6] = ["not", "never", "cannot", "without", "unless", "until"];

/// A longer sentence before the marker is not searched for negations; the marker is then ignored.
const MAX_LEAD_BYTES: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionMarker<'a> {
    /// `<promise>…</promise>`, with its content.
    Promise(&'a str),
    /// `EXIT_SIGNAL: true`, alone or in a status block.
    ExitSignal,
    /// One of the fixed markers of other tools.
    Plain(&'static str),
}

impl CompletionMarker<'_> {
    /// Whether it means that the whole work is done.
    pub fn means_done(&self) -> bool {
        match self {
            Self::Promise(promise) => DONE_PROMISES
                .iter()
                .any(|known| promise.split_whitespace().eq(known.split_whitespace())),
            Self::ExitSignal | Self::Plain(_) => true,
        }
    }
}

/// The completion marker that a message ends with, if any.
pub fn find_marker(message: &str) -> Option<CompletionMarker<'_>> {
    let lines = prose_lines(message)?;
    let (last, before) = lines.split_last()?;
    let line = strip_bold(last)?;
    if line == STATUS_END {
        return parse_status_block(before);
    }
    if is_quoted_or_denied(before) || is_inside_status_block(before) {
        return None;
    }
    if parse_exit_signal(line) == Some(true) {
        return Some(CompletionMarker::ExitSignal);
    }
    if let Some(word) = PLAIN_MARKERS.into_iter().find(|word| *word == line) {
        return Some(CompletionMarker::Plain(word));
    }
    let inner = line.strip_prefix("<promise>")?.strip_suffix("</promise>")?;
    (!inner.trim().is_empty() && !inner.contains("promise>"))
        .then(|| CompletionMarker::Promise(inner.trim()))
}

/// Whether a message ends with the agreed promise.
pub fn is_promised(message: &str, promise: &str) -> bool {
    match find_marker(message) {
        Some(CompletionMarker::Promise(given)) => {
            given.split_whitespace().eq(promise.split_whitespace())
        }
        Some(CompletionMarker::ExitSignal | CompletionMarker::Plain(_)) | None => false,
    }
}

/// The lines up to the last one that is not blank, with code replaced by blank lines; `None` if that last line is code.
/// Blank lines are kept, because they separate paragraphs.
fn prose_lines(message: &str) -> Option<Vec<&str>> {
    let mut fence = CodeFence::default();
    let mut lines = Vec::new();
    let mut end = 0;
    for line in message.lines() {
        let is_code = fence.covers(line);
        // A code block separates paragraphs, as a blank line does.
        lines.push(if is_code { "" } else { line });
        if !line.trim().is_empty() {
            end = if is_code { 0 } else { lines.len() };
        }
    }
    lines.truncate(end);
    (end > 0).then_some(lines)
}

/// The line without surrounding blanks and `**`; `None` if its indentation makes it code.
fn strip_bold(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let indent = line.get(..line.len() - text.len()).unwrap_or_default();
    if indent.contains('\t') || indent.chars().count() >= 4 {
        return None;
    }
    let text = text.trim_end();
    let bold = text.strip_prefix("**").and_then(|text| text.strip_suffix("**"));
    Some(bold.unwrap_or(text))
}

/// Whether the text before the marker quotes or negates it.
fn is_quoted_or_denied(before: &[&str]) -> bool {
    let Some(last) = before.iter().rev().find(|line| !line.trim().is_empty()) else {
        return false;
    };
    let is_same_paragraph = before.last().is_some_and(|line| !line.trim().is_empty());
    let lead = last.trim();
    // A block quote continues over lines that do not repeat its `>`.
    if is_same_paragraph && lead.starts_with('>') {
        return true;
    }
    // A finished sentence, a list item or a heading in an earlier paragraph does not refer to the marker.
    let is_over = lead.ends_with(['.', '!', '?', ')', '`', '"', '|'])
        || lead.starts_with(['-', '*', '+', '#', '|'])
        || lead.starts_with(|it: char| it.is_ascii_digit());
    if !is_same_paragraph && !lead.ends_with(':') && is_over {
        return false;
    }
    let sentence = lead.rsplit(['.', '!', '?', ';']).next().unwrap_or(lead);
    sentence.len() > MAX_LEAD_BYTES || sentence.split_whitespace().any(is_negation)
}

fn is_negation(word: &str) -> bool {
    let word = word.trim_matches(|it: char| !it.is_alphanumeric() && it != '\'' && it != '’');
    NEGATIONS.iter().any(|known| word.eq_ignore_ascii_case(known))
        || ["n't", "n’t", "N'T", "N’T"].iter().any(|end| word.ends_with(end))
}

/// Whether a status block was opened and not closed.
fn is_inside_status_block(before: &[&str]) -> bool {
    let marks = |line: &&&str| matches!(line.trim(), STATUS_BEGIN | STATUS_END);
    let last = before.iter().rev().take(MAX_STATUS_LINES).find(marks);
    last.is_some_and(|line| line.trim() == STATUS_BEGIN)
}

/// Parses the status block that ends a message. It is a claim only if it signals an exit and reports nothing unfinished.
fn parse_status_block(before: &[&str]) -> Option<CompletionMarker<'static>> {
    let begin = before
        .iter()
        .rev()
        .take(MAX_STATUS_LINES)
        .position(|line| matches!(line.trim(), STATUS_BEGIN | STATUS_END))?;
    let at = before.len().checked_sub(begin + 1)?;
    let (ahead, block) = before.split_at_checked(at)?;
    let (first, block) = block.split_first()?;
    if strip_bold(first)? != STATUS_BEGIN || is_quoted_or_denied(ahead) {
        return None;
    }
    let mut exits = false;
    for line in block {
        let (key, value) = line.split_once(':').map(|(key, value)| (key.trim(), value.trim()))?;
        match key {
            EXIT_SIGNAL if value == "true" => exits = true,
            "STATUS" if value == "COMPLETE" => {}
            "TESTS_STATUS" if value != "FAILING" => {}
            EXIT_SIGNAL | "STATUS" | "TESTS_STATUS" => return None,
            _ => {}
        }
    }
    exits.then_some(CompletionMarker::ExitSignal)
}

/// The value of an `EXIT_SIGNAL:` line; `None` for any other line.
fn parse_exit_signal(line: &str) -> Option<bool> {
    let (key, value) = line.split_once(':')?;
    (key == EXIT_SIGNAL).then(|| value.trim() == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-L3c: a promise that is quoted, fenced, negated or not on the last line is not a claim.
    #[test]
    fn only_the_bare_promise_at_the_end_counts() {
        let yes = [
            "<promise>ALL DONE</promise>",
            "Everything passes.\n\n<promise>ALL DONE</promise>",
            "<promise>ALL DONE</promise>\n\n  \n",
            "a\r\n  <promise>ALL DONE</promise>  \r\n",
            "<promise> ALL   DONE </promise>",
            "<promise>ALL\tDONE</promise>",
            "```\ncargo test\n```\n<promise>ALL DONE</promise>",
            "~~~\n```\n~~~\n<promise>ALL DONE</promise>",
            "See `<promise>` above.\n<promise>ALL DONE</promise>",
            "**<promise>ALL DONE</promise>**",
            "> You asked for it.\n\n<promise>ALL DONE</promise>",
            "It was not easy.\n<promise>ALL DONE</promise>",
            "- The API did not change\n\n<promise>ALL DONE</promise>",
        ];
        let no = [
            "",
            "ALL DONE",
            "<promise></promise>",
            "<promise>ALMOST DONE</promise>",
            "<promise>all done</promise>",
            "<promise>ALLDONE</promise>",
            "<Promise>ALL DONE</Promise>",
            "<promise>ALL DONE</promise>.",
            "<promise>ALL DONE",
            "<promise>\nALL DONE\n</promise>",
            "I will not print <promise>ALL DONE</promise>",
            "I will not say\n\n<promise>ALL DONE</promise>",
            "You asked for \"<promise>ALL DONE</promise>\"",
            "\"<promise>ALL DONE</promise>\"",
            "> <promise>ALL DONE</promise>",
            "- <promise>ALL DONE</promise>",
            "`<promise>ALL DONE</promise>`",
            "```\n<promise>ALL DONE</promise>\n```",
            "```\n<promise>ALL DONE</promise>",
            "~~~text\n<promise>ALL DONE</promise>\n\n",
            "````\n```\n<promise>ALL DONE</promise>",
            "<promise>ALL DONE</promise>\nNot yet, though.",
            "<promise>ALL DONE</promise> <promise>ALL DONE</promise>",
            "<promise>ALL DONE</promise>\n```\n```",
            "    <promise>ALL DONE</promise>",
            "\t<promise>ALL DONE</promise>",
            "> You asked me to end with\n<promise>ALL DONE</promise>",
            "I will not say\n<promise>ALL DONE</promise>",
            "I won't end with this yet:\n\n<promise>ALL DONE</promise>",
            "*<promise>ALL DONE</promise>*",
            "# <promise>ALL DONE</promise>",
            "“<promise>ALL DONE</promise>”",
            "LOOP_COMPLETE",
            "EXIT_SIGNAL: true",
        ];
        for message in yes {
            assert!(is_promised(message, "ALL DONE"), "{message:?}");
            assert!(is_promised(message, " ALL\n DONE "), "{message:?}");
        }
        for message in no {
            assert!(!is_promised(message, "ALL DONE"), "{message:?}");
        }
    }

    #[test]
    fn an_empty_promise_never_matches() {
        for promise in ["", "  ", "\n"] {
            for message in ["", "<promise></promise>", "<promise> </promise>"] {
                assert!(!is_promised(message, promise), "{message:?} {promise:?}");
            }
        }
    }

    /// R-L3c: markers of other tools, and text that only looks like them.
    #[test]
    #[expect(
        clippy::too_many_lines,
        reason = "a table of cases, or one story with its whole output"
    )]
    fn markers_of_other_tools_are_recognised() {
        const LAST: &str = "---END_RALPH_STATUS---";
        let status = |body: &str| alloc::format!("Done.\n\n---RALPH_STATUS---\n{body}\n{LAST}");
        for (message, expected) in [
            ("LOOP_COMPLETE", Some(CompletionMarker::Plain("LOOP_COMPLETE"))),
            ("All 14 pass.\n\nLOOP_COMPLETE\n", Some(CompletionMarker::Plain("LOOP_COMPLETE"))),
            ("**VERIFIED_DONE**", Some(CompletionMarker::Plain("VERIFIED_DONE"))),
            ("ALL_TASKS_COMPLETE", Some(CompletionMarker::Plain("ALL_TASKS_COMPLETE"))),
            ("TASK_COMPLETE", Some(CompletionMarker::Plain("TASK_COMPLETE"))),
            (
                "<<<RALPHEX:ALL_TASKS_DONE>>>",
                Some(CompletionMarker::Plain("<<<RALPHEX:ALL_TASKS_DONE>>>")),
            ),
            (
                "CONTINUOUS_CLAUDE_PROJECT_COMPLETE",
                Some(CompletionMarker::Plain("CONTINUOUS_CLAUDE_PROJECT_COMPLETE")),
            ),
            ("EXIT_SIGNAL: true", Some(CompletionMarker::ExitSignal)),
            ("EXIT_SIGNAL:true", Some(CompletionMarker::ExitSignal)),
            ("<promise>COMPLETE</promise>", Some(CompletionMarker::Promise("COMPLETE"))),
            ("<promise> BLOCKED </promise>", Some(CompletionMarker::Promise("BLOCKED"))),
            ("COMPLETE", None),
            ("DONE", None),
            ("EXIT_SIGNAL: false", None),
            ("EXIT_SIGNAL: TRUE", None),
            ("EXIT_SIGNAL true", None),
            ("not yet VERIFIED_DONE", None),
            ("I will not say LOOP_COMPLETE", None),
            ("I will never say:\nLOOP_COMPLETE", None),
            ("This isn't\nLOOP_COMPLETE", None),
            ("LOOP_COMPLETE.", None),
            ("loop_complete", None),
            ("LOOP_COMPLETE\nAlmost.", None),
            ("`LOOP_COMPLETE`", None),
            ("'LOOP_COMPLETE'", None),
            ("\"LOOP_COMPLETE\"", None),
            ("«LOOP_COMPLETE»", None),
            ("> LOOP_COMPLETE", None),
            ("- LOOP_COMPLETE", None),
            ("```\nLOOP_COMPLETE\n```", None),
            ("```\nLOOP_COMPLETE", None),
            ("    LOOP_COMPLETE", None),
            ("<promise><promise>DONE</promise></promise>", None),
            ("ralph: end your message with the line <promise>DONE</promise>", None),
            ("│ <promise>DONE</promise>", None),
        ] {
            assert_eq!(find_marker(message), expected, "{message:?}");
        }
        for (body, expected) in [
            ("EXIT_SIGNAL: true", Some(CompletionMarker::ExitSignal)),
            (
                "STATUS: COMPLETE\nTESTS_STATUS: PASSING\nEXIT_SIGNAL: true\nRECOMMENDATION: none",
                Some(CompletionMarker::ExitSignal),
            ),
            ("STATUS: COMPLETE\nEXIT_SIGNAL: false", None),
            ("STATUS: IN_PROGRESS\nEXIT_SIGNAL: true", None),
            ("STATUS: COMPLETE\nTESTS_STATUS: FAILING\nEXIT_SIGNAL: true", None),
            ("EXIT_SIGNAL: true\nEXIT_SIGNAL: false", None),
            ("STATUS: COMPLETE", None),
            ("EXIT_SIGNAL: true\nwhatever", None),
        ] {
            assert_eq!(find_marker(&status(body)), expected, "{body:?}");
            let quoted = status(body).replace('\n', "\n> ");
            assert_eq!(find_marker(&quoted), None, "{quoted:?}");
            assert_eq!(
                find_marker(&alloc::format!("```\n{}\n```", status(body))),
                None,
                "{body:?}"
            );
        }
        for odd in [
            LAST,
            "---END_RALPH_STATUS---\n---END_RALPH_STATUS---",
            "EXIT_SIGNAL: true\n---END_RALPH_STATUS---",
        ] {
            assert_eq!(find_marker(odd), None, "{odd:?}");
        }
        assert_eq!(find_marker("---RALPH_STATUS---\nSTATUS: IN_PROGRESS\nEXIT_SIGNAL: true"), None);
    }

    #[test]
    fn some_promises_mean_that_all_is_done() {
        let done = |promise| CompletionMarker::Promise(promise).means_done();
        assert!(["DONE", "COMPLETE", "ALL  DONE", "VERIFIED_DONE"].into_iter().all(done));
        assert!(!["BLOCKED", "READY_FOR_NEXT_TASK", "done", "not DONE", ""].into_iter().any(done));
        assert!(
            CompletionMarker::ExitSignal.means_done()
                && CompletionMarker::Plain("LOOP_COMPLETE").means_done()
        );
    }
}
