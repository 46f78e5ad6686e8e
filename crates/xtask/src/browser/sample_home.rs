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
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, RunFiles, RunTransaction, TransactionStep};
use ralph_hook::heartbeat;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::Durability;
use ralph_sys::fs::file_slot::FileSlot;
use std::path::Path;
use std::time::Duration;

/// What pages must show as text.
pub(super) const HOSTILE: &str =
    "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script> \"'& \u{202e}";
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
        write_board_run(&home, sample, usize::try_from(at)?, started_ms)?;
    }
    let runs = EndedQueueRuns { landed: "9qd2", parked: "t4hb" };
    write_queue(root, &runs, SampleWording::Realistic)?;
    write_driven_run(root, SampleWording::Realistic)
}

fn write_board_run(
    home: &RalphHome,
    sample: &SampleRun,
    seed: usize,
    started_ms: u64,
) -> Result<()> {
    let wording = SampleWording::Realistic;
    let held = |number, open| SampleStop { number, open, seed, wording }.held();
    let run = RunId::parse(sample.id).context("a wrong id")?;
    let mut record = RunRecord::new(run, sample.project.to_string(), started_ms);
    record.title = sample.title.to_string();
    record.owner = SessionId::parse(OWNER);
    // Without an event of its session, it would count as unprotected.
    heartbeat::record_heartbeat(home, &record.id);
    let mut journal = SampleJournal::begin(home, &record)?;
    for (stop, open) in sample.open.iter().enumerate() {
        journal.after(STOP_MINUTES, RunChange::Decided(Box::new(held(stop, *open))))?;
    }
    match sample.end {
        SampleEnd::Working => {}
        SampleEnd::Asks(question) => {
            journal.after(2, RunChange::Asked { question: question.to_string() })?;
        }
        SampleEnd::Ended(status, because) => {
            let open = sample.open.last().copied().unwrap_or(0);
            let mut last = held(sample.open.len(), open);
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
    let mut stop =
        SampleStop { number: 0, open: 3, seed: 0, wording: SampleWording::Hostile }.held();
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

fn create(home: &RalphHome, record: &RunRecord, goal: &str) -> Result<()> {
    let mut record = record.clone();
    record.owner = SessionId::parse(OWNER);
    let files = RunFiles { goal: goal.as_bytes(), lists: &[] };
    let created = store::create_run(home, &record, &files, &Deadline::after(WRITE_TIMEOUT))?;
    ensure!(created, "run `{}` exists", record.id);
    Ok(())
}

fn append(home: &RalphHome, run: &RunId, change: RunChange) -> Result<()> {
    let deadline = Deadline::after(WRITE_TIMEOUT);
    let transaction = RunTransaction { home, run, deadline, by: None, loaded: None };
    let durability = Durability::Cached;
    store::transact(&transaction, |_| TransactionStep::Write { change, durability, answer: () })?;
    Ok(())
}

/// A requirement of a sample, with its usual figures.
struct SampleRequirement {
    name: &'static str,
    /// How many findings it has at first.
    findings: u32,
    first: &'static str,
    /// How long its gate takes; `None` if no gate measures it.
    took_ms: Option<u64>,
}

/// In the order in which samples meet them.
const REQUIREMENTS: [SampleRequirement; 5] = [
    SampleRequirement {
        name: "build",
        findings: 3,
        first: "src/lib.rs:88:14: mismatched types",
        took_ms: Some(9_400),
    },
    SampleRequirement {
        name: "fmt",
        findings: 4,
        first: "src/tables.rs:12: not formatted",
        took_ms: Some(700),
    },
    SampleRequirement {
        name: TESTS_GATE,
        findings: 9,
        first: "tests/order.rs: keeps_the_order failed",
        took_ms: Some(38_000),
    },
    SampleRequirement {
        name: "feature 1",
        findings: 1,
        first: "its check has not passed yet",
        took_ms: None,
    },
    SampleRequirement {
        name: "clippy",
        findings: 6,
        first: "src/blocks.rs:41:9: `block` is never read",
        took_ms: Some(12_800),
    },
];
pub(super) const TESTS_GATE: &str = "tests";

/// A stop of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleStop {
    pub(super) number: usize,
    /// How many requirements are not met, the last ones of the list.
    pub(super) open: usize,
    /// Runs with different seeds have different figures.
    pub(super) seed: usize,
    pub(super) wording: SampleWording,
}

impl SampleStop {
    fn is_open(self, at: usize) -> bool {
        at >= REQUIREMENTS.len().saturating_sub(self.open)
    }

    /// Fewer with every requirement that is met, and in some runs with every stop.
    fn findings(self, at: usize) -> u32 {
        let fixed = 2 * (REQUIREMENTS.len() - self.open) + (self.seed % 2) * self.number;
        let least = REQUIREMENTS.get(at).map_or(1, |one| one.findings);
        let at_first = least + small((self.seed + at) % 3);
        at_first.saturating_sub(small(fixed)).max(1)
    }

    fn line(self, at: usize, one: &SampleRequirement) -> ReportLine {
        let findings = self.findings(at);
        ReportLine {
            pending: None,
            name: one.name.to_string(),
            stage: "correctness".to_string(),
            judge: None,
            standing: ReportedStatus::Unmet,
            was: None,
            note: self.wording.text(&text::count_noun(u64::from(findings), "finding")),
            first: Some(self.wording.text(one.first)),
            listed: Vec::new(),
            findings,
            signature: Digest64(1),
        }
    }

    fn gate(self, at: usize, one: &SampleRequirement) -> Option<GateRecord> {
        let Self { number, seed, .. } = self;
        let usual_ms = one.took_ms?;
        let has_failed = self.is_open(at);
        let findings = if has_failed { self.findings(at) } else { 0 };
        let percent = u64::try_from(90 + (seed * 7 + number * 13 + at * 5) % 25).unwrap_or(100);
        let run = 145 + 2 * small(number);
        Some(GateRecord {
            name: one.name.to_string(),
            site: MeasuredSite::Tree,
            outcome: if has_failed { "failed" } else { "passed" }.to_string(),
            took_ms: usual_ms * percent / 100,
            cached: !has_failed && number > 0 && (at + number + seed).is_multiple_of(3),
            steadiness: ResultStability::Once,
            findings,
            tests: (one.name == TESTS_GATE).then_some(TestCounts {
                run,
                failed: findings,
                skipped: 0,
            }),
            coverage: None,
            changed_coverage: None,
            key: format!("key-{seed}-{at}-{number}"),
            log: None,
        })
    }

    /// The stop, held while requirements are open.
    pub(super) fn held(self) -> StopRecord {
        let Self { number, open, seed, .. } = self;
        let all = || REQUIREMENTS.iter().enumerate();
        let lines: Vec<_> =
            all().filter(|(at, _)| self.is_open(*at)).map(|(at, one)| self.line(at, one)).collect();
        let listed = lines.iter().map(|line| {
            let first = line.first.as_deref().unwrap_or_default();
            format!("✗ {} ({}): {}\n  {first}\n", line.name, line.stage, line.note)
        });
        let listed: String = listed.collect();
        let reason = format!("ralph: iteration {} of 25\n\n{listed}", number + 1);
        let because = format!("{open} not met");
        let outcome = StopOutcome::Blocked { reason };
        let mut record = StopRecord::new(DecisionRule::Block, outcome, because);
        let met = all().filter(|(at, _)| !self.is_open(*at)).map(|(_, one)| one.name.to_string());
        record.report = Some(StopReport {
            total: small(REQUIREMENTS.len()),
            unmet: small(open),
            lines,
            met: met.collect(),
            ..StopReport::default()
        });
        record.gates = all().filter_map(|(at, one)| self.gate(at, one)).collect();
        let stops = u64::try_from(number + 1).unwrap_or(1);
        let each = 430_000 + u64::try_from(seed * 67_000 % 410_000).unwrap_or(0);
        let spent = each * stops + 55_000 * stops * stops;
        record.cost =
            Some(CostReading { estimated_micro_usd: Some(spent), ..CostReading::default() });
        record
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
