//! What an agent may not touch while a run holds it, seen before the tool runs: ralph's home, the sealed policy,
//! protected files, the settings that call ralph, git's hooks, and the commands that are a person's.
//!
//! A seat belt, not a sandbox. An agent can always write a program that writes the file; the seal and the
//! journal's chain notice that later (R-S4a). So a doubt is no objection: rather miss a trick than stop honest
//! work. Symbolic links are not followed, since nothing here reads a disk: give [`Ground`] every spelling of a path.
//!
//! Putting a protected file back with `git checkout` or `git restore` is fine: what it came to is compared with
//! the seal anyway, and an agent that undoes its own edit should not be held up.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ahead;
mod command;
mod find;
mod git;
mod lexer;
mod loosening;
mod options;
mod place;
mod scan;
mod script;
mod tool;
mod walk;
mod word;
mod wording;
mod writes;

use alloc::string::String;
use serde_json::value::RawValue;

/// What is guarded, and from where the agent looks at it. Paths are absolute.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// Where ralph keeps its state, in every spelling that leads there.
    pub ralph_homes: &'a [&'a str],
    /// Where in it the agent says how far it is. What it writes there is a claim, and no claim counts as evidence.
    pub claims: &'a [&'a str],
    pub user_home: Option<&'a str>,
    pub project: &'a str,
    /// Where the agent's shell stands.
    pub cwd: &'a str,
    /// Files, or directories with all that is in them, that decide whether the host still calls ralph.
    pub settings: &'a [&'a str],
    pub policy_files: &'a [&'a str],
    /// Asked about paths below the project, with `/` between names. A wildcard of the agent's is asked about as it
    /// is written, a directory that goes as a whole also as `directory/_`.
    pub is_protected: &'a dyn Fn(&str) -> bool,
    pub scope: Scope,
}

impl core::fmt::Debug for Ground<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_struct("Ground")
            .field("ralph_homes", &self.ralph_homes)
            .field("project", &self.project)
            .field("cwd", &self.cwd)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// No run holds this session: only ralph's home and the given settings are guarded.
    HomeOnly,
    Run,
}

/// A tool that is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub tool: &'a str,
    pub input: &'a RawValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub what: What,
    /// What, why, and what to do instead.
    pub reason: String,
}

/// What the agent was about to touch: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Ralph's own files.
    Home,
    /// What seals the cache; not even to be read.
    Key,
    Settings,
    Policy,
    Protected,
    /// Git's hooks, passed by.
    GitHooks,
    /// Changes hidden from git.
    Hidden,
    /// Checkpoints below `refs/ralph`.
    Refs,
    /// A command or variable that loosens ralph's hold.
    Loosening,
    /// Words put into a person's mouth.
    Channel,
}

impl What {
    pub const ALL: [Self; 10] = [
        Self::Home,
        Self::Key,
        Self::Settings,
        Self::Policy,
        Self::Protected,
        Self::GitHooks,
        Self::Hidden,
        Self::Refs,
        Self::Loosening,
        Self::Channel,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Key => "key",
            Self::Settings => "settings",
            Self::Policy => "policy",
            Self::Protected => "protected",
            Self::GitHooks => "git_hooks",
            Self::Hidden => "hidden",
            Self::Refs => "refs",
            Self::Loosening => "loosening",
            Self::Channel => "channel",
        }
    }
}

/// Whether this call is to be denied, and why; `None` where there is nothing to object to.
pub fn judge(call: &Call<'_>, ground: &Ground<'_>) -> Option<Denied> {
    tool::judge(call, ground)
}
