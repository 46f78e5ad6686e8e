//! stdin bytes → event → holder → facts → (evidence) → verdict → journal → reply
//!
//! The whole way of an event. Details live where their names say; if this stops fitting on a screen, a detail
//! has crept in.

use crate::clock::{self, Deadline};
use crate::faults::{self, Fault, Kind};
use crate::fs::Durability;
use crate::holder::{self, Ended, Holder, Pointer};
use crate::observe::Sight;
use crate::store::{self, Opened, Step, StoreError, Transaction};
use crate::surroundings::Words;
use crate::world::World;
use crate::{aftermath, observe, sources, surroundings};
use ralph_core::decide::{self, Case, Decision, Hold, Plan};
use ralph_core::event::{Event, Stop, StopFailure};
use ralph_core::facts::{Evidence, Facts};
use ralph_core::host::{Host, Reply, Style};
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Change, Decided, Outcome, Rule};
use ralph_core::redact::Redactor;
use ralph_core::verdict::Verdict;

/// How the host called us.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub host: Host,
    pub style: Style,
}

pub fn run(world: &World, call: Call, input: &[u8]) -> Reply {
    let verdict = match call.host.parse(input) {
        Ok(Event::Stop(stop)) => on_stop(world, &stop),
        Ok(Event::StopFailure(failure)) => on_failure(world, &failure),
        // A subagent is held by a contract of its own or not at all; a run never reaches into one.
        Ok(Event::SubagentStop(_) | Event::Noted(_) | Event::Unknown) => Verdict::Allow,
        Err(malformed) => {
            let what = format!("the event on stdin could not be read: {}", malformed.why);
            faults::record(&world.home, &Fault::new(Kind::Input, &what));
            Verdict::Allow
        }
    };
    call.host.render(call.style, &verdict)
}

fn on_stop(world: &World, stop: &Stop) -> Verdict {
    let Some(session) = &stop.session else {
        return Verdict::Allow;
    };
    if world.env.is_off() {
        return Verdict::Allow;
    }
    match holder::find(world, stop, session) {
        Holder::Nobody => Verdict::Allow,
        Holder::Files => by_files(world, stop, session),
        Holder::Lost(what) => {
            Verdict::AllowNoting(format!("ralph: this session is no longer held: {what}"))
        }
        Holder::Run(run) => {
            let began = Deadline::after(clock::NO_TIME);
            world.in_hand.get_or_init(|| run.clone());
            by_run(&Scene { world, stop, session, run: &run, began })
                .unwrap_or_else(|error| let_go(world, session, &run, &error))
        }
    }
}

/// One stop of a session that a run owns.
struct Scene<'a> {
    world: &'a World,
    stop: &'a Stop,
    session: &'a SessionId,
    run: &'a RunId,
    began: Deadline,
}

fn by_run(scene: &Scene<'_>) -> Result<Verdict, StoreError> {
    let Scene { world, stop, session, .. } = scene;
    while !world.deadline.is_over() {
        let seen = store::load(&world.home, scene.run)?;
        if seen.run.owner.as_ref() != Some(session) {
            return Ok(surroundings::not_the_owner(world, &seen.run));
        }
        let before = seen.state.observed.as_ref();
        let sight = observe::transcript(world, stop, before, seen.run.checklist);
        let facts = surroundings::facts(world, stop, &seen, &sight);
        let evidence = match decide::plan(&case(stop, &seen, &facts)) {
            Plan::Answer(_) => None,
            Plan::Verify => Some(sources::for_run(world, &seen.run, stop, &sight)),
        };
        if let Some((decision, before)) = settle(scene, &seen, &sight, evidence.as_ref())? {
            aftermath::of(world, session, &before, &decision);
            return Ok(decision.verdict);
        }
    }
    Err(StoreError::OutOfTime)
}

/// Others may have moved the run on while the evidence was gathered, so the decision is made on what is true
/// under the lock; nothing slow happens there. `None` when evidence is needed now and was not before.
fn settle(
    scene: &Scene<'_>,
    seen: &Opened,
    sight: &Sight,
    evidence: Option<&Evidence>,
) -> Result<Option<(Decision, Opened)>, StoreError> {
    let Scene { world, stop, run, began, .. } = scene;
    let redactor = Redactor::new(world.env.secrets());
    let transaction = Transaction { seen: Some(seen), ..world.on(run) };
    store::transact(&transaction, |now| {
        let mut facts = surroundings::facts(world, stop, now, sight);
        let words = surroundings::words(world, now);
        let decide = |facts: &Facts| match (decide::plan(&case(stop, now, facts)), evidence) {
            (Plan::Answer(decision), _) => Some(decision),
            (Plan::Verify, None) => None,
            (Plan::Verify, Some(evidence)) => {
                let telling = words.telling(&redactor);
                Some(decide::conclude(&case(stop, now, facts), evidence, &telling))
            }
        };
        let Some(mut decision) = decide(&facts) else { return Step::Leave(None) };
        if decision.is_success() && facts.tampering.is_none() {
            facts.tampering = surroundings::edited_history(world, run);
            if facts.tampering.is_some() {
                let Some(again) = decide(&facts) else { return Step::Leave(None) };
                decision = again;
            }
        }
        let decision = decision.redacted(&redactor);
        let answer = Some((decision.clone(), now.clone()));
        let durability = match decision.outcome {
            _ if decision.rule == Rule::NotMine => return Step::Leave(answer),
            Outcome::Ended(_) => Durability::Synced,
            Outcome::Allowed | Outcome::Blocked { .. } | Outcome::Repeated | Outcome::Orphaned => {
                Durability::Cached
            }
        };
        let took_ms = began.overdue_ms();
        let tampering = facts.tampering;
        let decided = Decided {
            took_ms,
            tampering,
            ..surroundings::record(world, decision, sight, &redactor)
        };
        Step::Write { change: Change::Decided(Box::new(decided)), durability, answer }
    })
}

fn case<'a>(stop: &'a Stop, opened: &'a Opened, facts: &'a Facts) -> Case<'a> {
    Case { stop, hold: Hold::Run { run: &opened.run, state: &opened.state }, facts }
}

fn by_files(world: &World, stop: &Stop, session: &SessionId) -> Verdict {
    let facts = surroundings::facts_without_run(world, session, stop);
    let case = Case { stop, hold: Hold::Files, facts: &facts };
    let decision = match decide::plan(&case) {
        Plan::Answer(decision) => decision,
        Plan::Verify => {
            let evidence =
                sources::for_files(world, session, holder::project(world, stop).as_deref());
            if evidence.requirements.is_empty() {
                return Verdict::Allow;
            }
            let redactor = Redactor::new(world.env.secrets());
            decide::conclude(&case, &evidence, &Words::of_files(session).telling(&redactor))
                .redacted(&redactor)
        }
    };
    aftermath::of_files(world, session, stop, &decision);
    decision.verdict
}

fn on_failure(world: &World, failure: &StopFailure) -> Verdict {
    let (Some(session), None) = (&failure.session, &failure.agent) else {
        return Verdict::Allow;
    };
    match holder::pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => {
            let change = Change::Trouble { class: failure.class.name().to_string() };
            let durability = Durability::Cached;
            let step = |_: &Opened| Step::Write { change, durability, answer: () };
            if let Err(error) = store::transact(&world.on(&run), step) {
                surroundings::trouble(world, &run, &error);
            }
            Verdict::Allow
        }
        Ok(Some(Pointer { ended: Ended::Yes, .. }) | None) => Verdict::Allow,
        Err(error) => {
            let fault = Fault::new(Kind::File, &holder::describe(&error)).of_session(session);
            faults::record(&world.home, &fault);
            Verdict::Allow
        }
    }
}

/// Whatever broke, the agent may stop, the person is told, and the run is not called verified.
fn let_go(world: &World, session: &SessionId, run: &RunId, error: &StoreError) -> Verdict {
    surroundings::trouble(world, run, error);
    if let StoreError::NoSuchRun(_) = error {
        aftermath::forget(world, session, run);
    }
    Verdict::AllowNoting(format!(
        "ralph: run {run} let the agent stop without a verdict: {}",
        holder::describe(error)
    ))
}
