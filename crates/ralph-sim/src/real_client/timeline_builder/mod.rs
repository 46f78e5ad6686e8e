//! Builds the timeline of the real client from three kinds of observations: its lines, its requests and the taps.
//!
//! Observations are ordered by their time, which may be slightly late. `observed_order` corrects this where the
//! client's own order is known.

use super::hook_tap::HookTap;
use super::request_news::{self, ConversationHistory as Conversation};
use crate::client_rules::hook_input::is_hook_agent_id;
use crate::hook_settings::{EvaluatorKind, LoadedHookSettings};
use crate::model_answer;
use crate::scenario::ScriptedTurn;
use crate::server::{ModelAnswer, ModelRequest, RequestAttempt, RequestOrigin};
use crate::timeline::{
    AgentLane, TimelineEnding, TimelineEntry, TimelineHook, TimelineReply, TimelineRequest,
    TimelineTool,
};
use observed_hooks::{HookAnswerLines, StartedHooks};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

mod observed_effects;
mod observed_hooks;
mod observed_order;

/// One observation of the client.
#[derive(Debug)]
pub(super) enum ClientObservation {
    /// The person sent a prompt.
    Person {
        at_ns: u64,
        text: String,
    },
    /// The client printed a line.
    Line {
        at_ns: u64,
        line: Value,
    },
    Request(Box<ModelRequest>),
    Answer(ModelAnswer),
    /// The client's process exited.
    Exit {
        at_ns: u64,
        code: i32,
    },
}

#[derive(Debug)]
pub(super) struct TimelineBuilder {
    /// The current hooks, and those before the last change of the settings.
    settings: LoadedHookSettings,
    previous_settings: LoadedHookSettings,
    pub(super) tap: HookTap,
    project: PathBuf,
    conversations: BTreeMap<String, Conversation>,
    /// Types of subagents, by id.
    agents: BTreeMap<String, String>,
    /// Tool calls by id.
    calls: BTreeMap<String, (String, Value)>,
    /// Requests that are not answered yet.
    open_requests: BTreeMap<u64, (AgentLane, ScriptedTurn)>,
    pub(super) transcripts: Vec<PathBuf>,
    /// Number of stops so far, by transcript.
    stop_counts: BTreeMap<PathBuf, usize>,
    /// The person's prompts for which no `UserPromptSubmit` was observed yet.
    unmatched_prompts: BTreeSet<String>,
    items: Vec<ObservedItem>,
    answers: HookAnswerLines,
    hook_runs: Vec<StartedHooks>,
    /// Whether anything else was observed since the last hook was started.
    is_hook_run_over: bool,
}

/// A timeline entry under construction, or evidence for one.
#[derive(Debug)]
struct ObservedItem {
    at_ns: u64,
    what: ObservedItemKind,
}

#[derive(Debug)]
enum ObservedItemKind {
    Entry(TimelineEntry),
    /// The hooks of one event.
    Batch(ObservedHookBatch),
    Tool {
        id: String,
        tool: TimelineTool,
    },
    /// Evidence for the effect of hooks.
    Evidence(EffectEvidence),
}

#[derive(Debug, PartialEq, Eq)]
enum EffectEvidence {
    /// The reason of a block, sent to the agent.
    Feedback {
        lane: AgentLane,
        text: String,
    },
    /// The client's message about an API error.
    Failure {
        lane: AgentLane,
        text: String,
    },
    CompactionRefused {
        reason: String,
    },
    /// The client overrode its hooks and let the agent stop.
    Overridden,
}

#[derive(Debug)]
struct ObservedHookBatch {
    started_ns: u64,
    hook: TimelineHook,
}

impl TimelineBuilder {
    pub(super) fn new(tap: HookTap, settings: LoadedHookSettings, project: PathBuf) -> Self {
        Self {
            previous_settings: settings.clone(),
            settings,
            tap,
            project,
            conversations: BTreeMap::new(),
            agents: BTreeMap::new(),
            calls: BTreeMap::new(),
            open_requests: BTreeMap::new(),
            transcripts: Vec::new(),
            stop_counts: BTreeMap::new(),
            unmatched_prompts: BTreeSet::new(),
            items: Vec::new(),
            answers: HookAnswerLines::new(),
            hook_runs: Vec::new(),
            is_hook_run_over: false,
        }
    }

    /// Adds an observation. A request contains the whole conversation, of which only the new messages are kept.
    pub(super) fn observe(&mut self, seen: ClientObservation) {
        let ClientObservation::Line { at_ns, line } = seen else {
            let item = self.observed_item(seen);
            self.items.extend(item);
            return;
        };
        match line["subtype"].as_str() {
            Some("hook_started") => return self.observe_hook_start(at_ns, &line),
            Some("hook_response") => {
                self.answers.insert(string_field(&line, "hook_id"), (at_ns, line));
            }
            Some("task_started") => {
                if let Some(kind) = line["subagent_type"].as_str() {
                    self.agents.insert(string_field(&line, "task_id"), kind.to_owned());
                }
            }
            _ => {
                let items = self.items_of_line(at_ns, &line);
                self.items.extend(items);
            }
        }
        self.is_hook_run_over = true;
    }

    fn observe_hook_start(&mut self, at_ns: u64, line: &Value) {
        let name = string_field(line, "hook_name");
        if self.is_hook_run_over || self.hook_runs.last().is_none_or(|run| run.name != name) {
            let event = string_field(line, "hook_event");
            self.hook_runs.push(StartedHooks { name, event, started: Vec::new() });
        }
        if let Some(run) = self.hook_runs.last_mut() {
            run.started.push((string_field(line, "hook_id"), at_ns));
        }
        self.is_hook_run_over = false;
    }

    /// Takes new settings, because the client reloads them when they change.
    pub(super) fn replace_settings(&mut self, settings: LoadedHookSettings) {
        self.previous_settings = std::mem::replace(&mut self.settings, settings);
    }

    /// Number of observations that are not converted yet.
    pub(super) fn pending_len(&self) -> usize {
        self.items.len() + self.answers.len()
    }

    /// The entries since the last call. Call only when the client is idle.
    pub(super) fn take_entries(&mut self) -> Vec<TimelineEntry> {
        let mut items = std::mem::take(&mut self.items);
        let answers = std::mem::take(&mut self.answers);
        for run in std::mem::take(&mut self.hook_runs) {
            let batches = self.split_into_batches(&run, &answers);
            items.extend(batches);
        }
        for input in self.tap.take_silent() {
            items.push(self.build_silent_batch(input));
        }
        observed_order::restore_order(&mut items);
        observed_effects::find_effects(&mut items);
        let entries = items.into_iter().filter_map(ObservedItem::into_entry);
        let mut entries: Vec<TimelineEntry> =
            entries.flat_map(|entry| self.with_client_prompt(entry)).collect();
        // The client prints important notices twice: for the transcript and for the screen.
        entries
            .dedup_by(|next, entry| next == entry && matches!(entry, TimelineEntry::Notice { .. }));
        observed_hooks::mark_killers(&mut entries);
        entries
    }

    fn observed_item(&mut self, seen: ClientObservation) -> Option<ObservedItem> {
        let (at_ns, entry) = match seen {
            ClientObservation::Person { at_ns, text } => {
                self.unmatched_prompts.insert(text.clone());
                (at_ns, TimelineEntry::Prompt { text })
            }
            ClientObservation::Request(asked) => {
                if asked.attempt == RequestAttempt::Retry {
                    return None;
                }
                let at_ns = asked.at_ns;
                (at_ns, TimelineEntry::Request(self.timeline_request(*asked)))
            }
            ClientObservation::Answer(answered) => {
                let (lane, turn) = self.open_requests.remove(&answered.number)?;
                if !answered.is_received {
                    return None;
                }
                (answered.at_ns, TimelineEntry::Reply(timeline_reply(lane, &turn)))
            }
            ClientObservation::Exit { at_ns, code } => (at_ns, TimelineEntry::Exit { code }),
            ClientObservation::Line { .. } => return None,
        };
        Some(ObservedItem { at_ns, what: ObservedItemKind::Entry(entry) })
    }

    fn timeline_request(&mut self, asked: ModelRequest) -> TimelineRequest {
        let (agent, id) = match &asked.origin {
            RequestOrigin::Main => (None, String::new()),
            RequestOrigin::Agent(id) => {
                let id = id.clone().unwrap_or_else(|| "?".to_owned());
                (Some(self.agents.get(&id).cloned().unwrap_or_default()), id)
            }
            // A nameless subagent writes the summary.
            RequestOrigin::Summary => (Some(String::new()), String::new()),
            RequestOrigin::Evaluator(kind) => {
                (Some(kind.lane().to_owned()), kind.lane().to_owned())
            }
        };
        let messages = match &asked.origin {
            RequestOrigin::Summary => request_news::summary_instructions(&asked.messages),
            RequestOrigin::Evaluator(EvaluatorKind::Prompt) => {
                request_news::last_question(&asked.messages)
            }
            RequestOrigin::Evaluator(EvaluatorKind::Agent) => {
                let conversation = self.conversations.entry(id).or_default();
                // Every agent begins anew, and its requests do not name it.
                if asked.messages.iter().all(|message| message["role"] != "assistant") {
                    *conversation = Conversation::default();
                }
                conversation.new_messages(&asked.messages)
            }
            RequestOrigin::Main | RequestOrigin::Agent(_) => {
                self.conversations.entry(id).or_default().new_messages(&asked.messages)
            }
        };
        for block in model_answer::content_blocks(&asked.turn, asked.number, &self.project) {
            if let Some(id) = block["id"].as_str() {
                self.calls
                    .insert(id.to_owned(), (string_field(&block, "name"), block["input"].clone()));
            }
        }
        self.open_requests.insert(asked.number, (agent.clone(), asked.turn));
        TimelineRequest { agent, messages }
    }

    fn items_of_line(&mut self, at_ns: u64, line: &Value) -> Vec<ObservedItem> {
        let whats = match (line["type"].as_str(), line["subtype"].as_str()) {
            (Some("user"), _) => self.items_of_user_line(line),
            (Some("assistant"), _) if line["is_api_error_message"] == true => {
                let agent = self.agent_lane(line["agent_id"].as_str());
                let text = request_news::result_text(&line["message"]["content"]);
                vec![ObservedItemKind::Evidence(EffectEvidence::Failure { lane: agent, text })]
            }
            (Some("result"), _) => {
                vec![ObservedItemKind::Entry(TimelineEntry::Ending(timeline_ending(line)))]
            }
            (Some("system"), Some("informational")) => items_of_informational(line),
            (Some("system"), Some("notification")) => {
                vec![ObservedItemKind::Entry(TimelineEntry::Notice {
                    text: string_field(line, "text"),
                })]
            }
            (Some("system"), Some("status")) => {
                let error = line["compact_error"].as_str().unwrap_or_default();
                let refused =
                    error.strip_prefix("skipped: Compaction blocked by PreCompact hook: ");
                let reason = refused.map(str::to_owned);
                reason
                    .map(|reason| {
                        ObservedItemKind::Evidence(EffectEvidence::CompactionRefused { reason })
                    })
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        };
        whats.into_iter().map(|what| ObservedItem { at_ns, what }).collect()
    }

    fn items_of_user_line(&mut self, line: &Value) -> Vec<ObservedItemKind> {
        let agent = self.agent_lane(line["agent_id"].as_str());
        let mut whats = Vec::new();
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                let id = string_field(block, "tool_use_id");
                let (name, input) = self.calls.remove(&id).unwrap_or_default();
                let result = request_news::result_text(&block["content"]);
                let is_error = block["is_error"] == true;
                let tool = TimelineTool { agent: agent.clone(), name, input, result, is_error };
                whats.push(ObservedItemKind::Tool { id, tool });
            } else if let Some(text) = block["text"].as_str()
                && let Some(text) = text.strip_prefix(observed_effects::FEEDBACK_PREFIX)
            {
                let text = text.to_owned();
                whats.push(ObservedItemKind::Evidence(EffectEvidence::Feedback {
                    lane: agent.clone(),
                    text,
                }));
            }
        }
        whats
    }

    fn agent_lane(&self, agent: Option<&str>) -> AgentLane {
        agent.map(|id| {
            if is_hook_agent_id(id) {
                return EvaluatorKind::Agent.lane().to_owned();
            }
            self.agents.get(id).cloned().unwrap_or_default()
        })
    }

    fn note_input(&mut self, input: &Value) {
        if let (Some(id), Some(kind)) = (input["agent_id"].as_str(), input["agent_type"].as_str()) {
            self.agents.insert(id.to_owned(), kind.to_owned());
        }
        if let Some(path) = input["transcript_path"].as_str().map(PathBuf::from)
            && !self.transcripts.contains(&path)
        {
            self.transcripts.push(path);
        }
    }

    /// Adds an entry for a prompt that the client, not the person, submitted.
    fn with_client_prompt(&mut self, entry: TimelineEntry) -> Vec<TimelineEntry> {
        let TimelineEntry::Hook(hook) = &entry else { return vec![entry] };
        if hook.event != "UserPromptSubmit" {
            return vec![entry];
        }
        let said = hook.input["prompt"].as_str();
        let from_client =
            said.filter(|said| !self.unmatched_prompts.remove(*said)).map(str::to_owned);
        from_client.map(|text| TimelineEntry::Prompt { text }).into_iter().chain([entry]).collect()
    }
}

impl ObservedItem {
    fn into_entry(self) -> Option<TimelineEntry> {
        match self.what {
            ObservedItemKind::Entry(entry) => Some(entry),
            ObservedItemKind::Batch(batch) => Some(TimelineEntry::Hook(batch.hook)),
            ObservedItemKind::Tool { tool, .. } => Some(TimelineEntry::Tool(tool)),
            ObservedItemKind::Evidence(_) => None,
        }
    }

    /// Whether this cannot happen before the hooks of this lane have finished.
    fn follows_hooks_of(&self, lane: &AgentLane) -> bool {
        match &self.what {
            ObservedItemKind::Entry(TimelineEntry::Request(request)) => request.agent == *lane,
            ObservedItemKind::Entry(TimelineEntry::Ending(_) | TimelineEntry::Exit { .. }) => {
                lane.is_none()
            }
            ObservedItemKind::Entry(_)
            | ObservedItemKind::Batch(_)
            | ObservedItemKind::Tool { .. }
            | ObservedItemKind::Evidence(_) => false,
        }
    }
}

fn timeline_reply(agent: AgentLane, turn: &ScriptedTurn) -> TimelineReply {
    let Some(error) = &turn.error else {
        let tools = turn.tools.iter().map(|call| model_answer::tool_use(call, "".as_ref()).0);
        return TimelineReply {
            agent,
            text: turn.text.clone(),
            tools: tools.collect(),
            error: None,
        };
    };
    let error = format!("{} {}: {}", error.status, error.kind, error.message);
    TimelineReply { agent, text: String::new(), tools: Vec::new(), error: Some(error) }
}

fn timeline_ending(line: &Value) -> TimelineEnding {
    let result = string_field(line, "result");
    let reason = match line["terminal_reason"].as_str() {
        Some(reason) => reason,
        None if observed_effects::is_dropped_prompt(&result) => "prompt_blocked",
        None if line["is_error"] == true => line["subtype"].as_str().unwrap_or_default(),
        None => "completed",
    };
    TimelineEnding { reason: reason.to_owned(), result, is_error: line["is_error"] == true }
}

fn items_of_informational(line: &Value) -> Vec<ObservedItemKind> {
    let text = string_field(line, "content");
    let mut whats = Vec::new();
    if text.starts_with("A hook blocked the turn from ending") {
        whats.push(ObservedItemKind::Evidence(EffectEvidence::Overridden));
    }
    whats.push(ObservedItemKind::Entry(TimelineEntry::Notice { text }));
    whats
}

fn string_field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
