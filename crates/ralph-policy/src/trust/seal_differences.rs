//! Compares the sealed files of a run with those that would be sealed now.

use super::{ApprovalDifference, DifferenceKind, ReferencedContent, runner_files};
use ralph_core::policy::ProofMode;
use ralph_core::record::PolicySeal;
use ralph_core::sealed_file::{SealReason, SealedFile};
use std::collections::{BTreeMap, BTreeSet};

/// A sealed file that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealDifference {
    pub name: String,
    pub kind: DifferenceKind,
    /// Why it is sealed; empty if that was not recorded.
    pub reason: String,
    /// Whether an approval covers the file, so that a new one accepts the difference.
    pub is_approvable: bool,
}

impl SealDifference {
    pub(super) fn into_difference(self) -> ApprovalDifference {
        ApprovalDifference { item: format!("`{}`", self.name), kind: self.kind }
    }
}

/// Everything that differs from `then`. A new file counts only if it changes what a sealed one does: a setting of a
/// runner, a program that is found before another, an include of a sealed recipe. A file that the command itself names
/// and that did not exist is part of the work.
pub fn find_seal_differences(then: &[SealedFile], now: &[SealedFile]) -> Vec<SealDifference> {
    let names: BTreeMap<&str, &str> =
        then.iter().map(|file| (file.name.as_str(), file.hash.as_str())).collect();
    let mut found = compare_with(&names, now);
    let current: BTreeSet<&str> = now.iter().map(|file| file.name.as_str()).collect();
    let gone = then.iter().filter(|file| !current.contains(file.name.as_str()));
    found.extend(gone.map(|file| SealDifference {
        name: file.name.clone(),
        kind: DifferenceKind::Removed,
        reason: file.reason(),
        is_approvable: is_approvable(file),
    }));
    found
}

/// Like [`find_seal_differences`], with the content that a person approved.
pub(super) fn find_approval_differences(
    then: &[ReferencedContent],
    now: &[SealedFile],
) -> Vec<SealDifference> {
    let names: BTreeMap<&str, &str> =
        then.iter().map(|file| (file.name.as_str(), file.hash.as_str())).collect();
    let mut found = compare_with(&names, now);
    let gone = then.iter().filter(|file| now.iter().all(|known| known.name != file.name));
    found.extend(gone.map(|file| SealDifference {
        name: file.name.clone(),
        kind: DifferenceKind::Removed,
        reason: String::new(),
        is_approvable: true,
    }));
    found
}

fn compare_with(then: &BTreeMap<&str, &str>, now: &[SealedFile]) -> Vec<SealDifference> {
    let mut found = Vec::new();
    for file in now {
        let kind = match then.get(file.name.as_str()) {
            Some(hash) if *hash == file.hash => continue,
            Some(_) => DifferenceKind::Changed,
            None if may_appear(file, then) => continue,
            None => DifferenceKind::Added,
        };
        let (name, reason) = (file.name.clone(), file.reason());
        let is_approvable = is_approvable(file);
        found.push(SealDifference { name, kind, reason, is_approvable });
    }
    found
}

/// The approval in force may be for another `PATH`, which does not lead to these programs.
fn is_approvable(file: &SealedFile) -> bool {
    file.why != SealReason::SearchPath
}

/// Whether only the set of files that match a pattern of the policy changed, and a proof runs the gate without the new
/// ones. An agent has to be able to add tests. A check that a person typed usually fails at first, so that the old files
/// prove nothing.
pub(super) fn is_proved_pattern<'a>(
    seal: &PolicySeal,
    files: impl Iterator<Item = &'a SealedFile>,
    difference: &SealDifference,
) -> bool {
    let is_proved = seal.policy.verify.proof == ProofMode::Full && seal.base.is_some();
    let mut own = files.filter(|file| file.name == difference.name && file.is_pattern());
    is_proved && own.next().is_some_and(|file| !seal.is_check(&file.gate))
}

/// Whether a file that was not there may be created without changing what a sealed file does.
fn may_appear(file: &SealedFile, then: &BTreeMap<&str, &str>) -> bool {
    match file.why {
        SealReason::Named => true,
        SealReason::Recipe => !runner_files::replaces_recipe(&file.name, then.keys().copied()),
        SealReason::Included | SealReason::Script => !then.contains_key(file.by.as_str()),
        SealReason::Settings | SealReason::SearchPath => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, hash: &str, why: SealReason, by: &str) -> SealedFile {
        SealedFile {
            name: name.to_string(),
            hash: hash.to_string(),
            gate: "tests".to_string(),
            why,
            by: by.to_string(),
        }
    }

    /// R-V1h: a file that did not exist is sealed only if it changes what a sealed one does.
    #[test]
    fn a_new_file_counts_only_if_it_changes_what_a_sealed_one_does() {
        use SealReason::{Included, Named, Recipe, Script, SearchPath, Settings};
        let test = "package.json: scripts.test";
        let then = [
            file("Makefile", "1", Recipe, "make"),
            file("Taskfile.yml", "1", Recipe, "task"),
            file(test, "1", Script, ""),
        ];
        let rows = [
            (file("test_app.py", "1", Named, ""), ""),
            (file("GNUmakefile", "1", Recipe, "make"), "Added"),
            (file("web/GNUmakefile", "1", Recipe, "make"), ""),
            (file("web/Taskfile.yml", "1", Recipe, "task"), "Added"),
            (file("justfile", "1", Recipe, "just"), ""),
            (file("rules.mk", "1", Included, "Makefile"), "Added"),
            (file("more.just", "1", Included, "justfile"), ""),
            (file("package.json: scripts.pretest", "1", Script, test), "Added"),
            (file("package.json: scripts.prelint", "1", Script, "package.json: scripts.lint"), ""),
            (file("package.json: scripts.lint", "1", Script, ""), ""),
            (file(".npmrc", "1", Settings, "npm"), "Added"),
            (file("bin/git", "1", SearchPath, ""), "Added"),
        ];
        for (new, expected) in rows {
            let now = [then.to_vec(), vec![new.clone()]].concat();
            let found = find_seal_differences(&then, &now);
            let kinds: Vec<String> =
                found.iter().map(|difference| format!("{:?}", difference.kind)).collect();
            assert_eq!(kinds.join(" "), expected, "{}", new.name);
        }
        let now = [file("Makefile", "2", Recipe, "make"), then[1].clone()];
        let found = find_seal_differences(&then, &now);
        let shown =
            found.iter().map(|one| format!("{:?} {}: {}\n", one.kind, one.name, one.reason));
        insta::assert_snapshot!(shown.collect::<String>(), @"
        Changed Makefile: `make` of gate tests reads its commands from it
        Removed package.json: scripts.test: gate tests runs it
        ");
    }
}
