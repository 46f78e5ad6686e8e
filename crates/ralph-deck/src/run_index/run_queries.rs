//! Queries about runs.

use super::run_filter::{FilterSql, RunFilter};
use ralph_core::id::RunId;
use ralph_core::record::CostBasis;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};
use std::fmt;

/// A run as it is indexed. Texts are one cleaned line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRun {
    pub id: RunId,
    pub project: String,
    pub title: String,
    pub host: String,
    /// `started`, `adopted` or `session`.
    pub origin: String,
    pub branch: Option<String>,
    pub started_ms: u64,
    pub last_ms: u64,
    pub ended_ms: Option<u64>,
    /// `active`, `paused`, `parked`, `orphaned` or `ended`.
    pub phase: String,
    /// The final status, that of a parked run, or `working`, `waiting`, `asks`, `paused` or `orphaned`.
    pub status: String,
    pub because: String,
    pub iteration: u32,
    pub max_iterations: Option<u32>,
    pub ran_ms: u64,
    pub max_time_ms: Option<u64>,
    pub micro_usd: Option<u64>,
    pub cost_basis: CostBasis,
    pub max_micro_usd: Option<u64>,
    pub tokens: Option<u64>,
    pub sessions: u32,
    pub stops: u32,
    pub held: u32,
    pub policy_hash: Option<String>,
    pub driven: bool,
    pub met: u32,
    pub required: u32,
    pub waivers: u32,
    pub disputes: u32,
    pub questions: u32,
    pub denied: u32,
    pub accepted_by: Option<String>,
    /// Whether a person closed it after an end that waits for one.
    pub closed: bool,
    pub last_seq: u64,
    pub question: Option<String>,
    pub asked_ms: Option<u64>,
    pub question_until_ms: Option<u64>,
    pub question_approval: Option<String>,
    pub wait_until_ms: Option<u64>,
    pub wait_cause: Option<String>,
    pub lines: u64,
    pub damaged: u64,
    pub damaged_line: Option<u64>,
}

/// A requirement of a run that was open at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRequirement {
    pub name: String,
    pub stage: String,
    pub held_stops: u32,
    pub open_stops: u32,
    pub first_open_ms: u64,
    pub met_ms: Option<u64>,
    pub waived: bool,
    pub disputed: bool,
    pub findings_max: u32,
}

/// The results of a gate of a run at one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedGate {
    pub name: String,
    pub site: String,
    pub results: u32,
    pub executed: u32,
    pub cached: u32,
    pub passed: u32,
    pub failed: u32,
    pub no_result: u32,
    pub flaky: u32,
    pub took_ms: u64,
    pub saved_ms: u64,
    pub longest_ms: u64,
    pub tests: Option<u32>,
}

/// The last run of a page. The next page begins after it, whatever was added meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageKey {
    at_ms: u64,
    run: String,
}

impl PageKey {
    /// Parses the text that [`Display`](fmt::Display) writes, as in an address.
    pub fn parse(text: &str) -> Option<Self> {
        let (at_ms, run) = text.split_once(',')?;
        let run = RunId::parse(run)?;
        Some(Self { at_ms: at_ms.parse().ok()?, run: run.to_string() })
    }
}

impl fmt::Display for PageKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{},{}", self.at_ms, self.run)
    }
}

/// A page of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexedPage {
    pub runs: Vec<IndexedRun>,
    /// `None` on the last page.
    pub next: Option<PageKey>,
}

const RUN_COLUMNS: &str = "id, project, title, host, origin, branch, started_ms, last_ms, ended_ms, phase,
    status, because, iteration, max_iterations, ran_ms, max_time_ms, micro_usd, max_micro_usd, tokens, sessions,
    stops, held, policy_hash, driven, met, required, waivers, disputes, questions, denied,
    accepted_by, last_seq, question, asked_ms, question_until_ms, wait_until_ms, wait_cause, lines, damaged,
    damaged_line, cost_basis, question_approval, closed";
/// When a run took its place in the history.
const PAGE_TIME: &str = "coalesce(ended_ms, last_ms)";

pub(super) fn open_runs(connection: &Connection) -> rusqlite::Result<Vec<IndexedRun>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {RUN_COLUMNS} FROM run WHERE ended_ms IS NULL AND origin <> 'session'
         ORDER BY CASE WHEN status = 'asks' THEN 0 WHEN phase = 'parked' THEN 1
             WHEN phase IN ('paused', 'orphaned') THEN 3 ELSE 2 END, last_ms DESC, id"
    ))?;
    let runs = statement.query_map([], read_run)?;
    runs.collect()
}

pub(super) fn history_page(
    connection: &Connection,
    filter: &RunFilter,
    before: Option<&PageKey>,
    limit: usize,
) -> rusqlite::Result<IndexedPage> {
    let FilterSql { condition, mut values } = filter.sql();
    let mut sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE {condition}");
    if let Some(PageKey { at_ms, run }) = before {
        sql.push_str(&format!(" AND ({PAGE_TIME}, id) < (?, ?)"));
        values.extend([Value::from(at_ms.cast_signed()), Value::from(run.clone())]);
    }
    // One more than asked for shows whether there is another page.
    sql.push_str(&format!(" ORDER BY {PAGE_TIME} DESC, id DESC LIMIT ?"));
    values.push(Value::from(i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX)));
    let mut statement = connection.prepare_cached(&sql)?;
    let runs = statement.query_map(params_from_iter(values), read_run)?;
    let mut runs = runs.collect::<rusqlite::Result<Vec<_>>>()?;
    let has_more = runs.len() > limit;
    runs.truncate(limit);
    let key = |run: &IndexedRun| PageKey {
        at_ms: run.ended_ms.unwrap_or(run.last_ms),
        run: run.id.to_string(),
    };
    let next = runs.last().filter(|_| has_more).map(key);
    Ok(IndexedPage { runs, next })
}

pub(super) fn count_runs(connection: &Connection, filter: &RunFilter) -> rusqlite::Result<u64> {
    let FilterSql { condition, values } = filter.sql();
    let sql = format!("SELECT count(*) FROM run WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row(params_from_iter(values), |row| read_u64(row, 0))
}

pub(super) fn list_projects(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT project FROM run")?;
    let projects = statement.query_map([], |row| row.get(0))?;
    projects.collect()
}

pub(super) fn spent_on_day(
    connection: &Connection,
    day: &str,
    projects: &[String],
) -> rusqlite::Result<u64> {
    let marks = vec!["?"; projects.len()].join(", ");
    let sql = format!(
        "SELECT coalesce(sum(run_day.micro_usd), 0) FROM run_day JOIN run ON run.id = run_day.run
         WHERE day = ? AND project IN ({marks})"
    );
    let values = std::iter::once(day).chain(projects.iter().map(String::as_str));
    connection.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| read_u64(row, 0))
}

pub(super) fn find_run(
    connection: &Connection,
    run: &RunId,
) -> rusqlite::Result<Option<IndexedRun>> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([run.as_str()], read_run).optional()
}

pub(super) fn run_requirements(
    connection: &Connection,
    run: &RunId,
) -> rusqlite::Result<Vec<IndexedRequirement>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, stage, held_stops, open_stops, first_open_ms, met_ms, waived, disputed, findings_max
         FROM run_requirement WHERE run = ?1 ORDER BY held_stops DESC, first_open_ms, name",
    )?;
    let rows = statement.query_map([run.as_str()], |row| {
        Ok(IndexedRequirement {
            name: row.get(0)?,
            stage: row.get(1)?,
            held_stops: row.get(2)?,
            open_stops: row.get(3)?,
            first_open_ms: read_u64(row, 4)?,
            met_ms: read_optional(row, 5)?,
            waived: row.get(6)?,
            disputed: row.get(7)?,
            findings_max: row.get(8)?,
        })
    })?;
    rows.collect()
}

pub(super) fn run_gates(
    connection: &Connection,
    run: &RunId,
) -> rusqlite::Result<Vec<IndexedGate>> {
    let mut statement = connection.prepare_cached(
        "SELECT name, site, results, executed, cached, passed, failed, no_result, flaky, took_ms, saved_ms,
             longest_ms, tests
         FROM run_gate WHERE run = ?1 ORDER BY took_ms DESC, name, site",
    )?;
    let rows = statement.query_map([run.as_str()], |row| {
        Ok(IndexedGate {
            name: row.get(0)?,
            site: row.get(1)?,
            results: row.get(2)?,
            executed: row.get(3)?,
            cached: row.get(4)?,
            passed: row.get(5)?,
            failed: row.get(6)?,
            no_result: row.get(7)?,
            flaky: row.get(8)?,
            took_ms: read_u64(row, 9)?,
            saved_ms: read_u64(row, 10)?,
            longest_ms: read_u64(row, 11)?,
            tests: row.get(12)?,
        })
    })?;
    rows.collect()
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<IndexedRun> {
    let id: String = row.get(0)?;
    Ok(IndexedRun {
        id: RunId::parse(&id).ok_or(rusqlite::Error::InvalidQuery)?,
        project: row.get(1)?,
        title: row.get(2)?,
        host: row.get(3)?,
        origin: row.get(4)?,
        branch: row.get(5)?,
        started_ms: read_u64(row, 6)?,
        last_ms: read_u64(row, 7)?,
        ended_ms: read_optional(row, 8)?,
        phase: row.get(9)?,
        status: row.get(10)?,
        because: row.get(11)?,
        iteration: row.get(12)?,
        max_iterations: row.get(13)?,
        ran_ms: read_u64(row, 14)?,
        max_time_ms: read_optional(row, 15)?,
        micro_usd: read_optional(row, 16)?,
        max_micro_usd: read_optional(row, 17)?,
        tokens: read_optional(row, 18)?,
        sessions: row.get(19)?,
        stops: row.get(20)?,
        held: row.get(21)?,
        policy_hash: row.get(22)?,
        driven: row.get(23)?,
        met: row.get(24)?,
        required: row.get(25)?,
        waivers: row.get(26)?,
        disputes: row.get(27)?,
        questions: row.get(28)?,
        denied: row.get(29)?,
        accepted_by: row.get(30)?,
        last_seq: read_u64(row, 31)?,
        question: row.get(32)?,
        asked_ms: read_optional(row, 33)?,
        question_until_ms: read_optional(row, 34)?,
        wait_until_ms: read_optional(row, 35)?,
        wait_cause: row.get(36)?,
        lines: read_u64(row, 37)?,
        damaged: read_u64(row, 38)?,
        damaged_line: read_optional(row, 39)?,
        // A name of another version.
        cost_basis: CostBasis::parse(&row.get::<_, String>(40)?).unwrap_or(CostBasis::Unknown),
        question_approval: row.get(41)?,
        closed: row.get(42)?,
    })
}

pub(super) fn read_u64(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

pub(super) fn read_optional(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::cast_unsigned))
}
