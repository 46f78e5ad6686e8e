//! What a person should know before they agree, or afterwards.

use std::path::Path;
use std::time::Duration;

use super::command::{self, Program};
use super::layers::{Layer, LayerKind, State};
use super::plan::Scope;
use ralph_git::git;
use ralph_policy::detect::Detected;
use ralph_sys::clock::Deadline;

/// A note does not keep anybody waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether hooks in these settings would run at all, as far as the settings tell.
pub(super) fn is_off(layers: &[Layer], scope: Scope) -> bool {
    layers.iter().any(|layer| match &layer.state {
        State::Missing => false,
        State::Broken(_) => layer.kind == scope.layer(),
        State::Read(settings) => {
            (settings.ignored.is_some() && layer.kind == scope.layer())
                || settings.disable_all_hooks == Some(true)
                || (settings.allow_managed_hooks_only && layer.kind == LayerKind::Managed)
        }
    })
}

pub(super) fn of_install(layers: &[Layer], scope: Scope, program: &Program) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(program.doubt.map(|doubt| {
        format!(
            "`{}` may not be there for long: {}; install ralph first, then `ralph init`",
            program.path.display(),
            doubt.in_words()
        )
    }));
    for layer in layers {
        let path = layer.path.display();
        let settings = match &layer.state {
            State::Missing => continue,
            State::Broken(why) => {
                if layer.kind != scope.layer() {
                    notes.push(format!("the client loads nothing of `{path}`: {why}"));
                }
                continue;
            }
            State::Read(settings) => settings,
        };
        notes.extend(
            settings
                .ignored
                .as_ref()
                .map(|why| format!("the client loads nothing of `{path}`, no hooks either: {why}")),
        );
        if settings.disable_all_hooks == Some(true) {
            notes.push(format!("`disableAllHooks` in `{path}` disables every hook"));
        }
        if settings.allow_managed_hooks_only && layer.kind == LayerKind::Managed {
            notes.push(format!("`allowManagedHooksOnly` in `{path}`: no hook of yours runs"));
        }
        let is_ours = settings
            .hooks
            .iter()
            .any(|hook| command::is_hook_of_ours(&hook.command, hook.args.as_deref()));
        if is_ours && layer.kind != scope.layer() {
            notes.push(still_in(layer));
        }
        let plugin = settings
            .enabled_plugins
            .iter()
            .find(|(name, is_on)| *is_on && name.starts_with("ralph@"));
        if let Some((name, _)) = plugin {
            notes.push(format!(
                "the plugin `{name}` has the hooks too: `ralph init --plugin` does without others, \
                 `claude plugin uninstall {name}` without the plugin"
            ));
        }
    }
    notes
}

pub(super) fn still_in(layer: &Layer) -> String {
    let name = layer.kind.name();
    let path = layer.path.display();
    format!("ralph is in `{path}` too: `ralph uninstall --scope {name}` takes it out")
}

pub(super) fn of_survey(detected: &Detected) -> Vec<String> {
    let missing = detected.missing.iter().map(|missing| {
        format!(
            "`{}` is missing, for {}: such a gate is not active",
            missing.tool, missing.for_what
        )
    });
    missing.chain(detected.notes.iter().cloned()).collect()
}

/// What git makes of a file that is meant for one person only.
pub fn of_git(project: &Path, file: &Path) -> Option<String> {
    let project = ralph_sys::fs::resolve(project)?;
    let root = git::root(&project)?;
    let changed = git::changed_paths(&project, &Deadline::after(PATIENCE)).ok()?;
    let file = ralph_sys::fs::resolve(file)?;
    let name = file.strip_prefix(root).ok()?.to_str()?;
    changed.iter().any(|path| path == name).then(|| {
        format!(
            "git does not ignore `{name}`, which is yours alone: name it in `.git/info/exclude`"
        )
    })
}
