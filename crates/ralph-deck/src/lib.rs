//! Search over past runs, learnings and memory: [`search`] finds records, [`learning`] adds some.
//!
//! No hook uses this crate, and nothing here decides. The search uses an index of files that other parts own: journals,
//! goals and handoffs of runs, learnings, and the memory that agents keep in a project. Every search first indexes the
//! files that changed. The index is a cache and can be deleted at any time.

mod index;
pub mod learning;
mod query_words;
mod recall_context;
mod recall_record;
mod record_sources;

pub use index::{
    IndexCoverage, IndexStorage, MatchExtent, RecallAnswer, RecallError, RecallHit, RecallQuery,
    RecallScope, SearchedCounts, TextPiece,
};
pub use index::{finds_learning, search};
pub use recall_context::RecallContext;
pub use recall_record::RecallKind;
pub use record_sources::memory::MEMORY_FILE_NAMES as MEMORY_FILES;
