//! Replays one captured event: runs hooks on it as the client would, and derives what the client would do with their
//! answers.

mod consequence;
#[cfg(test)]
mod tests;

use crate::client_ids;
use crate::client_rules::client_variables;
use crate::client_rules::event_outcome::{DispatchedEvent, EventOutcome, HandlerAnswer};
use crate::client_rules::hook_input::HookInput;
use crate::hook_answer;
use crate::hook_settings::{CLIENT_EVENTS, LoadedHookSettings};
use crate::matcher;
use crate::simulator::evaluator_hooks::EvaluatorLaunch;
use crate::simulator::hook_dispatch::{self, AsyncHook, HookLaunchContext};
use crate::timeline::{HookEffect, TimelineHook, TimelineMessage};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::cancel::CancelToken;
use ralph_sys::proc::decoy::{self, DecoyProcess};
use ralph_sys::proc::job;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Size limit of a payload.
pub const MAX_PAYLOAD_BYTES: usize = job::MAX_INPUT_BYTES;

/// How long asynchronous hooks may continue after the others have finished.
const ASYNC_HOOK_GRACE: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub enum HookPayloadError {
    #[error("not valid JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("not a JSON object")]
    NotAnObject,
    #[error("no `hook_event_name`")]
    NoEvent,
    #[error("`{0}` is not an event of the client")]
    UnknownEvent(String),
}

/// A captured event: the JSON that a hook once read on standard input.
#[derive(Clone, Debug)]
pub struct HookPayload {
    event: &'static str,
    fields: Map<String, Value>,
    /// The payload in the client's format: on one line, with its fields in their original order.
    line: Vec<u8>,
}

impl HookPayload {
    pub fn parse(bytes: &[u8]) -> Result<Self, HookPayloadError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let read = serde_json::from_slice(bytes).map_err(HookPayloadError::NotJson)?;
        let Value::Object(fields) = read else { return Err(HookPayloadError::NotAnObject) };
        let Some(Value::String(name)) = fields.get("hook_event_name") else {
            return Err(HookPayloadError::NoEvent);
        };
        let Some(event) = CLIENT_EVENTS.into_iter().find(|event| event == name) else {
            return Err(HookPayloadError::UnknownEvent(name.clone()));
        };
        Ok(Self { event, line: minify_json(bytes), fields })
    }

    pub fn event(&self) -> &'static str {
        self.event
    }

    /// The value of a string field.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    pub fn session_id(&self) -> &str {
        self.text("session_id").unwrap_or_default()
    }

    fn dispatched_event(&self) -> DispatchedEvent {
        let subject = matcher::subject_field(self.event).and_then(|field| self.text(field));
        let agent = self.text("agent_id").and_then(|_| self.text("agent_type"));
        DispatchedEvent {
            event: self.event,
            subject: subject.map(str::to_owned),
            agent: agent.map(str::to_owned),
            input: HookInput::from(self.fields.clone()),
        }
    }

    /// The context that a hook adds, as the model would read it. The file that would hold a long text is named but not
    /// written, because it would lie beside a real transcript.
    fn delivered_context(&self, text: &str) -> String {
        let transcript = PathBuf::from(self.text("transcript_path").unwrap_or_default());
        let name = format!("hook-{}-{}-additionalContext.txt", client_ids::new_uuid(), self.event);
        let path = transcript.with_extension("").join("tool-results").join(name);
        hook_answer::deliver(text).delivered_text(&path.to_string_lossy())
    }
}

/// Removes the white space between the tokens of valid JSON and ends it with a newline if there is room.
fn minify_json(json: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(json.len() + 1);
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b' ' | b'\t' | b'\n' | b'\r' if !is_string => continue,
            _ => {}
        }
        line.push(*byte);
    }
    if line.len() < MAX_PAYLOAD_BYTES {
        line.push(b'\n');
    }
    line
}

/// The surroundings in which hooks are replayed: program, environment and directories.
#[derive(Debug)]
pub struct ReplayContext<'a> {
    /// The `ralph` binary, which supervises the hooks.
    pub program: &'a Path,
    pub cancel: &'a CancelToken,
    /// The client's environment, inherited by every hook.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that override those of the settings.
    pub env_overrides: Vec<(OsString, OsString)>,
    pub project: &'a Path,
    pub cwd: &'a Path,
    pub plugin_data: PathBuf,
    pub client: ReplayClientProcess,
}

/// The process that hooks see as the client in `CLAUDE_PID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayClientProcess {
    /// An idle process that a hook may kill.
    StandIn,
    /// No process: a hook that stores the pid would later find the process dead.
    Unnamed,
}

/// The client's decision after the hooks have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayDecision {
    /// Proceeds as if there were no hooks; at a stop the agent stops.
    Allowed,
    /// The agent has to continue, a call is denied, a prompt is dropped, or a task stays open.
    Blocked,
    /// `continue: false`
    Stopped,
    /// A hook killed the client.
    Killed,
}

#[derive(Clone, Debug)]
pub struct ReplayReport {
    pub decision: ReplayDecision,
    pub hook: TimelineHook,
    /// Messages that reach the model because of the hooks.
    pub reads: Vec<TimelineMessage>,
    /// Messages shown to the user.
    pub person: Vec<String>,
    /// Hooks that did not run, and other remarks about the settings.
    pub notices: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("cannot start the stand-in process for the client")]
    StandIn(#[source] io::Error),
}

/// Runs the hooks of the settings on a payload. Processes that the hooks leave behind are killed.
pub fn run(
    payload: &HookPayload,
    settings: &LoadedHookSettings,
    scene: ReplayContext<'_>,
) -> Result<ReplayReport, ReplayError> {
    // A hook may kill the client whose pid it reads.
    let client = match scene.client {
        ReplayClientProcess::StandIn => {
            Some(decoy::start_decoy(scene.program).map_err(ReplayError::StandIn)?)
        }
        ReplayClientProcess::Unnamed => None,
    };
    let ground = launch_context(payload, settings, scene, client.as_ref().map(DecoyProcess::pid));
    let telling = payload.dispatched_event();
    let orders = hook_dispatch::plan_launches(settings, &telling, &ground);
    let mut notices: Vec<String> =
        settings.notices.iter().map(|notice| format!("settings, {notice}")).collect();
    notices.extend(orders.skipped);
    notices.extend(orders.asked.iter().map(|question| {
        let EvaluatorLaunch { identity, handler, .. } = question;
        format!(
            "skipped a {} hook from {} settings: a replay has no model for its type `{}`",
            payload.event,
            identity.source,
            handler.kind.name()
        )
    }));
    let unheard = orders.detached.len();
    let mut detached = Vec::new();
    for order in orders.detached {
        match hook_dispatch::start_async(&ground, order, payload.line.clone()) {
            Ok(hook) => detached.push(hook),
            Err(error) => notices.push(hook_dispatch::async_hook_failure(&error)),
        }
    }
    if unheard > 0 {
        notices.push(format!(
            "asynchronous hooks started: {unheard}; the client does not wait for them and ignores their answers"
        ));
    }
    let (answers, remains): (Vec<HandlerAnswer>, Vec<_>) =
        hook_dispatch::run_and_wait(&ground, payload.event, orders.awaited, &payload.line)
            .into_iter()
            .unzip();
    stop_async_hooks(detached, ground.cancel);
    drop(remains);
    let mut replayed = assess_answers(payload, telling, answers);
    replayed.notices = notices;
    if client.is_some_and(|client| client.was_killed()) {
        replayed.decision = ReplayDecision::Killed;
        replayed.hook.effect = HookEffect::Allowed;
        replayed.reads.clear();
        replayed.person.clear();
    }
    Ok(replayed)
}

fn assess_answers(
    payload: &HookPayload,
    telling: DispatchedEvent,
    mut answers: Vec<HandlerAnswer>,
) -> ReplayReport {
    for answered in &mut answers {
        answered.delivered_context = answered.context().map(|text| payload.delivered_context(text));
    }
    let outcome = EventOutcome::new(telling, answers);
    let consequence = consequence::derive_consequence(payload, &outcome);
    ReplayReport {
        decision: consequence.decision,
        hook: outcome.timeline_hook(consequence.effect),
        reads: consequence.reads,
        person: consequence.person,
        notices: Vec::new(),
    }
}

fn launch_context<'a>(
    payload: &HookPayload,
    settings: &LoadedHookSettings,
    scene: ReplayContext<'a>,
    pid: Option<u32>,
) -> HookLaunchContext<'a> {
    let ReplayContext {
        program,
        cancel,
        env,
        env_overrides: forced,
        project,
        cwd,
        plugin_data,
        ..
    } = scene;
    let effort = payload.fields.get("effort").and_then(|effort| effort.get("level"));
    let effort = effort.and_then(Value::as_str).map(|level| ("CLAUDE_EFFORT".into(), level.into()));
    let said = settings.env.iter().map(|(name, value)| (name.into(), value.into()));
    // The last value of a variable wins.
    let mut all: BTreeMap<OsString, OsString> = env
        .into_iter()
        .chain(said)
        .chain(client_variables(project, payload.session_id(), pid))
        .chain(effort)
        .chain(forced)
        .collect();
    if pid.is_none() {
        all.remove(OsStr::new("CLAUDE_PID"));
    }
    HookLaunchContext {
        program,
        cancel,
        env: all.into_iter().collect(),
        cwd: cwd.to_owned(),
        plugin_data,
    }
}

/// Waits briefly before it kills asynchronous hooks, so that a hook that only writes a file can finish.
fn stop_async_hooks(detached: Vec<AsyncHook>, cancel: &CancelToken) {
    let deadline = Deadline::after(ASYNC_HOOK_GRACE);
    while !detached.iter().all(AsyncHook::is_finished)
        && !deadline.has_passed()
        && !cancel.is_cancelled()
    {
        clock::sleep(POLL_INTERVAL);
    }
    detached.into_iter().for_each(AsyncHook::kill);
}
