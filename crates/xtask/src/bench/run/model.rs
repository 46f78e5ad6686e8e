//! A scripted model that reports requests and answers only when released, so that two of them can take turns.

use super::stage::Stage;
use anyhow::{Context, Result, bail};
use ralph_sim::scenario;
use ralph_sim::script::Script;
use ralph_sim::server::{self, Happened, Options, Pace, Server};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// Far longer than anything that is measured here.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct Model {
    /// Declared before the server, because it must be dropped first: this releases requests that still wait, without
    /// which the server cannot end.
    events: Receiver<Event>,
    pub(super) url: String,
    _server: Server,
}

enum Event {
    Asked(Asked),
    Answered { at_ns: u64 },
}

/// A request that is not answered yet.
pub(super) struct Asked {
    pub(super) at_ns: u64,
    /// Number of messages in the conversation.
    pub(super) messages: usize,
    leave: SyncSender<()>,
}

impl Model {
    /// Serves the steps of a scenario, given as TOML.
    pub(super) fn serve(stage: &Stage, steps: &str) -> Result<Self> {
        let text = format!("name = \"A model that is timed.\"\nonly = \"pretend\"\n\n{steps}");
        let script = match scenario::parse(&text, &stage.path("model.toml")) {
            Ok(scenario) => Script::new(&scenario),
            Err(mistakes) => bail!("the script has mistakes: {mistakes:?}"),
        };
        let (sender, events) = mpsc::channel();
        let observer = Box::new(move |happened| match happened {
            Happened::Asked(asked) => {
                let (leave, given) = mpsc::sync_channel(1);
                // If the receiver is gone, the request is answered at once.
                let (at_ns, messages) = (asked.at_ns, asked.messages.len());
                if sender.send(Event::Asked(Asked { at_ns, messages, leave })).is_ok() {
                    given.recv_timeout(PATIENCE).ok();
                }
            }
            Happened::Answered(answered) => {
                sender.send(Event::Answered { at_ns: answered.at_ns }).ok();
            }
        });
        let project = stage.project();
        let server =
            server::serve(script, Options { port: 0, project, pace: Pace::InOrder, observer })?;
        Ok(Self { events, url: server.url(), _server: server })
    }

    /// Waits for the next request.
    pub(super) fn asked(&self) -> Result<Asked> {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            match event.context("the model gets no more requests")? {
                Event::Asked(asked) => return Ok(asked),
                Event::Answered { .. } => {}
            }
        }
    }

    /// Releases the answer and returns its time.
    pub(super) fn answer(&self, asked: &Asked) -> Result<u64> {
        // Fails if the request timed out and was answered already.
        asked.leave.send(()).ok();
        let event = self.events.recv_timeout(PATIENCE);
        match event.context("the model does not answer")? {
            Event::Answered { at_ns } => Ok(at_ns),
            Event::Asked(_) => bail!("the model got two requests at once"),
        }
    }

    /// The time from an answer to the next request.
    pub(super) fn turn(&self, asked: &mut Asked) -> Result<Duration> {
        let answered = self.answer(asked)?;
        *asked = self.asked()?;
        Ok(Duration::from_nanos(asked.at_ns.saturating_sub(answered)))
    }
}
