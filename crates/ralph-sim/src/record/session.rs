//! Collects the lines of a transcript into the steps and expectations of a scenario.

use super::tools;
use super::wire::{Line, between, text};
use crate::scenario::{
    AgentTurn, ApiError, Client, Expect, Interrupt, Scenario, SessionStep, Step, Subagent,
    ToolCall, Usage,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Limit for the estimated size of all texts. A scenario file has at most 4 MiB.
const MOST: usize = 3 * 1024 * 1024;
const LONGEST_NAME: usize = 72;
const LONGEST_ID: usize = 256;
const NEAR: usize = 16;
const MOST_HOOKS: usize = 20;
const LONGEST_COMMAND: usize = 200;
const FEEDBACK: &str = "Stop hook feedback:\n";
const CAP: &str = "A hook blocked the turn from ending";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Main,
    Agent,
}

#[derive(Debug)]
pub(super) struct Session {
    lane: Lane,
    pub(super) lines: usize,
    pub(super) broken: usize,
    cwd: String,
    model: Option<String>,
    steps: Vec<Step>,
    /// The answers since the last prompt: message id and index into `steps`.
    answers: Vec<(String, usize)>,
    summary: Option<String>,
    /// The client exited; the next prompt belongs to another process.
    is_over: bool,
    feedback: Vec<String>,
    /// The reason of each block.
    held: Vec<String>,
    stops: u64,
    compactions: usize,
    outside: usize,
    hooks: BTreeSet<String>,
    spent: usize,
}

impl Session {
    pub(super) fn new(lane: Lane) -> Self {
        Self {
            lane,
            lines: 0,
            broken: 0,
            cwd: String::new(),
            model: None,
            steps: Vec::new(),
            answers: Vec::new(),
            summary: None,
            is_over: false,
            feedback: Vec::new(),
            held: Vec::new(),
            stops: 0,
            compactions: 0,
            outside: 0,
            hooks: BTreeSet::new(),
            spent: 0,
        }
    }

    /// Takes over the directory and the size limit of the main session, for a subagent.
    pub(super) fn go_on_from(&mut self, main: &Self) {
        self.cwd.clone_from(&main.cwd);
        self.spent = main.spent;
    }

    pub(super) fn spend(&mut self, agent: &Self) {
        self.spent = agent.spent;
        self.outside += agent.outside;
    }

    /// Whether the size limit of a scenario is reached.
    pub(super) fn is_full(&self) -> bool {
        self.spent > MOST
    }

    pub(super) fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() || self.is_full() {
            return;
        }
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            self.broken += 1;
            return;
        };
        let Some(kind) = line.kind.as_str() else {
            self.broken += 1;
            return;
        };
        self.lines += 1;
        // Older clients wrote the lines of subagents into the file of the session.
        if (line.is_sidechain == true) != (self.lane == Lane::Agent) && kind != "cost-state" {
            return;
        }
        if let (true, Some(cwd)) = (self.cwd.is_empty(), line.cwd.as_str()) {
            cwd.clone_into(&mut self.cwd);
        }
        match kind {
            "user" => self.user(&line),
            "assistant" => self.assistant(&line),
            "system" => self.system(&line),
            "cost-state" => self.is_over = true,
            _ => {}
        }
    }

    fn user(&mut self, line: &Line) {
        let content = &line.message["content"];
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(text) = text(content) else { return };
        if blocks.iter().any(|block| block["type"] == "tool_result") {
            return;
        }
        if line.is_compact_summary == true {
            let summary = between(&text, "Summary:\n", "\n\nIf you need specific details");
            let summary = summary.unwrap_or(&text);
            self.spent += tools::escaped(summary);
            self.summary = Some(summary.to_owned());
        } else if let Some(reason) = text.strip_prefix(FEEDBACK) {
            self.spent += tools::escaped(reason) + 8;
            self.feedback.push(reason.to_owned());
        } else if line.is_meta != true && !text.starts_with("<local-command-") {
            self.said(line, text);
        }
    }

    /// Handles a text from the person, or from the client on their behalf.
    fn said(&mut self, line: &Line, text: String) {
        if text.starts_with("[Request interrupted by user for tool use") {
            self.interrupted(Interrupt::Tools);
        } else if text.starts_with("[Request interrupted by user") {
            self.interrupted(Interrupt::Answer);
        } else if line.origin["kind"] == "task-notification"
            || text.starts_with("<task-notification>")
        {
            self.answers.clear();
        } else if text.starts_with("<command-")
            && let Some(command) = between(&text, "<command-name>", "</command-name>")
        {
            let args = between(&text, "<command-args>", "</command-args>").unwrap_or_default();
            self.prompt(format!("{command} {args}").trim().to_owned());
        } else {
            self.prompt(text);
        }
    }

    fn prompt(&mut self, text: String) {
        if self.is_over {
            self.is_over = false;
            self.steps.push(Step::Session(SessionStep::Resume));
        }
        self.answers.clear();
        self.spent += tools::escaped(&text) + 32;
        self.steps.push(Step::Person(text));
    }

    fn interrupted(&mut self, interrupt: Interrupt) {
        if interrupt == Interrupt::Tools
            && let Some(Step::Agent(turn)) = self.steps.last_mut()
            && !turn.tools.is_empty()
        {
            turn.interrupt = interrupt;
            return;
        }
        self.steps.push(Step::Agent(AgentTurn { interrupt, ..AgentTurn::default() }));
    }

    fn assistant(&mut self, line: &Line) {
        if line.is_api_error_message == true {
            let error = api_error(line);
            self.spent += tools::escaped(&error.message) + 128;
            let turn = AgentTurn { error: Some(error), ..AgentTurn::default() };
            self.steps.push(Step::Agent(turn));
            return;
        }
        let message = &line.message;
        let Some(model) = message["model"].as_str() else { return };
        if model == "<synthetic>" {
            // The client writes this answer when it resumes an interrupted session.
            self.is_over = true;
            return;
        }
        self.model.get_or_insert_with(|| model.to_owned());
        let id = message["id"].as_str().filter(|id| id.len() <= LONGEST_ID).unwrap_or_default();
        // The lines of one answer are close together, but tool results may come between them.
        let mut near = self.answers.iter().rev().take(NEAR);
        let known = near.find(|(known, _)| known == id && !id.is_empty());
        let at = known.map_or(self.steps.len(), |(_, at)| *at);
        if at == self.steps.len() {
            self.steps.push(Step::Agent(AgentTurn::default()));
            self.answers.push((id.to_owned(), at));
            self.spent += 96;
        }
        let calls = self.calls(&message["content"]);
        let said = text(&message["content"]);
        let Some(Step::Agent(turn)) = self.steps.get_mut(at) else { return };
        if let Some(said) = said {
            self.spent += tools::escaped(&said);
            if !turn.text.is_empty() {
                turn.text.push('\n');
            }
            turn.text.push_str(&said);
        }
        turn.tools.extend(calls);
        turn.usage = usage(&message["usage"]);
        turn.stop_reason = message["stop_reason"]
            .as_str()
            .filter(|reason| !matches!(*reason, "end_turn" | "tool_use"))
            .map(str::to_owned);
    }

    fn calls(&mut self, content: &Value) -> Vec<ToolCall> {
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut calls = Vec::new();
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            let Some(name) = block["name"].as_str() else { continue };
            let call = tools::call(name, &block["input"], &self.cwd);
            self.spent += tools::size(&call);
            self.outside += usize::from(tools::leads_out(&call));
            calls.push(call);
        }
        calls
    }

    fn system(&mut self, line: &Line) {
        match line.subtype.as_str() {
            Some("stop_hook_summary") => self.stopped(line),
            Some("compact_boundary") => {
                self.compactions += 1;
                self.answers.clear();
            }
            // The cap overrode the last block.
            Some("informational")
                if line.content.as_str().is_some_and(|text| text.starts_with(CAP)) =>
            {
                self.held.pop();
            }
            _ => {}
        }
    }

    fn stopped(&mut self, line: &Line) {
        self.stops += 1;
        let infos = line.hook_infos.as_array().map(Vec::as_slice).unwrap_or_default();
        let commands: Vec<_> = infos.iter().filter_map(|info| info["command"].as_str()).collect();
        let is_prevented = line.prevented_continuation == true;
        // Context alone also makes the agent continue.
        let context = line.hook_additional_context.as_array().map(Vec::as_slice);
        let context: Vec<_> =
            context.unwrap_or_default().iter().filter_map(Value::as_str).collect();
        let context = Some(context.join("\n")).filter(|context| !context.is_empty());
        let mut feedback = std::mem::take(&mut self.feedback).into_iter();
        let reason = feedback.next().map(|reason| without_command(&reason, &commands).to_owned());
        if let (false, Some(reason)) = (is_prevented, reason.or(context)) {
            self.spent += tools::escaped(&reason);
            self.held.push(reason);
        }
        for command in commands {
            if self.hooks.len() < MOST_HOOKS {
                self.hooks.insert(one_line(command));
            }
        }
    }

    pub(super) fn notes(&self, broken: usize) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: usize, what: &str| {
            if count > 0 {
                notes.push(what.replace("{}", &count.to_string()));
            }
        };
        note(broken, "unreadable lines: {}");
        note(
            self.compactions,
            "compactions, which a scenario repeats only if its token counts require it: {}",
        );
        note(self.outside, "tool calls with files outside the project: {}");
        let resumed = |step: &&Step| matches!(step, Step::Session(SessionStep::Resume));
        note(self.steps.iter().filter(resumed).count(), "resumes of the session: {}");
        if self.is_full() {
            notes.push("the session is too long for a scenario; its end was cut off".to_owned());
        }
        notes.extend(self.hooks.iter().map(|command| format!("stop hook: {command}")));
        notes
    }

    pub(super) fn into_scenario(self) -> Scenario {
        let prompt = self.steps.iter().find_map(|step| match step {
            Step::Person(text) => Some(text.as_str()),
            Step::Agent(_) | Step::Session(_) | Step::Screen(_) => None,
        });
        let expect = self.expect();
        let summary = self.summary.as_deref().unwrap_or("The work so far.");
        Scenario {
            name: name(prompt.unwrap_or_default()),
            client: Client { model: self.model, ..Client::default() },
            summary: format!("<summary>{summary}</summary>"),
            steps: self.steps,
            expect,
            ..Scenario::default()
        }
    }

    /// A transcript has no stop summaries if there were no hooks, or if an older client wrote it. Then blocks are counted
    /// from the feedback.
    fn expect(&self) -> Expect {
        let has_summaries = self.stops > 0;
        let held: Vec<_> = if has_summaries { self.held.clone() } else { self.feedback.clone() };
        if !has_summaries && held.is_empty() {
            return Expect::default();
        }
        Expect {
            stops: has_summaries.then_some(self.stops),
            blocks: Some(held.len() as u64),
            reasons: Some(held).filter(|held| !held.is_empty()),
            ..Expect::default()
        }
    }

    pub(super) fn into_subagent(self) -> Option<Subagent> {
        let mut steps = self.steps.into_iter();
        let prompt = steps.find_map(|step| match step {
            Step::Person(text) => Some(text),
            Step::Agent(_) | Step::Session(_) | Step::Screen(_) => None,
        })?;
        let turns = steps.filter_map(|step| match step {
            Step::Agent(turn) => Some(turn),
            Step::Person(_) | Step::Session(_) | Step::Screen(_) => None,
        });
        Some(Subagent { prompt, turns: turns.collect() })
    }
}

/// Strips the hook command from the reason of a block by exit code, because the scenario will run other commands.
fn without_command<'a>(reason: &'a str, commands: &[&str]) -> &'a str {
    let bare = commands
        .iter()
        .find_map(|command| reason.strip_prefix('[')?.strip_prefix(command)?.strip_prefix("]: "));
    bare.unwrap_or(reason)
}

fn usage(usage: &Value) -> Usage {
    let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
    Usage {
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_input_tokens"),
        cache_creation: tokens("cache_creation_input_tokens"),
    }
}

/// Extracts the API's message from the client's: `API Error: 529 Overloaded. This is a server-side issue, …`.
fn api_error(line: &Line) -> ApiError {
    let status = line.api_error_status.as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.unwrap_or(500);
    let kind = line.api_error_type.as_str().unwrap_or("api_error").to_owned();
    let said = text(&line.message["content"]).unwrap_or_default();
    let message = said.strip_prefix("API Error: ").unwrap_or(&said);
    let message = message.strip_prefix(&format!("{status} ")).unwrap_or(message);
    let message = message.split(". This is a server-side issue").next().unwrap_or(message);
    ApiError { status, kind, message: message.to_owned() }
}

/// A shortened single-line form, only for display.
fn one_line(text: &str) -> String {
    let plain = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(LONGEST_COMMAND).map(plain).collect()
}

/// The first line of the prompt, shortened.
fn name(prompt: &str) -> String {
    let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= LONGEST_NAME {
        return line.to_owned();
    }
    line.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}
