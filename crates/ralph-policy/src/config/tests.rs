mod judge_entries;

use super::keys::{ConfigKey, ROOT, ValueKind};
use super::*;
use crate::notify_config::NotifyChannel;
use insta::assert_snapshot;
use proptest::prelude::*;
use ralph_core::policy::Chunk;
use ralph_sys::fs::Durability;
use serde_json::Value as Json;

struct ConfigSandbox {
    root: tempfile::TempDir,
}

impl ConfigSandbox {
    fn new() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        for directory in ["home", "project/.git", "project/web/src"] {
            fs::create_private_dir(&place.path(directory)).unwrap();
        }
        place.write("project/review.md", "Look for missing cases.\n");
        place
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        fs::replace(&self.path(path), text.as_ref(), Durability::Cached).unwrap();
        self
    }

    fn load(&self) -> Result<ProjectConfig, ConfigError> {
        load(&self.path("project"), &RalphHome::new(self.path("home")))
    }
}

fn load_project(text: impl AsRef<[u8]>) -> Result<ProjectConfig, ConfigError> {
    ConfigSandbox::new().write("project/ralph.toml", text).load()
}

/// `line: message (hint)` for every problem.
fn format_problems(error: &ConfigError) -> String {
    let ConfigError::Problems { first, more } = error else { return error.to_string() };
    let mut out = String::new();
    for problem in first {
        let line = problem.source[..problem.span.start].matches('\n').count() + 1;
        let marked = problem.source[problem.span.clone()].lines().next().unwrap_or_default();
        out.push_str(&format!("{line}: {}  [{marked}]\n", problem.message));
        if let Some(hint) = &problem.hint {
            out.push_str(&format!("     {hint}\n"));
        }
    }
    if *more > 0 {
        out.push_str(&format!("and {more} more\n"));
    }
    out
}

#[test]
fn built_in_toml_equals_the_default_policy() {
    let place = ConfigSandbox::new();
    let config = place.load().unwrap();
    assert_eq!(config.policy, Policy::default());
    assert_eq!(config.runner, DriveSettings::DEFAULT);
    let kept = load_keep(&RalphHome::new(place.path("home"))).unwrap();
    assert_eq!(kept, RetentionRules::DEFAULT);
    assert!(config.file.is_none());
    assert!(config.origins.iter().all(|origin| origin.location.layer == ConfigLayer::BuiltIn));
    // `ralph config` prints the built-in file without comments, templates and the person's own sections.
    let written = |text: &str| {
        let lines =
            text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        let blocks = lines.split("\n\n").map(|block| block.trim().to_string());
        let is_policy = |block: &String| {
            !["[[", "[runner]", "[notify]", "[keep]"].iter().any(|other| block.starts_with(other))
        };
        blocks.filter(|block| !block.is_empty() && is_policy(block)).collect::<Vec<_>>()
    };
    assert_eq!(written(config.to_toml()), written(DEFAULTS_TOML));
}

/// Every limit that commands know is a setting of `[run]`, under the same name.
#[test]
fn every_run_limit_is_a_setting() {
    let run = ROOT.iter().find(|section| section.name == "run").unwrap().kind.keys();
    let missing: Vec<_> = ralph_core::limits::RUN_LIMITS
        .iter()
        .map(|limit| limit.key)
        .filter(|name| !run.iter().any(|key| key.name == *name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A TOML value other than the key's default.
fn sample(key: &ConfigKey) -> String {
    match &key.kind {
        ValueKind::Table(_) | ValueKind::UserOnly(_) | ValueKind::NamedEntries(_) => {
            unreachable!("{}", key.name)
        }
        ValueKind::Variables(_) => "{ LANG = \"C\" }".to_string(),
        // The other value than the default.
        ValueKind::Flag(_) => {
            matches!(key.name, "approval" | "coverage_ratchet" | "sessions").to_string()
        }
        ValueKind::Count { .. } => "7".to_string(),
        ValueKind::MinTests { .. } => "\"baseline\"".to_string(),
        ValueKind::Usd(_) => "1.5".to_string(),
        ValueKind::Share(_) => "0.5".to_string(),
        ValueKind::Percent(_) => "79.5".to_string(),
        ValueKind::Duration { .. } => "\"1h30m\"".to_string(),
        ValueKind::Name(_) => "\"other\"".to_string(),
        ValueKind::Wildcard(_) => "\"other*\"".to_string(),
        ValueKind::Choice(choices, _) => format!("\"{}\"", choices.last().unwrap()),
        ValueKind::Choices(choices, _) => format!("[\"{}\"]", choices.last().unwrap()),
        ValueKind::Model(_) => "\"claude-opus-5-5[1m]\"".to_string(),
        ValueKind::Hours(_) => "\"22:00-06:30\"".to_string(),
        ValueKind::Argv(_) | ValueKind::Arguments(_) | ValueKind::Names(_) => {
            "[\"other\"]".to_string()
        }
        ValueKind::Shell(_) | ValueKind::Text(_) | ValueKind::Regex(_) => {
            "\"some text\"".to_string()
        }
        ValueKind::Globs(_) => "[\"**/*.rs\"]".to_string(),
        ValueKind::Selection(_) => "[\"**/*.rs\", \"!gen/**\"]".to_string(),
        ValueKind::Directory(_) => "\"web/\"".to_string(),
        ValueKind::File(_) => "\"review.md\"".to_string(),
        ValueKind::Directories(_) => "[\"node_modules\"]".to_string(),
        ValueKind::VariableNames(_) => "[\"DATABASE_URL\"]".to_string(),
        ValueKind::Backend(_) => {
            "{ http = \"https://example.org\", key = \"KEY\", model = \"m\", api = \"openai\" }"
                .to_string()
        }
        ValueKind::Url(_) | ValueKind::Endpoint(_) => "\"https://example.org/hook\"".to_string(),
    }
}

/// A complete file that sets `key` under `heading`, with all that the entry requires.
fn file_with(heading: &str, key: Option<&ConfigKey>) -> String {
    let name = key.map(|key| key.name);
    let beside: &[(&str, &str)] = match heading {
        "[[gate]]" if name == Some("shell") => &[("name", "\"a\"")],
        "[[gate]]" if name == Some("report_files") => {
            &[("name", "\"a\""), ("run", "[\"true\"]"), ("report", "\"junit\"")]
        }
        "[[gate]]" if name.is_some_and(|name| name.contains("coverage")) => {
            &[("name", "\"a\""), ("run", "[\"true\"]"), ("report", "\"lcov\"")]
        }
        "[[gate]]" if name.is_some_and(|name| name.starts_with("max_")) => {
            &[("name", "\"a\""), ("run", "[\"true\"]"), ("report", "\"sarif\"")]
        }
        "[[gate]]" => &[("name", "\"a\""), ("run", "[\"true\"]")],
        "[[ci]]" if matches!(name, Some("run" | "env")) => {
            &[("name", "\"a\""), ("provider", "\"command\""), ("run", "[\"true\", \"{commit}\"]")]
        }
        "[[ci]]" if matches!(name, Some("url" | "provider")) => &[
            ("name", "\"a\""),
            ("provider", "\"http\""),
            ("url", "\"https://example.org/{commit}\""),
        ],
        "[[ci]]" => &[("name", "\"a\""), ("provider", "\"github\""), ("repo", "\"acme/rocket\"")],
        "[[judge]]" if matches!(name, Some("reviewers" | "tests")) => &[
            ("name", "\"a\""),
            ("kind", "\"adversarial\""),
            ("backend", "{ command = [\"true\"] }"),
        ],
        "[[judge]]" => {
            &[("name", "\"a\""), ("kind", "\"goal\""), ("backend", "{ command = [\"true\"] }")]
        }
        "[[chunk]]" => &[("match", "\"a\""), ("outputs", "[\"a\"]")],
        "[[pipeline.chunk]]" => &[("name", "\"a\"")],
        "[[lines.pattern]]" => &[("name", "\"a\""), ("pattern", "\"a\"")],
        "[[price]]" => &[("model", "\"a\""), ("input", "1"), ("output", "2")],
        _ => &[],
    };
    let mut text = format!("{heading}\n");
    // Entries that the key refers to.
    if name == Some("after") {
        text.insert_str(0, "[[pipeline.chunk]]\nname = \"other\"\n");
    } else if heading.ends_with("chunk]]") {
        text.insert_str(0, "[[gate]]\nname = \"other\"\nrun = [\"true\"]\n");
    }
    for (other, value) in beside.iter().filter(|(other, _)| Some(*other) != name) {
        text.push_str(&format!("{other} = {value}\n"));
    }
    if let Some(key) = key {
        let value = match (heading, key.name) {
            ("[[judge]]", "prompt") => "\"review.md\"".to_string(),
            ("[[judge]]", "counts" | "tests") | ("[[ci]]", "statuses") => "true".to_string(),
            ("[[ci]]", "run") => "[\"other\", \"{commit}\"]".to_string(),
            ("[[ci]]", "repo") => "\"acme/other\"".to_string(),
            ("[[ci]]", "host") => "\"git.example.org\"".to_string(),
            ("[[ci]]", "url") => "\"https://example.org/other/{commit}\"".to_string(),
            ("[[ci]]", "token") => "\"CI_TOKEN\"".to_string(),
            ("[[ci]]", "branch") => "\"trunk\"".to_string(),
            _ => sample(key),
        };
        text.push_str(&format!("{} = {value}\n", key.name));
    }
    text
}

/// An entry with what its provider needs.
fn ci_entry(provider: &str) -> String {
    let needs = match provider {
        "command" => "run = [\"true\", \"{commit}\"]",
        "http" => "url = \"https://example.org/{commit}\"",
        _ => "repo = \"acme/rocket\"",
    };
    format!("[[ci]]\nname = \"a\"\nprovider = \"{provider}\"\n{needs}\n")
}

/// Every key that a project's file may set.
fn all_keys() -> Vec<(String, &'static ConfigKey)> {
    let mut all = Vec::new();
    for section in ROOT.iter().filter(|section| !section.kind.is_user_only()) {
        for key in section.kind.keys() {
            if let ValueKind::NamedEntries(table) = key.kind {
                let heading = format!("[[{}]]", table.path);
                all.extend(table.keys.iter().map(|key| (heading.clone(), key)));
            } else {
                all.push((section.heading(), key));
            }
        }
    }
    all
}

#[test]
fn every_key_changes_the_policy_and_is_printed_and_is_in_the_schema() {
    let schema = json_schema();
    for (heading, key) in all_keys() {
        let before = load_project(file_with(&heading, None)).unwrap();
        let text = file_with(&heading, Some(key));
        let after =
            load_project(&text).unwrap_or_else(|error| panic!("{text}{}", format_problems(&error)));
        assert_ne!(before.policy, after.policy, "{text}");

        let again = load_project(after.to_toml())
            .unwrap_or_else(|error| panic!("{}", format_problems(&error)));
        assert_eq!(again.policy, after.policy, "{text}");
        assert_eq!(again.to_toml(), after.to_toml());
        assert!(matches_schema(&schema, &toml_to_json(&text)), "{text}");
    }
}

/// Sections such as `[notify]` belong to the person, not to the policy.
#[test]
fn user_only_sections_are_accepted_only_in_the_persons_own_file() {
    let (schema, place) = (json_schema(), ConfigSandbox::new());
    let home = RalphHome::new(place.path("home"));
    let policy = place.load().unwrap();
    let own = ROOT.iter().filter(|section| section.kind.is_user_only());
    for (section, key) in
        own.flat_map(|section| section.kind.keys().iter().map(move |key| (section, key)))
    {
        let read = |home: &RalphHome| {
            let rest = (load_keep(home).unwrap(), load_otlp_endpoint(home).unwrap());
            (load_notify(home).unwrap(), load_prices(home).unwrap(), rest)
        };
        place.write("home/config.toml", file_with(&section.heading(), None));
        let before = (read(&home), &policy.runner);
        let text = file_with(&section.heading(), Some(key)).replace("= false", "= true");
        place.write("home/config.toml", &text);
        let config =
            place.load().unwrap_or_else(|error| panic!("{text}{}", format_problems(&error)));
        assert_ne!((read(&home), &config.runner), before, "{text}");
        assert_eq!(
            (&config.policy, config.to_toml()),
            (&policy.policy, policy.to_toml()),
            "{text}"
        );
        assert!(matches_schema(&schema, &toml_to_json(&text)), "{text}");
        assert!(load_project(&text).is_err(), "{text}");
    }
    let refused =
        load_project("[run]\nstuck_after = 4\n\n[notify]\ncommand = ['curl', 'evil']\nbel = 1\n");
    assert_snapshot!(format_problems(&refused.unwrap_err()), @"
    4: `[notify]` cannot be set by a project  [notify]
         it can run programs, send data, spend money or remove files on your behalf: set it in your own `~/.ralph/config.toml`
    ");
}

/// R-K2c: a person decides whether and how long a run waits for limits.
#[test]
fn runner_settings_come_from_the_persons_own_file() {
    let place = ConfigSandbox::new();
    place.write(
        "home/config.toml",
        r#"
[runner]
sessions = "fresh-per-feature"
model = "sonnet"
stronger_model = "us.anthropic.claude-opus-5-5:0"
agent_arguments = ["--mcp-config", "my servers.json", ""]
idle_after = "2m"
question_after = "0s"
wait_for_limits = "12h"
max_resumes = 2
limit_jitter = "30s"
quiet_hours = "22:00-06:30"
max_window_share = 0.25
wait_for_errors = "20m"
worst_turn_usd = 2.5
max_cost_per_day_usd = 40
"#,
    );
    place.write("project/ralph.toml", "run.max_tokens = 50_000_000\n");
    let config = place.load().unwrap();
    assert_eq!(config.policy.limits.max_tokens, Some(50_000_000));
    assert_eq!(
        serde_json::to_value(&config.runner).unwrap(),
        serde_json::json!({
            "agent": "claude",
            "sessions": "fresh-per-feature",
            "model": "sonnet",
            "stronger_model": "us.anthropic.claude-opus-5-5:0",
            "arguments": ["--mcp-config", "my servers.json", ""],
            "idle_ms": 120_000,
            "question_ms": 0,
            "waits": {
                "limit_ms": 43_200_000,
                "resumes": 2,
                "jitter_ms": 30_000,
                "errors_ms": 1_200_000,
                "quiet": [1320, 390],
                "share_permille": 250,
            },
            "worst_turn_micro_usd": 2_500_000,
            "day_micro_usd": 40_000_000,
        })
    );
}

#[test]
fn mistakes_in_runner_settings_are_reported() {
    let place = ConfigSandbox::new();
    place.write(
        "home/config.toml",
        r#"
[runner]
session = "hybrid"
sessions = "fresh"
model = "--dangerously-skip-permissions"
stronger_model = "two words"
agent_arguments = "--verbose"
idle_after = "1s"
wait_for_limits = true
max_resumes = 1001
quiet_hours = "22:00-22:00"
max_window_share = 0
max_cost_per_day = 3
"#,
    );
    assert_snapshot!(format_problems(&place.load().unwrap_err()), @r#"
    3: unknown key `session`  [session]
         did you mean `sessions`?
    4: `runner.sessions` cannot be `"fresh"`  ["fresh"]
         did you mean `"fresh-per-feature"`?
    5: `runner.model` cannot be `"--dangerously-skip-permissions"`  ["--dangerously-skip-permissions"]
         expected 1 to 200 printable characters without spaces, not starting with `-`
    6: `runner.stronger_model` cannot be `"two words"`  ["two words"]
         expected 1 to 200 printable characters without spaces, not starting with `-`
    7: `runner.agent_arguments` cannot be `"--verbose"`  ["--verbose"]
         expected a list of words: `["--verbose"]`
    8: `runner.idle_after` cannot be `"1s"`  ["1s"]
         expected a duration such as `"90s"` or `"5m"`, at most `"24h"`
    9: `runner.wait_for_limits` cannot be `true`  [true]
         expected a duration such as `"90m"` or `"8h"`
    10: `runner.max_resumes` cannot be `1001`  [1001]
         expected a whole number from 0 to 1000
    11: `runner.quiet_hours` cannot be `"22:00-22:00"`  ["22:00-22:00"]
         expected two different times of day, such as `"22:00-06:00"`
    12: `runner.max_window_share` cannot be `0`  [0]
         expected a number above 0 and up to 1, such as `0.8`
    13: unknown key `max_cost_per_day`  [max_cost_per_day]
         did you mean `max_cost_per_day_usd`?
    "#);
    for odd in [
        "24:00-06:00",
        "2:00-06:00",
        "22:60-06:00",
        "22:00",
        "+1:00-06:00",
        "22:00-06:00-07:00",
        "",
    ] {
        place.write("home/config.toml", format!("runner.quiet_hours = \"{odd}\"\n"));
        assert!(place.load().is_err(), "{odd}");
    }
}

#[test]
fn webhook_urls_are_https_and_only_their_host_is_shown() {
    let place = ConfigSandbox::new();
    let home = RalphHome::new(place.path("home"));
    for address in [
        "http://example.org",
        "https://",
        "https:///x",
        "https://a b",
        "https://a\\nurl=b",
        "file:///etc/passwd",
        "HTTPS://example.org",
        "",
    ] {
        place.write("home/config.toml", format!("notify.webhook = \"{address}\"\n"));
        assert!(load_notify(&home).is_err(), "{address}");
    }
    for (address, shown) in [
        ("https://hooks.example.org/T0/B0/s3cret", "https://hooks.example.org/…"),
        ("https://user:s3cret@example.org?key=s3cret", "https://example.org/…"),
        ("https://[::1]:8443/s3cret", "https://[::1]:8443/…"),
    ] {
        place.write("home/config.toml", format!("notify.webhook = \"{address}\"\n"));
        assert_eq!(
            load_notify(&home).unwrap().channels,
            [NotifyChannel::Webhook(address.to_string())]
        );
        let config = place.load().unwrap();
        let origin = config.origins.iter().find(|origin| origin.key == "notify.webhook").unwrap();
        assert_eq!(origin.value, format!("\"{shown}\""));
    }
    place.write("home/config.toml", "notify.webhook = 'http://example.org/s3cret'\n");
    assert_snapshot!(format_problems(&load_notify(&home).unwrap_err()), @r#"
    1: `notify.webhook` is not an `https://` URL  ['http://example.org/s3cret']
         expected a URL such as `"https://example.org/hook"`
    "#);
}

#[test]
fn every_listed_choice_gives_a_distinct_policy() {
    for (heading, key) in all_keys() {
        let (ValueKind::Choice(choices, _) | ValueKind::Choices(choices, _)) = key.kind else {
            continue;
        };
        let is_list = matches!(key.kind, ValueKind::Choices(..));
        let mut policies = Vec::new();
        for choice in choices {
            let value = if is_list { format!("[\"{choice}\"]") } else { format!("\"{choice}\"") };
            let text = match key.name {
                "provider" => ci_entry(choice),
                _ => file_with(&heading, Some(key)).replace(&sample(key), &value),
            };
            let policy = load_project(text).unwrap().policy;
            assert!(!policies.contains(&policy), "{heading} {} = {choice}", key.name);
            policies.push(policy);
        }
    }
}

#[test]
fn later_layers_replace_values_and_lists_and_gates_by_name() {
    let place = ConfigSandbox::new();
    place.write(
        "home/config.toml",
        r#"
[run]
max_iterations = 10
stuck_after = 5
[protect]
paths = ["secrets/**"]
[environment.set]
LANG = "C"
TZ = "UTC"
[[gate]]
name = "format"
run = ["fmt", "--check"]
timeout = "1m"
required = false
[[gate]]
name = "spelling"
run = ["typos"]
"#,
    );
    place.write(
        "project/.ralph.toml",
        r#"
run.max_iterations = 40
[protect]
paths = ["tests/**"]
[environment.set]
LANG = "en"
[[gate]]
name = "format"
shell = "prettier --check ."
[[gate]]
name = "tests"
run = ["npm", "test"]
"#,
    );
    let config = place.load().unwrap();
    let changed =
        config.origins.iter().filter(|origin| origin.location.layer != ConfigLayer::BuiltIn);
    let changed: Vec<_> = changed
        .map(|origin| {
            format!(
                "{} = {}  {:?}:{}",
                origin.key, origin.value, origin.location.layer, origin.location.line
            )
        })
        .collect();
    assert_snapshot!(changed.join("\n"), @r#"
    run.max_iterations = 40  Project:2
    run.stuck_after = 5  User:4
    gate.format.shell = "prettier --check ."  Project:9
    gate.spelling.run = ["typos"]  User:17
    gate.tests.run = ["npm", "test"]  Project:12
    protect.paths = ["tests/**"]  Project:4
    environment.set.LANG = "en"  Project:6
    environment.set.TZ = "UTC"  User:9
    "#);
    let gates: Vec<_> =
        config.policy.gates.iter().map(|gate| (&*gate.name, gate.timeout_ms)).collect();
    assert_eq!(gates, [("format", 300_000), ("spelling", 300_000), ("tests", 300_000)]);
}

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

#[test]
fn a_policy_file_is_one_regular_file_of_the_project() {
    let place = ConfigSandbox::new();
    let file = place.path("project/ralph.toml");
    let cases: [(&str, &dyn Fn()); 6] = [
        ("a link to nothing", &|| std::os::unix::fs::symlink("nowhere", &file).unwrap()),
        ("a link out", &|| std::os::unix::fs::symlink("../home/other.toml", &file).unwrap()),
        ("a link inside", &|| std::os::unix::fs::symlink("web/ralph.toml", &file).unwrap()),
        ("a directory", &|| fs::create_private_dir(&file).unwrap()),
        ("too large", &|| {
            place.write("project/ralph.toml", vec![b'#'; MAX_POLICY_BYTES + 1]);
        }),
        ("both names", &|| {
            place.write("project/ralph.toml", "").write("project/.ralph.toml", "");
        }),
    ];
    place.write("home/other.toml", "").write("project/web/ralph.toml", "run.stuck_after = 9\n");
    let mut shown = String::new();
    for (name, make) in cases {
        make();
        let outcome = match place.load() {
            Ok(config) => format!("stuck after {}", config.policy.limits.stuck_after),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                format!("{error} {}", cause.unwrap_or_default())
            }
        };
        let root = fs::resolve(place.root.path()).unwrap();
        shown.push_str(&format!("{name}: {}\n", outcome.replace(root.to_str().unwrap(), "")));
        std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir(&file)).unwrap();
    }
    assert_snapshot!(shown, @"
    a link to nothing: cannot read `/project/ralph.toml` No such file or directory (os error 2)
    a link out: `/project/ralph.toml` is a symbolic link to a file outside the project 
    a link inside: stuck after 9
    a directory: cannot read `/project/ralph.toml` it is not a regular file
    too large: cannot read `/project/ralph.toml` it is larger than 1048576 bytes
    both names: `/project` has both `ralph.toml` and `.ralph.toml`
    ");
}

#[test]
fn the_project_is_the_nearest_policy_within_the_repository() {
    let place = ConfigSandbox::new();
    let find = |from: &str| {
        let found = find_project(&place.path(from));
        found.strip_prefix(place.root.path()).unwrap().to_str().unwrap().to_string()
    };
    place.write("ralph.toml", "");
    assert_eq!(find("project/web/src"), "project");
    assert_eq!(find("home"), "home");
    place.write("project/.ralph.toml", "");
    assert_eq!(find("project/web/src"), "project");
    place.write("project/web/ralph.toml", "");
    assert_eq!([find("project/web/src"), find("project")], ["project/web", "project"]);
}

/// Validates a value against the subset of JSON schema that ours uses.
fn matches_schema(schema: &Json, value: &Json) -> bool {
    let Some(rules) = schema.as_object() else { return false };
    rules.iter().all(|(rule, wanted)| match (rule.as_str(), value) {
        ("type", _) => match wanted.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            other => panic!("{other}"),
        },
        ("properties", Json::Object(fields)) => fields.iter().all(|(name, field)| {
            wanted.get(name).is_none_or(|wanted| matches_schema(wanted, field))
        }),
        ("additionalProperties", Json::Object(fields)) => fields.iter().all(|(name, field)| {
            rules.get("properties").is_some_and(|known| known.get(name).is_some())
                || (wanted.is_object() && matches_schema(wanted, field))
        }),
        ("propertyNames", Json::Object(fields)) => {
            fields.keys().all(|name| matches_schema(wanted, &Json::from(name.as_str())))
        }
        ("required", Json::Object(fields)) => wanted
            .as_array()
            .unwrap()
            .iter()
            .all(|name| fields.contains_key(name.as_str().unwrap())),
        ("oneOf", _) => {
            wanted.as_array().unwrap().iter().filter(|one| matches_schema(one, value)).count() == 1
        }
        ("anyOf", _) => wanted.as_array().unwrap().iter().any(|one| matches_schema(one, value)),
        ("not", _) => !matches_schema(wanted, value),
        ("enum", _) => wanted.as_array().unwrap().contains(value),
        ("pattern", Json::String(text)) => {
            regex::Regex::new(wanted.as_str().unwrap()).unwrap().is_match(text)
        }
        ("minLength", Json::String(text)) => text.len() as u64 >= wanted.as_u64().unwrap(),
        ("maxLength", Json::String(text)) => text.len() as u64 <= wanted.as_u64().unwrap(),
        ("items", Json::Array(items)) => items.iter().all(|item| matches_schema(wanted, item)),
        ("minItems", Json::Array(items)) => items.len() as u64 >= wanted.as_u64().unwrap(),
        ("maxItems", Json::Array(items)) => items.len() as u64 <= wanted.as_u64().unwrap(),
        ("maxProperties", Json::Object(fields)) => fields.len() as u64 <= wanted.as_u64().unwrap(),
        ("minimum", Json::Number(number)) => number.as_f64() >= wanted.as_f64(),
        ("maximum", Json::Number(number)) => number.as_f64() <= wanted.as_f64(),
        ("exclusiveMinimum", Json::Number(number)) => number.as_f64() > wanted.as_f64(),
        // Annotations, and rules about another type.
        (
            "$schema"
            | "title"
            | "description"
            | "default"
            | "format"
            | "properties"
            | "additionalProperties"
            | "propertyNames"
            | "required"
            | "pattern"
            | "minLength"
            | "maxLength"
            | "items"
            | "minItems"
            | "maxItems"
            | "maxProperties"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum",
            _,
        ) => true,
        (other, _) => panic!("the schema uses `{other}`"),
    })
}

fn toml_to_json(text: &str) -> Json {
    fn value(found: &toml::de::DeValue) -> Json {
        use toml::de::DeValue;
        match found {
            DeValue::String(text) => Json::from(&**text),
            DeValue::Integer(number) => {
                Json::from(i64::from_str_radix(number.as_str(), number.radix()).unwrap())
            }
            DeValue::Float(number) => Json::from(number.as_str().parse::<f64>().unwrap()),
            DeValue::Boolean(flag) => Json::from(*flag),
            DeValue::Datetime(date) => Json::from(date.to_string()),
            DeValue::Array(items) => items.iter().map(|item| value(item.get_ref())).collect(),
            DeValue::Table(fields) => fields
                .iter()
                .map(|(name, field)| (name.get_ref().to_string(), value(field.get_ref())))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
    value(&toml::de::DeValue::Table(toml::de::DeTable::parse(text).unwrap().into_inner()))
}

#[test]
fn schema_and_parser_reject_the_same_files() {
    let schema = json_schema();
    let many = |count: usize| format!("protect.paths = [{}]", "'a',".repeat(count));
    for (text, is_fine) in [
        (&*many(1000), true),
        (&many(1001), false),
        (DEFAULTS_TOML.split("# The defaults of every gate").next().unwrap(), true),
        ("run.max_iterations = 0", true),
        ("run.max_iterations = -1", false),
        ("run.max_iterations = 1.5", false),
        ("run.max_iteration = 1", false),
        ("run.stuck_after = 1", false),
        ("run.handover_at = 0", false),
        ("run.handover_at = 1", true),
        ("run.max_cost_usd = 1", true),
        ("run.max_cost_usd = '1'", false),
        ("run.max_duration = '1h 30m'", true),
        ("run.max_duration = '2H30M'", true),
        ("run.max_duration = '30MIN'", true),
        ("run.max_duration = '2W'", false),
        ("run.max_duration = '8'", false),
        ("run.max_duration = 8", false),
        ("runs = {}", false),
        ("run = []", false),
        ("gate = []", true),
        ("gate = {}", false),
        ("[[gate]]\nname = 'a'", false),
        ("[[gate]]\nrun = ['a']", false),
        ("[[gate]]\nname = 'a'\nrun = ['a']", true),
        ("[[gate]]\nname = 'a'\nrun = []", false),
        ("[[gate]]\nname = 'a'\nshell = ' '", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\nrun = ['a']", false),
        ("[[gate]]\nname = 'a/b'\nshell = 'a'", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\nmin_tests = 12", true),
        ("[[gate]]\nname = 'a'\nshell = 'a'\nmin_tests = 'many'", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\non = ['stop', 'task']", true),
        ("[[gate]]\nname = 'a'\nshell = 'a'\non = ['start']", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\ncwd = 'a/..b'", true),
        ("[[gate]]\nname = 'a'\nshell = 'a'\ncwd = 'a/..'", false),
        ("[[gate]]\nname = 'a'\nshell = 'a'\ncwd = '/a'", false),
        ("protect.paths = ['**/a..b']", true),
        ("protect.paths = ['./a']", false),
        ("protect.paths = ['']", false),
        ("environment.set = { A = 'b' }", true),
        ("environment.set = { 1A = 'b' }", false),
        ("environment.pass = ['A-B']", false),
        ("[[chunk]]\nmatch = 'a*'\noutputs = ['a']", true),
        ("[[chunk]]\nname = 'a'\noutputs = ['a']", false),
        ("[[chunk]]\nmatch = ''\noutputs = ['a']", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['/a']", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['a']\nmax_holds = 0", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['a']\ngates = ['a b']", false),
        ("[[pipeline.chunk]]\nname = 'a'", true),
        ("[[pipeline.chunk]]\nname = 'a b'", false),
        ("[[pipeline.chunk]]\nmatch = 'a'", false),
        ("[[pipeline.chunk]]\nname = 'a'\nafter = 'b'", false),
        ("[[pipeline.chunk]]\nname = 'a'\nafter = ['b c']", false),
        ("[[pipeline.chunk]]\nname = 'a'\n[[pipeline.chunk]]\nname = 'b'\nafter = ['a']", true),
        ("[pipeline]\nchunks = []", false),
        ("[[chunk]]\nmatch = 'a'\noutputs = ['a']\nafter = []", false),
        ("[[lines.pattern]]\nname = 'a'", false),
        ("[[lines.pattern]]\nname = 'a'\npattern = 'a'", true),
    ] {
        assert_eq!(load_project(text).is_ok(), is_fine, "reader: {text}");
        assert_eq!(matches_schema(&schema, &toml_to_json(text)), is_fine, "schema: {text}");
    }
}

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

/// A file that sets every key.
fn everything() -> String {
    let mut text = String::new();
    for section in ROOT.iter().filter(|section| !section.kind.is_user_only()) {
        for key in section.kind.keys() {
            if !matches!(key.kind, ValueKind::NamedEntries(_) | ValueKind::Shell(_))
                && !matches!(section.kind, ValueKind::NamedEntries(_))
            {
                text.push_str(&format!("{}.{} = {}\n", section.name, key.name, sample(key)));
            }
        }
    }
    for table in [&keys::GATE, &keys::CHUNK, &keys::PIPELINE_CHUNK, &keys::PATTERN] {
        text.push_str(&format!("[[{}]]\n", table.path));
        for key in table.keys.iter().filter(|key| !matches!(key.kind, ValueKind::Shell(_))) {
            text.push_str(&format!("{} = {}\n", key.name, sample(key)));
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any bytes: either a policy that prints and parses back to itself, or problems whose spans lie in the text.
    #[test]
    fn any_bytes_parse_or_give_problems(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..12, any::<[u8; 3]>()), 0..6)
    ) {
        let mut bytes = everything().into_bytes();
        for (at, gone, new) in edits {
            let at = at.index(bytes.len() + 1);
            let to = (at + gone).min(bytes.len());
            // Mostly characters with a meaning in TOML.
            let signs = b"[]{}\"'=.,#\n\\-0aA_ e";
            let new = new.map(|byte| if byte < 200 { signs[usize::from(byte) % signs.len()] } else { byte });
            bytes.splice(at..to, new);
        }
        let mut problems = ConfigProblems::default();
        let Some(source) = decode_source(ConfigLayer::Project, PathBuf::from("ralph.toml"), bytes, &mut problems) else {
            return Ok(());
        };
        let sheet = parse::parse_layer(&source, &mut problems);
        for problem in &problems.first {
            prop_assert!(problem.source.get(problem.span.clone()).is_some(), "{problem:?}");
        }
        if problems.first.is_empty() {
            let merged = MergedLayers::new(ParsedLayer::default()).overlay(sheet);
            let printed = merged.to_toml();
            let again = ConfigSource { layer: ConfigLayer::Project, path: PathBuf::new(), text: printed.into() };
            let sheet = parse::parse_layer(&again, &mut problems);
            prop_assert!(problems.first.is_empty(), "{}\n{:?}", again.text, problems.first);
            let again = MergedLayers::new(ParsedLayer::default()).overlay(sheet);
            let (one, other) = (
                ConfigDraft::build(&merged.settings, &merged.entries).policy,
                ConfigDraft::build(&again.settings, &again.entries).policy,
            );
            prop_assert_eq!(one, other);
        }
    }
}
