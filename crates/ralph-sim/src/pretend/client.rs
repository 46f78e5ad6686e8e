//! The process of the fake client: its session, its input and its output.

use super::background::Task;
use super::flags::{Flags, Start};
use super::hooks::Registered;
use super::inbox::{Event, Inbox, Signal};
use super::position::{PositionError, Turns};
use super::report::Metered;
use super::turn::crash;
use super::{BYPASS, Exit, Options, PretendError, Say};
use crate::id;
use crate::query::input::Input;
use crate::query::tools::files::Seen;
use crate::scenario::{Point, Scenario};
use crate::settings::{self, Layer, Source};
use crate::transcript::{self, Ids, Place, Transcript};
use ralph_sys::clock::Deadline;
use ralph_sys::fs::{self, FileError};
use ralph_sys::proc::job::Finished;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

const LARGEST_SETTINGS: usize = 4 * 1024 * 1024;
const STATE_EVENTS: &str = "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS";
const TERMINATED: u8 = 143;

pub(super) struct Client<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: Options,
    pub(super) inbox: Inbox,
    say: &'a mut Say<'a>,
    pub(super) turns: Turns,
    pub(super) session: String,
    /// Opened at the first write.
    transcript: Option<Transcript>,
    /// Follows the agent's `cd`.
    pub(super) cwd: PathBuf,
    pub(super) seen: Seen,
    pub(super) model: String,
    pub(super) prompt_id: Option<String>,
    /// Hook callbacks that the driver registered.
    pub(super) hooks: Vec<Registered>,
    /// Ids of the requests that the driver has not answered yet.
    pub(super) asked: Vec<String>,
    /// The tool call that the driver is asked to permit.
    pub(super) call: Option<String>,
    /// Keys of notices that are shown only once per process.
    pub(super) said: Vec<&'static str>,
    pub(super) queue: VecDeque<Prompt>,
    pub(super) tasks: Vec<Task>,
    pub(super) metered: Metered,
    /// Size of the context at the last answer, in tokens.
    pub(super) context: u64,
    pub(super) input: Line,
    signal: Option<Signal>,
    code: u8,
}

/// Whether the driver's input is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Open,
    Closed,
}

#[derive(Clone, Debug)]
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) priority: Priority,
    /// The run id of the background task that it reports.
    pub(super) task: Option<String>,
    /// The driver's id for the message, which is repeated in the result.
    pub(super) id: Option<String>,
}

/// When a message that arrives during a turn is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    /// After the next tool.
    Next,
    /// In a separate turn.
    Later,
}

/// Why the current operation is abandoned.
pub(super) enum Break {
    /// The driver interrupted the turn.
    Interrupted,
    Signal(Signal),
    Ends(Exit),
    Trouble(PretendError),
}

impl From<FileError> for Break {
    fn from(error: FileError) -> Self {
        Self::Trouble(error.into())
    }
}

impl From<PositionError> for Break {
    fn from(error: PositionError) -> Self {
        Self::Trouble(error.into())
    }
}

/// The next input, after control requests and messages are handled.
pub(super) enum Heard {
    /// The input was handled: a control request, or a message that was queued.
    Nothing,
    /// The driver's answer to a request, with the id of the request.
    Answer(String, Result<Value, String>),
    Tool(Box<Finished>),
    Task(String, Box<Finished>),
    Interrupt,
    /// The driver closed its side.
    Closed,
    /// The deadline passed.
    Late,
}

impl<'a> Client<'a> {
    pub(super) fn new(scenario: &'a Scenario, options: Options, say: &'a mut Say<'a>) -> Self {
        let named = options.flags.model.as_deref().or(scenario.client.model.as_deref());
        let model = named.map_or_else(|| transcript::MODEL.to_owned(), resolved);
        let turns = Turns::new(scenario, options.position.clone());
        Self {
            scenario,
            inbox: Inbox::new(),
            say,
            turns,
            session: String::new(),
            transcript: None,
            cwd: options.project.clone(),
            seen: Seen::new(),
            model,
            prompt_id: None,
            hooks: Vec::new(),
            asked: Vec::new(),
            call: None,
            said: Vec::new(),
            queue: VecDeque::new(),
            tasks: Vec::new(),
            metered: Metered::default(),
            context: 0,
            input: Line::Open,
            signal: None,
            code: 0,
            options,
        }
    }

    pub(super) fn live(&mut self) -> Result<Exit, PretendError> {
        let ends = match self.begin() {
            Ok(Some(exit)) => return Ok(exit),
            Ok(None) => self.serve(),
            Err(error) => return Err(error.into()),
        };
        let code = match ends {
            Ok(()) => self.code,
            Err(Break::Signal(Signal::Terminate)) => {
                self.farewell();
                TERMINATED
            }
            Err(Break::Signal(Signal::Interrupt) | Break::Interrupted) => {
                self.farewell();
                0
            }
            Err(Break::Ends(exit)) => return Ok(exit),
            Err(Break::Trouble(error)) => return Err(error),
        };
        self.end_tasks();
        if let Some(transcript) = &mut self.transcript {
            transcript.close()?;
        }
        Ok(Exit::Code { code, said: None })
    }

    /// Opens the session. Returns how the process ends if there is no such session.
    fn begin(&mut self) -> Result<Option<Exit>, FileError> {
        let start = self.options.flags.start.clone();
        match start {
            Start::New(id) => {
                self.session = id.unwrap_or_else(id::uuid);
                if fs::exists(&self.transcript_path()) {
                    let said = format!("Error: Session ID {} is already in use.\n", self.session);
                    return Ok(Some(Exit::Code { code: 1, said: Some(said) }));
                }
            }
            Start::Resumed(id) => {
                self.session = id;
                if !fs::exists(&self.transcript_path()) {
                    return Ok(Some(self.unknown()));
                }
                self.open()?;
            }
            Start::Forked { from, to } => {
                self.session = from;
                if self.place().find().is_none() {
                    return Ok(Some(self.unknown()));
                }
                let to = to.unwrap_or_else(id::uuid);
                self.transcript = Some(Transcript::fork(&self.place(), &to, Ids::random())?);
                self.session = to;
            }
        }
        let cost = self.transcript.as_ref().map_or(0.0, Transcript::cost);
        let models = self.transcript.as_ref().map(|transcript| transcript.models().clone());
        self.metered.begin(cost, models.unwrap_or_default());
        Ok(None)
    }

    fn unknown(&mut self) -> Exit {
        let text = format!("No conversation found with session ID: {}", self.session);
        let result = json!({
            "type": "result",
            "subtype": "error_during_execution",
            "is_error": true,
            "duration_ms": 0,
            "duration_api_ms": 0,
            "num_turns": 0,
            "stop_reason": null,
            "total_cost_usd": 0,
            "usage": super::report::usage(super::report::NONE),
            "modelUsage": {},
            "permission_denials": [],
            "errors": [text],
        });
        // The process ends in any case.
        drop(self.tell(result));
        Exit::Code { code: 1, said: Some(format!("{text}\n")) }
    }

    /// Runs queued prompts until the input is closed and no background task is left.
    fn serve(&mut self) -> Result<(), Break> {
        let mut is_idle = true;
        loop {
            let next = self.queue.pop_front();
            if let Some(prompt) = next {
                if std::mem::replace(&mut is_idle, false) {
                    self.tell_state("running")?;
                }
                let (code, mishap) = self.turn(&prompt)?;
                self.code = code;
                crash(mishap, Point::Idle)?;
                if let Some(signal) = self.signal.take() {
                    return Err(Break::Signal(signal));
                }
                continue;
            }
            if !std::mem::replace(&mut is_idle, true) {
                self.tell_state("idle")?;
            }
            if self.input == Line::Closed && self.tasks.is_empty() {
                return Ok(());
            }
            match self.hear(None) {
                Ok(Heard::Task(id, finished)) => self.note_task(&id, &finished)?,
                // An interrupt has no effect while idle.
                Ok(_) | Err(Break::Interrupted) => {}
                Err(reason) => return Err(reason),
            }
        }
    }

    /// Fires `SessionEnd`, if the driver is still connected.
    fn farewell(&mut self) {
        let input = self.input_of("SessionEnd", Fields::Neither).with("reason", "other");
        // The session ends in any case.
        drop(self.ask("SessionEnd", Some("other"), input));
    }

    /// Waits for the next input until the deadline. Control requests are handled here.
    pub(super) fn hear(&mut self, deadline: Option<&Deadline>) -> Result<Heard, Break> {
        let Some(event) = self.inbox.next(deadline.map(Deadline::remaining)) else {
            return Ok(Heard::Late);
        };
        Ok(match event {
            Event::Line(line) => return self.line(line),
            Event::Closed => {
                self.input = Line::Closed;
                Heard::Closed
            }
            Event::Garbled => {
                let said = Some("Error parsing streaming input line\n".to_owned());
                return Err(Break::Ends(Exit::Code { code: 1, said }));
            }
            Event::Tool(finished) => Heard::Tool(finished),
            Event::Task(id, finished) => Heard::Task(id, finished),
            Event::Signal(Signal::Interrupt) => {
                self.signal = Some(Signal::Interrupt);
                if self.is_busy() {
                    Heard::Interrupt
                } else {
                    return Err(Break::Signal(Signal::Interrupt));
                }
            }
            Event::Signal(Signal::Terminate) => return Err(Break::Signal(Signal::Terminate)),
        })
    }

    fn is_busy(&self) -> bool {
        self.metered.is_in_turn()
    }

    /// Writes a line with the fields that every line has.
    pub(super) fn tell(&mut self, mut line: Value) -> Result<(), Break> {
        line["session_id"] = json!(self.session);
        line["uuid"] = json!(id::uuid());
        self.write(&line)
    }

    pub(super) fn write(&mut self, line: &Value) -> Result<(), Break> {
        let mut bytes = serde_json::to_vec(line).unwrap_or_default();
        bytes.push(b'\n');
        if (self.say)(&bytes) {
            Ok(())
        } else {
            Err(Break::Ends(Exit::Code { code: 1, said: None }))
        }
    }

    fn tell_state(&mut self, state: &str) -> Result<(), Break> {
        if self.variable(STATE_EVENTS).is_none_or(|value| !matches!(value.as_str(), "1" | "true")) {
            return Ok(());
        }
        self.tell(json!({"type": "system", "subtype": "session_state_changed", "state": state}))
    }

    /// Reports the state of a message, if the driver gave it an id.
    pub(super) fn tell_lifecycle(&mut self, prompt: &Prompt, state: &str) -> Result<(), Break> {
        let Some(id) = &prompt.id else { return Ok(()) };
        self.tell(json!({"type": "command_lifecycle", "command_uuid": id, "state": state}))
    }

    fn place(&self) -> Place<'_> {
        let Options { home, project, .. } = &self.options;
        Place { home, project, session: &self.session }
    }

    pub(super) fn transcript_path(&self) -> PathBuf {
        self.place().transcript()
    }

    fn open(&mut self) -> Result<(), FileError> {
        if self.transcript.is_none() {
            self.transcript = Some(Transcript::open(&self.place(), Ids::random())?);
        }
        Ok(())
    }

    /// The transcript, which is created at the first use.
    pub(super) fn transcript(&mut self) -> Result<&mut Transcript, FileError> {
        let Options { home, project, .. } = &self.options;
        let place = Place { home, project, session: &self.session };
        match &mut self.transcript {
            Some(transcript) => Ok(transcript),
            none => Ok(none.insert(Transcript::open(&place, Ids::random())?)),
        }
    }

    /// The transcript, if it was created.
    pub(super) fn written(&self) -> Option<&Transcript> {
        self.transcript.as_ref()
    }

    /// The directory for files of the session, beside its transcript.
    pub(super) fn scratch(&self) -> PathBuf {
        self.transcript_path().with_extension("")
    }

    pub(super) fn mode(&self) -> String {
        let Flags { mode, .. } = &self.options.flags;
        mode.clone().unwrap_or_else(|| "default".to_owned())
    }

    pub(super) fn is_bypassed(&self) -> bool {
        self.mode() == BYPASS
    }

    /// An environment variable of the client. Settings override the inherited environment, and `--settings` overrides
    /// other settings.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let mut env = self.settings().env;
        let own = || self.options.env.iter().rev().find(|(key, _)| key == name);
        env.remove(name).or_else(|| Some(own()?.1.to_string_lossy().into_owned()))
    }

    pub(super) fn settings(&self) -> settings::Loaded {
        let text = |path: PathBuf| -> Option<String> {
            let bytes = fs::read_opt(&path, LARGEST_SETTINGS).ok()??;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let claude = |directory: &Path, name: &str| text(directory.join(".claude").join(name));
        let Options { home, project, flags, .. } = &self.options;
        let given = flags.settings.as_ref().and_then(|given| {
            if given.trim_start().starts_with('{') {
                Some(given.clone())
            } else {
                text(given.into())
            }
        });
        let texts = [
            (Source::User, claude(home, "settings.json")),
            (Source::Project, claude(project, "settings.json")),
            (Source::Local, claude(project, "settings.local.json")),
            (Source::Flag, given),
        ];
        let layers = texts.iter().filter_map(|(source, text)| {
            Some(Layer { source: source.clone(), text: text.as_deref()? })
        });
        settings::load(&layers.collect::<Vec<_>>())
    }

    /// The first fields of a hook's input, common to all events.
    pub(super) fn input_of(&self, event: &str, fields: Fields) -> Input {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let has_mode = matches!(fields, Fields::Turn | Fields::Mode);
        let has_effort = matches!(fields, Fields::Turn | Fields::Effort);
        Input::default()
            .with("session_id", self.session.clone())
            .with("transcript_path", text(&self.transcript_path()))
            .with("cwd", text(&self.cwd))
            .with_some("prompt_id", self.prompt_id.clone())
            .with_some("permission_mode", has_mode.then(|| self.mode()))
            .with_some("effort", has_effort.then(|| json!({"level": "medium"})))
            .with("hook_event_name", event)
    }
}

/// Which of the shared input fields an event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fields {
    Turn,
    Mode,
    Effort,
    Neither,
}

/// Resolves the alias of a model.
pub(super) fn resolved(name: &str) -> String {
    match name {
        "default" | "opus" => transcript::MODEL,
        "sonnet" => "claude-sonnet-5-5",
        "haiku" => "claude-haiku-5-5",
        other => other,
    }
    .to_owned()
}
