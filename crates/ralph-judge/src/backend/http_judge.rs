//! A model behind an HTTP endpoint, asked with `curl`.

use super::BackendModel;
use super::command_judge::{ERROR_BYTES, KILL_GRACE, OUTPUT_BYTES, job_output, unreported_call};
use super::endpoint_url::EndpointUrl;
use super::{sealed_search, wire_format};
use crate::JudgeStep;
use crate::judge_call::{ModelCall, ModelReply, UnreportedCall};
use ralph_core::judge::JudgeEndpoint;
use ralph_core::text;
use ralph_sys::clock::{self, Deadline};
use ralph_sys::env::Env;
use ralph_sys::fs::{self, Durability, FreshDir};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::curl_call::{CurlBody, CurlOutput, CurlRequest, CurlResponse};
use ralph_sys::proc::job::{self, CaptureLimits, CommandInput, JobEnd, JobSpec, StderrCapture};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CURL_PROGRAM: &str = "curl";
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
const MAX_ATTEMPTS: u32 = 8;
const CANCEL_POLL: Duration = Duration::from_millis(100);
const SHOWN_ERROR_CHARS: usize = 160;
/// Exit codes of curl for a connection that may succeed later: could not connect, empty reply, send and receive errors.
const RETRYABLE_CURL_CODES: [i32; 4] = [7, 52, 55, 56];
/// Its exit codes for a request that was not sent: bad options, no name or address for the host, no encryption.
const UNSENT_CURL_CODES: [i32; 10] = [1, 2, 3, 4, 5, 6, 7, 35, 60, 77];
/// Its exit code after `--max-time`, which is the judge's time.
const CURL_TIMEOUT_CODE: i32 = 28;
/// Statuses of a service, or of a gateway before it, that gave up waiting for the model.
const TIMEOUT_STATUSES: [u16; 2] = [408, 504];
const TIMEOUT_REASON: &str = "the service did not answer in time";

/// What came of one request.
enum RequestEnd {
    Reply(Box<ModelReply>),
    /// It may succeed later. With the wait that the service asked for.
    Retry {
        why: String,
        after: Option<Duration>,
        unreported: UnreportedCall,
    },
}

pub(super) fn call_endpoint(
    backend: &BackendModel<'_>,
    endpoint: &JudgeEndpoint,
    call: &ModelCall<'_>,
) -> ModelReply {
    let url = match EndpointUrl::parse(&endpoint.url, endpoint.api) {
        Ok(url) => url,
        Err(why) => return ModelReply::unsent(format!("the address of the judge {why}")),
    };
    let key = match read_key(backend.request.env, endpoint) {
        Ok(key) => key,
        Err(why) => return ModelReply::unsent(why),
    };
    let body = wire_format::body(endpoint, url.is_openai, call);
    // Private, and removed when this function returns. Through stdin goes the key.
    let directory =
        FreshDir::create(backend.request.scratch.join(format!("judge-{:016x}", clock::nonce())));
    let directory = match directory {
        Ok(directory) => directory,
        Err(error) => return ModelReply::unsent(format!("{error}")),
    };
    let file = directory.path().join("body");
    if let Err(error) = fs::replace(&file, body.as_bytes(), Durability::Cached) {
        return ModelReply::unsent(format!("{error}"));
    }
    let request = EndpointRequest { backend, endpoint, url, key, file };
    request.send_with_retries(call.deadline)
}

/// The key, which never leaves this process but through curl's stdin.
fn read_key(env: &Env, endpoint: &JudgeEndpoint) -> Result<Option<String>, String> {
    let Some(name) = &endpoint.key else { return Ok(None) };
    let value = env.get(name).ok_or_else(|| format!("the variable `{name}` is not set"))?;
    let value = value.into_string().ok().map(|value| value.trim().to_string());
    value
        .filter(|value| !value.is_empty() && value.chars().all(|char| char.is_ascii_graphic()))
        .map(Some)
        .ok_or_else(|| format!("the variable `{name}` does not hold a key"))
}

struct EndpointRequest<'a> {
    backend: &'a BackendModel<'a>,
    endpoint: &'a JudgeEndpoint,
    url: EndpointUrl,
    key: Option<String>,
    /// The body.
    file: PathBuf,
}

impl EndpointRequest<'_> {
    fn send_with_retries(&self, deadline: Deadline) -> ModelReply {
        let mut backoff = FIRST_BACKOFF;
        let mut last_error = String::new();
        // Of all attempts, the one that costs most: the estimate is booked once.
        let mut unreported = UnreportedCall::Unsent;
        for attempt in 1..=MAX_ATTEMPTS {
            if self.backend.cancel.is_cancelled() {
                return ModelReply::unreported(unreported, "cancelled");
            }
            if deadline.has_passed() {
                break;
            }
            match self.send(deadline) {
                RequestEnd::Reply(mut reply) => {
                    reply.usage.unreported = reply.usage.unreported.max(unreported);
                    return *reply;
                }
                RequestEnd::Retry { why, after, unreported: attempted } => {
                    last_error = why;
                    unreported = unreported.max(attempted);
                    let wait = after.unwrap_or(backoff);
                    if wait >= deadline.remaining() || attempt == MAX_ATTEMPTS {
                        break;
                    }
                    let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    let step = JudgeStep::Retry { after_ms, why: &last_error };
                    self.backend.request.support.report_progress(&step);
                    sleep_until(Deadline::after(wait), self.backend.cancel);
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
            }
        }
        let why = if last_error.is_empty() {
            TIMEOUT_REASON.to_string()
        } else {
            format!("the service gave no answer; last error: {last_error}")
        };
        ModelReply::unreported(unreported, why)
    }

    fn send(&self, deadline: Deadline) -> RequestEnd {
        let request = self.backend.request;
        let headers = wire_format::headers(self.endpoint.api, self.key.as_deref());
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let post = CurlRequest {
            address: &self.url.address,
            schemes: self.url.schemes,
            headers: &headers,
            body: Some(CurlBody::File(&self.file)),
            output: CurlOutput::Response,
            max_seconds: deadline.remaining().as_secs().max(1),
            is_local: self.url.is_local,
        };
        let Some(curl) = sealed_search::find_program(request, CURL_PROGRAM) else {
            let why = format!("`{CURL_PROGRAM}` was not found on the PATH");
            return failed(UnreportedCall::Unsent, why);
        };
        let arguments = post.argv().into_iter().skip(1).map(OsString::from);
        let argv: Vec<OsString> = std::iter::once(curl.into()).chain(arguments).collect();
        let mut variables = request.env.variables_without_secrets();
        sealed_search::use_recorded_path(request, &mut variables);
        let mut secrets = request.env.secrets();
        secrets.extend(self.key.clone());
        let finished = job::run_job(&JobSpec {
            program: request.supervisor,
            argv: &argv,
            // Not the agent's directory: a relative name must not start or read a file of the project.
            cwd: self.file.parent().unwrap_or(Path::new("/")),
            env: &variables,
            input: CommandInput::Bytes(post.config().as_bytes()),
            stderr: StderrCapture::Separate,
            capture_limits: CaptureLimits { head: OUTPUT_BYTES, tail: ERROR_BYTES },
            secrets: &secrets,
            deadline,
            grace: KILL_GRACE,
            ..JobSpec::with_defaults(self.backend.cancel)
        });
        match job_output(&finished, CURL_PROGRAM) {
            Ok(printed) => self.read_response(&printed),
            Err(why) => {
                let is_unsent = matches!(
                    finished.end,
                    JobEnd::Exited(code) if UNSENT_CURL_CODES.contains(&code)
                );
                let unreported = if is_unsent {
                    UnreportedCall::Refused
                } else {
                    unreported_call(&finished.end)
                };
                match finished.end {
                    JobEnd::Exited(code) if RETRYABLE_CURL_CODES.contains(&code) => {
                        RequestEnd::Retry { why, after: None, unreported }
                    }
                    JobEnd::Exited(CURL_TIMEOUT_CODE) | JobEnd::TimedOut => {
                        failed(unreported, TIMEOUT_REASON.to_string())
                    }
                    JobEnd::Exited(_)
                    | JobEnd::Signalled(_)
                    | JobEnd::Cancelled
                    | JobEnd::CouldNotStart(_)
                    | JobEnd::Lost => failed(unreported, why),
                }
            }
        }
    }

    fn read_response(&self, printed: &str) -> RequestEnd {
        let Some(response) = CurlResponse::parse(printed) else {
            return failed(UnreportedCall::Billed, "the service sent no response".to_string());
        };
        let unreported = if TIMEOUT_STATUSES.contains(&response.status) {
            UnreportedCall::Billed
        } else {
            UnreportedCall::Refused
        };
        let message = || {
            let message = wire_format::error_message(response.body).unwrap_or_default();
            let message = text::clean_line(&message, SHOWN_ERROR_CHARS);
            let colon = if message.is_empty() { "" } else { ": " };
            format!("HTTP {}{colon}{message}", response.status)
        };
        match response.status {
            200..=299 => RequestEnd::Reply(Box::new(wire_format::parse_endpoint_reply(
                self.endpoint.api,
                response.body,
            ))),
            408 | 429 | 500 | 502..=504 | 529 => RequestEnd::Retry {
                why: message(),
                after: response.header("retry-after").and_then(parse_retry_after),
                unreported,
            },
            _ => failed(unreported, format!("the service rejected the request with {}", message())),
        }
    }
}

fn failed(unreported: UnreportedCall, why: String) -> RequestEnd {
    RequestEnd::Reply(Box::new(ModelReply::unreported(unreported, why)))
}

/// Seconds. The other form of the header, a date, is not used by these services.
fn parse_retry_after(value: &str) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    (0.0..=86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

fn sleep_until(end: Deadline, cancel: &CancelToken) {
    while !end.has_passed() && !cancel.is_cancelled() {
        clock::sleep(end.remaining().min(CANCEL_POLL));
    }
}
