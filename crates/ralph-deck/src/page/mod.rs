//! What the screens show: the board, one run, and the run's parts. The terminal, the web page, the report and `--json`
//! draw the same types.
//!
//! Every text from an agent, a tool or a repository is cleaned and bounded before it is put into one of these types. A
//! screen escapes it for its own format and does nothing else to it.

mod board_load;
mod board_page;
mod board_row;
mod changed_file_hints;
mod changed_files;
mod changed_settings;
mod checkpoint_reader;
mod cost_rows;
mod curves;
mod gate_history;
mod goal_files;
mod history_page;
mod judge_history;
mod look_first;
pub mod metrics;
mod open_question;
mod proof_table;
mod repeated_text;
mod requirement_matrix;
mod run_activity;
mod run_page;
mod run_sessions;
mod run_standing;
mod spend_meter;
pub mod stats;
mod timeline;

pub use board_load::{BoardClock, LONGEST_REVIEW_MS, projects_in};
pub use board_page::{BoardPage, BoardQueue, board_sentence};
pub use board_row::{BoardRow, OpenQuestion};
pub use changed_files::{ChangedFileRow, CheckpointDiff, FileComparison, SideBySideLine};
pub use checkpoint_reader::{CheckpointReadError, CheckpointReader, CheckpointRow};
pub use cost_rows::{CostRow, CostRowSource};
pub use curves::{CurvePoint, context_curve, spend_curve};
pub use gate_history::{GateHistoryRow, GateMeasurement, gate_history};
pub use history_page::{HISTORY_PAGE_RUNS, HistoryError, HistoryPage};
pub use judge_history::JudgeHistoryRow;
pub use look_first::{LookFirst, LookFirstKind, look_first};
pub use open_question::{
    AskedQuestion, asked_question, open_question, question_in_phase, view_question,
};
pub use proof_table::{ProofTable, ProofTableRow};
pub use requirement_matrix::{
    CellState, MatrixCell, MatrixRow, RequirementMatrix, StopColumn, requirement_matrix,
};
pub use run_activity::{ActiveGateRow, ActiveStepRow, RunActivity};
pub use run_page::RunPage;
pub(crate) use run_page::{MetCount, proof_text};
pub use run_sessions::{HandoverRow, QuestionRow, SessionRow};
pub use run_standing::{Attention, BoardGroup, RunStanding, state_label};
pub(crate) use timeline::TimelineReader;
pub use timeline::{EarlierLines, TimelineKind, TimelineRow, earlier_lines, stop_reason, timeline};
