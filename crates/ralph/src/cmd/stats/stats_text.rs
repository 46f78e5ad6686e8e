//! The page of `ralph stats` for a terminal.

use crate::term::{self, paint};
use crate::text_table::{ColumnSide, TextTable};
use ralph_core::text::count_noun;
use ralph_core::units::{format_duration, format_usd, format_usd_alike};
use ralph_deck::page::state_label;
use ralph_deck::page::stats::{
    AppliedComparison, CostRange, GateStatistics, HoldRow, HoldTable, JudgeStatistics, LimitHitRow,
    PolicyProposal, RunSummaryRow, StatsPage, StatsProject, WeekRow, percent,
};
use ralph_deck::wording::ago;
use ralph_sys::clock;

const MAX_TITLE_CHARS: usize = 40;

use ColumnSide::{Left, Right};

/// `command` is the one that shows this page, without `--apply`.
pub(super) fn render_page(page: &StatsPage, command: &str) -> String {
    let mut out = format!("{}\n", paint(term::BOLD, &page.sentence));
    if !page.detail.is_empty() {
        out.push_str(&format!("{}\n", page.detail));
    }
    let projects = projects_of(page);
    let view = PageView { page, command, has_projects: projects > 1 };
    let sections = [
        view.runs(),
        view.holds("What holds agents", &page.holds),
        view.flaky(),
        view.slow(),
        view.judges(),
        view.weeks(),
        view.limits(),
        view.holds("What holds sessions without a run", &page.session_holds),
        view.proposals(),
        view.applied(),
    ];
    for section in sections.into_iter().flatten() {
        out.push_str(&format!("\n{section}"));
    }
    out
}

fn projects_of(page: &StatsPage) -> usize {
    let holds = page.holds.rows.iter().chain(&page.session_holds.rows).map(|row| &row.project);
    let gates = page.slow.rows.iter().chain(&page.flaky.rows).map(|row| &row.project);
    let runs = page.runs.iter().map(|row| &row.project);
    let judges = page.judges.rows.iter().map(|row| &row.project);
    holds
        .chain(gates)
        .chain(judges)
        .chain(runs)
        .collect::<std::collections::BTreeSet<&StatsProject>>()
        .len()
}

struct PageView<'a> {
    page: &'a StatsPage,
    command: &'a str,
    /// Whether more than one project is shown, so that rows name theirs.
    has_projects: bool,
}

impl PageView<'_> {
    fn named(&self, name: &str, project: &StatsProject) -> String {
        if self.has_projects { format!("{name} ({})", project.name) } else { name.to_string() }
    }

    fn runs(&self) -> Option<String> {
        let page = self.page;
        let row = |run: &RunSummaryRow| {
            vec![
                run.run.clone(),
                state_label(&run.state),
                self.named(&ralph_core::text::truncate(&run.title, MAX_TITLE_CHARS), &run.project),
                format!("{} of {}", run.held, run.stops),
                run.cost_basis.column_text(run.micro_usd),
                run.ended_ms.map(|ended| ago(page.now_ms, ended)).unwrap_or_default(),
            ]
        };
        let heads = [
            ("Run", Left),
            ("State", Left),
            ("Goal", Left),
            ("Held", Right),
            ("Cost", Right),
            ("Ended", Right),
        ];
        let rows: Vec<_> = page.runs.iter().map(row).collect();
        section("Runs", &heads, &rows, Some("`ralph why RUN` explains each of them"))
    }

    fn holds(&self, title: &str, table: &HoldTable) -> Option<String> {
        let row = |row: &HoldRow| {
            vec![
                self.named(&row.requirement, &row.project),
                row.held_stops.to_string(),
                percent(row.held_permille),
                row.stops_until_met.map_or_else(|| "never".to_string(), |stops| stops.to_string()),
                row.waived.to_string(),
                row.false_holds.to_string(),
            ]
        };
        let heads = [
            ("Requirement", Left),
            ("Stops", Right),
            ("Share", Right),
            ("Until met", Right),
            ("Waived", Right),
            ("False holds", Right),
        ];
        let rows: Vec<_> = table.rows.iter().map(row).collect();
        let title = format!(
            "{title}: {} of {} were held",
            table.held_stops,
            count_noun(table.stops, "stop")
        );
        section(&title, &heads, &rows, table.next.as_deref())
    }

    fn flaky(&self) -> Option<String> {
        let row = |gate: &GateStatistics| {
            vec![
                self.named(&gate.gate, &gate.project),
                format!("{} of {}", gate.flaky, gate.executed),
                percent(gate.flaky_permille),
            ]
        };
        let heads = [("Gate", Left), ("Different", Right), ("Rate", Right)];
        let rows: Vec<_> = self.page.flaky.rows.iter().map(row).collect();
        section(
            "Flaky gates: same content, different result",
            &heads,
            &rows,
            self.page.flaky.next.as_deref(),
        )
    }

    fn slow(&self) -> Option<String> {
        let table = &self.page.slow;
        let row = |gate: &GateStatistics| {
            vec![
                self.named(&gate.gate, &gate.project),
                format_duration(gate.mean_ms),
                format_duration(gate.longest_ms),
                gate.executed.to_string(),
                format!("{} · {}", gate.cached, percent(gate.cached_permille)),
                format_duration(gate.saved_ms),
            ]
        };
        let heads = [
            ("Gate", Left),
            ("Mean", Right),
            ("Longest", Right),
            ("Ran", Right),
            ("From cache", Right),
            ("Saved", Right),
        ];
        let rows: Vec<_> = table.rows.iter().map(row).collect();
        let title = format!(
            "Slow gates: {} in total, {} saved by the cache",
            format_duration(table.took_ms),
            format_duration(table.saved_ms)
        );
        section(&title, &heads, &rows, table.next.as_deref())
    }

    fn judges(&self) -> Option<String> {
        let table = &self.page.judges;
        let row = |judge: &JudgeStatistics| {
            vec![
                self.named(&judge.judge, &judge.project),
                judge.asked.to_string(),
                judge.cached.to_string(),
                judge.met.to_string(),
                judge.unmet.saturating_add(judge.impossible).to_string(),
                judge.no_verdict.to_string(),
                judge.misquoted.to_string(),
                judge.micro_usd.map(format_usd).unwrap_or_default(),
            ]
        };
        let heads = [
            ("Judge", Left),
            ("Asked", Right),
            ("From cache", Right),
            ("Met", Right),
            ("Unmet", Right),
            ("No verdict", Right),
            ("Dropped quotes", Right),
            ("Cost", Right),
        ];
        let rows: Vec<_> = table.rows.iter().map(row).collect();
        section("Judges", &heads, &rows, table.next.as_deref())
    }

    fn weeks(&self) -> Option<String> {
        if !self.page.is_compared {
            return None;
        }
        let row = |week: &WeekRow| {
            let range = |(lower, upper)| format!("{} to {}", format_usd(lower), format_usd(upper));
            vec![
                week.week.clone(),
                week.cost.map(|cost| format_usd(cost.median)).unwrap_or_default(),
                week.cost.and_then(CostRange::middle_half).map(range).unwrap_or_default(),
                format!("{} of {}", week.verified, week.ended),
                format!("{} of {}", week.held, week.stops),
                format_usd(week.micro_usd),
            ]
        };
        let heads = [
            ("Week", Left),
            ("Median", Right),
            ("Middle half", Right),
            ("Verified", Right),
            ("Held", Right),
            ("Spent", Right),
        ];
        let rows: Vec<_> = self.page.weeks.iter().map(row).collect();
        let next = self.page.weeks.first().map(|week| {
            let page = self.page;
            let rest = match page.unverified_micro_usd {
                0 => String::new(),
                unverified => {
                    let [unverified, all] = format_usd_alike([unverified, page.ended_micro_usd]);
                    let more = if page.has_unknown_cost() { " that are known" } else { "" };
                    format!("{unverified} of {all}{more} went to runs that did not end verified; ")
                }
            };
            format!("{rest}`ralph stats --week {}` shows one week", week.week)
        });
        section("Cost of a verified run, by week", &heads, &rows, next.as_deref())
    }

    fn limits(&self) -> Option<String> {
        let row = |row: &LimitHitRow| {
            vec![row.limit.name().to_string(), row.runs.to_string(), row.last_run.clone()]
        };
        let rows: Vec<_> = self.page.limits.iter().map(row).collect();
        let heads = [("Limit", Left), ("Runs", Right), ("Latest", Left)];
        let next = self.page.limits.first().map(|row| {
            format!("`ralph limits {}` shows the limits of the latest one", row.last_run)
        });
        section("Limits that were hit", &heads, &rows, next.as_deref())
    }

    fn proposals(&self) -> Option<String> {
        let proposals = &self.page.proposals;
        if proposals.is_empty() {
            return None;
        }
        let mut out = format!("{}\n", paint(term::BOLD, "Proposals: nothing is applied unasked"));
        for PolicyProposal { number, title, reason, gain, price, edit, project, .. } in proposals {
            let title = self.named(title, project);
            out.push_str(&format!("{number}. {}\n   {reason}\n", paint(term::BOLD, &title)));
            out.push_str(&format!("   Saves: {gain}. Costs: {price}.\n"));
            for line in edit.toml.lines() {
                out.push_str(&format!("     {line}\n"));
            }
        }
        let command = self.command;
        out.push_str(&next_line(&format!("`{command} --apply N` shows the change and asks")));
        Some(out)
    }

    fn applied(&self) -> Option<String> {
        let applied = &self.page.applied;
        if applied.is_empty() {
            return None;
        }
        let mut out = format!("{}\n", paint(term::BOLD, "Applied proposals, measured"));
        for one in applied {
            let AppliedComparison { title, project, at_ms, runs_before, runs_after, figures } = one;
            let title = self.named(title, project);
            let compared =
                format!("{} before, {runs_after} since", count_noun(*runs_before, "run"));
            out.push_str(&format!("{title}, on {} ({compared})\n", clock::local_date(*at_ms)));
            if figures.is_empty() {
                out.push_str("  not enough runs to compare yet\n");
            }
            for figure in figures {
                let (name, before, after) = (&figure.name, &figure.before, &figure.after);
                out.push_str(&format!("  {name}: {before} → {after}\n"));
            }
        }
        Some(out)
    }
}

/// A titled table with something to do below it; `None` without rows.
fn section(
    title: &str,
    heads: &[(&str, ColumnSide)],
    rows: &[Vec<String>],
    next: Option<&str>,
) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let table = TextTable { columns: heads, rows, indent: "  ", header_style: term::DIM };
    let mut out = format!("{}\n{}", paint(term::BOLD, title), table.render());
    out.push_str(&next.map(next_line).unwrap_or_default());
    Some(out)
}

fn next_line(next: &str) -> String {
    format!("  {} {next}\n", paint(term::DIM, "→"))
}
