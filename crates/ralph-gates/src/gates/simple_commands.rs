//! Splits the command of a gate into simple commands, to find the programs that it runs.
//!
//! Only a shell can parse a shell line. This finds more commands than the shell runs, for example in quoted text, rather
//! than fewer: a program that is watched for no reason does no harm.

use ralph_core::gate::GateInvocation;

pub const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];
/// Programs that run the scripts of a `package.json`.
pub const PACKAGE_RUNNERS: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];

/// Programs that run another program, which is named after their options.
pub const WRAPPERS: [&str; 19] = [
    "chrt",
    "command",
    "coverage",
    "cross-env",
    "c8",
    "env",
    "exec",
    "ionice",
    "nice",
    "nohup",
    "nyc",
    "setsid",
    "stdbuf",
    "sudo",
    "taskset",
    "time",
    "timeout",
    "xargs",
    "xvfb-run",
];

/// Words before a command that are not one themselves.
pub const SHELL_KEYWORDS: [&str; 9] =
    ["!", "do", "elif", "else", "if", "then", "time", "until", "while"];

/// Commands that the shell runs without a program.
const SHELL_BUILTINS: [&str; 30] = [
    ".", ":", "[", "alias", "break", "case", "cd", "continue", "done", "echo", "esac", "eval",
    "exit", "export", "false", "fi", "for", "printf", "pwd", "read", "return", "set", "shift",
    "source", "test", "trap", "true", "type", "unset", "wait",
];

/// A command and its arguments, without assignments before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GateCommandLine<'a> {
    pub(super) words: Vec<&'a str>,
    /// The directories that `cd` entered before it.
    pub(super) entered: Vec<&'a str>,
}

pub(super) fn gate_commands(command: &GateInvocation) -> Vec<GateCommandLine<'_>> {
    match command {
        GateInvocation::Argv(words) => {
            argv_commands(&words.iter().map(String::as_str).collect::<Vec<_>>())
        }
        GateInvocation::Shell(line) => line_commands(line),
    }
}

fn argv_commands<'a>(words: &[&'a str]) -> Vec<GateCommandLine<'a>> {
    let mut found = wrapped_commands(words, &[]);
    let is_shell = |word: &str| SHELLS.contains(&base_name(word));
    for pair in words.windows(2).filter(|pair| pair[0].starts_with('-') && pair[0].ends_with('c')) {
        if words.first().is_some_and(|first| is_shell(first)) {
            found.extend(line_commands(pair[1]));
        }
    }
    found
}

/// The simple commands of a shell line.
pub(super) fn line_commands(line: &str) -> Vec<GateCommandLine<'_>> {
    let mut found = Vec::new();
    let mut entered = Vec::new();
    let is_separator = |character: char| ";&|\n(){}`'\"".contains(character);
    for part in line.split(is_separator) {
        let words: Vec<&str> = part
            .split_whitespace()
            .skip_while(|word| SHELL_KEYWORDS.contains(word) || is_assignment(word))
            .collect();
        if let ["cd", directory] = words.as_slice() {
            entered.push(*directory);
        }
        if words.first().is_some_and(|first| !SHELL_BUILTINS.contains(first)) {
            found.extend(wrapped_commands(&words, &entered));
        }
    }
    found
}

/// The command, and those that it wraps.
fn wrapped_commands<'a>(mut words: &[&'a str], entered: &[&'a str]) -> Vec<GateCommandLine<'a>> {
    let mut found = Vec::new();
    while let Some((first, rest)) = words.split_first() {
        found.push(GateCommandLine { words: words.to_vec(), entered: entered.to_vec() });
        if !WRAPPERS.contains(&base_name(first)) {
            break;
        }
        let is_option = |word: &&str| {
            word.starts_with(|first: char| first == '-' || first.is_ascii_digit())
                || is_assignment(word)
                || *word == "run"
        };
        let skipped = rest.iter().take_while(|word| is_option(word)).count();
        words = rest.get(skipped..).unwrap_or_default();
    }
    found
}

/// Whether a word before a command sets a variable.
pub fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// The last part of a path.
pub fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &GateInvocation) -> String {
        let shown = gate_commands(command).into_iter().map(|one| {
            let entered = one.entered.iter().flat_map(|entered| [*entered, ": "]);
            entered.collect::<String>() + &one.words.join(" ")
        });
        shown.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn every_program_of_a_command_is_found() {
        for (line, expected) in [
            ("pytest -q", "pytest -q"),
            ("cd web && npm test", "web: npm test"),
            ("CI=1 A=b pytest; ruff check || exit 1", "pytest | ruff check"),
            ("if ! make lint; then exit 1; fi", "make lint"),
            ("timeout -k 5 60 npx jest", "timeout -k 5 60 npx jest | npx jest"),
            ("coverage run -m pytest", "coverage run -m pytest | pytest"),
            ("sh -c 'pytest -q' > \"$RALPH_REPORT\"", "sh -c | pytest -q | > | $RALPH_REPORT"),
            ("echo $(git status)", "git status"),
            ("", ""),
        ] {
            assert_eq!(shown(&GateInvocation::Shell(line.into())), expected, "{line}");
        }
        for (words, expected) in [
            (&["sh", "-ec", "cd a; tool"][..], "sh -ec cd a; tool | a: tool"),
            (&["env", "A=b", "pnpm", "exec", "jest"], "env A=b pnpm exec jest | pnpm exec jest"),
            (&["grep", "-c", "tool | x"], "grep -c tool | x"),
            (&[], ""),
        ] {
            let argv = words.iter().map(ToString::to_string).collect();
            assert_eq!(shown(&GateInvocation::Argv(argv)), expected, "{words:?}");
        }
    }
}
