//! Requests and replies of the two wire formats. Replies are foreign: fields of an unexpected type are absent.

use crate::judge_call::{ModelCall, ModelReply, ReplyUsage, TokenCounts};
use ralph_core::judge::{JudgeApi, JudgeEndpoint};
use serde_json::{Value, json};

const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The headers of a request.
pub(super) fn headers(api: JudgeApi, key: Option<&str>) -> Vec<(&'static str, String)> {
    let mut headers = Vec::new();
    match api {
        JudgeApi::Anthropic => {
            headers.push(("anthropic-version", ANTHROPIC_VERSION.to_string()));
            headers.extend(key.map(|key| ("x-api-key", key.to_string())));
        }
        JudgeApi::OpenAi => {
            headers.extend(key.map(|key| ("Authorization", format!("Bearer {key}"))));
        }
    }
    headers
}

/// The body of a request.
pub(super) fn body(endpoint: &JudgeEndpoint, is_openai: bool, call: &ModelCall<'_>) -> String {
    let (model, most) = (&endpoint.model, call.max_output_tokens);
    let user = json!({"role": "user", "content": call.facts});
    let body = match endpoint.api {
        JudgeApi::Anthropic => json!({
            "model": model,
            "max_tokens": most,
            "system": call.instructions,
            "messages": [user],
        }),
        JudgeApi::OpenAi => {
            let system = json!({"role": "system", "content": call.instructions});
            let limit = if is_openai { "max_completion_tokens" } else { "max_tokens" };
            json!({"model": model, limit: most, "messages": [system, user]})
        }
    };
    body.to_string()
}

/// Parses the body of a successful response.
pub(crate) fn parse_endpoint_reply(api: JudgeApi, body: &str) -> ModelReply {
    let Ok(reply) = serde_json::from_str::<Value>(body) else {
        return ModelReply::failed("the service answered with something that is not JSON");
    };
    let model = reply.get("model").and_then(Value::as_str).map(ToString::to_string);
    let (answer, tokens) = match api {
        JudgeApi::Anthropic => (anthropic_answer(&reply), anthropic_usage(&reply)),
        JudgeApi::OpenAi => (openai_answer(&reply), openai_usage(&reply)),
    };
    ModelReply { answer, usage: ReplyUsage { tokens, ..ReplyUsage::default() }, model }
}

/// The message of an error response.
pub(super) fn error_message(body: &str) -> Option<String> {
    let reply: Value = serde_json::from_str(body).ok()?;
    let message = reply.pointer("/error/message").or_else(|| reply.get("message"))?;
    message.as_str().map(ToString::to_string)
}

fn anthropic_answer(reply: &Value) -> Result<String, String> {
    match reply.get("stop_reason").and_then(Value::as_str) {
        Some("refusal") => return Err("the model refused to answer".to_string()),
        Some("max_tokens") => {
            return Err("the answer was cut off at its limit of tokens".to_string());
        }
        Some(_) | None => {}
    }
    let blocks = reply.get("content").and_then(Value::as_array).map(Vec::as_slice);
    let texts = blocks.unwrap_or_default().iter().filter_map(|block| block.get("text")?.as_str());
    Ok(texts.collect())
}

fn anthropic_usage(reply: &Value) -> Option<TokenCounts> {
    let usage = reply.get("usage")?;
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or(0);
    Some(TokenCounts {
        input: count("input_tokens"),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
        output: count("output_tokens"),
    })
}

fn openai_answer(reply: &Value) -> Result<String, String> {
    let refused = || "the model refused to answer".to_string();
    match reply.pointer("/choices/0/finish_reason").and_then(Value::as_str) {
        Some("length") => return Err("the answer was cut off at its limit of tokens".to_string()),
        Some("content_filter") => return Err(refused()),
        Some(_) | None => {}
    }
    let message = reply.pointer("/choices/0/message");
    let text = |key: &str| message.and_then(|message| message.get(key)).and_then(Value::as_str);
    match (text("content"), text("refusal")) {
        (Some(content), _) if !content.is_empty() => Ok(content.to_string()),
        (_, Some(refusal)) if !refusal.is_empty() => Err(refused()),
        (_, _) => Ok(String::new()),
    }
}

fn openai_usage(reply: &Value) -> Option<TokenCounts> {
    let usage = reply.get("usage")?;
    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    // Cached tokens are part of the prompt's.
    let cached = count("/prompt_tokens_details/cached_tokens");
    Some(TokenCounts {
        input: count("/prompt_tokens").saturating_sub(cached),
        cache_read: cached,
        cache_write: 0,
        output: count("/completion_tokens"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(api: JudgeApi, body: &str) -> String {
        let reply = parse_endpoint_reply(api, body);
        let tokens = reply
            .usage
            .tokens
            .map(|tokens| [tokens.input, tokens.cache_read, tokens.cache_write, tokens.output]);
        format!("{:?} {tokens:?} {:?}", reply.answer, reply.model)
    }

    /// R-L7a: a refusal and a truncated answer are no answers, whatever their text.
    #[test]
    fn replies_of_both_formats_are_read() {
        let met = r#""{\"verdict\":\"met\"}""#;
        for (body, expected) in [
            (
                format!(
                    r#"{{"model":"m","stop_reason":"end_turn","content":[{{"type":"thinking","thinking":"x"}},{{"type":"text","text":{met}}}],"usage":{{"input_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":5,"output_tokens":6}}}}"#
                ),
                r#"Ok("{\"verdict\":\"met\"}") Some([3, 4, 5, 6]) Some("m")"#,
            ),
            (
                format!(
                    r#"{{"stop_reason":"refusal","content":[{{"type":"text","text":{met}}}],"usage":{{"input_tokens":3}}}}"#
                ),
                r#"Err("the model refused to answer") Some([3, 0, 0, 0]) None"#,
            ),
            (
                format!(
                    r#"{{"stop_reason":"max_tokens","content":[{{"type":"text","text":{met}}}]}}"#
                ),
                r#"Err("the answer was cut off at its limit of tokens") None None"#,
            ),
            (
                "<html>".to_string(),
                r#"Err("the service answered with something that is not JSON") None None"#,
            ),
            ("[]".to_string(), r#"Ok("") None None"#),
        ] {
            assert_eq!(shown(JudgeApi::Anthropic, &body), expected, "{body}");
        }
        let choice = |finish: &str, message: &str| {
            format!(
                r#"{{"model":"m","choices":[{{"finish_reason":"{finish}","message":{message}}}],"usage":{{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{{"cached_tokens":4}}}}}}"#
            )
        };
        for (body, expected) in [
            (choice("stop", r#"{"content":"hi"}"#), r#"Ok("hi")"#),
            (
                choice("length", r#"{"content":"hi"}"#),
                r#"Err("the answer was cut off at its limit of tokens")"#,
            ),
            (
                choice("content_filter", r#"{"content":"hi"}"#),
                r#"Err("the model refused to answer")"#,
            ),
            (
                choice("stop", r#"{"content":null,"refusal":"no"}"#),
                r#"Err("the model refused to answer")"#,
            ),
        ] {
            let expected = format!("{expected} Some([6, 4, 0, 2]) Some(\"m\")");
            assert_eq!(shown(JudgeApi::OpenAi, &body), expected, "{body}");
        }
    }
}
