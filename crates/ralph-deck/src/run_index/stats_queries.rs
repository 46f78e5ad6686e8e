//! The rows that statistics are computed from.

use super::run_queries::read_u64;
use super::{RunIndex, RunIndexError};
use crate::page::insights::{StatsGate, StatsRequirement, StatsRows, StatsRun};
use rusqlite::{Connection, Row};

const RUNS: &str = "SELECT id, project, title, origin = 'session', last_ms, ended_ms,
    strftime('%G-W%V', coalesce(ended_ms, last_ms) / 1000, 'unixepoch', 'localtime'), status, iteration,
    max_iterations, ran_ms, max_time_ms, micro_usd, max_micro_usd, tokens, stops, held, accepted_by IS NOT NULL
    FROM run ORDER BY last_ms, id";
const REQUIREMENTS: &str =
    "SELECT run, name, stage, held_stops, stops_until_met, waived, disputed FROM run_requirement";
const GATES: &str =
    "SELECT run, name, site, executed, cached, passed, failed, no_result, flaky, took_ms,
    saved_ms, longest_ms FROM run_gate";

impl RunIndex {
    /// All runs, and sessions without one, with their requirements and gates.
    pub fn stats_rows(&self) -> Result<StatsRows, RunIndexError> {
        let connection = &self.connection;
        Ok(StatsRows {
            runs: read_rows(connection, RUNS, read_run)?,
            requirements: read_rows(connection, REQUIREMENTS, read_requirement)?,
            gates: read_rows(connection, GATES, read_gate)?,
        })
    }
}

fn read_rows<T>(
    connection: &Connection,
    sql: &str,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], read)?;
    rows.collect()
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<StatsRun> {
    let optional = |column: usize| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
    };
    Ok(StatsRun {
        id: row.get(0)?,
        project: row.get(1)?,
        title: row.get(2)?,
        is_session: row.get(3)?,
        last_ms: read_u64(row, 4)?,
        ended_ms: optional(5)?,
        // A time that is no date, in a damaged journal.
        week: row.get::<_, Option<String>>(6)?.unwrap_or_default(),
        status: row.get(7)?,
        iteration: row.get(8)?,
        max_iterations: row.get(9)?,
        ran_ms: read_u64(row, 10)?,
        max_time_ms: optional(11)?,
        micro_usd: optional(12)?,
        max_micro_usd: optional(13)?,
        tokens: optional(14)?,
        stops: row.get(15)?,
        held: row.get(16)?,
        is_accepted: row.get(17)?,
    })
}

fn read_requirement(row: &Row<'_>) -> rusqlite::Result<StatsRequirement> {
    Ok(StatsRequirement {
        run: row.get(0)?,
        name: row.get(1)?,
        stage: row.get(2)?,
        held_stops: row.get(3)?,
        stops_until_met: row.get(4)?,
        waived: row.get(5)?,
        disputed: row.get(6)?,
    })
}

fn read_gate(row: &Row<'_>) -> rusqlite::Result<StatsGate> {
    Ok(StatsGate {
        run: row.get(0)?,
        name: row.get(1)?,
        site: row.get(2)?,
        executed: row.get(3)?,
        cached: row.get(4)?,
        passed: row.get(5)?,
        failed: row.get(6)?,
        no_result: row.get(7)?,
        flaky: row.get(8)?,
        took_ms: read_u64(row, 9)?,
        saved_ms: read_u64(row, 10)?,
        longest_ms: read_u64(row, 11)?,
    })
}
