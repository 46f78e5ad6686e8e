//! What the nine conditions demand, and what each of them rests on.
//!
//! What happened is measured, because the journal has it: a search of what is on record, a classification, an approval,
//! a learning that is still there. What the gates of a stage say is measured too. What is left are statements about the
//! process: that questions were answered, that the work is all there. Nobody can look at those, so they are claims; beside
//! gates for correctness and quality that pass they are backed, and a run can end `verified`. Where such gates are missing
//! the stage is told and not held for, the claims stay claims, and the best end is `claimed`.

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

/// From here on somebody has to try to break the work.
pub const ADVERSARIAL_FROM: u8 = 7;

const LONGEST_NOTE: usize = 200;
const NAMED_GATES: usize = 4;

/// All that tells how the conditions stand.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    pub way: &'a Way,
    pub approver: Approver,
    /// How complex a person said the work is, at the start.
    pub said_complexity: Option<u8>,
    pub learned: Learned,
}

/// Whether the last thing that was learned can still be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    Nothing,
    Saved,
    Gone,
}

/// How the required gates of one stage stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// There is none, or none that counts for this change.
    Absent,
    Passed,
    /// The names of those that do not pass.
    Failed(Vec<String>),
    Running(Vec<String>),
    /// Not reached, or they could not be told.
    Untold(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauges {
    pub correctness: Gauge,
    pub quality: Gauge,
    pub adversarial: Gauge,
}

/// One condition as people look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub condition: Condition,
    pub owner: Owner,
    pub seen: Seen,
    /// What it rests on, or what is missing.
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Met,
    Unmet,
    /// It could not be told.
    Unknown,
    /// Not measured yet.
    Pending,
    /// Not asked for, or nothing measures it.
    Idle,
}

/// A standing, and in words what it rests on.
struct Told {
    standing: Standing,
    weight: Weight,
    note: String,
    next: String,
}

impl Ground<'_> {
    /// What a person said comes first, unless the agent found it harder.
    pub fn complexity(&self) -> Option<u8> {
        self.said_complexity.max(self.way.complexity)
    }

    /// Without a classification nobody knows that it can be left out.
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

    /// What the agent's word is worth beside them.
    fn proof(&self, ground: &Ground<'_>) -> Evidence {
        let adversarial = !ground.is_adversarial() || self.adversarial == Gauge::Passed;
        if self.correctness == Gauge::Passed && self.quality == Gauge::Passed && adversarial {
            Evidence::Backed
        } else {
            Evidence::Claimed
        }
    }

    fn are_open(&self) -> bool {
        let open = |gauge: &Gauge| !matches!(gauge, Gauge::Absent | Gauge::Passed);
        open(&self.correctness) || open(&self.quality) || open(&self.adversarial)
    }
}

/// One requirement for each condition that is asked for, in the order in which they are worked at.
pub fn conditions(ground: &Ground<'_>, gauges: &Gauges) -> Vec<Requirement> {
    let asked = Condition::ALL.into_iter().filter(|it| {
        // A person's policy may ask for its adversarial gates at any complexity; they are requirements of their own.
        *it != Condition::AdversarialPassed || ground.is_adversarial()
    });
    let requirement = |condition: Condition| {
        let told = told(condition, ground, gauges);
        Requirement {
            name: condition.name().to_owned(),
            stage: condition.stage(),
            standing: told.standing,
            weight: told.weight,
            next: told.next,
        }
    };
    asked.map(requirement).collect()
}

fn told(condition: Condition, ground: &Ground<'_>, gauges: &Gauges) -> Told {
    match condition {
        Condition::MemorySearch => memory_search(ground, gauges),
        Condition::TaskClassified => classified(ground),
        Condition::MustHaveAnswered => said(
            (condition, ground, gauges),
            "not said to be answered yet",
            "Answer the questions that have to be answered first, those only a person can answer with `ralph ask \"…\"`, \
             then run `ralph orchestrator set must_have_answered`",
        ),
        Condition::PlanApproved => approved(ground, gauges),
        Condition::ImplementationComplete => said(
            (condition, ground, gauges),
            "not said to be complete yet",
            "Do the work, then run `ralph orchestrator set implementation_complete`",
        ),
        Condition::CorrectnessPassed | Condition::QualityPassed | Condition::AdversarialPassed => {
            measured(gauges.of(condition))
        }
        Condition::RetrospectiveDone => retrospective(ground, gauges),
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
    (condition, ground, gauges): (Condition, &Ground<'_>, &Gauges),
    missing: &str,
    next: &str,
) -> Told {
    if ground.claims(condition) {
        met(gauges.proof(ground), "the agent says so".to_owned())
    } else {
        unmet(missing, next)
    }
}

fn memory_search(ground: &Ground<'_>, gauges: &Gauges) -> Told {
    match ground.way.recalled {
        0 => said(
            (Condition::MemorySearch, ground, gauges),
            "nobody searched what is on record yet",
            "Search what is known about this: `ralph recall \"…\"`",
        ),
        1 => met(Evidence::Measured, "searched once".to_owned()),
        times => met(Evidence::Measured, format!("searched {times} times")),
    }
}

fn classified(ground: &Ground<'_>) -> Told {
    match ground.complexity() {
        Some(complexity) => met(Evidence::Measured, format!("complexity {complexity} of 10")),
        None => unmet(
            "nobody said yet how complex the task is",
            "Say how complex the task is, from 1 to 10: `ralph orchestrator set task_classified --complexity N`",
        ),
    }
}

fn approved(ground: &Ground<'_>, gauges: &Gauges) -> Told {
    if let Some(by) = &ground.way.approved_by {
        return met(Evidence::Measured, format!("by {}", text::line(by, LONGEST_NOTE)));
    }
    match ground.approver {
        Approver::Person => unmet(
            "no person approved the plan yet",
            "Show the plan to the person, who approves it with `/ralph:approve`; until then \
             `ralph wait \"the plan is to be approved\" --for 2h`",
        ),
        Approver::Agent => said(
            (Condition::PlanApproved, ground, gauges),
            "not said to be good yet",
            "Make a plan and look at it as somebody else would, then run `ralph orchestrator set plan_approved`",
        ),
    }
}

fn measured(gauge: &Gauge) -> Told {
    let pending = |pending: Pending| Told {
        note: pending.why().to_owned(),
        standing: Standing::Pending(pending),
        weight: Weight::Required,
        next: String::new(),
    };
    match gauge {
        Gauge::Passed => met(Evidence::Measured, "measured".to_owned()),
        Gauge::Failed(names) => unmet(&format!("not passed: {}", listed(names)), ""),
        Gauge::Running(names) => {
            let verb = if names.len() == 1 { "is" } else { "are" };
            pending(Pending::Running(format!("{} {verb} still running", listed(names))))
        }
        Gauge::Untold(names) => {
            pending(Pending::NotReached(format!("waits for {}", listed(names))))
        }
        Gauge::Absent => Told {
            weight: Weight::Advisory,
            ..unmet(
                "nothing measures it: the policy has no gate of this stage that counts here",
                "",
            )
        },
    }
}

/// Nothing but something that a search finds is a retrospective.
fn retrospective(ground: &Ground<'_>, gauges: &Gauges) -> Told {
    let missing = match (ground.learned, ground.claims(Condition::RetrospectiveDone)) {
        (Learned::Saved, _) => {
            let id = ground.way.learned.as_deref().unwrap_or_default();
            return met(Evidence::Measured, format!("saved as {}", text::line(id, LONGEST_NOTE)));
        }
        (Learned::Gone, _) => "what was learned is not there any more",
        (Learned::Nothing, true) => {
            "said to be done, but nothing was saved that a search would find"
        }
        (Learned::Nothing, false) => "nothing that was learned is saved yet",
    };
    // It comes last: what is learned at red gates is half of it.
    let is_last = ground.claims(Condition::ImplementationComplete) && !gauges.are_open();
    let next = if is_last { "Save what was learned: `ralph learn \"…\"`" } else { "" };
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

/// All nine, without a look at the tree: what ralph measures is as the last report has it.
pub fn picture(ground: &Ground<'_>, report: Option<&Report>) -> Vec<Shown> {
    let unseen = || Gauge::Untold(Vec::new());
    let gauges = Gauges { correctness: unseen(), quality: unseen(), adversarial: unseen() };
    let shown = |condition: Condition| {
        let owner = condition.owner(ground.approver);
        let (seen, note) = match owner {
            Owner::Ralph => reported(condition, ground, report),
            Owner::Agent | Owner::Person => {
                let told = told(condition, ground, &gauges);
                let is_met = matches!(told.standing, Standing::Met(_));
                (if is_met { Seen::Met } else { Seen::Unmet }, told.note)
            }
        };
        Shown { condition, owner, seen, note }
    };
    Condition::ALL.into_iter().map(shown).collect()
}

fn reported(condition: Condition, ground: &Ground<'_>, report: Option<&Report>) -> (Seen, String) {
    if condition == Condition::AdversarialPassed && !ground.is_adversarial() {
        let note = format!("not asked for below complexity {ADVERSARIAL_FROM}");
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
    /// Whether it stands in the way of an end.
    pub fn is_missing(&self) -> bool {
        match self.seen {
            Seen::Met | Seen::Idle => false,
            Seen::Unmet | Seen::Unknown | Seen::Pending => true,
        }
    }
}

/// The first phase that something is missing of; `None` when nothing is.
pub fn current(shown: &[Shown]) -> Option<Phase> {
    shown.iter().filter(|one| one.is_missing()).map(|one| one.condition.phase()).min()
}
