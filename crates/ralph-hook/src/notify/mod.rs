//! Notifies a person, once, when a run has ended or needs them, by the channels that their own `config.toml` names.
//!
//! The hook calls [`announce_end`] and the runner [`announce_question`], which record the message and start a worker. The worker calls
//! [`deliver_notification`], so a slow program or server never delays the hook's answer.

mod channels;
mod export_worker;
mod message;

use ralph_core::id::RunId;
use ralph_core::record::RunRecord;
use ralph_core::status::RunStatus;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::world::World;
use ralph_policy::config::{self, ConfigError};
use ralph_policy::notify_config::{NotifyChannel, NotifySettings};
use ralph_sys::env;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::worker::{self, ParentLink, WorkerSpawnError};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use channels::{NotificationResult, NotificationStatus, post_json};
pub use message::NotificationMessage;

const MAX_RECORD_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Spawn(#[from] WorkerSpawnError),
    #[error("`{0}` is not a valid notification record")]
    Garbled(std::path::PathBuf),
    #[error("cannot set up the notification worker")]
    Start(#[source] std::io::Error),
}

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifiedEvent {
    /// The end of the run.
    End,
    /// A question, by the number of the journal entry that asked it.
    Question(u64),
}

impl NotifiedEvent {
    fn record(self, world: &World, run: &RunId) -> PathBuf {
        let files = world.home.run(run);
        match self {
            Self::End => files.notification(),
            Self::Question(seq) => files.question_notification(seq),
        }
    }

    /// The command line of the worker that sends it.
    fn worker_words(self, run: &RunId) -> Vec<String> {
        let mut words = vec!["notify".to_string(), "--about".to_string(), run.to_string()];
        if let Self::Question(seq) = self {
            words.extend(["--question".to_string(), seq.to_string()]);
        }
        words
    }

    fn noun(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Question(_) => "question",
        }
    }
}

/// `runs/<run>/notified`, or `runs/<run>/asked-<seq>`
#[derive(Debug, Serialize, Deserialize)]
struct NotificationRecord {
    #[serde(flatten)]
    message: NotificationMessage,
    /// The result of each channel; `None` until the worker has tried them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Vec<NotificationResult>>,
}

/// Announces the end of a run after it is recorded. Returns immediately; errors become faults.
///
/// Returns whether to ring the terminal bell, which the caller passes to the host: a hook has no terminal, but its host does.
pub fn announce_end(world: &World, run: &RunRecord, status: RunStatus, because: &str) -> bool {
    export_worker::export_after_end(world, &run.id);
    announce(world, run, NotifiedEvent::End, |notify| {
        let is_wanted = notify.statuses.contains(&status);
        is_wanted.then(|| NotificationMessage::for_end(&world.env, run, status, because))
    })
}

/// Announces that a run was parked, after it is recorded, as [`announce_end`] announces an end. `next` is what a person can
/// do next.
pub fn announce_parked(
    world: &World,
    run: &RunRecord,
    status: RunStatus,
    because: &str,
    next: String,
) -> bool {
    export_worker::export_after_end(world, &run.id);
    announce(world, run, NotifiedEvent::End, |notify| {
        let is_wanted = notify.statuses.contains(&status);
        let message = || NotificationMessage::for_halt(&world.env, run, status, because, next);
        is_wanted.then(message)
    })
}

/// Announces a question that a run waits for, after it is recorded as the journal entry `seq`. Returns immediately;
/// errors become faults.
pub fn announce_question(world: &World, run: &RunRecord, seq: u64, question: &str, until_ms: u64) {
    let _bell = announce(world, run, NotifiedEvent::Question(seq), |notify| {
        let is_wanted = notify.notifies_questions;
        is_wanted.then(|| NotificationMessage::for_question(&world.env, run, question, until_ms))
    });
}

fn announce(
    world: &World,
    run: &RunRecord,
    event: NotifiedEvent,
    message: impl FnOnce(&NotifySettings) -> Option<NotificationMessage>,
) -> bool {
    // A rehearsal sends nothing, and notifications need a user configuration file.
    if world.env.is_rehearsal() || !fs::exists(&world.home.user_config()) {
        return false;
    }
    let begun = config::load_notify(&world.home).map_err(NotifyError::from).and_then(|notify| {
        if notify.channels.is_empty() {
            return Ok(false);
        }
        let Some(message) = message(&notify) else { return Ok(false) };
        start_delivery(world, run, event, &notify, &message)
    });
    begun.unwrap_or_else(|error| {
        record_failure(world, &run.id, event, &describe_notify_error(&error));
        false
    })
}

fn start_delivery(
    world: &World,
    run: &RunRecord,
    event: NotifiedEvent,
    notify: &NotifySettings,
    message: &NotificationMessage,
) -> Result<bool, NotifyError> {
    let path = event.record(world, &run.id);
    let record = NotificationRecord { message: message.clone(), told: None };
    if !fs::create_new(&path, &record_bytes(&path, &record)?)? {
        return Ok(false);
    }
    let bell = notify.channels.contains(&NotifyChannel::Bell);
    if notify.channels.iter().all(|way| *way == NotifyChannel::Bell) {
        return Ok(bell);
    }
    if let Err(error) = start_worker(&event.worker_words(&run.id)) {
        record_failure(world, &run.id, event, &describe_notify_error(&error));
    }
    Ok(bell)
}

/// Starts this program again with these arguments, in the background.
pub(crate) fn start_worker(words: &[String]) -> Result<(), NotifyError> {
    let program = env::own_executable();
    let words: Vec<_> = words.iter().map(OsStr::new).collect();
    let worker = worker::spawn_worker(&worker::WorkerSpec {
        program: &program,
        arguments: &words,
        env: &[],
        log: None,
    })?;
    worker.detach().map_err(NotifyError::Start)
}

/// Runs in the worker: sends the recorded message. Errors become faults.
pub fn deliver_notification(world: &World, run: &RunId, event: NotifiedEvent) {
    if let Err(error) = try_deliver(world, run, event) {
        record_failure(world, run, event, &describe_notify_error(&error));
    }
}

fn try_deliver(world: &World, run: &RunId, event: NotifiedEvent) -> Result<(), NotifyError> {
    let path = event.record(world, run);
    let NotificationRecord { message, told } =
        serde_json::from_slice(&fs::read(&path, MAX_RECORD_BYTES)?)
            .map_err(|_| NotifyError::Garbled(path.clone()))?;
    if told.is_some() {
        return Ok(());
    }
    let cancel = CancelToken::new().map(Arc::new).map_err(NotifyError::Start)?;
    ParentLink::attach(&cancel).map_err(NotifyError::Start)?;
    let ways = config::load_notify(&world.home)?.channels;
    let others = ways.iter().filter(|way| **way != NotifyChannel::Bell);
    let results: Vec<NotificationResult> =
        others.map(|way| channels::send_by_channel(&world.env, way, &message, &cancel)).collect();
    for NotificationResult { way, how } in &results {
        match how {
            NotificationStatus::Sent | NotificationStatus::Skipped { .. } => {}
            NotificationStatus::Failed { why } => {
                record_failure(world, run, event, &format!("by {way}: {why}"));
            }
        }
    }
    let record = NotificationRecord { message, told: Some(results) };
    fs::replace(&path, &record_bytes(&path, &record)?, Durability::Cached)?;
    Ok(())
}

/// Sends a test message by every configured channel, one after the other.
pub fn send_test_message(world: &World) -> Result<Vec<NotificationResult>, NotifyError> {
    let ways = config::load_notify(&world.home)?.channels;
    let cancel = CancelToken::new().map_err(NotifyError::Start)?;
    let message = NotificationMessage::test();
    Ok(ways
        .iter()
        .map(|way| channels::send_by_channel(&world.env, way, &message, &cancel))
        .collect())
}

fn record_bytes(path: &Path, record: &NotificationRecord) -> Result<Vec<u8>, FileError> {
    let mut bytes = fs::encode_json(path, record)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn record_failure(world: &World, run: &RunId, event: NotifiedEvent, why: &str) {
    let event = event.noun();
    let what = format!("its {event} was not announced {why}; `ralph notify --test` sends a test");
    faults::record_fault(&world.home, &Fault::new(FaultKind::Notification, &what).with_run(run));
}

pub(crate) fn describe_notify_error(error: &NotifyError) -> String {
    if let NotifyError::Config(ConfigError::Problems { first, .. }) = error
        && let Some(problem) = first.first()
    {
        return format!("because of `{}`: {}", problem.path.display(), problem.message);
    }
    format!("because of an error: {}", faults::describe_error(error))
}

#[cfg(test)]
mod tests;
