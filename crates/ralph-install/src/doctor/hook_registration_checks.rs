//! Checks that the host's settings register ralph's hooks, each exactly once.

use std::collections::BTreeMap;

use super::loaded_hooks::{HookOwner, HookSource, RegisteredHook};
use super::{DoctorCheck, SafeRepair};
use crate::install::install_plan::InstallScope;
use crate::install::settings_layers::{SettingsLayer, SettingsLayerState};
use ralph_core::text;
use ralph_host::HostProfile;
use ralph_host::client_settings::HookMode;
use ralph_host::hook_profile::HookRegistration;

/// Whether even a minimal installation registers this event.
pub(super) fn is_essential_event(host: &HostProfile, event: &str) -> bool {
    host.hooks.events.iter().any(|row| row.event == event && row.is_essential)
}

/// Checks which events reach ralph.
pub(super) fn check_registration(
    host: &HostProfile,
    layers: &[SettingsLayer],
    all: &[RegisteredHook],
) -> Vec<DoctorCheck> {
    const NAME: &str = "registered";
    let ours: Vec<_> = all.iter().filter(|one| one.calls_ralph()).collect();
    let waited = |event: &str| {
        ours.iter().any(|one| one.hook.event == event && one.hook.mode == HookMode::Waits)
    };
    let Some(first) = ours.first() else {
        let what = "no settings file or plugin calls ralph, so no session is held";
        let fix = if layers.iter().all(is_loaded) {
            "`ralph init`"
        } else {
            "correct the settings that are not loaded, then `ralph init`"
        };
        return vec![DoctorCheck::bad(NAME, what).fix(fix)];
    };
    let repair = first.from.scope().map(SafeRepair::Settings);
    let stop = host.hooks.session_stop();
    if !waited(stop) {
        let place = first.from.describe();
        let what = format!("`{stop}` is missing from the {place}, so no session is held");
        return vec![DoctorCheck::bad(NAME, what).fix(first.from.remedy()).repair(repair)];
    }
    let events = host.hooks.events;
    let missing: Vec<_> = events.iter().filter(|row| !waited(row.event)).collect();
    let count = events.len() - missing.len();
    let mut places: Vec<_> = ours.iter().map(|one| one.from.describe()).collect();
    places.dedup();
    let mut checks = vec![DoctorCheck::good(
        NAME,
        format!("{count} of {} events, in the {}", events.len(), places.join(", ")),
    )];
    // With a minimal installation, the other events are not missing.
    let is_whole = ours.iter().all(|one| is_essential_event(host, &one.hook.event));
    for HookRegistration { event, is_essential, consequence, .. } in missing {
        let check = DoctorCheck::note(NAME, format!("`{event}` is not registered: {consequence}"));
        let is_wanted = *is_essential || !is_whole;
        let check = check.fix(first.from.remedy());
        checks.push(check.repair(repair.filter(|_| is_wanted)));
    }
    checks
}

fn is_loaded(layer: &SettingsLayer) -> bool {
    match &layer.state {
        SettingsLayerState::Missing => true,
        SettingsLayerState::Broken(_) => false,
        SettingsLayerState::Read(settings) => settings.ignored.is_none(),
    }
}

/// Checks that only one hook of ralph answers each event.
pub(super) fn check_duplicates(host: &HostProfile, all: &[RegisteredHook]) -> Vec<DoctorCheck> {
    let mut groups: BTreeMap<(String, String), (&RegisteredHook, &RegisteredHook, Vec<&str>)> =
        BTreeMap::new();
    let ours: Vec<_> = all.iter().filter(|one| one.calls_ralph()).collect();
    for (n, one) in ours.iter().enumerate() {
        let same = |other: &&&RegisteredHook| {
            other.hook.event == one.hook.event && other.hook.matcher == one.hook.matcher
        };
        for other in ours.iter().skip(n + 1).filter(same) {
            let key = (describe_hook(one), describe_hook(other));
            let group = groups.entry(key).or_insert_with(|| (one, other, Vec::new()));
            group.2.push(&one.hook.event);
        }
    }
    groups.values().map(|(one, other, events)| duplicate_check(host, one, other, events)).collect()
}

pub(super) fn describe_hook(one: &RegisteredHook) -> String {
    format!("`{}` in the {}", one.command_line(), one.from.describe())
}

fn duplicate_check(
    host: &HostProfile,
    one: &RegisteredHook,
    other: &RegisteredHook,
    events: &[&str],
) -> DoctorCheck {
    const NAME: &str = "once";
    let events = match events {
        [only] => format!("`{only}`"),
        many => format!("{} events", many.len()),
    };
    let both = format!("{} and {}", describe_hook(one), describe_hook(other));
    if (&one.hook.command, &one.hook.args) == (&other.hook.command, &other.hook.args) {
        return DoctorCheck::note(NAME, format!("registered twice, runs once: {events}, {both}"));
    }
    let fix = match (&one.from, &other.from) {
        (HookSource::Layer { kind, .. }, _) | (_, HookSource::Layer { kind, .. }) => {
            format!("`ralph uninstall --scope {}` removes one of them", kind.name())
        }
        (HookSource::Plugin { name, .. }, HookSource::Plugin { .. }) => {
            let program = host.program;
            format!("`{program} plugin disable {name}` removes one of them")
        }
    };
    DoctorCheck::bad(NAME, format!("two ralph hooks answer {events}: {both}")).fix(fix)
}

/// Reports the client's own judge that `ralph init --native-judge` wrote.
pub(super) fn check_native_judge(host: &HostProfile, all: &[RegisteredHook]) -> Vec<DoctorCheck> {
    const NAME: &str = "judge";
    let judges = all.iter().filter(|one| one.owner == HookOwner::NativeJudge);
    let check = |one: &RegisteredHook| {
        let (kind, place) = (text::clean_line(&one.hook.kind, 40), one.from.describe());
        let off = match one.from.scope() {
            Some(InstallScope::Local) | None => "`ralph init --native-judge=off`".to_string(),
            Some(scope) => {
                format!("`ralph init --scope {} --native-judge=off`", scope.layer().name())
            }
        };
        let stop = host.hooks.session_stop();
        if one.hook.event != stop {
            let event = text::clean_line(&one.hook.event, 60);
            let what = format!("the native judge in the {place} is at `{event}`, not at `{stop}`");
            return DoctorCheck::unclear(NAME, what).fix(format!("{off} removes it"));
        }
        let what = format!(
            "a hook of type `{kind}` in the {place} asks a model at every stop; its answer is never evidence for ralph"
        );
        DoctorCheck::note(NAME, what).fix(format!("{off} removes it"))
    };
    judges.map(check).collect()
}

/// Lists hooks of other tools that may also block a stop.
pub(super) fn list_foreign_hooks(host: &HostProfile, all: &[RegisteredHook]) -> Vec<DoctorCheck> {
    const MOST: usize = 5;
    let theirs = all.iter().filter(|one| {
        one.owner == HookOwner::OtherTool
            && one.hook.event == host.hooks.session_stop()
            && one.hook.mode == HookMode::Waits
    });
    let describe = |one: &RegisteredHook| {
        let what = match one.hook.kind.as_str() {
            "command" => format!("`{}`", one.command_line()),
            kind => format!("a hook of type `{}`", text::clean_line(kind, 40)),
        };
        let place = one.from.describe();
        DoctorCheck::note(
            "others",
            format!("{what} in the {place} also answers stops, independently"),
        )
    };
    theirs.take(MOST).map(describe).collect()
}
