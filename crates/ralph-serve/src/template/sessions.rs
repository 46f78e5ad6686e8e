//! Sessions, what one left for the next, and the questions of the agent.

use super::facts;
use maud::{Markup, html};
use ralph_core::{text, units};
use ralph_deck::page::{CostRow, CostRowSource, RunPage, SessionRow};

pub(crate) fn sessions_section(page: &RunPage) -> Markup {
    html! {
        section #sessions aria-labelledby="h-sess" {
            div.head { h2 #h-sess { "Sessions and hand-overs" } }
            @if page.sessions.is_empty() {
                p.hint {
                    "ralph holds one session of " (page.host)
                    @if let Some(owner) = &page.owner { ", " span.mono { (owner) } }
                    "."
                }
            }
            @if !page.costs.is_empty() || !page.sessions.is_empty() {
                table.tbl.cards {
                    thead { tr {
                        th scope="col" { "Session" } th scope="col" { "From" } th scope="col" { "Handed over because" }
                        th.num scope="col" { "Turns" } th.num scope="col" { "Tokens" } th.num scope="col" { "Cost" }
                    } }
                    tbody {
                        @for row in page.costs.iter().rev() { (cost_row(row, page)) }
                        @for session in page.sessions.iter().rev() { (session_row(session, page)) }
                    }
                }
            }
            @if !page.questions.is_empty() {
                h3 { "Questions" }
                ul.questions {
                    @for question in page.questions.iter().rev() {
                        li {
                            p.hint { "asked " (facts::time(question.asked_ms, page.now_ms)) }
                            blockquote { (question.question) }
                            @if let Some(answer) = &question.answer {
                                p.hint {
                                    "answered"
                                    @if let Some(at_ms) = question.answered_ms { " " (facts::time(at_ms, page.now_ms)) }
                                    @if let Some(by) = &question.by { " by " (by) }
                                }
                                blockquote.answer { (answer) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The cost of the judges, or of the session that a person works in.
fn cost_row(row: &CostRow, page: &RunPage) -> Markup {
    let name = match row.source {
        CostRowSource::Session => return html! {},
        CostRowSource::Owner => "this session",
        CostRowSource::Judges => "judges",
    };
    html! {
        tr {
            th scope="row" { (name) }
            td.r { (facts::time(row.started_ms, page.now_ms)) }
            td.full {}
            td.num data-k="turns" { "–" }
            td.num.wide { @if let Some(tokens) = row.tokens { (units::format_tokens(tokens)) } @else { "–" } }
            td.num data-k="cost" { (row.cost_text()) }
        }
    }
}

fn session_row(session: &SessionRow, page: &RunPage) -> Markup {
    let notes =
        page.handovers.iter().find(|one| Some(one.session) == session.number.checked_add(1));
    let cost = session.micro_usd.saturating_add(session.gates_micro_usd);
    let short: String = session.session.chars().take(8).collect();
    html! {
        tr {
            th scope="row" {
                (session.number) " " span.mono.quiet { (short) }
                @if let Some(model) = &session.model { span.quiet { " " (model) } }
            }
            td.r { (facts::time(session.started_ms, page.now_ms)) }
            td.full {
                @if let Some(why) = &session.handed_over { (why) }
                @if let Some(notes) = notes {
                    details id={ "notes-" (session.number) } {
                        summary { "Hand-over notes, " (text::count_noun(notes.text.split_whitespace().count(), "word")) }
                        pre.saw { (notes.text) }
                    }
                }
            }
            td.num data-k="turns" { (session.turns) }
            td.num.wide { (units::format_tokens(session.tokens)) }
            td.num data-k="cost" {
                @if session.is_assumed { (units::estimate_usd(cost)) } @else { (units::format_usd(cost)) }
            }
        }
    }
}
