//! Incoming hook callbacks: which are answered at once, and which are decided first.

use super::answer::{self, Answer, What};
use super::{Asking, COST, Conversation, Event, MOST_ANSWERS, Manner, SessionError};
use crate::ending;
use crate::ride::Ride;
use crate::wire;
use crate::wishes::Wish;
use ralph_core::facts::Driver;
use ralph_core::record::{Outcome as Charged, Rule};
use ralph_sys::clock::Stopwatch;

impl Conversation {
    /// Handles a callback. A stop is decided only after the client's current cost is known.
    pub(super) fn ask(
        &mut self,
        ctx: &mut Ride<'_>,
        what: What,
        (request, input): (String, String),
    ) {
        if self.answering.len() >= MOST_ANSWERS {
            self.send(&wire::answer(&request, b"{}"));
            return;
        }
        if what == What::Stop {
            self.facts.asked(&request);
            if ctx.wish() != Wish::None || self.manner == Manner::Quiet || self.is_final() {
                self.facts.answered(&request, ending::Answer::LetGo);
                self.send(&wire::answer(&request, b"{}"));
                return;
            }
            if self.asking.is_some() {
                self.decide(ctx, what, (request, input));
                return;
            }
            let (input, since) = (input, Stopwatch::start());
            self.asking = Some(Asking { request, input, since });
            let cost = self.request(COST);
            self.send(&wire::session_cost(&cost));
            return;
        }
        self.decide(ctx, what, (request, input));
    }

    /// Whether an earlier decision in this turn was final. Another stop in the same turn means that another hook holds
    /// the agent.
    fn is_final(&self) -> bool {
        let outcome = self.decision.as_ref().map(|decision| &decision.outcome);
        matches!(outcome, Some(Charged::Ended(_) | Charged::HandedOver))
    }

    /// Decides the pending stop, once the cost is known or the client failed to report it.
    pub(super) fn go_on_asking(&mut self, ctx: &mut Ride<'_>) -> Result<(), SessionError> {
        let Some(Asking { request, input, .. }) = self.asking.take() else { return Ok(()) };
        let so_far = self.tally.so_far();
        self.meter(ctx, Some(so_far))?;
        self.decide(ctx, What::Stop, (request, input));
        Ok(())
    }

    /// Decides on a separate thread, because gates take time.
    fn decide(&mut self, ctx: &mut Ride<'_>, what: What, (request, input): (String, String)) {
        let Some(world) = ctx.world(Driver::Runner, self.permille()) else { return };
        let (sender, run) = (self.sender.clone(), ctx.run.clone());
        self.answering.insert(request.clone(), what);
        let named = request.clone();
        let answer = move || {
            let answer = answer::answer(&world, &run, request, &input);
            drop(sender.send(Event::Answered(Box::new(answer))));
        };
        let thread = std::thread::Builder::new().name("answer".to_string()).spawn(answer);
        if thread.is_err() {
            self.answering.remove(&named);
            self.send(&wire::answer(&named, b"{}"));
        }
    }

    pub(super) fn answered(
        &mut self,
        ctx: &mut Ride<'_>,
        answer: Answer,
    ) -> Result<(), SessionError> {
        self.answering.remove(&answer.request);
        self.send(&answer.line);
        // The time that gates took does not count as silence of the agent.
        self.heard = Stopwatch::start();
        if answer.what != What::Stop {
            return Ok(());
        }
        self.watch_gates(ctx);
        if let Some(decision) = &answer.decision {
            let is_held =
                matches!(decision.outcome, Charged::Blocked { .. } | Charged::Awaited { .. });
            let said = if is_held { ending::Answer::Held } else { ending::Answer::LetGo };
            self.facts.answered(&answer.request, said);
            self.told_decision(ctx, decision)?;
        }
        let is_settled = answer.decision.as_ref().is_some_and(|decision| {
            matches!(decision.outcome, Charged::Ended(_) | Charged::HandedOver)
                || decision.rule == Rule::FinalLook
        });
        self.settled = is_settled.then(|| self.settled.take().unwrap_or_else(Stopwatch::start));
        self.decision = answer.decision;
        self.stop = answer.stop.or(self.stop.take());
        Ok(())
    }
}
