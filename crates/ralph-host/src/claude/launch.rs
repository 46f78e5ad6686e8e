//! The command line and environment of a driven Claude Code.

use super::BLOCK_CAP_VARIABLE;
use crate::agent_launch::{AgentLaunch, JudgeLaunch, LaunchProfile, PlannerLaunch};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::drive::{DriveSettings, SessionOrigin};

pub(super) const LAUNCH: LaunchProfile = LaunchProfile {
    arguments,
    planner_arguments,
    judge_arguments,
    judge_variables: &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")],
    removed_variables: &[
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_PID",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SIMPLE",
    ],
    added_variables: &[("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1")],
    recorded_prefixes: &["ANTHROPIC_", "CLAUDE_"],
};

/// R-H4e: either `--session-id` or `--resume` is given; a fork has both, with different ids.
fn arguments(settings: &DriveSettings, launch: &AgentLaunch<'_>) -> Vec<String> {
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    add(&["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    match (launch.how, &settings.from) {
        (SessionOrigin::Forked, Some(from)) => add(&[
            "--resume",
            from.as_str(),
            "--fork-session",
            "--session-id",
            launch.session.as_str(),
        ]),
        (SessionOrigin::Fresh | SessionOrigin::Forked, _) => {
            add(&["--session-id", launch.session.as_str()]);
        }
        (SessionOrigin::Resumed, _) => add(&["--resume", launch.session.as_str()]),
    }
    if let Some(model) = launch.model {
        add(&["--model", model]);
    }
    if let Some(most) = launch.max_budget_usd {
        add(&["--max-budget-usd", most]);
    }
    let is_settings = |word: &String| word == "--settings" || word.starts_with("--settings=");
    if !settings.arguments.iter().any(is_settings) {
        // The project's settings override the environment, and `--settings` overrides those.
        let cap = format!("{{\"env\":{{\"{BLOCK_CAP_VARIABLE}\":\"{}\"}}}}", launch.block_cap);
        add(&["--settings", &cap]);
    }
    arguments.extend(settings.arguments.iter().cloned());
    arguments
}

/// Without a tool that writes, the agent can only read. The client's own plan mode is not used: it asks the agent to end
/// with a call of another tool. Hooks and servers of a project are commands of the repository, so only the user's own
/// settings are read. The session is not stored, because it would appear among the person's own.
fn planner_arguments(launch: &PlannerLaunch<'_>) -> Vec<String> {
    let mut arguments: Vec<&str> =
        ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
            .into();
    arguments.extend(["--session-id", launch.session.as_str(), "--no-session-persistence"]);
    arguments.extend(["--permission-mode", "dontAsk", "--tools", "Read,Grep,Glob"]);
    arguments.extend(["--setting-sources", "user", "--strict-mcp-config"]);
    arguments.extend(launch.model.into_iter().flat_map(|model| ["--model", model]));
    arguments.extend(launch.max_budget_usd.into_iter().flat_map(|most| ["--max-budget-usd", most]));
    arguments.into_iter().map(ToOwned::to_owned).collect()
}

/// Safe mode ignores `CLAUDE.md`, skills, plugins, servers and agents: the change under review may contain any of them, and
/// they would be instructions to the judge. Hooks are turned off twice, because only the second way is documented for
/// hooks of all sources. A judge that may read files needs a turn for each round of tool calls.
fn judge_arguments(launch: &JudgeLaunch<'_>) -> Vec<String> {
    let (tools, turns) = if launch.may_read { ("Read,Grep,Glob", "30") } else { ("", "1") };
    let mut arguments: Vec<&str> = ["-p", "--output-format", "json", "--safe-mode"].into();
    arguments.extend(["--settings", "{\"disableAllHooks\":true}", "--setting-sources", "user"]);
    arguments.extend(["--strict-mcp-config", "--disable-slash-commands"]);
    arguments.extend(["--no-session-persistence", "--permission-mode", "dontAsk"]);
    arguments.extend(["--tools", tools, "--max-turns", turns]);
    arguments.extend(["--system-prompt", launch.system_prompt]);
    arguments.extend(launch.model.into_iter().flat_map(|model| ["--model", model]));
    arguments.extend(launch.max_budget_usd.into_iter().flat_map(|most| ["--max-budget-usd", most]));
    arguments.into_iter().map(ToOwned::to_owned).collect()
}
