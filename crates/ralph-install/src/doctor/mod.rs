//! Checks whether a run could hold an agent here, by inspecting the setup and by running the hooks as the client would.
//!
//! [`examine_setup`] changes none of the person's files: hooks run with a temporary home. [`repair`] makes the few
//! changes that are safe.

mod client_limit_checks;
mod client_version_checks;
mod consent;
mod cost_checks;
mod home_checks;
mod hook_answer_checks;
mod hook_command;
mod hook_program_checks;
mod hook_registration_checks;
mod hook_trial;
mod loaded_hooks;
mod plugins;
mod project_checks;
pub mod protection;
pub mod repair;
mod run_checks;
mod settings_checks;

use std::collections::HashSet;
use std::path::Path;

use crate::install::install_plan::InstallScope;
use crate::install::settings_layers;
use ralph_home::paths::RalphHome;
use ralph_host::HostProfile;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use serde::Serialize;

/// The setup to examine.
#[derive(Clone, Copy, Debug)]
pub struct DoctorContext<'a> {
    pub env: &'a Env,
    pub host: &'static HostProfile,
    pub home: &'a RalphHome,
    pub project: &'a Path,
    /// This program, which supervises the hooks under test, and its version.
    pub program: &'a Path,
    pub version: &'a str,
    /// A temporary directory for this examination only; the caller removes it.
    pub scratch: &'a Path,
    pub cancel: &'a CancelToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    Good,
    /// It does not work, or will stop working soon.
    Bad,
    /// The result is unknown, or looks odd.
    Unclear,
    /// Information only.
    Note,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorCheck {
    pub name: &'static str,
    pub standing: CheckStatus,
    pub what: String,
    /// How a person can fix it.
    pub fix: Option<String>,
    /// The safe repair that [`repair`] would make.
    pub repair: Option<SafeRepair>,
}

/// A repair that is safe to make without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafeRepair {
    /// Remove other users' access to ralph's home.
    PrivateHome,
    /// Rewrite ralph's own entries in these settings, as `ralph init` would.
    Settings(InstallScope),
    /// Remove temporary directories of killed gates.
    Scratch,
}

impl DoctorCheck {
    fn new(name: &'static str, standing: CheckStatus, what: impl Into<String>) -> Self {
        Self { name, standing, what: what.into(), fix: None, repair: None }
    }

    fn good(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Good, what)
    }

    fn bad(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Bad, what)
    }

    fn unclear(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Unclear, what)
    }

    fn note(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Note, what)
    }

    fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    fn repair(self, repair: Option<SafeRepair>) -> Self {
        Self { repair, ..self }
    }
}

/// Runs every check, in the order of likely causes: settings, hooks, ralph's home, the project.
pub fn examine_setup(context: &DoctorContext<'_>) -> Vec<DoctorCheck> {
    let layers = settings_layers::read_layers(context.env, context.host, context.project);
    let registered = loaded_hooks::read_registered_hooks(context.env, context.host, &layers);
    let policy = project_checks::load_doctor_policy(context);
    let mut checks = settings_checks::check_layers(&layers);
    checks.extend(settings_checks::check_switches(context.host, &layers));
    checks.extend(settings_checks::check_variables(context, &layers));
    checks.extend(hook_registration_checks::check_registration(context.host, &layers, &registered));
    checks.extend(hook_registration_checks::check_duplicates(context.host, &registered));
    checks.extend(hook_answer_checks::try_hooks(context, &layers, &registered));
    checks.extend(client_limit_checks::check_timeouts(
        context.host,
        &registered,
        policy.gates_ms(),
    ));
    checks.extend(client_limit_checks::check_block_cap(context, &layers, (&registered, &policy)));
    checks.extend(hook_registration_checks::check_native_judge(context.host, &registered));
    checks.extend(hook_registration_checks::list_foreign_hooks(context.host, &registered));
    checks.extend(home_checks::check_home(context));
    checks.extend(home_checks::check_home_content(context));
    checks.extend(run_checks::check_runs(context));
    checks.extend(cost_checks::check_cost_limit(context));
    checks.extend(project_checks::check_project(context, &policy));
    checks.push(client_version_checks::check_client_version(context));
    drop_repeated_checks(checks)
}

/// Two commands of one program have the same path and version, which is said once.
fn drop_repeated_checks(checks: Vec<DoctorCheck>) -> Vec<DoctorCheck> {
    let mut seen = HashSet::new();
    let is_new = |check: &DoctorCheck| seen.insert((check.name, check.what.clone()));
    let mut checks = checks;
    checks.retain(is_new);
    checks
}

/// Why the client would end a hook before gates of these timeouts are done, with the fix. `None` if it waits long enough,
/// or calls no hook of ralph.
pub fn short_timeout_note(
    env: &Env,
    host: &'static HostProfile,
    project: &Path,
    gates_ms: u64,
) -> Option<String> {
    let layers = settings_layers::read_layers(env, host, project);
    let registered = loaded_hooks::read_registered_hooks(env, host, &layers);
    let checks = client_limit_checks::check_timeouts(host, &registered, gates_ms);
    let short = checks.into_iter().find(|check| check.standing == CheckStatus::Bad)?;
    let fix = short.fix.map(|fix| format!("; {fix} changes that")).unwrap_or_default();
    Some(format!("the client does not wait long enough for the gates: {}{fix}", short.what))
}
