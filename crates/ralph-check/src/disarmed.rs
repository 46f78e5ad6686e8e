//! Detects tests that still exist, run and assert, but can no longer fail: the assertion functions or the tests
//! themselves were replaced, or the process exits before failures are reported.

use super::FileChange;
use super::cases;
use super::integrity::finding;
use super::language::{self, Dialect, holds_only_tests};
use super::source::Source;
use super::words;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ralph_core::requirement::Finding;
use ralph_core::text;

const MOST: usize = 200;
const LONGEST_QUOTE: usize = 80;

/// Calls that end the process successfully, without white space.
const EXITS: [&str; 10] = [
    "os._exit(0)",
    "sys.exit(0)",
    "sys.exit()",
    "process.exit(0)",
    "process.exit()",
    "process::exit(0)",
    "os.Exit(0)",
    "System.exit(0)",
    "exitProcess(0)",
    "Deno.exit(0)",
];

/// `tests` are the names of all tests before the change.
pub(super) fn disarmed(
    changes: &[FileChange<'_>],
    is_also_test: &dyn Fn(&str) -> bool,
    tests: &BTreeSet<&str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        let Some(after) = change.after else { continue };
        let source = |text| {
            let mut source = Source::new(change.path, text);
            source.is_test |= is_also_test(change.path);
            source
        };
        let (before, after) = (source(change.before.unwrap_or_default()), source(after));
        let Some(dialect) = after.language.dialect() else { continue };
        if !is_setup(change.path) && !after.is_test {
            continue;
        }
        let known: BTreeSet<String> =
            constructs(&before, dialect, tests).into_iter().map(|(_, line)| line).collect();
        let new = constructs(&after, dialect, tests).into_iter();
        findings.extend(new.filter(|(_, line)| !known.contains(line)).take(MOST).map(
            |(at, line)| {
                let line = text::line(&line, LONGEST_QUOTE);
                let message = format!(
                    "`{line}` is new: tests can no longer fail, or their failures are not reported"
                );
                finding(after.place(at), "test-disarmed", message)
            },
        ));
        if dialect == Dialect::Python {
            findings.extend(other_base(&before, &after));
        }
    }
    findings
}

/// Whether the file is loaded before the tests.
fn is_setup(path: &str) -> bool {
    let name = language::file_name(path);
    let lower = name.to_ascii_lowercase();
    matches!(name, "conftest.py" | "sitecustomize.py" | "usercustomize.py")
        || ["setup", "globalsetup", "setuptests", "setupfile"].iter().any(|word| {
            let stem = lower.rsplit_once('.').map_or(lower.as_str(), |(stem, _)| stem);
            stem != "setup" && stem.ends_with(word)
        })
        || name == "__init__.py" && language::lies_in(path, &["tests", "test"])
}

/// The positions and lines of disarming constructs.
fn constructs(
    source: &Source<'_>,
    dialect: Dialect,
    tests: &BTreeSet<&str>,
) -> Vec<(usize, String)> {
    let is_fixture = language::lies_in(source.path, &["fixtures", "fixture", "testdata"]);
    let cases = cases::cases(source);
    let whole_file = is_setup(source.path)
        || if dialect == Dialect::Rust { holds_only_tests(source.path) } else { !cases.is_empty() };
    let mut found = Vec::new();
    for number in 1..=source.line_count() {
        let code = source.code_of_line(number);
        let trimmed = code.trim();
        if trimmed.is_empty() || trimmed.len() > 500 || source.begins_inside(number) {
            continue;
        }
        let at = source.line(number).start + (code.len() - code.trim_start().len());
        let is_disarmed = !is_fixture && exits(trimmed)
            || match dialect {
                Dialect::Python => python(source, (at, code), tests),
                Dialect::JavaScript => javascript(trimmed),
                Dialect::Rust | Dialect::Go | Dialect::Java => false,
            };
        if found.len() < MOST
            && is_disarmed
            && (whole_file || cases.iter().any(|case| case.body.contains(&at)))
        {
            let line = source.text.get(source.line(number)).unwrap_or_default();
            found.push((at, line.trim().to_string()));
        }
    }
    found
}

fn exits(line: &str) -> bool {
    if !line.contains("xit") {
        return false;
    }
    let squeezed: String = line.chars().filter(|char| !char.is_whitespace()).collect();
    EXITS.iter().any(|exit| words::contains(&squeezed, exit))
}

/// `self.assertEqual = …`, `TestCart.test_adds = …`, `setattr(TestCart, "test_adds", …)`, `__test__ = False`
fn python(source: &Source<'_>, (at, line): (usize, &str), tests: &BTreeSet<&str>) -> bool {
    let trimmed = line.trim();
    if let Some(inside) = trimmed.strip_prefix("setattr(") {
        let name = inside.find(',').and_then(|comma| source.string_at(at + 8 + comma + 1));
        return name.is_some_and(|name| is_assertion(name) || tests.contains(name));
    }
    let Some((target, value)) = assigned(trimmed) else {
        return false;
    };
    let (owner, name) = target.rsplit_once('.').unwrap_or(("", target));
    let is_top = !line.starts_with([' ', '\t']);
    match name {
        "__test__" => (is_top || !owner.is_empty()) && value != "True",
        _ if owner.is_empty() => is_top && tests.contains(name),
        _ => is_assertion(name) || tests.contains(name),
    }
}

/// The target and the value of `target = value`.
fn assigned(line: &str) -> Option<(&str, &str)> {
    let (target, value) = line.split_once('=')?;
    let target = target.trim_end();
    let is_plain =
        target.bytes().all(|byte| words::is_word_byte(byte) || byte == b'.' || byte == b' ');
    (is_plain && !target.is_empty() && !value.starts_with('=')).then(|| (target, value.trim()))
}

/// `assertEqual`, not `assertions`.
fn is_assertion(name: &str) -> bool {
    name.strip_prefix("assert")
        .is_some_and(|rest| rest.starts_with(|char: char| char.is_uppercase()))
        || name == "failureException"
}

/// `expect = () => …`, `globalThis.it = function …`, `function expect(…)`. A value from a library is allowed.
fn javascript(line: &str) -> bool {
    let is_name = |name: &str| matches!(name, "expect" | "test" | "it" | "describe" | "assert");
    if let Some(rest) = line.strip_prefix("function ") {
        return is_name(words::word_at(rest.trim_start(), 0));
    }
    let Some((target, value)) = assigned(line) else {
        return false;
    };
    let target = ["const ", "let ", "var "]
        .iter()
        .find_map(|keyword| target.strip_prefix(keyword))
        .unwrap_or(target)
        .trim();
    let name = match target.rsplit_once('.') {
        Some(("global" | "globalThis" | "window" | "self", name)) => name,
        Some(_) => return false,
        None => target,
    };
    let is_made_here = ["(", "async", "function", "new Proxy", "jest.fn", "vi.fn", "{"]
        .iter()
        .any(|start| value.starts_with(start))
        || value.contains("=>");
    is_name(name) && is_made_here
}

/// Finds classes that no longer derive from a `TestCase` but still use its assertions.
fn other_base(before: &Source<'_>, after: &Source<'_>) -> Vec<Finding> {
    let is_case = |bases: &str| words::words(bases).any(|(_, word)| word.contains("Test"));
    let was = cases::classes(before);
    let lost = cases::classes(after).into_iter().filter(|class| {
        !is_case(class.bases)
            && after
                .code
                .get(class.body.clone())
                .is_some_and(|body| body.contains("self.assert") && body.contains("def test"))
            && was.iter().any(|old| old.name == class.name && is_case(old.bases))
    });
    lost.take(MOST)
        .map(|class| {
            let name = text::line(class.name, LONGEST_QUOTE);
            let message =
                format!("`{name}` is no longer a `TestCase`: its tests are not collected");
            finding(after.place(class.at), "test-disarmed", message)
        })
        .collect()
}
