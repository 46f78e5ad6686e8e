//! A run with an amended old test, disputes and a waiver: what its journal records, and what its report shows.

use crate::judges::{REVIEW, met};
use crate::prove::SUITE;
use crate::sandbox::{CommandOutcome, SESSION, Sandbox, run_command};
use insta::assert_snapshot;
use regex::Regex;
use serde_json::{Value, json};
use std::fs;

const POLICY: &str = r#"
[verify]
checkout = "clean"
may_change = ["tests/zero.sh"]

[[gate]]
name = "suite"
run = ["sh", "suite.sh"]
report = "tap"

[[gate]]
name = "lint"
run = ["sh", "lint.sh"]
env = ["LINTED"]
rerun = "always"

[[gate]]
name = "notes"
run = ["grep", "-q", "sums", "NOTES"]
"#;

/// Fails on every line with LATER. When the work is done, it also fails once for no reason.
const LINT: &str = "grep -n LATER add.sh && exit 1\ngrep -q none add.sh || exit 0\ntest -e $LINTED && exit 0\necho once > $LINTED\necho 'the linter did not start'\nexit 1\n";
const GOAL: &str = "Let add.sh add any number of arguments, and print `none` without any.";
const HALF_SUM: &str = "# LATER: none\nsum=0; for one; do sum=$((sum + one)); done; echo $sum\n";
const WHOLE_SUM: &str = "test $# -gt 0 || { echo none; exit; }\nsum=0; for one; do sum=$((sum + one)); done; echo $sum\n";

/// What a person does about the dispute over `lint`.
#[derive(Clone, Copy, PartialEq)]
enum Waiving {
    Waived,
    /// The waiver is revoked, and the agent repairs what it disputed.
    Undone,
}

struct AmendedRun {
    sandbox: Sandbox,
    run: String,
}

impl AmendedRun {
    /// Plays the run to its end. It has this many more gates, which pass as soon as the work is done.
    fn play(waiving: Waiving, more_gates: u32) -> Self {
        let sandbox = Sandbox::new().env("USER", "ada");
        let linted = sandbox.root().join("linted");
        let sandbox = sandbox.env("LINTED", linted.to_str().unwrap());
        let more = (1..=more_gates).map(|number| {
            format!("\n[[gate]]\nname = \"sum-{number}\"\nrun = [\"sh\", \"-c\", \"test \\\"$(sh add.sh 1 1 {number})\\\" = {}\"]\n", number + 2)
        });
        let policy = more.fold(format!("{POLICY}\n{REVIEW}"), |policy, gate| policy + &gate);
        sandbox.write("ralph.toml", policy);
        sandbox.write("suite.sh", SUITE);
        sandbox.write("lint.sh", LINT);
        sandbox.write("judge.sh", format!("cat > /dev/null\necho '{}'\n", met()));
        sandbox.write("NOTES", "add.sh adds two numbers\n");
        sandbox.write("add.sh", "echo $(($1 + $2))\n");
        sandbox.write("tests/adds.sh", "test \"$(sh add.sh 1 2)\" = 3\n");
        sandbox.write("tests/zero.sh", "test \"$(sh add.sh 0 0)\" = 0\n");
        sandbox.approve_policy();
        sandbox.commit();
        let run = sandbox.start_run([GOAL]);
        let played = Self { sandbox, run };
        played.work(waiving);
        played
    }

    fn work(&self, waiving: Waiving) {
        let sandbox = &self.sandbox;
        // At first nothing is added, so that every gate of a sum fails.
        sandbox.write("add.sh", "# LATER: none\necho\n");
        self.stop();
        // The same work again, so that every result is known already.
        self.stop();
        self.agent(&["dispute", "lint", "the note is only a reminder"]);
        self.agent(&["dispute", "suite", "zero.sh wants the old output"]);
        self.person(&[
            "tell",
            &self.run,
            "zero.sh may change: without arguments the output is none",
        ]);
        self.person(&["waive", "lint", "--until", "2d", "--why", "the note may stay"]);
        sandbox.write("add.sh", HALF_SUM);
        sandbox.write("tests/zero.sh", "test \"$(sh add.sh)\" = none\n");
        sandbox.write("tests/three.sh", "test \"$(sh add.sh 1 2 3)\" = 6\n");
        self.stop();
        let note = if waiving == Waiving::Waived { "# LATER: no loop\n" } else { "" };
        sandbox.write("add.sh", format!("{note}{WHOLE_SUM}"));
        self.stop();
        if waiving == Waiving::Undone {
            self.person(&["waive", "--undo", "lint"]);
        }
        sandbox.write("NOTES", "add.sh prints sums\n");
        self.stop();
    }

    fn stop(&self) -> CommandOutcome {
        self.sandbox.send_stop(SESSION, "")
    }

    fn agent(&self, args: &[&str]) {
        let mut command = self.sandbox.command();
        command.args(args).env("CLAUDECODE", "1").env("CLAUDE_CODE_SESSION_ID", SESSION);
        let said = run_command(&mut command, b"");
        assert_eq!(said.code, Some(0), "{said}");
    }

    fn person(&self, args: &[&str]) {
        let said = self.sandbox.ralph_at_terminal(args);
        assert_eq!(said.code, Some(0), "{said}");
    }

    fn report(&self) -> String {
        mask_report(&self.sandbox.ralph(["report", &self.run]).stdout)
    }

    fn changes(&self) -> Vec<Value> {
        let path = self.sandbox.ralph_home("runs").join(&self.run).join("journal.jsonl");
        let journal = fs::read_to_string(path).unwrap();
        let entry = |line: &str| serde_json::from_str::<Value>(line).unwrap()["change"].take();
        journal.lines().map(entry).collect()
    }
}

/// A person sees the amended test, the waiver and how each dispute ended before anything else.
#[test]
fn a_report_begins_with_what_a_person_has_to_judge() {
    let proved = AmendedRun::play(Waiving::Undone, 0).report();
    assert_snapshot!(proved);
    let claimed = AmendedRun::play(Waiving::Waived, 0).report();
    let first = claimed.split("\n## ").find(|part| part.starts_with("Look at this first"));
    assert_snapshot!(first.unwrap(), @"
    Look at this first

    1. an old test file was changed: `tests/zero.sh (modified)`
    2. waived (stop 2): lint waived by ada: the note may stay
    3. disputed by the agent (stop 2): lint (upheld by ada): the note is only a reminder
    4. disputed by the agent (stop 2): `suite (met later): zero.sh wants the old output`
    5. perhaps not asked for (a guess: the goal names other files): `NOTES, tests/three.sh`
    ");
}

fn mask_report(report: &str) -> String {
    let mut text = report.to_string();
    for (pattern, mask) in [
        (r"\d{4}-\d\d-\d\d", "DATE"),
        (r"\bUTC([+-]\d+(:\d\d)?)?", "ZONE"),
        (r"\d\d:\d\d(:\d\d)?", "TIME"),
        (r"\b\d+(\.\d+)? (ms|s|min)\b", "DURATION"),
        (r"\b[0-9a-f]{7,64}\b", "ID"),
        (r"(ralph (why|report|verify-report|checkpoint diff)|Run) `?[0-9a-z]{4}\b`?", "$1 RUN"),
        (r"--out [0-9a-z]{4}\.", "--out RUN."),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned();
    }
    text
}

/// The journal has all that a stop rests on, whatever the number of requirements.
#[test]
fn a_journal_records_everything_that_a_stop_rests_on() {
    let played = AmendedRun::play(Waiving::Undone, 22);
    let changes = played.changes();
    let stops = changes.iter().filter_map(|change| change.get("decided"));
    let shown: Vec<String> = stops.map(describe_stop).collect();
    assert_snapshot!(shown.join("\n\n"), @r#"
    "block" blocked
    lines: 17 sums, suite, lint, notes
    also open: 5 sums, review
    met: 0 sums, a change, policy, tools, nothing hidden
    checkpoint: 1
    suite tree failed, cached unknown, steadiness confirmed, findings 2, tests {failed:2,run:2,skipped:0}, log suite
    lint tree failed, cached unknown, steadiness confirmed, findings 1, tests null, log lint
    notes tree failed, cached null, steadiness null, findings 1, tests null, log notes

    "block" blocked
    lines: 17 sums, suite, lint, notes
    also open: 5 sums, review
    met: 0 sums, a change, policy, tools, nothing hidden
    checkpoint: 1
    suite tree failed, cached unknown, steadiness confirmed, findings 2, tests {failed:2,run:2,skipped:0}, log suite
    lint tree failed, cached unknown, steadiness confirmed, findings 1, tests null, log lint
    notes tree failed, cached true, steadiness null, findings 1, tests null, log notes

    "block" blocked
    lines: 0 sums, message from a person, suite, notes, review, lint
    also open: 0 sums
    met: 22 sums, a change, policy, tools, nothing hidden
    checkpoint: 2
    suite tree failed, cached unknown, steadiness confirmed, findings 1, tests {failed:1,run:3,skipped:0}, log suite
    lint tree failed, cached unknown, steadiness confirmed, findings 1, tests null, log lint
    notes tree failed, cached null, steadiness null, findings 1, tests null, log notes

    "block" blocked
    lines: 0 sums, notes, review, lint (flaky)
    also open: 0 sums
    met: 22 sums, a change, policy, tools, nothing hidden, suite, lint
    checkpoint: 3
    suite tree passed, cached null, steadiness null, findings null, tests {failed:0,run:3,skipped:0}, log suite
    lint tree passed, cached null, steadiness flaky, findings 1, tests null, log lint
    notes tree failed, cached null, steadiness null, findings 1, tests null, log notes

    "verified" ended
    lines: 0 sums
    also open: 0 sums
    met: 44 sums, a change, policy, tools, nothing hidden, suite, lint, notes, suite (clean checkout), lint (clean checkout), notes (clean checkout), review
    checkpoint: 4
    suite tree passed, cached null, steadiness null, findings null, tests {failed:0,run:3,skipped:0}, log suite
    lint tree passed, cached null, steadiness null, findings null, tests null, log lint
    notes tree passed, cached null, steadiness null, findings null, tests null, log notes
    suite clean passed, cached null, steadiness null, findings null, tests {failed:0,run:3,skipped:0}, log suite
    lint clean passed, cached null, steadiness null, findings null, tests null, log lint
    notes clean passed, cached null, steadiness null, findings null, tests null, log notes
    judge "review" "met"
    proof: {"allowed":["tests/zero.sh"],"broken_count":0,"held":2,"runs":{"base":{"failed":1,"gates":25,"passed":1,"tests":2},"gates":25,"new_tests":25,"old_tests":25},"telling":25,"verdict":"verified"}
    "#);
    let others = changes.iter().filter(|change| change.get("decided").is_none()).skip(1);
    let other = |change: &Value| {
        let (kind, rest) = change.as_object().unwrap().iter().next().unwrap();
        let mut rest = rest.clone();
        if let Some(until) = rest.get_mut("until_ms") {
            *until = json!("TIME");
        }
        format!("{kind}: {rest}")
    };
    assert_snapshot!(others.map(other).collect::<Vec<_>>().join("\n"), @r#"
    disputed: {"requirement":"lint","why":"the note is only a reminder"}
    disputed: {"requirement":"suite","why":"zero.sh wants the old output"}
    hint_given: {"by":"ada","text":"zero.sh may change: without arguments the output is none"}
    waived: {"by":"ada","requirement":"lint","until_ms":"TIME","why":"the note may stay"}
    waiver_revoked: {"requirement":"lint"}
    "#);
}

/// What one stop recorded. Gates of sums are counted.
fn describe_stop(stop: &Value) -> String {
    let report = &stop["report"];
    let names = |list: &Value| -> Vec<String> {
        let names = list.as_array().into_iter().flatten();
        names.map(|name| name.as_str().unwrap_or_default().to_string()).collect()
    };
    let lines: Vec<String> = report["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["name"].as_str().unwrap().to_string())
        .collect();
    let (also_open, met) = (names(&report["also_open"]), names(&report["met"]));
    let mut shown = vec![
        format!("{} {}", stop["rule"], stop["outcome"].as_object().unwrap().keys().next().unwrap()),
        format!("lines: {}", without_sums(&lines)),
        format!("also open: {}", without_sums(&also_open)),
        format!("met: {}", without_sums(&met)),
        format!("checkpoint: {}", stop["judged"]["checkpoint"]),
    ];
    let gates = stop["gates"].as_array().into_iter().flatten();
    for gate in gates.filter(|gate| !gate["name"].as_str().unwrap().starts_with("sum-")) {
        let log = gate["log"].as_str().unwrap_or("none");
        let log = log.rsplit_once('-').map_or(log, |(start, _)| start.rsplit('/').next().unwrap());
        let [name, site, outcome, cached, steadiness, findings, tests] =
            ["name", "site", "outcome", "cached", "steadiness", "findings", "tests"]
                .map(|field| gate[field].to_string().replace('"', ""));
        // On a slow machine a stop is answered before failures are compared with the base, and the next one then counts
        // as the first use of their results.
        let cached = if steadiness == "confirmed" { "unknown" } else { &cached };
        shown.push(format!(
            "{name} {site} {outcome}, cached {cached}, steadiness {steadiness}, findings {findings}, tests {tests}, log {log}"
        ));
    }
    let judges = stop["judges"].as_array().into_iter().flatten();
    shown.extend(judges.map(|judge| format!("judge {} {}", judge["name"], judge["outcome"])));
    if let Some(proof) = stop.get("proof") {
        shown.push(format!("proof: {proof}"));
    }
    shown.join("\n")
}

fn without_sums(names: &[String]) -> String {
    let (sums, others): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with("sum-"));
    let mut shown = vec![format!("{} sums", sums.len())];
    shown.extend(others.into_iter().cloned());
    shown.join(", ")
}
