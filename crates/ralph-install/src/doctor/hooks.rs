//! Whether ralph's hooks are registered, once, and answer as the client needs it.

use std::collections::BTreeMap;
use std::path::Path;

use super::fire::{self, Answer, Rehearsal};
use super::registered::{self, From, Registered, Whose};
use super::{Check, Repair, Scene, command, consent};
use crate::install::command::{Doubt, doubt};
use crate::install::layers::{Layer, Mode, State};
use ralph_core::text;
use ralph_sys::fs;

/// What is lost without each event.
const EVENTS: [(&str, &str); 13] = [
    ("Stop", "no session is held"),
    ("SubagentStop", "subagents stop unseen"),
    ("TaskCompleted", "tasks are ticked unseen"),
    ("TeammateIdle", "teammates idle unseen"),
    ("TaskCreated", "tasks are made unseen"),
    ("StopFailure", "trouble of the model looks like silence"),
    ("SessionStart", "a session that is resumed or cleared loses its run"),
    ("SessionEnd", "a session that ended looks alive for a while"),
    ("UserPromptSubmit", "what a person types does not reach ralph"),
    ("UserPromptExpansion", "`/ralph:` commands do not reach ralph"),
    ("PreToolUse", "nothing guards ralph's files from the agent"),
    ("PreCompact", "nothing is saved before the conversation is summed up"),
    ("PostCompact", "the agent forgets its goal when the conversation is summed up"),
];
/// Those that every set-up has.
pub(super) const LEAST: [&str; 6] = [
    "Stop",
    "SubagentStop",
    "StopFailure",
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptExpansion",
];

/// Which events reach ralph.
pub(super) fn registration(layers: &[Layer], all: &[Registered]) -> Vec<Check> {
    const NAME: &str = "registered";
    let ours: Vec<_> = all.iter().filter(|one| one.is_ours()).collect();
    let waited = |event: &str| {
        ours.iter().any(|one| one.hook.event == event && one.hook.mode == Mode::Waits)
    };
    let Some(first) = ours.first() else {
        let what = "no settings and no plugin call ralph: nobody is held";
        let fix = if layers.iter().all(is_loaded) {
            "`ralph init`"
        } else {
            "correct the settings that are not loaded, then `ralph init`"
        };
        return vec![Check::bad(NAME, what).fix(fix)];
    };
    let repair = first.from.scope().map(Repair::Settings);
    if !waited("Stop") {
        let place = first.from.in_words();
        let what = format!("`Stop` is missing in the {place}: nobody is held");
        return vec![Check::bad(NAME, what).fix(first.from.remedy()).repair(repair)];
    }
    let missing: Vec<_> = EVENTS.iter().filter(|(event, _)| !waited(event)).collect();
    let count = EVENTS.len() - missing.len();
    let mut places: Vec<_> = ours.iter().map(|one| one.from.in_words()).collect();
    places.dedup();
    let mut checks =
        vec![Check::good(NAME, format!("{count} of 13 events, in the {}", places.join(", ")))];
    // Whoever wanted only the least has it.
    let is_whole = ours.iter().all(|one| LEAST.contains(&one.hook.event.as_str()));
    for (event, lost) in missing {
        let check = Check::note(NAME, format!("`{event}` is not: {lost}"));
        let is_wanted = LEAST.contains(event) || !is_whole;
        let check = check.fix(first.from.remedy());
        checks.push(check.repair(repair.filter(|_| is_wanted)));
    }
    checks
}

fn is_loaded(layer: &Layer) -> bool {
    match &layer.state {
        State::Missing => true,
        State::Broken(_) => false,
        State::Read(settings) => settings.ignored.is_none(),
    }
}

/// One event, one answer.
pub(super) fn duplicates(all: &[Registered]) -> Vec<Check> {
    const NAME: &str = "once";
    let mut groups: BTreeMap<(String, String), (&Registered, &Registered, Vec<&str>)> =
        BTreeMap::new();
    let ours: Vec<_> = all.iter().filter(|one| one.is_ours()).collect();
    for (n, one) in ours.iter().enumerate() {
        let same = |other: &&&Registered| {
            other.hook.event == one.hook.event && other.hook.matcher == one.hook.matcher
        };
        for other in ours.iter().skip(n + 1).filter(same) {
            let key = (place(one), place(other));
            let group = groups.entry(key).or_insert_with(|| (one, other, Vec::new()));
            group.2.push(&one.hook.event);
        }
    }
    groups.values().map(|(one, other, events)| duplicate(NAME, (one, other), events)).collect()
}

fn place(one: &Registered) -> String {
    format!("`{}` in the {}", one.said(), one.from.in_words())
}

fn duplicate(
    name: &'static str,
    (one, other): (&Registered, &Registered),
    events: &[&str],
) -> Check {
    let events = match events {
        [only] => format!("`{only}`"),
        many => format!("{} events", many.len()),
    };
    let both = format!("{} and {}", place(one), place(other));
    if (&one.hook.command, &one.hook.args) == (&other.hook.command, &other.hook.args) {
        return Check::note(name, format!("registered twice, runs once: {events}, {both}"));
    }
    let fix = match (&one.from, &other.from) {
        (From::Layer { kind, .. }, _) | (_, From::Layer { kind, .. }) => {
            format!("`ralph uninstall --scope {}` leaves the other", kind.name())
        }
        (From::Plugin { name, .. }, From::Plugin { .. }) => {
            format!("`claude plugin disable {name}` leaves the other")
        }
    };
    Check::bad(name, format!("two hooks of ralph answer {events}: {both}")).fix(fix)
}

/// Hooks of other tools that may hold a stop as well.
pub(super) fn of_others(all: &[Registered]) -> Vec<Check> {
    const MOST: usize = 5;
    let theirs = all.iter().filter(|one| {
        one.whose == Whose::Others && one.hook.event == "Stop" && one.hook.mode == Mode::Waits
    });
    let said = |one: &Registered| {
        let what = match one.hook.kind.as_str() {
            "command" => format!("`{}`", one.said()),
            kind => format!("a hook of type `{}`", text::line(kind, 40)),
        };
        let place = one.from.in_words();
        Check::note("others", format!("{what} in the {place} answers stops too, for itself"))
    };
    theirs.take(MOST).map(said).collect()
}

/// Every command of ralph's is run as the client would run it.
pub(super) fn tried(scene: &Scene<'_>, layers: &[Layer], all: &[Registered]) -> Vec<Check> {
    let mut variables = registered::variables(layers);
    variables.retain(|(_, _, file)| consent::may_set(scene, file));
    let mut groups: Vec<Vec<&Registered>> = Vec::new();
    for one in all.iter().filter(|one| one.is_ours()) {
        let same = |group: &&mut Vec<&Registered>| {
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
        if !consent::is_given(scene, first) {
            let what =
                format!("not tried: {}, and the client does not trust this project", place(first));
            let fix = "read it; then start `claude` here and say that you trust the folder";
            checks.push(Check::unclear("hook", what).fix(fix));
        } else if let Some(rehearsal) = Rehearsal::prepare(scene, &variables) {
            checks.extend(try_group(&rehearsal, group));
            checks.extend(path(scene, first));
        } else {
            let what = format!("nothing can be tried in `{}`", scene.scratch.display());
            checks.push(Check::unclear("hook", what));
        }
    }
    checks
}

fn try_group(rehearsal: &Rehearsal<'_>, group: &[&Registered]) -> Vec<Check> {
    const NAME: &str = "hook";
    let Some(first) = group.first() else { return Vec::new() };
    let place = place(first);
    let remedy = |check: Check| match first.whose {
        Whose::Ours => {
            check.fix(first.from.remedy()).repair(first.from.scope().map(Repair::Settings))
        }
        Whose::Wrapped | Whose::Others => match first.from {
            // It looks for the program beside the runs.
            From::Plugin { .. } => check.fix(first.from.remedy()),
            From::Layer { .. } => {
                let place = first.from.in_words();
                check.fix(format!("take it out of the {place}, then {}", first.from.remedy()))
            }
        },
    };
    let wrong = idle(rehearsal, group);
    if !wrong.is_empty() {
        let told = wrong.into_iter().filter_map(|(answer, events)| {
            let events = if events.len() == group.len() && events.len() > 1 {
                format!("all {} events", events.len())
            } else {
                events.join(", ")
            };
            told(&answer, &format!("{place} ({events})"))
        });
        return told.map(|what| remedy(Check::bad(NAME, what))).collect();
    }
    let events = match group.len() {
        1 => "1 event".to_string(),
        count => format!("{count} events"),
    };
    let mut checks = vec![Check::good(NAME, format!("fired: {place}, {events}"))];
    let stop = group.iter().find(|one| one.hook.event == "Stop" && one.hook.mode == Mode::Waits);
    checks.extend(stop.map(|stop| match rehearsal.armed(stop) {
        Some(answer) => match told(&answer, &format!("{place} at a stop of a run")) {
            Some(what) => remedy(Check::bad("holds", what)),
            None => Check::good("holds", "it holds a run that is not done"),
        },
        None => Check::unclear("holds", "no run could be made to try it with"),
    }));
    checks
}

/// How it answers events of a session that nobody holds, where that is wrong.
fn idle<'a>(rehearsal: &Rehearsal<'_>, group: &[&'a Registered]) -> Vec<(Answer, Vec<&'a str>)> {
    let mut wrong: Vec<(Answer, Vec<&str>)> = Vec::new();
    for one in group {
        let answer = rehearsal.idle(one);
        let is_late = answer == Answer::Late;
        let known = wrong.iter_mut().find(|(known, _)| *known == answer);
        match (answer, known) {
            (Answer::Fired, _) => {}
            (_, Some((_, events))) => events.push(&one.hook.event),
            (answer, None) => wrong.push((answer, vec![&one.hook.event])),
        }
        // It would be as late at every other event.
        if is_late {
            break;
        }
    }
    wrong
}

/// In words; `None` when there is nothing wrong.
fn told(answer: &Answer, place: &str) -> Option<String> {
    match answer {
        Answer::Fired => None,
        Answer::NotFired(why) => Some(format!("not fired: {place}: {why}")),
        Answer::Late => {
            Some(format!("not fired: {place}: it had not answered when its time was over"))
        }
        Answer::WrongShape(why) => Some(format!("wrong shape: {place}: {why}")),
    }
}

/// Whether the command will still be right tomorrow.
fn path(scene: &Scene<'_>, one: &Registered) -> Vec<Check> {
    const NAME: &str = "path";
    if one.whose != Whose::Ours {
        let what = format!("`{}` calls ralph by a detour", one.said());
        return vec![Check::note(NAME, what)];
    }
    let Some(program) = command::program(scene.env, &one.from, &one.hook) else {
        return Vec::new();
    };
    let shown = program.display();
    if !program.is_absolute() {
        let what = format!("`{shown}` is not an absolute path: elsewhere it is another program");
        let repair = one.from.scope().map(Repair::Settings);
        return vec![Check::bad(NAME, what).fix(one.from.remedy()).repair(repair)];
    }
    if !fs::exists(&program) {
        return Vec::new();
    }
    let mut checks = Vec::new();
    let plugins = scene.env.claude_config_dir().map(|directory| directory.join("plugins"));
    let is_plugin = plugins.is_some_and(|plugins| program.starts_with(plugins));
    let why = if is_plugin { Some(Doubt::PluginDirectory) } else { doubt(scene.env, &program) };
    if let Some(why) = why {
        let what = format!("`{shown}` may not be there for long: {}", why.in_words());
        let check = match why {
            Doubt::BuildDirectory | Doubt::PluginDirectory => Check::bad(NAME, what),
            Doubt::TemporaryDirectory => Check::note(NAME, what),
        };
        checks.push(check.fix("install ralph, then `ralph init`"));
    }
    checks.push(version(scene, &program, one));
    checks
}

fn version(scene: &Scene<'_>, program: &Path, one: &Registered) -> Check {
    const NAME: &str = "version";
    let ours = format!("ralph {}", scene.version);
    let shown = program.display();
    match fire::version(scene, program) {
        Some(said) if said == ours => Check::good(NAME, format!("`{shown}` is {said}")),
        Some(said) => {
            let what = format!("`{shown}` is {said}, and this is {ours}");
            Check::bad(NAME, what).fix(format!("{} registers this one", one.from.remedy()))
        }
        None => Check::unclear(NAME, format!("`{shown}` does not say its version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::command::Program;
    use crate::install::registration::{Choice, Extent, Warming, entries};

    #[test]
    fn every_event_that_is_registered_is_looked_for() {
        let program = Program::at(Path::new("/bin/ralph")).unwrap();
        let events = |extent| {
            let choice = Choice { extent, warming: Warming::Off, gates_ms: 0 };
            entries(&program, choice).into_iter().map(|entry| entry.event).collect::<Vec<_>>()
        };
        assert_eq!(events(Extent::Full), EVENTS.map(|(event, _)| event));
        assert_eq!(events(Extent::Minimal), LEAST);
    }
}
