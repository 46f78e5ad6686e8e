//! Context and spending over time, as plain SVG.

use super::facts;
use maud::{Markup, html};
use ralph_core::units;
use ralph_deck::page::{CurvePoint, RunPage};

const WIDTH: u64 = 480;
const HEIGHT: u64 = 130;

pub(crate) fn curves_section(page: &RunPage) -> Markup {
    let context_now = page.context.last().map_or(0, |point| point.value / 10);
    let spent = facts::spent(page.row.spent_micro_usd, page.row.cost_basis);
    let limit = page.row.max_micro_usd;
    let top = page.spend.iter().map(|point| point.value).chain(limit).max().unwrap_or(0);
    html! {
        section #curves aria-labelledby="h-curves" {
            div.head { h2 #h-curves { "Context and spend" } }
            @if page.context.len() < 2 && page.spend.len() < 2 {
                p.hint { "Too few stops for a curve yet." }
            } @else {
                div.pair {
                    @if page.context.len() > 1 {
                        figure {
                            figcaption { b { "Context" } ", per cent of the window; handed over at " (page.handover_at_permille / 10) " %" }
                            (chart(&page.context, 1_000, Some(u64::from(page.handover_at_permille)), &format!("Context used over time, {context_now} per cent at the last stop")))
                        }
                    }
                    @if page.spend.len() > 1 {
                        figure {
                            figcaption {
                                b { "Spend" } ", all sessions and judges together"
                                @if let Some(limit) = limit { "; limit " (units::format_usd(limit)) }
                            }
                            (chart(&page.spend, top, limit, &format!("Money spent over time, {} in total", spent.unwrap_or_default())))
                        }
                    }
                }
            }
        }
    }
}

fn chart(points: &[CurvePoint], top: u64, limit: Option<u64>, label: &str) -> Markup {
    let (from, to) = match (points.first(), points.last()) {
        (Some(first), Some(last)) => (first.at_ms, last.at_ms.max(first.at_ms)),
        _ => return html! {},
    };
    let x = |at_ms: u64| facts::scaled(at_ms.saturating_sub(from), to - from, WIDTH);
    let y = |value: u64| HEIGHT - facts::scaled(value, top, HEIGHT - 10);
    let line: Vec<String> =
        points.iter().map(|point| format!("{} {}", x(point.at_ms), y(point.value))).collect();
    let line = line.join(" L");
    let last = points.last().map_or((0, 0), |point| (x(point.at_ms), y(point.value)));
    html! {
        svg.chart viewBox="0 0 480 150" role="img" aria-label=(label) {
            path.under d={ "M0 130 L" (line) " L" (last.0) " 130 Z" } {}
            line.axis x1="0" y1="130" x2="480" y2="130" {}
            @if let Some(limit) = limit { line.limit x1="0" x2="480" y1=(y(limit)) y2=(y(limit)) {} }
            path.curve d={ "M" (line) } {}
            circle.dot cx=(last.0) cy=(last.1) r="3" {}
            text x="0" y="146" { (short_time(from)) }
            text x="480" y="146" text-anchor="end" { (short_time(to)) }
        }
    }
}

fn short_time(ms: u64) -> String {
    ralph_sys::clock::local_time(ms).chars().take(5).collect()
}
