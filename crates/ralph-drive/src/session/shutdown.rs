//! End of an agent's process: its notes for the next session, its final cost and its exit.

use super::{
    AgentConversation, COST_REQUEST, ConversationEvent, EXIT_TIMEOUT, KILL_GRACE, NOTES_TIMEOUT,
    SHOWN_ERRORS, SessionError, StopHandling, TICK,
};
use crate::run_context::RunContext;
use crate::stop_requests::StopRequest;
use crate::turn_ending::{self, TurnEnding};
use ralph_core::text;
use ralph_hook::contract::gate_worker;
use ralph_host::stream::StreamLine;
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Short, because a client that hangs does not answer.
const FINAL_COST_TIMEOUT: Duration = Duration::from_secs(1);

impl AgentConversation {
    /// Asks the agent for notes for the next session, within a time limit.
    pub(crate) fn request_notes(
        &mut self,
        ctx: &mut RunContext<'_>,
    ) -> Result<Option<String>, SessionError> {
        self.stop_handling = StopHandling::Allow;
        self.last_text = None;
        self.activity.has_result = false;
        self.facts = self.facts.next_turn();
        self.send(&(self.stream.user_message)(crate::session_prompts::notes_request(), None));
        let deadline = Deadline::after(NOTES_TIMEOUT);
        while !self.is_turn_over()
            && !deadline.has_passed()
            && ctx.stop_request() == StopRequest::None
        {
            match self.events.recv_timeout(TICK) {
                Ok(ConversationEvent::Line(line)) => self.handle_line(ctx, &line)?,
                Ok(ConversationEvent::Answered(answer)) => self.handle_answer(ctx, *answer)?,
                Ok(ConversationEvent::End) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => ctx.watcher.tick(),
            }
        }
        self.stop_handling = StopHandling::Decide;
        let is_good =
            self.activity.has_result && turn_ending::classify_turn(&self.facts) == TurnEnding::Done;
        Ok(self.last_text.take().filter(|_| is_good))
    }

    /// Lets the process exit by itself, and terminates it if it does not.
    pub(crate) fn shut_down(mut self, ctx: &mut RunContext<'_>) -> Result<(), SessionError> {
        self.talk.close_input();
        if !self.exits_within(EXIT_TIMEOUT) {
            self.talk.terminate();
            self.exits_within(KILL_GRACE);
        }
        self.release(ctx)
    }

    /// Terminates the process and everything that it started.
    pub(crate) fn terminate(mut self, ctx: &mut RunContext<'_>) -> Result<(), SessionError> {
        drop(gate_worker::cancel_task(ctx.home, &ctx.run));
        self.query_final_cost();
        self.talk.terminate();
        self.exits_within(KILL_GRACE);
        let metered = self.tally.charge_unfinished_turn();
        self.record_cost(ctx, metered)?;
        self.release(ctx)
    }

    /// Queries the cost once more, because a process that is terminated in the middle of a turn sends no result.
    fn query_final_cost(&mut self) {
        if self.has_exited() {
            return;
        }
        let cost = self.next_request_id(COST_REQUEST);
        self.send(&(self.stream.session_cost_request)(&cost));
        let deadline = Deadline::after(FINAL_COST_TIMEOUT);
        while let Ok(event) = self.events.recv_timeout(deadline.remaining()) {
            let ConversationEvent::Line(line) = event else { continue };
            let StreamLine::Answered { request, answer } = (self.stream.parse_line)(&line) else {
                continue;
            };
            if request == cost {
                if let Some(micro_usd) =
                    answer.ok().as_deref().and_then(self.stream.parse_session_cost)
                {
                    self.tally.set_turn_total(micro_usd);
                }
                return;
            }
        }
    }

    fn release(self, ctx: &mut RunContext<'_>) -> Result<(), SessionError> {
        drop(self.talk);
        ctx.emit_progress(None)?;
        Ok(())
    }

    /// Asks the process itself: the end-of-stream event may already have been consumed.
    fn has_exited(&mut self) -> bool {
        matches!(self.talk.wait(Deadline::after(Duration::ZERO)), Ok(Some(_)))
    }

    fn exits_within(&mut self, wait: Duration) -> bool {
        if self.has_exited() {
            return true;
        }
        let deadline = Deadline::after(wait);
        while !deadline.has_passed() {
            match self.events.recv_timeout(deadline.remaining()) {
                Ok(ConversationEvent::End) | Err(RecvTimeoutError::Disconnected) => return true,
                // Output and answers no longer matter.
                Ok(ConversationEvent::Line(_) | ConversationEvent::Answered(_)) => {}
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        false
    }

    /// The process's stderr as one line, for people.
    pub(crate) fn stderr_excerpt(ctx: &RunContext<'_>) -> Option<String> {
        let bytes = fs::read_range(&ctx.home.run(&ctx.run).agent_errors(), 0, 64 * 1024).ok()?;
        let said = ctx.redactor.redact(&String::from_utf8_lossy(&bytes));
        let said = text::clean_line(said.trim(), SHOWN_ERRORS);
        (!said.is_empty()).then_some(said)
    }
}
