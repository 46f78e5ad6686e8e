//! Rings the bell of the terminal that controls this process.

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};

/// Why the bell was not rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BellFailure {
    NoTerminal,
    /// The terminal is configured (`stty tostop`) to stop background processes that write to it.
    WouldStopProcess,
    /// The terminal does not accept output right now.
    Busy,
}

impl BellFailure {
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoTerminal => "there is no terminal",
            Self::WouldStopProcess => "the terminal stops background processes that write to it",
            Self::Busy => "the terminal does not accept output right now",
        }
    }
}

/// Never blocks: a terminal that is paused with Ctrl-S is left alone.
pub fn ring_bell() -> Result<(), BellFailure> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = open("/dev/tty", flags, Mode::empty()).map_err(|_| BellFailure::NoTerminal)?;
    let modes = tcgetattr(&terminal).map_err(|_| BellFailure::NoTerminal)?.local_modes;
    let in_front = tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp());
    if modes.contains(LocalModes::TOSTOP) && !in_front {
        return Err(BellFailure::WouldStopProcess);
    }
    match rustix::io::write(&terminal, b"\x07") {
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => Err(BellFailure::Busy),
    }
}
