//! Finds the scripts that a command executes without naming them: by a pattern, a variable or a substitution.
//!
//! Variables with values that the command itself lists are resolved (`for t in chk/*.sh; do sh "$t"; done`). Anything
//! else that only a shell can resolve is reported, because a file that is not known cannot be sealed.

mod entered_directories;
mod loop_inputs;

use super::brace_expansion::expand_braces;
use super::code_texts::{TextEffect, loading_text};
use super::command_parts::{CommandPart, PROCESS_FILE, PartKind, input_of};
use super::interpreter_options::{ScriptOperand, script_operand};
use super::program_starts::{
    ProgramCaller, ProgramStart, is_input_wrapper, program_starts, runs_scripts,
};
use super::script_sources::prints_named_files;
use super::shell_variables::{MAX_VALUES, ShellVariables};
use super::work_arguments::{names_judge, only_reads, program_index, strip_version};
use ralph_gates::gates::simple_commands::{WRAPPERS, base_name, is_assignment};
use std::collections::BTreeSet;

const MAX_SHOWN_CHARS: usize = 80;
/// More words than this are not resolved: a command can read the output of all those before it.
const MAX_STEPS: usize = 100_000;

/// Files that stand for the input.
const INPUT_FILES: [&str; 4] =
    ["/dev/fd/0", "/dev/stdin", "/proc/self/fd/0", "/proc/thread-self/fd/0"];
/// Words that end a compound command. What follows them is redirected.
const CLOSING_WORDS: [&str; 4] = ["done", "esac", "fi", "}"];
/// Options of a shell that change what a pattern matches.
const PATTERN_OPTIONS: [&str; 5] = ["dotglob", "extglob", "globstar", "nocaseglob", "nullglob"];
/// Programs that write to their last operand, or to all of them.
const COPYING_PROGRAMS: [&str; 6] = ["cp", "install", "ln", "mv", "rsync", "tee"];
/// Programs whose `-f` names no file with instructions.
const OTHER_FLAG_PROGRAMS: [&str; 26] = [
    "[", "[[", "chmod", "chown", "cp", "cut", "date", "declare", "export", "git", "gzip", "kill",
    "ln", "mkdir", "mv", "pkill", "ps", "readlink", "rm", "rmdir", "seq", "tail", "tar", "test",
    "touch", "unset",
];

/// What the parts of a command execute, apart from the files that they name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExecutedScripts {
    /// Paths and patterns that variables stand for, and patterns.
    pub(super) paths: BTreeSet<String>,
    /// Directories in which commands run, in the order in which they are entered. These can be patterns.
    pub(super) directories: Vec<String>,
    /// Directories that are added to `PATH`.
    pub(super) search_path: BTreeSet<String>,
    /// Program texts of interpreters that execute the files which they name.
    pub(super) loading_texts: BTreeSet<String>,
    /// Commands whose script cannot be known: `sh $x.sh`.
    pub(super) unknown: BTreeSet<String>,
    /// Files and directories that the line itself writes to.
    written: BTreeSet<String>,
    /// How many words were resolved.
    steps: usize,
}

/// `toplevel` is the root of the git repository, if it is known.
pub(super) fn find_executed_scripts(
    parts: &[CommandPart],
    toplevel: Option<&str>,
) -> ExecutedScripts {
    let variables = ShellVariables::read(parts, toplevel);
    let mut found = ExecutedScripts::default();
    for part in parts.iter().filter(|part| part.kind == PartKind::Command) {
        found.add_written(part, &variables);
    }
    for (at, part) in parts.iter().enumerate() {
        match part.kind {
            PartKind::Command => {
                found.add_command(part, input_of(parts, at), &variables);
                found.add_directories(part, &variables);
                found.add_search_path(part, &variables);
            }
            PartKind::Arithmetic => {}
            PartKind::WholeLine => {
                part.words.iter().for_each(|text| found.add_unparsed(text, &variables));
            }
            PartKind::TooLong => found.add_unknown(&part.words.join(" ")),
        }
    }
    found.add_loops(parts, &variables);
    found.add_pattern_options(parts);
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
        variables: &ShellVariables,
    ) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let Some(program) = words.get(program_index(&part.words)) else { return };
        if is_assignment(program) || matches!(*program, "case" | "for" | "select") {
            return;
        }
        if words.first().is_some_and(|it| CLOSING_WORDS.contains(it)) && *program == PROCESS_FILE {
            return;
        }
        for start in program_starts(&part.words) {
            self.add_program(part, start, input, variables);
        }
        self.add_rule_files(&words, variables);
        self.add_expected_files(&words, variables);
    }

    fn add_program(
        &mut self,
        part: &CommandPart,
        start: ProgramStart,
        input: &[CommandPart],
        variables: &ShellVariables,
    ) {
        let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
        let (program, arguments) = (words[start.at], &words[start.at + 1..]);
        if only_reads(strip_version(base_name(program)), arguments) {
            return;
        }
        // The script under test is the work, unless its name says otherwise.
        let counts = |word: &str| !part.is_compared || names_judge(word);
        if counts(program) {
            self.add_word(program, "", variables);
        }
        // What these execute depends on names that only they know, and if there are none, they execute nothing.
        if start.caller != ProgramCaller::Shell {
            let is_executed = runs_scripts(program)
                || program.contains('/')
                || WRAPPERS.contains(&program) && arguments.is_empty();
            if is_executed {
                let from = if start.caller == ProgramCaller::Input { 0 } else { start.at };
                self.add_unknown(&words[from..].join(" "));
            }
        }
        if base_name(program) == "run-parts" {
            for directory in arguments.iter().filter(|word| !word.starts_with('-')) {
                self.add_word(&format!("{directory}/*"), program, variables);
            }
        }
        for name in variables.resolve(program).unwrap_or_default() {
            if let Some((text, effect)) = loading_text(&name, arguments, part.is_compared) {
                match effect {
                    TextEffect::LoadsFiles => {
                        self.loading_texts.insert(text.to_string());
                    }
                    TextEffect::SearchesPrograms => self.add_unknown(&format!("{name} {text}")),
                    TextEffect::Computes => {}
                }
            }
            let operand = script_operand(&name, arguments);
            let names_input = matches!(&operand, ScriptOperand::File(words)
                if words.iter().any(|word| INPUT_FILES.contains(word)));
            match if names_input { ScriptOperand::Input } else { operand } {
                ScriptOperand::None => {}
                ScriptOperand::Text(text) => self.add_unparsed(text, variables),
                ScriptOperand::Input if start.caller != ProgramCaller::Shell => {}
                ScriptOperand::Input => {
                    for before in input {
                        self.add_input(before, &name, part.is_compared, variables);
                    }
                }
                ScriptOperand::File(words) => {
                    let is_known = start.caller == ProgramCaller::Shell;
                    for word in words.into_iter().filter(|word| counts(word)) {
                        if is_known || variables.resolve(word).is_some() {
                            self.add_word(word, &name, variables);
                        }
                    }
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
        variables: &ShellVariables,
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
            let is_plain = variables.resolve(word).is_some_and(|values| values == [&**word]);
            if is_plain && (!is_compared || names_judge(word)) {
                self.paths.insert(word.clone());
            }
        }
    }

    /// Adds the files with instructions of any program: `awk -f chk/*.awk`.
    fn add_rule_files(&mut self, words: &[&str], variables: &ShellVariables) {
        let is_other = |word: &&&str| OTHER_FLAG_PROGRAMS.contains(&base_name(word));
        if words.iter().take_while(|word| !word.starts_with('-')).any(|word| is_other(&word)) {
            return;
        }
        let is_flag = |word: &str| matches!(word, "-f" | "--file" | "--from-file");
        let next = words.windows(2).filter(|pair| is_flag(pair[0])).map(|pair| pair[1]);
        let own = words.iter().filter_map(|word| word.strip_prefix("--file="));
        for word in next.chain(own) {
            self.add_word(word, words[0], variables);
        }
    }

    /// Adds the files that an output is compared with, if they are not named.
    fn add_expected_files(&mut self, words: &[&str], variables: &ShellVariables) {
        let Some(at) = words.iter().position(|word| matches!(base_name(word), "cmp" | "diff"))
        else {
            return;
        };
        let operands = words[at + 1..].iter().filter(|word| !word.starts_with('-'));
        let operands: Vec<&str> = operands.copied().filter(|word| *word != PROCESS_FILE).collect();
        let is_known = |word: &&&str| variables.resolve(word).is_some();
        let known: Vec<&str> = operands.iter().filter(is_known).copied().collect();
        if known.is_empty() && !operands.is_empty() {
            self.add_unknown(&words[at..].join(" "));
        }
        for word in known {
            let values = variables.resolve(word).unwrap_or_default();
            let is_written = values.iter().any(|value| self.is_written(value));
            if !is_written {
                self.add_word(word, words[at], variables);
            }
        }
    }

    /// Adds what an executed word stands for. A plain name is not added: every word of a command is tried as a path.
    fn add_word(&mut self, word: &str, program: &str, variables: &ShellVariables) {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            self.add_unknown("more words than can be resolved");
            return;
        }
        let values = variables.resolve_split(word);
        let expanded = values.and_then(|values| {
            let lists: Option<Vec<_>> =
                values.iter().map(|value| expand_braces(value, MAX_VALUES)).collect();
            // A shell without this expansion takes the word as it is.
            Some(values.iter().cloned().chain(lists?.concat()).collect::<Vec<_>>())
        });
        let shown = format!("{program} {word}");
        match expanded {
            Some(values) if values.iter().any(|value| self.is_written(value)) => {
                self.add_unknown(shown.trim_start());
            }
            Some(values) if values.len() <= 2 * MAX_VALUES => {
                self.paths
                    .extend(values.into_iter().filter(|value| *value != word || is_pattern(value)));
            }
            Some(_) | None => self.add_unknown(shown.trim_start()),
        }
    }

    pub(super) fn add_unknown(&mut self, command: &str) {
        self.unknown.insert(ralph_core::text::clean_line(command, MAX_SHOWN_CHARS));
    }

    /// Looks for interpreters in a text that could not be split into commands. Whatever only a shell resolves in it
    /// could be executed.
    fn add_unparsed(&mut self, text: &str, variables: &ShellVariables) {
        let is_between = |char: char| char.is_whitespace() || ";|&()<>\"'".contains(char);
        let words: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
        for (at, word) in words.iter().enumerate() {
            if let ScriptOperand::File(operands) = script_operand(word, &words[at + 1..]) {
                let known = |word: &&str| variables.resolve(word).is_some();
                for operand in operands.into_iter().filter(known) {
                    self.add_word(operand, word, variables);
                }
            }
        }
        let receives = |piped: &str| {
            piped.split(is_between).find(|word| !word.is_empty()).is_some_and(runs_scripts)
        };
        let has_list = ["@(", "+(", "!("].iter().any(|list| text.contains(list));
        let is_unknown = is_pattern(text)
            || has_list
            || text.contains(['$', '`'])
            || words.iter().any(|word| is_input_wrapper(word) || *word == "eval")
            || text.split('|').skip(1).any(receives);
        if is_unknown {
            self.add_unknown(text);
        }
    }

    /// Adds the files that a command writes to, so that they can be executed later in the same line.
    fn add_written(&mut self, part: &CommandPart, variables: &ShellVariables) {
        let start = program_index(&part.words);
        let is_copy = |program: &String| COPYING_PROGRAMS.contains(&base_name(program));
        let copied = part.words.get(start).is_some_and(is_copy);
        let mut operands = part.words.iter().skip(start + 1).filter(|_| copied);
        let targets = operands.rfind(|word| !word.starts_with('-'));
        for word in part.outputs.iter().chain(targets) {
            let values = variables.resolve(word).unwrap_or_default().into_iter();
            let values = values.map(|value| plain_path(&value).to_string());
            self.written.extend(values.filter(|value| !value.is_empty() && value != "dev/null"));
        }
    }

    fn is_written(&self, path: &str) -> bool {
        let path = plain_path(path);
        let is_below = |written: &String| {
            path.strip_prefix(&**written).is_some_and(|rest| rest.starts_with('/'))
        };
        self.written.contains(path) || self.written.iter().any(is_below)
    }

    /// Options such as `dotglob` change what the patterns match.
    fn add_pattern_options(&mut self, parts: &[CommandPart]) {
        let has_pattern = self.paths.iter().chain(&self.directories).any(|path| is_pattern(path));
        for part in parts.iter().filter(|_| has_pattern) {
            let sets = part.words.iter().any(|word| matches!(&**word, "-O" | "setopt" | "shopt"));
            if sets && part.words.iter().any(|word| PATTERN_OPTIONS.contains(&&**word)) {
                self.add_unknown(&part.words.join(" "));
            }
        }
    }
}

/// A path without `./` before it and `/` after it.
fn plain_path(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::super::code_texts::expand_code_texts;
    use super::super::command_parts::line_parts;
    use super::*;

    fn shown(line: &str) -> String {
        let found =
            find_executed_scripts(&expand_code_texts(line_parts(line), Some("/top")), Some("/top"));
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
            ("find chk -exec sh chk/*.sh \\;", "chk/*.sh, ?sh chk/*.sh ;"),
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
            ("t=a; while IFS= read -r t; do sh $t; done", "?sh $t"),
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
            ("case a in a) grep -rh . chk | sh;; esac", "?case a in a) grep -rh . chk | sh;; esac"),
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
            ("ls chk | xargs -n 1 bash -e", "?xargs -n 1 bash -e"),
            ("ls chk | xargs -I{} sh chk/{}", "?xargs -I{} sh chk/{}"),
            ("ls chk | xargs -I % sh chk/%", "?xargs -I % sh chk/%"),
            ("find chk -name '*.sh' -exec sh {} \\;", "?sh {} ;"),
            ("cat $x | sh", "?sh $x"),
            ("case a in a) sh $x;; esac", "?case a in a) sh $x;; esac"),
            ("bash -c 'case a in a) sh $x;; esac'", "?case a in a) sh $x;; esac"),
            ("sh <<END\nsh chk/$x.sh\nEND", "?sh <<END sh chk/$x.sh END"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
