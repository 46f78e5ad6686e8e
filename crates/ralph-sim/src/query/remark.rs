//! Why a hook's answer does not do what it may have been meant to.

use crate::answer::{Answer, Failure, Fault, Form, Verdict};
use serde_json::{Map, Value};

/// Fields without which an answer in JSON says nothing.
const HEEDED: [&str; 6] = [
    "continue",
    "decision",
    "hookSpecificOutput",
    "suppressOutput",
    "systemMessage",
    "terminalSequence",
];

/// `stdout` is all that the hook printed.
pub(crate) fn remark(event: &str, answer: &Answer, stdout: &str) -> Option<String> {
    let text = match &answer.verdict {
        Verdict::Allow => unheeded(event, answer, stdout.trim())?,
        Verdict::Block { reason, form } => unexplained(reason, *form)?,
        Verdict::TimedOut => "out of time: the client lets go without a word",
        Verdict::Detached => "it asked not to be waited for: nothing it says counts",
        Verdict::Failed(failure) => match failure {
            Failure::Status { .. } => "neither exit 0 nor exit 2: an error, and the client lets go",
            Failure::ScriptMissing { .. } => {
                "exit 2, but the client takes it for a missing script, because stderr speaks of one and stdout is blank"
            }
            Failure::Powerless { .. } => "nothing can be blocked at this event",
            Failure::NotStarted { why } => return Some(format!("it could not be started: {why}")),
            Failure::Lost => "it killed its parent, which would have been the client",
        },
        Verdict::Void(fault) => match fault {
            Fault::NotJson => "void, as if it had said nothing: this is no JSON",
            Fault::Schema { why } => {
                return Some(format!("void, as if it had said nothing: one field is wrong, {why}"));
            }
            Fault::Foreign { expected, found } => {
                return Some(format!(
                    "void, as if it had said nothing: the answer is for `{found}`, and this is `{expected}`"
                ));
            }
        },
    };
    Some(text.to_owned())
}

fn unexplained(reason: &str, form: Form) -> Option<&'static str> {
    match (form, reason) {
        (Form::ExitTwo, "No stderr output") => {
            Some("exit 2 without a word on stderr: the agent is not told why")
        }
        (Form::Json, "Blocked by hook") => {
            Some("a block without a reason: the agent is not told why")
        }
        (Form::ExitTwo | Form::Json, _) => None,
    }
}

/// Something was printed, and nothing comes of it.
fn unheeded(event: &str, answer: &Answer, text: &str) -> Option<&'static str> {
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
        Ok(fields) if fields.is_empty() || HEEDED.iter().any(|name| fields.contains_key(*name)) => {
            None
        }
        Ok(fields) if fields.contains_key("reason") => {
            Some("a reason without a decision does nothing")
        }
        Ok(_) => Some("no decision: the client knows none of these fields"),
        Err(_) if text.starts_with('[') => {
            Some("no decision: the answer has to be one JSON object")
        }
        Err(_) if text.contains('{') && text.contains('"') => {
            Some("no decision: standard output has to be one JSON object and nothing else")
        }
        Err(_) => {
            is_stop.then_some("no decision: plain text on standard output counts for nothing here")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{self, Exit, Output};

    /// Each of these was meant to do something, and does not.
    #[test]
    fn a_mistake_is_named() {
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
        let told = rows.map(|(code, stdout, stderr)| {
            let shown = format!("{stdout}{stderr}").replace('\n', "⏎");
            format!("{code} {shown}\n  {}", told("Stop", code, stdout, stderr))
        });
        insta::assert_snapshot!(told.join("\n"), @r#"
        0 {"decision": "block", "reason": 42}
          void, as if it had said nothing: one field is wrong, reason: expected string, received number
        0 {"decision": "deny", "reason": "no"}
          void, as if it had said nothing: one field is wrong, decision: Invalid option: expected one of "approve"|"block"
        0 {"decision": "block"}
          a block without a reason: the agent is not told why
        0 {"decision": "block", }
          void, as if it had said nothing: this is no JSON
        0 {"decision": "block"
          no decision: standard output has to be one JSON object and nothing else
        0 checking⏎{"decision": "block", "reason": "no"}
          no decision: standard output has to be one JSON object and nothing else
        0 {"decision": "block", "reason": "no"}⏎done
          no decision: standard output has to be one JSON object and nothing else
        0 [{"decision": "block"}]
          no decision: the answer has to be one JSON object
        0 {"ok": false}
          no decision: the client knows none of these fields
        0 {"reason": "no"}
          a reason without a decision does nothing
        0 {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}
          void, as if it had said nothing: the answer is for `PreToolUse`, and this is `Stop`
        0 block
          no decision: plain text on standard output counts for nothing here
        0 {"async": true}
          it asked not to be waited for: nothing it says counts
        1 no
          neither exit 0 nor exit 2: an error, and the client lets go
        2 
          exit 2 without a word on stderr: the agent is not told why
        2 tests.sh: No such file or directory
          exit 2, but the client takes it for a missing script, because stderr speaks of one and stdout is blank
        "#);
    }

    #[test]
    fn what_does_what_it_says_needs_no_remark() {
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
            assert_eq!(told(event, code, stdout, stderr), "-", "{event} {code} {stdout}{stderr}");
        }
    }

    fn told(event: &str, code: i32, stdout: &str, stderr: &str) -> String {
        let exit = Exit::Code(code);
        let answer = answer::read(&Output { event, exit: &exit, stdout, stderr });
        remark(event, &answer, stdout).unwrap_or_else(|| "-".to_owned())
    }
}
