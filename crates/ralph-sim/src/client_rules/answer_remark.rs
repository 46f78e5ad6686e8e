//! Explains why a hook's answer probably does not have the intended effect.

use crate::hook_answer::{BlockForm, HookAnswer, HookFailure, HookVerdict, InvalidHookAnswer};
use serde_json::{Map, Value};

/// Fields that have an effect. An answer without any of them does nothing.
const EFFECTIVE_FIELDS: [&str; 6] = [
    "continue",
    "decision",
    "hookSpecificOutput",
    "suppressOutput",
    "systemMessage",
    "terminalSequence",
];

/// Returns a remark for the author of the hook, if there is one. `stdout` is the whole output of the hook.
pub(crate) fn remark_on_answer(event: &str, answer: &HookAnswer, stdout: &str) -> Option<String> {
    let text = match &answer.verdict {
        HookVerdict::Allow => ignored_output_remark(event, answer, stdout.trim())?,
        HookVerdict::Block { reason, form } => missing_reason_remark(reason, *form)?,
        HookVerdict::TimedOut => "timed out: the client ignores the hook and reports nothing",
        HookVerdict::NoVerdict => "no verdict: the client ignores the hook and reports nothing",
        HookVerdict::Detached => "asynchronous: the client does not wait and ignores the answer",
        HookVerdict::Failed(failure) => match failure {
            HookFailure::Status { .. } => "neither exit 0 nor exit 2: an error that does not block",
            HookFailure::ScriptMissing { .. } => {
                "exit 2, but the client assumes a missing script, because stderr mentions one and stdout is blank"
            }
            HookFailure::CannotBlock { .. } => "this event cannot be blocked",
            HookFailure::NotStarted { why } => return Some(format!("could not be started: {why}")),
            HookFailure::Lost => "the hook killed its parent, which would be the client",
            HookFailure::Evaluator { message } => {
                let first = message.lines().next().unwrap_or_default();
                return Some(format!("no verdict, so it does not block: {first}"));
            }
        },
        HookVerdict::Invalid(fault) => match fault {
            InvalidHookAnswer::NotJson => "the whole answer is ignored: not valid JSON",
            InvalidHookAnswer::Schema { why } => {
                return Some(format!("the whole answer is ignored: one field is invalid, {why}"));
            }
            InvalidHookAnswer::OtherEvent { expected, found } => {
                return Some(format!(
                    "the whole answer is ignored: it is for `{found}`, but the event is `{expected}`"
                ));
            }
        },
    };
    Some(text.to_owned())
}

/// Returns a remark on the answer of a model.
pub(crate) fn evaluator_remark(answer: &HookAnswer) -> Option<String> {
    match &answer.verdict {
        HookVerdict::Failed(_) | HookVerdict::NoVerdict => remark_on_answer("", answer, ""),
        HookVerdict::Allow
        | HookVerdict::Block { .. }
        | HookVerdict::Invalid(_)
        | HookVerdict::TimedOut
        | HookVerdict::Detached => None,
    }
}

fn missing_reason_remark(reason: &str, form: BlockForm) -> Option<&'static str> {
    match (form, reason) {
        (BlockForm::ExitTwo, "No stderr output") => {
            Some("exit 2 with empty stderr: the agent does not learn why")
        }
        (BlockForm::Json, "Blocked by hook") => {
            Some("a block without a reason: the agent does not learn why")
        }
        (BlockForm::ExitTwo | BlockForm::Json | BlockForm::AgentVerdict, _) => None,
    }
}

/// Why printed output has no effect.
fn ignored_output_remark(event: &str, answer: &HookAnswer, text: &str) -> Option<&'static str> {
    let is_heeded = answer.stop.is_some()
        || answer.context.is_some()
        || answer.system_message.is_some()
        || answer.permission.is_some()
        || answer.updated_input.is_some()
        || answer.initial_user_message.is_some();
    if is_heeded || text.is_empty() {
        return None;
    }
    let is_stop = matches!(event, "Stop" | "SubagentStop" | "TeammateIdle");
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(fields)
            if fields.is_empty()
                || EFFECTIVE_FIELDS.iter().any(|name| fields.contains_key(*name)) =>
        {
            None
        }
        Ok(fields) if fields.contains_key("reason") => {
            Some("a reason without a decision has no effect")
        }
        Ok(_) => Some("no decision: the client knows none of these fields"),
        Err(_) if text.starts_with('[') => Some("no decision: the answer must be a JSON object"),
        Err(_) if text.contains('{') && text.contains('"') => {
            Some("no decision: standard output must be one JSON object and nothing else")
        }
        Err(_) => is_stop.then_some("no decision: plain text on standard output is ignored here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook_answer::{self, FinishedHookOutput, HookExit};

    /// None of these has the effect that its author intended.
    #[test]
    fn explains_common_mistakes() {
        let rows = [
            (0, r#"{"decision": "block", "reason": 42}"#, ""),
            (0, r#"{"decision": "deny", "reason": "no"}"#, ""),
            (0, r#"{"decision": "block"}"#, ""),
            (0, r#"{"decision": "block", }"#, ""),
            (0, r#"{"decision": "block""#, ""),
            (0, "checking\n{\"decision\": \"block\", \"reason\": \"no\"}", ""),
            (0, "{\"decision\": \"block\", \"reason\": \"no\"}\ndone", ""),
            (0, r#"[{"decision": "block"}]"#, ""),
            (0, r#"{"ok": false}"#, ""),
            (0, r#"{"reason": "no"}"#, ""),
            (0, r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse"}}"#, ""),
            (0, "block", ""),
            (0, r#"{"async": true}"#, ""),
            (1, "", "no"),
            (2, "", ""),
            (2, "", "tests.sh: No such file or directory"),
        ];
        let lines = rows.map(|(code, stdout, stderr)| {
            let shown = format!("{stdout}{stderr}").replace('\n', "⏎");
            format!("{code} {shown}\n  {}", remark_text("Stop", code, stdout, stderr))
        });
        insta::assert_snapshot!(lines.join("\n"), @r#"
        0 {"decision": "block", "reason": 42}
          the whole answer is ignored: one field is invalid, reason: expected string, received number
        0 {"decision": "deny", "reason": "no"}
          the whole answer is ignored: one field is invalid, decision: Invalid option: expected one of "approve"|"block"
        0 {"decision": "block"}
          a block without a reason: the agent does not learn why
        0 {"decision": "block", }
          the whole answer is ignored: not valid JSON
        0 {"decision": "block"
          no decision: standard output must be one JSON object and nothing else
        0 checking⏎{"decision": "block", "reason": "no"}
          no decision: standard output must be one JSON object and nothing else
        0 {"decision": "block", "reason": "no"}⏎done
          no decision: standard output must be one JSON object and nothing else
        0 [{"decision": "block"}]
          no decision: the answer must be a JSON object
        0 {"ok": false}
          no decision: the client knows none of these fields
        0 {"reason": "no"}
          a reason without a decision has no effect
        0 {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}
          the whole answer is ignored: it is for `PreToolUse`, but the event is `Stop`
        0 block
          no decision: plain text on standard output is ignored here
        0 {"async": true}
          asynchronous: the client does not wait and ignores the answer
        1 no
          neither exit 0 nor exit 2: an error that does not block
        2 
          exit 2 with empty stderr: the agent does not learn why
        2 tests.sh: No such file or directory
          exit 2, but the client assumes a missing script, because stderr mentions one and stdout is blank
        "#);
    }

    #[test]
    fn an_effective_answer_needs_no_remark() {
        let rows = [
            ("Stop", 0, "", ""),
            ("Stop", 0, "", "all is well"),
            ("Stop", 0, "{}", ""),
            ("Stop", 0, r#"{"decision": "approve", "reason": "fine"}"#, ""),
            ("Stop", 0, r#"{"decision": "block", "reason": "no"}"#, ""),
            ("Stop", 0, r#"{"continue": false}"#, ""),
            ("Stop", 0, r#"{"suppressOutput": true}"#, ""),
            ("Stop", 1, r#"{"decision": "block", "reason": "no"}"#, ""),
            ("Stop", 2, "", "two tests fail"),
            ("PostToolUse", 0, "formatted one file", ""),
            ("SessionStart", 0, "It is Sunday.", ""),
            ("SessionStart", 0, "{ \"not\": json", ""),
        ];
        for (event, code, stdout, stderr) in rows {
            assert_eq!(
                remark_text(event, code, stdout, stderr),
                "-",
                "{event} {code} {stdout}{stderr}"
            );
        }
    }

    fn remark_text(event: &str, code: i32, stdout: &str, stderr: &str) -> String {
        let exit = HookExit::Code(code);
        let answer =
            hook_answer::interpret(&FinishedHookOutput { event, exit: &exit, stdout, stderr });
        remark_on_answer(event, &answer, stdout).unwrap_or_else(|| "-".to_owned())
    }
}
