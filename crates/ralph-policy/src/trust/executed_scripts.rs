//! Finds the scripts that a command executes without naming them: by a pattern, a variable or a substitution.
//!
//! Variables with values that the command itself lists are resolved (`for t in chk/*.sh; do sh "$t"; done`). Anything
//! else that only a shell can resolve is reported, because a file that is not known cannot be sealed.

use super::command_parts::{CommandPart, PartKind};
use super::references::is_interpreter;
use super::work_arguments::{names_judge, program_index, strip_version};
use ralph_gates::gates::simple_commands::{SHELL_KEYWORDS, SHELLS, base_name, is_assignment};
use std::collections::{BTreeMap, BTreeSet};

/// More values of one word than this are not followed.
const MAX_VALUES: usize = 500;
const MAX_SHOWN_CHARS: usize = 80;

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
/// Programs that take operands of the program after them from their input.
const INPUT_WRAPPERS: [&str; 2] = ["parallel", "xargs"];
const FIND_ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
/// Subcommands of interpreters before the script.
const SCRIPT_SUBCOMMANDS: [&str; 2] = ["run", "watch"];
/// Options of interpreters that take the next word as their value, which is not the script.
const VALUED_OPTIONS: [&str; 17] = [
    "+o",
    "--conditions",
    "--env-file",
    "--experimental-loader",
    "--import",
    "--init-file",
    "--loader",
    "--rcfile",
    "--require",
    "-C",
    "-I",
    "-O",
    "-W",
    "-X",
    "-d",
    "-o",
    "-r",
];
/// Options of interpreters other than shells that take the program text as the next word.
const TEXT_OPTIONS: [&str; 6] = ["--eval", "--print", "-E", "-c", "-e", "-p"];

/// What the parts of a command execute, apart from the files that they name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExecutedScripts {
    /// Paths and patterns that variables stand for, and patterns.
    pub(super) paths: BTreeSet<String>,
    /// Commands whose script cannot be known: `sh $x.sh`.
    pub(super) unknown: BTreeSet<String>,
}

/// The values of variables; `None` if they are not in the command.
type VariableValues = BTreeMap<String, Option<Vec<String>>>;

pub(super) fn find_executed_scripts(parts: &[CommandPart]) -> ExecutedScripts {
    let variables = read_variables(parts);
    let mut found = ExecutedScripts::default();
    for (at, part) in parts.iter().enumerate() {
        match part.kind {
            PartKind::Command => {
                let input = parts[..at].iter().rev().find(|before| before.is_piped);
                found.add_command(part, input, &variables);
            }
            PartKind::Arithmetic => {}
            PartKind::WholeLine => {
                part.words.iter().for_each(|text| found.add_unparsed(text, &variables));
            }
        }
    }
    found
}

/// Whether a word means other files than the one of its name.
pub(super) fn is_pattern(word: &str) -> bool {
    let is_enclosed = |open: char, inside: char, close: char| {
        let rest = word.split_once(open).and_then(|(_, rest)| rest.split_once(close));
        rest.is_some_and(|(content, _)| content.contains(inside) || inside == open)
    };
    word.contains(['*', '?']) || is_enclosed('[', '[', ']') || is_enclosed('{', ',', '}')
}

impl ExecutedScripts {
    fn add_command(
        &mut self,
        part: &CommandPart,
        input: Option<&CommandPart>,
        variables: &VariableValues,
    ) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let start = program_index(&part.words);
        let Some(program) = words.get(start) else { return };
        if is_assignment(program) || matches!(*program, "case" | "for" | "select") {
            return;
        }
        // The script under test is the work, unless its name says otherwise.
        let counts = |word: &str| !part.is_compared || names_judge(word);
        let reads_input = words[..start].iter().any(|word| is_input_wrapper(word));
        let placeholder = words[..start]
            .iter()
            .find_map(|word| word.strip_prefix("-I").filter(|rest| !rest.is_empty()));
        let finds =
            words.iter().enumerate().filter(|(_, word)| FIND_ACTIONS.contains(word)).map(|it| it.0);
        for at in std::iter::once(start).chain(finds.map(|at| at + 1)) {
            let Some(program) = words.get(at) else { continue };
            let arguments = &words[at + 1..];
            if counts(program) {
                self.add_word(program, "", variables);
            }
            for name in resolve_word(program, variables).unwrap_or_default() {
                match script_operand(&name, arguments) {
                    ScriptOperand::None => {}
                    ScriptOperand::Text(text) => self.add_unparsed(text, variables),
                    ScriptOperand::Input if reads_input => {
                        self.add_unknown(&words[..=at].join(" "));
                    }
                    // `cat chk/*.sh | sh`
                    ScriptOperand::Input => {
                        let piped = input.map_or(&[][..], |input| &input.words);
                        for word in piped.iter().skip(1).filter(|word| !word.starts_with('-')) {
                            self.add_word(word, &name, variables);
                        }
                    }
                    ScriptOperand::File(words) => {
                        for word in words.into_iter().filter(|word| counts(word)) {
                            if placeholder.is_some_and(|it| word.contains(it)) {
                                self.add_unknown(&format!("{name} {word}"));
                            } else {
                                self.add_word(word, &name, variables);
                            }
                        }
                    }
                }
            }
            // The name of the placeholder is a word of its own: `xargs -I % sh %`.
            if reads_input && words.iter().any(|word| matches!(*word, "-I" | "-i" | "--replace")) {
                let mut later = words[at..].iter().map(|word| strip_version(base_name(word)));
                if later.any(is_interpreter) {
                    self.add_unknown(&words.join(" "));
                }
            }
        }
    }

    /// Adds what an executed word stands for. A plain name is not added: every word of a command is tried as a path.
    fn add_word(&mut self, word: &str, program: &str, variables: &VariableValues) {
        match resolve_word(word, variables) {
            Some(values) => {
                self.paths
                    .extend(values.into_iter().filter(|value| *value != word || is_pattern(value)));
            }
            None => self.add_unknown(format!("{program} {word}").trim_start()),
        }
    }

    fn add_unknown(&mut self, command: &str) {
        self.unknown.insert(ralph_core::text::clean_line(command, MAX_SHOWN_CHARS));
    }

    /// Looks for interpreters in a text that could not be split into commands.
    fn add_unparsed(&mut self, text: &str, variables: &VariableValues) {
        let is_between = |char: char| char.is_whitespace() || ";|&()<>\"'".contains(char);
        let words: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
        for (at, word) in words.iter().enumerate() {
            if let ScriptOperand::File(operands) = script_operand(word, &words[at + 1..]) {
                for operand in operands {
                    self.add_word(operand, word, variables);
                }
            }
        }
    }
}

fn is_input_wrapper(word: &str) -> bool {
    INPUT_WRAPPERS.contains(&base_name(word))
}

/// The program text of a command.
#[derive(Debug, PartialEq, Eq)]
enum ScriptOperand<'a> {
    /// The command executes no script.
    None,
    /// The words that name it. More than one if an option before could take the first as its value.
    File(Vec<&'a str>),
    /// A shell is given the text itself.
    Text(&'a str),
    /// An interpreter reads it from its input.
    Input,
}

fn script_operand<'a>(program: &str, arguments: &[&'a str]) -> ScriptOperand<'a> {
    let name = strip_version(base_name(program));
    match program {
        "." | "source" => {
            return arguments
                .first()
                .map_or(ScriptOperand::None, |it| ScriptOperand::File(vec![it]));
        }
        "eval" => return ScriptOperand::File(arguments.to_vec()),
        _ if !is_interpreter(name) => return ScriptOperand::None,
        _ => {}
    }
    let is_shell = SHELLS.contains(&name);
    let mut words = arguments.iter().copied().peekable();
    while let Some(word) = words.next() {
        let is_module = word == "-m" && matches!(name, "python" | "pypy");
        if is_shell && super::command_parts::takes_script_text(word) {
            return words.next().map_or(ScriptOperand::None, ScriptOperand::Text);
        } else if is_module {
            return words.next().map_or(ScriptOperand::None, |it| ScriptOperand::File(vec![it]));
        } else if word == "--test" || !is_shell && TEXT_OPTIONS.contains(&word) {
            return ScriptOperand::None;
        } else if VALUED_OPTIONS.contains(&word) {
            words.next();
        } else if word.starts_with('-') && word != "-" || SCRIPT_SUBCOMMANDS.contains(&word) {
            // A long option may take the word after it.
            let value = words.peek().copied().filter(|next| !next.starts_with('-'));
            if let Some(value) = value
                && word.starts_with("--")
                && !is_shell
                && !word.contains('=')
            {
                words.next();
                let script = words.peek().copied().filter(|next| !next.starts_with('-'));
                return ScriptOperand::File(std::iter::once(value).chain(script).collect());
            }
        } else if word == "-" {
            return ScriptOperand::Input;
        } else {
            return ScriptOperand::File(vec![word]);
        }
    }
    ScriptOperand::Input
}

/// The variables that loops and assignments of a command give values to.
fn read_variables(parts: &[CommandPart]) -> VariableValues {
    let mut variables = VariableValues::from([("PWD".to_string(), Some(vec![".".to_string()]))]);
    for part in parts.iter().filter(|part| part.kind == PartKind::Command) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let skipped = words.iter().take_while(|word| SHELL_KEYWORDS.contains(word)).count();
        let words = &words[skipped..];
        match words {
            ["for" | "select", name, "in", list @ ..] => {
                let values = list.iter().map(|word| resolve_word(word, &variables));
                let values: Option<Vec<Vec<String>>> = values.collect();
                add_values(&mut variables, name, values.map(|values| values.concat()));
            }
            ["for" | "select", name, ..] => add_values(&mut variables, name, None),
            [first, ..] if ASSIGNING_COMMANDS.contains(first) => {
                for word in &words[1..] {
                    let name = word.split(['=', '[', '+']).next().unwrap_or_default();
                    add_values(&mut variables, name, None);
                }
            }
            words => {
                // Before a command, an assignment has no effect on the words of that command.
                let is_alone = words.iter().all(|word| is_assignment(word));
                for word in words.iter().take_while(|word| is_assignment(word)) {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    let values = resolve_word(value, &variables).filter(|_| is_alone);
                    add_values(&mut variables, name, values);
                }
            }
        }
    }
    variables
}

/// A variable has one of the values of all of its assignments.
fn add_values(variables: &mut VariableValues, name: &str, values: Option<Vec<String>>) {
    let known = variables.remove(name);
    let merged = match (known, values) {
        (Some(Some(mut known)), Some(values)) => {
            known.extend(values);
            Some(known)
        }
        (Some(None), _) | (_, None) => None,
        (None, Some(values)) => Some(values),
    };
    variables.insert(name.to_string(), merged.filter(|values| values.len() <= MAX_VALUES));
}

/// Every value that a word can have; `None` if only a shell knows.
fn resolve_word(word: &str, variables: &VariableValues) -> Option<Vec<String>> {
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
        let known = variables.get(name)?.as_ref()?;
        if known.len() * values.len() > MAX_VALUES {
            return None;
        }
        let joined = |start: &String| {
            known.iter().map(|value| format!("{start}{value}{rest}")).collect::<Vec<_>>()
        };
        values = values.iter().flat_map(joined).collect();
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::super::command_parts::line_parts;
    use super::*;

    fn shown(line: &str) -> String {
        let found = find_executed_scripts(&line_parts(line));
        let paths = found.paths.into_iter();
        let unknown = found.unknown.into_iter().map(|one| format!("?{one}"));
        paths.chain(unknown).collect::<Vec<_>>().join(", ")
    }

    /// R-V1h: a script that is not named is either resolved or reported as unknown.
    #[test]
    fn scripts_that_are_not_named_are_resolved_or_reported() {
        for (line, expected) in [
            // Named scripts, and arguments of theirs.
            ("sh check.sh", ""),
            ("sh check.sh \"$x\" *.txt", ""),
            ("sh -eu check.sh $x", ""),
            ("python3 -W error check.py $x", ""),
            ("python3 -m pytest \"$x\"", ""),
            ("node --test tests/*.js", ""),
            ("node -e 'console.log(`${x}`)'", ""),
            ("[ \"$x\" = 1 ] && echo $x", ""),
            ("test $((x * 2)) = 4", ""),
            ("mdl docs/*.md && shellcheck *.sh", ""),
            ("for f in docs/*.md; do mdl $f; done", ""),
            ("x=$(cat version); grep -q $x NOTES.md", ""),
            ("sh \"$x.sh\" | grep -q ok", ""),
            // Patterns and variables with known values.
            ("sh chk/*.sh", "chk/*.sh"),
            ("./chk/*.sh", "./chk/*.sh"),
            (". ./lib/*.sh", "./lib/*.sh"),
            ("for t in chk/*.sh; do sh $t; done", "chk/*.sh"),
            ("for t in chk/*.sh; do sh \"$t\" || exit 1; done", "chk/*.sh"),
            ("for t in a b; do sh chk/$t.sh; done", "chk/a.sh, chk/b.sh"),
            ("for t in a b; do ./chk/${t}.sh; done", "./chk/a.sh, ./chk/b.sh"),
            ("for t in chk/*; do \"$t\"; done", "chk/*"),
            ("x=chk/a; sh \"$x.sh\"", "chk/a.sh"),
            ("d=chk; x=$d/a; sh \"$x.sh\"", "chk/a.sh"),
            ("PY=python3; $PY chk/*.py", "chk/*.py, python3"),
            ("python3 \"$PWD/check.py\"", "./check.py"),
            ("cat chk/*.sh | sh", "chk/*.sh"),
            ("bash -c 'for t in chk/*.sh; do . $t; done'", "chk/*.sh"),
            ("find chk -exec sh chk/*.sh \\;", "chk/*.sh"),
            // Everything else.
            ("sh \"$x.sh\"", "?sh $x.sh"),
            ("sh -e \"${x}.sh\"", "?sh ${x}.sh"),
            ("sh \"${x:-a}.sh\"", "?sh ${x:-a}.sh"),
            ("sh \"check-$x.sh\" | grep -q ok", "?sh check-$x.sh"),
            ("sh `ls chk`", "?sh `"),
            ("sh $(ls chk)", "?sh $"),
            ("sh ~kim/check.sh", "?sh ~kim/check.sh"),
            ("for t in $(ls chk); do sh chk/$t; done", "?sh chk/$t"),
            ("ls chk | while read t; do sh chk/$t; done", "?sh chk/$t"),
            ("x=a; read x < name; sh $x", "?sh $x"),
            ("x=chk/a sh $x.sh", "?sh $x.sh"),
            ("\"$x\" tests", "?$x"),
            ("./$x/check", "?./$x/check"),
            (". \"$x\"", "?. $x"),
            ("source `pwd`/lib.sh", "?source `/lib.sh"),
            ("eval \"$x\"", "?eval $x"),
            ("python3 -m \"$x\"", "?python3 $x"),
            ("node --import ./hook.js \"$x\"", "?node $x"),
            ("node --unknown 4 \"$x\"", "?node $x"),
            ("deno run \"$x\"", "?deno $x"),
            ("ls chk | xargs sh", "?xargs sh"),
            ("ls chk | xargs -n 1 bash -e", "?xargs -n 1 bash"),
            ("ls chk | xargs -I{} sh chk/{}", "?sh chk/{}"),
            ("ls chk | xargs -I % sh chk/%", "?xargs -I % sh chk/%"),
            ("find chk -name '*.sh' -exec sh {} \\;", "?sh {}"),
            ("cat $x | sh", "?sh $x"),
            ("case a in a) sh \"$x\";; esac", "?sh $x"),
            ("bash -c 'case a in a) sh \"$x\";; esac'", "?sh $x"),
            ("sh <<END\nsh chk/$x.sh\nEND", "?sh chk/$x.sh"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
