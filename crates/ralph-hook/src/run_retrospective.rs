//! Learns from a run: derives lessons from its journal and checkpoints, and adds them to the memory of its project.
//!
//! A worker does this after the run has ended, so that no stop waits for it. Nothing is lost if the worker dies:
//! `ralph memory learn` derives the same lessons again.

use crate::notify;
use crate::project_memory::{
    GivenMemory, goal_start, has_given, measured_requirements, memory_policy, memory_project,
};
use ralph_core::id::RunId;
use ralph_core::lesson::{self, LearnedRun, Retrospective, RetrospectiveInput};
use ralph_core::record::{RunOrigin, RunRecord};
use ralph_core::redact::Redactor;
use ralph_core::run::RunState;
use ralph_git::checkpoint::{Checkpoint, CheckpointRepository};
use ralph_git::worktree::RunRepository;
use ralph_home::faults::{self, Fault, FaultKind};
use ralph_home::journal;
use ralph_home::lesson_store::{self, LessonStoreError};
use ralph_home::paths::RalphHome;
use ralph_home::store::{self, StoreError};
use ralph_sys::clock::Deadline;
use ralph_sys::fs;
use std::collections::BTreeMap;
use std::time::Duration;

/// A journal and the comparison of a few checkpoints take far less.
const LEARN_TIMEOUT: Duration = Duration::from_mins(2);
/// Pairs of checkpoints that are compared. A run has about as many as iterations.
const MAX_COMPARISONS: usize = 64;
/// A comparison of more files says nothing about the cause.
const MAX_COMPARED_FILES: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum LearnRunError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Lessons(#[from] LessonStoreError),
    #[error(transparent)]
    File(#[from] fs::FileError),
    #[error("the files of run `{0}` were edited, so nothing is learned from it")]
    Tampered(RunId),
}

/// Starts the worker that learns from a run which has ended, if there is something to learn. Failures become faults.
pub fn learn_after_end(home: &RalphHome, run: &RunRecord, state: &RunState) {
    let has_held = state.iteration > run.first_iteration
        || state.report.as_ref().is_some_and(|report| report.open_count() > 0);
    let is_wanted = run.origin != RunOrigin::Session && memory_policy(run).learn;
    if !is_wanted || !(has_held || has_given(home, run)) {
        return;
    }
    let words = ["memory", "learn", run.id.as_str(), "--in-background"].map(ToString::to_string);
    if let Err(error) = notify::start_worker(&words) {
        let why = notify::describe_notify_error(&error);
        let fault = Fault::new(FaultKind::File, &format!("no lessons were derived {why}"));
        faults::record_fault(home, &fault.with_run(&run.id));
    }
}

/// Adds the lessons of a run to the memory of its project. Learning a run again replaces what it contributed.
pub fn learn_from_run(
    home: &RalphHome,
    run: &RunId,
    redactor: &Redactor,
) -> Result<LearnedRun, LearnRunError> {
    let deadline = Deadline::after(LEARN_TIMEOUT);
    let opened = store::load_run(home, run)?;
    let contents = journal::read_journal(&home.run(run).journal())?;
    let is_edited = contents.damage.as_ref().is_some_and(journal::JournalDamage::is_edit);
    if is_edited || opened.state.tampered || opened.tampering.is_some() {
        return Err(LearnRunError::Tampered(run.clone()));
    }
    let record = &opened.run;
    let goal = goal_start(home, record);
    let given = GivenMemory::read(&home.run(run).given_memory()).unwrap_or_default().given;
    let mut retrospective = Retrospective::new(RetrospectiveInput {
        run: record,
        goal: &goal,
        entries: &contents.entries,
        measured: &measured_requirements(record),
        shown: given,
    });
    let mut comparison = CheckpointComparison::open(home, record, deadline);
    let mut changed_files = |from: u32, to: u32| comparison.changed_files(from, to);
    // Compared before the lock is taken: git may be slow.
    for span in retrospective.findings.iter().flat_map(|blocking| &blocking.spans) {
        changed_files(span.from, span.to);
    }
    let project = memory_project(record);
    Ok(lesson_store::update_lessons(home, &project, &deadline, |file| {
        retrospective.findings.retain(|one| !file.is_forgotten(one.signature, record.started_ms));
        lesson::learn_run(&mut file.lessons, &retrospective, redactor, &mut changed_files)
    })?)
}

/// The checkpoints of a run. Without git, or once its checkpoints were removed, no files are known.
struct CheckpointComparison {
    repository: Option<CheckpointRepository>,
    checkpoints: BTreeMap<u32, Checkpoint>,
    compared: BTreeMap<(u32, u32), Vec<String>>,
    deadline: Deadline,
}

impl CheckpointComparison {
    fn open(home: &RalphHome, run: &RunRecord, deadline: Deadline) -> Self {
        let project = RunRepository::of_project(run).directory;
        let repository = CheckpointRepository::open(home, &run.id, &project, &deadline).ok();
        let listed = repository.as_ref().and_then(|it| it.list(&deadline).ok());
        let checkpoints =
            listed.unwrap_or_default().into_iter().map(|one| (one.number, one)).collect();
        Self { repository, checkpoints, compared: BTreeMap::new(), deadline }
    }

    fn changed_files(&mut self, from: u32, to: u32) -> Vec<String> {
        if let Some(known) = self.compared.get(&(from, to)) {
            return known.clone();
        }
        if self.compared.len() >= MAX_COMPARISONS {
            return Vec::new();
        }
        let found = self.compare(from, to).unwrap_or_default();
        self.compared.insert((from, to), found.clone());
        found
    }

    fn compare(&self, from: u32, to: u32) -> Option<Vec<String>> {
        let (before, after) = (self.checkpoints.get(&from)?, self.checkpoints.get(&to)?);
        let changed = self.repository.as_ref()?.diff(before, after, &self.deadline).ok()?;
        let paths = changed.iter().map(|one| one.path.to_string_lossy().into_owned());
        (changed.len() <= MAX_COMPARED_FILES).then(|| paths.collect())
    }
}
