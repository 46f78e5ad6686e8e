//! Finds the script in the arguments of an interpreter. Each interpreter has its own options: `-E` is a text for perl,
//! and a flag for python.

use super::references::is_interpreter;
use super::work_arguments::strip_version;
use ralph_gates::gates::simple_commands::{SHELLS, base_name};

/// Subcommands of interpreters before the script.
const SCRIPT_SUBCOMMANDS: [&str; 2] = ["run", "watch"];

/// Options of an interpreter that are followed by something else than a script.
struct InterpreterOptions {
    programs: &'static [&'static str],
    /// With these, no file is executed: the next word is the program text, or files are only checked.
    without_script: &'static [&'static str],
    /// These take the next word as their value.
    valued: &'static [&'static str],
}

const OPTIONS: [InterpreterOptions; 11] = [
    InterpreterOptions {
        programs: &SHELLS,
        without_script: &[],
        valued: &["--init-file", "--rcfile"],
    },
    InterpreterOptions {
        programs: &["python", "pypy"],
        without_script: &["-c"],
        valued: &["--check-hash-based-pycs", "-W", "-X"],
    },
    InterpreterOptions {
        programs: &["node", "nodejs"],
        without_script: &["--check", "--eval", "--print", "--test", "-c", "-e", "-p", "-pe"],
        valued: &[
            "--conditions",
            "--env-file",
            "--experimental-loader",
            "--import",
            "--loader",
            "--require",
            "-C",
            "-r",
        ],
    },
    InterpreterOptions {
        programs: &["tsx", "ts-node"],
        without_script: &["--eval", "--print", "--test", "-e", "-p", "-pe"],
        valued: &["--import", "--loader", "--project", "--require", "--tsconfig", "-O", "-P", "-r"],
    },
    InterpreterOptions {
        programs: &["bun"],
        without_script: &["--eval", "--print", "-e", "-p"],
        valued: &["--env-file", "--import", "--preload", "--require", "-c", "-d", "-l", "-r"],
    },
    InterpreterOptions {
        programs: &["deno"],
        without_script: &[],
        valued: &["--config", "--import-map", "--log-level", "-L", "-c"],
    },
    InterpreterOptions {
        programs: &["ruby"],
        without_script: &["-c", "-e"],
        valued: &["-C", "-E", "-I", "-r"],
    },
    InterpreterOptions {
        programs: &["perl"],
        without_script: &["-E", "-c", "-e"],
        valued: &["-I"],
    },
    InterpreterOptions {
        programs: &["Rscript", "elixir", "julia"],
        without_script: &["--eval", "-e", "-E"],
        valued: &["-r"],
    },
    InterpreterOptions { programs: &["lua", "luajit"], without_script: &[], valued: &["-e", "-l"] },
    InterpreterOptions {
        programs: &["php"],
        without_script: &["--run", "--syntax-check", "-B", "-E", "-R", "-l", "-r"],
        valued: &["-c", "-d", "-z"],
    },
];

/// The program text of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScriptOperand<'a> {
    /// The command executes no script.
    None,
    /// The words that name it. More than one if an option before could take the first as its value.
    File(Vec<&'a str>),
    /// A shell is given the text itself.
    Text(&'a str),
    /// An interpreter reads it from its input.
    Input,
}

/// What a word before the script means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentRole {
    /// The next word is the text of a shell.
    ShellText,
    /// The next word is the name of a module.
    Module,
    NoScript,
    Input,
    /// The next word is its value.
    Valued,
    /// The next word may be its value.
    PerhapsValued,
    Flag,
    Script,
}

pub(super) fn script_operand<'a>(program: &str, arguments: &[&'a str]) -> ScriptOperand<'a> {
    let name = strip_version(base_name(program));
    let one_file = |word: Option<&'a str>| {
        word.map_or(ScriptOperand::None, |word| ScriptOperand::File(vec![word]))
    };
    match program {
        "." | "source" => return one_file(arguments.first().copied()),
        // Its texts are split into commands elsewhere; a word is unknown or a command.
        "eval" => {
            let is_word = |word: &&str| !word.contains(char::is_whitespace);
            return ScriptOperand::File(arguments.iter().copied().filter(is_word).collect());
        }
        _ if !is_interpreter(name) => return ScriptOperand::None,
        _ => {}
    }
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        match argument_role(name, word) {
            ArgumentRole::ShellText => {
                return words.next().map_or(ScriptOperand::None, ScriptOperand::Text);
            }
            ArgumentRole::Module => return one_file(words.next()),
            ArgumentRole::NoScript => return ScriptOperand::None,
            ArgumentRole::Input => return ScriptOperand::Input,
            ArgumentRole::Valued => {
                words.next();
            }
            ArgumentRole::PerhapsValued => {
                if let Some(value) = words.next_if(|next| !next.starts_with('-')) {
                    let script = words.next_if(|next| !next.starts_with('-'));
                    return ScriptOperand::File(std::iter::once(value).chain(script).collect());
                }
            }
            ArgumentRole::Flag => {}
            ArgumentRole::Script => return ScriptOperand::File(vec![word]),
        }
    }
    ScriptOperand::Input
}

fn argument_role(name: &str, word: &str) -> ArgumentRole {
    let options = OPTIONS.iter().find(|options| options.programs.contains(&name));
    let is_known = |list: fn(&InterpreterOptions) -> &'static [&'static str]| {
        options.is_some_and(|options| list(options).contains(&word))
    };
    if is_known(|options| options.without_script) {
        return ArgumentRole::NoScript;
    }
    if is_known(|options| options.valued) {
        return ArgumentRole::Valued;
    }
    let is_shell = SHELLS.contains(&name);
    match word {
        "-" => ArgumentRole::Input,
        "-m" if matches!(name, "python" | "pypy") => ArgumentRole::Module,
        word if is_shell && takes_shell_text(word) => ArgumentRole::ShellText,
        word if is_shell && has_letter(word, &['o', 'O']) => ArgumentRole::Valued,
        word if is_shell && has_letter(word, &['s']) => ArgumentRole::Input,
        word if word.starts_with("--") && !is_shell && word != "--" && !word.contains('=') => {
            ArgumentRole::PerhapsValued
        }
        word if word.starts_with('-') || SCRIPT_SUBCOMMANDS.contains(&word) => ArgumentRole::Flag,
        _ => ArgumentRole::Script,
    }
}

/// Whether flags of a shell such as `-c` or `-ceu` mean that the next word is the script itself.
pub(super) fn takes_shell_text(word: &str) -> bool {
    word.starts_with('-') && has_letter(word, &['c'])
}

/// Whether a word is a group of short flags with one of the letters.
fn has_letter(word: &str, letters: &[char]) -> bool {
    let flags = word.strip_prefix(['-', '+']).unwrap_or_default();
    flags.chars().all(char::is_alphabetic) && flags.contains(letters)
}
