//! Puts facts into words: limits, progress, statuses, evidence, money and times, on one line each.
//!
//! Everything here is plain text. A [`FactMark`] says how a fact is to be judged; the sign and the colour for it are the
//! business of the terminal or the page that shows it.

use crate::gate_wording;
use crate::page::RunStanding;
use ralph_core::drive::{CostSource, MeterBasis, RunnerEvent, SessionOrigin, SilenceResponse};
use ralph_core::facts::DeclaredPause;
use ralph_core::judge::Judge;
use ralph_core::limits::{LimitKind, LimitOverrides, LimitUsage, RUN_LIMITS, RunLimits};
use ralph_core::part_stop::{self, AgentTally};
use ralph_core::policy::Chunk;
use ralph_core::record::{
    ListKind, OrchestratorStep, PartRecord, ReportedStatus, RunChange, RunRecord, StopOutcome,
    StopRecord, StopReport,
};
use ralph_core::run::{RunPhase, RunState};
use ralph_core::sealed_file::SealedFile;
use ralph_core::text;
use ralph_core::units;
use ralph_core::waiver;
use ralph_hook::overview::HeldSession;
use ralph_sys::clock;

const MAX_SEALED_FILES: usize = 8;

/// How a fact is to be judged at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactMark {
    Good,
    Bad,
    /// A person should look at it, or nothing is known.
    Unclear,
    Neutral,
}

impl FactMark {
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Bad => "✗",
            Self::Unclear => "?",
            Self::Neutral => "·",
        }
    }
}

/// A fact in words, with its mark if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedText {
    pub mark: Option<FactMark>,
    pub text: String,
}

impl MarkedText {
    pub fn new(mark: FactMark, text: String) -> Self {
        Self { mark: Some(mark), text }
    }

    pub fn unmarked(text: String) -> Self {
        Self { mark: None, text }
    }
}

impl std::fmt::Display for MarkedText {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.mark {
            Some(mark) => write!(out, "{} {}", mark.sign(), self.text),
            None => out.write_str(&self.text),
        }
    }
}

/// Foreign text on one line, without control characters that could affect a terminal.
pub fn safe_line(foreign: &str) -> String {
    text::clean_line(foreign, 400)
}

/// `1 file`, `2 files`.
pub fn count_noun(count: usize, noun: &str) -> String {
    text::count_noun(u64::try_from(count).unwrap_or(u64::MAX), noun)
}

/// As [`count_noun`], for words whose plural is not made by an `s` at the end.
pub fn count_of(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

pub fn limits(limits: &RunLimits) -> String {
    RUN_LIMITS.iter().filter_map(|limit| (limit.describe)(limits)).collect::<Vec<_>>().join(" · ")
}

/// The limits in words, with those of `given` that [`limits`] leaves out.
pub fn limits_with(limits: &RunLimits, given: &LimitOverrides) -> String {
    let mut shown = self::limits(limits);
    if let Some(share) = given.get(LimitKind::HandoverAt) {
        let share = LimitKind::HandoverAt.row().unit.format(share);
        let separator = if shown.is_empty() { "" } else { " · " };
        shown.push_str(&format!("{separator}hand-over at {share} of the context"));
    }
    shown
}

/// The sources of the run's requirements, as label and value.
pub fn contract(run: &RunRecord) -> Vec<(&'static str, String)> {
    let mut lines: Vec<_> =
        run.features.iter().map(|path| ("list", format!("`{}`", safe_line(path)))).collect();
    let plans = run.lists.iter().filter(|list| list.kind == ListKind::Plan);
    lines.extend(plans.map(|list| ("plan", format!("`{}`", safe_line(&list.path)))));
    if let Some(promise) = &run.promise {
        lines.push(("promise", format!("<promise>{}</promise>", text::clean_line(promise, 200))));
    }
    if run.checklist {
        lines.push(("tasks", "every item of the newest task list".to_string()));
    }
    if run.tasks {
        lines.push(("tasks", "every task of the client's own list".to_string()));
    }
    if run.phases {
        let asked = run.seal.as_ref().map_or(0, |seal| seal.policy.phase_approvals.len());
        let approvals = match asked {
            0 => String::new(),
            asked => format!(", and {}", text::count_noun(asked, "approval")),
        };
        lines.push(("phases", format!("nine conditions, from clarify to retrospect{approvals}")));
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
        let judge = |judge: &Judge| format!("{} ({})", judge.name, safe_line(&judge.describe()));
        let judges: Vec<_> = seal.policy.judges.iter().map(judge).collect();
        lines.extend((!judges.is_empty()).then(|| ("judges", judges.join(", "))));
        lines.extend(gate_wording::check_texts(run).into_iter().map(|check| ("check", check)));
        let may_change = &seal.policy.verify.may_change;
        let files = seal.files.iter().flatten().filter(|file| !may_change.contains(&file.name));
        let files: Vec<_> = files.cloned().collect();
        lines.extend(sealed_files(&files).map(|files| ("sealed", files)));
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

/// The sealed files and why each is; `None` if there are none.
pub fn sealed_files(files: &[SealedFile]) -> Option<String> {
    let more = files.len().saturating_sub(MAX_SEALED_FILES);
    let shown: Vec<_> = files.iter().take(MAX_SEALED_FILES).map(sealed_file).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| format!("{}{more}", shown.join(", ")))
}

/// A sealed file and why it is.
pub fn sealed_file(file: &SealedFile) -> String {
    format!("`{}` ({})", safe_line(&file.name), safe_line(&file.reason()))
}

/// `plan → parser, docs → review`: layer by layer.
fn pipeline(chunks: &[Chunk]) -> String {
    let layer = |members: &Vec<&Chunk>| {
        let name = |chunk: &&Chunk| {
            let approval = if chunk.approval { " (a person approves it)" } else { "" };
            format!("{}{approval}", safe_line(&chunk.name))
        };
        members.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let layers: Vec<_> = ralph_core::pipeline::layers(chunks).iter().map(layer).collect();
    safe_line(&layers.join(" → "))
}

/// A step of an orchestrated run.
pub fn orchestrator_step(step: &OrchestratorStep) -> String {
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
pub fn standing(state: &RunState, phase: RunPhase) -> &'static str {
    RunStanding::from_state(state, phase).name()
}

pub fn progress(run: &RunRecord, state: &RunState, now_ms: u64) -> String {
    let mut parts = Vec::new();
    let (limits, usage) = (state.limits(run), LimitUsage::recorded(state, now_ms));
    if let Some(owner) = state.owner(run) {
        parts.push(format!("{} {}", ralph_host::recorded_host(&run.host).name, owner.short()));
    }
    for limit in &RUN_LIMITS {
        parts.extend(limit.progress(limits, &usage));
        if limit.kind == LimitKind::MaxIterations && state.driving.count > 1 {
            parts.push(format!("session {}", state.driving.count));
        }
    }
    if let Some(observed) = &state.observed {
        parts.extend(match (observed.context_permille(), observed.context_tokens) {
            (Some(permille), _) => Some(format!("context {} %", permille / 10)),
            (None, Some(tokens)) => Some(format!("context {}", units::format_tokens(tokens))),
            (None, None) => None,
        });
    }
    parts.extend(chunks(state));
    if let Some(trouble) = &state.trouble {
        parts.push(format!("last turn cut short by {}", turn_end_cause(trouble)));
    }
    parts.join(" · ")
}

/// Describes why a turn ended before the agent finished it, from the class in the journal.
pub fn turn_end_cause(class: &str) -> String {
    let known = match class {
        "rate_limit" => "a rate limit",
        "overloaded" => "an overloaded server",
        "authentication" => "an authentication failure",
        "billing" => "a billing problem",
        "context_full" => "a full context",
        "output_limit" => "the output limit",
        "invalid_request" => "an invalid request",
        "server" => "a server error",
        "interrupted" => "an interrupt",
        "unknown" => "an error that the client did not name",
        unknown => return format!("`{}`", text::clean_line(unknown, 60)),
    };
    known.to_string()
}

/// An acceptance, waivers, disputes, a declared wait, and messages that the agent has not received yet; a line each. A
/// question has a line of its own: `standing_wording::question_line`.
pub fn remark_lines(state: &RunState, now_ms: u64) -> Vec<MarkedText> {
    // For a run that has ended, the waivers that were in force at its end.
    let then_ms = match state.phase {
        RunPhase::Ended(_) => state.last_seen_ms,
        RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => now_ms,
    };
    let counting = state.waivers.iter().filter(|waiver| waiver.until_ms > then_ms);
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
        MarkedText::new(FactMark::Neutral, format!("{name}: {sentence}"))
    });
    let disputed = state.disputes.iter().map(|dispute| {
        let (name, why) = (safe_line(&dispute.requirement), safe_line(&dispute.why));
        MarkedText::new(FactMark::Unclear, format!("{name}: disputed by the agent: {why}"))
    });
    let hints = state.hints.iter().map(|hint| {
        let label = match state.phase {
            RunPhase::Ended(_) => "message that the agent did not get",
            RunPhase::Active | RunPhase::Paused { .. } | RunPhase::Orphaned => {
                "message for the next stop"
            }
        };
        let text = format!("{label}: {}", safe_line(hint));
        MarkedText::new(FactMark::Neutral, text)
    });
    let has_ended = matches!(state.phase, RunPhase::Ended(_));
    let declared = state.declared.iter().filter(|_| !has_ended);
    let declared = declared.filter_map(|declared| match declared {
        DeclaredPause::NeedsHuman(_) | DeclaredPause::Approval(_) => None,
        DeclaredPause::Waiting { until_ms, why } => {
            let until = local_time(*until_ms);
            let text = format!("the agent waits until {until}: {}", safe_line(why));
            Some(MarkedText::new(FactMark::Neutral, text))
        }
    });
    let accepted = state.accepted.iter().map(|acceptance| {
        let text =
            format!("{}; it had ended {}", acceptance.describe_status(), acceptance.was.name());
        MarkedText::new(FactMark::Good, safe_line(&text))
    });
    accepted.chain(waived).chain(disputed).chain(declared).chain(hints).collect()
}

/// The cost of the run so far, such as `≈ $1.82`.
pub fn spent(state: &RunState) -> Option<String> {
    LimitUsage::recorded(state, state.last_seen_ms).cost_text()
}

/// Why the run's limit on the cost does not work, or not for everything.
pub fn cost_gap(run: &RunRecord, state: &RunState) -> Option<MarkedText> {
    let gap = state.cost_limit_gap(run)?;
    Some(MarkedText::new(FactMark::Unclear, safe_line(&gap)))
}

#[expect(clippy::cast_precision_loss, reason = "an amount of money is far below 2^53 millionths")]
pub fn micro_usd_as_usd(micro: u64) -> f64 {
    micro as f64 / 1e6
}

/// The requirements as of the last verification.
pub fn report(report: &StopReport) -> Vec<MarkedText> {
    const SHOWN: usize = 4;
    let met = report.met.iter().take(SHOWN);
    let mut parts: Vec<_> =
        met.map(|name| MarkedText::new(FactMark::Good, safe_line(name))).collect();
    let met = report.met_count();
    let shown = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    if met > shown {
        parts.push(MarkedText::new(FactMark::Good, format!("{} more", met - shown)));
    }
    for line in report.lines.iter().take(SHOWN) {
        let findings = match line.findings {
            0 => String::new(),
            count => format!(" ({})", text::count_noun(u64::from(count), "finding")),
        };
        let text = format!("{}{findings}", safe_line(&line.name));
        parts.push(MarkedText::new(requirement_mark(line.standing), text));
    }
    let open = report.open_count();
    if open > 4 {
        parts.push(MarkedText::new(FactMark::Bad, format!("{} more", open - 4)));
    }
    parts
}

pub fn requirement_mark(known: ReportedStatus) -> FactMark {
    match known {
        ReportedStatus::Unmet => FactMark::Bad,
        ReportedStatus::Unknown => FactMark::Unclear,
        ReportedStatus::Pending | ReportedStatus::Advisory => FactMark::Neutral,
    }
}

/// With its first letter in upper case.
pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// `0.4 s`, `12 s`, `3 min`.
pub fn short_duration(ms: u64) -> String {
    if ms < 10_000 {
        format!("{}.{} s", ms / 1000, ms % 1000 / 100)
    } else {
        units::format_duration(ms)
    }
}

/// `12 ms`, `1.2 s`, `12 s`: for times that are often far below a second.
pub fn precise_duration(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { short_duration(ms) }
}

/// The chunk and the agent that a part of the run is about: `chunk parser, subagent implementer`.
pub fn part_owner(part: &PartRecord) -> String {
    let agent = format!("{} {}", part.who.kind.name(), safe_line(&part.who.name));
    match &part.chunk {
        Some(chunk) => format!("chunk {}, {agent}", safe_line(chunk)),
        None => agent,
    }
}

/// `3 of 4 chunks verified`; `None` if no agent works on a chunk.
pub fn chunks(state: &RunState) -> Option<String> {
    let AgentTally { verified, all } = part_stop::tally_agents(&state.parts, None);
    (all > 0).then(|| format!("{verified} of {} verified", count_noun(all, "chunk")))
}

pub fn decision_outcome(decided: &StopRecord) -> &'static str {
    match decided.outcome {
        StopOutcome::Allowed | StopOutcome::Orphaned => "let go",
        StopOutcome::Blocked { .. } | StopOutcome::Awaited { .. } => "held",
        StopOutcome::HandedOver => "over",
        StopOutcome::Repeated => "as before",
        StopOutcome::Ended(status) => status.name(),
    }
}

/// An action of the runner, as a line of the log.
pub fn runner_action(drove: &RunnerEvent) -> String {
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
                CostSource::Judge => " by judges",
            };
            let assumed = match metered.meter {
                MeterBasis::Told => "",
                MeterBasis::Assumed => ", assumed",
            };
            format!(
                "metered    {}{of}, {}, {}{assumed}",
                units::format_usd(metered.micro_usd),
                units::format_tokens(metered.tokens),
                text::count_noun(u64::from(metered.turns), "turn")
            )
        }
        RunnerEvent::HandsOver { why, .. } => format!("hands over {}", safe_line(why)),
        RunnerEvent::Waits(wait) => {
            let until = local_time(wait.until_ms);
            format!("waits      until {until} ({}): {}", wait.cause.name(), safe_line(&wait.why))
        }
        RunnerEvent::AsksPerson { question, until_ms } => {
            format!("asks       until {}: {}", local_time(*until_ms), safe_line(question))
        }
        RunnerEvent::Woke => "woke       and continues".to_string(),
        RunnerEvent::WaitedEnough { why } => {
            format!("checks     instead of waiting again: {}", safe_line(why))
        }
        RunnerEvent::Tried { remedy, why } => {
            format!("tries      {}", crate::standing_wording::tried_text(*remedy, why))
        }
        RunnerEvent::Silent { after_ms, done } => {
            let done = match done {
                SilenceResponse::Nudged => "the agent was asked for a sign of life",
                SilenceResponse::Restarted => "the agent was restarted",
            };
            format!("silent     for {}; {done}", units::format_duration(*after_ms))
        }
        RunnerEvent::Broke { how } => format!("broke off  {}", safe_line(how)),
        RunnerEvent::Parked { status, why } => {
            format!("parked     {}: {}", status.name(), safe_line(why))
        }
        RunnerEvent::Settled { how } => format!("settled    {}", safe_line(how)),
        RunnerEvent::ProofBase { commit: Some(commit) } => {
            let commit = safe_line(&text::short_id(commit));
            format!("compares   with the target branch at {commit}")
        }
        RunnerEvent::ProofBase { commit: None } => {
            "compares   with the base of the run".to_string()
        }
        RunnerEvent::PassedOn => "passed on  a person's message".to_string(),
        RunnerEvent::Granted { limit_ms } => {
            format!("granted    {} of waiting for limits", units::format_duration(*limit_ms))
        }
    }
}

/// A session that is held only by files of other tools.
pub fn held_session(view: &HeldSession) -> String {
    let session = view.session.as_str();
    let how = if let RunChange::Decided(decided) = &view.last.change {
        let because = safe_line(&decided.because);
        format!("{} by files of other tools: {because}", decision_outcome(decided))
    } else {
        "known".to_string()
    };
    let ago = ago(clock::now_ms(), view.last.at_ms);
    format!("no run  session {session} {how} ({ago}); `ralph cancel {session}` releases it")
}

pub fn ago(now_ms: u64, then_ms: u64) -> String {
    match now_ms.saturating_sub(then_ms) {
        0..60_000 => "just now".to_string(),
        passed => format!("{} ago", units::format_duration(passed)),
    }
}

/// The local time, preceded by the date unless it is today's.
pub fn local_time(ms: u64) -> String {
    let (date, time) = (clock::local_date(ms), clock::local_time(ms));
    if date == clock::local_date(clock::now_ms()) { time } else { format!("{date} {time}") }
}
