//! Replays one captured event: runs hooks on it as the client would, and derives what the client would do with their
//! answers.

mod consequence;
#[cfg(test)]
mod tests;

use crate::answer;
use crate::id;
use crate::matcher;
use crate::query::hooks::{self, Asynchronous, Ground, Telling};
use crate::query::input::Input;
use crate::query::told::{Answered, Told};
use crate::settings::{EVENTS, Loaded};
use crate::timeline::{Effect, Hook, Said};
use ralph_sys::clock::{self, Deadline};
use ralph_sys::proc::cancel::Cancel;
use ralph_sys::proc::job;
use ralph_sys::proc::stand_in::{self, StandIn};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Size limit of a payload.
pub const LARGEST: usize = job::LARGEST_INPUT;

/// How long asynchronous hooks may continue after the others have finished.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
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
pub struct Payload {
    event: &'static str,
    fields: Map<String, Value>,
    /// The payload in the client's format: on one line, with its fields in their original order.
    line: Vec<u8>,
}

impl Payload {
    pub fn read(bytes: &[u8]) -> Result<Self, PayloadError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let read = serde_json::from_slice(bytes).map_err(PayloadError::NotJson)?;
        let Value::Object(fields) = read else { return Err(PayloadError::NotAnObject) };
        let Some(Value::String(name)) = fields.get("hook_event_name") else {
            return Err(PayloadError::NoEvent);
        };
        let Some(event) = EVENTS.into_iter().find(|event| event == name) else {
            return Err(PayloadError::UnknownEvent(name.clone()));
        };
        Ok(Self { event, line: on_one_line(bytes), fields })
    }

    pub fn event(&self) -> &'static str {
        self.event
    }

    /// The value of a string field.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field)?.as_str()
    }

    pub fn session(&self) -> &str {
        self.text("session_id").unwrap_or_default()
    }

    fn telling(&self) -> Telling {
        let subject = matcher::subject_field(self.event).and_then(|field| self.text(field));
        let agent = self.text("agent_id").and_then(|_| self.text("agent_type"));
        Telling {
            event: self.event,
            subject: subject.map(str::to_owned),
            agent: agent.map(str::to_owned),
            input: Input::from(self.fields.clone()),
        }
    }

    /// The context that a hook adds, as the model would read it. The file that would hold a long text is named but not
    /// written, because it would lie beside a real transcript.
    fn delivered(&self, text: &str) -> String {
        let transcript = PathBuf::from(self.text("transcript_path").unwrap_or_default());
        let name = format!("hook-{}-{}-additionalContext.txt", id::uuid(), self.event);
        let path = transcript.with_extension("").join("tool-results").join(name);
        answer::deliver(text).wording(&path.to_string_lossy())
    }
}

/// Removes the white space between the tokens of valid JSON and ends it with a newline if there is room.
fn on_one_line(json: &[u8]) -> Vec<u8> {
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
    if line.len() < LARGEST {
        line.push(b'\n');
    }
    line
}

/// The surroundings in which hooks are replayed: program, environment and directories.
#[derive(Debug)]
pub struct Scene<'a> {
    /// The `ralph` binary, which supervises the hooks.
    pub program: &'a Path,
    pub cancel: &'a Cancel,
    /// The client's environment, inherited by every hook.
    pub env: Vec<(OsString, OsString)>,
    /// Variables that override those of the settings.
    pub forced: Vec<(OsString, OsString)>,
    pub project: &'a Path,
    pub cwd: &'a Path,
    pub plugin_data: PathBuf,
    pub client: Client,
}

/// The process that hooks see as the client in `CLAUDE_PID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// An idle process that a hook may kill.
    StandIn,
    /// No process: a hook that stores the pid would later find the process dead.
    Unnamed,
}

/// What the client does after the hooks have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
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
pub struct Replayed {
    pub decision: Decision,
    pub hook: Hook,
    /// Messages that reach the model because of the hooks.
    pub reads: Vec<Said>,
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
    payload: &Payload,
    settings: &Loaded,
    scene: Scene<'_>,
) -> Result<Replayed, ReplayError> {
    // A hook may kill the client whose pid it reads.
    let client = match scene.client {
        Client::StandIn => Some(stand_in::start(scene.program).map_err(ReplayError::StandIn)?),
        Client::Unnamed => None,
    };
    let ground = ground(payload, settings, scene, client.as_ref().map(StandIn::pid));
    let telling = payload.telling();
    let orders = hooks::orders(settings, &telling, &ground);
    let mut notices: Vec<String> =
        settings.notices.iter().map(|notice| format!("settings, {notice}")).collect();
    notices.extend(orders.complaints);
    let unheard = orders.detached.len();
    let start = |order| hooks::start(&ground, order, payload.line.clone());
    let detached: Vec<Asynchronous> = orders.detached.into_iter().filter_map(start).collect();
    if unheard > 0 {
        notices.push(format!(
            "asynchronous hooks started: {unheard}; the client does not wait for them and ignores their answers"
        ));
    }
    let (answers, remains): (Vec<Answered>, Vec<_>) =
        hooks::ask(&ground, payload.event, orders.awaited, &payload.line).into_iter().unzip();
    end(detached, ground.cancel);
    drop(remains);
    let mut replayed = judged(payload, telling, answers);
    replayed.notices = notices;
    if client.is_some_and(|client| client.is_gone()) {
        replayed.decision = Decision::Killed;
        replayed.hook.effect = Effect::Allowed;
        replayed.reads.clear();
        replayed.person.clear();
    }
    Ok(replayed)
}

fn judged(payload: &Payload, telling: Telling, mut answers: Vec<Answered>) -> Replayed {
    for answered in &mut answers {
        answered.added = answered.context().map(|text| payload.delivered(text));
    }
    let told = Told::new(telling, answers);
    let consequence = consequence::of(payload, &told);
    Replayed {
        decision: consequence.decision,
        hook: told.entry(consequence.effect),
        reads: consequence.reads,
        person: consequence.person,
        notices: Vec::new(),
    }
}

fn ground<'a>(
    payload: &Payload,
    settings: &Loaded,
    scene: Scene<'a>,
    pid: Option<u32>,
) -> Ground<'a> {
    let Scene { program, cancel, env, forced, project, cwd, plugin_data, .. } = scene;
    let effort = payload.fields.get("effort").and_then(|effort| effort.get("level"));
    let effort = effort.and_then(Value::as_str).map(|level| ("CLAUDE_EFFORT".into(), level.into()));
    let said = settings.env.iter().map(|(name, value)| (name.into(), value.into()));
    // The last value of a variable wins.
    let mut all: BTreeMap<OsString, OsString> = env
        .into_iter()
        .chain(said)
        .chain(hooks::variables(project, payload.session(), pid.unwrap_or_default()))
        .chain(effort)
        .chain(forced)
        .collect();
    if pid.is_none() {
        all.remove(OsStr::new("CLAUDE_PID"));
    }
    Ground { program, cancel, env: all.into_iter().collect(), cwd: cwd.to_owned(), plugin_data }
}

/// Waits briefly before it kills asynchronous hooks, so that a hook that only writes a file can finish.
fn end(detached: Vec<Asynchronous>, cancel: &Cancel) {
    let deadline = Deadline::after(PATIENCE);
    while !detached.iter().all(Asynchronous::is_over) && !deadline.is_over() && !cancel.is_wished()
    {
        clock::pause(LOOK);
    }
    detached.into_iter().for_each(Asynchronous::end);
}
