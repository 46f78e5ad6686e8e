//! Claude Code's transcript: one JSON object per line. Extracts the few facts that ralph needs and skips the rest
//! without parsing it.

use super::tools;
use crate::transcript_summary::{TranscriptAssistant, TranscriptLine};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use memchr::memmem;
use ralph_core::slash_command;
use ralph_core::source::checklist::{self, Checklist};
use ralph_core::source::lenient_json::LenientJson;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

pub(super) fn parse_transcript_line(line: &[u8]) -> TranscriptLine {
    // Quotes inside a JSON string are escaped, so these bytes occur only as a whole string. This skips tool results of
    // several megabytes without parsing them.
    if memmem::find(line, b"\"assistant\"").is_none() {
        return parse_host_notice(line);
    }
    let Ok(wire) = serde_json::from_slice::<TranscriptWire<'_>>(line) else {
        return TranscriptLine::Other;
    };
    match (&*wire.kind, wire.message) {
        ("assistant", Some(message)) if wire.is_sidechain != Some(true) => {
            TranscriptLine::Assistant(TranscriptAssistant {
                api_error: wire.is_api_error_message == Some(true),
                ..parse_assistant(message)
            })
        }
        _ => TranscriptLine::Other,
    }
}

const INTERRUPTED: &str = "[Request interrupted by user";
const STOP_HOOK_FEEDBACK: &str = "Stop hook feedback:";
const OVERRIDDEN: &str = "consecutive times \u{2014} overriding and ending turn";

/// Recognises lines that the host itself writes. A tool result that quotes such a line does not count: there the text
/// is part of the result, not of the line.
fn parse_host_notice(line: &[u8]) -> TranscriptLine {
    let signs =
        [INTERRUPTED, STOP_HOOK_FEEDBACK, "overriding and ending turn", "\"queue-operation\""];
    let is_noted = signs.iter().any(|sign| memmem::find(line, sign.as_bytes()).is_some());
    if !is_noted {
        return TranscriptLine::Other;
    }
    let Ok(wire) = serde_json::from_slice::<HostNoticeWire<'_>>(line) else {
        return TranscriptLine::Other;
    };
    let is_text = |blocks: &ContentBlocks| {
        blocks.text.as_deref().is_some_and(|text| text.starts_with(INTERRUPTED))
    };
    match (&*wire.kind, wire.message, wire.content) {
        ("user", Some(message), _) if wire.is_sidechain != Some(true) => match message.content {
            LenientJson::List(blocks) if wire.is_meta != Some(true) && is_text(&blocks) => {
                TranscriptLine::Interrupted
            }
            LenientJson::Text(text)
                if wire.is_meta == Some(true) && text.starts_with(STOP_HOOK_FEEDBACK) =>
            {
                TranscriptLine::StopBlocked
            }
            LenientJson::List(_)
            | LenientJson::Text(_)
            | LenientJson::Null
            | LenientJson::Flag(_)
            | LenientJson::Number(_)
            | LenientJson::Object(_) => TranscriptLine::Other,
        },
        ("queue-operation", _, content) => match content {
            LenientJson::Text(content) if wire.operation.is_text("enqueue") => {
                TranscriptLine::Queued { is_command: slash_command::is_ralph_command(&content) }
            }
            LenientJson::Text(_)
            | LenientJson::Null
            | LenientJson::Flag(_)
            | LenientJson::Number(_)
            | LenientJson::List(_)
            | LenientJson::Object(_) => TranscriptLine::Dequeued,
        },
        ("system", _, LenientJson::Text(content))
            if wire.subtype.is_text("informational") && content.contains(OVERRIDDEN) =>
        {
            TranscriptLine::Overridden
        }
        _ => TranscriptLine::Other,
    }
}

/// The context window of a model, as the client reports it. A window that was configured smaller is not recorded.
fn context_window_of(model: &str) -> Option<u64> {
    let is_large = ["opus-5", "sonnet-5", "[1m]"].iter().any(|part| model.contains(part));
    match model {
        _ if !model.starts_with("claude-") => None,
        _ if is_large => Some(1_000_000),
        _ => Some(200_000),
    }
}

#[derive(Deserialize)]
struct HostNoticeWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    subtype: LenientJson<'a>,
    #[serde(borrow, default)]
    operation: LenientJson<'a>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Option<bool>,
    #[serde(rename = "isMeta")]
    is_meta: Option<bool>,
    #[serde(borrow)]
    message: Option<TranscriptMessageWire<'a>>,
    #[serde(borrow, default)]
    content: LenientJson<'a>,
}

fn parse_assistant(message: TranscriptMessageWire<'_>) -> TranscriptAssistant {
    let blocks = match message.content {
        LenientJson::Text(text) => {
            ContentBlocks { text: Some(text.into_owned()), ..ContentBlocks::default() }
        }
        LenientJson::List(blocks) => blocks,
        LenientJson::Null
        | LenientJson::Flag(_)
        | LenientJson::Number(_)
        | LenientJson::Object(_) => ContentBlocks::default(),
    };
    let ContentBlocks { text, todos, tool_calls, writing_calls } = blocks;
    let is_synthetic = message.model.is_text("<synthetic>");
    TranscriptAssistant {
        context_window: match &message.model {
            LenientJson::Text(model) => context_window_of(model),
            LenientJson::Null
            | LenientJson::Flag(_)
            | LenientJson::Number(_)
            | LenientJson::List(_)
            | LenientJson::Object(_) => None,
        },
        context_tokens: message
            .usage
            .filter(|_| !is_synthetic)
            .and_then(|usage| usage.context_tokens()),
        checklist: todos.or_else(|| checklist::from_markdown(text.as_deref()?)),
        text,
        api_error: false,
        tool_calls,
        writing_calls,
    }
}

#[derive(Deserialize)]
struct TranscriptWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(rename = "isSidechain")]
    is_sidechain: Option<bool>,
    #[serde(rename = "isApiErrorMessage")]
    is_api_error_message: Option<bool>,
    #[serde(borrow)]
    message: Option<TranscriptMessageWire<'a>>,
}

#[derive(Deserialize)]
struct TranscriptMessageWire<'a> {
    #[serde(borrow, default)]
    model: LenientJson<'a>,
    usage: Option<TranscriptUsageWire>,
    #[serde(borrow, default)]
    content: LenientJson<'a, IgnoredAny, ContentBlocks>,
}

#[derive(Deserialize)]
struct TranscriptUsageWire {
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
struct ContentBlockWire<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: LenientJson<'a>,
    #[serde(borrow, default)]
    text: LenientJson<'a>,
    #[serde(borrow, default)]
    name: LenientJson<'a>,
    #[serde(borrow, default)]
    input: LenientJson<'a, TodoInputWire<'a>>,
}

#[derive(Deserialize)]
struct TodoInputWire<'a> {
    #[serde(borrow, default)]
    todos: LenientJson<'a, IgnoredAny, TodoPairs<'a>>,
}

#[derive(Deserialize)]
struct TodoWire<'a> {
    #[serde(borrow, default)]
    content: LenientJson<'a>,
    #[serde(borrow, default)]
    status: LenientJson<'a>,
}

impl TranscriptUsageWire {
    fn context_tokens(&self) -> Option<u64> {
        let others = [self.cache_read, self.cache_creation, self.output];
        Some(others.into_iter().flatten().fold(self.input?, u64::saturating_add))
    }
}

#[derive(Default)]
struct ContentBlocks {
    text: Option<String>,
    todos: Option<Checklist>,
    tool_calls: u32,
    writing_calls: u32,
}

impl<'de> Deserialize<'de> for ContentBlocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ContentBlocksVisitor)
    }
}

struct ContentBlocksVisitor;

impl<'de> Visitor<'de> for ContentBlocksVisitor {
    type Value = ContentBlocks;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("content blocks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ContentBlocks, A::Error> {
        let mut blocks = ContentBlocks::default();
        while let Some(block) = list.next_element::<LenientJson<'de, ContentBlockWire<'de>>>()? {
            if let LenientJson::Object(block) = block {
                blocks.add(block);
            }
        }
        Ok(blocks)
    }
}

impl ContentBlocks {
    fn add(&mut self, block: ContentBlockWire<'_>) {
        if block.kind.is_text("tool_use") {
            self.tool_calls += 1;
            let is_reading = tools::READING_TOOLS.iter().any(|tool| block.name.is_text(tool));
            self.writing_calls += u32::from(!is_reading);
        }
        if block.kind.is_text("text")
            && let LenientJson::Text(text) = block.text
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
            && let LenientJson::Object(input) = block.input
            && let LenientJson::List(todos) = input.todos
        {
            let todos = todos.0.iter().map(|(content, status)| (&**content, &**status));
            self.todos = Some(checklist::from_todos(todos));
        }
    }
}

/// Pairs of content and status.
struct TodoPairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for TodoPairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(TodoPairsVisitor)
    }
}

struct TodoPairsVisitor;

impl<'de> Visitor<'de> for TodoPairsVisitor {
    type Value = TodoPairs<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("todos")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TodoPairs<'de>, A::Error> {
        let mut todos = Vec::new();
        while let Some(todo) = list.next_element::<LenientJson<'de, TodoWire<'de>>>()? {
            if let LenientJson::Object(todo) = todo
                && let LenientJson::Text(content) = todo.content
            {
                let status = if let LenientJson::Text(status) = todo.status {
                    status
                } else {
                    Cow::default()
                };
                todos.push((content, status));
            }
        }
        Ok(TodoPairs(todos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript_summary::TranscriptSummary;
    use alloc::format;

    fn show_checklist(checklist: &Checklist) -> String {
        let items = checklist.items.iter();
        let items: Vec<_> = items
            .map(|item| format!("{}{}", if item.done { '+' } else { '-' }, item.text))
            .collect();
        format!("[{}]", items.join(" "))
    }

    fn show_line(line: &str) -> String {
        match parse_transcript_line(line.as_bytes()) {
            TranscriptLine::Assistant(assistant) => {
                let parts = [
                    Some("assistant".into()),
                    assistant.api_error.then(|| "api error".into()),
                    assistant.context_tokens.map(|tokens| format!("{tokens} tokens")),
                    assistant.text.map(|text| format!("{text:?}")),
                    assistant.checklist.as_ref().map(show_checklist),
                ];
                parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
            }
            TranscriptLine::Interrupted => "interrupted".into(),
            TranscriptLine::StopBlocked => "held".into(),
            TranscriptLine::Overridden => "overridden".into(),
            TranscriptLine::Queued { is_command: true } => "queued, a command".into(),
            TranscriptLine::Queued { is_command: false } => "queued".into(),
            TranscriptLine::Dequeued => "unqueued".into(),
            TranscriptLine::Other => "other".into(),
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
            assert_eq!(show_line(&compact), expected, "{message}");
            assert_eq!(show_line(&spaced), expected, "{message}");
            assert_eq!(
                show_line(&failed),
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
            assert_eq!(show_line(&line), expected, "{line}");
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
            assert_eq!(show_line(&line), expected, "{message}");
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
            assert_eq!(show_line(&line), expected, "{content}");
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
            r#"{"type":"cost-state","totalCostUSD":1.25}"#,
            r#"{"type":"assistant","message":null}"#,
            r#"{"type":"assistant","message":"hi"}"#,
            r#"{"type":"assistant","isSidechain":true,"message":{"content":"hi"}}"#,
            r#"{"type":"assistant","isSidechain":"no","message":{"content":"hi"}}"#,
            r#"{"type":"assistant","type":"assistant","message":{"content":"hi"}}"#,
            r#"{"type":"assistant","message":{"content":"cut off"#,
            &long,
            &deep,
        ] {
            assert_eq!(
                parse_transcript_line(line.as_bytes()),
                TranscriptLine::Other,
                "{:?}",
                &line[..line.len().min(120)]
            );
        }
        assert_eq!(
            parse_transcript_line(b"{\"type\":\"assistant\",\"message\":{\"content\":\"\xff\"}}"),
            TranscriptLine::Other
        );
    }

    #[test]
    fn later_lines_override_earlier_ones() {
        let assistant_line = |text: &str, items: Option<&[(&str, &str)]>| {
            TranscriptLine::Assistant(TranscriptAssistant {
                text: Some(text.into()),
                checklist: items.map(|items| checklist::from_todos(items.iter().copied())),
                ..TranscriptAssistant::default()
            })
        };
        let mut observed = TranscriptSummary::default();
        for (line, expected) in [
            (assistant_line("a", Some(&[("a", "pending")])), "[-a]"),
            (assistant_line("b", None), "[-a]"),
            (assistant_line("c", Some(&[("b", "completed")])), "[+b]"),
            (TranscriptLine::Other, "[+b]"),
            (assistant_line("d", Some(&[])), "none"),
            (assistant_line("e", Some(&[("c", "pending")])), "[-c]"),
            (assistant_line("f", None), "[-c]"),
        ] {
            observed.add(line.clone());
            let found = observed.checklist.as_ref().map_or("none".into(), show_checklist);
            assert_eq!(found, expected, "{line:?}");
        }
        assert_eq!(observed.last_assistant.unwrap().text.as_deref(), Some("f"));
    }

    #[test]
    fn a_line_without_usage_keeps_the_earlier_context_size() {
        let mut observed = TranscriptSummary::default();
        for context_tokens in [Some(7), Some(9), None] {
            observed.add(TranscriptLine::Assistant(TranscriptAssistant {
                context_tokens,
                ..TranscriptAssistant::default()
            }));
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
            (recorded!("stop-cap"), ("answer 9", "none")),
            (recorded!("task-tools"), ("leaving with B open", "none")),
            (recorded!("todowrite"), ("leaving", "[+a -b]")),
            (recorded!("tool-and-stop"), ("All finished.", "none")),
        ] {
            let mut observed = TranscriptSummary::default();
            for line in recording.split(|byte| *byte == b'\n') {
                observed.add(parse_transcript_line(line));
            }
            let last = observed.last_assistant.unwrap();
            let checklist = observed.checklist.as_ref().map_or("none".into(), show_checklist);
            assert_eq!((last.text.as_deref().unwrap(), &*checklist), expected);
            assert_eq!((observed.context_tokens, last.api_error), (Some(120), false));
        }
    }
}
