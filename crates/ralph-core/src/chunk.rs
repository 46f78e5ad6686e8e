//! Contracts of subagents, teammates and tasks ("parts"): the decision about each of their stops, the reason they read
//! when they are held, and the requirement that a chunk adds to a stop of the run itself.
//!
//! The first matching row wins. A part without a contract is allowed to stop before this table is consulted.
//!
//! | rule | when | verdict |
//! |---|---|---|
//! | (repeat) | the same stop was answered a moment ago | the same answer, not counted |
//! | `waiting` | its own background work is still running and will wake it | allow |
//! | `unmeasured` | none of its requirements applies yet | allow |
//! | `spent` | a requirement is not met, and it has reached its hold limit | allow, unverified |
//! | `hold` | a requirement is not met | hold, on the part's own counter |
//! | `unknown` | a requirement has no result or is still pending | allow, unverified |
//! | `verified` | all requirements are met | allow |

use crate::bounded::Bounded;
use crate::id::RunId;
use crate::policy::Chunk;
use crate::reason::{self, Telling};
use crate::record::{Delivered, PartKind, PartRule, Who};
use crate::redact::Redactor;
use crate::requirement::{Evidence, Failure, Pending, Requirement, Stage, Standing, Weight};
use crate::run::{AT_ONCE_MS, PartState};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How often a task, or a teammate without a chunk, is held at most.
pub const USUAL_HOLDS: u32 = 3;

/// Shorter than the reason of a stop of the run, because the state keeps the reasons of eight parts to repeat them.
const LONGEST: usize = 4_000;
const LONGEST_WHO: usize = 40;
const LONGEST_NEXT: usize = 600;
const NAMED: usize = 4;

/// One attempt of a subagent, teammate or task to stop.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The state after its previous stop, if there was one.
    pub before: Option<&'a PartState>,
    pub delivery: Delivered,
    /// When the hook process started.
    pub arrived_ms: u64,
    /// Background work of its own that will wake it.
    pub waits_for: Option<&'a str>,
}

/// What can be decided before any requirement is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan<'a> {
    /// The same stop again: repeat the previous answer; `None` allows the stop.
    Again(Option<&'a str>),
    Waiting,
    Verify,
}

pub fn plan<'a>(arrival: &Arrival<'a>) -> Plan<'a> {
    match arrival.before {
        Some(before) if is_again(before, arrival) => match (before.rule, &before.answer) {
            (PartRule::Hold, Some(answer)) => Plan::Again(Some(answer)),
            // The previous reason is no longer stored, so the requirements are evaluated again.
            (PartRule::Hold, None) => Plan::Verify,
            (
                PartRule::Waiting
                | PartRule::Unmeasured
                | PartRule::Unknown
                | PartRule::Spent
                | PartRule::Verified,
                _,
            ) => Plan::Again(None),
        },
        Some(_) | None if arrival.waits_for.is_some() => Plan::Waiting,
        Some(_) | None => Plan::Verify,
    }
}

/// Whether this delivery was already under way when the previous one was answered. A hook process that starts slightly
/// later counts too if the transcript has not grown since: no model answers that fast.
fn is_again(before: &PartState, arrival: &Arrival<'_>) -> bool {
    let Delivered { stop, length } = arrival.delivery;
    let unmoved = length.is_some() && length == before.delivery.length;
    let grace_ms = if unmoved { AT_ONCE_MS } else { 0 };
    stop == before.delivery.stop && arrival.arrived_ms <= before.at_ms.saturating_add(grace_ms)
}

/// The row of the table that applies once the requirements are evaluated.
pub fn conclude(holds: u32, max_holds: u32, requirements: &[Requirement]) -> PartRule {
    let open =
        |is: fn(&Requirement) -> bool| requirements.iter().any(|one| one.is_open() && is(one));
    if !requirements.iter().any(Requirement::is_required) {
        PartRule::Unmeasured
    } else if open(Requirement::is_unmet) {
        if holds < max_holds { PartRule::Hold } else { PartRule::Spent }
    } else if open(|_| true) {
        PartRule::Unknown
    } else {
        PartRule::Verified
    }
}

/// Why the rule fired, in one line for the journal.
pub fn because(rule: PartRule, arrival: &Arrival<'_>, requirements: &[Requirement]) -> String {
    let not_met = || reason::not_met(requirements).unwrap_or_default();
    match rule {
        PartRule::Waiting => {
            format!("waiting for {}", text::line(arrival.waits_for.unwrap_or_default(), 120))
        }
        PartRule::Unmeasured => "none of its requirements applies yet".to_string(),
        PartRule::Unknown | PartRule::Hold => not_met(),
        PartRule::Spent => format!("{}, and it has reached its hold limit", not_met()),
        PartRule::Verified => match requirements.iter().filter(|one| one.is_required()).count() {
            1 => "its requirement is met".to_string(),
            count => format!("all {count} requirements are met"),
        },
    }
}

/// A part that is held, its hold counter, and the run that holds it.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    pub who: &'a Who,
    pub chunk: Option<&'a str>,
    /// This time included.
    pub holds: u32,
    pub max_holds: u32,
    pub run: &'a RunId,
}

/// The reason that a held part reads.
pub fn told(held: &Held<'_>, requirements: &[Requirement], context: &Telling<'_>) -> String {
    let Held { holds, max_holds, run, .. } = held;
    let what = reason::not_met(requirements).unwrap_or_default();
    let opening =
        format!("ralph: hold {holds} of {max_holds} — {}: {what}", title(held, context.redactor));
    let mut out = Bounded::new(reason::first_line(&opening, &format!(" (run {run})")), LONGEST);
    let closing = closing(held.who.kind, requirements, context.redactor);
    out.reserve(closing.chars().count() + 2);
    out.block("\n");
    reason::list(&mut out, (requirements, Some(run)), None, context);
    text::cut(&out.finish(&closing), LONGEST)
}

fn title(held: &Held<'_>, redactor: &Redactor) -> String {
    let say = |name: &str| reason::say(name, LONGEST_WHO, redactor);
    match held.chunk {
        Some(chunk) => format!("chunk {}", say(chunk)),
        None => format!("{} \"{}\"", held.who.kind.name(), say(&held.who.name)),
    }
}

fn closing(kind: PartKind, requirements: &[Requirement], redactor: &Redactor) -> String {
    let open = || requirements.iter().filter(|one| one.is_open() && one.is_unmet());
    let next = open().find(|one| !one.next.is_empty()).map(|one| one.next.as_str());
    let next = next.unwrap_or("Work on the requirements that are not met");
    let next = redactor.redact(&text::cut(next, LONGEST_NEXT));
    let stop = if next.ends_with(['`', '>']) { "\n" } else { ". " };
    let (then, report) = match kind {
        PartKind::Subagent | PartKind::Teammate => ("Then stop again", "say in your report"),
        PartKind::Task => ("Then complete the task again", "leave the task open and say"),
    };
    format!(
        "\nNext: {next}{stop}{then}\nIf it cannot be done here, {report} what is missing and why"
    )
}

/// How many agents worked on a chunk, and how many of them were verified at their last stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub verified: usize,
    pub all: usize,
}

/// Counts the agents of one chunk, or of all chunks. An agent that stops as a subagent and later idles as a teammate
/// counts once.
pub fn tally(parts: &[PartState], chunk: Option<&str>) -> Tally {
    let mut seen: Vec<&str> = Vec::new();
    let mut tally = Tally::default();
    for part in parts.iter().rev() {
        let counts = part.who.kind != PartKind::Task
            && part.chunk.is_some()
            && chunk.is_none_or(|chunk| part.chunk.as_deref() == Some(chunk));
        if counts && !seen.contains(&part.who.id.as_str()) {
            seen.push(&part.who.id);
            tally.all += 1;
            tally.verified += usize::from(part.rule == PartRule::Verified);
        }
    }
    tally
}

/// The requirement that a chunk adds to a stop of the run. It is evaluated on the current tree: the agents' own results
/// do not count, and later fixes and breakages do. `None` if none of the chunk's requirements applies.
pub fn requirement(chunk: &Chunk, demands: &[Requirement], agents: Tally) -> Option<Requirement> {
    if !demands.iter().any(Requirement::is_required) {
        return None;
    }
    let open: Vec<&Requirement> = demands.iter().filter(|one| one.is_open()).collect();
    let (standing, next) = match open.iter().find(|one| one.is_unmet()) {
        Some(first) => (Standing::Unmet(failure(&open, agents)), first.next.clone()),
        None => match open.iter().find(|one| one.is_unknown()).or(open.first()) {
            None => (Standing::Met(Evidence::Measured), String::new()),
            Some(first) => (waits(first), first.next.clone()),
        },
    };
    Some(Requirement {
        name: format!("chunk {}", chunk.name),
        stage: Stage::Correctness,
        standing,
        weight: Weight::Required,
        next,
    })
}

fn waits(first: &Requirement) -> Standing {
    let of = |why: &str| format!("{}: {why}", first.name);
    match &first.standing {
        Standing::Pending(Pending::Running(why)) => Standing::Pending(Pending::Running(of(why))),
        Standing::Pending(Pending::NotReached(why)) => {
            Standing::Pending(Pending::NotReached(of(why)))
        }
        Standing::Unknown(why) => Standing::Unknown(of(why)),
        Standing::Met(_) | Standing::Unmet(_) => Standing::Unknown(first.name.clone()),
    }
}

fn failure(open: &[&Requirement], agents: Tally) -> Failure {
    let failures = open.iter().filter_map(|one| match &one.standing {
        Standing::Unmet(failure) => Some((&one.name, failure)),
        Standing::Met(_) | Standing::Unknown(_) | Standing::Pending(_) => None,
    });
    let mut summaries: Vec<String> = Vec::new();
    let mut whole = Failure::default();
    for (name, failure) in failures {
        summaries.push(format!("{name}: {}", failure.summary));
        whole.findings.extend(failure.findings.iter().cloned());
        whole.unlisted = whole.unlisted.saturating_add(failure.unlisted);
        whole.log = whole.log.or_else(|| failure.log.clone());
    }
    let more = summaries.len().saturating_sub(NAMED);
    summaries.truncate(NAMED);
    if more > 0 {
        summaries.push(format!("and {more} more"));
    }
    summaries.push(agents.to_string());
    Failure { summary: summaries.join("; "), ..whole }
}

impl core::fmt::Display for Tally {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.all == 0 {
            return write!(out, "no agent has worked on it yet");
        }
        let noun = if self.all == 1 { "agent" } else { "agents" };
        write!(out, "{} of {} {noun} verified", self.verified, self.all)
    }
}

impl Chunk {
    /// Whether an agent of this type, or a teammate of this name, has this chunk's contract.
    pub fn fits(&self, name: &str) -> bool {
        !name.is_empty() && fits(self.r#match.as_bytes(), name.as_bytes())
    }
}

/// `*` matches any characters and `?` exactly one. Backtracks to the last `*` only, so the time is bounded by the
/// product of both lengths.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                back = Some((at, from));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                from += 1;
                // A character may be more than one byte.
                while name.get(from).is_some_and(|next| next & 0xc0 == 0x80) {
                    from += 1;
                }
            }
            Some(same) if same == byte => {
                at += 1;
                from += 1;
            }
            Some(_) | None => match &mut back {
                Some((star, start)) => {
                    *start += 1;
                    (at, from) = (*star + 1, *start);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}
