//! What came back from the hooks of one event, and how the client words it.

use super::hooks::Telling;
use super::input::Input;
use crate::answer::{Answer, Context, Failure, Form, Label, Prompt, Stop, Verdict, worded};
use crate::timeline::{Effect, Handled, Hook, Lane};

pub(crate) struct Told {
    event: &'static str,
    /// As the client names it: with the tool, or why a session starts.
    name: String,
    agent: Lane,
    input: Input,
    pub(crate) answers: Vec<Answered>,
    /// Whether there are hooks at all: settings can turn all of them off.
    pub(crate) is_heard: bool,
}

pub(crate) struct Answered {
    /// As the client shows it.
    pub(crate) command: String,
    /// Name and marketplace, which the client tells the model.
    pub(crate) plugin: Option<String>,
    pub(crate) answer: Answer,
    /// The context it adds, as the model reads it.
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

    /// What it says against going on, with the command in front and where it comes from unless it answered in JSON.
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

    /// Whether it killed its parent, which would have been the client.
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

    /// Who blocks, in order of completion.
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

    /// What the model reads of every `continue: false`, when somebody speaks to it again.
    pub(crate) fn stops(&self) -> Vec<String> {
        let stops = self.answers.iter().filter_map(|answered| answered.answer.stop.as_ref());
        let unsaid = format!("{} hook prevented continuation", self.event);
        let worded = stops.map(|stop| {
            let reason = stop.reason.as_ref().unwrap_or(&unsaid);
            format!("{} hook stopped continuation: {reason}", self.name)
        });
        worded.collect()
    }

    /// `continue: false`; the last word counts.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.answers.iter().rev().find_map(|answered| answered.answer.stop.as_ref())
    }

    /// What the model reads in the person's place: why it has to go on. A subagent is told in the words for the main
    /// conversation.
    pub(crate) fn feedback(&self) -> Vec<String> {
        let name = match self.event {
            "SubagentStop" => "Stop",
            event => event,
        };
        let blocks = self.blocks().into_iter();
        blocks.map(|answered| format!("{name} hook feedback:\n{}", answered.feedback())).collect()
    }

    /// Why a task is not made or not done.
    pub(crate) fn objection(&self) -> Option<String> {
        self.feedback().into_iter().next()
    }

    /// Why a conversation is not summed up.
    pub(crate) fn refused_compaction(&self) -> Option<String> {
        let answered = self.blocks().into_iter().next()?;
        let (reason, _) = answered.block()?;
        let reason = worded(reason, Form::ExitTwo, &answered.command);
        Some(format!("Compaction blocked by PreCompact hook: {}", reason.trim_end()))
    }

    /// What the person reads instead of an answer to their prompt.
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

    /// Why a turn ends after its tool calls: there a block means the same as `continue: false`.
    pub(crate) fn end_of_turn(&self) -> Option<String> {
        let stopped = self.stop().map(|stop| stop.reason.clone().unwrap_or_default());
        stopped.or_else(|| Some(self.blocks().first()?.feedback()))
    }

    /// What the model reads besides the feedback: at a stop, a reason given in JSON once more; after a tool call, every
    /// reason; and whatever was added.
    pub(crate) fn asides(&self) -> Vec<String> {
        let is_stop = matches!(self.event, "Stop" | "SubagentStop" | "TeammateIdle");
        let mut asides = Vec::new();
        for answered in &self.answers {
            let is_told =
                matches!(answered.block(), Some((_, form)) if form == Form::Json || !is_stop);
            if is_told && self.event != "PreToolUse" {
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

    /// What hooks add where their plain output counts too: that first.
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

    /// What hooks have to say to the person.
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
