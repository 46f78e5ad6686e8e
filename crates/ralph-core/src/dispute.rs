//! Requirements that the agent says are wrong. They stay open: a person settles it, and the agent goes on with the rest.

use crate::reason;
use crate::record::{Dispute, Known, Report};
use crate::requirement::{Failure, Requirement, Standing};
use crate::text;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const TOLD: &str = "disputed, a person will look at it, go on with the rest";

/// What is disputed says so first, and is not what the agent is told to do next.
pub fn applied(requirements: Vec<Requirement>, disputes: &[Dispute]) -> Vec<Requirement> {
    if disputes.is_empty() {
        return requirements;
    }
    let weighed = |one: Requirement| {
        let name = text::line(&one.name, reason::LONGEST_NAME);
        if one.is_open() && disputes.iter().any(|dispute| dispute.requirement == name) {
            disputed(one)
        } else {
            one
        }
    };
    requirements.into_iter().map(weighed).collect()
}

fn disputed(one: Requirement) -> Requirement {
    let standing = match &one.standing {
        Standing::Unmet(failure) => Standing::Unmet(Failure {
            summary: format!("{TOLD}; {}", failure.summary),
            ..failure.clone()
        }),
        Standing::Unknown(why) => Standing::Unknown(format!("{TOLD}; {why}")),
        standing @ (Standing::Met(_) | Standing::Pending(_)) => standing.clone(),
    };
    Requirement { standing, next: String::new(), ..one }
}

/// What a name that somebody gives means in the report of the last stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// It is open there, under this name.
    Open(String),
    /// It is told there and nobody is held for it.
    Advisory(String),
    Met(String),
    /// The report does not list everything, so it may be there all the same.
    Unlisted,
    /// Nothing is called that; perhaps this was meant.
    Nothing(Option<String>),
}

pub fn named(name: &str, report: &Report) -> Named {
    let name = text::line(name, reason::LONGEST_NAME);
    let is_it = |known: &&str| known.eq_ignore_ascii_case(&name);
    let line = report.lines.iter().find(|line| line.name == name);
    let line = line.or_else(|| report.lines.iter().find(|line| is_it(&line.name.as_str())));
    if let Some(line) = line {
        return match line.standing {
            Known::Advisory => Named::Advisory(line.name.clone()),
            Known::Unmet | Known::Unknown | Known::Pending => Named::Open(line.name.clone()),
        };
    }
    let met = report.met.iter().map(String::as_str);
    if let Some(met) = met.clone().find(is_it) {
        return Named::Met(met.to_string());
    }
    let open = report.lines.iter().filter(|line| line.standing != Known::Advisory).count();
    let listed = open.saturating_add(report.met.len());
    if usize::try_from(report.total).is_ok_and(|total| total > listed) {
        return Named::Unlisted;
    }
    let known = report.lines.iter().map(|line| line.name.as_str()).chain(met);
    Named::Nothing(text::nearest(&name, known).map(ToString::to_string))
}
