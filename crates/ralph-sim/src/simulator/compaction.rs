//! Compaction: the conversation is summarized when it fills the context window, or when the person requests it.

use super::client_process::SimulatedClient;
use super::conversation::SimulatedConversation;
use super::hook_dispatch::fire_event;
use crate::client_ids;
use crate::client_rules::event_outcome::DispatchedEvent;
use crate::client_rules::hook_input::{SharedInputFields, SubagentIdentity};
use crate::client_rules::transcript_records::record_hooks;
use crate::timeline::{
    HookEffect, MessageRole, TimelineEntry, TimelineMessage, TimelineReply, TimelineRequest,
};
use crate::transcript;
use serde_json::{Value, json};

/// Tokens of the context window that the client keeps free.
const RESERVED_TOKENS: u64 = 33_000;

/// Appended to the summary if the last answer is kept verbatim, which it is unless it is the only one.
const KEPT_MESSAGES_NOTE: &str = "\n\nThe messages after this summary are the most recent messages from before compaction, kept \
    verbatim. The summary was written without seeing them, so something it says has not happened yet may already have \
    happened in them.";

#[derive(Clone, Debug)]
pub(super) enum CompactionRequest {
    Automatic,
    /// With the person's instructions for the summary.
    Manual(Option<String>),
}

impl CompactionRequest {
    fn name(&self) -> &'static str {
        match self {
            Self::Automatic => "auto",
            Self::Manual(_) => "manual",
        }
    }

    fn instructions(&self) -> Value {
        match self {
            Self::Manual(Some(text)) => json!(text),
            Self::Manual(None) | Self::Automatic => Value::Null,
        }
    }
}

/// Compacts before a request if the last answer filled the window.
pub(super) fn compact_if_full(host: &mut SimulatedClient<'_>, chat: &mut SimulatedConversation) {
    let Some(window) = host.scenario.client.autocompact else { return };
    if chat.agent.is_none() && chat.context_tokens > window.saturating_sub(RESERVED_TOKENS) {
        // If a hook blocks the compaction, it is tried again before the next request.
        drop(compact(host, chat, &CompactionRequest::Automatic));
    }
}

/// Compacts the conversation. `Err` is the message for the person if it was not possible.
pub(super) fn compact(
    host: &mut SimulatedClient<'_>,
    chat: &mut SimulatedConversation,
    trigger: &CompactionRequest,
) -> Result<(), String> {
    let event = "PreCompact";
    let input = host
        .hook_input(event, SharedInputFields::Neither, None)
        .with("trigger", trigger.name())
        .with("custom_instructions", trigger.instructions());
    let subject = Some(trigger.name().to_owned());
    let outcome = fire_event(host, DispatchedEvent { event, subject, agent: None, input });
    if let Some(text) = outcome.compaction_refusal() {
        host.emit_hook(&outcome, HookEffect::Blocked { reasons: outcome.reasons() });
        return Err(text);
    }
    host.emit_hook(&outcome, HookEffect::Allowed);
    if matches!(trigger, CompactionRequest::Manual(_)) && chat.answers == 0 {
        return Err("Not enough messages to compact.".to_owned());
    }
    if matches!(trigger, CompactionRequest::Automatic) && chat.answers < 2 {
        // Only the last answer could be removed, and it is always kept.
        return Ok(());
    }
    let summary = request_summary(host, trigger, &outcome.contexts());
    fire_summary_stop(host, chat, &summary);
    let before = chat.context_tokens;
    chat.context_tokens = 0;
    chat.seen.clear();
    chat.rounds += 1;
    let wrote = chat.transcript.write_compaction(&transcript::WrittenCompaction {
        trigger: match trigger {
            CompactionRequest::Automatic => transcript::CompactionTrigger::Auto,
            CompactionRequest::Manual(_) => transcript::CompactionTrigger::Manual,
        },
        tokens_before: before,
        tokens_after: 0,
        duration_ms: 0,
        summary: strip_summary_tags(&summary),
    });
    host.note_write(wrote);
    chat.pending.prepend_user_text(continuation_text(host, chat, strip_summary_tags(&summary)));
    chat.called_tools.clear();
    chat.answers = 0;
    let start = "SessionStart";
    let model = host.model();
    let input = host
        .hook_input(start, SharedInputFields::Neither, None)
        .with("source", "compact")
        .with("model", model);
    let subject = Some("compact".to_owned());
    let outcome =
        host.fire_context_event(DispatchedEvent { event: start, subject, agent: None, input });
    host.note_write(record_hooks(&mut chat.transcript, &outcome));
    for text in outcome.context_texts() {
        chat.pending.add_context(text);
    }
    let event = "PostCompact";
    let input = host
        .hook_input(event, SharedInputFields::Neither, None)
        .with("trigger", trigger.name())
        .with("compact_summary", summary);
    let subject = Some(trigger.name().to_owned());
    let outcome = fire_event(host, DispatchedEvent { event, subject, agent: None, input });
    host.emit_hook(&outcome, HookEffect::Allowed);
    Ok(())
}

/// Requests the summary. Of the client's request, the timeline shows only the instructions of the person and the hooks.
fn request_summary(
    host: &mut SimulatedClient<'_>,
    trigger: &CompactionRequest,
    printed: &[String],
) -> String {
    host.requests += 1;
    let wanted = match trigger {
        CompactionRequest::Manual(wanted) => wanted.clone(),
        CompactionRequest::Automatic => None,
    };
    let wanted: Vec<String> = wanted.into_iter().chain(printed.iter().cloned()).collect();
    let said = |text| TimelineMessage { role: MessageRole::User, text };
    let messages = Some(wanted.join("\n\n")).filter(|text| !text.is_empty()).map(said);
    let messages = messages.into_iter().collect();
    host.emit(&TimelineEntry::Request(TimelineRequest { agent: Some(String::new()), messages }));
    let text = host.script.summary.clone();
    host.emit(&TimelineEntry::Reply(TimelineReply {
        agent: Some(String::new()),
        text: text.clone(),
        tools: Vec::new(),
        error: None,
    }));
    text
}

/// Fires `SubagentStop` for the nameless subagent that writes the summary.
fn fire_summary_stop(host: &mut SimulatedClient<'_>, chat: &SimulatedConversation, summary: &str) {
    let event = "SubagentStop";
    let agent = SubagentIdentity { id: client_ids::new_agent_id(), kind: String::new() };
    let directory = chat.transcript.path().with_extension("").join("subagents");
    let path = directory.join(format!("agent-{}.jsonl", agent.id)).to_string_lossy().into_owned();
    let input = host
        .hook_input(event, SharedInputFields::Turn, Some(&agent))
        .with("stop_hook_active", false)
        .with("agent_transcript_path", path)
        .with("last_assistant_message", summary)
        .with("background_tasks", json!([]))
        .with("session_crons", json!([]));
    let telling =
        DispatchedEvent { event, subject: Some(String::new()), agent: Some(String::new()), input };
    let outcome = fire_event(host, telling);
    host.emit_hook(&outcome, HookEffect::Allowed);
}

/// The text that replaces the conversation.
fn continuation_text(
    host: &SimulatedClient<'_>,
    chat: &SimulatedConversation,
    summary: &str,
) -> String {
    format!(
        "This session is being continued from a previous conversation that ran out of context. The summary below covers \
         the earlier portion of the conversation.\n\n<system-reminder>\n<tools-used-before-summary>{}\
         </tools-used-before-summary>\n</system-reminder>\nSummary:\n{summary}\n\nIf you need specific details from before \
         compaction (like exact code snippets, error messages, or content you generated), read the full transcript at: \
         {}\nContinue the conversation from where it left off without asking the user any further questions. Resume directly \
         — do not acknowledge the summary, do not recap what was happening, do not preface with \"I'll continue\" or \
         similar. Pick up the last task as if the break never happened.{}",
        chat.called_tools.join(", "),
        host.transcript_path.display(),
        if chat.answers > 1 { KEPT_MESSAGES_NOTE } else { "" }
    )
}

/// The text between the `<summary>` tags, or all of it.
fn strip_summary_tags(summary: &str) -> &str {
    let from = summary.find("<summary>").map_or(0, |at| at + "<summary>".len());
    let rest = summary.get(from..).unwrap_or_default();
    rest.split("</summary>").next().unwrap_or_default().trim()
}
