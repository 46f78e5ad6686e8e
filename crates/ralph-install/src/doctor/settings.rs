//! Checks that the client loads its settings, and that nothing in them disables ralph.

use super::registered;
use super::{Check, Scene};
use crate::install::layers::{Layer, LayerKind, State};
use ralph_core::text;

/// Checks every settings file: the client silently ignores a whole file because of one mistake in it.
pub(super) fn layers(layers: &[Layer]) -> Vec<Check> {
    const NAME: &str = "settings";
    const MOST: usize = 5;
    let mut checks = Vec::new();
    for layer in layers {
        let path = layer.path.display();
        let kind = layer.kind.name();
        let ignored = |why: &str| {
            let why = text::line(why, 200);
            Check::bad(NAME, format!("the client ignores `{path}`: {why}"))
                .fix(format!("correct `{path}`: the client requires plain JSON with correct types"))
        };
        match &layer.state {
            State::Missing => {}
            State::Broken(why) => checks.push(ignored(why)),
            State::Read(settings) => {
                match &settings.ignored {
                    Some(why) => checks.push(ignored(why)),
                    None => checks.push(Check::good(NAME, format!("{kind}: `{path}` is loaded"))),
                }
                let odd = settings.odd.iter().take(MOST);
                checks.extend(odd.map(|odd| {
                    let odd = text::line(odd, 200);
                    Check::unclear(NAME, format!("in `{path}`, {odd}"))
                        .fix(format!("correct it in `{path}`"))
                }));
            }
        }
    }
    if checks.is_empty() {
        checks.push(Check::note(NAME, "the client has no settings for this project"));
    }
    checks
}

/// Checks for switches that disable every hook.
pub(super) fn switches(layers: &[Layer]) -> Vec<Check> {
    const NAME: &str = "hooks on";
    let mut checks = Vec::new();
    let off = registered::off(layers);
    for layer in layers {
        let State::Read(settings) = &layer.state else { continue };
        let path = layer.path.display();
        if settings.ignored.is_some() {
            continue;
        }
        if settings.disable_all_hooks == Some(true) {
            let what = format!("`disableAllHooks` in `{path}`");
            checks.push(if off.is_some() {
                Check::bad(NAME, format!("{what} disables every hook"))
                    .fix(format!("remove `disableAllHooks` from `{path}`"))
            } else {
                Check::note(NAME, format!("{what} is overridden by settings of higher precedence"))
            });
        }
        if settings.allow_managed_hooks_only && layer.kind == LayerKind::Managed {
            let what = format!("`allowManagedHooksOnly` in `{path}`: your own hooks do not run");
            checks.push(Check::bad(NAME, what).fix("ask the administrator of this machine"));
        }
    }
    checks
}

/// Checks for `RALPH_OFF` and `RALPH_HOME` in the settings and in this environment.
pub(super) fn variables(scene: &Scene<'_>, layers: &[Layer]) -> Vec<Check> {
    const NAME: &str = "environment";
    let mut checks = Vec::new();
    for (name, value, path) in registered::variables(layers) {
        let path = path.display();
        match name.as_str() {
            "RALPH_OFF" if !value.is_empty() && value != "0" => {
                let what = format!("`RALPH_OFF` in `{path}`: no session is held");
                let fix = format!("remove `RALPH_OFF` from `{path}`");
                checks.push(Check::bad(NAME, what).fix(fix));
            }
            "RALPH_HOME" if value != scene.home.root().to_string_lossy() => {
                let value = text::line(&value, 200);
                let what =
                    format!("`RALPH_HOME` in `{path}` is `{value}`: hooks look for runs there");
                let fix = format!("`RALPH_HOME={value} ralph doctor`, or remove it from `{path}`");
                checks.push(Check::bad(NAME, what).fix(fix));
            }
            _ => {}
        }
    }
    if scene.env.is_off() {
        let what = "`RALPH_OFF` is set here: sessions started from here are not held";
        checks.push(Check::bad(NAME, what).fix("`unset RALPH_OFF`"));
    }
    checks
}
