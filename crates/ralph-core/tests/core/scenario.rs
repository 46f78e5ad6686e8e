//! A test fixture: a run and its journal in memory, decided by the real table and applied by the real fold.

use ralph_core::decide::{self, StopCase, StopDecision, StopPlan};
use ralph_core::digest64::Digest64;
use ralph_core::drive::{DriveSettings, RunnerEvent, RunnerSession, SessionOrigin};
use ralph_core::event::{HostTrouble, PendingWork, PendingWorkKind, StopEvent};
use ralph_core::facts::{
    BlockCap, DeclaredPause, JudgingEvidence, OffReason, PolicyTrust, StopDelivery, StopDriver,
    StopEvidence, StopFacts, TreeIdentity,
};
use ralph_core::hold::StopHold;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::policy::Policy;
use ralph_core::proof::{
    BrokenHow, BrokenTest, Proof as WorkProof, ProofRuns, ProofVerdict, TellingTest,
};
use ralph_core::reason::ReasonContext;
use ralph_core::record::{
    DecisionRule, DeliveryId, FORMAT_VERSION, JournalEntry, PolicySeal, ProcessIdentity, RunChange,
    RunOrigin, RunRecord, StopRecord, TranscriptReading,
};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{
    EvidenceKind, OLD_FAILURES_REQUIREMENT, PendingReason, Requirement, RequirementFailure,
    RequirementStage, RequirementStatus, RequirementWeight,
};
use ralph_core::run::RunState;
use ralph_core::verdict::Verdict;
use std::fmt;

pub(crate) const START_MS: u64 = 1_000_000;
const MINUTE_MS: u64 = 60_000;
const NONCE: u64 = 0x5eed_0000_c0ff_ee11;

/// A snapshot with one line per stop: the answer, the rule that fired, the iterations charged so far, and why.
macro_rules! check {
    ($scenario:expr, @$expected:literal) => {
        insta::assert_snapshot!($scenario, @$expected)
    };
}
pub(crate) use check;

pub(crate) fn run() -> RunRecord {
    RunRecord {
        owner: SessionId::parse("5999882c-e786-462c-84d4-07d1c65b5e76"),
        title: "nested quotes".into(),
        ..RunRecord::new(RunId::parse("k7f2").unwrap(), "/home/user/project".into(), START_MS)
    }
}

/// A run with a policy that asks for a proof.
pub(crate) fn sealed_run() -> RunRecord {
    let seal = PolicySeal {
        policy: Policy::default(),
        project: "/home/user/project".into(),
        hash: String::new(),
        base: None,
        path: None,
        tools: Vec::new(),
        complexity: None,
        git: None,
        files: None,
        checks: Vec::new(),
        variables: None,
        mounts_checkouts: false,
    };
    RunRecord { seal: Some(Box::new(seal)), ..run() }
}

/// A session that a run owns.
pub(crate) fn test_run() -> TestRun {
    TestRun::of(run())
}

/// A session that a runner started.
pub(crate) fn driven_run(settings: DriveSettings) -> TestRun {
    TestRun::of(RunRecord { drive: Some(Box::new(settings)), ..run() }).begin_session(1)
}

/// A session without a run, which the gates of the project hold.
pub(crate) fn gated_session() -> TestRun {
    let none = RunLimits { max_iterations: None, max_cost_micro_usd: None, ..RunLimits::DEFAULT };
    let limits = RunLimits { max_duration_ms: None, ..none };
    TestRun::of(RunRecord { origin: RunOrigin::Session, limits, ..sealed_run() })
}

/// A session without a run, about which other tools wrote files.
pub(crate) fn files_only() -> TestRun {
    TestRun { holder: TestHold::Files, ..test_run() }
}

#[derive(Clone, Debug)]
pub(crate) struct TestRun {
    pub(crate) run: RunRecord,
    pub(crate) state: RunState,
    pub(crate) journal: Vec<JournalEntry>,
    pub(crate) taken: Vec<TakenStop>,
    pub(crate) now_ms: u64,
    holder: TestHold,
    goal: Option<String>,
    adopted: Option<String>,
    redactor: Redactor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestHold {
    Run,
    Files,
}

/// A stop, the answer to it, and how many iterations were charged after it.
#[derive(Clone, Debug)]
pub(crate) struct TakenStop {
    pub(crate) decision: StopDecision,
    pub(crate) iteration: u32,
}

impl TestRun {
    pub(crate) fn of(run: RunRecord) -> Self {
        let mut scenario = Self {
            state: RunState::new(&run),
            journal: Vec::new(),
            taken: Vec::new(),
            now_ms: run.started_ms,
            holder: TestHold::Run,
            goal: None,
            adopted: None,
            redactor: Redactor::default(),
            run,
        };
        scenario.write(RunChange::Started(Box::new(scenario.run.clone())));
        scenario
    }

    pub(crate) fn limits(self, limits: RunLimits) -> Self {
        Self::of(RunRecord { limits, ..self.run })
    }

    pub(crate) fn max_iterations(self, iterations: u32) -> Self {
        let limits = RunLimits { max_iterations: Some(iterations), ..self.run.limits.clone() };
        self.limits(limits)
    }

    pub(crate) fn goal(self, goal: &str) -> Self {
        Self { goal: Some(goal.into()), ..self }
    }

    pub(crate) fn adopted(self, notice: &str) -> Self {
        Self { adopted: Some(notice.into()), ..self }
    }

    pub(crate) fn secrets(self, known: &[&str]) -> Self {
        let known = known.iter().map(|secret| (*secret).to_owned()).collect();
        Self { redactor: Redactor::new(known), ..self }
    }

    pub(crate) fn later(mut self, ms: u64) -> Self {
        self.now_ms += ms;
        self
    }

    pub(crate) fn change(mut self, change: RunChange) -> Self {
        self.write(change);
        self
    }

    /// A runner did something.
    pub(crate) fn drove(self, drove: RunnerEvent) -> Self {
        self.change(RunChange::Drove(Box::new(drove)))
    }

    /// The runner starts its session of this number, or resumes it.
    pub(crate) fn begin_session(self, number: u32) -> Self {
        let model = None;
        self.drove(RunnerEvent::Session(RunnerSession {
            id: session(number),
            how: SessionOrigin::Fresh,
            model,
            argv: vec!["claude".into()],
            env: Vec::new(),
            mark: None,
        }))
    }

    /// A stop a minute after the last one.
    pub(crate) fn stop(mut self, stop: TestStop) -> Self {
        self.now_ms += MINUTE_MS;
        self.take(stop);
        self
    }

    pub(crate) fn stops(self, count: u32, stop: impl Fn(u32) -> TestStop) -> Self {
        (0..count).fold(self, |scenario, at| scenario.stop(stop(at)))
    }

    /// Decides on the current state and records the decision, as the hook does.
    pub(crate) fn take(&mut self, at: TestStop) -> &TakenStop {
        let facts = StopFacts { now_ms: self.now_ms, ..at.facts };
        let decision = self.decide(&at.stop, &facts, &at.evidence).redacted(&self.redactor);
        if self.holder == TestHold::Run && decision.rule != DecisionRule::NotMine {
            self.write(RunChange::Decided(Box::new(StopRecord {
                mark: decision.mark,
                awaited_tree: decision.awaited_tree,
                arrived_ms: facts.arrived_ms,
                delivery: facts
                    .delivery
                    .map(|it| DeliveryId { stop: Digest64(it.stop), length: it.length }),
                report: decision.report.clone(),
                observed: at.observed,
                process: at.process,
                tampering: facts.tampering,
                in_a_row: facts.consecutive_blocks,
                background: at.stop.background_digest(),
                remedy: decision.remedy,
                proof: at.evidence.proof.as_ref().map(WorkProof::record),
                garbled: at.evidence.unparsable_lists.clone(),
                judges: at.evidence.judging.records.clone(),
                judge_spending: at.evidence.judging.spent,
                ..StopRecord::new(decision.rule, decision.outcome.clone(), decision.because.clone())
            })));
        }
        self.taken.push(TakenStop { decision, iteration: self.state.iteration });
        self.last()
    }

    fn decide(&self, stop: &StopEvent, facts: &StopFacts, evidence: &StopEvidence) -> StopDecision {
        let hold = match self.holder {
            TestHold::Run => StopHold::Run { run: &self.run, state: &self.state },
            TestHold::Files => StopHold::Files,
        };
        let case = StopCase { stop, hold, facts };
        match decide::plan(&case) {
            StopPlan::Answer(decision) => *decision,
            StopPlan::Verify => {
                let (goal, adopted) = (self.goal.as_deref(), self.adopted.as_deref());
                let context = ReasonContext {
                    redactor: &self.redactor,
                    nonce: NONCE,
                    goal,
                    adoption_notice: adopted,
                };
                decide::conclude(&case, evidence, &context)
            }
        }
    }

    /// The decision about this stop, without recording it.
    pub(crate) fn ask(&self, at: &TestStop) -> StopDecision {
        let facts = StopFacts { now_ms: self.now_ms, ..at.facts.clone() };
        self.decide(&at.stop, &facts, &at.evidence)
    }

    /// Appends an entry and applies it, as the store does.
    pub(crate) fn write(&mut self, change: RunChange) {
        let prev = self.journal.last().map_or_else(String::new, |last| {
            Digest64::of_parts(&[&serde_json::to_vec(last).unwrap()]).short()
        });
        let seq = self.state.seq;
        let mut entry = JournalEntry {
            v: FORMAT_VERSION,
            seq,
            at_ms: self.now_ms,
            prev,
            iteration: 0,
            after: String::new(),
            change,
            by: None,
        };
        self.state.apply(&entry);
        entry.iteration = self.state.iteration;
        self.journal.push(entry);
    }

    pub(crate) fn last(&self) -> &TakenStop {
        self.taken.last().unwrap()
    }

    /// The reason that the agent read at the last stop.
    pub(crate) fn reason(&self) -> &str {
        let Verdict::Block { reason } = &self.last().decision.verdict else {
            panic!("not held: {self}")
        };
        reason
    }
}

impl fmt::Display for TestRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, taken) in self.taken.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{:<2} {taken}", at + 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for TakenStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decision: StopDecision { rule, verdict, because, .. }, iteration } = self;
        let word = match verdict {
            Verdict::Allow => "allow".to_owned(),
            Verdict::AllowWithNotice(_) => "allow, noting".to_owned(),
            Verdict::Block { .. } => "block".to_owned(),
            Verdict::EndRun { status, .. } => format!("end {}", status.name()),
            Verdict::AnswerPrompt { .. }
            | Verdict::AddContext { .. }
            | Verdict::DenyTool { .. }
            | Verdict::AskPerson { .. } => panic!("no answer to a stop: {verdict:?}"),
        };
        write!(f, "{word:<16} rule {:<12} {iteration} charged  {because}", rule.name())
    }
}

/// One stop and everything known about it. By default without special circumstances and without requirements.
#[derive(Clone, Debug)]
pub(crate) struct TestStop {
    pub(crate) stop: StopEvent,
    pub(crate) facts: StopFacts,
    pub(crate) evidence: StopEvidence,
    pub(crate) observed: Option<TranscriptReading>,
    pub(crate) process: Option<ProcessIdentity>,
}

pub(crate) fn stop_at(tree: u64) -> TestStop {
    let stop = StopEvent {
        session: SessionId::parse("5999882c-e786-462c-84d4-07d1c65b5e76"),
        cwd: None,
        transcript: None,
        prompt: None,
        continuing: false,
        last_message: None,
        trouble: None,
        pending: Vec::new(),
    };
    let evidence = StopEvidence {
        proof: None,
        waits_for_proof: false,
        requirements: Vec::new(),
        tree: TreeIdentity::Known(tree),
        tree_without_gate_writes: TreeIdentity::Known(tree),
        has_lost_worker: false,
        gates: Vec::new(),
        judged: None,
        judging: JudgingEvidence::default(),
        adopted_limit: None,
        tampering: None,
        unsealed: None,
        unparsable_lists: Vec::new(),
    };
    TestStop { stop, facts: StopFacts::quiet(0), evidence, observed: None, process: None }
}

impl TestStop {
    pub(crate) fn require(mut self, requirement: Requirement) -> Self {
        self.evidence.requirements.push(requirement);
        self
    }

    pub(crate) fn met(self, name: &str) -> Self {
        self.require(requirement(name, RequirementStatus::Met(EvidenceKind::Measured)))
    }

    pub(crate) fn claimed(self, name: &str) -> Self {
        self.require(requirement(name, RequirementStatus::Met(EvidenceKind::Claimed)))
    }

    pub(crate) fn unmet(self, name: &str) -> Self {
        let failure = RequirementFailure::new("it fails".into());
        self.require(requirement(name, RequirementStatus::Unmet(failure)))
    }

    pub(crate) fn unknown(self, name: &str) -> Self {
        self.require(requirement(name, RequirementStatus::Unknown("timed out after 5 min".into())))
    }

    /// The outcome of a proof: so many old tests hold, and the named ones are broken.
    pub(crate) fn proof(mut self, verdict: ProofVerdict, broken: &[&str]) -> Self {
        let gate = || "tests".to_string();
        let telling = vec![TellingTest { gate: gate(), test: "test_new".into() }];
        let broken = broken.iter().map(|test| BrokenTest {
            gate: gate(),
            test: (*test).to_string(),
            how: BrokenHow::Fails,
            message: "assert 3 == 4".into(),
        });
        self.evidence.proof = Some(WorkProof {
            verdict,
            held: 148,
            held_checks: 0,
            telling: if verdict == ProofVerdict::Green { Vec::new() } else { telling },
            broken: broken.collect(),
            doubts: Vec::new(),
            removed: Vec::new(),
            allowed: Vec::new(),
            is_final: false,
            runs: ProofRuns::default(),
        });
        self
    }

    pub(crate) fn unsealed(mut self, why: &str) -> Self {
        self.evidence.unsealed = Some(why.to_string());
        self
    }

    pub(crate) fn impossible_proof(mut self) -> Self {
        self.evidence.proof = Some(WorkProof::impossible("no gate is part of the proof"));
        self
    }

    pub(crate) fn nothing_required(mut self) -> Self {
        self.evidence.requirements.clear();
        self
    }

    pub(crate) fn tree(mut self, tree: TreeIdentity) -> Self {
        self.evidence.tree = tree;
        self.evidence.tree_without_gate_writes = tree;
        self
    }

    /// Gates wrote files: the tree was this one before.
    pub(crate) fn tree_without_gate_writes(mut self, tree: u64) -> Self {
        self.evidence.tree_without_gate_writes = TreeIdentity::Known(tree);
        self
    }

    pub(crate) fn lost_worker(mut self) -> Self {
        self.evidence.has_lost_worker = true;
        self
    }

    pub(crate) fn own_limit(mut self, limit: &str) -> Self {
        self.evidence.adopted_limit = Some(limit.into());
        self
    }

    pub(crate) fn message(mut self, message: &str) -> Self {
        self.stop.last_message = Some(message.into());
        self
    }

    pub(crate) fn continuing(mut self, continuing: bool) -> Self {
        self.stop.continuing = continuing;
        self
    }

    /// How often the gates of a session without a run have held the prompt.
    pub(crate) fn prompt_holds(mut self, holds: u32) -> Self {
        self.facts.prompt_holds = holds;
        self
    }

    /// A gate that is still running.
    pub(crate) fn running(self, name: &str) -> Self {
        let running = PendingReason::Running("still running".into());
        self.require(requirement(name, RequirementStatus::Pending(running)))
    }

    /// A gate that fails no more than at the start of the session.
    pub(crate) fn old_failures(self, name: &str) -> Self {
        let failure = RequirementFailure::new(format!("1 old failure remains: {name}"));
        self.met(name).require(Requirement {
            weight: RequirementWeight::Advisory,
            ..requirement(OLD_FAILURES_REQUIREMENT, RequirementStatus::Unmet(failure))
        })
    }

    pub(crate) fn trouble(mut self, trouble: impl Into<Option<HostTrouble>>) -> Self {
        self.stop.trouble = trouble.into();
        self
    }

    pub(crate) fn pending(mut self, kind: PendingWorkKind, what: &str) -> Self {
        self.stop.pending.push(PendingWork { kind, what: what.into(), impersonates_person: false });
        self
    }

    pub(crate) fn nothing_pending(mut self) -> Self {
        self.stop.pending.clear();
        self
    }

    /// A delivery that was under way before anything was answered; the transcript grew meanwhile.
    pub(crate) fn on_its_way(mut self, delivery: u64) -> Self {
        self.facts.delivery =
            Some(StopDelivery { stop: delivery, length: Some(99), arrived_ms: 0 });
        self
    }

    /// A hook process that started at this time, of a host that does not identify its stops.
    pub(crate) fn arrived(mut self, arrived_ms: u64) -> Self {
        self.facts.arrived_ms = Some(arrived_ms);
        self
    }

    pub(crate) fn delivery(mut self, delivery: u64) -> Self {
        // Arrives after any earlier answer, so that two of them are consecutive deliveries.
        self.facts.delivery =
            Some(StopDelivery { stop: delivery, length: Some(delivery), arrived_ms: u64::MAX });
        self
    }

    pub(crate) fn declared(mut self, declared: impl Into<Option<DeclaredPause>>) -> Self {
        self.facts.declared = declared.into();
        self
    }

    pub(crate) fn queued(mut self) -> Self {
        self.facts.has_queued_input = true;
        self
    }

    pub(crate) fn in_a_row(mut self, times: u32, cap: BlockCap) -> Self {
        self.facts.consecutive_blocks = times;
        self.facts.block_cap = cap;
        self
    }

    pub(crate) fn off(mut self, off: impl Into<Option<OffReason>>) -> Self {
        self.facts.off = off.into();
        self
    }

    pub(crate) fn owner_gone(mut self) -> Self {
        self.facts.is_owner_gone = true;
        self
    }

    pub(crate) fn trust(mut self, trust: PolicyTrust) -> Self {
        self.facts.trust = trust;
        self
    }

    pub(crate) fn tampering<'a>(mut self, what: impl Into<Option<&'a str>>) -> Self {
        self.facts.tampering = what.into().map(str::to_owned);
        self
    }

    pub(crate) fn spent(mut self, micro_usd: impl Into<Option<u64>>) -> Self {
        self.facts.spent_micro_usd = micro_usd.into();
        self
    }

    pub(crate) fn driver(mut self, driver: StopDriver) -> Self {
        self.facts.driver = driver;
        self
    }

    pub(crate) fn context(mut self, permille: u16, driver: StopDriver) -> Self {
        self.facts.context_permille = Some(permille);
        self.facts.driver = driver;
        self
    }
}

pub(crate) fn session(number: u32) -> SessionId {
    SessionId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap()
}

pub(crate) fn requirement(name: &str, standing: RequirementStatus) -> Requirement {
    Requirement {
        name: name.into(),
        stage: RequirementStage::Correctness,
        next: match &standing {
            RequirementStatus::Met(_) => String::new(),
            RequirementStatus::Unmet(_)
            | RequirementStatus::Unknown(_)
            | RequirementStatus::Pending(_) => {
                format!("Make {name} pass")
            }
        },
        status: standing,
        weight: RequirementWeight::Required,
    }
}

pub(crate) fn advisory(requirement: Requirement) -> Requirement {
    Requirement { weight: RequirementWeight::Advisory, ..requirement }
}
