//! Conditions on gates and chunks: coverage, numbers of findings, the slow tier, and approvals by a person.

use crate::gates::write_script;
use crate::judges::{JudgedProject, REVIEW, met};
use crate::runner::RunnerSandbox;
use crate::sandbox::{SESSION, Sandbox, without_proof};
use insta::assert_snapshot;
use std::fs;
use std::io::Read;

/// Measures which lines of `shop.py` the tests run, with the standard library alone, and reports them in any format.
const MEASURE: &str = r#"import json, os, runpy, sys, trace

sys.dont_write_bytecode = True
tracer = trace.Trace(count=1, trace=0)
tracer.runfunc(runpy.run_path, "test_shop.py", run_name="__main__")
hits = {line for (file, line) in tracer.results().counts if file.endswith("shop.py") and "test_" not in file}
lines = {line: int(line in hits) for line in sorted(trace._find_executable_linenos("shop.py")) if line > 0}
with open(sys.argv[1], "w") as out:
    form = (sys.argv + ["lcov"])[2]
    if form == "lcov":
        counts = "".join(f"DA:{line},{count}\n" for line, count in lines.items())
        out.write(f"TN:\nSF:shop.py\n{counts}end_of_record\n")
    elif form == "cobertura":
        counts = "".join(f'<line number="{line}" hits="{count}"/>' for line, count in lines.items())
        names = '<sources><source>.</source></sources><packages><package name="."><classes>'
        found = f'<class name="shop" filename="shop.py"><methods/><lines>{counts}</lines></class>'
        out.write(f'<?xml version="1.0"?><coverage>{names}{found}</classes></package></packages></coverage>')
    elif form == "llvm-cov":
        ends = [([line, 1, count, True, True, False], [line, 99, 0, False, False, False]) for line, count in lines.items()]
        files = [{"filename": os.path.abspath("shop.py"), "segments": sum(map(list, ends), [])}]
        json.dump({"data": [{"files": files}], "type": "llvm.coverage.json.export", "version": "2.0.1"}, out)
    elif form == "go-cover":
        blocks = "".join(f"example.com/mall/shop.py:{line}.1,{line}.99 1 {count}\n" for line, count in lines.items())
        out.write(f"mode: set\n{blocks}")
"#;

const COVERAGE_POLICY: &str = r#"
[[gate]]
name = "coverage"
run = ["python3", "measure.py", "{report}"]
report = "lcov"
min_coverage = 50
min_changed_coverage = 100
coverage_ratchet = true
"#;

const SHOP: &str = "def total(prices):\n    return sum(prices)\n";
const SHOP_TEST: &str = "from shop import *\nassert total([1, 2]) == 3\n";
const DISCOUNT: &str = "\n\ndef discount(prices, percent):\n    if percent > 100:\n        raise ValueError(percent)\n    return total(prices) * (100 - percent) / 100\n";

fn sandbox_with_coverage() -> Sandbox {
    sandbox_with_policy(&without_proof(COVERAGE_POLICY))
}

fn sandbox_with_policy(policy: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", policy);
    sandbox.write("measure.py", MEASURE);
    sandbox.write("shop.py", SHOP);
    sandbox.write("test_shop.py", SHOP_TEST);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

/// What a stop says about its gates, without the goal and the frame.
fn requirement_lines(sandbox: &Sandbox, text: &str) -> String {
    let text = sandbox.normalize(text);
    let shown = text.lines().filter(|line| {
        let start = line.trim_start();
        ["✗", "·", "?", "│", "Next"].iter().any(|mark| start.starts_with(mark))
            && !line.contains("make it work")
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// What `ralph gate run` finds, one gate per line.
fn gate_lines(sandbox: &Sandbox, args: &[&str]) -> String {
    let ran = sandbox.ralph(["gate", "run", "--json"].iter().chain(args));
    let ran: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let gates = ran["gates"].as_array().unwrap().iter().map(|gate| {
        let notes = [&gate["why"], &gate["findings"][0]["message"]];
        let mut notes = notes.into_iter().filter_map(serde_json::Value::as_str);
        let note = notes.next().unwrap_or_default();
        let name = format!("{} {}: {note}", gate["name"], gate["outcome"]).replace('"', "");
        name.trim_end().to_string()
    });
    gates.collect::<Vec<_>>().join("\n")
}

/// R-L3a: work whose new lines no test runs is not done, and the lines are named, whatever format the report has.
#[test]
fn changed_lines_must_be_covered() {
    let [story, others @ ..] =
        ["lcov", "cobertura", "llvm-cov", "go-cover"].map(play_until_covered);
    assert_snapshot!(story, @r#"
    ✗ coverage (correctness): coverage is 50 % (3 of 6 lines), it was 100 % (2 of 2 lines) at the base of the run
    │ coverage of the changed lines is 25 % (1 of 4 lines), 100 % is required [low-coverage]
    │ shop.py:6: lines 6 to 8 are not covered [not-covered]
    Next: Make coverage pass. Then stop again
    ✗ coverage (correctness): coverage is 83.33 % (5 of 6 lines), it was 100 % (2 of 2 lines) at the base of the run
    │ coverage of the changed lines is 75 % (3 of 4 lines), 100 % is required [low-coverage]
    │ shop.py:7: not covered [not-covered]
    Next: Make coverage pass. Then stop again
    verified {"covered":6,"lines":6} {"covered":4,"lines":4}
    "#);
    for other in others {
        assert_eq!(other, story);
    }
}

/// New code without tests, with a test of half of it, and with tests of all of it.
fn play_until_covered(format: &str) -> String {
    let policy = COVERAGE_POLICY
        .replace("\"{report}\"", &format!("\"{{report}}\", \"{format}\""))
        .replace("report = \"lcov\"", &format!("report = \"{format}\""));
    let sandbox = sandbox_with_policy(&without_proof(&policy));
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("shop.py", format!("{SHOP}{DISCOUNT}"));
    let mut story = Vec::new();
    let half = "assert discount([100], 10) == 90\n";
    for tests in ["", half] {
        sandbox.write("test_shop.py", format!("{SHOP_TEST}{tests}"));
        let held = sandbox.send_stop(SESSION, "");
        story.push(requirement_lines(&sandbox, &held.to_string()));
    }
    let both = format!("{half}try:\n    discount([1], 101)\nexcept ValueError:\n    pass\n");
    sandbox.write("test_shop.py", format!("{SHOP_TEST}{both}"));
    sandbox.send_stop(SESSION, "");
    let journal = fs::read_to_string(sandbox.ralph_home(&format!("runs/{run}/journal.jsonl")));
    let journal = journal.unwrap();
    let last = journal.lines().rev().find(|line| line.contains("\"gates\"")).unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    let gate = &last["change"]["decided"]["gates"][0];
    let (status, _) = sandbox.run_status(&run);
    story.push(format!("{status} {} {}", gate["coverage"], gate["changed_coverage"]));
    story.join("\n")
}

const FLOOR_POLICY: &str = r#"
[[gate]]
name = "coverage"
run = ["python3", "measure.py", "{report}"]
report = "lcov"
min_coverage = 90
"#;

/// Old tests cover less of new code than the policy asks for. A proof by hand leaves such conditions out, as that of a
/// run does.
#[test]
fn a_proof_by_hand_has_no_conditions_on_coverage() {
    let sandbox = sandbox_with_policy(FLOOR_POLICY);
    let tests = "assert discount([100], 10) == 90\ntry:\n    discount([1], 101)\nexcept ValueError:\n    pass\n";
    sandbox.write("shop.py", format!("{SHOP}{DISCOUNT}"));
    assert_eq!(
        gate_lines(&sandbox, &[]),
        "coverage failed: coverage is 50 % (3 of 6 lines), 90 % is required"
    );
    let shown = sandbox.ralph(["gate", "run"]).stdout;
    let shown: Vec<_> = shown.lines().filter(|line| line.starts_with("      ")).collect();
    assert_snapshot!(shown.join("\n"), @"      shop.py:6: 3 of 6 lines are not covered: 6 to 8 [not-covered]");
    sandbox.write("test_shop.py", format!("{SHOP_TEST}{tests}"));
    assert_eq!(gate_lines(&sandbox, &[]), "coverage passed:");
    let proved = sandbox.ralph(["prove", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&proved.stdout).unwrap();
    assert_eq!((proved.code, shown["verdict"].as_str()), (Some(0), Some("verified")), "{proved}");
}

/// Excluded files count neither for the floor nor for anything else.
#[test]
fn excluded_files_do_not_count_for_the_floor() {
    let sandbox = sandbox_with_policy(&format!("{FLOOR_POLICY}coverage_exclude = [\"shop.py\"]\n"));
    sandbox.write("shop.py", format!("{SHOP}{DISCOUNT}"));
    assert_eq!(
        gate_lines(&sandbox, &[]),
        "coverage inconclusive: `coverage_exclude` leaves no lines of the report"
    );
    sandbox.write("ralph.toml", format!("{FLOOR_POLICY}coverage_exclude = [\"gen/**\"]\n"));
    sandbox.approve_policy();
    assert_eq!(
        gate_lines(&sandbox, &[]),
        "coverage failed: coverage is 50 % (3 of 6 lines), 90 % is required"
    );
}

/// A file that the tests never load is not in the report. What could run in it counts as not covered: in a new file, in the
/// body of a function of an old one, and in a script. Constants and documents do not.
#[test]
fn a_changed_file_that_the_report_does_not_name_is_not_covered() {
    let wrap = "LIMIT = 3\n\n\ndef wrap(thing):\n    # with a bow\n    return [thing]\n";
    let script = "#!/usr/bin/env python3\nfrom shop import total\nprint(total([1]))\n";
    let two_bows = wrap.replace("[thing]", "[thing, thing]");
    let other_sum = script.replace("[1]", "[1, 2]");
    let cases = [
        ("gift.py", "", wrap),
        ("gift.py", wrap, two_bows.as_str()),
        ("price", script, other_sum.as_str()),
        ("limits.py", "LIMIT = 3\n", "LIMIT = 4\n"),
        ("README.md", "", wrap),
    ];
    let story = cases.map(|(path, before, after)| {
        let sandbox = sandbox_with_coverage();
        sandbox.write(path, before);
        sandbox.commit();
        let run = sandbox.start_run(["--goal-file", "-"]);
        sandbox.write(path, after);
        let stop = sandbox.send_stop(SESSION, "").to_string();
        let (status, _) = sandbox.run_status(&run);
        format!("{path}: {status}\n{}", requirement_lines(&sandbox, &stop))
    });
    assert_snapshot!(story.join("\n"), @"
    gift.py: held
    ✗ coverage (correctness): coverage of the changed lines is 0 % (0 of 3 lines), 100 % is required
    │ gift.py:1: not covered: the coverage report does not name this file [not-covered]
    Next: Make coverage pass. Then stop again
    gift.py: held
    ✗ coverage (correctness): coverage of the changed lines is 0 % (0 of 1 line), 100 % is required
    │ gift.py:6: not covered: the coverage report does not name this file [not-covered]
    Next: Make coverage pass. Then stop again
    price: held
    ✗ coverage (correctness): coverage of the changed lines is 0 % (0 of 1 line), 100 % is required
    │ price:3: not covered: the coverage report does not name this file [not-covered]
    Next: Make coverage pass. Then stop again
    limits.py: verified

    README.md: verified
    ");
}

/// R-S5a: a test runs itself, so trivial tests do not raise the share of the changed lines.
#[test]
fn lines_of_tests_are_not_lines_to_cover() {
    let sandbox = sandbox_with_coverage();
    let measured = MEASURE.replace(
        "    elif form == \"cobertura\"",
        "        out.write(\"SF:test_shop.py\\n\")\n        for line in range(1, 40):\n            out.write(f\"DA:{line},1\\n\")\n        out.write(\"end_of_record\\n\")\n    elif form == \"cobertura\"",
    );
    sandbox.write("measure.py", measured);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("shop.py", format!("{SHOP}{DISCOUNT}"));
    sandbox.write("test_shop.py", format!("{SHOP_TEST}{}", "assert 1 + 1 == 2\n".repeat(30)));
    let held = sandbox.send_stop(SESSION, "");
    assert_snapshot!(requirement_lines(&sandbox, &held.to_string()), @"
    ✗ coverage (correctness): coverage is 93.33 % (42 of 45 lines), it was 100 % (41 of 41 lines) at the base of the run
    │ coverage of the changed lines is 25 % (1 of 4 lines), 100 % is required [low-coverage]
    │ shop.py:6: lines 6 to 8 are not covered [not-covered]
    Next: Make coverage pass. Then stop again
    ");
}

/// R-S5a: a change cannot exempt its own lines: not by a mark, not by a name, and not by bytes that are no text.
#[test]
fn a_change_does_not_choose_what_is_measured() {
    let sandbox = sandbox_with_coverage();
    // Like coverage.py, it leaves out what a mark excludes; here everything below the mark.
    let first_excluded =
        "next((n for n, text in enumerate(open(\"shop.py\"), 1) if \"no cover\" in text), 1000)";
    let excluding = MEASURE.replace("if line > 0}", &format!("if 0 < line < {first_excluded}}}"));
    sandbox.write("measure.py", excluding);
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    let stop = || requirement_lines(&sandbox, &sandbox.send_stop(SESSION, "").to_string());
    sandbox.write(
        "shop.py",
        format!("{SHOP}{}", DISCOUNT.replace("percent):", "percent):  # pragma: no cover")),
    );
    assert_snapshot!(stop(), @"
    ✗ coverage (correctness): coverage of the changed lines is 0 % (0 of 4 lines), 100 % is required
    │ shop.py:5: `pragma: no cover` keeps changed lines from being measured [not-covered]
    Next: Make coverage pass. Then stop again
    ");
    sandbox.write("shop.py", format!("{SHOP}# nothing\n"));
    sandbox.write("gift.generated.py", "def wrap(thing):\n    return [thing]\n");
    assert_snapshot!(stop(), @"
    ✗ coverage (correctness): coverage of the changed lines is 0 % (0 of 2 lines), 100 % is required
    │ gift.generated.py:1: not covered: the coverage report does not name this file [not-covered]
    Next: Make coverage pass. Then stop again
    ");
    sandbox.write("gift.generated.py", "def wrap(thing):\n    return [thing]  # \u{0}\n");
    assert_snapshot!(stop(), @"
    ? coverage (correctness): no result: the changed lines of `gift.generated.py` are not known: it is not text, or too large
    Next: If your changes broke coverage, fix it; otherwise leave it to a person. Then stop again
    ");
    assert_eq!(sandbox.run_status(&run).0, "held");
}

/// R-S5a: the share of covered lines may not fall, and a base that cannot be measured is no pass.
#[test]
fn coverage_must_not_fall_below_the_start() {
    let sandbox = sandbox_with_coverage();
    sandbox.write("shop.py", format!("{SHOP}{DISCOUNT}"));
    sandbox.write("test_shop.py", format!("{SHOP_TEST}assert discount([100], 10) == 90\n"));
    sandbox.commit();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("test_shop.py", SHOP_TEST);
    let held = sandbox.send_stop(SESSION, "");
    assert_snapshot!(requirement_lines(&sandbox, &held.to_string()), @"
    ✗ coverage (correctness): coverage is 50 % (3 of 6 lines), it was 83.33 % (5 of 6 lines) at the base of the run
    Next: Make coverage pass. Then stop again
    ");
}

/// R-L3f: a report without lines, of another run or of no file of the project is no evidence.
#[test]
fn a_coverage_report_without_lines_is_no_pass() {
    let sandbox = Sandbox::new();
    let gate = |name: &str, shell: &str, more: &str| {
        format!("[[gate]]\nname = \"{name}\"\nshell = '{shell}'\nreport = \"lcov\"\n{more}\n")
    };
    let policy = [
        gate("empty", ": > \"$RALPH_REPORT\"", ""),
        gate("none", "true \"$RALPH_REPORT\"", ""),
        gate("old", "true", "report_files = [\"old.info\"]"),
        gate("foreign", "printf \"SF:/usr/lib/x.py\\nDA:1,1\\nend_of_record\\n\"", ""),
        gate("low", "cat old.info", "min_coverage = 66.67"),
        gate("enough", "cat old.info", "min_coverage = 66.66"),
    ];
    sandbox.write("ralph.toml", policy.concat());
    sandbox.write("a.py", "a = 1\nb = 2\nc = 3\n");
    sandbox.write("old.info", "SF:a.py\nDA:1,1\nDA:2,1\nDA:3,0\nend_of_record\n");
    sandbox.commit();
    sandbox.approve_policy();
    assert_snapshot!(gate_lines(&sandbox, &["--all"]), @"
    empty inconclusive: the report is empty
    none inconclusive: the report was not written
    old inconclusive: the report was not written
    foreign inconclusive: the report names no file of the project; its first file is `/usr/lib/x.py`
    low failed: coverage is 66.66 % (2 of 3 lines), 66.67 % is required
    enough passed:
    ");
}

/// Findings are limited by severity. A security severity of 7 or more counts as an error.
#[test]
fn findings_are_limited_by_severity() {
    let sandbox = Sandbox::new();
    let finding = |level: &str, rule: &str| {
        format!(
            r#"{{"ruleId":"{rule}",{level}"message":{{"text":"found {rule}"}},"locations":[{{"physicalLocation":{{"artifactLocation":{{"uri":"a.py"}},"region":{{"startLine":1}}}}}}]}}"#
        )
    };
    let rules = r#"{"id":"default","defaultConfiguration":{"level":"note"}},{"id":"leak","properties":{"security-severity":"8.1"}}"#;
    let sarif = |results: &[String]| {
        format!(
            r#"{{"version":"2.1.0","runs":[{{"tool":{{"driver":{{"name":"t","rules":[{rules}]}}}},"results":[{}]}}]}}"#,
            results.join(",")
        )
    };
    sandbox.write(
        "warnings.sarif",
        sarif(&[finding("", "a"), finding(r#""level":"warning","#, "b"), finding("", "default")]),
    );
    sandbox.write("leak.sarif", sarif(&[finding(r#""level":"warning","#, "leak")]));
    let levels = [r#""level":"note","#, r#""level":"error","#];
    sandbox.write("twice.sarif", sarif(&levels.map(|level| finding(level, "a"))));
    let odd = r#""level":"error","kind":"Fail","suppressions":[{"status":"Rejected"}],"#;
    sandbox.write("odd.sarif", sarif(&[finding(odd, "a")]));
    let same = r#"{"message":{"text":"found it"}}"#.to_string();
    sandbox.write("unplaced.sarif", sarif(&[same.clone(), same]));
    let gate = |name: &str, file: &str, exit: u8, more: &str| {
        format!(
            "[[gate]]\nname = \"{name}\"\nshell = 'cat {file}.sarif; exit {exit}'\nreport = \"sarif\"\n{more}\n"
        )
    };
    let policy = [
        gate("default", "warnings", 0, ""),
        gate("default-exit", "warnings", 1, ""),
        gate("within", "warnings", 1, "max_warnings = 2\nmax_notes = 1"),
        gate("warnings", "warnings", 0, "max_warnings = 1"),
        gate("notes", "warnings", 0, "max_notes = 0"),
        gate("crash", "warnings", 2, "max_warnings = 2"),
        gate("leak-default", "leak", 0, ""),
        gate("leak", "leak", 0, "max_warnings = 9"),
        gate("leak-allowed", "leak", 0, "max_errors = 1"),
        gate("twice", "twice", 0, "max_warnings = 9"),
        gate("odd", "odd", 0, "max_warnings = 9"),
        gate("unplaced", "unplaced", 0, "max_warnings = 1"),
    ];
    sandbox.write("ralph.toml", policy.concat());
    sandbox.write("a.py", "a = 1\n");
    sandbox.commit();
    sandbox.approve_policy();
    assert_snapshot!(gate_lines(&sandbox, &["--all"]), @"
    default passed: found a
    default-exit failed: found a
    within passed: found a
    warnings failed: 2 warnings (limit 1)
    notes failed: 1 note (limit 0)
    crash failed: found a
    leak-default passed: found leak (security severity 8.1)
    leak failed: 1 error (limit 0)
    leak-allowed passed: found leak (security severity 8.1)
    twice failed: 1 error (limit 0)
    odd failed: 1 error (limit 0)
    unplaced failed: 2 warnings (limit 1)
    ");
}

const TIER_POLICY: &str = r#"
[[gate]]
name = "check"
run = ["./check.sh"]

[[gate]]
name = "endurance"
run = ["./slow.sh"]
tier = "slow"
env = ["RAN"]
"#;

fn sandbox_with_tiers() -> Sandbox {
    let sandbox = Sandbox::new();
    let ran = sandbox.root().join("ran");
    let sandbox = sandbox.env("RAN", ran.to_str().unwrap());
    sandbox.write("ralph.toml", without_proof(TIER_POLICY));
    write_script(&sandbox, "check.sh", "#!/bin/sh\ngrep -q yes ok\n");
    write_script(&sandbox, "slow.sh", "#!/bin/sh\necho ran >> \"$RAN\"\n");
    sandbox.write("ok", "no\n");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

fn slow_runs(sandbox: &Sandbox) -> usize {
    fs::read_to_string(sandbox.root().join("ran")).unwrap_or_default().lines().count()
}

/// A slow gate costs nothing while another one fails, at a stop and by hand.
#[test]
fn slow_gates_run_when_nothing_else_is_open() {
    let sandbox = sandbox_with_tiers();
    assert_snapshot!(gate_lines(&sandbox, &[]), @"
    check failed: exit 1, no output
    endurance skipped: comes after the fast gates
    ");
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "begun\n");
    let held = sandbox.send_stop(SESSION, "");
    assert_snapshot!(requirement_lines(&sandbox, &held.to_string()), @"
    ✗ check (correctness): 1 finding, 1 pre-existing
    │ exit 1, no output (pre-existing)
    · endurance (correctness): comes after the fast gates
    Next: Make check pass. Then stop again
    ");
    let why = sandbox.ralph(["why", &run]);
    assert_snapshot!(requirement_lines(&sandbox, &why.stdout), @"
    ✗ check                1 finding, 1 pre-existing
    · endurance            comes after the fast gates
    ");
    assert_eq!(slow_runs(&sandbox), 0);
    sandbox.write("ok", "yes\n");
    sandbox.send_stop(SESSION, "");
    assert_eq!(sandbox.run_status(&run).0, "verified");
    assert_eq!(slow_runs(&sandbox), 1);
}

/// An agent that waits for a slow gate is not charged for a file that a gate wrote meanwhile, but for its own edit.
#[test]
fn files_that_gates_write_do_not_restart_a_wait() {
    let sandbox = sandbox_with_tiers();
    let go = sandbox.root().join("go");
    let check = "#!/bin/sh\necho 2 > made.lock\ngrep -q yes ok\n";
    write_script(&sandbox, "check.sh", check);
    let slow = format!("#!/bin/sh\nuntil [ -e {} ]; do sleep 0.05; done\n", go.display());
    write_script(&sandbox, "slow.sh", &slow);
    sandbox.write("made.lock", "1\n");
    sandbox.write("ok", "yes\n");
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    let stop = || {
        let event = sandbox.stop_event(SESSION, "");
        let held =
            sandbox.ralph_with_input(["hook", "claude", "--deadline", "8s"], event.as_bytes());
        let first = held.stderr.lines().next().unwrap_or_default();
        let iteration = sandbox.run_status(&run).1;
        format!("{} [{iteration} charged]", sandbox.normalize(first))
    };
    let waits = [stop(), stop()];
    assert_eq!(fs::read_to_string(sandbox.project().join("made.lock")).unwrap(), "2\n");
    sandbox.write("work", "done again\n");
    let waits = [&waits[..], &[stop()]].concat();
    assert_snapshot!(waits.join("\n"), @"
    ralph: waiting for endurance; nothing else is open (run [run]) [0 charged]
    ralph: waiting for endurance; nothing else is open (run [run]) [0 charged]
    ralph: waiting for endurance; nothing else is open (run [run]) [1 charged]
    ");
    fs::write(&go, "").unwrap();
    sandbox.ralph(["gate", "wait", &run, "--timeout", "1m"]);
    sandbox.send_stop(SESSION, "");
    assert_eq!(sandbox.run_status(&run).0, "verified");
}

/// An open check of a list keeps a slow gate from running too.
#[test]
fn slow_gates_wait_for_checks_of_lists() {
    let sandbox = sandbox_with_tiers();
    sandbox.write("ok", "yes\n");
    sandbox.commit();
    let list = "todo";
    let features = r#"[{"id":1,"description":"One","steps":[],"passes":true,"verify":["test","-e","wanted"]}]"#;
    sandbox.write(&format!("{list}/feature_list.json"), features);
    sandbox.commit();
    let shown = sandbox.ralph(["trust", "--json", "--features", list]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let hash = shown["lists"][0]["hash"].as_str().unwrap();
    assert_eq!(
        sandbox.ralph_at_terminal(["trust", "--hash", hash, "--features", list]).code,
        Some(0)
    );
    let run = sandbox.start_run(["--features", list]);
    sandbox.write("work", "begun\n");
    let held = sandbox.send_stop(SESSION, "");
    assert_snapshot!(requirement_lines(&sandbox, &held.to_string()), @r#"
    ✗ feature 1 (correctness): "One": `test -e wanted` fails: 1 finding
    │ exit 1, no output
    · endurance (correctness): comes after everything else is met
    Next: Work on feature 1 until `test -e wanted` passes. Then stop again
    "#);
    assert_eq!(slow_runs(&sandbox), 0);
    sandbox.write("wanted", "here\n");
    sandbox.send_stop(SESSION, "");
    assert_eq!((sandbox.run_status(&run).0.as_str(), slow_runs(&sandbox)), ("verified", 1));
}

pub const APPROVAL_POLICY: &str = r#"
[[pipeline.chunk]]
name = "design"
outputs = ["design.md"]
approval = true

[[pipeline.chunk]]
name = "code"
outputs = ["code.py"]
after = ["design"]
"#;

/// R-L5c: only a person approves. The run names what is waiting for approval, stays open, and continues once it is approved.
#[test]
fn a_chunk_waits_for_the_approval_of_a_person() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", without_proof(APPROVAL_POLICY));
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    let early = sandbox.ralph(["approve", &run, "design"]);
    assert_snapshot!(sandbox.normalize(&early.stderr), @"
    error: `design` of run `[run]` is not finished yet
      hint: only finished work can be approved; `ralph status [run]` shows what is open
    ");
    sandbox.write("design.md", "draw, then build\n");
    let released = sandbox.send_stop(SESSION, "");
    assert_snapshot!(sandbox.normalize(&released.to_string()), @r#"
    exit 0
    --- stdout
    {"systemMessage":"ralph: a person has to approve design: `ralph approve [run] design` (run [run])"}
    "#);
    assert_eq!(sandbox.fired_rules(&run), ["needs-human"]);
    // Work of another project is approved only by its name.
    let elsewhere = sandbox.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let outside = sandbox.command().arg("approve").current_dir(&elsewhere).output().unwrap();
    assert_snapshot!(sandbox.normalize(&String::from_utf8(outside.stderr).unwrap()), @"
    error: no run of this project waits for an approval
      hint: runs of other projects wait: `[run]`
    ");
    let status = sandbox.normalize(&sandbox.ralph(["status", &run]).stdout);
    let status = status.lines().filter(|line| !line.contains("iteration"));
    assert_snapshot!(status.collect::<Vec<_>>().join("\n"), @"
    [run]  asks          make it work
          ? waits for your approval: `ralph approve [run] design`
          ✓ a change  ✓ policy  ✓ tools  ✓ nothing hidden  ✓ 1 more  · chunk design  · chunk code
          pipeline 0 of 2 done
    ");
    // A message approves nothing: the run still waits, and says so everywhere.
    let told = sandbox.ralph(["tell", &run, "looks good"]);
    assert_eq!(told.code, Some(0), "{told}");
    let shown = sandbox.ralph(["status", &run]).stdout;
    let shown = sandbox.normalize(&shown);
    let waits: Vec<_> = shown
        .lines()
        .filter(|line| line.contains("your approval") || line.contains("message for"))
        .collect();
    assert_snapshot!(waits.join("\n"), @"
          ? waits for your approval: `ralph approve [run] design`
          · message for the next stop: looks good
    ");
    let indexed = sandbox.ralph(["sql", "SELECT status, question_approval FROM run"]);
    assert_snapshot!(indexed.stdout, @"
    status  question_approval
    asks    design
    ");
    assert!(sandbox.send_stop(SESSION, "").is_block());
    // It is asked again, without a charge, and never ends the run.
    assert_eq!(sandbox.send_stop(SESSION, "").notice(), released.notice());
    assert_eq!(sandbox.run_status(&run), ("asks".to_string(), 1));
    let refused = sandbox.ralph_without_terminal(&["approve", &run, "design"]);
    assert_snapshot!(sandbox.normalize(&refused.stderr), @"
    error: run `[run]` holds an agent, so a person has to confirm this, but there is no terminal; nothing was changed
      hint: run it in the foreground of your own terminal
    ");
    let approved = sandbox.ralph_at_terminal(["approve", &run, "design"]);
    assert_snapshot!(sandbox.normalize(&approved.stdout), @"[run]  `design` is approved; the agent continues at its next turn");
    // Nothing is asked twice, so it needs no terminal.
    let again = sandbox.ralph_without_terminal(&["approve", &run, "design"]);
    assert_snapshot!(sandbox.normalize(&again.to_string()), @"
    exit 0
    --- stdout
    [run]  `design` is already approved by a person
    ");
    let held = sandbox.send_stop(SESSION, "");
    assert_snapshot!(requirement_lines(&sandbox, &held.to_string()), @"
    ✗ chunk code (correctness): output code.py: there is no such file; no agent has worked on it yet
    Next: Do chunk `code`, yourself or with a subagent of type `code`: Write `code.py`
    ");
    sandbox.write("code.py", "built = True\n");
    sandbox.send_stop(SESSION, "");
    assert_eq!(sandbox.run_status(&run).0, "verified");
    let log = sandbox.ralph(["log", &run]);
    let log = sandbox.normalize(&log.stdout);
    let log = log.lines().find(|line| line.contains("approved")).unwrap();
    assert_snapshot!(log.split_once("  ").unwrap().1, @"approved   design by a person");
}

/// An agent that designs and stops, and builds when it is continued.
fn runner_with_approval() -> RunnerSandbox {
    let steps = r#"
[[step]]
tools = [{ write = "design.md", text = "draw, then build\n" }]

[[step]]
agent = "The design is there."

[[step]]
tools = [{ write = "code.py", text = "built = True\n" }]

[[step]]
agent = "It is built."
"#;
    RunnerSandbox::with_project(steps, |sandbox| {
        sandbox.write("ralph.toml", without_proof(APPROVAL_POLICY));
    })
}

/// R-L5c: a driven run waits for the approval while nothing is charged, and goes on in the same session once it is given.
#[test]
fn a_driven_run_waits_for_an_approval_and_goes_on() {
    let runner = runner_with_approval();
    let (mut child, mut events) = runner.start_until(&[], "question");
    let run = runner.run_id();
    let asks = runner.sandbox.ralph(["status", &run]).stdout;
    let asks = runner.sandbox.normalize(&asks);
    let asks = asks.lines().find(|line| line.contains('?')).unwrap_or_default();
    let until = regex::Regex::new(r"\d\d:\d\d:\d\d").unwrap();
    assert_snapshot!(until.replace(asks.trim(), "[time]"), @"? waits for your approval until [time]: `ralph approve [run] design`");
    let approved = runner.sandbox.ralph_at_terminal(["approve", &run, "design"]);
    assert_snapshot!(runner.sandbox.normalize(&approved.to_string()), @"
    exit 0
    --- stdout
    [run]  `design` is approved; the agent continues at its next turn
    ");
    let mut rest = String::new();
    events.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    0 allowed (needs-human)
    asks_person
    1 blocked (block)
    1 allowed (final-look)
    1 ended (verified)
    ");
}

/// R-L5c: without an approval in time, the run is parked, and resuming it after the approval finishes it.
#[test]
fn a_driven_run_is_parked_without_an_approval() {
    let runner = runner_with_approval();
    let settings = runner.sandbox.ralph_home("config.toml");
    fs::write(settings, "[runner]\nquestion_after = \"1s\"\n").unwrap();
    let ended = runner.start(&[]);
    assert_eq!(ended.code, Some(5), "{ended}");
    let run = runner.run_id();
    assert_eq!(runner.sandbox.run_status(&run).0, "parked");
    let early = runner.resume();
    assert_eq!(early.code, Some(5), "{early}");
    let approved = runner.sandbox.ralph_at_terminal(["approve", &run, "design"]);
    assert_snapshot!(runner.sandbox.normalize(&approved.to_string()), @"
    exit 0
    --- stdout
    [run]  `design` is approved; the agent continues at its next turn
    ");
    let resumed = runner.resume();
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_snapshot!(runner.journal_summary(), @"
    session fresh
    0 allowed (needs-human)
    asks_person
    parked needs_human
    session resumed
    0 allowed (needs-human)
    asks_person
    parked needs_human
    session resumed
    0 allowed (final-look)
    0 ended (verified)
    ");
}

/// In the session, a person approves what the run waits for with `/ralph:approve`.
#[test]
fn a_chunk_is_approved_in_the_session() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", without_proof(APPROVAL_POLICY));
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("design.md", "draw, then build\n");
    sandbox.write("code.py", "built = True\n");
    sandbox.send_stop(SESSION, "");
    let (context, notice) = sandbox.send_prompt(SESSION, "/ralph:approve").context_and_notice();
    assert_snapshot!(sandbox.normalize(&format!("{context}{notice:?}")), @r#"
    ralph: the person approved design of run [run]. Go on with the work.
    Some("ralph: design of run [run] is approved")
    "#);
    sandbox.send_stop(SESSION, "");
    assert_eq!(sandbox.run_status(&run).0, "verified");
}

/// A phase that the policy leaves to a person is open until the person approves it.
#[test]
fn a_phase_waits_for_the_approval_of_a_person() {
    let sandbox = Sandbox::new();
    let policy = "[orchestrator]\nplan = \"agent\"\napprovals = [\"implement\"]\n[run]\nchange = \"optional\"\n";
    sandbox.write("ralph.toml", policy);
    sandbox.commit();
    sandbox.approve_policy();
    let run = sandbox.ralph([
        "orchestrator",
        "start",
        "--session",
        SESSION,
        "--complexity",
        "3",
        "do it",
    ]);
    assert_eq!(run.code, Some(0), "{run}");
    let phases = run.stdout.lines().find(|line| line.contains("phases")).unwrap();
    assert_snapshot!(phases.trim(), @"phases  nine conditions, from clarify to retrospect, and 1 approval");
    for claim in ["memory_search", "must_have_answered", "plan_approved"] {
        assert_eq!(sandbox.ralph(["orchestrator", "set", claim, "--run", SESSION]).code, Some(0));
    }
    let show = || {
        let shown = sandbox.ralph(["orchestrator", "show"]).stdout;
        let shown = sandbox.normalize(&shown);
        let wanted = shown.lines().filter(|line| line.contains("→") || line.contains("implement"));
        wanted.filter(|line| !line.contains("missing")).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(show(), @"
    ✓ clarify → ✓ classify → ✓ plan → [implement] → validate → retrospect
    ✗ implementation complete       agent   not marked as complete yet
    ✗ implement approved            person  not approved yet
    ");
    sandbox.ralph(["learn", "approvals are recorded", "--run", SESSION]);
    let set =
        sandbox.ralph(["orchestrator", "set", "implementation_complete", "--run", SESSION]).stdout;
    assert_snapshot!(sandbox.normalize(&set), @"[run]  noted: implementation complete; missing: correctness passed, quality passed, implement approved");
    let shown = sandbox.ralph(["orchestrator", "show"]).stdout;
    let missing = shown.lines().find(|line| line.contains("missing:")).unwrap();
    assert_snapshot!(missing.trim(), @"missing: correctness passed, quality passed, implement approved");
    let released = sandbox.send_stop(SESSION, "");
    assert_snapshot!(sandbox.normalize(&released.notice()), @"ralph: a person has to approve implement: `ralph approve [run] implement` (run [run])");
    let approved = sandbox.ralph_at_terminal(["approve"]);
    assert_snapshot!(sandbox.normalize(&approved.stdout), @"[run]  `implement` is approved; the agent continues at its next turn");
    assert_snapshot!(show(), @"
    ✓ memory search  ✓ task classified  ✓ must-have questions answered  ✓ plan approved  ✓ 7 more  · implement approved  · correctness passed  · quality passed
    ✓ clarify → ✓ classify → ✓ plan → ✓ implement → ✓ validate → ✓ retrospect
    ✓ implementation complete       agent   claimed by the agent
    ✓ implement approved            person  by a person
    ");
}

const WHEN: &str = "when = [\"src/**\", \"!src/gen/**\"]\n";

/// Everything in this policy but `always` has a condition on the changed files.
const WHEN_POLICY: &str = r#"
[[gate]]
name = "always"
run = ["true"]

[[gate]]
name = "lint"
run = ["sh", "count.sh", "gate"]
WHEN
[[judge]]
name = "review"
kind = "prompt"
backend = { command = ["sh", "count.sh", "judge"] }
WHEN
[[ci]]
name = "build"
provider = "command"
run = ["sh", "count.sh", "ci", "{commit}"]
checks = ["build"]
WHEN"#;

fn sandbox_with_conditions() -> Sandbox {
    let sandbox = Sandbox::new();
    let calls = sandbox.root().join("calls").display().to_string();
    sandbox.write("ralph.toml", without_proof(&WHEN_POLICY.replace("WHEN", WHEN)));
    let script = format!(
        "echo $1 >> {calls}\ncase $1 in\n\
         judge) echo '{{\"verdict\":\"met\",\"findings\":[]}}' ;;\n\
         ci) echo \"{{\\\"commit\\\":\\\"$2\\\",\\\"checks\\\":[{{\\\"name\\\":\\\"build\\\",\\\"state\\\":\\\"passed\\\"}}]}}\" ;;\n\
         esac\n"
    );
    sandbox.write("count.sh", script);
    sandbox.commit();
    sandbox.approve_policy();
    sandbox
}

/// How often the gate, the judge and CI were asked.
fn counted_calls(sandbox: &Sandbox) -> String {
    let calls = fs::read_to_string(sandbox.root().join("calls")).unwrap_or_default();
    let count = |name: &str| calls.lines().filter(|call| *call == name).count();
    format!("gate {}, judge {}, ci {}", count("gate"), count("judge"), count("ci"))
}

/// A condition on files is met by a changed file that a glob includes and none excludes.
#[test]
fn a_condition_on_files_decides_what_is_asked() {
    let shown = ["src/a.rs", "docs/a.md", "src/gen/a.rs"].map(|changed| {
        let sandbox = sandbox_with_conditions();
        let run = sandbox.start_run(["--goal-file", "-"]);
        sandbox.write(changed, "work\n");
        sandbox.commit();
        sandbox.send_stop(SESSION, "");
        format!("{changed}: {}; {}", counted_calls(&sandbox), sandbox.run_status(&run).0)
    });
    assert_snapshot!(shown.join("\n"), @"
    src/a.rs: gate 1, judge 1, ci 1; verified
    docs/a.md: gate 0, judge 0, ci 0; verified
    src/gen/a.rs: gate 0, judge 0, ci 0; verified
    ");
}

/// A judge for hard work is not asked about easy work; work of unknown complexity counts as hard.
#[test]
fn a_judge_is_asked_from_its_complexity_on() {
    let shown = [Some("3"), Some("7"), None].map(|complexity| {
        let project = JudgedProject::new(&format!("{REVIEW}min_complexity = 7\n"));
        project.answer(&met());
        let given = complexity.map(|complexity| ["--complexity", complexity]);
        let args = ["--goal-file", "-"].into_iter().chain(given.into_iter().flatten());
        let run = project.sandbox.start_run(args);
        project.write_work();
        project.stop();
        format!("{complexity:?}: {} calls, {}", project.calls(), project.status(&run))
    });
    assert_snapshot!(shown.join("\n"), @r#"
    Some("3"): 0 calls, verified
    Some("7"): 1 calls, verified
    None: 1 calls, verified
    "#);
}
