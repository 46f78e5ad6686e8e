//! Writes the simulated client's events to the transcript.
//!
//! A write error ends the simulation, but not in the middle of a turn: [`SimulatedClient`] keeps the first one.

use super::client_process::SimulatedClient;
use super::conversation::SimulatedConversation;
use super::event_outcome::{EventOutcome, HandlerAnswer};
use super::tool_calls::{ToolInvocation, ToolOutcome};
use crate::client_ids;
use crate::hook_answer::{AddedContext, BlockForm, HookVerdict};
use crate::model_answer;
use crate::scenario::ScriptedTurn;
use crate::transcript::{
    self, AnswerBlock, AttachedHookOutput, HookAttachmentKind, StopHookInfo, StopHookSummary,
    WrittenAnswer, WrittenToolOutcome, WrittenToolResult,
};
use serde_json::Value;

/// Writes the attachments for all hook answers to an event.
pub(super) fn record_hooks(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    outcome: &EventOutcome,
) {
    let id = client_ids::new_uuid();
    for answered in &outcome.answers {
        for attached in hook_attachments(answered) {
            let answered = transcript::HookAttachment {
                event: outcome.event(),
                name: outcome.name(),
                tool_use_id: &id,
                kind: attached.to_attachment(),
            };
            let wrote = chat.transcript.write_attachment(&answered);
            host.note_write(wrote);
        }
    }
}

enum OwnedAttachment<'a> {
    Success(&'a str, AttachedHookOutput<'a>),
    Blocking(&'a str, &'a str),
    /// With the client's error message.
    Failed(String, AttachedHookOutput<'a>),
    Cancelled(&'a str, u64),
    Stopped(&'a str),
    Context([String; 1]),
    Message(&'a str),
}

impl OwnedAttachment<'_> {
    fn to_attachment(&self) -> HookAttachmentKind<'_> {
        match self {
            Self::Success(content, ended) => HookAttachmentKind::Success { content, ended: *ended },
            Self::Blocking(reason, command) => {
                HookAttachmentKind::BlockingError { reason, command }
            }
            Self::Failed(stderr, ended) => HookAttachmentKind::NonBlockingError {
                ended: AttachedHookOutput { stderr, ..*ended },
            },
            Self::Cancelled(command, duration_ms) => HookAttachmentKind::Cancelled {
                command,
                duration_ms: *duration_ms,
                timeout_ms: Some(*duration_ms),
            },
            Self::Stopped(message) => HookAttachmentKind::StoppedContinuation { message },
            Self::Context(content) => HookAttachmentKind::AdditionalContext { content },
            Self::Message(content) => HookAttachmentKind::SystemMessage { content },
        }
    }
}

fn hook_attachments(answered: &HandlerAnswer) -> Vec<OwnedAttachment<'_>> {
    let handled = &answered.result;
    let ended = AttachedHookOutput {
        command: &answered.command,
        stdout: &handled.stdout,
        stderr: &handled.stderr,
        exit_code: answered.answer.exit_code,
        duration_ms: handled.ms,
    };
    let mut list = Vec::new();
    match &answered.answer.verdict {
        HookVerdict::Block { reason, form: BlockForm::Json } => {
            list.push(OwnedAttachment::Blocking(reason, &answered.command));
        }
        HookVerdict::Failed(failure) => {
            list.push(OwnedAttachment::Failed(failure.message(&answered.command), ended));
        }
        HookVerdict::Invalid(fault) => list.push(OwnedAttachment::Failed(fault.message(), ended)),
        HookVerdict::TimedOut => {
            list.push(OwnedAttachment::Cancelled(&answered.command, handled.ms))
        }
        HookVerdict::Block { form: BlockForm::ExitTwo, .. }
        | HookVerdict::Allow
        | HookVerdict::Detached => {}
    }
    if let Some(stop) = &answered.answer.stop {
        list.push(OwnedAttachment::Stopped(stop.reason.as_deref().unwrap_or_default()));
    }
    match (&answered.answer.context, &answered.delivered_context) {
        (Some(AddedContext::Stdout(_)), Some(text)) => {
            list.push(OwnedAttachment::Success(text, ended))
        }
        (Some(AddedContext::Additional(_)), Some(text)) => {
            list.push(OwnedAttachment::Context([text.clone()]))
        }
        (Some(_), None) | (None, _) => {}
    }
    if let Some(text) = &answered.answer.system_message {
        list.push(OwnedAttachment::Message(text));
    }
    list
}

/// Writes the hook answers of a stop and, as the client does for the main conversation, their summary.
pub(super) fn record_stop(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    outcome: &EventOutcome,
) {
    record_hooks(host, chat, outcome);
    if chat.agent.is_some() || outcome.answers.is_empty() {
        return;
    }
    let errors: Vec<String> =
        outcome.blocking_answers().iter().map(|answered| answered.feedback()).collect();
    let infos = outcome.answers.iter().map(|answered| StopHookInfo {
        command: answered.command.clone(),
        duration_ms: Some(answered.result.ms),
    });
    let infos: Vec<StopHookInfo> = infos.collect();
    let contexts = outcome.contexts();
    let wrote = chat.transcript.write_stop_summary(&StopHookSummary {
        tool_use_id: &client_ids::new_uuid(),
        infos: &infos,
        errors: &errors,
        context: &contexts,
        stopped: outcome.continue_false().map(|stop| stop.reason.as_deref().unwrap_or_default()),
        has_output: !errors.is_empty() || !contexts.is_empty(),
    });
    host.note_write(wrote);
}

pub(super) fn record_answer(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    turn: &ScriptedTurn,
) {
    let calls: Vec<(String, (String, Value))> = turn
        .tools
        .iter()
        .enumerate()
        .map(|(place, call)| {
            (
                model_answer::tool_use_id(host.requests, place),
                model_answer::tool_use(call, &host.stage.project),
            )
        })
        .collect();
    let text = (!turn.text.is_empty()).then_some(AnswerBlock::Text { text: &turn.text });
    let uses = calls.iter().map(|(id, (name, input))| AnswerBlock::ToolUse { id, name, input });
    let blocks: Vec<AnswerBlock<'_>> = text.into_iter().chain(uses).collect();
    let model = host.model();
    let wrote = chat.transcript.write_answer(&WrittenAnswer {
        id: &model_answer::message_id(host.requests),
        request: &model_answer::request_id(host.requests),
        model: &model,
        blocks: &blocks,
        stop_reason: model_answer::stop_reason(turn),
        usage: turn.usage,
    });
    host.note_write(wrote);
}

pub(super) fn record_tool_result(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    call: &ToolInvocation,
    done: &ToolOutcome,
) {
    let (text, outcome) = match done {
        ToolOutcome::Ran { response, text } => (text, WrittenToolOutcome::Done(response)),
        ToolOutcome::Failed { text } => (text, WrittenToolOutcome::Failed),
        ToolOutcome::Denied { text } => (text, WrittenToolOutcome::Denied),
        ToolOutcome::Refused { text } => (text, WrittenToolOutcome::InvalidCall),
        ToolOutcome::Interrupted { text } => (text, WrittenToolOutcome::Interrupted),
    };
    let wrote = chat.transcript.write_tool_result(&WrittenToolResult {
        id: &call.id,
        name: &call.name,
        text,
        outcome,
    });
    host.note_write(wrote);
    chat.transcript.set_cwd(&host.cwd);
}
