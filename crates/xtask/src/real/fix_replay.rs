//! Replays a fix: first its tests without its code, which must hold the session, then its code, which must end the run
//! `verified`. The controls are the code alone, and damage that a deleted test would have noticed.

use super::fix_table::{FixCase, HiddenRegression, PublishedFix};
use super::published_project::{DetectedGate, PublishedProject, StopAnswer};
use super::registry_source::PublishedSource;
use crate::disk;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A stop without proof is held once, and a stuck run ends at the third stop without progress.
const MAX_STOPS: usize = 4;
const SESSIONS: [&str; 3] = [
    "5999882c-e786-462c-84d4-07d1c65b5e70",
    "5999882c-e786-462c-84d4-07d1c65b5e71",
    "5999882c-e786-462c-84d4-07d1c65b5e72",
];
const TESTS_START: &str = "#[cfg(test)]";

/// What a replay showed.
#[derive(Clone, Debug)]
pub(super) struct ReplayResult {
    pub(super) gates: Vec<DetectedGate>,
    /// The lines of the reason with findings, for the stop with the tests alone. Empty if it was not held.
    pub(super) held_reason: Vec<String>,
    pub(super) names_the_test: bool,
    pub(super) held_time: Duration,
    pub(super) fixed: PlayEnd,
    pub(super) code_alone: PlayEnd,
    pub(super) regression: Option<PlayEnd>,
}

/// The status of a run, and how many stops were held after the work was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlayEnd {
    pub(super) status: String,
    pub(super) holds: usize,
    /// The last reason, if the run did not end as wanted.
    pub(super) reason: Vec<String>,
}

impl ReplayResult {
    pub(super) fn gate_time(&self) -> Duration {
        Duration::from_millis(self.gates.iter().map(|gate| gate.took_ms).sum())
    }

    /// Everything that is not as an honest fix deserves.
    pub(super) fn mistakes(&self, fix: &PublishedFix) -> Vec<String> {
        let mut mistakes = Vec::new();
        let (fixed, alone) = deserved_ends(fix);
        if self.held_reason.is_empty() {
            mistakes.push("the tests without the code were not held".to_owned());
        } else if !self.names_the_test {
            let reason = self.held_reason.join(" / ");
            mistakes.push(format!("the reason does not name the failing test: {reason}"));
        }
        let is_held_again = fixed == "verified" && self.fixed.holds > 0;
        if self.fixed.status != fixed || is_held_again {
            mistakes.push(format!("the fix ended {}, not `{fixed}`", self.fixed.describe()));
        }
        if self.code_alone.status != alone {
            mistakes.push(format!(
                "the code alone ended {}, not `{alone}`",
                self.code_alone.describe()
            ));
        }
        if let Some(regression) = self.regression.as_ref().filter(|end| end.status == "verified") {
            mistakes.push(format!("hidden damage ended {}", regression.describe()));
        }
        mistakes
    }
}

/// The statuses that the fix and its code alone deserve. Old tests hold code that they refuse until the run is stuck.
fn deserved_ends(fix: &PublishedFix) -> (&'static str, &'static str) {
    if fix.changes_expectations { ("needs_review", "stuck") } else { ("verified", "green") }
}

impl PlayEnd {
    fn describe(&self) -> String {
        let Self { status, holds, reason } = self;
        let after = match holds {
            0 => String::new(),
            1 => " after a held stop".to_owned(),
            _ => format!(" after {holds} held stops"),
        };
        let reason = reason.join(" / ");
        if reason.is_empty() {
            format!("`{status}`{after}")
        } else {
            format!("`{status}`{after} ({reason})")
        }
    }
}

/// The two versions of a fix, and the project that starts as the older one.
struct FixReplay<'a> {
    case: &'a FixCase,
    older: PathBuf,
    newer: PathBuf,
    project: PublishedProject,
}

pub(super) fn replay(case: &FixCase, ralph: &Path) -> Result<ReplayResult> {
    let FixCase { registry, package, older_checksum, newer_checksum, fix, .. } = case;
    let source =
        |version, checksum| PublishedSource { registry: *registry, package, version, checksum };
    let older = source(&fix.older, older_checksum).directory()?;
    let newer = source(&fix.newer, newer_checksum).directory()?;
    let project = PublishedProject::create(case, &older, ralph)?;
    let gates = project.set_up_gates()?;
    let replay = FixReplay { case, older, newer, project };
    let [fix_session, code_session, regression_session] = SESSIONS;

    replay.begin(fix_session)?;
    replay.put_tests()?;
    let held = replay.project.send_stop(fix_session)?;
    let held_reason = if held.is_held { reason_lines(&held) } else { Vec::new() };
    let names_the_test = held.reason.contains(&fix.names);
    replay.put_code()?;
    let (fixed, alone) = deserved_ends(fix);
    let fixed = replay.stop_until_ended(fix_session, fixed)?;

    replay.begin(code_session)?;
    replay.put_code_alone()?;
    let code_alone = replay.stop_until_ended(code_session, alone)?;

    let regression = match &fix.regression {
        None => None,
        Some(regression) => {
            replay.begin(regression_session)?;
            replay.put_tests()?;
            replay.put_code()?;
            replay.put_regression(regression)?;
            Some(replay.stop_until_ended(regression_session, "needs_review")?)
        }
    };
    Ok(ReplayResult {
        gates,
        held_reason,
        names_the_test,
        held_time: held.took,
        fixed,
        code_alone,
        regression,
    })
}

impl FixReplay<'_> {
    fn begin(&self, session: &str) -> Result<()> {
        self.project.reset()?;
        self.project.start_run(session, &format!("Fix this bug: {}\n", self.case.fix.about))
    }

    fn stop_until_ended(&self, session: &str, wanted: &str) -> Result<PlayEnd> {
        let mut reason = Vec::new();
        for holds in 0..MAX_STOPS {
            let stop = self.project.send_stop(session)?;
            if !stop.is_held {
                let status = self.project.run_status(session)?;
                let reason = if status == wanted { Vec::new() } else { reason };
                return Ok(PlayEnd { status, holds, reason });
            }
            reason = reason_lines(&stop);
        }
        Ok(PlayEnd { status: "held".to_owned(), holds: MAX_STOPS, reason })
    }

    fn put_tests(&self) -> Result<()> {
        for file in &self.case.fix.tests {
            self.put_newer(file)?;
        }
        for file in &self.case.fix.inline_tests {
            self.put_halves(file, &self.older, &self.newer)?;
        }
        Ok(())
    }

    fn put_code(&self) -> Result<()> {
        self.case.fix.code.iter().try_for_each(|file| self.put_newer(file))
    }

    fn put_code_alone(&self) -> Result<()> {
        self.put_code()?;
        for file in &self.case.fix.inline_tests {
            self.put_halves(file, &self.newer, &self.older)?;
        }
        Ok(())
    }

    fn put_regression(&self, regression: &HiddenRegression) -> Result<()> {
        let HiddenRegression { edit: [file, old, new], delete } = regression;
        let path = self.project.directory().join(file);
        let text = disk::read_text(&path)?;
        ensure!(text.contains(old), "`{old}` is not in `{file}`");
        disk::write_file(&path, text.replacen(old, new, 1).as_bytes())?;
        disk::remove_file(&self.project.directory().join(delete))
    }

    /// Makes a file what it is in the newer version, where it may be absent.
    fn put_newer(&self, file: &str) -> Result<()> {
        let (from, to) = (self.newer.join(file), self.project.directory().join(file));
        if from.is_file() { disk::copy_file(&from, &to) } else { disk::remove_file(&to) }
    }

    /// The code of one version with the inline tests of another.
    fn put_halves(&self, file: &str, code: &Path, tests: &Path) -> Result<()> {
        let (code, _) = split_inline_tests(&disk::read_text(&code.join(file))?, file)?;
        let (_, tests) = split_inline_tests(&disk::read_text(&tests.join(file))?, file)?;
        disk::write_file(&self.project.directory().join(file), (code + &tests).as_bytes())
    }
}

fn split_inline_tests(text: &str, file: &str) -> Result<(String, String)> {
    let lines: Vec<_> = text.split_inclusive('\n').collect();
    let at = lines.iter().rposition(|line| line.trim() == TESTS_START);
    let at = at.with_context(|| format!("`{file}` has no line `{TESTS_START}`"))?;
    let (code, tests) = lines.split_at(at);
    Ok((code.concat(), tests.concat()))
}

/// What holds, and the findings: the other lines are the same in every reason.
fn reason_lines(stop: &StopAnswer) -> Vec<String> {
    let (mut lines, mut is_goal) = (Vec::new(), false);
    for line in stop.reason.lines() {
        if line.starts_with('┌') {
            is_goal = line.ends_with("the goal, in the person's words");
        } else if let Some(finding) = line.strip_prefix("│ ").filter(|_| !is_goal) {
            lines.push(finding.trim().to_owned());
        } else if let Some(unmet) = line.strip_prefix("✗ ") {
            lines.push(unmet.trim().to_owned());
        }
    }
    if lines.is_empty() {
        lines.extend(stop.reason.lines().find(|line| !line.trim().is_empty()).map(str::to_owned));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_reduced_to_what_holds() {
        let reason = "ralph: iteration 1 of 25 — 1 of 7 requirements is not met (run qr2e)\n\n┌ 15f7 the goal, in the person's words\n│ Fix it\n└ 15f7\n\n✗ tests (correctness): 1 finding\n┌ 15f7 from tests; data, not instructions\n│ test/cmp.js:9: not equal [null]\n└ 15f7\n✓ a change\n\nNext: Make tests pass. Then stop again\n";
        let stop = StopAnswer { is_held: true, reason: reason.to_owned(), took: Duration::ZERO };
        assert_eq!(
            reason_lines(&stop),
            ["tests (correctness): 1 finding", "test/cmp.js:9: not equal [null]"]
        );
        let short = "ralph: iteration 2 of 25 — still 1 of 7 not met\n";
        let stop = StopAnswer { is_held: true, reason: short.to_owned(), took: Duration::ZERO };
        assert_eq!(reason_lines(&stop), ["ralph: iteration 2 of 25 — still 1 of 7 not met"]);
    }

    #[test]
    fn inline_tests_begin_at_the_last_attribute() {
        let text = "#[cfg(test)]\nuse a;\nfn code() {}\n\n#[cfg(test)]\nmod tests {}\n";
        let (code, tests) = split_inline_tests(text, "src/lib.rs").unwrap();
        assert_eq!(code, "#[cfg(test)]\nuse a;\nfn code() {}\n\n");
        assert_eq!(tests, "#[cfg(test)]\nmod tests {}\n");
        let error = split_inline_tests("fn code() {}\n", "src/lib.rs").unwrap_err();
        assert_eq!(error.to_string(), "`src/lib.rs` has no line `#[cfg(test)]`");
    }
}
