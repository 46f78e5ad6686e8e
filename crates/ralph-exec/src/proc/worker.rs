//! A part of ralph that goes on working when its parent has answered.
//!
//! It is on a leash, a socket on its standard input. While its parent waits, the death of the parent is the end of
//! the worker: a person pressed ESC, and nothing may go on. Let off the leash, it belongs to nobody.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::cancel::Cancel;
use super::wait;
use crate::clock::{self, Deadline};
use crate::fs;

/// Go on in the background.
const GO_ON: u8 = b'b';
/// One byte into an empty socket takes no time.
const SEND: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// This program: [`env::this_program`](crate::env::this_program).
    pub program: &'a Path,
    pub arguments: &'a [&'a OsStr],
    /// On top of what it inherits, which is everything: it is a part of us.
    pub env: &'a [(&'a OsStr, &'a OsStr)],
    /// Gets its standard output and error; without one they lead nowhere.
    pub log: Option<&'a Path>,
}

/// The parent's end. Dropped without a word, it ends the worker.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    leash: UnixStream,
}

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error(transparent)]
    Log(#[from] fs::FileError),
    #[error("cannot start ralph once more, as `{}`", path.display())]
    Start { path: PathBuf, source: io::Error },
}

/// Starts a worker. Nothing of ours is open in it but the leash, so whoever waits for the end of our output is not
/// kept waiting by it.
#[expect(clippy::disallowed_methods, reason = "this module is part of the door")]
pub fn spawn(spec: &Spec<'_>) -> Result<Worker, SpawnError> {
    let log = spec.log.map(fs::stream).transpose()?;
    let start = || -> io::Result<Worker> {
        let (leash, theirs) = UnixStream::pair()?;
        let mut command = Command::new(spec.program);
        match log {
            Some(log) => command.stdout(log.try_clone()?).stderr(log),
            None => command.stdout(Stdio::null()).stderr(Stdio::null()),
        };
        let child = command
            .args(spec.arguments)
            .envs(spec.env.iter().copied())
            .stdin(OwnedFd::from(theirs))
            .spawn()?;
        Ok(Worker { child, leash })
    };
    start().map_err(|source| SpawnError::Start { path: spec.program.to_owned(), source })
}

impl Worker {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, or `None` when it has not by then.
    pub fn wait(&mut self, deadline: Deadline) -> io::Result<Option<ExitStatus>> {
        wait::for_child(&mut self.child, deadline)
    }

    /// Lets it off the leash: it goes on when we are gone.
    pub fn let_go(self) -> io::Result<()> {
        wait::send_all(&self.leash, &[GO_ON], Deadline::after(SEND))
    }
}

/// The worker's end.
#[derive(Debug)]
pub struct Leash {
    is_off: Arc<AtomicBool>,
}

impl Leash {
    /// To be called by the worker before it starts anything: leaves the session and the group of the parent, which
    /// may be killed as a whole, and wishes the end when the parent is gone before it let go.
    pub fn follow(cancel: &Arc<Cancel>) -> io::Result<Self> {
        // It fails for the leader of a group, and then nobody else is in it.
        rustix::process::setsid().ok();
        let is_off = Arc::new(AtomicBool::new(false));
        let leash = Self { is_off: Arc::clone(&is_off) };
        let cancel = Arc::clone(cancel);
        std::thread::Builder::new().name("leash".to_string()).spawn(move || {
            if hear() == Some(GO_ON) {
                is_off.store(true, Ordering::SeqCst);
            } else {
                cancel.wish();
            }
        })?;
        Ok(leash)
    }

    pub fn is_off(&self) -> bool {
        self.is_off.load(Ordering::SeqCst)
    }
}

/// The next byte from the parent, `None` when it is gone.
fn hear() -> Option<u8> {
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(0) => return None,
            Ok(_) => return byte.first().copied(),
            Err(Errno::INTR | Errno::AGAIN) => clock::pause(RETRY),
            Err(_) => return None,
        }
    }
}
