//! Past runs, latest first, with a filter.

use super::board::run_row;
use super::marks;
use crate::history_source::HistoryAnswer;
use maud::{Markup, html};
use ralph_core::text;
use ralph_deck::page::HistoryPage;

pub(crate) fn history_page(answer: &HistoryAnswer) -> Markup {
    match answer {
        HistoryAnswer::Found(page) => found_runs(page),
        HistoryAnswer::Mistake { filter, error } => html! {
            (heading("History", filter))
            div.banner.st-exhausted role="status" {
                (marks::mark("damaged"))
                div { code { (error.term) } " is not a filter; " (error.hint) }
            }
        },
    }
}

fn heading(title: &str, filter: &str) -> Markup {
    html! {
        div.page-head {
            div { h1 { (title) } }
            form.filter method="get" action="/history" role="search" {
                label.sr for="q" { "Filter" }
                input #q type="search" name="q" value=(filter) placeholder="is:stuck gate:tests since:7d >5usd" autocomplete="off" maxlength="300";
                button.btn { "Filter" }
            }
        }
    }
}

fn found_runs(page: &HistoryPage) -> Markup {
    let found = if page.filter.is_empty() { "ended" } else { "found" };
    html! {
        (heading(&format!("{} {found}", text::count_noun(page.total, "run")), &page.filter))
        section aria-labelledby="h-runs" {
            h2.sr #h-runs { "Runs" }
            @if page.rows.is_empty() { p.hint { "There is none. " @if !page.filter.is_empty() { a href="/history" { "All runs" } } } }
            @else { ul.runs #history { @for row in &page.rows { (run_row(row, page.now_ms)) } } }
            @if let Some(next) = &page.next {
                @let query = serde_urlencoded::to_string([("q", page.filter.as_str()), ("before", next)]).unwrap_or_default();
                a.more href={ "/history?" (query) } { "Earlier" }
            }
        }
    }
}
