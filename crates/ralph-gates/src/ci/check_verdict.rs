//! Which checks of a commit count, and what they amount to together. Pure.

use ralph_core::text;
use ralph_core::wildcard::matches_wildcard;

use super::check_state::CiCheckState;

const MAX_NAME_CHARS: usize = 120;
/// How many names a verdict lists.
const MAX_LISTED: usize = 20;

/// One check of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CiCheck {
    /// Cleaned: foreign text.
    pub(super) name: String,
    pub(super) state: CiCheckState,
    pub(super) kind: CiCheckKind,
    /// The provider lets the commit pass without it.
    pub(super) is_optional: bool,
    pub(super) log: CheckLog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CiCheckKind {
    /// A job that the provider or an app of it ran.
    Job,
    /// A status that everyone with write access can set, the agent among them. It can block a pass but not
    /// provide one.
    Status,
    /// A group of jobs some of which may not have appeared yet.
    Workflow,
}

/// Where the log of a check is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckLog {
    None,
    /// The id of a job at the provider.
    Job(u64),
    /// The id of a check run that another service reported.
    CheckRun(u64),
    /// The answer of a command or an address contains it.
    Text(String),
}

impl CiCheck {
    pub(super) fn new(name: &str, state: CiCheckState, kind: CiCheckKind) -> Self {
        // A hidden character makes another name, which must not pass for the one that the policy requires.
        let name = text::clean_line(&text::reveal(name), MAX_NAME_CHARS);
        let name = if name.is_empty() { "unnamed check".to_string() } else { name };
        Self { name, state, kind, is_optional: false, log: CheckLog::None }
    }
}

/// The checks that have to pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequiredChecks<'a> {
    /// Patterns that the policy names.
    pub(super) named: &'a [String],
    /// Names that the provider marks as required.
    pub(super) marked: &'a [String],
    /// Whether a status counts as a pass.
    pub(super) statuses: bool,
}

/// What the checks of a commit amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CiVerdict {
    Passed(Vec<String>),
    /// Everything that has appeared passed, but nothing says which checks have to appear, or only a pattern does.
    PassedSoFar {
        passed: Vec<String>,
        /// The name of every check, sorted; a name that occurs twice is in it twice.
        appeared: Vec<String>,
    },
    /// Positions of the failed checks.
    Failed(Vec<usize>),
    Pending(Vec<String>),
    /// Names that no check has. They may appear later.
    Missing(Vec<String>),
    /// Everything has ended, and there is still no pass: why.
    NoResult(String),
}

/// Judges the checks as far as they have appeared.
pub(super) fn judge_checks(all: &[CiCheck], required: &RequiredChecks<'_>) -> CiVerdict {
    let has_patterns = !required.named.is_empty();
    let patterns = if has_patterns { required.named } else { required.marked };
    let matches = |pattern: &str, check: &CiCheck| {
        let is_meant = if has_patterns {
            matches_wildcard(pattern.as_bytes(), check.name.as_bytes())
        } else {
            // A name that the provider requires may contain a star.
            pattern == check.name
        };
        check.kind != CiCheckKind::Workflow && is_meant
    };
    let counts = |check: &CiCheck| {
        if patterns.is_empty() {
            !check.is_optional
        } else {
            patterns.iter().any(|pattern| matches(pattern, check))
        }
    };
    let counted = || all.iter().filter(|check| counts(check));
    let failed: Vec<usize> = all
        .iter()
        .enumerate()
        .filter(|(_, check)| counts(check) && check.state == CiCheckState::Failed)
        .map(|(at, _)| at)
        .collect();
    if !failed.is_empty() {
        return CiVerdict::Failed(failed);
    }
    let pending = list_names(counted().filter(|check| check.state == CiCheckState::Pending));
    if !pending.is_empty() {
        return CiVerdict::Pending(pending);
    }
    let missing: Vec<String> = patterns
        .iter()
        .filter(|pattern| !all.iter().any(|check| matches(pattern, check)))
        .map(|pattern| text::clean_line(pattern, MAX_NAME_CHARS))
        .take(MAX_LISTED)
        .collect();
    if !missing.is_empty() {
        let open = open_workflows(all);
        return if open.is_empty() {
            CiVerdict::Missing(missing)
        } else {
            CiVerdict::Pending(open)
        };
    }
    if required.has_wildcard() && !open_workflows(all).is_empty() {
        return CiVerdict::Pending(open_workflows(all));
    }
    let passed = list_names(counted().filter(|check| required.accepts(check)));
    if let Some(why) = patterns.iter().find_map(|pattern| {
        let members: Vec<&CiCheck> = all.iter().filter(|check| matches(pattern, check)).collect();
        describe_unproved(pattern, &members, required)
    }) {
        return CiVerdict::NoResult(why);
    }
    match (passed.is_empty(), counted().next().is_some()) {
        (false, _) if patterns.is_empty() || required.has_wildcard() => {
            let mut appeared: Vec<String> = all.iter().map(|check| check.name.clone()).collect();
            appeared.sort();
            CiVerdict::PassedSoFar { passed, appeared }
        }
        (false, _) => CiVerdict::Passed(passed),
        (true, true) => CiVerdict::NoResult(
            "no check ran for this commit: all were skipped, or are commit statuses (`statuses = true` accepts them)"
                .to_string(),
        ),
        (true, false) => CiVerdict::Missing(Vec::new()),
    }
}

impl RequiredChecks<'_> {
    /// Whether a check that has not appeared yet can match: a pattern names no certain number of checks.
    fn has_wildcard(&self) -> bool {
        self.named.iter().any(|pattern| pattern.contains(['*', '?']))
    }

    /// Whether this check counts as a pass.
    fn accepts(&self, check: &CiCheck) -> bool {
        let is_evidence = match check.kind {
            CiCheckKind::Job => true,
            CiCheckKind::Status => self.statuses,
            CiCheckKind::Workflow => false,
        };
        check.state == CiCheckState::Passed && is_evidence
    }
}

/// Why no check of this name counts as a pass. A check that the policy names must have run; for checks that the provider
/// requires, skipped is enough.
fn describe_unproved(
    pattern: &str,
    members: &[&CiCheck],
    required: &RequiredChecks<'_>,
) -> Option<String> {
    let is_lenient = required.named.is_empty();
    let is_skipped = |check: &CiCheck| check.state == CiCheckState::Skipped;
    if members.iter().any(|check| required.accepts(check) || is_lenient && is_skipped(check)) {
        return None;
    }
    let name = text::clean_line(pattern, MAX_NAME_CHARS);
    Some(if members.iter().all(|check| is_skipped(check)) {
        format!("`{name}` was skipped")
    } else {
        format!(
            "`{name}` is a status that anyone with write access can set; `statuses = true` accepts it"
        )
    })
}

/// Workflows that have not ended: a job that waits for another one has not appeared yet.
fn open_workflows(all: &[CiCheck]) -> Vec<String> {
    let is_open = |check: &&CiCheck| {
        check.kind == CiCheckKind::Workflow && check.state == CiCheckState::Pending
    };
    list_names(all.iter().filter(is_open))
}

fn list_names<'a>(checks: impl Iterator<Item = &'a CiCheck>) -> Vec<String> {
    let mut names: Vec<String> = checks.map(|check| check.name.clone()).collect();
    names.sort();
    names.dedup();
    names.truncate(MAX_LISTED);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `build+` passed, `test-` failed, `lint?` pending, `docs~` skipped; a trailing `s` is a status, `w` a workflow, `o`
    /// optional.
    fn parse_checks(text: &str) -> Vec<CiCheck> {
        text.split_whitespace()
            .map(|word| {
                let at = word.find(['+', '-', '?', '~']).unwrap();
                let (name, rest) = word.split_at(at);
                let state = match &rest[..1] {
                    "+" => CiCheckState::Passed,
                    "-" => CiCheckState::Failed,
                    "?" => CiCheckState::Pending,
                    _ => CiCheckState::Skipped,
                };
                let kind = match &rest[1..] {
                    "s" => CiCheckKind::Status,
                    "w" => CiCheckKind::Workflow,
                    _ => CiCheckKind::Job,
                };
                CiCheck { is_optional: &rest[1..] == "o", ..CiCheck::new(name, state, kind) }
            })
            .collect()
    }

    fn verdict(checks: &str, wanted: &str, marked: &str, statuses: bool) -> String {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (wanted, marked) = (words(wanted), words(marked));
        let all = parse_checks(checks);
        let required = RequiredChecks { named: &wanted, marked: &marked, statuses };
        match judge_checks(&all, &required) {
            CiVerdict::Passed(names) => format!("passed {}", names.join(" ")),
            CiVerdict::PassedSoFar { passed, appeared } => {
                format!("so far {} of {}", passed.join(" "), appeared.join(" "))
            }
            CiVerdict::Failed(at) => {
                let names: Vec<_> = at.iter().map(|at| all[*at].name.as_str()).collect();
                format!("failed {}", names.join(" "))
            }
            CiVerdict::Pending(names) => format!("pending {}", names.join(" ")),
            CiVerdict::Missing(names) => format!("missing {}", names.join(" ")),
            CiVerdict::NoResult(why) => format!("no result: {why}"),
        }
    }

    /// R-L7a: every state of the checks has one verdict, and only what ran and succeeded is a pass.
    #[test]
    fn each_set_of_checks_has_one_verdict() {
        let skipped = "no result: `build` was skipped";
        let status = "no result: `build` is a status that anyone with write access can set; `statuses = true` accepts it";
        let none = "no result: no check ran for this commit: all were skipped, or are commit statuses (`statuses = true` accepts them)";
        for (checks, named, marked, expected) in [
            ("", "", "", "missing "),
            ("", "build", "", "missing build"),
            ("build+ test+", "", "", "so far build test of build test"),
            ("build+ build+ ci+w", "", "", "so far build of build build ci"),
            ("build+ test-", "", "", "failed test"),
            ("build? test-", "", "", "failed test"),
            ("build+ test?", "", "", "pending test"),
            ("build+ test~", "", "", "so far build of build test"),
            ("build~ test~", "", "", none),
            ("build+ nightly-o", "", "", "so far build of build nightly"),
            ("build+ nightly?o", "", "", "so far build of build nightly"),
            // Named checks only.
            ("build+ test-", "build", "", "passed build"),
            ("build+ test+", "build lint", "", "missing lint"),
            ("build+ ci?w", "build lint", "", "pending ci"),
            ("build~", "build", "", skipped),
            ("build~ build+", "build", "", "passed build"),
            ("test1+ test2-", "test*", "", "failed test2"),
            // A pattern does not say which checks will appear.
            ("build+ test1+", "*", "", "so far build test1 of build test1"),
            ("build+ test1+", "build test*", "", "so far build test1 of build test1"),
            ("build+ test1+", "test?", "", "so far test1 of build test1"),
            ("test1+ ci?w", "test*", "", "pending ci"),
            ("test1+ test2? ci?w", "test*", "", "pending test2"),
            ("test1+ test2-", "*", "", "failed test2"),
            ("build+ ci?w", "build", "", "passed build"),
            ("build+ ci?w", "", "", "pending ci"),
            ("build- build+", "build", "", "failed build"),
            // A workflow that failed counts where all checks do.
            ("build+ ci-w", "", "", "failed ci"),
            ("build+ ci-w", "build", "", "passed build"),
            ("build+ ci-w", "", "build", "passed build"),
            // The name of a workflow is not the name of a check.
            ("ci+w", "ci", "", "missing ci"),
            // Those that the provider requires. It accepts a skipped one.
            ("build+ test-", "", "build", "passed build"),
            ("build~ test+", "", "build test", "passed test"),
            ("build~", "", "build", none),
            ("build+", "", "build test", "missing test"),
            ("t(3.*)- t(3.1)+", "", "t(3.*)", "failed t(3.*)"),
            ("t(3.1)+", "", "t(3.*)", "missing t(3.*)"),
            // A status can block a pass but not provide one.
            ("build+s", "build", "", status),
            ("build-s build+", "build", "", "failed build"),
            ("build?s build+", "build", "", "pending build"),
            ("build+s", "", "", none),
        ] {
            assert_eq!(
                verdict(checks, named, marked, false),
                expected,
                "{checks} | {named} | {marked}"
            );
        }
        assert_eq!(verdict("build+s", "build", "", true), "passed build");
        assert_eq!(verdict("build+s", "", "", true), "so far build of build");
    }

    #[test]
    fn hidden_characters_of_a_name_are_shown() {
        let check = CiCheck::new("bu\u{1b}[31mild\nx", CiCheckState::Passed, CiCheckKind::Job);
        assert_eq!(check.name, r"bu\u{1b}[31mild x");
        let check = CiCheck::new("bu\u{200b}ild", CiCheckState::Passed, CiCheckKind::Job);
        assert_eq!(check.name, r"bu\u{200b}ild");
        let check = CiCheck::new("", CiCheckState::Passed, CiCheckKind::Job);
        assert_eq!(check.name, "unnamed check");
        assert!(
            CiCheck::new(&"x".repeat(500), CiCheckState::Passed, CiCheckKind::Job)
                .name
                .chars()
                .count()
                <= 120
        );
    }
}
