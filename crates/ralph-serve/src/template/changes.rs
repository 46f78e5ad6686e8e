//! Checkpoints, and two of them side by side.

use super::facts;
use crate::change_totals::ChangeTotals;
use crate::run_source::{RunComparison, RunDetails};
use maud::{Markup, html};
use ralph_core::text;
use ralph_deck::page::{ChangedFileRow, CheckpointRow, FileComparison, SideBySideLine};

/// Checkpoints in a selection; the page of a run lists the newest.
const MAX_LISTED: usize = 20;

pub(crate) fn changes_section(details: &RunDetails) -> Markup {
    let (run, all) = (&details.page.row.run, &details.checkpoints);
    let newest = all.get(all.len().saturating_sub(MAX_LISTED)..).unwrap_or_default();
    html! {
        section #changes aria-labelledby="h-changes" {
            div.head {
                h2 #h-changes { "Changes" }
                span.quiet {
                    @if let Some(changed) = details.changed { (since_start(run, changed)) " since the start · " }
                    (text::count_noun(all.len(), "checkpoint"))
                }
            }
            @if all.is_empty() { p.hint { "No checkpoint yet. ralph makes one at every stop that it measures." } }
            @else {
                @if all.len() > 1 { (picker(run, all, all.first().map(|one| one.number), all.last().map(|one| one.number))) }
                ol.checkpoints reversed {
                    @for (at, one) in newest.iter().enumerate().rev() {
                        li {
                            span.mono { (one.number) } " " (facts::time(one.at_ms, details.page.now_ms)) " " (one.why)
                            @if let Some(before) = at.checked_sub(1).and_then(|at| newest.get(at)) {
                                " · " a href={ "/run/" (run) "/diff?from=" (before.number) "&to=" (one.number) } {
                                    "what changed" span.sr { " in checkpoint " (one.number) }
                                }
                            }
                        }
                    }
                }
                p.hint { "Restore: " code { "ralph checkpoint restore " (run) " NUMBER" } }
            }
        }
    }
}

/// How much changed, as a link to the changes.
fn since_start(run: &str, changed: ChangeTotals) -> Markup {
    let ChangeTotals { from, to, files, added, removed } = changed;
    html! {
        @if files == 0 { "no file changed" }
        @else {
            a href={ "/run/" (run) "/diff?from=" (from) "&to=" (to) } {
                (text::count_noun(files, "file")) ", +" (added) " −" (removed)
            }
        }
    }
}

/// The first checkpoint, the newest ones, and those that are chosen: a run can have thousands.
fn picker(run: &str, all: &[CheckpointRow], from: Option<u32>, to: Option<u32>) -> Markup {
    let newest = all.len().saturating_sub(MAX_LISTED);
    let is_offered = |at: usize, one: &CheckpointRow| {
        at == 0 || at >= newest || [from, to].contains(&Some(one.number))
    };
    let offered: Vec<_> = all.iter().enumerate().filter(|(at, one)| is_offered(*at, one)).collect();
    let options = |chosen: Option<u32>| {
        html! {
            @for (_, one) in &offered {
                option value=(one.number) selected[Some(one.number) == chosen] { (one.number) " · " (one.why) }
            }
        }
    };
    html! {
        form.picker method="get" action={ "/run/" (run) "/diff" } {
            label for="from" { "From" }
            select #from name="from" { (options(from)) }
            label for="to" { "to" }
            select #to name="to" { (options(to)) }
            button.btn { "Compare" }
        }
    }
}

/// The page that compares two checkpoints.
pub(crate) fn comparison_page(run: &str, comparison: &RunComparison) -> Markup {
    let changed = &comparison.changed;
    let (from, to) = (changed.from, changed.to);
    html! {
        p.crumb { a href="/" { "Board" } " / " a href={ "/run/" (run) } { span.mono { (run) } } " / changes" }
        h1 { "Checkpoint " (from) " to " (to) }
        p.detail {
            (text::count_noun(changed.files.len().saturating_add(changed.left_out), "file")) ", "
            span.delta.good { "+" (changed.added) } " " span.delta.bad { "−" (changed.removed) }
        }
        section aria-labelledby="h-files" {
            div.head { h2 #h-files { "Files" } }
            (picker(run, &comparison.checkpoints, Some(from), Some(to)))
            @if changed.files.is_empty() { p.hint { "The two checkpoints have the same files." } }
            @else {
                table.tbl.files {
                    thead { tr { th scope="col" { "File" } th scope="col" { "Change" } th.num scope="col" { "Added" } th.num scope="col" { "Removed" } } }
                    tbody { @for file in &changed.files { (file_row(run, from, to, file)) } }
                }
            }
            @if changed.left_out > 0 { p.hint { (text::count_noun(changed.left_out, "more file")) } }
        }
        @for (at, file) in comparison.files.iter().enumerate() {
            section aria-label={ "File " (at + 1) } { (file_comparison(file)) }
        }
        @if comparison.files.len() == 1 && changed.files.len() > 1 {
            p { a href={ "/run/" (run) "/diff?from=" (from) "&to=" (to) } { "All files" } }
        }
    }
}

fn file_row(run: &str, from: u32, to: u32, file: &ChangedFileRow) -> Markup {
    let numbers = [("from", from.to_string()), ("to", to.to_string()), ("path", file.path.clone())];
    // Escapes every character of a path that has a meaning in an address.
    let query = serde_urlencoded::to_string(numbers).unwrap_or_default();
    html! {
        tr {
            th scope="row" { a href={ "/run/" (run) "/diff?" (query) } { span.mono { (file.path) } } }
            td { (file.status.replace('_', " ")) }
            td.num { @if let Some(added) = file.added { "+" (added) } @else { "not text" } }
            td.num { @if let Some(removed) = file.removed { "−" (removed) } }
        }
    }
}

fn file_comparison(file: &FileComparison) -> Markup {
    html! {
        @if let Some(note) = &file.note {
            p { code { (file.path) } }
            p.hint { (note) }
        } @else {
            div.scroll tabindex="0" role="region" aria-label={ "Changes of " (file.path) } {
                table.diff {
                    caption { code { (file.path) } }
                    tbody { @for line in &file.lines { (line_row(line)) } }
                }
            }
        }
        @if file.left_out > 0 { p.hint { (text::count_noun(file.left_out, "line")) " more" } }
    }
}

fn line_row(line: &SideBySideLine) -> Markup {
    if line.before.is_none() && line.after.is_none() {
        return html! { tr.gap { td colspan="6" { "unchanged lines" } } };
    }
    let class = if line.changed { "" } else { "same" };
    let (old, new) = (if line.changed { "del" } else { "" }, if line.changed { "add" } else { "" });
    html! {
        tr class=(class) {
            @if let Some((number, text)) = &line.before {
                td.ln { (number) } td class={ "sg " (old) } { @if line.changed { "−" span.sr { "removed" } } } td class=(old) { (text) }
            } @else { td.ln.void {} td.sg.void {} td.void {} }
            @if let Some((number, text)) = &line.after {
                td.ln.right { (number) } td class={ "sg right " (new) } { @if line.changed { "+" span.sr { "added" } } } td class={ "right " (new) } { (text) }
            } @else { td.ln.void {} td.sg.void {} td.void {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 10,000 stops has as many checkpoints.
    #[test]
    fn a_selection_offers_the_first_the_newest_and_the_chosen_checkpoints() {
        let all: Vec<_> = (0..10_000)
            .map(|number| CheckpointRow { number, at_ms: 1, why: String::new() })
            .collect();
        let shown = picker("k7f2", &all, Some(40), Some(9_990)).into_string();
        let value = |option: &str| {
            let (number, rest) = option.split_once('"').unwrap();
            format!("{number}{}", if rest.starts_with(" selected") { "!" } else { "" })
        };
        let offered: Vec<_> = shown.split("<option value=\"").skip(1).map(value).collect();
        insta::assert_snapshot!(offered.join(" "), @"0 40! 9980 9981 9982 9983 9984 9985 9986 9987 9988 9989 9990 9991 9992 9993 9994 9995 9996 9997 9998 9999 0 40 9980 9981 9982 9983 9984 9985 9986 9987 9988 9989 9990! 9991 9992 9993 9994 9995 9996 9997 9998 9999");
    }

    #[test]
    fn the_sum_of_changes_links_to_them() {
        let shown = |files| {
            let changed = ChangeTotals { from: 0, to: 17, files, added: 412, removed: 388 };
            since_start("k7f2", changed).into_string()
        };
        insta::assert_snapshot!([0, 1, 23].map(shown).join("\n"), @r#"
        no file changed
        <a href="/run/k7f2/diff?from=0&amp;to=17">1 file, +412 −388</a>
        <a href="/run/k7f2/diff?from=0&amp;to=17">23 files, +412 −388</a>
        "#);
    }
}
