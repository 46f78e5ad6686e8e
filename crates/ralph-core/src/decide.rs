//! The heart: an ordered table. The first row that matches wins, and its name is what `ralph why` prints.
//!
//! [`plan`] answers from what is cheap to know; only when that does not settle the stop is the evidence gathered
//! and [`conclude`] asked.

use crate::ending;
use crate::event::{Pending, PendingKind, Stop, Trouble};
use crate::facts::{
    Cap, Declared, Driver, Evidence, Facts, Off, Owner, Prompt, Queued, Tree, Trust,
};
use crate::limits;
use crate::reason::{self, Held, Room, Telling};
use crate::record::{Known, Line, Mark, OnTampering, Origin, Outcome, Report, Rule, Run};
use crate::redact::Redactor;
use crate::requirement::{Evidence as Proof, Requirement, Standing};
use crate::run::{Phase, State, Tampered};
use crate::status::Status;
use crate::text;
use crate::verdict::{Bell, Verdict};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One stop, and what might be held against it.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub stop: &'a Stop,
    pub hold: Hold<'a>,
    pub facts: &'a Facts,
}

#[derive(Clone, Copy, Debug)]
pub enum Hold<'a> {
    /// A run of ours owns the session; its counters bound every block.
    Run { run: &'a Run, state: &'a State },
    /// Only files that others wrote about the session. Nothing of ours counts, so they hold once per prompt.
    Files,
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
    /// What the rule saw, in one line.
    pub because: String,
    pub mark: Option<Mark>,
    pub report: Option<Report>,
}

impl Decision {
    /// Whether the run ends the way it was meant to.
    pub fn is_success(&self) -> bool {
        matches!(self.outcome, Outcome::Ended(Status::Verified | Status::Claimed))
    }

    /// What the person and the journal get to see; the reason of a block is redacted where it is made.
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
pub fn conclude(case: &Case<'_>, evidence: &Evidence, telling: &Telling<'_>) -> Decision {
    let mut report = reason::report(&evidence.requirements, telling.redactor);
    if let Hold::Run { state, .. } = case.hold {
        remember_unknown(&mut report, state);
    }
    let failures = report.failures;
    let mut decision = match case.hold {
        Hold::Files => conclude_files(case, evidence, telling),
        Hold::Run { run, state } => {
            conclude_run(&Ours { case, run, state, evidence, failures, telling })
        }
    };
    decision.report = Some(report);
    decision
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
                "ralph: run {} is orphaned, because the process that owned it is gone; `ralph resume {}` takes it up again",
                run.id, run.id
            )),
            ..allow(Rule::Off, "the process that owned the run is gone".to_string())
        }),
        (Phase::Paused { .. }, _) => Some(allow(Rule::Off, "paused".to_string())),
        (Phase::Orphaned, _) => Some(allow(Rule::Off, "orphaned".to_string())),
    }
}

/// A hook that is registered twice delivers one stop twice; both get the same answer and it is charged once.
fn repeated(case: &Case<'_>) -> Option<Decision> {
    let Hold::Run { state, .. } = case.hold else {
        return None;
    };
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
        return Some(allow(Rule::HostTrouble, format!("the turn ended by {}", trouble.name())));
    };
    let already = matches!(case.hold, Hold::Run { state, .. } if state.odd_stops > 0);
    (!already).then(|| {
        allow(
            Rule::OddStop,
            format!(
                "the turn ended by \"{}\", which this version does not know",
                text::line(word, 60)
            ),
        )
    })
}

fn waiting(case: &Case<'_>) -> Option<Decision> {
    // Nothing that waits ends a limit.
    if is_used_up(case) {
        return None;
    }
    if let Some(Declared::Waiting { until_ms, why }) = &case.facts.declared
        && case.facts.now_ms < *until_ms
    {
        return Some(allow(Rule::Waiting, format!("the agent waits: {}", text::line(why, 120))));
    }
    if case.facts.queued == Queued::Something {
        return Some(allow(Rule::Waiting, "a message waits for the turn to end".to_string()));
    }
    // What was under way at the last stop, and still is, did not bring the agent back: a server that never ends.
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
    let elapsed_ms = state.elapsed_ms(case.facts.now_ms);
    run.limits.used_up(state.iteration, elapsed_ms, case.facts.spent_micro_usd).is_some()
}

fn needs_human(case: &Case<'_>) -> Option<Decision> {
    let Hold::Run { run, .. } = case.hold else {
        return None;
    };
    let Some(Declared::NeedsHuman(why)) = &case.facts.declared else {
        return None;
    };
    Some(end(Rule::NeedsHuman, Status::NeedsHuman, run, text::line(why, 300)))
}

fn untrusted(case: &Case<'_>) -> Option<Decision> {
    let Trust::Missing(what) = &case.facts.trust else {
        return None;
    };
    let notice = format!(
        "ralph: {} is not approved, so nothing of it was run; read it, then `ralph trust`",
        text::line(what, 200)
    );
    Some(Decision {
        verdict: Verdict::AllowNoting(notice),
        ..allow(Rule::Untrusted, text::line(what, 200))
    })
}

fn conclude_files(case: &Case<'_>, evidence: &Evidence, telling: &Telling<'_>) -> Decision {
    let unmet =
        evidence.requirements.iter().filter(|one| one.is_required() && one.is_unmet()).count();
    if unmet == 0 {
        return allow(Rule::Claimed, "nothing is open in the files about this session".to_string());
    }
    if case.stop.continuing || case.facts.prompt == Prompt::HeldAlready {
        return allow(
            Rule::HoldOnce,
            format!("{unmet} not met, and the files held this prompt once already"),
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
    block(Rule::Block, format!("{unmet} not met"), reason::held(&held, telling))
}

/// One stop of a run, with everything that is known about it.
#[derive(Clone, Copy)]
struct Ours<'a> {
    case: &'a Case<'a>,
    run: &'a Run,
    state: &'a State,
    evidence: &'a Evidence,
    failures: Mark,
    telling: &'a Telling<'a>,
}

fn conclude_run(ours: &Ours<'_>) -> Decision {
    all_met(ours)
        .or_else(|| tampered(ours))
        .or_else(|| gate_broken(ours))
        .or_else(|| limit(ours))
        .or_else(|| stuck(ours))
        .or_else(|| hand_over(ours))
        .unwrap_or_else(|| hold(ours))
}

impl<'a> Ours<'a> {
    fn required(&self) -> impl Iterator<Item = &'a Requirement> {
        self.evidence.requirements.iter().filter(|one| one.is_required())
    }

    fn open(&self) -> usize {
        self.required().filter(|one| one.is_open()).count()
    }

    /// `2 not met, 1 not known yet`
    fn what_is_open(&self) -> String {
        let pending = self.required().filter(|one| one.is_pending()).count();
        match (self.open().saturating_sub(pending), pending) {
            (open, 0) => format!("{open} not met"),
            (0, pending) => format!("{pending} not known yet"),
            (open, pending) => format!("{open} not met, {pending} not known yet"),
        }
    }

    fn tampering(&self) -> Option<&'a str> {
        self.case.facts.tampering.as_deref().or(self.evidence.tampering.as_deref())
    }

    /// Nothing is open but gates at work, and the run has an end all the same.
    fn only_waits(&self) -> bool {
        self.open() > 0
            && self.required().filter(|one| one.is_open()).all(Requirement::is_running)
            && self.run.limits.max_duration_ms.is_some()
            && self.tampering().is_none()
    }

    fn is_nearly_full(&self) -> bool {
        let permille = self.case.facts.context_permille.unwrap_or(0);
        permille >= self.run.limits.handover_at_permille
    }

    /// One more block would be overridden by the host, which then calls the turn a success.
    fn is_capped(&self) -> Option<u32> {
        match self.case.facts.cap {
            Cap::At(most) => (self.case.facts.in_a_row >= most).then_some(most),
            Cap::None => None,
        }
    }

    fn elapsed_ms(&self) -> u64 {
        self.state.elapsed_ms(self.case.facts.now_ms)
    }

    /// Nothing to compare while a gate is at work: what it will say is something new.
    fn mark(&self) -> Option<Mark> {
        match self.evidence.tree {
            Tree::Known(_) if self.required().any(Requirement::is_running) => None,
            Tree::Known(tree) => Some(self.failures.and(tree)),
            Tree::Unknown => None,
        }
    }
}

fn all_met(ours: &Ours<'_>) -> Option<Decision> {
    let count = ours.required().count();
    if ours.open() > 0 || count == 0 || ours.tampering().is_some() {
        return None;
    }
    let claimed = ours.required().filter(|one| one.standing == Standing::Met(Proof::Claimed));
    let claimed = claimed.count();
    let noun =
        if count == 1 { "1 requirement is" } else { &format!("all {count} requirements are") };
    let iterations = plural(ours.state.iteration, "iteration");
    let how = format!("after {iterations} and {}", limits::duration(ours.elapsed_ms()));
    Some(match (ours.state.tampered, claimed) {
        (Tampered::Yes, _) => {
            let because =
                format!("{noun} met {how}, but ralph's own files were changed on the way");
            end(Rule::Tampered, Status::NeedsReview, ours.run, because)
        }
        (Tampered::No, 0) => {
            end(Rule::Verified, Status::Verified, ours.run, format!("{noun} met {how}"))
        }
        (Tampered::No, claimed) => {
            let because = if claimed == count {
                format!("{noun} said to be met {how}; nothing measured it")
            } else {
                let claims = if claimed == 1 { "a claim" } else { "claims" };
                format!("{noun} met {how}, {claimed} of them only by {claims}")
            };
            end(Rule::Claimed, Status::Claimed, ours.run, because)
        }
    })
}

fn tampered(ours: &Ours<'_>) -> Option<Decision> {
    match (ours.tampering()?, ours.run.on_tampering) {
        (what, OnTampering::EndInReview) => {
            let what = reason::say(what, 300, ours.telling.redactor);
            Some(end(Rule::Tampered, Status::NeedsReview, ours.run, what))
        }
        (_, OnTampering::Block) => None,
    }
}

fn gate_broken(ours: &Ours<'_>) -> Option<Decision> {
    let redactor = ours.telling.redactor;
    ours.required().find_map(|one| match &one.standing {
        Standing::Unknown(why) if was_unknown(ours.state, &reason::name(one, redactor)) => {
            let (name, why) = (reason::name(one, redactor), reason::say(why, 160, redactor));
            let because = format!("{name} could not be told twice running: {why}");
            Some(end(Rule::GateBroken, Status::GateBroken, ours.run, because))
        }
        Standing::Unknown(_) | Standing::Pending(_) | Standing::Met(_) | Standing::Unmet(_) => None,
    })
}

fn limit(ours: &Ours<'_>) -> Option<Decision> {
    let spent = ours.case.facts.spent_micro_usd;
    let own = ours.run.limits.used_up(ours.state.iteration, ours.elapsed_ms(), spent);
    let adopted = ours.evidence.own_limit.as_ref().filter(|_| ours.run.origin == Origin::Adopted);
    let what = match (adopted, own, ours.is_capped()) {
        (Some(limit), ..) => reason::say(limit, 120, ours.telling.redactor),
        (None, Some(used_up), _) => used_up.to_string(),
        (None, None, Some(cap)) => {
            format!("held {cap} times in a row without a tool call, which is all the host bears")
        }
        (None, None, None) => return None,
    };
    let because = format!("{what}, {}", ours.what_is_open());
    Some(end(Rule::Limit, Status::Exhausted, ours.run, because))
}

fn stuck(ours: &Ours<'_>) -> Option<Decision> {
    let mark = ours.mark()?;
    let times = ours.state.staleness(Some(mark)).saturating_add(1);
    if times < ours.run.limits.stuck_after {
        return None;
    }
    let because = format!(
        "the last {} stops brought nothing new (state {}), {}",
        times.saturating_sub(1),
        mark.short(),
        ours.what_is_open()
    );
    Some(Decision { mark: Some(mark), ..end(Rule::Stuck, Status::Stuck, ours.run, because) })
}

fn hand_over(ours: &Ours<'_>) -> Option<Decision> {
    let permille = ours.case.facts.context_permille?;
    (ours.is_nearly_full() && ours.case.facts.driver == Driver::Runner)
        .then(|| allow(Rule::HandOver, format!("context is {} % full", permille / 10)))
}

fn hold(ours: &Ours<'_>) -> Decision {
    let mark = ours.mark();
    let (rule, because) = match ours.tampering() {
        Some(what) => {
            let what = reason::say(what, 200, ours.telling.redactor);
            (Rule::Tampered, format!("{what}; {}", ours.what_is_open()))
        }
        None => (Rule::Block, ours.what_is_open()),
    };
    let held = Held {
        hold: ours.case.hold,
        requirements: &ours.evidence.requirements,
        failures: ours.failures,
        mark,
        tampering: ours.tampering(),
        room: if ours.is_nearly_full() { Room::Little } else { Room::Plenty },
    };
    let reason = reason::held(&held, ours.telling);
    let decision = Decision { mark, ..block(rule, because, reason.clone()) };
    if ours.only_waits() {
        Decision { outcome: Outcome::Awaited { reason }, ..decision }
    } else {
        decision
    }
}

/// Whether it could not be told the last time that it was told at all.
fn was_unknown(state: &State, name: &str) -> bool {
    let lines = state.report.as_ref().map_or(&[][..], |report| &report.lines);
    let is_unknown =
        |line: &Line| line.standing == Known::Unknown || line.was == Some(Known::Unknown);
    lines.iter().any(|line| line.name == name && is_unknown(line))
}

/// A gate that is being run again is what it was until it says something else.
fn remember_unknown(report: &mut Report, state: &State) {
    for line in report.lines.iter_mut().filter(|line| line.standing == Known::Pending) {
        if was_unknown(state, &line.name) {
            line.was = Some(Known::Unknown);
        }
    }
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
    }
}

fn block(rule: Rule, because: String, reason: String) -> Decision {
    let verdict = Verdict::Block { reason: reason.clone() };
    Decision { verdict, outcome: Outcome::Blocked { reason }, ..allow(rule, because) }
}

fn end(rule: Rule, status: Status, run: &Run, because: String) -> Decision {
    let notice = format!("ralph: {}", ending::sentence(status, run, &because));
    Decision {
        verdict: Verdict::End { status, notice, bell: Bell::Silent },
        outcome: Outcome::Ended(status),
        ..allow(rule, because)
    }
}
