//! The hooks that ralph registers with a client, with their timeouts.

use super::program_path::RalphProgram;
use ralph_host::HostProfile;
use ralph_host::client_settings::{HookEntry, HookMode};
use ralph_host::hook_profile::HookTimeout;

/// The longest timeout that is registered, in seconds.
const MAX_TIMEOUT_SECS: u32 = 3600;
/// Time for everything that is not a gate, in seconds: the tree, the checks, the answer.
const ANSWER_MARGIN_SECS: u32 = 30;

/// Room for blocks that ralph does not count.
const CAP_MARGIN: u32 = 5;
const MIN_CAP: u32 = 25;

/// How many events are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookExtent {
    Full,
    /// Only the events needed to start a run in a session and to hold it.
    Minimal,
    /// The plugin has the hooks and the commands; only the block cap is set.
    Plugin,
}

/// Whether gates run ahead of the next stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateWarming {
    Off,
    /// Gates start after each edit, while the agent keeps working.
    AfterEdits,
}

/// What the client shows while it waits for gates.
const GATES_MESSAGE: &str = "ralph is checking the work";
const WARMING_TIMEOUT_SECS: u32 = 30;

/// The person's choices, and the time that gates need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationChoice {
    pub extent: HookExtent,
    pub warming: GateWarming,
    /// The timeouts of all gates together.
    pub gates_ms: u64,
}

pub fn hook_entries(
    host: &HostProfile,
    program: &RalphProgram,
    choice: RegistrationChoice,
) -> Vec<HookEntry> {
    let hooks = &host.hooks;
    let gates = gate_timeout_secs(host, choice.gates_ms);
    let rows = hooks.events.iter().filter(|row| match choice.extent {
        HookExtent::Full => true,
        HookExtent::Minimal => row.is_essential,
        HookExtent::Plugin => false,
    });
    let mut entries: Vec<_> = rows
        .map(|row| {
            let timeout = match row.timeout {
                HookTimeout::Gates => gates,
                HookTimeout::Seconds(seconds) => seconds,
            };
            let deadline =
                (timeout > hooks.default_timeout_secs).then(|| timeout - ANSWER_MARGIN_SECS);
            HookEntry {
                event: row.event,
                matcher: None,
                command: program.hook_command(host, deadline),
                timeout,
                mode: HookMode::Waits,
                status_message: (row.timeout == HookTimeout::Gates).then_some(GATES_MESSAGE),
            }
        })
        .collect();
    if choice.warming == GateWarming::AfterEdits {
        entries.push(HookEntry {
            event: hooks.edit_event,
            matcher: Some(hooks.edit_matcher),
            command: program.hook_command(host, None),
            timeout: WARMING_TIMEOUT_SECS,
            mode: HookMode::Async,
            status_message: None,
        });
    }
    entries
}

/// The timeout for a hook that waits for gates, in seconds.
fn gate_timeout_secs(host: &HostProfile, gates_ms: u64) -> u32 {
    let seconds = u32::try_from(gates_ms.div_ceil(1000)).unwrap_or(u32::MAX);
    let least = host.hooks.default_timeout_secs;
    seconds.saturating_add(ANSWER_MARGIN_SECS).clamp(least, MAX_TIMEOUT_SECS)
}

/// The setting for how many consecutive blocks the client allows before it overrides the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCapSetting {
    /// `None` for a run without a limit.
    max_iterations: Option<u32>,
    /// The client's cap if the setting is missing or not a number.
    default_cap: u32,
}

impl BlockCapSetting {
    pub fn for_limit(host: &HostProfile, max_iterations: Option<u32>) -> Self {
        Self { max_iterations, default_cap: host.hooks.default_block_cap }
    }

    /// The value to write; `0` means no cap.
    pub fn value(self) -> String {
        let cap = self.max_iterations.map(|most| most.max(MIN_CAP).saturating_add(CAP_MARGIN));
        cap.unwrap_or(0).to_string()
    }

    /// Whether a run reaches its own limit first. A value that is not a number counts as the client's default.
    pub fn is_met_by(self, value: &str) -> bool {
        let default = i64::from(self.default_cap);
        match (value.trim().parse::<i64>().unwrap_or(default), self.max_iterations) {
            (..=0, _) => true,
            (_, None) => false,
            (cap, Some(most)) => cap > i64::from(most),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use insta::assert_snapshot;
    use ralph_host::default_host;

    use super::*;

    fn shown(choice: RegistrationChoice) -> String {
        let program = RalphProgram::from_path(Path::new("/home/u/.cargo/bin/ralph")).unwrap();
        let line = |entry: HookEntry| {
            let matcher = entry.matcher.unwrap_or("");
            format!(
                "{} {matcher} {} {} {:?}\n",
                entry.event, entry.command, entry.timeout, entry.mode
            )
        };
        hook_entries(default_host(), &program, choice).into_iter().map(line).collect()
    }

    /// R-D3c: the timeouts exceed the time that gates may take.
    #[test]
    fn the_event_table() {
        let choice = RegistrationChoice {
            extent: HookExtent::Full,
            warming: GateWarming::AfterEdits,
            gates_ms: 900_001,
        };
        assert_snapshot!(shown(choice), @"
        Stop  /home/u/.cargo/bin/ralph hook claude --deadline 901s 931 Waits
        SubagentStop  /home/u/.cargo/bin/ralph hook claude --deadline 901s 931 Waits
        TaskCompleted  /home/u/.cargo/bin/ralph hook claude --deadline 901s 931 Waits
        TeammateIdle  /home/u/.cargo/bin/ralph hook claude --deadline 901s 931 Waits
        TaskCreated  /home/u/.cargo/bin/ralph hook claude 30 Waits
        StopFailure  /home/u/.cargo/bin/ralph hook claude 10 Waits
        SessionStart  /home/u/.cargo/bin/ralph hook claude 30 Waits
        SessionEnd  /home/u/.cargo/bin/ralph hook claude 5 Waits
        UserPromptSubmit  /home/u/.cargo/bin/ralph hook claude 600 Waits
        UserPromptExpansion  /home/u/.cargo/bin/ralph hook claude 600 Waits
        PreToolUse  /home/u/.cargo/bin/ralph hook claude 10 Waits
        PreCompact  /home/u/.cargo/bin/ralph hook claude 30 Waits
        PostCompact  /home/u/.cargo/bin/ralph hook claude 30 Waits
        PostToolUse Edit|Write|MultiEdit|NotebookEdit /home/u/.cargo/bin/ralph hook claude 30 Async
        ");
        let choice = RegistrationChoice {
            extent: HookExtent::Minimal,
            warming: GateWarming::Off,
            gates_ms: 0,
        };
        assert_snapshot!(shown(choice), @"
        Stop  /home/u/.cargo/bin/ralph hook claude 600 Waits
        SubagentStop  /home/u/.cargo/bin/ralph hook claude 600 Waits
        StopFailure  /home/u/.cargo/bin/ralph hook claude 10 Waits
        SessionStart  /home/u/.cargo/bin/ralph hook claude 30 Waits
        UserPromptSubmit  /home/u/.cargo/bin/ralph hook claude 600 Waits
        UserPromptExpansion  /home/u/.cargo/bin/ralph hook claude 600 Waits
        ");
    }

    #[test]
    fn the_timeout_fits_the_gates() {
        for (gates_ms, expected) in [
            (0, 600),
            (570_000, 600),
            (570_001, 601),
            (900_000, 930),
            (3_600_000, 3600),
            (u64::MAX, 3600),
        ] {
            assert_eq!(gate_timeout_secs(default_host(), gates_ms), expected, "{gates_ms}");
        }
    }

    /// R-L9b: the client's cap does not end a run before its own limit does.
    #[test]
    fn the_cap_fits_the_run() {
        for (most, value, met, not_met) in [
            (Some(25), "30", &["26", "30", "0", "-1", " 40 "][..], &["8", "25", "x", ""][..]),
            (Some(3), "30", &["4", "8", "junk"], &["3", "1"]),
            (Some(100), "105", &["101"], &["100", "30"]),
            (Some(u32::MAX), "4294967295", &["0"], &["8"]),
            (None, "0", &["0"], &["8", "1000000"]),
        ] {
            let cap = BlockCapSetting::for_limit(default_host(), most);
            assert_eq!(cap.value(), value, "{most:?}");
            assert!(met.iter().all(|value| cap.is_met_by(value)), "{most:?} {met:?}");
            assert!(!not_met.iter().any(|value| cap.is_met_by(value)), "{most:?} {not_met:?}");
        }
    }
}
