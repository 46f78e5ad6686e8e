//! Builds the [`StopReport`](crate::record::StopReport) that the journal keeps of a stop.

use super::{name, open, say};
use crate::mark::Mark;
use crate::record::{Known, Line, Report};
use crate::redact::Redactor;
use crate::requirement::{Pending, Requirement, Standing};
use alloc::string::ToString;
use alloc::vec::Vec;

const KEPT_LINES: usize = 20;
const KEPT_NAMES: usize = 20;

fn failures(requirements: &[Requirement]) -> Mark {
    let signatures: Vec<_> = open(requirements).map(|one| signature(one).0.to_le_bytes()).collect();
    let parts: Vec<&[u8]> = signatures.iter().map(<[u8; 8]>::as_slice).collect();
    Mark::of(&parts)
}

pub(super) fn signature(requirement: &Requirement) -> Mark {
    match &requirement.standing {
        Standing::Met(_) => Mark::of(&[requirement.name.as_bytes()]),
        Standing::Unknown(why) => {
            Mark::of(&[requirement.name.as_bytes(), b"unknown", why.as_bytes()])
        }
        // The reason for waiting changes every second (elapsed time), so it must not change the digest.
        Standing::Pending(_) => Mark::of(&[requirement.name.as_bytes(), b"pending"]),
        Standing::Unmet(failure) => {
            let mut parts =
                alloc::vec![requirement.name.as_bytes(), b"unmet", failure.summary.as_bytes()];
            parts.extend(failure.findings.iter().map(|finding| finding.message.as_bytes()));
            parts.extend(failure.quote.iter().map(|quote| quote.text.as_bytes()));
            Mark::of(&parts)
        }
    }
}

pub fn report(requirements: &[Requirement], redactor: &Redactor) -> Report {
    let count = |wanted: fn(&Requirement) -> bool| {
        let found = requirements.iter().filter(|one| one.is_required() && wanted(one)).count();
        u32::try_from(found).unwrap_or(u32::MAX)
    };
    let advisory = requirements.iter().filter(|one| !one.is_required() && one.is_unmet());
    Report {
        total: count(|_| true),
        unmet: count(Requirement::is_unmet),
        unknown: count(Requirement::is_unknown),
        pending: count(Requirement::is_pending),
        failures: failures(requirements),
        lines: open(requirements)
            .chain(advisory)
            .take(KEPT_LINES)
            .map(|one| line(one, redactor))
            .collect(),
        met: requirements
            .iter()
            .filter(|one| one.is_required() && matches!(one.standing, Standing::Met(_)))
            .map(|one| name(one, redactor))
            .enumerate()
            // The progress of a pipeline is computed from all of its chunks, so none may be dropped.
            .filter(|(at, name)| *at < KEPT_NAMES || name.starts_with("chunk "))
            .map(|(_, name)| name)
            .collect(),
    }
}

fn line(requirement: &Requirement, redactor: &Redactor) -> Line {
    let (standing, note, findings) = match &requirement.standing {
        Standing::Unmet(failure) if requirement.is_required() => (
            Known::Unmet,
            &failure.summary,
            failure.findings.len().saturating_add(failure.unlisted),
        ),
        Standing::Unmet(failure) => (
            Known::Advisory,
            &failure.summary,
            failure.findings.len().saturating_add(failure.unlisted),
        ),
        Standing::Unknown(why) => (Known::Unknown, why, 0),
        Standing::Pending(Pending::Running(why) | Pending::NotReached(why)) => {
            (Known::Pending, why, 0)
        }
        Standing::Met(_) => (Known::Advisory, &requirement.name, 0),
    };
    let first = match &requirement.standing {
        Standing::Unmet(failure) => {
            super::findings(failure, redactor).lines().next().map(ToString::to_string)
        }
        Standing::Met(_) | Standing::Unknown(_) | Standing::Pending(_) => None,
    };
    Line {
        was: None,
        first,
        name: name(requirement, redactor),
        stage: requirement.stage.name().to_string(),
        standing,
        note: say(note, 200, redactor),
        findings: u32::try_from(findings).unwrap_or(u32::MAX),
        signature: signature(requirement),
    }
}
