//! A test fixture: a run and its journal in memory, decided by the real table and applied by the real fold.

use ralph_core::decide::{self, Case, Decision, Plan};
use ralph_core::drive::{Drove, How, Session, Settings};
use ralph_core::event::{Pending, PendingKind, Stop, Trouble};
use ralph_core::facts::{
    Cap, Declared, Delivery, Driver, Evidence, Facts, Off, Owner, Queued, Tree, Trust,
};
use ralph_core::hold::Hold;
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::Limits;
use ralph_core::mark::Mark;
use ralph_core::policy::OnTampering;
use ralph_core::reason::Telling;
use ralph_core::record::{
    Asked, Change, Decided, Delivered, Entry, Observed, Origin, Process, Rule, Run, VERSION,
};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{Evidence as Proof, Failure, Requirement, Stage, Standing, Weight};
use ralph_core::run::State;
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

pub(crate) fn run() -> Run {
    Run {
        v: VERSION,
        id: RunId::parse("k7f2").unwrap(),
        owner: SessionId::parse("5999882c-e786-462c-84d4-07d1c65b5e76"),
        started_ms: START_MS,
        project: "/home/user/project".into(),
        origin: Origin::Started,
        first_iteration: 0,
        limits: Limits::DEFAULT,
        features: Vec::new(),
        promise: None,
        checklist: Asked::No,
        goal_bytes: 0,
        title: "nested quotes".into(),
        on_tampering: OnTampering::Block,
        prompt: None,
        listed: Vec::new(),
        lists: Vec::new(),
        tasks: Asked::No,
        phases: Asked::No,
        transcript_length: 0,
        process: None,
        seal: None,
        drive: None,
    }
}

/// A session that a run owns.
pub(crate) fn scenario() -> Scenario {
    Scenario::of(run())
}

/// A session that a runner started.
pub(crate) fn driven(settings: Settings) -> Scenario {
    Scenario::of(Run { drive: Some(Box::new(settings)), ..run() }).begins(1)
}

/// A session without a run, about which other tools wrote files.
pub(crate) fn files() -> Scenario {
    Scenario { holder: SessionOwner::Files, ..scenario() }
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) run: Run,
    pub(crate) state: State,
    pub(crate) journal: Vec<Entry>,
    pub(crate) taken: Vec<Taken>,
    pub(crate) now_ms: u64,
    holder: SessionOwner,
    goal: Option<String>,
    adopted: Option<String>,
    redactor: Redactor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionOwner {
    Run,
    Files,
}

/// A stop, the answer to it, and how many iterations were charged after it.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) decision: Decision,
    pub(crate) iteration: u32,
}

impl Scenario {
    pub(crate) fn of(run: Run) -> Self {
        let mut scenario = Self {
            state: State::new(&run),
            journal: Vec::new(),
            taken: Vec::new(),
            now_ms: run.started_ms,
            holder: SessionOwner::Run,
            goal: None,
            adopted: None,
            redactor: Redactor::default(),
            run,
        };
        scenario.write(Change::Started(Box::new(scenario.run.clone())));
        scenario
    }

    pub(crate) fn limits(self, limits: Limits) -> Self {
        Self::of(Run { limits, ..self.run })
    }

    pub(crate) fn most(self, iterations: u32) -> Self {
        let limits = Limits { max_iterations: Some(iterations), ..self.run.limits.clone() };
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

    pub(crate) fn change(mut self, change: Change) -> Self {
        self.write(change);
        self
    }

    /// A runner did something.
    pub(crate) fn drove(self, drove: Drove) -> Self {
        self.change(Change::Drove(Box::new(drove)))
    }

    /// The runner starts its session of this number, or resumes it.
    pub(crate) fn begins(self, number: u32) -> Self {
        let model = None;
        self.drove(Drove::Session(Session {
            id: session(number),
            how: How::Fresh,
            model,
            argv: vec!["claude".into()],
            env: Vec::new(),
            mark: None,
        }))
    }

    /// A stop a minute after the last one.
    pub(crate) fn stop(mut self, stop: At) -> Self {
        self.now_ms += MINUTE_MS;
        self.take(stop);
        self
    }

    pub(crate) fn stops(self, count: u32, stop: impl Fn(u32) -> At) -> Self {
        (0..count).fold(self, |scenario, at| scenario.stop(stop(at)))
    }

    /// Decides on the current state and records the decision, as the hook does.
    pub(crate) fn take(&mut self, at: At) -> &Taken {
        let facts = Facts { now_ms: self.now_ms, ..at.facts };
        let decision = self.decide(&at.stop, &facts, &at.evidence).redacted(&self.redactor);
        if self.holder == SessionOwner::Run && decision.rule != Rule::NotMine {
            self.write(Change::Decided(Box::new(Decided {
                rule: decision.rule,
                outcome: decision.outcome.clone(),
                because: decision.because.clone(),
                mark: decision.mark,
                delivery: facts
                    .delivery
                    .map(|it| Delivered { stop: Mark(it.stop), length: it.length }),
                report: decision.report.clone(),
                observed: at.observed,
                process: at.process,
                tampering: facts.tampering,
                in_a_row: facts.in_a_row,
                background: at.stop.background(),
                remedy: decision.remedy,
                garbled: at.evidence.garbled.clone(),
                took_ms: 0,
            })));
        }
        self.taken.push(Taken { decision, iteration: self.state.iteration });
        self.last()
    }

    fn decide(&self, stop: &Stop, facts: &Facts, evidence: &Evidence) -> Decision {
        let hold = match self.holder {
            SessionOwner::Run => Hold::Run { run: &self.run, state: &self.state },
            SessionOwner::Files => Hold::Files,
        };
        let case = Case { stop, hold, facts };
        match decide::plan(&case) {
            Plan::Answer(decision) => decision,
            Plan::Verify => {
                let (goal, adopted) = (self.goal.as_deref(), self.adopted.as_deref());
                let context = Telling { redactor: &self.redactor, nonce: NONCE, goal, adopted };
                decide::conclude(&case, evidence, &context)
            }
        }
    }

    /// The decision about this stop, without recording it.
    pub(crate) fn ask(&self, at: &At) -> Decision {
        let facts = Facts { now_ms: self.now_ms, ..at.facts.clone() };
        self.decide(&at.stop, &facts, &at.evidence)
    }

    /// Appends an entry and applies it, as the store does.
    pub(crate) fn write(&mut self, change: Change) {
        let prev = self.journal.last().map_or_else(String::new, |last| {
            Mark::of(&[&serde_json::to_vec(last).unwrap()]).short()
        });
        let seq = self.state.seq;
        let mut entry = Entry {
            v: VERSION,
            seq,
            at_ms: self.now_ms,
            prev,
            iteration: 0,
            after: String::new(),
            change,
        };
        self.state.apply(&entry);
        entry.iteration = self.state.iteration;
        self.journal.push(entry);
    }

    pub(crate) fn last(&self) -> &Taken {
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

impl fmt::Display for Scenario {
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

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decision: Decision { rule, verdict, because, .. }, iteration } = self;
        let word = match verdict {
            Verdict::Allow => "allow".to_owned(),
            Verdict::AllowNoting(_) => "allow, noting".to_owned(),
            Verdict::Block { .. } => "block".to_owned(),
            Verdict::End { status, .. } => format!("end {}", status.name()),
            Verdict::Answer { .. }
            | Verdict::Tell { .. }
            | Verdict::Deny { .. }
            | Verdict::Ask { .. } => panic!("no answer to a stop: {verdict:?}"),
        };
        write!(f, "{word:<16} rule {:<12} {iteration} charged  {because}", rule.name())
    }
}

/// One stop and everything known about it. By default without special circumstances and without requirements.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub(crate) stop: Stop,
    pub(crate) facts: Facts,
    pub(crate) evidence: Evidence,
    pub(crate) observed: Option<Observed>,
    pub(crate) process: Option<Process>,
}

pub(crate) fn at(tree: u64) -> At {
    let stop = Stop {
        session: SessionId::parse("5999882c-e786-462c-84d4-07d1c65b5e76"),
        cwd: None,
        transcript: None,
        prompt: None,
        continuing: false,
        said: None,
        trouble: None,
        pending: Vec::new(),
    };
    let evidence = Evidence {
        requirements: Vec::new(),
        tree: Tree::Known(tree),
        own_limit: None,
        tampering: None,
        garbled: Vec::new(),
    };
    At { stop, facts: Facts::quiet(0), evidence, observed: None, process: None }
}

impl At {
    pub(crate) fn require(mut self, requirement: Requirement) -> Self {
        self.evidence.requirements.push(requirement);
        self
    }

    pub(crate) fn met(self, name: &str) -> Self {
        self.require(requirement(name, Standing::Met(Proof::Measured)))
    }

    pub(crate) fn claimed(self, name: &str) -> Self {
        self.require(requirement(name, Standing::Met(Proof::Claimed)))
    }

    pub(crate) fn unmet(self, name: &str) -> Self {
        let failure = Failure::new("it fails".into());
        self.require(requirement(name, Standing::Unmet(failure)))
    }

    pub(crate) fn unknown(self, name: &str) -> Self {
        self.require(requirement(name, Standing::Unknown("timed out after 5 min".into())))
    }

    pub(crate) fn nothing_required(mut self) -> Self {
        self.evidence.requirements.clear();
        self
    }

    pub(crate) fn tree(mut self, tree: Tree) -> Self {
        self.evidence.tree = tree;
        self
    }

    pub(crate) fn own_limit(mut self, limit: &str) -> Self {
        self.evidence.own_limit = Some(limit.into());
        self
    }

    pub(crate) fn continuing(mut self, continuing: bool) -> Self {
        self.stop.continuing = continuing;
        self
    }

    pub(crate) fn trouble(mut self, trouble: impl Into<Option<Trouble>>) -> Self {
        self.stop.trouble = trouble.into();
        self
    }

    pub(crate) fn pending(mut self, kind: PendingKind, what: &str) -> Self {
        self.stop.pending.push(Pending { kind, what: what.into(), poses: false });
        self
    }

    pub(crate) fn nothing_pending(mut self) -> Self {
        self.stop.pending.clear();
        self
    }

    /// A delivery that was under way before anything was answered; the transcript grew meanwhile.
    pub(crate) fn on_its_way(mut self, delivery: u64) -> Self {
        self.facts.delivery = Some(Delivery { stop: delivery, length: Some(99), arrived_ms: 0 });
        self
    }

    pub(crate) fn delivery(mut self, delivery: u64) -> Self {
        // Arrives after any earlier answer, so that two of them are consecutive deliveries.
        self.facts.delivery =
            Some(Delivery { stop: delivery, length: Some(delivery), arrived_ms: u64::MAX });
        self
    }

    pub(crate) fn declared(mut self, declared: impl Into<Option<Declared>>) -> Self {
        self.facts.declared = declared.into();
        self
    }

    pub(crate) fn queued(mut self) -> Self {
        self.facts.queued = Queued::Something;
        self
    }

    pub(crate) fn in_a_row(mut self, times: u32, cap: Cap) -> Self {
        self.facts.in_a_row = times;
        self.facts.cap = cap;
        self
    }

    pub(crate) fn off(mut self, off: impl Into<Option<Off>>) -> Self {
        self.facts.off = off.into();
        self
    }

    pub(crate) fn owner(mut self, owner: Owner) -> Self {
        self.facts.owner = owner;
        self
    }

    pub(crate) fn trust(mut self, trust: Trust) -> Self {
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

    pub(crate) fn driver(mut self, driver: Driver) -> Self {
        self.facts.driver = driver;
        self
    }

    pub(crate) fn context(mut self, permille: u16, driver: Driver) -> Self {
        self.facts.context_permille = Some(permille);
        self.facts.driver = driver;
        self
    }
}

pub(crate) fn session(number: u32) -> SessionId {
    SessionId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap()
}

pub(crate) fn requirement(name: &str, standing: Standing) -> Requirement {
    Requirement {
        name: name.into(),
        stage: Stage::Correctness,
        next: match &standing {
            Standing::Met(_) => String::new(),
            Standing::Unmet(_) | Standing::Unknown(_) | Standing::Pending(_) => {
                format!("Make {name} pass")
            }
        },
        standing,
        weight: Weight::Required,
    }
}

pub(crate) fn advisory(requirement: Requirement) -> Requirement {
    Requirement { weight: Weight::Advisory, ..requirement }
}
