//! Signals that ask a long-lived command to end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::cancel::Cancel;
use crate::fs;

const STATUS_CAP: usize = 64 * 1024;

/// Turns the first of SIGINT, SIGTERM and SIGHUP into a wish to end. The second ends us at once, and with us every
/// job, whose supervisor sees that we are gone.
pub fn wish_on_signals(cancel: &Arc<Cancel>) -> io::Result<()> {
    let mut signals = Signals::new(heard())?;
    let cancel = Arc::clone(cancel);
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        for signal in signals.forever() {
            if cancel.is_wished() {
                emulate_default_handler(signal).ok();
            }
            cancel.wish();
        }
    })?;
    Ok(())
}

/// Counts what asks us to end, for who has something to finish first: SIGINT once, SIGTERM and SIGHUP twice, because
/// whoever sends those does not wait for long. The third signal ends us at once, whatever the first two were.
pub fn count(counter: &Arc<AtomicU32>) -> io::Result<()> {
    let mut signals = Signals::new(heard())?;
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

/// What a process that stands for another one is told by signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Interrupt,
    Terminate,
}

/// Passes on every SIGINT and SIGTERM, neither of which then ends us.
pub fn pass_on(mut hear: impl FnMut(Told) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        for signal in signals.forever() {
            hear(if signal == SIGINT { Told::Interrupt } else { Told::Terminate });
        }
    })?;
    Ok(())
}

/// What we were told to ignore stays ignored: `nohup`, `&` in a script.
fn heard() -> impl Iterator<Item = i32> {
    let status = fs::read(Path::new("/proc/self/status"), STATUS_CAP).unwrap_or_default();
    let ignored = ignored(&status);
    let is_heard = move |signal: &i32| ignored.is_none_or(|mask| mask >> (signal - 1) & 1 == 0);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(is_heard)
}

/// Lets us outlive whoever reads what we print, when there is something to clear away: a write then fails instead of
/// ending us. Programs that we start end as usual.
pub fn outlive_readers() -> io::Result<()> {
    signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Lets us be told how children end. Somebody who starts us with SIGCHLD ignored, as some hosts do, takes that away:
/// the system then forgets them as they end.
pub(super) fn hear_of_children() {
    // What it says is not needed: that it is listened to is enough. Programs that we start hear of theirs as usual.
    signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false))).ok();
}

/// The mask of ignored signals in `/proc/<pid>/status`.
fn ignored(status: &[u8]) -> Option<u64> {
    let status = std::str::from_utf8(status).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_found_among_the_others() {
        let status = b"Name:\tralph\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000000003\n";
        assert_eq!(ignored(status), Some(3));
        assert_eq!(ignored(b"Name:\tralph\n"), None);
        assert_eq!(ignored(b"SigIgn:\tx\n"), None);
    }
}
