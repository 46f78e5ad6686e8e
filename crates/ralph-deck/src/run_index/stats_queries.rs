//! The rows that statistics are computed from.

use super::run_queries::read_u64;
use super::{RunIndex, RunIndexError};
use crate::page::stats::{StatsGate, StatsJudge, StatsRequirement, StatsRows, StatsRun};
use ralph_core::cost_reading::CostBasis;
use rusqlite::{Connection, Row};

const RUNS: &str = "SELECT id, project, title, origin = 'session', last_ms, ended_ms,
    strftime('%G-W%V', coalesce(ended_ms, last_ms) / 1000, 'unixepoch', 'localtime'), phase, status, iteration,
    max_iterations, ran_ms, max_time_ms, micro_usd, max_micro_usd, tokens, stops, held, cost_basis,
    question IS NOT NULL AND ended_ms IS NULL, status = 'verified' AND accepted_by IS NOT NULL, closed
    FROM run ORDER BY last_ms, id";
const REQUIREMENTS: &str =
    "SELECT run, name, stage, held_stops, stops_until_met, waived, disputed, dispute_ended IS 'upheld'
    FROM run_requirement";
const GATES: &str =
    "SELECT run, name, site, executed, cached, passed, failed, no_result, flaky, took_ms,
    saved_ms, longest_ms FROM run_gate";
const JUDGES: &str =
    "SELECT run, name, kind, verdicts, cached, met, unmet, impossible, no_verdict, misquoted,
    unconfirmed, tokens, micro_usd FROM run_judge";

impl RunIndex {
    /// All runs, and sessions without one, with their requirements, gates and judges.
    pub fn stats_rows(&self) -> Result<StatsRows, RunIndexError> {
        self.answer(|connection| {
            Ok(StatsRows {
                runs: read_rows(connection, RUNS, read_run)?,
                requirements: read_rows(connection, REQUIREMENTS, read_requirement)?,
                gates: read_rows(connection, GATES, read_gate)?,
                judges: read_rows(connection, JUDGES, read_judge)?,
            })
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
        phase: row.get(7)?,
        status: row.get(8)?,
        iteration: row.get(9)?,
        max_iterations: row.get(10)?,
        ran_ms: read_u64(row, 11)?,
        max_time_ms: optional(12)?,
        micro_usd: optional(13)?,
        max_micro_usd: optional(14)?,
        tokens: optional(15)?,
        stops: row.get(16)?,
        held: row.get(17)?,
        cost_basis: CostBasis::parse(&row.get::<_, String>(18)?).unwrap_or(CostBasis::Unknown),
        is_asking: row.get(19)?,
        is_accepted: row.get(20)?,
        is_closed: row.get(21)?,
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
        is_dispute_upheld: row.get(7)?,
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

fn read_judge(row: &Row<'_>) -> rusqlite::Result<StatsJudge> {
    Ok(StatsJudge {
        run: row.get(0)?,
        name: row.get(1)?,
        kind: row.get(2)?,
        verdicts: row.get(3)?,
        cached: row.get(4)?,
        met: row.get(5)?,
        unmet: row.get(6)?,
        impossible: row.get(7)?,
        no_verdict: row.get(8)?,
        misquoted: row.get(9)?,
        unconfirmed: row.get(10)?,
        tokens: read_u64(row, 11)?,
        micro_usd: row.get::<_, Option<i64>>(12)?.map(i64::cast_unsigned),
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample_journals::sample_entries;
    use super::*;
    use ralph_core::id::RunId;
    use ralph_home::paths::RalphHome;
    use ralph_sys::clock::Deadline;
    use ralph_sys::fs::{self, Durability};
    use std::time::Duration;

    /// The rows are the ones that the other queries return for each run.
    #[test]
    fn the_rows_are_those_of_each_run() {
        let directory = tempfile::tempdir().unwrap();
        let home = RalphHome::new(directory.path().join("ralph"));
        for seed in 1..20 {
            let id = format!("r{seed:03}");
            let entries = sample_entries(&id, seed, 60);
            let line = |entry| serde_json::to_string(entry).unwrap() + "\n";
            let path = home.run(&RunId::parse(&id).unwrap()).journal();
            fs::create_private_dir(path.parent().unwrap()).unwrap();
            let lines: String = entries.iter().map(line).collect();
            fs::append(&path, lines.as_bytes(), Durability::Cached).unwrap();
        }
        let mut index = RunIndex::open(&home).unwrap();
        index.refresh(&Deadline::after(Duration::from_mins(1))).unwrap();
        let rows = index.stats_rows().unwrap();
        assert_eq!(rows.runs.len(), 19);
        for run in &rows.runs {
            let id = RunId::parse(&run.id).unwrap();
            let known = index.run(&id).unwrap().unwrap();
            let counts = (run.stops, run.held, run.iteration);
            assert_eq!(counts, (known.stops, known.held, known.iteration));
            assert_eq!((&run.phase, &run.status), (&known.phase, &known.status));
            assert_eq!(run.ended_ms, known.ended_ms);
            assert_eq!((run.micro_usd, run.tokens), (known.micro_usd, known.tokens));
            let week_form = run.week.split_once("-W").is_some_and(|(_, week)| week.len() == 2);
            assert!(week_form, "{}", run.week);
            let own = rows.gates.iter().filter(|gate| gate.run == run.id);
            let took = own.map(|gate| gate.took_ms).sum::<u64>();
            let gates = index.gates_of(&id).unwrap();
            assert_eq!(took, gates.iter().map(|gate| gate.took_ms).sum::<u64>());
            let own = rows.requirements.iter().filter(|one| one.run == run.id);
            let held = own.map(|one| one.held_stops).sum::<u32>();
            let requirements = index.requirements_of(&id).unwrap();
            assert_eq!(held, requirements.iter().map(|one| one.held_stops).sum::<u32>());
        }
    }
}
