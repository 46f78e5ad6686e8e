//! Checks that ralph's hooks are registered exactly once and answer correctly.

use std::collections::BTreeMap;
use std::path::Path;

use super::fire::{self, Answer, Rehearsal};
use super::registered::{self, From, Registered, Whose};
use super::{Check, Repair, Scene, command, consent};
use crate::install::command::{Doubt, doubt};
use crate::install::layers::{Layer, Mode, State};
use ralph_core::text;
use ralph_sys::fs;

/// Every event, and the consequence if it is not registered.
const EVENTS: [(&str, &str); 13] = [
    ("Stop", "no session is held"),
    ("SubagentStop", "subagents are not checked when they stop"),
    ("TaskCompleted", "completed tasks are not checked"),
    ("TeammateIdle", "idle teammates are not checked"),
    ("TaskCreated", "new tasks are not noticed"),
    ("StopFailure", "API errors look like silence"),
    ("SessionStart", "a resumed or cleared session loses its run"),
    ("SessionEnd", "an ended session looks alive for a while"),
    ("UserPromptSubmit", "typed prompts do not reach ralph"),
    ("UserPromptExpansion", "`/ralph:` commands do not reach ralph"),
    ("PreToolUse", "ralph's files are not guarded against the agent"),
    ("PreCompact", "nothing is saved before the conversation is compacted"),
    ("PostCompact", "the agent forgets its goal after a compaction"),
];
/// The events that even a minimal installation registers.
pub(super) const LEAST: [&str; 6] = [
    "Stop",
    "SubagentStop",
    "StopFailure",
    "SessionStart",
    "UserPromptSubmit",
    "UserPromptExpansion",
];

/// Checks which events reach ralph.
pub(super) fn registration(layers: &[Layer], all: &[Registered]) -> Vec<Check> {
    const NAME: &str = "registered";
    let ours: Vec<_> = all.iter().filter(|one| one.is_ours()).collect();
    let waited = |event: &str| {
        ours.iter().any(|one| one.hook.event == event && one.hook.mode == Mode::Waits)
    };
    let Some(first) = ours.first() else {
        let what = "no settings file or plugin calls ralph, so no session is held";
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
        let what = format!("`Stop` is missing from the {place}, so no session is held");
        return vec![Check::bad(NAME, what).fix(first.from.remedy()).repair(repair)];
    }
    let missing: Vec<_> = EVENTS.iter().filter(|(event, _)| !waited(event)).collect();
    let count = EVENTS.len() - missing.len();
    let mut places: Vec<_> = ours.iter().map(|one| one.from.in_words()).collect();
    places.dedup();
    let mut checks =
        vec![Check::good(NAME, format!("{count} of 13 events, in the {}", places.join(", ")))];
    // With a minimal installation, the other events are not missing.
    let is_whole = ours.iter().all(|one| LEAST.contains(&one.hook.event.as_str()));
    for (event, lost) in missing {
        let check = Check::note(NAME, format!("`{event}` is not registered: {lost}"));
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

/// Checks that only one hook of ralph answers each event.
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
            format!("`ralph uninstall --scope {}` removes one of them", kind.name())
        }
        (From::Plugin { name, .. }, From::Plugin { .. }) => {
            format!("`claude plugin disable {name}` removes one of them")
        }
    };
    Check::bad(name, format!("two ralph hooks answer {events}: {both}")).fix(fix)
}

/// Lists hooks of other tools that may also block a stop.
pub(super) fn of_others(all: &[Registered]) -> Vec<Check> {
    const MOST: usize = 5;
    let theirs = all.iter().filter(|one| {
        one.whose == Whose::Others && one.hook.event == "Stop" && one.hook.mode == Mode::Waits
    });
    let describe = |one: &Registered| {
        let what = match one.hook.kind.as_str() {
            "command" => format!("`{}`", one.said()),
            kind => format!("a hook of type `{}`", text::line(kind, 40)),
        };
        let place = one.from.in_words();
        Check::note("others", format!("{what} in the {place} also answers stops, independently"))
    };
    theirs.take(MOST).map(describe).collect()
}

/// Runs each of ralph's hook commands as the client would.
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
                format!("not tried: {}; the client does not trust this project", place(first));
            let fix = "review it, then start `claude` here and trust the folder";
            checks.push(Check::unclear("hook", what).fix(fix));
        } else if let Some(rehearsal) = Rehearsal::prepare(scene, &variables) {
            checks.extend(try_group(&rehearsal, group));
            checks.extend(path(scene, first));
        } else {
            let what = format!("cannot set up a trial in `{}`", scene.scratch.display());
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
            // The plugin's hook looks for the program in ralph's home, which `ralph init --plugin` links.
            From::Plugin { .. } => check.fix(first.from.remedy()),
            From::Layer { .. } => {
                let place = first.from.in_words();
                check.fix(format!("remove it from the {place}, then {}", first.from.remedy()))
            }
        },
    };
    let wrong = idle(rehearsal, group);
    if !wrong.is_empty() {
        let problems = wrong.into_iter().filter_map(|(answer, events)| {
            let events = if events.len() == group.len() && events.len() > 1 {
                format!("all {} events", events.len())
            } else {
                events.join(", ")
            };
            told(&answer, &format!("{place} ({events})"))
        });
        return problems.map(|what| remedy(Check::bad(NAME, what))).collect();
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
            None => Check::good("holds", "it holds an unfinished run"),
        },
        None => Check::unclear("holds", "could not create a run to try it with"),
    }));
    checks
}

/// Wrong answers to events of a session that no run holds, with the events that caused them.
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
        // Every other event would time out as well.
        if is_late {
            break;
        }
    }
    wrong
}

/// Describes a wrong answer; `None` if the answer is correct.
fn told(answer: &Answer, place: &str) -> Option<String> {
    match answer {
        Answer::Fired => None,
        Answer::NotFired(why) => Some(format!("not fired: {place}: {why}")),
        Answer::Late => Some(format!("not fired: {place}: it did not answer before its timeout")),
        Answer::WrongShape(why) => Some(format!("wrong shape: {place}: {why}")),
    }
}

/// Checks that the path of the command is likely to stay valid.
fn path(scene: &Scene<'_>, one: &Registered) -> Vec<Check> {
    const NAME: &str = "path";
    if one.whose != Whose::Ours {
        let what = format!("`{}` calls ralph through a wrapper", one.said());
        return vec![Check::note(NAME, what)];
    }
    let Some(program) = command::program(scene.env, &one.from, &one.hook) else {
        return Vec::new();
    };
    let shown = program.display();
    if !program.is_absolute() {
        let what = format!("`{shown}` is not an absolute path, so another program may run");
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
        let what = format!("`{shown}` may disappear: {}", why.in_words());
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
        Some(reported) if reported == ours => Check::good(NAME, format!("`{shown}` is {reported}")),
        Some(reported) => {
            let what = format!("`{shown}` is {reported}, but this is {ours}");
            Check::bad(NAME, what).fix(format!("{} registers this one", one.from.remedy()))
        }
        None => Check::unclear(NAME, format!("`{shown}` did not report a version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::command::Program;
    use crate::install::registration::{Choice, Extent, Warming, entries};

    #[test]
    fn every_registered_event_is_checked() {
        let program = Program::at(Path::new("/bin/ralph")).unwrap();
        let events = |extent| {
            let choice = Choice { extent, warming: Warming::Off, gates_ms: 0 };
            entries(&program, choice).into_iter().map(|entry| entry.event).collect::<Vec<_>>()
        };
        assert_eq!(events(Extent::Full), EVENTS.map(|(event, _)| event));
        assert_eq!(events(Extent::Minimal), LEAST);
    }
}
