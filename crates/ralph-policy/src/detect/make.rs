//! `Makefile` and `justfile`: reads only the names of targets, and proposes those whose name indicates what they check.

use super::command;
use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};

const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
const JUSTFILES: [&str; 3] = ["justfile", "Justfile", ".justfile"];

const WANTED: [(&str, Aspect); 8] = [
    ("test", Aspect::Test),
    ("tests", Aspect::Test),
    ("lint", Aspect::Lint),
    ("typecheck", Aspect::Types),
    ("type-check", Aspect::Types),
    ("check", Aspect::Whole),
    ("ci", Aspect::Whole),
    ("verify", Aspect::Whole),
];

pub(super) fn look(root: &Place<'_>, known: &[Draft], notes: &mut Notes) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for (files, program, read) in
        [(&MAKEFILES, "make", targets as fn(&str) -> Vec<&str>), (&JUSTFILES, "just", recipes)]
    {
        let Some(file) = root.first(files) else { continue };
        let Some(text) = root.text(file, notes) else { continue };
        let names = read(&text);
        let mut left: Vec<String> = Vec::new();
        for (name, aspect) in WANTED.into_iter().filter(|(name, _)| names.contains(name)) {
            let covered = command::is_aspect_covered(known.iter().chain(&drafts), "", aspect);
            if covered {
                left.push(format!("`{program} {name}`"));
                continue;
            }
            drafts.push(
                Draft::argv(root, name, aspect, &[program, name])
                    .of(program)
                    .covers(&[&format!("{program} {name}")])
                    .because(file, format!("`{file}` defines `{name}`"))
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
fn targets(makefile: &str) -> Vec<&str> {
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
fn recipes(justfile: &str) -> Vec<&str> {
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
        assert_eq!(targets(makefile), ["test", "lint", "build"]);
        let justfile = "set shell := ['a']\nalias t := test\n@test *args: build\n  echo x: y\ncheck a:\nlint a='b':\n_x:\n[private]\nci:\nv := 'a:b'\n";
        assert_eq!(recipes(justfile), ["test", "lint", "ci"]);
    }
}
