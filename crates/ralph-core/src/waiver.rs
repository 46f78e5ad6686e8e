//! Requirements that a person waived for a while: still shown in every report, but they do not hold the agent.

use crate::reason;
use crate::record::Waiver;
use crate::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStatus, RequirementWeight,
};
use crate::text;
use crate::units;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_WHY_CHARS: usize = 200;

/// The rules whose findings show by themselves that a test no longer runs or no longer tests anything. A person can
/// waive one such finding, as in `test-removed: test_old_api`.
pub const TEST_RULES: [&str; 11] = [
    "test-removed",
    "test-changed",
    "test-file-removed",
    "test-file-renamed",
    "test-commented-out",
    "test-skipped",
    "test-focused",
    "test-emptied",
    "test-unreadable",
    "collection-narrowed",
    "selection-narrowed",
];

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

/// The rule and the test or file of a waiver that names one finding; `None` if it names a requirement.
pub fn parse_finding(name: &str) -> Option<(&str, &str)> {
    let (rule, subject) = name.split_once(':')?;
    let subject = subject.trim();
    (TEST_RULES.contains(&rule) && !subject.is_empty()).then_some((rule, subject))
}

/// The unexpired waivers that name one finding.
pub fn finding_waivers(waivers: &[Waiver], now_ms: u64) -> impl Iterator<Item = &Waiver> {
    let unexpired = waivers.iter().filter(move |one| now_ms < one.until_ms);
    unexpired.filter(|one| parse_finding(&one.requirement).is_some())
}

/// Removes waived findings from requirements that consist of findings of [`TEST_RULES`]. One without findings is met.
pub fn remove_waived_findings(
    requirements: Vec<Requirement>,
    waivers: &[Waiver],
    now_ms: u64,
) -> Vec<Requirement> {
    if finding_waivers(waivers, now_ms).next().is_none() {
        return requirements;
    }
    let is_waived = |finding: &Finding| {
        finding_waivers(waivers, now_ms)
            .filter_map(|waiver| parse_finding(&waiver.requirement))
            .any(|(rule, subject)| finding.rule.as_deref() == Some(rule) && names(finding, subject))
    };
    let weighed = |mut one: Requirement| {
        let RequirementStatus::Unmet(failure) = &mut one.status else { return one };
        let before = failure.findings.len();
        failure.findings.retain(|finding| !is_waived(finding));
        let waived = before.saturating_sub(failure.findings.len());
        if waived > 0 && failure.findings.is_empty() && failure.unlisted == 0 {
            one.status = RequirementStatus::Met(EvidenceKind::Measured);
            one.next = String::new();
        } else if waived > 0 {
            failure.summary = format!("{}, {waived} of them waived", failure.summary);
        }
        one
    };
    requirements.into_iter().map(weighed).collect()
}

fn names(finding: &Finding, subject: &str) -> bool {
    finding.place.as_ref().is_some_and(|place| place.file == subject)
        || contains_name(&finding.message, subject)
}

/// Whether a person waived the finding that this test of the base no longer holds. `subject` of the waiver is the test,
/// the last part of its name, or its file.
pub fn is_test_waived(test: &str, waivers: &[Waiver], now_ms: u64) -> bool {
    finding_waivers(waivers, now_ms).filter_map(|waiver| parse_finding(&waiver.requirement)).any(
        |(_, subject)| {
            let module = subject.rsplit_once('.').map_or(subject, |(stem, _)| stem);
            contains_name(test, subject)
                || (subject.contains('/') && contains_name(test, &module.replace('/', ".")))
        },
    )
}

/// Whether `text` contains the name, and not only as a part of a longer one.
fn contains_name(text: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(name).any(|(at, found)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at.saturating_add(found.len())..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
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
