//! `[tests]`: whether a change weakens the tests. Tests are matched by name and body across the whole change, so that a
//! moved or renamed test does not count as removed.

use super::FileChange;
use super::change_finding::{MAX_CHANGE_FINDINGS, file_place, new_finding};
use super::changed_expectations;
use super::disarmed_tests;
use super::language::{self, TestLanguage};
use super::measured_tests::{ChangeSide, FocusedTest, MeasuredTest, TestStart};
use super::shared_helpers;
use super::source_text::SourceText;
use super::test_cases::TestExecution;
use super::test_collection;
use super::test_matching::{ReplacementSearch, RunningTests, match_tests};
use super::word_search;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, FindingSeverity};
use ralph_core::text;
use ralph_core::waiver::TEST_RULES;

/// How many tests of a deleted file to name.
const MAX_NAMES: usize = 5;
const MAX_NAME_CHARS: usize = 100;

/// Compares the tests of all changed files, before and after. `is_also_test` returns whether a path is a test file even
/// though its name does not show it.
pub fn check_tests(
    changes: &[FileChange<'_>],
    is_also_test: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let (before, after) = measure_sides(changes, is_also_test);
    let matched = match_tests(&before.tests, &after.tests);
    let mut findings = find_removed_tests(changes, &before, &after, &matched);
    for (was, is) in before.tests.iter().zip(&matched) {
        if let Some(is) = is.and_then(|index| after.tests.get(index)) {
            findings.extend(find_weakening(was, is, &before, &after));
        }
    }
    findings.extend(find_new_focus(&before.focused, &after.focused));
    findings.extend(test_collection::find_narrowed_collection(changes));
    findings.extend(shared_helpers::find_weakened_helpers(changes, is_also_test));
    let names = before.tests.iter().map(MeasuredTest::own_name).collect();
    findings.extend(disarmed_tests::find_disarmed_tests(changes, is_also_test, &names));
    findings.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));
    findings.truncate(MAX_CHANGE_FINDINGS);
    findings
}

/// Whether the finding shows by itself that a test no longer runs or no longer tests anything. Everything else is a
/// hint for a person.
pub fn is_certain(finding: &Finding) -> bool {
    finding.severity == FindingSeverity::Error
        && finding.rule.as_deref().is_some_and(|rule| TEST_RULES.contains(&rule))
}

/// The names of new tests, without their modules, classes and suites.
pub fn added_test_names(
    changes: &[FileChange<'_>],
    is_also_test: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let (before, after) = measure_sides(changes, is_also_test);
    let matched = match_tests(&before.tests, &after.tests);
    let is_new = |(index, _): &(usize, &MeasuredTest<'_>)| !matched.contains(&Some(*index));
    let new = after.tests.iter().enumerate().filter(is_new);
    new.map(|(_, test)| test.own_name().to_owned()).collect()
}

fn measure_sides<'a>(
    changes: &[FileChange<'a>],
    is_also_test: &dyn Fn(&str) -> bool,
) -> (ChangeSide<'a>, ChangeSide<'a>) {
    let (mut before, mut after) = (ChangeSide::default(), ChangeSide::default());
    for change in changes {
        for (text, side) in [(change.before, &mut before), (change.after, &mut after)] {
            if let Some(text) = text.filter(|_| !language::is_fixture(change.path)) {
                let mut source = SourceText::new(change.path, text);
                source.is_test |= is_also_test(change.path);
                side.add(&source);
            }
        }
    }
    (before, after)
}

fn sort_key(finding: &Finding) -> (&str, Option<u32>, Option<&str>) {
    let place = finding.place.as_ref();
    let file = place.map_or("", |place| place.file.as_str());
    (file, place.and_then(|place| place.line), finding.rule.as_deref())
}

fn find_removed_tests(
    changes: &[FileChange<'_>],
    before: &ChangeSide<'_>,
    after: &ChangeSide<'_>,
    matched: &[Option<usize>],
) -> Vec<Finding> {
    let running = RunningTests::find(&after.tests);
    let mut replacements = ReplacementSearch::find(&before.tests, &after.tests, matched);
    let mut gone: BTreeMap<&str, Vec<&MeasuredTest<'_>>> = BTreeMap::new();
    let mut findings = Vec::new();
    for (test, _) in before.tests.iter().zip(matched).filter(|(_, now)| now.is_none()) {
        if running.have_copy(test) || matches!(test.running, TestExecution::Never(_)) {
            continue;
        }
        match replacements.take_for(test) {
            Some(by) => findings.push(replaced_test_finding(test, by)),
            None => gone.entry(test.path).or_default().push(test),
        }
    }
    for change in changes {
        let Some(tests) = gone.get(change.path) else {
            continue;
        };
        match change.after {
            None => findings.push(removed_file_finding(changes, change, tests)),
            Some(after) => {
                let source = SourceText::new(change.path, after);
                let before = change.before.unwrap_or_default();
                let removed = tests.iter().map(|test| removed_test_finding(before, &source, test));
                findings.extend(removed);
            }
        }
    }
    findings
}

fn replaced_test_finding(gone: &MeasuredTest<'_>, by: &MeasuredTest<'_>) -> Finding {
    let (gone, name) = (quote_name(&gone.name), quote_name(&by.name));
    let message = format!("{gone} was rewritten as {name} or merged into it");
    let found = new_finding(by.place.clone(), "test-replaced", message);
    Finding { severity: FindingSeverity::Warning, ..found }
}

fn removed_file_finding(
    changes: &[FileChange<'_>],
    change: &FileChange<'_>,
    tests: &[&MeasuredTest<'_>],
) -> Finding {
    let mut names: Vec<_> =
        tests.iter().take(MAX_NAMES).map(|test| quote_name(&test.name)).collect();
    if tests.len() > MAX_NAMES {
        names.push(format!("and {} more", tests.len() - MAX_NAMES));
    }
    let names = names.join(", ");
    let tests = text::count_noun(tests.len(), "test");
    let place = file_place(change.path);
    match test_collection::find_renamed_file(changes, change) {
        Some(path) => {
            let path = quote_name(path);
            let message = format!(
                "was renamed to {path}, where no test runner looks for its {tests}: {names}"
            );
            new_finding(place, "test-file-renamed", message)
        }
        None => {
            new_finding(place, "test-file-removed", format!("was deleted with {tests}: {names}"))
        }
    }
}

fn removed_test_finding(before: &str, after: &SourceText<'_>, test: &MeasuredTest<'_>) -> Finding {
    let name = quote_name(&test.name);
    let own = test.own_name();
    let mut in_comments = memchr::memmem::find_iter(after.comments.as_bytes(), own.as_bytes());
    match in_comments.next() {
        Some(at) if own.len() > 3 && word_search::contains_word(&after.comments, own) => {
            new_finding(after.place(at), "test-commented-out", format!("{name} is commented out"))
        }
        _ if test.dialect == TestLanguage::JavaScript
            && is_title_of_wrapper(after, before, own) =>
        {
            let message = format!("{name} is passed to a function that may run it");
            let found = new_finding(file_place(test.path), "test-replaced", message);
            Finding { severity: FindingSeverity::Warning, ..found }
        }
        _ => new_finding(
            file_place(test.path),
            "test-removed",
            format!("{name} was removed: no test in the change has its name or body"),
        ),
    }
}

/// Whether the title is the first argument of a function that the file called before, such as a helper that sets the
/// clock and then registers the test.
fn is_title_of_wrapper(after: &SourceText<'_>, before: &str, title: &str) -> bool {
    const MIN_TITLE_BYTES: usize = 8;
    let mut found = memchr::memmem::find_iter(after.text.as_bytes(), title.as_bytes()).take(20);
    title.len() >= MIN_TITLE_BYTES
        && found.any(|at| {
            let Some(span) = after.span_at(at) else { return false };
            let code = word_search::text_before(&after.code, span.start, 200).trim_end();
            let Some(callee) = code.strip_suffix('(') else { return false };
            let is_path = |char: char| char.is_ascii_alphanumeric() || "_$.".contains(char);
            let path = callee.rsplit(|char: char| !is_path(char)).next().unwrap_or_default();
            let root = path.split('.').next().unwrap_or_default();
            root.len() > 1 && word_search::contains_word(before, root)
        })
}

fn find_weakening(
    was: &MeasuredTest<'_>,
    is: &MeasuredTest<'_>,
    before: &ChangeSide<'_>,
    after: &ChangeSide<'_>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = quote_name(&is.name);
    let mut report = |rule, message| findings.push(new_finding(is.place.clone(), rule, message));
    match (&was.running, &is.running) {
        (TestExecution::Always | TestExecution::Sometimes(_), TestExecution::Never(by)) => {
            report("test-skipped", format!("{name} no longer runs or counts: `{by}`"));
        }
        (TestExecution::Always, TestExecution::Sometimes(by)) => {
            report("test-conditional", format!("{name} no longer always runs: `{by}`"));
        }
        (
            TestExecution::Always | TestExecution::Sometimes(_),
            TestExecution::Always | TestExecution::Sometimes(_),
        )
        | (TestExecution::Never(_), _) => {}
    }
    if was.start != is.start && is.start == TestStart::Returns {
        report("test-emptied", format!("{name} returns before it tests anything"));
    } else if lost_assertions(was, is, before, after) > 0 {
        match is.assertions {
            0 if calls_nothing_new(was, is) => {
                let message = format!("{name} makes no assertions, down from {}", was.assertions);
                report("test-emptied", message);
            }
            0 => {
                let message = format!(
                    "{name} makes no assertions of a known kind, down from {}",
                    was.assertions
                );
                report("assertions-removed", message);
            }
            count => {
                let made = text::count_noun(count, "assertion");
                let message = format!("{name} makes {made}, down from {}", was.assertions);
                report("assertions-removed", message);
            }
        }
    }
    if is.swallowed_failures > was.swallowed_failures {
        report("failure-swallowed", format!("{name} catches its own failures and ignores them"));
    }
    for finding in &mut findings {
        if finding.rule.as_deref() == Some("test-conditional") {
            finding.severity = FindingSeverity::Warning;
        }
    }
    if was.identity.body != is.identity.body || was.cases != is.cases || was.expects_panic {
        findings.extend(changed_expectations::find_changed_expectations(was, is, &name));
    }
    findings
}

/// Whether a test without assertions also calls nothing that could assert in their place, such as a helper in another
/// file.
fn calls_nothing_new(was: &MeasuredTest<'_>, is: &MeasuredTest<'_>) -> bool {
    let is_known = |call: &u64| was.identity.calls.binary_search(call).is_ok();
    !is.fails_otherwise && is.identity.calls.iter().all(is_known)
}

/// How many assertions a test lost, without those that moved elsewhere.
fn lost_assertions(
    was: &MeasuredTest<'_>,
    is: &MeasuredTest<'_>,
    before: &ChangeSide<'_>,
    after: &ChangeSide<'_>,
) -> usize {
    let fewer = was.assertions.saturating_sub(is.assertions);
    if fewer == 0 {
        return 0;
    }
    let count =
        |side: &ChangeSide<'_>, line: &u64| side.assertions.get(line).copied().unwrap_or_default();
    let moved = was
        .identity
        .assertions
        .iter()
        .filter(|line| {
            is.identity.assertions.binary_search(line).is_err()
                && count(after, line) >= count(before, line)
        })
        .count();
    fewer.saturating_sub(moved)
}

fn find_new_focus<'a>(
    before: &'a [FocusedTest<'a>],
    after: &'a [FocusedTest<'a>],
) -> impl Iterator<Item = Finding> + 'a {
    let is_new = |is: &&FocusedTest<'_>| {
        !before.iter().any(|was| was.path == is.path && was.name == is.name)
    };
    after.iter().take(MAX_CHANGE_FINDINGS).filter(is_new).map(|is| {
        let name = quote_name(is.name.trim_end_matches(" > "));
        let message = format!("`{}` on {name} excludes every other test", is.construct);
        new_finding(is.place.clone(), "test-focused", message)
    })
}

fn quote_name(name: &str) -> String {
    format!("`{}`", text::clean_line(name, MAX_NAME_CHARS))
}
