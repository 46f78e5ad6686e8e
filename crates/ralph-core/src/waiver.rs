//! Requirements that a person waived for a while: still shown in every report, but they do not hold the agent.

use crate::reason;
use crate::record::Waiver;
use crate::requirement::{
    EvidenceKind, Finding, Requirement, RequirementFailure, RequirementStatus, RequirementWeight,
};
use crate::test_cases::name_parts;
use crate::text;
use crate::units;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

const MAX_WHY_CHARS: usize = 200;

/// The rules whose findings show by themselves that a test no longer runs or no longer tests anything.
pub const TEST_RULES: [&str; 11] = [
    "test-removed",
    "test-disarmed",
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

/// The unexpired waiver that keeps the run from `verified`. A required gate that passes counts too: while it is waived, no
/// failure would have held the agent, and it is not confirmed in a clean checkout.
pub fn weakening_waiver<'a>(
    requirement: &Requirement,
    waivers: &'a [Waiver],
    now_ms: u64,
) -> Option<&'a Waiver> {
    let is_met = matches!(requirement.status, RequirementStatus::Met(_));
    let counts = requirement.is_required() || !is_met;
    counts.then(|| find_waiver(&requirement.name, waivers, now_ms)).flatten()
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

/// Names a test of the base that fails on the new code. No finding has this rule.
const CHANGED_TEST_RULE: &str = "test-changed";

/// The rules that are about whole files.
const FILE_RULES: [&str; 5] = [
    "test-file-removed",
    "test-file-renamed",
    "test-unreadable",
    "collection-narrowed",
    "selection-narrowed",
];

/// The rule and the test or file of a waiver that names one finding; `None` if it names a requirement.
pub fn parse_finding(name: &str) -> Option<(&str, &str)> {
    let (rule, subject) = name.split_once(':')?;
    let subject = subject.trim();
    let is_rule = TEST_RULES.contains(&rule) || rule == CHANGED_TEST_RULE;
    (is_rule && !subject.is_empty()).then_some((rule, subject))
}

/// The unexpired waivers that name one finding.
pub fn finding_waivers(waivers: &[Waiver], now_ms: u64) -> impl Iterator<Item = &Waiver> {
    let unexpired = waivers.iter().filter(move |one| now_ms < one.until_ms);
    unexpired.filter(|one| parse_finding(&one.requirement).is_some())
}

/// Removes waived findings. A requirement that has none left is met.
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
            .any(|(rule, subject)| {
                finding.rule.as_deref() == Some(rule) && is_about(finding, rule, subject)
            })
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

fn is_about(finding: &Finding, rule: &str, subject: &str) -> bool {
    if FILE_RULES.contains(&rule) {
        return finding.place.as_ref().is_some_and(|place| place.file == subject);
    }
    // Messages begin with the name of the test.
    let name = finding.message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    name.is_some_and(|(name, _)| is_test_name(name, subject))
}

/// Whether a person waived the finding that this test of the base no longer holds. The waiver names the test, the last
/// part of its name or, with a rule about files, its file.
pub fn is_test_waived(test: &str, waivers: &[Waiver], now_ms: u64) -> bool {
    let named = finding_waivers(waivers, now_ms);
    named.filter_map(|waiver| parse_finding(&waiver.requirement)).any(|(rule, subject)| {
        if FILE_RULES.contains(&rule) {
            is_in_file(test, subject)
        } else {
            is_test_name(test, subject)
        }
    })
}

/// Whether `subject` is the name of the test or its last part, without the parameters of a case.
fn is_test_name(test: &str, subject: &str) -> bool {
    // The id that pytest prints: `tests/test_cart.py::TestCart::test_total`
    if let Some((file, names)) = subject.split_once("::")
        && file.rsplit_once('.').is_some_and(|(_, extension)| extension == "py")
    {
        let is_part = |part: &str| {
            let mut known = name_parts(test).flat_map(|known| known.split('.'));
            known.any(|known| known == part || known.split('[').next() == Some(part))
        };
        return is_in_file(test, file) && names.split("::").all(is_part);
    }
    let part = name_parts(test).last().unwrap_or(test);
    let is_dotted = !part.contains(['/', ' ']);
    let last = if is_dotted { part.rsplit('.').next().unwrap_or(part) } else { part };
    let without_parameters = last.split('[').next().unwrap_or(last);
    [test, part, last, without_parameters].contains(&subject)
}

/// Whether the name of the test contains the file, as a path or as a module.
fn is_in_file(test: &str, file: &str) -> bool {
    let module = file.rsplit_once('.').map_or(file, |(stem, _)| stem).replace('/', ".");
    name_parts(test).any(|part| {
        let below = part.strip_prefix(&*module).is_some_and(|rest| rest.starts_with('.'));
        part == file || part == module || below
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
