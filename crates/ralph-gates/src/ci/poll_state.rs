//! Decides after each answer of a CI provider whether the wait is over, and how long it pauses otherwise. Pure.

use std::time::Duration;

use ralph_core::gate::UnknownReason;
use ralph_core::text;

use super::check_verdict::CiVerdict;
use super::provider_call::QueryError;

/// The longest pause between two queries, unless the policy asks for a longer one.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// How often a query fails in a row before the gate has no result.
const MAX_FAILURES: u32 = 5;
/// How often the provider does not find the commit before it counts as not pushed: it may be a moment behind.
const MAX_NOT_FOUND: u32 = 2;
const MAX_NAMES_CHARS: usize = 300;
const SHOWN_COMMIT_CHARS: usize = 12;

#[derive(Debug)]
pub(super) struct PollState {
    /// The first characters of the commit's id.
    commit: String,
    pause: Duration,
    longest: Duration,
    /// Checks may take this long to appear.
    start: Duration,
    failures: u32,
    not_found: u32,
    /// The names in the last answer, if all of them passed and nothing says which checks have to appear.
    appeared: Option<Vec<String>>,
    last: LastAnswer,
}

#[derive(Debug)]
enum LastAnswer {
    /// The names of the pending checks.
    Pending(String),
    Nothing(String),
}

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PollStep {
    Passed(Vec<String>),
    /// Positions of the failed checks.
    Failed(Vec<usize>),
    End(UnknownReason),
    /// Ask again; why.
    Wait(String),
}

impl PollState {
    pub(super) fn new(commit: &str, poll_ms: u64, start_ms: u64) -> Self {
        let pause = Duration::from_millis(poll_ms);
        Self {
            commit: commit.chars().take(SHOWN_COMMIT_CHARS).collect(),
            pause,
            longest: MAX_PAUSE.max(pause),
            start: Duration::from_millis(start_ms),
            failures: 0,
            not_found: 0,
            appeared: None,
            last: LastAnswer::Nothing("the provider did not answer in time".to_string()),
        }
    }

    /// Takes an answer that came `waited` after the first query.
    pub(super) fn take_answer(
        &mut self,
        answer: Result<CiVerdict, QueryError>,
        waited: Duration,
    ) -> PollStep {
        let mut before = None;
        if answer.is_ok() {
            (self.failures, self.not_found) = (0, 0);
            before = self.appeared.take();
        }
        match answer {
            Ok(CiVerdict::Passed(names)) => PollStep::Passed(names),
            // A provider lists a workflow some time after the push: the answer counts if a pause adds nothing to it.
            Ok(CiVerdict::PassedSoFar { passed, appeared }) => {
                if before.as_ref() == Some(&appeared) {
                    return PollStep::Passed(passed);
                }
                self.appeared = Some(appeared);
                let names = join_names(&passed);
                self.wait_after(format!(
                    "passed so far: {names}; a second answer must list the same checks, unless `checks` names each of them"
                ))
            }
            Ok(CiVerdict::Failed(failed)) => PollStep::Failed(failed),
            Ok(CiVerdict::NoResult(why)) => PollStep::End(UnknownReason::Inconclusive(why)),
            Ok(CiVerdict::Pending(names)) => {
                let names = join_names(&names);
                self.last = LastAnswer::Pending(names.clone());
                PollStep::Wait(format!("pending: {names}"))
            }
            Ok(CiVerdict::Missing(names)) => {
                let why = self.describe_missing_checks(&names);
                if waited >= self.start {
                    PollStep::End(UnknownReason::Inconclusive(why))
                } else {
                    self.wait_after(why)
                }
            }
            Err(QueryError::NotFound(why)) => {
                self.not_found += 1;
                if self.not_found >= MAX_NOT_FOUND {
                    let why = format!("commit {} is not pushed", self.commit);
                    PollStep::End(UnknownReason::Unpublished(why))
                } else {
                    self.wait_after(why)
                }
            }
            Err(QueryError::RateLimited(why)) => {
                // The provider wants fewer queries.
                self.pause = self.longest.min(self.pause.saturating_mul(2));
                self.wait_after(why)
            }
            Err(QueryError::Transient(why)) => {
                self.failures += 1;
                if self.failures >= MAX_FAILURES {
                    let why = format!("{why} ({} times in a row)", self.failures);
                    PollStep::End(UnknownReason::Error(why))
                } else {
                    self.wait_after(why)
                }
            }
            Err(error @ (QueryError::Permanent(_) | QueryError::Cancelled)) => {
                PollStep::End(UnknownReason::Error(error.describe()))
            }
        }
    }

    fn wait_after(&mut self, why: String) -> PollStep {
        self.last = LastAnswer::Nothing(why.clone());
        PollStep::Wait(why)
    }

    /// The time until the next query. Each one is longer than the one before.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = self.longest.min(pause.saturating_mul(3) / 2);
        pause
    }

    /// The result if there is no more time. A provider that never answered is an error rather than a slow check.
    pub(super) fn time_is_up(self, after_ms: u64) -> UnknownReason {
        match self.last {
            LastAnswer::Pending(pending) => UnknownReason::Timeout { after_ms, pending },
            LastAnswer::Nothing(why) => UnknownReason::Error(why),
        }
    }

    fn describe_missing_checks(&self, names: &[String]) -> String {
        if names.is_empty() {
            format!("no checks were found for commit {}", self.commit)
        } else {
            format!("commit {} has no check named {}", self.commit, join_names(names))
        }
    }
}

pub(super) fn join_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    text::truncate(&names.join(", "), MAX_NAMES_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SO_FAR: &str = "time is up, error: passed so far: `build`; a second answer must list the same checks, unless `checks` names each of them";

    fn answer(word: &str) -> Result<CiVerdict, QueryError> {
        let names = || vec!["build".to_string()];
        match word {
            "passed" => Ok(CiVerdict::Passed(names())),
            word if word.starts_with('+') => Ok(CiVerdict::PassedSoFar {
                passed: names(),
                appeared: word.chars().skip(1).map(String::from).collect(),
            }),
            "failed" => Ok(CiVerdict::Failed(vec![0])),
            "pending" => Ok(CiVerdict::Pending(names())),
            "missing" => Ok(CiVerdict::Missing(names())),
            "none" => Ok(CiVerdict::Missing(Vec::new())),
            "skipped" => Ok(CiVerdict::NoResult("it was skipped".to_string())),
            "404" => Err(QueryError::NotFound("HTTP 404".to_string())),
            "429" => Err(QueryError::RateLimited("HTTP 429".to_string())),
            "502" => Err(QueryError::Transient("HTTP 502".to_string())),
            "401" => Err(QueryError::Permanent("HTTP 401".to_string())),
            _ => Err(QueryError::Cancelled),
        }
    }

    /// Plays answers at one-second intervals, with checks that have two seconds to appear.
    fn play(answers: &str) -> String {
        let mut state = PollState::new("3f1c2ab0123456789", 1000, 2000);
        let mut waited = Duration::ZERO;
        for word in answers.split_whitespace() {
            match state.take_answer(answer(word), waited) {
                PollStep::Wait(_) => waited += Duration::from_secs(1),
                PollStep::Passed(_) => return "passed".to_string(),
                PollStep::Failed(_) => return "failed".to_string(),
                PollStep::End(why) => return format!("{}: {}", why.name(), why.describe()),
            }
        }
        let why = state.time_is_up(60_000);
        format!("time is up, {}: {}", why.name(), why.describe())
    }

    /// R-L7a, R-L7b: each sequence of answers ends in one outcome, and none of them waits for ever.
    #[test]
    fn each_sequence_of_answers_has_one_outcome() {
        for (answers, expected) in [
            ("passed", "passed"),
            ("none pending pending passed", "passed"),
            ("pending failed", "failed"),
            // Without named and required checks, two answers in a row have the same checks.
            ("+a +a", "passed"),
            ("+a +ab +ab", "passed"),
            ("+a 502 +a", "passed"),
            ("+aa +a +a", "passed"),
            ("+a failed", "failed"),
            ("+a", SO_FAR),
            ("+a +ab", SO_FAR),
            ("+ab +a", SO_FAR),
            ("+a +aa", SO_FAR),
            ("+a pending +a", SO_FAR),
            ("+a none +a", SO_FAR),
            ("pending pending", "time is up, timeout: `build` still pending after 1 min"),
            ("none none none", "inconclusive: no checks were found for commit 3f1c2ab01234"),
            ("none", "time is up, error: no checks were found for commit 3f1c2ab01234"),
            (
                "missing missing missing",
                "inconclusive: commit 3f1c2ab01234 has no check named `build`",
            ),
            ("pending skipped", "inconclusive: it was skipped"),
            ("404 404", "inconclusive: commit 3f1c2ab01234 is not pushed"),
            ("404 pending passed", "passed"),
            ("401", "error: HTTP 401"),
            ("502 502 502 502 passed", "passed"),
            ("502 502 502 502 502", "error: HTTP 502 (5 times in a row)"),
            ("502 502 502 502 pending 502 502 502 502 passed", "passed"),
            ("429 429 429 429 429 429 429 passed", "passed"),
            ("429 429", "time is up, error: HTTP 429"),
            ("pending cancelled", "error: cancelled"),
            ("", "time is up, error: the provider did not answer in time"),
        ] {
            assert_eq!(play(answers), expected, "{answers}");
        }
    }

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let pauses = |poll_ms, answers: &[&str]| {
            let mut state = PollState::new("3f", poll_ms, 0);
            let next = |word: &&str| {
                drop(state.take_answer(answer(word), Duration::ZERO));
                state.next_pause().as_secs()
            };
            answers.iter().map(next).collect::<Vec<_>>()
        };
        assert_eq!(pauses(10_000, &["pending"; 8]), [10, 15, 22, 33, 50, 60, 60, 60]);
        assert_eq!(pauses(10_000, &["pending", "429", "pending"]), [10, 30, 45]);
        assert_eq!(pauses(120_000, &["pending"; 2]), [120, 120]);
    }
}
