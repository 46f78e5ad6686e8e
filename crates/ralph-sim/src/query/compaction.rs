//! Compaction: the conversation is summarized when it fills the context window, or when the person requests it.

use super::book;
use super::conversation::Conversation;
use super::hooks::{Telling, tell};
use super::host::{Agent, Host, Shared};
use crate::id;
use crate::timeline::{Effect, Entry, Reply, Request, Role, Said};
use crate::transcript;
use serde_json::{Value, json};

/// Tokens of the context window that the client keeps free.
const RESERVE: u64 = 33_000;

/// Appended to the summary if the last answer is kept verbatim, which it is unless it is the only one.
const KEPT: &str = "\n\nThe messages after this summary are the most recent messages from before compaction, kept \
    verbatim. The summary was written without seeing them, so something it says has not happened yet may already have \
    happened in them.";

#[derive(Clone, Debug)]
pub(super) enum Trigger {
    Automatic,
    /// With the person's instructions for the summary.
    Manual(Option<String>),
}

impl Trigger {
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
pub(super) fn when_full(host: &mut Host<'_>, chat: &mut Conversation) {
    let Some(window) = host.scenario.client.autocompact else { return };
    if chat.agent.is_none() && chat.context > window.saturating_sub(RESERVE) {
        // If a hook blocks the compaction, it is tried again before the next request.
        drop(compact(host, chat, &Trigger::Automatic));
    }
}

/// Compacts the conversation. `Err` is the message for the person if it was not possible.
pub(super) fn compact(
    host: &mut Host<'_>,
    chat: &mut Conversation,
    trigger: &Trigger,
) -> Result<(), String> {
    let event = "PreCompact";
    let input = host
        .input(event, Shared::Neither, None)
        .with("trigger", trigger.name())
        .with("custom_instructions", trigger.instructions());
    let subject = Some(trigger.name().to_owned());
    let told = tell(host, Telling { event, subject, agent: None, input });
    if let Some(text) = told.refused_compaction() {
        host.show(&told, Effect::Blocked { reasons: told.reasons() });
        return Err(text);
    }
    host.show(&told, Effect::Allowed);
    if matches!(trigger, Trigger::Manual(_)) && chat.answers == 0 {
        return Err("Not enough messages to compact.".to_owned());
    }
    if matches!(trigger, Trigger::Automatic) && chat.answers < 2 {
        // Only the last answer could be removed, and it is always kept.
        return Ok(());
    }
    let summary = sum_up(host, trigger, &told.contexts());
    told_of_summary(host, chat, &summary);
    let before = chat.context;
    chat.context = 0;
    chat.seen.clear();
    chat.turns += 1;
    let wrote = chat.transcript.compact(&transcript::Compaction {
        trigger: match trigger {
            Trigger::Automatic => transcript::Trigger::Auto,
            Trigger::Manual(_) => transcript::Trigger::Manual,
        },
        tokens_before: before,
        tokens_after: 0,
        duration_ms: 0,
        summary: inner(&summary),
    });
    host.wrote(wrote);
    chat.pending.first(continued(host, chat, inner(&summary)));
    chat.calls.clear();
    chat.answers = 0;
    let start = "SessionStart";
    let model = host.model();
    let input =
        host.input(start, Shared::Neither, None).with("source", "compact").with("model", model);
    let subject = Some("compact".to_owned());
    let told = host.inform(Telling { event: start, subject, agent: None, input });
    book::hooks(host, chat, &told);
    for text in told.additions() {
        chat.pending.context(text);
    }
    let event = "PostCompact";
    let input = host
        .input(event, Shared::Neither, None)
        .with("trigger", trigger.name())
        .with("compact_summary", summary);
    let subject = Some(trigger.name().to_owned());
    let told = tell(host, Telling { event, subject, agent: None, input });
    host.show(&told, Effect::Allowed);
    Ok(())
}

/// Requests the summary. Of the client's request, the timeline shows only the instructions of the person and the hooks.
fn sum_up(host: &mut Host<'_>, trigger: &Trigger, printed: &[String]) -> String {
    host.requests += 1;
    let wanted = match trigger {
        Trigger::Manual(wanted) => wanted.clone(),
        Trigger::Automatic => None,
    };
    let wanted: Vec<String> = wanted.into_iter().chain(printed.iter().cloned()).collect();
    let said = |text| Said { role: Role::User, text };
    let messages = Some(wanted.join("\n\n")).filter(|text| !text.is_empty()).map(said);
    let messages = messages.into_iter().collect();
    host.emit(&Entry::Request(Request { agent: Some(String::new()), messages }));
    let text = host.script.summary.clone();
    host.emit(&Entry::Reply(Reply {
        agent: Some(String::new()),
        text: text.clone(),
        tools: Vec::new(),
        error: None,
    }));
    text
}

/// Fires `SubagentStop` for the nameless subagent that writes the summary.
fn told_of_summary(host: &mut Host<'_>, chat: &Conversation, summary: &str) {
    let event = "SubagentStop";
    let agent = Agent { id: id::agent(), kind: String::new() };
    let directory = chat.transcript.path().with_extension("").join("subagents");
    let path = directory.join(format!("agent-{}.jsonl", agent.id)).to_string_lossy().into_owned();
    let input = host
        .input(event, Shared::Turn, Some(&agent))
        .with("stop_hook_active", false)
        .with("agent_transcript_path", path)
        .with("last_assistant_message", summary)
        .with("background_tasks", json!([]))
        .with("session_crons", json!([]));
    let telling =
        Telling { event, subject: Some(String::new()), agent: Some(String::new()), input };
    let told = tell(host, telling);
    host.show(&told, Effect::Allowed);
}

/// The text that replaces the conversation.
fn continued(host: &Host<'_>, chat: &Conversation, summary: &str) -> String {
    format!(
        "This session is being continued from a previous conversation that ran out of context. The summary below covers \
         the earlier portion of the conversation.\n\n<system-reminder>\n<tools-used-before-summary>{}\
         </tools-used-before-summary>\n</system-reminder>\nSummary:\n{summary}\n\nIf you need specific details from before \
         compaction (like exact code snippets, error messages, or content you generated), read the full transcript at: \
         {}\nContinue the conversation from where it left off without asking the user any further questions. Resume directly \
         — do not acknowledge the summary, do not recap what was happening, do not preface with \"I'll continue\" or \
         similar. Pick up the last task as if the break never happened.{}",
        chat.calls.join(", "),
        host.transcript_path.display(),
        if chat.answers > 1 { KEPT } else { "" }
    )
}

/// The text between the `<summary>` tags, or all of it.
fn inner(summary: &str) -> &str {
    let from = summary.find("<summary>").map_or(0, |at| at + "<summary>".len());
    let rest = summary.get(from..).unwrap_or_default();
    rest.split("</summary>").next().unwrap_or_default().trim()
}
