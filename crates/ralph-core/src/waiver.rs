//! Requirements that a person does without for a while: told in every report, and not held for.

use crate::limits;
use crate::record::Waiver;
use crate::requirement::{Failure, Requirement, Standing, Weight};
use crate::text;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const LONGEST_WHY: usize = 200;

/// The waiver that counts now, if there is one.
pub fn of<'a>(requirement: &Requirement, waivers: &'a [Waiver], now_ms: u64) -> Option<&'a Waiver> {
    waivers.iter().find(|one| one.requirement == requirement.name && now_ms < one.until_ms)
}

/// What is met needs no waiver; what is waived says so first.
pub fn applied(requirements: &[Requirement], waivers: &[Waiver], now_ms: u64) -> Vec<Requirement> {
    let weighed = |one: &Requirement| match of(one, waivers, now_ms) {
        Some(waiver) if !matches!(one.standing, Standing::Met(_)) => {
            waived(one, &sentence(waiver, now_ms))
        }
        Some(_) | None => one.clone(),
    };
    requirements.iter().map(weighed).collect()
}

fn waived(one: &Requirement, sentence: &str) -> Requirement {
    let standing = match &one.standing {
        Standing::Unmet(failure) => Standing::Unmet(Failure {
            summary: format!("{sentence}; {}", failure.summary),
            ..failure.clone()
        }),
        Standing::Unknown(why) => Standing::Unknown(format!("{sentence}; {why}")),
        standing @ (Standing::Met(_) | Standing::Pending(_)) => standing.clone(),
    };
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
