//! Tells the files that a command executes from those that it only reads, checks or compares, which are the work.

use super::command_parts::CommandPart;
use ralph_gates::gates::simple_commands::{SHELL_KEYWORDS, WRAPPERS, base_name, is_assignment};

/// Programs that find and run the program after their options, in addition to [`WRAPPERS`].
const LAUNCHERS: [&str; 7] = ["bunx", "chronic", "npx", "pnpx", "poetry", "uv", "uvx"];
/// Options of these that take the next word as their value.
const WRAPPER_VALUES: [(&str, &[&str]); 8] = [
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("ionice", &["-c", "-n"]),
    ("nice", &["-n"]),
    ("stdbuf", &["-e", "-i", "-o"]),
    ("sudo", &["-g", "-u"]),
    ("time", &["-f", "-o"]),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"]),
    (
        "xargs",
        &[
            "-E",
            "-I",
            "-L",
            "-P",
            "-a",
            "-d",
            "-n",
            "-s",
            "--arg-file",
            "--delimiter",
            "--max-args",
        ],
    ),
];
/// Words of the shell before a command, in addition to [`SHELL_KEYWORDS`].
const BRACKETS: [&str; 3] = ["[[", "{", "}"];

/// Programs that read files and never execute them.
const READ_ONLY_PROGRAMS: [&str; 10] =
    ["[", "egrep", "fgrep", "grep", "jq", "ls", "rg", "stat", "test", "wc"];
/// Programs that decide by the text that they read.
const COMPARING_PROGRAMS: [&str; 10] =
    ["[", "[[", "cmp", "diff", "egrep", "fgrep", "grep", "jq", "rg", "test"];
/// Programs that pass on text, which another program judges.
const TEXT_FILTERS: [&str; 10] =
    ["cat", "cut", "echo", "head", "printf", "sed", "sort", "tail", "tr", "uniq"];

/// Linters, formatters and type checkers: they read the files that they are given.
const CHECKERS: [&str; 33] = [
    "actionlint",
    "ansible-lint",
    "biome",
    "black",
    "check-jsonschema",
    "codespell",
    "djlint",
    "dprint",
    "eslint",
    "flake8",
    "hadolint",
    "isort",
    "jsonlint",
    "luacheck",
    "markdownlint",
    "markdownlint-cli2",
    "mypy",
    "prettier",
    "proselint",
    "pylint",
    "pyright",
    "rubocop",
    "ruff",
    "shellcheck",
    "shfmt",
    "stylelint",
    "taplo",
    "tidy",
    "tsc",
    "typos",
    "vale",
    "xmllint",
    "yamllint",
];
/// Modules of Python that read the files that they are given.
const READING_MODULES: [&str; 14] = [
    "ast",
    "black",
    "compileall",
    "flake8",
    "isort",
    "json.tool",
    "mypy",
    "py_compile",
    "pycodestyle",
    "pyflakes",
    "pylint",
    "ruff",
    "tabnanny",
    "tokenize",
];
const READING_DENO_COMMANDS: [&str; 5] = ["check", "doc", "fmt", "info", "lint"];

/// Parts of the names of options whose value is a file with rules or code: these decide, whatever is checked.
const RULE_OPTIONS: [&str; 15] = [
    "baseline",
    "config",
    "filter",
    "from-file",
    "ignore",
    "import",
    "load",
    "plugin",
    "project",
    "rcfile",
    "require",
    "rule",
    "schema",
    "settings",
    "template",
];
/// The same for linters, in short.
const SHORT_RULE_OPTIONS: [&str; 3] = ["-c", "-p", "-r"];

/// Words in the names of files that judge. A script of such a name is sealed even if its output is only compared.
const JUDGE_WORDS: [&str; 6] = ["ci", "e2e", "qa", "spec", "specs", "suite"];
/// What such words begin with, and end with.
const JUDGE_PREFIXES: [&str; 14] = [
    "accept", "assert", "audit", "check", "conform", "eval", "grade", "judge", "lint", "regress",
    "score", "smoke", "test", "valid",
];
const JUDGE_SUFFIXES: [&str; 5] = ["check", "lint", "tests", "unittest", "verify"];

/// Short options of perl and ruby that take a value.
const PERL_VALUES: &str = "0CDEFIMVdeimx";
const RUBY_VALUES: &str = "0CEFIKTWerx";

/// How a command treats its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperandUse {
    /// It may execute them, or take instructions from them.
    Judge,
    /// It reads them only.
    Read,
    /// A linter reads them, and may be given a file with rules.
    Lint,
}

pub(super) fn is_comparing_program(name: &str) -> bool {
    COMPARING_PROGRAMS.contains(&name)
}

pub(super) fn is_text_filter(name: &str) -> bool {
    TEXT_FILTERS.contains(&name)
}

/// The program of a simple command, without directory and version; wrappers such as `env` do not count.
pub(super) fn command_name(words: &[String]) -> Option<&str> {
    let first = words.get(program_index(words))?;
    Some(strip_version(base_name(first)))
}

/// The words that can name a file which decides the result. Files that the command only checks are left out.
pub(super) fn judging_words(part: &CommandPart) -> Vec<&str> {
    let words: Vec<&str> = part.words.iter().map(String::as_str).collect();
    let start = program_index(&part.words);
    let Some(name) = command_name(&part.words) else { return words };
    let arguments = words.get(start + 1..).unwrap_or_default();
    let operand_use = operand_use(name, arguments);
    let is_interpreted = super::references::is_interpreter(name);
    let under_test = part
        .is_compared
        .then(|| if is_interpreted { first_operand(arguments) } else { words.get(start).copied() })
        .flatten()
        .filter(|file| !names_judge(file));
    let mut kept = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_operand = at > start && !word.starts_with('-') && !word.starts_with('@');
        let before = if at > start + 1 { words[at - 1] } else { "" };
        let is_work = is_operand && operand_use != OperandUse::Judge && {
            !takes_rules(before, operand_use, name)
        };
        if !is_work && Some(*word) != under_test {
            kept.push(*word);
        }
    }
    kept
}

/// Whether a program executes none of its operands.
pub(super) fn only_reads(name: &str, arguments: &[&str]) -> bool {
    operand_use(name, arguments) != OperandUse::Judge
}

fn operand_use(name: &str, arguments: &[&str]) -> OperandUse {
    let is_flag = |at: &usize| {
        let before = at.checked_sub(1).map_or("", |before| arguments[before]);
        arguments[*at].starts_with('-') || takes_rules(before, OperandUse::Read, name)
    };
    let flags: Vec<&str> =
        (0..arguments.len()).take_while(is_flag).map(|at| arguments[at]).collect();
    // What follows a letter with a value is that value: `-Isrc` has no `-c`.
    let has_short = |flag: char, valued: &str| {
        let is_short = |word: &&&str| is_short_option(word);
        flags.iter().filter(is_short).any(|word| {
            let end = word.find(|letter| valued.contains(letter)).map_or(word.len(), |at| at + 1);
            word[..end].contains(flag)
        })
    };
    let is_read = match name {
        "sh" | "bash" | "dash" | "ksh" | "zsh" => has_short('n', "oO") && !has_short('c', "oO"),
        "node" | "nodejs" => flags.iter().any(|flag| matches!(*flag, "--check" | "-c")),
        "perl" => has_short('c', PERL_VALUES) && !has_short('e', PERL_VALUES),
        "ruby" => has_short('c', RUBY_VALUES) && !has_short('e', RUBY_VALUES),
        "php" => flags.iter().any(|flag| matches!(*flag, "--syntax-check" | "-l")),
        "deno" => first_operand(arguments).is_some_and(|it| READING_DENO_COMMANDS.contains(&it)),
        "python" | "pypy" => match arguments.iter().position(|word| *word == "-m") {
            Some(at) => {
                arguments.get(at + 1).is_some_and(|module| READING_MODULES.contains(module))
            }
            None => false,
        },
        name if READ_ONLY_PROGRAMS.contains(&name) => {
            !arguments.iter().any(|word| takes_patterns(name, word))
        }
        _ => false,
    };
    if is_read {
        OperandUse::Read
    } else if CHECKERS.contains(&name) {
        OperandUse::Lint
    } else {
        OperandUse::Judge
    }
}

/// Whether an option of a program that only reads names a file with patterns, a filter or a program.
fn takes_patterns(name: &str, option: &str) -> bool {
    match name {
        "egrep" | "fgrep" | "grep" | "rg" => {
            is_short_option(option) && option.contains('f')
                || option.starts_with("--file")
                || option.starts_with("--pre")
        }
        "jq" => {
            is_short_option(option) && option.contains(['f', 'L'])
                || ["--from-file", "--slurpfile", "--rawfile"].contains(&option)
        }
        _ => false,
    }
}

fn is_short_option(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--")
}

fn takes_rules(option: &str, operand_use: OperandUse, name: &str) -> bool {
    // `[ -r out.csv ]` asks whether the file can be read.
    if option.contains('=') || matches!(name, "[" | "test") {
        return false;
    }
    let long = option.strip_prefix("--").unwrap_or_default();
    let is_short = SHORT_RULE_OPTIONS.contains(&option) && operand_use == OperandUse::Lint;
    // `prettier -c` means `--check`.
    let is_short = is_short && !(name == "prettier" && option == "-c");
    is_short || option == "-r" || RULE_OPTIONS.iter().any(|word| long.contains(word))
}

/// The word at which the program is: after assignments, words of the shell and wrappers with their options.
pub(super) fn program_index(words: &[String]) -> usize {
    let mut at = 0;
    let mut wrapper = "";
    while let Some(word) = words.get(at) {
        let is_option = !wrapper.is_empty()
            && (word.starts_with(|first: char| first == '-' || first.is_ascii_digit())
                || word == "run");
        let name = base_name(word);
        let is_wrapper = WRAPPERS.contains(&name) || LAUNCHERS.contains(&name);
        let is_keyword = SHELL_KEYWORDS.contains(&&**word) || BRACKETS.contains(&&**word);
        let is_skipped = is_wrapper || is_option || is_assignment(word) || is_keyword;
        // `[[` is a word of the shell that decides by itself.
        if !is_skipped || word == "[[" || words.get(at + 1).is_none() {
            break;
        }
        if is_wrapper {
            wrapper = name;
        }
        let values = WRAPPER_VALUES.iter().find(|(program, _)| *program == wrapper);
        let has_value = is_option && values.is_some_and(|(_, options)| options.contains(&&**word));
        at += if has_value && words.len() > at + 2 { 2 } else { 1 };
    }
    at
}

fn first_operand<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    arguments.iter().find(|word| !word.starts_with('-')).copied()
}

pub(super) fn names_judge(file: &str) -> bool {
    let lower = file.to_ascii_lowercase();
    let mut parts = lower.split(['/', '.', '-', '_']);
    parts.any(|part| {
        let part = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
        JUDGE_WORDS.contains(&part)
            || JUDGE_PREFIXES.iter().any(|word| part.starts_with(word))
            || JUDGE_SUFFIXES.iter().any(|word| part.ends_with(word))
            || part.starts_with("verif")
    })
}

/// Strips a version: `python3.11` is `python`.
pub(super) fn strip_version(program: &str) -> &str {
    program.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::command_parts::line_parts;

    /// R-V1h: the files that a command only checks are the work, not the judge.
    #[test]
    fn files_that_a_command_only_checks_are_the_work() {
        for (line, expected) in [
            ("node --check index.js", "node --check"),
            ("node index.js", "node index.js"),
            ("node index.js --check", "node index.js --check"),
            ("node --require ./hook.js --check index.js", "node --require ./hook.js --check"),
            ("bash -n greet.sh", "bash -n"),
            ("bash -eu greet.sh", "bash -eu greet.sh"),
            ("shellcheck -x greet.sh lib.sh", "shellcheck -x"),
            ("shellcheck --rcfile .shellcheckrc a.sh", "shellcheck --rcfile .shellcheckrc"),
            ("deno check main.ts", "deno"),
            ("deno run main.ts", "deno run main.ts"),
            ("python3 -m json.tool out.json", "python3 -m"),
            ("python3 -m pytest -c own.ini", "python3 -m pytest -c own.ini"),
            ("ruby -wc a.rb && perl -c b.pl && php -l c.php", "ruby -wc perl -c php -l"),
            ("grep -q fixed NOTES.md", "grep -q"),
            ("grep -f words.txt NOTES.md", "grep -f words.txt NOTES.md"),
            ("jq -e .a out.json && jq -f rules.jq out.json", "jq -e jq -f rules.jq out.json"),
            ("npx eslint -c own.js src/a.sh", "npx eslint -c own.js"),
            ("prettier -c README.md", "prettier -c"),
            ("env A=1 timeout 60 yamllint -s a.yml b.yml", "env A=1 timeout 60 yamllint -s"),
            ("./greet.sh | grep -q hello", "grep -q"),
            ("python3 app.py in.csv | diff - want.csv", "python3 in.csv diff - want.csv"),
            ("[ \"$(./greet.sh)\" = hello ]", "["),
            ("./check.sh | grep -q ok", "./check.sh grep -q"),
            ("node run_tests.js | grep -q ok", "node run_tests.js grep -q"),
            ("./validate.sh | grep -q ok", "./validate.sh grep -q"),
            ("python3 fibonacci.py | diff - want", "python3 diff - want"),
            ("node latest.js | grep -q 2", "node grep -q"),
            ("php -dmemory_limit=-1 check.php", "php -dmemory_limit=-1 check.php"),
            ("perl -Mstrict check.pl", "perl -Mstrict check.pl"),
            ("perl -Isrc run.pl", "perl -Isrc run.pl"),
            ("ruby -rcoverage run.rb", "ruby -rcoverage run.rb"),
            ("[ -f out.csv ]", "[ -f"),
            ("test -r out.csv", "test -r"),
            ("grep -qf want.txt out.txt", "grep -qf want.txt out.txt"),
            ("jq --slurpfile a b.json . out.json", "jq --slurpfile a b.json . out.json"),
            ("./greet.sh | tee log", "./greet.sh tee log"),
            ("./greet.sh", "./greet.sh"),
        ] {
            let parts = line_parts(line);
            let words: Vec<&str> = parts.iter().flat_map(judging_words).collect();
            assert_eq!(words.join(" "), expected, "{line}");
        }
    }
}
