use super::sample_journals::{SampleRandom, sample_entries};
use super::*;
use crate::page::{BoardRow, open_question};
use crate::wording;
use ralph_core::limits::LimitUsage;
use ralph_core::record::JournalEntry;
use ralph_core::run::RunState;
use ralph_sys::fs::{self, Durability};
use ralph_tally::{DayCache, DisputeOutcomes, RunTally};
use rusqlite::types::ValueRef;
use serde_json::json;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

fn home(directory: &TempDir) -> RalphHome {
    RalphHome::new(directory.path().join("ralph"))
}

fn line(entry: &JournalEntry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).unwrap();
    line.push(b'\n');
    line
}

fn put_journal(home: &RalphHome, run: &str, bytes: &[u8]) {
    let path = home.run(&RunId::parse(run).unwrap()).journal();
    fs::create_private_dir(path.parent().unwrap()).unwrap();
    fs::append(&path, bytes, Durability::Cached).unwrap();
}

fn refreshed(home: &RalphHome) -> RunIndex {
    let mut index = RunIndex::open(home).unwrap();
    assert_eq!(index.refresh(&soon()).unwrap(), IndexCoverage::Whole);
    index
}

/// Every row of the documented tables.
fn dump(index: &RunIndex) -> Vec<String> {
    let mut rows = Vec::new();
    for table in ["run", "run_requirement", "run_gate", "run_day"] {
        let mut statement =
            index.connection.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2, 3")).unwrap();
        let columns = statement.column_count();
        let mut found = statement.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let cell = |at: usize| match row.get_ref(at).unwrap() {
                ValueRef::Null => "-".to_string(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other @ (ValueRef::Real(_) | ValueRef::Blob(_)) => format!("{other:?}"),
            };
            let cells: Vec<_> = (0..columns).map(cell).collect();
            rows.push(format!("{table}: {}", cells.join(" | ")));
        }
    }
    rows
}

/// A file with a view or trigger that is not ours is rebuilt before it is read: it could take forever.
#[test]
fn a_prepared_index_is_rebuilt() {
    let endless = "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n";
    for prepare in [
        endless.to_string(),
        format!(
            "{endless}; ALTER TABLE run RENAME TO old; CREATE VIEW run AS SELECT old.* FROM old, endless"
        ),
        "CREATE TRIGGER slow AFTER INSERT ON run BEGIN DELETE FROM run; END".to_string(),
        "CREATE TABLE more (x)".to_string(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let home = home(&directory);
        put_journal(
            &home,
            "aaaa",
            &sample_entries("aaaa", 1, 30).iter().flat_map(line).collect::<Vec<_>>(),
        );
        let expected = dump(&refreshed(&home));
        let connection = Connection::open(home.run_index()).unwrap();
        connection.execute_batch(&prepare).unwrap();
        drop(connection);
        let index = refreshed(&home);
        assert_eq!((dump(&index), index.storage()), (expected, IndexStorage::OnDisk), "{prepare}");
    }
}

/// A query of ralph's own ends, whatever the tables have become.
#[test]
fn a_query_without_an_end_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let index = refreshed(&home(&directory));
    *index.deadline.lock().unwrap() = Some(Deadline::after(Duration::ZERO));
    let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n";
    let ended = index.connection.query_row(endless, [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(ended.sqlite_error_code(), Some(rusqlite::ErrorCode::OperationInterrupted));
    assert!(
        index.stats_rows().unwrap().runs.is_empty(),
        "the next query has a deadline of its own"
    );
}

#[test]
fn a_link_in_place_of_the_directory_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    let elsewhere = directory.path().join("elsewhere");
    fs::create_private_dir(&elsewhere).unwrap();
    let path = home.run_index();
    let parent = path.parent().unwrap();
    fs::create_private_dir(parent.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, parent).unwrap();
    assert_eq!(refreshed(&home).storage(), IndexStorage::InMemory);
    assert!(
        std::fs::read_dir(&elsewhere)
            .unwrap()
            .all(|entry| { entry.unwrap().file_name().to_string_lossy().ends_with("lock") })
    );
}

/// The fold of the index agrees with the core's, whatever the order of the entries.
#[test]
fn tallies_agree_with_the_state_of_the_run() {
    for seed in 0..400 {
        let entries = sample_entries("k7f2", seed, 60);
        let (mut tally, mut days) = (RunTally::default(), DayCache::default());
        for (at, entry) in entries.iter().enumerate() {
            tally.add_line(line(entry).trim_ascii_end(), &mut days);
            let (run, state) = RunState::replay(&entries[..=at]).unwrap();
            let standing = match wording::standing(&state, state.phase) {
                "working" | "asks" | "waiting" => "open",
                standing => standing,
            };
            let status = match tally.status() {
                "working" | "asks" | "waiting" => "open",
                _ if tally.phase_name() == "parked" => "parked",
                status => status,
            };
            let usage = LimitUsage::recorded(&state, state.clock_ms);
            let spent = (usage.micro_usd, usage.tokens);
            if !tally.has_ended() {
                let open = open_question(&entries[..=at]);
                let asked = tally.asked.as_ref();
                assert_eq!(
                    asked.map(|asked| asked.until_ms),
                    open.map(|open| open.until_ms),
                    "seed {seed}, entry {at}: {:?}",
                    entry.change
                );
            }
            assert_eq!(status, standing, "seed {seed}, entry {at}: {:?}", entry.change);
            assert_eq!((tally.spend.micro_usd(), tally.spend.tokens()), spent, "seed {seed}, {at}");
            assert_eq!(tally.spend.cost_basis(), usage.cost_basis, "seed {seed}, {at}");
            assert_eq!(tally.ran_ms, state.ran_ms, "seed {seed}, entry {at}: {:?}", entry.change);
            assert_eq!(tally.last_ms, state.last_seen_ms, "seed {seed}, entry {at}");
            assert_eq!(tally.iteration, state.iteration, "seed {seed}, entry {at}");
            assert_eq!(tally.limits.as_ref(), Some(state.limits(&run)), "seed {seed}, entry {at}");
            assert_eq!(tally.waivers.len(), state.waivers.len(), "seed {seed}, entry {at}");
            assert_eq!(tally.accepted_by.is_some(), state.accepted.is_some(), "seed {seed}, {at}");
        }
        assert_eq!(tally.damaged, 0);
        assert_eq!(tally.disputed, DisputeOutcomes::from_journal(&entries), "seed {seed}");
    }
}

/// Reading journals in pieces, in any order and torn anywhere, gives the same rows as reading them at once.
#[test]
fn the_end_of_a_dispute_is_a_column() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    let mut entries = sample_entries("k7f2", 3, 1);
    let waiver =
        json!({"requirement": "lint", "why": "the tool is down", "by": "ada", "until_ms": 9});
    let changes = [
        json!({"disputed": {"requirement": "lint", "why": "the tool is down"}}),
        json!({"disputed": {"requirement": "tests", "why": "one wants the year 2025"}}),
        json!({ "waived": waiver }),
        json!({"disputed": {"requirement": "fmt", "why": "the goal is another"}}),
        json!({"waived": {"requirement": "docs", "why": "later", "by": "ada", "until_ms": 9}}),
    ];
    let first = entries[0].clone();
    entries.extend((1..).zip(changes).map(|(seq, change)| JournalEntry {
        seq,
        at_ms: 100 + seq,
        change: serde_json::from_value(change).unwrap(),
        ..first.clone()
    }));
    put_journal(&home, "k7f2", &entries.iter().flat_map(line).collect::<Vec<_>>());
    let index = refreshed(&home);
    let sql =
        "SELECT concat_ws(' | ', name, disputed, dispute_ended, dispute_ended_ms, dispute_ended_by)
        FROM run_requirement";
    let mut statement = index.connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let rows: Vec<String> = rows.map(Result::unwrap).collect();
    assert_eq!(rows, ["docs | 0", "fmt | 1", "lint | 1 | upheld | 103 | ada", "tests | 1"]);
}

#[test]
fn an_incremental_refresh_equals_a_rebuild() {
    for seed in 0..12 {
        let directory = tempfile::tempdir().unwrap();
        let home = home(&directory);
        let mut random = SampleRandom(seed + 1);
        let runs = ["aaaa", "bbbb", "session-00000000000000aa"];
        let mut rest: Vec<_> = runs
            .iter()
            .map(|run| {
                sample_entries(run, random.below(1 << 40), 40).iter().flat_map(line).collect()
            })
            .collect::<Vec<Vec<u8>>>();
        let mut index = refreshed(&home);
        while rest.iter().any(|rest| !rest.is_empty()) {
            for (run, rest) in runs.iter().zip(&mut rest) {
                let most = usize::try_from(random.below(9000)).unwrap().min(rest.len());
                put_journal(&home, run, &rest.drain(..most).collect::<Vec<_>>());
            }
            assert_eq!(index.refresh(&soon()).unwrap(), IndexCoverage::Whole);
            let rows = dump(&index);
            fs::remove_file(&home.run_index()).unwrap();
            assert_eq!(rows, dump(&refreshed(&home)), "seed {seed}");
            // The open index goes on with the new file.
            if random.below(2) == 0 {
                index = RunIndex::open(&home).unwrap();
            }
        }
        assert!(index.count(&RunFilter::default()).is_ok());
    }
}

fn fixture(version: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/state");
    fs::read(&path.join(version).join("journal.jsonl"), 1 << 20).unwrap()
}

#[test]
fn journals_of_every_version_are_indexed() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    put_journal(&home, "v1v1", &fixture("v1"));
    put_journal(&home, "v2v2", &fixture("v2"));
    insta::assert_snapshot!(dump(&refreshed(&home)).join("\n"), @"
    run: v1v1 | /home/user/project | Make the parser handle nested quotes. | claude | started | - | 1790000000000 | 1790000780000 | 1790000780000 | ended | needs_review | all 4 requirements are met after 2 iterations and 8 min, but ralph's own files were changed on the way | 2 | 25 | 480000 | 28800000 | - | unknown | - | - | 0 | 5 | 2 | - | 0 | 4 | 4 | 0 | 0 | 0 | 0 | - | 10 | - | - | - | - | - | 11 | 0 | - | - | 0
    run: v2v2 | /home/user/project | make it work | claude | started | - | 1794915243836 | 1794915259908 | - | paused | paused | 1 not met | 2 | 25 | 16072 | 28800000 | 1600 | estimated | 20000000 | - | 0 | 2 | 2 | - | 0 | 0 | 1 | 0 | 0 | 0 | 0 | - | 3 | - | - | - | - | - | 4 | 0 | - | - | 0
    run_requirement: v1v1 | audit | security | 1 | 1 | 1790000060000 | 1790000720000 | 1 | 0 | 0 | 0 | - | - | -
    run_requirement: v1v1 | tests | correctness | 2 | 2 | 1790000060000 | 1790000780000 | 2 | 0 | 0 | 2 | - | - | -
    run_requirement: v2v2 | goal | correctness | 2 | 2 | 1794915244149 | - | - | 0 | 0 | 0 | - | - | -
    run_day: v1v1 | 2026-09-21 | 0 | 0 | 5 | 2
    run_day: v2v2 | 2026-11-17 | 1600 | 0 | 2 | 2
    ");
}

/// Nothing in a journal or in place of the index ends with an error, and what is left is indexed.
#[test]
fn damage_is_counted_or_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    let entries = sample_entries("aaaa", 7, 12);
    let lines: Vec<u8> = entries.iter().flat_map(line).collect();
    put_journal(&home, "aaaa", &lines);
    put_journal(
        &home,
        "dddd",
        b"{\"v\":2,\n\xff\xfe\n\n[]\n{\"v\":9,\"seq\":1,\"at_ms\":1,\"change\":{\"later\":{}}}\n",
    );
    // Also where the index does not need the text.
    put_journal(
        &home,
        "dddd",
        b"{\"v\":2,\"seq\":1,\"at_ms\":1,\"prev\":\"\xff\",\"change\":\"paused\"}\n",
    );
    put_journal(&home, "dddd", &lines);
    put_journal(&home, "empt", b"");
    let whole = refreshed(&home);
    let damaged = whole.run(&RunId::parse("dddd").unwrap()).unwrap().unwrap();
    assert_eq!((damaged.lines, damaged.damaged, damaged.damaged_line), (18, 5, Some(1)));
    let rows = dump(&whole);
    drop(whole);

    // Another file in the place of the index, an index of another version, one with a missing table.
    fs::replace(&home.run_index(), b"not a database at all, but long enough", Durability::Cached)
        .unwrap();
    assert_eq!(dump(&refreshed(&home)), rows);
    for sql in [
        "PRAGMA user_version = 99",
        "DROP TABLE run_gate",
        "UPDATE journal SET tally = 'x', length = 1",
    ] {
        rusqlite::Connection::open(home.run_index()).unwrap().execute_batch(sql).unwrap();
        let index = refreshed(&home);
        assert_eq!((dump(&index), index.storage()), (rows.clone(), IndexStorage::OnDisk), "{sql}");
    }

    // A journal that was replaced, by a shorter one and in place.
    let path = home.run(&RunId::parse("aaaa").unwrap()).journal();
    fs::replace(&path, &lines, Durability::Cached).unwrap();
    assert_eq!(dump(&refreshed(&home)), rows);
    let other: Vec<u8> = sample_entries("aaaa", 8, 30).iter().flat_map(line).collect();
    fs::overwrite(&path, &other).unwrap();
    let replaced = dump(&refreshed(&home));
    fs::remove_file(&home.run_index()).unwrap();
    assert_eq!(dump(&refreshed(&home)), replaced);

    // A run that was removed.
    fs::remove_file(&path).unwrap();
    let index = refreshed(&home);
    assert_eq!(index.run(&RunId::parse("aaaa").unwrap()).unwrap(), None);
    assert!(dump(&index).iter().all(|row| !row.contains("aaaa")));
}

/// An index that cannot be written is kept in memory, also over several refreshes.
#[test]
fn a_home_that_cannot_be_written_is_indexed_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    let entries = sample_entries("aaaa", 3, 10);
    put_journal(&home, "aaaa", &entries[..5].iter().flat_map(line).collect::<Vec<_>>());
    // A file in the place of the directory.
    fs::replace(&home.index(), b"", Durability::Cached).unwrap();
    let mut index = refreshed(&home);
    assert_eq!(index.storage(), IndexStorage::InMemory);
    put_journal(&home, "aaaa", &entries[5..].iter().flat_map(line).collect::<Vec<_>>());
    index.refresh(&soon()).unwrap();
    assert_eq!(index.run(&RunId::parse("aaaa").unwrap()).unwrap().unwrap().lines, 10);
}

/// Two that refresh at once do not disturb each other.
#[test]
fn two_indexes_of_one_home_can_be_refreshed_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    let work = |run: &str| {
        let mut index = RunIndex::open(&home).unwrap();
        for entry in sample_entries(run, 5, 40) {
            put_journal(&home, run, &line(&entry));
            index.refresh(&soon()).unwrap();
        }
        index.storage()
    };
    let storages = std::thread::scope(|scope| {
        let both = ["aaaa", "bbbb"].map(|run| scope.spawn(move || work(run)));
        both.map(|one| one.join().unwrap())
    });
    assert_eq!(storages, [IndexStorage::OnDisk; 2]);
    let rows = dump(&refreshed(&home));
    fs::remove_file(&home.run_index()).unwrap();
    assert_eq!(rows, dump(&refreshed(&home)));
    assert!(rows.iter().any(|row| row.contains("bbbb")));
}

/// A deadline that has passed leaves the index incomplete; the next refresh completes it.
#[test]
fn a_late_refresh_is_continued() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    put_journal(&home, "aaaa", &fixture("v2"));
    let mut index = RunIndex::open(&home).unwrap();
    assert_eq!(index.refresh(&Deadline::after(Duration::ZERO)).unwrap(), IndexCoverage::Partial);
    assert_eq!(dump(&index), [""; 0]);
    assert_eq!(index.refresh(&soon()).unwrap(), IndexCoverage::Whole);
    assert_eq!(dump(&index).len(), 3);
}

/// Filters select what they say, pages do not overlap, and a mistake names what would be right.
#[test]
fn filters_and_pages() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    for (number, run) in ["aaaa", "bbbb", "cccc", "dddd", "eeee", "ffff"].iter().enumerate() {
        let lines: Vec<u8> = sample_entries(run, number as u64, 60).iter().flat_map(line).collect();
        put_journal(&home, run, &lines);
    }
    put_journal(&home, "v1v1", &fixture("v1"));
    put_journal(&home, "v2v2", &fixture("v2"));
    let index = refreshed(&home);
    let all = "SELECT count(*) FROM run WHERE ended_ms IS NOT NULL";
    let ended: u64 =
        index.connection.query_row(all, [], |row| run_queries::read_u64(row, 0)).unwrap();
    let filter = |text: &str| RunFilter::parse(text, 1_795_000_000_000).unwrap();
    let found = |text: &str| {
        let parsed = filter(text);
        let mut names = Vec::new();
        let mut before = None;
        loop {
            let page = index.ended_page(&parsed, before.as_ref(), 2).unwrap();
            names.extend(page.runs.iter().map(|run| run.id.to_string()));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(names.len() as u64, index.count(&parsed).unwrap(), "{text}");
        names.sort();
        // A screen that applies the filter to its own rows selects the same ones.
        if !(text.is_empty() || text.contains("gate:") || text.contains("is:session")) {
            let page = index.ended_page(&filter("-zzzz"), None, 100).unwrap();
            let rows = page.runs.iter().filter_map(BoardRow::from_index);
            let mut same: Vec<_> =
                rows.filter(|row| parsed.matches(row)).map(|row| row.run).collect();
            same.sort();
            assert_eq!(same, names, "{text}");
        }
        names
    };
    assert_eq!(found("").len() as u64, ended);
    assert_eq!(index.waiting_and_working().unwrap().len() as u64, 8 - ended);
    assert_eq!(found("PARSER"), ["v1v1"]);
    // With a filter, runs in progress are found too.
    assert_eq!(found("-parser").len(), 7);
    assert_eq!(found("is:needs-review parser"), ["v1v1"]);
    assert_eq!(found("is:ended -is:needs_review parser"), [""; 0]);
    assert_eq!(found("is:paused project:user"), ["v2v2"]);
    assert_eq!(found("gate:audit"), ["v1v1"]);
    assert_eq!(found("\"nested quotes\""), ["v1v1"]);
    assert_eq!(found("is:paused >0.001usd v2v2"), ["v2v2"]);
    assert_eq!(found("is:paused >1usd v2v2"), [""; 0]);
    assert_eq!(found("is:session"), [""; 0]);
    assert_eq!(found("parser since:1d"), [""; 0]);
    assert_eq!(found("100%_\\"), [""; 0]);
    let errors = ["is:odd", "stauts:x", "since:soon", ">much", "gate:"]
        .map(|text| RunFilter::parse(text, 0).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"), @r"
    `is:odd` is not a filter; after `is:` comes one of: working, waiting, asks, active, paused, parked, orphaned, ended, verified, green, claimed, exhausted, stuck, needs_human, needs_review, gate_broken, rate_limited, cancelled, overridden, crashed, session
    `stauts:x` is not a filter; there are `is:`, `gate:`, `project:`, `since:`, `>5usd` and `<5usd`; quote a word that contains a colon
    `since:soon` is not a filter; write `since:7d` or `since:2026-11-15`
    `>much` is not a filter; write `>5usd`
    `gate:` is not a filter; the part after the colon is missing
    ");
}

/// Few instructions can take long, so that the time is checked after a few of them.
#[test]
fn a_query_with_large_values_ends_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let home = home(&directory);
    put_journal(&home, "r001", b"");
    let mut session = refreshed(&home).into_sql().unwrap();
    let mut answer =
        |sql: &str, timeout| match session.query(sql, timeout, |_, _| ControlFlow::Continue(())) {
            Ok(columns) => columns.join(" "),
            Err(error) => error.to_string(),
        };
    let rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 300) \
                SELECT sum(length(randomblob(x))) AS total FROM c";
    assert_eq!(answer(rows, Duration::from_mins(1)), "total");
    assert_eq!(answer(rows, Duration::ZERO), "the query took longer than 0 s");
    assert_eq!(
        answer("SELECT length(randomblob(5000000))", Duration::from_mins(1)),
        "string or blob too big"
    );
}
