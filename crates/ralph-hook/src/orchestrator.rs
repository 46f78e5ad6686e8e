//! Runs that work in phases.
//!
//! The journal records their progress. `state/<session>/orchestrator.json` is a view that ralph writes from it; edits
//! that an agent makes there to its own conditions are copied into the journal before the view is written again.

use crate::control::{self, Caller, ControlError};
use ralph_core::id::{RunId, SessionId};
use ralph_core::policy::Approver;
use ralph_core::record::{Asked, Change, Run, Step};
use ralph_core::run::{Phase as Standing, State};
use ralph_core::source::orchestrator::{
    self, Condition, Edits, Ground, Learned, Orchestrator, Owner, Seen, Shown,
};
use ralph_core::status::Status;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::paths::Home;
use ralph_home::store::{self, Opened, Step as Writing, StoreError, Transaction};
use ralph_home::world::World;
use ralph_policy::config;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs::{self, Durability, FileError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LARGEST: usize = 4 * 1024 * 1024;
const LONGEST_ID: usize = 128;

/// The content of `orchestrator.json`.
#[derive(Serialize)]
struct View<'a> {
    ralph_run: &'a str,
    session_id: &'a str,
    task: &'a str,
    phase: &'a str,
    complexity: Option<u8>,
    verified_done: bool,
    conditions: BTreeMap<Place, Option<bool>>,
    iterations: u32,
    created_at: String,
    last_updated: String,
}

/// A condition as a JSON key, sorted in the order of the conditions rather than by name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place(Condition);

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.key())
    }
}

/// The progress of a run through its phases, for display.
#[derive(Clone, Debug)]
pub struct Picture {
    /// All nine conditions, in order.
    pub conditions: Vec<Shown>,
    /// The first incomplete phase.
    pub current: Option<orchestrator::Phase>,
    /// The phase that the agent reported last.
    pub said: Option<String>,
    pub complexity: Option<u8>,
}

/// The path of the view for a session.
pub fn path(home: &Home, session: &SessionId) -> PathBuf {
    home.state(session).join("orchestrator.json")
}

/// Writes the first view of a run. A file that another tool left there is quarantined first.
pub fn begin(home: &Home, run: &Run) {
    let begun = || -> Result<(), StoreError> {
        if let Some(session) = &run.owner {
            let path = path(home, session);
            let is_foreign =
                |bytes: Vec<u8>| !orchestrator::read(&bytes).is_ok_and(|it| it.is_ours());
            if fs::read_opt(&path, LARGEST)?.is_some_and(is_foreign) {
                fs::quarantine(&path, clock::now_ms())?;
            }
        }
        write(home, &store::load(home, &run.id)?)?;
        Ok(())
    };
    if let Err(error) = begun() {
        let fault = Fault::new(Kind::File, &faults::describe(&error)).of_run(&run.id);
        faults::record(home, &fault);
    }
}

/// Rewrites the view after a decision. Does nothing for a run without phases.
pub fn refresh(world: &World, run: &Run) -> Result<(), FileError> {
    if run.phases == Asked::No {
        return Ok(());
    }
    match store::load(&world.home, &run.id) {
        Ok(opened) => write(&world.home, &opened),
        Err(StoreError::File(error)) => Err(error),
        // The next access to the run reports this error.
        Err(_) => Ok(()),
    }
}

fn write(home: &Home, opened: &Opened) -> Result<(), FileError> {
    let Opened { run, state, .. } = opened;
    let Some(session) = state.owner(run) else { return Ok(()) };
    let picture = picture(home, opened);
    let phase = match (&picture.said, picture.current) {
        (_, None) => "complete",
        (Some(reported), Some(_)) => reported,
        (None, Some(phase)) => phase.name(),
    };
    let view = View {
        ralph_run: run.id.as_str(),
        session_id: session.as_str(),
        task: &run.title,
        phase,
        complexity: picture.complexity,
        verified_done: state.phase == Standing::Ended(Status::Verified),
        conditions: picture.conditions.iter().map(told).collect(),
        iterations: state.iteration,
        created_at: clock::rfc3339(run.started_ms),
        last_updated: clock::rfc3339(clock::now_ms()),
    };
    let mut bytes = serde_json::to_vec_pretty(&view).unwrap_or_default();
    bytes.push(b'\n');
    fs::create_dir(&home.state(session))?;
    let path = path(home, session);
    if !fs::is_directory(&path) {
        fs::replace(&path, &bytes, Durability::Cached)?;
    }
    // Written after the view: if the copy were newer than the view, the difference would look like an edit by the
    // agent.
    fs::replace(&home.run(&run.id).orchestrator(), &bytes, Durability::Cached)
}

fn told(shown: &Shown) -> (Place, Option<bool>) {
    let value = match shown.seen {
        Seen::Met => Some(true),
        Seen::Unmet => Some(false),
        Seen::Unknown | Seen::Pending | Seen::Idle => None,
    };
    (Place(shown.condition), value)
}

/// The current phase and the state of every condition.
pub fn picture(home: &Home, opened: &Opened) -> Picture {
    let ground = ground(home, opened);
    let conditions = orchestrator::picture(&ground, opened.state.report.as_ref());
    Picture {
        current: orchestrator::current(&conditions),
        conditions,
        said: opened.state.way.phase.clone(),
        complexity: ground.complexity(),
    }
}

/// Everything that determines the conditions, except for the gates.
pub(crate) fn ground<'a>(home: &Home, opened: &'a Opened) -> Ground<'a> {
    Ground {
        way: &opened.state.way,
        approver: approver(&opened.run),
        said_complexity: opened.run.seal.as_ref().and_then(|seal| seal.complexity),
        learned: learned(home, &opened.run, &opened.state),
    }
}

pub fn approver(run: &Run) -> Approver {
    run.seal.as_ref().map_or(Approver::default(), |seal| seal.policy.plan_approver)
}

fn learned(home: &Home, run: &Run, state: &State) -> Learned {
    let Some(id) = &state.way.learned else { return Learned::Nothing };
    let is_id = id.len() <= LONGEST_ID
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let project = match &run.seal {
        Some(seal) => PathBuf::from(&seal.project),
        None => config::find_project(Path::new(&run.project)),
    };
    let file = home.learnings_of(&project).join(format!("{id}.md"));
    if is_id && fs::exists(&file) { Learned::Saved } else { Learned::Gone }
}

/// Records the agent's edits of the view in the journal, as far as the conditions belong to the agent. Returns the
/// updated run and the names of ignored edits.
pub(crate) fn adopt(
    home: &Home,
    opened: &Opened,
    deadline: &Deadline,
) -> Result<(Opened, Vec<&'static str>), StoreError> {
    let Edits { steps, ignored } = edited(home, opened);
    if steps.is_empty() {
        return Ok((opened.clone(), ignored));
    }
    let run = &opened.run.id;
    for step in steps {
        let transaction = Transaction { home, run, deadline: *deadline, seen: None };
        store::transact(&transaction, |_| Writing::Write {
            change: Change::Stepped(step),
            durability: Durability::Cached,
            answer: (),
        })?;
    }
    Ok((store::load(home, run)?, ignored))
}

/// The edits since the view was last written. A missing or malformed view has none.
fn edited(home: &Home, opened: &Opened) -> Edits {
    let Opened { run, state, .. } = opened;
    let read = |path: &Path| -> Option<Orchestrator> {
        orchestrator::read(&fs::read_opt(path, LARGEST).ok()??).ok()
    };
    let Some(now) = state.owner(run).and_then(|session| read(&path(home, session))) else {
        return Edits::default();
    };
    if now.ralph_run.as_deref().is_some_and(|named| named != run.id.as_str()) {
        return Edits::default();
    }
    let last = read(&home.run(&run.id).orchestrator());
    orchestrator::edits(&now, last.as_ref(), (&state.way, approver(run)))
}

/// Records a step that a command reports. Edits of the view are adopted first, because rewriting it would lose them.
pub fn step(
    home: &Home,
    run: &RunId,
    step: Step,
    deadline: &Deadline,
) -> Result<Opened, ControlError> {
    let opened = store::load(home, run)?;
    if opened.run.phases == Asked::No {
        return Err(ControlError::WithoutPhases { run: run.clone() });
    }
    if let Standing::Ended(status) = control::phase(home, &opened) {
        return Err(ControlError::HasEnded { run: run.clone(), status });
    }
    adopt(home, &opened, deadline)?;
    control::change(home, run, deadline, |phase| match phase {
        Standing::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        Standing::Active | Standing::Paused { .. } | Standing::Orphaned => {
            Ok(Change::Stepped(step))
        }
    })?;
    let opened = store::load(home, run)?;
    write(home, &opened)?;
    Ok(opened)
}

/// Records a person's approval of the plan. A second approval changes nothing.
pub fn approve(
    home: &Home,
    run: &RunId,
    caller: Caller,
    deadline: &Deadline,
) -> Result<Opened, ControlError> {
    control::by_person(home, run, caller, "approve the plan of")?;
    let opened = store::load(home, run)?;
    if opened.state.way.approved_by.is_some() && opened.run.phases == Asked::Yes {
        return Ok(opened);
    }
    let by = match caller {
        Caller::Session => "a person, in the session",
        Caller::Person | Caller::Agent => "a person, in a terminal",
    };
    step(home, run, Step::Approved { by: by.to_string() }, deadline)
}

/// Records an event that is not a reported step: a search of past runs, or a saved learning.
pub fn happened(
    home: &Home,
    run: &RunId,
    change: Change,
    deadline: &Deadline,
) -> Result<(), ControlError> {
    let opened = store::load(home, run)?;
    if opened.run.phases == Asked::Yes {
        adopt(home, &opened, deadline)?;
    }
    control::change(home, run, deadline, |phase| match phase {
        Standing::Ended(status) => Err(ControlError::HasEnded { run: run.clone(), status }),
        Standing::Active | Standing::Paused { .. } | Standing::Orphaned => Ok(change),
    })?;
    if opened.run.phases == Asked::Yes {
        write(home, &store::load(home, run)?)?;
    }
    Ok(())
}

/// The owner of a condition that the agent may not set; `None` if it may.
pub fn refusal(run: &Run, condition: Condition) -> Option<Owner> {
    match condition.owner(approver(run)) {
        Owner::Agent => None,
        owner @ (Owner::Person | Owner::Ralph) => Some(owner),
    }
}
