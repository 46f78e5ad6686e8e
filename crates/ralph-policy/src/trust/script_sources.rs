//! Tells whether everything that a command prints comes from files that it names, or from the command itself.
//!
//! An interpreter that reads such output executes known files. Whatever finds files by itself, or makes text in another
//! way, can print anything.

use super::work_arguments::command_name;
use ralph_gates::gates::simple_commands::SHELL_KEYWORDS;

/// Programs that print their operands, or the files that they name.
const COPYING_PROGRAMS: [&str; 11] =
    ["cat", "cut", "echo", "head", "nl", "printf", "sort", "tac", "tail", "tr", "uniq"];
const GREP_PROGRAMS: [&str; 3] = ["egrep", "fgrep", "grep"];
/// Commands that print nothing.
const SILENT_PROGRAMS: [&str; 7] = [":", "[", "[[", "cd", "set", "test", "true"];
/// Words that begin or end a compound command.
const COMPOUND_WORDS: [&str; 9] =
    ["case", "done", "esac", "fi", "for", "in", "select", "until", "while"];
const SYSTEM_DIRECTORIES: [&str; 2] = ["/bin/", "/usr/bin/"];
/// Options that make a program read names of files from a file, or run a program.
const INDIRECT_OPTIONS: [&str; 2] = ["--files0-from", "--compress-program"];

/// `words` are those of a simple command, with its program at `start`.
pub(super) fn prints_named_files(words: &[String], start: usize) -> bool {
    let Some(name) = command_name(words) else { return true };
    let arguments = words.get(start + 1..).unwrap_or_default();
    let is_compound = SHELL_KEYWORDS.contains(&name) || COMPOUND_WORDS.contains(&name);
    let is_bracket = matches!(name, "{" | "}");
    if is_compound || is_bracket || SILENT_PROGRAMS.contains(&name) {
        return true;
    }
    // A program of the project can have the name of another one.
    let is_own = words.get(start).is_some_and(|program| {
        program.contains('/') && !SYSTEM_DIRECTORIES.iter().any(|place| program.starts_with(place))
    });
    if is_own {
        return false;
    }
    if COPYING_PROGRAMS.contains(&name) {
        return !arguments.iter().any(|word| is_indirect(word));
    }
    if GREP_PROGRAMS.contains(&name) {
        return !arguments.iter().any(|word| searches_directories(word));
    }
    name == "sed" && has_plain_sed_script(arguments)
}

/// GNU programs accept the beginning of a long option.
fn is_indirect(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    name.len() > 3 && INDIRECT_OPTIONS.iter().any(|option| option.starts_with(name))
}

/// Whether an option makes `grep` read the files of a directory.
fn searches_directories(word: &str) -> bool {
    match word.strip_prefix("--") {
        Some(long) => long.starts_with("rec") || long.starts_with('d'),
        // A letter can be part of the value of another option; then a file is not known that is.
        None => word.starts_with('-') && word.contains(['d', 'r', 'R']),
    }
}

/// `sed` can read and run other files than its operands.
fn has_plain_sed_script(arguments: &[String]) -> bool {
    let mut scripts = Vec::new();
    let mut operand = None;
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-e" => scripts.extend(words.next()),
            "-n" | "-E" | "-r" | "-u" | "-s" | "-z" => {}
            word if word.starts_with('-') => return false,
            word => operand = operand.or(Some(word)),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operand);
    }
    scripts.into_iter().all(is_plain_sed_command)
}

/// `s/a/b/g`, `/a/d` and `2,5p`: commands that only change the text.
fn is_plain_sed_command(script: &str) -> bool {
    let is_plain_text = |text: &str| !text.contains(['\n', '\\', ';', '{']);
    if let Some(rest) = script.strip_prefix('s') {
        let Some(mark) = rest.chars().next().filter(char::is_ascii_punctuation) else {
            return false;
        };
        let pieces: Vec<&str> = rest.split(mark).collect();
        let [_, _, _, flags] = pieces.as_slice() else { return false };
        return is_plain_text(rest)
            && flags.chars().all(|flag| flag.is_ascii_digit() || "gIip".contains(flag));
    }
    let Some(address) = script.strip_suffix(['d', 'p']).map(|it| it.trim_end_matches('!')) else {
        return false;
    };
    let is_lines = address.chars().all(|char| char.is_ascii_digit() || ",$".contains(char));
    let is_pattern = address.len() > 1 && address.starts_with('/') && address.ends_with('/');
    is_lines || is_pattern && address.matches('/').count() == 2 && is_plain_text(address)
}
