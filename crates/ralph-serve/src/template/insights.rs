//! Figures over all runs: what holds agents, which gates are slow or flaky, what a week cost.

use crate::history_source::InsightTables;
use maud::{Markup, html};
use ralph_core::{text, units};
use ralph_deck::run_index::{GateInsight, RequirementInsight, WeekInsight};
use ralph_deck::wording::short_duration;

/// Rates of fewer runs say little.
const MIN_RUNS: u64 = 10;
const BAR: u64 = 200;

pub(crate) fn insights_page(page: &InsightTables) -> Markup {
    let ended: u64 = page.statuses.iter().map(|one| one.runs).sum();
    let of = |status: &str| {
        page.statuses.iter().find(|one| one.status == status).map_or(0, |one| one.runs)
    };
    html! {
        div.hello { div {
            @if ended == 0 {
                h1 { "No run has ended yet" }
                p.lede { "This page compares runs. It needs some first." }
            } @else if ended < MIN_RUNS {
                h1 { (text::count_noun(ended, "run")) " so far" }
                p.lede { "Rates of fewer than " (MIN_RUNS) " runs say little, so this page only counts." }
            } @else {
                h1 { (of("verified") * 100 / ended) " % of the runs ended verified" }
                p.lede { (of("verified")) " of " (ended) ", and " (of("green") + of("claimed")) " done without proof." }
            }
        } }
        @if !page.requirements.is_empty() { (requirements(&page.requirements)) }
        @if !page.gates.is_empty() { (gates(&page.gates)) }
        @if !page.weeks.is_empty() { (weeks(&page.weeks)) }
    }
}

fn bar(value: u64, most: u64) -> Markup {
    let width = value.saturating_mul(BAR) / most.max(1);
    html! {
        svg.hbar viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.rail width="200" height="10" {}
            rect.fill width=(width) height="10" {}
        }
    }
}

fn requirements(rows: &[RequirementInsight]) -> Markup {
    let most = rows.iter().map(|row| row.held_stops).max().unwrap_or(1);
    html! {
        section aria-labelledby="h-block" {
            div.head { h2 #h-block { "What holds agents" } span.quiet { "a stop can be held by more than one" } }
            table.tbl.cards {
                thead { tr {
                    th scope="col" { "Requirement" } th scope="col" { "Held stops" } th.num scope="col" { span.sr { "Number" } }
                    th.num scope="col" { "Runs" } th.num scope="col" { "Stops until met" } th.num scope="col" { "Waived" } th.num scope="col" { "Disputed" }
                } }
                tbody { @for row in rows {
                    tr {
                        th scope="row" { a href={ "/history?q=" (filter_of(&row.name)) } { (row.name) } }
                        td.full { (bar(row.held_stops, most)) }
                        td.num.r { (row.held_stops) }
                        td.num data-k="runs" { (row.runs) }
                        td.num data-k="until met" { @if let Some(mean) = row.mean_stops_until_met { (format!("{mean:.1}")) } }
                        td.num.wide { (row.waived_runs) }
                        td.num.wide { (row.disputed_runs) }
                    }
                } }
            }
        }
    }
}

/// The filter for runs that this requirement held, in the form of a query.
fn filter_of(name: &str) -> String {
    let word = name.split_whitespace().next().unwrap_or_default();
    let query = serde_urlencoded::to_string([("q", format!("gate:{word}"))]).unwrap_or_default();
    query.strip_prefix("q=").unwrap_or_default().to_string()
}

fn gates(rows: &[GateInsight]) -> Markup {
    let most = rows.iter().map(|row| row.took_ms).max().unwrap_or(1);
    html! {
        section aria-labelledby="h-slow" {
            div.head { h2 #h-slow { "Gates" } span.quiet { "time, failures, and what the cache saved" } }
            table.tbl.cards {
                thead { tr {
                    th scope="col" { "Gate" } th scope="col" { "Time in total" } th.num scope="col" { span.sr { "Time" } }
                    th.num scope="col" { "Longest" } th.num scope="col" { "Ran" } th.num scope="col" { "Failed" }
                    th.num scope="col" { "From cache" } th.num scope="col" { "Saved" } th.num scope="col" { "Flaky" }
                } }
                tbody { @for row in rows {
                    tr {
                        th scope="row" { (row.name) }
                        td.full { (bar(row.took_ms, most)) }
                        td.num.r { (short_duration(row.took_ms)) }
                        td.num data-k="longest" { (short_duration(row.longest_ms)) }
                        td.num.wide { (row.executed) }
                        td.num data-k="failed" { (row.failed) }
                        td.num.wide { (row.cached) }
                        td.num data-k="saved" { (short_duration(row.saved_ms)) }
                        td.num data-k="flaky" { @if row.flaky > 0 { span.s-unmet { (row.flaky) } } @else { "0" } }
                    }
                } }
            }
        }
    }
}

fn weeks(rows: &[WeekInsight]) -> Markup {
    let most = rows.iter().map(|row| row.micro_usd).max().unwrap_or(1);
    html! {
        section aria-labelledby="h-weeks" {
            div.head { h2 #h-weeks { "By week" } }
            table.tbl.cards {
                thead { tr {
                    th scope="col" { "Week" } th scope="col" { "Spent" } th.num scope="col" { span.sr { "Amount" } }
                    th.num scope="col" { "Ended" } th.num scope="col" { "Verified" } th.num scope="col" { "Without proof" } th.num scope="col" { "Held stops" }
                } }
                tbody { @for row in rows {
                    tr {
                        th scope="row" { (row.week) }
                        td.full { (bar(row.micro_usd, most)) }
                        td.num.r { (units::format_usd(row.micro_usd)) }
                        td.num data-k="ended" { (row.ended) }
                        td.num data-k="verified" { (row.verified) }
                        td.num.wide { (row.unproven) }
                        td.num.wide { (row.held) " of " (row.stops) }
                    }
                } }
            }
        }
    }
}
