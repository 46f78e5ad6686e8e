//! Gathers the evidence for a stop. Every source of requirements is read here and nowhere else.

mod orchestrator;
mod progress;
mod session;
mod words;

use crate::adopt::LoopState;
use crate::contract::{self, Checks, Contract, Judged};
use crate::observe::Sight;
use ralph_core::claim;
use ralph_core::event::Stop;
use ralph_core::facts::{Evidence, Tree};
use ralph_core::gate::{Gate, Moment};
use ralph_core::id::SessionId;
use ralph_core::policy::Claims;
use ralph_core::record::{Asked, ListKind, Origin, Run};
use ralph_core::requirement::{Evidence as Proof, Failure, Requirement, Stage, Standing, Weight};
use ralph_core::run::State;
use ralph_core::source::checklist;
use ralph_core::source::list::{self, Demands, Gates};
use ralph_core::text;
use ralph_git::git::{self, GitState};
use ralph_git::tree::{self, Survey};
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::store::Opened;
use ralph_home::world::World;
use ralph_lists::lists::{self, Lists};
use ralph_lists::loop_directory;
use ralph_lists::tasks;
use session::{session_files, uncommitted};
use std::collections::BTreeMap;
use std::path::Path;

pub use progress::{Told, advance, finish};

/// All requirements of a run, measured on the current work tree.
pub fn for_run(world: &World, opened: &Opened, stop: &Stop, sight: &Sight) -> Evidence {
    let run = &opened.run;
    let lists = lists::of_run(world, opened);
    let checks = Checks { due: lists.due(), programs: lists.programs() };
    let contract = run.seal.as_deref().map(|seal| {
        let State { iteration, parts, waivers, .. } = &opened.state;
        Contract { world, run, seal, iteration: *iteration, parts, checks: &checks, waivers }
    });
    let judged = contract.as_ref().map(contract::judge);
    let mut requirements = orchestrator::of_run(world, opened, judged.as_ref());
    let adopted = adopted(run);
    requirements.extend(of_lists((run, adopted.as_ref()), &lists, judged.as_ref()));
    // Without a base the changed files are unknown.
    if run.seal.as_ref().is_some_and(|seal| seal.base.is_some()) {
        let touched = judged.as_ref().map_or(&[][..], |judged| &judged.touched);
        requirements.extend(lists.discrepancies(touched));
    }
    if let Some(promise) = &run.promise {
        requirements.push(promised(promise, stop));
    }
    if run.checklist == Asked::Yes {
        requirements.push(ticked(stop, sight));
    }
    requirements.extend(of_client(world, opened));
    requirements.extend(of_session(world, opened));
    let tree = match &judged {
        Some(judged) => judged.tree(),
        None => tree_of(world, run),
    };
    let mut evidence = Evidence {
        requirements,
        tree,
        own_limit: adopted.as_ref().and_then(own_limit),
        tampering: None,
        garbled: lists.garbled.clone(),
    };
    let goal = (!is_measured(run, &evidence)).then(|| words::unmeasured(stop));
    let is_held = judged.as_ref().is_some_and(|judged| judged.holds)
        || evidence.requirements.iter().chain(&goal).any(|one| words::holds(world, opened, one));
    evidence.requirements.extend(words::polish(opened, is_held));
    if let (Some(contract), Some(judged)) = (&contract, judged) {
        sealed(contract, judged, &lists, &mut evidence);
    }
    evidence.requirements.extend(goal);
    evidence
}

/// Adds the policy's requirements. They come last: a clean checkout is expensive, and is made only if nothing else is
/// open.
fn sealed(contract: &Contract<'_>, judged: Judged, lists: &Lists, evidence: &mut Evidence) {
    evidence.requirements.extend(judged.requirements.iter().cloned());
    let is_held = evidence.requirements.iter().any(|one| contract.holds(one));
    if !is_held && judged.tampering.is_none() {
        let confirmed = contract::confirm(contract, &judged);
        evidence.requirements.extend(confirmed.into_iter().map(|one| lists.named(one)));
    }
    evidence.tampering = judged.tampering;
}

/// Whether anything measures the goal. Guards and subagent contracts do not count as measuring the work; pipelines do.
fn is_measured(run: &Run, evidence: &Evidence) -> bool {
    let counts_here = |gate: &Gate| gate.on.contains(&Moment::Stop);
    match &run.seal {
        Some(seal) if !seal.policy.gates.iter().any(counts_here) => {
            !seal.policy.pipeline.is_empty()
                || !run.features.is_empty()
                || !run.lists.is_empty()
                || run.promise.is_some()
                || run.checklist == Asked::Yes
                || run.tasks == Asked::Yes
                || run.phases == Asked::Yes
        }
        Some(_) => true,
        None => evidence.requirements.iter().any(|one| one.weight == Weight::Required),
    }
}

/// Requirements of feature lists and plans. An item without a check is a claim, which counts while the gates pass.
fn of_lists(
    (run, adopted): (&Run, Option<&LoopState>),
    lists: &Lists,
    judged: Option<&Judged>,
) -> Vec<Requirement> {
    let checked: BTreeMap<String, Requirement> = judged
        .map(|judged| judged.checks.iter().map(|one| (one.name.clone(), one.clone())).collect())
        .unwrap_or_default();
    let claims = run.seal.as_ref().map_or(Claims::default(), |seal| seal.policy.verify.claims);
    let gates = gates(run, judged);
    // `COMPLETE` in the `progress.txt` of an adopted loop is a claim like any other.
    let is_called_complete = adopted.is_some_and(LoopState::is_complete);
    let mut requirements = lists.requirements.clone();
    for (number, list) in lists.lists.iter().enumerate() {
        let demands =
            Demands { file: &list.file, kind: list.kind, gates, claims, checked: &checked };
        let mut items = list::requirements(number, &list.items, &demands);
        if is_called_complete && list.kind == ListKind::Features {
            items.iter_mut().zip(&list.items).for_each(|(one, item)| {
                if item.check.is_none() && gates != Gates::Open {
                    one.standing = Standing::Met(Proof::Claimed);
                }
            });
        }
        requirements.append(&mut items);
    }
    requirements
}

fn gates(run: &Run, judged: Option<&Judged>) -> Gates {
    let (Some(seal), Some(judged)) = (&run.seal, judged) else { return Gates::None };
    let counts = |gate: &Gate| gate.on.contains(&Moment::Stop) && gate.weight == Weight::Required;
    if !seal.policy.gates.iter().any(counts) {
        return Gates::None;
    }
    if judged.holds { Gates::Open } else { Gates::Pass }
}

fn own_limit(state: &LoopState) -> Option<String> {
    let (iteration, limit) = (state.progress.iteration, state.limit());
    (iteration >= limit).then(|| {
        format!(
            "REACHED_LIMIT: `{}` is at iteration {iteration} of {limit}",
            loop_directory::PROGRESS
        )
    })
}

/// The files of an adopted loop; `None` for a run that a person started.
fn adopted(run: &Run) -> Option<LoopState> {
    match run.origin {
        Origin::Adopted => LoopState::read(Path::new(run.features.first()?)).ok(),
        Origin::Started => None,
    }
}

fn of_client(world: &World, opened: &Opened) -> Option<Requirement> {
    let Opened { run, state, .. } = opened;
    if run.tasks == Asked::No {
        return None;
    }
    let known = state.owner(run).and_then(|session| tasks::of_client(world, session));
    Some(known.unwrap_or_else(|| {
        let why = "the client has no task list for this session".to_string();
        let next = "Create a task for each part of the work and complete it".to_string();
        requirement("client tasks".to_string(), Standing::Unmet(Failure::new(why)), next)
    }))
}

/// Requirements from files that other tools wrote about the run's session.
fn of_session(world: &World, opened: &Opened) -> Vec<Requirement> {
    let run = &opened.run;
    let owner = opened.state.owner(run);
    let files = owner.map(|session| session_files(world, session, run.phases)).unwrap_or_default();
    let work = if files.asks_git() {
        let exclude = lists::excluded(&world.home, run);
        git::status(Path::new(&run.project), &exclude, &world.deadline())
    } else {
        GitState::NotARepository
    };
    let mut requirements: Vec<Requirement> = uncommitted(&files, &work).into_iter().collect();
    requirements.extend(files.requirements);
    requirements
}

fn tree_of(world: &World, run: &Run) -> Tree {
    let exclude = lists::excluded(&world.home, run);
    let project = Path::new(&run.project);
    let listed = tree::list(&Survey {
        project,
        exclude: &exclude,
        cache: Some(&tree::cache(&world.home, project)),
        deadline: &world.deadline(),
    });
    match listed {
        Ok(listing) => Tree::Known(listing.mark()),
        Err(error) => {
            // Without the tree the run is never called stuck; only its limits end it.
            let what = format!(
                "cannot list the work tree `{}`: {}",
                run.project,
                faults::describe(&error)
            );
            faults::record(&world.home, &Fault::new(Kind::File, &what).of_run(&run.id));
            Tree::Unknown
        }
    }
}

/// Requirements from files that other tools wrote about a session without a run.
pub fn for_files(world: &World, session: &SessionId, project: Option<&Path>) -> Evidence {
    let files = session_files(world, session, Asked::No);
    let work = match project {
        Some(project) if files.asks_git() => git::status(project, &[], &world.deadline()),
        Some(_) | None => GitState::NotARepository,
    };
    let uncommitted = uncommitted(&files, &work);
    let mut requirements = files.requirements;
    requirements.extend(uncommitted);
    Evidence {
        requirements,
        tree: Tree::Unknown,
        own_limit: None,
        tampering: None,
        garbled: Vec::new(),
    }
}

fn promised(promise: &str, stop: &Stop) -> Requirement {
    let kept = stop.said.as_deref().is_some_and(|message| claim::promised(message, promise));
    let standing = if kept {
        Standing::Met(Proof::Claimed)
    } else {
        Standing::Unmet(Failure::new(
            "no message has ended with the promise on a line of its own".to_string(),
        ))
    };
    let promise = text::line(promise, 200);
    let next = format!(
        "When, and only when, the goal is really reached, end your message with the line <promise>{promise}</promise>"
    );
    requirement("promise".to_string(), standing, next)
}

fn ticked(stop: &Stop, sight: &Sight) -> Requirement {
    let written = stop.said.as_deref().and_then(checklist::from_markdown);
    let known = sight.observed.as_ref().and_then(|observed| observed.checklist.clone());
    if let Some(list) = written.or(known) {
        return list.requirement();
    }
    let why = "no task list was found in the conversation".to_string();
    let next = "Write the task list as `- [ ]` lines and tick what is done".to_string();
    requirement("checklist".to_string(), Standing::Unmet(Failure::new(why)), next)
}

fn requirement(name: String, standing: Standing, next: String) -> Requirement {
    Requirement { name, stage: Stage::Correctness, standing, weight: Weight::Required, next }
}
