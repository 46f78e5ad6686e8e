//! Small parts that pages share: times, amounts, limits, notices.

use crate::access::ActionNotice;
use crate::template::marks;
use maud::{Markup, html};
use ralph_core::id::RunId;
use ralph_core::record::CostBasis;
use ralph_core::status::RunStatus;
use ralph_core::units;
use ralph_deck::page::{BoardRow, RunStanding};
use ralph_sys::clock;

/// The local time in hours and minutes, after the date unless it is today's.
pub(crate) fn time(ms: u64, now_ms: u64) -> Markup {
    let (date, time) = (clock::local_date(ms), clock::local_time(ms));
    let short = time.get(..5).unwrap_or(&time);
    let shown = if date == clock::local_date(now_ms) {
        short.to_string()
    } else {
        format!("{date} {short}")
    };
    html! { time datetime=(clock::format_rfc3339(ms)) { (shown) } }
}

/// `in 19 min`, or nothing once it has passed.
pub(crate) fn in_time(ms: u64, now_ms: u64) -> String {
    match ms.saturating_sub(now_ms) {
        0 => String::new(),
        left => {
            let minutes = left.checked_next_multiple_of(60_000).unwrap_or(left);
            format!(", in {}", units::format_duration(minutes))
        }
    }
}

/// The length of a bar for `value`, if `most` has the length `size`. Journals can hold any number.
pub(crate) fn scaled(value: u64, most: u64, size: u64) -> u64 {
    let length = u128::from(value.min(most)) * u128::from(size) / u128::from(most.max(1));
    u64::try_from(length).unwrap_or(size)
}

/// The class that sets the hue of a standing.
pub(crate) fn hue(standing: RunStanding) -> &'static str {
    match standing {
        RunStanding::Working => "st-working",
        RunStanding::Waiting => "st-waiting",
        RunStanding::Asks => "st-needs_human",
        RunStanding::Paused => "st-paused",
        RunStanding::Orphaned => "st-orphaned",
        RunStanding::Unprotected => "st-unprotected",
        RunStanding::Parked(_) => "st-parked",
        RunStanding::Accepted => "st-accepted",
        RunStanding::Ended(status) => match status {
            RunStatus::Verified => "st-verified",
            RunStatus::Green => "st-green",
            RunStatus::Claimed => "st-claimed",
            RunStatus::Exhausted => "st-exhausted",
            RunStatus::Stuck => "st-stuck",
            RunStatus::NeedsHuman => "st-needs_human",
            RunStatus::NeedsReview => "st-needs_review",
            RunStatus::GateBroken => "st-gate_broken",
            RunStatus::RateLimited => "st-rate_limited",
            RunStatus::Cancelled => "st-cancelled",
            RunStatus::Overridden => "st-overridden",
            RunStatus::Crashed => "st-crashed",
        },
    }
}

/// The mark of a standing.
pub(crate) fn standing_mark(standing: RunStanding) -> Markup {
    marks::mark(standing.key())
}

/// What was spent, marked where it is an estimate or assumed.
pub(crate) fn spent(micro_usd: Option<u64>, basis: CostBasis) -> Option<String> {
    basis.describe_cost(micro_usd?)
}

/// Iterations, time and cost of a run against its limits.
pub(crate) fn limit_facts(row: &BoardRow) -> Markup {
    html! {
        p.facts {
            span.sr { "Iterations, time, cost:" }
            span { (row.iteration) @if let Some(most) = row.max_iterations { " " small { "of " (most) } } }
            span {
                (units::format_duration(row.elapsed_ms))
                @if let Some(most) = row.max_duration_ms { " " small { "of " (units::format_duration(most)) } }
            }
            span {
                @if let Some(spent) = spent(row.spent_micro_usd, row.cost_basis) {
                    (spent)
                    @if let Some(most) = row.max_micro_usd { " " small { "of " (units::format_usd(most)) } }
                } @else { small { "cost unknown" } }
            }
        }
    }
}

/// A sentence whose parts between backticks are names or commands. Foreign text can have a backtick without a partner,
/// which delimits nothing.
pub(crate) fn code_text(sentence: &str) -> Markup {
    let parts: Vec<_> = sentence.split('`').collect();
    let is_paired = !parts.len().is_multiple_of(2);
    html! {
        @if is_paired {
            @for (at, part) in parts.iter().enumerate() {
                @if at % 2 == 0 { (part) } @else { code { (part) } }
            }
        } @else { (sentence) }
    }
}

/// A link to a run. Text that is not a run id stays text.
pub(crate) fn run_link(id: &str) -> Markup {
    html! {
        @if RunId::parse(id).is_some() { a.mono href={ "/run/" (id) } { (id) } }
        @else { span.mono { (id) } }
    }
}

/// The report of a run.
pub(crate) fn report_link(run: &str) -> Markup {
    html! { a href={ "/run/" (run) "/report" } { "report" span.sr { " of run " (run) } } }
}

/// The result of the action before this page.
pub(crate) fn notice(notice: &ActionNotice) -> Markup {
    let (class, name) = if notice.is_failure {
        ("banner st-damaged", "damaged")
    } else {
        ("banner st-verified", "verified")
    };
    html! {
        div #notice class=(class) role="status" {
            (marks::mark(name))
            div { @for line in notice.text.lines() { p { (line) } } }
        }
    }
}
