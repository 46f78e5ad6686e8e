//! Names the tests of Rust's test runner, by the binary that they are in: `shop (src/lib.rs) > tests::adds`.

use super::NameCollector;
use ralph_core::test_cases::TestOutcome;

#[derive(Debug, Default)]
pub(in crate::findings) struct LibtestNames {
    /// From the last `Running …` or `Doc-tests …` line.
    binary: String,
    section: LibtestSection,
    /// The number of results still to come.
    expected: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum LibtestSection {
    #[default]
    Outside,
    /// After `running 3 tests`.
    Results,
    /// The tests' output, until `test result: …`.
    Output,
}

impl LibtestNames {
    pub(in crate::findings) fn read_line(&mut self, line: &str, names: &mut NameCollector<'_>) {
        match self.section {
            LibtestSection::Outside => {
                if let Some(binary) = running_binary(line.trim_start()) {
                    self.binary = binary;
                } else if let Some(number) = announced_tests(line) {
                    self.section = LibtestSection::Results;
                    self.expected = number;
                }
            }
            LibtestSection::Results => self.read_result(line, names),
            LibtestSection::Output => {
                if line.starts_with("test result: ") {
                    self.end_binary(names);
                }
            }
        }
    }

    pub(in crate::findings) fn finish(self, names: &mut NameCollector<'_>) {
        if self.section != LibtestSection::Outside {
            names.mark_incomplete();
        }
    }

    /// A result in the runner's JSON.
    pub(in crate::findings) fn read_event(
        &self,
        event: &str,
        name: &str,
        names: &mut NameCollector<'_>,
    ) {
        let outcome = match event {
            "ok" => TestOutcome::Passed,
            "failed" | "timeout" => TestOutcome::Failed,
            "ignored" => TestOutcome::Skipped,
            _ => return,
        };
        names.add(outcome, &[&self.binary, &without_line_number(name)]);
    }

    fn read_result(&mut self, line: &str, names: &mut NameCollector<'_>) {
        if line == "failures:" {
            self.section = LibtestSection::Output;
        } else if line.starts_with("test result: ") {
            self.end_binary(names);
        } else if let Some(name) = line.strip_suffix(" --- FAILED") {
            // `--quiet` names only the failures.
            names.add_name(TestOutcome::Failed, &[&self.binary, &without_line_number(name)]);
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ..."))
        {
            let result = result.trim();
            let result = result.split_once(" <").map_or(result, |(result, _)| result);
            let outcome = match result {
                "ok" => TestOutcome::Passed,
                "FAILED" => TestOutcome::Failed,
                "ignored" => TestOutcome::Skipped,
                _ if result.starts_with("ignored, ") => TestOutcome::Skipped,
                _ if result.starts_with("bench: ") => return,
                // With `--nocapture`, the test's own output follows: its lines cannot be distinguished from results.
                _ => {
                    self.section = LibtestSection::Output;
                    names.mark_incomplete();
                    return;
                }
            };
            self.expected = self.expected.saturating_sub(1);
            let name = name.strip_suffix(" - should panic").unwrap_or(name);
            names.add(outcome, &[&self.binary, &without_line_number(name)]);
        }
    }

    fn end_binary(&mut self, names: &mut NameCollector<'_>) {
        if self.expected > 0 {
            names.mark_incomplete();
        }
        self.section = LibtestSection::Outside;
        self.binary.clear();
    }
}

/// `running 3 tests`
fn announced_tests(line: &str) -> Option<u32> {
    let (number, noun) = line.strip_prefix("running ")?.split_once(' ')?;
    number.parse().ok().filter(|_| matches!(noun, "test" | "tests"))
}

/// `Running unittests src/lib.rs (target/debug/deps/shop-507999230d6984fa)`, `Doc-tests shop`
fn running_binary(line: &str) -> Option<String> {
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} (doc-tests)"));
    }
    let (source, program) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let source = source.strip_prefix("unittests ").unwrap_or(source);
    let program = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let program = program.strip_suffix(".exe").unwrap_or(program);
    let program = match program.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            name
        }
        Some(_) | None => program,
    };
    Some(format!("{program} ({source})"))
}

/// The name of a doc test contains its line: `src/lib.rs - add (line 3)`.
fn without_line_number(name: &str) -> String {
    let Some((head, rest)) = name.rsplit_once(" (line ") else {
        return name.to_owned();
    };
    match rest.split_once(')') {
        Some((number, rest)) if number.parse::<u32>().is_ok() => format!("{head}{rest}"),
        Some(_) | None => name.to_owned(),
    }
}
