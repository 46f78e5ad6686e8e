//! The class of a file: code, tests, harness or environment. Rules of the policy come before naming conventions.

use crate::naming_conventions;
use ralph_core::policy::Policy;
use ralph_gates::gates::result_key::{PathGlobs, compile_globs};
use std::fmt;

/// What a file counts as when the code and the tests of a tree are taken from different versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileClass {
    /// Everything that no rule matches: sources, documents, data. Lock files are code too, because they pin the
    /// dependencies of the code; an installation that differs from them is found by comparing the environment.
    Code,
    /// Files that contain only tests, and their data. If a golden file counted as code, it could be changed to match a
    /// wrong result, so directories for test data count even if they are not in a test directory.
    Tests,
    /// Files that decide which tests run, how, and whether a failure is reported: settings of test runners, linters
    /// and compilers, scripts of gates, task files, CI, and files that shadow a runner. They go with the tests.
    Harness,
    /// Installed dependencies and build products: both code and tests run on them, so they belong to neither.
    Environment,
}

/// A class and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classification {
    pub class: FileClass,
    pub why: ClassReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassReason {
    /// A glob in `[tests] paths`.
    TestsGlob(String),
    /// A glob in `[tests] harness`.
    HarnessGlob(String),
    /// A glob in `tests` of a gate.
    GateTestsGlob {
        gate: String,
        glob: String,
    },
    /// The command of a gate names the file.
    GateCommand {
        gate: String,
    },
    /// A convention for names, as the second half of the sentence "It is …, because …".
    Convention(&'static str),
    Default,
}

/// A file that the command of a gate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateFile {
    pub gate: String,
    /// Relative to the project.
    pub path: String,
    pub role: GateFileRole,
}

/// What a file is to the gate that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateFileRole {
    /// The gate runs it, or reads its commands from it.
    Judge,
    /// A manifest with this script, which the gate runs.
    Script(String),
    /// It controls which programs a runner starts. It judges nothing by itself.
    Settings,
}

/// The rules of a policy. They come before naming conventions.
#[derive(Clone, Debug)]
pub struct ClassRules {
    globs: Vec<ClassGlob>,
    gate_files: Vec<GateFile>,
}

#[derive(Clone, Debug)]
struct ClassGlob {
    class: FileClass,
    why: ClassReason,
    matcher: PathGlobs,
}

impl FileClass {
    pub fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Tests => "tests",
            Self::Harness => "harness",
            Self::Environment => "environment",
        }
    }
}

impl ClassRules {
    /// `gate_files` are the files that gate commands name. The caller finds them, because that reads the disk.
    pub fn new(policy: &Policy, gate_files: Vec<GateFile>) -> Self {
        let mut globs = Vec::new();
        let mut add = |class, glob: &String, why| {
            let matcher = compile_globs(std::slice::from_ref(glob));
            globs.push(ClassGlob { class, why, matcher });
        };
        for gate in &policy.gates {
            for glob in &gate.tests {
                let (gate, named) = (gate.name.clone(), glob.clone());
                add(FileClass::Tests, glob, ClassReason::GateTestsGlob { gate, glob: named });
            }
        }
        for glob in &policy.tests.paths {
            add(FileClass::Tests, glob, ClassReason::TestsGlob(glob.clone()));
        }
        for glob in &policy.tests.harness {
            add(FileClass::Harness, glob, ClassReason::HarnessGlob(glob.clone()));
        }
        Self { globs, gate_files }
    }

    /// The files and scripts that a gate's command runs, or reads its commands from.
    pub(crate) fn judges_of_gate(&self, gate: &str) -> impl Iterator<Item = &GateFile> {
        let files = self.gate_files.iter().filter(move |file| file.gate == gate);
        files.filter(|file| file.role != GateFileRole::Settings)
    }
}

/// Classifies a file by its path, which is relative to the project and uses `/`.
pub fn classify_file(path: &str, rules: &ClassRules) -> Classification {
    let by_policy = rules.globs.iter().find(|glob| glob.matcher.is_match(path));
    if let Some(ClassGlob { class, why, .. }) = by_policy {
        return Classification { class: *class, why: why.clone() };
    }
    let by_name = naming_conventions::classify_by_name(path);
    let is_separate = by_name.is_some_and(|(class, _)| class != FileClass::Code);
    if let Some(named) = rules.gate_files.iter().find(|file| file.path == path)
        && !is_separate
        && !naming_conventions::is_mixed_manifest(path)
    {
        let why = ClassReason::GateCommand { gate: named.gate.clone() };
        return Classification { class: FileClass::Harness, why };
    }
    match by_name {
        Some((class, why)) => Classification { class, why: ClassReason::Convention(why) },
        None => Classification { class: FileClass::Code, why: ClassReason::Default },
    }
}

impl fmt::Display for ClassReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TestsGlob(glob) => write!(out, "`[tests] paths` contains `{glob}`"),
            Self::HarnessGlob(glob) => write!(out, "`[tests] harness` contains `{glob}`"),
            Self::GateTestsGlob { gate, glob } => {
                write!(out, "`tests` of gate `{gate}` contains `{glob}`")
            }
            Self::GateCommand { gate } => write!(out, "the command of gate `{gate}` names it"),
            Self::Convention(why) => out.write_str(why),
            Self::Default => out.write_str("no other rule applies"),
        }
    }
}

#[cfg(test)]
mod tests;
