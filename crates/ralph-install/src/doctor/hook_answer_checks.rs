//! Checks that ralph's hook commands answer correctly, by running each of them as the client would.

use super::hook_registration_checks::describe_hook;
use super::hook_trial::{HookTrial, TrialAnswer};
use super::loaded_hooks::{self, HookOwner, HookSource, RegisteredHook};
use super::{DoctorCheck, DoctorContext, SafeRepair, consent, hook_program_checks};
use crate::install::settings_layers::SettingsLayer;
use ralph_host::client_settings::HookMode;

/// Runs each of ralph's hook commands as the client would.
pub(super) fn try_hooks(
    context: &DoctorContext<'_>,
    layers: &[SettingsLayer],
    all: &[RegisteredHook],
) -> Vec<DoctorCheck> {
    let mut variables = loaded_hooks::settings_variables(layers);
    variables.retain(|(_, _, file)| consent::may_set_variables(context, file));
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
        if !consent::may_run(context, first) {
            let what = format!(
                "not tried: {}; the client does not trust this project",
                describe_hook(first)
            );
            let program = context.host.program;
            let fix = format!("review it, then start `{program}` here and trust the folder");
            checks.push(DoctorCheck::unclear(hook_label(first), what).fix(fix));
        } else if let Some(trial) = HookTrial::prepare(context, &variables) {
            checks.extend(try_group(&trial, group));
            checks.extend(hook_program_checks::check_program_path(context, first));
        } else {
            let what = format!("cannot set up a trial in `{}`", context.scratch.display());
            let fix = "make the directory writable, then run `ralph doctor` again";
            checks.push(DoctorCheck::unclear(hook_label(first), what).fix(fix));
        }
    }
    checks
}

/// The name of the checks of a command. Several commands can call ralph, and usually they differ in this.
fn hook_label(hook: &RegisteredHook) -> &'static str {
    match (&hook.from, hook.owner) {
        (HookSource::Plugin { .. }, _) => "plugin hook",
        (HookSource::Layer { .. }, HookOwner::Wrapper) => "wrapper",
        (
            HookSource::Layer { .. },
            HookOwner::Ralph | HookOwner::NativeJudge | HookOwner::OtherTool,
        ) => "hook",
    }
}

fn try_group(trial: &HookTrial<'_>, group: &[&RegisteredHook]) -> Vec<DoctorCheck> {
    let Some(first) = group.first() else { return Vec::new() };
    let name = hook_label(first);
    let place = describe_hook(first);
    let remedy = |check: DoctorCheck| match first.owner {
        HookOwner::Ralph => {
            check.fix(first.from.remedy()).repair(first.from.scope().map(SafeRepair::Settings))
        }
        HookOwner::Wrapper | HookOwner::NativeJudge | HookOwner::OtherTool => match first.from {
            // The plugin's hook looks for the program in ralph's home, which `ralph init --plugin` links.
            HookSource::Plugin { .. } => check.fix(first.from.remedy()),
            HookSource::Layer { .. } => {
                let place = first.from.describe();
                check.fix(format!("remove it from the {place}, then {}", first.from.remedy()))
            }
        },
    };
    let wrong = wrong_idle_answers(trial, group);
    if !wrong.is_empty() {
        let problems = wrong.into_iter().filter_map(|(answer, events)| {
            let events = if events.len() == group.len() && events.len() > 1 {
                format!("all {} events", events.len())
            } else {
                events.join(", ")
            };
            describe_wrong_answer(&answer, &format!("{place} ({events})"))
        });
        return problems.map(|what| remedy(DoctorCheck::bad(name, what))).collect();
    }
    let events = match group.len() {
        1 => "1 event".to_string(),
        count => format!("{count} events"),
    };
    let mut checks = vec![DoctorCheck::good(name, format!("fired: {place}, {events}"))];
    let stop = group
        .iter()
        .find(|one| one.hook.event == trial.session_stop() && one.hook.mode == HookMode::Waits);
    checks.extend(stop.map(|stop| match trial.try_held(stop) {
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
    trial: &HookTrial<'_>,
    group: &[&'a RegisteredHook],
) -> Vec<(TrialAnswer, Vec<&'a str>)> {
    let mut wrong: Vec<(TrialAnswer, Vec<&str>)> = Vec::new();
    for one in group {
        let answer = trial.try_idle(one);
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
