//! What the answers to an event brought about, read off what the client did next.

use super::{Item, Sign, What};
use crate::timeline::{Effect, Entry, Handled, Hook, Lane, Role};
use serde_json::Value;

pub(super) const FEEDBACK: &str = "Stop hook feedback:\n";
const CONTEXT: &str = " hook additional context: ";
const SUCCESS: &str = " hook success: ";

pub(super) fn is_dropped_prompt(result: &str) -> bool {
    result.starts_with("Operation stopped by hook: ") || dropped_by(result).is_some()
}

/// The reason of a prompt that was dropped.
fn dropped_by(result: &str) -> Option<&str> {
    let (event, after) = result.split_once(" operation blocked by hook:\n")?;
    let is_event = ["UserPromptSubmit", "UserPromptExpansion"].contains(&event);
    let reason = after.rsplit_once("\n\nOriginal prompt: ").map_or(after, |(reason, _)| reason);
    is_event.then_some(reason)
}

pub(super) fn find(items: &mut [Item]) {
    let effects: Vec<(usize, Effect)> = items
        .iter()
        .enumerate()
        .filter_map(|(place, item)| {
            let What::Batch(batch) = &item.what else { return None };
            // What one hook brings about is shown before the others have answered.
            let first = items.partition_point(|item| item.at_ns < batch.started_ns).min(place);
            let after = items.get(first..).unwrap_or_default();
            Some((place, effect(&batch.hook, after)))
        })
        .collect();
    for (place, effect) in effects {
        if let Some(Item { what: What::Batch(batch), .. }) = items.get_mut(place) {
            batch.hook.effect = effect;
        }
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

/// What the client shows between these hooks and the next thing that the same conversation does.
fn until_next<'a>(lane: &Lane, after: &'a [Item]) -> (&'a [Item], Option<&'a Item>) {
    let next = after.iter().position(|item| item.waits_for(lane));
    match next {
        Some(place) => (after.get(..place).unwrap_or_default(), after.get(place)),
        None => (after, None),
    }
}

/// The texts of a role in the next request of the conversation.
fn next_texts(next: Option<&Item>, role: Role) -> impl Iterator<Item = &str> {
    let request = match next.map(|item| &item.what) {
        Some(What::Entry(Entry::Request(request))) => Some(request),
        _ => None,
    };
    let said = request.into_iter().flat_map(|request| &request.messages);
    said.filter(move |said| said.role == role).map(|said| said.text.as_str())
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
    if reasons.is_empty() && hook.agent.is_some() {
        let feedback = next_texts(next, Role::User).filter_map(|text| text.strip_prefix(FEEDBACK));
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
    context(hook, next)
}

fn denied(hook: &Hook, after: &[Item]) -> Option<Effect> {
    let call = hook.input["tool_use_id"].as_str()?;
    let result = after.iter().find_map(|item| {
        let What::Tool { id, tool } = &item.what else { return None };
        (id == call).then_some(&tool.result)
    })?;
    let tool = hook.input["tool_name"].as_str()?;
    let reason = result.strip_prefix(&format!("PreToolUse:{tool} hook error: "))?;
    Some(Effect::Blocked { reasons: vec![reason.to_owned()] })
}

/// The tool has run; its hooks can only complain.
fn told_off(hook: &Hook, after: &[Item]) -> Option<Effect> {
    let (_, next) = until_next(&hook.agent, after);
    let tool = hook.input["tool_name"].as_str()?;
    let complaints = hook.handlers.iter().filter(|handled| blocks(handled)).filter_map(|handled| {
        let from = format!(
            "{}:{tool} hook blocking error from command: \"{}\": ",
            hook.event, handled.command
        );
        next_texts(next, Role::System).find_map(|text| text.strip_prefix(&from))
    });
    let reasons: Vec<_> = complaints.map(str::to_owned).collect();
    (!reasons.is_empty()).then_some(Effect::Blocked { reasons })
}

fn blocks(handled: &Handled) -> bool {
    handled.ended == "exit 2" || field(handled, "decision") == Some("block".into())
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

/// `hook_stopped` says that hooks ended the turn; which ones, their answers say.
fn ended(hook: &Hook, after: &[Item]) -> Effect {
    let (_, next) = until_next(&hook.agent, after);
    let says_so = |handled: &Handled| field(handled, "continue") == Some(false.into());
    let ends = hook.handlers.iter().any(says_so)
        || hook.event == "PostToolBatch" && hook.handlers.iter().any(blocks);
    if ends && next_ending(next) == Some("hook_stopped") {
        return Effect::Stopped { reason: stop_reason(hook).or_else(|| complaint(hook)) };
    }
    context(hook, next)
}

fn complaint(hook: &Hook) -> Option<String> {
    let blocking = hook.handlers.iter().find(|handled| blocks(handled))?;
    let reason = field(blocking, "reason").and_then(|reason| reason.as_str().map(str::to_owned));
    Some(reason.unwrap_or_else(|| format!("[{}]: {}", blocking.command, blocking.stderr)))
}

fn prompt(hook: &Hook, after: &[Item]) -> Effect {
    let (between, next) = until_next(&hook.agent, after);
    for item in between {
        match &item.what {
            What::Sign(Sign::PromptDropped { reason }) => {
                return Effect::Blocked { reasons: vec![reason.clone()] };
            }
            What::Sign(Sign::PromptHeld { reason }) => {
                return Effect::Stopped { reason: Some(reason.clone()) };
            }
            What::Sign(_) | What::Entry(_) | What::Batch(_) | What::Tool { .. } => {}
        }
    }
    if hook.event == "UserPromptExpansion"
        && let Some(What::Entry(Entry::Ending(ending))) = next.map(|item| &item.what)
    {
        if let Some(reason) = dropped_by(&ending.result) {
            return Effect::Blocked { reasons: vec![reason.to_owned()] };
        }
        if let Some(reason) = ending.result.strip_prefix("Operation stopped by hook: ") {
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

/// Whether these hooks told the agent something in the next request.
fn context(hook: &Hook, next: Option<&Item>) -> Effect {
    let system = next_texts(next, Role::System);
    let reminders = next_texts(next, Role::User).filter_map(|text| {
        text.strip_prefix("<system-reminder>\n")?.strip_suffix("\n</system-reminder>")
    });
    let context: Vec<String> = system
        .chain(reminders)
        .filter_map(|text| {
            let (name, context) = text.split_once(CONTEXT).or_else(|| text.split_once(SUCCESS))?;
            let event = name.split(':').next().unwrap_or_default();
            // Subagents are told of their stop by the name of the agent's.
            let is_its = event == hook.event || event == "Stop" && hook.event == "SubagentStop";
            is_its.then(|| context.to_owned())
        })
        .filter(|context| hook.handlers.iter().any(|handled| mentions(handled, context)))
        .collect();
    if context.is_empty() { Effect::Allowed } else { Effect::Continued { context } }
}

/// Several events of one name may come before a request; its own hooks said it.
fn mentions(handled: &Handled, context: &str) -> bool {
    let output = field(handled, "hookSpecificOutput");
    let said = output.as_ref().and_then(|output| output.get("additionalContext"));
    match said.and_then(Value::as_str) {
        // What is too long is told in part.
        Some(said) => said == context || context.starts_with("<persisted-output>"),
        None => handled.stdout.trim() == context || context.starts_with("<persisted-output>"),
    }
}
