//! The commits that checks hold, and how many of 100 they are.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A check that is not met by a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckFindings {
    pub(crate) check: String,
    /// Otherwise it is only reported.
    pub(crate) is_hold: bool,
    pub(crate) findings: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct JudgedCommit {
    pub(crate) id: String,
    pub(crate) title: String,
    /// Where a proof runs the tests of the base.
    pub(crate) with_proof: Vec<CheckFindings>,
    pub(crate) without_proof: Vec<CheckFindings>,
}

#[derive(Debug, Default)]
pub(crate) struct HistoryFigures {
    pub(crate) commits: Vec<JudgedCommit>,
}

/// Files that a person protected, so that every change to them holds by intention.
const PROTECTED: &str = "protected files";

impl HistoryFigures {
    pub(crate) fn merge(all: Vec<Self>) -> Self {
        Self { commits: all.into_iter().flat_map(|one| one.commits).collect() }
    }

    /// Per check, how many commits it concerns, with a proof and without.
    fn counts(&self) -> BTreeMap<(bool, &str), (usize, usize)> {
        let mut counts: BTreeMap<(bool, &str), (usize, usize)> = BTreeMap::new();
        for commit in &self.commits {
            for one in &commit.with_proof {
                counts.entry((!one.is_hold, &one.check)).or_default().0 += 1;
            }
            for one in &commit.without_proof {
                counts.entry((!one.is_hold, &one.check)).or_default().1 += 1;
            }
        }
        counts
    }

    /// How many commits are held by anything but protected files.
    fn held_apart_from_protection(&self) -> (usize, usize) {
        let is_held =
            |all: &[CheckFindings]| all.iter().any(|one| one.is_hold && one.check != PROTECTED);
        let count = |side: fn(&JudgedCommit) -> &[CheckFindings]| {
            self.commits.iter().filter(|commit| is_held(side(commit))).count()
        };
        (count(|commit| &commit.with_proof), count(|commit| &commit.without_proof))
    }

    pub(crate) fn table(&self) -> String {
        let all = self.commits.len();
        let share = |count: usize| format!("{:.2}", percent(count, all));
        let heading = ("with proof", "without proof");
        let mut out = format!("{all} commits, held per 100\n");
        let _ = writeln!(out, "{:<34}  {:>10}  {:>13}", "check", heading.0, heading.1);
        let mut row = |name: &str, (with, without): (usize, usize)| {
            let (with, without) = (share(with), share(without));
            let _ = writeln!(out, "{name:<34}  {with:>10}  {without:>13}");
        };
        for ((is_report, check), counts) in self.counts() {
            let name = if is_report { format!("{check} (reported)") } else { check.to_string() };
            row(&name, counts);
        }
        row("any, apart from protected files", self.held_apart_from_protection());
        out
    }

    /// Every held commit with its findings, so that a reader can judge them.
    pub(crate) fn describe_holds(&self) -> String {
        let mut out = String::new();
        for commit in &self.commits {
            let held = commit.without_proof.iter().filter(|one| one.is_hold);
            for one in held.filter(|one| one.check != PROTECTED) {
                let id = commit.id.get(..12).unwrap_or(&commit.id);
                let _ = writeln!(out, "{id} {}: {}", one.check, commit.title);
                for finding in &one.findings {
                    let _ = writeln!(out, "    {finding}");
                }
            }
        }
        out
    }

    pub(crate) fn to_json(&self, repository: &str) -> Value {
        let holds = |all: &[CheckFindings]| -> Value {
            let held = all.iter().map(
                |one| json!({ "check": one.check, "hold": one.is_hold, "findings": one.findings }),
            );
            held.collect()
        };
        let commits = self.commits.iter().map(|commit| {
            json!({
                "commit": commit.id,
                "title": commit.title,
                "with_proof": holds(&commit.with_proof),
                "without_proof": holds(&commit.without_proof),
            })
        });
        let with_findings = commits.filter(|commit| {
            [&commit["with_proof"], &commit["without_proof"]]
                .iter()
                .any(|held| held.as_array().is_some_and(|held| !held.is_empty()))
        });
        json!({
            "repository": repository,
            "commits": self.commits.len(),
            "judged": with_findings.collect::<Vec<_>>(),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "no history has 2^52 commits")]
fn percent(count: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { count as f64 * 100.0 / all as f64 }
}
