//! Finds the scripts that a command executes without naming them: by a pattern, a variable or a substitution.
//!
//! Variables with values that the command itself lists are resolved (`for t in chk/*.sh; do sh "$t"; done`). Anything
//! else that only a shell can resolve is reported, because a file that is not known cannot be sealed.

use super::brace_expansion::expand_braces;
use super::command_parts::{CommandPart, PROCESS_FILE, PartKind, input_of};
use super::interpreter_options::{ScriptOperand, script_operand};
use super::references::is_interpreter;
use super::script_sources::prints_named_files;
use super::work_arguments::{names_judge, program_index, strip_version};
use ralph_gates::gates::simple_commands::{SHELL_KEYWORDS, base_name, is_assignment};
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
/// Files that stand for the input.
const INPUT_FILES: [&str; 4] =
    ["/dev/fd/0", "/dev/stdin", "/proc/self/fd/0", "/proc/thread-self/fd/0"];
const FIND_ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
/// Words that end a compound command. What follows them is redirected.
const CLOSING_WORDS: [&str; 4] = ["done", "esac", "fi", "}"];

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
                found.add_command(part, input_of(parts, at), &variables);
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
    let is_class = word.split_once('[').is_some_and(|(_, rest)| rest.contains(']'));
    word.contains(['*', '?']) || is_class
}

impl ExecutedScripts {
    fn add_command(
        &mut self,
        part: &CommandPart,
        input: &[CommandPart],
        variables: &VariableValues,
    ) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let start = program_index(&part.words);
        let Some(program) = words.get(start) else { return };
        if is_assignment(program) || matches!(*program, "case" | "for" | "select") {
            return;
        }
        if words.first().is_some_and(|it| CLOSING_WORDS.contains(it)) && *program == PROCESS_FILE {
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
                let operand = script_operand(&name, arguments);
                let names_input = matches!(&operand, ScriptOperand::File(words)
                    if words.iter().any(|word| INPUT_FILES.contains(word)));
                let operand = if names_input { ScriptOperand::Input } else { operand };
                match operand {
                    ScriptOperand::None => {}
                    ScriptOperand::Text(text) => self.add_unparsed(text, variables),
                    ScriptOperand::Input if reads_input => {
                        self.add_unknown(&words[..=at].join(" "));
                    }
                    ScriptOperand::Input => {
                        for before in input {
                            self.add_input(before, &name, part.is_compared, variables);
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

    /// Adds the operands of a command whose output an interpreter executes: `cat chk/*.sh | sed s/x/y/ | sh`.
    fn add_input(
        &mut self,
        input: &CommandPart,
        program: &str,
        is_compared: bool,
        variables: &VariableValues,
    ) {
        let start = program_index(&input.words);
        let has_wrapper = input.words[..start].iter().any(|word| is_input_wrapper(word));
        if has_wrapper || !prints_named_files(&input.words, start) {
            self.add_unknown(&format!("{} | {program}", input.words.join(" ")));
        }
        let operands = input.words.iter().skip(start + 1);
        for word in operands.filter(|word| !word.starts_with('-')) {
            self.add_word(word, program, variables);
            // The command before may only read its operands, which then are no work either.
            let is_plain = resolve_word(word, variables).is_some_and(|values| values == [&**word]);
            if is_plain && (!is_compared || names_judge(word)) {
                self.paths.insert(word.clone());
            }
        }
    }

    /// Adds what an executed word stands for. A plain name is not added: every word of a command is tried as a path.
    fn add_word(&mut self, word: &str, program: &str, variables: &VariableValues) {
        let values = resolve_word(word, variables);
        let expanded = values.and_then(|values| {
            let lists: Option<Vec<_>> =
                values.iter().map(|value| expand_braces(value, MAX_VALUES)).collect();
            // A shell without this expansion takes the word as it is.
            Some(values.iter().cloned().chain(lists?.concat()).collect::<Vec<_>>())
        });
        match expanded {
            Some(values) if values.len() <= 2 * MAX_VALUES => {
                self.paths
                    .extend(values.into_iter().filter(|value| *value != word || is_pattern(value)));
            }
            Some(_) | None => self.add_unknown(format!("{program} {word}").trim_start()),
        }
    }

    fn add_unknown(&mut self, command: &str) {
        self.unknown.insert(ralph_core::text::clean_line(command, MAX_SHOWN_CHARS));
    }

    /// Looks for interpreters in a text that could not be split into commands. What their input is cannot be known there.
    fn add_unparsed(&mut self, text: &str, variables: &VariableValues) {
        for piped in text.split('|').skip(1) {
            let command = piped.trim_start_matches('&').split([';', '&', ')', '\n']).next();
            let words: Vec<String> =
                command.unwrap_or_default().split_whitespace().map(str::to_string).collect();
            let start = program_index(&words);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let Some(program) = words.get(start) else { continue };
            if script_operand(program, &words[start + 1..]) == ScriptOperand::Input {
                self.add_unknown(&format!("| {}", words.join(" ")));
            }
        }
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

/// The variables that loops and assignments of a command give values to.
fn read_variables(parts: &[CommandPart]) -> VariableValues {
    let mut variables = VariableValues::from([("PWD".to_string(), Some(vec![".".to_string()]))]);
    for part in parts.iter().filter(|part| part.kind == PartKind::Command) {
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
                let values = list.iter().map(|word| resolve_word(word, &variables));
                let values: Option<Vec<Vec<String>>> = values.collect();
                add_values(&mut variables, name, values.map(|values| values.concat()));
            }
            ["for" | "select", name, ..] => add_values(&mut variables, name, None),
            words if command.first().is_some_and(|it| ASSIGNING_COMMANDS.contains(it)) => {
                for word in words {
                    let name = word.split(['=', '[', '+']).next().unwrap_or_default();
                    add_values(&mut variables, name, None);
                }
            }
            words => {
                // Before a command, an assignment has no effect on the words of that command.
                let is_alone = command.is_empty();
                for word in words.iter().take_while(|word| is_assignment(word) || is_append(word)) {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    let values =
                        resolve_word(value, &variables).filter(|_| is_alone && !is_append(word));
                    add_values(&mut variables, name.trim_end_matches('+'), values);
                }
            }
        }
    }
    variables
}

/// `x+=a`
fn is_append(word: &str) -> bool {
    word.split_once("+=").is_some_and(|(name, _)| is_assignment(&format!("{name}=")))
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
            ("bash chk/{1..3}.sh", "chk/1.sh, chk/2.sh, chk/3.sh"),
            ("bash {x}/{a,b}.sh", "{x}/a.sh, {x}/b.sh"),
            ("bash chk/{a,b/c}.sh", "chk/a.sh, chk/b/c.sh"),
            ("for t in {1..2}; do sh chk/$t.sh; done", "chk/1.sh, chk/2.sh, chk/{1..2}.sh"),
            ("cat chk/*.sh | sed s/x/y/ | sh", "chk/*.sh, s/x/y/"),
            ("(cat chk/*.sh; cat lib.py) | python3 -", "chk/*.sh, lib.py"),
            ("cat chk/*.sh | (cd chk; cat) | sh", "chk, chk/*.sh"),
            ("for t in chk/*.sh; do cat $t; done | sh -s x", "chk/*.sh, in, t"),
            ("grep -v '^#' check.rb | ruby", "^#, check.rb"),
            ("cat main.py | python3 | grep -q ok", ""),
            ("wc docs/*.md && cat check.py | python3", "check.py"),
            ("python3 -E chk/*.py", "chk/*.py"),
            ("python3 -I chk/*.py", "chk/*.py"),
            ("deno run -E -r chk/*.ts", "chk/*.ts"),
            ("bash -r chk/*.sh", "chk/*.sh"),
            ("bash -euo pipefail chk/*.sh", "chk/*.sh"),
            ("bash -ceu 'sh chk/*.sh'", "chk/*.sh"),
            ("php -c php.ini chk/*.php", "chk/*.php"),
            ("while read f; do mdl $f; done < <(ls docs)", ""),
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
            ("t=a; while IFS= read -r t; do sh chk2/$t; done", "?sh chk2/$t"),
            ("t=a; ls | { command read t; sh chk2/$t; }", "?sh chk2/$t"),
            ("x=chk/a; x+=b; sh $x.sh", "?sh $x.sh"),
            ("sh <(cat chk/*.sh)", "?sh $"),
            ("sh < <(cat chk/*.sh)", "?sh $"),
            ("bash chk/{1..9999}.sh", "?bash chk/{1..9999}.sh"),
            ("cat chk/$x | sed s/x/y/ | sh", "s/x/y/, ?sh chk/$x"),
            ("ls chk | xargs cat | sh", "chk, ?ls chk | sh, ?xargs cat | sh"),
            // What finds its files by itself, or makes text, can feed anything to an interpreter.
            ("grep -rh . chk | sh", "., chk, ?grep -rh . chk | sh"),
            ("grep -h . chk/a.sh | sh", "., chk/a.sh"),
            ("grep --recursive -h . chk | sh", "., chk, ?grep --recursive -h . chk | sh"),
            ("grep -hd recurse . chk | bash -s", "., chk, recurse, ?grep -hd recurse . chk | bash"),
            ("rg . chk | sh", "., chk, ?rg . chk | sh"),
            (
                "find chk -type f -exec cat {} + | sh",
                "+, cat, chk, f, ?find chk -type f -exec cat {} + | sh, ?sh {}",
            ),
            ("ls chk | sed 's/^/sh /' | sh", "chk, s/^/sh /, ?ls chk | sh"),
            ("sed 'r chk/a' x.sh | sh", "r chk/a, x.sh, ?sed r chk/a x.sh | sh"),
            ("sed -f chk/a x.sh | sh", "chk/a, x.sh, ?sed -f chk/a x.sh | sh"),
            ("sed 's/a/b/e' x.sh | sh", "s/a/b/e, x.sh, ?sed s/a/b/e x.sh | sh"),
            ("sed -n -e '2,5p' -e '/^#/d' x.sh | sh", "/^#/d, 2,5p, x.sh"),
            ("sort --files0=list | sh", "?sort --files0=list | sh"),
            ("./gen.sh | sh", "?./gen.sh | sh"),
            ("./cat a.sh | sh", "a.sh, ?./cat a.sh | sh"),
            ("/bin/cat a.sh | sh", "a.sh"),
            ("python3 gen.py | sh -e", "gen.py, ?python3 gen.py | sh"),
            ("git show HEAD:x | sh", "HEAD:x, show, ?git show HEAD:x | sh"),
            ("cat a.sh | python3 | sh", "a.sh, ?python3 | sh"),
            ("echo 'exit 0' | sh", "exit 0"),
            ("grep -rh . chk | sh /dev/stdin", "., chk, ?grep -rh . chk | sh"),
            ("grep -rh . chk | . /dev/stdin", "., chk, ?grep -rh . chk | ."),
            ("cat chk/a.sh | sh /dev/stdin", "chk/a.sh"),
            ("case a in a) grep -rh . chk | sh;; esac", "?| sh"),
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
