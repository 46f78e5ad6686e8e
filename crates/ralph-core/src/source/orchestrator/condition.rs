//! The nine conditions of an orchestrated run, with the owner and phase of each.

use crate::policy::PlanApprover;
use crate::requirement::RequirementStage;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrchestratorCondition {
    MemorySearch,
    TaskClassified,
    MustHaveAnswered,
    PlanApproved,
    ImplementationComplete,
    CorrectnessPassed,
    QualityPassed,
    AdversarialPassed,
    RetrospectiveDone,
}

/// The party that determines whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOwner {
    /// The agent claims it.
    Agent,
    /// A person approves it.
    Person,
    /// Ralph measures it.
    Ralph,
}

/// The phases of an orchestrated run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrchestratorPhase {
    Clarify,
    Classify,
    Plan,
    Implement,
    Validate,
    Retrospect,
}

impl OrchestratorCondition {
    pub const ALL: [Self; 9] = [
        Self::MemorySearch,
        Self::TaskClassified,
        Self::MustHaveAnswered,
        Self::PlanApproved,
        Self::ImplementationComplete,
        Self::CorrectnessPassed,
        Self::QualityPassed,
        Self::AdversarialPassed,
        Self::RetrospectiveDone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::MemorySearch => "memory search",
            Self::TaskClassified => "task classified",
            Self::MustHaveAnswered => "must-have questions answered",
            Self::PlanApproved => "plan approved",
            Self::ImplementationComplete => "implementation complete",
            Self::CorrectnessPassed => "correctness passed",
            Self::QualityPassed => "quality passed",
            Self::AdversarialPassed => "adversarial passed",
            Self::RetrospectiveDone => "retrospective done",
        }
    }

    /// Its name in files and commands.
    pub fn key(self) -> &'static str {
        match self {
            Self::MemorySearch => "memory_search",
            Self::TaskClassified => "task_classified",
            Self::MustHaveAnswered => "must_have_answered",
            Self::PlanApproved => "plan_approved",
            Self::ImplementationComplete => "implementation_complete",
            Self::CorrectnessPassed => "correctness_passed",
            Self::QualityPassed => "quality_passed",
            Self::AdversarialPassed => "adversarial_passed",
            Self::RetrospectiveDone => "retrospective_done",
        }
    }

    /// Parses a key, a name that people read, or an unambiguous first or last part of a key: `must_have`, `classified`
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase().replace(['-', ' '], "_");
        let label = |it: &Self| it.name().replace(['-', ' '], "_");
        let exact = Self::ALL.into_iter().find(|it| it.key() == text || label(it) == text);
        if exact.is_some() || text.len() < 4 {
            return exact;
        }
        let is_part = |it: &Self| {
            let key = it.key();
            key.strip_prefix(&*text).is_some_and(|rest| rest.starts_with('_'))
                || key.strip_suffix(&*text).is_some_and(|rest| rest.ends_with('_'))
        };
        let mut found = Self::ALL.into_iter().filter(is_part);
        found.next().filter(|_| found.next().is_none())
    }

    pub fn owner(self, approver: PlanApprover) -> ConditionOwner {
        match self {
            Self::MemorySearch
            | Self::TaskClassified
            | Self::MustHaveAnswered
            | Self::ImplementationComplete
            | Self::RetrospectiveDone => ConditionOwner::Agent,
            Self::PlanApproved => match approver {
                PlanApprover::Person => ConditionOwner::Person,
                PlanApprover::Agent => ConditionOwner::Agent,
            },
            Self::CorrectnessPassed | Self::QualityPassed | Self::AdversarialPassed => {
                ConditionOwner::Ralph
            }
        }
    }

    pub fn phase(self) -> OrchestratorPhase {
        match self {
            Self::MemorySearch | Self::MustHaveAnswered => OrchestratorPhase::Clarify,
            Self::TaskClassified => OrchestratorPhase::Classify,
            Self::PlanApproved => OrchestratorPhase::Plan,
            Self::ImplementationComplete => OrchestratorPhase::Implement,
            Self::CorrectnessPassed | Self::QualityPassed | Self::AdversarialPassed => {
                OrchestratorPhase::Validate
            }
            Self::RetrospectiveDone => OrchestratorPhase::Retrospect,
        }
    }

    pub(super) fn stage(self) -> RequirementStage {
        match self {
            Self::MemorySearch
            | Self::TaskClassified
            | Self::MustHaveAnswered
            | Self::PlanApproved
            | Self::ImplementationComplete
            | Self::RetrospectiveDone => RequirementStage::Planning,
            Self::CorrectnessPassed => RequirementStage::Correctness,
            Self::QualityPassed => RequirementStage::Quality,
            Self::AdversarialPassed => RequirementStage::Adversarial,
        }
    }
}

impl ConditionOwner {
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Person => "person",
            Self::Ralph => "ralph",
        }
    }
}

impl OrchestratorPhase {
    pub const ALL: [Self; 6] = [
        Self::Clarify,
        Self::Classify,
        Self::Plan,
        Self::Implement,
        Self::Validate,
        Self::Retrospect,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Clarify => "clarify",
            Self::Classify => "classify",
            Self::Plan => "plan",
            Self::Implement => "implement",
            Self::Validate => "validate",
            Self::Retrospect => "retrospect",
        }
    }

    /// Parses a name, or its noun: `plan`, `planning`, `implementation`
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|phase| {
            let stem = phase.name().trim_end_matches(['y', 'e']);
            let ends = ["ning", "ation", "ication", "ion", "ive"];
            text == phase.name() || text.strip_prefix(stem).is_some_and(|end| ends.contains(&end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_unambiguous_parts_of_them_are_parsed() {
        for (text, expected) in [
            ("memory_search", Some("memory_search")),
            ("memory-search", Some("memory_search")),
            ("Memory Search", Some("memory_search")),
            ("memory", Some("memory_search")),
            ("must-have questions answered", Some("must_have_answered")),
            ("must_have_questions_answered", Some("must_have_answered")),
            ("classified", Some("task_classified")),
            ("must_have", Some("must_have_answered")),
            ("must-have", Some("must_have_answered")),
            ("implementation", Some("implementation_complete")),
            ("retrospective", Some("retrospective_done")),
            ("plan", Some("plan_approved")),
            ("quality", Some("quality_passed")),
            ("passed", None),
            ("mem", None),
            ("memo", None),
            ("verified_done", None),
            ("", None),
            ("_", None),
        ] {
            assert_eq!(
                OrchestratorCondition::parse(text).map(OrchestratorCondition::key),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn phases_are_parsed_by_their_names_and_nouns() {
        for (text, expected) in [
            ("Plan", Some("plan")),
            ("planning", Some("plan")),
            ("clarification", Some("clarify")),
            ("classification", Some("classify")),
            ("implementation", Some("implement")),
            ("validation", Some("validate")),
            ("retrospective", Some("retrospect")),
            ("planet", None),
            ("dreaming", None),
            ("", None),
        ] {
            let parsed = OrchestratorPhase::parse(text).map(OrchestratorPhase::name);
            assert_eq!(parsed, expected, "{text}");
        }
    }

    #[test]
    fn every_key_round_trips() {
        for condition in OrchestratorCondition::ALL {
            assert_eq!(OrchestratorCondition::parse(condition.key()), Some(condition));
            let json = serde_json::to_string(&condition).unwrap();
            assert_eq!(json, alloc::format!("\"{}\"", condition.key()));
        }
    }
}
