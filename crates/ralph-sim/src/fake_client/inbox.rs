//! A queue of everything that reaches the client from outside: lines of the driver, finished commands and signals.

use ralph_sys::proc::job::JobResult;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Maximum length of a line. A longer one is invalid.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) enum InboxEvent {
    Line(Value),
    /// The input ended or could not be read.
    Closed,
    /// A line that is not a JSON object. No input is read after it.
    Invalid,
    /// The foreground command finished.
    Tool(Box<JobResult>),
    /// A background command finished, with its id.
    Task(String, Box<JobResult>),
    Signal(ExitSignal),
}

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitSignal {
    Interrupt,
    Terminate,
}

pub(super) struct ClientInbox {
    sender: Sender<InboxEvent>,
    receiver: Receiver<InboxEvent>,
}

/// A handle that adds events to the inbox.
#[derive(Clone, Debug)]
pub struct InboxSender(Sender<InboxEvent>);

impl InboxSender {
    pub fn send_signal(&self, signal: ExitSignal) {
        self.send(InboxEvent::Signal(signal));
    }

    pub(super) fn send(&self, event: InboxEvent) {
        // The receiver is gone once the client has ended.
        self.0.send(event).ok();
    }
}

impl ClientInbox {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { sender, receiver }
    }

    pub(super) fn sender(&self) -> InboxSender {
        InboxSender(self.sender.clone())
    }

    /// Returns `None` if no event arrives in time.
    pub(super) fn next(&self, wait: Option<Duration>) -> Option<InboxEvent> {
        match wait {
            // Never disconnected, because `self` holds a sender.
            None => Some(self.receiver.recv().unwrap_or(InboxEvent::Closed)),
            Some(wait) => match self.receiver.recv_timeout(wait) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Disconnected) => Some(InboxEvent::Closed),
                Err(RecvTimeoutError::Timeout) => None,
            },
        }
    }
}

/// Reads the driver's lines on a thread, until the input ends.
pub(super) fn spawn_reader(input: impl Read + Send + 'static, bell: InboxSender) {
    std::thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            match read_event(&mut input) {
                Some(InboxEvent::Line(value)) => bell.send(InboxEvent::Line(value)),
                Some(event) => return bell.send(event),
                None => {}
            }
        }
    });
}

/// Reads one line. Returns `None` for a blank one.
fn read_event(input: &mut impl BufRead) -> Option<InboxEvent> {
    let mut bytes = Vec::new();
    let read = input.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes);
    if read.is_err() || bytes.is_empty() {
        return Some(InboxEvent::Closed);
    }
    if bytes.trim_ascii().is_empty() {
        return None;
    }
    let value = serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object);
    Some(value.map_or(InboxEvent::Invalid, InboxEvent::Line))
}
