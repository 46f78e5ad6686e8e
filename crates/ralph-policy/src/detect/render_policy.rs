//! Renders proposed gates as a `ralph.toml` for a person to read, change and approve.

use crate::config::{toml_list, toml_string};
use ralph_core::gate::{Gate, GateInvocation, MinTests, ReportFormat};
use ralph_core::policy::{LineCheck, SessionGates};
use ralph_core::requirement::RequirementWeight;
use ralph_core::text;

use super::{CiVariable, DetectedGates, ProposalConfidence, ProposedGate, ToolLookup};

const DEFAULT_HEADER: &str = "\
# Proposed by `ralph gate detect`. Nothing in this file runs until a person approves it with `ralph trust`.
";

const SESSION_COMMENT: &str = "\
# `every`: no session stops with work that makes a gate worse. `goal`: the gates hold only sessions with a goal.
";

const PROTECT_COMMENT: &str = "\
# Files that the agent may not change. Weakened tests are detected anyway; list tests here if none may be added.
";

/// Renders the proposal as TOML. Gates whose tool is missing are commented out, with the reason.
pub fn render(detected: &DetectedGates) -> String {
    render_with_header(DEFAULT_HEADER, detected)
}

/// Renders the proposal with a choice of the sessions that its gates hold.
pub fn render_with_sessions(detected: &DetectedGates, sessions: SessionGates) -> String {
    render_with_header(&format!("{DEFAULT_HEADER}\n{}", render_sessions(sessions)), detected)
}

pub(crate) fn render_sessions(sessions: SessionGates) -> String {
    let choice = match sessions {
        SessionGates::Every => "every",
        SessionGates::Goal => "goal",
    };
    format!("{SESSION_COMMENT}[session]\ngates = \"{choice}\"\n")
}

/// Renders the proposal under another header, which must be a comment.
pub fn render_with_header(head: &str, detected: &DetectedGates) -> String {
    let mut out = String::from(head);
    out.push_str(&render_gates(detected));
    if detected.gates.is_empty() {
        out.push_str(EXAMPLE_GATE);
    }
    out.push_str(&render_settings(detected));
    out
}

/// Renders only the gates, to be appended to an existing policy.
pub fn render_gates(detected: &DetectedGates) -> String {
    let mut out = String::new();
    for proposal in &detected.gates {
        out.push('\n');
        match &proposal.tool {
            ToolLookup::Found(_) => {
                out.push_str(&render_reason(proposal));
                out.push_str(&render_gate(&proposal.gate));
            }
            ToolLookup::Missing(tool) => {
                out.push_str(&render_reason(proposal));
                out.push_str(&format!(
                    "# Inactive: `{}` {}. Once it is, uncomment this gate.\n",
                    text::clean_line(tool, 80),
                    if tool.contains('/') { "is not executable" } else { "is not on PATH" }
                ));
                for line in render_gate(&proposal.gate).lines() {
                    out.push_str(&format!("# {line}\n"));
                }
            }
        }
    }
    out
}

fn render_settings(detected: &DetectedGates) -> String {
    let mut out = String::new();
    let forbid: Vec<String> = LineCheck::ALL.iter().map(|check| check.name().to_string()).collect();
    out.push_str("\n[lines]\n");
    out.push_str(&format!("forbid = {}\n", toml_list(&forbid)));
    out.push('\n');
    out.push_str(PROTECT_COMMENT);
    if detected.protect_globs.is_empty() {
        out.push_str("# [protect]\n# paths = [\"tests/**\"]\n");
    } else {
        out.push_str("[protect]\n");
        out.push_str(&format!("paths = {}\n", toml_list(&detected.protect_globs)));
    }
    if !detected.variables.is_empty() {
        out.push_str("\n# As in CI.\n[environment.set]\n");
        for CiVariable { name, value, .. } in &detected.variables {
            out.push_str(&format!("{name} = {}\n", toml_string(value)));
        }
    }
    if !detected.linked_directories.is_empty() {
        out.push_str(
            "\n# Ignored by git, but needed by the gates in a clean checkout.\n[verify]\n",
        );
        out.push_str(&format!("link = {}\n", toml_list(&detected.linked_directories)));
    }
    out
}

const EXAMPLE_GATE: &str = "
# [[gate]]
# name = \"tests\"
# stage = \"correctness\"
# run = [\"./run-tests\"]
# timeout = \"10m\"
";

fn render_reason(proposal: &ProposedGate) -> String {
    let likely = match proposal.confidence {
        ProposalConfidence::Certain => "",
        ProposalConfidence::Likely => "Likely: ",
    };
    format!("# {likely}{}\n", text::clean_line(&proposal.why, 200))
}

pub(crate) fn render_gate(gate: &Gate) -> String {
    let mut out = String::from("[[gate]]\n");
    let mut put = |key: &str, value: String| out.push_str(&format!("{key} = {value}\n"));
    put("name", toml_string(&gate.name));
    put("stage", toml_string(gate.stage.name()));
    match &gate.command {
        GateInvocation::Argv(words) => put("run", toml_list(words)),
        GateInvocation::Shell(line) => put("shell", toml_string(line)),
    }
    if !gate.cwd.is_empty() {
        put("cwd", toml_string(&gate.cwd));
    }
    put("timeout", toml_string(&render_timeout(gate.timeout_ms)));
    if !gate.paths.is_empty() {
        put("paths", toml_list(&gate.paths));
    }
    if gate.weight == RequirementWeight::Advisory {
        put("required", "false".to_string());
    }
    if gate.report != ReportFormat::Text {
        put("report", toml_string(gate.report.name()));
    }
    if !gate.report_files.is_empty() {
        put("report_files", toml_list(&gate.report_files));
    }
    match gate.min_tests {
        MinTests::Some => {}
        MinTests::Baseline => put("min_tests", toml_string("baseline")),
        MinTests::AtLeast(count) => put("min_tests", count.to_string()),
    }
    out
}

fn render_timeout(ms: u64) -> String {
    if ms.is_multiple_of(60_000) { format!("{}m", ms / 60_000) } else { format!("{ms}ms") }
}

/// The runnable proposed gates that a `ralph.toml` lacks, by name and by command; `None` if it is not valid TOML.
pub fn absent_gates<'d>(
    existing: &str,
    detected: &'d DetectedGates,
) -> Option<Vec<&'d ProposedGate>> {
    let file: toml::Table = existing.parse().ok()?;
    let gates = file.get("gate").and_then(toml::Value::as_array).map(Vec::as_slice);
    let gates = gates.unwrap_or_default();
    let is_known = |proposal: &ProposedGate| {
        gates.iter().any(|gate| {
            gate.get("name").and_then(toml::Value::as_str) == Some(&proposal.gate.name)
                || gate_command(gate).as_ref() == Some(&proposal.gate.command)
        })
    };
    let active = detected.gates.iter().filter(|one| matches!(one.tool, ToolLookup::Found(_)));
    Some(active.filter(|proposal| !is_known(proposal)).collect())
}

fn gate_command(gate: &toml::Value) -> Option<GateInvocation> {
    if let Some(line) = gate.get("shell").and_then(toml::Value::as_str) {
        return Some(GateInvocation::Shell(line.to_string()));
    }
    let words = gate.get("run")?.as_array()?.iter();
    words
        .map(|word| word.as_str().map(str::to_owned))
        .collect::<Option<_>>()
        .map(GateInvocation::Argv)
}
