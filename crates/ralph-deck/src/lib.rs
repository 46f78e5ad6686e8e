//! What screens, reports and `--json` show of runs, before layout. Nothing here prints, decides or knows colours, and no
//! hook event needs this crate.
//!
//! - [`page`]: what the screens show (board, one run, history, statistics). The terminal and the web page draw these
//!   types, and `--json` prints them.
//! - [`report`]: the report of a run as Markdown, HTML and JSON. [`otlp`]: runs as OpenTelemetry traces and metrics.
//! - [`view`]: what `--json` of the other commands prints. [`wording`] and [`gate_wording`]: facts in words.
//! - [`run_index`]: the index of all runs, for the board, the history, statistics and `ralph sql`.
//! - [`search`]: past runs, hand-overs, learnings and memory, in an index of its own. [`learning`] adds to them.
//!
//! Both indexes are caches of files that other parts own. They are brought up to date before they are read, and can be
//! deleted at any time.

pub mod gate_wording;
mod index;
mod index_file;
mod json_units;
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
