//! Facts as the person at the terminal reads them.

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
use ralph_exec::clock;
use ralph_exec::doctor::protection::Unprotected;
use ralph_exec::overview::{HeldView, RunView};

/// Whatever a file says, on one line that cannot steer a terminal.
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
        parts.push(format!("stuck after {} stops without anything new", limits.stuck_after));
    }
    parts.join(" · ")
}

/// What the run is held to, as label and value.
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
            "none, only the checks of what is listed".to_string()
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
        Step::Claims(condition) => format!("the agent says: {}", condition.name()),
        Step::Withdraws(condition) => format!("the agent takes back: {}", condition.name()),
        Step::Classified(complexity) => format!("complexity {complexity} of 10"),
        Step::Approved { by } => format!("the plan is approved by {}", safe(by)),
    }
}

/// One word for how a run stands.
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

/// The same, unless nothing of the run's session reaches ralph.
pub(crate) fn standing_of(view: &RunView, unprotected: Option<&Unprotected>) -> &'static str {
    match unprotected {
        Some(_) => "unprotected",
        None => standing(&view.opened.state, view.phase),
    }
}

/// Why nobody is held, and what to do about it.
pub(crate) fn unprotected(why: &Unprotected, now_ms: u64) -> String {
    let mark = paint(term::BAD, "✗");
    let (why, remedy) = (safe(&why.in_words(now_ms)), safe(&why.remedy()));
    format!("      {mark} nobody is held: {why}\n        {remedy}\n")
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

/// What people and the agent said about requirements, and what the agent does not know yet; a line each.
pub(crate) fn said(state: &State, now_ms: u64) -> Vec<String> {
    // At the end of a run those count that counted then.
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
    let told =
        state.hints.iter().map(|hint| format!("{mark} told at the next stop: {}", safe(hint)));
    let declared = state.declared.iter().map(|declared| match declared {
        Declared::NeedsHuman(question) => {
            format!("{} the agent asks: {}", paint(term::ODD, "?"), safe(question))
        }
        Declared::Waiting { until_ms, why } => {
            format!("{mark} the agent waits until {}: {}", when(*until_ms), safe(why))
        }
    });
    let declared = declared.filter(|_| !matches!(state.phase, Phase::Ended(_)));
    waived.chain(disputed).chain(declared).chain(told).collect()
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

/// The report of the last look, on one line.
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
                format!("no answer within {}", limits::duration(*after_ms))
            }
            Unknown::Untrusted => "nobody approved it yet: `ralph trust`".to_string(),
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

/// Who it is about: `chunk parser, subagent implementer`.
pub(crate) fn part(part: &Part) -> String {
    let who = format!("{} {}", part.who.kind.name(), safe(&part.who.name));
    match &part.chunk {
        Some(chunk) => format!("chunk {}, {who}", safe(chunk)),
        None => who,
    }
}

/// `3 of 4 chunks verified`; nothing where no agent was held to one.
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

/// What a runner did, as a line of the log.
pub(crate) fn drove(drove: &Drove) -> String {
    match drove {
        Drove::Session(session) => {
            let how = match session.how {
                How::Fresh => "begins",
                How::Resumed => "goes on",
                How::Forked => "is a copy that goes on",
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
                Meter::Assumed => ", which is assumed",
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
        Drove::Woke => "woke       and goes on".to_string(),
        Drove::WaitedEnough { why } => {
            format!("looks      in the place of one more wait: {}", safe(why))
        }
        Drove::Tried { remedy, why } => format!("tries      {}: {}", remedy.name(), safe(why)),
        Drove::Silent { after_ms, done } => {
            let done = match done {
                Silence::Nudged => "it was asked whether it is there",
                Silence::Restarted => "it was started again",
            };
            format!("silent     for {}; {done}", limits::duration(*after_ms))
        }
        Drove::Broke { how } => format!("broke off  {}", safe(how)),
        Drove::Parked { status, why } => format!("parked     {}: {}", status.name(), safe(why)),
        Drove::Settled { how } => format!("settled    {}", safe(how)),
        Drove::PassedOn => "passed on  what a person said".to_string(),
        Drove::Granted { limit_ms } => {
            format!("granted    {} of waiting for limits", limits::duration(*limit_ms))
        }
    }
}

/// A session that only files of other tools hold.
pub(crate) fn held(view: &HeldView) -> String {
    let session = view.session.as_str();
    let how = if let Change::Decided(decided) = &view.last.change {
        let because = safe(&decided.because);
        format!("{} by files of other tools: {because}", outcome(decided))
    } else {
        "known".to_string()
    };
    let ago = ago(clock::now_ms(), view.last.at_ms);
    format!("no run  session {session} {how} ({ago}); `ralph cancel {session}` lets it go\n")
}

pub(crate) fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) {
        0..60_000 => "just now".to_string(),
        passed => format!("{} ago", limits::duration(passed)),
    }
}

/// The time of day, with the date in front where it is another day's.
pub(crate) fn when(ms: u64) -> String {
    let (date, time) = (clock::local_date(ms), clock::local_time(ms));
    if date == clock::local_date(clock::now_ms()) { time } else { format!("{date} {time}") }
}
