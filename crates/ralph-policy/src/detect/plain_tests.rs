//! Tests of projects without a manifest: Bats files, Python tests and shell scripts. Proposed only if nothing else runs
//! tests at the root.

use std::ffi::OsStr;
use std::path::Path;

use ralph_core::gate::ReportFormat;

use super::ToolLookup;
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};
use super::python;

const TEST_DIRECTORIES: [&str; 2] = ["tests", "test"];

/// Names of scripts that run all tests, in the order of preference.
const TEST_SCRIPTS: [&str; 12] = [
    "test.sh",
    "tests.sh",
    "run-tests.sh",
    "run_tests.sh",
    "runtests.sh",
    "tests/run.sh",
    "tests/test.sh",
    "test/run.sh",
    "test/test.sh",
    "scripts/test.sh",
    "script/test",
    "bin/test",
];

pub(super) fn plain_gates(
    root: &ProjectDir<'_>,
    known: &[GateDraft],
    notes: &mut DetectionNotes,
) -> Vec<GateDraft> {
    let runs_tests = |draft: &GateDraft| {
        draft.gate.cwd.is_empty() && matches!(draft.aspect, GateAspect::Test | GateAspect::Whole)
    };
    if known.iter().any(runs_tests) {
        return Vec::new();
    }
    let mut found: Vec<GateDraft> = Vec::new();
    found.extend(script_gate(root, notes));
    if found.is_empty() {
        found.extend(bats_gate(root, notes));
        found.extend(python::plain_gate(root, notes));
    }
    found.into_iter().map(|draft| draft.with_stack("plain")).collect()
}

fn bats_gate(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<GateDraft> {
    let is_bats = |name: &String| Path::new(name).extension() == Some(OsStr::new("bats"));
    let mut directories = TEST_DIRECTORIES.into_iter().filter(|name| root.has_entry(name));
    let below = directories.find(|name| root.list_names(name, notes).iter().any(is_bats));
    let directory = below.or_else(|| root.names().iter().any(is_bats).then_some("."))?;
    let source = if directory == "." { "*.bats".to_string() } else { format!("{directory}/") };
    Some(
        GateDraft::from_words(root, "bats", GateAspect::Test, &["bats", "--tap", directory])
            .with_report(ReportFormat::Tap)
            .covering(&["bats"])
            .with_reason(&source, format!("`{source}` contains tests for Bats")),
    )
}

fn script_gate(root: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Option<GateDraft> {
    let is_file = |name: &&str| {
        let path = root.path(name);
        ralph_sys::fs::exists(&path) && !ralph_sys::fs::is_directory(&path)
    };
    let file = TEST_SCRIPTS.into_iter().find(is_file)?;
    let own = format!("./{file}");
    let is_executable = matches!(root.find_tool(&own), ToolLookup::Found(_));
    let text = root.read_text(file, notes)?;
    let first = text.lines().next().unwrap_or_default();
    // Without the executable bit or a first line that names the interpreter, the system does not start a script.
    let words: Vec<&str> = match (first.starts_with("#!"), is_executable) {
        (true, true) => vec![&own],
        (true, false) if first.contains("bash") => vec!["bash", file],
        (true, false) | (false, _) => vec!["sh", file],
    };
    Some(
        GateDraft::from_words(root, "tests", GateAspect::Test, &words)
            .covering(&[&format!("sh {file}"), &format!("bash {file}")])
            .with_reason(file, format!("`{file}` looks like a script that runs the tests"))
            .likely(),
    )
}
