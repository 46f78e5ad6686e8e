//! Finds expectations that contradict each other.

use super::{ScenarioStep, ScriptedToolCall, file_format};
use std::ops::Range;
use toml::Spanned;

/// Expectations that no hook could meet. They are an error in the scenario, not in the hook under test.
pub(super) fn find_contradictions(
    expect: &file_format::ScenarioExpectationsToml,
    steps: &[ScenarioStep],
) -> Vec<(Range<usize>, String)> {
    let mut impossible = Vec::new();
    let prompts = steps.iter().filter(|step| matches!(step, ScenarioStep::Person(_))).count();
    let mut exceeds =
        |span: Range<usize>, (name, count): (&str, u64), (limit, most): (&str, u64)| {
            let message = format!("there cannot be more {name} ({count}) than {limit} ({most})");
            impossible.push((span, message));
        };
    let value = |count: &Option<Spanned<u64>>| count.as_ref().map(|count| *count.as_ref());
    let blocks = value(&expect.blocks);
    if let (Some(spanned), Some(many), Some(few)) = (&expect.blocks, blocks, value(&expect.stops))
        && many > few
    {
        exceeds(spanned.span(), ("blocks", many), ("stops", few));
    }
    if let (Some(spanned), Some(many), Some(few)) =
        (&expect.stops, value(&expect.stops), value(&expect.requests))
        && many > few
    {
        exceeds(spanned.span(), ("stops", many), ("requests", few));
    }
    if let (Some(reasons), Some(blocks)) = (&expect.reasons, blocks)
        && reasons.as_ref().len() as u64 > blocks
    {
        exceeds(reasons.span(), ("reasons", reasons.as_ref().len() as u64), ("blocks", blocks));
    }
    if let Some(endings @ [.., last]) = expect.endings.as_deref()
        && endings.len() > prompts
        // A finished background task starts a turn without a prompt.
        && !has_background_work(steps)
    {
        exceeds(last.span(), ("endings", endings.len() as u64), ("prompts", prompts as u64));
    }
    for path in &expect.absent {
        if expect.files.keys().any(|name| name.as_ref() == path.as_ref()) {
            let message = "this file is expected both to exist and to be absent".to_owned();
            impossible.push((path.span(), message));
        }
    }
    impossible
}

fn has_background_work(steps: &[ScenarioStep]) -> bool {
    let turns = steps.iter().filter_map(|step| match step {
        ScenarioStep::Agent(turn) => Some(turn),
        ScenarioStep::Person(_)
        | ScenarioStep::Session(_)
        | ScenarioStep::Screen(_)
        | ScenarioStep::Shell(_) => None,
    });
    turns.flat_map(|turn| &turn.tools).any(|tool| match tool {
        ScriptedToolCall::Bash { background, .. } | ScriptedToolCall::Agent { background, .. } => {
            *background
        }
        ScriptedToolCall::Write { .. }
        | ScriptedToolCall::Edit { .. }
        | ScriptedToolCall::Read { .. }
        | ScriptedToolCall::Other { .. } => false,
    })
}
