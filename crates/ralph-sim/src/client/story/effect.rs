//! Derives the effect of the hook answers to an event from what the client did next.

use super::hooks::NOT_TOLD;
use super::{Item, Sign, What};
use crate::timeline::{Effect, Entry, Handled, Hook, Lane, Role};
use serde_json::Value;

pub(super) const FEEDBACK: &str = "Stop hook feedback:\n";
const HELD: &str = "Operation stopped by hook: ";
const CONTEXT: &str = " hook additional context: ";
const SUCCESS: &str = " hook success: ";

pub(super) fn is_dropped_prompt(result: &str) -> bool {
    let events = ["UserPromptSubmit", "UserPromptExpansion"];
    result.starts_with(HELD) || events.iter().any(|event| dropped_by(result, event).is_some())
}

/// The reason why a prompt was dropped at this event.
fn dropped_by<'a>(result: &'a str, event: &str) -> Option<&'a str> {
    let after = result.strip_prefix(event)?.strip_prefix(" operation blocked by hook:\n")?;
    Some(after.rsplit_once("\n\nOriginal prompt: ").map_or(after, |(reason, _)| reason))
}

pub(super) fn find(items: &mut [Item]) {
    let effects: Vec<(usize, Effect)> = items
        .iter()
        .enumerate()
        .filter_map(|(place, item)| {
            let What::Batch(batch) = &item.what else { return None };
            // The effect of one hook may be visible before the others have answered.
            let first = items.partition_point(|item| item.at_ns < batch.started_ns).min(place);
            let after = items.get(first..).unwrap_or_default();
            Some((place, effect(&batch.hook, after)))
        })
        .collect();
    for (place, effect) in effects {
        if let Some(Item { what: What::Batch(batch), .. }) = items.get_mut(place) {
            batch.hook.effect = effect;
            name_refuser(&mut batch.hook);
            strip(&mut batch.hook);
        }
    }
}

/// Removes the client's additions from the reasons.
fn strip(hook: &mut Hook) {
    let (Effect::Blocked { reasons } | Effect::Overridden { reasons }) = &mut hook.effect else {
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

fn effect(hook: &Hook, after: &[Item]) -> Effect {
    match hook.event.as_str() {
        "Stop" | "SubagentStop" => at_stop(hook, after),
        "PreToolUse" => denied(hook, after).unwrap_or_else(|| ended(hook, after)),
        "PostToolUse" | "PostToolUseFailure" => {
            told_off(hook, after).unwrap_or_else(|| ended(hook, after))
        }
        "UserPromptSubmit" | "UserPromptExpansion" => prompt(hook, after),
        "PreCompact" => refused(after),
        "TaskCreated" | "TaskCompleted" | "TeammateIdle" => kept_open(hook, after),
        _ => ended(hook, after),
    }
}

/// The items between these hooks and the next action of the same conversation, and that action.
fn until_next<'a>(lane: &Lane, after: &'a [Item]) -> (&'a [Item], Option<&'a Item>) {
    let next = after.iter().position(|item| item.waits_for(lane));
    match next {
        Some(place) => (after.get(..place).unwrap_or_default(), after.get(place)),
        None => (after, None),
    }
}

/// The texts of a role in the next request of the conversation.
fn next_texts(next: Option<&Item>, role: Role) -> Vec<String> {
    let Some(What::Entry(Entry::Request(request))) = next.map(|item| &item.what) else {
        return Vec::new();
    };
    let texts = request.messages.iter().filter(|said| said.role == role).map(|said| &said.text);
    texts.cloned().collect()
}

fn next_ending(next: Option<&Item>) -> Option<&str> {
    match next.map(|item| &item.what) {
        Some(What::Entry(Entry::Ending(ending))) => Some(&ending.reason),
        _ => None,
    }
}

fn at_stop(hook: &Hook, after: &[Item]) -> Effect {
    let (between, next) = until_next(&hook.agent, after);
    let mut reasons: Vec<String> = between
        .iter()
        .filter_map(|item| {
            let What::Sign(Sign::Feedback { lane, text }) = &item.what else { return None };
            (*lane == hook.agent).then(|| text.clone())
        })
        .collect();
    // For some blocks there is no line, or it is so long that the request is observed first.
    if reasons.is_empty() {
        let texts = next_texts(next, Role::User);
        let feedback = texts.iter().filter_map(|text| text.strip_prefix(FEEDBACK));
        reasons = feedback.map(str::to_owned).collect();
    }
    let is_overridden =
        between.iter().any(|item| matches!(item.what, What::Sign(Sign::Overridden)));
    if next_ending(next) == Some("stop_hook_prevented") {
        return Effect::Stopped { reason: stop_reason(hook) };
    }
    if is_overridden && hook.agent.is_none() {
        return Effect::Overridden { reasons };
    }
    if !reasons.is_empty() {
        return Effect::Blocked { reasons };
    }
    match next {
        None if hook.agent.is_some() => at_last_stop(hook),
        _ => context(hook, next),
    }
}

/// The effect at the last stop of a subagent, which the client does not show: derived from the answers alone.
fn at_last_stop(hook: &Hook) -> Effect {
    if hook.handlers.iter().any(stops) {
        return Effect::Stopped { reason: stop_reason(hook) };
    }
    let blocking = hook.handlers.iter().filter(|handled| blocks(handled));
    let reasons: Vec<String> = blocking.map(reason_of).collect();
    if reasons.is_empty() { Effect::Allowed } else { Effect::Overridden { reasons } }
}

fn denied(hook: &Hook, after: &[Item]) -> Option<Effect> {
    let call = hook.input["tool_use_id"].as_str()?;
    let result = after.iter().find_map(|item| {
        let What::Tool { id, tool } = &item.what else { return None };
        (id == call).then_some(&tool.result)
    })?;
    let tool = hook.input["tool_name"].as_str()?;
    let denied = result.strip_prefix(&format!("PreToolUse:{tool} hook error: "));
    // In a headless client `ask` is a denial with the hook's own reason.
    let asked = || {
        let reasons = hook.handlers.iter().filter_map(|handled| {
            field(handled, "hookSpecificOutput")?.get("permissionDecisionReason").cloned()
        });
        reasons.into_iter().any(|reason| reason == result.as_str()).then_some(result.as_str())
    };
    let reason = denied.or_else(asked)?;
    Some(Effect::Blocked { reasons: vec![reason.to_owned()] })
}

/// The effect after a tool call. The tool has already run, so a block only adds its reason to the next request.
fn told_off(hook: &Hook, after: &[Item]) -> Option<Effect> {
    let (_, next) = until_next(&hook.agent, after);
    let tool = hook.input["tool_name"].as_str()?;
    let texts = next_texts(next, Role::System);
    let complaints = hook.handlers.iter().filter(|handled| blocks(handled)).filter_map(|handled| {
        let from = format!(
            "{}:{tool} hook blocking error from command: \"{}\": ",
            hook.event, handled.command
        );
        texts.iter().find_map(|text| text.strip_prefix(&from).map(str::to_owned))
    });
    let reasons: Vec<_> = complaints.collect();
    (!reasons.is_empty()).then_some(Effect::Blocked { reasons })
}

fn blocks(handled: &Handled) -> bool {
    handled.ended == "exit 2" || field(handled, "decision") == Some("block".into())
}

fn stops(handled: &Handled) -> bool {
    field(handled, "continue") == Some(false.into())
}

fn field(handled: &Handled, name: &str) -> Option<Value> {
    let answer: Value = serde_json::from_str(handled.stdout.trim()).ok()?;
    answer.get(name).cloned()
}

fn stop_reason(hook: &Hook) -> Option<String> {
    hook.handlers.iter().find_map(|handled| {
        let continues = field(handled, "continue")?;
        let reason = field(handled, "stopReason")?;
        (continues == false).then(|| reason.as_str().map(str::to_owned))?
    })
}

/// The ending `hook_stopped` means that hooks ended the turn; their answers show which.
fn ended(hook: &Hook, after: &[Item]) -> Effect {
    let (_, next) = until_next(&hook.agent, after);
    let ends = hook.handlers.iter().any(stops)
        || hook.event == "PostToolBatch" && hook.handlers.iter().any(blocks);
    if ends && next_ending(next) == Some("hook_stopped") {
        return Effect::Stopped { reason: stop_reason(hook).or_else(|| complaint(hook)) };
    }
    context(hook, next)
}

fn complaint(hook: &Hook) -> Option<String> {
    hook.handlers.iter().find(|handled| blocks(handled)).map(reason_of)
}

fn reason_of(handled: &Handled) -> String {
    let reason = field(handled, "reason").and_then(|reason| reason.as_str().map(str::to_owned));
    reason.unwrap_or_else(|| format!("[{}]: {}", handled.command, handled.stderr))
}

fn prompt(hook: &Hook, after: &[Item]) -> Effect {
    let (_, next) = until_next(&hook.agent, after);
    if let Some(What::Entry(Entry::Ending(ending))) = next.map(|item| &item.what) {
        if let Some(reason) = dropped_by(&ending.result, &hook.event) {
            return Effect::Blocked { reasons: vec![reason.to_owned()] };
        }
        if let Some(reason) = ending.result.strip_prefix(HELD)
            && hook.handlers.iter().any(stops)
        {
            return Effect::Stopped { reason: Some(reason.to_owned()) };
        }
    }
    context(hook, next)
}

fn refused(after: &[Item]) -> Effect {
    let mut before = after.iter().take_while(|item| !item.waits_for(&None));
    let reason = before.find_map(|item| {
        let What::Sign(Sign::CompactionRefused { reason }) = &item.what else { return None };
        Some(reason.clone())
    });
    reason.map_or(Effect::Allowed, |reason| Effect::Blocked { reasons: vec![reason] })
}

/// Fills in the result of the hook that refused a compaction, the only one that the client names.
fn name_refuser(hook: &mut Hook) {
    let Effect::Blocked { reasons } = &hook.effect else { return };
    for handled in hook.handlers.iter_mut().filter(|handled| handled.ended == NOT_TOLD) {
        let from = format!("[{}]: ", handled.command);
        if let Some(said) = reasons.iter().find_map(|reason| reason.strip_prefix(&from)) {
            "exit 2".clone_into(&mut handled.ended);
            "error".clone_into(&mut handled.outcome);
            said.clone_into(&mut handled.stderr);
        }
    }
}

fn kept_open(hook: &Hook, after: &[Item]) -> Effect {
    let beginning = format!("{} hook feedback:\n", hook.event);
    let (between, _) = until_next(&hook.agent, after);
    let reason = between.iter().find_map(|item| {
        let What::Tool { tool, .. } = &item.what else { return None };
        tool.result.strip_prefix(&beginning)
    });
    let reason = reason.map(str::to_owned);
    reason.map_or(Effect::Allowed, |reason| Effect::Blocked { reasons: vec![reason] })
}

/// Whether the next request contains context from these hooks.
fn context(hook: &Hook, next: Option<&Item>) -> Effect {
    let system = next_texts(next, Role::System);
    let user = next_texts(next, Role::User);
    let reminders = user.iter().filter_map(|text| {
        let text = text.trim_end_matches('\n');
        text.strip_prefix("<system-reminder>\n")?.strip_suffix("\n</system-reminder>")
    });
    let context: Vec<String> = system
        .iter()
        .map(String::as_str)
        .chain(reminders)
        .filter_map(|text| {
            let (name, context) = text.split_once(CONTEXT).or_else(|| text.split_once(SUCCESS))?;
            let event = name.split(':').next().unwrap_or_default();
            // The client uses the name `Stop` for subagents too.
            let is_its = event == hook.event || event == "Stop" && hook.event == "SubagentStop";
            is_its.then_some(context)
        })
        // Several events of the same name may precede a request: keep only texts of these hooks.
        .filter_map(|context| hook.handlers.iter().find_map(|handled| said_by(handled, context)))
        .collect();
    if context.is_empty() { Effect::Allowed } else { Effect::Continued { context } }
}

/// The context of this hook, if it equals the text in the request. Of a long text the request contains only a preview.
fn said_by(handled: &Handled, context: &str) -> Option<String> {
    let output = field(handled, "hookSpecificOutput");
    let added = output.as_ref().and_then(|output| output.get("additionalContext"));
    let said = added.and_then(Value::as_str).unwrap_or(handled.stdout.trim());
    let is_it = said == context || context.starts_with("<persisted-output>");
    is_it.then(|| said.to_owned())
}
