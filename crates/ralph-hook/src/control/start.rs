//! Starts a run. Everything is read, approved and sealed first; the pointer that holds the session is written last.

use super::ControlError;
use super::run_request::{ApprovedPolicy, CheckedRequest, RunRequest, StartError, check_request};
use super::start_notes::{self, StartNote};
use crate::contract::{self, SealRequest};
use crate::phases;
use ralph_core::gate::Gate;
use ralph_core::id::RunId;
use ralph_core::record::{ListSeal, RunRecord};
use ralph_core::run::RunPhase;
use ralph_core::source::work_list;
use ralph_home::host_env;
use ralph_home::journal;
use ralph_home::paths::RalphHome;
use ralph_home::session_pointer::{self, SessionPointer};
use ralph_home::store::{self, RunFiles, StoreError};
use ralph_home::world::World;
use ralph_lists::run_lists::{self, SealedList};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;
use std::time::Duration;

/// Leaves out letters and digits that people confuse when they read an id aloud.
const ID_ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// How long to wait for the session's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The first checkpoint of a large tree takes a while.
const SEAL_TIMEOUT: Duration = Duration::from_mins(5);

/// A run that holds its session.
#[derive(Debug)]
pub struct StartedRun {
    pub run: RunRecord,
    /// Facts that limit what the run can show, such as missing tools.
    pub notes: Vec<StartNote>,
}

/// Starts a run and points the session at it. Fails if another active run holds the session.
pub fn start_run(world: &World, request: RunRequest) -> Result<StartedRun, StartError> {
    let checked = check_request(world, request)?;
    let run = create_run(world, &checked)?;
    if checked.request.terms.phases {
        phases::write_first_view(&world.home, &run);
    }
    contract::start_base_measurement(world, &run);
    let notes = start_notes::start_notes(world, &run, &checked.request.terms);
    Ok(StartedRun { run, notes })
}

fn create_run(world: &World, checked: &CheckedRequest) -> Result<RunRecord, ControlError> {
    let (home, request) = (&world.home, &checked.request);
    let session = &request.session;
    let deadline = Deadline::after(LOCK_TIMEOUT);
    let _lock =
        session_pointer::lock_session(home, session, &deadline).map_err(StoreError::from)?;
    // An unreadable run holds no session, so a person can start another; `ralph status` reports the unreadable one.
    if let Some(pointer) = session_pointer::read_pointer(home, session)?
        && !pointer.ended
        && let Ok(opened) = store::load_run(home, &pointer.run)
        && !matches!(opened.state.phase, RunPhase::Ended(_))
        && !fs::exists(&home.tombstone(pointer.run.as_str()))
    {
        return Err(ControlError::AlreadyHeld { session: session.clone(), run: pointer.run });
    }
    let copies: Vec<Vec<u8>> = checked.lists.iter().map(|list| list.copy.clone()).collect();
    let files = RunFiles { goal: &request.terms.goal, lists: &copies };
    let run = loop {
        let id = request.id.clone().unwrap_or_else(|| new_run_id(home));
        let mut run = new_run(id, world, checked);
        if let Some(ApprovedPolicy { config, subject, checks }) = &checked.policy {
            let sealing = SealRequest {
                home,
                env: &world.env,
                run: &run.id,
                exclude: &run_lists::excluded_paths(home, &run),
                complexity: request.terms.complexity,
                programs: &list_programs(&checked.lists),
                deadline: Deadline::after(SEAL_TIMEOUT),
            };
            run.on_tampering = config.policy.on_tampering;
            let mut seal = contract::seal_policy(&sealing, config, subject)?;
            seal.checks.clone_from(checks);
            let verify = &mut seal.policy.verify;
            verify.may_change.extend(request.terms.may_change.iter().cloned());
            verify.accept = request.terms.accept.unwrap_or(verify.accept);
            run.seal = Some(Box::new(seal));
        }
        if store::create_run(home, &run, &files, &deadline)? {
            break run;
        }
        if request.id.is_some() {
            return Err(ControlError::RunExists(run.id));
        }
    };
    // A person starts a new run here, so an earlier cancellation of the session no longer applies.
    fs::remove_file(&home.tombstone(session.as_str()))?;
    session_pointer::write_pointer(home, session, &SessionPointer::to_run(&run.id))?;
    Ok(run)
}

fn list_programs(lists: &[SealedList]) -> Vec<Gate> {
    let checks = |(number, list): (usize, &SealedList)| work_list::check_gates(number, &list.items);
    run_lists::one_check_per_program(&lists.iter().enumerate().flat_map(checks).collect::<Vec<_>>())
}

fn new_run(id: RunId, world: &World, checked: &CheckedRequest) -> RunRecord {
    let RunRequest { session, project, terms, prompt, drive, .. } = &checked.request;
    let seals: Vec<ListSeal> = checked.lists.iter().map(|list| list.seal.clone()).collect();
    RunRecord {
        owner: Some(session.clone()),
        limits: checked.limits.clone(),
        features: terms.lists.features.clone(),
        promise: terms.promise.clone(),
        checklist: terms.lists.checklist,
        goal_bytes: terms.goal.len() as u64,
        goal_hash: (!terms.goal.is_empty()).then(|| journal::hash_bytes(&terms.goal)),
        title: checked.title.clone(),
        prompt: prompt.as_ref().and_then(|prompt| prompt.id.clone()),
        lists: seals,
        tasks: terms.lists.tasks,
        phases: terms.phases,
        transcript_length: prompt.as_ref().map_or(0, |prompt| prompt.transcript_length),
        // The host process that asks for the run, if one does.
        process: host_env::host_process(&world.env),
        drive: drive.clone(),
        host: match drive {
            Some(drive) => drive.agent.clone(),
            None => world.host.recorded_name(),
        },
        prices: checked.prices.clone(),
        ..RunRecord::new(id, project.to_string_lossy().into_owned(), clock::now_ms())
    }
}

/// A random unused id of four characters.
pub fn new_run_id(home: &RalphHome) -> RunId {
    loop {
        let mut random = clock::nonce();
        let mut id = String::new();
        for _ in 0..4 {
            id.push(char::from(ID_ALPHABET[usize::try_from(random % 32).unwrap_or_default()]));
            random /= 32;
        }
        if let Some(id) = RunId::parse(&id)
            && !fs::exists(home.run(&id).directory())
            && !fs::exists(&home.tombstone(id.as_str()))
        {
            return id;
        }
    }
}
