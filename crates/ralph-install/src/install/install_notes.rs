//! Notes that are shown to a person before or after an installation.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use super::install_plan::{InstallRequest, InstallScope};
use super::program_path::{self, RalphProgram};
use super::registration::HookExtent;
use super::settings_layers::{SettingsLayer, SettingsLayerKind, SettingsLayerState};
use ralph_core::gate::shell_quote;
use ralph_git::git;
use ralph_host::HostProfile;
use ralph_host::client_settings::SettingsSchema;
use ralph_policy::detect::DetectedGates;
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::program_search;

/// A note is not worth a longer wait for git.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Said where the gates of every session cannot compare.
pub const NO_COMPARISON: &str = "without a git repository, ralph cannot tell old failures from new ones: a gate holds a \
     session only if it passed earlier in that session";

/// Whether the gates of a session can be compared with its start, which takes git and a repository.
pub fn can_compare_sessions(env: &Env, project: &Path) -> bool {
    let path = env.search_path().unwrap_or_default();
    let git = program_search::find_program(OsStr::new("git"), project, &path);
    git.is_some() && git::work_tree_root(project).is_some()
}

/// Whether the settings keep hooks in this scope from running.
pub(super) fn are_hooks_off(layers: &[SettingsLayer], scope: InstallScope) -> bool {
    layers.iter().any(|layer| match &layer.state {
        SettingsLayerState::Missing => false,
        SettingsLayerState::Broken(_) => layer.kind == scope.layer(),
        SettingsLayerState::Read(settings) => {
            (settings.ignored.is_some() && layer.kind == scope.layer())
                || settings.disable_all_hooks == Some(true)
                || (settings.allow_managed_hooks_only && layer.kind == SettingsLayerKind::Managed)
        }
    })
}

pub(super) fn notes_for_install(
    host: &HostProfile,
    layers: &[SettingsLayer],
    order: InstallRequest,
    program: &RalphProgram,
) -> Vec<String> {
    let scope = order.scope;
    let is_plugin = order.extent == HookExtent::Plugin;
    let init = if is_plugin { "ralph init --plugin" } else { "ralph init" };
    let SettingsSchema { disable_hooks, managed_hooks_only, .. } = host.settings;
    let mut notes = Vec::new();
    notes.extend(program.doubt.map(|doubt| {
        format!(
            "`{}` may disappear: {}; install ralph first, then `{init}`",
            program.path.display(),
            doubt.describe()
        )
    }));
    for layer in layers {
        let path = layer.path.display();
        let settings = match &layer.state {
            SettingsLayerState::Missing => continue,
            SettingsLayerState::Broken(why) => {
                if layer.kind != scope.layer() {
                    notes.push(format!("the client ignores `{path}`: {why}"));
                }
                continue;
            }
            SettingsLayerState::Read(settings) => settings,
        };
        notes.extend(
            settings
                .ignored
                .as_ref()
                .map(|why| format!("the client ignores `{path}` and its hooks: {why}")),
        );
        if settings.disable_all_hooks == Some(true) {
            notes.push(format!("`{disable_hooks}` in `{path}` disables every hook"));
        }
        if settings.allow_managed_hooks_only && layer.kind == SettingsLayerKind::Managed {
            notes.push(format!("`{managed_hooks_only}` in `{path}`: your own hooks do not run"));
        }
        let is_ours = settings
            .hooks
            .iter()
            .any(|hook| program_path::is_ralph_hook(&hook.command, hook.args.as_deref()));
        if is_ours && layer.kind != scope.layer() {
            notes.push(still_installed_note(layer));
        }
        let plugin = settings
            .enabled_plugins
            .iter()
            .find(|(name, is_on)| *is_on && name.starts_with("ralph@"));
        if let Some((name, _)) = plugin.filter(|_| !is_plugin) {
            notes.push(format!(
                "the plugin `{name}` has the same hooks: `ralph init --plugin` keeps only those, \
                 `{} plugin uninstall {name}` removes them",
                host.program
            ));
        }
    }
    notes
}

pub(super) fn still_installed_note(layer: &SettingsLayer) -> String {
    let name = layer.kind.name();
    let path = layer.path.display();
    format!("ralph is also in `{path}`: `ralph uninstall --scope {name}` removes it")
}

pub(super) fn survey_notes(detected: &DetectedGates) -> Vec<String> {
    let missing = detected.missing.iter().map(|missing| {
        format!(
            "`{}` is missing; the gates that need it are inactive: {}",
            missing.tool, missing.gates
        )
    });
    missing.chain(detected.notes.iter().cloned()).collect()
}

/// A note if git does not ignore a file that is meant for one person only.
pub fn git_ignore_note(project: &Path, file: &Path) -> Option<String> {
    let project = ralph_sys::fs::resolve(project)?;
    let root = git::work_tree_root(&project)?;
    let file = ralph_sys::fs::resolve(file)?;
    let name = file.strip_prefix(root).ok()?.to_str()?;
    let is_ignored = git::is_ignored(root, name, &Deadline::after(GIT_TIMEOUT)).ok()??;
    let excludes = root.join(".git/info/exclude");
    let excludes = if ralph_sys::fs::is_directory(&root.join(".git")) {
        shell_quote(&excludes.to_string_lossy())
    } else {
        // The repository of a linked work tree is elsewhere.
        let root = shell_quote(&root.to_string_lossy());
        let git = format!("git -C {root} rev-parse --path-format=absolute");
        format!("\"$({git} --git-path info/exclude)\"")
    };
    (!is_ignored).then(|| {
        let line = shell_quote(&format!("/{name}"));
        format!(
            "git does not ignore `{name}`, which is personal; paste `echo {line} >> {excludes}` to change that"
        )
    })
}
