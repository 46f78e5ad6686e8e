//! The bell of the terminal that this process belongs to.

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};

/// Why nothing was to be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    NoTerminal,
    /// A terminal can be told to stop whoever writes to it from the background, and then we would stand still.
    StopsUs,
    /// It takes nothing at the moment.
    Busy,
}

impl Silent {
    pub fn why(self) -> &'static str {
        match self {
            Self::NoTerminal => "there is no terminal",
            Self::StopsUs => "the terminal stops programs in the background that write to it",
            Self::Busy => "the terminal takes nothing at the moment",
        }
    }
}

/// Does not wait: a terminal that is held with Ctrl-S is left alone.
pub fn ring_bell() -> Result<(), Silent> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = open("/dev/tty", flags, Mode::empty()).map_err(|_| Silent::NoTerminal)?;
    let modes = tcgetattr(&terminal).map_err(|_| Silent::NoTerminal)?.local_modes;
    let in_front = tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp());
    if modes.contains(LocalModes::TOSTOP) && !in_front {
        return Err(Silent::StopsUs);
    }
    match rustix::io::write(&terminal, b"\x07") {
        Ok(1..) => Ok(()),
        Ok(0) | Err(_) => Err(Silent::Busy),
    }
}
