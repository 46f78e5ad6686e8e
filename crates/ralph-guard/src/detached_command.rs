//! Programs that run a command in another terminal, at another time or with typed input. A command of a person does not
//! become the agent's because it runs there.

use super::DeniedCall;
use super::ralph_subcommands;
use super::script_walk::ShellState;
use super::simple_command::ShellCommand;
use alloc::string::String;
use alloc::vec::Vec;

/// How many mentions of ralph are judged in one command.
const MAX_MENTIONS: usize = 64;

pub(super) fn is_detaching(program: &str) -> bool {
    matches!(
        program,
        "tmux"
            | "screen"
            | "at"
            | "batch"
            | "crontab"
            | "systemd-run"
            | "expect"
            | "script"
            | "unbuffer"
            | "socat"
            | "dtach"
            | "abduco"
            | "zellij"
            | "nsenter"
            | "unshare"
    )
}

/// Judges every `ralph SUBCOMMAND` in the arguments and in the known input, also inside quotes.
pub(super) fn judge_detached(
    command: &ShellCommand<'_>,
    shell: &ShellState<'_>,
) -> Option<DeniedCall> {
    let args: Vec<&str> = command.args.iter().skip(1).map(|arg| arg.text.as_str()).collect();
    let texts = [args.join(" "), command.input.clone().unwrap_or_default()];
    texts.iter().find_map(|text| judge_mentions(text, shell))
}

fn judge_mentions(text: &str, shell: &ShellState<'_>) -> Option<DeniedCall> {
    let is_break = |char: char| char.is_whitespace() || "\"'`;&|(){}$:,\\".contains(char);
    let words: Vec<&str> = text.split(is_break).filter(|word| !word.is_empty()).collect();
    let mentions =
        words.iter().enumerate().filter(|(_, word)| word.rsplit('/').next() == Some("ralph"));
    mentions.take(MAX_MENTIONS).find_map(|(at, _)| {
        let rest = words.get(at + 1..)?;
        let first = rest.iter().find(|word| !word.starts_with('-'))?;
        if !ralph_subcommands::is_subcommand_or_group(first) {
            return None;
        }
        shell.judge_nested_script(&(String::from("ralph ") + &rest.join(" ")))
    })
}
