//! The terminal of an interactive program: its size, its input, and the signals that a terminal sends.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::proc::cancel::CancelToken;
use crate::proc::wait::wait_readable;

/// A wait has a limit like every other; when it has passed, the wait begins again.
const WAIT_LIMIT: Duration = Duration::from_hours(1);

/// The modes of the terminal before [`take_raw_mode`]. Static, because a panic and a signal give them back too.
static FORMER_MODES: Mutex<Option<Termios>> = Mutex::new(None);

/// Lets this process read every key at once, without echo.
pub fn take_raw_mode() -> io::Result<()> {
    let former = tcgetattr(stdin())?;
    let mut raw = former.clone();
    raw.make_raw();
    tcsetattr(stdin(), OptionalActions::Now, &raw)?;
    FORMER_MODES.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(former);
    Ok(())
}

/// Gives the terminal the modes that it had. Does nothing if that was done.
pub fn give_back_modes() {
    let former = FORMER_MODES.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(former) = former {
        // Fails if the terminal is gone.
        tcsetattr(stdin(), OptionalActions::Now, &former).ok();
    }
}

/// What a signal asks an interactive program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    Resized,
    /// The person, or a program, wants the terminal back.
    Suspend,
    Continued,
    Stop,
}

/// Columns and rows of the terminal on standard output; `None` if there is none or it does not say.
pub fn terminal_size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some((size.ws_col, size.ws_row)).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// Whether a person is at both ends.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Waits until standard input can be read. Returns false on cancellation.
pub fn wait_for_input(cancel: &CancelToken) -> bool {
    loop {
        let files = [Some(cancel.wake_descriptor()), Some(stdin())];
        let [cancelled, readable] = wait_readable(files, WAIT_LIMIT);
        if cancelled || cancel.is_cancelled() {
            return false;
        }
        if readable {
            return true;
        }
    }
}

/// Whether more input arrives within this time.
pub fn does_input_follow(within: Duration) -> bool {
    let [readable] = wait_readable([Some(stdin())], within);
    readable
}

/// Reads what was typed, after [`wait_for_input`]. An end of the input is an error.
pub fn read_input(buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::read(stdin(), buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

/// Calls `on_signal` for every signal of the terminal and every request to stop. `restore` gives the terminal back; it is
/// called before a second request to stop ends this process at once.
pub fn watch_signals(
    mut on_signal: impl FnMut(TerminalSignal) + Send + 'static,
    restore: impl Fn() + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new([SIGWINCH, SIGTSTP, SIGCONT, SIGINT, SIGTERM, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        let mut is_stopping = false;
        for signal in signals.forever() {
            on_signal(match signal {
                SIGWINCH => TerminalSignal::Resized,
                SIGTSTP => TerminalSignal::Suspend,
                SIGCONT => TerminalSignal::Continued,
                _ => {
                    if is_stopping {
                        restore();
                        emulate_default_handler(signal).ok();
                    }
                    is_stopping = true;
                    TerminalSignal::Stop
                }
            });
        }
    })?;
    Ok(())
}

/// Stops this process until the shell continues it, as Ctrl-Z does.
pub fn suspend_this_process() -> io::Result<()> {
    emulate_default_handler(SIGTSTP)
}
