//! The trees of a proof: which files each of them has from which version.

use std::collections::BTreeSet;
use std::ffi::OsString;

use globset::GlobSet;
use ralph_core::proof::ProofStep;
use ralph_gates::gates::result_key::compile_globs;
use ralph_git::checkpoint::{
    CheckoutLeftovers, CheckoutRequest, Checkpoint, CheckpointError, CheckpointRepository,
    OverlayFile,
};
use ralph_git::tree::ObjectId;
use ralph_sys::clock::Deadline;

use crate::file_class::{FileClass, classify_file};
use crate::naming_conventions::is_mixed_manifest;
use crate::prove::{ProofError, ProofRequest};
use crate::tree_changes::{FileChangeKind, TreeChanges};
use crate::tree_composition::{RewrittenFile, TreeComposition, TreeSides, compose_tree};

/// The tree of one step.
#[derive(Clone, Debug)]
pub(crate) struct StepTree<'a> {
    pub step: ProofStep,
    /// The git tree of all its files. Steps with the same tree have the same results.
    pub id: ObjectId,
    pub code: &'a Checkpoint,
    pub tests: &'a Checkpoint,
    /// Paths relative to the work tree that are taken from `tests`.
    pub from_tests: BTreeSet<OsString>,
    /// Files that have parts of both.
    pub merged: Vec<OverlayFile>,
}

/// The trees of the four steps.
#[derive(Debug)]
pub(crate) struct ProofPlan<'a> {
    pub before: StepTree<'a>,
    pub now: StepTree<'a>,
    pub old_tests: StepTree<'a>,
    pub new_tests: StepTree<'a>,
    pub changed_code: Vec<String>,
    pub changed_tests: Vec<String>,
    pub inseparable: Vec<String>,
    /// The changed tests that exist in the base, and in the candidate.
    pub old_files: Vec<String>,
    pub new_files: Vec<String>,
    /// Whether files that decide how tests run were changed.
    pub has_new_harness: bool,
}

impl<'a> ProofPlan<'a> {
    pub(crate) fn new(request: &ProofRequest<'a>, deadline: &Deadline) -> Result<Self, ProofError> {
        let (base, candidate) = (request.base, request.candidate);
        let sides = (base, candidate);
        let changes = TreeChanges::between(request.repository, sides, request.project, deadline)?;
        let (mut old_tests, new_tests) = compose_both(request, &changes);
        let has_new_harness = new_tests.from_tests.iter().any(|path| is_harness(request, path))
            || new_tests.rewritten.iter().any(|file| is_mixed_manifest(&file.path));
        let allowed = take_allowed(&mut old_tests, &new_tests, &compile_globs(request.may_change));
        let mut inseparable: Vec<String> =
            old_tests.not_separable.iter().map(|file| file.path.clone()).collect();
        if changes.left_out + changes.missing > 0 {
            inseparable.push("files that cannot be read".to_string());
        }
        let is_test = |path: &String| new_tests.from_tests.contains(path);
        let files_without = |kind: FileChangeKind| -> Vec<String> {
            let files = changes.all.iter().filter(|file| file.kind != kind && is_test(&file.path));
            files.map(|file| file.path.clone()).collect()
        };
        let old_files = files_without(FileChangeKind::Added);
        let new_files = files_without(FileChangeKind::Deleted);
        let paths = changes.all.iter().map(|change| change.path.clone());
        let (changed_tests, changed_code) = paths.partition::<Vec<_>, _>(is_test);
        let tree = |step, code, tests, mix: &TreeComposition| {
            StepTree::new(request, (step, code, tests), mix, deadline)
        };
        let whole = TreeComposition::default();
        Ok(Self {
            before: tree(ProofStep::Before, base, candidate, &allowed)?,
            now: tree(ProofStep::Now, candidate, candidate, &whole)?,
            old_tests: tree(ProofStep::OldTests, candidate, base, &old_tests)?,
            new_tests: tree(ProofStep::NewTests, base, candidate, &new_tests)?,
            changed_code,
            changed_tests,
            inseparable,
            old_files,
            new_files,
            has_new_harness,
        })
    }
}

impl<'a> StepTree<'a> {
    /// The base with its own tests.
    pub(crate) fn of_base(
        request: &ProofRequest<'a>,
        deadline: &Deadline,
    ) -> Result<Self, ProofError> {
        let version = (ProofStep::Before, request.base, request.base);
        Self::new(request, version, &TreeComposition::default(), deadline)
    }

    /// The candidate with some of its files as in the base, or rewritten.
    pub(crate) fn of_candidate(
        request: &ProofRequest<'a>,
        changes: &TreeComposition,
        deadline: &Deadline,
    ) -> Result<Self, ProofError> {
        let version = (ProofStep::Now, request.candidate, request.base);
        Self::new(request, version, changes, deadline)
    }

    fn new(
        request: &ProofRequest<'a>,
        (step, code, tests): (ProofStep, &'a Checkpoint, &'a Checkpoint),
        mix: &TreeComposition,
        deadline: &Deadline,
    ) -> Result<Self, ProofError> {
        let from_tests = in_work_tree(request, &mix.from_tests);
        let merged = overlay(request, &mix.rewritten);
        let mut tree = Self { step, id: code.tree, code, tests, from_tests, merged };
        if !tree.from_tests.is_empty() || !tree.merged.is_empty() {
            tree.id = tree.find_id(request.repository, deadline)?;
        }
        Ok(tree)
    }

    fn find_id(
        &self,
        repository: &CheckpointRepository,
        deadline: &Deadline,
    ) -> Result<ObjectId, CheckpointError> {
        repository.checkout_tree(
            &CheckoutRequest {
                candidate: self.code,
                base: self.tests,
                is_protected: &|path| self.from_tests.contains(path),
                overlay: &self.merged,
                links: &[],
                leftovers: CheckoutLeftovers::Remove,
            },
            deadline,
        )
    }
}

/// New code with old tests, and old code with new tests.
fn compose_both(
    request: &ProofRequest<'_>,
    changes: &TreeChanges,
) -> (TreeComposition, TreeComposition) {
    let texts = changes.texts();
    let mut old_tests = compose_tree(&texts, TreeSides::NewCodeOldTests, request.rules);
    let mut new_tests = compose_tree(&texts, TreeSides::OldCodeNewTests, request.rules);
    for path in changes.all.iter().filter(|change| !change.is_text()).map(|change| &change.path) {
        // Images and other data cannot be merged, but they can be taken from one side.
        if matches!(classify_file(path, request.rules).class, FileClass::Tests | FileClass::Harness)
        {
            old_tests.from_tests.push(path.clone());
            new_tests.from_tests.push(path.clone());
        }
    }
    (old_tests, new_tests)
}

/// Takes the files that a person allowed to change out of the old tests, so that those have their new version. Returns
/// the changes that give them to the old code too: otherwise a test that was to be removed would be missed.
fn take_allowed(
    old_tests: &mut TreeComposition,
    new_tests: &TreeComposition,
    allowed: &GlobSet,
) -> TreeComposition {
    old_tests.from_tests.retain(|path| !allowed.is_match(path));
    old_tests.rewritten.retain(|file| !allowed.is_match(&file.path));
    old_tests.not_separable.retain(|file| !allowed.is_match(&file.path));
    let from_tests = new_tests.from_tests.iter().filter(|path| allowed.is_match(path));
    let rewritten = new_tests.rewritten.iter().filter(|file| allowed.is_match(&file.path));
    TreeComposition {
        from_tests: from_tests.cloned().collect(),
        rewritten: rewritten.cloned().collect(),
        not_separable: Vec::new(),
    }
}

fn is_harness(request: &ProofRequest<'_>, path: &str) -> bool {
    classify_file(path, request.rules).class == FileClass::Harness
}

fn in_work_tree(request: &ProofRequest<'_>, paths: &[String]) -> BTreeSet<OsString> {
    let below = request.project_below();
    paths.iter().map(|path| below.join(path).into_os_string()).collect()
}

fn overlay(request: &ProofRequest<'_>, rewritten: &[RewrittenFile]) -> Vec<OverlayFile> {
    let below = request.project_below();
    let file = |file: &RewrittenFile| OverlayFile {
        path: below.join(&file.path).into_os_string(),
        content: file.text.clone().into_bytes(),
    };
    rewritten.iter().map(file).collect()
}
