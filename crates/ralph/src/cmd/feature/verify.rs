//! `ralph feature verify`: runs the checks of features as a run would.

use super::args::FeatureVerify;
use super::{Chosen, chosen, id, trust as trust_command};
use crate::cmd::gate;
use crate::report::Failure;
use crate::term;
use crate::wording::safe;
use ralph_core::gate::Gate;
use ralph_core::source::list::{self, Item};
use ralph_gates::findings::write;
use ralph_gates::gates::{self, Content, Course, Order, Place, Ran, Reuse, Seen};
use ralph_lists::features::{self, FeatureError};
use ralph_lists::lists::{self, Checked};
use ralph_policy::{config, trust};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;

pub(crate) fn run(env: &Env, args: &FeatureVerify) -> Result<u8, Failure> {
    let chosen = chosen(env, &args.which)?;
    let checked = lists::checked(&chosen.project, &chosen.of.list()).map_err(FeatureError::from)?;
    let named = wanted(&chosen, &checked, args)?;
    if !trust::is_approved(&chosen.home, &checked.subject) {
        let what =
            format!("the checks of `{}` are not approved, so none was run", safe(&chosen.of.name));
        let hint = format!(
            "`{}` shows what would run and asks for approval",
            trust_command(env, &chosen.of)
        );
        return Err(Failure::untrusted(&what, &hint));
    }
    let config = config::load(&chosen.project, &chosen.home)?;
    let path = trust::recorded_path(&chosen.home, &checked.subject);
    let cancel = gate::run::cancel()?;
    let exclude = [chosen.of.directory.clone(), chosen.home.root().to_path_buf()];
    let gates: Vec<&Gate> = named.iter().map(|(gate, _)| gate).collect();
    let course = Course {
        place: Place {
            home: &chosen.home,
            env,
            project: &config.project,
            content: Content::Tree { exclude: &exclude },
            environment: &config.policy.environment,
            path: path.as_deref(),
            deadline: Deadline::after(gate::LISTING),
        },
        gates: &gates,
        order: Order::All,
        reuse: Reuse::Known,
        cancel: &cancel,
        accepts: &Ran::passed,
        watch: &|_| {},
    };
    let line = |seen: Seen<'_>| {
        if let Seen::Ended(ran) = seen {
            gate::run::plain_line(Seen::Ended(&called(ran, &named)));
        }
    };
    let watch: &(dyn Fn(Seen<'_>) + Sync) = if args.which.json { &|_| {} } else { &line };
    let ran: Vec<Ran> =
        gates::run(&Course { watch, ..course }).iter().map(|ran| called(ran, &named)).collect();
    if args.which.json {
        let results: Vec<_> = ran.iter().map(gate::run::told).collect();
        term::out(&write::json(&results))?;
    } else {
        term::out(&gate::run::human(&ran, "check"))?;
    }
    Ok(if cancel.is_wished() { gate::run::INTERRUPTED } else { gate::run::verdict(&ran) })
}

/// The checks to run, each with the name of its feature. They are numbered as in the run that works on the loop, so
/// that its next stop reuses the cached results.
fn wanted(
    chosen: &Chosen,
    checked: &Checked,
    args: &FeatureVerify,
) -> Result<Vec<(Gate, String)>, Failure> {
    let number = chosen.run.as_ref().and_then(|view| {
        let path = checked.named.path.to_string_lossy();
        view.opened.run.lists.iter().position(|list| list.path == path)
    });
    let gates = list::checks(number.unwrap_or(0), &checked.items);
    let items = checked.items.iter().filter(|item| item.check.is_some());
    let mut all: Vec<(Gate, String)> =
        gates.into_iter().zip(items.map(|item| item.name.clone())).collect();
    if all.is_empty() {
        let what = format!("no feature of `{}` has a check", safe(&chosen.of.name));
        let hint = "`ralph feature add \"…\" --verify -- ARGV…` adds one with a check; the others are claims";
        return Err(Failure::new(&what, hint));
    }
    if args.ids.is_empty() {
        return Ok(all);
    }
    let mut names = Vec::new();
    let (_, list) = features::read(&checked.named.path).map_err(FeatureError::from)?;
    for given in &args.ids {
        let at = features::position(&checked.named.path, &list, given)?;
        let item = checked.items.get(at);
        names.extend(item.map(has_check).transpose()?.map(|item| item.name.clone()));
    }
    all.retain(|(_, name)| names.contains(name));
    Ok(all)
}

fn has_check(item: &Item) -> Result<&Item, Failure> {
    if item.check.is_some() {
        return Ok(item);
    }
    let hint = format!("follow its steps, then `ralph feature claim {}`", id(item));
    Err(Failure::new(&format!("{} has no check, only a claim", item.name), &hint))
}

/// The result under the name of its feature instead of the internal name of the check.
fn called(ran: &Ran, named: &[(Gate, String)]) -> Ran {
    let name = named.iter().find(|(gate, _)| gate.name == ran.gate.name);
    let name = name.map_or_else(|| ran.gate.name.clone(), |(_, name)| name.clone());
    let mut called = ran.clone();
    called.gate.name = name;
    called
}
