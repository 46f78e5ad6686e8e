//! Shows which hunks of a change no test notices.

use crate::term::{self, paint};
use ralph_deck::wording::{count_noun, safe_line};
use ralph_proof::{CodeHunk, HunkResult, HunkTrials, TriedHunk};

pub(super) fn render_hunks(trials: &HunkTrials) -> String {
    let mut out = format!("\n{}\n", summarize_hunks(trials));
    let places: Vec<String> = trials.tried.iter().map(|one| hunk_location(&one.hunk)).collect();
    let width = places.iter().map(|place| place.chars().count()).max().unwrap_or(0).min(40);
    for (TriedHunk { hunk, result }, place) in trials.tried.iter().zip(&places) {
        let CodeHunk { added, removed, excerpt, .. } = hunk;
        let size = format!("+{added} −{removed}");
        match result {
            HunkResult::Noticed => {}
            HunkResult::Unnoticed => {
                let excerpt = paint(term::DIM, &safe_line(excerpt));
                let mark = paint(term::WARN, "!");
                out.push_str(&format!("  {mark} {place:<width$}  {size:<7}  {excerpt}\n"));
            }
            HunkResult::Unknown(why) => {
                let why = safe_line(why);
                out.push_str(&format!("  ? {place:<width$}  {size:<7}  no result: {why}\n"));
            }
        }
    }
    out
}

/// `hunks: 5 of 7 reverted one by one; no test fails without these 2; the time is up`
fn summarize_hunks(trials: &HunkTrials) -> String {
    let HunkTrials { tried, found, trivial, out_of_time } = trials;
    let count = |result: &HunkResult| tried.iter().filter(|one| one.result == *result).count();
    let unnoticed = count(&HunkResult::Unnoticed);
    let unknown = tried.len() - unnoticed - count(&HunkResult::Noticed);
    let mut parts = Vec::new();
    parts.push(match (tried.len(), *found) {
        (_, 0) => "the change has no code to revert".to_string(),
        (0, _) => "not tried".to_string(),
        (tried, found) => format!("{tried} of {found} reverted one by one"),
    });
    if !tried.is_empty() {
        parts.push(match unnoticed {
            0 if unknown == 0 => "a test fails without each of them".to_string(),
            0 => "none went unnoticed".to_string(),
            1 => "no test fails without this one".to_string(),
            many => format!("no test fails without these {many}"),
        });
    }
    if *out_of_time {
        parts.push("the time is up".to_string());
    }
    if *trivial > 0 {
        let many = count_noun(*trivial, "hunk");
        parts.push(format!("{many} of comments, documents or lock files left out"));
    }
    let style = if unnoticed > 0 { term::WARN } else { term::GOOD };
    format!("{}: {}", paint(style, "hunks"), parts.join("; "))
}

/// `src/cart.py:12-15`
pub(super) fn hunk_location(hunk: &CodeHunk) -> String {
    let path = safe_line(&hunk.path);
    match hunk.lines {
        None => path,
        Some((first, last)) if first == last => format!("{path}:{first}"),
        Some((first, last)) => format!("{path}:{first}-{last}"),
    }
}
