//! Denies commands and variables that loosen ralph's hold without touching a file: its variables, calls of a host,
//! commands reserved for people, and killing ralph. Ralph's own subcommands are in `ralph_subcommands`.

use super::denial_text::deny;
use super::options::CommandArg;
use super::script_walk::{PipeFeed, ShellState};
use super::simple_command::{ShellCommand, program_name};
use super::{DeniedCall, GuardContext, GuardScope, GuardTarget};
use alloc::format;
use ralph_host::{HOSTS, HostProfile};

/// Judges setting a variable for this shell and everything it starts.
pub(super) fn judge_variable(
    name: &str,
    value: &str,
    ground: &GuardContext<'_>,
) -> Option<DeniedCall> {
    if ground.scope == GuardScope::HomeOnly {
        return None;
    }
    let what = match name {
        "RALPH_OFF" if !value.is_empty() && value != "0" => GuardTarget::Loosening,
        "RALPH_HOME" if !value.is_empty() && !is_ralph_home(value, ground) => {
            GuardTarget::Loosening
        }
        _ if is_agent_shell_variable(name) && (value.is_empty() || value == "0") => {
            GuardTarget::Loosening
        }
        "HUSKY" if value == "0" => GuardTarget::GitHooks,
        "HUSKY_SKIP_HOOKS" if !value.is_empty() && value != "0" => GuardTarget::GitHooks,
        "LEFTHOOK" if value == "0" || value == "false" => GuardTarget::GitHooks,
        _ => return None,
    };
    Some(deny(what, &format!("{name}={value}"), ""))
}

fn is_ralph_home(value: &str, ground: &GuardContext<'_>) -> bool {
    let value = value.trim_end_matches('/');
    let tilde =
        value.strip_prefix('~').zip(ground.user_home).map(|(rest, home)| format!("{home}{rest}"));
    ground.ralph_homes.iter().any(|home| *home == value || tilde.as_deref() == Some(home))
}

/// Whether a host marks its agent's shells with this variable.
fn is_agent_shell_variable(name: &str) -> bool {
    HOSTS.iter().any(|host| host.variables.agent_shell == name)
}

/// Judges unsetting a variable.
pub(super) fn judge_unset(how: &str, name: &str, ground: &GuardContext<'_>) -> Option<DeniedCall> {
    (is_agent_shell_variable(name) && ground.scope == GuardScope::Run)
        .then(|| deny(GuardTarget::Loosening, how, name))
}

/// Judges the variables that are set for one command.
pub(super) fn judge_environment(
    program: &str,
    command: &ShellCommand<'_>,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    if shell.ground.scope == GuardScope::HomeOnly {
        return None;
    }
    let argument = command.args.get(1).map_or("", |arg| arg.text.as_str());
    // `HUSKY=0 npm ci` only skips the installation of hooks.
    let is_install = matches!(program, "npm" | "pnpm" | "yarn" | "bun")
        && matches!(argument, "" | "ci" | "install" | "i" | "add" | "--frozen-lockfile");
    let is_held = program == "ralph" || HOSTS.iter().any(|host| host.program == program);
    if command.is_environment_cleared && is_held {
        return Some(deny(GuardTarget::Loosening, &format!("env -i {program}"), ""));
    }
    for (name, value) in &command.environment {
        if name.starts_with("GIT_CONFIG_") && value.to_ascii_lowercase().contains("core.hookspath")
        {
            return Some(deny(GuardTarget::GitHooks, &format!("{name}={value}"), ""));
        }
        let found = judge_variable(name, value, shell.ground);
        if let Some(found) =
            found.filter(|found| found.target != GuardTarget::GitHooks || !is_install)
        {
            return Some(found);
        }
    }
    None
}

/// Judges a call of a host in the agent's shell: the prompts of such a session would count as typed by a person.
pub(super) fn judge_host_command(
    host: &HostProfile,
    command: &ShellCommand<'_>,
) -> Option<DeniedCall> {
    let (program, known) = (host.program, &host.command_line);
    let args = command.args.get(1..).unwrap_or_default();
    let has = |words: &[&str]| args.iter().any(|arg| words.contains(&arg.text.as_str()));
    let first = args.iter().map(|arg| arg.text.as_str()).find(|text| !text.starts_with('-'));
    match first {
        Some(first) if known.plugin_commands.contains(&first) => {
            let is_ours =
                args.iter().any(|arg| arg.text == "ralph" || arg.text.starts_with("ralph@"));
            return (has(known.plugin_removals) && is_ours)
                .then(|| deny(GuardTarget::Settings, &format!("{program} plugin"), "ralph"));
        }
        Some(first) if known.other_commands.contains(&first) => return None,
        Some(_) | None => {}
    }
    let texts = args.iter().map(|arg| arg.text.as_str()).chain(command.input.as_deref());
    for text in texts {
        if let Some(typed) = person_command(text.trim_start()) {
            return Some(deny(GuardTarget::PersonCommand, &format!("{program} /{typed}"), ""));
        }
    }
    let is_resuming = |text: &str| {
        let long = |flag: &&str| {
            flag.starts_with("--")
                && text.strip_prefix(*flag).is_some_and(|rest| rest.starts_with('='))
        };
        known.resume_flags.contains(&text) || known.resume_flags.iter().any(long)
    };
    let resumes = args.iter().find(|arg| is_resuming(&arg.text));
    resumes
        .map(|option| deny(GuardTarget::PersonCommand, &format!("{program} {}", option.text), ""))
}

/// The command name in `/ralph:cancel …`, if only a person may give it.
pub(super) fn person_command(text: &str) -> Option<&str> {
    let typed = text.strip_prefix('/')?;
    let name = typed.split(char::is_whitespace).next()?;
    is_person_command(name).then_some(name)
}

/// Commands `/ralph:…` that only a person may give.
const PERSON_COMMANDS: [&str; 16] = [
    "approve",
    "cancel",
    "pause",
    "resume",
    "tell",
    "waive",
    "limits",
    "goal",
    "loop",
    "start",
    "trust",
    "init",
    "uninstall",
    "orchestrator",
    "ralph-loop",
    "cancel-ralph",
];

pub(super) fn is_person_command(command: &str) -> bool {
    match command.split_once(':') {
        Some(("ralph", name)) => PERSON_COMMANDS.contains(&name),
        Some(("ralph-loop" | "ralph-wiggum", name)) => name != "help",
        Some(_) => false,
        None => matches!(command, "ralph-loop" | "cancel-ralph"),
    }
}

/// Whether a command searches for ralph's processes.
pub(super) fn searches_for_ralph(program: &str, args: &[CommandArg<'_>]) -> bool {
    matches!(program_name(program), "pgrep" | "pidof" | "grep")
        && args.iter().any(|arg| matches_ralph_process(&arg.text))
}

fn matches_ralph_process(pattern: &str) -> bool {
    let pattern = pattern.trim_start_matches(['^', '[']).trim_end_matches('$').replace(']', "");
    pattern == "ralph"
        || pattern.ends_with("/ralph")
        || pattern.starts_with("ralph hook")
        || pattern.starts_with("ralph gate")
}

pub(super) fn judge_kill(
    program: &str,
    args: &[CommandArg<'_>],
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    let is_by_name = matches!(program, "pkill" | "killall");
    let is_asked = |command: &str| {
        ["pgrep", "pidof"].iter().any(|tool| command.contains(tool))
            && command
                .split_whitespace()
                .any(|word| matches_ralph_process(word.trim_matches(['\'', '"'])))
    };
    let is_ours = is_by_name && args.iter().any(|arg| matches_ralph_process(&arg.text))
        || feed.is_about_processes
        || args.iter().any(|arg| arg.commands.iter().any(|command| is_asked(command)));
    is_ours.then(|| deny(GuardTarget::Loosening, program, "ralph"))
}
