//! `[tests]`: whether a change weakens the tests. Tests are matched by name and body across the whole change, so that a
//! moved or renamed test does not count as removed.

use super::FileChange;
use super::cases::Running;
use super::collection;
use super::disarmed;
use super::source::Source;
use super::tested::{Focus, Side, Start, Tested};
use super::words;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ralph_core::requirement::{Finding, Place, Severity, Since};
use ralph_core::text;

const MOST_FINDINGS: usize = 200;
/// How many tests of a deleted file to name.
const MOST_NAMES: usize = 5;
/// How many pairs of tests to compare line by line.
const MOST_PAIRS: usize = 10_000;
const LONGEST_NAME: usize = 100;

/// Compares the tests of all changed files, before and after. `is_also_test` returns whether a path is a test file even
/// though its name does not show it.
pub fn check(changes: &[FileChange<'_>], is_also_test: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let (before, after) = sides(changes, is_also_test);
    let matched = matched(&before.tests, &after.tests);
    let mut findings = removed(changes, &before.tests, &matched);
    for (was, is) in before.tests.iter().zip(&matched) {
        if let Some(is) = is.and_then(|index| after.tests.get(index)) {
            findings.extend(weaker(was, is, (&before, &after)));
        }
    }
    findings.extend(focused(&before.focused, &after.focused));
    findings.extend(collection::narrowed(changes));
    let names = before.tests.iter().map(Tested::own_name).collect();
    findings.extend(disarmed::disarmed(changes, is_also_test, &names));
    findings.sort_by(|one, other| key(one).cmp(&key(other)));
    findings.truncate(MOST_FINDINGS);
    findings
}

/// The names of new tests, without their modules, classes and suites.
pub fn added(changes: &[FileChange<'_>], is_also_test: &dyn Fn(&str) -> bool) -> Vec<String> {
    let (before, after) = sides(changes, is_also_test);
    let matched = matched(&before.tests, &after.tests);
    let is_new = |(index, _): &(usize, &Tested<'_>)| !matched.contains(&Some(*index));
    let new = after.tests.iter().enumerate().filter(is_new);
    new.map(|(_, test)| test.own_name().to_owned()).collect()
}

fn sides<'a>(
    changes: &[FileChange<'a>],
    is_also_test: &dyn Fn(&str) -> bool,
) -> (Side<'a>, Side<'a>) {
    let (mut before, mut after) = (Side::default(), Side::default());
    for change in changes {
        for (text, side) in [(change.before, &mut before), (change.after, &mut after)] {
            if let Some(text) = text {
                let mut source = Source::new(change.path, text);
                source.is_test |= is_also_test(change.path);
                side.add(&source);
            }
        }
    }
    (before, after)
}

fn key(finding: &Finding) -> (&str, Option<u32>, Option<&str>) {
    let place = finding.place.as_ref();
    let file = place.map_or("", |place| place.file.as_str());
    (file, place.and_then(|place| place.line), finding.rule.as_deref())
}

pub(super) fn finding(place: Place, rule: &str, message: String) -> Finding {
    Finding {
        place: Some(place),
        rule: Some(rule.to_owned()),
        message,
        severity: Severity::Error,
        since: Since::New,
    }
}

pub(super) fn in_file(path: &str) -> Place {
    Place { file: path.to_owned(), line: None, column: None }
}

/// For each test before the change, the index of the same test after it.
fn matched(before: &[Tested<'_>], after: &[Tested<'_>]) -> Vec<Option<usize>> {
    let mut pairs = Pairs {
        now: before.iter().map(|_| None).collect(),
        taken: after.iter().map(|_| false).collect(),
    };
    pairs.by(before, after, |test| Some((test.path.to_owned(), test.name.clone())));
    pairs.by(before, after, |test| Some((test.dialect, test.identity.body?)));
    pairs.by(before, after, |test| Some((test.dialect, test.own_name().to_owned())));
    pairs.by_likeness(before, after);
    pairs.now
}

struct Pairs {
    now: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl Pairs {
    fn by<K: Ord>(
        &mut self,
        before: &[Tested<'_>],
        after: &[Tested<'_>],
        key: impl Fn(&Tested<'_>) -> Option<K>,
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
    fn by_likeness(&mut self, before: &[Tested<'_>], after: &[Tested<'_>]) {
        let mut looked = 0;
        for (now, was) in self.now.iter_mut().zip(before).filter(|(now, _)| now.is_none()) {
            for (index, (is, taken)) in after.iter().zip(&mut self.taken).enumerate() {
                if *taken || is.path != was.path {
                    continue;
                }
                looked += 1;
                if looked > MOST_PAIRS {
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

fn removed(
    changes: &[FileChange<'_>],
    before: &[Tested<'_>],
    matched: &[Option<usize>],
) -> Vec<Finding> {
    let mut gone: BTreeMap<&str, Vec<&Tested<'_>>> = BTreeMap::new();
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
            None => findings.push(file_gone(changes, change, tests)),
            Some(after) => {
                let source = Source::new(change.path, after);
                findings.extend(tests.iter().map(|test| test_gone(&source, test)));
            }
        }
    }
    findings
}

fn file_gone(
    changes: &[FileChange<'_>],
    change: &FileChange<'_>,
    tests: &[&Tested<'_>],
) -> Finding {
    let mut names: Vec<_> = tests.iter().take(MOST_NAMES).map(|test| quoted(&test.name)).collect();
    if tests.len() > MOST_NAMES {
        names.push(format!("and {} more", tests.len() - MOST_NAMES));
    }
    let (count, names) = (tests.len(), names.join(", "));
    let tests = if count == 1 { "1 test".to_owned() } else { format!("{count} tests") };
    let place = in_file(change.path);
    match collection::renamed_away(changes, change) {
        Some(path) => {
            let path = quoted(path);
            let message = format!(
                "was renamed to {path}, where no test runner looks for its {tests}: {names}"
            );
            finding(place, "test-file-renamed", message)
        }
        None => finding(place, "test-file-removed", format!("was deleted with {tests}: {names}")),
    }
}

fn test_gone(after: &Source<'_>, test: &Tested<'_>) -> Finding {
    let name = quoted(&test.name);
    let own = test.own_name();
    let mut in_comments = memchr::memmem::find_iter(after.comments.as_bytes(), own.as_bytes());
    match in_comments.next() {
        Some(at) if own.len() > 3 && words::contains(&after.comments, own) => {
            finding(after.place(at), "test-commented-out", format!("{name} is commented out"))
        }
        _ => finding(
            in_file(test.path),
            "test-removed",
            format!("{name} was removed: no test in the change has its name or body"),
        ),
    }
}

fn weaker(was: &Tested<'_>, is: &Tested<'_>, sides: (&Side<'_>, &Side<'_>)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = quoted(&is.name);
    let mut report = |rule, message| findings.push(finding(is.place.clone(), rule, message));
    match (&was.running, &is.running) {
        (Running::Always | Running::Sometimes(_), Running::Never(by)) => {
            report("test-skipped", format!("{name} no longer runs or counts: `{by}`"));
        }
        (Running::Always, Running::Sometimes(by)) => {
            report("test-conditional", format!("{name} no longer always runs: `{by}`"));
        }
        (Running::Always | Running::Sometimes(_), Running::Always | Running::Sometimes(_))
        | (Running::Never(_), _) => {}
    }
    if was.start != is.start && is.start == Start::Returns {
        report("test-emptied", format!("{name} returns before it tests anything"));
    } else if lost(was, is, sides) > 0 {
        let made = |count| {
            if count == 1 { "1 assertion".to_owned() } else { format!("{count} assertions") }
        };
        report(
            "assertions-removed",
            match is.assertions {
                0 => format!("{name} makes no assertions, down from {}", was.assertions),
                count => format!("{name} makes {}, down from {}", made(count), was.assertions),
            },
        );
    }
    if is.swallows > was.swallows {
        report("failure-swallowed", format!("{name} catches its own failures and ignores them"));
    }
    for finding in &mut findings {
        if finding.rule.as_deref() == Some("test-conditional") {
            finding.severity = Severity::Warning;
        }
    }
    findings
}

/// How many assertions a test lost, without those that moved elsewhere.
fn lost(was: &Tested<'_>, is: &Tested<'_>, (before, after): (&Side<'_>, &Side<'_>)) -> usize {
    let fewer = was.assertions.saturating_sub(is.assertions);
    if fewer == 0 {
        return 0;
    }
    let count =
        |side: &Side<'_>, line: &u64| side.assertions.get(line).copied().unwrap_or_default();
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

fn focused<'a>(
    before: &'a [Focus<'a>],
    after: &'a [Focus<'a>],
) -> impl Iterator<Item = Finding> + 'a {
    let is_new =
        |is: &&Focus<'_>| !before.iter().any(|was| was.path == is.path && was.name == is.name);
    after.iter().take(MOST_FINDINGS).filter(is_new).map(|is| {
        let name = quoted(is.name.trim_end_matches(" > "));
        let message = format!("`{}` on {name} excludes every other test", is.construct);
        finding(is.place.clone(), "test-focused", message)
    })
}

fn quoted(name: &str) -> String {
    format!("`{}`", text::line(name, LONGEST_NAME))
}
