//! Background workers: ralph processes that can continue after their parent has answered.
//!
//! A worker has a socket to its parent as standard input. While it is attached, it stops when the parent dies: the user
//! has pressed ESC, and nothing may continue. Once detached, it is independent of the parent.

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

use super::cancel::CancelToken;
use super::wait;
use crate::clock::{self, Deadline};
use crate::fs;

/// The message that detaches a worker.
const DETACH: u8 = b'b';
/// Sending one byte into an empty socket takes no time.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub struct WorkerSpec<'a> {
    /// The ralph executable: [`env::own_executable`](crate::env::own_executable).
    pub program: &'a Path,
    pub arguments: &'a [&'a OsStr],
    /// Variables to add. A worker inherits the whole environment, because it is part of ralph.
    pub env: &'a [(&'a OsStr, &'a OsStr)],
    /// Receives its standard output and error; without one they are discarded.
    pub log: Option<&'a Path>,
}

/// The parent's side. Dropping it without detaching stops the worker.
#[derive(Debug)]
pub struct WorkerHandle {
    child: Child,
    socket: UnixStream,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkerSpawnError {
    #[error(transparent)]
    Log(#[from] fs::FileError),
    #[error("cannot start ralph's helper process `{}`", path.display())]
    Start { path: PathBuf, source: io::Error },
}

/// Starts a worker. It inherits no descriptor of ours but the socket, so it does not delay a process that waits for the
/// end of our output.
#[expect(clippy::disallowed_methods, reason = "only this module may call it")]
pub fn spawn_worker(spec: &WorkerSpec<'_>) -> Result<WorkerHandle, WorkerSpawnError> {
    let log = spec.log.map(fs::create_output_file).transpose()?;
    let start = || -> io::Result<WorkerHandle> {
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
        Ok(WorkerHandle { child, socket: leash })
    };
    start().map_err(|source| WorkerSpawnError::Start { path: spec.program.to_owned(), source })
}

impl WorkerHandle {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, or `None` if it is still running at the deadline.
    pub fn wait(&mut self, deadline: Deadline) -> io::Result<Option<ExitStatus>> {
        wait::wait_for_child(&mut self.child, deadline)
    }

    /// Detaches the worker, which then continues after this process has exited. One that has already ended needs nothing.
    pub fn detach(self) -> io::Result<()> {
        match wait::send_all(&self.socket, &[DETACH], Deadline::after(SEND_TIMEOUT)) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }
}

/// The worker's side.
#[derive(Debug)]
pub struct ParentLink {
    is_detached: Arc<AtomicBool>,
}

impl ParentLink {
    /// Must be called by the worker before it starts any process. Leaves the session and process group of the parent,
    /// which may be killed as a whole, and cancels `cancel` if the parent dies before it detaches the worker.
    pub fn attach(cancel: &Arc<CancelToken>) -> io::Result<Self> {
        // Fails for a process group leader, which is not in the parent's group anyway.
        rustix::process::setsid().ok();
        let is_off = Arc::new(AtomicBool::new(false));
        let leash = Self { is_detached: Arc::clone(&is_off) };
        let cancel = Arc::clone(cancel);
        std::thread::Builder::new().name("leash".to_string()).spawn(move || {
            if read_message() == Some(DETACH) {
                is_off.store(true, Ordering::SeqCst);
            } else {
                cancel.cancel();
            }
        })?;
        Ok(leash)
    }

    pub fn is_detached(&self) -> bool {
        self.is_detached.load(Ordering::SeqCst)
    }
}

/// The next byte from the parent, or `None` if it has exited.
fn read_message() -> Option<u8> {
    let mut byte = [0];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut byte) {
            Ok(0) => return None,
            Ok(_) => return byte.first().copied(),
            Err(Errno::INTR | Errno::AGAIN) => clock::sleep(RETRY_INTERVAL),
            Err(_) => return None,
        }
    }
}
