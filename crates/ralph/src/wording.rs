//! Short descriptions of runs, reports, gates and journal lines, as the commands print them.

use crate::term::{self, paint};
use ralph_core::chunk::{self, Tally};
use ralph_core::drive::{Drove, How, Meter, Silence, Source};
use ralph_core::facts::Declared;
use ralph_core::gate::{self, GateReport, Steadiness, Unknown};
use ralph_core::limits::{self, Limits, money};
use ralph_core::policy::Chunk;
use ralph_core::record::{
    Asked, Change, Decided, Known, ListKind, Outcome, Part, Report, Run, Step,
};
use ralph_core::run::{Phase, State};
use ralph_core::text;
use ralph_core::waiver;
use ralph_hook::overview::{HeldView, RunView};
use ralph_install::doctor::protection::Unprotected;
use ralph_sys::clock;

/// Foreign text on one line, without control characters that could affect a terminal.
pub(crate) fn safe(foreign: &str) -> String {
    ralph_core::text::line(foreign, 400)
}

pub(crate) fn limits(limits: &Limits) -> String {
    let mut parts = Vec::new();
    parts.extend(match (limits.min_iterations, limits.max_iterations) {
        (0, most) => most.map(|most| format!("{most} iterations")),
        (least, Some(most)) => Some(format!("{least} to {most} iterations")),
        (least, None) => Some(format!("at least {least} iterations")),
    });
    parts.extend(limits.max_duration_ms.map(limits::duration));
    parts.extend(limits.max_cost_micro_usd.map(money));
    parts.extend(limits.max_tokens.map(limits::tokens));
    if limits.stuck_after != u32::MAX {
        parts.push(format!("stuck after {} stops without progress", limits.stuck_after));
    }
    parts.join(" · ")
}

/// The sources of the run's requirements, as label and value.
pub(crate) fn contract(run: &Run) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> =
        run.features.iter().map(|path| ("list", format!("`{}`", safe(path)))).collect();
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    lines.extend(plans.map(|list| ("plan", format!("`{}`", safe(&list.path)))));
    if let Some(promise) = &run.promise {
        lines.push((
            "promise",
            format!("<promise>{}</promise>", ralph_core::text::line(promise, 200)),
        ));
    }
    if run.checklist == Asked::Yes {
        lines.push(("tasks", "every item of the newest task list".to_string()));
    }
    if run.tasks == Asked::Yes {
        lines.push(("tasks", "every task of the client's own list".to_string()));
    }
    if run.phases == Asked::Yes {
        lines.push(("phases", "nine conditions, from clarify to retrospect".to_string()));
    }
    if let Some(seal) = &run.seal {
        let names: Vec<_> = seal.policy.gates.iter().map(|gate| safe(&gate.name)).collect();
        let has_checks = run.lists.iter().any(|list| !list.approval.is_empty());
        let gates = if names.is_empty() && has_checks {
            "none, only the checks of list items".to_string()
        } else if names.is_empty() {
            "none, only the policy's checks".to_string()
        } else {
            names.join(", ")
        };
        lines.push(("gates", gates));
        let chunks: Vec<_> = seal.policy.chunks.iter().map(|chunk| safe(&chunk.name)).collect();
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
        members.iter().map(|chunk| safe(&chunk.name)).collect::<Vec<_>>().join(", ")
    };
    let layers: Vec<_> = ralph_core::pipeline::layers(chunks).iter().map(layer).collect();
    safe(&layers.join(" → "))
}

/// A step of an orchestrated run.
pub(crate) fn step(step: &Step) -> String {
    match step {
        Step::Phase(phase) => format!("phase \"{}\"", safe(phase)),
        Step::Claims(condition) => format!("claimed by the agent: {}", condition.name()),
        Step::Withdraws(condition) => format!("withdrawn by the agent: {}", condition.name()),
        Step::Classified(complexity) => format!("complexity {complexity} of 10"),
        Step::Approved { by } => format!("plan approved by {}", safe(by)),
    }
}

/// The state of a run in one word, also used in JSON.
pub(crate) fn standing(state: &State, phase: Phase) -> &'static str {
    match phase {
        Phase::Ended(status) => status.name(),
        Phase::Paused { .. } => match &state.driving.parked {
            Some(parked) => parked.status.name(),
            None => "paused",
        },
        Phase::Orphaned => "orphaned",
        Phase::Active if state.driving.wait.is_some() => "waiting",
        Phase::Active if state.trouble.is_some() => "trouble",
        Phase::Active if state.answer.is_some() => "held",
        Phase::Active if state.report.is_some() || state.delivery.is_some() => "let go",
        Phase::Active => "armed",
    }
}

/// As [`standing`], or `unprotected` if no hook of the run's session reaches ralph.
pub(crate) fn standing_of(view: &RunView, unprotected: Option<&Unprotected>) -> &'static str {
    match unprotected {
        Some(_) => "unprotected",
        None => standing(&view.opened.state, view.phase),
    }
}

/// Why no hook of the run's session reaches ralph, and how to fix it.
pub(crate) fn unprotected(why: &Unprotected, now_ms: u64) -> String {
    let mark = paint(term::BAD, "✗");
    let (why, remedy) = (safe(&why.in_words(now_ms)), safe(&why.remedy()));
    format!("      {mark} unprotected: {why}\n        {remedy}\n")
}

pub(crate) fn progress(run: &Run, state: &State, now_ms: u64) -> String {
    let mut parts = Vec::new();
    let bounds = state.limits(run);
    if let Some(owner) = state.owner(run) {
        parts.push(format!("claude {}", owner.short()));
    }
    parts.push(match bounds.max_iterations {
        Some(most) => format!("iteration {} of {most}", state.iteration),
        None => format!("iteration {}", state.iteration),
    });
    if state.driving.count > 1 {
        parts.push(format!("session {}", state.driving.count));
    }
    let elapsed = limits::duration(state.elapsed_ms(now_ms));
    parts.push(match bounds.max_duration_ms {
        Some(most) => format!("{elapsed} of {}", limits::duration(most)),
        None => elapsed,
    });
    if let Some(spent) = spent(state) {
        parts.push(match bounds.max_cost_micro_usd {
            Some(most) => format!("{} of {}", money(spent), money(most)),
            None => money(spent),
        });
    }
    if let Some(observed) = &state.observed {
        parts.extend(match (observed.context_permille(), observed.context_tokens) {
            (Some(permille), _) => Some(format!("context {} %", permille / 10)),
            (None, Some(tokens)) => Some(format!("context {}", limits::tokens(tokens))),
            (None, None) => None,
        });
    }
    parts.extend(chunks(state));
    if let Some(trouble) = &state.trouble {
        parts.push(format!("last turn ended by {}", ralph_core::text::line(trouble, 60)));
    }
    parts.join(" · ")
}

/// Waivers, disputes, what the agent declared, and messages that it has not received yet; a line each.
pub(crate) fn said(state: &State, now_ms: u64) -> Vec<String> {
    // For a run that has ended, the waivers that were in force at its end.
    let then_ms = match state.phase {
        Phase::Ended(_) => state.last_seen_ms,
        Phase::Active | Phase::Paused { .. } | Phase::Orphaned => now_ms,
    };
    let counting = state.waivers.iter().filter(|waiver| waiver.until_ms > then_ms);
    let mark = paint(term::DIM, "·");
    let waived = counting.map(|waiver| {
        let name = safe(&waiver.requirement);
        let sentence = match state.phase {
            Phase::Ended(_) => format!(
                "waived by {} until {}: {}",
                safe(&waiver.by),
                when(waiver.until_ms),
                safe(&waiver.why)
            ),
            Phase::Active | Phase::Paused { .. } | Phase::Orphaned => {
                safe(&waiver::sentence(waiver, now_ms))
            }
        };
        format!("{mark} {name}: {sentence}")
    });
    let disputed = state.disputes.iter().map(|dispute| {
        let (name, why) = (safe(&dispute.requirement), safe(&dispute.why));
        format!("{} {name}: disputed by the agent: {why}", paint(term::ODD, "?"))
    });
    let hints =
        state.hints.iter().map(|hint| format!("{mark} message for the next stop: {}", safe(hint)));
    let declared = state.declared.iter().map(|declared| match declared {
        Declared::NeedsHuman(question) => {
            format!("{} the agent asks: {}", paint(term::ODD, "?"), safe(question))
        }
        Declared::Waiting { until_ms, why } => {
            format!("{mark} the agent waits until {}: {}", when(*until_ms), safe(why))
        }
    });
    let declared = declared.filter(|_| !matches!(state.phase, Phase::Ended(_)));
    waived.chain(disputed).chain(declared).chain(hints).collect()
}

pub(crate) fn spent(state: &State) -> Option<u64> {
    match state.driving.count {
        0 => state.observed.as_ref()?.spent_micro_usd(),
        _ => Some(state.driving.spent().micro_usd),
    }
}

pub(crate) fn tokens(state: &State) -> Option<u64> {
    (state.driving.count > 0).then(|| state.driving.spent().tokens)
}

#[expect(clippy::cast_precision_loss, reason = "an amount of money is far below 2^53 millionths")]
pub(crate) fn usd(micro: u64) -> f64 {
    micro as f64 / 1e6
}

/// The requirements as of the last verification, on one line.
pub(crate) fn report(report: &Report) -> String {
    let mut parts: Vec<String> = report
        .met
        .iter()
        .take(4)
        .map(|name| format!("{} {}", paint(term::GOOD, "✓"), safe(name)))
        .collect();
    let met = report.total.saturating_sub(report.open());
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
        parts.push(format!("{} {}{findings}", mark(line.standing), safe(&line.name)));
    }
    let open = report.open();
    if open > 4 {
        parts.push(format!("{} {} more", paint(term::BAD, "✗"), open - 4));
    }
    parts.join("  ")
}

pub(crate) fn mark(known: Known) -> String {
    match known {
        Known::Unmet => paint(term::BAD, "✗"),
        Known::Unknown => paint(term::ODD, "?"),
        Known::Pending | Known::Advisory => paint(term::DIM, "·"),
    }
}

pub(crate) fn gate_mark(outcome: &gate::Outcome) -> String {
    match outcome {
        gate::Outcome::Passed => paint(term::GOOD, "✓"),
        gate::Outcome::Failed => paint(term::BAD, "✗"),
        gate::Outcome::Unknown(Unknown::Skipped(_)) => paint(term::DIM, "·"),
        gate::Outcome::Unknown(_) => paint(term::ODD, "?"),
    }
}

/// Why a gate did not pass, on one line.
pub(crate) fn gate_note(report: &GateReport) -> String {
    match &report.outcome {
        gate::Outcome::Passed => String::new(),
        gate::Outcome::Failed => report.summary(),
        gate::Outcome::Unknown(unknown) => match unknown {
            Unknown::Skipped(why) => safe(why),
            Unknown::Error(why) | Unknown::Inconclusive(why) => {
                format!("{}: {}", unknown.name(), safe(why))
            }
            Unknown::Timeout { after_ms } => {
                format!("timed out after {}", limits::duration(*after_ms))
            }
            Unknown::Untrusted => "not approved yet: run `ralph trust`".to_string(),
        },
    }
}

pub(crate) fn steadiness(report: &GateReport) -> &'static str {
    match report.steadiness {
        Steadiness::Once | Steadiness::Confirmed => "",
        Steadiness::Flaky => "flaky: it failed first and passed when run again",
    }
}

/// `0.4 s`, `12 s`, `3 min`.
pub(crate) fn short_duration(ms: u64) -> String {
    if ms < 10_000 { format!("{}.{} s", ms / 1000, ms % 1000 / 100) } else { limits::duration(ms) }
}

/// The chunk and the agent that a part of the run is about: `chunk parser, subagent implementer`.
pub(crate) fn part(part: &Part) -> String {
    let agent = format!("{} {}", part.who.kind.name(), safe(&part.who.name));
    match &part.chunk {
        Some(chunk) => format!("chunk {}, {agent}", safe(chunk)),
        None => agent,
    }
}

/// `3 of 4 chunks verified`; `None` if no agent works on a chunk.
pub(crate) fn chunks(state: &State) -> Option<String> {
    let Tally { verified, all } = chunk::tally(&state.parts, None);
    let noun = if all == 1 { "chunk" } else { "chunks" };
    (all > 0).then(|| format!("{verified} of {all} {noun} verified"))
}

pub(crate) fn outcome(decided: &Decided) -> &'static str {
    match decided.outcome {
        Outcome::Allowed | Outcome::Orphaned => "let go",
        Outcome::Blocked { .. } | Outcome::Awaited { .. } => "held",
        Outcome::HandedOver => "over",
        Outcome::Repeated => "as before",
        Outcome::Ended(status) => status.name(),
    }
}

/// An action of the runner, as a line of the log.
pub(crate) fn drove(drove: &Drove) -> String {
    match drove {
        Drove::Session(session) => {
            let how = match session.how {
                How::Fresh => "starts",
                How::Resumed => "resumes",
                How::Forked => "starts as a fork",
            };
            format!("session    {} {how}", session.id.short())
        }
        Drove::Metered(metered) => {
            let of = match metered.source {
                Source::Agent => "",
                Source::Gate => " by gates",
            };
            let assumed = match metered.meter {
                Meter::Told => "",
                Meter::Assumed => ", assumed",
            };
            format!(
                "metered    {}{of}, {}, {}{assumed}",
                limits::money(metered.micro_usd),
                limits::tokens(metered.tokens),
                text::counted(metered.turns.into(), "turn")
            )
        }
        Drove::HandsOver { why, .. } => format!("hands over {}", safe(why)),
        Drove::Waits(wait) => {
            let until = when(wait.until_ms);
            format!("waits      until {until} ({}): {}", wait.cause.name(), safe(&wait.why))
        }
        Drove::Woke => "woke       and continues".to_string(),
        Drove::WaitedEnough { why } => {
            format!("checks     instead of waiting again: {}", safe(why))
        }
        Drove::Tried { remedy, why } => format!("tries      {}: {}", remedy.name(), safe(why)),
        Drove::Silent { after_ms, done } => {
            let done = match done {
                Silence::Nudged => "the agent was asked for a sign of life",
                Silence::Restarted => "the agent was restarted",
            };
            format!("silent     for {}; {done}", limits::duration(*after_ms))
        }
        Drove::Broke { how } => format!("broke off  {}", safe(how)),
        Drove::Parked { status, why } => format!("parked     {}: {}", status.name(), safe(why)),
        Drove::Settled { how } => format!("settled    {}", safe(how)),
        Drove::PassedOn => "passed on  a person's message".to_string(),
        Drove::Granted { limit_ms } => {
            format!("granted    {} of waiting for limits", limits::duration(*limit_ms))
        }
    }
}

/// A session that is held only by files of other tools.
pub(crate) fn held(view: &HeldView) -> String {
    let session = view.session.as_str();
    let how = if let Change::Decided(decided) = &view.last.change {
        let because = safe(&decided.because);
        format!("{} by files of other tools: {because}", outcome(decided))
    } else {
        "known".to_string()
    };
    let ago = ago(clock::now_ms(), view.last.at_ms);
    format!("no run  session {session} {how} ({ago}); `ralph cancel {session}` releases it\n")
}

pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) {
        0..60_000 => "just now".to_string(),
        passed => format!("{} ago", limits::duration(passed)),
    }
}

/// The local time, preceded by the date unless it is today's.
pub(crate) fn when(ms: u64) -> String {
    let (date, time) = (clock::local_date(ms), clock::local_time(ms));
    if date == clock::local_date(clock::now_ms()) { time } else { format!("{date} {time}") }
}
