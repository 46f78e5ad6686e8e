//! Detects tests that still exist, run and assert, but can no longer fail: the assertion functions or the tests
//! themselves were replaced, or the process exits before failures are reported.

use super::FileChange;
use super::change_finding::new_finding;
use super::language::{self, TestLanguage, contains_only_tests};
use super::source_text::SourceText;
use super::test_cases;
use super::word_search;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ralph_core::requirement::Finding;
use ralph_core::text;

const MAX_DISARMED: usize = 200;
const MAX_QUOTED_CHARS: usize = 80;

/// Calls that end the process successfully, without white space.
const SUCCESSFUL_EXITS: [&str; 10] = [
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
pub(super) fn find_disarmed_tests(
    changes: &[FileChange<'_>],
    is_also_test: &dyn Fn(&str) -> bool,
    tests: &BTreeSet<&str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for change in changes {
        let Some(after) = change.after else { continue };
        let source = |text| {
            let mut source = SourceText::new(change.path, text);
            source.is_test |= is_also_test(change.path);
            source
        };
        let (before, after) = (source(change.before.unwrap_or_default()), source(after));
        let Some(dialect) = after.language.test_language() else { continue };
        // A new test file replaces no test that ran before.
        if !is_test_setup(change.path) && (!after.is_test || change.before.is_none()) {
            continue;
        }
        let known: BTreeSet<String> = find_disarming_lines(&before, dialect, tests)
            .into_iter()
            .map(|(_, line)| line)
            .collect();
        let new = find_disarming_lines(&after, dialect, tests).into_iter();
        // A function of that name disarms nothing if no test used the name before.
        let new = new.filter(|(_, line)| match replaced_name(line) {
            Some(name) if dialect == TestLanguage::JavaScript && change.before.is_some() => {
                word_search::find_word(&before.code, name).any(|at| {
                    matches!(before.code.as_bytes().get(at + name.len()), Some(b'(' | b'.'))
                })
            }
            _ => true,
        });
        findings.extend(new.filter(|(_, line)| !known.contains(line)).take(MAX_DISARMED).map(
            |(at, line)| {
                let line = text::clean_line(&line, MAX_QUOTED_CHARS);
                let message = format!(
                    "`{line}` is new: tests can no longer fail, or their failures are not reported"
                );
                new_finding(after.place(at), "test-disarmed", message)
            },
        ));
        if dialect == TestLanguage::Python {
            findings.extend(find_lost_test_bases(&before, &after));
        }
    }
    findings
}

/// Whether the file is loaded before the tests.
pub(super) fn is_test_setup(path: &str) -> bool {
    let name = language::file_name(path);
    let lower = name.to_ascii_lowercase();
    matches!(name, "conftest.py" | "sitecustomize.py" | "usercustomize.py")
        || ["setup", "globalsetup", "setuptests", "setupfile"].iter().any(|word| {
            let stem = lower.rsplit_once('.').map_or(lower.as_str(), |(stem, _)| stem);
            stem != "setup" && stem.ends_with(word)
        })
        || name == "__init__.py" && language::is_below_dir(path, &["tests", "test"])
}

/// The positions and lines of disarming constructs.
fn find_disarming_lines(
    source: &SourceText<'_>,
    dialect: TestLanguage,
    tests: &BTreeSet<&str>,
) -> Vec<(usize, String)> {
    let is_fixture = language::is_below_dir(source.path, &["fixtures", "fixture", "testdata"]);
    let cases = test_cases::find_test_cases(source);
    let whole_file = is_test_setup(source.path)
        || if dialect == TestLanguage::Rust {
            contains_only_tests(source.path)
        } else {
            !cases.is_empty()
        };
    let mut found = Vec::new();
    for number in 1..=source.line_count() {
        let code = source.code_of_line(number);
        let trimmed = code.trim();
        if trimmed.is_empty() || trimmed.len() > 500 || source.starts_inside_literal(number) {
            continue;
        }
        let at = source.line(number).start + (code.len() - code.trim_start().len());
        let is_disarmed = !is_fixture && exits_successfully(trimmed)
            || match dialect {
                TestLanguage::Python => disarms_in_python(source, at, code, tests),
                TestLanguage::JavaScript => disarms_in_javascript(trimmed),
                TestLanguage::Rust
                | TestLanguage::Go
                | TestLanguage::Java
                | TestLanguage::C
                | TestLanguage::Bats => false,
            };
        if found.len() < MAX_DISARMED
            && is_disarmed
            && (whole_file || cases.iter().any(|case| case.body.contains(&at)))
        {
            let line = source.text.get(source.line(number)).unwrap_or_default();
            found.push((at, line.trim().to_string()));
        }
    }
    found
}

fn exits_successfully(line: &str) -> bool {
    if !line.contains("xit") {
        return false;
    }
    let squeezed: String = line.chars().filter(|char| !char.is_whitespace()).collect();
    SUCCESSFUL_EXITS.iter().any(|exit| word_search::contains_word(&squeezed, exit))
}

/// `self.assertEqual = …`, `TestCart.test_adds = …`, `setattr(TestCart, "test_adds", …)`, `__test__ = False`
fn disarms_in_python(
    source: &SourceText<'_>,
    at: usize,
    line: &str,
    tests: &BTreeSet<&str>,
) -> bool {
    let trimmed = line.trim();
    if let Some(inside) = trimmed.strip_prefix("setattr(") {
        let name = inside.find(',').and_then(|comma| source.string_at(at + 8 + comma + 1));
        return name.is_some_and(|name| is_assertion_method(name) || tests.contains(name));
    }
    let Some((target, value)) = parse_assignment(trimmed) else {
        return false;
    };
    let (owner, name) = target.rsplit_once('.').unwrap_or(("", target));
    let is_top = !line.starts_with([' ', '\t']);
    match name {
        "__test__" => (is_top || !owner.is_empty()) && value != "True",
        _ if owner.is_empty() => is_top && tests.contains(name),
        _ => is_assertion_method(name) || tests.contains(name),
    }
}

/// The target and the value of `target = value`.
fn parse_assignment(line: &str) -> Option<(&str, &str)> {
    let (target, value) = line.split_once('=')?;
    let target = target.trim_end();
    let is_plain =
        target.bytes().all(|byte| word_search::is_word_byte(byte) || byte == b'.' || byte == b' ');
    (is_plain && !target.is_empty() && !value.starts_with('=')).then(|| (target, value.trim()))
}

/// `assertEqual`, not `assertions`.
fn is_assertion_method(name: &str) -> bool {
    name.strip_prefix("assert")
        .is_some_and(|rest| rest.starts_with(|char: char| char.is_uppercase()))
        || name == "failureException"
}

fn disarms_in_javascript(line: &str) -> bool {
    replaced_name(line).is_some()
}

/// `expect = () => …`, `globalThis.it = function …`, `function expect(…)`. A value from a library is allowed.
fn replaced_name(line: &str) -> Option<&str> {
    let is_name = |name: &&str| matches!(*name, "expect" | "test" | "it" | "describe" | "assert");
    if let Some(rest) = line.strip_prefix("function ") {
        return Some(word_search::word_at(rest.trim_start(), 0)).filter(is_name);
    }
    let (target, value) = parse_assignment(line)?;
    let target = ["const ", "let ", "var "]
        .iter()
        .find_map(|keyword| target.strip_prefix(keyword))
        .unwrap_or(target)
        .trim();
    let name = match target.rsplit_once('.') {
        Some(("global" | "globalThis" | "window" | "self", name)) => name,
        Some(_) => return None,
        None => target,
    };
    let is_made_here = ["(", "async", "function", "new Proxy", "jest.fn", "vi.fn", "{"]
        .iter()
        .any(|start| value.starts_with(start))
        || value.contains("=>");
    is_made_here.then_some(name).filter(is_name)
}

/// Finds classes that no longer derive from a `TestCase` but still use its assertions.
fn find_lost_test_bases(before: &SourceText<'_>, after: &SourceText<'_>) -> Vec<Finding> {
    let is_case =
        |bases: &str| word_search::split_words(bases).any(|(_, word)| word.contains("Test"));
    let was = test_cases::find_classes(before);
    let lost = test_cases::find_classes(after).into_iter().filter(|class| {
        !is_case(class.bases)
            && after
                .code
                .get(class.body.clone())
                .is_some_and(|body| body.contains("self.assert") && body.contains("def test"))
            && was.iter().any(|old| old.name == class.name && is_case(old.bases))
    });
    lost.take(MAX_DISARMED)
        .map(|class| {
            let name = text::clean_line(class.name, MAX_QUOTED_CHARS);
            let message =
                format!("`{name}` is no longer a `TestCase`: its tests are not collected");
            new_finding(after.place(class.at), "test-disarmed", message)
        })
        .collect()
}
