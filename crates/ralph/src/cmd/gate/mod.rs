//! `ralph gate …`: runs and shows the gates that also run at a stop, by hand or in CI.

pub(crate) mod add;
mod detect;
mod explain;
pub(crate) mod gate_args;
pub(crate) mod gate_run;
pub(super) mod list;
pub(super) mod warm;

use crate::SUCCESS;
use crate::failure::CommandFailure;
use crate::typed_consent;
use ralph_core::gate::Gate;
use ralph_core::text;
use ralph_home::paths::RalphHome;
use ralph_policy::config::{self, ProjectConfig};
use ralph_policy::trust::{self, ApprovalSubject};
use ralph_sys::env::Env;
use std::path::Path;
use std::time::Duration;

/// The limit on the size of an existing policy file.
const MAX_POLICY_BYTES: usize = 1024 * 1024;

/// The deadline for listing the files of a project; it normally takes less than a second.
pub(crate) const LISTING_TIMEOUT: Duration = Duration::from_mins(5);

pub(crate) fn run(env: &Env, gate: &gate_args::GateSubcommand) -> Result<u8, CommandFailure> {
    match gate {
        gate_args::GateSubcommand::Run(args) => gate_run::run(env, args),
        gate_args::GateSubcommand::List(args) => list::run(env, args).map(|()| SUCCESS),
        gate_args::GateSubcommand::Explain(args) => explain::run(env, args).map(|()| SUCCESS),
        gate_args::GateSubcommand::Add(args) => add::run(env, args).map(|()| SUCCESS),
        gate_args::GateSubcommand::Detect(args) => detect::run(env, args).map(|()| SUCCESS),
        gate_args::GateSubcommand::Warm(args) => warm::run(env, args),
        gate_args::GateSubcommand::Wait(args) => warm::wait_for_gates(env, args),
    }
}

/// The policy in force for the given project, or for that of the current directory.
pub(super) fn load_policy(
    env: &Env,
    home: &RalphHome,
    project: Option<&Path>,
) -> Result<ProjectConfig, CommandFailure> {
    Ok(config::load(&super::config::project_dir(env, project)?, home)?)
}

/// The policy's commands, if a person approved exactly them or `hash` names them. No repository command may run before.
pub(crate) fn require_approval(
    env: &Env,
    home: &RalphHome,
    config: &ProjectConfig,
    hash: Option<&str>,
) -> Result<ApprovalSubject, CommandFailure> {
    let subject = trust::policy_subject(home, config, env)?;
    if trust::is_approved(home, &subject) {
        return match hash.filter(|hash| !subject.matches_hash(hash)) {
            None => Ok(subject),
            Some(_) => Err(CommandFailure::untrusted(
                "the policy has another hash, so nothing was run",
                &format!("its hash is {}, not the given one", subject.hash),
            )),
        };
    }
    if hash.is_some_and(|hash| subject.matches_hash(hash)) {
        typed_consent::require_while_held(home, "run it")?;
        return Ok(subject);
    }
    trust::check_approval_file(home, &subject)?;
    let what = "this policy is not approved, so nothing was run";
    let hint = match hash {
        Some(_) => format!("its hash is {}, not the given one", subject.hash),
        None => "`ralph trust` shows what would run and asks for approval".to_string(),
    };
    Err(CommandFailure::untrusted(what, &hint))
}

pub(super) fn find_gate<'a>(
    config: &'a ProjectConfig,
    name: &str,
) -> Result<&'a Gate, CommandFailure> {
    let gates = &config.policy.gates;
    gates.iter().find(|gate| gate.name == name).ok_or_else(|| {
        let names: Vec<_> = gates.iter().map(|gate| gate.name.as_str()).collect();
        let what = format!("there is no gate `{}`", text::clean_line(name, 80));
        let hint = match text::nearest(name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if names.is_empty() => "`ralph gate detect` proposes some".to_string(),
            None => format!("the gates are {}", names.join(", ")),
        };
        CommandFailure::new(&what, &hint)
    })
}
