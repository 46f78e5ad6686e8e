//! What a proof found.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofVerdict {
    /// The old tests hold, and at least one test fails without the change.
    Verified,
    /// The old tests hold, but no test distinguishes the new code from the old.
    Green,
    /// Old tests fail on the new code or are no longer reported, the harness cannot fail, or a gate fails with the
    /// settings of the base.
    NeedsReview,
    /// A gate fails on the new code with the new tests.
    Failed,
}

impl ProofVerdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Green => "green",
            Self::NeedsReview => "needs_review",
            Self::Failed => "failed",
        }
    }
}
