mod judge_entries;
mod pipeline_entries;
mod rejected_values;
mod schema_agreement;

use super::keys::{ConfigKey, ROOT, ValueKind};
use super::*;
use crate::notify_config::NotifyChannel;
use insta::assert_snapshot;
use proptest::prelude::*;
use ralph_sys::fs::Durability;
use schema_agreement::{matches_schema, toml_to_json};

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
