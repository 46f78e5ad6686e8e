//! A queue of everything that reaches the client from outside: lines of the driver, finished commands and signals.

use ralph_sys::proc::job::Finished;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Maximum length of a line. A longer one is invalid.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum Event {
    Line(Value),
    /// The input ended or could not be read.
    Closed,
    /// A line that is not a JSON object. No input is read after it.
    Garbled,
    /// The foreground command finished.
    Tool(Box<Finished>),
    /// A background command finished, with its id.
    Task(String, Box<Finished>),
    Signal(Signal),
}

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
}

pub(super) struct Inbox {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

/// A handle that adds events to the inbox.
#[derive(Clone, Debug)]
pub struct Bell(Sender<Event>);

impl Bell {
    pub fn signal(&self, signal: Signal) {
        self.ring(Event::Signal(signal));
    }

    pub(super) fn ring(&self, event: Event) {
        // The receiver is gone once the client has ended.
        self.0.send(event).ok();
    }
}

impl Inbox {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    pub(super) fn bell(&self) -> Bell {
        Bell(self.sender.clone())
    }

    /// Returns `None` if no event arrives in time.
    pub(super) fn next(&self, wait: Option<Duration>) -> Option<Event> {
        match wait {
            // Never disconnected, because `self` holds a sender.
            None => Some(self.receiver.recv().unwrap_or(Event::Closed)),
            Some(wait) => match self.receiver.recv_timeout(wait) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Disconnected) => Some(Event::Closed),
                Err(RecvTimeoutError::Timeout) => None,
            },
        }
    }
}

/// Reads the driver's lines on a thread, until the input ends.
pub(super) fn listen(input: impl Read + Send + 'static, bell: Bell) {
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            match line(&mut input) {
                Some(Event::Line(value)) => bell.ring(Event::Line(value)),
                Some(event) => return bell.ring(event),
                None => {}
            }
        }
    });
}

/// Reads one line. Returns `None` for a blank one.
fn line(input: &mut impl BufRead) -> Option<Event> {
    let mut bytes = Vec::new();
    let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes);
    if read.is_err() || bytes.is_empty() {
        return Some(Event::Closed);
    }
    if bytes.trim_ascii().is_empty() {
        return None;
    }
    let value = serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object);
    Some(value.map_or(Event::Garbled, Event::Line))
}
