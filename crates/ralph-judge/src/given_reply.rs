//! A verdict from a reply that is given, without a backend: for the fuzzer, which has to see all that follows from any
//! reply.

use crate::backend::parse_endpoint_reply;
use crate::judge_call::{JudgeModel, ModelCall, ModelReply, ReplyUsage};
use crate::{JudgeRequest, ask_model};
use ralph_core::judge::{JudgeApi, JudgeResult};
use ralph_sys::proc::cancel::CancelToken;

/// The reply to every call.
#[derive(Clone, Copy, Debug)]
pub enum GivenReply<'a> {
    /// The text of an answer.
    Answer(&'a str),
    /// The body of a successful response.
    Body(JudgeApi, &'a str),
}

impl JudgeModel for GivenReply<'_> {
    fn call(&self, _call: &ModelCall<'_>) -> ModelReply {
        match self {
            Self::Answer(text) => ModelReply {
                answer: Ok((*text).to_string()),
                usage: ReplyUsage::default(),
                model: None,
            },
            Self::Body(api, body) => parse_endpoint_reply(*api, body),
        }
    }
}

/// [`crate::ask_judge`] with this reply in place of the backend's.
pub fn judge_given_reply(
    request: &JudgeRequest<'_>,
    reply: GivenReply<'_>,
    cancel: &CancelToken,
) -> JudgeResult {
    ask_model(request, &reply, cancel)
}
