//! A host's settings file: the layout that ralph edits, and the settings that concern hooks.

use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// The layout of a settings file, which is a JSON object. The fields name its keys.
#[derive(Debug)]
pub struct SettingsSchema {
    /// An object with a list of hook groups for each event.
    pub hooks: &'static str,
    /// The list of hooks in a group.
    pub group_hooks: &'static str,
    /// An object with variables for hooks and tools.
    pub variables: &'static str,
    pub status_line: &'static str,
    /// An object that enables and disables plugins.
    pub plugins: &'static str,
    /// Disables every hook.
    pub disable_hooks: &'static str,
    /// In an administrator's settings: disables all other hooks.
    pub managed_hooks_only: &'static str,
    pub parse: fn(&Map<String, Value>) -> ClientSettings,
    /// Every hook, with its position.
    pub find_hooks: fn(&Value) -> Vec<HookOccurrence>,
    /// Renders a group with one hook. It fits on one line, because people review all of them before they agree.
    pub render_hook: fn(&HookEntry) -> String,
    /// Renders a group with one hook for which the client asks a model.
    pub render_native_judge: fn(&NativeJudgeEntry) -> String,
    /// Renders the status-line setting that runs this command.
    pub render_status_line: fn(&str) -> String,
    /// The command of a status-line setting.
    pub status_line_command: fn(&Value) -> Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientSettings {
    /// Sorted by event; hooks of one event are in the order of the file.
    pub hooks: Vec<HookSetting>,
    pub disable_all_hooks: Option<bool>,
    /// In managed settings: hooks of users, projects and plugins do not run.
    pub allow_managed_hooks_only: bool,
    pub env: Vec<(String, String)>,
    /// `name@marketplace`, and whether it is enabled.
    pub enabled_plugins: Vec<(String, bool)>,
    pub status_line: Option<StatusLineSetting>,
    pub permissions: PermissionSettings,
    /// Why the client ignores the whole file although it parses.
    pub ignored: Option<String>,
    /// Entries that were skipped because of a wrong type, each described in words.
    pub skipped_entries: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HookSetting {
    pub event: String,
    pub matcher: Option<String>,
    /// `command`, or another type, which runs no command.
    pub kind: String,
    /// Empty unless it is a command.
    pub command: String,
    /// The question of a hook that asks a model.
    pub prompt: Option<String>,
    /// If set, the command runs without a shell.
    pub args: Option<Vec<String>>,
    /// In seconds.
    pub timeout: Option<f64>,
    pub mode: HookMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMode {
    /// The client waits for the hook's answer.
    Waits,
    /// The client does not wait for the hook and ignores its answer.
    Async,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLineSetting {
    pub kind: String,
    pub command: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionSettings {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    pub default_mode: Option<String>,
}

/// A hook in a settings file, as it is written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOccurrence {
    pub event: String,
    /// The index of its group in the list of the event, and its own in the group.
    pub group: usize,
    pub index: usize,
    pub matcher: Option<String>,
    pub kind: Option<String>,
    pub command: Option<String>,
    /// The question of a hook that asks a model.
    pub prompt: Option<String>,
    pub args: Option<Vec<String>>,
    pub timeout: Option<String>,
    pub mode: HookMode,
    /// What the client shows while the hook runs.
    pub status_message: Option<String>,
}

/// A hook to write into the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEntry {
    pub event: &'static str,
    pub matcher: Option<&'static str>,
    pub command: String,
    /// In seconds.
    pub timeout: u32,
    pub mode: HookMode,
    /// What the client shows while the hook runs, instead of its own text.
    pub status_message: Option<&'static str>,
}

/// How the client asks a model whether the agent may stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeJudgeKind {
    /// One request, with the whole conversation.
    Prompt,
    /// An agent that can read files.
    Agent,
}

impl NativeJudgeKind {
    pub const ALL: [Self; 2] = [Self::Prompt, Self::Agent];

    /// The type of the hook in the settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Agent => "agent",
        }
    }
}

/// A hook to write into the settings, for which the client asks a model instead of running a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeJudgeEntry {
    pub event: &'static str,
    pub kind: NativeJudgeKind,
    pub prompt: String,
    /// In seconds.
    pub timeout: u32,
    pub status_message: &'static str,
}
