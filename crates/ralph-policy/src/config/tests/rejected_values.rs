//! Values that no policy may have, and what a mistake is answered with.

use super::{ConfigSandbox, format_problems, load_project};
use crate::config::ConfigError;
use insta::assert_snapshot;
use ralph_sys::fs;

#[test]
fn every_problem_is_reported_with_its_location_and_a_hint() {
    let error = load_project(
        r#"max_iterations = 3
[run]
max_iterations = -1
max_duration = "8"
max_cost = 3
max_cost_usd = 0.0000001
handover_at = 1.5
baseline = "ratched"
stuck_after = 1
[gates]
[[gate]]
name = "a b"
run = "npm test"
cwd = "../elsewhere"
[[gate]]
name = "tests"
timout = "5m"
timeout = "25h"
[[gate]]
name = "tests"
run = []
shell = true
on = ["stop", "stopp", 3]
"#,
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    1: unknown key `max_iterations`  [max_iterations]
         it belongs under `[run]`
    3: `run.max_iterations` cannot be `-1`  [-1]
         expected a whole number from 0 to 1000000
    4: `run.max_duration` cannot be `"8"`  ["8"]
         expected a duration such as `"90m"` or `"8h"`
    5: unknown key `max_cost`  [max_cost]
         did you mean `max_cost_usd`?
    6: `run.max_cost_usd` cannot be `0.0000001`  [0.0000001]
         expected an amount such as `20` or `1.50`
    7: `run.handover_at` cannot be `1.5`  [1.5]
         expected a number above 0 and up to 1, such as `0.8`
    8: `run.baseline` cannot be `"ratched"`  ["ratched"]
         did you mean `"ratchet"`?
    9: `run.stuck_after` cannot be `1`  [1]
         expected a whole number from 2 to 1000
    10: unknown key `gates`  [gates]
         did you mean `[[gate]]`?
    12: `gate.name` cannot be `"a b"`  ["a b"]
         expected 1 to 60 letters, digits, `.`, `_` and `-`
    13: `gate.run` cannot be `"npm test"`  ["npm test"]
         expected a list of words: `run = ["npm", "test"]`; for a shell command line use `shell = "…"`
    14: `gate.cwd` cannot be `"../elsewhere"`  ["../elsewhere"]
         expected a directory inside the project, without `..`
    15: `[[gate]]` is missing `run`  [[[gate]]]
         add the command: `run = ["npm", "test"]`
    17: unknown key `timout`  [timout]
         did you mean `timeout`?
    18: `gate.timeout` cannot be `"25h"`  ["25h"]
         expected a duration such as `"90s"` or `"5m"`, at most `"24h"`
    19: `[[gate]]` has both `run` and `shell`  [[[gate]]]
         keep one of them
    21: `gate.run` names no program  [[]]
         expected a list of words: `["npx", "tsc", "--noEmit"]`
    22: `gate.shell` cannot be `true`  [true]
         expected a command line: `shell = "make lint | tee log"`
    23: `gate.on` cannot be `"stopp"`  ["stopp"]
         did you mean `"stop"`?
    23: `gate.on` cannot contain `3`  [3]
         expected a list of any of `"stop"`, `"subagent"`, `"task"`, `"teammate"`
    and 1 more
    "#);
}

/// A glob that excludes files does so where it can, and is an error elsewhere: it never matches a name by accident.
#[test]
fn exclusions_are_kept_or_rejected() {
    let config = load_project(
        r#"
[[gate]]
name = "lint"
run = ["eslint"]
paths = ["src/**", "!src/gen/**"]
when = ["!docs/**", "**"]
"#,
    )
    .unwrap();
    let gate = &config.policy.gates[0];
    assert_eq!(
        (gate.paths.join(" "), gate.when.join(" ")),
        ("src/** !src/gen/**".into(), "!docs/** **".into())
    );

    let error = load_project(
        r#"
[protect]
paths = ["ci/**", "!ci/notes/**"]
[[gate]]
name = "lint"
run = ["eslint"]
paths = ["!src/gen/**"]
when = ["src/**", "!/src/gen/**", "!!src/x"]
"#,
    )
    .unwrap_err();
    insta::assert_snapshot!(format_problems(&error), @r#"
    3: `protect.paths` cannot be `"!ci/notes/**"`  ["!ci/notes/**"]
         only `paths` and `when` can exclude files with `!`; a name that begins with it is written `\!…`
    7: `gate.paths` names only files that it excludes  [["!src/gen/**"]]
         name what it includes first: `["**", "!src/gen/**"]`
    8: `gate.when` cannot be `"!/src/gen/**"`  ["!/src/gen/**"]
         globs are relative to the project: no leading `/` or `./`, no `..`
    8: `gate.when` cannot be `"!!src/x"`  ["!!src/x"]
         only `paths` and `when` can exclude files with `!`; a name that begins with it is written `\!…`
    "#);
}

/// A gate with the name of one of ralph's own requirements could be mistaken for it.
#[test]
fn reserved_gate_names_are_rejected() {
    let error = load_project(
        r#"
[[gate]]
name = "policy"
shell = "true"
[[gate]]
name = "Promise"
shell = "true"
[[gate]]
name = "policy-check"
shell = "true"
[[lines.pattern]]
name = "policy"
pattern = "x"
"#,
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    3: `gate.name` cannot be `"policy"`  ["policy"]
         ralph uses that name for a requirement of its own: try `"policy-gate"`
    6: `gate.name` cannot be `"Promise"`  ["Promise"]
         ralph uses that name for a requirement of its own: try `"Promise-gate"`
    "#);
}

/// Variables that are never passed to a gate are rejected in the policy, not dropped silently.
#[test]
fn variables_that_redirect_git_are_rejected() {
    let error = load_project(
        r#"
[environment]
pass = ["GIT_AUTHOR_NAME", "GIT_DIR"]
set = { GIT_WORK_TREE = "/x", GIT_CONFIG_KEY_0 = "core.hooksPath", GIT_EDITOR = "true" }
[[gate]]
name = "tests"
shell = "true"
env = ["GIT_INDEX_FILE", "CI"]
"#,
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    3: `environment.pass` cannot be `"GIT_DIR"`  ["GIT_DIR"]
         it would point git at another repository, so no gate gets it
    4: `environment.set.GIT_WORK_TREE` cannot be set  ["/x"]
         it would point git at another repository, so no gate gets it
    4: `environment.set.GIT_CONFIG_KEY_0` cannot be set  ["core.hooksPath"]
         it would point git at another repository, so no gate gets it
    8: `gate.env` cannot be `"GIT_INDEX_FILE"`  ["GIT_INDEX_FILE"]
         it would point git at another repository, so no gate gets it
    "#);
}

/// R-S1b: a command is a list of words, or a line written for a shell, in which nothing is substituted.
#[test]
fn every_kind_of_value_is_checked() {
    let error = load_project(
        r#"
run = 3
verify = { checkout = "clean", link = ["/etc"] }
protect.paths = "tests"
[tests]
paths = ["/src/**", "./a", "a/../b", "a[", ""]
[[gate]]
run = ["", "x"]
env = ["A=B", "1A"]
min_tests = "all"
[[gate]]
name = "line"
run = "npm test"
[[gate]]
name = "both"
run = ["npm", "test"]
shell = "npm test"
[[gate]]
name = "report"
shell = "junit > {report}"
[lines.pattern]
name = "x"
[environment]
set = { "A B" = "c", C = 3, D = "\u0000" }
"#,
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    2: `run` must be a table  [3]
         write it as `[run]`
    3: `verify.link` cannot be `"/etc"`  ["/etc"]
         expected a directory inside the project, without `..`
    4: `protect.paths` cannot be `"tests"`  ["tests"]
         expected a list of globs: `["src/**/*.ts"]`
    6: `tests.paths` cannot be `"/src/**"`  ["/src/**"]
         globs are relative to the project: no leading `/` or `./`, no `..`
    6: `tests.paths` cannot be `"./a"`  ["./a"]
         globs are relative to the project: no leading `/` or `./`, no `..`
    6: `tests.paths` cannot be `"a/../b"`  ["a/../b"]
         globs are relative to the project: no leading `/` or `./`, no `..`
    6: `tests.paths` cannot be `"a["`  ["a["]
         unclosed character class; missing ']'
    6: `tests.paths` cannot be `""`  [""]
         expected 1 to 500 bytes
    7: `[[gate]]` is missing `name`  [[[gate]]]
         give it a short name, such as `name = "tests"`
    8: `gate.run` names no program  [["", "x"]]
         expected a list of words: `["npx", "tsc", "--noEmit"]`
    9: `gate.env` cannot be `"A=B"`  ["A=B"]
         expected letters, digits and `_`, not starting with a digit
    9: `gate.env` cannot be `"1A"`  ["1A"]
         expected letters, digits and `_`, not starting with a digit
    10: `gate.min_tests` cannot be `"all"`  ["all"]
         expected `"baseline"`, `"some"` or a whole number
    13: `gate.run` cannot be `"npm test"`  ["npm test"]
         expected a list of words: `run = ["npm", "test"]`; for a shell command line use `shell = "…"`
    14: `[[gate]]` has both `run` and `shell`  [[[gate]]]
         keep one of them
    20: `gate.shell` cannot be `"junit > {report}"`  ["junit > {report}"]
         nothing is substituted in a shell line; the report's path is in `$RALPH_REPORT`
    21: `lines.pattern` must be a list of tables  [[lines.pattern]]
         write one `[[lines.pattern]]` per entry
    24: `environment.set.A B` is not a valid variable name  ["c"]
         expected letters, digits and `_`, not starting with a digit
    24: `environment.set.C` cannot be `3`  [3]
         expected a string without NUL
    24: `environment.set.D` cannot be `""`  ["\u0000"]
         expected a string without NUL
    "#);
    let error = load_project("[lines]\n[[lines.pattern]]\nname = 'x'\npattern = '(a'\n[[lines.pattern]]\npaths = []\n[[lines.pattern]]\nname = 'y'\npattern = '(((a{100}){100}){100})'\n").unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    4: `lines.pattern.pattern` cannot be `"(a"`  ['(a']
         unclosed group
    5: `[[lines.pattern]]` is missing `name`  [[[lines.pattern]]]
         give it a short name, such as `name = "tests"`
    5: `[[lines.pattern]]` is missing `pattern`  [[[lines.pattern]]]
         add the regular expression: `pattern = "console\\.log"`
    9: `lines.pattern.pattern` cannot be `"(((a{100}){100}){100})"`  ['(((a{100}){100}){100})']
         Compiled regex exceeds size limit of 1048576 bytes.
    "#);
}

#[test]
fn directories_cannot_be_excluded() {
    let error = load_project("[verify]\nlink = ['!a']\n").unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    2: `verify.link` cannot be `"!a"`  ['!a']
         it names directories, and `!` excludes none of them
    "#);
}

#[test]
fn report_files_are_junit_and_the_only_report() {
    let error = load_project("[[gate]]\nname = 'a'\nrun = ['mvn', 'test']\nreport_files = ['a/*.xml']\n[[gate]]\nname = 'b'\nrun = ['t', '--out={report}']\nreport = 'junit'\nreport_files = ['a/*.xml']\n").unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    4: `report_files` are JUnit or coverage reports  [['a/*.xml']]
         add `report = "junit"`
    9: the command already names a report  [['a/*.xml']]
         remove `report_files`, or the report's path
    "#);
}

#[test]
fn conditions_need_a_report_that_measures_them() {
    let error =
        load_project("[[gate]]\nname = 'a'\nrun = ['t']\nmin_coverage = 80\nmax_warnings = 0\n")
            .unwrap_err();
    assert_snapshot!(format_problems(&error), @r#"
    4: coverage needs a report that measures it  [80]
         set `report` to `lcov`, `cobertura`, `llvm-cov` or `go-cover`
    5: only findings with a severity can be limited  [0]
         set `report` to `sarif`, `eslint-json` or `cargo-json`
    "#);
    let error = load_project(
        "[[gate]]\nname = 'b'\nrun = ['t']\nreport = 'lcov'\nmin_changed_coverage = 100.5\n",
    )
    .unwrap_err();
    assert_snapshot!(format_problems(&error), @"
    5: `gate.min_changed_coverage` cannot be `100.5`  [100.5]
         expected a percentage such as `80` or `79.5`
    ");
}

#[test]
fn toml_syntax_errors_are_reported_with_their_location() {
    let mut shown = String::new();
    for text in [&b"[[gate]\nname = \n"[..], b"name = \"\xff\"", b"a = 1\na = 2\n", b"\x00"] {
        shown.push_str(&ralph_core::text::reveal(&format_problems(
            &load_project(text).unwrap_err(),
        )));
    }
    assert_snapshot!(shown, @r"
    1: unclosed array table, expected `]`  []
    1: not valid UTF-8  []
    2: duplicate key  [a]
    1: invalid unquoted key, expected letters, numbers, `-`, `_`  [\u{0}]
    1: key with no value, expected `=`  []
    ");
}

#[test]
fn a_run_without_any_limit_is_rejected_across_layers() {
    let place = ConfigSandbox::new();
    place.write("home/config.toml", "run.max_duration = \"0s\"\n");
    assert_eq!(place.load().unwrap().policy.limits.max_duration_ms, None);
    place.write("project/ralph.toml", "run.max_iterations = 0\n");
    let error = place.load().unwrap_err();
    let ConfigError::Problems { first, .. } = &error else { panic!("{error}") };
    assert_eq!(first[0].path, fs::resolve(&place.path("project")).unwrap().join("ralph.toml"));
    assert_snapshot!(format_problems(&error), @"
    1: a run needs a limit on iterations or on time  [0]
         set `max_iterations` or `max_duration`; 0 means no limit
    ");
}

#[test]
fn problems_beyond_the_limit_are_only_counted() {
    let lines: Vec<_> = (0..20_000).map(|number| format!("k{number} = 1")).collect();
    let error = load_project(lines.join("\n")).unwrap_err();
    let ConfigError::Problems { first, more } = &error else { panic!("{error}") };
    assert_eq!((first.len(), *more), (20, 19_980));
    assert_eq!(error.to_string(), "20000 problems in the policy");
    let gates = "[[gate]]\nname='a'\nrun=['x']\n".repeat(201);
    assert_snapshot!(format_problems(&load_project(gates).unwrap_err()), @"
    1: more than 200 `[[gate]]` entries  [[[gate]]]
         combine several checks in one command
    ");
}
