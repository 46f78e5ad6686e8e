//! The token usage in Claude Code's transcripts. The client writes its own figure, `cost-state`, only when it exits, so
//! the usage of each call is all there is while a session is open.

use crate::transcript_usage::{CallLine, TranscriptUsage};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use memchr::memmem;
use ralph_core::model_price::CallUsage;
use ralph_core::source::lenient_json::LenientJson;
use serde::Deserialize;

/// Upper bound for the tokens of one kind in one call, whatever the line says.
const MOST_TOKENS: u64 = 1 << 40;
const LONGEST_NAME: usize = 200;

/// Parses the lines of the main thread and of subagents alike. `None` for a line without usage.
pub(super) fn parse_usage_line(line: &[u8]) -> Option<TranscriptUsage> {
    // Quotes inside a JSON string are escaped, so these bytes occur only as a whole string.
    if memmem::find(line, b"\"assistant\"").is_some() {
        let wire: CallLineWire<'_> = serde_json::from_slice(line).ok()?;
        parse_call(wire).map(TranscriptUsage::Call)
    } else if memmem::find(line, b"\"compact_boundary\"").is_some() {
        let wire: CompactionWire<'_> = serde_json::from_slice(line).ok()?;
        let is_boundary = wire.kind == "system" && wire.subtype == "compact_boundary";
        let metadata = wire.metadata.filter(|_| is_boundary)?;
        Some(TranscriptUsage::Compaction {
            timestamp: wire.timestamp.map(Cow::into_owned),
            read_tokens: metadata.before.unwrap_or(0).min(MOST_TOKENS),
            written_tokens: metadata.after.unwrap_or(0).min(MOST_TOKENS),
        })
    } else {
        None
    }
}

fn parse_call(wire: CallLineWire<'_>) -> Option<CallLine> {
    let message = wire.message.filter(|_| wire.kind == "assistant")?;
    let LenientJson::Text(model) = message.model else { return None };
    let (id, usage) = (message.id?, message.usage?);
    // The client writes its own error messages as answers of this model.
    if model == "<synthetic>" || model.len() > LONGEST_NAME || id.len() > LONGEST_NAME {
        return None;
    }
    Some(CallLine {
        id: id.into_owned(),
        timestamp: wire.timestamp.map(Cow::into_owned),
        usage: usage.to_call_usage(model.to_string()),
    })
}

#[derive(Deserialize)]
struct CallLineWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Option<CallMessageWire<'a>>,
}

#[derive(Deserialize)]
struct CallMessageWire<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    model: LenientJson<'a>,
    #[serde(borrow)]
    usage: Option<CallUsageWire<'a>>,
}

#[derive(Deserialize)]
struct CallUsageWire<'a> {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
    cache_creation: Option<CacheWriteWire>,
    #[serde(rename = "server_tool_use")]
    server_tools: Option<ServerToolsWire>,
    #[serde(borrow, default)]
    speed: LenientJson<'a>,
    #[serde(borrow, default, rename = "inference_geo")]
    region: LenientJson<'a>,
}

#[derive(Deserialize)]
struct CacheWriteWire {
    #[serde(rename = "ephemeral_1h_input_tokens")]
    one_hour: Option<u64>,
}

#[derive(Deserialize)]
struct ServerToolsWire {
    web_search_requests: Option<u64>,
}

#[derive(Deserialize)]
struct CompactionWire<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    subtype: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(rename = "compactMetadata")]
    metadata: Option<CompactMetadataWire>,
}

#[derive(Deserialize)]
struct CompactMetadataWire {
    #[serde(rename = "preTokens")]
    before: Option<u64>,
    #[serde(rename = "postTokens")]
    after: Option<u64>,
}

impl CallUsageWire<'_> {
    fn to_call_usage(&self, model: String) -> CallUsage {
        let bounded = |tokens: Option<u64>| tokens.unwrap_or(0).min(MOST_TOKENS);
        // As the client counts: what is not written for an hour is written for five minutes.
        let written = bounded(self.cache_write);
        let one_hour = self.cache_creation.as_ref().and_then(|written| written.one_hour);
        let one_hour = one_hour.unwrap_or(0).min(written);
        let searches = self.server_tools.as_ref().and_then(|tools| tools.web_search_requests);
        CallUsage {
            model,
            input: bounded(self.input),
            output: bounded(self.output),
            cache_read: bounded(self.cache_read),
            cache_write_5m: written - one_hour,
            cache_write_1h: one_hour,
            web_searches: bounded(searches),
            is_fast: self.speed.is_text("fast"),
            is_regional: self.region.is_text("us"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

    fn show_usage(line: &str) -> String {
        match parse_usage_line(line.as_bytes()) {
            Some(TranscriptUsage::Call(CallLine { id, timestamp, usage })) => {
                let parts = [
                    ("in", usage.input),
                    ("out", usage.output),
                    ("read", usage.cache_read),
                    ("5m", usage.cache_write_5m),
                    ("1h", usage.cache_write_1h),
                    ("searches", usage.web_searches),
                    ("fast", usage.is_fast.into()),
                    ("regional", usage.is_regional.into()),
                ];
                let parts = parts.into_iter().filter(|(_, count)| *count > 0);
                let parts: Vec<_> = parts.map(|(name, count)| format!("{name} {count}")).collect();
                let at = timestamp.unwrap_or_default();
                format!("{id} {} {at} {}", usage.model, parts.join(" "))
            }
            Some(TranscriptUsage::Compaction { timestamp, read_tokens, written_tokens }) => {
                let at = timestamp.unwrap_or_default();
                format!("compaction {at} {read_tokens} {written_tokens}")
            }
            None => "none".to_string(),
        }
    }

    #[test]
    fn usage_is_taken_from_answers_of_a_model() {
        let line = |message: &str| {
            format!(
                r#"{{"type":"assistant","isSidechain":true,"timestamp":"T","message":{message}}}"#
            )
        };
        for (message, expected) in [
            (
                r#"{"id":"m","model":"x","usage":{"input_tokens":1,"output_tokens":2}}"#,
                "m x T in 1 out 2",
            ),
            (
                r#"{"id":"m","model":"x","usage":{"input_tokens":1,"cache_creation_input_tokens":10,"cache_read_input_tokens":7,
                    "cache_creation":{"ephemeral_1h_input_tokens":4,"ephemeral_5m_input_tokens":6},
                    "server_tool_use":{"web_search_requests":3},"speed":"fast","inference_geo":"us"}}"#,
                "m x T in 1 read 7 5m 6 1h 4 searches 3 fast 1 regional 1",
            ),
            (
                r#"{"id":"m","model":"x","usage":{"cache_creation_input_tokens":3,"cache_creation":{"ephemeral_1h_input_tokens":9},
                    "speed":7,"inference_geo":null}}"#,
                "m x T 1h 3",
            ),
            (
                r#"{"id":"m","model":"x","usage":{"input_tokens":18446744073709551615}}"#,
                "m x T in 1099511627776",
            ),
            (r#"{"id":"m","model":"<synthetic>","usage":{"input_tokens":0}}"#, "none"),
            (r#"{"model":"x","usage":{"input_tokens":1}}"#, "none"),
            (r#"{"id":"m","usage":{"input_tokens":1}}"#, "none"),
            (r#"{"id":"m","model":"x"}"#, "none"),
            (r#"{"id":"m","model":"x","usage":{"input_tokens":-1}}"#, "none"),
            (r#"{"id":"m","model":"x","usage":7}"#, "none"),
            ("null", "none"),
        ] {
            assert_eq!(show_usage(&line(message)), expected, "{message}");
        }
        let long = "m".repeat(201);
        for (id, model) in [(&*long, "x"), ("m", &*long)] {
            let message =
                format!(r#"{{"id":"{id}","model":"{model}","usage":{{"input_tokens":1}}}}"#);
            assert_eq!(show_usage(&line(&message)), "none");
        }
        for other in [
            "",
            r#"{"type":"user","message":{"role":"assistant","id":"m","model":"x","usage":{"input_tokens":1}}}"#,
            r#"{"type":"system","subtype":"compact_boundary"}"#,
            r#"{"type":"user","subtype":"compact_boundary","compactMetadata":{"preTokens":9}}"#,
            r#"{"type":"assistant","message":{"usage"#,
        ] {
            assert_eq!(show_usage(other), "none", "{other}");
        }
    }

    /// The lines as the client writes them: one per content block, each with the usage of the whole call, and none for
    /// the call that compacts the conversation.
    #[test]
    fn recorded_sessions_have_the_usage_of_every_call() {
        let all = [
            include_str!("../../../../fixtures/captures/transcripts/auto-compaction.jsonl"),
            include_str!(
                "../../../../fixtures/captures/transcripts/subagent-foreground-blocked.jsonl"
            ),
            include_str!(
                "../../../../fixtures/captures/transcripts/subagent-foreground-blocked.subagent.jsonl"
            ),
        ];
        let shown = all.map(|recording| {
            let lines = recording.lines().map(show_usage).filter(|shown| shown != "none");
            lines.collect::<Vec<_>>().join("\n")
        });
        insta::assert_snapshot!(shown.join("\n\n"), @"
        msg_fake_000001 claude-opus-5-5 2026-11-15T07:10:56.767Z in 10 out 50 read 30000
        msg_fake_000001 claude-opus-5-5 2026-11-15T07:10:56.791Z in 10 out 50 read 30000
        msg_fake_000002 claude-opus-5-5 2026-11-15T07:10:56.982Z in 10 out 50 read 40000
        msg_fake_000003 claude-opus-5-5 2026-11-15T07:10:57.125Z in 10 out 50 read 90000
        compaction 2026-11-15T07:10:57.829Z 90081 2644
        msg_fake_000005 claude-opus-5-5 2026-11-15T07:10:57.894Z in 10 out 50 read 20000
        msg_fake_000006 claude-opus-5-5 2026-11-15T07:10:58.083Z in 10 out 50 read 20000

        msg_fake_000001 claude-opus-5-5 2026-11-15T07:07:50.723Z in 100 out 20
        msg_fake_000001 claude-opus-5-5 2026-11-15T07:07:50.726Z in 100 out 20
        msg_fake_000006 claude-opus-5-5 2026-11-15T07:07:51.840Z in 100 out 20

        msg_fake_000002 claude-opus-5-5 2026-11-15T07:07:51.014Z in 100 out 20
        msg_fake_000002 claude-opus-5-5 2026-11-15T07:07:51.015Z in 100 out 20
        msg_fake_000003 claude-opus-5-5 2026-11-15T07:07:51.251Z in 100 out 20
        msg_fake_000004 claude-opus-5-5 2026-11-15T07:07:51.350Z in 100 out 20
        msg_fake_000005 claude-opus-5-5 2026-11-15T07:07:51.421Z in 100 out 20
        ");
    }
}
