//! Checks that ralph's hooks are registered exactly once and answer correctly.

use std::collections::BTreeMap;
use std::path::Path;

use super::hook_trial::{self, HookTrial, TrialAnswer};
use super::loaded_hooks::{self, HookOwner, HookSource, RegisteredHook};
use super::{DoctorCheck, DoctorContext, SafeRepair, consent, hook_command};
use crate::install::program_path::{PathDoubt, doubt_path};
use crate::install::settings_layers::{SettingsLayer, SettingsLayerState};
use ralph_core::text;
use ralph_home::host_env;
use ralph_host::HostProfile;
use ralph_host::client_settings::HookMode;
use ralph_host::hook_profile::HookRegistration;
use ralph_sys::fs;

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
    groups
        .values()
        .map(|(one, other, events)| duplicate_check(host, (one, other), events))
        .collect()
}

fn describe_hook(one: &RegisteredHook) -> String {
    format!("`{}` in the {}", one.command_line(), one.from.describe())
}

fn duplicate_check(
    host: &HostProfile,
    (one, other): (&RegisteredHook, &RegisteredHook),
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

/// Runs each of ralph's hook commands as the client would.
pub(super) fn try_hooks(
    scene: &DoctorContext<'_>,
    layers: &[SettingsLayer],
    all: &[RegisteredHook],
) -> Vec<DoctorCheck> {
    let mut variables = loaded_hooks::settings_variables(layers);
    variables.retain(|(_, _, file)| consent::may_set_variables(scene, file));
    let mut groups: Vec<Vec<&RegisteredHook>> = Vec::new();
    for one in all.iter().filter(|one| one.calls_ralph()) {
        let same = |group: &&mut Vec<&RegisteredHook>| {
            group.first().is_some_and(|first| {
                (&first.from, &first.hook.command, &first.hook.args)
                    == (&one.from, &one.hook.command, &one.hook.args)
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let mut checks = Vec::new();
    for group in &groups {
        let Some(first) = group.first() else { continue };
        if !consent::may_run(scene, first) {
            let what = format!(
                "not tried: {}; the client does not trust this project",
                describe_hook(first)
            );
            let program = scene.host.program;
            let fix = format!("review it, then start `{program}` here and trust the folder");
            checks.push(DoctorCheck::unclear("hook", what).fix(fix));
        } else if let Some(rehearsal) = HookTrial::prepare(scene, &variables) {
            checks.extend(try_group(&rehearsal, group));
            checks.extend(check_program_path(scene, first));
        } else {
            let what = format!("cannot set up a trial in `{}`", scene.scratch.display());
            checks.push(DoctorCheck::unclear("hook", what));
        }
    }
    checks
}

fn try_group(rehearsal: &HookTrial<'_>, group: &[&RegisteredHook]) -> Vec<DoctorCheck> {
    const NAME: &str = "hook";
    let Some(first) = group.first() else { return Vec::new() };
    let place = describe_hook(first);
    let remedy = |check: DoctorCheck| match first.owner {
        HookOwner::Ralph => {
            check.fix(first.from.remedy()).repair(first.from.scope().map(SafeRepair::Settings))
        }
        HookOwner::Wrapper | HookOwner::OtherTool => match first.from {
            // The plugin's hook looks for the program in ralph's home, which `ralph init --plugin` links.
            HookSource::Plugin { .. } => check.fix(first.from.remedy()),
            HookSource::Layer { .. } => {
                let place = first.from.describe();
                check.fix(format!("remove it from the {place}, then {}", first.from.remedy()))
            }
        },
    };
    let wrong = wrong_idle_answers(rehearsal, group);
    if !wrong.is_empty() {
        let problems = wrong.into_iter().filter_map(|(answer, events)| {
            let events = if events.len() == group.len() && events.len() > 1 {
                format!("all {} events", events.len())
            } else {
                events.join(", ")
            };
            describe_wrong_answer(&answer, &format!("{place} ({events})"))
        });
        return problems.map(|what| remedy(DoctorCheck::bad(NAME, what))).collect();
    }
    let events = match group.len() {
        1 => "1 event".to_string(),
        count => format!("{count} events"),
    };
    let mut checks = vec![DoctorCheck::good(NAME, format!("fired: {place}, {events}"))];
    let stop = group
        .iter()
        .find(|one| one.hook.event == rehearsal.session_stop() && one.hook.mode == HookMode::Waits);
    checks.extend(stop.map(|stop| match rehearsal.try_held(stop) {
        Some(answer) => {
            match describe_wrong_answer(&answer, &format!("{place} at a stop of a run")) {
                Some(what) => remedy(DoctorCheck::bad("holds", what)),
                None => DoctorCheck::good("holds", "it holds an unfinished run"),
            }
        }
        None => DoctorCheck::unclear("holds", "could not create a run to try it with"),
    }));
    checks
}

/// Wrong answers to events of a session that no run holds, with the events that caused them.
fn wrong_idle_answers<'a>(
    rehearsal: &HookTrial<'_>,
    group: &[&'a RegisteredHook],
) -> Vec<(TrialAnswer, Vec<&'a str>)> {
    let mut wrong: Vec<(TrialAnswer, Vec<&str>)> = Vec::new();
    for one in group {
        let answer = rehearsal.try_idle(one);
        let is_late = answer == TrialAnswer::Late;
        let known = wrong.iter_mut().find(|(known, _)| *known == answer);
        match (answer, known) {
            (TrialAnswer::Fired, _) => {}
            (_, Some((_, events))) => events.push(&one.hook.event),
            (answer, None) => wrong.push((answer, vec![&one.hook.event])),
        }
        // Every other event would time out as well.
        if is_late {
            break;
        }
    }
    wrong
}

/// Describes a wrong answer; `None` if the answer is correct.
fn describe_wrong_answer(answer: &TrialAnswer, place: &str) -> Option<String> {
    match answer {
        TrialAnswer::Fired => None,
        TrialAnswer::NotFired(why) => Some(format!("not fired: {place}: {why}")),
        TrialAnswer::Late => {
            Some(format!("not fired: {place}: it did not answer before its timeout"))
        }
        TrialAnswer::WrongShape(why) => Some(format!("wrong shape: {place}: {why}")),
    }
}

/// Checks that the path of the command is likely to stay valid.
fn check_program_path(scene: &DoctorContext<'_>, one: &RegisteredHook) -> Vec<DoctorCheck> {
    const NAME: &str = "path";
    if one.owner != HookOwner::Ralph {
        let what = format!("`{}` calls ralph through a wrapper", one.command_line());
        return vec![DoctorCheck::note(NAME, what)];
    }
    let Some(program) = hook_command::called_program(scene.env, &one.from, &one.hook) else {
        return Vec::new();
    };
    let shown = program.display();
    if !program.is_absolute() {
        let what = format!("`{shown}` is not an absolute path, so another program may run");
        let repair = one.from.scope().map(SafeRepair::Settings);
        return vec![DoctorCheck::bad(NAME, what).fix(one.from.remedy()).repair(repair)];
    }
    if !fs::exists(&program) {
        return Vec::new();
    }
    let mut checks = Vec::new();
    let host = scene.host;
    let plugins = host_env::host_config_dir(scene.env, host)
        .map(|directory| directory.join(host.plugins.directory));
    let is_plugin = plugins.is_some_and(|plugins| program.starts_with(plugins));
    let why =
        if is_plugin { Some(PathDoubt::PluginDirectory) } else { doubt_path(scene.env, &program) };
    if let Some(why) = why {
        let what = format!("`{shown}` may disappear: {}", why.describe());
        let check = match why {
            PathDoubt::BuildDirectory | PathDoubt::PluginDirectory => DoctorCheck::bad(NAME, what),
            PathDoubt::TemporaryDirectory => DoctorCheck::note(NAME, what),
        };
        checks.push(check.fix("install ralph, then `ralph init`"));
    }
    checks.push(check_program_version(scene, &program, one));
    checks
}

fn check_program_version(
    scene: &DoctorContext<'_>,
    program: &Path,
    one: &RegisteredHook,
) -> DoctorCheck {
    const NAME: &str = "version";
    let ours = format!("ralph {}", scene.version);
    let shown = program.display();
    match hook_trial::program_version(scene, program) {
        Some(reported) if reported == ours => {
            DoctorCheck::good(NAME, format!("`{shown}` is {reported}"))
        }
        Some(reported) => {
            let what = format!("`{shown}` is {reported}, but this is {ours}");
            DoctorCheck::bad(NAME, what).fix(format!("{} registers this one", one.from.remedy()))
        }
        None => DoctorCheck::unclear(NAME, format!("`{shown}` did not report a version")),
    }
}
