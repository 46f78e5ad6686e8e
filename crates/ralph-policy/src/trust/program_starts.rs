//! Finds the words of a simple command at which a program can begin: after wrappers, in the actions of `find`, and
//! after any program whose arguments may be a command.

use super::references::is_interpreter;
use super::work_arguments::{is_text_filter, only_reads, program_index, strip_version};
use ralph_gates::gates::simple_commands::base_name;

/// Programs that take operands of the program after them from their input.
const INPUT_WRAPPERS: [&str; 2] = ["parallel", "xargs"];
const FIND_ACTIONS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// Compilers, build tools and test runners: the name of an interpreter among their arguments is no program.
const WORK_PROGRAMS: [&str; 48] = [
    "ava",
    "bats",
    "bazel",
    "bundle",
    "bun",
    "c++",
    "cargo",
    "cc",
    "clang",
    "clang++",
    "cmake",
    "composer",
    "cross",
    "ctest",
    "cypress",
    "deno",
    "dotnet",
    "g++",
    "gcc",
    "git",
    "gmake",
    "go",
    "gradle",
    "gradlew",
    "jasmine",
    "javac",
    "jest",
    "just",
    "make",
    "meson",
    "mix",
    "mocha",
    "mvn",
    "mvnw",
    "ninja",
    "nox",
    "npm",
    "phpunit",
    "playwright",
    "pnpm",
    "pytest",
    "rake",
    "rspec",
    "rustc",
    "swift",
    "tox",
    "vitest",
    "yarn",
];

/// A program of a simple command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramStart {
    /// Its word.
    pub(super) at: usize,
    pub(super) caller: ProgramCaller,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramCaller {
    Shell,
    /// `xargs` or a similar program, which adds operands.
    Input,
    /// An action of `find`, which adds operands.
    Find,
}

pub(super) fn program_starts(words: &[String]) -> Vec<ProgramStart> {
    let first = program_index(words);
    let reads_input = |at: usize| words[..at].iter().any(|word| is_input_wrapper(word));
    let shell_start = |at: usize| {
        let caller = if reads_input(at) { ProgramCaller::Input } else { ProgramCaller::Shell };
        ProgramStart { at, caller }
    };
    let mut starts = vec![shell_start(first)];
    for (at, _) in words.iter().enumerate().filter(|it| FIND_ACTIONS.contains(&it.1.as_str())) {
        let rest = words.get(at + 1..).unwrap_or_default();
        let caller = ProgramCaller::Find;
        starts.push(ProgramStart { at: at + 1 + program_index(rest), caller });
    }
    if words.get(first).is_some_and(|program| may_start_another(program, &words[first + 1..])) {
        let later = (first + 1..words.len()).filter(|at| runs_scripts(&words[*at]));
        let known: Vec<usize> = starts.iter().map(|start| start.at).collect();
        starts.extend(later.filter(|at| !known.contains(at)).map(shell_start));
    }
    starts.retain(|start| start.at < words.len());
    starts
}

/// Whether a command in the arguments of a program may be executed.
pub(super) fn may_start_another(program: &str, arguments: &[String]) -> bool {
    let name = strip_version(base_name(program));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    !(is_interpreter(name)
        || is_text_filter(name)
        || WORK_PROGRAMS.contains(&base_name(program))
        || only_reads(name, &arguments))
}

/// Whether a word is the name of a program that executes a file in its arguments.
pub(super) fn runs_scripts(word: &str) -> bool {
    is_interpreter(strip_version(base_name(word))) || word == "source"
}

pub(super) fn is_input_wrapper(word: &str) -> bool {
    INPUT_WRAPPERS.contains(&base_name(word))
}
