//! A person is told when a run has ended or needs them: once, in the ways that their own `config.toml` names.
//!
//! [`about`] belongs to the hook. It writes down what is to be told and starts a worker, which [`deliver`]s: whatever
//! a program or a server does, the hook has answered long before.

mod message;
mod way;

use crate::config::{self, ConfigError};
use crate::env;
use crate::faults::{self, Fault, Kind};
use crate::fs::{self, Durability, FileError};
use crate::proc::cancel::Cancel;
use crate::proc::worker::{self, Leash, SpawnError};
use crate::world::World;
use ralph_core::id::RunId;
use ralph_core::record::Run;
use ralph_core::status::Status;
use ralph_core::verdict::Bell;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::sync::Arc;

pub use message::Message;
pub use way::{How, Told};

/// The command and its argument that make a process the worker.
const WORKER: [&str; 2] = ["notify", "--about"];
const LARGEST: usize = 64 * 1024;

/// `[notify]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    pub ways: Vec<Way>,
    /// The ends that are told.
    pub on: Vec<Status>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// That of the terminal: the host rings it for a hook.
    Bell,
    Desktop,
    /// A program and its arguments.
    Command(Vec<String>),
    /// An `https://` address.
    Webhook(String),
}

impl Way {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Desktop => "desktop",
            Self::Command(_) => "command",
            Self::Webhook(_) => "webhook",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("`{0}` does not say what is to be told")]
    Garbled(std::path::PathBuf),
    #[error("cannot start what tells it")]
    Start(#[source] std::io::Error),
}

/// `runs/<run>/notified`
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    message: Message,
    /// `None` until somebody was told, or it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Vec<Told>>,
}

/// Tells of the end of a run, after it is on record. Returns at once, and what goes wrong is a fault. Whether the
/// bell is to ring is for whoever answers the host: a hook has no terminal, its host has.
pub fn about(world: &World, run: &Run, status: Status, because: &str) -> Bell {
    // A rehearsal tells nobody, and without a file of their own nobody wants to be told.
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

/// The worker's side.
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
    let told: Vec<Told> = others.map(|way| way::send(&world.env, way, &message, &cancel)).collect();
    for Told { way, how } in &told {
        match how {
            How::Sent | How::Skipped { .. } => {}
            How::Failed { why } => record(world, run, &format!("by {way}: {why}")),
        }
    }
    fs::replace(&path, &bytes(&Record { message, told: Some(told) }), Durability::Cached)?;
    Ok(())
}

/// A test message in every way that is configured, one after the other.
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
    let what = format!("its end was not told {why}; `ralph notify --test` tries it");
    faults::record(&world.home, &Fault::new(Kind::Notification, &what).of_run(run));
}

fn describe(error: &NotifyError) -> String {
    if let NotifyError::Config(ConfigError::Problems { first, .. }) = error
        && let Some(problem) = first.first()
    {
        return format!("because of `{}`: {}", problem.path.display(), problem.message);
    }
    format!("because of this: {}", faults::describe(error))
}

#[cfg(test)]
mod tests;
