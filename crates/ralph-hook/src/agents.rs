//! Stops of subagents, teammates and tasks in a session that a run owns.
//!
//! Each is held by its own chunk or gates, or not at all. None of this changes the run's own counters.

use crate::contract::{self, AgentDemand, ContractContext, ListChecks};
use crate::facts;
use ralph_core::digest64::Digest64;
use ralph_core::event::{
    PendingWorkKind, SubagentStopEvent, TaskEvent, TaskMoment, TeammateIdleEvent,
};
use ralph_core::gate::GateTrigger;
use ralph_core::id::{RunId, SessionId};
use ralph_core::part_stop::{self, PartPlan, PartStop};
use ralph_core::policy::Policy;
use ralph_core::reason::{self, ReasonContext};
use ralph_core::record::{
    DeliveryId, PartIdentity, PartKind, PartRecord, PartRule, PolicySeal, RunChange,
};
use ralph_core::redact::Redactor;
use ralph_core::requirement::{
    Requirement, RequirementStage, RequirementStatus, RequirementWeight,
};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::text;
use ralph_core::verdict::Verdict;
use ralph_core::waiver;
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, LoadedRun, StoreError, TransactionStep};
use ralph_home::world::World;
use ralph_policy::trust;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, LockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MAX_AGENT_ID_CHARS: usize = 200;
const MAX_AGENT_NAME_CHARS: usize = 120;

/// Time reserved for the answer when another agent's gates use up the rest.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

pub fn on_subagent(world: &World, stop: &SubagentStopEvent) -> Verdict {
    let named = (&stop.session, stop.agent.as_deref(), stop.agent_type.as_deref());
    let (Some(session), Some(id), Some(name)) = named else { return Verdict::Allow };
    let Some(run) = find_agent_run(world, session) else { return Verdict::Allow };
    let said = stop.last_message.as_deref().unwrap_or_default();
    let prompt = stop.prompt.as_deref().unwrap_or_default();
    let flag: &[u8] = if stop.continuing { b"again" } else { b"first" };
    let transcript = stop.transcript.as_deref().map(Path::new);
    let background = stop.pending.iter().find(|one| one.kind == PendingWorkKind::Background);
    handle_agent_stop(&AgentStop {
        world,
        session,
        run,
        identity: agent_identity(PartKind::Subagent, id, name),
        match_name: name,
        moment: GateTrigger::Subagent,
        delivery: DeliveryId {
            stop: Digest64::of_parts(&[prompt.as_bytes(), said.as_bytes(), flag]),
            length: transcript.and_then(fs::stat).map(|stat| stat.len),
        },
        // A wake-up resumes the session, not the subagent.
        waits_for: background.map(|one| one.what.as_str()),
        cwd: stop.cwd.as_deref().and_then(|cwd| fs::resolve(Path::new(cwd))),
    })
}

/// Only completed tasks are judged; a new task has no work to check yet.
pub fn on_task(world: &World, task: &TaskEvent) -> Verdict {
    let Some(session) = &task.session else { return Verdict::Allow };
    let Some(run) = find_agent_run(world, session) else { return Verdict::Allow };
    let (Some(id), TaskMoment::Completed) = (task.id.as_deref(), task.moment) else {
        return Verdict::Allow;
    };
    let subject = task.subject.as_deref().unwrap_or(id);
    handle_agent_stop(&AgentStop {
        world,
        session,
        run,
        identity: agent_identity(PartKind::Task, id, subject),
        match_name: "",
        moment: GateTrigger::Task,
        delivery: DeliveryId { stop: Digest64::of_parts(&[subject.as_bytes()]), length: None },
        waits_for: None,
        cwd: None,
    })
}

pub fn on_idle(world: &World, idle: &TeammateIdleEvent) -> Verdict {
    let Some(session) = &idle.session else { return Verdict::Allow };
    // A name identifies a teammate within its session. One without either shares its count with others like it.
    let name = idle.teammate.as_deref().unwrap_or_default();
    let id = idle.agent.as_deref().or(idle.teammate.as_deref()).unwrap_or("teammate");
    let Some(run) = find_agent_run(world, session) else { return Verdict::Allow };
    handle_agent_stop(&AgentStop {
        world,
        session,
        run,
        identity: agent_identity(PartKind::Teammate, id, if name.is_empty() { id } else { name }),
        match_name: name,
        moment: GateTrigger::Teammate,
        delivery: DeliveryId { stop: Digest64::of_parts(&[name.as_bytes()]), length: None },
        waits_for: None,
        cwd: None,
    })
}

/// The run that the session points to. Records no heartbeat: the tool calls of these agents already do.
fn find_agent_run(world: &World, session: &SessionId) -> Option<RunId> {
    match session_pointer::read_pointer(&world.home, session) {
        Ok(Some(SessionPointer { run, ended: false, .. })) => Some(run),
        Ok(Some(SessionPointer { ended: true, .. }) | None) | Err(_) => None,
    }
}

fn agent_identity(kind: PartKind, id: &str, name: &str) -> PartIdentity {
    PartIdentity {
        kind,
        id: text::clean_line(id, MAX_AGENT_ID_CHARS),
        name: text::clean_line(name, MAX_AGENT_NAME_CHARS),
    }
}

/// A subagent, teammate or task that wants to finish.
#[derive(Debug)]
struct AgentStop<'a> {
    world: &'a World,
    session: &'a SessionId,
    run: RunId,
    identity: PartIdentity,
    /// The name that chunk patterns are matched against.
    match_name: &'a str,
    moment: GateTrigger,
    delivery: DeliveryId,
    waits_for: Option<&'a str>,
    cwd: Option<PathBuf>,
}

fn handle_agent_stop(visit: &AgentStop<'_>) -> Verdict {
    let AgentStop { world, run, .. } = visit;
    if visit.identity.id.is_empty() {
        return Verdict::Allow;
    }
    world.current_run.get_or_init(|| run.clone());
    decide_agent_stop(visit).unwrap_or_else(|error| {
        // An error of ralph's own holds no agent; the run's own stop measures everything again.
        let fault = Fault::new(FaultKind::File, &describe_error(&error)).with_run(run);
        faults::record_fault(&world.home, &fault);
        Verdict::Allow
    })
}

fn decide_agent_stop(visit: &AgentStop<'_>) -> Result<Verdict, StoreError> {
    let AgentStop { world, run, .. } = visit;
    let known = store::load_run(&world.home, run)?;
    if find_demand(visit, &known).is_none() {
        return Ok(Verdict::Allow);
    }
    // The second call of a hook registered twice waits here, then finds the recorded answer.
    let until = Deadline::after(world.answer_deadline.remaining().saturating_sub(ANSWER_MARGIN));
    let turn = match fs::acquire_lock(&world.home.run(run).parts_lock(), &until) {
        Ok(lock) => Some(lock),
        Err(LockError::Busy { .. }) => None,
        Err(error @ LockError::File(_)) => return Err(error.into()),
    };
    let now = store::load_run(&world.home, run)?;
    let requirements = match (find_demand(visit, &now), part_stop::plan(&visit.arrival(&now))) {
        (Some((demand, seal)), PartPlan::Verify) => match turn {
            Some(_) => gather_requirements(visit, &now, (&demand, seal)),
            None => vec![out_of_time_requirement()],
        },
        (Some(_), PartPlan::Repeat(_) | PartPlan::Waiting) | (None, _) => Vec::new(),
    };
    record_agent_decision(visit, &requirements)
}

fn gather_requirements(
    visit: &AgentStop<'_>,
    now: &LoadedRun,
    (demand, seal): (&AgentDemand<'_>, &PolicySeal),
) -> Vec<Requirement> {
    contract::use_sealed_git(seal);
    let project = Path::new(&seal.project);
    if visit.cwd.as_deref().is_some_and(|cwd| contract::is_other_work_tree(project, cwd)) {
        return Vec::new();
    }
    let RunState { iteration, report, parts, waivers, approvals, .. } = &now.state;
    let (world, run, checks) = (visit.world, &now.run, &ListChecks::default());
    let contract = ContractContext {
        world,
        run,
        seal,
        iteration: *iteration,
        last_report: report.as_ref(),
        parts,
        checks,
        waivers,
        approvals,
        proof_base: None,
    };
    contract::judge_agent(&contract, demand)
}

/// Decides again under the lock and records the result.
fn record_agent_decision(
    visit: &AgentStop<'_>,
    requirements: &[Requirement],
) -> Result<Verdict, StoreError> {
    let AgentStop { world, run, .. } = visit;
    let redactor = Redactor::new(world.env.secrets());
    store::transact(&world.transaction(run), |now| {
        let Some((demand, _)) = find_demand(visit, now) else {
            return TransactionStep::Leave(Verdict::Allow);
        };
        let arrival = visit.arrival(now);
        let requirements =
            &waiver::apply_waivers(requirements, &now.state.waivers, world.arrived_ms);
        let max_holds = demand.chunk.map_or(part_stop::DEFAULT_MAX_HOLDS, |chunk| chunk.max_holds);
        let before = arrival.before.map_or(0, |before| before.holds);
        let rule = match part_stop::plan(&arrival) {
            PartPlan::Repeat(answer) => {
                let block = |reason: &str| Verdict::Block { reason: reason.to_string() };
                return TransactionStep::Leave(answer.map_or(Verdict::Allow, block));
            }
            PartPlan::Waiting => PartRule::Waiting,
            PartPlan::Verify => part_stop::conclude(before, max_holds, requirements),
        };
        let holds = if rule == PartRule::Hold { before.saturating_add(1) } else { before };
        let chunk = demand.chunk.map(|chunk| chunk.name.clone());
        let reason = (rule == PartRule::Hold).then(|| {
            let held = part_stop::HeldPart {
                part: &visit.identity,
                chunk: chunk.as_deref(),
                holds,
                max_holds,
                run,
            };
            let nonce = clock::nonce();
            let reason_context =
                ReasonContext { redactor: &redactor, nonce, goal: None, adoption_notice: None };
            part_stop::render_part_reason(&held, requirements, &reason_context)
        });
        let part = PartRecord {
            who: PartIdentity {
                name: redactor.redact(&visit.identity.name),
                ..visit.identity.clone()
            },
            chunk,
            rule,
            because: redactor.redact(&part_stop::explain_rule(rule, &arrival, requirements)),
            reason: reason.clone(),
            holds,
            max_holds,
            delivery: visit.delivery,
            report: (!requirements.is_empty())
                .then(|| reason::build_stop_report(requirements, &redactor)),
            tampering: now.tampering.clone(),
            took_ms: clock::now_ms().saturating_sub(world.arrived_ms),
        };
        TransactionStep::Write {
            change: RunChange::Part(Box::new(part)),
            durability: Durability::Cached,
            answer: reason.map_or(Verdict::Allow, |reason| Verdict::Block { reason }),
        }
    })
}

/// The requirements for this agent; `None` if there are none, or if the run does not hold this session now.
fn find_demand<'a>(
    visit: &AgentStop<'_>,
    opened: &'a LoadedRun,
) -> Option<(AgentDemand<'a>, &'a PolicySeal)> {
    let LoadedRun { run, state, .. } = opened;
    let seal = run.seal.as_deref()?;
    let is_held = state.owner(run) == Some(visit.session)
        && state.phase == RunPhase::Active
        && facts::find_off_switch(visit.world, run.id.as_str()).is_none();
    if !is_held {
        return None;
    }
    let demand = policy_demand(visit, &seal.policy)?;
    trust::is_seal_approved(&visit.world.home, seal).then_some((demand, seal))
}

fn policy_demand<'a>(visit: &AgentStop<'_>, policy: &'a Policy) -> Option<AgentDemand<'a>> {
    let mut chunks = policy.pipeline.iter().chain(&policy.chunks);
    let chunk = chunks.find(|chunk| chunk.matches(visit.match_name));
    let demand = AgentDemand { moment: visit.moment, chunk };
    let has_chunks = !policy.pipeline.is_empty() || !policy.chunks.is_empty();
    match visit.moment {
        // Chunks name the subagents that are held; the others may only look around.
        GateTrigger::Subagent if has_chunks => chunk.map(|_| demand),
        GateTrigger::Stop => None,
        GateTrigger::Subagent | GateTrigger::Task | GateTrigger::Teammate => {
            (!demand.is_empty(policy)).then_some(demand)
        }
    }
}

fn out_of_time_requirement() -> Requirement {
    let why = "gates of other agents used all the available time".to_string();
    Requirement {
        name: "gates".to_string(),
        stage: RequirementStage::Correctness,
        status: RequirementStatus::Unknown(why),
        weight: RequirementWeight::Required,
        next: String::new(),
    }
}

impl AgentStop<'_> {
    fn arrival<'a>(&'a self, opened: &'a LoadedRun) -> PartStop<'a> {
        PartStop {
            before: opened.state.find_part(self.identity.kind, &self.identity.id),
            delivery: self.delivery,
            arrived_ms: self.world.arrived_ms,
            waits_for: self.waits_for,
        }
    }
}
