//! The trees of a proof: which files each of them has from which version.

use std::collections::BTreeSet;
use std::ffi::OsString;

use ralph_check::tool_settings::is_ci_file;
use ralph_core::proof::{ChangedFileFacts, ProofStep};
use ralph_gates::gates::result_key::{PathGlobs, compile_globs};
use ralph_git::checkpoint::{
    CheckoutRequest, Checkpoint, CheckpointError, CheckpointRepository, OverlayFile,
};
use ralph_git::tree::ObjectId;
use ralph_sys::clock::Deadline;

use crate::changed_file_facts::{
    ComposedTests, find_file_facts, has_changed_helpers, shadowing_modules,
};
use crate::file_class::{FileClass, classify_file};
use crate::naming_conventions::is_mixed_manifest;
use crate::outside_changes::{OutsideChanges, path_in_work_tree};
use crate::prove::{ProofError, ProofRequest};
use crate::tree_changes::{ComparedCheckpoints, FileChangeKind, TreeChanges};
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

/// The trees of the steps, and what is known about the changed files.
#[derive(Debug)]
pub(crate) struct ProofPlan<'a> {
    pub before: StepTree<'a>,
    pub now: StepTree<'a>,
    pub old_tests: StepTree<'a>,
    pub new_tests: StepTree<'a>,
    /// The change with the settings of the base; `None` if none changed.
    pub old_settings: Option<StepTree<'a>>,
    /// New code with old tests, and with the old version of `undecided`; `None` if there are none.
    pub old_helpers: Option<StepTree<'a>>,
    /// Changed files that are code, or helpers of tests.
    pub undecided: Vec<String>,
    /// The settings that changed.
    pub changed_settings: Vec<String>,
    /// Whether the base has none of the settings that changed.
    pub has_only_new_settings: bool,
    pub changed_code: Vec<String>,
    pub changed_tests: Vec<String>,
    /// Changed files outside of the project, as it names them.
    pub changed_outside: Vec<String>,
    pub file_facts: ChangedFileFacts,
    /// The changed tests that exist in the base, and in the candidate.
    pub old_files: Vec<String>,
    pub new_files: Vec<String>,
    /// Whether files that decide how tests run were changed.
    pub has_new_harness: bool,
    /// Files with changed examples, which are tests only if the runner runs them.
    pub examples: Vec<String>,
    /// Whether files were changed that contain no tests, but that tests use.
    pub has_changed_helpers: bool,
}

impl<'a> ProofPlan<'a> {
    pub(crate) fn new(request: &ProofRequest<'a>, deadline: &Deadline) -> Result<Self, ProofError> {
        let (base, candidate) = (request.base, request.candidate);
        let sides = ComparedCheckpoints { base, now: candidate };
        let changes = TreeChanges::between(request.repository, sides, request.project, deadline)?;
        let outside = read_outside_changes(request, deadline)?;
        let (mut old_tests, new_tests) = compose_both(request, &changes, &outside);
        let has_new_harness = new_tests.from_tests.iter().any(|path| is_harness(request, path))
            || new_tests.outside.iter().any(|path| is_harness_outside(&outside, path))
            || new_tests.rewritten.iter().any(|file| is_mixed_manifest(&file.path));
        let allowed = take_allowed(&mut old_tests, &new_tests, &compile_globs(request.may_change));
        let tests = ComposedTests { old: &old_tests, new: &new_tests, allowed: &allowed };
        let (file_facts, examples) = find_file_facts(request, &changes, &tests, deadline)?;
        // Without old tests, only a canary among the new ones shows that a failure is reported.
        let has_new_harness = has_new_harness || file_facts.is_base_untested;
        let is_test_file =
            |path: &String| classify_file(path, request.rules).class == FileClass::Tests;
        let settings = old_settings(request, &outside, &old_tests);
        let changed_settings = settings.paths();
        let is_added = |path: &String| {
            changes.all.iter().any(|one| one.path == *path && one.kind == FileChangeKind::Added)
        };
        let has_only_new_settings = changed_settings.iter().all(is_added);
        let goes_with_tests = |path: &String| new_tests.from_tests.contains(path);
        let files_without = |kind: FileChangeKind| -> Vec<String> {
            let files =
                changes.all.iter().filter(|file| file.kind != kind && goes_with_tests(&file.path));
            files.map(|file| file.path.clone()).collect()
        };
        let old_files = files_without(FileChangeKind::Added);
        let new_files = files_without(FileChangeKind::Deleted);
        let paths = changes.all.iter().map(|change| change.path.clone());
        let (changed_tests, changed_code) = paths.partition::<Vec<_>, _>(goes_with_tests);
        let tree = |step, code, tests, mix: &TreeComposition| {
            StepTree::new(request, (step, code, tests), mix, deadline)
        };
        let whole = TreeComposition::default();
        let old_settings = if changed_settings.is_empty() {
            None
        } else {
            Some(tree(ProofStep::OldSettings, candidate, base, &settings)?)
        };
        let undecided = old_tests.undecided.clone();
        let old_helpers = if undecided.is_empty() {
            None
        } else {
            let mut helpers = old_tests.clone();
            helpers.from_tests.extend(undecided.iter().cloned());
            Some(tree(ProofStep::OldTests, candidate, base, &helpers)?)
        };
        Ok(Self {
            old_settings,
            old_helpers,
            undecided,
            changed_settings,
            has_only_new_settings,
            examples,
            has_changed_helpers: has_changed_helpers(&changes, &is_test_file),
            before: tree(ProofStep::Before, base, candidate, &allowed)?,
            now: tree(ProofStep::Now, candidate, candidate, &whole)?,
            old_tests: tree(ProofStep::OldTests, candidate, base, &old_tests)?,
            new_tests: tree(ProofStep::NewTests, base, candidate, &new_tests)?,
            changed_code,
            changed_tests,
            changed_outside: outside.shown_paths(),
            file_facts,
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
        let mut from_tests = in_work_tree(request, &mix.from_tests);
        from_tests.extend(mix.outside.iter().cloned());
        let merged = overlay(request, &mix.rewritten);
        let mut tree = Self { step, id: code.tree, code, tests, from_tests, merged };
        if !tree.from_tests.is_empty() || !tree.merged.is_empty() {
            tree.id = tree.find_id(request.repository, deadline)?;
        }
        Ok(tree)
    }

    /// The same tree with these files of the project as in the base, or without them if the base has none.
    pub(crate) fn with_base_files(
        &self,
        request: &ProofRequest<'a>,
        files: &[String],
        deadline: &Deadline,
    ) -> Result<Self, ProofError> {
        let mut tree = self.clone();
        tree.from_tests.extend(in_work_tree(request, files));
        tree.id = tree.find_id(request.repository, deadline)?;
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
            },
            deadline,
        )
    }
}

/// New code with old tests, and old code with new tests.
fn compose_both(
    request: &ProofRequest<'_>,
    changes: &TreeChanges,
    outside: &OutsideChanges<'_>,
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
    outside.compose(TreeSides::NewCodeOldTests, &mut old_tests);
    outside.compose(TreeSides::OldCodeNewTests, &mut new_tests);
    let shadowing = shadowing_modules(request, changes);
    for tests in [&mut old_tests, &mut new_tests] {
        tests.from_tests.extend(shadowing.iter().cloned());
    }
    (old_tests, new_tests)
}

/// Takes the files that a person allowed to change out of the old tests, so that those have their new version. Returns
/// the changes that give them to the old code too: otherwise a test that was to be removed would be missed.
fn take_allowed(
    old_tests: &mut TreeComposition,
    new_tests: &TreeComposition,
    allowed: &PathGlobs,
) -> TreeComposition {
    old_tests.from_tests.retain(|path| !allowed.is_match(path));
    old_tests.rewritten.retain(|file| !allowed.is_match(&file.path));
    old_tests.not_separable.retain(|file| !allowed.is_match(&file.path));
    old_tests.undecided.retain(|path| !allowed.is_match(path));
    let from_tests = new_tests.from_tests.iter().filter(|path| allowed.is_match(path));
    let rewritten = new_tests.rewritten.iter().filter(|file| allowed.is_match(&file.path));
    TreeComposition {
        from_tests: from_tests.cloned().collect(),
        rewritten: rewritten.cloned().collect(),
        ..TreeComposition::default()
    }
}

/// The settings of the base, for a tree that has everything else from the candidate. Those of a CI service do not count.
fn old_settings(
    request: &ProofRequest<'_>,
    changed_outside: &OutsideChanges<'_>,
    old_tests: &TreeComposition,
) -> TreeComposition {
    let is_settings = |path: &&String| is_harness(request, path) && !is_ci_file(path);
    let rewritten = old_tests.rewritten.iter().filter(|file| is_mixed_manifest(&file.path));
    let is_ci = |path: &OsString| path.to_str().is_some_and(is_ci_file);
    let outside = old_tests
        .outside
        .iter()
        .filter(|path| is_harness_outside(changed_outside, path) && !is_ci(path));
    TreeComposition {
        from_tests: old_tests.from_tests.iter().filter(is_settings).cloned().collect(),
        rewritten: rewritten.cloned().collect(),
        outside: outside.cloned().collect(),
        ..TreeComposition::default()
    }
}

fn read_outside_changes<'a>(
    request: &ProofRequest<'a>,
    deadline: &Deadline,
) -> Result<OutsideChanges<'a>, CheckpointError> {
    let below = request.project_below();
    let sides = ComparedCheckpoints { base: request.base, now: request.candidate };
    let changes = if below.as_os_str().is_empty() {
        TreeChanges::default()
    } else {
        TreeChanges::outside(request.repository, sides, request.project, deadline)?
    };
    Ok(OutsideChanges { changes, below, gates: request.gates, rules: request.rules })
}

fn is_harness_outside(outside: &OutsideChanges<'_>, path: &OsString) -> bool {
    path.to_str().is_some_and(|path| outside.is_harness(path))
}

fn is_harness(request: &ProofRequest<'_>, path: &str) -> bool {
    classify_file(path, request.rules).class == FileClass::Harness
}

fn in_work_tree(request: &ProofRequest<'_>, paths: &[String]) -> BTreeSet<OsString> {
    let below = request.project_below();
    paths.iter().map(|path| path_in_work_tree(&below, path)).collect()
}

fn overlay(request: &ProofRequest<'_>, rewritten: &[RewrittenFile]) -> Vec<OverlayFile> {
    let below = request.project_below();
    let file = |file: &RewrittenFile| OverlayFile {
        path: path_in_work_tree(&below, &file.path),
        content: file.text.clone().into_bytes(),
    };
    rewritten.iter().map(file).collect()
}
