//! Checks that the project's policy can judge a run: policy file, approval, tools, git.

use std::ffi::OsStr;

use super::{Check, Scene};
use ralph_core::gate::{Command, Gate};
use ralph_core::limits::Limits;
use ralph_core::text;
use ralph_gates::gates::tools;
use ralph_git::git;
use ralph_home::faults::describe;
use ralph_policy::config::{self, Config, ConfigError};
use ralph_policy::trust;

/// Shell builtins and keywords, which are not programs.
const BUILT_IN: [&str; 20] = [
    ".", ":", "[", "case", "cd", "echo", "eval", "exec", "exit", "export", "false", "for", "if",
    "set", "source", "test", "time", "true", "until", "while",
];

#[derive(Debug)]
pub(super) struct Policy(Result<Config, ConfigError>);

pub(super) fn load(scene: &Scene<'_>) -> Policy {
    Policy(config::load(scene.project, scene.home))
}

impl Policy {
    /// The timeouts of all gates together.
    pub(super) fn gates_ms(&self) -> u64 {
        let gates = self.0.iter().flat_map(|config| &config.policy.gates);
        gates.fold(0, |total, gate| total.saturating_add(gate.timeout_ms))
    }

    pub(super) fn max_iterations(&self) -> Option<u32> {
        let limits = self.0.as_ref().map(|config| &config.policy.limits);
        limits.map_or(Limits::DEFAULT.max_iterations, |limits| limits.max_iterations)
    }
}

pub(super) fn checks(scene: &Scene<'_>, policy: &Policy) -> Vec<Check> {
    const NAME: &str = "policy";
    let repository = repository(scene);
    let config = match &policy.0 {
        Ok(config) => config,
        Err(error) => {
            let what = match error {
                ConfigError::Problems { first, .. } => first.first().map_or_else(
                    || error.to_string(),
                    |problem| format!("{error}, the first: {}", text::line(&problem.message, 200)),
                ),
                ConfigError::NoSuchProject(_)
                | ConfigError::Both(_)
                | ConfigError::LeadsOut(_)
                | ConfigError::File(_) => describe(error),
            };
            return vec![Check::bad(NAME, what).fix("`ralph config` shows where"), repository];
        }
    };
    let mut checks = Vec::new();
    match &config.file {
        Some(file) => {
            let count = config.policy.gates.len();
            let noun = if count == 1 { "gate" } else { "gates" };
            checks.push(Check::good(NAME, format!("`{}`, {count} {noun}", file.path.display())));
        }
        None => checks.push(
            Check::note(
                NAME,
                "the project has none, so a run is held only to what it was started with",
            )
            .fix("`ralph gate detect` proposes gates"),
        ),
    }
    checks.extend(approval(scene, config));
    checks.extend(missing_tools(scene, config));
    checks.push(repository);
    checks
}

fn approval(scene: &Scene<'_>, config: &Config) -> Option<Check> {
    const NAME: &str = "trust";
    match trust::subject(config) {
        Ok(subject) if !subject.needs_approval() => None,
        Ok(subject) if trust::is_approved(scene.home, &subject) => {
            Some(Check::good(NAME, "a person approved what the policy runs"))
        }
        Ok(_) => {
            let what = "the current policy is not approved, so no run can start with it";
            Some(Check::bad(NAME, what).fix("`ralph trust`"))
        }
        Err(error) => Some(Check::unclear(NAME, describe(&error))),
    }
}

/// Looks for the programs of the gates on the `PATH` that gates run with.
fn missing_tools(scene: &Scene<'_>, config: &Config) -> Option<Check> {
    const NAME: &str = "tools";
    if config.policy.gates.is_empty() {
        return None;
    }
    let subject = trust::subject(config).ok();
    let recorded = subject.and_then(|subject| trust::recorded_path(scene.home, &subject));
    let path = recorded.or_else(|| scene.env.search_path()).unwrap_or_default();
    let missing: Vec<_> = config
        .policy
        .gates
        .iter()
        .filter_map(|gate| {
            let tool = tool(gate)?;
            let directory = config.project.join(&gate.cwd);
            let is_there = tools::find(OsStr::new(tool), &directory, &path).is_some();
            (!is_there).then(|| {
                format!("`{}` for gate `{}`", text::line(tool, 80), text::line(&gate.name, 80))
            })
        })
        .collect();
    Some(if missing.is_empty() {
        Check::good(NAME, "every gate's program was found")
    } else {
        let what = format!("not found: {}", missing.join(", "));
        Check::bad(NAME, what).fix("install it, then `ralph trust` records its path")
    })
}

/// The program that a gate starts; `None` if only a shell could determine it.
fn tool(gate: &Gate) -> Option<&str> {
    match &gate.command {
        Command::Argv(words) => words.first().map(String::as_str),
        Command::Shell(line) => {
            let word = line.split_whitespace().next()?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
            (word.bytes().all(is_plain) && !BUILT_IN.contains(&word)).then_some(word)
        }
    }
}

fn repository(scene: &Scene<'_>) -> Check {
    const NAME: &str = "git";
    let path = scene.env.search_path().unwrap_or_default();
    if tools::find(OsStr::new("git"), scene.scratch, &path).is_none() {
        return Check::bad(NAME, "git is not on the `PATH`, so changes cannot be detected")
            .fix("install git");
    }
    match git::root(scene.project) {
        Some(root) => Check::good(NAME, format!("`{}` is a repository", root.display())),
        None => Check::note(
            NAME,
            "the project is not a git repository, which comparisons with the base need",
        )
        .fix("`git init`"),
    }
}
