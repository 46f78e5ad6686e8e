//! Which test runner a gate starts, as far as its command shows it.

use ralph_core::gate::{Gate, GateInvocation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestRunner {
    Pytest,
    Unittest,
    Cargo,
    Nextest,
    Go,
    Jest,
    Vitest,
    Mocha,
    Ava,
    NodeTest,
    Bats,
}

/// Options that do not affect which tests run, for all runners. One that ends in `=` is followed by a value.
const PLAIN_OPTIONS: [&str; 32] = [
    "--all-features",
    "--ci",
    "--color=",
    "--exit",
    "--forceExit",
    "--frozen",
    "--full-trace",
    "--json",
    "--junitxml=",
    "--locked",
    "--maxWorkers=",
    "--no-color",
    "--no-fail-fast",
    "--no-header",
    "--offline",
    "--output=",
    "--outputFile=",
    "--quiet",
    "--reporter=",
    "--reporters=",
    "--runInBand",
    "--silent",
    "--tap",
    "--tb=",
    "--test-concurrency=",
    "--test-reporter-destination=",
    "--test-reporter=",
    "--verbose",
    "-json",
    "-q",
    "-v",
    "-vv",
];

/// Scripts may call other scripts, but not for ever.
const MAX_SCRIPT_DEPTH: usize = 4;

/// Finds the runner. `script` returns the text of a script of the package manager.
pub fn find_runner(gate: &Gate, script: &dyn Fn(&str) -> Option<String>) -> Option<TestRunner> {
    match &gate.command {
        GateInvocation::Argv(words) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            runner_of_words(&words, script, 0)
        }
        GateInvocation::Shell(line) => runner_of_line(line, script, 0),
    }
}

fn runner_of_line(
    line: &str,
    script: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<TestRunner> {
    line.split(['&', '|', ';', '\n']).find_map(|command| {
        let words: Vec<&str> = command.split_whitespace().collect();
        runner_of_words(&words, script, depth)
    })
}

fn runner_of_words(
    words: &[&str],
    script: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<TestRunner> {
    let (first, rest) = words.split_first()?;
    let program = first.rsplit('/').next().unwrap_or(first);
    let next = || runner_of_words(rest, script, depth);
    match program {
        "pytest" | "py.test" => Some(TestRunner::Pytest),
        "jest" => Some(TestRunner::Jest),
        "vitest" => Some(TestRunner::Vitest),
        "mocha" | "_mocha" => Some(TestRunner::Mocha),
        "ava" => Some(TestRunner::Ava),
        "bats" => Some(TestRunner::Bats),
        "cargo" => runner_of_cargo(rest),
        "go" if rest.first() == Some(&"test") => Some(TestRunner::Go),
        "node" if rest.contains(&"--test") => Some(TestRunner::NodeTest),
        "node" => rest.iter().find(|word| !word.starts_with('-')).and_then(|file| {
            let file = [*file];
            runner_of_words(&file, script, depth).filter(|_| file[0].contains("node_modules"))
        }),
        "npm" | "pnpm" | "yarn" | "bun" if depth < MAX_SCRIPT_DEPTH => {
            runner_of_script(rest, script, depth).or_else(next)
        }
        _ if is_python(program) => match rest {
            ["-m", "pytest", ..] => Some(TestRunner::Pytest),
            ["-m", "unittest", ..] => Some(TestRunner::Unittest),
            // `python -I -m pytest`
            [option, ..] if option.starts_with('-') && *option != "-m" && *option != "-c" => {
                let mut shorter = vec![*first];
                shorter.extend(rest.iter().skip(1));
                runner_of_words(&shorter, script, depth)
            }
            _ => None,
        },
        "bunx" | "bundle" | "c8" | "command" | "coverage" | "cross-env" | "dlx" | "env"
        | "exec" | "hatch" | "mise" | "nice" | "npx" | "nyc" | "pdm" | "pipenv" | "poetry"
        | "run" | "rye" | "time" | "uv" | "uvx" | "xvfb-run" => next(),
        "timeout" => runner_of_words(rest.get(1..)?, script, depth),
        // An option of a launcher, or a variable assignment.
        word if word.starts_with('-') || word.contains('=') => next(),
        _ => None,
    }
}

fn runner_of_cargo(rest: &[&str]) -> Option<TestRunner> {
    let mut words = rest.iter().filter(|word| !word.starts_with('+') && !word.starts_with('-'));
    match *words.next()? {
        "test" | "t" => Some(TestRunner::Cargo),
        "nextest" => Some(TestRunner::Nextest),
        _ => None,
    }
}

/// `npm test`, `npm run unit -- --ci`, `yarn unit`
fn runner_of_script(
    rest: &[&str],
    script: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<TestRunner> {
    let mut words = rest.iter().filter(|word| !word.starts_with('-'));
    let name = match *words.next()? {
        "run" | "run-script" => words.next()?,
        "t" | "tst" => "test",
        name => name,
    };
    runner_of_line(&script(name)?, script, depth + 1)
}

fn is_python(program: &str) -> bool {
    program
        .strip_prefix("python")
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// The position of the word after which the arguments of the runner begin.
pub fn runner_position(runner: TestRunner, words: &[String]) -> Option<usize> {
    let names: &[&str] = match runner {
        TestRunner::Pytest => &["pytest", "py.test"],
        TestRunner::Jest => &["jest"],
        TestRunner::Vitest => &["vitest"],
        TestRunner::Mocha => &["mocha", "_mocha"],
        TestRunner::Ava => &["ava"],
        TestRunner::Bats => &["bats"],
        TestRunner::Cargo | TestRunner::Go => &["test"],
        TestRunner::NodeTest => &["node"],
        TestRunner::Unittest | TestRunner::Nextest => return None,
    };
    words.iter().position(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        names.contains(&name)
    })
}

/// Whether the word is an option that does not affect which tests run.
pub fn is_plain_option(word: &str) -> bool {
    let option = word.split_once('=').map_or(word.to_string(), |(option, _)| format!("{option}="));
    PLAIN_OPTIONS.contains(&option.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(line: &str) -> Option<TestRunner> {
        let script = |name: &str| {
            let text = match name {
                "test" => "npm run lint && npm run unit",
                "unit" => "cross-env NODE_ENV=test c8 mocha --exit",
                "lint" => "eslint .",
                "loop" => "npm run loop",
                _ => return None,
            };
            Some(text.to_string())
        };
        let words: Vec<&str> = line.split(' ').collect();
        runner_of_words(&words, &script, 0)
    }

    #[test]
    fn runners_are_found_behind_launchers_and_scripts() {
        for (line, expected) in [
            ("pytest -q", Some(TestRunner::Pytest)),
            (".venv/bin/python3.12 -m pytest", Some(TestRunner::Pytest)),
            ("python -I -m unittest discover", Some(TestRunner::Unittest)),
            ("uv run --frozen pytest", Some(TestRunner::Pytest)),
            ("poetry run coverage run -m pytest", Some(TestRunner::Pytest)),
            ("cargo +nightly test --workspace", Some(TestRunner::Cargo)),
            ("cargo nextest run", Some(TestRunner::Nextest)),
            ("cargo clippy", None),
            ("go test ./...", Some(TestRunner::Go)),
            ("go vet ./...", None),
            ("npx --no-install jest --ci", Some(TestRunner::Jest)),
            ("env JEST_JUNIT_OUTPUT_FILE={report} npx jest", Some(TestRunner::Jest)),
            ("node node_modules/.bin/vitest run", Some(TestRunner::Vitest)),
            ("node --test", Some(TestRunner::NodeTest)),
            ("node server.js", None),
            ("npm test", Some(TestRunner::Mocha)),
            ("npm run loop", None),
            ("timeout 60 bats tests", Some(TestRunner::Bats)),
            ("make test", None),
        ] {
            assert_eq!(runner(line), expected, "{line}");
        }
    }
}
