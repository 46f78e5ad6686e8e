//! Turns the agent's stream, the progress of gates and decisions into events for the watcher.

use super::{AgentConversation, SessionError};
use crate::call_summary;
use crate::run_context::RunContext;
use crate::run_event::{EventSpeaker, MissingRequirement, RunEvent};
use ralph_core::decide::StopDecision;
use ralph_core::drive::{CostSource, MeterBasis, MeterReading};
use ralph_core::record::{StopOutcome, StopReport};
use ralph_core::text;
use ralph_gates::gates::gate_history::GateHistory;
use ralph_home::store::StoreError;
use ralph_hook::contract::gate_log::{self, GateBill, GateLogLine};
use ralph_host::stream::{self, AssistantBlock, RateLimitStatus, StreamLine};
use std::path::Path;

const LONGEST_TEXT: usize = 20_000;
const LONGEST_FAILURE: usize = 300;

pub(super) fn emit_line(ctx: &mut RunContext<'_>, line: &StreamLine) {
    match line {
        StreamLine::Assistant(said) => emit_assistant(ctx, said),
        StreamLine::ToolResults { parent, results } => {
            let by = speaker(parent.as_deref());
            for failed in results.iter().filter(|result| result.is_error) {
                let text = text::clean_line(&ctx.redactor.redact(&failed.text), LONGEST_FAILURE);
                ctx.emit(&RunEvent::ToolFailed { by, text });
            }
        }
        StreamLine::Retry(retry) => {
            let class = retry.error.clone().unwrap_or_else(|| "error".to_string());
            let status = retry.status.map(|status| format!(" ({status})")).unwrap_or_default();
            let attempt = retry.attempt.unwrap_or_default();
            let text = format!("the client retries{status}, attempt {attempt}");
            ctx.emit(&RunEvent::Trouble { class, text });
        }
        StreamLine::RateLimit(limit) if limit.status == RateLimitStatus::Rejected => {
            let text = "the provider's limit is reached".to_string();
            ctx.emit(&RunEvent::Trouble { class: "rate limit".to_string(), text });
        }
        StreamLine::Overridden { text } => {
            let class = "overridden".to_string();
            ctx.emit(&RunEvent::Trouble { class, text: text.clone() });
        }
        StreamLine::HookFailed { text } => ctx.note(text),
        StreamLine::Compacted { .. } => ctx.note("the client compacted the conversation"),
        StreamLine::Fallback { from, to } => {
            ctx.note(&format!("the client switched from {from} to {to}"));
        }
        StreamLine::Denied { tool, text } => {
            ctx.record_denied_call(tool, text);
            ctx.note(&format!("{tool} was denied: {text}"));
        }
        StreamLine::Init(_)
        | StreamLine::Result(_)
        | StreamLine::RateLimit(_)
        | StreamLine::Callback { .. }
        | StreamLine::Permission(_)
        | StreamLine::Asked { .. }
        | StreamLine::Cancelled { .. }
        | StreamLine::Answered { .. }
        | StreamLine::State(_)
        | StreamLine::Background(_)
        | StreamLine::Task(_)
        | StreamLine::Other => {}
    }
}

impl AgentConversation {
    /// Emits the progress that the gate worker, a separate process, has written to its file.
    pub(super) fn follow_gates(&mut self, ctx: &mut RunContext<'_>) -> Result<(), SessionError> {
        self.progress = emit_gate_progress(ctx, self.progress)?;
        Ok(())
    }

    pub(super) fn emit_stop_decision(
        &mut self,
        ctx: &mut RunContext<'_>,
        decision: &StopDecision,
    ) -> Result<(), SessionError> {
        emit_decision(ctx, decision, self.context_permille())
    }
}

/// Emits the progress of gates since `offset` in the progress file, and returns the new offset. A cost that cannot be
/// charged is an error: the run's limit would not count it.
pub(crate) fn emit_gate_progress(ctx: &mut RunContext<'_>, offset: u64) -> Result<u64, StoreError> {
    let (entries, offset) = gate_log::read_gate_log(ctx.home, &ctx.run, offset)?;
    let history = if entries.is_empty() {
        GateHistory::default()
    } else {
        GateHistory::read(ctx.home, Path::new(&ctx.load()?.run.project))
    };
    for progress in entries {
        ctx.emit(&match progress {
            GateLogLine::Began | GateLogLine::ProofStepEnded { .. } => continue,
            GateLogLine::Billed { bill, .. } => {
                charge_gate(ctx, bill)?;
                continue;
            }
            GateLogLine::Proof { step, done, of } => RunEvent::ProofProgress { step, done, of },
            GateLogLine::JudgeStep { judge, step } => RunEvent::JudgeStep {
                name: text::clean_line(&judge, 80),
                step: text::clean_line(&step, 200),
            },
            GateLogLine::Started { gate, .. } => {
                let expected_ms = history.expected_ms(&gate);
                RunEvent::GateStarted { name: text::clean_line(&gate, 80), expected_ms }
            }
            GateLogLine::Ended { gate, outcome, took_ms, bill } => {
                if let Some(bill) = bill {
                    charge_gate(ctx, bill)?;
                }
                RunEvent::GateEnded { name: text::clean_line(&gate, 80), outcome, took_ms }
            }
        });
    }
    Ok(offset)
}

/// Charges the cost of a gate that used a model to the run's budget. Before the first session there is no meter to
/// charge.
fn charge_gate(ctx: &RunContext<'_>, bill: GateBill) -> Result<(), StoreError> {
    let opened = ctx.load()?;
    let Some(latest) = opened.state.driving.latest_session() else { return Ok(()) };
    let before = latest.gates;
    let metered = MeterReading {
        session: latest.session.id.clone(),
        source: CostSource::Gate,
        micro_usd: before.micro_usd.saturating_add(bill.micro_usd),
        tokens: before.tokens.saturating_add(bill.tokens),
        turns: 0,
        meter: MeterBasis::Told,
    };
    ctx.charge(before, metered).map(drop)
}

/// Emits a decision about a stop, and the run's new counters.
pub(crate) fn emit_decision(
    ctx: &mut RunContext<'_>,
    decision: &StopDecision,
    context_permille: Option<u16>,
) -> Result<(), SessionError> {
    let opened = ctx.load()?;
    let because = decision.because.clone();
    ctx.emit(&match &decision.outcome {
        StopOutcome::Blocked { reason } | StopOutcome::Awaited { reason } => RunEvent::Held {
            iteration: opened.state.iteration,
            most: opened.state.limits(&opened.run).max_iterations,
            open: decision.report.as_ref().map_or(0, StopReport::open_count),
            because,
            reason: reason.clone(),
            missing: decision
                .report
                .iter()
                .flat_map(|report| missing_requirements(ctx, report))
                .collect(),
        },
        StopOutcome::Allowed
        | StopOutcome::HandedOver
        | StopOutcome::Repeated
        | StopOutcome::Orphaned
        | StopOutcome::Ended(_) => {
            RunEvent::LetGo { rule: decision.rule.name().to_string(), because }
        }
    });
    if let Some(remedy) = decision.remedy {
        ctx.emit(&RunEvent::Tried { remedy, why: decision.because.clone() });
    }
    ctx.emit_progress_of(&opened, context_permille);
    Ok(())
}

fn missing_requirements(ctx: &RunContext<'_>, report: &StopReport) -> Vec<MissingRequirement> {
    let line = |text: &str| text::clean_line(&ctx.redactor.redact(text), LONGEST_FAILURE);
    let missing = |one: &ralph_core::record::ReportLine| MissingRequirement {
        name: line(&one.name),
        standing: one.standing,
        note: line(&one.note),
        first: one.first.as_deref().map(line),
    };
    report.lines.iter().map(missing).collect()
}

fn emit_assistant(ctx: &mut RunContext<'_>, said: &stream::StreamAssistant) {
    let by = speaker(said.parent.as_deref());
    for block in &said.blocks {
        match block {
            AssistantBlock::Text(said) if said.trim().is_empty() => {}
            AssistantBlock::Text(said) => {
                let text = text::truncate(&text::clean(&ctx.redactor.redact(said)), LONGEST_TEXT);
                ctx.emit(&RunEvent::Said { by, text });
            }
            AssistantBlock::Call(call) => {
                let what =
                    call_summary::describe_call(&call.gist, &ctx.client.project, &ctx.redactor);
                ctx.emit(&RunEvent::Tool { by, name: call.name.clone(), what });
            }
        }
    }
}

fn speaker(parent: Option<&str>) -> EventSpeaker {
    match parent {
        None => EventSpeaker::Agent,
        Some(_) => EventSpeaker::Subagent,
    }
}
