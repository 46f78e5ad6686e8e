//! Handles signals, mostly those that ask a long-running command to stop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::cancel::CancelToken;
use crate::os;

/// Cancels `cancel` at the first SIGINT, SIGTERM or SIGHUP. The second one ends this process at once, and with it every
/// job, because the supervisors notice that we are gone.
pub fn cancel_on_stop_signals(cancel: &Arc<CancelToken>) -> io::Result<()> {
    let mut signals = Signals::new(stop_signals_not_ignored()?)?;
    let cancel = Arc::clone(cancel);
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        for signal in signals.forever() {
            if cancel.is_cancelled() {
                emulate_default_handler(signal).ok();
            }
            cancel.cancel();
        }
    })?;
    Ok(())
}

/// Counts signals that ask us to stop, for callers that have something to finish first. SIGINT counts once; SIGTERM and
/// SIGHUP count twice, because their senders do not wait long. The third signal ends this process at once.
pub fn count_stop_signals(counter: &Arc<AtomicU32>) -> io::Result<()> {
    let mut signals = Signals::new(stop_signals_not_ignored()?)?;
    let counter = Arc::clone(counter);
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        for (earlier, signal) in signals.forever().enumerate() {
            if earlier >= 2 {
                emulate_default_handler(signal).ok();
            }
            let weight = if signal == SIGINT { 1 } else { 2 };
            counter.fetch_add(weight, Ordering::SeqCst);
        }
    })?;
    Ok(())
}

/// A signal to be forwarded to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedSignal {
    Interrupt,
    Terminate,
}

/// Calls `on_signal` for every SIGINT and SIGTERM, neither of which then ends this process.
pub fn forward_signals(
    mut on_signal: impl FnMut(ForwardedSignal) + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        for signal in signals.forever() {
            on_signal(if signal == SIGINT {
                ForwardedSignal::Interrupt
            } else {
                ForwardedSignal::Terminate
            });
        }
    })?;
    Ok(())
}

/// The stop signals that are not ignored. A signal that was ignored when we started, by `nohup` or by `&` in a script,
/// stays ignored, so it is an error if that cannot be known.
fn stop_signals_not_ignored() -> io::Result<impl Iterator<Item = i32>> {
    let ignored = os::ignored_signal_mask().ok_or(io::ErrorKind::Unsupported)?;
    let is_heard = move |signal: &i32| ignored >> (signal - 1) & 1 == 0;
    Ok([SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard))
}

/// Ends this process as SIGKILL does, without any cleanup.
pub fn kill_this_process() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::KILL)?)
}

/// Makes a write to a closed pipe fail instead of ending this process, which may still have to clean up. Child
/// processes keep the default behaviour.
pub fn survive_broken_pipes() -> io::Result<()> {
    signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Makes sure that exit statuses of children can be collected. Some hosts start us with SIGCHLD ignored, and then the
/// system discards the statuses.
pub(super) fn keep_child_statuses() {
    // Any handler will do, so the flag is unused. Child processes start with the default behaviour.
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false))).ok();
}
