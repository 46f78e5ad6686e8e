//! The state of a commit's checks as a JSON document, from a command or an address of the person's choice.

use ralph_core::text;
use serde::Deserialize;

use super::check_state::CiCheckState;
use super::check_verdict::{CheckLog, CiCheck, CiCheckKind};
use super::provider_call::QueryError;

const MAX_CHECKS: usize = 1000;
const MAX_QUOTED_CHARS: usize = 60;

/// `{"commit": "…", "checks": [{"name": "build", "state": "passed"}]}`
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `commit` and `checks`")]
pub(super) struct StateDocument {
    /// The commit that it is about.
    commit: String,
    /// Whether the provider knows the commit.
    #[serde(default = "yes")]
    found: bool,
    #[serde(default)]
    checks: Vec<DocumentCheck>,
}

#[derive(Debug, Deserialize)]
struct DocumentCheck {
    name: String,
    state: String,
    #[serde(default = "yes")]
    required: bool,
    #[serde(default)]
    log: Option<String>,
}

fn yes() -> bool {
    true
}

impl StateDocument {
    /// The checks in it, if it is about this commit.
    pub(super) fn into_checks(self, commit: &str) -> Result<Vec<CiCheck>, QueryError> {
        if !self.commit.eq_ignore_ascii_case(commit) {
            let other = text::clean_line(&self.commit, MAX_QUOTED_CHARS);
            let why = format!("the answer is about commit `{other}`, not about `{commit}`");
            return Err(QueryError::Permanent(why));
        }
        if !self.found {
            return Err(QueryError::NotFound("the provider does not have the commit".to_string()));
        }
        if self.checks.len() > MAX_CHECKS {
            let why = format!("the answer has more than {MAX_CHECKS} checks");
            return Err(QueryError::Permanent(why));
        }
        self.checks.into_iter().map(DocumentCheck::into_check).collect()
    }
}

impl DocumentCheck {
    fn into_check(self) -> Result<CiCheck, QueryError> {
        let state = match self.state.as_str() {
            "passed" | "success" => CiCheckState::Passed,
            "failed" | "failure" | "error" | "cancelled" | "canceled" => CiCheckState::Failed,
            "pending" | "queued" | "running" | "in_progress" => CiCheckState::Pending,
            "skipped" | "neutral" => CiCheckState::Skipped,
            other => {
                let other = text::clean_line(other, MAX_QUOTED_CHARS);
                let why = format!(
                    "the answer has a check with the unknown state `{other}`; known are `passed`, `failed`, `pending` and `skipped`"
                );
                return Err(QueryError::Permanent(why));
            }
        };
        Ok(CiCheck {
            is_optional: !self.required,
            log: self.log.map_or(CheckLog::None, CheckLog::Text),
            ..CiCheck::new(&self.name, state, CiCheckKind::Job)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "3f1c2ab000000000000000000000000000000000";

    fn read(document: &str) -> String {
        let document = document.replace("COMMIT", COMMIT);
        match serde_json::from_str::<StateDocument>(&document).map(|it| it.into_checks(COMMIT)) {
            Err(error) => format!("no document: {error}"),
            Ok(Err(error)) => format!("{error:?}"),
            Ok(Ok(checks)) => checks
                .iter()
                .map(|one| format!("{} {:?} {}", one.name, one.state, one.is_optional))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    #[test]
    fn a_document_must_be_about_the_commit() {
        for (document, expected) in [
            (
                r#"{"commit":"COMMIT","checks":[{"name":"build","state":"passed"},{"name":"x","state":"queued","required":false}]}"#,
                "build Passed false, x Pending true",
            ),
            (r#"{"commit":"COMMIT"}"#, ""),
            (
                r#"{"commit":"COMMIT","found":false}"#,
                "NotFound(\"the provider does not have the commit\")",
            ),
            (
                r#"{"commit":"HEAD","checks":[{"name":"build","state":"passed"}]}"#,
                "Permanent(\"the answer is about commit `HEAD`, not about `3f1c2ab000000000000000000000000000000000`\")",
            ),
            (
                r#"{"commit":"COMMIT","checks":[{"name":"build","state":"fine"}]}"#,
                "Permanent(\"the answer has a check with the unknown state `fine`; known are `passed`, `failed`, `pending` and `skipped`\")",
            ),
            (r#"{"checks":[]}"#, "no document: missing field `commit` at line 1 column 13"),
            (
                "[]",
                "no document: invalid length 0, expected an object with `commit` and `checks` at line 1 column 2",
            ),
        ] {
            assert_eq!(read(document), expected, "{document}");
        }
    }
}
