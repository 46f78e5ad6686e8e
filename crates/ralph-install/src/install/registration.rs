//! The table of events that ralph registers with a client, with their timeouts.

use super::command::Program;
use super::layers::Mode;

/// The client's default timeout, in seconds. The default deadline of `ralph hook` fits into it.
const USUAL: u32 = 600;
/// The longest timeout that is registered, in seconds.
const LONGEST: u32 = 3600;
/// Time for everything that is not a gate, in seconds: the tree, the checks, the answer.
const MARGIN: u32 = 30;

pub const BLOCK_CAP: &str = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";
/// Room for blocks that ralph does not count.
const CAP_MARGIN: u32 = 5;
const LEAST_CAP: u32 = 25;

/// How many events are registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Full,
    /// Only the events needed to start a run in a session and to hold it.
    Minimal,
    /// The plugin has the hooks and the commands; only the block cap is set.
    Plugin,
}

/// Whether gates run ahead of the next stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warming {
    Off,
    /// Gates start after each edit, while the agent keeps working.
    AfterEdits,
}

/// The timeout of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// As long as the gates.
    Gates,
    Seconds(u32),
}

struct Row {
    event: &'static str,
    patience: Patience,
    extent: Extent,
}

const fn row(event: &'static str, patience: Patience, extent: Extent) -> Row {
    Row { event, patience, extent }
}

const TABLE: [Row; 13] = [
    row("Stop", Patience::Gates, Extent::Minimal),
    row("SubagentStop", Patience::Gates, Extent::Minimal),
    row("TaskCompleted", Patience::Gates, Extent::Full),
    row("TeammateIdle", Patience::Gates, Extent::Full),
    row("TaskCreated", Patience::Seconds(30), Extent::Full),
    row("StopFailure", Patience::Seconds(10), Extent::Minimal),
    row("SessionStart", Patience::Seconds(30), Extent::Minimal),
    row("SessionEnd", Patience::Seconds(5), Extent::Full),
    row("UserPromptSubmit", Patience::Seconds(USUAL), Extent::Minimal),
    row("UserPromptExpansion", Patience::Seconds(USUAL), Extent::Minimal),
    row("PreToolUse", Patience::Seconds(10), Extent::Full),
    row("PreCompact", Patience::Seconds(30), Extent::Full),
    row("PostCompact", Patience::Seconds(30), Extent::Full),
];

const EDITS: &str = "Edit|Write|MultiEdit|NotebookEdit";
const WARMING: u32 = 30;

/// One hook to write into the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub event: &'static str,
    pub matcher: Option<&'static str>,
    pub command: String,
    /// In seconds.
    pub timeout: u32,
    pub mode: Mode,
}

/// The person's choices, and the time that gates need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub extent: Extent,
    pub warming: Warming,
    /// The timeouts of all gates together.
    pub gates_ms: u64,
}

pub fn entries(program: &Program, choice: Choice) -> Vec<Entry> {
    let gates = gates_timeout(choice.gates_ms);
    let rows = TABLE.iter().filter(|row| match choice.extent {
        Extent::Full => true,
        Extent::Minimal => row.extent == Extent::Minimal,
        Extent::Plugin => false,
    });
    let mut entries: Vec<_> = rows
        .map(|row| {
            let timeout = match row.patience {
                Patience::Gates => gates,
                Patience::Seconds(seconds) => seconds,
            };
            let deadline = (timeout > USUAL).then(|| timeout - MARGIN);
            Entry {
                event: row.event,
                matcher: None,
                command: program.hook(deadline),
                timeout,
                mode: Mode::Waits,
            }
        })
        .collect();
    if choice.warming == Warming::AfterEdits {
        entries.push(Entry {
            event: "PostToolUse",
            matcher: Some(EDITS),
            command: program.hook(None),
            timeout: WARMING,
            mode: Mode::Async,
        });
    }
    entries
}

/// The timeout for a hook that waits for gates, in seconds.
pub fn gates_timeout(gates_ms: u64) -> u32 {
    let seconds = u32::try_from(gates_ms.div_ceil(1000)).unwrap_or(u32::MAX);
    seconds.saturating_add(MARGIN).clamp(USUAL, LONGEST)
}

/// The setting for how many consecutive blocks the client allows before it overrides the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// `None` for a run without a limit.
    max_iterations: Option<u32>,
}

impl Cap {
    pub fn for_limit(max_iterations: Option<u32>) -> Self {
        Self { max_iterations }
    }

    /// The value to write; `0` means no cap.
    pub fn value(self) -> String {
        let cap = self.max_iterations.map(|most| most.max(LEAST_CAP).saturating_add(CAP_MARGIN));
        cap.unwrap_or(0).to_string()
    }

    /// Whether a run reaches its own limit first. A value that is not a number counts as the client's default of 8.
    pub fn is_met_by(self, value: &str) -> bool {
        const USUAL: i64 = 8;
        match (value.trim().parse::<i64>().unwrap_or(USUAL), self.max_iterations) {
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

    use super::*;

    fn shown(choice: Choice) -> String {
        let program = Program::at(Path::new("/home/u/.cargo/bin/ralph")).unwrap();
        let line = |entry: Entry| {
            let matcher = entry.matcher.unwrap_or("");
            format!(
                "{} {matcher} {} {} {:?}\n",
                entry.event, entry.command, entry.timeout, entry.mode
            )
        };
        entries(&program, choice).into_iter().map(line).collect()
    }

    /// R-D3c: the timeouts exceed the time that gates may take.
    #[test]
    fn the_event_table() {
        let choice =
            Choice { extent: Extent::Full, warming: Warming::AfterEdits, gates_ms: 900_001 };
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
        let choice = Choice { extent: Extent::Minimal, warming: Warming::Off, gates_ms: 0 };
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
            assert_eq!(gates_timeout(gates_ms), expected, "{gates_ms}");
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
            let cap = Cap::for_limit(most);
            assert_eq!(cap.value(), value, "{most:?}");
            assert!(met.iter().all(|value| cap.is_met_by(value)), "{most:?} {met:?}");
            assert!(!not_met.iter().any(|value| cap.is_met_by(value)), "{most:?} {not_met:?}");
        }
    }
}
