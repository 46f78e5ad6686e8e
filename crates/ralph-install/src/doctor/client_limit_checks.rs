//! Checks the client's limits: the timeouts of hooks, and the cap on consecutive blocks.

use super::loaded_hooks::{self, HookSource, RegisteredHook};
use super::project_checks::DoctorPolicy;
use super::{DoctorCheck, DoctorContext, SafeRepair, hook_command};
use crate::install::registration::BlockCapSetting;
use crate::install::settings_layers::SettingsLayer;
use ralph_core::run::RunPhase;
use ralph_core::text;
use ralph_core::units::format_duration;
use ralph_home::host_env;
use ralph_hook::overview;
use ralph_host::HostProfile;
use ralph_sys::env::Env;

/// A timeout this long, in seconds, is probably meant as milliseconds.
const SUSPICIOUS_TIMEOUT_SECS: f64 = 10_000.0;
/// Time for everything that is not a gate, in seconds.
const ANSWER_MARGIN_SECS: u64 = 30;
/// No hook waits longer than this for gates; they continue in the background.
const MAX_GATE_WAIT_SECS: u64 = 3600;

/// Checks timeouts: the client kills a late hook and lets the agent stop without a notice.
pub(super) fn check_timeouts(
    host: &HostProfile,
    all: &[RegisteredHook],
    gates_ms: u64,
) -> Vec<DoctorCheck> {
    const NAME: &str = "timeout";
    let mut wrong: Vec<(String, &RegisteredHook, Vec<&str>)> = Vec::new();
    let ours: Vec<_> = all.iter().filter(|one| one.calls_ralph()).collect();
    for one in &ours {
        let Some(why) = timeout_problem(host, one, gates_ms) else { continue };
        let place = format!("`{}` in the {}", one.command_line(), one.from.describe());
        let why = format!("{why}: {place}");
        match wrong.iter_mut().find(|(known, ..)| *known == why) {
            Some((_, _, events)) => events.push(&one.hook.event),
            None => wrong.push((why, one, vec![&one.hook.event])),
        }
    }
    if wrong.is_empty() && !ours.is_empty() {
        let needed = format_duration(gates_ms);
        let what = if gates_ms == 0 {
            "the client waits long enough for every hook".to_string()
        } else {
            format!("the client waits long enough for every hook; gates may take {needed}")
        };
        return vec![DoctorCheck::good(NAME, what)];
    }
    let checks = wrong.into_iter().map(|(why, one, events)| {
        DoctorCheck::bad(NAME, format!("{}, {why}", events.join(", ")))
            .fix(one.from.remedy())
            .repair(one.from.scope().map(SafeRepair::Settings))
    });
    checks.collect()
}

fn timeout_problem(host: &HostProfile, one: &RegisteredHook, gates_ms: u64) -> Option<String> {
    let is_gated = host.hooks.waits_for_gates(&one.hook.event);
    let Some(timeout) = one.hook.timeout else {
        return is_gated.then(|| "no timeout is set".to_string());
    };
    if timeout >= SUSPICIOUS_TIMEOUT_SECS {
        return Some(format!("{timeout} seconds look like milliseconds"));
    }
    if !is_gated {
        return None;
    }
    // The deadline does not depend on the environment; only a leading home directory would.
    let env = Env::from_pairs::<&str, &str>([], None, Vec::new());
    let own = hook_command::hook_deadline_secs(&env, &one.from, &one.hook);
    let gates = gates_ms.div_ceil(1000).saturating_add(ANSWER_MARGIN_SECS).min(MAX_GATE_WAIT_SECS);
    let is_less = |seconds: u64| TimeoutSeconds(timeout) < seconds;
    if is_less(own.saturating_add(1)) {
        Some(format!("{timeout} s, but the hook takes up to {own} s to answer"))
    } else if is_less(gates) && !matches!(one.from, HookSource::Plugin { .. }) {
        // The plugin's timeouts are fixed. Gates that take longer continue, and the next stop has their results.
        Some(format!("{timeout} s, but the gates need {gates} s"))
    } else {
        None
    }
}

/// A timeout in seconds, possibly fractional, as in the settings.
struct TimeoutSeconds(f64);

impl PartialEq<u64> for TimeoutSeconds {
    fn eq(&self, seconds: &u64) -> bool {
        self.partial_cmp(seconds) == Some(std::cmp::Ordering::Equal)
    }
}

impl PartialOrd<u64> for TimeoutSeconds {
    #[expect(clippy::cast_precision_loss, reason = "both are far below 2^53")]
    fn partial_cmp(&self, seconds: &u64) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&(*seconds as f64))
    }
}

/// Checks the block cap: a client that overrides a block before the run's own limit ends an unfinished run.
pub(super) fn check_block_cap(
    context: &DoctorContext<'_>,
    layers: &[SettingsLayer],
    (all, policy): (&[RegisteredHook], &DoctorPolicy),
) -> Vec<DoctorCheck> {
    const NAME: &str = "cap";
    let host = context.host;
    let Some(ours) = all.iter().find(|one| one.calls_ralph()) else { return Vec::new() };
    let setting = loaded_hooks::settings_variables(layers)
        .into_iter()
        .find(|(name, ..)| name == host.variables.block_cap);
    let (value, place) = match (&setting, host_env::host_block_cap(context.env, host)) {
        (Some((_, value, path)), _) => (value.clone(), format!("in `{}`", path.display())),
        (None, Some(value)) => (value, "in this environment".to_string()),
        (None, None) => {
            (host.hooks.default_block_cap.to_string(), "the client's default".to_string())
        }
    };
    let mut needs = vec![("the policy".to_string(), policy.max_iterations())];
    let (runs, _) = overview::list_run_views(context.home).unwrap_or_default();
    needs.extend(runs.iter().filter(|view| view.phase == RunPhase::Active).map(|view| {
        let limits = view.opened.state.limits(&view.opened.run);
        (format!("run {}", view.opened.run.id), limits.max_iterations)
    }));
    let is_met = |most: Option<u32>| BlockCapSetting::for_limit(host, most).is_met_by(&value);
    let too_low: Vec<_> = needs.iter().filter(|(_, most)| !is_met(*most)).collect();
    let shown = text::clean_line(&value, 40);
    if too_low.is_empty() {
        // The client takes 0 and less as no cap.
        let allowed = match shown.trim().parse::<i64>() {
            Ok(..=0) => "the client allows any number of consecutive blocks".to_string(),
            Ok(_) | Err(_) => format!("the client allows {shown} consecutive blocks"),
        };
        return vec![DoctorCheck::good(NAME, allowed)];
    }
    let allowed = too_low.iter().map(|(whose, most)| match most {
        Some(most) => format!("{whose} allows {most}"),
        None => format!("{whose} has no limit"),
    });
    let allowed = allowed.collect::<Vec<_>>().join(", ");
    let check = DoctorCheck::bad(
        NAME,
        format!(
            "the client overrides ralph after {shown} consecutive blocks ({place}), but {allowed}"
        ),
    );
    // `ralph init` considers only the policy, and writes only one file.
    let is_there = setting.is_none_or(|(_, _, path)| match &ours.from {
        loaded_hooks::HookSource::Layer { path: own, .. } => *own == path,
        loaded_hooks::HookSource::Plugin { .. } => false,
    });
    let is_for_init = is_there && ours.from.scope().is_some() && !is_met(policy.max_iterations());
    vec![if is_for_init {
        check.fix(ours.from.remedy()).repair(ours.from.scope().map(SafeRepair::Settings))
    } else {
        let most =
            too_low.iter().map(|(_, most)| *most).max_by_key(|most| most.unwrap_or(u32::MAX));
        let value = BlockCapSetting::for_limit(host, most.flatten()).value();
        check.fix(format!(
            "set `{}` to `\"{value}\"` under `env` in the settings",
            host.variables.block_cap
        ))
    }]
}
