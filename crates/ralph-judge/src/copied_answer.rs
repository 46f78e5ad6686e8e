//! Distinguishes the answer of a judge from a copy of text that it was given. A judge that refuses often quotes the change,
//! and one that the change persuaded repeats it.

use crate::answer_parser::ParsedReply;
use crate::contract_text::contract_text;
use crate::diff_sections::split_diff;
use crate::quote_check::QuotedFiles;
use ralph_core::judge::JudgeVerdict;

/// How many changed files are searched.
const MAX_FILES: usize = 200;

/// Whether the answer is in the goal, the contract, the plan or the change. An `unmet` holds the agent, so the agent has no
/// reason to write one there.
pub(crate) fn is_copied(reply: &ParsedReply, files: &QuotedFiles<'_>) -> bool {
    let ParsedReply::Answer { answer, object, .. } = reply else { return false };
    match answer.verdict {
        JudgeVerdict::Unmet | JudgeVerdict::Unsure => return false,
        JudgeVerdict::Met | JudgeVerdict::Impossible => {}
    }
    let wanted = strip_layout(&files.safe_text(object));
    let has_it = |text: &str| strip_layout(text).contains(&wanted);
    let case = files.case;
    let contract = contract_text(&case.contract);
    let shown = [&case.goal, &contract, &case.diff, &case.test_diff].into_iter().chain(&case.plan);
    if shown.into_iter().any(|text| has_it(&files.safe_text(text))) {
        return true;
    }
    // The diff leaves out large files, and a judge that reads files sees lines beside the changed ones.
    let changed = [&case.diff, &case.test_diff].into_iter().flat_map(|diff| split_diff(diff));
    let paths = case.omitted.iter().cloned().chain(changed.map(|section| section.path));
    paths.take(MAX_FILES).any(|path| files.read_text(&path).is_some_and(|text| has_it(&text)))
}

/// Removes layout, the marks of comments and diffs, and escapes, so that a copy is found however it is laid out.
fn strip_layout(text: &str) -> String {
    text.chars()
        .filter(|char| char.is_alphanumeric() || matches!(char, '{' | '}' | '"' | ':' | ',' | '.'))
        .collect()
}
