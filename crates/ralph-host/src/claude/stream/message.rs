//! Parsers for messages of the agent and for tool results.

use super::json_fields::{self, JsonFields};
use super::{tool_gist, turn_outcome};
use crate::stream::{
    AssistantBlock, AssistantToolCall, StreamAssistant, StreamToolResult, TokenUsage,
};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ralph_core::text;

const LONGEST_TEXT: usize = 20_000;
const LONGEST_RESULT: usize = 4000;
const LONGEST_NAME: usize = 120;
/// The client usually writes one block per line.
const MOST_BLOCKS: usize = 100;
const SYNTHETIC: &str = "<synthetic>";

pub(super) fn parse_assistant(line: &JsonFields<'_>) -> Option<StreamAssistant> {
    let message = line.object("message")?;
    let model = message.line("model", LONGEST_NAME);
    let is_synthetic = model.as_deref() == Some(SYNTHETIC);
    let is_error = line.flag("is_api_error_message") == Some(true)
        || line.flag("isApiErrorMessage") == Some(true);
    let error = line.line("error", LONGEST_NAME);
    Some(StreamAssistant {
        parent: line.id("parent_tool_use_id"),
        message: message.id("id"),
        model: model.filter(|_| !is_synthetic),
        blocks: parse_blocks(&message),
        usage: message.object("usage").as_ref().map(parse_usage).filter(|_| !is_synthetic),
        error: error
            .filter(|_| is_error || is_synthetic)
            .and_then(|word| turn_outcome::error_by_name(&word)),
    })
}

pub(super) fn parse_usage(fields: &JsonFields<'_>) -> TokenUsage {
    let count = |key| fields.count(key).unwrap_or_default();
    TokenUsage {
        input: count("input_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_creation: count("cache_creation_input_tokens"),
        output: count("output_tokens"),
    }
}

fn parse_blocks(message: &JsonFields<'_>) -> Vec<AssistantBlock> {
    if let Some(text) = message.text("content", LONGEST_TEXT) {
        return vec![AssistantBlock::Text(text)];
    }
    message.objects("content").iter().filter_map(parse_block).take(MOST_BLOCKS).collect()
}

fn parse_block(fields: &JsonFields<'_>) -> Option<AssistantBlock> {
    match &*fields.string("type")? {
        "text" => fields.text("text", LONGEST_TEXT).map(AssistantBlock::Text),
        "tool_use" => {
            let name = fields.line("name", LONGEST_NAME)?;
            let gist = tool_gist::parse_gist(&name, fields.raw("input").unwrap_or_default());
            Some(AssistantBlock::Call(AssistantToolCall { id: fields.id("id"), name, gist }))
        }
        _ => None,
    }
}

/// Empty for messages of a person or of the client.
pub(super) fn parse_tool_results(line: &JsonFields<'_>) -> Vec<StreamToolResult> {
    let blocks = line.object("message").map(|message| message.objects("content"));
    let blocks = blocks.unwrap_or_default();
    let results = blocks.iter().filter(|block| block.is("type", "tool_result"));
    let result = |block: &JsonFields<'_>| StreamToolResult {
        call: block.id("tool_use_id"),
        is_error: block.flag("is_error") == Some(true),
        text: result_text(block),
    };
    results.map(result).take(MOST_BLOCKS).collect()
}

fn result_text(block: &JsonFields<'_>) -> String {
    if let Some(text) = block.string("content") {
        return json_fields::clean_text(&text, LONGEST_RESULT);
    }
    let parts = block.objects("content");
    let texts: Vec<_> =
        parts.iter().filter_map(|part| part.text("text", LONGEST_RESULT)).take(20).collect();
    text::truncate(&texts.join("\n"), LONGEST_RESULT)
}
