//! The statuses a run can end with: a closed set, each with its own exit code.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatus {
    Verified,
    /// Every gate passes, but no test distinguishes the result from the base.
    Green,
    Claimed,
    Exhausted,
    Stuck,
    NeedsHuman,
    NeedsReview,
    GateBroken,
    RateLimited,
    Cancelled,
    Overridden,
    Crashed,
}

impl RunStatus {
    pub const ALL: [Self; 12] = [
        Self::Verified,
        Self::Green,
        Self::Claimed,
        Self::Exhausted,
        Self::Stuck,
        Self::NeedsHuman,
        Self::NeedsReview,
        Self::GateBroken,
        Self::RateLimited,
        Self::Cancelled,
        Self::Overridden,
        Self::Crashed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Green => "green",
            Self::Claimed => "claimed",
            Self::Exhausted => "exhausted",
            Self::Stuck => "stuck",
            Self::NeedsHuman => "needs_human",
            Self::NeedsReview => "needs_review",
            Self::GateBroken => "gate_broken",
            Self::RateLimited => "rate_limited",
            Self::Cancelled => "cancelled",
            Self::Overridden => "overridden",
            Self::Crashed => "crashed",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// 0 only for `verified`. 1 is reserved for errors of ralph itself; 2 is what similar tools return when a limit is
    /// reached, and 130 is the convention for an interrupt.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Verified => 0,
            Self::Exhausted => 2,
            Self::Claimed => 3,
            Self::Stuck => 4,
            Self::NeedsHuman => 5,
            Self::NeedsReview => 6,
            Self::GateBroken => 7,
            Self::RateLimited => 8,
            Self::Overridden => 9,
            Self::Crashed => 10,
            Self::Green => 11,
            Self::Cancelled => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// R-L9c: every status has a unique name and a unique exit code.
    #[test]
    fn names_and_exit_codes_are_unique() {
        let names: BTreeSet<_> = RunStatus::ALL.iter().map(|status| status.name()).collect();
        let codes: BTreeSet<_> = RunStatus::ALL.iter().map(|status| status.exit_code()).collect();
        assert_eq!((names.len(), codes.len()), (RunStatus::ALL.len(), RunStatus::ALL.len()));
        assert!(!codes.contains(&1), "1 means that ralph itself failed");
        for status in RunStatus::ALL {
            assert_eq!(RunStatus::parse(status.name()), Some(status));
            assert_eq!(status.exit_code() == 0, status == RunStatus::Verified);
        }
    }
}
