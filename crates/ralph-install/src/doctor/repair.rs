//! The few repairs that are safe without asking. All of them change only ralph's own files and entries.

use super::{
    DoctorCheck, DoctorContext, SafeRepair, home_checks, hook_registration_checks, loaded_hooks,
};
use crate::install::install_plan::{
    self, ForeignSetupChoice, GateSetupChoice, InstallContext, InstallRequest, InstallScope,
    SessionSetupChoice, StatusLineChoice,
};
use crate::install::native_judge::NativeJudgeChoice;
use crate::install::program_path::{PathDoubt, RalphProgram};
use crate::install::registration::{GateWarming, HookExtent};
use crate::install::settings_layers;
use crate::install::{InstallError, file_change};
use ralph_core::policy::SessionGates;
use ralph_host::client_settings::HookMode;
use ralph_sys::fs;

#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error(transparent)]
    File(#[from] fs::FileError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error("this program, `{}`, may disappear: {why}", path.display())]
    Doubtful { path: std::path::PathBuf, why: &'static str },
}

/// Makes each repair that the checks ask for once, and describes what was done.
pub fn apply_repairs(
    context: &DoctorContext<'_>,
    checks: &[DoctorCheck],
) -> Vec<Result<String, RepairError>> {
    let mut wanted: Vec<SafeRepair> = Vec::new();
    for repair in checks.iter().filter_map(|check| check.repair) {
        if !wanted.contains(&repair) {
            wanted.push(repair);
        }
    }
    wanted.into_iter().map(|repair| apply_repair(context, repair)).collect()
}

fn apply_repair(context: &DoctorContext<'_>, repair: SafeRepair) -> Result<String, RepairError> {
    match repair {
        SafeRepair::PrivateHome => {
            fs::make_dir_private(context.home.root())?;
            Ok(format!("made `{}` private", context.home.root().display()))
        }
        SafeRepair::Scratch => {
            let stale = home_checks::stale_scratch(context)?;
            for directory in &stale {
                fs::remove_own_dir_tree(directory)?;
            }
            Ok(format!("removed directories of killed gates: {}", stale.len()))
        }
        SafeRepair::Settings(scope) => repair_settings(context, scope),
    }
}

/// Rewrites the settings as `ralph init` would, with the same set of events as before.
fn repair_settings(
    context: &DoctorContext<'_>,
    scope: InstallScope,
) -> Result<String, RepairError> {
    let program = RalphProgram::find(context.env).map_err(InstallError::from)?;
    if let Some(doubt @ (PathDoubt::BuildDirectory | PathDoubt::PluginDirectory)) = program.doubt {
        return Err(RepairError::Doubtful { path: program.path, why: doubt.describe() });
    }
    let layers = settings_layers::read_layers(context.env, context.host, context.project);
    let registered = loaded_hooks::read_registered_hooks(context.env, context.host, &layers);
    let ours: Vec<_> = registered
        .iter()
        .filter(|one| one.calls_ralph() && one.from.scope() == Some(scope))
        .collect();
    let is_least = |event: &str| hook_registration_checks::is_essential_event(context.host, event);
    let is_warm = ours.iter().any(|one| one.hook.mode == HookMode::Async);
    let is_minimal = !is_warm && ours.iter().all(|one| is_least(&one.hook.event));
    let order = InstallRequest {
        scope,
        extent: if is_minimal { HookExtent::Minimal } else { HookExtent::Full },
        warming: if is_warm { GateWarming::AfterEdits } else { GateWarming::Off },
        status_line: StatusLineChoice::Leave,
        judge: NativeJudgeChoice::Keep,
        gates: GateSetupChoice::Leave,
        sessions: SessionGates::Goal,
        session_setup: SessionSetupChoice::Leave,
        others: ForeignSetupChoice::Leave,
    };
    let install = InstallContext {
        env: context.env,
        host: context.host,
        home: context.home,
        project: context.project,
    };
    let plan = install_plan::plan_install(&install, &order)?;
    file_change::apply_changes(context.home, &plan.changes)?;
    let mut paths = plan.changes.iter().map(|change| change.path.display().to_string());
    Ok(match paths.next() {
        Some(path) => format!("updated the registration in `{path}`"),
        None => "the registration was already correct".to_string(),
    })
}
