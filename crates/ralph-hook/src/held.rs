//! Decides a stop that a run or adopted files may hold.
//!
//! Facts are gathered first, without the lock. If they do not settle the stop, the slow evidence follows. The decision
//! itself is made and recorded under the run's lock.

use crate::observe::{self, Sight};
use crate::session_owner;
use crate::surroundings::{self, Words};
use crate::{aftermath, sources};
use ralph_core::decide::{self, Case, Decision, Plan};
use ralph_core::event::Stop;
use ralph_core::facts::{Evidence, Facts};
use ralph_core::hold::Hold;
use ralph_core::id::{RunId, SessionId};
use ralph_core::record::{Change, Decided, Outcome, Rule};
use ralph_core::redact::Redactor;
use ralph_core::verdict::Verdict;
use ralph_home::store::{self, Opened, Step, StoreError, Transaction};
use ralph_home::world::World;
use ralph_sys::clock;
use ralph_sys::fs::{self, Durability};

/// One stop of a session that a run owns.
#[derive(Debug)]
pub struct Scene<'a> {
    pub world: &'a World,
    pub stop: &'a Stop,
    pub session: &'a SessionId,
    pub run: &'a RunId,
}

/// The verdict for a stop of a session that a run holds.
pub fn by_run(scene: &Scene<'_>) -> Result<Verdict, StoreError> {
    Ok(match decided(scene)? {
        Ok(decision) => decision.verdict,
        Err(not_the_owner) => not_the_owner,
    })
}

/// Decides a stop and records the decision. The inner `Err` is the verdict for a session that does not own the run.
pub fn decided(scene: &Scene<'_>) -> Result<Result<Decision, Verdict>, StoreError> {
    let Scene { world, stop, session, run } = scene;
    if stop.pending.iter().any(|pending| pending.poses) {
        // From now on a command typed in this session may come from the agent, so it no longer counts as a person's.
        drop(fs::create_new(&world.home.run(run).posed(), b""));
    }
    while !world.end.is_over() {
        let seen = store::load(&world.home, scene.run)?;
        if seen.state.owner(&seen.run) != Some(session) {
            return Ok(Err(surroundings::not_the_owner(world, &seen)));
        }
        let before = seen.state.observed.as_ref();
        let sight = observe::transcript(world, stop, before, seen.run.checklist);
        let facts = surroundings::facts(world, stop, &seen, &sight);
        let evidence = match decide::plan(&case(stop, &seen, &facts)) {
            Plan::Answer(_) => None,
            Plan::Verify => Some(sources::for_run(world, &seen, stop, &sight)),
        };
        if let Some((decision, before)) = settle(scene, &seen, &sight, evidence.as_ref())? {
            let bell = aftermath::of(world, session, &before, &decision);
            let verdict = decision.verdict.clone().with_bell(bell);
            return Ok(Ok(Decision { verdict, ..decision }));
        }
    }
    Err(StoreError::OutOfTime)
}

/// Decides again under the lock and records the result.
///
/// Other processes may have changed the run while the evidence was gathered, so only the state under the lock counts.
/// Nothing slow happens here. Returns `None` if evidence turns out to be needed that was not gathered.
fn settle(
    scene: &Scene<'_>,
    seen: &Opened,
    sight: &Sight,
    evidence: Option<&Evidence>,
) -> Result<Option<(Decision, Opened)>, StoreError> {
    let Scene { world, stop, run, .. } = scene;
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
            Outcome::Allowed
            | Outcome::Blocked { .. }
            | Outcome::Awaited { .. }
            | Outcome::HandedOver
            | Outcome::Repeated
            | Outcome::Orphaned => Durability::Cached,
        };
        let in_a_row = match decision.outcome {
            Outcome::Blocked { .. } | Outcome::Awaited { .. } => facts.in_a_row.saturating_add(1),
            Outcome::Repeated => now.state.in_a_row,
            Outcome::Allowed | Outcome::HandedOver | Outcome::Orphaned | Outcome::Ended(_) => 0,
        };
        let took_ms = clock::now_ms().saturating_sub(world.arrived_ms);
        let tampering = facts.tampering;
        let decided = Decided {
            took_ms,
            tampering,
            in_a_row,
            garbled: evidence.map(|evidence| evidence.garbled.clone()).unwrap_or_default(),
            background: stop.background(),
            process: surroundings::owning(world, &now.state),
            ..surroundings::record(world, decision, sight, &redactor)
        };
        Step::Write { change: Change::Decided(Box::new(decided)), durability, answer }
    })
}

fn case<'a>(stop: &'a Stop, opened: &'a Opened, facts: &'a Facts) -> Case<'a> {
    Case { stop, hold: Hold::Run { run: &opened.run, state: &opened.state }, facts }
}

/// Decides a stop of a session that no run owns, from files that other tools wrote about it.
pub fn by_files(world: &World, stop: &Stop, session: &SessionId) -> Verdict {
    let facts = surroundings::facts_without_run(world, session, stop);
    let case = Case { stop, hold: Hold::Files, facts: &facts };
    let decision = match decide::plan(&case) {
        Plan::Answer(decision) => decision,
        Plan::Verify => {
            let evidence = sources::for_files(
                world,
                session,
                session_owner::project_directory(world, stop).as_deref(),
            );
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
