//! Writes the simulated client's events to the transcript.
//!
//! A write error ends the simulation, but not in the middle of a turn: [`SimulatedClient`] keeps the first one.

use super::conversation::Conversation;
use super::host::Host;
use super::told::{Answered, Told};
use super::tools::{Call, Done};
use crate::answer::{Context, Form, Verdict};
use crate::id;
use crate::scenario::AgentTurn;
use crate::transcript::{
    self, Answer, Attached, Block, Ended, HookInfo, Outcome, Stop, ToolResult,
};
use crate::wire;
use serde_json::Value;

/// Writes the attachments for all hook answers to an event.
pub(super) fn hooks(host: &mut Host<'_>, chat: &mut Conversation, told: &Told) {
    let id = id::uuid();
    for answered in &told.answers {
        for attached in attached(answered) {
            let answered = transcript::Answered {
                event: told.event(),
                name: told.name(),
                tool_use_id: &id,
                attached: attached.borrow(),
            };
            let wrote = chat.transcript.attach(&answered);
            host.wrote(wrote);
        }
    }
}

enum Owned<'a> {
    Success(&'a str, Ended<'a>),
    Blocking(&'a str, &'a str),
    /// With the client's error message.
    Failed(String, Ended<'a>),
    Cancelled(&'a str, u64),
    Stopped(&'a str),
    Context([String; 1]),
    Message(&'a str),
}

impl Owned<'_> {
    fn borrow(&self) -> Attached<'_> {
        match self {
            Self::Success(content, ended) => Attached::Success { content, ended: *ended },
            Self::Blocking(reason, command) => Attached::BlockingError { reason, command },
            Self::Failed(stderr, ended) => {
                Attached::NonBlockingError { ended: Ended { stderr, ..*ended } }
            }
            Self::Cancelled(command, duration_ms) => Attached::Cancelled {
                command,
                duration_ms: *duration_ms,
                timeout_ms: Some(*duration_ms),
            },
            Self::Stopped(message) => Attached::StoppedContinuation { message },
            Self::Context(content) => Attached::AdditionalContext { content },
            Self::Message(content) => Attached::SystemMessage { content },
        }
    }
}

fn attached(answered: &Answered) -> Vec<Owned<'_>> {
    let handled = &answered.handled;
    let ended = Ended {
        command: &answered.command,
        stdout: &handled.stdout,
        stderr: &handled.stderr,
        exit_code: answered.answer.exit_code,
        duration_ms: handled.ms,
    };
    let mut list = Vec::new();
    match &answered.answer.verdict {
        Verdict::Block { reason, form: Form::Json } => {
            list.push(Owned::Blocking(reason, &answered.command));
        }
        Verdict::Failed(failure) => {
            list.push(Owned::Failed(failure.message(&answered.command), ended));
        }
        Verdict::Void(fault) => list.push(Owned::Failed(fault.message(), ended)),
        Verdict::TimedOut => list.push(Owned::Cancelled(&answered.command, handled.ms)),
        Verdict::Block { form: Form::ExitTwo, .. } | Verdict::Allow | Verdict::Detached => {}
    }
    if let Some(stop) = &answered.answer.stop {
        list.push(Owned::Stopped(stop.reason.as_deref().unwrap_or_default()));
    }
    match (&answered.answer.context, &answered.added) {
        (Some(Context::Stdout(_)), Some(text)) => list.push(Owned::Success(text, ended)),
        (Some(Context::Additional(_)), Some(text)) => list.push(Owned::Context([text.clone()])),
        (Some(_), None) | (None, _) => {}
    }
    if let Some(text) = &answered.answer.system_message {
        list.push(Owned::Message(text));
    }
    list
}

/// Writes the hook answers of a stop and, as the client does for the main conversation, their summary.
pub(super) fn stop(host: &mut Host<'_>, chat: &mut Conversation, told: &Told) {
    hooks(host, chat, told);
    if chat.agent.is_some() || told.answers.is_empty() {
        return;
    }
    let errors: Vec<String> = told.blocks().iter().map(|answered| answered.feedback()).collect();
    let infos = told.answers.iter().map(|answered| HookInfo {
        command: answered.command.clone(),
        duration_ms: Some(answered.handled.ms),
    });
    let infos: Vec<HookInfo> = infos.collect();
    let contexts = told.contexts();
    let wrote = chat.transcript.stop_summary(&Stop {
        tool_use_id: &id::uuid(),
        infos: &infos,
        errors: &errors,
        context: &contexts,
        stopped: told.stop().map(|stop| stop.reason.as_deref().unwrap_or_default()),
        has_output: !errors.is_empty() || !contexts.is_empty(),
    });
    host.wrote(wrote);
}

pub(super) fn answer(host: &mut Host<'_>, chat: &mut Conversation, turn: &AgentTurn) {
    let calls: Vec<(String, (String, Value))> = turn
        .tools
        .iter()
        .enumerate()
        .map(|(place, call)| {
            (wire::tool_use_id(host.requests, place), wire::tool_use(call, &host.stage.project))
        })
        .collect();
    let text = (!turn.text.is_empty()).then_some(Block::Text { text: &turn.text });
    let uses = calls.iter().map(|(id, (name, input))| Block::ToolUse { id, name, input });
    let blocks: Vec<Block<'_>> = text.into_iter().chain(uses).collect();
    let model = host.model();
    let wrote = chat.transcript.answer(&Answer {
        id: &wire::message_id(host.requests),
        request: &wire::request_id(host.requests),
        model: &model,
        blocks: &blocks,
        stop_reason: wire::stop_reason(turn),
        usage: turn.usage,
    });
    host.wrote(wrote);
}

pub(super) fn tool(host: &mut Host<'_>, chat: &mut Conversation, call: &Call, done: &Done) {
    let (text, outcome) = match done {
        Done::Ran { response, text } => (text, Outcome::Done(response)),
        Done::Failed { text } => (text, Outcome::Failed),
        Done::Denied { text } => (text, Outcome::Denied),
        Done::Refused { text } => (text, Outcome::Wrong),
        Done::Interrupted { text } => (text, Outcome::Interrupted),
    };
    let wrote =
        chat.transcript.tool_result(&ToolResult { id: &call.id, name: &call.name, text, outcome });
    host.wrote(wrote);
    chat.transcript.set_cwd(&host.cwd);
}
