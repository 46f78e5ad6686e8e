//! The answers of `prompt` and `agent` hooks, for which the client asks a model.
//!
//! Measured on the pinned client, 2.1.325: only an answer that says `"ok": false` blocks. An answer that cannot be read,
//! and an error of the API, are shown as a hook error and let the agent stop; a timeout is not even shown.

use super::{BlockForm, ContinueFalse, HookAnswer, HookFailure, HookOutcomeLabel, HookVerdict};
use crate::hook_settings::EvaluatorKind;
use serde_json::Value;

const STOP_QUESTION: &str = "Based on the conversation transcript above, has the following stopping condition been satisfied? Answer \
    based on transcript evidence only.\n\nCondition: ";
const ARGUMENTS_MARK: &str = "$ARGUMENTS";
/// The client cuts a prompt that the agent has already read to this length, in UTF-16 units.
const MAX_REPEATED_PROMPT: usize = 500;

/// What the model said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluatorVerdict {
    Met,
    /// The condition can never be met, so the agent may stop.
    Impossible {
        reason: String,
    },
    Unmet {
        reason: String,
    },
}

/// How the client's question to the model ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvaluatorOutcome {
    Answered(EvaluatorVerdict),
    /// With the client's message to the user.
    Failed(String),
    /// No verdict: a timeout, or an agent that gave up. The client reports nothing.
    Silent,
}

/// Whether the event asks the model about a stop, not about an action.
pub fn is_stop_event(event: &str) -> bool {
    matches!(event, "Stop" | "SubagentStop")
}

/// The last message of the request: the condition, with the input of the event. `input` is its JSON on one line.
pub fn evaluator_question(kind: EvaluatorKind, event: &str, prompt: &str, input: &str) -> String {
    let question = match kind {
        EvaluatorKind::Prompt if is_stop_event(event) => format!("{STOP_QUESTION}{prompt}"),
        EvaluatorKind::Prompt | EvaluatorKind::Agent => prompt.to_owned(),
    };
    if question.contains(ARGUMENTS_MARK) {
        question.replace(ARGUMENTS_MARK, input)
    } else {
        format!("{question}\n\nARGUMENTS: {input}")
    }
}

/// Shortens a prompt that an earlier block already quoted in full.
pub fn shorten_repeated_prompt(prompt: &str) -> String {
    let length: usize = prompt.chars().map(char::len_utf16).sum();
    if length <= MAX_REPEATED_PROMPT {
        return prompt.to_owned();
    }
    let mut kept = 0;
    let shown: String = prompt
        .chars()
        .take_while(|char| {
            kept += char.len_utf16();
            kept <= MAX_REPEATED_PROMPT
        })
        .collect();
    let rest = length - shown.chars().map(char::len_utf16).sum::<usize>();
    format!("{shown}… [+{rest} chars]")
}

/// Reads the text of the model's answer to a `prompt` hook.
pub fn read_prompt_answer(text: &str) -> EvaluatorOutcome {
    let answer = serde_json::from_str(strip_fence(text.trim())).unwrap_or(Value::Null);
    if is_falsy(&answer) {
        return EvaluatorOutcome::Failed("JSON validation failed".to_owned());
    }
    match schema_issues(&answer) {
        issues if issues.is_empty() => EvaluatorOutcome::Answered(read_verdict(&answer)),
        issues => EvaluatorOutcome::Failed(format!(
            "Schema validation failed: [\n{}\n]",
            issues.join(",\n")
        )),
    }
}

/// Reads a valid answer: that of a `prompt` hook, or the input of an agent's `StructuredOutput` call.
pub fn read_verdict(answer: &Value) -> EvaluatorVerdict {
    if answer["ok"] == true {
        return EvaluatorVerdict::Met;
    }
    // The client words a missing reason as JavaScript does.
    let reason = answer["reason"].as_str().unwrap_or("undefined").to_owned();
    if answer["impossible"] == true {
        return EvaluatorVerdict::Impossible { reason };
    }
    EvaluatorVerdict::Unmet { reason }
}

/// The text inside a code fence, or all of it.
fn strip_fence(text: &str) -> &str {
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.and_then(|inner| inner.split_once('\n')).map(|(_, inner)| inner);
    inner.unwrap_or(text).trim()
}

/// The client treats these values like an answer that is not JSON.
fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn schema_issues(answer: &Value) -> Vec<String> {
    if !answer.is_object() {
        return vec![schema_issue("object", None, Some(answer))];
    }
    let fields = [
        ("ok", "boolean", answer.get("ok"), answer["ok"].is_boolean()),
        (
            "reason",
            "string",
            answer.get("reason"),
            answer.get("reason").is_none_or(Value::is_string),
        ),
        (
            "impossible",
            "boolean",
            answer.get("impossible"),
            answer.get("impossible").is_none_or(Value::is_boolean),
        ),
    ];
    let wrong = fields.into_iter().filter(|(_, _, _, is_valid)| !is_valid);
    wrong.map(|(name, expected, found, _)| schema_issue(expected, Some(name), found)).collect()
}

/// One entry of the client's list of issues.
fn schema_issue(expected: &str, field: Option<&str>, found: Option<&Value>) -> String {
    let path = match field {
        Some(field) => format!("[\n      \"{field}\"\n    ]"),
        None => "[]".to_owned(),
    };
    let received = json_type(found);
    format!(
        "  {{\n    \"expected\": \"{expected}\",\n    \"code\": \"invalid_type\",\n    \"path\": {path},\n    \"message\": \
         \"Invalid input: expected {expected}, received {received}\"\n  }}"
    )
}

/// The client's name for the type of a value.
pub fn json_type(value: Option<&Value>) -> &'static str {
    match value {
        None => "undefined",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}

/// A finished question, and how its handler was registered.
#[derive(Clone, Debug)]
pub struct FinishedEvaluation<'a> {
    pub event: &'a str,
    pub kind: EvaluatorKind,
    /// `continueOnBlock`
    pub continues_on_block: bool,
    pub outcome: EvaluatorOutcome,
}

/// The answer that the client makes of the outcome.
pub fn interpret_evaluation(evaluation: FinishedEvaluation<'_>) -> HookAnswer {
    let FinishedEvaluation { event, kind, continues_on_block, outcome } = evaluation;
    let verdict = match outcome {
        EvaluatorOutcome::Answered(verdict) => verdict,
        EvaluatorOutcome::Failed(message) => {
            let failure = HookFailure::Evaluator { message };
            return super::bare_answer(HookVerdict::Failed(failure), 1);
        }
        EvaluatorOutcome::Silent => {
            let label = HookOutcomeLabel::Cancelled;
            return HookAnswer { label, ..super::bare_answer(HookVerdict::NoVerdict, 1) };
        }
    };
    let reason = match verdict {
        EvaluatorVerdict::Met => None,
        // Only a `prompt` hook at a stop knows this answer; elsewhere the condition is just unmet.
        EvaluatorVerdict::Impossible { .. }
            if kind == EvaluatorKind::Prompt && is_stop_event(event) =>
        {
            None
        }
        EvaluatorVerdict::Impossible { reason } | EvaluatorVerdict::Unmet { reason } => {
            Some(reason)
        }
    };
    let Some(reason) = reason else { return super::bare_answer(HookVerdict::Allow, 0) };
    let (text, form) = match kind {
        EvaluatorKind::Prompt => (reason.clone(), BlockForm::ExitTwo),
        EvaluatorKind::Agent => {
            (format!("Agent hook condition was not met: {reason}"), BlockForm::AgentVerdict)
        }
    };
    let ends_turn = kind == EvaluatorKind::Prompt && !is_stop_event(event) && !continues_on_block;
    let verdict = super::block_if_possible(event, text, form);
    let answer = HookAnswer {
        stop: ends_turn.then_some(ContinueFalse { reason: Some(reason) }),
        ..super::bare_answer(verdict, 2)
    };
    super::with_denial(event, answer)
}
