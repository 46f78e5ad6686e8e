//! Checks that the client loads its settings, and that nothing in them disables ralph.

use super::loaded_hooks;
use super::{DoctorCheck, DoctorContext};
use crate::install::settings_layers::{SettingsLayer, SettingsLayerKind, SettingsLayerState};
use ralph_core::text;
use ralph_host::HostProfile;
use ralph_host::client_settings::SettingsSchema;

/// Checks every settings file: the client silently ignores a whole file because of one mistake in it.
pub(super) fn check_layers(layers: &[SettingsLayer]) -> Vec<DoctorCheck> {
    const NAME: &str = "settings";
    const MOST: usize = 5;
    let mut checks = Vec::new();
    for layer in layers {
        let path = layer.path.display();
        let kind = layer.kind.name();
        let ignored = |why: &str| {
            let why = text::clean_line(why, 200);
            DoctorCheck::bad(NAME, format!("the client ignores `{path}`: {why}"))
                .fix(format!("correct `{path}`: the client requires plain JSON with correct types"))
        };
        match &layer.state {
            SettingsLayerState::Missing => {}
            SettingsLayerState::Broken(why) => checks.push(ignored(why)),
            SettingsLayerState::Read(settings) => {
                match &settings.ignored {
                    Some(why) => checks.push(ignored(why)),
                    None => {
                        checks.push(DoctorCheck::good(NAME, format!("{kind}: `{path}` is loaded")));
                    }
                }
                let odd = settings.skipped_entries.iter().take(MOST);
                checks.extend(odd.map(|odd| {
                    let odd = text::clean_line(odd, 200);
                    DoctorCheck::unclear(NAME, format!("in `{path}`, {odd}"))
                        .fix(format!("correct it in `{path}`"))
                }));
            }
        }
    }
    if checks.is_empty() {
        checks.push(DoctorCheck::note(NAME, "the client has no settings for this project"));
    }
    checks
}

/// Checks for switches that disable every hook.
pub(super) fn check_switches(host: &HostProfile, layers: &[SettingsLayer]) -> Vec<DoctorCheck> {
    const NAME: &str = "hooks on";
    let SettingsSchema { disable_hooks, managed_hooks_only, .. } = host.settings;
    let mut checks = Vec::new();
    let off = loaded_hooks::find_disabling_file(layers);
    for layer in layers {
        let SettingsLayerState::Read(settings) = &layer.state else { continue };
        let path = layer.path.display();
        if settings.ignored.is_some() {
            continue;
        }
        if settings.disable_all_hooks == Some(true) {
            let what = format!("`{disable_hooks}` in `{path}`");
            checks.push(if off.is_some() {
                DoctorCheck::bad(NAME, format!("{what} disables every hook"))
                    .fix(format!("remove `{disable_hooks}` from `{path}`"))
            } else {
                DoctorCheck::note(
                    NAME,
                    format!("{what} is overridden by settings of higher precedence"),
                )
            });
        }
        if settings.allow_managed_hooks_only && layer.kind == SettingsLayerKind::Managed {
            let what = format!("`{managed_hooks_only}` in `{path}`: your own hooks do not run");
            checks.push(DoctorCheck::bad(NAME, what).fix("ask the administrator of this machine"));
        }
    }
    checks
}

/// Checks for `RALPH_OFF` and `RALPH_HOME` in the settings and in this environment.
pub(super) fn check_variables(
    context: &DoctorContext<'_>,
    layers: &[SettingsLayer],
) -> Vec<DoctorCheck> {
    const NAME: &str = "environment";
    let mut checks = Vec::new();
    for (name, value, path) in loaded_hooks::settings_variables(layers) {
        let path = path.display();
        match name.as_str() {
            "RALPH_OFF" if !value.is_empty() && value != "0" => {
                let what = format!("`RALPH_OFF` in `{path}`: no session is held");
                let fix = format!("remove `RALPH_OFF` from `{path}`");
                checks.push(DoctorCheck::bad(NAME, what).fix(fix));
            }
            "RALPH_HOME" if value != context.home.root().to_string_lossy() => {
                let value = text::clean_line(&value, 200);
                let what =
                    format!("`RALPH_HOME` in `{path}` is `{value}`: hooks look for runs there");
                let fix = format!("`RALPH_HOME={value} ralph doctor`, or remove it from `{path}`");
                checks.push(DoctorCheck::bad(NAME, what).fix(fix));
            }
            _ => {}
        }
    }
    if context.env.is_ralph_off() {
        let what = "`RALPH_OFF` is set here: sessions started from here are not held";
        checks.push(DoctorCheck::bad(NAME, what).fix("`unset RALPH_OFF`"));
    }
    checks
}
