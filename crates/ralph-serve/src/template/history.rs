//! Past runs, latest first, with a filter.

use super::facts;
use crate::history_source::{HistoryPage, indexed_standing};
use maud::{Markup, html};
use ralph_core::{text, units};
use ralph_deck::run_index::IndexedRun;

pub(crate) fn history_page(page: &HistoryPage) -> Markup {
    html! {
        div.hello {
            div {
                h1 { (text::count_noun(page.count, "run")) @if page.query.is_empty() { " ended" } @else { " found" } }
                @if !page.statuses.is_empty() {
                    p.lede {
                        @for (at, one) in page.statuses.iter().enumerate() {
                            @if at > 0 { ", " }
                            (one.runs) " " (one.status.replace('_', " "))
                        }
                        "."
                    }
                }
            }
            form.filter method="get" action="/history" role="search" {
                label.sr for="q" { "Filter" }
                input #q type="search" name="q" value=(page.query) placeholder="is:stuck gate:tests since:7d >5usd" autocomplete="off" maxlength="300";
                button.btn { "Filter" }
            }
        }
        @if let Some(mistake) = &page.mistake {
            div.banner.st-exhausted role="status" { (super::marks::mark("damaged")) div { code { (mistake.term) } " is not a filter; " (mistake.hint) } }
        }
        section aria-labelledby="h-runs" {
            h2.sr #h-runs { "Runs" }
            @if page.runs.is_empty() { p.hint { "No run ends here. " @if !page.query.is_empty() { a href="/history" { "All runs" } } } }
            @else { ul.runs #history { @for run in &page.runs { (history_row(run, page.now_ms)) } } }
            @if let Some(next) = &page.next {
                @let query = serde_urlencoded::to_string([("q", page.query.as_str()), ("before", next)]).unwrap_or_default();
                a.more href={ "/history?" (query) } { "Earlier" }
            }
        }
    }
}

fn history_row(run: &IndexedRun, now_ms: u64) -> Markup {
    let standing = indexed_standing(run);
    let project = run.project.rsplit('/').next().unwrap_or_default();
    html! {
        li class={ "run " (facts::hue(standing)) } id={ "run-" (run.id) } {
            (facts::standing_mark(standing))
            div {
                h3 { a href={ "/run/" (run.id) } { (run.title) } }
                p.where {
                    span.word { (facts::standing_word(standing)) }
                    " · " (project) " · " span.mono { (run.id) }
                    " · " (facts::time(run.ended_ms.unwrap_or(run.last_ms), now_ms))
                }
                p.why { (run.because) }
            }
            p.facts {
                span.sr { "Iterations, time, cost:" }
                span { (run.iteration) @if let Some(most) = run.max_iterations { " " small { "of " (most) } } }
                span { (units::format_duration(run.ran_ms)) }
                span { @if let Some(micro) = run.micro_usd { (units::format_usd(micro)) } @else { small { "cost unknown" } } }
            }
        }
    }
}
