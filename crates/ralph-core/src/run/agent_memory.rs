//! Whether the agent can still be expected to know what earlier blocks reported.

use serde::{Deserialize, Serialize};

/// Whether the agent still has the earlier reasons in its context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMemory {
    #[default]
    Whole,
    /// The conversation was compacted since.
    Lost,
}

impl AgentMemory {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
    pub(super) fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}
