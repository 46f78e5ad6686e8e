//! The directories in which a command line runs its commands, and those that it adds to `PATH`.

use super::ExecutedScripts;
use crate::trust::command_parts::CommandPart;
use crate::trust::shell_variables::ShellVariables;
use crate::trust::work_arguments::program_index;
use ralph_gates::gates::simple_commands::base_name;
use std::collections::BTreeSet;

/// Programs whose option changes the directory before they look for files.
const DIRECTORY_OPTIONS: [(&[&str], &[&str]); 6] = [
    (&["make", "gmake", "ninja"], &["-C", "--directory"]),
    (&["cargo", "go", "pnpm", "ruby"], &["-C"]),
    (&["npm", "pnpm"], &["--prefix", "--dir"]),
    (&["yarn", "bun"], &["--cwd"]),
    (&["pdm", "poetry", "uv"], &["--directory", "--project", "-C"]),
    (&["env"], &["-C", "--chdir"]),
];
const EXPORTING_COMMANDS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

impl ExecutedScripts {
    /// Adds the directories that a command enters.
    pub(super) fn add_directories(&mut self, part: &CommandPart, variables: &ShellVariables) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let start = program_index(&part.words);
        let Some(program) = words.get(start) else { return };
        let arguments = &words[start + 1..];
        if matches!(*program, "cd" | "chdir" | "pushd") {
            let operand = arguments.iter().find(|word| !word.starts_with(['-', '+']));
            if let Some(operand) = operand {
                self.add_directory(program, operand, variables);
            }
        }
        let mut callers: BTreeSet<&str> = BTreeSet::new();
        for (at, word) in words.iter().enumerate() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (*word, words.get(at + 1).copied()),
            };
            let is_option = name.starts_with('-')
                && DIRECTORY_OPTIONS.iter().any(|(programs, options)| {
                    options.contains(&name) && programs.iter().any(|it| callers.contains(it))
                });
            if let Some(value) = value.filter(|_| is_option) {
                self.add_directory(name, value, variables);
            }
            callers.insert(base_name(word));
        }
    }

    fn add_directory(&mut self, how: &str, word: &str, variables: &ShellVariables) {
        match variables.resolve_split(word) {
            Some(values) => self.directories.extend(values),
            None => self.add_unknown(&format!("{how} {word}")),
        }
    }

    /// Adds the directories that a command adds to `PATH`.
    pub(super) fn add_search_path(&mut self, part: &CommandPart, variables: &ShellVariables) {
        let start = program_index(&part.words);
        let exports = part.words.get(start).is_some_and(|it| EXPORTING_COMMANDS.contains(&&**it));
        let end = if exports { part.words.len() } else { start + 1 };
        for word in part.words.iter().take(end) {
            let value = word.strip_prefix("PATH=").or_else(|| word.strip_prefix("PATH+="));
            for entry in value.into_iter().flat_map(|value| value.split(':')) {
                match variables.resolve(entry) {
                    _ if matches!(entry, "$PATH" | "${PATH}") => {}
                    Some(values) => self.search_path.extend(values),
                    None => self.add_unknown(word),
                }
            }
        }
    }
}
