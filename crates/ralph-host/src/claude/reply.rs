//! Renders a verdict as the answer of a Claude Code hook: exit code, standard output and standard error.

use crate::{BlockStyle, HookReply};
use alloc::format;
use ralph_core::event::ReplyOccasion;
use ralph_core::text;
use ralph_core::verdict::Verdict;
use serde::Serialize;
use serde_json::Value;

/// The client writes a longer `additionalContext` to a file and replaces it with a preview.
const CONTEXT_LIMIT: usize = 10_000;

#[derive(Serialize)]
struct NoticeWire<'a> {
    #[serde(rename = "systemMessage")]
    system_message: &'a str,
    /// A hook has no terminal, so the client writes this to its own.
    #[serde(rename = "terminalSequence", skip_serializing_if = "Option::is_none")]
    terminal_sequence: Option<&'static str>,
}

#[derive(Serialize)]
struct BlockWire<'a> {
    decision: &'static str,
    reason: &'a str,
}

#[derive(Serialize)]
struct ContextBlockWire<'a> {
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: AdditionalContextWire<'a>,
}

#[derive(Serialize)]
struct AdditionalContextWire<'a> {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'static str,
    #[serde(rename = "additionalContext")]
    additional_context: &'a str,
}

#[derive(Serialize)]
struct ContextNoticeWire<'a> {
    #[serde(rename = "systemMessage", skip_serializing_if = "Option::is_none")]
    system_message: Option<&'a str>,
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: AdditionalContextWire<'a>,
}

#[derive(Serialize)]
struct PromptAnswerWire<'a> {
    decision: &'static str,
    reason: &'a str,
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: SuppressPromptWire,
}

#[derive(Serialize)]
struct SuppressPromptWire {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'static str,
    #[serde(rename = "suppressOriginalPrompt")]
    suppress_original_prompt: bool,
}

#[derive(Serialize)]
struct PermissionAnswerWire<'a> {
    #[serde(rename = "hookSpecificOutput")]
    hook_specific_output: HookPermissionWire<'a>,
}

#[derive(Serialize)]
struct HookPermissionWire<'a> {
    #[serde(rename = "hookEventName")]
    hook_event_name: &'static str,
    #[serde(rename = "permissionDecision")]
    decision: &'static str,
    #[serde(rename = "permissionDecisionReason")]
    reason: &'a str,
}

/// The client's name of the event, which answers must repeat.
fn event_name(occasion: ReplyOccasion) -> &'static str {
    match occasion {
        ReplyOccasion::SubagentStop => "SubagentStop",
        ReplyOccasion::Prompt => "UserPromptSubmit",
        ReplyOccasion::Expansion => "UserPromptExpansion",
        ReplyOccasion::SessionStart => "SessionStart",
        ReplyOccasion::ToolCall => "PreToolUse",
        ReplyOccasion::Stop
        | ReplyOccasion::Task
        | ReplyOccasion::Idle
        | ReplyOccasion::Compaction
        | ReplyOccasion::Other => "Stop",
    }
}

/// Whether the output is one of the ways in which [`render_verdict`] holds a session.
pub(super) fn holds_session(exit: i32, stdout: &[u8], stderr: &[u8]) -> bool {
    let Ok(Value::Object(answer)) = serde_json::from_slice(stdout.trim_ascii()) else {
        return false;
    };
    let has_text =
        |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    match exit {
        2 => answer.is_empty() && !stderr.is_empty(),
        0 => {
            let is_block = answer.get("decision").and_then(Value::as_str) == Some("block");
            let own = answer.get("hookSpecificOutput");
            let context = own.and_then(|own| own.get("additionalContext"));
            is_block && has_text(answer.get("reason")) || has_text(context)
        }
        _ => false,
    }
}

pub(super) fn render_verdict(
    style: BlockStyle,
    occasion: ReplyOccasion,
    verdict: &Verdict,
) -> HookReply {
    let hook_event_name = event_name(occasion);
    match (verdict, style) {
        (Verdict::Allow, _) => HookReply::default(),
        (
            Verdict::AllowWithNotice(notice) | Verdict::EndRun { notice, ring_bell: false, .. },
            _,
        ) => json_reply(&NoticeWire { system_message: notice, terminal_sequence: None }),
        (Verdict::EndRun { notice, ring_bell: true, .. }, _) => {
            json_reply(&NoticeWire { system_message: notice, terminal_sequence: Some("\u{7}") })
        }
        (Verdict::AnswerPrompt { text }, _) => json_reply(&PromptAnswerWire {
            decision: "block",
            reason: text,
            hook_specific_output: SuppressPromptWire {
                hook_event_name,
                suppress_original_prompt: true,
            },
        }),
        // For compaction the client reads plain text.
        (Verdict::AddContext { context, .. }, _) if occasion == ReplyOccasion::Compaction => {
            HookReply { stdout: context.as_bytes().to_vec(), ..HookReply::default() }
        }
        (Verdict::AddContext { context, notice }, _) => {
            let additional_context = &text::truncate(context, CONTEXT_LIMIT);
            let hook_specific_output =
                AdditionalContextWire { hook_event_name, additional_context };
            json_reply(&ContextNoticeWire {
                system_message: notice.as_deref(),
                hook_specific_output,
            })
        }
        (Verdict::DenyTool { reason } | Verdict::AskPerson { reason }, _) => {
            let decision = if matches!(verdict, Verdict::DenyTool { .. }) { "deny" } else { "ask" };
            json_reply(&PermissionAnswerWire {
                hook_specific_output: HookPermissionWire { hook_event_name, decision, reason },
            })
        }
        // With any text on stdout the client does not mistake "no such file" in the reason for a missing script.
        (Verdict::Block { reason }, style)
            if style == BlockStyle::Exit2 || blocks_by_exit_code_only(occasion) =>
        {
            let stderr = format!("{}\n", reason.trim_end()).into_bytes();
            HookReply { stdout: b"{}".to_vec(), stderr, exit: 2 }
        }
        (Verdict::Block { reason }, BlockStyle::Context) => {
            let additional_context = &text::truncate(reason, CONTEXT_LIMIT);
            json_reply(&ContextBlockWire {
                hook_specific_output: AdditionalContextWire { hook_event_name, additional_context },
            })
        }
        (Verdict::Block { reason }, BlockStyle::Json | BlockStyle::Exit2) => {
            json_reply(&BlockWire { decision: "block", reason })
        }
    }
}

/// For tasks and teammates, every version of the client blocks on exit code 2 only.
fn blocks_by_exit_code_only(occasion: ReplyOccasion) -> bool {
    matches!(occasion, ReplyOccasion::Task | ReplyOccasion::Idle)
}

fn json_reply(value: &impl Serialize) -> HookReply {
    // Strings and maps of strings cannot fail to serialise. If they did, an empty answer would let the agent stop.
    HookReply { stdout: serde_json::to_vec(value).unwrap_or_default(), ..HookReply::default() }
}
