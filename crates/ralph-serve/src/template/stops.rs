//! The timeline of a run, newest first.

use super::facts;
use super::marks;
use maud::{Markup, html};
use ralph_core::{text, units};
use ralph_deck::page::{EarlierLines, RunPage, TimelineKind, TimelineRow};
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

/// Lines that the page of the run leaves out, on a page of their own.
pub(crate) fn older_stops(run: &str, lines: &EarlierLines, now_ms: u64) -> Markup {
    html! {
        p.crumb { a href="/" { "Board" } " / " a href={ "/run/" (run) } { span.mono { (run) } } " / earlier stops" }
        h1 { "Earlier stops of " span.mono { (run) } }
        section aria-label="Stops" {
            (stop_list(&lines.rows, now_ms))
            @if let Some(first) = lines.rows.first().filter(|_| lines.left_out > 0) {
                a.more href={ "/run/" (run) "/stops?before=" (first.seq) } { "Earlier: " (text::count_noun(lines.left_out, "line")) }
            }
        }
    }
}

/// A link to the line of a stop: on the page of the run, or on a page of earlier lines. Without such a line, only the label.
pub(super) fn stop_link(page: &RunPage, stop: u32, label: &Markup) -> Markup {
    let newest = page.timeline.len().saturating_sub(STOPS_PER_PAGE);
    let Some(at) = page.timeline.iter().rposition(|row| row.stop == Some(stop)) else {
        return label.clone();
    };
    let seq = page.timeline.get(at).map_or(0, |row| row.seq);
    html! {
        @if at >= newest { a href={ "#stop-" (stop) } { (label) } }
        @else { a href={ "/run/" (page.row.run) "/stops?before=" (seq.saturating_add(1)) "#stop-" (stop) } { (label) } }
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
    let is_own = row.kind == TimelineKind::Runner;
    html! { (label) ": " @if is_own { (facts::code_text(&row.text)) } @else { (row.text) } }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::extreme_values::run_page;

    /// Every stop is on one page: the newest lines on that of the run.
    #[test]
    fn a_link_to_a_stop_leads_to_the_page_with_its_line() {
        let row = |seq: u64| TimelineRow {
            seq,
            at_ms: 0,
            kind: TimelineKind::Held,
            // One line in three is no stop.
            stop: (!seq.is_multiple_of(3)).then(|| u32::try_from(seq).unwrap()),
            iteration: 0,
            text: String::new(),
            rule: None,
            reason: None,
            gates_ms: None,
            cost_micro_usd: None,
            checkpoint: None,
            met: None,
            requirements: None,
        };
        let page = RunPage { timeline: (0..120).map(row).collect(), ..run_page(0, 0, &[]) };
        let link = |stop| stop_link(&page, stop, &html! { (stop) }).into_string();
        insta::assert_snapshot!([119, 70, 68, 1, 69, 500].map(link).join("\n"), @r##"
        <a href="#stop-119">119</a>
        <a href="#stop-70">70</a>
        <a href="/run/k7f2/stops?before=69#stop-68">68</a>
        <a href="/run/k7f2/stops?before=2#stop-1">1</a>
        69
        500
        "##);
        let shown = stops_section(&page).into_string();
        assert!(shown.contains("id=\"stop-70\"") && !shown.contains("id=\"stop-68\""));
    }
}
