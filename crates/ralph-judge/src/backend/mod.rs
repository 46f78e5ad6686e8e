//! The programs and services that give verdicts.

mod command_judge;
mod endpoint_url;
mod host_judge;
mod http_judge;
mod sealed_search;
mod wire_format;

pub(crate) use wire_format::parse_endpoint_reply;

use crate::JudgeRequest;
use crate::judge_call::{JudgeModel, ModelCall, ModelReply};
use ralph_core::judge::{JudgeBackend, JudgeKind};
use ralph_sys::proc::cancel::CancelToken;

/// The backend that the judge's policy names.
#[derive(Debug)]
pub(crate) struct BackendModel<'a> {
    pub(crate) request: &'a JudgeRequest<'a>,
    pub(crate) cancel: &'a CancelToken,
}

impl JudgeModel for BackendModel<'_> {
    fn call(&self, call: &ModelCall<'_>) -> ModelReply {
        match &self.request.judge.backend {
            JudgeBackend::Command(argv) => command_judge::call_command(self, argv, call),
            JudgeBackend::Host(host) => host_judge::call_host(self, host, call),
            // It could neither read files nor run gates, so its verdict would be that of another kind.
            JudgeBackend::Http(_) if self.request.judge.kind == JudgeKind::Agent => {
                ModelReply::unsent("an agent judge needs a host or a command, not an endpoint")
            }
            JudgeBackend::Http(endpoint) => http_judge::call_endpoint(self, endpoint, call),
        }
    }
}
