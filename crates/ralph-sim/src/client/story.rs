//! From what was seen of the client to what happened, in order.
//!
//! Lines, requests and taps are ordered by the time at which they were seen, which may be a little late. What the
//! client never does in another order is put right: hooks are told before what waits for them.

use super::handlers::{self, Handler};
use super::said::{self, Lane as Conversation};
use super::tap::{Input, Tap};
use crate::scenario::AgentTurn;
use crate::server::{Answered, Asked, Nth, Who};
use crate::timeline::{Effect, Ending, Entry, Handled, Hook, Lane, Reply, Request, Tool};
use crate::wire;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

mod effect;

/// What was seen, as it came in.
#[derive(Debug)]
pub(super) enum Seen {
    /// The person said something.
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
    /// The client's process is over.
    Exit {
        at_ns: u64,
        code: i32,
    },
}

#[derive(Debug)]
pub(super) struct Story {
    pub(super) handlers: Vec<Handler>,
    pub(super) tap: Tap,
    project: PathBuf,
    conversations: BTreeMap<String, Conversation>,
    /// Types of subagents, by id.
    agents: BTreeMap<String, String>,
    /// Tool calls by id.
    calls: BTreeMap<String, (String, Value)>,
    /// Requests that were not answered yet.
    asked: BTreeMap<u64, (Lane, AgentTurn)>,
    pub(super) transcripts: Vec<PathBuf>,
    /// What the person said, and the client has not yet told its hooks.
    unheard: BTreeSet<String>,
}

/// What happened, and what else the client showed of it.
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
    /// Something that tells what hooks brought about.
    Sign(Sign),
}

#[derive(Debug, PartialEq, Eq)]
enum Sign {
    /// The reason of a hook, given to the agent.
    Feedback {
        lane: Lane,
        text: String,
    },
    PromptDropped {
        reason: String,
    },
    PromptHeld {
        reason: String,
    },
    CompactionRefused {
        reason: String,
    },
    /// The client let the agent stop in spite of its hooks.
    Overridden,
}

#[derive(Debug)]
struct Batch {
    started_ns: u64,
    hook: Hook,
}

/// Hooks that were started together, and their answers.
#[derive(Debug, Default)]
struct Run {
    name: String,
    event: String,
    started: Vec<(String, u64)>,
}

impl Story {
    pub(super) fn new(tap: Tap, handlers: Vec<Handler>, project: PathBuf) -> Self {
        Self {
            handlers,
            tap,
            project,
            conversations: BTreeMap::new(),
            agents: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            transcripts: Vec::new(),
            unheard: BTreeSet::new(),
        }
    }

    /// What happened since it was told last. To be asked for when the client is idle.
    pub(super) fn tell(&mut self, seen: Vec<Seen>) -> Vec<Entry> {
        self.meet(&seen);
        let mut items = Vec::new();
        let mut answers = BTreeMap::new();
        let mut runs: Vec<Run> = Vec::new();
        let mut is_run = false;
        for seen in seen {
            let Seen::Line { at_ns, line } = seen else {
                items.extend(self.happened(seen));
                continue;
            };
            match line["subtype"].as_str() {
                Some("hook_started") => {
                    let name = word(&line, "hook_name");
                    if !is_run || runs.last().is_none_or(|run| run.name != name) {
                        let event = word(&line, "hook_event");
                        runs.push(Run { name, event, started: Vec::new() });
                    }
                    if let Some(run) = runs.last_mut() {
                        run.started.push((word(&line, "hook_id"), at_ns));
                    }
                    is_run = true;
                    continue;
                }
                Some("hook_response") => {
                    answers.insert(word(&line, "hook_id"), (at_ns, line));
                }
                _ => items.extend(self.line(at_ns, &line)),
            }
            is_run = false;
        }
        for run in runs {
            let batches = self.batches(&run, &answers);
            items.extend(batches);
        }
        for input in self.tap.silent() {
            items.push(self.silent(input));
        }
        put_in_order(&mut items);
        effect::find(&mut items);
        items.into_iter().filter_map(Item::entry).flat_map(|entry| self.prompted(entry)).collect()
    }

    /// Learns who the subagents are before anything is told of them.
    fn meet(&mut self, seen: &[Seen]) {
        for seen in seen {
            if let Seen::Line { line, .. } = seen
                && line["subtype"] == "task_started"
                && let Some(kind) = line["subagent_type"].as_str()
            {
                self.agents.insert(word(line, "task_id"), kind.to_owned());
            }
        }
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
                let (agent, turn) = self.asked.remove(&answered.number)?;
                if !answered.is_heard {
                    return None;
                }
                (answered.at_ns, Entry::Reply(reply(agent, &turn)))
            }
            Seen::Exit { at_ns, code } => (at_ns, Entry::Exit { code }),
            Seen::Line { .. } => return None,
        };
        Some(Item { at_ns, what: What::Entry(entry) })
    }

    fn request(&mut self, asked: Asked) -> Request {
        let (agent, mut messages) = match &asked.who {
            Who::Main => {
                let lane = self.conversations.entry(String::new()).or_default();
                (None, lane.news(&asked.messages))
            }
            Who::Agent(id) => {
                let id = id.clone().unwrap_or_else(|| "?".to_owned());
                let kind = self.agents.get(&id).cloned().unwrap_or_default();
                let lane = self.conversations.entry(id).or_default();
                (Some(kind), lane.news(&asked.messages))
            }
            Who::Summary => (Some(String::new()), said::instructions(&asked.messages)),
        };
        for block in wire::content(&asked.turn, asked.number, &self.project) {
            if let Some(id) = block["id"].as_str() {
                self.calls.insert(id.to_owned(), (word(&block, "name"), block["input"].clone()));
            }
        }
        self.asked.insert(asked.number, (agent.clone(), asked.turn));
        for said in &mut messages {
            said.text = self.tap.leave_out(&said.text);
        }
        Request { agent, messages }
    }

    fn line(&mut self, at_ns: u64, line: &Value) -> Vec<Item> {
        let whats = match (line["type"].as_str(), line["subtype"].as_str()) {
            (Some("user"), _) => self.user(line),
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

    /// The events that one row of started hooks belongs to: each of them has a tap.
    fn batches(&mut self, run: &Run, answers: &BTreeMap<String, (u64, Value)>) -> Vec<Item> {
        let inputs: Vec<Option<Input>> = run
            .started
            .iter()
            .map(|(id, _)| answers.get(id).and_then(|(_, line)| line["stdout"].as_str()))
            .map(|stdout| self.tap.named_by(stdout?))
            .collect();
        let count = inputs.iter().flatten().count().max(1);
        let size = (run.started.len() / count).max(1);
        let mut items = Vec::new();
        for (started, inputs) in run.started.chunks(size).zip(inputs.chunks(size)) {
            let input = inputs.iter().flatten().next().map(|input| input.value.clone());
            let input = input.unwrap_or_default();
            self.note(&input);
            let known = handlers::answering(&self.handlers, &run.event, &input);
            let mut handled = Vec::new();
            let mut last = started.first().map_or(0, |(_, at_ns)| *at_ns);
            for (place, ((id, began), tapped)) in started.iter().zip(inputs).enumerate() {
                let answer = answers.get(id);
                last = last.max(answer.map_or(0, |(at_ns, _)| *at_ns));
                let who = known.get(place).filter(|_| known.len() == started.len()).copied();
                if tapped.is_none() && !who.is_some_and(|who| who.is_tap) {
                    let at_ns = answer.map_or(u64::MAX, |(at_ns, _)| *at_ns);
                    handled.push((at_ns, answered(who, answer, *began)));
                }
            }
            handled.sort_by_key(|(at_ns, _)| *at_ns);
            let hook = Hook {
                event: run.event.clone(),
                agent: self.lane(input["agent_id"].as_str()),
                input,
                handlers: handled.into_iter().map(|(_, handled)| handled).collect(),
                effect: Effect::Allowed,
            };
            let started_ns = started.first().map_or(0, |(_, at_ns)| *at_ns);
            items.push(Item { at_ns: last, what: What::Batch(Batch { started_ns, hook }) });
        }
        items
    }

    fn silent(&mut self, input: Input) -> Item {
        self.note(&input.value);
        let hook = Hook {
            event: input.event,
            agent: self.lane(input.value["agent_id"].as_str()),
            input: input.value,
            handlers: Vec::new(),
            effect: Effect::Allowed,
        };
        let at_ns = input.at_ns;
        Item { at_ns, what: What::Batch(Batch { started_ns: at_ns, hook }) }
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

    /// A prompt that no person said comes from the client.
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

    /// Whether this happens when these hooks are over, whichever was seen first.
    fn comes_after(&self, batch: &Batch) -> bool {
        let input = &batch.hook.input;
        match (batch.hook.event.as_str(), &self.what) {
            // The client runs them while it says that it is done.
            ("StopFailure", What::Entry(Entry::Ending(ending))) => {
                input["last_assistant_message"] == ending.result.as_str()
            }
            // It starts before it listens to the person.
            ("SessionStart", What::Entry(Entry::Prompt { .. })) => {
                input["source"] != "compact" && input["source"] != "clear"
            }
            _ => self.at_ns > batch.started_ns && self.waits_for(&batch.hook.agent),
        }
    }

    /// Whether the hooks of this lane are over when this happens.
    fn waits_for(&self, lane: &Lane) -> bool {
        match &self.what {
            What::Entry(Entry::Request(request)) => request.agent == *lane,
            What::Entry(Entry::Ending(_) | Entry::Exit { .. }) => lane.is_none(),
            What::Entry(_) | What::Batch(_) | What::Tool { .. } | What::Sign(_) => false,
        }
    }
}

fn put_in_order(items: &mut [Item]) {
    let mut due = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let What::Batch(batch) = &item.what else { continue };
        let waiting = items.iter().filter(|other| other.comes_after(batch));
        let bound = waiting.map(|other| other.at_ns.saturating_sub(1)).min();
        due.push((place, bound.map_or(item.at_ns, |bound| item.at_ns.min(bound))));
    }
    for (place, at_ns) in due {
        if let Some(item) = items.get_mut(place) {
            item.at_ns = at_ns;
        }
    }
    items.sort_by_key(|item| item.at_ns);
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
    let outcome = &line["prompt_submit_outcome"];
    let reason = word(outcome, "reason");
    match outcome["kind"].as_str() {
        Some("blocked_by_hook") => whats.push(What::Sign(Sign::PromptDropped { reason })),
        Some("stopped_by_hook") => whats.push(What::Sign(Sign::PromptHeld { reason })),
        _ => {}
    }
    whats.push(What::Entry(Entry::Notice { text }));
    whats
}

/// One hook's answer, as far as the client's lines tell it.
fn answered(handler: Option<&Handler>, answer: Option<&(u64, Value)>, began: u64) -> Handled {
    let command = handler.map_or_else(|| "?".to_owned(), |handler| handler.command.clone());
    let source = handler.map_or_else(|| "?".to_owned(), |handler| handler.source.clone());
    let Some((at_ns, line)) = answer else {
        return Handled {
            command,
            source,
            ended: "not yet".to_owned(),
            stdout: String::new(),
            stderr: String::new(),
            outcome: String::new(),
            remark: None,
            ms: 0,
        };
    };
    let ms = at_ns.saturating_sub(began) / 1_000_000;
    let outcome = word(line, "outcome");
    let code = line["exit_code"].as_i64();
    let ended = match (outcome.as_str(), code) {
        ("cancelled", _) => "timeout".to_owned(),
        (_, Some(code)) => format!("exit {code}"),
        (_, None) => "not started".to_owned(),
    };
    let stderr = word(line, "stderr");
    let remark = (code == Some(0) && outcome == "error").then(|| stderr.clone());
    Handled { command, source, ended, stdout: word(line, "stdout"), stderr, outcome, remark, ms }
}

fn word(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}
