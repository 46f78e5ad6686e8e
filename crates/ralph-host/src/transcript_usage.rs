//! The token usage that a host records in a session's transcripts.

use alloc::string::String;
use ralph_core::model_price::CallUsage;

/// The usage in one line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranscriptUsage {
    Call(CallLine),
    /// The conversation was replaced by a summary of it. The host records no usage for the call that wrote the summary.
    Compaction {
        timestamp: Option<String>,
        /// The size of the conversation before.
        read_tokens: u64,
        /// Its size afterwards, of which the summary is the largest part.
        written_tokens: u64,
    },
}

/// A call of a model. Several lines may report the same call; the last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLine {
    /// The provider's id of the call.
    pub id: String,
    /// RFC 3339.
    pub timestamp: Option<String>,
    pub usage: CallUsage,
}
