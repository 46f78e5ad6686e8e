//! Verification by the runner itself, when the agent's process has exited or its host did not ask about a stop.

use super::{DriveError, NextStep, RunLoop, STOPPED_BY_SIGNAL};
use crate::session::{AgentConversation, emit_decision, emit_gate_progress};
use crate::stop_requests::StopRequest;
use ralph_core::decide::StopDecision;
use ralph_core::event::StopEvent;
use ralph_core::facts::StopDriver;
use ralph_core::run::RunPhase;
use ralph_core::status::RunStatus;
use ralph_git::git;
use ralph_home::store::StoreError;
use ralph_hook::contract::{gate_log, gate_worker};
use ralph_hook::runner::{self, RunnerStateError};
use ralph_sys::clock::Deadline;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
const DECISION_GRACE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

impl RunLoop<'_, '_> {
    /// Decides about the work outside of any hook. R-H2d: only this can end a driven run as verified, so a hook that
    /// dies cannot.
    pub(super) fn verify_work(&mut self, driver: StopDriver) -> Result<NextStep, DriveError> {
        if let RunPhase::Ended(_) = self.ctx.phase()? {
            return Ok(NextStep::Over);
        }
        let permille = self.conversation.as_ref().and_then(AgentConversation::context_permille);
        let world = self.ctx.world(driver, permille);
        let (stop, run) = (self.synthetic_stop()?, self.ctx.run.clone());
        self.verified_head = git::head_commit(&self.ctx.client.project, &Deadline::after(PATIENCE));
        let (sender, decided) = mpsc::channel();
        let decide = move || drop(sender.send(runner::decide_driven_stop(&world, &run, &stop)));
        // If the thread cannot be started, the channel is disconnected, which is handled below.
        drop(std::thread::Builder::new().name("look".to_string()).spawn(decide));
        let known = gate_log::read_gate_log(self.ctx.home, &self.ctx.run, 0);
        let mut offset = known.map_err(StoreError::File)?.1;
        loop {
            match decided.recv_timeout(TICK) {
                Ok(decision) => {
                    emit_gate_progress(self.ctx, offset)?;
                    return self.after_decision(decision);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(StoreError::TimedOut.into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            offset = emit_gate_progress(self.ctx, offset)?;
            self.ctx.watcher.tick();
            if self.ctx.stop_request() != StopRequest::None {
                let next = self.park(RunStatus::Cancelled, STOPPED_BY_SIGNAL)?;
                drop(gate_worker::cancel_task(self.ctx.home, &self.ctx.run));
                drop(decided.recv_timeout(DECISION_GRACE));
                return Ok(next);
            }
        }
    }

    fn after_decision(
        &mut self,
        decision: Result<StopDecision, RunnerStateError>,
    ) -> Result<NextStep, DriveError> {
        let decision = decision?;
        emit_decision(self.ctx, &decision, None)?;
        self.apply_decision(&decision)
    }

    /// The last stop that the host asked about, without pending work. The prompt is left out: with it the stop would
    /// count as a repetition of the one that was already answered.
    fn synthetic_stop(&self) -> Result<StopEvent, DriveError> {
        let opened = self.ctx.load()?;
        let session = opened.state.owner(&opened.run).cloned();
        let known = self.last_stop.as_deref().filter(|stop| stop.session == session);
        Ok(StopEvent {
            session: session.clone(),
            pending: Vec::new(),
            cwd: Some(self.ctx.client.project.display().to_string()),
            transcript: known.and_then(|stop| stop.transcript.clone()),
            prompt: None,
            continuing: false,
            last_message: known.and_then(|stop| stop.last_message.clone()),
            trouble: None,
        })
    }
}
