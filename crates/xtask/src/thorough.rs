//! The tests with their full number of random cases. CI runs fewer of them at every change.

use crate::{FuzzOptions, ThoroughOptions, fuzz, print, shell};
use anyhow::{Result, bail};

/// What the random tests try, by the variable that they read.
const FULL_COUNTS: [(&str, &str); 3] =
    [("RALPH_LAW_CASES", "20000"), ("PROPTEST_CASES", "2000"), ("RALPH_CRASH_SECONDS", "300")];

pub(crate) fn run(options: &ThoroughOptions) -> Result<()> {
    let counts = FULL_COUNTS.map(|(name, value)| format!("{name}={value}")).join(" ");
    print::print_line(&format!("{counts} cargo test --workspace"));
    let mut tests = shell::cargo();
    let status = tests.args(["test", "--workspace"]).envs(FULL_COUNTS).status()?;
    if !status.success() {
        bail!("the tests failed");
    }
    fuzz::run(&FuzzOptions {
        seconds: options.fuzz_seconds,
        build_only: false,
        targets: Vec::new(),
    })
}
