//! The answers of all hooks to one event, and the texts that the client makes of them.

use super::hooks::Telling;
use super::input::Input;
use crate::answer::{Answer, Context, Failure, Form, Label, Prompt, Stop, Verdict, worded};
use crate::timeline::{Effect, Handled, Hook, Lane};

pub(crate) struct Told {
    event: &'static str,
    /// The client's name for the event, with its subject for some: `PreToolUse:Bash`, `SessionStart:resume`.
    name: String,
    agent: Lane,
    input: Input,
    pub(crate) answers: Vec<Answered>,
    /// False if the settings disable all hooks.
    pub(crate) is_heard: bool,
}

pub(crate) struct Answered {
    /// The command as the client shows it.
    pub(crate) command: String,
    /// `NAME@MARKETPLACE`, which the client shows to the model.
    pub(crate) plugin: Option<String>,
    pub(crate) answer: Answer,
    /// The added context as the model reads it.
    pub(crate) added: Option<String>,
    pub(crate) handled: Handled,
}

impl Answered {
    fn block(&self) -> Option<(&str, Form)> {
        match &self.answer.verdict {
            Verdict::Block { reason, form } => Some((reason, *form)),
            Verdict::Allow
            | Verdict::Failed(_)
            | Verdict::Void(_)
            | Verdict::TimedOut
            | Verdict::Detached => None,
        }
    }

    /// The reason of a block. For exit 2, the command precedes it and the plugin, if any, follows it.
    pub(crate) fn feedback(&self) -> String {
        let Some((reason, form)) = self.block() else { return String::new() };
        let text = worded(reason, form, &self.command);
        match &self.plugin {
            Some(plugin) if form == Form::ExitTwo => {
                format!("{text}\nThis hook comes from the {plugin} plugin.")
            }
            Some(_) | None => text,
        }
    }

    /// Whether the hook killed its parent, which would be the client.
    pub(crate) fn has_killed(&self) -> bool {
        matches!(self.answer.verdict, Verdict::Failed(Failure::Lost))
    }

    pub(crate) fn context(&self) -> Option<&str> {
        match self.answer.context.as_ref()? {
            Context::Additional(text) | Context::Stdout(text) => Some(text),
        }
    }
}

impl Told {
    pub(crate) fn event(&self) -> &'static str {
        self.event
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn new(telling: Telling, answers: Vec<Answered>) -> Self {
        let Telling { event, subject, agent, input } = telling;
        let has_more =
            matches!(event, "PreToolUse" | "PostToolUse" | "PostToolUseFailure" | "SessionStart");
        let name = match subject {
            Some(subject) if has_more => format!("{event}:{subject}"),
            Some(_) | None => event.to_owned(),
        };
        Self { event, name, agent, input, answers, is_heard: true }
    }

    pub(crate) fn entry(&self, effect: Effect) -> Hook {
        Hook {
            event: self.event.to_owned(),
            agent: self.agent.clone(),
            input: self.input.value(),
            handlers: self.answers.iter().map(|answered| answered.handled.clone()).collect(),
            effect,
        }
    }

    /// The blocking answers, in order of completion.
    pub(crate) fn blocks(&self) -> Vec<&Answered> {
        self.answers.iter().filter(|answered| answered.block().is_some()).collect()
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        let blocks = self.answers.iter().filter_map(Answered::block);
        blocks.map(|(reason, _)| reason.to_owned()).collect()
    }

    pub(crate) fn contexts(&self) -> Vec<String> {
        let contexts = self.answers.iter().filter_map(Answered::context);
        contexts.map(str::to_owned).collect()
    }

    /// The texts for every `continue: false`, which the model reads with the next prompt.
    pub(crate) fn stops(&self) -> Vec<String> {
        let stops = self.answers.iter().filter_map(|answered| answered.answer.stop.as_ref());
        let default = format!("{} hook prevented continuation", self.event);
        let worded = stops.map(|stop| {
            let reason = stop.reason.as_ref().unwrap_or(&default);
            format!("{} hook stopped continuation: {reason}", self.name)
        });
        worded.collect()
    }

    /// The last `continue: false`, if any.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.answers.iter().rev().find_map(|answered| answered.answer.stop.as_ref())
    }

    /// The user messages that make the model continue. The client uses the wording of `Stop` for a subagent too.
    pub(crate) fn feedback(&self) -> Vec<String> {
        let name = match self.event {
            "SubagentStop" => "Stop",
            event => event,
        };
        let blocks = self.blocks().into_iter();
        blocks.map(|answered| format!("{name} hook feedback:\n{}", answered.feedback())).collect()
    }

    /// Why a task is not created or stays open.
    pub(crate) fn objection(&self) -> Option<String> {
        self.feedback().into_iter().next()
    }

    /// Why a compaction is blocked.
    pub(crate) fn refused_compaction(&self) -> Option<String> {
        let answered = self.blocks().into_iter().next()?;
        let (reason, _) = answered.block()?;
        let reason = worded(reason, Form::ExitTwo, &answered.command);
        Some(format!("Compaction blocked by PreCompact hook: {}", reason.trim_end()))
    }

    /// The text that the person reads instead of an answer, if the prompt is blocked.
    pub(crate) fn refused_prompt(&self, prompt: &str) -> Option<String> {
        if let Some(stop) = self.stop() {
            let reason = stop.reason.as_deref().unwrap_or_default();
            return Some(format!("Operation stopped by hook: {reason}"));
        }
        let reason = self.blocks().first()?.feedback();
        let mut text = format!("{} operation blocked by hook:\n{reason}", self.event);
        if !self.hides_prompt() {
            text.push_str(&format!("\n\nOriginal prompt: {prompt}"));
        }
        Some(text)
    }

    /// Why a turn ends after its tool calls. At `PostToolBatch` a block has the same effect as `continue: false`.
    pub(crate) fn end_of_turn(&self) -> Option<String> {
        let stopped = self.stop().map(|stop| stop.reason.clone().unwrap_or_default());
        stopped.or_else(|| Some(self.blocks().first()?.feedback()))
    }

    /// The texts that the model reads besides the feedback: reasons of blocks (at a stop only those given in JSON, which
    /// the client repeats) and added context.
    pub(crate) fn asides(&self) -> Vec<String> {
        let is_stop = matches!(self.event, "Stop" | "SubagentStop" | "TeammateIdle");
        let mut asides = Vec::new();
        for answered in &self.answers {
            let has_text =
                matches!(answered.block(), Some((_, form)) if form == Form::Json || !is_stop);
            if has_text && self.event != "PreToolUse" {
                let (name, command) = (&self.name, &answered.command);
                let reason = answered.feedback();
                asides.push(format!(
                    "{name} hook blocking error from command: \"{command}\": {reason}"
                ));
            }
            if let Some(text) = &answered.added {
                asides.push(format!("{} hook additional context: {text}", self.name));
            }
        }
        asides
    }

    /// Added context at events where plain output counts too; plain output comes first.
    pub(crate) fn additions(&self) -> Vec<String> {
        let mut printed = Vec::new();
        let mut added = Vec::new();
        for answered in &self.answers {
            match (&answered.answer.context, &answered.added) {
                (Some(Context::Stdout(_)), Some(text)) => {
                    printed.push(format!("{} hook success: {text}", self.name));
                }
                (Some(Context::Additional(_)), Some(text)) => {
                    added.push(format!("{} hook additional context: {text}", self.event));
                }
                (Some(_), None) | (None, _) => {}
            }
        }
        printed.extend(added);
        printed
    }

    /// System messages of the hooks, which are shown to the user.
    pub(crate) fn messages(&self) -> Vec<String> {
        let messages =
            self.answers.iter().filter_map(|answered| answered.answer.system_message.as_ref());
        messages.map(|text| format!("{} says: {text}", self.name)).collect()
    }

    pub(crate) fn has_error(&self) -> bool {
        let is_error = |answered: &Answered| answered.answer.label == Label::Error;
        self.answers.iter().any(|answered| is_error(answered) || answered.block().is_some())
    }

    fn hides_prompt(&self) -> bool {
        self.answers.iter().any(|answered| answered.answer.original_prompt == Prompt::Hidden)
    }
}
