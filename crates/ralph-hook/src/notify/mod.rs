//! Notifies a person, once, when a run has ended or needs them, by the channels that their own `config.toml` names.
//!
//! The hook calls [`announce_end`], which records the message and starts a worker. The worker calls
//! [`deliver_notification`], so a slow program or server never delays the hook's answer.

mod message;
mod way;

use ralph_core::id::RunId;
use ralph_core::record::Run;
use ralph_core::status::Status;
use ralph_core::verdict::Bell;
use ralph_home::faults::{self, Fault, Kind};
use ralph_home::world::World;
use ralph_policy::config::{self, ConfigError};
use ralph_policy::notify_config::{Notify, Way};
use ralph_sys::env;
use ralph_sys::fs::{self, Durability, FileError};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::worker::{self, Leash, SpawnError};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::sync::Arc;

pub use message::Message;
pub use way::{How, Told};

/// The subcommand and option that start the worker.
const WORKER: [&str; 2] = ["notify", "--about"];
const LARGEST: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("`{0}` is not a valid notification record")]
    Garbled(std::path::PathBuf),
    #[error("cannot set up the notification worker")]
    Start(#[source] std::io::Error),
}

/// `runs/<run>/notified`
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    message: Message,
    /// The result of each channel; `None` until the worker has tried them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Vec<Told>>,
}

/// Announces the end of a run after it is recorded. Returns immediately; errors become faults.
///
/// The returned [`TerminalBell`] is for the caller to pass to the host: a hook has no terminal, but its host does.
pub fn about(world: &World, run: &Run, status: Status, because: &str) -> Bell {
    // A rehearsal sends nothing, and notifications need a user configuration file.
    if world.env.is_rehearsal() || !fs::exists(&world.home.user_config()) {
        return Bell::Silent;
    }
    let begun = config::notify(&world.home).map_err(NotifyError::from).and_then(|notify| {
        if notify.ways.is_empty() || !notify.on.contains(&status) {
            return Ok(Bell::Silent);
        }
        begin(world, run, &notify, &Message::of(&world.env, run, status, because))
    });
    begun.unwrap_or_else(|error| {
        record(world, &run.id, &describe(&error));
        Bell::Silent
    })
}

fn begin(
    world: &World,
    run: &Run,
    notify: &Notify,
    message: &Message,
) -> Result<Bell, NotifyError> {
    let bytes = bytes(&Record { message: message.clone(), told: None });
    if !fs::create_new(&world.home.run(&run.id).notified(), &bytes)? {
        return Ok(Bell::Silent);
    }
    let bell = if notify.ways.contains(&Way::Bell) { Bell::Rings } else { Bell::Silent };
    if notify.ways.iter().all(|way| *way == Way::Bell) {
        return Ok(bell);
    }
    if let Err(error) = start_worker(run) {
        record(world, &run.id, &describe(&error));
    }
    Ok(bell)
}

fn start_worker(run: &Run) -> Result<(), NotifyError> {
    let program = env::this_program();
    let [command, option] = WORKER.map(OsStr::new);
    let worker = worker::spawn(&worker::Spec {
        program: &program,
        arguments: &[command, option, run.id.as_str().as_ref()],
        env: &[],
        log: None,
    })?;
    worker.let_go().map_err(NotifyError::Start)
}

/// Runs in the worker: sends the recorded message. Errors become faults.
pub fn deliver(world: &World, run: &RunId) {
    if let Err(error) = try_deliver(world, run) {
        record(world, run, &describe(&error));
    }
}

fn try_deliver(world: &World, run: &RunId) -> Result<(), NotifyError> {
    let path = world.home.run(run).notified();
    let Record { message, told } = serde_json::from_slice(&fs::read(&path, LARGEST)?)
        .map_err(|_| NotifyError::Garbled(path.clone()))?;
    if told.is_some() {
        return Ok(());
    }
    let cancel = Cancel::new().map(Arc::new).map_err(NotifyError::Start)?;
    Leash::follow(&cancel).map_err(NotifyError::Start)?;
    let ways = config::notify(&world.home)?.ways;
    let others = ways.iter().filter(|way| **way != Way::Bell);
    let results: Vec<Told> =
        others.map(|way| way::send(&world.env, way, &message, &cancel)).collect();
    for Told { way, how } in &results {
        match how {
            How::Sent | How::Skipped { .. } => {}
            How::Failed { why } => record(world, run, &format!("by {way}: {why}")),
        }
    }
    fs::replace(&path, &bytes(&Record { message, told: Some(results) }), Durability::Cached)?;
    Ok(())
}

/// Sends a test message by every configured channel, one after the other.
pub fn test(world: &World) -> Result<Vec<Told>, NotifyError> {
    let ways = config::notify(&world.home)?.ways;
    let cancel = Cancel::new().map_err(NotifyError::Start)?;
    let message = Message::test();
    Ok(ways.iter().map(|way| way::send(&world.env, way, &message, &cancel)).collect())
}

fn bytes(record: &Record) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

fn record(world: &World, run: &RunId, why: &str) {
    let what = format!("its end was not announced {why}; `ralph notify --test` sends a test");
    faults::record(&world.home, &Fault::new(Kind::Notification, &what).of_run(run));
}

fn describe(error: &NotifyError) -> String {
    if let NotifyError::Config(ConfigError::Problems { first, .. }) = error
        && let Some(problem) = first.first()
    {
        return format!("because of `{}`: {}", problem.path.display(), problem.message);
    }
    format!("because of an error: {}", faults::describe(error))
}

#[cfg(test)]
mod tests;
