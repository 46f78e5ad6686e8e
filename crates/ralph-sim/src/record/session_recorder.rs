//! Collects the lines of a transcript into the steps and expectations of a scenario.

use super::recorded_line::{RecordedLineWire, text_between};
use super::recorded_tools;
use crate::model_answer::content_text;
use crate::scenario::{
    Scenario, ScenarioClient, ScenarioExpectations, ScenarioStep, ScriptedApiError,
    ScriptedSubagent, ScriptedToolCall, ScriptedTurn, ScriptedUsage, SessionStep, TurnInterrupt,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// Limit for the estimated size of all texts. A scenario file has at most 4 MiB.
const MAX_TOTAL_BYTES: usize = 3 * 1024 * 1024;
const MAX_NAME_CHARS: usize = 72;
const MAX_ID_BYTES: usize = 256;
const MAX_ANSWER_DISTANCE: usize = 16;
const MAX_HOOK_NOTES: usize = 20;
const MAX_COMMAND_CHARS: usize = 200;
const FEEDBACK_PREFIX: &str = "Stop hook feedback:\n";
const CAP_WARNING_PREFIX: &str = "A hook blocked the turn from ending";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedLane {
    Main,
    Agent,
}

#[derive(Debug)]
pub(super) struct SessionRecorder {
    lane: RecordedLane,
    pub(super) lines: usize,
    pub(super) broken: usize,
    cwd: String,
    model: Option<String>,
    steps: Vec<ScenarioStep>,
    /// The answers since the last prompt: message id and index into `steps`.
    answers: Vec<(String, usize)>,
    summary: Option<String>,
    /// The client exited; the next prompt belongs to another process.
    has_exited: bool,
    feedback: Vec<String>,
    /// The reason of each block.
    block_reasons: Vec<String>,
    stops: u64,
    compactions: usize,
    outside_calls: usize,
    hooks: BTreeSet<String>,
    total_bytes: usize,
}

impl SessionRecorder {
    pub(super) fn new(lane: RecordedLane) -> Self {
        Self {
            lane,
            lines: 0,
            broken: 0,
            cwd: String::new(),
            model: None,
            steps: Vec::new(),
            answers: Vec::new(),
            summary: None,
            has_exited: false,
            feedback: Vec::new(),
            block_reasons: Vec::new(),
            stops: 0,
            compactions: 0,
            outside_calls: 0,
            hooks: BTreeSet::new(),
            total_bytes: 0,
        }
    }

    /// Takes over the directory and the size limit of the main session, for a subagent.
    pub(super) fn continue_from(&mut self, main: &Self) {
        self.cwd.clone_from(&main.cwd);
        self.total_bytes = main.total_bytes;
    }

    pub(super) fn add_subagent_size(&mut self, agent: &Self) {
        self.total_bytes = agent.total_bytes;
        self.outside_calls += agent.outside_calls;
    }

    /// Whether the size limit of a scenario is reached.
    pub(super) fn is_full(&self) -> bool {
        self.total_bytes > MAX_TOTAL_BYTES
    }

    pub(super) fn read_line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() || self.is_full() {
            return;
        }
        let Ok(line) = serde_json::from_slice::<RecordedLineWire>(line) else {
            self.broken += 1;
            return;
        };
        let Some(kind) = line.kind.as_str() else {
            self.broken += 1;
            return;
        };
        self.lines += 1;
        // Older clients wrote the lines of subagents into the file of the session.
        if (line.is_sidechain == true) != (self.lane == RecordedLane::Agent) && kind != "cost-state"
        {
            return;
        }
        if let (true, Some(cwd)) = (self.cwd.is_empty(), line.cwd.as_str()) {
            cwd.clone_into(&mut self.cwd);
        }
        match kind {
            "user" => self.read_user_line(&line),
            "assistant" => self.read_assistant_line(&line),
            "system" => self.read_system_line(&line),
            "cost-state" => self.has_exited = true,
            _ => {}
        }
    }

    fn read_user_line(&mut self, line: &RecordedLineWire) {
        let content = &line.message["content"];
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(text) = content_text(content) else { return };
        if blocks.iter().any(|block| block["type"] == "tool_result") {
            return;
        }
        if line.is_compact_summary == true {
            let summary = text_between(&text, "Summary:\n", "\n\nIf you need specific details");
            let summary = summary.unwrap_or(&text);
            self.total_bytes += recorded_tools::escaped_len(summary);
            self.summary = Some(summary.to_owned());
        } else if let Some(reason) = text.strip_prefix(FEEDBACK_PREFIX) {
            self.total_bytes += recorded_tools::escaped_len(reason) + 8;
            self.feedback.push(reason.to_owned());
        } else if line.is_meta != true && !text.starts_with("<local-command-") {
            self.read_user_text(line, text);
        }
    }

    /// Handles a text from the person, or from the client on their behalf.
    fn read_user_text(&mut self, line: &RecordedLineWire, text: String) {
        if text.starts_with("[Request interrupted by user for tool use") {
            self.add_interruption(TurnInterrupt::Tools);
        } else if text.starts_with("[Request interrupted by user") {
            self.add_interruption(TurnInterrupt::Answer);
        } else if line.origin["kind"] == "task-notification"
            || text.starts_with("<task-notification>")
        {
            self.answers.clear();
        } else if text.starts_with("<command-")
            && let Some(command) = text_between(&text, "<command-name>", "</command-name>")
        {
            let args = text_between(&text, "<command-args>", "</command-args>").unwrap_or_default();
            self.add_prompt(format!("{command} {args}").trim().to_owned());
        } else {
            self.add_prompt(text);
        }
    }

    fn add_prompt(&mut self, text: String) {
        if self.has_exited {
            self.has_exited = false;
            self.steps.push(ScenarioStep::Session(SessionStep::Resume));
        }
        self.answers.clear();
        self.total_bytes += recorded_tools::escaped_len(&text) + 32;
        self.steps.push(ScenarioStep::Person(text));
    }

    fn add_interruption(&mut self, interrupt: TurnInterrupt) {
        if interrupt == TurnInterrupt::Tools
            && let Some(ScenarioStep::Agent(turn)) = self.steps.last_mut()
            && !turn.tools.is_empty()
        {
            turn.interrupt = interrupt;
            return;
        }
        self.steps.push(ScenarioStep::Agent(ScriptedTurn { interrupt, ..ScriptedTurn::default() }));
    }

    fn read_assistant_line(&mut self, line: &RecordedLineWire) {
        if line.is_api_error_message == true {
            let error = parse_api_error(line);
            self.total_bytes += recorded_tools::escaped_len(&error.message) + 128;
            let turn = ScriptedTurn { error: Some(error), ..ScriptedTurn::default() };
            self.steps.push(ScenarioStep::Agent(turn));
            return;
        }
        let message = &line.message;
        let Some(model) = message["model"].as_str() else { return };
        if model == "<synthetic>" {
            // The client writes this answer when it resumes an interrupted session.
            self.has_exited = true;
            return;
        }
        self.model.get_or_insert_with(|| model.to_owned());
        let id = message["id"].as_str().filter(|id| id.len() <= MAX_ID_BYTES).unwrap_or_default();
        // The lines of one answer are close together, but tool results may come between them.
        let mut near = self.answers.iter().rev().take(MAX_ANSWER_DISTANCE);
        let known = near.find(|(known, _)| known == id && !id.is_empty());
        let at = known.map_or(self.steps.len(), |(_, at)| *at);
        if at == self.steps.len() {
            self.steps.push(ScenarioStep::Agent(ScriptedTurn::default()));
            self.answers.push((id.to_owned(), at));
            self.total_bytes += 96;
        }
        let calls = self.read_tool_calls(&message["content"]);
        let said = content_text(&message["content"]);
        let Some(ScenarioStep::Agent(turn)) = self.steps.get_mut(at) else { return };
        if let Some(said) = said {
            self.total_bytes += recorded_tools::escaped_len(&said);
            if !turn.text.is_empty() {
                turn.text.push('\n');
            }
            turn.text.push_str(&said);
        }
        turn.tools.extend(calls);
        turn.usage = parse_usage(&message["usage"]);
        turn.stop_reason = message["stop_reason"]
            .as_str()
            .filter(|reason| !matches!(*reason, "end_turn" | "tool_use"))
            .map(str::to_owned);
    }

    fn read_tool_calls(&mut self, content: &Value) -> Vec<ScriptedToolCall> {
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut calls = Vec::new();
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            let Some(name) = block["name"].as_str() else { continue };
            let call = recorded_tools::scenario_call(name, &block["input"], &self.cwd);
            self.total_bytes += recorded_tools::estimated_size(&call);
            self.outside_calls += usize::from(recorded_tools::is_outside_project(&call));
            calls.push(call);
        }
        calls
    }

    fn read_system_line(&mut self, line: &RecordedLineWire) {
        match line.subtype.as_str() {
            Some("stop_hook_summary") => self.read_stop_summary(line),
            Some("compact_boundary") => {
                self.compactions += 1;
                self.answers.clear();
            }
            // The cap overrode the last block.
            Some("informational")
                if line
                    .content
                    .as_str()
                    .is_some_and(|text| text.starts_with(CAP_WARNING_PREFIX)) =>
            {
                self.block_reasons.pop();
            }
            _ => {}
        }
    }

    fn read_stop_summary(&mut self, line: &RecordedLineWire) {
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
        let reason = feedback.next().map(|reason| strip_command(&reason, &commands).to_owned());
        if let (false, Some(reason)) = (is_prevented, reason.or(context)) {
            self.total_bytes += recorded_tools::escaped_len(&reason);
            self.block_reasons.push(reason);
        }
        for command in commands {
            if self.hooks.len() < MAX_HOOK_NOTES {
                self.hooks.insert(single_line(command));
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
        note(self.outside_calls, "tool calls with files outside the project: {}");
        let resumed =
            |step: &&ScenarioStep| matches!(step, ScenarioStep::Session(SessionStep::Resume));
        note(self.steps.iter().filter(resumed).count(), "resumes of the session: {}");
        if self.is_full() {
            notes.push("the session is too long for a scenario; its end was cut off".to_owned());
        }
        notes.extend(self.hooks.iter().map(|command| format!("stop hook: {command}")));
        notes
    }

    pub(super) fn into_scenario(self) -> Scenario {
        let prompt = self.steps.iter().find_map(|step| match step {
            ScenarioStep::Person(text) => Some(text.as_str()),
            ScenarioStep::Agent(_)
            | ScenarioStep::Session(_)
            | ScenarioStep::Screen(_)
            | ScenarioStep::Shell(_) => None,
        });
        let expect = self.expectations();
        let summary = self.summary.as_deref().unwrap_or("The work so far.");
        Scenario {
            name: scenario_name(prompt.unwrap_or_default()),
            client: ScenarioClient { model: self.model, ..ScenarioClient::default() },
            summary: format!("<summary>{summary}</summary>"),
            steps: self.steps,
            expect,
            ..Scenario::default()
        }
    }

    /// A transcript has no stop summaries if there were no hooks, or if an older client wrote it. Then blocks are
    /// counted from the feedback.
    fn expectations(&self) -> ScenarioExpectations {
        let has_summaries = self.stops > 0;
        let held: Vec<_> =
            if has_summaries { self.block_reasons.clone() } else { self.feedback.clone() };
        if !has_summaries && held.is_empty() {
            return ScenarioExpectations::default();
        }
        ScenarioExpectations {
            stops: has_summaries.then_some(self.stops),
            blocks: Some(held.len() as u64),
            reasons: Some(held).filter(|held| !held.is_empty()),
            ..ScenarioExpectations::default()
        }
    }

    pub(super) fn into_subagent(self) -> Option<ScriptedSubagent> {
        let mut steps = self.steps.into_iter();
        let prompt = steps.find_map(|step| match step {
            ScenarioStep::Person(text) => Some(text),
            ScenarioStep::Agent(_)
            | ScenarioStep::Session(_)
            | ScenarioStep::Screen(_)
            | ScenarioStep::Shell(_) => None,
        })?;
        let turns = steps.filter_map(|step| match step {
            ScenarioStep::Agent(turn) => Some(turn),
            ScenarioStep::Person(_)
            | ScenarioStep::Session(_)
            | ScenarioStep::Screen(_)
            | ScenarioStep::Shell(_) => None,
        });
        Some(ScriptedSubagent { prompt, turns: turns.collect() })
    }
}

/// Strips the hook command from the reason of a block by exit code, because the scenario will run other commands.
fn strip_command<'a>(reason: &'a str, commands: &[&str]) -> &'a str {
    let bare = commands
        .iter()
        .find_map(|command| reason.strip_prefix('[')?.strip_prefix(command)?.strip_prefix("]: "));
    bare.unwrap_or(reason)
}

fn parse_usage(usage: &Value) -> ScriptedUsage {
    let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
    ScriptedUsage {
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_input_tokens"),
        cache_creation: tokens("cache_creation_input_tokens"),
    }
}

/// Extracts the API's message from the client's: `API Error: 529 Overloaded. This is a server-side issue, …`.
fn parse_api_error(line: &RecordedLineWire) -> ScriptedApiError {
    let status = line.api_error_status.as_u64().and_then(|status| u16::try_from(status).ok());
    let status = status.unwrap_or(500);
    let kind = line.api_error_type.as_str().unwrap_or("api_error").to_owned();
    let said = content_text(&line.message["content"]).unwrap_or_default();
    let message = said.strip_prefix("API Error: ").unwrap_or(&said);
    let message = message.strip_prefix(&format!("{status} ")).unwrap_or(message);
    let message = message.split(". This is a server-side issue").next().unwrap_or(message);
    ScriptedApiError { status, kind, message: message.to_owned() }
}

/// A shortened single-line form, only for display.
fn single_line(text: &str) -> String {
    let plain = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(MAX_COMMAND_CHARS).map(plain).collect()
}

/// The first line of the prompt, shortened.
fn scenario_name(prompt: &str) -> String {
    let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= MAX_NAME_CHARS {
        return line.to_owned();
    }
    line.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect()
}
