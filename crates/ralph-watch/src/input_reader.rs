//! Reads keys in a thread of its own, which ends before another program gets the terminal.

use crate::key_parser::KeyParser;
use crate::watch_loop::LoopEvent;
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::terminal;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the rest of a sequence may take, over a slow connection.
const ESCAPE_WAIT: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct InputReader {
    cancel: Arc<CancelToken>,
    thread: Option<JoinHandle<()>>,
}

impl InputReader {
    pub(crate) fn start(sender: Sender<LoopEvent>) -> io::Result<Self> {
        let cancel = Arc::new(CancelToken::new()?);
        let cancelled = Arc::clone(&cancel);
        let thread = std::thread::Builder::new().name("keys".to_string()).spawn(move || {
            let mut parser = KeyParser::default();
            while terminal::wait_for_input(&cancelled) {
                if send_input(&mut parser, &sender).is_err() {
                    // Fails if the loop has ended.
                    sender.send(LoopEvent::InputEnded).ok();
                    return;
                }
            }
        })?;
        Ok(Self { cancel, thread: Some(thread) })
    }
}

impl Drop for InputReader {
    fn drop(&mut self) {
        self.cancel.cancel();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn send_input(parser: &mut KeyParser, sender: &Sender<LoopEvent>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let count = terminal::read_input(&mut buffer)?;
    let mut inputs = parser.read(buffer.get(..count).unwrap_or_default());
    if parser.has_lone_escape() && !terminal::does_input_follow(ESCAPE_WAIT) {
        inputs.extend(parser.end_escape());
    }
    for input in inputs {
        if sender.send(LoopEvent::Input(input)).is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
    Ok(())
}
