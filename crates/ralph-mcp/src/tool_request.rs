//! Parses the arguments of a call. They come from a model: wrong ones get an error that says what is expected.

use crate::tool_list::McpTool;
use ralph_core::text;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::Value;

pub(crate) const MAX_NAME_CHARS: usize = 200;
pub(crate) const MAX_QUESTION_CHARS: usize = 2_000;
pub(crate) const MAX_WHY_CHARS: usize = 300;
pub(crate) const MAX_QUERY_CHARS: usize = 500;
pub(crate) const MAX_SHOWN: u16 = 20;
pub(crate) const MAX_WAIT_SECONDS: u64 = 600;
pub(crate) const DEFAULT_DECISIONS: u16 = 5;
pub(crate) const DEFAULT_HITS: u16 = 8;

/// A call with valid arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolRequest {
    Contract { run: Option<String> },
    Verify { run: Option<String>, wait_seconds: u64 },
    Status { run: Option<String> },
    Why { run: Option<String>, last: usize },
    Ask { question: String },
    Dispute { requirement: String, why: String },
    Recall { query: String, limit: usize, kind: Option<String> },
    Memory,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunArguments {
    run: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyArguments {
    run: Option<String>,
    wait_seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhyArguments {
    run: Option<String>,
    last: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskArguments {
    question: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisputeArguments {
    requirement: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecallArguments {
    query: String,
    limit: Option<u16>,
    kind: Option<RecallKindArgument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RecallKindArgument {
    Run,
    Handoff,
    Learning,
    Lesson,
    Memory,
}

impl ToolRequest {
    /// The error is one line for the model.
    pub(crate) fn parse(kind: McpTool, arguments: Option<JsonObject>) -> Result<Self, String> {
        let given = Value::Object(arguments.unwrap_or_default());
        Ok(match kind {
            McpTool::Contract => {
                Self::Contract { run: run_name(parse::<RunArguments>(given)?.run)? }
            }
            McpTool::Status => Self::Status { run: run_name(parse::<RunArguments>(given)?.run)? },
            McpTool::Verify => {
                let VerifyArguments { run, wait_seconds } = parse(given)?;
                let wait_seconds = wait_seconds.unwrap_or(MAX_WAIT_SECONDS);
                let wait_seconds = within("wait_seconds", wait_seconds, MAX_WAIT_SECONDS)?;
                Self::Verify { run: run_name(run)?, wait_seconds }
            }
            McpTool::Why => {
                let WhyArguments { run, last } = parse(given)?;
                let last = within("last", last.unwrap_or(DEFAULT_DECISIONS), MAX_SHOWN)?;
                Self::Why { run: run_name(run)?, last: usize::from(last) }
            }
            McpTool::Ask => {
                let AskArguments { question } = parse(given)?;
                Self::Ask { question: filled("question", question, MAX_QUESTION_CHARS)? }
            }
            McpTool::Dispute => {
                let DisputeArguments { requirement, why } = parse(given)?;
                let requirement = filled("requirement", requirement, MAX_NAME_CHARS)?;
                Self::Dispute { requirement, why: filled("why", why, MAX_WHY_CHARS)? }
            }
            McpTool::Recall => {
                let RecallArguments { query, limit, kind } = parse(given)?;
                let limit = within("limit", limit.unwrap_or(DEFAULT_HITS), MAX_SHOWN)?;
                Self::Recall {
                    query: filled("query", query, MAX_QUERY_CHARS)?,
                    limit: usize::from(limit),
                    kind: kind.map(|kind| kind.name().to_string()),
                }
            }
            McpTool::Memory => {
                let NoArguments {} = parse(given)?;
                Self::Memory
            }
        })
    }
}

impl RecallKindArgument {
    fn name(&self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Handoff => "handoff",
            Self::Learning => "learning",
            Self::Lesson => "lesson",
            Self::Memory => "memory",
        }
    }
}

fn parse<'de, Arguments: Deserialize<'de>>(given: Value) -> Result<Arguments, String> {
    Arguments::deserialize(given).map_err(|error| {
        // The message may quote what the model sent.
        format!("the arguments do not fit: {}", text::clean_line(&error.to_string(), 300))
    })
}

fn run_name(name: Option<String>) -> Result<Option<String>, String> {
    name.map(|name| filled("run", name, MAX_NAME_CHARS)).transpose()
}

fn filled(field: &str, value: String, most: usize) -> Result<String, String> {
    if value.trim().is_empty() {
        return Err(format!("`{field}` is empty"));
    }
    if value.chars().count() > most {
        return Err(format!("`{field}` is longer than {most} characters"));
    }
    Ok(value)
}

fn within<Count: Copy + PartialOrd + From<u8> + std::fmt::Display>(
    field: &str,
    value: Count,
    most: Count,
) -> Result<Count, String> {
    if value < Count::from(1) || value > most {
        return Err(format!("`{field}` must be from 1 to {most}"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_parsed_strictly() {
        let parse = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { panic!("no object") };
            ToolRequest::parse(McpTool::parse(name).unwrap(), Some(arguments))
        };
        let run = || Some("k7f2".to_string());
        let long = "x".repeat(2_001);
        for (name, arguments, expected) in [
            ("status", json!({}), Ok(ToolRequest::Status { run: None })),
            ("contract", json!({ "run": "k7f2" }), Ok(ToolRequest::Contract { run: run() })),
            ("verify", json!({}), Ok(ToolRequest::Verify { run: None, wait_seconds: 600 })),
            ("why", json!({ "last": 1 }), Ok(ToolRequest::Why { run: None, last: 1 })),
            (
                "recall",
                json!({ "query": "a", "kind": "run" }),
                Ok(ToolRequest::Recall { query: "a".into(), limit: 8, kind: Some("run".into()) }),
            ),
            ("memory", json!({}), Ok(ToolRequest::Memory)),
            (
                "memory",
                json!({ "id": "x" }),
                Err("the arguments do not fit: unknown field `id`, there are no fields"),
            ),
            ("status", json!({ "run": "" }), Err("`run` is empty")),
            ("verify", json!({ "wait_seconds": 0 }), Err("`wait_seconds` must be from 1 to 600")),
            ("verify", json!({ "wait_seconds": 601 }), Err("`wait_seconds` must be from 1 to 600")),
            ("why", json!({ "last": 21 }), Err("`last` must be from 1 to 20")),
            (
                "why",
                json!({ "last": -1 }),
                Err("the arguments do not fit: invalid value: integer `-1`, expected u16"),
            ),
            ("ask", json!({ "question": " \n" }), Err("`question` is empty")),
            ("ask", json!({ "question": long }), Err("`question` is longer than 2000 characters")),
            ("ask", json!({}), Err("the arguments do not fit: missing field `question`")),
            (
                "ask",
                json!({ "question": ["a"] }),
                Err("the arguments do not fit: invalid type: sequence, expected a string"),
            ),
            (
                "status",
                json!({ "run\u{1b}[31m": "x" }),
                Err("the arguments do not fit: unknown field `run`, expected `run`"),
            ),
            (
                "recall",
                json!({ "query": "a", "kind": "secrets" }),
                Err(
                    "the arguments do not fit: unknown variant `secrets`, expected one of `run`, `handoff`, `learning`, `lesson`, `memory`",
                ),
            ),
        ] {
            let found = parse(name, arguments.clone());
            assert_eq!(found, expected.map_err(str::to_string), "{name} {arguments}");
        }
    }
}
