//! Verification by the runner itself, when the agent's process has exited or its host did not ask about a stop.

use super::{DriveError, Next, Night, WISHED};
use crate::session::{Conversation, tell_decision, tell_gates};
use crate::wishes::Wish;
use ralph_core::decide::Decision;
use ralph_core::event::Stop;
use ralph_core::facts::Driver;
use ralph_core::run::Phase;
use ralph_core::status::Status;
use ralph_git::git;
use ralph_home::store::StoreError;
use ralph_hook::contract::{progress, work};
use ralph_hook::driven::{self, DrivenError};
use ralph_sys::clock::Deadline;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(100);
const LAST_WORDS: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

impl Night<'_, '_> {
    /// Decides about the work outside of any hook. R-H2d: only this can end a driven run as verified, so a hook that
    /// dies cannot.
    pub(super) fn look(&mut self, driver: Driver) -> Result<Next, DriveError> {
        if let Phase::Ended(_) = self.ride.phase()? {
            return Ok(Next::Over);
        }
        let permille = self.open.as_ref().and_then(Conversation::permille);
        let world = self.ride.world(driver, permille).ok_or(StoreError::OutOfTime)?;
        let (stop, run) = (self.own_stop()?, self.ride.run.clone());
        self.judged = git::head(&self.ride.client.project, &Deadline::after(PATIENCE));
        let (sender, decided) = mpsc::channel();
        let decide = move || drop(sender.send(driven::decide(&world, &run, &stop)));
        // If the thread cannot be started, the channel is disconnected, which is handled below.
        drop(std::thread::Builder::new().name("look".to_string()).spawn(decide));
        let mut offset = progress::since(self.ride.home, &self.ride.run, 0).1;
        loop {
            match decided.recv_timeout(TICK) {
                Ok(decision) => {
                    tell_gates(self.ride, offset);
                    return self.decided(decision);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(StoreError::OutOfTime.into()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            offset = tell_gates(self.ride, offset);
            self.ride.watcher.tick();
            if self.ride.wish() != Wish::None {
                let next = self.park(Status::Cancelled, WISHED)?;
                drop(work::call_off(self.ride.home, &self.ride.run));
                drop(decided.recv_timeout(LAST_WORDS));
                return Ok(next);
            }
        }
    }

    fn decided(&mut self, decision: Result<Decision, DrivenError>) -> Result<Next, DriveError> {
        let decision = decision?;
        tell_decision(self.ride, &decision, None)?;
        self.by_decision(&decision)
    }

    /// The last stop that the host asked about, without pending work. The prompt is left out: with it the stop would
    /// count as a repetition of the one that was already answered.
    fn own_stop(&self) -> Result<Stop, DriveError> {
        let opened = self.ride.load()?;
        let session = opened.state.owner(&opened.run).cloned();
        let known = self.stop.as_deref().filter(|stop| stop.session == session);
        Ok(Stop {
            session: session.clone(),
            pending: Vec::new(),
            cwd: Some(self.ride.client.project.display().to_string()),
            transcript: known.and_then(|stop| stop.transcript.clone()),
            prompt: None,
            continuing: false,
            said: known.and_then(|stop| stop.said.clone()),
            trouble: None,
        })
    }
}
