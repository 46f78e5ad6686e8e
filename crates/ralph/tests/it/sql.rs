//! `ralph sql`: queries over the journals of real runs, which can read and nothing else.

use crate::sandbox::{SESSION, Sandbox, run_command, write_file};
use insta::assert_snapshot;
use std::fs;

const PROMISE_ARGS: [&str; 4] = ["--goal-file", "-", "--completion-promise", "DONE"];
const INDEX_FILE: &str = "index/runs.sqlite";

/// A sandbox with a run that was held twice and cancelled, and one that is open.
fn sandbox_with_runs() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let start = |session: &str, goal: &[u8]| {
        let mut start = sandbox.command();
        start.args(["start", "--json", "--session", session]).args(PROMISE_ARGS);
        let started = run_command(&mut start, goal);
        assert_eq!(started.code, Some(0), "{started}");
        let started: serde_json::Value = serde_json::from_str(&started.stdout).unwrap();
        started["run"].as_str().unwrap().to_string()
    };
    let run = start(SESSION, b"make the parser handle nested quotes");
    sandbox.send_stop(SESSION, "");
    sandbox.send_stop(SESSION, r#","stop_hook_active":true"#);
    assert_eq!(sandbox.ralph(["cancel", &run]).code, Some(0));
    start("other", b"=cmd|' /C calc'!A0");
    (sandbox, run)
}

fn sql(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.normalize(&sandbox.ralph([&["sql"], args].concat()).to_string())
}

#[test]
fn a_query_covers_every_run() {
    let (sandbox, run) = sandbox_with_runs();
    let query = "SELECT title, status, phase, iteration, held, met, required, lines, damaged FROM run ORDER BY started_ms";
    assert_snapshot!(sql(&sandbox, &[query]), @r"
    exit 0
    --- stdout
    title                                 status     phase   iteration  held  met  required  lines  damaged
    make the parser handle nested quotes  cancelled  ended           2     2    0         1      4        0
    =cmd|' /C calc'!A0                    working    active          0     0    0         0      1        0
    ");
    assert_snapshot!(sql(&sandbox, &["--csv", "SELECT title, -1, 0.5, NULL, 'a \"b\"' AS text FROM run ORDER BY title"]), @r#"
    exit 0
    --- stdout
    title,'-1,0.5,NULL,text
    '=cmd|' /C calc'!A0,-1,0.5,,"a ""b"""
    make the parser handle nested quotes,-1,0.5,,"a ""b"""
    "#);
    assert_snapshot!(sql(&sandbox, &["--json", "SELECT status, count(*) AS runs, 1 AS runs FROM run GROUP BY status"]), @r#"
    exit 0
    --- stdout
    {"v":1,"row":{"status":"cancelled","runs":1,"runs_2":1}}
    {"v":1,"row":{"status":"working","runs":1,"runs_2":1}}
    "#);
    let stops = format!(
        "SELECT seq, rule, outcome, because, requirements, unmet FROM stop WHERE run = '{run}'"
    );
    assert_snapshot!(sql(&sandbox, &[&stops]), @r"
    exit 0
    --- stdout
    seq  rule   outcome  because    requirements  unmet
      1  block  blocked  1 not met             1      1
      2  block  blocked  1 not met             1      1
    ");
    assert_snapshot!(sql(&sandbox, &["SELECT name, stage, standing FROM open_requirement"]), @r"
    exit 0
    --- stdout
    name     stage        standing
    promise  correctness  unmet
    promise  correctness  unmet
    ");
    assert_snapshot!(sql(&sandbox, &["SELECT kind, text FROM event ORDER BY at_ms, seq"]), @r"
    exit 0
    --- stdout
    kind       text
    started    started make the parser handle nested quotes (25 iterations · 8 h · $20 · stuck at the 3rd stop without progress)
    decided    held 1 not met (rule `block`)
    decided    held 1 not met (rule `block`)
    cancelled  cancelled by a person
    started    started =cmd|' /C calc'!A0 (25 iterations · 8 h · $20 · stuck at the 3rd stop without progress)
    ");
    assert_snapshot!(sql(&sandbox, &["SELECT * FROM gate_result"]), @r"
    exit 0
    --- stdout
    run  seq  at_ms  name  site  outcome  took_ms  cached  steadiness  findings  tests_run  tests_failed  tests_skipped  key
    no rows
    ");
    let open = sandbox
        .ralph_with_input(["sql", "-"], b"SELECT count(*) AS open FROM run WHERE ended_ms IS NULL");
    assert_snapshot!(open, @r"
    exit 0
    --- stdout
    open
       1
    ");
}

/// The index follows the journals, and anything in its place is replaced.
#[test]
fn the_index_is_only_a_cache() {
    let (sandbox, run) = sandbox_with_runs();
    let count = ["SELECT sum(lines) AS lines FROM run"];
    let before = sql(&sandbox, &count);
    let index = sandbox.ralph_home(INDEX_FILE);
    fs::write(&index, "not a database").unwrap();
    assert_eq!(sql(&sandbox, &count), before);
    fs::remove_file(&index).unwrap();
    assert_eq!(sql(&sandbox, &count), before);
    write_file(&sandbox.ralph_home("runs/zzzz/journal.jsonl"), "\u{1b}[31m\n{}\n");
    assert_snapshot!(sql(&sandbox, &["SELECT id, status, lines, damaged, damaged_line FROM run WHERE damaged > 0"]), @r"
    exit 0
    --- stdout
    id    status   lines  damaged  damaged_line
    [run]  working      2        2             1
    ");
    fs::remove_dir_all(sandbox.ralph_home(&format!("runs/{run}"))).unwrap();
    assert_snapshot!(sql(&sandbox, &["SELECT count(*) FROM run"]), @r"
    exit 0
    --- stdout
    count(*)
           2
    ");
}

/// Nothing but reading is possible: not the index, not another file, not for long.
#[test]
fn everything_but_reading_is_refused() {
    let (sandbox, _) = sandbox_with_runs();
    let stolen = sandbox.root().join("stolen.db");
    let attach = format!("ATTACH '{}' AS other", stolen.display());
    let vacuum = format!("VACUUM INTO '{}'", stolen.display());
    for query in [
        "INSERT INTO run (id) VALUES ('x')",
        "UPDATE run SET status = 'verified'",
        "DELETE FROM run",
        "DROP TABLE run",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "PRAGMA writable_schema = ON",
        "PRAGMA query_only = OFF",
        "BEGIN",
        "SELECT * FROM journal",
        &attach,
        &vacuum,
    ] {
        let refused = sandbox.ralph(["sql", query]);
        assert_eq!(refused.code, Some(1), "{query}: {refused}");
        let first = refused.stderr.lines().next();
        assert_eq!(first, Some("error: the query is not allowed: only `SELECT` is"), "{query}");
    }
    assert!(!stolen.exists());
    for query in [
        "SELECT load_extension('x.so')",
        "SELECT 1; DELETE FROM run",
        "SELEC 1",
        "",
        "SELECT zeroblob(1000000000)",
        // The time is not checked within a function, so its arguments are limited.
        "SELECT instr(replace(hex(zeroblob(2000000)), '0', 'a'), replace(hex(zeroblob(1000000)), '0', 'a') || 'b')",
        "SELECT hex(zeroblob(100000)) LIKE '%' || hex(zeroblob(20000)) || 'b'",
        "SELECT nothing FROM run",
    ] {
        let wrong = sandbox.ralph(["sql", query]);
        assert_eq!((wrong.code, &*wrong.stdout), (Some(1), ""), "{query}: {wrong}");
    }
    let forever =
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
    assert_snapshot!(sql(&sandbox, &["--timeout", "1s", forever]), @r"
    exit 1
    --- stderr
    error: the query took longer than 1 s
      hint: name a run in `stop`, `gate_result`, `open_requirement` and `event`, or use `--timeout 5m`
    ");
    // What a query builds is cleaned as well.
    assert_snapshot!(sql(&sandbox, &["SELECT 'a' || char(27) || '[31mb' || char(10) || 'c' || char(8238) AS text"]), @r"
    exit 0
    --- stdout
    text
    ab c
    ");
}
