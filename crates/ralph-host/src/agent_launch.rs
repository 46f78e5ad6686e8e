//! How a runner starts an agent of a host.

use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::drive::{DriveSettings, SessionOrigin};
use ralph_core::id::SessionId;

/// The command line and environment of an agent that a runner starts.
#[derive(Debug)]
pub struct LaunchProfile {
    /// The arguments after the program's name.
    pub arguments: fn(&DriveSettings, &AgentLaunch<'_>) -> Vec<String>,
    /// The arguments of an agent that reads the project and changes nothing.
    pub planner_arguments: fn(&PlannerLaunch<'_>) -> Vec<String>,
    /// The arguments of an agent that judges: one answer to the prompt on stdin, printed as one line of the stream.
    pub judge_arguments: fn(&JudgeLaunch<'_>) -> Vec<String>,
    /// Variables of an agent that judges, in addition.
    pub judge_variables: &'static [(&'static str, &'static str)],
    /// Variables that would change how the client behaves or make it believe that it runs inside another session.
    pub removed_variables: &'static [&'static str],
    /// Variables that every driven client gets.
    pub added_variables: &'static [(&'static str, &'static str)],
    /// Prefixes of variables that explain how the client behaved, so their values are recorded.
    pub recorded_prefixes: &'static [&'static str],
}

/// The part of a command line that differs from one process of a run to the next.
#[derive(Clone, Debug)]
pub struct AgentLaunch<'a> {
    pub session: &'a SessionId,
    pub how: SessionOrigin,
    pub model: Option<&'a str>,
    pub max_budget_usd: Option<&'a str>,
    pub block_cap: u32,
}

/// The command line of an agent that plans: it may read the project, but it has no tool that writes or runs anything,
/// and nothing of the project's own settings starts with it.
#[derive(Clone, Copy, Debug)]
pub struct PlannerLaunch<'a> {
    pub session: &'a SessionId,
    pub model: Option<&'a str>,
    pub max_budget_usd: Option<&'a str>,
}

/// The command line of an agent that judges. Neither hooks nor instructions of the project or the user reach it.
#[derive(Clone, Copy, Debug)]
pub struct JudgeLaunch<'a> {
    pub model: Option<&'a str>,
    pub max_budget_usd: Option<&'a str>,
    /// Whether it may read the files of its working directory.
    pub may_read: bool,
    /// In place of the client's own system prompt, which is long.
    pub system_prompt: &'a str,
}
