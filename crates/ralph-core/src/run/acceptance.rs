//! A person's acceptance of work that ralph could not prove.

use super::{RunPhase, RunState};
use crate::record::{Acceptance, RunChange};
use crate::status::RunStatus;
use crate::text;
use alloc::format;
use alloc::string::String;

const MAX_NAME_CHARS: usize = 60;
const MAX_WHY_CHARS: usize = 300;

impl Acceptance {
    /// `accepted by kim: looked at every changed test`
    pub fn describe(&self) -> String {
        let by = text::clean_line(&self.by, MAX_NAME_CHARS);
        match text::clean_line(&self.why, MAX_WHY_CHARS) {
            why if why.is_empty() => format!("accepted by {by}"),
            why => format!("accepted by {by}: {why}"),
        }
    }

    /// `verified (accepted by kim: looked at every changed test)`
    pub fn describe_status(&self) -> String {
        format!("{} ({})", RunStatus::Verified.name(), self.describe())
    }
}

impl RunStatus {
    /// Whether a person may accept work that ended like this: the gates gave a result, and only the proof is missing.
    pub fn is_acceptable(self) -> bool {
        match self {
            Self::Green | Self::NeedsReview => true,
            Self::Verified
            | Self::Claimed
            | Self::Exhausted
            | Self::Stuck
            | Self::NeedsHuman
            | Self::GateBroken
            | Self::RateLimited
            | Self::Cancelled
            | Self::Overridden
            | Self::Crashed => false,
        }
    }
}

impl RunState {
    /// Makes an ended run count as verified. Without effect if it ended with a status that cannot be accepted.
    pub(super) fn apply_acceptance(&mut self, status: RunStatus, change: &RunChange) {
        if let RunChange::Accepted(acceptance) = change
            && status.is_acceptable()
        {
            self.phase = RunPhase::Ended(RunStatus::Verified);
            self.accepted = Some(acceptance.clone());
        }
    }
}
