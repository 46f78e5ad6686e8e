//! The client's report of an API error that retries did not resolve.

use crate::model_answer;
use crate::scenario::ScriptedApiError;
use crate::transcript::{TranscriptWriter, WrittenApiError};
use ralph_sys::fs::FileError;

const CONNECTION_ERROR: &str = "API Error: Connection dropped (ECONNRESET). Check the gateway set in ANTHROPIC_BASE_URL, then try \
    again.";
const REQUEST_TOO_LARGE_ERROR: &str = "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the \
    request over the limit. Remove older images or compact the conversation.";

pub(crate) const OUTPUT_LIMIT_ERROR: &str = "API Error: Claude's response exceeded the 128000 output token maximum. To configure this behavior, set \
    the CLAUDE_CODE_MAX_OUTPUT_TOKENS environment variable.";

/// How the client words and classifies an error.
#[derive(Clone, Debug)]
pub(crate) struct ApiErrorReport<'a> {
    pub(crate) text: String,
    pub(crate) class: &'static str,
    /// The HTTP status; `None` if the server was not reached.
    pub(crate) status: Option<u16>,
    /// The API's error type.
    pub(crate) kind: Option<&'a str>,
}

impl<'a> ApiErrorReport<'a> {
    pub(crate) fn new(error: &'a ScriptedApiError) -> Self {
        if error.status == 0 {
            let text = CONNECTION_ERROR.to_owned();
            return Self { text, class: "server_error", status: None, kind: None };
        }
        Self {
            text: api_error_text(error),
            class: error_class(error.status),
            status: Some(error.status),
            kind: Some(&error.kind),
        }
    }

    /// The report of a second answer in a row that a safety classifier stopped.
    pub(crate) fn refusal(model: &str, request: u64) -> Self {
        let model = display_name(model);
        let text = format!(
            "API Error: {model}'s safeguards flagged this message (https://www.anthropic.com/legal/aup). This sometimes \
             happens with safe, normal conversations. Claude Code can't respond to this message with {model}.\n\nTry \
             rephrasing the request in a new session or change your model.\n\nLearn more: \
             https://support.claude.com/en/articles/8106465\n\nRequest ID: {}\n\nMessage ID: {}",
            model_answer::request_id(request),
            model_answer::message_id(request)
        );
        Self { text, class: "invalid_request", status: None, kind: None }
    }

    /// Writes the answer that the client makes up for the failed request.
    pub(crate) fn record(
        &self,
        transcript: &mut TranscriptWriter,
        request: u64,
    ) -> Result<(), FileError> {
        transcript.write_api_error(&WrittenApiError {
            status: self.status,
            kind: self.kind,
            error: self.class,
            request: &model_answer::request_id(request),
            text: &self.text,
        })
    }
}

/// What the client shows when it asks again after a refused answer.
pub(crate) fn refusal_notice(model: &str) -> String {
    let model = display_name(model);
    format!("{model}'s safeguards stopped the response above · continuing once with that noted")
}

/// The client's name for a model: `Opus 5.5` for `claude-opus-5-5`.
fn display_name(model: &str) -> String {
    let words = model.strip_prefix("claude-").unwrap_or(model);
    let (family, version) = words.split_once('-').unwrap_or((words, ""));
    let mut letters = family.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let family: String = first.into_iter().chain(letters).collect();
    format!("{family} {}", version.replace('-', ".")).trim_end().to_owned()
}

fn api_error_text(error: &ScriptedApiError) -> String {
    let ScriptedApiError { status, message, .. } = error;
    match status {
        401 | 403 => format!("Failed to authenticate. API Error: {status} {message}"),
        413 => REQUEST_TOO_LARGE_ERROR.to_owned(),
        429 => format!("API Error: Request rejected (429) · {message}"),
        500..=599 => format!(
            "API Error: {status} {message}. This is a server-side issue, usually temporary — try again in a moment. If it \
             persists, check your inference gateway (127.0.0.1:PORT)."
        ),
        _ => format!("API Error: {status} {message}"),
    }
}

/// The client's class of an API error.
fn error_class(status: u16) -> &'static str {
    match status {
        429 => "rate_limit",
        401 | 403 => "authentication_failed",
        404 => "model_not_found",
        413 => "invalid_request",
        402 => "billing_error",
        500..=599 => "server_error",
        _ => "unknown",
    }
}
