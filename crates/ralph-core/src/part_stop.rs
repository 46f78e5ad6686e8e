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

use crate::bounded_text::BoundedText;
use crate::id::RunId;
use crate::policy::Chunk;
use crate::reason::{self, ReasonContext};
use crate::record::{DeliveryId, PartIdentity, PartKind, PartRule};
use crate::redact::Redactor;
use crate::requirement::{
    EvidenceKind, PendingReason, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use crate::run::{DUPLICATE_GRACE_MS, PartState};
use crate::text;
use crate::wildcard::matches_wildcard;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How often a task, or a teammate without a chunk, is held at most.
pub const DEFAULT_MAX_HOLDS: u32 = 3;

/// Shorter than the reason of a stop of the run, because the state keeps the reasons of eight parts to repeat them.
const MAX_PART_REASON_CHARS: usize = 4_000;
const MAX_TITLE_CHARS: usize = 40;
const MAX_NEXT_CHARS: usize = 600;
const MAX_NAMED: usize = 4;

/// One attempt of a subagent, teammate or task to stop.
#[derive(Clone, Copy, Debug)]
pub struct PartStop<'a> {
    /// The state after its previous stop, if there was one.
    pub before: Option<&'a PartState>,
    pub delivery: DeliveryId,
    /// When the hook process started.
    pub arrived_ms: u64,
    /// Background work of its own that will wake it.
    pub waits_for: Option<&'a str>,
}

/// What can be decided before any requirement is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartPlan<'a> {
    /// The same stop again: repeat the previous answer; `None` allows the stop.
    Repeat(Option<&'a str>),
    Waiting,
    Verify,
}

pub fn plan<'a>(arrival: &PartStop<'a>) -> PartPlan<'a> {
    match arrival.before {
        Some(before) if is_duplicate_delivery(before, arrival) => {
            match (before.rule, &before.answer) {
                (PartRule::Hold, Some(answer)) => PartPlan::Repeat(Some(answer)),
                // The previous reason is no longer stored, so the requirements are evaluated again.
                (PartRule::Hold, None) => PartPlan::Verify,
                (
                    PartRule::Waiting
                    | PartRule::Unmeasured
                    | PartRule::Unknown
                    | PartRule::Spent
                    | PartRule::Verified,
                    _,
                ) => PartPlan::Repeat(None),
            }
        }
        Some(_) | None if arrival.waits_for.is_some() => PartPlan::Waiting,
        Some(_) | None => PartPlan::Verify,
    }
}

/// Whether this delivery was already under way when the previous one was answered. A hook process that starts slightly
/// later counts too if the transcript has not grown since: no model answers that fast.
fn is_duplicate_delivery(before: &PartState, arrival: &PartStop<'_>) -> bool {
    let DeliveryId { stop, length } = arrival.delivery;
    let unmoved = length.is_some() && length == before.delivery.length;
    let grace_ms = if unmoved { DUPLICATE_GRACE_MS } else { 0 };
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
pub fn explain_rule(
    rule: PartRule,
    arrival: &PartStop<'_>,
    requirements: &[Requirement],
) -> String {
    let not_met = || reason::describe_unmet(requirements).unwrap_or_default();
    match rule {
        PartRule::Waiting => {
            format!("waiting for {}", text::clean_line(arrival.waits_for.unwrap_or_default(), 120))
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
pub struct HeldPart<'a> {
    pub part: &'a PartIdentity,
    pub chunk: Option<&'a str>,
    /// This time included.
    pub holds: u32,
    pub max_holds: u32,
    pub run: &'a RunId,
}

/// The reason that a held part reads.
pub fn render_part_reason(
    held: &HeldPart<'_>,
    requirements: &[Requirement],
    context: &ReasonContext<'_>,
) -> String {
    let HeldPart { holds, max_holds, run, .. } = held;
    let what = reason::describe_unmet(requirements).unwrap_or_default();
    let opening = format!(
        "ralph: hold {holds} of {max_holds} — {}: {what}",
        part_title(held, context.redactor)
    );
    let mut out = BoundedText::new(
        reason::first_line(&opening, &format!(" (run {run})")),
        MAX_PART_REASON_CHARS,
    );
    let closing = render_closing(held.part.kind, requirements, context.redactor);
    out.reserve(closing.chars().count() + 2);
    out.push_block("\n");
    reason::push_requirements(&mut out, requirements, Some(run), None, context);
    text::truncate(&out.finish(&closing), MAX_PART_REASON_CHARS)
}

fn part_title(held: &HeldPart<'_>, redactor: &Redactor) -> String {
    let say = |name: &str| reason::safe_line(name, MAX_TITLE_CHARS, redactor);
    match held.chunk {
        Some(chunk) => format!("chunk {}", say(chunk)),
        None => format!("{} \"{}\"", held.part.kind.name(), say(&held.part.name)),
    }
}

fn render_closing(kind: PartKind, requirements: &[Requirement], redactor: &Redactor) -> String {
    let open = || requirements.iter().filter(|one| one.is_open() && one.is_unmet());
    let next = open().find(|one| !one.next.is_empty()).map(|one| one.next.as_str());
    let next = next.unwrap_or("Work on the requirements that are not met");
    let next = redactor.redact(&text::truncate(next, MAX_NEXT_CHARS));
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
pub struct AgentTally {
    pub verified: usize,
    pub all: usize,
}

/// Counts the agents of one chunk, or of all chunks. An agent that stops as a subagent and later idles as a teammate
/// counts once.
pub fn tally_agents(parts: &[PartState], chunk: Option<&str>) -> AgentTally {
    let mut seen: Vec<&str> = Vec::new();
    let mut tally = AgentTally::default();
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
pub fn chunk_requirement(
    chunk: &Chunk,
    demands: &[Requirement],
    agents: AgentTally,
) -> Option<Requirement> {
    if !demands.iter().any(Requirement::is_required) {
        return None;
    }
    let open: Vec<&Requirement> = demands.iter().filter(|one| one.is_open()).collect();
    let (standing, next) = match open.iter().find(|one| one.is_unmet()) {
        Some(first) => {
            (RequirementStatus::Unmet(combine_failures(&open, agents)), first.next.clone())
        }
        None => match open.iter().find(|one| one.is_unknown()).or(open.first()) {
            None => (RequirementStatus::Met(EvidenceKind::Measured), String::new()),
            Some(first) => (open_status(first), first.next.clone()),
        },
    };
    Some(Requirement {
        name: chunk.requirement_name(),
        stage: RequirementStage::Correctness,
        status: standing,
        weight: RequirementWeight::Required,
        next,
    })
}

fn open_status(first: &Requirement) -> RequirementStatus {
    let of = |why: &str| format!("{}: {why}", first.name);
    match &first.status {
        RequirementStatus::Pending(PendingReason::Running(why)) => {
            RequirementStatus::Pending(PendingReason::Running(of(why)))
        }
        RequirementStatus::Pending(PendingReason::NotReached(why)) => {
            RequirementStatus::Pending(PendingReason::NotReached(of(why)))
        }
        RequirementStatus::Pending(PendingReason::AwaitsPerson(why)) => {
            RequirementStatus::Pending(PendingReason::AwaitsPerson(of(why)))
        }
        RequirementStatus::Unknown(why) => RequirementStatus::Unknown(of(why)),
        RequirementStatus::Met(_) | RequirementStatus::Unmet(_) => {
            RequirementStatus::Unknown(first.name.clone())
        }
    }
}

fn combine_failures(open: &[&Requirement], agents: AgentTally) -> RequirementFailure {
    let failures = open.iter().filter_map(|one| match &one.status {
        RequirementStatus::Unmet(failure) => Some((&one.name, failure)),
        RequirementStatus::Met(_)
        | RequirementStatus::Unknown(_)
        | RequirementStatus::Pending(_) => None,
    });
    let mut summaries: Vec<String> = Vec::new();
    let mut whole = RequirementFailure::default();
    for (name, failure) in failures {
        summaries.push(format!("{name}: {}", failure.summary));
        whole.findings.extend(failure.findings.iter().cloned());
        whole.unlisted = whole.unlisted.saturating_add(failure.unlisted);
        whole.log = whole.log.or_else(|| failure.log.clone());
    }
    let more = summaries.len().saturating_sub(MAX_NAMED);
    summaries.truncate(MAX_NAMED);
    if more > 0 {
        summaries.push(format!("and {more} more"));
    }
    summaries.push(agents.to_string());
    RequirementFailure { summary: summaries.join("; "), ..whole }
}

impl core::fmt::Display for AgentTally {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.all == 0 {
            return write!(out, "no agent has worked on it yet");
        }
        let agents = text::count_noun(self.all, "agent");
        write!(out, "{} of {agents} verified", self.verified)
    }
}

impl Chunk {
    /// Whether an agent of this type, or a teammate of this name, has this chunk's contract.
    pub fn matches(&self, name: &str) -> bool {
        !name.is_empty() && matches_wildcard(self.r#match.as_bytes(), name.as_bytes())
    }
}
