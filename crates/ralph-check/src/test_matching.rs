//! Finds for each test before a change the same test after it, by name, body and similarity.

use super::measured_tests::MeasuredTest;
use super::test_cases::TestExecution;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// How many pairs of tests to compare line by line or word by word.
const MAX_COMPARED_PAIRS: usize = 10_000;

/// For each test before the change, the index of the same test after it.
pub(crate) fn match_tests(
    before: &[MeasuredTest<'_>],
    after: &[MeasuredTest<'_>],
) -> Vec<Option<usize>> {
    let mut pairs = TestMatcher {
        now: before.iter().map(|_| None).collect(),
        taken: after.iter().map(|_| false).collect(),
    };
    pairs.match_by_key(before, after, |test| Some((test.path.to_owned(), test.name.clone())));
    pairs.match_by_key(before, after, |test| {
        test.identity.is_telling.then_some((test.dialect, test.identity.body))
    });
    // In the same file a short body is enough, if it asserts anything.
    pairs.match_by_key(before, after, |test| {
        (test.assertions > 0).then(|| (test.path.to_owned(), test.identity.body))
    });
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
                let shared = count_shared(&is.identity.lines, &was.identity.lines);
                if was.identity.lines.len() >= 2 && shared * 10 >= was.identity.lines.len() * 6 {
                    *taken = true;
                    *now = Some(index);
                    break;
                }
            }
        }
    }
}

/// How many of `some` are among `all`, which are sorted.
fn count_shared(some: &[u64], all: &[u64]) -> usize {
    some.iter().filter(|one| all.binary_search(one).is_ok()).count()
}

/// The tests that still run. A test that is gone is not lost if one of them is its copy.
pub(crate) struct RunningTests<'t, 'a> {
    bodies: BTreeSet<u64>,
    names: BTreeMap<&'t str, Vec<&'t MeasuredTest<'a>>>,
}

impl<'t, 'a> RunningTests<'t, 'a> {
    pub(crate) fn find(after: &'t [MeasuredTest<'a>]) -> Self {
        let mut found = Self { bodies: BTreeSet::new(), names: BTreeMap::new() };
        for test in after.iter().filter(|test| !matches!(test.running, TestExecution::Never(_))) {
            if test.identity.is_telling {
                found.bodies.insert(test.identity.body);
            }
            found.names.entry(test.own_name()).or_default().push(test);
        }
        found
    }

    /// Whether a test has the same body, or the same name and nearly the same words.
    pub(crate) fn have_copy(&self, gone: &MeasuredTest<'_>) -> bool {
        const MOST: usize = 50;
        let words = &gone.identity.words;
        let is_alike = |test: &&MeasuredTest<'_>| {
            test.dialect == gone.dialect
                && test.assertions >= gone.assertions
                && count_shared(words, &test.identity.words) * 10 >= words.len() * 8
        };
        gone.identity.is_telling && self.bodies.contains(&gone.identity.body)
            || self
                .names
                .get(gone.own_name())
                .is_some_and(|all| all.iter().take(MOST).copied().any(|test| is_alike(&test)))
    }
}

/// The tests after a change that may replace tests that are gone.
pub(crate) struct ReplacementSearch<'t, 'a> {
    new: Vec<ReplacingTest<'t, 'a>>,
    looked: usize,
}

struct ReplacingTest<'t, 'a> {
    test: &'t MeasuredTest<'a>,
    /// How many other tests it can still replace: as many as it has cases or assertions.
    left: usize,
}

impl<'t, 'a> ReplacementSearch<'t, 'a> {
    /// Tests that are new, and those that took over cases or assertions.
    pub(crate) fn find(
        before: &[MeasuredTest<'a>],
        after: &'t [MeasuredTest<'a>],
        matched: &[Option<usize>],
    ) -> Self {
        let mut olds: BTreeMap<usize, &MeasuredTest<'a>> = BTreeMap::new();
        for (was, index) in before.iter().zip(matched) {
            olds.extend(index.map(|index| (index, was)));
        }
        let replacing = after.iter().enumerate().filter_map(|(index, test)| {
            let left = match olds.get(&index) {
                None => test.cases.max(test.assertions),
                Some(was) => {
                    let cases = test.cases.saturating_sub(was.cases);
                    cases.max(test.assertions.saturating_sub(was.assertions))
                }
            };
            let asserts = test.assertions > 0 && !matches!(test.running, TestExecution::Never(_));
            (left > 0 && asserts).then_some(ReplacingTest { test, left })
        });
        Self { new: replacing.collect(), looked: 0 }
    }

    /// The test that uses most of the names and values of the one that is gone.
    pub(crate) fn take_for(&mut self, gone: &MeasuredTest<'_>) -> Option<&'t MeasuredTest<'a>> {
        let words = &gone.identity.words;
        if words.len() < 2 {
            return None;
        }
        for one in self.new.iter_mut().filter(|one| one.left > 0) {
            self.looked += 1;
            if self.looked > MAX_COMPARED_PAIRS {
                return None;
            }
            let is_alike = one.test.dialect == gone.dialect
                && count_shared(words, &one.test.identity.words) * 10 >= words.len() * 6;
            if is_alike {
                one.left -= 1;
                return Some(one.test);
            }
        }
        None
    }
}
