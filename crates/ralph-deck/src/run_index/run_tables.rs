//! The tables of the run index. The comments in them are the documentation that `ralph sql --schema` prints.

use crate::index_file::IndexLayout;

pub(super) const RUN_LAYOUT: IndexLayout = IndexLayout { format: 7, create_tables: CREATE_TABLES };

/// `journal` is internal: how far each journal was read, and what is needed to read on.
const CREATE_TABLES: &str = "
CREATE TABLE journal (
    run TEXT PRIMARY KEY,
    inode INTEGER NOT NULL,
    length INTEGER NOT NULL,
    modified_ns INTEGER NOT NULL,
    read_to INTEGER NOT NULL,
    tail TEXT NOT NULL,
    tally BLOB
) WITHOUT ROWID;
CREATE TABLE run (
    id TEXT PRIMARY KEY,      -- as `ralph status` shows it
    project TEXT NOT NULL,    -- the repository; of a run with its own work tree, the one it came from
    title TEXT NOT NULL,      -- the goal in one line
    host TEXT NOT NULL,       -- whose hooks call ralph: `claude`
    origin TEXT NOT NULL,     -- `started`, `adopted`, or `session`: a session without a run that gates held
    branch TEXT,              -- of a run with its own work tree
    started_ms INTEGER NOT NULL, -- milliseconds since 1970, as all columns `…_ms` that are times
    last_ms INTEGER NOT NULL, -- the last entry of the journal
    ended_ms INTEGER,         -- NULL while it has not ended
    phase TEXT NOT NULL,      -- `active`, `paused`, `parked`, `orphaned` or `ended`
    status TEXT NOT NULL,     -- the final status, or that of a parked run, or: `working`, `waiting`, `asks`,
                              -- `paused`, `orphaned`; of a session: `held`, `let_go`
    because TEXT NOT NULL,    -- why the last decision was made, or why it was parked
    iteration INTEGER NOT NULL,
    max_iterations INTEGER,   -- NULL is unlimited, as for the other limits
    ran_ms INTEGER NOT NULL,  -- active time without pauses, until the last entry
    max_time_ms INTEGER,
    micro_usd INTEGER,        -- millionths of a US dollar; NULL if unknown
    cost_basis TEXT NOT NULL, -- `reported`, `estimated`, `incomplete`, `assumed`, `partly_assumed` or `unknown`
    max_micro_usd INTEGER,
    tokens INTEGER,           -- NULL unless `ralph run` drives it
    sessions INTEGER NOT NULL, -- how many sessions `ralph run` started
    stops INTEGER NOT NULL,   -- decided stops
    held INTEGER NOT NULL,    -- of them, how many held the agent or handed over unfinished work
    policy_hash TEXT,         -- NULL without a policy
    driven INTEGER NOT NULL,  -- 1 if `ralph run` drives it
    met INTEGER NOT NULL,     -- requirements that were met at the last stop
    required INTEGER NOT NULL, -- of this many
    waivers INTEGER NOT NULL, -- waivers that were not revoked
    disputes INTEGER NOT NULL,
    questions INTEGER NOT NULL, -- questions to a person
    denied INTEGER NOT NULL,  -- denied tool calls
    accepted_by TEXT,         -- the person who accepted unproven work
    last_seq INTEGER NOT NULL, -- the number of the last entry
    question TEXT,            -- the open question
    asked_ms INTEGER,
    question_until_ms INTEGER, -- without an answer by then, the run is parked
    wait_until_ms INTEGER,    -- end of the wait
    wait_cause TEXT,          -- `rate limit`, `overload`, `network`, `server error` or `declared wait`
    lines INTEGER NOT NULL,   -- lines of the journal
    damaged INTEGER NOT NULL, -- of them, how many do not parse
    damaged_line INTEGER,     -- the first of those
    question_approval TEXT,   -- what a person has to approve; NULL for a question of the agent
    closed INTEGER NOT NULL   -- 1 if a person closed it after an end that waits for one
) WITHOUT ROWID;
CREATE INDEX run_by_end ON run (ended_ms, id);
CREATE TABLE run_requirement ( -- requirements that were open at least once
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    stage TEXT NOT NULL,
    held_stops INTEGER NOT NULL, -- stops that were held while it was open
    open_stops INTEGER NOT NULL, -- stops at which it was open
    first_open_ms INTEGER NOT NULL,
    met_ms INTEGER,           -- when it was met last; NULL while it is open
    stops_until_met INTEGER,  -- stops at which it was open before; NULL while it is open
    waived INTEGER NOT NULL,  -- 1 if a person ever waived it
    disputed INTEGER NOT NULL, -- 1 if the agent ever disputed it
    findings_max INTEGER NOT NULL,
    dispute_ended TEXT,       -- how the last dispute ended: `upheld`, by a waiver or a person who accepted the work,
                              -- `met`: it was met later, or `open`: the run ended with it; NULL while undecided
    dispute_ended_ms INTEGER,
    dispute_ended_by TEXT,    -- the person who upheld it
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE run_gate (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    site TEXT NOT NULL,       -- `tree`, `clean` or `base`: what was measured
    results INTEGER NOT NULL, -- = executed + cached = passed + failed + no_result
    executed INTEGER NOT NULL,
    cached INTEGER NOT NULL,  -- results that were known already
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    no_result INTEGER NOT NULL,
    flaky INTEGER NOT NULL,   -- results that differ from another one on the same content, without cached ones
    took_ms INTEGER NOT NULL, -- time of the executed ones
    saved_ms INTEGER NOT NULL, -- time that the cached ones did not cost
    longest_ms INTEGER NOT NULL,
    tests INTEGER,            -- tests of the last result that counted any
    PRIMARY KEY (run, name, site)
) WITHOUT ROWID;
CREATE TABLE run_judge (
    run TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,       -- `prompt`, `agent`, `adversarial`, `plan`, `goal` or `amended`
    verdicts INTEGER NOT NULL, -- = met + unmet + impossible + no_verdict, each stop that used one
    cached INTEGER NOT NULL,  -- of them, how many were known already and cost nothing
    met INTEGER NOT NULL,
    unmet INTEGER NOT NULL,
    impossible INTEGER NOT NULL,
    no_verdict INTEGER NOT NULL,
    misquoted INTEGER NOT NULL, -- dropped findings of the others: their quote is not in the file
    unconfirmed INTEGER NOT NULL, -- dropped findings of the others: no other reviewer confirmed them
    calls INTEGER NOT NULL,   -- calls, tokens, cost and time of the others
    tokens INTEGER NOT NULL,
    micro_usd INTEGER,        -- NULL if unknown
    took_ms INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE run_day (
    run TEXT NOT NULL,
    day TEXT NOT NULL,        -- `2026-11-15`, local time
    micro_usd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    stops INTEGER NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (run, day)
) WITHOUT ROWID;
";

/// The documented tables, without the internal ones.
pub(super) fn documented_tables() -> &'static str {
    let from = CREATE_TABLES.find("CREATE TABLE run (").unwrap_or(0);
    &CREATE_TABLES[from..]
}
