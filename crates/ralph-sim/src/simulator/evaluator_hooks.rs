//! `prompt` and `agent` hooks: the client asks a model whether a condition is met.

use super::client_process::SimulatedClient;
use super::conversation::{self, SimulatedConversation};
use super::tool_calls::{self, ToolRoundOutcome};
use crate::client_rules::EMPTY_ANSWER_PROMPT;
use crate::client_rules::api_error_report::{ApiErrorReport, OUTPUT_LIMIT_ERROR};
use crate::client_rules::event_outcome::{DispatchedEvent, HandlerAnswer};
use crate::client_rules::handler_answer::{
    FinishedModelAnswer, HookIdentity, evaluator_handler_answer,
};
use crate::client_rules::hook_agent_tools::VERDICT_REMINDER;
use crate::client_rules::hook_input::SubagentIdentity;
use crate::hook_answer::{self, EvaluatorOutcome, HookVerdict};
use crate::hook_settings::{EvaluatorHandler, EvaluatorKind};
use crate::model_answer;
use crate::scenario::ScriptedTurn;
use crate::timeline::{
    MessageRole, TimelineEntry, TimelineMessage, TimelineReply, TimelineRequest,
};
use crate::transcript::{ClientSessionPaths, IdGenerator, TranscriptWriter};
use ralph_sys::clock::Stopwatch;
use ralph_sys::fs::FileError;
use std::time::Duration;

/// After this many blocks of its answers, texts and tool calls, the client gives up on an agent.
const MAX_AGENT_BLOCKS: usize = 50;

/// A question to a model.
pub(crate) struct EvaluatorLaunch {
    pub(crate) identity: HookIdentity,
    pub(crate) handler: EvaluatorHandler,
    pub(crate) timeout: Duration,
}

/// What the model said, before the client reads it.
struct EvaluatorReply {
    outcome: EvaluatorOutcome,
    text: String,
}

impl EvaluatorReply {
    fn silent() -> Self {
        Self { outcome: EvaluatorOutcome::Silent, text: String::new() }
    }

    fn failed(message: String) -> Self {
        Self { outcome: EvaluatorOutcome::Failed(message), text: String::new() }
    }
}

/// Asks the model for each handler, one after another. A real model is slower than any command, so these answers come
/// after those of processes.
pub(super) fn run_evaluators(
    host: &mut SimulatedClient<'_>,
    telling: &DispatchedEvent,
    launches: Vec<EvaluatorLaunch>,
) -> Vec<HandlerAnswer> {
    let input = telling.input.to_line();
    let input = String::from_utf8_lossy(&input).trim_end().to_owned();
    let answers = launches.into_iter().map(|launch| {
        let EvaluatorLaunch { identity, handler, timeout } = launch;
        let question =
            hook_answer::evaluator_question(handler.kind, telling.event, &handler.prompt, &input);
        if !host.script.has_evaluator(&question) {
            host.notice_once(format!(
                "no `[[evaluator]]` of the scenario answers the {} hook of type `{}`, so it gives no verdict",
                telling.event,
                handler.kind.name()
            ));
        }
        let watch = Stopwatch::start();
        let reply = match handler.kind {
            EvaluatorKind::Prompt => ask_prompt(host, &handler, &question, timeout),
            EvaluatorKind::Agent => ask_agent(host, question, timeout),
        };
        let ended = FinishedModelAnswer {
            handler,
            outcome: reply.outcome,
            text: reply.text,
            ms: u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let mut answered = evaluator_handler_answer(telling.event, identity, ended);
        quote_prompt_once(host, &mut answered);
        answered
    });
    answers.collect()
}

/// The first block quotes the whole prompt, a later one in the same session only its beginning.
fn quote_prompt_once(host: &mut SimulatedClient<'_>, answered: &mut HandlerAnswer) {
    let is_quoted = answered.prompt_text().is_some()
        && matches!(answered.answer.verdict, HookVerdict::Block { .. });
    if !is_quoted {
        return;
    }
    let quoted = (host.session.clone(), answered.command.clone());
    if host.quoted_prompts.contains(&quoted) {
        answered.quoted_command = Some(hook_answer::shorten_repeated_prompt(&answered.command));
    } else {
        host.quoted_prompts.push(quoted);
    }
}

/// One request, without tools.
fn ask_prompt(
    host: &mut SimulatedClient<'_>,
    handler: &EvaluatorHandler,
    question: &str,
    timeout: Duration,
) -> EvaluatorReply {
    let lane = Some(EvaluatorKind::Prompt.lane().to_owned());
    host.requests += 1;
    let message = TimelineMessage { role: MessageRole::User, text: question.to_owned() };
    let request = TimelineRequest { agent: lane.clone(), messages: vec![message] };
    host.emit(&TimelineEntry::Request(request));
    let turn = host.script.next_evaluator_turn(question);
    if Duration::from_millis(turn.delay_ms) >= timeout {
        return EvaluatorReply::silent();
    }
    let error = turn.error.as_ref().map(|error| ApiErrorReport::new(error).text);
    let project = host.stage.project.clone();
    let calls = turn.tools.iter().map(|call| model_answer::tool_use(call, &project).0);
    host.emit(&TimelineEntry::Reply(TimelineReply {
        agent: lane,
        text: turn.text.clone(),
        tools: calls.collect(),
        error: error.clone(),
    }));
    let model = handler.model.clone().unwrap_or_else(|| host.model());
    let failure = error.or_else(|| stopped_answer_error(host, &turn, &model));
    if let Some(text) = failure {
        return EvaluatorReply::failed(format!("Hook evaluator API error: {text}"));
    }
    if turn.text.is_empty() && turn.tools.is_empty() {
        let message = "Error executing prompt hook: No assistant message found";
        return EvaluatorReply::failed(message.to_owned());
    }
    EvaluatorReply { outcome: hook_answer::read_prompt_answer(&turn.text), text: turn.text }
}

/// An answer that the model did not finish is an error, whatever it says.
fn stopped_answer_error(
    host: &SimulatedClient<'_>,
    turn: &ScriptedTurn,
    model: &str,
) -> Option<String> {
    match turn.stop_reason.as_deref() {
        Some("refusal") => Some(ApiErrorReport::refusal(model, host.requests).text),
        Some("max_tokens") => Some(OUTPUT_LIMIT_ERROR.to_owned()),
        Some(_) | None => None,
    }
}

/// A conversation of its own. Its tool calls and stops fire hooks like those of a subagent.
fn ask_agent(
    host: &mut SimulatedClient<'_>,
    question: String,
    timeout: Duration,
) -> EvaluatorReply {
    let mut own = match begin_hook_agent(host, question) {
        Ok(own) => own,
        Err(error) => {
            host.note_write(Err(error));
            return EvaluatorReply::silent();
        }
    };
    let watch = Stopwatch::start();
    let mut delays = Duration::ZERO;
    let mut was_reminded = false;
    let mut blocks = 0;
    while !host.should_stop() {
        let turn = conversation::request_answer(host, &mut own);
        delays += Duration::from_millis(turn.delay_ms);
        if watch.elapsed() + delays >= timeout {
            break;
        }
        if let Some(error) = &turn.error {
            conversation::fail_with_api_error(host, &mut own, error);
            break;
        }
        conversation::record_reply(host, &mut own, &turn);
        blocks += turn.tools.len() + usize::from(!turn.text.is_empty());
        if blocks >= MAX_AGENT_BLOCKS {
            break;
        }
        if turn.tools.is_empty() && turn.text.is_empty() && !own.take_empty_answer_reminder() {
            own.pending.add_user_text(EMPTY_ANSWER_PROMPT.to_owned());
            continue;
        }
        if turn.tools.is_empty() {
            let is_first = !std::mem::replace(&mut was_reminded, true);
            if is_first {
                own.pending.add_user_text(VERDICT_REMINDER.to_owned());
            }
            if conversation::stop_hook_agent(host, &mut own, is_first) {
                continue;
            }
            break;
        }
        let round = tool_calls::run_calls(host, &mut own, &turn);
        own.stops.blocks = 0;
        if let Some(verdict) = own.verdict.take() {
            let text = verdict.to_string();
            let outcome = EvaluatorOutcome::Answered(hook_answer::read_verdict(&verdict));
            return EvaluatorReply { outcome, text };
        }
        if let ToolRoundOutcome::Finished(_) = round {
            break;
        }
    }
    EvaluatorReply::silent()
}

/// The client keeps no transcript of such an agent. This one stays outside of the scratch home.
fn begin_hook_agent(
    host: &mut SimulatedClient<'_>,
    question: String,
) -> Result<SimulatedConversation, FileError> {
    let agent = SubagentIdentity::new_hook_agent();
    let home = host.stage.root.join("hook-agents");
    let paths =
        ClientSessionPaths { home: &home, project: &host.stage.project, session: &agent.id };
    let transcript = TranscriptWriter::open(&paths, IdGenerator::random())?;
    let mut own = SimulatedConversation::new(Some(agent), transcript);
    own.begin_prompt();
    own.pending.add_user_text(question.clone());
    own.task = Some(question);
    Ok(own)
}
