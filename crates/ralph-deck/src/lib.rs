//! Shows what happened: the [`view`]s of runs, decisions, gates and queues that `--json` prints, the [`wording`] of
//! their facts, and the [`search`] over past runs, learnings and memory, to which [`learning`] adds.
//!
//! A terminal or a page lays the views out; nothing here prints, decides or knows colours. Answering a hook event needs
//! nothing of this crate. The search uses an index of files that other parts own: journals,
//! goals and hand-overs of runs, learnings, and the memory that agents keep in a project. Every search first indexes the
//! files that changed. The index is a cache and can be deleted at any time.

pub mod gate_wording;
mod index;
mod index_file;
pub mod learning;
pub mod otlp;
pub mod page;
pub mod person_action;
mod query_words;
mod recall_context;
mod recall_record;
mod record_sources;
pub mod report;
pub mod run_index;
pub mod standing_wording;
pub mod stats_source;
pub mod view;
pub mod wording;

pub use index::{
    IndexCoverage, MatchExtent, RecallAnswer, RecallError, RecallHit, RecallQuery, RecallScope,
    SearchedCounts, TextPiece,
};
pub use index::{finds_learning, search};
pub use index_file::IndexStorage;
pub use recall_context::RecallContext;
pub use recall_record::RecallKind;
pub use record_sources::memory::MEMORY_FILE_NAMES as MEMORY_FILES;
