//! The gates of a run: now, over its stops, and what the cache saved.

use super::{board, facts};
use maud::{Markup, html};
use ralph_core::record::MeasuredSite;
use ralph_core::text;
use ralph_deck::page::{GateHistoryRow, GateMeasurement, RunPage, state_label};
use ralph_deck::wording::short_duration;

/// Bars in a row; older results are left out.
const MAX_BARS: usize = 38;
const BAR_UNIT: usize = 5;

pub(crate) fn gates_section(page: &RunPage) -> Markup {
    let total = page.gates.iter().fold(0, |sum: u64, gate| sum.saturating_add(gate.took_ms));
    html! {
        section #gates aria-labelledby="h-gates" {
            div.head { h2 #h-gates { "Gates" } @if total > 0 { span.quiet { (short_duration(total)) " in total" } } }
            @if page.row.activity.is_some() { div.pace { (board::activity(&page.row, page.now_ms)) } }
            @if page.gates.is_empty() { @if page.row.activity.is_none() { p.hint { "No gate has run yet." } } }
            @else {
                table.tbl.cards {
                    thead { tr {
                        th scope="col" { "Gate" } th scope="col" { "Now" } th scope="col" { "Every stop" }
                        th.num scope="col" { "Last" } th.num scope="col" { "Longest" } th.num scope="col" { "From cache" }
                    } }
                    tbody { @for gate in &page.gates { (gate_row(gate)) } }
                }
            }
            @if !page.judges.is_empty() { (judges(page)) }
            @if let Some(proof) = &page.proof {
                h3 { "Proof: " (state_label(&proof.verdict)) }
                table.tbl {
                    thead { tr { th scope="col" { "Run" } th scope="col" { "Code" } th scope="col" { "Tests" } th scope="col" { "Result" } } }
                    tbody {
                        @for row in &proof.rows {
                            tr {
                                th scope="row" { (row.name) }
                                td { (row.code) } td { (row.tests) }
                                td {
                                    @match row.passed {
                                        Some(true) => { span.s-met { "✓" } " " },
                                        Some(false) => { span.s-unmet { "✗" } " " },
                                        None => {},
                                    }
                                    (row.result)
                                }
                            }
                        }
                    }
                }
                @for doubt in &proof.doubts { p.hint { (doubt) } }
            }
        }
    }
}

/// Verdicts are opinions, so they are apart from what was measured.
fn judges(page: &RunPage) -> Markup {
    html! {
        h3 { "Judges" }
        table.tbl {
            thead { tr {
                th scope="col" { "Judge" } th scope="col" { "Kind" } th scope="col" { "Verdict" }
                th scope="col" { "Model" } th.num scope="col" { "Asked" } th scope="col" { "Usage" }
            } }
            tbody {
                @for judge in &page.judges {
                    tr {
                        th scope="row" { (judge.name) }
                        td { (judge.kind.name()) }
                        td {
                            @match judge.outcome.as_str() {
                                "met" => { span.s-met { "✓" } },
                                "unmet" | "impossible" => { span.s-unmet { "✗" } },
                                _ => { span.s-unknown { "?" } },
                            }
                            " " (judge.verdict())
                        }
                        td { (judge.model.as_deref().unwrap_or_default()) }
                        td.num { (judge.asked) }
                        td { (judge.usage()) }
                    }
                }
            }
        }
    }
}

fn gate_row(gate: &GateHistoryRow) -> Markup {
    let place = match gate.site {
        MeasuredSite::Tree => None,
        MeasuredSite::Clean => Some("clean checkout"),
        MeasuredSite::Base => Some("base"),
    };
    let last = gate.measurements.last();
    html! {
        tr {
            th scope="row" { (gate.name) @if let Some(place) = place { span.quiet { " " (place) } } }
            td.r {
                @if gate.outcome == "passed" { span.s-met { "✓" } " passed" }
                @else if gate.outcome == "failed" {
                    span.s-unmet { "✗" } " "
                    @if gate.findings > 0 { (text::count_noun(gate.findings, "finding")) } @else { "failed" }
                }
                @else { span.s-unknown { "?" } " " (gate.outcome) }
                @if let Some(tests) = gate.tests { span.quiet { ", " (text::count_noun(tests.run, "test")) } }
                @if gate.flaky > 0 { span.s-unknown { ", flaky" } }
            }
            td.full { (bars(gate)) }
            td.num data-k="last" { @if let Some(last) = last { (short_duration(last.took_ms)) } }
            td.num data-k="longest" { (short_duration(gate.longest_ms)) }
            td.num data-k="from cache" { (gate.cached) @if gate.saved_ms > 0 { span.quiet { " saved " (short_duration(gate.saved_ms)) } } }
        }
    }
}

fn bars(gate: &GateHistoryRow) -> Markup {
    let shown = gate.measurements.len().saturating_sub(MAX_BARS);
    let shown = gate.measurements.get(shown..).unwrap_or_default();
    let longest = shown.iter().map(|one| one.took_ms).max().unwrap_or(1).max(1);
    let label = format!(
        "the last {}: {} failed, {} from the cache, longest {}",
        text::count_noun(shown.len(), "result"),
        shown.iter().filter(|one| one.outcome == "failed").count(),
        shown.iter().filter(|one| one.cached).count(),
        short_duration(longest)
    );
    html! {
        svg.bars viewBox="0 0 190 26" role="img" aria-label=(label) {
            @for (at, one) in shown.iter().enumerate() {
                @let height = facts::scaled(one.took_ms, longest, 24).max(2);
                rect class=(bar_class(one)) x=(at * BAR_UNIT) y=(26 - height) width=(BAR_UNIT - 1) height=(height) {}
            }
        }
    }
}

fn bar_class(one: &GateMeasurement) -> &'static str {
    match (one.cached, one.outcome.as_str()) {
        (true, _) => "hit",
        (false, "passed") => "ran",
        (false, _) => "bad",
    }
}
