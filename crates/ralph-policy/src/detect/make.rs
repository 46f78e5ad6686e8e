//! `Makefile` and `justfile`: reads only the names of targets, and proposes those whose name indicates what they check.

use super::command_import;
use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};

const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
const JUSTFILES: [&str; 3] = ["justfile", "Justfile", ".justfile"];

const CHECK_TARGETS: [(&str, GateAspect); 8] = [
    ("test", GateAspect::Test),
    ("tests", GateAspect::Test),
    ("lint", GateAspect::Lint),
    ("typecheck", GateAspect::Types),
    ("type-check", GateAspect::Types),
    ("check", GateAspect::Whole),
    ("ci", GateAspect::Whole),
    ("verify", GateAspect::Whole),
];

pub(super) fn make_gates(
    root: &ProjectDir<'_>,
    known: &[GateDraft],
    notes: &mut DetectionNotes,
) -> Vec<GateDraft> {
    let mut drafts: Vec<GateDraft> = Vec::new();
    for (files, program, read) in [
        (&MAKEFILES, "make", make_targets as fn(&str) -> Vec<&str>),
        (&JUSTFILES, "just", just_recipes),
    ] {
        let Some(file) = root.first_present(files) else { continue };
        let Some(text) = root.read_text(file, notes) else { continue };
        let names = read(&text);
        let mut left: Vec<String> = Vec::new();
        for (name, aspect) in CHECK_TARGETS.into_iter().filter(|(name, _)| names.contains(name)) {
            let covered =
                command_import::is_aspect_covered(known.iter().chain(&drafts), "", aspect);
            if covered {
                left.push(format!("`{program} {name}`"));
                continue;
            }
            drafts.push(
                GateDraft::from_words(root, name, aspect, &[program, name])
                    .with_stack(program)
                    .covering(&[&format!("{program} {name}")])
                    .with_reason(file, format!("`{file}` defines `{name}`"))
                    .likely(),
            );
        }
        if !left.is_empty() {
            notes.add(&format!(
                "`{file}` also defines {}, which other gates cover",
                left.join(", ")
            ));
        }
    }
    drafts
}

/// The target names of a makefile: names before a `:` that is not part of an assignment.
fn make_targets(makefile: &str) -> Vec<&str> {
    let rules = makefile.lines().filter(|line| !line.starts_with(['\t', ' ', '#', '.']));
    rules
        .filter_map(|line| line.split_once(':'))
        .filter(|(names, rest)| {
            !names.contains('=') && !rest.trim_start_matches(':').starts_with('=')
        })
        .flat_map(|(names, _)| names.split_whitespace())
        .collect()
}

/// The recipes of a justfile that need no argument.
fn just_recipes(justfile: &str) -> Vec<&str> {
    let lines = justfile.lines().filter(|line| !line.starts_with(['\t', ' ', '#', '[', '_']));
    lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(_, rest)| !rest.starts_with('='))
        .filter_map(|(head, _)| {
            let mut words = head.trim_start_matches('@').split_whitespace();
            let name = words.next()?;
            let is_free = words.all(|word| word.contains('=') || word.starts_with('*'));
            (is_free && name != "alias" && name != "set").then_some(name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_targets_are_read() {
        let makefile =
            ".PHONY: test lint\nCC := gcc\nX = a:b\ntest lint: build\n\techo a: b\nbuild::\n# c:\n";
        assert_eq!(make_targets(makefile), ["test", "lint", "build"]);
        let justfile = "set shell := ['a']\nalias t := test\n@test *args: build\n  echo x: y\ncheck a:\nlint a='b':\n_x:\n[private]\nci:\nv := 'a:b'\n";
        assert_eq!(just_recipes(justfile), ["test", "lint", "ci"]);
    }
}
