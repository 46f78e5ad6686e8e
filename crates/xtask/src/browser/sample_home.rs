//! Homes of ralph with recorded runs, for the pages in a browser.

use super::detailed_runs::{SampleWording, write_driven_run};
use super::sample_journal::SampleJournal;
use super::sample_queue::{EndedQueueRuns, write_queue};
use anyhow::{Context, Result, ensure};
use ralph_core::digest64::Digest64;
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{
    CostReading, DecisionRule, GateRecord, MeasuredSite, ReportLine, ReportedStatus, RunChange,
    RunRecord, StopOutcome, StopRecord, StopReport,
};
use ralph_core::status::RunStatus;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, RunFiles, RunTransaction, TransactionStep};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::Durability;
use ralph_sys::fs::file_slot::FileSlot;
use std::path::Path;
use std::time::Duration;

/// What pages must show as text.
pub(super) const HOSTILE: &str =
    "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script> \"'& \u{202e}";
const REQUIREMENTS: [&str; 5] = ["build", "tests", "clippy", "fmt", "feature 1"];
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
const OWNER: &str = "5999882c-e786-462c-84d4-07d1c65b5e76";
const STOP_MINUTES: u64 = 11;

/// A run on a sample board.
struct SampleRun {
    id: &'static str,
    title: &'static str,
    project: &'static str,
    /// How many requirements are open at each stop.
    open: &'static [usize],
    end: SampleEnd,
}

enum SampleEnd {
    Working,
    Asks(&'static str),
    Ended(RunStatus, &'static str),
}

const BOARD: [SampleRun; 8] = [
    SampleRun {
        id: "k7f2",
        title: "Upgrade to axum 0.8",
        project: "/srv/shop-api",
        open: &[5, 4, 3, 1, 1],
        end: SampleEnd::Asks(
            "clippy rejects the deprecated /v1 handlers, and the policy forbids a new allow. Drop the /v1 routes with this upgrade, or keep them?",
        ),
    },
    SampleRun {
        id: "e2vd",
        title: "Let guests check out without an account",
        project: "/srv/storefront",
        open: &[4, 2],
        end: SampleEnd::Ended(
            RunStatus::GateBroken,
            "`e2e` gave no result twice in a row: cannot start `playwright`, no such file",
        ),
    },
    SampleRun {
        id: "m3qz",
        title: "Round invoice totals the same way everywhere",
        project: "/srv/billing",
        open: &[3, 1, 0],
        end: SampleEnd::Ended(
            RunStatus::NeedsReview,
            "all 5 requirements are met, but 3 expectations of existing tests changed",
        ),
    },
    SampleRun {
        id: "2ubr",
        title: "People can take their data with them",
        project: "/srv/accounts",
        open: &[5, 5, 4, 3, 3, 2],
        end: SampleEnd::Working,
    },
    SampleRun {
        id: "t4hb",
        title: "Make the import resumable",
        project: "/srv/ledger",
        open: &[3, 1, 1, 1],
        end: SampleEnd::Ended(RunStatus::Stuck, "the last 3 stops brought nothing new"),
    },
    SampleRun {
        id: "g5rn",
        title: "Rename the settings page",
        project: "/srv/storefront",
        open: &[1, 0],
        end: SampleEnd::Ended(
            RunStatus::Green,
            "every gate passes, but no test tells old from new",
        ),
    },
    SampleRun {
        id: "9qd2",
        title: "Stream the CSV export instead of building it in memory",
        project: "/srv/ledger",
        open: &[4, 2, 1, 0],
        end: SampleEnd::Ended(
            RunStatus::Verified,
            "all 5 requirements are met, in a clean checkout",
        ),
    },
    SampleRun {
        id: "b2ks",
        title: "Quote fields that hold commas",
        project: "/srv/csv",
        open: &[1, 0],
        end: SampleEnd::Ended(
            RunStatus::Verified,
            "all 5 requirements are met, in a clean checkout",
        ),
    },
];

/// A board with something of everything. The driven run counts as driven while the returned lock is held.
pub(crate) fn write_sample_board(root: &Path) -> Result<FileSlot> {
    let home = RalphHome::new(root.to_path_buf());
    let now_ms = clock::now_ms();
    for (at, sample) in (0_u64..).zip(&BOARD) {
        // Half a minute more, so that no age is close to the next whole minute.
        let minutes = at * 23 + 6 + sample.open.len() as u64 * STOP_MINUTES;
        let started_ms = now_ms - minutes * 60_000 - 30_000;
        write_board_run(&home, sample, started_ms)?;
    }
    let runs = EndedQueueRuns { landed: "9qd2", parked: "t4hb" };
    write_queue(root, &runs, SampleWording::Realistic)?;
    write_driven_run(root, SampleWording::Realistic)
}

fn write_board_run(home: &RalphHome, sample: &SampleRun, started_ms: u64) -> Result<()> {
    let run = RunId::parse(sample.id).context("a wrong id")?;
    let mut record = RunRecord::new(run, sample.project.to_string(), started_ms);
    record.title = sample.title.to_string();
    record.owner = SessionId::parse(OWNER);
    let mut journal = SampleJournal::begin(home, &record)?;
    for (stop, open) in sample.open.iter().enumerate() {
        let held = held_stop(stop, *open, "no finding");
        journal.after(STOP_MINUTES, RunChange::Decided(Box::new(held)))?;
    }
    match sample.end {
        SampleEnd::Working => {}
        SampleEnd::Asks(question) => {
            journal.after(2, RunChange::Asked { question: question.to_string() })?;
        }
        SampleEnd::Ended(status, because) => {
            let open = sample.open.last().copied().unwrap_or(0);
            let mut last = held_stop(sample.open.len(), open, "no finding");
            last.outcome = StopOutcome::Ended(status);
            last.because = because.to_string();
            journal.after(2, RunChange::Decided(Box::new(last)))?;
        }
    }
    journal.save(sample.title)
}

/// One run whose every text tries to be markup, with a question.
pub(crate) fn write_hostile_run(root: &Path) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let run = RunId::parse("x9nn").context("a wrong id")?;
    let mut record = RunRecord::new(run.clone(), format!("/srv/{HOSTILE}"), clock::now_ms());
    record.title = HOSTILE.to_string();
    create(&home, &record, HOSTILE)?;
    let mut stop = held_stop(0, 3, HOSTILE);
    stop.because = HOSTILE.to_string();
    for gate in &mut stop.gates {
        gate.name = HOSTILE.to_string();
    }
    for line in stop.report.iter_mut().flat_map(|report| &mut report.lines) {
        line.name = HOSTILE.to_string();
    }
    append(&home, &run, RunChange::Decided(Box::new(stop)))?;
    append(
        &home,
        &run,
        RunChange::HintGiven {
            text: HOSTILE.to_string(),
            by: Some(HOSTILE.to_string()),
            answers: None,
        },
    )?;
    append(&home, &run, RunChange::Asked { question: HOSTILE.to_string() })
}

/// Many runs that have ended, and one that works.
pub(crate) fn write_many_runs(root: &Path, count: u32) -> Result<()> {
    let home = RalphHome::new(root.to_path_buf());
    let now_ms = clock::now_ms();
    for number in 0..count {
        let run = RunId::parse(&format!("r{number:05}")).context("a wrong id")?;
        let age_ms = u64::from(count - number) * 60_000;
        let mut record =
            RunRecord::new(run.clone(), format!("/srv/project-{}", number % 17), now_ms - age_ms);
        record.title = format!("Goal number {number}");
        create(&home, &record, "a goal")?;
        if number > 0 {
            append(&home, &run, RunChange::Cancelled)?;
        }
    }
    Ok(())
}

pub(super) fn create(home: &RalphHome, record: &RunRecord, goal: &str) -> Result<()> {
    let mut record = record.clone();
    record.owner = SessionId::parse(OWNER);
    let files = RunFiles { goal: goal.as_bytes(), lists: &[] };
    let created = store::create_run(home, &record, &files, &Deadline::after(WRITE_TIMEOUT))?;
    ensure!(created, "run `{}` exists", record.id);
    Ok(())
}

pub(super) fn append(home: &RalphHome, run: &RunId, change: RunChange) -> Result<()> {
    let deadline = Deadline::after(WRITE_TIMEOUT);
    let transaction = RunTransaction { home, run, deadline, by: None, loaded: None };
    let durability = Durability::Cached;
    store::transact(&transaction, |_| TransactionStep::Write { change, durability, answer: () })?;
    Ok(())
}

/// A stop that is held while requirements are open.
pub(super) fn held_stop(stop: usize, open: usize, note: &str) -> StopRecord {
    let reason = format!("ralph: iteration {} of 25\n\n✗ tests (correctness): {note}\n", stop + 1);
    let because = format!("{open} not met");
    let mut record = StopRecord::new(DecisionRule::Block, StopOutcome::Blocked { reason }, because);
    let line = |name: &&str| ReportLine {
        pending: None,
        name: (*name).to_string(),
        stage: "correctness".to_string(),
        judge: None,
        standing: ReportedStatus::Unmet,
        was: None,
        note: note.to_string(),
        first: None,
        listed: Vec::new(),
        findings: u32::try_from(open).unwrap_or(0),
        signature: Digest64(1),
    };
    let names = |from: usize, to: usize| REQUIREMENTS.iter().skip(from).take(to - from);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    record.report = Some(StopReport {
        total: count(REQUIREMENTS.len()),
        unmet: count(open),
        lines: names(0, open).map(line).collect(),
        met: names(open, REQUIREMENTS.len()).map(|name| (*name).to_string()).collect(),
        ..StopReport::default()
    });
    record.gates = names(0, 4)
        .enumerate()
        .map(|(at, name)| GateRecord {
            name: (*name).to_string(),
            site: MeasuredSite::Tree,
            outcome: if at < open { "failed" } else { "passed" }.to_string(),
            took_ms: 1_200 + 900 * u64::try_from(at * (stop + 1)).unwrap_or(0),
            cached: at == 3,
            steadiness: ResultStability::Once,
            findings: 1,
            tests: (at == 1).then_some(TestCounts { run: 148, failed: 2, skipped: 0 }),
            coverage: None,
            changed_coverage: None,
            key: format!("key-{at}-{stop}"),
            log: None,
        })
        .collect();
    let spent = 700_000 * u64::try_from(stop + 1).unwrap_or(1);
    record.cost = Some(CostReading { estimated_micro_usd: Some(spent), ..CostReading::default() });
    record
}
