//! What runs have in common: what a verified one costs, what holds agents, flaky and slow gates, weeks, limits, proposals.

use super::facts::{self, code_text};
use super::marks;
use crate::stats_source::{LoadedStats, StatsAnswer};
use maud::{Markup, html};
use ralph_core::text::{clean_line, count_noun};
use ralph_core::units::{format_duration, format_usd};
use ralph_deck::IndexCoverage;
use ralph_deck::page::state_label;
use ralph_deck::page::stats::{
    AppliedComparison, CostRange, FlakyTable, HoldTable, JudgeTable, LimitHitRow, PolicyProposal,
    RunSummaryRow, SlowTable, StatsPage, StatsProject, WeekRow, percent,
};
use ralph_deck::wording::{ago, capitalized};

const BAR: u64 = 200;
const RANGE: u64 = 1_000;
/// The width of the mark of a median.
const MEDIAN: u64 = 8;

/// Projects to choose from; a machine can have runs in thousands.
const MAX_CHOICES: usize = 200;
const LONGEST_CHOICE: usize = 120;

pub(crate) fn stats_page(answer: &StatsAnswer) -> Markup {
    match &answer.figures {
        Ok(stats) => html! {
            div.page-head {
                div {
                    h1 { (stats.page.sentence) }
                    @if !stats.page.detail.is_empty() { p.detail { (code_text(&stats.page.detail)) } }
                    @if stats.coverage == IndexCoverage::Partial {
                        p.hint { "Not every run is counted yet. Reload the page to continue." }
                    }
                }
                (filter_form(answer))
            }
            (figures(stats))
        },
        Err(mistake) => html! {
            div.page-head { div { h1 { "Stats" } } (filter_form(answer)) }
            div.banner.st-exhausted role="status" {
                (marks::mark("damaged"))
                div { (code_text(&capitalized(mistake.hint()))) "." }
            }
        },
    }
}

/// Chooses the runs, as the options of `ralph stats` do.
fn filter_form(answer: &StatsAnswer) -> Markup {
    let StatsAnswer { query, projects, .. } = answer;
    let is_chosen = |project: &String| *project == query.project;
    let offered = projects.iter().enumerate();
    let offered = offered.filter(|(at, project)| *at < MAX_CHOICES || is_chosen(project));
    html! {
        form.filter method="get" action="/stats" {
            label.sr for="project" { "Project" }
            select #project name="project" {
                option value="" { "All projects" }
                @for (_, project) in offered {
                    option value=(project) selected[is_chosen(project)] { (clean_line(project, LONGEST_CHOICE)) }
                }
            }
            label.sr for="since" { "Since, such as 30d" }
            input #since type="text" name="since" value=(query.since) placeholder="30d" autocomplete="off" maxlength="40";
            button.btn { "Show" }
        }
    }
}

fn figures(stats: &LoadedStats) -> Markup {
    let page = &stats.page;
    html! {
        @if page.is_compared { @if let Some(cost) = page.cost { (verified_cost(page, cost)) } }
        (holds("h-holds", "What holds agents", &page.holds))
        (flaky(&page.flaky))
        (slow(&page.slow))
        (judges(&page.judges))
        @if page.is_compared && !page.weeks.is_empty() { (weeks(page)) }
        @if !page.limits.is_empty() { (limits(&page.limits)) }
        (holds("h-sessions", "What holds sessions without a run", &page.session_holds))
        @if !page.proposals.is_empty() { (proposals(&page.proposals, &stats.command)) }
        @if !page.applied.is_empty() { (applied(page)) }
        @if !page.runs.is_empty() { (runs(page)) }
    }
}

/// The name of a project beside a row.
fn quiet_project(project: &StatsProject) -> Markup {
    html! { " " span.quiet { (project.name) } }
}

fn next_step(next: Option<&str>) -> Markup {
    html! { @if let Some(next) = next { p.hint { (code_text(next)) } } }
}

/// Empty if there are too few runs.
fn middle_half(cost: CostRange) -> String {
    let text = |(lower, upper)| format!("{} to {}", format_usd(lower), format_usd(upper));
    cost.middle_half().map(text).unwrap_or_default()
}

fn verified_cost(page: &StatsPage, cost: CostRange) -> Markup {
    html! {
        section aria-labelledby="h-cost" {
            div.head { h2 #h-cost { "Cost of a verified run" } }
            dl.strip {
                div { dt { "Median" } dd { (format_usd(cost.median)) } }
                @if cost.middle_half().is_some() { div { dt { "Middle half" } dd { (middle_half(cost)) } } }
                div { dt { "Verified runs with a known cost" } dd { (cost.runs) } }
                div {
                    dt { "Spent on runs that did not end verified" }
                    dd { (format_usd(page.unverified_micro_usd)) " " small { "of " (format_usd(page.ended_micro_usd)) } }
                }
            }
        }
    }
}

fn bar(value: u64, most: u64) -> Markup {
    let width = facts::scaled(value, most, BAR);
    html! {
        svg.hbar viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.rail width="200" height="10" {}
            rect.fill width=(width) height="10" {}
        }
    }
}

fn holds(id: &'static str, title: &str, table: &HoldTable) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            section aria-labelledby=(id) {
                div.head { h2 id=(id) { (title) } span.quiet { (table.held_stops) " held of " (count_noun(table.stops, "stop")) } }
                table.tbl.cards {
                    thead { tr {
                        th scope="col" { "Requirement" } th scope="col" { "Share of held stops" } th.num scope="col" { span.sr { "Per cent" } }
                        th.num scope="col" { "Stops" } th.num scope="col" { "Stops until met" } th.num scope="col" { "Waived" } th.num scope="col" { "False holds" }
                    } }
                    tbody { @for row in &table.rows {
                        tr {
                            th scope="row" { (row.requirement) (quiet_project(&row.project)) }
                            td.full { (bar(row.held_permille.into(), 1000)) }
                            td.num.r { (percent(row.held_permille)) }
                            td.num data-k="stops" { (row.held_stops) }
                            td.num data-k="until met" { @if let Some(stops) = row.stops_until_met { (stops) } @else { "never" } }
                            td.num.wide { (row.waived) }
                            td.num data-k="false" { (row.false_holds) }
                        }
                    } }
                }
                p.hint { "A stop can be held by more than one requirement. A false hold was waived, or disputed and the work accepted." }
                (next_step(table.next.as_deref()))
            }
        }
    }
}

fn flaky(table: &FlakyTable) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            section aria-labelledby="h-flaky" {
                div.head { h2 #h-flaky { "Flaky gates" } span.quiet { "same content, different result" } }
                table.tbl.cards {
                    thead { tr { th scope="col" { "Gate" } th scope="col" { "Share of results" } th.num scope="col" { "Rate" } th.num scope="col" { "Differed" } } }
                    tbody { @for row in &table.rows {
                        tr {
                            th scope="row" { (row.gate) (quiet_project(&row.project)) }
                            td.full { (bar(row.flaky_permille.into(), 1000)) }
                            td.num.r { (percent(row.flaky_permille)) }
                            td.num data-k="different" { (row.flaky) " of " (row.executed) }
                        }
                    } }
                }
                (next_step(table.next.as_deref()))
            }
        }
    }
}

fn slow(table: &SlowTable) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            section aria-labelledby="h-slow" {
                div.head {
                    h2 #h-slow { "Slow gates, and what the cache saved" }
                    span.quiet { (format_duration(table.took_ms)) " in total, " (format_duration(table.saved_ms)) " saved" }
                }
                table.tbl.cards {
                    thead { tr {
                        th scope="col" { "Gate" } th.num scope="col" { "Mean" } th.num scope="col" { "Longest" }
                        th.num scope="col" { "Ran" } th.num scope="col" { "From cache" } th.num scope="col" { "Saved" }
                    } }
                    tbody { @for row in &table.rows {
                        tr {
                            th scope="row" { (row.gate) (quiet_project(&row.project)) }
                            td.num.r { (format_duration(row.mean_ms)) }
                            td.num data-k="longest" { (format_duration(row.longest_ms)) }
                            td.num.wide { (row.executed) }
                            td.num.wide { (row.cached) " · " (percent(row.cached_permille)) }
                            td.num data-k="saved" { (format_duration(row.saved_ms)) }
                        }
                    } }
                }
                (next_step(table.next.as_deref()))
            }
        }
    }
}

fn judges(table: &JudgeTable) -> Markup {
    html! {
        @if !table.rows.is_empty() {
            section aria-labelledby="h-judges" {
                div.head { h2 #h-judges { "Judges" } span.quiet { "a dropped finding quotes what is not in the file" } }
                table.tbl.cards {
                    thead { tr {
                        th scope="col" { "Judge" } th.num scope="col" { "Asked" } th.num scope="col" { "From cache" }
                        th.num scope="col" { "Met" } th.num scope="col" { "Unmet" } th.num scope="col" { "No verdict" }
                        th.num scope="col" { "Dropped quotes" } th.num scope="col" { "Cost" }
                    } }
                    tbody { @for row in &table.rows {
                        tr {
                            th scope="row" { (row.judge) (quiet_project(&row.project)) }
                            td.num.r { (row.asked) }
                            td.num.wide { (row.cached) }
                            td.num data-k="met" { (row.met) }
                            td.num data-k="unmet" { (row.unmet.saturating_add(row.impossible)) }
                            td.num data-k="no verdict" { (row.no_verdict) }
                            td.num data-k="dropped" { (row.misquoted) }
                            td.num data-k="cost" { @if let Some(amount) = row.micro_usd { (format_usd(amount)) } @else { "unknown" } }
                        }
                    } }
                }
                (next_step(table.next.as_deref()))
            }
        }
    }
}

/// The middle half as a bar with the median as a tick, on a scale from nothing to `most`.
fn cost_bar(cost: CostRange, most: u64) -> Markup {
    let place = |amount: u64| facts::scaled(amount, most, RANGE);
    let half = cost.middle_half().map(|(lower, upper)| (place(lower), place(upper)));
    let median = place(cost.median).min(RANGE - MEDIAN);
    html! {
        svg.wk viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true" {
            rect.rail y="6" width="1000" height="1" {}
            @if let Some((lower, upper)) = half {
                rect.half x=(lower) y="4" width=(upper.saturating_sub(lower)) height="6" {}
            }
            rect.med x=(median) width=(MEDIAN) height="14" {}
        }
    }
}

fn weeks(page: &StatsPage) -> Markup {
    let costs = page.weeks.iter().filter_map(|week| week.cost);
    let most = costs.map(|cost| cost.upper.unwrap_or(cost.median)).max().unwrap_or(0);
    let row = |week: &WeekRow| {
        html! {
            tr {
                th scope="row" { (week.week) }
                td.full { @if let Some(cost) = week.cost { (cost_bar(cost, most)) } }
                td.num.r { @if let Some(cost) = week.cost { (format_usd(cost.median)) } }
                td.num.wide { @if let Some(cost) = week.cost { (middle_half(cost)) } }
                td.num data-k="verified" { (week.verified) " of " (week.ended) }
                td.num.wide { (week.held) " of " (week.stops) }
                td.num data-k="spent" { (format_usd(week.micro_usd)) }
            }
        }
    };
    html! {
        section aria-labelledby="h-weeks" {
            div.head { h2 #h-weeks { "By week" } span.quiet { "the tick is the median of a verified run, the bar the middle half" } }
            table.tbl.cards {
                thead { tr {
                    th scope="col" { "Week" } th scope="col" { "$0 to " (format_usd(most)) } th.num scope="col" { "Median" }
                    th.num scope="col" { "Middle half" } th.num scope="col" { "Verified" } th.num scope="col" { "Held stops" } th.num scope="col" { "Spent" }
                } }
                tbody { @for week in &page.weeks { (row(week)) } }
            }
        }
    }
}

fn limits(rows: &[LimitHitRow]) -> Markup {
    html! {
        section aria-labelledby="h-limits" {
            div.head { h2 #h-limits { "Limits that were hit" } }
            table.tbl.cards {
                thead { tr { th scope="col" { "Limit" } th.num scope="col" { "Runs" } th.num scope="col" { "Latest" } } }
                tbody { @for row in rows {
                    tr {
                        th scope="row" { (row.limit.name()) }
                        td.num.r { (row.runs) }
                        td.num data-k="latest" { (facts::run_link(&row.last_run)) }
                    }
                } }
            }
        }
    }
}

/// Numbered as the command numbers them.
fn proposals(proposals: &[PolicyProposal], command: &str) -> Markup {
    html! {
        section aria-labelledby="h-prop" {
            div.head { h2 #h-prop { "Proposals" } span.quiet { "shown, never applied for you" } }
            @for PolicyProposal { number, title, reason, gain, price, edit, project, .. } in proposals {
                article.tip {
                    div {
                        h3 { (number) ". " (code_text(title)) (quiet_project(project)) }
                        p { (code_text(reason)) }
                        pre { (edit.toml.trim_end()) }
                        p { "Shows the change and asks: " code { (command) " --apply " (number) } }
                    }
                    dl {
                        dt { "Saves" } dd { (gain) }
                        dt { "Costs" } dd { (price) }
                        dt { "File" } dd { code { (edit.file) } }
                    }
                }
            }
        }
    }
}

fn applied(page: &StatsPage) -> Markup {
    html! {
        section aria-labelledby="h-applied" {
            div.head { h2 #h-applied { "Applied proposals" } span.quiet { "28 days before against the time since" } }
            @for AppliedComparison { title, project, at_ms, runs_before, runs_after, figures } in &page.applied {
                article.tip {
                    div {
                        h3 { (code_text(title)) (quiet_project(project)) }
                        p {
                            "Applied by you " (facts::time(*at_ms, page.now_ms)) "."
                            @if figures.is_empty() { " There are not enough runs to compare yet." }
                        }
                    }
                    dl {
                        @for figure in figures { dt { (figure.name) } dd { (figure.before) " → " (figure.after) } }
                        dt { "Runs" } dd { (runs_before) " before, " (runs_after) " since" }
                    }
                }
            }
        }
    }
}

/// The runs, if there are too few to compare.
fn runs(page: &StatsPage) -> Markup {
    let row = |run: &RunSummaryRow| {
        html! {
            tr {
                th scope="row" { (run.title) (quiet_project(&run.project)) }
                td.num.r { (facts::run_link(&run.run)) }
                td data-k="state" { (state_label(&run.state)) }
                td.num data-k="held" { (run.held) " of " (run.stops) }
                td.num data-k="cost" { (run.cost_basis.column_text(run.micro_usd)) }
                td.num data-k="ended" { @if let Some(ended_ms) = run.ended_ms { (ago(page.now_ms, ended_ms)) } @else { "not ended" } }
            }
        }
    };
    html! {
        section aria-labelledby="h-runs" {
            div.head { h2 #h-runs { "Runs" } }
            table.tbl.cards {
                thead { tr {
                    th scope="col" { "Goal" } th.num scope="col" { "Run" } th scope="col" { "Status" }
                    th.num scope="col" { "Held stops" } th.num scope="col" { "Cost" } th.num scope="col" { "Ended" }
                } }
                tbody { @for run in &page.runs { (row(run)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_core::cost_reading::CostBasis;
    use ralph_deck::page::stats::{
        ComparedFigure, GateStatistics, HoldRow, JudgeStatistics, LimitHit, ProposalKind,
        ProposedEdit,
    };

    use crate::stats_source::StatsQuery;

    const HOSTILE: &str = "<b onclick=x>`\"'&";

    /// Every text of the page tries to be markup.
    fn hostile_page() -> StatsPage {
        let text = || HOSTILE.to_string();
        let project = || StatsProject { name: text(), path: text() };
        let cost = Some(CostRange {
            median: 6_200_000,
            lower: Some(3_400_000),
            upper: Some(9_100_000),
            runs: 10,
        });
        let holds = HoldTable {
            stops: 40,
            held_stops: 20,
            rows: vec![HoldRow {
                requirement: text(),
                project: project(),
                held_stops: 12,
                held_permille: 600,
                ..HoldRow::default()
            }],
            next: Some(text()),
            ..HoldTable::default()
        };
        let gates = vec![GateStatistics {
            gate: text(),
            project: project(),
            executed: 40,
            flaky: 8,
            flaky_permille: 200,
            mean_ms: 250_000,
            ..GateStatistics::default()
        }];
        StatsPage {
            sentence: text(),
            detail: text(),
            is_compared: true,
            cost,
            session_holds: holds.clone(),
            holds,
            flaky: FlakyTable { rows: gates.clone(), next: Some(text()) },
            slow: SlowTable { rows: gates, next: Some(text()), ..SlowTable::default() },
            judges: hostile_judges(),
            weeks: vec![WeekRow { week: text(), cost, ..WeekRow::default() }],
            limits: vec![LimitHitRow { limit: LimitHit::Cost, runs: 3, last_run: text() }],
            proposals: vec![hostile_proposal()],
            applied: vec![AppliedComparison {
                title: text(),
                project: project(),
                at_ms: 0,
                runs_before: 26,
                runs_after: 30,
                figures: vec![ComparedFigure { name: text(), before: text(), after: text() }],
            }],
            runs: vec![RunSummaryRow {
                run: "k7f2".to_string(),
                state: "needs_review".to_string(),
                title: text(),
                project: project(),
                ended_ms: None,
                stops: 4,
                held: 3,
                micro_usd: None,
                cost_basis: CostBasis::Unknown,
            }],
            ..StatsPage::default()
        }
    }

    fn hostile_judges() -> JudgeTable {
        let text = || HOSTILE.to_string();
        let row = JudgeStatistics {
            judge: text(),
            project: StatsProject { name: text(), path: text() },
            kind: text(),
            asked: 7,
            ..JudgeStatistics::default()
        };
        JudgeTable { rows: vec![row], next: Some(text()), ..JudgeTable::default() }
    }

    fn hostile_proposal() -> PolicyProposal {
        let text = || HOSTILE.to_string();
        PolicyProposal {
            number: 1,
            kind: ProposalKind::Repeat,
            project: StatsProject { name: text(), path: text() },
            title: "Repeat every failure of `e2e`".to_string(),
            reason: text(),
            gain: text(),
            price: text(),
            edit: ProposedEdit {
                file: text(),
                is_user_file: false,
                section: "gate".to_string(),
                gate: Some(text()),
                key: "rerun".to_string(),
                value: text(),
                toml: format!("[[gate]]\nname = \"{HOSTILE}\"\n"),
            },
        }
    }

    #[test]
    fn hostile_names_are_text_in_every_table() {
        let text = || HOSTILE.to_string();
        let stats = LoadedStats {
            page: hostile_page(),
            coverage: IndexCoverage::Partial,
            command: format!("ralph stats --project {HOSTILE}"),
        };
        let answer = StatsAnswer {
            query: StatsQuery { project: text(), since: text() },
            projects: vec!["/srv/shop".to_string(), text()],
            figures: Ok(stats),
        };
        let shown = stats_page(&answer).into_string();
        assert!(!shown.contains("<b ") && !shown.contains("method=\"post\""));
        let time = shown.split_once("<time").and_then(|(_, rest)| rest.split_once("</time>"));
        let time = format!("<time{}</time>", time.map_or("", |(time, _)| time));
        let lines = shown.replace(&time, "TIME").replace("<section", "\n<section");
        insta::assert_snapshot!(lines, @r#"
        <div class="page-head"><div><h1>&lt;b onclick=x&gt;`&quot;'&amp;</h1><p class="detail">&lt;b onclick=x&gt;`&quot;'&amp;</p><p class="hint">Not every run is counted yet. Reload the page to continue.</p></div><form class="filter" method="get" action="/stats"><label class="sr" for="project">Project</label><select id="project" name="project"><option value="">All projects</option><option value="/srv/shop">/srv/shop</option><option value="&lt;b onclick=x&gt;`&quot;'&amp;" selected>&lt;b onclick=x&gt;`&quot;'&amp;</option></select><label class="sr" for="since">Since, such as 30d</label><input id="since" type="text" name="since" value="&lt;b onclick=x&gt;`&quot;'&amp;" placeholder="30d" autocomplete="off" maxlength="40"><button class="btn">Show</button></form></div>
        <section aria-labelledby="h-cost"><div class="head"><h2 id="h-cost">Cost of a verified run</h2></div><dl class="strip"><div><dt>Median</dt><dd>$6.20</dd></div><div><dt>Middle half</dt><dd>$3.40 to $9.10</dd></div><div><dt>Verified runs with a known cost</dt><dd>10</dd></div><div><dt>Spent on runs that did not end verified</dt><dd>$0 <small>of $0</small></dd></div></dl></section>
        <section aria-labelledby="h-holds"><div class="head"><h2 id="h-holds">What holds agents</h2><span class="quiet">20 held of 40 stops</span></div><table class="tbl cards"><thead><tr><th scope="col">Requirement</th><th scope="col">Share of held stops</th><th class="num" scope="col"><span class="sr">Per cent</span></th><th class="num" scope="col">Stops</th><th class="num" scope="col">Stops until met</th><th class="num" scope="col">Waived</th><th class="num" scope="col">False holds</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></th><td class="full"><svg class="hbar" viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true"><rect class="rail" width="200" height="10"></rect><rect class="fill" width="120" height="10"></rect></svg></td><td class="num r">60 %</td><td class="num" data-k="stops">12</td><td class="num" data-k="until met">never</td><td class="num wide">0</td><td class="num" data-k="false">0</td></tr></tbody></table><p class="hint">A stop can be held by more than one requirement. A false hold was waived, or disputed and the work accepted.</p><p class="hint">&lt;b onclick=x&gt;`&quot;'&amp;</p></section>
        <section aria-labelledby="h-flaky"><div class="head"><h2 id="h-flaky">Flaky gates</h2><span class="quiet">same content, different result</span></div><table class="tbl cards"><thead><tr><th scope="col">Gate</th><th scope="col">Share of results</th><th class="num" scope="col">Rate</th><th class="num" scope="col">Differed</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></th><td class="full"><svg class="hbar" viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true"><rect class="rail" width="200" height="10"></rect><rect class="fill" width="40" height="10"></rect></svg></td><td class="num r">20 %</td><td class="num" data-k="different">8 of 40</td></tr></tbody></table><p class="hint">&lt;b onclick=x&gt;`&quot;'&amp;</p></section>
        <section aria-labelledby="h-slow"><div class="head"><h2 id="h-slow">Slow gates, and what the cache saved</h2><span class="quiet">0 ms in total, 0 ms saved</span></div><table class="tbl cards"><thead><tr><th scope="col">Gate</th><th class="num" scope="col">Mean</th><th class="num" scope="col">Longest</th><th class="num" scope="col">Ran</th><th class="num" scope="col">From cache</th><th class="num" scope="col">Saved</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></th><td class="num r">4 min</td><td class="num" data-k="longest">0 ms</td><td class="num wide">40</td><td class="num wide">0 · 0 %</td><td class="num" data-k="saved">0 ms</td></tr></tbody></table><p class="hint">&lt;b onclick=x&gt;`&quot;'&amp;</p></section>
        <section aria-labelledby="h-judges"><div class="head"><h2 id="h-judges">Judges</h2><span class="quiet">a dropped finding quotes what is not in the file</span></div><table class="tbl cards"><thead><tr><th scope="col">Judge</th><th class="num" scope="col">Asked</th><th class="num" scope="col">From cache</th><th class="num" scope="col">Met</th><th class="num" scope="col">Unmet</th><th class="num" scope="col">No verdict</th><th class="num" scope="col">Dropped quotes</th><th class="num" scope="col">Cost</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></th><td class="num r">7</td><td class="num wide">0</td><td class="num" data-k="met">0</td><td class="num" data-k="unmet">0</td><td class="num" data-k="no verdict">0</td><td class="num" data-k="dropped">0</td><td class="num" data-k="cost">unknown</td></tr></tbody></table><p class="hint">&lt;b onclick=x&gt;`&quot;'&amp;</p></section>
        <section aria-labelledby="h-weeks"><div class="head"><h2 id="h-weeks">By week</h2><span class="quiet">the tick is the median of a verified run, the bar the middle half</span></div><table class="tbl cards"><thead><tr><th scope="col">Week</th><th scope="col">$0 to $9.10</th><th class="num" scope="col">Median</th><th class="num" scope="col">Middle half</th><th class="num" scope="col">Verified</th><th class="num" scope="col">Held stops</th><th class="num" scope="col">Spent</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp;</th><td class="full"><svg class="wk" viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true"><rect class="rail" y="6" width="1000" height="1"></rect><rect class="half" x="373" y="4" width="627" height="6"></rect><rect class="med" x="681" width="8" height="14"></rect></svg></td><td class="num r">$6.20</td><td class="num wide">$3.40 to $9.10</td><td class="num" data-k="verified">0 of 0</td><td class="num wide">0 of 0</td><td class="num" data-k="spent">$0</td></tr></tbody></table></section>
        <section aria-labelledby="h-limits"><div class="head"><h2 id="h-limits">Limits that were hit</h2></div><table class="tbl cards"><thead><tr><th scope="col">Limit</th><th class="num" scope="col">Runs</th><th class="num" scope="col">Latest</th></tr></thead><tbody><tr><th scope="row">cost</th><td class="num r">3</td><td class="num" data-k="latest"><span class="mono">&lt;b onclick=x&gt;`&quot;'&amp;</span></td></tr></tbody></table></section>
        <section aria-labelledby="h-sessions"><div class="head"><h2 id="h-sessions">What holds sessions without a run</h2><span class="quiet">20 held of 40 stops</span></div><table class="tbl cards"><thead><tr><th scope="col">Requirement</th><th scope="col">Share of held stops</th><th class="num" scope="col"><span class="sr">Per cent</span></th><th class="num" scope="col">Stops</th><th class="num" scope="col">Stops until met</th><th class="num" scope="col">Waived</th><th class="num" scope="col">False holds</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></th><td class="full"><svg class="hbar" viewBox="0 0 200 10" preserveAspectRatio="none" aria-hidden="true"><rect class="rail" width="200" height="10"></rect><rect class="fill" width="120" height="10"></rect></svg></td><td class="num r">60 %</td><td class="num" data-k="stops">12</td><td class="num" data-k="until met">never</td><td class="num wide">0</td><td class="num" data-k="false">0</td></tr></tbody></table><p class="hint">A stop can be held by more than one requirement. A false hold was waived, or disputed and the work accepted.</p><p class="hint">&lt;b onclick=x&gt;`&quot;'&amp;</p></section>
        <section aria-labelledby="h-prop"><div class="head"><h2 id="h-prop">Proposals</h2><span class="quiet">shown, never applied for you</span></div><article class="tip"><div><h3>1. Repeat every failure of <code>e2e</code> <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></h3><p>&lt;b onclick=x&gt;`&quot;'&amp;</p><pre>[[gate]]
        name = &quot;&lt;b onclick=x&gt;`&quot;'&amp;&quot;</pre><p>Shows the change and asks: <code>ralph stats --project &lt;b onclick=x&gt;`&quot;'&amp; --apply 1</code></p></div><dl><dt>Saves</dt><dd>&lt;b onclick=x&gt;`&quot;'&amp;</dd><dt>Costs</dt><dd>&lt;b onclick=x&gt;`&quot;'&amp;</dd><dt>File</dt><dd><code>&lt;b onclick=x&gt;`&quot;'&amp;</code></dd></dl></article></section>
        <section aria-labelledby="h-applied"><div class="head"><h2 id="h-applied">Applied proposals</h2><span class="quiet">28 days before against the time since</span></div><article class="tip"><div><h3>&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></h3><p>Applied by you TIME.</p></div><dl><dt>&lt;b onclick=x&gt;`&quot;'&amp;</dt><dd>&lt;b onclick=x&gt;`&quot;'&amp; → &lt;b onclick=x&gt;`&quot;'&amp;</dd><dt>Runs</dt><dd>26 before, 30 since</dd></dl></article></section>
        <section aria-labelledby="h-runs"><div class="head"><h2 id="h-runs">Runs</h2></div><table class="tbl cards"><thead><tr><th scope="col">Goal</th><th class="num" scope="col">Run</th><th scope="col">Status</th><th class="num" scope="col">Held stops</th><th class="num" scope="col">Cost</th><th class="num" scope="col">Ended</th></tr></thead><tbody><tr><th scope="row">&lt;b onclick=x&gt;`&quot;'&amp; <span class="quiet">&lt;b onclick=x&gt;`&quot;'&amp;</span></th><td class="num r"><a class="mono" href="/run/k7f2">k7f2</a></td><td data-k="state">needs review</td><td class="num" data-k="held">3 of 4</td><td class="num" data-k="cost">unknown</td><td class="num" data-k="ended">not ended</td></tr></tbody></table></section>
        "#);
    }
}
