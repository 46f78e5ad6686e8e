//! What the items of a list demand.

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

/// A check has as long as a gate that says nothing about it.
const TIMEOUT_MS: u64 = 5 * 60 * 1000;

/// How many items that nobody says are done have their checks run: the next ones to be worked on.
const AHEAD: usize = 16;

/// How the required gates of the policy stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gates {
    /// There are none, so a claim is all there is.
    None,
    Pass,
    Open,
}

/// A list, and all that tells how its items stand.
#[derive(Clone, Copy, Debug)]
pub struct Demands<'a> {
    /// How the file is called where the agent is.
    pub file: &'a str,
    pub kind: ListKind,
    pub gates: Gates,
    pub claims: Claims,
    /// What checks said, by the names of the gates that they are.
    pub checked: &'a BTreeMap<String, Requirement>,
}

/// The gate that an item's check is, by where the item was when the list was sealed.
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

/// The list and the position in it that a name is of.
pub fn position(check: &str) -> Option<(usize, usize)> {
    let (list, position) = check.strip_prefix("check-")?.split_once('-')?;
    let from_one = |number: &str| number.parse::<usize>().ok()?.checked_sub(1);
    let found = (from_one(list)?, from_one(position)?);
    (check_name(found.0, found.1) == check).then_some(found)
}

/// All checks of a list, which is the one with this number among those of its run.
pub fn checks(list: usize, items: &[Item]) -> Vec<Gate> {
    items.iter().enumerate().filter_map(|(at, item)| check(list, at, item)).collect()
}

/// Checks that are run now: of all that is said to be done, and of the next that is not.
pub fn due(list: usize, items: &[Item]) -> Vec<Gate> {
    let mut ahead = 0;
    let is_due = |(_, item): &(usize, &Item)| {
        ahead += usize::from(!item.done && item.check.is_some());
        item.done || ahead <= AHEAD
    };
    items.iter().enumerate().filter(is_due).filter_map(|(at, item)| check(list, at, item)).collect()
}

pub fn requirements(list: usize, items: &[Item], demands: &Demands<'_>) -> Vec<Requirement> {
    let mut next_is_found = false;
    let mut requirements = Vec::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        let standing = match &item.check {
            Some(argv) => checked(item, argv, demands.checked.get(&check_name(list, position))),
            None => said(item, demands),
        };
        let mut one = requirement(item, standing);
        if !next_is_found && one.is_open() && !one.is_pending() {
            next_is_found = true;
            // Told for one of thousands, so not made for the others.
            one.next = next(item, &one.standing, demands);
            if let Standing::Unmet(failure) = &mut one.standing {
                failure.quote = steps(item);
            }
        }
        requirements.push(one);
    }
    requirements
}

/// Only the result of its check counts, whatever anybody says.
fn checked(item: &Item, argv: &[String], known: Option<&Requirement>) -> Standing {
    let Some(known) = known else {
        let why = "its check is run when what comes before is done".to_string();
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

/// Nothing measures it: somebody's word, which is worth something only beside gates that pass.
fn said(item: &Item, demands: &Demands<'_>) -> Standing {
    match (item.done, demands.gates, demands.claims) {
        (false, ..) => {
            let summary = match demands.kind {
                ListKind::Features => format!("{} does not pass yet", title(item)),
                ListKind::Plan => {
                    let line = item.line.map(|line| format!(":{line}")).unwrap_or_default();
                    format!("{} is not ticked in `{}{line}`", title(item), demands.file)
                }
            };
            Standing::Unmet(Failure::new(summary))
        }
        (true, Gates::Open, _) => {
            let why = "said to be done, which counts once every required gate passes".to_string();
            Standing::Pending(Pending::NotReached(why))
        }
        (true, Gates::Pass, Claims::WithGates) => Standing::Met(Evidence::Backed),
        (true, Gates::Pass | Gates::None, _) => Standing::Met(Evidence::Claimed),
    }
}

/// What to do about an item that is open.
fn next(item: &Item, standing: &Standing, demands: &Demands<'_>) -> String {
    if item.weight == Weight::Advisory {
        return String::new();
    }
    match (&item.check, standing, demands.kind) {
        (Some(argv), Standing::Unknown(_), _) => format!(
            "If your changes broke `{}`, the check of {}, mend that; otherwise a person has to look",
            command(argv),
            item.name
        ),
        (Some(argv), ..) => format!("Work on {} until `{}` passes", item.name, command(argv)),
        (None, _, ListKind::Features) => format!(
            "Implement {}, check it, then set its `passes` to true in `{}`",
            item.name, demands.file
        ),
        (None, _, ListKind::Plan) => {
            format!("Do what {} says, check it, then tick it in `{}`", item.name, demands.file)
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
