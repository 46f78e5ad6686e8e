//! Writes what happened in a turn to the transcript.

use super::event_outcome::{EventOutcome, HandlerAnswer};
use super::tool_invocation::{ToolInvocation, ToolOutcome};
use crate::client_ids;
use crate::hook_answer::{AddedContext, BlockForm, HookVerdict};
use crate::model_answer;
use crate::scenario::ScriptedTurn;
use crate::transcript::{
    AnswerBlock, AttachedHookOutput, HookAttachment, HookAttachmentKind, StopHookInfo,
    StopHookSummary, TranscriptWriter, WrittenAnswer, WrittenToolOutcome, WrittenToolResult,
};
use ralph_sys::fs::FileError;
use std::path::Path;

/// Writes the attachments for all hook answers to an event.
pub(crate) fn record_hooks(
    transcript: &mut TranscriptWriter,
    outcome: &EventOutcome,
) -> Result<(), FileError> {
    let id = client_ids::new_uuid();
    for attached in outcome.answers.iter().flat_map(hook_attachments) {
        transcript.write_attachment(&HookAttachment {
            event: outcome.event(),
            name: outcome.name(),
            tool_use_id: &id,
            kind: attached.to_attachment(),
        })?;
    }
    Ok(())
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
            list.push(OwnedAttachment::Cancelled(&answered.command, handled.ms));
        }
        HookVerdict::Block { form: BlockForm::ExitTwo | BlockForm::AgentVerdict, .. }
        | HookVerdict::NoVerdict
        | HookVerdict::Allow
        | HookVerdict::Detached => {}
    }
    if let Some(stop) = &answered.answer.stop {
        list.push(OwnedAttachment::Stopped(stop.reason.as_deref().unwrap_or_default()));
    }
    match (&answered.answer.context, &answered.delivered_context) {
        (Some(AddedContext::Stdout(_)), Some(text)) => {
            list.push(OwnedAttachment::Success(text, ended));
        }
        (Some(AddedContext::Additional(_)), Some(text)) => {
            list.push(OwnedAttachment::Context([text.clone()]));
        }
        (Some(_), None) | (None, _) => {}
    }
    if let Some(text) = &answered.answer.system_message {
        list.push(OwnedAttachment::Message(text));
    }
    list
}

/// Writes the summary of a stop. The client writes it after the hook answers, for the main conversation only.
pub(crate) fn record_stop_summary(
    transcript: &mut TranscriptWriter,
    outcome: &EventOutcome,
) -> Result<(), FileError> {
    if outcome.answers.is_empty() {
        return Ok(());
    }
    let errors: Vec<String> =
        outcome.answers.iter().filter_map(HandlerAnswer::error_text).collect();
    let infos = outcome.answers.iter().map(|answered| StopHookInfo {
        command: answered.command.clone(),
        prompt_text: answered.prompt_text().map(str::to_owned),
        duration_ms: answered.summary_duration_ms(),
    });
    let infos: Vec<StopHookInfo> = infos.collect();
    let contexts = outcome.contexts();
    transcript.write_stop_summary(&StopHookSummary {
        tool_use_id: &client_ids::new_uuid(),
        infos: &infos,
        errors: &errors,
        context: &contexts,
        stopped: outcome.continue_false().map(|stop| stop.reason.as_deref().unwrap_or_default()),
        has_output: !errors.is_empty() || !contexts.is_empty(),
    })
}

pub(crate) fn record_answer(
    transcript: &mut TranscriptWriter,
    turn: &ScriptedTurn,
    request: u64,
    project: &Path,
    model: &str,
) -> Result<(), FileError> {
    let content = model_answer::content_blocks(turn, request, project);
    let blocks = content.iter().map(|block| match block["text"].as_str() {
        Some(text) => AnswerBlock::Text { text },
        None => AnswerBlock::ToolUse {
            id: block["id"].as_str().unwrap_or_default(),
            name: block["name"].as_str().unwrap_or_default(),
            input: &block["input"],
        },
    });
    transcript.write_answer(&WrittenAnswer {
        id: &model_answer::message_id(request),
        request: &model_answer::request_id(request),
        model,
        blocks: &blocks.collect::<Vec<_>>(),
        stop_reason: model_answer::stop_reason(turn),
        usage: turn.usage,
    })
}

/// Writes the result of a call, and the directory in which it ended.
pub(crate) fn record_tool_result(
    transcript: &mut TranscriptWriter,
    call: &ToolInvocation,
    done: &ToolOutcome,
    cwd: &Path,
) -> Result<(), FileError> {
    let wrote = transcript.write_tool_result(&written_tool_result(call, done));
    transcript.set_cwd(cwd);
    wrote
}

pub(crate) fn written_tool_result<'a>(
    call: &'a ToolInvocation,
    done: &'a ToolOutcome,
) -> WrittenToolResult<'a> {
    let outcome = match done {
        ToolOutcome::Ran { response, .. } => WrittenToolOutcome::Done(response),
        ToolOutcome::Failed { .. } => WrittenToolOutcome::Failed,
        ToolOutcome::Denied { .. } => WrittenToolOutcome::Denied,
        ToolOutcome::Refused { .. } => WrittenToolOutcome::InvalidCall,
        ToolOutcome::Interrupted { .. } => WrittenToolOutcome::Interrupted,
    };
    WrittenToolResult { id: &call.id, name: &call.name, text: done.text(), outcome }
}
