//! `ralph explain`: the class of each file, the rule that decides it, and the gates that read it.

use ralph_core::policy::Policy;
use ralph_gates::gates::result_key::compile_globs;
use ralph_proof::{ClassReason, ClassRules, FileClass, classify_file};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub struct FileClassesView<'a> {
    v: u8,
    project: &'a str,
    pub files: Vec<FileClassView<'a>>,
}

#[derive(Debug, Serialize)]
pub struct FileClassView<'a> {
    pub path: String,
    pub class: &'static str,
    /// Whether it comes with the code or with the tests when ralph combines code and tests of different versions.
    pub goes_with: &'static str,
    pub why: String,
    /// The policy key that decided the class; `null` for a built-in rule.
    pub rule: Option<&'static str>,
    /// Gates whose results depend on it.
    pub gates: Vec<&'a str>,
    /// The glob of `[protect] paths` that matches it.
    pub protected_by: Option<&'a str>,
}

pub fn file_classes_view<'a>(
    project: &'a str,
    policy: &'a Policy,
    rules: &ClassRules,
    paths: &[String],
) -> FileClassesView<'a> {
    let matches =
        |glob: &String, path: &str| compile_globs(std::slice::from_ref(glob)).is_match(path);
    let files = paths.iter().map(|path| {
        let found = classify_file(path, rules);
        let readers = policy.gates.iter().filter(|gate| {
            gate.paths.is_empty() || gate.paths.iter().any(|glob| matches(glob, path))
        });
        let protected_by = policy.protect.paths.iter().find(|glob| matches(glob, path));
        FileClassView {
            path: path.clone(),
            class: found.class.name(),
            goes_with: match found.class {
                FileClass::Code => "code",
                FileClass::Tests | FileClass::Harness => "tests",
                FileClass::Environment => "neither",
            },
            why: found.why.to_string(),
            rule: match found.why {
                ClassReason::TestsGlob(_) => Some("tests.paths"),
                ClassReason::HarnessGlob(_) => Some("tests.harness"),
                ClassReason::GateTestsGlob { .. } => Some("gate.tests"),
                ClassReason::GateCommand { .. } => Some("gate.run"),
                ClassReason::Convention(_) | ClassReason::Default => None,
            },
            gates: readers.map(|gate| gate.name.as_str()).collect(),
            protected_by: protected_by.map(String::as_str),
        }
    });
    FileClassesView { v: 1, project, files: files.collect() }
}
