//! Texts in the words of a command that are code: for a shell (`eval 'sh chk/*.sh'`), or for another interpreter
//! (`python3 -c 'exec(open("chk/run.py").read())'`).

use super::command_parts::{CommandPart, PartKind, input_of, text_parts};
use super::interpreter_options::{ScriptOperand, script_operand};
use super::program_starts::{may_start_another, program_starts, runs_scripts};
use super::shell_variables::ShellVariables;
use super::work_arguments::{is_text_filter, names_judge, program_index, strip_version};
use ralph_gates::gates::simple_commands::{SHELLS, base_name, is_assignment};
use std::collections::BTreeSet;

/// How often texts in texts are split.
const MAX_ROUNDS: usize = 4;
/// More commands than this, with those in texts, are not looked at.
const MAX_PARTS: usize = 2000;

/// The parts, followed by the commands in texts that a shell executes.
pub(super) fn expand_code_texts(
    mut parts: Vec<CommandPart>,
    toplevel: Option<&str>,
) -> Vec<CommandPart> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut searched = 0;
    for round in 0..=MAX_ROUNDS {
        let variables = ShellVariables::read(&parts, toplevel);
        let mut found = Vec::new();
        for at in searched..parts.len() {
            let part = &parts[at];
            for text in shell_texts(part, input_of(&parts, at), &variables) {
                if !seen.insert(text.clone()) {
                    continue;
                }
                let is_compared = part.is_compared;
                if round == MAX_ROUNDS || parts.len() + found.len() > MAX_PARTS {
                    let kind = PartKind::TooLong;
                    found.push(CommandPart { words: vec![text], kind, ..CommandPart::default() });
                    parts.extend(found);
                    return parts;
                }
                let inner = text_parts(&text, part.depth + 1).into_iter();
                found.extend(inner.map(|inner| CommandPart {
                    is_compared: inner.is_compared || is_compared,
                    ..inner
                }));
            }
        }
        if found.is_empty() {
            break;
        }
        searched = parts.len();
        parts.extend(found);
    }
    parts
}

/// The texts in a command that a shell executes.
fn shell_texts(
    part: &CommandPart,
    input: &[CommandPart],
    variables: &ShellVariables,
) -> Vec<String> {
    let mut texts = Vec::new();
    if part.kind != PartKind::Command {
        return texts;
    }
    let resolve = |word: &str| variables.resolve(word).unwrap_or_default();
    let is_text = |word: &&str| word.contains(char::is_whitespace);
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    for start in program_starts(&part.words) {
        let (program, arguments) = (words[start.at], &words[start.at + 1..]);
        if is_assignment(program) {
            continue;
        }
        // `$CMD chk/a.sh`, or the value of `env -S`.
        let values = resolve(program);
        let texts_of_program = values.iter().filter(|value| value.contains(char::is_whitespace));
        texts.extend(
            texts_of_program.map(|value| [&[value.as_str()], arguments].concat().join(" ")),
        );
        match program {
            "eval" => {
                let values: Option<Vec<_>> = arguments
                    .iter()
                    .map(|word| variables.resolve(word)?.into_iter().next())
                    .collect();
                texts.extend(values.map(|values| values.join(" ")));
                texts.extend(arguments.iter().flat_map(|word| resolve(word)));
            }
            "trap" => texts.extend(arguments.iter().take(1).flat_map(|word| resolve(word))),
            "alias" => {
                let values = arguments.iter().filter_map(|word| word.split_once('='));
                texts.extend(values.flat_map(|(_, value)| resolve(value)));
            }
            _ => {}
        }
        let is_shell = SHELLS.contains(&strip_version(base_name(program)));
        match script_operand(program, arguments) {
            ScriptOperand::Input if is_shell => {
                for before in input.iter().filter(|before| prints_operands(before)) {
                    let operands = before.words.iter().skip(1).map(String::as_str).filter(is_text);
                    texts.extend(operands.flat_map(resolve));
                }
            }
            // `bash <<< 'sh chk/a.sh'`
            ScriptOperand::File(words) if is_shell => {
                texts.extend(words.into_iter().filter(is_text).flat_map(resolve));
            }
            ScriptOperand::None
            | ScriptOperand::File(_)
            | ScriptOperand::Text(_)
            | ScriptOperand::Input => {}
        }
    }
    let start = program_index(&part.words);
    let other = part.words.get(start).filter(|it| may_start_another(it, &part.words[start + 1..]));
    if other.is_some() {
        let rest = words[start + 1..].iter().copied().filter(is_text);
        let begins = |text: &&str| text.split_whitespace().next().is_some_and(runs_scripts);
        texts.extend(rest.filter(begins).map(str::to_string));
    }
    texts
}

fn prints_operands(part: &CommandPart) -> bool {
    let program = part.words.get(program_index(&part.words));
    part.kind == PartKind::Command
        && program.is_some_and(|program| is_text_filter(base_name(program)))
}

/// What the program text of an interpreter other than a shell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEffect {
    /// It computes something, or tests what it imports.
    Computes,
    /// It executes the files that it names.
    LoadsFiles,
    /// It starts programs that it looks for.
    SearchesPrograms,
}

/// The program text of an interpreter other than a shell, if that executes other files.
pub(super) fn loading_text<'a>(
    program: &str,
    arguments: &[&'a str],
    is_compared: bool,
) -> Option<(&'a str, TextEffect)> {
    let name = strip_version(base_name(program));
    let flag = arguments.iter().position(|word| match name {
        "python" | "pypy" => *word == "-c",
        "node" | "nodejs" | "bun" | "tsx" => matches!(*word, "-e" | "-p" | "-pe" | "--eval"),
        "perl" | "ruby" | "lua" => matches!(*word, "-e" | "-E"),
        "php" => *word == "-r",
        _ => false,
    })?;
    let text = arguments.get(flag + 1).copied()?;
    let effect = text_effect(name, text);
    let counts = effect != TextEffect::Computes && (!is_compared || names_judge(text));
    counts.then_some((text, effect))
}

fn text_effect(name: &str, text: &str) -> TextEffect {
    let calls = |function: &str| has_word(text, function);
    let reads = ["open(", "read", "Read", "slurp"].iter().any(|word| text.contains(word));
    let loads = match name {
        "python" | "pypy" => {
            reads && (calls("exec(") || calls("eval("))
                || ["runpy", "run_path(", "spec_from_file_location", "SourceFileLoader"]
                    .iter()
                    .any(|word| text.contains(word))
        }
        "perl" => ["do \"", "do '", "do(", "do q"].iter().any(|word| calls(word)),
        "ruby" => calls("load ") || calls("load(") || reads && text.contains("eval"),
        "lua" => calls("dofile") || calls("loadfile"),
        "php" => reads && calls("eval("),
        _ => reads && (calls("eval(") || text.contains("vm.run")),
    };
    let starts = ["subprocess", "os.system", "popen", "child_process", "system(", "spawn"];
    let searches = ["glob", "listdir", "readdir", "scandir", "walk(", "iterdir"];
    let has_any = |list: &[&str]| list.iter().any(|word| text.contains(word));
    if loads {
        TextEffect::LoadsFiles
    } else if has_any(&starts) && has_any(&searches) {
        TextEffect::SearchesPrograms
    } else {
        TextEffect::Computes
    }
}

/// Whether a text has a word that is not the end of another one, or a method.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|char| !(char.is_alphanumeric() || char == '_' || char == '.'))
    })
}
