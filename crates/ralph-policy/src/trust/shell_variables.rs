//! The values that the variables of a shell line can have, as far as the line itself gives them.

use super::command_parts::{CommandPart, PartKind};
use super::executed_scripts::is_pattern;
use ralph_gates::gates::simple_commands::{SHELL_KEYWORDS, is_assignment};
use std::collections::BTreeMap;

/// More values of one word than this are not followed.
pub(super) const MAX_VALUES: usize = 500;
/// All values of one word together. Each variable may contain another one twice, so that the length doubles.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Stands for the root of the git repository, which `git rev-parse --show-toplevel` prints.
pub(super) const TOPLEVEL_VARIABLE: &str = "git toplevel";

/// Commands that give variables values which are not in the command.
const ASSIGNING_COMMANDS: [&str; 12] = [
    "declare",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "typeset",
    "unset",
];

/// The values of variables; `None` if they are not in the command.
#[derive(Clone, Debug, Default)]
pub(super) struct ShellVariables {
    values: BTreeMap<String, Option<Vec<String>>>,
}

impl ShellVariables {
    /// The variables that loops and assignments of a command give values to.
    pub(super) fn read(parts: &[CommandPart], toplevel: Option<&str>) -> Self {
        let mut variables = Self::default();
        variables.add("PWD", Some(vec![".".to_string()]));
        variables.add(TOPLEVEL_VARIABLE, toplevel.map(|path| vec![path.to_string()]));
        for part in parts.iter().filter(|part| part.kind == PartKind::Command) {
            variables.add_part(part);
        }
        variables
    }

    fn add_part(&mut self, part: &CommandPart) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let is_keyword = |word: &&&str| SHELL_KEYWORDS.contains(word) || **word == "{";
        let words = &words[words.iter().take_while(is_keyword).count()..];
        // `IFS= read -r t`
        let is_before = |word: &&&str| {
            is_assignment(word) || is_append(word) || matches!(**word, "builtin" | "command")
        };
        let command = &words[words.iter().take_while(is_before).count()..];
        match words {
            ["for" | "select", name, "in", list @ ..] => {
                let values = list.iter().map(|word| self.resolve_split(word));
                let values: Option<Vec<Vec<String>>> = values.collect();
                self.add(name, values.map(|values| values.concat()));
            }
            ["for" | "select", name, ..] => self.add(name, None),
            words if command.first().is_some_and(|it| ASSIGNING_COMMANDS.contains(it)) => {
                for word in words {
                    let name = word.split(['=', '[', '+']).next().unwrap_or_default();
                    self.add(name, None);
                }
            }
            words => {
                // Before a command, an assignment has no effect on the words of that command.
                let is_alone = command.is_empty();
                for word in words.iter().take_while(|word| is_assignment(word) || is_append(word)) {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    let values = self.resolve(value).filter(|_| is_alone && !is_append(word));
                    self.add(name.trim_end_matches('+'), values);
                }
            }
        }
    }

    /// A variable has one of the values of all of its assignments.
    fn add(&mut self, name: &str, values: Option<Vec<String>>) {
        let known = self.values.remove(name);
        let merged = match (known, values) {
            (Some(Some(mut known)), Some(values)) => {
                known.extend(values);
                Some(known)
            }
            (Some(None), _) | (_, None) => None,
            (None, Some(values)) => Some(values),
        };
        self.values.insert(name.to_string(), merged.filter(|values| is_bounded(values)));
    }

    /// Every value that a word can have; `None` if only a shell knows.
    pub(super) fn resolve(&self, word: &str) -> Option<Vec<String>> {
        if word.starts_with('~') || word.contains('`') || word.contains("{}") {
            return None;
        }
        let mut pieces = word.split('$');
        let mut values = vec![pieces.next().unwrap_or_default().to_string()];
        for piece in pieces {
            let (name, rest) = if let Some(braced) = piece.strip_prefix('{') {
                braced.split_once('}')?
            } else {
                let is_name = |char: char| char == '_' || char.is_ascii_alphanumeric();
                piece.split_at(piece.find(|char| !is_name(char)).unwrap_or(piece.len()))
            };
            let known = self.values_of(name)?;
            if known.len() * values.len() > MAX_VALUES {
                return None;
            }
            let joined = |start: &String| {
                known.iter().map(|value| format!("{start}{value}{rest}")).collect::<Vec<_>>()
            };
            values = values.iter().flat_map(joined).collect();
            if !is_bounded(&values) {
                return None;
            }
        }
        Some(values)
    }

    /// Like [`Self::resolve`], with the words into which a shell splits a value if it is not quoted.
    pub(super) fn resolve_split(&self, word: &str) -> Option<Vec<String>> {
        let values = self.resolve(word)?;
        if !word.contains('$') {
            return Some(values);
        }
        let is_split = |value: &&String| value.contains(char::is_whitespace);
        let split: Vec<String> = values
            .iter()
            .filter(is_split)
            .flat_map(|value| value.split_whitespace().map(str::to_string))
            .collect();
        Some(values.into_iter().chain(split).collect())
    }

    /// The values of `x`, or of `x%.in` in braces.
    fn values_of(&self, name: &str) -> Option<Vec<String>> {
        let Some((name, suffix)) = name.split_once('%') else {
            return self.values.get(name)?.clone();
        };
        let suffix = suffix.strip_prefix('%').unwrap_or(suffix);
        if is_pattern(suffix) {
            return None;
        }
        let strip = |value: &String| match value.strip_suffix(suffix) {
            Some(stripped) => Some(stripped.to_string()),
            // The files that match may end in it.
            None if is_pattern(value) => None,
            None => Some(value.clone()),
        };
        self.values.get(name)?.as_ref()?.iter().map(strip).collect()
    }
}

fn is_bounded(values: &[String]) -> bool {
    values.len() <= MAX_VALUES && values.iter().map(String::len).sum::<usize>() <= MAX_VALUE_BYTES
}

/// `x+=a`
fn is_append(word: &str) -> bool {
    word.split_once("+=").is_some_and(|(name, _)| is_assignment(&format!("{name}=")))
}
