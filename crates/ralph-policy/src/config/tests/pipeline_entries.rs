//! `[[chunk]]` and `[[pipeline.chunk]]`: what is accepted, and what a mistake is answered with.

use super::{ConfigSandbox, format_problems, load_project};
use insta::assert_snapshot;
use ralph_core::policy::Chunk;

/// A chunk that names an unknown gate, or requires nothing, would never hold an agent.
#[test]
fn a_chunk_must_name_existing_gates_and_require_something() {
    let error = load_project(
        r#"
[[gate]]
name = "tests"
run = ["true"]
[[chunk]]
name = "parser"
match = "implementer*"
gates = ["test", "types"]
[[chunk]]
match = "reviewer"
gates = []
[[chunk]]
match = "tester"
outputs = ["a"]
[[chunk]]
name = "tester"
match = "t*"
outputs = ["a"]
[[chunk]]
outputs = ["a"]
[[chunk]]
match = "writer"
outputs = ["a"]
approval = true
[orchestrator]
approvals = ["plan", "implment"]
"#,
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    16: there is already a `[[chunk]]` named `tester`  ["tester"]
         names must be unique within a file
    19: `[[chunk]]` is missing `match`  [[[chunk]]]
         say which agents it applies to: `match = "implementer*"`
    24: unknown key `approval`  [approval]
         only a `[[pipeline.chunk]]` has it
    26: `orchestrator.approvals` cannot be `"plan"`  ["plan"]
         leave it out: the plan always needs an approval; `plan = "person"` says by whom
    26: `orchestrator.approvals` cannot be `"implment"`  ["implment"]
         did you mean `"implement"`?
    8: there is no gate named `test`  [["test", "types"]]
         did you mean `tests`?
    8: there is no gate named `types`  [["test", "types"]]
         known names: `tests`
    10: chunk `reviewer` requires nothing  ["reviewer"]
         add `gates = ["tests"]` or `outputs = ["docs/parser.md"]`
    "#);
    let error = load_project("[[chunk]]\nmatch = \"a\"\ngates = [\"tests\"]\n").unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    3: there is no gate named `tests`  [["tests"]]
         no gates are defined
    "#);
}

#[test]
fn a_chunk_may_rely_on_the_gates_of_its_event() {
    let fine = load_project(
        r#"
[[gate]]
name = "tests"
run = ["true"]
on = ["teammate"]
[[chunk]]
match = "implementer*"
"#,
    )
    .unwrap();
    assert_eq!(
        fine.policy.chunks,
        [Chunk {
            after: Vec::new(),
            approval: false,
            name: "implementer*".to_string(),
            r#match: "implementer*".to_string(),
            gates: Vec::new(),
            outputs: Vec::new(),
            max_holds: 3,
        }]
    );
}

#[test]
fn pipeline_names_are_unique_and_after_names_pipeline_chunks() {
    let error = load_project(
        r#"
[[gate]]
name = "tests"
run = ["true"]
[[chunk]]
name = "docs"
match = "writer"
outputs = ["a"]
[[pipeline.chunk]]
name = "types"
gates = ["test"]
after = ["parser"]
[[pipeline.chunk]]
name = "parser"
match = "implementer*"
after = ["typs", "docs", "nobody"]
[[pipeline.chunk]]
name = "types"
[[pipeline.chunk]]
name = "docs"
[[pipeline.chunk]]
match = "a"
[[pipeline.chunk]]
name = "b"
atfer = []
"#,
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    18: there is already a `[[pipeline.chunk]]` named `types`  ["types"]
         names must be unique within a file
    21: `[[pipeline.chunk]]` is missing `name`  [[[pipeline.chunk]]]
         give it a short name, such as `name = "tests"`
    25: unknown key `atfer`  [atfer]
         did you mean `after`?
    16: there is no `[[pipeline.chunk]]` named `typs`  [["typs", "docs", "nobody"]]
         did you mean `types`?
    16: there is no `[[pipeline.chunk]]` named `nobody`  [["typs", "docs", "nobody"]]
         known names: `types`, `docs`, `a`, `b`
    20: there is also a `[[chunk]]` named `docs`  ["docs"]
         requirements of a chunk are reported by its name: rename one of the two
    "#);
}

#[test]
fn a_cycle_in_the_pipeline_is_rejected() {
    let chain = |edges: &[(&str, &str)]| {
        let mut text = String::new();
        for (name, after) in edges {
            text.push_str(&format!("[[pipeline.chunk]]\nname = \"{name}\"\nafter = [{after}]\n"));
        }
        format_problems(&load_project(&text).unwrap_err())
    };
    assert_snapshot!(chain(&[("a", "\"a\"")]), @r#"
    3: chunk `a` comes after itself  [["a"]]
         remove its own name from `after`
    "#);
    assert_snapshot!(chain(&[("a", "\"b\""), ("b", "\"a\"")]), @r#"
    3: the pipeline has a cycle: `a → b → a`  [["b"]]
         each chunk waits for the next: remove one name from an `after`
    "#);
    assert_snapshot!(
        chain(&[("x", ""), ("a", "\"c\""), ("b", "\"x\", \"a\""), ("c", "\"b\""), ("d", "\"a\"")]),
        @r#"
    6: the pipeline has a cycle: `a → c → b → a`  [["c"]]
         each chunk waits for the next: remove one name from an `after`
    "#
    );
    let names: Vec<String> = (0..30).map(|at| format!("c{at}")).collect();
    let ring: Vec<(&str, String)> =
        (0..30).map(|at| (names[at].as_str(), format!("\"{}\"", names[(at + 1) % 30]))).collect();
    let ring: Vec<(&str, &str)> = ring.iter().map(|(name, after)| (*name, &**after)).collect();
    assert_snapshot!(chain(&ring), @r#"
    3: the pipeline has a cycle: `c0 → c1 → c2 → c3 → c4 → c5 → c6 → c7 → c8 → c9 → … → c0`  [["c1"]]
         each chunk waits for the next: remove one name from an `after`
    "#);
}

#[test]
fn a_pipeline_has_at_most_200_chunks_in_file_order() {
    let chunk = |at: usize| {
        let after = if at == 0 { String::new() } else { format!("\"c{}\"", at - 1) };
        format!("[[pipeline.chunk]]\nname = \"c{at}\"\nafter = [{after}]\n")
    };
    let many = |count: usize| load_project((0..count).map(chunk).collect::<String>());
    assert_eq!(many(200).unwrap().policy.pipeline.len(), 200);
    assert_snapshot!(format_problems(&many(201).unwrap_err()), @"
    1: more than 200 `[[pipeline.chunk]]` entries  [[[pipeline.chunk]]]
         merge some of them
    ");

    let fine = load_project(
        "[[pipeline.chunk]]\nname = \"a\"\n[[pipeline.chunk]]\nname = \"b\"\nmatch = \"b*\"\nafter = [\"a\"]\n",
    );
    let chunk = |name: &str, fits: &str, after: &[&str]| Chunk {
        after: after.iter().map(ToString::to_string).collect(),
        approval: false,
        name: name.to_string(),
        r#match: fits.to_string(),
        gates: Vec::new(),
        outputs: Vec::new(),
        max_holds: 3,
    };
    assert_eq!(fine.unwrap().policy.pipeline, [chunk("a", "a", &[]), chunk("b", "b*", &["a"])]);
}

/// The person's own chunks and the project's form one pipeline.
#[test]
fn a_pipeline_is_checked_over_all_layers() {
    let place = ConfigSandbox::new();
    place.write("home/config.toml", "[[chunk]]\nname = \"docs\"\nmatch = \"w\"\noutputs = [\"a\"]\n[[pipeline.chunk]]\nname = \"a\"\nafter = [\"b\"]\n");
    place.write(
        "project/ralph.toml",
        "[[pipeline.chunk]]\nname = \"b\"\nafter = [\"a\"]\n[[pipeline.chunk]]\nname = \"docs\"\n",
    );
    assert_snapshot!(format_problems(&place.load().unwrap_err()), @r#"
    5: there is also a `[[chunk]]` named `docs`  ["docs"]
         requirements of a chunk are reported by its name: rename one of the two
    7: the pipeline has a cycle: `a → b → a`  [["b"]]
         each chunk waits for the next: remove one name from an `after`
    "#);
}
