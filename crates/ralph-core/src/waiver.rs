//! Requirements that a person waived for a while: still shown in every report, but they do not hold the agent.

use crate::limits;
use crate::reason;
use crate::record::Waiver;
use crate::requirement::{Failure, Requirement, Standing, Weight};
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LONGEST_WHY: usize = 200;

/// Finds the unexpired waiver for a requirement. Waivers store the name as reports show it, cleaned and truncated, so
/// `name` is normalised before comparing.
pub fn of<'a>(name: &str, waivers: &'a [Waiver], now_ms: u64) -> Option<&'a Waiver> {
    let mut counting = waivers.iter().filter(|one| now_ms < one.until_ms).peekable();
    counting.peek()?;
    let name = text::line(name, reason::LONGEST_NAME);
    counting.find(|one| one.requirement == name)
}

/// Whether a requirement keeps the run from ending: open and not waived.
pub fn holds(requirement: &Requirement, waivers: &[Waiver], now_ms: u64) -> bool {
    requirement.is_open() && of(&requirement.name, waivers, now_ms).is_none()
}

/// Turns waived requirements that are not met into advisory ones whose summary starts with the waiver.
pub fn applied(requirements: &[Requirement], waivers: &[Waiver], now_ms: u64) -> Vec<Requirement> {
    let weighed = |one: &Requirement| match of(&one.name, waivers, now_ms) {
        Some(waiver) if !matches!(one.standing, Standing::Met(_)) => {
            waived(one, &sentence(waiver, now_ms))
        }
        Some(_) | None => one.clone(),
    };
    requirements.iter().map(weighed).collect()
}

fn waived(one: &Requirement, sentence: &str) -> Requirement {
    let failure = match &one.standing {
        Standing::Unmet(failure) => {
            Failure { summary: format!("{sentence}; {}", failure.summary), ..failure.clone() }
        }
        Standing::Unknown(why) => Failure::new(format!("{sentence}; no result: {why}")),
        Standing::Pending(_) | Standing::Met(_) => Failure::new(sentence.into()),
    };
    // Advisory requirements are reported only if they are unmet, so a pending or unknown one becomes unmet here.
    let standing = Standing::Unmet(failure);
    Requirement { standing, weight: Weight::Advisory, next: String::new(), ..one.clone() }
}

/// `waived by kim for another 2 h: the service is down`
pub fn sentence(waiver: &Waiver, now_ms: u64) -> String {
    format!(
        "waived by {} for another {}: {}",
        text::line(&waiver.by, 60),
        limits::duration(waiver.until_ms.saturating_sub(now_ms)),
        text::line(&waiver.why, LONGEST_WHY)
    )
}
