//! The views that `--json` prints, each with the words for its facts; `docs/json.md` documents them. Runs and decisions
//! share the types of [`crate::page`].
//!
//! A view is built from journals, stores and reports, and borrows from them. The order of its fields is the order of the
//! JSON. After a release, fields are only added.

pub mod acceptance;
pub mod approvals;
pub mod base_checks;
pub mod checked_report;
pub mod checkpoint_list;
pub mod decisions;
pub mod denied_tools;
pub mod doctor_report;
pub mod driven_run;
pub mod effective_policy;
pub mod fault_list;
pub mod feature_list;
pub mod file_classes;
pub mod gate_list;
pub mod gate_results;
pub mod gated_sessions;
pub mod given_approval;
mod journal_check;
pub mod journal_log;
pub mod judge_verdicts;
pub mod learning_list;
pub mod limit_fields;
pub mod memory_list;
pub mod next_step;
pub mod phase_progress;
pub mod pipeline_chunks;
pub mod proof_report;
pub mod queue_events;
pub mod queue_status;
pub mod recall_hits;
pub mod requirement_check;
pub mod run_events;
pub mod run_limits;
pub mod run_report;
pub mod spending_sources;
pub mod status_run;
pub mod status_view;
pub mod waiver_list;
