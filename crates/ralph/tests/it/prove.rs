//! `ralph prove`: old and new tests on old and new code.

use crate::sandbox::{Sandbox, read_files};
use insta::assert_snapshot;
use regex::Regex;

const POLICY: &str = r#"
[[gate]]
name = "suite"
run = ["sh", "suite.sh"]
report = "tap"
"#;

/// Runs every file in `tests` and reports it by name.
pub const SUITE: &str = r#"
count=0
bad=0
for test in tests/*.sh; do
  count=$((count + 1))
  if sh "$test" > /dev/null 2>&1; then echo "ok $count - $test"; else echo "not ok $count - $test"; bad=1; fi
done
echo "1..$count"
exit $bad
"#;

/// A program that adds numbers, one test of it, and an approved policy, all committed.
pub fn adder() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", POLICY);
    sandbox.write("suite.sh", SUITE);
    sandbox.write("add.sh", "echo $(($1 + $2))\n");
    sandbox.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
    sandbox.write("tests/zero.sh", "test \"$(sh add.sh 0 0)\" = 0\n");
    sandbox.approve_policy();
    sandbox.commit();
    sandbox
}

fn prove(sandbox: &Sandbox, args: &[&str]) -> String {
    let outcome = sandbox.ralph(["prove"].iter().chain(args));
    let shown = sandbox.normalize(&outcome.to_string());
    // Two steps start at the same time, so the order of their progress lines varies.
    let shown = shown.split("--- stderr\n▸").next().unwrap_or_default();
    Regex::new(r" +\d+\.\d s").unwrap().replace_all(shown, "  [time]").into_owned()
}

/// R-L7d: a ratchet accepts old failures, but only checkouts show them to a proof by hand, so it is at most `green`.
#[test]
fn old_failures_that_only_checkouts_show_are_in_doubt() {
    let sandbox = adder();
    sandbox.write("ralph.toml", format!("[run]\nbaseline = \"ratchet\"\n{POLICY}"));
    sandbox.write("tests/old.sh", "false\n");
    sandbox.approve_policy();
    sandbox.commit();
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 11
    --- stdout
    new tests on new code  ✗ suite  [time]  1 of 4 failed
    old tests on old code  · suite  [time]  1 of 3 failed
    old tests on new code  · suite  [time]  1 of 3 failed
    new tests on old code  · suite  [time]  2 of 4 failed

    green: old failures of suite are accepted, but only a checkout of the base shows them
      + tests/three.sh fails without the change
      ? old failures of suite are accepted, but only a checkout of the base shows them
    next: fix the old failures, or review the change and run `ralph prove --accept green`; a run measures old failures in the project itself
    ");
    assert_snapshot!(sandbox.ralph(["prove", "--hunks", "x"]).stderr, @"
    error: `--hunks` cannot be `x`
      hint: expected a number from 1 to 65535
    ");
    let wrong = sandbox.ralph(["prove", "--trust-hash", "000000000000"]);
    let hash = Regex::new("hash is [0-9a-f]+").unwrap();
    assert_snapshot!(hash.replace(&wrong.to_string(), "hash is [hash]"), @"
    exit 3
    --- stderr
    error: the policy has another hash, so nothing was run
      hint: its hash is [hash], not the given one
    ");
}

/// R-V1a: a change with a test that fails without it is verified, by the work tree and by a range of commits.
#[test]
fn a_change_that_a_test_notices_is_verified() {
    let sandbox = adder();
    let before = read_files(sandbox.project());
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 0
    --- stdout
    new tests on new code  ✓ suite  [time]  3 passed
    old tests on old code  ✓ suite  [time]  2 passed
    old tests on new code  ✓ suite  [time]  2 passed
    new tests on old code  · suite  [time]  1 of 3 failed

    verified: 2 old tests pass on the new code; 1 test fails without the change
      + tests/three.sh fails without the change
    ");
    sandbox.commit();
    let by_range = prove(&sandbox, &["HEAD~1..HEAD", "--json"]);
    let report = by_range.lines().find(|line| line.starts_with('{')).unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    assert_snapshot!(format!("{} {} {}", report["verdict"], report["telling"], report["held"]), @r#""verified" [{"gate":"suite","test":"tests/three.sh"}] 2"#);
    // Nothing is left behind, in the project or in the directory for temporary files.
    sandbox.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let is_source = |(path, _): &(std::path::PathBuf, Vec<u8>)| {
        !path.components().any(|part| part.as_os_str() == ".git")
    };
    let only_sources = |files: Vec<_>| files.into_iter().filter(is_source).collect::<Vec<_>>();
    assert_eq!(only_sources(read_files(sandbox.project())), only_sources(before));
    assert_eq!(read_files(&sandbox.ralph_home("proofs")).len(), 0);
}

/// R-V1a: without a test that notices the change, it is green at most, whatever it is.
#[test]
fn a_change_that_no_test_notices_is_green() {
    let sandbox = adder();
    sandbox.write("add.sh", "# Adds.\necho $(($1 + $2))\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 11
    --- stdout
    new tests on new code  ✓ suite  [time]  2 passed
    old tests on old code  ✓ suite  [time]  2 passed
    old tests on new code  ✓ suite  [time]  2 passed
    new tests on old code  the same files as old tests on old code

    green: no test fails without the change; 2 old tests pass on the new code
    next: add a test that fails without the change, or review the change and run `ralph prove --accept green`
    ");
    sandbox.write("tests/again.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 11
    --- stdout
    new tests on new code  ✓ suite  [time]  3 passed
    old tests on old code  ✓ suite  [time]  2 passed
    old tests on new code  ✓ suite  [time]  2 passed
    new tests on old code  ✓ suite  [time]  3 passed

    green: no test fails without the change; 2 old tests pass on the new code
    next: add a test that fails without the change, or review the change and run `ralph prove --accept green`
    ");
}

/// R-V1b: a test of the base that fails on the new code is listed, however it was changed, removed or unregistered.
#[test]
fn old_tests_that_do_not_hold_are_listed() {
    let cheats: [(&str, &[(&str, &str)]); 3] = [
        ("a weaker test", &[("tests/adds.sh", "true\n")]),
        (
            "a suite that passes anyway",
            &[(
                "suite.sh",
                "echo 'ok 1 - tests/adds.sh'; echo 'ok 2 - tests/zero.sh'; echo 1..2\n",
            )],
        ),
        (
            "a suite that leaves one out",
            &[("suite.sh", "echo 'ok 1 - tests/zero.sh'; echo 1..1\n")],
        ),
    ];
    for (name, files) in cheats {
        let sandbox = adder();
        sandbox.write("add.sh", "echo 0\n");
        for (path, text) in files {
            sandbox.write(path, text);
        }
        // A person who approves the changed suite does not make it honest.
        sandbox.approve_policy();
        let shown = prove(&sandbox, &[]);
        assert!(shown.starts_with("exit 6\n"), "{name}: {shown}");
        assert!(shown.contains("✗ tests/adds.sh fails"), "{name}: {shown}");
    }
    let sandbox = adder();
    sandbox.write("add.sh", "echo 0\n");
    std::fs::remove_file(sandbox.project().join("tests/adds.sh")).unwrap();
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 6
    --- stdout
    new tests on new code  ✓ suite  [time]  1 passed
    old tests on old code  ✓ suite  [time]  2 passed
    old tests on new code  · suite  [time]  1 of 2 failed
    new tests on old code  ✓ suite  [time]  1 passed

    needs_review: 1 old test fails or is missing on the new code (tests/adds.sh)
      ✗ tests/adds.sh fails: not ok
    next: make the old tests pass, or review whether the change should break them
    ");
}

/// In GitHub Actions, each old test that does not hold is an annotation; a name cannot add another command.
#[test]
fn broken_tests_are_annotated_in_ci() {
    let sandbox = adder().env("GITHUB_ACTIONS", "true");
    sandbox.write("tests/%0A::x.sh", "test \"$(sh add.sh 2 2)\" = 4\n");
    sandbox.commit();
    sandbox.write("add.sh", "echo 0\n");
    std::fs::remove_file(sandbox.project().join("tests/adds.sh")).unwrap();
    std::fs::remove_file(sandbox.project().join("tests/%0A::x.sh")).unwrap();
    let shown = prove(&sandbox, &[]);
    let annotations: Vec<_> = shown.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(
        annotations,
        [
            "::error title=suite::old test fails on the new code: tests/%250A::x.sh not ok",
            "::error file=tests/adds.sh,title=suite::old test fails on the new code: tests/adds.sh not ok",
        ]
    );
}

/// GitHub knows files by their path in the repository, also if the project is a directory of it.
#[test]
fn annotations_of_a_project_in_a_directory_name_its_files() {
    let sandbox = Sandbox::new().env("GITHUB_ACTIONS", "true");
    for (path, text) in [
        ("web/ralph.toml", POLICY),
        ("web/suite.sh", SUITE),
        ("web/add.sh", "echo $(($1 + $2))\n"),
        ("web/tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n"),
    ] {
        sandbox.write(path, text);
    }
    let web = sandbox.project().join("web");
    let hash = sandbox.ralph(["trust", "--json", "--project", web.to_str().unwrap()]).stdout;
    let hash: serde_json::Value = serde_json::from_str(&hash).unwrap();
    sandbox.commit();
    sandbox.write("web/add.sh", "echo $(($1 - $2))\n");
    sandbox.write("web/tests/adds.sh", "test \"$(sh add.sh 2 1)\" = 1\n");
    sandbox.write("web/unused.sh", "echo unused\n");
    let project = web.to_str().unwrap();
    let hash = hash["hash"].as_str().unwrap();
    let shown = prove(&sandbox, &["--hunks", "5", "--project", project, "--trust-hash", hash]);
    let annotations: Vec<_> = shown.lines().filter(|line| line.starts_with("::")).collect();
    assert_snapshot!(annotations.join("\n"), @"
    ::error file=web/tests/adds.sh,title=suite::old test fails on the new code: tests/adds.sh not ok
    ::warning file=web/unused.sh,title=no test notices this::every test still passes without this part of the change
    ");
}

/// R-V1f: a proof by hand is the proof of a run. The same gates take part, and the same files may change.
#[test]
fn gates_and_files_are_those_of_a_run() {
    let sandbox = adder();
    let policy = format!(
        "{POLICY}\n[[gate]]\nname = \"services\"\nrun = [\"false\"]\nproof = false\n\n[[gate]]\nname = \"hints\"\nrun = [\"false\"]\nrequired = false\n"
    );
    sandbox.write("ralph.toml", &policy);
    sandbox.approve_policy();
    sandbox.commit();
    sandbox.write("add.sh", "echo $(($1 + $2 + 1))\n");
    sandbox.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 4\n");
    sandbox.write("tests/zero.sh", "test \"$(sh add.sh 0 0)\" = 1\n");
    assert_snapshot!(prove(&sandbox, &["--may-change", "tests/adds.sh"]), @"
    exit 6
    --- stdout
    new tests on new code  ✓ suite  [time]  2 passed
    old tests on old code  · suite  [time]  1 of 2 failed
    old tests on new code  · suite  [time]  1 of 2 failed
    new tests on old code  · suite  [time]  2 of 2 failed
    not part of the proof: services (proof = false), hints (advisory)

    needs_review: 1 old test fails or is missing on the new code (tests/zero.sh); allowed to change: tests/adds.sh
      ✗ tests/zero.sh fails: not ok
      + tests/adds.sh fails without the change
      + tests/zero.sh fails without the change
    next: make the old tests pass, or review whether the change should break them
    ");
    sandbox.write("ralph.toml", format!("{policy}\n[verify]\nmay_change = [\"tests/adds.sh\"]\n"));
    sandbox.approve_policy();
    let by_policy = prove(&sandbox, &["--may-change", "tests/zero.sh", "--json"]);
    let report = by_policy.lines().find(|line| line.starts_with('{')).unwrap();
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    assert_snapshot!(format!("{} {} {}", report["verdict"], report["allowed"], report["left_out"]), @r#""verified" ["tests/adds.sh","tests/zero.sh"] [{"because":"proof = false","gate":"services"},{"because":"advisory","gate":"hints"}]"#);
    sandbox
        .write("ralph.toml", policy.replace("report = \"tap\"", "report = \"tap\"\nproof = false"));
    sandbox.approve_policy();
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 1
    --- stderr
    error: no gate is part of a proof: suite (proof = false), services (proof = false), hints (advisory)
      hint: name one with `--gate` to use it all the same
    ");
}

/// A change that fails its own gates needs no further runs.
#[test]
fn a_change_that_fails_its_own_gates_is_not_proved() {
    let sandbox = adder();
    sandbox.write("add.sh", "echo 0\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 1
    --- stdout
    new tests on new code  ✗ suite  [time]  1 of 2 failed
    old tests on old code  not needed
    old tests on new code  not needed
    new tests on old code  not needed

    failed: `suite` fails on the change itself
      ✗ tests/adds.sh: not ok
        log: `$ROOT/home/.ralph/cache/logs/suite-[key].log`
    ");
}

/// A gate that changes the files of its checkout has measured something else.
#[test]
fn a_gate_that_changes_its_checkout_gives_no_result() {
    let sandbox = adder();
    sandbox.write("add.sh", "echo 'true' > tests/adds.sh; echo 0\n");
    sandbox.write("tests/adds.sh", "sh add.sh 1 2\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 1
    --- stdout
    new tests on new code  ? suite  [time]  no result: files of the checkout changed while it ran: tests/adds.sh
    old tests on old code  not needed
    old tests on new code  not needed
    new tests on old code  not needed

    failed: suite gave no result: files of the checkout changed while it ran: tests/adds.sh
        log: `$ROOT/home/.ralph/cache/logs/suite-[key].log`
    ");
}

#[test]
fn mistakes_are_explained() {
    let sandbox = adder();
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 1
    --- stderr
    error: HEAD and the work tree have the same files in `$ROOT/project`
      hint: name a range, for example `ralph prove main..HEAD`
    ");
    assert_snapshot!(prove(&sandbox, &["nowhere"]), @"
    exit 1
    --- stderr
    error: git knows no commit `nowhere`
      hint: name commits or branches that `git log` shows, for example `ralph prove main..HEAD`
    ");
    // A name is never an option to git.
    assert_snapshot!(prove(&sandbox, &["--", "--all"]), @"
    exit 1
    --- stderr
    error: git knows no commit `--all`
      hint: name commits or branches that `git log` shows, for example `ralph prove main..HEAD`
    ");
    assert_snapshot!(prove(&sandbox, &["--output=x"]), @"
    exit 1
    --- stderr
    error: unknown option `--output`
      hint: run `ralph prove --help`
    ");
    assert_snapshot!(prove(&sandbox, &["HEAD", "--gate", "suit"]), @"
    exit 1
    --- stderr
    error: there is no gate `suit`
      hint: did you mean `suite`?
    ");
    sandbox.write("ralph.toml", format!("{POLICY}timeout = \"1m\"\n"));
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 3
    --- stderr
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
}

/// R-V1b: a failure on the new code is not excused by a second execution, before which the first one left a file behind.
#[test]
fn old_tests_run_only_once_on_the_new_code() {
    let sandbox = adder();
    let code = "mark=${TMPDIR:-/tmp}/mark\nif test -e \"$mark\"; then echo $(($1 + $2)); else touch \"$mark\"; fi\n";
    sandbox.write("add.sh", code);
    let shown = prove(&sandbox, &[]);
    assert!(shown.contains("✗ tests/adds.sh fails"), "{shown}");
}

/// A longer program, to which one place is added that no test runs, and another that a new test needs.
/// Whether this user may mount directories, as root or in a user namespace.
fn can_mount() -> bool {
    let runs = |option: &str| {
        let mut probe = std::process::Command::new("unshare");
        probe.args([option, "true"]).output().is_ok_and(|output| output.status.success())
    };
    runs("-m") || runs("-Um")
}

/// R-V1g: gates of a checkout find it at the project's own path, and write neither to the project nor to its packages.
#[test]
fn a_checkout_writes_nothing_to_the_project() {
    if !can_mount() {
        return;
    }
    let sandbox = adder();
    let project = sandbox.project().display().to_string();
    sandbox.write(".gitignore", "node_modules\nwritten\n");
    sandbox.write("node_modules/tool/index.js", "1\n");
    let check = format!(
        "test \"$PWD\" = {project} && test -e {project}/node_modules/tool/index.js || exit 1\n\
         echo 2 > {project}/node_modules/tool/index.js; echo 3 > {project}/written\n"
    );
    sandbox.write("tests/place.sh", check);
    sandbox.commit();
    let before = read_files(sandbox.project());
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    let changed = read_files(sandbox.project());
    assert!(prove(&sandbox, &[]).contains("verified: 3 old tests pass on the new code"));
    assert_eq!(read_files(sandbox.project()), changed);
    assert_ne!(before, changed);
}

/// A project that contains the home directory cannot be mounted over. Its gates run in the checkout's own path.
#[test]
fn a_project_with_the_home_directory_is_proved_in_place() {
    let sandbox = adder();
    let home = sandbox.project().join("home");
    let sandbox = sandbox.env("HOME", home.to_str().unwrap());
    sandbox.write(".gitignore", "home\nnode_modules\n");
    sandbox.write("node_modules/tool/index.js", "1\n");
    sandbox.write(
        "tests/place.sh",
        "test -e node_modules/tool/index.js && echo $PWD >> \"$HOME/../../places\"\n",
    );
    sandbox.git(&["config", "user.name", "test"]);
    sandbox.git(&["config", "user.email", "test@test"]);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    let shown = prove(&sandbox, &[]);
    assert!(shown.contains("verified: 3 old tests pass on the new code"), "{shown}");
}

/// Each gate runs with its own added test. That of another would be a failure without a cause.
#[test]
fn gates_do_not_see_the_added_tests_of_others() {
    let sandbox = Sandbox::new();
    let gate = |name: &str, files: &str| {
        format!(
            "[[gate]]\nname = \"{name}\"\nrun = [\"node\", \"--test\", \"--test-reporter=tap\"{files}]\nreport = \"tap\"\n"
        )
    };
    let policy = gate("tests", "") + &gate("again", "") + &gate("one", ", \"a.test.mjs\"");
    sandbox.write("ralph.toml", policy);
    sandbox.write("a.mjs", "export const one = 1;\n");
    let test = |name: &str| {
        format!(
            "import test from \"node:test\";\nimport * as a from \"./a.mjs\";\ntest(\"{name}\", () => {{ if (!a.{name}) throw new Error(); }});\n"
        )
    };
    sandbox.write("a.test.mjs", test("one"));
    sandbox.commit();
    let sandbox = crate::real_projects::pass_variables(sandbox);
    sandbox.approve_policy();
    sandbox.write("a.mjs", "export const one = 1;\nexport const two = 2;\n");
    sandbox.write("b.test.mjs", test("two"));
    assert_snapshot!(prove(&sandbox, &[]).lines().skip(2).collect::<Vec<_>>().join("\n"), @"
    new tests on new code  ✓ tests  [time]  2 passed
    new tests on new code  ✓ again  [time]  2 passed
    new tests on new code  ✓ one  [time]  1 passed
    old tests on old code  ✓ tests  [time]  1 passed
    old tests on old code  ✓ again  [time]  1 passed
    old tests on old code  ✓ one  [time]  1 passed
    old tests on new code  ✓ tests  [time]  1 passed, and the added failing test is reported
    old tests on new code  ✓ again  [time]  1 passed, and the added failing test is reported
    old tests on new code  ✓ one  [time]  1 passed, and the added failing test is reported
    new tests on old code  · tests  [time]  1 of 2 failed
    new tests on old code  · again  [time]  1 of 2 failed
    new tests on old code  ✓ one  [time]  1 passed

    verified: 3 old tests pass on the new code; 2 tests fail without the change
      + two fails without the change
      + two fails without the change
    ");
}

/// R-V1b: thresholds and checks that were relaxed show in a run with the settings of the base.
#[test]
fn settings_of_the_base_must_accept_the_change() {
    let sandbox = adder();
    let policy =
        format!("{POLICY}\n[[gate]]\nname = \"size\"\nrun = [\"sh\", \"check-size.sh\"]\n");
    sandbox.write("ralph.toml", policy);
    sandbox.write("setup.cfg", "[flake8]\nmax = 40\n");
    sandbox.write(
        "check-size.sh",
        "test \"$(wc -c < add.sh)\" -lt \"$(sed -n 's/max = //p' setup.cfg)\"\n",
    );
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.write("setup.cfg", "[flake8]\nmax = 400\n");
    sandbox.write("add.sh", "sum=0; for one; do sum=$((sum + one)); done; echo $sum\n");
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    assert_snapshot!(prove(&sandbox, &[]), @"
    exit 6
    --- stdout
    new tests on new code  ✓ suite  [time]  3 passed
    new tests on new code  ✓ size  [time]  passed
    old tests on old code  ✓ suite  [time]  2 passed
    old tests on old code  ✓ size  [time]  passed
    old tests on new code  ✓ suite  [time]  2 passed
    old tests on new code  · size  [time]  failed
    new tests on old code  · suite  [time]  1 of 3 failed
    new tests on old code  ✓ size  [time]  passed
    old settings           ✓ suite  [time]  3 passed
    old settings           · size  [time]  failed

    needs_review: 1 old test fails or is missing on the new code (size)
      ✗ size fails: exit 1, no output
      + tests/three.sh fails without the change
      ? `size` fails with the settings of the base (setup.cfg): exit 1, no output
    next: make the old tests pass, or review whether the change should break them
    ");
}

/// `A...B` compares with the merge base, and `--accept green` makes a proof without a telling test a success.
#[test]
fn a_branch_is_compared_with_its_merge_base() {
    let sandbox = adder();
    sandbox.git(&["branch", "-M", "main"]);
    sandbox.git(&["checkout", "--quiet", "-b", "work"]);
    sandbox.write("add.sh", "echo $(($2 + $1))\n");
    sandbox.commit();
    sandbox.git(&["checkout", "--quiet", "main"]);
    sandbox.write("tests/other.sh", "false\n");
    sandbox.commit();
    let code = |args: &[&str]| sandbox.ralph(["prove"].iter().chain(args)).code;
    assert_eq!(code(&["main...work"]), Some(11));
    assert_eq!(code(&["main...work", "--accept", "green"]), Some(0));
    assert_eq!(code(&["main..work"]), Some(6));
    let shown = prove(&sandbox, &["main...nowhere"]);
    assert_snapshot!(shown, @"
    exit 1
    --- stderr
    error: git knows no commit `nowhere`
      hint: name commits or branches that `git log` shows, for example `ralph prove main..HEAD`
    ");
}

fn adder_of_three(sandbox: &Sandbox) {
    let lines = |three: &str| {
        format!(
            "one=$1\ntwo=$2\n: ${{one:=0}}\n: ${{two:=0}}\n{three}\necho $((one + two + three))\n"
        )
    };
    sandbox.write("add.sh", lines("three=0"));
    sandbox.commit();
    let usage = "test \"$1\" != --help || { echo 'usage: add ONE TWO'; exit; }\n";
    sandbox.write("add.sh", format!("{usage}{}\n# The end.\n", lines("three=${3:-0}")));
    sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
    sandbox.write("README.md", "Adds three numbers.\n");
    sandbox.write("unused.sh", "echo 1\necho 2\n");
}

/// Hunks without which every test passes are listed. They change neither the verdict nor the exit code.
#[test]
fn hunks_that_no_test_notices_are_listed() {
    let sandbox = adder();
    adder_of_three(&sandbox);
    assert_snapshot!(prove(&sandbox, &["--hunks", "9"]), @r#"
    exit 0
    --- stdout
    new tests on new code  ✓ suite  [time]  3 passed
    old tests on old code  ✓ suite  [time]  2 passed
    old tests on new code  ✓ suite  [time]  2 passed
    new tests on old code  · suite  [time]  1 of 3 failed

    verified: 2 old tests pass on the new code; 1 test fails without the change
      + tests/three.sh fails without the change

    hunks: 3 of 3 reverted one by one; no test fails without these 2; 2 hunks of comments, documents or lock files left out
      ! add.sh:1   +1 −0    test "$1" != --help || { echo 'usage: add ONE TWO'; exit; }
      ! unused.sh  +2 −0    the whole file, which is new
    "#);
    let by_json = sandbox.ralph(["prove", "--hunks", "1", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&by_json.stdout).unwrap();
    assert_snapshot!(report["hunks"], @r#"{"found":3,"out_of_time":false,"tried":[{"added":1,"because":null,"end_line":6,"file":"add.sh","line":6,"removed":1,"result":"noticed"}],"trivial":2}"#);
    assert_eq!(by_json.stderr, "");
    sandbox.git(&["checkout", "--quiet", "."]);
    sandbox.git(&["clean", "--quiet", "--force"]);
    sandbox.write("add.sh", "echo 0\n");
    let failed = prove(&sandbox, &["--hunks", "9"]);
    assert!(failed.contains("\nhunks: not tried\n"), "{failed}");
    assert_snapshot!(prove(&sandbox, &["--hunks-time", "1m"]), @"
    exit 1
    --- stderr
    error: `--hunks` is missing
      hint: run `ralph prove --help`
    ");
    assert_snapshot!(prove(&sandbox, &["--hunks", "0"]), @"
    exit 1
    --- stderr
    error: `--hunks` cannot be `0`
      hint: expected a number from 1 to 65535
    ");
}

/// In GitHub Actions, each of these hunks is a warning on its lines.
#[test]
fn unnoticed_hunks_are_annotated_in_ci() {
    let sandbox = adder().env("GITHUB_ACTIONS", "true");
    adder_of_three(&sandbox);
    let shown = prove(&sandbox, &["--hunks", "9"]);
    let annotations: Vec<_> = shown.lines().filter(|line| line.starts_with("::")).collect();
    assert_eq!(
        annotations,
        [
            "::warning file=add.sh,line=1,endLine=1,title=no test notices this::every test still passes without this part of the change",
            "::warning file=unused.sh,title=no test notices this::every test still passes without this part of the change",
        ]
    );
}
