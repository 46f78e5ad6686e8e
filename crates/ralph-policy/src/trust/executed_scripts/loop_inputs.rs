//! Loops over a list that only a shell knows: an agent who can empty the list skips the checks in them.

use super::ExecutedScripts;
use crate::trust::command_parts::{CommandPart, PROCESS_FILE, PartKind};
use crate::trust::interpreter_options::{ScriptOperand, script_operand};
use crate::trust::program_starts::{program_starts, runs_scripts};
use crate::trust::shell_variables::ShellVariables;
use crate::trust::work_arguments::{names_judge, only_reads, strip_version};
use ralph_gates::gates::simple_commands::{SHELL_KEYWORDS, base_name};

struct OpenLoop {
    depth: usize,
    input: LoopInput,
    /// Its first command, as it is shown.
    shown: String,
    executes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopInput {
    /// The line lists what it loops over, or it is a condition.
    Listed,
    Unknown,
    /// `while read x`
    Lines,
}

impl ExecutedScripts {
    /// Adds the loops that execute a script for each of an unknown list.
    pub(super) fn add_loops(&mut self, parts: &[CommandPart], variables: &ShellVariables) {
        let mut open: Vec<OpenLoop> = Vec::new();
        for part in parts.iter().filter(|part| part.kind == PartKind::Command) {
            let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
            let keywords = words.iter().take_while(|word| SHELL_KEYWORDS.contains(word)).count();
            let opens = words[..keywords].iter().any(|word| matches!(*word, "until" | "while"));
            let input = match &words[keywords..] {
                ["for" | "select", _, "in", list @ ..] => {
                    let is_known = list.iter().all(|word| variables.resolve(word).is_some());
                    Some(if is_known { LoopInput::Listed } else { LoopInput::Unknown })
                }
                ["for" | "select", ..] => Some(LoopInput::Listed),
                rest if opens && rest.contains(&"read") => Some(LoopInput::Lines),
                _ if opens => Some(LoopInput::Listed),
                _ => None,
            };
            if let Some(input) = input {
                let mut shown = words.clone();
                for word in shown.iter_mut().filter(|word| **word == PROCESS_FILE) {
                    *word = "$(…)";
                }
                let shown = shown.join(" ");
                open.push(OpenLoop { depth: part.depth, input, shown, executes: false });
            }
            if executes_script(part) {
                for one in &mut open {
                    one.executes = true;
                }
            }
            if words.first() == Some(&"done")
                && let Some(at) = open.iter().rposition(|one| one.depth == part.depth)
            {
                let ended = open.remove(at);
                self.end_loop(&ended, &words[1..], variables);
            }
        }
    }

    fn end_loop(&mut self, ended: &OpenLoop, redirects: &[&str], variables: &ShellVariables) {
        if !ended.executes {
            return;
        }
        // If the script itself is unknown, that says more.
        let mut add_unknown = || {
            if self.unknown.is_empty() {
                self.add_unknown(&ended.shown);
            }
        };
        match ended.input {
            LoopInput::Listed => {}
            LoopInput::Unknown => add_unknown(),
            LoopInput::Lines => match redirects {
                [file] if variables.resolve(file).is_some_and(|values| values == [*file]) => {
                    self.paths.insert((*file).to_string());
                }
                _ => add_unknown(),
            },
        }
    }
}

/// Whether a command executes a file that decides.
fn executes_script(part: &CommandPart) -> bool {
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    program_starts(&part.words).iter().any(|start| {
        let (program, arguments) = (words[start.at], &words[start.at + 1..]);
        let counts = |word: &str| !part.is_compared || names_judge(word);
        let is_path = program.contains('/') && !runs_scripts(program);
        is_path && counts(program)
            || !only_reads(strip_version(base_name(program)), arguments)
                && match script_operand(program, arguments) {
                    ScriptOperand::File(words) => words.into_iter().any(counts),
                    ScriptOperand::None | ScriptOperand::Text(_) | ScriptOperand::Input => false,
                }
    })
}
