//! Checks that need only the change itself: forbidden lines, weakened tests, protected files, hidden files.

use std::path::Path;

use globset::GlobSet;
use ralph_check::lines::{self, UserPatterns};
use ralph_check::{integrity, is_test_file, settings};
use ralph_core::policy::{Guard, LinePattern, Lines, Policy};
use ralph_core::requirement::{
    Evidence, Failure, Finding, Place, Quote, Requirement, Severity, Stage, Standing, Weight,
};
use regex::{Regex, RegexBuilder};

use super::changes::{Change, Changes, Touched};
use ralph_gates::gates::key::globs_of;
use ralph_git::git;
use ralph_sys::fs::{self, Kind};

/// Size limit for compiled patterns. Enough for any sensible pattern; a larger automaton is a mistake.
const PATTERN_BYTES: usize = 1024 * 1024;

pub(super) fn requirements(policy: &Policy, changes: &Changes) -> Vec<Requirement> {
    let mut found = Vec::new();
    found.extend(protected(policy, changes));
    if changes.left_out > 0 {
        let why =
            format!("the change is too large to inspect; files left out: {}", changes.left_out);
        found.push(super::untold("the change", &why));
    }
    found.extend(tests(policy, changes));
    found.extend(forbidden(policy, changes));
    found
}

pub(super) fn new_tests(policy: &Policy, changes: &Changes) -> Vec<String> {
    let more = globs_of(&policy.tests.paths);
    integrity::added(&changes.texts(), &|path| more.is_match(path))
}

/// Files that gates read but the fingerprint does not cover: removed from the tree but still on disk, or symlinks that
/// point outside. Checked at every stop, because the fingerprint does not change with them.
pub(super) fn nothing_hidden(project: &Path, elusive: &[String]) -> Requirement {
    let root = git::root(project).unwrap_or(project);
    let findings = elusive.iter().filter_map(|name| {
        let path = project.join(name);
        let what = match fs::stat_link(&path)?.kind {
            Kind::File | Kind::Other => "is no longer listed by git but still exists",
            Kind::Symlink if fs::resolve(&path).is_some_and(|end| end.starts_with(root)) => {
                return None;
            }
            Kind::Symlink => "is a symlink that is broken or points outside the work tree",
            Kind::Directory => return None,
        };
        Some(at(name, "hidden", what.to_string()))
    });
    let failure = counted(findings.collect(), "file", "that gates read and ralph cannot see");
    let next = "Make the files part of the work tree again, or remove them";
    guarded("nothing hidden", Stage::Correctness, failure, next)
}

fn at(file: &str, rule: &str, message: String) -> Finding {
    Finding {
        place: Some(Place { file: file.to_string(), line: None, column: None }),
        rule: Some(rule.to_string()),
        ..Finding::new(message)
    }
}

fn protected(policy: &Policy, changes: &Changes) -> Option<Requirement> {
    if policy.protect.paths.is_empty() {
        return None;
    }
    let globs = globs_of(&policy.protect.paths);
    let touched: Vec<&Change> =
        changes.all.iter().filter(|change| globs.is_match(&change.path)).collect();
    let findings: Vec<Finding> = touched
        .iter()
        .map(|change| {
            let what = match change.touched {
                Touched::Added => "was added",
                Touched::Modified => "was changed",
                Touched::Deleted => "was deleted",
            };
            at(&change.path, "protected", format!("is protected, but {what}"))
        })
        .collect();
    let failure = Failure {
        quote: touched
            .first()
            .and_then(|change| changes.patch(&change.path))
            .map(|text| Quote { label: "the difference".to_string(), text }),
        ..counted(findings, "protected file", "touched")
    };
    let next = "Restore the protected files and do the work without touching them";
    Some(guarded("protected files", Stage::Correctness, failure, next))
}

fn tests(policy: &Policy, changes: &Changes) -> Vec<Requirement> {
    if policy.tests.integrity == Guard::Off {
        return Vec::new();
    }
    let more = globs_of(&policy.tests.paths);
    let texts = changes.texts();
    let mut findings = integrity::check(&texts, &|path| more.is_match(path));
    findings.extend(settings::check(&texts));
    let unreadable = changes.all.iter().filter(|change| {
        change.is_unreadable() && (more.is_match(&change.path) || is_test_file(&change.path))
    });
    findings.extend(unreadable.map(|change| {
        at(
            &change.path,
            "test-unreadable",
            "is a test that can no longer be read as text".to_string(),
        )
    }));
    let (weaker, doubtful): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    let failure = counted(weaker, "way", "in which the tests got weaker");
    let next = "Restore the tests to their original strength and make the code pass them";
    let mut integrity = guarded("test integrity", Stage::Correctness, failure, next);
    if policy.tests.integrity == Guard::Advise {
        integrity.weight = Weight::Advisory;
    }
    let notes = counted(doubtful, "change", "to tests that a person may want to review");
    let mut kept = vec![integrity];
    kept.extend(noted("test changes", Stage::Correctness, notes));
    kept
}

fn forbidden(policy: &Policy, changes: &Changes) -> Vec<Requirement> {
    let Lines { forbid, patterns, exclude } = &policy.lines;
    if forbid.is_empty() && patterns.is_empty() {
        return Vec::new();
    }
    let excluded = globs_of(exclude);
    let own = Patterns::new(patterns);
    let (mut findings, mut allowed) = (Vec::new(), Vec::new());
    for text in changes.texts().iter().filter(|text| !excluded.is_match(text.path)) {
        let checked = lines::check(&policy.lines, text, &own);
        findings.extend(checked.findings);
        allowed.extend(checked.allowed.into_iter().map(|allowed| Finding {
            message: format!("{}, allowed because {}", allowed.finding.message, allowed.reason),
            ..allowed.finding
        }));
    }
    let failure = counted(findings, "added line", "with forbidden content");
    let next = "Finish or remove the forbidden parts of the added lines";
    let mut kept = vec![guarded(super::LINES, Stage::Quality, failure, next)];
    kept.extend(noted(
        "allowed lines",
        Stage::Quality,
        counted(allowed, "added line", "allowed by a comment"),
    ));
    kept
}

/// An advisory requirement: it is reported, but never holds the agent. `None` if there is nothing to report.
fn noted(name: &str, stage: Stage, failure: Failure) -> Option<Requirement> {
    let advisory = Requirement { weight: Weight::Advisory, ..guarded(name, stage, failure, "") };
    advisory.is_unmet().then_some(advisory)
}

fn counted(findings: Vec<Finding>, noun: &str, what: &str) -> Failure {
    let summary = match findings.len() {
        1 => format!("1 {noun} {what}"),
        count => format!("{count} {noun}s {what}"),
    };
    Failure { findings, ..Failure::new(summary) }
}

/// A requirement that is met if the failure has no findings.
pub(super) fn guarded(name: &str, stage: Stage, failure: Failure, next: &str) -> Requirement {
    let standing = if failure.findings.is_empty() {
        Standing::Met(Evidence::Measured)
    } else {
        Standing::Unmet(failure)
    };
    let next = if matches!(standing, Standing::Met(_)) { String::new() } else { next.to_string() };
    Requirement { name: name.to_string(), stage, standing, weight: Weight::Required, next }
}

/// Compiled user patterns. Patterns that do not compile are rejected when the policy is loaded.
struct Patterns(Vec<(Regex, GlobSet, bool)>);

impl Patterns {
    fn new(patterns: &[LinePattern]) -> Self {
        let compiled = patterns.iter().map(|pattern| {
            let regex = RegexBuilder::new(&pattern.pattern).size_limit(PATTERN_BYTES).build();
            // Keeps its position with a pattern that never matches: the index of a pattern is its identity.
            let regex = regex.or_else(|_| Regex::new("[^\\s\\S]")).ok()?;
            Some((regex, globs_of(&pattern.paths), pattern.paths.is_empty()))
        });
        Self(compiled.flatten().collect())
    }
}

impl UserPatterns for Patterns {
    fn matches(&self, line: &str, path: &str) -> Vec<(usize, usize)> {
        let applies =
            |globs: &GlobSet, everywhere: bool| everywhere || globs.is_match(Path::new(path));
        self.0
            .iter()
            .enumerate()
            .filter(|(_, (_, globs, everywhere))| applies(globs, *everywhere))
            .filter_map(|(at, (regex, ..))| Some((at, regex.find(line)?.start())))
            .collect()
    }
}
