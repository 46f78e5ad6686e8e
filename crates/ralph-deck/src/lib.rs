//! Search over past runs, learnings and memory: [`search`] finds records, [`learning`] adds some.
//!
//! No hook uses this crate, and nothing here decides. The search uses an index of files that other parts own: journals,
//! goals and handoffs of runs, learnings, and the memory that agents keep in a project. Every search first indexes the
//! files that changed. The index is a cache and can be deleted at any time.

mod ground;
mod index;
pub mod learning;
mod past;
mod record;
mod words;

pub use ground::Ground;
pub use index::{Answer, Asked, Coverage, Hit, Kept, Match, Piece, RecallError, Scope, Searched};
pub use index::{finds, search};
pub use past::memory::READ as MEMORY_FILES;
pub use record::Kind;
