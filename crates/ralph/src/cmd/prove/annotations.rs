//! Annotations of GitHub Actions. Their paths are relative to the repository, not to the project.

use super::LISTED_TESTS;
use ralph_core::proof::BrokenTest;
use ralph_core::test_cases::name_parts;
use ralph_deck::view::proof_report::broken_word;
use ralph_gates::findings::write::{write_github_error, write_github_warning};
use ralph_proof::{HunkResult, HunkTrials, ProofReport, TriedHunk};
use std::collections::BTreeSet;
use std::path::Path;

/// GitHub shows only so many annotations of one kind.
const MAX_ANNOTATIONS: usize = 10;

/// The files that annotations can be about.
pub(super) struct AnnotatedFiles<'a> {
    /// The path of the project in the repository.
    pub(super) below: &'a Path,
    /// The files of both versions, relative to the repository.
    pub(super) paths: &'a BTreeSet<String>,
}

/// One annotation for each old test that does not hold, at its file if the name shows it.
pub(super) fn annotate_broken(report: &ProofReport, files: &AnnotatedFiles<'_>) -> String {
    let listed = report.proof.broken.iter().take(LISTED_TESTS);
    let annotation = |test: &BrokenTest| {
        let how = broken_word(test.how);
        let message = format!("old test {how} on the new code: {} {}", test.test, test.message);
        let file = files.find_test_file(&test.test);
        write_github_error(file.as_deref(), &test.gate, message.trim_end())
    };
    listed.map(annotation).collect()
}

/// One annotation for each hunk that no test notices.
pub(super) fn annotate_hunks(trials: &HunkTrials, files: &AnnotatedFiles<'_>) -> String {
    let unnoticed = trials.tried.iter().filter(|one| one.result == HunkResult::Unnoticed);
    let annotation = |TriedHunk { hunk, .. }: &TriedHunk| {
        let message = "every test still passes without this part of the change";
        let path = files.in_repository(&hunk.path);
        write_github_warning(&path, hunk.lines, "no test notices this", message)
    };
    unnoticed.take(MAX_ANNOTATIONS).map(annotation).collect()
}

impl AnnotatedFiles<'_> {
    fn in_repository(&self, path: &str) -> String {
        self.below.join(path).to_string_lossy().into_owned()
    }

    /// The file that the name of a test contains: `tests/adds.sh`, `cart (tests/cart.rs) > adds`,
    /// `pytest > tests.test_cart > test_total`.
    fn find_test_file(&self, test: &str) -> Option<String> {
        let words = name_parts(test).flat_map(|part| {
            let inner = part.split(['(', ')', ' ']);
            std::iter::once(part).chain(inner)
        });
        words.filter(|word| !word.is_empty()).find_map(|word| {
            let module = format!("{}.py", word.replace('.', "/"));
            let candidates = [word.trim_start_matches("./"), &module];
            let paths = candidates.map(|path| self.in_repository(path));
            paths.into_iter().find(|path| self.paths.contains(path))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_test_is_found_in_its_name() {
        let paths = ["web/tests/adds.sh", "web/tests/test_cart.py", "web/a b.test.js", "adds.sh"];
        let paths: BTreeSet<String> = paths.map(str::to_string).into();
        let files = AnnotatedFiles { below: Path::new("web"), paths: &paths };
        for (test, expected) in [
            ("tests/adds.sh", Some("web/tests/adds.sh")),
            ("./tests/adds.sh", Some("web/tests/adds.sh")),
            ("adds (tests/adds.sh) > zero", Some("web/tests/adds.sh")),
            ("pytest > tests.test_cart > test_total", Some("web/tests/test_cart.py")),
            ("tests/test_cart.py::test_total", Some("web/tests/test_cart.py")),
            ("a b.test.js > adds", Some("web/a b.test.js")),
            ("../adds.sh", None),
            ("adds.sh", None),
            ("large orders get a discount", None),
        ] {
            assert_eq!(files.find_test_file(test).as_deref(), expected, "{test}");
        }
    }
}
