//! The board: the runs that wait for the person, those that are working, and those that ended.

use super::facts;
use super::marks;
use crate::page_region::{PageRegion, PageRow};
use maud::{Markup, html};
use ralph_core::text;
use ralph_core::units;
use ralph_deck::page::{BoardPage, BoardQueue, BoardRow, RunStanding};
use ralph_deck::standing_wording;

pub(crate) fn board_regions(page: &BoardPage) -> Vec<PageRegion> {
    let mut regions = vec![
        PageRegion::new("trouble", trouble(page)),
        PageRegion::new("page-head", page_head(page)),
    ];
    if is_empty(page) {
        regions.push(PageRegion::new("lists", html! { div #lists { (first_steps()) } }));
        return regions;
    }
    let queues = page.queues.iter().filter(|queue| !queue.has_ended).map(queue_row);
    let ended = html! {
        "Ended"
        @if page.seen_ms > 0 { " since " (facts::time(page.seen_ms, page.now_ms)) }
    };
    let lists = html! {
        div #lists {
            (list(page, "waiting-for-you", &html! { "Waiting for you" }, &page.waiting, more_item(page.waiting_left_out).as_slice(), true))
            (list(page, "working", &html! { "Working" }, &page.working, &queues.chain(more_item(page.working_left_out)).collect::<Vec<_>>(), page.waiting.is_empty()))
            (list(page, "ended", &ended, &page.ended, &[], page.waiting.is_empty() && page.working.is_empty()))
            @if page.earlier > 0 {
                a.more href="/history" { "Earlier: " (text::count_noun(page.earlier, "run")) }
            }
        }
    };
    let all = page.waiting.iter().chain(&page.working).chain(&page.ended);
    let rows = all.map(|row| PageRow { id: row_id(row), markup: run_row(row, page.now_ms) });
    let queues = page.queues.iter().filter(|queue| !queue.has_ended).map(|queue| {
        let id = queue_id(queue);
        PageRow { id, markup: queue_row(queue) }
    });
    regions.push(PageRegion {
        id: "lists".to_string(),
        markup: lists,
        rows: rows.chain(queues).collect(),
    });
    regions
}

/// `(3) ralph`, so that a tab in the background shows what waits.
pub(crate) fn board_title(page: &BoardPage) -> String {
    match page.waiting_count() {
        0 => "ralph".to_string(),
        count => format!("({count}) ralph"),
    }
}

/// The newest question, for people who do not see the page.
pub(crate) fn board_news(page: &BoardPage) -> Option<String> {
    let asks = page.waiting.iter().filter(|row| row.question.is_some());
    let newest = asks.max_by_key(|row| row.question.as_ref().map(|question| question.asked_ms))?;
    let is_approval = newest.question.as_ref().is_some_and(|question| question.approval.is_some());
    let what = if is_approval { standing_wording::AWAITS_APPROVAL } else { "asks a question" };
    Some(format!("Run {} {what}: {}", newest.run, newest.title))
}

fn is_empty(page: &BoardPage) -> bool {
    page.waiting.is_empty()
        && page.working.is_empty()
        && page.ended.is_empty()
        && page.queues.iter().all(|queue| queue.has_ended)
        && page.earlier == 0
}

fn page_head(page: &BoardPage) -> Markup {
    let share = page
        .max_day_micro_usd
        .filter(|most| *most > 0)
        .map(|most| facts::scaled(page.spent_today_micro_usd, most, 190));
    html! {
        div.page-head #page-head {
            div {
                h1 { (page.sentence) }
                @if let Some(detail) = board_detail(page) { p.detail { (detail) } }
            }
            @if page.spent_today_micro_usd > 0 || page.max_day_micro_usd.is_some() {
                p.spend {
                    b { (facts::spent(Some(page.spent_today_micro_usd), page.spent_today_basis).unwrap_or_default()) }
                    @if let Some(most) = page.max_day_micro_usd { " of " (units::format_usd(most)) }
                    " today"
                    @if let Some(share) = share {
                        svg.bar viewBox="0 0 190 4" preserveAspectRatio="none" aria-hidden="true" {
                            rect.rail width="190" height="4" {}
                            rect.fill width=(share) height="4" {}
                        }
                    }
                }
            }
        }
    }
}

/// The second sentence: what the first one leaves out.
fn board_detail(page: &BoardPage) -> Option<String> {
    let mut parts = Vec::new();
    if !page.waiting.is_empty() && !page.working.is_empty() {
        let is = if page.working_count() == 1 { "is" } else { "are" };
        parts.push(format!("{} {is} working.", text::count_noun(page.working_count(), "run")));
    }
    let is_first_list = page.waiting.is_empty() && page.working.is_empty();
    if !(page.ended.is_empty() || is_first_list) {
        let mut labels: Vec<(String, usize)> = Vec::new();
        for row in &page.ended {
            let label = row.standing.label();
            match labels.iter_mut().find(|(known, _)| *known == label) {
                Some((_, count)) => *count += 1,
                None => labels.push((label, 1)),
            }
        }
        let counts: Vec<_> =
            labels.iter().map(|(label, count)| format!("{count} {label}")).collect();
        let runs = text::count_noun(page.ended_total, "run");
        let listed = page.ended.len();
        // Only the newest are listed, and so counted by their labels.
        let of = if page.ended_total > u64::try_from(listed).unwrap_or(u64::MAX) {
            format!("; of the newest {listed}, ")
        } else {
            ": ".to_string()
        };
        parts.push(format!("{runs} ended{of}{}.", counts.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Runs that cannot be read, faults, and ralph being switched off.
fn trouble(page: &BoardPage) -> Markup {
    html! {
        div #trouble {
            @if let Some(off) = &page.off {
                div.banner.st-exhausted role="status" {
                    (marks::mark("cancelled"))
                    div { b { "ralph is off." } " " (off) ", so no agent is held." }
                }
            }
            @for unreadable in &page.unreadable {
                div.banner.st-damaged role="alert" { (marks::mark("damaged")) div { b { "A run cannot be read." } " " (unreadable) } }
            }
            @if !page.faults.is_empty() {
                div.banner.st-damaged role="status" {
                    (marks::mark("damaged"))
                    div {
                        b { "Faults in ralph itself" }
                        @for fault in &page.faults { p { (fault) } }
                    }
                }
            }
        }
    }
}

fn first_steps() -> Markup {
    html! {
        div.nothing {
            p { "Start a run in a project. It appears here by itself." }
            pre { "cd ~/csv\nralph run \"Quote fields that hold commas\"" }
            p.hint { "No project at hand? " code { "ralph demo" } " plays a run in about a second, offline." }
        }
    }
}

fn list(
    page: &BoardPage,
    id: &'static str,
    title: &Markup,
    rows: &[BoardRow],
    items: &[Markup],
    has_column_heads: bool,
) -> Markup {
    let heading = format!("h-{id}");
    html! {
        @if !(rows.is_empty() && items.is_empty()) {
            section aria-labelledby=(heading) {
                div.head.cols[has_column_heads] {
                    h2 id=(heading) { (title) }
                    @if has_column_heads {
                        p.colh aria-hidden="true" { span { "Iterations" } span { "Time" } span { "Cost" } }
                    }
                }
                ul.runs id=(id) {
                    @for row in rows { (run_row(row, page.now_ms)) }
                    @for item in items { (item) }
                }
            }
        }
    }
}

/// The runs of a list that are only counted.
fn more_item(left_out: usize) -> Option<Markup> {
    (left_out > 0).then(|| {
        html! { li.more { "and " (left_out) " more; " code { "ralph status --all" } " lists them" } }
    })
}

fn row_id(row: &BoardRow) -> String {
    format!("run-{}", row.run)
}

/// One run in a list of runs.
pub(crate) fn run_row(row: &BoardRow, now_ms: u64) -> Markup {
    html! {
        li id=(row_id(row)) class={ "run " (facts::hue(row.standing)) } {
            (facts::standing_mark(row.standing))
            div {
                h3 { a id={ "open-" (row.run) } href={ "/run/" (row.run) } { (row.title) } }
                p.where {
                    span.word { (row.headline()) }
                    " · " (row.project_name)
                    @if let Some(branch) = &row.branch { " · " span.mono { (branch) } }
                    " · " span.mono { (row.run) }
                    @if row.standing.has_ended() {
                        " · ended " (facts::time(row.last_ms, now_ms)) " · " (facts::report_link(&row.run))
                    }
                    @if row.standing == RunStanding::Working && row.activity.is_none() {
                        @if let Some(last) = standing_wording::last_event(now_ms, row.last_ms) { " · " (last) }
                    }
                }
                @if let Some(question) = &row.question {
                    @let (verb, answer) = if question.approval.is_some() { ("Approve", "an approval") } else { ("Answer", "an answer") };
                    p.asked { (question.text) }
                    p.act {
                        a.btn.go href={ "/run/" (row.run) "#question" } { (verb) span.sr { " run " (row.run) } }
                        @if let Some(until_ms) = question.until_ms {
                            span {
                                "The run is parked at " (facts::time(until_ms, now_ms)) " without " (answer)
                                (facts::in_time(until_ms, now_ms))
                            }
                        } @else { span { "asked " (facts::time(question.asked_ms, now_ms)) } }
                    }
                }
                @if let Some(note) = &row.note {
                    p.why {
                        (facts::code_text(note))
                        @if let Some(until_ms) = row.until_ms {
                            ". Continues by itself at " (facts::time(until_ms, now_ms)) (facts::in_time(until_ms, now_ms))
                        }
                    }
                }
                @if row.standing == RunStanding::Working || row.activity.is_some() { (pace(row, now_ms)) }
            }
            (facts::limit_facts(row))
        }
    }
}

fn pace(row: &BoardRow, now_ms: u64) -> Markup {
    html! {
        div.pace {
            @if row.trend.len() > 1 { (trend(&row.trend)) }
            @if let (Some(met), Some(all)) = (row.met, row.requirements) { span { b { (met) " of " (all) " met" } } }
            @if !row.open_names.is_empty() { span { "open: " (row.open_names.join(", ")) } }
            (activity(row, now_ms))
        }
    }
}

/// The gates that run now, with their times, and how far a proof has come.
pub(super) fn activity(row: &BoardRow, now_ms: u64) -> Markup {
    html! {
        @for gate in row.running_gates() {
            span {
                code { (gate.name) } " running"
                @if let Some(since_ms) = gate.since_ms {
                    " for " (units::format_duration(now_ms.saturating_sub(since_ms)))
                }
                @if let Some(usual_ms) = gate.shown_usual_ms() { ", usually " (units::format_duration(usual_ms)) }
                @if let Some(step) = &gate.step { ": " (step) }
            }
        }
        @if let Some(activity) = &row.activity {
            @for step in &activity.proof { span { "proof: " (step.describe()) } }
            @if activity.is_preparing() { span { (activity.describe(now_ms)) } }
        }
    }
}

/// Open requirements, stop by stop, as bars.
fn trend(open: &[u32]) -> Markup {
    let most = open.iter().copied().max().unwrap_or(1).max(1);
    let width = (open.len() * 8).saturating_sub(2);
    let values: Vec<_> = open.iter().map(ToString::to_string).collect();
    let label = format!("open requirements, stop by stop: {}", values.join(", "));
    html! {
        svg.spark viewBox={ "0 0 " (width) " 22" } width=(width) height="22" role="img" aria-label=(label) {
            @for (at, value) in open.iter().enumerate() {
                @let height = facts::scaled(u64::from(*value), u64::from(most), 20).max(2);
                rect x=(at * 8) y=(22 - height) width="6" height=(height) {}
            }
        }
    }
}

fn queue_id(queue: &BoardQueue) -> String {
    format!("queue-{}", queue.id)
}

fn queue_row(queue: &BoardQueue) -> Markup {
    html! {
        li.run.st-queue id=(queue_id(queue)) {
            (marks::mark("queue"))
            div {
                h3 { a id={ "open-" (queue_id(queue)) } href={ "/queues#queue-" (queue.id) } { "Queue " (queue.name) } }
                p.where { span.word { (queue.landed) " of " (queue.tasks) " landed" } " · " (queue.project_name) }
                @if queue.running > 0 || queue.parked > 0 {
                    p.why { (queue.running) " running, " (queue.parked) " parked" }
                }
            }
            p.facts {
                span {} span {}
                span { (units::format_usd(queue.spent_micro_usd)) }
            }
        }
    }
}
