//! Restores the order of events. They are sorted by the time of observation, and then corrected where the client's own
//! order is known: it continues only after its hooks have finished, whichever was observed first.

use super::{EffectEvidence, ObservedHookBatch, ObservedItem, ObservedItemKind};
use crate::timeline::{TimelineEntry, TimelineTool};
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn restore_order(items: &mut [ObservedItem]) {
    items.sort_by_key(|item| item.at_ns);
    let mut batches: Vec<(usize, &ObservedItem, &ObservedHookBatch)> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        if let ObservedItemKind::Batch(batch) = &item.what {
            batches.push((place, item, batch));
        }
    }
    batches.sort_by_key(|(_, _, batch)| batch.started_ns);
    let mut due = Vec::new();
    let mut last = BTreeMap::new();
    for (place, item, batch) in batches {
        let bound =
            first_dependent_ns(items, batch).map_or(u64::MAX, |next| next.saturating_sub(1));
        // Concurrent batches of one event keep the order in which they started.
        let last = last.entry((&batch.hook.agent, &batch.hook.event)).or_insert(0);
        *last = item.at_ns.max(*last).min(bound);
        due.push((place, *last));
    }
    for (place, at_ns) in due {
        if let Some(item) = items.get_mut(place) {
            item.at_ns = at_ns;
        }
    }
    move_tools_before_hooks(items);
    items.sort_by_key(|item| item.at_ns);
    fill_error_texts(items);
}

/// When the first event was observed that cannot happen before these hooks have finished.
fn first_dependent_ns(items: &[ObservedItem], batch: &ObservedHookBatch) -> Option<u64> {
    let input = &batch.hook.input;
    let from = items.partition_point(|item| item.at_ns <= batch.started_ns);
    let mut later = items.get(from..).unwrap_or_default().iter();
    let next = match batch.hook.event.as_str() {
        // The client runs these hooks while it reports the end of the turn.
        "StopFailure" if batch.hook.agent.is_none() => items.iter().find(|item| {
            let ObservedItemKind::Entry(TimelineEntry::Ending(ending)) = &item.what else {
                return false;
            };
            input["last_assistant_message"] == ending.result.as_str()
        }),
        // The client runs these hooks before it reads the first prompt.
        "SessionStart" if input["source"] != "compact" && input["source"] != "clear" => {
            items.iter().find(|item| {
                matches!(item.what, ObservedItemKind::Entry(TimelineEntry::Prompt { .. }))
            })
        }
        _ => later.find(|item| item.follows_hooks_of(&batch.hook.agent)),
    };
    next.map(|item| item.at_ns)
}

/// The client prints a tool result only after the hooks for it have run, so results are moved before their hooks.
fn move_tools_before_hooks(items: &mut [ObservedItem]) {
    let mut ends = BTreeMap::new();
    let mut inputs = BTreeMap::new();
    for item in items.iter() {
        let ObservedItemKind::Batch(batch) = &item.what else { continue };
        let Some(id) = batch.hook.input["tool_use_id"].as_str() else { continue };
        match batch.hook.event.as_str() {
            "PostToolUse" | "PostToolUseFailure" => {
                ends.insert(id.to_owned(), item.at_ns.saturating_sub(1));
            }
            "PreToolUse" => {
                inputs.extend(rewritten_input(batch).map(|input| (id.to_owned(), input)));
            }
            _ => {}
        }
    }
    for item in items {
        let ObservedItemKind::Tool { id, tool } = &mut item.what else { continue };
        let TimelineTool { input, .. } = tool;
        if let Some(changed) = inputs.remove(id) {
            *input = changed;
        }
        if let Some(end) = ends.get(id) {
            item.at_ns = item.at_ns.min(*end);
        }
    }
}

/// The tool input as rewritten by a hook.
fn rewritten_input(batch: &ObservedHookBatch) -> Option<Value> {
    batch.hook.handlers.iter().find_map(|handled| {
        let answer: Value = serde_json::from_str(handled.stdout.trim()).ok()?;
        answer.get("hookSpecificOutput")?.get("updatedInput").cloned()
    })
}

/// Replaces the text of failed replies with the client's error message.
fn fill_error_texts(items: &mut [ObservedItem]) {
    let signs: Vec<_> = items
        .iter()
        .enumerate()
        .filter_map(|(place, item)| match &item.what {
            ObservedItemKind::Evidence(EffectEvidence::Failure { lane, text }) => {
                Some((place, lane.clone(), text.clone()))
            }
            // The client prints no line for a foreground subagent.
            ObservedItemKind::Batch(ObservedHookBatch { hook, .. })
                if hook.event == "StopFailure" =>
            {
                let text = hook.input["last_assistant_message"].as_str()?;
                Some((place, hook.agent.clone(), text.to_owned()))
            }
            ObservedItemKind::Evidence(_)
            | ObservedItemKind::Entry(_)
            | ObservedItemKind::Batch(_)
            | ObservedItemKind::Tool { .. } => None,
        })
        .collect();
    for (place, lane, text) in signs {
        let before = items.get_mut(..place).unwrap_or_default();
        let failed = before.iter_mut().rev().find_map(|item| match &mut item.what {
            ObservedItemKind::Entry(TimelineEntry::Reply(reply)) if reply.agent == lane => {
                reply.error.as_mut()
            }
            ObservedItemKind::Entry(_)
            | ObservedItemKind::Batch(_)
            | ObservedItemKind::Tool { .. }
            | ObservedItemKind::Evidence(_) => None,
        });
        if let Some(error) = failed {
            *error = text;
        }
    }
}
