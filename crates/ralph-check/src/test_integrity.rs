//! `[tests]`: whether a change weakens the tests. Tests are matched by name and body across the whole change, so that a
//! moved or renamed test does not count as removed.

use super::FileChange;
use super::change_finding::{MAX_CHANGE_FINDINGS, file_place, new_finding};
use super::disarmed_tests;
use super::measured_tests::{ChangeSide, FocusedTest, MeasuredTest, TestStart};
use super::source_text::SourceText;
use super::test_cases::TestExecution;
use super::test_collection;
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
/// How many pairs of tests to compare line by line.
const MAX_COMPARED_PAIRS: usize = 10_000;
const MAX_NAME_CHARS: usize = 100;

/// Compares the tests of all changed files, before and after. `is_also_test` returns whether a path is a test file even
/// though its name does not show it.
pub fn check_tests(
    changes: &[FileChange<'_>],
    is_also_test: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let (before, after) = measure_sides(changes, is_also_test);
    let matched = match_tests(&before.tests, &after.tests);
    let mut findings = find_removed_tests(changes, &before.tests, &matched);
    for (was, is) in before.tests.iter().zip(&matched) {
        if let Some(is) = is.and_then(|index| after.tests.get(index)) {
            findings.extend(find_weakening(was, is, &before, &after));
        }
    }
    findings.extend(find_new_focus(&before.focused, &after.focused));
    findings.extend(test_collection::find_narrowed_collection(changes));
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
            if let Some(text) = text {
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

/// For each test before the change, the index of the same test after it.
fn match_tests(before: &[MeasuredTest<'_>], after: &[MeasuredTest<'_>]) -> Vec<Option<usize>> {
    let mut pairs = TestMatcher {
        now: before.iter().map(|_| None).collect(),
        taken: after.iter().map(|_| false).collect(),
    };
    pairs.match_by_key(before, after, |test| Some((test.path.to_owned(), test.name.clone())));
    pairs.match_by_key(before, after, |test| Some((test.dialect, test.identity.body?)));
    pairs.match_by_key(before, after, |test| Some((test.dialect, test.own_name().to_owned())));
    pairs.match_by_similarity(before, after);
    pairs.now
}

struct TestMatcher {
    now: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl TestMatcher {
    fn match_by_key<K: Ord>(
        &mut self,
        before: &[MeasuredTest<'_>],
        after: &[MeasuredTest<'_>],
        key: impl Fn(&MeasuredTest<'_>) -> Option<K>,
    ) {
        let mut free: BTreeMap<K, Vec<usize>> = BTreeMap::new();
        for (index, test) in after.iter().enumerate().rev() {
            if let (Some(false), Some(key)) = (self.taken.get(index), key(test)) {
                free.entry(key).or_default().push(index);
            }
        }
        for (now, test) in self.now.iter_mut().zip(before).filter(|(now, _)| now.is_none()) {
            let found = key(test).and_then(|key| free.get_mut(&key)?.pop());
            if let Some(taken) = found.and_then(|index| self.taken.get_mut(index)) {
                *taken = true;
                *now = found;
            }
        }
    }

    /// Matches tests of the same file that share most of their lines: they were renamed and edited.
    fn match_by_similarity(&mut self, before: &[MeasuredTest<'_>], after: &[MeasuredTest<'_>]) {
        let mut looked = 0;
        for (now, was) in self.now.iter_mut().zip(before).filter(|(now, _)| now.is_none()) {
            for (index, (is, taken)) in after.iter().zip(&mut self.taken).enumerate() {
                if *taken || is.path != was.path {
                    continue;
                }
                looked += 1;
                if looked > MAX_COMPARED_PAIRS {
                    return;
                }
                let shared = is
                    .identity
                    .lines
                    .iter()
                    .filter(|line| was.identity.lines.binary_search(line).is_ok())
                    .count();
                if was.identity.lines.len() >= 2 && shared * 10 >= was.identity.lines.len() * 6 {
                    *taken = true;
                    *now = Some(index);
                    break;
                }
            }
        }
    }
}

fn find_removed_tests(
    changes: &[FileChange<'_>],
    before: &[MeasuredTest<'_>],
    matched: &[Option<usize>],
) -> Vec<Finding> {
    let mut gone: BTreeMap<&str, Vec<&MeasuredTest<'_>>> = BTreeMap::new();
    for (test, now) in before.iter().zip(matched) {
        if now.is_none() {
            gone.entry(test.path).or_default().push(test);
        }
    }
    let mut findings = Vec::new();
    for change in changes {
        let Some(tests) = gone.get(change.path) else {
            continue;
        };
        match change.after {
            None => findings.push(removed_file_finding(changes, change, tests)),
            Some(after) => {
                let source = SourceText::new(change.path, after);
                findings.extend(tests.iter().map(|test| removed_test_finding(&source, test)));
            }
        }
    }
    findings
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

fn removed_test_finding(after: &SourceText<'_>, test: &MeasuredTest<'_>) -> Finding {
    let name = quote_name(&test.name);
    let own = test.own_name();
    let mut in_comments = memchr::memmem::find_iter(after.comments.as_bytes(), own.as_bytes());
    match in_comments.next() {
        Some(at) if own.len() > 3 && word_search::contains_word(&after.comments, own) => {
            new_finding(after.place(at), "test-commented-out", format!("{name} is commented out"))
        }
        _ => new_finding(
            file_place(test.path),
            "test-removed",
            format!("{name} was removed: no test in the change has its name or body"),
        ),
    }
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
            0 => {
                let message = format!("{name} makes no assertions, down from {}", was.assertions);
                report("test-emptied", message);
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
    findings
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
