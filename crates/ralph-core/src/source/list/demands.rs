//! The requirements and check gates of a list's items.

use super::Item;
use crate::gate::{Command, Format, Gate, MinTests, Moment, Rerun, quoted};
use crate::policy::Claims;
use crate::record::ListKind;
use crate::requirement::{Evidence, Failure, Pending, Quote, Requirement, Stage, Standing, Weight};
use crate::text;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;

const LONGEST_STEP: usize = 4_000;
const LONGEST_STEPS: usize = 8_000;
const LONGEST_CHECK: usize = 200;

/// The default timeout of a gate.
const TIMEOUT_MS: u64 = 5 * 60 * 1000;

/// How many checks of open items are run: those of the items to be worked on next.
const AHEAD: usize = 16;

/// The combined status of the policy's required gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gates {
    /// There are none, so a claim cannot be backed.
    None,
    Pass,
    Open,
}

/// What the status of a list's items depends on.
#[derive(Clone, Copy, Debug)]
pub struct Demands<'a> {
    /// The path of the list as the agent sees it.
    pub file: &'a str,
    pub kind: ListKind,
    pub gates: Gates,
    pub claims: Claims,
    /// Results of checks, by the name of their gate.
    pub checked: &'a BTreeMap<String, Requirement>,
}

/// The gate that runs an item's check. It is named after the position of the item in the sealed list.
fn check(list: usize, position: usize, item: &Item) -> Option<Gate> {
    let argv = item.check.clone()?;
    Some(Gate {
        name: check_name(list, position),
        stage: Stage::Correctness,
        command: Command::Argv(argv),
        cwd: String::new(),
        timeout_ms: TIMEOUT_MS,
        paths: Vec::new(),
        when: Vec::new(),
        on: vec![Moment::Stop],
        min_complexity: 0,
        weight: item.weight,
        report: Format::Text,
        min_tests: MinTests::Some,
        rerun: Rerun::Tests,
        env: Vec::new(),
    })
}

pub fn check_name(list: usize, position: usize) -> String {
    format!("check-{}-{}", list + 1, position + 1)
}

/// The list and position that a check's name refers to; the inverse of [`check_name`].
pub fn position(check: &str) -> Option<(usize, usize)> {
    let (list, position) = check.strip_prefix("check-")?.split_once('-')?;
    let from_one = |number: &str| number.parse::<usize>().ok()?.checked_sub(1);
    let found = (from_one(list)?, from_one(position)?);
    (check_name(found.0, found.1) == check).then_some(found)
}

/// The gates for all checks of a list. `list` is the index of the list in its run.
pub fn checks(list: usize, items: &[Item]) -> Vec<Gate> {
    items.iter().enumerate().filter_map(|(at, item)| check(list, at, item)).collect()
}

/// The gates to run now: the checks of all items marked done, and of the next few that are not.
pub fn due(list: usize, items: &[Item]) -> Vec<Gate> {
    let mut ahead = 0;
    let is_due = |(_, item): &(usize, &Item)| {
        ahead += usize::from(!item.done && item.check.is_some());
        item.done || ahead <= AHEAD
    };
    items.iter().enumerate().filter(is_due).filter_map(|(at, item)| check(list, at, item)).collect()
}

/// One requirement per item. Only the first open item gets a next step and its steps quoted.
pub fn requirements(list: usize, items: &[Item], context: &Demands<'_>) -> Vec<Requirement> {
    let mut next_is_found = false;
    let mut requirements = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let standing = match &item.check {
            Some(argv) => checked(item, argv, context.checked.get(&check_name(list, position))),
            None => said(item, context),
        };
        let mut one = requirement(item, standing);
        if !next_is_found && one.is_open() && !one.is_pending() {
            next_is_found = true;
            // Only one of possibly thousands is shown, so the text is not built for the others.
            one.next = next(item, &one.standing, context);
            if let Standing::Unmet(failure) = &mut one.standing {
                failure.quote = steps(item);
            }
        }
        requirements.push(one);
    }
    requirements
}

/// The status of an item with a check. Only the check's result counts, not the `done` flag.
fn checked(item: &Item, argv: &[String], known: Option<&Requirement>) -> Standing {
    let Some(known) = known else {
        let why = "its check runs when the items before it are done".to_string();
        return Standing::Pending(Pending::NotReached(why));
    };
    match &known.standing {
        Standing::Unmet(failure) => Standing::Unmet(Failure {
            summary: format!("{}: `{}` fails: {}", title(item), command(argv), failure.summary),
            ..failure.clone()
        }),
        Standing::Unknown(why) => Standing::Unknown(format!("`{}`: {why}", command(argv))),
        standing @ (Standing::Met(_) | Standing::Pending(_)) => standing.clone(),
    }
}

fn command(argv: &[String]) -> String {
    let typed = argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    text::line(&typed, LONGEST_CHECK).replace('`', "'")
}

/// The status of an item without a check. It is only a claim, which counts while the required gates pass.
fn said(item: &Item, context: &Demands<'_>) -> Standing {
    match (item.done, context.gates, context.claims) {
        (false, ..) => {
            let summary = match context.kind {
                ListKind::Features => format!("{} does not pass yet", title(item)),
                ListKind::Plan => {
                    let line = item.line.map(|line| format!(":{line}")).unwrap_or_default();
                    format!("{} is not ticked in `{}{line}`", title(item), context.file)
                }
            };
            Standing::Unmet(Failure::new(summary))
        }
        (true, Gates::Open, _) => {
            let why = "marked done, which counts once every required gate passes".to_string();
            Standing::Pending(Pending::NotReached(why))
        }
        (true, Gates::Pass, Claims::WithGates) => Standing::Met(Evidence::Backed),
        (true, Gates::Pass | Gates::None, _) => Standing::Met(Evidence::Claimed),
    }
}

/// The next step for an open item.
fn next(item: &Item, standing: &Standing, context: &Demands<'_>) -> String {
    if item.weight == Weight::Advisory {
        return String::new();
    }
    match (&item.check, standing, context.kind) {
        (Some(argv), Standing::Unknown(_), _) => format!(
            "If your changes broke `{}`, the check of {}, fix it; otherwise leave it to a person",
            command(argv),
            item.name
        ),
        (Some(argv), ..) => format!("Work on {} until `{}` passes", item.name, command(argv)),
        (None, _, ListKind::Features) => format!(
            "Implement {}, check it, then set its `passes` to true in `{}`",
            item.name, context.file
        ),
        (None, _, ListKind::Plan) => {
            format!("Complete {}, check it, then tick it in `{}`", item.name, context.file)
        }
    }
}

fn requirement(item: &Item, standing: Standing) -> Requirement {
    Requirement {
        name: item.name.clone(),
        stage: Stage::Correctness,
        standing,
        weight: item.weight,
        next: String::new(),
    }
}

fn title(item: &Item) -> String {
    if item.text.is_empty() {
        return "it".to_string();
    }
    format!("\"{}\"", item.text.replace('"', "'"))
}

fn steps(item: &Item) -> Option<Quote> {
    let mut text = String::new();
    for (position, step) in item.steps.iter().enumerate() {
        if position > 0 {
            text.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{}. {}", position + 1, text::line(step, LONGEST_STEP));
    }
    (!text.is_empty()).then(|| Quote {
        label: format!("steps of {}", item.name),
        text: text::cut(&text, LONGEST_STEPS),
    })
}
