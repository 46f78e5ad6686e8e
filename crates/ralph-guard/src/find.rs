//! `find` and `fd`: which guarded paths they would find, and what they would do with them.

use super::Denied;
use super::command::{self, Command};
use super::options::Arg;
use super::place::{Place, Touch, guarded_below};
use super::walk::{Feed, Shell};
use super::word::Spelling;
use alloc::string::String;
use alloc::vec::Vec;

/// The paths that `find` may find: anything below its roots, and guarded paths whose names it searches for.
pub(super) fn found(args: &[Arg<'_>], shell: &Shell<'_>) -> Vec<Spelling> {
    let start = args
        .iter()
        .position(|arg| !matches!(arg.text.as_str(), "-H" | "-L" | "-P"))
        .unwrap_or(args.len());
    let args = args.get(start..).unwrap_or_default();
    let is_expression =
        |arg: &Arg<'_>| arg.text.starts_with('-') || matches!(arg.text.as_str(), "(" | "!" | ")");
    let end = args.iter().position(is_expression).unwrap_or(args.len());
    let (roots, expression) = args.split_at(end);
    let here = [Arg::of(".")];
    let roots = if roots.is_empty() { &here[..] } else { roots };
    let names = names(expression);
    let mut out = Vec::new();
    for spelling in roots.iter().flat_map(|root| &root.spellings) {
        let Some(place) = Place::of(spelling, shell.directory.as_ref()) else { continue };
        if let Some(names) = &names {
            out.extend(guarded_below(&place, names, shell.ground));
        }
        let mut below = place.spelling();
        below.text.push('/');
        below.is_open = true;
        out.push(below);
    }
    out
}

/// The names that are searched for; `None` if other conditions make the result unpredictable.
fn names(expression: &[Arg<'_>]) -> Option<Vec<Spelling>> {
    let mut names = Vec::new();
    let mut rest = expression.iter();
    while let Some(arg) = rest.next() {
        match arg.text.as_str() {
            "-name" | "-iname" => names.extend(rest.next()?.spellings.iter().map(wild)),
            "-type" => drop(rest.next()),
            "-o" | "-or" | "-a" | "-and" | "(" | ")" | "-print" | "-print0" | "-depth"
            | "-delete" | "-ls" => {}
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                rest.find(|arg| matches!(arg.text.as_str(), ";" | "+"));
            }
            _ => return None,
        }
    }
    Some(names)
}

/// Makes quoted wildcards active, because `find` expands them itself.
fn wild(spelling: &Spelling) -> Spelling {
    Spelling { text: spelling.plain(), is_open: spelling.is_open }
}

pub(super) fn judge(args: &[Arg<'_>], shell: &Shell<'_>) -> Option<Denied> {
    let found = found(args, shell);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let objection = match arg.text.as_str() {
            "-delete" => shell.object(Touch::Remove, &found, "find -delete"),
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                rest.next().and_then(|file| shell.object(Touch::Write, &file.spellings, "find"))
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let words = rest.by_ref().take_while(|arg| !matches!(arg.text.as_str(), ";" | "+"));
                let args = words.map(|arg| filled(arg, &found)).collect();
                let command = Command { args, ..Command::default() };
                shell
                    .deeper()
                    .and_then(|mut shell| command::judge(command, &mut shell, &Feed::default()))
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
pub(super) fn runs(args: &[Arg<'_>], shell: &Shell<'_>) -> Option<Denied> {
    let is_mark =
        |arg: &Arg<'_>| matches!(arg.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch");
    let (search, command) = args.split_at(args.iter().position(is_mark)?);
    let paths = search.iter().filter(|arg| !arg.text.starts_with('-'));
    let found: Vec<Spelling> = paths.flat_map(|arg| arg.spellings.clone()).collect();
    let mut args: Vec<Arg<'_>> = command.iter().skip(1).map(|arg| filled(arg, &found)).collect();
    if !command.iter().any(|arg| arg.text.contains("{}")) {
        args.push(filled(&Arg::of("{}"), &found));
    }
    let command = Command { args, ..Command::default() };
    command::judge(command, &mut shell.deeper()?, &Feed::default())
}

fn filled<'a>(arg: &Arg<'a>, found: &[Spelling]) -> Arg<'a> {
    if arg.text == "{}" {
        let text = found.first().map(Spelling::plain).unwrap_or_default();
        return Arg { text, spellings: found.to_vec(), commands: Vec::new() };
    }
    let mut arg = arg.clone();
    if let Some(first) = found.first().filter(|_| arg.text.contains("{}")) {
        let path: String = first.plain();
        arg.text = arg.text.replace("{}", path.trim_end_matches('/'));
    }
    arg
}
