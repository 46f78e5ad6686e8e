//! Judges an agent's tool calls before they run. During a run, the agent must not touch ralph's home, the sealed
//! policy, protected files, the settings that make the host call ralph, or git's hooks, nor give commands reserved for
//! people.
//!
//! This is a safety net, not a sandbox. An agent can always write a program that writes the file; the seal and the
//! journal's hash chain detect that later (R-S4a). So a doubtful call is allowed: missing a trick is better than
//! blocking honest work. Symbolic links are not followed, because nothing here reads the disk: pass every spelling of a
//! path in [`GuardContext`].
//!
//! Restoring a protected file with `git checkout` or `git restore` is allowed. The result is compared with the seal
//! anyway, and an agent must be able to undo its own edit.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod denial_text;
mod detached_command;
mod file_programs;
mod find_command;
mod git_command;
mod guarded_path;
mod inline_script;
mod lookahead;
mod loosening;
mod options;
mod prescan;
mod ralph_subcommands;
mod script_walk;
mod shell_lexer;
mod simple_command;
mod tool_call;
mod word_expansion;

use alloc::string::String;
use ralph_host::HostProfile;
use serde_json::value::RawValue;

pub use ralph_subcommands::{RALPH_SUBCOMMANDS, SubcommandAccess};
pub use tool_call::judge_call;

/// What is guarded, and where the agent's shell is. Paths are absolute.
#[derive(Clone, Copy)]
pub struct GuardContext<'a> {
    /// The host whose agent calls the tool.
    pub host: &'static HostProfile,
    /// Ralph's home, in every spelling that leads to it.
    pub ralph_homes: &'a [&'a str],
    /// Directories in it where the agent may record its progress. Such records are claims, never evidence.
    pub claims: &'a [&'a str],
    pub user_home: Option<&'a str>,
    pub project: &'a str,
    /// The working directory of the agent's shell.
    pub cwd: &'a str,
    /// Files, or directories with everything in them, that control whether the host still calls ralph.
    pub settings: &'a [&'a str],
    pub policy_files: &'a [&'a str],
    /// Called with paths relative to the project, separated by `/`. The agent's wildcards are passed as they are
    /// written. A directory that would be removed as a whole is also passed as `directory/_`.
    pub is_protected: &'a dyn Fn(&str) -> bool,
    pub scope: GuardScope,
}

impl core::fmt::Debug for GuardContext<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("GuardContext")
            .field("ralph_homes", &self.ralph_homes)
            .field("project", &self.project)
            .field("cwd", &self.cwd)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// How much is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardScope {
    /// This session has no run: only ralph's home and the given settings are guarded.
    HomeOnly,
    Run,
}

/// A tool call that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct GuardedCall<'a> {
    pub tool: &'a str,
    pub input: &'a RawValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedCall {
    pub target: GuardTarget,
    /// For the agent: what was denied, why, and what to do instead.
    pub reason: String,
}

/// What the agent was about to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardTarget {
    /// Ralph's own files.
    Home,
    /// The key that seals the cache. It must not even be read.
    Key,
    Settings,
    Policy,
    Protected,
    /// Skipping git's hooks.
    GitHooks,
    /// Changes hidden from git.
    HiddenChanges,
    /// Checkpoints below `refs/ralph`.
    CheckpointRefs,
    /// A command or variable that loosens ralph's hold.
    Loosening,
    /// A command that only a person may give.
    PersonCommand,
}

impl GuardTarget {
    pub const ALL: [Self; 10] = [
        Self::Home,
        Self::Key,
        Self::Settings,
        Self::Policy,
        Self::Protected,
        Self::GitHooks,
        Self::HiddenChanges,
        Self::CheckpointRefs,
        Self::Loosening,
        Self::PersonCommand,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Key => "key",
            Self::Settings => "settings",
            Self::Policy => "policy",
            Self::Protected => "protected",
            Self::GitHooks => "git_hooks",
            Self::HiddenChanges => "hidden",
            Self::CheckpointRefs => "refs",
            Self::Loosening => "loosening",
            Self::PersonCommand => "channel",
        }
    }
}
