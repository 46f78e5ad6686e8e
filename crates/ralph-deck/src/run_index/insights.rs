//! Aggregates over all runs.

use super::run_queries::read_u64;
use rusqlite::{Connection, Row, params};

/// Which runs an aggregate covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InsightScope {
    /// The path of a repository; everywhere if absent.
    pub project: Option<String>,
    /// Only runs with an entry since then.
    pub since_ms: Option<u64>,
}

/// A requirement over all runs in which it was open at least once.
#[derive(Clone, Debug, PartialEq)]
pub struct RequirementInsight {
    pub name: String,
    pub stage: String,
    pub runs: u64,
    pub held_stops: u64,
    /// Runs in which it was met in the end.
    pub met_runs: u64,
    /// The mean number of stops at which it was open, over those runs.
    pub mean_stops_until_met: Option<f64>,
    pub waived_runs: u64,
    pub disputed_runs: u64,
    pub findings_max: u64,
}

/// A gate over all runs, at all sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateInsight {
    pub name: String,
    pub runs: u64,
    pub results: u64,
    pub executed: u64,
    pub cached: u64,
    pub passed: u64,
    pub failed: u64,
    pub no_result: u64,
    pub flaky: u64,
    pub took_ms: u64,
    pub saved_ms: u64,
    pub longest_ms: u64,
}

/// The runs that ended in an ISO week, and what was spent in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeekInsight {
    /// `2026-W46`
    pub week: String,
    pub ended: u64,
    pub verified: u64,
    /// Runs that ended `green` or `claimed`: done, but not proven.
    pub unproven: u64,
    pub micro_usd: u64,
    pub tokens: u64,
    pub stops: u64,
    pub held: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayInsight {
    /// `2026-11-15`
    pub day: String,
    pub runs: u64,
    pub micro_usd: u64,
    pub tokens: u64,
    pub stops: u64,
    pub held: u64,
}

/// Runs in scope, as a condition on `run`.
const IN_SCOPE: &str = "(?1 IS NULL OR run.project = ?1) AND run.last_ms >= ?2";

pub(super) fn requirement_insights(
    connection: &Connection,
    scope: &InsightScope,
) -> rusqlite::Result<Vec<RequirementInsight>> {
    let sql = format!(
        "SELECT name, max(stage), count(*), sum(held_stops), count(met_ms), avg(stops_until_met), sum(waived),
             sum(disputed), max(findings_max)
         FROM run_requirement JOIN run ON run.id = run_requirement.run WHERE {IN_SCOPE}
         GROUP BY name ORDER BY 4 DESC, name"
    );
    query_scope(connection, &sql, scope, |row| {
        Ok(RequirementInsight {
            name: row.get(0)?,
            stage: row.get(1)?,
            runs: read_u64(row, 2)?,
            held_stops: read_u64(row, 3)?,
            met_runs: read_u64(row, 4)?,
            mean_stops_until_met: row.get(5)?,
            waived_runs: read_u64(row, 6)?,
            disputed_runs: read_u64(row, 7)?,
            findings_max: read_u64(row, 8)?,
        })
    })
}

pub(super) fn gate_insights(
    connection: &Connection,
    scope: &InsightScope,
) -> rusqlite::Result<Vec<GateInsight>> {
    let sql = format!(
        "SELECT name, count(DISTINCT run_gate.run), sum(results), sum(executed), sum(cached), sum(passed),
             sum(failed), sum(no_result), sum(flaky), sum(took_ms), sum(saved_ms), max(longest_ms)
         FROM run_gate JOIN run ON run.id = run_gate.run WHERE {IN_SCOPE}
         GROUP BY name ORDER BY 10 DESC, name"
    );
    query_scope(connection, &sql, scope, |row| {
        Ok(GateInsight {
            name: row.get(0)?,
            runs: read_u64(row, 1)?,
            results: read_u64(row, 2)?,
            executed: read_u64(row, 3)?,
            cached: read_u64(row, 4)?,
            passed: read_u64(row, 5)?,
            failed: read_u64(row, 6)?,
            no_result: read_u64(row, 7)?,
            flaky: read_u64(row, 8)?,
            took_ms: read_u64(row, 9)?,
            saved_ms: read_u64(row, 10)?,
            longest_ms: read_u64(row, 11)?,
        })
    })
}

pub(super) fn week_insights(
    connection: &Connection,
    scope: &InsightScope,
) -> rusqlite::Result<Vec<WeekInsight>> {
    let sql = format!(
        "SELECT week, sum(ended), sum(verified), sum(unproven), sum(micro_usd), sum(tokens), sum(stops), sum(held)
         FROM (
             SELECT strftime('%G-W%V', ended_ms / 1000, 'unixepoch', 'localtime') AS week, 1 AS ended,
                 status = 'verified' AS verified, status IN ('green', 'claimed') AS unproven,
                 0 AS micro_usd, 0 AS tokens, 0 AS stops, 0 AS held
             FROM run WHERE ended_ms IS NOT NULL AND origin <> 'session' AND {IN_SCOPE}
             UNION ALL
             SELECT strftime('%G-W%V', day), 0, 0, 0, run_day.micro_usd, run_day.tokens, run_day.stops, run_day.held
             FROM run_day JOIN run ON run.id = run_day.run WHERE {IN_SCOPE}
         ) GROUP BY week ORDER BY week DESC"
    );
    query_scope(connection, &sql, scope, |row| {
        Ok(WeekInsight {
            week: row.get::<_, Option<String>>(0)?.unwrap_or_default(),
            ended: read_u64(row, 1)?,
            verified: read_u64(row, 2)?,
            unproven: read_u64(row, 3)?,
            micro_usd: read_u64(row, 4)?,
            tokens: read_u64(row, 5)?,
            stops: read_u64(row, 6)?,
            held: read_u64(row, 7)?,
        })
    })
}

pub(super) fn day_insights(
    connection: &Connection,
    scope: &InsightScope,
) -> rusqlite::Result<Vec<DayInsight>> {
    let sql = format!(
        "SELECT day, count(*), sum(run_day.micro_usd), sum(run_day.tokens), sum(run_day.stops), sum(run_day.held)
         FROM run_day JOIN run ON run.id = run_day.run WHERE {IN_SCOPE} GROUP BY day ORDER BY day DESC"
    );
    query_scope(connection, &sql, scope, |row| {
        Ok(DayInsight {
            day: row.get(0)?,
            runs: read_u64(row, 1)?,
            micro_usd: read_u64(row, 2)?,
            tokens: read_u64(row, 3)?,
            stops: read_u64(row, 4)?,
            held: read_u64(row, 5)?,
        })
    })
}

fn query_scope<T>(
    connection: &Connection,
    sql: &str,
    InsightScope { project, since_ms }: &InsightScope,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![project, since_ms.unwrap_or(0).cast_signed()], read)?;
    rows.collect()
}
