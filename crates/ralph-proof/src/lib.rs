//! Separates the code of a change from its tests and from the files that decide how tests run, composes trees from
//! different versions, and runs the gates in them: new code with old tests, and old code with new tests. What the
//! results prove is decided in `ralph_core::proof`.

mod added_test;
mod base_checkout;
mod canary;
mod canary_scope;
mod changed_file_facts;
mod check_trial;
mod checkout_environment;
mod checkout_run;
mod checkout_view;
mod code_hunks;
pub mod dependency_changes;
mod documentation_examples;
pub mod environment_changes;
mod environment_marks;
pub mod environment_record;
pub mod environment_roots;
pub mod file_class;
pub mod file_composition;
mod first_step;
mod hunk_trials;
mod ini_merge;
pub mod installed_environments;
pub mod installed_packages;
mod json_merge;
mod measured_steps;
mod naming_conventions;
mod outside_changes;
mod proof_directory;
mod proof_plan;
mod proof_step;
mod prove;
pub mod python_distributions;
mod reported_paths;
mod rust_splice;
mod settings_references;
mod step_cache;
mod step_progress;
mod test_selection;
mod toml_merge;
pub mod tree_changes;
pub mod tree_composition;
mod unlisted_files;
mod untested_base;
mod worktree_packages;

pub use added_test::{AddedTest, AddedTestResult, try_added_test};
pub use base_checkout::{BaseCheckout, describe_missing_script};
pub use check_trial::{CheckTrial, CheckTrialRequest, judge_trial, run_checks_at_base, try_checks};
pub use checkout_run::{CheckoutTree, run_in_checkout};
pub use checkout_view::{can_mount_checkouts, project_mounts};
pub use code_hunks::CodeHunk;
pub use file_class::{
    ClassReason, ClassRules, Classification, FileClass, GateFile, GateFileRole, classify_file,
};
pub use file_composition::{ComposedFile, compose_file};
pub use hunk_trials::{HunkLimits, HunkProgress, HunkResult, HunkTrials, TriedHunk, try_hunks};
pub use installed_packages::DEPENDENCY_DIRECTORIES;
pub use proof_directory::{ListedProofDirectory, ProofDirectory, list_recorded_directories};
pub use prove::{
    ProofError, ProofProgress, ProofReport, ProofRequest, StepOutcome, StepReport, TestProgress,
    may_run_tests, prove,
};
pub use ralph_gates::gates::ResultReuse;
pub use tree_composition::{
    InseparableFile, RewrittenFile, TreeComposition, TreeSides, compose_tree,
};
pub use worktree_packages::WorktreePackages;
