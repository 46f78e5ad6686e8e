//! A scripted model that reports requests and answers only when released, so that two of them can take turns.

use super::runner_stage::RunnerStage;
use anyhow::{Context, Result, bail};
use ralph_sim::scenario;
use ralph_sim::script::ModelScript;
use ralph_sim::server::{self, ModelEvent, ModelServer, ModelServerOptions, ScriptPace};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// Far longer than anything that is measured here.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct TimedModel {
    /// Declared before the server, because it must be dropped first: this releases requests that still wait, without
    /// which the server cannot end.
    events: Receiver<TimedModelEvent>,
    pub(super) url: String,
    _server: ModelServer,
}

enum TimedModelEvent {
    Asked(TimedModelRequest),
    Answered { at_ns: u64 },
}

/// A request that is not answered yet.
pub(super) struct TimedModelRequest {
    pub(super) at_ns: u64,
    /// Number of messages in the conversation.
    pub(super) messages: usize,
    release: SyncSender<()>,
}

impl TimedModel {
    /// Serves the steps of a scenario, given as TOML.
    pub(super) fn serve(stage: &RunnerStage, steps: &str) -> Result<Self> {
        let text = format!("name = \"A model that is timed.\"\nonly = \"pretend\"\n\n{steps}");
        let script = match scenario::parse(&text, &stage.path("model.toml")) {
            Ok(scenario) => ModelScript::new(&scenario),
            Err(mistakes) => bail!("the script has mistakes: {mistakes:?}"),
        };
        let (sender, events) = mpsc::channel();
        let observer = Box::new(move |happened| match happened {
            ModelEvent::Requested(asked) => {
                let (leave, given) = mpsc::sync_channel(1);
                // If the receiver is gone, the request is answered at once.
                let (at_ns, messages) = (asked.at_ns, asked.messages.len());
                if sender
                    .send(TimedModelEvent::Asked(TimedModelRequest {
                        at_ns,
                        messages,
                        release: leave,
                    }))
                    .is_ok()
                {
                    given.recv_timeout(PATIENCE).ok();
                }
            }
            ModelEvent::Answered(answered) => {
                sender.send(TimedModelEvent::Answered { at_ns: answered.at_ns }).ok();
            }
        });
        let project = stage.project();
        let server = server::serve(
            script,
            ModelServerOptions { port: 0, project, pace: ScriptPace::InOrder, observer },
        )?;
        Ok(Self { events, url: server.url(), _server: server })
    }

    /// Waits for the next request.
    pub(super) fn next_request(&self) -> Result<TimedModelRequest> {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            match event.context("the model gets no more requests")? {
                TimedModelEvent::Asked(asked) => return Ok(asked),
                TimedModelEvent::Answered { .. } => {}
            }
        }
    }

    /// Releases the answer and returns its time.
    pub(super) fn release_answer(&self, asked: &TimedModelRequest) -> Result<u64> {
        // Fails if the request timed out and was answered already.
        asked.release.send(()).ok();
        let event = self.events.recv_timeout(PATIENCE);
        match event.context("the model does not answer")? {
            TimedModelEvent::Answered { at_ns } => Ok(at_ns),
            TimedModelEvent::Asked(_) => bail!("the model got two requests at once"),
        }
    }

    /// The time from an answer to the next request.
    pub(super) fn time_turn(&self, asked: &mut TimedModelRequest) -> Result<Duration> {
        let answered = self.release_answer(asked)?;
        *asked = self.next_request()?;
        Ok(Duration::from_nanos(asked.at_ns.saturating_sub(answered)))
    }
}
