//! Runs that work in phases. The journal has how far they are; `state/<session>/orchestrator.json` is a view of it that
//! ralph writes, and what an agent edits there of its own conditions is taken into the journal first.

use crate::clock::{self, Deadline};
use crate::config;
use crate::control::{self, Caller, ControlError};
use crate::faults::{self, Fault, Kind};
use crate::fs::{self, Durability, FileError};
use crate::paths::Home;
use crate::store::{self, Opened, Step as Writing, StoreError, Transaction};
use crate::world::World;
use ralph_core::id::{RunId, SessionId};
use ralph_core::policy::Approver;
use ralph_core::record::{Asked, Change, Run, Step};
use ralph_core::run::{Phase as Standing, State};
use ralph_core::source::orchestrator::{
    self, Condition, Edits, Ground, Learned, Orchestrator, Owner, Seen, Shown,
};
use ralph_core::status::Status;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LARGEST: usize = 4 * 1024 * 1024;
const LONGEST_ID: usize = 128;

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

/// A condition as a key, in the order of the conditions.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place(Condition);

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.key())
    }
}

/// How a run stands, as people look at it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// All nine, in order.
    pub conditions: Vec<Shown>,
    /// The first phase that something is missing of.
    pub current: Option<orchestrator::Phase>,
    /// Where the agent says it is.
    pub said: Option<String>,
    pub complexity: Option<u8>,
}

/// Where the view of a session's run is.
pub fn path(home: &Home, session: &SessionId) -> PathBuf {
    home.state(session).join("orchestrator.json")
}

/// The first view. What another tool or an earlier run left there is about something else.
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

/// The view after a decision; nothing for a run without phases.
pub fn refresh(world: &World, run: &Run) -> Result<(), FileError> {
    if run.phases == Asked::No {
        return Ok(());
    }
    match store::load(&world.home, &run.id) {
        Ok(opened) => write(&world.home, &opened),
        Err(StoreError::File(error)) => Err(error),
        // Whoever looks at the run next is told.
        Err(_) => Ok(()),
    }
}

fn write(home: &Home, opened: &Opened) -> Result<(), FileError> {
    let Opened { run, state, .. } = opened;
    let Some(session) = state.owner(run) else { return Ok(()) };
    let picture = picture(home, opened);
    let phase = match (&picture.said, picture.current) {
        (_, None) => "complete",
        (Some(said), Some(_)) => said,
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
    // Later than the view: one that is older than this would look as if the agent had taken something back.
    fs::replace(&home.run(&run.id).orchestrator(), &bytes, Durability::Cached)
}

fn told(shown: &Shown) -> (Place, Option<bool>) {
    let told = match shown.seen {
        Seen::Met => Some(true),
        Seen::Unmet => Some(false),
        Seen::Unknown | Seen::Pending | Seen::Idle => None,
    };
    (Place(shown.condition), told)
}

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

/// All that tells how the conditions stand but for the gates.
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

/// What the agent edited in the view counts from now on, where it is the agent's to say. Answers with the run as it is
/// then, and with what changed nothing.
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

/// A file that is gone, or means nothing, says nothing: it is only a view.
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

/// What is said of an orchestrated run by a command. Edits of the view come first: writing it again would lose them.
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

/// A person's yes to the plan. Said twice, it is said once.
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

/// Something of the run that is no word of anybody's: a search of what is on record, a learning that was saved.
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

/// Why a condition cannot be said to hold, if it is not the agent's.
pub fn refusal(run: &Run, condition: Condition) -> Option<Owner> {
    match condition.owner(approver(run)) {
        Owner::Agent => None,
        owner @ (Owner::Person | Owner::Ralph) => Some(owner),
    }
}
