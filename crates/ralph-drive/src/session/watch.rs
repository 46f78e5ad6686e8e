//! Turns the agent's stream, the progress of gates and decisions into events for the watcher.

use super::{Conversation, SessionError};
use crate::ride::Ride;
use crate::told::{Missing, Speaker, Told};
use crate::wire::{self, Block, LimitStatus, Line};
use ralph_core::decide::Decision;
use ralph_core::drive::{Meter, Metered, Source};
use ralph_core::record::{Outcome, Report};
use ralph_core::text;
use ralph_hook::contract::progress::{self, Bill, Progress};

const LONGEST_TEXT: usize = 20_000;
const LONGEST_FAILURE: usize = 300;

pub(super) fn watch(ctx: &mut Ride<'_>, line: &Line) {
    match line {
        Line::Assistant(said) => watch_assistant(ctx, said),
        Line::ToolResults { parent, results } => {
            let by = speaker(parent.as_deref());
            for failed in results.iter().filter(|result| result.is_error) {
                let text = text::line(&ctx.redactor.redact(&failed.text), LONGEST_FAILURE);
                ctx.tell(&Told::ToolFailed { by, text });
            }
        }
        Line::Retry(retry) => {
            let class = retry.error.clone().unwrap_or_else(|| "error".to_string());
            let status = retry.status.map(|status| format!(" ({status})")).unwrap_or_default();
            let attempt = retry.attempt.unwrap_or_default();
            let text = format!("the client retries{status}, attempt {attempt}");
            ctx.tell(&Told::Trouble { class, text });
        }
        Line::RateLimit(limit) if limit.status == LimitStatus::Rejected => {
            let text = "the provider's limit is reached".to_string();
            ctx.tell(&Told::Trouble { class: "rate limit".to_string(), text });
        }
        Line::Overridden { text } => {
            let class = "overridden".to_string();
            ctx.tell(&Told::Trouble { class, text: text.clone() });
        }
        Line::HookFailed { text } => ctx.note(text),
        Line::Compacted { .. } => ctx.note("the client compacted the conversation"),
        Line::Fallback { from, to } => {
            ctx.note(&format!("the client switched from {from} to {to}"));
        }
        Line::Denied { tool, text } => {
            ctx.denied(tool);
            ctx.note(&format!("{tool} was denied: {text}"));
        }
        Line::Init(_)
        | Line::Result(_)
        | Line::RateLimit(_)
        | Line::Callback { .. }
        | Line::Permission(_)
        | Line::Asked { .. }
        | Line::Cancelled { .. }
        | Line::Answered { .. }
        | Line::State(_)
        | Line::Background(_)
        | Line::Task(_)
        | Line::Other => {}
    }
}

impl Conversation {
    /// Emits the progress that the gate worker, a separate process, has written to its file.
    pub(super) fn watch_gates(&mut self, ctx: &mut Ride<'_>) {
        self.progress = tell_gates(ctx, self.progress);
    }

    pub(super) fn told_decision(
        &mut self,
        ctx: &mut Ride<'_>,
        decision: &Decision,
    ) -> Result<(), SessionError> {
        tell_decision(ctx, decision, self.permille())
    }
}

/// Emits the progress of gates since `offset` in the progress file, and returns the new offset.
pub(crate) fn tell_gates(ctx: &mut Ride<'_>, offset: u64) -> u64 {
    let (entries, offset) = progress::since(ctx.home, &ctx.run, offset);
    for progress in entries {
        ctx.tell(&match progress {
            Progress::Started { gate } => Told::GateStarted { name: text::line(&gate, 80) },
            Progress::Ended { gate, outcome, took_ms, bill } => {
                if let Some(bill) = bill {
                    charge(ctx, bill);
                }
                Told::GateEnded { name: text::line(&gate, 80), outcome, took_ms }
            }
        });
    }
    offset
}

/// Charges the cost of a gate that used a model to the run's budget.
fn charge(ctx: &Ride<'_>, bill: Bill) {
    let Ok(opened) = ctx.load() else { return };
    let Some(latest) = opened.state.driving.latest() else { return };
    let before = latest.gates;
    let metered = Metered {
        session: latest.session.id.clone(),
        source: Source::Gate,
        micro_usd: before.micro_usd.saturating_add(bill.micro_usd),
        tokens: before.tokens.saturating_add(bill.tokens),
        turns: 0,
        meter: Meter::Told,
    };
    drop(ctx.charge(before, metered));
}

/// Emits a decision about a stop, and the run's new counters.
pub(crate) fn tell_decision(
    ctx: &mut Ride<'_>,
    decision: &Decision,
    context_permille: Option<u16>,
) -> Result<(), SessionError> {
    let opened = ctx.load()?;
    let because = decision.because.clone();
    ctx.tell(&match &decision.outcome {
        Outcome::Blocked { reason } | Outcome::Awaited { reason } => Told::Held {
            iteration: opened.state.iteration,
            most: opened.state.limits(&opened.run).max_iterations,
            open: decision.report.as_ref().map_or(0, Report::open),
            because,
            reason: reason.clone(),
            missing: decision.report.iter().flat_map(|report| missing(ctx, report)).collect(),
        },
        Outcome::Allowed
        | Outcome::HandedOver
        | Outcome::Repeated
        | Outcome::Orphaned
        | Outcome::Ended(_) => Told::LetGo { rule: decision.rule.name().to_string(), because },
    });
    if let Some(remedy) = decision.remedy {
        ctx.tell(&Told::Tried { remedy, why: decision.because.clone() });
    }
    ctx.stands_as(&opened, context_permille);
    Ok(())
}

fn missing(ctx: &Ride<'_>, report: &Report) -> Vec<Missing> {
    let line = |text: &str| text::line(&ctx.redactor.redact(text), LONGEST_FAILURE);
    let missing = |one: &ralph_core::record::Line| Missing {
        name: line(&one.name),
        standing: one.standing,
        note: line(&one.note),
        first: one.first.as_deref().map(line),
    };
    report.lines.iter().map(missing).collect()
}

fn watch_assistant(ctx: &mut Ride<'_>, said: &wire::Assistant) {
    let by = speaker(said.parent.as_deref());
    for block in &said.blocks {
        match block {
            Block::Text(said) if said.trim().is_empty() => {}
            Block::Text(said) => {
                let text = text::cut(&text::clean(&ctx.redactor.redact(said)), LONGEST_TEXT);
                ctx.tell(&Told::Said { by, text });
            }
            Block::Call(call) => {
                let what = wire::what(&call.gist, &ctx.client.project, &ctx.redactor);
                ctx.tell(&Told::Tool { by, name: call.name.clone(), what });
            }
        }
    }
}

fn speaker(parent: Option<&str>) -> Speaker {
    match parent {
        None => Speaker::Agent,
        Some(_) => Speaker::Subagent,
    }
}
