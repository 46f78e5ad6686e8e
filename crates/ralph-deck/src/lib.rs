//! The part of ralph that shows what is on record. [`search`] finds it, [`learning`] adds to it.
//!
//! Nothing here is on the way of a hook, and nothing here decides. What is searched is an index of files that others
//! own: the journals, goals and handoffs of runs, learnings, and the memory that agents keep in a project. It is made
//! of them whenever somebody asks, as far as they changed, and can be deleted at any time.

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
