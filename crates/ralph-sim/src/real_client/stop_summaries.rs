//! What the client's transcript says about hooks that ask a model. Its output says nothing about them, but after every
//! stop it writes a summary of all hooks to the transcript.

use crate::hook_settings::EvaluatorKind;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::fs;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// How long to wait for a summary that is still being written.
const WRITE_TIMEOUT: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const MAX_TRANSCRIPT_BYTES: usize = 64 * 1024 * 1024;

/// The summary of one stop.
#[derive(Clone, Debug, Default)]
pub(super) struct StopSummary {
    /// The entries of `hookInfos`.
    infos: Vec<Value>,
    /// The entries of `hookErrors`.
    errors: Vec<String>,
    /// Attachments about hook errors that did not block.
    failures: Vec<Value>,
}

/// How a question to a model ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SummarizedEvaluation {
    /// `answered`, `failed`, or `no verdict`
    pub(super) ended: &'static str,
    pub(super) outcome: &'static str,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) ms: u64,
}

/// The summary of the stop with this index, counted from 0.
pub(super) fn read_stop_summary(transcript: &Path, index: usize) -> Option<StopSummary> {
    let bound = Deadline::after(WRITE_TIMEOUT);
    loop {
        let bytes = fs::read(transcript, MAX_TRANSCRIPT_BYTES).unwrap_or_default();
        let found = parse_stop_summaries(&String::from_utf8_lossy(&bytes)).into_iter().nth(index);
        if found.is_some() || bound.has_passed() {
            return found;
        }
        clock::sleep(POLL_INTERVAL);
    }
}

fn parse_stop_summaries(transcript: &str) -> Vec<StopSummary> {
    let mut summaries = Vec::new();
    let mut failures = Vec::new();
    for line in transcript.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let attachment = &line["attachment"];
        if attachment["type"] == "hook_non_blocking_error" && attachment["hookEvent"] == "Stop" {
            failures.push(attachment.clone());
        } else if line["subtype"] == "stop_hook_summary" {
            let errors = line["hookErrors"].as_array().into_iter().flatten();
            summaries.push(StopSummary {
                infos: line["hookInfos"].as_array().cloned().unwrap_or_default(),
                errors: errors.filter_map(Value::as_str).map(str::to_owned).collect(),
                failures: std::mem::take(&mut failures),
            });
        }
    }
    summaries
}

impl StopSummary {
    /// How the question of this hook ended; `None` if the hook did not run.
    pub(super) fn evaluation(
        &self,
        kind: EvaluatorKind,
        prompt: &str,
    ) -> Option<SummarizedEvaluation> {
        let has_prompt = kind == EvaluatorKind::Prompt;
        let info = self.infos.iter().find(|info| {
            info["command"] == prompt && info["promptText"].is_string() == has_prompt
        })?;
        let ms = info["durationMs"].as_u64();
        let failure = self.failures.iter().find(|failure| failure["command"] == prompt);
        let text = |name: &str| {
            failure.and_then(|failure| failure[name].as_str()).unwrap_or_default().to_owned()
        };
        let (ended, outcome) = match (failure, ms) {
            (Some(_), _) => ("failed", "error"),
            (None, Some(_)) => ("answered", "success"),
            (None, None) if self.has_block(kind, prompt) => ("answered", "error"),
            (None, None) => ("no verdict", "cancelled"),
        };
        let (stdout, stderr) = (text("stdout"), text("stderr"));
        Some(SummarizedEvaluation { ended, outcome, stdout, stderr, ms: ms.unwrap_or_default() })
    }

    fn has_block(&self, kind: EvaluatorKind, prompt: &str) -> bool {
        // A repeated prompt is cut, so only its beginning is compared.
        let beginning: String = prompt.chars().take(100).collect();
        self.errors.iter().any(|error| match kind {
            EvaluatorKind::Prompt => {
                error.strip_prefix('[').is_some_and(|error| error.starts_with(&beginning))
            }
            EvaluatorKind::Agent => error.starts_with("Agent hook condition was not met: "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The lines are those of the real client, shortened.
    #[test]
    fn reads_the_end_of_each_question() {
        let failure = json!({"type": "attachment", "attachment": {
            "type": "hook_non_blocking_error", "hookEvent": "Stop", "command": "Fixed?",
            "stderr": "JSON validation failed", "stdout": "I think so.", "exitCode": 1,
        }});
        let summary = |infos: Value, errors: Value| json!({"type": "system", "subtype": "stop_hook_summary", "hookInfos": infos, "hookErrors": errors});
        let asked = |ms: Option<u64>| match ms {
            Some(ms) => {
                json!([{"command": "tap"}, {"command": "Fixed?", "promptText": "Fixed?", "durationMs": ms}])
            }
            None => json!([{"command": "Fixed?", "promptText": "Fixed?"}]),
        };
        let lines = [
            summary(asked(Some(59)), json!([])),
            json!("not an object"),
            failure,
            summary(asked(Some(68)), json!(["JSON validation failed"])),
            summary(asked(None), json!(["[Fixed?]: no"])),
            summary(asked(None), json!([])),
            summary(json!([{"command": "tap"}]), json!([])),
        ];
        let transcript = lines.map(|line| line.to_string()).join("\n");
        let ends: Vec<_> = parse_stop_summaries(&transcript)
            .iter()
            .map(|summary| summary.evaluation(EvaluatorKind::Prompt, "Fixed?"))
            .map(|found| found.map(|found| (found.ended, found.outcome, found.stderr)))
            .collect();
        let end = |ended, outcome, stderr: &str| Some((ended, outcome, stderr.to_owned()));
        assert_eq!(
            ends,
            [
                end("answered", "success", ""),
                end("failed", "error", "JSON validation failed"),
                end("answered", "error", ""),
                end("no verdict", "cancelled", ""),
                None,
            ]
        );
        let agent = summary(
            json!([{"command": "Fixed?"}]),
            json!(["Agent hook condition was not met: no"]),
        );
        let agent = parse_stop_summaries(&agent.to_string());
        let found = agent[0].evaluation(EvaluatorKind::Agent, "Fixed?").unwrap();
        assert_eq!((found.ended, found.outcome), ("answered", "error"));
        assert_eq!(agent[0].evaluation(EvaluatorKind::Prompt, "Fixed?"), None);
    }
}
