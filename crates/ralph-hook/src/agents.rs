//! Stops of subagents, teammates and tasks in a session that a run owns.
//!
//! Each is held by its own chunk or gates, or not at all. None of this changes the run's own counters.

use crate::contract::{self, Checks, Contract, Demand};
use crate::surroundings;
use ralph_core::chunk::{self, Arrival, Plan};
use ralph_core::event::{Idle, PendingKind, SubagentStop, Task, TaskMoment};
use ralph_core::gate::Moment;
use ralph_core::id::{RunId, SessionId};
use ralph_core::mark::Mark;
use ralph_core::policy::Policy;
use ralph_core::reason::{self, Telling};
use ralph_core::record::{Change, Delivered, Part, PartKind, PartRule, Seal, Who};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{Requirement, Stage, Standing, Weight};
use ralph_core::run::{Phase, State};
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_core::waiver;
use ralph_home::faults::{self, Fault, Kind, describe};
use ralph_home::session_pointer::{self, Ended, Pointer};
use ralph_home::store::{self, Opened, Step, StoreError};
use ralph_home::world::World;
use ralph_policy::trust;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, LockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LONGEST_ID: usize = 200;
const LONGEST_NAME: usize = 120;

/// Time reserved for the answer when another agent's gates use up the rest.
const MARGIN: Duration = Duration::from_secs(5);

pub fn on_subagent(world: &World, stop: &SubagentStop) -> Verdict {
    let named = (&stop.session, stop.agent.as_deref(), stop.agent_type.as_deref());
    let (Some(session), Some(id), Some(name)) = named else { return Verdict::Allow };
    let Some(run) = run_of(world, session) else { return Verdict::Allow };
    let said = stop.said.as_deref().unwrap_or_default();
    let prompt = stop.prompt.as_deref().unwrap_or_default();
    let flag: &[u8] = if stop.continuing { b"again" } else { b"first" };
    let transcript = stop.transcript.as_deref().map(Path::new);
    let background = stop.pending.iter().find(|one| one.kind == PendingKind::Background);
    seen(&Visit {
        world,
        session,
        run,
        who: who(PartKind::Subagent, id, name),
        called: name,
        moment: Moment::Subagent,
        delivery: Delivered {
            stop: Mark::of(&[prompt.as_bytes(), said.as_bytes(), flag]),
            length: transcript.and_then(fs::stat).map(|stat| stat.len),
        },
        // A wake-up resumes the session, not the subagent.
        waits_for: background.map(|one| one.what.as_str()),
        cwd: stop.cwd.as_deref().and_then(|cwd| fs::resolve(Path::new(cwd))),
    })
}

/// Only completed tasks are judged; a new task has no work to check yet.
pub fn on_task(world: &World, task: &Task) -> Verdict {
    let Some(session) = &task.session else { return Verdict::Allow };
    let Some(run) = run_of(world, session) else { return Verdict::Allow };
    let (Some(id), TaskMoment::Completed) = (task.id.as_deref(), task.moment) else {
        return Verdict::Allow;
    };
    let subject = task.subject.as_deref().unwrap_or(id);
    seen(&Visit {
        world,
        session,
        run,
        who: who(PartKind::Task, id, subject),
        called: "",
        moment: Moment::Task,
        delivery: Delivered { stop: Mark::of(&[subject.as_bytes()]), length: None },
        waits_for: None,
        cwd: None,
    })
}

pub fn on_idle(world: &World, idle: &Idle) -> Verdict {
    let named = (&idle.session, idle.agent.as_deref(), idle.teammate.as_deref());
    let (Some(session), Some(id), Some(name)) = named else { return Verdict::Allow };
    let Some(run) = run_of(world, session) else { return Verdict::Allow };
    seen(&Visit {
        world,
        session,
        run,
        who: who(PartKind::Teammate, id, name),
        called: name,
        moment: Moment::Teammate,
        delivery: Delivered { stop: Mark::of(&[name.as_bytes()]), length: None },
        waits_for: None,
        cwd: None,
    })
}

/// The run that the session points to. Records no heartbeat: the tool calls of these agents already do.
fn run_of(world: &World, session: &SessionId) -> Option<RunId> {
    match session_pointer::pointer(&world.home, session) {
        Ok(Some(Pointer { run, ended: Ended::No, .. })) => Some(run),
        Ok(Some(Pointer { ended: Ended::Yes, .. }) | None) | Err(_) => None,
    }
}

fn who(kind: PartKind, id: &str, name: &str) -> Who {
    Who { kind, id: text::line(id, LONGEST_ID), name: text::line(name, LONGEST_NAME) }
}

/// A subagent, teammate or task that wants to finish.
#[derive(Debug)]
struct Visit<'a> {
    world: &'a World,
    session: &'a SessionId,
    run: RunId,
    who: Who,
    /// The name that chunk patterns are matched against.
    called: &'a str,
    moment: Moment,
    delivery: Delivered,
    waits_for: Option<&'a str>,
    cwd: Option<PathBuf>,
}

fn seen(visit: &Visit<'_>) -> Verdict {
    let Visit { world, run, .. } = visit;
    if visit.who.id.is_empty() {
        return Verdict::Allow;
    }
    world.in_hand.get_or_init(|| run.clone());
    answered(visit).unwrap_or_else(|error| {
        // An error of ralph's own holds no agent; the run's own stop measures everything again.
        let fault = Fault::new(Kind::File, &describe(&error)).of_run(run);
        faults::record(&world.home, &fault);
        Verdict::Allow
    })
}

fn answered(visit: &Visit<'_>) -> Result<Verdict, StoreError> {
    let Visit { world, run, .. } = visit;
    let known = store::load(&world.home, run)?;
    if demand(visit, &known).is_none() {
        return Ok(Verdict::Allow);
    }
    // The second call of a hook registered twice waits here, then finds the recorded answer.
    let until = Deadline::after(world.end.remaining().saturating_sub(MARGIN));
    let turn = match fs::lock(&world.home.run(run).parts_lock(), &until) {
        Ok(lock) => Some(lock),
        Err(LockError::Busy { .. }) => None,
        Err(error @ LockError::File(_)) => return Err(error.into()),
    };
    let now = store::load(&world.home, run)?;
    let requirements = match (demand(visit, &now), chunk::plan(&visit.arrival(&now))) {
        (Some((demand, seal)), Plan::Verify) => match turn {
            Some(_) => looked(visit, &now, (&demand, seal)),
            None => vec![crowded_out()],
        },
        (Some(_), Plan::Again(_) | Plan::Waiting) | (None, _) => Vec::new(),
    };
    settle(visit, &requirements)
}

fn looked(
    visit: &Visit<'_>,
    now: &Opened,
    (demand, seal): (&Demand<'_>, &Seal),
) -> Vec<Requirement> {
    let project = Path::new(&seal.project);
    if visit.cwd.as_deref().is_some_and(|cwd| contract::is_elsewhere(project, cwd)) {
        return Vec::new();
    }
    let State { iteration, parts, waivers, .. } = &now.state;
    let (world, run, checks) = (visit.world, &now.run, &Checks::default());
    let contract = Contract { world, run, seal, iteration: *iteration, parts, checks, waivers };
    contract::judge_part(&contract, demand)
}

/// Decides again under the lock and records the result.
fn settle(visit: &Visit<'_>, requirements: &[Requirement]) -> Result<Verdict, StoreError> {
    let Visit { world, run, .. } = visit;
    let redactor = Redactor::new(world.env.secrets());
    store::transact(&world.on(run), |now| {
        let Some((demand, _)) = demand(visit, now) else { return Step::Leave(Verdict::Allow) };
        let arrival = visit.arrival(now);
        let requirements = &waiver::applied(requirements, &now.state.waivers, world.arrived_ms);
        let max_holds = demand.chunk.map_or(chunk::USUAL_HOLDS, |chunk| chunk.max_holds);
        let before = arrival.before.map_or(0, |before| before.holds);
        let rule = match chunk::plan(&arrival) {
            Plan::Again(answer) => {
                let block = |reason: &str| Verdict::Block { reason: reason.to_string() };
                return Step::Leave(answer.map_or(Verdict::Allow, block));
            }
            Plan::Waiting => PartRule::Waiting,
            Plan::Verify => chunk::conclude(before, max_holds, requirements),
        };
        let holds = if rule == PartRule::Hold { before.saturating_add(1) } else { before };
        let chunk = demand.chunk.map(|chunk| chunk.name.clone());
        let reason = (rule == PartRule::Hold).then(|| {
            let held =
                chunk::Held { who: &visit.who, chunk: chunk.as_deref(), holds, max_holds, run };
            let nonce = clock::nonce();
            let telling = Telling { redactor: &redactor, nonce, goal: None, adopted: None };
            chunk::told(&held, requirements, &telling)
        });
        let part = Part {
            who: Who { name: redactor.redact(&visit.who.name), ..visit.who.clone() },
            chunk,
            rule,
            because: redactor.redact(&chunk::because(rule, &arrival, requirements)),
            reason: reason.clone(),
            holds,
            max_holds,
            delivery: visit.delivery,
            report: (!requirements.is_empty()).then(|| reason::report(requirements, &redactor)),
            tampering: now.tampering.clone(),
            took_ms: clock::now_ms().saturating_sub(world.arrived_ms),
        };
        Step::Write {
            change: Change::Part(Box::new(part)),
            durability: Durability::Cached,
            answer: reason.map_or(Verdict::Allow, |reason| Verdict::Block { reason }),
        }
    })
}

/// The requirements for this agent; `None` if there are none, or if the run does not hold this session now.
fn demand<'a>(visit: &Visit<'_>, opened: &'a Opened) -> Option<(Demand<'a>, &'a Seal)> {
    let Opened { run, state, .. } = opened;
    let seal = run.seal.as_deref()?;
    let is_held = state.owner(run) == Some(visit.session)
        && state.phase == Phase::Active
        && surroundings::off(visit.world, run.id.as_str()).is_none();
    if !is_held {
        return None;
    }
    let demand = demanded(visit, &seal.policy)?;
    trust::is_seal_approved(&visit.world.home, seal).then_some((demand, seal))
}

fn demanded<'a>(visit: &Visit<'_>, policy: &'a Policy) -> Option<Demand<'a>> {
    let mut chunks = policy.pipeline.iter().chain(&policy.chunks);
    let chunk = chunks.find(|chunk| chunk.fits(visit.called));
    let demand = Demand { moment: visit.moment, chunk };
    match visit.moment {
        // A subagent without a chunk is not held, even if gates exist for other moments.
        Moment::Subagent | Moment::Stop => chunk.map(|_| demand),
        Moment::Task | Moment::Teammate => (!demand.is_empty(policy)).then_some(demand),
    }
}

fn crowded_out() -> Requirement {
    let why = "gates of other agents used all the available time".to_string();
    Requirement {
        name: "gates".to_string(),
        stage: Stage::Correctness,
        standing: Standing::Unknown(why),
        weight: Weight::Required,
        next: String::new(),
    }
}

impl Visit<'_> {
    fn arrival<'a>(&'a self, opened: &'a Opened) -> Arrival<'a> {
        Arrival {
            before: opened.state.part(self.who.kind, &self.who.id),
            delivery: self.delivery,
            arrived_ms: self.world.arrived_ms,
            waits_for: self.waits_for,
        }
    }
}
