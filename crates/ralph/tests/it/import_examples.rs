//! `ralph import` of what other tools publish, in `fixtures/imports`: the whole output, and every check.

use crate::sandbox::{Sandbox, read_files};
use insta::assert_snapshot;
use ralph_core::source::feature_list;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/imports")
}

/// A project with the files of one directory of fixtures, and nothing on `PATH`.
fn project_of(name: &str) -> Sandbox {
    let sandbox = Sandbox::without_git("project");
    let from = fixtures().join(name);
    for (path, bytes) in read_files(&from) {
        let path = path.strip_prefix(&from).unwrap().to_str().unwrap().to_string();
        sandbox.write(&path, String::from_utf8(bytes).unwrap());
    }
    sandbox.env("PATH", "")
}

/// The output of a dry run, and the checks of the list that would be created.
fn import_output(name: &str, args: &[&str]) -> String {
    let sandbox = project_of(name);
    let before = read_files(sandbox.project());
    let shown = sandbox.ralph([&["import", "--dry-run"], args].concat());
    let mut out = sandbox.normalize(&shown.to_string());
    let json = sandbox.ralph([&["import", "--dry-run", "--json"], args].concat());
    assert_eq!(read_files(sandbox.project()), before, "nothing is created, nothing runs");
    let Ok(json) = serde_json::from_str::<serde_json::Value>(&json.stdout) else { return out };
    out.push_str("\n=== limits\n");
    writeln!(out, "{}", json["limits"]).unwrap();
    for file in json["files"].as_array().unwrap() {
        if !file["path"].as_str().unwrap().ends_with("feature_list.json") {
            continue;
        }
        out.push_str("=== checks\n");
        let list = feature_list::read_features(file["text"].as_str().unwrap().as_bytes()).unwrap();
        for feature in list.features {
            let mark = if feature.passes { 'x' } else { ' ' };
            let check = feature
                .verify
                .map_or("-".to_string(), |check| serde_json::to_string(&check).unwrap());
            writeln!(out, "[{mark}] {}  {check}", feature.id).unwrap();
        }
    }
    out
}

#[test]
fn published_examples_are_imported() {
    for name in [
        "agent-validator",
        "beads",
        "hookify",
        "loom",
        "ralph-claude-code",
        "ralph-orchestrator",
        "ralph-tui",
        "ralphai",
        "ralphex",
        "smart-ralph",
        "snarktank-ralph",
        "spec-kit",
    ] {
        assert_snapshot!(name, import_output(name, &[]));
    }
}

/// Each line with `**Verify**` becomes a check or is named with the reason.
#[test]
fn a_finished_list_is_imported_when_it_is_named() {
    for (name, file) in [
        ("smart-skill-swap-retry", "specs/smart-skill-swap-retry/tasks.md"),
        ("karpathy-skills-rules", "specs/karpathy-skills-rules/tasks.md"),
        ("implement-ralph-wiggum", "specs/implement-ralph-wiggum/tasks.md"),
    ] {
        assert_snapshot!(name, import_output("smart-ralph", &[file]));
    }
}
