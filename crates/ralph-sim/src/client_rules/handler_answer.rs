//! Interprets what a finished hook answered.

use super::answer_remark::{evaluator_remark, remark_on_answer};
use super::event_outcome::HandlerAnswer;
use crate::hook_answer::{
    self, EvaluatorOutcome, FinishedEvaluation, FinishedHookOutput, HookExit,
};
use crate::hook_settings::EvaluatorHandler;
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
        evaluator: None,
        remark,
        ms,
    };
    HandlerAnswer {
        command: asked.command,
        quoted_command: None,
        evaluator: None,
        plugin: asked.plugin,
        answer,
        delivered_context: None,
        result: handled,
    }
}

/// The end of a model's answer to a `prompt` or `agent` hook.
#[derive(Clone, Debug)]
pub(crate) struct FinishedModelAnswer {
    pub(crate) handler: EvaluatorHandler,
    pub(crate) outcome: EvaluatorOutcome,
    /// The model's own words.
    pub(crate) text: String,
    pub(crate) ms: u64,
}

pub(crate) fn evaluator_handler_answer(
    event: &str,
    asked: HookIdentity,
    ended: FinishedModelAnswer,
) -> HandlerAnswer {
    let FinishedModelAnswer { handler, outcome, text, ms } = ended;
    let (end, message) = match &outcome {
        EvaluatorOutcome::Answered(_) => ("answered", String::new()),
        EvaluatorOutcome::Failed(message) => ("failed", message.clone()),
        EvaluatorOutcome::Silent => ("no verdict", String::new()),
    };
    let answer = hook_answer::interpret_evaluation(FinishedEvaluation {
        event,
        kind: handler.kind,
        continues_on_block: handler.continues_on_block,
        outcome,
    });
    let remark = evaluator_remark(&answer);
    let handled = HandlerResult {
        command: asked.command.clone(),
        source: asked.source,
        ended: end.to_owned(),
        stdout: text,
        stderr: message,
        outcome: answer.label.name().to_owned(),
        evaluator: Some(handler.kind.name().to_owned()),
        remark,
        ms,
    };
    HandlerAnswer {
        command: asked.command,
        quoted_command: None,
        evaluator: Some(handler.kind),
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
