//! Detects active runs that no longer receive events of their session. Such a run holds nothing, whatever its state is.

use std::path::{Path, PathBuf};

use super::registered;
use crate::install::layers::{self, Mode};
use ralph_core::limits::duration;
use ralph_core::run::Phase;
use ralph_home::paths::Home;
use ralph_hook::heard;
use ralph_hook::overview::RunView;
use ralph_policy::config;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::owner::{self, Alive};

/// A session that started or sent an event this recently is not reported: it may have sent none yet, or its hooks work.
const GRACE_MS: u64 = 2 * 60 * 1000;
/// A held agent keeps working, and its tool calls are events; longer silence means that the hooks are gone.
const SILENCE_MS: u64 = 30 * 60 * 1000;

/// Why an active run holds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unprotected {
    /// This file disables all hooks.
    Off(PathBuf),
    /// No hook calls ralph at a stop.
    NoHook,
    /// No event has arrived since the run started.
    NeverHeard,
    /// No event for a long time, although the agent was held and its process is alive.
    Silent { since_ms: u64 },
}

impl Unprotected {
    pub fn in_words(&self, now_ms: u64) -> String {
        match self {
            Self::Off(path) => format!("`disableAllHooks` in `{}`", path.display()),
            Self::NoHook => "no settings file or plugin calls ralph at a stop".to_string(),
            Self::NeverHeard => "no event of its session has ever arrived".to_string(),
            Self::Silent { since_ms } => {
                let span = duration(now_ms.saturating_sub(*since_ms));
                format!("silent for {span}, though it was held")
            }
        }
    }

    pub fn remedy(&self) -> String {
        match self {
            Self::Off(path) => format!("remove `disableAllHooks` from `{}`", path.display()),
            Self::NoHook => "`ralph init` in its project".to_string(),
            Self::NeverHeard | Self::Silent { .. } => {
                "`ralph doctor` in its project tests the hooks".to_string()
            }
        }
    }
}

/// The facts about an active run that decide whether it is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    started_ms: u64,
    /// When an event of its session last arrived.
    heard_ms: Option<u64>,
    last: Last,
    owner: Alive,
    hooks: Hooks,
    /// When the settings were last modified.
    changed_ms: u64,
}

/// How the last stop was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Held,
    Otherwise,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hooks {
    Registered,
    Missing,
    Off(PathBuf),
}

fn judge(seen: &Seen, now_ms: u64) -> Option<Unprotected> {
    let since = |ms: u64| now_ms.saturating_sub(ms);
    let last_ms = seen.heard_ms.unwrap_or(seen.started_ms);
    // Hooks may be registered in a place that cannot be inspected; a recent event is the better evidence.
    let is_fresh = since(last_ms) <= GRACE_MS && last_ms >= seen.changed_ms;
    match &seen.hooks {
        Hooks::Off(path) if !is_fresh => return Some(Unprotected::Off(path.clone())),
        Hooks::Missing if !is_fresh => return Some(Unprotected::NoHook),
        Hooks::Off(_) | Hooks::Missing | Hooks::Registered => {}
    }
    match seen.heard_ms {
        None if since(seen.started_ms) > GRACE_MS => Some(Unprotected::NeverHeard),
        Some(since_ms)
            if since(since_ms) > SILENCE_MS
                && seen.last == Last::Held
                && seen.owner == Alive::Yes =>
        {
            Some(Unprotected::Silent { since_ms })
        }
        None | Some(_) => None,
    }
}

/// For each run, why it is unprotected; `None` if it is protected or not active.
pub fn of_runs(env: &Env, home: &Home, views: &[RunView]) -> Vec<Option<Unprotected>> {
    let now_ms = clock::now_ms();
    let mut known: Vec<(&str, Hooks, u64)> = Vec::new();
    let mut found = Vec::new();
    for view in views {
        // API errors are reported separately.
        if view.phase != Phase::Active || view.opened.state.trouble.is_some() {
            found.push(None);
            continue;
        }
        let project = view.opened.run.project.as_str();
        if !known.iter().any(|(one, ..)| *one == project) {
            let (hooks, changed_ms) = hooks(env, Path::new(project));
            known.push((project, hooks, changed_ms));
        }
        let place = known.iter().find(|(one, ..)| *one == project);
        found.push(place.and_then(|(_, hooks, changed_ms)| {
            judge(&seen(home, view, (hooks.clone(), *changed_ms)), now_ms)
        }));
    }
    found
}

fn seen(home: &Home, view: &RunView, (hooks, changed_ms): (Hooks, u64)) -> Seen {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let answered = state.delivery.map(|delivery| delivery.at_ms);
    Seen {
        started_ms: run.started_ms,
        heard_ms: heard::last_ms(home, &run.id).max(answered),
        last: if state.answer.is_some() { Last::Held } else { Last::Otherwise },
        owner: state.process.as_ref().map_or(Alive::Unknown, owner::is_alive),
        hooks,
        changed_ms,
    }
}

/// Whether the settings of a project call ralph at a stop, and when they were last modified.
fn hooks(env: &Env, project: &Path) -> (Hooks, u64) {
    let mut places = vec![project.to_path_buf()];
    // The client may have been started at the root of the repository or in a subdirectory.
    let above = config::find_project(project);
    if above != project {
        places.push(above);
    }
    let mut found = Hooks::Missing;
    let mut changed_ms = 0;
    for place in places {
        let layers = layers::read(env, &place);
        let stats = layers.iter().filter_map(|layer| fs::stat(&layer.path));
        changed_ms = stats.map(|stat| stat.modified_ns / 1_000_000).fold(changed_ms, u64::max);
        if let Some(path) = registered::off(&layers) {
            return (Hooks::Off(path), changed_ms);
        }
        let is_registered = registered::read(env, &layers)
            .iter()
            .any(|one| one.is_ours() && one.hook.event == "Stop" && one.hook.mode == Mode::Waits);
        if is_registered {
            found = Hooks::Registered;
        }
    }
    (found, changed_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-H2a, R-S4d: silence and missing hooks are reported.
    #[test]
    fn a_run_without_events_is_unprotected() {
        const MINUTE: u64 = 60_000;
        let start = 1_000 * MINUTE;
        let off = || Hooks::Off(PathBuf::from("/s"));
        let silent = |since_ms| Some(Unprotected::Silent { since_ms });
        let gone = Some(Unprotected::Off(PathBuf::from("/s")));
        let base = Seen {
            started_ms: start,
            heard_ms: None,
            last: Last::Otherwise,
            owner: Alive::Yes,
            hooks: Hooks::Registered,
            changed_ms: 0,
        };
        let never = Some(Unprotected::NeverHeard);
        let no_hook = Some(Unprotected::NoHook);
        let active = Seen { heard_ms: Some(start + MINUTE), ..base.clone() };
        let held = Seen { last: Last::Held, ..active.clone() };
        let missing = Seen { hooks: Hooks::Missing, ..active.clone() };
        for (what, seen, minutes, expected) in [
            ("just started", base.clone(), 2, None),
            ("no event ever", base.clone(), 3, never),
            ("one event", active.clone(), 600, None),
            ("held, a long turn", held.clone(), 31, None),
            ("held, and silent", held.clone(), 32, silent(start + MINUTE)),
            ("held, its process gone", Seen { owner: Alive::No, ..held.clone() }, 600, None),
            ("held, its process unknown", Seen { owner: Alive::Unknown, ..held }, 600, None),
            ("started without a hook", Seen { hooks: Hooks::Missing, ..base.clone() }, 2, None),
            ("no hook came", Seen { hooks: Hooks::Missing, ..base }, 3, no_hook.clone()),
            ("an event without a hook", missing.clone(), 3, None),
            ("no event any more", missing.clone(), 4, no_hook.clone()),
            ("taken out since", Seen { changed_ms: start + 2 * MINUTE, ..missing }, 2, no_hook),
            ("switched off before", Seen { hooks: off(), ..active.clone() }, 2, None),
            (
                "switched off since",
                Seen { hooks: off(), changed_ms: start + 2 * MINUTE, ..active },
                2,
                gone,
            ),
        ] {
            assert_eq!(judge(&seen, start + minutes * MINUTE), expected, "{what}");
        }
        assert_eq!(
            Unprotected::Silent { since_ms: start }.in_words(start + 45 * MINUTE),
            "silent for 45 min, though it was held"
        );
    }
}
