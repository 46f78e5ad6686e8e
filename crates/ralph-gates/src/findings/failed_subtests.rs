//! Failed subtests in the output of pytest and unittest, which count them like tests.

use ralph_core::gate::TestCounts;
use ralph_core::test_cases::MAX_CASES;
use std::collections::HashSet;

/// pytest counts each failed subtest as a test, and the test around it as another. These are the tests since the last
/// count.
#[derive(Debug, Default)]
pub(super) struct FailedSubtests {
    count: u32,
    around: HashSet<String>,
    failed_themselves: HashSet<String>,
    /// unittest: tests with a failed subtest, and how often one was reported again.
    unittest_tests: HashSet<String>,
    unittest_repeats: u32,
}

impl FailedSubtests {
    pub(super) fn has_any(&self) -> bool {
        self.count > 0
    }

    /// How many of the failures that unittest counts are further subtests of one test.
    pub(super) fn unittest_repeats(&self) -> u32 {
        self.unittest_repeats
    }

    /// `SUBFAILED[number] (n=1) test_cart.py::test_all - assert 1 < 1`, `FAILED test_cart.py::test_all - …`
    pub(super) fn read_line(&mut self, line: &str) {
        self.read_unittest_title(line);
        let is_subtest = line.starts_with("SUBFAILED");
        if !is_subtest && !line.starts_with("FAILED ") || self.around.len() >= MAX_CASES {
            return;
        }
        let Some(id) = line.split(' ').find(|word| word.contains("::")) else { return };
        if is_subtest {
            self.count = self.count.saturating_add(1);
            self.around.insert(id.to_owned());
        } else if self.failed_themselves.len() < MAX_CASES {
            self.failed_themselves.insert(id.to_owned());
        }
    }

    /// `FAIL: test_all (tests.CartCase.test_all) (n=2)`
    fn read_unittest_title(&mut self, line: &str) {
        let title = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "));
        let Some((test, subtest)) = title.and_then(|title| title.split_once(')')) else { return };
        let is_subtest = subtest.starts_with(" (") || subtest.starts_with(" [");
        if is_subtest && self.unittest_tests.len() < MAX_CASES {
            let is_new = self.unittest_tests.insert(test.to_owned());
            self.unittest_repeats = self.unittest_repeats.saturating_add(u32::from(!is_new));
        }
    }

    /// The counts of tests, without their subtests. A test with a failed subtest has failed.
    pub(super) fn without_subtests(&mut self, tests: TestCounts) -> TestCounts {
        let Self { count, around, failed_themselves, .. } = std::mem::take(self);
        let others = around.difference(&failed_themselves).count();
        TestCounts {
            run: tests.run.saturating_sub(count),
            failed: tests
                .failed
                .saturating_sub(count)
                .saturating_add(u32::try_from(others).unwrap_or(u32::MAX)),
            skipped: tests.skipped,
        }
    }
}
