//! Checkouts of the work tree for judges that are asked by hand.

use crate::term;
use ralph_core::gate::{BaselineMode, Gate};
use ralph_git::checkpoint::{Checkpoint, CheckpointRepository};
use ralph_home::faults::describe_error;
use ralph_home::paths::RalphHome;
use ralph_hook::contract::{CandidateCheckouts, ComparedTrees};
use ralph_judge::JudgeStep;
use ralph_policy::config::ProjectConfig;
use ralph_proof::{ClassRules, ProofDirectory, ProofError, ProofRequest, ResultReuse};
use ralph_sys::clock::Deadline;
use ralph_sys::env::Env;
use ralph_sys::proc::cancel::CancelToken;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

pub(super) struct ManualCheckouts<'a> {
    pub home: &'a RalphHome,
    pub env: &'a Env,
    pub config: &'a ProjectConfig,
    pub path: Option<&'a OsStr>,
    pub repository: &'a CheckpointRepository,
    pub base: &'a Checkpoint,
    pub candidate: &'a Checkpoint,
    pub rules: &'a ClassRules,
    pub cancel: &'a CancelToken,
}

impl fmt::Debug for ManualCheckouts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualCheckouts").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl CandidateCheckouts for ManualCheckouts<'_> {
    /// Prints what a judge is asked next, because a verdict takes minutes.
    fn report_progress(&self, judge: &str, step: &JudgeStep<'_>) {
        term::err(&format!("{judge}: {}\n", step.describe()));
    }

    fn changed_files(&self, deadline: &Deadline) -> Result<Vec<PathBuf>, String> {
        let Self { repository, base, candidate: now, .. } = *self;
        ComparedTrees { repository, base, now }.changed_files(deadline)
    }

    fn with_request(
        &self,
        gates: &[&Gate],
        _deadline: Deadline,
        run: &mut dyn FnMut(&ProofRequest<'_>) -> Result<(), ProofError>,
    ) -> Result<(), String> {
        let policy = &self.config.policy;
        let directory =
            ProofDirectory::create(self.home, self.env, &self.config.project, self.cancel)
                .map_err(|error| describe_error(&error))?;
        run(&ProofRequest {
            home: self.home,
            env: self.env,
            project: &self.config.project,
            repository: self.repository,
            base: self.base,
            candidate: self.candidate,
            gates,
            environment: &policy.environment,
            path: self.path,
            links: &policy.verify.link,
            installed: [0; 32],
            rules: self.rules,
            may_change: &policy.verify.may_change,
            accepts_old_failures: policy.baseline == BaselineMode::Ratchet,
            tree_reports: &[],
            base_reports: None,
            gate_writes: &[],
            reuse: ResultReuse::Never,
            must_mount: false,
            directory: &directory,
            cancel: self.cancel,
            watch: &|_| {},
            ended: &|_| {},
        })
        .map_err(|error| describe_error(&error))
    }
}
