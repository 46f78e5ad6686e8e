//! The timeline of a run, newest first.

use super::facts;
use super::marks;
use maud::{Markup, html};
use ralph_core::{text, units};
use ralph_deck::page::{RunPage, TimelineKind, TimelineRow};
use ralph_deck::wording;

/// Lines on the page of the run, and on each page of older ones.
pub(crate) const STOPS_PER_PAGE: usize = 50;

pub(crate) fn stops_section(page: &RunPage) -> Markup {
    let newest = page.timeline.len().saturating_sub(STOPS_PER_PAGE);
    let shown = page.timeline.get(newest..).unwrap_or_default();
    html! {
        section #stops aria-labelledby="h-stops" {
            div.head { h2 #h-stops { "Stops" } span.quiet { "newest first" } }
            (stop_list(shown, page.now_ms))
            @if let Some(first) = shown.first().filter(|_| newest > 0) {
                a.more href={ "/run/" (page.row.run) "/stops?before=" (first.seq) } { "Earlier: " (text::count_noun(newest, "line")) }
            }
        }
    }
}

/// The lines before `before`, on a page of their own.
pub(crate) fn older_stops(page: &RunPage, before: u64) -> Markup {
    let older: Vec<_> = page.timeline.iter().filter(|row| row.seq < before).cloned().collect();
    let from = older.len().saturating_sub(STOPS_PER_PAGE);
    let shown = older.get(from..).unwrap_or_default();
    html! {
        p.crumb { a href="/" { "Board" } " / " a href={ "/run/" (page.row.run) } { span.mono { (page.row.run) } } " / earlier stops" }
        h1 { "Earlier stops of " span.mono { (page.row.run) } }
        section aria-label="Stops" {
            (stop_list(shown, page.now_ms))
            @if let Some(first) = shown.first().filter(|_| from > 0) {
                a.more href={ "/run/" (page.row.run) "/stops?before=" (first.seq) } { "Earlier: " (text::count_noun(from, "line")) }
            }
        }
    }
}

fn stop_list(rows: &[TimelineRow], now_ms: u64) -> Markup {
    html! { ol.stops { @for row in rows.iter().rev() { (stop_line(row, now_ms)) } } }
}

fn stop_line(row: &TimelineRow, now_ms: u64) -> Markup {
    let Some(stop) = row.stop else {
        return html! {
            li.event id={ "line-" (row.seq) } {
                (facts::time(row.at_ms, now_ms))
                (marks::mark(kind_mark(row.kind)))
                div { (event_text(row)) @if let Some(reason) = &row.reason { (reason_details(row.seq, reason)) } }
            }
        };
    };
    html! {
        li.st-working id={ "stop-" (stop) } {
            (facts::time(row.at_ms, now_ms))
            (marks::mark(kind_mark(row.kind)))
            div {
                p.line {
                    b { "Stop " (stop) }
                    span {
                        (row.kind.label())
                        @if let (Some(met), Some(all)) = (row.met, row.requirements) { ", " (met) " of " (all) " met" }
                    }
                    span.far {
                        @if let Some(gates_ms) = row.gates_ms { "gates " (wording::short_duration(gates_ms)) }
                        @if row.gates_ms.is_some() && row.cost_micro_usd.is_some() { " · " }
                        @if let Some(cost) = row.cost_micro_usd { (units::format_usd(cost)) }
                        @if let Some(checkpoint) = row.checkpoint { " · checkpoint " (checkpoint) }
                    }
                }
                p.what { (row.text) @if let Some(rule) = row.rule { span.quiet { " · rule " code { (rule) } } } }
                @if let Some(reason) = &row.reason { (reason_details(row.seq, reason)) }
            }
        }
    }
}

fn reason_details(seq: u64, reason: &str) -> Markup {
    html! { details id={ "read-" (seq) } { summary { "What the agent read" } pre.saw { (reason) } } }
}

fn event_text(row: &TimelineRow) -> Markup {
    let label = wording::capitalized(row.kind.label());
    html! { (label) ": " (row.text) }
}

fn kind_mark(kind: TimelineKind) -> &'static str {
    match kind {
        TimelineKind::Started => "start",
        TimelineKind::Held => "held",
        TimelineKind::LetGo => "letgo",
        TimelineKind::HandedOver => "handover",
        TimelineKind::Ended => "stopped",
        TimelineKind::Asked => "asks",
        TimelineKind::Answered => "message",
        TimelineKind::Person => "person",
        TimelineKind::Agent | TimelineKind::Note => "note",
        TimelineKind::Runner => "runner",
        TimelineKind::Denied => "blocked",
        TimelineKind::Damage => "damaged",
    }
}
