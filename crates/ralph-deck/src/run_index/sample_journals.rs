//! Random journals with every kind of change, for the tests of the index.

use ralph_core::approval::PersonApproval;
use ralph_core::digest64::Digest64;
use ralph_core::drive::{
    CostSource, MeterBasis, MeterReading, PlannedWait, RunnerEvent, RunnerSession, SessionOrigin,
    WaitCause,
};
use ralph_core::gate::{ResultStability, TestCounts};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::record::{
    Acceptance, CostReading, DecisionRule, Dispute, FORMAT_VERSION, GateRecord, JournalEntry,
    MeasuredSite, MoveReason, ReportLine, ReportedStatus, RestoredRun, RunChange, RunRecord,
    StopOutcome, StopRecord, StopReport, Waiver,
};
use ralph_core::run::RunState;
use ralph_core::status::RunStatus;

const HOUR_MS: u64 = 3_600_000;

/// A small generator with a seed, so that a failure can be repeated.
pub(super) struct SampleRandom(pub u64);

impl SampleRandom {
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }

    fn is_one_in(&mut self, most: u64) -> bool {
        self.below(most) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// The entries of a journal of `length` lines.
pub(super) fn sample_entries(run: &str, seed: u64, length: usize) -> Vec<JournalEntry> {
    let mut random = SampleRandom(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let is_driven = random.is_one_in(2);
    let mut at_ms = 1_794_915_243_836;
    let mut record =
        RunRecord::new(RunId::parse(run).unwrap(), "/home/kim/shop".to_string(), at_ms);
    record.title = format!("goal {seed} with \"quotes\"\nand a line");
    let mut state = RunState::new(&record);
    let mut entries: Vec<JournalEntry> = Vec::new();
    for seq in 0..length as u64 {
        at_ms += random.below(2 * HOUR_MS);
        let change = if seq == 0 && random.is_one_in(6) {
            let known = RestoredRun { run: record.clone(), state: state.clone() };
            RunChange::Restored(Box::new(known))
        } else if seq == 0 {
            RunChange::Started(Box::new(record.clone()))
        } else if is_driven && random.is_one_in(2) {
            RunChange::Drove(Box::new(sample_event(&mut random, at_ms)))
        } else {
            sample_change(&mut random, at_ms)
        };
        let mut entry = JournalEntry {
            v: FORMAT_VERSION,
            seq,
            at_ms,
            prev: "0".repeat(32),
            iteration: 0,
            after: String::new(),
            change,
            by: None,
        };
        state.apply(&entry);
        entry.iteration = state.iteration;
        entries.push(entry);
    }
    entries
}

fn sample_change(random: &mut SampleRandom, at_ms: u64) -> RunChange {
    let requirement = random.pick(&["tests", "lint", "goal"]).to_string();
    let why = "because".to_string();
    match random.below(26) {
        0 => RunChange::Paused,
        1 => RunChange::Interrupted { seen: 1 },
        2 | 3 => RunChange::Resumed,
        4 => RunChange::Asked { question: "which \"one\"?".to_string() },
        5 => RunChange::Waits { until_ms: at_ms + HOUR_MS, why },
        6 => RunChange::Moved {
            to: SessionId::parse("s2").unwrap(),
            how: random.pick(&[
                MoveReason::Reopened,
                MoveReason::Cleared,
                MoveReason::TakenUp,
                MoveReason::Resumed,
                MoveReason::HandedOver,
            ]),
            process: None,
            seen: 0,
        },
        7 => RunChange::Denied { tool: "Bash".to_string(), what: why, call: "rm".to_string() },
        8 => RunChange::Waived(Waiver { requirement, why, by: "kim".to_string(), until_ms: at_ms }),
        9 => RunChange::WaiverRevoked { requirement },
        10 => RunChange::Disputed(Dispute { requirement, why }),
        11 => RunChange::Limited(RunLimits { max_iterations: Some(7), ..RunLimits::DEFAULT }),
        12 => RunChange::HintGiven { text: "faster".to_string(), by: None, answers: None },
        13 => RunChange::Trouble { class: "network".to_string() },
        14 if requirement == "tests" => {
            RunChange::Approved(PersonApproval { requirement, by: "kim".to_string() })
        }
        14 => RunChange::Compacted,
        15 => RunChange::Anchored,
        16 if random.is_one_in(3) => RunChange::Cancelled,
        17 if random.is_one_in(3) => RunChange::Overridden { how: "interrupt".to_string() },
        18 => {
            let was = RunStatus::Green;
            RunChange::Accepted(Acceptance { by: "kim".to_string(), why, at_ms, was })
        }
        _ => RunChange::Decided(Box::new(sample_stop(random))),
    }
}

fn sample_stop(random: &mut SampleRandom) -> StopRecord {
    let reason = || "ralph: iteration 1\n\u{1b}[31m".to_string();
    let outcome = match random.below(30) {
        0 => StopOutcome::Ended(random.pick(&RunStatus::ALL)),
        1 => StopOutcome::Orphaned,
        2 | 3 => StopOutcome::Repeated,
        4 | 5 => StopOutcome::Awaited { reason: reason() },
        6 | 7 => StopOutcome::HandedOver,
        8 | 9 => StopOutcome::Allowed,
        _ => StopOutcome::Blocked { reason: reason() },
    };
    // An agent that is let go with a report waits for an approval.
    let is_let_go = outcome == StopOutcome::Allowed;
    let rule = if is_let_go { DecisionRule::NeedsHuman } else { DecisionRule::Block };
    let mut stop = StopRecord::new(rule, outcome, "2 not met".to_string());
    let names = ["tests", "lint", "goal"];
    let is_open = names.map(|_| random.is_one_in(2));
    let open = || names.iter().zip(is_open).filter(|(_, open)| *open).map(|(name, _)| *name);
    let line = |name: &str| ReportLine {
        pending: None,
        name: name.to_string(),
        stage: "correctness".to_string(),
        judge: None,
        standing: ReportedStatus::Unmet,
        was: None,
        note: "fails".to_string(),
        first: None,
        listed: Vec::new(),
        findings: 3,
        signature: Digest64(1),
    };
    stop.report = Some(StopReport {
        total: 3,
        unmet: u32::try_from(open().count()).unwrap(),
        lines: open().map(line).collect(),
        met: names
            .iter()
            .filter(|name| open().all(|open| open != **name))
            .map(|name| (*name).into())
            .collect(),
        ..StopReport::default()
    });
    let is_cached = random.is_one_in(3);
    stop.gates = open()
        .map(|name| GateRecord {
            name: name.to_string(),
            site: MeasuredSite::Tree,
            outcome: random.pick(&["passed", "failed", "timeout"]).to_string(),
            took_ms: 1200,
            cached: is_cached,
            steadiness: random.pick(&[ResultStability::Once, ResultStability::Flaky]),
            findings: 1,
            tests: Some(TestCounts { run: 10, failed: 1, skipped: 0 }),
            coverage: None,
            changed_coverage: None,
            key: format!("key-{}", random.below(4)),
            log: None,
        })
        .collect();
    let estimated_micro_usd = Some(random.below(9_000_000));
    stop.cost = Some(CostReading { estimated_micro_usd, ..CostReading::default() });
    stop
}

fn sample_event(random: &mut SampleRandom, at_ms: u64) -> RunnerEvent {
    let session = SessionId::parse(random.pick(&["one", "two", "three"])).unwrap();
    let why = "why".to_string();
    match random.below(12) {
        0..3 => RunnerEvent::Session(RunnerSession {
            id: session,
            how: SessionOrigin::Fresh,
            model: None,
            argv: vec!["claude".to_string()],
            env: Vec::new(),
            mark: None,
        }),
        3..6 => RunnerEvent::Metered(MeterReading {
            session,
            source: random.pick(&[CostSource::Agent, CostSource::Gate]),
            micro_usd: random.below(5_000_000),
            tokens: random.below(100_000),
            turns: 2,
            meter: random.pick(&[MeterBasis::Told, MeterBasis::Told, MeterBasis::Assumed]),
        }),
        6 => RunnerEvent::Waits(PlannedWait {
            cause: random.pick(&[WaitCause::RateLimit, WaitCause::Declared]),
            since_ms: at_ms,
            until_ms: at_ms + HOUR_MS,
            attempt: 1,
            why,
            window: None,
        }),
        7 => RunnerEvent::Woke,
        8 => RunnerEvent::AsksPerson { question: "which?".to_string(), until_ms: at_ms + HOUR_MS },
        9 => RunnerEvent::PassedOn,
        10 => RunnerEvent::Parked { status: RunStatus::RateLimited, why },
        _ => RunnerEvent::Granted { limit_ms: HOUR_MS },
    }
}
