//! What holds agents: requirements by the stops that they held.

use super::stats_rows::{StatsProject, StatsRequirement, StatsRows, StatsRun, permille, quartile};
use crate::json_units;
use serde::Serialize;
use std::collections::BTreeMap;

/// Requirements by the stops that they held. A stop can be held by more than one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoldTable {
    pub stops: u64,
    pub held_stops: u64,
    /// Those that held most stops first.
    pub rows: Vec<HoldRow>,
    /// How many more there are.
    pub left_out: usize,
    pub next: Option<String>,
}

/// A requirement of a project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HoldRow {
    pub requirement: String,
    pub stage: String,
    pub project: StatsProject,
    pub held_stops: u64,
    /// Its share of all held stops, in thousandths.
    #[serde(rename = "held_share", serialize_with = "json_units::share")]
    pub held_permille: u32,
    /// Runs in which it was open at least once.
    pub runs: u64,
    /// Of them, how many met it.
    pub met_runs: u64,
    /// Of those, how many met it at the very next stop.
    pub met_at_once: u64,
    /// The median number of stops at which it was open before it was met.
    pub stops_until_met: Option<u64>,
    pub waived: u64,
    pub disputed: u64,
    /// Runs that it held and in which a person then waived it, or upheld the agent's dispute.
    pub false_holds: u64,
    /// The latest run that it held.
    pub last_run: String,
}

/// The requirements of the runs for which `is_wanted`, at most `most`.
pub(super) fn hold_table(
    rows: &StatsRows,
    is_wanted: impl Fn(&StatsRun) -> bool,
    most: usize,
) -> HoldTable {
    let wanted = || rows.runs.iter().filter(|run| is_wanted(run));
    let mut table = HoldTable {
        stops: wanted().map(|run| u64::from(run.stops)).fold(0, u64::saturating_add),
        held_stops: wanted().map(|run| u64::from(run.held)).fold(0, u64::saturating_add),
        ..HoldTable::default()
    };
    let runs = rows.by_id();
    let mut groups: BTreeMap<(&str, &str), Vec<(&StatsRun, &StatsRequirement)>> = BTreeMap::new();
    for requirement in &rows.requirements {
        let Some(run) = runs.get(requirement.run.as_str()).filter(|run| is_wanted(run)) else {
            continue;
        };
        groups.entry((&run.project, &requirement.name)).or_default().push((*run, requirement));
    }
    table.rows = groups.values().filter_map(|group| hold_row(group, table.held_stops)).collect();
    table.rows.sort_by_key(|row| std::cmp::Reverse(row.held_stops));
    table.left_out = table.rows.len().saturating_sub(most);
    table.rows.truncate(most);
    let first = table.rows.first();
    table.next = first.map(|row| {
        format!("`ralph why {}` shows how `{}` held an agent", row.last_run, row.requirement)
    });
    table
}

/// `None` for a requirement that was open but held no stop, such as an advisory one.
fn hold_row(group: &[(&StatsRun, &StatsRequirement)], held_stops: u64) -> Option<HoldRow> {
    let (run, first) = group.first()?;
    let held: Vec<_> = group.iter().filter(|(_, one)| one.held_stops > 0).collect();
    let last = held.iter().max_by_key(|(run, _)| (run.last_ms, &run.id))?;
    let count = |is: &dyn Fn(&StatsRun, &StatsRequirement) -> bool| {
        u64::try_from(group.iter().filter(|(run, one)| is(run, one)).count()).unwrap_or(u64::MAX)
    };
    let own: u64 =
        held.iter().map(|(_, one)| u64::from(one.held_stops)).fold(0, u64::saturating_add);
    let mut until_met: Vec<u64> =
        group.iter().filter_map(|(_, one)| one.stops_until_met.map(u64::from)).collect();
    until_met.sort_unstable();
    Some(HoldRow {
        requirement: first.name.clone(),
        stage: first.stage.clone(),
        project: StatsProject::of(&run.project),
        held_stops: own,
        held_permille: permille(own, held_stops),
        runs: count(&|_, _| true),
        met_runs: u64::try_from(until_met.len()).unwrap_or(u64::MAX),
        met_at_once: count(&|_, one| one.stops_until_met == Some(1)),
        stops_until_met: quartile(&until_met, 2),
        waived: count(&|_, one| one.waived),
        disputed: count(&|_, one| one.disputed),
        false_holds: count(&|_, one| is_false_hold(one)),
        last_run: last.0.id.clone(),
    })
}

fn is_false_hold(one: &StatsRequirement) -> bool {
    one.held_stops > 0 && (one.waived || one.is_dispute_upheld)
}
