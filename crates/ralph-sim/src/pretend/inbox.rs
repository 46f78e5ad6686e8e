//! Whatever reaches the client from elsewhere, in the order in which it does: lines of its driver's, tools that end,
//! signals.

use ralph_sys::proc::job::Finished;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// A longer line ends the conversation.
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum Event {
    Line(Value),
    /// Nothing more will be heard, because the input ended or was none.
    Closed,
    /// A line that is no JSON object; nothing is heard after it.
    Garbled,
    /// The command that the agent waits for.
    Tool(Box<Finished>),
    /// A command in the background, by its id.
    Task(String, Box<Finished>),
    Signal(Signal),
}

/// Why the process is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Interrupt,
    Terminate,
}

pub(super) struct Inbox {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

/// For whoever has something to tell the client.
#[derive(Clone, Debug)]
pub struct Bell(Sender<Event>);

impl Bell {
    pub fn signal(&self, signal: Signal) {
        self.ring(Event::Signal(signal));
    }

    pub(super) fn ring(&self, event: Event) {
        // Nobody listens once the client has ended.
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

    /// `None` when nothing came in time.
    pub(super) fn next(&self, wait: Option<Duration>) -> Option<Event> {
        match wait {
            // There is always a sender: this one.
            None => Some(self.receiver.recv().unwrap_or(Event::Closed)),
            Some(wait) => match self.receiver.recv_timeout(wait) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Disconnected) => Some(Event::Closed),
                Err(RecvTimeoutError::Timeout) => None,
            },
        }
    }
}

/// Hears the driver until it has nothing more to say.
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

/// `None` for a line without anything on it.
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
