//! Whether the client takes notice of its settings, and what in them keeps ralph from working.

use super::registered;
use super::{Check, Scene};
use crate::install::layers::{Layer, LayerKind, State};
use ralph_core::text;

/// The client leaves out a whole file for one mistake in it, without a word.
pub(super) fn layers(layers: &[Layer]) -> Vec<Check> {
    const NAME: &str = "settings";
    const MOST: usize = 5;
    let mut checks = Vec::new();
    for layer in layers {
        let path = layer.path.display();
        let kind = layer.kind.name();
        let ignored = |why: &str| {
            let why = text::line(why, 200);
            Check::bad(NAME, format!("the client loads nothing of `{path}`: {why}"))
                .fix(format!("correct `{path}`: the client wants plain JSON, and every type right"))
        };
        match &layer.state {
            State::Missing => {}
            State::Broken(why) => checks.push(ignored(why)),
            State::Read(settings) => {
                match &settings.ignored {
                    Some(why) => checks.push(ignored(why)),
                    None => checks.push(Check::good(NAME, format!("{kind}: `{path}` is read"))),
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

/// What keeps every hook from running.
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
                Check::bad(NAME, format!("{what} keeps every hook from running"))
                    .fix(format!("take `disableAllHooks` out of `{path}`"))
            } else {
                Check::note(NAME, format!("{what} is overruled by stronger settings"))
            });
        }
        if settings.allow_managed_hooks_only && layer.kind == LayerKind::Managed {
            let what = format!("`allowManagedHooksOnly` in `{path}`: no hook of yours runs");
            checks.push(Check::bad(NAME, what).fix("ask whoever manages this machine"));
        }
    }
    checks
}

/// What the settings, or this shell, tell ralph.
pub(super) fn variables(scene: &Scene<'_>, layers: &[Layer]) -> Vec<Check> {
    const NAME: &str = "environment";
    let mut checks = Vec::new();
    for (name, value, path) in registered::variables(layers) {
        let path = path.display();
        match name.as_str() {
            "RALPH_OFF" if !value.is_empty() && value != "0" => {
                let what = format!("`RALPH_OFF` in `{path}`: nobody is held");
                let fix = format!("take `RALPH_OFF` out of `{path}`");
                checks.push(Check::bad(NAME, what).fix(fix));
            }
            "RALPH_HOME" if value != scene.home.root().to_string_lossy() => {
                let value = text::line(&value, 200);
                let what =
                    format!("`RALPH_HOME` in `{path}` is `{value}`: hooks look for runs there");
                let fix = format!("`RALPH_HOME={value} ralph doctor`, or take it out of `{path}`");
                checks.push(Check::bad(NAME, what).fix(fix));
            }
            _ => {}
        }
    }
    if scene.env.is_off() {
        let what = "`RALPH_OFF` is set here: a client started from here holds nobody";
        checks.push(Check::bad(NAME, what).fix("`unset RALPH_OFF`"));
    }
    checks
}
