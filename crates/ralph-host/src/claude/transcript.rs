//! Claude Code's transcript: one JSON object per line. Extracts the few facts that ralph needs and skips the rest
//! without parsing it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use memchr::memmem;
use ralph_core::source::checklist::{self, Checklist};
use ralph_core::source::json::Json;
use ralph_core::typed;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

/// The meaning of one transcript line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// One content block of the main thread; subagents are [`TranscriptLine::Other`].
    Assistant(Assistant),
    Cost {
        usd: f64,
    },
    /// A person interrupted the agent's turn.
    Interrupted,
    /// The host ended a turn because hooks had blocked its end too often.
    Overridden,
    /// A hook blocked a stop. Later lines follow that block.
    Held,
    /// A person typed something during the agent's turn; it waits until the turn ends.
    Queued {
        is_command: bool,
    },
    /// A queued message was delivered or removed.
    Unqueued,
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assistant {
    pub context_tokens: Option<u64>,
    /// The model's context window in tokens, if the model's name determines it.
    pub context_window: Option<u64>,
    pub text: Option<String>,
    pub api_error: bool,
    pub tool_calls: u32,
    /// Empty if the agent cleared its todo list.
    pub checklist: Option<Checklist>,
}

/// The combined content of the lines so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub context_tokens: Option<u64>,
    pub context_window: Option<u64>,
    pub cost_usd: Option<f64>,
    pub last_assistant: Option<LastAssistant>,
    /// Counted since the last blocked stop, if there was one.
    pub tool_calls: u32,
    pub has_held: bool,
    pub checklist: Option<Checklist>,
    pub interrupted: bool,
    pub overridden: bool,
    pub queue: Queue,
}

/// Messages that a person typed and that have not reached the agent yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The number of messages that an earlier observation already saw.
    pub old: u32,
    /// For each newer message, whether it is a command for ralph.
    pub new: Vec<bool>,
}

impl Queue {
    const MOST: usize = 1000;

    pub fn len(&self) -> u32 {
        self.old.saturating_add(u32::try_from(self.new.len()).unwrap_or(u32::MAX))
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a message waits for the turn to end. The prompt that started the current turn may still be listed, so
    /// anything but a command counts only if an earlier observation saw it.
    pub fn is_waited_for(&self) -> bool {
        self.old > 0 || self.new.contains(&true)
    }

    fn add(&mut self, is_command: bool) {
        if self.new.len() < Self::MOST {
            self.new.push(is_command);
        }
    }

    fn take(&mut self) {
        if self.old > 0 {
            self.old -= 1;
        } else if !self.new.is_empty() {
            self.new.remove(0);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAssistant {
    pub text: Option<String>,
    pub api_error: bool,
}

impl Observed {
    pub fn add(&mut self, line: Line) {
        match line {
            Line::Assistant(assistant) => {
                self.context_tokens = assistant.context_tokens.or(self.context_tokens);
                self.context_window = assistant.context_window.or(self.context_window);
                self.tool_calls = self.tool_calls.saturating_add(assistant.tool_calls);
                self.last_assistant =
                    Some(LastAssistant { text: assistant.text, api_error: assistant.api_error });
                if let Some(checklist) = assistant.checklist {
                    self.checklist =
                        Some(checklist).filter(|checklist| !checklist.items.is_empty());
                }
            }
            Line::Cost { usd } => self.cost_usd = Some(usd),
            Line::Held => {
                self.has_held = true;
                self.tool_calls = 0;
            }
            Line::Interrupted => self.interrupted = true,
            Line::Overridden => self.overridden = true,
            Line::Queued { is_command } => self.queue.add(is_command),
            Line::Unqueued => self.queue.take(),
            Line::Other => {}
        }
    }
}

pub fn observe(line: &[u8]) -> Line {
    // Quotes inside a JSON string are escaped, so these bytes occur only as a whole string. This skips tool results of
    // several megabytes without parsing them.
    if memmem::find(line, b"\"assistant\"").is_none()
        && memmem::find(line, b"\"cost-state\"").is_none()
    {
        return noticed(line);
    }
    let Ok(wire) = serde_json::from_slice::<Wire<'_>>(line) else {
        return Line::Other;
    };
    match (&*wire.kind, wire.message, wire.total_cost_usd) {
        ("assistant", Some(message), _) if wire.is_sidechain != Some(true) => {
            Line::Assistant(Assistant {
                api_error: wire.is_api_error_message == Some(true),
                ..assistant(message)
            })
        }
        ("cost-state", _, Some(usd)) if usd >= 0.0 => Line::Cost { usd },
        _ => Line::Other,
    }
}

const INTERRUPTED: &str = "[Request interrupted by user";
const HELD: &str = "Stop hook feedback:";
const OVERRIDDEN: &str = "consecutive times \u{2014} overriding and ending turn";

/// Recognises lines that the host itself writes. A tool result that quotes such a line does not count: there the text
/// is part of the result, not of the line.
fn noticed(line: &[u8]) -> Line {
    let signs = [INTERRUPTED, HELD, "overriding and ending turn", "\"queue-operation\""];
    let is_noted = signs.iter().any(|sign| memmem::find(line, sign.as_bytes()).is_some());
    if !is_noted {
        return Line::Other;
    }
    let Ok(wire) = serde_json::from_slice::<Notice<'_>>(line) else { return Line::Other };
    let is_text =
        |blocks: &Blocks| blocks.text.as_deref().is_some_and(|text| text.starts_with(INTERRUPTED));
    match (&*wire.kind, wire.message, wire.content) {
        ("user", Some(message), _) if wire.is_sidechain != Some(true) => match message.content {
            Json::List(blocks) if wire.is_meta != Some(true) && is_text(&blocks) => {
                Line::Interrupted
            }
            Json::Text(text) if wire.is_meta == Some(true) && text.starts_with(HELD) => Line::Held,
            Json::List(_)
            | Json::Text(_)
            | Json::Null
            | Json::Flag(_)
            | Json::Number(_)
            | Json::Object(_) => Line::Other,
        },
        ("queue-operation", _, content) => match content {
            Json::Text(content) if wire.operation.is_text("enqueue") => {
                Line::Queued { is_command: typed::is_ours(&content) }
            }
            Json::Text(_)
            | Json::Null
            | Json::Flag(_)
            | Json::Number(_)
            | Json::List(_)
            | Json::Object(_) => Line::Unqueued,
        },
        ("system", _, Json::Text(content))
            if wire.subtype.is_text("informational") && content.contains(OVERRIDDEN) =>
        {
            Line::Overridden
        }
        _ => Line::Other,
    }
}

/// The context window of a model, as the client reports it. A window that was configured smaller is not recorded.
fn window(model: &str) -> Option<u64> {
    let is_large = ["opus-5", "sonnet-5", "[1m]"].iter().any(|part| model.contains(part));
    match model {
        _ if !model.starts_with("claude-") => None,
        _ if is_large => Some(1_000_000),
        _ => Some(200_000),
    }
}

#[derive(Deserialize)]
struct Notice<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    subtype: Json<'a>,
    #[serde(borrow, default)]
    operation: Json<'a>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Option<bool>,
    #[serde(rename = "isMeta")]
    is_meta: Option<bool>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow, default)]
    content: Json<'a>,
}

fn assistant(message: Message<'_>) -> Assistant {
    let (text, todos, tool_calls) = match message.content {
        Json::Text(text) => (Some(text.into_owned()), None, 0),
        Json::List(blocks) => (blocks.text, blocks.todos, blocks.tool_calls),
        Json::Null | Json::Flag(_) | Json::Number(_) | Json::Object(_) => (None, None, 0),
    };
    let is_synthetic = message.model.is_text("<synthetic>");
    Assistant {
        context_window: match &message.model {
            Json::Text(model) => window(model),
            Json::Null | Json::Flag(_) | Json::Number(_) | Json::List(_) | Json::Object(_) => None,
        },
        context_tokens: message
            .usage
            .filter(|_| !is_synthetic)
            .and_then(|usage| usage.context_tokens()),
        checklist: todos.or_else(|| checklist::from_markdown(text.as_deref()?)),
        text,
        api_error: false,
        tool_calls,
    }
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Option<bool>,
    #[serde(rename = "isApiErrorMessage")]
    is_api_error_message: Option<bool>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(rename = "totalCostUSD")]
    total_cost_usd: Option<f64>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    model: Json<'a>,
    usage: Option<Usage>,
    #[serde(borrow, default)]
    content: Json<'a, IgnoredAny, Blocks>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_creation: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Json<'a>,
    #[serde(borrow, default)]
    text: Json<'a>,
    #[serde(borrow, default)]
    name: Json<'a>,
    #[serde(borrow, default)]
    input: Json<'a, Input<'a>>,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, default)]
    todos: Json<'a, IgnoredAny, Todos<'a>>,
}

#[derive(Deserialize)]
struct Todo<'a> {
    #[serde(borrow, default)]
    content: Json<'a>,
    #[serde(borrow, default)]
    status: Json<'a>,
}

impl Usage {
    fn context_tokens(&self) -> Option<u64> {
        let others = [self.cache_read, self.cache_creation, self.output];
        Some(others.into_iter().flatten().fold(self.input?, u64::saturating_add))
    }
}

#[derive(Default)]
struct Blocks {
    text: Option<String>,
    todos: Option<Checklist>,
    tool_calls: u32,
}

impl<'de> Deserialize<'de> for Blocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BlocksVisitor)
    }
}

struct BlocksVisitor;

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = Blocks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("content blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Blocks, A::Error> {
        let mut blocks = Blocks::default();
        while let Some(block) = list.next_element::<Json<'de, Block<'de>>>()? {
            if let Json::Object(block) = block {
                blocks.add(block);
            }
        }
        Ok(blocks)
    }
}

impl Blocks {
    fn add(&mut self, block: Block<'_>) {
        self.tool_calls += u32::from(block.kind.is_text("tool_use"));
        if block.kind.is_text("text")
            && let Json::Text(text) = block.text
        {
            match &mut self.text {
                Some(before) => {
                    before.push('\n');
                    before.push_str(&text);
                }
                None => self.text = Some(text.into_owned()),
            }
        } else if block.kind.is_text("tool_use")
            && block.name.is_text("TodoWrite")
            && let Json::Object(input) = block.input
            && let Json::List(todos) = input.todos
        {
            let todos = todos.0.iter().map(|(content, status)| (&**content, &**status));
            self.todos = Some(checklist::from_todos(todos));
        }
    }
}

/// Pairs of content and status.
struct Todos<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Todos<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TodosVisitor)
    }
}

struct TodosVisitor;

impl<'de> Visitor<'de> for TodosVisitor {
    type Value = Todos<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("todos")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Todos<'de>, A::Error> {
        let mut todos = Vec::new();
        while let Some(todo) = list.next_element::<Json<'de, Todo<'de>>>()? {
            if let Json::Object(todo) = todo
                && let Json::Text(content) = todo.content
            {
                let status =
                    if let Json::Text(status) = todo.status { status } else { Cow::default() };
                todos.push((content, status));
            }
        }
        Ok(Todos(todos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn listed(checklist: &Checklist) -> String {
        let items = checklist.items.iter();
        let items: Vec<_> = items
            .map(|item| format!("{}{}", if item.done { '+' } else { '-' }, item.text))
            .collect();
        format!("[{}]", items.join(" "))
    }

    fn shown(line: &str) -> String {
        match observe(line.as_bytes()) {
            Line::Assistant(assistant) => {
                let parts = [
                    Some("assistant".into()),
                    assistant.api_error.then(|| "api error".into()),
                    assistant.context_tokens.map(|tokens| format!("{tokens} tokens")),
                    assistant.text.map(|text| format!("{text:?}")),
                    assistant.checklist.as_ref().map(listed),
                ];
                parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
            Line::Cost { usd } => format!("${usd}"),
            Line::Interrupted => "interrupted".into(),
            Line::Held => "held".into(),
            Line::Overridden => "overridden".into(),
            Line::Queued { is_command: true } => "queued, a command".into(),
            Line::Queued { is_command: false } => "queued".into(),
            Line::Unqueued => "unqueued".into(),
            Line::Other => "other".into(),
        }
    }

    #[test]
    fn assistant_text_is_taken_from_text_blocks() {
        for (message, expected) in [
            ("{}", "assistant"),
            (r#"{"content":null}"#, "assistant"),
            (r#"{"content":{}}"#, "assistant"),
            (r#"{"content":[]}"#, "assistant"),
            (r#"{"content":"hi"}"#, r#"assistant, "hi""#),
            (r#"{"content":[{"type":"text","text":"hi"}]}"#, r#"assistant, "hi""#),
            (
                r#"{"content":[{"text":"a","type":"text"},7,{"type":"text","text":"\u00e4"}]}"#,
                r#"assistant, "a\nä""#,
            ),
            (
                r#"{"content":[{"type":"thinking","text":"x"},{"type":"text","text":7}]}"#,
                "assistant",
            ),
            (
                r#"{"content":[{"type":"tool_use","name":"Bash","input":{"todos":[]}}]}"#,
                "assistant",
            ),
        ] {
            let compact = format!(r#"{{"type":"assistant","message":{message}}}"#);
            let spaced =
                format!(r#"{{"isSidechain": false, "message": {message}, "type": "assistant"}}"#);
            let failed =
                format!(r#"{{"isApiErrorMessage":true,"type":"assistant","message":{message}}}"#);
            assert_eq!(shown(&compact), expected, "{message}");
            assert_eq!(shown(&spaced), expected, "{message}");
            assert_eq!(
                shown(&failed),
                expected.replacen("assistant", "assistant, api error", 1),
                "{message}"
            );
        }
    }

    #[test]
    fn host_notices_are_distinguished_from_quotations() {
        let interrupt = |text: &str, rest: &str| {
            let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
            format!(r#"{{"type":"user"{rest},"message":{{"role":"user","content":{content}}}}}"#)
        };
        let capped = |kind: &str, subtype: &str| {
            format!(
                r#"{{"type":"{kind}","subtype":"{subtype}","content":"A hook blocked the turn from ending 9 consecutive times — overriding and ending turn. For Stop"}}"#
            )
        };
        for (line, expected) in [
            (interrupt("[Request interrupted by user]", ""), "interrupted"),
            (interrupt("[Request interrupted by user for tool use]", ""), "interrupted"),
            (interrupt("why [Request interrupted by user]", ""), "other"),
            (interrupt("[Request interrupted by user]", r#","isMeta":true"#), "other"),
            (interrupt("[Request interrupted by user]", r#","isSidechain":true"#), "other"),
            (r#"{"type":"user","message":{"content":"[Request interrupted by user]"}}"#.into(), "other"),
            (
                r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"[Request interrupted by user]"}]}}"#.into(),
                "other",
            ),
            (
                r#"{"type":"user","message":{"content":"Stop hook feedback:\n[x]: no"},"isMeta":true}"#.into(),
                "held",
            ),
            (
                r#"{"type":"user","message":{"content":"Stop hook feedback:\n[x]: no"}}"#.into(),
                "other",
            ),
            (capped("system", "informational"), "overridden"),
            (capped("system", "stop_hook_summary"), "other"),
            (capped("user", "informational"), "other"),
            (
                r#"{"type":"queue-operation","operation":"enqueue","content":"/ralph:cancel"}"#.into(),
                "queued, a command",
            ),
            (
                r#"{"type":"queue-operation","operation":"enqueue","content":"use tabs"}"#.into(),
                "queued",
            ),
            (r#"{"type":"queue-operation","operation":"dequeue"}"#.into(), "unqueued"),
            (r#"{"type":"queue-operation","operation":"remove","content":"x"}"#.into(), "unqueued"),
        ] {
            assert_eq!(shown(&line), expected, "{line}");
        }
    }

    #[test]
    fn context_tokens_include_input_cache_and_output() {
        for (message, expected) in [
            (r#"{"usage":null}"#, "assistant"),
            (r#"{"usage":{}}"#, "assistant"),
            (r#"{"usage":{"input_tokens":null,"output_tokens":5}}"#, "assistant"),
            (
                r#"{"usage":{"input_tokens":7,"cache_read_input_tokens":null}}"#,
                "assistant, 7 tokens",
            ),
            (
                r#"{"usage":{"input_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":300,
                    "output_tokens":4000,"cache_creation":{"ephemeral_1h_input_tokens":9}}}"#,
                "assistant, 4321 tokens",
            ),
            (
                r#"{"usage":{"input_tokens":18446744073709551615,"output_tokens":5}}"#,
                "assistant, 18446744073709551615 tokens",
            ),
            (r#"{"model":"<synthetic>","usage":{"input_tokens":0}}"#, "assistant"),
            (r#"{"usage":{"input_tokens":-1}}"#, "other"),
            (r#"{"usage":{"input_tokens":1.5}}"#, "other"),
            (r#"{"usage":{"input_tokens":"many"}}"#, "other"),
            (r#"{"usage":7}"#, "other"),
        ] {
            let line = format!(r#"{{"type":"assistant","message":{message}}}"#);
            assert_eq!(shown(&line), expected, "{message}");
        }
    }

    #[test]
    fn checklists_come_from_text_and_from_the_todo_tool() {
        for (content, expected) in [
            (r#""- [x] a\n- [ ] b""#, r#"assistant, "- [x] a\n- [ ] b", [+a -b]"#),
            (
                r#"[{"type":"tool_use","name":"TodoWrite","input":{"todos":[
                    {"content":"a","status":"completed","activeForm":"doing a"},{"content":"b","status":"pending"}]}}]"#,
                "assistant, [+a -b]",
            ),
            (
                r#"[{"type":"tool_use","input":{"todos":[{"status":"pending"},"c",{"content":"b","status":7}]},
                    "name":"TodoWrite"}]"#,
                "assistant, [-b]",
            ),
            (r#"[{"type":"tool_use","name":"TodoWrite","input":{"todos":[]}}]"#, "assistant, []"),
            (r#"[{"type":"tool_use","name":"TodoWrite","input":{"todos":"a"}}]"#, "assistant"),
            (r#"[{"type":"tool_use","name":"TodoWrite","input":[]}]"#, "assistant"),
            (r#"[{"type":"tool_use","name":"TodoWrite"}]"#, "assistant"),
        ] {
            let line = format!(r#"{{"type":"assistant","message":{{"content":{content}}}}}"#);
            assert_eq!(shown(&line), expected, "{content}");
        }
    }

    #[test]
    fn the_session_cost_is_parsed() {
        for (line, expected) in [
            (r#"{"type":"cost-state","totalCostUSD":0}"#, "$0"),
            (r#"{"type": "cost-state", "totalCostUSD": 1.25, "modelUsage": {}}"#, "$1.25"),
            (r#"{"type":"cost-state"}"#, "other"),
            (r#"{"type":"cost-state","totalCostUSD":-0.5}"#, "other"),
            (r#"{"type":"cost-state","totalCostUSD":"1"}"#, "other"),
            (r#"{"type":"cost-state","totalCostUSD":NaN}"#, "other"),
            (r#"{"type":"cost-state","totalCostUSD":1e999}"#, "other"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }

    #[test]
    fn irrelevant_and_malformed_lines_are_other() {
        let long = format!(r#"{{"type":"user","message":"{}"}}"#, "x".repeat(10_000_000));
        let deep =
            format!(r#"{{"type":"assistant","message":{}"#, r#"{"content":["#.repeat(100_000));
        for line in [
            "",
            "\n",
            "null",
            "[]",
            r#""assistant""#,
            r#"["assistant"]"#,
            r#"{"type":"user","message":{"role":"assistant","content":"hi"}}"#,
            r#"{"type":"user","message":{"content":"{\"type\":\"assistant\"}"}}"#,
            r#"{"type":"assistant"}"#,
            r#"{"type":"assistant","message":null}"#,
            r#"{"type":"assistant","message":"hi"}"#,
            r#"{"type":"assistant","isSidechain":true,"message":{"content":"hi"}}"#,
            r#"{"type":"assistant","isSidechain":"no","message":{"content":"hi"}}"#,
            r#"{"type":"assistant","type":"assistant","message":{"content":"hi"}}"#,
            r#"{"type":"assistant","message":{"content":"cut off"#,
            &long,
            &deep,
        ] {
            assert_eq!(observe(line.as_bytes()), Line::Other, "{:?}", &line[..line.len().min(120)]);
        }
        assert_eq!(
            observe(b"{\"type\":\"assistant\",\"message\":{\"content\":\"\xff\"}}"),
            Line::Other
        );
    }

    #[test]
    fn later_lines_override_earlier_ones() {
        let assistant_line = |text: &str, items: Option<&[(&str, &str)]>| {
            Line::Assistant(Assistant {
                text: Some(text.into()),
                checklist: items.map(|items| checklist::from_todos(items.iter().copied())),
                ..Assistant::default()
            })
        };
        let mut observed = Observed::default();
        for (line, expected) in [
            (assistant_line("a", Some(&[("a", "pending")])), "[-a]"),
            (assistant_line("b", None), "[-a]"),
            (assistant_line("c", Some(&[("b", "completed")])), "[+b]"),
            (Line::Cost { usd: 0.5 }, "[+b]"),
            (Line::Other, "[+b]"),
            (assistant_line("d", Some(&[])), "none"),
            (assistant_line("e", Some(&[("c", "pending")])), "[-c]"),
            (Line::Cost { usd: 1.5 }, "[-c]"),
            (assistant_line("f", None), "[-c]"),
        ] {
            observed.add(line.clone());
            let found = observed.checklist.as_ref().map_or("none".into(), listed);
            assert_eq!(found, expected, "{line:?}");
        }
        assert_eq!(observed.cost_usd, Some(1.5));
        assert_eq!(observed.last_assistant.unwrap().text.as_deref(), Some("f"));
    }

    #[test]
    fn a_line_without_usage_keeps_the_earlier_context_size() {
        let mut observed = Observed::default();
        for context_tokens in [Some(7), Some(9), None] {
            observed.add(Line::Assistant(Assistant { context_tokens, ..Assistant::default() }));
        }
        assert_eq!(observed.context_tokens, Some(9));
    }

    #[test]
    fn recorded_sessions_yield_the_expected_facts() {
        macro_rules! recorded {
            ($name:literal) => {
                include_bytes!(concat!(
                    "../../../../fixtures/hosts/claude-code/2.1.325/transcripts/",
                    $name,
                    ".jsonl"
                ))
                .as_slice()
            };
        }
        for (recording, expected) in [
            (recorded!("stop-cap"), ("0.0072", "answer 9", "none")),
            (recorded!("task-tools"), ("0.0056", "leaving with B open", "none")),
            (recorded!("todowrite"), ("0.0024", "leaving", "[+a -b]")),
            (recorded!("tool-and-stop"), ("0.0016", "All finished.", "none")),
        ] {
            let mut observed = Observed::default();
            for line in recording.split(|byte| *byte == b'\n') {
                observed.add(observe(line));
            }
            let last = observed.last_assistant.unwrap();
            let cost = format!("{:.4}", observed.cost_usd.unwrap());
            let checklist = observed.checklist.as_ref().map_or("none".into(), listed);
            assert_eq!((&*cost, last.text.as_deref().unwrap(), &*checklist), expected);
            assert_eq!((observed.context_tokens, last.api_error), (Some(120), false));
        }
    }
}
