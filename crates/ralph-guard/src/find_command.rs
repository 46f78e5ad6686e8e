//! `find` and `fd`: which guarded paths they would find, and what they would do with them.

use super::DeniedCall;
use super::guarded_path::{PathPattern, PathUse, guarded_paths_below};
use super::options::CommandArg;
use super::script_walk::{PipeFeed, ShellState};
use super::simple_command::{self, ShellCommand};
use super::word_expansion::WordSpelling;
use alloc::string::String;
use alloc::vec::Vec;

/// The paths that `find` may find: anything below its roots, and guarded paths whose names it searches for.
pub(super) fn find_results(args: &[CommandArg<'_>], shell: &ShellState<'_>) -> Vec<WordSpelling> {
    let start = args
        .iter()
        .position(|arg| !matches!(arg.text.as_str(), "-H" | "-L" | "-P"))
        .unwrap_or(args.len());
    let args = args.get(start..).unwrap_or_default();
    let is_expression = |arg: &CommandArg<'_>| {
        arg.text.starts_with('-') || matches!(arg.text.as_str(), "(" | "!" | ")")
    };
    let end = args.iter().position(is_expression).unwrap_or(args.len());
    let (roots, expression) = args.split_at(end);
    let here = [CommandArg::literal(".")];
    let roots = if roots.is_empty() { &here[..] } else { roots };
    let names = searched_names(expression);
    let mut out = Vec::new();
    for spelling in roots.iter().flat_map(|root| &root.spellings) {
        let Some(place) = PathPattern::resolve(spelling, shell.directory.as_ref()) else {
            continue;
        };
        if let Some(names) = &names {
            out.extend(guarded_paths_below(&place, names, shell.ground));
        }
        let mut below = place.spelling();
        below.text.push('/');
        below.is_open = true;
        out.push(below);
    }
    out
}

/// The names that are searched for; `None` if other conditions make the result unpredictable.
fn searched_names(expression: &[CommandArg<'_>]) -> Option<Vec<WordSpelling>> {
    let mut names = Vec::new();
    let mut rest = expression.iter();
    while let Some(arg) = rest.next() {
        match arg.text.as_str() {
            "-name" => names.extend(rest.next()?.spellings.iter().map(activate_wildcards)),
            "-type" => drop(rest.next()),
            "-o" | "-a" | "(" | ")" | "-print" | "-print0" | "-delete" => {}
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                rest.find(|arg| matches!(arg.text.as_str(), ";" | "+"));
            }
            _ => return None,
        }
    }
    Some(names)
}

/// Makes quoted wildcards active, because `find` expands them itself.
fn activate_wildcards(spelling: &WordSpelling) -> WordSpelling {
    WordSpelling { text: spelling.plain(), is_open: spelling.is_open }
}

pub(super) fn judge_find(args: &[CommandArg<'_>], shell: &ShellState<'_>) -> Option<DeniedCall> {
    let found = find_results(args, shell);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let objection = match arg.text.as_str() {
            "-delete" => shell.objection(PathUse::Remove, &found, "find -delete"),
            "-fprint" => rest
                .next()
                .and_then(|file| shell.objection(PathUse::Write, &file.spellings, "find")),
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let words = rest.by_ref().take_while(|arg| !matches!(arg.text.as_str(), ";" | "+"));
                let args = words.map(|arg| fill_placeholder(arg, &found)).collect();
                let command = ShellCommand { args, ..ShellCommand::default() };
                shell.nested().and_then(|mut shell| {
                    simple_command::judge_command(command, &mut shell, &PipeFeed::default())
                })
            }
            _ => None,
        };
        if objection.is_some() {
            return objection;
        }
    }
    None
}

/// `fd`, which passes its results to the command at the end of its arguments.
pub(super) fn judge_fd(args: &[CommandArg<'_>], shell: &ShellState<'_>) -> Option<DeniedCall> {
    let is_mark = |arg: &CommandArg<'_>| matches!(arg.text.as_str(), "-x" | "-X");
    let (search, command) = args.split_at(args.iter().position(is_mark)?);
    let paths = search.iter().filter(|arg| !arg.text.starts_with('-'));
    let found: Vec<WordSpelling> = paths.flat_map(|arg| arg.spellings.clone()).collect();
    let mut args: Vec<CommandArg<'_>> =
        command.iter().skip(1).map(|arg| fill_placeholder(arg, &found)).collect();
    if !command.iter().any(|arg| arg.text.contains("{}")) {
        args.push(fill_placeholder(&CommandArg::literal("{}"), &found));
    }
    let command = ShellCommand { args, ..ShellCommand::default() };
    simple_command::judge_command(command, &mut shell.nested()?, &PipeFeed::default())
}

fn fill_placeholder<'a>(arg: &CommandArg<'a>, found: &[WordSpelling]) -> CommandArg<'a> {
    if arg.text == "{}" {
        let text = found.first().map(WordSpelling::plain).unwrap_or_default();
        return CommandArg { text, spellings: found.to_vec(), commands: Vec::new() };
    }
    let mut arg = arg.clone();
    if let Some(first) = found.first().filter(|_| arg.text.contains("{}")) {
        let path: String = first.plain();
        arg.text = arg.text.replace("{}", path.trim_end_matches('/'));
    }
    arg
}
