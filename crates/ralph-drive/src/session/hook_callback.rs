//! Incoming hook callbacks: which are answered at once, and which are decided first.

use super::hook_answer::{self, CallbackAnswer, CallbackKind};
use super::{
    AgentConversation, COST_REQUEST, ConversationEvent, MOST_ANSWERS, PendingStop, SessionError,
    StopHandling,
};
use crate::run_context::RunContext;
use crate::stop_requests::StopRequest;
use crate::turn_ending;
use ralph_core::facts::StopDriver;
use ralph_core::record::{DecisionRule, StopOutcome as Charged};
use ralph_host::HookReply;
use ralph_sys::clock::Stopwatch;

impl AgentConversation {
    /// Handles a callback. A stop is decided only after the client's current cost is known.
    pub(super) fn handle_callback(
        &mut self,
        ctx: &mut RunContext<'_>,
        what: CallbackKind,
        (request, input): (String, String),
    ) {
        if self.answering.len() >= MOST_ANSWERS {
            self.allow_callback(&request);
            return;
        }
        if what == CallbackKind::Stop {
            self.facts.stop_asked(&request);
            if ctx.stop_request() != StopRequest::None
                || self.stop_handling == StopHandling::Allow
                || self.is_decision_final()
            {
                self.allow_callback(&request);
                return;
            }
            if self.pending_stop.is_some() {
                self.spawn_decision(ctx, what, (request, input));
                return;
            }
            let (input, since) = (input, Stopwatch::start());
            self.pending_stop = Some(PendingStop { request, input, since });
            let cost = self.next_request_id(COST_REQUEST);
            self.send(&(self.stream.session_cost_request)(&cost));
            return;
        }
        self.spawn_decision(ctx, what, (request, input));
    }

    /// Whether an earlier decision in this turn was final. Another stop in the same turn means that another hook holds
    /// the agent.
    fn is_decision_final(&self) -> bool {
        let outcome = self.decision.as_ref().map(|decision| &decision.outcome);
        matches!(outcome, Some(Charged::Ended(_) | Charged::HandedOver))
    }

    /// Decides the pending stop, once the cost is known or the client failed to report it.
    pub(super) fn decide_pending_stop(
        &mut self,
        ctx: &mut RunContext<'_>,
    ) -> Result<(), SessionError> {
        let Some(PendingStop { request, input, .. }) = self.pending_stop.take() else {
            return Ok(());
        };
        let so_far = self.tally.estimate_so_far();
        self.record_cost(ctx, Some(so_far))?;
        self.spawn_decision(ctx, CallbackKind::Stop, (request, input));
        Ok(())
    }

    /// Decides on a separate thread, because gates take time.
    fn spawn_decision(
        &mut self,
        ctx: &mut RunContext<'_>,
        what: CallbackKind,
        (request, input): (String, String),
    ) {
        let world = ctx.world(StopDriver::Runner, self.context_permille());
        let (sender, run) = (self.sender.clone(), ctx.run.clone());
        self.answering.insert(request.clone(), what);
        let named = request.clone();
        let answer = move || {
            let answer = hook_answer::answer_callback(&world, &run, request, &input);
            drop(sender.send(ConversationEvent::Answered(Box::new(answer))));
        };
        let thread = std::thread::Builder::new().name("answer".to_string()).spawn(answer);
        if thread.is_err() {
            self.answering.remove(&named);
            self.allow_callback(&named);
        }
    }

    /// Answers a callback without a decision. The client waits for an answer to every callback.
    fn allow_callback(&mut self, request: &str) {
        self.facts.stop_answered(request, turn_ending::StopAnswer::LetGo);
        self.send(&(self.stream.hook_answer)(request, &HookReply::default()));
    }

    pub(super) fn handle_answer(
        &mut self,
        ctx: &mut RunContext<'_>,
        answer: CallbackAnswer,
    ) -> Result<(), SessionError> {
        self.answering.remove(&answer.request);
        self.send(&answer.line);
        // The time that gates took does not count as silence of the agent.
        self.since_activity = Stopwatch::start();
        if answer.what != CallbackKind::Stop {
            return Ok(());
        }
        self.follow_gates(ctx)?;
        if let Some(decision) = &answer.decision {
            let is_held =
                matches!(decision.outcome, Charged::Blocked { .. } | Charged::Awaited { .. });
            let said = if is_held {
                turn_ending::StopAnswer::Held
            } else {
                turn_ending::StopAnswer::LetGo
            };
            self.facts.stop_answered(&answer.request, said);
            self.emit_stop_decision(ctx, decision)?;
        }
        let is_settled = answer.decision.as_ref().is_some_and(|decision| {
            matches!(decision.outcome, Charged::Ended(_) | Charged::HandedOver)
                || decision.rule == DecisionRule::FinalLook
        });
        self.since_settled =
            is_settled.then(|| self.since_settled.take().unwrap_or_else(Stopwatch::start));
        self.decision = answer.decision;
        self.last_stop = answer.stop.or(self.last_stop.take());
        Ok(())
    }
}
