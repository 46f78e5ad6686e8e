//! Journals of many runs, in the shapes that real runs have: what a runner meters, stops with gates and requirements,
//! denied calls, hand-overs and waits.

use crate::disk;
use anyhow::{Context, Result, ensure};
use ralph_core::digest64::Digest64;
use ralph_core::drive::{
    CostSource, DriveSettings, MeterBasis, MeterReading, RunnerEvent, RunnerSession, SessionOrigin,
};
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{
    DecisionRule, FORMAT_VERSION, GateRecord, JournalEntry, MeasuredSite, ReportLine,
    ReportedStatus, RunChange, RunRecord, StopOutcome, StopRecord, StopReport, TranscriptReading,
};
use ralph_core::run::RunState;
use ralph_core::status::RunStatus;
use ralph_home::journal::hash_bytes;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, RunFiles, RunTransaction, TransactionStep};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::Durability;
use serde_json::json;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

pub(super) const LONG_RUN: &str = "long";
/// Four of ten lines are stops.
pub(super) const LONG_RUN_LINES: u64 = 25_000;
/// The link of lines whose chain is not checked.
const PREVIOUS: &str = "9513dafdf19efd0da02c7a68cf337a08";
const LINE_MS: u64 = 40_000;
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
const HOUR_MS: u64 = 3_600_000;
/// How many different journals there are; the rest are copies at other times.
const TEMPLATES: u64 = 60;
const GATES: [&str; 5] = ["build", "clippy", "tests", "fmt", "docs"];
const PROJECTS: [&str; 7] = ["shop", "billing", "parser", "search", "mail", "site", "tools"];
const GOALS: [&str; 6] = [
    "make the parser handle nested quotes",
    "add retries to the payment client",
    "port the upload page to the new router",
    "remove the flaky sleep from the queue tests",
    "speed up the search index",
    "fix the time zone of invoices",
];

/// A journal between its first and its last line.
struct JournalTemplate {
    lines: Vec<LineTemplate>,
    /// How many iterations it charges.
    iteration: u32,
}

/// A line without the time of its entry.
struct LineTemplate {
    before: Vec<u8>,
    at_ms: u64,
    after: Vec<u8>,
}

/// Writes the journals of `runs` runs with `lines` lines each below `home`. Returns their total length.
pub(super) fn write_journals(home: &Path, runs: u64, lines: u64, now_ms: u64) -> Result<u64> {
    let templates = (0..TEMPLATES).map(|seed| template(seed, lines)).collect::<Result<Vec<_>>>()?;
    let mut length = 0;
    for number in 0..runs {
        let seed = number % TEMPLATES;
        let template = templates.get(usize::try_from(seed)?).context("no template")?;
        // The latest run began an hour ago, the earliest some months.
        let start_ms = now_ms - HOUR_MS - (runs - number) * HOUR_MS;
        let record = sample_record(number, start_ms)?;
        // Only of an open run is more than the end of the journal read.
        length += if is_open(seed) {
            write_chained_run(home, &record, seed, lines, None)?
        } else {
            write_ended_run(home, &record, seed, lines, template)?
        };
    }
    Ok(length)
}

/// Writes a run that ended, with its state. Of its lines, only the last one is linked to the state. Returns the length of
/// the journal.
fn write_ended_run(
    home: &Path,
    record: &RunRecord,
    seed: u64,
    lines: u64,
    template: &JournalTemplate,
) -> Result<u64> {
    let start_ms = record.started_ms;
    let started = RunChange::Started(Box::new(record.clone()));
    let mut bytes = line(0, start_ms, 0, started)?;
    for line in &template.lines {
        bytes.extend(&line.before);
        write!(bytes, "{}", start_ms + line.at_ms)?;
        bytes.extend(&line.after);
    }
    let (seq, mut iteration) = (lines - 1, template.iteration);
    let change = change(seed, seq, lines, &mut iteration)?;
    let mut last = entry(seq, start_ms + seq * LINE_MS, iteration, change, PREVIOUS.to_owned());
    let mut state = RunState { seq, iteration, ..RunState::new(record) };
    state.apply(&last);
    last.after = hash_bytes(&serde_json::to_vec(&state)?);
    let last = encode(&last)?;
    let last_start = bytes.len();
    bytes.extend(&last);
    let run = serde_json::to_vec(record)?;
    let state = json!({
        "v": FORMAT_VERSION, "head": hash_bytes(&last), "last_start": last_start,
        "journal_length": bytes.len(), "seal": hash_bytes(&run), "state": state,
    });
    let paths = RalphHome::new(home.to_owned()).run(&record.id);
    disk::write_with_parents(&paths.journal(), &bytes)?;
    disk::write_file(&paths.run_record(), &run)?;
    disk::write_file(&paths.state(), &serde_json::to_vec(&state)?)?;
    disk::write_file(&paths.count(), format!("{iteration}\n").as_bytes())?;
    Ok(bytes.len() as u64)
}

/// Writes a run of 10,000 stops.
pub(super) fn write_long_run(home: &Path, now_ms: u64) -> Result<()> {
    let start_ms = now_ms - LONG_RUN_LINES * LINE_MS;
    let mut record = RunRecord::new(run_id(LONG_RUN)?, "/home/kim/shop".to_owned(), start_ms);
    "port the whole shop".clone_into(&mut record.title);
    record.drive = Some(Box::new(DriveSettings::DEFAULT));
    write_chained_run(
        home,
        &record,
        0,
        LONG_RUN_LINES,
        Some(StopOutcome::Ended(RunStatus::Green)),
    )?;
    Ok(())
}

/// Writes a run of which every line continues the chain, with its state, as ralph leaves it. Returns the length of the
/// journal.
fn write_chained_run(
    home: &Path,
    record: &RunRecord,
    seed: u64,
    lines: u64,
    end: Option<StopOutcome>,
) -> Result<u64> {
    let home = RalphHome::new(home.to_owned());
    let files = RunFiles { goal: record.title.as_bytes(), lists: &[] };
    let deadline = Deadline::after(WRITE_TIMEOUT);
    ensure!(store::create_run(&home, record, &files, &deadline)?, "`{}` exists", record.id);
    let path = home.run(&record.id).journal();
    let mut prev = hash_bytes(disk::read_text(&path)?.as_bytes());
    let (mut iteration, mut bytes) = (0, Vec::new());
    // The last line is written by the store, which brings the state up to date.
    let last = lines - 1;
    for seq in 1..last {
        let change = change(seed, seq, lines, &mut iteration)?;
        let at_ms = record.started_ms + seq * LINE_MS;
        let line = encode(&entry(seq, at_ms, iteration, change, prev))?;
        prev = hash_bytes(&line);
        bytes.extend(line);
    }
    disk::append(&path, &bytes)?;
    let change = match end {
        Some(outcome) => decided(seed, last, outcome, DecisionRule::Proof),
        None => change(seed, last, lines, &mut iteration)?,
    };
    let transaction =
        RunTransaction { home: &home, run: &record.id, deadline, by: None, loaded: None };
    store::transact(&transaction, |_| TransactionStep::Write {
        change,
        durability: Durability::Synced,
        answer: (),
    })?;
    disk::file_length(&path)
}

fn pick<'a>(from: &[&'a str], number: u64) -> &'a str {
    from.iter().cycle().nth(usize::try_from(number % 97).unwrap_or(0)).copied().unwrap_or("")
}

fn sample_record(number: u64, start_ms: u64) -> Result<RunRecord> {
    let project = format!("/home/kim/{}", pick(&PROJECTS, number));
    let mut record = RunRecord::new(run_id(&format!("r{number:05}"))?, project, start_ms);
    record.title = format!("{} ({number})", pick(&GOALS, number / 7));
    record.drive = Some(Box::new(DriveSettings::DEFAULT));
    Ok(record)
}

/// One run in sixty is still open, far more than people leave open.
fn is_open(seed: u64) -> bool {
    seed == 0
}

fn run_id(id: &str) -> Result<RunId> {
    RunId::parse(id).context("not a run id")
}

fn line(seq: u64, at_ms: u64, iteration: u32, change: RunChange) -> Result<Vec<u8>> {
    encode(&entry(seq, at_ms, iteration, change, PREVIOUS.to_owned()))
}

fn entry(seq: u64, at_ms: u64, iteration: u32, change: RunChange, prev: String) -> JournalEntry {
    let after = "0bd6678c825b130b".repeat(2);
    JournalEntry { v: FORMAT_VERSION, seq, at_ms, prev, iteration, after, change, by: None }
}

fn encode(entry: &JournalEntry) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(entry)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The lines between the first and the last one. Times count from the start of the run.
fn template(seed: u64, lines: u64) -> Result<JournalTemplate> {
    const TIME: &[u8] = b"\"at_ms\":";
    let mut all = Vec::new();
    let mut iteration = 0;
    for seq in 1..lines - 1 {
        let at_ms = seq * LINE_MS;
        let change = change(seed, seq, lines, &mut iteration)?;
        let bytes = line(seq, at_ms, iteration, change)?;
        let at = bytes.windows(TIME.len()).position(|part| part == TIME).context("no time")?;
        let (before, rest) = bytes.split_at(at + TIME.len());
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let after = rest.get(digits..).context("no time")?.to_vec();
        all.push(LineTemplate { before: before.to_vec(), at_ms, after });
    }
    Ok(JournalTemplate { lines: all, iteration })
}

fn change(seed: u64, seq: u64, lines: u64, iteration: &mut u32) -> Result<RunChange> {
    let session = SessionId::parse(&format!("5999882c-e786-462c-84d4-{:012}", seq / 60))
        .context("not a session id")?;
    if seq + 1 == lines && !is_open(seed) {
        let status = *RunStatus::ALL.get(usize::try_from(seed % 4)?).context("no status")?;
        let outcome = StopOutcome::Ended(status);
        return Ok(decided(seed, seq, outcome, DecisionRule::Verified));
    }
    let runner = |event| RunChange::Drove(Box::new(event));
    Ok(match seq % 10 {
        _ if seq % 60 == 1 => runner(RunnerEvent::Session(RunnerSession {
            id: session,
            how: SessionOrigin::Fresh,
            model: Some("opus".to_owned()),
            argv: ["claude", "--print", "--output-format", "stream-json", "--verbose"]
                .map(str::to_owned)
                .to_vec(),
            env: ["PATH", "HOME", "LANG", "TERM"].map(str::to_owned).to_vec(),
            mark: Some("c0a9072f98a7a708".to_owned()),
        })),
        0 | 3 | 5 | 8 => {
            *iteration += 1;
            let reason = reason_text(*iteration, seed);
            decided(seed, seq, StopOutcome::Blocked { reason }, DecisionRule::Block)
        }
        1 | 4 | 6 => runner(RunnerEvent::Metered(MeterReading {
            session,
            source: CostSource::Agent,
            micro_usd: (seq % 60) * 21_000,
            tokens: (seq % 60) * 9_000,
            turns: u32::try_from(seq % 60)?,
            meter: MeterBasis::Told,
        })),
        2 => RunChange::Denied {
            tool: "Bash".to_owned(),
            what: "changes git history".to_owned(),
            call: "git commit --amend --no-edit --no-verify".to_owned(),
        },
        7 => RunChange::Anchored,
        _ => RunChange::Recalled { query: "nested quotes in the lexer".to_owned(), found: 3 },
    })
}

fn reason_text(iteration: u32, seed: u64) -> String {
    format!(
        "ralph: iteration {iteration} of 25 — 2 of 6 requirements are not met (run r{seed:05})\n\n\
         ┌ 0308f346 the goal, in the person's words\n│ {}\n└ 0308f346\n\n\
         ✗ tests (correctness): 2 of 140 tests failed\n    tests/quotes.rs:41: nested_quotes_are_kept: \
         assertion `left == right` failed\n    left: \"a \\\"b\\\"\"\n   right: \"a b\"\n\
         ✗ clippy (quality): 1 finding\n    src/lexer.rs:88: this `match` could be a `let else`\n\n\
         Next: fix the first failing test, then run `cargo test quotes`. Then stop again",
        pick(&GOALS, seed)
    )
}

fn decided(seed: u64, seq: u64, outcome: StopOutcome, rule: DecisionRule) -> RunChange {
    let mut stop = StopRecord::new(rule, outcome, "2 of 6 requirements are not met".to_owned());
    let open = [pick(&GATES, seed + seq / 40), pick(&GATES, seed + seq / 40 + 2)];
    let line = |name: &str| ReportLine {
        pending: None,
        name: name.to_owned(),
        stage: "correctness".to_owned(),
        judge: None,
        standing: ReportedStatus::Unmet,
        was: None,
        note: "2 of 140 tests failed".to_owned(),
        first: Some("tests/quotes.rs:41: nested_quotes_are_kept".to_owned()),
        listed: Vec::new(),
        findings: 2,
        signature: Digest64(seed * 1000 + seq),
    };
    let met = GATES.iter().filter(|gate| !open.contains(gate)).map(|gate| (*gate).to_owned());
    stop.report = Some(StopReport {
        total: 6,
        unmet: 2,
        lines: open.map(line).to_vec(),
        met: met.collect(),
        ..StopReport::default()
    });
    stop.mark = Some(Digest64(seq));
    stop.observed = Some(TranscriptReading {
        inode: 10_071_772,
        offset: seq * 6021,
        context_tokens: Some(seq * 700),
        context_window: Some(200_000),
        ..TranscriptReading::default()
    });
    let gate = |(at, name): (usize, &&str)| GateRecord {
        name: (*name).to_owned(),
        site: MeasuredSite::Tree,
        outcome: if open.contains(name) { "failed" } else { "passed" }.to_owned(),
        took_ms: 700 + 130 * at as u64,
        cached: (seq + at as u64).is_multiple_of(3),
        steadiness: if (seed + seq).is_multiple_of(41) {
            ResultStability::Flaky
        } else {
            ResultStability::Once
        },
        findings: u32::from(open.contains(name)) * 2,
        tests: (*name == "tests").then_some(TestCounts { run: 140, failed: 2, skipped: 1 }),
        coverage: None,
        changed_coverage: None,
        key: format!(
            "{:016x}",
            (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (seq << 8) ^ at as u64
        ),
        log: None,
    };
    stop.gates = GATES.iter().enumerate().map(gate).collect();
    stop.took_ms = 1900;
    RunChange::Decided(Box::new(stop))
}
