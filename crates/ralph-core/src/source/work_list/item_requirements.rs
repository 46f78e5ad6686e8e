//! The requirements and check gates of a list's items.

use super::{ItemCheck, ListItem};
use crate::gate::Gate;
use crate::policy::ClaimPolicy;
use crate::record::ListKind;
use crate::requirement::{
    EvidenceKind, PendingReason, QuotedText, Requirement, RequirementFailure, RequirementStage,
    RequirementStatus, RequirementWeight,
};
use crate::text;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

const MAX_STEP_CHARS: usize = 4_000;
const MAX_STEPS_CHARS: usize = 8_000;
const MAX_CHECK_CHARS: usize = 200;

/// The default timeout of a gate.
const CHECK_TIMEOUT_MS: u64 = 5 * 60 * 1000;

/// How many checks of open items are run: those of the items to be worked on next.
const CHECKS_AHEAD: usize = 16;

/// The combined status of the policy's required gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredGates {
    /// There are none, so a claim cannot be backed.
    None,
    Pass,
    Open,
}

/// What the status of a list's items depends on.
#[derive(Clone, Copy, Debug)]
pub struct ListContext<'a> {
    /// The path of the list as the agent sees it.
    pub file: &'a str,
    pub kind: ListKind,
    pub gates: RequiredGates,
    pub claims: ClaimPolicy,
    /// Results of checks, by the name of their gate.
    pub checked: &'a BTreeMap<String, Requirement>,
}

/// The gate that runs an item's check. It is named after the position of the item in the sealed list.
fn check_gate(list: usize, position: usize, item: &ListItem) -> Option<Gate> {
    let check = item.check.as_ref()?;
    Some(Gate {
        timeout_ms: CHECK_TIMEOUT_MS,
        weight: item.weight,
        ..Gate::new(check_name(list, position), check.invocation())
    })
}

pub fn check_name(list: usize, position: usize) -> String {
    format!("check-{}-{}", list + 1, position + 1)
}

/// The list and position that a check's name refers to; the inverse of [`check_name`].
pub fn parse_check_name(check: &str) -> Option<(usize, usize)> {
    let (list, position) = check.strip_prefix("check-")?.split_once('-')?;
    let from_one = |number: &str| number.parse::<usize>().ok()?.checked_sub(1);
    let found = (from_one(list)?, from_one(position)?);
    (check_name(found.0, found.1) == check).then_some(found)
}

/// The gates for all checks of a list. `list` is the index of the list in its run.
pub fn check_gates(list: usize, items: &[ListItem]) -> Vec<Gate> {
    items.iter().enumerate().filter_map(|(at, item)| check_gate(list, at, item)).collect()
}

/// The gates to run now: the checks of all items marked done, and of the next few that are not.
pub fn due_check_gates(list: usize, items: &[ListItem]) -> Vec<Gate> {
    let mut ahead = 0;
    let is_due = |(_, item): &(usize, &ListItem)| {
        ahead += usize::from(!item.done && item.check.is_some());
        item.done || ahead <= CHECKS_AHEAD
    };
    items
        .iter()
        .enumerate()
        .filter(is_due)
        .filter_map(|(at, item)| check_gate(list, at, item))
        .collect()
}

/// One requirement per item. Only the first open item gets a next step and its steps quoted.
pub fn item_requirements(
    list: usize,
    items: &[ListItem],
    context: &ListContext<'_>,
) -> Vec<Requirement> {
    let mut next_is_found = false;
    let mut requirements = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let standing = match &item.check {
            Some(check) => {
                checked_status(item, check, context.checked.get(&check_name(list, position)))
            }
            None => claimed_status(item, context),
        };
        let mut one = build_requirement(item, standing);
        if !next_is_found && one.is_open() && !one.is_pending() {
            next_is_found = true;
            // Only one of possibly thousands is shown, so the text is not built for the others.
            one.next = next_step(item, &one.status, context);
            if let RequirementStatus::Unmet(failure) = &mut one.status {
                failure.quote = quote_steps(item);
            }
        }
        requirements.push(one);
    }
    requirements
}

/// The status of an item with a check. Only the check's result counts, not the `done` flag.
fn checked_status(
    item: &ListItem,
    check: &ItemCheck,
    known: Option<&Requirement>,
) -> RequirementStatus {
    let Some(known) = known else {
        let why = "its check runs when the items before it are done".to_string();
        return RequirementStatus::Pending(PendingReason::NotReached(why));
    };
    match &known.status {
        RequirementStatus::Unmet(failure) => RequirementStatus::Unmet(RequirementFailure {
            summary: format!(
                "{}: `{}` fails: {}",
                quoted_title(item),
                command_line(check),
                failure.summary
            ),
            ..failure.clone()
        }),
        RequirementStatus::Unknown(why) => {
            RequirementStatus::Unknown(format!("`{}`: {why}", command_line(check)))
        }
        standing @ (RequirementStatus::Met(_) | RequirementStatus::Pending(_)) => standing.clone(),
    }
}

fn command_line(check: &ItemCheck) -> String {
    text::clean_line(&check.command_line(), MAX_CHECK_CHARS).replace('`', "'")
}

/// The status of an item without a check. It is only a claim, which counts while the required gates pass.
fn claimed_status(item: &ListItem, context: &ListContext<'_>) -> RequirementStatus {
    match (item.done, context.gates, context.claims) {
        (false, ..) => {
            let summary = match context.kind {
                ListKind::Features => format!("{} does not pass yet", quoted_title(item)),
                ListKind::Plan => {
                    let line = item.line.map(|line| format!(":{line}")).unwrap_or_default();
                    format!("{} is not ticked in `{}{line}`", quoted_title(item), context.file)
                }
            };
            RequirementStatus::Unmet(RequirementFailure::new(summary))
        }
        (true, RequiredGates::Open, _) => {
            let why = "marked done, which counts once every required gate passes".to_string();
            RequirementStatus::Pending(PendingReason::NotReached(why))
        }
        (true, RequiredGates::Pass, ClaimPolicy::WithGates) => {
            RequirementStatus::Met(EvidenceKind::Backed)
        }
        (true, RequiredGates::Pass | RequiredGates::None, _) => {
            RequirementStatus::Met(EvidenceKind::Claimed)
        }
    }
}

/// The next step for an open item.
fn next_step(item: &ListItem, standing: &RequirementStatus, context: &ListContext<'_>) -> String {
    if item.weight == RequirementWeight::Advisory {
        return String::new();
    }
    match (&item.check, standing, context.kind) {
        (Some(check), RequirementStatus::Unknown(_), _) => format!(
            "If your changes broke `{}`, the check of {}, fix it; otherwise leave it to a person",
            command_line(check),
            item.name
        ),
        (Some(check), ..) => {
            format!("Work on {} until `{}` passes", item.name, command_line(check))
        }
        (None, _, ListKind::Features) => format!(
            "Implement {}, check it, then set its `passes` to true in `{}`",
            item.name, context.file
        ),
        (None, _, ListKind::Plan) => {
            format!("Complete {}, check it, then tick it in `{}`", item.name, context.file)
        }
    }
}

fn build_requirement(item: &ListItem, standing: RequirementStatus) -> Requirement {
    Requirement {
        name: item.name.clone(),
        stage: RequirementStage::Correctness,
        status: standing,
        weight: item.weight,
        next: String::new(),
    }
}

fn quoted_title(item: &ListItem) -> String {
    if item.text.is_empty() {
        return "it".to_string();
    }
    format!("\"{}\"", item.text.replace('"', "'"))
}

fn quote_steps(item: &ListItem) -> Option<QuotedText> {
    let mut text = String::new();
    for (position, step) in item.steps.iter().enumerate() {
        if position > 0 {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{}. {}", position + 1, text::clean_line(step, MAX_STEP_CHARS));
    }
    (!text.is_empty()).then(|| QuotedText {
        label: format!("steps of {}", item.name),
        text: text::truncate(&text, MAX_STEPS_CHARS),
    })
}
