//! Notifies a person, once, when a run has ended or needs them, by the channels that their own `config.toml` names.
//!
//! The hook calls [`announce_end`], which records the message and starts a worker. The worker calls
//! [`deliver_notification`], so a slow program or server never delays the hook's answer.

mod channels;
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
use std::path::Path;
use std::sync::Arc;

pub use channels::{NotificationResult, NotificationStatus};
pub use message::NotificationMessage;

/// The subcommand and option that start the worker.
const WORKER_COMMAND: [&str; 2] = ["notify", "--about"];
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

/// `runs/<run>/notified`
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
    // A rehearsal sends nothing, and notifications need a user configuration file.
    if world.env.is_rehearsal() || !fs::exists(&world.home.user_config()) {
        return false;
    }
    let begun = config::load_notify(&world.home).map_err(NotifyError::from).and_then(|notify| {
        if notify.channels.is_empty() || !notify.statuses.contains(&status) {
            return Ok(false);
        }
        start_delivery(
            world,
            run,
            &notify,
            &NotificationMessage::for_run(&world.env, run, status, because),
        )
    });
    begun.unwrap_or_else(|error| {
        record_failure(world, &run.id, &describe_notify_error(&error));
        false
    })
}

fn start_delivery(
    world: &World,
    run: &RunRecord,
    notify: &NotifySettings,
    message: &NotificationMessage,
) -> Result<bool, NotifyError> {
    let path = world.home.run(&run.id).notification();
    let record = NotificationRecord { message: message.clone(), told: None };
    if !fs::create_new(&path, &record_bytes(&path, &record)?)? {
        return Ok(false);
    }
    let bell = notify.channels.contains(&NotifyChannel::Bell);
    if notify.channels.iter().all(|way| *way == NotifyChannel::Bell) {
        return Ok(bell);
    }
    if let Err(error) = start_worker(run) {
        record_failure(world, &run.id, &describe_notify_error(&error));
    }
    Ok(bell)
}

fn start_worker(run: &RunRecord) -> Result<(), NotifyError> {
    let program = env::own_executable();
    let [command, option] = WORKER_COMMAND.map(OsStr::new);
    let worker = worker::spawn_worker(&worker::WorkerSpec {
        program: &program,
        arguments: &[command, option, run.id.as_str().as_ref()],
        env: &[],
        log: None,
    })?;
    worker.detach().map_err(NotifyError::Start)
}

/// Runs in the worker: sends the recorded message. Errors become faults.
pub fn deliver_notification(world: &World, run: &RunId) {
    if let Err(error) = try_deliver(world, run) {
        record_failure(world, run, &describe_notify_error(&error));
    }
}

fn try_deliver(world: &World, run: &RunId) -> Result<(), NotifyError> {
    let path = world.home.run(run).notification();
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
                record_failure(world, run, &format!("by {way}: {why}"));
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

fn record_failure(world: &World, run: &RunId, why: &str) {
    let what = format!("its end was not announced {why}; `ralph notify --test` sends a test");
    faults::record_fault(&world.home, &Fault::new(FaultKind::Notification, &what).with_run(run));
}

fn describe_notify_error(error: &NotifyError) -> String {
    if let NotifyError::Config(ConfigError::Problems { first, .. }) = error
        && let Some(problem) = first.first()
    {
        return format!("because of `{}`: {}", problem.path.display(), problem.message);
    }
    format!("because of an error: {}", faults::describe_error(error))
}

#[cfg(test)]
mod tests;
