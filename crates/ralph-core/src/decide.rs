//! The decision about a stop: an ordered table of rules. The first matching row wins, and `ralph why` prints its name.
//!
//! [`plan`] decides from the cheap facts. Only if they do not settle the stop is the evidence gathered and [`conclude`]
//! called. Each row is a function that returns `None` if it does not match.

mod driven;
mod ours;

use crate::dispute;
use crate::drive::Remedy;
use crate::ending;
use crate::event::{Pending, PendingKind, Stop, Trouble};
use crate::facts::{Declared, Driver, Evidence, Facts, Off, Owner, Prompt, Queued, Trust};
use crate::hint;
use crate::hold::Hold;
use crate::limits::{Limits, Usage};
use crate::mark::Mark;
use crate::reason::{self, Held, Room, Telling};
use crate::record::{Outcome, Report, Rule, Run};
use crate::redact::Redactor;
use crate::requirement::Requirement;
use crate::run::{Phase, State};
use crate::status::Status;
use crate::text;
use crate::verdict::{Bell, Verdict};
use crate::waiver;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ours::{Ours, remember_unknown};

/// One stop and what is known about it before any evidence is gathered.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub stop: &'a Stop,
    pub hold: Hold<'a>,
    pub facts: &'a Facts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    Answer(Decision),
    Verify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub rule: Rule,
    pub verdict: Verdict,
    pub outcome: Outcome,
    /// Why the rule fired, in one line.
    pub because: String,
    /// Digest of the tree and the failures; `None` if the stop must not count as a state seen.
    pub mark: Option<Mark>,
    pub report: Option<Report>,
    /// The remedy that is tried because the run makes no progress.
    pub remedy: Option<Remedy>,
}

impl Decision {
    /// Whether the run ends `verified` or `claimed`.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Ended(Status::Verified | Status::Claimed))
    }

    /// Removes secrets from what the person sees and the journal stores. The reason of a block is already redacted
    /// when it is rendered.
    pub fn redacted(mut self, redactor: &Redactor) -> Self {
        self.because = redactor.redact(&self.because);
        match &mut self.verdict {
            Verdict::AllowNoting(notice) | Verdict::End { notice, .. } => {
                *notice = redactor.redact(notice);
            }
            Verdict::Allow
            | Verdict::Block { .. }
            | Verdict::Answer { .. }
            | Verdict::Tell { .. }
            | Verdict::Deny { .. }
            | Verdict::Ask { .. } => {}
        }
        self
    }
}

/// Rows `off` to `untrusted`.
pub fn plan(case: &Case<'_>) -> Plan {
    let answer = switched_off(case)
        .or_else(|| repeated(case))
        .or_else(|| host_trouble(case))
        .or_else(|| waiting(case))
        .or_else(|| needs_human(case))
        .or_else(|| untrusted(case));
    answer.map_or(Plan::Verify, Plan::Answer)
}

/// Rows `verified` to `block`.
pub fn conclude(case: &Case<'_>, evidence: &Evidence, context: &Telling<'_>) -> Decision {
    match case.hold {
        Hold::Files => {
            let report = reason::report(&evidence.requirements, context.redactor);
            Decision { report: Some(report), ..conclude_files(case, evidence, context) }
        }
        Hold::Run { run, state } => {
            // Copied only if needed: there may be ten thousand requirements.
            let adjusted;
            let evidence = if is_anything_said(state) {
                let requirements = weighed(&evidence.requirements, state, case.facts.now_ms);
                adjusted = Evidence { requirements, ..evidence.clone() };
                &adjusted
            } else {
                evidence
            };
            let mut report = reason::report(&evidence.requirements, context.redactor);
            remember_unknown(&mut report, state);
            let stop = Ours { case, run, state, evidence, report: &report, context };
            let decision = ours::conclude(&stop);
            Decision { report: Some(report), ..decision }
        }
    }
}

fn is_anything_said(state: &State) -> bool {
    !state.waivers.is_empty() || !state.disputes.is_empty() || !state.hints.is_empty()
}

/// Applies waivers, disputes and hints to the requirements. Uses the current state, because these may have been
/// recorded while the requirements were being evaluated.
pub fn weighed(requirements: &[Requirement], state: &State, now_ms: u64) -> Vec<Requirement> {
    let waived = waiver::applied(requirements, &state.waivers, now_ms);
    let disputed = dispute::applied(waived, &state.disputes);
    hint::requirement(&state.hints).into_iter().chain(disputed).collect()
}

fn switched_off(case: &Case<'_>) -> Option<Decision> {
    if let Hold::Run { state, .. } = case.hold
        && let Phase::Ended(status) = state.phase
    {
        return Some(allow(Rule::NotMine, format!("the run has ended: {}", status.name())));
    }
    if let Some(off) = case.facts.off {
        return Some(allow(Rule::Off, Off::why(off).to_string()));
    }
    let Hold::Run { run, state } = case.hold else {
        return None;
    };
    match (state.phase, case.facts.owner) {
        (Phase::Active, Owner::Present) | (Phase::Ended(_), _) => None,
        (Phase::Active, Owner::Gone) => Some(Decision {
            outcome: Outcome::Orphaned,
            verdict: Verdict::AllowNoting(format!(
                "ralph: run {} is orphaned: the process that owned it is gone; `ralph resume {}` takes it over",
                run.id, run.id
            )),
            ..allow(Rule::Off, "the process that owned the run is gone".to_string())
        }),
        (Phase::Paused { .. }, _) => Some(allow(Rule::Off, "paused".to_string())),
        (Phase::Orphaned, _) => Some(allow(Rule::Off, "orphaned".to_string())),
    }
}

/// A hook that is registered twice delivers each stop twice. Both deliveries get the same answer, charged once.
fn repeated(case: &Case<'_>) -> Option<Decision> {
    let Hold::Run { state, .. } = case.hold else {
        return None;
    };
    // A runner delivers each stop once, so the same message again is a new stop.
    if case.facts.driver != Driver::Person {
        return None;
    }
    if !state.is_repeat(case.facts.delivery.as_ref()?) {
        return None;
    }
    let verdict = match &state.answer {
        Some(reason) => Verdict::Block { reason: reason.clone() },
        None => Verdict::Allow,
    };
    let because = "the same stop was delivered again".to_string();
    Some(Decision { verdict, outcome: Outcome::Repeated, ..allow(Rule::Repeat, because) })
}

fn host_trouble(case: &Case<'_>) -> Option<Decision> {
    let trouble = case.stop.trouble.as_ref().or(case.facts.trouble.as_ref())?;
    let Trouble::Unknown(word) = trouble else {
        return Some(allow(Rule::HostTrouble, format!("the turn ended with {}", trouble.name())));
    };
    let already = matches!(case.hold, Hold::Run { state, .. } if state.odd_stops > 0);
    (!already).then(|| {
        allow(
            Rule::OddStop,
            format!(
                "the turn ended with \"{}\", which this version does not know",
                text::line(word, 60)
            ),
        )
    })
}

fn waiting(case: &Case<'_>) -> Option<Decision> {
    // Waiting never extends a limit.
    if is_used_up(case) {
        return None;
    }
    if let Some(Declared::Waiting { until_ms, why }) = &case.facts.declared
        && case.facts.now_ms < *until_ms
    {
        return Some(allow(Rule::Waiting, format!("the agent waits: {}", text::line(why, 120))));
    }
    if case.facts.queued == Queued::Something {
        return Some(allow(Rule::Waiting, "a message is queued until the turn ends".to_string()));
    }
    // Background work that is unchanged since the last stop, such as a server, will not wake the agent.
    let background = case.stop.background();
    let is_idle = matches!(case.hold, Hold::Run { state, .. } if state.background == background);
    let excuses = |pending: &&Pending| pending.kind == PendingKind::WakeUp || !is_idle;
    let pending: Vec<_> = case.stop.pending.iter().filter(excuses).collect();
    let first = pending.first()?;
    let noun = match (first.kind, pending.len()) {
        (PendingKind::Background, 1) => "1 background task".to_string(),
        (PendingKind::WakeUp, 1) => "1 wake-up".to_string(),
        (PendingKind::Background | PendingKind::WakeUp, count) => {
            format!("{count} tasks or wake-ups")
        }
    };
    Some(allow(Rule::Waiting, format!("{noun} pending: {}", first.what)))
}

fn is_used_up(case: &Case<'_>) -> bool {
    let Hold::Run { run, state } = case.hold else { return false };
    let usage = usage(case.facts, run, state);
    let is_day_over = driven::day(run, case.facts, usage.next_micro_usd).is_some();
    is_day_over || state.limits(run).used_up(&usage).is_some()
}

/// The cost of the next turn counts only for a runner, which can refuse to start it.
fn usage(facts: &Facts, run: &Run, state: &State) -> Usage {
    Usage {
        iterations: state.iteration,
        elapsed_ms: state.elapsed_ms(facts.now_ms),
        micro_usd: facts.spent_micro_usd,
        tokens: facts.spent_tokens,
        next_micro_usd: match facts.driver {
            Driver::Person => 0,
            Driver::Runner | Driver::Alone | Driver::Closing => driven::next_turn(run, state),
        },
    }
}

fn needs_human(case: &Case<'_>) -> Option<Decision> {
    let Hold::Run { run, state } = case.hold else {
        return None;
    };
    let Some(Declared::NeedsHuman(why)) = &case.facts.declared else {
        return None;
    };
    // A runner waits for the person's answer, and parks the run if none comes.
    if case.facts.driver != Driver::Person {
        return Some(allow(Rule::NeedsHuman, text::line(why, 300)));
    }
    let bounds = state.limits(run);
    Some(end(Rule::NeedsHuman, Status::NeedsHuman, (run, bounds), text::line(why, 300)))
}

fn untrusted(case: &Case<'_>) -> Option<Decision> {
    let Trust::Missing { what, how } = &case.facts.trust else {
        return None;
    };
    let notice = format!(
        "ralph: {} is not approved, so nothing was run; review it, then run `{}`",
        text::line(what, 200),
        text::line(how, 300)
    );
    Some(Decision {
        verdict: Verdict::AllowNoting(notice),
        ..allow(Rule::Untrusted, text::line(what, 200))
    })
}

fn conclude_files(case: &Case<'_>, evidence: &Evidence, context: &Telling<'_>) -> Decision {
    let unmet =
        evidence.requirements.iter().filter(|one| one.is_required() && one.is_unmet()).count();
    if unmet == 0 {
        return allow(Rule::Claimed, "nothing is open in the files about this session".to_string());
    }
    if case.stop.continuing || case.facts.prompt == Prompt::HeldAlready {
        return allow(
            Rule::HoldOnce,
            format!("{unmet} not met, and the files already held this prompt once"),
        );
    }
    let held = Held {
        hold: case.hold,
        requirements: &evidence.requirements,
        failures: Mark::default(),
        mark: None,
        tampering: None,
        room: Room::Plenty,
    };
    block(Rule::Block, format!("{unmet} not met"), reason::held(&held, context))
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn allow(rule: Rule, because: String) -> Decision {
    Decision {
        rule,
        verdict: Verdict::Allow,
        outcome: Outcome::Allowed,
        because,
        mark: None,
        report: None,
        remedy: None,
    }
}

fn block(rule: Rule, because: String, reason: String) -> Decision {
    let verdict = Verdict::Block { reason: reason.clone() };
    Decision { verdict, outcome: Outcome::Blocked { reason }, ..allow(rule, because) }
}

fn end(rule: Rule, status: Status, (run, bounds): (&Run, &Limits), because: String) -> Decision {
    let notice = format!("ralph: {}", ending::sentence(status, run, bounds, &because));
    Decision {
        verdict: Verdict::End { status, notice, bell: Bell::Silent },
        outcome: Outcome::Ended(status),
        ..allow(rule, because)
    }
}
