//! Requirements that the agent disputes. They stay open until a person decides, and the agent works on the rest.

use crate::reason;
use crate::record::{Dispute, ReportedStatus, StopReport};
use crate::requirement::{Requirement, RequirementFailure, RequirementStatus};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const DISPUTED_NOTE: &str = "disputed, a person will decide, continue with the rest";

/// Marks the open requirements that are disputed. They keep their status but lose their next step, so that the agent is
/// not sent back to them.
pub fn apply_disputes(requirements: Vec<Requirement>, disputes: &[&Dispute]) -> Vec<Requirement> {
    if disputes.is_empty() {
        return requirements;
    }
    let weighed = |one: Requirement| {
        let name = text::clean_line(&one.name, reason::MAX_NAME_CHARS);
        if one.is_open() && disputes.iter().any(|dispute| dispute.requirement == name) {
            mark_disputed(one)
        } else {
            one
        }
    };
    requirements.into_iter().map(weighed).collect()
}

fn mark_disputed(one: Requirement) -> Requirement {
    let standing = match &one.status {
        RequirementStatus::Unmet(failure) => RequirementStatus::Unmet(RequirementFailure {
            summary: format!("{DISPUTED_NOTE}; {}", failure.summary),
            ..failure.clone()
        }),
        RequirementStatus::Unknown(why) => {
            RequirementStatus::Unknown(format!("{DISPUTED_NOTE}; {why}"))
        }
        standing @ (RequirementStatus::Met(_) | RequirementStatus::Pending(_)) => standing.clone(),
    };
    Requirement { status: standing, next: String::new(), ..one }
}

/// The requirement that a name given by a person or an agent refers to, according to the report of the last stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedRequirement {
    /// Open, under this exact name.
    Open(String),
    /// Reported, but it does not hold the agent.
    Advisory(String),
    Met(String),
    /// Not in the report, but the report is incomplete, so the requirement may still exist.
    Unlisted,
    /// No requirement has this name. Holds the most similar name, if one is close.
    NotFound(Option<String>),
}

/// Looks a name up in a report: exact first, then ignoring ASCII case.
pub fn find_named(name: &str, report: &StopReport) -> NamedRequirement {
    let name = text::clean_line(name, reason::MAX_NAME_CHARS);
    let is_it = |known: &&str| known.eq_ignore_ascii_case(&name);
    let line = report.lines.iter().find(|line| line.name == name);
    let line = line.or_else(|| report.lines.iter().find(|line| is_it(&line.name.as_str())));
    if let Some(line) = line {
        return match line.standing {
            ReportedStatus::Advisory => NamedRequirement::Advisory(line.name.clone()),
            ReportedStatus::Unmet | ReportedStatus::Unknown | ReportedStatus::Pending => {
                NamedRequirement::Open(line.name.clone())
            }
        };
    }
    let also_open = report.also_open.iter().map(String::as_str);
    if let Some(open) = also_open.clone().find(is_it) {
        return NamedRequirement::Open(open.to_string());
    }
    let met = report.met.iter().map(String::as_str);
    if let Some(met) = met.clone().find(is_it) {
        return NamedRequirement::Met(met.to_string());
    }
    let open = report.lines.iter().filter(|line| line.standing != ReportedStatus::Advisory).count();
    let listed = open.saturating_add(report.also_open.len()).saturating_add(report.met.len());
    if usize::try_from(report.total).is_ok_and(|total| total > listed) {
        return NamedRequirement::Unlisted;
    }
    let known = report.lines.iter().map(|line| line.name.as_str()).chain(also_open).chain(met);
    NamedRequirement::NotFound(text::nearest(&name, known).map(ToString::to_string))
}
