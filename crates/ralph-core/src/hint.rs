//! Hints: messages that a person sends to the agent during a run (`ralph tell`). A hint that the agent has not seen
//! yet blocks its next stop and is delivered with the reason.

use crate::requirement::{
    Requirement, RequirementFailure, RequirementStage, RequirementStatus, RequirementWeight,
};
use crate::text;
use alloc::string::{String, ToString};

pub const REQUIREMENT_NAME: &str = "message from a person";

/// The requirement that stands for the unseen hints. Their text is not part of it: the reason quotes it separately,
/// labelled as a person's and not as the output of a tool.
pub fn hint_requirement(hints: &[String]) -> Option<Requirement> {
    let summary = match hints.len() {
        0 => return None,
        count => text::count_noun(count, "new message"),
    };
    Some(Requirement {
        name: REQUIREMENT_NAME.to_string(),
        stage: RequirementStage::Planning,
        status: RequirementStatus::Unmet(RequirementFailure::new(summary)),
        weight: RequirementWeight::Required,
        next: "Do what the person asks".to_string(),
    })
}
