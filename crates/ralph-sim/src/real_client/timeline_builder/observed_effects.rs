//! Derives the effect of the hook answers to an event from what the client did next.

use super::observed_hooks::NOT_REPORTED;
use super::{EffectEvidence, ObservedItem, ObservedItemKind};
use crate::timeline::{
    AgentLane, HandlerResult, HookEffect, MessageRole, TimelineEntry, TimelineHook,
};
use serde_json::Value;

pub(super) const FEEDBACK_PREFIX: &str = "Stop hook feedback:\n";
const STOPPED_PROMPT_PREFIX: &str = "Operation stopped by hook: ";
const CONTEXT_MARK: &str = " hook additional context: ";
const SUCCESS_MARK: &str = " hook success: ";

pub(super) fn is_dropped_prompt(result: &str) -> bool {
    let events = ["UserPromptSubmit", "UserPromptExpansion"];
    result.starts_with(STOPPED_PROMPT_PREFIX)
        || events.iter().any(|event| dropped_prompt_reason(result, event).is_some())
}

/// The reason why a prompt was dropped at this event.
fn dropped_prompt_reason<'a>(result: &'a str, event: &str) -> Option<&'a str> {
    let after = result.strip_prefix(event)?.strip_prefix(" operation blocked by hook:\n")?;
    Some(after.rsplit_once("\n\nOriginal prompt: ").map_or(after, |(reason, _)| reason))
}

pub(super) fn find_effects(items: &mut [ObservedItem]) {
    let effects: Vec<(usize, HookEffect)> = items
        .iter()
        .enumerate()
        .filter_map(|(place, item)| {
            let ObservedItemKind::Batch(batch) = &item.what else { return None };
            // The effect of one hook may be visible before the others have answered.
            let first = items.partition_point(|item| item.at_ns < batch.started_ns).min(place);
            let after = items.get(first..).unwrap_or_default();
            Some((place, observed_effect(&batch.hook, after)))
        })
        .collect();
    for (place, effect) in effects {
        if let Some(ObservedItem { what: ObservedItemKind::Batch(batch), .. }) =
            items.get_mut(place)
        {
            batch.hook.effect = effect;
            fill_refusing_hook(&mut batch.hook);
            strip_reasons(&mut batch.hook);
        }
    }
}

/// Removes the client's additions from the reasons.
fn strip_reasons(hook: &mut TimelineHook) {
    let (HookEffect::Blocked { reasons } | HookEffect::Overridden { reasons }) = &mut hook.effect
    else {
        return;
    };
    for reason in reasons {
        let whole = reason.as_str();
        let found = hook.handlers.iter().find_map(|handled| {
            whole.strip_prefix('[')?.strip_prefix(&handled.command)?.strip_prefix("]: ")
        });
        let stripped = found.unwrap_or(whole);
        let stripped = match stripped.rsplit_once("\nThis hook comes from the ") {
            Some((before, _)) if stripped.ends_with(" plugin.") => before,
            Some(_) | None => stripped,
        };
        *reason = stripped.to_owned();
    }
}

fn observed_effect(hook: &TimelineHook, after: &[ObservedItem]) -> HookEffect {
    match hook.event.as_str() {
        "Stop" | "SubagentStop" => stop_effect(hook, after),
        "PreToolUse" => denial_effect(hook, after).unwrap_or_else(|| turn_end_effect(hook, after)),
        "PostToolUse" | "PostToolUseFailure" => {
            post_tool_effect(hook, after).unwrap_or_else(|| turn_end_effect(hook, after))
        }
        "UserPromptSubmit" | "UserPromptExpansion" => prompt_effect(hook, after),
        "PreCompact" => compaction_effect(after),
        "TaskCreated" | "TaskCompleted" | "TeammateIdle" => task_effect(hook, after),
        _ => turn_end_effect(hook, after),
    }
}

/// The items between these hooks and the next action of the same conversation, and that action.
fn split_at_next_action<'a>(
    lane: &AgentLane,
    after: &'a [ObservedItem],
) -> (&'a [ObservedItem], Option<&'a ObservedItem>) {
    let next = after.iter().position(|item| item.follows_hooks_of(lane));
    match next {
        Some(place) => (after.get(..place).unwrap_or_default(), after.get(place)),
        None => (after, None),
    }
}

/// The texts of a role in the next request of the conversation.
fn next_texts(next: Option<&ObservedItem>, role: MessageRole) -> Vec<String> {
    let Some(ObservedItemKind::Entry(TimelineEntry::Request(request))) =
        next.map(|item| &item.what)
    else {
        return Vec::new();
    };
    let texts = request.messages.iter().filter(|said| said.role == role).map(|said| &said.text);
    texts.cloned().collect()
}

fn next_ending(next: Option<&ObservedItem>) -> Option<&str> {
    match next.map(|item| &item.what) {
        Some(ObservedItemKind::Entry(TimelineEntry::Ending(ending))) => Some(&ending.reason),
        _ => None,
    }
}

fn stop_effect(hook: &TimelineHook, after: &[ObservedItem]) -> HookEffect {
    let (between, next) = split_at_next_action(&hook.agent, after);
    let mut reasons: Vec<String> = between
        .iter()
        .filter_map(|item| {
            let ObservedItemKind::Evidence(EffectEvidence::Feedback { lane, text }) = &item.what
            else {
                return None;
            };
            (*lane == hook.agent).then(|| text.clone())
        })
        .collect();
    // For some blocks there is no line, or it is so long that the request is observed first.
    if reasons.is_empty() {
        let texts = next_texts(next, MessageRole::User);
        let feedback = texts.iter().filter_map(|text| text.strip_prefix(FEEDBACK_PREFIX));
        reasons = feedback.map(str::to_owned).collect();
    }
    let is_overridden = between
        .iter()
        .any(|item| matches!(item.what, ObservedItemKind::Evidence(EffectEvidence::Overridden)));
    if next_ending(next) == Some("stop_hook_prevented") {
        return HookEffect::Stopped { reason: stop_reason(hook) };
    }
    if is_overridden && hook.agent.is_none() {
        return HookEffect::Overridden { reasons };
    }
    if !reasons.is_empty() {
        return HookEffect::Blocked { reasons };
    }
    match next {
        None if hook.agent.is_some() => last_stop_effect(hook),
        _ => context_effect(hook, next),
    }
}

/// The effect at the last stop of a subagent, which the client does not show: derived from the answers alone.
fn last_stop_effect(hook: &TimelineHook) -> HookEffect {
    if hook.handlers.iter().any(is_continue_false) {
        return HookEffect::Stopped { reason: stop_reason(hook) };
    }
    let blocking = hook.handlers.iter().filter(|handled| is_block(handled));
    let reasons: Vec<String> = blocking.map(block_reason).collect();
    if reasons.is_empty() { HookEffect::Allowed } else { HookEffect::Overridden { reasons } }
}

fn denial_effect(hook: &TimelineHook, after: &[ObservedItem]) -> Option<HookEffect> {
    let call = hook.input["tool_use_id"].as_str()?;
    let result = after.iter().find_map(|item| {
        let ObservedItemKind::Tool { id, tool } = &item.what else { return None };
        (id == call).then_some(&tool.result)
    })?;
    let tool = hook.input["tool_name"].as_str()?;
    let denied = result.strip_prefix(&format!("PreToolUse:{tool} hook error: "));
    // In a headless client `ask` is a denial with the hook's own reason.
    let asked = || {
        let reasons = hook.handlers.iter().filter_map(|handled| {
            answer_field(handled, "hookSpecificOutput")?.get("permissionDecisionReason").cloned()
        });
        reasons.into_iter().any(|reason| reason == result.as_str()).then_some(result.as_str())
    };
    let reason = denied.or_else(asked)?;
    Some(HookEffect::Blocked { reasons: vec![reason.to_owned()] })
}

/// The effect after a tool call. The tool has already run, so a block only adds its reason to the next request.
fn post_tool_effect(hook: &TimelineHook, after: &[ObservedItem]) -> Option<HookEffect> {
    let (_, next) = split_at_next_action(&hook.agent, after);
    let tool = hook.input["tool_name"].as_str()?;
    let texts = next_texts(next, MessageRole::System);
    let complaints =
        hook.handlers.iter().filter(|handled| is_block(handled)).filter_map(|handled| {
            let from = format!(
                "{}:{tool} hook blocking error from command: \"{}\": ",
                hook.event, handled.command
            );
            texts.iter().find_map(|text| text.strip_prefix(&from).map(str::to_owned))
        });
    let reasons: Vec<_> = complaints.collect();
    (!reasons.is_empty()).then_some(HookEffect::Blocked { reasons })
}

fn is_block(handled: &HandlerResult) -> bool {
    handled.ended == "exit 2" || answer_field(handled, "decision") == Some("block".into())
}

fn is_continue_false(handled: &HandlerResult) -> bool {
    answer_field(handled, "continue") == Some(false.into())
}

fn answer_field(handled: &HandlerResult, name: &str) -> Option<Value> {
    let answer: Value = serde_json::from_str(handled.stdout.trim()).ok()?;
    answer.get(name).cloned()
}

fn stop_reason(hook: &TimelineHook) -> Option<String> {
    hook.handlers.iter().find_map(|handled| {
        let continues = answer_field(handled, "continue")?;
        let reason = answer_field(handled, "stopReason")?;
        (continues == false).then(|| reason.as_str().map(str::to_owned))?
    })
}

/// The ending `hook_stopped` means that hooks ended the turn; their answers show which.
fn turn_end_effect(hook: &TimelineHook, after: &[ObservedItem]) -> HookEffect {
    let (_, next) = split_at_next_action(&hook.agent, after);
    let ends = hook.handlers.iter().any(is_continue_false)
        || hook.event == "PostToolBatch" && hook.handlers.iter().any(is_block);
    if ends && next_ending(next) == Some("hook_stopped") {
        return HookEffect::Stopped {
            reason: stop_reason(hook).or_else(|| first_block_reason(hook)),
        };
    }
    context_effect(hook, next)
}

fn first_block_reason(hook: &TimelineHook) -> Option<String> {
    hook.handlers.iter().find(|handled| is_block(handled)).map(block_reason)
}

fn block_reason(handled: &HandlerResult) -> String {
    let reason =
        answer_field(handled, "reason").and_then(|reason| reason.as_str().map(str::to_owned));
    reason.unwrap_or_else(|| format!("[{}]: {}", handled.command, handled.stderr))
}

fn prompt_effect(hook: &TimelineHook, after: &[ObservedItem]) -> HookEffect {
    let (_, next) = split_at_next_action(&hook.agent, after);
    if let Some(ObservedItemKind::Entry(TimelineEntry::Ending(ending))) =
        next.map(|item| &item.what)
    {
        if let Some(reason) = dropped_prompt_reason(&ending.result, &hook.event) {
            return HookEffect::Blocked { reasons: vec![reason.to_owned()] };
        }
        if let Some(reason) = ending.result.strip_prefix(STOPPED_PROMPT_PREFIX)
            && hook.handlers.iter().any(is_continue_false)
        {
            return HookEffect::Stopped { reason: Some(reason.to_owned()) };
        }
    }
    context_effect(hook, next)
}

fn compaction_effect(after: &[ObservedItem]) -> HookEffect {
    let mut before = after.iter().take_while(|item| !item.follows_hooks_of(&None));
    let reason = before.find_map(|item| {
        let ObservedItemKind::Evidence(EffectEvidence::CompactionRefused { reason }) = &item.what
        else {
            return None;
        };
        Some(reason.clone())
    });
    reason.map_or(HookEffect::Allowed, |reason| HookEffect::Blocked { reasons: vec![reason] })
}

/// Fills in the result of the hook that refused a compaction, the only one that the client names.
fn fill_refusing_hook(hook: &mut TimelineHook) {
    let HookEffect::Blocked { reasons } = &hook.effect else { return };
    for handled in hook.handlers.iter_mut().filter(|handled| handled.ended == NOT_REPORTED) {
        let from = format!("[{}]: ", handled.command);
        if let Some(said) = reasons.iter().find_map(|reason| reason.strip_prefix(&from)) {
            "exit 2".clone_into(&mut handled.ended);
            "error".clone_into(&mut handled.outcome);
            said.clone_into(&mut handled.stderr);
        }
    }
}

fn task_effect(hook: &TimelineHook, after: &[ObservedItem]) -> HookEffect {
    let beginning = format!("{} hook feedback:\n", hook.event);
    let (between, _) = split_at_next_action(&hook.agent, after);
    let reason = between.iter().find_map(|item| {
        let ObservedItemKind::Tool { tool, .. } = &item.what else { return None };
        tool.result.strip_prefix(&beginning)
    });
    let reason = reason.map(str::to_owned);
    reason.map_or(HookEffect::Allowed, |reason| HookEffect::Blocked { reasons: vec![reason] })
}

/// Whether the next request contains context from these hooks.
fn context_effect(hook: &TimelineHook, next: Option<&ObservedItem>) -> HookEffect {
    let system = next_texts(next, MessageRole::System);
    let user = next_texts(next, MessageRole::User);
    let reminders = user.iter().filter_map(|text| {
        let text = text.trim_end_matches('\n');
        text.strip_prefix("<system-reminder>\n")?.strip_suffix("\n</system-reminder>")
    });
    let context: Vec<String> = system
        .iter()
        .map(String::as_str)
        .chain(reminders)
        .filter_map(|text| {
            let (name, context) =
                text.split_once(CONTEXT_MARK).or_else(|| text.split_once(SUCCESS_MARK))?;
            let event = name.split(':').next().unwrap_or_default();
            // The client uses the name `Stop` for subagents too.
            let is_its = event == hook.event || event == "Stop" && hook.event == "SubagentStop";
            is_its.then_some(context)
        })
        // Several events of the same name may precede a request: keep only texts of these hooks.
        .filter_map(|context| {
            hook.handlers.iter().find_map(|handled| context_of_handler(handled, context))
        })
        .collect();
    if context.is_empty() { HookEffect::Allowed } else { HookEffect::Continued { context } }
}

/// The context of this hook, if it equals the text in the request. Of a long text the request contains only a preview.
fn context_of_handler(handled: &HandlerResult, context: &str) -> Option<String> {
    let output = answer_field(handled, "hookSpecificOutput");
    let added = output.as_ref().and_then(|output| output.get("additionalContext"));
    let said = added.and_then(Value::as_str).unwrap_or(handled.stdout.trim());
    let is_it = said == context || context.starts_with("<persisted-output>");
    is_it.then(|| said.to_owned())
}
