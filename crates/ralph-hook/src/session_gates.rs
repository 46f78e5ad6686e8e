//! Holds sessions without a run, in projects with `[session] gates = "every"`.
//!
//! Every prompt notes the tree as it is. A stop does nothing if the tree is still the same, or if the agent used only
//! tools that read. Otherwise the gates judge the tree, and the decision is recorded like that of a run.

use crate::contract::{self, SealError, SealRequest};
use crate::facts;
use crate::session_memory;
use crate::session_note::{JudgedStop, NotedPrompt, SessionNote};
use crate::session_owner;
use crate::stop::{self, StopContext};
use crate::transcript_reader;
use ralph_core::decide::StopDecision;
use ralph_core::digest64::Digest64;
use ralph_core::event::{PromptEvent, PromptMoment, StopEvent};
use ralph_core::id::{RunId, SessionId};
use ralph_core::limits::RunLimits;
use ralph_core::policy::SessionGates;
use ralph_core::record::{DecisionRule, RunBase, RunOrigin, RunRecord, StopOutcome};
use ralph_core::verdict::Verdict;
use ralph_git::checkpoint::{
    CheckpointError, CheckpointReason, CheckpointRepository, CheckpointSnapshot,
};
use ralph_git::git::{self, GitState, RepositoryStatus};
use ralph_git::tree::{self, AbsentPaths, ListingError, ListingRequest, WorkTreeListing};
use ralph_home::faults::{self, Fault, FaultKind, describe_error};
use ralph_home::host_env;
use ralph_home::session_pointer;
use ralph_home::store::{self, RunFiles, StoreError};
use ralph_home::world::World;
use ralph_lists::run_lists;
use ralph_policy::config::{self, ConfigError, POLICY_FILE_NAMES, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject, TrustError};
use ralph_sys::clock;
use ralph_sys::fs::{self, FileError};
use std::path::Path;

/// The value of `[session] gates` that concerns sessions without a run. A policy without the word has another value.
const EVERY: &[u8] = b"every";
/// The key that gives such sessions a memory. A policy without the word does not.
const MEMORY: &[u8] = b"sessions";
const MAX_POLICY_BYTES: usize = ralph_core::input_bounds::MAX_POLICY_BYTES;

#[derive(Debug, thiserror::Error)]
enum SessionGateError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tree(#[from] ListingError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Seal(#[from] SealError),
}

impl SessionGateError {
    /// The error on one line, with the next step if a person can take one.
    fn describe(&self) -> String {
        match self {
            Self::Config(error) | Self::Seal(SealError::Config(error)) => format!(
                "{}; fix it, then `ralph config` checks it and `ralph trust` approves it",
                error.describe_on_one_line()
            ),
            Self::Trust(_)
            | Self::File(_)
            | Self::Store(_)
            | Self::Tree(_)
            | Self::Checkpoint(_)
            | Self::Seal(_) => describe_error(self),
        }
    }
}

/// A prompt of a session without a run: notes the tree for its gates, and gives it the memory of the project, if the
/// policy has either. A failure becomes a fault: the session is then not held.
pub fn on_prompt(world: &World, prompt: &PromptEvent, session: &SessionId) -> Verdict {
    // Sent by the host itself, about background work.
    let is_of_host = prompt.text.starts_with(world.host.own_prompt_prefix);
    if prompt.moment == PromptMoment::Expanded || is_of_host {
        return Verdict::Allow;
    }
    let directory = session_owner::project_directory(world, prompt.cwd.as_deref());
    let config = directory.map(|it| prompt_policy(world, &it)).transpose();
    let noted = config.and_then(|config| {
        let config = config.flatten();
        write_prompt_note(world, prompt, session, config.as_ref().filter(|it| holds_sessions(it)))?;
        Ok(config)
    });
    match noted {
        Ok(Some(config)) => session_memory::prompt_memory(world, prompt, session, &config),
        Ok(None) => Verdict::Allow,
        Err(error) => {
            record_fault(world, session, &error);
            Verdict::Allow
        }
    }
}

fn write_prompt_note(
    world: &World,
    prompt: &PromptEvent,
    session: &SessionId,
    config: Option<&ProjectConfig>,
) -> Result<(), SessionGateError> {
    let Some(config) = config else {
        return Ok(SessionNote::remove(&world.home, session)?);
    };
    let project = config.project.to_string_lossy().into_owned();
    let known = SessionNote::read(&world.home, session).filter(|note| note.project == project);
    if facts::find_off_switch(world, session.as_str()).is_some() {
        // Only its project is noted, for `ralph status`; the first prompt after `/ralph:on` begins it.
        let note = known.unwrap_or_else(|| SessionNote::new(project, None, NotedPrompt::default()));
        return Ok(note.write(&world.home, session)?);
    }
    let listing = list_tree(world, &config.project)?;
    // The result of a slow gate holds the next stop, whichever prompt it answers.
    let is_waiting = known.as_ref().is_some_and(|note| note.prompt.is_waiting);
    let reported_tree = known.as_ref().and_then(|note| note.reported_tree.clone());
    let identity = listing.identity();
    let (base, record) = match known {
        Some(note) if note.is_tree_known(&identity) || has_agent_written(world, prompt, &note) => {
            (note.base, note.record)
        }
        // Something else changed the tree since the agent's last stop, so the session begins anew.
        Some(_) | None => (note_base(world, session, &config.project, &listing)?, None),
    };
    let prompt = NotedPrompt {
        identity,
        transcript_length: transcript_reader::transcript_length(prompt.transcript.as_deref()),
        holds: 0,
        is_waiting,
    };
    let note = SessionNote { reported_tree, record, ..SessionNote::new(project, base, prompt) };
    Ok(note.write(&world.home, session)?)
}

/// Whether the agent may have changed the project since its last stop, as after an interrupt.
fn has_agent_written(world: &World, prompt: &PromptEvent, note: &SessionNote) -> bool {
    let transcript = prompt.transcript.as_deref();
    transcript_reader::has_writing_calls(world, transcript, note.transcript_length())
}

/// The policy that a prompt of a session without a run is answered by. In a project without a policy file, the person's
/// own settings can still ask for the memory of the project.
fn prompt_policy(
    world: &World,
    directory: &Path,
) -> Result<Option<ProjectConfig>, SessionGateError> {
    let found = session_policy(world, directory)?;
    let project = config::find_project(directory);
    let has_file = || POLICY_FILE_NAMES.iter().any(|name| fs::exists(&project.join(name)));
    let user = world.home.user_config();
    if found.is_some() || has_file() || mentions_word(&user, &[MEMORY]) != Some(true) {
        return Ok(found);
    }
    Ok(Some(config::load(&project, &world.home)?).filter(|config| config.policy.memory.sessions))
}

/// Whether a policy file has one of the words; `None` if it cannot be read.
fn mentions_word(path: &Path, words: &[&[u8]]) -> Option<bool> {
    let bytes = fs::read_if_exists(path, MAX_POLICY_BYTES).ok().flatten()?;
    Some(words.iter().any(|word| memchr::memmem::find(&bytes, word).is_some()))
}

/// The policy of the project, if it can concern sessions without a run.
fn session_policy(
    world: &World,
    directory: &Path,
) -> Result<Option<ProjectConfig>, SessionGateError> {
    let project = config::find_project(directory);
    let mentions_sessions = |path: &Path| mentions_word(path, &[EVERY, MEMORY]);
    let own = POLICY_FILE_NAMES.iter().find_map(|name| mentions_sessions(&project.join(name)));
    let Some(is_in_project) = own else { return Ok(None) };
    if !is_in_project && mentions_sessions(&world.home.user_config()) != Some(true) {
        return Ok(None);
    }
    Ok(Some(config::load(&project, &world.home)?))
}

/// The policy of the project, if its gates hold every session.
fn every_session_policy(
    world: &World,
    directory: &Path,
) -> Result<Option<ProjectConfig>, SessionGateError> {
    Ok(session_policy(world, directory)?.filter(holds_sessions))
}

/// Whether the gates of a policy hold every session. Without a file of its own, a project has no gates for that.
fn holds_sessions(config: &ProjectConfig) -> bool {
    let policy = &config.policy;
    config.file.is_some() && policy.session.gates == SessionGates::Every && !policy.gates.is_empty()
}

/// The tree that the session begins with: the commit that is checked out, or a checkpoint if something is uncommitted.
/// `None` without git.
fn note_base(
    world: &World,
    session: &SessionId,
    project: &Path,
    listing: &WorkTreeListing,
) -> Result<Option<RunBase>, SessionGateError> {
    let deadline = world.step_deadline();
    let absent = AbsentPaths::of_listing(listing).map(|paths| paths.0);
    let identity = listing.identity();
    let exclude = [world.home.root().to_path_buf()];
    match git::repository_status(project, &exclude, &deadline) {
        GitState::NotARepository => return Ok(None),
        GitState::Known(RepositoryStatus { head: Some(commit), changed_count: 0, .. }) => {
            return Ok(Some(RunBase { commit, identity, absent, outside_links: Vec::new() }));
        }
        GitState::Known(_) | GitState::Unavailable(_) => {}
    }
    let owner = RunId::of_session(Digest64::of_parts(&[session.as_str().as_bytes()]).0);
    let repository = match CheckpointRepository::open(&world.home, &owner, project, &deadline) {
        Err(CheckpointError::GitMissing) => return Ok(None),
        opened => opened?,
    };
    let snapshot =
        CheckpointSnapshot { listing, excluded: &exclude, reason: CheckpointReason::Start };
    let made = repository.create(&snapshot, &deadline)?;
    Ok(Some(RunBase {
        commit: repository.hex(&made.checkpoint.commit),
        identity,
        absent,
        outside_links: Vec::new(),
    }))
}

fn list_tree(world: &World, project: &Path) -> Result<WorkTreeListing, ListingError> {
    tree::list_work_tree(&ListingRequest {
        project,
        exclude: &[world.home.root().to_path_buf()],
        cache: Some(&tree::stat_cache_path(&world.home, project)),
        deadline: &world.step_deadline(),
    })
}

/// The verdict for a stop of a session without a run.
pub fn stop_verdict(world: &World, stop: &StopEvent, session: &SessionId) -> Verdict {
    let Some(note) = SessionNote::read(&world.home, session) else { return Verdict::Allow };
    judge_stop(world, stop, session, note).unwrap_or_else(|error| {
        record_fault(world, session, &error);
        Verdict::AllowWithNotice(format!(
            "ralph: the gates did not judge this stop: {}",
            error.describe()
        ))
    })
}

fn judge_stop(
    world: &World,
    stop: &StopEvent,
    session: &SessionId,
    note: SessionNote,
) -> Result<Verdict, SessionGateError> {
    let is_off = facts::find_off_switch(world, session.as_str()).is_some();
    if is_off {
        return Ok(Verdict::Allow);
    }
    let listing = list_tree(world, Path::new(&note.project))?;
    if !has_worked(world, stop, &note, &listing) {
        return Ok(Verdict::Allow);
    }
    let Some(config) = every_session_policy(world, Path::new(&note.project))? else {
        return Ok(Verdict::Allow);
    };
    let subject = trust::policy_subject(&world.home, &config, &world.env)?;
    if !trust::is_approved(&world.home, &subject) {
        return Ok(unapproved_notice(world, session, note, &subject)?);
    }
    let run = open_record(world, session, &note, &config, &subject)?;
    update_note(world, session, |note| note.record = Some(run.clone()))?;
    world.current_run.get_or_init(|| run.clone());
    let context = StopContext { world, stop, session, run: &run, listing: Some(&listing) };
    match stop::decide_stop(&context)? {
        Ok(decision) => {
            // A gate may have written files.
            let identity = list_tree(world, Path::new(&note.project))?.identity();
            let is_reported = note.reported_tree.as_ref() == Some(&identity);
            let transcript_length =
                transcript_reader::transcript_length(stop.transcript.as_deref());
            let judged = JudgedStop { identity, transcript_length };
            update_note(world, session, |note| settle(note, judged, &decision))?;
            // The person has seen that these gates are running.
            let is_news = decision.rule != DecisionRule::Waiting || !is_reported;
            Ok(if is_news { decision.verdict } else { Verdict::Allow })
        }
        Err(not_the_owner) => Ok(not_the_owner),
    }
}

/// Whether the agent may have changed the tree since the prompt, or a gate was still running at its last stop.
fn has_worked(
    world: &World,
    stop: &StopEvent,
    note: &SessionNote,
    listing: &WorkTreeListing,
) -> bool {
    note.prompt.is_waiting
        || listing.identity() != note.prompt.identity
            // Something else changed the tree if the agent only read.
            && transcript_reader::may_have_written(world, stop, note.prompt.transcript_length)
}

/// Applies a decision to the note. A gate that is still running is asked for again at the next stop, changed or not.
fn settle(note: &mut SessionNote, judged: JudgedStop, decision: &StopDecision) {
    let is_held = matches!(decision.outcome, StopOutcome::Blocked { .. });
    note.prompt.holds = note.prompt.holds.saturating_add(u32::from(is_held));
    if decision.outcome != StopOutcome::Repeated {
        note.prompt.is_waiting = decision.rule == DecisionRule::Waiting;
        note.reported_tree = note.prompt.is_waiting.then(|| judged.identity.clone());
    }
    note.judged = Some(judged);
}

/// Changes the note as it is now: a hook that is registered twice decides each stop in two processes.
fn update_note(
    world: &World,
    session: &SessionId,
    change: impl FnOnce(&mut SessionNote),
) -> Result<(), SessionGateError> {
    let _lock = session_pointer::lock_session(&world.home, session, &world.step_deadline())
        .map_err(StoreError::from)?;
    if let Some(mut note) = SessionNote::read(&world.home, session) {
        change(&mut note);
        note.write(&world.home, session)?;
    }
    Ok(())
}

/// Opens the record of the session under its current policy and base, or begins it.
fn open_record(
    world: &World,
    session: &SessionId,
    note: &SessionNote,
    config: &ProjectConfig,
    subject: &ApprovalSubject,
) -> Result<RunId, SessionGateError> {
    let base = note.base.as_ref().map_or("", |base| &base.identity);
    let parts = [session.as_str(), &note.project, &subject.hash, base].map(str::as_bytes);
    let id = RunId::of_session(Digest64::of_parts(&parts).0);
    if fs::exists(&world.home.run(&id).journal()) {
        return Ok(id);
    }
    let mut record = RunRecord {
        owner: Some(session.clone()),
        origin: RunOrigin::Session,
        limits: RunLimits {
            max_iterations: None,
            max_duration_ms: None,
            max_cost_micro_usd: None,
            ..RunLimits::DEFAULT
        },
        title: "gates of the session".to_string(),
        host: world.host.recorded_name(),
        transcript_length: note.prompt.transcript_length,
        process: host_env::host_process(&world.env),
        ..RunRecord::new(id.clone(), note.project.clone(), clock::now_ms())
    };
    let sealing = SealRequest {
        home: &world.home,
        env: &world.env,
        run: &id,
        exclude: &run_lists::excluded_paths(&world.home, &record),
        complexity: None,
        programs: &[],
        deadline: world.step_deadline(),
    };
    let seal = contract::seal_session(&sealing, config, subject, note.base.clone())?;
    record.seal = Some(Box::new(seal));
    let files = RunFiles { goal: b"", lists: &[] };
    store::create_run(&world.home, &record, &files, &world.step_deadline())?;
    Ok(id)
}

/// Says once per session and policy that nothing ran.
fn unapproved_notice(
    world: &World,
    session: &SessionId,
    note: SessionNote,
    subject: &ApprovalSubject,
) -> Result<Verdict, FileError> {
    if note.unapproved.as_deref() == Some(&subject.hash) {
        return Ok(Verdict::Allow);
    }
    let note = SessionNote { unapproved: Some(subject.hash.clone()), ..note };
    note.write(&world.home, session)?;
    Ok(Verdict::AllowWithNotice(
        "ralph: the gates of this project are not approved in their current form, so they hold no session; \
         `ralph trust` shows them and asks"
            .to_string(),
    ))
}

fn record_fault(world: &World, session: &SessionId, error: &SessionGateError) {
    let fault = Fault::new(FaultKind::File, &error.describe()).with_session(session);
    faults::record_fault(&world.home, &fault);
}
