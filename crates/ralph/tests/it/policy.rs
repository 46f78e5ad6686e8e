//! `ralph config`: the effective policy, the origin of its values, errors in policy files, and the generated reference.

use crate::sandbox::{Sandbox, run_command, write_file};
use insta::assert_snapshot;
use serde_json::Value;
use std::path::{Path, PathBuf};

const SAMPLE_POLICY: &str = r#"
[run]
max_iterations = 40

[[gate]]
name = "tests"
run = ["npx", "vitest", "run"]
timeout = "10m"

[environment]
set = { LANG = "C" }
"#;

/// `--explain` shows the origin of every value.
#[test]
fn config_explains_the_origin_of_every_value() {
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", SAMPLE_POLICY);
    write_file(
        &sandbox.ralph_home("config.toml"),
        "run.max_cost_usd = 5\nprotect.paths = ['ci/**']\n",
    );
    let explained = sandbox.ralph(["config", "--explain"]);
    assert_snapshot!(sandbox.normalize(&explained.to_string()), @r#"
    exit 0
    --- stdout
    run.max_iterations = 40                     ralph.toml:3
    run.min_iterations = 0                      default
    run.max_duration = "8h"                     default
    run.max_cost_usd = 5.0                      $ROOT/home/.ralph/config.toml:1
    run.max_tokens = 0                          default
    run.stuck_after = 3                         default
    run.handover_at = 0.8                       default
    run.baseline = "block"                      default
    run.change = "required"                     default
    run.on_tampering = "block"                  default
    session.gates = "goal"                      default
    session.holds = 3                           default
    session.slow = "1m"                         default
    gate.tests.stage = "correctness"            default
    gate.tests.run = ["npx", "vitest", "run"]   ralph.toml:7
    gate.tests.cwd = "."                        default
    gate.tests.timeout = "10m"                  ralph.toml:8
    gate.tests.paths = []                       default
    gate.tests.when = []                        default
    gate.tests.on = ["stop"]                    default
    gate.tests.min_complexity = 0               default
    gate.tests.required = true                  default
    gate.tests.report = "text"                  default
    gate.tests.report_files = []                default
    gate.tests.min_tests = "some"               default
    gate.tests.rerun = "tests"                  default
    gate.tests.env = []                         default
    gate.tests.tests = []                       default
    gate.tests.proof = true                     default
    gate.tests.tier = "fast"                    default
    gate.tests.min_coverage = 0.0               default
    gate.tests.min_changed_coverage = 0.0       default
    gate.tests.coverage_ratchet = false         default
    gate.tests.coverage_exclude = []            default
    lines.forbid = []                           default
    lines.exclude = []                          default
    protect.guard = "deny"                      default
    protect.paths = ["ci/**"]                   $ROOT/home/.ralph/config.toml:2
    tests.integrity = "block"                   default
    tests.red_first = "optional"                default
    tests.paths = []                            default
    tests.harness = []                          default
    verify.checkout = "auto"                    default
    verify.link = []                            default
    verify.claims = "claimed"                   default
    verify.proof = "full"                       default
    verify.accept = "verified"                  default
    verify.may_change = []                      default
    orchestrator.plan = "person"                default
    orchestrator.approvals = []                 default
    memory.learn = true                         default
    memory.sessions = false                     default
    memory.max_chars = 2000                     default
    environment.ci = true                       default
    environment.pass = []                       default
    environment.set.LANG = "C"                  ralph.toml:11
    runner.sessions = "hybrid"                  default
    runner.agent_arguments = []                 default
    runner.idle_after = "10m"                   default
    runner.question_after = "30m"               default
    runner.wait_for_limits = "0s"               default
    runner.max_resumes = 3                      default
    runner.limit_jitter = "5m"                  default
    runner.wait_for_errors = "1h"               default
    runner.worst_turn_usd = 1.0                 default
    runner.max_cost_per_day_usd = 0.0           default
    notify.bell = false                         default
    notify.desktop = false                      default
    notify.on = ["verified", "green", "claimed", "exhausted", "stuck", "needs_human", "needs_review", "gate_broken", "rate_limited", "overridden", "crashed", "question"]   default
    keep.runs = 100                             default
    keep.age = "30d"                            default
    keep.cache_mib = 2048                       default
    "#);
    let whole = sandbox.ralph(["config"]);
    assert_snapshot!(sandbox.normalize(&whole.to_string()), @r#"
    exit 0
    --- stdout
    [run]
    max_iterations = 40
    min_iterations = 0
    max_duration = "8h"
    max_cost_usd = 5.0
    max_tokens = 0
    stuck_after = 3
    handover_at = 0.8
    baseline = "block"
    change = "required"
    on_tampering = "block"

    [session]
    gates = "goal"
    holds = 3
    slow = "1m"

    [[gate]]
    name = "tests"
    stage = "correctness"
    run = ["npx", "vitest", "run"]
    cwd = "."
    timeout = "10m"
    paths = []
    when = []
    on = ["stop"]
    min_complexity = 0
    required = true
    report = "text"
    report_files = []
    min_tests = "some"
    rerun = "tests"
    env = []
    tests = []
    proof = true
    tier = "fast"
    min_coverage = 0.0
    min_changed_coverage = 0.0
    coverage_ratchet = false
    coverage_exclude = []

    [lines]
    forbid = []
    exclude = []

    [protect]
    guard = "deny"
    paths = ["ci/**"]

    [tests]
    integrity = "block"
    red_first = "optional"
    paths = []
    harness = []

    [verify]
    checkout = "auto"
    link = []
    claims = "claimed"
    proof = "full"
    accept = "verified"
    may_change = []

    [orchestrator]
    plan = "person"
    approvals = []

    [memory]
    learn = true
    sessions = false
    max_chars = 2000

    [environment]
    ci = true
    pass = []
    set.LANG = "C"
    "#);
    let printed = sandbox.ralph(["config", "--json"]);
    let json: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_snapshot!(sandbox.normalize(&serde_json::to_string(&json["policy"]).unwrap()), @r#"{"baseline":"block","change":"required","environment":{"pass":[],"set":[["LANG","C"]]},"gates":[{"command":{"argv":["npx","vitest","run"]},"cwd":"","env":[],"min_complexity":0,"min_tests":"some","name":"tests","on":["stop"],"paths":[],"report":"text","rerun":"tests","stage":"correctness","timeout_ms":600000,"weight":"required","when":[]}],"limits":{"handover_at_permille":800,"max_cost_micro_usd":5000000,"max_duration_ms":28800000,"max_iterations":40,"stuck_after":3},"lines":{"exclude":[],"forbid":[],"patterns":[]},"on_tampering":"block","protect":{"paths":["ci/**"]},"tests":{"integrity":"block","paths":[],"red_first":"optional"},"verify":{"checkout":"auto","link":[]}}"#);
    assert_snapshot!(sandbox.normalize(&serde_json::to_string(&json["origins"][0]).unwrap()), @r#"{"key":"run.max_iterations","layer":"project","line":3,"value":"40"}"#);

    // The printed policy parses to the same policy.
    sandbox.write("ralph.toml", &whole.stdout);
    let again = sandbox.ralph(["config", "--json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["policy"], json["policy"]);
}

#[test]
fn policy_errors_are_shown_with_their_location() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "ralph.toml",
        "[run]\nmax_iteration = 3\n\n[[gate]]\nname = \"tests\"\nrun = \"npm test\"\ntimout = \"5m\"\n",
    );
    write_file(&sandbox.ralph_home("config.toml"), "[run]\nbaseline = true\n");
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["config"]).to_string()), @r#"
    exit 1
    --- stderr
    error: `run.baseline` cannot be `true`
     --> $ROOT/home/.ralph/config.toml:2:12
      |
    2 | baseline = true
      |            ^^^^
      |
      = hint: expected one of `"block"`, `"ratchet"`

    error: unknown key `max_iteration`
     --> $ROOT/project/ralph.toml:2:1
      |
    2 | max_iteration = 3
      | ^^^^^^^^^^^^^
      |
      = hint: did you mean `max_iterations`?

    error: `gate.run` cannot be `"npm test"`
     --> $ROOT/project/ralph.toml:6:7
      |
    6 | run = "npm test"
      |       ^^^^^^^^^^
      |
      = hint: expected a list of words: `run = ["npm", "test"]`; for a shell command line use `shell = "…"`

    error: unknown key `timout`
     --> $ROOT/project/ralph.toml:7:1
      |
    7 | timout = "5m"
      | ^^^^^^
      |
      = hint: did you mean `timeout`?

    error: 4 problems in the policy
      hint: `ralph config --schema` describes every key
    "#);
    assert_snapshot!(sandbox.normalize(&sandbox.ralph(["trust"]).to_string()), @r#"
    exit 1
    --- stderr
    error: `run.baseline` cannot be `true`
     --> $ROOT/home/.ralph/config.toml:2:12
      |
    2 | baseline = true
      |            ^^^^
      |
      = hint: expected one of `"block"`, `"ratchet"`

    error: unknown key `max_iteration`
     --> $ROOT/project/ralph.toml:2:1
      |
    2 | max_iteration = 3
      | ^^^^^^^^^^^^^
      |
      = hint: did you mean `max_iterations`?

    error: `gate.run` cannot be `"npm test"`
     --> $ROOT/project/ralph.toml:6:7
      |
    6 | run = "npm test"
      |       ^^^^^^^^^^
      |
      = hint: expected a list of words: `run = ["npm", "test"]`; for a shell command line use `shell = "…"`

    error: unknown key `timout`
     --> $ROOT/project/ralph.toml:7:1
      |
    7 | timout = "5m"
      | ^^^^^^
      |
      = hint: did you mean `timeout`?

    error: 4 problems in the policy
      hint: `ralph config --schema` describes every key
    "#);
}

#[test]
fn an_unreadable_policy_is_reported_with_a_hint() {
    let mut shown = String::new();
    let sandbox = Sandbox::new();
    sandbox.write("ralph.toml", "");
    sandbox.write(".ralph.toml", "");
    shown.push_str(&sandbox.normalize(&sandbox.ralph(["config"]).stderr));
    std::fs::remove_file(sandbox.project().join(".ralph.toml")).unwrap();
    std::fs::remove_file(sandbox.project().join("ralph.toml")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", sandbox.project().join("ralph.toml")).unwrap();
    shown.push_str(&sandbox.normalize(&sandbox.ralph(["config"]).stderr));
    shown.push_str(&sandbox.normalize(&sandbox.ralph(["config", "--project", "nowhere"]).stderr));
    assert_snapshot!(shown, @"
    error: `$ROOT/project` has both `ralph.toml` and `.ralph.toml`
      hint: keep `ralph.toml` and delete `.ralph.toml`, or the other way rounderror: `$ROOT/project/ralph.toml` is a symbolic link to a file outside the project
      hint: put the file itself there; settings for all projects go into `~/.ralph/config.toml`error: `nowhere` is not a directory
      hint: check the path
    ");
}

/// R-S6a: an excerpt of a hostile file neither controls nor floods the terminal.
#[test]
fn a_hostile_policy_file_is_escaped() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(500_000);
    sandbox.write(
        "ralph.toml",
        format!("'\u{202e}a\u{200b}' = 1 # \t\u{9b}31m\n'{long}' = 1\nrun.baseline = \"{long}\"\n"),
    );
    let refused = sandbox.ralph(["config"]);
    assert_snapshot!(sandbox.normalize(&refused.to_string()), @r#"
    exit 1
    --- stderr
    error: unknown key `a`
     --> $ROOT/project/ralph.toml:1:1
      |
    1 | '�a�' = 1 #  �31m
      | ^^^^^
      |
      = hint: known keys: `run`, `session`, `gate`, `judge`, `ci`, `chunk`, `pipeline`, `lines`, `protect`, `tests`, `verify`, `orchestrator`, `memory`, `environment`

    error: unknown key `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
     --> $ROOT/project/ralph.toml:2:1
      |
    2 | 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx = 1
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: known keys: `run`, `session`, `gate`, `judge`, `ci`, `chunk`, `pipeline`, `lines`, `protect`, `tests`, `verify`, `orchestrator`, `memory`, `environment`

    error: `run.baseline` cannot be `"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"`
     --> $ROOT/project/ralph.toml:3:16
      |
    3 | run.baseline = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
      |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = hint: expected one of `"block"`, `"ratchet"`

    error: 3 problems in the policy
      hint: `ralph config --schema` describes every key
    "#);

    // Only ralph's own colour codes are printed.
    let mut command = sandbox.command();
    let coloured = run_command(command.arg("config").env("CLICOLOR_FORCE", "1"), b"").stderr;
    assert!(coloured.contains("\u{1b}["));
    let mut command = sandbox.command();
    let plain = run_command(command.arg("config").env("NO_COLOR", "1"), b"").stderr;
    assert!(!plain.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{9b}']));
}

fn docs_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn assert_current(name: &str, expected: &str) {
    let path = docs_path(name);
    if std::env::var_os("RALPH_GENERATE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        found, expected,
        "docs/{name} is out of date: `RALPH_GENERATE=1 cargo test -p ralph reference`"
    );
}

#[test]
fn the_schema_reference_is_current() {
    assert_current("ralph.schema.json", &Sandbox::new().ralph(["config", "--schema"]).stdout);
}

/// The tables of keys are generated from the schema.
#[test]
fn the_policy_reference_is_current() {
    let schema = Sandbox::new().ralph(["config", "--schema"]).stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let page = std::fs::read_to_string(docs_path("config.md")).unwrap();
    let (text, _) = page.split_once("\n### ").unwrap_or((page.trim_end(), ""));
    let mut page = format!("{}\n", text.trim_end());
    for heading in [
        "run",
        "session",
        "gate",
        "judge",
        "ci",
        "chunk",
        "pipeline.chunk",
        "lines",
        "lines.pattern",
        "protect",
        "tests",
        "verify",
        "orchestrator",
        "memory",
        "environment",
        "runner",
        "notify",
        "keep",
        "price",
    ] {
        page.push_str(&reference_section(&schema, heading));
    }
    assert_current("config.md", &page);
}

fn reference_section(schema: &Value, heading: &str) -> String {
    let mut table = schema;
    for name in heading.split('.') {
        table = &table["properties"][name];
    }
    let title =
        if table["items"].is_object() { format!("[[{heading}]]") } else { format!("[{heading}]") };
    let about = table["description"].as_str().unwrap();
    let keys = if table["items"].is_object() { &table["items"] } else { table };
    let mut rows = String::new();
    for (name, key) in keys["properties"].as_object().unwrap() {
        if key["items"]["properties"].is_object() {
            continue;
        }
        let default = match key.get("default") {
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        let about = key["description"].as_str().unwrap();
        rows.push_str(&format!(
            "| `{name}` | {} | {default} | {about} |\n",
            value_description(key)
        ));
    }
    format!("\n### `{title}`\n\n{about}\n\n| key | value | default | |\n|---|---|---|---|\n{rows}")
}

/// A short description of the values a key accepts.
fn value_description(key: &Value) -> String {
    let choices = |key: &Value| {
        let choices = key["enum"].as_array()?.iter();
        Some(
            choices
                .map(|choice| format!("`{}`", choice.as_str().unwrap()))
                .collect::<Vec<_>>()
                .join(", "),
        )
    };
    match key["type"].as_str() {
        Some("array") => match choices(&key["items"]) {
            Some(choices) => format!("list of {choices}"),
            None => "list of texts".to_string(),
        },
        Some("string") => choices(key).unwrap_or_else(|| {
            let is_duration =
                key["pattern"].as_str().is_some_and(|pattern| pattern.contains("[hH]"));
            if is_duration { "duration" } else { "text" }.to_string()
        }),
        Some("integer") => format!("{} to {}", key["minimum"], key["maximum"]),
        Some("object") => "table of texts".to_string(),
        Some("boolean") => "`true`, `false`".to_string(),
        Some(other) => other.to_string(),
        None if key["oneOf"][0]["type"] == "object" => "inline table".to_string(),
        None => "text or number".to_string(),
    }
}

#[test]
fn the_example_in_the_reference_is_valid() {
    let sandbox = Sandbox::new();
    let page = std::fs::read_to_string(docs_path("config.md")).unwrap();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    sandbox.write("ralph.toml", example);
    let read = sandbox.ralph(["config", "--json"]);
    assert_eq!(read.code, Some(0), "{read}");
    let read: Value = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!(read["policy"]["gates"].as_array().unwrap().len(), 4);
}
