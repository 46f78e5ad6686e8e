//! Detects active runs that no longer receive events of their session. Such a run holds nothing, whatever its state is.

use std::path::{Path, PathBuf};

use super::loaded_hooks;
use crate::install::settings_layers;
use ralph_core::host_name::HostName;
use ralph_core::run::RunPhase;
use ralph_core::units::format_duration;
use ralph_home::paths::RalphHome;
use ralph_hook::heartbeat;
use ralph_hook::overview::RunView;
use ralph_host::HostProfile;
use ralph_host::client_settings::HookMode;
use ralph_policy::config;
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::fs;
use ralph_sys::process_identity::{self, Liveness};

/// A session that started or sent an event this recently is not reported: it may have sent none yet, or its hooks work.
const GRACE_MS: u64 = 2 * 60 * 1000;
/// A held agent keeps working, and its tool calls are events; longer silence means that the hooks are gone.
const MAX_SILENCE_MS: u64 = 30 * 60 * 1000;

/// Why an active run holds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnprotectedReason {
    /// This file disables all hooks.
    HooksDisabled { setting: &'static str, path: PathBuf },
    /// No hook calls ralph at a stop.
    NoHook,
    /// No event has arrived since the run started.
    NoEvents,
    /// No event for a long time, although the agent was held and its process is alive.
    Silent { since_ms: u64 },
}

impl UnprotectedReason {
    pub fn describe(&self, now_ms: u64) -> String {
        match self {
            Self::HooksDisabled { setting, path } => format!("`{setting}` in `{}`", path.display()),
            Self::NoHook => "no settings file or plugin calls ralph at a stop".to_string(),
            Self::NoEvents => "no event of its session has ever arrived".to_string(),
            Self::Silent { since_ms } => {
                let span = format_duration(now_ms.saturating_sub(*since_ms));
                format!("silent for {span}, though it was held")
            }
        }
    }

    pub fn remedy(&self) -> String {
        match self {
            Self::HooksDisabled { setting, path } => {
                format!("remove `{setting}` from `{}`", path.display())
            }
            Self::NoHook => "`ralph init` in its project".to_string(),
            Self::NoEvents | Self::Silent { .. } => {
                "`ralph doctor` in its project tests the hooks".to_string()
            }
        }
    }
}

/// The facts about an active run that decide whether it is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProtectionFacts {
    started_ms: u64,
    /// When an event of its session last arrived.
    last_event_ms: Option<u64>,
    last: LastDecision,
    owner: Liveness,
    hooks: HookState,
    /// When the settings were last modified.
    changed_ms: u64,
}

/// How the last stop was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastDecision {
    Held,
    Otherwise,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HookState {
    Registered,
    Missing,
    Off { setting: &'static str, path: PathBuf },
}

fn find_cause(seen: &ProtectionFacts, now_ms: u64) -> Option<UnprotectedReason> {
    let since = |ms: u64| now_ms.saturating_sub(ms);
    let last_ms = seen.last_event_ms.unwrap_or(seen.started_ms);
    // Hooks may be registered in a place that cannot be inspected; a recent event is the better evidence.
    let is_fresh = since(last_ms) <= GRACE_MS && last_ms >= seen.changed_ms;
    match &seen.hooks {
        HookState::Off { setting, path } if !is_fresh => {
            return Some(UnprotectedReason::HooksDisabled { setting, path: path.clone() });
        }
        HookState::Missing if !is_fresh => return Some(UnprotectedReason::NoHook),
        HookState::Off { .. } | HookState::Missing | HookState::Registered => {}
    }
    match seen.last_event_ms {
        None if since(seen.started_ms) > GRACE_MS => Some(UnprotectedReason::NoEvents),
        Some(since_ms)
            if since(since_ms) > MAX_SILENCE_MS
                && seen.last == LastDecision::Held
                && seen.owner == Liveness::Alive =>
        {
            Some(UnprotectedReason::Silent { since_ms })
        }
        None | Some(_) => None,
    }
}

/// For each run, why it is unprotected; `None` if it is protected or not active, or if a runner answers its stops, which
/// needs no hook.
pub fn find_unprotected(
    env: &Env,
    home: &RalphHome,
    views: &[RunView],
) -> Vec<Option<UnprotectedReason>> {
    let now_ms = clock::now_ms();
    let mut known: Vec<((&str, &HostName), HookState, u64)> = Vec::new();
    let mut found = Vec::new();
    for view in views {
        let is_driven = view.opened.run.drive.is_some();
        // API errors are reported separately.
        let has_trouble = view.opened.state.trouble.is_some();
        if view.phase != RunPhase::Active || is_driven || has_trouble {
            found.push(None);
            continue;
        }
        let place = (view.opened.run.project.as_str(), &view.opened.run.host);
        if !known.iter().any(|(one, ..)| *one == place) {
            let host = ralph_host::recorded_host(place.1);
            let (hooks, changed_ms) = project_hook_state(env, host, Path::new(place.0));
            known.push((place, hooks, changed_ms));
        }
        let place = known.iter().find(|(one, ..)| *one == place);
        found.push(place.and_then(|(_, hooks, changed_ms)| {
            find_cause(&protection_facts(home, view, hooks.clone(), *changed_ms), now_ms)
        }));
    }
    found
}

fn protection_facts(
    home: &RalphHome,
    view: &RunView,
    hooks: HookState,
    changed_ms: u64,
) -> ProtectionFacts {
    let (run, state) = (&view.opened.run, &view.opened.state);
    let answered = state.delivery.map(|delivery| delivery.at_ms);
    ProtectionFacts {
        started_ms: run.started_ms,
        last_event_ms: heartbeat::last_heartbeat_ms(home, &run.id).max(answered),
        last: if state.answer.is_some() { LastDecision::Held } else { LastDecision::Otherwise },
        owner: state.process.as_ref().map_or(Liveness::Unknown, process_identity::check_liveness),
        hooks,
        changed_ms,
    }
}

/// Whether the client would call ralph at the end of a turn in this project.
pub fn is_stop_hook_registered(env: &Env, host: &HostProfile, project: &Path) -> bool {
    matches!(project_hook_state(env, host, project).0, HookState::Registered)
}

/// Whether the settings of a project call ralph at a stop, and when they were last modified.
fn project_hook_state(env: &Env, host: &HostProfile, project: &Path) -> (HookState, u64) {
    let mut places = vec![project.to_path_buf()];
    // The client may have been started at the root of the repository or in a subdirectory.
    let above = config::find_project(project);
    if above != project {
        places.push(above);
    }
    let mut found = HookState::Missing;
    let mut changed_ms = 0;
    for place in places {
        let layers = settings_layers::read_layers(env, host, &place);
        let stats = layers.iter().filter_map(|layer| fs::stat(&layer.path));
        changed_ms = stats.map(|stat| stat.modified_ns / 1_000_000).fold(changed_ms, u64::max);
        if let Some(path) = loaded_hooks::find_disabling_file(&layers) {
            let setting = host.settings.disable_hooks;
            return (HookState::Off { setting, path }, changed_ms);
        }
        let is_registered =
            loaded_hooks::read_registered_hooks(env, host, &layers).iter().any(|one| {
                one.calls_ralph()
                    && one.hook.event == host.hooks.session_stop()
                    && one.hook.mode == HookMode::Waits
            });
        if is_registered {
            found = HookState::Registered;
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
        let (setting, path) = ("off", PathBuf::from("/s"));
        let off = || HookState::Off { setting, path: path.clone() };
        let silent = |since_ms| Some(UnprotectedReason::Silent { since_ms });
        let gone = Some(UnprotectedReason::HooksDisabled { setting, path: path.clone() });
        let base = ProtectionFacts {
            started_ms: start,
            last_event_ms: None,
            last: LastDecision::Otherwise,
            owner: Liveness::Alive,
            hooks: HookState::Registered,
            changed_ms: 0,
        };
        let no_hook = Some(UnprotectedReason::NoHook);
        let active = ProtectionFacts { last_event_ms: Some(start + MINUTE), ..base.clone() };
        let held = ProtectionFacts { last: LastDecision::Held, ..active.clone() };
        let missing = ProtectionFacts { hooks: HookState::Missing, ..active.clone() };
        for (what, seen, minutes, expected) in [
            ("just started", base.clone(), 2, None),
            ("no event ever", base.clone(), 3, Some(UnprotectedReason::NoEvents)),
            ("one event", active.clone(), 600, None),
            ("held, a long turn", held.clone(), 31, None),
            ("held, and silent", held.clone(), 32, silent(start + MINUTE)),
            (
                "held, its process gone",
                ProtectionFacts { owner: Liveness::Dead, ..held.clone() },
                600,
                None,
            ),
            (
                "held, its process unknown",
                ProtectionFacts { owner: Liveness::Unknown, ..held },
                600,
                None,
            ),
            (
                "started without a hook",
                ProtectionFacts { hooks: HookState::Missing, ..base.clone() },
                2,
                None,
            ),
            (
                "no hook came",
                ProtectionFacts { hooks: HookState::Missing, ..base },
                3,
                no_hook.clone(),
            ),
            ("an event without a hook", missing.clone(), 3, None),
            ("no event any more", missing.clone(), 4, no_hook.clone()),
            (
                "taken out since",
                ProtectionFacts { changed_ms: start + 2 * MINUTE, ..missing },
                2,
                no_hook,
            ),
            ("switched off before", ProtectionFacts { hooks: off(), ..active.clone() }, 2, None),
            (
                "switched off since",
                ProtectionFacts { hooks: off(), changed_ms: start + 2 * MINUTE, ..active },
                2,
                gone,
            ),
        ] {
            assert_eq!(find_cause(&seen, start + minutes * MINUTE), expected, "{what}");
        }
        assert_eq!(
            UnprotectedReason::Silent { since_ms: start }.describe(start + 45 * MINUTE),
            "silent for 45 min, though it was held"
        );
    }
}
