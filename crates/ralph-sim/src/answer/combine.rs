use super::{Answer, Choice, Context, Form, Permission, Stop, Verdict, worded};

/// What the answers to one event mean together.
#[derive(Clone, Debug, PartialEq)]
pub struct Combined {
    pub outcome: Outcome,
    /// In the order in which the hooks finished. They are told to nobody where the outcome is `Stopped`.
    pub blocks: Vec<Block>,
    /// With the place of the hook among the answers.
    pub contexts: Vec<(usize, Context)>,
    pub system_messages: Vec<(usize, String)>,
    pub permission: Option<Permission>,
    pub updated_input: Option<serde_json::Value>,
    pub initial_user_message: Option<String>,
    pub prompt_is_hidden: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A `continue: false` of any hook beats every block.
    Stopped(Stop),
    Blocked,
    Free,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The place of its hook among the answers.
    pub by: usize,
    pub reason: String,
    pub form: Form,
}

impl Block {
    pub fn worded(&self, command: &str) -> String {
        worded(&self.reason, self.form, command)
    }
}

/// Takes the answers in the order in which the hooks finished.
pub fn combine(answers: &[Answer]) -> Combined {
    let blocks: Vec<Block> = answers
        .iter()
        .enumerate()
        .filter_map(|(by, answer)| match &answer.verdict {
            Verdict::Block { reason, form } => {
                Some(Block { by, reason: reason.clone(), form: *form })
            }
            Verdict::Allow
            | Verdict::Failed(_)
            | Verdict::Void(_)
            | Verdict::TimedOut
            | Verdict::Detached => None,
        })
        .collect();
    let outcome = match answers.iter().rev().find_map(|answer| answer.stop.clone()) {
        Some(stop) => Outcome::Stopped(stop),
        None if blocks.is_empty() => Outcome::Free,
        None => Outcome::Blocked,
    };
    Combined {
        outcome,
        blocks,
        contexts: placed(answers, |answer| answer.context.clone()),
        system_messages: placed(answers, |answer| answer.system_message.clone()),
        permission: answers.iter().filter_map(|answer| answer.permission.clone()).reduce(stricter),
        updated_input: answers.iter().rev().find_map(|answer| answer.updated_input.clone()),
        initial_user_message: answers
            .iter()
            .rev()
            .find_map(|answer| answer.initial_user_message.clone()),
        prompt_is_hidden: answers
            .iter()
            .any(|answer| answer.original_prompt == super::Prompt::Hidden),
    }
}

fn placed<T>(answers: &[Answer], part: impl Fn(&Answer) -> Option<T>) -> Vec<(usize, T)> {
    answers.iter().enumerate().filter_map(|(by, answer)| Some((by, part(answer)?))).collect()
}

/// Of two denials the later speaks, of two of anything else the earlier.
fn stricter(earlier: Permission, later: Permission) -> Permission {
    if later.choice > earlier.choice || later.choice == Choice::Deny { later } else { earlier }
}

#[cfg(test)]
mod tests {
    use super::super::{Exit, Output, read};
    use super::*;

    const STOP: (i32, &str, &str) = (0, r#"{"continue":false,"stopReason":"S"}"#, "");
    const MUTE: (i32, &str, &str) = (0, r#"{"continue":false}"#, "");
    const BLOCK: (i32, &str, &str) = (0, r#"{"decision":"block","reason":"R"}"#, "");
    const EXIT: (i32, &str, &str) = (2, "", "E");

    fn answers(event: &str, rows: &[(i32, &str, &str)]) -> Vec<Answer> {
        rows.iter()
            .map(|&(code, stdout, stderr)| {
                read(&Output { event, exit: &Exit::Code(code), stdout, stderr })
            })
            .collect()
    }

    #[test]
    fn a_stop_beats_every_block_and_the_last_stop_speaks() {
        let block = |by, reason: &str, form| Block { by, reason: reason.to_owned(), form };
        let stop =
            |reason: Option<&str>| Outcome::Stopped(Stop { reason: reason.map(str::to_owned) });
        for (rows, outcome, blocks) in [
            (&[][..], Outcome::Free, vec![]),
            (&[(0, "", ""), (0, r#"{"decision":"approve"}"#, "")], Outcome::Free, vec![]),
            (&[STOP, BLOCK], stop(Some("S")), vec![block(1, "R", Form::Json)]),
            (&[BLOCK, MUTE], stop(None), vec![block(0, "R", Form::Json)]),
            (&[STOP, MUTE], stop(None), vec![]),
            (&[MUTE, STOP], stop(Some("S")), vec![]),
            (
                &[EXIT, (1, "", ""), BLOCK],
                Outcome::Blocked,
                vec![block(0, "E", Form::ExitTwo), block(2, "R", Form::Json)],
            ),
        ] {
            let combined = combine(&answers("Stop", rows));
            assert_eq!((combined.outcome, combined.blocks), (outcome, blocks), "{rows:?}");
        }
        assert_eq!(
            [block(0, "E", Form::ExitTwo).worded("a.sh"), block(0, "R", Form::Json).worded("a.sh")],
            ["[a.sh]: E", "R"]
        );
    }

    #[test]
    fn the_strictest_permission_wins() {
        let ask = |word: &str, reason: &str| {
            format!(
                r#"{{"hookSpecificOutput":{{"hookEventName":"PreToolUse","permissionDecision":"{word}",
                    "permissionDecisionReason":"{reason}","updatedInput":{{"by":"{reason}"}},"additionalContext":"{reason}"}}}}"#
            )
        };
        for (first, second, choice, reason) in [
            ("deny", "deny", Choice::Deny, "b"),
            ("allow", "ask", Choice::Ask, "b"),
            ("ask", "allow", Choice::Ask, "a"),
            ("ask", "ask", Choice::Ask, "a"),
            ("ask", "deny", Choice::Deny, "b"),
            ("deny", "ask", Choice::Deny, "a"),
            ("defer", "allow", Choice::Defer, "a"),
            ("defer", "ask", Choice::Defer, "a"),
            ("ask", "defer", Choice::Defer, "b"),
            ("defer", "deny", Choice::Deny, "b"),
        ] {
            let rows = [(0, ask(first, "a")), (0, ask(second, "b"))];
            let rows: Vec<_> =
                rows.iter().map(|(code, stdout)| (*code, stdout.as_str(), "")).collect();
            let combined = combine(&answers("PreToolUse", &rows));
            assert_eq!(
                combined.permission,
                Some(Permission { choice, reason: Some(reason.to_owned()) }),
                "{first} {second}"
            );
            assert_eq!(combined.updated_input, Some(serde_json::json!({"by": "b"})));
            let context = |text: &str| Context::Additional(text.to_owned());
            assert_eq!(combined.contexts, [(0, context("a")), (1, context("b"))]);
        }
    }
}
