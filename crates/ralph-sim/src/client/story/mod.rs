//! Builds the timeline of the real client from what was observed: its lines, its requests and the taps.
//!
//! Observations are ordered by their time, which may be slightly late. `observed_order` corrects this where the client's
//! own order is known.

use super::said::{self, Lane as Conversation};
use super::tap::Tap;
use crate::scenario::AgentTurn;
use crate::server::{Answered, Asked, Nth, Who};
use crate::settings::Loaded;
use crate::timeline::{Ending, Entry, Hook, Lane, Reply, Request, Tool};
use crate::wire;
use hooks::{Answers, Run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

mod effect;
mod hooks;
mod order;

/// One observation of the client.
#[derive(Debug)]
pub(super) enum Seen {
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
    Asked(Box<Asked>),
    Answered(Answered),
    /// The client's process exited.
    Exit {
        at_ns: u64,
        code: i32,
    },
}

#[derive(Debug)]
pub(super) struct Story {
    /// The current hooks, and those before the last change of the settings.
    settings: Loaded,
    former: Loaded,
    pub(super) tap: Tap,
    project: PathBuf,
    conversations: BTreeMap<String, Conversation>,
    /// Types of subagents, by id.
    agents: BTreeMap<String, String>,
    /// Tool calls by id.
    calls: BTreeMap<String, (String, Value)>,
    /// Requests that are not answered yet.
    asked: BTreeMap<u64, (Lane, AgentTurn)>,
    pub(super) transcripts: Vec<PathBuf>,
    /// The person's prompts for which no `UserPromptSubmit` was observed yet.
    unheard: BTreeSet<String>,
    items: Vec<Item>,
    answers: Answers,
    runs: Vec<Run>,
    /// Whether anything else was observed since the last hook was started.
    is_row_over: bool,
}

/// A timeline entry under construction, or evidence for one.
#[derive(Debug)]
struct Item {
    at_ns: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Entry(Entry),
    /// The hooks of one event.
    Batch(Batch),
    Tool {
        id: String,
        tool: Tool,
    },
    /// Evidence for the effect of hooks.
    Sign(Sign),
}

#[derive(Debug, PartialEq, Eq)]
enum Sign {
    /// The reason of a block, sent to the agent.
    Feedback {
        lane: Lane,
        text: String,
    },
    /// The client's message about an API error.
    Failure {
        lane: Lane,
        text: String,
    },
    CompactionRefused {
        reason: String,
    },
    /// The client overrode its hooks and let the agent stop.
    Overridden,
}

#[derive(Debug)]
struct Batch {
    started_ns: u64,
    hook: Hook,
}

impl Story {
    pub(super) fn new(tap: Tap, settings: Loaded, project: PathBuf) -> Self {
        Self {
            former: settings.clone(),
            settings,
            tap,
            project,
            conversations: BTreeMap::new(),
            agents: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            transcripts: Vec::new(),
            unheard: BTreeSet::new(),
            items: Vec::new(),
            answers: Answers::new(),
            runs: Vec::new(),
            is_row_over: false,
        }
    }

    /// Adds an observation. A request contains the whole conversation, of which only the new messages are kept.
    pub(super) fn hear(&mut self, seen: Seen) {
        let Seen::Line { at_ns, line } = seen else {
            let item = self.happened(seen);
            self.items.extend(item);
            return;
        };
        match line["subtype"].as_str() {
            Some("hook_started") => return self.started(at_ns, &line),
            Some("hook_response") => {
                self.answers.insert(word(&line, "hook_id"), (at_ns, line));
            }
            Some("task_started") => {
                if let Some(kind) = line["subagent_type"].as_str() {
                    self.agents.insert(word(&line, "task_id"), kind.to_owned());
                }
            }
            _ => {
                let items = self.line(at_ns, &line);
                self.items.extend(items);
            }
        }
        self.is_row_over = true;
    }

    fn started(&mut self, at_ns: u64, line: &Value) {
        let name = word(line, "hook_name");
        if self.is_row_over || self.runs.last().is_none_or(|run| run.name != name) {
            let event = word(line, "hook_event");
            self.runs.push(Run { name, event, started: Vec::new() });
        }
        if let Some(run) = self.runs.last_mut() {
            run.started.push((word(line, "hook_id"), at_ns));
        }
        self.is_row_over = false;
    }

    /// Takes new settings, because the client reloads them when they change.
    pub(super) fn read_settings(&mut self, settings: Loaded) {
        self.former = std::mem::replace(&mut self.settings, settings);
    }

    /// Number of observations that are not converted yet.
    pub(super) fn len(&self) -> usize {
        self.items.len() + self.answers.len()
    }

    /// The entries since the last call. Call only when the client is idle.
    pub(super) fn tell(&mut self) -> Vec<Entry> {
        let mut items = std::mem::take(&mut self.items);
        let answers = std::mem::take(&mut self.answers);
        for run in std::mem::take(&mut self.runs) {
            let batches = self.batches(&run, &answers);
            items.extend(batches);
        }
        for input in self.tap.silent() {
            items.push(self.silent(input));
        }
        order::put(&mut items);
        effect::find(&mut items);
        let entries = items.into_iter().filter_map(Item::entry);
        let mut entries: Vec<Entry> = entries.flat_map(|entry| self.prompted(entry)).collect();
        // The client prints important notices twice: for the transcript and for the screen.
        entries.dedup_by(|next, entry| next == entry && matches!(entry, Entry::Notice { .. }));
        hooks::note_killers(&mut entries);
        entries
    }

    fn happened(&mut self, seen: Seen) -> Option<Item> {
        let (at_ns, entry) = match seen {
            Seen::Person { at_ns, text } => {
                self.unheard.insert(text.clone());
                (at_ns, Entry::Prompt { text })
            }
            Seen::Asked(asked) => {
                if asked.nth == Nth::Retry {
                    return None;
                }
                let at_ns = asked.at_ns;
                (at_ns, Entry::Request(self.request(*asked)))
            }
            Seen::Answered(answered) => {
                let (lane, turn) = self.asked.remove(&answered.number)?;
                if !answered.is_heard {
                    return None;
                }
                (answered.at_ns, Entry::Reply(reply(lane, &turn)))
            }
            Seen::Exit { at_ns, code } => (at_ns, Entry::Exit { code }),
            Seen::Line { .. } => return None,
        };
        Some(Item { at_ns, what: What::Entry(entry) })
    }

    fn request(&mut self, asked: Asked) -> Request {
        let (agent, id) = match &asked.who {
            Who::Main => (None, String::new()),
            Who::Agent(id) => {
                let id = id.clone().unwrap_or_else(|| "?".to_owned());
                (Some(self.agents.get(&id).cloned().unwrap_or_default()), id)
            }
            // A nameless subagent writes the summary.
            Who::Summary => (Some(String::new()), String::new()),
        };
        let messages = match &asked.who {
            Who::Summary => said::instructions(&asked.messages),
            Who::Main | Who::Agent(_) => {
                self.conversations.entry(id).or_default().news(&asked.messages)
            }
        };
        for block in wire::content(&asked.turn, asked.number, &self.project) {
            if let Some(id) = block["id"].as_str() {
                self.calls.insert(id.to_owned(), (word(&block, "name"), block["input"].clone()));
            }
        }
        self.asked.insert(asked.number, (agent.clone(), asked.turn));
        Request { agent, messages }
    }

    fn line(&mut self, at_ns: u64, line: &Value) -> Vec<Item> {
        let whats = match (line["type"].as_str(), line["subtype"].as_str()) {
            (Some("user"), _) => self.user(line),
            (Some("assistant"), _) if line["is_api_error_message"] == true => {
                let agent = self.lane(line["agent_id"].as_str());
                let text = said::result_text(&line["message"]["content"]);
                vec![What::Sign(Sign::Failure { lane: agent, text })]
            }
            (Some("result"), _) => vec![What::Entry(Entry::Ending(ending(line)))],
            (Some("system"), Some("informational")) => informed(line),
            (Some("system"), Some("notification")) => {
                vec![What::Entry(Entry::Notice { text: word(line, "text") })]
            }
            (Some("system"), Some("status")) => {
                let error = line["compact_error"].as_str().unwrap_or_default();
                let refused =
                    error.strip_prefix("skipped: Compaction blocked by PreCompact hook: ");
                let reason = refused.map(str::to_owned);
                reason
                    .map(|reason| What::Sign(Sign::CompactionRefused { reason }))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        };
        whats.into_iter().map(|what| Item { at_ns, what }).collect()
    }

    fn user(&mut self, line: &Value) -> Vec<What> {
        let agent = self.lane(line["agent_id"].as_str());
        let mut whats = Vec::new();
        for block in line["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                let id = word(block, "tool_use_id");
                let (name, input) = self.calls.remove(&id).unwrap_or_default();
                let result = said::result_text(&block["content"]);
                let is_error = block["is_error"] == true;
                let tool = Tool { agent: agent.clone(), name, input, result, is_error };
                whats.push(What::Tool { id, tool });
            } else if let Some(text) = block["text"].as_str()
                && let Some(text) = text.strip_prefix(effect::FEEDBACK)
            {
                let text = text.to_owned();
                whats.push(What::Sign(Sign::Feedback { lane: agent.clone(), text }));
            }
        }
        whats
    }

    fn lane(&self, agent: Option<&str>) -> Lane {
        agent.map(|id| self.agents.get(id).cloned().unwrap_or_default())
    }

    fn note(&mut self, input: &Value) {
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
    fn prompted(&mut self, entry: Entry) -> Vec<Entry> {
        let Entry::Hook(hook) = &entry else { return vec![entry] };
        if hook.event != "UserPromptSubmit" {
            return vec![entry];
        }
        let said = hook.input["prompt"].as_str();
        let from_client = said.filter(|said| !self.unheard.remove(*said)).map(str::to_owned);
        from_client.map(|text| Entry::Prompt { text }).into_iter().chain([entry]).collect()
    }
}

impl Item {
    fn entry(self) -> Option<Entry> {
        match self.what {
            What::Entry(entry) => Some(entry),
            What::Batch(batch) => Some(Entry::Hook(batch.hook)),
            What::Tool { tool, .. } => Some(Entry::Tool(tool)),
            What::Sign(_) => None,
        }
    }

    /// Whether this cannot happen before the hooks of this lane have finished.
    fn waits_for(&self, lane: &Lane) -> bool {
        match &self.what {
            What::Entry(Entry::Request(request)) => request.agent == *lane,
            What::Entry(Entry::Ending(_) | Entry::Exit { .. }) => lane.is_none(),
            What::Entry(_) | What::Batch(_) | What::Tool { .. } | What::Sign(_) => false,
        }
    }
}

fn reply(agent: Lane, turn: &AgentTurn) -> Reply {
    let Some(error) = &turn.error else {
        let tools = turn.tools.iter().map(|call| wire::tool_use(call, "".as_ref()).0);
        return Reply { agent, text: turn.text.clone(), tools: tools.collect(), error: None };
    };
    let error = format!("{} {}: {}", error.status, error.kind, error.message);
    Reply { agent, text: String::new(), tools: Vec::new(), error: Some(error) }
}

fn ending(line: &Value) -> Ending {
    let result = word(line, "result");
    let reason = match line["terminal_reason"].as_str() {
        Some(reason) => reason,
        None if effect::is_dropped_prompt(&result) => "prompt_blocked",
        None if line["is_error"] == true => line["subtype"].as_str().unwrap_or_default(),
        None => "completed",
    };
    Ending { reason: reason.to_owned(), result, is_error: line["is_error"] == true }
}

fn informed(line: &Value) -> Vec<What> {
    let text = word(line, "content");
    let mut whats = Vec::new();
    if text.starts_with("A hook blocked the turn from ending") {
        whats.push(What::Sign(Sign::Overridden));
    }
    whats.push(What::Entry(Entry::Notice { text }));
    whats
}

fn word(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
