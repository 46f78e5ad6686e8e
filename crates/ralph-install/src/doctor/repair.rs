//! The few repairs that are safe without asking. All of them change only ralph's own files and entries.

use super::{Check, Repair, Scene, hooks, registered, state};
use crate::install::command::{Doubt, Program};
use crate::install::layers::{self, Mode};
use crate::install::plan::{self, Gates, Ground, Order, Others, Scope, StatusLine};
use crate::install::registration::{Extent, Warming};
use crate::install::{InstallError, change};
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
pub fn all(scene: &Scene<'_>, checks: &[Check]) -> Vec<Result<String, RepairError>> {
    let mut wanted: Vec<Repair> = Vec::new();
    for repair in checks.iter().filter_map(|check| check.repair) {
        if !wanted.contains(&repair) {
            wanted.push(repair);
        }
    }
    wanted.into_iter().map(|repair| one(scene, repair)).collect()
}

fn one(scene: &Scene<'_>, repair: Repair) -> Result<String, RepairError> {
    match repair {
        Repair::PrivateHome => {
            fs::make_private(scene.home.root())?;
            Ok(format!("made `{}` private", scene.home.root().display()))
        }
        Repair::Scratch => {
            let stale = state::stale(scene);
            for directory in &stale {
                fs::remove_made_dir(directory)?;
            }
            Ok(format!("removed directories of killed gates: {}", stale.len()))
        }
        Repair::Settings(scope) => settings(scene, scope),
    }
}

/// Rewrites the settings as `ralph init` would, with the same set of events as before.
fn settings(scene: &Scene<'_>, scope: Scope) -> Result<String, RepairError> {
    let program = Program::find(scene.env).map_err(InstallError::from)?;
    if let Some(doubt @ (Doubt::BuildDirectory | Doubt::PluginDirectory)) = program.doubt {
        return Err(RepairError::Doubtful { path: program.path, why: doubt.in_words() });
    }
    let layers = layers::read(scene.env, scene.project);
    let registered = registered::read(scene.env, &layers);
    let ours: Vec<_> =
        registered.iter().filter(|one| one.is_ours() && one.from.scope() == Some(scope)).collect();
    let is_least = |event: &str| hooks::LEAST.contains(&event);
    let is_warm = ours.iter().any(|one| one.hook.mode == Mode::Async);
    let is_minimal = !is_warm && ours.iter().all(|one| is_least(&one.hook.event));
    let order = Order {
        scope,
        extent: if is_minimal { Extent::Minimal } else { Extent::Full },
        warming: if is_warm { Warming::AfterEdits } else { Warming::Off },
        status_line: StatusLine::Leave,
        gates: Gates::Leave,
        others: Others::Leave,
    };
    let ground = Ground { env: scene.env, home: scene.home, project: scene.project };
    let plan = plan::install(&ground, &order)?;
    change::apply(scene.home, &plan.changes)?;
    let mut paths = plan.changes.iter().map(|change| change.path.display().to_string());
    Ok(match paths.next() {
        Some(path) => format!("updated the registration in `{path}`"),
        None => "the registration was already correct".to_string(),
    })
}
