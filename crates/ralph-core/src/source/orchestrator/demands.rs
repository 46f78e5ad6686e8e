//! The requirements of the nine conditions, and the evidence for each of them.
//!
//! Conditions that the journal records are measured: a search, a classification, an approval, a learning that still
//! exists. So are the results of a stage's gates. The others are statements about the process, such as that all
//! questions were answered; they cannot be measured, so they are claims. If the gates for correctness and quality pass,
//! the claims are backed and a run can end `verified`. If such gates are missing, their stage is only advisory, the
//! claims stay claims, and the run can at best end `claimed`.

use super::{Condition, Owner, Phase};
use crate::policy::Approver;
use crate::record::{Known, Line, Report};
use crate::requirement::{Evidence, Failure, Pending, Requirement, Standing, Weight};
use crate::run::Way;
use crate::text;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// From this complexity on, adversarial gates are required.
pub const ADVERSARIAL_FROM: u8 = 7;

const LONGEST_NOTE: usize = 200;
const NAMED_GATES: usize = 4;

/// What the status of the conditions depends on.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub way: &'a Way,
    pub approver: Approver,
    /// The complexity that a person gave at the start.
    pub said_complexity: Option<u8>,
    pub learned: Learned,
}

/// Whether the last saved learning still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    Nothing,
    Saved,
    Gone,
}

/// The combined status of the required gates of one stage, with the names of the gates that do not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// There is none, or none that applies to this change.
    Absent,
    Passed,
    Failed(Vec<String>),
    Running(Vec<String>),
    /// Not reached, or without a result.
    Untold(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauges {
    pub correctness: Gauge,
    pub quality: Gauge,
    pub adversarial: Gauge,
}

/// One condition as shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub condition: Condition,
    pub owner: Owner,
    pub seen: Seen,
    /// Its evidence, or what is missing.
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Met,
    Unmet,
    /// It has no result.
    Unknown,
    /// Not measured yet.
    Pending,
    /// Not required, or nothing measures it.
    Idle,
}

/// The status of a condition, with its evidence in words.
struct Told {
    standing: Standing,
    weight: Weight,
    note: String,
    next: String,
}

impl Ground<'_> {
    /// The person's value, unless the agent rated the work as more complex.
    pub fn complexity(&self) -> Option<u8> {
        self.said_complexity.max(self.way.complexity)
    }

    /// Whether adversarial gates are required. They are if the complexity is unknown.
    pub fn is_adversarial(&self) -> bool {
        self.complexity().is_none_or(|complexity| complexity >= ADVERSARIAL_FROM)
    }

    fn claims(&self, condition: Condition) -> bool {
        self.way.claims.contains(&condition)
    }
}

impl Gauges {
    fn of(&self, condition: Condition) -> &Gauge {
        match condition {
            Condition::QualityPassed => &self.quality,
            Condition::AdversarialPassed => &self.adversarial,
            Condition::MemorySearch
            | Condition::TaskClassified
            | Condition::MustHaveAnswered
            | Condition::PlanApproved
            | Condition::ImplementationComplete
            | Condition::CorrectnessPassed
            | Condition::RetrospectiveDone => &self.correctness,
        }
    }

    /// The kind of evidence a claim of the agent amounts to, given these gates.
    fn proof(&self, basis: &Ground<'_>) -> Evidence {
        let adversarial = !basis.is_adversarial() || self.adversarial == Gauge::Passed;
        if self.correctness == Gauge::Passed && self.quality == Gauge::Passed && adversarial {
            Evidence::Backed
        } else {
            Evidence::Claimed
        }
    }

    fn are_open(&self) -> bool {
        let open = |stage: &Gauge| !matches!(stage, Gauge::Absent | Gauge::Passed);
        open(&self.correctness) || open(&self.quality) || open(&self.adversarial)
    }
}

/// One requirement for each required condition, in working order.
pub fn conditions(basis: &Ground<'_>, gates: &Gauges) -> Vec<Requirement> {
    let asked = Condition::ALL.into_iter().filter(|it| {
        // A policy may require its adversarial gates at any complexity. They are requirements of their own.
        *it != Condition::AdversarialPassed || basis.is_adversarial()
    });
    let requirement = |condition: Condition| {
        let assessment = told(condition, basis, gates);
        Requirement {
            name: condition.name().to_owned(),
            stage: condition.stage(),
            standing: assessment.standing,
            weight: assessment.weight,
            next: assessment.next,
        }
    };
    asked.map(requirement).collect()
}

fn told(condition: Condition, basis: &Ground<'_>, gates: &Gauges) -> Told {
    match condition {
        Condition::MemorySearch => memory_search(basis, gates),
        Condition::TaskClassified => classified(basis),
        Condition::MustHaveAnswered => said(
            (condition, basis, gates),
            "not marked as answered yet",
            "Answer the must-have questions (use `ralph ask \"…\"` for those only a person can answer), \
             then run `ralph orchestrator set must_have_answered`",
        ),
        Condition::PlanApproved => approved(basis, gates),
        Condition::ImplementationComplete => said(
            (condition, basis, gates),
            "not marked as complete yet",
            "Do the work, then run `ralph orchestrator set implementation_complete`",
        ),
        Condition::CorrectnessPassed | Condition::QualityPassed | Condition::AdversarialPassed => {
            measured(gates.of(condition))
        }
        Condition::RetrospectiveDone => retrospective(basis, gates),
    }
}

fn met(proof: Evidence, note: String) -> Told {
    let (weight, next) = (Weight::Required, String::new());
    Told { standing: Standing::Met(proof), weight, note, next }
}

fn unmet(note: &str, next: &str) -> Told {
    Told {
        standing: Standing::Unmet(Failure::new(note.to_owned())),
        weight: Weight::Required,
        note: note.to_owned(),
        next: next.to_owned(),
    }
}

fn said(
    (condition, basis, gates): (Condition, &Ground<'_>, &Gauges),
    missing: &str,
    next: &str,
) -> Told {
    if basis.claims(condition) {
        met(gates.proof(basis), "claimed by the agent".to_owned())
    } else {
        unmet(missing, next)
    }
}

fn memory_search(basis: &Ground<'_>, gates: &Gauges) -> Told {
    match basis.way.recalled {
        0 => said(
            (Condition::MemorySearch, basis, gates),
            "no search of earlier runs yet",
            "Search earlier runs and learnings: `ralph recall \"…\"`",
        ),
        1 => met(Evidence::Measured, "searched once".to_owned()),
        times => met(Evidence::Measured, format!("searched {times} times")),
    }
}

fn classified(basis: &Ground<'_>) -> Told {
    match basis.complexity() {
        Some(complexity) => met(Evidence::Measured, format!("complexity {complexity} of 10")),
        None => unmet(
            "the complexity of the task is not set yet",
            "Rate the complexity of the task from 1 to 10: `ralph orchestrator set task_classified --complexity N`",
        ),
    }
}

fn approved(basis: &Ground<'_>, gates: &Gauges) -> Told {
    if let Some(by) = &basis.way.approved_by {
        return met(Evidence::Measured, format!("by {}", text::line(by, LONGEST_NOTE)));
    }
    match basis.approver {
        Approver::Person => unmet(
            "no person has approved the plan yet",
            "Show the plan to the person, who approves it with `/ralph:approve`; meanwhile run \
             `ralph wait \"plan approval\" --for 2h`",
        ),
        Approver::Agent => said(
            (Condition::PlanApproved, basis, gates),
            "not marked as approved yet",
            "Make a plan, review it critically, then run `ralph orchestrator set plan_approved`",
        ),
    }
}

fn measured(stage: &Gauge) -> Told {
    let pending = |pending: Pending| Told {
        note: pending.why().to_owned(),
        standing: Standing::Pending(pending),
        weight: Weight::Required,
        next: String::new(),
    };
    match stage {
        Gauge::Passed => met(Evidence::Measured, "measured".to_owned()),
        Gauge::Failed(names) => unmet(&format!("not passed: {}", listed(names)), ""),
        Gauge::Running(names) => {
            let verb = if names.len() == 1 { "is" } else { "are" };
            pending(Pending::Running(format!("{} {verb} still running", listed(names))))
        }
        Gauge::Untold(names) => {
            pending(Pending::NotReached(format!("waiting for {}", listed(names))))
        }
        Gauge::Absent => Told {
            weight: Weight::Advisory,
            ..unmet(
                "nothing measures it: the policy has no gate of this stage that applies here",
                "",
            )
        },
    }
}

/// A retrospective counts only if it left a learning that a search can find.
fn retrospective(basis: &Ground<'_>, gates: &Gauges) -> Told {
    let missing = match (basis.learned, basis.claims(Condition::RetrospectiveDone)) {
        (Learned::Saved, _) => {
            let id = basis.way.learned.as_deref().unwrap_or_default();
            return met(Evidence::Measured, format!("saved as {}", text::line(id, LONGEST_NOTE)));
        }
        (Learned::Gone, _) => "the saved learning no longer exists",
        (Learned::Nothing, true) => "marked as done, but no learning was saved",
        (Learned::Nothing, false) => "no learning was saved yet",
    };
    // Suggested only at the end: while gates fail, there is still something to learn.
    let is_last = basis.claims(Condition::ImplementationComplete) && !gates.are_open();
    let next = if is_last { "Save what you learned: `ralph learn \"…\"`" } else { "" };
    unmet(missing, next)
}

fn listed(names: &[String]) -> String {
    let shown: Vec<_> =
        names.iter().take(NAMED_GATES).map(|name| text::line(name, LONGEST_NOTE)).collect();
    match names.len().saturating_sub(NAMED_GATES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// All nine conditions without evaluating anything: what ralph measures is taken from the last report.
pub fn picture(basis: &Ground<'_>, report: Option<&Report>) -> Vec<Shown> {
    let unseen = || Gauge::Untold(Vec::new());
    let gates = Gauges { correctness: unseen(), quality: unseen(), adversarial: unseen() };
    let shown = |condition: Condition| {
        let owner = condition.owner(basis.approver);
        let (seen, note) = match owner {
            Owner::Ralph => reported(condition, basis, report),
            Owner::Agent | Owner::Person => {
                let assessment = told(condition, basis, &gates);
                let is_met = matches!(assessment.standing, Standing::Met(_));
                (if is_met { Seen::Met } else { Seen::Unmet }, assessment.note)
            }
        };
        Shown { condition, owner, seen, note }
    };
    Condition::ALL.into_iter().map(shown).collect()
}

fn reported(condition: Condition, basis: &Ground<'_>, report: Option<&Report>) -> (Seen, String) {
    if condition == Condition::AdversarialPassed && !basis.is_adversarial() {
        let note = format!("not required below complexity {ADVERSARIAL_FROM}");
        return (Seen::Idle, note);
    }
    let unmeasured = || (Seen::Pending, "not measured yet".to_owned());
    let Some(report) = report else { return unmeasured() };
    if report.met.iter().any(|name| name == condition.name()) {
        return (Seen::Met, "measured at the last stop".to_owned());
    }
    let line = report.lines.iter().find(|line: &&Line| line.name == condition.name());
    match line.map(|line| (line.standing, line.note.as_str())) {
        None => unmeasured(),
        Some((Known::Unmet, note)) => (Seen::Unmet, note.to_string()),
        Some((Known::Unknown, note)) => (Seen::Unknown, note.to_string()),
        Some((Known::Pending, note)) => (Seen::Pending, note.to_string()),
        Some((Known::Advisory, note)) => (Seen::Idle, note.to_string()),
    }
}

impl Shown {
    /// Whether it keeps the run from ending.
    pub fn is_missing(&self) -> bool {
        match self.seen {
            Seen::Met | Seen::Idle => false,
            Seen::Unmet | Seen::Unknown | Seen::Pending => true,
        }
    }
}

/// The first phase with a missing condition; `None` if nothing is missing.
pub fn current(shown: &[Shown]) -> Option<Phase> {
    shown.iter().filter(|one| one.is_missing()).map(|one| one.condition.phase()).min()
}
