//! Periodic checks while the agent works: stop requests, answers of a person, time limits, and silence.

use super::{
    AgentConversation, ListenEnd, NudgeState, POLL_INTERVAL, PendingQuestion, SessionError,
    hook_answer::CallbackKind,
};
use crate::backoff;
use crate::call_summary;
use crate::run_context::RunContext;
use crate::run_event::RunEvent;
use crate::stop_requests::StopRequest;
use ralph_core::drive::{RunnerEvent, SilenceResponse};
use ralph_core::run::RunPhase;
use ralph_host::stream;
use ralph_sys::clock::{self, Deadline, Stopwatch};
use std::time::Duration;

/// An agent that is allowed to stop sends its result within moments.
const RESULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to read the rest of the output after the process has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

impl AgentConversation {
    pub(super) fn ask_person(
        &mut self,
        ctx: &mut RunContext<'_>,
        asked: stream::ToolPermissionRequest,
    ) -> Result<(), SessionError> {
        let what = call_summary::describe_call(&asked.gist, &ctx.client.project, &ctx.redactor);
        let text =
            asked.question.unwrap_or_else(|| format!("may the agent use {}: {what}", asked.tool));
        let text = ctx.redactor.redact(&text);
        let until_ms = clock::now_ms().saturating_add(ctx.settings.question_ms);
        let hints = ctx.load()?.state.hints.len();
        ctx.record_question(&text, until_ms)?;
        ctx.emit(&RunEvent::Question { text: text.clone(), until_ms });
        self.question = Some(PendingQuestion { request: asked.request, text, until_ms, hints });
        Ok(())
    }

    pub(super) fn tick(
        &mut self,
        ctx: &mut RunContext<'_>,
    ) -> Result<Option<ListenEnd>, SessionError> {
        ctx.watcher.tick();
        ctx.acknowledge_stop_request();
        if ctx.stop_request() == StopRequest::Now {
            return Ok(Some(ListenEnd::StopRequested));
        }
        if self.since_settled.as_ref().is_some_and(|since| since.elapsed() > RESULT_TIMEOUT)
            && let Some(decision) = self.decision.take()
        {
            return Ok(Some(ListenEnd::Settled(Box::new(decision))));
        }
        if self.answering.values().any(|what| *what == CallbackKind::Stop) {
            self.follow_gates(ctx)?;
            // A stop request does not wait for gates.
            if ctx.stop_request() == StopRequest::AfterTurn {
                return Ok(Some(ListenEnd::StopRequested));
            }
        }
        if self.since_poll.elapsed() < POLL_INTERVAL {
            return Ok(None);
        }
        self.since_poll = Stopwatch::start();
        if self.has_exited_and_drained() {
            return self.after_exit(ctx).map(Some);
        }
        if self.answering.is_empty() && is_over_time(ctx)? {
            return Ok(Some(ListenEnd::TimeLimit));
        }
        if let Some(why) = self.window_exhausted(ctx)? {
            return Ok(Some(ListenEnd::WindowExhausted(why)));
        }
        match ctx.phase()? {
            RunPhase::Active | RunPhase::Orphaned => self.since_pause = None,
            // The agent's next stop is allowed.
            RunPhase::Paused { .. } => {
                if self.outlasts_pause(ctx) {
                    return Ok(Some(ListenEnd::Paused));
                }
            }
            // A decision that was just made is reported at the end of the turn.
            RunPhase::Ended(_) if self.since_settled.is_some() || !self.answering.is_empty() => {}
            RunPhase::Ended(_) => return Ok(Some(ListenEnd::Cancelled)),
        }
        if self.question.is_some() {
            return self.check_for_answer(ctx);
        }
        self.check_silence(ctx)
    }

    /// Whether the turn lasts too long after a pause. The run's clock stands still then, so the turn needs its own limit.
    fn outlasts_pause(&mut self, ctx: &mut RunContext<'_>) -> bool {
        if self.since_pause.is_none() {
            ctx.note("pausing after this turn");
        }
        let since = self.since_pause.get_or_insert_with(Stopwatch::start);
        since.elapsed() > Duration::from_millis(ctx.settings.idle_ms)
    }

    fn window_exhausted(&self, ctx: &RunContext<'_>) -> Result<Option<String>, SessionError> {
        if self.window_use.is_empty() {
            return Ok(None);
        }
        let driving = ctx.load()?.state.driving;
        Ok(backoff::window_exhausted(&self.window_use, &ctx.retry_context(&driving)))
    }

    /// Whether the process has exited. Another process may still hold its stdout open, so that no end of file is read.
    fn has_exited_and_drained(&mut self) -> bool {
        match self.talk.wait(Deadline::after(Duration::ZERO)) {
            Ok(Some(_)) => {
                self.since_exit.get_or_insert_with(Stopwatch::start).elapsed() > DRAIN_TIMEOUT
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Passes on a person's answer, given with `ralph tell`, or ends the wait when its time is up.
    fn check_for_answer(
        &mut self,
        ctx: &mut RunContext<'_>,
    ) -> Result<Option<ListenEnd>, SessionError> {
        let Some(question) = self.question.take() else { return Ok(None) };
        let hints = ctx.load()?.state.hints;
        if let Some(said) = hints.get(question.hints..).filter(|said| !said.is_empty()) {
            let message = format!("A person answered: {}", said.join("\n"));
            let permit = stream::PermissionReply::Deny { message: &message };
            self.send(&(self.stream.permission_response)(&question.request, permit));
            self.since_activity = Stopwatch::start();
            return Ok(None);
        }
        if clock::now_ms() < question.until_ms {
            self.question = Some(question);
            return Ok(None);
        }
        Ok(Some(ListenEnd::Unanswered(question.text)))
    }

    fn check_silence(
        &mut self,
        ctx: &mut RunContext<'_>,
    ) -> Result<Option<ListenEnd>, SessionError> {
        let after = Duration::from_millis(ctx.settings.idle_ms);
        if self.since_activity.elapsed() < after
            || !self.answering.is_empty()
            || self.pending_stop.is_some()
        {
            return Ok(None);
        }
        let after_ms = ctx.settings.idle_ms;
        let done = match self.nudge {
            NudgeState::NotSent => SilenceResponse::Nudged,
            NudgeState::Sent => SilenceResponse::Restarted,
        };
        ctx.record(RunnerEvent::Silent { after_ms, done })?;
        ctx.emit(&RunEvent::Silent { after_ms, done });
        if self.nudge == NudgeState::Sent {
            return Ok(Some(ListenEnd::Silent));
        }
        self.nudge = NudgeState::Sent;
        self.since_activity = Stopwatch::start();
        self.activity.background = 0;
        self.send(&(self.stream.user_message)(crate::session_prompts::nudge_message(), None));
        Ok(None)
    }
}

/// Whether the run's time limit is reached, so that even a turn that never ends is bounded.
fn is_over_time(ctx: &RunContext<'_>) -> Result<bool, SessionError> {
    let opened = ctx.load()?;
    let most = opened.state.limits(&opened.run).max_duration_ms;
    Ok(most.is_some_and(|most| opened.state.elapsed_ms(clock::now_ms()) >= most))
}
