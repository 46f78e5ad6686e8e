//! Interprets what a finished hook answered.

use super::answer_remark::remark_on_answer;
use super::event_outcome::HandlerAnswer;
use crate::hook_answer::{self, FinishedHookOutput, HookExit};
use crate::timeline::HandlerResult;

/// Identifies a hook.
#[derive(Clone, Debug)]
pub(crate) struct HookIdentity {
    /// The command, as the client shows it.
    pub(crate) command: String,
    pub(crate) source: String,
    pub(crate) plugin: Option<String>,
}

/// Exit status and output of a finished hook process.
#[derive(Clone, Debug)]
pub(crate) struct FinishedHookProcess {
    pub(crate) exit: HookExit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) ms: u64,
}

pub(crate) fn handler_answer(
    event: &str,
    asked: HookIdentity,
    ended: FinishedHookProcess,
) -> HandlerAnswer {
    let FinishedHookProcess { exit, stdout, stderr, ms } = ended;
    let answer = hook_answer::interpret(&FinishedHookOutput {
        event,
        exit: &exit,
        stdout: &stdout,
        stderr: &stderr,
    });
    let remark = remark_on_answer(event, &answer, &stdout);
    let handled = HandlerResult {
        command: asked.command.clone(),
        source: asked.source,
        ended: describe_exit(&exit),
        stdout,
        stderr,
        outcome: answer.label.name().to_owned(),
        remark,
        ms,
    };
    HandlerAnswer {
        command: asked.command,
        plugin: asked.plugin,
        answer,
        delivered_context: None,
        result: handled,
    }
}

fn describe_exit(exit: &HookExit) -> String {
    match exit {
        HookExit::Code(code) => format!("exit {code}"),
        HookExit::Signal(signal) => format!("signal {signal}"),
        HookExit::TimedOut => "timeout".to_owned(),
        HookExit::NotStarted(why) => format!("not started: {why}"),
        HookExit::Lost => "killed its parent".to_owned(),
    }
}
