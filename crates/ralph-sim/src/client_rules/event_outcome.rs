//! The answers of all hooks to one event, and the texts that the client makes of them.

use super::hook_input::HookInput;
use crate::hook_answer::{
    AddedContext, BlockForm, ContinueFalse, HookAnswer, HookFailure, HookOutcomeLabel, HookVerdict,
    PermissionChoice, block_text,
};
use crate::hook_settings::EvaluatorKind;
use crate::timeline::{AgentLane, HandlerResult, HookEffect, TimelineHook};
use serde_json::Value;

/// An event to run hooks for.
pub(crate) struct DispatchedEvent {
    pub(crate) event: &'static str,
    /// Matchers are compared with this.
    pub(crate) subject: Option<String>,
    pub(crate) agent: AgentLane,
    pub(crate) input: HookInput,
}

pub(crate) struct EventOutcome {
    event: &'static str,
    /// The client's name for the event, with its subject for some: `PreToolUse:Bash`, `SessionStart:resume`.
    name: String,
    agent: AgentLane,
    input: HookInput,
    pub(crate) answers: Vec<HandlerAnswer>,
    /// False if the settings disable all hooks.
    pub(crate) hooks_enabled: bool,
}

pub(crate) struct HandlerAnswer {
    /// The command as the client shows it. For a handler that asks a model, its prompt.
    pub(crate) command: String,
    /// A shorter form of the command for the feedback, if the agent has already read the whole.
    pub(crate) quoted_command: Option<String>,
    /// Set if a model answered instead of a process.
    pub(crate) evaluator: Option<EvaluatorKind>,
    /// `NAME@MARKETPLACE`, which the client shows to the model.
    pub(crate) plugin: Option<String>,
    pub(crate) answer: HookAnswer,
    /// The added context as the model reads it.
    pub(crate) delivered_context: Option<String>,
    pub(crate) result: HandlerResult,
}

impl HandlerAnswer {
    fn block(&self) -> Option<(&str, BlockForm)> {
        match &self.answer.verdict {
            HookVerdict::Block { reason, form } => Some((reason, *form)),
            HookVerdict::Allow
            | HookVerdict::Failed(_)
            | HookVerdict::Invalid(_)
            | HookVerdict::TimedOut
            | HookVerdict::NoVerdict
            | HookVerdict::Detached => None,
        }
    }

    /// The reason of a block. For exit 2, the command precedes it and the plugin, if any, follows it.
    pub(crate) fn feedback(&self) -> String {
        let Some((reason, form)) = self.block() else { return String::new() };
        let text = block_text(reason, form, self.quoted_command());
        match &self.plugin {
            Some(plugin) if form == BlockForm::ExitTwo => {
                format!("{text}\nThis hook comes from the {plugin} plugin.")
            }
            Some(_) | None => text,
        }
    }

    fn quoted_command(&self) -> &str {
        self.quoted_command.as_deref().unwrap_or(&self.command)
    }

    /// The entry in the client's list of errors at a stop.
    pub(crate) fn error_text(&self) -> Option<String> {
        match &self.answer.verdict {
            HookVerdict::Block { .. } => Some(self.feedback()),
            HookVerdict::Failed(failure) => Some(failure.message(&self.command)),
            HookVerdict::Allow
            | HookVerdict::Invalid(_)
            | HookVerdict::TimedOut
            | HookVerdict::NoVerdict
            | HookVerdict::Detached => None,
        }
    }

    /// The prompt of a `prompt` hook.
    pub(crate) fn prompt_text(&self) -> Option<&str> {
        match self.evaluator? {
            EvaluatorKind::Prompt => Some(&self.command),
            EvaluatorKind::Agent => None,
        }
    }

    /// The duration in the summary of a stop. The client leaves it out for a block, and for a model without a verdict.
    pub(crate) fn summary_duration_ms(&self) -> Option<u64> {
        let is_timed = match self.answer.verdict {
            HookVerdict::Block { .. } | HookVerdict::NoVerdict => false,
            HookVerdict::Allow
            | HookVerdict::Failed(_)
            | HookVerdict::Invalid(_)
            | HookVerdict::TimedOut
            | HookVerdict::Detached => true,
        };
        is_timed.then_some(self.result.ms)
    }

    /// Whether the hook killed its parent, which would be the client.
    pub(crate) fn killed_client(&self) -> bool {
        matches!(self.answer.verdict, HookVerdict::Failed(HookFailure::Lost))
    }

    pub(crate) fn context(&self) -> Option<&str> {
        match self.answer.context.as_ref()? {
            AddedContext::Additional(text) | AddedContext::Stdout(text) => Some(text),
        }
    }
}

impl EventOutcome {
    pub(crate) fn event(&self) -> &'static str {
        self.event
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn new(telling: DispatchedEvent, answers: Vec<HandlerAnswer>) -> Self {
        let DispatchedEvent { event, subject, agent, input } = telling;
        let has_more =
            matches!(event, "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "SessionStart");
        let name = match subject {
            Some(subject) if has_more => format!("{event}:{subject}"),
            Some(_) | None => event.to_owned(),
        };
        Self { event, name, agent, input, answers, hooks_enabled: true }
    }

    pub(crate) fn timeline_hook(&self, effect: HookEffect) -> TimelineHook {
        TimelineHook {
            event: self.event.to_owned(),
            agent: self.agent.clone(),
            input: self.input.to_value(),
            handlers: self.answers.iter().map(|answered| answered.result.clone()).collect(),
            effect,
        }
    }

    /// The blocking answers, in order of completion.
    pub(crate) fn blocking_answers(&self) -> Vec<&HandlerAnswer> {
        self.answers.iter().filter(|answered| answered.block().is_some()).collect()
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        let blocks = self.answers.iter().filter_map(HandlerAnswer::block);
        blocks.map(|(reason, _)| reason.to_owned()).collect()
    }

    pub(crate) fn contexts(&self) -> Vec<String> {
        let contexts = self.answers.iter().filter_map(HandlerAnswer::context);
        contexts.map(str::to_owned).collect()
    }

    /// The effect of answers that can end the turn, block, or add context.
    pub(crate) fn effect(&self) -> HookEffect {
        match self.continue_false() {
            Some(stop) => HookEffect::Stopped { reason: stop.reason.clone() },
            None => self.effect_without_stop(),
        }
    }

    /// The effect where the client ignores `continue: false`.
    pub(crate) fn effect_without_stop(&self) -> HookEffect {
        let blocked = self.block_effect();
        if blocked == HookEffect::Allowed { self.context_effect() } else { blocked }
    }

    /// The effect where only a block counts.
    pub(crate) fn block_effect(&self) -> HookEffect {
        match self.reasons() {
            reasons if reasons.is_empty() => HookEffect::Allowed,
            reasons => HookEffect::Blocked { reasons },
        }
    }

    /// The effect where only added context counts.
    pub(crate) fn context_effect(&self) -> HookEffect {
        match self.contexts() {
            context if context.is_empty() => HookEffect::Allowed,
            context => HookEffect::Continued { context },
        }
    }

    /// The texts for every `continue: false`, which the model reads with the next prompt.
    pub(crate) fn stop_texts(&self) -> Vec<String> {
        let stops = self.answers.iter().filter_map(|answered| answered.answer.stop.as_ref());
        let default = format!("{} hook prevented continuation", self.event);
        let worded = stops.map(|stop| {
            let reason = stop.reason.as_ref().unwrap_or(&default);
            format!("{} hook stopped continuation: {reason}", self.name)
        });
        worded.collect()
    }

    /// The last `continue: false`, if any.
    pub(crate) fn continue_false(&self) -> Option<&ContinueFalse> {
        self.answers.iter().rev().find_map(|answered| answered.answer.stop.as_ref())
    }

    /// The user messages that make the model continue. The client uses the wording of `Stop` for a subagent too.
    pub(crate) fn feedback_texts(&self) -> Vec<String> {
        let name = match self.event {
            "SubagentStop" => "Stop",
            event => event,
        };
        let blocks = self.blocking_answers().into_iter();
        blocks.map(|answered| format!("{name} hook feedback:\n{}", answered.feedback())).collect()
    }

    /// Why a task is not created or stays open.
    pub(crate) fn task_objection(&self) -> Option<String> {
        self.feedback_texts().into_iter().next()
    }

    /// Why a compaction is blocked.
    pub(crate) fn compaction_refusal(&self) -> Option<String> {
        let answered = self.blocking_answers().into_iter().next()?;
        let (reason, _) = answered.block()?;
        let reason = block_text(reason, BlockForm::ExitTwo, &answered.command);
        Some(format!("Compaction blocked by PreCompact hook: {}", reason.trim_end()))
    }

    /// The text that the person reads instead of an answer, if the prompt is blocked.
    pub(crate) fn prompt_refusal(&self, prompt: &str) -> Option<String> {
        if let Some(stop) = self.continue_false() {
            let reason = stop.reason.as_deref().unwrap_or_default();
            return Some(format!("Operation stopped by hook: {reason}"));
        }
        let reason = self.blocking_answers().first()?.feedback();
        let mut text = format!("{} operation blocked by hook:\n{reason}", self.event);
        if !self.hides_prompt() {
            text.push_str(&format!("\n\nOriginal prompt: {prompt}"));
        }
        Some(text)
    }

    /// Why a turn ends after its tool calls. At `PostToolBatch` a block has the same effect as `continue: false`.
    pub(crate) fn turn_end_reason(&self) -> Option<String> {
        let stopped = self.continue_false().map(|stop| stop.reason.clone().unwrap_or_default());
        stopped.or_else(|| Some(self.blocking_answers().first()?.feedback()))
    }

    /// The texts that the model reads besides the feedback: reasons of blocks (at a stop only those given in JSON,
    /// which the client repeats) and added context.
    pub(crate) fn side_texts(&self) -> Vec<String> {
        let is_stop = matches!(self.event, "Stop" | "SubagentStop" | "TeammateIdle");
        let mut asides = Vec::new();
        for answered in &self.answers {
            let has_text =
                matches!(answered.block(), Some((_, form)) if form == BlockForm::Json || !is_stop);
            if has_text && self.event != "PreToolUse" {
                let (name, command) = (&self.name, answered.quoted_command());
                let reason = answered.feedback();
                asides.push(format!(
                    "{name} hook blocking error from command: \"{command}\": {reason}"
                ));
            }
            if let Some(text) = &answered.delivered_context {
                asides.push(format!("{} hook additional context: {text}", self.name));
            }
        }
        asides
    }

    /// Added context at events where plain output counts too; plain output comes first.
    pub(crate) fn context_texts(&self) -> Vec<String> {
        let mut printed = Vec::new();
        let mut added = Vec::new();
        for answered in &self.answers {
            match (&answered.answer.context, &answered.delivered_context) {
                (Some(AddedContext::Stdout(_)), Some(text)) => {
                    printed.push(format!("{} hook success: {text}", self.name));
                }
                (Some(AddedContext::Additional(_)), Some(text)) => {
                    added.push(format!("{} hook additional context: {text}", self.event));
                }
                (Some(_), None) | (None, _) => {}
            }
        }
        printed.extend(added);
        printed
    }

    /// System messages of the hooks, which are shown to the user.
    pub(crate) fn system_messages(&self) -> Vec<String> {
        let messages =
            self.answers.iter().filter_map(|answered| answered.answer.system_message.as_ref());
        messages.map(|text| format!("{} says: {text}", self.name)).collect()
    }

    pub(crate) fn has_error(&self) -> bool {
        let is_error = |answered: &HandlerAnswer| answered.answer.label == HookOutcomeLabel::Error;
        self.answers.iter().any(|answered| is_error(answered) || answered.block().is_some())
    }

    fn hides_prompt(&self) -> bool {
        self.answers.iter().any(|answered| answered.answer.is_prompt_hidden)
    }

    /// The text that the model reads instead of a result, if hooks deny the call.
    pub(crate) fn denial_text(&self, name: &str) -> Option<String> {
        if let Some(answered) = self.blocking_answers().last() {
            return Some(format!("{name} hook error: {}", answered.feedback()));
        }
        // A headless client cannot ask the person, so `ask` denies.
        let mut asked =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        let asked = asked.find(|asked| asked.choice == PermissionChoice::Ask)?;
        let default = || format!("Hook {name} asked for confirmation for this tool");
        Some(asked.reason.clone().unwrap_or_else(default))
    }

    /// Whether a hook defers the call to the program that runs the client, and no hook denies it.
    pub(crate) fn is_deferred(&self) -> bool {
        let choices =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        choices.map(|asked| asked.choice).max() == Some(PermissionChoice::Defer)
    }

    /// Whether a hook permits the call.
    pub(crate) fn is_permitted(&self) -> bool {
        let choices =
            self.answers.iter().filter_map(|answered| answered.answer.permission.as_ref());
        choices.map(|asked| asked.choice).max() == Some(PermissionChoice::Allow)
    }

    pub(crate) fn updated_input(&self) -> Option<Value> {
        self.answers.iter().rev().find_map(|answered| answered.answer.updated_input.clone())
    }
}
