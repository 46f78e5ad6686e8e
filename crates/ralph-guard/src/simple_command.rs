//! Judges one simple command: strips wrappers such as `sudo`, `env` and `xargs`, then dispatches by program.

use super::guarded_path::PathUse;
use super::options::CommandArg;
use super::script_walk::{PipeFeed, ShellState};
use super::word_expansion::WordSpelling;
use super::{
    DeniedCall, GuardScope, detached_command, file_programs, git_command, inline_script, loosening,
    ralph_subcommands,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_host::HOSTS;

/// The most wrappers to strip, as in `sudo env nice … rm`. No honest command has more.
const MAX_WRAPPERS: usize = 16;

#[derive(Debug, Default)]
pub(super) struct ShellCommand<'a> {
    /// The program and its arguments.
    pub(super) args: Vec<CommandArg<'a>>,
    pub(super) environment: Vec<(String, String)>,
    /// By `env -i`.
    pub(super) is_environment_cleared: bool,
    /// Its standard input, if it is known.
    pub(super) input: Option<String>,
}

/// The program without its directory.
pub(super) fn program_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

pub(super) fn judge_command(
    mut command: ShellCommand<'_>,
    shell: &mut ShellState<'_>,
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    if let Some(found) = strip_wrappers(&mut command, shell, feed) {
        return Some(found);
    }
    let program = String::from(program_name(&command.args.first()?.text));
    let environment = loosening::judge_environment(&program, &command, shell);
    let is_detaching = detached_command::is_detaching(&program);
    environment
        .or_else(|| is_detaching.then(|| detached_command::judge_detached(&command, shell))?)
        .or_else(|| judge_builtin(&program, &command, shell, feed))
        .or_else(|| judge_by_program(&program, &command, shell, feed))
        .or_else(|| judge_key_read(&program, &command, shell))
}

fn judge_by_program(
    program: &str,
    command: &ShellCommand<'_>,
    shell: &ShellState<'_>,
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    let args = command.args.get(1..).unwrap_or_default();
    match program {
        "bash" | "sh" | "zsh" | "su" | "script" => judge_shell_program(command, shell),
        // `watch` passes its remaining arguments to a shell.
        "watch" => {
            let script = command.args.get(end_of_options(&command.args, "nq")..)?;
            shell.judge_nested_script(&join_args(script))
        }
        "git" => git_command::judge_git(command, shell, feed),
        "ralph" if shell.ground.scope == GuardScope::Run => {
            ralph_subcommands::judge_ralph_command(args)
        }
        "kill" | "pkill" | "killall" if shell.ground.scope == GuardScope::Run => {
            loosening::judge_kill(program, args, feed)
        }
        _ if shell.ground.scope == GuardScope::Run
            && let Some(host) = HOSTS.iter().find(|host| host.program == program) =>
        {
            loosening::judge_host_command(host, command)
        }
        _ => file_programs::judge_file_program(program, args, shell)
            .or_else(|| inline_script::judge_interpreter(program, command, shell)),
    }
}

/// Commands that the shell itself executes.
fn judge_builtin(
    program: &str,
    command: &ShellCommand<'_>,
    shell: &mut ShellState<'_>,
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    let args = command.args.get(1..).unwrap_or_default();
    let mut operands = args.iter().filter(|arg| !arg.text.starts_with('-') || arg.text == "-");
    match program {
        "cd" | "pushd" => shell.change_directory(operands.next()),
        "popd" => shell.pop_directory(),
        "eval" => return shell.judge_in_this_shell(&join_args(args)),
        "trap" => {
            return operands.next().and_then(|script| shell.judge_nested_script(&script.text));
        }
        "export" | "declare" | "local" => {
            for arg in operands {
                let Some((name, value)) = arg.text.split_once('=') else { continue };
                if let Some(found) = loosening::judge_variable(name, value, shell.ground) {
                    return Some(found);
                }
                let value = arg.spellings_after(&format!("{name}="), shell);
                shell.assign(name, value);
            }
        }
        "unset" => {
            for arg in operands {
                if let Some(found) = loosening::judge_unset("unset", &arg.text, shell.ground) {
                    return Some(found);
                }
                shell.set_unknown(&arg.text);
            }
        }
        "read" => {
            for arg in operands {
                shell.assign(&arg.text, feed.paths.clone());
            }
        }
        "for" => {
            let mut operands = args.iter();
            let name = operands.next()?;
            let values = operands.skip(1).flat_map(|arg| arg.spellings.clone()).take(256);
            let values: Vec<WordSpelling> = values.collect();
            shell.assign(&name.text, values);
        }
        _ => {}
    }
    None
}

/// Denies programs that would read the key. Those that show only names and sizes are allowed.
fn judge_key_read(
    program: &str,
    command: &ShellCommand<'_>,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let args = command.args.get(1..).unwrap_or_default();
    let is_search = matches!(program, "grep" | "rg" | "sed" | "awk" | "jq");
    let skipped = match program {
        "ls" | "stat" | "test" | "[" | "[[" | "file" | "echo" | "printf" | "dirname"
        | "basename" | "cd" | "du" | "wc" | "for" | "export" | "case" => return None,
        _ if is_search => args
            .iter()
            .position(|arg| !arg.text.starts_with('-'))
            .map_or(args.len(), |first| first + 1),
        _ => 0,
    };
    args.iter().skip(skipped).find_map(|arg| {
        let is_wide = |spelling: &&WordSpelling| is_search && spelling.text.ends_with("/*");
        let read: Vec<WordSpelling> =
            arg.spellings.iter().filter(|spelling| !is_wide(spelling)).cloned().collect();
        shell.objection(PathUse::Read, &read, program)
    })
}

fn judge_shell_program(command: &ShellCommand<'_>, shell: &ShellState<'_>) -> Option<DeniedCall> {
    let args = command.args.get(1..).unwrap_or_default();
    if let Some(script) = argument_after_option(args, 'c') {
        return shell.judge_nested_script(script);
    }
    let is_fed = args.iter().all(|arg| arg.text.starts_with('-'));
    command.input.as_deref().filter(|_| is_fed).and_then(|script| shell.judge_nested_script(script))
}

/// The argument after a short option, which may be combined with others: `-lc script`.
pub(super) fn argument_after_option<'a>(
    args: &'a [CommandArg<'_>],
    letter: char,
) -> Option<&'a str> {
    let mut rest = args.iter();
    rest.find(|arg| {
        arg.text
            .strip_prefix('-')
            .is_some_and(|letters| !letters.starts_with('-') && letters.ends_with(letter))
    })?;
    // `bash -c -e script`, `bash -c -- script`
    rest.map(|arg| arg.text.as_str()).find(|text| !text.starts_with('-'))
}

fn join_args(args: &[CommandArg<'_>]) -> String {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    texts.join(" ")
}

/// A program that runs the command in its arguments.
struct CommandWrapper {
    /// The letters of its options with a value.
    valued: &'static str,
    /// How many words come before the wrapped command.
    positional: usize,
}

fn command_wrapper(program: &str, next: &str) -> Option<CommandWrapper> {
    let (valued, positional) = match program {
        "sudo" => ("ugpCTUDRrth", 0),
        "doas" | "env" => ("uC", 0),
        "timeout" => ("sk", 1),
        "nice" => ("n", 0),
        "strace" => ("eo", 0),
        "xargs" => ("InPLdsaE", 0),
        // `command -v` only looks a program up.
        "command" if next != "-v" => ("", 0),
        "exec" => ("a", 0),
        "ionice" => ("cn", 0),
        "stdbuf" => ("ioe", 0),
        "time" | "nohup" | "setsid" | "builtin" | "busybox" => ("", 0),
        "uv" | "poetry" if next == "run" => ("", 1),
        _ => return None,
    };
    Some(CommandWrapper { valued, positional })
}

/// Strips wrappers from the command.
fn strip_wrappers(
    command: &mut ShellCommand<'_>,
    shell: &ShellState<'_>,
    feed: &PipeFeed,
) -> Option<DeniedCall> {
    for _ in 0..MAX_WRAPPERS {
        let program = String::from(program_name(&command.args.first()?.text));
        let next = command.args.get(1).map_or("", |arg| arg.text.as_str());
        let Some(wrapper) = command_wrapper(&program, next) else { break };
        let end = end_of_options(&command.args, wrapper.valued);
        let options: Vec<CommandArg<'_>> = command.args.drain(..end).collect();
        if program == "env"
            && let Some(found) = judge_env_options(&options, command, shell)
        {
            return Some(found);
        }
        while let Some((name, value)) =
            command.args.first().and_then(|arg| arg.text.split_once('='))
        {
            if !matches!(program.as_str(), "env" | "sudo" | "doas") {
                break;
            }
            command.environment.push((name.into(), value.into()));
            command.args.remove(0);
        }
        command.args.drain(..wrapper.positional.min(command.args.len()));
        if program == "xargs" {
            add_piped_paths(command, &options, feed);
        }
    }
    None
}

fn end_of_options(args: &[CommandArg<'_>], valued: &str) -> usize {
    let mut at = 1;
    while let Some(arg) = args.get(at).filter(|arg| arg.text.len() > 1 && arg.text.starts_with('-'))
    {
        at += 1;
        if arg.text == "--" {
            break;
        }
        let last = arg.text.chars().last().filter(|_| !arg.text.starts_with("--"));
        // `-n1` contains its value; in `-n 1` the next word is the value.
        if last.is_some_and(|letter| valued.contains(letter)) {
            at += 1;
        }
    }
    at.min(args.len())
}

fn judge_env_options(
    options: &[CommandArg<'_>],
    command: &mut ShellCommand<'_>,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    for (at, option) in options.iter().enumerate() {
        let next = options.get(at + 1).map_or("", |arg| arg.text.as_str());
        let text = option.text.as_str();
        let forgotten = match text {
            "-u" | "--unset" => Some(next),
            _ => text.strip_prefix("--unset=").or_else(|| text.strip_prefix("-u")),
        };
        if let Some(found) =
            forgotten.and_then(|name| loosening::judge_unset("env -u", name, shell.ground))
        {
            return Some(found);
        }
        command.is_environment_cleared |= matches!(text, "-i" | "-");
    }
    None
}

/// Adds the paths that `xargs` reads to the command that it runs.
fn add_piped_paths(command: &mut ShellCommand<'_>, options: &[CommandArg<'_>], feed: &PipeFeed) {
    let mark = options.iter().enumerate().find_map(|(at, option)| match option.text.as_str() {
        "-I" => options.get(at + 1).map(|arg| arg.text.clone()),
        text => text.strip_prefix("-I").map(String::from),
    });
    let Some(first) = feed.paths.first() else { return };
    let Some(mark) = mark.filter(|mark| !mark.is_empty()) else {
        command.args.push(CommandArg {
            text: first.plain(),
            spellings: feed.paths.clone(),
            commands: Vec::new(),
        });
        return;
    };
    for arg in &mut command.args {
        if arg.text == mark {
            arg.spellings.clone_from(&feed.paths);
        }
        arg.text = arg.text.replace(&mark, &first.plain());
    }
}
