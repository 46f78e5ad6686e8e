//! Checks that need only the change itself: forbidden lines, weakened tests, protected files, hidden files.

use std::path::Path;

use ralph_check::added_lines::{self, UserPatterns};
use ralph_check::{MovedLines, find_runner_detection, is_test_file, test_integrity, tool_settings};
use ralph_core::gate::Gate;
use ralph_core::policy::{IntegrityMode, LinePattern, LinePolicy, Policy, ProofMode};
use ralph_core::requirement::{
    EvidenceKind, Finding, FindingLocation, QuotedText, RUNNER_DETECTION_REQUIREMENT, Requirement,
    RequirementFailure, RequirementStage, RequirementStatus, RequirementWeight,
    TEST_CHANGES_REQUIREMENT,
};
use ralph_core::text;
use regex::{Regex, RegexBuilder};

use ralph_gates::gates::result_key::{PathGlobs, compile_globs};
use ralph_git::checkpoint::{CheckpointError, CheckpointRepository};
use ralph_git::git;
use ralph_proof::tree_changes::{ChangedFile, ComparedCheckpoints, FileChangeKind, TreeChanges};
use ralph_proof::{ClassRules, FileClass, classify_file};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileKind};

/// Findings that a copy of the test elsewhere would refute.
const REMOVAL_RULES: [&str; 3] = ["test-removed", "test-file-removed", "test-commented-out"];

/// Size limit for compiled patterns. Enough for any sensible pattern; a larger automaton is a mistake.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// Compares two checkpoints, and reads as much of the unchanged tests as the checks need.
pub fn read_changes(
    policy: &Policy,
    repository: &CheckpointRepository,
    compared: ComparedCheckpoints<'_>,
    project: &Path,
    deadline: &Deadline,
) -> Result<TreeChanges, CheckpointError> {
    let mut changes = TreeChanges::between(repository, compared, project, deadline)?;
    let is_removal = |finding: &Finding| {
        finding.rule.as_deref().is_some_and(|rule| REMOVAL_RULES.contains(&rule))
    };
    if policy.tests.integrity != IntegrityMode::Off
        && find_test_changes(policy, &changes).iter().any(is_removal)
    {
        changes.read_unchanged_tests(repository, compared.now, project, deadline)?;
    }
    Ok(changes)
}

/// The requirements that need only the change itself.
pub fn change_requirements(policy: &Policy, changes: &TreeChanges) -> Vec<Requirement> {
    let mut found = Vec::new();
    found.extend(protected_files_requirement(policy, changes));
    if changes.left_out > 0 {
        let why =
            format!("the change is too large to inspect; files left out: {}", changes.left_out);
        found.push(super::unknown_requirement("the change", &why));
    }
    if changes.missing > 0 {
        let why = format!(
            "the checkpoints are damaged: the contents of {} are missing",
            text::count_noun(changes.missing, "changed file")
        );
        found.push(super::unknown_requirement("checkpoints", &why));
    }
    found.extend(test_integrity_requirements(policy, changes));
    found.extend(line_requirements(policy, changes));
    found.extend(runner_detection_requirement(policy, changes));
    found
}

pub(super) fn find_new_tests(policy: &Policy, changes: &TreeChanges) -> Vec<String> {
    let more = compile_globs(&policy.tests.paths);
    test_integrity::added_test_names(&changes.texts(), &|path| more.is_match(path))
}

/// Files that gates read but the fingerprint does not cover: removed from the tree but still on disk, or symlinks that
/// point outside. Checked at every stop, because the fingerprint does not change with them.
pub(super) fn hidden_files_requirement(project: &Path, elusive: &[String]) -> Requirement {
    let root = git::work_tree_root(project).unwrap_or(project);
    let findings = elusive.iter().filter_map(|name| {
        let path = project.join(name);
        let what = match fs::stat_no_follow(&path)?.kind {
            FileKind::File | FileKind::Other => "is no longer listed by git but still exists",
            FileKind::Symlink if fs::resolve(&path).is_some_and(|end| end.starts_with(root)) => {
                return None;
            }
            FileKind::Symlink => "is a symlink that is broken or points outside the work tree",
            FileKind::Directory => return None,
        };
        Some(finding_in_file(name, "hidden", what.to_string()))
    });
    let failure =
        counted_failure(findings.collect(), "file", "that gates read and ralph cannot see");
    let next = "Make the files part of the work tree again, or remove them";
    guard_requirement("nothing hidden", RequirementStage::Correctness, failure, next)
}

fn finding_in_file(file: &str, rule: &str, message: String) -> Finding {
    Finding {
        place: Some(FindingLocation { file: file.to_string(), line: None, column: None }),
        rule: Some(rule.to_string()),
        ..Finding::new(message)
    }
}

fn protected_files_requirement(policy: &Policy, changes: &TreeChanges) -> Option<Requirement> {
    if policy.protect.paths.is_empty() {
        return None;
    }
    let globs = compile_globs(&policy.protect.paths);
    let touched: Vec<&ChangedFile> =
        changes.all.iter().filter(|change| globs.is_match(&change.path)).collect();
    let findings: Vec<Finding> = touched
        .iter()
        .map(|change| {
            let what = match change.kind {
                FileChangeKind::Added => "was added",
                FileChangeKind::Modified => "was changed",
                FileChangeKind::Deleted => "was deleted",
            };
            finding_in_file(&change.path, "protected", format!("is protected, but {what}"))
        })
        .collect();
    let failure = RequirementFailure {
        quote: touched
            .first()
            .and_then(|change| changes.patch(&change.path))
            .map(|text| QuotedText { label: "the difference".to_string(), text }),
        ..counted_failure(findings, "protected file", "touched")
    };
    let next = "Restore the protected files and do the work without touching them";
    Some(guard_requirement("protected files", RequirementStage::Correctness, failure, next))
}

fn test_integrity_requirements(policy: &Policy, changes: &TreeChanges) -> Vec<Requirement> {
    if policy.tests.integrity == IntegrityMode::Off {
        return Vec::new();
    }
    let more = compile_globs(&policy.tests.paths);
    let mut findings = find_test_changes(policy, changes);
    findings.extend(tool_settings::check_settings(&changes.texts()));
    let unreadable = changes.all.iter().filter(|change| {
        change.is_unreadable() && (more.is_match(&change.path) || is_test_file(&change.path))
    });
    findings.extend(unreadable.map(|change| {
        finding_in_file(
            &change.path,
            "test-unreadable",
            "is a test that can no longer be read as text".to_string(),
        )
    }));
    let is_proved = is_covered_by_proof(policy);
    let (weaker, doubtful): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| !is_proved && test_integrity::is_certain(finding));
    let mut kept = Vec::new();
    if !is_proved {
        let failure = counted_failure(weaker, "way", "in which the tests got weaker");
        let next = "Restore the tests to their original strength and make the code pass them";
        let mut integrity =
            guard_requirement("test integrity", RequirementStage::Correctness, failure, next);
        if policy.tests.integrity == IntegrityMode::Advise {
            integrity.weight = RequirementWeight::Advisory;
        }
        kept.push(integrity);
    }
    let notes = counted_failure(doubtful, "change", "to tests that a person may want to review");
    kept.extend(advisory_requirement(
        TEST_CHANGES_REQUIREMENT,
        RequirementStage::Correctness,
        notes,
    ));
    kept
}

fn find_test_changes(policy: &Policy, changes: &TreeChanges) -> Vec<Finding> {
    let more = compile_globs(&policy.tests.paths);
    test_integrity::check_tests(&changes.texts_with_unchanged(), &|path| more.is_match(path))
}

/// Whether a proof decides about the tests of every required gate: it runs the tests of the base, so a rule over their
/// text adds nothing but false alarms.
fn is_covered_by_proof(policy: &Policy) -> bool {
    let mut required = policy.gates.iter().filter(|gate| is_required_here(gate)).peekable();
    policy.verify.proof == ProofMode::Full
        && required.peek().is_some()
        && required.all(|gate| gate.proof)
}

/// Whether a gate is required and runs on this machine. The checks of a CI provider are never part of a proof.
fn is_required_here(gate: &Gate) -> bool {
    gate.weight == RequirementWeight::Required && !gate.is_ci()
}

fn line_requirements(policy: &Policy, changes: &TreeChanges) -> Vec<Requirement> {
    let LinePolicy { forbid, patterns, exclude } = &policy.lines;
    if forbid.is_empty() && patterns.is_empty() {
        return Vec::new();
    }
    let excluded = compile_globs(exclude);
    let own = match CompiledLinePatterns::new(patterns) {
        Ok(own) => own,
        Err(why) => return vec![super::unknown_requirement(super::LINES_REQUIREMENT, &why)],
    };
    let (mut findings, mut allowed) = (Vec::new(), Vec::new());
    let texts = changes.texts();
    let moved = MovedLines::new(&texts);
    for text in texts.iter().filter(|text| !excluded.is_match(text.path)) {
        let checked = added_lines::check_added_lines(&policy.lines, text, &moved, &own);
        findings.extend(checked.findings);
        allowed.extend(checked.allowed.into_iter().map(|allowed| Finding {
            message: format!("{}, allowed because {}", allowed.finding.message, allowed.reason),
            ..allowed.finding
        }));
    }
    let failure = counted_failure(findings, "added line", "with forbidden content");
    let next = "Finish or remove the forbidden parts of the added lines";
    let mut kept =
        vec![guard_requirement(super::LINES_REQUIREMENT, RequirementStage::Quality, failure, next)];
    kept.extend(advisory_requirement(
        "allowed lines",
        RequirementStage::Quality,
        counted_failure(allowed, "added line", "allowed by a comment"),
    ));
    kept
}

/// Tests cannot show what code does that detects them, so the report names the lines. Never holds.
fn runner_detection_requirement(policy: &Policy, changes: &TreeChanges) -> Option<Requirement> {
    let rules = ClassRules::new(policy, Vec::new());
    let texts = changes.texts();
    let moved = MovedLines::new(&texts);
    let code =
        texts.iter().filter(|text| classify_file(text.path, &rules).class == FileClass::Code);
    let findings = code.flat_map(|text| find_runner_detection(text, &moved)).collect();
    let failure = counted_failure(findings, "added line", "of code that detects a test runner");
    advisory_requirement(RUNNER_DETECTION_REQUIREMENT, RequirementStage::Correctness, failure)
}

/// An advisory requirement: it is reported, but never holds the agent. `None` if there is nothing to report.
fn advisory_requirement(
    name: &str,
    stage: RequirementStage,
    failure: RequirementFailure,
) -> Option<Requirement> {
    let advisory = Requirement {
        weight: RequirementWeight::Advisory,
        ..guard_requirement(name, stage, failure, "")
    };
    advisory.is_unmet().then_some(advisory)
}

fn counted_failure(findings: Vec<Finding>, noun: &str, what: &str) -> RequirementFailure {
    let summary = match findings.len() {
        1 => format!("1 {noun} {what}"),
        count => format!("{count} {noun}s {what}"),
    };
    RequirementFailure { findings, ..RequirementFailure::new(summary) }
}

/// A requirement that is met if the failure has no findings.
pub(super) fn guard_requirement(
    name: &str,
    stage: RequirementStage,
    failure: RequirementFailure,
    next: &str,
) -> Requirement {
    let standing = if failure.findings.is_empty() {
        RequirementStatus::Met(EvidenceKind::Measured)
    } else {
        RequirementStatus::Unmet(failure)
    };
    let next = if matches!(standing, RequirementStatus::Met(_)) {
        String::new()
    } else {
        next.to_string()
    };
    Requirement {
        name: name.to_string(),
        stage,
        status: standing,
        weight: RequirementWeight::Required,
        next,
    }
}

/// The user's patterns, compiled, in the order of the policy.
#[derive(Debug)]
struct CompiledLinePatterns(Vec<(Regex, PathGlobs, bool)>);

impl CompiledLinePatterns {
    /// The error names the first pattern that does not compile. ralph does not load a policy with such a pattern, but
    /// another version may have sealed one.
    fn new(patterns: &[LinePattern]) -> Result<Self, String> {
        let compiled = patterns.iter().map(|pattern| {
            let regex = RegexBuilder::new(&pattern.pattern).size_limit(MAX_PATTERN_BYTES).build();
            let regex = regex.map_err(|_| {
                format!("pattern `{}` cannot be compiled", text::clean_line(&pattern.name, 80))
            })?;
            Ok((regex, compile_globs(&pattern.paths), pattern.paths.is_empty()))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }
}

impl UserPatterns for CompiledLinePatterns {
    fn matches(&self, line: &str, path: &str) -> Vec<(usize, usize)> {
        let applies =
            |globs: &PathGlobs, everywhere: bool| everywhere || globs.is_match(Path::new(path));
        self.0
            .iter()
            .enumerate()
            .filter(|(_, (_, globs, everywhere))| applies(globs, *everywhere))
            .filter_map(|(at, (regex, ..))| Some((at, regex.find(line)?.start())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(requirements: &[Requirement]) -> Vec<(&str, &str)> {
        requirements
            .iter()
            .filter_map(|one| match &one.status {
                RequirementStatus::Unknown(why) => Some((&*one.name, &**why)),
                RequirementStatus::Met(_)
                | RequirementStatus::Unmet(_)
                | RequirementStatus::Pending(_) => None,
            })
            .collect()
    }

    /// R-S5a: a check that cannot examine everything does not pass.
    #[test]
    fn damaged_checkpoints_and_patterns_are_unknown() {
        let mut policy = Policy::default();
        let whole = TreeChanges::default();
        assert_eq!(unknown(&change_requirements(&policy, &whole)), []);
        let damaged = TreeChanges { missing: 2, ..TreeChanges::default() };
        assert_eq!(
            unknown(&change_requirements(&policy, &damaged)),
            [(
                "checkpoints",
                "the checkpoints are damaged: the contents of 2 changed files are missing"
            )]
        );
        policy.lines.patterns = vec![LinePattern {
            name: "no-sleep".to_string(),
            pattern: "sleep(".to_string(),
            message: "do not sleep".to_string(),
            paths: Vec::new(),
        }];
        assert_eq!(
            unknown(&change_requirements(&policy, &whole)),
            [(super::super::LINES_REQUIREMENT, "pattern `no-sleep` cannot be compiled")]
        );
    }
}
