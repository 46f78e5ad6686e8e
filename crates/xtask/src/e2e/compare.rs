//! Compares two traces of one scenario line by line, with ids, paths and times masked because they differ in every run.

use anyhow::{Context, Result};
use regex::{Captures, Regex};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// The trace of one run. Lines are ordered per agent only, because agents run in parallel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScenarioTrace {
    lanes: BTreeMap<String, Vec<String>>,
}

/// A line that only one of the two traces has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TraceDifference {
    Simulator(String),
    Client(String),
}

impl std::fmt::Display for TraceDifference {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Simulator(line) => write!(out, "- {line}"),
            Self::Client(line) => write!(out, "+ {line}"),
        }
    }
}

/// Parses the output of `ralph lab simulate --json`. A line that does not parse is an error: if it were skipped, two
/// players could seem to agree.
pub(super) fn parse_trace(output: &str) -> Result<ScenarioTrace> {
    let parse = |line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}"));
    let entries = output.lines().map(parse).collect::<Result<Vec<Value>>>()?;
    let mut names = MaskedNames::new(&entries);
    let mut lanes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in &entries {
        let lane = entry["agent"]
            .as_str()
            .map_or_else(|| "main".to_owned(), |kind| format!("agent {kind}"));
        let lane_lines = lanes.entry(lane).or_default();
        lane_lines.extend(trace_lines(entry).into_iter().map(|line| names.mask(&line)));
    }
    for lane_lines in lanes.values_mut() {
        for kind in PARALLEL_LINES {
            sort_neighbours(lane_lines, kind);
        }
    }
    Ok(ScenarioTrace { lanes })
}

/// Parallel tool calls may appear in any order.
const PARALLEL_LINES: [&[&str]; 3] = [
    &["hook input ", "\"hook_event_name\":\"PreToolUse\""],
    &["hook input ", "\"hook_event_name\":\"PostToolUse\""],
    &["reads {\"role\":\"tool\""],
];

fn sort_neighbours(lane_lines: &mut [String], kind: &[&str]) {
    let is_one = |line: &String| kind.iter().all(|part| line.contains(part));
    let mut rest = lane_lines;
    while let Some(from) = rest.iter().position(is_one) {
        let (_, found) = rest.split_at_mut(from);
        let length = found.iter().take_while(|line| is_one(line)).count();
        let (neighbours, after) = found.split_at_mut(length);
        neighbours.sort();
        rest = after;
    }
}

fn trace_lines(entry: &Value) -> Vec<String> {
    match entry["kind"].as_str().unwrap_or_default() {
        "hook" => hook_lines(entry),
        "request" => {
            let messages = entry["messages"].as_array().into_iter().flatten();
            let messages =
                messages.filter(|said| !is_client_text(said["text"].as_str().unwrap_or_default()));
            let said = messages.map(|said| format!("reads {}", compact(said)));
            std::iter::once("asked".to_owned()).chain(said).collect()
        }
        "ending" => vec![format!("ends {}", compact(&without_fields(entry, &["kind"])))],
        "exit" => vec![format!("exits {}", entry["code"])],
        // The model's answers are part of the scenario, and tool results are in the next request. Notices are only
        // for people.
        _ => Vec::new(),
    }
}

/// Whether a message is the client's own text about itself or its commands.
fn is_client_text(text: &str) -> bool {
    let beginnings = [
        "<command-name>/clear<",
        "<command-name>/compact<",
        "<local-command-",
        "<system-reminder>\nThe user's message starts with the slash command",
    ];
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

fn hook_lines(entry: &Value) -> Vec<String> {
    let mut input = entry["input"].clone();
    for unsteady in ["duration_ms", "seconds_since_last_response", "estimated_cache_write_usd"] {
        if let Some(value) = input.get_mut(unsteady) {
            *value = Value::from("…");
        }
    }
    if input["tool_name"] == "Agent" {
        // A long report about the subagent that hooks do not need.
        input["tool_response"] = Value::from("…");
    }
    let mut lines = vec![format!("hook input {}", compact(&input))];
    let handlers = entry["handlers"].as_array().into_iter().flatten();
    // Except after a stop, the client does not say what a model answered; its effect shows in what follows.
    let is_reported = |handled: &&Value| entry["event"] == "Stop" || handled["evaluator"].is_null();
    let handlers = handlers.filter(is_reported);
    let mut answers: Vec<String> =
        handlers.map(|handled| format!("  answered {}", describe_answer(handled))).collect();
    // The order in which hooks finish shows in the order of the model's input.
    answers.sort();
    lines.extend(answers);
    lines
}

fn describe_answer(handled: &Value) -> String {
    let text = |name: &str| handled[name].as_str().unwrap_or_default().to_owned();
    let outcome = text("outcome");
    // The client does not repeat the words of a model whose answer it understood.
    if let Some(kind) = handled["evaluator"].as_str() {
        return format!(
            "{kind} {:?} {} {outcome} {:?}",
            text("command"),
            text("ended"),
            text("stderr")
        );
    }
    // How a timed-out hook ends depends on timing, and the client reports less about a failed hook.
    if outcome != "success" {
        return format!("{} {outcome}", text("command"));
    }
    format!("{} {outcome} {} {:?}", text("command"), text("ended"), text("stdout"))
}

fn without_fields(value: &Value, names: &[&str]) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_object_mut() {
        map.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}

fn compact(value: &Value) -> String {
    value.to_string()
}

/// Replaces every id by the order of its first appearance.
struct MaskedNames {
    root: Option<String>,
    known: HashMap<String, String>,
}

static VARIABLE_PARTS: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        r"(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})",
        r"(?P<agent>\ba[0-9a-f]{16}\b)",
        r"\btoolu_sim_\d+_(?P<place>\d+)\b",
        r"(?P<port>127\.0\.0\.1:(?:\d+|PORT))",
        r"(?P<output>[$/][^\s<>\\]*/tasks/[^\s<>\\]*\.output)",
        r"(?P<task>\bb[0-9a-z]{8}\b)",
        r"(?P<spill>hook-[^\s\\/]*-additionalContext\.txt)",
        r"(?P<duration>duration_ms(?:: |>)\d+)",
    ];
    Regex::new(&parts.join("|")).unwrap_or_else(|_| unreachable!("a constant"))
});

impl MaskedNames {
    fn new(entries: &[Value]) -> Self {
        let cwd = entries.iter().find_map(|entry| entry["input"]["cwd"].as_str());
        let root = cwd.and_then(|cwd| cwd.split("/project").next()).map(str::to_owned);
        Self { root, known: HashMap::new() }
    }

    fn mask(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        if let Some(root) = &self.root {
            let slug: String = root
                .chars()
                .map(|char| if char.is_ascii_alphanumeric() { char } else { '-' })
                .collect();
            line = line.replace(root.as_str(), "$ROOT").replace(&slug, "$SLUG");
        }
        let known = &mut self.known;
        let masked = VARIABLE_PARTS.replace_all(&line, |found: &Captures<'_>| {
            if let Some(place) = found.name("place") {
                return format!("$CALL{}", place.as_str());
            }
            let kinds = ["port", "output", "spill", "duration"];
            if let Some(kind) = kinds.into_iter().find(|kind| found.name(kind).is_some()) {
                return format!("${}", kind.to_uppercase());
            }
            let count = known.len() + 1;
            known.entry(found[0].to_owned()).or_insert_with(|| format!("$ID{count}")).clone()
        });
        masked.into_owned()
    }
}

/// The lines that differ.
pub(super) fn trace_differences(
    simulator: &ScenarioTrace,
    client: &ScenarioTrace,
) -> Vec<TraceDifference> {
    let mut lanes: Vec<&String> = simulator.lanes.keys().chain(client.lanes.keys()).collect();
    lanes.sort();
    lanes.dedup();
    let none = Vec::new();
    let mut differences = Vec::new();
    for lane in lanes {
        let ours = simulator.lanes.get(lane).unwrap_or(&none);
        let theirs = client.lanes.get(lane).unwrap_or(&none);
        differences.extend(diff_lines(ours, theirs));
    }
    differences
}

/// A diff by longest common subsequence; traces are short.
fn diff_lines(ours: &[String], theirs: &[String]) -> Vec<TraceDifference> {
    let mut longest = vec![vec![0_u32; theirs.len() + 1]; ours.len() + 1];
    for (at, our) in ours.iter().enumerate().rev() {
        for (there, their) in theirs.iter().enumerate().rev() {
            longest[at][there] = if our == their {
                longest[at + 1][there + 1] + 1
            } else {
                longest[at + 1][there].max(longest[at][there + 1])
            };
        }
    }
    let mut differences = Vec::new();
    let (mut at, mut there) = (0, 0);
    loop {
        match (ours.get(at), theirs.get(there)) {
            (Some(our), Some(their)) if our == their => (at, there) = (at + 1, there + 1),
            (Some(our), their)
                if their.is_none() || longest[at + 1][there] >= longest[at][there + 1] =>
            {
                differences.push(TraceDifference::Simulator(our.clone()));
                at += 1;
            }
            (_, Some(their)) => {
                differences.push(TraceDifference::Client(their.clone()));
                there += 1;
            }
            (_, None) => return differences,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample_trace(session: &str, root: &str, active: bool) -> ScenarioTrace {
        let input = json!({
            "session_id": session,
            "cwd": format!("{root}/project"),
            "hook_event_name": "Stop",
            "stop_hook_active": active,
        });
        let handled =
            json!({"command": "h", "outcome": "error", "ended": "exit 2", "stdout": "", "ms": 3});
        let lines = [
            json!({"kind": "hook", "event": "Stop", "input": input, "handlers": [handled], "effect": "allowed"}),
            json!({"kind": "notice", "text": root}),
            json!({"kind": "request", "messages": [{"role": "user", "text": format!("see {root}/home")}]}),
            json!({"kind": "exit", "code": 0}),
        ];
        parse_trace(&lines.map(|line| line.to_string()).join("\n")).unwrap()
    }

    #[test]
    fn only_ids_and_paths_may_differ() {
        let one = sample_trace("5999882c-e786-462c-84d4-07d1c65b5e76", "/tmp/one", true);
        let same = sample_trace("11111111-2222-4333-8444-555555555555", "/tmp/other", true);
        let other = sample_trace("11111111-2222-4333-8444-555555555555", "/tmp/other", false);
        assert_eq!(trace_differences(&one, &same), []);
        let differences: Vec<String> =
            trace_differences(&one, &other).iter().map(TraceDifference::to_string).collect();
        assert_eq!(
            differences,
            [
                r#"- hook input {"cwd":"$ROOT/project","hook_event_name":"Stop","session_id":"$ID1","stop_hook_active":true}"#,
                r#"+ hook input {"cwd":"$ROOT/project","hook_event_name":"Stop","session_id":"$ID1","stop_hook_active":false}"#,
            ]
        );
    }

    #[test]
    fn a_line_in_only_one_trace_is_a_difference() {
        let one = parse_trace(r#"{"kind":"exit","code":0}"#).unwrap();
        let none = parse_trace("").unwrap();
        let differences: Vec<String> =
            trace_differences(&one, &none).iter().map(TraceDifference::to_string).collect();
        assert_eq!(differences, ["- exits 0"]);
    }

    #[test]
    fn a_line_that_does_not_parse_is_an_error() {
        let error = parse_trace("{\"kind\":\"exit\"}\n{\"kind\":").unwrap_err();
        assert_eq!(error.to_string(), "not JSON: {\"kind\":");
    }
}
