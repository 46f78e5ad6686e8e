//! The hooks that the client would run, and whether they are ralph's.

use std::path::PathBuf;

use super::{command, plugins};
use crate::install::command::is_hook_of_ours;
use crate::install::layers::{Hook, Layer, LayerKind, State};
use crate::install::plan::Scope;
use ralph_sys::env::Env;

/// One hook, where it is registered, and whose it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Registered {
    pub(super) from: From,
    pub(super) hook: Hook,
    pub(super) whose: Whose,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum From {
    Layer { kind: LayerKind, path: PathBuf },
    Plugin { name: String, root: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    /// A command that is not ralph, but calls it.
    Wrapped,
    Others,
}

impl Registered {
    pub(super) fn is_ours(&self) -> bool {
        match self.whose {
            Whose::Ours | Whose::Wrapped => true,
            Whose::Others => false,
        }
    }

    /// The command line as registered.
    pub(super) fn said(&self) -> String {
        let args = self.hook.args.iter().flatten();
        let words: Vec<_> = std::iter::once(&self.hook.command).chain(args).cloned().collect();
        ralph_core::text::line(&words.join(" "), 300)
    }
}

impl From {
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Layer { kind, .. } => format!("{} settings", kind.name()),
            Self::Plugin { name, .. } => {
                format!("plugin `{}`", ralph_core::text::line(name, 100))
            }
        }
    }

    /// The scope with which `ralph init` writes there; `None` if it cannot.
    pub(super) fn scope(&self) -> Option<Scope> {
        match self {
            Self::Layer { kind: LayerKind::User, .. } => Some(Scope::User),
            Self::Layer { kind: LayerKind::Project, .. } => Some(Scope::Project),
            Self::Layer { kind: LayerKind::Local, .. } => Some(Scope::Local),
            Self::Layer { kind: LayerKind::Managed, .. } | Self::Plugin { .. } => None,
        }
    }

    /// The command or action that corrects ralph's entries there.
    pub(super) fn remedy(&self) -> String {
        match (self, self.scope()) {
            (_, Some(Scope::User)) => "`ralph init --scope user`".to_string(),
            (_, Some(Scope::Project)) => "`ralph init --scope project`".to_string(),
            (_, Some(Scope::Local)) => "`ralph init`".to_string(),
            (Self::Plugin { .. }, None) => "`ralph init --plugin`".to_string(),
            (Self::Layer { path, .. }, None) => {
                format!("ask the administrator to correct `{}`", path.display())
            }
        }
    }
}

/// Every hook that the client loads: settings from lowest to highest precedence, then plugins.
pub(super) fn read(env: &Env, layers: &[Layer]) -> Vec<Registered> {
    let is_managed_only = layers.iter().any(|layer| match &layer.state {
        State::Read(settings) => {
            layer.kind == LayerKind::Managed && settings.allow_managed_hooks_only
        }
        State::Missing | State::Broken(_) => false,
    });
    let mut found = Vec::new();
    for layer in layers {
        let State::Read(settings) = &layer.state else { continue };
        if settings.ignored.is_some() || (is_managed_only && layer.kind != LayerKind::Managed) {
            continue;
        }
        let from = From::Layer { kind: layer.kind, path: layer.path.clone() };
        found.extend(settings.hooks.iter().map(|hook| registered(env, &from, hook)));
    }
    if !is_managed_only {
        for plugin in plugins::enabled(env, layers) {
            let from = From::Plugin { name: plugin.name, root: plugin.root };
            found.extend(plugin.hooks.iter().map(|hook| registered(env, &from, hook)));
        }
    }
    found
}

fn registered(env: &Env, from: &From, hook: &Hook) -> Registered {
    let whose = if is_hook_of_ours(&hook.command, hook.args.as_deref()) {
        Whose::Ours
    } else if hook.kind == "command" && command::calls_ours(env, from, hook) {
        Whose::Wrapped
    } else {
        Whose::Others
    };
    Registered { from: from.clone(), hook: hook.clone(), whose }
}

/// The file that disables all hooks, if any. The layer with the highest precedence decides.
pub(super) fn off(layers: &[Layer]) -> Option<PathBuf> {
    let setting = layers.iter().rev().find_map(|layer| match &layer.state {
        State::Read(settings) if settings.ignored.is_none() => {
            Some((settings.disable_all_hooks?, &layer.path))
        }
        State::Read(_) | State::Missing | State::Broken(_) => None,
    });
    setting.filter(|(is_off, _)| *is_off).map(|(_, path)| path.clone())
}

/// The environment variables that settings give to hooks. A layer of higher precedence overrides a variable.
pub(super) fn variables(layers: &[Layer]) -> Vec<(String, String, PathBuf)> {
    let mut variables: Vec<(String, String, PathBuf)> = Vec::new();
    for layer in layers {
        let State::Read(settings) = &layer.state else { continue };
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
