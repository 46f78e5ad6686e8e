//! Requirements that a person waived for a while: still shown in every report, but they do not hold the agent.

use crate::reason;
use crate::record::Waiver;
use crate::requirement::{Requirement, RequirementFailure, RequirementStatus, RequirementWeight};
use crate::text;
use crate::units;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_WHY_CHARS: usize = 200;

/// Finds the unexpired waiver for a requirement. Waivers store the name as reports show it, cleaned and truncated, so
/// `name` is normalised before comparing.
pub fn find_waiver<'a>(name: &str, waivers: &'a [Waiver], now_ms: u64) -> Option<&'a Waiver> {
    let mut counting = waivers.iter().filter(|one| now_ms < one.until_ms).peekable();
    counting.peek()?;
    let name = text::clean_line(name, reason::MAX_NAME_CHARS);
    counting.find(|one| one.requirement == name)
}

/// Whether a requirement keeps the run from ending: open and not waived.
pub fn blocks_end(requirement: &Requirement, waivers: &[Waiver], now_ms: u64) -> bool {
    requirement.is_open() && find_waiver(&requirement.name, waivers, now_ms).is_none()
}

/// Turns waived requirements that are not met into advisory ones whose summary starts with the waiver.
pub fn apply_waivers(
    requirements: &[Requirement],
    waivers: &[Waiver],
    now_ms: u64,
) -> Vec<Requirement> {
    let weighed = |one: &Requirement| match find_waiver(&one.name, waivers, now_ms) {
        Some(waiver) if !matches!(one.status, RequirementStatus::Met(_)) => {
            mark_waived(one, &describe_waiver(waiver, now_ms))
        }
        Some(_) | None => one.clone(),
    };
    requirements.iter().map(weighed).collect()
}

fn mark_waived(one: &Requirement, sentence: &str) -> Requirement {
    let failure = match &one.status {
        RequirementStatus::Unmet(failure) => RequirementFailure {
            summary: format!("{sentence}; {}", failure.summary),
            ..failure.clone()
        },
        RequirementStatus::Unknown(why) => {
            RequirementFailure::new(format!("{sentence}; no result: {why}"))
        }
        RequirementStatus::Pending(_) | RequirementStatus::Met(_) => {
            RequirementFailure::new(sentence.into())
        }
    };
    // Advisory requirements are reported only if they are unmet, so a pending or unknown one becomes unmet here.
    let standing = RequirementStatus::Unmet(failure);
    Requirement {
        status: standing,
        weight: RequirementWeight::Advisory,
        next: String::new(),
        ..one.clone()
    }
}

/// `waived by kim for another 2 h: the service is down`
pub fn describe_waiver(waiver: &Waiver, now_ms: u64) -> String {
    format!(
        "waived by {} for another {}: {}",
        text::clean_line(&waiver.by, 60),
        units::format_duration(waiver.until_ms.saturating_sub(now_ms)),
        text::clean_line(&waiver.why, MAX_WHY_CHARS)
    )
}
