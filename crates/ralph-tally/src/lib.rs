//! Folds a journal into the facts of its run: a tally of stops, gates, requirements, spending and days.
//!
//! A line is parsed as far as a tally needs it, and the hash chain of the journal is not checked. So nothing here is
//! evidence. The index of runs in `ralph-deck` stores the tallies; its tests compare them with the state that a stop sees.

mod day_tally;
mod dispute_outcome;
mod flaky_results;
mod gate_tally;
mod journal_line;
mod journal_reader;
mod judge_tally;
mod question_tally;
mod requirement_history;
mod run_tally;
mod spend_tally;
mod tally_clock;

pub use day_tally::{DayCache, DayTally};
pub use dispute_outcome::{DisputeEnd, DisputeOutcome, DisputeOutcomes};
pub use flaky_results::{FlakyResults, KeyedResult};
pub use gate_tally::{GateTallies, GateTally};
pub use journal_reader::{JournalCursor, ReaderBuffers, read_journal};
pub use judge_tally::{JudgeTallies, JudgeTally};
pub use question_tally::QuestionTally;
pub use requirement_history::{RequirementHistories, RequirementHistory};
pub use run_tally::{OpenWait, RunTally, TallyPhase};
pub use spend_tally::SpendTally;
