//! Renders proposed gates as a `ralph.toml` for a person to read, change and approve.

use ralph_core::gate::{Command, Format, Gate, MinTests};
use ralph_core::policy::LineCheck;
use ralph_core::requirement::Weight;
use ralph_core::text;

use super::{Confidence, Detected, Proposal, Tool};

const HEAD: &str = "\
# Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.
";

const PROTECT: &str = "\
# Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
";

/// Renders the proposal as TOML. Gates whose tool is missing are commented out, with the reason.
pub fn render(detected: &Detected) -> String {
    render_under(HEAD, detected)
}

/// Renders the proposal under another header, which must be a comment.
pub fn render_under(head: &str, detected: &Detected) -> String {
    let mut out = String::from(head);
    out.push_str(&gates(detected));
    if detected.gates.is_empty() {
        out.push_str(EXAMPLE);
    }
    out.push_str(&settings(detected));
    out
}

/// Renders only the gates, to be appended to an existing policy.
pub fn gates(detected: &Detected) -> String {
    let mut out = String::new();
    for proposal in &detected.gates {
        out.push('\n');
        match &proposal.tool {
            Tool::Found(_) => {
                out.push_str(&why(proposal));
                out.push_str(&gate(&proposal.gate));
            }
            Tool::Missing(tool) => {
                out.push_str(&why(proposal));
                out.push_str(&format!(
                    "# Inactive: `{}` {}. Once it is, uncomment this gate.\n",
                    text::line(tool, 80),
                    if tool.contains('/') { "is not executable" } else { "is not on PATH" }
                ));
                for line in gate(&proposal.gate).lines() {
                    out.push_str(&format!("# {line}\n"));
                }
            }
        }
    }
    out
}

fn settings(detected: &Detected) -> String {
    let mut out = String::new();
    let forbid: Vec<String> = LineCheck::ALL.iter().map(|check| check.name().to_string()).collect();
    out.push_str("\n[lines]\n");
    out.push_str(&format!("forbid = {}\n", list(&forbid)));
    out.push('\n');
    out.push_str(PROTECT);
    if detected.protect.is_empty() {
        out.push_str("# [protect]\n# paths = [\"tests/**\"]\n");
    } else {
        out.push_str("[protect]\n");
        out.push_str(&format!("paths = {}\n", list(&detected.protect)));
    }
    if !detected.link.is_empty() {
        out.push_str(
            "\n# Ignored by git, but needed by the gates in a clean checkout.\n[verify]\n",
        );
        out.push_str(&format!("link = {}\n", list(&detected.link)));
    }
    out
}

const EXAMPLE: &str = "
# [[gate]]
# name = \"tests\"
# stage = \"correctness\"
# run = [\"./run-tests\"]
# timeout = \"10m\"
";

fn why(proposal: &Proposal) -> String {
    let likely = match proposal.confidence {
        Confidence::Certain => "",
        Confidence::Likely => "Likely: ",
    };
    format!("# {likely}{}\n", text::line(&proposal.why, 200))
}

fn gate(gate: &Gate) -> String {
    let mut out = String::from("[[gate]]\n");
    let mut put = |key: &str, value: String| out.push_str(&format!("{key} = {value}\n"));
    put("name", quoted(&gate.name));
    put("stage", quoted(gate.stage.name()));
    match &gate.command {
        Command::Argv(words) => put("run", list(words)),
        Command::Shell(line) => put("shell", quoted(line)),
    }
    if !gate.cwd.is_empty() {
        put("cwd", quoted(&gate.cwd));
    }
    put("timeout", quoted(&duration(gate.timeout_ms)));
    if !gate.paths.is_empty() {
        put("paths", list(&gate.paths));
    }
    if gate.weight == Weight::Advisory {
        put("required", "false".to_string());
    }
    if gate.report != Format::Text {
        put("report", quoted(gate.report.name()));
    }
    match gate.min_tests {
        MinTests::Some => {}
        MinTests::Baseline => put("min_tests", quoted("baseline")),
        MinTests::AtLeast(count) => put("min_tests", count.to_string()),
    }
    out
}

fn duration(ms: u64) -> String {
    if ms.is_multiple_of(60_000) { format!("{}m", ms / 60_000) } else { format!("{ms}ms") }
}

fn list(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    format!("[{}]", words.join(", "))
}

/// A basic TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            _ if char.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(char))),
            _ => out.push(char),
        }
    }
    out.push('"');
    out
}

/// The runnable proposed gates that a `ralph.toml` lacks, by name and by command; `None` if it is not valid TOML.
pub fn absent<'d>(existing: &str, detected: &'d Detected) -> Option<Vec<&'d Proposal>> {
    let file: toml::Table = existing.parse().ok()?;
    let gates = file.get("gate").and_then(toml::Value::as_array).map(Vec::as_slice);
    let gates = gates.unwrap_or_default();
    let is_known = |proposal: &Proposal| {
        gates.iter().any(|gate| {
            gate.get("name").and_then(toml::Value::as_str) == Some(&proposal.gate.name)
                || command_of(gate).as_ref() == Some(&proposal.gate.command)
        })
    };
    let active = detected.gates.iter().filter(|one| matches!(one.tool, Tool::Found(_)));
    Some(active.filter(|proposal| !is_known(proposal)).collect())
}

fn command_of(gate: &toml::Value) -> Option<Command> {
    if let Some(line) = gate.get("shell").and_then(toml::Value::as_str) {
        return Some(Command::Shell(line.to_string()));
    }
    let words = gate.get("run")?.as_array()?.iter();
    words.map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>().map(Command::Argv)
}
