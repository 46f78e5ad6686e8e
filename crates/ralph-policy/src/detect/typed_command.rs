//! Gates for commands that a person types, instead of those that the project's files suggest.

use std::path::Path;

use ralph_core::gate::GateInvocation;
use ralph_core::requirement::RequirementStage;
use ralph_sys::env::Env;
use ralph_sys::fs;

use super::command_import::{self, MAX_COMMAND_BYTES, command_aspect};
use super::gate_draft::{GateAspect, GateDraft, slug};
use super::project_dir::InspectedProject;
use super::shell_text::{self, CommandShape};
use super::{ProposedGate, ToolLookup};

const MAX_NAME_WORDS: usize = 3;

/// Programs whose first argument says more about a command than they do.
const INTERPRETERS: [&str; 8] = ["bash", "dash", "node", "python", "python3", "ruby", "sh", "zsh"];

/// A command that a person typed, to become a gate.
#[derive(Clone, Copy, Debug)]
pub struct TypedCommand<'a> {
    pub command: &'a str,
    /// The name of the gate; derived from the command if absent.
    pub name: Option<&'a str>,
    /// The stage of the gate; derived from the command if absent.
    pub stage: Option<RequirementStage>,
}

/// Why a typed command cannot be a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypedCommandError {
    #[error("the command is empty")]
    Empty,
    #[error("the command is longer than {MAX_COMMAND_BYTES} bytes: put it into a script")]
    TooLong,
    #[error("the command has invisible characters or line breaks")]
    Invisible,
}

/// The gate of a typed command. A shell runs it only if it needs one.
pub fn typed_gate(
    project: &Path,
    env: &Env,
    typed: TypedCommand<'_>,
) -> Result<ProposedGate, TypedCommandError> {
    let command = typed.command.trim();
    if command.is_empty() {
        return Err(TypedCommandError::Empty);
    }
    if command.len() > MAX_COMMAND_BYTES {
        return Err(TypedCommandError::TooLong);
    }
    if !command_import::is_visible(command) {
        return Err(TypedCommandError::Invisible);
    }
    let (words, invocation) = match shell_text::command_shape(command) {
        CommandShape::Words(words) if !words.is_empty() => {
            (words.clone(), GateInvocation::Argv(words))
        }
        CommandShape::Words(words) | CommandShape::Shell(words) => {
            (words, GateInvocation::Shell(command.to_string()))
        }
        // A person may pipe and chain: the exit code of the line is what they asked for.
        CommandShape::Unclear => {
            let words = command.split_whitespace().map(str::to_owned).collect();
            (words, GateInvocation::Shell(command.to_string()))
        }
    };
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    let aspect = command_aspect(&names).unwrap_or(GateAspect::Test);
    let project = InspectedProject::open(project, env);
    let place = project.root_directory();
    let name = typed.name.map_or_else(|| typed_name(&names), str::to_owned);
    let mut draft = GateDraft::new(&place, &name, aspect, invocation)
        .with_reason("", "A person named this command".to_string());
    if let Some(stage) = typed.stage {
        draft.gate.stage = stage;
    }
    Ok(draft.into_proposal())
}

/// The program of a gate that cannot be started, if any.
pub fn missing_program(proposal: &ProposedGate) -> Option<&str> {
    match &proposal.tool {
        ToolLookup::Found(_) => None,
        ToolLookup::Missing(program) => Some(program),
    }
}

/// The script that the command passes to an interpreter, if there is no such file.
pub fn missing_script<'a>(project: &Path, proposal: &'a ProposedGate) -> Option<&'a str> {
    let GateInvocation::Argv(words) = &proposal.gate.command else { return None };
    let (interpreter, script) = (words.first()?, words.get(1)?);
    let is_script = INTERPRETERS.contains(&interpreter.as_str()) && !script.starts_with('-');
    (is_script && !fs::exists(&project.join(script))).then_some(script)
}

/// `test` for `sh tests/test.sh`, `npm-run-lint` for `npm run lint`.
fn typed_name(words: &[&str]) -> String {
    let is_assignment = |word: &&&str| word.contains('=') && !word.starts_with('-');
    let assigned = words.iter().take_while(is_assignment).count();
    let words = words.get(assigned..).unwrap_or_default();
    let stem = |word: &str| {
        let file = word.rsplit('/').next().unwrap_or_default();
        file.split_once('.').map_or(file, |(stem, _)| stem).to_string()
    };
    match words {
        [first, script, ..] if INTERPRETERS.contains(first) && !script.starts_with('-') => {
            slug(&stem(script))
        }
        [first, rest @ ..] => {
            let rest = rest.iter().take_while(|word| !word.starts_with('-'));
            let rest = rest.take(MAX_NAME_WORDS - 1).map(ToString::to_string);
            let name: Vec<String> = std::iter::once(stem(first)).chain(rest).collect();
            slug(&name.join("-"))
        }
        [] => slug(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gate keeps the exit code that a person would see, and its name says what it runs.
    #[test]
    fn a_typed_command_becomes_a_gate() {
        let env = Env::from_pairs([("PATH", "/bin:/usr/bin")], None, Vec::new());
        let shown = |command: &str| {
            let typed = TypedCommand { command, name: None, stage: None };
            match typed_gate(Path::new("/"), &env, typed) {
                Err(error) => format!("{command:?}: {error}"),
                Ok(found) => format!(
                    "{} ({}): {:?}",
                    found.gate.name,
                    found.gate.stage.name(),
                    found.gate.command
                ),
            }
        };
        let rows = [
            "sh test.sh",
            "  ./tests/run.sh --all ",
            "npm run lint",
            "A=1 sh tests/all.sh",
            "grep -q done notes | head -1",
            "test -e \"a b\"",
            "true; false",
            "",
            "sh\u{202e} test.sh",
            "a\nb",
        ];
        let missing = TypedCommand { command: "no-such-program", name: None, stage: None };
        let missing = typed_gate(Path::new("/"), &env, missing).unwrap();
        assert_eq!(missing_program(&missing), Some("no-such-program"));
        insta::assert_snapshot!(rows.map(shown).join("\n"), @r#"
        test (correctness): Argv(["sh", "test.sh"])
        run (correctness): Argv(["./tests/run.sh", "--all"])
        npm-run-lint (quality): Argv(["npm", "run", "lint"])
        all (correctness): Shell("A=1 sh tests/all.sh")
        grep (correctness): Shell("grep -q done notes | head -1")
        test (correctness): Argv(["test", "-e", "a b"])
        true-false (correctness): Shell("true; false")
        "": the command is empty
        "sh\u{202e} test.sh": the command has invisible characters or line breaks
        "a\nb": the command has invisible characters or line breaks
        "#);
    }
}
