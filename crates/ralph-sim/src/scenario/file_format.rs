//! The TOML structure of a scenario file. Every unknown key is an error.

use super::{
    ScenarioPlayer, ScenarioSettingsLayer, SessionStep, TurnHang, TurnInterrupt, TurnPoint,
};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) name: Option<String>,
    pub(super) only: Option<ScenarioPlayer>,
    #[serde(default)]
    pub(super) client: ScenarioClientToml,
    pub(super) runner: Option<Spanned<ScenarioRunnerToml>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    pub(super) copy: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) files: BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    pub(super) home: BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    pub(super) setup: Vec<String>,
    #[serde(default)]
    pub(super) settings: ScenarioSettingsToml,
    #[serde(default)]
    pub(super) hook: Vec<ScenarioHookToml>,
    #[serde(default)]
    pub(super) plugin: Vec<ScenarioPluginToml>,
    #[serde(default)]
    pub(super) step: Vec<Spanned<ScenarioStepToml>>,
    #[serde(default)]
    pub(super) subagent: Vec<ScriptedSubagentToml>,
    #[serde(default)]
    pub(super) evaluator: Vec<ScriptedSubagentToml>,
    pub(super) summary: Option<String>,
    #[serde(default)]
    pub(super) expect: ScenarioExpectationsToml,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioClientToml {
    pub(super) session: Option<Spanned<String>>,
    pub(super) directory: Option<Spanned<String>>,
    pub(super) model: Option<String>,
    pub(super) autocompact: Option<u64>,
    pub(super) max_turns: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioRunnerToml {
    pub(super) plan: Option<Spanned<Vec<String>>>,
    pub(super) args: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) beside: Vec<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) wrapper: Vec<String>,
    #[serde(default)]
    pub(super) resumes: u32,
    #[serde(default)]
    pub(super) at: Vec<Spanned<RunnerInterventionToml>>,
}

/// Has exactly one of `kill`, `press` and `run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunnerInterventionToml {
    pub(super) request: Spanned<u64>,
    #[serde(default)]
    pub(super) after_ms: u64,
    pub(super) kill: Option<KillTargetToml>,
    pub(super) press: Option<PressedKeyToml>,
    pub(super) run: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum KillTargetToml {
    Runner,
    Agent,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) enum PressedKeyToml {
    #[serde(rename = "ctrl-c")]
    CtrlC,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioSettingsToml {
    pub(super) user: Option<Value>,
    pub(super) project: Option<Value>,
    pub(super) local: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioHookToml {
    pub(super) event: Spanned<String>,
    pub(super) matcher: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) script: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) model: Option<String>,
    pub(super) timeout: Option<f64>,
    #[serde(default)]
    pub(super) r#async: bool,
    #[serde(default)]
    pub(super) r#in: ScenarioSettingsLayer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioPluginToml {
    pub(super) name: Spanned<String>,
    pub(super) copy: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) hook: Vec<ScenarioHookToml>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioStepToml {
    pub(super) person: Option<String>,
    pub(super) session: Option<SessionStep>,
    pub(super) screen: Option<String>,
    pub(super) keys: Option<Vec<String>>,
    pub(super) shell: Option<String>,
    pub(super) asks: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) agent: Option<String>,
    #[serde(default)]
    pub(super) tools: Vec<Spanned<ScriptedToolCallToml>>,
    pub(super) usage: Option<ScriptedUsageToml>,
    pub(super) error: Option<ScriptedApiErrorToml>,
    #[serde(default)]
    pub(super) delay_ms: u64,
    pub(super) repeat: Option<Spanned<TurnRepeatToml>>,
    pub(super) stop_reason: Option<String>,
    pub(super) interrupt: Option<TurnInterrupt>,
    pub(super) crash: Option<Spanned<TurnCrashToml>>,
    pub(super) hang: Option<Spanned<TurnHang>>,
    pub(super) rate_limit: Option<Spanned<ScriptedRateLimitToml>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a point in a turn, or { at = \"…\", exit = 1 }")]
pub(super) enum TurnCrashToml {
    Killed(TurnPoint),
    Exits(TurnCrashExitToml),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnCrashExitToml {
    pub(super) at: TurnPoint,
    pub(super) exit: u8,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedRateLimitToml {
    pub(super) status: Option<Spanned<String>>,
    pub(super) r#type: Option<String>,
    pub(super) resets_in_ms: Option<u64>,
    pub(super) used_percent: Option<u8>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number of times, or \"forever\"")]
pub(super) enum TurnRepeatToml {
    Times(u32),
    Forever(ForeverToml),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ForeverToml {
    Forever,
}

/// Has exactly one of `run`, `write`, `edit`, `read`, `agent` and `tool`, with the keys that belong to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedToolCallToml {
    pub(super) run: Option<String>,
    pub(super) write: Option<String>,
    pub(super) text: Option<String>,
    pub(super) edit: Option<String>,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
    pub(super) read: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) background: Option<bool>,
    pub(super) tool: Option<String>,
    pub(super) input: Option<Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedUsageToml {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_creation: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedApiErrorToml {
    pub(super) status: Spanned<u16>,
    pub(super) r#type: String,
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedSubagentToml {
    pub(super) prompt: String,
    #[serde(default)]
    pub(super) step: Vec<Spanned<ScenarioStepToml>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioExpectationsToml {
    pub(super) endings: Option<Vec<Spanned<String>>>,
    pub(super) results: Option<Spanned<Vec<String>>>,
    pub(super) stops: Option<Spanned<u64>>,
    pub(super) blocks: Option<Spanned<u64>>,
    pub(super) requests: Option<Spanned<u64>>,
    pub(super) reasons: Option<Spanned<Vec<String>>>,
    pub(super) events: Option<Vec<Spanned<String>>>,
    pub(super) exit: Option<i32>,
    #[serde(default)]
    pub(super) files: BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    pub(super) says: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) absent: Vec<Spanned<String>>,
    pub(super) screen: Option<Spanned<Vec<String>>>,
    pub(super) status: Option<Spanned<String>>,
    pub(super) iterations: Option<Spanned<u64>>,
    pub(super) sessions: Option<Spanned<u64>>,
    pub(super) output: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) told: BTreeMap<Spanned<String>, u64>,
}
