//! Extracts the new messages of a request: prompts, tool results, hook texts and notifications, without the standing
//! context that the client adds on its own.

use crate::timeline::{MessageRole, TimelineMessage};
use serde_json::Value;

/// Prefixes of paragraphs that the client adds on its own.
const STANDING_PREFIXES: [&str; 21] = [
    "Attribution for git",
    "# Environment",
    "Today's date is",
    "The date has changed",
    "The following deferred tools",
    "The following skills are available",
    "Available agent types",
    "The user hasn't heard from you",
    "You are powered by the model",
    "As you answer the user's questions",
    "<tools-used-before-summary>",
    "ToolSearch is no longer available",
    "While bypass permissions mode is active",
    "# Skills",
    "# MCP Server Instructions",
    "<local-command-caveat>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<command-name>",
    "The user's message starts with the slash command",
    "The task tools haven't been used recently",
];
/// Prefixes of notifications.
const NOTIFICATION_PREFIXES: [&str; 2] =
    ["The user sent a new message while you were working", "[SYSTEM NOTIFICATION"];
const HOOK_TEXT_MARKS: [&str; 4] = [
    " hook success: ",
    " hook additional context: ",
    " hook blocking error from command: ",
    " hook stopped continuation: ",
];
/// Prefix of a compacted conversation.
const COMPACTED_PREFIX: &str = "This session is being continued from a previous conversation";
const INSTRUCTION_MARKS: (&str, &str) = ("Additional Instructions:\n", "\n\nREMINDER:");
const REMINDER_TAGS: (&str, &str) = ("<system-reminder>\n", "\n</system-reminder>");

/// All messages of one conversation so far, including the model's.
#[derive(Clone, Debug, Default)]
pub(super) struct ConversationHistory {
    before: Vec<HistoryBlock>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HistoryBlock {
    /// `None` for the model.
    role: Option<MessageRole>,
    text: String,
}

impl ConversationHistory {
    /// The messages that were added since the previous request.
    pub(super) fn new_messages(&mut self, messages: &[Value]) -> Vec<TimelineMessage> {
        let blocks: Vec<HistoryBlock> = messages.iter().flat_map(message_blocks).collect();
        let pairs = self.before.iter().zip(&blocks);
        let common = pairs.take_while(|(old, new)| old == new).count();
        let is_continued = common == self.before.len();
        let from = if is_continued { common } else { 0 };
        let said = blocks
            .iter()
            .skip(from)
            // After a compaction, old messages may remain behind the summary.
            .filter(|block| {
                is_continued
                    || block.text.starts_with(COMPACTED_PREFIX)
                    || !self.before.contains(block)
            })
            .filter_map(|block| {
                Some(TimelineMessage { role: block.role?, text: block.text.clone() })
            })
            .collect();
        self.before = blocks;
        said
    }
}

/// The instructions for a summary, from a person or a hook.
pub(super) fn summary_instructions(messages: &[Value]) -> Vec<TimelineMessage> {
    let mut latest = messages.iter().rev();
    let last = latest.find(|message| message["role"] == "user");
    let last = last.map(message_blocks).unwrap_or_default().pop();
    let text = last.and_then(|block| {
        let (_, after) = block.text.rsplit_once(INSTRUCTION_MARKS.0)?;
        let (wanted, _) = after.rsplit_once(INSTRUCTION_MARKS.1)?;
        Some(wanted.to_owned())
    });
    text.map(|text| TimelineMessage { role: MessageRole::User, text }).into_iter().collect()
}

/// The question of a hook, which follows the whole conversation.
pub(super) fn last_question(messages: &[Value]) -> Vec<TimelineMessage> {
    let mut latest = messages.iter().rev();
    let last = latest.find(|message| message["role"] == "user");
    let last = last.map(message_blocks).unwrap_or_default().pop();
    let text = last.map(|block| block.text);
    text.map(|text| TimelineMessage { role: MessageRole::User, text }).into_iter().collect()
}

fn message_blocks(message: &Value) -> Vec<HistoryBlock> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("assistant") => None,
        Some("system") => Some(MessageRole::System),
        _ => Some(MessageRole::User),
    };
    let whole = |text: &str| vec![(role, text.to_owned())];
    let parts = match message.get("content") {
        Some(Value::String(text)) => whole(text),
        Some(Value::Array(parts)) => {
            let is_text = |part: Option<&Value>| part.is_some_and(|part| part["type"] == "text");
            let parts = parts.iter().enumerate().map(|(place, part)| match part["type"].as_str() {
                Some("text") => {
                    let text = part["text"].as_str().unwrap_or_default();
                    // The client appends a newline to a text if another follows in the same message.
                    let text = match text.strip_suffix('\n') {
                        Some(shorter) if is_text(parts.get(place + 1)) => shorter,
                        _ => text,
                    };
                    (role, text.to_owned())
                }
                Some("tool_result") => (Some(MessageRole::Tool), result_text(&part["content"])),
                _ => (role, strip_cache_mark(part)),
            });
            parts.collect()
        }
        _ => Vec::new(),
    };
    let kept = parts.into_iter().flat_map(|(role, text)| match role {
        Some(MessageRole::System) => texts_without_standing_context(&text),
        Some(MessageRole::User) => match strip_reminder_tags(&text) {
            Some(inner) if inner.split("\n\n").any(is_standing_context) => {
                texts_without_standing_context(inner)
            }
            _ if is_standing_context(&text) => Vec::new(),
            _ => vec![HistoryBlock { role, text }],
        },
        Some(MessageRole::Tool) | None => vec![HistoryBlock { role, text }],
    });
    kept.collect()
}

/// Removes the cache mark, which moves with every request.
fn strip_cache_mark(part: &Value) -> String {
    let mut part = part.clone();
    if let Some(fields) = part.as_object_mut() {
        fields.remove("cache_control");
    }
    part.to_string()
}

pub(super) fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn strip_reminder_tags(text: &str) -> Option<&str> {
    text.trim_end_matches('\n').strip_prefix(REMINDER_TAGS.0)?.strip_suffix(REMINDER_TAGS.1)
}

fn is_standing_context(paragraph: &str) -> bool {
    STANDING_PREFIXES.iter().any(|beginning| paragraph.starts_with(beginning))
}

/// The texts in a system message that are not the client's standing context. They are joined by empty lines, which they
/// may also contain.
fn texts_without_standing_context(text: &str) -> Vec<HistoryBlock> {
    let mut texts: Vec<String> = Vec::new();
    let mut is_kept = true;
    for paragraph in text.split("\n\n") {
        // A text that ends with a newline is followed by one more.
        let beginning = paragraph.trim_start_matches('\n');
        let more = paragraph.strip_suffix(beginning).unwrap_or_default();
        if is_kept && let Some(last) = texts.last_mut() {
            last.push_str(more);
        }
        let is_news = is_hook_text(beginning)
            || NOTIFICATION_PREFIXES.iter().any(|news| beginning.starts_with(news));
        if is_standing_context(beginning) {
            is_kept = false;
        } else if is_news || is_kept && texts.is_empty() {
            is_kept = true;
            texts.push(beginning.to_owned());
        } else if is_kept && let Some(last) = texts.last_mut() {
            last.push_str("\n\n");
            last.push_str(beginning);
        }
    }
    texts.retain(|text| !text.is_empty());
    texts.into_iter().map(|text| HistoryBlock { role: Some(MessageRole::System), text }).collect()
}

/// Whether a paragraph is a hook text such as `PreToolUse:Bash hook additional context: …`.
fn is_hook_text(paragraph: &str) -> bool {
    let first = paragraph.lines().next().unwrap_or_default();
    HOOK_TEXT_MARKS.iter().any(|words| {
        first.find(words).is_some_and(|place| {
            let name = first.get(..place).unwrap_or_default();
            !name.is_empty() && !name.contains(' ')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ATTRIBUTION: &str =
        "<system-reminder>\nAttribution for git commits:\n\n- none\n</system-reminder>\n";

    fn show(said: &[TimelineMessage]) -> String {
        let lines = said.iter().map(|said| format!("{:?} {:?}", said.role, said.text));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn returns_only_new_messages_without_standing_context() {
        let first = json!({"role": "user", "content": [
            {"type": "text", "text": ATTRIBUTION},
            {"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}},
        ]});
        let environment = json!({"role": "system", "content": "SessionStart:startup hook success: words\n\nof mine\n\n# Environment\nYou are in\n\n - a place\n\nUserPromptSubmit hook additional context: more\n\nToday's date is 2026-11-15."});
        let reply = json!({"role": "assistant", "content": [{"type": "text", "text": "one"}, {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]});
        let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "ran"}], "cache_control": {}}]});
        let hooks = json!({"role": "system", "content": "PostToolUse:Bash hook blocking error from command: \"a\": [a]: no\n\n\nPostToolUse:Bash hook blocking error from command: \"b\": [b]: never\n"});
        let feedback = json!({"role": "user", "content": [
            {"type": "text", "text": "Stop hook feedback:\n[a]: first\n\n"},
            {"type": "text", "text": "<system-reminder>\n<tools-used-before-summary>Bash</tools-used-before-summary>\n</system-reminder>\n"},
            {"type": "text", "text": "<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]\nThis\n\n<task-notification>\n</task-notification>\n</system-reminder>"},
        ]});
        let mut lane = ConversationHistory::default();
        let mut messages = vec![first, environment];
        let mut shown = vec![show(&lane.new_messages(&messages))];
        messages.extend([reply, result, hooks]);
        shown.push(show(&lane.new_messages(&messages)));
        messages.push(feedback);
        shown.push(show(&lane.new_messages(&messages)));
        let compacted = [
            json!({"role": "user", "content": "This session is being continued from a previous conversation"}),
            json!({"role": "system", "content": "Today's date is 2026-11-15."}),
            messages[2].clone(),
            messages[3].clone(),
            json!({"role": "user", "content": [{"type": "text", "text": ATTRIBUTION}, {"type": "text", "text": "next"}]}),
        ];
        shown.push(show(&lane.new_messages(&compacted)));
        insta::assert_snapshot!(shown.join("\n--\n"), @r#"
        User "go"
        System "SessionStart:startup hook success: words\n\nof mine"
        System "UserPromptSubmit hook additional context: more"
        --
        Tool "ran"
        System "PostToolUse:Bash hook blocking error from command: \"a\": [a]: no\n"
        System "PostToolUse:Bash hook blocking error from command: \"b\": [b]: never\n"
        --
        User "Stop hook feedback:\n[a]: first\n"
        User "<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]\nThis\n\n<task-notification>\n</task-notification>\n</system-reminder>"
        --
        User "This session is being continued from a previous conversation"
        User "next"
        "#);
    }

    #[test]
    fn extracts_the_instructions_for_a_summary() {
        let ask = |more: &str| {
            let text = format!("CRITICAL: Respond with TEXT ONLY.{more}\n\nREMINDER: Do NOT");
            let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
            show(&summary_instructions(&[message, json!({"role": "system", "content": "late"})]))
        };
        assert_eq!(ask(""), "");
        assert_eq!(ask("\n\nAdditional Instructions:\nkeep\nnames"), r#"User "keep\nnames""#);
        assert_eq!(show(&summary_instructions(&[])), "");
    }

    #[test]
    fn tolerates_malformed_messages() {
        let odd = [json!(null), json!({"role": 7, "content": [1, {"type": "text"}]}), json!([])];
        assert_eq!(
            show(&ConversationHistory::default().new_messages(&odd)),
            "User \"1\"\nUser \"\""
        );
    }
}
