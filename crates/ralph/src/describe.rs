//! Short descriptions of runs, reports, gates and journal lines, as the commands print them.

use crate::term::{self, paint};
use ralph_core::chunk::{self, AgentTally};
use ralph_core::drive::{CostSource, MeterBasis, RunnerEvent, SessionOrigin, SilenceResponse};
use ralph_core::facts::DeclaredPause;
use ralph_core::gate::{self, GateReport, ResultStability, UnknownReason};
use ralph_core::limits::{self, RunLimits, format_usd};
use ralph_core::policy::Chunk;
use ralph_core::record::{
    ListKind, OptIn, OrchestratorStep, PartRecord, ReportedStatus, RunChange, RunRecord,
    StopOutcome, StopRecord, StopReport,
};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::text;
use ralph_core::waiver;
use ralph_hook::overview::{HeldSession, RunView};
use ralph_install::doctor::protection::UnprotectedReason;
use ralph_sys::clock;

/// Foreign text on one line, without control characters that could affect a terminal.
pub(crate) fn safe_line(foreign: &str) -> String {
    ralph_core::text::clean_line(foreign, 400)
}

pub(crate) fn limits(limits: &RunLimits) -> String {
    let mut parts = Vec::new();
    parts.extend(match (limits.min_iterations, limits.max_iterations) {
        (0, most) => most.map(|most| format!("{most} iterations")),
        (least, Some(most)) => Some(format!("{least} to {most} iterations")),
        (least, None) => Some(format!("at least {least} iterations")),
    });
    parts.extend(limits.max_duration_ms.map(limits::format_duration));
    parts.extend(limits.max_cost_micro_usd.map(format_usd));
    parts.extend(limits.max_tokens.map(limits::format_tokens));
    if limits.stuck_after != u32::MAX {
        parts.push(format!("stuck after {} stops without progress", limits.stuck_after));
    }
    parts.join(" · ")
}

/// The sources of the run's requirements, as label and value.
pub(crate) fn contract(run: &RunRecord) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> =
        run.features.iter().map(|path| ("list", format!("`{}`", safe_line(path)))).collect();
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    lines.extend(plans.map(|list| ("plan", format!("`{}`", safe_line(&list.path)))));
    if let Some(promise) = &run.promise {
        lines.push((
            "promise",
            format!("<promise>{}</promise>", ralph_core::text::clean_line(promise, 200)),
        ));
    }
    if run.checklist == OptIn::Yes {
        lines.push(("tasks", "every item of the newest task list".to_string()));
    }
    if run.tasks == OptIn::Yes {
        lines.push(("tasks", "every task of the client's own list".to_string()));
    }
    if run.phases == OptIn::Yes {
        lines.push(("phases", "nine conditions, from clarify to retrospect".to_string()));
    }
    if let Some(seal) = &run.seal {
        let names: Vec<_> = seal.policy.gates.iter().map(|gate| safe_line(&gate.name)).collect();
        let has_checks = run.lists.iter().any(|list| !list.approval.is_empty());
        let gates = if names.is_empty() && has_checks {
            "none, only the checks of list items".to_string()
        } else if names.is_empty() {
            "none, only the policy's checks".to_string()
        } else {
            names.join(", ")
        };
        lines.push(("gates", gates));
        let chunks: Vec<_> =
            seal.policy.chunks.iter().map(|chunk| safe_line(&chunk.name)).collect();
        if !chunks.is_empty() {
            lines.push(("chunks", chunks.join(", ")));
        }
        if !seal.policy.pipeline.is_empty() {
            lines.push(("chunks", pipeline(&seal.policy.pipeline)));
        }
    }
    lines
}

/// `plan → parser, docs → review`: layer by layer.
fn pipeline(chunks: &[Chunk]) -> String {
    let layer = |members: &Vec<&Chunk>| {
        members.iter().map(|chunk| safe_line(&chunk.name)).collect::<Vec<_>>().join(", ")
    };
    let layers: Vec<_> = ralph_core::pipeline::layers(chunks).iter().map(layer).collect();
    safe_line(&layers.join(" → "))
}

/// A step of an orchestrated run.
pub(crate) fn orchestrator_step(step: &OrchestratorStep) -> String {
    match step {
        OrchestratorStep::Phase(phase) => format!("phase \"{}\"", safe_line(phase)),
        OrchestratorStep::Claims(condition) => {
            format!("claimed by the agent: {}", condition.name())
        }
        OrchestratorStep::Withdraws(condition) => {
            format!("withdrawn by the agent: {}", condition.name())
        }
        OrchestratorStep::Classified(complexity) => format!("complexity {complexity} of 10"),
        OrchestratorStep::Approved { by } => format!("plan approved by {}", safe_line(by)),
    }
}

/// The state of a run in one word, also used in JSON.
pub(crate) fn standing(state: &RunState, phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Ended(status) => status.name(),
        RunPhase::Paused { .. } => match &state.driving.parked {
            Some(parked) => parked.status.name(),
            None => "paused",
        },
        RunPhase::Orphaned => "orphaned",
        RunPhase::Active if state.driving.wait.is_some() => "waiting",
        RunPhase::Active if state.trouble.is_some() => "trouble",
        RunPhase::Active if state.answer.is_some() => "held",
        RunPhase::Active if state.report.is_some() || state.delivery.is_some() => "let go",
        RunPhase::Active => "armed",
    }
}

/// As [`standing`], or `unprotected` if no hook of the run's session reaches ralph.
pub(crate) fn view_standing(
    view: &RunView,
    unprotected: Option<&UnprotectedReason>,
) -> &'static str {
    match unprotected {
        Some(_) => "unprotected",
        None => standing(&view.opened.state, view.phase),
    }
}

/// Why no hook of the run's session reaches ralph, and how to fix it.
pub(crate) fn unprotected(why: &UnprotectedReason, now_ms: u64) -> String {
    let mark = paint(term::BAD, "✗");
    let (why, remedy) = (safe_line(&why.describe(now_ms)), safe_line(&why.remedy()));
    format!("      {mark} unprotected: {why}\n        {remedy}\n")
}

pub(crate) fn progress(run: &RunRecord, state: &RunState, now_ms: u64) -> String {
    let mut parts = Vec::new();
    let bounds = state.limits(run);
    if let Some(owner) = state.owner(run) {
        parts.push(format!("{} {}", ralph_host::default_host().name, owner.short()));
    }
    parts.push(match bounds.max_iterations {
        Some(most) => format!("iteration {} of {most}", state.iteration),
        None => format!("iteration {}", state.iteration),
    });
    if state.driving.count > 1 {
        parts.push(format!("session {}", state.driving.count));
    }
    let elapsed = limits::format_duration(state.elapsed_ms(now_ms));
    parts.push(match bounds.max_duration_ms {
        Some(most) => format!("{elapsed} of {}", limits::format_duration(most)),
        None => elapsed,
    });
    if let Some(spent) = spent(state) {
        parts.push(match bounds.max_cost_micro_usd {
            Some(most) => format!("{} of {}", format_usd(spent), format_usd(most)),
            None => format_usd(spent),
        });
    }
    if let Some(observed) = &state.observed {
        parts.extend(match (observed.context_permille(), observed.context_tokens) {
            (Some(permille), _) => Some(format!("context {} %", permille / 10)),
            (None, Some(tokens)) => Some(format!("context {}", limits::format_tokens(tokens))),
            (None, None) => None,
        });
    }
    parts.extend(chunks(state));
    if let Some(trouble) = &state.trouble {
        parts.push(format!("last turn ended by {}", ralph_core::text::clean_line(trouble, 60)));
    }
    parts.join(" · ")
}

/// Waivers, disputes, what the agent declared, and messages that it has not received yet; a line each.
pub(crate) fn remark_lines(state: &RunState, now_ms: u64) -> Vec<String> {
    // For a run that has ended, the waivers that were in force at its end.
    let then_ms = match state.phase {
        RunPhase::Ended(_) => state.last_seen_ms,
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => now_ms,
    };
    let counting = state.waivers.iter().filter(|waiver| waiver.until_ms > then_ms);
    let mark = paint(term::DIM, "·");
    let waived = counting.map(|waiver| {
        let name = safe_line(&waiver.requirement);
        let sentence = match state.phase {
            RunPhase::Ended(_) => format!(
                "waived by {} until {}: {}",
                safe_line(&waiver.by),
                local_time(waiver.until_ms),
                safe_line(&waiver.why)
            ),
            RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
                safe_line(&waiver::describe_waiver(waiver, now_ms))
            }
        };
        format!("{mark} {name}: {sentence}")
    });
    let disputed = state.disputes.iter().map(|dispute| {
        let (name, why) = (safe_line(&dispute.requirement), safe_line(&dispute.why));
        format!("{} {name}: disputed by the agent: {why}", paint(term::WARN, "?"))
    });
    let hints = state
        .hints
        .iter()
        .map(|hint| format!("{mark} message for the next stop: {}", safe_line(hint)));
    let declared = state.declared.iter().map(|declared| match declared {
        DeclaredPause::NeedsHuman(question) => {
            format!("{} the agent asks: {}", paint(term::WARN, "?"), safe_line(question))
        }
        DeclaredPause::Waiting { until_ms, why } => {
            format!("{mark} the agent waits until {}: {}", local_time(*until_ms), safe_line(why))
        }
    });
    let declared = declared.filter(|_| !matches!(state.phase, RunPhase::Ended(_)));
    waived.chain(disputed).chain(declared).chain(hints).collect()
}

pub(crate) fn spent(state: &RunState) -> Option<u64> {
    match state.driving.count {
        0 => state.observed.as_ref()?.spent_micro_usd(),
        _ => Some(state.driving.spent().micro_usd),
    }
}

pub(crate) fn tokens(state: &RunState) -> Option<u64> {
    (state.driving.count > 0).then(|| state.driving.spent().tokens)
}

#[expect(clippy::cast_precision_loss, reason = "an amount of money is far below 2^53 millionths")]
pub(crate) fn micro_usd_as_usd(micro: u64) -> f64 {
    micro as f64 / 1e6
}

/// The requirements as of the last verification, on one line.
pub(crate) fn report(report: &StopReport) -> String {
    let mut parts: Vec<String> = report
        .met
        .iter()
        .take(4)
        .map(|name| format!("{} {}", paint(term::GOOD, "✓"), safe_line(name)))
        .collect();
    let met = report.total.saturating_sub(report.open_count());
    let shown = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    if met > shown {
        parts.push(format!("{} {} more", paint(term::GOOD, "✓"), met - shown));
    }
    for line in report.lines.iter().take(4) {
        let findings = match line.findings {
            0 => String::new(),
            1 => " (1 finding)".to_string(),
            count => format!(" ({count} findings)"),
        };
        parts.push(format!("{} {}{findings}", mark(line.standing), safe_line(&line.name)));
    }
    let open = report.open_count();
    if open > 4 {
        parts.push(format!("{} {} more", paint(term::BAD, "✗"), open - 4));
    }
    parts.join("  ")
}

pub(crate) fn mark(known: ReportedStatus) -> String {
    match known {
        ReportedStatus::Unmet => paint(term::BAD, "✗"),
        ReportedStatus::Unknown => paint(term::WARN, "?"),
        ReportedStatus::Pending | ReportedStatus::Advisory => paint(term::DIM, "·"),
    }
}

pub(crate) fn gate_mark(outcome: &gate::GateOutcome) -> String {
    match outcome {
        gate::GateOutcome::Passed => paint(term::GOOD, "✓"),
        gate::GateOutcome::Failed => paint(term::BAD, "✗"),
        gate::GateOutcome::Unknown(UnknownReason::Skipped(_)) => paint(term::DIM, "·"),
        gate::GateOutcome::Unknown(_) => paint(term::WARN, "?"),
    }
}

/// Why a gate did not pass, on one line.
pub(crate) fn gate_note(report: &GateReport) -> String {
    match &report.outcome {
        gate::GateOutcome::Passed => String::new(),
        gate::GateOutcome::Failed => report.summary(),
        gate::GateOutcome::Unknown(unknown) => match unknown {
            UnknownReason::Skipped(why) => safe_line(why),
            UnknownReason::Error(why) | UnknownReason::Inconclusive(why) => {
                format!("{}: {}", unknown.name(), safe_line(why))
            }
            UnknownReason::Timeout { after_ms } => {
                format!("timed out after {}", limits::format_duration(*after_ms))
            }
            UnknownReason::Untrusted => "not approved yet: run `ralph trust`".to_string(),
        },
    }
}

pub(crate) fn steadiness(report: &GateReport) -> &'static str {
    match report.steadiness {
        ResultStability::Once | ResultStability::Confirmed => "",
        ResultStability::Flaky => "flaky: it failed first and passed when run again",
    }
}

/// `0.4 s`, `12 s`, `3 min`.
pub(crate) fn short_duration(ms: u64) -> String {
    if ms < 10_000 {
        format!("{}.{} s", ms / 1000, ms % 1000 / 100)
    } else {
        limits::format_duration(ms)
    }
}

/// The chunk and the agent that a part of the run is about: `chunk parser, subagent implementer`.
pub(crate) fn part_owner(part: &PartRecord) -> String {
    let agent = format!("{} {}", part.who.kind.name(), safe_line(&part.who.name));
    match &part.chunk {
        Some(chunk) => format!("chunk {}, {agent}", safe_line(chunk)),
        None => agent,
    }
}

/// `3 of 4 chunks verified`; `None` if no agent works on a chunk.
pub(crate) fn chunks(state: &RunState) -> Option<String> {
    let AgentTally { verified, all } = chunk::tally_agents(&state.parts, None);
    let noun = if all == 1 { "chunk" } else { "chunks" };
    (all > 0).then(|| format!("{verified} of {all} {noun} verified"))
}

pub(crate) fn decision_outcome(decided: &StopRecord) -> &'static str {
    match decided.outcome {
        StopOutcome::Allowed | StopOutcome::Orphaned => "let go",
        StopOutcome::Blocked { .. } | StopOutcome::Awaited { .. } => "held",
        StopOutcome::HandedOver => "over",
        StopOutcome::Repeated => "as before",
        StopOutcome::Ended(status) => status.name(),
    }
}

/// An action of the runner, as a line of the log.
pub(crate) fn runner_action(drove: &RunnerEvent) -> String {
    match drove {
        RunnerEvent::Session(session) => {
            let how = match session.how {
                SessionOrigin::Fresh => "starts",
                SessionOrigin::Resumed => "resumes",
                SessionOrigin::Forked => "starts as a fork",
            };
            format!("session    {} {how}", session.id.short())
        }
        RunnerEvent::Metered(metered) => {
            let of = match metered.source {
                CostSource::Agent => "",
                CostSource::Gate => " by gates",
            };
            let assumed = match metered.meter {
                MeterBasis::Told => "",
                MeterBasis::Assumed => ", assumed",
            };
            format!(
                "metered    {}{of}, {}, {}{assumed}",
                limits::format_usd(metered.micro_usd),
                limits::format_tokens(metered.tokens),
                text::count_noun(metered.turns.into(), "turn")
            )
        }
        RunnerEvent::HandsOver { why, .. } => format!("hands over {}", safe_line(why)),
        RunnerEvent::Waits(wait) => {
            let until = local_time(wait.until_ms);
            format!("waits      until {until} ({}): {}", wait.cause.name(), safe_line(&wait.why))
        }
        RunnerEvent::Woke => "woke       and continues".to_string(),
        RunnerEvent::WaitedEnough { why } => {
            format!("checks     instead of waiting again: {}", safe_line(why))
        }
        RunnerEvent::Tried { remedy, why } => {
            format!("tries      {}: {}", remedy.name(), safe_line(why))
        }
        RunnerEvent::Silent { after_ms, done } => {
            let done = match done {
                SilenceResponse::Nudged => "the agent was asked for a sign of life",
                SilenceResponse::Restarted => "the agent was restarted",
            };
            format!("silent     for {}; {done}", limits::format_duration(*after_ms))
        }
        RunnerEvent::Broke { how } => format!("broke off  {}", safe_line(how)),
        RunnerEvent::Parked { status, why } => {
            format!("parked     {}: {}", status.name(), safe_line(why))
        }
        RunnerEvent::Settled { how } => format!("settled    {}", safe_line(how)),
        RunnerEvent::PassedOn => "passed on  a person's message".to_string(),
        RunnerEvent::Granted { limit_ms } => {
            format!("granted    {} of waiting for limits", limits::format_duration(*limit_ms))
        }
    }
}

/// A session that is held only by files of other tools.
pub(crate) fn held_session(view: &HeldSession) -> String {
    let session = view.session.as_str();
    let how = if let RunChange::Decided(decided) = &view.last.change {
        let because = safe_line(&decided.because);
        format!("{} by files of other tools: {because}", decision_outcome(decided))
    } else {
        "known".to_string()
    };
    let ago = ago(clock::now_ms(), view.last.at_ms);
    format!("no run  session {session} {how} ({ago}); `ralph cancel {session}` releases it\n")
}

pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) {
        0..60_000 => "just now".to_string(),
        passed => format!("{} ago", limits::format_duration(passed)),
    }
}

/// The local time, preceded by the date unless it is today's.
pub(crate) fn local_time(ms: u64) -> String {
    let (date, time) = (clock::local_date(ms), clock::local_time(ms));
    if date == clock::local_date(clock::now_ms()) { time } else { format!("{date} {time}") }
}
