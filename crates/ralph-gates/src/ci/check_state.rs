//! Maps the providers' words for the state of a check. An unknown word never passes: it is a failure, or pending if it is
//! the status of a run at GitHub.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CiCheckState {
    Pending,
    Passed,
    Failed,
    Skipped,
}

impl CiCheckState {
    /// Of a check run or a workflow run at GitHub.
    pub fn of_github_run(status: Option<&str>, conclusion: Option<&str>) -> Self {
        if status != Some("completed") {
            return Self::Pending;
        }
        match conclusion {
            Some("success") => Self::Passed,
            Some("neutral" | "skipped") => Self::Skipped,
            Some(_) | None => Self::Failed,
        }
    }

    /// Of a commit status at GitHub.
    pub fn of_github_status(state: Option<&str>) -> Self {
        match state {
            Some("success") => Self::Passed,
            Some("pending") => Self::Pending,
            Some(_) | None => Self::Failed,
        }
    }

    /// Of a pipeline, a job or a commit status at GitLab.
    pub fn of_gitlab(status: Option<&str>) -> Self {
        match status {
            Some("success") => Self::Passed,
            Some("skipped") => Self::Skipped,
            Some(
                "created"
                | "waiting_for_resource"
                | "preparing"
                | "pending"
                | "running"
                | "scheduled"
                | "manual"
                | "canceling"
                | "waiting_for_callback",
            ) => Self::Pending,
            Some(_) | None => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CiCheckState::{self, Failed, Passed, Pending, Skipped};

    #[test]
    fn an_unknown_word_never_passes() {
        for (status, conclusion, expected) in [
            ("completed", Some("success"), Passed),
            ("completed", Some("neutral"), Skipped),
            ("completed", Some("skipped"), Skipped),
            ("completed", Some("cancelled"), Failed),
            ("completed", None, Failed),
            ("in_progress", Some("success"), Pending),
            ("new word", None, Pending),
        ] {
            let state = CiCheckState::of_github_run(Some(status), conclusion);
            assert_eq!(state, expected, "{status} {conclusion:?}");
        }
        for (word, github, gitlab) in [
            ("success", Passed, Passed),
            ("pending", Pending, Pending),
            ("running", Failed, Pending),
            ("manual", Failed, Pending),
            ("skipped", Failed, Skipped),
            ("failed", Failed, Failed),
            ("new word", Failed, Failed),
        ] {
            let found =
                (CiCheckState::of_github_status(Some(word)), CiCheckState::of_gitlab(Some(word)));
            assert_eq!(found, (github, gitlab), "{word}");
        }
    }
}
