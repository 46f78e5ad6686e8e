//! What a person said that the agent does not know yet. It holds the next stop, and is delivered with it.

use crate::requirement::{Failure, Requirement, Stage, Standing, Weight};
use alloc::format;
use alloc::string::{String, ToString};

pub const NAME: &str = "a person's word";

/// The words themselves come with the reason, as a person's and not as what some tool said.
pub fn requirement(hints: &[String]) -> Option<Requirement> {
    let summary = match hints.len() {
        0 => return None,
        1 => "a person has told you something".to_string(),
        count => format!("a person has told you {count} things"),
    };
    Some(Requirement {
        name: NAME.to_string(),
        stage: Stage::Planning,
        standing: Standing::Unmet(Failure::new(summary)),
        weight: Weight::Required,
        next: "Do what the person says".to_string(),
    })
}
