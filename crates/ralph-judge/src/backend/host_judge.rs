//! The program of a host as a judge, headless: one prompt, one answer. Hooks are off and `RALPH_OFF` is set, so nothing of
//! ralph acts in the judge's session and no judge can be asked about a judge. Only an agent judge has tools, and they
//! only read.

use super::BackendModel;
use super::command_judge::{
    ERROR_BYTES, KILL_GRACE, OFF_VARIABLE, OUTPUT_BYTES, job_output, unreported_call,
};
use super::sealed_search;
use crate::judge_call::{ModelCall, ModelReply, ReplyUsage, TokenCounts};
use ralph_core::judge::{JudgeHost, JudgeKind};
use ralph_core::text;
use ralph_gates::environment::is_git_location;
use ralph_host::HostProfile;
use ralph_host::agent_launch::JudgeLaunch;
use ralph_host::stream::{StreamLine, TurnError, TurnOutcome, TurnResult};
use ralph_sys::clock;
use ralph_sys::env::Env;
use ralph_sys::fs::FreshDir;
use ralph_sys::proc::job::{self, CaptureLimits, CommandInput, JobEnd, JobSpec, StderrCapture};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Replaces the client's own, which is long and about writing code.
const SYSTEM_PROMPT: &str =
    "You are a careful reviewer. Answer with one JSON object and nothing else.";
const SHOWN_ERROR_CHARS: usize = 160;
pub(super) fn call_host(
    backend: &BackendModel<'_>,
    named: &JudgeHost,
    call: &ModelCall<'_>,
) -> ModelReply {
    let request = backend.request;
    let Some(host) = ralph_host::host_named(&named.host) else {
        return ModelReply::unsent(format!("`{}` is not a host that ralph knows", named.host));
    };
    let Some(program) = find_host_program(backend, host) else {
        return ModelReply::unsent(format!("`{}` was not found on the PATH", host.program));
    };
    let may_read = request.judge.kind == JudgeKind::Agent;
    // Without tools there is nothing to read, and an empty directory has no files that the client might.
    let empty = FreshDir::create(request.scratch.join(format!("judge-{:016x}", clock::nonce())));
    let empty = match empty {
        Ok(empty) => empty,
        Err(error) => return ModelReply::unsent(error.to_string()),
    };
    let budget = call.max_micro_usd.map(|most| usd_text(most.max(1)));
    let arguments = (host.launch.judge_arguments)(&JudgeLaunch {
        model: named.model.as_deref(),
        max_budget_usd: budget.as_deref(),
        may_read,
        system_prompt: SYSTEM_PROMPT,
    });
    let argv: Vec<OsString> =
        std::iter::once(program.into()).chain(arguments.into_iter().map(OsString::from)).collect();
    let prompt = format!("{}\n\n{}", call.instructions, call.facts);
    let mut variables = host_variables(request.env, host);
    sealed_search::use_recorded_path(request, &mut variables);
    let finished = job::run_job(&JobSpec {
        program: request.supervisor,
        argv: &argv,
        cwd: if may_read { request.files } else { empty.path() },
        env: &variables,
        input: CommandInput::Bytes(prompt.as_bytes()),
        stderr: StderrCapture::Separate,
        capture_limits: CaptureLimits { head: OUTPUT_BYTES, tail: ERROR_BYTES },
        secrets: &request.env.secrets(),
        deadline: call.deadline,
        grace: KILL_GRACE,
        ..JobSpec::with_defaults(backend.cancel)
    });
    // A failed turn exits with 1, and its result says more than the exit code.
    let printed = String::from_utf8_lossy(&finished.output.head);
    let result = match finished.end {
        JobEnd::Exited(_) => find_result(host, &printed),
        JobEnd::Signalled(_)
        | JobEnd::TimedOut
        | JobEnd::Cancelled
        | JobEnd::CouldNotStart(_)
        | JobEnd::Lost => None,
    };
    match (result, job_output(&finished, named.host.as_str())) {
        (Some(result), _) => read_result(&result),
        (None, Ok(_)) => ModelReply::failed(format!("`{}` printed no result", named.host)),
        (None, Err(why)) => ModelReply::unreported(unreported_call(&finished.end), why),
    }
}

fn find_host_program(backend: &BackendModel<'_>, host: &HostProfile) -> Option<PathBuf> {
    let request = backend.request;
    if let Some(program) = request.host_program {
        return Some(program.to_path_buf());
    }
    sealed_search::find_program(request, host.program)
}

/// The person's environment, because the client needs its login, without what concerns an outer session or run.
fn host_variables(env: &Env, host: &HostProfile) -> Vec<(OsString, OsString)> {
    let added = host.launch.judge_variables.iter().chain([&OFF_VARIABLE]);
    let is_added = |name: &OsStr| added.clone().any(|(other, _)| name == *other);
    let is_removed = |name: &OsStr| {
        host.launch.removed_variables.iter().any(|other| name == *other)
            || name.as_encoded_bytes().starts_with(b"RALPH_")
            || is_git_location(name)
    };
    let mut variables = env.variables();
    variables.retain(|(name, _)| !is_removed(name) && !is_added(name));
    variables.extend(added.clone().map(|(name, value)| (name.into(), value.into())));
    variables
}

fn find_result(host: &HostProfile, printed: &str) -> Option<Box<TurnResult>> {
    printed.lines().rev().find_map(|line| match (host.stream.parse_line)(line.as_bytes()) {
        StreamLine::Result(result) => Some(result),
        StreamLine::Init(_)
        | StreamLine::Assistant(_)
        | StreamLine::ToolResults { .. }
        | StreamLine::RateLimit(_)
        | StreamLine::Retry(_)
        | StreamLine::Callback { .. }
        | StreamLine::Permission(_)
        | StreamLine::Asked { .. }
        | StreamLine::Cancelled { .. }
        | StreamLine::Answered { .. }
        | StreamLine::Compacted { .. }
        | StreamLine::Overridden { .. }
        | StreamLine::HookFailed { .. }
        | StreamLine::State(_)
        | StreamLine::Background(_)
        | StreamLine::Task(_)
        | StreamLine::Fallback { .. }
        | StreamLine::Denied { .. }
        | StreamLine::Other => None,
    })
}

fn read_result(result: &TurnResult) -> ModelReply {
    let model = result.models.first().map(|model| model.model.clone());
    let total = result.models.iter().fold(TokenCounts::default(), |sum, model| TokenCounts {
        input: sum.input.saturating_add(model.usage.input),
        cache_read: sum.cache_read.saturating_add(model.usage.cache_read),
        cache_write: sum.cache_write.saturating_add(model.usage.cache_creation),
        output: sum.output.saturating_add(model.usage.output),
    });
    let usage = ReplyUsage {
        tokens: (!result.models.is_empty()).then_some(total),
        micro_usd: result.micro_usd,
        ..ReplyUsage::default()
    };
    let answer = match &result.outcome {
        TurnOutcome::Completed => Ok(result.text.clone().unwrap_or_default()),
        TurnOutcome::Refused => Err("the model refused to answer".to_string()),
        TurnOutcome::MaxTurns => Err("it gave no verdict within its turns".to_string()),
        TurnOutcome::Budget => Err("its budget is used up".to_string()),
        TurnOutcome::ContextFull => Err("the case does not fit into its context".to_string()),
        TurnOutcome::Interrupted | TurnOutcome::HookStopped | TurnOutcome::NoSession => {
            Err("its turn was cut short".to_string())
        }
        TurnOutcome::Failed { error, label, .. } => Err(failure_text(result, *error, label)),
    };
    ModelReply { answer, usage, model }
}

fn failure_text(result: &TurnResult, error: Option<TurnError>, label: &str) -> String {
    let what = match error {
        Some(TurnError::RateLimit) => "the rate limit is reached",
        Some(TurnError::Overloaded) => "the service is overloaded",
        Some(TurnError::Network) => "the service cannot be reached",
        Some(TurnError::Server) => "the service failed",
        Some(TurnError::Auth) => "the login was rejected",
        Some(TurnError::Billing) => "the account has no credit",
        Some(TurnError::NotFound) => "the model does not exist",
        Some(TurnError::ContextFull) => "the case does not fit into its context",
        Some(TurnError::OutputLimit) => "the answer was cut off at its limit of tokens",
        None => label,
    };
    let said = result.errors.first().or(result.text.as_ref());
    let said = said.map(|said| text::clean_line(said, SHOWN_ERROR_CHARS)).unwrap_or_default();
    if said.is_empty() { what.to_string() } else { format!("{what}: {said}") }
}

/// `0.25`, as the client's option takes it.
fn usd_text(micro_usd: u64) -> String {
    format!("{}.{:06}", micro_usd / 1_000_000, micro_usd % 1_000_000)
}
