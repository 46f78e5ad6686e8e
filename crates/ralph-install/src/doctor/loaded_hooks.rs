//! The hooks that the client would run, and whether they are ralph's.

use std::path::PathBuf;

use super::{hook_command, plugins};
use crate::install::install_plan::InstallScope;
use crate::install::native_judge::is_native_judge;
use crate::install::program_path::is_ralph_hook;
use crate::install::settings_layers::{SettingsLayer, SettingsLayerKind, SettingsLayerState};
use ralph_host::HostProfile;
use ralph_host::client_settings::HookSetting;
use ralph_sys::env::Env;

/// One hook, where it is registered, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RegisteredHook {
    pub(super) from: HookSource,
    pub(super) hook: HookSetting,
    pub(super) owner: HookOwner,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HookSource {
    Layer { kind: SettingsLayerKind, path: PathBuf },
    Plugin { name: String, root: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookOwner {
    Ralph,
    /// A command that is not ralph, but calls it.
    Wrapper,
    /// The client's own stop hook that `ralph init --native-judge` wrote.
    NativeJudge,
    OtherTool,
}

impl RegisteredHook {
    pub(super) fn calls_ralph(&self) -> bool {
        match self.owner {
            HookOwner::Ralph | HookOwner::Wrapper => true,
            HookOwner::NativeJudge | HookOwner::OtherTool => false,
        }
    }

    /// The command line as registered.
    pub(super) fn command_line(&self) -> String {
        let args = self.hook.args.iter().flatten();
        let words: Vec<_> = std::iter::once(&self.hook.command).chain(args).cloned().collect();
        ralph_core::text::clean_line(&words.join(" "), 300)
    }
}

impl HookSource {
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Layer { kind, .. } => format!("{} settings", kind.name()),
            Self::Plugin { name, .. } => {
                format!("plugin `{}`", ralph_core::text::clean_line(name, 100))
            }
        }
    }

    /// The scope with which `ralph init` writes there; `None` if it cannot.
    pub(super) fn scope(&self) -> Option<InstallScope> {
        match self {
            Self::Layer { kind: SettingsLayerKind::User, .. } => Some(InstallScope::User),
            Self::Layer { kind: SettingsLayerKind::Project, .. } => Some(InstallScope::Project),
            Self::Layer { kind: SettingsLayerKind::Local, .. } => Some(InstallScope::Local),
            Self::Layer { kind: SettingsLayerKind::Managed, .. } | Self::Plugin { .. } => None,
        }
    }

    /// The command or action that corrects ralph's entries there.
    pub(super) fn remedy(&self) -> String {
        match (self, self.scope()) {
            (_, Some(InstallScope::User)) => "`ralph init --scope user`".to_string(),
            (_, Some(InstallScope::Project)) => "`ralph init --scope project`".to_string(),
            (_, Some(InstallScope::Local)) => "`ralph init`".to_string(),
            (Self::Plugin { .. }, None) => "`ralph init --plugin`".to_string(),
            (Self::Layer { path, .. }, None) => {
                format!("ask the administrator to correct `{}`", path.display())
            }
        }
    }
}

/// Every hook that the client loads: settings from lowest to highest precedence, then plugins.
pub(super) fn read_registered_hooks(
    env: &Env,
    host: &HostProfile,
    layers: &[SettingsLayer],
) -> Vec<RegisteredHook> {
    let is_managed_only = layers.iter().any(|layer| match &layer.state {
        SettingsLayerState::Read(settings) => {
            layer.kind == SettingsLayerKind::Managed && settings.allow_managed_hooks_only
        }
        SettingsLayerState::Missing | SettingsLayerState::Broken(_) => false,
    });
    let mut found = Vec::new();
    for layer in layers {
        let SettingsLayerState::Read(settings) = &layer.state else { continue };
        if settings.ignored.is_some()
            || (is_managed_only && layer.kind != SettingsLayerKind::Managed)
        {
            continue;
        }
        let from = HookSource::Layer { kind: layer.kind, path: layer.path.clone() };
        found.extend(settings.hooks.iter().map(|hook| classify_hook(env, &from, hook)));
    }
    if !is_managed_only {
        for plugin in plugins::enabled_plugins(env, host, layers) {
            let from = HookSource::Plugin { name: plugin.name, root: plugin.root };
            found.extend(plugin.hooks.iter().map(|hook| classify_hook(env, &from, hook)));
        }
    }
    found
}

fn classify_hook(env: &Env, from: &HookSource, hook: &HookSetting) -> RegisteredHook {
    let whose = if is_ralph_hook(&hook.command, hook.args.as_deref()) {
        HookOwner::Ralph
    } else if hook.kind == "command" && hook_command::is_ralph_wrapper(env, from, hook) {
        HookOwner::Wrapper
    } else if is_native_judge(Some(&hook.kind), hook.prompt.as_deref()) {
        HookOwner::NativeJudge
    } else {
        HookOwner::OtherTool
    };
    RegisteredHook { from: from.clone(), hook: hook.clone(), owner: whose }
}

/// The file that disables all hooks, if any. The layer with the highest precedence decides.
pub(super) fn find_disabling_file(layers: &[SettingsLayer]) -> Option<PathBuf> {
    let setting = layers.iter().rev().find_map(|layer| match &layer.state {
        SettingsLayerState::Read(settings) if settings.ignored.is_none() => {
            Some((settings.disable_all_hooks?, &layer.path))
        }
        SettingsLayerState::Read(_)
        | SettingsLayerState::Missing
        | SettingsLayerState::Broken(_) => None,
    });
    setting.filter(|(is_off, _)| *is_off).map(|(_, path)| path.clone())
}

/// The environment variables that settings give to hooks. A layer of higher precedence overrides a variable.
pub(super) fn settings_variables(layers: &[SettingsLayer]) -> Vec<(String, String, PathBuf)> {
    let mut variables: Vec<(String, String, PathBuf)> = Vec::new();
    for layer in layers {
        let SettingsLayerState::Read(settings) = &layer.state else { continue };
        if settings.ignored.is_some() {
            continue;
        }
        for (name, value) in &settings.env {
            variables.retain(|(known, ..)| known != name);
            variables.push((name.clone(), value.clone(), layer.path.clone()));
        }
    }
    variables
}
