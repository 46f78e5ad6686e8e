//! Statistics over many runs: what holds agents, flaky and slow gates, cost by week, and proposals.
//!
//! Everything here is computed from [`StatsRows`]; nothing reads a file or a clock.

mod applied_proposals;
mod finding_rules;
mod gate_tables;
mod hold_table;
mod judge_table;
mod proposal_rules;
mod stats_rows;
#[cfg(test)]
mod tests;
mod week_table;

use crate::json_units;
use gate_tables::gate_statistics;
use ralph_core::cost_reading::CostBasis;
use ralph_core::text::count_noun;
use ralph_core::units::{format_usd, format_usd_alike};
use serde::Serialize;

pub use applied_proposals::{AppliedComparison, AppliedProposal, ComparedFigure};
pub use gate_tables::{FlakyTable, GateStatistics, SlowTable};
pub use hold_table::{HoldRow, HoldTable};
pub use judge_table::{JudgeStatistics, JudgeTable};
pub use proposal_rules::{PolicyProposal, ProjectSettings, ProposalKind, ProposedEdit};
pub use stats_rows::{
    LimitHit, StatsGate, StatsJudge, StatsProject, StatsRequirement, StatsRows, StatsRun, percent,
};
pub use week_table::{CostRange, LimitHitRow, WeekRow};

/// With fewer ended runs, they are listed instead of compared.
const LEAST_COMPARED: usize = 10;
const MAX_TABLE_ROWS: usize = 10;
const MAX_WEEKS: usize = 12;

/// Which runs the page covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatsScope {
    /// All projects if absent. The caller leaves out the rows of others.
    pub project: Option<String>,
    /// Only runs with an entry since then.
    #[serde(rename = "since", serialize_with = "json_units::optional_time")]
    pub since_ms: Option<u64>,
    /// Only the runs of this ISO week.
    pub week: Option<String>,
}

/// What the runs of this machine have in common, with a sentence first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatsPage {
    pub v: u8,
    #[serde(rename = "now", serialize_with = "json_units::time")]
    pub now_ms: u64,
    pub scope: StatsScope,
    /// The answer a person came for: `A verified run costs $6.20, counting all runs`.
    pub sentence: String,
    pub detail: String,
    pub ended: usize,
    pub verified: usize,
    /// Of the verified runs, those that a person accepted without proof.
    pub accepted: usize,
    /// Of the ended runs, those that wait for a person.
    pub waiting: usize,
    /// Runs that have not ended.
    pub open: usize,
    /// Sessions without a run.
    pub sessions: usize,
    /// Whether there are enough runs to compare.
    pub is_compared: bool,
    /// The runs, latest first, if there are too few to compare.
    pub runs: Vec<RunSummaryRow>,
    pub cost: Option<CostRange>,
    /// What all runs cost, those that ended, and of these the ones that did not end verified.
    #[serde(rename = "spent_usd", serialize_with = "json_units::usd")]
    pub spent_micro_usd: u64,
    #[serde(rename = "ended_usd", serialize_with = "json_units::usd")]
    pub ended_micro_usd: u64,
    #[serde(rename = "unverified_usd", serialize_with = "json_units::usd")]
    pub unverified_micro_usd: u64,
    /// The ended runs whose whole cost is known.
    pub cost_known: usize,
    /// How many of these costs the client did not report: they are estimated from tokens and list prices, or assumed.
    pub cost_estimated: usize,
    pub holds: HoldTable,
    /// Of sessions without a run.
    pub session_holds: HoldTable,
    pub flaky: FlakyTable,
    pub slow: SlowTable,
    pub judges: JudgeTable,
    pub limits: Vec<LimitHitRow>,
    pub weeks: Vec<WeekRow>,
    pub proposals: Vec<PolicyProposal>,
    pub applied: Vec<AppliedComparison>,
}

/// A run in a short list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummaryRow {
    pub run: String,
    #[serde(rename = "status")]
    pub state: String,
    pub title: String,
    pub project: StatsProject,
    #[serde(rename = "ended_at", serialize_with = "json_units::optional_time")]
    pub ended_ms: Option<u64>,
    pub stops: u32,
    pub held: u32,
    #[serde(rename = "cost_usd", serialize_with = "json_units::optional_usd")]
    pub micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
}

/// The page of the runs in scope. `rows` are those of all times, so that applied proposals can be compared.
pub fn stats_page(
    rows: StatsRows,
    scope: StatsScope,
    projects: &[ProjectSettings],
    applied: &[AppliedProposal],
    now_ms: u64,
) -> StatsPage {
    let all = rows.cleaned();
    let is_in_scope = |run: &StatsRun| {
        scope.since_ms.is_none_or(|since_ms| run.last_ms >= since_ms)
            && scope.week.as_ref().is_none_or(|week| run.week == *week)
    };
    let rows = all.filtered(is_in_scope);
    let gates = gate_statistics(&rows);
    let runs = || rows.runs.iter().filter(|run| !run.is_session);
    let ended = runs().filter(|run| run.has_ended()).count();
    let is_compared = ended >= LEAST_COMPARED;
    let spent = |is_wanted: fn(&StatsRun) -> bool| {
        runs()
            .filter(|run| is_wanted(run))
            .filter_map(|run| run.micro_usd)
            .fold(0, u64::saturating_add)
    };
    let mut page = StatsPage {
        v: 1,
        now_ms,
        ended,
        verified: runs().filter(|run| run.is_verified()).count(),
        accepted: runs().filter(|run| run.is_accepted).count(),
        waiting: runs().filter(|run| run.waits_after_end()).count(),
        open: runs().filter(|run| run.ended_ms.is_none()).count(),
        sessions: rows.runs.iter().filter(|run| run.is_session).count(),
        is_compared,
        runs: if is_compared { Vec::new() } else { summary_rows(&rows) },
        cost: week_table::verified_cost(runs()),
        spent_micro_usd: spent(|_| true),
        ended_micro_usd: spent(StatsRun::has_ended),
        unverified_micro_usd: spent(|run| run.has_ended() && !run.is_verified()),
        cost_known: runs().filter(|run| run.has_ended() && run.is_cost_known()).count(),
        cost_estimated: runs().filter(|run| run.has_ended() && run.is_cost_estimated()).count(),
        holds: hold_table::hold_table(&rows, |run| !run.is_session, MAX_TABLE_ROWS),
        session_holds: hold_table::hold_table(&rows, |run| run.is_session, MAX_TABLE_ROWS),
        flaky: gate_tables::flaky_table(&gates, MAX_TABLE_ROWS, &scope),
        slow: gate_tables::slow_table(&gates, MAX_TABLE_ROWS, &scope),
        judges: judge_table::judge_table(&rows, MAX_TABLE_ROWS),
        limits: week_table::limit_rows(&rows),
        weeks: week_table::week_rows(&rows, MAX_WEEKS),
        proposals: if is_compared {
            proposal_rules::propose_changes(&rows, &gates, projects)
        } else {
            proposal_rules::propose_learned(projects)
        },
        applied: applied_proposals::compare_applied(&all, applied),
        scope,
        ..StatsPage::default()
    };
    page.sentence = sentence(&page);
    page.detail = detail(&page);
    page
}

fn summary_rows(rows: &StatsRows) -> Vec<RunSummaryRow> {
    let mut runs: Vec<_> = rows.runs.iter().filter(|run| !run.is_session).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.end_ms()));
    let row = |run: &StatsRun| RunSummaryRow {
        run: run.id.clone(),
        state: run.state().to_string(),
        title: run.title.clone(),
        project: StatsProject::of(&run.project),
        ended_ms: run.ended_ms,
        stops: run.stops,
        held: run.held,
        micro_usd: run.micro_usd,
        cost_basis: run.cost_basis,
    };
    runs.into_iter().take(LEAST_COMPARED + MAX_TABLE_ROWS).map(row).collect()
}

fn sentence(page: &StatsPage) -> String {
    match (page.ended, page.cost) {
        (0, _) if page.open + page.sessions == 0 => {
            let is_part = page.scope.since_ms.is_some() || page.scope.week.is_some();
            if is_part { "No runs in this time" } else { "No runs yet" }.to_string()
        }
        (0, _) => "No run has ended yet".to_string(),
        // What was spent on the others bought the verified ones too.
        (_, Some(_)) if page.is_compared && !page.has_unknown_cost() => {
            let verified = u64::try_from(page.verified).unwrap_or(u64::MAX).max(1);
            let each = format_usd(page.ended_micro_usd / verified);
            format!("A verified run costs {each}, counting all runs")
        }
        (_, Some(CostRange { median, runs: 1, .. })) if page.is_compared => {
            format!("The one verified run whose cost is known cost {}", format_usd(median))
        }
        (_, Some(CostRange { median, runs, .. })) if page.is_compared => format!(
            "A verified run costs {}, the median of the {runs} whose cost is known",
            format_usd(median)
        ),
        (ended, _) => format!("{} ended, {} verified", count_noun(ended, "run"), page.verified),
    }
}

impl StatsPage {
    /// Whether an ended run cost more than is known, so that every sum is too low.
    pub fn has_unknown_cost(&self) -> bool {
        self.cost_known < self.ended
    }
}

/// `1 of the ended runs waits for you; 2 of the verified ones were accepted without proof`
fn standing_counts(page: &StatsPage) -> Option<String> {
    let waiting = match page.waiting {
        0 => None,
        1 => Some("1 of the ended runs waits for you".to_string()),
        count => Some(format!("{count} of the ended runs wait for you")),
    };
    let accepted = match page.accepted {
        0 => None,
        1 => Some("1 of the verified ones was accepted without proof".to_string()),
        count => Some(format!("{count} of the verified ones were accepted without proof")),
    };
    let counts: Vec<_> = waiting.into_iter().chain(accepted).collect();
    (!counts.is_empty()).then(|| counts.join("; "))
}

/// The sentence that explains the first one.
fn detail(page: &StatsPage) -> String {
    let mut parts = Vec::new();
    if page.is_compared {
        if let Some(change) = week_change(&page.weeks) {
            parts.push(change);
        }
        if let Some(cost) = page.cost {
            let ended = page.ended;
            let [spent, alone] = format_usd_alike([page.ended_micro_usd, cost.median]);
            let spent = if page.has_unknown_cost() {
                format!("more than {spent} (the cost of {} is known)", page.cost_known)
            } else {
                spent
            };
            parts.push(match page.verified {
                verified if page.has_unknown_cost() => {
                    format!("{ended} runs ended and cost {spent}; {verified} verified")
                }
                1 => format!("{ended} runs ended and cost {spent}; the verified one cost {alone}"),
                verified => format!(
                    "{ended} runs ended and cost {spent}; {verified} were verified, at a median of {alone}"
                ),
            });
            let estimated = page.cost_estimated;
            if estimated > 0 {
                let known = page.cost_known;
                let are = if estimated == 1 { "is" } else { "are" };
                parts.push(format!(
                    "{estimated} of the {known} known costs {are} estimated or assumed"
                ));
            }
        }
    } else if page.ended > 0 {
        parts.push(format!(
            "With fewer than {LEAST_COMPARED} ended runs, they are listed instead of compared"
        ));
        if page.cost_known > 0 {
            let spent = format_usd(page.ended_micro_usd);
            parts.push(if page.has_unknown_cost() {
                format!("Together they cost more than {spent}")
            } else {
                format!("Together they cost {spent}")
            });
        }
    }
    parts.extend(standing_counts(page));
    let names = match (page.holds.rows.first(), page.flaky.rows.first()) {
        (Some(hold), Some(flaky)) => {
            Some(format!("`{}` holds agents most; `{}` is flaky", hold.requirement, flaky.gate))
        }
        (Some(hold), None) => Some(format!("`{}` holds agents most", hold.requirement)),
        (None, Some(flaky)) => Some(format!("`{}` is flaky", flaky.gate)),
        (None, None) => None,
    };
    parts.extend(names);
    let sentences: Vec<_> = parts.iter().map(|part| format!("{part}.")).collect();
    sentences.join(" ")
}

/// `Median of 2026-W46: $6.20, down from $6.60`
fn week_change(weeks: &[WeekRow]) -> Option<String> {
    let mut costs = weeks.iter().filter_map(|week| Some((&week.week, week.cost?.median)));
    let ((week, now), (_, before)) = (costs.next()?, costs.next()?);
    let how = match now.cmp(&before) {
        std::cmp::Ordering::Less => "down from",
        std::cmp::Ordering::Equal => "the same as",
        std::cmp::Ordering::Greater => "up from",
    };
    let before = if now == before { "the week before".to_string() } else { format_usd(before) };
    Some(format!("Median of {week}: {}, {how} {before}", format_usd(now)))
}
