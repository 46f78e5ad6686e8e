//! The page of one run: decide first, then understand, then dig.

use super::changes;
use super::curves::curves_section;
use super::facts;
use super::gates::gates_section;
use super::marks;
use super::matrix::matrix_section;
use super::run_forms::{self, FormKeys};
use super::sessions::sessions_section;
use super::stops::{stop_link, stops_section};
use crate::page_region::PageRegion;
use crate::run_source::RunDetails;
use maud::{Markup, html};
use ralph_core::units;
use ralph_deck::page::{LookFirst, RunPage};
use ralph_deck::wording;

/// What is listed before a link to the rest.
const MAX_LOOK_FIRST: usize = 5;

pub(crate) fn run_regions(details: &RunDetails, forms: &FormKeys<'_>) -> Vec<PageRegion> {
    let page = &details.page;
    vec![
        PageRegion::new("verdict", verdict(page)),
        PageRegion::new("question", run_forms::question_box(page, forms)),
        PageRegion::new("standing", standing(page)),
        PageRegion::new("tools", run_forms::tools(details, forms)),
        PageRegion::new("first", look_first(page)),
        PageRegion::new("jump", jump()),
        PageRegion::new("requirements", matrix_section(page)),
        PageRegion::new("stops", stops_section(page)),
        PageRegion::new("gates", gates_section(page)),
        PageRegion::new("curves", curves_section(page)),
        PageRegion::new("changes", changes::changes_section(details)),
        PageRegion::new("sessions", sessions_section(page)),
        PageRegion::new("goal", goal(page)),
    ]
}

/// `(asks) Upgrade to axum · ralph`
pub(crate) fn run_title(page: &RunPage) -> String {
    format!("({}) {} · ralph", page.headline(), page.row.title)
}

pub(crate) fn run_news(page: &RunPage) -> Option<String> {
    (page.row.question.is_some()).then(|| format!("Run {} asks a question", page.row.run))
}

fn verdict(page: &RunPage) -> Markup {
    let row = &page.row;
    html! {
        div #verdict {
            p.crumb { a href="/" { "Board" } " / " (row.project_name) " / " span.mono { (row.run) } }
            div class={ "verdict " (facts::hue(row.standing)) } {
                p.status {
                    (facts::standing_mark(row.standing))
                    span.word {
                        (row.headline())
                        @if let Some(edit) = page.journal_edit { ", but " (edit) }
                    }
                    span.quiet {
                        @if row.standing.has_ended() { "ended " } @else { "last event " }
                        (facts::time(row.last_ms, page.now_ms))
                        @if row.standing.has_ended() { " · " (facts::report_link(&row.run)) }
                    }
                }
                h1 { (row.title) }
                p.rests { @for (at, sentence) in page.rests_on.iter().enumerate() {
                    @let sentence = wording::capitalized(sentence);
                    @if at == 0 { b { (sentence) "." } } @else { " " (sentence) "." }
                } }
                // What it rests on ends with the reason for the end.
                @if let Some(note) = row.note.as_ref().filter(|note| !page.rests_on.contains(note)) {
                    p.rests {
                        (facts::code_text(note))
                        @if let Some(until_ms) = row.until_ms { ", until " (facts::time(until_ms, page.now_ms)) }
                    }
                }
                @if let Some(next) = &page.next { p.rests { "Next: " (facts::code_text(next)) } }
            }
            @if let Some(damage) = &page.damage {
                div.banner.st-damaged role="alert" {
                    (marks::mark("damaged"))
                    div { b { "The journal of this run is damaged." } " " (damage) " The run cannot end verified." }
                }
            }
        }
    }
}

fn standing(page: &RunPage) -> Markup {
    let row = &page.row;
    html! {
        dl.strip #standing {
            div { dt { "Iterations" } dd { (row.iteration) @if let Some(most) = row.max_iterations { " " small { "of " (most) } } } }
            div { dt { "Time" } dd {
                (units::format_duration(row.elapsed_ms))
                @if let Some(most) = row.max_duration_ms { " " small { "of " (units::format_duration(most)) } }
            } }
            div { dt { "Spent" } dd {
                @if let Some(spent) = facts::spent(row.spent_micro_usd, row.cost_basis) {
                    (spent)
                    @if let Some(most) = row.max_micro_usd { " " small { "of " (units::format_usd(most)) } }
                } @else { small { "unknown" } }
            } }
            div { dt { "Context" } dd {
                @if let Some(permille) = row.context_permille { (permille / 10) " %" } @else { small { "unknown" } }
                @if row.sessions > 1 { " " small { "session " (row.sessions) } }
            } }
        }
    }
}

fn look_first(page: &RunPage) -> Markup {
    let all: Vec<_> = page.look_first_without_question().collect();
    let (shown, rest) = all.split_at(all.len().min(MAX_LOOK_FIRST));
    html! {
        div #first {
            @if !all.is_empty() {
                section.first aria-labelledby="h-first" {
                    div.head { h2 #h-first { "Look at this first" } }
                    ol { @for one in shown { (look_item(page, one)) } }
                    @if !rest.is_empty() {
                        details #first-rest {
                            summary { (rest.len()) " more" }
                            ol { @for one in rest { (look_item(page, one)) } }
                        }
                    }
                }
            }
        }
    }
}

fn look_item(page: &RunPage, one: &LookFirst) -> Markup {
    html! {
        li { div {
            p { (one.text) }
            p.hint { (one.kind.label()) @if let Some(stop) = one.stop { " · " (stop_link(page, stop, &html! { "stop " (stop) })) } }
        } }
    }
}

fn jump() -> Markup {
    const SECTIONS: [(&str, &str); 7] = [
        ("requirements", "Requirements"),
        ("stops", "Stops"),
        ("gates", "Gates"),
        ("curves", "Context and spend"),
        ("changes", "Changes"),
        ("sessions", "Sessions"),
        ("goal", "Goal"),
    ];
    html! {
        nav.jump #jump aria-label="Sections" { ul {
            @for (id, name) in SECTIONS { li { a href={ "#" (id) } { (name) } } }
        } }
    }
}

fn goal(page: &RunPage) -> Markup {
    html! {
        section #goal aria-labelledby="h-goal" {
            div.head { h2 #h-goal { "Goal" } }
            pre.saw { (page.goal) }
            p.hint {
                "In " code { (page.row.project) } ", started " (facts::time(page.row.started_ms, page.now_ms)) ". "
                "The same in the terminal: " code { "ralph why " (page.row.run) }
            }
        }
    }
}
