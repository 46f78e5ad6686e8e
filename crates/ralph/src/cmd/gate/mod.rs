//! `ralph gate …`: runs and shows the gates that also run at a stop, by hand or in CI.

pub(crate) mod args;
mod detect;
mod explain;
mod list;
pub(crate) mod run;
mod warm;

use crate::SUCCESS;
use crate::report::Failure;
use ralph_core::gate::{Gate, Moment};
use ralph_core::text;
use ralph_home::paths::Home;
use ralph_policy::config::{self, Config};
use ralph_policy::trust::{self, Subject};
use ralph_sys::env::Env;
use std::path::Path;
use std::time::Duration;

/// The deadline for listing the files of a project; it normally takes less than a second.
pub(crate) const LISTING: Duration = Duration::from_mins(5);

pub(crate) fn run(env: &Env, gate: &args::Gate) -> Result<u8, Failure> {
    match gate {
        args::Gate::Run(args) => run::run(env, args),
        args::Gate::List(args) => list::run(env, args).map(|()| SUCCESS),
        args::Gate::Explain(args) => explain::run(env, args).map(|()| SUCCESS),
        args::Gate::Detect(args) => detect::run(env, args).map(|()| SUCCESS),
        args::Gate::Warm(args) => warm::run(env, args),
        args::Gate::Wait(args) => warm::wait(env, args),
    }
}

/// The policy in force for the given project, or for that of the current directory.
pub(super) fn policy(env: &Env, home: &Home, project: Option<&Path>) -> Result<Config, Failure> {
    Ok(config::load(&super::config::project(env, project)?, home)?)
}

/// The policy's commands, if a person approved exactly them or `hash` names them. No repository command may run before.
pub(crate) fn approved(
    home: &Home,
    config: &Config,
    hash: Option<&str>,
) -> Result<Subject, Failure> {
    let subject = trust::subject(config)?;
    let is_meant = hash.is_some_and(|hash| subject.is_meant_by(hash));
    if is_meant || trust::is_approved(home, &subject) {
        return Ok(subject);
    }
    let what = "this policy is not approved, so nothing was run";
    let hint = match hash {
        Some(_) => format!("its hash is {}, not the given one", subject.hash),
        None => "`ralph trust` shows what would run and asks for approval".to_string(),
    };
    Err(Failure::untrusted(what, &hint))
}

pub(super) fn named<'a>(config: &'a Config, name: &str) -> Result<&'a Gate, Failure> {
    let gates = &config.policy.gates;
    gates.iter().find(|gate| gate.name == name).ok_or_else(|| {
        let names: Vec<_> = gates.iter().map(|gate| gate.name.as_str()).collect();
        let what = format!("there is no gate `{}`", text::line(name, 80));
        let hint = match text::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "`ralph gate detect` proposes some".to_string(),
            None => format!("the gates are {}", names.join(", ")),
        };
        Failure::new(&what, &hint)
    })
}

pub(super) fn moments(gate: &Gate) -> String {
    gate.on.iter().map(|moment: &Moment| moment.name()).collect::<Vec<_>>().join(", ")
}
