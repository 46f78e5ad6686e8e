//! The steps of a proof.

use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofStep {
    Before,
    Now,
    OldTests,
    NewTests,
    /// New code and new tests with the settings of the base. It runs only if settings changed.
    OldSettings,
}

impl ProofStep {
    pub const ALL: [Self; 5] =
        [Self::Before, Self::Now, Self::OldTests, Self::NewTests, Self::OldSettings];

    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Now => "now",
            Self::OldTests => "old-tests",
            Self::NewTests => "new-tests",
            Self::OldSettings => "old-settings",
        }
    }

    pub fn describe(self) -> &'static str {
        match self {
            Self::Before => "old tests on old code",
            Self::Now => "new tests on new code",
            Self::OldTests => "old tests on new code",
            Self::NewTests => "new tests on old code",
            Self::OldSettings => "old settings",
        }
    }

    /// `old tests on new code, 31 of 148`
    pub fn describe_progress(self, done: Option<usize>, of: Option<usize>) -> String {
        match (done, of) {
            (Some(done), Some(of)) => format!("{}, {done} of {of}", self.describe()),
            (Some(done), None) => format!("{}, {done} so far", self.describe()),
            (None, _) => self.describe().into(),
        }
    }

    pub fn has_new_code(self) -> bool {
        matches!(self, Self::Now | Self::OldTests | Self::OldSettings)
    }
}
